/* vec/512.h: the operations of vec.h that need AVX-512 instructions, for vectors of 64 bytes.
 * Included by vec.h only. */
#ifndef PK_VEC_512_H
#define PK_VEC_512_H

#define PK_HAVE_MADD_I16

typedef __mmask16 pk_mask;

PK_INLINE pk_mask pk_splat_mask(bool x) { return (pk_mask)(x ? 0xffff : 0); }
PK_INLINE pk_mask pk_mask_first(int64_t n) { return (pk_mask)((1u << pk_clamp_lanes(n)) - 1); }
/* In a general register, because gcc 12 with -O1 -fsanitize=address spills the number as a mask
 * and loses its upper half. */
PK_INLINE uint32_t pk_mask_bits(pk_mask m) {
  uint32_t bits = m;
  __asm__("" : "+r"(bits));
  return bits;
}
PK_INLINE pk_mask pk_and_mask(pk_mask a, pk_mask b) { return (pk_mask)(a & b); }
PK_INLINE pk_mask pk_or_mask(pk_mask a, pk_mask b) { return (pk_mask)(a | b); }
PK_INLINE pk_mask pk_xor_mask(pk_mask a, pk_mask b) { return (pk_mask)(a ^ b); }
PK_INLINE pk_mask pk_not_mask(pk_mask m) { return (pk_mask)~m; }
PK_INLINE bool pk_any(pk_mask m) { return m != 0; }
PK_INLINE bool pk_all(pk_mask m) { return m == 0xffff; }
PK_INLINE pk_f32v pk_select_f32(pk_mask m, pk_f32v a, pk_f32v b) {
  return (pk_f32v)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a);
}
PK_INLINE pk_i32v pk_select_i32(pk_mask m, pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a);
}
PK_INLINE pk_mask pk_select_mask(pk_mask m, pk_mask a, pk_mask b) {
  return (pk_mask)((m & a) | (~m & b));
}

