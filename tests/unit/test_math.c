/* The functions of math.h against libm in double: largest errors, special values, and the scalar
 * counterparts, at every width. `test_math table` prints the errors over a finer stride and the
 * time of 16 elements; `test_math exhaustive [NAME ..]` the largest error over all 2^32 floats, on
 * every thread there is. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pk/rt.h>
#include <pk/vec.h>
#include <pk/scalar.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

static void expect(bool holds, const char *what, float a, float b) {
  check(holds, what, "%d bytes: at %a, %a", PK_VEC_BYTES, (double)a, (double)b);
}

static double exact_logistic(double x) { return 1 / (1 + exp(-x)); }
static double exact_erf_inv(double x) {
  if (isnan(x) || fabs(x) > 1) return NAN;
  if (fabs(x) == 1 || fabs(x) < 1e-8)
    return x * (fabs(x) == 1 ? (double)INFINITY : 0.88622692545275801);
  double low = 0, high = 6; /* bisection, which always converges */
  for (int i = 0; i < 60; i++) {
    double y = (low + high) / 2;
    bool below = fabs(x) < 0.5 ? erf(y) < fabs(x) : erfc(y) > 1 - fabs(x);
    if (below)
      low = y;
    else
      high = y;
  }
  return copysign((low + high) / 2, x);
}
static double exact_exp10(double x) { return pow(10, x); }
static double exact_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double exact_log_sigmoid(double x) { return -exact_softplus(-x); }
static double exact_rsqrt(double x) { return 1 / sqrt(x); }

/* X(name, bounds in units in the last place with one-instruction fused multiply-add and without,
 * what it is in binary64). */
#define UNARY_FUNCTIONS(X)                    \
  X(exp, 1.1, 1.0, exp)                       \
  X(exp2, 1.0, 1.25, exp2)                    \
  X(expm1, 1.5, 1.6, expm1)                   \
  X(log, 1.0, 1.0, log)                       \
  X(log2, 1.0, 1.2, log2)                     \
  X(log1p, 1.0, 1.2, log1p)                   \
  X(tanh, 1.7, 1.7, tanh)                     \
  X(logistic, 2.8, 2.4, exact_logistic)       \
  X(erf, 1.15, 1.2, erf)                      \
  X(sin, 1.6, 1.6, sin)                       \
  X(cos, 1.6, 1.6, cos)                       \
  X(tan, 0.51, 0.51, tan)                     \
  X(sinh, 0.51, 0.51, sinh)                   \
  X(cosh, 0.51, 0.51, cosh)                   \
  X(asinh, 0.51, 0.51, asinh)                 \
  X(acosh, 0.51, 0.51, acosh)                 \
  X(atanh, 0.51, 0.51, atanh)                 \
  X(log10, 0.51, 0.51, log10)                 \
  X(cbrt, 0.51, 0.51, cbrt)                   \
  X(asin, 0.51, 0.51, asin)                   \
  X(acos, 0.51, 0.51, acos)                   \
  X(atan, 1.2, 1.2, atan)                     \
  X(erfc, 0.51, 0.51, erfc)                   \
  X(erf_inv, 0.53, 0.53, exact_erf_inv)       \
  X(exp10, 0.51, 0.51, exact_exp10)           \
  X(softplus, 2.4, 1.7, exact_softplus)       \
  X(log_sigmoid, 2.4, 1.7, exact_log_sigmoid) \
  X(rsqrt, 1.5, 1.5, exact_rsqrt)
#define BINARY_FUNCTIONS(X) \
  X(pow, 0.51, pow)         \
  X(hypot, 0.51, hypot)     \
  X(atan2, 0.51, atan2)

/* A function from memory to memory. */
typedef void VectorFunction(float *to, const float *a, const float *b, int count);
#define UNARY(name, fused, separate, exact)                                         \
  static void vector_##name(float *to, const float *a, const float *b, int count) { \
    (void)b;                                                                        \
    for (int i = 0; i < count; i += PK_LANES)                                       \
      pk_store_f32(to + i, pk_##name##_f32(pk_load_f32(a + i)));                    \
  }
