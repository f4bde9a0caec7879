// Gradients and tangents of selections, casts and moves of elements.
#include "codegen/grad/internal.h"
#include "codegen/ir/axes.h"

// Applies one operation to a value and to its mask.
typedef Instr *Move(Grad *g, Instr *x, const Instr *v);
static Adjoint moved(Grad *g, Adjoint d, Move *move, const Instr *v) {
  return (Adjoint){move(g, d.value, v), d.mask ? move(g, d.mask, v) : NULL, d.zero};
}

// A part of an axis returns to its position; other elements have no gradient.
static Adjoint moved_within(Grad *g, Adjoint d, Move *move, const Instr *v) {
  d = selected(g, d);
  return (Adjoint){move(g, d.value, v), move(g, mask_of(g, d), v), true};
}

void give_select(Grad *g, Instr *v, Adjoint d) {
  Instr *c = value_of(g, v->args[0]);
  if (wants(g, v->args[1])) give(g, v->args[1], masked(g, d, c));
  if (wants(g, v->args[2])) give(g, v->args[2], masked(g, d, put_like(g, OP_NOT, c)));
}

static Instr *or_zero(Grad *g, Instr *v) {
  Adjoint t = tangent_of(g, v);
  return t.value ? settled(g, t) : put_number(g, 0, working(v->type));
}

static Instr *mask_or_none(Grad *g, Instr *v) {
  Adjoint t = tangent_of(g, v);
  return t.value ? mask_of(g, t) : put_truth(g, false, v->type);
}

// Does every element have a tangent?
static bool is_full(const Grad *g, Instr *v) {
  Adjoint t = tangent_of((Grad *)g, v);
  return t.value && !t.mask;
}

Adjoint tangent_select(Grad *g, Instr *v) {
  Instr *c = value_of(g, v->args[0]);
  const Adjoint a = tangent_of(g, v->args[1]), b = tangent_of(g, v->args[2]);
  if (!b.value) return masked(g, a, c);
  if (!a.value) return masked(g, b, put_like(g, OP_NOT, c));
  Adjoint t = plain(put_choice(g, c, settled(g, a), settled(g, b)));
  if (a.mask || b.mask) t.mask = put_choice(g, c, mask_of(g, a), mask_of(g, b));
  t.zero = true;
  return t;
}

void give_cast(Grad *g, Instr *v, Adjoint d) { give(g, v->args[0], d); }

Adjoint tangent_cast(Grad *g, Instr *v) {
  Adjoint t = tangent_of(g, v->args[0]);
  if (t.value) t.value = put_cast(g, t.value, dtype_accum(v->type.dtype));
  return t;
}

// The mask of a moved tangent: sums and scans have one where any of their elements has one.
static Instr *moved_mask(Grad *g, Instr *v) {
  Instr *copy = ir_copy(g->k, v);
  if (v->op == OP_CUMSUM)
    return any_along(g, mask_or_none(g, v->args[0]), (int)v->ival, v->flags & INSTR_REVERSE);
  if (v->op == OP_REDUCE_SUM) copy->op = OP_REDUCE_OR;
  copy->text = NULL;
  copy->type = type_as(v->type, DT_BOOL);
  for (int i = 0; i < v->nargs; i++)
    copy->args[i] =
        is_float(v->args[i]->type.dtype) ? mask_or_none(g, v->args[i]) : value_of(g, v->args[i]);
  return ir_append(g->k, g->out, copy);
}

// An operation that moves elements moves tangents.
Adjoint tangent_moved(Grad *g, Instr *v) {
  bool full = true;
  Instr *copy = ir_copy(g->k, v);
  copy->text = NULL;
  copy->type = working(v->type);
  for (int i = 0; i < v->nargs; i++)
    copy->args[i] =
        is_float(v->args[i]->type.dtype) ? or_zero(g, v->args[i]) : value_of(g, v->args[i]);
  for (int i = 0; i < v->nargs; i++)
    full = full && (!is_float(v->args[i]->type.dtype) || is_full(g, v->args[i]));
  ir_append(g->k, g->out, copy);
  return (Adjoint){copy, full ? NULL : moved_mask(g, v), true};
}

