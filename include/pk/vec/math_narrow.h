/* vec/math_narrow.h: functions of f32 whose operand and result are elements of a float of 16 bits
 * or fewer. Their results are within 3e-6 of the exact ones, so that rounding them to f16 gives at
 * most 0.51 units in the last place. Included by vec.h only. docs/numerics.md states the errors,
 * tests/unit/test_math.c measures them for every f16 and bf16. */
#ifndef PK_VEC_MATH_NARROW_H
#define PK_VEC_MATH_NARROW_H

/* An odd function as x * numerator / denominator, both polynomials in x^2. */
PK_INLINE pk_f32v pk_odd_quotient(pk_f32v x, pk_f32v numerator, pk_f32v denominator) {
  return pk_div_f32(pk_mul_f32(x, numerator), denominator);
}
static inline pk_f32v pk_tanh_narrow(pk_f32v x) {
  const pk_f32v t = pk_within_f32(x, -6.7f, 6.7f), s = pk_mul_f32(t, t);
  return pk_odd_quotient(
      t, PK_POLYNOMIAL(s, 4.16221201e-06f, 0.00232681285f, 0.12358883f, 0.999999261f),
      PK_POLYNOMIAL(s, 0.000147723207f, 0.0213064175f, 0.456916456f, 1));
}
static inline pk_f32v pk_erf_narrow(pk_f32v x) {
  const pk_f32v t = pk_within_f32(x, -3.3f, 3.3f), s = pk_mul_f32(t, t);
  return pk_odd_quotient(
      t, PK_POLYNOMIAL(s, 0.000744862314f, 0.0431288813f, 0.154696277f, 1.12837751f),
      PK_POLYNOMIAL(s, 0.00925655729f, 0.0949342551f, 0.470444033f, 1));
}

/* exp(-x^2), whose exponent is exact for such x, times t P(t) with t = 2 / (2 + |x|). */
static inline pk_f32v pk_erfc_narrow(pk_f32v x) {
  const pk_f32v size = pk_abs_f32(x), two = PK_F32(2), t = pk_div_f32(two, pk_add_f32(size, two));
  const pk_f32v p = PK_POLYNOMIAL(t, 0.019598302f, 0.0118064051f, -0.23472022f, 0.286237371f,
                                  0.0872524905f, 0.268130763f, 0.279471532f, 0.282224203f);
  const pk_f32v e = pk_exp_below_f32(pk_neg_f32(pk_mul_f32(size, size)));
  const pk_f32v tail = pk_mul_f32(e, pk_mul_f32(t, p));
  return pk_select_f32(pk_lt_f32(x, PK_F32(0)), pk_sub_f32(two, tail), tail);
}

/* log(x) times `scale` for positive x; `e_scale` is the logarithm of 2 times `scale`. */
PK_INLINE pk_f32v pk_scaled_log_narrow(pk_f32v x, float scale, float e_scale) {
  pk_f32v e, f = pk_sub_f32(pk_log_split(x, &e), PK_F32(1));
  const pk_f32v p = PK_POLYNOMIAL(f, 0.118960944f, -0.186678498f, 0.204963307f, -0.249097447f,
                                  0.333145089f, -0.500011129f, 1.00000097f);
  return PK_FMA(e, PK_F32(e_scale), pk_mul_f32(p, pk_mul_f32(f, PK_F32(scale))));
}
static inline pk_f32v pk_log_narrow(pk_f32v x) {
  return pk_log_special(pk_scaled_log_narrow(x, 1, 0.693147181f), x);
}
static inline pk_f32v pk_log2_narrow(pk_f32v x) {
  return pk_log_special(pk_scaled_log_narrow(x, 1.44269504f, 1), x);
}
static inline pk_f32v pk_log10_narrow(pk_f32v x) {
  return pk_log_special(pk_scaled_log_narrow(x, 0.434294482f, 0.301029996f), x);
}
static inline pk_f32v pk_atanh_narrow(pk_f32v x) {
  const pk_f32v size = pk_abs_f32(x), s = pk_mul_f32(x, x), one = PK_F32(1);
  const pk_f32v p = PK_POLYNOMIAL(s, 0.156316356f, 0.136273808f, 0.200364443f, 0.33332714f);
  const pk_f32v quotient = pk_div_f32(pk_add_f32(one, size), pk_sub_f32(one, size));
  const pk_f32v far = pk_with_sign_f32(pk_scaled_log_narrow(quotient, 0.5f, 0.34657359f), x);
  const pk_f32v y =
      pk_select_f32(pk_ge_f32(size, PK_F32(0.4f)), far, PK_FMA(pk_mul_f32(p, s), x, x));
  return PK_NAN_ABOVE_ONE(PK_INF_AT_ONE);
}
/* x times a polynomial in -log(1 - x^2), which is at most 7 for such x. */
static inline pk_f32v pk_erf_inv_narrow(pk_f32v x) {
  const pk_f32v one = PK_F32(1), rest = pk_mul_f32(pk_sub_f32(one, x), pk_add_f32(one, x));
  const pk_f32v w = pk_scaled_log_narrow(rest, -1, -0.693147181f);
  const pk_f32v y = pk_mul_f32(
      x, PK_POLYNOMIAL(w, -1.25521318e-08f, 6.2557138e-07f, -1.17092472e-05f, 9.97841516e-05f,
                       -0.000241349299f, -0.00220328584f, 0.011474076f, 0.232029843f, 0.88622637f));
  return PK_NAN_ABOVE_ONE(PK_INF_AT_ONE);
}

