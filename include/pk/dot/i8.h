/* dot/i8.h: products of bytes, in fours along k: panel [k / 4][NR][4]. Exact; sums wrap.
 *
 * T is the dtypes of left and right: i8, u8 (both alike), i8_u8, u8_i8.
 *
 *   pk_pack_groups_T(dst, depth, src, ld, k, n, cols, pad)
 *                                              panels, as pk_pack_panels_T of pack.h;
 *                                              depth is a multiple of 4
 *   pk_pack_groups_t_T                         the same of a source whose columns are contiguous
 *   pk_dot_skinny_groups_T, pk_dot_skinny_groups_t_T(p)
 *                                              up to PK_DOT_SKINNY rows, from p->source in place
 *   pk_dot_product_T(product)
 *
 * Instructions differ in the operands that they take: vpdpbusd multiplies unsigned by signed bytes,
 * sdot and udot multiply bytes of one kind. For other operands the pack flips the sign bit of the
 * right operand, which adds 128 to its elements (or subtracts 128): a b = a (b + 128) - 128 a. The
 * excess is 128 times the sum of a row of the left operand, the same for each column, and the sums
 * of the row start from that. So the left operand is read unchanged, and may end anywhere.
 * The matrix unit (amx.h) takes any two kinds, and so the same panels.
 */
#ifndef PK_DOT_I8_H
#define PK_DOT_I8_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/amx.h>
#include <pk/pack.h>

#if !defined(SIMDE_NO_NATIVE) &&   \
    (PK_PART_BYTES == 64           \
         ? defined(__AVX512VNNI__) \
         : defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__))
#define PK_DOT_UNLIKE 1 /* one operand is signed, the other unsigned */
#else
#define PK_DOT_UNLIKE 0
#endif

#if PK_DOT_UNLIKE
#if PK_PART_BYTES == 64
#define PK_DOT_BYTES(sum, u, s) \
  (pk_i32p) _mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(u), (__m512i)(s))
#elif PK_PART_BYTES == 32 && defined(__AVXVNNI__)
#define PK_DOT_BYTES(sum, u, s) \
  (pk_i32p) _mm256_dpbusd_avx_epi32((__m256i)(sum), (__m256i)(u), (__m256i)(s))
#elif PK_PART_BYTES == 32
#define PK_DOT_BYTES(sum, u, s) \
  (pk_i32p) _mm256_dpbusd_epi32((__m256i)(sum), (__m256i)(u), (__m256i)(s))
#elif defined(__AVXVNNI__)
#define PK_DOT_BYTES(sum, u, s) \
  (pk_i32p) _mm_dpbusd_avx_epi32((__m128i)(sum), (__m128i)(u), (__m128i)(s))
#else
#define PK_DOT_BYTES(sum, u, s) \
  (pk_i32p) _mm_dpbusd_epi32((__m128i)(sum), (__m128i)(u), (__m128i)(s))
