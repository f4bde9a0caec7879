/* vec/math_more.h: the less common functions of f32, computed in vectors of doubles, so that each
 * is within 0.51 units in the last place. Included by vec.h only. docs/numerics.md states the
 * errors, tests/unit/test_math.c measures them. */
#ifndef PK_VEC_MATH_MORE_H
#define PK_VEC_MATH_MORE_H

#define PK_LOG2_E 1.4426950408889634
#define PK_LN_2 0.69314718055994531
#define PK_PI 3.1415926535897931

/* Defines pk_NAME_f32, and pks_NAME_f32 for one element, by pk_NAME_part, which receives x clamped
 * to [least, most]; `special` corrects its result y. A NaN gives a NaN. */
#define PK_IN_DOUBLE(name, least, most, special)                          \
  PK_BY_DOUBLES(pk_##name##_doubles, pk_##name##_part)                    \
  static inline pk_f32v pk_##name##_f32(pk_f32v x) {                      \
    const pk_f32v y = pk_##name##_doubles(pk_within_f32(x, least, most)); \
    return pk_select_f32(pk_isnan_f32(x), x, special);                    \
  }                                                                       \
  PKS_UNARY(name)
/* The same for two operands with any values; a NaN in either gives a NaN, before `special` is
 * applied. */
#define PK_PAIR_IN_DOUBLE(name, special)                        \
  PK_PAIR_BY_DOUBLES(pk_##name##_doubles, pk_##name##_part)     \
  static inline pk_f32v pk_##name##_f32(pk_f32v a, pk_f32v b) { \
    const pk_f32v y = pk_##name##_doubles(a, b);                \
    return special;                                             \
  }                                                             \
  PKS_BINARY(name)
#define PK_SPECIAL(condition, value) pk_select_f32(condition, value, y)
#define PK_KEEP_INF PK_SPECIAL(pk_isinf_f32(x), x)
#define PK_SIZE_ABOVE(bound) pk_gt_f32(pk_abs_f32(x), PK_F32(bound))
#define PK_LARGEST 0x1.fffffep127f
#define PK_NEAR_ONE 0.99999994f

/* -- hyperbolic functions and others based on exponentials; a series where the formula would
 * cancel */

