// State that a kernel carries along the innermost axes of its grid: memory that a step reads before
// it has stored all of it. A step is a function of its blocks and of the state before it; the
// gradient runs through the steps from the last to the first, and carries the gradient of the
// state. What it needs of the states themselves is kept for each step.
#include "codegen/grad/carried.h"
#include "codegen/grad/saved.h"

#include <string.h>

#define BEFORE "before_"

// The name of the operand that holds a state before a step.
static const char *before_name(const char *state) { return intern_printf(BEFORE "%s", state); }

bool is_before_name(const char *name) { return strncmp(name, BEFORE, strlen(BEFORE)) == 0; }

// ---- supported kernels

// The innermost axes that are not parallel, as bits.
static int64_t carrying_axes(const Kernel *k) {
  int64_t axes = 0;
  for (int i = k->grid.count - 1; i >= 0 && !k->grid.at[i].parallel; i--) axes |= (int64_t)1 << i;
  return axes;
}

static bool check_axes(const Kernel *k, int64_t axes, Diag *diag) {
  for (int i = 0; i < k->grid.count; i++)
    if (!k->grid.at[i].parallel && !(axes >> i & 1))
      return refuse_kernel(
          diag, k->grid.at[i].span,
          "--kernel differentiates state along the innermost axes of the grid: `%s` has "
          "a parallel axis inside of it",
          k->grid.at[i].name);
  return true;
}

static bool check_input(const Kernel *k, const Ref *ref, Diag *diag) {
  if (ref->prefetch || is_scattered(k, ref))
    return refuse_kernel(
        diag, ref->prefetch ? ref->span : ref->map_span,
        "--kernel differentiates state along the grid if the block index of each input "
        "is a grid axis, its quotient, or 0: `%s` has another index map",
        ref->name);
  return true;
}

static bool check_output(const Kernel *k, const Carried *c, const Ref *ref, Diag *diag) {
  const int64_t ignored = ignored_axes(k, ref);
  if (ref->alias || is_scattered(k, ref) || (ignored & ~c->axes) || (ignored && ignored != c->axes))
    return refuse_kernel(
        diag, ref->span,
        "--kernel differentiates state along the grid if each step stores blocks of its "
        "own, and the last one the others: `%s` has other blocks",
        ref->name);
  return true;
}

static bool check_memory(const Ref *ref, Diag *diag) {
  const bool memory = ref->role == REF_SCRATCH || ref->role == REF_VAR;
  const bool plain =
      memory && !ref->scope &&
      (ref->space == SPACE_VMEM || ref->space == SPACE_SMEM || ref->space == SPACE_VAR);
  if (plain && (!is_float(ref->type.dtype) || dtype_accum(ref->type.dtype) == ref->type.dtype))
    return true;
  return refuse_kernel(
      diag, ref->span,
      plain ? "`%s` carries narrow floats from step to step, which --kernel does not "
              "differentiate"
            : "`%s` is scratch: --kernel does not differentiate the values that it carries",
      ref->name);
}

static bool check_refs(const Kernel *k, const Carried *c, Diag *diag) {
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    if (ref->role == REF_INPUT    ? !check_input(k, ref, diag)
        : ref->role == REF_OUTPUT ? !check_output(k, c, ref, diag)
                                  : !check_memory(ref, diag))
      return false;
  }
  return true;
}

static const Ref *overhanging(const Kernel *k, int axis) {
  for (int i = 0; i < k->inputs + k->outputs; i++)
    for (int a = 0; a < k->refs.at[i]->array.rank; a++)
      if (followed_axis(k, k->refs.at[i], a) == axis && may_overhang(k->refs.at[i], a))
        return k->refs.at[i];
  return NULL;
}

// The gradient of a state has no mask: elements past the edge of an array would reach the parts of
// a gradient that contracts them.
static bool check_edges(const Kernel *k, const Carried *c, Diag *diag) {
  for (int i = 0; i < k->inputs; i++)
    for (int axis = 0; axis < k->grid.count; axis++) {
      const Ref *ref = k->refs.at[i], *edge = overhanging(k, axis);
      const bool missing = missing_axes(k, c->axes, ref) & ~c->axes & (int64_t)1 << axis;
      if (missing && edge && has_arithmetic(ref->array.dtype))
        return refuse_kernel(
            diag, edge->map_span,
            "blocks of `%s` may end past the array along `%s`, along which the gradient of "
            "`%s` is added up: --kernel does not differentiate that in a kernel with state along "
            "the grid",
            edge->name, k->grid.at[axis].name, ref->name);
    }
  return true;
}

