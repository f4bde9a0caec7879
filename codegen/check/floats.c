// The arithmetic of `pkc check`: floats. The cell of a float is a double, which the walk rounds.
#include "codegen/check/internal.h"

#include <math.h>
#include <string.h>

static int64_t cell_of(double f) { return ((Scalar){.f = f}).i; }

// ---- leaves

static int64_t constant(void *context, DType dtype, const Instr *instr) {
  (void)context;
  return is_float(dtype) ? cell_of(dtype_round(dtype, instr->fval)) : wrap_int(dtype, instr->ival);
}

static int64_t index_cell(void *context, DType dtype, int64_t index) {
  (void)context;
  return is_float(dtype) ? cell_of(dtype_round(dtype, (double)index)) : wrap_int(dtype, index);
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

// Executes an elementwise instruction on floats and integers.
static void elementwise(void *context, const Instr *instr, Value *out, const Value *const *arg) {
  const Interp *in = context;
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
    case OPC_TERNARY:
      run_fma(in, out, arg[0], arg[1], arg[2]);
      break;
    default:
      if (instr->op == OP_BITCAST)
        run_bitcast(out, arg[0]);
      else
        run_cast(out, arg[0], in->exact);
  }
}

// ---- folding

// Results in f64 are summed in long double, because a sum in f64 would not be more accurate than
// the results.
static double long_sum(const double *f, int64_t count) {
  long double sum = 0;
  for (int64_t e = 0; e < count; e++) sum += f[e];
  return (double)sum;
}

static double fold_floats(Op op, DType dtype, const double *f, int64_t count) {
  if (op == OP_REDUCE_SUM && dtype == DT_F64) return long_sum(f, count);
  FloatPair *step = float_binary(fold_operation[op], dtype);
  double result = fold_start(op, dtype).f;
  for (int64_t e = 0; e < count; e++) result = step(result, f[e]);
  return result;
}

static int64_t fold_ints(Op op, DType dtype, const int64_t *values, int64_t count) {
  int64_t result = fold_start(op, dtype).i;
  for (int64_t e = 0; e < count; e++)
    result = int_binary(fold_operation[op], dtype, result, values[e]);
  return result;
}

static int64_t fold(void *context, const Instr *instr, DType dtype, const int64_t *cells,
                    int64_t count) {
  (void)context;
  if (!is_float(dtype)) return fold_ints(instr->op, dtype, cells, count);
  return cell_of(fold_floats(instr->op, dtype, (const double *)(const void *)cells, count));
}

static void scan(void *context, const Instr *instr, Value *out, const Value *a,
                 const int64_t *order, int64_t count) {
  DType t = a->dtype;
  FloatPair *step = is_float(t) ? float_binary(fold_operation[instr->op], t) : NULL;
  double f = fold_start(instr->op, t).f;
  int64_t n = fold_start(instr->op, t).i;
  (void)context;
  for (int64_t l = 0; l < count; l++) {
    int64_t e = order[l];
    if (step)
      out->f[e] = f = step(f, a->f[e]);
    else
      out->i[e] = n = int_binary(fold_operation[instr->op], t, n, a->i[e]);
  }
}

// ---- orders

// Does element b come strictly before element a? For argmax and argmin, NaN is first.
static bool better(Op op, const Value *v, int64_t b, int64_t a) {
  bool greatest = op == OP_ARGMAX;
  if (!is_float(v->dtype)) return int_compare(greatest ? OP_GT : OP_LT, v->dtype, v->i[b], v->i[a]);
  if (isnan(v->f[a]) || isnan(v->f[b])) return isnan(v->f[b]) && !isnan(v->f[a]);
  return greatest ? v->f[b] > v->f[a] : v->f[b] < v->f[a];
}

static int64_t best(void *context, const Instr *instr, const Value *a, const Lane *lane) {
  int64_t best = 0;
  (void)context;
  for (int64_t l = 0; l < lane->count; l++)
    if (better(instr->op, a, lane->base + l * lane->stride, lane->base + best * lane->stride))
      best = l;
  return best;
}

static const bool descending = true;  // the context of a descending order; NULL: ascending

static bool sorts_before(const void *context, const Value *a, int64_t x, int64_t y) {
  bool reversed = context == &descending;
  if (!is_float(a->dtype)) return int_compare(reversed ? OP_GT : OP_LT, a->dtype, a->i[x], a->i[y]);
  if (isnan(a->f[x]) || isnan(a->f[y]))
    return !isnan(a->f[x]) && isnan(a->f[y]);  // NaN is last in both directions
  return reversed ? a->f[x] > a->f[y] : a->f[x] < a->f[y];
}

typedef struct {
  ComesBefore *before;
  const void *context;
  const Value *a;
} Order;

static int compare_elements(const void *context, const void *x, const void *y) {
  const Order *o = context;
  return o->before(o->context, o->a, *(const int64_t *)y, *(const int64_t *)x);
}

void sort_stably(ComesBefore *before, const void *context, const Value *a, int64_t *order,
                 int64_t count) {
  const Order o = {before, context, a};
  sort_items_in(order, (size_t)count, sizeof *order, compare_elements, &o);
}

static void sort(void *context, const Instr *instr, Value *out, const Value *a, const Lane *lane,
                 int64_t *order) {
  (void)context;
  sort_stably(sorts_before, instr->flags & INSTR_REVERSE ? &descending : NULL, a, order,
              lane->count);
  for (int64_t l = 0; l < lane->count; l++)
    out->i[lane->base + l * lane->stride] = instr->op == OP_ARGSORT
                                                ? (order[l] - lane->base) / lane->stride
                                                : a->i[order[l]];  // floats too: the bits
}

// ---- contraction

// Four partial sums in a fixed order, so that the result is reproducible.
static double dot_floats(const double *a, const double *b, int64_t count) {
  double sum[4] = {0, 0, 0, 0};
  int64_t e = 0;
  for (; e + 4 <= count; e += 4)
    for (int i = 0; i < 4; i++) sum[i] += a[e + i] * b[e + i];
  for (; e < count; e++) sum[0] += a[e] * b[e];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static double long_dot(const double *a, const double *b, int64_t count) {
  long double sum = 0;
  for (int64_t e = 0; e < count; e++) sum += (long double)a[e] * b[e];
  return (double)sum;
}

static int64_t dot_ints(DType dtype, const int64_t *a, const int64_t *b, int64_t count) {
  uint64_t sum = 0;
  for (int64_t e = 0; e < count; e++) sum += (uint64_t)a[e] * (uint64_t)b[e];
  return wrap_int(dtype, (int64_t)sum);
}

static int64_t dot(void *context, const Instr *instr, const int64_t *a, const int64_t *b,
                   int64_t count) {
  const double *x = (const double *)(const void *)a, *y = (const double *)(const void *)b;
  DType t = instr->type.dtype;
  (void)context;
  if (!is_float(t)) return dot_ints(t, a, b, count);
  return cell_of((t == DT_F64 ? long_dot : dot_floats)(x, y, count));
}

const Arithmetic float_arithmetic = {.constant = constant,
                                     .index = index_cell,
                                     .elementwise = elementwise,
                                     .fold = fold,
                                     .scan = scan,
                                     .best = best,
                                     .sort = sort,
                                     .dot = dot};
