#!/bin/sh
# The Python package: a wheel is made, installed in a virtual environment, and python/tests run there. JAX and torch are used
# where `make jax` or `make bench-peers` has installed them. `tests/python.sh WORDS..` gives pytest other words than python/tests.
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PYTHON=${PYTHON:-python3}
case ${PKC_CFLAGS:-} in *-fsanitize*)
  echo "SKIPPED python: Python itself has no sanitizers"
  echo "0 passed, 0 failed"
  exit 0
  ;;
esac

# The Python that has the most: its folder of packages is added to the environment's own.
peers=
for folder in build/venv build/jax; do
  [ -x $folder/bin/python ] && $folder/bin/python -c 'import numpy, ml_dtypes' 2>/dev/null || continue
  PYTHON=$folder/bin/python
  peers=$($PYTHON -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  break
done

packages="pytest hatchling flatbuffers auditwheel"  # flatbuffers: jax.export writes programs with it
[ -n "$peers" ] || packages="$packages numpy ml_dtypes"
venv=$BUILD/python-venv
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

rm -rf "$BUILD/python-wheel"
$python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation -w "$BUILD/python-wheel" ./python &&
  $python -m pip --disable-pip-version-check install --quiet --no-deps --force-reinstall "$BUILD"/python-wheel/*.whl || {
  echo "FAIL python: the wheel cannot be made or installed; reproduce: make python-check"
  exit 1
}
PKC_WHEEL=$(ls "$PWD/$BUILD"/python-wheel/*.whl)
export PKC_WHEEL
[ $# -gt 0 ] || set -- python/tests
JAX_PLATFORMS=cpu exec "$PWD/$python" -m pytest -q --tb=short -p no:cacheprovider "$@"
