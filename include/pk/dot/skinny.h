/* dot/skinny.h: skinny products (few rows). They are bound by the bandwidth of reading the right
 * operand, which is read once, in place.
 *
 *   pk_dot_skinny_T(product)      element (k, n) of the right operand is source[k][n]
 *   pk_dot_skinny_t_T(product)    element (k, n) of it is source[n][k]
 *   pk_dot_tail_f32(product)    pk_dot_product_f32 for the pk_dot_tail_columns(product) that remain
 *                              after whole vectors
 *
 * T is the type of `source`: f32, bf16, f16 (both uint16_t), i8_f32, u8_f32 (bytes); a is row-major
 * float. Above PK_DOT_SKINNY rows packed panels are faster. Only elements of the matrices and of
 * existing panels are read or written.
 */
#ifndef PK_DOT_SKINNY_H
#define PK_DOT_SKINNY_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/pack.h>

/* For 32 or 16 registers. */
#if PK_PART_BYTES == 64 || defined(__aarch64__)
#define PK_DOT_SKINNY_REGISTERS 16
#else
#define PK_DOT_SKINNY_REGISTERS 8
#endif

enum {
  PK_DOT_SKINNY_ROWS = 4, /* rows at once, in registers; for the next rows b comes from L1 */
  PK_DOT_SKINNY_NV = PK_PARTS == 1 ? 2 : 1,
  PK_DOT_SKINNY_NR = PK_DOT_SKINNY_NV * PK_LANES,
  PK_DOT_SKINNY_STEPS = PK_DOT_SKINNY_REGISTERS / 2, /* rows of b added to the current piece of c */
  PK_DOT_SKINNY_SUMS = PK_DOT_SKINNY_REGISTERS / PK_PARTS,
  PK_DOT_SKINNY_WIDE = PK_LANES >= 16 ? 4 : 8,  /* vectors of a strip for one row */
  PK_DOT_SKINNY_LANES = PK_DOT_LONG * PK_LANES, /* terms at a time that are summed in lanes */
  PK_DOT_SKINNY_PARTS = 4,     /* times PK_PART_LANES lines of a transposed b for one row */
  PK_DOT_SKINNY_SLAB = 1024,   /* columns of PK_DOT_SKINNY rows that fit the side buffer */
  PK_DOT_TAIL_LINES = 64,      /* rows at a time if columns remain */
  PK_DOT_TAIL_BESIDE = 4,      /* at most this many whole panels besides */
  PK_DOT_TAIL_FAR = 64 * 1024, /* and a left operand of at least this many elements */
};

PK_REGIMES_OF_SKINNY(PK_REGIME_FUNCTION)

/* -- b [K, N] in f32: strips */

/* One row uses wider strips: there is little to multiply, and the processor prefetches as far
 * ahead as it can. */
PK_DOT_INLINE void pk_dot_skinny_one(int64_t k, const float *a, const char *b, int64_t ldb,
                                     const float *from, const float *plus, float *to) {
  pk_f32v sum[PK_DOT_SKINNY_WIDE];
  PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_WIDE; v++) sum[v] =
      from ? pk_load_f32(from + v * PK_LANES) : pk_splat_f32(0);
  for (; k > 0; k--, a++, b += ldb) {
    const pk_f32v x = pk_splat_f32(*a);
    PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_WIDE; v++) sum[v] =
        pk_fma_fast_f32(x, pk_load_f32((const float *)(const void *)b + v * PK_LANES), sum[v]);
  }
  if (plus)
    PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_WIDE; v++) sum[v] =
        pk_add_f32(pk_load_f32(plus + v * PK_LANES), sum[v]);
  PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_WIDE; v++)
      pk_store_f32(to + v * PK_LANES, sum[v]);
}

/* A part of a product: some columns, and at most PK_DOT_LONG steps. */
typedef struct {
  pk_dot_product columns;
  const char *from, *plus; /* like those of a tile, `ldfrom` apart */
} pk_dot_skinny_part;

/* A strip of columns from n on, as wide as a panel; `k` steps from step `at` on. A register tile
 * goes down the strip in place, and multiplies while memory is read. If there are more rows than
 * in a tile, the first tile leaves the strip in L1. Between pieces of k the sums are in `sums`. */
