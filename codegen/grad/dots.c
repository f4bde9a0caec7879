// Products: the gradient of a factor is the product of the result's gradient with the other factor.
#include "codegen/grad/internal.h"

#include <string.h>

static int axis_of(const int8_t *labels, int rank, int label) {
  for (int i = 0; i < rank; i++)
    if (labels[i] == label) return i;
  return -1;
}

// x, whose axes have the labels `from`, as a value of the shape: summed by `op` along those that
// `to` has not, the same along those that `from` has not.
static Instr *aligned(Grad *g, Instr *x, const int8_t *from, Op op, const int8_t *to, Type shape) {
  int64_t axes = 0;
  int8_t left[MAX_RANK] = {0};
  int perm[MAX_RANK], count = 0;
  Type kept = {.dtype = x->type.dtype}, transposed = kept, all = type_as(shape, kept.dtype);
  for (int i = 0; i < x->type.rank; i++) {
    bool gone = axis_of(to, shape.rank, from[i]) < 0;
    if (gone) axes |= (int64_t)1 << i;
    if (!gone) left[kept.rank] = from[i], kept.dim[kept.rank++] = x->type.dim[i];
  }
  x = op == OP_REDUCE_OR ? any_of(g, x, axes) : put_reduce(g, op, x, axes);
  x = put_reshape(g, x, kept);
  bool same = true;
  for (int i = 0; i < shape.rank; i++) {
    int axis = axis_of(left, kept.rank, to[i]);
    if (axis < 0) all.dim[i] = 1;
    if (axis < 0) continue;
    same = same && axis == count;
    transposed.dim[transposed.rank++] = shape.dim[i];
    perm[count++] = axis;
  }
  if (!same) x = put(g, OP_TRANSPOSE, transposed, 1, x);
  for (int i = 0; !same && i < count; i++) x->ints[i] = perm[i];
  return put_spread(g, put_reshape(g, x, all), shape);
}

// The other factor of d, whose axes have the labels `from`, with 0 where d is masked in every
// product with it: what it is there counts for nothing, and may be NaN, which a sum with 0 times
// NaN would pass on. Padding is finite: it needs no selection if d is 0 there.
static Instr *factor(Grad *g, Adjoint d, const int8_t *from, Instr *other, const int8_t *labels) {
  if (!d.mask) return other;
  Instr *mask = aligned(g, d.mask, from, OP_REDUCE_OR, labels, other->type);
  const Instr *unpadded = d.zero ? inside_padded(g, other) : NULL;
  if (unpadded && implies(unpadded, mask)) return other;
  return put_choice(g, mask, other, put_number(g, 0, other->type));
}

// The axes whose labels the other list lacks.
static int64_t axes_beyond(const int8_t *labels, int rank, const int8_t *other, int other_rank) {
  int64_t axes = 0;
  for (int i = 0; i < rank; i++)
    if (axis_of(other, other_rank, labels[i]) < 0) axes |= (int64_t)1 << i;
  return axes;
}

// The source of a transpose, with its labels.
static Instr *untransposed(Grad *g, Instr *x, const int8_t *from, int8_t *labels) {
  memcpy(labels, from, MAX_RANK);
  if (x->op != OP_TRANSPOSE) return x;
  for (int i = 0; i < x->type.rank; i++) labels[x->ints[i]] = from[i];
  return value_of(g, x->args[0]);
}

// Of operand `side`: the labels of the operand that the result or the other one has; the others
// were summed by themselves. A condition that does not vary along the axes that the product sums
// masks its result, and the other conditions mask its factors. If one of these varies along other
// axes too, the second factor needs all conditions: elements that the result's mask removes would
// keep it otherwise.
static void give_factor(Grad *g, Instr *v, int side, Adjoint d) {
  Instr *to = v->args[side];
  if (!wants(g, to)) return;
  int8_t others[MAX_RANK];
  const int8_t *own = side ? v->labels.b : v->labels.a;
  Instr *other =
      untransposed(g, value_of(g, v->args[1 - side]), side ? v->labels.a : v->labels.b, others);
  const int64_t all = ((int64_t)1 << v->type.rank) - 1,
                summed = axes_beyond(v->labels.out, v->type.rank, own, to->type.rank);
  const Adjoint whole = d;
  Instr *same = take_same(g, &d, summed);
  Adjoint mixed = d;
  take_same(g, &mixed, all & ~summed);
  other = factor(g, mixed.mask ? whole : d, v->labels.out, other, others);
  Instr *given = settled(g, d), *product = put(g, OP_DOT, working(to->type), 2, given, other);
  memcpy(product->labels.a, v->labels.out, sizeof v->labels.out);
  memcpy(product->labels.b, others, sizeof others);
  product->ival = v->ival;
  product->type.rank = 0;
  product->type.dtype = dtype_accum(v->type.dtype);
  for (int i = 0; i < to->type.rank; i++) {
    bool there = axis_of(v->labels.out, v->type.rank, own[i]) >= 0 ||
                 axis_of(others, other->type.rank, own[i]) >= 0;
    if (!there) continue;
    product->labels.out[product->type.rank] = own[i];
    product->type.dim[product->type.rank++] = to->type.dim[i];
  }
  Adjoint x = {aligned(g, product, product->labels.out, OP_REDUCE_SUM, own, to->type), NULL, false};
  if (d.mask) x.mask = aligned(g, d.mask, v->labels.out, OP_REDUCE_OR, own, to->type);
  if (same) same = aligned(g, same, v->labels.out, OP_REDUCE_OR, own, to->type);
  give(g, to, masked(g, x, same));
}

void give_dot(Grad *g, Instr *v, Adjoint d) {
  give_factor(g, v, 0, d);
  give_factor(g, v, 1, d);
}

Adjoint tangent_dot(Grad *g, Instr *v) {
  Adjoint sum = {0};
  for (int side = 0; side < 2; side++) {
    Adjoint t = tangent_of(g, v->args[side]);
    if (!t.value) continue;
    Instr *product = ir_copy(g->k, v);
    product->text = NULL;
    product->type = working(v->type);
    product->args[side] = settled(g, t);
    const int8_t *own = side ? v->labels.b : v->labels.a,
                 *others = side ? v->labels.a : v->labels.b;
    product->args[1 - side] = factor(g, t, own, value_of(g, v->args[1 - side]), others);
    Adjoint x = plain(ir_append(g->k, g->out, product));
    if (t.mask) x.mask = aligned(g, t.mask, own, OP_REDUCE_OR, v->labels.out, v->type);
    sum = added(g, sum, x);
  }
  return sum;
}
