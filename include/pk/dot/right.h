/* dot/right.h: skinny products whose right operand is computed by the kernel's loops. Its vectors
 * are multiplied while they are in registers. A vector has PK_LANES columns of a row, or of two
 * rows in pairs of bf16; if the operand is transposed, it has PK_LANES elements along k.
 *
 *   pk_dot_right_T(p, rows, at, count, right, steps, vectors, column, n)
 *       multiplies `steps` rows of `vectors` vectors of the right operand, from its row `at` on,
 *       and adds the products to the sums from `column` on; the last vector has n columns, and
 *       `count` rows remain
 *   pk_dot_factors_T(p, row, k), pk_dot_some_factors_T(p, row, k, n)
 *       a vector of a left row, or n elements of it and zeros
 *   pk_dot_pair_bf16(even, odd), pk_dot_run_bf16(first, second)
 *       two vectors of f32 rounded to bf16: interleaved in pairs, or concatenated
 *   pk_dot_madd_T(x, b, sum)
 *   pk_dot_put_transposed(p, sum, lines, height, line, row, rows)
 *       adds the lanes of sums to the result
 *
 *   pk_dot_right_begin(p, part, sums, ld, at, unit), pk_dot_right_end(p, part)
 *       begins and ends a part of k, whose sums are in `part`, or in `sums` if the part is long
 *
 * T is f32 or bf16. Like every product of bf16 in pairs (dot/bf16.h), they may take subnormal
 * elements as zero.
 */
#ifndef PK_DOT_RIGHT_H
#define PK_DOT_RIGHT_H

#include <pk/dot/product.h>
#include <pk/reduce.h>
#include <pk/scalar.h>

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && defined(__aarch64__) && \
    !defined(SIMDE_NO_NATIVE) && !defined(__ARM_BIG_ENDIAN) && PK_VEC_BYTES == 16
#define PK_DOT_BFDOT 1
#endif

PK_DOT_INLINE pk_f32v pk_dot_load_bf16(const char *p) {
  return pk_bitcast_i32_f32(pk_load_raw32(p));
}
PK_DOT_INLINE pk_f32v pk_dot_splat_bf16(const char *p) {
  int32_t x;
  memcpy(&x, p, 4);
  return pk_bitcast_i32_f32(pk_splat_i32(x));
}
PK_DOT_INLINE pk_f32v pk_dot_madd_bf16(pk_f32v x, pk_f32v b, pk_f32v sum) {
#if PK_PART_BYTES == 64 && defined(__AVX512BF16__)
  return (pk_f32v)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)b);
#elif defined(PK_DOT_BFDOT)
  return (pk_f32v)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)x, (bfloat16x8_t)b);
#else
  const pk_i32v two = pk_bitcast_f32_i32(x), by = pk_bitcast_f32_i32(b),
                high = pk_splat_i32((int32_t)0xffff0000);
  sum = pk_fma_fast_f32(pk_bitcast_i32_f32(pk_and_i32(two, high)),
                        pk_bitcast_i32_f32(pk_and_i32(by, high)), sum);
  return pk_fma_fast_f32(pk_bitcast_i32_f32(pk_shift_left(two, 16)),
                         pk_bitcast_i32_f32(pk_shift_left(by, 16)), sum);
#endif
}
PK_DOT_INLINE pk_f32v pk_dot_madd_f32(pk_f32v x, pk_f32v b, pk_f32v sum) {
  return pk_fma_fast_f32(x, b, sum);
}

PK_DOT_INLINE pk_f32v pk_dot_pair_bf16(pk_f32v even, pk_f32v odd) {
#if PK_PART_BYTES == 64 && defined(__AVX512BF16__)
  static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return (pk_f32v)_mm512_permutexvar_epi16(_mm512_loadu_si512(order),
                                           (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even));
#else
  return pk_bitcast_i32_f32(pk_or_i32(pk_upper_half(even), pk_bitcast_f32_i32(pk_round_bf16(odd))));
#endif
}
PK_DOT_INLINE pk_f32v pk_dot_run_bf16(pk_f32v first, pk_f32v second) {
#if PK_PART_BYTES == 64 && defined(__AVX512BF16__)
  return (pk_f32v)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
#else
  uint16_t run[2 * PK_LANES];
  pk_store_bf16(run, first);
  pk_store_bf16(run + PK_LANES, second);
  return pk_dot_load_bf16((const char *)run);
#endif
}

/* The elements of a left row at `at`, in every lane; `left` elements remain. */
PK_DOT_INLINE pk_f32v pk_dot_left_f32(const char *row, int64_t at, int64_t count) {
  (void)count;
  return pk_splat_f32(((const float *)(const void *)row)[at]);
}
PK_DOT_INLINE pk_f32v pk_dot_left_bf16(const char *row, int64_t at, int64_t count) {
  uint16_t last;
  if (count > 1) return pk_dot_splat_bf16(row + 2 * at);
  memcpy(&last, row + 2 * at, 2);
  return pk_bitcast_i32_f32(pk_splat_i32(last));
}

