// Running error analysis in the interpreter: for each float, the possible difference of compiled
// code (docs/numerics.md).
//
// The bound of a reference allows equivalent expressions, which the kernel may use; that of a body
// does not, because compiled code performs the same operations. A bool has the error 1 if rounding
// decides it.
#include "codegen/ir/array.h"
#include "codegen/check/internal.h"
#define PK_BOUND_LONG_SUMS
#include "include/pk/bound.h"

#include <string.h>

#define FLOAT(id, ...) \
  static double as_##id(double x) { return dtype_round(DT_##id, x); }
#include "dsl/dtypes.def"
static pk_bound_function *const as_dtype[DT_COUNT] = {
#define FLOAT(id, ...) [DT_##id] = as_##id,
#include "dsl/dtypes.def"
};

static pk_bound_rules rules_of(const Interp *in, DType t) {
  const Rounding *r = t == DT_F64 ? &in->rounding_f64 : &in->rounding;
  return (pk_bound_rules){r->input, r->result, r->function, r->sum};
}

static pk_bound bound_at(const Value *v, int64_t e) { return (pk_bound){v->f[e], error_at(v, e)}; }
static unsigned char truth_at(const Value *v, int64_t e) {
  return (unsigned char)((v->i[e] ? PK_BOUND_TRUE : 0) |
                         (error_at(v, e) > 0 ? PK_BOUND_UNSURE : 0));
}

static void set_error(Interp *in, Value *out, int64_t e, double error) {
  if (error == 0 && !out->uncertain) return;
  if (value_error(in, out)) out->error[e] = error;
}

static pk_bound perhaps_rounded(DType t, pk_bound a) {
  if (t == DT_COUNT || !is_narrow_float(t)) return a;
  return pk_bound_also(as_dtype[t], dtype_spacing(t) / 2, ldexp(1, dtype_least_exponent(t)), a);
}

// The error of a result in its dtype, from the value before rounding.
static double settled(const Interp *in, DType t, pk_bound a) {
  if (!in->exact) return pk_bound_allowed(as_dtype[t], a);
  return perhaps_rounded(in->hidden.anywhere, perhaps_rounded(t, a)).error;
}

// ---- element by element

static unsigned char (*const compares[OP_COUNT])(pk_bound, pk_bound) = {
#define COMPARISON(id, name, when, spelling, meaning) [OP_##id] = pk_bound_##name,
#include "codegen/ir/ops.def"
};