PK_DOT_INLINE void pk_dot_skinny_strip(const pk_dot_skinny_part *part, int64_t n, int64_t at,
                                       int64_t k, char *panel, char *sums, int64_t ldsums) {
  const pk_dot_product *p = &part->columns;
  const bool last = at + k == p->k;
  const int64_t ldto = last ? p->ldto : ldsums, ldfrom = at ? ldsums : p->ldfrom;
  const char *from = at           ? sums + 4 * n
                     : part->from ? part->from + 4 * n
                                  : NULL,
             *plus = last && part->plus ? part->plus + 4 * n : NULL;
  char *to = (last ? (char *)p->to : sums) + 4 * n;
  pk_dot_product strip = *p;
  strip.cols = p->cols - n < PK_DOT_NR ? p->cols - n : PK_DOT_NR;
  strip.panels = p->rows > PK_DOT_MR ? panel : NULL;
  strip.ldto = ldto, strip.padded = !last || p->padded;
  for (int64_t r = 0, rows; r < p->rows; r += rows) {
    rows = pk_dot_take(p->rows - r);
    pk_dot_tile t = {.a = (const char *)p->a + r * p->lda + 4 * at,
                     .lda = p->lda,
                     .k = k,
                     .ldfrom = ldfrom,
                     .ldplus = p->ldfrom};
    pk_dot_row_of_tiles_f32(&strip, rows, &t, 0, panel, 0,
                            r ? NULL : (const char *)p->source + at * p->ldsource + 4 * n,
                            from ? from + r * ldfrom : NULL, plus ? plus + r * p->ldfrom : NULL,
                            to + r * ldto, NULL);
  }
}

/* All strips for as many steps as L1 holds of one strip, then the next steps. */
PK_DOT_OUTLINE void pk_dot_skinny_strips_of(const pk_dot_skinny_part *part) {
  enum { ld = 4 * PK_DOT_SKINNY_ASIDE + 64 };
  _Alignas(64) char panel[PK_DOT_SKINNY_STRIP * PK_DOT_STEP_BYTES], sums[PK_DOT_SKINNY * ld];
  const pk_dot_product *p = &part->columns;
  int64_t at = 0;
  do {
    const int64_t k = p->k - at < PK_DOT_SKINNY_STRIP ? p->k - at : PK_DOT_SKINNY_STRIP;
    for (int64_t n = 0; n < p->cols; n += PK_DOT_NR)
      pk_dot_skinny_strip(part, n, at, k, panel, sums, ld);
    at += k;
  } while (at < p->k);
}

/* The columns of a part that do not fill a strip of one row are processed in slabs; between
 * pieces of k their sums are in another buffer. */
PK_DOT_INLINE void pk_dot_skinny_slabs(const pk_dot_product *p, const pk_dot_begin_f32 *begin) {
  int64_t n = 0;
  for (; p->rows == 1 && n + PK_DOT_SKINNY_WIDE * PK_LANES <= p->cols;
       n += PK_DOT_SKINNY_WIDE * PK_LANES)
    pk_dot_skinny_one(p->k, p->a, (const char *)p->source + 4 * n, p->ldsource,
                      begin->from ? (const float *)(const void *)begin->from + n : NULL,
                      begin->plus ? (const float *)(const void *)begin->plus + n : NULL,
                      (float *)p->to + n);
  for (int64_t cols; n < p->cols; n += cols) {
    cols = p->cols - n < PK_DOT_SKINNY_ASIDE ? p->cols - n : PK_DOT_SKINNY_ASIDE;
    pk_dot_skinny_part part = {.columns = pk_dot_columns_of(p, n, cols),
                               .from = begin->from ? begin->from + 4 * n : NULL,
                               .plus = begin->plus ? begin->plus + 4 * n : NULL};
    part.columns.source = (const char *)p->source + 4 * n;
    pk_dot_skinny_strips_of(&part);
  }
}
PK_DOT_OUTLINE void pk_dot_skinny_strips_in_parts(const pk_dot_product *p) {
  enum { length = 4 * PK_DOT_LONG + 64 };
  _Alignas(64) char rows_of_a[PK_DOT_SKINNY * length];
  const bool copied = p->rows > 1 && pk_dot_is_copied(p->lda, 4 * PK_DOT_SKINNY_STRIP, p->cols);
  int64_t at = 0;
  do {
    const int64_t k = p->k - at < PK_DOT_LONG ? p->k - at : PK_DOT_LONG;
    const pk_dot_begin_f32 begin = pk_dot_begins_f32(at ? p->to : p->from, k);
    pk_dot_product part = pk_dot_rows_of(p, at, k, 4);
    part.source = (const char *)p->source + at * p->ldsource;
    if (copied) {
      pk_dot_copy_rows(rows_of_a, length, part.a, p->lda, p->rows, 4 * k);
      part.a = rows_of_a, part.lda = length;
    }
    pk_dot_skinny_slabs(&part, &begin);
    at += k;
  } while (at < p->k);
}

PK_DOT_INLINE void pk_dot_skinny_strips(const pk_dot_product *p) {
  for (int64_t r = 0, n; r < p->rows; r += n) {
    n = pk_dot_take_of(p->rows - r, PK_DOT_SKINNY);
    const pk_dot_product lines = pk_dot_lines_of(p, r, n);
    pk_dot_skinny_strips_in_parts(&lines);
  }
}

