// Which part of each value and ref can reach an output.
//
// A block that overhangs its array has rows and columns that no output contains: the write-back
// drops them. This pass runs backwards from the outputs. For each axis of each value it finds
// whether the whole block is needed or only the part within some operand's array; loops then stop
// there. So a call with one row does the work of one row, whatever the block.
#include "codegen/ir/axes.h"
#include "codegen/ir/facts.h"
#include "codegen/loops/loops.h"

#include <string.h>

static Demand demand_join(Gen *g, Demand a, Demand b) {
  if (!a || !b || a == b) return a ? a : b;
  a = demand_outside(g, a);
  b = demand_outside(g, b);
  return a == b ? a : DEMAND_FULL;
}

typedef struct {
  Gen *g;
  bool changed;
} Walk;

static void need(Walk *w, Demand *slot, Demand d) {
  Demand joined = demand_join(w->g, *slot, d);
  if (joined == *slot) return;
  *slot = joined;
  w->changed = true;
}

// Only loops over rows know the bounds of a strip, and only those over the mask's own rows.
static bool runs_by_rows(Gen *g, const Instr *v, Demand d) {
  const StripBound *bound = strip_bound(g, d);
  if (!bound || v->type.rank != 2 || v->type.dim[0] != bound->mask->type.dim[0]) return false;
  return op_is_elementwise(v->op) || v->op == OP_BROADCAST ||
         (v->op == OP_DOT && dot_shape(v).plain);
}

static void need_axis(Walk *w, const Instr *v, int axis, Demand d) {
  need(w, &val(v)->demand[axis],
       axis == 1 && runs_by_rows(w->g, v, d) ? d : demand_outside(w->g, d));
}

static void need_all(Walk *w, const Instr *v) {
  for (int i = 0; i < v->type.rank; i++) need_axis(w, v, i, DEMAND_FULL);
}

// ---- scratch that is read in a later step than the one that writes it

// The first access of a ref in a region.
typedef enum { UNTOUCHED, RENEWED, TOUCHED } First;

static bool is_touched(Region *region, const Ref *ref) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->ref == ref || v->target == ref || is_touched(v->regions[0], ref) ||
        is_touched(v->regions[1], ref))
      return true;
  }
  return false;
}

static bool stores_all(const Instr *v, const Ref *ref) {
  bool all = v->op == OP_STORE && v->ref == ref && !(v->flags & INSTR_MASKED);
  for (int k = 0; all && k < ref->type.rank; k++) all = ir_window_covers(v, k);
  return all;
}

// The outermost grid axis of a condition that says that axes are 0; -1: it is another condition.
static int axis_at_start(const Instr *condition) {
  if (condition->op == OP_AND) {
    int a = axis_at_start(condition->args[0]), b = axis_at_start(condition->args[1]);
    return a < 0 || b < 0 ? -1 : a < b ? a : b;
  }
  bool starts = condition->op == OP_EQ && condition->args[0]->op == OP_AXIS &&
                ir_is_const(condition->args[1], 0);
  return starts ? (int)condition->args[0]->ival : -1;
}

// *from: the first of the grid axes that may have advanced since the ref was last written.
static First first_use(Region *region, const Ref *ref, int *from) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (stores_all(v, ref)) return RENEWED;
    if (v->ref == ref || v->target == ref) return TOUCHED;
    if (!is_touched(v->regions[0], ref) && !is_touched(v->regions[1], ref)) continue;
    if (v->op == OP_NAMED) return first_use(v->regions[0], ref, from);
    int axis = v->op == OP_IF ? axis_at_start(v->args[0]) : -1;
    if (axis < 0 || first_use(v->regions[0], ref, from) != RENEWED) return TOUCHED;
    if (axis < *from) *from = axis;
    return RENEWED;
  }
  return UNTOUCHED;
}

// The first grid axis that may advance between a write of this ref and a read of it.
static int carried_from(const Kernel *k, const Ref *ref) {
  int from = k->grid.count;
  if (ref->role != REF_SCRATCH || ref->scope) return from;
  return first_use(k->body, ref, &from) == RENEWED ? from : 0;
}

static bool moves_with(const Kernel *k, const Instr *index, int from) {
  if (index->op == OP_AXIS) return index->ival >= from && !k->grid.at[index->ival].parallel;
  for (int i = 0; i < index->nargs; i++)
    if (moves_with(k, index->args[i], from)) return true;
  return false;
}

// Does the position of an operand's end within its block change when one of these axes advances?
static bool demand_moves(const Gen *g, Demand d, int from) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const Ref *ref = g->k->refs.at[i];
    for (int k = 0, axis = 0; ref_is_operand(ref) && k < ref->array.rank; k++) {
      if (ref->squeeze[k]) continue;
      if (g->refs[i].inside[axis++] != d) continue;
      int maps = ref->array.rank;
      if (moves_with(g->k, ir_yielded(ref->index_map, k), from) ||
          (ref->at == AT_SLICE && moves_with(g->k, ir_yielded(ref->index_map, maps + k), from)))
        return true;
    }
  }
  return false;
}

