/* Copies of views: runs of memory, found by taking indices apart.
 *
 * A copy is cut along its digits until every index of a place that has digits stays within one
 * value of the slowest of them, or goes over whole ones: then the digits that add to it add to the
 * places of its digits. What is left adds to axes of arrays alone. */
#include "runtime/runtime.h"

#include <string.h>

enum { MOST_DIGITS = 160, MOST_PLACES = 64, ENDS = 2 };

typedef struct {
  const pk_seen *end[ENDS];
  int64_t part, moved;
} views;

typedef struct {
  int count;
  pk_move_digit digit[MOST_DIGITS];
  int64_t sum[ENDS][MOST_PLACES];
  int left[ENDS][MOST_PLACES]; /* of a place's digits: the fastest ones */
} state;

static void move_all(views *v, state *s);

/* ---- how far a place goes */

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

/* The copy as that of the first `count` values of a digit, and that of the others. */
static void cut(views *v, const state *s, int i, int64_t count) {
  state part = *s;
  part.digit[i].extent = count;
  move_all(v, &part);
  part = *s;
  part.digit[i].extent -= count;
  for (int end = 0; end < ENDS; ++end)
    part.sum[end][part.digit[i].place[end]] += count * part.digit[i].step[end];
  move_all(v, &part);
}

/* The digit of more than one value that moves a place most; -1: none. */
static int largest(const state *s, int end, int place, int64_t multiple) {
  int found = -1;
  for (int i = 0; i < s->count; ++i) {
    if (!adds_to(s, i, end, place) || s->digit[i].extent < 2) continue;
    if (multiple && s->digit[i].step[end] % multiple == 0) continue;
    if (found < 0 || s->digit[i].step[end] > s->digit[found].step[end]) found = i;
  }
  return found;
}

/* Inside of its bounds? Else what is outside is left out: true where the rest has been done. */
static bool bounded(views *v, const state *s, int end, int place) {
  const int64_t bound = v->end[end]->place[place].bound;
  const range r = range_of(s, end, place);
  if (r.low >= 0 && r.high < bound) return false;
  if (r.high < 0 || r.low >= bound) return true;
  const int i = largest(s, end, place, 0);
  if (i < 0) return true;
  const int64_t step = s->digit[i].step[end];
  int64_t count = r.low < 0 ? (-1 - r.low) / step + 1 : (bound - 1 - r.low) / step + 1;
  if (count >= s->digit[i].extent) count = s->digit[i].extent / 2;
  cut(v, s, i, count < 1 ? 1 : count);
  return true;
}

/* ---- taking an index apart */

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

/* A digit whose values go evenly into `inner` becomes two, the slower one of steps of `inner`.
 * False: it does not; `*count`: after how many of its values the place has a new slow digit. */
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

/* True where the copy has been done in parts. */
static bool apart(views *v, state *s, int end, int place) {
  const pk_view_place *p = &v->end[end]->place[place];
  while (s->left[end][place]) {
    const pk_view_digit *slow = &p->digit[p->digits - s->left[end][place]];
    int64_t inner = 1;
    for (int k = 1; k < s->left[end][place]; ++k) inner *= slow[k].extent;
    if (inner == 0) return true;
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
    cut(v, s, i, count < 1 ? 1 : count);
    return true;
  }
  return false;
}

/* ---- what adds to axes alone */

static int64_t stride_of(const views *v, const state *s, int i, int end) {
  return s->digit[i].step[end] * v->end[end]->place[s->digit[i].place[end]].stride;
}

/* Digits that go on where the one behind them ends are one with it. */
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
    if (nest->rank == PK_MAX_RANK) break;
    nest->count[nest->rank] = count;
    nest->from_stride[nest->rank] = from;
    nest->to_stride[nest->rank++] = to;
  }
  return used + 1;
}

static void turn_round(pk_nest *nest) {
  for (int i = 0, j = nest->rank - 1; i < j; ++i, --j) {
    const pk_nest old = *nest;
    nest->count[i] = old.count[j], nest->count[j] = old.count[i];
    nest->from_stride[i] = old.from_stride[j], nest->from_stride[j] = old.from_stride[i];
    nest->to_stride[i] = old.to_stride[j], nest->to_stride[j] = old.to_stride[i];
  }
}

static void move_run(views *v, state *s) {
  pk_nest nest;
  const int first = take_digits(v, s, 0, &nest);
  if (first > 0) { /* more digits than a nest has axes */
    pk_move_digit *d = &s->digit[first - 1];
    const int64_t extent = d->extent;
    for (int64_t i = 0; i < extent; ++i) {
      state one = *s;
      one.digit[first - 1].extent = 1;
      for (int end = 0; end < ENDS; ++end) one.sum[end][d->place[end]] += i * d->step[end];
      move_run(v, &one);
    }
    return;
  }
  turn_round(&nest);
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

static void move_all(views *v, state *s) {
  for (int end = 0; end < ENDS; ++end) {
    for (int p = v->end[end]->places - 1; p >= 0; --p) {
      if (bounded(v, s, end, p) || apart(v, s, end, p)) return;
    }
  }
  move_run(v, s);
}

void pk_copy_view(pk_worker *worker, int64_t part, int digits, const pk_move_digit *digit,
                  const pk_seen *from, const pk_seen *to, int64_t bytes, int64_t *semaphore) {
  void *trace = worker ? worker->trace : NULL;
  int64_t begun = trace ? pk_trace_now() : 0;
  views v = {{from, to}, part, 0};
  state s = {.count = digits};
  bool any = digits <= MOST_DIGITS && from->places <= MOST_PLACES && to->places <= MOST_PLACES;
  for (int i = 0; any && i < digits; ++i) {
    s.digit[i] = digit[i];
    any = digit[i].extent > 0;
  }
  for (int end = 0; any && end < ENDS; ++end) {
    for (int p = 0; p < v.end[end]->places; ++p) {
      s.sum[end][p] = v.end[end]->place[p].start;
      s.left[end][p] = v.end[end]->place[p].digits;
    }
  }
  if (any) move_all(&v, &s);
  if (semaphore) *semaphore = pk_sat_add(*semaphore, bytes);
  if (trace) pk_trace_record(trace, "async copy", "dma", begun, "bytes", v.moved);
}
