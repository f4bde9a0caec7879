// Sums along the grid that a reference point scales: m' = max(m, ..), l' = l * exp(m - m') + t.
// Algebra decides whether such a sum is a plain sum of scaled terms. With l = L * f(m) the step is
// L' = L + t / f(m'): m' must cancel in t / f(m'), and the last m must cancel in the outputs. Then
// every reference point gives the same outputs. The derivation therefore takes the last point as a
// constant from the first step on, gives it no gradient, and differentiates a plain sum of t.
#include "codegen/grad/blocks.h"

#include <math.h>

// How a value changes when the points before and after a step move; by[i] is the share of point i.
typedef enum { UNKNOWN, ADDED, SCALED } Change;
typedef struct {
  Change kind;  // by * d is added to it, or it is multiplied by e^(by * d)
  double by[2];
} Class;

enum { BEFORE, AFTER };

typedef struct {
  const GridSums *s;
  int count;         // of ids
  Change point;      // how the point itself moves
  bool last;         // in the last step, where every class is known
  Class *known;      // by id
  bool *seen;        // by id
  const double *of;  // by ref: the power of a sum
} Algebra;

static Class class_of(Algebra *a, const Instr *v);

static const Class unknown = {UNKNOWN, {0, 0}}, fixed = {SCALED, {0, 0}};

static bool is_fixed(Class c) { return c.kind != UNKNOWN && c.by[0] == 0 && c.by[1] == 0; }

static bool same_class(Class a, Class b) {
  if (a.kind == UNKNOWN || b.kind == UNKNOWN) return false;
  if (is_fixed(a) && is_fixed(b)) return true;
  return a.kind == b.kind && fabs(a.by[0] - b.by[0]) < 1e-6 && fabs(a.by[1] - b.by[1]) < 1e-6;
}

static Class times(Class c, double factor) {
  return (Class){c.kind, {c.by[0] * factor, c.by[1] * factor}};
}

static Class sum_of(Class a, Class b, double sign) {
  Class sum = {a.kind, {a.by[0] + sign * b.by[0], a.by[1] + sign * b.by[1]}};
  for (int i = 0; i < 2; i++)
    if (fabs(sum.by[i]) < 1e-6) sum.by[i] = 0;
  return sum;
}

static Class as(Change kind, Class c) {
  if (is_fixed(c)) c.kind = kind;
  return c.kind == kind ? c : unknown;
}

static const Instr *bare(const Instr *v) {
  while (v->op == OP_BROADCAST || v->op == OP_CAST || v->op == OP_RESHAPE) v = v->args[0];
  return v;
}

static bool is_value(const Instr *v, double value) {
  double number;
  return is_number(bare(v), &number) && number == value;
}

// ---- one operation

// A constant that may take the place of a value of any class without changing the class.
static bool is_neutral(const Instr *v, Change kind) {
  double value;
  if (!is_number(bare(v), &value)) return false;
  return kind == SCALED ? value == 0 : value - value != 0;
}

// The class of a value that is one operand or the other.
static Class either(Algebra *a, const Instr *x, const Instr *y) {
  Class p = class_of(a, x), q = class_of(a, y);
  if (same_class(p, q)) return p;
  if (q.kind != UNKNOWN && !is_fixed(q) && is_neutral(x, q.kind)) return q;
  return p.kind != UNKNOWN && !is_fixed(p) && is_neutral(y, p.kind) ? p : unknown;
}

static bool is_positive(const Instr *v) {
  double value;
  v = bare(v);
  if (is_number(v, &value)) return value >= 0;
  if (v->op == OP_EXP || v->op == OP_EXP2) return true;
  if (v->op == OP_REDUCE_SUM) return is_positive(v->args[0]);
  if (v->op == OP_SELECT) return is_positive(v->args[1]) && is_positive(v->args[2]);
  return v->op == OP_MUL && is_positive(v->args[0]) && is_positive(v->args[1]);
}