// The demand of a load on its ref: the whole axis if the step that wrote it may have had fewer
// elements in bounds.
static Demand carried_demand(const Gen *g, const Ref *ref, Demand d) {
  if (!d || d == DEMAND_FULL) return d;
  int from = g->refs[ref->id].carried;
  return from < g->k->grid.count && demand_moves(g, d, from) ? DEMAND_FULL : d;
}

static void through_load(Walk *w, const Instr *v) {
  Demand *demand = w->g->refs[v->ref->id].demand;
  for (int k = 0, axis = 0; k < v->ref->type.rank; k++) {
    Demand d = ir_window_covers(v, k) ? demand_outside(w->g, val(v)->demand[axis]) : DEMAND_FULL;
    need(w, &demand[k], carried_demand(w->g, v->ref, d));
    if (!v->window.squeeze[k]) axis++;
  }
}

// The demand of a store itself is the extent of its loops; other users may need more of its value.
static void through_store(Walk *w, const Instr *v) {
  const Demand *demand = w->g->refs[v->ref->id].demand;
  if (val(v)->divided) {
    need_all(w, ir_store_value(v));
    return;
  }
  for (int k = 0, axis = 0; k < v->ref->type.rank; k++) {
    if (v->window.squeeze[k]) continue;
    Demand d = ir_window_covers(v, k) ? demand[k] : DEMAND_FULL;
    need_axis(w, v, axis, d);
    for (int i = v->ref->type.rank; i < v->nargs; i++)
      if (axis < v->args[i]->type.rank) need_axis(w, v->args[i], axis, d);
    axis++;
  }
}

// The demand along the contracted axis: terms that padding makes exactly zero in both operands need
// not be added.
Demand contracted_demand(Gen *g, const Instr *dot) {
  DotShape shape = dot_shape(dot);
  if (!shape.plain) return DEMAND_FULL;
  Demand masked = ends_in_zero(g, shape.a, shape.a_transposed ? 0 : 1);
  if (masked && shape.a_transposed) masked = demand_outside(g, masked);
  if (!masked) masked = demand_outside(g, ends_in_zero(g, shape.b, shape.b_transposed ? 1 : 0));
  if (masked) return masked;
  const Demand a = padded_end(g, shape.a, shape.a_transposed ? 0 : 1),
               b = padded_end(g, shape.b, shape.b_transposed ? 1 : 0);
  return a && a == b ? a : DEMAND_FULL;
}

static void through_dot(Walk *w, const Instr *v) {
  Demand along = contracted_demand(w->g, v);
  for (int side = 0; side < 2; side++) {
    const int8_t *labels = side ? v->labels.b : v->labels.a;
    for (int i = 0; i < v->args[side]->type.rank; i++) {
      Demand d = along;
      for (int o = 0; o < v->type.rank; o++)
        if (v->labels.out[o] == labels[i]) d = demand_outside(w->g, val(v)->demand[o]);
      need_axis(w, v->args[side], i, d);
    }
  }
}

static bool axis_moves(const Instr *v, int axis) {
  switch (op_info[v->op].moves) {
    case MOVES_NOTHING:
      return false;
    case MOVES_AXIS:
      return axis == v->ival;
    case MOVES_AXES:
      return (v->ival >> axis) & 1;
    case MOVES_MAP:
    case MOVES_ALL:
      return true;
  }
  return true;
}

// The number of elements of a reduction's operand that matter along a reduced axis; NULL: all.
static Demand reduced_demand(Gen *g, const Instr *v, int axis) {
  Demand end = ends_in_identity(g, v, axis);
  return end && v->ival != INT64_C(1) << axis ? demand_outside(g, end) : end;
}

static void through_value(Walk *w, const Instr *v) {
  for (int a = 0; a < v->nargs; a++)
    for (int i = 0; i < v->args[a]->type.rank; i++) {
      bool same = v->args[a]->type.rank == v->type.rank && !axis_moves(v, i);
      Demand end = op_info[v->op].class == OPC_REDUCE && !same ? reduced_demand(w->g, v, i) : NULL;
      need_axis(w, v->args[a], i, same ? val(v)->demand[i] : end ? end : DEMAND_FULL);
    }
}

// The index has the demand of the result; the table is needed along the whole indexed axis.
static void through_take(Walk *w, const Instr *v) {
  const Demand *demand = val(v)->demand;
  for (int i = 0; i < v->args[0]->type.rank; i++)
    need_axis(w, v->args[0], i, i == v->ival ? DEMAND_FULL : demand[i]);
  need_axis(w, v->args[1], 0, demand[v->ival]);
}

// The same for the indices and the table of a gather.
static void through_gather(Walk *w, const Instr *v) {
  const Demand *demand = val(v)->demand;
  int axes[MAX_RANK];
  ir_indexed_axes(v, axes);
  for (int k = 0; k < v->args[0]->type.rank; k++) {
    const int to = ir_gathered_axis(v, k);
    need_axis(w, v->args[0], k, to < 0 ? DEMAND_FULL : demand[to]);
  }
  for (int i = 1; i < v->nargs; i++) need_axis(w, v->args[i], 0, demand[axes[0]]);
}

