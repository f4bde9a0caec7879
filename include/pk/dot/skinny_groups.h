/* dot/skinny_groups.h: products of few rows whose elements are in groups of 4 bytes along k. The
 * right operand is read once, in place, and its groups are put together in registers. Included by
 * dot/i8.h and dot/bf16.h for every PK_DOT_KIND, which must define, in addition to the functions in
 * dot.h,
 *
 *   pk_dot_group_KIND(from, src, ld, k, n, flip) the groups of PK_LANES columns, of which k rows
 *                                                and n columns exist, of elements of a kind
 *                                                of pack.h
 *   pk_dot_words_KIND(words)                     a vector of groups
 *   pk_dot_loadn_KIND(p, n), pk_dot_storen_KIND(p, v, n)    the first n sums
 *   pk_dot_lanes_KIND                            a part of a vector of sums
 *
 * Elements have `size` bytes; the sign bits of the right operand are flipped by `flip`, for which
 * rows start from `factor` times their sum (dot/i8.h).
 */
#ifndef PK_DOT_SKINNY_GROUPS_H
#define PK_DOT_SKINNY_GROUPS_H
#include <pk/dot/skinny.h>

/* Groups held in registers: 16 or 8 registers. Rows of 4 vectors of bytes are whole lines of the
 * cache. */
enum { PK_DOT_SKINNY_GROUPS = 4, PK_DOT_SKINNY_VECTORS = PK_PART_BYTES == 64 ? 4 : 2 };

/* Rows of a piece of the left operand, padded with zeros. */
PK_DOT_INLINE const char *pk_dot_skinny_words(char *words, int64_t length, int64_t rows,
                                              const char *a, int64_t *lda, int64_t left) {
  if (left >= length) return a;
  memset(words, 0, (size_t)(rows * length));
  for (int64_t r = 0; r < rows; r++) memcpy(words + r * length, a + r * *lda, (size_t)left);
  *lda = length;
  return words;
}

/* A vector of bytes at any address. */
PK_DOT_INLINE pk_i32v pk_dot_vector_at(const char *from) {
  pk_i32v v;
  memcpy(&v, from, sizeof v);
  return v;
}

/* The last `rest` bytes of lines of `bytes` bytes, and zeros: those of a vector that ends with the
 * line, or, if the line is shorter, of a copy. */
typedef struct {
  int64_t bytes, rest;
  pk_i32v kept;
} pk_dot_line_end;
PK_DOT_INLINE pk_dot_line_end pk_dot_end_of_lines(int64_t bytes) {
  pk_dot_line_end end = {.bytes = bytes, .rest = bytes % PK_VEC_BYTES};
  char kept[PK_VEC_BYTES] = {0};
  memset(kept + PK_VEC_BYTES - end.rest, -1, (size_t)end.rest);
  end.kept = pk_dot_vector_at(kept);
  return end;
}
PK_DOT_INLINE pk_i32v pk_dot_end_at(const pk_dot_line_end *end, const char *line) {
  if (end->bytes >= PK_VEC_BYTES)
    return pk_and_i32(pk_dot_vector_at(line + end->bytes - PK_VEC_BYTES), end->kept);
  char padded[PK_VEC_BYTES] = {0};
  memcpy(padded, line, (size_t)end->bytes);
  return pk_dot_vector_at(padded);
}
#endif

/* The initial sums. */
PK_DOT_OUTLINE void PK_DOT_OF(in_place_start)(const pk_dot_product *p, int64_t bytes,
                                              int32_t factor) {
  for (int64_t r = 0; r < p->rows; r++) {
    int32_t sum[1] = {0};
    if (factor) PK_DOT_OF(starts)(sum, 1, (const char *)p->a + r * p->lda, p->lda, bytes, factor);
    const PK_DOT_VECTOR start = PK_DOT_OF(start)(sum, 0);
    const char *from = p->from ? (const char *)p->from + r * p->ldfrom : NULL;
    char *to = (char *)p->to + r * p->ldto;
    for (int64_t n = 0; n < p->cols; n += PK_LANES) {
      const PK_DOT_VECTOR v =
          from ? PK_DOT_OF(more)(PK_DOT_OF(loadn)(from + 4 * n, p->cols - n), sum, 0) : start;
      PK_DOT_OF(storen)(to + 4 * n, v, p->cols - n);
    }
  }
}

