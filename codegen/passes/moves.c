// Pass `moves`: slices, reshapes and transposes move to the leaves of the expression that they
// apply to, and the parts of a concatenation are stored separately.
//
// Requires: nothing. Preserves: every stored bit, the order of stores, and the number of
// operations, because only values without other readers are computed at other indices. A value that
// is only split or joined is therefore never in memory, and one loop computes it.
#include "codegen/ir/axes.h"
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

#include <string.h>

typedef struct {
  bool
      adds_dots;  // a product of two matrices, or a sum of products, which becomes a single product
  bool cut_up;    // only slices read it, which together have no more elements than it
  Instr *taken;   // SLICE with a stride along lanes: the load that replaces it
  LIST(const Instr *) users;
} Known;

typedef struct {
  Kernel *k;
  Region *region;  // being rebuilt
  Known *known;    // by instruction id; later ones were added by this pass and have one use
  Uses uses;       // by instruction id, likewise
  int count;
  int pushed, split, rolled, multiplied;
} Mover;

// ---- facts about uses

// loops/products/sums.c makes it one product.
static bool adds_dots(const Mover *m, const Instr *v) {
  return v->op == OP_DOT ? dot_shape(v).plain
                         : v->op == OP_ADD && m->known[v->args[0]->id].adds_dots &&
                               m->known[v->args[1]->id].adds_dots;
}

static void note_instr(Instr *v, void *context) {
  Mover *m = context;
  m->known[v->id].adds_dots = adds_dots(m, v);
  for (int i = 0; i < v->nargs; i++) LIST_PUSH(m->k->arena, &m->known[v->args[i]->id].users, v);
}

// The only axis along which a slice selects a part, or -1.
static int sliced_axis(const Instr *slice) {
  const Type *from = &slice->args[0]->type;
  int axis = -1;
  for (int i = 0; i < from->rank; i++) {
    if (ir_operand_axis(slice, i) == i) continue;
    if (axis >= 0 || !dim_is_const(from->dim[i])) return -1;
    axis = i;
  }
  return axis;
}

static bool is_cut_up(const Known *known, const Instr *v) {
  int axis = -1;
  Dim elements = 0;
  for (int i = 0; i < known->users.count; i++) {
    const Instr *user = known->users.at[i];
    if (user->op != OP_SLICE || sliced_axis(user) < 0) return false;
    if (axis >= 0 && axis != sliced_axis(user)) return false;
    axis = sliced_axis(user);
    elements += user->type.dim[axis];
  }
  return axis >= 0 && elements <= v->type.dim[axis];
}

static void note_cut_up(Instr *v, void *context) {
  Known *known = &((Mover *)context)->known[v->id];
  known->cut_up = is_cut_up(known, v);
}

// May v be computed at other indices instead?
static bool may_move(const Mover *m, const Instr *v) {
  if (!op_is_elementwise(v->op) || v->type.rank == 0) return false;
  if (v->id >= m->count) return true;
  const Known *known = &m->known[v->id];
  return !known->adds_dots && m->uses.home[v->id] == m->region &&
         (m->uses.count[v->id] == 1 || known->cut_up);
}

// Is v an operand of dots only, directly or through elementwise operations and transposes?
static bool serves_dots(const Mover *m, const Instr *v) {
  const Known *known = &m->known[v->id];
  for (int i = 0; i < known->users.count; i++) {
    const Instr *user = known->users.at[i];
    bool passes_on =
        op_is_elementwise(user->op) || user->op == OP_TRANSPOSE || ir_keeps_pieces(user);
    if (user->op != OP_DOT && !(passes_on && serves_dots(m, user))) return false;
  }
  return known->users.count > 0;
}

// ---- new instructions

static bool takes_all(const Instr *slice, const Instr *v) {
  if (!type_same_shape(&slice->type, &v->type)) return false;
  for (int i = 0; i < v->type.rank; i++)
    if (slice->ints[i] != 0 || slice->ints2[i] != 1) return false;
  return true;
}

static Instr *view_of(Mover *m, const Instr *view, Instr *v);

