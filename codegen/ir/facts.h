// What is known of integers without running a kernel: bounds, and multiples.
#ifndef CODEGEN_IR_FACTS_H
#define CODEGEN_IR_FACTS_H

#include "codegen/ir/ir.h"

// The least and the greatest value; INT64_MIN and INT64_MAX also stand for: no bound is known.
typedef struct {
  int64_t low, high;
} Interval;

Interval interval_of(DType dtype);  // of all its values; for i64: no bound
static inline Interval interval_point(int64_t value) { return (Interval){value, value}; }
bool interval_is_point(Interval a);
// Of an elementwise operation whose operands, integers or bools, have these.
Interval interval_apply(const Instr *instr, const Interval *args);

bool is_multiple(const Instr *v, int64_t n);  // is an index sure to be a multiple of n?

#endif
