// Where the computation along an axis ends: at the end of the axis, or where a mask ends within a
// strip of rows.
#include "codegen/loops/loops.h"

const Expr demand_full = {.kind = EXPR_SYMBOL, .name = "full"};  // in no pool

StripBound *strip_bound(Gen *g, Demand demand) {
  for (int i = 0; i < g->bounds.count; i++)
    if (g->bounds.at[i]->end == demand) return g->bounds.at[i];
  return NULL;
}

Demand demand_outside(Gen *g, Demand demand) {
  const StripBound *bound = strip_bound(g, demand);
  return bound ? bound->base : demand;
}
