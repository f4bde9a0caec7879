/* bound.h: running error analysis. A number is a value and a bound on the difference of a result
 * computed in its dtype. The value is in binary64, which is wide enough for f32, or with
 * PK_BOUND_WIDE in long double, for f64. With PK_BOUND_LONG_SUMS only sums are in long double.
 * Each operation propagates the errors of its operands (to first order, or by evaluation at both
 * ends of the interval) and adds its own. docs/numerics.md derives the rules. Plain C: the
 * interpreter and naive references share it. */
#ifndef PK_BOUND_H
#define PK_BOUND_H

#include <pk/f64.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef PK_BOUND_WIDE
typedef long double pk_real;
#define PK_REAL(function) function##l
#else
typedef double pk_real;
#define PK_REAL(function) function
#endif
#if defined(PK_BOUND_WIDE) || defined(PK_BOUND_LONG_SUMS)
typedef long double pk_bound_long;
#else
typedef double pk_bound_long;
#endif

typedef struct {
  pk_real value, error; /* error: INFINITY if f32 does not determine the value */
} pk_bound;

/* The relative error of an operation: of its operands (for an equivalent formula), of its result
 * if the operation is correctly rounded, of its result if it is a function, and of the partial
 * sums of a reduction. */
typedef struct {
  pk_real input, result, function, sum;
} pk_bound_rules;

#define PK_BOUND_UNIT 0x1p-24 /* unit roundoff of f32 */
/* The loss of a unit that multiplies pairs of bf16 and treats subnormal numbers as 0, for each
 * term: the others are below 2^10. */
#define PK_BOUND_FLUSHED 0x1p-116
static const double pk_bound_least = 0x1p-149, pk_bound_normal = 0x1p-126;

/* Infinities and NaN are compared as such, unless an undetermined operand decided them. */
static inline pk_bound pk_bound_made(pk_real value, pk_real error) {
  if (isnan(error)) error = isfinite(value) ? (pk_real)INFINITY : 0;
  if (!isfinite(value) && !isinf(error)) error = 0;
  return (pk_bound){value, error};
}

static inline pk_bound pk_bound_exact(pk_real value) { return (pk_bound){value, 0}; }

/* Do the rules of f64 apply? Their errors are all below the units of narrower floats. */
static inline bool pk_bound_is_f64(pk_real share) { return share < 0x1p-40; }

/* `share` of a value; below the normal numbers the spacing does not shrink further. */
static inline pk_real pk_bound_share(pk_real share, pk_real value) {
  const pk_real size = PK_REAL(fabs)(value);
  if (share == 0 || size == 0 || !isfinite(size)) return 0;
  if (pk_bound_is_f64(share)) return share * size + (size < 0x1p-1022 ? 0x1p-1074 : 0);
  return share * size + (size < pk_bound_normal ? pk_bound_least : 0);
}

/* The distance of the ends of an interval's image from the value. An end outside the domain
 * (NaN) is ignored. */
static inline pk_real pk_bound_ends(pk_real value, pk_real low, pk_real high) {
  return PK_REAL(fmax)(PK_REAL(fabs)(value - low), PK_REAL(fabs)(high - value));
}

/* The same for results that are rounded to integers. */
static inline double pk_bound_integer_ends(int64_t value, int64_t low, int64_t high) {
  return (double)(value - low > high - value ? value - low : high - value);
}

/* ---- arithmetic */

static inline pk_bound pk_bound_neg(pk_bound a) { return (pk_bound){-a.value, a.error}; }
static inline pk_bound pk_bound_abs(pk_bound a) {
  return (pk_bound){PK_REAL(fabs)(a.value), a.error};
}

static inline pk_bound pk_bound_add(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_real value = a.value + b.value;
  return pk_bound_made(value, a.error + b.error + pk_bound_share(r->input, a.value) +
                                  pk_bound_share(r->input, b.value) +
                                  pk_bound_share(r->result, value));
}
static inline pk_bound pk_bound_sub(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  return pk_bound_add(a, pk_bound_neg(b), r);
}

