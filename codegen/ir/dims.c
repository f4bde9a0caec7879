// Numbers of elements of shapes whose axes are sizes, compared for all values of the sizes.
#include "codegen/ir/dims.h"

#include <string.h>

bool extent_same(const Extent *a, const Extent *b) {
  return a->factor == b->factor && a->sizes == b->sizes &&
         memcmp(a->size, b->size, (size_t)a->sizes * sizeof *a->size) == 0;
}

bool extent_mul(const Extent *a, const Extent *b, Extent *out) {
  Extent product = {.sizes = a->sizes + b->sizes};
  if (product.sizes > EXTENT_SIZES || !mul_i64(a->factor, b->factor, &product.factor)) return false;
  for (int i = 0, j = 0, at = 0; at < product.sizes; at++)
    product.size[at] =
        j == b->sizes || (i < a->sizes && a->size[i] < b->size[j]) ? a->size[i++] : b->size[j++];
  *out = product;
  return true;
}

bool extent_divide(const Extent *a, const Extent *b, Extent *out) {
  Extent rest = {.factor = 0};
  if (b->factor == 0 || a->factor % b->factor) return false;
  rest.factor = a->factor / b->factor;
  int j = 0;
  for (int i = 0; i < a->sizes; i++) {
    if (j < b->sizes && a->size[i] == b->size[j])
      j++;
    else
      rest.size[rest.sizes++] = a->size[i];
  }
  if (j < b->sizes) return false;
  *out = rest;
  return true;
}

int64_t extent_number(const Extent *e, const int64_t *sizes) {
  int64_t value = e->factor;
  for (int i = 0; i < e->sizes; i++) value = saturating_mul(value, sizes[e->size[i]]);
  return value;
}

// ---- of an axis

static bool is_product(const Instr *instr) {
  if (instr->op == OP_MUL) return is_product(instr->args[0]) && is_product(instr->args[1]);
  return instr->op == OP_SIZE || (instr->op == OP_CONST && instr->ival >= 0);
}

static bool multiply_factors(Extent *e, const Instr *instr) {
  if (instr->op == OP_MUL)
    return multiply_factors(e, instr->args[0]) && multiply_factors(e, instr->args[1]);
  Extent factor = instr->op == OP_SIZE ? extent_of_size((int)instr->ival) : extent_of(instr->ival);
  return extent_mul(e, &factor, e);
}

static const Instr *size_value(const Size *size) {
  const Region *value = size->value;
  const Instr *last =
      value && value->instrs.count ? value->instrs.at[value->instrs.count - 1] : NULL;
  return last && last->op == OP_YIELD && last->nargs == 1 ? last->args[0] : NULL;
}

Extent extent_of_dim(const Kernel *k, Dim dim) {
  if (dim_is_const(dim)) return extent_of(dim);
  Extent e = extent_of(1);
  const Instr *value = size_value(&k->sizes.at[dim_size_index(dim)]);
  if (value && is_product(value) && multiply_factors(&e, value)) return e;
  return extent_of_size(dim_size_index(dim));
}

static bool elements_of(const Kernel *k, const Type *type, Extent *out) {
  *out = extent_of(1);
  for (int i = 0; i < type->rank; i++) {
    Extent dim = extent_of_dim(k, type->dim[i]);
    if (!extent_mul(out, &dim, out)) return false;
  }
  return true;
}

bool ir_same_elements(const Kernel *k, const Type *a, const Type *b) {
  Extent x, y;
  if (!elements_of(k, a, &x) || !elements_of(k, b, &y)) return false;
  return (x.factor == 0 && y.factor == 0) || extent_same(&x, &y);
}

bool ir_may_have_same_elements(const Kernel *k, const Type *a, const Type *b) {
  Extent x, y;
  if (!elements_of(k, a, &x) || !elements_of(k, b, &y)) return false;
  y.factor = x.factor;  // the same sizes?
  return ir_same_elements(k, a, b) || !extent_same(&x, &y);
}
