/* f8.h: f8e4m3fn and f8e5m2 as they lie in memory (uint8_t), to and from float. Narrowing rounds to
 * nearest even; what is too large becomes a NaN in f8e4m3fn, which has no infinity, and an infinity
 * in f8e5m2. */
#ifndef PK_F8_H
#define PK_F8_H

#include <pk/half.h>

/* `stored` fraction bits below an exponent of bias `bias`. */
static inline float pk_f32_from_f8(uint8_t x, int stored, int bias) {
  const uint32_t sign = (uint32_t)(x & 0x80) << 24, rest = x & 0x7fu;
  const uint32_t normal = (rest << (23 - stored)) + ((uint32_t)(127 - bias) << 23);
  const uint32_t small =
      pk_bits_of_f32((float)rest * pk_f32_of_bits((uint32_t)(128 - bias - stored) << 23));
  return pk_f32_of_bits((rest >> stored ? normal : small) | sign);
}

/* The bits without a sign, before what is too large is seen to. */
static inline uint32_t pk_f8_magnitude(float x, int stored, int bias) {
  const uint32_t rest = pk_bits_of_f32(x) & 0x7fffffffu, shift = (uint32_t)(23 - stored);
  const uint32_t magic = (uint32_t)(151 - bias - stored)
                         << 23; /* its last place is the least subnormal */
  if (rest < (uint32_t)(128 - bias) << 23)
    return pk_bits_of_f32(pk_f32_of_bits(rest) + pk_f32_of_bits(magic)) - magic;
  return (rest - ((uint32_t)(127 - bias) << 23) + (1u << (shift - 1)) - 1 + (rest >> shift & 1)) >>
         shift;
}

static inline float pk_f32_from_f8e4m3fn(uint8_t x) {
  return (x & 0x7f) == 0x7f ? pk_f32_of_bits(0x7fc00000u | (uint32_t)(x & 0x80) << 24)
                            : pk_f32_from_f8(x, 3, 7);
}
static inline uint8_t pk_f8e4m3fn_from_f32(float x) {
  const uint32_t magnitude = pk_f8_magnitude(x, 3, 7);
  return (uint8_t)((magnitude > 0x7e ? 0x7f : magnitude) | pk_bits_of_f32(x) >> 31 << 7);
}
static inline float pk_f32_from_f8e5m2(uint8_t x) { return pk_f32_from_f16((uint16_t)(x << 8)); }
static inline uint8_t pk_f8e5m2_from_f32(float x) {
  const uint32_t magnitude = pk_f8_magnitude(x, 2, 15),
                 nan = (pk_bits_of_f32(x) & 0x7fffffffu) > 0x7f800000u;
  return (uint8_t)((nan                ? 0x7e
                    : magnitude > 0x7c ? 0x7c
                                       : magnitude) |
                   pk_bits_of_f32(x) >> 31 << 7);
}

#endif