/* Adds the products of all rows with `steps` groups of each column; n: of the last vector. */
PK_DOT_INLINE void PK_DOT_OF(in_place_add)(const pk_dot_product *p, const char *a, int64_t lda,
                                           const PK_DOT_VECTOR *groups, const int steps,
                                           const int vectors, int64_t n, char *to) {
  for (int64_t r = 0; r < p->rows; r++, a += lda, to += p->ldto) {
    PK_DOT_VECTOR sum[PK_DOT_SKINNY_VECTORS];
    PK_DOT_UNROLL for (int v = 0; v < vectors; v++) sum[v] =
        PK_DOT_OF(loadn)(to + 4 * PK_LANES * v, n);
    PK_DOT_UNROLL for (int i = 0; i < steps; i++) {
      const PK_DOT_VECTOR x = PK_DOT_OF(splat)(a + 4 * i);
      PK_DOT_UNROLL for (int v = 0; v < vectors; v++) sum[v] =
          PK_DOT_OF(madd)(x, groups[i * vectors + v], sum[v]);
    }
    PK_DOT_UNROLL for (int v = 0; v < vectors; v++)
        PK_DOT_OF(storen)(to + 4 * PK_LANES * v, sum[v], n);
  }
}

/* A product with few rows that reads elements of fewer than 4 bytes from the caller's matrix,
 * without packing it: PK_DOT_SKINNY_GROUPS groups of rows of b at a time. */
PK_DOT_INLINE void PK_DOT_OF(in_place)(const pk_dot_product *p, const pk_pack_kind from,
                                       const int size, int32_t flip, int32_t factor) {
  enum { length = 4 * PK_DOT_SKINNY_GROUPS, vectors = PK_DOT_SKINNY_VECTORS };
  const int64_t bytes = p->k * size, ld = p->ldsource, step = 4 / size * ld,
                width = pk_pack_bytes(from);
  PK_DOT_OF(in_place_start)(p, bytes, factor);
  for (int64_t at = 0; at < bytes; at += length) {
    char words[PK_DOT_SKINNY * length];
    int64_t lda = p->lda, n = 0;
    const int64_t k = (bytes - at) / size;
    const char *a =
        pk_dot_skinny_words(words, length, p->rows, (const char *)p->a + at, &lda, bytes - at);
    const char *b = (const char *)p->source + at / size * ld;
    PK_DOT_VECTOR groups[PK_DOT_SKINNY_GROUPS * vectors];
    for (; bytes - at >= length && n + vectors * PK_LANES <= p->cols; n += vectors * PK_LANES) {
      PK_DOT_UNROLL for (int i = 0; i < PK_DOT_SKINNY_GROUPS; i++)
          PK_DOT_UNROLL for (int v = 0; v < vectors; v++) groups[i * vectors + v] =
              PK_DOT_OF(group)(from, b + i * step + (n + v * PK_LANES) * width, ld, INT64_MAX,
                               PK_LANES, flip);
      for (int i = 0; i < length / size; i++)
        __builtin_prefetch(b + (length / size + i) * ld + n * width, 0, 2);
      PK_DOT_OF(in_place_add)
      (p, a, lda, groups, PK_DOT_SKINNY_GROUPS, vectors, PK_LANES, (char *)p->to + 4 * n);
    }
    for (; n < p->cols; n += PK_LANES) {
      for (int i = 0; i < PK_DOT_SKINNY_GROUPS; i++)
        groups[i] = PK_DOT_OF(group)(from, b + i * step + n * width, ld, k - i * (4 / size),
                                     p->cols - n, flip);
      PK_DOT_OF(in_place_add)
      (p, a, lda, groups, PK_DOT_SKINNY_GROUPS, 1, p->cols - n, (char *)p->to + 4 * n);
    }
  }
}