#endif
PK_DOT_INLINE pk_i32p pk_part_dot_i8(pk_i32p sum, pk_i32p x, pk_i32p b) {
  return PK_DOT_BYTES(sum, b, x);
}
PK_DOT_INLINE pk_i32p pk_part_dot_u8(pk_i32p sum, pk_i32p x, pk_i32p b) {
  return PK_DOT_BYTES(sum, x, b);
}
#elif defined(__ARM_FEATURE_DOTPROD) && !defined(SIMDE_NO_NATIVE)
PK_DOT_INLINE pk_i32p pk_part_dot_i8(pk_i32p sum, pk_i32p x, pk_i32p b) {
  return (pk_i32p)vdotq_s32((int32x4_t)sum, (int8x16_t)x, (int8x16_t)b);
}
PK_DOT_INLINE pk_i32p pk_part_dot_u8(pk_i32p sum, pk_i32p x, pk_i32p b) {
  return (pk_i32p)vdotq_u32((uint32x4_t)sum, (uint8x16_t)x, (uint8x16_t)b);
}
#else
/* Even and odd bytes as 16-bit integers. */
PK_DOT_INLINE pk_i32p pk_part_even_i8(pk_i32p a) {
  return (pk_i32p)((pk_i16p)pk_part_shift_left(a, 8) >> 8);
}
PK_DOT_INLINE pk_i32p pk_part_odd_i8(pk_i32p a) { return (pk_i32p)((pk_i16p)a >> 8); }
PK_DOT_INLINE pk_i32p pk_part_even_u8(pk_i32p a) { return a & 0x00ff00ff; }
PK_DOT_INLINE pk_i32p pk_part_odd_u8(pk_i32p a) {
  return pk_part_even_u8(pk_part_shift_right_unsigned(a, 8));
}
#if PK_PART_BYTES == 64
#define PK_PART_MADD(a, b) (pk_i32p) _mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#else
#define PK_PART_MADD(a, b) pk_part_madd_i16(a, b)
#endif
#define PK_DOT_BYTES(T)                                                           \
  PK_DOT_INLINE pk_i32p pk_part_dot_##T(pk_i32p sum, pk_i32p x, pk_i32p b) {      \
    const pk_i32p even = PK_PART_MADD(pk_part_even_##T(x), pk_part_even_##T(b));  \
    return pk_part_add_i32(pk_part_add_i32(sum, even),                            \
                           PK_PART_MADD(pk_part_odd_##T(x), pk_part_odd_##T(b))); \
  }
PK_DOT_BYTES(i8)
PK_DOT_BYTES(u8)
#endif

/* The initial sums of rows: `factor` times the sum of each. */
#define PK_DOT_BYTE_KIND(T)                                                                    \
  typedef pk_i32v pk_dot_vector_##T;                                                           \
  typedef pk_i32p pk_dot_lanes_##T;                                                            \
  PK_DOT_SUMS_OF_INTEGERS(T)                                                                   \
  PK_DOT_INLINE pk_i32v pk_dot_splat_##T(const char *p) { return pk_dot_splat_i32(p); }        \
  PK_DOT_INLINE pk_i32v pk_dot_load_##T(const char *p) { return pk_load_raw32(p); }            \
  PK_DOT_INLINE void pk_dot_store_##T(char *p, pk_i32v v) { pk_dot_store_i32(p, v); }          \
  PK_DOT_INLINE pk_i32v pk_dot_start_##T(const int32_t *start, int row) {                      \
    return pk_splat_i32(start[row]);                                                           \
  }                                                                                            \
  PK_DOT_INLINE pk_i32v pk_dot_more_##T(pk_i32v c, const int32_t *start, int row) {            \
    return pk_add_i32(c, pk_splat_i32(start[row]));                                            \
  }                                                                                            \
  PK_DOT_INLINE pk_i32v pk_dot_madd_##T(pk_i32v x, pk_i32v b, pk_i32v sum) {                   \
    PK_EACH_PART(PK_PART(sum, k) =                                                             \
                     pk_part_dot_##T(PK_PART(sum, k), PK_PART(x, k), PK_PART(b, k));)          \
    return sum;                                                                                \
  }                                                                                            \
  PK_DOT_OUTLINE void pk_dot_starts_##T(int32_t *start, int64_t n, const char *a, int64_t lda, \
                                        int64_t bytes, int32_t factor) {                       \
    for (int64_t i = 0; i < n; i++, a += lda) {                                                \
      const pk_i32v one = pk_splat_i32(0x01010101);                                            \
      pk_i32v sum = {0};                                                                       \
      int64_t at = factor ? 0 : bytes;                                                         \
      for (; at + PK_VEC_BYTES <= bytes; at += PK_VEC_BYTES)                                   \
        sum = pk_dot_madd_##T(pk_pack_get(PK_PACK_B4, a + at, PK_LANES, one), one, sum);       \
      if (at < bytes) {                                                                        \
        char last[PK_VEC_BYTES] = {0};                                                         \
        memcpy(last, a + at, (size_t)(bytes - at));                                            \
        sum = pk_dot_madd_##T(pk_pack_get(PK_PACK_B4, last, PK_LANES, one), one, sum);         \
      }                                                                                        \
      start[i] = (int32_t)((uint32_t)pk_reduce_add_i32(sum) * (uint32_t)factor);               \
    }                                                                                          \
  }
PK_DOT_BYTE_KIND(i8)
PK_DOT_BYTE_KIND(u8)

/* The groups of four of PK_LANES columns, of which k rows and n columns exist, then a pad of 8
 * bits; ld in bytes. */
