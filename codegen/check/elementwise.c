// The elementwise operations of the interpreter.
#include "codegen/check/internal.h"

static int64_t blend(Interp *in, const Instr *instr, int64_t e, const Value *c, const Value *a,
                     const Value *b) {
  return in->arithmetic->blend(arithmetic_context(in), instr, c->i[e], a->i[e], b->i[e]);
}

// With an open condition, both sides count.
static void run_select(Interp *in, const Instr *instr, Value *out, const Value *c, const Value *a,
                       const Value *b) {
  bool any = c->poisoned || a->poisoned || b->poisoned;
  if (any && !value_poison(in, out)) return;
  if ((a->partial || b->partial) && !value_partial(in, out)) return;
  for (int64_t e = 0; e < out->count; e++) {
    const Value *side = c->i[e] ? a : b;
    bool open = is_open(in, c->i[e]);
    out->i[e] = open ? blend(in, instr, e, c, a, b) : side->i[e];  // floats too: the bits
    if (!any) continue;
    uint8_t condition = poison_at(c, e);
    if (open && !condition) condition = poison_at(b, e);
    out->poison[e] = condition ? condition : poison_at(side, e);
    if (out->partial) out->missing[e] = condition ? UINT64_MAX : missing_at(side, e);
  }
}

// Does one side determine `a && b` or `a || b`? Then the other may be unspecified.
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

// ---- bits

static uint64_t known_bits(const Interp *in, const Value *v, int64_t e, uint64_t value) {
  return is_open(in, v->i[e]) ? 0 : value & ~missing_at(v, e);
}

// The unspecified bits of the result of an operation on integers: those that depend on an
// unspecified bit. Moves, shifts and masks keep bits separate; any other operation reads all bits.
static uint64_t missing_bits(const Interp *in, const Instr *instr, const Value *const *arg,
                             int64_t e) {
  const Value *a = arg[0], *b = arg[1];
  uint64_t x = missing_at(a, e), y = b ? missing_at(b, e) : 0;
  switch (instr->op) {
    case OP_NOT:
    case OP_BITCAST:
      return x;
    case OP_AND:
      return (x | y) & ~known_bits(in, a, e, ~(uint64_t)a->i[e]) &
             ~known_bits(in, b, e, ~(uint64_t)b->i[e]);
    case OP_OR:
      return (x | y) & ~known_bits(in, a, e, (uint64_t)a->i[e]) &
             ~known_bits(in, b, e, (uint64_t)b->i[e]);
    case OP_XOR:
      return x | y;
    case OP_SHL:
    case OP_SHR:
    case OP_USHR:
      if (y || is_open(in, b->i[e])) return UINT64_MAX;
      return (uint64_t)int_binary(instr->op, a->dtype, wrap_int(a->dtype, (int64_t)x), b->i[e]);
    default:
      return (uint64_t)scalar_cast(instr->type.dtype, a->dtype,
                                   (Scalar){.i = wrap_int(a->dtype, (int64_t)x)})
          .i;
  }
}

static bool keeps_bits(const Instr *instr, const Value *const *arg) {
  DType from = arg[0]->dtype, to = instr->type.dtype;
  switch (instr->op) {
    case OP_BITCAST:
      return true;
    case OP_CAST:
      return !is_float(from) && !is_float(to) && from != DT_BOOL && to != DT_BOOL;
    case OP_NOT:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_SHL:
    case OP_SHR:
    case OP_USHR:
      return !is_float(from) && from != DT_BOOL;
    default:
      return false;
  }
}

static void specify_bits(Interp *in, Value *out, const Instr *instr, const Value *const *arg) {
  uint64_t all = low_bits(dtype_info[out->dtype].bits);
  for (int64_t e = 0; out->poisoned && e < out->count; e++) {
    if (!out->poison[e]) continue;
    uint64_t missing = missing_bits(in, instr, arg, e) & all;
    if (missing == 0) out->poison[e] = 0;
    if (missing != all && !value_partial(in, out)) return;
    if (out->partial) out->missing[e] = missing;
  }
}

void run_elementwise(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  const Value *arg[3] = {NULL, NULL, NULL};
  for (int i = 0; i < instr->nargs && i < 3; i++) arg[i] = value_of(in, instr->args[i]);
  if (instr->op == OP_SELECT) {
    run_select(in, instr, out, arg[0], arg[1], arg[2]);
    return bound_elementwise(in, instr, out, arg);
  }
  in->arithmetic->elementwise(arithmetic_context(in), instr, out, arg);
  if (op_info[instr->op].class != OPC_CAST) round_floats(in, out);
  bound_elementwise(in, instr, out, arg);
  propagate_poison(in, out, instr);
  bool logic = out->dtype == DT_BOOL && (instr->op == OP_AND || instr->op == OP_OR);
  if (logic) specify_settled(out, instr->op, arg[0], arg[1]);
  if (keeps_bits(instr, arg)) specify_bits(in, out, instr, arg);
}
