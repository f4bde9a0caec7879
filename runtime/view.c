/* Copies of views, as strided runs of memory.
 *
 * A copy is cut along its digits until every index of a place that is itself split into digits
 * stays within one value of its slowest digit, or covers whole values of it. The digits that add to
 * the index can then add to the places of its digits instead. In the end all digits add to axes of
 * arrays. */
#include "runtime/runtime.h"

#include <string.h>

enum { MOST_DIGITS = 160, MOST_PLACES = 64, ENDS = 2 };

typedef struct {
  const pk_seen *end[ENDS];
  int64_t part, moved;
  const pk_remote_end *remote; /* the target, if it is on another device; otherwise NULL */
  pk_worker *worker;
  int number; /* of that device */
} views;

typedef struct {
  int count;
  pk_move_digit digit[MOST_DIGITS];
  int64_t sum[ENDS][MOST_PLACES];
  int left[ENDS][MOST_PLACES]; /* the number of digits of a place, the fastest ones, that remain */
} state;

static void move_all(views *v, state *s);

/* ---- the range of a place */

typedef struct {
  int64_t low, high;
} range;

static bool adds_to(const state *s, int i, int end, int place) {
  return s->digit[i].place[end] == place && s->digit[i].step[end] != 0;
}

static range range_of(const state *s, int end, int place) {
  range r = {s->sum[end][place], s->sum[end][place]};
  for (int i = 0; i < s->count; ++i) {
    if (adds_to(s, i, end, place))
      r.high = pk_sat_add(r.high, pk_sat_mul(s->digit[i].extent - 1, s->digit[i].step[end]));
  }
  return r;
}

/* ---- cutting */

/* The remaining copy: all of `s`, nothing, or `s` after a change. */
typedef enum { ALL, NOTHING, LESS } rest;

/* Copies the first `count` values of a digit and keeps the others in `s`. The caller continues with
 * these in a loop, because recursion could be as deep as a digit has values. */
static rest cut(views *v, state *s, int i, int64_t count) {
  state part = *s;
  part.digit[i].extent = count;
  move_all(v, &part);
  pk_move_digit *d = &s->digit[i];
  d->extent -= count;
  for (int end = 0; end < ENDS; ++end) s->sum[end][d->place[end]] += count * d->step[end];
  return LESS;
}

/* The digit with more than one value that moves a place the most; -1 if there is none. */
static int largest(const state *s, int end, int place, int64_t multiple) {
  int found = -1;
  for (int i = 0; i < s->count; ++i) {
    if (!adds_to(s, i, end, place) || s->digit[i].extent < 2) continue;
    if (multiple && s->digit[i].step[end] % multiple == 0) continue;
    if (found < 0 || s->digit[i].step[end] > s->digit[found].step[end]) found = i;
  }
  return found;
}

/* Elements out of bounds are omitted. */
static rest bounded(views *v, state *s, int end, int place) {
  const int64_t bound = v->end[end]->place[place].bound;
  const range r = range_of(s, end, place);
  if (r.low >= 0 && r.high < bound) return ALL;
  if (r.high < 0 || r.low >= bound) return NOTHING;
  const int i = largest(s, end, place, 0);
  if (i < 0) return NOTHING;
  const int64_t step = s->digit[i].step[end];
  int64_t count = r.low < 0 ? (-1 - r.low) / step + 1 : (bound - 1 - r.low) / step + 1;
  if (count >= s->digit[i].extent) count = s->digit[i].extent / 2;
  return cut(v, s, i, count < 1 ? 1 : count);
}

/* ---- splitting an index into digits */

static void drop_slowest(state *s, int end, int place, const pk_view_digit *slow, int64_t inner) {
  s->sum[end][slow->place] += s->sum[end][place] / inner * slow->step;
  s->sum[end][place] %= inner;
  for (int i = 0; i < s->count; ++i) {
    pk_move_digit *d = &s->digit[i];
    if (!adds_to(s, i, end, place) || d->step[end] % inner) continue;
    d->place[end] = slow->place;
    d->step[end] = d->step[end] / inner * slow->step;
  }
  --s->left[end][place];
}

