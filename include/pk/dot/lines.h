/* dot/lines.h: products of bytes for each index of a batch axis, in i32; sums wrap. The elements of
 * both operands are contiguous along k; rows and batch indices may be any distance apart. These are
 * the integer parts of products with a scale for each block of k.
 *
 *   pk_dot_lines_T(p)    T as in dot/i8.h
 *
 * Lines of the right operand, one for each lane of a vector, are read a vector of bytes at a time,
 * and transposed in registers: after that, a vector has 4 bytes of each line. A vector of bytes
 * contains several batch indices if these are close enough in memory.
 */
#ifndef PK_DOT_LINES_H
#define PK_DOT_LINES_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/dot/i8.h>

/* Rows of the left operand, and indices of the batch axis, whose initial sums are kept; bytes of
 * each line that are transposed together. */
enum { PK_LINES_ROWS = 16, PK_LINES_BATCHES = 64, PK_LINES_LENGTH = 4 * PK_LANES };

/* A part of the product: `rows` rows from `row` on, `batches` indices from `batch` on. */
typedef struct {
  const pk_dot_lines *p;
  int64_t row, rows, batch, batches;
  int32_t start[PK_LINES_ROWS][PK_LINES_BATCHES];
  int32_t flip;
} pk_lines_part;

/* The first `bytes` of a line, then zeros. */
PK_DOT_INLINE const char *pk_lines_padded(char *to, const char *from, int64_t bytes) {
  if (bytes >= PK_LINES_LENGTH) return from;
  memset(to, 0, PK_LINES_LENGTH);
  memcpy(to, from, (size_t)bytes);
  return to;
}

/* Loads `bytes` bytes of each line; the lines from number `lines` on are zeros. */
PK_DOT_INLINE void pk_lines_transposed(pk_i32v groups[PK_LANES], const char *b, int64_t ld,
                                       int64_t lines, int64_t bytes, int32_t flip) {
  char padded[PK_LANES * PK_LINES_LENGTH];
  if (bytes < PK_LINES_LENGTH) {
    for (int64_t i = 0; i < lines && i < PK_LANES; i++)
      pk_lines_padded(padded + i * PK_LINES_LENGTH, b + i * ld, bytes);
    b = padded, ld = PK_LINES_LENGTH;
  }
  pk_pack_transposed(PK_PACK_B4, groups, b, ld, lines, PK_LANES, pk_splat_i32(0));
  PK_DOT_UNROLL for (int i = 0; i < PK_LANES; i++) groups[i] =
      pk_xor_i32(groups[i], pk_splat_i32(flip));
}

/* Of two vectors: the first or last pair of every 4 lanes, alternately from both; the even or odd
 * groups of 4 lanes, first those of `a`. */
#if PK_PART_LANES == 16
#define PK_LINES_FIRST(a, b) \
  __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define PK_LINES_LAST(a, b) \
  __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define PK_LINES_EVEN(a, b) \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define PK_LINES_ODD(a, b) \
  __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#elif PK_PART_LANES == 8
#define PK_LINES_FIRST(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define PK_LINES_LAST(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define PK_LINES_EVEN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define PK_LINES_ODD(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define PK_LINES_FIRST(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define PK_LINES_LAST(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define PK_LINES_EVEN(a, b) (a)
#define PK_LINES_ODD(a, b) (b)
#endif
PK_DOT_INLINE pk_i32p pk_lines_add_pairs(pk_i32p a, pk_i32p b) {
  return pk_part_add_i32(PK_LINES_FIRST(a, b), PK_LINES_LAST(a, b));
}
PK_DOT_INLINE pk_i32p pk_lines_add_groups(pk_i32p a, pk_i32p b) {
  return pk_part_add_i32(PK_LINES_EVEN(a, b), PK_LINES_ODD(a, b));
}

