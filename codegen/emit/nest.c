// Moves of elements as C: nested loops around copies of rows, of square blocks, or of elements.
#include "codegen/emit/internal.h"

static const Expr *open_axis(CWriter *w, const Expr *count) {
  const char *i = unique_name(&w->names, "i");
  open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", i, i, expr_text(count), i);
  return expr_symbol(&w->g->exprs, i);
}

// Source and target of what the innermost loops move.
typedef struct {
  Place to, from;
} Ends;

static void step_along(Gen *g, Ends *e, const NestAxis *axis, const Expr *i) {
  ExprPool *pool = &g->exprs;
  e->to.offset = expr_add(pool, e->to.offset, expr_mul(pool, i, axis->to));
  e->from.offset = expr_add(pool, e->from.offset, expr_mul(pool, i, axis->from));
}

static void put_row(CWriter *w, const Nest *n, const Ends *e) {
  Gen *g = w->g;
  if (n->apart != 1) {
    line(w, "pk_copy_%s_b%d(%s, %s, %s);", n->apart < 0 ? "backwards" : "alternate", n->bytes,
         place_text(g, &e->to), place_text(g, &e->from), expr_text(n->axis[n->rank - 1].count));
    return;
  }
  const Expr *bytes = number(g, n->bytes);
  if (n->rank) bytes = expr_mul(&g->exprs, n->axis[n->rank - 1].count, bytes);
  const char *size = expr_is_const(bytes, &(int64_t){0})
                         ? expr_text(bytes)
                         : text(g, "(size_t)(%s)", expr_text(bytes));
  line(w, "memcpy(%s, %s, %s);", place_text(g, &e->to), place_text(g, &e->from), size);
}

// The rows of the axis before the last, together.
static void put_lines(CWriter *w, const Nest *n, const Ends *e) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const NestAxis *line_axis = &n->axis[n->rank - 2];
  const Expr *bytes = number(g, n->bytes);
  line(w, "pk_copy_lines(%s, %s, %s, %s, %s, %s);", place_text(g, &e->to),
       expr_text(expr_mul(pool, line_axis->to, bytes)), place_text(g, &e->from),
       expr_text(expr_mul(pool, line_axis->from, bytes)), expr_text(line_axis->count),
       expr_text(expr_mul(pool, n->axis[n->rank - 1].count, bytes)));
}

static void put_squares(CWriter *w, const Nest *n, const Ends *e) {
  Gen *g = w->g;
  const NestAxis *row = &n->axis[n->rank - 1], *across = &n->axis[n->column];
  line(w, "pk_transpose_block_b%d(%s, %s, %s, %s, %s, %s);", n->bytes, place_text(g, &e->to),
       expr_text(across->to), place_text(g, &e->from), expr_text(row->from), expr_text(row->count),
       expr_text(across->count));
}

static void put_nest(CWriter *w, const Nest *n, const Place *to, const Place *from) {
  Gen *g = w->g;
  Ends e = {*to, *from};
  e.to.offset = expr_add(&g->exprs, e.to.offset, n->to_at);
  e.from.offset = expr_add(&g->exprs, e.from.offset, n->from_at);
  const bool rows = n->rows || n->column >= 0,
             lines = n->rows && n->column < 0 && n->apart == 1 && n->rank > 1;
  int inner = n->rank - rows - lines, opened = 0;
  for (int i = 0; i < inner; i++) {
    if (i == n->column) continue;
    step_along(g, &e, &n->axis[i], open_axis(w, n->axis[i].count));
    opened++;
  }
  if (n->column >= 0)
    put_squares(w, n, &e);
  else if (lines)
    put_lines(w, n, &e);
  else if (n->rows)
    put_row(w, n, &e);
  else
    line(w, "memcpy(%s, %s, %d);", place_text(g, &e.to), place_text(g, &e.from), n->bytes);
  while (opened--) close_block(w);
}

// ---- the elements that a pad adds: for each axis the parts before and after the operand, within
// the operand along the axes before

typedef struct {
  const Expr *first[MAX_RANK], *end[MAX_RANK];
} Part;

static void put_pad(CWriter *w, const Instr *v, const Place *to, const Part *part,
                    const char *value) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const Expr *at[MAX_RANK];
  for (int i = 0; i < v->type.rank; i++)
    if (part->first[i] == part->end[i]) return;
  for (int i = 0; i < v->type.rank; i++) {
    const Expr *first = part->first[i], *count = expr_sub(pool, part->end[i], first);
    at[i] = expr_is(count, 1) ? first : expr_add(pool, first, open_axis(w, count));
  }
  line(w, "pks_store_%s(%s, %s);", dtype_info[to->element].name, address(g, to, v->type.rank, at),
       value);
  for (int i = 0; i < v->type.rank; i++)
    if (!expr_is(expr_sub(pool, part->end[i], part->first[i]), 1)) close_block(w);
}

// Stores the padding of a pad around its operand, in two parts for each axis.
static void put_pads(CWriter *w, const Instr *v, const Place *to) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  Part part, inside;
  for (int i = 0; i < v->type.rank; i++) {
    const Expr *end = demand_expr(g, val(v)->demand[i], v->type.dim[i]),
               *before = number(g, v->ints[i]),
               *after = expr_add(pool, before, extent_expr(g, v->args[0]->type.dim[i]));
    part.first[i] = number(g, 0);
    part.end[i] = end;
    inside.first[i] = expr_min(pool, before, end);
    inside.end[i] = v->ints[i] == 0 && v->ints2[i] == 0 ? end : expr_min(pool, after, end);
  }
  const char *value = scalar_text(g, v->args[1]);
  for (int i = 0; i < v->type.rank; i++) {
    part.end[i] = inside.first[i];
    put_pad(w, v, to, &part, value);
    part.first[i] = inside.end[i];
    part.end[i] = demand_expr(g, val(v)->demand[i], v->type.dim[i]);
    put_pad(w, v, to, &part, value);
    part.first[i] = inside.first[i];
    part.end[i] = inside.end[i];
  }
}

void emit_nests(CWriter *w, const Group *group) {
  Gen *g = w->g;
  const Instr *v = group->instr;
  Place to, from;
  REQUIRE(place_of(g, v, &to));
  if (v->op == OP_PAD) put_pads(w, v, &to);
  for (int part = 0; part < group->nests.count; part++) {
    if (v->op == OP_CONCAT && is_inside(v, part)) continue;
    REQUIRE(place_of(g, v->args[v->op == OP_CONCAT ? part : 0], &from));
    put_nest(w, &group->nests.at[part], &to, &from);
  }
}