/* For a right operand whose columns are contiguous: squares of words are transposed. */
PK_DOT_INLINE void PK_DOT_OF(in_place_t)(const pk_dot_product *p, const int size, int32_t flip,
                                         int32_t factor) {
  enum { length = 4 * PK_LANES };
  const int64_t bytes = p->k * size;
  PK_DOT_OF(in_place_start)(p, bytes, factor);
  for (int64_t n = 0; n < p->cols; n += PK_LANES)
    for (int64_t at = 0; at < bytes; at += length) {
      char words[PK_DOT_SKINNY * length], lines[PK_LANES * length];
      const int64_t cols = p->cols - n < PK_LANES ? p->cols - n : PK_LANES;
      int64_t lda = p->lda, ldb = p->ldsource;
      const char *a =
          pk_dot_skinny_words(words, length, p->rows, (const char *)p->a + at, &lda, bytes - at);
      const char *b = pk_dot_skinny_words(lines, length, cols,
                                          (const char *)p->source + n * ldb + at, &ldb, bytes - at);
      pk_i32v transposed[PK_LANES];
      PK_DOT_VECTOR groups[PK_LANES];
      pk_pack_transposed(PK_PACK_B4, transposed, b, ldb, cols, PK_LANES, pk_splat_i32(0));
      PK_DOT_UNROLL for (int i = 0; i < PK_LANES; i++) groups[i] =
          PK_DOT_OF(words)(pk_xor_i32(transposed[i], pk_splat_i32(flip)));
      PK_DOT_OF(in_place_add)(p, a, lda, groups, PK_LANES, 1, cols, (char *)p->to + 4 * n);
    }
}

/* Adds the products of a vector of each of `rows` rows with vectors of some lines: those at `at`,
 * or the last ones. */
PK_DOT_INLINE void PK_DOT_OF(lines_add)(const int rows, const pk_dot_line_end *end, const char *a,
                                        int64_t lda, const char *const *line, int64_t at,
                                        int32_t flip, PK_DOT_VECTOR (*sum)[PK_DOT_SKINNY_LINES]) {
  PK_DOT_VECTOR x[PK_DOT_SKINNY_ROWS];
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) {
    const char *row = a + r * lda;
    x[r] = PK_DOT_OF(words)(end ? pk_dot_end_at(end, row) : pk_dot_vector_at(row + at));
  }
  PK_DOT_UNROLL for (int i = 0; i < PK_DOT_SKINNY_LINES; i++) {
    const pk_i32v y = end ? pk_dot_end_at(end, line[i]) : pk_dot_vector_at(line[i] + at);
    const PK_DOT_VECTOR from = PK_DOT_OF(words)(pk_xor_i32(y, pk_splat_i32(flip)));
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) sum[r][i] = PK_DOT_OF(madd)(x[r], from, sum[r][i]);
  }
}

/* Up to PK_DOT_SKINNY_ROWS rows by `parts` times PK_PART_LANES lines, of which the last is repeated
 * if there are fewer. Each lane sums a share of the terms: adding the lanes at the end takes less
 * time than transposing the lines, which pays for more rows. The lines that are read at once are as
 * far apart as possible, and the next ones follow them in memory, so the hardware prefetches few
 * long streams. */
