// Findings of the interpreter, as text or JSON, and differences from what was expected.
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

// "i=0, j=1" as {"i":0,"j":1}
static void put_step(Buf *out, const char *step) {
  buf_puts(out, ",\"grid_step\":");
  if (!step) return buf_puts(out, "null");
  const char *separator = "{";
  while (*step) {
    size_t name = strcspn(step, "="), length = strcspn(step, ",");
    buf_printf(out, "%s\"%.*s\":%.*s", separator, (int)name, step, (int)(length - name - 1), step + name + 1);
    step += length + strspn(step + length, ", ");
    separator = ",";
  }
  buf_putc(out, '}');
}

static void put_place(Buf *out, const Source *source, Span span) {
  buf_puts(out, "{\"file\":");
  put_json_string(out, source->path);
  if (span.start == 0 && span.end == 0) return buf_puts(out, ",\"line\":null,\"column\":null");
  int line, column;
  source_position(source, span.start, &line, &column);
  buf_printf(out, ",\"line\":%d,\"column\":%d", line, column);
}

static void put_message(Buf *out, const char *message, const char *step) {
  buf_puts(out, ",\"message\":");
  put_json_string(out, message);
  put_step(out, step);
}

static void print_json(const Source *source, const CheckFinding *f) {
  Buf out = {0};
  put_place(&out, source, f->span);
  buf_printf(&out, ",\"kind\":\"%s\"", f->kind);
  put_message(&out, f->message, f->step);
  buf_puts(&out, ",\"operand\":");
  if (f->operand)
    put_json_string(&out, f->operand);
  else
    buf_puts(&out, "null");
  buf_printf(&out, ",\"count\":%lld,\"notes\":[", (long long)f->count);
  for (int i = 0; i < f->notes.count; i++) {
    const FindingNote *note = &f->notes.at[i];
    if (i) buf_putc(&out, ',');
    put_place(&out, source, note->span);
    put_message(&out, note->message, note->step);
    buf_putc(&out, '}');
  }
  buf_puts(&out, "]}");
  puts(out.text);
  buf_free(&out);
}

int print_findings(const Options *options, const Binding *binding, const CheckReport *report) {
  for (int i = 0; i < report->printed.count; i++) fprintf(options->json ? stderr : stdout, "%s\n", report->printed.at[i]);
  for (int i = 0; i < report->findings.count; i++) {
    if (options->json)
      print_json(&binding->program.source, &report->findings.at[i]);
    else
      fprintf(stderr, "%s\n", report->findings.at[i].text);
  }
  if (report->more > 0) fprintf(stderr, "pkc: %lld more findings\n", (long long)report->more);
  return report->findings.count > 0 ? CHECK_FAILED : DONE;
}

int print_differences(const Options *options, Binding *binding, const HostArray *got, const Interpreted *want,
                      uint8_t *const *specified, const char *what) {
  Kernel *k = binding->program.kernel;
  int status = DONE;
  for (int i = 0; i < k->outputs; i++) {
    const HostArray *expected = &want->outputs.outputs[i];
    Comparison c = compare_arrays(&got[k->inputs + i], expected, want->outputs.allowed[i], &options->tolerance,
                                  specified ? specified[i] : NULL);
    if (c.wrong == 0) continue;
    status = CHECK_FAILED;
    const char *name = k->refs.at[k->inputs + i]->name, *text = comparison_text(options->arena, name, expected, &c);
    text = arena_printf(options->arena, "not what %s: %s", what, text);
    CheckFinding finding = {.kind = "difference", .message = text, .operand = name, .count = 1};
    if (options->json)
      print_json(&binding->program.source, &finding);
    else
      fprintf(stderr, "%s: %s\n", options->files.at[0], text);
  }
  return status;
}

// ---- operands as files

static int find_operand(const Kernel *k, const char *name) {
  for (int i = 0; i < k->inputs + k->outputs; i++)
    if (strcmp(k->refs.at[i]->name, name) == 0) return i;
  return -1;
}

int check_output_names(const Options *options, const Kernel *k, const char *path) {
  for (int i = 0; i < options->outputs.count; i++)
    if (find_operand(k, options->outputs.at[i].name) < 0)
      return user_error("%s: -o %s=..: %s has no operand of that name", path, options->outputs.at[i].name, k->name);
  return DONE;
}

int write_operands(const Options *options, const Kernel *k, const HostArray *operands) {
  for (int i = 0; i < options->outputs.count; i++) {
    const Argument *output = &options->outputs.at[i];
    const char *wrong = npy_write(options->arena, output->value, &operands[find_operand(k, output->name)]);
    if (wrong) return user_error("cannot write %s: %s", output->value, wrong);
  }
  return DONE;
}
