/* scalar.h: the operations of vec.h on C scalars, with the same bits as result:
 * pks_<operation>_<dtype>.
 *
 * float stands for every float; int32_t for i2 to i32; uint32_t for u2 to u32;
 * bool for bool. Functions of f32 are one lane of the vector's; those of vec/math_more.h are there.
 */
#ifndef PK_SCALAR_H
#define PK_SCALAR_H

#include <pk/f8.h>
#include <pk/vec.h>

/* -- f32 */

PK_INLINE float pks_add_f32(float a, float b) { return a + b; }
PK_INLINE float pks_sub_f32(float a, float b) { return a - b; }
PK_INLINE float pks_mul_f32(float a, float b) { return a * b; }
PK_INLINE float pks_div_f32(float a, float b) { return a / b; }
PK_INLINE float pks_neg_f32(float a) { return -a; }
PK_INLINE float pks_abs_f32(float a) { return __builtin_fabsf(a); }
PK_INLINE float pks_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PK_INLINE float pks_reciprocal_f32(float a) { return 1 / a; }
PK_INLINE float pks_max_f32(float a, float b) {
  return a > b    ? a
         : a < b  ? b
         : a == b ? pk_f32_of_bits(pk_bits_of_f32(a) & pk_bits_of_f32(b))
                  : a + b;
}
PK_INLINE float pks_min_f32(float a, float b) {
  return a < b    ? a
         : a > b  ? b
         : a == b ? pk_f32_of_bits(pk_bits_of_f32(a) | pk_bits_of_f32(b))
                  : a + b;
}
PKS_UNARY(sign)
PKS_UNARY(sqrt)
PKS_UNARY(rsqrt)
PKS_UNARY(floor)
PKS_UNARY(ceil)
PKS_UNARY(round)
PKS_UNARY(trunc)
PKS_UNARY(exp)
PKS_UNARY(exp2)
PKS_UNARY(expm1)
PKS_UNARY(log)
PKS_UNARY(log2)
PKS_UNARY(log1p)
PKS_UNARY(tanh)
PKS_UNARY(logistic)
PKS_UNARY(erf)
PKS_UNARY(atan)
PKS_UNARY(softplus)
PKS_UNARY(log_sigmoid)
PKS_UNARY(sin)
PKS_UNARY(cos)
PKS_UNARY(tan)
PKS_BINARY(floordiv)
PKS_BINARY(pow)
PK_INLINE float pks_rem_f32(float a, float b) { return pk_rem_lane(a, b); }
static inline float pks_mod_f32(float a, float b) {
  float r = pk_rem_lane(a, b);
  if (r == 0) return __builtin_copysignf(r, b);
  return (b < 0 && r > 0) || (b > 0 && r < 0) ? r + b : r;
}
PK_INLINE bool pks_isnan_f32(float a) { return a != a; }
PK_INLINE bool pks_isinf_f32(float a) { return __builtin_fabsf(a) == __builtin_inff(); }
PK_INLINE bool pks_isfinite_f32(float a) { return __builtin_fabsf(a) < __builtin_inff(); }

/* -- integers. One signed and one unsigned definition; types narrower than 32 bits are wrapped
 * afterwards, except the operations below. */

PK_INLINE int32_t pks_wrap_i8(int32_t a) { return (int8_t)(uint8_t)a; }
PK_INLINE uint32_t pks_wrap_u8(uint32_t a) { return (uint8_t)a; }
PK_INLINE int32_t pks_wrap_i16(int32_t a) { return (int16_t)(uint16_t)a; }
PK_INLINE uint32_t pks_wrap_u16(uint32_t a) { return (uint16_t)a; }