// An axis that remains whole keeps its demand; blocks that become parts of an axis get their share.
static void through_map(Walk *w, const Instr *v) {
  Demand of[MAX_RANK], blocks;
  AxisMap map;
  bool known = ir_axis_map(v, &map);
  for (int i = 0; i < v->args[0]->type.rank; i++) of[i] = DEMAND_FULL;
  for (int i = 0; known && i < map.count; i++)
    if (map.piece[i].whole) of[map.piece[i].from] = val(v)->demand[map.piece[i].to];
  for (int i = 0; i < v->type.rank; i++) {
    const int outer = outer_axis(w->g, v, i, val(v)->demand[i], &blocks);
    if (outer >= 0) of[outer] = blocks;
  }
  for (int i = 0; i < v->args[0]->type.rank; i++) need_axis(w, v->args[0], i, of[i]);
}

static void through_copy(Walk *w, const Instr *v) {
  for (int k = 0; k < v->ref->type.rank; k++)
    need(w, &w->g->refs[v->ref->id].demand[k], DEMAND_FULL);
}

// Propagates the demand of an instruction's result to its operands.
static void through(Walk *w, const Instr *v) {
  if (op_starts_copy(v->op)) through_copy(w, v);
  switch (v->op) {
    case OP_LOAD:
      through_load(w, v);
      break;
    case OP_STORE:
      through_store(w, v);
      break;
    case OP_DOT:
      through_dot(w, v);
      break;
    case OP_TAKE:
      through_take(w, v);
      break;
    case OP_GATHER:
      through_gather(w, v);
      break;
    default:
      if (op_info[v->op].moves == MOVES_MAP) {
        through_map(w, v);
      } else if (has_result(v) && op_info[v->op].class != OPC_CONTROL) {
        through_value(w, v);
      } else {
        for (int a = 0; a < v->nargs; a++) need_all(w, v->args[a]);
      }
  }
}

static void walk_back(Walk *w, Region *region) {
  for (int i = region->instrs.count - 1; i >= 0; i--) {
    Instr *v = region->instrs.at[i];
    for (int r = 1; r >= 0; r--)
      if (v->regions[r]) walk_back(w, v->regions[r]);
    through(w, v);
  }
}

// ---- how much of an operand's block is within its array

// Does block index `k` of the operand provably name a block of one element within the array?
static bool index_in_range(Gen *g, const Ref *ref, int k) {
  return ref->at == AT_BLOCK && ref->block[k] == 1 &&
         is_on_axis(g->k, ir_yielded(ref->index_map, k), ref->array.dim[k]);
}

static bool same_inside(const Inside *a, const Inside *b) {
  return a->dim == b->dim && a->block == b->block && a->index == b->index &&
         a->length == b->length && a->at == b->at;
}

static Demand inside_of(Gen *g, const Ref *ref, int k, int axis) {
  const Expr *index = index_expr(g, ref->index_map, k);
  if (ref->at == AT_BLOCK && ref->array.dim[k] == ref->block[k] && expr_is(index, 0))
    return DEMAND_FULL;
  if (g->refs[ref->id].in_range[k]) return DEMAND_FULL;
  const Expr *length =
      ref->at == AT_SLICE ? index_expr(g, ref->index_map, ref->array.rank + k) : NULL;
  Inside inside = {ref->array.dim[k], ref->block[k], index, length, ref->at, NULL};
  for (int i = 0; i < g->insides.count; i++)
    if (same_inside(&g->insides.at[i], &inside)) return g->insides.at[i].count;
  inside.count = expr_symbol(
      &g->exprs, lasting_name(&g->names, text(g, "%s_n%d", g->refs[ref->id].stem, axis)));
  LIST_PUSH(g->arena, &g->insides, inside);
  return inside.count;
}

static void find_insides(Gen *g, RefGen *r) {
  const Ref *ref = r->ref;
  for (int k = 0, axis = 0; k < ref->array.rank; k++) {
    r->in_range[k] = index_in_range(g, ref, k);
    if (ref->squeeze[k]) continue;
    r->inside[axis] = inside_of(g, ref, k, axis);
    axis++;
  }
}

bool demand_is_met(Gen *g) {
  Walk w = {g, false};
  walk_back(&w, g->k->body);
  return !w.changed;
}

void find_demand(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++) {
    RefGen *r = &g->refs[i];
    if (ref_is_operand(r->ref)) find_insides(g, r);
    r->carried = carried_from(g->k, r->ref);
    if (r->ref->role == REF_OUTPUT) memcpy(r->demand, r->inside, sizeof r->demand);
  }
  Walk w = {g, true};
  while (w.changed) {
    w.changed = false;
    walk_back(&w, g->k->body);
  }
}
