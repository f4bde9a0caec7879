// pkc check: the interpreter's findings, and the comparison of a kernel with its reference.
#include "codegen/verbs/gradient.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

static int compare_with_reference(const Options *options, Binding *binding, const Interpreted *got,
                                  const char *path) {
  Interpreted want;
  const char *wrong = interpret_binding(options->arena, binding, true, true, &want);
  if (wrong) return user_error("%s: %s", path, wrong);
  int status = print_findings(options, binding, &want.report);
  int differs = print_differences(options, binding, got->operands, &want, got->specified,
                                  "the reference says");
  if (differs != DONE) status = differs;
  if (status == DONE && !options->quiet) printf("agrees with the reference\n");
  interpreted_free(&want);
  return status;
}

static int compare_with_gradient(const Options *options, const Binding *binding,
                                 const GradientLine *line) {
  GradientRun run;
  const char *path = binding->program.source.path, *wrong = gradient_run(options, path, line, &run);
  int status = wrong ? DONE : gradient_differences(options, line, &run);
  if (wrong && !run.refused) {
    fflush(stdout);  // the findings precede the last line
    fprintf(stderr, "%s: not compared with the gradient of %s: %s\n", path, line->forward, wrong);
    status = CHECK_FAILED;
  } else if (status == DONE && !options->quiet) {
    printf("%s the gradient of %s%s%s\n", wrong ? "not compared with" : "agrees with",
           line->forward, wrong ? ": " : "", wrong ? wrong : "");
  }
  gradient_free(&run);
  return status;
}

// Checks the `// gradient:` lines of the file, each forward kernel once, at the given sizes.
static int compare_with_gradients(const Options *options, const Binding *binding) {
  const Program *program = &binding->program;
  GradientLines lines = {0};
  int status = gradient_lines(options, &program->source, program->kernel->name, &lines);
  for (int i = 0; i < lines.count; i++) {
    int compared = compare_with_gradient(options, binding, &lines.at[i]);
    if (compared != DONE) status = compared;
  }
  return status;
}

// Would it run on a TPU? Each obstacle is a separate message; a CPU runs the kernel nevertheless.
static int check_tpu(const Options *options, const Binding *binding) {
  const Chip *chip;
  int status = find_chip(options, &chip);
  if (status != DONE) return status;
  Diag *diag = diag_new(options->arena, &binding->program.source);
  Kernel *k = binding->program.kernel;
  int found = k->flow ? tpu_check_program(k, chip, binding->sizes, diag)
                      : tpu_check(k, chip, binding->sizes, diag);
  Buf text = {0};
  diag_print(diag, &text, options->diagnostics);
  if (text.length) fwrite(text.text, 1, text.length, stderr);
  buf_free(&text);
  if (found > 0) {
    fprintf(stderr, "%s: %d problem%s would keep it from running on %s; it runs on a CPU\n",
            binding->program.kernel->name, found, found == 1 ? "" : "s", chip->name);
    return CHECK_FAILED;
  }
  if (!options->quiet) printf("nothing keeps it from running on %s\n", chip->name);
  return DONE;
}

// " on 4 devices, in every order", "in all 132 orders", "in 7 of 34 orders"
static const char *orders_text(const Options *options, const Binding *binding,
                               const CheckReport *report) {
  if (!binding->program.kernel->mesh.count) return "";
  long long devices = ir_device_count(binding->program.kernel), orders = report->orders;
  const char *on =
      arena_printf(options->arena, " on %lld device%s", devices, devices == 1 ? "" : "s");
  if (report->every_order) return arena_printf(options->arena, "%s, in every order", on);
  if (report->most_orders > orders)
    return arena_printf(options->arena, "%s, in %lld of %lld orders", on, orders,
                        (long long)report->most_orders);
  return arena_printf(options->arena, "%s, in %s%lld order%s", on,
                      report->most_orders == orders && orders > 1 ? "all " : "", orders,
                      orders == 1 ? "" : "s");
}

static int interpret_all(const Options *options, Binding *binding, const char *path) {
  Interpreted got;
  const char *wrong = interpret_binding(options->arena, binding, false, false, &got);
  if (wrong) return user_error("%s: %s", path, wrong);
  int status = print_findings(options, binding, &got.report);
  long long steps = got.report.steps;
  if (status == DONE && !options->quiet)
    printf("no findings in %lld grid step%s%s\n", steps, steps == 1 ? "" : "s",
           orders_text(options, binding, &got.report));
  if (status == DONE && binding->program.kernel->reference)
    status = compare_with_reference(options, binding, &got, path);
  if (status == DONE) status = compare_with_gradients(options, binding);
  int written = write_operands(options, binding->program.kernel, got.operands);
  if (written != DONE) status = written;
  interpreted_free(&got);
  return status;
}

// The rules of a TPU follow from types and index maps; nothing runs unless results are requested.
int verb_check(Options *options) {
  Binding binding;
  const char *path = options->files.at[0];
  bool tpu = options->chip || options->chip_file;
  options->quiet |= options->json;
  int status = bind_or_report(&binding, options, true);
  if (status == DONE) status = check_output_names(options, binding.program.kernel, path);
  if (status != DONE) return status;
  if (!tpu || options->outputs.count) status = interpret_all(options, &binding, path);
  int ruled = tpu ? check_tpu(options, &binding) : DONE;
  return status == DONE ? ruled : status;
}
