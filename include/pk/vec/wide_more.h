/* vec/wide_more.h: more functions of f64 in vectors: inverse, hyperbolic and of two operands.
 * Included by vec/wide.h only. The methods are those of fdlibm; all branches are computed, and one
 * result is selected. docs/numerics.md states the errors, tests/f64_functions.py measures them. */
#ifndef PK_VEC_WIDE_MORE_H
#define PK_VEC_WIDE_MORE_H

/* The upper 21 bits of the fraction, so that products of two such numbers are exact. */
PK_INLINE pk_f64p pk_top_part(pk_f64p x) { return (pk_f64p)((pk_u64p)x >> 32 << 32); }

/* -- inverse trigonometric functions */

/* For size >= 0; beyond 7/16, relative to the nearest of four angles with simple tangents. */
PK_INLINE pk_f64p pk_positive_atan_part(pk_f64p size) {
  const pk_f64p zero = (pk_f64p){0};
  const pk_i64p a = size >= 0.4375, b = size >= 0.6875, c = size >= 1.1875, d = size >= 2.4375;
  const pk_f64p center = PK_PICK(c, zero + 1.5, PK_PICK(b, zero + 1, zero + 0.5));
  const pk_f64p above = PK_PICK(d, zero - 1, PK_PICK(a, size - center, size));
  const pk_f64p below = PK_PICK(d, size, PK_PICK(a, 1 + center * size, zero + 1));
  const pk_f64p x = above / below, z = x * x, w = z * z;
  const pk_f64p high =
      PK_PICK(d, zero + 1.57079632679489655800e+00,
              PK_PICK(c, zero + 9.82793723247329054082e-01,
                      PK_PICK(b, zero + 7.85398163397448278999e-01,
                              PK_PICK(a, zero + 4.63647609000806093515e-01, zero))));
  const pk_f64p low =
      PK_PICK(d, zero + 6.12323399573676603587e-17,
              PK_PICK(c, zero + 1.39033110312309984516e-17,
                      PK_PICK(b, zero + 3.06161699786838301793e-17,
                              PK_PICK(a, zero + 2.26987774529616870924e-17, zero))));
  const pk_f64p even = z * PK_HORNER(w, 1.62858201153657823623e-02, 4.97687799461593236017e-02,
                                     6.66107313738753120669e-02, 9.09088713343650656196e-02,
                                     1.42857142725034663711e-01, 3.33333333333329318027e-01),
                odd = w * PK_HORNER(w, -3.65315727442169155270e-02, -5.83357013379057348645e-02,
                                    -7.69187620504482999495e-02, -1.11111104054623557880e-01,
                                    -1.99999999998764832476e-01);
  return high - ((x * (even + odd) - low) - x);
}
PK_INLINE pk_f64p pk_wide_atan_part(pk_f64p x) {
  return PK_PICK(x == 0, x, pk_signed_part(pk_positive_atan_part(pk_size_part(x)), x));
}
/* asin(x) = x + x r(x^2) for |x| < 1/2 */
PK_INLINE pk_f64p pk_asin_rest_part(pk_f64p z) {
  const pk_f64p p = z * PK_HORNER(z, 3.47933107596021167570e-05, 7.91534994289814532176e-04,
                                  -4.00555345006794114027e-02, 2.01212532134862925881e-01,
                                  -3.25565818622400915405e-01, 1.66666666666666657415e-01);
  const pk_f64p q = PK_HORNER(z, 7.70381505559019352791e-02, -6.88283971605453293030e-01,
                              2.02094576023350569471e+00, -2.40339491173441421878e+00, 1.0);
  return p / q;
}
/* The root of z less `top`, the upper bits of the rounded `root`. */
PK_INLINE pk_f64p pk_rest_of_root_part(pk_f64p z, pk_f64p root, pk_f64p top) {
  return PK_PICK(root == 0, root, (z - top * top) / (root + top));
}
PK_INLINE pk_f64p pk_wide_asin_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), zero = (pk_f64p){0};
  const pk_i64p near = size < 0.5;
  const pk_f64p z = PK_PICK(near, x * x, (1 - size) * 0.5), r = pk_asin_rest_part(z);
  const pk_f64p root = pk_root_part(PK_PICK(near, zero, z)), top = pk_top_part(root);
  const pk_f64p p =
      2 * root * r - (6.12323399573676603587e-17 - 2 * pk_rest_of_root_part(z, root, top));
  const pk_f64p quarter = zero + 7.85398163397448278999e-01;
  const pk_f64p far = quarter - (p - (quarter - 2 * top));
  return PK_PICK(near, x + x * r, pk_signed_part(far, x));
}
PK_INLINE pk_f64p pk_wide_acos_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), zero = (pk_f64p){0};
  const double half = 1.57079632679489655800e+00, half_low = 6.12323399573676603587e-17;
  const pk_i64p near = size < 0.5;
  const pk_f64p z = PK_PICK(near, x * x, (1 - size) * 0.5), r = pk_asin_rest_part(z);
  const pk_f64p root = pk_root_part(PK_PICK(near, zero, z)), top = pk_top_part(root);
  const pk_f64p low = r * root + pk_rest_of_root_part(z, root, top);
  const pk_f64p positive = 2 * (top + low);
  const pk_f64p negative = 2 * half - 2 * (root + (r * root - half_low));
  return PK_PICK(near, half - (x - (half_low - x * r)), PK_PICK(x < 0, negative, positive));
}
PK_INLINE pk_f64p pk_wide_tan_part(pk_f64p x) {
  const pk_angle_parts a = pk_reduce_angle_part(x);
  const pk_f64p sine = pk_small_sin_part(a.high, a.low), cosine = pk_small_cos_part(a.high, a.low);
  const pk_i64p odd = -(a.n & 1);
  const pk_f64p y = PK_PICK(odd, -cosine, sine) / PK_PICK(odd, sine, cosine);
  return PK_PICK(x == 0, x, y);
}

