/* vec/wide_math.h: functions of f64 in vectors. Included by vec/wide.h only. docs/numerics.md
 * states the errors, tests/f64_functions.py measures them. One element is the first lane of a part,
 * so the bits are the same. */
#ifndef PK_VEC_WIDE_MATH_H
#define PK_VEC_WIDE_MATH_H

PK_INLINE pk_f64p pk_within_part(pk_f64p x, double least, double most) { /* a NaN stays */
  const pk_f64p zero = (pk_f64p){0};
  x = pk_pick_part((pk_u64p)(x > zero + most), zero + most, x);
  return pk_pick_part((pk_u64p)(x < zero + least), zero + least, x);
}
/* a + b = sum + *rest, exactly. */
PK_INLINE pk_f64p pk_two_sum_part(pk_f64p a, pk_f64p b, pk_f64p *rest) {
  const pk_f64p sum = a + b, other = sum - a;
  *rest = (a - (sum - other)) + (b - other);
  return sum;
}
/* x * x = square + *rest, exactly, where it neither overflows nor vanishes. */
PK_INLINE pk_f64p pk_square_part(pk_f64p x, pk_f64p *rest) {
  const pk_f64p square = x * x;
#if PK_WIDE_FMA
  *rest = pk_muladd_part(x, x, -square);
#else
  const pk_f64p big = x * 134217729.0, high = big - (big - x), low = x - high;
  *rest = ((high * high - square) + 2 * high * low) + low * low;
#endif
  return square;
}

/* -- exponentials: 2^n (1 + q), where q is exp(r) - 1 of a small r */

/* Rounds n to the nearest integer, as an f64. */
PK_INLINE pk_i64p pk_nearest_part(pk_f64p t, pk_f64p *n) {
  const pk_f64p shifted = t + 0x1.8p52;
  *n = shifted - 0x1.8p52;
  return (pk_i64p)shifted - (pk_i64p)pk_constant_part(0x1.8p52);
}
PK_INLINE pk_f64p pk_power_of_two_part(pk_i64p n) { return (pk_f64p)((n + 1023) << 52); }
/* x 2^n, rounded once: n is beyond the exponents of normal numbers where the result is too. */
PK_INLINE pk_f64p pk_scale_part(pk_f64p x, pk_i64p n) {
  const pk_i64p half = n >> 1;
  return x * pk_power_of_two_part(half) * pk_power_of_two_part(n - half);
}
/* exp(r + rest) - 1 for |r| < 0.35 and a rest of its last place. */
PK_INLINE pk_f64p pk_small_exp_part(pk_f64p r, pk_f64p rest) {
  const pk_f64p p =
      PK_HORNER(r, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5);
  return r + pk_muladd_part(r * r, p, rest);
}
/* r + rest = x - n ln 2, in two steps. */
PK_INLINE pk_i64p pk_reduce_exp_part(pk_f64p x, pk_f64p *r, pk_f64p *rest) {
  pk_f64p n;
  const pk_i64p whole = pk_nearest_part(x * PK_LOG2_E, &n);
  const pk_f64p high = x - n * 6.93147180369123816490e-01, low = n * 1.90821492927058770002e-10;
  *r = high - low;
  *rest = (high - *r) - low;
  return whole;
}
PK_INLINE pk_f64p pk_wide_exp_part(pk_f64p x) {
  pk_f64p r, rest;
  const pk_i64p n = pk_reduce_exp_part(pk_within_part(x, -746, 710), &r, &rest);
  return pk_scale_part(1 + pk_small_exp_part(r, rest), n);
}
PK_INLINE pk_f64p pk_wide_exp2_part(pk_f64p x) {
  pk_f64p n;
  x = pk_within_part(x, -1076, 1025);
  const pk_i64p whole = pk_nearest_part(x, &n);
  const pk_f64p f = x - n;
  return pk_scale_part(1 + pk_small_exp_part(f * PK_LN_2, f * 2.3190468138462996e-17), whole);
}
/* log10(2) and ln(10) in two parts each. */
PK_INLINE pk_f64p pk_wide_exp10_part(pk_f64p x) {
  pk_f64p n;
  x = pk_within_part(x, -325, 310);
  const pk_i64p whole = pk_nearest_part(x * 3.3219280948873623, &n);
  const pk_f64p f = (x - n * 3.01029995663611771306e-01) - n * 3.69423907715893078616e-13;
  return pk_scale_part(1 + pk_small_exp_part(f * 2.3025850929940457, f * -2.1707562233822494e-16),
                       whole);
}
PK_INLINE pk_f64p pk_wide_expm1_part(pk_f64p x) {
  pk_f64p r, rest;
  const pk_i64p n = pk_reduce_exp_part(pk_within_part(x, -60, 710), &r, &rest);
  const pk_f64p q = pk_small_exp_part(r, rest);
  /* 2^n may overflow although the result does not, so half of it is computed and doubled. */
  const pk_f64p half = pk_power_of_two_part(n - 1);
  const pk_f64p y = 2 * (half * q + (half - 0.5));
  return pk_pick_part((pk_u64p)((n == 0) | (pk_i64p)(x == 0)),
                      pk_pick_part((pk_u64p)(x == 0), x, q), y);
}

