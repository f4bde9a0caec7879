// `pkc test`: interpreter, reference, portable C and native C must agree.
#include "codegen/verbs/gradient.h"
#include "codegen/verbs/prove.h"
#include "codegen/verbs/test/test.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/pass.h"

#include <stdlib.h>
#include <string.h>

enum { TEST_SECONDS = 120 };  // a compiled kernel that takes longer is considered to hang

// One way of compiling a kernel.
typedef struct {
  const char *name, *cc;
  const Target *target;
  const char *flags;
  bool naive, linked;
} Variant;

static const char *first_line(Arena *arena, const char *text) {
  return arena_strndup(arena, text, strcspn(text, "\n"));
}

static const char *bind_words(TestFile *test, Options *options, Binding *binding) {
  const char *message;
  if (bind_kernel(binding, test->arena, options, test->path, &message) == DONE) return NULL;
  if (message) return message;
  Buf text = {0};
  diag_print(binding->program.diag, &text, DIAG_TEXT);
  message = first_line(test->arena, text.text ? text.text : "does not compile");
  buf_free(&text);
  return message;
}

// The current directive.
typedef struct {
  TestFile *test;
  const Options *options;
  Binding *binding;
} Agreement;

// Compares the outputs of `got` with those of `want`; NULL or the first difference.
static const char *compare_outputs(const Agreement *a, const char *what, const HostArray *got,
                                   const Reference *want) {
  Kernel *k = a->binding->program.kernel;
  for (int i = 0; i < k->outputs; i++) {
    Comparison c =
        compare_arrays(&got[i], &want->outputs[i], want->allowed[i], &a->options->tolerance, NULL);
    const char *name = k->refs.at[k->inputs + i]->name;
    if (c.wrong)
      return arena_printf(a->test->arena, "%s: %s", what,
                          comparison_text(a->test->arena, name, &want->outputs[i], &c));
  }
  return NULL;
}

// ---- the interpreter after each pass that changes the kernel

typedef struct {
  const Agreement *agreement;
  const Interpreted *expected;
  Kernel *whole;  // the kernel itself, or the program that calls it
  const char *wrong;
} PassCheck;

static void interpret_after(const Pass *pass, Kernel *k, bool changed, void *context) {
  PassCheck *check = context;
  (void)k;
  if (check->wrong || !changed) return;
  const Agreement *a = check->agreement;
  Kernel *whole = check->whole;
  Binding copy = *a->binding;
  copy.program.kernel = whole;
  Interpreted got;
  check->wrong = interpret_binding(a->test->arena, &copy, false, false, &got);
  if (!check->wrong && got.report.findings.count)
    check->wrong = arena_printf(a->test->arena, "after pass %s: %s", pass->name,
                                first_line(a->test->arena, got.report.findings.at[0].text));
  if (!check->wrong)
    check->wrong =
        compare_outputs(a, arena_printf(a->test->arena, "interpreted after pass %s", pass->name),
                        got.operands + whole->inputs, &check->expected->outputs);
  interpreted_free(&got);
}

static const char *check_passes(const Agreement *a, const Interpreted *expected) {
  Arena *arena = a->test->arena;
  Program copy = a->binding->program;
  copy.kernel = lower(arena, &copy.source, copy.file, a->options->kernel,
                      &a->binding->lower_options, diag_new(arena, &copy.source));
  REQUIRE(copy.kernel);
  PassCheck check = {a, expected, copy.kernel, NULL};
  Buf notes = {0};
  const Flow *flow = copy.kernel->flow;
  if (!flow) run_passes(copy.kernel, &notes, interpret_after, &check);
  for (int i = 0; flow && i < flow->callees.count; i++)
    run_passes(flow->callees.at[i].kernel, &notes, interpret_after, &check);
  buf_free(&notes);
  return check.wrong;
}

// ---- DMAs at other times, parallel steps in another order

static void count_copies(Instr *instr, void *context) {
  *(int *)context += instr->op == OP_COPY_START;
}