PK_INLINE pk_f64p pk_sinh_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x, e = pk_exp2_part(size * PK_LOG2_E);
  pk_f64p near = size + size * z * PK_HORNER(z, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6);
  return pk_signed_part(pk_choose_part(pk_above_part(pk_constant_part(0.25), size), near,
                                       (e - pk_near_quotient_part(pk_constant_part(1), e)) * 0.5),
                        x);
}
PK_INLINE pk_f64p pk_cosh_part(pk_f64p x) {
  pk_f64p e = pk_exp2_part(x * PK_LOG2_E);
  return (e + pk_near_quotient_part(pk_constant_part(1), e)) * 0.5;
}
PK_INLINE pk_f64p pk_asinh_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x;
  pk_f64p near = size + size * z * PK_HORNER(z, -15.0 / 336, 3.0 / 40, -1.0 / 6);
  pk_f64p far = pk_log2_part(size + pk_near_root_part(z + 1)) * PK_LN_2;
  return pk_signed_part(pk_choose_part(pk_above_part(pk_constant_part(0.02), size), near, far), x);
}
PK_INLINE pk_f64p pk_acosh_part(pk_f64p x) {
  return pk_log2_part(x + pk_near_root_part((x - 1) * (x + 1))) * PK_LN_2;
}
PK_INLINE pk_f64p pk_atanh_part(pk_f64p x) {
  pk_f64p size = pk_size_part(x), z = x * x;
  pk_f64p near = size + size * z * PK_HORNER(z, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  pk_f64p far = pk_log2_part(pk_near_quotient_part(1 + size, 1 - size)) * (0.5 * PK_LN_2);
  return pk_signed_part(pk_choose_part(pk_above_part(pk_constant_part(0.02), size), near, far), x);
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
PK_INLINE pk_f64p pk_hypot_part(pk_f64p a, pk_f64p b) { return pk_near_root_part(a * a + b * b); }
PK_PAIR_IN_DOUBLE(hypot, PK_SPECIAL(pk_or_mask(pk_isinf_f32(a), pk_isinf_f32(b)),
                                    PK_F32(__builtin_inff())))
PK_IN_DOUBLE(cbrt, -PK_LARGEST, PK_LARGEST,
             PK_SPECIAL(pk_or_mask(pk_isinf_f32(x), pk_eq_f32(x, PK_F32(0))), x))

/* -- inverse circular functions */

/* The angle of (x, y), both at least 0, measured from the axis below pi/8 and from the diagonal
 * beyond. */
PK_INLINE pk_f64p pk_angle_part(pk_f64p y, pk_f64p x) {
  const pk_f64p least = pk_least_part(x, y), most = pk_most_part(x, y), zero = (pk_f64p){0};
  const pk_lanes_f64 steep = pk_above_part(y, x),
                     far = pk_above_part(least, 0.41421356237309503 * most);
  const pk_f64p above = pk_choose_part(far, least - most, least),
                below = pk_most_part(pk_choose_part(far, least + most, most), zero + 1e-300);
  const pk_f64p u = pk_near_quotient_part(above, below), z = u * u;
  const pk_f64p p = PK_HORNER(z, 0.04758240055196691, -0.084837252928309121, 0.11046165659765848,
                              -0.14282142415119835, 0.1999990944024001, -0.33333332577323122);
  const pk_f64p angle = pk_muladd_part(u * z, p, u) + pk_choose_part(far, zero + PK_PI / 4, zero);
  return pk_choose_part(steep, PK_PI / 2 - angle, angle);
}
/* The other leg of a right triangle of hypotenuse 1. */
PK_INLINE pk_f64p pk_leg_part(pk_f64p x) { return pk_near_root_part((1 - x) * (1 + x)); }
PK_INLINE pk_f64p pk_asin_part(pk_f64p x) {
  return pk_signed_part(pk_angle_part(pk_size_part(x), pk_leg_part(x)), x);
}
PK_INLINE pk_f64p pk_acos_part(pk_f64p x) {
  pk_f64p angle = pk_angle_part(pk_leg_part(x), pk_size_part(x));
  return pk_choose_part(pk_above_part((pk_f64p){0}, x), PK_PI - angle, angle);
}
/* In all quadrants. Infinities are represented by numbers far beyond all floats. */
PK_INLINE pk_f64p pk_atan2_part(pk_f64p y, pk_f64p x) {
  const pk_f64p most = pk_constant_part(1e300);
  const pk_f64p angle =
      pk_angle_part(pk_least_part(pk_size_part(y), most), pk_least_part(pk_size_part(x), most));
  return pk_signed_part(pk_pick_part((pk_u64p)((pk_i64p)x < 0), PK_PI - angle, angle), y);
}
PK_PAIR_IN_DOUBLE(atan2,
                  pk_select_f32(pk_or_mask(pk_isnan_f32(a), pk_isnan_f32(b)), pk_add_f32(a, b), y))
PK_IN_DOUBLE(asin, -1, 1, PK_NAN_ABOVE_ONE(y))
PK_IN_DOUBLE(acos, -1, 1, PK_NAN_ABOVE_ONE(y))

/* -- the complementary error function and the inverse */

/* exp(-x^2) times t P(t) with t = 1 / (3 + |x|); 2 minus that where x is negative. */
PK_INLINE pk_f64p pk_erfc_part(pk_f64p x) {
  const pk_f64p t = pk_near_quotient_part(pk_constant_part(1), pk_size_part(x) + 3);
  const pk_f64p p =
      PK_HORNER(t, -14184.08304389285, 31738.392020381438, -28327.342527704386, 12737.474165135918,
                -3527.2458601307485, 867.7382745115564, -37.92939629686034, 41.39502762651174,
                11.96966386964272, 4.8284512550568905, 1.6916895967259042, 0.5642001052729051);
  const pk_f64p tail = pk_exp2_part(x * x * -PK_LOG2_E) * p * t;
  return pk_choose_part(pk_above_part((pk_f64p){0}, x), 2 - tail, tail);
}
/* x times a polynomial in w = -log(1 - x^2), or, within 0.0034 of the ends, in its root. */
PK_INLINE pk_f64p pk_erf_inv_part(pk_f64p x) {
  pk_f64p w = pk_size_part(pk_log2_part((1 - x) * (1 + x)) * PK_LN_2);
  pk_f64p near = PK_HORNER(w, -1.976812025537149e-11, 7.166390618470128e-10,
                           -1.0747014107736342e-08, 7.9419746844832062e-08, -2.1582224743429326e-07,
                           -6.3262981449557995e-07, 1.4695740154087723e-06, 4.7144754587941178e-05,
                           -0.00012837444869165691, -0.0023349796108614439, 0.01154931878719551,
                           0.23201366826220221, 0.88622692543172032);
  const pk_lanes_f64 ends = pk_above_part(w, pk_constant_part(5));
  if (!pk_any_part(ends)) return x * near;
  const pk_f64p r = pk_near_root_part(w),
                far = PK_HORNER(r, -3.0764157607591161e-05, 0.0010845439711854527,
                                -0.017098520867234703, 0.15852660125444673, -0.95520510012926185,
                                3.8965794616504899, -10.846222584139149, 20.17999897923416,
                                -23.66837448377597, 16.326889889041475, -4.0173245977101626);
  return x * pk_choose_part(ends, far, near);
}
PK_IN_DOUBLE(erfc, -11, 11, y)
PK_IN_DOUBLE(erf_inv, -PK_NEAR_ONE, PK_NEAR_ONE, PK_NAN_ABOVE_ONE(PK_INF_AT_ONE))

/* -- the tangent: sin / cos or -cos / sin of the rest, by Taylor's series */

PK_INLINE pk_f64p pk_tan_part(pk_f64p x) {
  pk_f64p q, r = pk_angle_rest(x, &q), s = r * r;
  const pk_f64p high = PK_HORNER(s, -2.50521083854417e-8, 2.75573192239859e-6, -1.98412698412698e-4,
                                 8.33333333333333e-3, -0.166666666666667);
  const pk_f64p cosine = PK_HORNER(s, -2.75573192239859e-7, 2.48015873015873e-5,
                                   -1.38888888888889e-3, 4.16666666666667e-2, -0.5, 1),
                sine = pk_muladd_part(r * s, high, r);
  const pk_u64p odd = 0 - ((pk_u64p)q & 1);
  return pk_near_quotient_part(pk_pick_part(odd, -cosine, sine), pk_pick_part(odd, sine, cosine));
}
PK_BY_DOUBLES(pk_tan_doubles, pk_tan_part)
static inline pk_f32v pk_tan_f32(pk_f32v x) {
  const pk_mask large = pk_angle_large(x);
  const pk_f32v y = pk_tan_doubles(pk_select_f32(large, PK_F32(0), x));
  const pk_f32v r = pk_select_f32(pk_eq_f32(x, PK_F32(0)), x, y);
  return pk_any(large) ? pk_exact_lanes(r, large, x, x, pk_exact_tan) : r;
}

#endif
