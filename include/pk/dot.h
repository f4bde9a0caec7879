/* dot.h: matrix products on packed panels.
 *
 * The right operand [K, N] is in panels of NR = PK_DOT_NV * PK_LANES columns, each `depth` rows
 * of NR contiguous elements: element (k, n) is panel[(n / NR) * depth * NR + k * NR + n % NR]
 * (pack.h writes them). The left operand is row-major: element (r, k) is a[r * lda + k]. Half
 * floats are widened when packed, so the f32 kernels serve them. Integer sums wrap.
 *
 * Panels that are not filled yet are filled by the product itself: its first rows read the right
 * operand in place and write the panels. Results are stored as whole panels, or only the columns
 * that exist.
 *
 * Narrower elements are in groups of 4 bytes along k: panel [k / 2][NR][2] or [k / 4][NR][4]
 * (dot/i16.h, dot/i8.h, dot/bf16.h). Every kind of product therefore takes 4 bytes of a row of `a`
 * and 4 * NR bytes of the panel a step, and keeps 32-bit sums: one tile serves all (dot/tile.h),
 * and a kind is a few small functions.
 *
 *   pk_dot_product_KIND(product)
 */
#ifndef PK_DOT_H
#define PK_DOT_H

#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/dot/product.h>
#include <pk/dot/right.h>
#include <stdint.h>
#include <string.h>

/* Rows and vectors of the register tile: as many sums as fit the registers together with a
 * broadcast and NV columns. The numbers are those of codegen/loops/target.c for the machine, so
 * that tests without a kernel's macros use the tile that kernels use. On aarch64 14 rows would
 * just fit, but gcc loads ahead of the multiply-adds and spills. */
#ifndef PK_DOT_MR
#if PK_VEC_BYTES == 64
#define PK_DOT_MR 14
#elif defined(__aarch64__)
#define PK_DOT_MR 8
#else
#define PK_DOT_MR 6
#endif
#endif
#ifndef PK_DOT_NV
#define PK_DOT_NV 2
#endif
#if PK_DOT_MR < 1 || PK_DOT_MR > 16 || PK_DOT_NV < 1 || PK_DOT_NV > 2
#error "a register tile has 1 to 16 rows and 1 or 2 vectors"
#endif
#define PK_DOT_NR (PK_DOT_NV * PK_LANES)

enum {
  PK_DOT_STEP_BYTES = 4 * PK_DOT_NR,
  PK_DOT_SLOT = 16,       /* 64 bytes of a row */
  PK_DOT_SIDE_STEPS = 2,  /* steps of the next panel; 8 row tiles complete it */
  PK_DOT_SIDE_NEAR = 512, /* prefetch distance of a copied row in bytes; with 128 or 256, 2048 cubed
                             is 1 % slower */
};

#if defined(__clang__)
#define PK_DOT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PK_DOT_UNROLL _Pragma("GCC unroll 16")
#endif

/* The functions of a kind of product: the 4 bytes at p in every lane; load of a vector of the
 * panel; load and store of a vector of the result; sum + x * b; the initial sum of a row
 * (`start`, which `starts` sets for n rows, each with `bytes` to multiply); and the initial sum
 * that continues c (`more`). */
#define PK_DOT_FROM_ZERO(T)                                                                   \
  PK_DOT_INLINE pk_dot_vector_##T pk_dot_more_##T(pk_dot_vector_##T c, const int32_t *start,  \
                                                  int row) {                                  \
    return (void)start, (void)row, c;                                                         \
  }                                                                                           \
  PK_DOT_INLINE pk_dot_vector_##T pk_dot_start_##T(const int32_t *start, int row) {           \
    return (void)start, (void)row, (pk_dot_vector_##T){0};                                    \
  }                                                                                           \
  PK_DOT_INLINE void pk_dot_starts_##T(int32_t *start, int64_t n, const char *a, int64_t lda, \
                                       int64_t bytes, int32_t factor) {                       \
    (void)start, (void)n, (void)a, (void)lda, (void)bytes, (void)factor;                      \
  }
/* Integer sums are exact in any order. If sums are floats, those of a part of k start from 0 and
 * are added to the result (pk_dot_is_apart). */
#define PK_DOT_SUMS_OF_FLOATS(T)                                                          \
  PK_DOT_INLINE bool pk_dot_apart_##T(const char *from, int64_t steps) {                  \
    return pk_dot_is_apart(from, steps);                                                  \
  }                                                                                       \
  PK_DOT_INLINE pk_f32v pk_dot_add_##T(pk_f32v a, pk_f32v b) { return pk_add_f32(a, b); } \
  PK_DOT_INLINE pk_f32p pk_dot_folded_##T(pk_f32v v) { return pk_dot_fold_f32(v); }       \
  PK_DOT_INLINE void pk_dot_add_lanes_##T(pk_f32p *sums, int64_t cols, char *to) {        \
    pk_dot_put_across_f32(sums, cols, to);                                                \
  }
