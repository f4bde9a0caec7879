// Gradients and tangents of reductions, scans and sorts.
#include "codegen/grad/internal.h"

static Adjoint spread(Grad *g, Adjoint d, Type shape) {
  Instr *mask = d.mask ? put_spread(g, d.mask, shape) : NULL;
  return (Adjoint){put_spread(g, d.value, shape), mask, d.zero};
}

void give_reduce_sum(Grad *g, Instr *v, Adjoint d) {
  give(g, v->args[0], spread(g, d, v->args[0]->type));
}

// ---- maxima and minima: all equal elements share the gradient

static Instr *equals(Grad *g, Instr *v) {
  Instr *x = value_of(g, v->args[0]);
  return put_test(g, OP_EQ, x, put_spread(g, value_of(g, v), x->type));
}

static Instr *counted(Grad *g, Instr *v, Instr *at) {
  return put_reduce(g, OP_REDUCE_SUM, put_cast(g, at, dtype_accum(v->type.dtype)), v->ival);
}

void give_extreme(Grad *g, Instr *v, Adjoint d) {
  Instr *at = equals(g, v);
  d.value = put_pair(g, OP_DIV, d.value, counted(g, v, at));
  d.zero = false;
  give(g, v->args[0], masked(g, spread(g, d, v->args[0]->type), at));
}

Adjoint tangent_extreme(Grad *g, Instr *v) {
  Instr *at = equals(g, v);
  Adjoint chosen = masked(g, tangent_of(g, v->args[0]), at);
  Instr *sum = put_reduce(g, OP_REDUCE_SUM, settled(g, chosen), v->ival);
  return (Adjoint){put_pair(g, OP_DIV, sum, counted(g, v, at)), any_of(g, chosen.mask, v->ival),
                   false};
}

// ---- products: each element's factor is that of all others

// Is the element the first that a scan along the axis visits?
static Instr *is_first(Grad *g, const Type *t, int axis, bool reverse) {
  const Type places = type_as(*t, DT_I64);
  Instr *last = put_pair(g, OP_SUB, put_extent(g, t->dim[axis]), put_index(g, 1));
  Instr *end = put_spread(g, reverse ? last : put_index(g, 0), places);
  return put_test(g, OP_EQ, put_iota(g, places, DT_I64, axis), end);
}

// Each element is the one that the scan visits before it; the first is `start`.
static Instr *next_along(Grad *g, Instr *x, int axis, bool reverse, Instr *start) {
  Instr *next = put(g, OP_ROLL, x->type, 2, x, put_index(g, reverse ? -1 : 1));
  next->ival = axis;
  return put_choice(g, is_first(g, &x->type, axis, reverse), start, next);
}

// The product of what precedes each element, `reverse`: after it.
static Instr *product_before(Grad *g, Instr *x, int axis, bool reverse) {
  Instr *all = put_scan(g, OP_CUMPROD, x, axis, reverse);
  return next_along(g, all, axis, reverse, put_number(g, 1, x->type));
}

static Instr *product_of_others(Grad *g, Instr *x, int axis) {
  Instr *before = product_before(g, x, axis, false);
  return put_pair(g, OP_MUL, before, product_before(g, x, axis, true));
}

void give_reduce_prod(Grad *g, Instr *v, Adjoint d) {
  Instr *step[MAX_RANK + 1] = {wide(g, v->args[0])};
  int axis[MAX_RANK], count = 0;
  for (int i = 0; i < v->type.rank; i++)
    if (v->ival >> i & 1) {
      step[count + 1] = put_reduce(g, OP_REDUCE_PROD, step[count], (int64_t)1 << i);
      axis[count++] = i;
    }
  while (count--) {
    Instr *others = product_of_others(g, step[count], axis[count]);
    d = spread(g, d, step[count]->type);
    d = (Adjoint){put_pair(g, OP_MUL, d.value, others), d.mask, false};
  }
  give(g, v->args[0], d);
}

