#!/bin/sh
# Runs every group of tests, two at a time, and adds up their "N passed, N failed" lines. Called by `make check`.
#
#   tests/check.sh                       all groups
#   tests/check.sh --group NAME=COMMAND  one: shows its failures and a line of progress, adds its counts to $BUILD/check/counts
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PKC=$PWD/$BUILD/pkc
PYTHON=${PYTHON:-python3}
export BUILD PKC PYTHON
checks=$BUILD/check

# Counts come from the group's last "N passed, N failed" line; one that ends badly without such a line is one failure.
if [ "${1:-}" = --group ]; then
  name=${2%%=*} command=${2#*=}
  log=$checks/$(echo "$name" | tr '/ ' '__').log
  start=$(date +%s)
  sh -c "$command" >"$log" 2>&1
  status=$?
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [ -z "$counts" ]; then
    if [ $status = 0 ]; then counts="1 passed, 0 failed"; else counts="0 passed, 1 failed"; fi
  fi
  p=${counts%% *} f=${counts#*, } f=${f%% *}
  [ $status != 0 ] && [ "$f" = 0 ] && f=1
  {
    if [ "$f" != 0 ]; then
      grep -vE '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 40
      echo "FAIL $name (status $status); reproduce: $command"
    fi
    grep '^skipped: ' "$log"
    printf '%-28s %8d passed, %d failed  (%d s)\n' "$name" "$p" "$f" $(($(date +%s) - start))
  } >"$log.shown"
  cat "$log.shown"
  echo "$p $f" >>"$checks/counts"
  exit 0
fi

has() { command -v "$1" >/dev/null; }

# The groups, as NAME=COMMAND lines, those that take long first.
list() {
  pkc_test="$PKC test"
  echo "kernels=$pkc_test kernels"
  # The same cases by another compiler, and for another architecture under qemu.
  if has clang && [ "$(basename "${CC:-cc}")" != clang ]; then
    echo "clang=PKC_TEST_CC=clang $pkc_test tests/cases/kernels"
  fi
  if [ "$(uname -m)" != aarch64 ] && [ -z "${PKC_CFLAGS:-}" ] && has aarch64-linux-gnu-gcc && has qemu-aarch64; then
    library=build/aarch64/libpkrt.a
    echo "aarch64=${MAKE:-make} -s BUILD=build/aarch64 CC=aarch64-linux-gnu-gcc $library &&" \
      "CC=aarch64-linux-gnu-gcc PKC_RUNNER=qemu-aarch64 PKC_CFLAGS=-static PKC_LIBRARY=$library" \
      "$pkc_test --target aarch64 tests/cases/kernels"
  fi
  for t in tests/*.py; do
    [ -e "$t" ] && echo "${t%.py}=$PYTHON $t"
  done
  for t in tests/unit/*.c; do
    [ -e "$t" ] && echo "unit/$(basename "$t" .c)=$BUILD/${t%.c}"
  done
  for d in tests/cases/*/; do
    [ -n "$(ls "$d"*.pk 2>/dev/null)" ] && echo "${d%/}=$pkc_test ${d%/}"
  done
  echo "structure=tests/structure.sh"
}

# Every check starts from an empty cache of its own: a stale program must never pass a test.
XDG_CACHE_HOME=$PWD/$checks/cache
PKC_JOBS=1
export XDG_CACHE_HOME PKC_JOBS
rm -rf "$checks"
mkdir -p "$checks"
: >"$checks/counts"
list >"$checks/groups"
xargs -P 2 -d '\n' -n 1 tests/check.sh --group <"$checks/groups"
awk -v groups="$(wc -l <"$checks/groups")" \
  '{ passed += $1; failed += $2 } END { if (NR != groups) failed++; printf "%d passed, %d failed\n", passed, failed; exit failed != 0 }' \
  "$checks/counts"
