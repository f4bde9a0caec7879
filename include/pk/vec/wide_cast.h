/* vec/wide_cast.h: conversions between f64, i64 and u64 in vectors, and from and to the dtypes
 * of 32 bits. Included by vec/wide.h only. Results are the same at every width, and for one
 * element. */
#ifndef PK_VEC_WIDE_CAST_H
#define PK_VEC_WIDE_CAST_H

/* Part k of 64-bit lanes from half a part of 32-bit ones, and two parts of 64-bit lanes to one. */
#define PK_WIDER(name, vector, part_type, from, half, to)                                          \
  PK_INLINE vector name(from a) {                                                                  \
    vector r;                                                                                      \
    PK_UNROLL for (int k = 0; k < PK_PARTS; k++) {                                                 \
      r.part[2 * k] = (part_type) __builtin_convertvector((half)PK_LOWER_HALF(PK_PART(a, k)), to); \
      r.part[2 * k + 1] =                                                                          \
          (part_type) __builtin_convertvector((half)PK_UPPER_HALF(PK_PART(a, k)), to);             \
    }                                                                                              \
    return r;                                                                                      \
  }
#define PK_NARROWER(name, vector, from, part_type, half)                                    \
  PK_INLINE vector name(from a) {                                                           \
    vector r;                                                                               \
    PK_EACH_PART(PK_PART(r, k) =                                                            \
                     PK_JOIN(__builtin_convertvector((part_type)a.part[2 * k], half),       \
                             __builtin_convertvector((part_type)a.part[2 * k + 1], half));) \
    return r;                                                                               \
  }
PK_WIDER(pk_cast_f32_f64, pk_f64v, pk_f64p, pk_f32v, pk_f32h, pk_f64p)
PK_WIDER(pk_cast_i32_f64, pk_f64v, pk_f64p, pk_i32v, pk_i32h, pk_f64p)
PK_WIDER(pk_cast_i32_i64, pk_i64v, pk_i64p, pk_i32v, pk_i32h, pk_i64p)
PK_WIDER(pk_cast_u32_i64, pk_i64v, pk_i64p, pk_i32v, pk_u32h, pk_u64p)
PK_NARROWER(pk_cast_f64_f32, pk_f32v, pk_f64v, pk_f64p, pk_f32h)
PK_NARROWER(pk_cast_i64_f32, pk_f32v, pk_i64v, pk_i64p, pk_f32h)
PK_NARROWER(pk_truncate_f64_i32, pk_i32v, pk_f64v, pk_f64p, pk_i32h)
/* The lower halves. */
PK_INLINE pk_i32v pk_cast_i64_i32(pk_i64v a) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = PK_EVEN_LANES((pk_i32p)a.part[2 * k], (pk_i32p)a.part[2 * k + 1]);)
  return r;
}
PK_INLINE pk_i32v pk_cast_u64_i32(pk_i64v a) { return pk_cast_i64_i32(a); }
/* A bound below 2^24, which f32 represents exactly. */
PK_INLINE pk_i32v pk_bounded_i64(pk_i64v a) {
  const pk_i64v most = pk_splat_i64(1 << 24);
  return pk_cast_i64_i32(pk_max_i64(pk_min_i64(a, most), pk_neg_i64(most)));
}
PK_INLINE pk_i32v pk_bounded_u64(pk_i64v a) {
  return pk_cast_i64_i32(pk_min_u64(a, pk_splat_i64(1 << 24)));
}

/* -- from integers. AVX-512 has instructions; otherwise they are made of the bits of floats (but
 * i64 to f32 by one instruction an element, in half that time). */

