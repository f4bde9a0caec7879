// pkc grad: the derivative of a kernel's reference, as a reference.
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
  if (how.saved && strcmp(how.saved, "auto") == 0) {
    how.saved = grad_choose_saved(lower_again, &lowering, &how, options->derive_kernel);
    k = lower_again(&lowering);
  }
  bool derived =
      options->derive_kernel
          ? grad_kernel(lower_again, &lowering, &how, program.diag, &text)
          : (k->reference || grad_steps(k, program.diag)) && grad_derive(k, &how, program.diag);
  if (!derived) {
    program_report(&program, options);
    return USER_ERROR;
  }
  if (!options->derive_kernel) grad_print(k, &result, how.memory, &text);
  const Source source = {.path = "<derived>", .text = text.text, .length = text.length};
  Diag *diag = diag_new(options->arena, &source);
  if (!format_source(options->arena, &source, diag, &laid_out))
    INTERNAL("a text that does not parse");
  status = write_result(options->output ? options->output : "-", &laid_out);
  buf_free(&text);
  buf_free(&laid_out);
  return status;
}
