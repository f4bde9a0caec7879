// Rewrites masked windows into forms for which the generator has loops: loads without a mask
// followed by a selection, and stores whose mask is false outside the ref.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

static const Type boolean = {.dtype = DT_BOOL};

static Instr *index_op(Rewriter *w, Op op, Instr *a, Instr *b) {
  return ir_put(w, op, type_scalar(DT_I64), 2, a, b);
}

static Instr *extent(Rewriter *w, Dim dim) { return ir_extent(w->k, w->out, dim, w->span); }

static Instr *both(Rewriter *w, Instr *a, Instr *b) {
  return a ? ir_put(w, OP_AND, a->type, 2, a, b) : b;
}

// ---- starts are limited to one window length outside of the ref; a window that is outside of it
// stays outside

static Instr *near_start(Rewriter *w, const Instr *access, int axis) {
  Instr *start = access->args[axis];
  Dim dim = access->ref->type.dim[axis], size = access->window.size[axis];
  int64_t stride = access->window.stride[axis];
  if (start->op == OP_CONST && dim_is_const(dim) && dim_is_const(size)) {
    int64_t least = -size * stride, at = start->ival > dim ? dim : start->ival;
    return ir_put_number(w, at < least ? least : at);
  }
  Instr *back = ir_put_number(w, -stride), *length = index_op(w, OP_MUL, extent(w, size), back);
  return index_op(w, OP_MAX, index_op(w, OP_MIN, start, extent(w, dim)), length);
}

// ---- lanes inside the ref

static bool is_known(const Instr *start, Dim dim) {
  return start->op == OP_CONST && dim_is_const(dim);
}

// The number of strides from the start to `end`, rounded up; instead of a negative number, the
// result may be any number up to 0.
static Instr *lanes_to(Rewriter *w, int64_t stride, Instr *start, Instr *end) {
  Instr *distance = index_op(w, OP_SUB, end, start);
  if (stride == 1) return distance;
  Instr *divisor = ir_put_number(w, stride);
  return index_op(w, OP_DIV, index_op(w, OP_ADD, distance, ir_put_number(w, stride - 1)), divisor);
}

static Instr *index_inside(Rewriter *w, Instr *start, Dim dim, Type type) {
  Instr *from = ir_put(w, OP_GE, boolean, 2, start, ir_put_number(w, 0)),
        *to = ir_put(w, OP_LT, boolean, 2, start, extent(w, dim));
  return ir_put_spread(w, both(w, from, to), type);
}

// Compares the lanes with `end`.
static Instr *compare_lanes(Rewriter *w, Op op, Type type, Instr *lane, Instr *end) {
  return ir_put(w, op, type, 2, lane, ir_put_spread(w, end, type));
}

static Instr *slice_inside(Rewriter *w, const Instr *access, int axis, int lane_axis, Type type) {
  Instr *start = access->args[axis];
  Dim dim = access->ref->type.dim[axis];
  int64_t stride = access->window.stride[axis];
  Instr *iota = ir_put(w, OP_IOTA, type_as(type, DT_I32), 0), *inside = NULL;
  iota->ival = lane_axis;
  Instr *lane = ir_put_cast(w, iota, DT_I64);
  if (!is_known(start, dim) || start->ival < 0)
    inside = compare_lanes(w, OP_GE, type, lane, lanes_to(w, stride, start, ir_put_number(w, 0)));
  Instr *end = lanes_to(w, stride, start, extent(w, dim));
  return both(w, inside, compare_lanes(w, OP_LT, type, lane, end));
}

// Clamps the starts of the window to near the ref. Returns the lanes that are within the ref; NULL:
// all.
static Instr *lanes_inside(Rewriter *w, Instr *v, Type shape) {
  const Type type = type_as(shape, DT_BOOL);
  Instr *inside = NULL;
  for (int i = 0, lane_axis = 0; i < v->ref->type.rank; i++) {
    if (!ir_axis_is_inside(v, i)) {
      v->args[i] = near_start(w, v, i);
      Instr *axis = v->window.squeeze[i] ? index_inside(w, v->args[i], v->ref->type.dim[i], type)
                                         : slice_inside(w, v, i, lane_axis, type);
      inside = both(w, inside, axis);
    }
    lane_axis += !v->window.squeeze[i];
  }
  return inside;
}

static bool is_true(const Instr *mask) {
  const Instr *c = ir_filling(mask);
  return c && ir_is_const(c, 1);
}

// The mask is not read outside, where it may be unspecified.
static Instr *mask_inside(Rewriter *w, Instr *mask, Instr *inside) {
  if (!inside || is_true(mask)) return inside ? inside : mask;
  Instr *none = ir_put_spread(w, ir_const_int(w->k, w->out, DT_BOOL, 0, w->span), mask->type);
  return ir_put(w, OP_SELECT, mask->type, 3, inside, mask, none);
}

static void unmask_load(Rewriter *w, Instr *v) {
  int rank = v->ref->type.rank;
  Instr *inside = lanes_inside(w, v, v->type);
  if (!(v->flags & INSTR_OTHER)) {
    v->flags = INSTR_OPEN;
    v->nargs = rank;
    return;
  }
  Instr *mask = mask_inside(w, ir_mask(v), inside), *other = v->args[rank + 1];
  Instr *load = ir_append(w->k, w->out, ir_copy(w->k, v));
  load->flags = INSTR_OPEN;
  load->nargs = rank;
  load->text = NULL;
  Instr **choice = NEW_ARRAY(w->k->arena, Instr *, 3);
  choice[0] = mask, choice[1] = load, choice[2] = other;
  ir_become(v, &(Instr){.op = OP_SELECT, .type = v->type, .nargs = 3, .args = choice});
}

static void unmask_store(Rewriter *w, Instr *v) {
  int rank = v->ref->type.rank;
  v->args[rank + 1] = mask_inside(w, v->args[rank + 1], lanes_inside(w, v, v->args[rank]->type));
}

// A window of a value as a gather with ascending indices.
static void open_window(Rewriter *w, Instr *v) {
  Dim dim = v->args[0]->type.dim[v->ival], size = v->type.dim[v->ival];
  Type places = {.dtype = DT_I64, .rank = 1, .dim = {size}};
  Instr *start = v->args[1];
  if (size != 1 && !ir_is_const(start, 0)) {  // a single index is clamped by `take`
    Instr *length = extent(w, size), *last = index_op(w, OP_SUB, extent(w, dim), length);
    Instr *zero = ir_put_number(w, 0);
    start = index_op(w, OP_MAX, index_op(w, OP_MIN, start, last), zero);
  }
  Instr *index = ir_put_spread(w, start, places);
  if (size != 1) index = ir_put(w, OP_ADD, places, 2, index, ir_put(w, OP_IOTA, places, 0));
  v->op = OP_TAKE;
  v->args[1] = index;
}

static bool unmask_instr(Rewriter *w, Instr *v) {
  ir_rewrite_inside(w, v);
  if (v->op == OP_LOAD && v->flags & (INSTR_MASKED | INSTR_OPEN)) unmask_load(w, v);
  if (v->op == OP_STORE && v->flags & INSTR_MASKED) unmask_store(w, v);
  if (v->op == OP_WINDOW) open_window(w, v);
  return true;
}

// Requires: nothing. Preserves: the meaning. Afterwards: there are no masked loads, only open ones
// whose starts are at most one window length outside the ref; stores have such starts too, and
// their masks are false outside the ref; windows of values are gathers by indices.
void unmask(Kernel *k, Buf *notes) {
  (void)notes;
  ir_rewrite(&(Rewriter){.k = k, .rule = unmask_instr}, k->body);
}