// The part of a concatenation that contains a slice, sliced; NULL: the slice spans several.
static Instr *slice_of_part(Mover *m, const Instr *slice, const Instr *concat) {
  int axis = (int)concat->ival;
  int64_t first = slice->ints[axis], step = slice->ints2[axis], count = slice->type.dim[axis],
          at = 0;
  if (!dim_is_const(count) || count == 0) return NULL;
  for (int i = 0; i < concat->nargs; i++) {
    Dim extent = concat->args[i]->type.dim[axis];
    if (!dim_is_const(extent)) return NULL;
    if (first >= at && first + (count - 1) * step < at + extent) {
      Instr *inner = ir_copy(m->k, slice);
      if (concat->args[i]->id < m->count) m->uses.count[concat->args[i]->id]++;
      inner->ints[axis] = first - at;
      return view_of(m, inner, concat->args[i]);
    }
    at += extent;
  }
  return NULL;
}

// Does axis i of a broadcast repeat the same elements?
static bool is_stretched(const Instr *broadcast, int i) {
  return ir_operand_axis(broadcast, i) < 0;
}

// The shape that is broadcast if the reshape moves before the broadcast. False: an axis of the
// result combines broadcast axes with others.
static bool shape_before(const Instr *reshape, const Instr *broadcast, Type *before) {
  AxisMap map;
  if (!ir_reshape_map(&broadcast->type, &reshape->type, &map)) return false;
  bool seen[MAX_RANK] = {false}, stretched[MAX_RANK] = {false};
  *before = reshape->type;
  for (int i = 0; i < map.count; i++) {
    bool here = is_stretched(broadcast, map.piece[i].from);
    int to = map.piece[i].to;
    if (seen[to] && stretched[to] != here) return false;
    seen[to] = true;
    stretched[to] = here;
    if (here) before->dim[to] = 1;
  }
  return true;
}

static Instr *reshape_before(Mover *m, const Instr *reshape, const Instr *broadcast) {
  Type before;
  if (broadcast->args[0]->type.rank == 0 || !shape_before(reshape, broadcast, &before)) return NULL;
  Instr *inner = ir_copy(m->k, reshape);
  inner->type = before;
  Instr *v = view_of(m, inner, broadcast->args[0]);
  Type type = reshape->type;
  type.dtype = v->type.dtype;
  return ir_add(m->k, m->region, OP_BROADCAST, type, reshape->span, 1, v);
}

// A cast of the broadcast value becomes a cast of each vector, which costs nothing, because loads
// widen.
static Instr *cast_after(Mover *m, const Instr *view, const Instr *broadcast) {
  Instr *cast = broadcast->args[0], *stretched = ir_copy(m->k, broadcast);
  stretched->type.dtype = cast->args[0]->type.dtype;
  stretched->args[0] = cast->args[0];
  Instr *result = ir_copy(m->k, cast);
  result->type = view->type;
  result->type.dtype = cast->type.dtype;
  result->args[0] = view_of(m, view, ir_append(m->k, m->region, stretched));
  return ir_append(m->k, m->region, result);
}

// The value of a view of v.
static Instr *view_of(Mover *m, const Instr *view, Instr *v) {
  Type type = view->type;
  type.dtype = v->type.dtype;
  if (view->op == OP_SLICE && takes_all(view, v)) return v;
  if (v->op == OP_BROADCAST && v->args[0]->type.rank == 0)
    return ir_add(m->k, m->region, OP_BROADCAST, type, v->span, 1, v->args[0]);
  if (view->op == OP_SLICE && v->op == OP_CONCAT) {
    Instr *part = slice_of_part(m, view, v);
    if (part) return part;
  }
  if (view->op == OP_RESHAPE && v->op == OP_BROADCAST) {
    Instr *before = reshape_before(m, view, v);
    if (before) return before;
    if (ir_keeps_pieces(view) && v->args[0]->op == OP_CAST && may_move(m, v->args[0]))
      return cast_after(m, view, v);
  }
  if (view->op == OP_RESHAPE && v->op == OP_RESHAPE && ir_keeps_pieces(view)) {
    Instr both = *view;
    both.args = v->args;
    if (ir_keeps_pieces(&both)) return view_of(m, &both, v->args[0]);
  }
  Instr *result = ir_copy(m->k, may_move(m, v) ? v : view);
  result->type = type;
  if (may_move(m, v))
    for (int i = 0; i < v->nargs; i++) result->args[i] = view_of(m, view, v->args[i]);
  else
    result->args[0] = v;
  return ir_append(m->k, m->region, result);
}

