// flags: -march=native
/* Every regime of <pk/dot/regimes.h>, forced on and off: products and transposes of many shapes
 * stay within the error of their sums, and where the table says SAME, their bits do not change.
 * The set of a core's regimes changes no bit either. Operands are allocated to the byte. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stdint.h>

static int always, never; /* the regimes that are forced; -1: none */
static int64_t regimes;   /* of the core */
static bool seen[64][2];  /* whether the condition of a regime failed, and whether it held */
static bool note(int regime, bool holds) { return seen[regime][holds] = true, holds; }
#define PK_REGIME_ALWAYS always
#define PK_REGIME_NEVER never
#define PK_REGIMES regimes
#define PK_REGIME_SEEN(regime, holds) note(regime, holds)
#define PK_DOT_BLOCK 112
#define PK_DOT_THIN 3
#define PK_DOT_ROWS_FOLLOWED 6
#define PK_DOT_LINES_FOLLOWED 3
#include <pk/half.h>
#include <pk/dot.h>
#include <pk/dot/bf16.h>
#include <pk/dot/skinny.h>
#include <pk/pack.h>

#include "check.h"
#include "data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifndef ONE_WIDTH
#include "widths.h"
#endif

static const struct {
  const char *name;
  bool same;
} table[] = {
#define SAME true
#define OWN false
#define ROW(name, of, core, bits, ...) {#name, bits},
    PK_DOT_REGIMES(ROW)
#undef SAME
#undef OWN
};

/* Values of 8 bits, which bf16 can represent; sums of their products are rounded. */
static float *random_floats(int64_t n) {
  float *p = allocate(4 * n);
  for (int64_t i = 0; i < n; i++)
    p[i] = ((float)(random_bits() % 255) - 127) * (random_bits() % 2 ? 1.0f : 0.0078125f);
  return p;
}

/* ---- products */

typedef struct {
  const char *name;
  void (*multiply)(const pk_dot_product *);
  bool few, lines, narrow; /* at most PK_DOT_SKINNY rows; a transposed right operand; of bf16 */
  bool panels, packed, small;
  bool pairs; /* the left operand is bf16 too */
} Way;

