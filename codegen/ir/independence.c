// Finds which elements of each value a grid cell computes for itself.
#include "codegen/ir/independence.h"

static Partition partition(const Independence *q, const Instr *v) { return q->values[v->id]; }

static Partition replicated(unsigned uniform) { return (Partition){REPLICATED, uniform}; }

static bool is_replicated(Partition p) { return p.axis == REPLICATED; }

// Can elements of this partition be combined with elements that are partitioned along `axis`?
static bool fits(Partition p, int axis) {
  return is_replicated(p) ? axis == REPLICATED || p.uniform >> axis & 1 : p.axis == axis;
}

// ---- values: each function computes the partition of a value; false: it has none

// Elementwise arguments from `from` on.
static bool join_arguments(const Independence *q, const Instr *v, int from, Partition *all) {
  *all = replicated(~0u);
  for (int i = from; i < v->nargs; i++) {
    const Partition p = partition(q, v->args[i]);
    if (is_replicated(p))
      all->uniform &= p.uniform;
    else if (!is_replicated(*all) && all->axis != p.axis)
      return false;
    else
      all->axis = p.axis;
  }
  if (is_replicated(*all)) return true;
  const bool good = all->uniform >> all->axis & 1;
  all->uniform = 0;
  return good;
}

// The axis of an access that covers the whole partitioned axis of its ref; REPLICATED: it does not
// cover it.
static int accessed_axis(const Independence *q, const Instr *access) {
  const int axis = q->refs[access->ref->id];
  int squeezed = 0;
  for (int k = 0; k < axis; k++) squeezed += access->window.squeeze[k];
  const bool all = q->whole ? ir_window_is_full(access) : ir_window_covers(access, axis);
  return all ? axis - squeezed : REPLICATED;
}

static bool of_load(const Independence *q, const Instr *v, Partition *p) {
  Partition masks;
  if (!join_arguments(q, v, v->ref->type.rank, &masks)) return false;
  *p = replicated(v->type.rank ? 0 : ~0u);
  if (q->refs[v->ref->id] == REPLICATED) return is_replicated(masks);
  p->axis = accessed_axis(q, v);
  return p->axis >= 0 && fits(masks, p->axis);
}

static bool of_broadcast(const Independence *q, const Instr *v, Partition *p) {
  const Type *from = &v->args[0]->type, *to = &v->type;
  const Partition of = partition(q, v->args[0]);
  const int more = to->rank - from->rank;
  *p = replicated(0);
  for (int axis = 0; axis < to->rank; axis++) {
    const bool stretched = axis < more || from->dim[axis - more] != to->dim[axis];
    if (stretched || of.uniform >> (axis - more) & 1) p->uniform |= 1u << axis;
    if (is_replicated(of) || axis - more != of.axis) continue;
    if (stretched) return false;
    p->axis = axis;
  }
  return true;
}

static bool of_dot(const Independence *q, const Instr *v, Partition *p) {
  const DotShape shape = dot_shape(v);
  *p = replicated(0);
  if (is_replicated(partition(q, v->args[0])) && is_replicated(partition(q, v->args[1])))
    return true;
  const Partition a = partition(q, shape.a), b = partition(q, shape.b);
  if (a.axis == 0 && !shape.a_transposed && is_replicated(b)) p->axis = 0;
  if (b.axis == 1 && !shape.b_transposed && is_replicated(a)) p->axis = 1;
  return shape.plain && p->axis >= 0;
}

static bool of_reduction(const Independence *q, const Instr *v, Partition *p) {
  *p = partition(q, v->args[0]);
  return is_replicated(*p) || !(v->ival >> p->axis & 1);
}

static bool find_partition(const Independence *q, const Instr *v, Partition *p) {
  if (v->op == OP_LOAD) return of_load(q, v, p);
  if (v->op == OP_BROADCAST) return of_broadcast(q, v, p);
  if (v->op == OP_DOT) return of_dot(q, v, p);
  if (op_info[v->op].class == OPC_REDUCE) return of_reduction(q, v, p);
  if (v->op == OP_IOTA) {
    *p = replicated(~(1u << v->ival));
    if (q->counts && q->counts(q, v)) p->axis = (int)v->ival;
    return true;
  }
  if (!join_arguments(q, v, 0, p)) return false;
  if (op_is_elementwise(v->op)) return true;
  const bool good = is_replicated(*p);
  *p = replicated(v->type.rank ? 0 : ~0u);
  return good;
}

// ---- effects

static bool store_holds(const Independence *q, const Instr *v) {
  Partition value;
  if (!join_arguments(q, v, v->ref->type.rank, &value)) return false;
  if (q->refs[v->ref->id] == REPLICATED) return is_replicated(value);
  const int axis = accessed_axis(q, v);
  return axis >= 0 && fits(value, axis);
}

bool ir_is_frame(Op op) {
  switch (op) {
    case OP_FETCH:
    case OP_WRITEBACK:
    case OP_IF:
    case OP_FOR:
    case OP_WHILE:
    case OP_BREAK:
    case OP_YIELD:
    case OP_NAMED:
    case OP_ASSERT:
      return true;
    default:
      return false;
  }
}

static bool effect_holds(const Independence *q, const Instr *v) {
  if (v->op == OP_STORE) return store_holds(q, v);
  // Regions yield scalars, which are replicated.
  if (ir_is_frame(v->op)) return !has_result(v) || v->type.rank == 0;
  return has_result(v) && !(v->op == OP_AXIS && v->ival == q->grid_axis);
}

static void find_partition_of(Instr *v, void *context) {
  Independence *q = context;
  if (!q->holds) return;
  q->holds = effect_holds(q, v);
  if (!q->holds || !has_result(v)) return;
  Partition *p = &q->values[v->id];
  q->holds = find_partition(q, v, p) && (!q->accepts || q->accepts(q, v, *p));
}

bool ir_is_independent(Independence *q) {
  q->values = NEW_ARRAY(q->k->arena, Partition, q->k->next_id + 1);
  for (int i = 0; i <= q->k->next_id; i++) q->values[i] = replicated(~0u);  // indices of loops
  q->holds = true;
  ir_walk(q->k->body, find_partition_of, q);
  return q->holds;
}

// ---- operands

GridUse ir_grid_use(const Ref *operand, int grid_axis) {
  GridUse use = {-1, false};
  for (int k = 0; k < operand->array.rank; k++) {
    const Instr *index = ir_yielded(operand->index_map, k);
    if (!ir_uses_axis(index, grid_axis)) continue;
    if (use.axis >= 0 || index->op != OP_AXIS)
      use.other = true;
    else
      use.axis = k;
  }
  return use;
}

int ir_array_axis(const Ref *operand, int axis) {
  int k = 0;
  for (; operand->squeeze[k] || axis; k++) axis -= !operand->squeeze[k];
  return k;
}

int ir_block_axis(const Ref *operand, int array_axis) {
  int axis = 0;
  for (int k = 0; k < array_axis; k++) axis += !operand->squeeze[k];
  return axis;
}
