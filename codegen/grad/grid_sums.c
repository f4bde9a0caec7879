// Sums along axes of the grid in a kernel's body. The first step sets the memory of a sum to 0,
// each step adds to it once, and the last step stores a function of it. If that function is linear,
// the gradient of a step does not depend on the other steps. If it is not, or if a reference point
// scales the sums (rescaled.c), the gradient depends on the final sums alone.
#include "codegen/grad/blocks.h"
#include "codegen/ir/rewrite.h"

// ---- conditions: "i == 0 && j == 0", or the last steps

static bool is_last_step(const Kernel *k, int axis, const Instr *v) {
  const Instr *extent = ir_yielded(k->grid.at[axis].extent, 0);
  if (v->op == OP_CONST) return extent->op == OP_CONST && v->ival == extent->ival - 1;
  return v->op == OP_SUB && v->args[0]->op == OP_EXTENT && v->args[0]->ival == axis &&
         ir_is_const(v->args[1], 1);
}

int64_t tested_axes(const Kernel *k, const Instr *v, bool last) {
  if (v->op == OP_AND) {
    int64_t a = tested_axes(k, v->args[0], last), b = tested_axes(k, v->args[1], last);
    return a && b ? a | b : 0;
  }
  if (v->op != OP_EQ || v->args[0]->op != OP_AXIS) return 0;
  const int axis = (int)v->args[0]->ival;
  bool good = last ? is_last_step(k, axis, v->args[1]) : ir_is_const(v->args[1], 0);
  return good ? (int64_t)1 << axis : 0;
}

// ---- the stores of the first step, and those of each step

static bool is_whole_access(const Instr *v) { return !v->flags && ir_window_is_full(v); }

// Stores of constants. starts: by ref, whether there is one; zero: whether the constant is 0.
typedef struct {
  bool *starts, *zero;
} Starts;

static bool sets_constants(const Region *region, const Starts *starts) {
  double value;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op != OP_STORE && !op_acts(v->op) && !v->regions[0]) continue;
    if (v->op != OP_STORE || !is_whole_access(v)) return false;
    if (!is_number(ir_store_value(v), &value)) return false;
    starts->starts[v->ref->id] = true;
    starts->zero[v->ref->id] = value == 0;
  }
  return true;
}

// Is it the sum so far, possibly times a factor?
static const Instr *summed_before(const Instr *v, const Ref *ref, const Instr **factor) {
  *factor = NULL;
  for (int side = 0; v->op == OP_MUL && side < 2; side++) {
    const Instr *load = v->args[side];
    if (load->op != OP_LOAD || load->ref != ref || !is_whole_access(load)) continue;
    *factor = v->args[1 - side];
    return load;
  }
  return v->op == OP_LOAD && v->ref == ref && is_whole_access(v) ? v : NULL;
}

static Instr *added_to(const Instr *store, const Instr **load, const Instr **factor) {
  const Instr *sum = ir_store_value(store);
  for (int side = 0; side < 2 && sum->op == OP_ADD; side++) {
    *load = summed_before(sum->args[side], store->ref, factor);
    if (*load) return sum->args[1 - side];
  }
  return NULL;
}

// ---- the function of a sum in the last step

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

// A walk over the body, and the sums that it has found so far.
typedef struct {
  const Kernel *k;
  GridSums *s;
  Uses uses;
  Starts starts;
  bool other;  // a store that belongs to no sum
  bool bare;   // a store of a step outside of every condition
} Search;

static void see_scale(Search *f, const Instr *v) {
  f->other = f->other || f->s->scale || !is_whole_access(v) || v->ref->role != REF_SCRATCH ||
             !f->starts.starts[v->ref->id] || !is_float(v->ref->type.dtype);
  f->s->scale = v->ref;
  f->s->reached = ir_store_value(v);
}

static void see_store(Search *f, const Instr *v) {
  const Instr *load, *factor;
  const int id = v->ref->id;
  Instr *added = is_whole_access(v) ? added_to(v, &load, &factor) : NULL;
  if (!added && v->ref->role == REF_OUTPUT && !f->starts.starts[id]) return;
  if (!added) {
    see_scale(f, v);
    return;
  }
  if (!is_float(added->type.dtype)) return;
  bool once = !f->s->added[id] && f->uses.count[load->id] == 1;
  f->s->added[id] = added;
  f->s->factors[id] = factor;
  f->s->loads[id] = once ? load : NULL;
}

static void see_stores(Search *f, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_LOAD && f->s->scale && v->ref == f->s->scale) f->other = true;
    if (v->op == OP_STORE) see_store(f, v);
  }
}

