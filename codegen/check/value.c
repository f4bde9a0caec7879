// Values of the interpreter and what is done to them element by element.
#define _GNU_SOURCE
#include "codegen/check/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Half of the machine's memory: a refusal is better than a process that is killed.
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

static bool grow(Interp *in, void **data, int64_t *capacity, int64_t bytes) {
  if (bytes <= *capacity) return true;
  if (bytes > memory_limit() - in->bytes + *capacity) return false;
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
  v->poisoned = v->uncertain = false;
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
  int64_t bytes =
      (v->count > 0 ? v->count : 1) * (int64_t)sizeof *v->error;  // as many as the elements take
  bool fits = grow(in, &error, &v->error_capacity, bytes);
  v->error = error;
  if (!fits) {
    stop_for_memory(in, bytes);
    return false;
  }
  memset(v->error, 0, (size_t)bytes);
  return v->uncertain = true;
}

void value_free(Value *v) {
  free(v->error);
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

// ---- element by element

static void run_unary(Value *out, Op op, const Value *a) {
  if (!is_float(a->dtype)) {
    for (int64_t e = 0; e < out->count; e++) out->i[e] = int_unary(op, a->dtype, a->i[e]);
    return;
  }
  FloatFunction *function = float_unary(op);
  for (int64_t e = 0; e < out->count; e++) out->f[e] = function(a->f[e]);
}

static void run_binary(Value *out, Op op, const Value *a, const Value *b) {
  if (!is_float(a->dtype)) {
    for (int64_t e = 0; e < out->count; e++) out->i[e] = int_binary(op, a->dtype, a->i[e], b->i[e]);
    return;
  }
  FloatPair *function = float_binary(op, a->dtype);
  for (int64_t e = 0; e < out->count; e++) out->f[e] = function(a->f[e], b->f[e]);
}

static void run_compare(Value *out, Op op, const Value *a, const Value *b) {
  if (is_float(a->dtype))
    for (int64_t e = 0; e < out->count; e++) out->i[e] = float_compare(op, a->f[e], b->f[e]);
  else
    for (int64_t e = 0; e < out->count; e++)
      out->i[e] = int_compare(op, a->dtype, a->i[e], b->i[e]);
}

static void run_fma(const Interp *in, Value *out, const Value *a, const Value *b, const Value *c) {
  for (int64_t e = 0; e < out->count; e++)
    out->f[e] = in->exact ? fma(a->f[e], b->f[e], c->f[e])
                          : float_fma(out->dtype, a->f[e], b->f[e], c->f[e]);
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

static void run_cast(Value *out, const Value *a, bool exact) {
  bool from_float = is_float(a->dtype), to_float = is_float(out->dtype);
  bool holds = from_float ? to_float && dtype_holds(out->dtype, a->dtype)
                          : dtype_info[out->dtype].bits >= dtype_info[a->dtype].bits &&
                                !is_scale(out->dtype);
  bool rounds = !exact || !holds;
  if (to_float && !rounds) {
    for (int64_t e = 0; e < out->count; e++)
      out->f[e] = from_float ? a->f[e] : int_to_float(DT_F64, a->dtype, a->i[e]);
    return;
  }
  for (int64_t e = 0; e < out->count; e++) {
    Scalar value = scalar_cast(out->dtype, a->dtype,
                               from_float ? (Scalar){.f = a->f[e]} : (Scalar){.i = a->i[e]});
    if (to_float)
      out->f[e] = value.f;
    else
      out->i[e] = value.i;
  }
}

static void run_bitcast(Value *out, const Value *a) {
  for (int64_t e = 0; e < out->count; e++) {
    Scalar value = scalar_bitcast(
        out->dtype, a->dtype, is_float(a->dtype) ? (Scalar){.f = a->f[e]} : (Scalar){.i = a->i[e]});
    if (is_float(out->dtype))
      out->f[e] = value.f;
    else
      out->i[e] = value.i;
  }
}

// Does one side alone settle `a && b` or `a || b`? Then the other may be unspecified.
static void specify_settled(Value *out, Op op, const Value *a, const Value *b) {
  for (int64_t e = 0; out->poisoned && e < out->count; e++) {
    bool by_a = !poison_at(a, e) && a->i[e] == (op == OP_OR),
         by_b = !poison_at(b, e) && b->i[e] == (op == OP_OR);
    if (by_a || by_b) out->poison[e] = 0;
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
      for (int64_t e = 0; e < out->count; e++) out->i[e] = float_predicate(instr->op, arg[0]->f[e]);
      break;
    case OPC_BINARY:
      run_binary(out, instr->op, arg[0], arg[1]);
      break;
    case OPC_COMPARE:
      run_compare(out, instr->op, arg[0], arg[1]);
      break;
    case OPC_SELECT:
      run_select(in, out, arg[0], arg[1], arg[2]);
      return bound_elementwise(in, instr, out, arg);
    case OPC_TERNARY:
      run_fma(in, out, arg[0], arg[1], arg[2]);
      break;
    default:
      if (instr->op == OP_BITCAST)
        run_bitcast(out, arg[0]);
      else
        run_cast(out, arg[0], in->exact);
      bound_elementwise(in, instr, out, arg);
      return propagate_poison(in, out, instr);
  }
  round_floats(in, out);
  bound_elementwise(in, instr, out, arg);
  propagate_poison(in, out, instr);
  bool logic = out->dtype == DT_BOOL && (instr->op == OP_AND || instr->op == OP_OR);
  if (logic) specify_settled(out, instr->op, arg[0], arg[1]);
}

// ---- between arrays and values

void read_elements(const HostArray *array, int64_t from, int64_t count, Value *to, int64_t at) {
  if (array->dtype == DT_F32)
    for (int64_t e = 0; e < count; e++)
      to->f[at + e] = (double)((const float *)array->data)[from + e];
  else if (is_float(array->dtype))
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