#define PK_DOT_RIGHT(T, madd, unit)                                                            \
  PK_DOT_INLINE void pk_dot_right_##T(const pk_dot_product *p, int64_t rows, int64_t at,       \
                                      int64_t count, const pk_f32v *right, const int steps,    \
                                      const int vectors, int64_t column, int64_t n) {          \
    const char *a = p->a;                                                                      \
    float *to = (float *)p->to + column;                                                       \
    for (int64_t r = 0; r < rows; r++, a += p->lda, to += p->ldto / 4) {                       \
      pk_f32v sum[4];                                                                          \
      PK_UNROLL for (int v = 0; v < vectors; v++) sum[v] = pk_loadn_f32(to + v * PK_LANES, n); \
      PK_UNROLL for (int s = 0; s < steps; s++) {                                              \
        const pk_f32v x = pk_dot_left_##T(a, at + s * unit, count - s * unit);                 \
        PK_UNROLL for (int v = 0; v < vectors; v++) sum[v] =                                   \
            madd(x, right[s * vectors + v], sum[v]);                                           \
      }                                                                                        \
      PK_UNROLL for (int v = 0; v < vectors; v++) pk_storen_f32(to + v * PK_LANES, sum[v], n); \
    }                                                                                          \
  }
PK_DOT_RIGHT(f32, pk_dot_madd_f32, 1)
PK_DOT_RIGHT(bf16, pk_dot_madd_bf16, 2)

/* Adds the sums of a part to the total of earlier parts. */
PK_DOT_INLINE void pk_dot_right_end(const pk_dot_product *p, const pk_dot_product *part) {
  for (int64_t r = 0; r < p->rows && part->to != p->to; r++) {
    float *to = (float *)p->to + r * (p->ldto / 4);
    const float *from = (const float *)part->to + r * (part->ldto / 4);
    for (int64_t n = 0; n < p->cols; n += PK_LANES) {
      const int64_t count = p->cols - n < PK_LANES ? p->cols - n : PK_LANES;
      pk_storen_f32(to + n, pk_add_f32(pk_loadn_f32(to + n, count), pk_loadn_f32(from + n, count)),
                    count);
    }
  }
}
/* Ends the previous part, if there is one. `at`: the first element of the part along k; a step has
 * `unit` elements. */
PK_DOT_INLINE void pk_dot_right_begin(const pk_dot_product *p, pk_dot_product *part, float *sums,
                                      int64_t ld, int64_t at, int64_t unit) {
  const int64_t left = (p->k - at) / unit, steps = left < PK_DOT_LONG ? left : PK_DOT_LONG;
  const bool apart = pk_dot_is_apart(at ? p->to : p->from, steps);
  if (at) pk_dot_right_end(p, part);
  *part = *p;
  if (apart) part->to = (char *)sums, part->ldto = 4 * ld, part->from = NULL;
  if (apart) pk_dot_skinny_start(part);
  part->from = part->to, part->ldfrom = part->ldto;
}

#define PK_DOT_ROW_OF(p, row) ((const char *)(p)->a + (row) * (p)->lda)
PK_DOT_INLINE pk_f32v pk_dot_factors_f32(const pk_dot_product *p, int64_t row, int64_t k) {
  return pk_load_f32((const float *)(const void *)PK_DOT_ROW_OF(p, row) + k);
}
PK_DOT_INLINE pk_f32v pk_dot_some_factors_f32(const pk_dot_product *p, int64_t row, int64_t k,
                                              int64_t n) {
  return pk_loadn_f32((const float *)(const void *)PK_DOT_ROW_OF(p, row) + k, n);
}
PK_DOT_INLINE pk_f32v pk_dot_factors_bf16(const pk_dot_product *p, int64_t row, int64_t k) {
  return pk_dot_load_bf16(PK_DOT_ROW_OF(p, row) + 2 * k);
}
PK_DOT_INLINE pk_f32v pk_dot_some_factors_bf16(const pk_dot_product *p, int64_t row, int64_t k,
                                               int64_t n) {
  uint16_t run[2 * PK_LANES] = {0};
  memcpy(run, PK_DOT_ROW_OF(p, row) + 2 * k, 2 * (size_t)(n < 2 * PK_LANES ? n : 2 * PK_LANES));
  return pk_dot_load_bf16((const char *)run);
}
#undef PK_DOT_ROW_OF

