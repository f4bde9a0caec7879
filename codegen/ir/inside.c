// Decides whether an index is within an axis, by the loops and conditions around its use.
#include "codegen/ir/inside.h"

#include "codegen/ir/array.h"
#include "codegen/ir/facts.h"

enum { DEEPEST = 8 };

// The index before casts to wider integers and reshapes of one element.
static const Instr *without_widening(const Instr *v) {
  while (v->op == OP_CAST && !is_float(v->type.dtype) && !is_float(v->args[0]->type.dtype) &&
         dtype_holds(v->type.dtype, v->args[0]->type.dtype))
    v = v->args[0];
  return v;
}

static bool is_same_index(const Instr *a, const Instr *b) {
  return without_widening(a) == without_widening(b);
}

static const Instr *loop_of(const Around *around, const Instr *variable) {
  for (; around; around = around->outer)
    if (around->instr->op == OP_FOR && around->instr->regions[0]->arg == variable)
      return around->instr;
  return NULL;
}

// Is v at most the extent - `count` + 1, so that every index below v leaves room for `count`
// elements?
static bool ends_inside(const Instr *v, Dim extent, int64_t count) {
  if (dim_is_const(extent)) return v->op == OP_CONST && v->ival <= extent - count + 1;
  return count == 1 && v->op == OP_SIZE && dim_size_index(extent) == v->ival;
}

// ---- bounds of an index from below and above

typedef struct {
  const Instr *at;
  Dim extent;
  int64_t count;
  bool low, high;
} BoundSearch;

static bool is_at_least(const Instr *v, int64_t n) { return v->op == OP_CONST && v->ival >= n; }

// a op b holds.
static void learn(BoundSearch *s, Op op, const Instr *a, const Instr *b) {
  if (!is_same_index(a, s->at)) return;
  if (op == OP_GE) s->low |= is_at_least(b, 0);
  if (op == OP_GT) s->low |= is_at_least(b, -1);
  if (op == OP_LT) s->high |= ends_inside(b, s->extent, s->count);
  if (op == OP_LE) s->high |= ends_inside(b, s->extent, s->count + 1);
  if (op == OP_EQ) {
    s->low |= is_at_least(b, 0);
    s->high |= ends_inside(b, s->extent, s->count + 1);
  }
}

static void learn_all(BoundSearch *s, const Instr *condition) {
  static const Op mirrored[OP_COUNT] = {
      [OP_GE] = OP_LE, [OP_GT] = OP_LT, [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_EQ] = OP_EQ};
  if (condition->op == OP_AND) {
    learn_all(s, condition->args[0]);
    learn_all(s, condition->args[1]);
  } else if (op_info[condition->op].class == OPC_COMPARE && mirrored[condition->op]) {
    learn(s, condition->op, condition->args[0], condition->args[1]);
    learn(s, mirrored[condition->op], condition->args[1], condition->args[0]);
  }
}

// ---- bounds by numbers

static Interval interval_around(const Around *around, const Instr *v, int depth) {
  Interval args[3], all = interval_of(v->type.dtype);
  if (depth == 0 || v->nargs > 3 || v->type.rank > 0) return all;
  if (v->op == OP_ARG) {
    const Instr *loop = loop_of(around, v);
    if (!loop) return all;
    Interval from = interval_around(around, loop->args[0], depth - 1),
             to = interval_around(around, loop->args[1], depth - 1);
    return (Interval){from.low, to.high == INT64_MAX ? to.high : to.high - 1};
  }
  for (int i = 0; i < v->nargs; i++) args[i] = interval_around(around, v->args[i], depth - 1);
  return interval_of_value(v, NULL, args);
}

bool is_provably_inside(const Around *around, const Instr *at, Dim extent, int64_t count) {
  BoundSearch s = {without_widening(at), extent, count, false, false};
  if (count < 1 || s.at->type.rank > 0) return false;
  Interval bounds = interval_around(around, s.at, DEEPEST);
  s.low = bounds.low >= 0;
  s.high = dim_is_const(extent) && bounds.high <= extent - count;
  const Instr *loop = loop_of(around, s.at);
  if (loop) s.high |= ends_inside(loop->args[1], extent, count);
  for (; around && !(s.low && s.high); around = around->outer)
    if (around->instr->op == OP_IF) learn_all(&s, around->instr->args[0]);
  return s.low && s.high;
}
