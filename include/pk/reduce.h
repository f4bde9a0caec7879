/* reduce.h: the maximum and minimum of many f32 vectors, lane by lane. The results are those of
 * repeated pk_max_f32 and pk_min_f32 (NaN propagates, +0 is above -0) at a lower cost, because NaN
 * and zeros are handled once, at the end.
 *
 *   pk_extreme_f32 e = pk_max_start_f32();                 -inf in every lane
 *   e = pk_max_step_f32(e, v);                             any number of times
 *   pk_f32v greatest = pk_max_finish_f32(e);               then pk_reduce_max_f32 for one number
 *
 * The functions with min are the same for the minimum. To combine several accumulators, finish
 * each one and apply pk_max_f32. */
#ifndef PK_REDUCE_H
#define PK_REDUCE_H

#include <pk/vec.h>

#if PK_PART_BYTES == 64
typedef struct {
  pk_f32v number; /* the extreme of all values that are not NaN */
  pk_mask numbers;
} pk_extreme_f32;

PK_INLINE pk_extreme_f32 pk_max_start_f32(void) {
  return (pk_extreme_f32){pk_splat_f32(-__builtin_inff()), pk_splat_mask(true)};
}
PK_INLINE pk_extreme_f32 pk_min_start_f32(void) {
  return (pk_extreme_f32){pk_splat_f32(__builtin_inff()), pk_splat_mask(true)};
}
/* VRANGEPS orders signed zeros and prefers a number to a NaN; the comparison updates the mask of
 * NaNs. */
PK_INLINE pk_extreme_f32 pk_max_step_f32(pk_extreme_f32 e, pk_f32v v) {
  e.number = (pk_f32v)_mm512_range_ps((__m512)e.number, (__m512)v, 5);
  e.numbers = _mm512_mask_cmp_ps_mask(e.numbers, (__m512)v, (__m512)v, _CMP_ORD_Q);
  return e;
}
PK_INLINE pk_extreme_f32 pk_min_step_f32(pk_extreme_f32 e, pk_f32v v) {
  e.number = (pk_f32v)_mm512_range_ps((__m512)e.number, (__m512)v, 4);
  e.numbers = _mm512_mask_cmp_ps_mask(e.numbers, (__m512)v, (__m512)v, _CMP_ORD_Q);
  return e;
}
PK_INLINE pk_f32v pk_max_finish_f32(pk_extreme_f32 e) {
  return pk_select_f32(e.numbers, e.number, pk_splat_f32(__builtin_nanf("")));
}
PK_INLINE pk_f32v pk_min_finish_f32(pk_extreme_f32 e) { return pk_max_finish_f32(e); }

#elif defined(SIMDE_ARM_NEON_A64V8_NATIVE)
/* A single instruction of the machine. */
typedef struct {
  pk_f32v number;
} pk_extreme_f32;

PK_INLINE pk_extreme_f32 pk_max_start_f32(void) {
  return (pk_extreme_f32){pk_splat_f32(-__builtin_inff())};
}
PK_INLINE pk_extreme_f32 pk_min_start_f32(void) {
  return (pk_extreme_f32){pk_splat_f32(__builtin_inff())};
}
PK_INLINE pk_extreme_f32 pk_max_step_f32(pk_extreme_f32 e, pk_f32v v) {
  e.number = pk_max_f32(e.number, v);
  return e;
}
PK_INLINE pk_extreme_f32 pk_min_step_f32(pk_extreme_f32 e, pk_f32v v) {
  e.number = pk_min_f32(e.number, v);
  return e;
}
PK_INLINE pk_f32v pk_max_finish_f32(pk_extreme_f32 e) { return e.number; }
PK_INLINE pk_f32v pk_min_finish_f32(pk_extreme_f32 e) { return e.number; }

#else
typedef struct {
  pk_f32v number; /* the extreme of all values that are not NaN, regardless of the sign of zeros */
  pk_i32v bits;   /* sign bit: whether all (max) or some (min) values have it */
  pk_mask nans;
} pk_extreme_f32;

PK_INLINE pk_extreme_f32 pk_max_start_f32(void) {
  return (pk_extreme_f32){pk_splat_f32(-__builtin_inff()), pk_splat_i32(-1), pk_splat_mask(false)};
}
PK_INLINE pk_extreme_f32 pk_min_start_f32(void) {
  return (pk_extreme_f32){pk_splat_f32(__builtin_inff()), pk_splat_i32(0), pk_splat_mask(false)};
}
/* The fast forms return their second operand if one is NaN. */
PK_INLINE pk_extreme_f32 pk_max_step_f32(pk_extreme_f32 e, pk_f32v v) {
  e.number = pk_max_fast_f32(v, e.number);
  e.bits = pk_and_i32(e.bits, pk_bitcast_f32_i32(v));
  e.nans = pk_or_mask(e.nans, pk_isnan_f32(v));
  return e;
}
PK_INLINE pk_extreme_f32 pk_min_step_f32(pk_extreme_f32 e, pk_f32v v) {
  e.number = pk_min_fast_f32(v, e.number);
  e.bits = pk_or_i32(e.bits, pk_bitcast_f32_i32(v));
  e.nans = pk_or_mask(e.nans, pk_isnan_f32(v));
  return e;
}
/* If 0 is the greatest, values with a positive sign are zeros; if it is the least, those with a
 * negative one. */
PK_INLINE pk_f32v pk_max_finish_f32(pk_extreme_f32 e) {
  pk_f32v zero = pk_bitcast_i32_f32(pk_and_constant(e.bits, INT32_MIN));
  pk_f32v number = pk_select_f32(pk_eq_f32(e.number, zero), zero, e.number);
  return pk_select_f32(e.nans, pk_splat_f32(__builtin_nanf("")), number);
}
PK_INLINE pk_f32v pk_min_finish_f32(pk_extreme_f32 e) { return pk_max_finish_f32(e); }
#endif

#endif
