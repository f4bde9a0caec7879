// flags: -march=native
/* The matrix products of dot.h and the relayouts of pack.h against loops, on all kinds of edges.
 * Memory is allocated to the byte, so that a sanitizer sees what is touched beside it.
 * test_dot_256.c and test_dot_128.c do it at other widths. */
#define PK_DOT_BLOCK 112 /* products of 96 rows go panel by panel, of more in blocks */
#define PK_DOT_THIN 5    /* rows of a tile of one vector, 2 KB apart */
#include <pk/half.h>
#include <pk/pack.h>

#include "check.h"
#include "data.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool holds, const char *what, int64_t a, int64_t b, int64_t c, int64_t d) {
  check(holds, what, "at %lld %lld %lld %lld", (long long)a, (long long)b, (long long)c,
        (long long)d);
}

/* Small integers, so that sums are exact in any order. */
static float *random_floats(int64_t n) {
  float *p = allocate(4 * n);
  for (int64_t i = 0; i < n; i++) p[i] = (float)(random_bits() % 31) - 15;
  return p;
}

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- Products. */

static char scratch[PK_DOT_SCRATCH];

typedef struct {
  int64_t rows, cols, k, lda, depth, ldc;
  bool add;
} product;

static int64_t panel_index(const product *p, int64_t k, int64_t n) {
  return n / PK_DOT_NR * p->depth * PK_DOT_NR + k * PK_DOT_NR + n % PK_DOT_NR;
}
static int64_t left_size(const product *p) { return p->rows ? (p->rows - 1) * p->lda + p->k : 0; }
static int64_t panel_size(const product *p) { return round_up(p->cols, PK_DOT_NR) * p->depth; }
static int64_t result_size(const product *p) { return p->rows * p->ldc; }

static void compare(const product *p, const void *c, const void *wanted, const char *what) {
  expect(memcmp(c, wanted, (size_t)(4 * result_size(p))) == 0, what, p->rows, p->cols, p->k,
         p->add);
}

static pk_dot_product packed(const product *p, void *a, void *panels, void *c) {
  return (pk_dot_product){.rows = p->rows,
                          .cols = p->cols,
                          .k = p->k,
                          .a = a,
                          .lda = 4 * p->lda,
                          .panels = panels,
                          .depth = p->depth,
                          .from = p->add ? c : NULL,
                          .ldfrom = 4 * p->ldc,
                          .to = c,
                          .ldto = 4 * p->ldc,
                          .padded = true,
                          .scratch = scratch};
}

static void test_f32(const product *p) {
  float *a = random_floats(left_size(p)), *b = random_floats(panel_size(p));
  float *c = random_floats(result_size(p)), *wanted = allocate(4 * result_size(p));
  memcpy(wanted, c, (size_t)(4 * result_size(p)));
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t n = 0; n < p->cols; n++) {
      float sum = 0;
      for (int64_t k = 0; k < p->k; k++) sum += a[r * p->lda + k] * b[panel_index(p, k, n)];
      wanted[r * p->ldc + n] = p->add ? wanted[r * p->ldc + n] + sum : sum;
    }
  const pk_dot_product whole = packed(p, a, b, c);
  pk_dot_product_f32(&whole);
  for (int64_t r = 0; r < p->rows; r++) /* whole panels may have been written */
    for (int64_t n = p->cols; n < round_up(p->cols, PK_DOT_NR); n++)
      wanted[r * p->ldc + n] = c[r * p->ldc + n];
  compare(p, c, wanted, "pk_dot_product_f32");
  free(a), free(b), free(c), free(wanted);
}

