// pkc prove: proves that a kernel computes its reference, for all inputs at given sizes.
#include "codegen/verbs/gradient.h"
#include "codegen/verbs/prove.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const double usual_seconds = 60;
static const int64_t usual_bytes = (int64_t)1 << 31;

// ---- one binding

static uint64_t given_integers(const Binding *binding) {
  const Kernel *k = binding->program.kernel;
  uint64_t given = 0;
  for (int i = 0; i < k->inputs; i++) {
    InputKind kind = binding->inputs[i].kind;
    bool drawn = kind == INPUT_RANDOM || kind == INPUT_RANDINT;
    if (!is_float(k->refs.at[i]->array.dtype) && !drawn) given |= UINT64_C(1) << (i < 63 ? i : 63);
  }
  return given;
}

static ProveTask task_of(const Options *options, const Binding *binding, const Proved *proved) {
  return (ProveTask){.kernel = binding->program.kernel,
                     .other = proved->other,
                     .sizes = binding->sizes,
                     .operands = binding->operands,
                     .given = given_integers(binding),
                     .seed = options->check.seed,
                     .seconds = options->max_time > 0 ? options->max_time : usual_seconds,
                     .bytes = options->prove_memory ? options->prove_memory : usual_bytes};
}

static void run_proof(const Options *options, Binding *binding, Proved *proved) {
  ProveTask task = task_of(options, binding, proved);
  prove(options->arena, &task, &proved->result);
}

static bool is_drawn(const Binding *binding, int operand) {
  const Ref *ref = binding->program.kernel->refs.at[operand];
  InputKind kind = binding->inputs[operand].kind;
  return !is_float(ref->array.dtype) && !ref->prefetch &&
         (kind == INPUT_RANDOM || kind == INPUT_RANDINT);
}

// The ways of drawing integers that nothing fixes; sums overflow at the ends of their ranges.
typedef enum { AS_GIVEN, OTHER_SEED, THIRD_SEED, GREATEST, BY_TURNS, INTEGER_DRAWS } IntegerDraw;

// Only the least or the greatest number of the range.
static void draw_end(InputSpec *spec, bool greatest) {
  if (greatest)
    spec->low = spec->high - 1;
  else
    spec->high = spec->low + 1;
}

// False: no integers are drawn in that way.
static bool draw_again(Binding *binding, const InputSpec *given, IntegerDraw way) {
  bool drawn = false, greatest = true;
  for (int i = 0; i < binding->program.kernel->inputs; i++) {
    InputSpec *spec = &binding->inputs[i];
    if (!is_drawn(binding, i)) continue;
    *spec = given[i];
    spec->seed += (uint64_t)way * 101;
    bool ranged = spec->kind == INPUT_RANDINT, ends = way >= GREATEST;
    if (way == BY_TURNS && ranged) greatest = !greatest;
    if (ends && ranged) draw_end(spec, greatest);
    drawn |= ranged || !ends;
  }
  return drawn;
}

// If integers must be known, the proof is repeated for several draws, and the worst verdict counts.
static const char *prove_draws(const Options *options, Binding *binding, void *memory,
                               Proved *proved) {
  int inputs = binding->program.kernel->inputs;
  InputSpec *given = NEW_ARRAY(options->arena, InputSpec, inputs + 1);
  memcpy(given, binding->inputs, (size_t)inputs * sizeof *given);
  for (IntegerDraw way = AS_GIVEN; way < INTEGER_DRAWS; way++) {
    Proved one = *proved;
    if (way && (!proved->result.known || !draw_again(binding, given, way))) break;
    const char *wrong = bind_fill(binding, memory);
    if (wrong) return wrong;
    run_proof(options, binding, &one);
    proved->draws = (int)way + 1;
    if (way == AS_GIVEN || one.result.verdict > proved->result.verdict) proved->result = one.result;
    if (proved->result.verdict == UNDECIDED) break;
  }
  return NULL;
}

// Finds the instruction at which the element of the witness, or the undecided one, first differs
// from the reference.
static void locate(const Options *options, Binding *binding, void *memory, Proved *proved) {
  const ProveResult *r = &proved->result;
  bool refuted = r->verdict == REFUTED;
  if ((!refuted && !r->differs) || bind_fill(binding, memory)) return;
  ProveTask task = task_of(options, binding, proved);
  proved->parting =
      prove_locate(options->arena, &task, r->known, refuted ? proved->witness.output : r->output,
                   refuted ? proved->witness.at : r->element);
}