/* The inverse of erf: Wichura's three quotients of polynomials for quantiles of the normal
 * distribution (Applied Statistics 37, AS 241), around 0, up to 1 - 2 exp(-25), and beyond. */
PK_INLINE pk_f64p pk_wide_erf_inv_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), zero = (pk_f64p){0};
  const pk_f64p z = 0.180625 - 0.25 * size * size;
  const pk_f64p near =
      0.5 * size *
      PK_HORNER(z, 2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                133.14166789178437745, 3.387132872796366608) /
      PK_HORNER(z, 5226.495278852545925, 28729.085735721942674, 39307.89580009271061,
                21213.794301586595867, 5394.1960214247511077, 687.1870074920579083,
                42.313330701600911252, 1.0);
  const pk_f64p root = pk_root_part(-pk_wide_log_part(0.5 * (1 - size))), t = root - 1.6,
                u = root - 5;
  const pk_f64p middle =
      PK_HORNER(t, 7.7454501427834140764e-4, .0227238449892691845833, .24178072517745061177,
                1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
                4.6303378461565452959, 1.42343711074968357734) /
      PK_HORNER(t, 1.05075007164441684324e-9, 5.475938084995344946e-4, .0151986665636164571966,
                .14810397642748007459, .68976733498510000455, 1.6763848301838038494,
                2.05319162663775882187, 1.0);
  const pk_f64p far =
      PK_HORNER(u, 2.01033439929228813265e-7, 2.71155556874348757815e-5, .0012426609473880784386,
                .026532189526576123093, .29656057182850489123, 1.7848265399172913358,
                5.4637849111641143699, 6.6579046435011037772) /
      PK_HORNER(u, 2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
                7.868691311456132591e-4, .0148753612908506148525, .13692988092273580531,
                .59983220655588793769, 1.0);
  const pk_f64p start =
      0.70710678118654752440 * PK_PICK(size <= 0.85, near, PK_PICK(root <= 5, middle, far));
  /* One of Newton's steps; near 1 on erfc, which keeps its digits. */
  const pk_f64p off =
      PK_PICK(size < 0.5, pk_wide_erf_part(start) - size, (1 - size) - pk_wide_erfc_part(start));
  const pk_f64p y = start - off * 0.88622692545275801 * pk_wide_exp_part(start * start);
  const pk_f64p all = PK_PICK(size == 1, zero + __builtin_inf(),
                              PK_PICK(size > 1, pk_constant_part(__builtin_nan("")), y));
  return PK_PICK(size < 1e-300, x * 0.88622692545275801, pk_signed_part(all, x));
}

/* -- hyperbolic functions and their inverses */

