// Solves sizes that are not given from equations: requirements, and axes that are expressions.
#include "codegen/ir/index.h"
#include "codegen/run/run.h"

typedef struct {
  const Kernel *k;
  int64_t *sizes;
  int unknown;  // the unknown size; UNBOUND: none
} Equation;

// factor * unknown + constant.
typedef struct {
  int64_t factor, constant;
} Side;

static bool side_of(Equation *e, const Instr *v, Side *side);

static bool side_of_size(Equation *e, int index, Side *side) {
  const Region *value = e->k->sizes.at[index].value;
  *side = (Side){0, e->sizes[index]};
  if (side->constant != UNBOUND) return true;
  const int unknown = e->unknown;
  if (value && side_of(e, ir_yielded(value, 0), side)) return true;
  e->unknown = unknown;
  *side = (Side){1, 0};
  if (e->unknown == UNBOUND) e->unknown = index;
  return e->unknown == index;
}

static bool add_sides(Side *a, int64_t times, const Side *b) {
  int64_t factor, constant;
  return mul_i64(times, b->factor, &factor) && mul_i64(times, b->constant, &constant) &&
         add_i64(a->factor, factor, &a->factor) && add_i64(a->constant, constant, &a->constant);
}

static bool product(Side *a, const Side *b) {
  const Side x = *a;
  *a = (Side){0, 0};
  return b->factor == 0 ? add_sides(a, b->constant, &x)
                        : x.factor == 0 && add_sides(a, x.constant, b);
}

static bool side_of(Equation *e, const Instr *v, Side *side) {
  Side b = {0, 0};
  if (v->op == OP_CONST) return *side = (Side){0, v->ival}, true;
  if (v->op == OP_SIZE) return side_of_size(e, (int)v->ival, side);
  if (op_info[v->op].class != OPC_BINARY) return false;
  if (!side_of(e, v->args[0], side) || !side_of(e, v->args[1], &b)) return false;
  switch (v->op) {
    case OP_ADD:
      return add_sides(side, 1, &b);
    case OP_SUB:
      return add_sides(side, -1, &b);
    case OP_MUL:
      return product(side, &b);
    default:
      if (side->factor || b.factor) return false;
      side->constant = eval_pure(v, (int64_t[]){side->constant, b.constant});
      return true;
  }
}

// Is there one unknown size, and a value for which both sides are equal?
static bool solve(Equation *e, Side a, const Side *b) {
  if (e->unknown == UNBOUND || !add_sides(&a, -1, b) || a.factor == 0) return false;
  const int64_t value = -(a.constant / a.factor);
  if (a.constant % a.factor != 0 || value <= UNBOUND || value > INT32_MAX) return false;
  e->sizes[e->unknown] = value;
  return true;
}

static bool solve_condition(const Kernel *k, int64_t *sizes, const Instr *c) {
  Equation e = {k, sizes, UNBOUND};
  Side a, b;
  if (c->op == OP_AND) {
    const bool first = solve_condition(k, sizes, c->args[0]);
    return solve_condition(k, sizes, c->args[1]) || first;
  }
  return c->op == OP_EQ && side_of(&e, c->args[0], &a) && side_of(&e, c->args[1], &b) &&
         solve(&e, a, &b);
}

// A given size that also follows from others.
static bool solve_given(const Kernel *k, int64_t *sizes, int index) {
  Equation e = {k, sizes, UNBOUND};
  const Region *value = k->sizes.at[index].value;
  const Side given = {0, sizes[index]};
  Side side;
  return value && given.constant != UNBOUND && side_of(&e, ir_yielded(value, 0), &side) &&
         solve(&e, side, &given);
}

void solve_sizes(const Kernel *k, int64_t *sizes) {
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < k->sizes.count; i++) again = solve_given(k, sizes, i) || again;
    for (int i = 0; i < k->requires.count; i++)
      again = solve_condition(k, sizes, ir_yielded(k->requires.at[i].condition, 0)) || again;
  }
}
