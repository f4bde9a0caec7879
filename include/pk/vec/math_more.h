/* vec/math_more.h: the rarer functions of f32, in vectors of doubles, whose digits to spare bring
 * each within 0.51 units in the last place. Included by vec.h only. docs/numerics.md states the
 * errors, tests/unit/test_math.c measures them. */
#ifndef PK_VEC_MATH_MORE_H
#define PK_VEC_MATH_MORE_H

#define PK_LOG2_E 1.4426950408889634
#define PK_LN_2 0.69314718055994531
#define PK_PI 3.1415926535897931

PK_INLINE pk_f64p pk_pick_part(pk_u64p m, pk_f64p a, pk_f64p b) {
  return (pk_f64p)((m & (pk_u64p)a) | (~m & (pk_u64p)b));
}
PK_INLINE pk_f64p pk_size_part(pk_f64p x) { return (pk_f64p)((pk_u64p)x << 1 >> 1); }
PK_INLINE pk_f64p pk_signed_part(pk_f64p size, pk_f64p x) {
  return (pk_f64p)((pk_u64p)size | ((pk_u64p)x >> 63 << 63));
}
PK_INLINE pk_f64p pk_sqrt_part(pk_f64p x) {
  for (int k = 0; k < PK_PART_LANES / 2; k++) x[k] = __builtin_sqrt(x[k]);
  return x;
}
#define PK_POLYNOMIAL_PART(x, ...)                     \
  pk_polynomial_part(x, (const double[]){__VA_ARGS__}, \
                     (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))
PK_INLINE pk_f64p pk_polynomial_part(pk_f64p x, const double *c, int count) {
  pk_f64p p = (x - x) + c[0];
  PK_UNROLL for (int k = 1; k < count; k++) p = p * x + c[k];
  return p;
}

/* pk_NAME_f32 of pk_NAME_part, which sees x between least and most; `special` makes it y. A NaN
 * gives a NaN. And pks_NAME_f32, of one element. */
#define PK_IN_DOUBLE(name, least, most, special)                      \
  static inline pk_f32v pk_##name##_f32(pk_f32v x) {                  \
    float in[PK_LANES];                                               \
    double wide[PK_LANES];                                            \
    pk_spill_f32(in, pk_within_f32(x, least, most));                  \
    for (int k = 0; k < PK_LANES; k++) wide[k] = (double)in[k];       \
    PK_UNROLL for (int k = 0; k < PK_LANES; k += PK_PART_LANES / 2) { \
      pk_f64p p;                                                      \
      __builtin_memcpy(&p, wide + k, sizeof p);                       \
      p = pk_##name##_part(p);                                        \
      __builtin_memcpy(wide + k, &p, sizeof p);                       \
    }                                                                 \
    for (int k = 0; k < PK_LANES; k++) in[k] = (float)wide[k];        \
    pk_f32v y = pk_fill_f32(in);                                      \
    return pk_select_f32(pk_isnan_f32(x), x, special);                \
  }                                                                   \
  PKS_UNARY(name)
/* The same of two operands, of any values; a NaN in either gives a NaN, before `special`. */
#define PK_PAIR_IN_DOUBLE(name, special)                              \
  static inline pk_f32v pk_##name##_f32(pk_f32v a, pk_f32v b) {       \
    float in[2][PK_LANES];                                            \
    double wide[2][PK_LANES];                                         \
    pk_spill_f32(in[0], a);                                           \
    pk_spill_f32(in[1], b);                                           \
    for (int k = 0; k < PK_LANES; k++) wide[0][k] = (double)in[0][k]; \
    for (int k = 0; k < PK_LANES; k++) wide[1][k] = (double)in[1][k]; \
    PK_UNROLL for (int k = 0; k < PK_LANES; k += PK_PART_LANES / 2) { \
      pk_f64p p, q;                                                   \
      __builtin_memcpy(&p, wide[0] + k, sizeof p);                    \
      __builtin_memcpy(&q, wide[1] + k, sizeof q);                    \
      p = pk_##name##_part(p, q);                                     \
      __builtin_memcpy(wide[0] + k, &p, sizeof p);                    \
    }                                                                 \
    for (int k = 0; k < PK_LANES; k++) in[0][k] = (float)wide[0][k];  \
    pk_f32v y = pk_fill_f32(in[0]);                                   \
    return special;                                                   \
  }                                                                   \
  PKS_BINARY(name)
#define PK_SPECIAL(condition, value) pk_select_f32(condition, value, y)
#define PK_KEEP_INF PK_SPECIAL(pk_isinf_f32(x), x)
#define PK_SIZE_ABOVE(bound) pk_gt_f32(pk_abs_f32(x), PK_F32(bound))
#define PK_LARGEST 0x1.fffffep127f
#define PK_NEAR_ONE 0.99999994f

