/* vec/parts.h: vectors made of PK_PARTS parts of 16 or 32 bytes; a mask is a vector of lanes that
 * are 0 or -1. Included by vec.h only. */
#ifndef PK_VEC_PARTS_H
#define PK_VEC_PARTS_H

#define PK_HAVE_MADD_I16

typedef pk_i32v pk_mask;

#define PK_COMPARE_F32(name, op)                                                       \
  PK_INLINE pk_mask name(pk_f32v a, pk_f32v b) {                                       \
    pk_mask m;                                                                         \
    PK_EACH_PART(PK_PART(m, k) = (pk_i32p)(PK_PART(a, k) op PK_PART(b, k));) return m; \
  }
#define PK_COMPARE_I32(name, op, type)                                                             \
  PK_INLINE pk_mask name(pk_i32v a, pk_i32v b) {                                                   \
    pk_mask m;                                                                                     \
    PK_EACH_PART(PK_PART(m, k) = (pk_i32p)((type)PK_PART(a, k) op(type) PK_PART(b, k));) return m; \
  }
PK_COMPARE_F32(pk_eq_f32, ==)
PK_COMPARE_F32(pk_ne_f32, !=)
PK_COMPARE_F32(pk_lt_f32, <)
PK_COMPARE_F32(pk_le_f32, <=)
PK_COMPARE_F32(pk_gt_f32, >)
PK_COMPARE_F32(pk_ge_f32, >=)
PK_COMPARE_I32(pk_eq_i32, ==, pk_i32p)
PK_COMPARE_I32(pk_ne_i32, !=, pk_i32p)
PK_COMPARE_I32(pk_lt_i32, <, pk_i32p)
PK_COMPARE_I32(pk_le_i32, <=, pk_i32p)
PK_COMPARE_I32(pk_gt_i32, >, pk_i32p)
PK_COMPARE_I32(pk_ge_i32, >=, pk_i32p)
PK_COMPARE_I32(pk_eq_u32, ==, pk_u32p)
PK_COMPARE_I32(pk_ne_u32, !=, pk_u32p)
PK_COMPARE_I32(pk_lt_u32, <, pk_u32p)
PK_COMPARE_I32(pk_le_u32, <=, pk_u32p)
PK_COMPARE_I32(pk_gt_u32, >, pk_u32p)
PK_COMPARE_I32(pk_ge_u32, >=, pk_u32p)

PK_INLINE pk_mask pk_splat_mask(bool x) { return pk_splat_i32(x ? -1 : 0); }
PK_INLINE pk_mask pk_mask_first(int64_t n) {
  return pk_lt_i32(pk_lane_i32(), pk_splat_i32(pk_clamp_lanes(n)));
}
PK_INLINE pk_mask pk_and_mask(pk_mask a, pk_mask b) { return pk_and_i32(a, b); }
PK_INLINE pk_mask pk_or_mask(pk_mask a, pk_mask b) { return pk_or_i32(a, b); }
PK_INLINE pk_mask pk_xor_mask(pk_mask a, pk_mask b) { return pk_xor_i32(a, b); }
PK_INLINE pk_mask pk_not_mask(pk_mask m) { return pk_xor_i32(m, pk_splat_i32(-1)); }
/* Lane k in bit k. */
PK_INLINE uint32_t pk_mask_bits(pk_mask m) {
  uint32_t bits = 0;
  PK_EACH_PART(bits |= pk_part_bits(PK_PART(m, k)) << (k * PK_PART_LANES);)
  return bits;
}
PK_INLINE bool pk_any(pk_mask m) { return pk_mask_bits(m) != 0; }
PK_INLINE bool pk_all(pk_mask m) { return pk_mask_bits(m) == (1u << PK_LANES) - 1; }
PK_INLINE pk_f32v pk_select_f32(pk_mask m, pk_f32v a, pk_f32v b) {
  PK_EACH_PART(PK_PART(a, k) = pk_part_select(PK_PART(m, k), PK_PART(a, k), PK_PART(b, k));)
  return a;
}
PK_INLINE pk_i32v pk_select_i32(pk_mask m, pk_i32v a, pk_i32v b) {
  PK_EACH_PART(PK_PART(a, k) = (pk_i32p)pk_part_select(PK_PART(m, k), (pk_f32p)PK_PART(a, k),
                                                       (pk_f32p)PK_PART(b, k));)
  return a;
}
PK_INLINE pk_mask pk_select_mask(pk_mask m, pk_mask a, pk_mask b) { return pk_select_i32(m, a, b); }

