// Masks of gradients: the axes along which they vary, and simplifications by these.
#include "codegen/grad/internal.h"

#include <string.h>

// Larger expressions count as varying along all axes.
enum { FUEL = 200 };

static bool stretches(const Instr *broadcast, int axis, int *from) {
  const Type *source = &broadcast->args[0]->type;
  *from = axis - (broadcast->type.rank - source->rank);
  return *from < 0 || source->dim[*from] == 1;
}

// Are the elements of v equal along the axis? False if the expression is too large.
static bool same_along(Grad *g, const Instr *v, int axis, int *fuel) {
  int from;
  if (--*fuel < 0) return false;
  if (v->type.dim[axis] == 1 || v->op == OP_CONST) return true;
  if (v->op == OP_IOTA) return v->ival != axis;
  if (v->op == OP_TRANSPOSE) return same_along(g, v->args[0], (int)v->ints[axis], fuel);
  if (v->op == OP_BROADCAST)
    return stretches(v, axis, &from) || same_along(g, v->args[0], from, fuel);
  if (!op_is_elementwise(v->op)) return false;
  for (int i = 0; i < v->nargs; i++)
    if (v->args[i]->type.rank != v->type.rank ||
        !same_along(g, value_of(g, v->args[i]), axis, fuel))
      return false;
  return true;
}

// The subset of the axes along which all elements of v are equal.
static int64_t same_axes(Grad *g, const Instr *v, int64_t axes) {
  int64_t same = 0;
  for (int i = 0; i < v->type.rank; i++) {
    int fuel = FUEL;
    if (axes >> i & 1 && same_along(g, v, i, &fuel)) same |= (int64_t)1 << i;
  }
  return same;
}

// The axes of the operand of a broadcast or transpose that are these axes of the result.
static int64_t source_axes(const Instr *v, int64_t axes) {
  int64_t found = 0;
  int from;
  for (int i = 0; i < v->type.rank; i++) {
    if (!(axes >> i & 1)) continue;
    if (v->op == OP_TRANSPOSE) found |= (int64_t)1 << v->ints[i];
    if (v->op == OP_BROADCAST && !stretches(v, i, &from)) found |= (int64_t)1 << from;
  }
  return found;
}

// A value that is the same along these axes, with one element along them.
static Instr *narrowed(Grad *g, Instr *v, int64_t axes) {
  Type type = v->type;
  for (int i = 0; i < type.rank; i++)
    if (axes >> i & 1) type.dim[i] = 1;
  if (type_same_shape(&type, &v->type)) return v;
  if (v->op == OP_BROADCAST)
    return put_spread(g, narrowed(g, v->args[0], source_axes(v, axes)), type);
  Instr *copy = ir_copy(g->k, v);
  copy->text = NULL;
  copy->type = type;
  for (int i = 0; i < v->nargs; i++)
    copy->args[i] =
        narrowed(g, value_of(g, v->args[i]), v->op == OP_TRANSPOSE ? source_axes(v, axes) : axes);
  return ir_append(g->k, g->out, copy);
}

// any_of, with one element also along other axes along which all are equal.
static Instr *narrow_any(Grad *g, Instr *mask, int64_t axes) {
  const int64_t same = same_axes(g, mask, ~0), rest = axes & ~same;
  mask = narrowed(g, mask, same);
  if (!rest) return mask;
  for (int i = 0; i < 2 && (mask->op == OP_AND || mask->op == OP_OR); i++)
    if (same_axes(g, mask->args[i], rest) == rest)
      return put_pair(g, mask->op, narrowed(g, mask->args[i], rest),
                      any_of(g, mask->args[1 - i], rest));
  Instr *any = put_like(g, OP_REDUCE_OR, mask);
  for (int i = 0; i < mask->type.rank; i++)
    if (rest >> i & 1) any->type.dim[i] = 1;
  any->ival = rest;
  return any;
}

Instr *any_of(Grad *g, Instr *mask, int64_t axes) {
  if (!axes) return mask;
  Type type = mask->type;
  for (int i = 0; i < type.rank; i++)
    if (axes >> i & 1) type.dim[i] = 1;
  return put_spread(g, narrow_any(g, mask, axes), type);
}

static Instr *both(Grad *g, Instr *a, Instr *b) {
  return a && b ? put_pair(g, OP_AND, a, b) : a ? a : b;
}

// Divides the conditions of a conjunction: `same` does not vary along the axes.
static void split(Grad *g, Instr *mask, int64_t axes, Instr **same, Instr **rest) {
  if (mask->op == OP_AND) {
    split(g, mask->args[0], axes, same, rest);
    split(g, mask->args[1], axes, same, rest);
  } else if (same_axes(g, mask, axes) == axes) {
    *same = both(g, *same, mask);
  } else {
    *rest = both(g, *rest, mask);
  }
}

Instr *take_same(Grad *g, Adjoint *d, int64_t axes) {
  Instr *same = NULL, *rest = NULL;
  if (d->mask) split(g, d->mask, axes, &same, &rest);
  if (!same) return NULL;
  d->mask = rest;
  return same;
}

// Are both the same expression?
static bool equal(const Instr *a, const Instr *b, int *fuel) {
  if (a == b) return true;
  if (--*fuel < 0 || a->op != b->op || a->nargs != b->nargs || a->ival != b->ival) return false;
  if (a->type.dtype != b->type.dtype || !type_same_shape(&a->type, &b->type)) return false;
  if (!op_is_elementwise(a->op) && a->op != OP_BROADCAST && a->op != OP_CONST && a->op != OP_IOTA &&
      a->op != OP_AXIS && a->op != OP_SIZE && a->op != OP_RESHAPE)
    return false;
  if (memcmp(&a->fval, &b->fval, sizeof a->fval) != 0) return false;
  for (int i = 0; i < a->nargs; i++)
    if (!equal(a->args[i], b->args[i], fuel)) return false;
  return true;
}

bool implies(const Instr *mask, const Instr *other) {
  int fuel = FUEL;
  if (equal(mask, other, &fuel)) return true;
  if (other->op == OP_AND) return implies(mask, other->args[0]) && implies(mask, other->args[1]);
  return mask->op == OP_AND && (implies(mask->args[0], other) || implies(mask->args[1], other));
}
