// Sums along axes of the grid in a kernel's body: memory that is set to 0 at the first step along
// them, to which each step adds once, and of which the last one stores a linear function. A step's
// gradient does not depend on the other steps then.
#include "codegen/grad/blocks.h"
#include "codegen/ir/rewrite.h"

// ---- conditions: "i == 0 && j == 0", or the last steps

static bool is_last_step(const Kernel *k, int axis, const Instr *v) {
  const Instr *extent = ir_yielded(k->grid.at[axis].extent, 0);
  if (v->op == OP_CONST) return extent->op == OP_CONST && v->ival == extent->ival - 1;
  return v->op == OP_SUB && v->args[0]->op == OP_EXTENT && v->args[0]->ival == axis &&
         ir_is_const(v->args[1], 1);
}

// The axes of the grid that the condition tests; 0: it is another.
static int64_t tested_axes(const Kernel *k, const Instr *v, bool last) {
  if (v->op == OP_AND) {
    int64_t a = tested_axes(k, v->args[0], last), b = tested_axes(k, v->args[1], last);
    return a && b ? a | b : 0;
  }
  if (v->op != OP_EQ || v->args[0]->op != OP_AXIS) return 0;
  const int axis = (int)v->args[0]->ival;
  bool good = last ? is_last_step(k, axis, v->args[1]) : ir_is_const(v->args[1], 0);
  return good ? (int64_t)1 << axis : 0;
}

// ---- what the first step sets, what each adds

static bool is_whole_access(const Instr *v) { return !v->flags && ir_window_is_full(v); }

static bool sets_zeros(const Region *region, bool *zeroed) {
  double value;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op != OP_STORE && !op_acts(v->op) && !v->regions[0]) continue;
    if (v->op != OP_STORE || !is_whole_access(v)) return false;
    if (!is_number(ir_store_value(v), &value) || value != 0) return false;
    zeroed[v->ref->id] = true;
  }
  return true;
}

static Instr *added_to(const Instr *store, const Instr **load) {
  const Instr *sum = ir_store_value(store);
  for (int side = 0; side < 2 && sum->op == OP_ADD; side++) {
    *load = sum->args[side];
    if ((*load)->op == OP_LOAD && (*load)->ref == store->ref && is_whole_access(*load))
      return sum->args[1 - side];
  }
  return NULL;
}

// ---- what the last step makes of a sum

// Is it linear in its first operand, if the others are constants?
static bool is_linear(const Instr *v) {
  double value;
  switch (v->op) {
    case OP_CAST:
    case OP_NEG:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_REDUCE_SUM:
      return true;
    case OP_MUL:
      return is_number(v->args[0], &value) || is_number(v->args[1], &value);
    case OP_DIV:
      return is_number(v->args[1], &value);
    default:
      return false;
  }
}

// Stores of linear functions of sums, and nothing else.
static bool ends_linearly(const GridSums *s, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_LOAD && (!s->added[v->ref->id] || !is_whole_access(v))) return false;
    if (v->op == OP_LOAD || v->op == OP_CONST || v->op == OP_YIELD) continue;
    double value;
    if (v->op == OP_BROADCAST && is_number(v, &value)) continue;
    if (v->op == OP_STORE ? !is_whole_access(v) || v->ref->role != REF_OUTPUT : !is_linear(v))
      return false;
    for (int a = 0; a < v->nargs; a++) {
      const Instr *arg = v->args[a];
      bool here = false;
      for (int j = 0; j < i; j++) here = here || region->instrs.at[j] == arg;
      if (!here && !is_number(arg, &value) && is_float(arg->type.dtype)) return false;
    }
  }
  return true;
}

// ---- the body

static void see_store(const Uses *uses, GridSums *s, const Instr *v) {
  const Instr *load;
  Instr *added = is_whole_access(v) ? added_to(v, &load) : NULL;
  if (!added || !is_float(added->type.dtype)) return;
  bool once = !s->added[v->ref->id] && uses->count[load->id] == 1;
  s->added[v->ref->id] = added;
  s->loads[v->ref->id] = once ? load : NULL;
}

static void see_choice(const Kernel *k, GridSums *s, const Instr *v, bool *zeroed) {
  if (has_result(v) || (v->regions[1] && v->regions[1]->instrs.count)) return;
  int64_t first = tested_axes(k, v->args[0], false), last = tested_axes(k, v->args[0], true);
  if (!s->first && first && sets_zeros(v->regions[0], zeroed)) {
    s->first = v;
    s->axes = first;
  } else if (!s->last && last && last == s->axes && ends_linearly(s, v->regions[0])) {
    s->last = v;
  }
}

// First zeros, then what is added, then what the last step stores.
static void see_body(const Kernel *k, GridSums *s, bool *zeroed) {
  Uses uses = ir_uses(k, k->body);
  for (int i = 0; i < k->body->instrs.count; i++) {
    const Instr *v = k->body->instrs.at[i];
    if (v->op == OP_STORE && s->first && !s->last) see_store(&uses, s, v);
    if (v->op == OP_IF) see_choice(k, s, v, zeroed);
  }
}

// Do the axes turn fastest? The steps that add to one sum follow each other then.
static bool are_innermost(const Kernel *k, int64_t axes) {
  for (int i = 1; i < k->grid.count; i++)
    if ((axes >> (i - 1) & 1) && !(axes >> i & 1)) return false;
  return true;
}

bool is_grid_sum(const GridSums *s, const Ref *ref) { return s->axes && s->added[ref->id]; }

GridSums find_grid_sums(const Kernel *k) {
  const int count = k->refs.count + 1;
  GridSums s = {.added = NEW_ARRAY(k->arena, Instr *, count),
                .loads = NEW_ARRAY(k->arena, const Instr *, count)};
  bool *zeroed = NEW_ARRAY(k->arena, bool, count);
  see_body(k, &s, zeroed);
  bool good = s.first && are_innermost(k, s.axes);
  for (int i = 0; i < k->refs.count && good; i++)
    good = !s.added[i] == !zeroed[i] && (!s.added[i] || s.loads[i]);
  return good ? s : (GridSums){0};
}
