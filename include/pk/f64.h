/* f64.h: functions in binary64 that libm does not have. Plain C: the interpreter, error bounds
 * and naive references share it; codegen/ir/ops.def names the function of each operation. */
#ifndef PK_F64_H
#define PK_F64_H

#include <math.h>
#include <stdbool.h>

static inline bool pk_f64_isnan(double a) { return isnan(a) != 0; }
static inline bool pk_f64_isinf(double a) { return isinf(a) != 0; }
static inline bool pk_f64_isfinite(double a) { return isfinite(a) != 0; }

static inline double pk_f64_neg(double a) { return -a; }
static inline double pk_f64_add(double a, double b) { return a + b; }
static inline double pk_f64_sub(double a, double b) { return a - b; }
static inline double pk_f64_mul(double a, double b) { return a * b; }
static inline double pk_f64_div(double a, double b) { return a / b; }

static inline double pk_f64_sign(double a) { return isnan(a) || a == 0 ? a : a > 0 ? 1 : -1; }
static inline double pk_f64_reciprocal(double a) { return 1 / a; }
static inline double pk_f64_rsqrt(double a) { return 1 / sqrt(a); }

static inline double pk_f64_exp10(double a) { return pow(10, a); }

/* exp(-a) would overflow although the result is finite. */
static inline double pk_f64_logistic(double a) {
  const double e = exp(-fabs(a));
  return a < 0 ? e / (1 + e) : 1 / (1 + e);
}

static inline double pk_f64_softplus(double a) { return fmax(a, 0) + log1p(exp(-fabs(a))); }
static inline double pk_f64_log_sigmoid(double a) { return -pk_f64_softplus(-a); }

/* Winitzki's approximation, then Newton steps on erf, or near 1 on erfc, which keeps the digits. */
static inline double pk_f64_erf_inv(double x) {
  const double size = fabs(x), w = log((1 - x) * (1 + x)), b = 4.330746750799873 + w / 2;
  if (isnan(x) || size > 1) return (double)NAN;
  if (size == 1) return copysign((double)INFINITY, x);
  double y = fmax(sqrt(sqrt(b * b - w / 0.147) - b), 0.88622692545275801 * size);
  for (int i = 0; i < 4 && y > 0; i++) {
    const double error = size < 0.5 ? erf(y) - size : (1 - size) - erfc(y);
    y -= error / (1.1283791670955126 * exp(-y * y));
  }
  return size < 1e-8 ? x * 0.88622692545275801 : copysign(y, x);
}

/* NaN propagates; +0 is greater than -0. */
static inline double pk_f64_max(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}
static inline double pk_f64_min(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

/* A remainder has the sign of b, even if it is 0. */
static inline double pk_f64_mod(double a, double b) {
  const double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? copysign(r, b) : r;
}
/* The floor of the true quotient, which is one less if a / b was rounded up to an integer.
 * Beyond `integers`, where all floats are integers, it is the rounded quotient. */
static inline double pk_f64_floor_quotient(double a, double b, double integers) {
  const double quotient = a / b, whole = floor(quotient), rest = fma(-whole, b, a);
  if (!(fabs(quotient) <= integers)) return quotient;
  return (rest < 0 && b > 0) || (rest > 0 && b < 0) ? whole - 1 : whole;
}
/* For f32, and for floats that are computed in f32. */
static inline double pk_f64_floordiv(double a, double b) {
  return pk_f64_floor_quotient(a, b, 0x1p24);
}
static inline double pk_f64_floordiv_f64(double a, double b) {
  return pk_f64_floor_quotient(a, b, 0x1p53);
}

#endif
