/* dot_few.h: products with few rows, bound by the bandwidth at which the right operand comes: it is read once, where it lies.
 *
 *   pk_dot_few_T(rows, cols, a, lda, b, ldb, k, c, ldc, mode)      element (kk, n) of b is b[kk * ldb + n]
 *   pk_dot_few_t_T(rows, cols, a, lda, b, ldb, k, c, ldc, mode)    element (kk, n) of b is b[n * ldb + kk]
 *
 * T is that of b: f32, bf16, f16 (both uint16_t). a is row-major float, a[r * lda + kk]; mode is that of dot.h. Any numbers of
 * rows, columns and k, which may be 0; up to PK_DOT_FEW rows go at once. Nothing is read of a and b but their elements; of c
 * whole panels of rows are written: ldc >= round_up(cols, NR).
 */
#ifndef PK_DOT_FEW_H
#define PK_DOT_FEW_H

#include <pk/pack.h>

#define PK_DOT_FEW 8

enum {
  PK_DOT_FEW_STEPS = 8,    /* rows of b added to a vector of c that is at hand */
  PK_DOT_FEW_AHEAD = 8192, /* bytes that b is prefetched ahead, at least */
#if PK_PART_BYTES == 64 || defined(__aarch64__)
  PK_DOT_FEW_SUMS = 16 / PK_PARTS, /* that registers hold beside the operands */
#else
  PK_DOT_FEW_SUMS = 8 / PK_PARTS,
#endif
};

/* A vector of b, whole or of its first n elements. */
PK_DOT_INLINE pk_f32v pk_dot_few_get(const pk_pack_kind kind, const char *p) {
  if (kind == PK_PACK_BF16) return pk_load_bf16((const uint16_t *)(const void *)p);
  if (kind == PK_PACK_F16) return pk_load_f16((const uint16_t *)(const void *)p);
  return pk_load_f32((const float *)(const void *)p);
}
PK_DOT_INLINE pk_f32v pk_dot_few_get_some(const pk_pack_kind kind, const char *p, int64_t n) {
  return pk_bitcast_i32_f32(pk_pack_get(kind, p, n, pk_splat_i32(0)));
}

/* -- b [K, N]. From here on ldb is in bytes. */

/* c += `steps` columns of a by as many rows of b; cols is a multiple of PK_LANES. */
PK_DOT_INLINE void pk_dot_few_steps(const pk_pack_kind kind, const int rows, const int steps, int64_t cols, const float *a,
                                    int64_t lda, const char *b, int64_t ldb, int64_t ahead, float *c, int64_t ldc) {
  const int64_t size = pk_pack_bytes(kind);
  pk_f32v x[PK_DOT_FEW_STEPS];
  PK_DOT_UNROLL for (int s = 0; s < steps; s++) x[s] = pk_splat_f32(a[s]);
  for (int64_t n = 0; n < cols; n += PK_LANES) {
    pk_f32v from[PK_DOT_FEW_STEPS];
    PK_DOT_UNROLL for (int s = 0; s < steps; s++) {
      const char *p = b + s * ldb + n * size;
      from[s] = pk_dot_few_get(kind, p);
      __builtin_prefetch(p + ahead);
    }
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) {
      pk_f32v sum = pk_load_f32(c + r * ldc + n);
      PK_DOT_UNROLL for (int s = 0; s < steps; s++) sum =
          pk_fma_fast_f32(rows == 1 ? x[s] : pk_splat_f32(a[r * lda + s]), from[s], sum);
      pk_store_f32(c + r * ldc + n, sum);
    }
  }
}

/* The last columns, fewer than PK_LANES. */
PK_DOT_INLINE void pk_dot_few_edge(const pk_pack_kind kind, const int rows, int64_t cols, const float *a, int64_t lda,
                                   const char *b, int64_t ldb, int64_t k, float *c, int64_t ldc) {
  pk_f32v sum[PK_DOT_FEW];
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r] = pk_load_f32(c + r * ldc);
  for (; k > 0; k--, a++, b += ldb) {
    const pk_f32v from = pk_dot_few_get_some(kind, b, cols);
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r] = pk_fma_fast_f32(pk_splat_f32(a[r * lda]), from, sum[r]);
  }
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) pk_store_f32(c + r * ldc, sum[r]);
}