typedef struct {
  const Kernel *k;
  Carried *c;
  Diag *diag;
  bool *whole;  // by ref: this step has stored all of it
} Check;

static bool check_region(Check *s, const Region *region, const Instr *choice);

static bool check_store(Check *s, const Instr *v, const Instr *choice) {
  const Ref *ref = v->ref;
  const bool last = choice && tested_axes(s->k, choice->args[0], true) == s->c->axes;
  if (ref->role == REF_INPUT)
    return refuse_kernel(s->diag, v->span,
                         "`%s`, an input, is stored to, which --kernel does not differentiate",
                         ref->name);
  if (ref->role == REF_OUTPUT && ignored_axes(s->k, ref) && choice && !last)
    return refuse_kernel(s->diag, v->span,
                         "`%s` is stored under another condition than that of the last step, which "
                         "--kernel does not differentiate",
                         ref->name);
  if (!choice && !v->flags && ir_window_is_full(v)) s->whole[ref->id] = true;
  return true;
}

static bool check_load(Check *s, const Instr *v) {
  const Ref *ref = v->ref;
  if (ref->role == REF_INPUT || s->whole[ref->id]) return true;
  if (ref->role == REF_OUTPUT)
    return refuse_kernel(
        s->diag, v->span,
        "`%s` is read before a step has stored all of it, which --kernel does not differentiate",
        ref->name);
  s->c->state[ref->id] = true;
  return true;
}

static bool loads(const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_LOAD) return true;
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && loads(v->regions[r])) return true;
  }
  return false;
}

// Can an instruction of a kernel with state along the grid be differentiated? Refuses it otherwise.
// choice: the `if` that contains it.
static bool check_instr(Check *s, const Instr *v, const Instr *choice) {
  if (v->op == OP_FETCH || v->op == OP_WRITEBACK || v->op == OP_YIELD) return true;
  if (v->op == OP_LOAD || v->op == OP_STORE) {
    if (!is_known_part(v))
      return refuse_kernel(
          s->diag, v->span,
          "--kernel differentiates accesses of whole blocks, as in `%s[...]`, and of "
          "parts that begin at constants",
          v->ref->name);
    return v->op == OP_LOAD ? check_load(s, v) : check_store(s, v, choice);
  }
  if (v->op == OP_IF && !has_result(v) && !choice &&
      !(v->regions[1] && v->regions[1]->instrs.count))
    return check_region(s, v->regions[0], v);
  const bool value = v->op == OP_IF && has_result(v) && ir_is_pure(v->regions[0]) &&
                     ir_is_pure(v->regions[1]) && !loads(v->regions[0]) && !loads(v->regions[1]);
  if ((v->regions[0] || op_acts(v->op)) && !value) return refuse_instr(s->k, v, s->diag);
  return true;
}

static bool check_region(Check *s, const Region *region, const Instr *choice) {
  for (int i = 0; i < region->instrs.count; i++)
    if (!check_instr(s, region->instrs.at[i], choice)) return false;
  return true;
}

Carried find_carried(const Kernel *k, Diag *diag) {
  const int count = k->refs.count + 1;
  Carried c = {.axes = carrying_axes(k), .state = NEW_ARRAY(k->arena, bool, count)};
  Check s = {k, &c, diag, NEW_ARRAY(k->arena, bool, count)};
  const bool kernel = !k->flow && !k->mesh.count && c.axes;
  const bool good = kernel && check_region(&s, k->body, NULL) && check_axes(k, c.axes, diag) &&
                    check_extents(k, diag) && check_refs(k, &c, diag) && check_edges(k, &c, diag);
  bool any = false;
  for (int i = 0; i < k->refs.count; i++) any = any || c.state[i];
  return good && any ? c : (Carried){.refused = any && kernel};
}

// ---- a step as a reference

typedef struct {
  Kernel *k;
  const Carried *c;
  Region *region;
  Instr **image;     // by id: of a load
  Instr **arrays;    // by ref: of an input
  Instr **stored;    // by ref: the value that memory holds, or NULL
  Instr *condition;  // of the stores, or NULL
  int count;         // the first id that the body does not have
} Step;

