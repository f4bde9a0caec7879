/* vec/double.h: parts of f64, which have half as many lanes as parts of f32. Functions of f32 use
 * them where f32 is not precise enough, and vec/wide.h builds vectors of them. Included by vec.h
 * only. */
#ifndef PK_VEC_DOUBLE_H
#define PK_VEC_DOUBLE_H

typedef double pk_f64p __attribute__((vector_size(PK_PART_BYTES)));
typedef int64_t pk_i64p __attribute__((vector_size(PK_PART_BYTES)));
typedef uint64_t pk_u64p __attribute__((vector_size(PK_PART_BYTES)));
/* Half a part of 32-bit lanes has as many lanes as a part of 64-bit lanes. */
typedef float pk_f32h __attribute__((vector_size(PK_PART_BYTES / 2)));
typedef int32_t pk_i32h __attribute__((vector_size(PK_PART_BYTES / 2)));
typedef uint32_t pk_u32h __attribute__((vector_size(PK_PART_BYTES / 2)));

#if PK_PART_LANES == 16
#define PK_LOWER_HALF(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define PK_UPPER_HALF(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define PK_JOIN(a, b) \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define PK_EVEN_LANES(a, b) \
  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#elif PK_PART_LANES == 8
#define PK_LOWER_HALF(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define PK_UPPER_HALF(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define PK_JOIN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define PK_EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define PK_TWICE_LOWER(v) __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3)
#define PK_TWICE_UPPER(v) __builtin_shufflevector(v, v, 4, 4, 5, 5, 6, 6, 7, 7)
#else
#define PK_LOWER_HALF(v) __builtin_shufflevector(v, v, 0, 1)
#define PK_UPPER_HALF(v) __builtin_shufflevector(v, v, 2, 3)
#define PK_JOIN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3)
#define PK_EVEN_LANES(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define PK_TWICE_LOWER(v) __builtin_shufflevector(v, v, 0, 0, 1, 1)
#define PK_TWICE_UPPER(v) __builtin_shufflevector(v, v, 2, 2, 3, 3)
#endif

PK_INLINE pk_f64p pk_constant_part(double x) { return x - (pk_f64p){0}; }
/* Every lane of m is 0 or -1. */
PK_INLINE pk_f64p pk_pick_part(pk_u64p m, pk_f64p a, pk_f64p b) {
#if PK_PART_BYTES == 32
  return (pk_f64p)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
#else
  return (pk_f64p)((m & (pk_u64p)a) | (~m & (pk_u64p)b));
#endif
}
#define PK_PICK(condition, a, b) pk_pick_part((pk_u64p)(condition), a, b)
PK_INLINE pk_f64p pk_size_part(pk_f64p x) { return (pk_f64p)((pk_u64p)x << 1 >> 1); }
PK_INLINE pk_f64p pk_signed_part(pk_f64p size, pk_f64p x) {
  return (pk_f64p)((pk_u64p)size | ((pk_u64p)x >> 63 << 63));
}

/* Rounds once if PK_WIDE_FMA. */
#if PK_PART_BYTES == 64 || (defined(__FMA__) && PK_PART_BYTES == 32) || \
    (PK_PART_BYTES == 16 && defined(__aarch64__))
#define PK_WIDE_FMA 1
#else
#define PK_WIDE_FMA 0
#endif
PK_INLINE pk_f64p pk_muladd_part(pk_f64p a, pk_f64p b, pk_f64p c) {
#if PK_PART_BYTES == 64
  return (pk_f64p)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__) && PK_PART_BYTES == 32
  return (pk_f64p)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif PK_PART_BYTES == 16 && defined(__aarch64__)
  return (pk_f64p)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}