static void examine_difference(const Options *options, Binding *binding, void *memory,
                               Proved *proved) {
  if (find_witness(options, binding, proved->other, &proved->witness))
    proved->result.verdict = REFUTED;
  locate(options, binding, memory, proved);
}

void prove_binding(const Options *options, Binding *binding, Proved *proved) {
  proved->kernel = binding->program.kernel;
  void *memory = map_memory(binding->total_bytes, -1);
  proved->refusal = memory ? prove_draws(options, binding, memory, proved) : "no memory";
  if (!proved->refusal && proved->result.verdict != PROVED)
    examine_difference(options, binding, memory, proved);
  if (memory) munmap(memory, binding->total_bytes > 0 ? (size_t)binding->total_bytes : 1);
}

// ---- output

static const char *verdict_text(Arena *arena, const Proved *p) {
  if (p->result.verdict == EQUAL_ON_ORDERS)
    return arena_printf(arena, "equal on %d drawn orders", p->result.orders);
  return verdict_names[p->result.verdict];
}

static const char *known_text(Arena *arena, const Proved *p) {
  Buf out = {0};
  for (int i = 0; i < p->kernel->inputs; i++) {
    if (is_float(p->kernel->refs.at[i]->array.dtype)) continue;
    if (!(p->result.known >> (i < 63 ? i : 63) & 1)) continue;
    buf_printf(&out, "%s%s", out.length ? ", " : "", p->kernel->refs.at[i]->name);
  }
  return out.length ? arena_take(arena, &out) : NULL;
}

// Divisors, logarithms, roots, exponentials and roundings are listed if only one side has them.
static bool is_told(const Note *note) {
  bool shared = note->kind == NOTE_DIVISOR || note->kind == NOTE_LOG || note->kind == NOTE_ROOT ||
                note->kind == NOTE_ROUNDING || note->kind == NOTE_EXP;
  return !shared || note->sides != 3;
}

typedef LIST(const char *) Texts;

static void assumptions(Arena *arena, const Proved *p, Texts *texts) {
  const char *known = known_text(arena, p);
  if (known)
    LIST_PUSH(arena, texts,
              arena_printf(arena, "for %d draw%s of the integers %s", p->draws,
                           p->draws == 1 ? "" : "s", known));
  for (int i = 0; i < p->result.notes.count; i++) {
    const Note *note = &p->result.notes.at[i];
    if (!is_told(note)) continue;
    const char *text = p->backward ? note_text(arena, p->backward, p->kernel, note)
                                   : note_text(arena, p->kernel, p->other, note);
    bool again = false;
    for (int j = 0; j < texts->count; j++) again |= strcmp(texts->at[j], text) == 0;
    if (!again) LIST_PUSH(arena, texts, text);
  }
}

static const char *parting_text(Arena *arena, const Proved *p) {
  CheckFinding finding = {.message = p->parting.text, .span = p->parting.instr->span};
  return finding_text(arena, p->kernel->source, &finding);
}

// Prints the verdict, its reason or witness, the difference, and the assumptions.
static void print_proved(const Options *options, Binding *binding, const Proved *p) {
  Arena *arena = options->arena;
  const ProveResult *r = &p->result;
  printf("%s%s: %s", p->sizes, *p->sizes ? "" : p->kernel->name, verdict_text(arena, p));
  printf(p->forward ? ", as the gradient of %s\n" : "\n", p->forward);
  if (r->verdict == REFUTED)
    printf("  with %s: %s is %.9g, the reference says %.9g (rounding explains %.3g)\n",
           p->witness.inputs, p->witness.element, p->witness.got, p->witness.want,
           p->witness.allowed);
  if (r->verdict != REFUTED && r->reason) {
    if (r->output >= 0)
      printf("  %s: ", element_text(arena, p->kernel->refs.at[p->kernel->inputs + r->output]->name,
                                    &binding->operands[p->kernel->inputs + r->output], r->element));
    printf("%s%s\n", r->output >= 0 ? "" : "  ", r->reason);
  }
  if (p->parting.instr) printf("%s\n", parting_text(arena, p));
  Texts texts = {0};
  assumptions(arena, p, &texts);
  for (int i = 0; i < texts.count && !options->quiet; i++)
    printf("%s%s\n", i ? "    " : "  assumed:\n    ", texts.at[i]);
}

