// How each operand moves between HBM and VMEM.
//
// DIRECT: it does not; loops read or write the array itself. COPY: the runtime's engine copies the
// block unchanged. ROWS and PANELS: a copy that also widens (bf16 to f32, i4 to i16) and lays the
// block out as the micro-kernel of `dot` requires it.
#include "codegen/loops/loops.h"

// ---- how a ref is used

typedef struct {
  int loads, whole_loads, partial_loads, stores;
  bool stored_in_part[MAX_RANK];  // along an axis that may overhang
  int left, right,
      other;       // uses of its loads as left or right operand of a plain dot, or otherwise
  bool mixed;      // some transposed, some not
  bool copied;     // one end of an explicit copy, which sees its bytes
  int transposed;  // -1: no dot seen
  const DotKind *kind;
} Uses;

static void note_dot_use(Uses *u, const Instr *load, const Instr *dot) {
  DotShape s = dot_shape(dot);
  if (!s.plain || (s.a == load && s.b == load)) {
    u->other++;
    return;
  }
  bool transposed = s.a == load ? s.a_transposed : s.b_transposed;
  if (s.a == load)
    u->left++;
  else
    u->right++;
  if (u->transposed >= 0 && u->transposed != transposed) u->mixed = true;
  if (u->transposed >= 0 && u->kind != val(dot)->dot.kind) u->mixed = true;
  u->transposed = transposed;
  u->kind = val(dot)->dot.kind;
}

static void note_value_uses(Uses *u, const Instr *load, const Instr *v) {
  const Val *info = val(v);
  for (int i = 0; i < info->users.count; i++) {
    const Instr *user = info->users.at[i];
    if (user->op == OP_DOT)
      note_dot_use(u, load, user);
    else if (user->op == OP_TRANSPOSE && user->type.rank == 2)
      note_value_uses(u, load, user);
    else
      u->other++;
  }
}

static void note_parts(Uses *u, const RefGen *r, const Instr *v) {
  for (int k = 0; k < r->ref->type.rank; k++)
    if (!ir_window_covers(v, k) && r->inside[k] != DEMAND_FULL) u->stored_in_part[k] = true;
}

static void note_window_length(RefGen *r, const Instr *v) {
  if (v->flags & (INSTR_MASKED | INSTR_OPEN)) return;
  for (int k = 0; k < r->ref->type.rank; k++) {
    Dim size = v->window.squeeze[k] ? 1 : v->window.size[k];
    if (dim_is_const(r->ref->type.dim[k]) || !dim_is_const(size) || size == 0) continue;
    if (val(v)->in_bounds >> k & 1) continue;
    int64_t length = (size - 1) * v->window.stride[k] + 1;
    if (length > r->at_least[k]) r->at_least[k] = length;
  }
}

typedef struct {
  Gen *g;
  Uses *uses;
} UseWalk;

static void note_copy(UseWalk *w, const Instr *v) {
  w->uses[v->ref->id].copied = w->uses[v->target->id].copied = true;
  w->uses[v->ref->id].loads++;
  w->g->refs[v->ref->id].loaded = true;
  w->g->refs[v->target->id].stored = true;
  w->g->refs[v->target->id].stores++;
}

static void note_use(Instr *v, void *context) {
  UseWalk *w = context;
  if (op_starts_copy(v->op)) note_copy(w, v);
  if (v->op != OP_LOAD && v->op != OP_STORE) return;
  Uses *u = &w->uses[v->ref->id];
  RefGen *r = &w->g->refs[v->ref->id];
  note_window_length(r, v);
  if (v->op == OP_STORE) {
    u->stores++;
    r->stored = true;
    r->stores++;
    note_parts(u, r, v);
    return;
  }
  u->loads++;
  u->whole_loads += ir_window_is_full(v);
  r->loaded = true;
  u->partial_loads += !ir_window_is_full(v) || v->nargs > r->ref->type.rank;
  note_value_uses(u, v, v);
}

// ---- decisions

static bool squeezed_in_range(const RefGen *r) {
  for (int k = 0; k < r->ref->array.rank; k++)
    if (r->ref->squeeze[k] && !r->in_range[k]) return false;
  return true;
}

static const char *why_not_direct(Gen *g, const RefGen *r, const Uses *u) {
  const Ref *ref = r->ref;
  if (ref->space == SPACE_ANY) return NULL;
  if (ref->packed) return "its elements share bytes in memory";
  if (g->options->literal_dma) return "--dma=literal";
  if (u->copied) return "an explicit copy reads or writes it";
  if (ref->at != AT_BLOCK) return "its blocks start at elements, which may be before the array";
  if (!squeezed_in_range(r)) return "its squeezed index is not known to be in range";
  if (ref->array.rank > 0 && ref->squeeze[ref->array.rank - 1] && ref->type.rank > 0)
    return "its last axis is squeezed: rows are not contiguous";
  if (ref->alias && !r->holds_input) return "it shares memory with another operand";
  if (ir_ignores_any_axis(g->k, ref)) return "a parallel axis does not move it: one cell writes it";
  return NULL;
}