/* Lane i of sum[g] becomes the sum of group g, of `lanes` lanes (4 or more), of each[i]. */
PK_DOT_INLINE void pk_lines_across_part(const int lanes, const pk_i32p each[PK_PART_LANES],
                                        pk_i32p sum[PK_PART_LANES / 4]) {
  int n = PK_PART_LANES / 4;
  PK_DOT_UNROLL for (int i = 0; i < PK_PART_LANES / 4; i++) {
    const pk_i32p *line = each + 4 * i;
    sum[i] = pk_lines_add_pairs(pk_lines_add_pairs(line[0], line[2]),
                                pk_lines_add_pairs(line[1], line[3]));
  }
  PK_DOT_UNROLL for (int of = lanes / 4; of > 1; of /= 2, n /= 2) {
    PK_DOT_UNROLL for (int i = 0; i < n / 2; i++) sum[i] =
        pk_lines_add_groups(sum[2 * i], sum[2 * i + 1]);
  }
#if PK_PART_LANES > 4
  if (n == 2) {
    const pk_i32p a = sum[0], b = sum[1];
    sum[0] = PK_LINES_EVEN(a, b), sum[1] = PK_LINES_ODD(a, b);
  }
#endif
#if PK_PART_LANES == 16
  if (n == 4) {
    const pk_i32p even = PK_LINES_EVEN(sum[0], sum[1]), odd = PK_LINES_ODD(sum[0], sum[1]),
                  even2 = PK_LINES_EVEN(sum[2], sum[3]), odd2 = PK_LINES_ODD(sum[2], sum[3]);
    sum[0] = PK_LINES_EVEN(even, even2), sum[1] = PK_LINES_EVEN(odd, odd2);
    sum[2] = PK_LINES_ODD(even, even2), sum[3] = PK_LINES_ODD(odd, odd2);
  }
#endif
}
/* The same for vectors. */
PK_DOT_INLINE void pk_lines_across(const int lanes, const pk_i32v each[PK_LANES],
                                   pk_i32v sum[PK_LANES / 4]) {
  const int parts = lanes > PK_PART_LANES ? lanes / PK_PART_LANES : 1, within = lanes / parts,
            groups = PK_PART_LANES / within;
  PK_DOT_UNROLL for (int h = 0; h < PK_PARTS; h += parts) {
    PK_DOT_UNROLL for (int c = 0; c < PK_PARTS; c++) {
      pk_i32p line[PK_PART_LANES], of_part[PK_PART_LANES / 4];
      PK_DOT_UNROLL for (int i = 0; i < PK_PART_LANES; i++) {
        line[i] = PK_PART(each[c * PK_PART_LANES + i], h);
        for (int more = 1; more < parts; more++)
          line[i] = pk_part_add_i32(line[i], PK_PART(each[c * PK_PART_LANES + i], h + more));
      }
      pk_lines_across_part(within, line, of_part);
      PK_DOT_UNROLL for (int g = 0; g < groups; g++) PK_PART(sum[h / parts * groups + g], c) =
          of_part[g];
    }
  }
}
/* Stores the sums of the groups of `lanes` lanes of each[i], which belong to consecutive batch
 * indices; `start` has the initial sum of each index. */
PK_DOT_INLINE void pk_lines_put(const int lanes, const pk_i32v each[PK_LANES], const int32_t *start,
                                int32_t *to, int64_t to_batch) {
  pk_i32v sum[PK_LANES / 4];
  pk_lines_across(lanes, each, sum);
  PK_DOT_UNROLL for (int j = 0; j < PK_LANES / lanes; j++)
      pk_store_i32(to + j * to_batch, pk_add_i32(sum[j], pk_splat_i32(start[j])));
}

/* Multiplies one row by lines of which a vector has `lanes` lanes for each batch index, and adds
 * the lanes, which takes half as long as transposing the lines. Returns the number of batch indices
 * it has completed. */