static void put_parting(const Proved *p, Buf *out) {
  int line, column;
  if (!p->parting.instr || !p->parting.instr->span.end) return;
  source_position(p->kernel->source, p->parting.instr->span.start, &line, &column);
  json_text(out, "difference", p->parting.text);
  json_int(out, "line", line);
  json_int(out, "column", column);
}

// The members of the JSON object that describes a proof.
static void put_json(const Options *options, Binding *binding, const Proved *p, Buf *out) {
  const ProveResult *r = &p->result;
  const int operand = p->kernel->inputs + r->output;
  const char *element = r->output < 0
                            ? NULL
                            : element_text(options->arena, p->kernel->refs.at[operand]->name,
                                           &binding->operands[operand], r->element);
  bool refuted = r->verdict == REFUTED;
  json_text(out, "kernel", p->backward ? p->backward->name : p->kernel->name);
  json_text(out, "sizes", p->sizes);
  if (p->forward) json_text(out, "gradient of", p->forward);
  json_text(out, "verdict", verdict_names[r->verdict]);
  json_int(out, "orders", r->orders);
  json_text(out, "element", refuted ? p->witness.element : element);
  json_text(out, "reason", refuted ? NULL : r->reason);
  json_text(out, "inputs", refuted ? p->witness.inputs : NULL);
  put_parting(p, out);
  if (!refuted) return;
  json_real(out, "got", p->witness.got);
  json_real(out, "expected", p->witness.want);
  json_real(out, "allowed", p->witness.allowed);
}

static void print_json(const Options *options, Binding *binding, const Proved *p) {
  Buf out = {0};
  Texts texts = {0};
  assumptions(options->arena, p, &texts);
  json_open(&out, NULL, '{');
  put_json(options, binding, p, &out);
  json_open(&out, "assumptions", '[');
  for (int i = 0; i < texts.count; i++) json_text(&out, NULL, texts.at[i]);
  json_close(&out, ']');
  json_close(&out, '}');
  printf("%s\n", out.text);
  buf_free(&out);
}

// ---- all sizes

static const char *sizes_text(Arena *arena, const Options *options, const SizeSet *set) {
  Buf out = {0};
  for (int i = 0; i < options->arguments.count; i++)
    buf_printf(&out, "%s%s=%s", out.length ? " " : "", options->arguments.at[i].name,
               options->arguments.at[i].value);
  for (int i = 0; i < set->count; i++)
    buf_printf(&out, "%s%s=%s", out.length ? " " : "", set->at[i].name, set->at[i].value);
  for (int i = 0; i < options->settings.count; i++)
    buf_printf(&out, "%s-D %s=%s", out.length ? " " : "", options->settings.at[i].name,
               options->settings.at[i].value);
  return out.length ? arena_take(arena, &out) : "";
}

static Options with_sizes(const Options *options, Arena *arena, const SizeSet *set) {
  Options with = *options;
  with.arena = arena;
  with.arguments.count = with.arguments.capacity = 0;
  with.arguments.at = NULL;
  for (int i = 0; i < options->arguments.count; i++)
    LIST_PUSH(arena, &with.arguments, options->arguments.at[i]);
  for (int i = 0; i < set->count; i++) LIST_PUSH(arena, &with.arguments, set->at[i]);
  return with;
}

static int status_of(Verdict verdict) {
  static const int statuses[VERDICTS] = {DONE, PROOF_BY_ORDERS, PROOF_UNDECIDED, CHECK_FAILED};
  return statuses[verdict];
}

// ---- --against

static bool same_operands(const Binding *a, const Binding *b) {
  const Kernel *x = a->program.kernel, *y = b->program.kernel;
  bool same = x->inputs == y->inputs && x->outputs == y->outputs;
  for (int i = 0; same && i < x->inputs + x->outputs; i++) {
    const HostArray *p = &a->operands[i], *q = &b->operands[i];
    same = p->dtype == q->dtype && p->rank == q->rank &&
           memcmp(p->dim, q->dim, (size_t)p->rank * sizeof *p->dim) == 0;
  }
  return same;
}

