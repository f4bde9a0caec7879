/* Times of the kernels of dot.h and pack.h beside the multiply-add peak of the same moment.
 * cc -std=c11 -O2 -march=native -ffp-contract=off -Iinclude tests/bench/bench_dot.c -o
 * build/bench_dot && build/bench_dot */
#define _GNU_SOURCE
#include <pk/pack.h>
#include <pk/dot/i16.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 21 };

/* Processor time, since the machine may be shared. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float sink;

/* GFLOP/s of independent multiply-adds in registers. */
static double peak(void) {
  enum { count = 200000 };
  pk_f32v sum[10];
  const pk_f32v x = pk_splat_f32(0.999f), y = pk_splat_f32(1e-4f);
  for (int i = 0; i < 10; i++) sum[i] = y;
  const double start = now();
  for (int n = 0; n < count; n++)
    PK_DOT_UNROLL for (int i = 0; i < 10; i++) sum[i] = pk_fma_fast_f32(sum[i], x, y);
  const double seconds = now() - start;
  for (int i = 0; i < 10; i++) sink = pk_reduce_add_f32(sum[i]);
  return 2.0 * 10 * PK_LANES * count / seconds / 1e9;
}

static void *memory(int64_t bytes) {
  unsigned char *p = aligned_alloc(4096, (size_t)((bytes + 4095) / 4096 * 4096));
  if (!p) abort();
  for (int64_t i = 0; i < bytes; i += 4) {
    const float x = (float)(i / 4 % 7) - 3;
    memcpy(p + i, &x, 4);
  }
  return p;
}

typedef struct {
  int64_t m, n, k, lda;
  float *a, *b, *c, *panels, *rows;
} job;

