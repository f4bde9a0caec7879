// How a load or store through a view reaches its ref: a window of the ref, and shape operations on
// the value, both read off the layout of the view's chain.
//
// The layout gives the view's axes as digits of the ref's axes and of the bits of its elements. If
// the digits of each axis of the ref are dense, they are a window of it. Its value is split into
// the digits, which are permuted and joined in the view's order. Rows that become one element, or
// are parts of one, need not be permuted one by one: they are joined before it, or taken apart
// after it.
#include "codegen/ir/facts.h"
#include "codegen/ir/layout.h"
#include "codegen/lower/refs.h"

enum { MOST_DIGITS = 4 * LAYOUT_DIGITS };

// A digit, and the first and the last axis of the view that it is of.
typedef struct {
  Digit of;
  int first, last;
  bool part;   // it counts the parts of an element of the view
  bool stays;  // no transpose moves it: rows are taken apart or joined along it
} Seen;

// The digits of all axes of a view, slowest first. The digits of the bits of an element, except the
// last one, precede the last axis and count as digits of the axis before it.
typedef struct {
  Lower *l;
  Span span;
  const RefView *view;
  bool parts_alone;  // digits of parts are not merged with others
  Layout layout;
  int count;
  Seen digit[MOST_DIGITS];
} Tracing;

static bool push(Tracing *t, Seen d) {
  if (extent_is(&d.of.extent, 1)) return true;
  if (t->count == MOST_DIGITS) return false;
  t->digit[t->count++] = d;
  return true;
}

// Does digit `a` count on where `b` ends? Then both are one.
static bool follows(const Digit *a, const Digit *b, Digit *both) {
  Extent reach;
  *both = *b;
  return a->place == b->place && extent_mul(&b->step, &b->extent, &reach) &&
         extent_same(&reach, &a->step) && extent_mul(&a->extent, &b->extent, &both->extent);
}

static void merge(Tracing *t) {
  int count = 0;
  for (int i = 0; i < t->count; i++) {
    const Seen *d = &t->digit[i];
    Digit both;
    Seen *before = count ? &t->digit[count - 1] : NULL;
    bool alike = before && (before->part == d->part || !t->parts_alone);
    if (alike && follows(&before->of, &d->of, &both))
      *before = (Seen){both, before->first, d->last, before->part && d->part, false};
    else
      t->digit[count++] = *d;
  }
  t->count = count;
}

static bool push_all(Tracing *t, const Digits *list, int count, int axis, bool part) {
  for (int i = 0; i < count; i++)
    if (!push(t, (Seen){.of = list->at[i], .first = axis, .last = axis, .part = part}))
      return false;
  return true;
}

static bool flatten(Tracing *t) {
  const Layout *layout = &t->layout;
  const Digits *bits = &layout->axis[layout->rank];
  for (int k = 0; k < layout->rank; k++) {
    bool row = k == layout->rank - 2;
    if (!push_all(t, &layout->axis[k], layout->axis[k].count, k, false) ||
        (row && !push_all(t, bits, bits->count - 1, k, true)))
      return false;
  }
  merge(t);
  return layout->rank > 1 || bits->count == 1;
}

// ---- places that windows created: digits that count in them become digits of the ref

// Multiplies by a constant, divides by it, or takes the remainder.
static Instr *scaled(const Tracing *t, Op op, Instr *a, int64_t b) {
  return b == 1 && op != OP_REM ? a : index_op(t->l, op, a, index_const(t->l, b, t->span), t->span);
}

static Instr *sum(const Tracing *t, Instr *a, Instr *b) {
  return a ? index_op(t->l, OP_ADD, a, b, t->span) : b;
}

// The expansion of a place into its digits.
typedef struct {
  const Digits *digits;
  Extent inner[LAYOUT_DIGITS];     // of each digit: the product of the faster ones
  int64_t highest[LAYOUT_DIGITS];  // the greatest value of each in the window
} Expansion;

