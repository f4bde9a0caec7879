// Makes the reference of a program that has none of its own from those of its kernels.
#include "codegen/ir/index.h"
#include "codegen/lower/program.h"

#include <string.h>

// ---- copies of instructions, with sizes replaced

typedef struct {
  Lower *l;
  const Dim *map;          // by size of the callee
  Instr **copy;            // by id of the callee's instructions
  Instr *const *operands;  // values of the callee's inputs; NULL in index arithmetic
  Ref **states;            // of the copy, for the callee's vars; NULL there, too
} Copier;

static Dim replaced(const Copier *c, Dim dim) {
  return dim_is_const(dim) ? dim : c->map[dim_size_index(dim)];
}

static Type replaced_type(const Copier *c, Type type) {
  for (int i = 0; i < type.rank; i++) type.dim[i] = replaced(c, type.dim[i]);
  return type;
}

static Region *copy_region(Copier *c, const Region *region);

static Instr *copy_instr(Copier *c, const Instr *v) {
  Lower *l = c->l;
  if (v->op == OP_ARRAY) return c->operands[v->ref->id];
  if (v->op == OP_SIZE) return dim_value(l, c->map[v->ival], v->span);
  Instr *copy = ir_copy(l->k, v);
  copy->type = replaced_type(c, v->type);
  copy->note = NULL;
  if (v->ref && v->ref->role == REF_STATE) copy->ref = c->states[v->ref->id];
  for (int i = 0; i < v->nargs; i++) copy->args[i] = c->copy[v->args[i]->id];
  for (int i = 0; i < MAX_RANK; i++) copy->window.size[i] = replaced(c, v->window.size[i]);
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) copy->regions[r] = copy_region(c, v->regions[r]);
  return ir_append(l->k, l->frame->region, copy);
}

static void copy_instrs(Copier *c, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    c->copy[v->id] = copy_instr(c, v);
  }
}

static Region *copy_region(Copier *c, const Region *region) {
  Frame frame;
  Region *copy = enter_region(c->l, &frame);
  if (region->arg) {
    copy->arg =
        ir_new(c->l->k, OP_ARG, replaced_type(c, region->arg->type), region->arg->span, 0, NULL);
    c->copy[region->arg->id] = copy->arg;
  }
  copy_instrs(c, region);
  leave_region(c->l);
  return copy;
}

static int greatest_id(const Region *region) {
  int most = 0;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->id > most) most = v->id;
    for (int r = 0; r < 2; r++) {
      int inner = v->regions[r] ? greatest_id(v->regions[r]) : 0;
      if (inner > most) most = inner;
    }
  }
  return most;
}

Region *copy_index_region(Lower *l, const Region *region, const Dim *map) {
  Copier c = {.l = l, .map = map};
  c.copy = NEW_ARRAY(l->arena, Instr *, greatest_id(region) + 1);
  return copy_region(&c, region);
}

static void copy_positions(Lower *l, const Region *region, const Dim *map, Instr **values,
                           int *count) {
  Copier c = {.l = l, .map = map};
  c.copy = NEW_ARRAY(l->arena, Instr *, greatest_id(region) + 1);
  for (int i = 0; i + 1 < region->instrs.count; i++)
    c.copy[region->instrs.at[i]->id] = copy_instr(&c, region->instrs.at[i]);
  const Instr *yield = region->instrs.at[region->instrs.count - 1];
  for (int i = 0; i < yield->nargs; i++) values[(*count)++] = c.copy[yield->args[i]->id];
}

Region *join_index_regions(Lower *l, const Region *a, const Region *b) {
  Frame frame;
  Instr *values[2 * MAX_RANK];
  int count = 0;
  Dim *same = NEW_ARRAY(l->arena, Dim, l->k->sizes.count + 1);
  for (int i = 0; i < l->k->sizes.count; i++) same[i] = dim_of_size(i);
  Region *region = enter_region(l, &frame);
  copy_positions(l, a, same, values, &count);
  copy_positions(l, b, same, values, &count);
  emit(l, OP_YIELD, no_result, a->instrs.at[0]->span, count, values);
  leave_region(l);
  return region;
}

// ---- composing

typedef struct {
  Lower *l;
  Flow *flow;
  Instr **value;  // by array: what it holds; NULL: nothing yet
  int64_t *variables;
  int work;
} Composer;

// Keeps the first reason.
static bool refuse(Composer *c, Span span, const char *why) {
  if (!c->flow->uncomposed) {
    c->flow->uncomposed = why;
    c->flow->uncomposed_at = span;
  }
  return false;
}

