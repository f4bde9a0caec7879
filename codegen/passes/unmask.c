// Rewrites masked windows to what the generator has loops for: loads without a mask and a
// selection, and stores whose mask is false outside the ref.
#include "codegen/passes/pass.h"

typedef struct {
  Kernel *k;
  Region *out;
  const Instr *access;
} Rewriter;

static Type scalar_index(void) { return type_scalar(DT_I64); }

static Instr *number(Rewriter *w, int64_t value) {
  return ir_const_int(w->k, w->out, DT_I64, value, w->access->span);
}

static Instr *extent_of(Rewriter *w, Dim dim) {
  if (dim_is_const(dim)) return number(w, dim);
  Instr *size = ir_add(w->k, w->out, OP_SIZE, scalar_index(), w->access->span, 0);
  size->ival = dim_size_index(dim);
  return size;
}

static Instr *binary(Rewriter *w, Op op, Type type, Instr *a, Instr *b) {
  return ir_add(w->k, w->out, op, type, w->access->span, 2, a, b);
}

static Instr *index_op(Rewriter *w, Op op, Instr *a, Instr *b) {
  return binary(w, op, scalar_index(), a, b);
}

static Instr *spread(Rewriter *w, Instr *scalar, Type type) {
  type.dtype = scalar->type.dtype;
  return type.rank ? ir_add(w->k, w->out, OP_BROADCAST, type, w->access->span, 1, scalar) : scalar;
}

static Instr *both(Rewriter *w, Instr *a, Instr *b) {
  return a ? binary(w, OP_AND, a->type, a, b) : b;
}

// ---- starts: none is further from the ref than its window is long. A window that touches nothing
// stays one.

static Instr *near_start(Rewriter *w, int axis) {
  Instr *start = w->access->args[axis];
  Dim dim = w->access->ref->type.dim[axis], size = w->access->window.size[axis];
  int64_t stride = w->access->window.stride[axis];
  if (start->op == OP_CONST && dim_is_const(dim) && dim_is_const(size)) {
    int64_t least = -size * stride, at = start->ival > dim ? dim : start->ival;
    return number(w, at < least ? least : at);
  }
  Instr *length = index_op(w, OP_MUL, extent_of(w, size), number(w, -stride));
  return index_op(w, OP_MAX, index_op(w, OP_MIN, start, extent_of(w, dim)), length);
}

// ---- lanes: which of them lie inside

static bool is_known(const Instr *start, Dim dim) {
  return start->op == OP_CONST && dim_is_const(dim);
}

// The number of strides from the start up to `end`, rounded up. Negative ones may come out as any
// up to 0.
static Instr *lanes_to(Rewriter *w, int64_t stride, Instr *start, Instr *end) {
  Instr *distance = index_op(w, OP_SUB, end, start);
  if (stride == 1) return distance;
  return index_op(w, OP_DIV, index_op(w, OP_ADD, distance, number(w, stride - 1)),
                  number(w, stride));
}

static Instr *index_inside(Rewriter *w, Instr *start, Dim dim, Type type) {
  Type one = type_scalar(DT_BOOL);
  Instr *from = binary(w, OP_GE, one, start, number(w, 0)),
        *to = binary(w, OP_LT, one, start, extent_of(w, dim));
  return spread(w, both(w, from, to), type);
}

static Instr *slice_inside(Rewriter *w, Instr *start, int axis, int lane_axis, Type type) {
  Dim dim = w->access->ref->type.dim[axis];
  int64_t stride = w->access->window.stride[axis];
  Type wide = type, lanes = type;
  wide.dtype = DT_I64;
  lanes.dtype = DT_I32;
  Instr *iota = ir_add(w->k, w->out, OP_IOTA, lanes, w->access->span, 0), *inside = NULL;
  iota->ival = lane_axis;
  Instr *lane = ir_add(w->k, w->out, OP_CAST, wide, w->access->span, 1, iota);
  if (!is_known(start, dim) || start->ival < 0)
    inside =
        binary(w, OP_GE, type, lane, spread(w, lanes_to(w, stride, start, number(w, 0)), type));
  return both(
      w, inside,
      binary(w, OP_LT, type, lane, spread(w, lanes_to(w, stride, start, extent_of(w, dim)), type)));
}

// Gives the window near starts. Returns which of its lanes lie inside the ref, NULL: all of them.
static Instr *lanes_inside(Rewriter *w, Instr *v, Type type) {
  Instr *inside = NULL;
  type.dtype = DT_BOOL;
  for (int i = 0, lane_axis = 0; i < v->ref->type.rank; i++) {
    if (!ir_axis_is_inside(v, i)) {
      v->args[i] = near_start(w, i);
      Instr *axis = v->window.squeeze[i] ? index_inside(w, v->args[i], v->ref->type.dim[i], type)
                                         : slice_inside(w, v->args[i], i, lane_axis, type);
      inside = both(w, inside, axis);
    }
    lane_axis += !v->window.squeeze[i];
  }
  return inside;
}

static bool is_true(const Instr *mask) {
  while (mask->op == OP_BROADCAST) mask = mask->args[0];
  return ir_is_const(mask, 1);
}

// A mask that may be unspecified outside is not read there.
static Instr *mask_inside(Rewriter *w, Instr *mask, Instr *inside) {
  if (!inside || is_true(mask)) return inside ? inside : mask;
  Instr *none = spread(w, ir_const_int(w->k, w->out, DT_BOOL, 0, w->access->span), mask->type);
  return ir_add(w->k, w->out, OP_SELECT, mask->type, w->access->span, 3, inside, mask, none);
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
  Instr *load = ir_new(w->k, OP_LOAD, v->type, v->span, rank, v->args);
  load->ref = v->ref;
  load->window = v->window;
  load->flags = INSTR_OPEN;
  ir_append(w->k, w->out, load);
  Instr *choice[3] = {mask, load, other};
  v->op = OP_SELECT;
  v->ref = NULL;
  v->flags = 0;
  v->nargs = 3;
  v->args = NEW_ARRAY(w->k->arena, Instr *, 3);
  for (int i = 0; i < 3; i++) v->args[i] = choice[i];
}

static void unmask_store(Rewriter *w, Instr *v) {
  int rank = v->ref->type.rank;
  v->args[rank + 1] = mask_inside(w, v->args[rank + 1], lanes_inside(w, v, v->args[rank]->type));
}

static void unmask_region(Kernel *k, Region *region) {
  Region out = {.arg = region->arg};
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    Rewriter w = {k, &out, v};
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) unmask_region(k, v->regions[r]);
    if (v->op == OP_LOAD && v->flags & (INSTR_MASKED | INSTR_OPEN)) unmask_load(&w, v);
    if (v->op == OP_STORE && v->flags & INSTR_MASKED) unmask_store(&w, v);
    ir_append(k, &out, v);
  }
  *region = out;
}

// Requires: nothing. Keeps: the meaning. Afterwards: there are no masked loads, only open ones
// whose starts are at most a window's length from the ref; masks of stores are false outside the
// ref, with such starts.
void unmask(Kernel *k, Buf *notes) {
  (void)notes;
  unmask_region(k, k->body);
}
