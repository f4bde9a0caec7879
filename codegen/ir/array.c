// Whole arrays in the compiler's memory: their elements, copies, sizes and rounding.
#include "codegen/ir/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool array_elements(const HostArray *array, int64_t *count) {
  int64_t n = 1, bytes;
  bool empty = false;
  for (int i = 0; i < array->rank; i++) {
    if (array->dim[i] < 0) return false;
    empty |= array->dim[i] == 0;
  }
  for (int i = 0; i < array->rank && !empty; i++)
    if (!mul_i64(n, array->dim[i], &n)) return false;
  *count = empty ? 0 : n;
  return empty || mul_i64(n, dtype_bytes(array->dtype), &bytes);
}

int64_t *array_cells(const HostArray *array) {
  int64_t elements;
  array_elements(array, &elements);
  int64_t *cells = calloc((size_t)elements + 1, sizeof *cells);
  if (!cells) INTERNAL("no memory for %lld cells", (long long)elements);
  return cells;
}

// ---- narrow floats

static uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float bf16_to_float(uint16_t bits) { return float_of_bits((uint32_t)bits << 16); }

uint16_t float_to_bf16(float value) {
  uint32_t bits = float_bits(value);
  if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f16_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
           fraction = bits & 1023;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return sign ? -ldexpf((float)fraction, -24) : ldexpf((float)fraction, -24);
  return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t float_to_f16(float value) {
  uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, fraction = bits & 0x7fffff;
  if (isnan(value)) return (uint16_t)(sign | 0x7e00 | fraction >> 13);
  float magnitude = fabsf(value);
  if (magnitude >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  // Below 2^-14 the spacing is 2^-24; a carry out of the fraction moves to the next exponent by
  // itself.
  if (magnitude < ldexpf(1, -14)) return (uint16_t)(sign | (uint32_t)rintf(ldexpf(magnitude, 24)));
  uint32_t rounded = float_bits(magnitude) + 0xfff + (bits >> 13 & 1);
  return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

double dtype_largest(DType dtype) { return dtype_info[dtype].greatest; }
bool dtype_has_inf(DType dtype) { return dtype_info[dtype].special == SPECIAL_IEEE; }
int dtype_precision(DType dtype) { return dtype_info[dtype].precision; }
int dtype_least_exponent(DType dtype) { return dtype_info[dtype].least_exponent; }

double dtype_spacing(DType dtype) {
  return is_float(dtype) ? ldexp(1, 1 - dtype_info[dtype].precision) : 0;
}

static double least_scale(const DTypeInfo *t) { return ldexp(1, t->least_exponent); }

double dtype_top(DType dtype) {
  return dtype_has_inf(dtype) ? (double)INFINITY : dtype_largest(dtype);
}

double dtype_bottom(DType dtype) {
  return is_scale(dtype) ? least_scale(&dtype_info[dtype]) : -dtype_top(dtype);
}

// The exponent of the last bit of the least positive number.
static int last_place(const DTypeInfo *t) { return t->least_exponent - (t->precision - 1); }

bool dtype_holds(DType wide, DType narrow) {
  const DTypeInfo *w = &dtype_info[wide], *n = &dtype_info[narrow];
  return w->precision >= n->precision && last_place(w) <= last_place(n) &&
         w->greatest >= n->greatest && (dtype_has_inf(wide) || !dtype_has_inf(narrow)) &&
         (!is_scale(wide) || is_scale(narrow)) &&
         (w->special != SPECIAL_FINITE || wide == narrow) &&
         (w->special != SPECIAL_FNUZ || n->special == SPECIAL_FNUZ || is_scale(narrow));
}

// Rounds to nearest even.
static double round_number(double value, const DTypeInfo *t) {
  int exponent = ilogb(value);
  if (exponent < t->least_exponent) exponent = t->least_exponent;
  int shift = t->precision - 1 - exponent;
  return ldexp(rint(ldexp(value, shift)), -shift);
}

static double round_to_scale(double value, const DTypeInfo *t) {
  if (!(value > 0) || isinf(value)) return (double)NAN;
  double rounded = round_number(value, t);
  return rounded > t->greatest ? (double)NAN : fmax(rounded, least_scale(t));
}

static double bounded(double value, double most) { return fmax(-most, fmin(value, most)); }

static double round_binary(double value, const DTypeInfo *t) {
  if (t->special == SPECIAL_FINITE) value = isnan(value) ? -0.0 : bounded(value, t->greatest);
  if (isnan(value)) return value;
  double rounded = value == 0 || isinf(value) ? value : round_number(value, t);
  if (fabs(rounded) > t->greatest)
    return t->special == SPECIAL_IEEE ? copysign(INFINITY, value) : (double)NAN;
  return rounded == 0 && t->special == SPECIAL_FNUZ ? 0 : rounded;
}

double dtype_round(DType dtype, double value) {
  if (dtype == DT_F64 || !is_float(dtype)) return value;
  if (dtype == DT_F32) return (double)(float)value;
  return is_scale(dtype) ? round_to_scale(value, &dtype_info[dtype])
                         : round_binary(value, &dtype_info[dtype]);
}

static bool is_f8_nan(const DTypeInfo *t, uint8_t bits) {
  switch (t->special) {
    case SPECIAL_FINITE:
      return false;
    case SPECIAL_FN:
      return (bits & 0x7f) == 0x7f;
    case SPECIAL_FNUZ:
      return bits == 0x80;
    case SPECIAL_SCALE:
      return bits == 0xff;
    default:
      return (bits & 0x7f) > 0x7c;
  }
}

static float f8_to_float(DType dtype, uint8_t bits) {
  const DTypeInfo *t = &dtype_info[dtype];
  int width = t->precision - 1, minus = 1 << (t->bits - 1),
      exponent = (bits & (minus - 1)) >> width, fraction = bits & ((1 << width) - 1);
  float sign = bits & minus ? -1.0f : 1.0f;
  if (is_f8_nan(t, bits)) return (float)NAN;
  if (is_scale(dtype)) return ldexpf(1, bits + t->least_exponent);
  if (dtype_has_inf(dtype) && exponent == 31) return sign * (float)INFINITY;
  if (exponent > 0) fraction += 1 << width, exponent--;
  return sign * ldexpf((float)fraction, exponent + t->least_exponent - width);
}

static uint8_t f8_nan(Special special, uint8_t sign) {
  switch (special) {
    case SPECIAL_FN:
      return sign | 0x7f;
    case SPECIAL_FNUZ:
      return 0x80;
    case SPECIAL_SCALE:
      return 0xff;
    default:
      return sign | 0x7e;
  }
}

static uint8_t float_to_f8(DType dtype, double value) {
  const DTypeInfo *t = &dtype_info[dtype];
  value = dtype_round(dtype, value);
  uint8_t sign = signbit(value) ? (uint8_t)(1 << (t->bits - 1)) : 0;
  int width = t->precision - 1;
  if (isnan(value)) return f8_nan(t->special, sign);
  value = fabs(value);
  if (isinf(value)) return sign | 0x7c;
  int least = t->least_exponent;
  int exponent = value == 0 || ilogb(value) < least ? least : ilogb(value);
  if (is_scale(dtype)) return (uint8_t)(exponent - least);
  return (uint8_t)(sign | (((exponent - least) << width) + (int)ldexp(value, width - exponent)));
}

// ---- floats by their bits

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

// NaNs keep their bits, because a conversion would make them quiet.
enum { F64_DIGITS = 52 };

static bool has_nans(DType dtype) {
  Special special = dtype_info[dtype].special;
  return special == SPECIAL_IEEE || special == SPECIAL_FN;
}

static uint64_t nan_bits(DType dtype, double value) {
  int digits = dtype_precision(dtype) - 1, bits = dtype_info[dtype].bits;
  uint64_t quiet = UINT64_C(1) << (digits - 1), all = 2 * quiet - 1,
           sign = double_bits(value) >> 63,
           payload = double_bits(value) >> (F64_DIGITS - digits) & all,
           exponent = (UINT64_C(1) << (bits - 1)) - 1 - all;
  if (dtype_info[dtype].special == SPECIAL_FN) payload = all;
  return sign << (bits - 1) | exponent | (payload ? payload : quiet);
}

static double nan_of_bits(DType dtype, uint64_t bits) {
  int digits = dtype_precision(dtype) - 1;
  uint64_t payload = bits << (F64_DIGITS - digits) & ((UINT64_C(1) << F64_DIGITS) - 1),
           sign = bits >> (dtype_info[dtype].bits - 1) & 1;
  return double_of_bits(sign << 63 | UINT64_C(0x7ff) << F64_DIGITS | payload);
}

uint64_t dtype_bits(DType dtype, double value) {
  if (isnan(value) && has_nans(dtype)) return nan_bits(dtype, value);
  float single = (float)value;
  uint32_t word;
  memcpy(&word, &single, sizeof word);
  switch (dtype) {
    case DT_F64:
      return double_bits(value);
    case DT_F32:
      return word;
    case DT_BF16:
      return float_to_bf16((float)dtype_round(dtype, value));
    case DT_F16:
      return float_to_f16((float)dtype_round(dtype, value));
    default:
      return float_to_f8(dtype, value);
  }
}

static double number_of_bits(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DT_F64:
      return double_of_bits(bits);
    case DT_F32:
      return (double)float_of_bits((uint32_t)bits);
    case DT_BF16:
      return (double)bf16_to_float((uint16_t)bits);
    case DT_F16:
      return (double)f16_to_float((uint16_t)bits);
    default:
      return (double)f8_to_float(dtype, (uint8_t)bits);
  }
}

double dtype_value(DType dtype, uint64_t bits) {
  double number = number_of_bits(dtype, bits);
  return isnan(number) && has_nans(dtype) ? nan_of_bits(dtype, bits) : number;
}

// ---- elements

static double get_byte(DType t, uint8_t byte) {
  if (is_float(t)) return dtype_value(t, byte);
  int drop = 8 - dtype_info[t].bits;
  return dtype_info[t].class == CLASS_SIGNED ? (int8_t)(uint8_t)(byte << drop) >> drop
                                             : (uint8_t)(byte << drop) >> drop;
}

// An element as a double.
double array_get(const HostArray *array, int64_t index) {
  switch (array->dtype) {
    case DT_I8:
      return ((const int8_t *)array->data)[index];
    case DT_I16:
      return ((const int16_t *)array->data)[index];
    case DT_U16:
      return ((const uint16_t *)array->data)[index];
    case DT_I32:
      return ((const int32_t *)array->data)[index];
    case DT_U32:
      return ((const uint32_t *)array->data)[index];
    case DT_I64:
      return (double)((const int64_t *)array->data)[index];
    case DT_U64:
      return (double)((const uint64_t *)array->data)[index];
    case DT_F64:
      return ((const double *)array->data)[index];
    case DT_BF16:
    case DT_F16:
      return dtype_value(array->dtype, ((const uint16_t *)array->data)[index]);
    case DT_F32:
      return dtype_value(DT_F32, ((const uint32_t *)array->data)[index]);
    default:
      return get_byte(array->dtype, ((const uint8_t *)array->data)[index]);
  }
}

int64_t array_get_int(const HostArray *array, int64_t index) {
  return is_wide(array->dtype) ? ((const int64_t *)array->data)[index]
                               : (int64_t)array_get(array, index);
}

static int64_t saturate_to_u64(double value) {
  if (value <= 0) return 0;
  return value >= 0x1p64 ? -1 : (int64_t)(uint64_t)value;
}

int64_t saturate_to_integer(DType dtype, double value) {
  if (isnan(value)) return 0;
  value = trunc(value);
  if (dtype == DT_U64) return saturate_to_u64(value);
  if (value <= (double)dtype_min(dtype)) return dtype_min(dtype);
  if (value >= (double)dtype_max(dtype)) return dtype_max(dtype);
  return (int64_t)value;
}

void array_set_int(HostArray *array, int64_t index, int64_t value) {
  switch (array->dtype) {
    case DT_I16:
    case DT_U16:
      ((uint16_t *)array->data)[index] = (uint16_t)value;
      return;
    case DT_I32:
    case DT_U32:
      ((uint32_t *)array->data)[index] = (uint32_t)value;
      return;
    case DT_I64:
    case DT_U64:
      ((int64_t *)array->data)[index] = value;
      return;
    default:
      REQUIRE(dtype_bytes(array->dtype) == 1);
      ((uint8_t *)array->data)[index] =
          (uint8_t)(value & ((1 << dtype_info[array->dtype].bits) - 1));
  }
}

// Sets an element, rounded to the array's dtype.
void array_set(HostArray *array, int64_t index, double value) {
  switch (array->dtype) {
    case DT_BOOL:
      ((uint8_t *)array->data)[index] = value != 0;
      return;
    case DT_BF16:
    case DT_F16:
      ((uint16_t *)array->data)[index] = (uint16_t)dtype_bits(array->dtype, value);
      return;
    case DT_F32:
      ((uint32_t *)array->data)[index] = (uint32_t)dtype_bits(DT_F32, value);
      return;
    case DT_F64:
      ((double *)array->data)[index] = value;
      return;
    default:
      if (is_byte_float(array->dtype))
        ((uint8_t *)array->data)[index] = (uint8_t)dtype_bits(array->dtype, value);
      else
        array_set_int(array, index, saturate_to_integer(array->dtype, value));
  }
}
