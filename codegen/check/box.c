// Boxes of memory: which elements two of them share.
#include "codegen/check/internal.h"

#include <stdlib.h>
#include <string.h>

Box whole_block(Interp *in, const Ref *ref) {
  const Value *block = &in->refs[ref->id].block;
  Box box = {.ref = ref, .memory = block, .rank = block->rank};
  for (int i = 0; i < block->rank; i++) {
    box.dim[i] = box.extent[i] = block->dim[i];
    box.stride[i] = 1;
  }
  return box;
}

const KeptBox *keep_box(Arena *arena, const Box *box) {
  KeptBox *kept = arena_alloc(arena, sizeof *kept + sizeof *kept->axis * (size_t)box->rank);
  kept->ref = box->ref;
  kept->memory = box->memory;
  kept->seen = box->seen;
  hold_box(box);
  kept->rank = box->rank;
  for (int i = 0; i < box->rank; i++)
    kept->axis[i] = (BoxAxis){box->dim[i], box->start[i], box->extent[i], box->stride[i]};
  return kept;
}

Box kept_box(const KeptBox *kept) {
  Box box = {.ref = kept->ref, .memory = kept->memory, .seen = kept->seen, .rank = kept->rank};
  for (int i = 0; i < kept->rank; i++) {
    box.dim[i] = kept->axis[i].dim;
    box.start[i] = kept->axis[i].start;
    box.extent[i] = kept->axis[i].extent;
    box.stride[i] = kept->axis[i].stride;
  }
  return box;
}

static int64_t last_of(int64_t start, int64_t extent, int64_t stride) {
  int64_t reach, last;
  if (!mul_i64(extent - 1, stride, &reach) || !add_i64(start, reach, &last)) return INT64_MAX;
  return last;
}

int64_t last_index(const Box *box, int axis) {
  return last_of(box->start[axis], box->extent[axis], box->stride[axis]);
}

static bool holds_index(const Box *box, int axis, int64_t index) {
  return index >= box->start[axis] && index <= last_index(box, axis) &&
         (index - box->start[axis]) % box->stride[axis] == 0;
}

// The indices that two boxes share along an axis; returns their number.
static int64_t overlap_axis(const Box *a, const Box *b, int axis, Overlap *out) {
  if (a->stride[axis] < b->stride[axis]) return overlap_axis(b, a, axis, out);
  int64_t low = a->start[axis], step = a->stride[axis], high = last_index(a, axis),
          end = last_index(b, axis), count = 0;
  int64_t from = b->start[axis] > 0 ? b->start[axis] : 0;
  if (end > a->dim[axis] - 1) end = a->dim[axis] - 1;
  if (end < high) high = end;
  if (a->extent[axis] <= 0 || b->extent[axis] <= 0) return 0;
  if (low < from) low += (from - low + step - 1) / step * step;
  if (step == 1) {
    out->first[axis] = low;
    out->last[axis] = high;
    return high < low ? 0 : high - low + 1;
  }
  for (int64_t index = low; index <= high; index += step) {
    if (!holds_index(b, axis, index)) continue;
    if (count++ == 0) out->first[axis] = index;
    out->last[axis] = index;
  }
  return count;
}

// Positions that are inside do not overflow; others may, so they are not computed.
void box_inside(const Box *box, int axis, int64_t *first, int64_t *end) {
  const int64_t start = box->start[axis], extent = box->extent[axis], dim = box->dim[axis];
  const uint64_t step = (uint64_t)box->stride[axis],
                 before = start < 0 ? (uint64_t) - (start + 1) / step + 1 : 0;
  *first = *end = 0;
  if (extent <= 0 || before >= (uint64_t)extent) return;
  const int64_t at = (int64_t)((uint64_t)start + before * step);
  if (at >= dim) return;
  const uint64_t count = (uint64_t)(dim - 1 - at) / step + 1, left = (uint64_t)extent - before;
  *first = (int64_t)before;
  *end = (int64_t)(before + (count < left ? count : left));
}

// ---- the elements that an access reaches

static void index_of(const Box *box, int64_t element, int64_t *index) {
  for (int i = box->rank - 1; i >= 0; element /= box->dim[i--]) index[i] = element % box->dim[i];
}

typedef struct {
  const Box *box;
  ElementVisitor *visit;
  void *context;
} Visiting;

static void visit_element(void *context, int64_t element, int64_t bit) {
  const Visiting *v = context;
  int64_t index[MAX_RANK];
  if (element < 0) return;
  index_of(v->box, element, index);
  v->visit(v->context, bit, index);
}

static void visit_seen(const Box *box, ElementVisitor *visit, void *context) {
  walk_seen(box->seen, visit_element, &(Visiting){box, visit, context});
}

// Calls `visit` for each element of a box that is within its memory.
void visit_box(const Box *box, ElementVisitor *visit, void *context) {
  int64_t at[MAX_RANK], index[MAX_RANK] = {0}, first[MAX_RANK], end[MAX_RANK];
  const int last = box->rank - 1;
  int axis;
  if (box->seen) {
    visit_seen(box, visit, context);
    return;
  }
  for (int i = 0; i < box->rank; i++) {
    box_inside(box, i, &first[i], &end[i]);
    if (first[i] >= end[i]) return;
    at[i] = first[i];
  }
  if (last < 0) visit(context, 0, index);
  for (axis = last; axis >= 0;) {
    uint64_t number = 0;  // of the line's first element
    for (int i = 0; i < last; i++) {
      number = (number + (uint64_t)at[i]) * (uint64_t)box->extent[i + 1];
      index[i] = box->start[i] + at[i] * box->stride[i];
    }
    for (int64_t e = first[last]; e < end[last]; e++) {
      index[last] = box->start[last] + e * box->stride[last];
      visit(context, (int64_t)(number + (uint64_t)e), index);
    }
    for (axis = last - 1; axis >= 0 && ++at[axis] == end[axis]; axis--) at[axis] = first[axis];
  }
}

