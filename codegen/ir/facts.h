// What is known of integers without running a kernel: bounds, multiples, and sums of indices.
#ifndef CODEGEN_IR_FACTS_H
#define CODEGEN_IR_FACTS_H

#include "codegen/ir/ir.h"

// ---- bounds

// The least and the greatest value; INT64_MIN and INT64_MAX also mean that no bound is known.
typedef struct {
  int64_t low, high;
} Interval;

// Of what counts elements or steps: 0 to 2^31 - 1.
extern const Interval interval_counter;

Interval interval_of(DType dtype);  // of all its values; for i64: no bound
static inline Interval interval_point(int64_t value) { return (Interval){value, value}; }
bool interval_is_point(Interval a);
// Of an elementwise operation whose operands, integers or bools, have these.
Interval interval_apply(const Instr *instr, const Interval *args);
// Of the elements of any value. axes: of where the grid is, or NULL; args: of its operands.
Interval interval_of_value(const Instr *v, const Interval *axes, const Interval *args);

// Is an index plus the number sure not to wrap?
bool is_sure_to_add(const Instr *v, int64_t number);

// Is an index of an index map provably on an axis of the extent `dim`?
bool is_on_axis(const Kernel *k, const Instr *index, Dim dim);

// What an integer or bool is, where that follows from numbers alone.
bool known_number(const Instr *v, int64_t *value);

// ---- multiples

// Is an index sure to be a multiple of n? sizes: of the kernel, for a call, or NULL.
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

// The value of v at index (i..), by the operations that cannot lose bits of it: of signed integers
// of 32 bits or more, which count and stay below 2^31. `axis_of[k]` is the axis that v's axis k
// runs over, -1: fixed at 0. False: it does not have that form.
bool affine_of(const Instr *v, const int *axis_of, Affine *a);
// a - b; false: too many terms.
bool affine_subtract(Affine *a, const Affine *b);
// Is it the index along the axis, or that and one number, `start`? That is NULL for the bare index.
bool affine_is_index(const Affine *a, int axis, const Instr **start);
bool is_counter_type(DType t);               // one in which indices are counted
const Instr *without_casts(const Instr *v);  // v before casts between counter types

#endif
