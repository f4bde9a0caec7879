// Finds the roundings of a kernel's body that its reference does not have.
#include "codegen/ir/hidden.h"

#include "codegen/ir/array.h"
#include "codegen/ir/flow.h"

typedef struct {
  Arena *arena;
  Hidden found;
  bool *narrow;  // by instruction id: it was rounded to a narrow float, and only moved afterwards
  DType *dtype;  // by instruction id: that float
  bool known[DT_COUNT];  // dtypes of operands and of the reference
} RoundingSearch;

static void coarser(DType *found, DType t) {
  if (t == DT_COUNT) return;
  if (is_narrow_float(t) && (*found == DT_COUNT || dtype_spacing(t) > dtype_spacing(*found)))
    *found = t;
}

static bool is_cast(const Instr *v, bool narrowing) {
  if (v->op != OP_CAST || !is_float(v->args[0]->type.dtype) || !is_float(v->type.dtype))
    return false;
  return (dtype_spacing(v->type.dtype) > dtype_spacing(v->args[0]->type.dtype)) == narrowing;
}

// Does the operation only move or select elements of its operands?
static bool passes_on(const Instr *v) {
  return op_info[v->op].class == OPC_SHAPE || v->op == OP_SELECT ||
         element_info[v->op].bound == BOUND_CHOICE || is_cast(v, false);
}

static bool rounds(const Instr *v) {
  if (is_cast(v, true)) return true;
  bool memory = v->op == OP_LOAD && v->ref->role != REF_INPUT;
  return is_narrow_float(v->type.dtype) && memory;
}

static bool is_arithmetic(const Instr *v) {
  return is_narrow_float(v->type.dtype) && v->op != OP_CAST && op_info[v->op].class != OPC_LEAF &&
         op_info[v->op].class != OPC_MEMORY && op_info[v->op].class != OPC_CONTROL && !passes_on(v);
}

static void note_dtype(Instr *v, void *context) {
  if (has_result(v)) ((RoundingSearch *)context)->known[v->type.dtype] = true;
}

static void note_rounding(Instr *v, void *context) {
  RoundingSearch *s = context;
  DType rounded = DT_COUNT;
  for (int i = 0; i < v->nargs; i++)
    if (s->narrow[v->args[i]->id]) coarser(&rounded, s->dtype[v->args[i]->id]);
  if (!has_result(v)) return;
  if (v->op == OP_DOT) coarser(&s->found.summand, rounded);
  if (rounds(v) || is_arithmetic(v)) rounded = v->type.dtype;
  if (rounded != DT_COUNT && !s->known[rounded]) return;
  if (is_arithmetic(v) && v->op != OP_DOT) coarser(&s->found.anywhere, v->type.dtype);
  if (rounded == DT_COUNT) return;
  if (rounds(v) || is_arithmetic(v) || passes_on(v)) {
    s->narrow[v->id] = true;
    s->dtype[v->id] = rounded;
  } else if (is_float(v->type.dtype) && v->op != OP_DOT) {
    coarser(&s->found.anywhere, rounded);
  }
}

// Temporaries of narrow floats round any value, and a call may round as its kernel does.
static void add_calls(const Kernel *k, Hidden *found) {
  const Flow *flow = k->flow;
  for (int i = k->inputs + k->outputs; i < flow->arrays.count; i++)
    coarser(&found->anywhere, flow->arrays.at[i].type.dtype);
  for (int i = 0; i < flow->callees.count; i++) {
    Hidden inner = hidden_roundings(flow->callees.at[i].kernel);
    if (inner.summand != DT_COUNT) coarser(&found->summand, inner.summand);
    if (inner.anywhere != DT_COUNT) coarser(&found->anywhere, inner.anywhere);
  }
}

Hidden hidden_roundings(Kernel *k) {
  RoundingSearch search = {.arena = k->arena, .found = {DT_COUNT, DT_COUNT}};
  search.narrow = NEW_ARRAY(k->arena, bool, k->next_id + 1);
  search.dtype = NEW_ARRAY(k->arena, DType, k->next_id + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++) search.known[k->refs.at[i]->array.dtype] = true;
  if (k->reference) ir_walk(k->reference, note_dtype, &search);
  ir_walk(k->body, note_rounding, &search);
  if (k->flow) add_calls(k, &search.found);
  return search.found;
}

// Two units of roundoff for each correctly rounded operation, because the kernel may use an
// equivalent expression with one more operation, and one for its operands; functions have 3 units
// in the last place (numerics.md).
Rounding reference_rounding(const Hidden *hidden, double unit) {
  double narrow = hidden->anywhere == DT_COUNT ? 0 : dtype_spacing(hidden->anywhere) / 2;
  return (Rounding){unit, 2 * unit, 6 * unit, 2 * unit + narrow};
}

// Correctly rounded operations have the same result everywhere; functions and sums do not.
Rounding body_rounding(double unit) { return (Rounding){0, 0, 6 * unit, 2 * unit}; }