static const union {
  unsigned char (*unary)(unsigned char);
  unsigned char (*binary)(unsigned char, unsigned char);
} truths[OP_COUNT] = {
#define OF_UNARY(function) .unary = function
#define OF_BINARY(function) .binary = function
#define BITWISE(id, name, class, neutral, laws, interval, spelling, meaning) \
  [OP_##id] = {OF_##class(pk_bound_##name)},
#include "codegen/ir/ops.def"
};

static int64_t dot_terms(Interp *in, const Instr *dot) {
  int64_t terms = 1;
  for (int axis = 0; axis < dot->args[0]->type.rank; axis++) {
    bool summed = true;
    for (int i = 0; i < dot->type.rank; i++)
      summed = summed && dot->labels.out[i] != dot->labels.a[axis];
    if (summed) terms *= value_of(in, dot->args[0])->dim[axis];
  }
  return terms;
}

// If a product is added to a sum, compiled code adds its terms to the sum one by one.
static double continued(Interp *in, const Instr *instr, int64_t e) {
  double lost = 0;
  if (in->exact || (instr->op != OP_ADD && instr->op != OP_SUB)) return 0;
  for (int i = 0; i < 2; i++) {
    if (instr->args[i]->op != OP_DOT) continue;
    double steps = 0.5 * sqrt((double)dot_terms(in, instr->args[i])) + 0.5;
    lost += pk_bound_share(rules_of(in, instr->type.dtype).sum * steps,
                           value_of(in, instr->args[1 - i])->f[e]);
  }
  return lost;
}

#define OPERANDS_UNARY a
#define OPERANDS_BINARY a, b
#define OPERANDS_TERNARY a, b, c
#define OPERANDS_PREDICATE a
#define OPERANDS_COMPARE a, b
#define RESULT_MONOTONE(name, f64, ...) return pk_bound_monotone(f64, __VA_ARGS__, r);
#define RESULT_STEPS(name, f64, ...) return pk_bound_steps(f64, __VA_ARGS__);
#define RESULT_OWN(name, f64, ...) return pk_bound_##name(__VA_ARGS__, r);
#define RESULT_CHOICE(name, f64, ...) return pk_bound_##name(__VA_ARGS__);
#define RESULT_NONE(name, f64, ...) break;

static pk_bound float_function(Op op, pk_bound a, pk_bound b, pk_bound c, const pk_bound_rules *r) {
  switch (op) {
#define ELEMENTWISE(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                    spelling, jax, vector, transcendental, instead, meaning)                 \
  case OP_##id:                                                                              \
    RESULT_##bound(name, f64, OPERANDS_##class)
#include "codegen/ir/ops.def"
    default:
      break;
  }
  INTERNAL("no error bound for %s", op_info[op].name);
}

// For -1e30, whose own error is large: the exponential of every possible value is 0.
static pk_bound least_exp(pk_bound a, pk_bound result, const pk_bound_rules *r) {
  double most = exp(a.value + pk_bound_reach(a, r));
  return most < INFINITY ? pk_bound_made(result.value, most) : result;
}

static pk_bound float_result(Interp *in, const Instr *instr, const Value *const *arg, int64_t e,
                             const pk_bound_rules *r) {
  pk_bound a = bound_at(arg[0], e), b = instr->nargs > 1 ? bound_at(arg[1], e) : a,
           c = instr->nargs > 2 ? bound_at(arg[2], e) : a;
  pk_bound result = float_function(instr->op, a, b, c, r);
  if (instr->op == OP_EXP && !(result.error < INFINITY)) result = least_exp(a, result, r);
  double more = continued(in, instr, e);
  return more == 0 ? result : pk_bound_made(result.value, result.error + more);
}

static double logic_error(Op op, const Value *const *arg, int64_t e) {
  unsigned char a = truth_at(arg[0], e);
  unsigned char result =
      op_info[op].nargs == 1 ? truths[op].unary(a) : truths[op].binary(a, truth_at(arg[1], e));
  return result & PK_BOUND_UNSURE ? 1 : 0;
}

static double select_error(const Value *out, const Value *const *arg, int64_t e) {
  unsigned char c = truth_at(arg[0], e);
  if (is_float(out->dtype))
    return pk_bound_select(c, bound_at(arg[1], e), bound_at(arg[2], e)).error;
  return c & PK_BOUND_UNSURE ? 1 : error_at(c ? arg[1] : arg[2], e);
}

// The distance of the integers at the ends of the interval from the one between.
static double integer_error(DType to, pk_bound a) {
  if (a.error == 0 || isnan(a.value)) return 0;
  if (isinf(a.error)) return a.error;
  return pk_bound_integer_ends(saturate_to_integer(to, a.value),
                               saturate_to_integer(to, a.value - a.error),
                               saturate_to_integer(to, a.value + a.error));
}

static double cast_error(const Interp *in, const Value *out, const Value *a, int64_t e) {
  DType to = out->dtype, from = a->dtype;
  if (to == DT_BOOL) return is_float(from) ? pk_bound_near(bound_at(a, e), pk_bound_exact(0)) : 0;
  if (!is_float(to)) return integer_error(to, bound_at(a, e));
  if (from == DT_BOOL) return error_at(a, e);
  if (!is_float(from))
    return error_at(a, e) + (in->exact ? fabs(as_dtype[to](out->f[e]) - out->f[e]) : 0);
  if (dtype_holds(to, from)) return error_at(a, e);
  return in->exact ? pk_bound_rounded(as_dtype[to], bound_at(a, e)).error
                   : pk_bound_allowed(as_dtype[to], bound_at(a, e));
}

static double elementwise_error(Interp *in, const Instr *instr, const Value *out,
                                const Value *const *arg, int64_t e, const pk_bound_rules *r) {
  bool floats = is_float(arg[0]->dtype);
  switch (op_info[instr->op].class) {
    case OPC_SELECT:
      return select_error(out, arg, e);
    case OPC_COMPARE:
      return floats && (compares[instr->op](bound_at(arg[0], e), bound_at(arg[1], e)) &
                        PK_BOUND_UNSURE)
                 ? 1
                 : 0;
    case OPC_CAST:
      return instr->op == OP_CAST ? cast_error(in, out, arg[0], e) : 0;
    default:
      return settled(in, out->dtype, float_result(in, instr, arg, e, r));
  }
}

// Bits and integers have no errors and must be equal, except integers that a float was rounded to.
static bool carries(const Instr *instr, const Value *out, const Value *a) {
  if (instr->op == OP_BITCAST || op_info[instr->op].class == OPC_PREDICATE) return false;
  return is_float(out->dtype) || ir_is_rounded_integer(instr) ||
         (out->dtype == DT_BOOL && (is_float(a->dtype) || a->dtype == DT_BOOL));
}

void bound_elementwise(Interp *in, const Instr *instr, Value *out, const Value *const *arg) {
  if (!in->bounds || !carries(instr, out, arg[0])) return;
  pk_bound_rules rules = rules_of(in, out->dtype);
  bool logic = out->dtype == DT_BOOL &&
               (op_info[instr->op].class == OPC_BINARY || op_info[instr->op].class == OPC_UNARY);
  for (int64_t e = 0; e < out->count; e++)
    set_error(
        in, out, e,
        logic ? logic_error(instr->op, arg, e) : elementwise_error(in, instr, out, arg, e, &rules));
}

// ---- folding

static pk_bound lane_bound(const BoundLane *lane, int64_t l) {
  return (pk_bound){lane->f[l], lane->error ? lane->error[l] : 0};
}

static void add_term(pk_bound_sum *sum, DType t, pk_bound term) {
  if (t == DT_F64)
    pk_bound_take_f64(sum, term);
  else
    pk_bound_take(sum, term);
}

// One step of a fold that is not a sum.
static pk_bound folded(Op operation, pk_bound a, pk_bound b, const pk_bound_rules *r) {
  return operation == OP_MUL ? pk_bound_factor(a, b, r) : float_function(operation, a, b, b, r);
}

static double folded_error(Interp *in, Op op, DType t, const BoundLane *lane,
                           const pk_bound_rules *r) {
  pk_bound_sum sum = {0};
  Op operation = fold_operation[op];
  if (lane->count == 0) return 0;
  pk_bound result = pk_bound_exact(fold_start(op, t).f);
  for (int64_t l = 0; l < lane->count; l++) {
    if (operation == OP_ADD)
      add_term(&sum, t, lane_bound(lane, l));
    else
      result = folded(operation, result, lane_bound(lane, l), r);
  }
  return settled(in, t, operation == OP_ADD ? pk_bound_total(&sum, false, r) : result);
}

void bound_fold(Interp *in, const Instr *instr, Value *out, int64_t e, const BoundLane *lane) {
  pk_bound_rules rules = rules_of(in, out->dtype);
  if (!in->bounds) return;
  if (is_float(out->dtype))
    return set_error(in, out, e, folded_error(in, instr->op, out->dtype, lane, &rules));
  bool unsure = false;
  for (int64_t l = 0; lane->error && l < lane->count; l++) unsure = unsure || lane->error[l] > 0;
  if (out->dtype == DT_BOOL) set_error(in, out, e, unsure);
}

void bound_scan(Interp *in, const Instr *instr, Value *out, const Value *a, const int64_t *order,
                int64_t count) {
  if (!in->bounds || !is_float(out->dtype)) return;
  pk_bound_rules rules = rules_of(in, out->dtype);
  Op operation = fold_operation[instr->op];
  pk_bound_sum sum = {0};
  pk_bound result = pk_bound_exact(fold_start(instr->op, out->dtype).f);
  for (int64_t l = 0; l < count; l++) {
    pk_bound next = bound_at(a, order[l]);
    if (operation == OP_ADD)
      add_term(&sum, out->dtype, next), result = pk_bound_total(&sum, false, &rules);
    else
      result = folded(operation, result, next, &rules);
    set_error(in, out, order[l], settled(in, out->dtype, result));
  }
}

// The error of an element of a sorted row is at most the largest error of all elements.
void bound_sort(Interp *in, Value *out, const Value *a, int64_t from, int64_t stride,
                int64_t count) {
  double most = 0;
  if (!in->bounds || !is_float(out->dtype) || !a->uncertain) return;
  for (int64_t l = 0; l < count; l++)
    if (!isnan(a->f[from + l * stride])) most = fmax(most, a->error[from + l * stride]);
  for (int64_t l = 0; l < count; l++) set_error(in, out, from + l * stride, most);
}

// ---- contraction

bool bound_summands(Interp *in, BoundLane *rows) {
  if (!in->exact || in->hidden.summand == DT_COUNT) return true;
  if (!rows->error) {
    rows->error = scratch_space(in, rows->scratch, rows->count, sizeof(double));
    if (!rows->error) return false;
    memset(rows->error, 0, (size_t)rows->count * sizeof(double));
  }
  for (int64_t e = 0; e < rows->count; e++)
    rows->error[e] = perhaps_rounded(in->hidden.summand, lane_bound(rows, e)).error;
  return true;
}

// A factor of f32 that is multiplied in parts (--numerics).
static pk_bound in_parts(Interp *in, const Instr *factor, pk_bound a) {
  double lost = in->k->lost;
  return lost > 0 && factor->type.dtype == DT_F32 ? pk_bound_blurred(a, lost) : a;
}

void bound_dot(Interp *in, const Instr *instr, Value *out, int64_t e, const BoundLane *a,
               const BoundLane *b) {
  pk_bound_rules rules = rules_of(in, out->dtype);
  pk_bound_sum sum = {0};
  for (int64_t l = 0; l < a->count; l++)
    add_term(&sum, out->dtype,
             pk_bound_mul(in_parts(in, instr->args[0], lane_bound(a, l)),
                          in_parts(in, instr->args[1], lane_bound(b, l)), &rules));
  bool flushed =
      instr->args[0]->type.dtype == DT_BF16 || in->hidden.summand == DT_BF16 || in->k->lost > 0;
  if (flushed) sum.error += (double)sum.terms * PK_BOUND_FLUSHED;
  set_error(in, out, e, settled(in, out->dtype, pk_bound_total(&sum, true, &rules)));
}

// ---- outputs

// An integer is not rounded again.
double bound_allowed(const Interp *in, DType t, double value, double error) {
  bool rounds = in->exact && is_float(t);
  double allowed = rounds ? pk_bound_allowed(as_dtype[t], (pk_bound){value, error}) : error;
  return allowed * (1 + 0x1p-20);
}