#define PK_DOT_ONE_LINE(T)                                                                       \
  PK_DOT_INLINE int64_t pk_lines_one_##T(const pk_lines_part *o, const int lanes, int64_t col) { \
    const pk_dot_lines p = *o->p;                                                                \
    const int64_t batches = o->batches, next = 4 * lanes;                                        \
    const char *b = (const char *)p.b + col * p.b_row + o->batch * p.b_batch,                    \
               *a = (const char *)p.a + o->row * p.a_row + o->batch * p.a_batch;                 \
    const int32_t *start = o->start[0];                                                          \
    int32_t *to = p.to + o->row * p.to_row + o->batch * p.to_batch + col;                        \
    const pk_i32v flip = pk_splat_i32(o->flip), zero = pk_splat_i32(0);                          \
    int64_t q = 0;                                                                               \
    if (o->rows != 1 || p.a_batch != next || p.cols - col < PK_LANES) return 0;                  \
    for (; q + PK_LANES / lanes <= batches; q += PK_LANES / lanes) {                             \
      const pk_i32v x = pk_dot_vector_at(a + next * q);                                          \
      pk_i32v each[PK_LANES];                                                                    \
      PK_DOT_UNROLL for (int i = 0; i < PK_LANES; i++) {                                         \
        const char *line = b + i * p.b_row + next * q;                                           \
        __builtin_prefetch(line + PK_LANES * p.b_row, 0, 2);                                     \
        each[i] = pk_dot_madd_##T(x, pk_xor_i32(pk_dot_vector_at(line), flip), zero);            \
      }                                                                                          \
      pk_lines_put(lanes, each, start + q, to + q * p.to_batch, p.to_batch);                     \
    }                                                                                            \
    return q;                                                                                    \
  }
PK_DOT_ONE_LINE(i8)
PK_DOT_ONE_LINE(u8)