// Does it depend only on grid indices, sizes and prefetched elements?
bool is_place(const Instr *v) {
  if (v->op == OP_IF && has_result(v))
    return is_place(v->args[0]) && is_place(ir_yielded(v->regions[0], 0)) &&
           is_place(ir_yielded(v->regions[1], 0));
  bool is = v->op == OP_AXIS || v->op == OP_EXTENT || v->op == OP_SIZE || v->op == OP_CONST ||
            op_is_elementwise(v->op) || (v->op == OP_LOAD && v->ref->prefetch);
  for (int i = 0; is && i < v->nargs; i++) is = is_place(v->args[i]);
  return is;
}

static void see_choice(Search *f, const Instr *v) {
  GridSums *s = f->s;
  if (has_result(v) || (v->regions[1] && v->regions[1]->instrs.count)) return;
  int64_t first = tested_axes(f->k, v->args[0], false), last = tested_axes(f->k, v->args[0], true);
  if (!s->first && first && sets_constants(v->regions[0], &f->starts)) {
    s->first = v;
    s->axes = first;
  } else if (s->first && !s->last && last && last == s->axes) {
    s->last = v;
  } else if (s->first && !s->last && !s->guard && is_place(v->args[0])) {
    s->guard = v;
    see_stores(f, v->regions[0]);
  }
}

// The stores of constants first, then those of the sums, then those of the last step.
static void see_body(Search *f) {
  const Region *body = f->k->body;
  for (int i = 0; i < body->instrs.count; i++) {
    const Instr *v = body->instrs.at[i];
    const bool inner = f->s->first && !f->s->last;
    if (v->op == OP_LOAD && f->s->scale && v->ref == f->s->scale) f->other = true;
    if (v->op == OP_STORE && inner) see_store(f, v);
    if (v->op == OP_STORE && inner) f->bare = true;
    if (v->op == OP_IF) see_choice(f, v);
  }
}

// Are the axes the innermost ones? Then the steps that add to one sum are consecutive.
static bool are_innermost(const Kernel *k, int64_t axes) {
  for (int i = 1; i < k->grid.count; i++)
    if ((axes >> (i - 1) & 1) && !(axes >> i & 1)) return false;
  return true;
}

bool is_grid_sum(const GridSums *s, const Ref *ref) { return s->axes && s->added[ref->id]; }

bool is_carried(const GridSums *s, const Ref *ref) {
  return is_grid_sum(s, ref) || (s->axes && ref == s->scale);
}

// Is all memory that the first step sets a sum that starts at 0, or the point?
static bool all_carried(const Search *f) {
  const GridSums *s = f->s;
  bool good = s->first && are_innermost(f->k, s->axes) && !f->other && !(s->guard && f->bare);
  for (int i = 0; i < f->k->refs.count && good; i++) {
    const bool point = s->scale == f->k->refs.at[i];
    good = s->added[i] ? !point && f->starts.zero[i] && s->loads[i] : !f->starts.starts[i] || point;
    good = good && (!s->added[i] || !s->factors[i] || s->scale);
  }
  return good;
}

// Sums in scratch whose last step stores any function of them; separate kernels derive them.
static bool ends_apart(const Kernel *k, const GridSums *s) {
  for (int i = 0; i < k->refs.count; i++)
    if (s->added[i] && k->refs.at[i]->role != REF_SCRATCH) return false;
  for (int i = 0; s->last && i < s->last->regions[0]->instrs.count; i++) {
    const Instr *v = s->last->regions[0]->instrs.at[i];
    if (v->op == OP_STORE && (!is_whole_access(v) || v->ref->role != REF_OUTPUT)) return false;
    if (v->op == OP_LOAD && !is_whole_access(v)) return false;
    if (v->regions[0] || (op_acts(v->op) && v->op != OP_STORE && v->op != OP_YIELD)) return false;
  }
  return s->last;
}

GridSums find_grid_sums(const Kernel *k) {
  const int count = k->refs.count + 1;
  GridSums s = {.added = NEW_ARRAY(k->arena, Instr *, count),
                .loads = NEW_ARRAY(k->arena, const Instr *, count),
                .factors = NEW_ARRAY(k->arena, const Instr *, count)};
  Search f = {.k = k,
              .s = &s,
              .uses = ir_uses(k, k->body),
              .starts = {NEW_ARRAY(k->arena, bool, count), NEW_ARRAY(k->arena, bool, count)}};
  see_body(&f);
  if (!all_carried(&f)) return (GridSums){0};
  s.apart = s.scale || s.guard || (s.last && !ends_linearly(&s, s.last->regions[0]));
  if (s.apart && !ends_apart(k, &s)) return (GridSums){0};
  if (s.scale && !scale_cancels(k, &s)) return (GridSums){.kept_point = s.scale};
  return s;
}
