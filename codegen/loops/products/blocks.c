// Products that may be computed panel by panel (include/pk/dot/block.h), and the memory that they
// need: left rows that collide in the cache are copied. Only one product runs at a time, so all
// share the memory.
#include "codegen/loops/loops.h"

static const char purpose[] = "left rows of large products, 528 KiB";

static Buffer *left_rows(Gen *g) {
  for (int i = 0; i < g->buffers.count; i++)
    if (g->buffers.at[i]->purpose == purpose) return g->buffers.at[i];
  Dim one = 1;
  Buffer *b = buffer_new(g, "left_rows", DT_I8, 1, &one, purpose);
  b->bytes = expr_symbol(&g->exprs, "PK_DOT_SCRATCH");
  return b;
}

static void give_scratch(Gen *g, const Instr *dot, Dim rows, Dim columns) {
  if (may_go_by_panels(g, rows, columns)) val(dot)->scratch = left_rows(g);
}

static void give_group_scratch(Gen *g, Group *group) {
  if (group->kind == GROUP_GENERIC && group->method == METHOD_PRODUCTS) {
    const Type *t = &group->instr->type;
    give_scratch(g, group->instr, t->dim[t->rank - 2], t->dim[t->rank - 1]);
  }
  for (int i = 0; group->kind == GROUP_ROWS && i < group->steps.count; i++) {
    const Step *step = &group->steps.at[i];
    if (is_dot(step) && !step->joined && !step->product.in_place)
      give_scratch(g, step->product.dot,
                   group->strips.rows ? group->strips.buffer_rows : group->lead[0], step->columns);
  }
}

void find_blocks(Gen *g) {
  if (g->target->core->block) visit_groups(g, g->body, give_group_scratch);
}
