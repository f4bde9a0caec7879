// The number of operations of a call of a kernel's reference.
#ifndef CODEGEN_IR_WORK_H
#define CODEGEN_IR_WORK_H

#include "codegen/ir/ir.h"

// The number of operations of a call of the reference for given sizes, as cli.md counts them; for a
// program, those of the kernels that it calls. Terms of an einsum that an affine mask removes are
// not counted.
double reference_flops(Kernel *k, const int64_t *sizes);

#endif