/* -- hyperbolic functions and others of exponentials; where the formula would cancel, a series */

PK_INLINE pk_f64p pk_sinh_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x, e = pk_exp2_part(size * PK_LOG2_E);
  pk_f64p near =
      size + size * z * PK_POLYNOMIAL_PART(z, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6);
  return pk_signed_part(pk_pick_part((pk_u64p)(size < 0.25), near, (e - 1 / e) * 0.5), x);
}
PK_INLINE pk_f64p pk_cosh_part(pk_f64p x) {
  pk_f64p e = pk_exp2_part(x * PK_LOG2_E);
  return (e + 1 / e) * 0.5;
}
PK_INLINE pk_f64p pk_asinh_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x;
  pk_f64p near = size + size * z * PK_POLYNOMIAL_PART(z, -15.0 / 336, 3.0 / 40, -1.0 / 6);
  pk_f64p far = pk_log2_part(size + pk_sqrt_part(z + 1)) * PK_LN_2;
  return pk_signed_part(pk_pick_part((pk_u64p)(size < 0.02), near, far), x);
}
PK_INLINE pk_f64p pk_acosh_part(pk_f64p x) {
  return pk_log2_part(x + pk_sqrt_part((x - 1) * (x + 1))) * PK_LN_2;
}
PK_INLINE pk_f64p pk_atanh_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x;
  pk_f64p near = size + size * z * PK_POLYNOMIAL_PART(z, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  pk_f64p far = pk_log2_part((1 + size) / (1 - size)) * (0.5 * PK_LN_2);
  return pk_signed_part(pk_pick_part((pk_u64p)(size < 0.02), near, far), x);
}
PK_INLINE pk_f64p pk_log10_part(pk_f64p x) { return pk_log2_part(x) * 0.30102999566398120; }
PK_INLINE pk_f64p pk_exp10_part(pk_f64p x) { return pk_exp2_part(x * 3.3219280948873623); }
PK_INLINE pk_f64p pk_cbrt_part(pk_f64p x) {
  return pk_signed_part(pk_exp2_part(pk_log2_part(pk_size_part(x)) * (1.0 / 3)), x);
}
PK_IN_DOUBLE(sinh, -100, 100, y)
PK_IN_DOUBLE(cosh, -100, 100, y)
PK_IN_DOUBLE(asinh, -PK_LARGEST, PK_LARGEST, PK_KEEP_INF)
/* Between the ends of its domain; NaN outside, an infinity at one. */
PK_IN_DOUBLE(acosh, 1, PK_LARGEST,
             pk_select_f32(pk_lt_f32(x, PK_F32(1)), PK_F32(__builtin_nanf("")), PK_KEEP_INF))
#define PK_INF_AT_ONE \
  PK_SPECIAL(pk_eq_f32(pk_abs_f32(x), PK_F32(1)), pk_with_sign_f32(PK_F32(__builtin_inff()), x))
#define PK_NAN_ABOVE_ONE(value) pk_select_f32(PK_SIZE_ABOVE(1), PK_F32(__builtin_nanf("")), value)
PK_IN_DOUBLE(atanh, -PK_NEAR_ONE, PK_NEAR_ONE, PK_NAN_ABOVE_ONE(PK_INF_AT_ONE))
PK_IN_DOUBLE(log10, 0x1p-149f, PK_LARGEST, pk_log_special(y, x))
PK_IN_DOUBLE(exp10, -50, 50, y)
/* Squares of floats neither overflow nor round in double. */
PK_INLINE pk_f64p pk_hypot_part(pk_f64p a, pk_f64p b) { return pk_sqrt_part(a * a + b * b); }
PK_PAIR_IN_DOUBLE(hypot, PK_SPECIAL(pk_or_mask(pk_isinf_f32(a), pk_isinf_f32(b)),
                                    PK_F32(__builtin_inff())))
PK_IN_DOUBLE(cbrt, -PK_LARGEST, PK_LARGEST,
             PK_SPECIAL(pk_or_mask(pk_isinf_f32(x), pk_eq_f32(x, PK_F32(0))), x))

/* -- inverse circular functions */