// ---- views move towards the leaves

// Vectors must remain vectors, though rows of one element may become longer: a view whose rows are
// elements of different rows is not moved.
static bool keeps_vectors(const Instr *view) {
  const Type *from = &view->args[0]->type, *to = &view->type;
  AxisMap map;
  if (from->rank == 0 || to->rank == 0) return false;
  bool vectors = to->dim[to->rank - 1] != 1, before = from->dim[from->rank - 1] != 1;
  if (view->op == OP_RESHAPE && !before && vectors) return ir_axis_map(view, &map);
  return ir_keeps_lanes(view) && (vectors || !before);
}

// Rows that are composed of rows are read in vectors only by loops that begin at their first
// column, such as those that compute operands of dots.
static bool keeps_pieces(const Mover *m, const Instr *view) {
  return ir_keeps_pieces(view) && view->id < m->count && serves_dots(m, view);
}

// A view of an operation that may move becomes that operation on views.
static void push_view(Mover *m, Instr *view) {
  Instr *v = view->args[0];
  bool whole = v->op == OP_CONCAT && view->op == OP_SLICE;
  if (!(keeps_vectors(view) || keeps_pieces(m, view)) || !(may_move(m, v) || whole)) return;
  Instr *better = view_of(m, view, v);
  if (better->op == view->op && better->args[0] == v) return;
  m->pushed++;
  ir_become_unary(view, OP_BROADCAST, better);
}

// ---- a store of a concatenation becomes one store for each part

// The concatenation from which elementwise operations compute the value, or NULL.
static const Instr *concat_in(const Mover *m, const Instr *v) {
  if (v->op == OP_CONCAT) return v;
  if (!may_move(m, v)) return NULL;
  for (int i = 0; i < v->nargs; i++) {
    const Instr *found = concat_in(m, v->args[i]);
    if (found) return found;
  }
  return NULL;
}

// Parts of rows must be long enough for a loop of their own.
static bool may_split(const Instr *store, const Instr *concat) {
  enum { SHORT = 8 };
  int axis = (int)concat->ival, k = window_axis(store, axis);
  if (ir_mask(store) || (store->flags & INSTR_OPEN) || !ir_axis_is_inside(store, k)) return false;
  for (int i = 0; i < concat->nargs; i++) {
    Dim extent = concat->args[i]->type.dim[axis];
    bool is_short = axis == concat->type.rank - 1 && extent < SHORT;
    if (!dim_is_const(extent) || extent == 0 || is_short) return false;
  }
  return never_overhangs(store->ref, k);
}

// ---- interleaved elements: lanes with a stride in memory

// The number of parts if a reshape splits the last axis in [n, parts], where parts is constant; 0:
// it has another form.
static int64_t split_of(const Type *flat, const Type *split) {
  int last = flat->rank - 1;
  if (last < 0 || split->rank != last + 2 || !dim_is_const(flat->dim[last])) return 0;
  for (int i = 0; i < last; i++)
    if (flat->dim[i] != split->dim[i]) return 0;
  return split->dim[last + 1];
}

// Do vectors with strided lanes pay here?
static bool may_step(const Instr *access, int64_t count, int64_t step) {
  enum { SHORT = 8, FAR = 1 << 16 };
  const Ref *ref = access->ref;
  int last = ref->type.rank - 1;
  return last >= 0 && ir_has_lanes_apart(ref->type.dtype) && !access->window.squeeze[last] &&
         !(access->flags & (INSTR_OPEN | INSTR_MASKED)) && count >= SHORT && step > 1 &&
         step * access->window.stride[last] <= FAR && ir_axis_is_inside(access, last);
}