PK_LIFT_F32(pk_sqrt_f32, pk_part_sqrt)
PK_LIFT_F32(pk_floor_f32, pk_part_floor)
PK_LIFT_F32(pk_ceil_f32, pk_part_ceil)
PK_LIFT_F32(pk_round_f32, pk_part_round)
PK_LIFT_F32(pk_trunc_f32, pk_part_trunc)
PK_LIFT2_F32(pk_max_fast_f32, pk_part_max_fast)
PK_LIFT2_F32(pk_min_fast_f32, pk_part_min_fast)
PK_LIFT2_F32(pk_max_f32, pk_part_max)
PK_LIFT2_F32(pk_min_f32, pk_part_min)
#if PK_HAS_FMA
PK_INLINE pk_f32v pk_fma_f32(pk_f32v a, pk_f32v b, pk_f32v c) {
  PK_EACH_PART(PK_PART(a, k) = pk_part_fma(PK_PART(a, k), PK_PART(b, k), PK_PART(c, k));)
  return a;
}
PK_INLINE pk_f32v pk_fma_fast_f32(pk_f32v a, pk_f32v b, pk_f32v c) { return pk_fma_f32(a, b, c); }
#else
PK_INLINE pk_f32p pk_part_fma(pk_f32p a, pk_f32p b, pk_f32p c) {
  for (int k = 0; k < PK_PART_LANES; k++) c[k] = __builtin_fmaf(a[k], b[k], c[k]);
  return c;
}
static inline pk_f32v pk_fma_f32(pk_f32v a, pk_f32v b, pk_f32v c) {
  PK_EACH_PART(PK_PART(a, k) = pk_part_fma(PK_PART(a, k), PK_PART(b, k), PK_PART(c, k));)
  return a;
}
PK_INLINE pk_f32v pk_fma_fast_f32(pk_f32v a, pk_f32v b, pk_f32v c) {
  return pk_add_f32(pk_mul_f32(a, b), c);
}
#endif
/* For b within [2^-100, 2^100]: see vec/512.h. */
PK_INLINE pk_f32v pk_reciprocal_fast_f32(pk_f32v b) { return pk_div_f32(pk_splat_f32(1), b); }
/* p in [0.5, 2] times 2 to the n, an integer given as 1.5 * 2^23 + n, |n| <= 250. The first product
 * is exact, so that it rounds once. */
PK_INLINE pk_f32v pk_scale_shifted_f32(pk_f32v p, pk_f32v shifted) {
  pk_i32v whole = pk_add_constant(pk_bitcast_f32_i32(shifted), -0x4b400000);
  pk_i32v half = pk_shift_right(whole, 1), rest = pk_sub_i32(whole, half);
  pk_f32v first = pk_bitcast_i32_f32(pk_shift_left(pk_add_constant(half, 127), 23));
  pk_f32v second = pk_bitcast_i32_f32(pk_shift_left(pk_add_constant(rest, 127), 23));
  return pk_mul_f32(pk_mul_f32(p, first), second);
}

PK_LIFT2_I32(pk_max_i32, pk_part_max_i32)
PK_LIFT2_I32(pk_min_i32, pk_part_min_i32)
PK_LIFT2_I32(pk_max_u32, pk_part_max_u32)
PK_LIFT2_I32(pk_min_u32, pk_part_min_u32)
PK_LIFT2_I32(pk_mulhi_u32, pk_part_mulhi_u32)
PK_LIFT2_I32(pk_shl_i32, pk_part_shl)
PK_LIFT2_I32(pk_ushr_i32, pk_part_ushr)
PK_LIFT2_I32(pk_shr_i32, pk_part_shr)

