/* vec/wide_divide.h: quotients and remainders of f64, i64 and u64 in vectors. Included by
 * vec/wide.h only. The results are exact, so they are the same at every width, and for one
 * element. */
#ifndef PK_VEC_WIDE_DIVIDE_H
#define PK_VEC_WIDE_DIVIDE_H

/* -- remainders of f64: one step of a long division, whose quotient is an integer n and whose rest
 * has no more bits than b. n is exact below `limit`; without a fused multiply-add n * b is made of
 * two products, each of at most 53 bits. */

#if PK_WIDE_FMA
#define PK_QUOTIENT_LIMIT 0x1p51
#define PK_DIVIDEND_LIMIT __builtin_inf()
#else
#define PK_QUOTIENT_LIMIT 0x1p25
#define PK_DIVIDEND_LIMIT 0x1p1000
#endif
/* x - n b for the integer n nearest to x / b. */
PK_INLINE pk_f64p pk_rest_part(pk_f64p x, pk_f64p n, pk_f64p b) {
#if PK_WIDE_FMA
  return pk_muladd_part(-n, b, x);
#else
  const pk_f64p high = (pk_f64p)((pk_u64p)b >> 26 << 26), low = b - high;
  return (x - n * high) - n * low;
#endif
}
/* The operands for which pk_wide_rem_part is exact. */
PK_INLINE pk_i64p pk_is_plain_rem_part(pk_f64p a, pk_f64p b) {
  const pk_f64p x = pk_size_part(a), y = pk_size_part(b);
  return (x / y < PK_QUOTIENT_LIMIT) & (x < PK_DIVIDEND_LIMIT) & (y < __builtin_inf());
}
PK_INLINE pk_f64p pk_wide_rem_part(pk_f64p a, pk_f64p b) {
  const pk_f64p x = pk_size_part(a), y = pk_size_part(b);
  pk_f64p n;
  (void)pk_nearest_part(x / y, &n);
  const pk_f64p rest = pk_rest_part(x, n, y);
  return pk_signed_part(PK_PICK(rest < 0, rest + y, rest), a);
}
PK_WIDE_PLAIN_PAIR(rem, __builtin_fmod)
/* A remainder has the sign of b, even if it is 0. */
PK_INLINE pk_f64p pk_mod_of_rem_part(pk_f64p r, pk_f64p b) {
  const pk_i64p apart = ((r < 0) & (b > 0)) | ((r > 0) & (b < 0));
  return PK_PICK(r == 0, pk_signed_part((pk_f64p){0}, b), PK_PICK(apart, r + b, r));
}
static inline double pks_mod_f64(double a, double b) {
  return pk_mod_of_rem_part(pk_constant_part(pks_rem_f64(a, b)), pk_constant_part(b))[0];
}
static inline pk_f64v pk_mod_f64(pk_f64v a, pk_f64v b) {
  const pk_f64v r = pk_rem_f64(a, b);
  PK_EACH_WIDE(a.part[k] = pk_mod_of_rem_part(r.part[k], b.part[k]);)
  return a;
}

/* -- the floor of the exact quotient, which is one less than a / b if that was rounded up to an
 * integer; from 2^53 on the rounded quotient */

#if PK_WIDE_FMA
PK_INLINE pk_f64p pk_wide_floordiv_part(pk_f64p a, pk_f64p b) {
  const pk_f64p quotient = a / b, whole = PK_WIDE_ROUND(quotient, floor, 9),
                rest = pk_muladd_part(-whole, b, a);
  const pk_i64p less = ((rest < 0) & (b > 0)) | ((rest > 0) & (b < 0));
  return PK_PICK(pk_size_part(quotient) <= 0x1p53, PK_PICK(less, whole - 1, whole), quotient);
}
PK_WIDE_PAIRWISE(floordiv)
#else
static inline double pks_floordiv_f64(double a, double b) {
  return pk_f64_floor_quotient(a, b, 0x1p53);
}
PK_WIDE_LANE2(pk_floordiv_f64, pk_f64v, double, pks_floordiv_f64)
#endif

/* -- 64-bit integers, in vectors if one instruction converts them to floats and back; otherwise the
 * divider of the machine is faster (Zen 4: 1.7 ns per element, 2.7 in vectors of 32 bytes). The
 * quotient of two floats has an error of at most 2^13, and the quotient of the remainder an error
 * of at most one. 1 / b is a separate value, so that it is computed once if b is invariant. */