PK_DOT_INLINE void pk_dot_few_rows(const pk_pack_kind kind, const int rows, int64_t cols, const float *a, int64_t lda,
                                   const char *b, int64_t ldb, int64_t k, float *c, int64_t ldc) {
  const int64_t size = pk_pack_bytes(kind), whole = cols / PK_LANES * PK_LANES;
  const int64_t turn = whole > 0 ? PK_DOT_FEW_AHEAD / (PK_DOT_FEW_STEPS * whole * size) + 1 : 0; /* turns ahead */
  int64_t kk = 0;
  for (; kk + PK_DOT_FEW_STEPS <= k; kk += PK_DOT_FEW_STEPS)
    pk_dot_few_steps(kind, rows, PK_DOT_FEW_STEPS, whole, a + kk, lda, b + kk * ldb, ldb, turn * PK_DOT_FEW_STEPS * ldb, c, ldc);
  for (; kk < k; kk++) pk_dot_few_steps(kind, rows, 1, whole, a + kk, lda, b + kk * ldb, ldb, 0, c, ldc);
  if (whole < cols) pk_dot_few_edge(kind, rows, cols - whole, a, lda, b + whole * size, ldb, k, c + whole, ldc);
}

/* -- b [N, K] */

/* Lane i is the sum of the lanes of rows[i]. Each stage puts halves of two rows side by side, and adds. */
PK_DOT_INLINE pk_f32p pk_dot_few_across(pk_f32p rows[PK_PART_LANES]) {
#if PK_PART_LANES == 16
  PK_DOT_UNROLL for (int i = 0; i < 8; i++) {
    const pk_f32p a = rows[i], b = rows[i + 8];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
              __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  PK_DOT_UNROLL for (int i = 0; i < 4; i++) {
    const pk_f32p a = rows[i], b = rows[i + 4];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
              __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  }
  PK_DOT_UNROLL for (int i = 0; i < 2; i++) {
    const pk_f32p a = rows[i], b = rows[i + 2];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
              __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
  return __builtin_shufflevector(rows[0], rows[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
         __builtin_shufflevector(rows[0], rows[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
#elif PK_PART_LANES == 8
  PK_DOT_UNROLL for (int i = 0; i < 4; i++) {
    const pk_f32p a = rows[i], b = rows[i + 4];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
  PK_DOT_UNROLL for (int i = 0; i < 2; i++) {
    const pk_f32p a = rows[i], b = rows[i + 2];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) + __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return __builtin_shufflevector(rows[0], rows[1], 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(rows[0], rows[1], 1, 9, 3, 11, 5, 13, 7, 15);
#else
  PK_DOT_UNROLL for (int i = 0; i < 2; i++) {
    const pk_f32p a = rows[i], b = rows[i + 2];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  }
  return __builtin_shufflevector(rows[0], rows[1], 0, 4, 2, 6) + __builtin_shufflevector(rows[0], rows[1], 1, 5, 3, 7);
#endif
}

PK_DOT_INLINE pk_f32p pk_dot_few_fold(pk_f32v v) {
  pk_f32p sum = PK_PART(v, 0);
  PK_DOT_UNROLL for (int i = 1; i < PK_PARTS; i++) sum += PK_PART(v, i);
  return sum;
}

/* How many columns of b go together for so many rows, that their sums stay in registers. */
PK_DOT_INLINE int pk_dot_few_columns(const int rows) {
  const int n = rows == 1   ? PK_DOT_FEW_SUMS
                : rows == 2 ? PK_DOT_FEW_SUMS / 2
                : rows <= 4 ? PK_DOT_FEW_SUMS / 4
                            : PK_DOT_FEW_SUMS / 8;
  return n < 1 ? 1 : n > PK_PART_LANES ? PK_PART_LANES : n;
}

/* sums[r][i] becomes a vector whose lanes sum up to row r times column i, for a few columns. */
PK_DOT_INLINE void pk_dot_few_group(const pk_pack_kind kind, const int rows, const int group, int64_t last, const float *a,
                                    int64_t lda, const char *b, int64_t ldb, int64_t k, int64_t ahead,
                                    pk_f32p sums[][PK_PART_LANES]) {
  const int64_t size = pk_pack_bytes(kind);
  pk_f32v sum[PK_DOT_FEW][16];
  const char *line[16];
  PK_DOT_UNROLL for (int i = 0; i < group; i++) {
    line[i] = b + (i < last ? i : last) * ldb;
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r][i] = pk_splat_f32(0);
  }
  int64_t kk = 0;
  for (; kk + PK_LANES <= k; kk += PK_LANES) {
    PK_DOT_UNROLL for (int i = 0; i < group; i++) {
      const char *p = line[i] + kk * size;
      const pk_f32v from = pk_dot_few_get(kind, p);
      __builtin_prefetch(p + ahead);
      PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r][i] = pk_fma_fast_f32(pk_load_f32(a + r * lda + kk), from, sum[r][i]);
    }
  }
  if (kk < k) {
    PK_DOT_UNROLL for (int i = 0; i < group; i++) {
      const pk_f32v from = pk_dot_few_get_some(kind, line[i] + kk * size, k - kk);
      PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r][i] =
          pk_fma_fast_f32(pk_loadn_f32(a + r * lda + kk, k - kk), from, sum[r][i]);
    }
  }
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) PK_DOT_UNROLL for (int i = 0; i < group; i++) sums[r][i] =
      pk_dot_few_fold(sum[r][i]);
}

PK_DOT_INLINE void pk_dot_few_rows_t(const pk_pack_kind kind, const int rows, int64_t cols, const float *a, int64_t lda,
                                     const char *b, int64_t ldb, int64_t k, float *c, int64_t ldc) {
  const int group = pk_dot_few_columns(rows);
  for (int64_t n = 0; n < cols; n += PK_PART_LANES) {
    pk_f32p sums[PK_DOT_FEW][PK_PART_LANES];
    for (int i = 0; i < PK_PART_LANES; i += group) {
      /* Past the last column it is taken again. */
      const int64_t at = n + i < cols ? n + i : cols - 1;
      pk_dot_few_group(kind, rows, group, cols - 1 - at, a, lda, b + at * ldb, ldb, k, PK_PART_LANES * ldb,
                       (pk_f32p(*)[PK_PART_LANES]) & sums[0][i]);
    }
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) {
      float *to = c + r * ldc + n;
      pk_f32p sum = pk_dot_few_across(sums[r]), before;
      memcpy(&before, to, sizeof before);
      sum += before;
      memcpy(to, &sum, sizeof sum);
    }
  }
}

/* -- Any number of rows */

PK_DOT_INLINE void pk_dot_few_clear(int64_t rows, int64_t cols, float *c, int64_t ldc) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n += PK_LANES) pk_store_f32(c + r * ldc + n, pk_splat_f32(0));
}

#define PK_DOT_FEW_CASE(form, kind, n)                                                 \
  case n:                                                                              \
    form(kind, n, cols, a, lda, (const char *)b, ldb *pk_pack_bytes(kind), k, c, ldc); \
    break;
#define PK_DOT_FEW_FUNCTION(name, form, kind, type)                                                                        \
  PK_DOT_OUTLINE void name(int64_t rows, int64_t cols, const float *a, int64_t lda, const type *b, int64_t ldb, int64_t k, \
                           float *c, int64_t ldc, int mode) {                                                              \
    if (mode == PK_DOT_SET) pk_dot_few_clear(rows, cols, c, ldc);                                                          \
    for (; rows > 0; rows -= PK_DOT_FEW, a += PK_DOT_FEW * lda, c += PK_DOT_FEW * ldc) {                                   \
      switch (rows) {                                                                                                      \
        PK_DOT_FEW_CASE(form, kind, 1)                                                                                     \
        PK_DOT_FEW_CASE(form, kind, 2)                                                                                     \
        PK_DOT_FEW_CASE(form, kind, 3)                                                                                     \
        PK_DOT_FEW_CASE(form, kind, 4)                                                                                     \
        PK_DOT_FEW_CASE(form, kind, 5)                                                                                     \
        PK_DOT_FEW_CASE(form, kind, 6)                                                                                     \
        PK_DOT_FEW_CASE(form, kind, 7)                                                                                     \
        default:                                                                                                           \
          PK_DOT_FEW_CASE(form, kind, 8)                                                                                   \
      }                                                                                                                    \
    }                                                                                                                      \
  }
PK_DOT_FEW_FUNCTION(pk_dot_few_f32, pk_dot_few_rows, PK_PACK_F32, float)
PK_DOT_FEW_FUNCTION(pk_dot_few_bf16, pk_dot_few_rows, PK_PACK_BF16, uint16_t)
PK_DOT_FEW_FUNCTION(pk_dot_few_f16, pk_dot_few_rows, PK_PACK_F16, uint16_t)
PK_DOT_FEW_FUNCTION(pk_dot_few_t_f32, pk_dot_few_rows_t, PK_PACK_F32, float)
PK_DOT_FEW_FUNCTION(pk_dot_few_t_bf16, pk_dot_few_rows_t, PK_PACK_BF16, uint16_t)
PK_DOT_FEW_FUNCTION(pk_dot_few_t_f16, pk_dot_few_rows_t, PK_PACK_F16, uint16_t)

#endif
