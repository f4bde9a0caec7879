// Decides which values of a reference get their own memory, and which are written as expressions
// where they are used, as a person would write them.
#include "codegen/ir/axes.h"
#include "codegen/naive/internal.h"

enum { DEEPEST_EXPRESSION = 24 };

static void count_use(Instr *v, void *context) {
  (void)context;
  for (int i = 0; i < v->nargs; i++) naive_value(v->args[i])->uses++;
}

typedef struct {
  Naive *n;
} Context;

static void attach(Instr *v, void *context) {
  Arena *arena = ((Context *)context)->n->arena;
  v->note = NEW(arena, NaiveValue);
  for (int r = 0; r < 2; r++)
    if (v->regions[r] && v->regions[r]->arg) v->regions[r]->arg->note = NEW(arena, NaiveValue);
}

// Is it free to recompute? Leaves, and moved or widened elements of operands.
static bool is_cheap(const Instr *v) {
  if (naive_value(v)->place == IN_ACCUMULATOR) return false;
  if (naive_value(v)->place != IN_EXPRESSION) return true;
  if (op_info[v->op].class == OPC_LEAF) return true;
  bool moves = v->op == OP_BROADCAST || v->op == OP_TRANSPOSE || v->op == OP_SLICE ||
               v->op == OP_REV || v->op == OP_CAST || v->op == OP_RESHAPE;
  if (v->op == OP_TAKE || v->op == OP_WINDOW) return is_cheap(v->args[0]) && is_cheap(v->args[1]);
  return moves && is_cheap(v->args[0]);
}

static bool stretches(const Instr *v) {
  return v->op == OP_BROADCAST &&
         !(v->type.rank == v->args[0]->type.rank && type_same_shape(&v->type, &v->args[0]->type));
}

// Does `user` need its argument in memory (or a scalar), rather than as an expression?
static bool wants_memory(const Instr *user, int arg) {
  const Instr *v = user->args[arg];
  bool loop = naive_value(v)->holds_loop;
  switch (user->op) {
    case OP_BROADCAST:
      return stretches(user) ? !is_cheap(v) : false;
    case OP_DOT:
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_GATHER:
      return !is_cheap(v);
    case OP_RESHAPE:
      return !ir_moves_unit_axes(user) && !is_cheap(v);
    case OP_SORT:
    case OP_ARGSORT:
    case OP_CUMSUM:
    case OP_CUMPROD:
    case OP_CUMMAX:
    case OP_CUMMIN:
      return loop;
    default:
      return loop && op_info[user->op].class == OPC_SHAPE && user->op != OP_RESHAPE;
  }
}

static bool is_loop(const Instr *v) {
  OpClass class = op_info[v->op].class;
  return class == OPC_DOT || class == OPC_REDUCE || class == OPC_ARGREDUCE;
}

static void put_in_memory(Instr *v) {
  NaiveValue *value = naive_value(v);
  if (op_info[v->op].class == OPC_LEAF) return;
  value->place = v->type.rank == 0 ? IN_SCALAR : IN_MEMORY;
  value->depth = 0;
  value->holds_loop = false;
}

// A loop does not compute a value of another region again.
static bool is_of_elsewhere(const Instr *v, const Region *here) {
  return naive_value(v)->home != here && naive_value(v)->place != IN_SCALAR && !is_cheap(v);
}

// Decides where an instruction's value is kept.
static void place(Instr *v, const Region *here) {
  NaiveValue *value = naive_value(v);
  value->home = here;
  for (int i = 0; i < v->nargs; i++)
    if (wants_memory(v, i) || is_of_elsewhere(v->args[i], here)) put_in_memory(v->args[i]);
  for (int i = 0; i < v->nargs; i++) {
    const NaiveValue *arg = naive_value(v->args[i]);
    if (arg->depth >= value->depth) value->depth = arg->depth + 1;
    value->holds_loop = value->holds_loop || arg->holds_loop;
  }
  if (!has_result(v)) return;
  if (is_loop(v)) {
    value->place = IN_ACCUMULATOR;
    value->holds_loop = true;
  }
  bool scan = op_info[v->op].class == OPC_SCAN;
  bool read = v->op == OP_LOAD && v->ref->role == REF_STATE;
  if (scan || read || v->op == OP_IF || value->depth > DEEPEST_EXPRESSION ||
      (value->uses > 1 && !(value->place == IN_EXPRESSION && is_cheap(v))))
    put_in_memory(v);
}

// Places in program order, so that arguments are settled first; an argument that a later user needs
// in memory is moved there.
static void place_region(Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) place_region(v->regions[r]);
    place(v, region);
  }
}

void naive_place(Naive *n, Region *region) {
  Context context = {n};
  ir_walk(region, attach, &context);
  ir_walk(region, count_use, NULL);
  place_region(region);
}
