// The meaning of each elementwise operation for one element.
#include "codegen/ir/scalar.h"
#include "include/pk/f64.h"

#include <math.h>
#include <string.h>

// ---- integers

int64_t wrap_int(DType dtype, int64_t value) {
  if (dtype == DT_BOOL) return value != 0;
  int drop = 64 - dtype_info[dtype].bits;
  uint64_t high = (uint64_t)value << drop;
  return dtype_info[dtype].class == CLASS_UNSIGNED ? (int64_t)(high >> drop)
                                                   : (int64_t)high >> drop;
}

static uint64_t width_bits(DType dtype, int64_t a) {
  int bits = dtype_info[dtype].bits;
  return bits == 64 ? (uint64_t)a : (uint64_t)a & (((uint64_t)1 << bits) - 1);
}

// Each int_NAME returns the result before it is wrapped to the dtype of its operands, and whether
// it is exact, that is, whether it fits 64 bits.
typedef struct {
  DType t;
  int64_t a, b;
} Ints;
typedef bool IntFunction(Ints x, int64_t *result);

static bool gives(int64_t *result, int64_t value) {
  *result = value;
  return true;
}

static bool int_neg(Ints x, int64_t *r) { return sub_i64(0, x.a, r); }
static bool int_not(Ints x, int64_t *r) { return gives(r, x.t == DT_BOOL ? !x.a : ~x.a); }
static bool int_abs(Ints x, int64_t *r) {
  return x.a < 0 && x.t != DT_U64 ? sub_i64(0, x.a, r) : gives(r, x.a);
}
static bool int_sign(Ints x, int64_t *r) {
  return gives(r, x.t == DT_U64 ? x.a != 0 : (x.a > 0) - (x.a < 0));
}
static bool int_population_count(Ints x, int64_t *r) {
  return gives(r, __builtin_popcountll(width_bits(x.t, x.a)));
}
static bool int_clz(Ints x, int64_t *r) {
  int64_t zeros = dtype_info[x.t].bits;
  for (uint64_t bits = width_bits(x.t, x.a); bits; bits >>= 1) zeros--;
  return gives(r, zeros);
}

static bool int_add(Ints x, int64_t *r) { return add_i64(x.a, x.b, r); }
static bool int_sub(Ints x, int64_t *r) { return sub_i64(x.a, x.b, r); }
static bool int_mul(Ints x, int64_t *r) { return mul_i64(x.a, x.b, r); }

static bool int_div(Ints x, int64_t *r) {
  if (x.b == 0) return gives(r, -1);
  if (x.t == DT_U64) return gives(r, (int64_t)((uint64_t)x.a / (uint64_t)x.b));
  return x.b == -1 ? sub_i64(0, x.a, r) : gives(r, x.a / x.b);
}
static bool int_rem(Ints x, int64_t *r) {
  if (x.b == 0) return gives(r, x.a);
  if (x.t == DT_U64) return gives(r, (int64_t)((uint64_t)x.a % (uint64_t)x.b));
  return gives(r, x.b == -1 ? 0 : x.a % x.b);
}

// Is the remainder nonzero, with another sign than the divisor?
static bool is_between(Ints x) {
  int64_t rest;
  int_rem(x, &rest);
  return x.t != DT_U64 && x.b != 0 && rest != 0 && (rest < 0) != (x.b < 0);
}
static bool int_floordiv(Ints x, int64_t *r) {
  bool fits = int_div(x, r);
  *r -= is_between(x);
  return fits;
}
static bool int_mod(Ints x, int64_t *r) {
  bool fits = int_rem(x, r);
  if (is_between(x)) *r += x.b;
  return fits;
}

static bool int_pow(Ints x, int64_t *r) {
  if (x.b < 0 && x.t != DT_U64) return gives(r, x.a == 1 ? 1 : x.a == -1 ? (x.b % 2 ? -1 : 1) : 0);
  int64_t base = x.a;
  bool fits = true, base_fits = true;
  *r = 1;
  for (uint64_t rest = (uint64_t)x.b; rest; rest >>= 1) {
    if (rest & 1) fits = mul_i64(*r, base, r) && base_fits && fits;
    base_fits = mul_i64(base, base, &base) && base_fits;
  }
  return fits;
}