// Compares the interpreter's results for other orders of steps and copies.
static const char *check_orders(const Agreement *a, const Interpreted *expected) {
  Kernel *k = a->binding->program.kernel;
  static const CheckOptions orders[] = {{.dma = DMA_AT_START, .seed = 1, .cores = 2},
                                        {.dma = DMA_AT_RANDOM, .seed = 2},
                                        {.dma = DMA_AT_RANDOM, .seed = 3, .cores = 1}};
  const char *wrong = NULL;
  int copies = 0;
  ir_walk(k->body, count_copies, &copies);
  for (int i = 0; k->flow && i < k->flow->callees.count; i++)
    ir_walk(k->flow->callees.at[i].kernel->body, count_copies, &copies);
  for (size_t i = 0; i < sizeof orders / sizeof *orders && copies && !wrong; i++) {
    Binding copy = *a->binding;
    Interpreted got;
    copy.check = orders[i];
    wrong = interpret_binding(a->test->arena, &copy, false, false, &got);
    if (!wrong && got.report.findings.count)
      wrong = arena_printf(a->test->arena, "with DMAs in another order: %s",
                           first_line(a->test->arena, got.report.findings.at[0].text));
    if (!wrong)
      wrong = compare_outputs(a, "with DMAs in another order", got.operands + k->inputs,
                              &expected->outputs);
    interpreted_free(&got);
  }
  return wrong;
}

// ---- compiled

// Compares the outputs of compiled code with those of the interpreter and of the reference, and the
// naive C with the reference.
static const char *compare_compiled(const Agreement *a, const char *name, const Session *session,
                                    const Interpreted *interpreted, const Interpreted *reference) {
  Arena *arena = a->test->arena;
  const HostArray *outputs = session->binding.operands + session->binding.program.kernel->inputs;
  const char *wrong = compare_outputs(a, arena_printf(arena, "%s against the interpreter", name),
                                      outputs, &interpreted->outputs);
  if (!reference->operands) return wrong;
  if (!wrong)
    wrong = compare_outputs(a, arena_printf(arena, "%s against the reference", name), outputs,
                            &reference->outputs);
  if (wrong || !session->judge) return wrong;
  wrong = compare_outputs(a, "the judging C against the reference", session->data.expected.arrays,
                          &reference->outputs);
  if (!wrong)
    wrong = compare_outputs(a, "the naive C against the reference", session->data.naive.arrays,
                            &reference->outputs);
  return wrong ? wrong
               : compare_outputs(a, "compiled, against the judging C", outputs,
                                 &session->data.reference);
}

// Runs the kernel as compiled by one compiler for one target, and compares.
static const char *run_variant(TestFile *test, const Options *options, const Variant *variant,
                               const Interpreted *interpreted, const Interpreted *reference) {
  Session session = {.data.fd = -1};
  Options own = *options;
  own.target = variant->target;
  own.dumps = NULL;
  const char *wrong = bind_words(test, &own, &session.binding);
  if (wrong) return wrong;
  const char *naive_flags = arena_printf(test->arena, "-Og %s", variant->flags);
  BuildFlags flags = {.cc = variant->cc,
                      .flags = variant->flags,
                      .naive_flags = variant->naive && !own.reference ? naive_flags : NULL,
                      .timed = true,
                      .linked = variant->linked,
                      .fenced = true};
  wrong = session_open(&session, &own, &flags);
  if (!wrong) {
    ExecuteOptions how = {.mode = "run",
                          .threads = options->threads,
                          .judge = session.judge,
                          .naive = session.naive,
                          .checked = true,
                          .quiet = true,
                          .timeout = TEST_SECONDS};
    execute(test->arena, session.program, &session.binding, &session.data, &how, &session.outcome);
    wrong = session.outcome.message;
  }
  if (wrong) wrong = arena_printf(test->arena, "%s: %s", variant->name, wrong);
  Agreement agreement = {test, options, &session.binding};
  if (!wrong) wrong = compare_compiled(&agreement, variant->name, &session, interpreted, reference);
  session_close(&session);
  return wrong;
}

#if defined(__x86_64__)
static const char portable_flags[] = "-march=x86-64 -DSIMDE_NO_NATIVE";
#else
static const char portable_flags[] = "-DSIMDE_NO_NATIVE";
#endif

// With outlined functions the C compiles in half the time of -O2, with the same meaning.
static const char *portable_optimisation(void) {
  const char *wish = getenv("PKC_TEST_PORTABLE");
  return wish && *wish ? wish : "-O1 -DPK_OUTLINE";
}