#define PK_HORNER(x, ...)                          \
  pk_horner_part(x, (const double[]){__VA_ARGS__}, \
                 (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
PK_INLINE pk_f64p pk_horner_part(pk_f64p x, const double *c, int count) {
  pk_f64p zero = (pk_f64p){0}, p = zero + c[0];
  PK_UNROLL for (int k = 1; k < count; k++) p = pk_muladd_part(p, x, zero + c[k]);
  return p;
}

/* Widens the lower and the upper half of the lanes, and narrows both back to one vector. */
#if PK_PART_BYTES == 64 /* gcc 12 takes the first two in 32 bytes at a time */
PK_INLINE pk_f64p pk_lower_doubles(pk_f32p v) {
  return (pk_f64p)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
}
PK_INLINE pk_f64p pk_upper_doubles(pk_f32p v) {
  return (pk_f64p)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
}
#else
PK_INLINE pk_f64p pk_lower_doubles(pk_f32p v) {
  return __builtin_convertvector(PK_LOWER_HALF(v), pk_f64p);
}
PK_INLINE pk_f64p pk_upper_doubles(pk_f32p v) {
  return __builtin_convertvector(PK_UPPER_HALF(v), pk_f64p);
}
#endif
PK_INLINE pk_f32p pk_rounded_part(pk_f64p low, pk_f64p high) {
  return PK_JOIN(__builtin_convertvector(low, pk_f32h), __builtin_convertvector(high, pk_f32h));
}

/* Masks of lanes, from comparisons; minimum and maximum of operands that are not NaN. */
#if PK_PART_BYTES == 64
typedef __mmask8 pk_lanes_f64;
PK_INLINE pk_lanes_f64 pk_above_part(pk_f64p a, pk_f64p b) {
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
}
PK_INLINE pk_f64p pk_choose_part(pk_lanes_f64 m, pk_f64p a, pk_f64p b) {
  return (pk_f64p)_mm512_mask_blend_pd(m, (__m512d)b, (__m512d)a);
}
PK_INLINE bool pk_any_part(pk_lanes_f64 m) { return m != 0; }
PK_INLINE pk_f64p pk_least_part(pk_f64p a, pk_f64p b) {
  return (pk_f64p)_mm512_min_pd((__m512d)a, (__m512d)b);
}
PK_INLINE pk_f64p pk_most_part(pk_f64p a, pk_f64p b) {
  return (pk_f64p)_mm512_max_pd((__m512d)a, (__m512d)b);
}
#else
typedef pk_u64p pk_lanes_f64;
PK_INLINE pk_lanes_f64 pk_above_part(pk_f64p a, pk_f64p b) { return (pk_u64p)(a > b); }
PK_INLINE pk_f64p pk_choose_part(pk_lanes_f64 m, pk_f64p a, pk_f64p b) {
  return pk_pick_part(m, a, b);
}
#if PK_PART_BYTES == 32
PK_INLINE bool pk_any_part(pk_lanes_f64 m) { return simde_mm256_movemask_pd((simde__m256d)m) != 0; }
PK_INLINE pk_f64p pk_least_part(pk_f64p a, pk_f64p b) {
  return (pk_f64p)simde_mm256_min_pd((simde__m256d)a, (simde__m256d)b);
}
PK_INLINE pk_f64p pk_most_part(pk_f64p a, pk_f64p b) {
  return (pk_f64p)simde_mm256_max_pd((simde__m256d)a, (simde__m256d)b);
}
#else
PK_INLINE bool pk_any_part(pk_lanes_f64 m) { return simde_mm_movemask_pd((simde__m128d)m) != 0; }
PK_INLINE pk_f64p pk_least_part(pk_f64p a, pk_f64p b) {
  return (pk_f64p)simde_mm_min_pd((simde__m128d)a, (simde__m128d)b);
}
PK_INLINE pk_f64p pk_most_part(pk_f64p a, pk_f64p b) {
  return (pk_f64p)simde_mm_max_pd((simde__m128d)a, (simde__m128d)b);
}
#endif
#endif

/* Positive x = 2^e m, m within [0.7, 1.5]. */
#if PK_PART_BYTES == 64
PK_INLINE pk_f64p pk_split_part(pk_f64p x, pk_f64p *e) {
  const __m512d m = _mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
  *e = (pk_f64p)_mm512_sub_pd(_mm512_getexp_pd((__m512d)x), _mm512_getexp_pd(m));
  return (pk_f64p)m;
}
#else
PK_INLINE pk_f64p pk_split_part(pk_f64p x, pk_f64p *e) {
  pk_u64p exponent =
      ((pk_u64p)x - 0x3fe6a09e667f3bcdu) >> 52; /* from that of sqrt 1/2, twelve bits and a sign */
  exponent = (exponent ^ 0x800) - 0x800;
  *e = (pk_f64p)(exponent + 0x4338000000000000u) - 0x1.8p52; /* as a double */
  return (pk_f64p)((pk_u64p)x - (exponent << 52));
}
#endif

PK_INLINE pk_f64p pk_root_part(pk_f64p x) {
#if PK_PART_BYTES == 64
  return (pk_f64p)_mm512_sqrt_pd((__m512d)x);
#elif PK_PART_BYTES == 32
  return (pk_f64p)simde_mm256_sqrt_pd((simde__m256d)x);
#else
  return (pk_f64p)simde_mm_sqrt_pd((simde__m128d)x);
#endif
}

/* -- for results in f32: quotients and roots with a relative error of 2^-40, which take a third of
 * the time of exact ones with AVX-512. The divisor is neither 0 nor infinite; the operand of a root
 * is finite. */

#if PK_PART_BYTES == 64
PK_INLINE pk_f64p pk_near_quotient_part(pk_f64p a, pk_f64p b) {
  const pk_f64p r = (pk_f64p)_mm512_rcp14_pd((__m512d)b), one = pk_constant_part(1),
                e = pk_muladd_part(-b, r, one);
  return a * pk_muladd_part(r, pk_muladd_part(e, e, e), r);
}
PK_INLINE pk_f64p pk_near_root_part(pk_f64p x) {
  const __mmask8 some = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
  const pk_f64p r = (pk_f64p)_mm512_maskz_rsqrt14_pd(some, (__m512d)x), s = x * r,
                e = pk_muladd_part(-s, r, pk_constant_part(1));
  const pk_f64p more =
      e * pk_muladd_part(e, pk_constant_part(0.375), pk_constant_part(0.5)); /* r sqrt(x) - 1 */
  return pk_muladd_part(s, more, s);
}
#else
PK_INLINE pk_f64p pk_near_quotient_part(pk_f64p a, pk_f64p b) { return a / b; }
PK_INLINE pk_f64p pk_near_root_part(pk_f64p x) { return pk_root_part(x); }
#endif

#endif
