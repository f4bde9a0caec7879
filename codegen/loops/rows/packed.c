// Steps whose vectors may be packed: integers of 8 or 16 bits and bools have the same width in
// registers as in memory, if no operation of the step needs more bits. A packed vector has 4 or 2
// times as many lanes. The same for reductions of rows to one.
#include "codegen/loops/loops.h"

// Operations whose result modulo 2^bits depends only on their operands modulo 2^bits, or which
// compare operands of the type itself.
static const bool is_closed[OP_COUNT] = {
    [OP_ADD] = true, [OP_SUB] = true, [OP_MUL] = true,  [OP_NEG] = true,     [OP_ABS] = true,
    [OP_MAX] = true, [OP_MIN] = true, [OP_AND] = true,  [OP_OR] = true,      [OP_XOR] = true,
    [OP_NOT] = true, [OP_EQ] = true,  [OP_NE] = true,   [OP_LT] = true,      [OP_LE] = true,
    [OP_GT] = true,  [OP_GE] = true,  [OP_CAST] = true, [OP_BITCAST] = true, [OP_SELECT] = true,
};

// Masks have the width of the elements; in memory a bool is a byte.
static bool fits(DType t, int bits, bool in_memory) {
  if (t == DT_BOOL) return !in_memory || bits == 8;
  return is_integer(t) && dtype_info[t].bits == bits;
}

static bool is_packed_access(const Instr *v, int bits) {
  const int rank = v->ref->type.rank;
  const bool masked = v->op == OP_LOAD ? v->nargs > rank : ir_mask(v) != NULL;
  return rank > 0 && !masked && !ir_may_leave(v) && lane_step(v) == 1 &&
         !v->window.squeeze[rank - 1] && v->window.stride[rank - 1] == 1 && !v->ref->packed &&
         fits(ir_access_dtype(v), bits, true);
}

// May an operand be read as a packed vector? One element for all lanes always may.
static bool is_packed_operand(const Step *step, const Instr *v, int bits) {
  const int last = v->type.rank - 1;
  if (!fits(v->type.dtype, bits, false)) return false;
  if (last < 0 || has_member(step, v)) return true;
  if (v->type.dim[last] == 1 || val(v)->buffer || !is_transparent(v)) return false;
  if (v->op == OP_LOAD) return is_packed_access(v, bits);
  if (v->op != OP_BROADCAST) return false;
  const Instr *of = v->args[0];
  return of->type.rank == 0 ||
         (ir_operand_axis(v, last) == of->type.rank - 1 && is_packed_operand(step, of, bits));
}

// Does the reduction have the dtype of its operand, so that partial results need no more bits?
static bool is_packed_fold(const Instr *v) {
  return op_info[v->op].class == OPC_REDUCE && is_closed[fold_operation[v->op]] &&
         v->type.dtype == v->args[0]->type.dtype;
}

static bool is_packed_member(const Step *step, const Instr *v, int bits) {
  if (is_packed_fold(v)) return is_packed_operand(step, v->args[0], bits);
  if (v->op == OP_STORE) {
    const Instr *value = ir_store_value(v);
    return is_packed_access(v, bits) && !val(v)->divided && value->type.rank > 0 &&
           value->type.dtype == ir_access_dtype(v) && is_packed_operand(step, value, bits);
  }
  if (val(v)->buffer || !fits(v->type.dtype, bits, false)) return false;
  if (v->op == OP_LOAD) return is_packed_access(v, bits);
  if (!op_is_elementwise(v->op) || !is_closed[v->op]) return false;
  for (int i = 0; i < v->nargs; i++)
    if (!is_packed_operand(step, v->args[i], bits)) return false;
  return true;
}

int packed_bits(const Group *group, const Step *step) {
  const ColumnLoop *loop = &step->loop;
  if (loop->streamed.count || loop->unmasked || loop->ahead.count || group->jammed) return 0;
  for (int bits = 8; bits <= 16; bits *= 2) {
    int m = 0;
    while (m < step->members.count && is_packed_member(step, step->members.at[m], bits)) m++;
    if (m == step->members.count) return bits;
  }
  return 0;
}

int packed_lanes(const Gen *g, int bits) { return g->lanes * 32 / bits; }

int packed_row_bits(const Instr *reduce) {
  for (int bits = 8; bits <= 16; bits *= 2)
    if (is_packed_fold(reduce) && fits(reduce->type.dtype, bits, true)) return bits;
  return 0;
}
