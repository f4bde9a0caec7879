// A group of loops as C: rows, strips of rows, and the row scalars between their steps.
#include "codegen/emit/internal.h"

#include <inttypes.h>

// ---- row scalars

static void emit_row_scalar(Context *x, const Instr *v) {
  Gen *g = x->g;
  show_source(x->w, v->span);
  x->index[x->group->leads] = number(g, 0);
  if (v->op == OP_STORE) {
    const Place p = member_place(x, v);
    const Expr *value = argument_at(x, ir_store_value(v), false);
    const Instr *mask = ir_mask(v);
    line(x->w, "%spks_store_%s(%s, %s);",
         mask ? text(g, "if (%s) ", expr_text(argument_at(x, mask, false))) : "",
         dtype_info[p.element].name, place_text(g, &p), expr_text(value));
    return;
  }
  const char *name = member_name(x->w, v);
  line(x->w, "const %s %s = %s;", scalar_type(v->type.dtype), name, expr_text(element_at(x, v)));
  know(x, v, name, false);
  keep_row_scalar(x, v, name);
}

static bool scalars_follow(const Group *group, int step) {
  for (int i = 0; i < group->scalars.count; i++)
    if (val(group->scalars.at[i])->after == step) return true;
  return false;
}

static void emit_scalars_after(Context *x, int step) {
  int first = 0;
  while (first < x->group->scalars.count && val(x->group->scalars.at[first])->after != step)
    first++;
  if (first < x->group->scalars.count) lap(x->w, &x->group->scalars.at[first], 1, "once a row");
  for (int i = 0; i < x->group->scalars.count; i++)
    if (val(x->group->scalars.at[i])->after == step) emit_row_scalar(x, x->group->scalars.at[i]);
}

// ---- the group

static const Expr *open_row_loop(CWriter *w, const Expr *from, const Expr *to) {
  Gen *g = w->g;
  const char *row = unique_name(&w->names, "row");
  open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", row, expr_text(from), row, expr_text(to),
             row);
  return expr_symbol(&g->exprs, row);
}

// How many columns the rows before `end` need, for masks that differ between rows.
static void declare_bounds(Context *x, const Expr *end) {
  Gen *g = x->g;
  const Expr *all = extent_expr(g, x->group->lead[x->group->leads - 1]);
  if (g->batch && g->batch->inside == x->group->lead_demand[x->group->leads - 1]) {
    all = g->batch->own;
    end = expr_min(&g->exprs, end, all);
  }
  for (int i = 0; i < x->group->bounds.count; i++) {
    const StripBound *b = x->group->bounds.at[i];
    line(x->w, "const int64_t %s = %s;", b->end->name,
         expr_text(bound_expr(g, b, b->shared ? all : end, demand_expr(g, b->base, b->columns))));
  }
}

// The rows [first, end) of a strip, in as many loops as its steps are cut into.
typedef struct {
  const Expr *first, *end;
  int known, taken;  // names before the open loop
} RowLoops;

static void leave_loop(Context *x, const RowLoops *rows) {
  if (x->loop < 0) return;
  close_block(x->w);
  x->loop = -1;
  x->known.count = rows->known;
  close_names(&x->w->names, rows->taken);
}

static void enter_loop(Context *x, RowLoops *rows, int loop) {
  if (x->loop == loop) return;
  leave_loop(x, rows);
  rows->known = x->known.count;
  rows->taken = open_names(&x->w->names);
  const Expr *row = open_row_loop(x->w, rows->first, rows->end);
  x->w->source_line = 0;  // each loop says what it computes
  x->index[x->group->leads - 1] = row;
  x->strip_row = expr_sub(&x->g->exprs, row, rows->first);
  x->loop = loop;
}

static void emit_loops(Context *x, const Expr *first, const Expr *end) {
  Group *group = x->group;
  RowLoops rows = {.first = first, .end = end};
  x->loop = -1;
  for (int s = -1; s < group->steps.count; s++) {
    const Step *step = s >= 0 ? &group->steps.at[s] : NULL;
    if (step && step->kind == STEP_DOT) {
      leave_loop(x, &rows);
      lap(x->w, (Instr *const *)&step->dot, 1, "dot");
      if (step->right) open_block(x->w, "if (!%s)", x->few);
      emit_dot(x->w, group, step, first, expr_sub(&x->g->exprs, end, first));
      if (step->right) close_block(x->w);
    } else if (step && step->members.count) {
      enter_loop(x, &rows, loop_of_step(group, s));
      lap(x->w, step->members.at, step->members.count, "columns");
      emit_column_step(x, step);
    }
    if (!scalars_follow(group, s)) continue;
    enter_loop(x, &rows, loop_after(group, s));
    emit_scalars_after(x, s);
  }
  leave_loop(x, &rows);
}