#define BINARY(name, bound, exact)                                                   \
  static void vector_##name(float *to, const float *a, const float *b, int count) {  \
    for (int i = 0; i < count; i += PK_LANES)                                        \
      pk_store_f32(to + i, pk_##name##_f32(pk_load_f32(a + i), pk_load_f32(b + i))); \
  }
UNARY_FUNCTIONS(UNARY)
BINARY_FUNCTIONS(BINARY)

typedef struct {
  const char *name;
  double fused, separate;
  VectorFunction *vector;
  float (*scalar)(float);
  double (*exact)(double);
} Unary;
#define UNARY_ROW(name, fused, separate, exact) \
  {#name, fused, separate, vector_##name, pks_##name##_f32, exact},
static const Unary unary[] = {UNARY_FUNCTIONS(UNARY_ROW)};
typedef struct {
  const char *name;
  double bound;
  VectorFunction *vector;
  float (*scalar)(float, float);
  double (*exact)(double, double);
} Binary;
#define BINARY_ROW(name, bound, exact) {#name, bound, vector_##name, pks_##name##_f32, exact},
static const Binary binary[] = {BINARY_FUNCTIONS(BINARY_ROW)};
enum { UNARIES = sizeof unary / sizeof unary[0], BINARIES = sizeof binary / sizeof binary[0] };

static bool same_f32(float a, float b) {
  return (isnan(a) && isnan(b)) || pk_bits_of_f32(a) == pk_bits_of_f32(b);
}

/* How far `got` is from `exact`, in units of the last place of a float there; a wrong NaN, infinity
 * or sign of zero is far. */
static double error_of(float got, double exact) {
  float nearest = (float)exact;
  if (same_f32(got, nearest))
    return isfinite(got) && nearest != 0
               ? fabs((double)got - exact) /
                     ldexp(1, ilogb(exact) < -126 ? -149 : ilogb(exact) - 23)
               : 0;
  if (isnan(exact) || isnan(got)) return 1e9;
  if (isinf(got) != isinf(nearest))
    return fabs(exact) > 0x1.fffffdp127 && fabs(exact) < 0x1.000001p128 &&
                   !signbit(got) == !signbit(nearest)
               ? 1
               : 1e9;
  if (got == 0 && nearest == 0) return 1e9;
  return fabs((double)got - exact) / ldexp(1, ilogb(exact) < -126 ? -149 : ilogb(exact) - 23);
}

static const float specials[] = {0.0f,
                                 -0.0f,
                                 1,
                                 -1,
                                 0x1p-149f,
                                 -0x1p-149f,
                                 0x1.fffffcp-127f,
                                 -0x1.fffffcp-127f,
                                 0x1p-126f,
                                 -0x1p-126f,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 0.5f,
                                 -0.5f,
                                 2,
                                 -2,
                                 3,
                                 -3,
                                 2.5f,
                                 -126,
                                 -127,
                                 -149,
                                 -149.5f,
                                 -150,
                                 -151,
                                 127.99999f,
                                 128,
                                 88.72283f,
                                 88.72284f,
                                 -87.33655f,
                                 -103.97208f,
                                 -103.97209f,
                                 -104,
                                 0x1.fffffep127f,
                                 -0x1.fffffep127f,
                                 0x1.921fb6p0f,
                                 0x1p20f,
                                 0x1.000002p20f,
                                 0x1p24f,
                                 16777217.0f,
                                 8388607.0f,
                                 1e30f,
                                 0.99999994f,
                                 1.0000001f,
                                 9.0f,
                                 -9.0f,
                                 0x1p-25f,
                                 0x1p-13f,
                                 -0x1p-12f,
                                 4.0f,
                                 0.54f,
                                 0.925f,
                                 0.9f,
                                 -0.3f,
                                 0.02f,
                                 0.25f,
                                 11,
                                 89.4f,
                                 -0.99999994f};
enum { SPECIALS = sizeof specials / sizeof specials[0] };

static void test_unary_specials(void) {
  for (int f = 0; f < UNARIES; f++)
    for (int s = 0; s < SPECIALS; s++) {
      float in[PK_LANES], out[PK_LANES];
      for (int k = 0; k < PK_LANES; k++)
        in[k] = specials[(s + k) % SPECIALS]; /* the result must not depend on other lanes */
      unary[f].vector(out, in, in, PK_LANES);
      double bound = PK_HAS_FMA ? unary[f].fused : unary[f].separate;
      expect(error_of(out[0], unary[f].exact((double)in[0])) <= bound, unary[f].name, in[0], 0);
      for (int k = 0; k < PK_LANES; k++)
        expect(same_f32(out[k], unary[f].scalar(in[k])), "as a scalar", in[k], 0);
    }
}
static void test_binary_specials(void) {
  for (int f = 0; f < BINARIES; f++)
    for (int s = 0; s < SPECIALS * SPECIALS; s++) {
      float a[PK_LANES], b[PK_LANES], out[PK_LANES];
      for (int k = 0; k < PK_LANES; k++)
        a[k] = specials[(s / SPECIALS + k) % SPECIALS],
        b[k] = specials[(s % SPECIALS + k) % SPECIALS];
      binary[f].vector(out, a, b, PK_LANES);
      expect(error_of(out[0], binary[f].exact((double)a[0], (double)b[0])) <= binary[f].bound,
             binary[f].name, a[0], b[0]);
      for (int k = 0; k < PK_LANES; k++)
        expect(same_f32(out[k], binary[f].scalar(a[k], b[k])), "as a scalar", a[k], b[k]);
    }
}

/* The largest error over every `stride`-th float. */
static double unary_error(const Unary *f, uint32_t stride, float *where) {
  double most = 0;
  for (uint64_t bits = 0; bits < 0x100000000u; bits += (uint64_t)stride * PK_LANES) {
    float in[PK_LANES], out[PK_LANES];
    for (int k = 0; k < PK_LANES; k++)
      in[k] = pk_f32_of_bits((uint32_t)bits + stride * (uint32_t)k);
    f->vector(out, in, in, PK_LANES);
    for (int k = 0; k < PK_LANES; k++) {
      double error = error_of(out[k], f->exact((double)in[k]));
      if (error > most) most = error, *where = in[k];
    }
  }
  return most;
}
static double binary_error(const Binary *f, int count, float *where) {
  double most = 0;
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < count; i++) {
    float a[PK_LANES], b[PK_LANES], out[PK_LANES];
    for (int k = 0; k < PK_LANES; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      uint32_t x = (uint32_t)(state >> 32), y = (uint32_t)(state >> 16);
      a[k] = pk_f32_of_bits(i % 2 ? (x & 0x83ffffffu) | 0x3c000000u
                                  : x); /* half of them of moderate size */
      b[k] = pk_f32_of_bits(i % 2 ? (y & 0x83ffffffu) | 0x3e000000u : y);
      if (i % 8 == 1) b[k] = nearbyintf(b[k]);
    }
    f->vector(out, a, b, PK_LANES);
    for (int k = 0; k < PK_LANES; k++) {
      double error = error_of(out[k], f->exact((double)a[k], (double)b[k]));
      if (error > most) most = error, *where = a[k];
    }
  }
  return most;
}

