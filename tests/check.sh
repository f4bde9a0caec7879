#!/bin/sh
# Runs every group of tests and adds up their "N passed, N failed" lines. Called by `make check`.
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PKC=$PWD/$BUILD/pkc
export BUILD PKC
passed=0 failed=0
mkdir -p "$BUILD/check"
# `make check` starts from an empty cache of its own: a stale object must never pass a test.
XDG_CACHE_HOME=$PWD/$BUILD/check/cache
export XDG_CACHE_HOME
rm -rf "$XDG_CACHE_HOME"

# group NAME COMMAND..: shows its failures, counts its last "N passed, N failed" line; a crash counts as one failure.
group() {
  name=$1
  shift
  log=$BUILD/check/$(echo "$name" | tr '/ ' '__').log
  start=$(date +%s)
  "$@" >"$log" 2>&1
  status=$?
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [ -z "$counts" ]; then
    if [ $status = 0 ]; then counts="1 passed, 0 failed"; else counts="0 passed, 1 failed"; fi
  fi
  p=${counts%% *} f=${counts#*, } f=${f%% *}
  [ $status != 0 ] && [ "$f" = 0 ] && f=1
  passed=$((passed + p)) failed=$((failed + f))
  if [ "$f" != 0 ]; then
    grep -vE '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 40
    echo "FAIL $name (status $status); reproduce: $*"
  fi
  printf '%-28s %5d passed, %d failed  (%d s)\n' "$name" "$p" "$f" $(($(date +%s) - start))
}

group structure tests/structure.sh
for t in tests/unit/*.c; do
  [ -e "$t" ] && group "unit/$(basename "$t" .c)" "$BUILD/${t%.c}"
done
for d in tests/cases/*/ kernels; do
  [ -n "$(ls "$d"/*.pk 2>/dev/null)" ] && group "${d%/}" "$PKC" test "${d%/}"
done
# The same cases by another compiler, and for another architecture under qemu.
if [ "$(basename "${CC:-cc}")" != clang ] && command -v clang >/dev/null; then
  group "clang tests/cases/kernels" env PKC_TEST_CC=clang "$PKC" test tests/cases/kernels
fi
if [ "$(uname -m)" != aarch64 ] && [ -z "${PKC_CFLAGS:-}" ] && command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
  group "aarch64 runtime" ${MAKE:-make} -s BUILD=build/aarch64 CC=aarch64-linux-gnu-gcc build/aarch64/libpkrt.a
  group "aarch64 tests/cases/kernels" env CC=aarch64-linux-gnu-gcc PKC_RUNNER=qemu-aarch64 PKC_CFLAGS=-static \
    PKC_LIBRARY=build/aarch64/libpkrt.a "$PKC" test --target aarch64 tests/cases/kernels
fi
for t in tests/*.py; do
  [ -e "$t" ] && group "${t%.py}" "${PYTHON:-python3}" "$t"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
