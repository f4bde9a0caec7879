/* dot/tiles.h: the tiles of one kind for 1 to MR rows, and products made of them. Strides in bytes.
 * Included for every PK_DOT_KIND. */

/* Sums continue the values of c, product by product. */
PK_DOT_INLINE void PK_DOT_OF(resume)(PK_DOT_VECTOR sum[PK_DOT_NV], const char *c,
                                     const int32_t *start, int row) {
  sum[0] = PK_DOT_OF(more)(PK_DOT_OF(load)(c), start, row);
  if (PK_DOT_NV > 1)
    sum[PK_DOT_NV - 1] =
        PK_DOT_OF(more)(PK_DOT_OF(load)(c + 4 * PK_LANES * (PK_DOT_NV - 1)), start, row);
}

/* The sums are computed separately and added to c. */
PK_DOT_INLINE void PK_DOT_OF(plus)(PK_DOT_VECTOR sum[PK_DOT_NV], const char *c) {
  sum[0] = PK_DOT_OF(add)(PK_DOT_OF(load)(c), sum[0]);
  if (PK_DOT_NV > 1)
    sum[PK_DOT_NV - 1] =
        PK_DOT_OF(add)(PK_DOT_OF(load)(c + 4 * PK_LANES * (PK_DOT_NV - 1)), sum[PK_DOT_NV - 1]);
}

PK_DOT_INLINE void PK_DOT_OF(replace)(const PK_DOT_VECTOR sum[PK_DOT_NV], char *c) {
  PK_DOT_OF(store)(c, sum[0]);
  if (PK_DOT_NV > 1) PK_DOT_OF(store)(c + 4 * PK_LANES * (PK_DOT_NV - 1), sum[PK_DOT_NV - 1]);
}

#if PK_DOT_BLOCK
#include <pk/dot/slot.h>
#endif
#ifdef PK_DOT_PAIRS
#include <pk/dot/pairs.h>
#else
#define PK_DOT_ROWS 1
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 2
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 3
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 4
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 5
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 6
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 7
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 8
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 9
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 10
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 11
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 12
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 13
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 14
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 15
#include <pk/dot/tile.h>
#define PK_DOT_ROWS 16
#include <pk/dot/tile.h>
#endif

PK_DOT_INLINE void PK_DOT_OF(tile)(int64_t rows, const pk_dot_tile *t) {
  switch (rows) {
#define PK_DOT_CASE(n) \
  case n:              \
    PK_DOT_TILE(n)(t); \
    break;
    PK_DOT_ROWS_TO(PK_DOT_MR, PK_DOT_CASE)
#undef PK_DOT_CASE
    default:
      break;
  }
}

/* Fills a panel that is not full. */
PK_DOT_INLINE void PK_DOT_OF(fill_some)(char *panel, const char *source, int64_t ld, int64_t k,
                                        int64_t cols) {
  for (; k > 0; k--, panel += PK_DOT_STEP_BYTES, source += ld)
    for (int v = 0; v < PK_DOT_NR; v += PK_LANES)
      pk_store_raw32(panel + 4 * v,
                     cols > v ? pk_loadn_raw32(source + 4 * v, cols - v) : (pk_i32v){0});
}

/* If the result has no room for a tile, its sums are in a buffer; the valid columns are copied
 * to and from it. */
PK_DOT_INLINE void PK_DOT_OF(take_some)(int64_t rows, int64_t cols, const char *from,
                                        int64_t ldfrom, char *sums) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < PK_DOT_NR; n += PK_LANES)
      pk_store_raw32(sums + r * PK_DOT_STEP_BYTES + 4 * n,
                     cols > n ? pk_loadn_raw32(from + r * ldfrom + 4 * n, cols - n) : (pk_i32v){0});
}

PK_DOT_INLINE void PK_DOT_OF(put_some)(int64_t rows, int64_t cols, const char *sums, char *to,
                                       int64_t ldto) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n += PK_LANES)
      pk_storen_raw32(to + r * ldto + 4 * n, pk_load_raw32(sums + r * PK_DOT_STEP_BYTES + 4 * n),
                      cols - n);
}