/* The tiles of all rows read it in place; columns that do not fill a vector are a strip. */
PK_DOT_OUTLINE void pk_dot_skinny_tiles(const pk_dot_product *p) {
  const int64_t whole = p->k > PK_DOT_SHALLOW ? p->cols / PK_LANES * PK_LANES : 0;
  pk_dot_product tiles = pk_dot_columns_of(p, 0, whole),
                 rest = pk_dot_columns_of(p, whole, p->cols - whole);
  tiles.in_place = true, tiles.panels = NULL, tiles.depth = 0;
  rest.source = (const char *)p->source + 4 * whole, rest.padded = false;
  if (whole) pk_dot_product_f32(&tiles);
  if (rest.cols) pk_dot_skinny_strips(&rest);
}

/* -- b in 16 bits, transposed, or streamed */

/* The hardware prefetchers follow one row per page, fast enough for a few rows of a. */
PK_DOT_INLINE bool pk_dot_skinny_prefetches(int64_t rows, int64_t ldb) {
  return pk_dot_is_restarting() || pk_dot_is_prefetched(rows, ldb);
}

/* A vector of b, or its first n elements. */
PK_DOT_INLINE pk_f32v pk_dot_skinny_get(const pk_pack_kind kind, const char *p) {
  if (kind == PK_PACK_BF16) return pk_load_bf16((const uint16_t *)(const void *)p);
  if (kind == PK_PACK_F16) return pk_load_f16((const uint16_t *)(const void *)p);
  if (kind == PK_PACK_I8_F32) return pk_cast_i32_f32(pk_load_i8((const int8_t *)(const void *)p));
  if (kind == PK_PACK_U8_F32) return pk_cast_i32_f32(pk_load_u8((const uint8_t *)(const void *)p));
  return pk_load_f32((const float *)(const void *)p);
}
PK_DOT_INLINE pk_f32v pk_dot_skinny_get_some(const pk_pack_kind kind, const char *p, int64_t n) {
  return pk_bitcast_i32_f32(pk_pack_get(kind, p, n, pk_splat_i32(0)));
}

/* -- b [K, N] in 16 bits, widened in registers, or streamed: registers hold a piece of it for
 * all rows of a. From here on ldb is in bytes */

/* c += `steps` columns of a by as many rows of b, for a number of vectors of columns: whole
 * ones, or the first `some` elements of one. The rows of b stay in registers for all rows of a;
 * if a has one row, its elements are in x. */
PK_DOT_INLINE void pk_dot_skinny_piece(const pk_pack_kind kind, const int vectors, const int steps,
                                       const bool single, const bool whole, int64_t some,
                                       const pk_f32v *x, int64_t rows, const float *a, int64_t lda,
                                       const char *b, int64_t ldb, int64_t ahead, float *c,
                                       int64_t ldc) {
  const int64_t bytes = PK_LANES * pk_pack_bytes(kind);
  pk_f32v from[PK_DOT_SKINNY_STEPS][PK_DOT_SKINNY_NV];
  PK_DOT_UNROLL for (int s = 0; s < steps; s++) {
    const char *p = b + s * ldb;
    PK_DOT_UNROLL for (int v = 0; v < vectors; v++) from[s][v] =
        whole ? pk_dot_skinny_get(kind, p + v * bytes) : pk_dot_skinny_get_some(kind, p, some);
  }
  if (ahead)
    PK_DOT_UNROLL for (int s = 0; s < steps; s++)
        PK_DOT_UNROLL for (int i = 0; i < vectors * bytes; i += 64)
            __builtin_prefetch(b + s * ldb + ahead + i, 0, 2);
  for (int64_t r = 0; r < (single ? 1 : rows); r++, a += lda, c += ldc) {
    pk_f32v sum[PK_DOT_SKINNY_NV];
    PK_DOT_UNROLL for (int v = 0; v < vectors; v++) sum[v] =
        whole ? pk_load_f32(c + v * PK_LANES) : pk_loadn_f32(c, some);
    PK_DOT_UNROLL for (int s = 0; s < steps; s++) {
      const pk_f32v y = single ? x[s] : pk_splat_f32(a[s]);
      PK_DOT_UNROLL for (int v = 0; v < vectors; v++) sum[v] =
          pk_fma_fast_f32(y, from[s][v], sum[v]);
    }
    PK_DOT_UNROLL for (int v = 0; v < vectors; v++) {
      if (whole)
        pk_store_f32(c + v * PK_LANES, sum[v]);
      else
        pk_storen_f32(c, sum[v], some);
    }
  }
}

/* One row, with the sums of many columns in registers: 1 KB of a row of b comes from L2 faster
 * than pieces of eight rows, but pieces come faster from memory. */
PK_DOT_INLINE void pk_dot_skinny_along(const int steps, const pk_f32v *x, const char *b,
                                       int64_t ldb, float *c) {
  pk_f32v sum[PK_DOT_SKINNY_REGISTERS];
  PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_REGISTERS; v++) sum[v] =
      pk_load_f32(c + v * PK_LANES);
  PK_DOT_UNROLL for (int s = 0; s < steps; s++)
      PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_REGISTERS; v++) sum[v] = pk_fma_fast_f32(
          x[s], pk_load_f32((const float *)(const void *)(b + s * ldb) + v * PK_LANES), sum[v]);
  PK_DOT_UNROLL for (int v = 0; v < PK_DOT_SKINNY_REGISTERS; v++)
      pk_store_f32(c + v * PK_LANES, sum[v]);
}

