// Numbers of elements: products of a number and sizes, the same for all values of the sizes.
#ifndef CODEGEN_IR_DIMS_H
#define CODEGEN_IR_DIMS_H

#include "codegen/ir/ir.h"

enum { EXTENT_SIZES = 16 };
typedef struct {
  int64_t factor;
  int sizes;
  int size[EXTENT_SIZES];  // numbers of sizes, ascending
} Extent;

static inline Extent extent_of(int64_t factor) { return (Extent){.factor = factor}; }
static inline Extent extent_of_size(int size) {
  return (Extent){.factor = 1, .sizes = 1, .size = {size}};
}
Extent extent_of_dim(const Kernel *k, Dim dim);
static inline bool extent_is(const Extent *e, int64_t value) {
  return e->sizes == 0 && e->factor == value;
}
bool extent_same(const Extent *a, const Extent *b);
// False: the product is too large, or has too many sizes.
bool extent_mul(const Extent *a, const Extent *b, Extent *out);
bool extent_divide(const Extent *a, const Extent *b, Extent *out);  // false: not divisible
int64_t extent_number(const Extent *e, const int64_t *sizes);

#endif