/* -- logarithms: x = 2^k (1 + f), f - f^2 / 2 + .. in two parts */

typedef struct {
  pk_f64p k, f, half_square, rest; /* log(1 + f) = f - (half_square - rest) */
} pk_log_parts;
PK_INLINE pk_log_parts pk_split_log_part(pk_f64p x) {
  pk_log_parts l;
  const pk_u64p subnormal = (pk_u64p)(x < 0x1p-1022);
  x = pk_pick_part(subnormal, x * 0x1p54, x);
  /* The exponent such that 1 + f is between the roots of 1/2 and 2. */
  const pk_u64p bits = (pk_u64p)x;
  const pk_i64p whole = (pk_i64p)(bits - 0x3fe6a09e667f3bcd) >> 52;
  const pk_f64p m = (pk_f64p)(bits - ((pk_u64p)whole << 52));
  l.k = (pk_f64p)(whole + (pk_i64p)pk_constant_part(0x1.8p52)) - 0x1.8p52;
  l.k = pk_pick_part(subnormal, l.k - 54, l.k);
  l.f = m - 1;
  const pk_f64p s = l.f / (2 + l.f), z = s * s, w = z * z;
  const pk_f64p odd = w * PK_HORNER(w, 1.531383769920937332e-01, 2.222219843214978396e-01,
                                    3.999999999940941908e-01),
                even = z * PK_HORNER(w, 1.479819860510658591e-01, 1.818357216161805012e-01,
                                     2.857142874366239149e-01, 6.666666666666735130e-01);
  l.half_square = 0.5 * l.f * l.f;
  l.rest = s * (l.half_square + (odd + even));
  return l;
}
/* Corrects the logarithm y of 0, a negative number, an infinity or a NaN. */
PK_INLINE pk_f64p pk_special_log_part(pk_f64p y, pk_f64p x) {
  y = pk_pick_part((pk_u64p)(x == 0), pk_constant_part(-__builtin_inf()), y);
  y = pk_pick_part((pk_u64p)(x < 0), pk_constant_part(__builtin_nan("")), y);
  y = pk_pick_part((pk_u64p)(x == __builtin_inf()), x, y);
  return pk_pick_part((pk_u64p)(x != x), x, y);
}
PK_INLINE pk_f64p pk_log_sum_part(pk_log_parts l, pk_f64p more) {
  const pk_f64p low = l.k * 1.90821492927058770002e-10 + more;
  return l.k * 6.93147180369123816490e-01 - ((l.half_square - (l.rest + low)) - l.f);
}
PK_INLINE pk_f64p pk_wide_log_part(pk_f64p x) {
  return pk_special_log_part(pk_log_sum_part(pk_split_log_part(x), (pk_f64p){0}), x);
}
/* log(u) + lost / u, where u is 1 + x rounded, and `lost` the rounding error. */
PK_INLINE pk_f64p pk_wide_log1p_part(pk_f64p x) {
  pk_f64p lost;
  const pk_f64p u = pk_two_sum_part(x, pk_constant_part(1), &lost);
  const pk_f64p y = pk_log_sum_part(pk_split_log_part(u), lost / u);
  return pk_pick_part((pk_u64p)(pk_size_part(x) < 0x1p-54), x, pk_special_log_part(y, u));
}
/* k unit + log(1 + f) scale, where scale is high + low and high has few bits; unit likewise. */
PK_INLINE pk_f64p pk_scaled_log_part(pk_f64p x, double unit_high, double unit_low, double high,
                                     double low) {
  const pk_log_parts l = pk_split_log_part(x);
  const pk_f64p all = l.f - l.half_square;
  const pk_f64p top = (pk_f64p)((pk_u64p)all >> 32 << 32);
  const pk_f64p rest = (l.f - top) - l.half_square + l.rest, big = top * high;
  pk_f64p carry;
  const pk_f64p sum = pk_two_sum_part(l.k * unit_high, big, &carry);
  const pk_f64p small = carry + (top + rest) * low + rest * high + l.k * unit_low;
  return pk_special_log_part(sum + small, x);
}
PK_INLINE pk_f64p pk_wide_log2_part(pk_f64p x) {
  return pk_scaled_log_part(x, 1, 0, 1.44269504072144627571e+00, 1.67517131648865118353e-10);
}
PK_INLINE pk_f64p pk_wide_log10_part(pk_f64p x) {
  return pk_scaled_log_part(x, 3.01029995663611771306e-01, 3.69423907715893078616e-13,
                            4.34294481878168880939e-01, 2.50829467116452752298e-11);
}