/* Splits a digit whose step divides `inner` into two digits; the slower one has steps of
 * `inner`. Returns false if this is not possible; then `*count` values of the digit keep the place
 * within one value of its slowest digit. */
static bool split_digit(state *s, int i, int end, int64_t inner, int64_t others, int64_t at,
                        int64_t *count) {
  const int64_t step = s->digit[i].step[end], each = inner / step;
  const bool even = at == 0 && inner % step == 0 && others < step && s->count < MOST_DIGITS;
  *count = even                   ? s->digit[i].extent / each * each
           : at + others >= inner ? 1
                                  : (inner - 1 - at - others) / step + 1;
  if (!even || *count != s->digit[i].extent) return false;
  memmove(&s->digit[i + 1], &s->digit[i], (size_t)(s->count - i) * sizeof *s->digit);
  ++s->count;
  s->digit[i].extent /= each;
  s->digit[i + 1].extent = each;
  for (int k = 0; k < ENDS; ++k) s->digit[i].step[k] *= each;
  return true;
}

/* Resolves the remaining digits of a place, the slowest first. Elements with different values of
 * such a digit are moved separately. */
static rest apart(views *v, state *s, int end, int place) {
  const pk_view_place *p = &v->end[end]->place[place];
  while (s->left[end][place]) {
    const pk_view_digit *slow = &p->digit[p->digits - s->left[end][place]];
    int64_t inner = 1;
    for (int k = 1; k < s->left[end][place]; ++k) inner *= slow[k].extent;
    if (inner == 0) return NOTHING;
    int64_t at = s->sum[end][place] % inner, within = 0;
    for (int i = 0; i < s->count; ++i) {
      if (adds_to(s, i, end, place) && s->digit[i].step[end] % inner)
        within += (s->digit[i].extent - 1) * s->digit[i].step[end];
    }
    if (at + within < inner) {
      drop_slowest(s, end, place, slow, inner);
      continue;
    }
    const int i = largest(s, end, place, inner);
    const int64_t others = within - (s->digit[i].extent - 1) * s->digit[i].step[end];
    int64_t count;
    if (split_digit(s, i, end, inner, others, at, &count)) continue;
    if (count >= s->digit[i].extent) count = s->digit[i].extent - 1;
    return cut(v, s, i, count < 1 ? 1 : count);
  }
  return ALL;
}

/* ---- digits that add to axes only */

static int64_t stride_of(const views *v, const state *s, int i, int end) {
  return s->digit[i].step[end] * v->end[end]->place[s->digit[i].place[end]].stride;
}

/* A digit that continues where the next one ends is merged with it. */
static int take_digits(const views *v, const state *s, int first, pk_nest *nest) {
  int used = s->count - 1;
  nest->rank = 0;
  for (; used >= first; --used) {
    const int64_t count = s->digit[used].extent, from = stride_of(v, s, used, 0),
                  to = stride_of(v, s, used, 1);
    const int last = nest->rank - 1;
    if (count == 1) continue;
    if (last >= 0 && from == nest->from_stride[last] * nest->count[last] &&
        to == nest->to_stride[last] * nest->count[last]) {
      nest->count[last] *= count;
      continue;
    }
    if (nest->rank == PK_WINDOW_RANK) break;
    nest->count[nest->rank] = count;
    nest->from_stride[nest->rank] = from;
    nest->to_stride[nest->rank++] = to;
  }
  return used + 1;
}

static void reverse_axes(pk_nest *nest) {
  for (int i = 0, j = nest->rank - 1; i < j; ++i, --j) {
    const pk_nest old = *nest;
    nest->count[i] = old.count[j], nest->count[j] = old.count[i];
    nest->from_stride[i] = old.from_stride[j], nest->from_stride[j] = old.from_stride[i];
    nest->to_stride[i] = old.to_stride[j], nest->to_stride[j] = old.to_stride[i];
  }
}