// where(l == 0, 1, l): a sum of positive terms is 0 only where each of them is 0, and has no
// gradient there.
static bool guards(const Algebra *a, const Instr *test, const Instr *other, const Instr *kept) {
  const Instr *sum = bare(kept);
  double value;
  if (!a->last || sum->op != OP_LOAD || !a->s->added[sum->ref->id]) return false;
  if (test->op != OP_EQ || !is_value(test->args[1], 0) || !is_number(bare(other), &value))
    return false;
  const Instr *tested = bare(test->args[0]);
  return tested->op == OP_LOAD && tested->ref == sum->ref && is_positive(a->s->added[sum->ref->id]);
}

static Class class_of_choice(Algebra *a, const Instr *v) {
  const Instr *test = bare(v->args[0]);
  if (!is_fixed(class_of(a, v->args[0]))) return unknown;
  if (guards(a, test, v->args[1], v->args[2])) return class_of(a, v->args[2]);
  return either(a, v->args[1], v->args[2]);
}

static Class class_of_sum(Algebra *a, const Instr *v) {
  Class x = class_of(a, v->args[0]), y = class_of(a, v->args[1]);
  if (x.kind == UNKNOWN || y.kind == UNKNOWN) return unknown;
  if (is_fixed(x) && is_fixed(y)) return fixed;
  if (x.kind == SCALED && !is_fixed(x)) return either(a, v->args[0], v->args[1]);
  if (y.kind == SCALED && !is_fixed(y)) return either(a, v->args[0], v->args[1]);
  return sum_of(as(ADDED, x), as(ADDED, y), v->op == OP_SUB ? -1 : 1);
}

static Class class_of_product(Algebra *a, const Instr *v) {
  Class x = class_of(a, v->args[0]), y = class_of(a, v->args[1]);
  const bool divides = v->op == OP_DIV;
  double factor;
  if (x.kind == UNKNOWN || y.kind == UNKNOWN) return unknown;
  if (as(SCALED, x).kind && as(SCALED, y).kind)
    return sum_of(as(SCALED, x), as(SCALED, y), divides ? -1 : 1);
  if (v->op == OP_DOT) return unknown;
  if (x.kind == ADDED && is_number(bare(v->args[1]), &factor))
    return times(x, divides ? 1 / factor : factor);
  if (!divides && y.kind == ADDED && is_number(bare(v->args[0]), &factor)) return times(y, factor);
  return unknown;
}