/* -- functions based on exponentials */

/* |t| / (t + 2) with t = exp(-2 |x|) - 1, whose exponent is at most 0: neither a small nor a large
 * result needs a case of its own, and a rest of the reduction would not be noticed. */
PK_INLINE pk_f64p pk_wide_tanh_part(pk_f64p x) {
  pk_f64p n;
  const pk_f64p size = pk_size_part(x), zero = (pk_f64p){0},
                u = -2 * PK_PICK(size > 20, zero + 20, size);
  const pk_i64p whole = pk_nearest_part(u * PK_LOG2_E, &n);
  const pk_f64p r = pk_muladd_part(n, zero - 1.90821492927058770002e-10,
                                   pk_muladd_part(n, zero - 6.93147180369123816490e-01, u));
  const pk_f64p power = pk_power_of_two_part(whole), q = pk_small_exp_part(r, zero),
                t = pk_muladd_part(power, q, power - 1);
  return pk_signed_part(pk_size_part(t) / (t + 2), x);
}
PK_INLINE pk_f64p pk_wide_logistic_part(pk_f64p x) {
  const pk_f64p e = pk_wide_exp_part(-pk_size_part(x));
  return pk_pick_part((pk_u64p)(x < 0), e, pk_constant_part(1)) / (1 + e);
}
PK_INLINE pk_f64p pk_wide_softplus_part(pk_f64p x) {
  const pk_f64p e = pk_wide_log1p_part(pk_wide_exp_part(-pk_size_part(x)));
  return pk_pick_part((pk_u64p)(x > 0), x, (pk_f64p){0}) + e;
}
PK_INLINE pk_f64p pk_wide_log_sigmoid_part(pk_f64p x) { return -pk_wide_softplus_part(-x); }

/* -- the error function: a polynomial near 0; beyond, exp(-x^2) times one in (x - 2) / (x + 2) */

