// The shape of a `dot`: which operand is the left one, and which are transposed. Also casts
// operands of different dtypes to one dtype.
#include "codegen/ir/rewrite.h"

#include <string.h>

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

// A dot as a product of two matrices, if it is one.
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

// ---- precision

const char *const precision_names[PRECISIONS] = {"", "default", "high", "highest"};

int bf16_products(Numerics numerics, Precision precision) {
  static const int8_t products[][PRECISIONS] = {
      [NUMERICS_F32] = {0}, [NUMERICS_HIGH] = {0, 3, 3, 0}, [NUMERICS_TPU] = {1, 1, 3, 0}};
  return products[numerics][precision];
}

// A part in bf16 has 8 bits, so one part leaves an error of 2^-8. Two parts leave 2^-16 of a
// factor. The product of the second parts, which is omitted, is as large, and counts half for each
// factor.
double bf16_lost(int products) { return products == 1 ? 0x1p-8 : 0x1.8p-16; }

// ---- one dtype

static bool is_byte(DType t) { return t == DT_I8 || t == DT_U8; }

// A dtype that represents a and b exactly, except for the signs of 32-bit integers, whose products
// wrap. Signed and unsigned bytes are multiplied without a conversion.
static DType common_dtype(DType a, DType b) {
  if (is_float(a) || is_float(b)) return dtype_product(a, b);
  if (dtype_info[a].bits <= 8 && dtype_info[b].bits <= 8) return DT_I8;
  bool pairs = dtype_info[a].bits <= 16 && dtype_info[b].bits <= 16 && a != DT_U16 && b != DT_U16;
  return pairs ? DT_I16 : DT_I32;
}

bool ir_is_mixed_dot(const Instr *v) {
  if (v->op != OP_DOT) return false;
  DType a = v->args[0]->type.dtype, b = v->args[1]->type.dtype;
  return a != b && !(is_byte(a) && is_byte(b));
}

DType ir_dot_dtype(const Instr *dot) {
  return common_dtype(dot->args[0]->type.dtype, dot->args[1]->type.dtype);
}

static bool unmix(Rewriter *w, Instr *v) {
  ir_rewrite_inside(w, v);
  if (!ir_is_mixed_dot(v)) return true;
  const DType one = ir_dot_dtype(v);
  for (int a = 0; a < 2; a++)
    if (one != DT_I8 || v->args[a]->type.dtype != DT_U8)
      v->args[a] = ir_put_cast(w, v->args[a], one);
  return true;
}

void ir_unmix_dots(Kernel *k) {
  Rewriter w = {.k = k, .rule = unmix};
  if (k->body) ir_rewrite(&w, k->body);
  if (k->reference) ir_rewrite(&w, k->reference);
}
