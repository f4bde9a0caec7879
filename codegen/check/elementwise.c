// What the interpreter does element by element.
#include "codegen/check/internal.h"

#include <math.h>

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
