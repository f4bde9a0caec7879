/* vec/across.h: reductions over the lanes of a vector, transposes. Included by vec.h only. */
#ifndef PK_VEC_ACROSS_H
#define PK_VEC_ACROSS_H

/* Lane k receives lane k ^ N of its part. */
#if PK_PART_LANES == 16
#define PK_PARTNER_8(v) \
  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define PK_PARTNER_4(v) \
  __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define PK_PARTNER_2(v) \
  __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define PK_PARTNER_1(v) \
  __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define PK_FOLD_PART(v, op)                                                           \
  v = op(v, PK_PARTNER_8(v)), v = op(v, PK_PARTNER_4(v)), v = op(v, PK_PARTNER_2(v)), \
  v = op(v, PK_PARTNER_1(v))
#elif PK_PART_LANES == 8
#define PK_PARTNER_4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define PK_PARTNER_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define PK_PARTNER_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#define PK_FOLD_PART(v, op) \
  v = op(v, PK_PARTNER_4(v)), v = op(v, PK_PARTNER_2(v)), v = op(v, PK_PARTNER_1(v))
#else
#define PK_PARTNER_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define PK_PARTNER_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#define PK_FOLD_PART(v, op) v = op(v, PK_PARTNER_2(v)), v = op(v, PK_PARTNER_1(v))
#endif

/* Lanes k and k + PK_LANES / 2 first, then halves of that, in this order on every machine. */
#define PK_REDUCE(name, type, vector, op)                                                         \
  PK_INLINE type name(vector v) {                                                                 \
    PK_UNROLL for (int n = PK_PARTS / 2; n > 0; n /= 2) {                                         \
      PK_UNROLL for (int k = 0; k < n; k++) PK_PART(v, k) = op(PK_PART(v, k), PK_PART(v, k + n)); \
    }                                                                                             \
    PK_FOLD_PART(PK_PART(v, 0), op);                                                              \
    return (type)PK_PART(v, 0)[0];                                                                \
  }
PK_REDUCE(pk_reduce_add_f32, float, pk_f32v, pk_part_add)
PK_REDUCE(pk_reduce_mul_f32, float, pk_f32v, pk_part_mul)
PK_REDUCE(pk_reduce_max_f32, float, pk_f32v, pk_part_max)
PK_REDUCE(pk_reduce_min_f32, float, pk_f32v, pk_part_min)
PK_REDUCE(pk_reduce_add_i32, int32_t, pk_i32v, pk_part_add_i32)
PK_REDUCE(pk_reduce_mul_i32, int32_t, pk_i32v, pk_part_mul_i32)
PK_REDUCE(pk_reduce_max_i32, int32_t, pk_i32v, pk_part_max_i32)
PK_REDUCE(pk_reduce_min_i32, int32_t, pk_i32v, pk_part_min_i32)
PK_REDUCE(pk_reduce_add_u32, uint32_t, pk_i32v, pk_part_add_i32)
PK_REDUCE(pk_reduce_mul_u32, uint32_t, pk_i32v, pk_part_mul_i32)
PK_REDUCE(pk_reduce_max_u32, uint32_t, pk_i32v, pk_part_max_u32)
PK_REDUCE(pk_reduce_min_u32, uint32_t, pk_i32v, pk_part_min_u32)
PK_INLINE bool pk_reduce_and_mask(pk_mask m) { return pk_all(m); }
PK_INLINE bool pk_reduce_or_mask(pk_mask m) { return pk_any(m); }
PK_INLINE bool pk_reduce_xor_mask(pk_mask m) { return __builtin_parity(pk_mask_bits(m)); }

/* Rows become columns, in place. Each stage shuffles row k with row k + PK_LANES / 2. */
#if PK_PARTS > 1
PK_INLINE void pk_transpose_f32(pk_f32v rows[PK_LANES]) {
  int32_t block[PK_LANES][PK_LANES], transposed[PK_LANES][PK_LANES];
  for (int i = 0; i < PK_LANES; i++) pk_store_raw32(block[i], pk_bitcast_f32_i32(rows[i]));
  for (int i = 0; i < PK_LANES; i++)
    for (int k = 0; k < PK_LANES; k++) transposed[i][k] = block[k][i];
  for (int i = 0; i < PK_LANES; i++) rows[i] = pk_bitcast_i32_f32(pk_load_raw32(transposed[i]));
}
#elif PK_VEC_BYTES == 64
PK_INLINE void pk_interleave_rows(pk_f32v to[16], const pk_f32v from[16]) {
  PK_UNROLL for (int k = 0; k < 8; k++) {
    to[2 * k] = __builtin_shufflevector(from[k], from[k + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                        21, 6, 22, 7, 23);
    to[2 * k + 1] = __builtin_shufflevector(from[k], from[k + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                            28, 13, 29, 14, 30, 15, 31);
  }
}
PK_INLINE void pk_transpose_f32(pk_f32v rows[16]) {
  pk_f32v other[16];
  pk_interleave_rows(other, rows);
  pk_interleave_rows(rows, other);
  pk_interleave_rows(other, rows);
  pk_interleave_rows(rows, other);
}
#elif PK_VEC_BYTES == 32
/* Halves are swapped first, since AVX2 shuffles within them. */
PK_INLINE void pk_interleave_rows(pk_f32v to[4], const pk_f32v from[4]) {
  PK_UNROLL for (int k = 0; k < 2; k++) {
    to[2 * k] = __builtin_shufflevector(from[k], from[k + 2], 0, 8, 1, 9, 4, 12, 5, 13);
    to[2 * k + 1] = __builtin_shufflevector(from[k], from[k + 2], 2, 10, 3, 11, 6, 14, 7, 15);
  }
}
PK_INLINE void pk_transpose_f32(pk_f32v rows[8]) {
  pk_f32v first[8], second[8];
  PK_UNROLL for (int k = 0; k < 4; k++) {
    first[k] = __builtin_shufflevector(rows[k], rows[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    first[k + 4] = __builtin_shufflevector(rows[k], rows[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  pk_interleave_rows(second, first);
  pk_interleave_rows(second + 4, first + 4);
  pk_interleave_rows(rows, second);
  pk_interleave_rows(rows + 4, second + 4);
}
#else
PK_INLINE void pk_interleave_rows(pk_f32v to[4], const pk_f32v from[4]) {
  PK_UNROLL for (int k = 0; k < 2; k++) {
    to[2 * k] = __builtin_shufflevector(from[k], from[k + 2], 0, 4, 1, 5);
    to[2 * k + 1] = __builtin_shufflevector(from[k], from[k + 2], 2, 6, 3, 7);
  }
}
PK_INLINE void pk_transpose_f32(pk_f32v rows[4]) {
  pk_f32v other[4];
  pk_interleave_rows(other, rows);
  pk_interleave_rows(rows, other);
}
#endif

/* Lane k is the element of a table of 16 whose index is the low four bits of lane k of `index`. */
#if PK_PART_LANES == 16
PK_INLINE pk_f32v pk_table_f32(const float *table, pk_i32v index) {
  return (pk_f32v)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
}
#else
PK_INLINE pk_f32v pk_table_f32(const float *table, pk_i32v index) {
  int32_t at[PK_LANES];
  float picked[PK_LANES];
  pk_store_i32(at, index);
  for (int k = 0; k < PK_LANES; k++) picked[k] = table[at[k] & 15];
  return pk_load_f32(picked);
}
#endif

#endif