// A run-time start moves all digits from the slowest to the one that it is a multiple of; these may
// have any value. `*left`: the part of the constant that the faster digits have.
static bool expand_moving_start(Tracing *t, Expansion *e, const LayoutPlace *p, int *count,
                                int64_t *left) {
  int last = 0;
  if (e->digits->count == 0) return true;  // of one element
  while (!e->inner[last].sizes && !is_multiple(p->start, e->inner[last].factor, NULL)) last++;
  if (e->inner[last].sizes) return false;
  *left = p->constant % e->inner[last].factor;
  *count = last + 1;
  Instr *constant = index_const(t->l, p->constant - *left, t->span);
  Instr *start = p->constant > *left ? sum(t, p->start, constant) : p->start;
  for (int k = 0; k <= last; k++) {
    const Digit *d = &e->digits->at[k];
    LayoutPlace *to = &t->layout.place[d->place];
    if (e->inner[k].sizes || d->step.sizes) return false;
    Instr *value = scaled(t, OP_DIV, start, e->inner[k].factor);
    if (k) value = scaled(t, OP_REM, value, d->extent.factor);
    to->start = sum(t, to->start, scaled(t, OP_MUL, value, d->step.factor));
    if (k) e->highest[k] = d->extent.factor - 1;
  }
  return true;
}

// The start of the window.
static bool expand_start(Tracing *t, Expansion *e, const LayoutPlace *p) {
  const Digits *digits = e->digits;
  int64_t left = p->constant;
  int k = 0;
  if (left < 0 || (p->start && !expand_moving_start(t, e, p, &k, &left))) return false;
  for (; k < digits->count && left; k++) {
    const Extent *inner = &e->inner[k], *step = &digits->at[k].step;
    LayoutPlace *to = &t->layout.place[digits->at[k].place];
    if (inner->sizes || step->sizes) return false;
    e->highest[k] = left / inner->factor;
    left %= inner->factor;
    to->constant += e->highest[k] * step->factor;
  }
  return true;
}

// Does a window's digit with this step stay below the extent of digit k? Then it needs no slower
// digit.
static bool stays(Expansion *e, int k, const Extent *extent, const Extent *step) {
  const Extent *room = &e->digits->at[k].extent;
  if (k == 0) return true;
  if (extent_is(step, 1) && extent_same(extent, room)) return e->highest[k] == 0;
  if (extent->sizes || room->sizes || step->sizes) return false;
  e->highest[k] += (extent->factor - 1) * step->factor;
  return e->highest[k] < room->factor;
}

// Replaces digit `d` of the place by digits of the places that make it up.
static bool expand_digit(Tracing *t, Expansion *e, Seen seen) {
  Digit made[LAYOUT_DIGITS], d = seen.of;
  int count = 0;
  for (int k = e->digits->count - 1; k >= 0; k--) {
    const Digit *of = &e->digits->at[k];
    Extent times, room, rest;
    if (!extent_divide(&d.step, &e->inner[k], &times)) return false;
    if (k && extent_divide(&times, &of->extent, &rest)) continue;  // a slower digit
    Digit part = {d.extent, times, of->place};
    bool covers =
        k && extent_divide(&of->extent, &times, &room) && extent_divide(&d.extent, &room, &rest);
    if (covers) part.extent = room;
    if (!extent_mul(&part.step, &of->step, &part.step)) return false;
    made[count++] = part;
    if (!stays(e, k, &part.extent, &times)) return false;
    if (!covers || extent_is(&rest, 1)) break;
    d.extent = rest;
    d.step = e->inner[k - 1];
  }
  bool fits = true;
  while (count > 0) {
    seen.of = made[--count];
    fits = fits && push(t, seen);
  }
  return fits;
}

static bool expand_place(Tracing *t, int place) {
  Expansion e = {.digits = &t->layout.place[place].digits};
  Tracing before = *t;
  Extent inner = extent_of(1);
  for (int k = e.digits->count - 1; k >= 0; k--) {
    e.inner[k] = inner;
    if (!extent_mul(&inner, &e.digits->at[k].extent, &inner)) return false;
  }
  if (!expand_start(t, &e, &t->layout.place[place])) return false;
  t->count = 0;
  for (int i = 0; i < before.count; i++) {
    const Seen *d = &before.digit[i];
    if (!(d->of.place == place ? expand_digit(t, &e, *d) : push(t, *d))) return false;
  }
  merge(t);
  return true;
}

// ---- the window of the ref

// The digits of one place of the ref, fastest first: numbers in Tracing.digit.
typedef struct {
  int count;
  int at[MAX_RANK];
} Line;