// Element i along the last axis of the window becomes element first + i step, `count` of them.
static Instr *stepped(Mover *m, const Instr *access, int64_t first, int64_t count, int64_t step) {
  int last = access->ref->type.rank - 1;
  Instr *v = ir_copy(m->k, access);
  v->args[last] = part_start(m->k, m->region, access, last, first);
  v->window.size[last] = count;
  v->window.stride[last] *= step;
  return v;
}

// The load whose value is cast to `value`, and the casts, from the last one on.
typedef struct {
  const Instr *load, *value, *casts[2];
  int count;
} Taking;

// `count` elements along the last axis, with the given casts.
static Instr *cast_again(Mover *m, const Taking *t, Instr *v) {
  for (int i = 0; i < t->count; i++) {
    Type type = v->type;
    type.dtype = t->casts[i]->type.dtype;
    Instr *cast = ir_copy(m->k, t->casts[i]);
    cast->type = type;
    cast->args[0] = v;
    v = ir_append(m->k, m->region, cast);
  }
  return v;
}

static void take_lanes(Mover *m, const Taking *t, const Instr *slice, int64_t first, int64_t count,
                       int64_t step) {
  if (!may_step(t->load, count, step)) return;
  Instr *v = stepped(m, t->load, first, count, step);
  v->type.dim[v->type.rank - 1] = count;
  m->known[slice->id].taken = cast_again(m, t, ir_append(m->k, m->region, v));
}

// Replaces a slice [.., n, 1] of [.., n, parts] by a strided load of the last axis.
static void take_strided(Mover *m, const Taking *t, const Instr *reshape, const Instr *slice) {
  int64_t parts = split_of(&t->value->type, &reshape->type);
  int last = reshape->type.rank - 1;
  if (parts < 2 || slice->op != OP_SLICE || slice->type.dim[last] != 1) return;
  for (int i = 0; i < last; i++)
    if (ir_operand_axis(slice, i) != i) return;
  take_lanes(m, t, slice, slice->ints[last], slice->type.dim[last - 1], parts);
}

// Slices of the load's value with a stride along lanes become separate loads.
static void take_apart(Mover *m, const Taking *t) {
  const Known *known = &m->known[t->value->id];
  int last = t->value->type.rank - 1;
  for (int i = 0; i < known->users.count; i++) {
    const Instr *user = known->users.at[i];
    if (m->uses.home[user->id] != m->region) continue;
    bool only_last = user->op == OP_SLICE && user->ints2[last] > 1;
    for (int a = 0; only_last && a < last; a++) only_last = ir_operand_axis(user, a) == a;
    if (only_last && dim_is_const(user->type.dim[last]))
      take_lanes(m, t, user, user->ints[last], user->type.dim[last], user->ints2[last]);
    if (user->op == OP_CAST && t->count < 2) {
      Taking cast = *t;
      cast.value = cast.casts[cast.count++] = user;
      take_apart(m, &cast);
    }
    if (user->op != OP_RESHAPE) continue;
    const Known *split = &m->known[user->id];
    for (int k = 0; k < split->users.count; k++) take_strided(m, t, user, split->users.at[k]);
  }
}

static void take_load_apart(Mover *m, const Instr *load) {
  if (load->id < m->count && load->type.rank > 0 && load->nargs == load->ref->type.rank)
    take_apart(m, &(Taking){.load = load, .value = load});
}

static bool become_taken(Mover *m, Instr *slice) {
  Instr *v = slice->id < m->count ? m->known[slice->id].taken : NULL;
  if (!v) return false;
  if (!type_same_shape(&v->type, &slice->type))
    v = ir_add(m->k, m->region, OP_RESHAPE, slice->type, slice->span, 1, v);
  ir_become_unary(slice, OP_BROADCAST, v);
  m->pushed++;
  return true;
}

