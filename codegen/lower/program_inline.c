// Programs that programs call: their steps replace the call.
#include "codegen/lower/program.h"

enum { MOST_STEPS = 1024 };  // of a program with those it calls

typedef struct {
  ProgramLower *p;
  const Kernel *k;           // the callee
  const FlowPart *operands;  // its operands, in the caller
  const Dim *map;            // its sizes
  int *array;                // by temporary of the callee: the caller's
  int steps, variables;      // of the caller, before the call
  Span span;
} Inlined;

// ---- index arithmetic of the callee in the caller

static void shift_variable(Instr *v, void *context) {
  if (v->op == OP_AXIS) v->ival += *(const int *)context;
}

static Region *inlined_region(const Inlined *in, const Region *region) {
  int variables = in->variables;
  Region *copy = copy_index_region(in->p->l, region, in->map);
  ir_walk(copy, shift_variable, &variables);
  return copy;
}

static Type inlined_type(const Inlined *in, Type type) {
  for (int i = 0; i < type.rank; i++)
    type.dim[i] = map_dim(in->p, in->k, type.dim[i], in->map, in->span);
  return type;
}

// A part of the caller's array for an operand.
static bool inline_part(const Inlined *in, const FlowPart *part, FlowPart *out) {
  Lower *l = in->p->l;
  bool own = flow_is_temporary(in->k, part->array);
  *out = own ? (FlowPart){.array = in->array[part->array]} : in->operands[part->array];
  if (part->leading && out->reshaped) {
    diag_error(l->diag, out->span, ERR_BAD_ARGUMENT,
               "`%s` takes parts of `%s`, so it cannot be a reshape", in->k->name,
               in->k->refs.at[part->array]->name);
    return false;
  }
  out->span = part->span;
  if (part->leading) {
    Region *index = inlined_region(in, part->index);
    out->index = out->leading ? join_index_regions(l, out->index, index) : index;
    out->leading += part->leading;
  }
  if (!part->reshaped) return true;
  out->reshaped = true;
  out->shape = inlined_type(in, part->shape);
  return true;
}

// ---- checks at the call

static void inline_requirements(const Inlined *in) {
  Lower *l = in->p->l;
  for (int i = 0; i < in->k->requires.count; i++) {
    Requirement r = in->k->requires.at[i];
    r.condition = copy_index_region(l, r.condition, in->map);
    LIST_PUSH(l->arena, &l->k->requires, r);
  }
  for (int o = 0; o < in->k->inputs + in->k->outputs; o++) {
    Type have = flow_part_type(in->p->flow, &in->operands[o]),
         want = inlined_type(in, in->k->refs.at[o]->array);
    for (int i = 0; i < have.rank; i++)
      if (have.dim[i] != want.dim[i])
        require_at_call(l, OP_EQ, &(Type){.rank = 1, .dim = {have.dim[i]}},
                        &(Type){.rank = 1, .dim = {want.dim[i]}}, in->span,
                        arena_printf(l->arena, "axis %d of `%s` fits `%s`", i,
                                     in->k->refs.at[o]->name, in->k->name));
  }
}

// ---- arrays and steps

static void inline_arrays(const Inlined *in) {
  ProgramLower *p = in->p;
  const Flow *from = in->k->flow;
  int first = in->k->inputs + in->k->outputs, shift = p->flow->arrays.count - first;
  for (int i = first; i < from->arrays.count; i++) {
    FlowArray a = from->arrays.at[i];
    a.type = inlined_type(in, a.type);
    a.loop = a.loop < 0 ? p->loop : a.loop + in->steps;
    if (a.spare >= 0) a.spare += shift;
    in->array[i] = i + shift;
    LIST_PUSH(p->l->arena, &p->flow->arrays, a);
  }
}

static bool inline_step(const Inlined *in, FlowStep step) {
  ProgramLower *p = in->p;
  bool good = true;
  step.loop = step.loop < 0 ? p->loop : step.loop + in->steps;
  if (step.kind == FLOW_CALL) {
    Kernel *callee = in->k->flow->callees.at[step.callee].kernel;
    const FlowPart *parts = step.parts;
    int count = callee->inputs + callee->outputs;
    step.callee = add_callee(p, callee);
    step.parts = NEW_ARRAY(p->l->arena, FlowPart, count + 1);
    for (int i = 0; i < count && good; i++) good = inline_part(in, &parts[i], &step.parts[i]);
  } else {
    step.variable += in->variables;
    step.mate += in->steps;
    step.bounds = inlined_region(in, step.bounds);
  }
  if (good) LIST_PUSH(p->l->arena, &p->flow->steps, step);
  return good;
}

bool inline_program(ProgramLower *p, const Kernel *k, const FlowPart *operands, const Dim *map,
                    Span span) {
  Inlined in = {p, k, operands, map, NULL, p->flow->steps.count, p->flow->variables, span};
  if (p->flow->steps.count + k->flow->steps.count > MOST_STEPS) {
    diag_error(p->l->diag, span, ERR_TOO_LARGE,
               "a program has at most %d calls and loops, including those of the programs it calls",
               MOST_STEPS);
    return false;
  }
  in.array = NEW_ARRAY(p->l->arena, int, k->flow->arrays.count + 1);
  inline_requirements(&in);
  inline_arrays(&in);
  p->flow->variables += k->flow->variables;
  for (int i = 0; i < k->flow->steps.count; i++)
    if (!inline_step(&in, k->flow->steps.at[i])) return false;
  return true;
}

// ---- a result in the memory of an argument

static bool reads(const Kernel *k, const FlowStep *step, int array) {
  const Kernel *callee = k->flow->callees.at[step->callee].kernel;
  for (int i = 0; i < callee->inputs; i++)
    if (flow_root(k, step->parts[i].array) == array) return true;
  return false;
}

// The calls that write an array; *whole: one call writes all of it, once.
static int last_write(const Kernel *k, int array, bool *whole) {
  int last = -1, writes = 0;
  for (int s = 0; s < k->flow->steps.count; s++) {
    const FlowStep *step = &k->flow->steps.at[s];
    if (step->kind != FLOW_CALL) continue;
    const Kernel *callee = k->flow->callees.at[step->callee].kernel;
    for (int o = callee->inputs; o < callee->inputs + callee->outputs; o++) {
      if (flow_root(k, step->parts[o].array) != array) continue;
      last = s;
      writes++;
      *whole = !step->parts[o].leading && step->loop < 0;
    }
  }
  *whole = *whole && writes == 1;
  return last;
}

bool writes_last(const Kernel *k, int input, int output) {
  bool whole = false;
  int last = last_write(k, output, &whole);
  for (int s = last + 1; s < k->flow->steps.count && whole; s++)
    if (k->flow->steps.at[s].kind == FLOW_CALL && reads(k, &k->flow->steps.at[s], input))
      return false;
  return whole;
}