// Functions of one operand: the change of the operand, that of the result, and the factor.
static Class class_of_function(const Instr *v, Class x) {
  static const struct {
    Op op;
    Change from, to;
    double factor;
  } rows[] = {{OP_NEG, ADDED, ADDED, -1},         {OP_NEG, SCALED, SCALED, 1},
              {OP_EXP, ADDED, SCALED, 1},         {OP_EXP2, ADDED, SCALED, 0.693147180559945},
              {OP_LOG, SCALED, ADDED, 1},         {OP_LOG2, SCALED, ADDED, 1.44269504088896},
              {OP_RECIP, SCALED, SCALED, -1},     {OP_SQRT, SCALED, SCALED, 0.5},
              {OP_RSQRT, SCALED, SCALED, -0.5},   {OP_ABS, SCALED, SCALED, 1},
              {OP_REDUCE_SUM, SCALED, SCALED, 1}, {OP_CUMSUM, SCALED, SCALED, 1},
              {OP_REDUCE_MAX, ADDED, ADDED, 1},   {OP_REDUCE_MAX, SCALED, SCALED, 1},
              {OP_REDUCE_MIN, ADDED, ADDED, 1},   {OP_REDUCE_MIN, SCALED, SCALED, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == v->op && rows[i].from == x.kind)
      return (Class){rows[i].to, {x.by[0] * rows[i].factor, x.by[1] * rows[i].factor}};
  return unknown;
}

static Class class_of_test(Algebra *a, const Instr *v) {
  Class x = class_of(a, v->args[0]);
  if (x.kind == SCALED && is_value(v->args[1], 0)) return fixed;
  return same_class(x, class_of(a, v->args[1])) ? fixed : unknown;
}

static Class class_of_load(const Algebra *a, const Ref *ref) {
  const int when = a->last ? AFTER : BEFORE;
  Class c = fixed;
  if (ref == a->s->scale) c.kind = a->point;
  if (ref == a->s->scale) c.by[when] = 1;
  if (a->s->added[ref->id]) c.by[when] = a->of[ref->id];
  return c;
}

static Class class_of_operation(Algebra *a, const Instr *v) {
  bool all = !v->regions[0];
  for (int i = 0; i < v->nargs; i++) all = is_fixed(class_of(a, v->args[i])) && all;
  if (all) return fixed;
  switch (v->op) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
      return class_of(a, v->args[0]);
    case OP_CAST:
      return is_float(v->type.dtype) ? class_of(a, v->args[0]) : unknown;
    case OP_ADD:
    case OP_SUB:
      return class_of_sum(a, v);
    case OP_MUL:
    case OP_DIV:
    case OP_DOT:
      return class_of_product(a, v);
    case OP_MAX:
    case OP_MIN:
      return either(a, v->args[0], v->args[1]);
    case OP_SELECT:
      return class_of_choice(a, v);
    default:
      break;
  }
  if (op_info[v->op].class == OPC_COMPARE) return class_of_test(a, v);
  return v->nargs == 1 ? class_of_function(v, class_of(a, v->args[0])) : unknown;
}

static Class class_of(Algebra *a, const Instr *v) {
  if (!a->last && v == a->s->reached) return (Class){a->point, {0, 1}};
  if (v->op == OP_LOAD) return class_of_load(a, v->ref);
  if (a->seen[v->id]) return a->known[v->id];
  a->known[v->id] = class_of_operation(a, v);
  a->seen[v->id] = true;
  return a->known[v->id];
}

// ---- the factor of what was summed before: 1 if the point stays

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

// ---- all sums, and all outputs

static Algebra start(const Kernel *k, const GridSums *s, Change point, bool last,
                     const double *of) {
  return (Algebra){.s = s,
                   .count = k->next_id,
                   .point = point,
                   .last = last,
                   .known = NEW_ARRAY(k->arena, Class, k->next_id),
                   .seen = NEW_ARRAY(k->arena, bool, k->next_id),
                   .of = of};
}

static bool is_sum(Algebra *a, const Ref *ref, double *of) {
  const Instr *factor = a->s->factors[ref->id];
  Class c = as(SCALED, class_of(a, a->s->added[ref->id]));
  if (c.kind == UNKNOWN || c.by[BEFORE] != 0) return false;
  *of = c.by[AFTER];
  if (!factor) return *of == 0;
  Class ratio = {SCALED, {-*of, *of}};
  return is_one_if_it_stays(a->s, factor) && same_class(class_of(a, factor), ratio);
}

static bool holds(const Kernel *k, const GridSums *s, Change point) {
  double *of = NEW_ARRAY(k->arena, double, k->refs.count + 1);
  Algebra step = start(k, s, point, false, of);
  for (int i = 0; i < k->refs.count; i++)
    if (s->added[i] && !is_sum(&step, k->refs.at[i], &of[i])) return false;
  Algebra end = start(k, s, point, true, of);
  for (int i = 0; i < s->last->regions[0]->instrs.count; i++) {
    const Instr *v = s->last->regions[0]->instrs.at[i];
    if (v->op == OP_STORE && !is_fixed(class_of(&end, ir_store_value(v)))) return false;
  }
  return true;
}

bool scale_cancels(const Kernel *k, const GridSums *s) {
  return holds(k, s, ADDED) || holds(k, s, SCALED);
}
