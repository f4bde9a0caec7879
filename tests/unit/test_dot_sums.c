// flags: -march=native
/* The order in which products add up floats, bit by bit: parts of PK_DOT_LONG steps, each from 0
 * and in order of k, are added to the result one after the other; a part of fewer than PK_DOT_APART
 * steps continues the result. Every way to multiply gives the same bits, and cutting k at multiples
 * of PK_DOT_LONG changes none. Lanes that share the terms of a sum are held to an error. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PK_DOT_BLOCK 112 /* products of 96 rows go panel by panel */
#include <pk/dot/bf16.h>
#include <pk/dot/skinny.h>
#include <pk/half.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

static void *allocate(int64_t bytes) {
  void *p = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (!p) abort();
  return p;
}

static double random_number(void) {
  static uint64_t state = 7;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)state * 0x1p-63;
}

static float *random_floats(int64_t n) {
  float *p = allocate(4 * n);
  for (int64_t i = 0; i < n; i++) p[i] = (float)random_number();
  return p;
}

/* Numbers that bf16 can represent too. */
static uint16_t *random_halves(float *same, int64_t n) {
  uint16_t *p = allocate(2 * n);
  for (int64_t i = 0; i < n; i++) {
    p[i] = pk_bf16_from_f32((float)random_number());
    same[i] = pk_f32_from_bf16(p[i]);
  }
  return p;
}

/* ---- The rule, one element at a time. */

typedef struct {
  int64_t rows, cols, k;
  bool add;
} shape;

static float one_lane(pk_f32v v) {
  float lanes[PK_LANES];
  pk_store_f32(lanes, v);
  return lanes[0];
}

static float sum_in_parts(const float *a, const float *b, int64_t stride, int64_t k,
                          const float *from) {
  float total = from ? *from : 0;
  bool begun = from != NULL;
  for (int64_t at = 0; at < k; at += PK_DOT_LONG) {
    const int64_t end = at + PK_DOT_LONG < k ? at + PK_DOT_LONG : k;
    const bool apart = begun && end - at >= PK_DOT_APART;
    pk_f32v sum = pk_splat_f32(apart ? 0 : total);
    for (int64_t i = at; i < end; i++)
      sum = pk_fma_fast_f32(pk_splat_f32(a[i]), pk_splat_f32(b[i * stride]), sum);
    total = apart ? total + one_lane(sum) : one_lane(sum);
    begun = true;
  }
  return total;
}

/* Pairs of bf16: steps of two terms. */
static pk_f32v pair_at(const uint16_t *p, int64_t stride, int64_t k) {
  uint32_t word = p[0];
  if (k > 1) word |= (uint32_t)p[stride] << 16;
  return pk_bitcast_i32_f32(pk_splat_i32((int32_t)word));
}
static float sum_of_pairs(const uint16_t *a, const uint16_t *b, int64_t stride, int64_t k,
                          const float *from) {
  float total = from ? *from : 0;
  bool begun = from != NULL;
  for (int64_t at = 0; at < k; at += 2 * PK_DOT_LONG) {
    const int64_t end = at + 2 * PK_DOT_LONG < k ? at + 2 * PK_DOT_LONG : k;
    const bool apart = begun && (end - at) / 2 >= PK_DOT_APART;
    pk_f32v sum = pk_splat_f32(apart ? 0 : total);
    for (int64_t i = at; i < end; i += 2)
      sum = pk_dot_madd_bf16(pair_at(a + i, 1, end - i), pair_at(b + i * stride, stride, end - i),
                             sum);
    total = apart ? total + one_lane(sum) : one_lane(sum);
    begun = true;
  }
  return total;
}

static void expect(const shape *s, const float *c, const float *wanted, const char *what) {
  int64_t wrong = -1;
  for (int64_t i = 0; i < s->rows * s->cols && wrong < 0; i++)
    if (memcmp(c + i, wanted + i, 4) != 0) wrong = i;
  check(wrong < 0, what, "%d bytes: %lld x %lld x %lld, add %d: element %lld is %a, not %a",
        PK_VEC_BYTES, (long long)s->rows, (long long)s->cols, (long long)s->k, s->add,
        (long long)wrong, wrong < 0 ? 0 : (double)c[wrong], wrong < 0 ? 0 : (double)wanted[wrong]);
}

