// The shape of a `dot`: which operand is the left one, and what of it is transposed.
#include "codegen/ir/ir.h"

static const Instr *skip_transpose(const Instr *v, bool *transposed) {
  while (v->op == OP_TRANSPOSE && v->type.rank == 2 && v->ints[0] == 1) {
    *transposed = !*transposed;
    v = v->args[0];
  }
  return v;
}

static bool find_label(const int8_t *labels, int8_t label, int *axis) {
  for (*axis = 0; *axis < 2; ++*axis)
    if (labels[*axis] == label) return true;
  return false;
}

DotShape dot_shape(const Instr *v) {
  DotShape s = {.a = v->args[0], .b = v->args[1]};
  if (s.a->type.rank != 2 || s.b->type.rank != 2 || v->type.rank != 2) return s;
  for (int i = 0; i < 2; i++)
    if (v->args[i]->type.dtype == DT_U16 || is_wide(v->args[i]->type.dtype)) return s;
  const int8_t *a = v->labels.a, *b = v->labels.b, *out = v->labels.out;
  int m, n;
  if (!find_label(a, out[0], &m)) {
    const int8_t *other = a;
    a = b;
    b = other;
    s.a = v->args[1];
    s.b = v->args[0];
  }
  if (!find_label(a, out[0], &m) || !find_label(b, out[1], &n) || out[0] == out[1]) return s;
  if (a[1 - m] != b[1 - n] || a[1 - m] == out[0] || a[1 - m] == out[1]) return s;
  s.a_transposed = m == 1;
  s.b_transposed = n == 0;
  s.matrices = true;
  s.plain = v->type.dim[1] != 1;
  s.a = (Instr *)(uintptr_t)skip_transpose(s.a, &s.a_transposed);
  s.b = (Instr *)(uintptr_t)skip_transpose(s.b, &s.b_transposed);
  return s;
}
