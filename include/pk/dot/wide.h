/* dot/wide.h: matrix products of 64-bit elements: f64, and i64 and u64, whose sums wrap.
 *
 *   pk_dot_wide_f64(product), pk_dot_wide_i64(product)
 *
 * Operands may have any strides, in elements. The right operand is copied to panels of
 * PK_WIDE_NR columns and up to PK_WIDE_K rows, by which a register tile of PK_WIDE_MR rows is
 * multiplied.
 * Each element of the result is one sum in the order of k.
 */
#ifndef PK_DOT_WIDE_H
#define PK_DOT_WIDE_H

#include <pk/vec/wide.h>

typedef struct {
  int64_t rows, cols, k; /* any of them may be 0 */
  const void *a;
  int64_t a_row, a_k;
  const void *b;
  int64_t b_k, b_col;
  void *to;
  int64_t to_row, to_col;
} pk_dot_wide;

enum {
  PK_WIDE_NR = 2 * PK_PART_BYTES / 8,
  PK_WIDE_MR = PK_PART_BYTES == 64 ? 12 : 6, /* with 2 vectors of columns: of 32 or 16 registers */
  PK_WIDE_FEW = PK_WIDE_MR / 3,
  PK_WIDE_K = 256,
};

PK_INLINE pk_f64p pk_wide_madd_f64(double x, pk_f64p b, pk_f64p sum) {
  const pk_f64p a = x - (pk_f64p){0};
#if defined(__AVX512F__) && PK_PART_BYTES == 64
  return (pk_f64p)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)sum);
#elif defined(__FMA__) && PK_PART_BYTES == 32
  return (pk_f64p)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)sum);
#elif defined(__aarch64__)
  return (pk_f64p)vfmaq_f64((float64x2_t)sum, (float64x2_t)a, (float64x2_t)b);
#else
  return sum + a * b;
#endif
}
PK_INLINE pk_u64p pk_wide_madd_i64(uint64_t x, pk_u64p b, pk_u64p sum) {
  return sum + (x - (pk_u64p){0}) * b;
}

/* `rows` rows of a panel's columns, of which `cols` exist; `first`: the sums start at 0, otherwise
 * at the values of the result. */
#define PK_DOT_WIDE(T, type, vector)                                                           \
  PK_INLINE void pk_wide_tile_##T(const int rows, const pk_dot_wide *p, const type *a,         \
                                  const type *panel, int64_t k, type *to, int64_t cols,        \
                                  bool first) {                                                \
    enum { lanes = PK_WIDE_NR / 2 };                                                           \
    const bool whole = cols >= PK_WIDE_NR && p->to_col == 1;                                   \
    type edge[PK_WIDE_MR * PK_WIDE_NR];                                                        \
    vector sum[PK_WIDE_MR][2];                                                                 \
    type *const at = whole ? to : edge;                                                        \
    const int64_t ld = whole ? p->to_row : PK_WIDE_NR;                                         \
    for (int r = 0; !whole && !first && r < rows; r++)                                         \
      for (int64_t c = 0; c < PK_WIDE_NR; c++)                                                 \
        edge[r * PK_WIDE_NR + c] = c < cols ? to[r * p->to_row + c * p->to_col] : 0;           \
    PK_WIDE_UNROLL for (int r = 0; r < rows; r++) PK_WIDE_UNROLL for (int v = 0; v < 2; v++) { \
      sum[r][v] = (vector){0};                                                                 \
      if (!first) __builtin_memcpy(&sum[r][v], at + r * ld + v * lanes, sizeof(vector));       \
    }                                                                                          \
    for (int64_t kk = 0; kk < k; kk++) {                                                       \
      vector b[2];                                                                             \
      __builtin_memcpy(b, panel + kk * PK_WIDE_NR, sizeof b);                                  \
      PK_WIDE_UNROLL for (int r = 0; r < rows; r++) {                                          \
        const type x = a[r * p->a_row + kk * p->a_k];                                          \
        PK_WIDE_UNROLL for (int v = 0; v < 2; v++) sum[r][v] =                                 \
            pk_wide_madd_##T(x, b[v], sum[r][v]);                                              \
      }                                                                                        \
    }                                                                                          \
    PK_WIDE_UNROLL for (int r = 0; r < rows; r++) PK_WIDE_UNROLL for (int v = 0; v < 2; v++)   \
        __builtin_memcpy(at + r * ld + v * lanes, &sum[r][v], sizeof(vector));                 \
    for (int r = 0; !whole && r < rows; r++)                                                   \
      for (int64_t c = 0; c < PK_WIDE_NR && c < cols; c++)                                     \
        to[r * p->to_row + c * p->to_col] = edge[r * PK_WIDE_NR + c];                          \
  }                                                                                            \
  static inline void pk_wide_panel_##T(type *panel, const type *b, int64_t b_k, int64_t b_col, \
                                       int64_t k, int64_t cols) {                              \
    for (int64_t kk = 0; kk < k; kk++)                                                         \
      for (int64_t c = 0; c < PK_WIDE_NR; c++)                                                 \
        panel[kk * PK_WIDE_NR + c] = c < cols ? b[kk * b_k + c * b_col] : 0;                   \
  }                                                                                            \
  static inline void pk_wide_rows_##T(const pk_dot_wide *p, const type *a, const type *panel,  \
                                      int64_t k, type *to, int64_t cols, bool first) {         \
    int64_t r = 0;                                                                             \
    for (; r + PK_WIDE_MR <= p->rows; r += PK_WIDE_MR)                                         \
      pk_wide_tile_##T(PK_WIDE_MR, p, a + r * p->a_row, panel, k, to + r * p->to_row, cols,    \
                       first);                                                                 \
    for (; r + PK_WIDE_FEW <= p->rows; r += PK_WIDE_FEW)                                       \
      pk_wide_tile_##T(PK_WIDE_FEW, p, a + r * p->a_row, panel, k, to + r * p->to_row, cols,   \
                       first);                                                                 \
    for (; r < p->rows; r++)                                                                   \
      pk_wide_tile_##T(1, p, a + r * p->a_row, panel, k, to + r * p->to_row, cols, first);     \
  }                                                                                            \
  static inline void pk_dot_wide_##T(const pk_dot_wide *p) {                                   \
    type panel[PK_WIDE_K * PK_WIDE_NR] __attribute__((aligned(64)));                           \
    for (int64_t c = 0; c < p->cols; c += PK_WIDE_NR)                                          \
      for (int64_t from = 0; from == 0 || from < p->k; from += PK_WIDE_K) {                    \
        const int64_t k = p->k - from < PK_WIDE_K ? p->k - from : PK_WIDE_K;                   \
        const type *const b = (const type *)p->b, *const a = (const type *)p->a;               \
        pk_wide_panel_##T(panel, b + from * p->b_k + c * p->b_col, p->b_k, p->b_col, k,        \
                          p->cols - c);                                                        \
        pk_wide_rows_##T(p, a + from * p->a_k, panel, k, (type *)p->to + c * p->to_col,        \
                         p->cols - c, from == 0);                                              \
      }                                                                                        \
  }
#if defined(__clang__)
#define PK_WIDE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PK_WIDE_UNROLL _Pragma("GCC unroll 16")
#endif
PK_DOT_WIDE(f64, double, pk_f64p)
PK_DOT_WIDE(i64, uint64_t, pk_u64p)
#undef PK_DOT_WIDE

#endif
