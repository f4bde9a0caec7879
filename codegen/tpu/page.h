// The parts of the pages of a kernel and of a program.
#ifndef CODEGEN_TPU_PAGE_H
#define CODEGEN_TPU_PAGE_H

#include "codegen/tpu/svg.h"

void page_open(Buf *out, const char *title);
void page_close(Buf *out);
void page_open_facts(Buf *out);
void page_fact(Buf *out, const char *name, const char *value);
void page_close_facts(Buf *out);
// The losses next to the source; the roofline.
void page_kernel(const Model *m, Buf *out);
void page_vmem(const Model *m, Buf *out);
void page_text(Buf *out, const char *text);
void page_hint(Buf *out);  // explains how to zoom

// A zoomable timeline of `end` seconds: the boxes are written between the two calls.
void page_open_timeline(Buf *out, int rows, double end);
void page_box(Buf *out, int row, double start, double end, const char *colour, const char *title,
              double whole);
void page_close_timeline(Arena *arena, Buf *out, const char *const *names, int rows, double end);

#endif
