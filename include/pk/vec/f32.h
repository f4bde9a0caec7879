/* vec/f32.h: f32 arithmetic. Included by vec.h only. */
#ifndef PK_VEC_F32_H
#define PK_VEC_F32_H

PK_INLINE pk_f32v pk_neg_f32(pk_f32v a) {
  return pk_bitcast_i32_f32(pk_xor_i32(pk_bitcast_f32_i32(a), pk_splat_i32(INT32_MIN)));
}
PK_INLINE pk_f32v pk_abs_f32(pk_f32v a) {
  return pk_bitcast_i32_f32(pk_and_constant(pk_bitcast_f32_i32(a), INT32_MAX));
}
/* |a| with the sign of b. */
PK_INLINE pk_f32v pk_with_sign_f32(pk_f32v a, pk_f32v b) {
  pk_i32v sign = pk_and_constant(pk_bitcast_f32_i32(b), INT32_MIN);
  return pk_bitcast_i32_f32(pk_or_i32(pk_and_constant(pk_bitcast_f32_i32(a), INT32_MAX), sign));
}
PK_INLINE pk_mask pk_isnan_f32(pk_f32v a) { return pk_ne_f32(a, a); }
PK_INLINE pk_mask pk_isinf_f32(pk_f32v a) {
  return pk_eq_f32(pk_abs_f32(a), pk_splat_f32(__builtin_inff()));
}
PK_INLINE pk_mask pk_isfinite_f32(pk_f32v a) {
  return pk_lt_f32(pk_abs_f32(a), pk_splat_f32(__builtin_inff()));
}
PK_INLINE pk_f32v pk_sign_f32(pk_f32v a) {
  pk_mask nonzero = pk_gt_f32(pk_abs_f32(a), pk_splat_f32(0)); /* a NaN is not */
  return pk_select_f32(nonzero, pk_with_sign_f32(pk_splat_f32(1), a), a);
}
PK_INLINE pk_f32v pk_reciprocal_f32(pk_f32v a) { return pk_div_f32(pk_splat_f32(1), a); }
PK_INLINE pk_f32v pk_rsqrt_f32(pk_f32v a) { return pk_div_f32(pk_splat_f32(1), pk_sqrt_f32(a)); }

/* Exact, as C's fmod. In double a quotient below 2^28 is off by one at most once truncated, and its
 * product with b is exact. */
static inline float pk_rem_lane(float a, float b) {
  double x = __builtin_fabs((double)a), y = __builtin_fabs((double)b), quotient = x / y;
  if (x < y) return a;
  if (!(quotient < 0x1p28)) return __builtin_fmodf(a, b);
  double rest = x - (double)(int32_t)quotient * y;
  return __builtin_copysignf((float)(rest < 0 ? rest + y : rest), a);
}
static inline pk_f32v pk_rem_f32(pk_f32v a, pk_f32v b) {
  float x[PK_LANES], y[PK_LANES];
  pk_store_raw32(x, pk_bitcast_f32_i32(a));
  pk_store_raw32(y, pk_bitcast_f32_i32(b));
  for (int k = 0; k < PK_LANES; k++) x[k] = pk_rem_lane(x[k], y[k]);
  return pk_bitcast_i32_f32(pk_load_raw32(x));
}
/* A zero has the sign of b. */
PK_INLINE pk_f32v pk_mod_f32(pk_f32v a, pk_f32v b) {
  pk_f32v r = pk_rem_f32(a, b), zero = pk_splat_f32(0);
  pk_mask above = pk_and_mask(pk_lt_f32(b, zero), pk_gt_f32(r, zero));
  pk_mask below = pk_and_mask(pk_gt_f32(b, zero), pk_lt_f32(r, zero));
  r = pk_select_f32(pk_or_mask(above, below), pk_add_f32(r, b), r);
  return pk_select_f32(pk_eq_f32(r, zero), pk_with_sign_f32(r, b), r);
}
/* The floor of the exact quotient: one less than the rounded quotient if that was rounded up to an
 * integer. Beyond 2^24 it is the rounded quotient. */
static inline pk_f32v pk_floordiv_f32(pk_f32v a, pk_f32v b) {
  pk_f32v whole = pk_floor_f32(pk_div_f32(a, b)), rest = pk_fma_f32(pk_neg_f32(whole), b, a),
          zero = pk_splat_f32(0);
  pk_mask below = pk_and_mask(pk_lt_f32(rest, zero), pk_gt_f32(b, zero));
  pk_mask above = pk_and_mask(pk_gt_f32(rest, zero), pk_lt_f32(b, zero));
  pk_mask exact = pk_le_f32(pk_abs_f32(whole), pk_splat_f32(0x1p24f));
  pk_mask less = pk_and_mask(pk_or_mask(below, above), exact);
  return pk_select_f32(less, pk_sub_f32(whole, pk_splat_f32(1)), whole);
}

#endif
