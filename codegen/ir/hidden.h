// Roundings of a kernel's body that its reference does not have.
#ifndef CODEGEN_HIDDEN_H
#define CODEGEN_HIDDEN_H

#include "codegen/ir/ir.h"

// Only roundings to dtypes of its operands and of the reference; others count as errors. The
// coarsest dtypes (DT_COUNT: none) of operands of contractions (`dot(cast(p, T), v)`), and of all
// values.
typedef struct {
  DType summand, anywhere;
} Hidden;
Hidden hidden_roundings(Kernel *k);

// The errors of the operations of a reference, or of a body that is computed step by step like
// compiled code: pk/bound.h.
#define F32_UNIT 0x1p-24
#define F64_UNIT 0x1p-53
typedef struct {
  double input, result, function, sum;
} Rounding;
// unit: the unit roundoff of the dtype of the computation.
Rounding reference_rounding(const Hidden *hidden, double unit);
Rounding body_rounding(double unit);

#endif