static int64_t whole_panels(int64_t cols) { return (cols + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR; }

static pk_dot_product product_of(const shape *s, const void *a, const void *b, int64_t width,
                                 const float *before, float *c) {
  return (pk_dot_product){.rows = s->rows,
                          .cols = s->cols,
                          .k = s->k,
                          .a = a,
                          .lda = width * s->k,
                          .source = b,
                          .ldsource = width * s->cols,
                          .from = s->add ? before : NULL,
                          .ldfrom = 4 * s->cols,
                          .to = c,
                          .ldto = 4 * s->cols};
}

/* ---- f32, and 16 bits that are widened. */

static char scratch[PK_DOT_SCRATCH];

static void test_f32(const shape *s) {
  float *a = random_floats(s->rows * s->k), *b = allocate(4 * s->k * s->cols),
        *before = random_floats(s->rows * s->cols), *c = allocate(4 * s->rows * s->cols),
        *wanted = allocate(4 * s->rows * s->cols),
        *panels = allocate(4 * s->k * whole_panels(s->cols));
  uint16_t *halves = random_halves(b, s->k * s->cols);
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t n = 0; n < s->cols; n++)
      wanted[r * s->cols + n] = sum_in_parts(a + r * s->k, b + n, s->cols, s->k,
                                             s->add ? before + r * s->cols + n : NULL);
  pk_dot_product p = product_of(s, a, b, 4, before, c);
  p.panels = panels, p.depth = s->k, p.scratch = scratch;
  pk_dot_product_f32(&p);
  expect(s, c, wanted, "panels are filled");
  p.source = NULL, p.scratch = NULL;
  pk_dot_product_f32(&p);
  expect(s, c, wanted, "panels are there");
  p = product_of(s, a, b, 4, before, c), p.in_place = true;
  if (s->cols % PK_LANES == 0 && s->k > PK_DOT_SHALLOW) {
    pk_dot_product_f32(&p);
    expect(s, c, wanted, "in place");
  }
  p.in_place = false;
  pk_dot_skinny_strips(&p);
  expect(s, c, wanted, "strips");
  pk_dot_skinny_streamed(&p);
  expect(s, c, wanted, "pieces");
  p.source = halves, p.ldsource /= 2;
  pk_dot_skinny_bf16(&p);
  expect(s, c, wanted, "pieces of bf16");
  /* cut at a multiple, as steps of a grid that add to a block */
  if (s->k > 2 * PK_DOT_LONG) {
    const int64_t first = 2 * PK_DOT_LONG;
    p = product_of(s, a, b, 4, before, c);
    pk_dot_product begin = p, end = pk_dot_rows_of(&p, first, s->k - first, 4);
    begin.k = first;
    end.source = b + first * s->cols;
    pk_dot_skinny_strips(&begin);
    pk_dot_skinny_streamed(&end);
    expect(s, c, wanted, "in two steps");
  }
  free(a), free(b), free(before), free(c), free(wanted), free(panels), free(halves);
}

/* Lanes that share the terms: within the bound of k roundings of the terms' magnitudes. */
static void expect_near(const shape *s, const uint16_t *a, const uint16_t *turned,
                        const float *before, const float *c) {
  for (int64_t i = 0; i < s->rows * s->cols; i++) {
    const uint16_t *x = a + i / s->cols * s->k, *y = turned + i % s->cols * s->k;
    double sum = s->add ? (double)before[i] : 0, all = fabs(sum);
    for (int64_t k = 0; k < s->k; k++) {
      const double term = (double)pk_f32_from_bf16(x[k]) * (double)pk_f32_from_bf16(y[k]);
      sum += term, all += fabs(term);
    }
    check(fabs(c[i] - sum) <= 0x1p-24 * (double)(s->k + 2) * all, "bf16, transposed, in lanes",
          "%d bytes: %lld x %lld x %lld, add %d: element %lld is %a, not %a", PK_VEC_BYTES,
          (long long)s->rows, (long long)s->cols, (long long)s->k, s->add, (long long)i,
          (double)c[i], sum);
  }
}

/* ---- pairs of bf16; where pairs are multiplied by pairs, two terms are one rounding. */

