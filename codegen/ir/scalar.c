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

static int64_t count_leading_zeros(DType dtype, int64_t a) {
  int64_t zeros = dtype_info[dtype].bits;
  for (uint64_t bits = width_bits(dtype, a); bits; bits >>= 1) zeros--;
  return zeros;
}

int64_t int_unary(Op op, DType dtype, int64_t a) {
  int64_t negated = (int64_t)(0 - (uint64_t)a);
  switch (op) {
    case OP_NEG:
      return wrap_int(dtype, negated);
    case OP_NOT:
      return dtype == DT_BOOL ? !a : wrap_int(dtype, ~a);
    case OP_ABS:
      return wrap_int(dtype, a < 0 && dtype != DT_U64 ? negated : a);
    case OP_SIGN:
      return dtype == DT_U64 ? a != 0 : (a > 0) - (a < 0);
    case OP_POPCOUNT:
      return __builtin_popcountll(width_bits(dtype, a));
    case OP_CLZ:
      return count_leading_zeros(dtype, a);
    default:
      INTERNAL("%s on integers", op_info[op].name);
  }
}

static int64_t divide(int64_t a, int64_t b) {
  return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static int64_t remainder_of(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

static int64_t floor_divide(int64_t a, int64_t b) {
  int64_t r = remainder_of(a, b);
  return divide(a, b) - (b != 0 && r != 0 && (r < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
  int64_t r = remainder_of(a, b);
  return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t int_power(DType dtype, int64_t a, int64_t b) {
  if (b < 0 && dtype != DT_U64) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = (uint64_t)a;
  for (uint64_t rest = (uint64_t)b; rest; rest >>= 1, base *= base)
    if (rest & 1) result *= base;
  return (int64_t)result;
}

static int64_t shift(Op op, DType dtype, int64_t a, int64_t b) {
  bool inside = b >= 0 && b < dtype_info[dtype].bits;
  switch (op) {
    case OP_SHL:
      return inside ? (int64_t)((uint64_t)a << b) : 0;
    case OP_SHR:
      if (dtype != DT_U64) return inside ? a >> b : a < 0 ? -1 : 0;
      return inside ? (int64_t)((uint64_t)a >> b) : 0;
    default:
      return inside ? (int64_t)(width_bits(dtype, a) >> b) : 0;
  }
}

// Of numbers of u64, whose bits an int64_t holds, what depends on the sign.
static bool unsigned_binary(Op op, uint64_t a, uint64_t b, int64_t *result) {
  switch (op) {
    case OP_DIV:
    case OP_FLOORDIV:
      *result = b == 0 ? -1 : (int64_t)(a / b);
      return true;
    case OP_REM:
    case OP_MOD:
      *result = (int64_t)(b == 0 ? a : a % b);
      return true;
    case OP_MAX:
      *result = (int64_t)(a > b ? a : b);
      return true;
    case OP_MIN:
      *result = (int64_t)(a < b ? a : b);
      return true;
    default:
      return false;
  }
}

int64_t int_binary(Op op, DType dtype, int64_t a, int64_t b) {
  int64_t result;
  if (dtype == DT_U64 && unsigned_binary(op, (uint64_t)a, (uint64_t)b, &result)) return result;
  switch (op) {
    case OP_ADD:
      return wrap_int(dtype, (int64_t)((uint64_t)a + (uint64_t)b));
    case OP_SUB:
      return wrap_int(dtype, (int64_t)((uint64_t)a - (uint64_t)b));
    case OP_MUL:
      return wrap_int(dtype, (int64_t)((uint64_t)a * (uint64_t)b));
    case OP_DIV:
      return wrap_int(dtype, divide(a, b));
    case OP_REM:
      return wrap_int(dtype, remainder_of(a, b));
    case OP_FLOORDIV:
      return wrap_int(dtype, floor_divide(a, b));
    case OP_MOD:
      return wrap_int(dtype, floor_mod(a, b));
    case OP_POW:
      return wrap_int(dtype, int_power(dtype, a, b));
    case OP_MAX:
      return a > b ? a : b;
    case OP_MIN:
      return a < b ? a : b;
    case OP_AND:
      return a & b;
    case OP_OR:
      return a | b;
    case OP_XOR:
      return a ^ b;
    case OP_SHL:
    case OP_SHR:
    case OP_USHR:
      return wrap_int(dtype, shift(op, dtype, a, b));
    default:
      INTERNAL("%s on integers", op_info[op].name);
  }
}

bool int_compare(Op op, DType dtype, int64_t a, int64_t b) {
  if (dtype == DT_U64) a ^= INT64_MIN, b ^= INT64_MIN;
  switch (op) {
    case OP_EQ:
      return a == b;
    case OP_NE:
      return a != b;
    case OP_LT:
      return a < b;
    case OP_LE:
      return a <= b;
    case OP_GT:
      return a > b;
    default:
      return a >= b;
  }
}

// ---- floats, in f64

static double negate(double a) { return -a; }

// What each function gives, by its number of operands.
static const union {
  double (*unary)(double);
  double (*binary)(double, double);
  bool (*predicate)(double);
} functions[OP_COUNT] = {
    [OP_NEG] = {.unary = negate},      [OP_REM] = {.binary = fmod},
    [OP_MOD] = {.binary = pk_f64_mod}, [OP_FLOORDIV] = {.binary = pk_f64_floordiv},
    [OP_MAX] = {.binary = pk_f64_max}, [OP_MIN] = {.binary = pk_f64_min},
#define OF_UNARY(f64) \
  { .unary = f64 }
#define OF_BINARY(f64) \
  { .binary = f64 }
#define OF_PREDICATE(f64) \
  { .predicate = f64 }
#define FUNCTION(id, name, class, domain, exactness, f64, bound, jax, vector, transcendental, \
                 instead, meaning)                                                            \
  [OP_##id] = OF_##class(f64),
#include "codegen/ir/ops.def"
};

FloatFunction *float_unary(Op op) {
  if (!functions[op].unary) INTERNAL("%s on floats", op_info[op].name);
  return functions[op].unary;
}

double float_binary(Op op, DType dtype, double a, double b) {
  switch (op) {
    case OP_ADD:
      return a + b;
    case OP_SUB:
      return a - b;
    case OP_MUL:
      return a * b;
    case OP_DIV:
      return a / b;
    default:
      if (op == OP_FLOORDIV && dtype == DT_F64) return pk_f64_floor_quotient(a, b, 0x1p53);
      if (!functions[op].binary) INTERNAL("%s on floats", op_info[op].name);
      return functions[op].binary(a, b);
  }
}

bool float_predicate(Op op, double a) { return functions[op].predicate(a); }

bool float_compare(Op op, double a, double b) {
  switch (op) {
    case OP_EQ:
      return a == b;
    case OP_NE:
      return a != b;
    case OP_LT:
      return a < b;
    case OP_LE:
      return a <= b;
    case OP_GT:
      return a > b;
    default:
      return a >= b;
  }
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

// To 52 bits or fewer with the last one telling of what was dropped: a later rounding to 24 bits or
// fewer then is right.
double int_to_double(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (magnitude >= (uint64_t)1 << 53)
    magnitude = (magnitude >> 11 << 11) | ((magnitude & 2047) ? 2048 : 0);
  return value < 0 ? -(double)magnitude : (double)magnitude;
}

double int_to_float(DType to, DType from, int64_t value) {
  if (to == DT_F64) return from == DT_U64 ? (double)(uint64_t)value : (double)value;
  if (from != DT_U64 || value >= 0) return dtype_round(to, int_to_double(value));
  const int64_t half = (int64_t)((uint64_t)value >> 1) | (value & 1);  // .. that tells of the bit
  return dtype_round(to, 2 * int_to_double(half));
}

Scalar scalar_cast(DType to, DType from, Scalar a) {
  if (!is_float(from))
    return is_float(to) ? (Scalar){.f = int_to_float(to, from, a.i)}
                        : (Scalar){.i = wrap_int(to, a.i)};
  if (is_float(to)) return (Scalar){.f = dtype_round(to, a.f)};
  return (Scalar){.i = to == DT_BOOL ? a.f != 0 : saturate_to_integer(to, a.f)};
}

static uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint64_t bits_of(DType dtype, double f, int64_t i) {
  float single = (float)f;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  switch (dtype) {
    case DT_F64:
      return double_bits(f);
    case DT_F32:
      return bits;
    case DT_BF16:
      return float_to_bf16((float)dtype_round(dtype, f));
    case DT_F16:
      return float_to_f16((float)dtype_round(dtype, f));
    case DT_F8E4M3FN:
    case DT_F8E5M2:
      return float_to_f8(dtype, f);
    default:
      return (uint64_t)i;
  }
}

static double float_of(DType dtype, uint64_t bits) {
  if (dtype == DT_BF16) return (double)bf16_to_float((uint16_t)bits);
  if (dtype == DT_F16) return (double)f16_to_float((uint16_t)bits);
  if (dtype == DT_F64) return double_of_bits(bits);
  if (dtype_bytes(dtype) == 1) return (double)f8_to_float(dtype, (uint8_t)bits);
  uint32_t word = (uint32_t)bits;
  float single;
  memcpy(&single, &word, sizeof single);
  return (double)single;
}

Scalar scalar_bitcast(DType to, DType from, Scalar a) {
  uint64_t bits = is_float(from) ? bits_of(from, a.f, 0) : bits_of(from, 0, a.i);
  return is_float(to) ? (Scalar){.f = float_of(to, bits)}
                      : (Scalar){.i = wrap_int(to, (int64_t)bits)};
}

// ---- any operation

static double apply_to_floats(Op op, DType dtype, const Scalar *a) {
  if (op == OP_FMA) return float_fma(dtype, a[0].f, a[1].f, a[2].f);
  return dtype_round(dtype, op_info[op].nargs == 1 ? float_unary(op)(a[0].f)
                                                   : float_binary(op, dtype, a[0].f, a[1].f));
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
