// Grid axes that are not declared parallel become parallel if their steps provably do not depend on
// each other, so that threads may share them.
#include "codegen/ir/order.h"
#include "codegen/passes/pass.h"

// Requires: index maps and a body as lowered. Preserves: the meaning. Changes: `parallel` of grid
// axes.
void free_axes(Kernel *k, Buf *notes) {
  (void)notes;  // explain reports it with the axes
  for (int i = 0; k->body && i < k->grid.count; i++) {
    GridAxis *axis = &k->grid.at[i];
    if (axis->parallel || ir_has_one_step(axis)) continue;
    axis->in_order = ir_why_in_order(k, i);
    axis->parallel = axis->proved = !axis->in_order;
  }
}