PK_INLINE int32_t pks_add_i32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
PK_INLINE int32_t pks_sub_i32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
PK_INLINE int32_t pks_mul_i32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }
PK_INLINE int32_t pks_neg_i32(int32_t a) { return (int32_t)(0 - (uint32_t)a); }
PK_INLINE int32_t pks_abs_i32(int32_t a) { return a < 0 ? pks_neg_i32(a) : a; }
PK_INLINE int32_t pks_sign_i32(int32_t a) { return (a > 0) - (a < 0); }
PK_INLINE int32_t pks_not_i32(int32_t a) { return ~a; }
PK_INLINE int32_t pks_and_i32(int32_t a, int32_t b) { return a & b; }
PK_INLINE int32_t pks_or_i32(int32_t a, int32_t b) { return a | b; }
PK_INLINE int32_t pks_xor_i32(int32_t a, int32_t b) { return a ^ b; }
PK_INLINE int32_t pks_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
PK_INLINE int32_t pks_min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
PK_INLINE int32_t pks_div_i32(int32_t a, int32_t b) {
  return b == 0 ? -1 : b == -1 ? pks_neg_i32(a) : a / b;
}
PK_INLINE int32_t pks_rem_i32(int32_t a, int32_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
PK_INLINE int32_t pks_floordiv_i32(int32_t a, int32_t b) {
  int32_t r = pks_rem_i32(a, b);
  return pks_div_i32(a, b) - (b != 0 && r != 0 && (r < 0) != (b < 0));
}
PK_INLINE int32_t pks_mod_i32(int32_t a, int32_t b) {
  int32_t r = pks_rem_i32(a, b);
  return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
PK_INLINE int32_t pks_shl_i32(int32_t a, int32_t b) {
  return (uint32_t)b < 32 ? (int32_t)((uint32_t)a << b) : 0;
}
PK_INLINE int32_t pks_shr_i32(int32_t a, int32_t b) { return a >> ((uint32_t)b < 32 ? b : 31); }
PK_INLINE int32_t pks_ushr_i32(int32_t a, int32_t b) {
  return (uint32_t)b < 32 ? (int32_t)((uint32_t)a >> b) : 0;
}
PK_INLINE int32_t pks_population_count_i32(int32_t a) { return __builtin_popcount((uint32_t)a); }
PK_INLINE int32_t pks_clz_i32(int32_t a) { return a == 0 ? 32 : __builtin_clz((uint32_t)a); }

/* An unsigned dtype of whole words: u32, and u64 in vec/wide.h. count and leading are the
 * compiler's builtins. */
#define PK_SCALAR_UNSIGNED(T, type, bits, count, leading)                          \
  PK_INLINE type pks_add_##T(type a, type b) { return a + b; }                     \
  PK_INLINE type pks_sub_##T(type a, type b) { return a - b; }                     \
  PK_INLINE type pks_mul_##T(type a, type b) { return a * b; }                     \
  PK_INLINE type pks_neg_##T(type a) { return 0 - a; }                             \
  PK_INLINE type pks_abs_##T(type a) { return a; }                                 \
  PK_INLINE type pks_sign_##T(type a) { return a > 0; }                            \
  PK_INLINE type pks_not_##T(type a) { return ~a; }                                \
  PK_INLINE type pks_and_##T(type a, type b) { return a & b; }                     \
  PK_INLINE type pks_or_##T(type a, type b) { return a | b; }                      \
  PK_INLINE type pks_xor_##T(type a, type b) { return a ^ b; }                     \
  PK_INLINE type pks_max_##T(type a, type b) { return a > b ? a : b; }             \
  PK_INLINE type pks_min_##T(type a, type b) { return a < b ? a : b; }             \
  PK_INLINE type pks_div_##T(type a, type b) { return b == 0 ? (type)-1 : a / b; } \
  PK_INLINE type pks_rem_##T(type a, type b) { return b == 0 ? a : a % b; }        \
  PK_INLINE type pks_floordiv_##T(type a, type b) { return pks_div_##T(a, b); }    \
  PK_INLINE type pks_mod_##T(type a, type b) { return pks_rem_##T(a, b); }         \
  PK_INLINE type pks_shl_##T(type a, type b) { return b < bits ? a << b : 0; }     \
  PK_INLINE type pks_shr_##T(type a, type b) { return b < bits ? a >> b : 0; }     \
  PK_INLINE type pks_ushr_##T(type a, type b) { return pks_shr_##T(a, b); }        \
  PK_INLINE type pks_population_count_##T(type a) { return (type)count(a); }       \
  PK_INLINE type pks_clz_##T(type a) { return a == 0 ? bits : (type)leading(a); }  \
  static inline type pks_pow_##T(type a, type b) {                                 \
    type r = 1;                                                                    \
    for (; b != 0; b >>= 1, a *= a)                                                \
      if (b & 1) r *= a;                                                           \
    return r;                                                                      \
  }
PK_SCALAR_UNSIGNED(u32, uint32_t, 32, __builtin_popcount, __builtin_clz)
static inline int32_t pks_pow_i32(int32_t a, int32_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0;
  return (int32_t)pks_pow_u32((uint32_t)a, (uint32_t)b);
}

PK_INLINE int32_t pks_shl_i8(int32_t a, int32_t b) { return pks_wrap_i8(pks_shl_i32(a, b)); }
PK_INLINE uint32_t pks_shl_u8(uint32_t a, uint32_t b) { return pks_wrap_u8(pks_shl_u32(a, b)); }
PK_INLINE int32_t pks_shl_i16(int32_t a, int32_t b) { return pks_wrap_i16(pks_shl_i32(a, b)); }
PK_INLINE uint32_t pks_shl_u16(uint32_t a, uint32_t b) { return pks_wrap_u16(pks_shl_u32(a, b)); }
PK_INLINE int32_t pks_shr_i8(int32_t a, int32_t b) { return pks_shr_i32(a, b); }
PK_INLINE uint32_t pks_shr_u8(uint32_t a, uint32_t b) { return pks_shr_u32(a, b); }
PK_INLINE int32_t pks_shr_i16(int32_t a, int32_t b) { return pks_shr_i32(a, b); }
PK_INLINE uint32_t pks_shr_u16(uint32_t a, uint32_t b) { return pks_shr_u32(a, b); }
PK_INLINE int32_t pks_ushr_i8(int32_t a, int32_t b) {
  return pks_wrap_i8(pks_ushr_i32(a & 0xff, b));
}
PK_INLINE uint32_t pks_ushr_u8(uint32_t a, uint32_t b) { return pks_shr_u32(a, b); }
PK_INLINE int32_t pks_ushr_i16(int32_t a, int32_t b) {
  return pks_wrap_i16(pks_ushr_i32(a & 0xffff, b));
}
PK_INLINE uint32_t pks_ushr_u16(uint32_t a, uint32_t b) { return pks_shr_u32(a, b); }
PK_INLINE int32_t pks_clz_i8(int32_t a) { return pks_clz_i32(a & 0xff) - 24; }
PK_INLINE uint32_t pks_clz_u8(uint32_t a) { return pks_clz_u32(a) - 24; }
PK_INLINE int32_t pks_clz_i16(int32_t a) { return pks_clz_i32(a & 0xffff) - 16; }
PK_INLINE uint32_t pks_clz_u16(uint32_t a) { return pks_clz_u32(a) - 16; }
PK_INLINE int32_t pks_population_count_i8(int32_t a) { return pks_population_count_i32(a & 0xff); }
PK_INLINE uint32_t pks_population_count_u8(uint32_t a) { return pks_population_count_u32(a); }
PK_INLINE int32_t pks_population_count_i16(int32_t a) {
  return pks_population_count_i32(a & 0xffff);
}
PK_INLINE uint32_t pks_population_count_u16(uint32_t a) { return pks_population_count_u32(a); }

/* -- bool */

PK_INLINE bool pks_and_mask(bool a, bool b) { return a && b; }
PK_INLINE bool pks_or_mask(bool a, bool b) { return a || b; }
PK_INLINE bool pks_xor_mask(bool a, bool b) { return a != b; }
PK_INLINE bool pks_not_mask(bool a) { return !a; }
PK_INLINE bool pks_eq_mask(bool a, bool b) { return a == b; }
PK_INLINE bool pks_ne_mask(bool a, bool b) { return a != b; }
PK_INLINE bool pks_lt_mask(bool a, bool b) { return a < b; }
PK_INLINE bool pks_le_mask(bool a, bool b) { return a <= b; }
PK_INLINE bool pks_gt_mask(bool a, bool b) { return a > b; }
PK_INLINE bool pks_ge_mask(bool a, bool b) { return a >= b; }
PK_INLINE float pks_select_f32(bool c, float a, float b) { return c ? a : b; }
PK_INLINE int32_t pks_select_i32(bool c, int32_t a, int32_t b) { return c ? a : b; }
PK_INLINE uint32_t pks_select_u32(bool c, uint32_t a, uint32_t b) { return c ? a : b; }
PK_INLINE bool pks_select_mask(bool c, bool a, bool b) { return c ? a : b; }

/* -- comparisons */

#define PKS_COMPARE(name, op)                                                  \
  PK_INLINE bool pks_##name##_f32(float a, float b) { return a op b; }         \
  PK_INLINE bool pks_##name##_i32(int32_t a, int32_t b) { return a op b; }     \
  PK_INLINE bool pks_##name##_u32(uint32_t a, uint32_t b) { return a op b; }   \
  PK_INLINE bool pks_##name##_i32_i64(int32_t a, int64_t b) { return a op b; } \
  PK_INLINE bool pks_##name##_u32_i64(uint32_t a, int64_t b) { return (int64_t)a op b; }
PKS_COMPARE(eq, ==)
PKS_COMPARE(ne, !=)
PKS_COMPARE(lt, <)
PKS_COMPARE(le, <=)
PKS_COMPARE(gt, >)
PKS_COMPARE(ge, >=)

/* -- conversions */

PK_INLINE float pks_cast_i32_f32(int32_t a) { return (float)a; }
PK_INLINE float pks_cast_u32_f32(uint32_t a) { return (float)a; }
PK_INLINE int32_t pks_cast_f32_range(float a, int32_t least, int32_t greatest) {
  if (a != a) return 0;
  return a <= (float)least ? least : a >= (float)greatest ? greatest : (int32_t)a;
}
PK_INLINE int32_t pks_cast_f32_i8(float a) { return pks_cast_f32_range(a, -128, 127); }
PK_INLINE uint32_t pks_cast_f32_u8(float a) { return (uint32_t)pks_cast_f32_range(a, 0, 255); }
PK_INLINE int32_t pks_cast_f32_i16(float a) { return pks_cast_f32_range(a, -32768, 32767); }
PK_INLINE uint32_t pks_cast_f32_u16(float a) { return (uint32_t)pks_cast_f32_range(a, 0, 65535); }
PK_INLINE int32_t pks_cast_f32_i32(float a) { return pks_cast_f32_range(a, INT32_MIN, INT32_MAX); }
PK_INLINE uint32_t pks_cast_f32_u32(float a) {
  return !(a > 0) ? 0 : a >= 0x1p32f ? UINT32_MAX : (uint32_t)a;
}
PK_INLINE bool pks_cast_f32_mask(float a) { return a != 0; }
PK_INLINE bool pks_cast_i32_mask(int32_t a) { return a != 0; }
PK_INLINE bool pks_cast_u32_mask(uint32_t a) { return a != 0; }
PK_INLINE float pks_cast_mask_f32(bool a) { return a ? 1 : 0; }
PK_INLINE int32_t pks_cast_mask_i32(bool a) { return a; }
PK_INLINE uint32_t pks_cast_mask_u32(bool a) { return a; }
PK_INLINE int32_t pks_bitcast_f32_i32(float a) { return (int32_t)pk_bits_of_f32(a); }
PK_INLINE uint32_t pks_bitcast_f32_u32(float a) { return pk_bits_of_f32(a); }
PK_INLINE float pks_bitcast_i32_f32(int32_t a) { return pk_f32_of_bits((uint32_t)a); }
PK_INLINE float pks_bitcast_u32_f32(uint32_t a) { return pk_f32_of_bits(a); }

/* Narrow floats: the bits in memory of a rounded f32, that rounded value, the value of given
 * bits, and memory. */
#define PKS_NARROW_FLOAT(T, type)                                                          \
  PK_INLINE type pks_bits_##T(float a) { return pk_##T##_from_f32(a); }                    \
  PK_INLINE float pks_round_##T(float a) { return pk_f32_from_##T(pk_##T##_from_f32(a)); } \
  PK_INLINE float pks_from_bits_##T(int32_t a) { return pk_f32_from_##T((type)a); }        \
  PK_INLINE float pks_load_##T(const type *p) { return pk_f32_from_##T(*p); }              \
  PK_INLINE void pks_store_##T(type *p, float a) { *p = pk_##T##_from_f32(a); }
PKS_NARROW_FLOAT(bf16, uint16_t)
PKS_NARROW_FLOAT(f16, uint16_t)
#define PKS_F8(T, ...) PKS_NARROW_FLOAT(T, uint8_t)
PK_F8_DTYPES(PKS_F8)
#undef PKS_F8

/* Integers of fewer than 8 bits, in the low bits of a byte. */
#define PKS_PART(I, U, bits)                                                                       \
  PK_INLINE int32_t pks_wrap_##I(int32_t a) {                                                      \
    return (int32_t)((uint32_t)a << (32 - (bits))) >> (32 - (bits));                               \
  }                                                                                                \
  PK_INLINE uint32_t pks_wrap_##U(uint32_t a) { return a & ((1u << (bits)) - 1); }                 \
  PK_INLINE int32_t pks_shl_##I(int32_t a, int32_t b) { return pks_wrap_##I(pks_shl_i32(a, b)); }  \
  PK_INLINE uint32_t pks_shl_##U(uint32_t a, uint32_t b) {                                         \
    return pks_wrap_##U(pks_shl_u32(a, b));                                                        \
  }                                                                                                \
  PK_INLINE int32_t pks_shr_##I(int32_t a, int32_t b) { return pks_shr_i32(a, b); }                \
  PK_INLINE uint32_t pks_shr_##U(uint32_t a, uint32_t b) { return pks_shr_u32(a, b); }             \
  PK_INLINE int32_t pks_ushr_##I(int32_t a, int32_t b) {                                           \
    return pks_wrap_##I((int32_t)pks_shr_u32(pks_wrap_##U((uint32_t)a), (uint32_t)b));             \
  }                                                                                                \
  PK_INLINE uint32_t pks_ushr_##U(uint32_t a, uint32_t b) { return pks_shr_u32(a, b); }            \
  PK_INLINE uint32_t pks_clz_##U(uint32_t a) { return pks_clz_u32(a) - (32 - (bits)); }            \
  PK_INLINE int32_t pks_clz_##I(int32_t a) {                                                       \
    return (int32_t)pks_clz_##U(pks_wrap_##U((uint32_t)a));                                        \
  }                                                                                                \
  PK_INLINE int32_t pks_cast_f32_##I(float a) {                                                    \
    return pks_cast_f32_range(a, -(1 << ((bits)-1)), (1 << ((bits)-1)) - 1);                       \
  }                                                                                                \
  PK_INLINE uint32_t pks_cast_f32_##U(float a) {                                                   \
    return (uint32_t)pks_cast_f32_range(a, 0, (1 << (bits)) - 1);                                  \
  }                                                                                                \
  PK_INLINE int32_t pks_load_##I(const uint8_t *p) { return pks_wrap_##I(*p); }                    \
  PK_INLINE uint32_t pks_load_##U(const uint8_t *p) { return pks_wrap_##U(*p); }                   \
  PK_INLINE void pks_store_##I(uint8_t *p, int32_t a) { *p = (uint8_t)pks_wrap_##U((uint32_t)a); } \
  PK_INLINE void pks_store_##U(uint8_t *p, uint32_t a) { *p = (uint8_t)pks_wrap_##U(a); }
