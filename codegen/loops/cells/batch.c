// Batches cells that read the same blocks.
//
// Query heads that share a key head are cells of a parallel axis whose dots have the same right
// operands. If such cells have few rows each, their rows are stacked in one block, which has unused
// rows for them. A step then reads the shared blocks once for all of them. Each row of the body
// must be computed independently, whichever cell it belongs to. Whether there are few rows, and
// whether the rows of the arrays can be stacked, is decided at run time.
#include "codegen/ir/independence.h"
#include "codegen/loops/loops.h"

typedef struct {
  Gen *g;
  Batch *batch;
  Dim lead;   // rows of a block
  int *refs;  // by Ref.id: the axis of the rows, where cells have their own, as in Independence
} BatchSearch;

// Known from the sizes of a call. Operands may be shared, so only shallow expressions are walked.
static bool is_size(const Instr *v, int depth) {
  bool leaf = v->op == OP_SIZE || v->op == OP_CONST || v->op == OP_EXTENT;
  if (depth == 0 && v->nargs) return false;
  for (int i = 0; i < v->nargs; i++)
    if (!is_size(v->args[i], depth - 1)) return false;
  return leaf || op_is_elementwise(v->op);
}

// ---- operands

// Does each cell have its own rows of the operand, selected by the cell's index along a squeezed
// axis?
static bool stacks(BatchSearch *s, const RefGen *r) {
  const Ref *ref = r->ref;
  if (ref->at != AT_BLOCK || (r->stored && r->loaded)) return false;
  const GridUse use = ir_grid_use(ref, s->batch->axis);
  const int cell = use.axis;
  if (cell < 0 || use.other || !ref->squeeze[cell] || !r->in_range[cell]) return false;
  bool rows = ref->type.rank == 2 && r->inside[0] != DEMAND_FULL && dim_is_const(ref->type.dim[0]);
  if (!rows || (r->form != FORM_DIRECT && (r->form != FORM_ROWS || r->transposed))) return false;
  if (s->batch->inside && s->batch->inside != r->inside[0]) return false;
  const int row = ir_array_axis(ref, 0);
  s->batch->inside = r->inside[0];
  s->batch->rows = ref->array.dim[row];
  s->lead = ref->type.dim[0];
  s->batch->operands[ref->id] = (Stacking){true, cell, row};
  return true;
}

// The same block for consecutive cells: the index map ignores their axis, or divides it.
static bool is_shared(BatchSearch *s, const Ref *ref) {
  if (ref->at == AT_SLICE) return false;
  for (int k = 0; k < ref->array.rank; k++) {
    const Instr *index = ir_yielded(ref->index_map, k);
    if (!ir_uses_axis(index, s->batch->axis)) continue;
    bool divides = index->op == OP_DIV || index->op == OP_FLOORDIV;
    if (!divides || index->args[0]->op != OP_AXIS || !is_size(index->args[1], 10)) return false;
    const Instr *run = index->args[1], *other = s->batch->run;
    if (other && scalar_expr(s->g, other) != scalar_expr(s->g, run)) return false;
    s->batch->run = run;
  }
  return true;
}

// Decides for each operand whether a batch stacks its rows or shares it; false if there is no gain.
static bool sort_operands(BatchSearch *s) {
  bool gains = false;
  for (int i = 0; i < s->g->k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    if (!ref_is_operand(r->ref)) continue;
    if (ir_ignores_axis(s->g->k, r->ref, s->batch->axis)) return false;
    if (stacks(s, r)) {
      s->refs[i] = 0;
      continue;
    }
    if (r->ref->role == REF_OUTPUT || !is_shared(s, r->ref)) return false;
    s->refs[i] = REPLICATED;
    gains |= r->in_place.dot_rows != NULL;
  }
  if (!gains || !s->batch->inside) return false;
  for (int i = 0; i < s->g->k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    if (!ref_is_operand(r->ref))
      s->refs[i] = r->ref->type.rank == 2 && r->ref->type.dim[0] == s->lead ? 0 : REPLICATED;
    for (int axis = 0; ref_is_operand(r->ref) && axis < r->ref->type.rank; axis++)
      if (r->inside[axis] == s->batch->inside && (s->refs[i] == REPLICATED || axis)) return false;
  }
  return true;
}