static void emit_strips(Context *x) {
  Gen *g = x->g;
  Group *group = x->group;
  const Expr *all = demand_expr(g, group->lead_demand[0], group->lead[0]);
  if (group->one_strip) {
    line(x->w, "{");
    x->w->indent++;
    declare_bounds(x, all);
    emit_loops(x, number(g, 0), all);
    close_block(x->w);
    return;
  }
  const char *rows = expr_text(all);
  const char *first = unique_name(&x->w->names, "strip"),
             *end = unique_name(&x->w->names, "strip_end"), *height = text(g, "%d", group->strip);
  const char *choice = "";  // of the loop's own: the next group may use the name again
  if (group->room > group->strip) {
    height = unique_name(&x->w->names, "strip_rows");
    choice =
        text(g, ", %s = %s <= %d ? %d : %d", height, rows, group->room, group->room, group->strip);
  }
  open_block(x->w, "for (int64_t %s = 0%s; %s < %s; %s += %s)", first, choice, first, rows, first,
             height);
  line(x->w, "const int64_t %s = pk_idx_min(%s + %s, %s);", end, first, height, rows);
  declare_bounds(x, expr_symbol(&g->exprs, end));
  emit_loops(x, expr_symbol(&g->exprs, first), expr_symbol(&g->exprs, end));
  close_block(x->w);
}

static void lap_step(CWriter *w, const Step *step) {
  if (step->kind == STEP_DOT)
    lap(w, (Instr *const *)&step->dot, 1, "dot");
  else
    lap(w, step->members.at, step->members.count, "columns");
}

static void emit_plain_rows(Context *x) {
  Gen *g = x->g;
  Group *group = x->group;
  int opened = 0;
  bool alone = group->steps.count == 1 && group->scalars.count == 0;
  if (alone) lap_step(x->w, &group->steps.at[0]);
  for (int i = 0; i < group->leads; i++) {
    if (group->lead[i] == 1) {
      x->index[i] = number(g, 0);
      continue;
    }
    x->index[i] =
        open_row_loop(x->w, number(g, 0), demand_expr(g, group->lead_demand[i], group->lead[i]));
    opened++;
  }
  x->strip_row = number(g, 0);
  if (!opened) {
    line(x->w, "{");
    x->w->indent++;
  }
  if (group->bounds.count)
    declare_bounds(x, expr_add(&g->exprs, x->index[group->leads - 1], number(g, 1)));
  emit_scalars_after(x, -1);
  for (int s = 0; s < group->steps.count; s++) {
    if (!alone) lap_step(x->w, &group->steps.at[s]);
    emit_column_step(x, &group->steps.at[s]);
    emit_scalars_after(x, s);
  }
  for (int i = 0; i < (opened ? opened : 1); i++) close_block(x->w);
}

// ---- right operands that loops compute: all rows before the dots, or some at a time, which are
// multiplied at once

// What the loops of a maker read for a row comes into L2. Rows that consist of rows most often lie
// one behind the other.
static void prefetch_rows(CWriter *w, const Group *maker, const Expr *row) {
  Gen *g = w->g;
  const Expr *at[MAX_RANK];
  at[0] = row;
  for (int k = 1; k < MAX_RANK; k++) at[k] = number(g, 0);
  for (int i = 0; i < maker->ahead.count; i++) {
    const Instr *v = maker->ahead.at[i];
    int last = v->type.rank - 1;
    Place p;
    REQUIRE(place_of(g, v, &p));
    int64_t bytes = dtype_bytes(p.element);
    for (int k = 1; k < last; k++) bytes *= v->type.dim[k];
    line(w, "pk_prefetch_row(%s, %s * %" PRId64 ");", address(g, &p, v->type.rank, at),
         demand_text(g, val(v)->demand[last], v->type.dim[last]), bytes);
  }
}

