// Roundings of a kernel's body that its reference does not have.
#ifndef CODEGEN_HIDDEN_H
#define CODEGEN_HIDDEN_H

#include "codegen/ir/ir.h"

// To dtypes of its operands and of the reference: others are not part of what it promises.
// The coarsest dtypes, DT_COUNT where there is none: of what contractions get (`dot(cast(p, T),
// v)`), and of values anywhere.
typedef struct {
  DType summand, anywhere;
} Hidden;
Hidden hidden_roundings(Kernel *k);

// What the operations of a reference (or, computed step by step as compiled code does, of a body)
// may lose: pk/bound.h.
#define F32_UNIT 0x1p-24
#define F64_UNIT 0x1p-53
typedef struct {
  double input, result, function, sum;
} Rounding;
// unit: of roundoff, in the dtype that is computed in.
Rounding reference_rounding(const Hidden *hidden, double unit);
Rounding body_rounding(double unit);

#endif