#if PK_PART_BYTES == 64
PK_WIDER(pk_cast_u32_f64, pk_f64v, pk_f64p, pk_i32v, pk_u32h, pk_f64p)
PK_NARROWER(pk_cast_u64_f32, pk_f32v, pk_i64v, pk_u64p, pk_f32h)
PK_INLINE pk_f64v pk_cast_i64_f64(pk_i64v a) {
  pk_f64v r;
  PK_EACH_WIDE(r.part[k] = __builtin_convertvector(a.part[k], pk_f64p);)
  return r;
}
PK_INLINE pk_f64v pk_cast_u64_f64(pk_i64v a) {
  pk_f64v r;
  PK_EACH_WIDE(r.part[k] = __builtin_convertvector((pk_u64p)a.part[k], pk_f64p);)
  return r;
}
#else
/* Both terms and their sum are exact. */
PK_INLINE pk_f64v pk_cast_u32_f64(pk_i32v a) {
  pk_f64v r = pk_cast_i32_f64(pk_xor_i32(a, pk_splat_i32(INT32_MIN)));
  PK_EACH_WIDE(r.part[k] = r.part[k] + 0x1p31;)
  return r;
}
/* The sum of both halves: the lower one is in the low bits of 2^52, the upper one in the number
 * `upper`. `less` is the sum of 2^52 and that number. Subtracting it is exact, so that only the
 * final sum is rounded. */
PK_INLINE pk_f64p pk_sum_halves(pk_i64p a, uint64_t upper, double less) {
  const pk_u64p bits = (pk_u64p)a;
  const pk_f64p low = (pk_f64p)((bits & UINT32_MAX) | UINT64_C(0x4330000000000000)),
                high = (pk_f64p)(bits >> 32 ^ upper);
  return (high - less) + low;
}
/* The upper half is that of 2^84 + 2^63, whose lowest bits have a flipped sign. */
PK_INLINE pk_f64v pk_cast_i64_f64(pk_i64v a) {
  pk_f64v r;
  PK_EACH_WIDE(
      r.part[k] = pk_sum_halves(a.part[k], UINT64_C(0x4530000080000000), 0x1p84 + 0x1p63 + 0x1p52);)
  return r;
}
PK_INLINE pk_f64v pk_cast_u64_f64(pk_i64v a) {
  pk_f64v r;
  PK_EACH_WIDE(r.part[k] = pk_sum_halves(a.part[k], UINT64_C(0x4530000000000000), 0x1p84 + 0x1p52);)
  return r;
}
#endif
PK_INLINE pk_i64v pk_cast_mask_i64(pk_mask m) {
  return pk_select_i64(m, pk_splat_i64(1), pk_splat_i64(0));
}
PK_INLINE pk_f64v pk_cast_mask_f64(pk_mask m) {
  return pk_select_f64(m, pk_splat_f64(1), pk_splat_f64(0));
}
PK_INLINE pk_mask pk_cast_i64_mask(pk_i64v a) { return pk_ne_i64(a, pk_splat_i64(0)); }
PK_INLINE pk_mask pk_cast_u64_mask(pk_i64v a) { return pk_cast_i64_mask(a); }
PK_INLINE pk_mask pk_cast_f64_mask(pk_f64v a) { return pk_ne_f64(a, pk_splat_f64(0)); }

/* Truncates and saturates; NaN gives 0. */
static inline int64_t pks_cast_f64_i64(double a) {
  return a != a ? 0 : a >= 0x1p63 ? INT64_MAX : a <= -0x1p63 ? INT64_MIN : (int64_t)a;
}
static inline uint64_t pks_cast_f64_u64(double a) {
  return !(a > 0) ? 0 : a >= 0x1p64 ? UINT64_MAX : (uint64_t)a;
}
static inline int64_t pks_cast_f64_range(double a, int64_t least, int64_t greatest) {
  if (a != a) return 0;
  return a <= (double)least ? least : a >= (double)greatest ? greatest : (int64_t)a;
}
#define PK_CAST_WIDE(T, type, least, greatest) \
  PK_INLINE type pks_cast_f64_##T(double a) { return (type)pks_cast_f64_range(a, least, greatest); }
