#!/bin/sh
# The Python package: builds a wheel, installs it in a virtual environment, and runs python/tests there. JAX and torch are used
# if `make jax` or `make bench-peers` has installed them.
#
#   tests/python.sh [WORDS..]            with the newest JAX; WORDS are those of pytest, without them python/tests
#   tests/python.sh --oldest [WORDS..]   with the oldest JAX that pkc.pallas takes; without WORDS some of the tests that use JAX
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PYTHON=${PYTHON:-python3}
environments="build/venv build/jax" variant=
if [ "${1:-}" = --oldest ]; then
  shift
  environments=build/jax-oldest variant=-oldest
  [ $# -gt 0 ] || { set -- python/tests/test_jax_call.py python/tests/test_pallas_in.py python/tests/test_pallas_values.py \
    python/tests/test_pallas_pipelines.py python/tests/test_examples.py; PKC_TESTS=few; export PKC_TESTS; }
fi
case ${PKC_CFLAGS:-} in *-fsanitize*)
  echo "SKIPPED python: Python itself has no sanitizers"
  echo "0 passed, 0 failed"
  exit 0
  ;;
esac

# The Python with the newest JAX, and the most packages; its folder of packages is added to that of the environment.
peers= newest=
for folder in $environments; do
  found=$($folder/bin/python -c 'import ml_dtypes, numpy, re
from importlib import metadata
jax = [one.version for one in metadata.distributions(name="jax")] or ["0"]
print("".join("%05d" % int(n) for n in re.findall(r"[0-9]+", jax[0])[:3]))' 2>/dev/null) || continue
  expr "x$found" \> "x$newest" >/dev/null || continue
  newest=$found
  PYTHON=$folder/bin/python
  peers=$($PYTHON -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
done
if [ -n "$variant" ] && [ -z "$peers" ]; then
  echo "SKIPPED python$variant: JAX is not installed in $environments (make jax)"
  echo "0 passed, 0 failed"
  exit 0
fi

packages="pytest hatchling flatbuffers auditwheel ipython ipykernel nbclient"  # flatbuffers: jax.export writes programs with it
[ -n "$peers" ] || packages="$packages numpy ml_dtypes"
venv=$BUILD/python-venv$variant wheels=$BUILD/python-wheel$variant
python=$venv/bin/python
version=$($PYTHON --version)
if [ "$($python --version 2>/dev/null) $(cat $venv/peers 2>/dev/null)" != "$version $peers" ] || [ "$(cat $venv/installed 2>/dev/null)" != "$packages" ]; then
  rm -rf $venv
  $PYTHON -m venv $venv || { echo "FAIL python: $PYTHON has no venv; try: make deps"; exit 1; }
  echo "$peers" >$venv/peers
  [ -n "$peers" ] && echo "$peers" >"$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/peers.pth"
  # shellcheck disable=SC2086
  if ! $python -m pip --disable-pip-version-check install --quiet $packages; then
    echo "SKIPPED python: pip cannot install $packages"
    echo "0 passed, 0 failed"
    exit 0
  fi
  echo "$packages" >$venv/installed
fi

rm -rf "$wheels"
flock "$BUILD" "$python" -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation -w "$wheels" ./python &&
  $python -m pip --disable-pip-version-check install --quiet --no-deps --force-reinstall "$wheels"/*.whl || {
  echo "FAIL python: the wheel cannot be made or installed; reproduce: make python-check"
  exit 1
}
PKC_WHEEL=$(ls "$PWD/$wheels"/*.whl)
export PKC_WHEEL
[ $# -gt 0 ] || set -- python/tests
JAX_PLATFORMS=cpu exec "$PWD/$python" -m pytest -q --tb=short -p no:cacheprovider "$@"