/* The rest of k, less than a step: `left` bytes of each row and of each column of the panel,
 * padded with zeros. Its sums continue `from`. */
PK_DOT_OUTLINE void PK_DOT_OF(rest)(int64_t rows, const pk_dot_tile *tile, const char *from,
                                    int64_t ldfrom, const char *panel, int64_t left) {
  static const int32_t start[PK_DOT_MR];
  int32_t words[PK_DOT_MR] = {0}, step[PK_DOT_NR];
  const int32_t mask = (int32_t)(0xffffffffu >> (32 - 8 * left));
  memcpy(step, panel, sizeof step);
  for (int64_t i = 0; i < rows; i++)
    memcpy(&words[i], tile->a + 4 * tile->k + i * tile->lda, (size_t)left);
  for (int i = 0; i < PK_DOT_NR; i++) step[i] &= mask;
  pk_dot_tile t = *tile;
  t.a = (const char *)words, t.lda = 4, t.b = (const char *)step, t.k = 1, t.from = from,
  t.ldfrom = ldfrom, t.start = start;
  PK_DOT_OF(tile)(rows, &t);
}

/* A tile, and `left` bytes after its steps; `end` is the step of the panel that they multiply. */
PK_DOT_INLINE void PK_DOT_OF(tile_and_rest)(int64_t rows, const pk_dot_tile *t, const char *end,
                                            int64_t left) {
  _Alignas(64) char sums[PK_DOT_MR * PK_DOT_STEP_BYTES];
  pk_dot_tile steps;
  if (!left) {
    PK_DOT_OF(tile)(rows, t);
    return;
  }
  steps = *t;
  if (t->plus) steps.plus = NULL, steps.to = sums, steps.ldto = PK_DOT_STEP_BYTES;
  PK_DOT_OF(tile)(rows, &steps);
  PK_DOT_OF(rest)(rows, t, steps.to, steps.ldto, end, left);
}

/* Prefetches the left operand's rows of the next row of tiles, and the results of this tile. */
PK_DOT_INLINE void PK_DOT_OF(bring)(pk_dot_ahead *ahead, int64_t lines, int64_t rows, char *to,
                                    int64_t ldto) {
  for (; lines > 0 && ahead->rows > 0; lines--) {
    __builtin_prefetch(ahead->a + ahead->at, 0, 2);
    ahead->at += 64;
    if (ahead->at >= ahead->bytes) ahead->a += ahead->lda, ahead->at = 0, ahead->rows--;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int v = 0; v < PK_DOT_STEP_BYTES; v += 64) __builtin_prefetch(to + r * ldto + v, 1, 3);
}

/* A row of tiles, and `left` bytes after their steps. It also fills the panels, if the product
 * has panels and a source that is not read in place. */
PK_DOT_INLINE void PK_DOT_OF(row_of_tiles)(const pk_dot_product *p, int64_t rows, pk_dot_tile *t,
                                           int64_t left, char *panel, int64_t panel_bytes,
                                           const char *source, const char *from, const char *plus,
                                           char *to, pk_dot_ahead *ahead) {
  enum { size = PK_DOT_MR * PK_DOT_STEP_BYTES };
  _Alignas(64) char sums[size], added[size];
  const int64_t ldfrom = t->ldfrom, ldplus = t->ldplus;
  for (int64_t n = 0; n < p->cols; n += PK_DOT_NR, panel += panel_bytes) {
    const int64_t cols = p->cols - n;
    const bool whole = cols >= PK_DOT_NR, fits = whole || p->padded,
               fills = source && (whole || (p->in_place && cols == PK_LANES));
    if (source && !fills) PK_DOT_OF(fill_some)(panel, source + 4 * n, p->ldsource, t->k, cols);
    t->b = fills ? source + 4 * n : panel;
    t->ldb = fills ? p->ldsource : PK_DOT_STEP_BYTES;
    t->fill = fills && p->panels && !p->in_place ? panel : NULL;
    t->narrow = PK_DOT_NV > 1 && cols <= PK_LANES;
    if (from && !fits) PK_DOT_OF(take_some)(rows, cols, from + 4 * n, ldfrom, sums);
    if (plus && !fits) PK_DOT_OF(take_some)(rows, cols, plus + 4 * n, ldplus, added);
    t->from = !from ? NULL : fits ? from + 4 * n : sums;
    t->plus = !plus ? NULL : fits ? plus + 4 * n : added;
    t->to = fits ? to + 4 * n : sums;
    t->ldfrom = fits ? ldfrom : PK_DOT_STEP_BYTES;
    t->ldplus = fits ? ldplus : PK_DOT_STEP_BYTES;
    t->ldto = fits ? p->ldto : PK_DOT_STEP_BYTES;
    if (ahead && fits) PK_DOT_OF(bring)(ahead, ahead->lines, rows, t->to, t->ldto);
    PK_DOT_OF(tile_and_rest)(rows, t, panel + t->k * PK_DOT_STEP_BYTES, left);
    if (!fits) PK_DOT_OF(put_some)(rows, cols, sums, to + 4 * n, p->ldto);
  }
}