PK_INLINE pk_mask pk_eq_f32(pk_f32v a, pk_f32v b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
PK_INLINE pk_mask pk_ne_f32(pk_f32v a, pk_f32v b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NEQ_UQ);
}
PK_INLINE pk_mask pk_lt_f32(pk_f32v a, pk_f32v b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
}
PK_INLINE pk_mask pk_le_f32(pk_f32v a, pk_f32v b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LE_OQ);
}
PK_INLINE pk_mask pk_gt_f32(pk_f32v a, pk_f32v b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
PK_INLINE pk_mask pk_ge_f32(pk_f32v a, pk_f32v b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
}
PK_INLINE pk_mask pk_eq_i32(pk_i32v a, pk_i32v b) {
  return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_ne_i32(pk_i32v a, pk_i32v b) {
  return _mm512_cmpneq_epi32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_lt_i32(pk_i32v a, pk_i32v b) {
  return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_le_i32(pk_i32v a, pk_i32v b) {
  return _mm512_cmple_epi32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_gt_i32(pk_i32v a, pk_i32v b) {
  return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_ge_i32(pk_i32v a, pk_i32v b) {
  return _mm512_cmpge_epi32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_eq_u32(pk_i32v a, pk_i32v b) { return pk_eq_i32(a, b); }
PK_INLINE pk_mask pk_ne_u32(pk_i32v a, pk_i32v b) { return pk_ne_i32(a, b); }
PK_INLINE pk_mask pk_lt_u32(pk_i32v a, pk_i32v b) {
  return _mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_le_u32(pk_i32v a, pk_i32v b) {
  return _mm512_cmple_epu32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_gt_u32(pk_i32v a, pk_i32v b) {
  return _mm512_cmpgt_epu32_mask((__m512i)a, (__m512i)b);
}
PK_INLINE pk_mask pk_ge_u32(pk_i32v a, pk_i32v b) {
  return _mm512_cmpge_epu32_mask((__m512i)a, (__m512i)b);
}

PK_INLINE pk_f32v pk_sqrt_f32(pk_f32v a) { return (pk_f32v)_mm512_sqrt_ps((__m512)a); }
PK_INLINE pk_f32v pk_floor_f32(pk_f32v a) { return (pk_f32v)_mm512_roundscale_ps((__m512)a, 9); }
PK_INLINE pk_f32v pk_ceil_f32(pk_f32v a) { return (pk_f32v)_mm512_roundscale_ps((__m512)a, 10); }
PK_INLINE pk_f32v pk_round_f32(pk_f32v a) { return (pk_f32v)_mm512_roundscale_ps((__m512)a, 8); }
PK_INLINE pk_f32v pk_trunc_f32(pk_f32v a) { return (pk_f32v)_mm512_roundscale_ps((__m512)a, 11); }
PK_INLINE pk_f32v pk_fma_f32(pk_f32v a, pk_f32v b, pk_f32v c) {
  return (pk_f32v)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
PK_INLINE pk_f32v pk_fma_fast_f32(pk_f32v a, pk_f32v b, pk_f32v c) { return pk_fma_f32(a, b, c); }
PK_INLINE pk_f32v pk_max_fast_f32(pk_f32v a, pk_f32v b) {
  return (pk_f32v)_mm512_max_ps((__m512)a, (__m512)b);
}
PK_INLINE pk_f32v pk_min_fast_f32(pk_f32v a, pk_f32v b) {
  return (pk_f32v)_mm512_min_ps((__m512)a, (__m512)b);
}
/* VRANGEPS orders signed zeros but prefers a number to a NaN. */
PK_INLINE pk_f32v pk_max_f32(pk_f32v a, pk_f32v b) {
  __mmask16 nan = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
  return (pk_f32v)_mm512_mask_add_ps(_mm512_range_ps((__m512)a, (__m512)b, 5), nan, (__m512)a,
                                     (__m512)b);
}
PK_INLINE pk_f32v pk_min_f32(pk_f32v a, pk_f32v b) {
  __mmask16 nan = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
  return (pk_f32v)_mm512_mask_add_ps(_mm512_range_ps((__m512)a, (__m512)b, 4), nan, (__m512)a,
                                     (__m512)b);
}
/* 1 / b for b in [2^-100, 2^100]: within 0.57 ulp, in a third of the time of a division. */
PK_INLINE pk_f32v pk_reciprocal_fast_f32(pk_f32v b) {
  pk_f32v r = (pk_f32v)_mm512_rcp14_ps((__m512)b);
  return pk_fma_f32(r, (pk_f32v)_mm512_fnmadd_ps((__m512)b, (__m512)r, (__m512)pk_splat_f32(1)), r);
}
/* 1 / (1 + e) for e in [0, 1]. The correction of the estimate r is 1 - r - e r, which avoids
 * rounding 1 + e. */
PK_INLINE pk_f32v pk_reciprocal_of_sum_f32(pk_f32v e) {
  pk_f32v one = pk_splat_f32(1), r = (pk_f32v)_mm512_rcp14_ps((__m512)(one + e));
  return pk_fma_f32(r, (pk_f32v)_mm512_fnmadd_ps((__m512)e, (__m512)r, (__m512)(one - r)), r);
}
/* p in [0.5, 2] times 2 to the integer below n; rounds once, and saturates. */
PK_INLINE pk_f32v pk_scale_f32(pk_f32v p, pk_f32v n) {
  return (pk_f32v)_mm512_scalef_ps((__m512)p, (__m512)n);
}

/* The same for lanes in m; others are 0, without any arithmetic. */
PK_INLINE pk_f32v pk_scale_where_f32(pk_mask m, pk_f32v p, pk_f32v n) {
  return (pk_f32v)_mm512_maskz_scalef_ps(m, (__m512)p, (__m512)n);
}
/* a minus the nearest integer; 0 for an infinity. */
PK_INLINE pk_f32v pk_fraction_f32(pk_f32v a) { return (pk_f32v)_mm512_reduce_ps((__m512)a, 0); }
/* from[index mod 16]. */
PK_INLINE pk_f32v pk_look_up_f32(pk_i32v index, pk_f32v from) {
  return (pk_f32v)_mm512_permutexvar_ps((__m512i)index, (__m512)from);
}

PK_INLINE pk_i32v pk_max_i32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_max_epi32((__m512i)a, (__m512i)b);
}
PK_INLINE pk_i32v pk_min_i32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
PK_INLINE pk_i32v pk_max_u32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
PK_INLINE pk_i32v pk_min_u32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_min_epu32((__m512i)a, (__m512i)b);
}
/* The upper half of the product. */
PK_INLINE pk_i32v pk_mulhi_u32(pk_i32v a, pk_i32v b) {
  const __m512i even = _mm512_mul_epu32((__m512i)a, (__m512i)b),
                odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32),
                                       _mm512_srli_epi64((__m512i)b, 32));
  return (pk_i32v)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}
/* There is one part, the whole vector. */
#define pk_part_max pk_max_f32
#define pk_part_min pk_min_f32
#define pk_part_max_i32 pk_max_i32
#define pk_part_min_i32 pk_min_i32
#define pk_part_max_u32 pk_max_u32
#define pk_part_min_u32 pk_min_u32
PK_INLINE pk_i32v pk_shl_i32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_sllv_epi32((__m512i)a, (__m512i)b);
}
PK_INLINE pk_i32v pk_ushr_i32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_srlv_epi32((__m512i)a, (__m512i)b);
}
PK_INLINE pk_i32v pk_shr_i32(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_srav_epi32((__m512i)a, (__m512i)b);
}

/* Sums of the products of the two 16-bit halves of each lane; wraps. */
PK_INLINE pk_i32v pk_madd_i16(pk_i32v a, pk_i32v b) {
  return (pk_i32v)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}

/* Rounds towards zero; unspecified if the result does not fit. */
PK_INLINE pk_i32v pk_truncate_to_i32(pk_f32v a) { return (pk_i32v)_mm512_cvttps_epi32((__m512)a); }
PK_INLINE pk_f32v pk_cast_u32_f32(pk_i32v a) { return (pk_f32v)_mm512_cvtepu32_ps((__m512i)a); }

/* Elements of 8 and 16 bits in memory. */
typedef __m128i pk_raw8;
typedef __m256i pk_raw16;
typedef pk_i32v pk_raw32;

PK_INLINE pk_f32v pk_widen_f16(pk_raw16 a) { return (pk_f32v)_mm512_cvtph_ps((__m256i)a); }
PK_INLINE pk_raw16 pk_narrow_f16(pk_f32v a) {
  return (pk_raw16)_mm512_cvtps_ph((__m512)a, _MM_FROUND_TO_NEAREST_INT);
}
PK_INLINE pk_i32v pk_widen_i8(pk_raw8 a) { return (pk_i32v)_mm512_cvtepi8_epi32((__m128i)a); }
PK_INLINE pk_i32v pk_widen_u8(pk_raw8 a) { return (pk_i32v)_mm512_cvtepu8_epi32((__m128i)a); }
PK_INLINE pk_i32v pk_widen_i16(pk_raw16 a) { return (pk_i32v)_mm512_cvtepi16_epi32((__m256i)a); }
PK_INLINE pk_i32v pk_widen_u16(pk_raw16 a) { return (pk_i32v)_mm512_cvtepu16_epi32((__m256i)a); }
PK_INLINE pk_raw8 pk_narrow_8(pk_i32v a) { return (pk_raw8)_mm512_cvtepi32_epi8((__m512i)a); }
PK_INLINE pk_raw16 pk_narrow_16(pk_i32v a) { return (pk_raw16)_mm512_cvtepi32_epi16((__m512i)a); }

PK_INLINE pk_mask pk_mask_of_raw(pk_raw8 a) { return _mm_test_epi8_mask((__m128i)a, (__m128i)a); }
PK_INLINE pk_raw8 pk_raw_of_mask(pk_mask m) { return (pk_raw8)_mm_maskz_set1_epi8(m, 1); }
PK_INLINE pk_raw8 pk_load_raw8(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
PK_INLINE pk_raw16 pk_load_raw16(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
PK_INLINE pk_raw32 pk_load_raw32(const void *p) { return *(const pk_i32p_memory *)p; }
PK_INLINE void pk_store_raw8(void *p, pk_raw8 v) { _mm_storeu_si128((__m128i *)p, v); }
PK_INLINE void pk_store_raw16(void *p, pk_raw16 v) { _mm256_storeu_si256((__m256i *)p, v); }
PK_INLINE void pk_store_raw32(void *p, pk_raw32 v) { *(pk_i32p_memory *)p = v; }
PK_INLINE pk_raw8 pk_loadm_raw8(const void *p, pk_mask m) {
  return (pk_raw8)_mm_maskz_loadu_epi8(m, p);
}
PK_INLINE pk_raw16 pk_loadm_raw16(const void *p, pk_mask m) {
  return (pk_raw16)_mm256_maskz_loadu_epi16(m, p);
}
PK_INLINE pk_i32v pk_loadm_raw32(const void *p, pk_mask m) {
  return (pk_i32v)_mm512_maskz_loadu_epi32(m, p);
}
PK_INLINE void pk_storem_raw8(void *p, pk_raw8 v, pk_mask m) {
  _mm_mask_storeu_epi8(p, m, (__m128i)v);
}
PK_INLINE void pk_storem_raw16(void *p, pk_raw16 v, pk_mask m) {
  _mm256_mask_storeu_epi16(p, m, (__m256i)v);
}
PK_INLINE void pk_storem_raw32(void *p, pk_i32v v, pk_mask m) {
  _mm512_mask_storeu_epi32(p, m, (__m512i)v);
}
PK_INLINE pk_raw8 pk_loadn_raw8(const void *p, int64_t n) {
  return pk_loadm_raw8(p, pk_mask_first(n));
}
PK_INLINE pk_raw16 pk_loadn_raw16(const void *p, int64_t n) {
  return pk_loadm_raw16(p, pk_mask_first(n));
}
PK_INLINE pk_i32v pk_loadn_raw32(const void *p, int64_t n) {
  return pk_loadm_raw32(p, pk_mask_first(n));
}
PK_INLINE void pk_storen_raw8(void *p, pk_raw8 v, int64_t n) {
  pk_storem_raw8(p, v, pk_mask_first(n));
}
PK_INLINE void pk_storen_raw16(void *p, pk_raw16 v, int64_t n) {
  pk_storem_raw16(p, v, pk_mask_first(n));
}
PK_INLINE void pk_storen_raw32(void *p, pk_i32v v, int64_t n) {
  pk_storem_raw32(p, v, pk_mask_first(n));
}
/* Lane k is element k * step. Every second element is loaded with its neighbours. */
PK_INLINE pk_i32v pk_load_apart_raw32(const void *p, int64_t step, int64_t n) {
  if (step == 2) {
    const int64_t all = 2 * (int64_t)pk_clamp_lanes(n) - 1;
    const pk_i32v low = pk_loadn_raw32(p, all),
                  high = pk_loadn_raw32((const char *)p + 64, all - 16);
    return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                   30);
  }
  const pk_i32v at = pk_mul_i32(pk_lane_i32(), pk_splat_i32((int32_t)step));
  return (pk_i32v)_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), pk_mask_first(n), (__m512i)at,
                                              p, 4);
}
PK_INLINE void pk_store_apart_raw32(void *p, pk_i32v v, int64_t step, int64_t n) {
  if (step == 2) {
    const uint32_t all = 0x55555555u & (uint32_t)((UINT64_C(1) << 2 * pk_clamp_lanes(n)) - 1);
    pk_storem_raw32(p,
                    __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                    (pk_mask)all);
    pk_storem_raw32(
        (char *)p + 64,
        __builtin_shufflevector(v, v, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15),
        (pk_mask)(all >> 16));
    return;
  }
  const pk_i32v at = pk_mul_i32(pk_lane_i32(), pk_splat_i32((int32_t)step));
  _mm512_mask_i32scatter_epi32(p, pk_mask_first(n), (__m512i)at, (__m512i)v, 4);
}
PK_INLINE pk_raw16 pk_load_apart_raw16(const void *p, int64_t step, int64_t n) {
  const int32_t count = pk_clamp_lanes(n);
  if (step == 2) {
    const uint32_t all = (uint32_t)((UINT64_C(1) << 2 * count) - 1) >> 1;
    return _mm512_cvtepi32_epi16(_mm512_maskz_loadu_epi16(all, p));
  }
  uint16_t x[16] = {0};
  for (int k = 0; k < count; k++)
    __builtin_memcpy(&x[k], (const char *)p + 2 * k * step, sizeof *x);
  return _mm256_loadu_si256((const __m256i *)(const void *)x);
}
PK_INLINE void pk_store_apart_raw16(void *p, pk_raw16 v, int64_t step, int64_t n) {
  const int32_t count = pk_clamp_lanes(n);
  if (step == 2) {
    const uint32_t all = (uint32_t)((UINT64_C(1) << 2 * count) - 1) & 0x55555555u;
    _mm512_mask_storeu_epi16(p, all, _mm512_cvtepu16_epi32(v));
    return;
  }
  uint16_t x[16];
  _mm256_storeu_si256((__m256i *)(void *)x, v);
  for (int k = 0; k < count; k++) __builtin_memcpy((char *)p + 2 * k * step, &x[k], sizeof *x);
}
/* The first n lanes of a and b in turn. */
PK_INLINE void pk_store_pairs_raw32(void *p, pk_i32v a, pk_i32v b, int64_t n) {
  const pk_i32v low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                              7, 23),
                high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                               14, 30, 15, 31);
  const int64_t all = 2 * (int64_t)pk_clamp_lanes(n);
  if (n >= 16) {
    pk_store_raw32(p, low);
    pk_store_raw32((char *)p + 64, high);
    return;
  }
  pk_storen_raw32(p, low, all);
  pk_storen_raw32((char *)p + 64, high, all - 16);
}
PK_INLINE void pk_store_pairs_raw16(void *p, pk_raw16 a, pk_raw16 b, int64_t n) {
  const uint32_t all = (uint32_t)((UINT64_C(1) << 2 * pk_clamp_lanes(n)) - 1);
  const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16);
  _mm512_mask_storeu_epi16(p, all, _mm512_or_si512(_mm512_cvtepu16_epi32(a), high));
}
PK_INLINE void pk_stream_raw8(void *p, pk_raw8 v) { _mm_stream_si128((__m128i *)p, v); }
PK_INLINE void pk_stream_raw16(void *p, pk_raw16 v) { _mm256_stream_si256(p, (__m256i)v); }
PK_INLINE void pk_stream_raw32(void *p, pk_i32v v) { _mm512_stream_si512(p, (__m512i)v); }

#endif
