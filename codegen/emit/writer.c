// Lines of C, and the words in them.
#include "codegen/emit/internal.h"

static void indented(CWriter *w, const char *format, va_list args) {
  for (int i = 0; i < w->indent; i++) buf_puts(w->c, "  ");
  buf_vprintf(w->c, format, args);
}

void line(CWriter *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  indented(w, format, args);
  va_end(args);
  buf_putc(w->c, '\n');
}

void open_block(CWriter *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  indented(w, format, args);
  va_end(args);
  buf_puts(w->c, " {\n");
  w->indent++;
}

void close_block(CWriter *w) {
  w->indent--;
  line(w, "}");
}

// ---- words of C

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

const char *arena_text(Gen *g, DType element, const char *offset) {
  return text(g, "PK_AT(%s, %s, %s)", ctype(element), reading(g, "worker"), offset);
}

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
