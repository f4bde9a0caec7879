// The operations of a derived reference, as multiples of sizes: all of them, and those that compute
// values of the forward part again.
#include "codegen/grad/operations.h"

#include <math.h>
#include <string.h>

enum {
  OF_TRANSCENDENTAL = 8,  // operations of arithmetic that take as long as one
  OF_SCAN = 4,
  OF_SORT = 32,
  TYPICAL_SIZE = 256  // a run-time size, for comparisons
};

typedef struct {
  const Kernel *k;
  const bool *again;
  Operations *found;
  Term turns;  // of the loops around
} Count;

// ---- multiples of sizes

static void times(Term *t, Dim dim) {
  if (dim_is_const(dim)) {
    t->count *= (double)dim;
    return;
  }
  if (t->rank == MOST_FACTORS) return;
  int at = t->rank++;
  for (; at > 0 && t->size[at - 1] > dim_size_index(dim); at--) t->size[at] = t->size[at - 1];
  t->size[at] = dim_size_index(dim);
}

static void times_shape(Term *t, const Type *type) {
  for (int i = 0; i < type->rank; i++) times(t, type->dim[i]);
}

static void add_term(Arena *arena, Terms *terms, Term t) {
  for (int i = 0; i < terms->count; i++) {
    Term *other = &terms->at[i];
    if (other->rank != t.rank || memcmp(other->size, t.size, sizeof *t.size * (size_t)t.rank) != 0)
      continue;
    other->count += t.count;
    return;
  }
  LIST_PUSH(arena, terms, t);
}

double estimated(const Terms *terms) {
  double sum = 0;
  for (int i = 0; i < terms->count; i++)
    sum += terms->at[i].count * pow(TYPICAL_SIZE, terms->at[i].rank);
  return sum;
}

// ---- one instruction

static double of_element(const Instr *v) {
  const double many =
      element_info[v->op].vector + OF_TRANSCENDENTAL * element_info[v->op].transcendental;
  return many > 0 ? many : 1;
}

// One multiplication for each combination of labels.
static void times_product(Term *t, const Instr *v) {
  bool seen[DOT_LABELS] = {false};
  for (int i = 0; i < 2; i++) {
    const Type *type = &v->args[i]->type;
    for (int a = 0; a < type->rank; a++) {
      const int label = i ? v->labels.b[a] : v->labels.a[a];
      if (!seen[label]) times(t, type->dim[a]);
      seen[label] = true;
    }
  }
}

// The operations of an instruction, without those of its regions; count 0: none.
static Term of_instr(const Instr *v) {
  Term t = {.count = 1};
  switch (op_info[v->op].class) {
    case OPC_LEAF:
      t.count = v->op == OP_IOTA || v->op == OP_ARRAY;
      times_shape(&t, &v->type);
      return t;
    case OPC_SHAPE:
      t.count = v->op != OP_BROADCAST && v->op != OP_RESHAPE;
      times_shape(&t, &v->type);
      return t;
    case OPC_REDUCE:
    case OPC_ARGREDUCE:
      times_shape(&t, &v->args[0]->type);
      return t;
    case OPC_SCAN:
      t.count = v->op == OP_SORT || v->op == OP_ARGSORT ? OF_SORT : OF_SCAN;
      times_shape(&t, &v->type);
      return t;
    case OPC_DOT:
      times_product(&t, v);
      return t;
    case OPC_CONTROL:
      return (Term){0};
    case OPC_MEMORY:
      times_shape(&t, v->op == OP_STORE ? &ir_store_value(v)->type : &v->type);
      return t;
    default:
      t.count = of_element(v);
      times_shape(&t, &v->type);
      return t;
  }
}

// ---- the reference

static void see_name(Count *c, const Instr *v) {
  if (v->span.start <= c->k->span.start) return;  // of no line of the body
  const int line = ir_line(c->k, v->span);
  Operations *w = c->found;
  if (!w->first_line || line < w->first_line) w->first_line = line;
  if (line > w->last_line) w->last_line = line;
  for (int i = 0; i < w->names.count && v->text; i++)
    if (strcmp(w->names.at[i], v->text) == 0) return;
  if (v->text) LIST_PUSH(c->k->arena, &w->names, v->text);
}

static void count_region(Count *c, const Region *region);

static void count_loop(Count *c, const Instr *v) {
  const Term outer = c->turns;
  const Instr *to = v->args[1];
  if (to->op == OP_MIN) to = to->args[to->args[0]->op != OP_SIZE];
  if (to->op == OP_SIZE)
    times(&c->turns, dim_of_size((int)to->ival));
  else if (to->op == OP_CONST && v->args[0]->op == OP_CONST)
    c->turns.count *= (double)(to->ival - v->args[0]->ival);
  count_region(c, v->regions[0]);
  c->turns = outer;
}

static void count_instr(Count *c, const Instr *v) {
  Term t = of_instr(v);
  if (t.count > 0) {
    t.count *= c->turns.count;
    for (int i = 0; i < c->turns.rank; i++) times(&t, dim_of_size(c->turns.size[i]));
    add_term(c->k->arena, &c->found->all, t);
    if (c->again[v->id] && v->op != OP_ARRAY && v->type.rank) {
      add_term(c->k->arena, &c->found->again, t);
      see_name(c, v);
    }
  }
  for (int r = 0; r < 2 && v->op != OP_FOR; r++)
    if (v->regions[r]) count_region(c, v->regions[r]);
  if (v->op == OP_FOR) count_loop(c, v);
}

static void count_region(Count *c, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) count_instr(c, region->instrs.at[i]);
}

Operations operations_of(const Kernel *k, const bool *again) {
  Operations found = {0};
  Count c = {.k = k, .again = again, .found = &found, .turns = {.count = 1}};
  count_region(&c, k->reference);
  return found;
}
