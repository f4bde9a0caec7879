#!/bin/sh
# Largest errors of the functions of include/pk/vec/math.h over all 2^32 floats, with a fused multiply-add and without, into the table
# of docs/numerics.md. Called by `make exhaustive`; arguments are names of functions, none means all.
cd "$(dirname "$0")/.." || exit 1
out=${BUILD:-build}/exhaustive
table=docs/numerics.md
mkdir -p "$out"
status=0
for kind in fused separate; do
  native=$([ $kind = fused ] && echo -march=native)
  # shellcheck disable=SC2086
  ${CC:-cc} -std=c11 -O2 -fopenmp -ffp-contract=off -I. -Iinclude -DONE_WIDTH $native -o "$out/$kind" tests/unit/test_math.c -lm || exit 1
  "$out/$kind" exhaustive "$@" | tee "$out/$kind.txt"
  # The pipe hides the status of the program: an error above its bound is a line of the output.
  grep -q "above its bound" "$out/$kind.txt" && status=1
done
# A line has a function, its largest error and the argument; it becomes the fourth or fifth cell of the function's row.
awk -F ' *[|] *' -v OFS=' | ' '
  FILENAME ~ /\.txt$/ { split($0, word, " "); found[FILENAME ~ /fused/ ? 5 : 6, word[1]] = word[2] " at " word[3]; next }
  NF == 7 && ((5, $2) in found || (6, $2) in found) {
    for (k = 5; k <= 6; k++) if ((k, $2) in found) $k = found[k, $2]
    $0 = "| " $2 OFS $3 OFS $4 OFS $5 OFS $6 " |"
  }
  { print }' "$out/fused.txt" "$out/separate.txt" $table >"$out/numerics.md" && cp "$out/numerics.md" $table
exit $status
