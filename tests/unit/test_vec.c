/* Every operation of the vector layer against its scalar definition, at every width. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pk/rt.h>
#include <pk/vec.h>
#include <pk/scalar.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

static void expect(bool holds, const char *what, int at) {
  check(holds, what, "%d bytes: at %d", PK_VEC_BYTES, at);
}

/* ---- operands: specials against specials, then random bits */

enum { SPECIALS = 28, COUNT = 2048 };
static float f32_a[COUNT], f32_b[COUNT], f32_c[COUNT];
static int32_t i32_a[COUNT], i32_b[COUNT];

static uint64_t random_state = 88172645463325252u;
static uint32_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 16);
}

static const float f32_specials[SPECIALS] = {0.0f,
                                             -0.0f,
                                             1,
                                             -1,
                                             0.5f,
                                             -0.5f,
                                             1.5f,
                                             2.5f,
                                             -2.5f,
                                             127.5f,
                                             -128.5f,
                                             255.9f,
                                             3,
                                             -7,
                                             0x1p-149f,
                                             -0x1p-149f,
                                             0x1p-126f,
                                             0x1.fffffep127f,
                                             -0x1.fffffep127f,
                                             INFINITY,
                                             -INFINITY,
                                             NAN,
                                             0x1p31f,
                                             -0x1p31f,
                                             0x1p32f,
                                             0x1.fffffep31f,
                                             8388609.0f,
                                             0x1p23f};
static const int32_t i32_specials[SPECIALS] = {0,         1,
                                               -1,        2,
                                               -2,        3,
                                               -3,        7,
                                               8,         9,
                                               15,        16,
                                               17,        31,
                                               32,        33,
                                               127,       -128,
                                               255,       -32768,
                                               32767,     65535,
                                               INT32_MAX, INT32_MIN,
                                               -31,       INT32_MIN + 1,
                                               46341,     -46341};

static void fill_operands(void) {
  for (int k = 0; k < COUNT; k++) {
    bool special = k < SPECIALS * SPECIALS;
    uint32_t a = random_bits(), b = random_bits(), c = random_bits();
    if (k % 3 == 0) b = (a & 0xff800000u) | (b & 0x7fffffu); /* near one another */
    f32_a[k] = special ? f32_specials[k % SPECIALS] : pk_f32_of_bits(a);
    f32_b[k] = special ? f32_specials[k / SPECIALS] : pk_f32_of_bits(b);
    f32_c[k] = k % 5 ? pk_f32_of_bits(c) : -(f32_a[k] * f32_b[k]);
    i32_a[k] = special ? i32_specials[k % SPECIALS] : (int32_t)a >> (c & 31);
    i32_b[k] = special ? i32_specials[k / SPECIALS] : (int32_t)b >> (c >> 5 & 31);
  }
}

static bool same_f32(float a, float b) {
  return (isnan(a) && isnan(b)) || pk_bits_of_f32(a) == pk_bits_of_f32(b);
}
static void expect_f32(float got, float scalar, float want, const char *what, int at) {
  expect(same_f32(got, want), what, at);
  expect(same_f32(scalar, want), what, -1 - at);
}
static void expect_i32(int32_t got, int32_t scalar, int32_t want, const char *what, int at) {
  expect(got == want, what, at);
  expect(scalar == want, what, -1 - at);
}

/* ---- definitions, in wider arithmetic */