#define PK_CAST_WIDE_PARTS(I, U, bits)                                \
  PK_CAST_WIDE(I, int32_t, -(1 << ((bits)-1)), (1 << ((bits)-1)) - 1) \
  PK_CAST_WIDE(U, uint32_t, 0, (1 << (bits)) - 1)
PK_PART_DTYPES(PK_CAST_WIDE_PARTS)
#undef PK_CAST_WIDE_PARTS
PK_CAST_WIDE(i8, int32_t, INT8_MIN, INT8_MAX)
PK_CAST_WIDE(u8, uint32_t, 0, UINT8_MAX)
PK_CAST_WIDE(i16, int32_t, INT16_MIN, INT16_MAX)
PK_CAST_WIDE(u16, uint32_t, 0, UINT16_MAX)
PK_CAST_WIDE(i32, int32_t, INT32_MIN, INT32_MAX)
PK_CAST_WIDE(u32, uint32_t, 0, UINT32_MAX)

/* Truncates a part whose numbers are below 2^63. With AVX2 the 53 bits are shifted to their place;
 * a shift by 64 or more, or by a negative count, gives 0. */
PK_INLINE pk_i64p pk_truncate_part(pk_f64p x) {
#if PK_PART_BYTES == 32
  const pk_u64p bits = (pk_u64p)x, places = (bits << 1 >> 53) - 1075;
  const __m256i whole = (__m256i)((bits << 12 >> 12) | (UINT64_C(1) << 52));
  const pk_u64p size = (pk_u64p)_mm256_sllv_epi64(whole, (__m256i)places) |
                       (pk_u64p)_mm256_srlv_epi64(whole, (__m256i)(0 - places));
  const pk_u64p sign = 0 - (bits >> 63);
  return (pk_i64p)((size ^ sign) - sign);
#else
  return __builtin_convertvector(x, pk_i64p);
#endif
}
#if PK_PART_BYTES == 64
/* The instruction returns the least i64, or the greatest u64, if the result does not fit. */
PK_INLINE pk_i64p pk_saturated_part(__m512i r, __mmask8 high) {
  return (pk_i64p)_mm512_mask_mov_epi64(r, high, _mm512_set1_epi64(INT64_MAX));
}
PK_INLINE pk_i64p pk_part_f64_i64(pk_f64p a) {
  const __m512d x = (__m512d)a;
  return pk_saturated_part(_mm512_maskz_cvttpd_epi64(_mm512_cmp_pd_mask(x, x, _CMP_ORD_Q), x),
                           _mm512_cmp_pd_mask(x, _mm512_set1_pd(0x1p63), _CMP_GE_OQ));
}
PK_INLINE pk_i64p pk_part_f32_i64(pk_f32h a) {
  const __m256 x = (__m256)a;
  return pk_saturated_part(_mm512_maskz_cvttps_epi64(_mm256_cmp_ps_mask(x, x, _CMP_ORD_Q), x),
                           _mm256_cmp_ps_mask(x, _mm256_set1_ps(0x1p63f), _CMP_GE_OQ));
}
PK_INLINE pk_i64p pk_part_f64_u64(pk_f64p a) {
  const __m512d x = (__m512d)a;
  return (pk_i64p)_mm512_maskz_cvttpd_epu64(_mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_GT_OQ),
                                            x);
}
PK_INLINE pk_i64p pk_part_f32_u64(pk_f32h a) {
  const __m256 x = (__m256)a;
  return (pk_i64p)_mm512_maskz_cvttps_epu64(_mm256_cmp_ps_mask(x, _mm256_setzero_ps(), _CMP_GT_OQ),
                                            x);
}
#define PK_TRUNCATE_WIDE(T)                                                       \
  PK_INLINE pk_i64v pk_cast_f64_##T(pk_f64v a) {                                  \
    pk_i64v r;                                                                    \
    PK_EACH_WIDE(r.part[k] = pk_part_f64_##T(a.part[k]);)                         \
    return r;                                                                     \
  }                                                                               \
  PK_INLINE pk_i64v pk_cast_f32_##T(pk_f32v a) {                                  \
    pk_i64v r;                                                                    \
    PK_UNROLL for (int k = 0; k < PK_PARTS; k++) {                                \
      r.part[2 * k] = pk_part_f32_##T((pk_f32h)PK_LOWER_HALF(PK_PART(a, k)));     \
      r.part[2 * k + 1] = pk_part_f32_##T((pk_f32h)PK_UPPER_HALF(PK_PART(a, k))); \
    }                                                                             \
    return r;                                                                     \
  }