Adjoint tangent_reduce_prod(Grad *g, Instr *v) {
  Instr *x = wide(g, v->args[0]);
  Adjoint t = tangent_of(g, v->args[0]);
  for (int i = 0; i < v->type.rank; i++)
    if (v->ival >> i & 1) {
      const int64_t axis = (int64_t)1 << i;
      t = (Adjoint){put_pair(g, OP_MUL, t.value, product_of_others(g, x, i)), t.mask, false};
      t.value = put_reduce(g, OP_REDUCE_SUM, settled(g, t), axis);
      if (t.mask) t.mask = any_of(g, t.mask, axis);
      x = put_reduce(g, OP_REDUCE_PROD, x, axis);
    }
  return t;
}

// ---- along one axis

void give_cumsum(Grad *g, Instr *v, Adjoint d) {
  const int axis = (int)v->ival;
  bool reverse = v->flags & INSTR_REVERSE;
  Instr *sums = put_scan(g, OP_CUMSUM, settled(g, d), axis, !reverse);
  Instr *mask = d.mask ? any_along(g, d.mask, axis, !reverse) : NULL;
  give(g, v->args[0], (Adjoint){sums, mask, true});
}

// One step of a walk along an axis: computes the carry from the previous carry and the elements
// there; *kept: the result there.
typedef Instr *Step(Grad *g, Instr *carry, Instr *const *at, Instr **kept);

// Walks along the axis of v, upwards or downwards.
static Instr *walked(Grad *g, const Instr *v, bool down, int count, Instr *const *along,
                     Step *step) {
  const int axis = (int)v->ival;
  Type line = working(v->type);
  line.dim[axis] = 1;
  Ref *carry = new_state(g, "carry", line), *all = new_state(g, "along", working(v->type));
  put_store(g, carry, put_number(g, 0, line));
  put_store(g, all, put_number(g, 0, all->type));
  Loop loop;
  Instr *at[3], *kept, *starts[MAX_RANK], *i = begin_loop(g, &loop, v->type.dim[axis]);
  if (down) {
    Instr *last = put_pair(g, OP_SUB, put_extent(g, v->type.dim[axis]), put_index(g, 1));
    i = put_pair(g, OP_SUB, last, i);
  }
  for (int k = 0; k < count; k++) at[k] = piece(g, along[k], axis, i, 1);
  Instr *next = step(g, put_load(g, carry), at, &kept);
  for (int k = 0; k < v->type.rank; k++) starts[k] = k == axis ? i : put_index(g, 0);
  put_window(g, all, starts, NULL, line, kept);
  put_store(g, carry, next);
  end_loop(g, &loop);
  return put_load(g, all);
}

static Instr *back_product(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  *kept = put_pair(g, OP_ADD, at[1], carry);
  return put_pair(g, OP_MUL, at[0], *kept);
}

// The same if the carry has a gradient only after elements with one.
static Instr *back_masked_product(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  Instr *next = back_product(g, carry, at, kept);
  return settled(g, (Adjoint){next, at[2], false});
}

void give_cumprod(Grad *g, Instr *v, Adjoint d) {
  bool reverse = v->flags & INSTR_REVERSE;
  const int axis = (int)v->ival;
  Instr *any = d.mask ? any_along(g, d.mask, axis, !reverse) : NULL;
  Instr *along[] = {wide(g, v->args[0]), settled(g, d), any};
  Instr *sums = any ? walked(g, v, !reverse, 3, along, back_masked_product)
                    : walked(g, v, !reverse, 2, along, back_product);
  Instr *before = product_before(g, along[0], axis, reverse);
  give(g, v->args[0], (Adjoint){put_pair(g, OP_MUL, sums, before), any, false});
}

static Instr *forth_product(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  *kept = put_pair(g, OP_ADD, put_pair(g, OP_MUL, at[0], carry), at[1]);
  return *kept;
}

// The same if the carry has a tangent only after elements with one.
static Instr *forth_masked_product(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  const Adjoint more = {put_pair(g, OP_MUL, at[0], carry), at[2], false};
  return *kept = put_pair(g, OP_ADD, settled(g, more), at[1]);
}