// ---- values

// Are the rows of the loop those of the step?
static bool stacks_value(Independence *q, const Instr *v, Partition p) {
  const Batch *batch = q->context;
  Demand demand = v->type.rank == 2 ? val(v)->demand[0] : NULL;
  return p.axis == REPLICATED || (p.axis == 0 && (!demand || demand == batch->inside));
}

static bool counts_rows(const Independence *q, const Instr *iota) {
  return is_row_index(iota, q->context);
}

bool is_row_index(const Instr *v, const Batch *batch) {
  return batch && v->op == OP_IOTA && v->type.rank == 2 && v->ival == 0 &&
         val(v)->demand[0] == batch->inside;
}

static bool batches(Gen *g, Batch *batch) {
  BatchSearch s = {g, batch, 0, NEW_ARRAY(g->arena, int, g->k->refs.count + 1)};
  if (!sort_operands(&s)) return false;
  batch->block = s.lead;
  return ir_is_independent(&(Independence){.k = g->k,
                                           .refs = s.refs,
                                           .grid_axis = batch->axis,
                                           .accepts = stacks_value,
                                           .counts = counts_rows,
                                           .context = batch});
}

static bool find_batch_by(Gen *g, bool (*goes_together)(Gen *, Batch *)) {
  for (int a = g->k->grid.count - 1; a >= 0 && !g->options->literal_dma; a--) {
    Batch *batch = NEW(g->arena, Batch);
    batch->axis = a;
    batch->operands = NEW_ARRAY(g->arena, Stacking, g->k->refs.count + 1);
    if (!g->k->grid.at[a].parallel || !goes_together(g, batch)) continue;
    g->batch = batch;
    batch->own =
        expr_symbol(&g->exprs, lasting_name(&g->names, text(g, "%s_own", batch->inside->name)));
    batch->together =
        expr_symbol(&g->exprs, lasting_name(&g->names, text(g, "%s_together", g->c_name.axis[a])));
    static const char *const forms[] = {"%s_run",   "%s_most",  "%s_batches",
                                        "%s_batch", "%s_first", "%s_end"};
    batch->stem = name_family(&g->names, g->c_name.axis[a], forms, sizeof forms / sizeof *forms);
    return true;
  }
  return false;
}

void find_batch(Gen *g) {
  if (!find_batch_by(g, batches)) find_batch_by(g, batches_adjacent);
}

// ---- the quantities of a batch

static const Expr *array_stride(Gen *g, int ref, int axis) {
  return expr_stride(&g->exprs, ref, number(g, axis));
}

// A cell of one row has no stride of its own: the next row is the next cell's.
const Expr *row_stride(Gen *g, const Ref *ref, int row) {
  ExprPool *pool = &g->exprs;
  const Stacking *s = g->batch ? &g->batch->operands[ref->id] : NULL;
  if (!s || !s->stacked) return array_stride(g, ref->id, row);
  const Expr *single = expr_operator(pool, EXPR_EQ, extent_expr(g, g->batch->rows), number(g, 1));
  return expr_stride(pool, ref->id, expr_choose(pool, single, number(g, s->cell), number(g, row)));
}

// Do the rows of one cell end where the next one's begin, in all arrays?
static const Expr *stacking_condition(Gen *g) {
  ExprPool *pool = &g->exprs;
  const Expr *rows = extent_expr(g, g->batch->rows), *all = NULL;
  for (int i = 0; i < g->k->refs.count; i++) {
    const Stacking *s = &g->batch->operands[i];
    if (!s->stacked) continue;
    const Expr *cell = quantity(g, FN_MUL, rows, array_stride(g, i, s->row), NULL);
    all = expr_and(pool, all, expr_operator(pool, EXPR_EQ, array_stride(g, i, s->cell), cell));
  }
  return expr_or(pool, expr_operator(pool, EXPR_EQ, rows, number(g, 1)), all);
}

