// The iterations of the loops over columns: the vectors of an iteration, the remainder,
// non-temporal stores, columns without a mask, and prefetches. Runs after all groups have their
// steps and all values their places.
#include "codegen/loops/loops.h"

static bool is_reduction(const Instr *v) { return op_info[v->op].class == OPC_REDUCE; }

// ---- non-temporal stores. They require whole aligned vectors. The loop stores a row's first
// vector at the start of the row and continues at the first aligned address. That repeats some
// lanes, so nothing else may depend on them.

static bool is_streamed(const Gen *g, const Instr *v) {
  return v->op == OP_STORE && may_stream(g, v) && !ir_mask(v) && lane_step(v) == 1;
}

static bool has_pieces(const Instr *v) {
  for (int i = 0; i < v->nargs; i++)
    if (reads_pieces(v->args[i]) || (is_transparent(v->args[i]) && has_pieces(v->args[i])))
      return true;
  return false;
}

static bool reads_ref(const Instr *v, const Ref *ref) {
  for (int i = 0; i < v->nargs; i++) {
    const Instr *arg = v->args[i];
    if ((arg->op == OP_LOAD && arg->ref == ref) || (is_transparent(arg) && reads_ref(arg, ref)))
      return true;
  }
  return false;
}

// Does the step read what this store of it wrote?
bool reads_back(const Gen *g, const Step *step, const Instr *store) {
  if (!may_be_read_back(&g->refs[store->ref->id])) return false;
  for (int m = 0; m < step->members.count; m++)
    if (reads_ref(step->members.at[m], store->ref)) return true;
  return !may_stream(g, store);
}

static bool may_repeat_lanes(const Gen *g, const Step *step) {
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    if (has_pieces(v)) return false;
    bool in_memory = v->op == OP_STORE ? reads_back(g, step, v) : val(v)->buffer != NULL;
    if (is_reduction(v) || in_memory) return false;
  }
  return true;
}

static void choose_streams(Gen *g, Step *step) {
  ColumnLoop *loop = &step->loop;
  for (int m = 0; loop->whole && m < step->members.count; m++)
    if (is_streamed(g, step->members.at[m]))
      LIST_PUSH(g->arena, &loop->streamed, step->members.at[m]);
  loop->aligned = loop->streamed.count && may_repeat_lanes(g, step);
}

// ---- iterations

static bool has_reduction(const Step *step) {
  for (int m = 0; m < step->members.count; m++)
    if (is_reduction(step->members.at[m])) return true;
  return false;
}

// The columns of a step, if they are known.
static bool knows_columns(Gen *g, const Step *step, int64_t *columns) {
  return expr_is_const(demand_expr(g, step->demand, step->columns), columns);
}

// Sets the iterations of `vectors` vectors each, and which columns remain after them.
static void choose_iterations(Gen *g, Step *step, int vectors) {
  ColumnLoop *loop = &step->loop;
  int64_t columns;
  const bool fixed = knows_columns(g, step, &columns);
  loop->vectors = vectors;
  int64_t iteration = (int64_t)loop->vectors * g->lanes;
  loop->whole = !fixed || columns >= iteration;
  for (int m = 0; m < step->members.count; m++)
    if (adds_in_parts(step->members.at[m]) && (!fixed || columns > SUM_TERMS * iteration))
      loop->part = SUM_TERMS * iteration;
  choose_streams(g, step);
  loop->rest = !fixed || loop->aligned || columns % iteration != 0;
  loop->partial = !fixed || loop->aligned || columns % g->lanes != 0;
}

// A reduction has one sum for each vector of an iteration, so that chains of additions are short.
static void choose_unrolling(Gen *g, Step *step) {
  int vectors = has_reduction(step) ? g->target->core->sums : 1;
  int64_t columns;
  if (knows_columns(g, step, &columns) && columns < (int64_t)vectors * g->lanes)
    vectors = columns < g->lanes ? 1 : (int)(columns / g->lanes);
  choose_iterations(g, step, vectors);
}

// ---- masks that differ between rows: in each row the columns up to the end of the mask are
// computed without the mask

static bool selects_by(const Instr *v, const Instr *mask) {
  return v->op == OP_SELECT && v->args[0] == mask;
}

// The bound of a step whose columns end at it and that reads its mask.
static const StripBound *asked_bound(Gen *g, const Step *step) {
  const StripBound *b = strip_bound(g, step->demand);
  for (int m = 0; b && m < step->members.count; m++)
    if (selects_by(step->members.at[m], b->mask)) return b;
  return NULL;
}

// Is v computed only for selections by the mask?
static bool serves_mask(const Instr *v, const Instr *mask) {
  if (!op_is_elementwise(v->op) || val(v)->buffer) return false;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    if (v == mask ? !selects_by(user, mask) : !serves_mask(user, mask)) return false;
  }
  return true;
}

