// Integers as sums: loop indices times coefficients, numbers, a constant.
#ifndef CODEGEN_IR_AFFINE_H
#define CODEGEN_IR_AFFINE_H

#include "codegen/ir/ir.h"

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
// runs over, -1: fixed at 0. False: it has not that form.
bool affine_of(const Instr *v, const int *axis_of, Affine *a);
// a - b; false: too many terms.
bool affine_subtract(Affine *a, const Affine *b);
// Is it the index along the axis, or that and one number, `start`? That is NULL for the bare index.
bool affine_is_index(const Affine *a, int axis, const Instr **start);
bool is_counter_type(DType t);               // one in which indices are counted
const Instr *without_casts(const Instr *v);  // .. between such types

#endif
