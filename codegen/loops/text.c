// Texts, and the expressions that stand for extents, demands and pointers.
#include "codegen/loops/loops.h"

#include <string.h>

const char *text(Gen *g, const char *format, ...) {
  Buf buf = {0};
  va_list args;
  va_start(args, format);
  buf_vprintf(&buf, format, args);
  va_end(args);
  const char *copy = intern(buf.text);
  buf_free(&buf);
  (void)g;
  return copy;
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

const Expr *extent_expr(Gen *g, Dim d) {
  return dim_is_const(d) ? number(g, d) : expr_symbol(&g->exprs, g->size_name[dim_size_index(d)]);
}

const Expr *demand_expr(Gen *g, Demand demand, Dim d) {
  if (!demand) return number(g, 0);
  return demand == DEMAND_FULL ? extent_expr(g, d) : demand;
}

const char *extent_text(Gen *g, Dim d) { return expr_text(extent_expr(g, d)); }
const char *demand_text(Gen *g, Demand demand, Dim d) {
  return expr_text(demand_expr(g, demand, d));
}

const Expr *grid_extent(Gen *g, int axis) {
  return expr_symbol(&g->exprs, text(g, "n_%s", g->axis_name[axis]));
}

// `pointer + offset` where the parts of a sum are added to the pointer one by one.
static const Expr *moved(Gen *g, const Expr *pointer, const Expr *offset) {
  if (offset->kind != EXPR_ADD) return expr_add(&g->exprs, pointer, offset);
  return moved(g, moved(g, pointer, offset->arg[0]), offset->arg[1]);
}

const Expr *pointer_expr(Gen *g, const char *base, const Expr *offset) {
  return moved(g, expr_symbol(&g->exprs, base), offset);
}

const char *reading(Gen *g, const char *name) { return expr_text(expr_symbol(&g->exprs, name)); }

const char *pointer_text(Gen *g, const char *base, const Expr *offset) {
  return expr_text(pointer_expr(g, base, offset));
}

const char *ctype(DType t) { return dtype_info[t].ctype; }

const char *quoted(Gen *g, const char *s) {
  Buf buf = {0};
  buf_putc(&buf, '"');
  for (; s && *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      buf_printf(&buf, "\\%c", c);
    else if (c == '?' || c < 32 || c > 126)
      buf_printf(&buf, "\\%03o", c);
    else
      buf_putc(&buf, (char)c);
  }
  buf_putc(&buf, '"');
  const char *result = intern(buf.text);
  buf_free(&buf);
  (void)g;
  return result;
}
