// Outputs of the forward kernel that its gradient reads. What an output holds is not computed
// again. If no output depends on a point m (algebra.c) whose moves scale a positive sum t, the
// point may be taken where t is 1: then o = e / t holds e, and lse = m + log(t) holds m.
#include "codegen/grad/saved.h"

#include <math.h>
#include <string.h>

void refuse_saved(const Kernel *k, const char *list, Diag *diag) {
  diag_error(diag, k->span, ERR_DERIVED_BY,
             "--saved: the gradient of `%s` does not follow from `%s` alone: name more outputs, or "
             "leave out --saved",
             k->name, list);
}

bool reads_array(const Region *region, const Ref *ref) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++)
      if (v->args[a]->op == OP_ARRAY && v->args[a]->ref == ref) return true;
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && reads_array(v->regions[r], ref)) return true;
  }
  return false;
}

// ---- values if a sum is 1

typedef struct {
  Instr *v;  // NULL: a number in every element
  double number;
} Reduced;

static bool is_sum(const Unit *unit, const Instr *v) {
  return v == unit->sum || (unit->ref && v->op == OP_LOAD && v->ref == unit->ref);
}

static Reduced reduced(const Unit *unit, Instr *v);

static bool is(Reduced r, double number) { return !r.v && r.number == number; }

static Reduced reduced_choice(const Unit *unit, Instr *v) {
  const Instr *test = v->args[0];
  while (test->op == OP_BROADCAST) test = test->args[0];
  if (test->op != OP_EQ) return (Reduced){v, 0};
  Reduced a = reduced(unit, test->args[0]), b = reduced(unit, test->args[1]);
  if (a.v || b.v) return (Reduced){v, 0};
  return reduced(unit, v->args[a.number == b.number ? 1 : 2]);
}

static Reduced reduced_pair(const Unit *unit, Instr *v) {
  Reduced a = reduced(unit, v->args[0]), b = reduced(unit, v->args[1]);
  const bool scales = v->op == OP_MUL || v->op == OP_DIV;
  if (is(b, scales ? 1 : 0)) return a;
  if (v->op == OP_MUL && is(a, 1)) return b;
  if (v->op == OP_ADD && is(a, 0)) return b;
  return (Reduced){v, 0};
}

// What a value equals where the sum is 1: a number, or another value of the forward pass.
static Reduced reduced(const Unit *unit, Instr *v) {
  double number;
  if (is_sum(unit, v)) return (Reduced){NULL, 1};
  if (is_number(v, &number)) return (Reduced){NULL, number};
  Reduced a;
  switch (v->op) {
    case OP_MUL:
    case OP_DIV:
    case OP_ADD:
    case OP_SUB:
      return reduced_pair(unit, v);
    case OP_SELECT:
      return reduced_choice(unit, v);
    case OP_CAST:
    case OP_BROADCAST:
      a = reduced(unit, v->args[0]);
      return a.v ? (Reduced){v, 0} : a;
    case OP_LOG:
    case OP_LOG2:
    case OP_RECIP:
      a = reduced(unit, v->args[0]);
      return is(a, 1) ? (Reduced){NULL, v->op == OP_RECIP} : (Reduced){v, 0};
    default:
      return (Reduced){v, 0};
  }
}

Instr *held_by(const Unit *unit, Instr *stored) {
  while (stored->op == OP_CAST && is_float(stored->args[0]->type.dtype)) stored = stored->args[0];
  Instr *v = reduced(unit, stored).v;
  if (!v || v->op == OP_CONST) return NULL;
  return type_same_shape(&v->type, &stored->type) ? v : NULL;
}

// ---- which point, and which sum

// The number of saved outputs that hold another value once the sum is 1.
static int count_held(const Grad *g, const Saved *s, const Unit *unit, const Instr *yield) {
  const Unit none = {0};
  int count = 0;
  for (int i = 0; i < s->count; i++) {
    Instr *stored = yield->args[s->of[i]], *held = held_by(unit, stored);
    count += held && held != held_by(&none, stored) && held->id < g->count;
  }
  return count;
}

static void try_point(Grad *g, Saved *s, Algebra *a, const Instr *yield) {
  for (int i = 0; i < g->top->instrs.count; i++) {
    const Instr *v = g->top->instrs.at[i];
    if (!has_result(v) || !is_float(v->type.dtype) || !is_positive(v)) continue;
    const Class c = class_of(a, v);
    const Unit unit = {.sum = v};
    if (!scales_with(&c, &v->type, 0, &a->move, &a->moved->type)) continue;
    if (!count_held(g, s, &unit, yield)) continue;
    s->unit = unit;
    s->point = a->moved;
    s->by = c.by[0];
    return;
  }
}

static void find_point(Grad *g, Saved *s, const Instr *yield) {
  Algebra a = new_algebra(g->k);
  for (int i = 0; i < g->top->instrs.count && !s->point; i++) {
    const Instr *v = g->top->instrs.at[i];
    if (g->cancels[v->id] && moves_nothing(&a, g->count, g->top, v) && a.move.kind == ADDED)
      try_point(g, s, &a, yield);
  }
}

