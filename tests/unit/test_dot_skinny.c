// flags: -march=native
/* The products of dot/skinny.h against loops, on all kinds of edges and at every width. Operands
 * are allocated to the byte, so that a sanitizer sees what is touched beside them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PK_DOT_ROWS_FOLLOWED 6 /* rows that prefetch nothing */
#include <pk/half.h>
#include <pk/dot/skinny.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

typedef struct {
  int64_t rows, cols, k, lda, ldb, ldc;
  bool add, turned, padded;
} product;

static void expect(bool holds, const char *what, const product *p) {
  check(holds, what, "%d bytes:%s %lld x %lld x %lld, %s", PK_VEC_BYTES, p->turned ? " turned" : "",
        (long long)p->rows, (long long)p->cols, (long long)p->k, p->add ? "added" : "set");
}

/* Small integers, whose sums are exact in any order and in halves. */
static float *random_floats(int64_t n) {
  float *p = allocate(4 * n);
  for (int64_t i = 0; i < n; i++) p[i] = (float)(random_bits() % 31) - 15;
  return p;
}

static uint16_t *narrow(const float *from, int64_t n, uint16_t (*to)(float)) {
  uint16_t *p = allocate(2 * n);
  for (int64_t i = 0; i < n; i++) p[i] = to(from[i]);
  return p;
}

static int8_t *bytes_of(const float *from, int64_t n) {
  int8_t *p = allocate(n);
  for (int64_t i = 0; i < n; i++) p[i] = (int8_t)from[i];
  return p;
}

static void multiply(const product *p, const float *a, const float *b, float *c) {
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t n = 0; n < p->cols; n++) {
      float sum = 0;
      for (int64_t k = 0; k < p->k; k++)
        sum += a[r * p->lda + k] * b[p->turned ? n * p->ldb + k : k * p->ldb + n];
      c[r * p->ldc + n] = sum + (p->add ? c[r * p->ldc + n] : 0);
    }
}

/* Columns past the last one do not change, unless they are padding of panels. */
static bool same(const product *p, const float *c, const float *wanted) {
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t n = 0; n < (p->padded ? p->cols : p->ldc); n++)
      if (c[r * p->ldc + n] != wanted[r * p->ldc + n]) return false;
  return true;
}

/* The matrix to which the product is added: another one than the result, or the result itself. */
static pk_dot_product in_place(const product *p, const float *a, const void *b, int64_t size,
                               const float *before, float *c) {
  const bool apart = p->k % 2;
  for (int64_t r = 0; r < p->rows && p->add && apart; r++)
    memset(c + r * p->ldc, 0x5a, (size_t)(4 * p->cols));
  return (pk_dot_product){.rows = p->rows,
                          .cols = p->cols,
                          .k = p->k,
                          .a = a,
                          .lda = 4 * p->lda,
                          .source = b,
                          .ldsource = size * p->ldb,
                          .from = p->add ? apart ? before : c : NULL,
                          .ldfrom = 4 * p->ldc,
                          .to = c,
                          .ldto = 4 * p->ldc,
                          .padded = p->padded};
}

