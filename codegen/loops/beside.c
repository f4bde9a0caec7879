// Cells whose blocks lie side by side go together.
//
// A product with few rows reads its right operand once, row beside row, and blocks cut its rows
// into pieces. Prefetchers work by pages, and what they bring of a page behind the end of a piece
// is lost. So neighbouring cells along the columns go through a step as one, until a piece is as
// long as a page. It requires a body in which each column is computed independently, from columns
// of the cell's own blocks or from what is the same in all cells; how many cells go together is
// decided at run time, by the rows.
#include "codegen/loops/loops.h"

#include <string.h>

// What a value has in the columns of a step.
typedef enum {
  SAME,    // in all columns, and all cells
  SHARED,  // in all cells
  BESIDE,  // column c follows from column c of the cell's own operands
  MIXED    // anything else
} Columns;

typedef struct {
  Gen *g;
  Batch *batch;
  Dim columns;          // of a block
  Demand few;           // the rows of a step's block inside the array
  Dim lead;             // .. and of the block
  const Expr *product;  // rows of the products
  Columns *values;      // by Instr.id
  bool fits;
} Search;

// ---- operands

// The block's last axis is cut by the batch's axis, and nothing else of it is.
static bool is_beside(const Search *s, const RefGen *r) {
  const Ref *ref = r->ref;
  int last = ref->array.rank - 1;
  if (ref->at != AT_BLOCK || last < 0 || ref->squeeze[last] || ref->space != SPACE_VMEM)
    return false;
  for (int k = 0; k < last; k++)
    if (ir_uses_axis(ir_yielded(ref->index_map, k), s->batch->axis)) return false;
  const Instr *index = ir_yielded(ref->index_map, last);
  return index->op == OP_AXIS && index->ival == s->batch->axis && dim_is_const(ref->block[last]);
}

static bool same_columns(Search *s, const RefGen *r) {
  int last = r->ref->type.rank - 1;
  if (r->inside[last] == DEMAND_FULL) return false;
  if (s->batch->inside && s->batch->inside != r->inside[last]) return false;
  s->batch->inside = r->inside[last];
  s->columns = r->ref->type.dim[last];
  return true;
}

// Outputs of one kernel have the same rows.
static bool take_rows(Search *s, const RefGen *r) {
  const Ref *ref = r->ref;
  int row = 0;
  if (ref->role != REF_OUTPUT) return true;
  if (ref->type.rank != 2 || !dim_is_const(ref->type.dim[0])) return false;
  while (ref->squeeze[row]) row++;
  if (s->few && (s->few != r->inside[0] || s->batch->rows != ref->array.dim[row])) return false;
  s->few = r->inside[0], s->lead = ref->type.dim[0], s->batch->rows = ref->array.dim[row];
  return true;
}

// How many blocks of the right operand make a piece that is long enough.
static bool take_right(Search *s, const RefGen *r) {
  if (r->transposed || !r->dot_rows || r->whole || (s->product && s->product != r->dot_rows))
    return false;
  int64_t bytes = r->ref->block[r->ref->array.rank - 1] * dtype_bytes(r->ref->array.dtype),
          most = bytes > 0 ? s->g->target->core->piece / bytes : 0;
  s->product = r->dot_rows;
  if (!s->batch->most || most < s->batch->most) s->batch->most = most;
  return true;
}

static bool takes_operand(Search *s, const RefGen *r) {
  const Ref *ref = r->ref;
  bool uses = false;
  for (int k = 0; k < ref->array.rank; k++)
    uses |= ir_uses_axis(ir_yielded(ref->index_map, k), s->batch->axis);
  if (!uses) return ref->role != REF_OUTPUT && ref->at != AT_SLICE;
  if (!is_beside(s, r) || (r->stored && r->loaded) || !same_columns(s, r) || !take_rows(s, r))
    return false;
  s->batch->beside[ref->id] = true;
  return r->form == FORM_PANELS ? take_right(s, r) : r->form == FORM_DIRECT;
}

static bool sort_operands(Search *s) {
  const Kernel *k = s->g->k;
  for (int i = 0; i < k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    if (ref_is_operand(r->ref) &&
        (ir_ignores_axis(k, r->ref, s->batch->axis) || !takes_operand(s, r)))
      return false;
  }
  return s->product && s->few && s->batch->most > 1 &&
         s->product == demand_expr(s->g, s->few, s->lead);
}

// Scratch of as many columns, of which no more are read than there are inside.
static void sort_scratch(Search *s) {
  for (int i = 0; i < s->g->k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    const Type *t = &r->ref->type;
    if (!ref_is_operand(r->ref) && t->rank == 2 && t->dim[0] == s->lead &&
        t->dim[1] == s->columns && r->demand[1] == s->batch->inside)
      s->batch->beside[i] = true;
  }
}

// ---- values

static Columns columns_of(const Search *s, const Instr *v) { return s->values[v->id]; }

// Shared columns that differ do not go with those of a cell.
static Columns by_element(const Search *s, const Instr *v, int from) {
  Columns all = SAME;
  bool shared = false;
  for (int i = from; i < v->nargs; i++) {
    Columns c = columns_of(s, v->args[i]);
    shared |= c == SHARED;
    if (c > all) all = c;
  }
  return shared && all == BESIDE ? MIXED : all;
}