// A store of interleaved parts, [.., n, 1] each, becomes one store for each part.
static bool deal_store(Mover *m, const Instr *store) {
  Taking casts = {.value = ir_store_value(store)};
  for (; casts.value->op == OP_CAST && casts.count < 2 && casts.value->type.rank > 0;
       casts.value = casts.value->args[0]) {
    casts.casts[1] = casts.casts[0];
    casts.casts[0] = casts.value;
    casts.count++;
  }
  const Instr *value = casts.value, *concat = value->op == OP_RESHAPE ? value->args[0] : NULL;
  if (!concat || concat->op != OP_CONCAT || concat->ival != concat->type.rank - 1 ||
      value->type.rank == 0)
    return false;
  int last = value->type.rank - 1, k = store->ref->type.rank - 1;
  int64_t step = split_of(&value->type, &concat->type), count = concat->type.dim[last];
  if (step < 2 || step != concat->nargs || ir_mask(store) || !may_step(store, count, step) ||
      !never_overhangs(store->ref, k))
    return false;
  Type part = value->type;
  part.dim[last] = count;
  Instr **parts = NEW_ARRAY(m->k->arena, Instr *, concat->nargs);
  for (int i = 0; i < concat->nargs; i++) {
    Instr *v = concat->args[i];
    bool flat = v->op == OP_RESHAPE && type_same_shape(&v->args[0]->type, &part);
    v = flat ? v->args[0] : ir_add(m->k, m->region, OP_RESHAPE, part, v->span, 1, v);
    parts[i] = cast_again(m, &casts, v);
  }
  for (int i = 0; i < concat->nargs; i++) {
    Instr *one = stepped(m, store, i, count, step);
    one->args[store->ref->type.rank] = parts[i];
    ir_append(m->k, m->region, one);
  }
  m->split++;
  return true;
}

// Replaces a store of a concatenation by a store of each part.
static bool split_store(Mover *m, const Instr *store) {
  Instr *value = ir_store_value(store);
  const Instr *concat = value->type.rank ? concat_in(m, value) : NULL;
  if (!concat || !may_split(store, concat)) return false;
  int axis = (int)concat->ival, k = window_axis(store, axis);
  Instr slice = {.op = OP_SLICE, .type = value->type, .span = value->span};
  Instr **parts = NEW_ARRAY(m->k->arena, Instr *, concat->nargs);
  for (int i = 0; i < value->type.rank; i++) slice.ints2[i] = 1;
  for (int i = 0; i < concat->nargs; i++) {
    slice.type.dim[axis] = concat->args[i]->type.dim[axis];
    slice.nargs = 1;
    slice.args = &value;
    parts[i] = view_of(m, &slice, value);
    slice.ints[axis] += slice.type.dim[axis];
  }
  int64_t at = 0;
  for (int i = 0; i < concat->nargs; i++) {
    Instr *part = ir_copy(m->k, store);
    part->args[k] = part_start(m->k, m->region, store, k, at);
    part->args[store->ref->type.rank] = parts[i];
    part->window.size[k] = parts[i]->type.dim[axis];
    ir_append(m->k, m->region, part);
    at += parts[i]->type.dim[axis];
  }
  m->split++;
  return true;
}

// ---- parts that differ only in a constant become one value, in which the constant is a function
// of the index

// Nothing writes the block of an input.
static bool is_same_load(const Instr *a, const Instr *b) {
  if (a->op != OP_LOAD || b->op != OP_LOAD || a->ref != b->ref || a->ref->role != REF_INPUT ||
      a->flags != b->flags || a->nargs != a->ref->type.rank || b->nargs != a->nargs ||
      memcmp(&a->window, &b->window, sizeof a->window) != 0)
    return false;
  for (int i = 0; i < a->nargs; i++) {
    const Instr *x = a->args[i], *y = b->args[i];
    if (x != y && (x->op != OP_CONST || !ir_is_const(y, x->ival))) return false;
  }
  return true;
}

static bool is_same(const Instr *a, const Instr *b) {
  return a == b || is_same_load(a, b) ||
         (a->op == OP_RESHAPE && b->op == OP_RESHAPE && is_same(a->args[0], b->args[0]) &&
          type_same_shape(&a->type, &b->type));
}