// Rows from `first` to `end`; what is kept of them is at the beginning of its buffer.
static void emit_rows_from(CWriter *w, Group *group, const Expr *first, const Expr *end) {
  Gen *g = w->g;
  Context x = {.g = g, .w = w, .group = group};
  int taken = open_names(&w->names);
  const Expr *row = open_row_loop(w, first, end);
  x.index[0] = row;
  x.strip_row = expr_sub(&g->exprs, row, first);
  prefetch_rows(w, group, expr_add(&g->exprs, row, number(g, group->part)));
  if (group->bounds.count) declare_bounds(&x, expr_add(&g->exprs, row, number(g, 1)));
  emit_scalars_after(&x, -1);
  for (int s = 0; s < group->steps.count; s++) {
    lap_step(w, &group->steps.at[s]);
    emit_column_step(&x, &group->steps.at[s]);
    emit_scalars_after(&x, s);
  }
  close_block(w);
  close_names(&w->names, taken);
}

// ---- .. of one row: what a loop computes is multiplied in registers, some rows at a time

typedef struct {
  CWriter *w;
  Group *maker;
  const Group *reader;
  const char **products, **sums, **left;  // by step of the reader
  const char *part, *count;
} OneRow;

static bool is_made(const OneRow *o, int step) {
  return o->reader->steps.at[step].right == o->maker;
}

static void start_sums(OneRow *o) {
  for (int s = 0; s < o->reader->steps.count; s++) {
    if (!is_made(o, s)) continue;
    o->sums[s] = unique_name(&o->w->names, "sums");
    o->left[s] = unique_name(&o->w->names, "factors");
    line(o->w, "pk_dot_few_start(&%s);", o->products[s]);
    line(o->w, "float *const %s = %s.to;", o->sums[s], o->products[s]);
    line(o->w, "const float *const %s = %s.a;", o->left[s], o->products[s]);
  }
}

// A vector of columns, all of it or `left` lanes: the sums, and what `rows` rows add to them.
static void add_rows(OneRow *o, const Expr *column, const Expr *left, const char *rows) {
  CWriter *w = o->w;
  Gen *g = w->g;
  const char *at = column->name, *lanes = left ? left->name : NULL,
             **sum = NEW_ARRAY(g->arena, const char *, o->reader->steps.count);
  for (int s = 0; s < o->reader->steps.count; s++) {
    if (!is_made(o, s)) continue;
    sum[s] = unique_name(&w->names, "sum");
    line(w, "pk_f32v %s = pk_load%s_f32(%s + %s%s);", sum[s], lanes ? "n" : "", o->sums[s], at,
         lanes ? text(g, ", %s", lanes) : "");
  }
  const char *r = unique_name(&w->names, "r");
  if (!lanes) line(w, "PK_UNROLL");
  open_block(w, "for (int %s = 0; %s < %s; %s++)", r, r, rows, r);
  const Expr *row = expr_add(&g->exprs, expr_symbol(&g->exprs, o->part), expr_symbol(&g->exprs, r));
  Context x = {.g = g, .w = w, .group = o->maker};
  x.index[0] = row;
  x.strip_row = number(g, 0);
  emit_vectors(&x, &o->maker->steps.at[0], column, left);
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s))
      line(w, "%s = pk_fma_fast_f32(pk_splat_f32(%s[%s]), %s, %s);", sum[s], o->left[s],
           expr_text(row),
           expr_text(argument_at(&x, dot_shape(o->reader->steps.at[s].dot).b, true)), sum[s]);
  close_block(w);
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s))
      line(w, "pk_store%s_f32(%s + %s, %s%s);", lanes ? "n" : "", o->sums[s], at, sum[s],
           lanes ? text(g, ", %s", lanes) : "");
}