// Does the kernel read or store elements of a block outside of its array along this axis?
static bool wants_outside(const RefGen *r, const Uses *u, int axis) {
  if (r->inside[axis] == DEMAND_FULL) return false;
  return u->stored_in_part[axis] || (r->demand[axis] != r->inside[axis] && r->demand[axis]);
}

// The condition under which all that the kernel reads or stores of a block is within its array;
// NULL: always true.
static const Expr *wholly_inside(Gen *g, const RefGen *r, const Uses *u) {
  const Expr *whole = NULL;
  for (int k = 0; k < r->ref->type.rank; k++) {
    const Expr *extent = extent_expr(g, r->ref->type.dim[k]);
    if (wants_outside(r, u, k))
      whole = expr_and(&g->exprs, whole, expr_operator(&g->exprs, EXPR_EQ, r->inside[k], extent));
  }
  return whole;
}

// The condition under which no window is longer than its block; NULL: always true.
static const Expr *holds_windows(Gen *g, const RefGen *r) {
  const Expr *holds = NULL;
  for (int k = 0; k < r->ref->type.rank; k++)
    if (r->at_least[k])
      holds = expr_and(&g->exprs, holds,
                       expr_operator(&g->exprs, EXPR_GE, extent_expr(g, r->ref->type.dim[k]),
                                     number(g, r->at_least[k])));
  return holds;
}

bool may_lie_in_hbm(const RefGen *r) {
  return r->form == FORM_DIRECT || (r->form == FORM_COPY && r->in_place.when);
}

// If an output is read back, only stores of a whole block count.
bool may_stream(const Gen *g, const Instr *store) {
  const RefGen *r = &g->refs[store->ref->id];
  return r->streams && (!r->loaded || ir_window_is_full(store));
}

bool may_be_read_back(const RefGen *r) { return r->form != FORM_DIRECT || r->loaded; }

bool shares_memory(const Gen *g, const Ref *ref) { return g->refs[ref->id].shared; }

// ---- dots read their right operand in place if all of it is in bounds: always if they have few
// rows, otherwise the first time, when they fill the panels

typedef struct {
  Gen *g;
  const Ref *ref;
  const Instr *dot;
  Demand rows;
  Dim extent;
  int dots;
  bool same;
} RowSearch;

static void note_rows(Instr *v, void *context) {
  RowSearch *search = context;
  if (v->op != OP_DOT || !dot_shape(v).plain || dot_shape(v).b->op != OP_LOAD ||
      dot_shape(v).b->ref != search->ref)
    return;
  Demand rows = demand_outside(search->g, val(v)->demand[0]);
  if (search->dots++ && (rows != search->rows || v->type.dim[0] != search->extent))
    search->same = false;
  search->rows = rows;
  search->extent = v->type.dim[0];
  search->dot = v;
}

// Does the dot need the whole in-bounds part of the block, whatever its rows?
static bool wants_all(Gen *g, const RefGen *r, const Instr *dot) {
  const DotShape s = dot_shape(dot);
  return contracted_demand(g, dot) == r->demand[s.b_transposed] &&
         val(dot)->demand[1] == r->demand[1 - s.b_transposed];
}

static void read_in_place(Gen *g, RefGen *r) {
  RowSearch search = {.g = g, .ref = r->ref, .same = true};
  if (!has_skinny_kernel(r->kind, r->ref->array.dtype) || shares_memory(g, r->ref)) return;
  ir_walk(g->k->body, note_rows, &search);
  if (!search.dots || !search.same) return;
  for (int k = 0; k < r->ref->type.rank; k++) {
    if (r->inside[k] == DEMAND_FULL || r->demand[k] == r->inside[k]) continue;
    if (r->demand[k] != DEMAND_FULL) return;
    const Expr *extent = extent_expr(g, r->ref->type.dim[k]);
    r->in_place.whole = expr_and(&g->exprs, r->in_place.whole,
                                 expr_operator(&g->exprs, EXPR_EQ, r->inside[k], extent));
  }
  r->in_place.dot_rows = demand_expr(g, search.rows, search.extent);
  bool plain = r->ref->array.dtype == DT_F32 && !r->transposed && squeezed_in_range(r);
  if (plain && search.dots == 1 && wants_all(g, r, search.dot)) r->in_place.filled_by = search.dot;
}