// The other side of the comparison, at the same sizes: the reference, or the kernel of the file of
// --against.
static int find_other(const Options *options, Binding *binding, Proved *proved) {
  const char *path = options->against;
  Binding *other = NEW(options->arena, Binding);
  Options own = *options;
  if (!path && !binding->program.kernel->reference)
    return user_error("%s: `%s` has no reference to prove it by", options->files.at[0],
                      binding->program.kernel->name);
  if (!path) return DONE;
  own.files.at = NULL, own.files.count = own.files.capacity = 0;
  const char *name = strstr(path, ".pk:");
  if (name) path = arena_strndup(options->arena, path, (size_t)(name + 3 - path));
  LIST_PUSH(options->arena, &own.files, path);
  own.kernel = name ? intern(name + 4) : NULL;
  own.settings.at = NULL, own.settings.count = own.settings.capacity = 0;
  int status = bind_or_report(other, &own, true);
  if (status != DONE) return status;
  if (!same_operands(binding, other))
    return user_error("%s: `%s` has other operands than `%s` of %s", path,
                      other->program.kernel->name, binding->program.kernel->name,
                      options->files.at[0]);
  proved->other = other->program.kernel;
  return DONE;
}

// ---- lines `// gradient:`

static uint64_t integers_of(const Kernel *k) {
  uint64_t given = 0;
  for (int i = 0; i < k->inputs; i++)
    if (!is_float(k->refs.at[i]->array.dtype)) given |= UINT64_C(1) << (i < 63 ? i : 63);
  return given;
}

// Proves that the backward kernel computes the derived gradient at the sizes of this run.
static void prove_run(const Options *options, const GradientRun *run, Proved *proved) {
  const ProveGradient gradient = {.forward = run->forward.program.kernel,
                                  .backward = run->backward.program.kernel,
                                  .forward_sizes = run->forward.sizes,
                                  .backward_sizes = run->backward.sizes,
                                  .forward_operands = run->gave.operands,
                                  .backward_operands = run->got.operands};
  Kernel *derived = run->derived.program.kernel;
  const ProveTask task = {.kernel = derived,
                          .gradient = &gradient,
                          .sizes = run->derived.sizes,
                          .operands = run->says.operands,
                          .given = integers_of(derived),
                          .seed = options->check.seed,
                          .seconds = options->max_time > 0 ? options->max_time : usual_seconds,
                          .bytes = options->prove_memory ? options->prove_memory : usual_bytes};
  proved->kernel = derived;
  proved->backward = gradient.backward;
  proved->draws = 1;
  prove(options->arena, &task, &proved->result);
}

static void not_compared(const Options *options, const Binding *binding, const char *why,
                         Proved *proved) {
  proved->result = (ProveResult){.verdict = UNDECIDED, .output = -1, .reason = why};
  if (options->json)
    print_json(options, (Binding *)binding, proved);
  else
    printf("%s: not compared with the gradient of %s: %s\n", proved->sizes, proved->forward, why);
}

// Results that differ refute it.
static bool refute_run(const Options *options, GradientRun *run, const GradientLine *line,
                       Proved *proved) {
  const Kernel *backward = run->backward.program.kernel;
  Comparison c;
  const int output = gradient_difference(options, run, &c), operand = backward->inputs + output;
  if (output < 0) return false;
  proved->kernel = run->derived.program.kernel;
  proved->backward = run->backward.program.kernel;
  proved->result = (ProveResult){.verdict = REFUTED, .output = -1};
  proved->witness =
      (Witness){.element = element_text(options->arena, backward->refs.at[operand]->name,
                                        &run->got.operands[operand], c.first.index),
                .got = c.first.got,
                .want = c.first.want,
                .allowed = c.first.allowed,
                .output = output,
                .at = c.first.index};
  if (options->json) {
    print_json(options, &run->derived, proved);
  } else {
    gradient_differences(options, line, run);
    printf("%s: refuted, as the gradient of %s\n", proved->sizes, line->forward);
  }
  return true;
}

