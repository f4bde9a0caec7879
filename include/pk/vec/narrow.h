/* vec/narrow.h: floats of 8 and 4 bits and integers of fewer than 8 bits, which are a byte in
 * memory, and the bits of narrow floats. Included by vec.h only. */
#ifndef PK_VEC_NARROW_H
#define PK_VEC_NARROW_H

#include <pk/f8.h>

/* -- floats, as in f8.h */

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
/* Bits beyond all numbers keep their order: NaN is last. */
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

PK_INLINE pk_f32v pk_from_FN(pk_i32v x, const int stored, const int bias) {
  const pk_mask nan = pk_eq_i32(pk_and_constant(x, 0x7f), pk_splat_i32(0x7f));
  return pk_select_f32(nan, pk_splat_f32(__builtin_nanf("")), pk_from_f8(x, stored, bias));
}
PK_INLINE pk_i32v pk_to_FN(pk_f32v a, const int stored, const int bias) {
  return pk_f8_signed(pk_min_i32(pk_f8_magnitude_bits(a, stored, bias), pk_splat_i32(0x7f)), a);
}
PK_INLINE pk_f32v pk_from_IEEE(pk_i32v x, const int stored, const int bias) {
  const pk_f32v number = pk_from_f8(x, stored, bias);
  const pk_mask special = pk_ge_i32(pk_and_constant(x, 0x7f), pk_splat_i32(0x7c));
  const pk_i32v moved = pk_add_constant(pk_bitcast_f32_i32(number), (127 - bias) << 23);
  return pk_select_f32(special, pk_bitcast_i32_f32(moved), number);
}
PK_INLINE pk_i32v pk_to_IEEE(pk_f32v a, const int stored, const int bias) {
  const pk_i32v finite = pk_min_i32(pk_f8_magnitude_bits(a, stored, bias), pk_splat_i32(0x7c));
  return pk_f8_signed(pk_select_i32(pk_isnan_f32(a), pk_splat_i32(0x7e), finite), a);
}
PK_INLINE pk_f32v pk_from_FNUZ(pk_i32v x, const int stored, const int bias) {
  const pk_mask nan = pk_eq_i32(pk_and_constant(x, 0xff), pk_splat_i32(0x80));
  return pk_select_f32(nan, pk_splat_f32(__builtin_nanf("")), pk_from_f8(x, stored, bias));
}
PK_INLINE pk_i32v pk_to_FNUZ(pk_f32v a, const int stored, const int bias) {
  const pk_i32v magnitude = pk_f8_magnitude_bits(a, stored, bias);
  const pk_i32v number =
      pk_select_i32(pk_eq_i32(magnitude, pk_splat_i32(0)), magnitude, pk_f8_signed(magnitude, a));
  return pk_select_i32(pk_gt_i32(magnitude, pk_splat_i32(0x7f)), pk_splat_i32(0x80), number);
}
PK_INLINE pk_f32v pk_from_SCALE(pk_i32v x, const int stored, const int bias) {
  const pk_i32v exponent = pk_and_constant(x, 0xff), least = pk_splat_i32(1 << 22);
  const pk_i32v number =
      pk_select_i32(pk_eq_i32(exponent, pk_splat_i32(0)), least, pk_shift_left(exponent, 23));
  (void)stored;
  (void)bias;
  return pk_select_f32(pk_eq_i32(exponent, pk_splat_i32(0xff)), pk_splat_f32(__builtin_nanf("")),
                       pk_bitcast_i32_f32(number));
}
PK_INLINE pk_i32v pk_to_SCALE(pk_f32v a, const int stored, const int bias) {
  const pk_i32v bits = pk_bitcast_f32_i32(a);
  const pk_i32v rounded =
      pk_min_i32(pk_shift_right_unsigned(pk_add_constant(bits, 1 << 22), 23), pk_splat_i32(0xff));
  const pk_i32v number =
      pk_select_i32(pk_lt_i32(bits, pk_splat_i32(3 << 21)), pk_splat_i32(0), rounded);
  (void)stored;
  (void)bias;
  return pk_select_i32(pk_lt_i32(bits, pk_splat_i32(1)), pk_splat_i32(0xff), number);
}
PK_INLINE pk_f32v pk_from_FINITE(pk_i32v x, const int stored, const int bias) {
  return pk_from_f8(pk_shift_left(x, 4), stored + 4, bias);
}
PK_INLINE pk_i32v pk_to_FINITE(pk_f32v a, const int stored, const int bias) {
  const pk_i32v magnitude = pk_min_i32(pk_f8_magnitude_bits(a, stored, bias), pk_splat_i32(0x7)),
                sign = pk_and_constant(pk_shift_right_unsigned(pk_bitcast_f32_i32(a), 28), 0x8);
  return pk_select_i32(pk_isnan_f32(a), pk_splat_i32(0x8), pk_or_i32(magnitude, sign));
}
#define PK_F8_LANES(T, special, stored, bias)                                                  \
  PK_INLINE pk_f32v pk_from_bits_##T(pk_i32v x) { return pk_from_##special(x, stored, bias); } \
  PK_INLINE pk_i32v pk_bits_##T(pk_f32v a) { return pk_to_##special(a, stored, bias); }        \
  PK_INLINE pk_f32v pk_round_##T(pk_f32v a) { return pk_from_bits_##T(pk_bits_##T(a)); }       \
  PK_INLINE pk_f32v pk_widen_##T(pk_raw8 raw) { return pk_from_bits_##T(pk_widen_u8(raw)); }   \
  PK_INLINE pk_raw8 pk_narrow_##T(pk_f32v a) { return pk_narrow_8(pk_bits_##T(a)); }
