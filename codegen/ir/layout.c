// Layouts of views: applies each step of a chain to the digits of its axes.
//
// A window changes an axis of one digit in place; an axis of several digits becomes a separate
// place, unless the window is constant and its digits can represent it. A bitcast moves digits
// between the second-last axis and the bits of an element. A reshape regroups digits and splits
// those that are divisible; otherwise the rest of the group becomes a separate place. A view is
// therefore refused only if it exceeds the capacity.
#include "codegen/ir/layout.h"

#include <string.h>

typedef struct {
  const Kernel *k;
  Layout *l;
  bool full;
} Steps;

static void push(Steps *s, Digits *list, Digit digit) {
  if (list->count == LAYOUT_DIGITS)
    s->full = true;
  else
    list->at[list->count++] = digit;
}

static int new_place(Steps *s, Extent bound) {
  if (s->l->places == LAYOUT_PLACES) {
    s->full = true;
    return 0;
  }
  s->l->place[s->l->places] = (LayoutPlace){.bound = bound};
  return s->l->places++;
}

static void multiply(Steps *s, Extent *e, const Extent *by) {
  if (!extent_mul(e, by, e)) s->full = true;
}

static Extent count_of(Steps *s, const Digits *list) {
  Extent e = extent_of(1);
  for (int i = 0; i < list->count; i++) multiply(s, &e, &list->at[i].extent);
  return e;
}

// One digit that replaces the whole list, whose digits become those of a separate position.
static Digit joined(Steps *s, const Digits *list) {
  Extent all = count_of(s, list);
  int place = new_place(s, all);
  s->l->place[place].digits = *list;
  return (Digit){all, extent_of(1), place};
}

// ---- regrouping: lists are consumed and filled from the fastest digit on

static Digit *fastest(Digits *from) {
  while (from->count && extent_is(&from->at[from->count - 1].extent, 1)) from->count--;
  return from->count ? &from->at[from->count - 1] : NULL;
}

// Removes `extent` values from the fast end and adds the digits to the slow end of `to`, which is
// in reverse order.
static void split_off(Steps *s, Digits *from, Extent extent, Digits *to) {
  Extent rest;
  while (!extent_is(&extent, 1) && !s->full) {
    Digit *d = fastest(from);
    if (!d) {
      s->full = true;
    } else if (extent_divide(&extent, &d->extent, &rest)) {
      push(s, to, *d);
      from->count--;
      extent = rest;
    } else if (extent_divide(&d->extent, &extent, &rest)) {
      push(s, to, (Digit){extent, d->step, d->place});
      multiply(s, &d->step, &extent);
      d->extent = rest;
      return;
    } else {
      Digit all = joined(s, from);
      from->count = 0;
      push(s, from, all);
      push(s, to, (Digit){extent, all.step, all.place});
      // the remaining values have larger steps
      from->at[0].step = extent;
      if (!extent_divide(&all.extent, &extent, &from->at[0].extent))
        from->at[0].extent = all.extent;
      return;
    }
  }
}

static void reverse(Digits *list) {
  for (int i = 0, j = list->count - 1; i < j; i++, j--) {
    Digit d = list->at[i];
    list->at[i] = list->at[j];
    list->at[j] = d;
  }
}

// The digits of axes [first, end) in the extents of `type`'s axes [to, to_end).
static void regroup(Steps *s, const Digits *axis, int first, int end, const Type *type, int to,
                    int to_end, Digits *out) {
  Digits from = {0};
  for (int k = first; k < end; k++)
    for (int i = 0; i < axis[k].count; i++) push(s, &from, axis[k].at[i]);
  for (int k = to_end - 1; k >= to && !s->full; k--) {
    out[k].count = 0;
    split_off(s, &from, extent_of_dim(s->k, type->dim[k]), &out[k]);
    reverse(&out[k]);
  }
}

static Extent dims_product(Steps *s, const Type *type, int first, int end) {
  Extent e = extent_of(1);
  for (int k = first; k < end; k++) {
    Extent dim = extent_of_dim(s->k, type->dim[k]);
    multiply(s, &e, &dim);
  }
  return e;
}

// The ends of the shortest groups of axes, from i and j on, that have the same number of elements.
static void next_group(Steps *s, const Type *before, int i, const Type *after, int j, int *i_end,
                       int *j_end) {
  for (int total = 1; total <= before->rank - i + after->rank - j; total++)
    for (int left = 0; left <= total; left++) {
      *i_end = i + left;
      *j_end = j + total - left;
      if (*i_end > before->rank || *j_end > after->rank) continue;
      Extent a = dims_product(s, before, i, *i_end), b = dims_product(s, after, j, *j_end);
      if (left && left < total && extent_same(&a, &b)) return;
    }
  *i_end = before->rank;
  *j_end = after->rank;
}

