// Values of the interpreter and what is done to them element by element.
#include "codegen/interp_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MEMORY_LIMIT = (int64_t)6 << 30;

int64_t resolve_dim(const int64_t *sizes, Dim dim) { return dim_is_const(dim) ? dim : sizes[dim_size_index(dim)]; }

static bool element_count(const Value *v, int64_t *count) {
  *count = 1;
  for (int i = 0; i < v->rank; i++)
    if (v->dim[i] == 0) return *count = 0, true;
  for (int i = 0; i < v->rank; i++)
    if (!mul_i64(*count, v->dim[i], count)) return false;
  return true;
}

static bool grow(Interp *in, void **data, int64_t *capacity, int64_t bytes) {
  if (bytes <= *capacity) return true;
  if (bytes > MEMORY_LIMIT - in->bytes + *capacity) return false;
  void *wider = realloc(*data, (size_t)bytes);
  if (!wider) return false;
  in->bytes += bytes - *capacity;
  *data = wider;
  *capacity = bytes;
  return true;
}

Value *value_shape(Interp *in, Value *v, const Type *type) {
  v->dtype = type->dtype;
  v->rank = type->rank;
  v->poisoned = false;
  for (int i = 0; i < type->rank; i++) v->dim[i] = resolve_dim(in->sizes, type->dim[i]);
  int64_t bytes;
  bool fits = element_count(v, &v->count) && mul_i64(v->count > 0 ? v->count : 1, 8, &bytes);
  if (!fits || !grow(in, &v->data, &v->capacity, bytes)) {
    stop_for_memory(in, fits ? bytes : INT64_MAX);
    return NULL;
  }
  return v;
}

Value *value_new(Interp *in, const Instr *instr) { return value_shape(in, value_of(in, instr), &instr->type); }

bool value_poison(Interp *in, Value *v) {
  if (v->poisoned) return true;
  void *poison = v->poison;
  bool fits = grow(in, &poison, &v->poison_capacity, v->count > 0 ? v->count : 1);
  v->poison = poison;
  if (!fits) {
    stop_for_memory(in, v->count);
    return false;
  }
  memset(v->poison, 0, (size_t)v->count);
  return v->poisoned = true;
}

void value_free(Value *v) {
  free(v->data);
  free(v->poison);
}

void *scratch_space(Interp *in, int which, int64_t count, int64_t item_bytes) {
  int64_t bytes;
  bool fits = mul_i64(count > 0 ? count : 1, item_bytes, &bytes);
  if (!fits || !grow(in, &in->scratch[which], &in->scratch_bytes[which], bytes)) {
    stop_for_memory(in, fits ? bytes : INT64_MAX);
    return NULL;
  }
  return in->scratch[which];
}

double unspecified_float(void) { return (double)NAN; }
int64_t unspecified_int(DType dtype) { return dtype == DT_BOOL ? 0 : dtype_min(dtype); }

void fill_unspecified(Value *v, int64_t from, int64_t count, uint8_t mark) {
  memset(v->poison + from, mark, (size_t)count);
  if (is_float(v->dtype))
    for (int64_t e = from; e < from + count; e++) v->f[e] = unspecified_float();
  else
    for (int64_t e = from; e < from + count; e++) v->i[e] = unspecified_int(v->dtype);
}

// ---- integers

int64_t wrap_int(DType dtype, int64_t value) {
  switch (dtype) {
    case DT_BOOL:
      return value != 0;
    case DT_I8:
      return (int8_t)(uint8_t)value;
    case DT_U8:
      return (uint8_t)value;
    case DT_I16:
      return (int16_t)(uint16_t)value;
    case DT_U16:
      return (uint16_t)value;
    case DT_I32:
      return (int32_t)(uint32_t)value;
    case DT_U32:
      return (uint32_t)value;
    default:
      return value;
  }
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
      return wrap_int(dtype, a < 0 ? negated : a);
    case OP_SIGN:
      return (a > 0) - (a < 0);
    case OP_POPCOUNT:
      return __builtin_popcountll(width_bits(dtype, a));
    case OP_CLZ:
      return count_leading_zeros(dtype, a);
    default:
      INTERNAL("%s on integers", op_info[op].name);
  }
}

