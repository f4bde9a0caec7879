// How many operations a call of a kernel's reference performs.
#ifndef CODEGEN_IR_WORK_H
#define CODEGEN_IR_WORK_H

#include "codegen/ir/ir.h"

// Operations a call of the reference performs (of a program: those of the kernels it calls), as
// cli.md counts them, as a number, for given sizes. Terms of an einsum
// that a mask removes are not counted where the mask is affine.
double reference_flops(Kernel *k, const int64_t *sizes);

#endif