// Without elements no digit has a place: each axis is one digit of its length.
static void regroup_nothing(Steps *s, const Type *type, Digits *out) {
  for (int k = 0; k < type->rank; k++)
    push(s, &out[k],
         (Digit){extent_of_dim(s->k, type->dim[k]), extent_of(1), s->l->ref->type.rank});
}

static void reshape(Steps *s, const Type *before, const Type *after) {
  Digits *axis = s->l->axis, out[MAX_RANK + 1];
  memset(out, 0, sizeof out);
  bool empty = type_is_empty(after);
  if (empty) regroup_nothing(s, after, out);
  for (int i = 0, j = 0; !empty && (i < before->rank || j < after->rank);) {
    int i_end, j_end;
    next_group(s, before, i, after, j, &i_end, &j_end);
    regroup(s, axis, i, i_end, after, j, j_end, out);
    i = i_end, j = j_end;
  }
  out[after->rank] = axis[before->rank];
  memcpy(axis, out, sizeof out);
}

// ---- the other steps

static void transpose(Steps *s, const int *perm, int rank) {
  Digits out[MAX_RANK];
  for (int i = 0; i < rank; i++) out[i] = s->l->axis[perm[i]];
  memcpy(s->l->axis, out, sizeof *out * (size_t)rank);
}

static void bitcast(Steps *s, const Type *before, const Type *after) {
  int64_t from = dtype_info[before->dtype].bits, to = dtype_info[after->dtype].bits;
  Digits *bits = &s->l->axis[before->rank], *row = bits - 2, moved = {0};
  if (from == to) return;
  Digits rest = from < to ? *row : *bits;
  split_off(s, &rest, extent_of(from < to ? to / from : to), &moved);
  reverse(&moved);
  if (from < to) {
    for (int i = 0; i < bits->count; i++) push(s, &moved, bits->at[i]);
    *row = rest;
    *bits = moved;
  } else {
    for (int i = 0; i < rest.count; i++) push(s, row, rest.at[i]);
    *bits = moved;
  }
}

// ---- windows

// The part of one axis that a window takes.
typedef struct {
  Instr *start;
  Extent size;
  int64_t stride;
} Taken;

// Is the digit all of its place, from 0 on?
static bool is_all_of_place(const Steps *s, const Digits *axis) {
  const Digit *d = axis->at;
  if (axis->count != 1 || !extent_is(&d->step, 1)) return false;
  const LayoutPlace *p = &s->l->place[d->place];
  return !p->start && !p->constant && extent_same(&p->bound, &d->extent);
}

// Is it provably on the axis?
static bool is_inside(const Taken *t, const Extent *all) {
  int64_t reach;
  if (t->start->op != OP_CONST || t->start->ival < 0 || all->sizes || t->size.sizes) return false;
  if (t->size.factor == 0) return t->start->ival <= all->factor;
  return mul_i64(t->size.factor - 1, t->stride, &reach) && reach < all->factor - t->start->ival;
}

static Digit cut_digit(Steps *s, const Taken *t, const Digit *d) {
  Extent stride = extent_of(t->stride);
  Digit cut = {t->size, d->step, d->place};
  multiply(s, &cut.step, &stride);
  return cut;
}

// Splits a constant window among the digits of an axis. Slow digits have one value in all of it.
// The next one moves: in steps of whole values, or, if the stride is a multiple of those, with the
// faster digits fixed. False: the digits cannot represent it.
static bool split_window(Steps *s, Digits *axis, const Taken *t) {
  int64_t fixed[LAYOUT_DIGITS] = {0}, start = t->start->ival, size = t->size.factor, inner = 1;
  Digits out = {0};
  if (size == 0) return false;
  for (int k = 0; k < axis->count; k++) {
    if (axis->at[k].step.sizes) return false;
    inner *= axis->at[k].extent.factor;
  }
  bool moved = false, whole = false;
  for (int k = 0; k < axis->count; k++) {
    Digit d = axis->at[k];
    inner /= d.extent.factor;
    int64_t last = start + (size - 1) * t->stride;
    if (whole) {
      push(s, &out, d);
      continue;
    }
    fixed[k] = start / inner;
    if (!moved && fixed[k] != last / inner) {
      moved = true;
      whole = t->stride == 1 && start % inner == 0 && size % inner == 0;
      if (!whole && t->stride % inner) return false;
      d.extent = extent_of(whole ? size / inner : size);
      d.step.factor *= whole ? 1 : t->stride / inner;
      push(s, &out, d);
    }
    start %= inner;
  }
  for (int k = 0; k < axis->count; k++)
    s->l->place[axis->at[k].place].constant += fixed[k] * axis->at[k].step.factor;
  *axis = out;
  return true;
}

