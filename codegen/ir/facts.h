// Facts about integers that are known without running a kernel: bounds, multiples, and sums of
// indices.
#ifndef CODEGEN_IR_FACTS_H
#define CODEGEN_IR_FACTS_H

#include "codegen/ir/ir.h"

// ---- bounds

// The least and the greatest value; INT64_MIN and INT64_MAX also mean that no bound is known.
typedef struct {
  int64_t low, high;
} Interval;

// The interval of numbers of elements or steps: 0 to 2^31 - 1.
extern const Interval interval_counter;

Interval interval_of(DType dtype);  // of all values of the dtype; i64: no bound
static inline Interval interval_point(int64_t value) { return (Interval){value, value}; }
bool interval_is_point(Interval a);
// The interval of an elementwise operation whose operands, integers or bools, have these intervals.
Interval interval_apply(const Instr *instr, const Interval *args);
// The interval of the elements of any value. axes: the intervals of grid indices, or NULL; args: of
// its operands.
Interval interval_of_value(const Instr *v, const Interval *axes, const Interval *args);

// Is it certain that an index plus the number does not wrap?
bool is_sure_to_add(const Instr *v, int64_t number);

// Is an index of an index map provably on an axis of the extent `dim`?
bool is_on_axis(const Kernel *k, const Instr *index, Dim dim);

// The value of an integer or bool, if it follows from constants alone.
bool known_number(const Instr *v, int64_t *value);

// ---- multiples

// Is an index provably a multiple of n? sizes: those of a call, or NULL.
bool is_multiple(const Instr *v, int64_t n, const int64_t *sizes);

// ---- sums: loop indices times coefficients, numbers, a constant

enum { AFFINE_TERMS = 8 };

typedef struct {
  const Instr *of;  // of rank 0
  int64_t factor;
} AffineTerm;

typedef struct {
  int64_t coefficient[MAX_RANK];  // of the index along each axis
  int terms;
  AffineTerm term[AFFINE_TERMS];
} Affine;

// The value of v at index (i..) as a sum, through operations that cannot lose bits: those of signed
// integers of 32 bits or more, which count elements and stay below 2^31. `axis_of[k]` is the loop
// axis of v's axis k, -1: fixed at 0. False: it does not have that form.
bool affine_of(const Instr *v, const int *axis_of, Affine *a);
// a - b; false: too many terms.
bool affine_subtract(Affine *a, const Affine *b);
// Is it the index along the axis, or that plus one number, `start`? `start` is NULL for the index
// alone.
bool affine_is_index(const Affine *a, int axis, const Instr **start);
bool is_counter_type(DType t);               // one in which indices are counted
const Instr *without_casts(const Instr *v);  // v before casts between counter types

#endif