// ---- broadcast and reshape

static int64_t stretched(const Type *from, const Type *to) {
  int64_t axes = 0;
  for (int i = 0; i < to->rank; i++) {
    int at = i - (to->rank - from->rank);
    bool one = at < 0 || from->dim[at] == 1;
    if (one && to->dim[i] != 1) axes |= (int64_t)1 << i;
  }
  return axes;
}

void give_broadcast(Grad *g, Instr *v, Adjoint d) {
  const Type *from = &v->args[0]->type;
  int64_t axes = stretched(from, &v->type);
  Instr *same = take_same(g, &d, axes);
  Adjoint sum = {put_reduce(g, OP_REDUCE_SUM, settled(g, d), axes), NULL, !same};
  sum.value = put_reshape(g, sum.value, *from);
  if (d.mask) sum.mask = put_reshape(g, any_of(g, d.mask, axes), *from);
  if (same) same = put_reshape(g, any_of(g, same, axes), *from);
  give(g, v->args[0], masked(g, sum, same));
}

static Instr *back_reshape(Grad *g, Instr *x, const Instr *v) {
  return put_reshape(g, x, v->args[0]->type);
}

void give_reshape(Grad *g, Instr *v, Adjoint d) {
  give(g, v->args[0], moved(g, d, back_reshape, v));
}

// A product with its axes in another order.
static Instr *product_as(Grad *g, const Instr *product, const Instr *v) {
  Instr *copy = ir_copy(g->k, product);
  for (int i = 0; i < v->type.rank; i++) copy->labels.out[v->ints[i]] = product->labels.out[i];
  copy->text = NULL;
  copy->type = type_as(v->args[0]->type, product->type.dtype);
  return ir_append(g->k, g->out, copy);
}

static Instr *back_transpose(Grad *g, Instr *x, const Instr *v) {
  if (x->op == OP_DOT && x->id >= g->count) return product_as(g, x, v);
  Instr *t = put(g, OP_TRANSPOSE, type_as(v->args[0]->type, x->type.dtype), 1, x);
  for (int i = 0; i < v->type.rank; i++) t->ints[v->ints[i]] = i;
  return t;
}

void give_transpose(Grad *g, Instr *v, Adjoint d) {
  give(g, v->args[0], moved(g, d, back_transpose, v));
}

static Instr *back_rev(Grad *g, Instr *x, const Instr *v) {
  Instr *r = put_like(g, OP_REV, x);
  r->ival = v->ival;
  return r;
}

void give_rev(Grad *g, Instr *v, Adjoint d) { give(g, v->args[0], moved(g, d, back_rev, v)); }

static Instr *back_roll(Grad *g, Instr *x, const Instr *v) {
  Instr *shift = value_of(g, v->args[1]);
  shift = shift->op == OP_CONST ? put_index(g, -shift->ival) : put_like(g, OP_NEG, shift);
  Instr *r = put(g, OP_ROLL, x->type, 2, x, shift);
  r->ival = v->ival;
  return r;
}

void give_roll(Grad *g, Instr *v, Adjoint d) { give(g, v->args[0], moved(g, d, back_roll, v)); }

// ---- parts of an axis

Instr *piece(Grad *g, Instr *x, int axis, Instr *from, Dim size) {
  Type type = x->type;
  type.dim[axis] = size;
  if (ir_is_const(from, 0) && size == x->type.dim[axis]) return x;
  bool constant = from->op == OP_CONST && dim_is_const(size);
  Instr *v = constant ? put(g, OP_SLICE, type, 1, x) : put(g, OP_WINDOW, type, 2, x, from);
  if (!constant) v->ival = axis;
  for (int i = 0; constant && i < type.rank; i++)
    v->ints[i] = i == axis ? from->ival : 0, v->ints2[i] = 1;
  return v;
}

Instr *squeezed(Grad *g, Instr *x, const bool *squeeze) {
  Type type = {.dtype = x->type.dtype};
  for (int i = 0; i < x->type.rank; i++)
    if (!squeeze[i]) type.dim[type.rank++] = x->type.dim[i];
  return type.rank == x->type.rank ? x : put_reshape(g, x, type);
}

