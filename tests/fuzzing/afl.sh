#!/bin/sh
# Called by `make fuzz`: builds the compiler for AFL++ in $BUILD, fuzzes $FEED for $SECONDS, and prints the findings.
cd "$(dirname "$0")/../.." || exit 1
command -v afl-clang-fast >/dev/null || { echo "make fuzz: afl-clang-fast is not installed (Debian: apt-get install afl++)"; exit 2; }
san="-fsanitize=address,undefined -fno-sanitize-recover=all"
AFL_QUIET=1 ${MAKE:-make} -s BUILD="$BUILD" CC=afl-clang-fast SANFLAGS="$san" "$BUILD/libpkc.a" || exit 1
AFL_QUIET=1 afl-clang-fast -std=c11 -g -O2 $san -I. -I"$BUILD/gen" tests/fuzzing/afl.c tests/fuzzing/feed.c "$BUILD/libpkc.a" \
  -lm -o "$BUILD/afl" || exit 1
out=$BUILD/$FEED
seeds=$BUILD/seeds-$FEED
rm -rf "$seeds"
mkdir -p "$seeds" "$out"
pattern=$("$BUILD/afl" 2>&1 | awk -v feed="$FEED" '$1 == feed { print $NF }')
[ -n "$pattern" ] || { "$BUILD/afl"; exit 2; }
for f in $pattern tests/fuzzing/corpus/"$FEED"/*; do
  [ -f "$f" ] && [ "$(wc -c <"$f")" -lt 1500 ] && cp "$f" "$seeds/$(echo "$f" | tr / _)"
done
grep -ohE '"[a-z_0-9]{2,}"' dsl/*.def codegen/ir/*.def | sort -u | awk '{ print "w" NR "=" $0 }' >"$BUILD/words.dict"
AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_NO_UI=1 AFL_AUTORESUME=1 \
  afl-fuzz -V "$SECONDS" -t 2000 -m none -x "$BUILD/words.dict" -i "$seeds" -o "$out" -- "$BUILD/afl" "$FEED" >"$out/log" 2>&1
tail -n 3 "$out/log"
grep -E '^(execs_done|corpus_count|saved_crashes|saved_hangs|edges_found)' "$out/default/fuzzer_stats"
for f in "$out"/default/crashes/id*; do
  [ -e "$f" ] || { echo "no crash"; exit 0; }
  echo "crash: $BUILD/afl $FEED <'$f'"
done
exit 1
