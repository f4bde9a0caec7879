// pkc grad: the derivative of a kernel's reference, as a reference, and what pkc explain says of
// it.
#include "codegen/grad/grad.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

static void print_heading(const Options *options, const Kernel *k, const char *of, Buf *out) {
  buf_printf(out, "// The %s of %s",
             options->forward ? "derivative along given directions" : "gradient", of);
  for (int i = 0; i < k->statics.count; i++)
    buf_printf(out, "%s%s = %s", i ? ", " : ", with ", k->statics.at[i].name,
               k->statics.at[i].value);
  buf_puts(out, ".\n");
}

// Called for each kernel of a program of gradients.
typedef struct {
  Program *program;
  const Options *options;
} Lowering;

static Kernel *lower_again(void *context) {
  Lowering *l = context;
  LowerOptions how = {.numerics = l->options->numerics};
  how.settings = program_settings(l->program, l->options, &how.setting_count);
  if (!program_lower(l->program, l->options, &how)) INTERNAL("a kernel that lowers only once");
  return l->program->kernel;
}

static Kernel *derive_reference(Lowering *l, const GradOptions *how, Diag *diag) {
  Kernel *k = lower_again(l);
  return (k->reference || grad_steps(k, diag)) && grad_derive(k, how, diag) ? k : NULL;
}

// Writes the derivative of the body, or of the reference. Loops that keep values are known once it
// is derived: they get segments if the memory is limited.
static bool derive(Lowering *l, const GradOptions *how, bool of_body, Diag *diag, Buf *text) {
  if (of_body) return grad_kernel(lower_again, l, how, diag, text);
  GradResult first = *how->result;
  GradOptions again = *how;
  Kernel *k = derive_reference(l, how, diag);
  if (k && how->memory && how->result->kept > how->memory && how->result->kept_in.count) {
    again.segmented = how->result;
    again.result = &first;
    k = derive_reference(l, &again, diag);
    *how->result = first;
  }
  if (k) grad_print(k, how->result, how->memory, text);
  return k;
}

// pkc grad: writes the derivative of a kernel's reference.
int verb_grad(Options *options) {
  Program program;
  const char *path = options->files.at[0];
  int status = program_load(&program, options, path);
  if (status != DONE) return status;
  const char *wrong = program_check_names(&program, options, false);
  if (wrong) return user_error("%s: %s", path, wrong);
  Kernel *k = program.kernel;
  const char *of = k->name;
  Buf text = {0}, laid_out = {0};
  print_heading(options, k, of, &text);
  if (!k->reference && k->flow && !options->derive_kernel)
    return user_error("%s: `%s` has no reference, and `pkc grad` differentiates references", path,
                      of);
  GradResult result = {0};
  GradOptions how = {.wrt = options->wrt,
                     .forward = options->forward,
                     .saved = options->saved,
                     .vmem_limit = options->vmem_limit,
                     .memory = options->grad_memory,
                     .result = &result};
  Lowering lowering = {&program, options};
  if (how.saved && strcmp(how.saved, "auto") == 0)
    how.saved = grad_choose_saved(lower_again, &lowering, &how, options->derive_kernel);
  if (!derive(&lowering, &how, options->derive_kernel, program.diag, &text)) {
    program_report(&program, options);
    return USER_ERROR;
  }
  const Source source = {.path = "<derived>", .text = text.text, .length = text.length};
  Diag *diag = diag_new(options->arena, &source);
  if (!format_source(options->arena, &source, diag, &laid_out))
    INTERNAL("a text that does not parse");
  status = write_result(options->output ? options->output : "-", &laid_out);
  buf_free(&text);
  buf_free(&laid_out);
  return status;
}

// ---- pkc explain --gradient

// The choices of one derivation; false: diag says why there is none.
static bool choices(Lowering *l, bool of_body, Diag *diag, GradResult *result) {
  GradOptions how = {.result = result};
  Buf text = {0};
  how.saved = grad_choose_saved(lower_again, l, &how, of_body);
  const bool good = derive(l, &how, of_body, diag, &text);
  buf_free(&text);
  return good;
}

// See verbs.h.
int explain_gradient(const Options *options, Program *program) {
  Lowering lowering = {program, options};
  Diag *diag = diag_new(options->arena, &program->source);
  GradResult result = {0};
  const bool of_body = choices(&lowering, true, diag, &result);
  if (!of_body) result = (GradResult){0};
  if (!of_body && !choices(&lowering, false, program->diag, &result)) {
    program_report(program, options);
    return USER_ERROR;
  }
  printf("Gradient of the %s, as by pkc grad%s --saved auto\n", of_body ? "body" : "reference",
         of_body ? " --kernel" : "");
  if (!of_body && diag_count(diag)) printf("  not of the body: %s\n", diag_message(diag, 0)->text);
  for (int i = 0; i < result.notes.count; i++) printf("  %s\n", result.notes.at[i]);
  if (!result.notes.count)
    printf("  reads no outputs, computes nothing again, and keeps nothing\n");
  return DONE;
}
