/* vec/128.h: parts of 16 bytes, through SIMDe (SSE, NEON or plain C). Included by vec.h only. */
#ifndef PK_VEC_128_H
#define PK_VEC_128_H

PK_INLINE pk_f32p pk_part_select(pk_i32p m, pk_f32p a, pk_f32p b) {
#ifdef SIMDE_X86_SSE4_1_NATIVE
  return (pk_f32p)simde_mm_blendv_ps((simde__m128)b, (simde__m128)a, (simde__m128)m);
#else
  return (pk_f32p)((m & (pk_i32p)a) | (~m & (pk_i32p)b));
#endif
}
PK_INLINE uint32_t pk_part_bits(pk_i32p m) {
  return (uint32_t)simde_mm_movemask_ps((simde__m128)m);
}
PK_INLINE pk_f32p pk_part_sqrt(pk_f32p a) { return (pk_f32p)simde_mm_sqrt_ps((simde__m128)a); }

#if defined(SIMDE_X86_SSE4_1_NATIVE) || defined(SIMDE_ARM_NEON_A64V8_NATIVE)
PK_INLINE pk_f32p pk_part_floor(pk_f32p a) { return (pk_f32p)simde_mm_round_ps((simde__m128)a, 9); }
PK_INLINE pk_f32p pk_part_ceil(pk_f32p a) { return (pk_f32p)simde_mm_round_ps((simde__m128)a, 10); }
PK_INLINE pk_f32p pk_part_round(pk_f32p a) { return (pk_f32p)simde_mm_round_ps((simde__m128)a, 8); }
PK_INLINE pk_f32p pk_part_trunc(pk_f32p a) {
  return (pk_f32p)simde_mm_round_ps((simde__m128)a, 11);
}
#else
/* Adding and subtracting 2^23 leaves an integer; larger floats are integers. The sign is
 * restored, for -0. */
PK_INLINE pk_f32p pk_part_integer(pk_f32p a, pk_f32p rounded) {
  pk_i32p sign = (pk_i32p)a & INT32_MIN, rest = (pk_i32p)a & INT32_MAX;
  return pk_part_select(rest < 0x4b000000, (pk_f32p)((pk_i32p)rounded | sign), a);
}
PK_INLINE pk_f32p pk_part_round(pk_f32p a) {
  pk_f32p rest = (pk_f32p)((pk_i32p)a & INT32_MAX), integer = (rest + 0x1p23f) - 0x1p23f;
  return pk_part_integer(a, integer);
}
PK_INLINE pk_f32p pk_part_trunc(pk_f32p a) {
  pk_f32p rest = (pk_f32p)((pk_i32p)a & INT32_MAX), integer = (rest + 0x1p23f) - 0x1p23f,
          one = {1, 1, 1, 1};
  return pk_part_integer(a, integer - (pk_f32p)((integer > rest) & (pk_i32p)one));
}
PK_INLINE pk_f32p pk_part_floor(pk_f32p a) {
  pk_f32p integer = pk_part_trunc(a), one = {1, 1, 1, 1};
  return pk_part_select(integer > a, integer - one, integer);
}
PK_INLINE pk_f32p pk_part_ceil(pk_f32p a) {
  pk_f32p integer = pk_part_floor((pk_f32p)((pk_i32p)a ^ INT32_MIN));
  return (pk_f32p)((pk_i32p)integer ^ INT32_MIN);
}
#endif

#ifdef SIMDE_ARM_NEON_A64V8_NATIVE
PK_INLINE pk_f32p pk_part_max_fast(pk_f32p a, pk_f32p b) {
  return (pk_f32p)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}
