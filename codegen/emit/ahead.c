// Rows that loops will read soon, as C.
#include "codegen/emit/internal.h"

enum { PREFETCHED = 8 };  // refs at most

typedef struct {
  CWriter *w;
  const Expr *row;
  const Instr *seen[PREFETCHED];
  int count;
} Ahead;

static void prefetch_load(Ahead *a, const Instr *v, const Group *group) {
  Gen *g = a->w->g;
  Place p;
  if (v->op == OP_BROADCAST && !stretches_rows(v)) v = v->args[0];
  bool row = v->op == OP_LOAD && is_transparent(v) && v->type.rank == 2 && !is_row_scalar(v) &&
             v->type.dim[0] == group->lead[0] && may_lie_in_hbm(&g->refs[v->ref->id]);
  for (int i = 0; i < a->count; i++) row &= a->seen[i]->ref != v->ref;
  if (!row || a->count == PREFETCHED || !place_of(g, v, &p)) return;
  a->seen[a->count++] = v;
  const Expr *at[] = {a->row, number(g, 0)};
  int last = v->type.rank - 1;
  line(a->w, "pk_prefetch_row(%s, %s * %d);", address(g, &p, 2, at),
       demand_text(g, val(v)->demand[last], v->type.dim[last]), dtype_bytes(p.element));
}

void prefetch_rows(CWriter *w, const Group *group, const Expr *row) {
  Ahead a = {.w = w, .row = row};
  for (int s = 0; s < group->steps.count; s++)
    for (int m = 0; m < group->steps.at[s].members.count; m++) {
      const Instr *v = group->steps.at[s].members.at[m];
      for (int i = 0; i < v->nargs; i++) prefetch_load(&a, v->args[i], group);
    }
}