/* Restricts a digit to its i-th value. */
static state one_value(const state *s, int digit, int64_t i) {
  state one = *s;
  const pk_move_digit *d = &s->digit[digit];
  one.digit[digit].extent = 1;
  for (int end = 0; end < ENDS; ++end) one.sum[end][d->place[end]] += i * d->step[end];
  return one;
}

/* Moves elements whose places are sums of digits at both ends, as one nest of loops. */
static void move_run(views *v, state *s) {
  pk_nest nest;
  const int first = take_digits(v, s, 0, &nest);
  if (first > 0) { /* more digits than a nest has axes */
    const int64_t extent = s->digit[first - 1].extent;
    for (int64_t i = 0; i < extent; ++i) {
      state one = one_value(s, first - 1, i);
      move_run(v, &one);
    }
    return;
  }
  reverse_axes(&nest);
  int64_t at[ENDS] = {0, 0}, elements = 1;
  for (int end = 0; end < ENDS; ++end) {
    for (int p = 0; p < v->end[end]->places; ++p)
      at[end] += s->sum[end][p] * v->end[end]->place[p].stride;
  }
  for (int k = 0; k < nest.rank; ++k) elements *= nest.count[k];
  v->moved += elements * v->part;
  pk_move_nest(&nest, v->part, (pk_packing){v->end[0]->packed, v->end[1]->packed}, v->end[0]->data,
               at[0], v->end[1]->data, at[1]);
}

/* ---- to another device */

/* Finds the digit along each axis of the target (-1: none). If two digits are along one axis, the
 * faster one is the axis, and the number of the other one is returned; otherwise -1. */
static int digits_of_axes(const views *v, const state *s, int *by) {
  for (int k = 0; k < v->remote->axes; ++k) by[k] = -1;
  for (int i = 0; i < s->count; ++i) {
    if (s->digit[i].extent < 2) continue;
    int *axis = &by[s->digit[i].place[1]];
    if (*axis >= 0) return *axis;
    *axis = i;
  }
  return -1;
}

static pk_dtype of_bytes(int64_t bytes) {
  return bytes == 1 ? PK_U8 : bytes == 2 ? PK_U16 : bytes == 4 ? PK_U32 : PK_U64;
}

/* The start of a window of the source. If it is within a byte, it becomes the start along an
 * axis of one element; if there is no such axis, returns the digit to iterate over first,
 * otherwise -1. */
static int set_start(const views *v, const state *s, const int *by, pk_window *from,
                     int64_t *stride, int64_t *dim) {
  const int bits = v->end[0]->packed;
  int64_t at = 0;
  int k = 0;
  for (int p = 0; p < v->end[0]->places; ++p) at += s->sum[0][p] * v->end[0]->place[p].stride;
  const int64_t each = bits ? 8 / bits : 1;
  from->data += (at - at % each) / each;
  if (at % each == 0) return -1;
  while (k < from->rank && by[k] >= 0) ++k;
  if (k == from->rank) return by[0];
  from->start[k] = at % each;
  dim[k] = each;
  stride[k] = 1;
  return -1;
}

/* The bytes that the semaphores count for the next parts: all of them add up to those of the view.
 */
static int64_t counted(views *v, int64_t parts) {
  const int64_t before = v->moved / v->remote->each;
  v->moved += parts;
  return v->moved / v->remote->each - before;
}

static void send_run(views *v, state *s);

static void send_values(views *v, state *s, int digit) {
  for (int64_t i = 0; i < s->digit[digit].extent; ++i) {
    state one = one_value(s, digit, i);
    send_run(v, &one);
  }
}

