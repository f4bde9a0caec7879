// A row of a group as C: the loop over rows, the row scalars between the steps, and the whole of a
// row without dots.
#include "codegen/emit/internal.h"

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

bool scalars_follow(const Group *group, int step) {
  for (int i = 0; i < group->scalars.count; i++)
    if (val(group->scalars.at[i])->after == step) return true;
  return false;
}

void emit_scalars(Context *x) {
  for (int i = 0; i < x->group->scalars.count; i++) emit_row_scalar(x, x->group->scalars.at[i]);
}

void emit_scalars_after(Context *x, int step) {
  int first = 0;
  while (first < x->group->scalars.count && val(x->group->scalars.at[first])->after != step)
    first++;
  if (first < x->group->scalars.count) lap(x->w, &x->group->scalars.at[first], 1, "once a row");
  for (int i = 0; i < x->group->scalars.count; i++)
    if (val(x->group->scalars.at[i])->after == step) emit_row_scalar(x, x->group->scalars.at[i]);
}

// ---- rows

const Expr *open_row_loop(CWriter *w, const Expr *from, const Expr *to) {
  Gen *g = w->g;
  const char *row = unique_name(&w->names, "row");
  open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", row, expr_text(from), row, expr_text(to),
             row);
  return expr_symbol(&g->exprs, row);
}

// The number of columns that the rows before `end` need, for masks that differ between rows.
void declare_bounds(Context *x, const Expr *end) {
  Gen *g = x->g;
  const Expr *all = extent_expr(g, x->group->lead[x->group->leads - 1]);
  if (g->batch && g->batch->inside == x->group->lead_demand[x->group->leads - 1]) {
    all = g->batch->own;
    end = expr_min(&g->exprs, end, all);
  }
  for (int i = 0; i < x->group->strips.bounds.count; i++) {
    const StripBound *b = x->group->strips.bounds.at[i];
    line(x->w, "const int64_t %s = %s;", b->end->name,
         expr_text(bound_expr(g, b, b->shared ? all : end, demand_expr(g, b->base, b->columns))));
  }
}

void lap_step(CWriter *w, const Step *step) {
  if (is_dot(step))
    lap(w, (Instr *const *)&step->product.dot, 1, "dot");
  else
    lap(w, step->members.at, step->members.count, "columns");
}

// Everything that a row of a group without dots computes.
void emit_row(Context *x) {
  Gen *g = x->g;
  const Group *group = x->group;
  if (group->strips.bounds.count)
    declare_bounds(x, expr_add(&g->exprs, x->index[group->leads - 1], number(g, 1)));
  emit_scalars_after(x, -1);
  for (int s = 0; s < group->steps.count; s++) {
    lap_step(x->w, &group->steps.at[s]);
    emit_column_step(x, &group->steps.at[s]);
    emit_scalars_after(x, s);
  }
}