#define PK_DOT_SUMS_OF_INTEGERS(T)                                                        \
  PK_DOT_INLINE bool pk_dot_apart_##T(const char *from, int64_t steps) {                  \
    return (void)from, (void)steps, false;                                                \
  }                                                                                       \
  PK_DOT_INLINE pk_i32v pk_dot_add_##T(pk_i32v a, pk_i32v b) { return pk_add_i32(a, b); } \
  PK_DOT_INLINE pk_i32p pk_dot_folded_##T(pk_i32v v) { return pk_dot_fold_i32(v); }       \
  PK_DOT_INLINE void pk_dot_add_lanes_##T(pk_i32p *sums, int64_t cols, char *to) {        \
    pk_dot_put_across_i32(sums, cols, to);                                                \
  }
typedef pk_f32v pk_dot_vector_f32;
PK_DOT_INLINE pk_f32v pk_dot_splat_f32(const char *p) {
  return pk_splat_f32(*(const float *)(const void *)p);
}
PK_DOT_INLINE pk_f32v pk_dot_load_f32(const char *p) {
  return pk_load_f32((const float *)(const void *)p);
}
PK_DOT_INLINE void pk_dot_store_f32(char *p, pk_f32v v) { pk_store_f32((float *)(void *)p, v); }
PK_DOT_FROM_ZERO(f32)
PK_DOT_SUMS_OF_FLOATS(f32)

typedef pk_i32v pk_dot_vector_i32;
PK_DOT_INLINE pk_i32v pk_dot_splat_i32(const char *p) {
  int32_t x;
  memcpy(&x, p, 4);
  return pk_splat_i32(x);
}
PK_DOT_INLINE pk_i32v pk_dot_load_i32(const char *p) {
  return pk_load_i32((const int32_t *)(const void *)p);
}
PK_DOT_INLINE void pk_dot_store_i32(char *p, pk_i32v v) { pk_store_i32((int32_t *)(void *)p, v); }
PK_DOT_INLINE pk_i32v pk_dot_madd_i32(pk_i32v x, pk_i32v b, pk_i32v sum) {
  return pk_add_i32(sum, pk_mul_i32(x, b));
}
PK_DOT_FROM_ZERO(i32)
PK_DOT_SUMS_OF_INTEGERS(i32)

/* Does the machine have instructions that multiply pairs of rows by pairs of columns
 * (dot/pairs.h)? */
#if defined(__ARM_NEON) && defined(__aarch64__) && !defined(SIMDE_NO_NATIVE) && \
    !defined(__ARM_BIG_ENDIAN) && PK_VEC_BYTES == 16 && PK_DOT_MR <= 8
#ifdef __ARM_FEATURE_MATMUL_INT8
#define PK_DOT_PAIRS_OF_BYTES 1
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#define PK_DOT_PAIRS_OF_BF16 1
#endif
#endif

/* Memory operations that the tiles of a block perform while they multiply, some with each
 * PK_DOT_SLOT steps (dot/block.h). */
typedef struct {
  const char *a; /* rows of the left operand that the next tile reads */
  int64_t lda, rows;
  char *
      copy; /* where these rows are copied, 64 bytes of each at a time; NULL: they are prefetched */
  int64_t ldcopy;
  const char *source; /* steps of the right operand for the next panel, or NULL */
  int64_t ldsource;
  char *panel; /* the next panel, which is filled from `source`, or otherwise prefetched into L2 */
  int64_t steps;
  const char *sums; /* rows of the result that the next tile continues */
  int64_t ldsums, sums_rows;
} pk_dot_side;

/* The operands of one register tile. Strides are in bytes. */
typedef struct {
  const char *a;
  int64_t lda;
  const char *b;
  int64_t ldb; /* distance between steps: PK_DOT_STEP_BYTES in a panel */
  int64_t k;
  char *fill;       /* a panel to which the rows of b are also copied, or NULL */
  const char *from; /* the values that the sums continue, or NULL */
  int64_t ldfrom;
  const char *plus; /* the values that are finally added to the sums, or NULL */
  int64_t ldplus;
  char *to;
  int64_t ldto;
  const int32_t *start; /* the initial sum of each row, for kinds whose sums do not start at zero */
  bool narrow;          /* only the first vector of columns is valid */
  pk_dot_side *side;    /* or NULL */
} pk_dot_tile;