// The bytes of an element that are in a box, one bit each.
typedef struct {
  uint8_t *mark;
  uint8_t bytes;  // of a part, from the lowest
  const Box *box;
  Overlap *out;  // NULL: marks
} Marking;

static void mark_part(void *context, int64_t element, int64_t bit) {
  const Marking *m = context;
  uint8_t bytes = (uint8_t)(m->bytes << bit / 8);
  if (element < 0) return;
  if (!m->out) {
    m->mark[element] |= bytes;
    return;
  }
  if (!(m->mark[element] & bytes)) return;
  m->mark[element] = 0;
  int64_t index[MAX_RANK];
  index_of(m->box, element, index);
  size_t size = sizeof *index * (size_t)m->box->rank;
  if (m->out->count++ == 0) memcpy(m->out->first, index, size);
  memcpy(m->out->last, index, size);
}

typedef struct {
  Marking *marking;
  const Value *mask;
} Elements;

static void mark_element(void *context, int64_t number, const int64_t *index) {
  const Elements *e = context;
  const Box *box = e->marking->box;
  int64_t element = 0;
  if (e->mask && !e->mask->i[number]) return;
  for (int i = 0; i < box->rank; i++) element = element * box->dim[i] + index[i];
  mark_part(e->marking, element, 0);
}

static void mark_box(Marking *m, const Box *box, const Value *mask) {
  m->box = box;
  m->bytes = UINT8_MAX;
  if (box->seen) {
    int64_t bits = layout_part_bits(box->seen->layout);
    m->bytes = (uint8_t)((1U << (bits + 7) / 8) - 1);
    walk_seen(box->seen, mark_part, m);
  } else {
    visit_box(box, mark_element, &(Elements){m, mask});
  }
}

// Is one box past the other along some axis?
static bool is_apart(const Box *box, const KeptBox *kept) {
  for (int i = 0; i < kept->rank && !kept->seen && !box->seen; i++) {
    const BoxAxis *axis = &kept->axis[i];
    if (axis->start > last_index(box, i) ||
        last_of(axis->start, axis->extent, axis->stride) < box->start[i])
      return true;
  }
  return false;
}

static bool seen_overlap(const Box *box, const Box *other, const Value *mask, Overlap *out) {
  int64_t count = 1;
  out->count = 0;
  if (box->memory != other->memory) return false;
  for (int i = 0; i < box->rank; i++) count *= box->dim[i];
  Marking m = {.mark = calloc((size_t)count + 1, 1)};
  if (!m.mark) INTERNAL("no memory for %lld marks", (long long)count);
  mark_box(&m, other, NULL);
  m.out = out;
  mark_box(&m, box, mask);
  free(m.mark);
  return out->count > 0;
}

// ---- overlaps

bool overlap(const Box *a, const Box *b, Overlap *out) {
  if (a->seen || b->seen) return seen_overlap(a, b, NULL, out);
  if (a->memory != b->memory) return false;
  out->count = 1;
  for (int i = 0; i < a->rank && out->count; i++) out->count *= overlap_axis(a, b, i, out);
  return out->count > 0;
}

// For a masked access, only the elements whose mask is true.
typedef struct {
  const Box *other;
  const Value *mask;
  Overlap *out;
} MaskedOverlap;

static void visit_masked(void *context, int64_t number, const int64_t *index) {
  const MaskedOverlap *m = context;
  if (!m->mask->i[number]) return;
  for (int i = 0; i < m->other->rank; i++)
    if (!holds_index(m->other, i, index[i])) return;
  size_t bytes = sizeof *index * (size_t)m->other->rank;
  if (m->out->count++ == 0) memcpy(m->out->first, index, bytes);
  memcpy(m->out->last, index, bytes);
}

bool masked_overlap(const Box *box, const Box *other, const Value *mask, Overlap *out) {
  if (other->seen) return seen_overlap(box, other, mask, out);
  if (!overlap(box, other, out) || !mask) return out->count > 0 && box->memory == other->memory;
  out->count = 0;
  visit_box(box, visit_masked, &(MaskedOverlap){other, mask, out});
  return out->count > 0;
}

bool kept_overlap(const Box *box, const KeptBox *kept, const Value *mask, Overlap *out) {
  if (box->memory != kept->memory || is_apart(box, kept)) return false;
  Box other = kept_box(kept);
  return masked_overlap(box, &other, mask, out);
}

const char *count_text(Arena *arena, int64_t elements) {
  return arena_printf(arena, "%lld element%s", (long long)elements, elements == 1 ? "" : "s");
}

// "elements [0, 0] to [7, 127] of `buf` are", "element [2] of `x` is"
const char *elements_text(Interp *in, const Box *box, const Overlap *o) {
  Buf text = {0};
  if (box->rank == 0) return arena_printf(in->words, "`%s` is", box->ref->name);
  buf_puts(&text, o->count > 1 ? "elements [" : "element [");
  format_indices(&text, o->first, box->rank);
  if (o->count > 1) {
    buf_puts(&text, "] to [");
    format_indices(&text, o->last, box->rank);
  }
  buf_printf(&text, "] of `%s` %s", box->ref->name, o->count > 1 ? "are" : "is");
  return arena_take(in->words, &text);
}
