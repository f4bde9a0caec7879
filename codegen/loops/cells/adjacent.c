// Merges cells whose blocks are adjacent along the columns.
//
// A skinny product reads its right operand once, several rows at a time, and blocks cut these rows
// into pieces. Prefetchers work by pages, so what they bring of a page beyond the end of a piece is
// wasted. Therefore a step takes neighbouring cells along the columns together until a piece is as
// long as a page. Each column of the body must be computed independently, from columns of the
// cell's own blocks or from values that all cells share. The number of cells that are merged is
// decided at run time, by the number of rows.
#include "codegen/ir/independence.h"
#include "codegen/loops/loops.h"

typedef struct {
  Gen *g;
  Batch *batch;
  Dim columns;          // of a block
  Demand skinny;        // the rows of a step's block that are in bounds
  Dim lead;             // the leading axis of the block
  const Expr *product;  // rows of the products
} SkinnySearch;

// ---- operands

// Only the block's last axis is tiled by the axis of the merged cells.
static bool may_be_adjacent(const Ref *ref, GridUse use) {
  int last = ref->array.rank - 1;
  return ref->at == AT_BLOCK && last >= 0 && use.axis == last && !use.other &&
         !ref->squeeze[last] && ref->space == SPACE_VMEM && dim_is_const(ref->block[last]);
}

static bool same_columns(SkinnySearch *s, const RefGen *r) {
  int last = r->ref->type.rank - 1;
  if (r->inside[last] == DEMAND_FULL) return false;
  if (s->batch->inside && s->batch->inside != r->inside[last]) return false;
  s->batch->inside = r->inside[last];
  s->columns = r->ref->type.dim[last];
  return true;
}

// All outputs of a kernel have the same rows.
static bool take_rows(SkinnySearch *s, const RefGen *r) {
  const Ref *ref = r->ref;
  if (ref->role != REF_OUTPUT) return true;
  if (ref->type.rank != 2 || !dim_is_const(ref->type.dim[0])) return false;
  const int row = ir_array_axis(ref, 0);
  if (s->skinny && (s->skinny != r->inside[0] || s->batch->rows != ref->array.dim[row]))
    return false;
  s->skinny = r->inside[0], s->lead = ref->type.dim[0], s->batch->rows = ref->array.dim[row];
  return true;
}

// The number of blocks of the right operand that make a piece of sufficient length.
static bool take_right(SkinnySearch *s, const RefGen *r) {
  if (r->transposed || !r->in_place.dot_rows || r->in_place.whole ||
      (s->product && s->product != r->in_place.dot_rows))
    return false;
  int64_t bytes = r->ref->block[r->ref->array.rank - 1] * dtype_bytes(r->ref->array.dtype),
          most = bytes > 0 ? s->g->target->core->piece / bytes : 0;
  s->product = r->in_place.dot_rows;
  if (!s->batch->most || most < s->batch->most) s->batch->most = most;
  return true;
}

static bool takes_operand(SkinnySearch *s, const RefGen *r) {
  const Ref *ref = r->ref;
  const GridUse use = ir_grid_use(ref, s->batch->axis);
  if (!ir_uses_grid(use)) return ref->role != REF_OUTPUT && ref->at != AT_SLICE;
  if (!may_be_adjacent(ref, use) || (r->stored && r->loaded) || !same_columns(s, r) ||
      !take_rows(s, r))
    return false;
  s->batch->adjacent[ref->id] = true;
  return r->form == FORM_PANELS ? take_right(s, r) : r->form == FORM_DIRECT;
}

static bool sort_operands(SkinnySearch *s) {
  const Kernel *k = s->g->k;
  for (int i = 0; i < k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    if (ref_is_operand(r->ref) &&
        (ir_ignores_axis(k, r->ref, s->batch->axis) || !takes_operand(s, r)))
      return false;
  }
  return s->product && s->skinny && s->batch->most > 1 &&
         s->product == demand_expr(s->g, s->skinny, s->lead);
}

// Finds scratch with as many columns that is read only at columns in bounds.
static void sort_scratch(SkinnySearch *s) {
  for (int i = 0; i < s->g->k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    const Type *t = &r->ref->type;
    if (!ref_is_operand(r->ref) && t->rank == 2 && t->dim[0] == s->lead &&
        t->dim[1] == s->columns && r->demand[1] == s->batch->inside)
      s->batch->adjacent[i] = true;
  }
}

// ---- values

static bool is_right_operand(const SkinnySearch *s, const Instr *v) {
  return v->op == OP_LOAD && s->g->refs[v->ref->id].form == FORM_PANELS;
}

// Columns are computed elementwise, or by a product that reads them in place.
static bool is_by_columns(const SkinnySearch *s, const Instr *v) {
  if (op_info[v->op].class == OPC_REDUCE) return false;
  const Instr *b = v->op == OP_DOT ? dot_shape(v).b : NULL;
  return !b || (b->op == OP_LOAD && s->g->refs[b->ref->id].in_place.dot_rows);
}

// Loops over its columns end with those in bounds, and its rows are those of the output or the
// same.
static bool value_fits(Independence *q, const Instr *v, Partition p) {
  const SkinnySearch *s = q->context;
  const bool own = p.axis >= 0;
  if (own && !is_by_columns(s, v)) return false;
  if (!v->type.rank || is_right_operand(s, v)) return true;
  int last = v->type.rank - 1;
  Demand demand = val(v)->demand[last];
  bool inside = demand == s->batch->inside, same = !own && p.uniform >> last & 1;
  if (!own && !same) return !inside;
  if (v->type.dim[last] == s->columns && demand && !inside) return false;
  if (same && !inside) return true;
  if (v->type.rank > 2) return false;
  return v->type.rank == 1 || v->type.dim[0] == 1 || v->type.dim[0] == s->lead;
}

bool batches_adjacent(Gen *g, Batch *batch) {
  SkinnySearch s = {.g = g, .batch = batch};
  const Kernel *k = g->k;
  batch->columns = true;
  batch->adjacent = NEW_ARRAY(g->arena, bool, k->refs.count + 1);
  if (!sort_operands(&s)) return false;
  sort_scratch(&s);
  int *refs = NEW_ARRAY(g->arena, int, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++)
    refs[i] = batch->adjacent[i] ? k->refs.at[i]->type.rank - 1 : REPLICATED;
  return ir_is_independent(&(Independence){.k = g->k,
                                           .refs = refs,
                                           .whole = true,
                                           .grid_axis = batch->axis,
                                           .accepts = value_fits,
                                           .context = &s});
}

// ---- their places in memory

bool is_adjacent_ref(const Gen *g, const Ref *ref) {
  return g->batch && g->batch->columns && g->batch->adjacent[ref->id];
}

bool is_adjacent_value(const Gen *g, const Instr *v) {
  return g->batch && g->batch->columns && v->type.rank &&
         val(v)->demand[v->type.rank - 1] == g->batch->inside;
}

// A row is as long as those of all merged cells together, at most PK_DOT_SKINNY rows of one cell:
// see pk_batch_most.
void widen_for_adjacent(Gen *g, Buffer *b) {
  ExprPool *pool = &g->exprs;
  const Expr *row = b->rank > 1 ? b->stride[b->rank - 2] : b->bytes,
             *all = number(g, PK_DOT_SKINNY);
  for (int i = 0; i < b->rank - 1; i++)
    b->stride[i] = expr_mul(pool, b->stride[i], g->batch->together);
  if (b->rank > 1) row = expr_sat_mul(pool, row, number(g, dtype_bytes(b->element)));
  b->bytes = expr_max(pool, b->bytes, expr_sat_mul(pool, row, all));
}