static void test_errors(void) {
  float where = 0;
  for (int f = 0; f < UNARIES; f++) {
    double error = unary_error(&unary[f], 30011, &where);
    expect(error <= (PK_HAS_FMA ? unary[f].fused : unary[f].separate), unary[f].name, where,
           (float)error);
  }
  for (int f = 0; f < BINARIES; f++) {
    double error = binary_error(&binary[f], 40000 / PK_LANES, &where);
    expect(error <= binary[f].bound, binary[f].name, where, (float)error);
  }
}

/* -- functions of floats of 16 bits, over all of them; X(name, the function in binary64) */

#define NARROW_FUNCTIONS(X) \
  X(tanh, tanh)             \
  X(erf, erf)               \
  X(erfc, erfc)             \
  X(log, log)               \
  X(log2, log2)             \
  X(log10, log10)           \
  X(atanh, atanh)           \
  X(erf_inv, exact_erf_inv) \
  X(atan, atan)             \
  X(asin, asin)             \
  X(acos, acos)             \
  X(sin, sin)               \
  X(cos, cos)
typedef struct {
  const char *name;
  double (*exact)(double);
  float (*scalar)(float);
  void (*f16)(uint16_t *to, const uint16_t *a);
  void (*bf16)(uint16_t *to, const uint16_t *a);
} Narrow;
#define NARROW_OF(name, t)                                                      \
  static void name##_##t(uint16_t *to, const uint16_t *a) {                     \
    pk_store_##t((void *)to, pk_##name##_narrow(pk_load_##t((const void *)a))); \
  }
