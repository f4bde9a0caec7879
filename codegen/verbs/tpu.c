// pkc tpu: models the cost of a kernel on a TPU.
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

static int list_chips(const Options *options) {
  Buf out = {0};
  if (options->sources) {
    chip_list_sources(&out);
    tpu_list_regimes(&out);
    tpu_list_rules(&out);
  } else {
    chip_list(&out);
  }
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
  return user_error("there is no chip %s%s%s%s; `pkc tpu --chips` lists them", options->chip,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static const Slice *slice_of(const Options *options) {
  Slice *slice = NEW(options->arena, Slice);
  *slice = (Slice){options->mesh, options->over, options->slices};
  return slice;
}

// Chips on which the kernel cannot be modelled are omitted, for example if their network has too
// few axes.
static int model_all(const Options *options, Binding *b, Model **models, int *count) {
  for (int i = *count = 0; i < chip_count(); i++) {
    const char *wrong;
    models[*count] = tpu_model(options->arena, b->program.kernel, b->sizes, chip_at(i),
                               (ModelOptions){.slice = slice_of(options)}, &wrong);
    if (wrong && b->program.kernel->mesh.count) continue;
    if (wrong)
      return user_error("%s: the grid cannot be modelled: %s", options->files.at[0], wrong);
    (*count)++;
  }
  return DONE;
}

static int write_file_of(const char *path, Buf *text) {
  int status = write_result(path, text);
  buf_free(text);
  return status;
}

// Text and HTML contain a table of all chips; requested files are written before the report.
static int report(const Options *options, Binding *b, const Model *m) {
  enum { MOST_WALKED = 250000 };  // steps: a tenth of a second a chip
  Model **all = NEW_ARRAY(options->arena, Model *, chip_count());
  bool others = tpu_model_counts(m).walked <= MOST_WALKED;
  int count = 0;
  Buf trace = {0}, svg = {0}, html = {0}, out = {0};
  int status =
      !others || (options->json && !options->html) ? DONE : model_all(options, b, all, &count);
  if (options->trace && status == DONE) {
    tpu_trace(m, &trace);
    status = write_file_of(options->trace, &trace);
  }
  if (options->svg && status == DONE) {
    tpu_roofline_svg(m, &svg);
    status = write_file_of(options->svg, &svg);
  }
  if (options->html && status == DONE) {
    tpu_html(m, all, count, &html);
    status = write_file_of(options->html, &html);
  }
  if (status != DONE) return status;
  if (options->json) {
    tpu_json(m, options->files.at[0], &out);
  } else {
    tpu_text(m, &out);
    tpu_table(all, count, &out);
  }
  return write_file_of("-", &out);
}

// Sets the elements of a program's inputs that its calls prefetch, if they are given.
static const char *load_prefetched(Binding *b, Arena *arena) {
  Kernel *k = b->program.kernel;
  const char *wrong = NULL;
  for (int i = 0; k->flow && i < k->inputs && !wrong; i++) {
    int64_t bytes = 0;
    HostArray *array = NEW(arena, HostArray);
    if (!b->inputs[i].text || !tpu_program_prefetches(k, i)) continue;
    if (!operand_shape(k, k->refs.at[i], b->sizes, array) || !add_array_bytes(&bytes, array))
      return arena_printf(arena, "%s is too large", k->refs.at[i]->name);
    array->data = arena_alloc(arena, (size_t)bytes + 1);
    wrong = input_fill(arena, &b->inputs[i], i, array);
    if (wrong) wrong = arena_printf(arena, "%s: %s", k->refs.at[i]->name, wrong);
    k->refs.at[i]->prefetched = array;
  }
  return wrong;
}

static int model_program(const Options *options, Binding *b, const Chip *chip, bool log,
                         const ProgramModel **m) {
  enum { MOST_EVENTS = 100000 };
  const char *wrong = load_prefetched(b, options->arena), *path = options->files.at[0];
  if (wrong) return user_error("%s: %s", path, wrong);
  ModelOptions how = {
      .events = log ? MOST_EVENTS : 0, .whole = options->walk_all, .slice = slice_of(options)};
  *m = tpu_program(options->arena, b->program.kernel, b->sizes, chip, how, &wrong);
  if (!*m) return user_error("%s: the program cannot be modelled: %s", path, wrong);
  wrong = tpu_program_unfit(*m);
  return wrong ? user_error("%s: %s", path, wrong) : DONE;
}

static int write_pictures(const Options *options, const ProgramModel *m, ProgramModel *const *all,
                          int count) {
  Buf trace = {0}, svg = {0}, html = {0};
  int status = DONE;
  if (options->trace) {
    tpu_program_trace(m, &trace);
    status = write_file_of(options->trace, &trace);
  }
  if (options->svg && status == DONE) {
    tpu_program_svg(m, &svg);
    status = write_file_of(options->svg, &svg);
  }
  if (options->html && status == DONE) {
    tpu_program_html(m, all, count, &html);
    status = write_file_of(options->html, &html);
  }
  return status;
}

// Models a program, and prints its report.
static int report_program(const Options *options, Binding *b, const Chip *chip) {
  ProgramModel **all = NEW_ARRAY(options->arena, ProgramModel *, chip_count());
  const ProgramModel *m;
  const char *wrong = NULL, *path = options->files.at[0];
  int count = 0, status = model_program(options, b, chip, options->trace || options->html, &m);
  for (int i = 0; status == DONE && i < chip_count(); i++) {
    all[count] = tpu_program(options->arena, b->program.kernel, b->sizes, chip_at(i),
                             (ModelOptions){.slice = slice_of(options)}, &wrong);
    if (wrong && b->program.kernel->mesh.count) continue;
    if (wrong) status = user_error("%s: the program cannot be modelled: %s", path, wrong);
    count++;
  }
  if (status == DONE) status = write_pictures(options, m, all, count);
  if (status != DONE) return status;
  Buf out = {0};
  if (options->json) {
    tpu_program_json(m, path, &out);
  } else {
    tpu_program_text(m, &out);
    tpu_program_table(all, count, &out);
  }
  return write_file_of("-", &out);
}

static int model_kernel(const Options *options, const Chip *chip) {
  enum { MOST_EVENTS = 100000 };
  Binding b;
  int status = bind_or_report(&b, options, true);
  if (status != DONE) return status;
  if (b.program.kernel->flow) return report_program(options, &b, chip);
  const char *wrong;
  ModelOptions how = {.events = options->trace || options->html ? MOST_EVENTS : 0,
                      .whole = options->walk_all,
                      .slice = slice_of(options)};
  const Model *m = tpu_model(options->arena, b.program.kernel, b.sizes, chip, how, &wrong);
  if (wrong)
    return user_error(
        b.program.kernel->mesh.count ? "%s: %s" : "%s: the grid cannot be modelled: %s",
        options->files.at[0], wrong);
  if ((wrong = tpu_model_unfit(m))) return user_error("%s: %s", options->files.at[0], wrong);
  return report(options, &b, m);
}

// ---- --compare

static bool is_size(const Kernel *k, const char *name) {
  for (int i = 0; i < k->sizes.count; i++)
    if (strcmp(k->sizes.at[i].name, name) == 0) return true;
  return false;
}

static void copy_lists(Options *other, const Options *options) {
  other->settings.capacity = other->settings.count;  // a push copies
  other->arguments.at = NEW_ARRAY(options->arena, Argument, options->arguments.count + 1);
  memcpy(other->arguments.at, options->arguments.at,
         sizeof(Argument) * (size_t)options->arguments.count);
  other->arguments.capacity = other->arguments.count;
  other->files.at = NEW_ARRAY(options->arena, const char *, options->files.count);
  memcpy(other->files.at, options->files.at, sizeof(char *) * (size_t)options->files.count);
}

// Replaces the given value of a size by NAME=VALUE.
static void set_size(Options *other, const char *name, const char *value) {
  for (int i = 0; i < other->arguments.count; i++)
    if (strcmp(other->arguments.at[i].name, name) == 0) {
      other->arguments.at[i].value = value;
      return;
    }
  LIST_PUSH(other->arena, &other->arguments, ((Argument){name, value}));
}

// Another FILE.pk, whose kernel :NAME is compared; or settings NAME=VALUE,..: of a size, a static,
// or the chip.
static const char *read_other(Options *other, const Options *options, const Kernel *k) {
  Arena *arena = options->arena;
  const char *text = options->compare, *dot = strstr(text, ".pk");
  *other = *options;
  copy_lists(other, options);
  if (dot && (dot[3] == '\0' || dot[3] == ':')) {
    other->files.at[0] = arena_strndup(arena, text, (size_t)(dot + 3 - text));
    if (dot[3]) other->kernel = intern(dot + 4);
    return NULL;
  }
  while (*text) {
    size_t length = strcspn(text, ","), name = strcspn(text, "=");
    if (name == 0 || name >= length)
      return "--compare expects FILE.pk, FILE.pk:KERNEL or NAME=VALUE,..";
    const char *left = arena_strndup(arena, text, name),
               *right = arena_strndup(arena, text + name + 1, length - name - 1);
    if (strcmp(left, "chip") == 0)
      other->chip = right;
    else if (strcmp(left, "mesh") == 0)
      other->mesh = right;
    else if (is_size(k, left))
      set_size(other, left, right);
    else
      LIST_PUSH(arena, &other->settings, ((StaticSetting){.name = left, .value = right}));
    text += length + (text[length] == ',');
  }
  return NULL;
}

// Of a kernel or of a program; the other is NULL.
static int model_one(const Options *options, Binding *b, const Model **m,
                     const ProgramModel **program) {
  const Chip *chip;
  const char *wrong;
  *m = NULL;
  *program = NULL;
  int status = find_chip(options, &chip);
  if (status == DONE) status = bind_or_report(b, options, true);
  if (status != DONE) return status;
  if (b->program.kernel->flow) return model_program(options, b, chip, false, program);
  *m = tpu_model(options->arena, b->program.kernel, b->sizes, chip,
                 (ModelOptions){.slice = slice_of(options)}, &wrong);
  if (!wrong) wrong = tpu_model_unfit(*m);
  return wrong ? user_error("%s: %s", options->files.at[0], wrong) : DONE;
}

// --compare: models two kernels, and prints the differences.
static int compare(const Options *options) {
  Binding *bindings = NEW_ARRAY(options->arena, Binding, 2);
  const Model *a, *b;
  const ProgramModel *all_a, *all_b;
  Options other;
  int status = model_one(options, &bindings[0], &a, &all_a);
  if (status != DONE) return status;
  const char *wrong = read_other(&other, options, bindings[0].program.kernel);
  if (wrong) return user_error("%s", wrong);
  status = model_one(&other, &bindings[1], &b, &all_b);
  if (status != DONE) return status;
  if (!a != !b)
    return user_error("--compare takes two kernels or two programs, and %s is a %s",
                      other.files.at[0], b ? "kernel" : "program");
  const char *const names[] = {options->files.at[0], options->compare};
  Buf out = {0};
  if (a)
    tpu_compare(a, b, names, options->json, &out);
  else
    tpu_program_compare(all_a, all_b, names, options->json, &out);
  return write_file_of("-", &out);
}

// ---- --sweep

typedef struct {
  const Options *options;
  LIST(Argument) ranges, rest;  // arguments that are a range of a static's values, and the others
} SweepArguments;

static const char *read_sweep(SweepArguments *s) {
  Arena *arena = s->options->arena;
  const char *text = s->options->sweep, *equals = strchr(text, '=');
  if (!equals || equals == text) return "--sweep expects NAME=LOW:HIGH";
  LIST_PUSH(arena, &s->ranges,
            ((Argument){arena_strndup(arena, text, (size_t)(equals - text)), equals + 1}));
  for (int i = 0; i < s->options->arguments.count; i++) {
    Argument a = s->options->arguments.at[i];
    if (strchr("0123456789", a.value[0]) && strpbrk(a.value, ":,"))
      LIST_PUSH(arena, &s->ranges, a);
    else
      LIST_PUSH(arena, &s->rest, a);
  }
  return NULL;
}

// The first error of a kernel that does not compile, without its position.
static const char *first_error(Arena *arena, const Program *program) {
  Buf text = {0};
  diag_print(program->diag, &text, DIAG_TEXT);
  const char *at = text.text ? strstr(text.text, "error: ") : NULL;
  const char *message =
      at ? arena_strndup(arena, at + 7, strcspn(at + 7, "\n")) : "it does not compile";
  buf_free(&text);
  return message;
}

static const char *bind_candidate(void *context, Arena *arena, const Argument *statics, int count,
                                  Kernel **k, int64_t **sizes) {
  const SweepArguments *s = context;
  Options options = *s->options;
  options.arena = arena;
  options.arguments.at = s->rest.at;
  options.arguments.count = options.arguments.capacity = s->rest.count;
  options.settings.capacity = options.settings.count;  // a push copies
  for (int i = 0; i < count; i++)
    LIST_PUSH(arena, &options.settings,
              ((StaticSetting){.name = statics[i].name, .value = statics[i].value}));
  Binding *b = NEW(arena, Binding);  // the kernel's source is in it
  const char *message;
  if (bind_kernel(b, arena, &options, options.files.at[0], &message) != DONE)
    return message ? message : first_error(arena, &b->program);
  if ((message = load_prefetched(b, arena))) return message;
  *k = b->program.kernel;
  *sizes = b->sizes;
  return b->refusal;
}

static int sweep(const Options *options, const Chip *chip) {
  SweepArguments s = {.options = options};
  const char *wrong = read_sweep(&s);
  if (wrong) return user_error("%s", wrong);
  SweepRequest request = {.arena = options->arena,
                          .path = options->files.at[0],
                          .ranges = s.ranges.at,
                          .count = s.ranges.count,
                          .chip = chip,
                          .slice = slice_of(options),
                          .json = options->json,
                          .bind = bind_candidate,
                          .context = &s};
  return tpu_sweep(&request);
}

static int mesh(const Options *options, const Chip *chip) {
  MeshRequest request = {.arena = options->arena,
                         .mesh = options->mesh,
                         .over = options->over,
                         .what = options->files.count ? options->files.at[0] : "",
                         .arguments = options->arguments.at,
                         .count = options->arguments.count,
                         .chip = chip,
                         .json = options->json};
  return tpu_mesh(&request);
}

int verb_tpu(Options *options) {
  const Chip *chip;
  int status = find_chip(options, &chip);
  if (status != DONE) return status;
  if (options->chips || options->sources) return list_chips(options);
  const char *file = options->files.count ? options->files.at[0] : "";
  if ((options->over || options->slices) && !options->mesh)
    return user_error("--over and --slices require --mesh");
  bool collective = options->mesh && !strstr(file, ".pk");
  if (collective && options->slices) return user_error("--slices is for kernels");
  if (collective) return mesh(options, chip);
  options->on_slice = true;
  if (options->compare) return compare(options);
  return options->sweep ? sweep(options, chip) : model_kernel(options, chip);
}