#if PK_PART_BYTES == 64
PK_INLINE pk_u64p pk_quotient_part(pk_u64p a, pk_u64p b) {
  const pk_f64p inverse = 1 / __builtin_convertvector(b, pk_f64p),
                guess = __builtin_convertvector(a, pk_f64p) * inverse,
                most = pk_constant_part(0x1.fffffffffffffp63);
  const pk_f64p within = PK_PICK(guess < most, guess, most);
  const pk_u64p first = (pk_u64p)_mm512_cvtpd_epu64((__m512d)within);
  const pk_i64p rest = (pk_i64p)(a - first * b);
  const pk_f64p more = __builtin_convertvector(rest, pk_f64p) * inverse;
  const pk_u64p second = (pk_u64p)_mm512_cvtpd_epi64((__m512d)more);
  const pk_u64p below = (pk_u64p)((rest - (pk_i64p)(second * b)) >> 63);
  const pk_u64p large = (pk_u64p)((pk_i64p)b < 0), once = (pk_u64p)(a >= b) & 1;
  const pk_u64p quotient = ((first + second + below) & ~large) | (once & large);
  return quotient | (pk_u64p)(b == 0);
}
/* Signs are removed and restored in unsigned arithmetic, which wraps. */
PK_INLINE pk_i64p pk_signed_quotient_part(pk_i64p a, pk_i64p b) {
  const pk_u64p sa = (pk_u64p)(a >> 63), sb = (pk_u64p)(b >> 63), sign = sa ^ sb;
  const pk_u64p size = pk_quotient_part(((pk_u64p)a ^ sa) - sa, ((pk_u64p)b ^ sb) - sb);
  return (pk_i64p)((size ^ sign) - sign) | (pk_i64p)(b == 0);
}
PK_INLINE pk_i64v pk_div_u64(pk_i64v a, pk_i64v b) {
  PK_EACH_WIDE(a.part[k] = (pk_i64p)pk_quotient_part((pk_u64p)a.part[k], (pk_u64p)b.part[k]);)
  return a;
}
PK_INLINE pk_i64v pk_div_i64(pk_i64v a, pk_i64v b) {
  PK_EACH_WIDE(a.part[k] = pk_signed_quotient_part(a.part[k], b.part[k]);)
  return a;
}
/* By zero the product is 0 and a remains. */
PK_INLINE pk_i64v pk_rest_i64(pk_i64v a, pk_i64v quotient, pk_i64v b) {
  return pk_sub_i64(a, pk_mul_i64(quotient, b));
}
PK_INLINE pk_i64v pk_rem_i64(pk_i64v a, pk_i64v b) { return pk_rest_i64(a, pk_div_i64(a, b), b); }
PK_INLINE pk_i64v pk_rem_u64(pk_i64v a, pk_i64v b) { return pk_rest_i64(a, pk_div_u64(a, b), b); }
PK_INLINE pk_i64v pk_floordiv_i64(pk_i64v a, pk_i64v b) {
  const pk_i64v q = pk_div_i64(a, b), r = pk_rest_i64(a, q, b), zero = pk_splat_i64(0);
  const pk_mask apart = pk_lt_i64(pk_xor_i64(r, b), zero),
                less = pk_and_mask(pk_and_mask(apart, pk_ne_i64(r, zero)), pk_ne_i64(b, zero));
  return pk_select_i64(less, pk_sub_i64(q, pk_splat_i64(1)), q);
}
PK_INLINE pk_i64v pk_mod_i64(pk_i64v a, pk_i64v b) {
  return pk_rest_i64(a, pk_floordiv_i64(a, b), b);
}
PK_INLINE pk_i64v pk_floordiv_u64(pk_i64v a, pk_i64v b) { return pk_div_u64(a, b); }
PK_INLINE pk_i64v pk_mod_u64(pk_i64v a, pk_i64v b) { return pk_rem_u64(a, b); }