#define NARROW(name, exact) NARROW_OF(name, f16) NARROW_OF(name, bf16)
NARROW_FUNCTIONS(NARROW)
#define NARROW_ROW(name, exact) {#name, exact, pks_##name##_narrow, name##_f16, name##_bf16},
static const Narrow narrow[] = {NARROW_FUNCTIONS(NARROW_ROW)};
enum { NARROWS = sizeof narrow / sizeof narrow[0] };

/* In units of the last place of a float of `digits` bits whose least one is 2^least. */
static double narrow_error(double got, double exact, double most, int digits, int least) {
  if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : 1e9;
  if (isinf(got)) return got * exact > 0 && fabs(exact) > most ? 0 : 1e9;
  if (exact == 0) return got == 0 && !signbit(got) == !signbit(exact) ? 0 : 1e9;
  const int place = ilogb(exact) + 1 - digits;
  return fabs(got - exact) / ldexp(1, place < least ? least : place);
}
static void test_narrow_at(const Narrow *f, uint32_t bits) {
  uint16_t in[PK_LANES], half[PK_LANES], brain[PK_LANES];
  for (int k = 0; k < PK_LANES; k++) in[k] = (uint16_t)(bits + (uint32_t)k);
  f->f16(half, in);
  f->bf16(brain, in);
  for (int k = 0; k < PK_LANES; k++) {
    const float a = pks_load_f16((const void *)&in[k]), b = pks_load_bf16((const void *)&in[k]);
    const float of_a = pks_load_f16((const void *)&half[k]),
                of_b = pks_load_bf16((const void *)&brain[k]);
    expect(narrow_error((double)of_a, f->exact((double)a), 65519, 11, -24) <= 0.51, f->name, a,
           of_a);
    expect(narrow_error((double)of_b, f->exact((double)b), 0x1.fe8p127, 8, -133) <= 0.51, f->name,
           b, of_b);
    expect(same_f32(pks_round_f16(f->scalar(a)), of_a), "as a scalar", a, of_a);
    expect(same_f32(pks_round_bf16(f->scalar(b)), of_b), "as a scalar", b, of_b);
  }
}
static void test_narrow(void) {
  for (int f = 0; f < NARROWS; f++)
    for (uint32_t bits = 0; bits < 0x10000; bits += PK_LANES) test_narrow_at(&narrow[f], bits);
}

/* A wrong value of a neighbour's kind, such as one that takes the slow way, may not change an
 * element. */