/* A window of the target and the corresponding elements of the source. */
static void send_run(views *v, state *s) {
  const pk_remote_end *r = v->remote;
  int by[PK_WINDOW_RANK];
  const int more = digits_of_axes(v, s, by);
  if (more >= 0) {
    send_values(v, s, more);
    return;
  }
  int64_t dim[ENDS][PK_WINDOW_RANK], stride[ENDS][PK_WINDOW_RANK], parts = 1;
  pk_window from = {v->end[0]->data, r->axes, dim[0], stride[0], {0}, {0}, {0}},
            to = {v->end[1]->data, r->axes, dim[1], stride[1], {0}, {0}, {0}};
  for (int k = 0; k < r->axes; ++k) {
    const pk_view_place *p = &v->end[1]->place[k];
    const pk_move_digit *d = by[k] < 0 ? NULL : &s->digit[by[k]];
    const bool counts_parts = r->part && k == r->axes - 1;
    const int64_t unit =
        counts_parts ? v->part : 1; /* the axis counts bytes, or parts of an element */
    to.size[k] = from.size[k] = dim[0][k] = d ? d->extent : 1;
    from.step[k] = 1;
    stride[0][k] = d ? stride_of(v, s, by[k], 0) / v->part : 1;
    to.start[k] = s->sum[1][k] / unit;
    to.step[k] = d ? d->step[1] / unit : 1;
    dim[1][k] = p->bound;
    stride[1][k] = p->stride * unit / v->part;
    parts *= to.size[k];
  }
  const int within = set_start(v, s, by, &from, stride[0], dim[0]);
  if (within >= 0) {
    send_values(v, s, within);
    return;
  }
  const pk_sending sending = {.dtype = of_bytes(v->part),
                              .from = &from,
                              .to = &to,
                              .packed = v->end[0]->packed,
                              .part = r->part,
                              .operand = r->operand,
                              .amount = counted(v, parts * v->part),
                              .sent = r->sent,
                              .arrived = r->arrived};
  v->worker->device->all->by->copy(v->worker, &sending, v->number);
}

/* The part of the copy after the next cut; ALL if it needs none. */
static rest next_cut(views *v, state *s) {
  for (int end = 0; end < ENDS; ++end) {
    for (int p = v->end[end]->places - 1; p >= 0; --p) {
      rest left = bounded(v, s, end, p);
      if (left == ALL) left = apart(v, s, end, p);
      if (left != ALL) return left;
    }
  }
  return ALL;
}

static void move_all(views *v, state *s) {
  rest left;
  do left = next_cut(v, s);
  while (left == LESS);
  if (left == NOTHING) return;
  if (v->remote)
    send_run(v, s);
  else
    move_run(v, s);
}

static void begin(views *v, int digits, const pk_move_digit *digit) {
  state s = {.count = digits};
  bool any = digits <= MOST_DIGITS;
  for (int end = 0; end < ENDS; ++end) any = any && v->end[end]->places <= MOST_PLACES;
  for (int i = 0; any && i < digits; ++i) {
    s.digit[i] = digit[i];
    any = digit[i].extent > 0;
  }
  for (int end = 0; any && end < ENDS; ++end) {
    for (int p = 0; p < v->end[end]->places; ++p) {
      s.sum[end][p] = v->end[end]->place[p].start;
      s.left[end][p] = v->end[end]->place[p].digits;
    }
  }
  if (any) move_all(v, &s);
}

void pk_copy_view(pk_worker *worker, int64_t part, int digits, const pk_move_digit *digit,
                  const pk_seen *from, const pk_seen *to, int64_t bytes, int64_t *semaphore) {
  void *trace = worker ? worker->trace : NULL;
  int64_t begun = trace ? pk_trace_now() : 0;
  views v = {.end = {from, to}, .part = part};
  begin(&v, digits, digit);
  if (semaphore) *semaphore = pk_sat_add(*semaphore, bytes);
  if (trace) pk_trace_record(trace, "async copy", "dma", begun, "bytes", v.moved);
}

void pk_remote_view(pk_worker *worker, int64_t part, int digits, const pk_move_digit *digit,
                    const pk_seen *from, const pk_seen *to, int64_t bytes,
                    const pk_remote_end *remote, const int64_t *device, const char *outside) {
  const int number = pk_find_device(worker, device, outside);
  views v = {.end = {from, to}, .part = part, .remote = remote, .worker = worker, .number = number};
  if (number < 0) return;
  begin(&v, digits, digit);
  const pk_transport *by = worker->device->all->by;
  const int64_t left = bytes - v.moved / remote->each;
  if (left == 0) return;
  by->own_signal(worker, remote->sent, left); /* for the elements outside of the view */
  by->signal(worker, remote->arrived, left, number);
}
