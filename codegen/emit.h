// From the block IR to C text.
#ifndef CODEGEN_EMIT_H
#define CODEGEN_EMIT_H

#include "codegen/ir.h"
#include "codegen/target.h"

typedef struct {
  const Target *target;
  bool literal_dma;  // --dma=literal: every logical DMA is carried out by the runtime's engine
  bool checked;      // run --checked (later)
} EmitOptions;

// The kernel's C and header; `loops` (may be NULL) receives the loop IR as text, `explain` (may be NULL) the account of every
// decision.
void emit_kernel(Kernel *k, const EmitOptions *options, Buf *c, Buf *h, Buf *loops, Buf *explain);

// The reference as plain loops (docs/cli.md, bench): a C function with the kernel's signature and name + "_naive".
void emit_naive(Kernel *k, Buf *c);

// The kernel as a Python file for JAX Pallas, from the block IR as lowered. What has no counterpart is an error in `diag`.
void emit_pallas(Kernel *k, Diag *diag, Buf *out);

// Operations a call of the reference performs, as cli.md counts them, as a C expression-free closed form: evaluated for sizes.
// Terms of an einsum that a mask removes are not counted where the mask is affine.
double reference_flops(Kernel *k, const int64_t *sizes);

// Grid steps and VMEM for given sizes, as text.
void explain_sizes(Kernel *k, const int64_t *sizes, Buf *out);

#endif