static const Instr *number_in(const Instr *v) {
  return v->op == OP_BROADCAST && v->args[0]->op == OP_CONST && is_integer(v->type.dtype)
             ? v->args[0]
             : NULL;
}

typedef struct {
  Mover *m;
  int axis, count;
} Roll;

static Type rolled_type(const Roll *r, const Instr *part) {
  Type t = part->type;
  t.dim[r->axis] = r->count;
  return t;
}

static Instr *filled(const Roll *r, Type type, int64_t value, Span span) {
  Mover *m = r->m;
  Instr *c = ir_const_int(m->k, m->region, type.dtype, value, span);
  return ir_add(m->k, m->region, OP_BROADCAST, type, span, 1, c);
}

// Are the constants evenly spaced?
static Instr *roll_numbers(const Roll *r, Instr *const *parts) {
  Mover *m = r->m;
  const Instr *first = number_in(parts[0]), *second = number_in(parts[1]);
  if (!first || !second) return NULL;
  int64_t step, last = second->ival;
  if (!sub_i64(last, first->ival, &step)) return NULL;
  for (int i = 2; i < r->count; i++) {
    const Instr *c = number_in(parts[i]);
    if (!c || !add_i64(last, step, &last) || c->ival != last) return NULL;
  }
  Type type = rolled_type(r, parts[0]);
  Span span = parts[0]->span;
  Instr *v = ir_add(m->k, m->region, OP_IOTA, type, span, 0);
  v->ival = r->axis;
  v = ir_add(m->k, m->region, OP_MUL, type, span, 2, v, filled(r, type, step, span));
  return ir_add(m->k, m->region, OP_ADD, type, span, 2, v, filled(r, type, first->ival, span));
}

// Parts may lack an operation that would change nothing: a shift by 0, `and` with ones.
static bool has_neutral(Op op, DType t, int64_t *number) {
  bool is_shift = op == OP_SHR || op == OP_USHR || op == OP_SHL;
  *number = is_shift                              ? 0
            : dtype_info[t].class == CLASS_SIGNED ? -1
                                                  : (INT64_C(1) << dtype_info[t].bits % 64) - 1;
  return is_shift || (op == OP_AND && is_integer(t) && dtype_info[t].bits <= 32);
}

// The part whose operation all parts have, or can be given.
static const Instr *like_of(const Roll *r, Instr *const *parts) {
  int64_t number;
  for (int i = 0; i < r->count; i++)
    if (has_neutral(parts[i]->op, parts[i]->type.dtype, &number)) return parts[i];
  return parts[0];
}

static Instr *roll(const Roll *r, Instr *const *parts);

// Replaces the operations of all parts of a concatenation by one operation on the whole.
static Instr *roll_operation(const Roll *r, Instr *const *parts) {
  Mover *m = r->m;
  const Instr *like = like_of(r, parts);
  int64_t neutral;
  bool may_lack = has_neutral(like->op, like->type.dtype, &neutral);
  for (int i = 0; i < r->count; i++) {
    if (parts[i]->type.dtype != like->type.dtype) return NULL;
    if (parts[i]->op == like->op ? !may_move(m, parts[i]) || parts[i]->flags != like->flags
                                 : !may_lack)
      return NULL;
  }
  Instr *args[4], **column = NEW_ARRAY(m->k->arena, Instr *, r->count);
  for (int a = 0; a < like->nargs; a++) {
    for (int i = 0; i < r->count; i++) {
      Instr *p = parts[i];
      bool bare = p->op != like->op;
      column[i] = !bare ? p->args[a] : a == 0 ? p : filled(r, p->type, neutral, p->span);
    }
    for (int i = 0; i < r->count; i++)
      if (column[i]->type.dtype != column[0]->type.dtype) return NULL;
    args[a] = roll(r, column);
    if (!args[a]) return NULL;
  }
  Instr *v = ir_copy(m->k, like);
  v->type = rolled_type(r, like);
  memcpy(v->args, args, (size_t)v->nargs * sizeof *args);
  return ir_append(m->k, m->region, v);
}