PK_DOT_INLINE pk_i32v pk_pack_quad(const char *src, int64_t ld, int64_t k, int64_t n, pk_i32v pad,
                                   pk_i32v flip) {
  PK_DOT_UNROLL for (int i = 0; i < 4; i++) {
    const pk_i32v row = pk_pack_get(PK_PACK_U8, src + i * ld, i < k ? n : 0, pad);
    flip = pk_xor_i32(flip, pk_shift_left(row, 8 * i));
  }
  return flip;
}

/* Rows [from, to) of one panel. */
PK_DOT_INLINE void pk_pack_quads(int32_t *dst, const char *src, int64_t ld, int64_t from,
                                 int64_t to, int64_t k, int64_t n, pk_i32v pad, pk_i32v flip) {
  for (int64_t kk = from; kk < to; kk += 4)
    PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NR; v += PK_LANES)
        pk_store_i32(dst + kk / 4 * PK_DOT_NR + v,
                     pk_pack_quad(src + kk * ld + v, ld, k - kk, n - v, pad, flip));
}

/* In the order of pk_pack_panels. */
PK_DOT_INLINE void pk_pack_groups(int32_t *dst, int64_t depth, const char *src, int64_t ld,
                                  int64_t k, int64_t n, int64_t cols, int32_t pad, bool flipped) {
  const pk_i32v fill = pk_splat_i32(pad & 0xff),
                flip = pk_splat_i32(flipped ? (int32_t)0x80808080 : 0);
  for (int64_t from = 0, to; from < depth; from = to) {
    to = depth - from > 16 ? from + 16 : depth;
    for (int64_t c = 0; c < cols; c += PK_DOT_NR) {
      int32_t *panel = dst + c * depth / 4;
      if (to <= k && c + PK_DOT_NR <= n)
        pk_pack_quads(panel, src + c, ld, from, to, INT64_MAX, PK_DOT_NR, fill, flip);
      else
        pk_pack_quads(panel, src + c, ld, from, to, k, n - c, fill, flip);
    }
  }
}

/* If the columns of the source are contiguous, a group is 4 bytes of a column. */
PK_DOT_INLINE void pk_pack_groups_t(int32_t *dst, int64_t depth, const char *src, int64_t ld,
                                    int64_t k, int64_t n, int64_t cols, int32_t pad, bool flipped) {
  const int32_t fill = (int32_t)(0x01010101u * (uint8_t)pad),
                flip = flipped ? (int32_t)0x80808080 : 0;
  pk_pack_panels_t(PK_PACK_B4, dst, depth / 4, src, ld, k / 4, n, cols, pk_splat_i32(fill));
  if (k % 4 && k < depth)
    for (int64_t c = 0; c < n && c < cols; c++) {
      int32_t *last =
          dst + c / PK_DOT_NR * PK_DOT_NR * (depth / 4) + k / 4 * PK_DOT_NR + c % PK_DOT_NR;
      memcpy(last, src + c * ld + k / 4 * 4, (size_t)(k % 4));
    }
  for (int64_t i = 0; flipped && i < (cols + PK_DOT_NR - 1) / PK_DOT_NR * PK_DOT_NR * (depth / 4);
       i += PK_LANES)
    pk_store_i32(dst + i, pk_xor_i32(pk_load_i32(dst + i), pk_splat_i32(flip)));
}

#define PK_DOT_BYTE_GROUPS(T)                                                                  \
  PK_DOT_INLINE pk_i32v pk_dot_group_##T(const pk_pack_kind from, const char *src, int64_t ld, \
                                         int64_t k, int64_t n, int32_t flip) {                 \
    (void)from;                                                                                \
    return pk_pack_quad(src, ld, k, n, pk_splat_i32(0), pk_splat_i32(flip));                   \
  }                                                                                            \
  PK_DOT_INLINE pk_i32v pk_dot_words_##T(pk_i32v words) { return words; }                      \
  PK_DOT_INLINE pk_i32v pk_dot_loadn_##T(const char *p, int64_t n) {                           \
    return pk_loadn_raw32(p, n);                                                               \
  }                                                                                            \
  PK_DOT_INLINE void pk_dot_storen_##T(char *p, pk_i32v v, int64_t n) { pk_storen_raw32(p, v, n); }
PK_DOT_BYTE_GROUPS(i8)
PK_DOT_BYTE_GROUPS(u8)

