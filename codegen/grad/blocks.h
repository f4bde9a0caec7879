// Inside of the derivation of kernels: their blocks.
#ifndef CODEGEN_GRAD_BLOCKS_H
#define CODEGEN_GRAD_BLOCKS_H

#include "codegen/grad/internal.h"

// How a kernel was cut into blocks, before its body became a reference.
struct Blocks {
  int inputs, outputs;
  Ref *refs;        // copies, in the order of the signature
  int64_t ignored;  // axes of the grid along which gradients are added up, by bits
  bool masks;       // gradients of outputs are 0 past the edges of arrays
};

bool check_blocks(const Kernel *k, Diag *diag);
int block_axis(const Kernel *k, const Ref *ref, int axis);
int64_t ignored_axes(const Kernel *k, const Ref *ref);
bool rounded_up(const Instr *v, Dim *size, int64_t *by);  // cdiv(size, by)
// The body becomes the reference; arrays of operands become their blocks.
void blocks_as_reference(Kernel *k);
// Of a kernel that was derived without masks.
bool needs_masks(const Kernel *k, const Blocks *b);

#endif