static inline pk_real pk_bound_times(pk_real size, pk_real error) {
  return error == 0 ? 0 : PK_REAL(fabs)(size) * error;
}

static inline pk_bound pk_bound_mul(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_real value = a.value * b.value;
  const pk_real carried = pk_bound_times(a.value, b.error) + pk_bound_times(b.value, a.error) +
                          pk_bound_times(a.error, b.error);
  return pk_bound_made(value, carried + pk_bound_share(r->result, value));
}

/* A rounded factor, which may have lost `share` of its value. */
static inline pk_bound pk_bound_blurred(pk_bound a, pk_real share) {
  return pk_bound_made(a.value, a.error + pk_bound_share(share, a.value));
}

static inline pk_bound pk_bound_div(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_real value = a.value / b.value, least = PK_REAL(fabs)(b.value) - b.error;
  if (b.error > 0 && least <= 0) return (pk_bound){value, (pk_real)INFINITY};
  const pk_real carried = a.error + pk_bound_times(value, b.error);
  return pk_bound_made(value,
                       (carried == 0 ? 0 : carried / least) + pk_bound_share(r->result, value));
}
static inline pk_bound pk_bound_reciprocal(pk_bound a, const pk_bound_rules *r) {
  return pk_bound_div(pk_bound_exact(1), a, r);
}

static inline pk_bound pk_bound_fma(pk_bound a, pk_bound b, pk_bound c, const pk_bound_rules *r) {
  const pk_bound product = pk_bound_mul(a, b, r), sum = pk_bound_add(product, c, r);
  return pk_bound_made(PK_REAL(fma)(a.value, b.value, c.value), sum.error);
}

/* ---- choices: a value near the other side may be computed as that */

static inline pk_bound pk_bound_max(pk_bound a, pk_bound b) {
  if (isnan(a.value) || isnan(b.value)) return isnan(a.value) ? a : b;
  const bool first = a.value > b.value || (a.value == b.value && !signbit(a.value));
  const pk_bound more = first ? a : b, less = first ? b : a;
  const bool near = less.value + less.error >= more.value - more.error;
  return (pk_bound){more.value, near ? PK_REAL(fmax)(more.error, less.error) : more.error};
}
static inline pk_bound pk_bound_min(pk_bound a, pk_bound b) {
  return pk_bound_neg(pk_bound_max(pk_bound_neg(a), pk_bound_neg(b)));
}

/* A bool; bit 1: rounding decides it. */
enum { PK_BOUND_TRUE = 1, PK_BOUND_UNSURE = 2 };

static inline bool pk_bound_near(pk_bound a, pk_bound b) {
  const pk_real reach = a.error + b.error;
  return reach > 0 && PK_REAL(fabs)(a.value - b.value) <= reach;
}
#define PK_BOUND_COMPARE(name, operator)                                   \
  static inline unsigned char pk_bound_##name(pk_bound a, pk_bound b) {    \
    const unsigned unsure = pk_bound_near(a, b) ? PK_BOUND_UNSURE : 0u;    \
    return (unsigned char)((a.value operator b.value ? 1u : 0u) | unsure); \
  }
PK_BOUND_COMPARE(eq, ==)
PK_BOUND_COMPARE(ne, !=)
PK_BOUND_COMPARE(lt, <)
PK_BOUND_COMPARE(le, <=)
PK_BOUND_COMPARE(gt, >)
PK_BOUND_COMPARE(ge, >=)
#undef PK_BOUND_COMPARE

