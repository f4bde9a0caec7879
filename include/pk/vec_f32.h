/* vec_f32.h: f32 arithmetic. Included by vec.h only. */
#ifndef PK_VEC_F32_H
#define PK_VEC_F32_H

PK_INLINE pk_f32v pk_neg_f32(pk_f32v a) { return pk_bitcast_i32_f32(pk_xor_i32(pk_bitcast_f32_i32(a), pk_splat_i32(INT32_MIN))); }
PK_INLINE pk_f32v pk_abs_f32(pk_f32v a) { return pk_bitcast_i32_f32(pk_and_constant(pk_bitcast_f32_i32(a), INT32_MAX)); }
/* |a| with the sign of b. */
PK_INLINE pk_f32v pk_with_sign_f32(pk_f32v a, pk_f32v b) {
  pk_i32v sign = pk_and_constant(pk_bitcast_f32_i32(b), INT32_MIN);
  return pk_bitcast_i32_f32(pk_or_i32(pk_and_constant(pk_bitcast_f32_i32(a), INT32_MAX), sign));
}
PK_INLINE pk_mask pk_isnan_f32(pk_f32v a) { return pk_ne_f32(a, a); }
PK_INLINE pk_mask pk_isinf_f32(pk_f32v a) { return pk_eq_f32(pk_abs_f32(a), pk_splat_f32(__builtin_inff())); }
PK_INLINE pk_mask pk_isfinite_f32(pk_f32v a) { return pk_lt_f32(pk_abs_f32(a), pk_splat_f32(__builtin_inff())); }
PK_INLINE pk_f32v pk_sign_f32(pk_f32v a) {
  pk_mask nonzero = pk_gt_f32(pk_abs_f32(a), pk_splat_f32(0)); /* a NaN is not */
  return pk_select_f32(nonzero, pk_with_sign_f32(pk_splat_f32(1), a), a);
}
PK_INLINE pk_f32v pk_reciprocal_f32(pk_f32v a) { return pk_div_f32(pk_splat_f32(1), a); }
PK_INLINE pk_f32v pk_rsqrt_f32(pk_f32v a) { return pk_div_f32(pk_splat_f32(1), pk_sqrt_f32(a)); }

#endif
