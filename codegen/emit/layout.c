// Where each buffer lies in a worker's arena, as C.
#include "codegen/emit/internal.h"

enum { CACHE_BYTES = 32 << 20 };  // of packed copies kept of one operand

// Bytes from one copy to the next of a buffer with several.
const Expr *slot_bytes(Gen *g, const Buffer *b) {
  const Expr *room = number(g, 64);
  int64_t constant;
  if (expr_is_const(b->bytes, &constant))
    return expr_sat_add(&g->exprs, expr_round_up(&g->exprs, b->bytes, 64), room);
  return expr_round_up(&g->exprs, expr_sat_add(&g->exprs, b->bytes, room), 64);
}

static const char *buffer_bytes(Gen *g, const Buffer *b) {
  if (b->slots) return text(g, "pk_sat_mul(a.%s, %s)", b->slots, expr_text(slot_bytes(g, b)));
  // 64 bytes more than counted: a vector at the end of the last row may reach past it.
  int64_t constant;
  bool fixed = expr_is_const(b->bytes, &constant);
  return expr_text(fixed ? slot_bytes(g, b) : expr_sat_add(&g->exprs, b->bytes, number(g, 64)));
}

static void layout_slots(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (r->ref->role != REF_INPUT || !r->buffer) continue;
    if (r->revisits)
      buf_printf(out, "  a.%s = pk_slots(%s, %s, %d);\n", r->buffer->slots, expr_text(r->revisits),
                 expr_text(r->buffer->bytes), CACHE_BYTES);
    buf_printf(out, "  a.%s = pk_take(&a.bytes, %s);\n", r->tag,
               r->revisits ? text(g, "pk_sat_mul(8, a.%s)", r->buffer->slots) : "8");
  }
  buf_printf(out, "  a.clear = a.bytes;\n");
}

static void layout_buffers(Gen *g, Buf *out) {
  for (int i = 0; i < g->buffers.count; i++)
    buf_printf(out, "  a.%s = pk_take(&a.bytes, %s);\n", g->buffers.at[i]->name,
               buffer_bytes(g, g->buffers.at[i]));
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
    buf_printf(out, ", %s", r->tag);
    if (r->revisits) buf_printf(out, ", %s", r->buffer->slots);
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
