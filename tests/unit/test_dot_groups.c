// flags: -march=native
/* The products of dot/i16.h, dot/i8.h and dot/bf16.h with the packs they need, against plain loops,
 * at every width and with the instructions for it emulated. Operands are allocated to the byte, so
 * that a sanitizer sees what is touched beside them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef ONE_WIDTH
#define PK_DOT_MR 5 /* compiles in a third of the time */
#endif
#define PK_DOT_BLOCK 112 /* products of 96 rows go panel by panel, of more in blocks */
#include <pk/half.h>
#include <pk/dot/bf16.h>
#include <pk/dot/i16.h>
#include <pk/dot/i8.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

/* Of the right operand `packed` rows lie in panels of `depth`; the product takes the first k of
 * them. */
typedef struct {
  int64_t rows, cols, k, packed, depth, lda, ldb, ldc;
  bool add, turned;
} product;

static void expect(bool holds, const char *what, const product *p) {
  check(holds, what, "%d bytes:%s %lld x %lld x %lld of %lld in %lld, add %d", PK_VEC_BYTES,
        p->turned ? " turned" : "", (long long)p->rows, (long long)p->k, (long long)p->cols,
        (long long)p->packed, (long long)p->depth, p->add);
}

/* Random bytes, many of which are the extremes. */
static void *random_bytes(int64_t bytes) {
  unsigned char *p = allocate(bytes);
  for (int64_t i = 0; i < bytes; i++) {
    const uint32_t x = random_bits();
    p[i] = (unsigned char)(x % 4 ? x >> 8 : x & 4 ? 0x80 : x & 8 ? 0x7f : 0xff);
  }
  return p;
}

/* bf16 whose products and sums are exact. */
static void *random_bf16(int64_t bytes) {
  uint16_t *p = random_bytes(bytes);
  for (int64_t i = 0; i < bytes / 2; i++) p[i] = pk_bf16_from_f32((float)(random_bits() % 31) - 15);
  return p;
}

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* ---- The kinds. */

typedef struct {
  const char *name;
  int64_t size; /* of an element */
  void *(*random)(int64_t bytes);
  double (*left)(const void *p), (*right)(const void *p);
  void (*pack[2])(void *dst, int64_t depth, const void *src, int64_t ld, int64_t k, int64_t n,
                  int64_t cols, int pad);
  void (*block)(int64_t rows, int64_t cols, const void *a, int64_t lda, const void *panels,
                int64_t depth, int64_t k, void *c, int64_t ldc, bool add);
  void (*few[2])(const pk_dot_product *p); /* NULL: there is none */
} kind;

static double value_i8(const void *p) { return *(const int8_t *)p; }
static double value_u8(const void *p) { return *(const uint8_t *)p; }
static double value_i16(const void *p) { return *(const int16_t *)p; }
static double value_bf16(const void *p) { return (double)pk_f32_from_bf16(*(const uint16_t *)p); }

static char scratch[PK_DOT_SCRATCH];
#define CALLS(T, left, right, pack_name, pack_t_name)                                             \
  static void pack_##T(void *d, int64_t depth, const void *s, int64_t ld, int64_t k, int64_t n,   \
                       int64_t cols, int pad) {                                                   \
    pack_name(d, depth, s, ld, k, n, cols, (right)pad);                                           \
  }                                                                                               \
  static void pack_t_##T(void *d, int64_t depth, const void *s, int64_t ld, int64_t k, int64_t n, \
                         int64_t cols, int pad) {                                                 \
    pack_t_name(d, depth, s, ld, k, n, cols, (right)pad);                                         \
  }                                                                                               \
  static void block_##T(int64_t rows, int64_t cols, const void *a, int64_t lda,                   \
                        const void *panels, int64_t depth, int64_t k, void *c, int64_t ldc,       \
                        bool add) {                                                               \
    const int64_t size = (int64_t)sizeof(left);                                                   \
    const pk_dot_product p = {rows,       cols,                                                   \
                              k,          a,                                                      \
                              size * lda, (void *)(uintptr_t)panels,                              \
                              depth,      NULL,                                                   \
                              0,          add ? c : NULL,                                         \
                              4 * ldc,    c,                                                      \
                              4 * ldc,    true,                                                   \
                              false,      false,                                                  \
                              scratch};                                                           \
    pk_dot_product_##T(&p);                                                                       \
  }