PK_DOT_INLINE void pk_dot_skinny_steps(const pk_pack_kind kind, const int steps, const bool single,
                                       bool along, int64_t rows, int64_t cols, const float *a,
                                       int64_t lda, const char *b, int64_t ldb, int64_t ahead,
                                       float *c, int64_t ldc) {
  const int64_t size = pk_pack_bytes(kind);
  pk_f32v x[PK_DOT_SKINNY_STEPS];
  PK_DOT_UNROLL for (int s = 0; s < steps; s++) x[s] = pk_splat_f32(a[s]);
  int64_t n = 0;
  if (along)
    for (; n + PK_DOT_SKINNY_REGISTERS * PK_LANES <= cols; n += PK_DOT_SKINNY_REGISTERS * PK_LANES)
      pk_dot_skinny_along(steps, x, b + n * size, ldb, c + n);
  for (; n + PK_DOT_SKINNY_NR <= cols; n += PK_DOT_SKINNY_NR)
    pk_dot_skinny_piece(kind, PK_DOT_SKINNY_NV, steps, single, true, 0, x, rows, a, lda,
                        b + n * size, ldb, ahead, c + n, ldc);
  for (; n < cols; n += PK_LANES)
    pk_dot_skinny_piece(kind, 1, steps, single, false, cols - n, x, rows, a, lda, b + n * size, ldb,
                        ahead, c + n, ldc);
}

PK_DOT_INLINE void pk_dot_skinny_rows(const pk_pack_kind kind, const bool single, bool along,
                                      bool near, int64_t rows, int64_t cols, const float *a,
                                      int64_t lda, const char *b, int64_t ldb, int64_t k, float *c,
                                      int64_t ldc) {
  enum { steps = PK_DOT_SKINNY_STEPS };
  if (rows < 1 || cols < 1) return;
  const bool brought = near || (kind == PK_PACK_F32 && pk_dot_is_rows_followed(rows));
  const int64_t steps_ahead = !brought && pk_dot_skinny_prefetches(rows, ldb)
                                  ? PK_DOT_SKINNY_AHEAD / (steps * cols * pk_pack_bytes(kind)) + 1
                                  : 0;
  for (; k >= steps; k -= steps, a += steps, b += steps * ldb)
    pk_dot_skinny_steps(kind, steps, single, along, rows, cols, a, lda, b, ldb,
                        steps_ahead * steps * ldb, c, ldc);
  for (; k > 0; k--, a++, b += ldb)
    pk_dot_skinny_steps(kind, 1, single, along, rows, cols, a, lda, b, ldb, 0, c, ldc);
}

/* -- b [N, K] */

/* The number of columns of b that are processed together, so that the sums stay in registers. */
PK_DOT_INLINE int pk_dot_skinny_columns(const int rows) {
  const int n = rows == 1   ? PK_DOT_SKINNY_SUMS
                : rows == 2 ? PK_DOT_SKINNY_SUMS / 2
                            : PK_DOT_SKINNY_SUMS / 4;
  return n < 1 ? 1 : n > PK_PART_LANES ? PK_PART_LANES : n;
}

/* The sums of `group` columns, whose lines are given, from the first on; line i is prefetched
 * ahead[i % 2] bytes ahead, unless that is 0 or the hardware prefetches it (`followed`). */
PK_DOT_INLINE void pk_dot_skinny_group(const pk_pack_kind kind, const int rows, const int group,
                                       const bool followed, const float *a, int64_t lda,
                                       const char *const *line, int64_t k, const int64_t ahead[2],
                                       pk_f32p (*sums)[PK_PART_LANES], int first) {
  const int64_t size = pk_pack_bytes(kind);
  pk_f32v sum[PK_DOT_SKINNY_ROWS][PK_PART_LANES];
  PK_DOT_UNROLL for (int i = 0; i < group; i++) PK_DOT_UNROLL for (int r = 0; r < rows; r++)
      sum[r][i] = pk_splat_f32(0);
  int64_t kk = 0;
  for (; kk + PK_LANES <= k; kk += PK_LANES) {
    PK_DOT_UNROLL for (int i = 0; i < group; i++) {
      const char *p = line[i] + kk * size;
      const pk_f32v from = pk_dot_skinny_get(kind, p);
      /* With more rows gcc, which does not see a branch here, loads the line once for each of
       * them. */
      if (!followed && (rows == 1 || ahead[i % 2])) __builtin_prefetch(p + ahead[i % 2], 0, 2);
      PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r][i] =
          pk_fma_fast_f32(pk_load_f32(a + r * lda + kk), from, sum[r][i]);
    }
  }
  if (kk < k) {
    pk_f32v x[PK_DOT_SKINNY_ROWS];
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) x[r] = pk_loadn_f32(a + r * lda + kk, k - kk);
    PK_DOT_UNROLL for (int i = 0; i < group; i++) {
      const pk_f32v from = pk_dot_skinny_get_some(kind, line[i] + kk * size, k - kk);
      PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r][i] =
          pk_fma_fast_f32(x[r], from, sum[r][i]);
    }
  }
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) PK_DOT_UNROLL for (int i = 0; i < group; i++)
      sums[r][first + i] = pk_dot_fold_f32(sum[r][i]);
}

