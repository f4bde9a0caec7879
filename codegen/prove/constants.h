// Constants of kernels as the real numbers that they were rounded from.
#ifndef CODEGEN_PROVE_CONSTANTS_H
#define CODEGEN_PROVE_CONSTANTS_H

#include "codegen/prove/numbers.h"

// A constant of a float dtype. What it is taken as is noted where that is another number than the
// float itself.
Id constant_number(Proof *p, DType dtype, const Instr *instr, double value);

// The float itself.
Id exact_number(Proof *p, double value);
// Notes the constants of a kernel and of what it is compared with: `other`, or its reference.
void note_constants(Proof *p, const Kernel *k, const Kernel *other);
// The same of a backward kernel, its forward kernel's reference and the derived reference.
void note_constants_of_gradient(Proof *p, const Kernel *backward, const Kernel *forward,
                                const Kernel *derived);

#endif
