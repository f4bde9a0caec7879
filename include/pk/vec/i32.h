/* vec/i32.h: integer arithmetic in 32 bits, and the operations of narrower types that need more
 * than pk_wrap_*. Included by vec.h only. Narrow values are in their lanes extended by their own
 * sign; an operation on them is the 32-bit one, then wrapped, unless it is here. */
#ifndef PK_VEC_I32_H
#define PK_VEC_I32_H

PK_INLINE pk_i32v pk_wrap_i8(pk_i32v a) { return pk_shift_right(pk_shift_left(a, 24), 24); }
PK_INLINE pk_i32v pk_wrap_u8(pk_i32v a) { return pk_and_constant(a, 0xff); }
PK_INLINE pk_i32v pk_wrap_i16(pk_i32v a) { return pk_shift_right(pk_shift_left(a, 16), 16); }
PK_INLINE pk_i32v pk_wrap_u16(pk_i32v a) { return pk_and_constant(a, 0xffff); }

PK_INLINE pk_i32v pk_neg_i32(pk_i32v a) { return pk_sub_i32(pk_splat_i32(0), a); }
PK_INLINE pk_i32v pk_not_i32(pk_i32v a) { return pk_xor_i32(a, pk_splat_i32(-1)); }
PK_INLINE pk_i32v pk_abs_i32(pk_i32v a) { return pk_max_i32(a, pk_neg_i32(a)); }
PK_INLINE pk_i32v pk_sign_i32(pk_i32v a) {
  return pk_max_i32(pk_min_i32(a, pk_splat_i32(1)), pk_splat_i32(-1));
}

