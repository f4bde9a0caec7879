// Emission. In: the block IR after the passes, and options. Out: C text, its header, the loop IR as
// text, explanations. Calls the decisions of loops in order (emit_kernel). Uses ir and loops.
#ifndef CODEGEN_EMIT_EMIT_H
#define CODEGEN_EMIT_EMIT_H

#include "codegen/ir/ir.h"
#include "codegen/loops/target.h"

// The kernel's C and header. `loops` (may be NULL) receives the loop IR as text, `explain` (may be
// NULL) the explanation of every decision.
// The first lines of the C of every kernel for a target: macros and headers.
void emit_prologue(const Target *target, Buf *out);
void emit_kernel(Kernel *k, const EmitOptions *options, Buf *c, Buf *h, Buf *loops, Buf *explain);

#endif
