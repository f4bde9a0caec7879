// Windows of copies in the interpreter, of refs and of views, as boxes.
#include "codegen/check/internal.h"

#include <string.h>

// ---- of refs

static void check_end(Interp *in, const Instr *instr, const Box *box, int axis) {
  int64_t size = box->extent[axis], start = box->start[axis], dim = box->dim[axis];
  bool fits = size == 0 || (start >= 0 && last_index(box, axis) < dim);
  if (fits || instr->flags & INSTR_EDGE || instr->op == OP_COPY_WAIT) return;
  find_pair(in, instr, box->ref, FIND_SLICE, instr->span,
            "a copy %s `%s` is out of range on axis %d: %s%s from %lld, but the axis has %lld",
            box->ref == instr->ref ? "from" : "to", box->ref->name, axis,
            count_text(in->words, size),
            box->stride[axis] == 1
                ? ""
                : arena_printf(in->words, " with step %lld", (long long)box->stride[axis]),
            (long long)start, (long long)dim);
}

static int64_t resolve_length(Interp *in, const Instr *instr, const Ref *ref, const Window *window,
                              int axis) {
  const Instr *length = ir_length(instr, window, axis);
  if (!length) return resolve_dim(in->sizes, window->size[axis]);
  const Value *value = value_of(in, length);
  if (poison_at(value, 0))
    find_pair(in, instr, ref, FIND_POISON_INDEX, instr->span,
              "the length of a copy's window on `%s`, axis %d, is unspecified: %s", ref->name, axis,
              poison_cause(in, value->poison[0]));
  return value->i[0];
}

// The start of a window along an axis. A wait uses only the number of bytes, so its window may be
// anywhere.
static int64_t copy_start(Interp *in, const Instr *instr, const Ref *ref, const Instr *start,
                          int axis) {
  static const int64_t farthest = (int64_t)1 << 48;  // beyond any array, safe to multiply
  const Value *value = value_of(in, start);
  if (instr->op != OP_COPY_WAIT && poison_at(value, 0))
    find_pair(in, instr, ref, FIND_POISON_INDEX, instr->span,
              "the start of a copy's window on `%s`, axis %d, is unspecified: %s", ref->name, axis,
              poison_cause(in, value->poison[0]));
  return value->i[0] < -farthest ? -farthest : value->i[0] > farthest ? farthest : value->i[0];
}

static Box window_box(Interp *in, Interp *owner, const Instr *instr, bool target) {
  static const int64_t farthest_stride = (int64_t)1 << 31;
  const Ref *ref = target ? instr->target : instr->ref;
  const Window *window = target ? &instr->target_window : &instr->window;
  Instr *const *starts = ir_starts(instr, target);
  const Value *home = home_of(owner, ref);
  Box box = {.ref = ref, .memory = home, .rank = ref->type.rank};
  for (int i = 0; i < ref->type.rank; i++) {
    box.dim[i] = home->dim[i];
    box.start[i] = copy_start(in, instr, ref, starts[i], i);
    box.extent[i] = resolve_length(in, instr, ref, window, i);
    box.stride[i] = box.extent[i] > 1 ? window->stride[i] : 1;
    check_end(in, instr, &box, i);
    if (box.stride[i] > farthest_stride) box.stride[i] = farthest_stride;
  }
  return box;
}

// ---- of views: layouts

// The layouts of both ends of a copy. plain: both are windows of their refs, with the digits of
// these; otherwise they get the same digits.
typedef struct SeenPair {
  Layout end[2];
  const Digit *digit[2][MAX_RANK];
  bool plain;
  int64_t *sizes;  // of the kernel, followed by the lengths of the copy that runs
  SeenPool pool;
} SeenPair;

static SeenPair *pair_of(Interp *in, const Instr *instr) {
  SeenPair *pair = in->seen[instr->id];
  if (pair) return pair;
  pair = in->seen[instr->id] = NEW(in->arena, SeenPair);
  bool fits =
      ir_layout(in->k, instr, false, &pair->end[0]) && ir_layout(in->k, instr, true, &pair->end[1]);
  pair->plain = fits && instr->ref->type.dtype == instr->target->type.dtype &&
                layout_is_window(&pair->end[0], pair->digit[0]) &&
                layout_is_window(&pair->end[1], pair->digit[1]);
  REQUIRE(fits && (pair->plain || layout_pair(in->k, &pair->end[0], &pair->end[1])));
  pair->pool.sizes = in->k->sizes.count + ir_length_count(instr);
  pair->sizes = NEW_ARRAY(in->arena, int64_t, pair->pool.sizes + 1);
  memcpy(pair->sizes, in->sizes, (size_t)in->k->sizes.count * sizeof *pair->sizes);
  return pair;
}

static void read_lengths(Interp *in, const Instr *instr, SeenPair *pair) {
  for (int i = 0, n = in->k->sizes.count; n < pair->pool.sizes; i++)
    if (instr->window.length[i])
      pair->sizes[n++] = resolve_length(in, instr, instr->ref, &instr->window, i);
}

// ---- boxes

