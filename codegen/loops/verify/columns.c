// The rule `columns`: the iterations of a column loop and the columns left after them cover the
// row, and nothing else depends on what an iteration leaves out or repeats. The rule `strips`: the
// same for rows.
#include "codegen/loops/verify/verify.h"

static void check_iterations(Verifier *x, const Step *step) {
  const ColumnLoop *loop = &step->loop;
  const Instr *first = step->members.at[0];
  const int64_t lanes = x->g->lanes, iteration = loop->vectors * lanes;
  int64_t columns;
  bool fixed = expr_is_const(demand_expr(x->g, step->demand, step->columns), &columns);
  if (loop->vectors < 1)
    broken_rule(x, "columns", first, "its loop has no iterations");
  else if (!loop->rest && (!fixed || (loop->whole ? columns % iteration : columns) != 0))
    broken_rule(x, "columns", first, "columns are left after its iterations");
  else if (loop->rest && !loop->partial && (!fixed || columns % lanes != 0))
    broken_rule(x, "columns", first, "a part of a vector is left after its iterations");
}

static void check_parts(Verifier *x, const Step *step) {
  const ColumnLoop *loop = &step->loop;
  const int64_t iteration = loop->vectors * x->g->lanes;
  int64_t columns;
  bool fixed = expr_is_const(demand_expr(x->g, step->demand, step->columns), &columns);
  if (iteration > 0 && loop->part % iteration != 0)
    broken_rule(x, "columns", step->members.at[0], "its sums are set aside within an iteration");
  for (int m = 0; m < step->members.count; m++)
    if (adds_in_parts(step->members.at[m]) && !loop->part &&
        (!fixed || columns > SUM_TERMS * iteration))
      broken_rule(x, "columns", step->members.at[m], "it adds too many terms one after the other");
}

// The second iteration may repeat lanes of the first, so nothing is added to a sum and nothing is
// stored in a buffer.
static void check_aligned(Verifier *x, const Step *step) {
  const ColumnLoop *loop = &step->loop;
  for (int i = 0; i < loop->streamed.count; i++) {
    const Instr *store = loop->streamed.at[i];
    if (store->op != OP_STORE || ir_mask(store) || !may_stream(x->g, store) ||
        !has_member(step, store))
      broken_rule(x, "columns", store, "it cannot be written by non-temporal stores");
  }
  if (!loop->aligned) return;
  if (!loop->streamed.count || !loop->partial || loop->vectors != 1)
    broken_rule(x, "columns", step->members.at[0], "its iterations have nothing to be aligned to");
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    bool sum = op_info[v->op].class == OPC_REDUCE,
         kept = v->op == OP_STORE ? reads_back(x->g, step, v) : val(v)->buffer != NULL;
    if (sum || kept) broken_rule(x, "columns", v, "an aligned iteration repeats lanes of it");
  }
}

// A packed vector has no lanes for wider values, and is not kept.
static void check_packed(Verifier *x, const Group *group, const Step *step) {
  const int bits = step->loop.packed;
  if (step->loop.together &&
      vectors_joined(x->g, group, step, bits ? bits : 32) != step->loop.together)
    broken_rule(x, "columns", step->members.at[0], "its vectors are not of the same parts");
  if (!bits) return;
  if (packed_bits(x->g, group, step) != bits)
    broken_rule(x, "columns", step->members.at[0], "its vectors cannot be packed");
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m], *value = v->op == OP_STORE ? ir_store_value(v) : v;
    const bool kept = val(v)->buffer && op_info[v->op].class != OPC_REDUCE,
               fits = value->type.dtype == DT_BOOL || dtype_info[value->type.dtype].bits == bits;
    if (kept || (!fits && !serves_words(x->g, group, v, bits)))
      broken_rule(x, "columns", v, text(x->g, "it does not fit a vector packed in %d bits", bits));
  }
}

static bool is_skipped(const Instr *user, const Instr *v, const Instr *mask) {
  bool selects = user->op == OP_SELECT && user->args[0] == mask;
  return v == mask ? selects : val(user)->only_for == mask;
}

// An iteration without the mask omits what only the mask needs.
static void check_unmasked(Verifier *x, const Step *step) {
  const StripBound *bound = step->loop.unmasked;
  if (bound && (bound->end != step->demand || step->loop.aligned))
    broken_rule(x, "columns", bound->mask, "the columns of another step end at it");
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m], *mask = val(v)->only_for;
    if (!mask) continue;
    if (!bound || bound->mask != mask || val(v)->buffer || !op_is_elementwise(v->op))
      broken_rule(x, "columns", v, "it does not serve a mask of its step");
    for (int i = 0; i < val(v)->users.count; i++)
      if (!is_skipped(val(v)->users.at[i], v, mask))
        broken_rule(x, "columns", val(v)->users.at[i],
                    text(x->g, "it reads %%%d, which only serves a mask", v->id));
  }
}

static void check_ahead(Verifier *x, const Instr *const *loads, int count) {
  for (int i = 0; i < count; i++)
    if (loads[i]->op != OP_LOAD || !may_lie_in_hbm(&x->g->refs[loads[i]->ref->id]))
      broken_rule(x, "columns", loads[i], "its next row is not in memory");
}

static bool is_listed(const Group *group, const StripBound *bound) {
  for (int i = 0; i < group->strips.bounds.count; i++)
    if (group->strips.bounds.at[i] == bound) return true;
  return false;
}

static void check_bound(Verifier *x, const Group *group, const Step *step, Demand demand) {
  const StripBound *bound = strip_bound(x->g, demand);
  if (bound && !is_listed(group, bound))
    broken_rule(x, "strips", is_dot(step) ? step->product.dot : bound->mask,
                "its group does not know where it ends");
}

// Rows that are jammed keep no value of a single one of them.
static void check_jammed(Verifier *x, const Group *group) {
  if (!group->jammed) return;
  if (group->leads < 1 || group->scalars.count || group->strips.bounds.count || group->strips.rows)
    broken_rule(x, "columns", NULL, "rows go together that have more than columns");
  for (int s = 0; s < group->steps.count; s++)
    for (int m = 0; m < group->steps.at[s].members.count; m++) {
      const Instr *v = group->steps.at[s].members.at[m];
      if (v->op != OP_STORE && (val(v)->buffer || !op_is_elementwise(v->op)))
        broken_rule(x, "columns", v, "it is kept of each of the rows that go together");
    }
}

// Checks the column loops of a group of rows.
void check_columns(Verifier *x, const Group *group) {
  int64_t rows;
  if (group->kind != GROUP_ROWS) return;
  check_ahead(x, group->feeds.ahead.at, group->feeds.ahead.count);
  check_jammed(x, group);
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    check_bound(x, group, step, step->demand);
    if (is_dot(step)) check_bound(x, group, step, step->product.along);
    if (!step->members.count) continue;
    check_iterations(x, step);
    check_parts(x, step);
    check_aligned(x, step);
    check_unmasked(x, step);
    check_packed(x, group, step);
    check_ahead(x, step->loop.ahead.at, step->loop.ahead.count);
  }
  if (!group->strips.one || !group->strips.rows) return;
  bool fixed = expr_is_const(demand_expr(x->g, group->lead_demand[0], group->lead[0]), &rows);
  if (!fixed || rows > group->strips.rows)
    broken_rule(x, "strips", NULL, "a group has more rows than its only strip");
}