/* The sums of PK_PART_LANES columns, `group` at a time. The last column is repeated if there are
 * fewer. */
PK_DOT_INLINE void pk_dot_skinny_groups_t(const pk_pack_kind kind, const int rows, const int group,
                                          const bool followed, int64_t cols, const float *a,
                                          int64_t lda, const char *b, int64_t ldb, int64_t k,
                                          const int64_t ahead[2], pk_f32p (*sums)[PK_PART_LANES]) {
  for (int i = 0; i < PK_PART_LANES; i += group) {
    const char *line[PK_PART_LANES];
    PK_DOT_UNROLL for (int j = 0; j < group; j++) line[j] =
        b + (i + j < cols ? i + j : cols - 1) * ldb;
    pk_dot_skinny_group(kind, rows, group, followed, a, lda, line, k, ahead, sums, i);
  }
}

/* 1 to 4 rows of PK_PART_LANES columns. */
PK_DOT_INLINE void pk_dot_skinny_part_t(const pk_pack_kind kind, const int rows, int64_t cols,
                                        const float *a, int64_t lda, const char *b, int64_t ldb,
                                        int64_t k, const int64_t ahead[2], float *c, int64_t ldc) {
  const int group = pk_dot_skinny_columns(rows),
            lines = rows > 1 ? 2 * PK_DOT_SKINNY_LINES : PK_DOT_SKINNY_LINES;
  pk_f32p sums[PK_DOT_SKINNY_ROWS][PK_PART_LANES];
  /* Cached lines need no prefetching, but as many sums as registers hold. */
  const bool near = rows > 1 && !ahead[0] && !ahead[1];
  if (kind == PK_PACK_F32 && !near && pk_dot_is_lines_followed(rows, k))
    pk_dot_skinny_groups_t(kind, rows, lines < PK_PART_LANES ? lines : PK_PART_LANES, true, cols, a,
                           lda, b, ldb, k, ahead, sums);
  else if (pk_dot_is_long_row(rows, k))
    pk_dot_skinny_groups_t(kind, rows, PK_DOT_SKINNY_LINES, false, cols, a, lda, b, ldb, k, ahead,
                           sums);
  else
    pk_dot_skinny_groups_t(kind, rows, group, false, cols, a, lda, b, ldb, k, ahead, sums);
  PK_DOT_UNROLL for (int r = 0; r < rows; r++)
      pk_dot_put_across_f32(sums[r], cols, (char *)(c + r * ldc));
}

/* -- By the type of b */

/* More rows of a map to a set of L1 than it has ways. */
PK_DOT_OUTLINE void pk_dot_skinny_copied(const pk_dot_product *p,
                                         void (*multiply)(const pk_dot_product *)) {
  enum { length = 4 * PK_DOT_SKINNY_STRIP + 64 };
  char rows_of_a[PK_DOT_SKINNY * length];
  int64_t at = 0;
  do {
    const int64_t k = p->k - at < PK_DOT_SKINNY_STRIP ? p->k - at : PK_DOT_SKINNY_STRIP;
    pk_dot_product part = pk_dot_rows_of(p, at, k, 4);
    part.source = (const char *)p->source + at * p->ldsource;
    pk_dot_copy_rows(rows_of_a, length, part.a, p->lda, p->rows, 4 * k);
    part.a = rows_of_a, part.lda = length;
    multiply(&part);
    at += k;
  } while (at < p->k);
}

/* A product whose sums do not stay in registers along k: a function that multiplies a part of
 * it, and the distances of columns and steps of its right operand, in bytes. */
typedef struct {
  void (*multiply)(const pk_dot_product *);
  int64_t column, k;
  int size;       /* bytes of an element of a */
  bool by_pieces; /* every row of the result is accessed for each piece of b */
} pk_dot_skinny_way;

/* The number of columns, at least one, that are accumulated in a buffer of `floats` for all
 * rows. */
