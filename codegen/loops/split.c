// A cell is cut into parts.
//
// A grid with fewer cells than threads leaves threads without work. Where each row of a block is
// computed independently, a cell may be several: each takes a part of its rows, as the last block
// of an array does that overhangs. It requires that row r of every value depends only on row r of
// the operands that have these rows, or is the same in all of them. How many parts a cell has is
// decided at run time; one where cells are enough.
#include "codegen/loops/loops.h"

// What a value, or a ref, has along its axes.
typedef struct {
  bool mixed;      // its rows depend on other rows
  int rows;        // the axis that has the rows, or -1: it is the same for all parts
  unsigned alike;  // .. then the axes along which all elements are the same
} Along;

typedef struct {
  Gen *g;
  Split *split;
  int *refs;      // by Ref.id: the axis that has the rows, or -1
  Along *values;  // by Instr.id
  bool fits;
} Search;

static const Along mixed = {true, -1, 0};

// ---- operands

bool is_split(const Gen *g, const RefGen *r, int k) {
  int axis = 0;
  if (!g->split || !ref_is_operand(r->ref) || r->ref->squeeze[k]) return false;
  for (int i = 0; i < k; i++) axis += !r->ref->squeeze[i];
  return r->inside[axis] == g->split->inside;
}

// Its rows are those of the cell, and nothing else of it follows from the cell's index. Rows are
// read and written in place, or packed.
static bool has_rows(Search *s, const RefGen *r, int *found) {
  const Ref *ref = r->ref;
  int axis = 0;
  *found = -1;
  for (int k = 0; k < ref->array.rank; k++) {
    bool rows = !ref->squeeze[k] && r->inside[axis] == s->split->inside;
    if (rows && *found >= 0) return false;
    if (rows) *found = axis;
    axis += !ref->squeeze[k];
  }
  if (*found < 0) return true;
  return ref->at == AT_BLOCK && ref->space == SPACE_VMEM &&
         (r->form == FORM_DIRECT || (r->form == FORM_ROWS && !r->transposed && *found == 0));
}

// Scratch of which no more rows are read than there are inside has the rows.
static int rows_of_scratch(const Search *s, const RefGen *r) {
  for (int axis = 0; axis < r->ref->type.rank; axis++)
    if (r->demand[axis] == s->split->inside && r->ref->type.dim[axis] == s->split->block)
      return axis;
  return -1;
}