Instr *window_value(Grad *g, Instr *x, const Instr *access, Instr *const *starts) {
  for (int i = 0; i < x->type.rank; i++) x = piece(g, x, i, starts[i], access->window.size[i]);
  return squeezed(g, x, access->window.squeeze);
}

// x with its elements from `from` on along the axis replaced by `part`.
static Instr *replaced_along(Grad *g, Instr *x, int axis, int64_t from, Instr *part) {
  Instr *parts[3];
  int count = 0;
  const int64_t end = from + part->type.dim[axis];
  const Dim all = x->type.dim[axis], after = dim_plus(g, all, -end);
  if (from > 0) parts[count++] = piece(g, x, axis, put_index(g, 0), from);
  parts[count++] = part;
  if (after != 0) parts[count++] = piece(g, x, axis, put_index(g, end), after);
  Instr *v = ir_new(g->k, OP_CONCAT, x->type, g->span, count, parts);
  v->ival = axis;
  return ir_append(g->k, g->out, v);
}

static Instr *replaced_from(Grad *g, Instr *x, const Instr *store, int axis, Instr *part) {
  if (axis == x->type.rank) return part;
  const Dim size = store->window.size[axis];
  Instr *from = store->args[axis];
  part = replaced_from(g, piece(g, x, axis, from, size), store, axis + 1, part);
  return ir_window_covers(store, axis) ? part : replaced_along(g, x, axis, from->ival, part);
}

Instr *with_window(Grad *g, Instr *x, const Instr *store, Instr *value) {
  Type part = x->type;
  for (int i = 0; i < part.rank; i++) part.dim[i] = store->window.size[i];
  if (value->type.rank != part.rank) value = put_reshape(g, value, part);
  return replaced_from(g, x, store, 0, value);
}

static Instr *zero_like(Grad *g, const Instr *x) {
  DType t = x->type.dtype;
  return is_float(t) ? ir_const_float(g->k, g->out, t, 0, g->span)
                     : ir_const_int(g->k, g->out, t, 0, g->span);
}

Instr *put_pad(Grad *g, Instr *x, int axis, int64_t before, int64_t after, Dim size) {
  Type type = x->type;
  type.dim[axis] = size;
  Instr *v = put(g, OP_PAD, type, 2, x, zero_like(g, x));
  v->ints[axis] = before;
  v->ints2[axis] = after;
  return v;
}

// Element j of x becomes element from + j * stride of an axis of `size`, whose others are 0: each
// takes the element that belongs there, or the 0 that is appended.
static Instr *picked(Grad *g, Instr *x, int axis, Instr *from, int64_t stride, Dim size) {
  Dim count = x->type.dim[axis];
  Instr *longer = put_pad(g, x, axis, 0, 1, dim_plus(g, count, 1));
  const Type line = {.dtype = DT_I64, .rank = 1, .dim = {size}};
  Instr *i = put_pair(g, OP_SUB, put_iota(g, line, DT_I64, 0), put_spread(g, from, line));
  Instr *n = put_spread(g, put_extent(g, count), line), *zero = put_int(g, 0, line);
  Instr *at = i, *there = put_test(g, OP_GE, i, zero);
  if (stride > 1) {
    Instr *step = put_int(g, stride, line);
    at = put_pair(g, OP_DIV, i, step);
    Instr *even = put_test(g, OP_EQ, put_pair(g, OP_REM, i, step), zero);
    there = put_pair(g, OP_AND, there, even);
  }
  there = put_pair(g, OP_AND, there, put_test(g, OP_LT, at, n));
  Type type = x->type;
  type.dim[axis] = size;
  Instr *v = put(g, OP_TAKE, type, 2, longer, put_choice(g, there, at, n));
  v->ival = axis;
  return v;
}

static bool is_whole(const Instr *v, int axis) {
  return v->ints[axis] == 0 && v->ints2[axis] == 1 &&
         v->type.dim[axis] == v->args[0]->type.dim[axis];
}

