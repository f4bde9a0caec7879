// Whole arrays in the compiler's own memory, for the interpreter and for `run` and `bench`, which
// prepare and compare them.
#ifndef CODEGEN_IR_ARRAY_H
#define CODEGEN_IR_ARRAY_H

#include "dsl/types.h"

// Row-major, contiguous. bf16 and f16 elements are their 16-bit patterns, bool is a byte 0 or 1,
// integers of fewer than 8 bits are the low bits of a byte (written with zeros above), fp8 is its
// byte.
typedef struct HostArray {
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK];
  void *data;
} HostArray;

// Number of elements; false when the product (or the bytes it needs) overflows int64_t.
bool array_elements(const HostArray *array, int64_t *count);
int64_t *array_cells(const HostArray *array);  // one for each element, 0; the caller frees them
// Exact for every dtype, except i64 and u64 beyond 2^53.
double array_get(const HostArray *array, int64_t index);
int64_t array_get_int(const HostArray *array, int64_t index);  // integers and bool: exact
// rounds to the dtype (nearest even); integers saturate
void array_set(HostArray *array, int64_t index, double value);

// integers and bool: keeps the low bits
void array_set_int(HostArray *array, int64_t index, int64_t value);
// to the nearest value of a float dtype, ties to even
double dtype_round(DType dtype, double value);
int64_t saturate_to_integer(DType dtype, double value);  // truncates; NaN gives 0

float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);  // nearest even; a NaN remains a NaN
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);
// For any float dtype: the bits of the nearest value, and the value of bits; the bits of a NaN are
// preserved.
uint64_t dtype_bits(DType dtype, double value);
double dtype_value(DType dtype, uint64_t bits);

double dtype_largest(DType dtype);  // these of a float dtype
bool dtype_has_inf(DType dtype);
double dtype_top(DType dtype);  // the greatest value that is not NaN, and the least
double dtype_bottom(DType dtype);
bool dtype_holds(DType wide, DType narrow);  // each number of `narrow` is one of `wide`
double dtype_spacing(DType dtype);           // at 1
int dtype_precision(DType dtype);            // significant bits
int dtype_least_exponent(DType dtype);

#endif