static inline pk_bound pk_bound_of_bool(unsigned char a) {
  return (pk_bound){a & PK_BOUND_TRUE, a & PK_BOUND_UNSURE ? 1 : 0};
}
static inline unsigned char pk_bound_not(unsigned char a) { return a ^ PK_BOUND_TRUE; }
/* An operand that is certainly false decides an `and`. */
static inline unsigned char pk_bound_and(unsigned char a, unsigned char b) {
  if (a == 0 || b == 0) return 0;
  return (unsigned char)((a & b & PK_BOUND_TRUE) | ((a | b) & PK_BOUND_UNSURE));
}
static inline unsigned char pk_bound_or(unsigned char a, unsigned char b) {
  return pk_bound_not(pk_bound_and(pk_bound_not(a), pk_bound_not(b)));
}
static inline unsigned char pk_bound_xor(unsigned char a, unsigned char b) {
  return (unsigned char)(((a ^ b) & PK_BOUND_TRUE) | ((a | b) & PK_BOUND_UNSURE));
}

static inline pk_bound pk_bound_select(unsigned char c, pk_bound a, pk_bound b) {
  const pk_bound taken = c & PK_BOUND_TRUE ? a : b, other = c & PK_BOUND_TRUE ? b : a;
  if (!(c & PK_BOUND_UNSURE)) return taken;
  const pk_real apart = taken.value == other.value ? 0 : PK_REAL(fabs)(taken.value - other.value);
  return (pk_bound){taken.value, isnan(apart) ? (pk_real)INFINITY
                                              : apart + PK_REAL(fmax)(taken.error, other.error)};
}

#ifdef PK_BOUND_WIDE
/* The functions of f64.h; those whose last digits matter are computed wider too. */
#define PK_BOUND_WIDER(name) \
  static inline long double pk_wide_##name(long double a) { return pk_f64_##name((double)a); }
PK_BOUND_WIDER(sign)
PK_BOUND_WIDER(exp10)
PK_BOUND_WIDER(erf_inv)
#undef PK_BOUND_WIDER
static inline long double pk_wide_logistic(long double a) {
  const long double e = expl(-fabsl(a));
  return a < 0 ? e / (1 + e) : 1 / (1 + e);
}
static inline long double pk_wide_softplus(long double a) {
  return fmaxl(a, 0) + log1pl(expl(-fabsl(a)));
}
static inline long double pk_wide_log_sigmoid(long double a) { return -pk_wide_softplus(-a); }
#endif

/* ---- functions */

typedef pk_real pk_bound_function(pk_real);

static inline pk_real pk_bound_reach(pk_bound a, const pk_bound_rules *r) {
  return a.error + pk_bound_share(r->input, a.value);
}

/* A monotone function: its values at the ends of the interval. */
static inline pk_bound pk_bound_monotone(pk_bound_function *f, pk_bound a,
                                         const pk_bound_rules *r) {
  const pk_real value = f(a.value), reach = pk_bound_reach(a, r);
  const pk_real carried =
      reach == 0 ? 0 : pk_bound_ends(value, f(a.value - reach), f(a.value + reach));
  return pk_bound_made(value, carried + pk_bound_share(r->function, value));
}

/* A step function, whose values are exact. */
static inline pk_bound pk_bound_steps(pk_bound_function *f, pk_bound a) {
  const pk_real value = f(a.value);
  if (a.error == 0) return pk_bound_exact(value);
  return pk_bound_made(value, pk_bound_ends(value, f(a.value - a.error), f(a.value + a.error)));
}

static inline pk_real pk_bound_growth(pk_real value, pk_real reach) {
  return pk_bound_times(value, reach < 1e-3 ? reach * (1 + reach) : PK_REAL(expm1)(reach));
}
static inline pk_bound pk_bound_exp(pk_bound a, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(exp)(a.value);
  return pk_bound_made(
      value, pk_bound_growth(value, pk_bound_reach(a, r)) + pk_bound_share(r->function, value));
}
static inline pk_bound pk_bound_exp2(pk_bound a, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(exp2)(a.value), reach = pk_bound_reach(a, r) * 0.6931471805599453;
  return pk_bound_made(value, pk_bound_growth(value, reach) + pk_bound_share(r->function, value));
}