static Instr *back_slice(Grad *g, Instr *x, const Instr *v) {
  const Type *from = &v->args[0]->type;
  for (int i = 0; i < v->type.rank; i++) {
    Dim all = from->dim[i], part = x->type.dim[i];
    if (is_whole(v, i)) continue;
    bool constant = dim_is_const(all) && dim_is_const(part) && v->ints2[i] == 1;
    x = constant ? put_pad(g, x, i, v->ints[i], all - part - v->ints[i], all)
                 : picked(g, x, i, put_index(g, v->ints[i]), v->ints2[i], all);
  }
  return x;
}

// The value that a chain of slices and windows reads, and where they begin in it, if a var has its
// gradient and each step cuts another axis; else NULL.
static Instr *part_of(Grad *g, Instr *v, Instr **starts) {
  for (int i = 0; i < v->type.rank; i++) starts[i] = NULL;
  do {
    for (int i = 0; i < v->type.rank; i++) {
      if (v->op == OP_SLICE ? is_whole(v, i) : i != v->ival) continue;
      if (starts[i] || (v->op == OP_SLICE && v->ints2[i] != 1)) return NULL;
      starts[i] = v->op == OP_SLICE ? put_index(g, v->ints[i]) : value_of(g, v->args[1]);
    }
    v = v->args[0];
  } while (!g->sum[v->id].value && (v->op == OP_SLICE || v->op == OP_WINDOW));
  for (int i = 0; i < v->type.rank; i++)
    if (!starts[i]) starts[i] = put_index(g, 0);
  return g->sum[v->id].value ? v : NULL;
}

void give_slice(Grad *g, Instr *v, Adjoint d) {
  Instr *starts[MAX_RANK], *x = v->args[0], *of;
  if (!wants(g, x)) return;
  if (!g->sum[x->id].value && (of = part_of(g, v, starts))) {
    give_part(g, of, starts, NULL, d);
    return;
  }
  if (!g->sum[x->id].value) {
    give(g, x, moved_within(g, d, back_slice, v));
    return;
  }
  for (int i = 0; i < v->type.rank; i++) starts[i] = put_index(g, v->ints[i]);
  give_part(g, x, starts, v->ints2, d);
}

static Instr *back_window(Grad *g, Instr *x, const Instr *v) {
  const int axis = (int)v->ival;
  Dim all = v->args[0]->type.dim[axis], part = v->type.dim[axis];
  Instr *start = value_of(g, v->args[1]);
  Instr *most = put_pair(g, OP_SUB, put_extent(g, all), put_extent(g, part));
  Instr *inside = put_pair(g, OP_MAX, put_pair(g, OP_MIN, start, most), put_index(g, 0));
  return picked(g, x, axis, inside, 1, all);
}

void give_window(Grad *g, Instr *v, Adjoint d) {
  Instr *starts[MAX_RANK];
  if (!wants(g, v->args[0])) return;
  Instr *of = part_of(g, v, starts);
  if (of)
    give_part(g, of, starts, NULL, d);
  else
    give(g, v->args[0], moved_within(g, d, back_window, v));
}

static Adjoint part_along(Grad *g, Adjoint d, int axis, Instr *from, Dim size) {
  Instr *value = piece(g, d.value, axis, from, size);
  return (Adjoint){value, d.mask ? piece(g, d.mask, axis, from, size) : NULL, d.zero};
}

void give_concat(Grad *g, Instr *v, Adjoint d) {
  const int axis = (int)v->ival;
  Instr *from = put_index(g, 0);
  for (int i = 0; i < v->nargs; i++) {
    Dim size = v->args[i]->type.dim[axis];
    if (wants(g, v->args[i])) give(g, v->args[i], part_along(g, d, axis, from, size));
    from = from->op == OP_CONST && dim_is_const(size)
               ? put_index(g, from->ival + size)
               : put(g, OP_ADD, from->type, 2, from, put_extent(g, size));
  }
}

static Instr *back_pad(Grad *g, Instr *x, const Instr *v) {
  const Type *from = &v->args[0]->type;
  for (int i = 0; i < v->type.rank; i++)
    if (v->ints[i] || v->ints2[i]) x = piece(g, x, i, put_index(g, v->ints[i]), from->dim[i]);
  return x;
}