/* T: is the left operand signed or unsigned? */
#define PK_DOT_LINES_OF(T, type)                                                                  \
  PK_DOT_INLINE void pk_lines_start_##T(pk_lines_part *o, int32_t factor) {                       \
    const pk_dot_lines *p = o->p;                                                                 \
    for (int64_t r = 0; r < o->rows; r++)                                                         \
      for (int64_t q = 0; q < o->batches; q++) {                                                  \
        const type *a =                                                                           \
            (const type *)p->a + (o->row + r) * p->a_row + (o->batch + q) * p->a_batch;           \
        int64_t sum = 0;                                                                          \
        for (int64_t k = 0; factor && k < p->k; k++) sum += a[k];                                 \
        o->start[r][q] = (int32_t)((uint32_t)sum * (uint32_t)factor);                             \
      }                                                                                           \
  }                                                                                               \
  /* A vector of bytes holds several indices, `step` words apart, of `words` words each. */       \
  PK_DOT_INLINE void pk_lines_joined_##T(const pk_lines_part *o, const int step, const int words, \
                                         const int64_t n, int64_t col) {                          \
    const pk_dot_lines p = *o->p;                                                                 \
    const char *b = (const char *)p.b + col * p.b_row + o->batch * p.b_batch;                     \
    const int64_t rows = o->rows, batches = o->batches;                                           \
    int64_t q = step == words ? pk_lines_one_##T(o, words, col) : 0;                              \
    for (; q < batches; q += PK_LANES / step) {                                                   \
      const int64_t left = batches - q, bytes = left > PK_LANES / step                            \
                                                    ? PK_LINES_LENGTH                             \
                                                    : (left - 1) * 4 * step + 4 * words;          \
      pk_i32v groups[PK_LANES];                                                                   \
      for (int64_t i = PK_LANES; i < 2 * PK_LANES && i < p.cols - col; i++)                       \
        __builtin_prefetch(b + i * p.b_row + q * p.b_batch, 0, 2);                                \
      pk_lines_transposed(groups, b + q * p.b_batch, p.b_row, n, bytes, o->flip);                 \
      PK_DOT_UNROLL for (int j = 0; j < PK_LANES / step; j++) {                                   \
        if (j >= left) break;                                                                     \
        const char *a = (const char *)p.a + o->row * p.a_row + (o->batch + q + j) * p.a_batch;    \
        int32_t *to = p.to + o->row * p.to_row + (o->batch + q + j) * p.to_batch + col;           \
        for (int64_t r = 0; r < rows; r++, a += p.a_row, to += p.to_row) {                        \
          pk_i32v sum = pk_splat_i32(o->start[r][q + j]);                                         \
          PK_DOT_UNROLL for (int w = 0; w < words; w++) sum =                                     \
              pk_dot_madd_##T(pk_dot_splat_##T(a + 4 * w), groups[j * step + w], sum);            \
          pk_storen_i32(to, sum, n);                                                              \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }                                                                                               \
  PK_DOT_INLINE void pk_lines_any_##T(const pk_lines_part *o, int64_t col) {                      \
    const pk_dot_lines *p = o->p;                                                                 \
    const int64_t n = p->cols - col;                                                              \
    for (int64_t q = 0; q < o->batches; q++)                                                      \
      for (int64_t at = 0; at == 0 || at < p->k; at += PK_LINES_LENGTH) {                         \
        const char *b = (const char *)p->b + col * p->b_row + (o->batch + q) * p->b_batch + at;   \
        pk_i32v groups[PK_LANES];                                                                 \
        pk_lines_transposed(groups, b, p->b_row, n, p->k - at, o->flip);                          \
        for (int64_t r = 0; r < o->rows; r++) {                                                   \
          char padded[PK_LINES_LENGTH];                                                           \
          const char *a = pk_lines_padded(                                                        \
              padded,                                                                             \
              (const char *)p->a + (o->row + r) * p->a_row + (o->batch + q) * p->a_batch + at,    \
              p->k - at);                                                                         \
          int32_t *to = p->to + (o->row + r) * p->to_row + (o->batch + q) * p->to_batch + col;    \
          pk_i32v sum = at ? pk_loadn_i32(to, n) : pk_splat_i32(o->start[r][q]);                  \
          PK_DOT_UNROLL for (int w = 0; w < PK_LANES; w++) sum =                                  \
              pk_dot_madd_##T(pk_dot_splat_##T(a + 4 * w), groups[w], sum);                       \
          pk_storen_i32(to, sum, n);                                                              \
        }                                                                                         \
      }                                                                                           \
  }                                                                                               \
  PK_DOT_INLINE void pk_lines_part_##T(const pk_lines_part *o, const int64_t n, int64_t col) {    \
    const int64_t k = o->p->k, next = o->p->b_batch;                                              \
    if (k == 16 && next == 16)                                                                    \
      pk_lines_joined_##T(o, 4, 4, n, col);                                                       \
    else if (k == 16 && next == 32 && PK_LANES >= 8)                                              \
      pk_lines_joined_##T(o, 8, 4, n, col);                                                       \
    else if (k == 32 && next == 32 && PK_LANES >= 8)                                              \
      pk_lines_joined_##T(o, 8, 8, n, col);                                                       \
    else                                                                                          \
      pk_lines_any_##T(o, col);                                                                   \
  }                                                                                               \
  PK_DOT_INLINE void pk_lines_##T(const pk_dot_lines *p, int32_t flip, int32_t factor) {          \
    pk_lines_part o = {.p = p, .flip = flip};                                                     \
    for (; o.row < p->rows; o.row += PK_LINES_ROWS) {                                             \
      o.rows = p->rows - o.row < PK_LINES_ROWS ? p->rows - o.row : PK_LINES_ROWS;                 \
      for (o.batch = 0; o.batch < p->batches; o.batch += PK_LINES_BATCHES) {                      \
        const int64_t left = p->batches - o.batch;                                                \
        o.batches = left < PK_LINES_BATCHES ? left : PK_LINES_BATCHES;                            \
        pk_lines_start_##T(&o, factor);                                                           \
        int64_t col = 0;                                                                          \
        for (; col + PK_LANES <= p->cols; col += PK_LANES) pk_lines_part_##T(&o, PK_LANES, col);  \
        if (col < p->cols) pk_lines_part_##T(&o, p->cols - col, col);                             \
      }                                                                                           \
    }                                                                                             \
  }
PK_DOT_LINES_OF(i8, int8_t)
PK_DOT_LINES_OF(u8, uint8_t)

#define PK_DOT_BYTE_LINES(T, left, flipped, factor)                                    \
  PK_DOT_OUTLINE void pk_dot_lines_##T(const pk_dot_lines *p) {                        \
    pk_lines_##left(p, (flipped) ? (int32_t)0x80808080 : 0, (flipped) ? (factor) : 0); \
  }
PK_DOT_BYTE_LINES(i8, i8, PK_DOT_UNLIKE, -128)
PK_DOT_BYTE_LINES(u8, u8, PK_DOT_UNLIKE, 128)
PK_DOT_BYTE_LINES(i8_u8, i8, !PK_DOT_UNLIKE, 128)
PK_DOT_BYTE_LINES(u8_i8, u8, !PK_DOT_UNLIKE, -128)

#endif /* PK_MICRO */
#endif