static void window_axis(Steps *s, Digits *axis, const Taken *t) {
  Extent all = count_of(s, axis);
  if (ir_is_const(t->start, 0) && t->stride == 1 && extent_same(&t->size, &all)) return;
  if (axis->count > 1 && is_inside(t, &all) && split_window(s, axis, t)) return;
  Digit *d = axis->at;
  bool constant = axis->count == 1 && is_inside(t, &all) && d->step.sizes == 0;
  if (constant && t->start->ival) {
    s->l->place[d->place].constant += t->start->ival * d->step.factor;
  } else if (!constant) {
    Digit one = is_all_of_place(s, axis) ? *d : joined(s, axis);
    bool known = t->start->op == OP_CONST;
    s->l->place[one.place].start = known ? NULL : t->start;
    s->l->place[one.place].constant = known ? t->start->ival : 0;
    axis->count = 0;
    push(s, axis, one);
  }
  axis->at[0] = cut_digit(s, t, axis->at);
}

static void window(Steps *s, const Type *before, const Window *w, Instr *const *starts) {
  Digits *axis = s->l->axis;
  int rank = 0, lengths = 0;
  for (int k = 0; k < before->rank && !s->full; k++) {
    Taken t = {starts[k], extent_of_dim(s->k, w->size[k]), w->stride[k]};
    if (w->length[k]) t.size = extent_of_size(s->k->sizes.count + lengths++);
    window_axis(s, &axis[k], &t);
    if (!w->squeeze[k]) axis[rank++] = axis[k];
  }
  axis[rank] = axis[before->rank];
  s->l->rank = rank;
}

// ---- all

static void begin(Steps *s, const Ref *ref) {
  Layout *l = s->l;
  *l = (Layout){.ref = ref, .rank = ref->type.rank};
  for (int k = 0; k <= ref->type.rank; k++) {
    Extent all = k < ref->type.rank ? extent_of_dim(s->k, ref->type.dim[k])
                                    : extent_of(dtype_info[ref->type.dtype].bits);
    new_place(s, all);
    push(s, &l->axis[k], (Digit){all, extent_of(1), k});
  }
}

static void one_step(Steps *s, const ChainStep *step, const Type *before, Instr *const *starts) {
  switch (step->kind) {
    case CHAIN_WINDOW:
      window(s, before, &step->window, starts);
      break;
    case CHAIN_BITCAST:
      bitcast(s, before, &step->type);
      break;
    case CHAIN_RESHAPE:
      reshape(s, before, &step->type);
      break;
    case CHAIN_TRANSPOSE:
      transpose(s, step->perm, before->rank);
      break;
  }
  s->l->rank = step->type.rank;
}

static void all_steps(Steps *s, const Ref *ref, const Chain *chain, Instr *const *starts) {
  const Type *before = &ref->type;
  begin(s, ref);
  for (int i = 0; chain && i < chain->count && !s->full; before = &chain->at[i++].type) {
    one_step(s, &chain->at[i], before, starts);
    if (chain->at[i].kind == CHAIN_WINDOW) starts += before->rank;
  }
}

bool layout_of_chain(const Kernel *k, const Ref *ref, const Chain *chain, Instr *const *starts,
                     Layout *out) {
  Steps s = {.k = k, .l = out};
  all_steps(&s, ref, chain, starts);
  return !s.full;
}

bool ir_layout(const Kernel *k, const Instr *copy, bool target, Layout *out) {
  const Ref *ref = target ? copy->target : copy->ref;
  const Chain *chain = target ? copy->target_chain : copy->chain;
  Steps s = {.k = k, .l = out};
  all_steps(&s, ref, chain, ir_chain_args(copy, target));
  if (!s.full)
    window(&s, ir_seen(ref, chain), target ? &copy->target_window : &copy->window,
           ir_starts(copy, target));
  return !s.full;
}

// ---- both ends

// Gives both ends the same digits, by splitting digits from the fastest on.
static void pair_axis(Steps *a, Steps *b, Digits *x, Digits *y) {
  Digits left = *x, right = *y;
  x->count = y->count = 0;
  while (!a->full && !b->full) {
    Digit *p = fastest(&left), *q = fastest(&right);
    Extent rest;
    if (!p || !q) {
      a->full = a->full || p || q;
      break;
    }
    Extent step = extent_divide(&p->extent, &q->extent, &rest)   ? q->extent
                  : extent_divide(&q->extent, &p->extent, &rest) ? p->extent
                                                                 : extent_of(0);
    if (extent_is(&step, 0)) {  // one digit for all of it
      Digit all = joined(a, &left);
      push(a, x, all);
      all = joined(b, &right);
      push(b, y, all);
      break;
    }
    split_off(a, &left, step, x);
    split_off(b, &right, step, y);
  }
  reverse(x);
  reverse(y);
}

