// The offset of each buffer in a worker's arena, as C.
#include "codegen/emit/internal.h"

static void layout_buffers(Gen *g, bool signalled, Buf *out) {
  for (int i = 0; i < g->buffers.count; i++)
    if (g->buffers.at[i]->signalled == signalled && !g->buffers.at[i]->inside)
      buf_printf(out, "  pk_reserve(&a.bytes, &a.%s, %s);\n", g->buffers.at[i]->name,
                 expr_text(g->buffers.at[i]->reserved));
}

// An inner buffer precedes the one that contains it.
static void layout_parts(Gen *g, Buf *out) {
  for (int i = g->buffers.count - 1; i >= 0; i--) {
    const Buffer *b = g->buffers.at[i];
    if (b->inside) {
      const char *at = text(g, "a.%s", b->inside->name);
      const Expr *from = expr_add(&g->exprs, expr_symbol(&g->exprs, at), b->offset);
      buf_printf(out, "  a.%s = %s;\n", b->name, expr_text(from));
    }
  }
}

static void layout_slots(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (r->ref->role != REF_INPUT || !r->buffer) continue;
    const Expr *copies = r->buffer->copies, *tag = number(g, 8);
    if (copies) {
      buf_printf(out, "  %s = %s;\n", copies->name, expr_text(copies->definition));
      tag = expr_sat_mul(&g->exprs, tag, copies);
    }
    buf_printf(out, "  pk_reserve(&a.bytes, &a.%s_blocks_tag, %s);\n", r->stem, expr_text(tag));
  }
  layout_buffers(g, true, out);
  buf_printf(out, "  a.clear = a.bytes;\n");
}

static void put_type(Gen *g, Buf *out) {
  buf_printf(out,
             "/* The offset of each buffer in a worker's arena, in bytes. */\ntypedef struct {\n  "
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
  buf_printf(out, "} %s_arena;\n\n", g->k->symbol);
}

// Writes NAME_layout, which computes the sizes of the arena's buffers.
void emit_layout(CWriter *w) {
  Gen *g = w->g;
  const char *name = g->k->symbol;
  Buf takes = {0}, sizes = {0}, *out = w->c;
  expr_forget_reads(&g->exprs);
  layout_slots(g, &takes);
  layout_buffers(g, false, &takes);
  layout_parts(g, &takes);
  put_sizes(w, false, &sizes);
  w->layout_reads_array = is_read(g, "array");
  w->layout_reads_size = is_read(g, "size");
  const char *array = w->layout_reads_array ? "const pk_array *array" : "",
             *size = w->layout_reads_size ? "const int64_t *size"
                     : *array             ? ""
                                          : "void";
  put_type(g, out);
  buf_printf(out, "static %s_arena %s_layout(%s%s%s) {\n  %s_arena a = {0};\n", name, name, array,
             *array && *size ? ", " : "", size, name);
  buf_add(out, sizes.text ? sizes.text : "", sizes.length);
  buf_add(out, takes.text, takes.length);
  buf_puts(out, "  return a;\n}\n\n");
  buf_free(&sizes);
  buf_free(&takes);
}

const char *layout_call(const CWriter *w) {
  Gen *g = w->g;
  const char *array = w->layout_reads_array ? reading(g, "array") : "",
             *size = w->layout_reads_size ? reading(g, "size") : "";
  return text(g, "%s_layout(%s%s%s)", g->k->symbol, array, *array && *size ? ", " : "", size);
}

static const Expr *arena_value(Gen *g, const void *of, int k) {
  (void)k;
  return expr_code(&g->exprs, layout_call(of));
}

void declare_arena(const CWriter *w, Declarations *list) {
  Gen *g = w->g;
  declare_variable(g, list, text(g, "const %s_arena", g->k->symbol), expr_symbol(&g->exprs, "a"),
                   arena_value, w, 0);
}
