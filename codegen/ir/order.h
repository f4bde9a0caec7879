// Order: which grid axes may run in any order although they are not declared parallel.
#ifndef CODEGEN_IR_ORDER_H
#define CODEGEN_IR_ORDER_H

#include "codegen/ir/ir.h"

// Proves that steps which differ in the index of `axis` do not depend on each other: each has its
// own blocks of every output, and none reads data that another one left in memory. NULL: proved;
// else the reason why the axis runs in order.
const char *ir_why_in_order(const Kernel *k, int axis);
bool ir_has_one_step(const GridAxis *axis);  // for all sizes
bool ir_grid_is_read(const Kernel *k);       // an extent is read from a prefetched operand

#endif
