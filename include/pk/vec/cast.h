/* vec/cast.h: conversions. Float to integer truncates, saturates and turns NaN into 0. Included by
 * vec.h only. */
#ifndef PK_VEC_CAST_H
#define PK_VEC_CAST_H

PK_INLINE pk_f32v pk_cast_mask_f32(pk_mask m) {
  return pk_select_f32(m, pk_splat_f32(1), pk_splat_f32(0));
}
PK_INLINE pk_i32v pk_cast_mask_i32(pk_mask m) {
  return pk_select_i32(m, pk_splat_i32(1), pk_splat_i32(0));
}
PK_INLINE pk_mask pk_cast_f32_mask(pk_f32v a) { return pk_ne_f32(a, pk_splat_f32(0)); }
PK_INLINE pk_mask pk_cast_i32_mask(pk_i32v a) { return pk_ne_i32(a, pk_splat_i32(0)); }
PK_INLINE pk_i32v pk_cast_mask_u32(pk_mask m) { return pk_cast_mask_i32(m); }
PK_INLINE pk_mask pk_cast_u32_mask(pk_i32v a) { return pk_cast_i32_mask(a); }

/* u32 has the registers of i32. */
PK_INLINE pk_i32v pk_bitcast_f32_u32(pk_f32v a) { return pk_bitcast_f32_i32(a); }
PK_INLINE pk_f32v pk_bitcast_u32_f32(pk_i32v a) { return pk_bitcast_i32_f32(a); }
PK_INLINE pk_i32v pk_select_u32(pk_mask m, pk_i32v a, pk_i32v b) { return pk_select_i32(m, a, b); }

/* bool: false is below true. */
PK_INLINE pk_mask pk_ne_mask(pk_mask a, pk_mask b) { return pk_xor_mask(a, b); }
PK_INLINE pk_mask pk_eq_mask(pk_mask a, pk_mask b) { return pk_not_mask(pk_xor_mask(a, b)); }
PK_INLINE pk_mask pk_lt_mask(pk_mask a, pk_mask b) { return pk_and_mask(pk_not_mask(a), b); }
PK_INLINE pk_mask pk_gt_mask(pk_mask a, pk_mask b) { return pk_lt_mask(b, a); }
PK_INLINE pk_mask pk_le_mask(pk_mask a, pk_mask b) { return pk_not_mask(pk_gt_mask(a, b)); }
PK_INLINE pk_mask pk_ge_mask(pk_mask a, pk_mask b) { return pk_not_mask(pk_lt_mask(a, b)); }

PK_INLINE pk_f32v pk_zero_for_nan(pk_f32v a) {
  return pk_select_f32(pk_isnan_f32(a), pk_splat_f32(0), a);
}
PK_INLINE pk_i32v pk_cast_f32_i32(pk_f32v a) {
  a = pk_max_fast_f32(pk_zero_for_nan(a), pk_splat_f32(-0x1p31f));
  pk_mask large = pk_ge_f32(a, pk_splat_f32(0x1p31f));
  return pk_select_i32(large, pk_splat_i32(INT32_MAX),
                       pk_truncate_to_i32(pk_select_f32(large, pk_splat_f32(0), a)));
}
PK_INLINE pk_i32v pk_cast_f32_u32(pk_f32v a) {
  a = pk_max_fast_f32(pk_zero_for_nan(a), pk_splat_f32(0));
  pk_mask large = pk_ge_f32(a, pk_splat_f32(0x1p32f)), upper = pk_ge_f32(a, pk_splat_f32(0x1p31f));
  a = pk_select_f32(large, pk_splat_f32(0),
                    pk_select_f32(upper, pk_sub_f32(a, pk_splat_f32(0x1p31f)), a));
  pk_i32v r = pk_xor_i32(pk_truncate_to_i32(a),
                         pk_select_i32(upper, pk_splat_i32(INT32_MIN), pk_splat_i32(0)));
  return pk_select_i32(large, pk_splat_i32(-1), r);
}
/* To a range whose ends are exact in float and fit i32. */
PK_INLINE pk_i32v pk_cast_f32_range(pk_f32v a, float least, float greatest) {
  a = pk_min_fast_f32(pk_max_fast_f32(pk_zero_for_nan(a), pk_splat_f32(least)),
                      pk_splat_f32(greatest));
  return pk_truncate_to_i32(a);
}
PK_INLINE pk_i32v pk_cast_f32_i8(pk_f32v a) { return pk_cast_f32_range(a, -128, 127); }
PK_INLINE pk_i32v pk_cast_f32_u8(pk_f32v a) { return pk_cast_f32_range(a, 0, 255); }
PK_INLINE pk_i32v pk_cast_f32_i16(pk_f32v a) { return pk_cast_f32_range(a, -32768, 32767); }
PK_INLINE pk_i32v pk_cast_f32_u16(pk_f32v a) { return pk_cast_f32_range(a, 0, 65535); }

/* bf16: the upper halves of the lanes, rounded to nearest even; a NaN remains a NaN. */
PK_INLINE pk_i32v pk_upper_half(pk_f32v a) {
  pk_i32v bits = pk_bitcast_f32_i32(a), upper = pk_shift_right_unsigned(bits, 16);
  pk_i32v rounded = pk_shift_right_unsigned(
      pk_add_i32(pk_add_constant(bits, 0x7fff), pk_and_constant(upper, 1)), 16);
  return pk_select_i32(pk_isnan_f32(a), pk_or_i32(upper, pk_splat_i32(0x40)), rounded);
}
PK_INLINE pk_f32v pk_widen_bf16(pk_raw16 raw) {
  return pk_bitcast_i32_f32(pk_shift_left(pk_widen_u16(raw), 16));
}
#if PK_PART_BYTES == 64 && defined(__AVX512BF16__)
/* vcvtneps2bf16 does the same but treats subnormal elements as 0, so a vector that contains one is
 * rounded by the other method. If the host has enabled denormals-are-zero, the class of such an
 * element is zero. */
PK_INLINE pk_raw16 pk_narrow_bf16(pk_f32v a) {
  enum { zeros = 0x06, subnormal = 0x20 };
  const __mmask16 least = _mm512_fpclass_ps_mask((__m512)a, zeros | subnormal);
  const __m512i fraction = _mm512_set1_epi32(0x7fffff);
  if (__builtin_expect(_mm512_mask_test_epi32_mask(least, (__m512i)a, fraction) != 0, 0))
    return pk_narrow_16(pk_upper_half(a));
  return (pk_raw16)_mm512_cvtneps_pbh((__m512)a);
}
PK_INLINE pk_f32v pk_round_bf16(pk_f32v a) { return pk_widen_bf16(pk_narrow_bf16(a)); }
#else
PK_INLINE pk_raw16 pk_narrow_bf16(pk_f32v a) { return pk_narrow_16(pk_upper_half(a)); }
PK_INLINE pk_f32v pk_round_bf16(pk_f32v a) {
  return pk_bitcast_i32_f32(pk_shift_left(pk_upper_half(a), 16));
}
#endif
/* f32 rounded to the precision and range of f16. */
PK_INLINE pk_f32v pk_round_f16(pk_f32v a) { return pk_widen_f16(pk_narrow_f16(a)); }

#endif
