// Sums of products: `dot(a, b) + dot(c, d)` is one sum, to which the second adds its terms after
// the first. So no array of sums is stored in between (interpreter: `continued`, bound.c).
//
// If all operands are in buffers of their own, these become parts of one buffer each, and the
// products are one product along all their terms, whose sums stay in registers.
#include "codegen/loops/loops.h"

// Users of a sum read it from the product that adds the last terms.
static void read_from(Instr *dot, const Instr *add) {
  Val *sum = val(dot);
  sum->users = val(add)->users;
  for (int i = 0; i < sum->users.count; i++) {
    Instr *user = sum->users.at[i];
    for (int a = 0; a < user->nargs; a++)
      if (user->args[a] == add) user->args[a] = dot;
  }
}

// A right operand that loops compute while its skinny dot runs comes before all others.
static bool goes_first(Gen *g, const Group *group, const Instr *dot) {
  int64_t rows;
  bool many = expr_is_const(demand_expr(g, group->lead_demand[0], group->lead[0]), &rows) &&
              !is_skinny(rows);
  const Instr *b = dot_shape(dot).b;
  return !many && b->op != OP_LOAD && !is_transparent(b);
}

static bool same_demand(const Instr *a, const Instr *b) {
  for (int i = 0; i < a->type.rank; i++)
    if (val(a)->demand[i] != val(b)->demand[i]) return false;
  return true;
}

void continue_sum(Gen *g, Group *group, Step *step) {
  Instr *dot = step->product.dot;
  Instr *add = val(dot)->users.count == 1 ? val(dot)->users.at[0] : NULL;
  if (!add || add->op != OP_ADD || val(add)->group != group || add->args[0] == add->args[1]) return;
  Instr *first = add->args[add->args[0] == dot];
  if (first->op != OP_DOT || val(first)->users.count != 1 || val(first)->group != group ||
      val(first)->step >= val(dot)->step || val(first)->dot.kind != val(dot)->dot.kind ||
      !same_demand(first, dot) || !same_demand(add, dot) || is_row_scalar(dot))
    return;
  if (goes_first(g, group, first) || goes_first(g, group, dot)) return;
  take_out(group, add);
  read_from(dot, add);
  val(first)->users.at[0] = dot;
  step->product.onto = first;
}

// ---- products whose operands are adjacent

static Step *step_of(const Instr *dot) { return &val(dot)->group->steps.at[val(dot)->step]; }

static bool is_continued(const Group *group, const Instr *dot) {
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.onto == dot) return true;
  return false;
}

// Each row is whole vectors, so that storing a row does not write into the next part.
static bool has_own_left(Gen *g, const Group *group, const Instr *dot) {
  const DotShape s = dot_shape(dot);
  const Val *a = val(s.a);
  return at_hand_left(g, dot, s) && a->buffer && a->row_local && a->group == group &&
         a->users.count == 1 && !a->buffer->inside && !s.a_transposed &&
         s.a->type.dim[1] % g->lanes == 0;
}

static bool has_own_right(Gen *g, const Instr *dot) {
  const DotShape s = dot_shape(dot);
  const Val *b = val(s.b);
  return s.b->op != OP_LOAD && b->buffer && !b->row_local && b->users.count == 1 &&
         !b->buffer->inside && !s.b_transposed && b->group && b->group->kind == GROUP_ROWS &&
         !b->group->feeds.dots && s.b->op != OP_DOT && !is_adjacent_value(g, s.b) &&
         s.b->type.rank == 2;
}

static bool may_be_contiguous(Gen *g, const Group *group, const Instr *dot, const Instr *first) {
  const DotShape s = dot_shape(dot), other = dot_shape(first);
  const bool constant = dim_is_const(dot_depth(dot)) && dim_is_const(dot->type.dim[1]);
  const bool windows = step_of(dot)->product.window && step_of(first)->product.window;
  return constant && contracted_demand(g, dot) == DEMAND_FULL &&
         (windows || has_own_left(g, group, dot)) && has_own_right(g, dot) &&
         !step_of(dot)->product.right && !step_of(dot)->product.in_place &&
         (windows || val(s.a)->buffer->element == val(other.a)->buffer->element) &&
         val(s.b)->buffer->element == val(other.b)->buffer->element;
}

static Buffer *operands_buffer(Gen *g, const Step *last, const char *side, const Instr *one,
                               Dim rows, Dim columns) {
  const Dim dims[2] = {rows, columns};
  return buffer_new(g, text(g, "%s%d", side, last->product.dot->id), val(one)->buffer->element, 2,
                    dims, "operands of a sum of dots");
}

static void join_operands(Gen *g, const Group *group, Step *last) {
  const DotShape one = dot_shape(last->product.dot);
  const Dim rows = group->strips.rows ? group->strips.buffer_rows : group->lead[0];
  const Buffer *left = last->product.window
                           ? NULL
                           : operands_buffer(g, last, "left", one.a, rows, last->product.depth),
               *right = operands_buffer(g, last, "right", one.b, last->product.depth,
                                        last->product.dot->type.dim[1]);
  const Expr *before = number(g, 0);
  for (int i = 0; i < last->product.parts.count; i++) {
    const DotShape s = dot_shape(last->product.parts.at[i]);
    if (left) keep_inside(g, val(s.a)->buffer, left, before);
    keep_inside(g, val(s.b)->buffer, right, expr_mul(&g->exprs, before, right->stride[0]));
    before = expr_add(&g->exprs, before, number(g, dot_depth(last->product.parts.at[i])));
  }
}

static void join_chain(Gen *g, Group *group, Step *last) {
  enum { MOST_PARTS = 64 };
  Instr *chain[MOST_PARTS];
  int count = 0;
  if (!last->product.onto || is_continued(group, last->product.dot)) return;
  for (Instr *dot = last->product.dot; dot; dot = step_of(dot)->product.onto) {
    if (count == MOST_PARTS || !may_be_contiguous(g, group, dot, last->product.dot)) return;
    chain[count++] = dot;
  }
  for (int i = count - 1; i >= 0; i--) {
    LIST_PUSH(g->arena, &last->product.parts, chain[i]);
    last->product.depth += dot_depth(chain[i]);
    step_of(chain[i])->joined = i > 0;
  }
  join_operands(g, group, last);
}

void join_products(Gen *g, Schedule *s) {
  for (int i = 0; i < s->groups.count; i++)
    for (int k = 0; s->groups.at[i]->kind == GROUP_ROWS && k < s->groups.at[i]->steps.count; k++)
      if (is_dot(&s->groups.at[i]->steps.at[k]))
        join_chain(g, s->groups.at[i], &s->groups.at[i]->steps.at[k]);
}