static inline pk_real pk_bound_sqrt_of(pk_real x) { return PK_REAL(sqrt)(PK_REAL(fmax)(x, 0)); }
static inline pk_bound pk_bound_sqrt(pk_bound a, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(sqrt)(a.value), reach = pk_bound_reach(a, r);
  const pk_real carried = reach == 0 ? 0
                                     : pk_bound_ends(value, pk_bound_sqrt_of(a.value - reach),
                                                     pk_bound_sqrt_of(a.value + reach));
  return pk_bound_made(value, carried + pk_bound_share(r->result, value));
}
static inline pk_real pk_bound_rsqrt_of(pk_real x) {
  return x > 0 ? 1 / PK_REAL(sqrt)(x) : x == 0 ? 1 / x : (pk_real)NAN;
}
static inline pk_real pk_bound_rsqrt_end(pk_real x) {
  return x > 0 ? 1 / PK_REAL(sqrt)(x) : (pk_real)INFINITY;
}
static inline pk_bound pk_bound_rsqrt(pk_bound a, const pk_bound_rules *r) {
  const pk_real value = pk_bound_rsqrt_of(a.value), reach = pk_bound_reach(a, r);
  const pk_real carried = reach == 0 ? 0
                                     : pk_bound_ends(value, pk_bound_rsqrt_end(a.value - reach),
                                                     pk_bound_rsqrt_end(a.value + reach));
  return pk_bound_made(value, carried + pk_bound_share(r->function, value));
}
/* A logarithm is undetermined if its operand may be 0. */
static inline pk_bound pk_bound_logarithm(pk_bound_function *f, pk_real origin, pk_bound a,
                                          const pk_bound_rules *r) {
  if (a.error > 0 && a.value - a.error <= origin) return (pk_bound){f(a.value), (pk_real)INFINITY};
  return pk_bound_monotone(f, a, r);
}

#define PK_BOUND_LOGARITHM(name, origin)                                        \
  static inline pk_bound pk_bound_##name(pk_bound a, const pk_bound_rules *r) { \
    return pk_bound_logarithm(PK_REAL(name), origin, a, r);                     \
  }
PK_BOUND_LOGARITHM(log, 0)
PK_BOUND_LOGARITHM(log2, 0)
PK_BOUND_LOGARITHM(log10, 0)
PK_BOUND_LOGARITHM(log1p, -1)
#undef PK_BOUND_LOGARITHM

/* By the largest slope within the interval. */
static inline pk_bound pk_bound_sloped(pk_real value, pk_real slope, pk_bound a,
                                       const pk_bound_rules *r) {
  const pk_real reach = pk_bound_reach(a, r);
  return pk_bound_made(value, pk_bound_times(slope, reach) + pk_bound_share(r->function, value));
}
static inline pk_bound pk_bound_sin(pk_bound a, const pk_bound_rules *r) {
  return pk_bound_sloped(
      PK_REAL(sin)(a.value),
      PK_REAL(fmin)(1, PK_REAL(fabs)(PK_REAL(cos)(a.value)) + pk_bound_reach(a, r)), a, r);
}
static inline pk_bound pk_bound_cos(pk_bound a, const pk_bound_rules *r) {
  return pk_bound_sloped(
      PK_REAL(cos)(a.value),
      PK_REAL(fmin)(1, PK_REAL(fabs)(PK_REAL(sin)(a.value)) + pk_bound_reach(a, r)), a, r);
}
static inline pk_bound pk_bound_tan(pk_bound a, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(tan)(a.value), slope = 1 + value * value,
                reach = pk_bound_reach(a, r);
  const pk_real bend = 1 - PK_REAL(fabs)(value) * reach; /* distance from the pole */
  if (bend <= 0) return (pk_bound){value, (pk_real)INFINITY};
  return pk_bound_sloped(value, slope / bend, a, r);
}
static inline pk_bound pk_bound_cosh(pk_bound a, const pk_bound_rules *r) {
  return pk_bound_sloped(PK_REAL(cosh)(a.value),
                         PK_REAL(sinh)(PK_REAL(fabs)(a.value) + pk_bound_reach(a, r)), a, r);
}