/* exp(size) / 2 for sizes of 22 and more, which may be finite although exp(size) is not. */
PK_INLINE pk_f64p pk_half_exp_part(pk_f64p size) {
  const pk_i64p far = size > 709;
  const pk_f64p e = pk_wide_exp_part(PK_PICK(far, 0.5 * size, size));
  return PK_PICK(far, (0.5 * e) * e, 0.5 * e);
}
PK_INLINE pk_f64p pk_wide_sinh_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x),
                t = pk_wide_expm1_part(PK_PICK(size < 22, size, size - size));
  const pk_f64p small = 0.5 * (2 * t - t * t / (t + 1)), middle = 0.5 * (t + t / (t + 1));
  const pk_f64p y = PK_PICK(size < 22, PK_PICK(size < 1, small, middle), pk_half_exp_part(size));
  return PK_PICK(size < 0x1p-28, x, pk_signed_part(y, x));
}
PK_INLINE pk_f64p pk_wide_cosh_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), e = pk_half_exp_part(size), t = pk_wide_expm1_part(size);
  const pk_f64p small = 1 + t * t / (2 * (1 + t));
  return PK_PICK(size < 0.34, small, PK_PICK(size < 22, e + 0.25 / e, e));
}
/* log(u (1 + lost / u)) */
PK_INLINE pk_f64p pk_log_of_sum_part(pk_f64p u, pk_f64p lost) {
  return pk_special_log_part(pk_log_sum_part(pk_split_log_part(u), lost / u), u);
}
PK_INLINE pk_f64p pk_wide_asinh_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), zero = (pk_f64p){0};
  const pk_i64p far = size > 2, huge = size > 0x1p28;
  const pk_f64p within = PK_PICK(huge, zero, size), root = pk_root_part(within * within + 1);
  pk_f64p lost;
  const pk_f64p near = pk_two_sum_part(zero + 1, within + within * within / (1 + root), &lost);
  const pk_f64p u = PK_PICK(huge, size, PK_PICK(far, 2 * within + 1 / (root + within), near));
  const pk_f64p y = pk_log_of_sum_part(u, PK_PICK(far, zero, lost));
  const pk_f64p all = PK_PICK(huge, y + PK_LN_2, y);
  return PK_PICK(size < 0x1p-28, x, pk_signed_part(all, x));
}
PK_INLINE pk_f64p pk_wide_acosh_part(pk_f64p x) {
  const pk_f64p zero = (pk_f64p){0};
  const pk_i64p far = x > 2, huge = x > 0x1p28;
  const pk_f64p within = PK_PICK(huge, zero + 2, x), t = within - 1;
  const pk_f64p root = pk_root_part(PK_PICK(far, within * within - 1, 2 * t + t * t));
  pk_f64p lost;
  const pk_f64p near = pk_two_sum_part(zero + 1, t + root, &lost);
  const pk_f64p u = PK_PICK(huge, x, PK_PICK(far, 2 * within - 1 / (within + root), near));
  const pk_f64p y = pk_log_of_sum_part(u, PK_PICK(far, zero, lost));
  const pk_f64p all = PK_PICK(huge, y + PK_LN_2, y);
  return PK_PICK(x < 1, pk_constant_part(__builtin_nan("")), PK_PICK(x == 1, zero, all));
}
PK_INLINE pk_f64p pk_wide_atanh_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x), twice = 2 * size;
  const pk_f64p t = PK_PICK(size < 0.5, twice + twice * size / (1 - size), twice / (1 - size));
  return PK_PICK(size < 0x1p-28, x, pk_signed_part(0.5 * pk_wide_log1p_part(t), x));
}

/* -- roots and powers */

PK_INLINE pk_f64p pk_wide_cbrt_part(pk_f64p x) {
  const pk_f64p size = pk_size_part(x);
  const pk_i64p tiny = size < 0x1p-1022;
  const pk_u64p top = (pk_u64p)PK_PICK(tiny, size * 0x1p54, size) >> 32;
  const pk_u64p third = top * 0xaaaaaaabu >> 33; /* top / 3: it has 31 bits */
  const pk_u64p bias = (pk_u64p)PK_PICK(tiny, (pk_f64p)((pk_u64p){0} + 696219795),
                                        (pk_f64p)((pk_u64p){0} + 715094163));
  pk_f64p t = (pk_f64p)((third + bias) << 32), r = (t * t) * (t / size);
  t = t * ((1.87595182427177009643 + r * (-1.88497979543377169875 + r * 1.621429720105354466140)) +
           (r * r) * r * (-0.758397934778766047437 + r * 0.145996192886612446982));
  t = (pk_f64p)(((pk_u64p)t + 0x80000000u) & 0xffffffffc0000000u); /* t * t is exact */
  r = size / (t * t);
  t = t + t * ((r - t) / (2 * t + r));
  const pk_i64p special = (size == 0) | (x != x) | (size == __builtin_inf());
  return PK_PICK(special, x, pk_signed_part(t, x));
}
PK_INLINE pk_f64p pk_wide_hypot_part(pk_f64p a, pk_f64p b) {
  const pk_f64p zero = (pk_f64p){0}, x = pk_size_part(a), y = pk_size_part(b);
  const pk_f64p most = PK_PICK(x > y, x, y);
  const pk_f64p scale =
      PK_PICK(most > 0x1p500, zero + 0x1p-600, PK_PICK(most < 0x1p-450, zero + 0x1p600, zero + 1));
  const pk_f64p back =
      PK_PICK(most > 0x1p500, zero + 0x1p600, PK_PICK(most < 0x1p-450, zero + 0x1p-600, zero + 1));
  const pk_f64p u = x * scale, v = y * scale, h = pk_root_part(pk_muladd_part(u, u, v * v)) * back;
  const pk_i64p infinite = (x == __builtin_inf()) | (y == __builtin_inf());
  return PK_PICK(infinite, pk_constant_part(__builtin_inf()), h);
}
/* The operands for which pk_wide_atan2_part is accurate: their quotient neither overflows nor
 * underflows. */
