/* dot/i16.h: products of 16-bit integers, in pairs along k: panel [k / 2][NR][2]. Sums wrap.
 * pk_pack_panels_T of pack.h makes panels from i8, u8 and i16.
 */
#ifndef PK_DOT_I16_H
#define PK_DOT_I16_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/pack.h>

typedef pk_i32v pk_dot_vector_i16;
PK_DOT_INLINE pk_i32v pk_dot_splat_i16(const char *p) { return pk_dot_splat_i32(p); }
PK_DOT_INLINE pk_i32v pk_dot_load_i16(const char *p) { return pk_load_raw32(p); }
PK_DOT_INLINE void pk_dot_store_i16(char *p, pk_i32v v) { pk_dot_store_i32(p, v); }
PK_DOT_INLINE pk_i32v pk_dot_madd_i16(pk_i32v x, pk_i32v b, pk_i32v sum) {
#if PK_PART_BYTES == 64 && defined(__AVX512VNNI__)
  return (pk_i32v)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)x, (__m512i)b);
#else
  return pk_add_i32(sum, pk_madd_i16(x, b));
#endif
}
PK_DOT_FROM_ZERO(i16)
PK_DOT_SUMS_OF_INTEGERS(i16)

#define PK_DOT_KIND i16
#include <pk/dot/tiles.h>
#undef PK_DOT_KIND

/* depth is even. */
PK_DOT_INLINE void pk_dot_product_i16(const pk_dot_product *p) { pk_dot_multiply_i16(p, 2, 0); }

#endif /* PK_MICRO */
#endif