enum { MOST_COMPOSED = 1000 };  // instructions: a C compiler needs a second for them
static const char too_many[] =
    "the references of all calls together have more than 1,000 operations";

// The positions of a part, if they depend on loop variables only.
static bool constant_positions(const Composer *c, const FlowPart *part, int64_t *at) {
  for (int i = 0; i < part->index->instrs.count; i++)
    if (part->index->instrs.at[i]->op == OP_SIZE) return false;
  eval_region(c->l->k, part->index, NULL, c->variables, at);
  return true;
}

// The value of a part: a slice, then the shape without the leading axes.
static Instr *leading_value(Composer *c, const FlowPart *part) {
  Lower *l = c->l;
  Instr *whole = c->value[flow_root(l->k, part->array)];
  if (!whole) refuse(c, part->span, "the contents of this array are not known here");
  if (!whole || !part->leading) return whole;
  int64_t at[MAX_RANK] = {0};
  Type type = whole->type;
  bool known = constant_positions(c, part, at);
  for (int i = 0; i < part->leading; i++) {
    known = known && dim_is_const(type.dim[i]) && at[i] >= 0 && at[i] < type.dim[i];
    if (!known) {
      refuse(c, part->span, "it is known only at the call whether this part is in bounds");
      return NULL;
    }
    type.dim[i] = 1;
  }
  Instr *slice = emit1(l, OP_SLICE, type, part->span, whole);
  for (int i = 0; i < type.rank; i++) {
    slice->ints[i] = at[i];
    slice->ints2[i] = 1;
  }
  FlowPart plain = *part;
  plain.reshaped = false;
  Type inner = flow_part_type(c->flow, &plain);
  return reshape_to(l, slice, &inner, part->span);
}

// NULL if only the call knows whether the numbers of elements are equal.
static Instr *reshaped_value(Composer *c, Instr *v, const Type *type, Span span) {
  if (v && ir_same_elements(c->l->k, &v->type, type)) return reshape_to(c->l, v, type, span);
  refuse(c, span, "it is known only at the call whether this reshape keeps the number of elements");
  return NULL;
}

static Instr *part_value(Composer *c, const FlowPart *part) {
  Instr *v = leading_value(c, part);
  return part->reshaped ? reshaped_value(c, v, &part->shape, part->span) : v;
}

// The sizes of a callee as the lowering of the call found them, from the shapes of its operands.
static Dim *sizes_of_call(Composer *c, const FlowStep *step, const Kernel *callee) {
  ProgramLower p = {.l = c->l, .flow = c->flow, .loop = -1};
  Dim *map = NEW_ARRAY(c->l->arena, Dim, callee->sizes.count + 1);
  for (int i = 0; i < callee->sizes.count; i++) map[i] = DIM_UNKNOWN;
  for (int o = 0; o < callee->inputs + callee->outputs; o++) {
    Type type = flow_part_type(c->flow, &step->parts[o]);
    for (int i = 0; i < type.rank; i++) {
      Dim dim = callee->refs.at[o]->array.dim[i];
      if (dim_is_const(dim) || callee->sizes.at[dim_size_index(dim)].value) continue;
      if (map[dim_size_index(dim)] == DIM_UNKNOWN) map[dim_size_index(dim)] = type.dim[i];
    }
  }
  for (int i = 0; i < callee->sizes.count; i++)
    if (callee->sizes.at[i].value) map[i] = map_dim(&p, callee, dim_of_size(i), map, step->span);
  return map;
}

// Do the values have the shapes that the callee's instructions will have? Sizes that are equal only
// by what the call checks do not compose.
static bool shapes_agree(Composer *c, const FlowStep *step, const Kernel *callee, const Dim *map) {
  for (int o = 0; o < callee->inputs + callee->outputs; o++) {
    Type type = flow_part_type(c->flow, &step->parts[o]);
    for (int i = 0; i < type.rank; i++) {
      Dim dim = callee->refs.at[o]->array.dim[i];
      Dim want = dim_is_const(dim) ? dim : map[dim_size_index(dim)];
      if (want != type.dim[i]) return false;
    }
  }
  return true;
}

