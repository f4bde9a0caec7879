// The cost of a call: bytes of VMEM, by which it may be refused, and operations, from which the
// runtime chooses the number of threads.
#include "codegen/loops/loops.h"

#include <string.h>

// Bytes of a block in VMEM, in whole tiles.
static const Expr *tile_bytes(Gen *g, const Type *t) {
  ExprPool *pool = &g->exprs;
  const Expr *bytes = number(g, dtype_bytes(t->dtype));
  for (int i = 0; i < t->rank; i++) {
    const Expr *n = extent_expr(g, t->dim[i]);
    if (i == t->rank - 1)
      n = expr_round_up(pool, n, TILE_LANES);
    else if (i == t->rank - 2)
      n = expr_round_up(pool, n, tile_sublanes(t->dtype));
    bytes = expr_sat_mul(pool, bytes, n);
  }
  for (int bits = dtype_info[t->dtype].bits; bits < 8 && t->rank; bits *= 2)
    bytes = expr_sat_half(pool, bytes);
  return bytes;
}

static void estimate_vmem(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const Ref *r = g->k->refs.at[i];
    if (r->space != SPACE_VMEM && r->space != SPACE_VAR) continue;
    const Expr *bytes = tile_bytes(g, r->declared ? r->declared : &r->type);
    if (r->buffers > 1) bytes = expr_sat_mul(&g->exprs, number(g, r->buffers), bytes);
    LIST_PUSH(g->arena, &g->vmem, ((VmemPart){r, bytes}));
  }
}

static void multiply(WorkTerm *term, Dim d) {
  if (dim_is_const(d))
    term->factor *= (double)d;
  else
    term->size[term->sizes++] = dim_size_index(d);
}

static WorkTerm elements_of(const Type *t) {
  WorkTerm term = {.factor = 1};
  for (int i = 0; i < t->rank; i++) multiply(&term, t->dim[i]);
  return term;
}

static void add_term(Gen *g, WorkTerm term) {
  Work *sum = &g->step_work;
  for (int i = 0; i < sum->count; i++) {
    WorkTerm *other = &sum->at[i];
    if (other->sizes != term.sizes ||
        memcmp(other->size, term.size, (size_t)term.sizes * sizeof *term.size) != 0)
      continue;
    other->factor += term.factor;
    return;
  }
  LIST_PUSH(g->arena, sum, term);
}

// A rough count that includes every branch, sufficient to decide whether threads pay. A
// multiply-add of a dot counts as a fifth of an operation of a loop.
static void add_work(Instr *v, void *context) {
  Gen *g = context;
  bool computes = has_result(v) && v->type.rank > 0 && !is_transparent(v);
  if (v->op == OP_DOT) {
    WorkTerm term = elements_of(&v->type);
    for (int i = 0; i < v->args[0]->type.rank; i++) {
      bool kept = false;
      for (int o = 0; o < v->type.rank; o++) kept |= v->labels.out[o] == v->labels.a[i];
      if (!kept) multiply(&term, v->args[0]->type.dim[i]);
    }
    term.factor *= 0.2;
    add_term(g, term);
  } else if (computes || (v->op == OP_LOAD && v->type.rank > 0)) {
    add_term(g, elements_of(&v->type));
  }
}

void estimate_call(Gen *g) {
  const Ref *out = g->k->outputs ? g->k->refs.at[g->k->inputs] : NULL;
  estimate_vmem(g);
  ir_walk(g->k->body, add_work, g);
  g->blocks.widened = out && out->declared;
  if (!g->blocks.widened) return;
  g->blocks.array_elements = elements_of(&out->array);
  g->blocks.block_elements = elements_of(&out->type);
}