CALLS(i16, int16_t, int16_t, pk_pack_panels_i16, pk_pack_panels_t_i16)
CALLS(i8, int8_t, int8_t, pk_pack_groups_i8, pk_pack_groups_t_i8)
CALLS(u8, uint8_t, uint8_t, pk_pack_groups_u8, pk_pack_groups_t_u8)
CALLS(i8_u8, int8_t, uint8_t, pk_pack_groups_i8_u8, pk_pack_groups_t_i8_u8)
CALLS(u8_i8, uint8_t, int8_t, pk_pack_groups_u8_i8, pk_pack_groups_t_u8_i8)
CALLS(bf16, uint16_t, uint16_t, pk_pack_groups_bf16, pk_pack_groups_t_bf16)

#define KIND(T, size, random, left, right)                                               \
  {                                                                                      \
#T, size, random, value_##left, value_##right, {pack_##T, pack_t_##T }, block_##T, { \
      pk_dot_skinny_groups_##T, pk_dot_skinny_groups_t_##T                               \
    }                                                                                    \
  }
static const kind kinds[] = {
    {"i16", 2, random_bytes, value_i16, value_i16, {pack_i16, pack_t_i16}, block_i16, {NULL, NULL}},
    KIND(i8, 1, random_bytes, i8, i8),
    KIND(u8, 1, random_bytes, u8, u8),
    KIND(i8_u8, 1, random_bytes, i8, u8),
    KIND(u8_i8, 1, random_bytes, u8, i8),
    KIND(bf16, 2, random_bf16, bf16, bf16)};

/* The sum modulo 2^32, or as a float. Sums of these doubles are exact. */
static uint32_t bits_of_sum(const kind *t, double sum, uint32_t before, bool add) {
  if (t->random == random_bf16)
    return pk_bits_of_f32((float)sum + (add ? pk_f32_of_bits(before) : 0));
  return (uint32_t)(int64_t)sum + (add ? before : 0);
}

static const char *right_at(const kind *t, const product *p, const char *b, int64_t k, int64_t n) {
  return b + (p->turned ? n * p->ldb + k : k * p->ldb + n) * t->size;
}

enum { PAD = 0x4040 }; /* or 0x40; 3 as bf16 */

/* Element (k, n) of the packed operand. */
static double right_value(const kind *t, const product *p, const char *b, int64_t k, int64_t n) {
  static const int16_t pad = PAD;
  return t->right(k < p->packed && n < p->cols ? (const void *)right_at(t, p, b, k, n) : &pad);
}

/* The first columns of rows of sums. */
static bool same(const product *p, const uint32_t *c, const uint32_t *wanted) {
  for (int64_t r = 0; r < p->rows; r++)
    if (p->cols && memcmp(c + r * p->ldc, wanted + r * p->ldc, (size_t)(4 * p->cols)) != 0)
      return false;
  return true;
}

/* In place, to rows without padding. */
static void test_few(const kind *t, const product *p, const char *a, const char *b,
                     const uint32_t *before, const uint32_t *wanted) {
  if (!t->few[0] || p->rows > PK_DOT_SKINNY || p->packed < p->k) return;
  const int64_t size = p->rows ? (p->rows - 1) * p->ldc + p->cols : 0;
  uint32_t *c = random_bytes(4 * size);
  const pk_dot_product few = {.rows = p->rows,
                              .cols = p->cols,
                              .k = p->k,
                              .a = a,
                              .lda = p->lda * t->size,
                              .source = b,
                              .ldsource = p->ldb * t->size,
                              .from = p->add ? before : NULL,
                              .ldfrom = 4 * p->ldc,
                              .to = c,
                              .ldto = 4 * p->ldc};
  t->few[p->turned](&few);
  expect(same(p, c, wanted), "few rows", p);
  if (p->add && size) {
    memcpy(c, before, (size_t)(4 * size));
    pk_dot_product in_place = few;
    in_place.from = c;
    t->few[p->turned](&in_place);
    expect(same(p, c, wanted), "few rows, added in place", p);
  }
  free(c);
}