PK_TRUNCATE_WIDE(i64)
PK_TRUNCATE_WIDE(u64)
#undef PK_TRUNCATE_WIDE
#else
static inline pk_i64v pk_cast_f64_i64(pk_f64v a) {
  pk_i64v r;
  PK_EACH_WIDE({
    const pk_f64p x = a.part[k];
    const pk_u64p low = (pk_u64p)(x <= -0x1p63), high = (pk_u64p)(x >= 0x1p63),
                  inside = (pk_u64p)(x == x) & ~(low | high);
    const pk_u64p number = (pk_u64p)pk_truncate_part((pk_f64p)((pk_u64p)x & inside));
    r.part[k] = (pk_i64p)((number & inside) | (low & (UINT64_C(1) << 63)) | (high & INT64_MAX));
  })
  return r;
}
static inline pk_i64v pk_cast_f64_u64(pk_f64v a) {
  pk_i64v r;
  PK_EACH_WIDE({
    const pk_f64p x = a.part[k];
    const pk_u64p upper = (pk_u64p)(x >= 0x1p63), high = (pk_u64p)(x >= 0x1p64),
                  inside = (pk_u64p)(x > 0) & ~high;
    const pk_f64p rest = PK_PICK(upper, x - 0x1p63, x);
    const pk_u64p number = (pk_u64p)pk_truncate_part((pk_f64p)((pk_u64p)rest & inside));
    r.part[k] = (pk_i64p)(((number ^ (upper & (UINT64_C(1) << 63))) & inside) | high);
  })
  return r;
}
PK_INLINE pk_i64v pk_cast_f32_i64(pk_f32v a) { return pk_cast_f64_i64(pk_cast_f32_f64(a)); }
PK_INLINE pk_i64v pk_cast_f32_u64(pk_f32v a) { return pk_cast_f64_u64(pk_cast_f32_f64(a)); }
#endif
/* To a range within that of i32. */
PK_INLINE pk_i32v pk_cast_f64_range(pk_f64v a, double least, double greatest) {
  PK_EACH_WIDE({
    const pk_f64p number = (pk_f64p)((pk_u64p)a.part[k] & (pk_u64p)(a.part[k] == a.part[k]));
    a.part[k] =
        pk_most_part(pk_least_part(number, pk_constant_part(greatest)), pk_constant_part(least));
  })
  return pk_truncate_f64_i32(a);
}
#define PK_CAST_F64_PARTS(I, U, bits)                                       \
  PK_INLINE pk_i32v pk_cast_f64_##I(pk_f64v a) {                            \
    return pk_cast_f64_range(a, -(1 << ((bits)-1)), (1 << ((bits)-1)) - 1); \
  }                                                                         \
  PK_INLINE pk_i32v pk_cast_f64_##U(pk_f64v a) {                            \
    return pk_cast_f64_range(a, 0, (1 << (bits)) - 1);                      \
  }
