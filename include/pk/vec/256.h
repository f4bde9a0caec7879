/* vec/256.h: parts of 32 bytes with AVX2 (vec/parts.h builds whole vectors of them). Included by
 * vec.h only. */
#ifndef PK_VEC_256_H
#define PK_VEC_256_H

PK_INLINE pk_f32p pk_part_select(pk_i32p m, pk_f32p a, pk_f32p b) {
  return (pk_f32p)simde_mm256_blendv_ps((simde__m256)b, (simde__m256)a, (simde__m256)m);
}
PK_INLINE uint32_t pk_part_bits(pk_i32p m) {
  return (uint32_t)simde_mm256_movemask_ps((simde__m256)m);
}
PK_INLINE pk_f32p pk_part_sqrt(pk_f32p a) { return (pk_f32p)simde_mm256_sqrt_ps((simde__m256)a); }
PK_INLINE pk_f32p pk_part_floor(pk_f32p a) { return (pk_f32p)_mm256_round_ps((__m256)a, 9); }
PK_INLINE pk_f32p pk_part_ceil(pk_f32p a) { return (pk_f32p)_mm256_round_ps((__m256)a, 10); }
PK_INLINE pk_f32p pk_part_round(pk_f32p a) { return (pk_f32p)_mm256_round_ps((__m256)a, 8); }
PK_INLINE pk_f32p pk_part_trunc(pk_f32p a) { return (pk_f32p)_mm256_round_ps((__m256)a, 11); }
PK_INLINE pk_f32p pk_part_max_fast(pk_f32p a, pk_f32p b) {
  return (pk_f32p)simde_mm256_max_ps((simde__m256)a, (simde__m256)b);
}
PK_INLINE pk_f32p pk_part_min_fast(pk_f32p a, pk_f32p b) {
  return (pk_f32p)simde_mm256_min_ps((simde__m256)a, (simde__m256)b);
}
/* Of equal operands MAXPS returns the second: the two orders differ only for signed zeros,
 * unless there is a NaN. */
PK_INLINE pk_f32p pk_part_max(pk_f32p a, pk_f32p b) {
  pk_f32p both = (pk_f32p)((pk_i32p)pk_part_max_fast(a, b) & (pk_i32p)pk_part_max_fast(b, a));
  return pk_part_select((pk_i32p)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q), a + b, both);
}
PK_INLINE pk_f32p pk_part_min(pk_f32p a, pk_f32p b) {
  pk_f32p both = (pk_f32p)((pk_i32p)pk_part_min_fast(a, b) | (pk_i32p)pk_part_min_fast(b, a));
  return pk_part_select((pk_i32p)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q), a + b, both);
}
#if PK_HAS_FMA
PK_INLINE pk_f32p pk_part_fma(pk_f32p a, pk_f32p b, pk_f32p c) {
  return (pk_f32p)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#endif
PK_INLINE pk_i32p pk_part_max_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm256_max_epi32((simde__m256i)a, (simde__m256i)b);
}
PK_INLINE pk_i32p pk_part_min_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm256_min_epi32((simde__m256i)a, (simde__m256i)b);
}
/* The upper half of the product. */
PK_INLINE pk_i32p pk_part_mulhi_u32(pk_i32p a, pk_i32p b) {
  const simde__m256i x = (simde__m256i)a, y = (simde__m256i)b, even = simde_mm256_mul_epu32(x, y),
                     odd = simde_mm256_mul_epu32(simde_mm256_srli_epi64(x, 32),
                                                 simde_mm256_srli_epi64(y, 32));
  return (pk_i32p)simde_mm256_blend_epi32(simde_mm256_srli_epi64(even, 32), odd, 0xaa);
}
PK_INLINE pk_i32p pk_part_max_u32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm256_max_epu32((simde__m256i)a, (simde__m256i)b);
}
PK_INLINE pk_i32p pk_part_min_u32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm256_min_epu32((simde__m256i)a, (simde__m256i)b);
}
PK_INLINE pk_i32p pk_part_shl(pk_i32p a, pk_i32p b) {
  return (pk_i32p)_mm256_sllv_epi32((__m256i)a, (__m256i)b);
}
PK_INLINE pk_i32p pk_part_ushr(pk_i32p a, pk_i32p b) {
  return (pk_i32p)_mm256_srlv_epi32((__m256i)a, (__m256i)b);
}
PK_INLINE pk_i32p pk_part_shr(pk_i32p a, pk_i32p b) {
  return (pk_i32p)_mm256_srav_epi32((__m256i)a, (__m256i)b);
}
/* Counts the bits of each half byte by a table, then adds the bytes of a lane. */
PK_INLINE pk_i32p pk_part_population_count(pk_i32p a) {
  const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                          2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i half = _mm256_set1_epi8(15), upper = _mm256_srli_epi16((__m256i)a, 4);
  const __m256i bytes =
      _mm256_add_epi8(_mm256_shuffle_epi8(counts, _mm256_and_si256((__m256i)a, half)),
                      _mm256_shuffle_epi8(counts, _mm256_and_si256(upper, half)));
  return (pk_i32p)_mm256_madd_epi16(_mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1)),
                                    _mm256_set1_epi16(1));
}
PK_INLINE pk_i32p pk_part_madd_i16(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm256_madd_epi16((simde__m256i)a, (simde__m256i)b);
}
PK_INLINE pk_i32p pk_part_truncate(pk_f32p a) {
  return (pk_i32p)simde_mm256_cvttps_epi32((simde__m256)a);
}

PK_INLINE __m128i pk_part_eight_bytes(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
PK_INLINE pk_i32p pk_part_widen_i8(const void *p) {
  return (pk_i32p)_mm256_cvtepi8_epi32(pk_part_eight_bytes(p));
}
PK_INLINE pk_i32p pk_part_widen_u8(const void *p) {
  return (pk_i32p)_mm256_cvtepu8_epi32(pk_part_eight_bytes(p));
}
PK_INLINE pk_i32p pk_part_widen_i16(const void *p) {
  return (pk_i32p)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)p));
}
PK_INLINE pk_i32p pk_part_widen_u16(const void *p) {
  return (pk_i32p)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}
PK_INLINE __m128i pk_part_pack(pk_i32p v) {
  return _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v),
                         _mm256_extracti128_si256((__m256i)v, 1));
}
PK_INLINE void pk_part_narrow_8(void *p, pk_i32p v) {
  __m128i words = pk_part_pack(v & 0xff);
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
PK_INLINE void pk_part_narrow_16(void *p, pk_i32p v) {
  const __m256i low = _mm256_shuffle_epi8(
      (__m256i)v, _mm256_setr_epi64x(0x0d0c090805040100, -1, 0x0d0c090805040100, -1));
  _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(low, 8)));
}
#ifdef __F16C__
#define PK_PART_F16 1
PK_INLINE pk_f32p pk_part_widen_f16(const void *p) {
  return (pk_f32p)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
PK_INLINE void pk_part_narrow_f16(void *p, pk_f32p v) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
}
#endif
#define PK_PART_STREAM 1
PK_INLINE void pk_part_stream(void *p, pk_i32p v) { _mm256_stream_si256((__m256i *)p, (__m256i)v); }

#endif
