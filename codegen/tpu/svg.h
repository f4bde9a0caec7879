// Drawing functions for a report's pictures: SVG whose colours follow the reader's light or dark
// theme, in a page and as a separate file.
#ifndef CODEGEN_TPU_SVG_H
#define CODEGEN_TPU_SVG_H

#include "codegen/tpu/internal.h"

void svg_open(Buf *out, const char *label, double width, double height);
void svg_close(Buf *out);
void svg_text(Buf *out, double x, double y, const char *anchor, const char *class_name,
              const char *text);
void svg_line(Buf *out, double x0, double y0, double x1, double y1, const char *class_name);
void svg_box(Buf *out, double x, double y, double width, double height, const char *class_name,
             const char *title);
void put_escaped(Buf *out, const char *text);  // escapes markup

// The number of classes for the colours of series: c0, c1, ..
enum { SVG_COLOURS = 8 };

#endif
