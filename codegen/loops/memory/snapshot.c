// Snapshots: values that are stored where they are computed. These are loads whose ref changes
// between the load and the last use of the value, and operands of operations that are not loops
// over rows.
#include "codegen/loops/loops.h"

static int last_use(const Instr *v) {
  int last = val(v)->position;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    bool passes_on = user->op == OP_BROADCAST || (moves_elements(user) && !is_gather(user)) ||
                     only_compared_with_index(user) || widens_for_reductions(user) ||
                     feeds_only_dots(user);
    int at = passes_on ? last_use(user) : val(user)->position;
    if (val(user)->region != val(v)->region && at > last)
      at = INT32_MAX;  // used inside a nested region, perhaps in a loop
    if (at > last) last = at;
  }
  return last;
}

// ---- a store whose value is only a window of its own ref: the loop reads each element as it
// writes

static bool same_start(const Instr *a, const Instr *b) {
  return a == b || (a->op == OP_CONST && b->op == OP_CONST && a->ival == b->ival);
}

// The start of a window along an axis, if it is known and the whole window is within the ref.
static bool known_start(const Instr *access, int axis, int64_t *start) {
  Dim extent = access->ref->type.dim[axis], size = access->window.size[axis];
  const Instr *at = access->args[axis];
  if (at->op != OP_CONST || !dim_is_const(extent) || !dim_is_const(size)) return false;
  *start = at->ival;
  return *start >= 0 && *start + (size - 1) * access->window.stride[axis] < extent;
}

bool window_span(const Instr *access, int axis, int64_t *first, int64_t *end) {
  if (!known_start(access, axis, first)) return false;
  *end = *first + (access->window.size[axis] - 1) * access->window.stride[axis] + 1;
  return true;
}

// Is element (i..) of the load's window the same element of the store's window, or always at the
// same distance after it in memory? Loops run upwards, so each element is read before it is
// written.
static bool reads_ahead(const Instr *load, const Instr *store) {
  const Window *from = &load->window, *to = &store->window;
  bool ahead = false;
  for (int k = 0; k < load->ref->type.rank; k++) {
    int64_t a, b;
    if (from->size[k] != to->size[k] || from->stride[k] != to->stride[k] ||
        from->squeeze[k] != to->squeeze[k])
      return false;
    if (ahead || same_start(load->args[k], store->args[k])) continue;
    if (!known_start(load, k, &a) || !known_start(store, k, &b) || a < b) return false;
    ahead = true;
  }
  return true;
}

// Are the windows of two accesses of a ref provably disjoint?
bool windows_are_apart(const Instr *load, const Instr *store) {
  for (int k = 0; k < load->ref->type.rank; k++) {
    const Instr *first = load, *second = store;
    int64_t a, b;
    if (!known_start(first, k, &a) || !known_start(second, k, &b)) continue;
    if (a > b) {
      int64_t later = a;
      a = b;
      b = later;
      first = store;
      second = load;
    }
    int64_t step = first->window.stride[k];
    if (a + (first->window.size[k] - 1) * step < b) return true;
    if (step == second->window.stride[k] && (b - a) % step != 0) return true;
  }
  return false;
}

static bool reaches(const Instr *v, const Instr *load) {
  return v == load || (v->nargs && is_transparent(v) && reaches(v->args[0], load));
}

static bool is_bare(const Instr *v, const Instr *load) {
  while (v->op == OP_BROADCAST && type_same_shape(&v->type, &v->args[0]->type)) v = v->args[0];
  return v == load;
}

// Do two accesses of a ref have the same elements, at the same positions of their values?
bool windows_are_same(const Instr *a, const Instr *b) {
  if (ir_may_leave(a) || ir_may_leave(b)) return false;
  const Window *from = &a->window, *to = &b->window;
  for (int k = 0; k < a->ref->type.rank; k++)
    if (from->size[k] != to->size[k] || from->stride[k] != to->stride[k] ||
        from->squeeze[k] != to->squeeze[k] || !same_start(a->args[k], b->args[k]))
      return false;
  return true;
}

// Would the store write elements of the load's window that it has not read yet?
bool store_overtakes(const Instr *store, const Instr *load) {
  if (windows_are_apart(load, store)) return false;
  if (!reads_ahead(load, store)) return true;
  for (int i = store->ref->type.rank; i < store->nargs; i++)
    if (reaches(store->args[i], load) && !is_bare(store->args[i], load)) return true;
  return false;
}

// Is the ref of a load written after the load and before the last use of its value?
static bool is_written(const Gen *g, const Instr *load) {
  const RefGen *r = &g->refs[load->ref->id];
  int from = val(load)->position, to = last_use(load), low = 0, high = r->writers.count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (val(r->writers.at[middle])->position <= from)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == r->writers.count) return false;
  const Instr *next = r->writers.at[low];
  return val(next)->position < to || (val(next)->position == to && store_overtakes(next, load));
}

static void mark_changing(Gen *g, Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (v->op == OP_LOAD && v->type.rank > 0) val(v)->snapshot = is_written(g, v);
  }
}

// Operations that are not loops over rows read their operands from memory, so operands are first
// stored there.
static bool is_addressable(const Instr *v) {
  return !is_transparent(v) || v->op == OP_LOAD || widens_for_reductions(v);
}

static void force(const Instr *v) {
  if (v->type.rank > 0 && !is_addressable(v)) val(v)->snapshot = true;
}

// A reduction of axes that a view splits in place: each has its own stride there.
static bool reduces_split(const Instr *v) {
  if (op_info[v->op].class != OPC_REDUCE || !is_generic(v)) return false;
  return splits_axes(v->args[0]) && v->args[0]->args[0]->op == OP_LOAD;
}

// Marks loads that must be evaluated at their own position, because an instruction reads their
// value after the ref may have changed.
static void mark_forced(Region *region) {
  for (int i = region->instrs.count - 1; i >= 0; i--) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) mark_forced(v->regions[r]);
    bool to_scalar =
        v->type.rank == 0 && (v->op == OP_RESHAPE || op_info[v->op].class == OPC_REDUCE ||
                              op_info[v->op].class == OPC_ARGREDUCE || v->op == OP_DOT);
    if (reduces_split(v)) continue;
    if (is_generic(v) || v->op == OP_YIELD || to_scalar)
      for (int a = 0; a < v->nargs; a++) force(v->args[a]);
    if (is_gather(v)) force(gathered_from(v));
    if (v->op == OP_DOT && dot_shape(v).plain) {
      force(dot_shape(v).a);
      force(dot_shape(v).b);
    }
    if (v->type.rank > 0 && ir_moves_unit_axes(v) && !ir_keeps_lanes(v)) {
      Instr *from = v->args[0];
      bool spreads_rows_to_lanes = from->op == OP_LOAD && is_row_scalar(from) && !is_row_scalar(v);
      if (spreads_rows_to_lanes) val(from)->snapshot = true;
      force(from);
    }
  }
}

void mark_snapshots(Gen *g, Region *region) {
  mark_changing(g, region);
  mark_forced(region);
}
