// A dtype of scales (f8e8m0fnu) has neither zero nor sign: its values are moved, converted,
// compared and chosen from, but not computed with.
#include "codegen/lower/internal.h"

static bool chooses(Op op) {
  switch (op) {
    case OP_MAX:
    case OP_MIN:
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
    case OP_CUMMAX:
    case OP_CUMMIN:
    case OP_SORT:
    case OP_ARGSORT:
      return true;
    default:
      return false;
  }
}

static bool computes(const Instr *v) {
  switch (op_info[v->op].class) {
    case OPC_UNARY:
    case OPC_BINARY:
    case OPC_TERNARY:
    case OPC_REDUCE:
    case OPC_SCAN:
    case OPC_DOT:
      return !chooses(v->op);
    default:
      return v->op == OP_IOTA;
  }
}

static void check_instr(Instr *v, void *context) {
  const Lower *l = context;
  DType t = has_result(v) ? v->type.dtype : DT_COUNT;
  for (int i = 0; i < v->nargs; i++)
    if (is_scale(v->args[i]->type.dtype)) t = v->args[i]->type.dtype;
  if (t == DT_COUNT || !is_scale(t) || !computes(v)) return;
  diag_error(l->diag, v->span, ERR_DTYPE_UNSUPPORTED,
             "%s of %s, which supports no arithmetic: cast it to f32 first", op_info[v->op].name,
             dtype_info[t].name);
}

void check_scales(Lower *l) {
  if (l->k->body) ir_walk(l->k->body, check_instr, l);
  if (l->k->reference) ir_walk(l->k->reference, check_instr, l);
}