PK_F8_DTYPES(PK_F8_LANES)
#undef PK_F8_LANES

/* -- 16 bits */

PK_INLINE pk_i32v pk_bits_bf16(pk_f32v a) { return pk_upper_half(a); }
/* The same of a vector that is already rounded to bf16. */
PK_INLINE pk_i32v pk_rounded_bits_bf16(pk_f32v a) {
  return pk_shift_right_unsigned(pk_bitcast_f32_i32(a), 16);
}
PK_INLINE pk_f32v pk_from_bits_bf16(pk_i32v x) { return pk_bitcast_i32_f32(pk_shift_left(x, 16)); }
PK_INLINE pk_i32v pk_bits_f16(pk_f32v a) { return pk_widen_u16(pk_narrow_f16(a)); }
PK_INLINE pk_f32v pk_from_bits_f16(pk_i32v x) { return pk_widen_f16(pk_narrow_16(x)); }

/* -- fewer than 8 bits: the lower bits of a byte; the upper bits are ignored, and written as
 * zeros */

#define PK_PART_LANES_OF(I, U, bits)                                                            \
  PK_INLINE pk_i32v pk_wrap_##I(pk_i32v a) {                                                    \
    return pk_shift_right(pk_shift_left(a, 32 - (bits)), 32 - (bits));                          \
  }                                                                                             \
  PK_INLINE pk_i32v pk_wrap_##U(pk_i32v a) { return pk_and_constant(a, (1 << (bits)) - 1); }    \
  PK_INLINE pk_i32v pk_cast_f32_##I(pk_f32v a) {                                                \
    return pk_cast_f32_range(a, -(1 << ((bits)-1)), (1 << ((bits)-1)) - 1);                     \
  }                                                                                             \
  PK_INLINE pk_i32v pk_cast_f32_##U(pk_f32v a) {                                                \
    return pk_cast_f32_range(a, 0, (1 << (bits)) - 1);                                          \
  }                                                                                             \
  PK_INLINE pk_i32v pk_shl_##I(pk_i32v a, pk_i32v b) { return pk_wrap_##I(pk_shl_i32(a, b)); }  \
  PK_INLINE pk_i32v pk_shl_##U(pk_i32v a, pk_i32v b) { return pk_wrap_##U(pk_shl_i32(a, b)); }  \
  PK_INLINE pk_i32v pk_shr_##I(pk_i32v a, pk_i32v b) { return pk_shr_i32(a, b); }               \
  PK_INLINE pk_i32v pk_shr_##U(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }              \
  PK_INLINE pk_i32v pk_ushr_##I(pk_i32v a, pk_i32v b) {                                         \
    return pk_wrap_##I(pk_ushr_i32(pk_wrap_##U(a), b));                                         \
  }                                                                                             \
  PK_INLINE pk_i32v pk_ushr_##U(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }             \
  PK_INLINE pk_i32v pk_clz_##U(pk_i32v a) { return pk_add_constant(pk_clz_i32(a), (bits)-32); } \
  PK_INLINE pk_i32v pk_clz_##I(pk_i32v a) { return pk_clz_##U(pk_wrap_##U(a)); }                \
  PK_INLINE pk_i32v pk_widen_##I(pk_raw8 raw) { return pk_wrap_##I(pk_widen_u8(raw)); }         \
  PK_INLINE pk_i32v pk_widen_##U(pk_raw8 raw) { return pk_wrap_##U(pk_widen_u8(raw)); }         \
  PK_INLINE pk_raw8 pk_narrow_##I(pk_i32v a) { return pk_narrow_8(pk_wrap_##U(a)); }            \
  PK_INLINE pk_raw8 pk_narrow_##U(pk_i32v a) { return pk_narrow_8(pk_wrap_##U(a)); }
PK_PART_DTYPES(PK_PART_LANES_OF)
#undef PK_PART_LANES_OF

#endif
