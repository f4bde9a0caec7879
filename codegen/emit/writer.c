// Lines of C.
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
