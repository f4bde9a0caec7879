// The meaning of each elementwise operation for one element, for the interpreter and for constant
// folding.
//
// Integers and bool are int64_t in the range of their dtype, those of u64 by their bits. Floats are
// f64; rounding to the dtype is the caller's next step.
#ifndef CODEGEN_IR_SCALAR_H
#define CODEGEN_IR_SCALAR_H

#include "codegen/ir/array.h"
#include "codegen/ir/ir.h"

typedef union {
  double f;
  int64_t i;
} Scalar;

int64_t wrap_int(DType dtype, int64_t value);
int64_t int_unary(Op op, DType dtype, int64_t a);
int64_t int_binary(Op op, DType dtype, int64_t a, int64_t b);
bool int_compare(Op op, DType dtype, int64_t a, int64_t b);
// For i64, wrapped; false if the exact result has more than 64 bits.
bool int_exact(Op op, int64_t a, int64_t b, int64_t *result);

typedef double FloatFunction(double);
typedef double FloatPair(double, double);
FloatFunction *float_unary(Op op);
FloatPair *float_binary(Op op, DType dtype);
bool float_compare(Op op, double a, double b);
bool float_predicate(Op op, double a);
double fma_to_odd(double a, double b, double c);              // for factors of 24 bits or fewer
double float_fma(DType dtype, double a, double b, double c);  // rounded to the dtype once

// An elementwise operation other than SELECT, on one element: from operands of dtype `from` to a
// result of dtype `to`.
Scalar scalar_apply(Op op, DType to, DType from, const Scalar *operands);

// The initial value of a fold, which is its result for no elements.
Scalar fold_start(Op fold, DType dtype);

DType unsigned_of(DType dtype);  // the unsigned integer of as many bytes

double int_to_float(DType to, DType from, int64_t value);
Scalar scalar_cast(DType to, DType from, Scalar a);
Scalar scalar_bitcast(DType to, DType from, Scalar a);

#endif