static const Way ways[] = {
    {"tiles", pk_dot_product_f32, false, false, false, true, false, false, false},
    {"panels", pk_dot_product_f32, false, false, false, true, true, false, false},
    {"small", pk_dot_product_f32, false, false, false, true, false, true, false},
    {"tail", pk_dot_tail_f32, false, false, false, true, false, false, false},
    {"few", pk_dot_skinny_f32, true, false, false, false, false, false, false},
    {"streamed", pk_dot_skinny_streamed, true, false, false, false, false, false, false},
    {"bf16", pk_dot_skinny_bf16, true, false, true, false, false, false, false},
    {"lines", pk_dot_skinny_t_f32, true, true, false, false, false, false, false},
    {"lines of bf16", pk_dot_skinny_t_bf16, true, true, true, false, false, false, false},
    {"lines of pairs", pk_dot_skinny_groups_t_bf16, true, true, true, false, false, false, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* k steps, of rows that are `lda` elements apart; results are `ldc` elements apart. */
typedef struct {
  int64_t rows, cols, k, lda, ldc;
} Shape;

static const Shape shapes[] = {
    {1, 40, 40, 40, 40},       {1, 300, 280, 280, 300},   {1, 32, 600, 600, 40},
    {2, 70, 300, 300, 70},     {3, 130, 257, 512, 512},   {4, 600, 40, 40, 600},
    {7, 96, 64, 64, 512},      {9, 200, 512, 1024, 200},  {16, 530, 70, 512, 1024},
    {24, 129, 600, 1536, 512}, {13, 16, 520, 1536, 16},   {14, 8, 700, 2048, 13},
    {40, 16, 250, 512, 16},    {40, 33, 3, 512, 40},      {70, 20, 1024, 1024, 20},
    {70, 100, 64, 64, 100},    {97, 300, 260, 1024, 300}, {130, 420, 520, 520, 1024},
    {100, 290, 100, 512, 290},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
  const Way *way;
  const Shape *shape;
  bool near, add;
  float *a, *b, *before, *result;
  uint16_t *narrow, *left;
  float *panels;
} Product;

static int64_t sums_of(const Shape *s) { return s->rows * s->ldc; }

static void multiply(Product *p, float *result) {
  static char scratch[PK_DOT_SCRATCH];
  const Shape *s = p->shape;
  const Way *w = p->way;
  const int64_t line = w->lines ? s->k : s->cols;
  memcpy(result, p->before, (size_t)(4 * sums_of(s)));
  w->multiply(&(pk_dot_product){.rows = s->rows,
                                .cols = s->cols,
                                .k = s->k,
                                .a = w->pairs ? (void *)p->left : p->a,
                                .lda = (w->pairs ? 2 : 4) * s->lda,
                                .panels = p->panels,
                                .depth = s->k,
                                .source = w->packed   ? NULL
                                          : w->narrow ? (void *)p->narrow
                                                      : p->b,
                                .ldsource = (w->narrow ? 2 : 4) * line,
                                .from = p->add ? p->before : NULL,
                                .ldfrom = 4 * s->ldc,
                                .to = result,
                                .ldto = 4 * s->ldc,
                                .near = p->near,
                                .in_place = w->small,
                                .scratch = scratch});
}

/* Against sums in double: each of k additions rounds. */
static bool is_right(const Product *p, const float *result) {
  const Shape *s = p->shape;
  for (int64_t r = 0; r < s->rows; r++)
    for (int64_t n = 0; n < s->ldc; n++) {
      const float before = p->before[r * s->ldc + n], is = result[r * s->ldc + n];
      double sum = p->add ? before : 0, all = fabs(sum);
      for (int64_t k = 0; k < s->k && n < s->cols; k++) {
        const double by = p->b[p->way->lines ? n * s->k + k : k * s->cols + n];
        sum += (double)p->a[r * s->lda + k] * by, all += fabs((double)p->a[r * s->lda + k] * by);
      }
      if (n < s->cols ? !(fabs(is - sum) <= (double)(s->k + 2) * 0x1p-24 * all) : is != before)
        return false;
    }
  return true;
}

/* Results under other settings: each must be right, and, if `same`, have the same bits. */
static void compare(Product *p, const char *what, const char *regime, bool same) {
  const Shape *s = p->shape;
  const int64_t bytes = 4 * sums_of(s);
  float *other = allocate(bytes);
  multiply(p, other);
  const bool equal = memcmp(other, p->result, (size_t)bytes) == 0;
  check(same ? equal : equal || is_right(p, other), regime,
        "%s: %d bytes, %s: %lld x %lld x %lld, %s%s", what, PK_VEC_BYTES, p->way->name,
        (long long)s->rows, (long long)s->k, (long long)s->cols, p->add ? "added" : "set",
        p->near ? ", near" : "");
  free(other);
}

static void force(int which, int how) { always = how ? which : -1, never = how ? -1 : which; }

static void test_product(Product *p) {
  multiply(p, p->result);
  check(is_right(p, p->result), p->way->name, "%lld x %lld x %lld", (long long)p->shape->rows,
        (long long)p->shape->k, (long long)p->shape->cols);
  for (int i = 0; i < PK_REGIME_COUNT; i++)
    for (int how = 0; how < 2; how++) {
      force(i, how);
      compare(p, how ? "always" : "never", table[i].name, table[i].same);
    }
  always = never = -1;
  for (int i = 0; i < 4; i++) {
    regimes = i == 0 ? 0 : i == 1 ? -1 : (int64_t)random_bits();
    compare(p, "regimes of a core", "cores", true);
  }
  regimes = 0;
}

static bool has(const Way *w, const Shape *s) {
  if (w->few && s->rows > PK_DOT_SKINNY) return false;
  return !w->small || pk_dot_is_small(s->k, s->cols, 4 * s->cols, 0);
}

static void test_shape(const Way *w, const Shape *s, bool near, bool add) {
  const int64_t line = w->lines ? s->k : s->cols, right = s->k * s->cols,
                left = (s->rows - 1) * s->lda + s->k,
                panels = (s->cols + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR;
  Product p = {.way = w, .shape = s, .near = near, .add = add};
  p.a = random_floats(left), p.b = random_floats(right);
  p.before = random_floats(sums_of(s)), p.result = allocate(4 * sums_of(s));
  p.narrow = allocate(2 * right), p.left = allocate(2 * left);
  for (int64_t i = 0; i < left; i++) p.left[i] = pk_bf16_from_f32(p.a[i]);
  for (int64_t i = 0; i < right; i++) p.narrow[i] = pk_bf16_from_f32(p.b[i]);
  p.panels = w->panels ? allocate(4 * s->k * panels) : NULL;
  if (w->packed) pk_pack_panels_f32(p.panels, s->k, p.b, line, s->k, s->cols, panels, 0);
  test_product(&p);
  free(p.a), free(p.b), free(p.before), free(p.result), free(p.narrow), free(p.left),
      free(p.panels);
}

/* ---- transposes */

static void test_transpose(int64_t rows, int64_t cols, int64_t dld, int64_t shift, bool stream) {
  float *from = random_floats(rows * cols), *memory = NULL;
  if (posix_memalign((void **)&memory, 64, (size_t)(4 * (cols * dld + shift)))) abort();
  float *to = memory + shift;
  for (int i = 0; i < 2 * PK_REGIME_COUNT; i++) {
    force(i / 2, i % 2);
    memset(memory, 0x5a, (size_t)(4 * (cols * dld + shift)));
    pk_transpose_block_f32(to, dld, from, cols, rows, cols, stream);
    bool right = true;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) right &= to[c * dld + r] == from[r * cols + c];
    check(right, table[i / 2].name, "%s: transpose of %lld x %lld, stream %d",
          i % 2 ? "always" : "never", (long long)rows, (long long)cols, stream);
  }
  always = never = -1;
  free(from), free(memory);
}

/* Callers decide about `few`; short vectors have fewer forms. */
static bool can_be(int regime) {
  if (regime == PK_REGIME_shifted) return PK_PART_BYTES == 64;
  return regime != PK_REGIME_skinny &&
         (regime != PK_REGIME_lines_followed || 2 * PK_DOT_SKINNY_LINES <= PK_PART_LANES);
}

/* A regime that SOME cores have: of a core that lacks it, forced off and on, and out of its range.
 */
static void test_force(void) {
  const int64_t wide = 1 << 20, narrow = 1;
  EXPECT(!pk_dot_is_streamed(wide));
  regimes = 1LL << PK_REGIME_streamed;
  EXPECT(pk_dot_is_streamed(wide) && !pk_dot_is_streamed(narrow));
  force(PK_REGIME_streamed, 0);
  EXPECT(!pk_dot_is_streamed(wide));
  force(PK_REGIME_streamed, 1);
  regimes = 0;
  EXPECT(pk_dot_is_streamed(narrow));
  force(PK_REGIME_shallow, 1);
  EXPECT(!pk_dot_is_shallow(4 * PK_DOT_SHALLOW + 4)); /* the requirements of a form still apply */
  always = never = -1;
}

int main(void) {
  always = never = -1;
  test_force();
  for (int w = 0; w < WAYS; w++)
    for (int s = 0; s < SHAPES; s++)
      if (has(&ways[w], &shapes[s]))
        for (int i = 0; i < (ways[w].few ? 4 : 2); i++)
          test_shape(&ways[w], &shapes[s], i & 2, i & 1);
  for (int stream = 0; stream < 2; stream++) {
    test_transpose(64, 80, 64, 0, stream);
    test_transpose(70, 131, 70, 1, stream);
  }
  for (int i = 0; i < PK_REGIME_COUNT; i++)
    for (int holds = 0; holds < 2; holds++)
      if (can_be(i))
        check(seen[i][holds], "reached", "%s is never %s", table[i].name, holds ? "on" : "off");
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