// Chooses the form of an input: in place, packed for dots, or a buffer.
static void choose_input(Gen *g, RefGen *r, const Uses *u) {
  const Ref *ref = r->ref;
  const char *refused = why_not_direct(g, r, u), *not_direct = refused;
  const Expr *inside = wholly_inside(g, r, u), *holds = holds_windows(g, r),
             *whole = holds ? expr_and(&g->exprs, inside, holds) : inside;
  if (whole && !refused)
    not_direct = !inside        ? "a window of it may be longer than it is"
                 : ref->has_pad ? "its pad is read"
                                : "elements outside its array are read";
  bool dot_only = u->loads && !ref->packed && !u->partial_loads && !u->other && !u->mixed &&
                  !u->copied && ref->type.rank == 2 && !g->options->literal_dma &&
                  !(u->left && u->right) && ref->space == SPACE_VMEM && ref->at == AT_BLOCK &&
                  !ref->squeeze[ref->array.rank - 1];
  DType element = u->kind ? dot_element(u->kind, ref->type.dtype) : ref->type.dtype;
  r->element = ref->type.dtype;
  r->kind = u->kind;
  if (dot_only && u->right) {
    r->form = FORM_PANELS;
    r->element = element;
    r->transposed = u->transposed == 1;
    r->why = r->transposed ? "right operand of dot, transposed when it is packed"
                           : "right operand of dot";
    read_in_place(g, r);
  } else if (dot_only && u->left &&
             (not_direct || shares_memory(g, ref) || u->transposed == 1 || element != r->element)) {
    r->form = FORM_ROWS;
    r->why = element != r->element ? "left operand of dot, widened when it is copied"
             : u->transposed == 1  ? "left operand of dot, transposed when it is copied"
                                   : "left operand of dot: rows copied to contiguous memory";
    r->element = element;
    r->transposed = u->transposed == 1;
  } else if (ref->space == SPACE_ANY) {
    r->form = FORM_DIRECT;
    r->why = "it stays in HBM";
  } else if (not_direct || shares_memory(g, ref)) {
    r->form = FORM_COPY;
    r->why = not_direct ? not_direct : "an output shares its memory";
    if (!refused && !shares_memory(g, ref) && !u->stores)
      r->in_place.when = whole, r->in_place.always = inside ? NULL : holds;
  } else {
    r->form = FORM_DIRECT;
    r->why = "every element is read in place, none past the end";
  }
}

// An output that is read back only in parts, for example by an index, is written and read back in
// place: a copy would move the whole block for them. An output that is read back as a whole stays
// in a block, whose rows are contiguous.
static void choose_output(Gen *g, RefGen *r, const Uses *u) {
  const char *refused = why_not_direct(g, r, u);
  const Expr *inside = wholly_inside(g, r, u), *holds = holds_windows(g, r),
             *whole = holds ? expr_and(&g->exprs, inside, holds) : inside;
  bool in_hbm = r->ref->space == SPACE_ANY;
  r->element = r->ref->type.dtype;
  r->why = refused                    ? refused
           : in_hbm                   ? "it stays in HBM"
           : r->holds_input && !whole ? "read and written in place, in the memory of its input"
           : u->whole_loads           ? "it is read back while it stays"
           : holds                    ? "a window of it may be longer than it is"
           : inside                   ? "a part of it is stored that may end past its array"
           : u->loads                 ? "written and read back in parts, in place"
                                      : "written once, in place";
  bool stays = u->whole_loads && !r->holds_input;
  r->form = !in_hbm && (refused || stays || whole) ? FORM_COPY : FORM_DIRECT;
  if (r->form == FORM_COPY && !refused && !u->whole_loads && u->loads)
    r->in_place.when = whole, r->in_place.always = inside ? NULL : holds;
  r->streams =
      may_lie_in_hbm(r) && r->element == DT_F32 && r->ref->array.rank > 0 && !r->holds_input;
}

// ---- outputs in the memory of their inputs

static bool is_read_in_place(Gen *g, const RefGen *r, const Uses *u) {
  return !why_not_direct(g, r, u) && !wholly_inside(g, r, u) && !holds_windows(g, r) && !u->left &&
         !u->right;
}

static void join_alias(Gen *g, Ref *output, Uses *uses) {
  if (!output->alias || !may_go_in_place(g, output)) return;
  const int in = output->alias->id, out = output->id;
  RefGen *r = &g->refs[out];
  r->holds_input = true;
  r->holds_input =
      is_read_in_place(g, &g->refs[in], &uses[in]) && is_read_in_place(g, r, &uses[out]);
  if (!r->holds_input) return;
  read_in_output(g, output);
  r->loaded = uses[in].loads > 0;
  g->refs[in].loaded = g->refs[in].shared = false;
  uses[out].loads = uses[in].loads;
  uses[out].whole_loads = uses[in].whole_loads;
  uses[in] = (Uses){.transposed = -1};
}

void choose_forms(Gen *g) {
  int count = g->k->refs.count;
  Uses *uses = NEW_ARRAY(g->arena, Uses, count + 1);
  for (int i = 0; i < count; i++) uses[i].transposed = -1;
  choose_dot_kinds(g);
  ir_walk(g->k->body, note_use, &(UseWalk){g, uses});
  for (int i = 0; i < count; i++) join_alias(g, g->k->refs.at[i], uses);
  for (int i = 0; i < count; i++) {
    RefGen *r = &g->refs[i];
    r->element = r->ref->type.dtype;
    if (r->ref->role == REF_INPUT)
      choose_input(g, r, &uses[i]);
    else if (r->ref->role == REF_OUTPUT)
      choose_output(g, r, &uses[i]);
    else
      r->form = FORM_COPY;
  }
}