/* Beyond 1 the angle of the reciprocal, from pi/2. */
static inline pk_f32v pk_atan_narrow(pk_f32v x) {
  const pk_f32v size = pk_abs_f32(x), one = PK_F32(1);
  const pk_mask steep = pk_gt_f32(size, one);
  const pk_f32v u =
      pk_div_f32(pk_select_f32(steep, PK_F32(-1), size), pk_select_f32(steep, size, one));
  const pk_f32v s = pk_mul_f32(u, u);
  const pk_f32v p = PK_POLYNOMIAL(s, 0.00810635775f, -0.0377966907f, 0.0848410069f, -0.135445745f,
                                  0.19897873f, -0.333284919f);
  const pk_f32v base = pk_select_f32(steep, PK_F32(1.57079633f), PK_F32(0));
  return pk_with_sign_f32(pk_add_f32(base, PK_FMA(pk_mul_f32(p, s), u, u)), x);
}
/* asin(|x|) up to 0.5, else asin of the root of (1 - |x|) / 2, half of what is missing to pi/2. */
PK_INLINE pk_f32v pk_asin_of_lesser(pk_f32v size, pk_mask far) {
  const pk_f32v half = PK_F32(0.5f), rest = PK_FMA(size, PK_F32(-0.5f), half);
  const pk_f32v u = pk_select_f32(far, pk_sqrt_f32(rest), size), s = pk_mul_f32(u, u);
  const pk_f32v p = PK_POLYNOMIAL(s, 0.0500108737f, 0.0400071738f, 0.0754093577f, 0.166655632f);
  return PK_FMA(pk_mul_f32(p, s), u, u);
}
static inline pk_f32v pk_asin_narrow(pk_f32v x) {
  const pk_f32v size = pk_abs_f32(x);
  const pk_mask far = pk_gt_f32(size, PK_F32(0.5f));
  const pk_f32v angle = pk_asin_of_lesser(size, far);
  const pk_f32v upper = PK_FMA(angle, PK_F32(-2), PK_F32(1.57079633f));
  return pk_with_sign_f32(pk_select_f32(far, upper, angle), x);
}
static inline pk_f32v pk_acos_narrow(pk_f32v x) {
  const pk_f32v size = pk_abs_f32(x);
  const pk_mask far = pk_gt_f32(size, PK_F32(0.5f)), negative = pk_lt_f32(x, PK_F32(0));
  const pk_f32v angle = pk_asin_of_lesser(size, far), twice = pk_add_f32(angle, angle);
  const pk_f32v near = pk_sub_f32(PK_F32(1.57079633f), pk_with_sign_f32(angle, x));
  const pk_f32v upper = pk_select_f32(negative, pk_sub_f32(PK_F32(3.14159265f), twice), twice);
  return pk_select_f32(far, upper, near);
}

/* The f32 function reduces angles in double. Up to the limit a fused multiply-add subtracts
 * multiples of pi/2, in three parts, without losing digits. */
#if PK_HAS_FMA
#define PK_NARROW_ANGLE_LIMIT 65536.0f
PK_INLINE pk_f32v pk_sine_narrow(pk_f32v x, int32_t turn) {
  const pk_f32v shifted = PK_FMA(x, PK_F32(0.636619772f), PK_F32(PK_SHIFTER)),
                q = pk_sub_f32(shifted, PK_F32(PK_SHIFTER));
  pk_f32v r = PK_FMA(q, PK_F32(-1.57079637f), x);
  r = PK_FMA(q, PK_F32(4.37113883e-8f), r);
  r = PK_FMA(q, PK_F32(1.71512489e-15f), r);
  return pk_sine_of_rest(r, pk_add_constant(pk_bitcast_f32_i32(shifted), turn));
}
#define PK_SINE_NARROW(name, turn, of_zero)                                                     \
  static inline pk_f32v pk_##name##_narrow(pk_f32v x) {                                         \
    const pk_mask large = pk_not_mask(pk_le_f32(pk_abs_f32(x), PK_F32(PK_NARROW_ANGLE_LIMIT))); \
    const pk_f32v y = pk_sine_narrow(x, turn);                                                  \
    const pk_f32v r = pk_select_f32(pk_eq_f32(x, PK_F32(0)), of_zero, y);                       \
    return pk_any(large) ? pk_select_f32(large, pk_##name##_f32(x), r) : r;                     \
  }
PK_SINE_NARROW(sin, 0, x)
PK_SINE_NARROW(cos, 1, PK_F32(1))
#undef PK_SINE_NARROW
#else
PK_INLINE pk_f32v pk_sin_narrow(pk_f32v x) { return pk_sin_f32(x); }
PK_INLINE pk_f32v pk_cos_narrow(pk_f32v x) { return pk_cos_f32(x); }
#endif

/* Of one element. */
#define PKS_NARROW(name)                                      \
  static inline float pks_##name##_narrow(float a) {          \
    return pks_lane_f32(pk_##name##_narrow(pk_splat_f32(a))); \
  }
PKS_NARROW(tanh)
PKS_NARROW(erf)
PKS_NARROW(erfc)
PKS_NARROW(log)
PKS_NARROW(log2)
PKS_NARROW(log10)
PKS_NARROW(atanh)
PKS_NARROW(erf_inv)
PKS_NARROW(atan)
PKS_NARROW(asin)
PKS_NARROW(acos)
PKS_NARROW(sin)
PKS_NARROW(cos)
#undef PKS_NARROW

#endif
