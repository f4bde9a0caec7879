/* vec/wide.h: vectors of 64-bit elements, for kernels that have them. They have as many lanes as
 * those of 32 bits, PK_LANES, in twice as many registers, so that masks are the same.
 *
 *   pk_f64v   f64
 *   pk_i64v   i64 and u64
 *
 * Operations that have neither an instruction nor a vector form here are computed lane by lane. */
#ifndef PK_VEC_WIDE_H
#define PK_VEC_WIDE_H

#include <pk/f64.h>
#include <pk/scalar.h>
#include <pk/step.h>
#include <pk/vec.h>

enum { PK_WIDE_PARTS = 2 * PK_PARTS, PK_WIDE_LANES = PK_PART_BYTES / 8 };
typedef int64_t pk_i64p_memory __attribute__((vector_size(PK_PART_BYTES), aligned(8), may_alias));
typedef struct {
  pk_f64p part[PK_WIDE_PARTS];
} pk_f64v;
typedef struct {
  pk_i64p part[PK_WIDE_PARTS];
} pk_i64v;
#define PK_EACH_WIDE(...) PK_UNROLL for (int k = 0; k < PK_WIDE_PARTS; k++) __VA_ARGS__

/* -- masks of the parts, comparisons, selection */

#if PK_PART_BYTES == 64
#define PK_WIDE_COMPARE(name, vector, type, instruction, predicate)                 \
  PK_INLINE pk_mask name(vector a, vector b) {                                      \
    const unsigned low = instruction((type)a.part[0], (type)b.part[0], predicate),  \
                   high = instruction((type)a.part[1], (type)b.part[1], predicate); \
    return (pk_mask)(low | high << 8);                                              \
  }
