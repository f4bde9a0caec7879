/* naive.h: helpers of naive references (`pkc --emit=naive`): plain C and libm, one element at a
 * time. Floats are computed in float, as a person would write it. Results are compared with
 * another form of the same reference, in binary64 with error bounds (naive_bound.h). */
#ifndef PK_NAIVE_H
#define PK_NAIVE_H

#include <pk/f64.h>
#include <pk/f8.h>
#include <pk/rt.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

typedef float naive_float;

/* Memory for a value of `elements` elements, the same in every iteration of a loop. The caller
 * keeps it in `slot` and frees it. NULL if there is no memory. */
static inline void *naive_memory(void **slot, int64_t elements, int64_t bytes) {
  int64_t total = pk_sat_mul(elements, bytes);
  if (*slot) return *slot;
  *slot = total < PTRDIFF_MAX ? malloc(total > 0 ? (size_t)total : 1) : NULL;
  return *slot;
}

/* Rounds to odd, so that a second rounding is the only one that counts. */
static inline float naive_odd(double x) {
  const float near = (float)x;
  uint32_t bits = pk_bits_of_f32(near);
  if ((double)near == x || isnan(near) || isinf(near)) return near;
  if (fabs((double)near) > fabs(x)) bits--;
  return pk_f32_of_bits(bits | 1);
}
#define NAIVE_ROUND(T)                                                \
  static inline naive_float naive_round_##T(naive_float x) {          \
    return (naive_float)pk_f32_from_##T(pk_##T##_from_f32((float)x)); \
  }
NAIVE_ROUND(bf16)
NAIVE_ROUND(f16)
#define NAIVE_ROUND_F8(T, ...) NAIVE_ROUND(T)
PK_F8_DTYPES(NAIVE_ROUND_F8)
#undef NAIVE_ROUND_F8
#undef NAIVE_ROUND
#define NAIVE_WRAP(I, U, bits)                                                            \
  static inline int8_t naive_wrap_##I(int64_t x) {                                        \
    return (int8_t)(((x & ((1 << (bits)) - 1)) ^ (1 << ((bits)-1))) - (1 << ((bits)-1))); \
  }                                                                                       \
  static inline uint8_t naive_wrap_##U(int64_t x) { return (uint8_t)(x & ((1 << (bits)) - 1)); }
PK_PART_DTYPES(NAIVE_WRAP)
#undef NAIVE_WRAP

