#include "codegen/ir/array.h"

#include <math.h>
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

// `precision` significant bits, exponents down to `least`.
typedef struct {
  int precision, least;
  double greatest;
  bool has_inf;
} FloatFormat;

static const FloatFormat formats[DT_COUNT] = {
    [DT_F64] = {53, -1022, 0x1.fffffffffffffp1023, true},
    [DT_F32] = {24, -126, 0x1.fffffep127, true},
    [DT_BF16] = {8, -126, 0x1.fep127, true},
    [DT_F16] = {11, -14, 65504, true},
    [DT_F8E4M3FN] = {4, -6, 448, false},
    [DT_F8E5M2] = {3, -14, 57344, true},
};

double dtype_largest(DType dtype) { return formats[dtype].greatest; }
bool dtype_has_inf(DType dtype) { return formats[dtype].has_inf; }
int dtype_precision(DType dtype) { return formats[dtype].precision; }
int dtype_least_exponent(DType dtype) { return formats[dtype].least; }
double dtype_spacing(DType dtype) {
  return is_float(dtype) ? ldexp(1, 1 - formats[dtype].precision) : 0;
}

// Rounds to nearest even.
static double round_binary(double value, const FloatFormat *format) {
  if (value == 0 || isnan(value)) return value;
  double overflow = format->has_inf ? copysign(INFINITY, value) : (double)NAN;
  if (isinf(value)) return overflow;
  int exponent = ilogb(value);
  if (exponent < format->least) exponent = format->least;
  int shift = format->precision - 1 - exponent;
  double rounded = ldexp(rint(ldexp(value, shift)), -shift);
  return fabs(rounded) > format->greatest ? overflow : rounded;
}

double dtype_round(DType dtype, double value) {
  if (dtype == DT_F64) return value;
  if (dtype == DT_F32) return (double)(float)value;
  return is_float(dtype) ? round_binary(value, &formats[dtype]) : value;
}

float f8_to_float(DType dtype, uint8_t bits) {
  const FloatFormat *format = &formats[dtype];
  int width = format->precision - 1, exponent = (bits & 0x7f) >> width,
      fraction = bits & ((1 << width) - 1);
  float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (format->has_inf && exponent == 31) return fraction ? (float)NAN : sign * (float)INFINITY;
  if (!format->has_inf && (bits & 0x7f) == 0x7f) return (float)NAN;
  if (exponent > 0) fraction += 1 << width, exponent--;
  return sign * ldexpf((float)fraction, exponent + format->least - width);
}

uint8_t float_to_f8(DType dtype, double value) {
  const FloatFormat *format = &formats[dtype];
  uint8_t sign = signbit(value) ? 0x80 : 0;
  int width = format->precision - 1;
  value = fabs(dtype_round(dtype, value));
  if (isnan(value)) return sign | (format->has_inf ? 0x7e : 0x7f);
  if (isinf(value)) return sign | 0x7c;
  int exponent = value == 0 || ilogb(value) < format->least ? format->least : ilogb(value);
  return (uint8_t)(sign |
                   (((exponent - format->least) << width) + (int)ldexp(value, width - exponent)));
}

// ---- elements

double array_get(const HostArray *array, int64_t index) {
  switch (array->dtype) {
    case DT_BOOL:
    case DT_U8:
      return ((const uint8_t *)array->data)[index];
    case DT_I8:
      return ((const int8_t *)array->data)[index];
    case DT_I4:
      return ((((const uint8_t *)array->data)[index] & 15) ^ 8) - 8;
    case DT_U4:
      return ((const uint8_t *)array->data)[index] & 15;
    case DT_F8E4M3FN:
    case DT_F8E5M2:
      return (double)f8_to_float(array->dtype, ((const uint8_t *)array->data)[index]);
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
      return (double)bf16_to_float(((const uint16_t *)array->data)[index]);
    case DT_F16:
      return (double)f16_to_float(((const uint16_t *)array->data)[index]);
    case DT_F32:
      return (double)((const float *)array->data)[index];
    case DT_COUNT:
      break;
  }
  INTERNAL("dtype %d", (int)array->dtype);
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
    case DT_BOOL:
    case DT_U8:
    case DT_I8:
      ((uint8_t *)array->data)[index] = (uint8_t)value;
      return;
    case DT_I4:
    case DT_U4:
      ((uint8_t *)array->data)[index] = (uint8_t)(value & 15);
      return;
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
      INTERNAL("dtype %d", (int)array->dtype);
  }
}

void array_set(HostArray *array, int64_t index, double value) {
  switch (array->dtype) {
    case DT_BOOL:
      ((uint8_t *)array->data)[index] = value != 0;
      return;
    case DT_BF16:
      ((uint16_t *)array->data)[index] = float_to_bf16((float)dtype_round(DT_BF16, value));
      return;
    case DT_F16:
      ((uint16_t *)array->data)[index] = float_to_f16((float)dtype_round(DT_F16, value));
      return;
    case DT_F32:
      ((float *)array->data)[index] = (float)value;
      return;
    case DT_F64:
      ((double *)array->data)[index] = value;
      return;
    case DT_F8E4M3FN:
    case DT_F8E5M2:
      ((uint8_t *)array->data)[index] = float_to_f8(array->dtype, value);
      return;
    default:
      array_set_int(array, index, saturate_to_integer(array->dtype, value));
  }
}
