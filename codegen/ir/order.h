// Order: which grid axes that are not declared parallel may run in any order all the same.
#ifndef CODEGEN_IR_ORDER_H
#define CODEGEN_IR_ORDER_H

#include "codegen/ir/ir.h"

// Proves that steps which differ in the index of `axis` do not depend on each other: each has
// blocks of its own of every output, and none reads what another one left in memory. NULL: proved;
// else the reason why the axis runs in order.
const char *ir_why_in_order(const Kernel *k, int axis);
bool ir_has_one_step(const GridAxis *axis);  // for all sizes
bool ir_grid_is_read(const Kernel *k);       // an extent is read from a prefetched operand

#endif