static Grad here(const Step *s, Span span) {
  return (Grad){.k = s->k, .arena = s->k->arena, .top = s->region, .out = s->region, .span = span};
}

static Instr *image_of(const Step *s, Instr *v) {
  while (v->id < s->count && s->image[v->id]) v = s->image[v->id];
  return v;
}

static void replace_args(const Step *s, Instr *v) {
  for (int a = 0; a < v->nargs; a++) v->args[a] = image_of(s, v->args[a]);
  for (int r = 0; r < 2; r++)
    for (int i = 0; v->regions[r] && i < v->regions[r]->instrs.count; i++)
      replace_args(s, v->regions[r]->instrs.at[i]);
}

static Instr *put_array(Step *s, Ref *ref) {
  Instr *v = ir_new(s->k, OP_ARRAY, ref->type, ref->span, 0, NULL);
  v->ref = ref;
  return ir_append(s->k, s->region, v);
}

static Instr *nothing(Grad *g, Type type) {
  return type.dtype == DT_BOOL ? put_truth(g, false, type) : put_zero(g, type);
}

static void take_load(Step *s, Instr *v) {
  Grad g = here(s, v->span);
  Instr *from = s->arrays[v->ref->id] ? s->arrays[v->ref->id] : s->stored[v->ref->id];
  s->image[v->id] = window_value(&g, from, v, v->args);
  if (s->image[v->id] == from && from->op == OP_ARRAY && !from->text) from->text = v->text;
}

// Is this the last step along all of the axes?
static Instr *put_last(Step *s, Grad *g) {
  Instr *all = NULL;
  for (int i = 0; i < s->k->grid.count; i++) {
    if (!(s->c->axes >> i & 1)) continue;
    Instr *at = put(g, OP_AXIS, type_scalar(DT_I64), 0),
          *steps = put(g, OP_EXTENT, type_scalar(DT_I64), 0);
    at->ival = steps->ival = i;
    Instr *test = put_test(g, OP_EQ, at, put_pair(g, OP_SUB, steps, put_index(g, 1)));
    all = all ? put_pair(g, OP_AND, all, test) : test;
  }
  return all;
}

static void take_store(Step *s, Instr *v) {
  const Ref *ref = v->ref;
  Grad g = here(s, v->span);
  Instr *before = s->stored[ref->id], *value = image_of(s, ir_store_value(v)),
        *condition = s->condition;
  const bool masks = v->flags & INSTR_MASKED;
  if (!condition && ref->role == REF_OUTPUT && ignored_axes(s->k, ref)) condition = put_last(s, &g);
  if (!before && (masks || condition || !ir_window_is_full(v))) before = nothing(&g, ref->type);
  if (masks)
    value = put_choice(&g, image_of(s, ir_mask(v)), value, window_value(&g, before, v, v->args));
  if (!before && value->type.rank != ref->type.rank) value = put_reshape(&g, value, ref->type);
  Instr *after = before ? with_window(&g, before, v, value) : value;
  if (condition)
    after = put_choice(&g, put_spread(&g, condition, type_as(ref->type, DT_BOOL)), after, before);
  s->stored[ref->id] = after;
}

static void take_region(Step *s, const Region *from) {
  for (int i = 0; i < from->instrs.count; i++) {
    Instr *v = from->instrs.at[i];
    if (v->op == OP_FETCH || v->op == OP_WRITEBACK || v->op == OP_YIELD) continue;
    if (v->op != OP_IF || has_result(v)) replace_args(s, v);
    if (v->op == OP_LOAD) {
      take_load(s, v);
    } else if (v->op == OP_STORE) {
      take_store(s, v);
    } else if (v->op == OP_IF && !has_result(v)) {
      s->condition = image_of(s, v->args[0]);
      take_region(s, v->regions[0]);
      s->condition = NULL;
    } else {
      LIST_PUSH(s->k->arena, &s->region->instrs, v);
    }
  }
}

static Ref *renamed(Kernel *k, const Ref *ref, const char *name) {
  Ref *copy = NEW(k->arena, Ref);
  *copy = *ref;
  copy->name = name;
  return copy;
}

