// Unroll and jam: the column loops of several rows become one, so that what these rows share is
// loaded once.
//
// A sum of neighbouring rows times weights (a depthwise convolution) reads each row of its image
// and each row of weights again for every row of the result. With four rows jammed, a vector is
// loaded once for all four. Rows that are parts of the same words (a view of i32 as f16) share
// these if the first of the jammed rows begins a word.
#include "codegen/ir/axes.h"
#include "codegen/loops/loops.h"

#include <string.h>

// A loaded vector: its source and position. Equal expressions are one pointer.
typedef struct {
  const void *of;  // a value, or a ref
  const Expr *at[MAX_RANK];
} Vector;

typedef struct {
  Gen *g;
  const Group *group;
  bool known;  // all loads have these forms
  LIST(Vector) vectors;
} Reads;

// The element of the ref at which a load starts, if all starts are constant: windows with such
// starts may have rows in common.
static bool element_of_ref(Gen *g, const Instr *load, const Expr *const *at, const Expr **element) {
  const Window *w = &load->window;
  for (int k = 0, axis = 0; k < load->ref->type.rank; k++) {
    if (load->args[k]->op != OP_CONST) return false;
    element[k] = number(g, load->args[k]->ival);
    if (w->squeeze[k]) continue;
    const bool columns = axis == load->type.rank - 1;
    const Expr *moved =
        columns ? number(g, 0) : expr_mul(&g->exprs, at[axis], number(g, w->stride[k]));
    element[k] = expr_add(&g->exprs, moved, element[k]);
    axis++;
  }
  return true;
}

static void note_vector(Reads *r, const Instr *v, const Expr *const *at) {
  Vector new = {.of = v};
  if (!val(v)->buffer && element_of_ref(r->g, v, at, new.at))
    new.of = v->ref;
  else
    memcpy(new.at, at, (size_t)(v->type.rank - 1) * sizeof *at);
  for (int i = 0; i < r->vectors.count; i++)
    if (memcmp(&r->vectors.at[i], &new, sizeof new) == 0) return;
  LIST_PUSH(r->g->arena, &r->vectors, new);
}

static void note_read(Reads *r, const Instr *v, const Expr *const *at) {
  AxisMap map;
  const Expr *from[MAX_RANK];
  if (v->type.rank == 0 || is_row_scalar(v) || v->op == OP_IOTA || v->op == OP_CONST) return;
  if (val(v)->group == r->group && !val(v)->buffer && !is_transparent(v)) return;
  if (val(v)->buffer || (v->op == OP_LOAD && is_transparent(v) && lane_step(v) == 1)) {
    note_vector(r, v, at);
  } else if (is_transparent(v) && v->nargs && ir_axis_map(v, &map)) {
    operand_index(r->g, v, &map, at, from);
    note_read(r, v->args[0], from);
  } else {
    r->known = false;
  }
}

// Does anything in the step read what it stores, or is any row value kept in memory?
static bool may_jam(const Step *step) {
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    bool plain = v->op == OP_STORE ? !ir_mask(v) && !val(v)->divided && lane_step(v) == 1
                                   : op_is_elementwise(v->op) && !val(v)->buffer;
    if (!plain || val(v)->only_for) return false;
    for (int i = 0; v->op == OP_STORE && i < step->members.count; i++)
      if (instr_reads(step->members.at[i], v->ref)) return false;
  }
  return !step->loop.unmasked && !step->loop.ahead.count && step->loop.vectors == 1;
}

static const Step *only_step(const Group *group) {
  const Step *only = NULL;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (is_dot(step) || (step->members.count && only)) return NULL;
    if (step->members.count) only = step;
  }
  return group->scalars.count || group->strips.bounds.count || group->feeds.dots ? NULL : only;
}

void index_of_row(Gen *g, const Group *group, const Expr *row, const Expr **at) {
  for (int i = 0; i < group->leads - 1; i++) at[i] = expr_symbol(&g->exprs, text(g, "row %d", i));
  if (group->leads) at[group->leads - 1] = row;
  at[group->leads] = number(g, 0);
}

const Expr *jammed_row(Gen *g, int row) {
  const Expr *first = expr_mul(&g->exprs, expr_symbol(&g->exprs, "jam"), number(g, JAMMED));
  return expr_add(&g->exprs, first, number(g, row));
}

static void note_row(Reads *r, const Step *step, const Expr *row) {
  const Expr *at[MAX_RANK];
  index_of_row(r->g, r->group, row, at);
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    if (v->op == OP_STORE)
      note_read(r, ir_store_value(v), at);
    else
      for (int i = 0; i < v->nargs; i++) note_read(r, v->args[i], at);
  }
}

// The different vectors that rows from `first` on read; `*loads`: those of the first one. 0: not
// all that they read is of known forms.
static int count_vectors(Gen *g, const Group *group, const Step *step, const Expr *first, int rows,
                         int *loads) {
  Reads r = {.g = g, .group = group, .known = true};
  for (int row = 0; row < rows; row++) {
    note_row(&r, step, expr_add(&g->exprs, first, number(g, row)));
    if (row == 0) *loads = r.vectors.count;
  }
  return r.known ? r.vectors.count : 0;
}

// Do rows share words if the first of them begins one, and only then?
static bool share_words(Gen *g, const Group *group, const Step *step) {
  int loads;
  const Expr *anywhere = expr_symbol(&g->exprs, "row");
  const int vectors = count_vectors(g, group, step, jammed_row(g, 0), JAMMED, &loads);
  return vectors && JAMMED * loads >= 2 * vectors &&
         vectors < count_vectors(g, group, step, anywhere, JAMMED, &loads);
}

// Do that many rows load at most half as many vectors together as one by one?
static bool halves_loads(Gen *g, const Group *group, const Step *step, int rows) {
  int loads;
  const int vectors = count_vectors(g, group, step, expr_symbol(&g->exprs, "row"), rows, &loads);
  return vectors && loads >= JAMMED_LOADS && rows * loads >= 2 * vectors;
}

void jam_rows(Gen *g, Group *group) {
  const Step *step = group->leads ? only_step(group) : NULL;
  if (!step || !may_jam(step)) return;
  group->by_words = share_words(g, group, step);
  const bool many = g->target->dot_rows * g->target->dot_vectors > SUMS_OF_16;
  const int rows = many || group->by_words ? JAMMED : JAMMED / 2;
  int64_t extent;
  const Expr *all =
      demand_expr(g, group->lead_demand[group->leads - 1], group->lead[group->leads - 1]);
  if (expr_is_const(all, &extent) && extent < rows) return;
  if (group->by_words || halves_loads(g, group, step, rows)) group->jammed = rows;
}