const Expr *batch_variable(Gen *g, BatchPart part) {
  static const char *const forms[] = {
      [BATCH_RUN] = "%s_run",     [BATCH_MOST] = "%s_most",   [BATCH_BATCHES] = "%s_batches",
      [BATCH_INDEX] = "%s_batch", [BATCH_FIRST] = "%s_first", [BATCH_END] = "%s_end",
  };
  if (part == BATCH_TOGETHER) return g->batch->together;
  return expr_symbol(&g->exprs, text(g, forms[part], g->batch->stem));
}

// The first cell of the batch `index`.
static const Expr *first_cell(Gen *g, const Expr *index) {
  const Expr *const of[EXPR_ARGS] = {index, grid_extent(g, g->batch->axis),
                                     batch_variable(g, BATCH_RUN), batch_variable(g, BATCH_MOST)};
  return expr_function(&g->exprs, FN_BATCH_FIRST, of);
}

static const Expr *most_cells(Gen *g, const Expr *few) {
  ExprPool *pool = &g->exprs;
  const Batch *b = g->batch;
  const Expr *rows = extent_expr(g, b->rows);
  if (!b->columns)
    return quantity(g, FN_BATCH_MOST, rows, expr_min(pool, few, extent_expr(g, b->block)), NULL);
  const Expr *most =
                 expr_min(pool, quantity(g, FN_BATCH_MOST, rows, few, NULL), number(g, b->most)),
             *shares = expr_operator(pool, EXPR_DIV, grid_extent(g, b->axis), number(g, SHARES));
  return expr_max(pool, number(g, 1), expr_min(pool, most, shares));
}

// The expression of one of the batch's variables.
const Expr *batch_value(Gen *g, BatchPart part) {
  ExprPool *pool = &g->exprs;
  const Batch *b = g->batch;
  const Expr *all = grid_extent(g, b->axis), *one = number(g, 1),
             *few = expr_symbol(pool, "PK_DOT_SKINNY"), *first = batch_variable(g, BATCH_FIRST);
  switch (part) {
    case BATCH_RUN:
      return quantity(g, FN_CLAMP, b->run ? scalar_expr(g, b->run) : all, one,
                      expr_max(pool, all, one));
    case BATCH_MOST:
      return most_cells(g, few);
    case BATCH_BATCHES:
      return quantity(g, FN_BATCHES, all, batch_variable(g, BATCH_RUN),
                      batch_variable(g, BATCH_MOST));
    case BATCH_FIRST:
      return first_cell(g, batch_variable(g, BATCH_INDEX));
    case BATCH_END:
      return first_cell(g, expr_add(pool, batch_variable(g, BATCH_INDEX), one));
    case BATCH_TOGETHER: {
      const Expr *cells = expr_sub(pool, batch_variable(g, BATCH_END), first);
      return b->columns ? cells : expr_choose(pool, stacking_condition(g), cells, one);
    }
    default:
      INTERNAL("the index of a batch follows from its cell");
  }
}

static void explain_adjacent(Gen *g) {
  explain(g,
          "  %-12s up to %lld adjacent cells run as one while they have 24 rows or fewer in all "
          "and are at most a quarter of the cells: rows are read in pieces of a page",
          "", (long long)g->batch->most);
}

void explain_batch(Gen *g) {
  if (!g->batch) return;
  if (g->batch->columns) {
    explain_adjacent(g);
    return;
  }
  const char *shared = "";
  for (int i = 0; i < g->k->refs.count; i++)
    if (g->refs[i].in_place.dot_rows)
      shared = text(g, "%s%s%s", shared, *shared ? ", " : "", g->refs[i].ref->name);
  explain(g,
          "  %-12s cells that read the same blocks of %s run as one while they have 24 rows or "
          "fewer in all",
          "", shared);
}