static void test_bf16(const shape *s) {
#if !defined(PK_DOT_PAIRS_OF_BF16) && !defined(PK_DOT_BFDOT)
  const int64_t depth = (s->k + 1) / 2 * 2;
  float *same = allocate(4 * (s->rows * s->k + s->k * s->cols)),
        *before = random_floats(s->rows * s->cols), *c = allocate(4 * s->rows * s->cols),
        *wanted = allocate(4 * s->rows * s->cols);
  uint16_t *a = random_halves(same, s->rows * s->k), *b = random_halves(same, s->k * s->cols),
           *turned = allocate(2 * s->k * s->cols),
           *panels = allocate(2 * depth * whole_panels(s->cols));
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t n = 0; n < s->cols; n++)
      wanted[r * s->cols + n] = sum_of_pairs(a + r * s->k, b + n, s->cols, s->k,
                                             s->add ? before + r * s->cols + n : NULL);
  for (int64_t k = 0; k < s->k; k++)
    for (int64_t n = 0; n < s->cols; n++) turned[n * s->k + k] = b[k * s->cols + n];
  pk_pack_groups_bf16(panels, depth, b, s->cols, s->k, s->cols, whole_panels(s->cols), 0);
  pk_dot_product p = product_of(s, a, NULL, 2, before, c);
  p.panels = panels, p.depth = depth;
  pk_dot_multiply_bf16(&p, 2, 0);
  expect(s, c, wanted, "bf16");
  p = product_of(s, a, b, 2, before, c);
  pk_dot_skinny_groups_bf16(&p);
  expect(s, c, wanted, "bf16 in place");
  p.source = turned, p.ldsource = 2 * s->k;
  pk_dot_skinny_groups_t_bf16(&p);
  if (!pk_dot_is_in_lanes(s->rows, 2 * s->k))
    expect(s, c, wanted, "bf16, transposed");
  else
    expect_near(s, a, turned, before, c);
  free(same), free(before), free(c), free(wanted), free(a), free(b), free(turned), free(panels);
#else
  (void)s, (void)sum_of_pairs, (void)expect_near;
#endif
}

/* ---- A long sum: the error of random terms, beside the same in doubles, is that of parts. In
 * order it would be 2.5e-6. */

static void test_error(bool turned, bool tail) {
  enum { rows = 24, k = 28672 };
  const int64_t cols = tail ? 1 : 24;
  float *a = random_floats(rows * k), *b = random_floats(k * cols), *c = allocate(4 * rows * cols);
  for (int64_t i = 0; i < rows * k; i++) a[i] *= 1.7320508f;
  for (int64_t i = 0; i < k * cols; i++) b[i] *= 1.7320508f / sqrtf((float)k);
  const shape s = {rows, cols, k, false};
  pk_dot_product p = product_of(&s, a, b, 4, NULL, c);
  if (turned) p.ldsource = 4 * k;
  double squares = 0;
  if (tail)
    pk_dot_tail_f32(&p);
  else if (turned)
    pk_dot_skinny_t_f32(&p);
  else
    pk_dot_skinny_f32(&p);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++)
        sum += (double)a[r * k + i] * (double)(turned ? b[n * k + i] : b[i * cols + n]);
      squares += (c[r * cols + n] - sum) * (c[r * cols + n] - sum);
    }
  const double error = sqrt(squares / (double)(rows * cols));
  check(error < 6e-7, "error of a long sum", "%d bytes, turned %d, tail %d: %g", PK_VEC_BYTES,
        turned, tail, error);
  free(a), free(b), free(c);
}

int main(void) {
  static const int64_t depths[] = {0,
                                   1,
                                   5,
                                   PK_DOT_APART - 1,
                                   PK_DOT_APART,
                                   PK_DOT_APART + 1,
                                   PK_DOT_SKINNY_STRIP + 7,
                                   PK_DOT_LONG - 1,
                                   PK_DOT_LONG,
                                   PK_DOT_LONG + 1,
                                   PK_DOT_LONG + PK_DOT_APART - 1,
                                   PK_DOT_LONG + PK_DOT_APART,
                                   2 * PK_DOT_LONG,
                                   2 * PK_DOT_LONG + PK_DOT_SKINNY_STRIP + 1,
                                   4 * PK_DOT_LONG + 3};
  static const int64_t columns[] = {1, PK_LANES, PK_DOT_NR - 3, 2 * PK_DOT_NR + 5, 10 * PK_DOT_NR};
  static const int64_t rows[] = {1, PK_DOT_MR, PK_DOT_MR + 1, PK_DOT_SKINNY, 97};
  int turn = 0;
  for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
    for (size_t w = 0; w < sizeof columns / sizeof *columns; w++)
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++, turn++) {
        const bool large = rows[r] > PK_DOT_SKINNY;
        if (large != (w == 4) || (large && depths[d] % 2 == 0)) continue;
        const shape s = {rows[r], columns[w], depths[d], turn % 3 != 0};
        test_f32(&s);
        if (!large) test_bf16(&s);
      }
  for (int i = 0; i < 3; i++) test_error(i == 1, i == 2);
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