static void test_product(const kind *t, const product *p) {
  const int64_t outer = p->turned ? p->cols : p->packed, inner = p->turned ? p->packed : p->cols;
  char *a = t->random(p->rows ? ((p->rows - 1) * p->lda + p->k) * t->size : 0);
  char *b = t->random(outer ? ((outer - 1) * p->ldb + inner) * t->size : 0);
  char *panels = random_bytes(round_up(p->cols, PK_DOT_NR) * p->depth * t->size);
  const int64_t results = p->rows * p->ldc;
  uint32_t *c = random_bytes(4 * results), *wanted = random_bytes(4 * results);
  for (int64_t i = 0; i < results; i++)
    c[i] = t->random == random_bf16 ? pk_bits_of_f32((float)(i % 9)) : c[i];
  if (results) memcpy(wanted, c, (size_t)(4 * results));
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t n = 0; n < p->cols; n++) {
      double sum = 0;
      for (int64_t k = 0; k < p->k; k++)
        sum += t->left(a + (r * p->lda + k) * t->size) * right_value(t, p, b, k, n);
      uint32_t *to = &wanted[r * p->ldc + n];
      *to = bits_of_sum(t, sum, *to, p->add);
    }
  test_few(t, p, a, b, c, wanted);
  t->pack[p->turned](panels, p->depth, b, p->ldb, p->packed, p->cols, p->cols, PAD);
  t->block(p->rows, p->cols, a, p->lda, panels, p->depth, p->k, c, p->ldc, p->add);
  for (int64_t r = 0; r < p->rows; r++) /* whole panels may have been written */
    for (int64_t n = p->cols; n < round_up(p->cols, PK_DOT_NR); n++)
      wanted[r * p->ldc + n] = c[r * p->ldc + n];
  expect(results == 0 || memcmp(c, wanted, (size_t)(4 * results)) == 0, t->name, p);
  free(a), free(b), free(panels), free(c), free(wanted);
}

static void test_size(const kind *t, int64_t rows, int64_t cols, int64_t k, int64_t packed) {
  const int64_t group = 4 / t->size,
                depth = round_up(packed > k ? packed : k, group) + group * (rows % 2);
  for (int i = 0; i < 4; i++) {
    const bool turned = i & 1;
    const product p = {rows,
                       cols,
                       k,
                       packed,
                       depth,
                       k + 3 * (rows % 2),
                       (turned ? packed : cols) + cols % 3,
                       round_up(cols, PK_DOT_NR) + 5,
                       i >= 2,
                       turned};
    test_product(t, &p);
  }
}

static void test_kind(const kind *t) {
  static const int64_t depths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 67, 131},
                       widths_of[] = {0, 1, PK_DOT_NR, PK_DOT_NR + 7};
  for (int64_t rows = 0; rows <= 2 * PK_DOT_MR + 2; rows += rows <= PK_DOT_MR ? 1 : 3)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
      test_size(t, rows, widths_of[(rows + (int64_t)d) % 4], depths[d],
                depths[d] + rows % 4 - 1 < 0 ? 0 : depths[d] + rows % 4 - 1);
  static const int64_t large[] = {4 * PK_DOT_LONG, 8 * PK_DOT_LONG, 8 * PK_DOT_LONG + 3,
                                  12 * PK_DOT_LONG + 1};
  for (size_t d = 0; d < sizeof large / sizeof *large; d++) test_size(t, 3, 11, large[d], large[d]);
  /* Panel by panel. */
  enum { cols = 8 * PK_DOT_NR + 1, k = 1027 };
  test_product(t, &(product){97, cols, k, k, 1028, k, cols, 9 * PK_DOT_NR, true, false});
}

/* What lies past k must not matter: not in the row, and not in the panel, where it may be no
 * number. */