static inline naive_float naive_max(naive_float a, naive_float b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}
static inline naive_float naive_min(naive_float a, naive_float b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}
/* exp(-a) would overflow although the result is finite. */
static inline naive_float naive_logistic(naive_float a) {
  const naive_float e = exp(-fabs(a));
  return a < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* Truncates and saturates; NaN becomes 0. */
static inline int64_t naive_integer(double a, int64_t low, int64_t high) {
  if (isnan(a)) return 0;
  if (a <= (double)low) return low;
  return a >= (double)high ? high : (int64_t)a;
}
static inline uint64_t naive_unsigned(double a) {
  return !(a > 0) ? 0 : a >= 0x1p64 ? UINT64_MAX : (uint64_t)a;
}
/* Rounds to 52 bits or fewer; the last bit also records whether bits were lost. */
static inline double naive_odd_u64(uint64_t a) {
  if (a >> 53) a = (a >> 12 << 12) | (a & 4095 ? 4096 : 0);
  return (double)a;
}
static inline double naive_odd_i64(int64_t a) {
  return a < 0 ? -naive_odd_u64(0 - (uint64_t)a) : naive_odd_u64((uint64_t)a);
}

/* Operations of integers, which the caller wraps to the width of the dtype. */
static inline int64_t naive_i64_abs(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
static inline int64_t naive_i64_sign(int64_t a) { return (a > 0) - (a < 0); }
#define NAIVE_INDEX(name) \
  static inline int64_t naive_i64_##name(int64_t a, int64_t b) { return pk_idx_##name(a, b); }
NAIVE_INDEX(div)
NAIVE_INDEX(rem)
NAIVE_INDEX(floordiv)
NAIVE_INDEX(mod)
NAIVE_INDEX(max)
NAIVE_INDEX(min)
#undef NAIVE_INDEX
static inline uint64_t naive_u64_abs(uint64_t a) { return a; }
static inline uint64_t naive_u64_sign(uint64_t a) { return a != 0; }
static inline uint64_t naive_u64_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t naive_u64_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t naive_u64_div(uint64_t a, uint64_t b) { return b ? a / b : UINT64_MAX; }
static inline uint64_t naive_u64_rem(uint64_t a, uint64_t b) { return b ? a % b : a; }
static inline uint64_t naive_u64_floordiv(uint64_t a, uint64_t b) { return naive_u64_div(a, b); }
static inline uint64_t naive_u64_mod(uint64_t a, uint64_t b) { return naive_u64_rem(a, b); }
static inline uint64_t naive_u64_pow(uint64_t base, uint64_t b) {
  uint64_t result = 1;
  for (; b; b >>= 1, base *= base)
    if (b & 1) result *= base;
  return result;
}
static inline int64_t naive_i64_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  return (int64_t)naive_u64_pow((uint64_t)a, (uint64_t)b);
}
static inline uint64_t naive_low_bits(int64_t a, int width) {
  return width == 64 ? (uint64_t)a : (uint64_t)a & ((UINT64_C(1) << width) - 1);
}
static inline int64_t naive_i64_shl(int64_t a, int64_t b, int width) {
  return b >= 0 && b < width ? (int64_t)((uint64_t)a << b) : 0;
}
static inline int64_t naive_i64_shr(int64_t a, int64_t b, int width) {
  return b >= 0 && b < width ? a >> b : a < 0 ? -1 : 0;
}
static inline int64_t naive_i64_ushr(int64_t a, int64_t b, int width) {
  return b >= 0 && b < width ? (int64_t)(naive_low_bits(a, width) >> b) : 0;
}
static inline int64_t naive_i64_clz(int64_t a, int width) {
  int64_t zeros = width;
  for (uint64_t bits = naive_low_bits(a, width); bits; bits >>= 1) zeros--;
  return zeros;
}
static inline int64_t naive_i64_population_count(int64_t a, int width) {
  int64_t ones = 0;
  for (uint64_t bits = naive_low_bits(a, width); bits; bits >>= 1) ones += (int64_t)(bits & 1);
  return ones;
}
static inline uint64_t naive_u64_shl(uint64_t a, uint64_t b, int width) {
  return b < (uint64_t)width ? a << b : 0;
}
static inline uint64_t naive_u64_shr(uint64_t a, uint64_t b, int width) {
  return b < (uint64_t)width ? a >> b : 0;
}
static inline uint64_t naive_u64_ushr(uint64_t a, uint64_t b, int width) {
  return naive_u64_shr(a, b, width);
}
static inline uint64_t naive_u64_clz(uint64_t a, int width) {
  return (uint64_t)naive_i64_clz((int64_t)a, width);
}
static inline uint64_t naive_u64_population_count(uint64_t a, int width) {
  return (uint64_t)naive_i64_population_count((int64_t)a, width);
}

/* Sorts one line of `count` elements `stride` apart, stably, NaN last; `order` receives the
 * original positions. */
#define NAIVE_SORT(name, type, before)                                               \
  static inline void name(type *line, int64_t stride, int32_t *order, int64_t count, \
                          bool descending) {                                         \
    for (int64_t i = 0; i < count; i++) {                                            \
      type value = line[i * stride];                                                 \
      int64_t at = i;                                                                \
      for (; at > 0; at--) {                                                         \
        type a = value, b = line[(at - 1) * stride];                                 \
        if (!(before)) break;                                                        \
        line[at * stride] = b;                                                       \
        order[at * stride] = order[(at - 1) * stride];                               \
      }                                                                              \
      line[at * stride] = value;                                                     \
      order[at * stride] = (int32_t)i;                                               \
    }                                                                                \
  }
NAIVE_SORT(naive_sort_floats, naive_float,
           isnan(a) || isnan(b) ? !isnan(a) && isnan(b)
           : descending         ? a > b
                                : a < b)
NAIVE_SORT(naive_sort_doubles, double,
           isnan(a) || isnan(b) ? !isnan(a) && isnan(b)
           : descending         ? a > b
                                : a < b)
NAIVE_SORT(naive_sort_unsigned, uint64_t, descending ? a > b : a < b)
NAIVE_SORT(naive_sort_integers, int64_t, descending ? a > b : a < b)

#endif