static Instr *roll(const Roll *r, Instr *const *parts) {
  bool same = true;
  for (int i = 1; i < r->count; i++) same = same && is_same(parts[0], parts[i]);
  if (same)
    return ir_add(r->m->k, r->m->region, OP_BROADCAST, rolled_type(r, parts[0]), parts[0]->span, 1,
                  parts[0]);
  Instr *numbers = roll_numbers(r, parts);
  return numbers ? numbers : roll_operation(r, parts);
}

// A part with an axis of one element before its last.
static Instr *as_block(Mover *m, Instr *part) {
  Instr view = {.op = OP_RESHAPE, .type = part->type, .span = part->span, .nargs = 1};
  int last = part->type.rank - 1;
  view.args = &part;
  view.type.rank++;
  view.type.dim[last + 1] = part->type.dim[last];
  view.type.dim[last] = 1;
  return view_of(m, &view, part);
}

// Parts of rows, of equal length, that a dot reads: a value with an axis for the parts, which a
// reshape joins to rows.
static void roll_rows(Mover *m, Instr *concat) {
  int last = concat->type.rank - 1;
  if (concat->id >= m->count || concat->type.rank == MAX_RANK || !serves_dots(m, concat)) return;
  Instr **parts = NEW_ARRAY(m->k->arena, Instr *, concat->nargs);
  for (int i = 0; i < concat->nargs; i++) {
    const Type *t = &concat->args[i]->type;
    if (t->dim[last] != concat->args[0]->type.dim[last] || !dim_is_const(t->dim[last]) ||
        !may_move(m, concat->args[i]))
      return;
  }
  for (int i = 0; i < concat->nargs; i++) parts[i] = as_block(m, concat->args[i]);
  Roll r = {m, last, concat->nargs};
  Instr *v = roll(&r, parts);
  if (!v) return;
  Instr view = {.op = OP_RESHAPE, .type = concat->type, .span = concat->span, .nargs = 1};
  view.args = &v;
  if (!ir_keeps_pieces(&view)) return;
  m->rolled++;
  ir_become_unary(concat, OP_BROADCAST, view_of(m, &view, v));
}

static void roll_concat(Mover *m, Instr *concat) {
  if (concat->nargs >= 2 && concat->ival == concat->type.rank - 1) {
    roll_rows(m, concat);
    return;
  }
  Roll r = {m, (int)concat->ival, concat->nargs};
  for (int i = 0; i < concat->nargs; i++)
    if (concat->args[i]->type.dim[r.axis] != 1 || !may_move(m, concat->args[i])) return;
  if (concat->nargs < 2 || r.axis == concat->type.rank - 1) return;
  Instr *v = roll(&r, concat->args);
  if (!v) return;
  m->rolled++;
  ir_become_unary(concat, OP_BROADCAST, v);
}

// ---- a dot over axes of one element is a product of its operands, moved to the indices of its
// result

static int axis_of(const int8_t *labels, int rank, int8_t label) {
  for (int i = 0; i < rank; i++)
    if (labels[i] == label) return i;
  return -1;
}

// Do all contracted axes have one element, and is each label on one axis?
static bool adds_nothing(const Instr *dot, const Instr *operand, const int8_t *labels) {
  const Type *t = &operand->type;
  for (int i = 0; i < t->rank; i++) {
    bool kept = axis_of(dot->labels.out, dot->type.rank, labels[i]) >= 0;
    if (axis_of(labels, t->rank, labels[i]) != i || (!kept && t->dim[i] != 1)) return false;
  }
  return true;
}