/* The initial sums of a part of k: they continue `from`, or are added to `plus`. */
typedef struct {
  const char *from, *plus;
} PK_DOT_OF(begin);
PK_DOT_INLINE PK_DOT_OF(begin) PK_DOT_OF(begins)(const char *from, int64_t steps) {
  const bool apart = PK_DOT_OF(apart)(from, steps);
  return (PK_DOT_OF(begin)){apart ? NULL : from, apart ? from : NULL};
}

/* The first row of tiles fills the panels, some steps of all panels at a time, because memory is
 * read faster along its rows. Meanwhile the sums are in a buffer, for a limited number of
 * columns at a time. */
PK_DOT_INLINE void PK_DOT_OF(fill)(const pk_dot_product *p, int64_t rows, pk_dot_tile *t,
                                   char *panel, int64_t panel_bytes, const char *source,
                                   const char *from, const char *plus) {
  enum { ld = 4 * PK_DOT_FILL_COLUMNS + 64 };
  _Alignas(64) char sums[PK_DOT_MR * ld];
  const int64_t all = t->k, ldfrom = t->ldfrom;
  const char *const a = t->a;
  for (int64_t n = 0; n < p->cols; n += PK_DOT_FILL_COLUMNS) {
    const int64_t cols = p->cols - n < PK_DOT_FILL_COLUMNS ? p->cols - n : PK_DOT_FILL_COLUMNS;
    pk_dot_product some = pk_dot_columns_of(p, n, cols);
    for (int64_t at = 0; at < all; at += t->k) {
      const bool last = all - at <= PK_DOT_FILL;
      some.to = last ? (char *)p->to + 4 * n : sums, some.ldto = last ? p->ldto : ld;
      some.padded = last ? p->padded : true;
      t->k = last ? all - at : PK_DOT_FILL, t->a = a + 4 * at;
      t->ldfrom = at ? ld : ldfrom;
      PK_DOT_OF(row_of_tiles)
      (&some, rows, t, 0, panel + n / PK_DOT_NR * panel_bytes + at * PK_DOT_STEP_BYTES, panel_bytes,
       source + 4 * n + at * p->ldsource,
       at     ? sums
       : from ? from + 4 * n
              : NULL,
       last && plus ? plus + 4 * n : NULL, (char *)some.to, NULL);
    }
  }
}

/* `bytes` of each row of a, from byte `at` on. Loops over tiles of rows, and inside over panels:
 * the tile's rows of a stay in L1 while the panels are prefetched from L2. */