static void test_product(const product *p) {
  const int64_t lines = p->turned ? p->cols : p->k, line = p->turned ? p->k : p->cols,
                size = lines && line ? (lines - 1) * p->ldb + line : 0;
  float *a = random_floats(p->rows ? (p->rows - 1) * p->lda + p->k : 0), *b = random_floats(size);
  uint16_t *b16 = narrow(b, size, pk_bf16_from_f32), *f16 = narrow(b, size, pk_f16_from_f32);
  int8_t *i8 = bytes_of(b, size);
  const int64_t bytes = 4 * p->rows * p->ldc;
  float *before = random_floats(p->rows * p->ldc), *wanted = allocate(bytes), *c = allocate(bytes);
  memcpy(wanted, before, (size_t)bytes);
  multiply(p, a, b, wanted);
#define TEST(T, b)                                        \
  memcpy(c, before, (size_t)bytes);                       \
  few = in_place(p, a, b, (int64_t)sizeof *b, before, c); \
  pk_dot_skinny_##T(&few);                                \
  expect(same(p, c, wanted), #T, p);
  pk_dot_product few;
  if (p->turned) {
    TEST(t_f32, b)
  } else { /* f32 is one of these, depending on the target */
    TEST(strips, b)
    TEST(streamed, b)
    TEST(tiles, b)
  }
#if !defined(__SANITIZE_ADDRESS__) || !defined(ONE_WIDTH) /* where compiling takes long */
  if (p->turned) {
    TEST(t_bf16, b16)
    TEST(t_f16, f16)
    TEST(t_i8_f32, i8)
  } else {
    TEST(bf16, b16)
    TEST(f16, f16)
    TEST(i8_f32, i8)
  }
#endif
  free(a), free(b), free(b16), free(f16), free(i8), free(before), free(wanted), free(c);
}

/* The right operand in panels, or a source to fill them from. */
static void test_tail(int64_t rows, int64_t cols, int64_t k, bool filled, bool add) {
  const bool padded = rows & 1;
  const int64_t room = (cols + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR;
  const product p = {.rows = rows,
                     .cols = cols,
                     .k = k,
                     .lda = k + 3,
                     .ldb = cols + (rows & 1),
                     .ldc = padded ? room : cols + 2,
                     .add = add,
                     .padded = padded};
  const int64_t bytes = 4 * rows * p.ldc;
  float *a = random_floats(rows ? (rows - 1) * p.lda + k : 0),
        *b = random_floats(k ? (k - 1) * p.ldb + cols : 0),
        *panels = allocate(4 * k * (cols + PK_DOT_NR)), *before = random_floats(rows * p.ldc),
        *wanted = allocate(bytes), *c = allocate(bytes);
  if (!filled) pk_pack_panels_f32(panels, k, b, p.ldb, k, cols, cols, 0);
  memcpy(wanted, before, (size_t)bytes), memcpy(c, before, (size_t)bytes);
  multiply(&p, a, b, wanted);
  pk_dot_product tail = in_place(&p, a, filled ? b : NULL, 4, before, c);
  tail.panels = panels, tail.depth = k;
  pk_dot_tail_f32(&tail);
  expect(same(&p, c, wanted), "tail", &p);
  if (filled) {
    pk_dot_product few = tail;
    few.panels = NULL;
    memcpy(c, before, (size_t)bytes);
    pk_dot_skinny_f32(&few);
    expect(same(&p, c, wanted), "few columns", &p);
  }
  bool filled_right = true;
  for (int64_t i = 0; i < k && rows; i++)
    for (int64_t n = 0; n < cols; n++)
      filled_right &=
          panels[(n / PK_DOT_NR * k + i) * PK_DOT_NR + n % PK_DOT_NR] == b[i * p.ldb + n];
  expect(filled_right, "panels", &p);
  if (filled && pk_dot_is_small(k, cols, 4 * p.ldb, PK_DOT_TAIL)) {
    pk_dot_product small = in_place(&p, a, b, 4, before, c);
    memcpy(c, before, (size_t)bytes);
    small.in_place = true;
    if (pk_dot_tail_columns(&small))
      pk_dot_tail_f32(&small);
    else
      pk_dot_product_f32(&small);
    expect(same(&p, c, wanted), "small", &p);
  }
  free(a), free(b), free(panels), free(before), free(wanted), free(c);
}

/* The bits of a row depend neither on other rows nor on where the right operand is read. */
static void test_bits(int64_t rows, int64_t cols, int64_t k) {
  enum { all = 40 };
  const product p = {.rows = all, .cols = cols, .k = k, .lda = k, .ldb = cols, .ldc = cols};
  const int64_t panels = (cols + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR;
  float *a = random_floats(all * k), *b = random_floats(k * cols),
        *panel = allocate(4 * k * panels), *c = allocate(4 * all * cols),
        *few = allocate(4 * rows * cols), *few16 = allocate(4 * rows * cols);
  for (int64_t i = 0; i < all * k; i++) a[i] /= 7;
  for (int64_t i = 0; i < k * cols; i++) b[i] *= 1.0625f; /* of 9 bits: bf16 */
  uint16_t *b16 = narrow(b, k * cols, pk_bf16_from_f32);
  for (int64_t i = 0; i < k * cols; i++) b[i] = pk_f32_from_bf16(b16[i]);
  pk_pack_panels_f32(panel, k, b, cols, k, cols, panels, 0);
  pk_dot_product whole = in_place(&p, a, NULL, 4, NULL, c), part = in_place(&p, a, b, 4, NULL, few);
  whole.panels = panel, whole.depth = k;
  pk_dot_product_f32(&whole);
  part.rows = rows;
  pk_dot_skinny_f32(&part);
  part.source = b16, part.ldsource /= 2, part.to = few16;
  pk_dot_skinny_bf16(&part);
  expect(memcmp(c, few, (size_t)(4 * rows * cols)) == 0, "bits", &p);
  expect(memcmp(c, few16, (size_t)(4 * rows * cols)) == 0, "bits of bf16", &p);
  free(a), free(b), free(b16), free(panel), free(c), free(few), free(few16);
}

static void test_products(int64_t rows, int64_t cols, int64_t k) {
  for (int i = 0; i < 12; i++) {
    const bool padded = i >= 8, turned = !padded && i & 1, apart = i & 2;
    const int64_t inner = turned ? k : cols, room = (cols + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR;
    const product p = {.rows = rows,
                       .cols = cols,
                       .k = k,
                       .lda = k + (apart ? 3 : 0),
                       .ldb = inner + (apart ? 5 : 0),
                       .ldc = padded ? room : cols + (apart ? 7 : 0),
                       .add = padded ? i & 1 : i & 4,
                       .turned = turned,
                       .padded = padded};
    test_product(&p);
  }
}

int main(void) {
  static const int64_t depths[] = {0, 1, 2, PK_LANES - 1,     PK_LANES, PK_LANES + 1,
                                   7, 8, 9, 2 * PK_LANES + 17};
  static const int64_t columns[] = {0,
                                    1,
                                    2,
                                    3,
                                    PK_LANES - 1,
                                    PK_LANES,
                                    PK_LANES + 1,
                                    PK_DOT_NR - 1,
                                    PK_DOT_NR,
                                    3 * PK_DOT_NR - 2};
  for (int64_t rows = 0; rows <= 9; rows++)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
      for (size_t w = 0; w < sizeof columns / sizeof *columns; w++)
        test_products(rows, columns[w], depths[d]);
  static const int64_t lines[] = {0, 1, PK_LANES, PK_LANES + 1, 63, 64, 131};
  static const int64_t tail[] = {
      1,        2, PK_DOT_TAIL, PK_LANES + 1, PK_DOT_NR + 1, 3 * PK_DOT_NR + PK_LANES + PK_DOT_TAIL,
      PK_DOT_NR};
  for (size_t w = 0; w < sizeof tail / sizeof *tail; w++)
    for (size_t r = 0; r < sizeof lines / sizeof *lines; r++)
      for (int i = 0; i < 4; i++) {
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
          test_tail(lines[r], tail[w], depths[d], i & 1, i & 2);
        test_tail(lines[r], tail[w], 2 * PK_DOT_LONG + 5, i & 1, i & 2);
      }
  for (int64_t rows = 1; rows <= 16; rows += 3)
    for (int i = 0; i < 2; i++) test_bits(rows, 3 * PK_DOT_NR + (i ? 5 : 0), i ? 601 : 77);
  test_products(19, 70, 40);
  for (int64_t rows = 8; rows <= PK_DOT_SKINNY; rows += 8) /* rows of a evict each other from L1 */
    test_bits(rows, 3 * PK_DOT_NR + 5, 1024);
  test_products(9, 3 * PK_DOT_NR + 5, 512);
  test_products(PK_DOT_SKINNY, 3 * PK_DOT_NR, 1024);
  test_products(PK_DOT_SKINNY, 512, 21);
  test_products(5, 1536, 3);
  test_products(PK_DOT_SKINNY + 1, 70, 40);
  test_products(1, 512, 128);
  test_products(1, 300, 21);
  test_bits(1, 300, 77);
  test_products(1, 64, 512);
  test_products(3, 300, 301);
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