/* Sums of the products of the two 16-bit halves of each lane; wraps. */
PK_LIFT2_I32(pk_madd_i16, pk_part_madd_i16)

/* Rounds towards zero, for |a| < 2^31. */
PK_INLINE pk_i32v pk_truncate_to_i32(pk_f32v a) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = pk_part_truncate(PK_PART(a, k));)
  return r;
}
/* Both halves are exact in float, so only the sum is rounded. */
PK_INLINE pk_f32v pk_cast_u32_f32(pk_i32v a) {
  pk_f32v high = pk_cast_i32_f32(pk_shift_right_unsigned(a, 16));
  return pk_add_f32(pk_mul_f32(high, pk_splat_f32(0x1p16f)),
                    pk_cast_i32_f32(pk_and_constant(a, 0xffff)));
}

/* Elements of 8 and 16 bits in memory. */
typedef struct {
  uint8_t element[PK_LANES];
} pk_raw8;
typedef struct {
  uint16_t element[PK_LANES];
} pk_raw16;
typedef pk_i32v pk_raw32;

#define PK_WIDEN(name, raw, part)                                                \
  PK_INLINE pk_i32v name(raw a) {                                                \
    pk_i32v r;                                                                   \
    PK_EACH_PART(PK_PART(r, k) = part(a.element + k * PK_PART_LANES);) return r; \
  }
#define PK_NARROW(name, raw, part)                                              \
  PK_INLINE raw name(pk_i32v a) {                                               \
    raw r;                                                                      \
    PK_EACH_PART(part(r.element + k * PK_PART_LANES, PK_PART(a, k));) return r; \
  }
PK_WIDEN(pk_widen_i8, pk_raw8, pk_part_widen_i8)
PK_WIDEN(pk_widen_u8, pk_raw8, pk_part_widen_u8)
PK_WIDEN(pk_widen_i16, pk_raw16, pk_part_widen_i16)
PK_WIDEN(pk_widen_u16, pk_raw16, pk_part_widen_u16)
PK_NARROW(pk_narrow_8, pk_raw8, pk_part_narrow_8)
PK_NARROW(pk_narrow_16, pk_raw16, pk_part_narrow_16)

#ifdef PK_PART_F16
PK_INLINE pk_f32v pk_widen_f16(pk_raw16 a) {
  pk_f32v r;
  PK_EACH_PART(PK_PART(r, k) = pk_part_widen_f16(a.element + k * PK_PART_LANES);)
  return r;
}
PK_INLINE pk_raw16 pk_narrow_f16(pk_f32v a) {
  pk_raw16 r;
  PK_EACH_PART(pk_part_narrow_f16(r.element + k * PK_PART_LANES, PK_PART(a, k));)
  return r;
}
#else
/* As in half.h, every lane at once. */
PK_INLINE pk_f32v pk_widen_f16(pk_raw16 a) {
  pk_i32v half = pk_widen_u16(a), rest = pk_and_constant(half, 0x7fff);
  pk_i32v sign = pk_shift_left(pk_and_constant(half, 0x8000), 16);
  pk_i32v least = pk_bitcast_f32_i32(pk_mul_f32(pk_cast_i32_f32(rest), pk_splat_f32(0x1p-24f)));
  pk_i32v bits = pk_add_constant(pk_shift_left(rest, 13), 112 << 23);
  bits = pk_add_i32(bits, pk_and_constant(pk_gt_i32(rest, pk_splat_i32(0x7bff)), 112 << 23));
  bits = pk_or_i32(bits, pk_and_constant(pk_gt_i32(rest, pk_splat_i32(0x7c00)), 0x400000));
  return pk_bitcast_i32_f32(
      pk_or_i32(pk_select_i32(pk_lt_i32(rest, pk_splat_i32(0x400)), least, bits), sign));
}
PK_INLINE pk_raw16 pk_narrow_f16(pk_f32v a) {
  pk_i32v bits = pk_bitcast_f32_i32(a), rest = pk_and_constant(bits, INT32_MAX),
          shifted = pk_shift_right(rest, 13);
  pk_i32v half =
      pk_add_i32(pk_add_constant(rest, 0xfff - (112 << 23)), pk_and_constant(shifted, 1));
  half = pk_shift_right(half, 13);
  pk_f32v aligned = pk_add_f32(pk_bitcast_i32_f32(rest), pk_splat_f32(0.5f));
  pk_i32v least = pk_add_constant(pk_bitcast_f32_i32(aligned), -0x3f000000);
  half = pk_select_i32(pk_lt_i32(rest, pk_splat_i32(0x38800000)), least, half);
  half = pk_select_i32(pk_gt_i32(rest, pk_splat_i32(0x477fefff)), pk_splat_i32(0x7c00), half);
  pk_i32v nan = pk_or_i32(pk_and_constant(shifted, 0x3ff), pk_splat_i32(0x7e00));
  half = pk_select_i32(pk_gt_i32(rest, pk_splat_i32(0x7f800000)), nan, half);
  return pk_narrow_16(pk_or_i32(half, pk_and_constant(pk_shift_right(bits, 16), 0x8000)));
}
#endif