// The verdict; -1: a kernel refuses these sizes.
static int prove_gradient(const Options *options, const Binding *binding, const GradientLine *line,
                          Proved *proved) {
  GradientRun run;
  const char *wrong = gradient_run(options, binding->program.source.path, line, &run);
  proved->forward = line->forward;
  if (wrong)
    not_compared(options, binding, wrong, proved);
  else if (!refute_run(options, &run, line, proved)) {
    prove_run(options, &run, proved);
    (options->json ? print_json : print_proved)(options, &run.derived, proved);
  }
  gradient_free(&run);
  return run.refused ? -1 : (int)proved->result.verdict;
}

// Proves the `// gradient:` lines of the file at these sizes.
static int prove_gradients(const Options *options, const Binding *binding, const char *sizes,
                           int *worst) {
  const Program *program = &binding->program;
  GradientLines lines = {0};
  int status = gradient_lines(options, &program->source, program->kernel->name, &lines);
  for (int i = 0; i < lines.count; i++) {
    Proved proved = {.sizes = sizes, .kernel = program->kernel};
    const int verdict = prove_gradient(options, binding, &lines.at[i], &proved);
    if (verdict > *worst) *worst = verdict;
  }
  return status;
}

// *worst: the verdict so far; -1: all sizes were refused.
static int prove_set(const Options *options, const SizeSet *set, bool usual, int *worst) {
  Arena *arena = arena_new();
  Options with = with_sizes(options, arena, set);
  Binding binding;
  Proved proved = {.sizes = sizes_text(arena, options, set)};
  int status = bind_or_report(&binding, &with, !usual);
  if (status == DONE && !binding.refusal) {
    status = find_other(&with, &binding, &proved);
    if (status == DONE) {
      prove_binding(&with, &binding, &proved);
      if (proved.refusal)
        status = user_error("%s: %s", options->files.at[0], proved.refusal);
      else
        (options->json ? print_json : print_proved)(&with, &binding, &proved);
      if (status == DONE && (int)proved.result.verdict > *worst)
        *worst = (int)proved.result.verdict;
      if (status == DONE && !options->against)
        status = prove_gradients(&with, &binding, proved.sizes, worst);
    }
  }
  arena_free(arena);
  return status;
}

// Lowers the kernel without sizes, to inspect it. NULL: it does not compile, which binding reports.
static Kernel *look_at(const Options *options, Arena *arena, Binding *binding) {
  const char *message;
  Options apart = *options;
  apart.arena = arena;
  bind_kernel(binding, arena, &apart, options->files.at[0], &message);
  return binding->program.kernel;
}

// Sets of sizes for those that are neither given nor determined by others.
static const Kernel *add_usual_sets(const Options *options, Arena *arena, SizeSets *sets) {
  Binding binding;
  const Kernel *k = look_at(options, arena, &binding);
  if (k && binding.sizes) usual_size_sets(options->arena, k, binding.sizes, sets);
  return k;
}

// The sets of --sizes; otherwise default values for the unknown sizes.
static const char *choose_sets(Options *options, SizeSets *sets, bool *usual) {
  if (options->prove_sizes) return read_size_sets(options->arena, options->prove_sizes, sets);
  Arena *arena = arena_new();
  const Kernel *k = add_usual_sets(options, arena, sets);
  *usual = sets->count > 1;
  if (*usual) {
    use_small_blocks(options, k);
    sets->count = 0;
    add_usual_sets(options, arena, sets);
  }
  SizeSet none = {0};
  if (!sets->count) LIST_PUSH(options->arena, sets, none);
  arena_free(arena);
  return NULL;
}

int verb_prove(Options *options) {
  SizeSets sets = {0};
  bool usual = false;
  int worst = -1;
  if (options->all_sizes) {
    Binding binding;
    Kernel *k = look_at(options, options->arena, &binding);
    return k ? prove_all_sizes(options, k) : bind_or_report(&(Binding){0}, options, true);
  }
  const char *wrong = choose_sets(options, &sets, &usual);
  if (wrong) return usage_error(verb_find("prove"), "%s", wrong);
  for (int i = 0; i < sets.count; i++) {
    int status = prove_set(options, &sets.at[i], usual, &worst);
    if (status != DONE) return status;
  }
  if (worst < 0)
    return user_error("%s: the kernel refuses the default sizes: give sizes", options->files.at[0]);
  return status_of((Verdict)worst);
}