PK_INLINE pk_f32p pk_part_min_fast(pk_f32p a, pk_f32p b) {
  return (pk_f32p)vminq_f32((float32x4_t)a, (float32x4_t)b);
}
PK_INLINE pk_f32p pk_part_max(pk_f32p a, pk_f32p b) { return pk_part_max_fast(a, b); }
PK_INLINE pk_f32p pk_part_min(pk_f32p a, pk_f32p b) { return pk_part_min_fast(a, b); }
PK_INLINE pk_f32p pk_part_fma(pk_f32p a, pk_f32p b, pk_f32p c) {
  return (pk_f32p)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
#ifdef SIMDE_X86_SSE_NATIVE
PK_INLINE pk_f32p pk_part_max_fast(pk_f32p a, pk_f32p b) {
  return (pk_f32p)simde_mm_max_ps((simde__m128)a, (simde__m128)b);
}
PK_INLINE pk_f32p pk_part_min_fast(pk_f32p a, pk_f32p b) {
  return (pk_f32p)simde_mm_min_ps((simde__m128)a, (simde__m128)b);
}
#else
PK_INLINE pk_f32p pk_part_max_fast(pk_f32p a, pk_f32p b) {
  return pk_part_select((pk_i32p)(a > b), a, b);
}
PK_INLINE pk_f32p pk_part_min_fast(pk_f32p a, pk_f32p b) {
  return pk_part_select((pk_i32p)(a < b), a, b);
}
#endif
/* Of equal operands the instruction returns the second: the two orders differ only for signed
 * zeros, unless there is a NaN. */
PK_INLINE pk_f32p pk_part_max(pk_f32p a, pk_f32p b) {
  pk_f32p both = (pk_f32p)((pk_i32p)pk_part_max_fast(a, b) & (pk_i32p)pk_part_max_fast(b, a));
  return pk_part_select((pk_i32p)((a == a) & (b == b)), both, a + b);
}
PK_INLINE pk_f32p pk_part_min(pk_f32p a, pk_f32p b) {
  pk_f32p both = (pk_f32p)((pk_i32p)pk_part_min_fast(a, b) | (pk_i32p)pk_part_min_fast(b, a));
  return pk_part_select((pk_i32p)((a == a) & (b == b)), both, a + b);
}
#if PK_HAS_FMA && defined(__FMA__)
PK_INLINE pk_f32p pk_part_fma(pk_f32p a, pk_f32p b, pk_f32p c) {
  return (pk_f32p)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
}
#elif PK_HAS_FMA
PK_INLINE pk_f32p pk_part_fma(pk_f32p a, pk_f32p b, pk_f32p c) {
  for (int k = 0; k < 4; k++) c[k] = __builtin_fmaf(a[k], b[k], c[k]);
  return c;
}
#endif
#endif

PK_INLINE pk_i32p pk_part_select_i32(pk_i32p m, pk_i32p a, pk_i32p b) {
  return (pk_i32p)pk_part_select(m, (pk_f32p)a, (pk_f32p)b);
}
/* The upper half of the product. */
PK_INLINE pk_i32p pk_part_mulhi_u32(pk_i32p a, pk_i32p b) {
  const simde__m128i x = (simde__m128i)a, y = (simde__m128i)b, even = simde_mm_mul_epu32(x, y),
                     odd =
                         simde_mm_mul_epu32(simde_mm_srli_epi64(x, 32), simde_mm_srli_epi64(y, 32));
  return (pk_i32p)simde_mm_blend_epi16(simde_mm_srli_epi64(even, 32), odd, 0xcc);
}
#ifdef SIMDE_X86_SSE4_1_NATIVE
PK_INLINE pk_i32p pk_part_max_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm_max_epi32((simde__m128i)a, (simde__m128i)b);
}
PK_INLINE pk_i32p pk_part_min_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm_min_epi32((simde__m128i)a, (simde__m128i)b);
}
PK_INLINE pk_i32p pk_part_max_u32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm_max_epu32((simde__m128i)a, (simde__m128i)b);
}
PK_INLINE pk_i32p pk_part_min_u32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)simde_mm_min_epu32((simde__m128i)a, (simde__m128i)b);
}
#else
PK_INLINE pk_i32p pk_part_max_i32(pk_i32p a, pk_i32p b) { return pk_part_select_i32(a > b, a, b); }
PK_INLINE pk_i32p pk_part_min_i32(pk_i32p a, pk_i32p b) { return pk_part_select_i32(a < b, a, b); }
PK_INLINE pk_i32p pk_part_max_u32(pk_i32p a, pk_i32p b) {
  return pk_part_select_i32((pk_i32p)((pk_u32p)a > (pk_u32p)b), a, b);
}
PK_INLINE pk_i32p pk_part_min_u32(pk_i32p a, pk_i32p b) {
  return pk_part_select_i32((pk_i32p)((pk_u32p)a < (pk_u32p)b), a, b);
}
#endif
PK_INLINE pk_i32p pk_part_shl(pk_i32p a, pk_i32p b) {
  return (pk_i32p)((pk_u32p)a << ((pk_u32p)b & 31)) & (pk_i32p)((pk_u32p)b < 32);
}
PK_INLINE pk_i32p pk_part_ushr(pk_i32p a, pk_i32p b) {
  return (pk_i32p)((pk_u32p)a >> ((pk_u32p)b & 31)) & (pk_i32p)((pk_u32p)b < 32);
}
PK_INLINE pk_i32p pk_part_shr(pk_i32p a, pk_i32p b) {
  return a >> ((b | (pk_i32p)((pk_u32p)b > 31)) & 31);
}
PK_INLINE pk_i32p pk_part_madd_i16(pk_i32p a, pk_i32p b) {
#ifdef SIMDE_X86_SSE2_NATIVE
  return (pk_i32p)simde_mm_madd_epi16((simde__m128i)a, (simde__m128i)b);
#else
  pk_i32p low_a = (pk_i32p)((pk_u32p)a << 16) >> 16, low_b = (pk_i32p)((pk_u32p)b << 16) >> 16;
  return (pk_i32p)((pk_u32p)low_a * (pk_u32p)low_b + (pk_u32p)(a >> 16) * (pk_u32p)(b >> 16));
#endif
}
/* Requires |a| below 2^31. */
PK_INLINE pk_i32p pk_part_truncate(pk_f32p a) { return __builtin_convertvector(a, pk_i32p); }

