#include "codegen/array.h"

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

// ---- 16-bit floats

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
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return sign ? -ldexpf((float)fraction, -24) : ldexpf((float)fraction, -24);
  return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t float_to_f16(float value) {
  uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, fraction = bits & 0x7fffff;
  if (isnan(value)) return (uint16_t)(sign | 0x7e00 | fraction >> 13);
  float magnitude = fabsf(value);
  if (magnitude >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  // Below 2^-14 the spacing is 2^-24; a carry out of the fraction moves to the next exponent by itself.
  if (magnitude < ldexpf(1, -14)) return (uint16_t)(sign | (uint32_t)rintf(ldexpf(magnitude, 24)));
  uint32_t rounded = float_bits(magnitude) + 0xfff + (bits >> 13 & 1);
  return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

// Rounds to `precision` significant bits, exponents down to `least`, overflow past `greatest`.
static double round_binary(double value, int precision, int least, double greatest) {
  if (value == 0 || !isfinite(value)) return value;
  int exponent = ilogb(value);
  if (exponent < least) exponent = least;
  int shift = precision - 1 - exponent;
  double rounded = ldexp(rint(ldexp(value, shift)), -shift);
  return fabs(rounded) > greatest ? copysign(INFINITY, value) : rounded;
}

double dtype_round(DType dtype, double value) {
  switch (dtype) {
    case DT_F32:
      return (double)(float)value;
    case DT_BF16:
      return round_binary(value, 8, -126, 0x1.fep127);
    case DT_F16:
      return round_binary(value, 11, -14, 65504.0);
    default:
      return value;
  }
}

// ---- elements

double array_get(const HostArray *array, int64_t index) {
  switch (array->dtype) {
    case DT_BOOL:
    case DT_U8:
      return ((const uint8_t *)array->data)[index];
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

int64_t saturate_to_integer(DType dtype, double value) {
  if (isnan(value)) return 0;
  value = trunc(value);
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
    case DT_I16:
    case DT_U16:
      ((uint16_t *)array->data)[index] = (uint16_t)value;
      return;
    case DT_I32:
    case DT_U32:
      ((uint32_t *)array->data)[index] = (uint32_t)value;
      return;
    case DT_I64:
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
    default:
      array_set_int(array, index, saturate_to_integer(array->dtype, value));
  }
}