/* In place: panels that are filled on the way, and a result that ends where its columns do. */
static void test_source(int64_t rows, int64_t cols, int64_t k, int64_t lda, bool add) {
  float *a = random_floats(rows ? (rows - 1) * lda + k : 0), *b = random_floats(k * cols),
        *from = random_floats(rows * cols);
  const int64_t panels = round_up(cols, PK_DOT_NR) * k;
  float *panel = allocate_random(4 * panels), *wanted_panel = allocate_random(4 * panels);
  float *c = random_floats(rows * cols), *wanted = allocate(4 * rows * cols);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      float sum = add ? from[r * cols + n] : 0;
      for (int64_t kk = 0; kk < k; kk++) sum += a[r * lda + kk] * b[kk * cols + n];
      wanted[r * cols + n] = sum;
    }
  pk_dot_product p = {
      rows,     cols, k,        a,     4 * lda, panel, k,      b, 4 * cols, add ? from : NULL,
      4 * cols, c,    4 * cols, false, false,   false, scratch};
  pk_dot_product_f32(&p);
  expect(memcmp(c, wanted, (size_t)(4 * rows * cols)) == 0, "product in place", rows, cols, k, add);
  pk_pack_panels_f32(wanted_panel, k, b, cols, k, cols, cols, 0);
  expect(!rows || memcmp(panel, wanted_panel, (size_t)(4 * panels)) == 0, "panels", rows, cols, k,
         add);
  if (pk_dot_is_small(k, cols, 4 * cols, 0)) {
    memset(c, 0x5a, (size_t)(4 * rows * cols));
    memset(panel, 0x5a, (size_t)(4 * panels));
    p.in_place = true;
    pk_dot_product_f32(&p);
    expect(memcmp(c, wanted, (size_t)(4 * rows * cols)) == 0, "small product", rows, cols, k, add);
    for (int64_t i = 0; i < 4 * panels; i++)
      if (((char *)panel)[i] != 0x5a) expect(false, "no panel is filled", rows, cols, k, add);
    p.in_place = false;
    memcpy(panel, wanted_panel, (size_t)(4 * panels));
  }
  p.source = NULL;
  memset(c, 0x5a, (size_t)(4 * rows * cols));
  if (rows) pk_dot_product_f32(&p);
  expect(memcmp(c, wanted, (size_t)(4 * rows * cols)) == 0, "product of filled panels", rows, cols,
         k, add);
  free(a), free(b), free(from), free(panel), free(wanted_panel), free(c), free(wanted);
}

/* The number of threads determines who fills the panels, but not the bits of rounded sums. */
static void test_same_bits(int64_t rows, int64_t cols, int64_t k) {
  float *a = random_floats(rows * k), *b = random_floats(k * cols),
        *from = random_floats(rows * cols);
  float *panel = random_floats(round_up(cols, PK_DOT_NR) * k), *filled = random_floats(rows * cols),
        *c = random_floats(rows * cols);
  for (int64_t i = 0; i < rows * k; i++) a[i] = a[i] / 7 + 0.1f;
  for (int64_t i = 0; i < k * cols; i++) b[i] = b[i] / 3 - 0.3f;
  pk_dot_product p = {rows, cols,     k,      a,        4 * k, panel, k,     b,      4 * cols,
                      from, 4 * cols, filled, 4 * cols, false, false, false, scratch};
  pk_dot_product_f32(&p);
  p.source = NULL;
  p.to = c;
  pk_dot_product_f32(&p);
  expect(memcmp(c, filled, (size_t)(4 * rows * cols)) == 0, "bits of filled panels", rows, cols, k,
         1);
  free(a), free(b), free(from), free(panel), free(filled), free(c);
}

static void test_sources(void) {
  static const int64_t widths[] = {
      0, 1, PK_LANES, PK_LANES + 1, PK_DOT_NR, PK_DOT_NR + 1, 3 * PK_DOT_NR - 2, 4 * PK_DOT_NR};
  static const int64_t depths[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   PK_DOT_FILL,
                                   PK_DOT_FILL + 3,
                                   PK_DOT_LONG,
                                   PK_DOT_LONG + 1,
                                   2 * PK_DOT_LONG + 5};
  static const int64_t rows[] = {0, 1, 2, 3, PK_DOT_MR, PK_DOT_MR + 1, 3 * PK_DOT_MR + 1};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
      for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        test_source(rows[r], widths[w], depths[d], depths[d] + 3, d % 2);
        test_source(rows[r], widths[w], depths[d], round_up(depths[d], 512), w % 2);
        if (rows[r] && depths[d]) test_same_bits(rows[r], widths[w], depths[d]);
      }
}

