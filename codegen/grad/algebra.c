// How values change with a point that moves: a value changes by a multiple of the move, is scaled
// by a power of it, or does not change. A point that moves no result has no gradient.
#include "codegen/grad/algebra.h"
#include "codegen/ir/rewrite.h"

#include <math.h>
#include <string.h>

static const Class unknown = {UNKNOWN, {0, 0}, {0}}, fixed = {SCALED, {0, 0}, {0}};

bool is_fixed(Class c) { return c.kind != UNKNOWN && c.by[0] == 0 && c.by[1] == 0; }

bool same_class(Class a, Class b) {
  if (a.kind == UNKNOWN || b.kind == UNKNOWN) return false;
  if (is_fixed(a) && is_fixed(b)) return true;
  return a.kind == b.kind && fabs(a.by[0] - b.by[0]) < 1e-6 && fabs(a.by[1] - b.by[1]) < 1e-6 &&
         memcmp(a.axis, b.axis, sizeof a.axis) == 0;
}

static Class times(Class c, double factor) {
  c.by[0] *= factor;
  c.by[1] *= factor;
  return c;
}

// The class of a sum, or a product. If both operands change, the same moves must reach the same
// elements of both.
static Class sum_of(Class a, Class b, double sign) {
  if (a.kind == UNKNOWN || b.kind == UNKNOWN) return unknown;
  if (!is_fixed(a) && !is_fixed(b) && memcmp(a.axis, b.axis, sizeof a.axis) != 0) return unknown;
  Class sum = is_fixed(a) ? b : a;
  for (int i = 0; i < 2; i++) {
    sum.by[i] = a.by[i] + sign * b.by[i];
    if (fabs(sum.by[i]) < 1e-6) sum.by[i] = 0;
  }
  return sum;
}

Class as(Change kind, Class c) {
  if (is_fixed(c)) c.kind = kind;
  return c.kind == kind ? c : unknown;
}

const Instr *bare(const Instr *v) {
  while (v->op == OP_BROADCAST || v->op == OP_CAST || v->op == OP_RESHAPE) v = v->args[0];
  return v;
}

static bool is_value(const Instr *v, double value) {
  double number;
  return is_number(bare(v), &number) && number == value;
}

// ---- which moves reach an element: those of the axes of the point that it has

// The axis of the result at which axis `i` of an operand is, which has more elements than one; -1:
// each element of the result may follow from several ones along it, or from one at another place.
static int axis_in_result(const Instr *v, int operand, int i) {
  const Type *from = &v->args[operand]->type;
  int before = 0;
  switch (v->op) {
    case OP_BROADCAST:
      return v->type.rank - from->rank + i;
    case OP_TRANSPOSE:
      for (int j = 0; j < v->type.rank; j++)
        if (v->ints[j] == i) return j;
      return -1;
    case OP_SLICE:
      return v->type.dim[i] == from->dim[i] && v->ints[i] == 0 ? i : -1;
    case OP_RESHAPE:
      for (int j = 0; j < i; j++) before += from->dim[j] != 1;
      for (int j = 0, at = 0; j < v->type.rank; j++)
        if (v->type.dim[j] != 1 && at++ == before) return v->type.dim[j] == from->dim[i] ? j : -1;
      return -1;
    case OP_DOT:
      for (int j = 0; j < v->type.rank; j++)
        if (v->labels.out[j] == (operand ? v->labels.b : v->labels.a)[i]) return j;
      return -1;
    default:
      break;
  }
  if (op_info[v->op].attribute == ATTR_AXES) return v->ival >> i & 1 ? -1 : i;
  if (op_info[v->op].attribute == ATTR_AXIS) return v->ival == i ? -1 : i;
  return op_is_elementwise(v->op) ? i : -1;
}

// Axes in front of one may be joined or split by a reshape, if all are the same before it.
static bool keeps_order(const Instr *v, int i) {
  const Type *from = &v->args[0]->type;
  const int to = axis_in_result(v, 0, i);
  for (int j = 0, k = 0; v->op == OP_RESHAPE && j < i; j++) {
    if (from->dim[j] == 1) continue;
    while (k < to && v->type.dim[k] == 1) k++;
    if (v->type.dim[k++] != from->dim[j]) return false;
  }
  return true;
}

// The class of an operand as one of the result's shape.
static Class placed(const Instr *v, int operand, Class c) {
  Class moved = c;
  if (c.kind == UNKNOWN || is_fixed(c)) return c;
  memset(moved.axis, 0, sizeof moved.axis);
  for (int i = 0; i < v->args[operand]->type.rank; i++) {
    if (!c.axis[i]) continue;
    const int to = axis_in_result(v, operand, i);
    if (to < 0 || !keeps_order(v, i)) return unknown;
    moved.axis[to] = c.axis[i];
  }
  return moved;
}