Adjoint tangent_cumprod(Grad *g, Instr *v) {
  bool reverse = v->flags & INSTR_REVERSE;
  const int axis = (int)v->ival;
  Instr *x = wide(g, v->args[0]), *before = product_before(g, x, axis, reverse);
  const Adjoint t = tangent_of(g, v->args[0]);
  const Adjoint own = {put_pair(g, OP_MUL, before, t.value), t.mask, false};
  Instr *along[] = {x, settled(g, own), NULL};
  if (!t.mask) return plain(walked(g, v, reverse, 2, along, forth_product));
  Instr *any = any_along(g, t.mask, axis, reverse);
  along[2] = next_along(g, any, axis, reverse, put_truth(g, false, any->type));
  return (Adjoint){walked(g, v, reverse, 3, along, forth_masked_product), any, true};
}

// The index of the first element that is equal to the running maximum.
static Instr *records(Grad *g, Instr *v) {
  const int axis = (int)v->ival;
  bool reverse = v->flags & INSTR_REVERSE;
  Instr *y = value_of(g, v), *x = value_of(g, v->args[0]);
  Instr *before = put(g, OP_ROLL, y->type, 2, y, put_index(g, reverse ? -1 : 1));
  before->ival = axis;
  Instr *first = is_first(g, &y->type, axis, reverse);
  Instr *new = put_pair(g, OP_OR, first, put_test(g, OP_NE, y, before));
  return put_pair(g, OP_AND, put_test(g, OP_EQ, x, y), new);
}

// The mask of the result of a walk, as numbers that are not 0 where it is true.
static Instr *walked_mask(Grad *g, const Instr *v, bool down, Instr *records, Instr *mask,
                          Step *step) {
  Instr *along[] = {records, put_cast(g, mask, dtype_accum(v->type.dtype))};
  return put_cast(g, walked(g, v, down, 2, along, step), DT_BOOL);
}

static Instr *back_record(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  Instr *sum = put_pair(g, OP_ADD, at[1], carry), *zero = put_number(g, 0, sum->type);
  *kept = put_choice(g, at[0], sum, zero);
  return put_choice(g, at[0], zero, sum);
}

void give_running(Grad *g, Instr *v, Adjoint d) {
  Instr *along[] = {records(g, v), settled(g, d)};
  bool reverse = v->flags & INSTR_REVERSE;
  Instr *sums = walked(g, v, !reverse, 2, along, back_record), *mask = along[0];
  if (d.mask) mask = walked_mask(g, v, !reverse, along[0], d.mask, back_record);
  give(g, v->args[0], (Adjoint){sums, mask, true});
}

static Instr *forth_record(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  return *kept = put_choice(g, at[0], at[1], carry);
}

Adjoint tangent_running(Grad *g, Instr *v) {
  const Adjoint t = tangent_of(g, v->args[0]);
  bool reverse = v->flags & INSTR_REVERSE;
  Instr *along[] = {records(g, v), settled(g, t)}, *mask = NULL;
  Instr *value = walked(g, v, reverse, 2, along, forth_record);
  if (t.mask) mask = walked_mask(g, v, reverse, along[0], t.mask, forth_record);
  return (Adjoint){value, mask, true};
}

// ---- order

static Instr *order_of(Grad *g, Instr *x, int axis, unsigned flags) {
  Instr *order = put(g, OP_ARGSORT, type_as(x->type, DT_I32), 1, x);
  order->ival = axis;
  order->flags = flags;
  return order;
}

static Instr *take_along(Grad *g, Instr *x, Instr *index, int axis) {
  Instr *v = put(g, OP_TAKE_ALONG, x->type, 2, x, index);
  v->ival = axis;
  return v;
}

// Each element returns to the position from which the sort took it.
void give_sort(Grad *g, Instr *v, Adjoint d) {
  const int axis = (int)v->ival;
  Instr *order = order_of(g, value_of(g, v->args[0]), axis, v->flags);
  Instr *back = order_of(g, order, axis, 0);
  Adjoint x = {take_along(g, d.value, back, axis), NULL, d.zero};
  if (d.mask) x.mask = take_along(g, d.mask, back, axis);
  give(g, v->args[0], x);
}

Adjoint tangent_sort(Grad *g, Instr *v) {
  Instr *order = order_of(g, value_of(g, v->args[0]), (int)v->ival, v->flags);
  Adjoint t = tangent_of(g, v->args[0]);
  t.value = take_along(g, t.value, order, (int)v->ival);
  if (t.mask) t.mask = take_along(g, t.mask, order, (int)v->ival);
  return t;
}