PK_PART_DTYPES(PK_CAST_F64_PARTS)
#undef PK_CAST_F64_PARTS
PK_INLINE pk_i32v pk_cast_f64_i8(pk_f64v a) { return pk_cast_f64_range(a, -128, 127); }
PK_INLINE pk_i32v pk_cast_f64_u8(pk_f64v a) { return pk_cast_f64_range(a, 0, 255); }
PK_INLINE pk_i32v pk_cast_f64_i16(pk_f64v a) { return pk_cast_f64_range(a, -32768, 32767); }
PK_INLINE pk_i32v pk_cast_f64_u16(pk_f64v a) { return pk_cast_f64_range(a, 0, 65535); }
PK_INLINE pk_i32v pk_cast_f64_i32(pk_f64v a) { return pk_cast_f64_range(a, INT32_MIN, INT32_MAX); }
PK_INLINE pk_i32v pk_cast_f64_u32(pk_f64v a) {
  const pk_i64v number = pk_max_i64(pk_cast_f64_i64(a), pk_splat_i64(0));
  return pk_cast_i64_i32(pk_min_i64(number, pk_splat_i64(UINT32_MAX)));
}
PK_INLINE uint64_t pks_cast_f32_u64(float a) { return pks_cast_f64_u64((double)a); }
PK_INLINE bool pks_cast_i64_mask(int64_t a) { return a != 0; }
PK_INLINE bool pks_cast_f64_mask(double a) { return a != 0; }
PK_INLINE double pks_cast_mask_f64(bool a) { return a ? 1 : 0; }
PK_INLINE int64_t pks_cast_mask_i64(bool a) { return a; }
PK_INLINE double pks_cast_f32_f64(float a) { return (double)a; }
PK_INLINE float pks_cast_f64_f32(double a) { return (float)a; }
PK_INLINE double pks_cast_i32_f64(int32_t a) { return (double)a; }
PK_INLINE double pks_cast_u32_f64(uint32_t a) { return (double)a; }
PK_INLINE double pks_cast_i64_f64(int64_t a) { return (double)a; }
PK_INLINE double pks_cast_u64_f64(uint64_t a) { return (double)a; }
PK_INLINE float pks_cast_u64_f32(uint64_t a) { return (float)a; }
PK_INLINE int64_t pks_bitcast_f64_i64(double a) { return (int64_t)pk_bits_of_f64(a); }
PK_INLINE uint64_t pks_bitcast_f64_u64(double a) { return pk_bits_of_f64(a); }
PK_INLINE double pks_bitcast_i64_f64(int64_t a) { return pk_f64_of_bits((uint64_t)a); }
PK_INLINE double pks_bitcast_u64_f64(uint64_t a) { return pk_f64_of_bits(a); }
PK_INLINE pk_i64v pk_bitcast_f64_u64(pk_f64v a) { return pk_bitcast_f64_i64(a); }
PK_INLINE pk_f64v pk_bitcast_u64_f64(pk_i64v a) { return pk_bitcast_i64_f64(a); }

/* Converts to f32, and rounds to odd if the value does not fit, so that rounding once more to
 * fewer bits is correct. Values beyond f32 become the greatest f32, which then rounds like an
 * infinity. */
