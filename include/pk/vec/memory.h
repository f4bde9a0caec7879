/* vec/memory.h: loads and stores of every dtype in memory. Included by vec.h only.
 * pk_load_T(p)        PK_LANES elements             pk_store_T(p, v)
 * pk_loadn_T(p, n)    the first n, others 0         pk_storen_T(p, v, n)
 * pk_loadm_T(p, m)    where m, others 0             pk_storem_T(p, v, m)
 * pk_window_T(p, at, n)  elements at .. of n, 0 for those outside
 * pk_load_apart_T(p, step, n), pk_store_apart_T(p, v, step, n): so many elements apart
 * pk_stream_T(p, v)   past the caches where it can be; p is aligned to the bytes stored */
#ifndef PK_VEC_MEMORY_H
#define PK_VEC_MEMORY_H

/* The lanes from `first` on that come before `end`. */
PK_INLINE pk_mask pk_mask_between(int64_t first, int64_t end) {
  return pk_and_mask(pk_not_mask(pk_mask_first(first)), pk_mask_first(end));
}

/* Between register and memory, for each dtype. */
PK_INLINE pk_f32v pk_widen_f32(pk_i32v raw) { return pk_bitcast_i32_f32(raw); }
PK_INLINE pk_i32v pk_narrow_f32(pk_f32v v) { return pk_bitcast_f32_i32(v); }
PK_INLINE pk_i32v pk_widen_i32(pk_i32v raw) { return raw; }
PK_INLINE pk_i32v pk_narrow_32(pk_i32v v) { return v; }
PK_INLINE pk_f32v pk_widen_bf16(pk_raw16 raw) {
  return pk_bitcast_i32_f32(pk_shift_left(pk_widen_u16(raw), 16));
}
PK_INLINE pk_raw16 pk_narrow_bf16(pk_f32v v) { return pk_narrow_16(pk_upper_half(v)); }

#define PK_LOADS(T, type, vector, widen, raw)                                                     \
  PK_INLINE vector pk_load_##T(const type *p) { return widen(pk_load_##raw(p)); }                 \
  PK_INLINE vector pk_loadn_##T(const type *p, int64_t n) {                                       \
    return n >= PK_LANES ? widen(pk_load_##raw(p)) : widen(pk_loadn_##raw(p, n));                 \
  }                                                                                               \
  PK_INLINE vector pk_loadm_##T(const type *p, pk_mask m) { return widen(pk_loadm_##raw(p, m)); } \
  PK_INLINE vector pk_window_##T(const type *p, int64_t at, int64_t n) {                          \
    return at >= 0 && n - at >= PK_LANES ? pk_load_##T(p + at)                                    \
                                         : pk_loadm_##T(p + at, pk_mask_between(-at, n - at));    \
  }
#define PK_STORES(T, type, vector, narrow, raw)                                                    \
  PK_INLINE void pk_store_##T(type *p, vector v) { pk_store_##raw(p, narrow(v)); }                 \
  PK_INLINE void pk_storem_##T(type *p, vector v, pk_mask m) { pk_storem_##raw(p, narrow(v), m); } \
  PK_INLINE void pk_stream_##T(type *p, vector v) { pk_stream_##raw(p, narrow(v)); }               \
  PK_INLINE void pk_storen_##T(type *p, vector v, int64_t n) {                                     \
    if (n >= PK_LANES)                                                                             \
      pk_store_##raw(p, narrow(v));                                                                \
    else                                                                                           \
      pk_storen_##raw(p, narrow(v), n);                                                            \
  }
PK_LOADS(f32, float, pk_f32v, pk_widen_f32, raw32)
PK_LOADS(bf16, uint16_t, pk_f32v, pk_widen_bf16, raw16)
PK_LOADS(f16, uint16_t, pk_f32v, pk_widen_f16, raw16)
PK_LOADS(i8, int8_t, pk_i32v, pk_widen_i8, raw8)
PK_LOADS(u8, uint8_t, pk_i32v, pk_widen_u8, raw8)
PK_LOADS(i16, int16_t, pk_i32v, pk_widen_i16, raw16)
PK_LOADS(u16, uint16_t, pk_i32v, pk_widen_u16, raw16)
PK_LOADS(i32, int32_t, pk_i32v, pk_widen_i32, raw32)
PK_LOADS(u32, uint32_t, pk_i32v, pk_widen_i32, raw32)
#define PK_F8_MEMORY(T, ...)                        \
  PK_LOADS(T, uint8_t, pk_f32v, pk_widen_##T, raw8) \
  PK_STORES(T, uint8_t, pk_f32v, pk_narrow_##T, raw8)
#define PK_PART_MEMORY(I, U, bits)                    \
  PK_LOADS(I, uint8_t, pk_i32v, pk_widen_##I, raw8)   \
  PK_LOADS(U, uint8_t, pk_i32v, pk_widen_##U, raw8)   \
  PK_STORES(I, uint8_t, pk_i32v, pk_narrow_##I, raw8) \
  PK_STORES(U, uint8_t, pk_i32v, pk_narrow_##U, raw8)
PK_F8_DTYPES(PK_F8_MEMORY)
PK_PART_DTYPES(PK_PART_MEMORY)
#undef PK_F8_MEMORY
#undef PK_PART_MEMORY
PK_LOADS(bool, uint8_t, pk_mask, pk_mask_of_raw, raw8)
PK_STORES(f32, float, pk_f32v, pk_narrow_f32, raw32)
PK_STORES(bf16, uint16_t, pk_f32v, pk_narrow_bf16, raw16)
PK_STORES(f16, uint16_t, pk_f32v, pk_narrow_f16, raw16)
PK_STORES(i8, int8_t, pk_i32v, pk_narrow_8, raw8)
PK_STORES(u8, uint8_t, pk_i32v, pk_narrow_8, raw8)
PK_STORES(i16, int16_t, pk_i32v, pk_narrow_16, raw16)
PK_STORES(u16, uint16_t, pk_i32v, pk_narrow_16, raw16)
PK_STORES(i32, int32_t, pk_i32v, pk_narrow_32, raw32)
PK_STORES(u32, uint32_t, pk_i32v, pk_narrow_32, raw32)
PK_STORES(bool, uint8_t, pk_mask, pk_raw_of_mask, raw8)

#define PK_APART(T, type, vector, widen, narrow, raw)                             \
  PK_INLINE vector pk_load_apart_##T(const type *p, int64_t step, int64_t n) {    \
    return widen(pk_load_apart_##raw(p, step, n));                                \
  }                                                                               \
  PK_INLINE void pk_store_apart_##T(type *p, vector v, int64_t step, int64_t n) { \
    pk_store_apart_##raw(p, narrow(v), step, n);                                  \
  }
PK_APART(f32, float, pk_f32v, pk_widen_f32, pk_narrow_f32, raw32)
PK_APART(i32, int32_t, pk_i32v, pk_widen_i32, pk_narrow_32, raw32)
PK_APART(u32, uint32_t, pk_i32v, pk_widen_i32, pk_narrow_32, raw32)
PK_APART(bf16, uint16_t, pk_f32v, pk_widen_bf16, pk_narrow_bf16, raw16)
PK_APART(f16, uint16_t, pk_f32v, pk_widen_f16, pk_narrow_f16, raw16)
#undef PK_APART

/* Past the caches if `stream`; then `to` is aligned to a vector. */
PK_INLINE void pk_put_f32(float *to, pk_f32v v, bool stream) {
  if (stream)
    pk_stream_f32(to, v);
  else
    pk_store_f32(to, v);
}
PK_INLINE void pk_prefetch(const void *p) { __builtin_prefetch(p); }

#endif
