// What the interpreter does element by element.
#include "codegen/check/internal.h"

static int64_t blend(Interp *in, const Instr *instr, int64_t e, const Value *c, const Value *a,
                     const Value *b) {
  return in->arithmetic->blend(arithmetic_context(in), instr, c->i[e], a->i[e], b->i[e]);
}

// By an open condition, both sides count.
static void run_select(Interp *in, const Instr *instr, Value *out, const Value *c, const Value *a,
                       const Value *b) {
  bool any = c->poisoned || a->poisoned || b->poisoned;
  if (any && !value_poison(in, out)) return;
  for (int64_t e = 0; e < out->count; e++) {
    const Value *side = c->i[e] ? a : b;
    bool open = is_open(in, c->i[e]);
    out->i[e] = open ? blend(in, instr, e, c, a, b) : side->i[e];  // floats too: the bits
    if (!any) continue;
    uint8_t condition = poison_at(c, e);
    if (open && !condition) condition = poison_at(b, e);
    out->poison[e] = condition ? condition : poison_at(side, e);
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
}