static inline float pks_odd_f64(double x) {
  const float near = (float)x;
  uint32_t bits = pk_bits_of_f32(near);
  if ((double)near == x || x != x) return near;
  if (__builtin_fabs((double)near) > __builtin_fabs(x)) bits--;
  return pk_f32_of_bits(bits | 1);
}
static inline float pks_odd_u64(uint64_t x) {
  if (x >> 53) x = (x >> 12 << 12) | (x & 4095 ? 4096 : 0);
  return pks_odd_f64((double)x);
}
#if PK_PART_BYTES == 64
/* By instructions that round to zero. */
enum { PK_TO_ZERO = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
PK_INLINE pk_f32h pk_odd_part(__m256 zeroward, __mmask8 inexact) {
  const __m256i bits = _mm256_castps_si256(zeroward);
  return (pk_f32h)_mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1));
}
PK_INLINE pk_f32h pk_odd_part_f64(pk_f64p a) {
  const __m512d x = (__m512d)a;
  const __m256 r = _mm512_cvt_roundpd_ps(x, PK_TO_ZERO);
  return pk_odd_part(r, _mm512_cmp_pd_mask(_mm512_cvtps_pd(r), x, _CMP_NEQ_OQ));
}
PK_INLINE pk_f32h pk_odd_part_i64(pk_i64p a) {
  const __m256 r = _mm512_cvt_roundepi64_ps((__m512i)a, PK_TO_ZERO);
  return pk_odd_part(r, _mm512_cmpneq_epi64_mask(_mm512_cvttps_epi64(r), (__m512i)a));
}
PK_INLINE pk_f32h pk_odd_part_u64(pk_i64p a) {
  const __m256 r = _mm512_cvt_roundepu64_ps((__m512i)a, PK_TO_ZERO);
  return pk_odd_part(r, _mm512_cmpneq_epi64_mask(_mm512_cvttps_epu64(r), (__m512i)a));
}
#define PK_ODD_WIDE(T, vector)                                                                     \
  PK_INLINE pk_f32v pk_odd_##T(vector a) {                                                         \
    pk_f32v r;                                                                                     \
    PK_EACH_PART(PK_PART(r, k) =                                                                   \
                     PK_JOIN(pk_odd_part_##T(a.part[2 * k]), pk_odd_part_##T(a.part[2 * k + 1]));) \
    return r;                                                                                      \
  }
PK_ODD_WIDE(f64, pk_f64v)
PK_ODD_WIDE(i64, pk_i64v)
PK_ODD_WIDE(u64, pk_i64v)
#undef PK_ODD_WIDE
#else
static inline pk_f32v pk_odd_f64(pk_f64v a) {
  pk_i64v r;
  PK_EACH_WIDE({
    const pk_f64p x = a.part[k];
    const pk_f32h near = __builtin_convertvector(x, pk_f32h);
    const pk_f64p back = __builtin_convertvector(near, pk_f64p);
    const pk_u64p bits = __builtin_convertvector((pk_u32h)near, pk_u64p),
                  above = (pk_u64p)(pk_size_part(back) > pk_size_part(x)),
                  off = (pk_u64p)((back < x) | (back > x));
    r.part[k] = (pk_i64p)PK_PICK(off, (pk_f64p)((bits + above) | 1), (pk_f64p)bits);
  })
  return pk_bitcast_i32_f32(pk_cast_i64_i32(r));
}
/* The bits unchanged if there are 53 or fewer; otherwise the upper ones, and the last one is set if
 * any dropped bit was set. */
PK_INLINE pk_u64p pk_odd_bits_part(pk_u64p bits, pk_u64p few) {
  const pk_u64p dropped = bits & 4095, odd = (bits ^ dropped) | ((pk_u64p)(dropped != 0) & 4096);
  return (pk_u64p)PK_PICK(few, (pk_f64p)bits, (pk_f64p)odd);
}
PK_INLINE pk_i64v pk_odd_bits_u64(pk_i64v a) {
  PK_EACH_WIDE({
    const pk_u64p bits = (pk_u64p)a.part[k];
    a.part[k] = (pk_i64p)pk_odd_bits_part(bits, (pk_u64p)(bits >> 53 == 0));
  })
  return a;
}
PK_INLINE pk_i64v pk_odd_bits_i64(pk_i64v a) {
  PK_EACH_WIDE({
    const pk_u64p bits = (pk_u64p)a.part[k], above = bits + (UINT64_C(1) << 53);
    a.part[k] = (pk_i64p)pk_odd_bits_part(bits, (pk_u64p)(above >> 54 == 0));
  })
  return a;
}
static inline pk_f32v pk_odd_u64(pk_i64v a) {
  return pk_odd_f64(pk_cast_u64_f64(pk_odd_bits_u64(a)));
}
static inline pk_f32v pk_odd_i64(pk_i64v a) {
  return pk_odd_f64(pk_cast_i64_f64(pk_odd_bits_i64(a)));
}
/* The f64 is rounded to odd, so that the rounding to f32 is that of the original value. */
PK_INLINE pk_f32v pk_cast_u64_f32(pk_i64v a) {
  return pk_cast_f64_f32(pk_cast_u64_f64(pk_odd_bits_u64(a)));
}
#endif

#endif
