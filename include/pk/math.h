/* math.h: functions of f32. Included by vec.h only. No libm on the fast paths; subnormals in and out are exact IEEE ones.
 * docs/numerics.md states the errors, tests/unit/test_math.c measures them. */
#ifndef PK_MATH_H
#define PK_MATH_H

#define PK_F32(x) pk_splat_f32(x)
/* a * b + c, for polynomials. */
#define PK_FMA(a, b, c) pk_fma_fast_f32(a, b, c)

/* To the nearest integer, |a| < 2^22. */
PK_INLINE pk_f32v pk_nearest_f32(pk_f32v a) { return pk_sub_f32(pk_add_f32(a, PK_F32(0x1.8p23f)), PK_F32(0x1.8p23f)); }

PK_INLINE pk_f32v pk_exp2_f32(pk_f32v x) {
  x = pk_max_fast_f32(PK_F32(-151), pk_min_fast_f32(PK_F32(129), x)); /* the second operand if it is a NaN */
  pk_f32v n = pk_nearest_f32(x), r = pk_sub_f32(x, n);
  pk_f32v p = PK_FMA(PK_F32(1.535325981e-4f), r, PK_F32(1.33990035e-3f));
  p = PK_FMA(p, r, PK_F32(9.618438594e-3f));
  p = PK_FMA(p, r, PK_F32(5.550332163e-2f));
  p = PK_FMA(p, r, PK_F32(2.40226479e-1f));
  p = PK_FMA(p, r, PK_F32(6.93147203e-1f));
  return pk_scale_f32(PK_FMA(p, r, PK_F32(1)), n);
}

/* x = n log 2 + r. The upper part of log 2 has 9 bits: n times it is exact. */
PK_INLINE pk_f32v pk_exp_split(pk_f32v x, pk_f32v *n) {
  *n = pk_nearest_f32(pk_mul_f32(x, PK_F32(1.44269504f)));
  return PK_FMA(*n, PK_F32(2.12194440e-4f), PK_FMA(*n, PK_F32(-0.693359375f), x));
}

PK_INLINE pk_f32v pk_exp_f32(pk_f32v x) {
  x = pk_max_fast_f32(PK_F32(-104.5f), pk_min_fast_f32(PK_F32(89), x));
  pk_f32v n, r = pk_exp_split(x, &n);
  pk_f32v p = PK_FMA(PK_F32(1.381432094e-3f), r, PK_F32(8.368851059e-3f));
  p = PK_FMA(p, r, PK_F32(4.166840108e-2f));
  p = PK_FMA(p, r, PK_F32(1.666651952e-1f));
  p = PK_FMA(p, r, PK_F32(4.999999337e-1f));
  p = PK_FMA(p, pk_mul_f32(r, r), r);
  return pk_scale_f32(pk_add_f32(p, PK_F32(1)), n);
}

/* exp(x) - 1 for x within [-20, 88.8]; wants no help near 0 but for subnormals. */
PK_INLINE pk_f32v pk_expm1_core(pk_f32v x) {
  pk_f32v n, r = pk_exp_split(x, &n);
  pk_f32v p = PK_FMA(PK_F32(1.991444933e-4f), r, PK_F32(1.394120667e-3f));
  p = PK_FMA(p, r, PK_F32(8.333272587e-3f));
  p = PK_FMA(p, r, PK_F32(4.166635229e-2f));
  p = PK_FMA(p, r, PK_F32(1.666666682e-1f));
  p = PK_FMA(p, r, PK_F32(0.5f));
  p = PK_FMA(p, pk_mul_f32(r, r), r);
  pk_i32v exponent = pk_add_constant(pk_bitcast_f32_i32(pk_add_f32(n, PK_F32(0x1.8p23f))), 126 - 0x4b400000);
  pk_f32v half = pk_bitcast_i32_f32(pk_shift_left(exponent, 23)); /* 2^(n - 1) */
  pk_f32v y = PK_FMA(half, p, pk_sub_f32(half, PK_F32(0.5f)));
  return pk_add_f32(y, y);
}

PK_INLINE pk_f32v pk_expm1_f32(pk_f32v x) {
  pk_f32v y = pk_expm1_core(pk_max_fast_f32(PK_F32(-20), pk_min_fast_f32(PK_F32(89), x)));
  return pk_select_f32(pk_lt_f32(pk_abs_f32(x), PK_F32(0x1p-25f)), x, y);
}

/* t / (t + 2) with t = exp(2 |x|) - 1. */
PK_INLINE pk_f32v pk_tanh_f32(pk_f32v x) {
  pk_f32v size = pk_abs_f32(x);
  pk_f32v t = pk_expm1_core(pk_min_fast_f32(PK_F32(20), pk_add_f32(size, size)));
  pk_f32v y = pk_with_sign_f32(pk_div_fast_f32(t, pk_add_f32(t, PK_F32(2))), x);
  return pk_select_f32(pk_lt_f32(size, PK_F32(0x1p-13f)), x, y);
}

#endif