static Columns of_load(const Search *s, const Instr *v) {
  Columns mask = by_element(s, v, v->ref->type.rank);
  if (s->batch->beside[v->ref->id])
    return ir_window_is_full(v) && (mask == SAME || mask == BESIDE) ? BESIDE : MIXED;
  if (mask > SHARED) return MIXED;
  return v->type.rank ? SHARED : SAME;
}

static Columns of_broadcast(const Search *s, const Instr *v) {
  const Type *from = &v->args[0]->type, *to = &v->type;
  bool stretched = !from->rank || from->dim[from->rank - 1] != to->dim[to->rank - 1];
  Columns c = columns_of(s, v->args[0]);
  if (!stretched) return c;
  return c >= BESIDE ? MIXED : SAME;
}

static Columns of_dot(const Search *s, const Instr *v) {
  DotShape shape = dot_shape(v);
  Columns a = columns_of(s, v->args[0]), b = columns_of(s, v->args[1]);
  if (a <= SHARED && b <= SHARED) return SHARED;
  bool right = shape.plain && !shape.b_transposed && a <= SHARED && shape.b->op == OP_LOAD &&
               s->g->refs[shape.b->ref->id].dot_rows && columns_of(s, shape.b) == BESIDE;
  return right ? BESIDE : MIXED;
}

static Columns find_columns(const Search *s, const Instr *v) {
  if (v->op == OP_LOAD) return of_load(s, v);
  if (v->op == OP_BROADCAST) return of_broadcast(s, v);
  if (v->op == OP_DOT) return of_dot(s, v);
  if (v->op == OP_IOTA) return v->ival == v->type.rank - 1 ? SHARED : SAME;
  Columns args = by_element(s, v, 0);
  if (op_is_elementwise(v->op)) return args;
  if (args >= BESIDE) return MIXED;
  return v->type.rank ? SHARED : SAME;
}

static bool is_right_operand(const Search *s, const Instr *v) {
  return v->op == OP_LOAD && s->g->refs[v->ref->id].form == FORM_PANELS;
}

// Loops over its columns end with those inside, and its rows are those of the output or the same.
static bool value_fits(const Search *s, const Instr *v, Columns c) {
  if (c == MIXED) return false;
  if (!v->type.rank || is_right_operand(s, v)) return true;
  int last = v->type.rank - 1;
  Demand demand = val(v)->demand[last];
  bool inside = demand == s->batch->inside;
  if (c == SHARED) return !inside;
  if (v->type.dim[last] == s->columns && demand && !inside) return false;
  if (c == SAME && !inside) return true;
  if (v->type.rank > 2) return false;
  return v->type.rank == 1 || v->type.dim[0] == 1 || v->type.dim[0] == s->lead;
}

static bool store_fits(const Search *s, const Instr *v) {
  Columns value = by_element(s, v, v->ref->type.rank);
  if (s->batch->beside[v->ref->id])
    return ir_window_is_full(v) && (value == SAME || value == BESIDE);
  return value <= SHARED;
}

static bool effect_fits(const Search *s, const Instr *v) {
  switch (v->op) {
    case OP_STORE:
      return store_fits(s, v);
    case OP_FETCH:
    case OP_WRITEBACK:
    case OP_IF:
    case OP_FOR:
    case OP_WHILE:
    case OP_BREAK:
    case OP_YIELD:
    case OP_NAMED:
    case OP_ASSERT:
      return !has_result(v) || v->type.rank == 0;
    default:
      return has_result(v) && !(v->op == OP_AXIS && v->ival == s->batch->axis);
  }
}

static void visit(Instr *v, void *context) {
  Search *s = context;
  s->fits = s->fits && effect_fits(s, v);
  if (!has_result(v)) return;
  Columns c = s->values[v->id] = find_columns(s, v);
  s->fits = s->fits && value_fits(s, v, c);
}

bool goes_beside(Gen *g, Batch *batch) {
  Search s = {.g = g, .batch = batch, .fits = true};
  batch->columns = true;
  batch->beside = NEW_ARRAY(g->arena, bool, g->k->refs.count + 1);
  s.values = NEW_ARRAY(g->arena, Columns, g->k->next_id + 1);
  if (!sort_operands(&s)) return false;
  sort_scratch(&s);
  ir_walk(g->k->body, visit, &s);
  return s.fits;
}

// ---- their places in memory

bool is_ref_beside(const Gen *g, const Ref *ref) {
  return g->batch && g->batch->columns && g->batch->beside[ref->id];
}

bool is_value_beside(const Gen *g, const Instr *v) {
  return g->batch && g->batch->columns && v->type.rank &&
         val(v)->demand[v->type.rank - 1] == g->batch->inside;
}

// A row is as long as those of all cells that go together, which are FEW_ROWS rows of one at most:
// see pk_batch_most.
void put_beside(Gen *g, Buffer *b) {
  ExprPool *pool = &g->exprs;
  const Expr *row = b->rank > 1 ? b->stride[b->rank - 2] : b->bytes, *all = number(g, FEW_ROWS);
  for (int i = 0; i < b->rank - 1; i++)
    b->stride[i] = expr_mul(pool, b->stride[i], g->batch->together);
  if (b->rank > 1) row = expr_sat_mul(pool, row, number(g, dtype_bytes(b->element)));
  b->bytes = expr_max(pool, b->bytes, expr_sat_mul(pool, row, all));
}