// The compilers in $PKC_TEST_CC (separated by blanks), otherwise the default one; each native and
// portable.
static const char *run_variants(TestFile *test, const Options *options,
                                const Interpreted *interpreted, const Interpreted *reference) {
  const char *list[] = {getenv("PKC_TEST_CC")};
  const char *const *compilers = split_words(test->arena, list, 1);
  const Target *native = options->target, *generic = target_find("generic");
  const char *portable =
      arena_printf(test->arena, "%s %s", portable_optimisation(), portable_flags);
  const char *wrong = NULL;
  for (int i = 0; !wrong && (i == 0 || compilers[i]); i++) {
    const char *cc = compilers[i], *name = cc ? cc : "cc";
    Variant variants[] = {
        {arena_printf(test->arena, "native (%s)", name), cc, native, target_flags(native), i == 0,
         true},
        {arena_printf(test->arena, "portable (%s)", name), cc, generic, portable, false, false}};
    for (int v = 0; !wrong && v < (runner() ? 1 : 2); v++)
      wrong = run_variant(test, options, &variants[v], interpreted, reference);
    if (!cc) break;
  }
  return wrong;
}

// ---- the directives

// The expected outputs, from the kernel's own reference or the one in Python.
static const char *find_reference(const Agreement *a, const Interpreted *got, Interpreted *want) {
  Kernel *k = a->binding->program.kernel;
  if (!a->options->reference)
    return k->reference ? interpret_binding(a->test->arena, a->binding, true, true, want) : NULL;
  want->operands = a->binding->operands;
  return python_reference(a->test->arena, a->options->reference, a->binding, got->allowed,
                          a->options->reference_time, &want->outputs);
}

// Reads the words of a directive as `pkc run FILE words` would.
static bool test_options(TestFile *test, const Directive *directive, const char *arguments,
                         Options *options) {
  const char *texts[] = {arguments};
  const char *const *words = split_words(test->arena, texts, 1);
  LIST(char *) list = {0};
  LIST_PUSH(test->arena, &list, (char *)(uintptr_t)test->path);
  for (int i = 0; words[i]; i++) {
    bool threads = strncmp(words[i], "threads=", 8) == 0;
    const char *word = threads ? arena_printf(test->arena, "--%s", words[i]) : words[i];
    LIST_PUSH(test->arena, &list, (char *)(uintptr_t)word);
  }
  options_init(options, test->arena);
  options->no_cache = test->options->no_cache;
  options->target = test->options->target;
  options->kernel = directive->kernel ? directive->kernel : test->options->kernel;
  options->threads = test->options->threads;
  options->tolerance = test->options->tolerance;
  options->long_cell = test->options->long_cell;
  options->reference = test->options->reference;
  for (int i = 0; i < test->options->settings.count; i++)
    LIST_PUSH(test->arena, &options->settings, test->options->settings.at[i]);
  const DirectiveKind kind = directive->kind;
  const char *verb = kind == DIRECTIVE_CHECK || kind == DIRECTIVE_GRADIENT ? "check"
                     : kind == DIRECTIVE_PROVE                             ? "prove"
                                                                           : "run";
  return options_read(options, verb_find(verb), list.count, list.at) == DONE &&
         options->files.count == 1;
}

const char *bind_directive(TestFile *test, const Directive *directive, Options *options,
                           Binding *binding) {
  if (!test_options(test, directive, directive->words, options))
    return "the directive is malformed";
  const char *wrong = bind_words(test, options, binding);
  if (wrong || !binding->refusal) return wrong;
  return arena_printf(test->arena, "refused: %s", binding->refusal);
}

// A `test` directive: interpreter, passes, compiled variants and reference must agree.
const char *test_agreement(TestFile *test, const Directive *directive) {
  Options options;
  Binding binding;
  const char *wrong = bind_directive(test, directive, &options, &binding);
  if (wrong) return wrong;
  Interpreted got = {0}, want = {0};
  Kernel *k = binding.program.kernel;
  Agreement agreement = {test, &options, &binding};
  wrong = interpret_binding(test->arena, &binding, false, true, &got);
  if (!wrong && got.report.findings.count)
    wrong = arena_printf(test->arena, "interpreter: %s",
                         first_line(test->arena, got.report.findings.at[0].text));
  if (!wrong) wrong = find_reference(&agreement, &got, &want);
  if (!wrong && want.operands)
    wrong = compare_outputs(&agreement, "interpreter against the reference",
                            got.operands + k->inputs, &want.outputs);
  if (!wrong) wrong = check_orders(&agreement, &got);
  if (!wrong) wrong = check_passes(&agreement, &got);
  if (!wrong) wrong = run_variants(test, &options, &got, &want);
  interpreted_free(&got);
  interpreted_free(&want);
  return wrong;
}