// Is digit i the next one of the line? A line begins with the digit of the smallest step.
static bool continues(const Tracing *t, const Line *line, const Extent *reach, int i) {
  const Digit *d = &t->digit[i].of;
  Extent times;
  if (line->count) return extent_same(&d->step, reach);
  for (int j = 0; j < t->count; j++)
    if (t->digit[j].of.place == d->place && !extent_divide(&t->digit[j].of.step, &d->step, &times))
      return false;
  return true;
}

// Orders the digits of a place; false if they are not dense from `reach` on.
static bool order(const Tracing *t, int place, Extent reach, Line *line) {
  int left = 0;
  for (int i = 0; i < t->count; i++) left += t->digit[i].of.place == place;
  while (line->count < left) {
    int next = 0;
    while (next < t->count &&
           !(t->digit[next].of.place == place && continues(t, line, &reach, next)))
      next++;
    if (next == t->count || line->count == MAX_RANK) return false;
    const Digit *d = &t->digit[next].of;
    line->at[line->count++] = next;
    if (!extent_mul(&d->step, &d->extent, &reach)) return false;
  }
  return true;
}

static bool find_dim(const Tracing *t, const Type *type, const Extent *extent, Dim *out) {
  for (int k = 0; k < type->rank; k++) {
    Extent dim = extent_of_dim(t->l->k, *out = type->dim[k]);
    if (extent_same(&dim, extent)) return true;
  }
  return false;
}

// An extent as the length of an axis: one that an axis of the view has, or a product.
static bool dim_of(const Tracing *t, const Extent *extent, Dim *out) {
  const RefView *view = t->view;
  Dim factors[EXTENT_SIZES + 1] = {extent->factor};
  bool found = find_dim(t, &view->window.ref->type, extent, out) ||
               find_dim(t, &view->window.type, extent, out);
  for (int i = 0; !found && i < view->steps.count; i++)
    found = find_dim(t, &view->steps.at[i].type, extent, out);
  for (int i = 0; i < extent->sizes; i++) factors[i + 1] = dim_of_size(extent->size[i]);
  return found || product_dim(t->l, factors, extent->sizes + 1, t->span, out);
}

static Instr *start_of(const Tracing *t, const LayoutPlace *p) {
  Instr *constant = index_const(t->l, p->constant, t->span);
  return !p->start ? constant : p->constant ? sum(t, p->start, constant) : p->start;
}

static bool window_of_axis(Tracing *t, int axis, const Line *line, View *out) {
  const LayoutPlace *p = &t->layout.place[axis];
  Window *w = &out->window;
  Extent size = extent_of(1), stride = extent_of(1);
  for (int i = 0; i < line->count; i++) {
    const Digit *d = &t->digit[line->at[i]].of;
    if (i == 0) stride = d->step;
    if (!extent_mul(&size, &d->extent, &size)) return false;
  }
  if (stride.sizes || !dim_of(t, &size, &w->size[axis])) return false;
  w->stride[axis] = stride.factor;
  w->squeeze[axis] = line->count == 0 && t->view->window.window.squeeze[axis];
  out->starts[axis] = start_of(t, p);
  if (!w->squeeze[axis]) out->type.dim[out->type.rank++] = w->size[axis];
  return true;
}

// ---- the order of the digits

static DType dtype_of_part(const Type *ref, const Type *view, int bits) {
  return dtype_info[view->dtype].bits == bits  ? view->dtype
         : dtype_info[ref->dtype].bits == bits ? ref->dtype
                                               : unsigned_of_width(bits);
}

// The digits of the window's value, slowest first; those of the bits come before its last axis.
static void order_of_value(const View *window, const Line *line, int *from) {
  int rank = window->ref->type.rank, last = rank - 1, count = 0;
  const Line *bits = &line[rank];
  while (last > 0 && window->window.squeeze[last]) last--;
  for (int axis = 0; axis < rank; axis++) {
    for (int i = axis == last ? bits->count - 1 : -1; i >= 0; i--) from[count++] = bits->at[i];
    for (int i = line[axis].count - 1; i >= 0; i--) from[count++] = line[axis].at[i];
  }
}

// Digits that are adjacent in the window's value and in one axis of the view move as one.
static bool is_joined(const Tracing *t, int before, int i) {
  return i == before + 1 && t->digit[before].last == t->digit[i].first;
}