static int32_t sum_i32(const product *p, const int32_t *a, const int32_t *b, int64_t r, int64_t n) {
  uint32_t sum = 0;
  for (int64_t k = 0; k < p->k; k++)
    sum += (uint32_t)a[r * p->lda + k] * (uint32_t)b[panel_index(p, k, n)];
  return (int32_t)sum;
}

static void test_i32(const product *p) {
  int32_t *a = allocate_random(4 * left_size(p)), *b = allocate_random(4 * panel_size(p));
  int32_t *c = allocate_random(4 * result_size(p)), *wanted = allocate(4 * result_size(p));
  memcpy(wanted, c, (size_t)(4 * result_size(p)));
  pk_dot_product whole = packed(p, a, b, c);
  whole.padded = p->k % 2;
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t n = 0; n < p->cols; n++) {
      const int32_t sum = sum_i32(p, a, b, r, n);
      int32_t *to = &wanted[r * p->ldc + n];
      *to = p->add ? (int32_t)((uint32_t)*to + (uint32_t)sum) : sum;
    }
  pk_dot_product_i32(&whole);
  for (int64_t r = 0; r < p->rows && whole.padded; r++)
    for (int64_t n = p->cols; n < round_up(p->cols, PK_DOT_NR); n++)
      wanted[r * p->ldc + n] = c[r * p->ldc + n];
  compare(p, c, wanted, "pk_dot_product_i32");
  free(a), free(b), free(c), free(wanted);
}

static void test_product(int64_t rows, int64_t cols, int64_t k) {
  for (int add = 0; add < 2; add++) {
    const product p = {rows, cols, k, k + 3, k + rows % 3, round_up(cols, PK_DOT_NR) + 5, add};
    test_f32(&p);
    test_i32(&p);
  }
}

static void test_products(void) {
  static const int64_t depths[] = {0, 1, 2, 3, 4, 5, 7, 8, 13, 64};
  static const int64_t widths[] = {
      0, 1, PK_DOT_NR - 1, PK_DOT_NR, PK_DOT_NR + 1, 3 * PK_DOT_NR - 2};
  for (int64_t rows = 0; rows <= 2 * PK_DOT_MR + 2; rows++)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
      for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        test_product(rows, widths[w], depths[d]);
  static const int64_t large[] = {131, 2 * PK_DOT_LONG, 2 * PK_DOT_LONG + 1, 3 * PK_DOT_LONG,
                                  4 * PK_DOT_LONG + 17};
  for (size_t d = 0; d < sizeof large / sizeof *large; d++) {
    test_product(3, PK_DOT_NR + 7, large[d]);
    test_product(PK_DOT_MR + 5, 11, large[d]);
  }
}

/* Panel by panel: depths that are whole slots or not, and are cut; rows that are copied as they are
 * or end inside of a slot; a last panel of whole vectors, of less, or none. */
static void test_blocks(void) {
  static const int64_t widths[] = {9 * PK_DOT_NR, 9 * PK_DOT_NR + 1, 10 * PK_DOT_NR - 3,
                                   9 * PK_DOT_NR + PK_LANES};
  static const int64_t depths[] = {256, 259, PK_DOT_LONG, PK_DOT_LONG + 263};
  static const int64_t rows[] = {96, 97, 113, 2 * 112 + 9};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
      const int64_t width = widths[(r + d) % 4];
      test_source(rows[r], width, depths[d], depths[d] + 3, d % 2);
      test_source(rows[r], width, depths[d], round_up(depths[d], 1024), r % 2);
      test_same_bits(rows[r], width, depths[d]);
      test_product(rows[r], width, depths[d]);
    }
}

