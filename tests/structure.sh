#!/bin/sh
# The permitted dependencies. Prints one line for each violation; ends with "N passed, N failed".
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
passed=0 failed=0

ok() { passed=$((passed + 1)); }
wrong() { # TITLE LINES
  echo "FAIL structure: $1"
  echo "$2" | sed 's/^/  /'
  failed=$((failed + 1))
}

# The rooms of the compiler, and the rooms that each may use, by includes and by symbols. A room may always use itself and dsl.
rooms() {
  cat <<'TABLE'
dsl
ir
lower   ir
passes  ir
check   ir
prove   ir check
naive   ir
pallas  ir
grad    ir
tpu     ir
loops   ir
emit    ir loops
run     ir lower passes check naive loops emit
verbs   ir lower passes check prove naive loops emit run pallas grad tpu
TABLE
}

# Lines "ROOM OTHER WHAT": for each #include, and for each symbol that an object of ROOM takes from one of OTHER.
includes() {
  grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"(codegen|dsl)/' dsl codegen |
    sed -nE 's,^(dsl|codegen/([a-z]+))/([^:]*:[0-9]+):.*"(dsl|codegen/([a-z]+))/([^"]*)".*,\1 \4 \1/\3 includes \4/\6,p'
}
# The output of nm for the objects whose source exists.
objects=$(mktemp)
find "$BUILD/dsl" "$BUILD/gen" "$BUILD/codegen" "$BUILD/runtime" -name '*.o' | sort | while read -r object; do
  file=${object#"$BUILD"/}
  case $file in gen/*) ;; *) [ -e "${file%.o}.c" ] || continue ;; esac
  echo "$object"
done | xargs nm -A >"$objects"
symbols() {
  grep -v "^$BUILD/runtime/" "$objects" | awk -v build="$BUILD/" '
    { split($1, at, ":"); file = substr(at[1], length(build) + 1); sub(/\.o$/, "", file); name = $NF; kind = $(NF - 1) }
    kind == "U" { wanted[++n] = file " " name }
    kind ~ /^[TDRBVWC]$/ { home[name] = file }
    function room(f) { return f ~ /^codegen\// ? gensub_room(f) : "dsl" }
    function gensub_room(f,  p) { split(f, p, "/"); return p[1] "/" p[2] }
    END {
      for (i = 1; i <= n; i++) {
        split(wanted[i], w, " ")
        if (w[2] in home) print room(w[1]), room(home[w[2]]), w[1], "uses", w[2], "of", home[w[2]]
      }
    }'
}
# Stops at a line whose OTHER the table does not grant to ROOM.
judge() {
  rooms | awk 'FNR == NR && FILENAME == "-" { for (i = 1; i <= NF; i++) may[$1, $i] = 1; next }
    { a = $1; b = $2; sub(/^codegen\//, "", a); sub(/^codegen\//, "", b)
      if (a != b && b != "dsl" && !((a, b) in may)) { $1 = $2 = ""; print substr($0, 3) } }' - "$1"
}
list=$(mktemp)
for kind in includes symbols; do
  $kind >"$list"
  if [ ! -s "$list" ]; then wrong "no $kind found: is it built?" ""; continue; fi
  found=$(judge "$list")
  if [ -z "$found" ]; then ok; else wrong "a room uses one that it may not ($kind)" "$found"; fi
done
# Files that use each other because they walk a recursive structure: ROOM NAME FILE.. . The other files have no cyclic dependencies.
recursions() {
  cat <<'TABLE'
lower   expressions  call expr index ref stmt want
lower   programs     compose lower program program_call program_inline
check   statements   flow interp mesh
naive   elements     expr loop state
pallas  kernels      body expr kernel memory pipeline
TABLE
}
for room in $(rooms | awk '{ print $1 }'); do
  circle=$(recursions | awk -v room="$room" '
    FNR == NR && FILENAME == "-" { for (i = 3; i <= NF && $1 == room; i++) part["codegen/" room "/" $i] = "(" $2 ")"; next }
    { a = $3 in part ? part[$3] : $3; b = $7 in part ? part[$7] : $7; sub(/^codegen\//, "", $1); sub(/^codegen\//, "", $2) }
    $1 == room && $2 == room && a != b { print a, b }' - "$list" | sort -u | tsort 2>&1 >/dev/null)
  if [ -z "$circle" ]; then ok; else wrong "a circle of files in $room" "$circle"; fi
done
rm -f "$list"

# A symbol that only one file uses must be static; the compiler warns of unused static ones. Headers of generated code, tests, and the
# harness, which is compiled with kernels, count as users.
lonely=$(awk -v build="$BUILD/" '
    { split($1, at, ":"); file = substr(at[1], length(build) + 1); name = $NF; kind = $(NF - 1) }
    kind == "U" { used[name] = 1 }
    kind ~ /^[TDRBVWC]$/ && file !~ /^gen\// { home[name] = file }
    END { for (name in home) if (!(name in used) && name != "main") print name, home[name] }' "$objects" | sort | while read -r name file; do
  grep -rqw "$name" include/pk tests/unit tests/fuzzing runtime/harness.c runtime/measure.c || echo "$name of ${file%.o}.c is used there only: make it static"
done)
rm -f "$objects"
if [ -z "$lonely" ]; then ok; else wrong "a global symbol that one file uses" "$lonely"; fi
# The compiler does not warn of functions of headers.
words=$(mktemp)
cat $(find dsl codegen tests/unit tests/fuzzing -name '*.[chy]' -o -name '*.re') | grep -oE '[A-Za-z_][A-Za-z_0-9]*' | sort | uniq -c >"$words"
unused=$(grep -rhoE 'static inline [A-Za-z_0-9 *]*[ *][a-z_0-9]+\(' --include='*.h' dsl codegen | sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/' |
  awk 'FNR == NR { count[$2] = $1; next } count[$1] < 2 { print $1 }' "$words" -)
rm -f "$words"
if [ -z "$unused" ]; then ok; else wrong "a function of a header that nothing uses" "$unused"; fi

for room in $(rooms | awk '{ print $1 }' | sed '/^dsl$/d'); do
  if [ -d "codegen/$room" ]; then ok; else wrong "the table names a room that does not exist" "$room"; fi
done
strays=$(ls codegen/*.[ch] 2>/dev/null)
if [ -z "$strays" ]; then ok; else wrong "every file of codegen/ is in a room" "$strays"; fi

silent=$(for file in $(find dsl codegen runtime include/pk -name '*.[ch]'); do
  head -1 "$file" | grep -qE '^(//|/\*)' || echo "$file"
done)
if [ -z "$silent" ]; then ok; else wrong "the first line of a file does not state its purpose" "$silent"; fi

# rule NAME PATTERN FILE..: no file may have an #include that matches.
rule() {
  name=$1 pattern=$2
  shift 2
  if found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$pattern" /dev/null "$@"); then wrong "$name" "$found"; else ok; fi
}
# f64.h and bound.h define functions and the growth of errors, for the interpreter and for compiled references.
shared="codegen/ir/scalar.c codegen/check/bound.c"
compiler=$(find dsl codegen -type f ! -path codegen/ir/scalar.c ! -path codegen/check/bound.c ! -path codegen/loops/target.c ! -path codegen/loops/machine.h)
# cpu.h detects the features of the processor, for --target=native and for the runtime.
rule "targets include cpu.h alone of what generated code does" '(include/)?pk/([^c]|c[^p])|dlpack' codegen/loops/target.c
# regimes.h: the sizes that choose the form of a product, for decisions at compile time and in generated code.
rule "the compiler's numbers of the machine include the table of regimes alone of what generated code does" \
  '(include/)?pk/([^d]|d[^o]|do[^t]|dot[^/]|dot/([^r]|r[^e]))|dlpack' codegen/loops/machine.h
rule "the interpreter includes f64.h and bound.h alone of what generated code does" '(include/)?pk/([^bf]|b[^o]|f[^6])|dlpack' $shared
runtime=$(find runtime include/pk -type f)
rule "the compiler does not include the headers of generated code" '(include/)?pk/|dlpack' $compiler
rule "the compiler does not include the runtime" '(\.\./)?runtime/' $compiler
rule "the compiler does not include SIMDe" 'simde' $compiler
rule "runtime and public headers do not include the compiler" '(\.\./)?(dsl|codegen)/' $runtime
rule "only vec.h includes SIMDe" 'simde' $(find runtime include/pk tests/unit -name '*.[ch]' ! -path include/pk/vec.h)
rule "only lowering, who hands it the tree, and the table of derivatives see the syntax tree" 'dsl/ast\.h' \
  $(find codegen -name '*.[ch]' ! -path codegen/grad/table.c ! -path 'codegen/lower/*' ! -path 'codegen/run/program.*' ! -path 'codegen/verbs/*')
rule "no generated or private headers in include/pk" '"' $(find include/pk -type f)

# Decisions are data: only emission has names of C functions and C text, and nothing reads text that was written.
if found=$(grep -nE '"[^"]*\bpks?_' $(find codegen/loops -name "*.[ch]")); then wrong "loops names no function of C" "$found"; else ok; fi
if found=$(grep -nE '\b(strstr|strn?cmp|strchr|strrchr|strtol|strtoll|strspn|strcspn)\(' $(find codegen/loops codegen/emit -name "*.c" |
  grep -vE '/(scope|target|explain)\.c$') | grep -vE '(k|step)->name'); then wrong "nothing is decided by reading text" "$found"; else ok; fi

# Loops make the decisions that depend on the machine: emission prints the columns of the target at the beginning of a file and reads no others.
if found=$(grep -nE 'g->target->' $(ls codegen/emit/*.c | grep -v '/emit\.c$')); then wrong "emission does not ask the target" "$found"; else ok; fi

if command -v lemon >/dev/null && [ -e dsl/parser.y ]; then
  dir=$(mktemp -d)
  if lemon -q -l -d"$dir" dsl/parser.y >"$dir/log" 2>&1; then ok; else
    wrong "lemon reports conflicts or errors in dsl/parser.y" "$(cat "$dir/log")"
  fi
  rm -rf "$dir"
fi
# Every kind of finding is in the manual.
missing=$(sed -n 's/^FIND([A-Z_]*, "\([a-z-]*\)".*/\1/p' codegen/check/findings.def | while read -r kind; do
  grep -q "\`$kind\`" docs/checking.md || echo "$kind"
done)
if [ -z "$missing" ]; then ok; else wrong "docs/checking.md does not name these findings" "$missing"; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