/* Division by a constant other than 0, 1 and -1, as in i32.h: its reciprocal has 65 bits. */
__extension__ typedef unsigned __int128 pk_u128;
/* The upper half of the product. */
PK_INLINE pk_u64p pk_mulhi_part(pk_u64p a, const uint64_t b) {
  const __m512i low = _mm512_set1_epi64((int64_t)(b & UINT32_MAX)),
                high = _mm512_set1_epi64((int64_t)(b >> 32)), upper = (__m512i)(a >> 32);
  const pk_u64p middle = (pk_u64p)_mm512_mul_epu32((__m512i)a, high) +
                         ((pk_u64p)_mm512_mul_epu32((__m512i)a, low) >> 32),
                other = (pk_u64p)_mm512_mul_epu32(upper, low) + (middle & UINT32_MAX);
  return (pk_u64p)_mm512_mul_epu32(upper, high) + (middle >> 32) + (other >> 32);
}
PK_INLINE pk_u64p pk_quotient_constant_part(pk_u64p a, const uint64_t d) {
  const int bits = 64 - __builtin_clzll(d - 1);
  const uint64_t factor = (uint64_t)((((((pk_u128)1 << bits) - d) << 64) / d) + 1);
  const pk_u64p high = pk_mulhi_part(a, factor);
  return (((a - high) >> 1) + high) >> (bits - 1);
}
PK_INLINE pk_u64p pk_sized_quotient_part(pk_u64p x, pk_u64p flip, const int64_t d) {
  return pk_quotient_constant_part(x ^ flip, d < 0 ? 0 - (uint64_t)d : (uint64_t)d);
}
PK_INLINE pk_i64v pk_div_constant_u64(pk_i64v a, const uint64_t d) {
  PK_EACH_WIDE(a.part[k] = (pk_i64p)pk_quotient_constant_part((pk_u64p)a.part[k], d);)
  return a;
}
PK_INLINE pk_i64v pk_div_constant_i64(pk_i64v a, const int64_t d) {
  PK_EACH_WIDE({
    const pk_u64p x = (pk_u64p)a.part[k], negative = (pk_u64p)(a.part[k] >> 63),
                  sign = d < 0 ? ~negative : negative;
    const pk_u64p q = pk_sized_quotient_part((x ^ negative) - negative, (pk_u64p){0}, d);
    a.part[k] = (pk_i64p)((q ^ sign) - sign);
  })
  return a;
}
/* With x = a, or x = -a if d is negative: for a negative x, the complement of the quotient of its
 * complement. */
PK_INLINE pk_i64v pk_floordiv_constant_i64(pk_i64v a, const int64_t d) {
  PK_EACH_WIDE({
    const pk_u64p x = (pk_u64p)a.part[k];
    const pk_u64p negative = (pk_u64p)(d < 0 ? a.part[k] > 0 : a.part[k] < 0);
    a.part[k] = (pk_i64p)(pk_sized_quotient_part(d < 0 ? 0 - x : x, negative, d) ^ negative);
  })
  return a;
}
#define PK_WIDE_BY_CONSTANT(name, quotient, T, type)                    \
  PK_INLINE pk_i64v pk_##name##_constant_##T(pk_i64v a, const type d) { \
    const pk_i64v divisor = pk_splat_i64((int64_t)d);                   \
    return pk_rest_i64(a, pk_##quotient##_constant_##T(a, d), divisor); \
  }
PK_WIDE_BY_CONSTANT(rem, div, i64, int64_t)
PK_WIDE_BY_CONSTANT(mod, floordiv, i64, int64_t)
PK_WIDE_BY_CONSTANT(rem, div, u64, uint64_t)
PK_WIDE_BY_CONSTANT(mod, div, u64, uint64_t)
PK_INLINE pk_i64v pk_floordiv_constant_u64(pk_i64v a, const uint64_t d) {
  return pk_div_constant_u64(a, d);
}
#else
PK_WIDE_INTEGER2(div)
PK_WIDE_INTEGER2(rem)
PK_WIDE_INTEGER2(floordiv)
PK_WIDE_INTEGER2(mod)
#define PK_WIDE_BY_CONSTANT(name)                                           \
  PK_INLINE pk_i64v pk_##name##_constant_i64(pk_i64v a, const int64_t d) {  \
    return pk_##name##_i64(a, pk_splat_i64(d));                             \
  }                                                                         \
  PK_INLINE pk_i64v pk_##name##_constant_u64(pk_i64v a, const uint64_t d) { \
    return pk_##name##_u64(a, pk_splat_i64((int64_t)d));                    \
  }
PK_WIDE_BY_CONSTANT(div)
PK_WIDE_BY_CONSTANT(rem)
PK_WIDE_BY_CONSTANT(floordiv)
PK_WIDE_BY_CONSTANT(mod)
#endif
#undef PK_WIDE_BY_CONSTANT

#endif
