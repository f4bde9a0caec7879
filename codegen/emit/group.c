// A group of loops as C: rows, strips of rows, and the row scalars between their steps.
#include "codegen/emit/internal.h"

// The rows [first, end) of a strip, split among as many loops as its steps need.
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

// Writes the steps of some rows: a loop over rows for each run of steps, and the dots between them.
static void emit_loops(Context *x, const Expr *first, const Expr *end) {
  Group *group = x->group;
  RowLoops rows = {.first = first, .end = end};
  x->loop = -1;
  for (int s = -1; s < group->steps.count; s++) {
    const Step *step = s >= 0 ? &group->steps.at[s] : NULL;
    if (step && is_dot(step) && !step->joined) {
      leave_loop(x, &rows);
      lap(x->w, (Instr *const *)&step->product.dot, 1, "dot");
      if (step->product.right) open_block(x->w, "if (!%s)", x->skinny);
      emit_dot(x->w, group, step, first, expr_sub(&x->g->exprs, end, first));
      if (step->product.right) close_block(x->w);
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

// Writes a group's rows strip by strip.
static void emit_strips(Context *x) {
  Gen *g = x->g;
  Group *group = x->group;
  const Expr *all = demand_expr(g, group->lead_demand[0], group->lead[0]);
  if (group->strips.one) {
    line(x->w, "{");
    x->w->indent++;
    declare_bounds(x, all);
    emit_loops(x, number(g, 0), all);
    close_block(x->w);
    return;
  }
  const char *rows = expr_text(all);
  const char *first = unique_name(&x->w->names, "strip"),
             *end = unique_name(&x->w->names, "strip_end"),
             *height = text(g, "%d", group->strips.rows);
  const char *choice = "";  // of the loop's own: the next group may use the name again
  if (group->strips.buffer_rows > group->strips.rows) {
    height = unique_name(&x->w->names, "strip_rows");
    choice = text(g, ", %s = %s <= %d ? %d : %d", height, rows, group->strips.buffer_rows,
                  group->strips.buffer_rows, group->strips.rows);
  }
  if (group->strips.line) {
    open_block(x->w, "for (int64_t %s = 0, %s; %s < %s; %s = %s)", first, end, first, rows, first,
               end);
    line(x->w, "%s = pk_idx_min(%s + %s, (%s / %d + 1) * %d);", end, first, height, first,
         group->strips.line, group->strips.line);
  } else {
    open_block(x->w, "for (int64_t %s = 0%s; %s < %s; %s += %s)", first, choice, first, rows, first,
               height);
    line(x->w, "const int64_t %s = pk_idx_min(%s + %s, %s);", end, first, height, rows);
  }
  declare_bounds(x, expr_symbol(&g->exprs, end));
  emit_loops(x, expr_symbol(&g->exprs, first), expr_symbol(&g->exprs, end));
  close_block(x->w);
}

// Rows whose non-temporal stores are interleaved need the same alignment: the condition for that.
static const char *alike_text(Context *x, const Group *group) {
  Gen *g = x->g;
  const char *all = "";
  for (int s = 0; s < group->steps.count; s++)
    for (int i = 0; i < group->steps.at[s].loop.streamed.count; i++) {
      const Instr *store = group->steps.at[s].loop.streamed.at[i];
      Place p;
      REQUIRE(place_of(g, store, &p));
      const Expr *rest =
          expr_operator(&g->exprs, EXPR_REM, p.stride[group->leads - 1], number(g, g->lanes));
      all = text(g, "%s && (!%s || %s == 0)", all,
                 expr_text(streams_expr(g, &g->refs[store->ref->id])), expr_text(rest));
    }
  return all;
}

// The first of the jammed rows as a multiple of their number: quotients and remainders of its index
// and the next ones are then known.
static const Expr *declare_first_row(Context *x, const char *row) {
  ExprPool *pool = &x->g->exprs;
  const char *jam = unique_name(&x->w->names, "jam");
  line(x->w, "const int64_t %s = %s / %d;", jam, row, x->jammed);
  return expr_mul(pool, expr_symbol(pool, jam), number(x->g, x->jammed));
}

// The last loop over rows: several rows jammed, then those that are left.
static void emit_jammed_rows(Context *x, const Expr *rows) {
  Gen *g = x->g;
  const Group *group = x->group;
  const char *row = unique_name(&x->w->names, "row"), *end = expr_text(rows);
  const Expr **index = &x->index[group->leads - 1];
  x->strip_row = number(g, 0);
  line(x->w, "{");
  x->w->indent++;
  line(x->w, "int64_t %s = 0;", row);
  for (int together = group->jammed; together; together = together > 1 ? 1 : 0) {
    x->jammed = together > 1 ? together : 0;
    if (x->jammed)
      open_block(x->w, "for (; %s + %d <= %s%s; %s += %d)", row, together, end,
                 alike_text(x, group), row, together);
    else
      open_block(x->w, "for (; %s < %s; %s++)", row, end, row);
    *index = x->jammed && group->by_words ? declare_first_row(x, row) : expr_symbol(&g->exprs, row);
    for (int s = 0; s < group->steps.count; s++) emit_column_step(x, &group->steps.at[s]);
    close_block(x->w);
  }
  close_block(x->w);
}

// Writes a group without dots: a loop over each leading axis, then its steps.
static void emit_plain_rows(Context *x) {
  Gen *g = x->g;
  Group *group = x->group;
  int opened = 0;
  bool alone = group->steps.count == 1 && group->scalars.count == 0;
  if (alone) lap_step(x->w, &group->steps.at[0]);
  for (int i = 0; i < group->leads - (group->jammed != 0); i++) {
    if (group->lead[i] == 1) {
      x->index[i] = number(g, 0);
      continue;
    }
    x->index[i] =
        open_row_loop(x->w, number(g, 0), demand_expr(g, group->lead_demand[i], group->lead[i]));
    opened++;
  }
  x->strip_row = number(g, 0);
  if (group->jammed) {
    const int last = group->leads - 1;
    emit_jammed_rows(x, demand_expr(g, group->lead_demand[last], group->lead[last]));
    for (int i = 0; i < opened; i++) close_block(x->w);
    return;
  }
  if (!opened) {
    line(x->w, "{");
    x->w->indent++;
  }
  if (group->strips.bounds.count)
    declare_bounds(x, expr_add(&g->exprs, x->index[group->leads - 1], number(g, 1)));
  emit_scalars_after(x, -1);
  for (int s = 0; s < group->steps.count; s++) {
    if (!alone) lap_step(x->w, &group->steps.at[s]);
    emit_column_step(x, &group->steps.at[s]);
    emit_scalars_after(x, s);
  }
  for (int i = 0; i < (opened ? opened : 1); i++) close_block(x->w);
}

// Writes a group of rows: packs the operands of its dots, then executes its strips.
void emit_rows(CWriter *w, Group *group) {
  Context x = {.g = w->g, .w = w, .group = group};
  int taken = open_names(&w->names);
  if (group->feeds.dots) return;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (!is_dot(step)) continue;
    lap(w, (Instr *const *)&step->product.dot, 1, "pack");
    pack_left(w, step->product.dot);
    if (!step->product.right) pack_panels(w, step);
  }
  bool right = has_right_operands(group);
  if (right) {  // names of its own
    line(w, "{");
    w->indent++;
  }
  x.skinny = emit_right_operands(w, group);
  if (group->has_dot)
    emit_strips(&x);
  else
    emit_plain_rows(&x);
  if (right) close_block(w);
  close_names(&w->names, taken);
}
