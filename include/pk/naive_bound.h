/* naive_bound.h: what references with error bounds use in addition to naive.h and bound.h. */
#ifndef PK_NAIVE_BOUND_H
#define PK_NAIVE_BOUND_H

#include <pk/bound.h>
#include <pk/naive.h>

static inline pk_real naive_as_f64(pk_real x) { return (double)x; }
static inline pk_real naive_as_f32(pk_real x) { return (float)x; }
#define NAIVE_AS(T)                                                  \
  static inline pk_real naive_as_##T(pk_real x) {                    \
    return pk_f32_from_##T(pk_##T##_from_f32(naive_odd((double)x))); \
  }
NAIVE_AS(bf16)
NAIVE_AS(f16)
#define NAIVE_AS_F8(T, ...) NAIVE_AS(T)
PK_F8_DTYPES(NAIVE_AS_F8)
#undef NAIVE_AS_F8
#undef NAIVE_AS

static inline double naive_allowed(pk_bound_function *to, pk_bound a) {
  return (double)(pk_bound_allowed(to, a) * (1 + 0x1p-20));
}

/* The distance of the integers at the ends of the interval from the one between. */
static inline double naive_integer_allowed(pk_bound a, int64_t low, int64_t high) {
  if (a.error == 0 || isnan(a.value)) return 0;
  if (isinf(a.error)) return INFINITY;
  const int64_t value = naive_integer((double)a.value, low, high),
                least = naive_integer((double)(a.value - a.error), low, high),
                most = naive_integer((double)(a.value + a.error), low, high);
  return pk_bound_integer_ends(value, least, most);
}

/* The same with the integer itself, within the error. */
static inline pk_bound naive_rounded_integer(pk_bound a, int64_t low, int64_t high) {
  return (pk_bound){(pk_real)naive_integer((double)a.value, low, high),
                    (pk_real)naive_integer_allowed(a, low, high)};
}

static inline void naive_flush(pk_bound_sum *s) { s->error += PK_BOUND_FLUSHED; }

NAIVE_SORT(naive_sort_values, pk_bound,
           isnan(a.value) || isnan(b.value) ? !isnan(a.value) && isnan(b.value)
           : descending                     ? a.value > b.value
                                            : a.value < b.value)
/* The error of an element at any position is at most the largest error. */
static inline void naive_sort_bounds(pk_bound *line, int64_t stride, int32_t *order, int64_t count,
                                     bool descending) {
  pk_real most = 0;
  naive_sort_values(line, stride, order, count, descending);
  for (int64_t i = 0; i < count; i++)
    most = fmax(most, isnan(line[i * stride].value) ? 0 : line[i * stride].error);
  for (int64_t i = 0; i < count; i++) line[i * stride].error = most;
}

#endif