PK_PART_DTYPES(PKS_PART)
#undef PKS_PART

/* -- memory */

PK_INLINE float pks_load_f32(const float *p) { return *p; }
PK_INLINE int32_t pks_load_i8(const int8_t *p) { return *p; }
PK_INLINE uint32_t pks_load_u8(const uint8_t *p) { return *p; }
PK_INLINE int32_t pks_load_i16(const int16_t *p) { return *p; }
PK_INLINE uint32_t pks_load_u16(const uint16_t *p) { return *p; }
PK_INLINE int32_t pks_load_i32(const int32_t *p) { return *p; }
PK_INLINE uint32_t pks_load_u32(const uint32_t *p) { return *p; }
PK_INLINE bool pks_load_bool(const uint8_t *p) { return *p != 0; }
PK_INLINE void pks_store_f32(float *p, float a) { *p = a; }
PK_INLINE void pks_store_i8(int8_t *p, int32_t a) { *p = (int8_t)(uint8_t)a; }
PK_INLINE void pks_store_u8(uint8_t *p, uint32_t a) { *p = (uint8_t)a; }
PK_INLINE void pks_store_i16(int16_t *p, int32_t a) { *p = (int16_t)(uint16_t)a; }
PK_INLINE void pks_store_u16(uint16_t *p, uint32_t a) { *p = (uint16_t)a; }
PK_INLINE void pks_store_i32(int32_t *p, int32_t a) { *p = a; }
PK_INLINE void pks_store_u32(uint32_t *p, uint32_t a) { *p = a; }
PK_INLINE void pks_store_bool(uint8_t *p, bool a) { *p = a; }

#undef PKS_UNARY
#undef PKS_BINARY
#undef PKS_COMPARE
#undef PKS_NARROW_FLOAT

#endif
