// Shared by the files of `pkc test`.
#ifndef CODEGEN_VERBS_TEST_TEST_H
#define CODEGEN_VERBS_TEST_TEST_H

#include "codegen/verbs/verbs.h"

typedef enum {
  DIRECTIVE_TEST,
  DIRECTIVE_ERROR,
  DIRECTIVE_WARNING,
  DIRECTIVE_CHECK,
  DIRECTIVE_REFUSED,
  DIRECTIVE_EXPLAIN,
  DIRECTIVE_EXPLAIN_NOT,
  DIRECTIVE_EMIT,
  DIRECTIVE_TARGET,
  DIRECTIVE_PROVE,
  DIRECTIVE_GRADIENT
} DirectiveKind;

// A directive of a .pk file: `// test: M=7 N=5 -D BM=16`, `// check: M=8 -> text`, ..
typedef struct {
  DirectiveKind kind;
  int line;
  const char *kernel;  // the kernel named by `-k` at its beginning, or the gradient; NULL: none
  const char *words;   // before `->`, or all of it
  const char *text;    // what is expected
} Directive;

// The current file. `failures` receives one line per failure.
typedef struct {
  Arena *arena;
  const Options *options;  // of the command line
  const char *path;
  LIST(Directive) directives;
  LIST(const char *) kernels;                // of the file, each once
  const char *usual;                         // the default kernel, or NULL
  int passed, failed, by_orders, undecided;  // the last two of --passes
  Buf failures;
} TestFile;

// test.c: adds a file, or the .pk files of a folder and the folders in it, in the order of the
// names. False with errno.
typedef LIST(const char *) PathList;
bool test_files(Arena *arena, const char *path, PathList *paths);

void test_file(TestFile *test);  // test_file.c: everything one file asks for

// agree.c: `// test:`, `// check:`, `// refused:`, `// prove:` and `// gradient:`. Returns NULL, or
// an error message.
const char *test_agreement(TestFile *test, const Directive *directive);
const char *test_finding(TestFile *test, const Directive *directive);
const char *test_refusal(TestFile *test, const Directive *directive);
const char *test_proof(TestFile *test, const Directive *directive);
const char *test_gradient(TestFile *test, const Directive *directive);
// A kernel with the sizes of a directive.
const char *bind_directive(TestFile *test, const Directive *directive, Options *options,
                           Binding *binding);

// passes.c: proves, for a `// test:`, that each pass preserves the kernel's results.
const char *test_passes(TestFile *test, const Directive *directive);

#endif
