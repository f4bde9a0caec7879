/* dot/product.h: declarations for the callers of micro-kernels of products and relayouts, which
 * are compiled with the caller (dot.h, pack.h) or linked to it (micro.h). */
#ifndef PK_DOT_PRODUCT_H
#define PK_DOT_PRODUCT_H

#include <pk/dot/regimes.h>
#include <pk/vec.h>
#include <string.h>

#define PK_DOT_INLINE PK_INLINE __attribute__((unused))
#define PK_DOT_OUTLINE static __attribute__((noinline, unused)) /* large: one copy per file */

/* A product of any size. Strides in bytes. */
typedef struct {
  int64_t rows, cols, k; /* any of them may be 0 */
  const void *a;
  int64_t lda;
  void *panels;       /* or NULL: none are kept (pk_dot_skinny_T) */
  int64_t depth;      /* of a panel, in elements */
  const void *source; /* f32, i32: the right operand by rows, when the panels are to be filled from
                         it; else NULL */
  int64_t ldsource;
  const void *from; /* the values that the sums continue, or NULL: they start from 0 */
  int64_t ldfrom;
  void *to;
  int64_t ldto;
  bool
      padded; /* rows of the result have room for whole panels, and so has what they are added to */
  bool near;  /* few rows: the source is cached */
  bool in_place; /* all rows read the source in place: pk_dot_is_small */
  void *scratch; /* PK_DOT_SCRATCH bytes for left rows, so that a large product can go panel by
                 panel; or NULL */
} pk_dot_product;

/* Products of bytes, one for each index of a batch axis (dot/lines.h). Strides of operands
 * in bytes, of the result in elements. */
typedef struct {
  int64_t batches, rows, cols, k; /* any of them may be 0 */
  const void *a;
  int64_t a_batch, a_row;
  const void *b;
  int64_t b_batch, b_row;
  int32_t *to;
  int64_t to_batch, to_row;
} pk_dot_lines;

/* What a byte of the right operand holds (dot/fields.h): `fields` elements of `bits` bits, from bit
 * `first` on. The value of an element is (field ^ flip) - bias. Field f of byte i is element
 * k_first + i * k_byte + f * k_field along k. */
typedef struct {
  int fields, bits, first; /* bits: 1 to 7 */
  int32_t flip, bias;
  int64_t k_first, k_byte, k_field;
} pk_dot_fields;
enum { PK_FIELDS_MOST = 512 }; /* elements along k */

/* Float sums are computed in parts of PK_DOT_LONG steps, each of which starts from 0 and is
 * added to the result, so that long sums stay accurate. A part of fewer than PK_DOT_APART steps
 * continues the result instead, because it would slow down short products. */
PK_DOT_INLINE bool pk_dot_is_apart(const void *from, int64_t steps) {
  return from && steps >= PK_DOT_APART;
}

/* Selects the part of a product with n rows, or columns, of the right operand, from `at` on,
 * which are now at the source's beginning. Elements of the left operand have `size` bytes. The
 * part from row 0 on starts the sums; later parts continue them. */
PK_DOT_INLINE pk_dot_product pk_dot_rows_of(const pk_dot_product *p, int64_t at, int64_t n,
                                            int64_t size) {
  pk_dot_product part = *p;
  part.k = n, part.a = (const char *)p->a + at * size;
  if (at) part.from = p->to, part.ldfrom = p->ldto;
  return part;
}
/* Initial sums: the values they are added to, or zeros. */
PK_DOT_INLINE void pk_dot_skinny_start(const pk_dot_product *p) {
  const size_t bytes = 4 * (size_t)p->cols;
  for (int64_t r = 0; r < p->rows && p->from != p->to; r++) {
    char *to = (char *)p->to + r * p->ldto;
    if (p->from)
      memcpy(to, (const char *)p->from + r * p->ldfrom, bytes);
    else
      memset(to, 0, bytes);
  }
}
/* n rows of the left operand. */
PK_DOT_INLINE pk_dot_product pk_dot_lines_of(const pk_dot_product *p, int64_t at, int64_t n) {
  pk_dot_product part = *p;
  part.rows = n, part.a = (const char *)p->a + at * p->lda;
  part.to = (char *)p->to + at * p->ldto;
  if (p->from) part.from = (const char *)p->from + at * p->ldfrom;
  return part;
}
PK_DOT_INLINE pk_dot_product pk_dot_columns_of(const pk_dot_product *p, int64_t at, int64_t n) {
  pk_dot_product part = *p;
  part.cols = n, part.to = (char *)p->to + 4 * at;
  if (p->from) part.from = (const char *)p->from + 4 * at;
  return part;
}

/* The maximum number of columns that are multiplied separately: half a panel multiplies as many as
 * a vector has lanes. */
#define PK_DOT_TAIL (PK_LANES / 2)

PK_REGIMES_OF_SIZES(PK_REGIME_FUNCTION)
PK_REGIMES_OF_OPERANDS(PK_REGIME_FUNCTION)

/* The number of columns that are multiplied separately. With fewer rows than a vector has lanes,
 * arranging them takes as long as multiplying them; but if all rows read the operand in place,
 * there is no panel for them. */
PK_DOT_INLINE int64_t pk_dot_tail_columns(const pk_dot_product *p) {
  const int64_t tail = p->cols % PK_LANES;
  return pk_dot_is_tail(p->rows, tail) || (p->in_place && tail <= PK_DOT_TAIL) ? tail : 0;
}

/* What can be packed: kind, dtype, element of the source, element of the result, and whether the
 * lanes of the result are f32 or i32. */
#define PK_PACK_DTYPES(X)                              \
  X(F32, f32, float, float, f32)                       \
  X(BF16, bf16, uint16_t, float, f32)                  \
  X(F16, f16, uint16_t, float, f32)                    \
  X(F8E4M3FN, f8e4m3fn, uint8_t, float, f32)           \
  X(F8E5M2, f8e5m2, uint8_t, float, f32)               \
  X(F8E4M3B11FNUZ, f8e4m3b11fnuz, uint8_t, float, f32) \
  X(F8E4M3FNUZ, f8e4m3fnuz, uint8_t, float, f32)       \
  X(F8E5M2FNUZ, f8e5m2fnuz, uint8_t, float, f32)       \
  X(F4E2M1FN, f4e2m1fn, uint8_t, float, f32)           \
  X(I8_F32, i8_f32, int8_t, float, f32)                \
  X(U8_F32, u8_f32, uint8_t, float, f32)               \
  X(I8_BF16, i8_bf16, int8_t, uint16_t, i32)           \
  X(U8_BF16, u8_bf16, uint8_t, uint16_t, i32)          \
  X(I32, i32, int32_t, int32_t, i32)                   \
  X(I16, i16, int16_t, int16_t, i32)                   \
  X(I8, i8, int8_t, int16_t, i32)                      \
  X(U8, u8, uint8_t, int16_t, i32)                     \
  X(I4, i4, uint8_t, int16_t, i32)                     \
  X(U4, u4, uint8_t, int16_t, i32)                     \
  X(I2, i2, uint8_t, int16_t, i32)                     \
  X(U2, u2, uint8_t, int16_t, i32)

#endif
