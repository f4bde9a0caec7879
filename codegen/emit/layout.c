// Where each buffer lies in a worker's arena, as C.
#include "codegen/emit/internal.h"

static void layout_slots(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (r->ref->role != REF_INPUT || !r->buffer) continue;
    const Expr *copies = r->buffer->copies, *tag = number(g, 8);
    if (copies) {
      buf_printf(out, "  %s = %s;\n", copies->name, expr_text(copies->definition));
      tag = expr_sat_mul(&g->exprs, tag, copies);
    }
    buf_printf(out, "  a.%s_blocks_tag = pk_take(&a.bytes, %s);\n", r->stem, expr_text(tag));
  }
  buf_printf(out, "  a.clear = a.bytes;\n");
}

static void layout_buffers(Gen *g, Buf *out) {
  for (int i = 0; i < g->buffers.count; i++)
    buf_printf(out, "  a.%s = pk_take(&a.bytes, %s);\n", g->buffers.at[i]->name,
               expr_text(g->buffers.at[i]->room));
}

// All lines that take memory, and before them, in g->c, the sizes that they read.
static void put_sizes(Gen *g, Buf *takes) {
  Declarations sizes = {0};
  expr_forget_reads(&g->exprs);
  layout_slots(g, takes);
  layout_buffers(g, takes);
  declare_sizes(g, false, &sizes);
  put_declarations(g, &sizes);
  put_unread(g, "size");
  if (g->launch_reads) put_unread(g, "array");
}

void emit_layout(Gen *g, Buf *out) {
  const char *name = g->k->symbol;
  Buf takes = {0};
  buf_printf(out,
             "/* Where each buffer lies in a worker's arena, in bytes. */\ntypedef struct {\n  "
             "int64_t bytes, clear");
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (r->ref->role != REF_INPUT || !r->buffer) continue;
    buf_printf(out, ", %s_blocks_tag", r->stem);
    if (r->buffer->copies) buf_printf(out, ", %s_slots", r->stem);
  }
  buf_puts(out, ";\n");
  for (int i = 0; i < g->buffers.count; i++)
    buf_printf(out, "  int64_t %s; /* %s */\n", g->buffers.at[i]->name, g->buffers.at[i]->purpose);
  buf_printf(
      out,
      "} %s_arena;\n\nstatic %s_arena %s_layout(%sconst int64_t *size) {\n  %s_arena a = {0};\n",
      name, name, name, g->launch_reads ? "const pk_array *array, " : "", name);
  put_sizes(g, &takes);
  buf_add(out, takes.text, takes.length);
  buf_puts(out, "  return a;\n}\n\n");
  buf_free(&takes);
}