PK_DOT_OUTLINE void PK_DOT_OF(part)(const pk_dot_product *p, int64_t panel_bytes, int64_t at,
                                    int64_t bytes, int32_t factor) {
  _Alignas(64) char rows_of_a[PK_DOT_MR * (4 * PK_DOT_LONG + 64)];
  int32_t start[PK_DOT_MR];
  const bool copied = pk_dot_is_copied(p->lda, bytes, p->cols),
             brings = pk_dot_is_brought(p->cols, p->in_place);
  const int64_t ldfrom = at ? p->ldto : p->ldfrom, ld = bytes / 64 * 64 + 64;
  const int most = pk_dot_most(p, bytes);
  const char *a = (const char *)p->a + at;
  const PK_DOT_OF(begin) sums = PK_DOT_OF(begins)(at ? p->to : p->from, bytes / 4);
  char *const panel = p->panels ? (char *)p->panels + at / 4 * PK_DOT_STEP_BYTES : NULL;
  const char *const source =
      p->source && bytes > 0 ? (const char *)p->source + at / 4 * p->ldsource : NULL;
  const bool fills = source && !p->in_place;
  for (int64_t r = 0, n; r < p->rows; r += n) {
    n = pk_dot_take_of(p->rows - r, most);
    pk_dot_tile t = {.a = a + r * p->lda,
                     .lda = p->lda,
                     .k = bytes / 4,
                     .ldfrom = ldfrom,
                     .ldplus = ldfrom,
                     .start = start};
    if (copied && n > 1) {
      pk_dot_copy_rows(rows_of_a, ld, t.a, p->lda, n, bytes);
      t.a = rows_of_a, t.lda = ld;
    }
    PK_DOT_OF(starts)(start, n, t.a, t.lda, bytes, factor);
    if (fills && r == 0) PK_DOT_OF(fill)
    (p, n, &t, panel, panel_bytes, source, sums.from, sums.plus);
    else {
      const int64_t left = p->rows - r - n,
                    rows = brings && left > 0 ? pk_dot_take_of(left, most) : 0;
      pk_dot_ahead ahead;
      if (rows) ahead = pk_dot_rows_ahead(a + (r + n) * p->lda, p->lda, rows, bytes, p->cols);
      PK_DOT_OF(row_of_tiles)
      (p, n, &t, bytes % 4, panel, panel_bytes, fills ? NULL : source,
       sums.from ? sums.from + r * ldfrom : NULL, sums.plus ? sums.plus + r * ldfrom : NULL,
       (char *)p->to + r * p->ldto, rows ? &ahead : NULL);
    }
  }
}

#if PK_DOT_BLOCK
#include <pk/dot/block.h>

/* The same, for as many rows at a time as fit the buffer. */
PK_DOT_INLINE void PK_DOT_OF(blocks)(const pk_dot_product *p, int64_t panel_bytes, int64_t at,
                                     int64_t bytes, int32_t factor) {
  const int64_t fit = PK_DOT_SCRATCH / pk_dot_scratch_row(bytes),
                most = fit < PK_DOT_BLOCK ? fit : PK_DOT_BLOCK,
                blocks = (p->rows + most - 1) / most;
  for (int64_t i = 0; i < blocks; i++) {
    const int64_t r = p->rows * i / blocks;
    pk_dot_product some = *p;
    some.rows = p->rows * (i + 1) / blocks - r;
    some.a = (const char *)p->a + r * p->lda, some.to = (char *)p->to + r * p->ldto;
    if (p->from) some.from = (const char *)p->from + r * p->ldfrom;
    if (r) some.source = NULL;
    PK_DOT_OF(panel_by_panel)(&some, panel_bytes, at, bytes, factor);
  }
}
#endif

/* A vector of columns that the result may not have completely. */
PK_DOT_INLINE PK_DOT_VECTOR PK_DOT_OF(load_some)(const char *p, int64_t n) {
  _Alignas(64) char vector[4 * PK_LANES];
  if (n >= PK_LANES) return PK_DOT_OF(load)(p);
  pk_store_raw32(vector, pk_loadn_raw32(p, n));
  return PK_DOT_OF(load)(vector);
}
PK_DOT_INLINE void PK_DOT_OF(store_some)(char *p, PK_DOT_VECTOR v, int64_t n) {
  _Alignas(64) char vector[4 * PK_LANES];
  PK_DOT_OF(store)(n >= PK_LANES ? p : vector, v);
  if (n < PK_LANES) pk_storen_raw32(p, pk_load_raw32(vector), n);
}