// The operands: the inputs and the states before the step; the outputs and the states after it.
static Blocks sign_step(Step *s, Ref **before, Ref **after) {
  Kernel *k = s->k;
  LIST(Ref *) refs = {0};
  Blocks b = {.edges = NEW_ARRAY(k->arena, Ref, k->outputs + 1), .edge_count = k->outputs};
  const GridSums none = {0};
  for (int i = 0; i < k->outputs; i++) b.edges[i] = *k->refs.at[k->inputs + i];
  for (int i = 0; i < k->inputs; i++) LIST_PUSH(k->arena, &refs, k->refs.at[i]);
  for (int i = 0; i < k->refs.count; i++)
    if (s->c->state[i]) {
      const Ref *ref = k->refs.at[i];
      before[i] = renamed(k, ref, before_name(ref->name));
      after[i] = renamed(k, ref, ref->name);
      make_array(k, &none, before[i]);
      make_array(k, &none, after[i]);
      LIST_PUSH(k->arena, &refs, before[i]);
    }
  b.inputs = refs.count;
  for (int i = 0; i < k->outputs; i++) LIST_PUSH(k->arena, &refs, k->refs.at[k->inputs + i]);
  for (int i = 0; i < k->refs.count; i++)
    if (s->c->state[i]) LIST_PUSH(k->arena, &refs, after[i]);
  b.outputs = refs.count - b.inputs;
  b.refs = NEW_ARRAY(k->arena, Ref, refs.count + 1);
  for (int i = 0; i < refs.count; i++) b.refs[i] = *refs.at[i];
  return b;
}

static void use_signature(Kernel *k, const Blocks *b, Ref *const *refs) {
  k->refs.count = 0;
  for (int i = 0; i < b->inputs + b->outputs; i++) {
    Ref *ref = refs[i];
    ref->id = i;
    ref->role = i < b->inputs ? REF_INPUT : REF_OUTPUT;
    ref->array = ref->type;
    LIST_PUSH(k->arena, &k->refs, ref);
  }
  k->inputs = b->inputs;
  k->outputs = b->outputs;
}

int64_t missing_axes(const Kernel *k, int64_t axes, const Ref *ref) {
  const int64_t ignored = ignored_axes(k, ref);
  return (ignored & axes) == axes ? ignored & ~axes : ignored;
}

Ref *partial_blocks(Kernel *k, const Carried *c, const Ref *ref) {
  static const Type none = {.dtype = DT_COUNT};
  const int64_t ignored = missing_axes(k, c->axes, ref), split = split_axes(k, ref);
  if ((!ignored && !split) || !is_float(ref->array.dtype)) return NULL;
  Ref *part = renamed(k, ref, ref->name);
  Region *map = part->index_map = ir_region(k);
  Grad g = {.k = k, .arena = k->arena, .out = map, .span = ref->span};
  Instr *at[MAX_RANK];
  part->at = AT_BLOCK;
  part->whole = part->has_pad = false;
  part->array = (Type){.dtype = dtype_accum(ref->array.dtype)};
  part->type.dtype = part->array.dtype;
  for (int i = 0; i < k->grid.count + ref->array.rank; i++) {
    const int axis = i < k->grid.count ? i : followed_axis(k, ref, i - k->grid.count);
    const int own = i - k->grid.count, rank = part->array.rank;
    const bool moves = own < 0 || axis >= 0, divided = own >= 0 && axis >= 0 && split >> axis & 1;
    if (own < 0 && !(ignored >> i & 1)) continue;
    at[rank] = moves ? put(&g, OP_AXIS, type_scalar(DT_I64), 0) : put_index(&g, 0);
    if (moves) at[rank]->ival = axis;
    part->array.dim[rank] = own < 0 || divided
                                ? extent_named(&g, ir_yielded(k->grid.at[axis].extent, 0))
                                : ref->array.dim[own];
    part->block[rank] = own < 0 ? 1 : ref->whole ? ref->array.dim[own] : ref->block[own];
    part->squeeze[rank] = own < 0 || (!ref->whole && ref->squeeze[own]);
    part->array.rank++;
  }
  ir_append(k, map, ir_new(k, OP_YIELD, none, ref->span, part->array.rank, at));
  return part;
}

