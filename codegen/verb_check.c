// pkc check: the interpreter's findings, and whether the kernel means what its reference says.
#include "codegen/driver.h"

#include <stdio.h>
#include <string.h>

static int print_report(const Options *options, const CheckReport *report) {
  for (int i = 0; i < report->printed.count; i++) printf("%s\n", report->printed.at[i]);
  for (int i = 0; i < report->findings.count; i++) {
    const char *text = report->findings.at[i].text;
    fprintf(stderr, "%s%s", text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
  }
  if (report->more > 0) fprintf(stderr, "pkc: %lld more findings\n", (long long)report->more);
  if (report->findings.count > 0) return CHECK_FAILED;
  if (!options->quiet) printf("no findings in %lld grid step%s\n", (long long)report->steps, report->steps == 1 ? "" : "s");
  return DONE;
}

static int compare_with_reference(const Options *options, Binding *binding, const Interpreted *got, const char *path) {
  Kernel *k = binding->program.kernel;
  Interpreted want;
  const char *wrong = interpret_binding(options->arena, binding, true, &want);
  if (wrong) return user_error("%s: %s", path, wrong);
  int status = print_report(&(Options){.quiet = true}, &want.report);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    Tolerance tolerance = tolerance_of(k, binding->sizes, want.operands[i].dtype);
    Comparison c = compare_arrays(&got->operands[i], &want.operands[i], tolerance.relative);
    if (c.wrong == 0) continue;
    fprintf(stderr, "%s: not what the reference says: %s\n", path,
            comparison_text(options->arena, k->refs.at[i]->name, &want.operands[i], &c));
    status = CHECK_FAILED;
  }
  if (status == DONE && !options->quiet) printf("agrees with the reference\n");
  interpreted_free(&want);
  return status;
}

// Would it run on a TPU? What keeps it from that are messages of their own; a CPU runs it all the same.
static int check_tpu(const Options *options, const Binding *binding) {
  const Chip *chip;
  int status = find_chip(options, &chip);
  if (status != DONE) return status;
  Diag *diag = diag_new(options->arena, &binding->program.source);
  int found = tpu_check(binding->program.kernel, chip, binding->sizes, diag);
  Buf text = {0};
  diag_print(diag, &text, options->diagnostics);
  if (text.length) fwrite(text.text, 1, text.length, stderr);
  buf_free(&text);
  if (found > 0) {
    fprintf(stderr, "%s: %d thing%s would keep it from running on %s; it runs on a CPU\n", binding->program.kernel->name, found,
            found == 1 ? "" : "s", chip->name);
    return CHECK_FAILED;
  }
  if (!options->quiet) printf("nothing keeps it from running on %s\n", chip->name);
  return DONE;
}

int verb_check(Options *options) {
  Binding binding;
  const char *path = options->files.at[0];
  int status = bind_or_report(&binding, options, true);
  if (status != DONE) return status;
  Interpreted got;
  const char *wrong = interpret_binding(options->arena, &binding, false, &got);
  if (wrong) return user_error("%s: %s", path, wrong);
  status = print_report(options, &got.report);
  if (status == DONE && binding.program.kernel->reference) status = compare_with_reference(options, &binding, &got, path);
  interpreted_free(&got);
  if (options->chip || options->chip_file) {
    int tpu = check_tpu(options, &binding);
    if (status == DONE) status = tpu;
  }
  return status;
}
