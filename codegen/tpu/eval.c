// Scalars that depend on the grid only: their values at a step, their bounds over parts of the
// grid, and their periods along an axis.
#include "codegen/tpu/internal.h"

#include "codegen/ir/scalar.h"

#include <string.h>

GridEval grid_eval_new(Arena *arena, const Kernel *k, const int64_t *sizes,
                       const int64_t *extents) {
  GridEval e = {.k = k, .sizes = sizes, .extents = extents};
  e.axes = NEW_ARRAY(arena, int64_t, k->grid.count + 1);
  e.value = NEW_ARRAY(arena, int64_t, k->next_id + 1);
  e.known = NEW_ARRAY(arena, bool, k->next_id + 1);
  e.variable = NEW_ARRAY(arena, int64_t, k->refs.count + 1);
  e.variable_known = NEW_ARRAY(arena, bool, k->refs.count + 1);
  return e;
}

static bool is_scalar_int(const Instr *instr) {
  return has_result(instr) && instr->type.rank == 0 && !is_float(instr->type.dtype);
}

// An element of a prefetched operand.
static bool is_prefetched(const Instr *instr) {
  return instr->op == OP_LOAD && instr->ref->prefetched && instr->nargs == instr->ref->type.rank;
}

// Reads or writes an integer variable of the body, which is not carried from step to step.
bool is_variable_access(const Instr *instr) {
  if (instr->op != OP_LOAD && instr->op != OP_STORE) return false;
  const Ref *ref = instr->ref;
  return ref->role == REF_VAR && ref->type.rank == 0 && !is_float(ref->type.dtype) &&
         !ir_mask(instr);
}

bool is_index_scalar(const Instr *instr) {
  if (!is_scalar_int(instr)) return false;
  if (instr->op == OP_IF || is_variable_access(instr)) return true;
  if (op_info[instr->op].class == OPC_LEAF) return instr->op != OP_ARRAY && instr->op != OP_IOTA;
  if (!op_is_elementwise(instr->op) && !is_prefetched(instr)) return false;
  for (int i = 0; i < instr->nargs; i++)
    if (!is_scalar_int(instr->args[i])) return false;
  return true;
}

// ---- values

static void set(GridEval *e, const Instr *instr, int64_t value) {
  e->value[instr->id] = value;
  e->known[instr->id] = true;
}

static void access_variable(GridEval *e, const Instr *instr) {
  int id = instr->ref->id;
  if (instr->op == OP_STORE) {
    const Instr *from = ir_store_value(instr);
    e->variable_known[id] = e->known[from->id];
    e->variable[id] = e->value[from->id];
  } else {
    e->known[instr->id] = e->variable_known[id];
    e->value[instr->id] = e->variable[id];
  }
}

void grid_take_result(GridEval *e, const Instr *branch, const Region *taken) {
  const Instr *result = ir_yielded(taken, 0);
  e->known[branch->id] = e->known[result->id];
  e->value[branch->id] = e->value[result->id];
}

// Evaluates a scalar at a grid step.
void grid_eval(GridEval *e, const Instr *instr) {
  int64_t arg[MAX_RANK + 2] = {0};
  bool clamped;
  switch (instr->op) {
    case OP_CONST:
      return set(e, instr, instr->ival);
    case OP_SIZE:
      return set(e, instr, e->sizes[instr->ival]);
    case OP_AXIS:
      return set(e, instr, e->axes[instr->ival]);
    case OP_EXTENT:
      return set(e, instr, e->extents[instr->ival]);
    case OP_DEVICE:
      return set(e, instr, e->device[instr->ival]);
    case OP_ARG:
    case OP_IF:
      return;  // set by the code that runs the loop or branch
    default:
      break;
  }
  if (is_variable_access(instr)) return access_variable(e, instr);
  e->known[instr->id] = false;
  if (!is_index_scalar(instr)) return;
  for (int i = 0; i < instr->nargs && i < MAX_RANK + 2; i++) {
    if (!e->known[instr->args[i]->id]) return;
    arg[i] = e->value[instr->args[i]->id];
  }
  set(e, instr,
      instr->op == OP_LOAD ? prefetched_element(instr, arg, &clamped) : eval_pure(instr, arg));
}

static void eval_map(GridEval *e, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (instr->op == OP_YIELD) return;
    if (instr->op != OP_IF) {
      grid_eval(e, instr);
      continue;
    }
    e->known[instr->id] = false;
    if (!e->known[instr->args[0]->id]) continue;
    const Region *taken = instr->regions[e->value[instr->args[0]->id] ? 0 : 1];
    if (!taken) continue;
    eval_map(e, taken);
    grid_take_result(e, instr, taken);
  }
}

bool grid_block_index(GridEval *e, const Ref *ref, int64_t *index) {
  const Region *map = ref->index_map;
  memset(index, 0, sizeof *index * MAX_INDEX);
  if (!map || map->instrs.count == 0) return true;
  eval_map(e, map);
  const Instr *yield = map->instrs.at[map->instrs.count - 1];
  bool known = true;
  for (int i = 0; yield->op == OP_YIELD && i < yield->nargs && i < MAX_INDEX; i++) {
    known &= e->known[yield->args[i]->id];
    index[i] = e->value[yield->args[i]->id];
  }
  return known;
}

// ---- bounds

