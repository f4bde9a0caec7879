/* f8.h: floats of 8 and 4 bits in memory (uint8_t), to and from float. Narrowing rounds to nearest
 * even. A value that is too large becomes an infinity in f8e5m2, the greatest number in f4e2m1fn,
 * and a NaN in the others, which have no infinity.
 *
 * Of each kind, from `stored` fraction bits below an exponent of bias `bias`:
 *   FN     NaN is all bits but the sign            FNUZ   no -0, whose bits are NaN
 *   IEEE   infinities and NaN as in an f16         SCALE  an exponent alone: no sign, no zero; NaN
 *                                                         is all bits
 *   FINITE 4 bits without NaN, which becomes -0 (as in XLA); the upper half of the byte is ignored
 */
#ifndef PK_F8_H
#define PK_F8_H

#include <pk/dtypes.h>
#include <pk/half.h>

static inline float pk_f32_from_f8(uint8_t x, int stored, int bias) {
  const uint32_t sign = (uint32_t)(x & 0x80) << 24, rest = x & 0x7fu;
  const uint32_t normal = (rest << (23 - stored)) + ((uint32_t)(127 - bias) << 23);
  const uint32_t small =
      pk_bits_of_f32((float)rest * pk_f32_of_bits((uint32_t)(128 - bias - stored) << 23));
  return pk_f32_of_bits((rest >> stored ? normal : small) | sign);
}

/* The bits without a sign, before overflow is handled. */
static inline uint32_t pk_f8_magnitude(float x, int stored, int bias) {
  const uint32_t rest = pk_bits_of_f32(x) & 0x7fffffffu, shift = (uint32_t)(23 - stored);
  const uint32_t magic = (uint32_t)(151 - bias - stored)
                         << 23; /* its last place is the least subnormal */
  if (rest < (uint32_t)(128 - bias) << 23)
    return pk_bits_of_f32(pk_f32_of_bits(rest) + pk_f32_of_bits(magic)) - magic;
  return (rest - ((uint32_t)(127 - bias) << 23) + (1u << (shift - 1)) - 1 + (rest >> shift & 1)) >>
         shift;
}

static inline uint8_t pk_f8_sign(float x) { return (uint8_t)(pk_bits_of_f32(x) >> 31 << 7); }

static inline float pk_f32_from_FN(uint8_t x, int stored, int bias) {
  return (x & 0x7f) == 0x7f ? pk_f32_of_bits(0x7fc00000u | (uint32_t)(x & 0x80) << 24)
                            : pk_f32_from_f8(x, stored, bias);
}
static inline uint8_t pk_FN_from_f32(float x, int stored, int bias) {
  const uint32_t magnitude = pk_f8_magnitude(x, stored, bias);
  return (uint8_t)((magnitude > 0x7e ? 0x7f : magnitude) | pk_f8_sign(x));
}

static inline float pk_f32_from_IEEE(uint8_t x, int stored, int bias) {
  (void)bias; /* an f16's */
  return pk_f32_from_f16((uint16_t)(x << (10 - stored)));
}
static inline uint8_t pk_IEEE_from_f32(float x, int stored, int bias) {
  const uint32_t magnitude = pk_f8_magnitude(x, stored, bias),
                 nan = (pk_bits_of_f32(x) & 0x7fffffffu) > 0x7f800000u;
  return (uint8_t)((nan ? 0x7e : magnitude > 0x7c ? 0x7c : magnitude) | pk_f8_sign(x));
}

static inline float pk_f32_from_FNUZ(uint8_t x, int stored, int bias) {
  return x == 0x80 ? pk_f32_of_bits(0x7fc00000u) : pk_f32_from_f8(x, stored, bias);
}
static inline uint8_t pk_FNUZ_from_f32(float x, int stored, int bias) {
  const uint32_t magnitude = pk_f8_magnitude(x, stored, bias);
  if (magnitude > 0x7f) return 0x80;
  return (uint8_t)(magnitude ? magnitude | pk_f8_sign(x) : 0);
}

static inline float pk_f32_from_SCALE(uint8_t x, int stored, int bias) {
  const uint32_t nan = 0x7fc00000u, least = 1u << 22; /* 2^-127 is subnormal */
  (void)stored;
  (void)bias; /* an f32's */
  return pk_f32_of_bits(x == 0xff ? nan : x ? (uint32_t)x << 23 : least);
}
/* Rounds to the nearer power of two, and a tie upwards. Positive values below the least power
 * become the least power. */
static inline uint8_t pk_SCALE_from_f32(float x, int stored, int bias) {
  const uint32_t bits = pk_bits_of_f32(x);
  (void)stored;
  (void)bias;
  if (bits == 0 || bits >= 0x7f400000u) return 0xff;
  return (uint8_t)(bits < 3u << 21 ? 0 : (bits + (1u << 22)) >> 23);
}

/* In the upper half of a byte these are fp8 with 4 more bits of fraction. */
static inline float pk_f32_from_FINITE(uint8_t x, int stored, int bias) {
  return pk_f32_from_f8((uint8_t)(x << 4), stored + 4, bias);
}
static inline uint8_t pk_FINITE_from_f32(float x, int stored, int bias) {
  const uint32_t magnitude = pk_f8_magnitude(x, stored, bias);
  if (x != x) return 0x8;
  return (uint8_t)((magnitude > 0x7 ? 0x7 : magnitude) | pk_f8_sign(x) >> 4);
}

#define PK_F8_CONVERT(T, special, stored, bias)      \
  static inline float pk_f32_from_##T(uint8_t x) {   \
    return pk_f32_from_##special(x, stored, bias);   \
  }                                                  \
  static inline uint8_t pk_##T##_from_f32(float x) { \
    return pk_##special##_from_f32(x, stored, bias); \
  }
PK_F8_DTYPES(PK_F8_CONVERT)
#undef PK_F8_CONVERT

#endif
