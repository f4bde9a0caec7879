/* vec/memory.h: loads and stores of every dtype in memory. Included by vec.h only.
 * pk_load_T(p)        PK_LANES elements             pk_store_T(p, v)
 * pk_loadn_T(p, n)    the first n, others 0         pk_storen_T(p, v, n)
 * pk_loadm_T(p, m)    where m, others 0             pk_storem_T(p, v, m)
 * pk_window_T(p, at, n)  elements at .. of n, 0 for those outside
 * pk_load_apart_T(p, step, n), pk_store_apart_T(p, v, step, n): elements `step` apart
 * pk_store_pairs_T(p, a, b, n)   the first n of a and of b, alternating
 * pk_pick_T(p, at, last, step)   element min(max(at, 0), last) for each lane, so many apart
 * pk_gather_T(p, n, at, last, step)   likewise along n axes at once, n >= 2
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

/* Offsets of the elements to pick. */
PK_INLINE pk_i32v pk_picked_places(pk_i32v at, int64_t last) {
  const int32_t most = last > INT32_MAX ? INT32_MAX : last < 0 ? 0 : (int32_t)last;
  return pk_min_i32(pk_max_i32(at, pk_splat_i32(0)), pk_splat_i32(most));
}
#define PK_RAW_PICK(raw, T, memory)                                                  \
  PK_INLINE T pk_pick_##raw(const void *p, pk_i32v at, int64_t last, int64_t step) { \
    T r;                                                                             \
    memory x[PK_LANES];                                                              \
    int32_t place[PK_LANES];                                                         \
    at = pk_picked_places(at, last);                                                 \
    __builtin_memcpy(place, &at, sizeof place);                                      \
    for (int k = 0; k < PK_LANES; k++) x[k] = ((const memory *)p)[place[k] * step];  \
    __builtin_memcpy(&r, x, sizeof r);                                               \
    return r;                                                                        \
  }
#if PK_PART_BYTES == 64
/* Four elements of 8 or 16 bits, contiguous in a word. Through an array in memory a vector of them
 * takes 2.3 times as long. */
#define PK_PICK_WORD(bits, memory)                                                              \
  PK_INLINE uint64_t pk_pick_word##bits(const memory *p, __m128i at) {                          \
    const uint64_t a = (uint64_t)_mm_cvtsi128_si64(at), b = (uint64_t)_mm_extract_epi64(at, 1); \
    const uint64_t low = p[(uint32_t)a] | (uint64_t)p[a >> 32] << bits,                         \
                   high = p[(uint32_t)b] | (uint64_t)p[b >> 32] << bits;                        \
    return low | high << 2 * bits;                                                              \
  }
PK_PICK_WORD(8, pk_memory8)
PK_PICK_WORD(16, pk_memory16)
PK_RAW_PICK(raw8_apart, pk_raw8, pk_memory8)
PK_RAW_PICK(raw16_apart, pk_raw16, pk_memory16)
PK_INLINE pk_raw8 pk_pick_raw8(const void *p, pk_i32v at, int64_t last, int64_t step) {
  const pk_memory8 *x = (const pk_memory8 *)p;
  if (step != 1) return pk_pick_raw8_apart(p, at, last, step);
  const __m512i place = (__m512i)pk_picked_places(at, last);
  const uint64_t word[2] = {pk_pick_word8(x, _mm512_castsi512_si128(place)) |
                                pk_pick_word8(x, _mm512_extracti32x4_epi32(place, 1)) << 32,
                            pk_pick_word8(x, _mm512_extracti32x4_epi32(place, 2)) |
                                pk_pick_word8(x, _mm512_extracti32x4_epi32(place, 3)) << 32};
  return (pk_raw8)_mm_set_epi64x((int64_t)word[1], (int64_t)word[0]);
}
PK_INLINE pk_raw16 pk_pick_raw16(const void *p, pk_i32v at, int64_t last, int64_t step) {
  const pk_memory16 *x = (const pk_memory16 *)p;
  if (step != 1) return pk_pick_raw16_apart(p, at, last, step);
  const __m512i place = (__m512i)pk_picked_places(at, last);
  return (pk_raw16)_mm256_set_epi64x(
      (int64_t)pk_pick_word16(x, _mm512_extracti32x4_epi32(place, 3)),
      (int64_t)pk_pick_word16(x, _mm512_extracti32x4_epi32(place, 2)),
      (int64_t)pk_pick_word16(x, _mm512_extracti32x4_epi32(place, 1)),
      (int64_t)pk_pick_word16(x, _mm512_castsi512_si128(place)));
}
/* Four elements whose offsets are the halves of two words: faster than a gather on Zen 4. */
PK_INLINE __m128 pk_pick_four(const float *p, __m128i at) {
  const uint64_t a = (uint64_t)_mm_cvtsi128_si64(at), b = (uint64_t)_mm_extract_epi64(at, 1);
  return _mm_setr_ps(p[(uint32_t)a], p[a >> 32], p[(uint32_t)b], p[b >> 32]);
}
PK_RAW_PICK(raw32_apart, pk_i32v, pk_memory32)
PK_INLINE pk_i32v pk_pick_raw32(const void *p, pk_i32v at, int64_t last, int64_t step) {
  const float *x = (const float *)p;
  if (step != 1) return pk_pick_raw32_apart(p, at, last, step);
  const __m512i place = (__m512i)pk_picked_places(at, last);
  const __m256 low = _mm256_set_m128(pk_pick_four(x, _mm512_extracti32x4_epi32(place, 1)),
                                     pk_pick_four(x, _mm512_castsi512_si128(place))),
               high = _mm256_set_m128(pk_pick_four(x, _mm512_extracti32x4_epi32(place, 3)),
                                      pk_pick_four(x, _mm512_extracti32x4_epi32(place, 2)));
  return (pk_i32v)_mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
#else
PK_RAW_PICK(raw8, pk_raw8, pk_memory8)
PK_RAW_PICK(raw16, pk_raw16, pk_memory16)
PK_RAW_PICK(raw32, pk_i32v, pk_memory32)
#endif

/* Offsets of elements along several axes. False: the largest offset does not fit 32 bits. */
PK_INLINE bool pk_gathered_places(int n, const pk_i32v *at, const int64_t *last,
                                  const int64_t *step, pk_i32v *place) {
  int64_t reach = 0;
  for (int i = 0; i < n; i++) {
    int64_t span;
    if (step[i] < 0 || __builtin_mul_overflow(last[i] > 0 ? last[i] : 0, step[i], &span) ||
        __builtin_add_overflow(reach, span, &reach) || reach > INT32_MAX)
      return false;
  }
  *place = pk_splat_i32(0);
  for (int i = 0; i < n; i++)
    *place = pk_add_i32(*place, pk_mul_i32(pk_picked_places(at[i], last[i]),
                                           pk_splat_i32((int32_t)(uint32_t)step[i])));
  return true;
}
#define PK_RAW_GATHER(raw, T, memory)                                                       \
  PK_INLINE T pk_gather_##raw(const void *p, int n, const pk_i32v *at, const int64_t *last, \
                              const int64_t *step) {                                        \
    pk_i32v place;                                                                          \
    if (pk_gathered_places(n, at, last, step, &place))                                      \
      return pk_pick_##raw(p, place, INT32_MAX, 1);                                         \
    T r;                                                                                    \
    memory x[PK_LANES];                                                                     \
    int64_t from[PK_LANES] = {0};                                                           \
    for (int i = 0; i < n; i++) {                                                           \
      int32_t index[PK_LANES];                                                              \
      const pk_i32v inside = pk_picked_places(at[i], last[i]);                              \
      __builtin_memcpy(index, &inside, sizeof index);                                       \
      for (int k = 0; k < PK_LANES; k++) from[k] += index[k] * step[i];                     \
    }                                                                                       \
    for (int k = 0; k < PK_LANES; k++) x[k] = ((const memory *)p)[from[k]];                 \
    __builtin_memcpy(&r, x, sizeof r);                                                      \
    return r;                                                                               \
  }