PK_DOT_INLINE int64_t pk_dot_skinny_slab(const pk_dot_product *p, bool collide, int64_t floats) {
  const int64_t fit = floats / p->rows / PK_DOT_NR * PK_DOT_NR,
                most = collide ? PK_DOT_SKINNY_ASIDE : fit, slabs = (p->cols + most - 1) / most;
  return ((p->cols + slabs - 1) / slabs + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR;
}

/* Adds a part's sums, which are in a buffer, to the result, and to its previous values. */
PK_DOT_INLINE void pk_dot_skinny_put(const pk_dot_product *p, const char *plus, int64_t ldplus,
                                     char *to, int64_t ldto) {
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t n = 0; n < p->cols; n += PK_LANES) {
      const int64_t count = p->cols - n < PK_LANES ? p->cols - n : PK_LANES;
      pk_f32v sum = pk_load_f32((const float *)((const char *)p->to + r * p->ldto) + n);
      if (plus)
        sum = pk_add_f32(pk_loadn_f32((const float *)(const void *)(plus + r * ldplus) + n, count),
                         sum);
      pk_storen_f32((float *)(void *)(to + r * ldto) + n, sum, count);
    }
}

/* Up to PK_DOT_SKINNY rows, accumulated in a buffer: some columns at a time, and for these some
 * steps at a time. */
PK_DOT_OUTLINE void pk_dot_skinny_aside(const pk_dot_product *p, const pk_dot_skinny_way *way) {
  _Alignas(64) char sums[PK_DOT_SKINNY * (4 * PK_DOT_SKINNY_SLAB + 64)];
  const int64_t slab = pk_dot_skinny_slab(p, pk_dot_is_aside(way->by_pieces, p->rows, p->ldto),
                                          PK_DOT_SKINNY * PK_DOT_SKINNY_SLAB),
                part = 4 * PK_DOT_LONG / way->size;
  for (int64_t n = 0; n < p->cols; n += slab) {
    pk_dot_product columns = pk_dot_columns_of(p, n, p->cols - n < slab ? p->cols - n : slab);
    int64_t at = 0;
    do {
      const int64_t k = p->k - at < part ? p->k - at : part, ldfrom = at ? p->ldto : p->ldfrom;
      const pk_dot_begin_f32 begin =
          pk_dot_begins_f32(at ? columns.to : columns.from, k * way->size / 4);
      pk_dot_product some = pk_dot_rows_of(&columns, at, k, way->size);
      some.source = (const char *)p->source + n * way->column + at * way->k;
      some.from = begin.from, some.ldfrom = ldfrom;
      some.to = sums, some.ldto = 4 * slab + 64;
      way->multiply(&some);
      pk_dot_skinny_put(&some, begin.plus, ldfrom, columns.to, p->ldto);
      at += k;
    } while (at < p->k);
  }
}

PK_DOT_INLINE void pk_dot_skinny_by(const pk_dot_product *p, const pk_dot_skinny_way *way) {
  const bool parts =
      p->k * way->size > 4 * PK_DOT_LONG || pk_dot_is_apart(p->from, p->k * way->size / 4);
  if (!parts && !pk_dot_is_aside(way->by_pieces, p->rows, p->ldto)) {
    way->multiply(p);
    return;
  }
  for (int64_t r = 0, n; p->cols > 0 && r < p->rows; r += n) {
    n = pk_dot_take_of(p->rows - r, PK_DOT_SKINNY);
    const pk_dot_product lines = pk_dot_lines_of(p, r, n);
    pk_dot_skinny_aside(&lines, way);
  }
}

#define PK_DOT_SKINNY_PART_T(T, kind, rows)                                             \
  PK_DOT_OUTLINE void pk_dot_skinny_part_t_##T##_##rows(                                \
      int64_t cols, const float *a, int64_t lda, const char *b, int64_t ldb, int64_t k, \
      const int64_t ahead[2], float *c, int64_t ldc) {                                  \
    pk_dot_skinny_part_t(kind, rows, cols, a, lda, b, ldb, k, ahead, c, ldc);           \
  }
#define PK_DOT_SKINNY_ROWS_OF(name, kind)                                                         \
  PK_DOT_OUTLINE void pk_dot_skinny_add_##name(const pk_dot_product *p) {                         \
    if (pk_dot_is_copied_few(p->rows, p->lda, p->cols)) {                                         \
      pk_dot_skinny_copied(p, pk_dot_skinny_add_##name);                                          \
      return;                                                                                     \
    }                                                                                             \
    pk_dot_skinny_start(p);                                                                       \
    if (p->rows == 1)                                                                             \
      pk_dot_skinny_rows(kind, true, kind == PK_PACK_F32 && pk_dot_is_along(p->k, p->ldsource),   \
                         p->near, 1, p->cols, p->a, p->lda / 4, p->source, p->ldsource, p->k,     \
                         p->to, p->ldto / 4);                                                     \
    else                                                                                          \
      pk_dot_skinny_rows(kind, false, false, p->near, p->rows, p->cols, p->a, p->lda / 4,         \
                         p->source, p->ldsource, p->k, p->to, p->ldto / 4);                       \
  }                                                                                               \
  PK_DOT_INLINE void pk_dot_skinny_##name(const pk_dot_product *p) {                              \
    pk_dot_skinny_by(p, &(const pk_dot_skinny_way){pk_dot_skinny_add_##name, pk_pack_bytes(kind), \
                                                   p->ldsource, 4, true});                        \
  }