Blocks step_as_reference(Kernel *k, const Carried *c) {
  static const Type none = {.dtype = DT_COUNT};
  const int refs = k->refs.count + 1;
  Step s = {.k = k,
            .c = c,
            .region = ir_region(k),
            .image = NEW_ARRAY(k->arena, Instr *, k->next_id),
            .arrays = NEW_ARRAY(k->arena, Instr *, refs),
            .stored = NEW_ARRAY(k->arena, Instr *, refs),
            .count = k->next_id};
  Ref **before = NEW_ARRAY(k->arena, Ref *, refs), **after = NEW_ARRAY(k->arena, Ref *, refs);
  Blocks b = sign_step(&s, before, after);
  b.backwards = b.ignored = c->axes;
  b.guarded = b.stepwise = b.pads = true;
  b.partial = NEW_ARRAY(k->arena, Ref *, b.inputs + 1);
  for (int i = 0; i < k->inputs; i++) b.partial[i] = partial_blocks(k, c, k->refs.at[i]);
  for (int i = 0; i < k->inputs; i++) s.arrays[i] = put_array(&s, k->refs.at[i]);
  for (int i = 0; i < k->refs.count; i++)
    if (before[i]) s.stored[i] = put_array(&s, before[i]);
  take_region(&s, k->body);
  LIST(Instr *) results = {0};
  LIST(Ref *) list = {0};
  for (int i = 0; i < k->inputs; i++) LIST_PUSH(k->arena, &list, k->refs.at[i]);
  for (int i = 0; i < k->refs.count; i++)
    if (before[i]) LIST_PUSH(k->arena, &list, before[i]);
  Grad g = here(&s, k->span);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    Ref *ref = k->refs.at[i];
    Instr *value = s.stored[i] ? s.stored[i] : nothing(&g, ref->type);
    LIST_PUSH(k->arena, &list, ref);
    LIST_PUSH(k->arena, &results, image_of(&s, value));
  }
  for (int i = 0; i < k->refs.count; i++) {
    if (!after[i]) continue;
    LIST_PUSH(k->arena, &list, after[i]);
    LIST_PUSH(k->arena, &results, image_of(&s, s.stored[i]));
  }
  ir_append(k, s.region, ir_new(k, OP_YIELD, none, k->span, results.count, results.at));
  use_signature(k, &b, list.at);
  k->reference = s.region;
  k->states.count = 0;
  return b;
}

// ---- gradients of states

static bool is_state(const Blocks *b, const Ref *ref) {
  for (int i = 0; i < b->inputs; i++)
    if (b->refs[i].span.start == ref->span.start) return b->refs[i].role != REF_INPUT;
  return false;
}

static void replace_uses(Region *region, const Instr *v, Instr *by) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *user = region->instrs.at[i];
    for (int a = 0; a < user->nargs; a++)
      if (user->args[a] == v) user->args[a] = by;
    for (int r = 0; r < 2; r++)
      if (user->regions[r]) replace_uses(user->regions[r], v, by);
  }
}

// The array of an operand of the reference; NULL: it does not occur.
static Instr *array_of(const Region *top, const Ref *ref) {
  for (int i = 0; i < top->instrs.count; i++)
    if (top->instrs.at[i]->op == OP_ARRAY && top->instrs.at[i]->ref == ref)
      return top->instrs.at[i];
  return NULL;
}

// The gradient that a step is given for the state with that span.
static Ref *given_for(const Kernel *k, const Ref *result) {
  for (int i = 0; i < k->inputs; i++) {
    Ref *ref = k->refs.at[i];
    if (ref->span.start == result->span.start && ref->name[0] == 'd' &&
        strcmp(before_name(ref->name + 1), result->name + 1) == 0)
      return ref;
  }
  return NULL;
}

static void remove_ref(Kernel *k, const Ref *ref) {
  int kept = 0;
  for (int i = 0; i < k->refs.count; i++) {
    if (k->refs.at[i] != ref) {
      k->refs.at[i]->id = kept;
      k->refs.at[kept++] = k->refs.at[i];
    } else if (i < k->inputs) {
      k->inputs--;
    } else {
      k->outputs--;
    }
  }
  k->refs.count = kept;
}

static void carry_one(Kernel *k, const Ref *result, Instr *value, Region *start, Region *end) {
  Ref *given = given_for(k, result);
  const Instr *array = given ? array_of(k->reference, given) : NULL;
  Grad g = {.k = k, .arena = k->arena, .out = start, .span = result->span};
  if (!array) return;
  Ref *var = new_state(&g, given->name, type_as(given->type, result->array.dtype));
  replace_uses(k->reference, array, put_load(&g, var));
  g.out = end;
  put_store(&g, var, value == array ? put_load(&g, var) : value);
}