#define PK_DOT_KIND i8
#ifdef PK_DOT_PAIRS_OF_BYTES
#define PK_DOT_PAIRS(sum, a, b) \
  (pk_i32v) vmmlaq_s32((int32x4_t)(sum), (int8x16_t)(a), (int8x16_t)(b))
#endif
#include <pk/dot/tiles.h>
#undef PK_DOT_PAIRS
#include <pk/dot/skinny_groups.h>
#if PK_AMX
#if PK_DOT_UNLIKE
#define PK_DOT_AMX pk_amx_dot_su
#else
#define PK_DOT_AMX pk_amx_dot_ss
#endif
#include <pk/dot/amx.h>
#undef PK_DOT_AMX
#endif
#undef PK_DOT_KIND
#define PK_DOT_KIND u8
#ifdef PK_DOT_PAIRS_OF_BYTES
#define PK_DOT_PAIRS(sum, a, b) \
  (pk_i32v) vmmlaq_u32((uint32x4_t)(sum), (uint8x16_t)(a), (uint8x16_t)(b))
#endif
#include <pk/dot/tiles.h>
#undef PK_DOT_PAIRS
#include <pk/dot/skinny_groups.h>
#if PK_AMX
#if PK_DOT_UNLIKE
#define PK_DOT_AMX pk_amx_dot_us
#else
#define PK_DOT_AMX pk_amx_dot_uu
#endif
#include <pk/dot/amx.h>
#undef PK_DOT_AMX
#endif
#undef PK_DOT_KIND

/* Left and right operand, whether the pack flips the right one's sign bits, and the factor of a
 * row's sum in that case. */
#define PK_DOT_BYTE_PRODUCT(T, left, right_type, flipped, factor)                                \
  static inline void pk_pack_groups_##T(right_type *dst, int64_t depth, const right_type *src,   \
                                        int64_t ld, int64_t k, int64_t n, int64_t cols,          \
                                        right_type pad) {                                        \
    pk_pack_groups((int32_t *)(void *)dst, depth, (const char *)src, ld, k, n, cols, pad,        \
                   flipped);                                                                     \
  }                                                                                              \
  static inline void pk_pack_groups_t_##T(right_type *dst, int64_t depth, const right_type *src, \
                                          int64_t ld, int64_t k, int64_t n, int64_t cols,        \
                                          right_type pad) {                                      \
    pk_pack_groups_t((int32_t *)(void *)dst, depth, (const char *)src, ld, k, n, cols, pad,      \
                     flipped);                                                                   \
  }                                                                                              \
  PK_DOT_INLINE void pk_dot_product_##T(const pk_dot_product *p) {                               \
    PK_DOT_ON_AMX(left, p, 1, (flipped) ? (factor) : 0)                                          \
    pk_dot_multiply_##left(p, 1, (flipped) ? (factor) : 0);                                      \
  }                                                                                              \
  PK_DOT_OUTLINE void pk_dot_skinny_groups_##T(const pk_dot_product *p) {                        \
    pk_dot_in_place_##left(p, PK_PACK_U8, 1, (flipped) ? (int32_t)0x80808080 : 0,                \
                           (flipped) ? (factor) : 0);                                            \
  }                                                                                              \
  PK_DOT_OUTLINE void pk_dot_skinny_groups_t_##T(const pk_dot_product *p) {                      \
    const int32_t flip = (flipped) ? (int32_t)0x80808080 : 0, start = (flipped) ? (factor) : 0;  \
    if (pk_dot_is_in_lanes(p->rows, p->k))                                                       \
      pk_dot_by_lines_##left(p, 1, flip, start);                                                 \
    else                                                                                         \
      pk_dot_in_place_t_##left(p, 1, flip, start);                                               \
  }
PK_DOT_BYTE_PRODUCT(i8, i8, int8_t, PK_DOT_UNLIKE, -128)
PK_DOT_BYTE_PRODUCT(u8, u8, uint8_t, PK_DOT_UNLIKE, 128)
PK_DOT_BYTE_PRODUCT(i8_u8, i8, uint8_t, !PK_DOT_UNLIKE, 128)
PK_DOT_BYTE_PRODUCT(u8_i8, u8, int8_t, !PK_DOT_UNLIKE, -128)

#endif /* PK_MICRO */
#endif
