// Moves of elements as nests of loops with a stride at each end: slices, transposes, reshapes,
// parts of concatenations, of padded and of rolled values.
#include "codegen/loops/loops.h"

#include <string.h>

// ---- axes: those of one element are dropped, and neighbours that are dense at both ends become
// one

static void add_axis(Gen *g, Nest *n, const Expr *count, const Expr *to, const Expr *from) {
  ExprPool *pool = &g->exprs;
  if (expr_is(count, 1)) return;
  NestAxis *last = n->rank ? &n->axis[n->rank - 1] : NULL;
  if (last && last->to == expr_mul(pool, to, count) && last->from == expr_mul(pool, from, count))
    *last = (NestAxis){expr_mul(pool, last->count, count), to, from};
  else
    n->axis[n->rank++] = (NestAxis){count, to, from};
}

static void advance(Gen *g, const Expr **at, const Expr *by, const Expr *stride) {
  *at = expr_add(&g->exprs, *at, expr_mul(&g->exprs, by, stride));
}

static const Expr *at_least_zero(Gen *g, const Expr *e) {
  int64_t value;
  if (expr_is_const(e, &value)) return number(g, value > 0 ? value : 0);
  return expr_max(&g->exprs, e, number(g, 0));
}

// ---- the operations

typedef struct {
  Gen *g;
  const Instr *v;
  const Expr *shift;
  Place to, from;
  Nest *nest;
} Move;

static const Expr *wanted(const Move *m, int axis) {
  return demand_expr(m->g, val(m->v)->demand[axis], m->v->type.dim[axis]);
}

// Nests with constant strides. Pieces of an axis are whole pieces.
static bool move_mapped(Move *m, int part) {
  Gen *g = m->g;
  ExprPool *pool = &g->exprs;
  AxisMap map;
  (void)part;
  if (!ir_axis_map(m->v, &map)) return false;
  for (int i = 0; i < m->v->args[0]->type.rank; i++)
    advance(g, &m->nest->from_at, number(g, map.first[i]), m->from.stride[i]);
  for (int i = 0; i < map.count; i++) {
    const AxisPiece *p = &map.piece[i];
    const Dim extent = m->v->type.dim[p->to];
    const Expr *stride = expr_mul(pool, m->from.stride[p->from], number(g, p->from_step));
    bool all = extent == p->count;
    if (!all && val(m->v)->demand[p->to] != DEMAND_FULL) return false;
    if (p->from == map.reversed) {
      const Expr *last = expr_sub(pool, extent_expr(g, extent), number(g, 1));
      advance(g, &m->nest->from_at, last, stride);
      stride = expr_sub(pool, number(g, 0), stride);
    }
    add_axis(g, m->nest, all ? wanted(m, p->to) : extent_expr(g, p->count),
             expr_mul(pool, m->to.stride[p->to], number(g, p->to_step)), stride);
  }
  return true;
}

// The elements that wrap around from the end of the axis, then those before them.
static bool move_rolled(Move *m, int part) {
  Gen *g = m->g;
  ExprPool *pool = &g->exprs;
  int axis = (int)m->v->ival;
  const Expr *extent = extent_expr(g, m->v->type.dim[axis]), *end = wanted(m, axis), *by = m->shift;
  for (int i = 0; i < m->v->type.rank; i++) {
    const Expr *count = wanted(m, i);
    if (i == axis) {
      advance(g, part ? &m->nest->to_at : &m->nest->from_at, part ? by : expr_sub(pool, extent, by),
              part ? m->to.stride[i] : m->from.stride[i]);
      count = part ? at_least_zero(g, expr_sub(pool, end, by)) : expr_min(pool, by, end);
    }
    add_axis(g, m->nest, count, m->to.stride[i], m->from.stride[i]);
  }
  return true;
}

static bool move_concatenated(Move *m, int part) {
  Gen *g = m->g;
  ExprPool *pool = &g->exprs;
  const Expr *before = part_offset(g, m->v, part);
  int axis = (int)m->v->ival;
  for (int i = 0; i < m->v->type.rank; i++) {
    const Expr *count = wanted(m, i);
    if (i == axis) {
      const Expr *extent = extent_expr(g, m->v->args[part]->type.dim[i]);
      advance(g, &m->nest->to_at, before, m->to.stride[i]);
      count = val(m->v)->demand[i] == DEMAND_FULL
                  ? extent
                  : expr_min(pool, extent, at_least_zero(g, expr_sub(pool, count, before)));
    }
    add_axis(g, m->nest, count, m->to.stride[i], m->from.stride[i]);
  }
  return true;
}