bool *carry_gradients(Kernel *k, const Blocks *b, const bool *again) {
  const int known = k->next_id;
  Region old = *k->reference, *start = ir_region(k), *end = ir_region(k);
  Instr *yield = old.instrs.at[old.instrs.count - 1];
  const int results = k->outputs;
  int kept = 0, from = k->inputs;
  Ref **refs = NEW_ARRAY(k->arena, Ref *, k->refs.count + 1);
  const int count = k->refs.count;
  for (int i = 0; i < count; i++) refs[i] = k->refs.at[i];
  for (int i = 0; i < results; i++) {
    if (is_state(b, refs[from + i]))
      carry_one(k, refs[from + i], yield->args[i], start, end);
    else
      yield->args[kept++] = yield->args[i];
  }
  yield->nargs = kept;
  for (int i = 0; i < count; i++) {
    const bool kept_state = is_before_name(refs[i]->name) && reads_array(&old, refs[i]);
    if (is_state(b, refs[i]) && !kept_state) remove_ref(k, refs[i]);
  }
  Region *top = k->reference;
  top->instrs.at = NULL;
  top->instrs.count = top->instrs.capacity = 0;
  for (int i = 0; i < start->instrs.count; i++) ir_append(k, top, start->instrs.at[i]);
  for (int i = 0; i + 1 < old.instrs.count; i++) ir_append(k, top, old.instrs.at[i]);
  for (int i = 0; i < end->instrs.count; i++) ir_append(k, top, end->instrs.at[i]);
  ir_append(k, top, yield);
  bool *now = NEW_ARRAY(k->arena, bool, k->next_id + 1);
  memcpy(now, again, (size_t)known * sizeof *now);
  return now;
}

// ---- the states before each step

typedef struct {
  Step step;
  Ref **vars;  // by ref: of all memory, and of outputs
} States;

// A masked store stores the other elements again.
static void unmask_store(States *s, Region *region, Instr *store) {
  Grad g = here(&s->step, store->span);
  g.out = region;
  const int rank = store->ref->type.rank;
  Instr *value = ir_store_value(store), *old = ir_copy(g.k, store);
  old->op = OP_LOAD;
  old->type = value->type;
  old->flags = 0;
  old->nargs = rank;
  ir_append(g.k, region, old);
  store->args[rank] = put_choice(&g, ir_mask(store), value, old);
  store->nargs = rank + 1;
  store->flags = 0;
}

// Copies a region of the forward kernel into the backward kernel: loads of operands become reads of
// the step's arrays, and state becomes variables.
static void keep_region(States *s, Region *region) {
  const Region old = *region;
  region->instrs.at = NULL;
  region->instrs.count = region->instrs.capacity = 0;
  for (int i = 0; i < old.instrs.count; i++) {
    Instr *v = old.instrs.at[i];
    if (v->op == OP_FETCH || v->op == OP_WRITEBACK) continue;
    for (int a = 0; a < v->nargs; a++) v->args[a] = image_of(&s->step, v->args[a]);
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) keep_region(s, v->regions[r]);
    if (v->op == OP_LOAD && s->step.arrays[v->ref->id]) {
      Region *top = s->step.region;
      s->step.region = region;
      take_load(&s->step, v);
      s->step.region = top;
      continue;
    }
    if (v->op == OP_LOAD || v->op == OP_STORE) v->ref = s->vars[v->ref->id];
    if (v->op == OP_STORE && v->flags & INSTR_MASKED) unmask_store(s, region, v);
    LIST_PUSH(s->step.k->arena, &region->instrs, v);
  }
}

static Blocks sign_states(Kernel *k, const Carried *c, const char *names, Ref **before) {
  LIST(Ref *) refs = {0};
  Blocks b = {
      .inputs = k->inputs, .pads = true, .sizing = NEW_ARRAY(k->arena, bool, k->inputs + 1)};
  const GridSums none = {0};
  for (int i = 0; i < k->inputs; i++) LIST_PUSH(k->arena, &refs, k->refs.at[i]);
  for (int i = 0; i < k->refs.count; i++) {
    if (!c->state[i]) continue;
    const char *name = before_name(k->refs.at[i]->name);
    if (!is_in_list(names, name)) continue;
    before[i] = renamed(k, k->refs.at[i], name);
    make_array(k, &none, before[i]);
    LIST_PUSH(k->arena, &refs, before[i]);
  }
  b.outputs = refs.count - b.inputs;
  b.refs = NEW_ARRAY(k->arena, Ref, refs.count + 1);
  for (int i = 0; i < refs.count; i++) b.refs[i] = *refs.at[i];
  return b;
}

