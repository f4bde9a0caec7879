// Built-in functions that work element by element.
#include "codegen/lower/ops/ops.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/scalar.h"

#include <math.h>

static const char *callee(Lower *l, const Call *call) {
  return arena_printf(l->arena, "%s", call->builtin->name);
}

static Value wrong_dtype(Lower *l, const Call *call, Value v, const char *wants) {
  diag_error(l->diag, call->node->span, ERR_DTYPE_UNSUPPORTED, "%s requires %s, and this is %s",
             call->builtin->name, wants, value_text(l, v));
  return value_error();
}

// A value that is data or a number, else an error.
static bool lower_number(Lower *l, const Call *call, const Node *node, Value *v) {
  *v = lower_expr(l, node);
  if (is_error(*v)) return false;
  if (v->kind == V_DATA || is_number(*v)) return true;
  wrong_dtype(l, call, *v, "numbers");
  return false;
}

// ---- one operand

static Value out_of_domain(Lower *l, const Call *call, Value v) {
  Domain domain = op_info[call->builtin->op].domain;
  return wrong_dtype(l, call, v,
                     domain == DOMAIN_INTEGERS                     ? "integers"
                     : domain == DOMAIN_FLOATS && v.kind == V_DATA ? "floats (cast first)"
                                                                   : "numbers");
}

// The bits of a constant are those of the dtype that it has by itself.
static Value fold_number(Lower *l, const Call *call, Op op, Value v) {
  if (op_info[op].domain != DOMAIN_INTEGERS) return fold_one(l, op, v, call->node->span);
  if (v.kind == V_FLOAT) return out_of_domain(l, call, v);
  Instr *data = data_of(l, v, call->node->span);
  return data ? value_data(emit1(l, op, data->type, call->node->span, data)) : value_error();
}

static Value lower_unary_call(Lower *l, const Call *call) {
  Value v;
  Op op = (Op)call->builtin->op;
  if (!lower_number(l, call, call->arg[0], &v)) return value_error();
  if (v.kind != V_DATA) return fold_number(l, call, op, v);
  const Type *type = &v.instr->type;
  if (!op_takes(op, type->dtype)) return out_of_domain(l, call, v);
  bool predicate = op_info[op].class == OPC_PREDICATE;
  return value_data(
      emit1(l, op, predicate ? with_dtype(*type, DT_BOOL) : *type, call->node->span, v.instr));
}

// ---- two operands and more

static Value combine(Lower *l, const Call *call, Value a, Value b) {
  Op op = (Op)call->builtin->op;
  Instr *v[2];
  if (is_error(a) || is_error(b)) return value_error();
  if (is_number(a) && is_number(b)) return fold_function(l, op, a, b, call->node->span);
  Value both[] = {a, b};
  if (!unify(l, both, 2, call->node->span, callee(l, call), v)) return value_error();
  if (!op_takes(op, v[0]->type.dtype)) return out_of_domain(l, call, a.kind == V_DATA ? a : b);
  return value_data(emit2(l, op, v[0]->type, call->node->span, v[0], v[1]));
}

static Value lower_binary_call(Lower *l, const Call *call) {
  Value a = lower_expr(l, call->arg[0]), b = lower_expr(l, call->arg[1]);
  return combine(l, call, a, b);
}

static Value lower_several(Lower *l, const Call *call) {
  if (call->rest_count < 2) {
    diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT,
               "%s compares two or more values; reduce_%s(v, axis = ..) goes along an axis",
               call->builtin->name, call->builtin->name);
    return value_error();
  }
  Value v = lower_expr(l, call->rest[0]);
  for (int i = 1; i < call->rest_count; i++) {
    Value next = lower_expr(l, call->rest[i]);
    v = combine(l, call, v, next);
  }
  return v;
}

// Rounded up, right for every sign; of a constant positive divisor in its plain form, which bounds
// and loops are easy to see in, where its sum does not wrap.
static Value lower_cdiv(Lower *l, const Call *call) {
  Span span = call->node->span;
  Value a = lower_expr(l, call->arg[0]), b = lower_expr(l, call->arg[1]);
  Instr *v[2];
  if (is_error(a) || is_error(b)) return value_error();
  if (is_number(a) && is_number(b)) {
    if (a.kind != V_INT || b.kind != V_INT)
      return wrong_dtype(l, call, a.kind == V_INT ? b : a, "integers");
    Value quotient = fold_function(l, OP_FLOORDIV, a, b, span);
    if (is_error(quotient)) return quotient;
    return fold_function(l, OP_ADD, quotient, value_int(a.ival % (b.ival == -1 ? 1 : b.ival) != 0),
                         span);
  }
  bool plain = is_index(a) && b.kind == V_INT && b.ival > 0 && is_sure_to_add(a.instr, b.ival - 1);
  Value both[] = {a, b};
  if (!unify(l, both, 2, span, "cdiv", v)) return value_error();
  Type type = v[0]->type;
  if (!is_integer(type.dtype)) return wrong_dtype(l, call, a, "integers");
  if (plain) {
    Instr *rest = ir_const_int(l->k, l->frame->region, DT_I64, b.ival - 1, span);
    return value_data(
        emit2(l, OP_FLOORDIV, type, span, emit2(l, OP_ADD, type, span, v[0], rest), v[1]));
  }
  Instr *zero =
      broadcast_to(l, ir_const_int(l->k, l->frame->region, type.dtype, 0, span), &type, span);
  Instr *inexact = emit2(l, OP_NE, with_dtype(type, DT_BOOL), span,
                         emit2(l, OP_REM, type, span, v[0], v[1]), zero);
  Instr *down = emit2(l, OP_FLOORDIV, type, span, v[0], v[1]);
  return value_data(emit2(l, OP_ADD, type, span, down, emit1(l, OP_CAST, type, span, inexact)));
}

