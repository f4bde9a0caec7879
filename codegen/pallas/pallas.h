// Python for JAX Pallas. In: the block IR as lowered. Out: the text of a file. Uses ir.
#ifndef CODEGEN_PALLAS_PALLAS_H
#define CODEGEN_PALLAS_PALLAS_H

#include "codegen/ir/ir.h"

// From the block IR as lowered. An operation without a counterpart is an error in `diag`.
void emit_pallas(Kernel *k, Diag *diag, Buf *out);

#endif