// place[i]: where the view has digit i of the window's value.
static bool permute(const Tracing *t, const int *place, const Extent *extent, int count,
                    Route *out) {
  bool moved = false;
  for (int i = 0; i < MAX_RANK; i++) out->perm[i] = i;
  for (int i = 1; i < count; i++) moved = moved || place[i] < place[i - 1];
  out->split = out->parts;
  if (!moved) return true;
  if (count > MAX_RANK) return false;
  out->split.rank = count;
  for (int i = 0; i < count; i++) {
    int at = 0;
    for (int j = 0; j < count; j++) at += place[j] < place[i];
    out->perm[at] = i;
    if (!dim_of(t, &extent[i], &out->split.dim[i])) return false;
  }
  return true;
}

static bool set_order(const Tracing *t, const Line *line, Route *out) {
  int from[MOST_DIGITS], place[MOST_DIGITS], count = 0;
  Extent extent[MOST_DIGITS];
  order_of_value(&out->window, line, from);
  for (int i = 0; i < t->count; i++) {
    if (t->digit[from[i]].stays) continue;
    const Extent *here = &t->digit[from[i]].of.extent;
    if (count && is_joined(t, from[i - 1], from[i])) {
      if (!extent_mul(&extent[count - 1], here, &extent[count - 1])) return false;
    } else {
      place[count] = from[i];
      extent[count++] = *here;
    }
  }
  return permute(t, place, extent, count, out);
}

static bool set_types(const Tracing *t, const Line *bits, Route *out) {
  const Type *seen = view_type(t->view), *window = &out->window.type;
  int64_t width = layout_part_bits(&t->layout), have = dtype_info[window->dtype].bits,
          want = dtype_info[seen->dtype].bits;
  bool apart = have != width, joins = want != width;
  if (out->bit) apart = false;
  if ((apart && (window->rank < 2 || window->rank == MAX_RANK)) ||
      (joins && seen->rank == MAX_RANK))
    return false;
  out->parts = with_dtype(*window, dtype_of_part(window, seen, (int)width));
  out->seen = with_dtype(*seen, out->parts.dtype);
  out->type = *seen;
  if (apart) out->parts.dim[window->rank - 2] *= have / width;
  if (joins) out->seen.dim[seen->rank - 2] *= want / width;
  return (bits->count > 0) == apart;
}

static bool starts_at_zero(const LayoutPlace *p) { return !p->start && p->constant == 0; }

// Whether the view sees all bits of an element, in whole parts, or one part, whose first bit is
// `*bit`.
static bool find_bits(const Tracing *t, Line *bits, Instr **bit) {
  int rank = t->layout.ref->type.rank;
  int64_t width = layout_part_bits(&t->layout), have = dtype_info[t->layout.ref->type.dtype].bits;
  const LayoutPlace *place = &t->layout.place[rank];
  Extent reach = extent_of(width), all = extent_of(have);
  if (!order(t, rank, reach, bits)) return false;
  if (bits->count == 0 && width < have) {
    *bit = start_of(t, place);
    return true;
  }
  if (!starts_at_zero(place)) return false;
  for (int i = 0; i < bits->count; i++) {
    const Digit *d = &t->digit[bits->at[i]].of;
    if (!extent_same(&d->step, &reach) || !extent_mul(&reach, &d->extent, &reach)) return false;
  }
  return extent_same(&reach, &all);
}

// ---- whole elements: where a transpose need not move parts, it moves elements

static int row_axis(const View *window) {
  int k = window->ref->type.rank - 1;
  for (int left = 1; k >= 0 && (left || window->window.squeeze[k]); k--)
    left -= !window->window.squeeze[k];
  return k;
}

// Are the parts of the view's elements consecutive rows of the window? Then these are joined first.
static bool joins_rows(Tracing *t, const Line *line, const View *window, int64_t parts) {
  const Line *row = &line[row_axis(window)];
  for (int i = 0; i < row->count && parts > 1; i++) {
    Seen *d = &t->digit[row->at[i]];
    if (!d->part || (i && row->at[i] > row->at[i - 1])) return false;
    parts /= d->of.extent.factor;
    d->stays = true;
  }
  return parts == 1;
}