PK_INLINE pk_f64p pk_near_erf_part(pk_f64p x) {
  return x * PK_HORNER(x * x, 6.759210652153673e-11, -1.176889826446285e-09, 1.4745924804012434e-08,
                       -1.6361147636395714e-07, 1.6461869859168258e-06, -1.4925641592873309e-05,
                       0.00012055332766301648, -0.0008548327019896821, 0.005223977625404531,
                       -0.026866170645128876, 0.11283791670955118, -0.37612638903183754,
                       1.1283791670955126);
}
PK_INLINE pk_f64p pk_far_erfc_part(pk_f64p size) {
  pk_f64p rest, lost;
  size = pk_within_part(size, 0, 27.5);
  const pk_f64p s = (size - 2) / (size + 2), square = pk_square_part(size, &rest);
  const pk_f64p q = PK_HORNER(
      s, -1.077181868745448e-07, 2.0270726312912823e-07, 3.3272814126967e-07,
      -4.079588670175338e-07, -9.474034575208871e-07, -5.57486564079003e-07, 1.5271360793241164e-06,
      5.155867351165662e-06, 3.716137633838063e-06, -1.3472773429465944e-05, -3.642771206285186e-05,
      -1.5136001592803974e-06, 0.00015104031677684308, 0.00020636765791990296,
      -0.00045434098989753137, -0.0014568139801142454, 0.0012713389783694054, 0.008722653877155772,
      -0.008034015082940802, -0.05422000099207017, 0.16405128003345176, -0.16603039761528907,
      -0.09276382658574606, 1.2769783815525286);
  pk_f64p r, low;
  const pk_i64p n = pk_reduce_exp_part(-square, &r, &low);
  const pk_f64p all = r - rest, below = pk_two_sum_part(pk_constant_part(1), 2 * size, &lost);
  const pk_f64p last = low + ((r - all) - rest) - lost / below;
  return pk_scale_part(pk_muladd_part(q, pk_small_exp_part(all, last), q) / below, n);
}
PK_INLINE pk_f64p pk_wide_erf_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x);
  return pk_pick_part((pk_u64p)(size < 0.84), pk_near_erf_part(x),
                      pk_signed_part(1 - pk_far_erfc_part(size), x));
}
PK_INLINE pk_f64p pk_wide_erfc_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), far = pk_far_erfc_part(size);
  return pk_pick_part((pk_u64p)(size < 0.5), 1 - pk_near_erf_part(x),
                      pk_pick_part((pk_u64p)(x < 0), 2 - far, far));
}

/* -- sine and cosine: x = n pi / 2 + high + low, from pi / 2 in parts of 33 bits */

enum { PK_MOST_TURNS = 1 << 20 }; /* beyond, products of n and a part are not exact */
typedef struct {
  pk_i64p n;
  pk_f64p high, low;
} pk_angle_parts;
PK_INLINE pk_angle_parts pk_reduce_angle_part(pk_f64p x) {
  pk_angle_parts a;
  pk_f64p n, e1, e2;
  a.n = pk_nearest_part(
      pk_within_part(x, -PK_MOST_TURNS, PK_MOST_TURNS) * 6.36619772367581382433e-01, &n);
  const pk_f64p first = x - n * 1.57079632673412561417e+00;
  const pk_f64p second = pk_two_sum_part(first, n * -6.07710050630396597660e-11, &e1);
  const pk_f64p third = pk_two_sum_part(second, n * -2.02226624871116645580e-21, &e2);
  const pk_f64p rest = (e1 + e2) - n * 8.47842766036889956997e-32;
  a.high = third + rest;
  a.low = (third - a.high) + rest;
  return a;
}
PK_INLINE pk_f64p pk_small_sin_part(pk_f64p x, pk_f64p low) {
  const pk_f64p z = x * x, v = z * x;
  const pk_f64p r = PK_HORNER(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08,
                              2.75573137070700676789e-06, -1.98412698298579493134e-04,
                              8.33333333332248946124e-03);
  return x - ((z * (0.5 * low - v * r) - low) - v * -1.66666666666666324348e-01);
}
PK_INLINE pk_f64p pk_small_cos_part(pk_f64p x, pk_f64p low) {
  const pk_f64p z = x * x, half = 0.5 * z, w = 1 - half;
  const pk_f64p r = z * PK_HORNER(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09,
                                  -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                                  -1.38888888888741095749e-03, 4.16666666666666019037e-02);
  return w + (((1 - w) - half) + (z * r - x * low));
}
/* The sine after adding `turns` quarter turns. */
PK_INLINE pk_f64p pk_turned_sin_part(pk_f64p x, int64_t turns) {
  const pk_angle_parts a = pk_reduce_angle_part(x);
  const pk_i64p n = a.n + turns;
  const pk_f64p y = pk_pick_part((pk_u64p)(-(n & 1)), pk_small_cos_part(a.high, a.low),
                                 pk_small_sin_part(a.high, a.low));
  return (pk_f64p)((pk_i64p)y ^ ((n & 2) << 62));
}
PK_INLINE pk_f64p pk_wide_sin_part(pk_f64p x) {
  return pk_pick_part((pk_u64p)(x == 0), x, pk_turned_sin_part(x, 0));
}
PK_INLINE pk_f64p pk_wide_cos_part(pk_f64p x) { return pk_turned_sin_part(x, 1); }