static void emit_one_row(OneRow *o, const char *rows) {
  CWriter *w = o->w;
  Gen *g = w->g;
  const Step *step = &o->maker->steps.at[0];
  const int height = o->maker->part;
  const Expr *all = demand_expr(g, step->demand, step->columns);
  const char *ahead = unique_name(&w->names, "ahead"), *left = unique_name(&w->names, "left");
  const Expr *column = expr_symbol(&g->exprs, unique_name(&w->names, "col"));
  o->part = unique_name(&w->names, "row");
  o->count = unique_name(&w->names, "count");
  start_sums(o);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", o->part, o->part, rows, o->part, height);
  line(w, "const int %s = (int)pk_idx_min(%d, %s - %s);", o->count, height, rows, o->part);
  open_block(w, "for (int64_t %s = %s + %d; %s < %s + %d; %s++)", ahead, o->part, height, ahead,
             o->part, 2 * height, ahead);
  prefetch_rows(w, o->maker, expr_symbol(&g->exprs, ahead));
  close_block(w);
  line(w, "int64_t %s = 0;", column->name);
  open_block(w, "for (; %s == %d && %s + %d <= %s; %s += %d)", o->count, height, column->name,
             g->lanes, expr_text(all), column->name, g->lanes);
  add_rows(o, column, NULL, text(g, "%d", height));
  close_block(w);
  open_block(w, "for (; %s < %s; %s += %d)", column->name, expr_text(all), column->name, g->lanes);
  line(w, "const int64_t %s = %s - %s;", left, expr_text(all), column->name);
  add_rows(o, column, expr_symbol(&g->exprs, left), o->count);
  close_block(w);
  close_block(w);
}

// ---- .. of a transposed operand: sums for some of its rows, and for `lines` of the left one, stay
// in registers along all of k; vectors of what a loop computes are multiplied by vectors

typedef struct {
  OneRow *o;
  int lines, height;
  const char **sum, **factor;  // by step of the reader
} Turned;

static void declare_turned_sums(const Turned *t) {
  CWriter *w = t->o->w;
  for (int s = 0; s < t->o->reader->steps.count; s++) {
    if (!is_made(t->o, s)) continue;
    const char *i = unique_name(&w->names, "i");
    t->sum[s] = unique_name(&w->names, "sum");
    line(w, "pk_f32v %s[%d];", t->sum[s], t->lines * t->height);
    line(w, "PK_UNROLL");
    line(w, "for (int %s = 0; %s < %d; %s++) %s[%s] = pk_splat_f32(0);", i, i, t->lines * t->height,
         i, t->sum[s], i);
  }
}

// Vectors of the left rows; past the last row it is taken again.
static void load_factors(const Turned *t, const Expr *column, const Expr *left) {
  CWriter *w = t->o->w;
  for (int s = 0; s < t->o->reader->steps.count; s++) {
    if (!is_made(t->o, s)) continue;
    const char *product = t->o->products[s], *m = unique_name(&w->names, "m");
    t->factor[s] = unique_name(&w->names, "factor");
    line(w, "pk_f32v %s[%d];", t->factor[s], t->lines);
    line(w, "PK_UNROLL");
    open_block(w, "for (int %s = 0; %s < %d; %s++)", m, m, t->lines, m);
    const char *from = t->lines == 1
                           ? text(w->g, "%s + %s", t->o->left[s], expr_text(column))
                           : text(w->g, "%s + pk_idx_min(%s, %s.rows - 1) * (%s.lda / 4) + %s",
                                  t->o->left[s], m, product, product, expr_text(column));
    line(w, left ? "%s[%s] = pk_loadn_f32(%s, %s);" : "%s[%s] = pk_load_f32(%s);", t->factor[s], m,
         from, left ? left->name : "");
    close_block(w);
  }
}

// A vector of columns of each row at hand, all of it or `left` lanes.
static void add_turned(const Turned *t, const char *row, const char *rows, const Expr *column,
                       const Expr *left) {
  CWriter *w = t->o->w;
  Gen *g = w->g;
  load_factors(t, column, left);
  const char *r = unique_name(&w->names, "r"), *at = unique_name(&w->names, "at");
  line(w, "PK_UNROLL");
  open_block(w, "for (int %s = 0; %s < %d; %s++)", r, r, t->height, r);
  line(w, "const int64_t %s = pk_idx_min(%s + %s, %s - 1);", at, row, r, rows);
  Context x = {.g = g, .w = w, .group = t->o->maker};
  x.index[0] = expr_symbol(&g->exprs, at);
  x.strip_row = number(g, 0);
  emit_vectors(&x, &t->o->maker->steps.at[0], column, left);
  for (int s = 0; s < t->o->reader->steps.count; s++) {
    if (!is_made(t->o, s)) continue;
    const Instr *b = dot_shape(t->o->reader->steps.at[s].dot).b;
    const char *value = expr_text(argument_at(&x, b, true)), *m = unique_name(&w->names, "m"),
               *sum = text(g, "%s[%s * %d + %s]", t->sum[s], m, t->height, r);
    if (left)
      value = text(g, "pk_select_f32(pk_mask_first(%s), %s, pk_splat_f32(0))", left->name, value);
    line(w, "PK_UNROLL");
    line(w, "for (int %s = 0; %s < %d; %s++) %s = pk_fma_fast_f32(%s[%s], %s, %s);", m, m, t->lines,
         m, sum, t->factor[s], m, value, sum);
  }
  close_block(w);
}

