// Derives a reference: the signature, the walk over the instructions, and the results.
#include "codegen/grad/operations.h"
#include "codegen/grad/saved.h"

#include <string.h>

// ---- the variables of the derivative

static Ref *input_named(const Kernel *k, const char *name) {
  const int i = ir_operand(k, name);
  return i >= 0 && i < k->inputs ? k->refs.at[i] : NULL;
}

static void unknown_input(const Kernel *k, const char *name, Diag *diag) {
  const char **names = NEW_ARRAY(k->arena, const char *, k->inputs + 1);
  for (int i = 0; i < k->inputs; i++) names[i] = k->refs.at[i]->name;
  const char *near = closest_name(name, names, k->inputs);
  diag_error(diag, k->span, ERR_DERIVED_BY, "--wrt: `%s` is not an input of `%s`%s%s%s", name,
             k->name, near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
}

static bool choose_input(const Kernel *k, const char *name, bool *wrt, Diag *diag) {
  Ref *ref = input_named(k, name);
  if (!ref)
    unknown_input(k, name, diag);
  else if (!has_arithmetic(ref->type.dtype))
    diag_error(diag, ref->span, ERR_DERIVED_BY, "--wrt: `%s` is %s: only floats have a gradient",
               name, dtype_info[ref->type.dtype].name);
  else
    wrt[ref->id] = true;
  return ref && wrt[ref->id];
}

bool choose_inputs(Kernel *k, const char *list, bool *wrt, Diag *diag) {
  bool good = true, any = false;
  for (int i = 0; !list && i < k->inputs; i++)
    any = (wrt[i] = has_arithmetic(k->refs.at[i]->type.dtype)) || any;
  if (!list && !any)
    diag_error(diag, k->span, ERR_DERIVED_BY,
               "`%s` has no float input to differentiate with respect to", k->name);
  while (list && *list) {
    size_t length = strcspn(list, ",");
    good = choose_input(k, arena_strndup(k->arena, list, length), wrt, diag) && good;
    list += length + (list[length] == ',');
  }
  return good && (any || list);
}

// ---- outputs that it reads

static const Ref *output_at(const Kernel *k, const Blocks *blocks, int i) {
  return blocks ? &blocks->edges[i] : k->refs.at[k->inputs + i];
}

static int output_named(const Kernel *k, const Blocks *blocks, const char *name) {
  const int count = blocks ? blocks->edge_count : k->outputs;
  for (int i = 0; i < count; i++)
    if (strcmp(output_at(k, blocks, i)->name, name) == 0) return i;
  return -1;
}

// Reads the list of --saved: which outputs of the forward kernel the gradient reads.
static bool choose_saved(const Kernel *k, const GradOptions *options, Saved *s, Diag *diag) {
  const char *list = options->saved;
  if (list && options->forward) {
    diag_error(diag, k->span, ERR_DERIVED_BY,
               "--saved applies to gradients, which --forward does not make");
    return false;
  }
  const int most = list ? (int)strlen(list) + 1 : 1;
  *s = (Saved){.of = NEW_ARRAY(k->arena, int, most),
               .array = NEW_ARRAY(k->arena, Instr *, most),
               .held = NEW_ARRAY(k->arena, Instr *, most)};
  while (list && *list) {
    const size_t length = strcspn(list, ",");
    const char *name = arena_strndup(k->arena, list, length);
    const int output = output_named(k, options->blocks, name);
    if (output < 0) {
      diag_error(diag, k->span, ERR_DERIVED_BY, "--saved: `%s` is not an output of `%s`", name,
                 k->name);
      return false;
    }
    for (int i = 0; i < s->count; i++)
      if (s->of[i] == output) {
        diag_error(diag, k->span, ERR_DERIVED_BY, "--saved names `%s` twice", name);
        return false;
      }
    s->of[s->count++] = output;
    list += length + (list[length] == ',');
  }
  return true;
}

// ---- the signature

static bool is_taken(const Kernel *k, const char *name) {
  for (int i = 0; i < k->refs.count; i++)
    if (strcmp(k->refs.at[i]->name, name) == 0) return true;
  for (int i = 0; i < k->sizes.count; i++)
    if (strcmp(k->sizes.at[i].name, name) == 0) return true;
  return false;
}

static Ref *whole_operand(Kernel *k, RefRole role, const char *name, Type type, Span span) {
  Ref *ref = NEW(k->arena, Ref);
  *ref =
      (Ref){.name = name, .role = role, .type = type, .array = type, .span = span, .whole = true};
  return ref;
}

Ref *new_operand(Kernel *k, RefRole role, const Ref *like, const char *before) {
  const char *name = intern_printf("%s%s", before, like->name);
  while (is_taken(k, name)) name = intern_printf("%s_", name);
  return whole_operand(k, role, name, like->array, like->span);
}

typedef struct {
  LIST(Ref *) inputs, outputs;
  Ref **of_input, **of_output;  // by operand: the operand that is derived from it, or given for it
  Ref **saved;                  // outputs that are read
} Signature;

static void add_operand(Kernel *k, Signature *s, Ref *ref) {
  if (ref->role == REF_INPUT)
    LIST_PUSH(k->arena, &s->inputs, ref);
  else
    LIST_PUSH(k->arena, &s->outputs, ref);
}

// Backwards: the inputs and the gradients of the outputs; gradients of inputs. Forwards: the inputs
// and directions; the outputs' tangents.
static Signature sign(Kernel *k, const bool *wrt, bool forward, const Saved *saved,
                      const Blocks *blocks) {
  Signature s = {.of_input = NEW_ARRAY(k->arena, Ref *, k->inputs + 1),
                 .of_output = NEW_ARRAY(k->arena, Ref *, k->outputs + 1),
                 .saved = NEW_ARRAY(k->arena, Ref *, saved->count + 1)};
  for (int i = 0; i < k->inputs; i++) add_operand(k, &s, k->refs.at[i]);
  for (int i = 0; i < saved->count; i++) {
    const Ref *output = output_at(k, blocks, saved->of[i]);
    const Type type = blocks ? output->type : output->array;
    s.saved[i] = whole_operand(k, REF_INPUT, output->name, type, output->span);
    add_operand(k, &s, s.saved[i]);
  }
  for (int i = 0; i < k->inputs; i++)
    if (wrt[i]) {
      s.of_input[i] = new_operand(k, forward ? REF_INPUT : REF_OUTPUT, k->refs.at[i], "d");
      add_operand(k, &s, s.of_input[i]);
    }
  for (int i = 0; i < k->outputs; i++) {
    const Ref *output = k->refs.at[k->inputs + i];
    if (!has_arithmetic(output->array.dtype)) continue;
    s.of_output[i] = new_operand(k, forward ? REF_OUTPUT : REF_INPUT, output, "d");
    add_operand(k, &s, s.of_output[i]);
  }
  return s;
}

static void apply_signature(Kernel *k, const Signature *s) {
  k->refs.count = 0;
  for (int i = 0; i < s->inputs.count; i++) LIST_PUSH(k->arena, &k->refs, s->inputs.at[i]);
  for (int i = 0; i < s->outputs.count; i++) LIST_PUSH(k->arena, &k->refs, s->outputs.at[i]);
  for (int i = 0; i < k->refs.count; i++) k->refs.at[i]->id = i;
  k->inputs = s->inputs.count;
  k->outputs = s->outputs.count;
}

// ---- the walk

static Instr *array_of(Grad *g, Ref *ref) {
  Instr *v = put(g, OP_ARRAY, ref->array, 0);
  v->ref = ref;
  return v;
}

// The reference's ARRAY of each input, which are its first instructions.
static Instr **arrays_of(Grad *g, int inputs) {
  Instr **arrays = NEW_ARRAY(g->arena, Instr *, inputs + 1);
  for (int i = 0; i < g->top->instrs.count; i++) {
    Instr *v = g->top->instrs.at[i];
    if (v->op == OP_ARRAY) arrays[v->ref->id] = v;
  }
  return arrays;
}

static Instr *rounded(Grad *g, Adjoint d, const Type *type) {
  if (!d.value) return put_number(g, 0, *type);
  return put_cast(g, settled(g, d), type->dtype);
}

static void yield_all(Grad *g, Instr *const *results, int count) {
  static const Type none = {.dtype = DT_COUNT};
  ir_append(g->k, g->top, ir_new(g->k, OP_YIELD, none, g->k->span, count, results));
}

static void start_states(Grad *g, int count) {
  for (int i = 0; i < count; i++) start_sum(g, &g->state[i]);
}

static void derive_backwards(Grad *g, const Signature *s, Saved *saved, int inputs,
                             const Instr *yield) {
  const int states = g->k->states.count;
  Instr **arrays = arrays_of(g, inputs), **given = NEW_ARRAY(g->arena, Instr *, yield->nargs + 1),
        **results = NEW_ARRAY(g->arena, Instr *, inputs + 1);
  for (int i = 0; i < yield->nargs; i++)
    if (s->of_output[i]) given[i] = array_of(g, s->of_output[i]);
  for (int i = 0; i < saved->count; i++) saved->array[i] = array_of(g, s->saved[i]);
  if (g->blocks && g->blocks->known_count)
    read_carried(g, saved, arrays, inputs);
  else if (saved->count)
    read_saved(g, saved);
  find_sums(g);
  start_states(g, states);
  start_sums(g, g->top);
  for (int i = 0; i < yield->nargs; i++) {
    if (!given[i]) continue;
    Adjoint d = masked(g, plain(given[i]), g->blocks ? inside(g, i) : NULL);
    d.zero = d.mask;  // its block is padded
    give(g, yield->args[i], d);
  }
  reverse_region(g, g->top);
  int count = 0;
  for (int i = 0; i < inputs; i++)
    if (s->of_input[i])
      results[count++] = rounded(g, finished(g, arrays[i]), &s->of_input[i]->array);
  yield_all(g, results, count);
}

// Replaces the reference by its tangent, in one walk over the instructions.
static void derive_forwards(Grad *g, const Signature *s, int inputs, const Instr *yield) {
  const int states = g->k->states.count;
  Instr **arrays = arrays_of(g, inputs), **results = NEW_ARRAY(g->arena, Instr *, yield->nargs + 1);
  Region start = {0};
  find_states(g);
  g->out = &start;
  for (int i = 0; i < inputs; i++)
    if (s->of_input[i]) {
      Instr *direction = array_of(g, s->of_input[i]);
      g->adjoint[arrays[i]->id] = plain(put_cast(g, direction, dtype_accum(direction->type.dtype)));
    }
  start_states(g, states);
  forward_region(g, g->top);
  insert_first(g, g->top, &start);
  g->out = g->top;
  int count = 0;
  for (int i = 0; i < yield->nargs; i++)
    if (s->of_output[i])
      results[count++] = rounded(g, tangent_of(g, yield->args[i]), &s->of_output[i]->array);
  yield_all(g, results, count);
}

// Refuses loops that need a tape although nothing bounds their iterations.
static void check_tapes(Grad *g) {
  for (int i = 0; i < g->tapes.count; i++) {
    Span span = g->tape_spans.at[i];
    if (!span.end || g->tapes.at[i]->id < 0) continue;
    diag_error(g->diag, span, ERR_NO_DERIVATIVE,
               "the gradient needs the value of `%s` in each iteration of this loop, and no size "
               "bounds their number: loop to a size, and select the iterations with `when`",
               g->tapes.at[i]->name + strlen(TAPE_PREFIX));
  }
}

static void derive(Grad *g, const Signature *s, Saved *saved, int inputs, bool forward) {
  const Instr *yield = g->top->instrs.at[--g->top->instrs.count];
  g->out = g->top;
  g->span = g->k->span;
  if (forward)
    derive_forwards(g, s, inputs, yield);
  else
    derive_backwards(g, s, saved, inputs, yield);
  clean(g);
  check_tapes(g);
  choose_segments(g);
}

// The rest of a kernel that only has a reference.
static void drop_body(Kernel *k) {
  k->body = NULL;
  k->flow = NULL;
  k->grid.count = k->mesh.count = 0;
}

static void tell_tape(const Grad *g, int i, GradResult *result) {
  const Type *type = &g->tapes.at[i]->type;
  int64_t bytes = (dtype_info[type->dtype].bits + 7) / 8;
  for (int axis = 0; axis < type->rank; axis++)
    if (!dim_is_const(type->dim[axis]) || __builtin_mul_overflow(bytes, type->dim[axis], &bytes))
      bytes = INT64_MAX;
  if (__builtin_add_overflow(result->kept, bytes, &result->kept)) result->kept = INT64_MAX;
  if (g->tape_loops.at[i]) LIST_PUSH(g->arena, &result->kept_in, g->tape_loops.at[i]->span);
}

static void tell(const Grad *g, const Signature *s, const Saved *saved, GradResult *result) {
  bool *again = NEW_ARRAY(g->arena, bool, g->k->next_id + 1);
  for (int id = 0; id < g->count; id++) again[id] = true;
  for (int i = 0; i < g->copies.count; i++) again[g->copies.at[i]->id] = true;
  const Operations found = operations_of(g->k, again);
  result->again = again;
  result->operations += estimated(&found.all);
  for (int i = 0; i < g->tapes.count; i++)
    if (g->tapes.at[i]->id >= 0) tell_tape(g, i, result);
  for (int i = 0; i < g->segments.count; i++)
    LIST_PUSH(g->arena, &result->segments,
              g->k->sizes.at[dim_size_index(g->segments.at[i]->steps)].name);
  for (int i = 0; i < saved->count; i++) {
    if (reads_array(g->k->reference, s->saved[i]))
      result->read = list_with(g->arena, result->read, s->saved[i]->name);
  }
}

// See grad.h.
bool grad_derive(Kernel *k, const GradOptions *options, Diag *diag) {
  const int errors = diag_error_count(diag), inputs = k->inputs, states = k->states.count;
  bool *wrt = NEW_ARRAY(k->arena, bool, inputs + 1);
  if (!choose_inputs(k, options->wrt, wrt, diag)) return false;
  const int count = k->next_id;
  Grad g = {.k = k,
            .diag = diag,
            .arena = k->arena,
            .top = k->reference,
            .region = k->reference,
            .blocks = options->blocks,
            .options = options,
            .count = count,
            .active = NEW_ARRAY(k->arena, bool, count),
            .home = NEW_ARRAY(k->arena, Region *, count),
            .adjoint = NEW_ARRAY(k->arena, Adjoint, count),
            .sum = NEW_ARRAY(k->arena, Sum, count),
            .state = NEW_ARRAY(k->arena, Sum, states + 1),
            .state_active = NEW_ARRAY(k->arena, bool, states + 1),
            .image = NEW_ARRAY(k->arena, Instr *, count)};
  Saved saved;
  if (!choose_saved(k, options, &saved, diag)) return false;
  find_active(&g, wrt);
  if (saved.count) find_held(&g, &saved);
  Signature s = sign(k, wrt, options->forward, &saved, options->blocks);
  for (int i = 0; i < inputs && options->blocks; i++)
    if (s.of_input[i] && adds_up(k, options->blocks, i))
      s.of_input[i]->array = working(s.of_input[i]->array);
  derive(&g, &s, &saved, inputs, options->forward);
  bool reads = !saved.count || options->blocks;
  for (int i = 0; i < saved.count; i++) reads = reads || reads_array(k->reference, s.saved[i]);
  if (!reads) refuse_saved(k, options->saved, diag);
  if (options->result) tell(&g, &s, &saved, options->result);
  apply_signature(k, &s);
  k->name = intern_printf("%s_%s", k->name, options->forward ? "forward" : "backward");
  if (!options->blocks) drop_body(k);
  return diag_error_count(diag) == errors;
}