static Class class_of_operand(Algebra *a, const Instr *v, int operand) {
  return placed(v, operand, class_of(a, v->args[operand]));
}

// ---- one operation

// A constant that may replace a value of any class without changing the class.
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

bool is_positive(const Instr *v) {
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
  if (test->op != OP_EQ || !is_value(test->args[1], 0) || !is_number(bare(other), &value))
    return false;
  const Instr *tested = bare(test->args[0]);
  if (sum->op != OP_LOAD) return tested == sum && sum->op == OP_REDUCE_SUM && is_positive(sum);
  return a->added && a->added[sum->ref->id] && tested->op == OP_LOAD && tested->ref == sum->ref &&
         is_positive(a->added[sum->ref->id]);
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
  Class x = class_of_operand(a, v, 0), y = class_of_operand(a, v, 1);
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
    if (rows[i].op == v->op && rows[i].from == x.kind) {
      x.kind = rows[i].to;
      return times(x, rows[i].factor);
    }
  return unknown;
}

static Class class_of_test(Algebra *a, const Instr *v) {
  Class x = class_of(a, v->args[0]);
  if (x.kind == SCALED && is_value(v->args[1], 0)) return fixed;
  return same_class(x, class_of(a, v->args[1])) ? fixed : unknown;
}

// A selection whose sides do not change.
static Class class_of_if(Algebra *a, const Instr *v) {
  bool all = has_result(v) && is_fixed(class_of(a, v->args[0]));
  for (int r = 0; r < 2 && all; r++) all = is_fixed(class_of(a, ir_yielded(v->regions[r], 0)));
  return all ? fixed : unknown;
}

// How a result changes when the reference point moves, from how its operands change.
static Class class_of_operation(Algebra *a, const Instr *v) {
  bool all = !v->regions[0];
  for (int i = 0; i < v->nargs; i++) all = is_fixed(class_of(a, v->args[i])) && all;
  if (all) return fixed;
  switch (v->op) {
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
      return class_of_operand(a, v, 0);
    case OP_CAST:
      return is_float(v->type.dtype) ? class_of(a, v->args[0]) : unknown;
    case OP_IF:
      return class_of_if(a, v);
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
  return v->nargs == 1 ? class_of_function(v, class_of_operand(a, v, 0)) : unknown;
}

Class class_of(Algebra *a, const Instr *v) {
  if (v == a->moved) return a->move;
  if (v->op == OP_LOAD) return a->of ? a->of[v->ref->id] : fixed;
  if (a->seen[v->id]) return a->known[v->id];
  a->known[v->id] = class_of_operation(a, v);
  a->seen[v->id] = true;
  return a->known[v->id];
}

Class point_class(Change kind, int when, const Type *type, int64_t axes) {
  Class c = {kind, {0, 0}, {0}};
  c.by[when] = 1;
  for (int i = 0; i < type->rank; i++)
    if (axes >> i & 1 && type->dim[i] != 1) c.axis[i] = (int8_t)(i + 1);
  return c;
}

bool scales_with(const Class *c, const Type *type, int when, const Class *point, const Type *of) {
  return c->kind == SCALED && c->by[when] != 0 && type_same_shape(type, of) &&
         memcmp(c->axis, point->axis, sizeof c->axis) == 0;
}

Algebra new_algebra(const Kernel *k) {
  return (Algebra){.known = NEW_ARRAY(k->arena, Class, k->next_id),
                   .seen = NEW_ARRAY(k->arena, bool, k->next_id)};
}

// ---- values of a reference that no result depends on

// Does nothing change that the region yields, stores or decides by?
static bool all_stay(Algebra *a, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    const bool tells = v->op == OP_YIELD || v->op == OP_STORE || v->regions[0] || op_acts(v->op);
    if (v->op == OP_IF && has_result(v)) continue;
    for (int j = 0; tells && j < v->nargs; j++)
      if (!is_fixed(class_of(a, v->args[j]))) return false;
    for (int r = 0; r < 2; r++)
      if (!all_stay(a, v->regions[r])) return false;
  }
  return true;
}

bool moves_nothing(Algebra *a, int ids, const Region *region, const Instr *v) {
  static const Change kinds[] = {ADDED, SCALED};
  a->moved = v;
  for (int i = 0; i < 2; i++) {
    a->move = point_class(kinds[i], 0, &v->type, -1);
    memset(a->seen, 0, (size_t)ids * sizeof *a->seen);
    if (all_stay(a, region)) return true;
  }
  return false;
}