static Value lower_where(Lower *l, const Call *call) {
  Value c = lower_expr(l, call->arg[0]), a = lower_expr(l, call->arg[1]),
        b = lower_expr(l, call->arg[2]);
  return lower_select(l, c, a, b, call->node->span);
}

static Value lower_clamp(Lower *l, const Call *call) {
  Value v[3];
  Instr *i[3];
  Span span = call->node->span;
  for (int k = 0; k < 3; k++) v[k] = lower_expr(l, call->arg[k]);
  for (int k = 0; k < 3; k++)
    if (is_error(v[k])) return value_error();
  if (is_number(v[0]) && is_number(v[1]) && is_number(v[2]))
    return fold_function(l, OP_MIN, fold_function(l, OP_MAX, v[0], v[1], span), v[2], span);
  if (!unify(l, v, 3, span, "clamp", i)) return value_error();
  if (i[0]->type.dtype == DT_BOOL) return wrong_dtype(l, call, v[0], "numbers");
  return value_data(
      emit2(l, OP_MIN, i[0]->type, span, emit2(l, OP_MAX, i[0]->type, span, i[0], i[1]), i[2]));
}

static Value lower_triple(Lower *l, const Call *call) {
  Value v[3];
  Instr *i[3];
  for (int k = 0; k < 3; k++) v[k] = lower_expr(l, call->arg[k]);
  for (int k = 0; k < 3; k++)
    if (is_error(v[k])) return value_error();
  if (is_number(v[0]) && is_number(v[1]) && is_number(v[2])) return fold_fma(v[0], v[1], v[2]);
  if (!unify(l, v, 3, call->node->span, callee(l, call), i)) return value_error();
  Op op = (Op)call->builtin->op;
  if (!op_takes(op, i[0]->type.dtype)) return out_of_domain(l, call, v[0]);
  return value_data(emit(l, op, i[0]->type, call->node->span, 3, i));
}

// ---- conversions

// A constant cast: the value as the dtype has it.
static Value cast_constant(Lower *l, Value v, DType dtype, Span span) {
  if (dtype == DT_I64 && v.kind == V_INT) return value_data(constant_of(l, v, DT_I64, span));
  if (v.kind == V_FLOAT && !is_float(dtype))
    return value_data(ir_const_int(l->k, l->frame->region, dtype,
                                   scalar_cast(dtype, DT_F32, (Scalar){.f = v.fval}).i, span));
  DType from = v.kind == V_INT ? (static_fits(v, DT_I32) ? DT_I32 : DT_I64) : natural_dtype(v);
  if (static_fits(v, dtype)) return value_data(constant_of(l, v, dtype, span));
  Instr *data = constant_of(l, v, from, span);
  return data ? value_data(emit1(l, OP_CAST, type_scalar(dtype), span, data)) : value_error();
}

static Value lower_cast(Lower *l, const Call *call) {
  DType dtype;
  Value v = lower_expr(l, call->arg[0]);
  bool good = lower_dtype(l, call->arg[1], &dtype);
  if (is_error(v) || !good) return value_error();
  if (is_number(v) || v.kind == V_BOOL) return cast_constant(l, v, dtype, call->node->span);
  if (v.kind != V_DATA) return wrong_dtype(l, call, v, "values");
  if (v.instr->type.dtype == dtype) return value_data(v.instr);
  return value_data(emit1(l, OP_CAST, with_dtype(v.instr->type, dtype), call->node->span, v.instr));
}

#define OPERANDS_UNARY "v"
#define CALL_UNARY lower_unary_call
#define CALL_PREDICATE lower_unary_call
#define CALL_BINARY lower_binary_call
#define OPERANDS_PREDICATE "v"
#define OPERANDS_BINARY "a b"
#define OPERATOR_INFIX(name, op)
#define OPERATOR_PAIR(name, op) {name, lower_binary_call, op, "a b"},
#define OPERATOR_SEVERAL(name, op) {name, lower_several, op, "v+"},
#define OPERATOR_TRIPLE(name, op) {name, lower_triple, op, "a b c"},
const Builtin elementwise_builtins[] = {
#define FUNCTION(id, name, class, domain, exactness, f64, bound, laws, jax, vector, \
                 transcendental, instead, meaning)                                  \
  {#name, CALL_##class, OP_##id, OPERANDS_##class},
#define OPERATOR(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                 spelling, call, vector, transcendental, meaning)                         \
  OPERATOR_##call(#name, OP_##id)
#define ALIAS(name, id) {#name, lower_unary_call, OP_##id, "v"},
#include "codegen/ir/ops.def"
    {"cdiv", lower_cdiv, 0, "a b"},
    {"where", lower_where, 0, "c a b"},
    {"clamp", lower_clamp, 0, "x lo hi"},
    {"cast", lower_cast, 0, "v dtype"},
    {0},
};