void give_pad(Grad *g, Instr *v, Adjoint d) {
  give(g, v->args[0], moved(g, d, back_pad, v));
  if (!wants(g, v->args[1])) return;
  const int64_t axes = ((int64_t)1 << v->type.rank) - 1;
  Instr *inside = put_truth(g, true, v->args[0]->type);
  for (int i = 0; i < v->type.rank; i++)
    if (v->ints[i] || v->ints2[i])
      inside = put_pad(g, inside, i, v->ints[i], v->ints2[i], v->type.dim[i]);
  Adjoint rest = masked(g, d, put_like(g, OP_NOT, inside));
  Instr *sum = put_reduce(g, OP_REDUCE_SUM, settled(g, rest), axes),
        *any = any_of(g, rest.mask, axes);
  give(g, v->args[1],
       (Adjoint){put_reshape(g, sum, v->args[1]->type), put_reshape(g, any, v->args[1]->type),
                 true});
}

// ---- elements by index: each element's gradient is added where it was taken from, clamped

bool gives_parts(const Instr *v) {
  return v->op == OP_TAKE || v->op == OP_TAKE_ALONG || v->op == OP_GATHER;
}

static Instr *element(Grad *g, Instr *line, Instr *at) {
  Instr *one = put_reshape(g, piece(g, line, 0, at, 1), type_scalar(line->type.dtype));
  return put_cast(g, one, DT_I64);
}

void give_take(Grad *g, Instr *v, Adjoint d) {
  const int axis = (int)v->ival;
  Instr *x = v->args[0], *index = value_of(g, v->args[1]), *starts[MAX_RANK];
  if (!wants(g, x)) return;
  d = selected(g, d);
  Loop loop;
  Instr *n = begin_loop(g, &loop, index->type.dim[0]);
  for (int i = 0; i < v->type.rank; i++)
    starts[i] = i == axis ? element(g, index, n) : put_index(g, 0);
  give_part(g, x, starts, NULL, part_along(g, d, axis, n, 1));
  end_loop(g, &loop);
}

void give_gather(Grad *g, Instr *v, Adjoint d) {
  Instr *x = v->args[0], *starts[MAX_RANK];
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(v, axes);
  if (!wants(g, x)) return;
  d = selected(g, d);
  Type one = x->type;
  Loop loop;
  Instr *n = begin_loop(g, &loop, v->type.dim[axes[0]]);
  for (int k = 0; k < one.rank; k++) starts[k] = put_index(g, 0);
  for (int i = 0; i < count; i++) {
    starts[axes[i]] = element(g, value_of(g, v->args[1 + i]), n);
    one.dim[axes[i]] = 1;
  }
  Adjoint part = part_along(g, d, axes[0], n, 1);
  part.value = put_reshape(g, part.value, one);
  if (part.mask) part.mask = put_reshape(g, part.mask, one);
  give_part(g, x, starts, NULL, part);
  end_loop(g, &loop);
}

void give_take_along(Grad *g, Instr *v, Adjoint d) {
  const int axis = (int)v->ival;
  Instr *x = v->args[0];
  if (!wants(g, x)) return;
  Instr *index = put_cast(g, value_of(g, v->args[1]), DT_I64);
  d = selected(g, d);
  Loop loop;
  Instr *n = begin_loop(g, &loop, v->type.dim[axis]);
  Instr *at = piece(g, index, axis, n, 1);
  const Adjoint part = part_along(g, d, axis, n, 1);
  Instr *last = put_spread(
      g, put_pair(g, OP_SUB, put_extent(g, x->type.dim[axis]), put_index(g, 1)), at->type);
  at = put_pair(g, OP_MAX, put_pair(g, OP_MIN, at, last), put_int(g, 0, at->type));
  const Type all = type_as(x->type, DT_I64);
  Instr *here = put_test(g, OP_EQ, put_iota(g, all, DT_I64, axis), put_spread(g, at, all));
  Instr *mask = part.mask ? put_spread(g, part.mask, x->type) : NULL;
  give(g, x, masked(g, (Adjoint){put_spread(g, part.value, x->type), mask, part.zero}, here));
  end_loop(g, &loop);
}
