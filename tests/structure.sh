#!/bin/sh
# Who may include whom. Prints one line a violation; ends with "N passed, N failed".
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0

# rule NAME PATTERN FILE..: no file may have an #include that matches.
rule() {
  name=$1 pattern=$2
  shift 2
  files=
  for f; do [ -e "$f" ] && files="$files $f"; done
  if [ -n "$files" ] && found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$pattern" /dev/null $files); then
    echo "FAIL structure: $name"
    echo "$found" | sed 's/^/  /'
    failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}

rule "dsl/ includes nothing of codegen/" 'codegen/' dsl/*
# bound.h says how errors are propagated, for the interpreter and for compiled references alike.
bounds='^codegen/check/bound\.c$'
rule "the compiler does not include the headers of generated code" '(include/)?pk/|dlpack' $(ls dsl/* codegen/* | grep -v "$bounds")
rule "the interpreter's error bounds include bound.h alone" '(include/)?pk/([^b]|b[^o])|dlpack' codegen/check/bound.c
rule "the compiler does not include the runtime" '(\.\./)?runtime/' dsl/* codegen/*
rule "the compiler does not include SIMDe" 'simde' dsl/* codegen/*
rule "runtime and public headers do not include the compiler" '(\.\./)?(dsl|codegen)/' runtime/* include/pk/*
others=$(ls runtime/*.[ch] include/pk/*.h tests/unit/*.c 2>/dev/null | grep -v '^include/pk/vec\.h$')
rule "only vec.h includes SIMDe" 'simde' $others
rule "only lowering sees the syntax tree in codegen/" 'dsl/ast\.h' $(ls codegen/*.[ch] | grep -vE '^codegen/(lower|driver|verb_|load|options)')
rule "no generated or private headers in include/pk" '"' include/pk/*

if command -v lemon >/dev/null && [ -e dsl/parser.y ]; then
  dir=$(mktemp -d)
  if lemon -q -l -d"$dir" dsl/parser.y >"$dir/log" 2>&1; then passed=$((passed + 1)); else
    echo "FAIL structure: lemon reports conflicts or errors in dsl/parser.y"
    sed 's/^/  /' "$dir/log"
    failed=$((failed + 1))
  fi
  rm -rf "$dir"
fi
# Every kind of finding is in the manual.
missing=$(sed -n 's/^FIND([A-Z_]*, "\([a-z-]*\)".*/\1/p' codegen/check/findings.def | while read -r kind; do
  grep -q "\`$kind\`" docs/checking.md || echo "$kind"
done)
if [ -z "$missing" ]; then passed=$((passed + 1)); else
  echo "FAIL structure: docs/checking.md does not name these findings:" $missing
  failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