/* The angle of (x, y), both at least 0 and not both 0. */
PK_INLINE pk_f64p pk_angle_part(pk_f64p y, pk_f64p x) {
  pk_u64p steep = (pk_u64p)(y > x);
  pk_f64p t = pk_pick_part(steep, x, y) / pk_pick_part(steep, y, x), zero = t - t;
  pk_u64p far = (pk_u64p)(t > 0.41421356237309503);
  pk_f64p u = pk_pick_part(far, (t - 1) / (t + 1), t), z = u * u;
  pk_f64p p =
      PK_POLYNOMIAL_PART(z, -0.0254753837446682, 0.050376045149092193, -0.065103377947538467,
                         0.076743394299742891, -0.090896176623714176, 0.11111054591318538,
                         -0.14285712879727178, 0.19999999982804829, -0.33333333333260809);
  pk_f64p angle = u + u * z * p + pk_pick_part(far, zero + PK_PI / 4, zero);
  return pk_pick_part(steep, PK_PI / 2 - angle, angle);
}
/* The other leg of a right triangle of hypotenuse 1. */
PK_INLINE pk_f64p pk_leg_part(pk_f64p x) { return pk_sqrt_part((1 - x) * (1 + x)); }
PK_INLINE pk_f64p pk_atan_part(pk_f64p x) {
  return pk_signed_part(pk_angle_part(pk_size_part(x), x - x + 1), x);
}
PK_INLINE pk_f64p pk_asin_part(pk_f64p x) {
  return pk_signed_part(pk_angle_part(pk_size_part(x), pk_leg_part(x)), x);
}
PK_INLINE pk_f64p pk_acos_part(pk_f64p x) {
  pk_f64p angle = pk_angle_part(pk_leg_part(x), pk_size_part(x));
  return pk_pick_part((pk_u64p)(x < 0), PK_PI - angle, angle);
}
PK_IN_DOUBLE(atan, -1e30f, 1e30f, y)
PK_IN_DOUBLE(asin, -1, 1, PK_NAN_ABOVE_ONE(y))
PK_IN_DOUBLE(acos, -1, 1, PK_NAN_ABOVE_ONE(y))

/* -- the error function's kin */

/* Near 0: 1 - erf(x); else exp(-x^2) times a function that varies little, by a polynomial in (x -
 * 2) / (x + 2). */
PK_INLINE pk_f64p pk_erfc_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x, s = (size - 2) / (size + 2);
  pk_f64p near =
      1 - x * PK_POLYNOMIAL_PART(z, 0.00010820186526136346, -0.00085065668431839891,
                                 0.0052232699784278466, -0.026866108773101891, 0.11283791412388679,
                                 -0.37612638899115214, 1.1283791670954073);
  pk_f64p q = PK_POLYNOMIAL_PART(
      s, -2.9536913656277367e-05, 0.00011098688276169038, 0.00022876750647831328,
      -0.0004362082386532263, -0.0014649559364766302, 0.0012672863214629659, 0.0087240897727943554,
      -0.0080335658384239495, -0.054220117379428667, 0.16405125830536851, -0.16603039415516505,
      -0.092763826280343825, 1.2769783815359468);
  pk_f64p tail = pk_exp2_part(z * -PK_LOG2_E) * q / (1 + 2 * size);
  pk_f64p far = pk_pick_part((pk_u64p)(x < 0), 2 - tail, tail);
  return pk_pick_part((pk_u64p)(size < 0.5), near, far);
}
/* x times a polynomial in w = -log(1 - x^2), or in its root. */
PK_INLINE pk_f64p pk_erf_inv_part(pk_f64p x) {
  pk_f64p w = pk_size_part(pk_log2_part((1 - x) * (1 + x)) * PK_LN_2), r = pk_sqrt_part(w);
  pk_f64p near = PK_POLYNOMIAL_PART(
      w, -1.976812025537149e-11, 7.166390618470128e-10, -1.0747014107736342e-08,
      7.9419746844832062e-08, -2.1582224743429326e-07, -6.3262981449557995e-07,
      1.4695740154087723e-06, 4.7144754587941178e-05, -0.00012837444869165691,
      -0.0023349796108614439, 0.01154931878719551, 0.23201366826220221, 0.88622692543172032);
  pk_f64p far = PK_POLYNOMIAL_PART(r, -3.0764157607591161e-05, 0.0010845439711854527,
                                   -0.017098520867234703, 0.15852660125444673, -0.95520510012926185,
                                   3.8965794616504899, -10.846222584139149, 20.17999897923416,
                                   -23.66837448377597, 16.326889889041475, -4.0173245977101626);
  return x * pk_pick_part((pk_u64p)(w < 5), near, far);
}
PK_IN_DOUBLE(erfc, -11, 11, y)
PK_IN_DOUBLE(erf_inv, -PK_NEAR_ONE, PK_NEAR_ONE, PK_NAN_ABOVE_ONE(PK_INF_AT_ONE))

#endif
