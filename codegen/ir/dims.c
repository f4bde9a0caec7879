// Numbers of elements of shapes whose axes are sizes, compared for all values of the sizes.
#include "codegen/ir/ir.h"

typedef struct {
  const Kernel *k;
  int64_t factor;
  int *count;  // by size: how often it is a factor
  bool overflow;
} Product;

static bool is_product(const Instr *instr) {
  if (instr->op == OP_MUL) return is_product(instr->args[0]) && is_product(instr->args[1]);
  return instr->op == OP_SIZE || (instr->op == OP_CONST && instr->ival >= 0);
}

static void multiply_factors(Product *p, const Instr *instr) {
  if (instr->op == OP_MUL) {
    multiply_factors(p, instr->args[0]);
    multiply_factors(p, instr->args[1]);
  } else if (instr->op == OP_SIZE) {
    p->count[instr->ival]++;
  } else if (!mul_i64(p->factor, instr->ival, &p->factor)) {
    p->overflow = true;
  }
}

static const Instr *size_value(const Size *size) {
  const Region *value = size->value;
  const Instr *last =
      value && value->instrs.count ? value->instrs.at[value->instrs.count - 1] : NULL;
  return last && last->op == OP_YIELD && last->nargs == 1 ? last->args[0] : NULL;
}

static void multiply_dim(Product *p, Dim dim) {
  if (dim_is_const(dim)) {
    if (!mul_i64(p->factor, dim, &p->factor)) p->overflow = true;
    return;
  }
  const Instr *value = size_value(&p->k->sizes.at[dim_size_index(dim)]);
  if (value && is_product(value))
    multiply_factors(p, value);
  else
    p->count[dim_size_index(dim)]++;
}

static Product product_of(const Kernel *k, const Type *type) {
  Product p = {.k = k, .factor = 1, .count = NEW_ARRAY(k->arena, int, k->sizes.count + 1)};
  for (int i = 0; i < type->rank; i++) multiply_dim(&p, type->dim[i]);
  return p;
}

static bool same_sizes(const Kernel *k, const Product *x, const Product *y) {
  for (int i = 0; i < k->sizes.count; i++)
    if (x->count[i] != y->count[i]) return false;
  return true;
}

bool ir_same_elements(const Kernel *k, const Type *a, const Type *b) {
  Product x = product_of(k, a), y = product_of(k, b);
  if (x.overflow || y.overflow || x.factor != y.factor) return false;
  return x.factor == 0 || same_sizes(k, &x, &y);
}

bool ir_may_have_same_elements(const Kernel *k, const Type *a, const Type *b) {
  Product x = product_of(k, a), y = product_of(k, b);
  return ir_same_elements(k, a, b) || !same_sizes(k, &x, &y);
}