// An operand with the axes of the result.
static Instr *spread(Mover *m, const Instr *dot, Instr *v, const int8_t *labels) {
  Type transposed = {.dtype = v->type.dtype, .rank = v->type.rank}, flat = dot->type,
       all = dot->type;
  int64_t order[MAX_RANK];
  int kept = 0;
  bool ordered = true;
  for (int i = 0; i < flat.rank; i++) {
    int axis = axis_of(labels, v->type.rank, dot->labels.out[i]);
    flat.dim[i] = axis < 0 ? 1 : v->type.dim[axis];
    if (axis < 0) continue;
    ordered = ordered && (kept == 0 || order[kept - 1] < axis);
    order[kept++] = axis;
  }
  for (int i = 0; i < v->type.rank; i++)
    if (axis_of(dot->labels.out, dot->type.rank, labels[i]) < 0) order[kept++] = i;
  for (int i = 0; i < transposed.rank; i++) transposed.dim[i] = v->type.dim[order[i]];
  flat.dtype = v->type.dtype;
  if (!ordered) {
    v = ir_add(m->k, m->region, OP_TRANSPOSE, transposed, dot->span, 1, v);
    memcpy(v->ints, order, sizeof order);
  }
  if (!type_same_shape(&v->type, &flat))
    v = ir_add(m->k, m->region, OP_RESHAPE, flat, dot->span, 1, v);
  flat.dtype = dot->type.dtype;
  if (v->type.dtype != flat.dtype) v = ir_add(m->k, m->region, OP_CAST, flat, dot->span, 1, v);
  return type_same_shape(&all, &flat) ? v
                                      : ir_add(m->k, m->region, OP_BROADCAST, all, dot->span, 1, v);
}

static void multiply(Mover *m, Instr *dot) {
  const DType t = dot->type.dtype;
  Instr *a = dot->args[0], *b = dot->args[1];
  bool sums = t == dtype_accum(a->type.dtype) && t == dtype_accum(b->type.dtype);
  if (dot_shape(dot).matrices || dot->type.rank == 0 || !sums) return;
  if (!adds_nothing(dot, a, dot->labels.a) || !adds_nothing(dot, b, dot->labels.b)) return;
  Instr **args = NEW_ARRAY(m->k->arena, Instr *, 3);
  args[0] = spread(m, dot, a, dot->labels.a);
  args[1] = spread(m, dot, b, dot->labels.b);
  if (is_float(t)) {  // sums begin with +0, so a product of -0 must become +0
    Instr *zero = ir_const_float(m->k, m->region, t, 0, dot->span);
    args[2] = ir_add(m->k, m->region, OP_BROADCAST, dot->type, dot->span, 1, zero);
  }
  const Instr product = {.op = is_float(t) ? OP_FMA : OP_MUL,
                         .type = dot->type,
                         .nargs = is_float(t) ? 3 : 2,
                         .args = args};
  ir_become(dot, &product);
  m->multiplied++;
}

// The value that replaces a view.
static Instr *latest(Instr *v) {
  while (v->op == OP_BROADCAST && v->type.dtype == v->args[0]->type.dtype &&
         type_same_shape(&v->type, &v->args[0]->type))
    v = v->args[0];
  return v;
}

static bool move(Rewriter *w, Instr *v) {
  Mover *m = w->context;
  for (int a = 0; a < v->nargs; a++) v->args[a] = latest(v->args[a]);
  ir_rewrite_inside(w, v);
  m->region = w->out;
  if (v->op == OP_LOAD) {
    take_load_apart(m, ir_append(m->k, m->region, v));
    return false;
  }
  if (ir_is_view(v->op) && !become_taken(m, v)) push_view(m, v);
  if (v->op == OP_DOT) multiply(m, v);
  if (v->op == OP_CONCAT) roll_concat(m, v);
  return v->op != OP_STORE || !(deal_store(m, v) || split_store(m, v));
}

void move_moves(Kernel *k, Buf *notes) {
  Mover m = {.k = k, .count = k->next_id};
  m.known = NEW_ARRAY(k->arena, Known, k->next_id + 1);
  m.uses = ir_uses(k, k->body);
  ir_walk(k->body, note_instr, &m);
  ir_walk(k->body, note_cut_up, &m);
  ir_rewrite(&(Rewriter){.k = k, .rule = move, .context = &m}, k->body);
  if (m.multiplied > 0 && notes)
    buf_printf(notes, "moves: %d dots over axes of 1 became products\n", m.multiplied);
  if (m.pushed + m.split + m.rolled > 0 && notes)
    buf_printf(notes,
               "moves: %d views applied to operands, %d stores split, %d lists of parts joined\n",
               m.pushed, m.split, m.rolled);
}
