// Strips: the number of rows of a group with dots that are computed together, and the bounds of its
// rows.
//
// A strip is one or two register tiles, so that the result of a dot is still in the nearest cache
// when it is used. Each strip reads the right operands of all dots again.
#include "codegen/loops/loops.h"

static bool needs_strips(const Group *group) {
  if (!group->has_dot) return false;
  if (group->scalars.count) return true;
  for (int s = 0; s < group->steps.count; s++)
    if (!is_dot(&group->steps.at[s]) && group->steps.at[s].members.count) return true;
  return false;
}

// Elements of an array, at most INT32_MAX, which also means that they are not known.
static int64_t elements(const Type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank && n < INT32_MAX; i++)
    n = dim_is_const(t->dim[i]) && t->dim[i] < INT32_MAX ? n * t->dim[i] : INT32_MAX;
  return n < INT32_MAX ? n : INT32_MAX;
}

// The number of rows of the widest value between dots that half of the L2 cache holds.
static int64_t rows_in_cache(Gen *g, const Group *group) {
  int64_t widest = 1;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (step->product.into || (!is_dot(step) && !step->members.count)) continue;
    if (!dim_is_const(step->columns)) return 0;
    if (step->columns > widest) widest = step->columns;
  }
  return g->target->core->l2_bytes / 2 / (4 * widest);
}

// If the right operands do not fit the L2 cache, few strips are better.
static bool right_operands_fit(Gen *g, const Group *group) {
  int64_t all = 0;
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.dot)
      all += 4 * elements(&dot_shape(group->steps.at[s].product.dot).b->type);
  return all <= g->target->core->l2_bytes;
}

// The rows of a strip: whole register tiles, and an equal share of a block of known height.
static int strip_rows(Gen *g, const Group *group) {
  const Dim rows = group->lead[0];
  const int64_t tile = g->target->dot_rows;
  bool fit = right_operands_fit(g, group);
  int64_t best = fit ? (STRIP_ROWS + tile - 1) / tile * tile : LONG_STRIP_TILES * tile;
  if (!fit && rows_in_cache(g, group) > best) best = rows_in_cache(g, group);
  if (!dim_is_const(rows)) return (int)best;
  int64_t strips = (rows + (fit ? best - 1 : best / 2)) / best;
  return (int)(strips <= 1 ? (rows > 0 ? rows : 1) : (rows + strips - 1) / strips);
}

// Skinny dots read their right operand in place, once: their rows are one strip.
static bool reads_in_place(Gen *g, const Group *group) {
  bool any = false;
  for (int s = 0; group->strips.rows < PK_DOT_SKINNY && s < group->steps.count; s++) {
    const Instr *b =
        group->steps.at[s].product.dot ? dot_shape(group->steps.at[s].product.dot).b : NULL;
    any |= b && b->op == OP_LOAD && g->refs[b->ref->id].in_place.dot_rows;
    any |= group->steps.at[s].product.right != NULL || group->steps.at[s].product.in_place;
  }
  return any;
}

// Rows of a strip as equal shares of a line.
static int line_rows(Gen *g, const Group *group) {
  const int shares = (group->strips.line + g->target->dot_rows - 1) / g->target->dot_rows;
  return (group->strips.line + shares - 1) / shares;
}

void choose_strips(Gen *g, Group *group) {
  if (needs_strips(group)) group->strips.rows = group->strips.buffer_rows = strip_rows(g, group);
  if (group->strips.line)
    group->strips.rows = group->strips.buffer_rows = line_rows(g, group);
  else if (group->strips.rows && reads_in_place(g, group))
    group->strips.buffer_rows = PK_DOT_SKINNY;
  if (!group->has_dot) return;
  int64_t rows;
  bool fixed = expr_is_const(demand_expr(g, group->lead_demand[0], group->lead[0]), &rows);
  if (fixed && group->strips.buffer_rows > group->strips.rows)
    group->strips.rows = group->strips.buffer_rows =
        rows <= group->strips.buffer_rows ? (int)rows : group->strips.rows;
  group->strips.one = !group->strips.rows || (fixed && rows <= group->strips.rows);
}

// ---- bounds

static bool ends_at(const Group *group, const StripBound *b) {
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (step->demand == b->end || (is_dot(step) && step->product.along == b->end)) return true;
  }
  return false;
}

static void find_bounds(Gen *g, Group *group) {
  for (int i = 0; group->kind == GROUP_ROWS && group->leads && i < g->bounds.count; i++)
    if (ends_at(group, g->bounds.at[i]))
      LIST_PUSH(g->arena, &group->strips.bounds, g->bounds.at[i]);
}

void bound_groups(Gen *g) { visit_groups(g, g->body, find_bounds); }