static inline pk_bound pk_bound_pow(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(pow)(a.value, b.value), reach = pk_bound_reach(a, r),
                size = PK_REAL(fabs)(a.value);
  if (a.error > 0 && a.error >= size)
    return pk_bound_made(
        value, b.value > 0 ? PK_REAL(pow)(size + reach, b.value + b.error) : (pk_real)INFINITY);
  const pk_real base = size > 0 ? pk_bound_times(b.value, reach / (size - reach)) : 0;
  const pk_real exponent = size > 0 ? pk_bound_times(PK_REAL(log)(size), pk_bound_reach(b, r)) : 0;
  return pk_bound_made(
      value, pk_bound_growth(value, base + exponent) + pk_bound_share(r->function, value));
}
static inline pk_bound pk_bound_atan2(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(atan2)(a.value, b.value),
                square = a.value * a.value + b.value * b.value;
  const pk_real across =
      pk_bound_times(b.value, pk_bound_reach(a, r)) + pk_bound_times(a.value, pk_bound_reach(b, r));
  if (a.error > 0 && PK_REAL(fabs)(a.value) <= a.error && b.value - b.error < 0)
    return (pk_bound){value, 6.2831853071795865};
  return pk_bound_made(value,
                       (across == 0 ? 0 : across / square) + pk_bound_share(r->function, value));
}

/* Neither slope exceeds 1. */
static inline pk_bound pk_bound_hypot(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_real value = PK_REAL(hypot)(a.value, b.value);
  return pk_bound_made(
      value, pk_bound_reach(a, r) + pk_bound_reach(b, r) + pk_bound_share(r->function, value));
}

/* The quotient whose integral part is used, which is the true one if the operands are exact. */
static inline pk_bound pk_bound_quotient(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  pk_bound quotient = pk_bound_div(a, b, r);
  if (a.error == 0 && b.error == 0) quotient.error = 0;
  return quotient;
}
static inline pk_bound pk_bound_floordiv(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  const pk_bound quotient = pk_bound_quotient(a, b, r);
  const pk_real integers = pk_bound_is_f64(r->function) ? 0x1p53 : 0x1p24;
  return PK_REAL(fabs)(quotient.value) <= integers ? pk_bound_steps(PK_REAL(floor), quotient)
                                                   : pk_bound_div(a, b, r);
}
/* A remainder is exact if the integral part of the quotient is certain; otherwise the result may
 * be anything up to b. */