static void test_nan_past_the_end(void) {
  uint16_t a[5] = {0x3f80, 0x3f80, 0x3f80, 0x7fc0, 0x7fc0}, b[4] = {0x3f80, 0x4000, 0x4040, 0x7fc0};
  uint16_t panel[4 * PK_DOT_NR];
  float c[PK_DOT_NR];
  const product p = {1, 1, 3, 4, 4, 5, 1, PK_DOT_NR, false, false};
  pk_pack_groups_bf16(panel, 4, b, 1, 4, 1, 1, 0);
  block_bf16(1, 1, a, 5, panel, 4, 3, c, PK_DOT_NR, false);
  expect(c[0] == 6, "bf16 beside NaN", &p);
}

/* Random bf16: the bound of docs/numerics.md for sums of f32. */
static void test_accuracy(int64_t k) {
  uint16_t *a = random_bytes(2 * k), *b = random_bytes(2 * k),
           *panel = random_bytes(2 * k * PK_DOT_NR);
  double sum = 0, size = 0;
  for (int64_t i = 0; i < k; i++) {
    a[i] = pk_bf16_from_f32((float)random_bits() * 0x1p-31f - 1),
    b[i] = pk_bf16_from_f32((float)random_bits() * 0x1p-31f - 1);
    sum += value_bf16(&a[i]) * value_bf16(&b[i]),
        size += fabs(value_bf16(&a[i]) * value_bf16(&b[i]));
  }
  float c[PK_DOT_NR];
  const product p = {1, 1, k, k, k, k, 1, PK_DOT_NR, false, false};
  pk_pack_groups_bf16(panel, k, b, 1, k, 1, 1, 0);
  block_bf16(1, 1, a, k, panel, k, k, c, PK_DOT_NR, false);
  expect(fabs((double)c[0] - sum) <= 0x1p-22 * size, "random bf16", &p);
  free(a), free(b), free(panel);
}

/* Rows that are not packed. */
static void test_copy(int64_t size, int64_t rows, int64_t cols, int64_t full_rows,
                      int64_t full_cols, bool turned) {
  const int64_t inner = turned ? rows : cols, outer = turned ? cols : rows, ld = inner + 1,
                dld = full_cols + 2;
  const product p = {full_rows, full_cols, rows, cols, size, 0, 0, 0, 0, turned};
  char *src = random_bytes(outer ? ((outer - 1) * ld + inner) * size : 0);
  const int64_t bytes = full_rows ? ((full_rows - 1) * dld + full_cols) * size : 0;
  char *dst = random_bytes(bytes);
  if (size == 1)
    (turned ? pk_copy_rows_t_b1 : pk_copy_rows_b1)(dst, dld, src, ld, rows, cols, full_rows,
                                                   full_cols, 0x7b7b);
  if (size == 2)
    (turned ? pk_copy_rows_t_b2 : pk_copy_rows_b2)(dst, dld, src, ld, rows, cols, full_rows,
                                                   full_cols, 0x7b7b);
  bool right = true;
  for (int64_t r = 0; r < full_rows; r++)
    for (int64_t i = 0; i < full_cols * size; i++) {
      const int64_t col = i / size, at = (turned ? col * ld + r : r * ld + col) * size + i % size;
      right &= dst[r * dld * size + i] == (r < rows && col < cols ? src[at] : 0x7b);
    }
  expect(right, "pk_copy_rows", &p);
  free(src), free(dst);
}

static void test_copies(void) {
  for (int64_t rows = 0; rows < 40; rows += 13)
    for (int64_t cols = 0; cols < 70; cols += 23)
      for (int i = 0; i < 8; i++)
        test_copy(1 + i % 2, rows, cols, rows + (i & 2), cols + (i & 2), i & 4);
}

int main(int argc, char **argv) {
  (void)argc, (void)argv;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) test_kind(&kinds[i]);
  test_nan_past_the_end();
  for (int64_t k = 2; k <= 4096; k *= 2) test_accuracy(k);
  test_copies();
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#ifdef __x86_64__
  run_arm(__FILE__, "-march=armv8.2-a+dotprod");
  run_arm(__FILE__, "-march=armv8.2-a+dotprod+i8mm+bf16");
#endif
#endif
  return check_end();
}