/* As few tiles as possible, of similar size. */
static void test_split(void) {
  for (int64_t rows = 1; rows < 300; rows++) {
    int64_t tiles = 0, least = PK_DOT_MR, most = 0, left = rows;
    while (left > 0) {
      const int64_t n = pk_dot_take(left);
      if (n < least) least = n;
      most = largest(most, n);
      left -= n, tiles++;
    }
    expect(left == 0 && most <= PK_DOT_MR && most - least <= 1 &&
               tiles == round_up(rows, PK_DOT_MR) / PK_DOT_MR,
           "tiles", rows, least, most, tiles);
  }
}

/* ---- Packs. */

typedef struct {
  const char *name;
  int64_t from, to; /* bytes of an element */
  bool is_float;
  void (*panels[2])(void *dst, int64_t depth, const void *src, int64_t ld, int64_t k, int64_t n,
                    int64_t cols, double pad);
  void (*rows[2])(void *dst, int64_t dld, const void *src, int64_t ld, int64_t rows, int64_t cols,
                  int64_t full_rows, int64_t full_cols, double pad);
  uint32_t (*widen)(const void *src);
} pack;

#define PANELS(name, to)                                                                  \
  static void panels_##name(void *d, int64_t depth, const void *s, int64_t ld, int64_t k, \
                            int64_t n, int64_t cols, double pad) {                        \
    pk_pack_panels_##name(d, depth, s, ld, k, n, cols, (to)pad);                          \
  }
#define ROWS(name, to)                                                                   \
  static void rows_##name(void *d, int64_t dld, const void *s, int64_t ld, int64_t rows, \
                          int64_t cols, int64_t fr, int64_t fc, double pad) {            \
    pk_pack_rows_##name(d, dld, s, ld, rows, cols, fr, fc, (to)pad);                     \
  }
#define WIDEN(name, from, expression)             \
  static uint32_t widen_##name(const void *src) { \
    from x;                                       \
    memcpy(&x, src, sizeof x);                    \
    return (uint32_t)(expression);                \
  }
PANELS(f32, float)
PANELS(t_f32, float)
ROWS(f32, float)
ROWS(t_f32, float)
WIDEN(f32, uint32_t, x)
PANELS(bf16, float)
PANELS(t_bf16, float)
ROWS(bf16, float)
ROWS(t_bf16, float)
WIDEN(bf16, uint16_t, pk_bits_of_f32(pk_f32_from_bf16(x)))
PANELS(f16, float)
PANELS(t_f16, float)
ROWS(f16, float)
ROWS(t_f16, float)
WIDEN(f16, uint16_t, pk_bits_of_f32(pk_f32_from_f16(x)))
PANELS(i8, int16_t)
PANELS(t_i8, int16_t)
ROWS(i8, int16_t)
ROWS(t_i8, int16_t)
WIDEN(i8, int8_t, x)
PANELS(u8, int16_t)
PANELS(t_u8, int16_t)
ROWS(u8, int16_t)
ROWS(t_u8, int16_t)
WIDEN(u8, uint8_t, x)
PANELS(i16, int16_t)
PANELS(t_i16, int16_t)
ROWS(i16, int16_t)
ROWS(t_i16, int16_t)
WIDEN(i16, int16_t, x)
PANELS(i32, int32_t)
PANELS(t_i32, int32_t)
ROWS(i32, int32_t)
ROWS(t_i32, int32_t)
WIDEN(i32, int32_t, x)