// The range of the digits of the axes, or of a place, along a place.
static int64_t reach_of(const Layout *l, const int64_t *sizes, int place) {
  int64_t reach = 0;
  for (int k = 0; k < l->rank; k++)
    for (int i = 0; i < l->axis[k].count; i++) {
      const Digit *d = &l->axis[k].at[i];
      if (d->place == place)
        reach = saturating_add(reach, saturating_mul(extent_number(&d->extent, sizes) - 1,
                                                     extent_number(&d->step, sizes)));
    }
  return reach;
}

static bool has_elements(const Layout *l, const int64_t *sizes) {
  for (int k = 0; k < l->rank; k++)
    for (int i = 0; i < l->axis[k].count; i++)
      if (extent_number(&l->axis[k].at[i].extent, sizes) <= 0) return false;
  return true;
}

static void report_place(Interp *in, const Instr *instr, const Seen *s, int place) {
  const Layout *l = s->layout;
  int64_t bound = extent_number(&l->place[place].bound, s->sizes),
          first = s->start[place] + l->place[place].constant, reach = reach_of(l, s->sizes, place);
  if (place == l->ref->type.rank || !has_elements(l, s->sizes)) return;
  if (first >= 0 && saturating_add(first, reach) < bound) return;
  if (instr->flags & INSTR_EDGE || instr->op == OP_COPY_WAIT) return;
  bool axis = place < l->ref->type.rank;
  find_pair(in, instr, l->ref, FIND_SLICE, instr->span,
            "a copy %s `%s` is out of range%s: a window is from %lld to %lld, but %s has %lld",
            l->ref == instr->ref ? "from" : "to", l->ref->name,
            axis ? arena_printf(in->words, " on axis %d", place) : "", (long long)first,
            (long long)saturating_add(first, reach), axis ? "the axis" : "the outer window",
            (long long)bound);
}

static Box seen_box(Interp *in, Interp *owner, const Instr *instr, SeenPair *pair,
                    const Layout *l) {
  const Value *home = home_of(owner, l->ref);
  Seen *s = seen_new(in, &pair->pool, l, pair->sizes);
  Box box = {.ref = l->ref, .memory = home, .rank = l->ref->type.rank, .seen = s};
  for (int i = 0; i < box.rank; i++) {
    box.dim[i] = box.extent[i] = home->dim[i];
    box.stride[i] = 1;
  }
  for (int p = 0; p < l->places; p++) {
    const Instr *start = l->place[p].start;
    s->start[p] = start ? copy_start(in, instr, l->ref, start, p) : 0;
    report_place(in, instr, s, p);
  }
  return box;
}

// A view that is a window of its ref.
static Box plain_box(Interp *in, Interp *owner, const Instr *instr, const Layout *l,
                     const Digit *const *digit, const int64_t *sizes) {
  const Value *home = home_of(owner, l->ref);
  Box box = {.ref = l->ref, .memory = home, .rank = l->ref->type.rank};
  for (int i = 0; i < box.rank; i++) {
    const LayoutPlace *p = &l->place[i];
    box.dim[i] = home->dim[i];
    box.start[i] = p->constant + (p->start ? copy_start(in, instr, l->ref, p->start, i) : 0);
    box.extent[i] = digit[i] ? extent_number(&digit[i]->extent, sizes) : 1;
    box.stride[i] = box.extent[i] > 1 ? extent_number(&digit[i]->step, sizes) : 1;
    check_end(in, instr, &box, i);
  }
  return box;
}

// A copy whose parts need too much memory is empty, and ends the run.
static void bound_parts(Interp *in, const SeenPair *pair, const Box *from, const Box *to) {
  const int64_t bytes = bytes_of_parts(&pair->end[0], pair->sizes);
  if (has_memory(in, bytes)) return;
  stop_for_memory(in, bytes);
  from->seen->empty = to->seen->empty = true;
}

static void seen_boxes(Interp *in, Interp *owner, const Instr *instr, Box *from, Box *to) {
  SeenPair *pair = pair_of(in, instr);
  read_lengths(in, instr, pair);
  for (int end = 0; end < 2; end++) {
    Interp *of = end ? owner : in;
    const Layout *l = &pair->end[end];
    *(end ? to : from) = pair->plain ? plain_box(in, of, instr, l, pair->digit[end], pair->sizes)
                                     : seen_box(in, of, instr, pair, l);
  }
  if (!pair->plain) bound_parts(in, pair, from, to);
}

// ---- of a copy

int64_t copy_boxes(Interp *in, Interp *owner, const Instr *instr, Box *from, Box *to) {
  const Type *seen = ir_seen(instr->target, instr->target_chain);
  int64_t bytes = dtype_bytes(seen->dtype);
  if (ir_copies_views(instr)) {
    seen_boxes(in, owner, instr, from, to);
  } else {
    *from = window_box(in, in, instr, false);
    *to = window_box(in, owner, instr, true);
  }
  for (int i = 0; i < seen->rank; i++)
    bytes =
        saturating_mul(bytes, resolve_length(in, instr, instr->target, &instr->target_window, i));
  return bytes;
}