static bool sort_refs(Search *s) {
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

static Along along(const Search *s, const Instr *v) { return s->values[v->id]; }

static Along by_element(const Search *s, const Instr *v, int from) {
  Along all = {false, -1, ~0u};
  for (int i = from; i < v->nargs; i++) {
    Along p = along(s, v->args[i]);
    if (p.mixed || (p.rows >= 0 && all.rows >= 0 && p.rows != all.rows)) return mixed;
    if (p.rows >= 0)
      all.rows = p.rows;
    else
      all.alike &= p.alike;
  }
  if (all.rows >= 0 && !(all.alike >> all.rows & 1)) return mixed;
  return all;
}

// The axis of an access that has the rows of its ref, all of them; -1: not all.
static int rows_of_access(const Search *s, const Instr *access) {
  int rows = s->refs[access->ref->id], squeezed = 0;
  const Window *w = &access->window;
  for (int k = 0; k < rows; k++) squeezed += w->squeeze[k];
  return ir_window_covers(access, rows) ? rows - squeezed : -1;
}

static Along of_load(const Search *s, const Instr *v) {
  Along masks = by_element(s, v, v->ref->type.rank);
  if (masks.mixed) return mixed;
  if (s->refs[v->ref->id] < 0) return masks.rows < 0 ? (Along){false, -1, 0} : mixed;
  int rows = rows_of_access(s, v);
  bool fits = rows >= 0 && (masks.rows == rows || (masks.rows < 0 && masks.alike >> rows & 1));
  return fits ? (Along){false, rows, 0} : mixed;
}

static Along of_broadcast(const Search *s, const Instr *v) {
  const Type *from = &v->args[0]->type, *to = &v->type;
  Along p = along(s, v->args[0]), all = {p.mixed, -1, 0};
  int more = to->rank - from->rank;
  for (int axis = 0; axis < to->rank; axis++) {
    bool stretched = axis < more || from->dim[axis - more] != to->dim[axis];
    if (stretched || (p.alike >> (axis - more) & 1)) all.alike |= 1u << axis;
    if (axis >= more && axis - more == p.rows) {
      if (stretched) return mixed;
      all.rows = axis;
    }
  }
  return all;
}

static Along of_dot(const Search *s, const Instr *v) {
  DotShape shape = dot_shape(v);
  Along a = along(s, v->args[0]), b = along(s, v->args[1]);
  if (a.mixed || b.mixed) return mixed;
  if (a.rows < 0 && b.rows < 0) return (Along){false, -1, 0};
  if (!shape.plain || shape.a_transposed || along(s, shape.b).rows >= 0) return mixed;
  return along(s, shape.a).rows == 0 ? (Along){false, 0, 0} : mixed;
}

static Along of_reduction(const Search *s, const Instr *v) {
  Along p = along(s, v->args[0]);
  if (p.mixed || p.rows < 0) return (Along){p.mixed, -1, 0};
  return v->ival >> p.rows & 1 ? mixed : (Along){false, p.rows, 0};
}

static Along find_along(const Search *s, const Instr *v) {
  if (v->op == OP_LOAD) return of_load(s, v);
  if (v->op == OP_BROADCAST) return of_broadcast(s, v);
  if (v->op == OP_DOT) return of_dot(s, v);
  if (v->op == OP_IOTA) return (Along){false, -1, ~(1u << v->ival)};
  if (op_info[v->op].class == OPC_REDUCE) return of_reduction(s, v);
  Along args = by_element(s, v, 0);
  if (op_is_elementwise(v->op) || args.mixed) return args;
  if (args.rows >= 0) return mixed;
  return (Along){false, -1, v->nargs ? 0 : ~0u};
}

// What ends with the rows of the block has to end with those of a part: it has the rows, or is the
// same in all of them.
static bool ends_with_rows(const Search *s, const Instr *v, Along p) {
  for (int axis = 0; axis < v->type.rank; axis++) {
    bool end = val(v)->demand[axis] == s->split->inside,
         tail = val(v)->tail_known[axis] && val(v)->tail[axis] == s->split->inside;
    if (axis == p.rows) {
      if (val(v)->demand[axis] && !end) return false;
    } else if (tail || (end && !(p.rows < 0 && p.alike >> axis & 1)))
      return false;
  }
  return true;
}

static bool store_fits(const Search *s, const Instr *v) {
  Along value = by_element(s, v, v->ref->type.rank);
  if (value.mixed) return false;
  if (s->refs[v->ref->id] < 0) return value.rows < 0;
  int found = rows_of_access(s, v);
  return found >= 0 && (value.rows == found || (value.rows < 0 && value.alike >> found & 1));
}

static bool effect_fits(const Search *s, const Instr *v) {
  switch (v->op) {
    case OP_STORE:
      return store_fits(s, v);
    case OP_FETCH:
    case OP_WRITEBACK:
    case OP_ASSERT:
      return true;
    case OP_IF:
    case OP_FOR:
    case OP_WHILE:
    case OP_BREAK:
    case OP_YIELD:
    case OP_NAMED:
      return !has_result(v) || v->type.rank == 0;
    default:
      return has_result(v);
  }
}

static void visit(Instr *v, void *context) {
  Search *s = context;
  s->fits = s->fits && effect_fits(s, v);
  if (!has_result(v) || !s->fits) return;
  Along p = s->values[v->id] = find_along(s, v);
  bool rows = p.rows >= 0;
  s->fits =
      !p.mixed && ends_with_rows(s, v, p) && (!rows || v->type.dim[p.rows] == s->split->block);
  if (rows && v->op == OP_DOT) s->split->dots = true;
}

static bool fits(Gen *g, Split *split) {
  Search s = {.g = g, .split = split, .fits = true};
  s.refs = NEW_ARRAY(g->arena, int, g->k->refs.count + 1);
  s.values = NEW_ARRAY(g->arena, Along, g->k->next_id + 1);
  if (!sort_refs(&s)) return false;
  ir_walk(g->k->body, visit, &s);
  return s.fits;
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
  return expr_symbol(&g->exprs, lasting_name(&g->names, text(g, form, g->axis_name[axis])));
}

static void try_axis(Gen *g, const RefGen *r, int k, int axis) {
  Split split = {.axis = (int)ir_yielded(r->ref->index_map, k)->ival,
                 .inside = r->inside[axis],
                 .block = r->ref->block[k],
                 .rows = r->ref->array.dim[k]};
  if (!fits(g, &split)) return;
  // Products of few rows read their right operand in place, each part all of it.
  split.least = split.dots ? FEW_ROWS + LEAST_ROWS : LEAST_ROWS;
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
          "  %-12s a cell is cut into parts of %d rows or more, of %lld, while threads have no "
          "equal share of the cells",
          "", g->split->least, (long long)g->split->block);
}
