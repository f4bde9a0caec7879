/* vec/narrow.h: fp8 and 4-bit integers, which are a byte in memory, and the bits of narrow floats.
 * Included by vec.h only. */
#ifndef PK_VEC_NARROW_H
#define PK_VEC_NARROW_H

#include <pk/f8.h>

/* -- fp8, as in f8.h */

PK_INLINE pk_f32v pk_from_f8(pk_i32v x, const int stored, const int bias) {
  const pk_i32v sign = pk_shift_left(pk_and_constant(x, 0x80), 24), rest = pk_and_constant(x, 0x7f);
  const pk_f32v normal =
      pk_bitcast_i32_f32(pk_add_constant(pk_shift_left(rest, 23 - stored), (127 - bias) << 23));
  const pk_f32v scale = pk_bitcast_i32_f32(pk_splat_i32((128 - bias - stored) << 23));
  const pk_f32v small = pk_mul_f32(pk_cast_i32_f32(rest), scale);
  const pk_mask subnormal = pk_lt_i32(rest, pk_splat_i32(1 << stored));
  return pk_bitcast_i32_f32(
      pk_or_i32(pk_bitcast_f32_i32(pk_select_f32(subnormal, small, normal)), sign));
}
/* What is beyond all numbers keeps its order there: NaN last. */
PK_INLINE pk_i32v pk_f8_magnitude_bits(pk_f32v a, const int stored, const int bias) {
  const pk_i32v rest = pk_and_constant(pk_bitcast_f32_i32(a), INT32_MAX),
                magic = pk_splat_i32((151 - bias - stored) << 23);
  const pk_i32v small = pk_sub_i32(
      pk_bitcast_f32_i32(pk_add_f32(pk_bitcast_i32_f32(rest), pk_bitcast_i32_f32(magic))), magic);
  const int shift = 23 - stored;
  const pk_i32v even = pk_and_constant(pk_shift_right_unsigned(rest, shift), 1);
  const pk_i32v moved = pk_add_constant(rest, -((127 - bias) << 23) + (1 << (shift - 1)) - 1);
  const pk_i32v normal = pk_shift_right_unsigned(pk_add_i32(moved, even), shift);
  return pk_select_i32(pk_lt_i32(rest, pk_splat_i32((128 - bias) << 23)), small, normal);
}
PK_INLINE pk_i32v pk_f8_signed(pk_i32v magnitude, pk_f32v a) {
  return pk_or_i32(magnitude,
                   pk_and_constant(pk_shift_right_unsigned(pk_bitcast_f32_i32(a), 24), 0x80));
}

PK_INLINE pk_f32v pk_from_bits_f8e4m3fn(pk_i32v x) {
  const pk_mask nan = pk_eq_i32(pk_and_constant(x, 0x7f), pk_splat_i32(0x7f));
  return pk_select_f32(nan, pk_splat_f32(__builtin_nanf("")), pk_from_f8(x, 3, 7));
}
PK_INLINE pk_i32v pk_bits_f8e4m3fn(pk_f32v a) {
  return pk_f8_signed(pk_min_i32(pk_f8_magnitude_bits(a, 3, 7), pk_splat_i32(0x7f)), a);
}
PK_INLINE pk_f32v pk_from_bits_f8e5m2(pk_i32v x) {
  const pk_f32v number = pk_from_f8(x, 2, 15);
  const pk_mask special = pk_ge_i32(pk_and_constant(x, 0x7f), pk_splat_i32(0x7c));
  const pk_i32v moved = pk_add_constant(pk_bitcast_f32_i32(number), 112 << 23);
  return pk_select_f32(special, pk_bitcast_i32_f32(moved), number);
}
PK_INLINE pk_i32v pk_bits_f8e5m2(pk_f32v a) {
  const pk_i32v finite = pk_min_i32(pk_f8_magnitude_bits(a, 2, 15), pk_splat_i32(0x7c));
  return pk_f8_signed(pk_select_i32(pk_isnan_f32(a), pk_splat_i32(0x7e), finite), a);
}

