// Where each input's block is fetched: in the innermost region that holds all loads of it, but not
// inside a loop.
#include "codegen/loops/loops.h"

typedef struct {
  const Ref *ref;
  int found;
} LoadCount;

static void count_load(Instr *v, void *context) {
  LoadCount *c = context;
  if ((v->op == OP_LOAD || op_starts_copy(v->op)) && v->ref == c->ref) c->found++;
}

static int loads_in(Region *region, const Ref *ref) {
  LoadCount c = {ref, 0};
  ir_walk(region, count_load, &c);
  return c.found;
}

static Region *narrow(Region *region, const Ref *ref, int all) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && (v->op == OP_IF || v->op == OP_NAMED || v->op == OP_SCOPED) &&
          loads_in(v->regions[r], ref) == all)
        return narrow(v->regions[r], ref, all);
  }
  return region;
}

void find_fetches(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++) {
    RefGen *r = &g->refs[i];
    if (r->ref->role != REF_INPUT || r->form == FORM_DIRECT) continue;
    int all = loads_in(g->k->body, r->ref);
    if (g->options->literal_dma || shares_memory(g, r->ref))
      r->fetch_at = g->k->body;
    else
      r->fetch_at = all ? narrow(g->k->body, r->ref, all) : NULL;
    if (r->in_place.filled_by && val(r->in_place.filled_by)->region != r->fetch_at)
      r->in_place.filled_by = NULL;
  }
}
