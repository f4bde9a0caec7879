// Steps whose vectors may be packed: integers of 8 or 16 bits and bools have the same width in
// registers as in memory, if no operation of the step needs more bits. A packed vector has 4 or 2
// times as many lanes. The same for reductions of rows to one. Floats of these widths only move.
#include "codegen/loops/loops.h"

// Operations whose result modulo 2^bits depends only on their operands modulo 2^bits, or which
// compare operands of the type itself.
static const bool is_closed[OP_COUNT] = {
    [OP_ADD] = true, [OP_SUB] = true, [OP_MUL] = true,  [OP_NEG] = true,     [OP_ABS] = true,
    [OP_MAX] = true, [OP_MIN] = true, [OP_AND] = true,  [OP_OR] = true,      [OP_XOR] = true,
    [OP_NOT] = true, [OP_EQ] = true,  [OP_NE] = true,   [OP_LT] = true,      [OP_LE] = true,
    [OP_GT] = true,  [OP_GE] = true,  [OP_CAST] = true, [OP_BITCAST] = true, [OP_SELECT] = true,
};

// Operations that copy the bits of elements.
static bool only_moves(const Instr *v) {
  return v->op == OP_LOAD || v->op == OP_BITCAST || v->op == OP_SELECT || v->op == OP_BROADCAST;
}

// Masks have the width of the elements; in memory a bool is a byte.
static bool fits(DType t, int bits, bool in_memory) {
  if (t == DT_BOOL) return !in_memory || bits == 8;
  return dtype_info[t].bits == bits;
}

// Has the value lanes of this number of bits, and only operations that such lanes have?
static bool is_packed_value(const Instr *v, int bits) {
  return fits(v->type.dtype, bits, false) && (!is_float(v->type.dtype) || only_moves(v));
}

static bool is_packed_access(const Instr *v, int bits) {
  return accesses_rows(v) && fits(ir_access_dtype(v), bits, true);
}

// May an operand be read as a packed vector? One integer for all lanes always may.
static bool is_packed_operand(const Step *step, const Instr *v, int bits) {
  const int last = v->type.rank - 1;
  if (!fits(v->type.dtype, bits, false)) return false;
  if (last < 0) return !is_float(v->type.dtype);
  if (has_member(step, v)) return true;
  if (v->type.dim[last] == 1 || val(v)->buffer || !is_transparent(v)) return false;
  if (v->op == OP_LOAD) return is_packed_access(v, bits);
  if (ir_keeps_lanes(v)) return is_packed_operand(step, v->args[0], bits);
  if (v->op != OP_BROADCAST) return false;
  const Instr *of = v->args[0];
  const bool in_lanes = of->type.rank == 0 || ir_operand_axis(v, last) == of->type.rank - 1;
  return in_lanes && is_packed_operand(step, of, bits);
}

// Does the reduction have the dtype of its operand, so that partial results need no more bits?
static bool is_packed_fold(const Instr *v) {
  return op_info[v->op].class == OPC_REDUCE && is_closed[fold_operation[v->op]] &&
         !is_float(v->type.dtype) && v->type.dtype == v->args[0]->type.dtype;
}

static bool is_packed_store(const Step *step, const Instr *v, int bits) {
  const Instr *value = ir_store_value(v);
  return is_packed_access(v, bits) && !val(v)->divided && value->type.rank > 0 &&
         value->type.dtype == ir_access_dtype(v) && is_packed_operand(step, value, bits);
}

static bool is_packed_member(Gen *g, const Group *group, const Step *step, const Instr *v,
                             int bits) {
  const Instr *part[WORD_PARTS];
  if (is_packed_fold(v)) return is_packed_operand(step, v->args[0], bits);
  if (v->op == OP_STORE) return is_packed_store(step, v, bits);
  if (serves_words(g, group, v, bits)) return true;
  if (val(v)->buffer || !is_packed_value(v, bits)) return false;
  if (v->op == OP_LOAD) return is_packed_access(v, bits);
  if (words_of(g, group, v, bits) || parts_joined(g, group, v, bits, part)) return true;
  if (!op_is_elementwise(v->op) || !is_closed[v->op]) return false;
  for (int i = 0; i < v->nargs; i++) {
    const bool computes = is_float(v->args[i]->type.dtype) && !only_moves(v);
    if (computes || !is_packed_operand(step, v->args[i], bits)) return false;
  }
  return true;
}

int packed_bits(Gen *g, const Group *group, const Step *step) {
  if (group->jammed && !group->by_words) return 0;
  for (int bits = 8; bits <= 16; bits *= 2) {
    int m = 0;
    while (m < step->members.count && is_packed_member(g, group, step, step->members.at[m], bits))
      m++;
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