PK_RAW_GATHER(raw8, pk_raw8, pk_memory8)
PK_RAW_GATHER(raw16, pk_raw16, pk_memory16)
PK_RAW_GATHER(raw32, pk_i32v, pk_memory32)

#define PK_LOADS(T, type, vector, widen, raw)                                                     \
  PK_INLINE vector pk_load_##T(const type *p) { return widen(pk_load_##raw(p)); }                 \
  PK_INLINE vector pk_loadn_##T(const type *p, int64_t n) {                                       \
    return n >= PK_LANES ? widen(pk_load_##raw(p)) : widen(pk_loadn_##raw(p, n));                 \
  }                                                                                               \
  PK_INLINE vector pk_loadm_##T(const type *p, pk_mask m) { return widen(pk_loadm_##raw(p, m)); } \
  PK_INLINE vector pk_window_##T(const type *p, int64_t at, int64_t n) {                          \
    return at >= 0 && n - at >= PK_LANES ? pk_load_##T(p + at)                                    \
                                         : pk_loadm_##T(p + at, pk_mask_between(-at, n - at));    \
  }                                                                                               \
  PK_INLINE vector pk_pick_##T(const type *p, pk_i32v at, int64_t last, int64_t step) {           \
    return widen(pk_pick_##raw(p, at, last, step));                                               \
  }                                                                                               \
  PK_INLINE vector pk_gather_##T(const type *p, int n, const pk_i32v *at, const int64_t *last,    \
                                 const int64_t *step) {                                           \
    return widen(pk_gather_##raw(p, n, at, last, step));                                          \
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
  }                                                                               \
  PK_INLINE void pk_store_pairs_##T(type *p, vector a, vector b, int64_t n) {     \
    pk_store_pairs_##raw(p, narrow(a), narrow(b), n);                             \
  }
PK_APART(f32, float, pk_f32v, pk_widen_f32, pk_narrow_f32, raw32)
PK_APART(i32, int32_t, pk_i32v, pk_widen_i32, pk_narrow_32, raw32)
PK_APART(u32, uint32_t, pk_i32v, pk_widen_i32, pk_narrow_32, raw32)
PK_APART(bf16, uint16_t, pk_f32v, pk_widen_bf16, pk_narrow_bf16, raw16)
PK_APART(f16, uint16_t, pk_f32v, pk_widen_f16, pk_narrow_f16, raw16)
PK_APART(u16, uint16_t, pk_i32v, pk_widen_u16, pk_narrow_16, raw16)
PK_APART(i16, int16_t, pk_i32v, pk_widen_i16, pk_narrow_16, raw16)
#undef PK_APART

/* A non-temporal store if `stream`; then `to` is aligned to a vector. */
PK_INLINE void pk_put_f32(float *to, pk_f32v v, bool stream) {
  if (stream)
    pk_stream_f32(to, v);
  else
    pk_store_f32(to, v);
}
PK_INLINE void pk_prefetch(const void *p) { __builtin_prefetch(p); }

#endif
