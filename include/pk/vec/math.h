/* vec/math.h: functions of f32. Included by vec.h only. No libm on the fast paths; subnormals in
 * and out are IEEE's. docs/numerics.md states the errors, tests/unit/test_math.c measures them. */
#ifndef PK_VEC_MATH_H
#define PK_VEC_MATH_H

#define PK_F32(x) pk_splat_f32(x)
/* a * b + c and the like, for polynomials: rounds once where that is as fast. */
#define PK_FMA(a, b, c) pk_fma_fast_f32(a, b, c)

/* The polynomial of constants c, the highest degree first, at x. */
#define PK_POLYNOMIAL(x, ...)                    \
  pk_polynomial(x, (const float[]){__VA_ARGS__}, \
                (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
PK_INLINE pk_f32v pk_polynomial(pk_f32v x, const float *c, int count) {
  pk_f32v p = PK_F32(c[0]);
  PK_UNROLL for (int k = 1; k < count; k++) p = PK_FMA(p, x, PK_F32(c[k]));
  return p;
}

/* Clamps to [least, greatest]; a NaN remains a NaN, because min and max return their second operand
 * then. */
PK_INLINE pk_f32v pk_within_f32(pk_f32v a, float least, float greatest) {
  return pk_max_fast_f32(PK_F32(least), pk_min_fast_f32(PK_F32(greatest), a));
}

/* pks_NAME_f32, of one element, is one lane of pk_NAME_f32. */
PK_INLINE float pks_lane_f32(pk_f32v v) { return PK_PART(v, 0)[0]; }
#define PKS_UNARY(name)                                    \
  static inline float pks_##name##_f32(float a) {          \
    return pks_lane_f32(pk_##name##_f32(pk_splat_f32(a))); \
  }
#define PKS_BINARY(name)                                                    \
  static inline float pks_##name##_f32(float a, float b) {                  \
    return pks_lane_f32(pk_##name##_f32(pk_splat_f32(a), pk_splat_f32(b))); \
  }

/* -- exponentials: 2 to the n times a polynomial in the rest */

/* Adding and subtracting this rounds to the nearest integer n; the low bits of the intermediate sum
 * are those of n. */
#define PK_SHIFTER 0x1.8p23f

/* x = n log 2 + r, n being a multiple of the last place of the shifter. The upper part of log 2 has
 * 9 bits: n times it is exact. */
PK_INLINE pk_f32v pk_exp_split(pk_f32v x, float shifter, pk_f32v *shifted, pk_f32v *n) {
  *shifted = PK_FMA(x, PK_F32(1.44269504f), PK_F32(shifter));
  *n = pk_sub_f32(*shifted, PK_F32(shifter));
  return PK_FMA(*n, PK_F32(2.12194440e-4f), PK_FMA(*n, PK_F32(-0.693359375f), x));
}
#define PK_EXP2_POLYNOMIAL(r)                                                         \
  PK_POLYNOMIAL(r, 1.535325981e-4f, 1.33990035e-3f, 9.618438594e-3f, 5.550332163e-2f, \
                2.40226479e-1f, 6.93147203e-1f, 1)
/* From this operand on, results round to 0. Products that are subnormal or underflow take some 90
 * ns, and masks produce many such x. 2^-150 is exp(-103.97208). */
#define PK_EXP_VANISHES (-103.98f)
#define PK_EXP2_VANISHES (-150.0f)

#if PK_PART_BYTES == 64
PK_INLINE pk_f32v pk_exp2_f32(pk_f32v x) {
  pk_f32v r = pk_fraction_f32(x);
  pk_mask some = pk_not_mask(pk_lt_f32(x, PK_F32(PK_EXP2_VANISHES)));
  return pk_scale_where_f32(some, PK_EXP2_POLYNOMIAL(r), pk_sub_f32(x, r));
}

/* exp(x) is the result times 2 to the integer below n, which counts sixteenths: their powers come
 * from a table. */
PK_INLINE pk_f32v pk_exp_parts(pk_f32v x, pk_f32v *n) {
  const pk_f32v powers = {1,
                          1.044273782f,
                          1.090507733f,
                          1.138788635f,
                          1.189207115f,
                          1.241857812f,
                          1.296839555f,
                          1.354255547f,
                          1.414213562f,
                          1.476826146f,
                          1.542210825f,
                          1.610490332f,
                          1.681792831f,
                          1.75625216f,
                          1.834008086f,
                          1.915206561f};
  pk_f32v shifted, r = pk_exp_split(x, 0x1.8p19f, &shifted, n);
  pk_f32v power = pk_look_up_f32(pk_bitcast_f32_i32(shifted), powers),
          p = PK_POLYNOMIAL(r, 1.666666667e-1f, 0.5f, 1);
  return PK_FMA(p, pk_mul_f32(power, r), power);
}
PK_INLINE pk_f32v pk_exp_f32(pk_f32v x) {
  pk_mask some = pk_not_mask(pk_lt_f32(x, PK_F32(PK_EXP_VANISHES)));
  pk_f32v n, p = pk_exp_parts(pk_min_fast_f32(PK_F32(89), x), &n);
  return pk_scale_where_f32(some, p, n);
}
/* exp(x) for x that is at most 0, or a NaN. */
PK_INLINE pk_f32v pk_exp_below_f32(pk_f32v x) {
  pk_mask some = pk_not_mask(pk_lt_f32(x, PK_F32(PK_EXP_VANISHES)));
  pk_f32v n, p = pk_exp_parts(x, &n);
  return pk_scale_where_f32(some, p, n);
}
/* For |x| up to 80, or NaN. */
PK_INLINE pk_f32v pk_exp_moderate_f32(pk_f32v x) {
  pk_f32v n, p = pk_exp_parts(x, &n);
  return pk_scale_f32(p, n);
}
#else

PK_INLINE pk_f32v pk_exp2_f32(pk_f32v x) {
  pk_mask vanishes = pk_lt_f32(x, PK_F32(PK_EXP2_VANISHES));
  x = pk_select_f32(vanishes, PK_F32(0), pk_min_fast_f32(PK_F32(129), x));
  pk_f32v shifted = pk_add_f32(x, PK_F32(PK_SHIFTER)),
          r = pk_sub_f32(x, pk_sub_f32(shifted, PK_F32(PK_SHIFTER)));
  return pk_select_f32(vanishes, PK_F32(0), pk_scale_shifted_f32(PK_EXP2_POLYNOMIAL(r), shifted));
}

/* exp(x) is the result times 2 to the n, where n is in the low bits of *shifted. */
PK_INLINE pk_f32v pk_exp_parts(pk_f32v x, pk_f32v *shifted) {
  pk_f32v n, r = pk_exp_split(x, PK_SHIFTER, shifted, &n);
  pk_f32v p = PK_POLYNOMIAL(r, 1.381432094e-3f, 8.368851059e-3f, 4.166840108e-2f, 1.666651952e-1f,
                            4.999999337e-1f);
#if PK_HAS_FMA
  return PK_FMA(PK_FMA(p, r, PK_F32(1)), r, PK_F32(1));
#else
  return pk_add_f32(PK_FMA(p, pk_mul_f32(r, r), r), PK_F32(1));
#endif
}
/* exp(x) for x that is at most 89, or a NaN. */
PK_INLINE pk_f32v pk_exp_below_f32(pk_f32v x) {
  pk_mask vanishes = pk_lt_f32(x, PK_F32(PK_EXP_VANISHES));
  pk_f32v shifted, p = pk_exp_parts(pk_select_f32(vanishes, PK_F32(0), x), &shifted);
  return pk_select_f32(vanishes, PK_F32(0), pk_scale_shifted_f32(p, shifted));
}
PK_INLINE pk_f32v pk_exp_f32(pk_f32v x) { return pk_exp_below_f32(pk_min_fast_f32(PK_F32(89), x)); }
/* For |x| up to 80; the result for a NaN is unspecified. */
PK_INLINE pk_f32v pk_exp_moderate_f32(pk_f32v x) {
  pk_f32v shifted, p = pk_exp_parts(x, &shifted);
  return pk_bitcast_i32_f32(
      pk_add_i32(pk_bitcast_f32_i32(p), pk_shift_left(pk_bitcast_f32_i32(shifted), 23)));
}
#endif

/* 2 (2^(n - 1) (1 + p) - 1/2): 2^128 is not needed. */
PK_INLINE pk_f32v pk_expm1_f32(pk_f32v x) {
  pk_f32v shifted, n, r = pk_exp_split(pk_within_f32(x, -20, 89), PK_SHIFTER, &shifted, &n);
  pk_f32v p =
      PK_POLYNOMIAL(r, 1.387189608e-3f, 8.370416239e-3f, 4.166688398e-2f, 1.666648835e-1f, 0.5f);
  p = PK_FMA(p, pk_mul_f32(r, r), r);
  pk_i32v exponent = pk_add_constant(pk_bitcast_f32_i32(shifted), 126 - 0x4b400000);
  pk_f32v half = pk_bitcast_i32_f32(pk_shift_left(exponent, 23));
  pk_f32v y = PK_FMA(half, p, pk_sub_f32(half, PK_F32(0.5f)));
  return pk_select_f32(pk_ge_f32(pk_abs_f32(x), PK_F32(0x1p-25f)), pk_add_f32(y, y), x);
}

/* 1 - 2 / (exp(2 |x|) + 1); near 0, and for a NaN, an odd polynomial. */
PK_INLINE pk_f32v pk_tanh_f32(pk_f32v x) {
  pk_f32v size = pk_abs_f32(x), s = pk_mul_f32(x, x), one = PK_F32(1);
  pk_f32v e = pk_exp_moderate_f32(pk_min_fast_f32(pk_add_f32(size, size), PK_F32(20)));
  pk_f32v large = PK_FMA(pk_reciprocal_fast_f32(pk_add_f32(e, one)), PK_F32(-2), one);
  pk_f32v p = PK_POLYNOMIAL(s, -6.299535877e-3f, 2.108899729e-2f, -5.385637632e-2f, 1.333262355e-1f,
                            -3.333331862e-1f);
  return pk_with_sign_f32(
      pk_select_f32(pk_ge_f32(size, PK_F32(0.57f)), large, PK_FMA(pk_mul_f32(p, s), x, x)), x);
}

/* exp(-|x|), which never overflows. */
PK_INLINE pk_f32v pk_exp_minus_size_f32(pk_f32v x) {
  return pk_exp_below_f32(
      pk_bitcast_i32_f32(pk_or_i32(pk_bitcast_f32_i32(x), pk_splat_i32(INT32_MIN))));
}

/* With e = exp(-|x|): 1 / (1 + e) or e / (1 + e). */
PK_INLINE pk_f32v pk_logistic_f32(pk_f32v x) {
  pk_f32v e = pk_exp_minus_size_f32(x);
  pk_mask negative = pk_lt_f32(x, PK_F32(0));
#if PK_PART_BYTES == 64
  pk_f32v q = pk_reciprocal_of_sum_f32(e);
  return pk_select_f32(negative, pk_mul_f32(q, e), q);
#else
  pk_f32v one = PK_F32(1);
  return pk_div_f32(pk_select_f32(negative, e, one), pk_add_f32(one, e));
#endif
}

/* x + x P(x^2) near 0 and for a NaN, otherwise 1 - exp(-Q(|x|)). */
PK_INLINE pk_f32v pk_erf_f32(pk_f32v x) {
  pk_f32v size = pk_abs_f32(x), s = pk_mul_f32(x, x), t = pk_min_fast_f32(PK_F32(4), size);
  pk_f32v p = PK_POLYNOMIAL(s, 8.345228776e-5f, -8.137438551e-4f, 5.2006344e-3f, -2.685927083e-2f,
                            1.128369394e-1f, -3.76126337e-1f, 1.283791666e-1f);
  pk_f32v q = PK_POLYNOMIAL(t, 1.123129675e-5f, -3.228037243e-4f, 3.642458369e-3f, -2.376206135e-2f,
                            1.062368757e-1f, 6.351513176e-1f, 1.2864849e-1f);
  pk_f32v large = pk_sub_f32(PK_F32(1), pk_exp_moderate_f32(pk_neg_f32(PK_FMA(q, t, t))));
  return pk_select_f32(pk_ge_f32(size, PK_F32(0.925f)), pk_with_sign_f32(large, x),
                       PK_FMA(p, x, x));
}

/* The angle from 0, from pi/4 between 2/3 and 3/2, and from pi/2 beyond, which is that of a number
 * u below 2/3. The polynomial is the minimax of (atan(u) - u) / u^3. The rounding error of the sum
 * of both angles is added last. */
PK_INLINE pk_f32v pk_atan_f32(pk_f32v x) {
  const pk_f32v size = pk_abs_f32(x), one = PK_F32(1), zero = PK_F32(0);
  const pk_mask above = pk_gt_f32(size, PK_F32(2.0f / 3)), steep = pk_gt_f32(size, PK_F32(1.5f));
#define PK_BY_SIZE(low, middle, high) pk_select_f32(steep, high, pk_select_f32(above, middle, low))
  const pk_f32v u = pk_div_f32(PK_BY_SIZE(size, pk_sub_f32(size, one), PK_F32(-1)),
                               PK_BY_SIZE(one, pk_add_f32(size, one), size)),
                base = PK_BY_SIZE(zero, PK_F32(0.785398185f), PK_F32(1.57079637f)),
                rest = PK_BY_SIZE(zero, PK_F32(-2.18556941e-8f), PK_F32(-4.37113883e-8f));
#undef PK_BY_SIZE
  const pk_f32v z = pk_mul_f32(u, u);
  const pk_f32v p = PK_POLYNOMIAL(z, 2.434692532e-2f, -6.673026085e-2f, 1.048805118e-1f,
                                  -1.419996917e-1f, 1.999442577e-1f, -3.333321214e-1f);
  const pk_f32v low = PK_FMA(pk_mul_f32(u, z), p, rest), sum = pk_add_f32(base, u),
                lost = pk_add_f32(pk_sub_f32(base, sum), u);
  return pk_with_sign_f32(pk_add_f32(sum, pk_add_f32(lost, low)), x);
}

/* -- logarithms: x = 2^e m with m within [sqrt 1/2, sqrt 2] */

PK_INLINE pk_f32v pk_log_split(pk_f32v x, pk_f32v *e) {
  pk_mask small = pk_lt_f32(x, PK_F32(0x1p-126f));
  pk_i32v bits = pk_bitcast_f32_i32(pk_select_f32(small, pk_mul_f32(x, PK_F32(0x1p23f)), x));
  pk_i32v exponent = pk_shift_right(pk_add_constant(bits, -0x3f3504f3), 23);
  pk_f32v m = pk_bitcast_i32_f32(pk_sub_i32(bits, pk_shift_left(exponent, 23)));
  *e = pk_sub_f32(pk_cast_i32_f32(exponent), pk_select_f32(small, PK_F32(23), PK_F32(0)));
  return m;
}
/* Corrects a logarithm y if x is not a positive number. */
PK_INLINE pk_f32v pk_log_special(pk_f32v y, pk_f32v x) {
  y = pk_select_f32(pk_lt_f32(x, PK_F32(__builtin_inff())), y, x);
  y = pk_select_f32(pk_eq_f32(x, PK_F32(0)), PK_F32(-__builtin_inff()), y);
  return pk_select_f32(pk_lt_f32(x, PK_F32(0)), PK_F32(__builtin_nanf("")), y);
}
/* e log 2 + correction + log(1 + f). */
PK_INLINE pk_f32v pk_log_sum(pk_f32v e, pk_f32v correction, pk_f32v f) {
  pk_f32v p = PK_POLYNOMIAL(f, 6.915535423e-2f, -1.178986368e-1f, 1.187292738e-1f, -1.238433546e-1f,
                            1.421866371e-1f, -1.66692518e-1f, 2.000222632e-1f, -2.499998658e-1f,
                            3.333331045e-1f);
  pk_f32v s = pk_mul_f32(f, f), low = PK_FMA(e, PK_F32(-2.12194440e-4f), correction);
  low = PK_FMA(pk_mul_f32(p, f), s, low);
  low = PK_FMA(s, PK_F32(-0.5f), low);
  return PK_FMA(e, PK_F32(0.693359375f), pk_add_f32(f, low));
}
PK_INLINE pk_f32v pk_log_f32(pk_f32v x) {
  pk_f32v e, m = pk_log_split(x, &e);
  return pk_log_special(pk_log_sum(e, PK_F32(0), pk_sub_f32(m, PK_F32(1))), x);
}
/* 1 + x loses digits of x; the correction restores them. */
PK_INLINE pk_f32v pk_log1p_f32(pk_f32v x) {
  pk_f32v one = PK_F32(1), zero = PK_F32(0), u = pk_add_f32(one, x), e, m = pk_log_split(u, &e);
  pk_f32v lost = pk_select_f32(pk_gt_f32(x, one), pk_sub_f32(one, pk_sub_f32(u, x)),
                               pk_sub_f32(x, pk_sub_f32(u, one)));
  pk_mask near = pk_eq_f32(e, zero);
  pk_f32v f = pk_select_f32(near, x, pk_sub_f32(m, one));
  pk_f32v correction =
      pk_select_f32(pk_or_mask(near, pk_gt_f32(x, PK_F32(0x1p24f))), zero, pk_div_f32(lost, u));
  pk_f32v y = pk_log_special(pk_log_sum(e, correction, f), u);
  return pk_select_f32(pk_lt_f32(pk_abs_f32(x), PK_F32(0x1p-25f)), x, y);
}
/* log(1 + exp(x)) is x + log(1 + exp(-x)). */
PK_INLINE pk_f32v pk_softplus_f32(pk_f32v x) {
  return pk_add_f32(pk_max_fast_f32(PK_F32(0), x), pk_log1p_f32(pk_exp_minus_size_f32(x)));
}
/* -softplus(-x): a result that rounds to 0 is -0. */
PK_INLINE pk_f32v pk_log_sigmoid_f32(pk_f32v x) {
  return pk_sub_f32(pk_min_fast_f32(PK_F32(-0.0f), x), pk_log1p_f32(pk_exp_minus_size_f32(x)));
}
/* f / log 2 in two parts, the greater of which is exact: both factors have 12 bits. */
PK_INLINE pk_f32v pk_log2_f32(pk_f32v x) {
  pk_f32v e, f = pk_sub_f32(pk_log_split(x, &e), PK_F32(1));
  pk_f32v p = PK_POLYNOMIAL(f, 9.977079299e-2f, -1.700927106e-1f, 1.712902568e-1f, -1.786679953e-1f,
                            2.05131913e-1f, -2.404864848e-1f, 2.885711303e-1f, -3.60673566e-1f,
                            4.808980167e-1f, -7.213475205e-1f);
  pk_f32v upper = pk_bitcast_i32_f32(pk_and_constant(pk_bitcast_f32_i32(f), -0x1000)),
          high = pk_mul_f32(upper, PK_F32(1.4423828125f));
  pk_f32v low = pk_mul_f32(pk_sub_f32(f, upper), PK_F32(1.4423828125f));
  low = PK_FMA(f, PK_F32(3.12228460e-4f), low);
  low = PK_FMA(p, pk_mul_f32(f, f), low);
  return pk_log_special(pk_add_f32(e, pk_add_f32(high, low)), x);
}

/* -- in double, lane by lane, if f32 alone would lose digits. Without branches, so that compilers
 * vectorise the loops.
 */

PK_INLINE void pk_spill_f32(float *to, pk_f32v v) { pk_store_raw32(to, pk_bitcast_f32_i32(v)); }
PK_INLINE pk_f32v pk_fill_f32(const float *from) { return pk_bitcast_i32_f32(pk_load_raw32(from)); }

/* Replaces the lanes of m by f(a, b) of libm. */
static inline pk_f32v pk_exact_lanes(pk_f32v y, pk_mask m, pk_f32v a, pk_f32v b,
                                     double (*f)(double, double)) {
  float x1[PK_LANES], x2[PK_LANES], r[PK_LANES];
  pk_spill_f32(x1, a);
  pk_spill_f32(x2, b);
  pk_spill_f32(r, y);
  uint32_t bits = pk_mask_bits(m);
  for (int k = 0; k < PK_LANES; k++)
    if (bits >> k & 1) r[k] = (float)f((double)x1[k], (double)x2[k]);
  return pk_fill_f32(r);
}
static inline double pk_exact_sin(double a, double b) { return (void)b, __builtin_sin(a); }
static inline double pk_exact_cos(double a, double b) { return (void)b, __builtin_cos(a); }
static inline double pk_exact_tan(double a, double b) { return (void)b, __builtin_tan(a); }
static inline double pk_exact_pow(double a, double b) { return __builtin_pow(a, b); }

/* Beyond this the number of quadrants has too many bits for the reduction, and libm computes the
 * result. */
#define PK_ANGLE_LIMIT 0x1p20f
/* Reduces x = q pi/2 + r for |x| up to the limit. The first part of pi/2 has 33 bits, so that its
 * product with q is exact. The low bits of *shifted are those of q. */
PK_INLINE pk_f64p pk_angle_rest(pk_f64p x, pk_f64p *shifted) {
  *shifted = pk_muladd_part(x, pk_constant_part(0.63661977236758138), pk_constant_part(0x1.8p52));
  const pk_f64p q = *shifted - 0x1.8p52;
  return pk_muladd_part(q, pk_constant_part(-6.0771005065061922e-11),
                        pk_muladd_part(q, pk_constant_part(-1.5707963267341256), x));
}
PK_INLINE pk_mask pk_angle_large(pk_f32v x) {
  return pk_not_mask(pk_le_f32(pk_abs_f32(x), PK_F32(PK_ANGLE_LIMIT)));
}

/* sin(q pi/2 + r) for r within half a quadrant. */
PK_INLINE pk_f32v pk_sine_of_rest(pk_f32v r, pk_i32v q) {
  pk_f32v s = pk_mul_f32(r, r);
  pk_f32v sine =
      PK_POLYNOMIAL(s, 2.718237294e-6f, -1.983932714e-4f, 8.333329362e-3f, -1.666666664e-1f);
  sine = PK_FMA(pk_mul_f32(sine, s), r, r);
  pk_f32v cosine = PK_POLYNOMIAL(s, 2.443241353e-5f, -1.388730987e-3f, 4.166664555e-2f);
  cosine = PK_FMA(cosine, pk_mul_f32(s, s), PK_FMA(s, PK_F32(-0.5f), PK_F32(1)));
  pk_f32v y = pk_select_f32(pk_ne_i32(pk_and_constant(q, 1), pk_splat_i32(0)), cosine, sine);
  return pk_bitcast_i32_f32(
      pk_xor_i32(pk_bitcast_f32_i32(y), pk_shift_left(pk_and_constant(q, 2), 30)));
}
/* sin(x + turn pi/2). */
static inline pk_f32v pk_sine(pk_f32v x, int32_t turn) {
  x = pk_select_f32(pk_angle_large(x), PK_F32(0), x);
  pk_f32v r;
  pk_i32v quadrant;
  PK_EACH_PART({
    pk_f64p n[2];
    const pk_f64p low = pk_angle_rest(pk_lower_doubles(PK_PART(x, k)), n),
                  high = pk_angle_rest(pk_upper_doubles(PK_PART(x, k)), n + 1);
    PK_PART(r, k) = pk_rounded_part(low, high);
    PK_PART(quadrant, k) = PK_EVEN_LANES((pk_i32p)n[0], (pk_i32p)n[1]);
  })
  return pk_sine_of_rest(r, pk_add_constant(quadrant, turn));
}
static inline pk_f32v pk_sin_f32(pk_f32v x) {
  pk_mask large = pk_angle_large(x), zero = pk_eq_f32(x, PK_F32(0));
  pk_f32v y = pk_select_f32(zero, x, pk_sine(x, 0));
  return pk_any(large) ? pk_exact_lanes(y, large, x, x, pk_exact_sin) : y;
}
static inline pk_f32v pk_cos_f32(pk_f32v x) {
  pk_mask large = pk_angle_large(x);
  pk_f32v y = pk_sine(x, 1);
  return pk_any(large) ? pk_exact_lanes(y, large, x, x, pk_exact_cos) : y;
}

/* -- in vectors of doubles: both halves of each part are widened, and rounded at the end */

/* vector name(v) of part(pk_f64p), and name(v, w) of part(pk_f64p, pk_f64p). */
#define PK_BY_DOUBLES(name, part)                                                         \
  static inline pk_f32v name(pk_f32v v) {                                                 \
    PK_EACH_PART(PK_PART(v, k) = pk_rounded_part(part(pk_lower_doubles(PK_PART(v, k))),   \
                                                 part(pk_upper_doubles(PK_PART(v, k))));) \
    return v;                                                                             \
  }
#define PK_PAIR_BY_DOUBLES(name, part)                                                         \
  static inline pk_f32v name(pk_f32v v, pk_f32v w) {                                           \
    PK_EACH_PART(PK_PART(v, k) = pk_rounded_part(                                              \
                     part(pk_lower_doubles(PK_PART(v, k)), pk_lower_doubles(PK_PART(w, k))),   \
                     part(pk_upper_doubles(PK_PART(v, k)), pk_upper_doubles(PK_PART(w, k))));) \
    return v;                                                                                  \
  }

/* log2 of positive floats, to 1e-12: with s = (m - 1) / (m + 1), twice s + s^3 / 3 + .. */
PK_INLINE pk_f64p pk_log2_part(pk_f64p x) {
  pk_f64p e, m = pk_split_part(x, &e), s = pk_near_quotient_part(m - 1, m + 1), z = s * s;
  pk_f64p p = z * PK_HORNER(z, 0.1004586530511906, 0.11069182668504196, 0.14286531905409707,
                            0.19999993219563076, 0.33333333350630764);
  return pk_muladd_part(pk_muladd_part(s, p, s), pk_constant_part(2.8853900817779268), e);
}
/* 2 to the t, to 5e-11, for |t| up to 1000. */
PK_INLINE pk_f64p pk_exp2_part(pk_f64p t) {
  pk_f64p shifted = t + 0x1.8p52, r = (t - (shifted - 0x1.8p52)) * 0.69314718055994531;
  pk_f64p p = PK_HORNER(r, 0.00019775167735957377, 0.0013948196112702963, 0.0083335611670991158,
                        0.041666225236305514, 0.16666665125272307, 0.50000001046009966,
                        1.0000000002432706, 0.99999999996165811);
  return p * (pk_f64p)(((pk_u64p)shifted + 1023) << 52);
}
/* a to the b for positive finite a and finite b; floats end long before 2^400. */
PK_INLINE pk_f64p pk_pow_part(pk_f64p a, pk_f64p b) {
  const pk_f64p t = b * pk_log2_part(a), most = pk_constant_part(400);
  return pk_exp2_part(PK_PICK(t > most, most, PK_PICK(t < -most, -most, t)));
}
PK_PAIR_BY_DOUBLES(pk_pow_positive, pk_pow_part)
/* A negative a requires an integer b; if b is odd, the result is negative. */
static inline pk_f32v pk_pow_f32(pk_f32v a, pk_f32v b) {
  pk_f32v one = PK_F32(1), half = pk_mul_f32(b, PK_F32(0.5f));
  pk_mask finite = pk_and_mask(pk_isfinite_f32(a), pk_isfinite_f32(b));
  pk_mask special = pk_not_mask(pk_and_mask(finite, pk_ne_f32(a, PK_F32(0))));
  pk_f32v size =
      pk_pow_positive(pk_select_f32(special, one, pk_abs_f32(a)), pk_select_f32(special, one, b));
  pk_mask whole = pk_eq_f32(pk_trunc_f32(b), b),
          odd = pk_and_mask(whole, pk_ne_f32(pk_trunc_f32(half), half));
  pk_f32v negative =
      pk_select_f32(odd, pk_neg_f32(size), pk_select_f32(whole, size, PK_F32(__builtin_nanf(""))));
  pk_f32v r = pk_select_f32(pk_lt_f32(a, PK_F32(0)), negative, size);
  return pk_any(special) ? pk_exact_lanes(r, special, a, b, pk_exact_pow) : r;
}

#endif
