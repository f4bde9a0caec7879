/* Whether strided views share memory.
 *
 * An address of a view is low + sum stride_k * i_k with 0 <= i_k < extent_k and every stride made
 * positive. Two views overlap if some sum stride_k * z_k, with bounds on each z_k, is within an
 * element of a target. The search starts at the largest stride; the range of the smaller terms
 * leaves few choices for each z_k, and their common divisor often leaves none. */
#include "runtime/runtime.h"

enum { MAX_TERMS = 2 * PK_MAX_RANK, MAX_EFFORT = 20000 };

typedef struct {
  int64_t stride, count; /* stride > 0, 0 <= z <= count */
} term;

typedef struct {
  int terms;
  term term[MAX_TERMS];
  int64_t rest[MAX_TERMS + 1];    /* the maximum of the terms from k on and the slack */
  int64_t divisor[MAX_TERMS + 1]; /* the common divisor of the strides from k on */
  int64_t slack;                  /* the sum may fall short of the target by this much */
  int effort;
} search;

static void add_term(search *s, int64_t stride, int64_t count) {
  if (stride == 0 || count == 0) return;
  for (int k = 0; k < s->terms; ++k) {
    if (s->term[k].stride == stride) {
      s->term[k].count += count;
      return;
    }
  }
  int at = s->terms++;
  for (; at > 0 && s->term[at - 1].stride < stride; --at) s->term[at] = s->term[at - 1];
  s->term[at] = (term){stride, count};
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

static bool reachable(search *s, int k, int64_t target) {
  if (target < 0 || target > s->rest[k]) return false;
  if (target <= s->slack) return true;
  if (s->divisor[k] == 0 || target % s->divisor[k] > s->slack) return false;
  const term *t = &s->term[k];
  int64_t most = target / t->stride, over = target - s->rest[k + 1];
  if (most > t->count) most = t->count;
  int64_t least = over > 0 ? (over - 1) / t->stride + 1 : 0;
  for (int64_t z = most; z >= least; --z) {
    if (--s->effort < 0) return true;
    if (reachable(s, k + 1, target - z * t->stride)) return true;
  }
  return false;
}

static bool solve(search *s, int64_t target) {
  s->rest[s->terms] = s->slack;
  s->divisor[s->terms] = 0;
  for (int k = s->terms - 1; k >= 0; --k) {
    s->rest[k] = s->rest[k + 1] + s->term[k].stride * s->term[k].count;
    s->divisor[k] = common_divisor(s->term[k].stride, s->divisor[k + 1]);
  }
  s->effort = MAX_EFFORT;
  return reachable(s, 0, target);
}

static int64_t magnitude(int64_t a) { return a < 0 ? -a : a; }

/* Spans are at most INT64_MAX / 8 bytes (bind.c), so that no sum below overflows. */
bool pk_views_overlap(const pk_view *a, int a_rank, int64_t a_bytes, const pk_view *b, int b_rank,
                      int64_t b_bytes) {
  if (a->span == 0 || b->span == 0) return false;
  if (a->low >= b->low ? a->low - b->low >= (uintptr_t)b->span
                       : b->low - a->low >= (uintptr_t)a->span)
    return false;
  if (a->caller.packed || b->caller.packed) return true; /* they may share a byte */
  int64_t unit = a_bytes < b_bytes ? a_bytes : b_bytes, a_units = a_bytes / unit,
          b_units = b_bytes / unit;
  search s = {.slack = a_units + b_units - 2};
  for (int k = 0; k < a_rank; ++k) {
    if (a->caller.dim[k] > 1)
      add_term(&s, magnitude(a->caller.stride[k]) * a_units, a->caller.dim[k] - 1);
  }
  for (int k = 0; k < b_rank; ++k) {
    if (b->caller.dim[k] > 1)
      add_term(&s, magnitude(b->caller.stride[k]) * b_units, b->caller.dim[k] - 1);
  }
  /* Counting b's indices from its upper end turns the difference of two addresses into a sum. */
  int64_t apart = b->low >= a->low ? (int64_t)(b->low - a->low) : -(int64_t)(a->low - b->low);
  int64_t highest_b = apart / unit + b->span / unit - b_units;
  return solve(&s, highest_b + b_units - 1);
}

/* A sufficient condition, which nearly every array satisfies: in order of stride, each stride
 * exceeds the span of the smaller ones. */
static bool nested(const pk_view *view, int rank) {
  search s = {0};
  for (int k = 0; k < rank; ++k) {
    if (view->caller.dim[k] < 2) continue;
    int before = s.terms;
    add_term(&s, magnitude(view->caller.stride[k]), view->caller.dim[k] - 1);
    if (s.terms == before) return false; /* stride 0, or equal strides */
  }
  int64_t inner = 0;
  for (int k = s.terms - 1; k >= 0; --k) {
    if (s.term[k].stride <= inner) return false;
    inner += s.term[k].stride * s.term[k].count;
  }
  return true;
}

/* Do two index vectors that differ first on axis `differ` have the same address? */
static bool repeats(const pk_view *view, int rank, int differ) {
  search s = {0};
  int64_t target = -magnitude(view->caller.stride[differ]);
  for (int k = 0; k < rank; ++k) {
    int64_t stride = magnitude(view->caller.stride[k]), last = view->caller.dim[k] - 1;
    if (last < 1) continue;
    add_term(&s, stride, k == differ ? last - 1 : 2 * last);
    if (k != differ) target += stride * last;
  }
  return solve(&s, target);
}

bool pk_view_overlaps_itself(const pk_view *view, int rank, int64_t element_bytes) {
  if (view->elements < 2 || nested(view, rank)) return false;
  int64_t elements_a_byte = view->caller.packed ? 8 / view->caller.packed : 1;
  if (view->span / element_bytes * elements_a_byte < view->elements) return true;
  for (int k = 0; k < rank; ++k) {
    if (view->caller.dim[k] > 1 && (view->caller.stride[k] == 0 || repeats(view, rank, k)))
      return true;
  }
  return false;
}