#define PK_COMPARE_WIDE(name, operator, f64, integer)                                \
  PK_WIDE_COMPARE(pk_##name##_f64, pk_f64v, __m512d, _mm512_cmp_pd_mask, f64)        \
  PK_WIDE_COMPARE(pk_##name##_i64, pk_i64v, __m512i, _mm512_cmp_epi64_mask, integer) \
  PK_WIDE_COMPARE(pk_##name##_u64, pk_i64v, __m512i, _mm512_cmp_epu64_mask, integer)
PK_INLINE pk_f64v pk_select_f64(pk_mask m, pk_f64v a, pk_f64v b) {
  PK_EACH_WIDE(a.part[k] = (pk_f64p)_mm512_mask_blend_pd((__mmask8)(m >> 8 * k), (__m512d)b.part[k],
                                                         (__m512d)a.part[k]);)
  return a;
}
PK_INLINE pk_i64v pk_select_i64(pk_mask m, pk_i64v a, pk_i64v b) {
  PK_EACH_WIDE(a.part[k] = (pk_i64p)_mm512_mask_blend_epi64(
                   (__mmask8)(m >> 8 * k), (__m512i)b.part[k], (__m512i)a.part[k]);)
  return a;
}
#else
PK_INLINE pk_i64p pk_wide_mask(pk_mask m, int k) {
  const pk_i32p part = PK_PART(m, k / 2);
  return k % 2 ? (pk_i64p)PK_TWICE_UPPER(part) : (pk_i64p)PK_TWICE_LOWER(part);
}
#define PK_WIDE_COMPARE(name, vector, type, operator)                                       \
  PK_INLINE pk_mask name(vector a, vector b) {                                              \
    pk_mask m;                                                                              \
    PK_EACH_PART(PK_PART(m, k) = PK_EVEN_LANES(                                             \
                     (pk_i32p)((type)a.part[2 * k] operator(type) b.part[2 * k]),           \
                     (pk_i32p)((type)a.part[2 * k + 1] operator(type) b.part[2 * k + 1]));) \
    return m;                                                                               \
  }
#define PK_COMPARE_WIDE(name, operator, f64, integer)          \
  PK_WIDE_COMPARE(pk_##name##_f64, pk_f64v, pk_f64p, operator) \
  PK_WIDE_COMPARE(pk_##name##_i64, pk_i64v, pk_i64p, operator) \
  PK_WIDE_COMPARE(pk_##name##_u64, pk_i64v, pk_u64p, operator)
PK_INLINE pk_f64v pk_select_f64(pk_mask m, pk_f64v a, pk_f64v b) {
  PK_EACH_WIDE(a.part[k] = PK_PICK(pk_wide_mask(m, k), a.part[k], b.part[k]);)
  return a;
}
PK_INLINE pk_i64v pk_select_i64(pk_mask m, pk_i64v a, pk_i64v b) {
  PK_EACH_WIDE(a.part[k] =
                   (pk_i64p)PK_PICK(pk_wide_mask(m, k), (pk_f64p)a.part[k], (pk_f64p)b.part[k]);)
  return a;
}
#endif
PK_COMPARE_WIDE(eq, ==, _CMP_EQ_OQ, _MM_CMPINT_EQ)
PK_COMPARE_WIDE(ne, !=, _CMP_NEQ_UQ, _MM_CMPINT_NE)
PK_COMPARE_WIDE(lt, <, _CMP_LT_OQ, _MM_CMPINT_LT)
PK_COMPARE_WIDE(le, <=, _CMP_LE_OQ, _MM_CMPINT_LE)
PK_COMPARE_WIDE(gt, >, _CMP_GT_OQ, _MM_CMPINT_NLE)
PK_COMPARE_WIDE(ge, >=, _CMP_GE_OQ, _MM_CMPINT_NLT)
PK_INLINE pk_i64v pk_select_u64(pk_mask m, pk_i64v a, pk_i64v b) { return pk_select_i64(m, a, b); }

/* -- vectors of one element, and operations lane by lane */

PK_INLINE pk_f64v pk_splat_f64(double x) {
  pk_f64v r;
  PK_EACH_WIDE(r.part[k] = x - (pk_f64p){0};)
  return r;
}
PK_INLINE pk_i64v pk_splat_i64(int64_t x) {
  pk_i64v r;
  PK_EACH_WIDE(r.part[k] = x - (pk_i64p){0};)
  return r;
}
PK_INLINE pk_i64v pk_splat_u64(uint64_t x) { return pk_splat_i64((int64_t)x); }

/* vector name(a, ..): f of each lane of the operands. */
#define PK_WIDE_LANE1(name, vector, type, f)           \
  static inline vector name(vector a) {                \
    type x[PK_LANES];                                  \
    __builtin_memcpy(x, &a, sizeof x);                 \
    for (int k = 0; k < PK_LANES; k++) x[k] = f(x[k]); \
    __builtin_memcpy(&a, x, sizeof x);                 \
    return a;                                          \
  }
#define PK_WIDE_LANE2(name, vector, type, f)                 \
  static inline vector name(vector a, vector b) {            \
    type x[PK_LANES], y[PK_LANES];                           \
    __builtin_memcpy(x, &a, sizeof x);                       \
    __builtin_memcpy(y, &b, sizeof y);                       \
    for (int k = 0; k < PK_LANES; k++) x[k] = f(x[k], y[k]); \
    __builtin_memcpy(&a, x, sizeof x);                       \
    return a;                                                \
  }
PK_INLINE pk_i64v pk_lane_i64(void) {
  pk_i64v r;
  int64_t x[PK_LANES];
  for (int k = 0; k < PK_LANES; k++) x[k] = k;
  __builtin_memcpy(&r, x, sizeof r);
  return r;
}

/* -- arithmetic */

#define PK_WIDE_OPERATOR(name, vector, part_type, expression)             \
  PK_INLINE vector name(vector a, vector b) {                             \
    PK_EACH_WIDE({                                                        \
      const part_type x = (part_type)a.part[k], y = (part_type)b.part[k]; \
      a.part[k] = (__typeof__(a.part[k]))(expression);                    \
    })                                                                    \
    return a;                                                             \
  }
PK_WIDE_OPERATOR(pk_add_f64, pk_f64v, pk_f64p, x + y)
PK_WIDE_OPERATOR(pk_sub_f64, pk_f64v, pk_f64p, x - y)
PK_WIDE_OPERATOR(pk_mul_f64, pk_f64v, pk_f64p, x *y)
PK_WIDE_OPERATOR(pk_div_f64, pk_f64v, pk_f64p, x / y)
PK_WIDE_OPERATOR(pk_add_i64, pk_i64v, pk_u64p, x + y)
PK_WIDE_OPERATOR(pk_sub_i64, pk_i64v, pk_u64p, x - y)
PK_WIDE_OPERATOR(pk_mul_i64, pk_i64v, pk_u64p, x *y)
PK_WIDE_OPERATOR(pk_and_i64, pk_i64v, pk_u64p, x &y)
PK_WIDE_OPERATOR(pk_or_i64, pk_i64v, pk_u64p, x | y)
PK_WIDE_OPERATOR(pk_xor_i64, pk_i64v, pk_u64p, x ^ y)

PK_INLINE pk_i64v pk_bitcast_f64_i64(pk_f64v a) {
  pk_i64v r;
  PK_EACH_WIDE(r.part[k] = (pk_i64p)a.part[k];)
  return r;
}
PK_INLINE pk_f64v pk_bitcast_i64_f64(pk_i64v a) {
  pk_f64v r;
  PK_EACH_WIDE(r.part[k] = (pk_f64p)a.part[k];)
  return r;
}
PK_INLINE pk_i64v pk_not_i64(pk_i64v a) { return pk_xor_i64(a, pk_splat_i64(-1)); }
PK_INLINE pk_i64v pk_neg_i64(pk_i64v a) { return pk_sub_i64(pk_splat_i64(0), a); }
#if PK_PART_BYTES == 64
PK_INLINE pk_i64v pk_max_i64(pk_i64v a, pk_i64v b) { return pk_select_i64(pk_gt_i64(a, b), a, b); }
PK_INLINE pk_i64v pk_min_i64(pk_i64v a, pk_i64v b) { return pk_select_i64(pk_lt_i64(a, b), a, b); }
PK_INLINE pk_i64v pk_max_u64(pk_i64v a, pk_i64v b) { return pk_select_i64(pk_gt_u64(a, b), a, b); }
PK_INLINE pk_i64v pk_min_u64(pk_i64v a, pk_i64v b) { return pk_select_i64(pk_lt_u64(a, b), a, b); }
#else /* part by part: a mask of PK_LANES lanes would be packed and unpacked again */
#define PK_PICK_I64(condition, a, b) \
  (pk_i64p) PK_PICK(condition, (pk_f64p)a.part[k], (pk_f64p)b.part[k])
PK_WIDE_OPERATOR(pk_max_i64, pk_i64v, pk_i64p, PK_PICK_I64(x > y, a, b))
PK_WIDE_OPERATOR(pk_min_i64, pk_i64v, pk_i64p, PK_PICK_I64(x < y, a, b))
PK_WIDE_OPERATOR(pk_max_u64, pk_i64v, pk_u64p, PK_PICK_I64(x > y, a, b))
PK_WIDE_OPERATOR(pk_min_u64, pk_i64v, pk_u64p, PK_PICK_I64(x < y, a, b))
#undef PK_PICK_I64
#endif
PK_INLINE pk_i64v pk_abs_i64(pk_i64v a) { return pk_max_i64(a, pk_neg_i64(a)); }
PK_INLINE pk_i64v pk_sign_i64(pk_i64v a) {
  const pk_i64v zero = pk_splat_i64(0), one = pk_splat_i64(1);
  return pk_select_i64(pk_gt_i64(a, zero), one,
                       pk_select_i64(pk_lt_i64(a, zero), pk_splat_i64(-1), zero));
}
/* The bits do not ask for a sign. */
#define PK_WIDE_SAME1(name) \
  PK_INLINE pk_i64v pk_##name##_u64(pk_i64v a) { return pk_##name##_i64(a); }
#define PK_WIDE_SAME2(name) \
  PK_INLINE pk_i64v pk_##name##_u64(pk_i64v a, pk_i64v b) { return pk_##name##_i64(a, b); }
PK_WIDE_SAME2(add)
PK_WIDE_SAME2(sub)
PK_WIDE_SAME2(mul)
PK_WIDE_SAME2(and)
PK_WIDE_SAME2(or)
PK_WIDE_SAME2(xor)
PK_WIDE_SAME1(not )
PK_WIDE_SAME1(neg)
PK_INLINE pk_i64v pk_abs_u64(pk_i64v a) { return a; }
PK_INLINE pk_i64v pk_sign_u64(pk_i64v a) { return pk_min_u64(a, pk_splat_i64(1)); }

/* -- scalars: i64 is pk_idx_.. of rt.h and step.h */

PK_SCALAR_UNSIGNED(u64, uint64_t, 64, __builtin_popcountll, __builtin_clzll)

#define PK_WIDE_INTEGER2(name)                                    \
  PK_WIDE_LANE2(pk_##name##_i64, pk_i64v, int64_t, pk_idx_##name) \
  PK_WIDE_LANE2(pk_##name##_u64, pk_i64v, uint64_t, pks_##name##_u64)
/* A shift by the width or more leaves 0, or the sign. */
#define PK_WIDE_SHIFT(name, part_type, expression)                                \
  PK_INLINE pk_i64v name(pk_i64v a, pk_i64v b) {                                  \
    PK_EACH_WIDE({                                                                \
      const pk_u64p places = (pk_u64p)b.part[k], inside = (pk_u64p)(places < 64); \
      const part_type x = (part_type)a.part[k];                                   \
      a.part[k] = (pk_i64p)(expression);                                          \
    })                                                                            \
    return a;                                                                     \
  }
PK_WIDE_SHIFT(pk_shl_i64, pk_u64p, (x << (places & 63)) & inside)
PK_WIDE_SHIFT(pk_ushr_i64, pk_u64p, (x >> (places & 63)) & inside)
PK_WIDE_SHIFT(pk_shr_i64, pk_i64p, x >> (pk_i64p)((places & inside) | (63 & ~inside)))
PK_WIDE_SAME2(shl)
PK_WIDE_SAME2(ushr)
PK_INLINE pk_i64v pk_shr_u64(pk_i64v a, pk_i64v b) { return pk_ushr_u64(a, b); }

/* By repeated squaring, for as many bits as the largest exponent has. */
static inline pk_i64v pk_pow_u64(pk_i64v a, pk_i64v b) {
  pk_i64v r = pk_splat_i64(1);
  const pk_i64v zero = pk_splat_i64(0), one = r;
  for (; pk_any(pk_ne_i64(b, zero)); b = pk_ushr_i64(b, one)) {
    r = pk_select_i64(pk_ne_i64(pk_and_i64(b, one), zero), pk_mul_i64(r, a), r);
    a = pk_mul_i64(a, a);
  }
  return r;
}
/* For a negative exponent: 0, except for bases 1 and -1, whose powers follow from the last bit. */
static inline pk_i64v pk_pow_i64(pk_i64v a, pk_i64v b) {
  const pk_i64v zero = pk_splat_i64(0), one = pk_splat_i64(1);
  const pk_mask negative = pk_lt_i64(b, zero), unit = pk_eq_i64(pk_abs_i64(a), one);
  const pk_i64v r = pk_pow_u64(a, pk_select_i64(negative, pk_and_i64(b, one), b));
  return pk_select_i64(pk_and_mask(negative, pk_not_mask(unit)), zero, r);
}
#if PK_PART_BYTES == 64 && defined(__AVX512VPOPCNTDQ__)
PK_INLINE pk_u64p pk_count_bits_part(pk_u64p x) { return (pk_u64p)_mm512_popcnt_epi64((__m512i)x); }
#else
PK_INLINE pk_u64p pk_count_bits_part(pk_u64p x) {
  x = x - ((x >> 1) & 0x5555555555555555);
  x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
  x = x + (x >> 8), x = x + (x >> 16), x = x + (x >> 32);
  return x & 127;
}
#endif
#if PK_PART_BYTES == 64 && defined(__AVX512CD__)
PK_INLINE pk_u64p pk_leading_zeros_part(pk_u64p x) {
  return (pk_u64p)_mm512_lzcnt_epi64((__m512i)x);
}
#else
PK_INLINE pk_u64p pk_leading_zeros_part(pk_u64p x) {
  PK_UNROLL for (int k = 1; k < 64; k *= 2) x |= x >> k;
  return pk_count_bits_part(~x);
}
#endif
PK_INLINE pk_i64v pk_population_count_i64(pk_i64v a) {
  PK_EACH_WIDE(a.part[k] = (pk_i64p)pk_count_bits_part((pk_u64p)a.part[k]);)
  return a;
}
PK_INLINE pk_i64v pk_clz_i64(pk_i64v a) {
  PK_EACH_WIDE(a.part[k] = (pk_i64p)pk_leading_zeros_part((pk_u64p)a.part[k]);)
  return a;
}
PK_WIDE_SAME1(population_count)
PK_WIDE_SAME1(clz)

/* -- f64 */

PK_INLINE double pks_add_f64(double a, double b) { return a + b; }
PK_INLINE double pks_sub_f64(double a, double b) { return a - b; }
PK_INLINE double pks_mul_f64(double a, double b) { return a * b; }
PK_INLINE double pks_div_f64(double a, double b) { return a / b; }
PK_INLINE double pks_neg_f64(double a) { return -a; }
PK_INLINE double pks_abs_f64(double a) { return __builtin_fabs(a); }
PK_INLINE double pks_reciprocal_f64(double a) { return 1 / a; }
PK_INLINE double pks_sqrt_f64(double a) { return __builtin_sqrt(a); }
PK_INLINE double pks_rsqrt_f64(double a) { return 1 / __builtin_sqrt(a); }
PK_INLINE double pks_sign_f64(double a) { return a != 0 && a == a ? __builtin_copysign(1, a) : a; }
PK_INLINE double pks_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
PK_INLINE double pks_max_f64(double a, double b) {
  return a > b    ? a
         : a < b  ? b
         : a == b ? pk_f64_of_bits(pk_bits_of_f64(a) & pk_bits_of_f64(b))
                  : a + b;
}
PK_INLINE double pks_min_f64(double a, double b) {
  return a < b    ? a
         : a > b  ? b
         : a == b ? pk_f64_of_bits(pk_bits_of_f64(a) | pk_bits_of_f64(b))
                  : a + b;
}
PK_INLINE bool pks_isnan_f64(double a) { return a != a; }
PK_INLINE bool pks_isinf_f64(double a) { return __builtin_fabs(a) == __builtin_inf(); }
PK_INLINE bool pks_isfinite_f64(double a) { return __builtin_fabs(a) < __builtin_inf(); }
#include <pk/vec/wide_math.h>
/* The codes of floor, ceil and so on in the instructions. */
#if PK_PART_BYTES == 64
#define PK_WIDE_ROUND(a, function, mode) (pk_f64p) _mm512_roundscale_pd((__m512d)(a), mode)
#elif PK_PART_BYTES == 32
#define PK_WIDE_ROUND(a, function, mode) (pk_f64p) _mm256_round_pd((__m256d)(a), mode)
#else /* SIMDe's own does not round to even */
#define PK_WIDE_ROUND(a, function, mode) pk_small_##function##_part(a)
/* The integer next to x, ties to even: beyond 2^52 every number is one. */
PK_INLINE pk_f64p pk_small_rint_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x);
  const pk_i64p small = size < 0x1p52;
  return pk_pick_part((pk_u64p)small, pk_signed_part((size + 0x1p52) - 0x1p52, x), x);
}
PK_INLINE pk_f64p pk_small_floor_part(pk_f64p x) {
  const pk_f64p n = pk_small_rint_part(x);
  return pk_signed_part(pk_pick_part((pk_u64p)(n > x), n - 1, n), x);
}
PK_INLINE pk_f64p pk_small_ceil_part(pk_f64p x) { return -pk_small_floor_part(-x); }
PK_INLINE pk_f64p pk_small_trunc_part(pk_f64p x) {
  return pk_signed_part(pk_small_floor_part(pk_size_part(x)), x);
}
#endif
#define PK_WIDE_ROUNDED(name, function, mode)                                         \
  static inline double pks_##name##_f64(double a) { return __builtin_##function(a); } \
  PK_INLINE pk_f64v pk_##name##_f64(pk_f64v a) {                                      \
    PK_EACH_WIDE(a.part[k] = PK_WIDE_ROUND(a.part[k], function, mode);)               \
    return a;                                                                         \
  }
PK_INLINE pk_f64v pk_sqrt_f64(pk_f64v a) {
  PK_EACH_WIDE(a.part[k] = pk_root_part(a.part[k]);)
  return a;
}
PK_WIDE_ROUNDED(floor, floor, 9)
PK_WIDE_ROUNDED(ceil, ceil, 10)
PK_WIDE_ROUNDED(round, rint, 8)
PK_WIDE_ROUNDED(trunc, trunc, 11)
#include <pk/vec/wide_more.h>
#include <pk/vec/wide_divide.h>
#undef PK_WIDE_PAIRWISE
#undef PK_WIDE_PLAIN_PAIR

PK_INLINE pk_f64v pk_exp_below_f64(pk_f64v a) { return pk_exp_f64(a); }
PK_INLINE pk_f64v pk_neg_f64(pk_f64v a) {
  return pk_bitcast_i64_f64(pk_xor_i64(pk_bitcast_f64_i64(a), pk_splat_i64(INT64_MIN)));
}
PK_INLINE pk_f64v pk_abs_f64(pk_f64v a) {
  return pk_bitcast_i64_f64(pk_and_i64(pk_bitcast_f64_i64(a), pk_splat_i64(INT64_MAX)));
}
PK_INLINE pk_f64v pk_reciprocal_f64(pk_f64v a) { return pk_div_f64(pk_splat_f64(1), a); }
PK_INLINE pk_f64v pk_rsqrt_f64(pk_f64v a) { return pk_div_f64(pk_splat_f64(1), pk_sqrt_f64(a)); }
#if PK_WIDE_FMA
PK_INLINE pk_f64v pk_fma_f64(pk_f64v a, pk_f64v b, pk_f64v c) {
  PK_EACH_WIDE(c.part[k] = pk_muladd_part(a.part[k], b.part[k], c.part[k]);)
  return c;
}
#else
static inline pk_f64v pk_fma_f64(pk_f64v a, pk_f64v b, pk_f64v c) {
  PK_EACH_WIDE(PK_UNROLL for (int l = 0; l < PK_WIDE_LANES; l++) c.part[k][l] =
                   __builtin_fma(a.part[k][l], b.part[k][l], c.part[k][l]);)
  return c;
}
#endif
PK_INLINE pk_mask pk_isnan_f64(pk_f64v a) { return pk_ne_f64(a, a); }
PK_INLINE pk_mask pk_isinf_f64(pk_f64v a) {
  return pk_eq_f64(pk_abs_f64(a), pk_splat_f64(__builtin_inf()));
}
PK_INLINE pk_mask pk_isfinite_f64(pk_f64v a) {
  return pk_lt_f64(pk_abs_f64(a), pk_splat_f64(__builtin_inf()));
}
PK_INLINE pk_f64v pk_sign_f64(pk_f64v a) {
  const pk_mask nonzero = pk_gt_f64(pk_abs_f64(a), pk_splat_f64(0)); /* a NaN is not */
  const pk_i64v sign = pk_and_i64(pk_bitcast_f64_i64(a), pk_splat_i64(INT64_MIN)),
                one = pk_bitcast_f64_i64(pk_splat_f64(1));
  return pk_select_f64(nonzero, pk_bitcast_i64_f64(pk_or_i64(one, sign)), a);
}
/* NaN propagates; +0 is greater than -0. */
#if PK_PART_BYTES == 64 /* VRANGEPD orders signed zeros but prefers a number to a NaN */
#define PK_WIDE_EXTREME(name, order)                                                    \
  PK_INLINE pk_f64v name(pk_f64v a, pk_f64v b) {                                        \
    PK_EACH_WIDE({                                                                      \
      const __m512d x = (__m512d)a.part[k], y = (__m512d)b.part[k];                     \
      const __mmask8 nan = _mm512_cmp_pd_mask(x, y, _CMP_UNORD_Q);                      \
      a.part[k] = (pk_f64p)_mm512_mask_add_pd(_mm512_range_pd(x, y, order), nan, x, y); \
    })                                                                                  \
    return a;                                                                           \
  }
PK_WIDE_EXTREME(pk_max_f64, 5)
PK_WIDE_EXTREME(pk_min_f64, 4)
#undef PK_WIDE_EXTREME
#else /* of equal operands the instructions return the second: the orders differ for zeros alone \
       */
#define PK_WIDE_EXTREME(name, choose, operator)                                             \
  PK_INLINE pk_f64v name(pk_f64v a, pk_f64v b) {                                            \
    PK_EACH_WIDE({                                                                          \
      const pk_f64p x = a.part[k], y = b.part[k];                                           \
      const pk_f64p both = (pk_f64p)((pk_u64p)choose(x, y) operator(pk_u64p) choose(y, x)); \
      a.part[k] = PK_PICK((x == x) & (y == y), both, x + y);                                \
    })                                                                                      \
    return a;                                                                               \
  }
PK_WIDE_EXTREME(pk_max_f64, pk_most_part, &)
PK_WIDE_EXTREME(pk_min_f64, pk_least_part, |)
#undef PK_WIDE_EXTREME
#endif

#include <pk/vec/wide_cast.h>
#undef PK_PICK

/* -- memory */

PK_INLINE pk_i64v pk_load_raw64(const void *p) {
  pk_i64v r;
  PK_EACH_WIDE(r.part[k] = *(const pk_i64p_memory *)((const char *)p + k * PK_PART_BYTES);)
  return r;
}
PK_INLINE void pk_store_raw64(void *p, pk_i64v v) {
  PK_EACH_WIDE(*(pk_i64p_memory *)((char *)p + k * PK_PART_BYTES) = v.part[k];)
}
#if PK_PART_BYTES == 64
PK_INLINE pk_i64v pk_loadm_raw64(const void *p, pk_mask m) {
  pk_i64v r;
  PK_EACH_WIDE(r.part[k] = (pk_i64p)_mm512_maskz_loadu_epi64((__mmask8)(m >> 8 * k),
                                                             (const char *)p + k * PK_PART_BYTES);)
  return r;
}
PK_INLINE void pk_storem_raw64(void *p, pk_i64v v, pk_mask m) {
  PK_EACH_WIDE(_mm512_mask_storeu_epi64((char *)p + k * PK_PART_BYTES, (__mmask8)(m >> 8 * k),
                                        (__m512i)v.part[k]);)
}
#else
PK_LOADM(raw64, pk_i64v, pk_memory64)
PK_STOREM(raw64, pk_i64v, pk_memory64)
#endif
PK_INLINE pk_i64v pk_loadn_raw64(const void *p, int64_t n) {
#if PK_PART_BYTES == 64
  return pk_loadm_raw64(p, pk_mask_first(n));
#else
  pk_i64v r = pk_splat_i64(0);
  pk_copy_some(&r, p, 8 * pk_clamp_lanes(n));
  return r;
#endif
}
PK_INLINE void pk_storen_raw64(void *p, pk_i64v v, int64_t n) {
#if PK_PART_BYTES == 64
  pk_storem_raw64(p, v, pk_mask_first(n));
#else
  pk_copy_some(p, &v, 8 * pk_clamp_lanes(n));
#endif
}
PK_INLINE void pk_stream_raw64(void *p, pk_i64v v) { pk_store_raw64(p, v); }
PK_INLINE pk_i64v pk_same_raw64(pk_i64v v) { return v; }
PK_RAW_PICK(raw64, pk_i64v, pk_memory64)
PK_RAW_GATHER(raw64, pk_i64v, pk_memory64)
PK_LOADS(f64, double, pk_f64v, pk_bitcast_i64_f64, raw64)
PK_LOADS(i64, int64_t, pk_i64v, pk_same_raw64, raw64)
PK_LOADS(u64, uint64_t, pk_i64v, pk_same_raw64, raw64)
PK_STORES(f64, double, pk_f64v, pk_bitcast_f64_i64, raw64)
PK_STORES(i64, int64_t, pk_i64v, pk_same_raw64, raw64)
PK_STORES(u64, uint64_t, pk_i64v, pk_same_raw64, raw64)
PK_INLINE double pks_load_f64(const double *p) { return *p; }
PK_INLINE uint64_t pks_load_u64(const uint64_t *p) { return *p; }
PK_INLINE void pks_store_f64(double *p, double x) { *p = x; }
PK_INLINE void pks_store_u64(uint64_t *p, uint64_t x) { *p = x; }

/* -- over the lanes: k and k + PK_LANES / 2 first, then halves of that, on every machine */

#if PK_PART_BYTES == 64
#define PK_WIDE_PARTNER_4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define PK_WIDE_PARTNER_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define PK_WIDE_PARTNER_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#define PK_WIDE_FOLD(f) PK_WIDE_STEP(f, 4) PK_WIDE_STEP(f, 2) PK_WIDE_STEP(f, 1)
#elif PK_PART_BYTES == 32
#define PK_WIDE_PARTNER_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define PK_WIDE_PARTNER_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#define PK_WIDE_FOLD(f) PK_WIDE_STEP(f, 2) PK_WIDE_STEP(f, 1)
#else
#define PK_WIDE_PARTNER_1(v) __builtin_shufflevector(v, v, 1, 0)
#define PK_WIDE_FOLD(f) PK_WIDE_STEP(f, 1)
#endif
#define PK_WIDE_STEP(f, n) other.part[0] = PK_WIDE_PARTNER_##n(v.part[0]), v = f(v, other);
/* The other lanes and parts are ignored after a step. */
#define PK_REDUCE_WIDE(name, vector, type, operation)                      \
  PK_INLINE type name(vector v) {                                          \
    vector other = v;                                                      \
    PK_UNROLL for (int n = PK_WIDE_PARTS / 2; n > 0; n /= 2) {             \
      PK_UNROLL for (int k = 0; k < n; k++) other.part[k] = v.part[k + n]; \
      v = operation(v, other);                                             \
    }                                                                      \
    PK_WIDE_FOLD(operation)                                                \
    return (type)v.part[0][0];                                             \
  }
PK_REDUCE_WIDE(pk_reduce_add_f64, pk_f64v, double, pk_add_f64)
PK_REDUCE_WIDE(pk_reduce_mul_f64, pk_f64v, double, pk_mul_f64)
PK_REDUCE_WIDE(pk_reduce_max_f64, pk_f64v, double, pk_max_f64)
PK_REDUCE_WIDE(pk_reduce_min_f64, pk_f64v, double, pk_min_f64)
PK_REDUCE_WIDE(pk_reduce_add_i64, pk_i64v, int64_t, pk_add_i64)
PK_REDUCE_WIDE(pk_reduce_mul_i64, pk_i64v, int64_t, pk_mul_i64)
PK_REDUCE_WIDE(pk_reduce_max_i64, pk_i64v, int64_t, pk_max_i64)
PK_REDUCE_WIDE(pk_reduce_min_i64, pk_i64v, int64_t, pk_min_i64)
PK_REDUCE_WIDE(pk_reduce_max_u64, pk_i64v, uint64_t, pk_max_u64)
PK_REDUCE_WIDE(pk_reduce_min_u64, pk_i64v, uint64_t, pk_min_u64)

/* -- sorting: integers in the order of the numbers; NaN is last in both directions */

static inline int64_t pk_sort_key_f64(double x, bool descending) {
  const int64_t bits = (int64_t)pk_bits_of_f64(x);
  if (x != x) return descending ? INT64_MIN : INT64_MAX;
  if (x == 0) return 0;
  return bits < 0 ? -(bits & INT64_MAX) : bits;
}
static inline int64_t pk_sort_key_u64(uint64_t x) { return (int64_t)(x ^ (UINT64_C(1) << 63)); }

#endif