#define PACK(T, from, to, is_float) \
  { #T, from, to, is_float, {panels_##T, panels_t_##T }, {rows_##T, rows_t_##T }, widen_##T }
static const pack packs[] = {PACK(f32, 4, 4, true), PACK(bf16, 2, 4, true), PACK(f16, 2, 4, true),
                             PACK(i8, 1, 2, false), PACK(u8, 1, 2, false),  PACK(i16, 2, 2, false),
                             PACK(i32, 4, 4, false)};

/* A source of outer lines of inner elements, allocated to the byte; a negative distance starts at
 * the end. */
typedef struct {
  char *memory, *start;
  int64_t ld;
} source;

static source make_source(const pack *t, int64_t outer, int64_t inner, int64_t ld) {
  const int64_t distance = ld < 0 ? -ld : ld;
  source s = {allocate_random(outer > 0 ? ((outer - 1) * distance + inner) * t->from : 0), NULL,
              ld};
  s.start = s.memory + (ld < 0 && outer > 0 ? (outer - 1) * distance * t->from : 0);
  return s;
}

static uint32_t source_element(const pack *t, const source *s, int64_t outer, int64_t inner) {
  return t->widen(s->start + (outer * s->ld + inner) * t->from);
}

static uint32_t bits_of_pad(const pack *t, double pad) {
  return t->is_float ? pk_bits_of_f32((float)pad) : (uint32_t)(int32_t)pad;
}

static uint32_t result_element(const pack *t, const char *dst, int64_t index) {
  if (t->to == 2) {
    int16_t x;
    memcpy(&x, dst + 2 * index, 2);
    return (uint32_t)x;
  }
  uint32_t x;
  memcpy(&x, dst + 4 * index, 4);
  return x;
}

static void test_panels(const pack *t, int turned, int64_t k, int64_t n, int64_t depth,
                        int64_t cols, int64_t gap, double pad) {
  const int64_t inner = turned ? k : n, outer = turned ? n : k, group = t->to == 2 ? 2 : 1;
  source s = make_source(t, outer, inner, gap < 0 ? -inner + gap : inner + gap);
  char *dst = allocate_random(round_up(cols, PK_DOT_NR) * depth * t->to);
  t->panels[turned](dst, depth, s.start, s.ld, k, n, cols, pad);
  bool right = true;
  for (int64_t kk = 0; kk < depth; kk++)
    for (int64_t nn = 0; nn < round_up(cols, PK_DOT_NR); nn++) {
      const int64_t panel = nn / PK_DOT_NR, at = panel * depth * PK_DOT_NR +
                                                 (kk / group * PK_DOT_NR + nn % PK_DOT_NR) * group +
                                                 kk % group;
      const uint32_t wanted = kk >= k || nn >= n
                                  ? bits_of_pad(t, pad)
                                  : source_element(t, &s, turned ? nn : kk, turned ? kk : nn);
      right &= result_element(t, dst, at) == wanted;
    }
  expect(right, t->name, turned, k, n, cols);
  free(s.memory), free(dst);
}

static void test_rows(const pack *t, int turned, int64_t rows, int64_t cols, int64_t full_rows,
                      int64_t full_cols, int64_t gap, double pad) {
  const int64_t inner = turned ? rows : cols, outer = turned ? cols : rows, dld = full_cols + 3;
  source s = make_source(t, outer, inner, gap < 0 ? -inner + gap : inner + gap);
  const int64_t bytes = full_rows > 0 ? ((full_rows - 1) * dld + full_cols) * t->to : 0;
  char *dst = allocate_random(bytes), *before = allocate(bytes);
  memcpy(before, dst, (size_t)bytes);
  t->rows[turned](dst, dld, s.start, s.ld, rows, cols, full_rows, full_cols, pad);
  bool right = true;
  for (int64_t i = 0; i < bytes / t->to; i++) {
    const int64_t r = i / dld, c = i % dld;
    const uint32_t wanted = c >= full_cols ? result_element(t, before, i)
                            : r >= rows || c >= cols
                                ? bits_of_pad(t, pad)
                                : source_element(t, &s, turned ? c : r, turned ? r : c);
    right &= result_element(t, dst, i) == wanted;
  }
  expect(right, t->name, turned, rows, cols, -1);
  free(s.memory), free(dst), free(before);
}

static void test_packs(const pack *t) {
  static const int64_t sizes[] = {0,
                                  1,
                                  2,
                                  3,
                                  PK_LANES - 1,
                                  PK_LANES,
                                  PK_LANES + 1,
                                  PK_DOT_NR - 1,
                                  PK_DOT_NR,
                                  PK_DOT_NR + 1,
                                  2 * PK_DOT_NR + 5};
  enum { count = sizeof sizes / sizeof *sizes };
  for (int turned = 0; turned < 2; turned++)
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count; j++) {
        const int64_t k = sizes[i], n = sizes[j], even = round_up(k, 2), more = PK_DOT_NR + 2;
        const double pad = (i + j) % 2 ? 0 : -7;
        test_panels(t, turned, k, n, even, n, 0, pad);
        test_panels(t, turned, k, n, even + 2 * (j % 4), n + more * (i % 2), i + j, pad);
        test_panels(t, turned, k, n, even + 2, n + 1, -j - 1, pad);
        test_rows(t, turned, k, n, k, n, 0, pad);
        test_rows(t, turned, k, n, k + i, n + j, i + j, pad);
        test_rows(t, turned, k, n, k + more, n + 1, -j - 1, pad);
      }
}

