/* dot/fields.h: products of bytes with fields of bytes, for each index of a batch axis, in i32;
 * sums wrap. A byte of the right operand holds several elements, in fields of a few bits. All else
 * is as in dot/lines.h.
 *
 *   pk_dot_fields_T(p, f)    T is the dtype of the left operand: i8 or u8
 *
 * A vector of bytes is shifted and masked once for each field. Fields are below 128, so they are
 * signed and unsigned bytes alike, and every instruction takes them. The elements of the left
 * operand are copied first, in the order of the fields: for each vector of a line, one vector for
 * each field.
 */
#ifndef PK_DOT_FIELDS_H
#define PK_DOT_FIELDS_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/dot/lines.h>

/* Rows and bytes of the left operand that are copied at once. The bytes suffice for PK_FIELDS_MOST
 * elements along k. */
enum { PK_FIELDS_ROWS = 16, PK_FIELDS_LEFT = 16384 };

/* A part of the product: `rows` rows from `row` on, `batches` indices from `batch` on. */
typedef struct {
  const pk_dot_lines *p;
  const pk_dot_fields *f;
  int64_t row, rows, batch, batches;
  int64_t bytes;   /* of a line, for each index */
  int64_t vectors; /* of a line, for all indices of the part */
  bool joined;     /* a vector contains several indices */
  int32_t *start;  /* [rows][batches] */
  char *left;      /* [rows][vectors][fields][PK_VEC_BYTES] */
} pk_fields_part;

/* What selects fields, the same in all bytes of a vector. */
typedef struct {
  int bits, first;
  pk_i32v mask, flip;
} pk_fields_lanes;
PK_DOT_INLINE pk_fields_lanes pk_fields_lanes_of(const pk_dot_fields *f) {
  const int32_t each = 0x01010101;
  return (pk_fields_lanes){.bits = f->bits,
                           .first = f->first,
                           .mask = pk_splat_i32(each * ((1 << f->bits) - 1)),
                           .flip = pk_splat_i32(each * f->flip)};
}
/* Field k of each byte. bits: 0, or known to the compiler, and the first field starts at bit 0. */
PK_DOT_INLINE pk_i32v pk_fields_of(const pk_fields_lanes *f, const int bits, pk_i32v v, int k) {
  v = pk_shift_right_unsigned(v, bits ? bits * k : f->first + f->bits * k);
  return pk_xor_i32(pk_and_i32(v, f->mask), f->flip);
}

PK_DOT_INLINE void pk_fields_copy(char *to, const char *from, int64_t step, int64_t n) {
  int64_t i = 0;
  for (; step == 1 && i + 16 <= n; i += 16) memcpy(to + i, from + i, 16);
  for (; i < n; i++) to[i] = from[i * step];
}
/* Copies the left elements of a row. */
PK_DOT_INLINE void pk_fields_arrange(const pk_fields_part *o, char *to, const char *a) {
  const pk_dot_fields *f = o->f;
  const int64_t length = o->joined ? o->bytes : o->vectors / o->batches * PK_VEC_BYTES;
  for (int64_t q = 0; q < o->batches; q++, a += o->p->a_batch)
    for (int64_t at = 0; at < o->bytes; at += PK_VEC_BYTES) {
      const int64_t place = q * length + at, left = o->bytes - at,
                    n = left < PK_VEC_BYTES ? left : PK_VEC_BYTES;
      char *vector = to + place / PK_VEC_BYTES * f->fields * PK_VEC_BYTES + place % PK_VEC_BYTES;
      for (int k = 0; k < f->fields; k++)
        pk_fields_copy(vector + k * PK_VEC_BYTES, a + f->k_first + at * f->k_byte + k * f->k_field,
                       f->k_byte, n);
    }
}

/* `fields` and `bits` are those of o->f, or `bits` is 0; a vector has `lanes` lanes for each index.
 */
