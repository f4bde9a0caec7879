// Lowering: names, statics, types, shapes, index maps. In: a syntax tree and -D settings. Out: the
// block IR, or diagnostics. The only room that sees both. Uses ir.
#ifndef CODEGEN_LOWER_LOWER_H
#define CODEGEN_LOWER_LOWER_H

#include "codegen/ir/ir.h"
#include "dsl/ast.h"

// `-D NAME=VALUE` or `-D KERNEL.NAME=VALUE`; value is an expression in the language (64, bf16,
// true, 1.0e-5).
typedef struct {
  const char *kernel, *name, *value;
  Span origin;  // where a program gives it; {0, 0}: -D
} StaticSetting;

// What is known of an operand's array before lowering: binds the statics in its shape or
// dtype. dtype: DT_COUNT when the array does not say. dim: -1 where it is a run-time size.
typedef struct {
  const char *operand;
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK];
} OperandHint;

typedef struct {
  const StaticSetting *settings;
  int setting_count;
  const OperandHint *hints;
  int hint_count;
  Numerics numerics;
} LowerOptions;

// The kernel or program called `name` (NULL: the only program, else the only kernel; a diagnostic
// when there are several). NULL, with diag filled, when there is an error.
Kernel *lower(Arena *arena, const Source *source, const Node *file, const char *name,
              const LowerOptions *options, Diag *diag);

static inline bool is_entry(const Node *node) {
  return node->kind == N_KERNEL || node->kind == N_PROGRAM;
}
// Names of kernels and programs, statics of one, in source order: for messages and for telling
// NAME=VALUE arguments apart.
int kernel_names(const Node *file, const char **names, int capacity);
// The default where none is named: the only program, else the only kernel, or NULL.
const Node *default_kernel(const Node *file);
int static_names(const Node *file, const char *kernel, const char **names, int capacity);

#endif