PK_INLINE pk_i32v pk_add_u32(pk_i32v a, pk_i32v b) { return pk_add_i32(a, b); }
PK_INLINE pk_i32v pk_sub_u32(pk_i32v a, pk_i32v b) { return pk_sub_i32(a, b); }
PK_INLINE pk_i32v pk_mul_u32(pk_i32v a, pk_i32v b) { return pk_mul_i32(a, b); }
PK_INLINE pk_i32v pk_neg_u32(pk_i32v a) { return pk_neg_i32(a); }
PK_INLINE pk_i32v pk_and_u32(pk_i32v a, pk_i32v b) { return pk_and_i32(a, b); }
PK_INLINE pk_i32v pk_or_u32(pk_i32v a, pk_i32v b) { return pk_or_i32(a, b); }
PK_INLINE pk_i32v pk_xor_u32(pk_i32v a, pk_i32v b) { return pk_xor_i32(a, b); }
PK_INLINE pk_i32v pk_not_u32(pk_i32v a) { return pk_not_i32(a); }
PK_INLINE pk_i32v pk_abs_u32(pk_i32v a) { return a; }
PK_INLINE pk_i32v pk_sign_u32(pk_i32v a) { return pk_min_u32(a, pk_splat_i32(1)); }
PK_INLINE pk_i32v pk_shl_u32(pk_i32v a, pk_i32v b) { return pk_shl_i32(a, b); }
PK_INLINE pk_i32v pk_shr_u32(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_ushr_u32(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }

/* Lane by lane in double, where quotients of 32-bit integers are exact once truncated; no divisor
 * is 0 or, signed, -1. */
static inline pk_i32v pk_quotient_i32(pk_i32v a, pk_i32v b) {
  int32_t x[PK_LANES], y[PK_LANES];
  pk_store_raw32(x, a);
  pk_store_raw32(y, b);
  for (int k = 0; k < PK_LANES; k++) x[k] = (int32_t)((double)x[k] / (double)y[k]);
  return pk_load_raw32(x);
}
static inline pk_i32v pk_quotient_u32(pk_i32v a, pk_i32v b) {
  uint32_t x[PK_LANES], y[PK_LANES];
  pk_store_raw32(x, a);
  pk_store_raw32(y, b);
  for (int k = 0; k < PK_LANES; k++) x[k] = (uint32_t)((double)x[k] / (double)y[k]);
  return pk_load_raw32(x);
}
PK_INLINE pk_i32v pk_div_i32(pk_i32v a, pk_i32v b) {
  pk_i32v one = pk_splat_i32(1), minus_one = pk_splat_i32(-1);
  pk_mask by_zero = pk_eq_i32(b, pk_splat_i32(0)), by_minus_one = pk_eq_i32(b, minus_one);
  pk_i32v dividend = pk_select_i32(by_minus_one, pk_neg_i32(a), a); /* the least integer stays */
  pk_i32v divisor = pk_select_i32(pk_or_mask(by_zero, by_minus_one), one, b);
  return pk_select_i32(by_zero, minus_one, pk_quotient_i32(dividend, divisor));
}
PK_INLINE pk_i32v pk_div_u32(pk_i32v a, pk_i32v b) {
  pk_mask by_zero = pk_eq_i32(b, pk_splat_i32(0));
  return pk_select_i32(by_zero, pk_splat_i32(-1),
                       pk_quotient_u32(a, pk_select_i32(by_zero, pk_splat_i32(1), b)));
}
/* By zero the product is 0 and a remains. */
PK_INLINE pk_i32v pk_rem_i32(pk_i32v a, pk_i32v b) {
  return pk_sub_i32(a, pk_mul_i32(pk_div_i32(a, b), b));
}
PK_INLINE pk_i32v pk_rem_u32(pk_i32v a, pk_i32v b) {
  return pk_sub_i32(a, pk_mul_i32(pk_div_u32(a, b), b));
}
/* Does the sign of the remainder r differ from that of its divisor? For a zero divisor, r is the
 * dividend and is unchanged. */
PK_INLINE pk_mask pk_other_sign(pk_i32v r, pk_i32v b) {
  const pk_i32v zero = pk_splat_i32(0);
  const pk_mask some = pk_and_mask(pk_ne_i32(r, zero), pk_ne_i32(b, zero));
  return pk_and_mask(some, pk_lt_i32(pk_xor_i32(r, b), zero));
}
PK_INLINE pk_i32v pk_floordiv_i32(pk_i32v a, pk_i32v b) {
  const pk_i32v q = pk_div_i32(a, b), r = pk_sub_i32(a, pk_mul_i32(q, b));
  return pk_select_i32(pk_other_sign(r, b), pk_sub_i32(q, pk_splat_i32(1)), q);
}
PK_INLINE pk_i32v pk_mod_i32(pk_i32v a, pk_i32v b) {
  return pk_sub_i32(a, pk_mul_i32(pk_floordiv_i32(a, b), b));
}
PK_INLINE pk_i32v pk_floordiv_u32(pk_i32v a, pk_i32v b) { return pk_div_u32(a, b); }
PK_INLINE pk_i32v pk_mod_u32(pk_i32v a, pk_i32v b) { return pk_rem_u32(a, b); }

/* Division by a constant other than 0, 1 and -1; the C compiler computes its reciprocal in 33
 * bits. */
PK_INLINE pk_i32v pk_div_constant_u32(pk_i32v a, const uint32_t d) {
  const int bits = 32 - __builtin_clz(d - 1); /* of the quotient's reciprocal before its fraction */
  const uint32_t factor = (uint32_t)(((((uint64_t)1 << bits) - d) << 32) / d + 1);
  const pk_i32v high = pk_mulhi_u32(a, pk_splat_u32(factor));
  const pk_i32v mean = pk_add_i32(pk_shift_right_unsigned(pk_sub_i32(a, high), 1), high);
  return pk_shift_right_unsigned(mean, bits - 1);
}
/* Divides absolute values and restores the sign. */
PK_INLINE pk_i32v pk_div_constant_i32(pk_i32v a, const int32_t d) {
  const pk_i32v sign = pk_shift_right(d < 0 ? pk_not_i32(a) : a, 31);
  const pk_i32v q = pk_div_constant_u32(pk_abs_i32(a), d < 0 ? 0 - (uint32_t)d : (uint32_t)d);
  return pk_sub_i32(pk_xor_i32(q, sign), sign);
}
/* The floor of the quotient, with x = a, or x = -a if d is negative. For a negative x it is the
 * complement of the quotient of the complement of x, which is not negative. */
PK_INLINE pk_i32v pk_floordiv_constant_i32(pk_i32v a, const int32_t d) {
  const pk_i32v x = d < 0 ? pk_neg_i32(a) : a,
                sign = pk_shift_right(d < 0 ? pk_neg_i32(pk_max_i32(a, pk_splat_i32(0))) : a, 31);
  const pk_i32v q = pk_div_constant_u32(pk_xor_i32(x, sign), d < 0 ? 0 - (uint32_t)d : (uint32_t)d);
  return pk_xor_i32(q, sign);
}
/* Remainders follow from quotients. */
#define PK_BY_CONSTANT(T)                                                              \
  PK_INLINE pk_i32v pk_rem_constant_##T(pk_i32v a, const int32_t d) {                  \
    return pk_sub_i32(a, pk_mul_i32(pk_div_constant_##T(a, d), pk_splat_i32(d)));      \
  }                                                                                    \
  PK_INLINE pk_i32v pk_mod_constant_##T(pk_i32v a, const int32_t d) {                  \
    return pk_sub_i32(a, pk_mul_i32(pk_floordiv_constant_##T(a, d), pk_splat_i32(d))); \
  }
PK_BY_CONSTANT(i32)
PK_INLINE pk_i32v pk_rem_constant_u32(pk_i32v a, const uint32_t d) {
  return pk_sub_i32(a, pk_mul_i32(pk_div_constant_u32(a, d), pk_splat_u32(d)));
}
PK_INLINE pk_i32v pk_mod_constant_u32(pk_i32v a, const uint32_t d) {
  return pk_rem_constant_u32(a, d);
}
PK_INLINE pk_i32v pk_floordiv_constant_u32(pk_i32v a, const uint32_t d) {
  return pk_div_constant_u32(a, d);
}

/* -- quotients of elements of up to 16 bits, of either sign: in f32. The next integer is at least
 * 1 / b away, and a quotient below 2^16 / b is rounded by less than 2^-8 / b. */

PK_INLINE pk_i32v pk_div_short(pk_i32v a, pk_i32v b) {
  const pk_mask by_zero = pk_eq_i32(b, pk_splat_i32(0));
  const pk_i32v divisor = pk_select_i32(by_zero, pk_splat_i32(1), b);
  const pk_f32v quotient = pk_div_f32(pk_cast_i32_f32(a), pk_cast_i32_f32(divisor));
  return pk_select_i32(by_zero, pk_splat_i32(-1), pk_truncate_to_i32(quotient));
}
PK_INLINE pk_i32v pk_rem_short(pk_i32v a, pk_i32v b) {
  return pk_sub_i32(a, pk_mul_i32(pk_div_short(a, b), b));
}
PK_INLINE pk_i32v pk_floordiv_short(pk_i32v a, pk_i32v b) {
  const pk_i32v q = pk_div_short(a, b), r = pk_sub_i32(a, pk_mul_i32(q, b));
  return pk_select_i32(pk_other_sign(r, b), pk_sub_i32(q, pk_splat_i32(1)), q);
}
PK_INLINE pk_i32v pk_mod_short(pk_i32v a, pk_i32v b) {
  const pk_i32v r = pk_rem_short(a, b);
  return pk_select_i32(pk_other_sign(r, b), pk_add_i32(r, b), r);
}
/* The reciprocal is a little too large, so that multiples of d do not fall short. */
PK_INLINE pk_i32v pk_div_constant_short(pk_i32v a, const int32_t d) {
  const pk_f32v reciprocal = pk_splat_f32((float)((1 + 0x1p-22) / d));
  return pk_truncate_to_i32(pk_mul_f32(pk_cast_i32_f32(a), reciprocal));
}
/* With half added to the dividend no quotient is within 1 / 2d of an integer. */
PK_INLINE pk_i32v pk_floordiv_constant_short(pk_i32v a, const int32_t d) {
  const pk_f32v x = pk_add_f32(pk_cast_i32_f32(a), pk_splat_f32(d < 0 ? -0.5f : 0.5f));
  return pk_truncate_to_i32(pk_floor_f32(pk_mul_f32(x, pk_splat_f32((float)(1.0 / d)))));
}
PK_BY_CONSTANT(short)
#undef PK_BY_CONSTANT

/* By repeated squaring, for as many bits as the largest exponent has. */
static inline pk_i32v pk_pow_u32(pk_i32v a, pk_i32v b) {
  pk_i32v r = pk_splat_i32(1), zero = pk_splat_i32(0);
  for (pk_i32v rest = b; pk_any(pk_ne_i32(rest, zero)); rest = pk_shift_right_unsigned(rest, 1)) {
    r = pk_select_i32(pk_ne_i32(pk_and_constant(rest, 1), zero), pk_mul_i32(r, a), r);
    a = pk_mul_i32(a, a);
  }
  return r;
}
static inline pk_i32v pk_pow_i32(pk_i32v a, pk_i32v b) {
  pk_mask negative = pk_lt_i32(b, pk_splat_i32(0));
  pk_mask unit = pk_eq_i32(pk_abs_i32(a), pk_splat_i32(1));
  pk_i32v r = pk_pow_u32(a, pk_select_i32(negative, pk_and_constant(b, 1),
                                          b)); /* for bases 1 and -1 only the last bit counts */
  return pk_select_i32(pk_and_mask(negative, pk_not_mask(unit)), pk_splat_i32(0), r);
}

#if PK_PART_BYTES == 64 && defined(__AVX512VPOPCNTDQ__)
PK_INLINE pk_i32v pk_population_count_i32(pk_i32v a) {
  return (pk_i32v)_mm512_popcnt_epi32((__m512i)a);
}
#elif PK_PART_BYTES == 32
PK_LIFT_I32(pk_population_count_i32, pk_part_population_count)
#else
PK_INLINE pk_i32v pk_population_count_i32(pk_i32v a) {
  pk_i32v x = pk_sub_i32(a, pk_and_constant(pk_shift_right_unsigned(a, 1), 0x55555555));
  x = pk_add_i32(pk_and_constant(x, 0x33333333),
                 pk_and_constant(pk_shift_right_unsigned(x, 2), 0x33333333));
  x = pk_and_constant(pk_add_i32(x, pk_shift_right_unsigned(x, 4)), 0x0f0f0f0f);
  return pk_shift_right_unsigned(pk_mul_i32(x, pk_splat_i32(0x01010101)), 24);
}
#endif
#if PK_PART_BYTES == 64 && defined(__AVX512CD__)
PK_INLINE pk_i32v pk_clz_i32(pk_i32v a) { return (pk_i32v)_mm512_lzcnt_epi32((__m512i)a); }
#else
/* The position of the first one bit is the exponent of the number as an f32. The next lower bit is
 * cleared first, so that the conversion does not round up to a power of two. If the sign bit is the
 * first, the f32 is negative; for 0 the exponent is 0. */
PK_INLINE pk_i32v pk_clz_i32(pk_i32v a) {
  const pk_i32v first = pk_and_i32(a, pk_not_i32(pk_shift_right_unsigned(a, 1)));
  const pk_i32v bits = pk_bitcast_f32_i32(pk_cast_i32_f32(first));
  const pk_i32v places = pk_sub_i32(pk_splat_i32(158), pk_shift_right_unsigned(bits, 23));
  return pk_min_i32(pk_max_i32(places, pk_splat_i32(0)), pk_splat_i32(32));
}
#endif
PK_INLINE pk_i32v pk_population_count_u32(pk_i32v a) { return pk_population_count_i32(a); }
PK_INLINE pk_i32v pk_clz_u32(pk_i32v a) { return pk_clz_i32(a); }

/* Narrow types. They use `shr` of 32 bits, because the sign or zeros fill the lane. */
PK_INLINE pk_i32v pk_shl_i8(pk_i32v a, pk_i32v b) { return pk_wrap_i8(pk_shl_i32(a, b)); }
PK_INLINE pk_i32v pk_shl_u8(pk_i32v a, pk_i32v b) { return pk_wrap_u8(pk_shl_i32(a, b)); }
PK_INLINE pk_i32v pk_shl_i16(pk_i32v a, pk_i32v b) { return pk_wrap_i16(pk_shl_i32(a, b)); }
PK_INLINE pk_i32v pk_shl_u16(pk_i32v a, pk_i32v b) { return pk_wrap_u16(pk_shl_i32(a, b)); }
PK_INLINE pk_i32v pk_shr_i8(pk_i32v a, pk_i32v b) { return pk_shr_i32(a, b); }
PK_INLINE pk_i32v pk_shr_u8(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_shr_i16(pk_i32v a, pk_i32v b) { return pk_shr_i32(a, b); }
PK_INLINE pk_i32v pk_shr_u16(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_ushr_i8(pk_i32v a, pk_i32v b) {
  return pk_wrap_i8(pk_ushr_i32(pk_wrap_u8(a), b));
}
PK_INLINE pk_i32v pk_ushr_u8(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_ushr_i16(pk_i32v a, pk_i32v b) {
  return pk_wrap_i16(pk_ushr_i32(pk_wrap_u16(a), b));
}
PK_INLINE pk_i32v pk_ushr_u16(pk_i32v a, pk_i32v b) { return pk_ushr_i32(a, b); }
PK_INLINE pk_i32v pk_clz_u8(pk_i32v a) { return pk_add_constant(pk_clz_i32(a), -24); }
PK_INLINE pk_i32v pk_clz_i8(pk_i32v a) { return pk_clz_u8(pk_wrap_u8(a)); }
PK_INLINE pk_i32v pk_clz_u16(pk_i32v a) { return pk_add_constant(pk_clz_i32(a), -16); }
PK_INLINE pk_i32v pk_clz_i16(pk_i32v a) { return pk_clz_u16(pk_wrap_u16(a)); }
PK_INLINE pk_i32v pk_population_count_u8(pk_i32v a) { return pk_population_count_i32(a); }
PK_INLINE pk_i32v pk_population_count_i8(pk_i32v a) {
  return pk_population_count_i32(pk_wrap_u8(a));
}
PK_INLINE pk_i32v pk_population_count_u16(pk_i32v a) { return pk_population_count_i32(a); }
PK_INLINE pk_i32v pk_population_count_i16(pk_i32v a) {
  return pk_population_count_i32(pk_wrap_u16(a));
}

/* Comparisons with an index scalar compare the true values. */
#define PK_AGAINST_I64(name, type, least, greatest, below, above)             \
  PK_INLINE pk_mask pk_##name##_##type##_i64(pk_i32v a, int64_t s) {          \
    return s < least      ? pk_splat_mask(below)                              \
           : s > greatest ? pk_splat_mask(above)                              \
                          : pk_##name##_##type(a, pk_splat_u32((uint32_t)s)); \
  }
PK_AGAINST_I64(eq, i32, INT32_MIN, INT32_MAX, false, false)
PK_AGAINST_I64(ne, i32, INT32_MIN, INT32_MAX, true, true)
PK_AGAINST_I64(lt, i32, INT32_MIN, INT32_MAX, false, true)
PK_AGAINST_I64(le, i32, INT32_MIN, INT32_MAX, false, true)
PK_AGAINST_I64(gt, i32, INT32_MIN, INT32_MAX, true, false)
PK_AGAINST_I64(ge, i32, INT32_MIN, INT32_MAX, true, false)
PK_AGAINST_I64(eq, u32, 0, UINT32_MAX, false, false)
PK_AGAINST_I64(ne, u32, 0, UINT32_MAX, true, true)
PK_AGAINST_I64(lt, u32, 0, UINT32_MAX, false, true)
PK_AGAINST_I64(le, u32, 0, UINT32_MAX, false, true)
PK_AGAINST_I64(gt, u32, 0, UINT32_MAX, true, false)
PK_AGAINST_I64(ge, u32, 0, UINT32_MAX, true, false)

#endif
