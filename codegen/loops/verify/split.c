// The rule `parts`: a split cell has the same rows, each once, in all operands that move with it.
#include "codegen/loops/verify/verify.h"

static int count_rows(const Gen *g, const RefGen *r) {
  int count = 0;
  for (int k = 0; k < r->ref->array.rank; k++) count += is_split(g, r, k);
  return count;
}

static bool has_rows_of(const Split *s, const Ref *ref, int k) {
  return ref->at == AT_BLOCK && ref->block[k] == s->block && ref->array.dim[k] == s->rows;
}

static void check_operand(Verifier *x, const RefGen *r) {
  const Split *s = x->g->split;
  const Ref *ref = r->ref;
  const int count = count_rows(x->g, r);
  const char *name = ref->name;
  if (count > 1) broken_rule(x, "parts", NULL, text(x->g, "%s has the rows twice", name));
  if (ref->role == REF_OUTPUT && !count)
    broken_rule(x, "parts", NULL, text(x->g, "%s has none of the rows", name));
  if (count && (ref->alias || r->shared))
    broken_rule(x, "parts", NULL, text(x->g, "%s shares its rows", name));
  for (int k = 0; k < ref->array.rank; k++)
    if (is_split(x->g, r, k) && !has_rows_of(s, ref, k))
      broken_rule(x, "parts", NULL, text(x->g, "%s has other rows", name));
}

void check_split(Verifier *x) {
  const Gen *g = x->g;
  const Split *s = g->split;
  if (!s) return;
  if (!g->k->grid.at[s->axis].parallel || (g->batch && g->batch->axis == s->axis))
    broken_rule(x, "parts", NULL, "the cells of their axis are not computed apart");
  if (s->least < 1 || s->block < 2 * s->least)
    broken_rule(x, "parts", NULL, "a block has rows for one of them at most");
  for (int i = 0; i < g->k->refs.count; i++)
    if (ref_is_operand(g->refs[i].ref)) check_operand(x, &g->refs[i]);
}