static void test_neighbours(void) {
  for (int f = 0; f < UNARIES; f++) {
    float in[PK_LANES], out[PK_LANES];
    for (int k = 0; k < PK_LANES; k++) in[k] = k == 1 ? 1e20f : 0.7f;
    unary[f].vector(out, in, in, PK_LANES);
    for (int k = 0; k < PK_LANES; k++)
      expect(same_f32(out[k], unary[f].scalar(in[k])), unary[f].name, in[k], 1e20f);
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
/* Nanoseconds of 16 elements in L1, the best of several runs; arguments within [least, most]. */
static double time_of(VectorFunction *vector, float least, float most) {
  enum { ELEMENTS = 1024, RUNS = 30, TURNS = 100 };
  static float in[ELEMENTS], out[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) in[i] = least + (most - least) * (float)i / ELEMENTS;
  double best = 1e9;
  for (int run = 0; run < RUNS; run++) {
    double start = seconds();
    for (int turn = 0; turn < TURNS; turn++) vector(out, in, in, ELEMENTS);
    double took = (seconds() - start) * 1e9 / ((double)TURNS * ELEMENTS / 16);
    if (took < best) best = took;
  }
  return best;
}
static void print_table(void) {
  printf("%d bytes, %s\n%-10s %8s %14s %10s\n", PK_VEC_BYTES, PK_HAS_FMA ? "fused" : "separate",
         "function", "max ulp", "at", "ns per 16");
  float where = 0;
  for (int f = 0; f < UNARIES; f++) {
    double error = unary_error(&unary[f], 509, &where);
    bool positive = strncmp(unary[f].name, "log", 3) == 0 || strcmp(unary[f].name, "rsqrt") == 0;
    printf("%-10s %8.3f %14.6g %10.2f\n", unary[f].name, error, (double)where,
           time_of(unary[f].vector, positive && unary[f].name[3] != 'i' ? 0.1f : -4, 4));
  }
  for (int f = 0; f < BINARIES; f++) {
    double error = binary_error(&binary[f], 1000000 / PK_LANES, &where);
    printf("%-10s %8.3f %14.6g %10.2f\n", binary[f].name, error, (double)where,
           time_of(binary[f].vector, 0.1f, 4));
  }
}

/* -- all 2^32 floats */

enum { CHUNK = 1 << 16 };
typedef struct {
  double error;
  float at;
} Worst;

/* An input whose result is the nearest float is within half a unit: no need to measure it. */
static Worst worst_of_chunk(const Unary *f, uint32_t chunk) {
  Worst worst = {0.5, 0};
  for (uint32_t i = 0; i < CHUNK; i += PK_LANES) {
    float in[PK_LANES], out[PK_LANES];
    for (int k = 0; k < PK_LANES; k++) in[k] = pk_f32_of_bits(chunk * CHUNK + i + (uint32_t)k);
    f->vector(out, in, in, PK_LANES);
    for (int k = 0; k < PK_LANES; k++) {
      const double exact = f->exact((double)in[k]);
      const float nearest = (float)exact;
      if (pk_bits_of_f32(out[k]) == pk_bits_of_f32(nearest)) continue;
      const double error = error_of(out[k], exact);
      if (error > worst.error) worst = (Worst){error, in[k]};
    }
  }
  return worst;
}

static Worst worst_of_all(const Unary *f) {
  Worst worst = {0.5, 0};
  int done = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 16)
#endif
  for (uint32_t chunk = 0; chunk < 0x100000000u / CHUNK; chunk++) {
    const Worst here = worst_of_chunk(f, chunk);
#ifdef _OPENMP
#pragma omp critical
#endif
    {
      if (here.error > worst.error) worst = here;
      if (++done % 656 == 0) (void)fprintf(stderr, "\r%-10s %3d %%", f->name, done / 656);
    }
  }
  (void)fputs("\r                \r", stderr);
  return worst;
}

static bool is_wanted(const char *name, int count, char **names) {
  bool wanted = count == 0;
  for (int i = 0; i < count; i++) wanted = wanted || strcmp(names[i], name) == 0;
  return wanted;
}

/* Lines of name, largest error, where. */
static int print_exhaustive(int count, char **names) {
  for (int f = 0; f < UNARIES; f++) {
    if (!is_wanted(unary[f].name, count, names)) continue;
    const Worst worst = worst_of_all(&unary[f]);
    const double bound = PK_HAS_FMA ? unary[f].fused : unary[f].separate;
    printf("%s %.3f %.6g%s\n", unary[f].name, worst.error, (double)worst.at,
           worst.error > bound ? " above its bound" : "");
    (void)fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "table") == 0) return print_table(), 0;
  if (argc > 1 && strcmp(argv[1], "exhaustive") == 0) return print_exhaustive(argc - 2, argv + 2);
  test_unary_specials();
  test_binary_specials();
  test_errors();
  test_narrow();
  test_neighbours();
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