/* n columns of a vector. */
PK_DOT_INLINE void PK_DOT_OF(shallow_vector)(const int steps, const PK_DOT_VECTOR *x,
                                             const int32_t *start, const char *panel,
                                             const char *from, char *to, int64_t n) {
  PK_DOT_VECTOR sum =
      from ? PK_DOT_OF(more)(PK_DOT_OF(load_some)(from, n), start, 0) : PK_DOT_OF(start)(start, 0);
  PK_DOT_UNROLL for (int s = 0; s < steps; s++) sum =
      PK_DOT_OF(madd)(x[s], PK_DOT_OF(load)(panel + s * PK_DOT_STEP_BYTES), sum);
  PK_DOT_OF(store_some)(to, sum, n);
}

PK_DOT_INLINE void PK_DOT_OF(shallow_rows)(const pk_dot_product *p, const int steps,
                                           int64_t panel_bytes, int32_t factor) {
  const char *a = p->a, *from = p->from;
  char *to = p->to;
  for (int64_t r = 0; r < p->rows; r++, a += p->lda, to += p->ldto) {
    int32_t start[1];
    PK_DOT_VECTOR x[PK_DOT_SHALLOW];
    const char *panel = p->panels;
    int64_t n = 0;
    PK_DOT_OF(starts)(start, 1, a, p->lda, 4 * steps, factor);
    PK_DOT_UNROLL for (int s = 0; s < steps; s++) x[s] = PK_DOT_OF(splat)(a + 4 * s);
    for (; n + PK_DOT_NR <= p->cols; n += PK_DOT_NR, panel += panel_bytes)
      PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NR; v += PK_LANES)
          PK_DOT_OF(shallow_vector)(steps, x, start, panel + 4 * v,
                                    from ? from + 4 * (n + v) : NULL, to + 4 * (n + v), PK_LANES);
    for (; n < p->cols; n += PK_LANES, panel += 4 * PK_LANES) PK_DOT_OF(shallow_vector)
    (steps, x, start, panel, from ? from + 4 * n : NULL, to + 4 * n, p->cols - n);
    if (from) from += p->ldfrom;
  }
}

/* So few steps that a result is written as fast as it is computed: row by row, because the rows
 * of a tile evict each other from L1 and the prefetchers follow few of them. */
PK_DOT_OUTLINE void PK_DOT_OF(shallow)(const pk_dot_product *p, int64_t steps, int64_t panel_bytes,
                                       int32_t factor) {
  for (int64_t n = 0; p->source && n < p->cols; n += PK_DOT_NR) PK_DOT_OF(fill_some)
  ((char *)p->panels + n / PK_DOT_NR * panel_bytes, (const char *)p->source + 4 * n, p->ldsource,
   steps, p->cols - n);
  switch (steps) {
    case 1:
      PK_DOT_OF(shallow_rows)(p, 1, panel_bytes, factor);
      break;
    case 2:
      PK_DOT_OF(shallow_rows)(p, 2, panel_bytes, factor);
      break;
    case 3:
      PK_DOT_OF(shallow_rows)(p, 3, panel_bytes, factor);
      break;
    default:
      PK_DOT_OF(shallow_rows)(p, PK_DOT_SHALLOW, panel_bytes, factor);
      break;
  }
}

/* Elements of `size` bytes. A long k is divided, so that the panels in use stay in L2, at fixed
 * multiples, because float sums start anew there. */
PK_DOT_INLINE void PK_DOT_OF(multiply)(const pk_dot_product *p, const int size, int32_t factor) {
  const int64_t panel_bytes = p->depth * size / 4 * PK_DOT_STEP_BYTES, bytes_of_k = p->k * size;
  int64_t at = 0;
  if (pk_dot_is_shallow(bytes_of_k)) {
    PK_DOT_OF(shallow)(p, bytes_of_k / 4, panel_bytes, factor);
    return;
  }
  do {
    const int64_t left = p->k * size - at, bytes = left < 4 * PK_DOT_LONG ? left : 4 * PK_DOT_LONG;
#if PK_DOT_BLOCK
    if (pk_dot_is_block(p->scratch && !p->in_place, p->rows, p->cols, PK_DOT_NR, bytes))
      PK_DOT_OF(blocks)(p, panel_bytes, at, bytes, factor);
    else
#endif
      PK_DOT_OF(part)(p, panel_bytes, at, bytes, factor);
    at += bytes;
  } while (at < p->k * size);
}
