// Findings of the interpreter, as text or JSON, and differences from what was expected.
#include "codegen/ir/share.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// "i=0, j=1" as {"i":0,"j":1}
static void put_step(Buf *out, const char *key, const char *step) {
  if (!step) return json_text(out, key, NULL);
  json_open(out, key, '{');
  while (*step) {
    size_t name = strcspn(step, "="), length = strcspn(step, ",");
    json_int(out, intern_n(step, name), strtoll(step + name + 1, NULL, 10));
    step += length + strspn(step + length, ", ");
  }
  json_close(out, '}');
}

static void put_place(Buf *out, const Source *source, Span span) {
  json_text(out, "file", source->path);
  if (span.start == 0 && span.end == 0) {
    json_text(out, "line", NULL);
    json_text(out, "column", NULL);
    return;
  }
  int line, column;
  source_position(source, span.start, &line, &column);
  json_int(out, "line", line);
  json_int(out, "column", column);
}

static void put_message(Buf *out, const char *message, const char *device, const char *step) {
  json_text(out, "message", message);
  if (device) put_step(out, "device", device);
  put_step(out, "grid_step", step);
}

static void print_json(const Source *source, const CheckFinding *f) {
  Buf out = {0};
  json_open(&out, NULL, '{');
  put_place(&out, source, f->span);
  json_text(&out, "kind", f->kind);
  put_message(&out, f->message, f->device, f->step);
  json_text(&out, "operand", f->operand);
  json_int(&out, "count", f->count);
  json_open(&out, "notes", '[');
  for (int i = 0; i < f->notes.count; i++) {
    const FindingNote *note = &f->notes.at[i];
    json_open(&out, NULL, '{');
    put_place(&out, source, note->span);
    put_message(&out, note->message, note->device, note->step);
    json_close(&out, '}');
  }
  buf_puts(&out, "]}");
  puts(out.text);
  buf_free(&out);
}

int print_findings(const Options *options, const Binding *binding, const CheckReport *report) {
  for (int i = 0; i < report->printed.count; i++)
    fprintf(options->json ? stderr : stdout, "%s\n", report->printed.at[i]);
  for (int i = 0; i < report->findings.count; i++) {
    if (options->json)
      print_json(&binding->program.source, &report->findings.at[i]);
    else
      fprintf(stderr, "%s\n", report->findings.at[i].text);
  }
  if (report->more > 0) fprintf(stderr, "pkc: %lld more findings\n", (long long)report->more);
  return report->findings.count > 0 ? CHECK_FAILED : DONE;
}

int print_differences(const Options *options, Binding *binding, const HostArray *got,
                      const Interpreted *want, uint8_t *const *specified, const char *what) {
  Kernel *k = binding->program.kernel;
  int status = DONE;
  for (int i = 0; i < k->outputs; i++) {
    const HostArray *expected = &want->outputs.outputs[i];
    Comparison c = compare_arrays(&got[k->inputs + i], expected, want->outputs.allowed[i],
                                  &options->tolerance, specified ? specified[i] : NULL);
    if (c.wrong == 0) continue;
    status = CHECK_FAILED;
    const char *name = k->refs.at[k->inputs + i]->name,
               *text = comparison_text(options->arena, name, expected, &c);
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

int check_output_names(const Options *options, const Kernel *k, const char *path) {
  for (int i = 0; i < options->outputs.count; i++)
    if (ir_operand(k, options->outputs.at[i].name) < 0)
      return user_error("%s: -o %s=..: %s has no operand of that name", path,
                        options->outputs.at[i].name, k->name);
  return DONE;
}

// A file for each device, with its part.
static const char *write_pieces(Arena *arena, const Kernel *k, const Ref *operand,
                                const HostArray *whole, const char *path) {
  const char *wrong = NULL;
  for (int i = 0; i < ir_device_count(k) && !wrong; i++) {
    Share share = device_share(k, operand, whole, i);
    int64_t count;
    array_elements(&share.part, &count);
    share.part.data = malloc((size_t)(count * dtype_bytes(whole->dtype)) + 1);
    if (!share.part.data) return "no memory for a device's part";
    Rows rows = rows_of(&share, whole);
    visit_rows(&share, whole, take_row, &rows);
    wrong = npy_write(arena, piece_path(arena, path, i), &share.part, false);
    free(share.part.data);
  }
  return wrong;
}

int write_operands(const Options *options, const Kernel *k, const HostArray *operands) {
  for (int i = 0; i < options->outputs.count; i++) {
    const Argument *output = &options->outputs.at[i];
    int operand = ir_operand(k, output->name);
    const char *wrong = has_pieces(output->value)
                            ? write_pieces(options->arena, k, k->refs.at[operand],
                                           &operands[operand], output->value)
                            : npy_write(options->arena, output->value, &operands[operand],
                                        k->refs.at[operand]->packed);
    if (wrong) return user_error("cannot write %s: %s", output->value, wrong);
  }
  return DONE;
}
