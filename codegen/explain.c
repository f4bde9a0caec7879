// The account that `pkc explain` gives: grid, blocks and their tiles, VMEM, how each operand moves, loops, register tile.
#include "codegen/gen.h"

#include <string.h>

static const char *const form_name[] = {[FORM_DIRECT] = "direct", [FORM_COPY] = "copy", [FORM_ROWS] = "pack rows", [FORM_PANELS] = "pack panels"};

static const char *shape_text(Gen *g, const Type *t) {
  const char *s = text(g, "%s[", dtype_info[t->dtype].name);
  for (int i = 0; i < t->rank; i++) s = text(g, "%s%s%s", s, i ? ", " : "", extent_text(g, t->dim[i]));
  return text(g, "%s]", s);
}

// "4 x 4 tiles": how a block is cut into (8, 128) tiles.
static const char *tiles_text(Gen *g, const Type *t) {
  if (t->rank == 0) return "scalar";
  Dim columns = t->dim[t->rank - 1], rows = t->rank > 1 ? t->dim[t->rank - 2] : 1;
  const char *across = dim_is_const(columns) ? text(g, "%lld", (long long)((columns + 127) / 128)) : text(g, "cdiv(%s, 128)", extent_text(g, columns));
  const char *down = dim_is_const(rows) ? text(g, "%lld", (long long)((rows + 7) / 8)) : text(g, "cdiv(%s, 8)", extent_text(g, rows));
  return text(g, "%s x %s tiles of (8,128)", down, across);
}

static void explain_grid(Gen *g) {
  explain(g, "Grid");
  for (int i = 0; i < g->k->grid.count; i++) {
    const GridAxis *axis = &g->k->grid.at[i];
    explain(g, "  %-12s %s  %s", axis->name, axis->parallel ? "parallel: split over threads" : "arbitrary: in order", index_text(g, axis->extent, 0));
  }
  if (!g->k->grid.count) explain(g, "  one step");
}

static void explain_operands(Gen *g) {
  explain(g, "\nOperands");
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (!ref_is_operand(r->ref)) continue;
    explain(g, "  %-12s %-6s %s, %s", r->ref->name, r->ref->role == REF_INPUT ? "input" : "output", shape_text(g, &r->ref->type), tiles_text(g, &r->ref->type));
    explain(g, "  %-12s %s: %s", "", form_name[r->form], r->why);
    if (r->element != r->ref->type.dtype) explain(g, "  %-12s stored as %s", "", dtype_info[r->element].name);
    if (r->revisits) explain(g, "  %-12s kept packed while the grid comes back to it: up to %s blocks", "", r->revisits);
    if (r->form != FORM_DIRECT && r->ref->role == REF_INPUT && r->fetch_at && r->fetch_at != g->k->body && !g->options->literal_dma)
      explain(g, "  %-12s fetched where it is first used: steps that skip the use skip the transfer", "");
  }
}

static void explain_vmem(Gen *g) {
  explain(g, "\nVMEM and temporaries (bytes; blocks are counted twice against the budget)");
  for (int i = 0; i < g->buffers.count; i++) {
    const Buffer *b = g->buffers.at[i];
    Type t = {.dtype = b->element, .rank = b->rank};
    memcpy(t.dim, b->dim, sizeof t.dim);
    explain(g, "  %-16s %s %s  (%s), %s", b->name, b->bytes, b->slots ? "each" : "", b->purpose, b->rank > 1 ? tiles_text(g, &t) : dtype_info[b->element].name);
  }
  if (!g->buffers.count) explain(g, "  none: every block is read and written in place");
}

typedef struct { Gen *g; bool dots; } DotSearch;

static void explain_dot(Instr *v, void *context) {
  DotSearch *d = context;
  if (v->op != OP_DOT) return;
  Gen *g = d->g;
  if (!d->dots) explain(g, "\nDots");
  d->dots = true;
  DotShape s = dot_shape(v);
  if (!s.plain) {
    explain(g, "  line %d: plain loops: not a product of two matrices", line_of(g, v->span));
    return;
  }
  DType e = dot_element(v);
  explain(g, "  line %d: register tile %d x %d, operands as %s, sums in %s", line_of(g, v->span), g->target->dot_rows, g->panel, dtype_info[e].name, e == DT_F32 ? "f32" : "i32");
  if (val(v)->left) explain(g, "    left operand packed before the loop: it is not at hand in rows");
  if (val(v)->panels) explain(g, "    right operand packed into panels before the loop: it is computed, or also used otherwise");
  Demand along = contracted_demand(g, v);
  if (along != DEMAND_FULL) explain(g, "    stops at %s: what is past the end is zero in both operands", along);
}

static void explain_loops(Gen *g) {
  if (!g->loops || !g->loops->length) return;
  explain(g, "\nLoops");
  buf_add(g->explain, g->loops->text, g->loops->length);
}

static void explain_insides(Gen *g) {
  if (!g->insides.count) return;
  explain(g, "\nEdges: loops stop at");
  for (int i = 0; i < g->insides.count; i++) {
    const char *key = g->insides.at[i].key, *name = g->insides.at[i].name;
    explain(g, "  %-12s elements of a block inside its array (extent/block/index: %.*s)", name, (int)(strlen(key) - 2), key);
  }
}

void explain_all(Gen *g) {
  explain(g, "%s for %s: vectors of %d bytes (%d lanes)\n", g->k->name, g->target->name, g->target->vector_bytes, g->lanes);
  explain_grid(g);
  explain_operands(g);
  explain_vmem(g);
  DotSearch dots = {g, false};
  ir_walk(g->k->body, explain_dot, &dots);
  explain_insides(g);
  explain_loops(g);
}