static bool int_max(Ints x, int64_t *r) {
  return gives(r, int_compare(OP_GT, x.t, x.a, x.b) ? x.a : x.b);
}
static bool int_min(Ints x, int64_t *r) {
  return gives(r, int_compare(OP_LT, x.t, x.a, x.b) ? x.a : x.b);
}
static bool int_and(Ints x, int64_t *r) { return gives(r, x.a & x.b); }
static bool int_or(Ints x, int64_t *r) { return gives(r, x.a | x.b); }
static bool int_xor(Ints x, int64_t *r) { return gives(r, x.a ^ x.b); }

static bool shifts_out(Ints x) { return x.b < 0 || x.b >= dtype_info[x.t].bits; }
static bool int_shl(Ints x, int64_t *r) {
  int64_t product;
  *r = shifts_out(x) ? 0 : (int64_t)((uint64_t)x.a << x.b);
  return x.a == 0 || (x.b >= 0 && x.b < 63 && mul_i64(x.a, INT64_C(1) << x.b, &product));
}
static bool int_shr(Ints x, int64_t *r) {
  if (x.t == DT_U64) return gives(r, shifts_out(x) ? 0 : (int64_t)((uint64_t)x.a >> x.b));
  return gives(r, shifts_out(x) ? -(x.a < 0) : x.a >> x.b);
}
static bool int_ushr(Ints x, int64_t *r) {
  return gives(r, shifts_out(x) ? 0 : (int64_t)(width_bits(x.t, x.a) >> x.b));
}

// ---- the functions of each operation: for integers, and for floats in f64