// ---- what changes with the values that are read

static bool uses_changed(const Instr *v, const bool *changed) {
  for (int i = 0; i < v->nargs; i++)
    if (changed[v->args[i]->id]) return true;
  return false;
}

// Only values may change: not what memory holds, nor what loops and choices compute.
static bool is_safe(const Region *region, bool *changed, bool top) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    const bool uses = uses_changed(v, changed);
    if (top && has_result(v) && !v->regions[0] && v->op != OP_LOAD)
      changed[v->id] = changed[v->id] || uses;
    else if (uses && v->op != OP_YIELD)
      return false;
    for (int r = 0; r < 2; r++)
      if (!is_safe(v->regions[r], changed, false)) return false;
  }
  return true;
}

static bool change_is_safe(const Grad *g, const Saved *s) {
  bool *changed = NEW_ARRAY(g->arena, bool, g->k->next_id + 1);
  for (int i = 0; i < s->count; i++)
    if (s->held[i]) changed[s->held[i]->id] = true;
  if (s->point) changed[s->point->id] = changed[s->unit.sum->id] = true;
  return is_safe(g->top, changed, true);
}

static bool find_values(Grad *g, Saved *s) {
  const Instr *yield = g->top->instrs.at[g->top->instrs.count - 1];
  if (g->blocks && g->blocks->stepwise) return false;
  find_point(g, s, yield);
  bool any = false;
  for (int i = 0; i < s->count; i++) {
    Instr *held = held_by(&s->unit, yield->args[s->of[i]]);
    if (held && held->op != OP_ARRAY && held->id < g->count) s->held[i] = held, any = true;
  }
  return any && change_is_safe(g, s);
}

void find_held(Grad *g, Saved *s) {
  if (find_values(g, s)) return;
  s->point = NULL;
  for (int i = 0; i < s->count; i++) s->held[i] = NULL;
}

// ---- the values of the backward pass

// Computes a value of the forward pass again from reduced operands. Returns NULL if it is no
// simpler.
static Instr *again_reduced(Grad *g, Instr *v) {
  double a, b;
  Instr *args[3] = {NULL};
  for (int i = 0; i < v->nargs && i < 3; i++) args[i] = value_of(g, v->args[i]);
  switch (v->op) {
    case OP_MUL:
    case OP_DIV:
      return put_pair(g, v->op, args[0], args[1]);
    case OP_BROADCAST:
      return put_spread(g, args[0], v->type);
    case OP_EQ:
      if (!is_number(args[0], &a) || !is_number(args[1], &b)) return NULL;
      return put_truth(g, a == b, v->type);
    case OP_SELECT:
      return is_truth(args[0], true) ? args[1] : is_truth(args[0], false) ? args[2] : NULL;
    case OP_LOG:
      return is_number(args[0], &a) && a == 1 ? put_number(g, 0, v->type) : NULL;
    default:
      return NULL;
  }
}

static void compute_changed(Grad *g) {
  const int count = g->top->instrs.count;
  for (int i = 0; i < count; i++) {
    Instr *v = g->top->instrs.at[i];
    bool changed = false;
    for (int a = 0; a < v->nargs && v->id < g->count; a++)
      changed = changed || value_of(g, v->args[a]) != v->args[a];
    if (!changed || !has_result(v) || g->image[v->id]) continue;
    Instr *other = again_reduced(g, v);
    g->image[v->id] = other ? other : put_again(g, v);
  }
}

// The point where the sum is 1.
static Instr *moved_point(Grad *g, const Saved *s) {
  Instr *point = (Instr *)s->point, *log = put_like(g, OP_LOG, (Instr *)s->unit.sum);
  log = put_pair(g, OP_DIV, log, put_number(g, fabs(s->by), log->type));
  return put_pair(g, s->by < 0 ? OP_ADD : OP_SUB, point, put_cast(g, log, point->type.dtype));
}

void read_saved(Grad *g, const Saved *s) {
  if (s->point) {
    g->image[s->unit.sum->id] = put_number(g, 1, s->unit.sum->type);
    g->image[s->point->id] = moved_point(g, s);
  }
  for (int i = 0; i < s->count; i++)
    if (s->held[i]) g->image[s->held[i]->id] = put_cast(g, s->array[i], s->held[i]->type.dtype);
  compute_changed(g);
}

// ---- of a step of a grid: sums that outputs hold

void read_carried(Grad *g, const Saved *s, Instr *const *arrays, int inputs) {
  for (int i = 0; i < inputs; i++) {
    const Ref *ref = g->k->refs.at[i];
    for (int j = 0; arrays[i] && j < g->blocks->known_count; j++) {
      const Known *known = &g->blocks->known[j];
      if (known->carried != ref->name) continue;
      Instr *one = known->output < 0 ? put_number(g, 1, arrays[i]->type) : NULL;
      for (int n = 0; n < s->count && !one; n++)
        if (s->of[n] == known->output) one = put_cast(g, s->array[n], arrays[i]->type.dtype);
      g->image[arrays[i]->id] = one;
    }
  }
  compute_changed(g);
}
