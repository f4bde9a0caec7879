// Sums of a product stop where both operands of the dot are zero because the arrays from which they
// are computed end there.
//
// An input whose block has `pad 0` is zero past the end of its array, and so are products, casts,
// broadcasts and transposes of it. A reshape that joins blocks of a row to longer rows multiplies
// their count. If the other operand's array is declared longer by the same factor, both end at the
// same place.
#include "codegen/ir/axes.h"
#include "codegen/ir/facts.h"
#include "codegen/loops/loops.h"

// ---- counts of elements, and of blocks of them

// Is a provably `times` b, by its declaration or by constants?
static bool is_times(const Kernel *k, Dim a, Dim b, int64_t times) {
  if (dim_is_const(a)) return dim_is_const(b) && b * times == a;
  const Region *value = k->sizes.at[dim_size_index(a)].value;
  if (!value || dim_is_const(b)) return false;
  const Instr *v = ir_yielded(value, 0);
  if (v->op != OP_MUL) return false;
  for (int i = 0; i < 2; i++)
    if (ir_is_const(v->args[i], times) && v->args[1 - i]->op == OP_SIZE &&
        v->args[1 - i]->ival == dim_size_index(b))
      return true;
  return false;
}

static bool inside_is_times(const Gen *g, const Inside *a, const Inside *b, int64_t times) {
  return a->at == AT_BLOCK && b->at == AT_BLOCK && a->index == b->index && dim_is_const(a->block) &&
         dim_is_const(b->block) && a->block == b->block * times &&
         is_times(g->k, a->dim, b->dim, times);
}

static const Inside *inside_of_count(const Gen *g, Demand count) {
  for (int i = 0; i < g->insides.count; i++)
    if (g->insides.at[i].count == count) return &g->insides.at[i];
  return NULL;
}

// The count times a factor (or divided by it, if not `up`); NULL: there is none.
static Demand scaled(const Gen *g, Demand d, int64_t times, bool up) {
  const Inside *from = times == 1 || !d || d == DEMAND_FULL ? NULL : inside_of_count(g, d);
  if (times == 1) return d;
  for (int i = 0; from && i < g->insides.count; i++) {
    const Inside *to = &g->insides.at[i];
    if (up ? inside_is_times(g, to, from, times) : inside_is_times(g, from, to, times))
      return to->count;
  }
  return NULL;
}

// The outermost piece of v's axis, if it counts the elements of a whole axis of the operand.
static const AxisPiece *outer_piece(const Instr *v, const AxisMap *map, int axis) {
  for (int i = 0; i < map->count; i++) {
    const AxisPiece *p = &map->piece[i];
    if (p->to == axis && p->from_step == 1 && p->count == v->args[0]->type.dim[p->from] &&
        (p->whole || (dim_is_const(p->count) && p->count * p->to_step == v->type.dim[axis])))
      return p;
  }
  return NULL;
}

int outer_axis(const Gen *g, const Instr *v, int axis, Demand d, Demand *of) {
  AxisMap map;
  if (v->op != OP_RESHAPE || !ir_axis_map(v, &map)) return -1;
  const AxisPiece *p = outer_piece(v, &map, axis);
  *of = p && !p->whole ? scaled(g, d, p->to_step, false) : NULL;
  return *of ? p->from : -1;
}

// ---- zeros past a count

// Expressions share operands, so a walk over all paths may take exponential time.
enum { DEEPEST = 8 };

static Demand end_of_load(const Gen *g, const Instr *v, int axis) {
  const Ref *ref = v->ref;
  if (!ir_window_is_full(v) || ref->role != REF_INPUT || !ref->has_pad) return NULL;
  const bool zero = is_float(ref->type.dtype) ? ref->pad->fval == 0 : ref->pad->ival == 0;
  const Demand inside = g->refs[ref->id].inside[axis];
  return zero && inside != DEMAND_FULL ? inside : NULL;
}

static Demand end_within(const Gen *g, const Instr *v, int axis, int depth) {
  AxisMap map;
  if (v->op == OP_LOAD) return end_of_load(g, v, axis);
  if (depth == 0) return NULL;
  if (v->op == OP_CAST) return end_within(g, v->args[0], axis, depth - 1);
  if (v->op == OP_MUL) {
    const Demand first = end_within(g, v->args[0], axis, depth - 1);
    return first ? first : end_within(g, v->args[1], axis, depth - 1);
  }
  if (op_info[v->op].moves != MOVES_MAP || !ir_axis_map(v, &map)) return NULL;
  if (v->op != OP_BROADCAST && v->op != OP_TRANSPOSE && v->op != OP_RESHAPE) return NULL;
  const AxisPiece *p = outer_piece(v, &map, axis);
  if (!p) return NULL;
  const Demand inner = end_within(g, v->args[0], p->from, depth - 1);
  return inner ? scaled(g, inner, p->whole ? 1 : p->to_step, true) : NULL;
}

Demand padded_end(const Gen *g, const Instr *v, int axis) {
  return end_within(g, v, axis, DEEPEST);
}