#define PK_DOT_FIELDS_OF(T, type)                                                                  \
  PK_DOT_INLINE void pk_fields_left_##T(const pk_fields_part *o) {                                 \
    const pk_dot_lines *p = o->p;                                                                  \
    const int64_t bytes = o->vectors * o->f->fields * PK_VEC_BYTES;                                \
    memset(o->left, 0, (size_t)(o->rows * bytes));                                                 \
    for (int64_t r = 0; r < o->rows; r++) {                                                        \
      const type *a = (const type *)p->a + (o->row + r) * p->a_row + o->batch * p->a_batch;        \
      pk_fields_arrange(o, o->left + r * bytes, (const char *)a);                                  \
      for (int64_t q = 0; q < o->batches; q++, a += p->a_batch) {                                  \
        int32_t sum = 0;                                                                           \
        for (int64_t k = 0; o->f->bias && k < p->k; k++) sum += a[k];                              \
        o->start[r * o->batches + q] = -o->f->bias * sum;                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  /* One row: the lanes of the products are added, which takes half as long as transposing.        \
   * Returns the number of batch indices it has completed: those of whole vectors. */              \
  PK_DOT_INLINE int64_t pk_fields_one_##T(const pk_fields_part *o, const int fields,               \
                                          const int bits, const int lanes, int64_t col) {          \
    const pk_dot_lines p = *o->p;                                                                  \
    const pk_fields_lanes f = pk_fields_lanes_of(o->f);                                            \
    const int64_t count = PK_LANES / lanes, end = count * o->bytes, batches = o->batches;          \
    const char *b = (const char *)p.b + col * p.b_row + o->batch * p.b_batch, *left = o->left;     \
    const int32_t *start = o->start;                                                               \
    int32_t *to = p.to + o->row * p.to_row + o->batch * p.to_batch + col;                          \
    int64_t q = 0;                                                                                 \
    for (; o->rows == 1 && end % PK_VEC_BYTES == 0 && q + count <= batches; q += count) {          \
      pk_i32v each[PK_LANES];                                                                      \
      PK_DOT_UNROLL for (int i = 0; i < PK_LANES; i++) each[i] = pk_splat_i32(0);                  \
      for (int64_t at = 0; count > 1 ? at < 1 : at < end; at += PK_VEC_BYTES) {                    \
        PK_DOT_UNROLL for (int i = 0; i < PK_LANES; i++) {                                         \
          const char *line = b + q * p.b_batch + at + i * p.b_row;                                 \
          const pk_i32v v = pk_dot_vector_at(line);                                                \
          __builtin_prefetch(line + PK_LANES * p.b_row, 0, 2);                                     \
          PK_DOT_UNROLL for (int k = 0; k < fields; k++) each[i] = pk_dot_madd_##T(                \
              pk_dot_vector_at(left + k * PK_VEC_BYTES), pk_fields_of(&f, bits, v, k), each[i]);   \
        }                                                                                          \
        left += fields * PK_VEC_BYTES;                                                             \
      }                                                                                            \
      pk_lines_put(lanes, each, start + q, to + q * p.to_batch, p.to_batch);                       \
    }                                                                                              \
    return q;                                                                                      \
  }                                                                                                \
  /* Several rows, from batch index q on: a vector of transposed lines has 4 bytes of each. */     \
  PK_DOT_INLINE void pk_fields_several_##T(const pk_fields_part *o, const int fields,              \
                                           const int bits, const int lanes, const int64_t n,       \
                                           int64_t col, int64_t q) {                               \
    const pk_dot_lines p = *o->p;                                                                  \
    const pk_fields_lanes f = pk_fields_lanes_of(o->f);                                            \
    const int64_t left_row = o->vectors * fields * PK_VEC_BYTES, batches = o->batches,             \
                  count = PK_LANES / lanes;                                                        \
    const char *b = (const char *)p.b + col * p.b_row + o->batch * p.b_batch,                      \
               *left = o->left + o->vectors / ((batches + count - 1) / count) * (q / count) *      \
                                     fields * PK_VEC_BYTES;                                        \
    for (; q < batches; q += count) {                                                              \
      const int64_t there = batches - q < count ? batches - q : count, end = there * o->bytes;     \
      for (int64_t at = 0; at < end; at += PK_VEC_BYTES, left += fields * PK_VEC_BYTES) {          \
        const int64_t words = end - at < PK_VEC_BYTES ? (end - at + 3) / 4 : PK_LANES;             \
        const char *source = b + q * p.b_batch + at;                                               \
        pk_i32v groups[PK_LANES];                                                                  \
        for (int64_t i = PK_LANES; i < 2 * PK_LANES && i < p.cols - col; i++)                      \
          __builtin_prefetch(source + i * p.b_row, 0, 2);                                          \
        pk_lines_transposed(groups, source, p.b_row, n, end - at, 0);                              \
        for (int64_t j = 0; j < there; j++) {                                                      \
          pk_i32v of[8][PK_LANES];                                                                 \
          const int32_t *start = o->start + q + j;                                                 \
          const char *a = left + 4 * j * lanes;                                                    \
          int32_t *to = p.to + o->row * p.to_row + (o->batch + q + j) * p.to_batch + col;          \
          for (int k = 0; k < fields; k++)                                                         \
            PK_DOT_UNROLL for (int w = 0; w < lanes; w++) of[k][w] =                               \
                pk_fields_of(&f, bits, groups[j * lanes + w], k);                                  \
          for (int64_t r = 0; r < o->rows; r++, a += left_row, start += batches, to += p.to_row) { \
            pk_i32v sum = at ? pk_loadn_i32(to, n) : pk_splat_i32(*start);                         \
            PK_DOT_UNROLL for (int k = 0; k < fields; k++) {                                       \
              if (lanes < PK_LANES)                                                                \
                PK_DOT_UNROLL for (int w = 0; w < lanes; w++) sum = pk_dot_madd_##T(               \
                    pk_dot_splat_##T(a + k * PK_VEC_BYTES + 4 * w), of[k][w], sum);                \
              else                                                                                 \
                for (int w = 0; w < words; w++)                                                    \
                  sum = pk_dot_madd_##T(pk_dot_splat_##T(a + k * PK_VEC_BYTES + 4 * w), of[k][w],  \
                                        sum);                                                      \
            }                                                                                      \
            pk_storen_i32(to, sum, n);                                                             \
          }                                                                                        \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  /* The last columns are computed with some before them, again. */                                \
  PK_DOT_INLINE void pk_fields_columns_##T(const pk_fields_part *o, const int lanes) {             \
    const int64_t cols = o->p->cols;                                                               \
    for (int64_t next = 0; next < cols; next += PK_LANES) {                                        \
      const int64_t col = next + PK_LANES <= cols ? next : cols - PK_LANES,                        \
                    q = pk_fields_one_##T(o, 2, 4, lanes, col);                                    \
      pk_fields_several_##T(o, 2, 4, lanes, PK_LANES, col, q);                                     \
    }                                                                                              \
  }                                                                                                \
  PK_DOT_OUTLINE void pk_dot_fields_##T(const pk_dot_lines *p, const pk_dot_fields *f) {           \
    char left[PK_FIELDS_LEFT];                                                                     \
    int32_t start[PK_FIELDS_LEFT / 16];                                                            \
    pk_fields_part o = {.p = p, .f = f, .bytes = p->k / f->fields, .left = left, .start = start};  \
    const bool halves = f->fields == 2 && f->bits == 4 && !f->first && p->cols >= PK_LANES;        \
    o.joined = halves && p->b_batch == 16 && o.bytes == 16 && PK_LANES > 4;                        \
    const int64_t together = o.joined ? PK_VEC_BYTES / o.bytes : 1,                                \
                  vectors = o.joined ? 1 : (o.bytes + PK_VEC_BYTES - 1) / PK_VEC_BYTES;            \
    for (; o.row < p->rows; o.row += PK_FIELDS_ROWS) {                                             \
      o.rows = p->rows - o.row < PK_FIELDS_ROWS ? p->rows - o.row : PK_FIELDS_ROWS;                \
      const int64_t most =                                                                         \
          together * (PK_FIELDS_LEFT / (o.rows * f->fields * vectors * PK_VEC_BYTES));             \
      for (o.batch = 0; o.batch < p->batches; o.batch += most) {                                   \
        o.batches = p->batches - o.batch < most ? p->batches - o.batch : most;                     \
        o.vectors = vectors * ((o.batches + together - 1) / together);                             \
        pk_fields_left_##T(&o);                                                                    \
        if (o.joined)                                                                              \
          pk_fields_columns_##T(&o, 4);                                                            \
        else if (halves)                                                                           \
          pk_fields_columns_##T(&o, PK_LANES);                                                     \
        else                                                                                       \
          for (int64_t col = 0; col < p->cols; col += PK_LANES)                                    \
            pk_fields_several_##T(&o, f->fields, 0, PK_LANES, p->cols - col, col, 0);              \
      }                                                                                            \
    }                                                                                              \
  }
PK_DOT_FIELDS_OF(i8, int8_t)
PK_DOT_FIELDS_OF(u8, uint8_t)

#endif /* PK_MICRO */
#endif
