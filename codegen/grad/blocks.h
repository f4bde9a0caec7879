// Inside of the derivation of kernels: their blocks.
#ifndef CODEGEN_GRAD_BLOCKS_H
#define CODEGEN_GRAD_BLOCKS_H

#include "codegen/grad/internal.h"

// How a kernel was cut into blocks, before its body became a reference.
struct Blocks {
  int inputs, outputs;
  Ref *refs;        // copies, in the order of the signature
  int64_t ignored;  // axes of the grid along which gradients are added up, by bits
  int64_t skipped;  // axes of the grid that the gradient, which is 0, does not need
  bool masks;       // gradients of outputs are 0 past the edges of arrays
};

// Sums along axes of the grid: grid_sums.c.
typedef struct {
  int64_t axes;               // along which, by bits; 0: there are none
  Instr **added;              // by ref: what a step adds to it, if it is a sum
  const Instr **loads;        // by ref: the load that is added to
  const Instr *first, *last;  // the IFs of the first and the last step, or NULL
} GridSums;
GridSums find_grid_sums(const Kernel *k);
bool is_grid_sum(const GridSums *s, const Ref *ref);

// forward: the derivative along directions
bool check_blocks(const Kernel *k, bool forward, Diag *diag);
int block_axis(const Kernel *k, const Ref *ref, int axis);
int64_t ignored_axes(const Kernel *k, const Ref *ref);
bool rounded_up(const Instr *v, Dim *size, int64_t *by);  // cdiv(size, by)
// The body becomes the reference; arrays of operands become their blocks.
void blocks_as_reference(Kernel *k, bool forward);
// Of a kernel that was derived without masks.
bool needs_masks(const Kernel *k, const Blocks *b);

#endif