/* The building blocks of dot/tile.h. S(1) S(2) .. S(n), statements with literal numbers: */
#define PK_DOT_ROWS_TO(n, S) PK_DOT_ROWS_TO_(n, S)
#define PK_DOT_ROWS_TO_(n, S) PK_DOT_ROWS_##n(S)
#define PK_DOT_ROWS_1(S) S(1)
#define PK_DOT_ROWS_2(S) PK_DOT_ROWS_1(S) S(2)
#define PK_DOT_ROWS_3(S) PK_DOT_ROWS_2(S) S(3)
#define PK_DOT_ROWS_4(S) PK_DOT_ROWS_3(S) S(4)
#define PK_DOT_ROWS_5(S) PK_DOT_ROWS_4(S) S(5)
#define PK_DOT_ROWS_6(S) PK_DOT_ROWS_5(S) S(6)
#define PK_DOT_ROWS_7(S) PK_DOT_ROWS_6(S) S(7)
#define PK_DOT_ROWS_8(S) PK_DOT_ROWS_7(S) S(8)
#define PK_DOT_ROWS_9(S) PK_DOT_ROWS_8(S) S(9)
#define PK_DOT_ROWS_10(S) PK_DOT_ROWS_9(S) S(10)
#define PK_DOT_ROWS_11(S) PK_DOT_ROWS_10(S) S(11)
#define PK_DOT_ROWS_12(S) PK_DOT_ROWS_11(S) S(12)
#define PK_DOT_ROWS_13(S) PK_DOT_ROWS_12(S) S(13)
#define PK_DOT_ROWS_14(S) PK_DOT_ROWS_13(S) S(14)
#define PK_DOT_ROWS_15(S) PK_DOT_ROWS_14(S) S(15)
#define PK_DOT_ROWS_16(S) PK_DOT_ROWS_15(S) S(16)

/* pk_dot_NAME_KIND, pk_dot_tile_KIND_ROWS. */
#define PK_DOT_OF(name) PK_DOT_JOIN(name, PK_DOT_KIND)
#define PK_DOT_JOIN(name, kind) PK_DOT_JOIN_(name, kind)
#define PK_DOT_JOIN_(name, kind) pk_dot_##name##_##kind
#define PK_DOT_VECTOR PK_DOT_OF(vector)
#define PK_DOT_TILE(rows) PK_DOT_TILE_(PK_DOT_KIND, rows)
#define PK_DOT_TILE_(kind, rows) PK_DOT_TILE__(kind, rows)
#define PK_DOT_TILE__(kind, rows) pk_dot_tile_##kind##_##rows

/* An empty asm hides the origin of a pointer from the compiler, which would otherwise keep a
 * separate pointer for each row. */
#define PK_DOT_KEEP(pointer) __asm__("" : "+r"(pointer));
#define PK_DOT_SECOND \
  (4 * PK_LANES * (PK_DOT_NV - 1)) /* bytes from the first vector of a panel's row to the last */
/* A row of a right operand that is read in place may be unaligned, and then touches one more
 * line. */
#define PK_DOT_STEP                                                                       \
  {                                                                                       \
    const PK_DOT_VECTOR b0 = PK_DOT_OF(load)(b), b1 = PK_DOT_OF(load)(b + PK_DOT_SECOND); \
    if (fill) {                                                                           \
      PK_DOT_OF(store)(fill, b0);                                                         \
      PK_DOT_OF(store)(fill + PK_DOT_SECOND, b1);                                         \
      fill += PK_DOT_STEP_BYTES;                                                          \
    }                                                                                     \
    __builtin_prefetch(b + near);                                                         \
    if (PK_DOT_STEP_BYTES > 64) __builtin_prefetch(b + near + 64);                        \
    if (across) __builtin_prefetch(b + near + PK_DOT_STEP_BYTES - 1);                     \
    PK_DOT_STEP_ROWS                                                                      \
    b += ldb;                                                                             \
  }
/* The same for a panel that is already filled. */
#define PK_DOT_PANEL_STEP                                                                     \
  {                                                                                           \
    const PK_DOT_VECTOR b0 = PK_DOT_OF(load)(b), b1 = PK_DOT_OF(load)(b + PK_DOT_SECOND);     \
    __builtin_prefetch(b + PK_DOT_NEAR * PK_DOT_STEP_BYTES);                                  \
    if (PK_DOT_STEP_BYTES > 64) __builtin_prefetch(b + PK_DOT_NEAR * PK_DOT_STEP_BYTES + 64); \
    PK_DOT_STEP_ROWS                                                                          \
    b += PK_DOT_STEP_BYTES;                                                                   \
  }
#define PK_DOT_STEP_ROWS                  \
  PK_DOT_KEEP(row[0])                     \
  PK_DOT_KEEP(row[1])                     \
  PK_DOT_KEEP(row[2])                     \
  PK_DOT_KEEP(row[3])                     \
  PK_DOT_ROWS_TO(PK_DOT_ROWS, PK_DOT_ROW) \
  row[0] += 4, row[1] += 4, row[2] += 4, row[3] += 4;
