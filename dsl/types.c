// Dtypes, memory spaces, and the shapes of values.
#include "dsl/types.h"

#include <string.h>

const DTypeInfo dtype_info[DT_COUNT] = {
#define INTEGER(id, name, bits, class, ctype, numpy, npy, meaning) \
  {name, bits, class, ctype, numpy, npy, 0, 0, 0, SPECIAL_NONE, meaning},
#define FLOAT(id, name, bits, ctype, numpy, npy, digits, least, greatest, special, meaning) \
  {name, bits, CLASS_FLOAT, ctype, numpy, npy, digits, least, greatest, SPECIAL_##special, meaning},
#include "dsl/dtypes.def"
};

DType dtype_by_name(const char *name) {
  int t = 0;
  while (t < DT_COUNT && strcmp(dtype_info[t].name, name) != 0) t++;
  return (DType)t;
}

DType dtype_accum(DType t) {
  if (is_wide(t)) return t;
  return is_float(t) ? DT_F32 : DT_I32;
}

static bool holds(DType floats, DType t) {
  return (is_float(t) ? dtype_info[t].precision : dtype_info[t].bits) <=
         dtype_info[floats].precision;
}

DType dtype_product(DType a, DType b) {
  if (a == b) return dtype_accum(a);
  if (!is_float(a) && !is_float(b)) return is_wide(a) || is_wide(b) ? DT_COUNT : DT_I32;
  DType sums = a == DT_F64 || b == DT_F64 ? DT_F64 : DT_F32;
  return holds(sums, a) && holds(sums, b) ? sums : DT_COUNT;
}

int64_t dtype_min(DType t) {
  REQUIRE(!is_float(t));
  return dtype_info[t].class == CLASS_SIGNED ? INT64_MIN >> (64 - dtype_info[t].bits) : 0;
}

int64_t dtype_max(DType t) {
  REQUIRE(!is_float(t));
  if (t == DT_BOOL) return 1;
  return dtype_info[t].class == CLASS_SIGNED ? INT64_MAX >> (64 - dtype_info[t].bits)
                                             : (int64_t)(UINT64_MAX >> (64 - dtype_info[t].bits));
}

static DType of_width(DTypeClass class, int bits) {
  int t = 0;
  while (dtype_info[t].class != class || dtype_info[t].bits != bits) t++;
  return (DType)t;
}

DType unsigned_of_width(int bits) { return of_width(CLASS_UNSIGNED, bits); }
DType signed_of_width(int bits) { return of_width(CLASS_SIGNED, bits); }