static const struct {
  IntFunction *integer;
  union {
    double (*unary)(double);
    double (*binary)(double, double);
    double (*ternary)(double, double, double);
    bool (*predicate)(double);
  } f64;
} functions[OP_COUNT] = {
#define OF_UNARY(function) .unary = function
#define OF_BINARY(function) .binary = function
#define OF_TERNARY(function) .ternary = function
#define OF_PREDICATE(function) .predicate = function
#define OF_COMPARE(function) .unary = function
#define INTEGERS_ANY(name) NULL
#define INTEGERS_NUMBERS(name) int_##name
#define INTEGERS_FLOATS(name) NULL
#define INTEGERS_INTEGERS(name) int_##name
#define INTEGERS_BITS(name) int_##name
#define ELEMENTWISE(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                    spelling, jax, vector, transcendental, instead, meaning)                 \
  [OP_##id] = {INTEGERS_##domain(name), {OF_##class(f64)}},
#include "codegen/ir/ops.def"
};

bool int_exact(Op op, int64_t a, int64_t b, int64_t *result) {
  return functions[op].integer((Ints){DT_I64, a, b}, result);
}

int64_t int_binary(Op op, DType dtype, int64_t a, int64_t b) {
  int64_t result;
  if (!functions[op].integer) INTERNAL("%s on integers", op_info[op].name);
  functions[op].integer((Ints){dtype, a, b}, &result);
  return wrap_int(dtype, result);
}

int64_t int_unary(Op op, DType dtype, int64_t a) { return int_binary(op, dtype, a, 0); }

bool int_compare(Op op, DType dtype, int64_t a, int64_t b) {
  if (dtype == DT_U64) a ^= INT64_MIN, b ^= INT64_MIN;
  return op_has(op, a < b ? IF_LESS : a > b ? IF_GREATER : IF_EQUAL);
}

FloatFunction *float_unary(Op op) {
  if (!functions[op].f64.unary) INTERNAL("%s on floats", op_info[op].name);
  return functions[op].f64.unary;
}

FloatPair *float_binary(Op op, DType dtype) {
  if (op == OP_FLOORDIV && dtype == DT_F64) return pk_f64_floordiv_f64;
  if (!functions[op].f64.binary) INTERNAL("%s on floats", op_info[op].name);
  return functions[op].f64.binary;
}

bool float_predicate(Op op, double a) { return functions[op].f64.predicate(a); }

bool float_compare(Op op, double a, double b) {
  return op_has(op, a < b ? IF_LESS : a > b ? IF_GREATER : a == b ? IF_EQUAL : IF_UNORDERED);
}

// a * b + c rounded to odd, so that rounding it again to a narrower type rounds the exact value
// once. a * b is exact: the factors have at most 24 bits.
double fma_to_odd(double a, double b, double c) {
  double product = a * b, sum = product + c;
  double part = sum - product, error = (product - (sum - part)) + (c - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (!isfinite(sum) || error == 0 || bits & 1) return sum;
  return nextafter(sum, error > 0 ? (double)INFINITY : -(double)INFINITY);
}

double float_fma(DType dtype, double a, double b, double c) {
  return dtype == DT_F64 ? fma(a, b, c) : dtype_round(dtype, fma_to_odd(a, b, c));
}

// ---- conversions

// Truncates to 52 bits or fewer, of which the last records whether any dropped bit was set, so that
// a later rounding to 24 bits or fewer is correct.
static double int_to_double(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (magnitude >= (uint64_t)1 << 53)
    magnitude = (magnitude >> 11 << 11) | ((magnitude & 2047) ? 2048 : 0);
  return value < 0 ? -(double)magnitude : (double)magnitude;
}

double int_to_float(DType to, DType from, int64_t value) {
  if (to == DT_F64) return from == DT_U64 ? (double)(uint64_t)value : (double)value;
  if (from != DT_U64 || value >= 0) return dtype_round(to, int_to_double(value));
  const int64_t half =
      (int64_t)((uint64_t)value >> 1) | (value & 1);  // half of the value, with a sticky lowest bit
  return dtype_round(to, 2 * int_to_double(half));
}

Scalar scalar_cast(DType to, DType from, Scalar a) {
  if (!is_float(from))
    return is_float(to) ? (Scalar){.f = int_to_float(to, from, a.i)}
                        : (Scalar){.i = wrap_int(to, a.i)};
  if (is_float(to)) return (Scalar){.f = dtype_round(to, a.f)};
  return (Scalar){.i = to == DT_BOOL ? a.f != 0 : saturate_to_integer(to, a.f)};
}

DType unsigned_of(DType dtype) { return unsigned_of_width(8 * dtype_bytes(dtype)); }

Scalar scalar_bitcast(DType to, DType from, Scalar a) {
  uint64_t bits = is_float(from) ? dtype_bits(from, a.f) : (uint64_t)a.i;
  return is_float(to) ? (Scalar){.f = dtype_value(to, bits)}
                      : (Scalar){.i = wrap_int(to, (int64_t)bits)};
}

// ---- any operation

static double apply_to_floats(Op op, DType dtype, const Scalar *a) {
  if (op == OP_FMA) return float_fma(dtype, a[0].f, a[1].f, a[2].f);
  return dtype_round(dtype, op_info[op].nargs == 1 ? float_unary(op)(a[0].f)
                                                   : float_binary(op, dtype)(a[0].f, a[1].f));
}

Scalar scalar_apply(Op op, DType to, DType from, const Scalar *a) {
  switch (op_info[op].class) {
    case OPC_PREDICATE:
      return (Scalar){.i = float_predicate(op, a[0].f)};
    case OPC_COMPARE:
      return (Scalar){.i = is_float(from) ? float_compare(op, a[0].f, a[1].f)
                                          : int_compare(op, from, a[0].i, a[1].i)};
    case OPC_CAST:
      return op == OP_CAST ? scalar_cast(to, from, a[0]) : scalar_bitcast(to, from, a[0]);
    default:
      break;
  }
  if (is_float(to)) return (Scalar){.f = apply_to_floats(op, to, a)};
  return (Scalar){.i = op_info[op].nargs == 1 ? int_unary(op, to, a[0].i)
                                              : int_binary(op, to, a[0].i, a[1].i)};
}

// ---- folds

// A running sum begins with its first element, whose zero keeps its sign.
static double float_start(Op fold, Neutral neutral, DType dtype) {
  if (fold == OP_CUMSUM) return -0.0;
  if (neutral == NEUTRAL_LEAST) return dtype_bottom(dtype);
  return neutral == NEUTRAL_GREATEST ? dtype_top(dtype) : neutral == NEUTRAL_ONE;
}

Scalar fold_start(Op fold, DType dtype) {
  Neutral neutral = element_info[fold_operation[fold]].neutral;
  if (is_float(dtype)) return (Scalar){.f = float_start(fold, neutral, dtype)};
  switch (neutral) {
    case NEUTRAL_LEAST:
      return (Scalar){.i = dtype_min(dtype)};
    case NEUTRAL_GREATEST:
      return (Scalar){.i = dtype_max(dtype)};
    case NEUTRAL_ONES:
      return (Scalar){.i = wrap_int(dtype, -1)};
    default:
      return (Scalar){.i = neutral == NEUTRAL_ONE};
  }
}