/* Of two vectors: the lanes of n, or those after them, alternately. */
#if PK_PART_LANES == 16
#define PK_DOT_FIRST_8(a, b) \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define PK_DOT_LAST_8(a, b) \
  __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define PK_DOT_FIRST_4(a, b) \
  __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define PK_DOT_LAST_4(a, b) \
  __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define PK_DOT_FIRST_2(a, b) \
  __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define PK_DOT_LAST_2(a, b) \
  __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define PK_DOT_FIRST_1(a, b) \
  __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define PK_DOT_LAST_1(a, b) \
  __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#define PK_DOT_ACROSS_8(add) PK_DOT_ACROSS_STAGE(8, add) PK_DOT_ACROSS_4(add)
#elif PK_PART_LANES == 8
#define PK_DOT_FIRST_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define PK_DOT_LAST_4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define PK_DOT_FIRST_2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define PK_DOT_LAST_2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define PK_DOT_FIRST_1(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define PK_DOT_LAST_1(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#else
#define PK_DOT_FIRST_2(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define PK_DOT_LAST_2(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define PK_DOT_FIRST_1(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define PK_DOT_LAST_1(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#endif
#define PK_DOT_ACROSS_STAGE(n, add)               \
  PK_UNROLL for (int i = 0; i < n; i++) rows[i] = \
      add(PK_DOT_FIRST_##n(rows[i], rows[i + n]), PK_DOT_LAST_##n(rows[i], rows[i + n]));
#define PK_DOT_ACROSS_4(add) PK_DOT_ACROSS_STAGE(4, add) PK_DOT_ACROSS_2(add)
#define PK_DOT_ACROSS_2(add) PK_DOT_ACROSS_STAGE(2, add) PK_DOT_ACROSS_STAGE(1, add)
#if PK_PART_LANES == 16
#define PK_DOT_ACROSS_ALL PK_DOT_ACROSS_8
#elif PK_PART_LANES == 8
#define PK_DOT_ACROSS_ALL PK_DOT_ACROSS_4
#else
#define PK_DOT_ACROSS_ALL PK_DOT_ACROSS_2
#endif

/* Sums over lanes, in the order of pk_reduce_add_T: the part of a vector that is the sum of its
 * parts; lane i is the sum of the lanes of rows[i]; the same, added to `cols` elements. */
#define PK_DOT_ACROSS(T, vector, part, add)                                                        \
  PK_DOT_INLINE part pk_dot_fold_##T(vector v) {                                                   \
    PK_UNROLL for (int n = PK_PARTS / 2; n > 0; n /= 2) {                                          \
      PK_UNROLL for (int i = 0; i < n; i++) PK_PART(v, i) = add(PK_PART(v, i), PK_PART(v, i + n)); \
    }                                                                                              \
    return PK_PART(v, 0);                                                                          \
  }                                                                                                \
  PK_DOT_INLINE part pk_dot_across_##T(part rows[PK_PART_LANES]) {                                 \
    PK_DOT_ACROSS_ALL(add)                                                                         \
    return rows[0];                                                                                \
  }                                                                                                \
  PK_DOT_INLINE void pk_dot_put_across_##T(part rows[PK_PART_LANES], int64_t cols, char *to) {     \
    part sum = {0};                                                                                \
    const size_t bytes = cols < PK_PART_LANES ? 4 * (size_t)cols : sizeof sum;                     \
    memcpy(&sum, to, bytes);                                                                       \
    sum = add(pk_dot_across_##T(rows), sum);                                                       \
    memcpy(to, &sum, bytes);                                                                       \
  }
PK_DOT_ACROSS(f32, pk_f32v, pk_f32p, pk_part_add)
PK_DOT_ACROSS(i32, pk_i32v, pk_i32p, pk_part_add_i32)

/* Adds sums over lanes to the result: `lines` rows from `line` on, and `rows` columns from `row`
 * on, as far as these exist. */
PK_DOT_INLINE void pk_dot_put_transposed(const pk_dot_product *p, const pk_f32v *sum,
                                         const int lines, const int height, int64_t line,
                                         int64_t row, int64_t rows) {
  const int n = lines * height;
  float added[16];
  int i = 0;
  PK_UNROLL for (; i + PK_PART_LANES <= n; i += PK_PART_LANES) {
    pk_f32p part[PK_PART_LANES];
    PK_UNROLL for (int j = 0; j < PK_PART_LANES; j++) part[j] = pk_dot_fold_f32(sum[i + j]);
    const pk_f32p all = pk_dot_across_f32(part);
    memcpy(added + i, &all, sizeof all);
  }
  PK_UNROLL for (; i < n; i++) added[i] = pk_reduce_add_f32(sum[i]);
  for (int m = 0; m < lines && line + m < p->rows; m++) {
    float *to = (float *)p->to + (line + m) * (p->ldto / 4) + row;
    for (int r = 0; r < height && row + r < rows; r++) to[r] += added[m * height + r];
  }
}

#endif