static void put_turned_sums(const Turned *t, const char *row, const char *rows) {
  CWriter *w = t->o->w;
  for (int s = 0; s < t->o->reader->steps.count; s++) {
    if (!is_made(t->o, s)) continue;
    const char *product = t->o->products[s], *m = unique_name(&w->names, "m"),
               *r = unique_name(&w->names, "r");
    line(w, "PK_UNROLL");
    open_block(w, "for (int %s = 0; %s < %d; %s++)", m, m, t->lines, m);
    line(w, "PK_UNROLL");
    line(w, "for (int %s = 0; %s < %d; %s++)", r, r, t->height, r);
    line(w, "  if (%s < %s.rows && %s + %s < %s)", m, product, row, r, rows);
    line(w, "    %s[%s * (%s.ldto / 4) + %s + %s] += pk_reduce_add_f32(%s[%s * %d + %s]);",
         t->o->sums[s], m, product, row, r, t->sum[s], m, t->height, r);
    close_block(w);
  }
}

static const char *depth_text(const OneRow *o) {
  for (int s = 0;; s++)
    if (is_made(o, s)) return text(o->w->g, "%s.k", o->products[s]);
}

static void emit_turned(OneRow *o, const char *rows, int lines, int height) {
  CWriter *w = o->w;
  Gen *g = w->g;
  const char **names = NEW_ARRAY(g->arena, const char *, 2 * o->reader->steps.count);
  const Turned t = {o, lines, height, names, names + o->reader->steps.count};
  const char *row = unique_name(&w->names, "row"), *depth = depth_text(o),
             *left = unique_name(&w->names, "left"), *ahead = unique_name(&w->names, "ahead");
  const Expr *turn = expr_symbol(&g->exprs, unique_name(&w->names, "turn")),
             *block = expr_symbol(&g->exprs, unique_name(&w->names, "block"));
  const int columns = TURNED_VECTORS * g->lanes;
  start_sums(o);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", row, row, rows, row, height);
  if (o->maker->ahead.count) {
    open_block(w, "for (int64_t %s = %s + %d; %s < %s + %d; %s++)", ahead, row, height, ahead, row,
               2 * height, ahead);
    prefetch_rows(w, o->maker, expr_symbol(&g->exprs, ahead));
    close_block(w);
  }
  declare_turned_sums(&t);
  line(w, "int64_t %s = 0;", turn->name);
  // By blocks of constant length, so that what their vectors share is seen to be the same.
  open_block(w, "for (int64_t %s = 0; %s + %d <= %s; %s++, %s += %d)", block->name, turn->name,
             columns, depth, block->name, turn->name, columns);
  for (int v = 0; v < TURNED_VECTORS; v++) {
    const Expr *first = expr_mul(&g->exprs, block, number(g, columns));
    line(w, "{");
    w->indent++;
    add_turned(&t, row, rows, expr_add(&g->exprs, first, number(g, v * g->lanes)), NULL);
    close_block(w);
  }
  close_block(w);
  open_block(w, "for (; %s < %s; %s += %d)", turn->name, depth, turn->name, g->lanes);
  line(w, "const int64_t %s = %s - %s;", left, depth, turn->name);
  add_turned(&t, row, rows, turn, expr_symbol(&g->exprs, left));
  close_block(w);
  put_turned_sums(&t, row, rows);
  close_block(w);
}