PK_INLINE pk_i64p pk_is_plain_atan2_part(pk_f64p y, pk_f64p x) {
  const pk_f64p a = pk_size_part(y), b = pk_size_part(x);
  return (a > 0x1p-500) & (a < 0x1p500) & (b > 0x1p-500) & (b < 0x1p500);
}
PK_INLINE pk_f64p pk_wide_atan2_part(pk_f64p y, pk_f64p x) {
  const double pi = 3.14159265358979311600e+00, pi_low = 1.2246467991473531772e-16;
  const pk_f64p z = pk_positive_atan_part(pk_size_part(y / x));
  return pk_signed_part(PK_PICK(x < 0, pi - (z - pi_low), z), y);
}
/* The operands for which pk_wide_pow_part is accurate. */
PK_INLINE pk_i64p pk_is_plain_pow_part(pk_f64p x, pk_f64p y) {
  const pk_f64p size = pk_size_part(x), power = pk_size_part(y);
  return (size > 0) & (size < __builtin_inf()) & (power < 0x1p30);
}
/* log2(size) = high + low, with a relative error of about 2^-65. */
PK_INLINE pk_f64p pk_long_log2_part(pk_f64p size, pk_f64p *low) {
  const pk_f64p zero = (pk_f64p){0};
  const pk_i64p tiny = size < 0x1p-1022;
  size = PK_PICK(tiny, size * 0x1p54, size);
  pk_i64p n = ((pk_i64p)size >> 52) - 1023;
  pk_f64p m = (pk_f64p)(((pk_i64p)size & 0xfffffffffffff) | 0x3ff0000000000000);
  const pk_i64p second = m >= 1.2247448713915890, third = m >= 1.7320508075688772;
  m = PK_PICK(third, 0.5 * m, m);
  n = n - third; /* a mask is -1 */
  const pk_i64p upper = second & ~third;
  const pk_f64p center = PK_PICK(upper, zero + 1.5, zero + 1);
  pk_f64p u = m - center, v = 1 / (m + center);
  const pk_f64p s = u * v, s_high = pk_top_part(s);
  pk_f64p t_high = pk_top_part(m + center), t_low = m - (t_high - center);
  const pk_f64p s_low = v * ((u - s_high * t_high) - s_high * t_low);
  pk_f64p square = s * s;
  pk_f64p r = square * square *
              PK_HORNER(square, 2.06975017800338417784e-01, 2.30660745775561754067e-01,
                        2.72728123808534006489e-01, 3.33333329818377432918e-01,
                        4.28571428578550184252e-01, 5.99999999999994648725e-01);
  r = r + s_low * (s_high + s);
  square = s_high * s_high;
  t_high = pk_top_part(3 + square + r);
  t_low = r - ((t_high - 3) - square);
  u = s_high * t_high;
  v = s_low * t_high + t_low * s;
  const pk_f64p p_high = pk_top_part(u + v), p_low = v - (p_high - u);
  const pk_f64p z_high = 9.61796700954437255859e-01 * p_high,
                z_low = -7.02846165095275826516e-09 * p_high + p_low * 9.61796693925975554329e-01 +
                        PK_PICK(upper, zero + 1.35003920212974897128e-08, zero);
  const pk_f64p start = PK_PICK(upper, zero + 5.84962487220764160156e-01, zero);
  const pk_f64p whole = (pk_f64p)(n + (pk_i64p)pk_constant_part(0x1.8p52)) - 0x1.8p52;
  const pk_f64p k = PK_PICK(tiny, whole - 54, whole);
  const pk_f64p high = pk_top_part(((z_high + z_low) + start) + k);
  *low = z_low - (((high - k) - start) - z_high);
  return high;
}
/* 2^(high + low) */
PK_INLINE pk_f64p pk_exp2_of_sum_part(pk_f64p high, pk_f64p low) {
  const pk_f64p sum = pk_within_part(high + low, -1080, 1030);
  const pk_i64p far = (high + low) != sum;
  pk_f64p n;
  const pk_i64p whole = pk_nearest_part(sum, &n);
  high = PK_PICK(far, (pk_f64p){0}, high - n);
  low = PK_PICK(far, (pk_f64p){0}, low);
  const pk_f64p t = pk_top_part(low + high), u = t * 6.93147182464599609375e-01,
                v = (low - (t - high)) * PK_LN_2 + t * -1.90465429995776804525e-09;
  const pk_f64p z = u + v, rest = v - (z - u), square = z * z;
  const pk_f64p p = z - square * PK_HORNER(square, 4.13813679705723846039e-08,
                                           -1.65339022054652515390e-06, 6.61375632143793436117e-05,
                                           -2.77777777770155933842e-03, 1.66666666666666019037e-01);
  const pk_f64p r = (z * p) / (p - 2) - (rest + z * rest);
  return pk_scale_part(1 - (r - z), whole);
}
PK_INLINE pk_f64p pk_wide_pow_part(pk_f64p x, pk_f64p y) {
  pk_f64p low, n;
  const pk_f64p high = pk_long_log2_part(pk_size_part(x), &low), top = pk_top_part(y);
  const pk_f64p size = pk_exp2_of_sum_part(top * high, (y - top) * high + y * low);
  const pk_i64p whole = pk_nearest_part(y, &n), negative = x < 0;
  const pk_f64p signed_size = (pk_f64p)((pk_i64p)size ^ ((whole & negative) << 63));
  return PK_PICK(negative & (n != y), pk_constant_part(__builtin_nan("")), signed_size);
}