static const Interval unbounded = {INT64_MIN, INT64_MAX};
Interval grid_interval(const GridEval *e, const Instr *instr, const Interval *axes,
                       const Interval *known) {
  bool scalar = is_index_scalar(instr) || instr->op == OP_CONST;
  Interval a[3];
  if (instr->op == OP_SIZE) return interval_point(e->sizes[instr->ival]);
  if (instr->op == OP_EXTENT) return interval_point(e->extents[instr->ival]);
  if (instr->op == OP_ARG || instr->op == OP_LOAD || instr->op == OP_IF || !scalar)
    return unbounded;
  for (int i = 0; i < instr->nargs && i < 3; i++) a[i] = known[instr->args[i]->id];
  return interval_of_value(instr, axes, a);
}

void grid_intervals(const GridEval *e, const Region *region, const Interval *axes, Interval *out) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (region->arg) out[region->arg->id] = unbounded;
    for (int r = 0; r < 2; r++) grid_intervals(e, instr->regions[r], axes, out);
    out[instr->id] = grid_interval(e, instr, axes, out);
  }
}

// ---- repetition

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int64_t least_multiple(int64_t a, int64_t b) {
  int64_t r;
  if (a <= 0 || b <= 0 || !mul_i64(a / greatest_divisor(a, b), b, &r) || r > INT32_MAX) return 0;
  return r;
}

static const Periodic constant = {1, 0}, irregular = {0, 0};

// Quotient and remainder of a value that grows by `step` every `period`: both have that period if
// the growth is a multiple of c.
static Periodic divide(const Instr *instr, Periodic p, int64_t c, Interval dividend) {
  bool floors = instr->op == OP_FLOORDIV || instr->op == OP_MOD,
       remains = instr->op == OP_MOD || instr->op == OP_REM;
  if (c <= 0 || !(floors || dividend.low >= 0)) return irregular;
  int64_t times = c / greatest_divisor(c, p.step < 0 ? -p.step : p.step), step;
  if (p.period * times > INT32_MAX || !mul_i64(p.step, times, &step)) return irregular;
  return (Periodic){p.period * times, remains ? 0 : step / c};
}

// The period of an operation, from those of its operands.
static Periodic combine(const Instr *instr, const Periodic *a, const Interval *bounds) {
  int64_t period = 1, step[3] = {0, 0, 0};
  for (int i = 0; i < instr->nargs && i < 3; i++) period = least_multiple(period, a[i].period);
  if (!period) return irregular;
  bool still = true;
  for (int i = 0; i < instr->nargs && i < 3; i++) {
    if (!mul_i64(a[i].step, period / a[i].period, &step[i])) return irregular;
    still &= step[i] == 0;
  }
  if (still) return (Periodic){period, 0};
  Interval first = bounds[instr->args[0]->id],
           second = instr->nargs > 1 ? bounds[instr->args[1]->id] : interval_point(1);
  Periodic p = {period, step[0]};
  if (op_has(instr->op, DIVIDES))
    return interval_is_point(second) ? divide(instr, p, second.low, first) : irregular;
  switch (instr->op) {
    case OP_ADD:
      return add_i64(step[0], step[1], &p.step) ? p : irregular;
    case OP_SUB:
      return sub_i64(step[0], step[1], &p.step) ? p : irregular;
    case OP_MUL:
      if (interval_is_point(second)) return mul_i64(step[0], second.low, &p.step) ? p : irregular;
      return interval_is_point(first) && mul_i64(step[1], first.low, &p.step) ? p : irregular;
    case OP_CAST:
      return instr->type.dtype == DT_I64 ? p : irregular;
    default:
      return irregular;
  }
}

// An element of a prefetched operand is the same if its indices are.
static Periodic periodic_load(const Instr *load, const Periodic *known) {
  int64_t period = 1;
  for (int i = 0; i < load->nargs; i++) {
    Periodic p = known[load->args[i]->id];
    period = p.step == 0 ? least_multiple(period, p.period) : 0;
  }
  return (Periodic){period, 0};
}

static Periodic periodic_branch(const Instr *branch, const Periodic *known) {
  Periodic condition = known[branch->args[0]->id];
  int64_t period = condition.step == 0 ? condition.period : 0;
  for (int r = 0; r < 2; r++) {
    Periodic p = known[ir_yielded(branch->regions[r], 0)->id];
    period = p.step == 0 ? least_multiple(period, p.period) : 0;
  }
  return (Periodic){period, 0};
}

static Periodic periodic_of(const Instr *instr, int axis, const Interval *bounds,
                            const Periodic *known) {
  if (instr->op == OP_AXIS) return instr->ival == axis ? (Periodic){1, 1} : constant;
  if (instr->op == OP_IF) return has_result(instr) ? periodic_branch(instr, known) : constant;
  if (is_variable_access(instr))
    return constant;  // constant if the values stored to variables repeat: see Body.decisions
  if (op_info[instr->op].class == OPC_LEAF || !is_index_scalar(instr))
    return constant;  // or data, which is assumed to be the same everywhere
  if (instr->op == OP_LOAD) return periodic_load(instr, known);
  if (interval_is_point(bounds[instr->id])) return constant;
  Periodic a[3] = {constant, constant, constant};
  for (int i = 0; i < instr->nargs && i < 3; i++) a[i] = known[instr->args[i]->id];
  return combine(instr, a, bounds);
}

void grid_periods(const Region *region, int axis, const Interval *bounds, Periodic *out) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (region->arg) out[region->arg->id] = constant;
    for (int r = 0; r < 2; r++) grid_periods(instr->regions[r], axis, bounds, out);
    out[instr->id] = periodic_of(instr, axis, bounds, out);
  }
}