// Marks the sizes that a computation reads, and those that they are computed from.
static void mark_sizes(const Kernel *k, const Region *region, bool *sizes) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++) mark_sizes(k, v->regions[r], sizes);
    if (v->op != OP_SIZE || sizes[v->ival]) continue;
    sizes[v->ival] = true;
    mark_sizes(k, k->sizes.at[v->ival].value, sizes);
  }
}

static bool has_size(const Kernel *k, const Ref *ref, const bool *sizes) {
  for (int i = 0; i < ref->array.rank; i++) {
    const Dim dim = ref->array.dim[i];
    if (!dim_is_const(dim) && !k->sizes.at[dim_size_index(dim)].value && sizes[dim_size_index(dim)])
      return true;
  }
  return false;
}

static void unmark_sizes(const Ref *ref, bool *sizes) {
  for (int i = 0; i < ref->array.rank; i++)
    if (!dim_is_const(ref->array.dim[i])) sizes[dim_size_index(ref->array.dim[i])] = false;
}

// The number of steps is computed from sizes of inputs: an input whose elements no state depends on
// stays if no other has its size.
static void find_sizing(const Kernel *k, const Region *states, bool *sizing) {
  bool *sizes = NEW_ARRAY(k->arena, bool, k->sizes.count + 1);
  for (int i = 0; i < k->grid.count; i++) mark_sizes(k, k->grid.at[i].extent, sizes);
  for (int i = 0; i < k->inputs; i++)
    if (k->refs.at[i]->prefetch || reads_array(states, k->refs.at[i]))
      unmark_sizes(k->refs.at[i], sizes);
  for (int i = 0; i < k->inputs; i++) {
    sizing[i] = has_size(k, k->refs.at[i], sizes);
    if (sizing[i]) unmark_sizes(k->refs.at[i], sizes);
  }
}

Blocks states_as_reference(Kernel *k, const Carried *c, const char *names) {
  static const Type none = {.dtype = DT_COUNT};
  const int refs = k->refs.count + 1;
  States s = {.step = {.k = k,
                       .c = c,
                       .region = ir_region(k),
                       .image = NEW_ARRAY(k->arena, Instr *, k->next_id),
                       .arrays = NEW_ARRAY(k->arena, Instr *, refs),
                       .stored = NEW_ARRAY(k->arena, Instr *, refs),
                       .count = k->next_id},
              .vars = NEW_ARRAY(k->arena, Ref *, refs)};
  Ref **before = NEW_ARRAY(k->arena, Ref *, refs);
  const Blocks b = sign_states(k, c, names, before);
  Grad g = here(&s.step, k->span);
  k->states.count = 0;
  LIST(Instr *) results = {0};
  LIST(Ref *) list = {0};
  for (int i = 0; i < k->inputs; i++) {
    s.step.arrays[i] = put_array(&s.step, k->refs.at[i]);
    LIST_PUSH(k->arena, &list, k->refs.at[i]);
  }
  for (int i = k->inputs; i < k->refs.count; i++)
    s.vars[i] = new_state(&g, k->refs.at[i]->name, k->refs.at[i]->type);
  for (int i = 0; i < k->refs.count; i++) {
    if (!before[i]) continue;
    LIST_PUSH(k->arena, &list, before[i]);
    LIST_PUSH(k->arena, &results, put_load(&g, s.vars[i]));
  }
  const int count = results.count;
  keep_region(&s, k->body);
  for (int i = 0; i < k->body->instrs.count; i++)
    ir_append(k, s.step.region, k->body->instrs.at[i]);
  // The next step reads what a step leaves.
  for (int i = 0; i < k->refs.count; i++)
    if (before[i]) LIST_PUSH(k->arena, &results, put_load(&g, s.vars[i]));
  Instr *yield = ir_new(k, OP_YIELD, none, k->span, results.count, results.at);
  ir_append(k, s.step.region, yield);
  clean(&g);
  yield->nargs = count;
  find_sizing(k, s.step.region, b.sizing);
  use_signature(k, &b, list.at);
  k->reference = s.step.region;
  return b;
}