/* -- all of them */

PK_WIDE_PARTWISE(atan)
PK_WIDE_PARTWISE(asin)
PK_WIDE_PARTWISE(acos)
PK_WIDE_ANGLE(tan)
PK_WIDE_PARTWISE(sinh)
PK_WIDE_PARTWISE(cosh)
PK_WIDE_PARTWISE(asinh)
PK_WIDE_PARTWISE(acosh)
PK_WIDE_PARTWISE(atanh)
PK_WIDE_PARTWISE(erf_inv)
PK_WIDE_PARTWISE(cbrt)
#define PK_WIDE_PAIRWISE(name)                                                 \
  static inline double pks_##name##_f64(double a, double b) {                  \
    return pk_wide_##name##_part(pk_constant_part(a), pk_constant_part(b))[0]; \
  }                                                                            \
  static inline pk_f64v pk_##name##_f64(pk_f64v a, pk_f64v b) {                \
    PK_EACH_WIDE(a.part[k] = pk_wide_##name##_part(a.part[k], b.part[k]);)     \
    return a;                                                                  \
  }
PK_WIDE_PAIRWISE(hypot)
/* `function` computes zeros, infinities and other special operands, one at a time. */
#define PK_WIDE_PLAIN_PAIR(name, function)                                                       \
  static inline double pks_##name##_f64(double a, double b) {                                    \
    const pk_f64p x = pk_constant_part(a), y = pk_constant_part(b);                              \
    return pk_is_plain_##name##_part(x, y)[0] ? pk_wide_##name##_part(x, y)[0] : function(a, b); \
  }                                                                                              \
  static inline pk_f64v pk_##name##_f64(pk_f64v a, pk_f64v b) {                                  \
    pk_f64v r, odd;                                                                              \
    PK_EACH_WIDE({                                                                               \
      const pk_i64p plain = pk_is_plain_##name##_part(a.part[k], b.part[k]);                     \
      r.part[k] = pk_wide_##name##_part(a.part[k], b.part[k]);                                   \
      odd.part[k] = pk_pick_part((pk_u64p)plain, (pk_f64p){0}, pk_constant_part(1));             \
    })                                                                                           \
    if (!pk_any(pk_ne_f64(odd, pk_splat_f64(0)))) return r;                                      \
    for (int k = 0; k < PK_WIDE_PARTS; k++)                                                      \
      for (int l = 0; l < PK_WIDE_LANES; l++)                                                    \
        if (odd.part[k][l] != 0) r.part[k][l] = function(a.part[k][l], b.part[k][l]);            \
    return r;                                                                                    \
  }
PK_WIDE_PLAIN_PAIR(pow, __builtin_pow)
PK_WIDE_PLAIN_PAIR(atan2, __builtin_atan2)

#endif