// The rows on the left that are multiplied in registers, and the rest, `else`.
static void emit_in_registers(OneRow *o, const char *rows) {
  CWriter *w = o->w;
  Gen *g = w->g;
  const Group *reader = o->reader;
  const char *lines = expr_text(demand_expr(g, reader->lead_demand[0], reader->lead[0]));
  bool turned = false;
  for (int s = 0; s < reader->steps.count; s++)
    turned = turned || (is_made(o, s) && dot_shape(reader->steps.at[s].dot).b_transposed);
  int taken = open_names(&w->names);
  open_block(w, "if (%s == 1)", lines);
  if (turned)
    emit_turned(o, rows, 1, TURNED_ROWS_FOR_ONE);
  else
    emit_one_row(o, rows);
  close_block(w);
  close_names(&w->names, taken);
  taken = open_names(&w->names);
  if (turned) {
    open_block(w, "else if (%s <= %d)", lines, ROWS_IN_REGISTERS);
    emit_turned(o, rows, ROWS_IN_REGISTERS, TURNED_ROWS_FOR_SEVERAL);
    close_block(w);
  }
  close_names(&w->names, taken);
  open_block(w, "else");
}

// The loops of one group, and the dots of `group` whose right operand it computes.
static void emit_maker(CWriter *w, const Group *group, Group *maker, const char *few) {
  Gen *g = w->g;
  const char **products = NEW_ARRAY(g->arena, const char *, group->steps.count),
             *part = unique_name(&w->names, "part"), *end = unique_name(&w->names, "part_end");
  const char *rows = expr_text(demand_expr(g, maker->lead_demand[0], maker->lead[0]));
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (step->right != maker) continue;
    products[s] = emit_whole_product(w, group, step);
  }
  if (maker->in_registers) {
    OneRow o = {.w = w, .maker = maker, .reader = group, .products = products};
    o.sums = NEW_ARRAY(g->arena, const char *, group->steps.count);
    o.left = NEW_ARRAY(g->arena, const char *, group->steps.count);
    emit_in_registers(&o, rows);
  }
  line(w, "int64_t %s = 0;", part);
  open_block(w, "do");
  line(w, "const int64_t %s = %s ? pk_idx_min(%s + %d, %s) : %s;", end, few, part, maker->part,
       rows, rows);
  emit_rows_from(w, maker, expr_symbol(&g->exprs, part), expr_symbol(&g->exprs, end));
  open_block(w, "if (%s)", few);
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].right == maker) {
      lap(w, (Instr *const *)&group->steps.at[s].dot, 1, "dot");
      emit_part_of_product(w, &group->steps.at[s], products[s], part,
                           text(g, "%s - %s", end, part));
    }
  close_block(w);
  line(w, "%s = %s;", part, end);
  w->indent--;
  line(w, "} while (%s < %s);", part, rows);
  if (maker->in_registers) close_block(w);
}

static bool is_first(const Group *group, int step) {
  for (int s = 0; s < step; s++)
    if (group->steps.at[s].right == group->steps.at[step].right) return false;
  return group->steps.at[step].right;
}

// Before the dots of a group: the loops that compute their right operands. Returns the name of the
// condition under which these dots are done then, or NULL: there are none.
static const char *emit_right_operands(CWriter *w, const Group *group) {
  Gen *g = w->g;
  const char *few = NULL;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (!is_first(group, s)) continue;
    if (!few) {
      few = unique_name(&w->names, "few");
      line(w, "const bool %s = %s <= PK_DOT_FEW;", few,
           expr_text(demand_expr(g, group->lead_demand[0], group->lead[0])));
    }
    emit_maker(w, group, step->right, few);
  }
  if (!few) return NULL;
  open_block(w, "if (!%s)", few);
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].right) pack_panels(w, group->steps.at[s].dot);
  close_block(w);
  return few;
}

static bool has_right_operands(const Group *group) {
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].right) return true;
  return false;
}

void emit_rows(CWriter *w, Group *group) {
  Context x = {.g = w->g, .w = w, .group = group};
  int taken = open_names(&w->names);
  if (group->reader) return;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (!step->dot) continue;
    lap(w, (Instr *const *)&step->dot, 1, "pack");
    pack_left(w, step->dot);
    if (!step->right) pack_panels(w, step->dot);
  }
  bool right = has_right_operands(group);
  if (right) {  // names of its own
    line(w, "{");
    w->indent++;
  }
  x.few = emit_right_operands(w, group);
  if (group->has_dot)
    emit_strips(&x);
  else
    emit_plain_rows(&x);
  if (right) close_block(w);
  close_names(&w->names, taken);
}
