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
  double low = 0, high = 6; /* bisection: slow and sure */
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
static double exact_rsqrt(double x) { return 1 / sqrt(x); }

/* The widest type's name of a function, its vector in memory, its scalar. */
typedef void VectorFunction(float *to, const float *a, const float *b, int count);
#define UNARY(name)                                                                 \
  static void vector_##name(float *to, const float *a, const float *b, int count) { \
    (void)b;                                                                        \
    for (int i = 0; i < count; i += PK_LANES)                                       \
      pk_store_f32(to + i, pk_##name##_f32(pk_load_f32(a + i)));                    \
  }
#define BINARY(name)                                                                 \
  static void vector_##name(float *to, const float *a, const float *b, int count) {  \
    for (int i = 0; i < count; i += PK_LANES)                                        \
      pk_store_f32(to + i, pk_##name##_f32(pk_load_f32(a + i), pk_load_f32(b + i))); \
  }
UNARY(exp)
UNARY(exp2)
UNARY(expm1)
UNARY(log)
UNARY(log2)
UNARY(log1p)
UNARY(tanh)
UNARY(logistic)
UNARY(erf)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(rsqrt)
UNARY(sinh)
UNARY(cosh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(log10)
UNARY(cbrt)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(erfc)
UNARY(erf_inv)
BINARY(pow)
BINARY(atan2)

/* Bounds in units in the last place: with one-instruction fused multiply-add, and without. */
typedef struct {
  const char *name;
  double fused, separate;
  VectorFunction *vector;
  float (*scalar)(float);
  double (*exact)(double);
} Unary;
static const Unary unary[] = {
    {"exp", 1.1, 1.0, vector_exp, pks_exp_f32, exp},
    {"exp2", 1.0, 1.25, vector_exp2, pks_exp2_f32, exp2},
    {"expm1", 1.5, 1.6, vector_expm1, pks_expm1_f32, expm1},
    {"log", 1.0, 1.0, vector_log, pks_log_f32, log},
    {"log2", 1.0, 1.2, vector_log2, pks_log2_f32, log2},
    {"log1p", 1.0, 1.2, vector_log1p, pks_log1p_f32, log1p},
    {"tanh", 1.7, 1.7, vector_tanh, pks_tanh_f32, tanh},
    {"logistic", 2.8, 2.4, vector_logistic, pks_logistic_f32, exact_logistic},
    {"erf", 1.15, 1.2, vector_erf, pks_erf_f32, erf},
    {"sin", 1.6, 1.6, vector_sin, pks_sin_f32, sin},
    {"cos", 1.6, 1.6, vector_cos, pks_cos_f32, cos},
    {"tan", 0.51, 0.51, vector_tan, pks_tan_f32, tan},
    {"sinh", 0.51, 0.51, vector_sinh, pks_sinh_f32, sinh},
    {"cosh", 0.51, 0.51, vector_cosh, pks_cosh_f32, cosh},
    {"asinh", 0.51, 0.51, vector_asinh, pks_asinh_f32, asinh},
    {"acosh", 0.51, 0.51, vector_acosh, pks_acosh_f32, acosh},
    {"atanh", 0.51, 0.51, vector_atanh, pks_atanh_f32, atanh},
    {"log10", 0.51, 0.51, vector_log10, pks_log10_f32, log10},
    {"cbrt", 0.51, 0.51, vector_cbrt, pks_cbrt_f32, cbrt},
    {"asin", 0.51, 0.51, vector_asin, pks_asin_f32, asin},
    {"acos", 0.51, 0.51, vector_acos, pks_acos_f32, acos},
    {"atan", 0.51, 0.51, vector_atan, pks_atan_f32, atan},
    {"erfc", 0.51, 0.51, vector_erfc, pks_erfc_f32, erfc},
    {"erf_inv", 0.53, 0.53, vector_erf_inv, pks_erf_inv_f32, exact_erf_inv},
    {"rsqrt", 1.5, 1.5, vector_rsqrt, pks_rsqrt_f32, exact_rsqrt},
};
typedef struct {
  const char *name;
  double bound;
  VectorFunction *vector;
  float (*scalar)(float, float);
  double (*exact)(double, double);
} Binary;
static const Binary binary[] = {
    {"pow", 0.51, vector_pow, pks_pow_f32, pow},
    {"atan2", 0.51, vector_atan2, pks_atan2_f32, atan2},
};
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
        in[k] = specials[(s + k) % SPECIALS]; /* neighbours must not matter */
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
  test_neighbours();
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
