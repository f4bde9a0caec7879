/* Vectors of 64-bit elements (vec/wide.h) at every width: functions of f64 against libm in long
 * double, special values, one element against a lane, integers against the operations on one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pk/rt.h>
#include <pk/step.h>
#include <pk/vec/wide.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

/* X(name, bound in units in the last place, ends of the arguments, what it is). */
static long double exact_exp10(long double x) { return powl(10, x); }
static long double exact_logistic(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_softplus(long double x) { return fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static long double exact_log_sigmoid(long double x) { return -exact_softplus(-x); }
static long double exact_reciprocal(long double x) { return 1 / x; }
/* Newton's steps from the inverse in binary64. */
static long double exact_erf_inv(long double x) {
  const long double size = fabsl(x);
  long double y = (long double)pk_f64_erf_inv((double)size);
  if (!(size < 1)) return copysignl(y, x);
  for (int k = 0; k < 3 && y > 0; k++) {
    const long double off = size < 0.5L ? erfl(y) - size : (1 - size) - erfcl(y);
    y -= off / (1.12837916709551257390L * expl(-y * y));
  }
  return copysignl(y, x);
}
#define FUNCTIONS(X)                                   \
  X(exp, 1, -745, 709.7, expl)                         \
  X(exp2, 1, -1074, 1023.9, exp2l)                     \
  X(exp10, 1.5, -323, 308, exact_exp10)                \
  X(expm1, 1.5, -40, 709.7, expm1l)                    \
  X(log, 1, 5e-324, 1e308, logl)                       \
  X(log2, 1.5, 5e-324, 1e308, log2l)                   \
  X(log10, 2, 5e-324, 1e308, log10l)                   \
  X(log1p, 1, -0.999, 1e300, log1pl)                   \
  X(tanh, 2.5, -22, 22, tanhl)                         \
  X(logistic, 2.5, -700, 40, exact_logistic)           \
  X(softplus, 2.5, -700, 700, exact_softplus)          \
  X(log_sigmoid, 2.5, -700, 700, exact_log_sigmoid)    \
  X(erf, 1.5, -6, 6, erfl)                             \
  X(erfc, 3, -6, 26, erfcl)                            \
  X(sin, 1, -1e6, 1e6, sinl)                           \
  X(cos, 1, -1e6, 1e6, cosl)                           \
  X(tan, 2, -1e6, 1e6, tanl)                           \
  X(asin, 1, -1, 1, asinl)                             \
  X(acos, 1, -1, 1, acosl)                             \
  X(atan, 1, -1e3, 1e3, atanl)                         \
  X(sinh, 2.5, -710.4, 710.4, sinhl)                   \
  X(cosh, 2.5, -710.4, 710.4, coshl)                   \
  X(asinh, 2.5, -1e12, 1e12, asinhl)                   \
  X(acosh, 2.5, 1, 1e12, acoshl)                       \
  X(atanh, 2.5, -1, 1, atanhl)                         \
  X(cbrt, 1, -1e300, 1e300, cbrtl)                     \
  X(erf_inv, 3, -1, 1, exact_erf_inv)                  \
  X(sqrt, 0.51, 0, 1e308, sqrtl)                       \
  X(reciprocal, 0.51, -1e300, 1e300, exact_reciprocal) \
  X(floor, 0, -1e17, 1e17, floorl)                     \
  X(ceil, 0, -1e17, 1e17, ceill)                       \
  X(round, 0, -1e17, 1e17, rintl)                      \
  X(trunc, 0, -1e17, 1e17, truncl)

typedef struct {
  const char *name;
  double bound, least, most;
  long double (*exact)(long double);
  pk_f64v (*vector)(pk_f64v);
  double (*scalar)(double);
} Function;
#define ROW(name, bound, least, most, exact) \
  {#name, bound, least, most, exact, pk_##name##_f64, pks_##name##_f64},
static const Function functions[] = {FUNCTIONS(ROW)};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions, ROUNDS = 2000 };

static uint64_t state = 12345;
static uint64_t next_bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
static double next_unit(void) { return (double)(next_bits() >> 11) * 0x1p-53; }

/* Between the ends: evenly, or evenly in the exponent where that is near 0. */
static double argument(const Function *f, int round) {
  double even = f->least + (f->most - f->least) * next_unit();
  if (round % 2) return even;
  double small = even * ldexp(1, -(int)(next_bits() % 60));
  return small < f->least ? f->least : small > f->most ? f->most : small;
}

static double spacing(double x) {
  double size = fabs(x);
  return size < 0x1p-1021 ? 0x1p-1074 : nextafter(size, INFINITY) - size;
}

static bool same(double a, double b) {
  return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static bool is_near(const Function *f, double got, double x) {
  long double want = f->exact((long double)x);
  double rounded = (double)want;
  if (!isfinite(rounded) || !isfinite(got)) return same(got, rounded) || fabsl(want) > 1.7e308L;
  return fabsl((long double)got - want) <= (long double)(f->bound * spacing(rounded));
}

static void check_lanes(const Function *f, const double *x) {
  double got[PK_LANES];
  pk_f64v v;
  memcpy(&v, x, sizeof v);
  v = f->vector(v);
  memcpy(got, &v, sizeof got);
  for (int k = 0; k < PK_LANES; k++) {
    check(is_near(f, got[k], x[k]), f->name, "%d bytes: at %a: %a", PK_VEC_BYTES, x[k], got[k]);
    double one = f->scalar(x[k]);
    check(same(one, got[k]), f->name, "%d bytes: at %a: one element %a, a lane %a", PK_VEC_BYTES,
          x[k], one, got[k]);
  }
}

static void test_functions(void) {
  double x[PK_LANES];
  for (int f = 0; f < FUNCTION_COUNT; f++)
    for (int round = 0; round < ROUNDS; round++) {
      for (int k = 0; k < PK_LANES; k++) x[k] = argument(&functions[f], round);
      check_lanes(&functions[f], x);
    }
}

/* Of two operands: X(name, bound, what it is). */
#define PAIR_FUNCTIONS(X) X(pow, 1, powl) X(atan2, 2, atan2l) X(hypot, 1.5, hypotl)
typedef struct {
  const char *name;
  double bound;
  long double (*exact)(long double, long double);
  pk_f64v (*vector)(pk_f64v, pk_f64v);
  double (*scalar)(double, double);
} PairFunction;
#define PAIR_ROW(name, bound, exact) {#name, bound, exact, pk_##name##_f64, pks_##name##_f64},
static const PairFunction pair_functions[] = {PAIR_FUNCTIONS(PAIR_ROW)};
enum { PAIR_FUNCTION_COUNT = sizeof pair_functions / sizeof *pair_functions };

static bool is_near_pair(const PairFunction *f, double got, double x, double y) {
  long double want = f->exact((long double)x, (long double)y);
  double rounded = (double)want;
  if (!isfinite(rounded) || !isfinite(got)) return same(got, rounded) || fabsl(want) > 1.7e308L;
  return fabsl((long double)got - want) <= (long double)(f->bound * spacing(rounded));
}

static void apply_to_pairs(pk_f64v (*vector)(pk_f64v, pk_f64v), const double *x, const double *y,
                           double *got) {
  pk_f64v v, w;
  memcpy(&v, x, sizeof v);
  memcpy(&w, y, sizeof w);
  v = vector(v, w);
  memcpy(got, &v, sizeof v);
}

static void check_pair_lanes(const PairFunction *f, const double *x, const double *y) {
  double got[PK_LANES];
  apply_to_pairs(f->vector, x, y, got);
  for (int k = 0; k < PK_LANES; k++) {
    check(is_near_pair(f, got[k], x[k], y[k]), f->name, "%d bytes: at %a, %a: %a", PK_VEC_BYTES,
          x[k], y[k], got[k]);
    double one = f->scalar(x[k], y[k]);
    check(same(one, got[k]), f->name, "%d bytes: at %a, %a: one element %a, a lane %a",
          PK_VEC_BYTES, x[k], y[k], one, got[k]);
  }
}

/* Operands of which powers are mostly finite; every fourth time of any exponent. */
static void draw_pair(int round, double *x, double *y) {
  double size = exp2((next_unit() - 0.5) * (round % 4 ? 40 : 2000));
  double most = 1100 / (fabs(log2(size)) + 1e-3);
  *x = round % 3 ? size : -size;
  *y = (next_unit() - 0.5) * 2 * (round % 2 ? most : 10);
  if (round % 3 == 0) *y = rint(*y);
  if (round % 5 == 0) *x = 1 + (next_unit() - 0.5) * 0x1p-20, *y = (next_unit() - 0.5) * 0x1p29;
  if (round % 7 == 0) *y = *x * (1 + next_unit());
}

static void test_pair_functions(void) {
  double x[PK_LANES], y[PK_LANES];
  for (int f = 0; f < PAIR_FUNCTION_COUNT; f++)
    for (int round = 0; round < 3 * ROUNDS; round++) {
      for (int k = 0; k < PK_LANES; k++) draw_pair(round, &x[k], &y[k]);
      check_pair_lanes(&pair_functions[f], x, y);
    }
}

static void each_special_pair(void (*visit)(const double *, const double *)) {
  static const double values[] = {
      0.0,    -0.0,       INFINITY, -INFINITY, NAN,    5e-324,      -5e-324,     1e-310, 1e308,
      -1e308, 1,          -1,       2,         -2,     3,           -3,          0.5,    -0.5,
      0x1p30, 0x1p31 + 1, 0x1p53,   1e-200,    -1e200, 1 + 0x1p-52, 1 - 0x1p-53, 1024,   -1074};
  enum { COUNT = sizeof values / sizeof *values };
  double x[PK_LANES], y[PK_LANES];
  for (int first = 0; first < COUNT * COUNT; first++) {
    for (int k = 0; k < PK_LANES; k++) {
      x[k] = values[(first + k) % COUNT];
      y[k] = values[(first / COUNT + (k & 1)) % COUNT];
    }
    visit(x, y);
  }
}
static void special_pair(const double *x, const double *y) {
  for (int f = 0; f < PAIR_FUNCTION_COUNT; f++) check_pair_lanes(&pair_functions[f], x, y);
}
static void test_special_pairs(void) { each_special_pair(special_pair); }

static void test_specials(void) {
  static const double values[] = {0.0,     -0.0,    INFINITY, -INFINITY, NAN,       5e-324,
                                  -5e-324, 1e-310,  1e308,    -1e308,    0x1p-1022, 710,
                                  -746,    1e22,    -1,       1,         0.5,       -0.5,
                                  0x1p20,  1048577, 1e-20,    0x1p53,    2.5,       -1.5};
  enum { COUNT = sizeof values / sizeof *values };
  double x[PK_LANES];
  for (int f = 0; f < FUNCTION_COUNT; f++)
    for (int first = 0; first < COUNT; first++) {
      for (int k = 0; k < PK_LANES; k++) x[k] = values[(first + k) % COUNT];
      check_lanes(&functions[f], x);
    }
}

/* Quotients and remainders, which must have exactly these bits. */
typedef struct {
  const char *name;
  double (*exact)(double, double);
  pk_f64v (*vector)(pk_f64v, pk_f64v);
  double (*scalar)(double, double);
} Quotient;
static const Quotient quotients[] = {
    {"rem", fmod, pk_rem_f64, pks_rem_f64},
    {"mod", pk_f64_mod, pk_mod_f64, pks_mod_f64},
    {"floordiv", pk_f64_floordiv_f64, pk_floordiv_f64, pks_floordiv_f64}};

static void check_quotient(const Quotient *q, const double *x, const double *y) {
  double got[PK_LANES];
  apply_to_pairs(q->vector, x, y, got);
  for (int k = 0; k < PK_LANES; k++) {
    const double want = q->exact(x[k], y[k]), one = q->scalar(x[k], y[k]);
    check(same(got[k], want), q->name, "%d bytes: of %a, %a: %a, not %a", PK_VEC_BYTES, x[k], y[k],
          got[k], want);
    check(same(one, want), q->name, "%d bytes: of %a, %a: one element is %a, not %a", PK_VEC_BYTES,
          x[k], y[k], one, want);
  }
}

static void special_quotient(const double *x, const double *y) {
  for (size_t q = 0; q < sizeof quotients / sizeof *quotients; q++)
    check_quotient(&quotients[q], x, y);
}
static double some_number(void) {
  const double size = ldexp(1 + next_unit(), (int)(next_bits() % 2090) - 1060);
  return next_bits() % 2 ? size : -size;
}
/* Quotients of all sizes, next to integers and to halves, of numbers with few and with all bits. */
static void draw_quotient(int round, double *x, double *y) {
  const double whole = floor(ldexp(next_unit(), (int)(next_bits() % 56)));
  *y = round % 5 == 0 ? some_number() : (next_unit() - 0.5) * (round % 3 ? 1 : 1e-3);
  if (round % 7 == 0) *y = (double)(int64_t)(*y * 1e3);
  *x = round % 11 == 0 ? some_number() : whole * *y;
  if (round % 4 == 1) *x = nextafter(*x, -INFINITY);
  if (round % 4 == 2) *x = nextafter(*x, INFINITY);
  if (round % 4 == 3) *x += *y * (next_bits() % 2 ? 0.5 : next_unit());
  if (next_bits() % 2) *x = -*x;
}
static void test_quotients(void) {
  double x[PK_LANES], y[PK_LANES];
  each_special_pair(special_quotient);
  for (size_t q = 0; q < sizeof quotients / sizeof *quotients; q++)
    for (int round = 0; round < 6 * ROUNDS; round++) {
      for (int k = 0; k < PK_LANES; k++) draw_quotient(round, &x[k], &y[k]);
      check_quotient(&quotients[q], x, y);
    }
}

static void test_fma(void) {
  double x[3][PK_LANES], got[PK_LANES];
  pk_f64v v[3];
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < PK_LANES; k++) x[i][k] = next_unit() - 0.5;
    memcpy(v, x, sizeof x);
    v[0] = pk_fma_f64(v[0], v[1], v[2]);
    memcpy(got, v, sizeof got);
    for (int k = 0; k < PK_LANES; k++)
      check(same(got[k], fma(x[0][k], x[1][k], x[2][k])), "fma", "%d bytes: %a * %a + %a is %a",
            PK_VEC_BYTES, x[0][k], x[1][k], x[2][k], got[k]);
  }
}

/* By constants: of the least and greatest numbers, of those next to multiples, and of any. */
#define BY_CONSTANT(d)                                                                            \
  for (int n = 0; n < 400; n++) {                                                                 \
    int64_t x[PK_LANES], got[8][PK_LANES];                                                        \
    for (int k = 0; k < PK_LANES; k++) {                                                          \
      const uint64_t any = next_bits();                                                           \
      x[k] = (int64_t)(n % 4 == 0   ? any                                                         \
                       : n % 4 == 1 ? any % 64 - 32                                               \
                       : n % 4 == 2 ? (UINT64_C(1) << 63) + any % 64 - 32                         \
                                    : any / (uint64_t)(d) * (uint64_t)(d) + any % 3 - 1);         \
    }                                                                                             \
    const pk_i64v v = pk_load_i64(x);                                                             \
    const pk_i64v all[8] = {pk_div_constant_i64(v, d),                                            \
                            pk_rem_constant_i64(v, d),                                            \
                            pk_floordiv_constant_i64(v, d),                                       \
                            pk_mod_constant_i64(v, d),                                            \
                            pk_div_constant_u64(v, (uint64_t)(d)),                                \
                            pk_rem_constant_u64(v, (uint64_t)(d)),                                \
                            pk_floordiv_constant_u64(v, (uint64_t)(d)),                           \
                            pk_mod_constant_u64(v, (uint64_t)(d))};                               \
    memcpy(got, all, sizeof got);                                                                 \
    for (int k = 0; k < PK_LANES; k++) {                                                          \
      const int64_t q = x[k] / (d), r = x[k] % (d), less = r != 0 && (r < 0) != ((d) < 0);        \
      const uint64_t u = (uint64_t)x[k], w = u / (uint64_t)(d), s = u % (uint64_t)(d);            \
      check(got[0][k] == q && got[1][k] == r && got[2][k] == q - less &&                          \
                got[3][k] == r + less * (d) && (uint64_t)got[4][k] == w &&                        \
                (uint64_t)got[5][k] == s && (uint64_t)got[6][k] == w && (uint64_t)got[7][k] == s, \
            "by_constant", "%d bytes: %lld by %lld", PK_VEC_BYTES, (long long)x[k],               \
            (long long)(d));                                                                      \
    }                                                                                             \
  }
static void test_constants(void) {
  BY_CONSTANT(INT64_C(2))
  BY_CONSTANT(INT64_C(-2))
  BY_CONSTANT(INT64_C(3))
  BY_CONSTANT(INT64_C(-7))
  BY_CONSTANT(INT64_C(10))
  BY_CONSTANT(INT64_C(4096))
  BY_CONSTANT(INT64_C(-4096))
  BY_CONSTANT(INT64_C(4294967297))
  BY_CONSTANT(INT64_C(-1000000007))
  BY_CONSTANT(INT64_C(4611686018427387905))
  BY_CONSTANT(INT64_MAX)
  BY_CONSTANT(-INT64_MAX)
}

/* Rounded to odd in f32: next to floats, to the middle between two, subnormal, beyond the largest.
 */
static uint64_t draw_bits(int round) {
  const uint64_t bits = next_bits() << 32 ^ next_bits();
  const int places = (int)(next_bits() % 64);
  const uint64_t few = bits >> places << places;
  return round % 3 == 0 ? bits : round % 3 == 1 ? few : few + (next_bits() % 2 ? 1 : (uint64_t)-1);
}
static double draw_wide(int round) {
  static const double special[] = {0,        -0.0,     INFINITY,   -INFINITY,     NAN,
                                   0x1p-149, 0x1p-150, 0x1.8p-150, -0x1p-1074,    0x1p-126,
                                   FLT_MAX,  1e300,    -DBL_MAX,   0x1.ffffffp127};
  if (round % 7 == 0) return special[next_bits() % (sizeof special / sizeof *special)];
  const uint64_t bits = draw_bits(round) & (UINT64_MAX >> 12), sign = (next_bits() & 1) << 63;
  const uint64_t exponent = (1023 - 155 + next_bits() % 290) << 52;
  double x;
  memcpy(&x, &(uint64_t){sign | exponent | bits}, sizeof x);
  return x;
}
static void test_odd(void) {
  double x[PK_LANES];
  uint64_t n[PK_LANES];
  float got[3][PK_LANES];
  for (int round = 0; round < 20 * ROUNDS; round++) {
    for (int k = 0; k < PK_LANES; k++) x[k] = draw_wide(round), n[k] = draw_bits(round);
    pk_f64v v;
    pk_i64v w;
    memcpy(&v, x, sizeof v);
    memcpy(&w, n, sizeof w);
    const pk_f32v odd[3] = {pk_odd_f64(v), pk_odd_u64(w), pk_odd_i64(w)};
    memcpy(got, odd, sizeof got);
    for (int k = 0; k < PK_LANES; k++) {
      check(same((double)got[0][k], (double)pks_odd_f64(x[k])), "odd_f64", "%d bytes: of %a: %a",
            PK_VEC_BYTES, x[k], (double)got[0][k]);
      check(got[1][k] == pks_odd_u64(n[k]), "odd_u64", "%d bytes: of %llu: %a", PK_VEC_BYTES,
            (unsigned long long)n[k], (double)got[1][k]);
      check(got[2][k] == pks_odd_i64((int64_t)n[k]), "odd_i64", "%d bytes: of %lld: %a",
            PK_VEC_BYTES, (long long)n[k], (double)got[2][k]);
    }
  }
}

#define INTEGERS(X) \
  X(add)            \
  X(sub)            \
  X(mul)            \
  X(div) X(rem) X(floordiv) X(mod) X(pow) X(and) X(or) X(xor) X(shl) X(shr) X(ushr) X(max) X(min)
typedef struct {
  const char *name;
  pk_i64v (*vector)(pk_i64v, pk_i64v);
  int64_t (*scalar)(int64_t, int64_t);
  pk_i64v (*vector_u64)(pk_i64v, pk_i64v);
  uint64_t (*scalar_u64)(uint64_t, uint64_t);
} Pair;
#define PAIR(name) {#name, pk_##name##_i64, pk_idx_##name, pk_##name##_u64, pks_##name##_u64},
static const Pair pairs[] = {INTEGERS(PAIR)};

static int64_t integer(int round) {
  static const int64_t edges[] = {0, 1, -1, 2, 63, 64, 65, -63, -64, INT64_MIN, INT64_MAX, 1 << 20};
  uint64_t bits = next_bits();
  return round % 2 ? edges[bits % (sizeof edges / sizeof *edges)]
                   : (int64_t)(next_bits() >> bits % 64);
}

/* Every fourth pair is a multiple of the second one, or next to it. */
static void draw_integers(int round, int64_t *a, int64_t *b) {
  *a = integer(round / 2), *b = integer(round);
  const uint64_t times = next_bits() >> next_bits() % 64, off = next_bits() % 3 - 1;
  if (round % 4 == 3 && *b != 0) *a = (int64_t)(times / (uint64_t)*b * (uint64_t)*b + off);
}

static void test_integers(void) {
  int64_t a[PK_LANES], b[PK_LANES], got[PK_LANES];
  pk_i64v v, w, r;
  for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
    for (int round = 0; round < 3 * ROUNDS; round++) {
      for (int k = 0; k < PK_LANES; k++) draw_integers(round, &a[k], &b[k]);
      memcpy(&v, a, sizeof v);
      memcpy(&w, b, sizeof w);
      r = pairs[p].vector(v, w);
      memcpy(got, &r, sizeof got);
      for (int k = 0; k < PK_LANES; k++)
        check(got[k] == pairs[p].scalar(a[k], b[k]), pairs[p].name, "%d bytes: %lld, %lld: %lld",
              PK_VEC_BYTES, (long long)a[k], (long long)b[k], (long long)got[k]);
      r = pairs[p].vector_u64(v, w);
      memcpy(got, &r, sizeof got);
      for (int k = 0; k < PK_LANES; k++)
        check((uint64_t)got[k] == pairs[p].scalar_u64((uint64_t)a[k], (uint64_t)b[k]),
              pairs[p].name, "%d bytes, unsigned: %lld, %lld: %lld", PK_VEC_BYTES, (long long)a[k],
              (long long)b[k], (long long)got[k]);
    }
}

/* -- conversions: those of one element, and of the C language where it defines them */

typedef union {
  double f64[PK_LANES];
  int64_t i64[PK_LANES];
  uint64_t u64[PK_LANES];
  float f32[PK_LANES];
  int32_t i32[PK_LANES];
  uint32_t u32[PK_LANES];
} Lanes;
#define CONVERSION(name, from, vector, to, expected)                            \
  static void convert_##name(const Lanes *x) {                                  \
    vector a;                                                                   \
    Lanes got;                                                                  \
    memcpy(&a, x, sizeof a);                                                    \
    __typeof__(pk_cast_##name(a)) r = pk_cast_##name(a);                        \
    memcpy(&got, &r, sizeof r);                                                 \
    for (int k = 0; k < PK_LANES; k++) {                                        \
      const __typeof__(x->from[0]) value = x->from[k];                          \
      const __typeof__(got.to[0]) want = (__typeof__(got.to[0]))(expected);     \
      check(memcmp(&got.to[k], &want, sizeof want) == 0, #name,                 \
            "%d bytes: of lane %d of %a, %lld", PK_VEC_BYTES, k, x->f64[k / 2], \
            (long long)x->i64[k / 2]);                                          \
    }                                                                           \
  }
CONVERSION(f64_i64, f64, pk_f64v, i64, pks_cast_f64_i64(value))
CONVERSION(f64_u64, f64, pk_f64v, u64, pks_cast_f64_u64(value))
CONVERSION(f64_i32, f64, pk_f64v, i32, pks_cast_f64_i32(value))
CONVERSION(f64_u32, f64, pk_f64v, u32, pks_cast_f64_u32(value))
CONVERSION(f64_i8, f64, pk_f64v, i32, pks_cast_f64_i8(value))
CONVERSION(f64_u16, f64, pk_f64v, u32, pks_cast_f64_u16(value))
CONVERSION(i64_f64, i64, pk_i64v, f64, value)
CONVERSION(u64_f64, u64, pk_i64v, f64, value)
CONVERSION(i64_f32, i64, pk_i64v, f32, value)
CONVERSION(u64_f32, u64, pk_i64v, f32, value)
CONVERSION(i32_f64, i32, pk_i32v, f64, value)
CONVERSION(u32_f64, u32, pk_i32v, f64, value)
static void (*const from_f64[])(const Lanes *) = {convert_f64_i64, convert_f64_u64,
                                                  convert_f64_i32, convert_f64_u32,
                                                  convert_f64_i8,  convert_f64_u16};
static void (*const from_integers[])(const Lanes *) = {convert_i64_f64, convert_u64_f64,
                                                       convert_i64_f32, convert_u64_f32,
                                                       convert_i32_f64, convert_u32_f64};

/* Next to powers of two, where results saturate, of all sizes. */
static double draw_number(int round) {
  const double power = ldexp(1, (int)(next_bits() % 70)), sign = next_bits() % 2 ? 1 : -1;
  if (round % 4 == 0) return draw_wide(round);
  if (round % 4 == 1) return sign * (power + (double)(next_bits() % 5) - 2);
  if (round % 4 == 2) return sign * nextafter(power, next_bits() % 2 ? INFINITY : 0);
  return sign * power * next_unit();
}
static void test_conversions(void) {
  Lanes x;
  for (int round = 0; round < 20 * ROUNDS; round++) {
    for (int k = 0; k < PK_LANES; k++) x.f64[k] = draw_number(round);
    for (size_t c = 0; c < sizeof from_f64 / sizeof *from_f64; c++) from_f64[c](&x);
    for (int k = 0; k < PK_LANES; k++)
      x.u64[k] = round % 3 ? draw_bits(round) >> next_bits() % 64 : (uint64_t)integer(round);
    for (int k = 0; k < PK_LANES; k++)
      if (next_bits() % 2) x.u64[k] = 0 - x.u64[k];
    for (size_t c = 0; c < sizeof from_integers / sizeof *from_integers; c++) from_integers[c](&x);
  }
}

typedef struct {
  const char *name;
  pk_f64v (*vector)(pk_f64v, pk_f64v);
  double (*scalar)(double, double);
} Extreme;
static const Extreme extremes[] = {{"max", pk_max_f64, pks_max_f64},
                                   {"min", pk_min_f64, pks_min_f64}};
static void special_extreme(const double *x, const double *y) {
  double got[PK_LANES];
  for (size_t e = 0; e < sizeof extremes / sizeof *extremes; e++) {
    apply_to_pairs(extremes[e].vector, x, y, got);
    for (int k = 0; k < PK_LANES; k++)
      check(same(got[k], extremes[e].scalar(x[k], y[k])), extremes[e].name, "%d bytes: %a, %a: %a",
            PK_VEC_BYTES, x[k], y[k], got[k]);
  }
}

int main(void) {
  test_conversions();
  each_special_pair(special_extreme);
  test_functions();
  test_specials();
  test_pair_functions();
  test_special_pairs();
  test_quotients();
  test_fma();
  test_odd();
  test_constants();
  test_integers();
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
