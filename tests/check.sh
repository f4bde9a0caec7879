#!/bin/sh
# Runs groups of tests, two at a time, and adds up their "N passed, N failed" lines. Called by `make check` and its relatives.
#
#   tests/check.sh                       the groups of $PKC_TESTS: fast, sample or all (the default)
#   tests/check.sh --group NAME=COMMAND  one: shows its failures and a line of progress, adds its counts to $BUILD/check/counts
#
# A group prints one line for each failure, "SKIPPED NAME: WHY" for tests that this machine cannot run, and "left out: N of M .." for
# those that $PKC_TESTS leaves out. UNITS: the unit tests to run (default: all).
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
PKC=$PWD/$BUILD/pkc
PYTHON=${PYTHON:-python3}
PKC_TESTS=${PKC_TESTS:-all}
[ "$PKC_TESTS" = all ] && export PKC_TEST_PORTABLE="${PKC_TEST_PORTABLE:--O2}"
export BUILD PKC PYTHON PKC_TESTS
checks=$BUILD/check

# Prints a line after two seconds and every 30 seconds from then on, until it is ended.
progress() {
  trap 'kill $pause; exit' TERM
  for seconds in 2 28; do
    sleep $seconds >/dev/null 2>&1 & pause=$!
    wait $pause
    [ $seconds = 2 ] && echo "  ... $1"
  done
  while :; do
    echo "  ... $1  ($(($(date +%s) - start)) s; $(wc -l <"$checks/counts") of $(wc -l <"$checks/groups") groups done)"
    sleep 30 >/dev/null 2>&1 & pause=$!
    wait $pause
  done
}

# The lines FAIL .. of a failed group, or the end of its output.
failures() {
  if grep -q '^FAIL' "$1"; then
    grep '^FAIL' "$1" | head -n 40
    return
  fi
  grep -vE '^[0-9]+ passed, [0-9]+ failed|^left out: |^SKIPPED ' "$1" | tail -n 40
}

# Counts come from the group's last "N passed, N failed" line; one that ends badly without such a line is one failure.
if [ "${1:-}" = --group ]; then
  name=${2%%=*} command=${2#*=}
  log=$checks/$(echo "$name" | tr '/ ' '__').log
  start=$(date +%s)
  progress "$name" & ticker=$!
  sh -c "$command" >"$log" 2>&1
  status=$?
  kill $ticker
  wait $ticker 2>/dev/null
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  if [ -z "$counts" ]; then
    if [ $status = 0 ]; then counts="1 passed, 0 failed"; else counts="0 passed, 1 failed"; fi
  fi
  p=${counts%% *} f=${counts#*, } f=${f%% *}
  [ $status != 0 ] && [ "$f" = 0 ] && f=1
  {
    if [ "$f" != 0 ]; then
      failures "$log"
      echo "FAIL $name (status $status; all it said is in $log); reproduce: PKC_TESTS=$PKC_TESTS $command"
    fi
    printf '%-28s %8d passed, %d failed  (%d s)\n' "$name" "$p" "$f" $(($(date +%s) - start))
  } >"$log.shown"
  cat "$log.shown"
  grep '^SKIPPED ' "$log" >>"$checks/skipped"
  sed -n "s|^left out: |$name: |p" "$log" >>"$checks/left"
  echo "$p $f" >>"$checks/counts"
  exit 0
fi

has() { command -v "$1" >/dev/null; }
skipped() { echo "SKIPPED $1: $2" >>"$checks/skipped"; }

# `pkc test` on the files of a folder: on all of them, or on a sample of SAMPLE or FAST files, chosen as in tests/sampling.py.
cases() { # cases FOLDER SAMPLE FAST
  most=1000000
  [ "$PKC_TESTS" = sample ] && most=$2
  [ "$PKC_TESTS" = fast ] && most=$3
  total=$(find "$1" -maxdepth 1 -name '*.pk' | wc -l)
  if [ "$most" -ge "$total" ]; then
    echo "$PKC test $1"
    return
  fi
  chosen=$(find "$1" -maxdepth 1 -name '*.pk' | LC_ALL=C sort |
    awk '{ x = (NR - 1) * 0.6180339887498949; printf "%.9f %s\n", x - int(x), $0 }' | sort -n | head -n "$most" | cut -d ' ' -f 2)
  echo "echo left out: $((total - most)) of $total files;" "$PKC test" $chosen
}

# The same in two groups of half the files each, so that a folder that takes minutes is not the last to end.
halves() { # halves FOLDER
  for half in 1 2; do
    echo "$1/$half=$PKC test $(find "$1" -maxdepth 1 -name '*.pk' | LC_ALL=C sort | awk "NR % 2 == $half % 2" | tr '\n' ' ')"
  done
}

# The same cases by another compiler, and for another architecture under qemu.
other_compilers() {
  if [ "$(basename "${CC:-cc}")" != clang ]; then
    if has clang; then
      echo "clang=export PKC_TEST_CC=clang; $(cases tests/cases/kernels 4 0)"
    else
      skipped clang "clang is not installed"
    fi
  fi
  [ "$(uname -m)" = aarch64 ] && return
  if [ -n "${PKC_CFLAGS:-}" ]; then
    skipped aarch64 "PKC_CFLAGS are for this machine's compiler"
  elif has aarch64-linux-gnu-gcc && has qemu-aarch64; then
    library=build/aarch64/libpkrt.a
    echo "aarch64=${MAKE:-make} -s BUILD=build/aarch64 CC=aarch64-linux-gnu-gcc $library || exit 1;" \
      "export CC=aarch64-linux-gnu-gcc PKC_RUNNER=qemu-aarch64 PKC_CFLAGS=-static PKC_LIBRARY=$library;" \
      "$(cases tests/cases/kernels 4 0 | sed "s,$PKC test,& --target aarch64,")"
  else
    skipped aarch64 "aarch64-linux-gnu-gcc or qemu-aarch64 is not installed"
  fi
}

unit_groups() {
  for t in ${UNITS:-tests/unit/*.c}; do
    echo "unit/$(basename "$t" .c)=$BUILD/${t%.c}"
  done
}

# The groups as NAME=COMMAND lines, long ones first.
list() {
  echo "kernels=$PKC test $(echo kernels/*.pk)"
  for d in kernels/*/; do
    case $d in
    */collectives/) sample=5 ;;
    *) sample=1000 ;;
    esac
    echo "${d%/}=$(cases "${d%/}" $sample 0)"
  done
  other_compilers
  echo "divided=$(cases tests/cases/operations 6 0 | sed "s,$PKC test,& --long-cell 1,")"
  for t in tests/*.py; do
    case $t in */sampling.py | */suite.py | */mutants.py | */smallest.py | */coverage.py) continue ;; esac; echo "${t%.py}=$PYTHON $t"
  done
  echo "python=tests/python.sh"
  echo "python_oldest_jax=tests/python.sh --oldest"
  unit_groups
  for d in tests/cases/*/; do
    [ -n "$(ls "$d"*.pk 2>/dev/null)" ] || continue
    case $d in # those that compile most
    */kernels/) sample=10 ;;
    */lang/) sample=12 ;;
    */bugs/) sample=20 ;;
    */hazards/) sample=12 ;;
    */structure/) sample=12 ;;
    */dtypes/) sample=5 ;;
    */memory/) sample=14 ;;
    *) sample=1000 ;;
    esac
    if [ "$d$PKC_TESTS" = tests/cases/structure/all ]; then
      halves "${d%/}"
    else
      echo "${d%/}=$(cases "${d%/}" $sample 0)"
    fi
  done
  echo "mutation_table=$PYTHON tests/mutants.py --check"
  echo "structure=tests/structure.sh"
}

