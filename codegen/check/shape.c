// Operations of the interpreter that move, reduce and contract elements.
#include "codegen/check/internal.h"
#include "codegen/ir/axes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- strided copies: every moving operation consists of one or a few

static void row_major(const Value *v, int64_t *strides) {
  int64_t stride = 1;
  for (int i = v->rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= v->dim[i];
  }
}

static void copy_line(char *to, int64_t to_stride, const char *from, int64_t from_stride,
                      int64_t count, size_t size) {
  if (to_stride == 1 && from_stride == 1) {
    memcpy(to, from, (size_t)count * size);
  } else if (size == 8) {
    for (int64_t e = 0; e < count; e++)
      memcpy(to + e * to_stride * 8, from + e * from_stride * 8, 8);
  } else {
    for (int64_t e = 0; e < count; e++) to[e * to_stride] = from[e * from_stride];
  }
}

// Copies elements from one walk to another of the same extents.
void copy_walk(void *to, const Walk *t, const void *from, const Walk *f, int64_t size) {
  int64_t index[2 * MAX_RANK] = {0}, at = t->base, source = f->base;
  int last = t->rank - 1;
  for (int i = 0; i < t->rank; i++)
    if (t->extent[i] == 0) return;
  int64_t count = last >= 0 ? t->extent[last] : 1, to_stride = last >= 0 ? t->stride[last] : 1;
  int64_t from_stride = last >= 0 ? f->stride[last] : 1;
  for (;;) {
    copy_line((char *)to + at * size, to_stride, (const char *)from + source * size, from_stride,
              count, (size_t)size);
    int axis = last - 1;
    for (; axis >= 0; axis--) {
      at += t->stride[axis];
      source += f->stride[axis];
      if (++index[axis] < t->extent[axis]) break;
      at -= t->stride[axis] * t->extent[axis];
      source -= f->stride[axis] * t->extent[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

void copy_missing(Interp *in, Value *to, const Walk *t, const Value *from, const Walk *f) {
  static const uint64_t all = UINT64_MAX;
  const Walk still = {.rank = t->rank};
  if (from->partial && !value_partial(in, to)) return;
  if (to->partial)
    copy_walk(to->missing, t, from->partial ? from->missing : &all, from->partial ? f : &still, 8);
}

Walk whole_walk(const Value *v) {
  Walk walk = {.rank = v->rank};
  row_major(v, walk.stride);
  for (int i = 0; i < v->rank; i++) walk.extent[i] = v->dim[i];
  return walk;
}

// Moves elements and their poison.
static void move(Interp *in, Value *to, const Walk *t, const Value *from, const Walk *f) {
  copy_walk(to->data, t, from->data, f, 8);
  if (from->poisoned && value_poison(in, to)) {
    copy_walk(to->poison, t, from->poison, f, 1);
    copy_missing(in, to, t, from, f);
  }
  if (from->uncertain && value_error(in, to)) copy_walk(to->error, t, from->error, f, 8);
}

// ---- moving operations

static void run_broadcast(Interp *in, Value *out, const Value *a) {
  Walk t = whole_walk(out), f = {.rank = out->rank};
  int64_t strides[MAX_RANK];
  row_major(a, strides);
  int extra = out->rank - a->rank;
  for (int i = extra; i < out->rank; i++)
    f.stride[i] = a->dim[i - extra] == out->dim[i] ? strides[i - extra] : 0;
  if (out->count > 0) move(in, out, &t, a, &f);
}

static void run_reshape(Interp *in, Value *out, const Value *a) {
  Walk line = {.rank = 1, .extent = {out->count}, .stride = {1}};
  move(in, out, &line, a, &line);
}

static void run_transpose(Interp *in, Value *out, const Value *a, const Instr *instr) {
  Walk t = whole_walk(out), f = {.rank = out->rank};
  int64_t strides[MAX_RANK];
  row_major(a, strides);
  for (int i = 0; i < out->rank; i++) f.stride[i] = strides[instr->ints[i]];
  move(in, out, &t, a, &f);
}

static void run_slice(Interp *in, Value *out, const Value *a, const Instr *instr) {
  Walk t = whole_walk(out), f = {.rank = out->rank};
  int64_t strides[MAX_RANK];
  row_major(a, strides);
  for (int i = 0; i < out->rank; i++) {
    int64_t last = instr->ints[i] + (out->dim[i] - 1) * instr->ints2[i];
    if (out->dim[i] > 0 &&
        last >= a->dim[i]) {  // only along run-time extents: the verifier checks the others
      find(in, instr, FIND_SLICE, instr->span,
           "a slice of a value ends at index %lld of axis %d, which has %s", (long long)last, i,
           count_text(in->words, a->dim[i]));
      if (value_poison(in, out)) fill_unspecified(out, 0, out->count, POISON_OTHER);
      return;
    }
    f.stride[i] = strides[i] * instr->ints2[i];
    f.base += strides[i] * instr->ints[i];
  }
  move(in, out, &t, a, &f);
}

static void run_concat(Interp *in, Value *out, const Instr *instr) {
  int64_t offset = 0;
  for (int i = 0; i < instr->nargs; i++) {
    const Value *part = value_of(in, instr->args[i]);
    Walk t = whole_walk(out), f = whole_walk(part);
    t.base = offset * t.stride[instr->ival];
    int64_t room = out->dim[instr->ival] - offset, length = part->dim[instr->ival];
    t.extent[instr->ival] = length < room ? length : room;  // sizes are not verified
    if (room > 0) move(in, out, &t, part, &f);
    offset += part->dim[instr->ival];
  }
}

// Executes a pad: fills with the value, then copies the operand.
static void run_pad(Interp *in, Value *out, const Value *a, const Value *value,
                    const Instr *instr) {
  Walk t = whole_walk(out), f = whole_walk(a),
       everywhere = {.rank = 1, .extent = {out->count}, .stride = {1}};
  Walk same = {.rank = 1};
  move(in, out, &everywhere, value, &same);
  for (int i = 0; i < out->rank; i++) {
    t.base += t.stride[i] * instr->ints[i];
    t.extent[i] = a->dim[i];
  }
  if (out->poisoned && !a->poisoned) {  // the elements from a are specified
    Walk clear = {.rank = t.rank};
    static const uint8_t none = 0;
    copy_walk(out->poison, &t, &none, &clear, 1);
  }
  if (out->uncertain && !a->uncertain) {
    Walk clear = {.rank = t.rank};
    static const double none = 0;
    copy_walk(out->error, &t, &none, &clear, 8);
  }
  move(in, out, &t, a, &f);
}

// One lane along an axis: `count` elements `stride` apart.
typedef struct {
  int64_t outer, inner, count;
} Lanes;

static Lanes lanes_of(const Value *v, int64_t axis) {
  Lanes lanes = {1, 1, v->dim[axis]};
  for (int i = 0; i < axis; i++) lanes.outer *= v->dim[i];
  for (int i = (int)axis + 1; i < v->rank; i++) lanes.inner *= v->dim[i];
  return lanes;
}

static void run_rev(Interp *in, Value *out, const Value *a, int64_t axis) {
  Walk t = whole_walk(out), f = whole_walk(a);
  if (out->count == 0) return;
  f.base = f.stride[axis] * (a->dim[axis] - 1);
  f.stride[axis] = -f.stride[axis];
  move(in, out, &t, a, &f);
}

// Two moves: the elements that stay in order, and those that wrap around the end.
static void run_roll(Interp *in, Value *out, const Value *a, const Value *by, const Instr *instr) {
  int64_t axis = instr->ival, n = a->dim[axis];
  if (poison_at(by, 0))
    find(in, instr, FIND_POISON_INDEX, instr->span, "the shift of a roll is unspecified: %s",
         poison_cause(in, by->poison[0]));
  if (out->count == 0) return;
  int64_t shift = ((by->i[0] % n) + n) % n,
          parts[2][3] = {{0, shift, n - shift}, {n - shift, 0, shift}};
  for (int i = 0; i < 2; i++) {
    Walk t = whole_walk(out), f = whole_walk(a);
    f.base = parts[i][0] * f.stride[axis];
    t.base = parts[i][1] * t.stride[axis];
    t.extent[axis] = f.extent[axis] = parts[i][2];
    move(in, out, &t, a, &f);
  }
}

// Results of argsort, or parts of them in any shape, are valid indices whatever was sorted: top_k
// and sort_by take such elements.
static bool is_order(const Instr *index) {
  while (op_info[index->op].class == OPC_SHAPE && index->op != OP_CONCAT && index->op != OP_PAD)
    index = index->args[0];
  return index->op == OP_ARGSORT;
}

// The window is clamped, like that of a load.
static void run_window(Interp *in, Value *out, const Value *a, const Value *start,
                       const Instr *instr) {
  Walk t = whole_walk(out), f = whole_walk(a);
  int axis = (int)instr->ival;
  int64_t at = start->i[0], size = out->dim[axis], last = a->dim[axis] - size;
  const char *name = instr->args[0]->text;
  name = name ? arena_printf(in->words, "`%s`", name) : "a value";
  if (poison_at(start, 0))
    find(in, instr, FIND_POISON_INDEX, instr->span,
         "the start of a slice of %s on axis %d is unspecified: %s", name, axis,
         poison_cause(in, start->poison[0]));
  else if (at < 0 || at > last)
    find(in, instr, FIND_SLICE, instr->span,
         "a slice of %s is out of range on axis %d: %s from %lld, but the axis has %lld", name,
         axis, count_text(in->words, size), (long long)at, (long long)a->dim[axis]);
  if (last < 0) {
    if (value_poison(in, out)) fill_unspecified(out, 0, out->count, POISON_OTHER);
    return;
  }
  f.base = (at < 0 ? 0 : at > last ? last : at) * f.stride[axis];
  f.extent[axis] = size;
  move(in, out, &t, a, &f);
}

static int64_t checked_take(Interp *in, const Instr *instr, const Value *index, int64_t at,
                            int axis, int64_t extent) {
  int64_t i = index->i[at];
  if (poison_at(index, at)) {
    find(in, instr, FIND_POISON_INDEX, instr->span, "an index of `%s` is unspecified: %s",
         op_info[instr->op].name, poison_cause(in, index->poison[at]));
  } else if (i < 0 || i >= extent) {
    find(in, instr, FIND_TAKE, instr->span, "index %lld of `%s` is out of range: axis %d has %s",
         (long long)i, op_info[instr->op].name, axis, count_text(in->words, extent));
  }
  return i < 0 ? 0 : i >= extent ? extent - 1 : i;
}

static void copy_element(Value *out, int64_t to, const Value *a, int64_t from) {
  memcpy((char *)out->data + to * 8, (const char *)a->data + from * 8, 8);
  if (a->poisoned) out->poison[to] = a->poison[from];
  if (a->partial) out->missing[to] = a->missing[from];
  if (a->uncertain) out->error[to] = a->error[from];
}

// Takes an element of a lane at an index that is not a known number. The result is unspecified if
// any element of the lane is.
static void take_open(Interp *in, Value *out, int64_t at, const Instr *instr, const Value *a,
                      const Lane *lane, int64_t index) {
  out->i[at] = in->arithmetic->take(arithmetic_context(in), instr, a, lane, index);
  for (int64_t l = 0; l < lane->count && a->poisoned; l++)
    if (!out->poison[at]) out->poison[at] = a->poison[lane->base + l * lane->stride];
}

static bool is_open_index(const Value *index, int64_t at, const Interp *in) {
  return in->arithmetic->opens && cell_is_open(index->i[at]) && !poison_at(index, at);
}

// Executes a gather along an axis.
static void run_take(Interp *in, Value *out, const Value *a, const Value *index,
                     const Instr *instr) {
  const int axis = (int)instr->ival;
  Lanes from = lanes_of(a, axis), to = lanes_of(out, axis);
  bool along = instr->op == OP_TAKE_ALONG,
       marked = along && index->poisoned && is_order(instr->args[1]);
  if (((a->poisoned || marked) && !value_poison(in, out)) ||
      (a->partial && !value_partial(in, out)) || (a->uncertain && !value_error(in, out)))
    return;
  if (out->count > 0 && from.count == 0) {
    find(in, instr, FIND_TAKE, instr->span, "`%s` from an axis without elements",
         op_info[instr->op].name);
    if (value_poison(in, out)) fill_unspecified(out, 0, out->count, POISON_OTHER);
    return;
  }
  for (int64_t o = 0; o < to.outer; o++)
    for (int64_t l = 0; l < to.count; l++) {
      bool open = !along && is_open_index(index, l, in);
      int64_t row = along || open ? 0 : checked_take(in, instr, index, l, axis, from.count);
      for (int64_t i = 0; i < to.inner; i++) {
        int64_t at = (o * to.count + l) * to.inner + i;
        Lane lane = {o * from.count * from.inner + i, from.inner, from.count};
        if (marked && index->poison[at]) {
          fill_unspecified(out, at, 1, index->poison[at]);
          continue;
        }
        if (open || (along && is_open_index(index, at, in))) {
          take_open(in, out, at, instr, a, &lane, index->i[along ? at : l]);
          continue;
        }
        if (along) row = checked_take(in, instr, index, at, axis, from.count);
        copy_element(out, at, a, lane.base + row * lane.stride);
      }
    }
}

// Executes a gather along several axes: one move for each element of the indices.
static void run_gather(Interp *in, Value *out, const Value *a, const Instr *instr) {
  Walk t = whole_walk(out), f = whole_walk(a), from = {.rank = out->rank};
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(instr, axes);
  const int64_t length = out->dim[axes[0]];
  bool empty = false;
  for (int i = 0; i < count; i++) empty = empty || a->dim[axes[i]] == 0;
  if (out->count > 0 && empty) {
    find(in, instr, FIND_TAKE, instr->span, "`%s` from an axis without elements",
         op_info[instr->op].name);
    if (value_poison(in, out)) fill_unspecified(out, 0, out->count, POISON_OTHER);
    return;
  }
  t.extent[axes[0]] = 1;
  for (int k = 0; k < a->rank; k++) {
    const int to = ir_gathered_axis(instr, k);
    if (to >= 0) from.stride[to] = f.stride[k];
  }
  memcpy(from.extent, t.extent, sizeof from.extent);
  for (int64_t n = 0; n < length; n++) {
    t.base = n * t.stride[axes[0]];
    from.base = 0;
    for (int i = 0; i < count; i++)
      from.base += f.stride[axes[i]] * checked_take(in, instr, value_of(in, instr->args[1 + i]), n,
                                                    axes[i], a->dim[axes[i]]);
    move(in, out, &t, a, &from);
  }
}

// Executes an instruction that moves elements.
void run_shape(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  const Value *a = value_of(in, instr->args[0]),
              *b = instr->nargs > 1 ? value_of(in, instr->args[1]) : NULL;
  switch (instr->op) {
    case OP_BROADCAST:
      run_broadcast(in, out, a);
      break;
    case OP_RESHAPE:
      run_reshape(in, out, a);
      break;
    case OP_TRANSPOSE:
      run_transpose(in, out, a, instr);
      break;
    case OP_SLICE:
      run_slice(in, out, a, instr);
      break;
    case OP_CONCAT:
      run_concat(in, out, instr);
      break;
    case OP_PAD:
      run_pad(in, out, a, b, instr);
      break;
    case OP_ROLL:
      run_roll(in, out, a, b, instr);
      break;
    case OP_REV:
      run_rev(in, out, a, instr->ival);
      break;
    case OP_WINDOW:
      run_window(in, out, a, b, instr);
      break;
    case OP_GATHER:
      run_gather(in, out, a, instr);
      break;
    default:
      run_take(in, out, a, b, instr);
  }
}

// ---- reductions

uint8_t first_poison(const uint8_t *poison, int64_t count) {
  for (int64_t e = 0; e < count; e++)
    if (poison[e]) return poison[e];
  return 0;
}

// Arranges the elements as [kept..][reduced..], then reduces each row.
void run_reduce(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  const Value *a = value_of(in, instr->args[0]);
  Walk from = whole_walk(a), to = {.rank = a->rank}, source = {.rank = a->rank};
  int at = 0;
  int64_t row = 1, stride = 1;
  for (int reduced = 0; reduced < 2; reduced++)
    for (int i = 0; i < a->rank; i++)
      if ((instr->ival >> i & 1) == reduced) {
        to.extent[at] = a->dim[i];
        source.stride[at++] = from.stride[i];
        if (reduced) row *= a->dim[i];
      }
  for (int i = a->rank - 1; i >= 0; i--) to.stride[i] = stride, stride *= to.extent[i];
  char *rows = scratch_space(in, 0, a->count, 8);
  if (!rows) return;
  copy_walk(rows, &to, a->data, &source, 8);
  for (int64_t e = 0; e < out->count; e++)
    out->i[e] = in->arithmetic->fold(arithmetic_context(in), instr, a->dtype,
                                     (const int64_t *)(void *)rows + e * row, row);
  BoundLane lane = {(const double *)(const void *)rows, NULL, a->count, 1};
  if (a->uncertain && in->bounds) {
    lane.error = scratch_space(in, lane.scratch, a->count, sizeof *lane.error);
    if (!lane.error) return;
    copy_walk(lane.error, &to, a->error, &source, 8);
  }
  for (int64_t e = 0; e < out->count && in->bounds; e++)
    bound_fold(in, instr, out, e,
               &(BoundLane){lane.f + e * row, lane.error ? lane.error + e * row : NULL, row,
                            lane.scratch});
  round_floats(in, out);
  if (!a->poisoned || !value_poison(in, out)) return;
  copy_walk(rows, &to, a->poison, &source, 1);
  for (int64_t e = 0; e < out->count; e++)
    out->poison[e] = first_poison((const uint8_t *)rows + e * row, row);
}

void run_argreduce(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  const Value *a = value_of(in, instr->args[0]);
  Lanes lanes = lanes_of(a, instr->ival);
  if (a->poisoned && !value_poison(in, out)) return;
  if (lanes.count == 0 && out->count > 0)
    find(in, instr, FIND_EMPTY, instr->span, "`%s` of no elements", op_info[instr->op].name);
  for (int64_t o = 0; o < lanes.outer; o++)
    for (int64_t i = 0; i < lanes.inner; i++) {
      Lane lane = {o * lanes.count * lanes.inner + i, lanes.inner, lanes.count};
      int64_t at = o * lanes.inner + i;
      for (int64_t l = 0; l < lanes.count; l++)
        if (a->poisoned && !out->poison[at])
          out->poison[at] = a->poison[lane.base + l * lane.stride];
      out->i[at] = in->arithmetic->best(arithmetic_context(in), instr, a, &lane);
    }
}

// ---- along an axis

static void sort_lane(Interp *in, Value *out, const Value *a, const Instr *instr, const Lane *lane,
                      int64_t *order) {
  uint8_t poison = 0;
  for (int64_t l = 0; l < lane->count; l++)
    if (!poison) poison = poison_at(a, lane->base + l * lane->stride);
  in->arithmetic->sort(arithmetic_context(in), instr, out, a, lane, order);
  for (int64_t l = 0; l < lane->count && a->poisoned; l++)
    out->poison[lane->base + l * lane->stride] = poison;
}

// An element is unspecified if one before it is, for the same reason as the first of these.
static void scan_lane(Interp *in, const Instr *instr, Value *out, const Value *a,
                      const int64_t *order, int64_t count) {
  uint8_t poison = 0;
  in->arithmetic->scan(arithmetic_context(in), instr, out, a, order, count);
  for (int64_t l = 0; l < count && a->poisoned; l++) {
    if (!poison) poison = a->poison[order[l]];
    out->poison[order[l]] = poison;
  }
}

// Executes a scan or sort, lane by lane.
void run_scan(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  const Value *a = value_of(in, instr->args[0]);
  Lanes lanes = lanes_of(a, instr->ival);
  int64_t *order = scratch_space(in, 0, lanes.count, 8);
  if (!order || (a->poisoned && !value_poison(in, out))) return;
  bool sorts = instr->op == OP_SORT || instr->op == OP_ARGSORT,
       reverse = (instr->flags & INSTR_REVERSE) && !sorts;
  for (int64_t o = 0; o < lanes.outer; o++)
    for (int64_t i = 0; i < lanes.inner; i++) {
      Lane lane = {o * lanes.count * lanes.inner + i, lanes.inner, lanes.count};
      for (int64_t l = 0; l < lanes.count; l++)
        order[l] = lane.base + (reverse ? lanes.count - 1 - l : l) * lanes.inner;
      if (sorts)
        sort_lane(in, out, a, instr, &lane, order);
      else
        scan_lane(in, instr, out, a, order, lanes.count);
      if (sorts)
        bound_sort(in, out, a, lane.base, lane.stride, lane.count);
      else
        bound_scan(in, instr, out, a, order, lanes.count);
    }
  if (!sorts) round_floats(in, out);
}

// ---- contraction

// An operand of a dot, arranged as [its labels of the result, in the result's order][every summed
// label], and repeated along summed labels that it does not have.
typedef struct {
  char *rows;
  uint8_t *poison;
  BoundLane bound;  // the same rows, if errors are tracked
  int64_t row_stride[MAX_RANK];
} DotOperand;

typedef struct {
  int64_t extent[DOT_LABELS];
  int summed[DOT_LABELS], summed_count;
  int64_t length;
} Contraction;

static Contraction contraction_of(const Instr *instr, const Value *a, const Value *b) {
  Contraction shape = {.length = 1};
  unsigned in_result = 0, seen = 0;
  for (int i = 0; i < instr->type.rank; i++) in_result |= 1u << instr->labels.out[i];
  for (int t = 0; t < 2; t++) {
    const Value *v = t ? b : a;
    for (int i = 0; i < v->rank; i++) {
      int label = t ? instr->labels.b[i] : instr->labels.a[i];
      shape.extent[label] = v->dim[i];
      if (((in_result | seen) >> label) & 1) continue;
      seen |= 1u << label;
      shape.summed[shape.summed_count++] = label;
      shape.length *= v->dim[i];
    }
  }
  return shape;
}

// Arranges an operand of a contraction so that the contracted elements are contiguous.
static bool lay_out(Interp *in, const Instr *instr, const Value *v, const int8_t *labels,
                    const Contraction *shape, int which, DotOperand *operand) {
  Walk own = whole_walk(v), to = {0}, from = {0};
  int axis_of[DOT_LABELS];
  for (int i = 0; i < DOT_LABELS; i++) axis_of[i] = -1;
  for (int i = 0; i < v->rank; i++) axis_of[labels[i]] = i;
  int64_t rows = 1;
  for (int i = instr->type.rank - 1; i >= 0; i--) {
    int axis = axis_of[instr->labels.out[i]];
    operand->row_stride[i] = axis < 0 ? 0 : rows;
    if (axis >= 0) rows *= v->dim[axis];
  }
  for (int i = 0; i < instr->type.rank; i++) {
    int axis = axis_of[instr->labels.out[i]];
    if (axis < 0) continue;
    to.extent[to.rank] = v->dim[axis];
    from.stride[to.rank++] = own.stride[axis];
  }
  for (int i = 0; i < shape->summed_count; i++) {
    int axis = axis_of[shape->summed[i]];
    to.extent[to.rank] = shape->extent[shape->summed[i]];
    from.stride[to.rank++] = axis < 0 ? 0 : own.stride[axis];
  }
  from.rank = to.rank;
  int64_t count = 1;
  for (int i = to.rank - 1; i >= 0; i--) {
    to.stride[i] = count;
    if (!mul_i64(count, to.extent[i], &count)) return stop_for_memory(in, INT64_MAX), false;
  }
  operand->rows = scratch_space(in, which, count, 8);
  if (!operand->rows) return false;
  if (v->poisoned) {
    operand->poison = scratch_space(in, which + 2, count + rows, 1);
    if (!operand->poison) return false;
    uint8_t *elements = operand->poison + rows;
    copy_walk(elements, &to, v->poison, &from, 1);
    for (int64_t r = 0; r < rows; r++)
      operand->poison[r] = first_poison(elements + r * shape->length, shape->length);
  }
  copy_walk(operand->rows, &to, v->data, &from, 8);
  operand->bound = (BoundLane){(const double *)(const void *)operand->rows, NULL, count, which + 4};
  if (!in->bounds || !is_float(v->dtype)) return true;
  if (v->uncertain) {
    operand->bound.error = scratch_space(in, which + 4, count, sizeof(double));
    if (!operand->bound.error) return false;
    copy_walk(operand->bound.error, &to, v->error, &from, 8);
  }
  return bound_summands(in, &operand->bound);
}

static BoundLane row_of(const BoundLane *rows, int64_t row, int64_t length) {
  return (BoundLane){rows->f + row * length, rows->error ? rows->error + row * length : NULL,
                     length, rows->scratch};
}

// Executes a contraction.
void run_dot(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out || out->count == 0) return;
  const Value *a = value_of(in, instr->args[0]), *b = value_of(in, instr->args[1]);
  Contraction shape = contraction_of(instr, a, b);
  DotOperand left = {0}, right = {0};
  if (!lay_out(in, instr, a, instr->labels.a, &shape, 0, &left) ||
      !lay_out(in, instr, b, instr->labels.b, &shape, 1, &right))
    return;
  if ((left.poison || right.poison) && !value_poison(in, out)) return;
  int64_t index[MAX_RANK] = {0}, row = 0, column = 0;
  for (int64_t e = 0; e < out->count; e++) {
    out->i[e] = in->arithmetic->dot(
        arithmetic_context(in), instr,
        (const int64_t *)(const void *)(left.rows + row * shape.length * 8),
        (const int64_t *)(const void *)(right.rows + column * shape.length * 8), shape.length);
    if (in->bounds && is_float(out->dtype)) {
      BoundLane one = row_of(&left.bound, row, shape.length),
                other = row_of(&right.bound, column, shape.length);
      bound_dot(in, instr, out, e, &one, &other);
    }
    if (out->poisoned)
      out->poison[e] = left.poison && left.poison[row] ? left.poison[row]
                       : right.poison                  ? right.poison[column]
                                                       : 0;
    for (int i = out->rank - 1; i >= 0; i--) {
      row += left.row_stride[i];
      column += right.row_stride[i];
      if (++index[i] < out->dim[i]) break;
      row -= left.row_stride[i] * out->dim[i];
      column -= right.row_stride[i] * out->dim[i];
      index[i] = 0;
    }
  }
  round_floats(in, out);
}
