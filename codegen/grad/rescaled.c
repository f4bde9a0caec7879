// Sums along the grid that a reference point scales: m' = max(m, ..), l' = l * exp(m - m') + t.
// Algebra decides whether such a sum is a plain sum of scaled terms. With l = L * f(m) the step is
// L' = L + t / f(m'): m' must cancel in t / f(m'), and the last m must cancel in the outputs. Then
// every reference point gives the same outputs. The derivation therefore takes the last point as a
// constant from the first step on, gives it no gradient, and differentiates a plain sum of t.
#include "codegen/grad/saved.h"

#include <string.h>

enum { BEFORE, AFTER };  // the shares of a class

// ---- the factor of the earlier sum: 1 if the point does not change

static bool same_if_it_stays(const GridSums *s, const Instr *a, const Instr *b) {
  a = bare(a);
  b = bare(b);
  bool point_a = a == s->reached || (a->op == OP_LOAD && a->ref == s->scale),
       point_b = b == s->reached || (b->op == OP_LOAD && b->ref == s->scale);
  if (a == b || (point_a && point_b)) return true;
  double x, y;
  if (is_number(a, &x) && is_number(b, &y)) return x == y;
  bool same = a->op == b->op && op_is_elementwise(a->op) && a->nargs == b->nargs && a->nargs > 0;
  for (int i = 0; same && i < a->nargs; i++) same = same_if_it_stays(s, a->args[i], b->args[i]);
  return same;
}

static bool is_zero_if_it_stays(const GridSums *s, const Instr *v) {
  double value;
  v = bare(v);
  if (v->op == OP_SUB) return same_if_it_stays(s, v->args[0], v->args[1]);
  if (v->op == OP_NEG) return is_zero_if_it_stays(s, v->args[0]);
  if (v->op != OP_MUL) return false;
  for (int i = 0; i < 2; i++)
    if (is_number(bare(v->args[i]), &value) && is_zero_if_it_stays(s, v->args[1 - i])) return true;
  return false;
}

static bool is_one_if_it_stays(const GridSums *s, const Instr *v) {
  v = bare(v);
  if (v->op == OP_EXP || v->op == OP_EXP2) return is_zero_if_it_stays(s, v->args[0]);
  return v->op == OP_DIV && same_if_it_stays(s, v->args[0], v->args[1]);
}

// ---- the axes along which the point may differ

// If a point is equal along an axis at the start and after each step, its moves are equal along it.
static int64_t axes_of_point(const GridSums *s, const Instr *v) {
  int64_t axes = 0;
  if (v->op == OP_LOAD && v->ref == s->scale) return 0;
  for (int i = 0; i < v->nargs && op_is_elementwise(v->op); i++)
    axes |= axes_of_point(s, v->args[i]);
  if (op_is_elementwise(v->op)) return axes;
  if (v->op == OP_BROADCAST)
    return axes_of_point(s, v->args[0]) << (v->type.rank - v->args[0]->type.rank);
  for (int i = 0; i < v->type.rank; i++) axes |= (int64_t)(v->type.dim[i] != 1) << i;
  return axes;
}

// ---- all sums, and all outputs

static bool is_sum(Algebra *a, const GridSums *s, const Ref *ref, Class *of) {
  const Instr *factor = s->factors[ref->id];
  *of = as(SCALED, class_of(a, s->added[ref->id]));
  if (of->kind == UNKNOWN || of->by[BEFORE] != 0) return false;
  if (!factor) return is_fixed(*of);
  Class ratio = *of;
  ratio.by[BEFORE] = -of->by[AFTER];
  return is_one_if_it_stays(s, factor) && same_class(class_of(a, factor), ratio);
}