PK_INLINE pk_mask pk_mask_of_raw(pk_raw8 a) { return pk_ne_i32(pk_widen_u8(a), pk_splat_i32(0)); }
PK_INLINE pk_raw8 pk_raw_of_mask(pk_mask m) { return pk_narrow_8(pk_and_constant(m, 1)); }

PK_INLINE pk_i32v pk_load_raw32(const void *p) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = *(const pk_i32p_memory *)((const char *)p + k * PK_PART_BYTES);)
  return r;
}
PK_INLINE void pk_store_raw32(void *p, pk_i32v v) {
  PK_EACH_PART(*(pk_i32p_memory *)((char *)p + k * PK_PART_BYTES) = PK_PART(v, k);)
}

/* Copies the first bytes of a vector from or to memory. */
PK_INLINE void pk_copy_some(void *to, const void *from, int bytes) {
  if (bytes > 0) __builtin_memcpy(to, from, (size_t)bytes);
}
#define PK_LOADN(raw, T)                                                 \
  PK_INLINE T pk_loadn_##raw(const void *p, int64_t n) {                 \
    T r;                                                                 \
    __builtin_memset(&r, 0, sizeof r);                                   \
    pk_copy_some(&r, p, pk_clamp_lanes(n) * (int)(sizeof r / PK_LANES)); \
    return r;                                                            \
  }
#define PK_STOREN(raw, T)                                                \
  PK_INLINE void pk_storen_##raw(void *p, T v, int64_t n) {              \
    pk_copy_some(p, &v, pk_clamp_lanes(n) * (int)(sizeof v / PK_LANES)); \
  }
PK_LOADN(raw8, pk_raw8)
PK_LOADN(raw16, pk_raw16)
PK_STOREN(raw8, pk_raw8)
PK_STOREN(raw16, pk_raw16)

#define PK_LOADM(raw, T, memory)                                                           \
  PK_INLINE T pk_loadm_##raw(const void *p, pk_mask m) {                                   \
    T r;                                                                                   \
    memory x[PK_LANES] = {0};                                                              \
    PK_EACH_SET_LANE(m, x[k] = ((const memory *)p)[k];) __builtin_memcpy(&r, x, sizeof r); \
    return r;                                                                              \
  }
#define PK_STOREM(raw, T, memory)                           \
  PK_INLINE void pk_storem_##raw(void *p, T v, pk_mask m) { \
    memory x[PK_LANES];                                     \
    __builtin_memcpy(x, &v, sizeof x);                      \
    PK_EACH_SET_LANE(m, ((memory *)p)[k] = x[k];)           \
  }
#define PK_EACH_SET_LANE(m, statement)                                 \
  for (uint32_t bits = pk_mask_bits(m); bits != 0; bits &= bits - 1) { \
    int k = __builtin_ctz(bits);                                       \
    statement                                                          \
  }