const char *test_finding(TestFile *test, const Directive *directive) {
  Options options;
  Binding binding;
  const char *wrong = bind_directive(test, directive, &options, &binding);
  if (wrong) return wrong;
  Interpreted got;
  wrong = interpret_binding(test->arena, &binding, false, false, &got);
  bool found = false;
  for (int i = 0; !wrong && i < got.report.findings.count; i++)
    found = found || strstr(got.report.findings.at[i].text, directive->text);
  if (!wrong && !found)
    wrong = got.report.findings.count
                ? arena_printf(test->arena, "found instead: %s",
                               first_line(test->arena, got.report.findings.at[0].text))
                : "nothing was found";
  interpreted_free(&got);
  return wrong;
}

// Compares the backward kernel with the derived reference of its forward kernel.
const char *test_gradient(TestFile *test, const Directive *directive) {
  Options options;
  GradientLine line;
  GradientRun run;
  const char *wrong = gradient_line(test->arena, test->path, directive->words, &line);
  if (wrong) return wrong;
  if (!test_options(test, directive, line.words, &options)) return "the directive is malformed";
  wrong = gradient_run(&options, test->path, &line, &run);
  Agreement agreement = {test, &options, &run.backward};
  if (!wrong)
    wrong = compare_outputs(
        &agreement, arena_printf(test->arena, "not the gradient of %s", line.forward),
        run.got.operands + run.backward.program.kernel->inputs, &run.want.outputs);
  gradient_free(&run);
  return wrong;
}

// The verdict is the one after `->`; without it, proved.
const char *test_proof(TestFile *test, const Directive *directive) {
  Options options;
  Binding binding;
  Proved proved = {.sizes = ""};
  const char *wrong = bind_directive(test, directive, &options, &binding);
  if (wrong) return wrong;
  if (!binding.program.kernel->reference) return "there is no reference";
  prove_binding(&options, &binding, &proved);
  if (proved.refusal) return proved.refusal;
  const char *wanted = *directive->text ? directive->text : verdict_names[PROVED],
             *got = verdict_names[proved.result.verdict];
  if (strcmp(wanted, got) == 0) return NULL;
  return proved.result.reason ? arena_printf(test->arena, "%s: %s", got, proved.result.reason)
                              : got;
}

// Both pkc, which knows the sizes, and the compiled kernel, which receives the arrays, must refuse.
const char *test_refusal(TestFile *test, const Directive *directive) {
  Options options;
  Session session = {.data.fd = -1};
  if (!test_options(test, directive, directive->words, &options))
    return "the directive is malformed";
  const char *message, *wrong = NULL;
  if (bind_kernel(&session.binding, test->arena, &options, test->path, &message) != DONE)
    return message && strstr(message, directive->text) ? NULL
           : message                                   ? message
                                                       : "does not compile";
  const Binding *binding = &session.binding;
  if (binding->refusal && !strstr(binding->refusal, directive->text))
    return arena_printf(test->arena, "refused otherwise: %s", binding->refusal);
  if (!binding->placed || check_memory(test->arena, binding->total_bytes))
    return binding->refusal ? NULL : "too large to be run";
  wrong = session_open(&session, &options, &(BuildFlags){.flags = target_flags(options.target)});
  if (!wrong) {
    ExecuteOptions how = {.mode = "run",
                          .threads = options.threads,
                          .vmem_limit = options.vmem_limit,
                          .quiet = true,
                          .timeout = TEST_SECONDS};
    execute(test->arena, session.program, binding, &session.data, &how, &session.outcome);
    const Outcome *o = &session.outcome;
    if (!o->message)
      wrong = "the compiled kernel does not refuse";
    else if (!o->refused || !strstr(o->message, directive->text))
      wrong = arena_printf(test->arena, "the compiled kernel says: %s", o->message);
  }
  session_close(&session);
  return wrong;
}