// Vars of the program's reference for those of a call.
static Ref **copy_states(const Copier *c, const Kernel *callee) {
  Kernel *k = c->l->k;
  Ref **states = NEW_ARRAY(c->l->arena, Ref *, callee->states.count + 1);
  for (int i = 0; i < callee->states.count; i++) {
    states[i] = NEW(c->l->arena, Ref);
    *states[i] = *callee->states.at[i];
    states[i]->id = k->states.count;
    states[i]->type = replaced_type(c, states[i]->type);
    LIST_PUSH(c->l->arena, &k->states, states[i]);
  }
  return states;
}

// Adds the reference of a called kernel to the program's reference.
static bool compose_call(Composer *c, const FlowStep *step) {
  const Kernel *callee = c->flow->callees.at[step->callee].kernel;
  if (!callee->reference)
    return refuse(c, step->span, arena_printf(c->l->arena, "`%s` has no reference", callee->name));
  c->work += callee->reference->instrs.count;
  if (c->work > MOST_COMPOSED) return refuse(c, step->span, too_many);
  const Dim *map = sizes_of_call(c, step, callee);
  if (!shapes_agree(c, step, callee, map))
    return refuse(c, step->span,
                  "it is known only at the call whether the sizes of the arguments agree");
  Instr **operands = NEW_ARRAY(c->l->arena, Instr *, callee->inputs + 1);
  for (int i = 0; i < callee->inputs; i++)
    if (!(operands[i] = part_value(c, &step->parts[i]))) return false;
  Copier copier = {.l = c->l, .map = map, .operands = operands};
  copier.copy = NEW_ARRAY(c->l->arena, Instr *, callee->next_id + 1);
  copier.states = copy_states(&copier, callee);
  const Region *body = callee->reference;
  for (int i = 0; i + 1 < body->instrs.count; i++)
    copier.copy[body->instrs.at[i]->id] = copy_instr(&copier, body->instrs.at[i]);
  for (int i = 0; i < callee->outputs; i++) {
    const FlowPart *part = &step->parts[callee->inputs + i];
    if (part->leading) return refuse(c, part->span, "a result is written to a part of an array");
    Instr *result = copier.copy[ir_yielded(body, i)->id];
    if (part->reshaped)
      result = reshaped_value(c, result, &c->flow->arrays.at[part->array].type, part->span);
    if (!result) return false;
    c->value[flow_root(c->l->k, part->array)] = result;
  }
  return true;
}

static bool constant_bounds(const FlowStep *step, int64_t *from, int64_t *to) {
  const Instr *a = ir_yielded(step->bounds, 0), *b = ir_yielded(step->bounds, 1);
  *from = a->ival;
  *to = b->ival;
  return a->op == OP_CONST && b->op == OP_CONST;
}

static bool compose_steps(Composer *c, int first, int end) {
  for (int i = first; i < end; i++) {
    const FlowStep *step = &c->flow->steps.at[i];
    int64_t from, to;
    if (step->kind == FLOW_CALL && !compose_call(c, step)) return false;
    if (step->kind != FLOW_FOR) continue;
    if (!constant_bounds(step, &from, &to))
      return refuse(c, step->span, "the bounds of this loop are known only at the call");
    for (int64_t value = from; value < to; value++) {
      c->variables[step->variable] = value;
      if (++c->work > MOST_COMPOSED) return refuse(c, step->span, too_many);
      if (!compose_steps(c, i + 1, step->mate)) return false;
    }
    i = step->mate;
  }
  return true;
}

Region *compose_reference(Lower *l) {
  Frame frame;
  Kernel *k = l->k;
  Composer c = {.l = l, .flow = k->flow};
  c.value = NEW_ARRAY(l->arena, Instr *, k->flow->arrays.count + 1);
  c.variables = NEW_ARRAY(l->arena, int64_t, k->flow->variables + 1);
  l->place = IN_REFERENCE;
  Region *region = enter_region(l, &frame);
  for (int i = 0; i < k->inputs; i++) {
    c.value[i] = emit(l, OP_ARRAY, k->refs.at[i]->array, k->refs.at[i]->span, 0, NULL);
    c.value[i]->ref = k->refs.at[i];
  }
  bool good = compose_steps(&c, 0, k->flow->steps.count);
  Instr **results = NEW_ARRAY(l->arena, Instr *, k->outputs + 1);
  for (int i = 0; i < k->outputs && good; i++) {
    results[i] = c.value[flow_root(k, k->inputs + i)];
    good = results[i] != NULL;
    if (!good)
      refuse(&c, k->refs.at[k->inputs + i]->span, "the contents of this array are not known here");
  }
  if (good) emit(l, OP_YIELD, no_result, k->span, k->outputs, results);
  leave_region(l);
  return good ? region : NULL;
}