PK_LOADM(raw8, pk_raw8, pk_memory8)
PK_LOADM(raw16, pk_raw16, pk_memory16)
PK_STOREM(raw8, pk_raw8, pk_memory8)
PK_STOREM(raw16, pk_raw16, pk_memory16)

/* Lane k is the element at `step` * k. */
#define PK_RAW_APART(raw, T, memory)                                           \
  PK_INLINE T pk_load_apart_##raw(const void *p, int64_t step, int64_t n) {    \
    T r;                                                                       \
    memory x[PK_LANES] = {0};                                                  \
    const int32_t count = pk_clamp_lanes(n);                                   \
    for (int k = 0; k < count; k++) x[k] = ((const memory *)p)[k * step];      \
    __builtin_memcpy(&r, x, sizeof r);                                         \
    return r;                                                                  \
  }                                                                            \
  PK_INLINE void pk_store_apart_##raw(void *p, T v, int64_t step, int64_t n) { \
    memory x[PK_LANES];                                                        \
    const int32_t count = pk_clamp_lanes(n);                                   \
    __builtin_memcpy(x, &v, sizeof x);                                         \
    for (int k = 0; k < count; k++) ((memory *)p)[k * step] = x[k];            \
  }                                                                            \
  PK_INLINE void pk_store_pairs_##raw(void *p, T a, T b, int64_t n) {          \
    pk_store_apart_##raw(p, a, 2, n);                                          \
    pk_store_apart_##raw((memory *)p + 1, b, 2, n);                            \
  }
PK_RAW_APART(raw16, pk_raw16, pk_memory16)
PK_RAW_APART(raw32, pk_i32v, pk_memory32)

#if PK_PART_BYTES == 32
PK_INLINE pk_i32v pk_loadm_raw32(const void *p, pk_mask m) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = (pk_i32p)_mm256_maskload_epi32((const int *)p + k * PK_PART_LANES,
                                                              (__m256i)PK_PART(m, k));)
  return r;
}
PK_INLINE void pk_storem_raw32(void *p, pk_i32v v, pk_mask m) {
  PK_EACH_PART(_mm256_maskstore_epi32((int *)p + k * PK_PART_LANES, (__m256i)PK_PART(m, k),
                                      (__m256i)PK_PART(v, k));)
}
PK_INLINE pk_i32v pk_loadn_raw32(const void *p, int64_t n) {
  return pk_loadm_raw32(p, pk_mask_first(n));
}
PK_INLINE void pk_storen_raw32(void *p, pk_i32v v, int64_t n) {
  pk_storem_raw32(p, v, pk_mask_first(n));
}
#else
PK_LOADM(raw32, pk_i32v, pk_memory32)
PK_STOREM(raw32, pk_i32v, pk_memory32)
PK_LOADN(raw32, pk_i32v)
PK_STOREN(raw32, pk_i32v)
#endif

PK_INLINE pk_raw8 pk_load_raw8(const void *p) {
  pk_raw8 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
PK_INLINE pk_raw16 pk_load_raw16(const void *p) {
  pk_raw16 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
PK_INLINE void pk_store_raw8(void *p, pk_raw8 v) { __builtin_memcpy(p, &v, sizeof v); }
PK_INLINE void pk_store_raw16(void *p, pk_raw16 v) { __builtin_memcpy(p, &v, sizeof v); }
PK_INLINE void pk_stream_raw8(void *p, pk_raw8 v) { pk_store_raw8(p, v); }
PK_INLINE void pk_stream_raw16(void *p, pk_raw16 v) { pk_store_raw16(p, v); }
PK_INLINE void pk_stream_raw32(void *p, pk_i32v v) {
#ifdef PK_PART_STREAM
  PK_EACH_PART(pk_part_stream((char *)p + k * PK_PART_BYTES, PK_PART(v, k));)
#else
  pk_store_raw32(p, v);
#endif
}

#endif
