// The size of each buffer in the arena of a worker.
//
// The arena begins with the tags of block caches, which are cleared at launch; then come the
// buffers, in the order of Gen.buffers.
#include "codegen/loops/loops.h"

// Bytes from one copy to the next of a buffer with several.
static const Expr *pitch_of(Gen *g, const Buffer *b) {
  const Expr *slack = number(g, SLACK);
  int64_t fixed;
  if (expr_is_const(b->bytes, &fixed))
    return expr_sat_add(&g->exprs, expr_round_up(&g->exprs, b->bytes, LINE), slack);
  return expr_round_up(&g->exprs, expr_sat_add(&g->exprs, b->bytes, slack), LINE);
}

static const Expr *reserved_of(Gen *g, const Buffer *b) {
  int64_t fixed;
  if (b->inside) return expr_sub(&g->exprs, reserved_of(g, b->inside), b->offset);
  if (b->copies) return expr_sat_mul(&g->exprs, b->copies, b->pitch);
  return expr_is_const(b->bytes, &fixed) ? pitch_of(g, b)
                                         : expr_sat_add(&g->exprs, b->bytes, number(g, SLACK));
}

// One slot for each block that is revisited.
static void keep_copies(Gen *g, const RefGen *r) {
  const Expr *most = number(g, g->target->core->kept_bytes);
  r->buffer->pitch = pitch_of(g, r->buffer);
  r->buffer->copies =
      expr_declared(&g->exprs, text(g, "a.%s_slots", r->stem),
                    quantity(g, FN_SLOTS, r->revisited.count, r->buffer->bytes, most));
}

static void mark_signalled(Gen *g, const RefGen *r) {
  bool own = g->k->mesh.count && r->ref->space == SPACE_SEM && !r->ref->scope;
  if (own && r->buffer) r->buffer->signalled = true;
}

void size_arena(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++)
    if (g->refs[i].revisited.count) keep_copies(g, &g->refs[i]);
  for (int i = 0; i < g->k->refs.count; i++) mark_signalled(g, &g->refs[i]);
  for (int i = 0; i < g->buffers.count; i++)
    g->buffers.at[i]->reserved = reserved_of(g, g->buffers.at[i]);
}
