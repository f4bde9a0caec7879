// The elements of an explicit copy: their positions, and moving them.
#include "codegen/check/internal.h"

#include <string.h>

// The value whose elements the windows of a ref refer to.
Value *home_of(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  return ref->space == SPACE_ANY && state->image ? state->image : &state->block;
}

int64_t count_elements(const Box *box) {
  int64_t count = 1;
  for (int i = 0; i < box->rank; i++) count = saturating_mul(count, box->extent[i]);
  return count;
}

// The position of element `index` of a box in its memory; -1: outside.
static int64_t place_in_memory(const Box *box, const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < box->rank; i++) {
    int64_t offset, position;
    if (!mul_i64(index[i], box->stride[i], &offset) || !add_i64(offset, box->start[i], &position))
      return -1;
    if (position < 0 || position >= box->dim[i]) return -1;
    at = at * box->dim[i] + position;
  }
  return at;
}

static void move_element(const Transfer *t, const Value *from, int64_t source, Value *to,
                         int64_t target) {
  if (to->partial) to->missing[target] = source < 0 ? UINT64_MAX : missing_at(from, source);
  if (source < 0) {
    if (!t->other_poison) to->i[target] = t->other;
    to->poison[target] = t->other_poison;
    if (to->uncertain) to->error[target] = 0;
    return;
  }
  to->i[target] = from->i[source];  // floats too: the bits move
  if (to->uncertain) to->error[target] = error_at(from, source);
  to->poison[target] =
      from->poison[source] == POISON_UNSTORED ? ref_mark(t->from.ref) : from->poison[source];
}

// The axes along which a box has other than one element; returns their number.
static int long_axes(const Box *box, int *axes) {
  int count = 0;
  for (int i = 0; i < box->rank; i++)
    if (box->extent[i] != 1) axes[count++] = i;
  return count;
}

// Only the elements that are inside the target: a run-time length may be any number.
static void move_each(Interp *in, const Transfer *t, const Value *from, Value *to) {
  int64_t source[MAX_RANK] = {0}, target[MAX_RANK], first[MAX_RANK], end[MAX_RANK];
  int from_axes[MAX_RANK], to_axes[MAX_RANK], count = long_axes(&t->to, to_axes), axis;
  REQUIRE(long_axes(&t->from, from_axes) == count);
  for (int i = 0; i < t->to.rank; i++) {
    box_inside(&t->to, i, &first[i], &end[i]);
    if (first[i] >= end[i]) return;
    target[i] = first[i];
  }
  if (from->partial && !value_partial(in, to)) return;
  do {
    for (int i = 0; i < count; i++) source[from_axes[i]] = target[to_axes[i]];
    move_element(t, from, place_in_memory(&t->from, source), to, place_in_memory(&t->to, target));
    for (axis = t->to.rank - 1; axis >= 0 && ++target[axis] == end[axis]; axis--)
      target[axis] = first[axis];
  } while (axis >= 0);
}

// The box as a walk over its memory, without the axes of extent 1; false if part of it is outside.
static bool box_walk(const Box *box, Walk *walk) {
  int64_t step = 1;
  *walk = (Walk){0};
  for (int i = box->rank - 1; i >= 0; i--) {
    int64_t first, end;
    box_inside(box, i, &first, &end);
    if (first > 0 || end < box->extent[i]) return false;
    walk->base += box->start[i] * step;
    if (box->extent[i] != 1) {
      walk->extent[walk->rank] = box->extent[i];
      walk->stride[walk->rank++] = box->stride[i] * step;
    }
    step *= box->dim[i];
  }
  for (int i = 0; i < walk->rank / 2; i++) {
    int j = walk->rank - 1 - i;
    int64_t extent = walk->extent[i], stride = walk->stride[i];
    walk->extent[i] = walk->extent[j], walk->stride[i] = walk->stride[j];
    walk->extent[j] = extent, walk->stride[j] = stride;
  }
  return true;
}

void move_transfer(Interp *in, Transfer *t) {
  if (t->moved) return;
  t->moved = true;
  in->unmoved--;
  int64_t *held = &in->refs[t->semaphore->id].block.i[t->element];
  *held = saturating_add(*held, t->bytes);
  move_between(in, in, t);
}

void move_between(Interp *source_in, Interp *target_in, Transfer *t) {
  Walk source, target;
  const Value *from = home_of(source_in, t->from.ref);
  Value *to = home_of(target_in, t->to.ref);
  if (t->to.seen) {
    move_parts(target_in, t, from, to);
    return;
  }
  bool inside = box_walk(&t->from, &source) && box_walk(&t->to, &target);
  if (!inside || from == to || t->from.ref->role == REF_OUTPUT) {
    move_each(target_in, t, from, to);
    return;
  }
  copy_walk(to->data, &target, from->data, &source, 8);
  copy_walk(to->poison, &target, from->poison, &source, 1);
  copy_missing(target_in, to, &target, from, &source);
  if (from->uncertain && to->uncertain) copy_walk(to->error, &target, from->error, &source, 8);
}