#define PK_DOT_SKINNY_TRANSPOSED(T, kind)                                                          \
  PK_DOT_SKINNY_PART_T(T, kind, 1)                                                                 \
  PK_DOT_SKINNY_PART_T(T, kind, 2)                                                                 \
  PK_DOT_SKINNY_PART_T(T, kind, 3)                                                                 \
  PK_DOT_SKINNY_PART_T(T, kind, 4)                                                                 \
  PK_DOT_OUTLINE void pk_dot_skinny_t_##T(const pk_dot_product *p) {                               \
    typedef void part(int64_t, const float *, int64_t, const char *, int64_t, int64_t,             \
                      const int64_t *, float *, int64_t);                                          \
    static part *const parts[] = {pk_dot_skinny_part_t_##T##_1, pk_dot_skinny_part_t_##T##_2,      \
                                  pk_dot_skinny_part_t_##T##_3, pk_dot_skinny_part_t_##T##_4};     \
    const int64_t next = PK_PART_LANES * p->ldsource,                                              \
                  soon = pk_dot_is_long_row(p->rows, p->k) ? 2 * PK_DOT_SKINNY_LINES * p->ldsource \
                                                           : next,                                 \
                  near = !p->near && pk_dot_skinny_prefetches(p->rows, p->ldsource) ? soon : 0,    \
                  lda = p->lda / 4, ldto = p->ldto / 4;                                            \
    const char *b = p->source;                                                                     \
    pk_dot_skinny_start(p);                                                                        \
    for (int64_t n = 0; n < p->cols; n += PK_PART_LANES, b += next)                                \
      for (int64_t r = 0; r < p->rows; r += PK_DOT_SKINNY_ROWS) {                                  \
        /* Two passes over the same columns share what is to be prefetched; a third does not. */   \
        const int64_t ahead[2] = {                                                                 \
            r == 0 ? near : 0,                                                                     \
            r == PK_DOT_SKINNY_ROWS || p->rows <= PK_DOT_SKINNY_ROWS ? near : 0};                  \
        const int64_t left = p->rows - r < PK_DOT_SKINNY_ROWS ? p->rows - r : PK_DOT_SKINNY_ROWS;  \
        for (int64_t at = 0; at < p->k; at += PK_DOT_SKINNY_LANES)                                 \
          parts[left - 1](p->cols - n, (const float *)p->a + r * lda + at, lda,                    \
                          b + at * pk_pack_bytes(kind), p->ldsource,                               \
                          p->k - at < PK_DOT_SKINNY_LANES ? p->k - at : PK_DOT_SKINNY_LANES,       \
                          ahead, (float *)p->to + r * ldto + n, ldto);                             \
      }                                                                                            \
  }
PK_DOT_SKINNY_ROWS_OF(bf16, PK_PACK_BF16)
PK_DOT_SKINNY_ROWS_OF(f16, PK_PACK_F16)
PK_DOT_SKINNY_ROWS_OF(i8_f32, PK_PACK_I8_F32)
PK_DOT_SKINNY_ROWS_OF(u8_f32, PK_PACK_U8_F32)
PK_DOT_SKINNY_ROWS_OF(streamed, PK_PACK_F32)
PK_DOT_OUTLINE void pk_dot_tail_f32(const pk_dot_product *p);
/* Columns that fit one strip are read row by row in any case, and strips keep their sums. */
PK_DOT_OUTLINE void pk_dot_skinny_f32(const pk_dot_product *p) {
  if (p->cols && pk_dot_tail_columns(p) == p->cols) {
    pk_dot_product tail = *p;
    tail.panels = NULL;
    pk_dot_tail_f32(&tail);
    return;
  }
  if (pk_dot_is_tiled(p->near, p->rows, p->k, p->ldsource))
    pk_dot_skinny_tiles(p);
  else
    (pk_dot_is_streamed(p->cols) || p->near ? pk_dot_skinny_streamed : pk_dot_skinny_strips)(p);
}
PK_DOT_SKINNY_TRANSPOSED(f32, PK_PACK_F32)
PK_DOT_SKINNY_TRANSPOSED(bf16, PK_PACK_BF16)
PK_DOT_SKINNY_TRANSPOSED(f16, PK_PACK_F16)
PK_DOT_SKINNY_TRANSPOSED(i8_f32, PK_PACK_I8_F32)
PK_DOT_SKINNY_TRANSPOSED(u8_f32, PK_PACK_U8_F32)

/* -- A few columns: also a skinny product, after its operands have changed places. The left
 * operand is read by rows */

/* The transposed sums: column n of the result is row n of `sums`. */
PK_DOT_INLINE void pk_dot_tail_put(const float *sums, int64_t lines, int64_t rows, int64_t cols,
                                   const char *from, int64_t ldfrom, char *to, int64_t ldto) {
  for (int64_t r = 0; r < rows; r++, to += ldto)
    for (int64_t n = 0; n < cols; n++) {
      const float before = from ? ((const float *)(const void *)(from + r * ldfrom))[n] : 0;
      ((float *)(void *)to)[n] = before + sums[n * lines + r];
    }
}