// Are the sums scaled by the point alone, and are the outputs independent of it?
// after: by ref, the classes of the final sums.
static bool holds(const Kernel *k, const GridSums *s, Change point, Class *after) {
  const Type *type = &s->scale->type;
  const int64_t axes = axes_of_point(s, s->reached);
  Class *before = NEW_ARRAY(k->arena, Class, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++) before[i] = after[i] = (Class){.kind = SCALED};
  before[s->scale->id] = point_class(point, BEFORE, type, axes);
  after[s->scale->id] = point_class(point, AFTER, type, axes);
  Algebra step = new_algebra(k);
  step.moved = s->reached;
  step.move = after[s->scale->id];
  step.of = before;
  for (int i = 0; i < k->refs.count; i++) {
    if (!s->added[i]) continue;
    if (!is_sum(&step, s, k->refs.at[i], &after[i])) return false;
    before[i] = after[i];
    before[i].by[BEFORE] = after[i].by[AFTER];
    before[i].by[AFTER] = 0;
  }
  Algebra end = new_algebra(k);
  end.of = after;
  end.added = s->added;
  for (int i = 0; i < s->last->regions[0]->instrs.count; i++) {
    const Instr *v = s->last->regions[0]->instrs.at[i];
    if (v->op == OP_STORE && !is_fixed(class_of(&end, ir_store_value(v)))) return false;
  }
  return true;
}

bool scale_cancels(const Kernel *k, const GridSums *s) {
  Class *after = NEW_ARRAY(k->arena, Class, k->refs.count + 1);
  return holds(k, s, ADDED, after) || holds(k, s, SCALED, after);
}

// ---- outputs that hold what is carried

static Instr *stored_to(const GridSums *s, const Ref *output) {
  Instr *found = NULL;
  for (int i = 0; s->last && i < s->last->regions[0]->instrs.count; i++) {
    const Instr *v = s->last->regions[0]->instrs.at[i];
    if (v->op == OP_STORE && v->ref == output) found = ir_store_value(v);
  }
  return found;
}

// The output of the list that holds the ref if the sum of the unit is 1; -1: none.
static int output_holding(const Kernel *k, const GridSums *s, const char *list, const Unit *unit,
                          const Ref *ref) {
  for (int i = 0; i < k->outputs; i++) {
    const Ref *output = k->refs.at[k->inputs + i];
    Instr *stored = is_in_list(list, output->name) ? stored_to(s, output) : NULL;
    const Instr *held = stored ? held_by(unit, stored) : NULL;
    if (held && held->op == OP_LOAD && held->ref == ref) return i;
  }
  return -1;
}

static const Known *all_known(const Kernel *k, const GridSums *s, const char *list,
                              const Unit *unit, int *count) {
  Known *known = NEW_ARRAY(k->arena, Known, k->refs.count + 1);
  *count = 0;
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    if (!s->added[i] && ref != s->scale) continue;
    const int output = ref == unit->ref ? -1 : output_holding(k, s, list, unit, ref);
    if (output < 0 && ref != unit->ref) *count = -1;
    if (*count >= 0) known[(*count)++] = (Known){ref->name, output};
  }
  return known;
}

// Is the variable a sum, each element of which scales with its own element of the point?
static bool is_scaled_alone(const GridSums *s, const Ref *ref, const Class *of) {
  const Class point = point_class(ADDED, AFTER, &s->scale->type, axes_of_point(s, s->reached));
  return s->added[ref->id] && is_positive(s->added[ref->id]) &&
         scales_with(of, &ref->type, AFTER, &point, &s->scale->type);
}

const Known *known_by_outputs(const Kernel *k, const GridSums *s, const char *list, int *count) {
  Class *after = NEW_ARRAY(k->arena, Class, k->refs.count + 1);
  const Unit none = {0};
  const Known *known = all_known(k, s, list, &none, count);
  if (*count > 0) return known;
  const bool moves = s->scale && holds(k, s, ADDED, after);
  for (int i = 0; moves && i < k->refs.count; i++) {
    const Unit unit = {.ref = k->refs.at[i]};
    if (!is_scaled_alone(s, unit.ref, &after[i])) continue;
    known = all_known(k, s, list, &unit, count);
    if (*count > 0) return known;
  }
  *count = 0;
  return NULL;
}
