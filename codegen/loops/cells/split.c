// Splits a cell into parts.
//
// A grid with fewer cells than threads leaves threads idle. If each row of a block is computed
// independently, a cell is split: each part computes some of its rows, like a block that overhangs
// its array. Row r of every value must depend only on row r of the operands that have these rows,
// or be the same for all rows. The number of parts of a cell is decided at run time; it is one if
// there are enough cells.
#include "codegen/ir/independence.h"
#include "codegen/loops/loops.h"

typedef struct {
  Gen *g;
  Split *split;
  int *refs;  // by Ref.id: the axis that has the rows, as in Independence
} SplitSearch;

// ---- operands

bool is_split(const Gen *g, const RefGen *r, int k) {
  return g->split && ref_is_operand(r->ref) && !r->ref->squeeze[k] &&
         r->inside[ir_block_axis(r->ref, k)] == g->split->inside;
}

// Its rows are those of the cell, and nothing else depends on the cell's index. Rows are read and
// written in place, or packed.
static bool has_rows(SplitSearch *s, const RefGen *r, int *found) {
  const Ref *ref = r->ref;
  *found = REPLICATED;
  for (int axis = 0; axis < ref->type.rank; axis++) {
    if (r->inside[axis] != s->split->inside) continue;
    if (*found >= 0) return false;
    *found = axis;
  }
  if (*found < 0) return true;
  return ref->at == AT_BLOCK && ref->space == SPACE_VMEM &&
         (r->form == FORM_DIRECT || (r->form == FORM_ROWS && !r->transposed && *found == 0));
}

// The axis of the rows in scratch that is read only at rows in bounds.
static int rows_of_scratch(const SplitSearch *s, const RefGen *r) {
  for (int axis = 0; axis < r->ref->type.rank; axis++)
    if (r->demand[axis] == s->split->inside && r->ref->type.dim[axis] == s->split->block)
      return axis;
  return REPLICATED;
}

static bool sort_refs(SplitSearch *s) {
  const Kernel *k = s->g->k;
  for (int i = 0; i < k->refs.count; i++) {
    const RefGen *r = &s->g->refs[i];
    if (r->ref->alias || r->shared || r->holds_input) return false;
    if (!ref_is_operand(r->ref))
      s->refs[i] = rows_of_scratch(s, r);
    else if (!has_rows(s, r, &s->refs[i]) || (r->ref->role == REF_OUTPUT && s->refs[i] < 0))
      return false;
  }
  return true;
}

// ---- values

// A value whose extent is that of the block's rows must have the rows of a part: it is either
// partitioned along the rows, or shared by all of them.
static bool ends_with_rows(const Split *split, const Instr *v, Partition p) {
  for (int axis = 0; axis < v->type.rank; axis++) {
    bool end = val(v)->demand[axis] == split->inside,
         tail = val(v)->tail[axis].known && val(v)->tail[axis].from == split->inside;
    if (axis == p.axis) {
      if (val(v)->demand[axis] && !end) return false;
    } else if (tail || (end && !(p.uniform >> axis & 1)))
      return false;
  }
  return true;
}

// Cells whose loops compute with their index are not split.
static bool uses_loop_index(const Instr *v) {
  for (int i = first_read(v); i < v->nargs; i++)
    if (v->args[i]->op == OP_ARG && v->op != OP_BROADCAST) return true;
  return false;
}

static bool value_fits(Independence *q, const Instr *v, Partition p) {
  Split *split = q->context;
  const bool rows = p.axis >= 0;
  if (uses_loop_index(v) || !ends_with_rows(split, v, p) ||
      (rows && v->type.dim[p.axis] != split->block))
    return false;
  if (v->op == OP_DOT && rows) split->dots = true;
  return v->op != OP_DOT || p.axis < 1;
}

static bool fits(Gen *g, Split *split) {
  SplitSearch s = {g, split, NEW_ARRAY(g->arena, int, g->k->refs.count + 1)};
  return sort_refs(&s) &&
         ir_is_independent(&(Independence){
             .k = g->k, .refs = s.refs, .grid_axis = -1, .accepts = value_fits, .context = split});
}

// ---- the axis

enum { LEAST_ROWS = 8 };  // of a part

static bool is_candidate(const Gen *g, const RefGen *r, int k, int axis) {
  const Instr *index = ir_yielded(r->ref->index_map, k);
  return axis < r->ref->type.rank - 1 && index->op == OP_AXIS &&
         g->k->grid.at[index->ival].parallel && !(g->batch && g->batch->axis == index->ival) &&
         r->inside[axis] != DEMAND_FULL && dim_is_const(r->ref->block[k]) &&
         r->ref->block[k] >= 2 * LEAST_ROWS;
}

static const Expr *make_name(Gen *g, int axis, const char *form) {
  return expr_symbol(&g->exprs, lasting_name(&g->names, text(g, form, g->c_name.axis[axis])));
}

static void try_axis(Gen *g, const RefGen *r, int k, int axis) {
  Split split = {.axis = (int)ir_yielded(r->ref->index_map, k)->ival,
                 .inside = r->inside[axis],
                 .block = r->ref->block[k],
                 .rows = r->ref->array.dim[k]};
  if (!fits(g, &split)) return;
  // Skinny products read their right operand in place, each part all of it.
  split.least = split.dots ? PK_DOT_SKINNY + LEAST_ROWS : LEAST_ROWS;
  if (split.block < 2 * split.least) return;
  split.parts = make_name(g, split.axis, "%s_parts");
  split.length = make_name(g, split.axis, "%s_part_rows");
  split.place = make_name(g, split.axis, "%s_place");
  split.first = make_name(g, split.axis, "%s_first_row");
  g->split = NEW(g->arena, Split);
  *g->split = split;
}

void find_split(Gen *g) {
  const Kernel *k = g->k;
  if (g->options->literal_dma || k->mesh.count || k->one_row) return;
  for (int i = k->inputs; i < k->inputs + k->outputs && !g->split; i++) {
    const RefGen *r = &g->refs[i];
    if (r->ref->at != AT_BLOCK || r->ref->space != SPACE_VMEM) continue;
    for (int d = 0, axis = 0; d < r->ref->array.rank && !g->split; d++) {
      if (r->ref->squeeze[d]) continue;
      if (is_candidate(g, r, d, axis)) try_axis(g, r, d, axis);
      axis++;
    }
  }
}

void explain_split(Gen *g) {
  explain(g,
          "  %-12s a cell is divided into parts of %d rows or more, of %lld, when the cells do not "
          "divide evenly among the threads",
          "", g->split->least, (long long)g->split->block);
}
