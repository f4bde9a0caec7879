// pkc explain: how a kernel is compiled and why, or what an error code means.
#include "codegen/ir/flow.h"
#include "codegen/run/tuning.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_example(const char *title, const char *text) {
  printf("\n%s\n\n", title);
  while (*text) {
    int length = (int)strcspn(text, "\n");
    printf("    %.*s\n", length, text);
    text += length + (text[length] == '\n');
  }
}

// Prints a paragraph in lines of at most 80 columns.
static void print_paragraph(const char *text) {
  enum { COLUMNS = 80 };
  for (int column = 0; *text; text += *text == ' ') {
    int length = (int)strcspn(text, " ");
    bool fits = column > 0 && column + 1 + length <= COLUMNS;
    printf("%s%.*s", column == 0 ? "" : fits ? " " : "\n", length, text);
    column = fits ? column + 1 + length : length;
    text += length;
  }
  printf("\n");
}

enum { CODES = 10000 };

// Do the digits of a code begin with these, or equal them without zeros, like E0202 for E22?
static bool is_near(Arena *arena, int code, const char *digits) {
  const char *own = arena_printf(arena, "%d", code);
  if (strncmp(own, digits, strlen(digits)) == 0) return true;
  for (; *own; own++)
    if (*own != '0' && *own != *digits++) return false;
  return !*digits;
}

static int no_code(Arena *arena, const char *code) {
  const char *digits = code + 1 + strspn(code + 1, "0");
  Buf near = {0};
  int last = 0;
  for (int n = 0; n < CODES; n++) {
    if (!error_meaning(n)) continue;
    last = n;
    if (*digits && is_near(arena, n, digits))
      buf_printf(&near, "%sE%04d", near.length ? ", " : ": did you mean ", n);
  }
  const char *list = arena_take(arena, &near);
  return *list ? user_error("there is no error %s%s?", code, list)
               : user_error("there is no error %s: the last one is E%04d", code, last);
}

static int explain_code(Arena *arena, const char *code) {
  int64_t number;
  const char *meaning = parse_int(code + 1, &number) && number >= 0 && number < CODES
                            ? error_meaning((int)number)
                            : NULL;
  if (!meaning) return no_code(arena, code);
  const Explanation *more = error_explanation((int)number);
  printf("E%04d: %s\n", (int)number, meaning);
  if (!more) return DONE;
  printf("\n");
  print_paragraph(more->text);
  if (!more->wrong) return DONE;
  print_example("Wrong:", more->wrong);
  print_example("Right:", more->right);
  return DONE;
}

// The text of explain: the notes of the passes, then the explanations of the decisions.
static int explain_kernel(Options *options, Program *program) {
  Buf notes = {0}, c = {0}, explain = {0};
  program_optimise(program, options, &notes);
  program_emit(program, options, &c, NULL, NULL, &explain);
  int status = DONE;
  if (explain.length) status = write_result("-", &explain);
  if (notes.length) {
    printf("%sPasses\n", explain.length ? "\n" : "");
    status = write_result("-", &notes);
  }
  buf_free(&notes);
  buf_free(&c);
  buf_free(&explain);
  return status;
}

static bool gives_sizes(const Options *options, const Program *program) {
  for (int i = 0; i < options->arguments.count; i++)
    if (!program_has_static(program, options->arguments.at[i].name)) return true;
  return false;
}

// Explains each call of a program once, because its sizes do not depend on the loops around it.
typedef struct {
  Buf *out;
  bool *seen;  // by step
} IterationAccount;

static bool explain_iteration(const FlowIteration *iteration, void *context) {
  IterationAccount *account = context;
  Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  bool *seen = &account->seen[iteration->step - iteration->k->flow->steps.at];
  int64_t *sizes;
  if (*seen || flow_callee_sizes(iteration, &sizes)) return true;
  *seen = true;
  buf_printf(account->out, "\nLine %d: ", ir_line(iteration->k, iteration->step->span));
  flow_print_call(iteration->k, iteration->step, account->out);
  if (callee->inputs && callee->refs.at[0]->prefetch)
    buf_puts(account->out, "\n  its grid may depend on prefetched operands\n");
  else
    explain_sizes(callee, sizes, account->out);
  return true;
}

// Incomplete or refused sizes only add a message to the output.
static int explain_for_sizes(const Options *options) {
  Binding binding;
  const char *message = NULL;
  int status = bind_kernel(&binding, options->arena, options, options->files.at[0], &message);
  if (status == DONE) message = binding.refusal;
  if (message) printf("\nFor these sizes: %s\n", message);
  if (status != DONE || message) return DONE;
  Buf out = {0};
  if (binding.program.kernel->flow)
    flow_walk(binding.program.kernel, binding.sizes, explain_iteration,
              &(IterationAccount){&out, NEW_ARRAY(options->arena, bool,
                                                  binding.program.kernel->flow->steps.count + 1)});
  else
    explain_sizes(binding.program.kernel, binding.sizes, &out);
  status = write_result("-", &out);
  buf_free(&out);
  return status;
}

// Prints the tuned block sizes; the explanation that follows is for these.
static void print_tuning(const Options *options, const TuningEntry *tuned) {
  Buf text = {0};
  put_blocks(&tuned->blocks, '=', " ", &text);
  printf("Blocks of %s.tuning: %s, %.2f times as fast as the default\n\n", options->files.at[0],
         text.text, tuned->times);
  buf_free(&text);
}

int verb_explain(Options *options) {
  const char *path = options->files.at[0];
  if (path[0] == 'E' && path[1] && !path[1 + strspn(path + 1, "0123456789")])
    return explain_code(options->arena, path);
  Program program;
  const TuningEntry *tuned = tuning_apply(options, options_threads(options));
  if (tuned) print_tuning(options, tuned);
  int status = program_load(&program, options, path);
  if (status != DONE) return status;
  const char *wrong = program_check_names(&program, options, true);
  if (wrong) return user_error("%s: %s", path, wrong);
  if (options->gradient) return explain_gradient(options, &program);
  status = explain_kernel(options, &program);
  if (status == DONE && gives_sizes(options, &program)) status = explain_for_sizes(options);
  return status == DONE && options->threads > 0 ? explain_threads(options) : status;
}
