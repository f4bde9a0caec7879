// Whether an index is within an axis, by the loops and conditions around its use.
#ifndef CODEGEN_IR_INSIDE_H
#define CODEGEN_IR_INSIDE_H

#include "codegen/ir/ir.h"

// A `for`, or an `if` whose condition holds, with the loops and conditions around it.
typedef struct Around {
  const struct Around *outer;
  const Instr *instr;
} Around;

// Are the elements from `at` on, `count` of them, provably on an axis of this extent?
bool is_provably_inside(const Around *around, const Instr *at, Dim extent, int64_t count);

#endif
