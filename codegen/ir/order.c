// Finds grid axes that may run in any order although they are not declared parallel.
#include "codegen/ir/order.h"

#include "codegen/ir/independence.h"

// If the axis and those before it are parallel, a cell of the grid is a run of steps that are also
// consecutive in the grid's order. It remains to show that cells share no memory that they write:
// each has its own blocks of the outputs, and its first step stores all of a scratch buffer before
// any step reads it.

bool ir_has_one_step(const GridAxis *axis) {
  return axis->extent && ir_is_const(ir_yielded(axis->extent, 0), 1);
}

// ---- outputs

static bool has_blocks(const Ref *operand) {
  return operand->space != SPACE_ANY && !operand->whole && !operand->prefetch &&
         operand->index_map && operand->at == AT_BLOCK;
}

// Does each step read of this input only the elements that its own block of the output replaces?
static bool reads_own_part(const Ref *input, const Ref *output, int axis) {
  const int k = ir_grid_use(output, axis).axis;
  return has_blocks(input) && ir_grid_use(input, axis).axis == k &&
         input->block[k] == output->block[k];
}

static const char *why_output(const Kernel *k, const Ref *output, int axis) {
  const char *why = NULL;
  if (output->revisit)
    why = "may be revisited";
  else if (!has_blocks(output))
    why = "does not have blocks `at` block indices";
  else if (ir_grid_use(output, axis).axis < 0)
    why = "may have the same block in several steps";
  else if (output->alias && !reads_own_part(output->alias, output, axis))
    why = "shares memory with an input whose blocks move differently";
  return why ? arena_printf(k->arena, "`%s` %s", output->name, why) : NULL;
}

// ---- effects

typedef struct {
  const Kernel *k;
  const char *why;
} Effects;

static const char *why_effect(const Kernel *k, const Instr *v) {
  const Ref *to = v->op == OP_STORE ? v->ref : v->op == OP_MOVE ? v->target : NULL;
  if (to && to->role == REF_INPUT)
    return arena_printf(k->arena, "the input `%s` is stored to", to->name);
  if (to || ir_is_frame(v->op) || v->op == OP_SCOPED) return NULL;
  if (v->op == OP_PRINT) return "steps print in order";
  if (v->op == OP_PIPELINE) return "the body has a pipeline";
  return op_acts(v->op) ? "the body starts copies or uses semaphores" : NULL;
}

static void see_effect(Instr *v, void *context) {
  Effects *e = context;
  if (!e->why) e->why = why_effect(e->k, v);
}

// ---- scratch

// The first effect of a region on a ref in the first step of a cell: none that matters, a store of
// all elements before any read, or a read of data that another cell may have left.
typedef enum { USE_NONE, USE_STORED, USE_READ } FirstUse;

static bool is_sequential(const Kernel *k, int64_t axis, int proved) {
  return axis > proved && !k->grid.at[axis].parallel;
}

// Does the condition hold in the first step of each cell?
static bool holds_at_first(const Kernel *k, const Instr *v, int proved) {
  if (v->op == OP_CONST) return !ir_is_const(v, 0);
  if (v->op == OP_AND)
    return holds_at_first(k, v->args[0], proved) && holds_at_first(k, v->args[1], proved);
  if (v->op != OP_EQ) return false;
  for (int i = 0; i < 2; i++) {
    const Instr *index = v->args[i];
    while (index->op == OP_CAST) index = index->args[0];
    if (index->op == OP_AXIS && is_sequential(k, index->ival, proved) &&
        ir_is_const(v->args[1 - i], 0))
      return true;
  }
  return false;
}

typedef struct {
  const Kernel *k;
  const Ref *ref;
  int proved;
} FirstUseSearch;

static FirstUse first_use(const FirstUseSearch *s, const Region *region);

static FirstUse use_of_if(const FirstUseSearch *s, const Instr *v) {
  const FirstUse then = first_use(s, v->regions[0]);
  if (holds_at_first(s->k, v->args[0], s->proved)) return then;
  const FirstUse other = v->regions[1] ? first_use(s, v->regions[1]) : USE_NONE;
  if (then == USE_READ || other == USE_READ) return USE_READ;
  return then == USE_STORED && other == USE_STORED ? USE_STORED : USE_NONE;
}

// How an instruction uses the ref for the first time: it reads, it stores all of it, or neither is
// certain.
static FirstUse use_of(const FirstUseSearch *s, const Instr *v) {
  switch (v->op) {
    case OP_LOAD:
      return v->ref == s->ref ? USE_READ : USE_NONE;
    case OP_MOVE:
      return v->ref == s->ref ? USE_READ : USE_NONE;
    case OP_STORE: {
      const bool whole = v->ref == s->ref && !(v->flags & INSTR_MASKED) && ir_window_is_full(v);
      return whole ? USE_STORED : USE_NONE;
    }
    case OP_IF:
      return use_of_if(s, v);
    case OP_NAMED:
    case OP_SCOPED:
      return first_use(s, v->regions[0]);
    default:
      break;
  }
  // A loop may end before its body has run.
  for (int i = 0; i < 2; i++)
    if (v->regions[i] && first_use(s, v->regions[i]) == USE_READ) return USE_READ;
  return USE_NONE;
}

static FirstUse first_use(const FirstUseSearch *s, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const FirstUse use = use_of(s, region->instrs.at[i]);
    if (use != USE_NONE) return use;
  }
  return USE_NONE;
}

static const char *why_scratch(const Kernel *k, const Ref *ref, int axis) {
  if (ref->role == REF_INPUT || ref->role == REF_OUTPUT || ref->scope) return NULL;
  const FirstUseSearch search = {k, ref, axis};
  const FirstUse use = first_use(&search, k->body);
  bool one_step = true;
  for (int i = 0; i < k->grid.count; i++)
    one_step &= !is_sequential(k, i, axis) || ir_has_one_step(&k->grid.at[i]);
  if (use == USE_STORED || (use == USE_NONE && one_step)) return NULL;
  return arena_printf(k->arena, "`%s` may be read before a step has stored all of it", ref->name);
}

// ---- the axis

static void see_load(Instr *v, void *found) {
  if (v->op == OP_LOAD) *(bool *)found = true;
}

bool ir_grid_is_read(const Kernel *k) {
  bool loads = false;
  for (int i = 0; i < k->grid.count; i++)
    if (k->grid.at[i].extent) ir_walk(k->grid.at[i].extent, see_load, &loads);
  return loads;
}

static const char *why_extent(const Kernel *k, int axis) {
  if (ir_grid_is_read(k)) return "an extent of the grid is read from an input";
  int before = axis - 1;
  while (before >= 0 && (k->grid.at[before].parallel || ir_has_one_step(&k->grid.at[before])))
    before--;
  if (before < 0 || !ir_why_in_order(k, before)) return NULL;  // which implies those before it
  return arena_printf(k->arena, "the axis `%s` before it runs in order", k->grid.at[before].name);
}

const char *ir_why_in_order(const Kernel *k, int axis) {
  if (k->mesh.count) return "devices run all steps in order";
  const char *why = why_extent(k, axis);
  for (int i = k->inputs; i < k->inputs + k->outputs && !why; i++)
    why = why_output(k, k->refs.at[i], axis);
  Effects effects = {k, why};
  if (!why) ir_walk(k->body, see_effect, &effects);
  why = effects.why;
  for (int i = 0; i < k->refs.count && !why; i++) why = why_scratch(k, k->refs.at[i], axis);
  return why;
}
