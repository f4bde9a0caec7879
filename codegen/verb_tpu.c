// pkc tpu: what a kernel costs on a TPU, by a model.
#include "codegen/tpu_internal.h"

#include <stdio.h>
#include <string.h>

static int list_chips(const Options *options) {
  Buf out = {0};
  if (options->sources)
    chip_list_sources(&out);
  else
    chip_list(&out);
  int status = write_result("-", &out);
  buf_free(&out);
  return status;
}

int find_chip(const Options *options, const Chip **chip) {
  *chip = NULL;
  if (options->chip_file) {
    const char *wrong = chip_file(options->arena, options->chip_file, chip);
    if (wrong) return user_error("%s: %s", options->chip_file, wrong);
  }
  if (options->chip || !*chip) *chip = chip_find(options->chip ? options->chip : "v5e");
  if (*chip) return DONE;
  const char *names[64];
  int count = chip_count() < 64 ? chip_count() : 64;
  for (int i = 0; i < count; i++) names[i] = chip_at(i)->name;
  const char *near = closest_name(options->chip, names, count);
  return user_error("there is no chip %s%s%s%s; `pkc tpu --chips` lists them", options->chip, near ? "; did you mean " : "",
                    near ? near : "", near ? "?" : "");
}

static int model_all(const Options *options, Binding *b, Model *models) {
  for (int i = 0; i < chip_count(); i++) {
    const char *wrong = model_run(&models[i], options->arena, b->program.kernel, b->sizes, chip_at(i), NULL, false);
    if (wrong) return user_error("%s: the grid cannot be modelled: %s", options->files.at[0], wrong);
  }
  return DONE;
}

static int write_file_of(const char *path, Buf *text) {
  int status = write_result(path, text);
  buf_free(text);
  return status;
}

// Text and HTML hold a table of all chips; the files that were asked for come before the report.
static int report(const Options *options, Binding *b, const Model *m) {
  Model *all = NEW_ARRAY(options->arena, Model, chip_count());
  Buf trace = {0}, svg = {0}, html = {0}, out = {0};
  int status = options->json && !options->html ? DONE : model_all(options, b, all);
  if (options->trace && status == DONE) {
    tpu_trace(m, &trace);
    status = write_file_of(options->trace, &trace);
  }
  if (options->svg && status == DONE) {
    tpu_roofline_svg(m, &svg);
    status = write_file_of(options->svg, &svg);
  }
  if (options->html && status == DONE) {
    tpu_html(m, all, chip_count(), &html);
    status = write_file_of(options->html, &html);
  }
  if (status != DONE) return status;
  if (options->json) {
    tpu_json(m, options->files.at[0], &out);
  } else {
    tpu_text(m, &out);
    tpu_table(all, chip_count(), &out);
  }
  return write_file_of("-", &out);
}

static int model_kernel(const Options *options, const Chip *chip) {
  enum { MOST_EVENTS = 100000 };
  Binding b;
  int status = bind_or_report(&b, options, true);
  if (status != DONE) return status;
  Model m;
  TraceLog log = {.arena = options->arena, .most_events = MOST_EVENTS};
  bool logs = options->trace || options->html;
  const char *wrong = model_run(&m, options->arena, b.program.kernel, b.sizes, chip, logs ? &log : NULL, options->walk_all);
  if (wrong) return user_error("%s: the grid cannot be modelled: %s", options->files.at[0], wrong);
  return report(options, &b, &m);
}

int verb_tpu(Options *options) {
  const Chip *chip;
  int status = find_chip(options, &chip);
  if (status != DONE) return status;
  if (options->chips || options->sources) return list_chips(options);
  if (options->mesh) return tpu_mesh(options, chip);
  return options->sweep ? tpu_sweep(options, chip) : model_kernel(options, chip);
}
