// Lowering: names, statics, types, shapes, index maps. In: a syntax tree and -D settings. Out: the
// block IR, or diagnostics. The only folder that sees both. Uses ir.
#ifndef CODEGEN_LOWER_LOWER_H
#define CODEGEN_LOWER_LOWER_H

#include "codegen/ir/ir.h"
#include "dsl/ast.h"

// `-D NAME=VALUE` or `-D KERNEL.NAME=VALUE`; value is an expression in the language (64, bf16,
// true, 1.0e-5).
typedef struct {
  const char *kernel, *name, *value;
  Span origin;  // its position in a program; {0, 0}: -D
} StaticSetting;

// The known properties of an operand's array before lowering, which determine the statics in its
// shape or dtype. dtype: DT_COUNT if unknown. dim: -1 if it is a run-time size.
typedef struct {
  const char *operand;
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK];
} OperandHint;

// A fact about a declared name of the source, for editors.
typedef struct {
  Span name;
  const char *type;  // f32[8, 128]; of a constant its value
  const char *more;  // its memory space and bytes, or NULL
  bool value;        // a constant
} NameFact;
typedef LIST(NameFact) NameFacts;

typedef struct {
  const StaticSetting *settings;
  int setting_count;
  const OperandHint *hints;
  int hint_count;
  Numerics numerics;
  NameFacts *facts;  // receives the kernel's facts, even if it has errors; may be NULL
} LowerOptions;

// The kernel or program called `name` (NULL: the only program, else the only kernel; an error if
// there are several). NULL, with diag filled, after an error.
Kernel *lower(Arena *arena, const Source *source, const Node *file, const char *name,
              const LowerOptions *options, Diag *diag);

// The functions of the language, for editors.
enum { MAX_ARGUMENTS = 8 };
typedef struct {
  const char *name, *text;  // text: as in a signature, "axis = .."
  bool rest;                // stands for all further arguments
} LanguageParameter;
typedef struct {
  const char *name;
  const char *meaning;  // or NULL: the manual has it
  LanguageParameter parameter[MAX_ARGUMENTS];
  int count;
} LanguageFunction;
// Function number `index` in the order of the tables; false: there are fewer.
bool language_function(Arena *arena, int index, LanguageFunction *out);

static inline bool is_entry(const Node *node) {
  return node->kind == N_KERNEL || node->kind == N_PROGRAM;
}
// Names of kernels and programs, and the statics of one, in source order: for messages and to
// distinguish NAME=VALUE arguments.
int kernel_names(const Node *file, const char **names, int capacity);
// How many items of a kernel come before its first body statement.
int count_declarations(const Node *items);
// The default if none is named: the only program, else the only kernel, or NULL.
const Node *default_kernel(const Node *file);
int static_names(const Node *file, const char *kernel, const char **names, int capacity);

#endif