static int64_t divide(int64_t a, int64_t b) { return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
static int64_t remainder_of(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

static int64_t floor_divide(int64_t a, int64_t b) {
  int64_t r = remainder_of(a, b);
  return divide(a, b) - (b != 0 && r != 0 && (r < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
  int64_t r = remainder_of(a, b);
  return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t int_power(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = (uint64_t)a;
  for (; b; b >>= 1, base *= base)
    if (b & 1) result *= base;
  return (int64_t)result;
}

static int64_t shift(Op op, DType dtype, int64_t a, int64_t b) {
  bool inside = b >= 0 && b < dtype_info[dtype].bits;
  switch (op) {
    case OP_SHL:
      return inside ? (int64_t)((uint64_t)a << b) : 0;
    case OP_SHR:
      return inside ? a >> b : a < 0 ? -1 : 0;
    default:
      return inside ? (int64_t)(width_bits(dtype, a) >> b) : 0;
  }
}

int64_t int_binary(Op op, DType dtype, int64_t a, int64_t b) {
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
      return wrap_int(dtype, int_power(a, b));
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

bool int_compare(Op op, int64_t a, int64_t b) {
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

static double sign_of(double a) { return isnan(a) || a == 0 ? a : a > 0 ? 1 : -1; }
static double reciprocal_root(double a) { return 1 / sqrt(a); }
static double reciprocal_of(double a) { return 1 / a; }
static double logistic_of(double a) { return 1 / (1 + exp(-a)); }
static double negate(double a) { return -a; }

static double (*const float_unary[OP_COUNT])(double) = {
    [OP_NEG] = negate,
    [OP_ABS] = fabs,
    [OP_SIGN] = sign_of,
    [OP_EXP] = exp,
    [OP_EXP2] = exp2,
    [OP_EXPM1] = expm1,
    [OP_LOG] = log,
    [OP_LOG2] = log2,
    [OP_LOG1P] = log1p,
    [OP_SQRT] = sqrt,
    [OP_RSQRT] = reciprocal_root,
    [OP_RECIP] = reciprocal_of,
    [OP_TANH] = tanh,
    [OP_LOGISTIC] = logistic_of,
    [OP_ERF] = erf,
    [OP_SIN] = sin,
    [OP_COS] = cos,
    [OP_TAN] = tan,
    [OP_FLOOR] = floor,
    [OP_CEIL] = ceil,
    [OP_ROUND] = rint,
    [OP_TRUNC] = trunc,
};

double float_max(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}

double float_min(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? a : b;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

static double float_mod(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? copysign(r, b) : r;
}

static double float_binary(Op op, double a, double b) {
  switch (op) {
    case OP_ADD:
      return a + b;
    case OP_SUB:
      return a - b;
    case OP_MUL:
      return a * b;
    case OP_DIV:
      return a / b;
    case OP_REM:
      return fmod(a, b);
    case OP_MOD:
      return float_mod(a, b);
    case OP_POW:
      return pow(a, b);
    case OP_ATAN2:
      return atan2(a, b);
    case OP_MAX:
      return float_max(a, b);
    case OP_MIN:
      return float_min(a, b);
    default:
      INTERNAL("%s on floats", op_info[op].name);
  }
}

static bool float_compare(Op op, double a, double b) {
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

static bool predicate(Op op, double a) { return op == OP_ISNAN ? isnan(a) : op == OP_ISINF ? isinf(a) : isfinite(a); }

// a * b + c rounded to odd, so that rounding it again to a narrower type rounds the exact value once. a * b is exact: the factors
// have at most 24 bits.
static double fma_to_odd(double a, double b, double c) {
  double product = a * b, sum = product + c;
  double part = sum - product, error = (product - (sum - part)) + (c - part);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (!isfinite(sum) || error == 0 || bits & 1) return sum;
  return nextafter(sum, error > 0 ? (double)INFINITY : -(double)INFINITY);
}

void round_floats(const Interp *in, Value *v) {
  if (in->exact || !is_float(v->dtype)) return;
  if (v->dtype == DT_F32)
    for (int64_t e = 0; e < v->count; e++) v->f[e] = (double)(float)v->f[e];
  else
    for (int64_t e = 0; e < v->count; e++) v->f[e] = dtype_round(v->dtype, v->f[e]);
}

// ---- element by element

static void run_unary(Value *out, Op op, const Value *a) {
  if (!is_float(a->dtype)) {
    for (int64_t e = 0; e < out->count; e++) out->i[e] = int_unary(op, a->dtype, a->i[e]);
    return;
  }
  double (*function)(double) = float_unary[op];
  if (!function) INTERNAL("%s on floats", op_info[op].name);
  for (int64_t e = 0; e < out->count; e++) out->f[e] = function(a->f[e]);
}

static void run_float_binary(const Interp *in, Value *out, Op op, const Value *a, const Value *b) {
  switch (op) {
    case OP_ADD:
      for (int64_t e = 0; e < out->count; e++) out->f[e] = a->f[e] + b->f[e];
      return;
    case OP_SUB:
      for (int64_t e = 0; e < out->count; e++) out->f[e] = a->f[e] - b->f[e];
      return;
    case OP_MUL:
      for (int64_t e = 0; e < out->count; e++) out->f[e] = a->f[e] * b->f[e];
      return;
    case OP_FLOORDIV:  // the floor of the quotient as the dtype has it
      for (int64_t e = 0; e < out->count; e++) out->f[e] = a->f[e] / b->f[e];
      round_floats(in, out);
      for (int64_t e = 0; e < out->count; e++) out->f[e] = floor(out->f[e]);
      return;
    default:
      for (int64_t e = 0; e < out->count; e++) out->f[e] = float_binary(op, a->f[e], b->f[e]);
  }
}

static void run_binary(const Interp *in, Value *out, Op op, const Value *a, const Value *b) {
  if (is_float(a->dtype)) return run_float_binary(in, out, op, a, b);
  for (int64_t e = 0; e < out->count; e++) out->i[e] = int_binary(op, a->dtype, a->i[e], b->i[e]);
}

static void run_compare(Value *out, Op op, const Value *a, const Value *b) {
  if (is_float(a->dtype))
    for (int64_t e = 0; e < out->count; e++) out->i[e] = float_compare(op, a->f[e], b->f[e]);
  else
    for (int64_t e = 0; e < out->count; e++) out->i[e] = int_compare(op, a->i[e], b->i[e]);
}

static void run_fma(const Interp *in, Value *out, const Value *a, const Value *b, const Value *c) {
  for (int64_t e = 0; e < out->count; e++)
    out->f[e] = in->exact ? fma(a->f[e], b->f[e], c->f[e]) : fma_to_odd(a->f[e], b->f[e], c->f[e]);
}

static void run_select(Interp *in, Value *out, const Value *c, const Value *a, const Value *b) {
  bool any = c->poisoned || a->poisoned || b->poisoned;
  if (any && !value_poison(in, out)) return;
  for (int64_t e = 0; e < out->count; e++) {
    const Value *side = c->i[e] ? a : b;
    if (is_float(out->dtype))
      out->f[e] = side->f[e];
    else
      out->i[e] = side->i[e];
    if (!any) continue;
    uint8_t condition = poison_at(c, e);
    out->poison[e] = condition ? condition : poison_at(side, e);
  }
}

// ---- conversions

// To 52 bits or fewer with the last one telling of what was dropped: a later rounding to 24 bits or fewer then is right.
static double int_to_double(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (magnitude >= (uint64_t)1 << 53) magnitude = (magnitude >> 11 << 11) | ((magnitude & 2047) ? 2048 : 0);
  return value < 0 ? -(double)magnitude : (double)magnitude;
}

static void run_cast(Value *out, const Value *a, bool exact) {
  bool from_float = is_float(a->dtype), to_float = is_float(out->dtype);
  bool narrows = !exact || dtype_bytes(out->dtype) < dtype_bytes(a->dtype);
  for (int64_t e = 0; e < out->count; e++) {
    if (to_float) {
      double value = from_float ? a->f[e] : int_to_double(a->i[e]);
      out->f[e] = narrows ? dtype_round(out->dtype, value) : value;
    } else if (from_float) {
      out->i[e] = out->dtype == DT_BOOL ? a->f[e] != 0 : saturate_to_integer(out->dtype, a->f[e]);
    } else {
      out->i[e] = wrap_int(out->dtype, a->i[e]);
    }
  }
}

static uint64_t bits_of(DType dtype, double f, int64_t i) {
  float single = (float)f;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  switch (dtype) {
    case DT_F32:
      return bits;
    case DT_BF16:
      return float_to_bf16((float)dtype_round(dtype, f));
    case DT_F16:
      return float_to_f16((float)dtype_round(dtype, f));
    default:
      return (uint64_t)i;
  }
}

static double float_of(DType dtype, uint64_t bits) {
  if (dtype == DT_BF16) return (double)bf16_to_float((uint16_t)bits);
  if (dtype == DT_F16) return (double)f16_to_float((uint16_t)bits);
  uint32_t word = (uint32_t)bits;
  float single;
  memcpy(&single, &word, sizeof single);
  return (double)single;
}

static void run_bitcast(Value *out, const Value *a) {
  for (int64_t e = 0; e < out->count; e++) {
    bool from_float = is_float(a->dtype);
    uint64_t bits = bits_of(a->dtype, from_float ? a->f[e] : 0, from_float ? 0 : a->i[e]);
    if (is_float(out->dtype))
      out->f[e] = float_of(out->dtype, bits);
    else
      out->i[e] = wrap_int(out->dtype, (int64_t)bits);
  }
}

static void propagate_poison(Interp *in, Value *out, const Instr *instr) {
  for (int i = 0; i < instr->nargs; i++) {
    const Value *arg = value_of(in, instr->args[i]);
    if (!arg->poisoned) continue;
    if (!value_poison(in, out)) return;
    for (int64_t e = 0; e < out->count; e++)
      if (!out->poison[e]) out->poison[e] = arg->poison[e];
  }
}

void run_elementwise(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  const Value *arg[3] = {NULL, NULL, NULL};
  for (int i = 0; i < instr->nargs && i < 3; i++) arg[i] = value_of(in, instr->args[i]);
  switch (op_info[instr->op].class) {
    case OPC_UNARY:
      run_unary(out, instr->op, arg[0]);
      break;
    case OPC_PREDICATE:
      for (int64_t e = 0; e < out->count; e++) out->i[e] = predicate(instr->op, arg[0]->f[e]);
      break;
    case OPC_BINARY:
      run_binary(in, out, instr->op, arg[0], arg[1]);
      break;
    case OPC_COMPARE:
      run_compare(out, instr->op, arg[0], arg[1]);
      break;
    case OPC_SELECT:
      run_select(in, out, arg[0], arg[1], arg[2]);
      return;
    case OPC_TERNARY:
      run_fma(in, out, arg[0], arg[1], arg[2]);
      break;
    default:
      if (instr->op == OP_BITCAST)
        run_bitcast(out, arg[0]);
      else
        run_cast(out, arg[0], in->exact);
      return propagate_poison(in, out, instr);
  }
  round_floats(in, out);
  propagate_poison(in, out, instr);
}

// ---- between arrays and values

static int64_t int_at(const HostArray *array, int64_t index) {
  return array->dtype == DT_I64 ? ((const int64_t *)array->data)[index] : (int64_t)array_get(array, index);
}

void read_elements(const HostArray *array, int64_t from, int64_t count, Value *to, int64_t at) {
  if (array->dtype == DT_F32)
    for (int64_t e = 0; e < count; e++) to->f[at + e] = (double)((const float *)array->data)[from + e];
  else if (is_float(array->dtype))
    for (int64_t e = 0; e < count; e++) to->f[at + e] = array_get(array, from + e);
  else
    for (int64_t e = 0; e < count; e++) to->i[at + e] = int_at(array, from + e);
}

void write_elements(HostArray *array, int64_t to, int64_t count, const Value *from, int64_t at) {
  if (is_float(array->dtype))
    for (int64_t e = 0; e < count; e++) array_set(array, to + e, from->f[at + e]);
  else
    for (int64_t e = 0; e < count; e++) array_set_int(array, to + e, from->i[at + e]);
}
