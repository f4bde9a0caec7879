// Values of the interpreter: their memory, their unspecified elements, and arrays as values.
#define _GNU_SOURCE
#include "codegen/check/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The limit is half of the machine's memory, because a refusal is better than a killed process.
static int64_t memory_limit(void) {
  static int64_t limit;
  if (limit == 0) {
    int64_t pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || bytes <= 0 || !mul_i64(pages, bytes, &limit)) limit = (int64_t)8 << 30;
    limit /= 2;
  }
  return limit;
}

static bool element_count(const Value *v, int64_t *count) {
  *count = 1;
  for (int i = 0; i < v->rank; i++)
    if (v->dim[i] == 0) return *count = 0, true;
  for (int i = 0; i < v->rank; i++)
    if (!mul_i64(*count, v->dim[i], count)) return false;
  return true;
}

bool has_memory(const Interp *in, int64_t bytes) { return bytes <= memory_limit() - in->bytes; }

static bool grow(Interp *in, void **data, int64_t *capacity, int64_t bytes) {
  if (bytes <= *capacity) return true;
  if (!has_memory(in, bytes - *capacity)) return false;
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
  v->poisoned = v->uncertain = v->partial = false;
  for (int i = 0; i < type->rank; i++) v->dim[i] = resolve_dim(in->sizes, type->dim[i]);
  int64_t bytes;
  bool fits = element_count(v, &v->count) && mul_i64(v->count > 0 ? v->count : 1, 8, &bytes);
  if (!fits || !grow(in, &v->data, &v->capacity, bytes)) {
    stop_for_memory(in, fits ? bytes : INT64_MAX);
    return NULL;
  }
  return v;
}

Value *value_new(Interp *in, const Instr *instr) {
  return value_shape(in, value_of(in, instr), &instr->type);
}

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

bool value_error(Interp *in, Value *v) {
  if (v->uncertain) return true;
  void *error = v->error;
  int64_t bytes = (v->count > 0 ? v->count : 1) *
                  (int64_t)sizeof *v->error;  // as many bytes as the elements have
  bool fits = grow(in, &error, &v->error_capacity, bytes);
  v->error = error;
  if (!fits) {
    stop_for_memory(in, bytes);
    return false;
  }
  memset(v->error, 0, (size_t)bytes);
  return v->uncertain = true;
}

bool value_partial(Interp *in, Value *v) {
  if (v->partial) return true;
  void *missing = v->missing;
  int64_t bytes = (v->count > 0 ? v->count : 1) * (int64_t)sizeof *v->missing;
  bool fits = grow(in, &missing, &v->missing_capacity, bytes);
  v->missing = missing;
  if (!fits) {
    stop_for_memory(in, bytes);
    return false;
  }
  memset(v->missing, UINT8_MAX, (size_t)bytes);
  return v->partial = true;
}

void value_free(Value *v) {
  free(v->error);
  free(v->missing);
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

void miss_all(Value *v, int64_t from, int64_t count) {
  if (v->partial) memset(v->missing + from, UINT8_MAX, (size_t)count * sizeof *v->missing);
}

void fill_unspecified(Value *v, int64_t from, int64_t count, uint8_t mark) {
  memset(v->poison + from, mark, (size_t)count);
  miss_all(v, from, count);
  if (v->uncertain) memset(v->error + from, 0, (size_t)count * sizeof *v->error);
  if (is_float(v->dtype))
    for (int64_t e = from; e < from + count; e++) v->f[e] = unspecified_float();
  else
    for (int64_t e = from; e < from + count; e++) v->i[e] = unspecified_int(v->dtype);
}

void round_floats(const Interp *in, Value *v) {
  if (in->exact || !is_float(v->dtype) || v->dtype == DT_F64) return;
  if (v->dtype == DT_F32)
    for (int64_t e = 0; e < v->count; e++) v->f[e] = (double)(float)v->f[e];
  else
    for (int64_t e = 0; e < v->count; e++) v->f[e] = dtype_round(v->dtype, v->f[e]);
}

// ---- between arrays and values

void read_elements(const HostArray *array, int64_t from, int64_t count, Value *to, int64_t at) {
  if (is_float(array->dtype))
    for (int64_t e = 0; e < count; e++) to->f[at + e] = array_get(array, from + e);
  else
    for (int64_t e = 0; e < count; e++) to->i[at + e] = array_get_int(array, from + e);
}

void write_elements(HostArray *array, int64_t to, int64_t count, const Value *from, int64_t at) {
  if (is_float(array->dtype))
    for (int64_t e = 0; e < count; e++) array_set(array, to + e, from->f[at + e]);
  else
    for (int64_t e = 0; e < count; e++) array_set_int(array, to + e, from->i[at + e]);
}

uint64_t random_bits(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
