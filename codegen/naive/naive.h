// The naive reference: a kernel's `reference` as plain C loops, which `run` and `bench` compare
// with. In: the block IR. Out: C text. Uses ir; it shares no code with the generator.
#ifndef CODEGEN_NAIVE_NAIVE_H
#define CODEGEN_NAIVE_NAIVE_H

#include "codegen/ir/ir.h"

// A C function with the kernel's signature, named name + "_naive" (docs/cli.md, bench).
void emit_naive(Kernel *k, Buf *c);
// The same in binary64 with error bounds (pk/bound.h), name + "_judge". Its additional parameters,
// after the operands, are an f32 array for each output, of its shape, which receives the possible
// difference of results from the expected ones.
void emit_judge(Kernel *k, Buf *c);

#endif