// The part that is in bounds.
static bool move_padded(Move *m, int part) {
  Gen *g = m->g;
  (void)part;
  for (int i = 0; i < m->v->type.rank; i++) {
    const Expr *count = wanted(m, i), *before = number(g, m->v->ints[i]);
    advance(g, &m->nest->to_at, before, m->to.stride[i]);
    if (m->v->ints[i] != 0 || m->v->ints2[i] != 0)
      count = expr_min(&g->exprs, extent_expr(g, m->v->args[0]->type.dim[i]),
                       at_least_zero(g, expr_sub(&g->exprs, count, before)));
    add_axis(g, m->nest, count, m->to.stride[i], m->from.stride[i]);
  }
  return true;
}

typedef bool (*MoveOf)(Move *m, int part);

static MoveOf move_of(Op op) {
  switch (op) {
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_RESHAPE:
    case OP_REV:
      return move_mapped;
    case OP_ROLL:
      return move_rolled;
    case OP_CONCAT:
      return move_concatenated;
    case OP_PAD:
      return move_padded;
    default:
      return NULL;
  }
}

static int parts_of(const Instr *v) {
  if (v->op == OP_CONCAT) return v->nargs;
  return v->op == OP_ROLL ? 2 : 1;
}

// ---- the form of a nest

static bool is_long(const Expr *count) {
  int64_t n;
  return !expr_is_const(count, &n) || n >= SQUARE_ROWS;
}

static int column_of(const Nest *n) {
  if (n->rank < 2) return -1;
  const NestAxis *last = &n->axis[n->rank - 1];
  if (!expr_is(last->to, 1) || !is_long(last->count)) return -1;
  for (int i = 0; i < n->rank - 1; i++)
    if (expr_is(n->axis[i].from, 1)) return is_long(n->axis[i].count) ? i : -1;
  return -1;
}

// The distance between the elements of a row at the source; 0: they are not copied together.
static int row_step(const Nest *n) {
  static const int steps[] = {1, -1, 2};
  if (n->rank == 0) return 1;
  const NestAxis *last = &n->axis[n->rank - 1];
  for (size_t i = 0; i < sizeof steps / sizeof *steps && expr_is(last->to, 1); i++)
    if (expr_is(last->from, steps[i])) return steps[i];
  return 0;
}

static bool move_nest(Gen *g, const Instr *v, int part, const Expr *shift, Nest *nest) {
  const Instr *from = v->args[v->op == OP_CONCAT ? part : 0];
  const Expr *zero = number(g, 0);
  *nest = (Nest){.to_at = zero, .from_at = zero};
  Move m = {.g = g, .v = v, .shift = shift, .nest = nest};
  MoveOf move = move_of(v->op);
  if (!move || !layout_of(g, v, &m.to) || !layout_of(g, from, &m.from)) return false;
  nest->bytes = dtype_bytes(m.to.element);
  if (m.to.element != m.from.element || !move(&m, part)) return false;
  nest->apart = row_step(nest);
  nest->rows = nest->apart != 0;
  nest->column = nest->rows ? -1 : column_of(nest);
  return true;
}

bool move_nests(Gen *g, Group *move, const Expr *shift) {
  move->nests.count = 0;
  for (int part = 0; part < parts_of(move->instr); part++) {
    Nest nest;
    if (!move_nest(g, move->instr, part, shift, &nest)) return false;
    LIST_PUSH(g->arena, &move->nests, nest);
  }
  return true;
}

static void plan_move(Gen *g, Group *group) {
  const Instr *v = group->instr;
  if (group->kind != GROUP_GENERIC || !group->nests.count) return;
  const Expr *shift = NULL;
  if (v->op == OP_ROLL)
    shift =
        quantity(g, FN_MOD, scalar_expr(g, v->args[1]), extent_expr(g, v->type.dim[v->ival]), NULL);
  REQUIRE(move_nests(g, group, shift));
}

void plan_moves(Gen *g) { visit_groups(g, g->body, plan_move); }