static int64_t round_up(int64_t n) { return (n + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR; }

static pk_dot_product packed(const job *j) {
  return (pk_dot_product){.rows = j->m,
                          .cols = j->n,
                          .k = j->k,
                          .a = j->a,
                          .lda = 4 * j->lda,
                          .panels = j->panels,
                          .depth = j->k,
                          .to = j->c,
                          .ldto = 4 * (round_up(j->n) + 16),
                          .padded = true};
}

static void block_f32(const job *j) {
  const pk_dot_product p = packed(j);
  pk_dot_product_f32(&p);
}

static void block_i16(const job *j) {
  pk_dot_product p = packed(j);
  p.lda = 2 * j->lda, p.k = p.depth = j->k / 2;
  pk_dot_product_i16(&p);
}

static void block_i32(const job *j) {
  const pk_dot_product p = packed(j);
  pk_dot_product_i32(&p);
}

/* A product of 1024 cubed in blocks of 256x512x512, of packed panels or of ones that are filled on
 * the way. */
static void blocked(const job *j, bool fill) {
  static char room[PK_DOT_SCRATCH];
  enum { size = 1024, rows = 256, cols = 512, deep = 512 };
  for (int64_t i = 0; i < size; i += rows)
    for (int64_t n = 0; n < size; n += cols)
      for (int64_t k = 0; k < size; k += deep) {
        float *c = j->c + i * size + n;
        const float *b = fill && i == 0 ? j->b + k * size + n : NULL;
        const pk_dot_product p = {rows,     cols,
                                  deep,     j->a + i * size + k,
                                  4 * size, j->panels + n * size + k * cols,
                                  deep,     b,
                                  4 * size, k ? c : NULL,
                                  4 * size, c,
                                  4 * size, false,
                                  false,    room};
        pk_dot_product_f32(&p);
      }
}
static void blocked_packed(const job *j) { blocked(j, false); }
static void blocked_once(const job *j) { blocked(j, true); }

static void pack_b(const job *j) {
  pk_pack_panels_f32(j->panels, j->k, j->b, j->n, j->k, j->n, j->n, 0);
}
static void pack_b_t(const job *j) {
  pk_pack_panels_t_f32(j->panels, j->k, j->b, j->k, j->k, j->n, j->n, 0);
}
static void pack_bf16(const job *j) {
  pk_pack_panels_bf16(j->panels, j->k, (const uint16_t *)(const void *)j->b, j->n, j->k, j->n, j->n,
                      0);
}
static void pack_f16(const job *j) {
  pk_pack_panels_f16(j->panels, j->k, (const uint16_t *)(const void *)j->b, j->n, j->k, j->n, j->n,
                     0);
}
static void pack_i8(const job *j) {
  pk_pack_panels_i8((int16_t *)(void *)j->panels, j->k, (const int8_t *)j->b, j->n, j->k, j->n,
                    j->n, 0);
}
static void pack_i8_t(const job *j) {
  pk_pack_panels_t_i8((int16_t *)(void *)j->panels, j->k, (const int8_t *)j->b, j->k, j->k, j->n,
                      j->n, 0);
}
static void pack_rows(const job *j) {
  pk_pack_rows_f32(j->panels, j->k + 16, j->b, j->n, j->n, j->k, j->n, j->k, 0);
}
static void transpose(const job *j) {
  pk_transpose_block_f32(j->c, j->m, j->a, j->n, j->m, j->n, false);
}
static void transpose_stream(const job *j) {
  pk_transpose_block_f32(j->c, j->m, j->a, j->n, j->m, j->n, true);
}
static void transpose_b2(const job *j) {
  pk_transpose_block_b2(j->c, j->m, j->a, j->n, j->m, j->n);
}
static void transpose_b1(const job *j) {
  pk_transpose_block_b1(j->c, j->m, j->a, j->n, j->m, j->n);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* The best time of a call, and the middle of its shares of the peak measured right beside it. */
static double measure(void (*run)(const job *), const job *j, double work, double *share) {
  double shares[ROUNDS], best = 1e30;
  int calls = 1;
  run(j);
  for (double seconds = 0; seconds < 2e-3; calls *= 2) {
    const double start = now();
    for (int i = 0; i < calls; i++) run(j);
    seconds = now() - start;
  }
  for (int r = 0; r < ROUNDS; r++) {
    const double before = peak(), start = now();
    for (int i = 0; i < calls; i++) run(j);
    const double each = (now() - start) / calls, after = peak();
    if (each < best) best = each;
    shares[r] = work / each / 1e9 / (before > after ? before : after);
  }
  qsort(shares, ROUNDS, sizeof *shares, ascending);
  *share = shares[ROUNDS / 2];
  return best;
}

static void product(const char *name, void (*run)(const job *), job j, int64_t m, int64_t n,
                    int64_t k, int64_t lda) {
  j.m = m, j.n = n, j.k = k, j.lda = lda;
  double share;
  const double work = 2.0 * (double)m * (double)n * (double)k,
               best = measure(run, &j, work, &share);
  printf("%-28s %5d x %4d x %4d lda %4d %10.1f us %8.1f G/s %6.1f %% of peak\n", name, (int)m,
         (int)n, (int)k, (int)lda, best * 1e6, work / best / 1e9, share * 100);
}

static void relayout(const char *name, void (*run)(const job *), job j, int64_t m, int64_t n,
                     int64_t k, double bytes) {
  j.m = m, j.n = n, j.k = k;
  double share;
  const double best = measure(run, &j, bytes, &share);
  printf("%-28s %5d x %4d %30.1f us %8.1f GB/s\n", name, (int)(m ? m : k), (int)n, best * 1e6,
         bytes / best / 1e9);
}

int main(void) {
  enum { large = 4096 };
  job j = {.a = memory(4 * large * large),
           .b = memory(4 << 20),
           .c = memory(4 * large * large),
           .panels = memory(8 << 20),
           .rows = memory(4 << 20)};
  printf("%d bytes a vector, tiles of %d x %d; multiply-adds: %.1f GFLOP/s\n", PK_VEC_BYTES,
         PK_DOT_MR, PK_DOT_NR, peak());
  product("256x512x512, packed before", blocked_packed, j, 1024, 1024, 1024, 1024);
  product("256x512x512, b packed once", blocked_once, j, 1024, 1024, 1024, 1024);
  static const int sizes[][4] = {{256, 512, 512, 512}, {56, 512, 64, 64},  {56, 64, 512, 528},
                                 {128, 128, 128, 128}, {64, 64, 64, 64},   {256, 256, 256, 256},
                                 {1, 512, 512, 512},   {2, 512, 512, 512}, {3, 512, 512, 512},
                                 {4, 512, 512, 512},   {8, 512, 512, 512}, {17, 512, 512, 512}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    product("f32", block_f32, j, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
  product("i16 (i8, u8)", block_i16, j, 256, 512, 512, 512);
  product("i16 (i8, u8)", block_i16, j, 1024, 1024, 1024, 1040);
  product("i16 (i8, u8)", block_i16, j, 64, 64, 64, 64);
  product("i32", block_i32, j, 256, 512, 512, 512);
  relayout("panels f32", pack_b, j, 0, 512, 512, 8.0 * 512 * 512);
  relayout("panels f32, transposed", pack_b_t, j, 0, 512, 512, 8.0 * 512 * 512);
  relayout("panels bf16", pack_bf16, j, 0, 512, 512, 6.0 * 512 * 512);
  relayout("panels f16", pack_f16, j, 0, 512, 512, 6.0 * 512 * 512);
  relayout("panels i8", pack_i8, j, 0, 512, 512, 3.0 * 512 * 512);
  relayout("panels i8, transposed", pack_i8_t, j, 0, 512, 512, 3.0 * 512 * 512);
  relayout("rows f32", pack_rows, j, 0, 512, 512, 8.0 * 512 * 512);
  relayout("transpose f32", transpose, j, 1024, 1024, 0, 8.0 * 1024 * 1024);
  relayout("transpose f32, stream", transpose_stream, j, 1024, 1024, 0, 8.0 * 1024 * 1024);
  relayout("transpose f32", transpose, j, large, large, 0, 8.0 * large * large);
  relayout("transpose f32, stream", transpose_stream, j, large, large, 0, 8.0 * large * large);
  relayout("transpose 2 bytes", transpose_b2, j, 1024, 1024, 0, 4.0 * 1024 * 1024);
  relayout("transpose 1 byte", transpose_b1, j, 1024, 1024, 0, 2.0 * 1024 * 1024);
  return 0;
}