static inline pk_bound pk_bound_remainder(pk_real value, pk_bound_function *whole, pk_bound a,
                                          pk_bound b, const pk_bound_rules *r) {
  const pk_bound turns = pk_bound_steps(whole, pk_bound_quotient(a, b, r));
  const pk_real apart = turns.error > 0 ? PK_REAL(fabs)(b.value) : 0;
  return pk_bound_made(value, a.error + pk_bound_times(turns.value, b.error) + apart);
}
static inline pk_bound pk_bound_rem(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  return pk_bound_remainder(PK_REAL(fmod)(a.value, b.value), PK_REAL(trunc), a, b, r);
}
static inline pk_real pk_bound_mod_of(pk_real a, pk_real b) {
  const pk_real rest = PK_REAL(fmod)(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b
         : rest == 0                        ? PK_REAL(copysign)(rest, b)
                                            : rest;
}
static inline pk_bound pk_bound_mod(pk_bound a, pk_bound b, const pk_bound_rules *r) {
  pk_bound result = pk_bound_remainder(pk_bound_mod_of(a.value, b.value), PK_REAL(floor), a, b, r);
  result.error += pk_bound_share(r->result, b.value);
  return result;
}

/* ---- rounding to a narrow dtype: to nearest even, or not at all if the other side does not
 * round */

static inline pk_bound pk_bound_rounded(pk_bound_function *to, pk_bound a) {
  const pk_bound result = pk_bound_steps(to, a);
  if (!isfinite(result.value) || !isfinite(a.value)) return result;
  return pk_bound_made(
      result.value, PK_REAL(fmax)(result.error, PK_REAL(fabs)(result.value - a.value) + a.error));
}

/* A value that may have been rounded to a narrow dtype in addition: `half` of the spacing at 1,
 * least normal number `normal`. */
static inline pk_bound pk_bound_also(pk_bound_function *to, pk_real half, pk_real normal,
                                     pk_bound a) {
  if (a.value == 0 || !isfinite(a.value)) return a;
  if (a.error == 0) return pk_bound_made(a.value, PK_REAL(fabs)(to(a.value) - a.value));
  return (pk_bound){a.value, a.error + half * PK_REAL(fmax)(PK_REAL(fabs)(a.value), normal)};
}

/* ---- sums and products */

/* Adds a factor to a product whose order is unspecified. */
static inline pk_bound pk_bound_factor(pk_bound product, pk_bound a, const pk_bound_rules *r) {
  const pk_bound_rules rounded = {0, r->sum, 0, 0};
  return pk_bound_mul(product, a, &rounded);
}

typedef struct {
  pk_bound_long sum;
  pk_real error, size, squares, peak;
  int64_t terms;
  double plain; /* the sum in the dtype, in order */
} pk_bound_sum;

static inline void pk_bound_add_term(pk_bound_sum *s, pk_bound term) {
  s->sum += term.value;
  s->error += term.error;
  s->size += PK_REAL(fabs)(term.value);
  s->squares += term.value * term.value;
  s->peak = PK_REAL(fmax)(s->peak, PK_REAL(fabs)((pk_real)s->sum));
  s->terms++;
}
static inline void pk_bound_take(pk_bound_sum *s, pk_bound term) {
  pk_bound_add_term(s, term);
  s->plain = (double)((float)s->plain + (float)term.value);
}
static inline void pk_bound_take_f64(pk_bound_sum *s, pk_bound term) {
  pk_bound_add_term(s, term);
  s->plain += (double)term.value;
}

/* The error of n additions in any order: a random walk whose steps are proportional to the
 * partial sums, which are those of sequential order or, in another order, sums of random signs.
 * The actual error of sequential order is included, because it may not be a random walk.
 * `products`: the terms are rounded products, not values in memory. */
static inline pk_bound pk_bound_total(const pk_bound_sum *s, bool products,
                                      const pk_bound_rules *r) {
  const pk_real partial = PK_REAL(fmax)(s->peak, PK_REAL(sqrt)(s->squares)),
                plain = PK_REAL(fabs)((pk_real)(s->plain - s->sum));
  pk_real error = s->error + r->input * s->size;
  if (s->terms > 1 || products)
    error += r->sum * (0.5 * PK_REAL(sqrt)((pk_real)s->terms) + 0.5) * partial +
             (isfinite(plain) ? 2 * plain : 0);
  if (s->size > 0 && !pk_bound_is_f64(r->sum) && s->size < pk_bound_normal)
    error += pk_bound_least * (pk_real)s->terms;
  return pk_bound_made((pk_real)s->sum, error);
}

/* ---- allowances of results */

/* The allowance of a result that rounds, to its dtype, a value within the error; relative to
 * to(value), the value in that dtype. */
static inline pk_real pk_bound_allowed(pk_bound_function *to, pk_bound a) {
  if (a.error == 0 || isinf(a.error) || isnan(a.value)) return a.error;
  const pk_real value = to(a.value), low = PK_REAL(fabs)(value - to(a.value - a.error));
  const pk_real high = PK_REAL(fabs)(to(a.value + a.error) - value);
  if (isinf(value))
    return isinf(low) || isinf(high) ? (pk_real)INFINITY : 0; /* if an end is infinite too: NaN */
  return PK_REAL(fmax)(isfinite(low) ? low : a.error, isfinite(high) ? high : a.error);
}

#endif