PK_DOT_INLINE void PK_DOT_OF(along_lines)(const int rows, const int parts, const pk_dot_product *p,
                                          int64_t cols, const char *a, const char *b, int64_t bytes,
                                          int32_t flip, char *to) {
  enum { lines = PK_DOT_SKINNY_LINES };
  const bool followed = rows <= PK_DOT_LINES_FOLLOWED;
  const pk_dot_line_end end = pk_dot_end_of_lines(bytes);
  const int apart = parts * PK_PART_LANES / lines;
  const int64_t ld = p->ldsource, ahead = p->near ? 0 : apart > 1 ? ld : lines * ld;
  PK_DOT_OF(lanes) sums[PK_DOT_SKINNY_ROWS][PK_DOT_SKINNY_PARTS * PK_PART_LANES];
  for (int i = 0; i < apart; i++) {
    const char *line[lines];
    PK_DOT_VECTOR sum[PK_DOT_SKINNY_ROWS][lines];
    int64_t at = 0;
    PK_DOT_UNROLL for (int j = 0; j < lines; j++) {
      const int64_t n = i + j * apart;
      line[j] = b + (n < cols ? n : cols - 1) * ld;
    }
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) PK_DOT_UNROLL for (int j = 0; j < lines; j++)
        sum[r][j] = (PK_DOT_VECTOR){0};
    for (; at + PK_VEC_BYTES <= bytes; at += PK_VEC_BYTES) {
      if (!followed)
        PK_DOT_UNROLL for (int j = 0; j < lines; j++)
            __builtin_prefetch(line[j] + at + ahead, 0, 2);
      PK_DOT_OF(lines_add)(rows, NULL, a, p->lda, line, at, flip, sum);
    }
    if (end.rest) PK_DOT_OF(lines_add)(rows, &end, a, p->lda, line, at, flip, sum);
    PK_DOT_UNROLL for (int r = 0; r < rows; r++) PK_DOT_UNROLL for (int j = 0; j < lines; j++)
        sums[r][i + j * apart] = PK_DOT_OF(folded)(sum[r][j]);
  }
  PK_DOT_UNROLL for (int r = 0; r < rows; r++) PK_DOT_UNROLL for (int n = 0; n < parts; n++)
      PK_DOT_OF(add_lanes)(sums[r] + n * PK_PART_LANES, cols - n * PK_PART_LANES,
                           to + r * p->ldto + 4 * n * PK_PART_LANES);
}

/* A product of up to PK_DOT_SKINNY_ROWS rows. */
PK_DOT_INLINE void PK_DOT_OF(by_lines)(const pk_dot_product *p, const int size, int32_t flip,
                                       int32_t factor) {
  enum { most = 4 * PK_DOT_SKINNY_LANES, wide = PK_DOT_SKINNY_PARTS * PK_PART_LANES };
  const int64_t all = p->k * size;
  PK_DOT_OF(in_place_start)(p, all, factor);
  for (int64_t n = 0, next = 0; n < p->cols; n = next) {
    const int64_t cols = p->cols - n;
    const bool several = p->rows == 1 && cols >= wide;
    next = n + (several ? wide : PK_PART_LANES);
    for (int64_t at = 0; at < all; at += most) {
      const char *a = (const char *)p->a + at, *b = (const char *)p->source + n * p->ldsource + at;
      const int64_t bytes = all - at < most ? all - at : most;
      char *to = (char *)p->to + 4 * n;
      if (several)
        PK_DOT_OF(along_lines)(1, PK_DOT_SKINNY_PARTS, p, cols, a, b, bytes, flip, to);
      else if (p->rows == 1)
        PK_DOT_OF(along_lines)(1, 1, p, cols, a, b, bytes, flip, to);
      else if (p->rows == 2)
        PK_DOT_OF(along_lines)(2, 1, p, cols, a, b, bytes, flip, to);
      else if (p->rows == 3)
        PK_DOT_OF(along_lines)(3, 1, p, cols, a, b, bytes, flip, to);
      else if (p->rows == 4)
        PK_DOT_OF(along_lines)(4, 1, p, cols, a, b, bytes, flip, to);
    }
  }
}