static void choose_unmasked(Gen *g, Step *step) {
  const StripBound *b = step->loop.aligned ? NULL : asked_bound(g, step);
  step->loop.unmasked = b;
  for (int m = 0; b && m < step->members.count; m++)
    if (serves_mask(step->members.at[m], b->mask)) val(step->members.at[m])->only_for = b->mask;
}

// ---- rows that are read more than once: the next row is brought into L2 while a row is computed

static bool passes_twice(const Group *group) {
  int passes = 0;
  for (int s = 0; s < group->steps.count; s++) passes += group->steps.at[s].members.count > 0;
  return passes > 1 && group->leads > 0 && group->lead[group->leads - 1] != 1 && !group->has_dot;
}

static bool is_row_in_place(const Gen *g, const Group *group, const Instr *v) {
  return v->op == OP_LOAD && is_transparent(v) && v->type.rank == group->leads + 1 &&
         !is_row_scalar(v) && ir_window_is_full(v) && may_lie_in_hbm(&g->refs[v->ref->id]);
}

static bool keeps_row(const Group *group, const Instr *broadcast) {
  const Type *from = &broadcast->args[0]->type, *to = &broadcast->type;
  int row = group->leads - 1;
  return to->rank == from->rank && to->dim[row] == from->dim[row];
}

static void look_ahead(Gen *g, const Group *group, ColumnLoop *loop, const Instr *v) {
  while (v->op == OP_BROADCAST && is_transparent(v)) {
    if (!keeps_row(group, v)) return;
    v = v->args[0];
  }
  if (!is_row_in_place(g, group, v) || loop->ahead.count == MOST_AHEAD) return;
  for (int i = 0; i < loop->ahead.count; i++)
    if (loop->ahead.at[i]->ref == v->ref) return;
  LIST_PUSH(g->arena, &loop->ahead, v);
}

// Only in the first loop over the row.
static void choose_ahead(Gen *g, Group *group) {
  int s = 0;
  if (!passes_twice(group)) return;
  while (!group->steps.at[s].members.count) s++;
  Step *step = &group->steps.at[s];
  for (int m = 0; m < step->members.count; m++)
    for (int a = 0; a < step->members.at[m]->nargs; a++)
      look_ahead(g, group, &step->loop, step->members.at[m]->args[a]);
}

// ---- packed vectors of narrow elements, and vectors of words that are made of rows of parts
// together, before the iterations of whole vectors, which take one vector each then. The packed
// sums of a reduction become those of a vector at the end, which takes as long as some packed
// vectors.

static bool reads_what_it_stores(const Gen *g, const Step *step) {
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    if (v->op == OP_STORE && shares_memory(g, v->ref)) return true;
    for (int i = 0; v->op == OP_STORE && i < step->members.count; i++)
      if (instr_reads(step->members.at[i], v->ref)) return true;
  }
  return false;
}

static int choose_together(Gen *g, const Group *group, const Step *step, int bits) {
  if (group->jammed || has_reduction(step) || reads_what_it_stores(g, step)) return 0;
  return vectors_joined(g, group, step, bits ? bits : 32);
}

int first_lanes(const Gen *g, const ColumnLoop *loop) {
  const int lanes = loop->packed ? packed_lanes(g, loop->packed) : g->lanes;
  return loop->together ? loop->together * lanes : lanes;
}

static void choose_packed(Gen *g, Group *group) {
  for (int s = 0; s < group->steps.count; s++) {
    Step *step = &group->steps.at[s];
    ColumnLoop first = {0};
    const ColumnLoop *loop = &step->loop;
    int64_t columns;
    if (!step->members.count || loop->streamed.count || loop->unmasked || loop->ahead.count)
      continue;
    first.packed = packed_bits(g, group, step);
    first.together = choose_together(g, group, step, first.packed);
    const int least = has_reduction(step) ? PACKED_SUMS : 1;
    if (!first.packed && !first.together) continue;
    if (knows_columns(g, step, &columns) && columns < least * first_lanes(g, &first)) continue;
    choose_iterations(g, step, 1);
    step->loop.packed = first.packed;
    step->loop.together = first.together;
  }
}

static void plan_group(Gen *g, Group *group) {
  if (group->kind != GROUP_ROWS) return;
  for (int s = 0; s < group->steps.count; s++) {
    Step *step = &group->steps.at[s];
    if (!step->members.count) continue;
    choose_unrolling(g, step);
    choose_unmasked(g, step);
  }
  choose_ahead(g, group);
  jam_rows(g, group);
  choose_packed(g, group);
}

void plan_columns(Gen *g) { visit_groups(g, g->body, plan_group); }