/* -- all of them */

#define PK_WIDE_PARTWISE(name)                                  \
  static inline pk_f64v pk_##name##_f64(pk_f64v x) {            \
    PK_EACH_WIDE(x.part[k] = pk_wide_##name##_part(x.part[k]);) \
    return x;                                                   \
  }                                                             \
  static inline double pks_##name##_f64(double x) {             \
    return pk_wide_##name##_part(pk_constant_part(x))[0];       \
  }
PK_WIDE_PARTWISE(exp)
PK_WIDE_PARTWISE(exp2)
PK_WIDE_PARTWISE(exp10)
PK_WIDE_PARTWISE(expm1)
PK_WIDE_PARTWISE(log)
PK_WIDE_PARTWISE(log2)
PK_WIDE_PARTWISE(log10)
PK_WIDE_PARTWISE(log1p)
PK_WIDE_PARTWISE(tanh)
PK_WIDE_PARTWISE(logistic)
PK_WIDE_PARTWISE(softplus)
PK_WIDE_PARTWISE(log_sigmoid)
PK_WIDE_PARTWISE(erf)
PK_WIDE_PARTWISE(erfc)
/* Larger angles, infinities and NaNs go to libm. */
#define PK_WIDE_ANGLE(name)                                                                   \
  static inline double pks_##name##_f64(double x) {                                           \
    return __builtin_fabs(x) <= PK_MOST_TURNS ? pk_wide_##name##_part(pk_constant_part(x))[0] \
                                              : __builtin_##name(x);                          \
  }                                                                                           \
  static inline pk_f64v pk_##name##_f64(pk_f64v x) {                                          \
    double in[PK_LANES], out[PK_LANES];                                                       \
    bool far = false;                                                                         \
    __builtin_memcpy(in, &x, sizeof in);                                                      \
    PK_EACH_WIDE(x.part[k] = pk_wide_##name##_part(x.part[k]);)                               \
    for (int k = 0; k < PK_LANES; k++) far |= !(__builtin_fabs(in[k]) <= PK_MOST_TURNS);      \
    if (!far) return x;                                                                       \
    __builtin_memcpy(out, &x, sizeof out);                                                    \
    for (int k = 0; k < PK_LANES; k++)                                                        \
      if (!(__builtin_fabs(in[k]) <= PK_MOST_TURNS)) out[k] = __builtin_##name(in[k]);        \
    __builtin_memcpy(&x, out, sizeof x);                                                      \
    return x;                                                                                 \
  }
PK_WIDE_ANGLE(sin)
PK_WIDE_ANGLE(cos)

#endif
