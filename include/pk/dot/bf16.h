/* dot/bf16.h: products of bf16, summed in f32, in pairs along k: panel [k / 2][NR][2]. For machines
 * on which vdpbf16ps is faster than a multiply-add of f32; on any other bf16 is better widened to
 * f32 by the pack. docs/numerics.md describes the difference.
 *
 *   pk_pack_groups_bf16, pk_pack_groups_t_bf16(dst, depth, src, ld, k, n, cols, pad)
 *                                panels; depth is even
 *   pk_dot_product_bf16(product)
 *   pk_dot_skinny_groups_bf16, pk_dot_skinny_groups_t_bf16(p)
 *   pk_dot_skinny_groups_i8_bf16, pk_dot_skinny_groups_u8_bf16(p)
 *                                up to PK_DOT_SKINNY rows, from p->source in place: bf16, or bytes,
 *                                which are widened in registers
 *
 * On other machines the pairs are widened in registers, and added in the instruction's order, the
 * second of a pair first. Where the processor has a matrix unit, products go there (amx.h).
 */
#ifndef PK_DOT_BF16_H
#define PK_DOT_BF16_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/amx.h>
#include <pk/pack.h>

typedef pk_f32v pk_dot_vector_bf16;
typedef pk_f32p pk_dot_lanes_bf16;
PK_DOT_INLINE void pk_dot_store_bf16(char *p, pk_f32v v) { pk_dot_store_f32(p, v); }
PK_DOT_FROM_ZERO(bf16)
PK_DOT_SUMS_OF_FLOATS(bf16)

PK_DOT_INLINE pk_f32v pk_dot_group_bf16(const pk_pack_kind from, const char *src, int64_t ld,
                                        int64_t k, int64_t n, int32_t flip) {
  const pk_i32v zero = pk_splat_i32(flip), first = pk_pack_get(from, src, k > 0 ? n : 0, zero);
  return pk_bitcast_i32_f32(pk_pack_pair(first, pk_pack_get(from, src + ld, k > 1 ? n : 0, zero)));
}
PK_DOT_INLINE pk_f32v pk_dot_words_bf16(pk_i32v words) { return pk_bitcast_i32_f32(words); }
PK_DOT_INLINE pk_f32v pk_dot_loadn_bf16(const char *p, int64_t n) {
  return pk_bitcast_i32_f32(pk_loadn_raw32(p, n));
}
PK_DOT_INLINE void pk_dot_storen_bf16(char *p, pk_f32v v, int64_t n) {
  pk_storen_raw32(p, pk_bitcast_f32_i32(v), n);
}

#define PK_DOT_KIND bf16
#ifdef PK_DOT_PAIRS_OF_BF16
#define PK_DOT_PAIRS(sum, a, b) \
  (pk_f32v) vbfmmlaq_f32((float32x4_t)(sum), (bfloat16x8_t)(a), (bfloat16x8_t)(b))
#endif
#include <pk/dot/tiles.h>
#undef PK_DOT_PAIRS
#include <pk/dot/skinny_groups.h>
#if PK_AMX
#define PK_DOT_AMX pk_amx_dot_bf16
#include <pk/dot/amx.h>
#undef PK_DOT_AMX
#endif
#undef PK_DOT_KIND

static inline void pk_pack_groups_bf16(uint16_t *dst, int64_t depth, const uint16_t *src,
                                       int64_t ld, int64_t k, int64_t n, int64_t cols,
                                       uint16_t pad) {
  pk_pack_panels(PK_PACK_I16, (int32_t *)(void *)dst, depth, (const char *)src, 2 * ld, k, n, cols,
                 pk_pack_pad_i32(pad));
}
static inline void pk_pack_groups_t_bf16(uint16_t *dst, int64_t depth, const uint16_t *src,
                                         int64_t ld, int64_t k, int64_t n, int64_t cols,
                                         uint16_t pad) {
  pk_pack_panels_t(PK_PACK_I16, (int32_t *)(void *)dst, depth, (const char *)src, 2 * ld, k, n,
                   cols, pk_pack_pad_i32(pad));
}
PK_DOT_INLINE void pk_dot_product_bf16(const pk_dot_product *p) {
  PK_DOT_ON_AMX(bf16, p, 2, 0)
  pk_dot_multiply_bf16(p, 2, 0);
}
#define PK_DOT_SKINNY_GROUPS_BF16(name, kind)                                                    \
  PK_DOT_OUTLINE void pk_dot_skinny_add_groups_##name(const pk_dot_product *p) {                 \
    pk_dot_in_place_bf16(p, kind, 2, 0, 0);                                                      \
  }                                                                                              \
  PK_DOT_INLINE void pk_dot_skinny_groups_##name(const pk_dot_product *p) {                      \
    pk_dot_skinny_by(p, &(const pk_dot_skinny_way){pk_dot_skinny_add_groups_##name,              \
                                                   pk_pack_bytes(kind), p->ldsource, 2, false}); \
  }
PK_DOT_SKINNY_GROUPS_BF16(bf16, PK_PACK_I16)
PK_DOT_SKINNY_GROUPS_BF16(i8_bf16, PK_PACK_I8_BF16)
PK_DOT_SKINNY_GROUPS_BF16(u8_bf16, PK_PACK_U8_BF16)
PK_DOT_OUTLINE void pk_dot_skinny_add_groups_t_bf16(const pk_dot_product *p) {
  pk_dot_in_place_t_bf16(p, 2, 0, 0);
}
PK_DOT_OUTLINE void pk_dot_skinny_lines_bf16(const pk_dot_product *p) {
  pk_dot_by_lines_bf16(p, 2, 0, 0);
}
PK_DOT_INLINE void pk_dot_skinny_groups_t_bf16(const pk_dot_product *p) {
  if (pk_dot_is_in_lanes(p->rows, 2 * p->k)) {
    pk_dot_skinny_lines_bf16(p);
    return;
  }
  pk_dot_skinny_by(
      p, &(const pk_dot_skinny_way){pk_dot_skinny_add_groups_t_bf16, p->ldsource, 2, 2, false});
}

#endif /* PK_MICRO */
#endif