#define PK_DOT_ROW(n)                                                                 \
  {                                                                                   \
    const PK_DOT_VECTOR x = PK_DOT_OF(splat)(row[(n - 1) / 4] + stride[(n - 1) % 4]); \
    sum[n - 1][0] = PK_DOT_OF(madd)(x, b0, sum[n - 1][0]);                            \
    if (PK_DOT_NV > 1)                                                                \
      sum[n - 1][PK_DOT_NV - 1] = PK_DOT_OF(madd)(x, b1, sum[n - 1][PK_DOT_NV - 1]);  \
  }
#define PK_DOT_NARROW_STEP                                        \
  {                                                               \
    const PK_DOT_VECTOR b0 = PK_DOT_OF(load)(b);                  \
    PK_DOT_KEEP(row[0])                                           \
    PK_DOT_KEEP(row[1])                                           \
    PK_DOT_KEEP(row[2])                                           \
    PK_DOT_KEEP(row[3])                                           \
    PK_DOT_ROWS_TO(PK_DOT_ROWS, PK_DOT_NARROW_ROW)                \
    row[0] += 4, row[1] += 4, row[2] += 4, row[3] += 4, b += ldb; \
  }
#define PK_DOT_NARROW_ROW(n)                                                                    \
  sum[n - 1][0] = PK_DOT_OF(madd)(PK_DOT_OF(splat)(row[(n - 1) / 4] + stride[(n - 1) % 4]), b0, \
                                  sum[n - 1][0]);
#define PK_DOT_START(n) \
  sum[n - 1][0] = sum[n - 1][PK_DOT_NV - 1] = PK_DOT_OF(start)(t->start, n - 1);
#define PK_DOT_RESUME(n) PK_DOT_OF(resume)(sum[n - 1], from + (n - 1) * ldfrom, t->start, n - 1);
#define PK_DOT_PLUS(n) PK_DOT_OF(plus)(sum[n - 1], plus + (n - 1) * ldplus);
#define PK_DOT_REPLACE(n) PK_DOT_OF(replace)(sum[n - 1], to + (n - 1) * ldto);

PK_REGIMES_OF_TILES(PK_REGIME_FUNCTION)

PK_DOT_INLINE void pk_dot_copy_rows(char *to, int64_t ld, const char *a, int64_t lda, int64_t rows,
                                    int64_t bytes) {
  for (int64_t r = 0; r < rows; r++) memcpy(to + r * ld, a + r * lda, (size_t)bytes);
}

/* Prefetches rows of the left operand while a row of tiles multiplies, the same number of lines
 * with each tile. `cols` is not 0. */
typedef struct {
  const char *a;
  int64_t lda, rows, bytes, at, lines;
} pk_dot_ahead;
PK_DOT_INLINE pk_dot_ahead pk_dot_rows_ahead(const char *a, int64_t lda, int64_t rows,
                                             int64_t bytes, int64_t cols) {
  const int64_t tiles = (cols + PK_DOT_NR - 1) / PK_DOT_NR, lines = rows * ((bytes + 63) / 64);
  return (pk_dot_ahead){a, lda, rows, bytes, 0, (lines + tiles - 1) / tiles};
}

/* The distance of copied rows of a left operand, which does not make them evict each other. */
PK_DOT_INLINE int64_t pk_dot_scratch_row(int64_t bytes) { return bytes / 64 * 64 + 64; }

/* The rows of the next tile, at most `most`: as few tiles as possible, of sizes as equal as
 * possible (16 rows are 8 + 8, not 14 + 2). */
PK_DOT_INLINE int pk_dot_take_of(int64_t rows, int most) {
  const int64_t tiles = (rows + most - 1) / most;
  return (int)((rows + tiles - 1) / tiles);
}
PK_DOT_INLINE int pk_dot_take(int64_t rows) { return pk_dot_take_of(rows, PK_DOT_MR); }

/* The maximum number of rows of a tile. */
PK_DOT_INLINE int pk_dot_most(const pk_dot_product *p, int64_t bytes) {
  return pk_dot_is_thin(p->lda, bytes, p->cols) ? PK_DOT_THIN : PK_DOT_MR;
}

#define PK_DOT_KIND f32
#include <pk/dot/tiles.h>
#undef PK_DOT_KIND
#define PK_DOT_KIND i32
#include <pk/dot/tiles.h>
#undef PK_DOT_KIND

PK_DOT_INLINE void pk_dot_product_f32(const pk_dot_product *p) { pk_dot_multiply_f32(p, 4, 0); }
PK_DOT_INLINE void pk_dot_product_i32(const pk_dot_product *p) { pk_dot_multiply_i32(p, 4, 0); }

#endif /* PK_MICRO */
#endif
