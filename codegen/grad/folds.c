// Reductions, what runs along an axis, and sorting: gradients and tangents of each.
#include "codegen/grad/internal.h"

static Adjoint spread(Grad *g, Adjoint d, Type shape) {
  return (Adjoint){put_spread(g, d.value, shape), d.mask ? put_spread(g, d.mask, shape) : NULL};
}

void give_reduce_sum(Grad *g, Instr *v, Adjoint d) {
  give(g, v->args[0], spread(g, d, v->args[0]->type));
}

// ---- the greatest and the least: all that are equal to it share

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
  give(g, v->args[0], masked(g, spread(g, d, v->args[0]->type), at));
}

Adjoint tangent_extreme(Grad *g, Instr *v) {
  Instr *at = equals(g, v);
  Instr *chosen = settled(g, masked(g, tangent_of(g, v->args[0]), at));
  Instr *sum = put_reduce(g, OP_REDUCE_SUM, chosen, v->ival);
  return plain(put_pair(g, OP_DIV, sum, counted(g, v, at)));
}

// ---- products: each element's factor is that of all others

static Instr *scanned(Grad *g, Op op, Instr *x, int axis, bool reverse) {
  Instr *v = put_like(g, op, x);
  v->ival = axis;
  v->flags = reverse ? INSTR_REVERSE : 0;
  return v;
}

// Is the element the first that a scan along the axis visits?
static Instr *is_first(Grad *g, const Type *t, int axis, bool reverse) {
  const Type places = type_as(*t, DT_I64);
  Instr *last = put_pair(g, OP_SUB, put_extent(g, t->dim[axis]), put_index(g, 1));
  Instr *end = put_spread(g, reverse ? last : put_index(g, 0), places);
  return put_test(g, OP_EQ, put_iota(g, places, DT_I64, axis), end);
}

// The product of what precedes each element, `reverse`: after it.
static Instr *product_before(Grad *g, Instr *x, int axis, bool reverse) {
  Instr *all = scanned(g, OP_CUMPROD, x, axis, reverse);
  Instr *next = put(g, OP_ROLL, x->type, 2, all, put_index(g, reverse ? -1 : 1));
  next->ival = axis;
  Instr *first = is_first(g, &x->type, axis, reverse);
  return put_choice(g, first, put_number(g, 1, x->type), next);
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
    d.value = put_pair(g, OP_MUL, d.value, others);
  }
  give(g, v->args[0], d);
}

Adjoint tangent_reduce_prod(Grad *g, Instr *v) {
  Instr *x = wide(g, v->args[0]), *t = settled(g, tangent_of(g, v->args[0]));
  for (int i = 0; i < v->type.rank; i++)
    if (v->ival >> i & 1) {
      t = put_pair(g, OP_MUL, t, product_of_others(g, x, i));
      t = put_reduce(g, OP_REDUCE_SUM, t, (int64_t)1 << i);
      x = put_reduce(g, OP_REDUCE_PROD, x, (int64_t)1 << i);
    }
  return plain(t);
}

// ---- along one axis

void give_cumsum(Grad *g, Instr *v, Adjoint d) {
  bool reverse = v->flags & INSTR_REVERSE;
  give(g, v->args[0], plain(scanned(g, OP_CUMSUM, settled(g, d), (int)v->ival, !reverse)));
}

// What a turn of a walk along an axis makes of what the one before it left, and of the elements
// there; *kept: what the result has there.
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

void give_cumprod(Grad *g, Instr *v, Adjoint d) {
  bool reverse = v->flags & INSTR_REVERSE;
  Instr *along[] = {wide(g, v->args[0]), settled(g, d)};
  Instr *sums = walked(g, v, !reverse, 2, along, back_product);
  Instr *before = product_before(g, along[0], (int)v->ival, reverse);
  give(g, v->args[0], plain(put_pair(g, OP_MUL, sums, before)));
}

static Instr *forth_product(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  *kept = put_pair(g, OP_ADD, put_pair(g, OP_MUL, at[0], carry), at[1]);
  return *kept;
}

Adjoint tangent_cumprod(Grad *g, Instr *v) {
  bool reverse = v->flags & INSTR_REVERSE;
  Instr *x = wide(g, v->args[0]), *t = settled(g, tangent_of(g, v->args[0]));
  Instr *before = product_before(g, x, (int)v->ival, reverse);
  Instr *along[] = {x, put_pair(g, OP_MUL, before, t)};
  return plain(walked(g, v, reverse, 2, along, forth_product));
}

// Where a running maximum is taken from: the first element that reaches it.
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

static Instr *back_record(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  Instr *sum = put_pair(g, OP_ADD, at[1], carry), *zero = put_number(g, 0, sum->type);
  *kept = put_choice(g, at[0], sum, zero);
  return put_choice(g, at[0], zero, sum);
}

void give_running(Grad *g, Instr *v, Adjoint d) {
  Instr *along[] = {records(g, v), settled(g, d)};
  bool reverse = v->flags & INSTR_REVERSE;
  give(g, v->args[0], plain(walked(g, v, !reverse, 2, along, back_record)));
}

static Instr *forth_record(Grad *g, Instr *carry, Instr *const *at, Instr **kept) {
  return *kept = put_choice(g, at[0], at[1], carry);
}

Adjoint tangent_running(Grad *g, Instr *v) {
  Instr *along[] = {records(g, v), settled(g, tangent_of(g, v->args[0]))};
  return plain(walked(g, v, v->flags & INSTR_REVERSE, 2, along, forth_record));
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

// Each element goes back to where the order has it from.
void give_sort(Grad *g, Instr *v, Adjoint d) {
  const int axis = (int)v->ival;
  Instr *order = order_of(g, value_of(g, v->args[0]), axis, v->flags);
  Instr *back = order_of(g, order, axis, 0);
  Adjoint x = {take_along(g, d.value, back, axis), NULL};
  if (d.mask) x.mask = take_along(g, d.mask, back, axis);
  give(g, v->args[0], x);
}

Adjoint tangent_sort(Grad *g, Instr *v) {
  Instr *order = order_of(g, value_of(g, v->args[0]), (int)v->ival, v->flags);
  return plain(take_along(g, settled(g, tangent_of(g, v->args[0])), order, (int)v->ival));
}