bool layout_pair(const Kernel *k, Layout *a, Layout *b) {
  Steps left = {.k = k, .l = a}, right = {.k = k, .l = b};
  for (int i = 0; i <= a->rank && !left.full; i++)
    pair_axis(&left, &right, &a->axis[i], &b->axis[i]);
  return !left.full && !right.full;
}

bool layout_is_window(const Layout *l, const Digit **digit) {
  int rank = l->ref->type.rank, last = -1;
  const Digits *bits = &l->axis[l->rank];
  for (int k = 0; k < rank; k++) digit[k] = NULL;
  if (l->places > rank + 1 || bits->count != 1 ||
      !extent_same(&bits->at[0].extent, &l->place[rank].bound))
    return false;
  for (int i = 0; i < l->rank; i++) {
    if (l->axis[i].count == 0) continue;
    const Digit *d = l->axis[i].at;
    if (l->axis[i].count > 1 || d->place <= last || d->place >= rank) return false;
    last = d->place;
    digit[last] = d;
  }
  return true;
}

// ---- on numbers

enum { MOST_DIGITS = (MAX_RANK + 1) * LAYOUT_DIGITS };

typedef struct {
  int64_t extent, step;
  int place;
} PlainDigit;

typedef struct {
  const Layout *l;
  int count;
  PlainDigit axis_digit[MOST_DIGITS];  // of all axes
  PlainDigit digit[LAYOUT_PLACES][LAYOUT_DIGITS];
  int64_t bound[LAYOUT_PLACES], sum[LAYOUT_PLACES];
} Walker;

static PlainDigit plain_digit(const Digit *d, const int64_t *sizes) {
  return (PlainDigit){extent_number(&d->extent, sizes), extent_number(&d->step, sizes), d->place};
}

static void begin_walk(Walker *w, const int64_t *sizes, const int64_t *start) {
  const Layout *l = w->l;
  for (int p = 0; p < l->places; p++) {
    w->bound[p] = extent_number(&l->place[p].bound, sizes);
    w->sum[p] = l->place[p].constant + start[p];
    for (int i = 0; i < l->place[p].digits.count; i++)
      w->digit[p][i] = plain_digit(&l->place[p].digits.at[i], sizes);
  }
  for (int k = 0; k <= l->rank; k++)
    for (int i = 0; i < l->axis[k].count - (k == l->rank); i++)
      w->axis_digit[w->count++] = plain_digit(&l->axis[k].at[i], sizes);
}

// Computes the position of one part of a view, and calls `visit` for it.
static void visit_part(const Walker *w, PartVisitor *visit, void *context) {
  const Layout *l = w->l;
  int rank = l->ref->type.rank;
  int64_t at[LAYOUT_PLACES], element = 0;
  memcpy(at, w->sum, sizeof at);
  bool inside = true;
  for (int p = l->places - 1; p > rank; p--) {
    int64_t left = at[p];
    inside = inside && left >= 0 && left < w->bound[p];
    for (int i = l->place[p].digits.count - 1; inside && i >= 0; i--) {
      const PlainDigit *d = &w->digit[p][i];
      at[d->place] += left % d->extent * d->step;
      left /= d->extent;
    }
  }
  for (int k = 0; k < rank; k++) {
    inside = inside && at[k] >= 0 && at[k] < w->bound[k];
    element = inside ? element * w->bound[k] + at[k] : -1;
  }
  visit(context, inside ? element : -1, at[rank]);
}

void layout_walk(const Layout *l, const int64_t *sizes, const int64_t *start, PartVisitor *visit,
                 void *context) {
  Walker w = {.l = l};
  int64_t index[MOST_DIGITS] = {0};
  begin_walk(&w, sizes, start);
  for (int i = 0; i < w.count; i++)
    if (w.axis_digit[i].extent <= 0) return;
  for (;;) {
    visit_part(&w, visit, context);
    int i = w.count - 1;
    for (; i >= 0 && ++index[i] == w.axis_digit[i].extent; i--) {
      w.sum[w.axis_digit[i].place] -= (w.axis_digit[i].extent - 1) * w.axis_digit[i].step;
      index[i] = 0;
    }
    if (i < 0) return;
    w.sum[w.axis_digit[i].place] += w.axis_digit[i].step;
  }
}

int64_t layout_part_count(const Layout *l, const int64_t *sizes) {
  Walker w = {.l = l};
  int64_t parts = 1, start[LAYOUT_PLACES] = {0};
  begin_walk(&w, sizes, start);
  for (int i = 0; i < w.count; i++) {
    if (w.axis_digit[i].extent <= 0) return 0;
    parts = saturating_mul(parts, w.axis_digit[i].extent);
  }
  return parts;
}

int64_t layout_part_bits(const Layout *l) {
  const Digits *bits = &l->axis[l->rank];
  return bits->at[bits->count - 1].extent.factor;
}