static float meaning_max(float a, float b) {
  return isnan(a) || isnan(b) ? NAN : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static float meaning_min(float a, float b) {
  return isnan(a) || isnan(b) ? NAN : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static float meaning_sign(float a) { return isnan(a) || a == 0 ? a : a > 0 ? 1.0f : -1.0f; }
static float meaning_mod(float a, float b) {
  float r = fmodf(a, b);
  return r == 0 ? copysignf(r, b) : r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static float meaning_floordiv_f32(float a, float b) {
  double quotient = (double)a / (double)b;
  return (float)(fabs(quotient) <= 0x1p24 ? floor(quotient) : quotient);
}
static int64_t meaning_div(int64_t a, int64_t b) { return b == 0 ? -1 : a / b; }
static int64_t meaning_rem(int64_t a, int64_t b) { return b == 0 ? a : a % b; }
static int64_t meaning_floordiv(int64_t a, int64_t b) {
  return b == 0 ? -1 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t meaning_mod_int(int64_t a, int64_t b) {
  return b == 0 ? a : a - b * meaning_floordiv(a, b);
}
static int64_t meaning_pow(int64_t a, int64_t b, bool is_signed) {
  if (is_signed && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint32_t r = 1, base = (uint32_t)a;
  for (uint64_t rest = (uint64_t)b; rest != 0; rest >>= 1, base *= base)
    if (rest & 1) r *= base;
  return r;
}
static int64_t meaning_shl(int64_t a, int64_t b, int width) {
  return b >= 0 && b < width ? (int64_t)((uint64_t)a << b) : 0;
}
static int64_t meaning_shr(int64_t a, int64_t b, int width) {
  return b >= 0 && b < width ? a >> b : a < 0 ? -1 : 0;
}
static int64_t low_bits(int64_t a, int width) { return a & (((int64_t)1 << width) - 1); }
static int64_t meaning_ushr(int64_t a, int64_t b, int width) {
  return b >= 0 && b < width ? low_bits(a, width) >> b : 0;
}
static int64_t meaning_clz(int64_t a, int width) {
  int64_t zeros = width;
  for (int64_t bits = low_bits(a, width); bits != 0; bits >>= 1) zeros--;
  return zeros;
}
static int64_t meaning_count(int64_t a, int width) {
  int64_t ones = 0;
  for (int64_t bits = low_bits(a, width); bits != 0; bits >>= 1) ones += bits & 1;
  return ones;
}
static int64_t meaning_cast(float a, int64_t least, int64_t greatest) {
  return isnan(a) ? 0 : a <= (float)least ? least : a >= (float)greatest ? greatest : (int64_t)a;
}

/* ---- elementwise: x, y, z are lanes of the operands */

#define EACH_VECTOR for (int i = 0; i + PK_LANES <= COUNT; i += PK_LANES)
#define EACH_LANE for (int k = i; k < i + PK_LANES; k++)
#define F32_UNARY(name, meaning)                                           \
  EACH_VECTOR {                                                            \
    float r[PK_LANES];                                                     \
    pk_store_f32(r, pk_##name##_f32(pk_load_f32(f32_a + i)));              \
    EACH_LANE {                                                            \
      float x = f32_a[k];                                                  \
      expect_f32(r[k - i], pks_##name##_f32(x), meaning, #name "_f32", k); \
    }                                                                      \
  }
#define F32_BINARY(name, meaning)                                                     \
  EACH_VECTOR {                                                                       \
    float r[PK_LANES];                                                                \
    pk_store_f32(r, pk_##name##_f32(pk_load_f32(f32_a + i), pk_load_f32(f32_b + i))); \
    EACH_LANE {                                                                       \
      float x = f32_a[k], y = f32_b[k];                                               \
      expect_f32(r[k - i], pks_##name##_f32(x, y), meaning, #name "_f32", k);         \
    }                                                                                 \
  }

static void test_f32(void) {
  F32_UNARY(neg, -x)
  F32_UNARY(abs, fabsf(x))
  F32_UNARY(sqrt, sqrtf(x))
  F32_UNARY(floor, floorf(x))
  F32_UNARY(ceil, ceilf(x))
  F32_UNARY(round, nearbyintf(x))
  F32_UNARY(trunc, truncf(x))
  F32_UNARY(sign, meaning_sign(x))
  F32_UNARY(reciprocal, 1 / x)
  F32_UNARY(rsqrt, 1 / sqrtf(x))
}

static void test_f32_binary(void) {
  F32_BINARY(add, x + y)
  F32_BINARY(sub, x - y)
  F32_BINARY(mul, x * y)
  F32_BINARY(div, x / y)
  F32_BINARY(max, meaning_max(x, y))
  F32_BINARY(min, meaning_min(x, y))
  F32_BINARY(rem, fmodf(x, y))
  F32_BINARY(mod, meaning_mod(x, y))
  F32_BINARY(floordiv, meaning_floordiv_f32(x, y))
}

static void test_f32_fma(void) {
  EACH_VECTOR {
    float r[PK_LANES], fast[PK_LANES], least[PK_LANES], most[PK_LANES];
    pk_f32v a = pk_load_f32(f32_a + i), b = pk_load_f32(f32_b + i), c = pk_load_f32(f32_c + i);
    pk_store_f32(r, pk_fma_f32(a, b, c));
    pk_store_f32(fast, pk_fma_fast_f32(a, b, c));
    pk_store_f32(least, pk_min_fast_f32(a, b));
    pk_store_f32(most, pk_max_fast_f32(a, b));
    EACH_LANE {
      float x = f32_a[k], y = f32_b[k], z = f32_c[k], want = fmaf(x, y, z);
      expect_f32(r[k - i], pks_fma_f32(x, y, z), want, "fma_f32", k);
      expect(same_f32(fast[k - i], PK_HAS_FMA ? want : x * y + z), "fma_fast_f32", k);
      if (isnan(x) || isnan(y)) continue;
      expect(least[k - i] == meaning_min(x, y) && most[k - i] == meaning_max(x, y),
             "min_fast_f32, max_fast_f32", k);
    }
  }
}

#define INT_UNARY(name, type, read, meaning)                                                \
  EACH_VECTOR {                                                                             \
    int32_t r[PK_LANES], a[PK_LANES];                                                       \
    EACH_LANE a[k - i] = (int32_t)read(i32_a[k]);                                           \
    pk_store_i32(r, pk_##name(pk_load_i32(a)));                                             \
    EACH_LANE {                                                                             \
      type x = (type)a[k - i];                                                              \
      expect_i32(r[k - i], (int32_t)pks_##name(x), (int32_t)(uint32_t)(meaning), #name, k); \
    }                                                                                       \
  }
#define INT_BINARY(name, type, read, meaning)                                                  \
  EACH_VECTOR {                                                                                \
    int32_t r[PK_LANES], a[PK_LANES], b[PK_LANES];                                             \
    EACH_LANE a[k - i] = (int32_t)read(i32_a[k]), b[k - i] = (int32_t)read(i32_b[k]);          \
    pk_store_i32(r, pk_##name(pk_load_i32(a), pk_load_i32(b)));                                \
    EACH_LANE {                                                                                \
      type x = (type)a[k - i], y = (type)b[k - i];                                             \
      int64_t p = x, q = y;                                                                    \
      expect_i32(r[k - i], (int32_t)pks_##name(x, y), (int32_t)(uint32_t)(meaning), #name, k); \
    }                                                                                          \
  }
#define INT_ARITHMETIC(name, meaning)                 \
  INT_BINARY(name##_i32, int32_t, (int32_t), meaning) \
  INT_BINARY(name##_u32, uint32_t, (uint32_t), meaning)

static void test_i32_arithmetic(void) {
  INT_ARITHMETIC(add, p + q)
  INT_ARITHMETIC(sub, p - q)
  INT_ARITHMETIC(mul, (uint64_t)p * (uint64_t)q)
  INT_ARITHMETIC(and, p & q)
  INT_ARITHMETIC(or, p | q)
  INT_ARITHMETIC(xor, p ^ q)
  INT_ARITHMETIC(max, p > q ? p : q)
  INT_ARITHMETIC(min, p < q ? p : q)
}
static void test_i32_division(void) {
  INT_ARITHMETIC(div, meaning_div(p, q))
  INT_ARITHMETIC(rem, meaning_rem(p, q))
  INT_ARITHMETIC(floordiv, meaning_floordiv(p, q))
  INT_ARITHMETIC(mod, meaning_mod_int(p, q))
  INT_BINARY(pow_i32, int32_t, (int32_t), meaning_pow(p, q, true))
  INT_BINARY(pow_u32, uint32_t, (uint32_t), meaning_pow(p, q, false))
}
/* Every element of up to 16 bits by `divisor`: the rest is less, and of the sign of what is
 * divided. */
static bool divides(int32_t divisor, pk_i32v (*quotient)(pk_i32v, int32_t)) {
  const pk_i32v zero = pk_splat_i32(0), size = pk_abs_i32(pk_splat_i32(divisor));
  pk_mask right = pk_splat_mask(true);
  for (int32_t from = INT16_MIN; from <= UINT16_MAX; from += PK_LANES) {
    const pk_i32v a = pk_add_constant(pk_lane_i32(), from);
    const pk_i32v rest = pk_sub_i32(a, pk_mul_i32(quotient(a, divisor), pk_splat_i32(divisor)));
    const pk_mask same = pk_ge_i32(pk_xor_i32(rest, a), zero);
    right = pk_and_mask(right, pk_lt_i32(pk_abs_i32(rest), size));
    right = pk_and_mask(right, pk_or_mask(pk_eq_i32(rest, zero), same));
  }
  return pk_all(right);
}
static pk_i32v quotient_short(pk_i32v a, int32_t d) { return pk_div_short(a, pk_splat_i32(d)); }
static pk_i32v quotient_constant(pk_i32v a, int32_t d) { return pk_div_constant_short(a, d); }
static void test_short_division(void) {
  for (int32_t d = INT16_MIN; d <= UINT16_MAX; d += d < 16 && d > -16 ? 1 : 4001) {
    if (d >= -1 && d <= 1) continue;
    expect(divides(d, quotient_short), "div_short", d);
    expect(divides(d, quotient_constant), "div_constant_short", d);
  }
#define SHORT_BINARY(name, meaning)                                       \
  EACH_VECTOR {                                                           \
    int32_t r[PK_LANES], a[PK_LANES], b[PK_LANES];                        \
    EACH_LANE a[k - i] = (int16_t)i32_a[k], b[k - i] = (int16_t)i32_b[k]; \
    pk_store_i32(r, pk_##name##_short(pk_load_i32(a), pk_load_i32(b)));   \
    EACH_LANE {                                                           \
      const int64_t p = a[k - i], q = b[k - i];                           \
      expect(r[k - i] == (int32_t)(meaning), #name "_short", k);          \
    }                                                                     \
  }
  SHORT_BINARY(div, meaning_div(p, q))
  SHORT_BINARY(rem, meaning_rem(p, q))
  SHORT_BINARY(floordiv, meaning_floordiv(p, q))
  SHORT_BINARY(mod, meaning_mod_int(p, q))
#undef SHORT_BINARY
}
static void test_i32_unary(void) {
  INT_UNARY(neg_i32, int32_t, (int32_t), -(int64_t)x)
  INT_UNARY(neg_u32, uint32_t, (uint32_t), -(int64_t)x)
  INT_UNARY(abs_i32, int32_t, (int32_t), x < 0 ? -(int64_t)x : x)
  INT_UNARY(abs_u32, uint32_t, (uint32_t), x)
  INT_UNARY(sign_i32, int32_t, (int32_t), (x > 0) - (x < 0))
  INT_UNARY(sign_u32, uint32_t, (uint32_t), x > 0)
  INT_UNARY(not_i32, int32_t, (int32_t), ~x)
  INT_UNARY(not_u32, uint32_t, (uint32_t), ~x)
  INT_UNARY(wrap_i8, int32_t, (int32_t), (int8_t)(uint8_t)x)
  INT_UNARY(wrap_u8, uint32_t, (uint32_t), (uint8_t)x)
  INT_UNARY(wrap_i16, int32_t, (int32_t), (int16_t)(uint16_t)x)
  INT_UNARY(wrap_u16, uint32_t, (uint32_t), (uint16_t)x)
}

#define AS_I8(x) (int8_t)(uint8_t)(x)
#define AS_U8(x) (uint8_t)(x)
#define AS_I16(x) (int16_t)(uint16_t)(x)
#define AS_U16(x) (uint16_t)(x)
#define AS_I32(x) (int32_t)(x)
#define AS_U32(x) (uint32_t)(x)
#define BITS(T, type, read, width)                                                \
  INT_BINARY(shl_##T, type, read, (type)read((uint64_t)meaning_shl(p, q, width))) \
  INT_BINARY(shr_##T, type, read, (type)read(meaning_shr(p, q, width)))           \
  INT_BINARY(ushr_##T, type, read, (type)read(meaning_ushr(p, q, width)))         \
  INT_UNARY(clz_##T, type, read, meaning_clz((int64_t)x, width))                  \
  INT_UNARY(population_count_##T, type, read, meaning_count((int64_t)x, width))
static void test_bits_narrow(void) {
  BITS(i8, int32_t, AS_I8, 8)
  BITS(u8, uint32_t, AS_U8, 8)
  BITS(i16, int32_t, AS_I16, 16)
  BITS(u16, uint32_t, AS_U16, 16)
}
static void test_bits(void) {
  BITS(i32, int32_t, AS_I32, 32)
  BITS(u32, uint32_t, AS_U32, 32)
}

static void test_madd(void) {
  EACH_VECTOR {
    int32_t r[PK_LANES];
    pk_store_i32(r, pk_madd_i16(pk_load_i32(i32_a + i), pk_load_i32(i32_b + i)));
    EACH_LANE {
      int64_t low = (int64_t)AS_I16(i32_a[k]) * AS_I16(i32_b[k]),
              high = (int64_t)(i32_a[k] >> 16) * (i32_b[k] >> 16);
      expect(r[k - i] == (int32_t)(uint32_t)(low + high), "madd_i16", k);
    }
  }
}

/* ---- masks and comparisons */

static void expect_mask(pk_mask m, const bool *want, const char *what, int at) {
  uint32_t bits = 0;
  for (int k = 0; k < PK_LANES; k++) bits |= (uint32_t)want[k] << k;
  expect(pk_mask_bits(m) == bits, what, at);
  expect(pk_any(m) == (bits != 0) && pk_all(m) == (bits == (1u << PK_LANES) - 1), what, -1 - at);
}
#define COMPARE(name, op, type, T, a, b, vector_a, vector_b)                                       \
  EACH_VECTOR {                                                                                    \
    bool want[PK_LANES];                                                                           \
    EACH_LANE want[k - i] = (type)a[k] op(type) b[k];                                              \
    EACH_LANE expect(pks_##name##_##T((type)a[k], (type)b[k]) == want[k - i], "pks_" #name "_" #T, \
                     k);                                                                           \
    expect_mask(pk_##name##_##T(vector_a, vector_b), want, #name "_" #T, i);                       \
  }
#define COMPARE_ALL(name, op)                                                                   \
  COMPARE(name, op, float, f32, f32_a, f32_b, pk_load_f32(f32_a + i), pk_load_f32(f32_b + i))   \
  COMPARE(name, op, int32_t, i32, i32_a, i32_b, pk_load_i32(i32_a + i), pk_load_i32(i32_b + i)) \
  COMPARE(name, op, uint32_t, u32, i32_a, i32_b, pk_load_i32(i32_a + i), pk_load_i32(i32_b + i))
static void test_compare(void) {
  COMPARE_ALL(eq, ==)
  COMPARE_ALL(ne, !=)
  COMPARE_ALL(lt, <)
  COMPARE_ALL(le, <=)
  COMPARE_ALL(gt, >)
  COMPARE_ALL(ge, >=)
}

#define COMPARE_I64(name, op, type, T)                                                           \
  EACH_VECTOR {                                                                                  \
    bool want[PK_LANES];                                                                         \
    EACH_LANE want[k - i] = (int64_t)(type)i32_a[k] op s;                                        \
    EACH_LANE expect(pks_##name##_##T##_i64((type)i32_a[k], s) == want[k - i],                   \
                     "pks_" #name "_i64", k);                                                    \
    expect_mask(pk_##name##_##T##_i64(pk_load_i32(i32_a + i), s), want, #name "_" #T "_i64", i); \
  }
#define COMPARE_I64_BOTH(name, op)    \
  COMPARE_I64(name, op, int32_t, i32) \
  COMPARE_I64(name, op, uint32_t, u32)
static void test_compare_i64(void) {
  const int64_t scalars[] = {INT64_MIN,  (int64_t)INT32_MIN - 1,
                             INT32_MIN,  -1,
                             0,          1,
                             INT32_MAX,  (int64_t)INT32_MAX + 1,
                             UINT32_MAX, (int64_t)UINT32_MAX + 1,
                             INT64_MAX,  -4294967296};
  for (size_t j = 0; j < sizeof scalars / sizeof scalars[0]; j++) {
    int64_t s = scalars[j];
    COMPARE_I64_BOTH(eq, ==)
    COMPARE_I64_BOTH(ne, !=)
    COMPARE_I64_BOTH(lt, <)
    COMPARE_I64_BOTH(le, <=)
    COMPARE_I64_BOTH(gt, >)
    COMPARE_I64_BOTH(ge, >=)
  }
}

static void test_mask_algebra(void) {
  EACH_VECTOR {
    pk_mask m = pk_lt_i32(pk_load_i32(i32_a + i), pk_load_i32(i32_b + i)),
            n = pk_gt_i32(pk_load_i32(i32_a + i), pk_splat_i32(0));
    uint32_t a = pk_mask_bits(m), b = pk_mask_bits(n), all = (1u << PK_LANES) - 1;
    expect(pk_mask_bits(pk_and_mask(m, n)) == (a & b), "and_mask", i);
    expect(pk_mask_bits(pk_or_mask(m, n)) == (a | b), "or_mask", i);
    expect(pk_mask_bits(pk_xor_mask(m, n)) == (a ^ b) && pk_mask_bits(pk_ne_mask(m, n)) == (a ^ b),
           "xor_mask", i);
    expect(pk_mask_bits(pk_not_mask(m)) == (~a & all), "not_mask", i);
    expect(pk_mask_bits(pk_eq_mask(m, n)) == (~(a ^ b) & all), "eq_mask", i);
    expect(pk_mask_bits(pk_lt_mask(m, n)) == (~a & b) && pk_mask_bits(pk_gt_mask(m, n)) == (a & ~b),
           "lt_mask, gt_mask", i);
    expect(pk_mask_bits(pk_le_mask(m, n)) == ((~a | b) & all) &&
               pk_mask_bits(pk_ge_mask(m, n)) == ((a | ~b) & all),
           "le_mask, ge_mask", i);
    expect(pk_mask_bits(pk_select_mask(m, n, pk_not_mask(n))) == ((a & b) | (~a & ~b & all)),
           "select_mask", i);
    float f[PK_LANES];
    int32_t w[PK_LANES];
    pk_store_f32(f, pk_select_f32(m, pk_load_f32(f32_a + i), pk_load_f32(f32_b + i)));
    pk_store_i32(w, pk_select_i32(m, pk_load_i32(i32_a + i), pk_load_i32(i32_b + i)));
    EACH_LANE {
      bool set = a >> (k - i) & 1;
      expect(same_f32(f[k - i], set ? f32_a[k] : f32_b[k]), "select_f32", k);
      expect(w[k - i] == (set ? i32_a[k] : i32_b[k]), "select_i32", k);
    }
    pk_store_f32(f, pk_cast_mask_f32(m));
    pk_store_i32(w, pk_cast_mask_i32(m));
    EACH_LANE expect(
        f[k - i] == (float)(a >> (k - i) & 1) && w[k - i] == (int32_t)(a >> (k - i) & 1),
        "cast_mask", k);
  }
  expect(pk_all(pk_splat_mask(true)) && !pk_any(pk_splat_mask(false)), "splat_mask", 0);
  for (int64_t n = -2; n <= PK_LANES + 2; n++) {
    uint32_t want = n <= 0 ? 0 : n >= PK_LANES ? (1u << PK_LANES) - 1 : (1u << n) - 1;
    expect(pk_mask_bits(pk_mask_first(n)) == want, "mask_first", (int)n);
  }
  expect(pk_all(pk_mask_first(INT64_MAX)) && !pk_any(pk_mask_first(INT64_MIN)),
         "mask_first of extremes", 0);
}

static void test_predicates(void) {
  EACH_VECTOR {
    pk_f32v a = pk_load_f32(f32_a + i);
    bool nan[PK_LANES], inf[PK_LANES], finite[PK_LANES], nonzero[PK_LANES], some[PK_LANES];
    EACH_LANE {
      float x = f32_a[k];
      nan[k - i] = isnan(x), inf[k - i] = isinf(x) != 0, finite[k - i] = isfinite(x),
              nonzero[k - i] = x != 0, some[k - i] = i32_a[k] != 0;
      expect(pks_isnan_f32(x) == isnan(x) && pks_isinf_f32(x) == (isinf(x) != 0) &&
                 pks_isfinite_f32(x) == isfinite(x),
             "pks_is..", k);
    }
    expect_mask(pk_isnan_f32(a), nan, "isnan", i);
    expect_mask(pk_isinf_f32(a), inf, "isinf", i);
    expect_mask(pk_isfinite_f32(a), finite, "isfinite", i);
    expect_mask(pk_cast_f32_mask(a), nonzero, "cast_f32_mask", i);
    expect_mask(pk_cast_i32_mask(pk_load_i32(i32_a + i)), some, "cast_i32_mask", i);
  }
}

/* ---- conversions */

#define CAST(T, type, least, greatest)                                                   \
  EACH_VECTOR {                                                                          \
    int32_t r[PK_LANES];                                                                 \
    pk_store_i32(r, pk_cast_f32_##T(pk_load_f32(f32_a + i)));                            \
    EACH_LANE {                                                                          \
      int64_t want = meaning_cast(f32_a[k], least, greatest);                            \
      expect_i32(r[k - i], (int32_t)pks_cast_f32_##T(f32_a[k]), (int32_t)(uint32_t)want, \
                 "cast_f32_" #T, k);                                                     \
    }                                                                                    \
  }
static void test_casts(void) {
  CAST(i8, int32_t, INT8_MIN, INT8_MAX)
  CAST(u8, uint32_t, 0, UINT8_MAX)
  CAST(i16, int32_t, INT16_MIN, INT16_MAX)
  CAST(u16, uint32_t, 0, UINT16_MAX)
  CAST(i32, int32_t, INT32_MIN, INT32_MAX)
  CAST(u32, uint32_t, 0, UINT32_MAX)
  EACH_VECTOR {
    float s[PK_LANES], u[PK_LANES], b[PK_LANES], h[PK_LANES];
    pk_store_f32(s, pk_cast_i32_f32(pk_load_i32(i32_a + i)));
    pk_store_f32(u, pk_cast_u32_f32(pk_load_i32(i32_a + i)));
    pk_store_f32(b, pk_round_bf16(pk_load_f32(f32_a + i)));
    pk_store_f32(h, pk_round_f16(pk_load_f32(f32_a + i)));
    EACH_LANE {
      expect_f32(s[k - i], pks_cast_i32_f32(i32_a[k]), (float)i32_a[k], "cast_i32_f32", k);
      expect_f32(u[k - i], pks_cast_u32_f32((uint32_t)i32_a[k]), (float)(uint32_t)i32_a[k],
                 "cast_u32_f32", k);
      expect(same_f32(b[k - i], pks_round_bf16(f32_a[k])), "round_bf16", k);
      expect(same_f32(h[k - i], pks_round_f16(f32_a[k])), "round_f16", k);
    }
  }
}

/* A host may have set the processor to treat subnormal numbers as zeros, as XLA does. Rounding to a
 * narrower float works on bits, and has the same results as before. */
static void test_casts_of_flushing_hosts(void) {
#ifdef __SSE2__
  enum { STEP = 1 << 12 };
  float wanted[2][PK_LANES], found[2][PK_LANES], a[PK_LANES];
  for (uint32_t bits = 0; bits < 1u << 24; bits += PK_LANES * STEP) {
    for (int k = 0; k < PK_LANES; k++) {
      const uint32_t at = bits + (uint32_t)k * STEP + 1, signed_at = at | (uint32_t)(k & 1) << 31;
      memcpy(&a[k], &signed_at, 4);
      wanted[0][k] = pks_round_bf16(a[k]);
      wanted[1][k] = pks_round_f16(a[k]);
    }
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040);
    pk_store_f32(found[0], pk_round_bf16(pk_load_f32(a)));
    pk_store_f32(found[1], pk_round_f16(pk_load_f32(a)));
    __builtin_ia32_ldmxcsr(before);
    for (int k = 0; k < PK_LANES; k++) {
      expect(memcmp(&found[0][k], &wanted[0][k], 4) == 0, "round_bf16 under flush-to-zero", k);
      expect(memcmp(&found[1][k], &wanted[1][k], 4) == 0, "round_f16 under flush-to-zero", k);
    }
  }
#endif
}

/* To `digits` bits of mantissa, exponents from `least` on, infinite from `limit` on: by scaling,
 * not by bits. */
static double meaning_half(double x, int digits, int least, double limit) {
  int exponent;
  if (isnan(x) || isinf(x) || x == 0) return x;
  frexp(x, &exponent);
  int place = (exponent < least ? least : exponent) - digits;
  double r = ldexp(nearbyint(ldexp(x, -place)), place);
  return fabs(r) >= limit ? copysign(INFINITY, x) : r;
}
static void test_half(void) {
  for (int k = 0; k < COUNT; k++) {
    double wide =
        ldexp((double)f32_a[k],
              k & 1 || f32_a[k] == 0 || !isfinite(f32_a[k]) ? 0 : -(ilogb((double)f32_a[k]) & ~15));
    float x = (float)wide;
    expect(same_f32(pks_round_bf16(x), (float)meaning_half((double)x, 8, -125, 0x1p128)),
           "bf16 rounds", k);
    expect(same_f32(pks_round_f16(x), (float)meaning_half((double)x, 11, -13, 65536)), "f16 rounds",
           k);
  }
  for (int i = 0; i < 65536; i += PK_LANES) {
    uint16_t half[PK_LANES], back[PK_LANES];
    float b[PK_LANES], h[PK_LANES];
    for (int k = 0; k < PK_LANES; k++) half[k] = (uint16_t)(i + k);
    pk_store_f32(b, pk_load_bf16(half));
    pk_store_f32(h, pk_load_f16(half));
    for (int k = 0; k < PK_LANES; k++) {
      expect(same_f32(b[k], pk_f32_from_bf16(half[k])) && same_f32(h[k], pk_f32_from_f16(half[k])),
             "half to float", i + k);
      int exponent = half[k] >> 10 & 31, mantissa = half[k] & 0x3ff;
      double size = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
      if (exponent != 31)
        expect((double)h[k] == (half[k] >> 15 ? -size : size), "f16 value", i + k);
    }
    pk_store_bf16(back, pk_load_bf16(half));
    for (int k = 0; k < PK_LANES; k++)
      expect(isnan(b[k]) ? isnan(pks_load_bf16(back + k)) : back[k] == half[k], "bf16 and back",
             i + k);
    pk_store_f16(back, pk_load_f16(half));
    for (int k = 0; k < PK_LANES; k++)
      expect(isnan(h[k]) ? isnan(pks_load_f16(back + k)) : back[k] == half[k], "f16 and back",
             i + k);
  }
}

/* ---- memory, against the end of a page */

static char *page_end;

static void make_page(void) {
  char *page = mmap(NULL, 2 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || mprotect(page + 65536, 65536, PROT_NONE) != 0) exit(2);
  page_end = page + 65536;
}

/* n elements at the end of the page: nothing after them is touched, and stores leave what is
 * before. */
#define MEMORY(T, type, full)                                                                    \
  for (int n = 0; n <= PK_LANES; n++) {                                                          \
    type *p = (type *)(void *)page_end - n, in[PK_LANES], out[PK_LANES];                         \
    for (int k = 0; k < PK_LANES; k++) in[k] = (type)(full(random_bits()));                      \
    if (n > 0) memcpy(p, in, (size_t)n * sizeof *p);                                             \
    pk_store_##T(out, pk_loadn_##T(p, n));                                                       \
    for (int k = 0; k < PK_LANES; k++) expect(out[k] == (k < n ? in[k] : 0), "loadn_" #T, n);    \
    memset(page_end - 512, 0, 512);                                                              \
    pk_storen_##T(p, pk_load_##T(in), n);                                                        \
    for (int k = -4; k < n; k++) expect(p[k] == (k < 0 ? 0 : in[k]), "storen_" #T, n);           \
    if (n == PK_LANES)                                                                           \
      pk_store_##T(out, pk_load_##T(p)), expect(memcmp(in, out, sizeof in) == 0, "load_" #T, n); \
    uint32_t bits = random_bits() & ((1u << n) - 1);                                             \
    pk_mask m = pk_splat_mask(false);                                                            \
    for (int k = 0; k < PK_LANES; k++)                                                           \
      if (bits >> k & 1) m = pk_or_mask(m, pk_eq_i32(pk_lane_i32(), pk_splat_i32(k)));           \
    pk_store_##T(out, pk_loadm_##T(p, m));                                                       \
    for (int k = 0; k < PK_LANES; k++)                                                           \
      expect(out[k] == (bits >> k & 1 ? in[k] : 0), "loadm_" #T, n);                             \
    memset(page_end - 512, 0, 512);                                                              \
    pk_storem_##T(p, pk_load_##T(in), m);                                                        \
    for (int k = -4; k < n; k++)                                                                 \
      expect(p[k] == (k >= 0 && bits >> k & 1 ? in[k] : 0), "storem_" #T, n);                    \
    type *aligned = (type *)(void *)page_end - 2 * PK_LANES;                                     \
    pk_stream_##T(aligned, pk_load_##T(in));                                                     \
    expect(memcmp(aligned, in, sizeof in) == 0, "stream_" #T, n);                                \
    for (int k = 0; k < n; k++)                                                                  \
      pks_store_##T(out + k, pks_load_##T(in + k)), expect(out[k] == in[k], "pks_" #T, k);       \
  }
#define NOT_NAN_BF16(x) (x) & 0xbf7fu
#define NOT_NAN_F16(x) (x) & 0xbbffu
#define ANY_BITS(x) x
#define ONE_BIT(x) (x) & 1u
static void test_memory(void) {
  MEMORY(f32, float, ANY_BITS)
  MEMORY(bf16, uint16_t, NOT_NAN_BF16)
  MEMORY(f16, uint16_t, NOT_NAN_F16)
  MEMORY(i8, int8_t, ANY_BITS)
  MEMORY(u8, uint8_t, ANY_BITS)
}
static void test_memory_wider(void) {
  MEMORY(i16, int16_t, ANY_BITS)
  MEMORY(u16, uint16_t, ANY_BITS)
  MEMORY(i32, int32_t, ANY_BITS)
  MEMORY(u32, uint32_t, ANY_BITS)
  MEMORY(bool, uint8_t, ONE_BIT)
  pk_prefetch(page_end);
}

/* Random elements; `to` need not be aligned. */
#define FILL(type, full, to, count)               \
  for (int k = 0; k < (count); k++) {             \
    const type one = (type)(full(random_bits())); \
    memcpy((to) + k, &one, sizeof one);           \
  }

/* Elements by index from a table that ends with the page: indices outside are clamped. */
#define PICK(T, type, full)                                                                      \
  for (int n = 1; n <= 3 * PK_LANES; n++)                                                        \
    for (int step = 1; step <= 3; step++) {                                                      \
      const int count = (n - 1) * step + 1;                                                      \
      type *p = (type *)(void *)page_end - count, out[PK_LANES];                                 \
      int32_t at[PK_LANES];                                                                      \
      FILL(type, full, p, count)                                                                 \
      for (int k = 0; k < PK_LANES; k++)                                                         \
        at[k] =                                                                                  \
            k % 7 == 5 ? (int32_t)random_bits() : (int32_t)(random_bits() % (2u * (uint32_t)n)); \
      pk_store_##T(out, pk_pick_##T(p, pk_load_i32(at), n - 1, step));                           \
      for (int k = 0; k < PK_LANES; k++) {                                                       \
        const int held = at[k] < 0 ? 0 : at[k] >= n ? n - 1 : at[k];                             \
        expect(memcmp(&out[k], &p[held * step], sizeof *p) == 0, "pick_" #T, n);                 \
      }                                                                                          \
    }
static void test_picks(void) {
  PICK(f32, float, ANY_BITS)
  PICK(bf16, uint16_t, NOT_NAN_BF16)
  PICK(i8, int8_t, ANY_BITS)
  PICK(i16, int16_t, ANY_BITS)
  PICK(u32, uint32_t, ANY_BITS)
  PICK(bool, uint8_t, ONE_BIT)
}

/* Elements by an index along each of three axes; the steps of the last case and of a table that is
 * read backwards do not fit in lanes. */
#define GATHER(T, type, full)                                                                  \
  for (int n = 1; n <= 40; n++) {                                                              \
    static type room[7 * 5 * 41];                                                              \
    const int64_t last[3] = {n % 7, n % 5, n},                                                 \
                  step[4][3] = {{5 * 41, 41, 1}, {-5 * 41, 41, 1}, {1, 7, 35}, {35, 7, -1}};   \
    for (int c = 0; c < 5; c++) {                                                              \
      const int64_t far[3] = {INT64_MAX, 41, 1}, first[3] = {0, last[1], last[2]},             \
                    *s = c < 4 ? step[c] : far, *end = c < 4 ? last : first;                   \
      type out[PK_LANES], *p = room;                                                           \
      int32_t at[3][PK_LANES];                                                                 \
      for (int i = 0; i < 3; i++) p -= s[i] < 0 ? end[i] * s[i] : 0;                           \
      FILL(type, full, room, 7 * 5 * 41)                                                       \
      for (int i = 0; i < 3; i++)                                                              \
        for (int k = 0; k < PK_LANES; k++)                                                     \
          at[i][k] = k % 7 == 5 ? (int32_t)random_bits() : (int32_t)(random_bits() % 50u) - 5; \
      const pk_i32v index[3] = {pk_load_i32(at[0]), pk_load_i32(at[1]), pk_load_i32(at[2])};   \
      pk_store_##T(out, pk_gather_##T(p, 3, index, end, s));                                   \
      for (int k = 0; k < PK_LANES; k++) {                                                     \
        int64_t from = 0;                                                                      \
        for (int i = 0; i < 3; i++)                                                            \
          from += (at[i][k] < 0 ? 0 : at[i][k] > end[i] ? end[i] : at[i][k]) * s[i];           \
        expect(memcmp(&out[k], &p[from], sizeof *p) == 0, "gather_" #T, n);                    \
      }                                                                                        \
    }                                                                                          \
  }
static void test_gathers(void) {
  GATHER(f32, float, ANY_BITS)
  GATHER(bf16, uint16_t, NOT_NAN_BF16)
  GATHER(i8, int8_t, ANY_BITS)
  GATHER(u32, uint32_t, ANY_BITS)
  GATHER(bool, uint8_t, ONE_BIT)
}

/* Values in registers: narrow integers are extended by their own sign. */
static void test_extension(void) {
  const uint16_t bits[PK_LANES] = {0xff80, 0x7f01, 0x8000, 0x00ff};
  int32_t a[PK_LANES], b[PK_LANES], c[PK_LANES], d[PK_LANES];
  pk_store_i32(a, pk_load_i8((const int8_t *)bits));
  pk_store_i32(b, pk_load_u8((const uint8_t *)bits));
  pk_store_i32(c, pk_load_i16((const int16_t *)bits));
  pk_store_i32(d, pk_load_u16(bits));
  expect(a[0] == -128 && a[1] == -1 && a[2] == 1 && b[0] == 128 && b[1] == 255 && b[2] == 1,
         "8 bits extended", 0);
  expect(c[0] == -128 && c[2] == -32768 && d[0] == 0xff80 && d[2] == 0x8000, "16 bits extended", 0);
}

/* ---- across lanes */

#define REDUCE(name, T, type, vector, scalar)                                 \
  {                                                                           \
    type x[PK_LANES];                                                         \
    EACH_LANE x[k - i] = (type)scalar##_a[k];                                 \
    for (int n = PK_LANES / 2; n > 0; n /= 2)                                 \
      for (int k = 0; k < n; k++) x[k] = pks_##name##_##T(x[k], x[k + n]);    \
    type r = pk_reduce_##name##_##T(vector);                                  \
    expect(r == x[0] || (r != r && x[0] != x[0]), "reduce_" #name "_" #T, i); \
  }
static void test_reductions(void) {
  EACH_VECTOR {
    pk_f32v f = pk_load_f32(f32_a + i);
    pk_i32v w = pk_load_i32(i32_a + i);
    REDUCE(add, f32, float, f, f32)
    REDUCE(mul, f32, float, f, f32)
    REDUCE(max, f32, float, f, f32)
    REDUCE(min, f32, float, f, f32)
    REDUCE(add, i32, int32_t, w, i32)
    REDUCE(mul, i32, int32_t, w, i32)
    REDUCE(max, i32, int32_t, w, i32)
    REDUCE(min, i32, int32_t, w, i32)
    REDUCE(add, u32, uint32_t, w, i32)
    REDUCE(mul, u32, uint32_t, w, i32)
    REDUCE(max, u32, uint32_t, w, i32)
    REDUCE(min, u32, uint32_t, w, i32)
  }
}

static void test_transpose(void) {
  pk_f32v rows[PK_LANES];
  float out[PK_LANES];
  for (int i = 0; i < PK_LANES; i++)
    rows[i] = pk_cast_i32_f32(pk_add_i32(pk_lane_i32(), pk_splat_i32(100 * i)));
  pk_transpose_f32(rows);
  for (int i = 0; i < PK_LANES; i++) {
    pk_store_f32(out, rows[i]);
    for (int k = 0; k < PK_LANES; k++) expect(out[k] == (float)(100 * k + i), "transpose_f32", i);
  }
}

/* Words of W bits and their parts of T bits: part k of each word, and words of rows of parts. */
enum { WORD_BYTES = 16 * PK_LANES };
static char word_memory[4][WORD_BYTES + 1];
static uint32_t bits_at(const void *memory, int bits, int i) {
  uint32_t word;
  uint16_t half = 0;
  const char *const from = (const char *)memory + bits / 8 * i;
  if (bits == 32) {
    memcpy(&word, from, sizeof word);
    return word;
  }
  memcpy(&half, from, bits == 16 ? sizeof half : 1);
  return bits == 16 ? half : (uint8_t)*from;
}
#define TEST_PART(W, T)                                                                           \
  for (int part = 0; part < W / T; part++) {                                                      \
    const pk_packed##T x = pk_packed_part_##W##_##T(word_memory[0] + 1, part);                    \
    for (int i = 0; i < (int)sizeof x * 8 / T; i++)                                               \
      expect(                                                                                     \
          bits_at(&x, T, i) == (bits_at(word_memory[0] + 1, W, i) >> T * part & ((1u << T) - 1)), \
          "packed_part_" #W "_" #T, i);                                                           \
  }
#define TEST_JOIN(W, T, vector, call)                                         \
  for (int n = 0; n < W / T; n++) {                                           \
    const vector x = call;                                                    \
    const int lanes = (int)sizeof x * 8 / W;                                  \
    for (int i = 0; i < lanes; i++) {                                         \
      uint32_t word = 0;                                                      \
      for (int part = 0; part < W / T; part++)                                \
        word |= bits_at(word_memory[part] + 1, T, n * lanes + i) << T * part; \
      expect(bits_at(&x, W, i) == word, "join_" #T "_" #W, i);                \
    }                                                                         \
  }
static void test_words(void) {
  const char *const a = word_memory[0] + 1, *const b = word_memory[1] + 1,
                    *const c = word_memory[2] + 1, *const d = word_memory[3] + 1;
  for (int row = 0; row < 4; row++)
    for (int i = 0; i <= WORD_BYTES; i++) word_memory[row][i] = (char)(random_bits() & 127);
  for (int i = 0; i <= WORD_BYTES; i += 3)
    word_memory[i % 4][i] = (char)(word_memory[i % 4][i] ^ -128);
  TEST_PART(32, 8)
  TEST_PART(32, 16)
  TEST_PART(16, 8)
  TEST_JOIN(32, 8, pk_i32v, pk_join_8_32(n, a, b, c, d))
  TEST_JOIN(32, 16, pk_i32v, pk_join_16_32(n, a, b))
  TEST_JOIN(16, 8, pk_packed16, pk_packed_join_8_16(n, a, b))
}

int main(void) {
  fill_operands();
  make_page();
  test_f32();
  test_f32_binary();
  test_f32_fma();
  test_i32_arithmetic();
  test_i32_division();
  test_short_division();
  test_i32_unary();
  test_bits();
  test_bits_narrow();
  test_madd();
  test_compare();
  test_compare_i64();
  test_mask_algebra();
  test_predicates();
  test_casts();
  test_casts_of_flushing_hosts();
  test_half();
  test_memory();
  test_memory_wider();
  test_picks();
  test_gathers();
  test_extension();
  test_reductions();
  test_transpose();
  test_words();
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