/* gap < 0: contiguous rows at both ends. */
static void test_transpose(int64_t size, int64_t rows, int64_t cols, int64_t gap, bool stream) {
  const int64_t ld = cols + (gap > 0 ? gap : 0), dld = gap == 0  ? round_up(rows, PK_LANES)
                                                       : gap < 0 ? rows
                                                                 : rows + gap;
  char *src = allocate_random(rows ? ((rows - 1) * ld + cols) * size : 0);
  const int64_t bytes = cols ? ((cols - 1) * dld + rows) * size : 0;
  char *dst = aligned_alloc(64, (size_t)round_up(bytes + 1, 64));
  if (!dst) abort();
  memset(dst, 0x5a, (size_t)bytes + 1);
  if (size == 1) pk_transpose_block_b1(dst, dld, src, ld, rows, cols);
  if (size == 2) pk_transpose_block_b2(dst, dld, src, ld, rows, cols);
  if (size == 8) pk_transpose_block_b8(dst, dld, src, ld, rows, cols);
  if (size == 4)
    pk_transpose_block_f32((float *)(void *)dst, dld, (const float *)(const void *)src, ld, rows,
                           cols, stream);
  bool right = dst[bytes] == 0x5a;
  for (int64_t c = 0; c < cols; c++)
    for (int64_t r = 0; r < dld && (c * dld + r) * size < bytes; r++)
      for (int64_t b = 0; b < size; b++)
        right &= dst[(c * dld + r) * size + b] == (r < rows ? src[(r * ld + c) * size + b] : 0x5a);
  expect(right, "pk_transpose_block", size, rows, cols, gap);
  free(src), free(dst);
}

/* Rows of few elements, and the same number of lines. */
static void test_narrow_transposes(void) {
  static const int64_t lengths[] = {1, 15, 16, 32, 33, 96, 75, 128, 130};
  for (int64_t lines = 2; lines <= 10; lines++)
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      for (int64_t size = 1; size <= 4; size *= 2) {
        test_transpose(size, lengths[i], lines, -1, i % 2);
        test_transpose(size, lines, lengths[i], -1, i % 2);
        test_transpose(size, lengths[i], lines, 0, true);
      }
}

static void test_transposes(void) {
  static const int64_t sizes[] = {0,  1,  2,  PK_LANES - 1, PK_LANES, PK_LANES + 1, 31,
                                  32, 33, 64, 97,           145,      271};
  enum { count = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < count; i++)
    for (int j = 0; j < count; j++)
      for (int gap = 0; gap < 2; gap++)
        for (int64_t size = 1; size <= 8; size *= 2) {
          test_transpose(size, sizes[i], sizes[j], gap * 3, false);
          test_transpose(size, sizes[i], sizes[j], gap * 3, true);
        }
}

int main(void) {
  test_split();
  test_products();
  test_sources();
  test_blocks();
  for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) test_packs(&packs[i]);
  test_transposes();
  test_narrow_transposes();
  return check_end();
}
