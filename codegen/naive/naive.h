// The naive reference: a kernel's `reference` as plain C loops, which `run` and `bench` compare
// with. In: the block IR. Out: C text. Uses ir; it shares no code with the generator.
#ifndef CODEGEN_NAIVE_NAIVE_H
#define CODEGEN_NAIVE_NAIVE_H

#include "codegen/ir/ir.h"

// A C function with the kernel's signature, named name + "_naive" (docs/cli.md, bench).
void emit_naive(Kernel *k, Buf *c);
// The same in binary64 with error bounds (pk/bound.h), name + "_judge": behind the operands, for
// each output an f32 array of its shape that receives how far results may be from the expected
// ones.
void emit_judge(Kernel *k, Buf *c);

#endif
