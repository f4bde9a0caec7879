// Index arithmetic: evaluates a kernel's sizes, requirements, grid extents and index maps for given
// sizes.
#ifndef CODEGEN_IR_INDEX_H
#define CODEGEN_IR_INDEX_H

#include "codegen/ir/array.h"
#include "codegen/ir/ir.h"

static inline int64_t resolve_dim(const int64_t *sizes, Dim dim) {
  return dim_is_const(dim) ? dim : sizes[dim_size_index(dim)];
}
int64_t ceil_div(int64_t a, int64_t b);  // 0 if b is not positive
// Evaluates the derived sizes and the shapes of the operands. Returns NULL, or an error message (in
// the kernel's arena).
const char *derive_sizes(Kernel *k, int64_t *sizes);
// Evaluates the derived sizes, the requirements and the grid. Returns NULL, or why the call is
// refused (in the kernel's arena). `sizes` contains the bound sizes; derived ones are filled in.
// Prefetched arrays (Ref.prefetched) must be set.
const char *check_sizes(Kernel *k, int64_t *sizes);
// The shape of an operand's array for given sizes. False if an axis is negative or exceeds 2^31-1,
// or the number of elements overflows.
bool operand_shape(const Kernel *k, const Ref *operand, const int64_t *sizes, HostArray *shape);
// Evaluates a rank-0 integer operation that is not a leaf, for given values of its arguments.
int64_t eval_pure(const Instr *instr, const int64_t *arg);
// The element of a prefetched operand that a LOAD in index arithmetic reads, for given values of
// its arguments. An index out of range is clamped, or reads `other` under a mask; `outside` is set
// unless the mask is false.
int64_t prefetched_element(const Instr *load, const int64_t *arg, bool *outside);
// The VMEM of a ref: all its buffers, in whole tiles.
int64_t vmem_bytes(const Ref *ref, const int64_t *sizes);
// Evaluates a region of rank-0 integer operations; axes may be NULL if the region does not use
// them.
int64_t eval_index(const Kernel *k, const Region *region, const int64_t *sizes, const int64_t *axes,
                   int result);
enum {
  MAX_INDEX = 2 * MAX_RANK
};  // values of one index map: a start an axis, and for `at slice` a length
// All values that a region yields. Returns the first load of a prefetched operand whose index was
// out of range and clamped.
const Instr *eval_region(const Kernel *k, const Region *region, const int64_t *sizes,
                         const int64_t *axes, int64_t *results);

#endif