/* -- 16 bits */

PK_INLINE pk_i32v pk_bits_bf16(pk_f32v a) { return pk_upper_half(a); }
PK_INLINE pk_f32v pk_from_bits_bf16(pk_i32v x) { return pk_bitcast_i32_f32(pk_shift_left(x, 16)); }
PK_INLINE pk_i32v pk_bits_f16(pk_f32v a) { return pk_widen_u16(pk_narrow_f16(a)); }
PK_INLINE pk_f32v pk_from_bits_f16(pk_i32v x) { return pk_widen_f16(pk_narrow_16(x)); }

/* -- rounding to what the dtype holds; bytes in memory */

PK_INLINE pk_f32v pk_round_f8e4m3fn(pk_f32v a) {
  return pk_from_bits_f8e4m3fn(pk_bits_f8e4m3fn(a));
}
PK_INLINE pk_f32v pk_round_f8e5m2(pk_f32v a) { return pk_from_bits_f8e5m2(pk_bits_f8e5m2(a)); }
PK_INLINE pk_f32v pk_widen_f8e4m3fn(pk_raw8 raw) { return pk_from_bits_f8e4m3fn(pk_widen_u8(raw)); }
PK_INLINE pk_f32v pk_widen_f8e5m2(pk_raw8 raw) { return pk_from_bits_f8e5m2(pk_widen_u8(raw)); }
PK_INLINE pk_raw8 pk_narrow_f8e4m3fn(pk_f32v a) { return pk_narrow_8(pk_bits_f8e4m3fn(a)); }
PK_INLINE pk_raw8 pk_narrow_f8e5m2(pk_f32v a) { return pk_narrow_8(pk_bits_f8e5m2(a)); }

/* -- 4 bits: the lower half of a byte counts; the upper one is written as zeros */

PK_INLINE pk_i32v pk_wrap_i4(pk_i32v a) { return pk_shift_right(pk_shift_left(a, 28), 28); }
PK_INLINE pk_i32v pk_wrap_u4(pk_i32v a) { return pk_and_constant(a, 15); }
PK_INLINE pk_i32v pk_cast_f32_i4(pk_f32v a) { return pk_cast_f32_range(a, -8, 7); }
PK_INLINE pk_i32v pk_cast_f32_u4(pk_f32v a) { return pk_cast_f32_range(a, 0, 15); }
PK_INLINE pk_i32v pk_shl_i4(pk_i32v a, pk_i32v b) { return pk_wrap_i4(pk_shl_i32(a, b)); }
PK_INLINE pk_i32v pk_shl_u4(pk_i32v a, pk_i32v b) { return pk_wrap_u4(pk_shl_i32(a, b)); }
PK_INLINE pk_i32v pk_shr_i4(pk_i32v a, pk_i32v b) { return pk_shr_i32(a, b); }
PK_INLINE pk_i32v pk_shr_u4(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_ushr_i4(pk_i32v a, pk_i32v b) {
  return pk_wrap_i4(pk_ushr_i32(pk_wrap_u4(a), b));
}
PK_INLINE pk_i32v pk_ushr_u4(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_clz_u4(pk_i32v a) { return pk_add_constant(pk_clz_i32(a), -28); }
PK_INLINE pk_i32v pk_clz_i4(pk_i32v a) { return pk_clz_u4(pk_wrap_u4(a)); }
PK_INLINE pk_i32v pk_widen_i4(pk_raw8 raw) { return pk_wrap_i4(pk_widen_u8(raw)); }
PK_INLINE pk_i32v pk_widen_u4(pk_raw8 raw) { return pk_wrap_u4(pk_widen_u8(raw)); }
PK_INLINE pk_raw8 pk_narrow_4(pk_i32v a) { return pk_narrow_8(pk_wrap_u4(a)); }

#endif