// Are the parts of an element of the window consecutive rows of the view? Then it is taken apart
// last.
static bool splits_rows(Tracing *t, const Line *bits, int columns) {
  int end = 0;
  while (end < t->count && t->digit[end].first < columns) end++;
  for (int i = 0; i < bits->count; i++) {
    Seen *d = &t->digit[bits->at[i]];
    if (bits->at[i] != end - 1 - i || d->first != columns - 1 || d->last >= columns) return false;
    d->stays = true;
  }
  return true;
}

static bool is_transposed(const Route *r) {
  for (int i = 0; i < MAX_RANK; i++)
    if (r->perm[i] != i) return true;
  return false;
}

static bool trace(Tracing *t) {
  Arguments starts = {0};
  const Chain *chain = push_chain(t->l, &starts, t->view, true, t->span);
  const Ref *ref = t->view->window.ref;
  if (!layout_of_chain(t->l->k, ref, chain, starts.at, &t->layout) || !flatten(t)) return false;
  for (int p = t->layout.places - 1; p > ref->type.rank; p--)
    if (!expand_place(t, p)) return false;
  return true;
}

// Finds a route that moves parts: line[axis] has the digits along an axis of the ref.
static bool route_of_parts(Tracing *t, Line *line, Route *out) {
  Ref *ref = t->view->window.ref;
  int rank = ref->type.rank;
  Instr *bit = NULL;
  if (!trace(t) || !find_bits(t, &line[rank], &bit)) return false;
  *out = (Route){.window = {.ref = ref}, .bit = bit};
  out->window.type.dtype = ref->type.dtype;
  for (int axis = 0; axis < rank; axis++)
    if (!order(t, axis, extent_of(1), &line[axis]) ||
        !window_of_axis(t, axis, &line[axis], &out->window))
      return false;
  return set_types(t, &line[rank], out) && set_order(t, line, out);
}

static bool joined_first(const Tracing *of, const Route *parts, Route *out) {
  Tracing *t = NEW(of->l->arena, Tracing);
  Line line[MAX_RANK + 1] = {0};
  int64_t count = dtype_info[parts->type.dtype].bits / dtype_info[parts->parts.dtype].bits;
  int row = parts->window.type.rank - 2;
  *t = (Tracing){.l = of->l, .span = of->span, .view = of->view, .parts_alone = true};
  if (!dim_is_const(parts->window.type.dim[row]) || !route_of_parts(t, line, out) ||
      !joins_rows(t, line, &out->window, count))
    return false;
  out->parts = with_dtype(out->window.type, out->type.dtype);
  out->parts.dim[row] /= count;
  out->seen = out->type;
  return set_order(t, line, out);
}

static bool split_last(Tracing *t, const Line *line, const Route *parts, Route *out) {
  int64_t count = dtype_info[parts->window.type.dtype].bits / dtype_info[parts->type.dtype].bits;
  int rank = parts->type.rank;
  *out = *parts;
  if (rank < 2 || !splits_rows(t, &line[t->layout.ref->type.rank], rank - 1)) return false;
  out->parts = out->window.type;
  out->seen = with_dtype(out->type, out->parts.dtype);
  out->seen.dim[rank - 2] /= count;
  return set_order(t, line, out);
}

// A transpose that moves whole elements, the wider ones, in place of parts, if there is one.
// The mask of a store needs an axis more, so there is none if either side has 8 axes.
static void move_elements(Tracing *t, const Line *line, Route *route) {
  int part = dtype_info[route->parts.dtype].bits, have = dtype_info[route->window.type.dtype].bits,
      want = dtype_info[route->type.dtype].bits;
  Route whole;
  if (route->window.type.rank == MAX_RANK || route->type.rank == MAX_RANK) return;
  bool found = have == part && want > part   ? joined_first(t, route, &whole)
               : want == part && have > part ? split_last(t, line, route, &whole)
                                             : false;
  if (found) *route = whole;
}

bool route_of_view(Lower *l, const RefView *view, Route *out, Span span) {
  Tracing *t = NEW(l->arena, Tracing);
  Line line[MAX_RANK + 1] = {0};
  *t = (Tracing){.l = l, .span = span, .view = view};
  if (!route_of_parts(t, line, out)) return false;
  if (is_transposed(out) && !out->bit) move_elements(t, line, out);
  return true;
}
