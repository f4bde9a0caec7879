// Names and sentences, and the expressions of extents and demands.
#include "codegen/loops/loops.h"

const char *text(Gen *g, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *result = intern_vprintf(format, args);
  va_end(args);
  (void)g;
  return result;
}

void explain(Gen *g, const char *format, ...) {
  if (!g->explain) return;
  va_list args;
  va_start(args, format);
  buf_vprintf(g->explain, format, args);
  va_end(args);
  buf_putc(g->explain, '\n');
}

int line_of(Gen *g, Span span) { return ir_line(g->k, span); }

const Expr *number(Gen *g, int64_t value) { return expr_const(&g->exprs, value); }

const Expr *quantity(Gen *g, ExprFunction function, const Expr *a, const Expr *b, const Expr *c) {
  return expr_function(&g->exprs, function, (const Expr *[EXPR_ARGS]){a, b, c});
}

const Expr *extent_expr(Gen *g, Dim d) {
  return dim_is_const(d) ? number(g, d) : expr_symbol(&g->exprs, g->c_name.size[dim_size_index(d)]);
}

const Expr *demand_expr(Gen *g, Demand demand, Dim d) {
  if (!demand) return number(g, 0);
  return demand == DEMAND_FULL ? extent_expr(g, d) : demand;
}

const Expr *grid_extent(Gen *g, int axis) {
  return expr_symbol(&g->exprs, text(g, "n_%s", g->c_name.axis[axis]));
}

const char *extent_plain(Gen *g, Dim d) { return expr_plain(extent_expr(g, d)); }

const char *demand_plain(Gen *g, Demand demand, Dim d) {
  return expr_plain(demand_expr(g, demand, d));
}