/* Columns of the right operand, contiguous, `ld` elements apart. */
PK_DOT_INLINE void pk_dot_tail_lay(float *columns, int64_t ld, int64_t cols, int64_t k,
                                   const char *right, int64_t ldright) {
  enum { some = 64 }; /* steps whose lines stay in L1 for all columns */
  for (int64_t at = 0; at < k; at += some)
    for (int64_t n = 0; n < cols; n++)
      for (int64_t i = at; i < k && i < at + some; i++)
        columns[n * ld + i] = ((const float *)(const void *)(right + i * ldright))[n];
}

/* Multiplies them by at most PK_DOT_TAIL_LINES rows of the left operand, which may be in cache
 * (`near`). */
PK_DOT_INLINE void pk_dot_tail_lines(const pk_dot_product *p, bool near, const float *columns,
                                     int64_t ld) {
  _Alignas(64) float sums[PK_DOT_TAIL * PK_DOT_TAIL_LINES];
  pk_dot_skinny_t_f32(&(pk_dot_product){.rows = p->cols,
                                        .cols = p->rows,
                                        .k = p->k,
                                        .a = columns,
                                        .lda = 4 * ld,
                                        .source = p->a,
                                        .ldsource = p->lda,
                                        .near = near,
                                        .to = sums,
                                        .ldto = 4 * PK_DOT_TAIL_LINES});
  pk_dot_tail_put(sums, PK_DOT_TAIL_LINES, p->rows, p->cols, p->from, p->ldfrom, p->to, p->ldto);
}

/* The remaining columns, which were copied, and the `even` columns before them if these are few.
 * Both are multiplied by a few rows at a time, so that the rows are still in the cache for the
 * second product. */
PK_DOT_INLINE void pk_dot_tail_beside(const pk_dot_product *tail, const pk_dot_product *even,
                                      const float *columns, int64_t ld) {
  for (int64_t r = 0, n; r < tail->rows; r += n) {
    n = pk_dot_take_of(tail->rows - r, PK_DOT_TAIL_LINES);
    const pk_dot_product rest = pk_dot_lines_of(tail, r, n);
    if (even) {
      pk_dot_product some = pk_dot_lines_of(even, r, n);
      if (r && !even->in_place) some.source = NULL;
      pk_dot_product_f32(&some);
    }
    pk_dot_tail_lines(&rest, even != NULL, columns, ld);
  }
}

/* In pieces of k, because the columns are copied to contiguous memory. A single column that is
 * contiguous already is one piece. */
PK_DOT_OUTLINE void pk_dot_tail_f32(const pk_dot_product *p) {
  enum { all = PK_DOT_TAIL * PK_DOT_LONG };
  _Alignas(64) float columns[all];
  const int64_t tail = pk_dot_tail_columns(p), whole = p->cols - tail, in_panel = whole % PK_DOT_NR;
  const bool few = tail && pk_dot_is_beside(whole, p->rows, p->k);
  if (whole && !few) {
    const pk_dot_product even = pk_dot_columns_of(p, 0, whole);
    pk_dot_product_f32(&even);
  }
  if (!tail) return;
  char *const panel =
      p->panels ? (char *)p->panels + 4 * ((whole - in_panel) * p->depth + in_panel) : NULL;
  const char *const source = p->source ? (const char *)p->source + 4 * whole : NULL,
                    *const right = source ? source : panel;
  const int64_t ldright = source ? p->ldsource : PK_DOT_STEP_BYTES;
  const bool lies = p->cols == 1 && ldright == sizeof *columns;
  const int64_t piece = lies ? p->k : all / tail / PK_DOT_LONG * PK_DOT_LONG;
  int64_t at = 0;
  do {
    const int64_t k = p->k - at < piece ? p->k - at : piece;
    pk_dot_product part = pk_dot_rows_of(p, at, k, 4);
    if (p->panels) part.panels = (char *)p->panels + at * PK_DOT_STEP_BYTES;
    if (p->source) part.source = (const char *)p->source + at * p->ldsource;
    const pk_dot_product even = pk_dot_columns_of(&part, 0, whole),
                         rest = pk_dot_columns_of(&part, whole, tail);
    const char *const steps = right + at * ldright;
    if (!lies) pk_dot_tail_lay(columns, piece, tail, k, steps, ldright);
    pk_dot_tail_beside(&rest, few ? &even : NULL,
                       lies ? (const float *)(const void *)steps : columns, piece);
    at += k;
  } while (at < p->k);
  /* The product of the even columns has cleared the other lanes of the panel, which are never
   * stored. */
  for (int64_t k = 0; source && panel && !p->in_place && k < p->k; k++)
    pk_store_raw32(panel + k * PK_DOT_STEP_BYTES, pk_loadn_raw32(source + k * p->ldsource, tail));
}

#endif /* PK_MICRO */
#endif