PK_INLINE simde__m128i pk_part_four_bytes(const void *p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return simde_mm_cvtsi32_si128(bits);
}
PK_INLINE simde__m128i pk_part_eight_bytes(const void *p) {
  int64_t bits;
  __builtin_memcpy(&bits, p, 8);
  return simde_mm_cvtsi64_si128(bits);
}
PK_INLINE pk_i32p pk_part_widen_i8(const void *p) {
  return (pk_i32p)simde_mm_cvtepi8_epi32(pk_part_four_bytes(p));
}
PK_INLINE pk_i32p pk_part_widen_u8(const void *p) {
  return (pk_i32p)simde_mm_cvtepu8_epi32(pk_part_four_bytes(p));
}
PK_INLINE pk_i32p pk_part_widen_i16(const void *p) {
  return (pk_i32p)simde_mm_cvtepi16_epi32(pk_part_eight_bytes(p));
}
PK_INLINE pk_i32p pk_part_widen_u16(const void *p) {
  return (pk_i32p)simde_mm_cvtepu16_epi32(pk_part_eight_bytes(p));
}
PK_INLINE void pk_part_narrow_8(void *p, pk_i32p v) {
  simde__m128i words = simde_mm_packs_epi32((simde__m128i)(v & 0xff), (simde__m128i)(v & 0xff));
  int32_t bits = simde_mm_cvtsi128_si32(simde_mm_packus_epi16(words, words));
  __builtin_memcpy(p, &bits, 4);
}
PK_INLINE void pk_part_narrow_16(void *p, pk_i32p v) {
  simde__m128i low = (simde__m128i)(v & 0xffff);
  int64_t bits = simde_mm_cvtsi128_si64(simde_mm_packus_epi32(low, low));
  __builtin_memcpy(p, &bits, 8);
}
#if defined(__F16C__) && !defined(SIMDE_NO_NATIVE)
#define PK_PART_F16 1
PK_INLINE pk_f32p pk_part_widen_f16(const void *p) {
  return (pk_f32p)_mm_cvtph_ps(pk_part_eight_bytes(p));
}
PK_INLINE void pk_part_narrow_f16(void *p, pk_f32p v) {
  _mm_storel_epi64((__m128i *)p, _mm_cvtps_ph((__m128)v, _MM_FROUND_TO_NEAREST_INT));
}
#endif
#ifdef SIMDE_X86_SSE2_NATIVE
#define PK_PART_STREAM 1
PK_INLINE void pk_part_stream(void *p, pk_i32p v) { _mm_stream_si128((__m128i *)p, (__m128i)v); }
#endif

#endif
