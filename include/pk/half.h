/* half.h: conversions of bf16 and f16 in memory (uint16_t) from and to float. Narrowing rounds
 * to nearest even; a NaN becomes a quiet NaN. */
#ifndef PK_HALF_H
#define PK_HALF_H

#include <stdint.h>

static inline uint32_t pk_bits_of_f32(float x) {
  union {
    float value;
    uint32_t bits;
  } u = {.value = x};
  return u.bits;
}

static inline float pk_f32_of_bits(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } u = {.bits = bits};
  return u.value;
}

static inline uint64_t pk_bits_of_f64(double x) {
  union {
    double value;
    uint64_t bits;
  } u = {.value = x};
  return u.bits;
}

static inline double pk_f64_of_bits(uint64_t bits) {
  union {
    uint64_t bits;
    double value;
  } u = {.bits = bits};
  return u.value;
}

static inline float pk_f32_from_bf16(uint16_t x) { return pk_f32_of_bits((uint32_t)x << 16); }

static inline uint16_t pk_bf16_from_f32(float x) {
  uint32_t bits = pk_bits_of_f32(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#if defined __F16C__ && defined __has_builtin
#if __has_builtin(__builtin_ia32_vcvtph2ps) && __has_builtin(__builtin_ia32_vcvtps2ph)
/* new versions of Clang do not have the first */
#define PK_HALF_BUILTIN
#endif
#endif

#ifdef PK_HALF_BUILTIN
/* _cvtsh_ss of immintrin.h, a header that takes long to compile. */
static inline float pk_f32_from_f16(uint16_t x) {
  typedef short shorts __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps((shorts){(short)x})[0];
}
#else
static inline float pk_f32_from_f16(uint16_t x) {
  uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = x & 0x7fffu;
  if (rest < 0x400) return pk_f32_of_bits(pk_bits_of_f32((float)rest * 0x1p-24f) | sign);
  uint32_t bits = (rest << 13) + (112u << 23);
  if (rest >= 0x7c00) bits += 112u << 23;
  if (rest > 0x7c00) bits |= 0x400000u;
  return pk_f32_of_bits(bits | sign);
}
#endif

#ifdef PK_HALF_BUILTIN
/* _cvtss_sh, to nearest even. */
static inline uint16_t pk_f16_from_f32(float x) {
  typedef float floats __attribute__((vector_size(16)));
  return (uint16_t)__builtin_ia32_vcvtps2ph((floats){x}, 0)[0];
}
#else
static inline uint16_t pk_f16_from_f32(float x) {
  uint32_t bits = pk_bits_of_f32(x), rest = bits & 0x7fffffffu, half;
  if (rest > 0x7f800000u) {
    half = 0x7e00u | (rest >> 13 & 0x3ff);
  } else if (rest >= 0x477ff000u) {
    half = 0x7c00;
  } else if (rest < 0x38800000u) {
    half = pk_bits_of_f32(pk_f32_of_bits(rest) + 0.5f) -
           0x3f000000u; /* the last place of 0.5 is f16's least subnormal */
  } else {
    half = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1)) >> 13;
  }
  return (uint16_t)(half | bits >> 31 << 15);
}
#endif

#endif