list_fast() {
  halves tests/cases/structure
  echo "tests/random_kernels=$PYTHON tests/random_kernels.py"
  echo "tests/random_meshes=$PYTHON tests/random_meshes.py"
  echo "tests/mesh_faults=$PYTHON tests/mesh_faults.py"
  echo "tests/mesh_reports=$PYTHON tests/mesh_reports.py"
  echo "tests/random_proofs=$PYTHON tests/random_proofs.py"
  echo "tests/prose=$PYTHON tests/prose.py"
  echo "mutation_table=$PYTHON tests/mutants.py --check"
  echo "tests/passes_proved=$PYTHON tests/passes_proved.py"
  echo "tests/cases/lang=$(cases tests/cases/lang 0 4)"
  echo "tests/cases/bugs=$(cases tests/cases/bugs 0 4)"
  for d in check errors; do
    echo "tests/cases/$d=$(cases tests/cases/$d 0 1000)"
  done
  unit_groups
  echo "structure=tests/structure.sh"
}

# Every check starts from an empty cache of its own: a stale program must never pass a test.
XDG_CACHE_HOME=$PWD/$checks/cache
PKC_JOBS=1
export XDG_CACHE_HOME PKC_JOBS
rm -rf "$checks"
mkdir -p "$checks"
: >"$checks/counts"
: >"$checks/skipped"
: >"$checks/left"
case $PKC_TESTS in
fast) list_fast ;;
sample | all) list ;;
*) echo "PKC_TESTS=$PKC_TESTS: expected fast, sample or all" >&2; exit 2 ;;
esac >"$checks/groups"
xargs -P 2 -d '\n' -n 1 tests/check.sh --group <"$checks/groups"
if [ "$PKC_TESTS" != all ]; then
  echo "left out by PKC_TESTS=$PKC_TESTS (make check-all runs everything):"
  sort "$checks/left" | sed 's/^/  /'
  [ "$PKC_TESTS" = fast ] && echo "  every other group of tests"
fi
sort "$checks/skipped"
echo "$(wc -l <"$checks/skipped") skipped"
awk -v groups="$(wc -l <"$checks/groups")" \
  '{ passed += $1; failed += $2 } END { if (NR != groups) failed++; printf "%d passed, %d failed\n", passed, failed; exit failed != 0 }' \
  "$checks/counts"
