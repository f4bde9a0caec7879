// `pkc test --passes`: after each pass of the compiler a kernel computes what it did as lowered,
// for all inputs, at the sizes of its `// test:` directives.
#include "codegen/verbs/test/test.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/pass.h"
#include "codegen/prove/prove.h"

#include <sys/mman.h>

static const double seconds_of_pass = 3;  // of the processor
static const int64_t bytes_of_numbers = (int64_t)1 << 30;

typedef struct {
  TestFile *test;
  const Directive *directive;
  Binding *binding;
  Kernel *whole;  // the kernel itself, or the program that calls it
  Prover *prover;
  const char *wrong;
  bool over;
} PassProof;

// If a proof takes too long, those of the following passes would, too.
static void note_undecided(PassProof *p, const Pass *pass, const ProveResult *result) {
  p->test->undecided++;
  buf_printf(&p->test->failures, "undecided %s:%d: %s: after pass %s: %s\n", p->test->path,
             p->directive->line, p->directive->words, pass->name,
             result->reason ? result->reason : verdict_names[result->verdict]);
  p->over = result->limited;
}

static const char *difference_text(const PassProof *p, const Pass *pass, const ProveResult *r) {
  const Kernel *k = p->whole;
  int operand = k->inputs + r->output;
  return arena_printf(p->test->arena, "after pass %s %s is another number", pass->name,
                      element_text(p->test->arena, k->refs.at[operand]->name,
                                   &p->binding->operands[operand], r->element));
}

// Proves that a pass has kept the kernel's meaning.
static void prove_pass(const Pass *pass, Kernel *k, bool changed, void *context) {
  PassProof *p = context;
  (void)k;
  if (p->wrong || p->over || !changed) return;
  ProveResult result;
  Arena *arena = arena_new();
  prover_prove(p->prover, arena, &result);
  p->test->by_orders += result.verdict == EQUAL_ON_ORDERS;
  if (result.verdict <= EQUAL_ON_ORDERS)
    p->test->passed++;
  else if (result.differs)
    p->wrong = difference_text(p, pass, &result);
  else
    note_undecided(p, pass, &result);
  arena_free(arena);
}

// Runs the passes on a kernel that is lowered for this purpose.
static void prove_kernel(PassProof *p, Kernel *k) {
  Buf notes = {0};
  run_passes(k, &notes, prove_pass, p);
  buf_free(&notes);
}

// Proves that each pass leaves the kernel, or each kernel of a program, with the same results.
// Returns NULL, or an error message.
static const char *prove_all(TestFile *test, const Directive *directive, const Options *options,
                             Binding *binding) {
  Program copy = binding->program;
  copy.kernel = lower(test->arena, &copy.source, copy.file, options->kernel,
                      &binding->lower_options, diag_new(test->arena, &copy.source));
  REQUIRE(copy.kernel);
  ProveTask task = {.kernel = copy.kernel,
                    .other = binding->program.kernel,
                    .refines = true,
                    .sizes = binding->sizes,
                    .operands = binding->operands,
                    .seconds = seconds_of_pass,
                    .bytes = bytes_of_numbers};
  PassProof proof = {.test = test,
                     .directive = directive,
                     .binding = binding,
                     .whole = copy.kernel,
                     .prover = prover_start(test->arena, &task)};
  const Flow *flow = copy.kernel->flow;
  if (!flow) prove_kernel(&proof, copy.kernel);
  for (int i = 0; flow && i < flow->callees.count; i++)
    prove_kernel(&proof, flow->callees.at[i].kernel);
  prover_end(proof.prover);
  return proof.wrong;
}

const char *test_passes(TestFile *test, const Directive *directive) {
  Options options;
  Binding binding;
  const char *wrong = bind_directive(test, directive, &options, &binding);
  if (wrong) return wrong;
  void *memory = map_memory(binding.total_bytes, -1);
  if (!memory) return "no memory";
  wrong = bind_fill(&binding, memory);
  if (!wrong) wrong = prove_all(test, directive, &options, &binding);
  munmap(memory, binding.total_bytes > 0 ? (size_t)binding.total_bytes : 1);
  return wrong;
}
