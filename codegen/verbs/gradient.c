// Runs a forward reference, then a backward kernel and the derived reference on its results.
#include "codegen/verbs/gradient.h"
#include "codegen/grad/grad.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- the line

static const char *next_word(const char **at) {
  *at += strspn(*at, " \t");
  const char *word = *at;
  *at += strcspn(*at, " \t");
  return intern_n(word, (size_t)(*at - word));
}

static const char *next_to(Arena *arena, const char *path, const char *file) {
  const char *slash = strrchr(path, '/');
  if (*file == '/' || !slash) return file;
  return arena_printf(arena, "%.*s/%s", (int)(slash - path), path, file);
}

const char *gradient_line(Arena *arena, const char *path, const char *text, GradientLine *line) {
  static const char malformed[] = "expected BACKWARD of FORWARD [in FILE] ARGUMENTS";
  *line = (GradientLine){.path = path, .backward = next_word(&text)};
  if (strcmp(next_word(&text), "of") != 0) return malformed;
  line->forward = next_word(&text);
  line->words = text;
  if (strcmp(next_word(&text), "in") == 0) {
    line->path = next_to(arena, path, next_word(&text));
    line->words = text;
  }
  return *line->forward ? NULL : malformed;
}

static bool has_forward(const GradientLines *lines, const GradientLine *line) {
  for (int i = 0; i < lines->count; i++)
    if (lines->at[i].forward == line->forward && strcmp(lines->at[i].path, line->path) == 0)
      return true;
  return false;
}

static int refuse_line(const Options *options, const Source *source, Span span, const char *wrong) {
  Diag *diag = diag_new(options->arena, source);
  Buf text = {0};
  diag_error(diag, span, ERR_GRADIENT_LINE, "%s", wrong);
  diag_print(diag, &text, options->diagnostics);
  fwrite(text.text, 1, text.length, stderr);
  buf_free(&text);
  return USER_ERROR;
}

int gradient_lines(const Options *options, const Source *source, const char *backward,
                   GradientLines *lines) {
  static const char marker[] = "// gradient:";
  int status = DONE;
  for (const char *at = source->text; (at = strstr(at, marker));) {
    GradientLine line;
    const uint32_t start = (uint32_t)(at - source->text);
    at += sizeof marker - 1;
    const size_t length = strcspn(at, "\r\n");
    const char *text = arena_strndup(options->arena, at, length);
    const char *wrong = gradient_line(options->arena, source->path, text, &line);
    const Span span = {start, start + (uint32_t)(sizeof marker - 1 + length)};
    if (wrong) status = refuse_line(options, source, span, wrong);
    if (!wrong && line.backward == backward && !has_forward(lines, &line))
      LIST_PUSH(options->arena, lines, line);
  }
  return status;
}

// ---- one kernel

static const char *first_message(Arena *arena, const Diag *diag) {
  Buf text = {0};
  diag_print(diag, &text, DIAG_TEXT);
  const char *all = text.text ? text.text : "does not compile",
             *message = arena_strndup(arena, all, strcspn(all, "\n"));
  buf_free(&text);
  return message;
}

static const char *bind_one(const Options *options, const char *path, const char *kernel,
                            Binding *binding) {
  Options with = *options;
  const char *message;
  with.kernel = kernel;
  if (bind_kernel(binding, options->arena, &with, path, &message) == DONE)
    return binding->refusal
               ? arena_printf(options->arena, "%s: refused: %s", kernel, binding->refusal)
               : NULL;
  return arena_printf(options->arena, "%s: %s", kernel,
                      message ? message : first_message(options->arena, binding->program.diag));
}

static Options without_arguments(const Options *options) {
  Options with = *options;
  with.arguments.count = with.arguments.capacity = 0;
  with.arguments.at = NULL;
  return with;
}

// Lowers a kernel without sizes, for the names of its operands.
static const char *lower_one(const Options *options, const char *path, const char *kernel,
                             Program *program) {
  Options with = without_arguments(options);
  with.kernel = kernel;
  if (!program_read(program, &with, options->arena, path))
    return arena_printf(options->arena, "cannot read %s: %s", path, read_problem());
  if (!program->kernel_node)
    return arena_printf(options->arena, "there is no kernel %s in %s", kernel, path);
  LowerOptions how = {.numerics = options->numerics};
  how.settings = program_settings(program, &with, &how.setting_count);
  return program_lower(program, &with, &how) ? NULL : first_message(options->arena, program->diag);
}

static const char *interpret_one(Arena *arena, Binding *binding, bool reference,
                                 Interpreted *result) {
  const char *wrong = interpret_binding(arena, binding, reference, true, result);
  if (wrong || !result->report.findings.count) return wrong;
  const char *found = result->report.findings.at[0].text;
  return arena_strndup(arena, found, strcspn(found, "\n"));
}

static int input_named(const Kernel *k, const char *name) {
  const int i = ir_operand(k, name);
  return i < k->inputs ? i : -1;
}

static int output_named(const Kernel *k, const char *name) {
  const int i = ir_operand(k, name);
  return i >= k->inputs ? i : -1;
}

// ---- the derived reference

// The output to whose gradient the name of an operand refers; -1: none.
static int given_for(const Kernel *forward, const char *name) {
  return name[0] == 'd' ? output_named(forward, name + 1) : -1;
}

// The gradient of an output: given by an argument, otherwise drawn; 0 if the backward kernel does
// not receive it.
static const char *fill_gradient(const Options *options, const Kernel *forward, int output,
                                 bool taken, HostArray *array) {
  InputSpec spec;
  input_parse(options->arena, taken ? "random:0" : "zeros", &spec);
  for (int i = 0; i < options->arguments.count; i++) {
    const Argument *a = &options->arguments.at[i];
    if (given_for(forward, a->name) != output) continue;
    const char *wrong = input_parse(options->arena, a->value, &spec);
    if (!wrong && spec.kind == INPUT_FILE)
      wrong = npy_read_header(options->arena, spec.path, &spec.header);
    if (wrong) return arena_printf(options->arena, "%s=%s %s", a->name, a->value, wrong);
  }
  return input_fill(options->arena, &spec, output, array);
}

static const char *new_gradient(const Options *options, GradientRun *run, int output,
                                InputSpec *spec) {
  const Kernel *forward = run->forward.program.kernel, *backward = run->backward.program.kernel;
  HostArray *array = NEW(options->arena, HostArray);
  int64_t bytes = 0;
  *array = run->gave.operands[output];
  if (!add_array_bytes(&bytes, array)) return "a gradient is too large";
  array->data = arena_alloc(options->arena, (size_t)bytes + 1);
  *spec = (InputSpec){.kind = INPUT_ARRAY, .array = array};
  const char *name = arena_printf(options->arena, "d%s", forward->refs.at[output]->name);
  bool taken = input_named(backward, name) >= 0;
  return fill_gradient(options, forward, output, taken, array);
}

// The operands of the derived reference: inputs of the forward kernel, and gradients of outputs.
static const char *place_derived(const Options *options, GradientRun *run) {
  Binding *b = &run->derived;
  Kernel *k = b->program.kernel, *forward = run->forward.program.kernel;
  const int count = k->inputs + k->outputs;
  b->operands = NEW_ARRAY(options->arena, HostArray, count);
  b->offsets = NEW_ARRAY(options->arena, int64_t, count);
  b->inputs = NEW_ARRAY(options->arena, InputSpec, count);
  b->total_bytes = 0;
  for (int i = 0; i < count; i++) {
    const Ref *ref = k->refs.at[i];
    const int input = input_named(forward, ref->name);
    const char *wrong = NULL;
    b->offsets[i] = b->total_bytes;
    if (!operand_shape(k, ref, b->sizes, &b->operands[i]) ||
        !add_array_bytes(&b->total_bytes, &b->operands[i]))
      return "a gradient is too large";
    if (i < k->inputs && input >= 0)
      b->inputs[i] = (InputSpec){.kind = INPUT_ARRAY, .array = &run->gave.operands[input]};
    else if (i < k->inputs)
      wrong = new_gradient(options, run, given_for(forward, ref->name), &b->inputs[i]);
    if (wrong) return wrong;
  }
  return NULL;
}

static const char *derive(const Options *options, GradientRun *run) {
  Program *program = &run->derived.program;
  Kernel *k = program->kernel;
  if (!grad_derive(k, &(GradOptions){0}, program->diag))
    return first_message(options->arena, program->diag);
  return NULL;
}

// ---- the backward kernel

// The rounding error of an output of the reference.
static double *rounding_of(Arena *arena, const HostArray *array) {
  int64_t elements;
  if (!is_float(array->dtype) || !array_elements(array, &elements)) return NULL;
  double *error = NEW_ARRAY(arena, double, elements + 1);
  for (int64_t e = 0; e < elements; e++)
    error[e] = dtype_spacing(array->dtype) * fabs(array_get(array, e));
  return error;
}

// The array to which the name of an input refers, and its possible error; NULL: none.
static const HostArray *array_of(Arena *arena, const GradientRun *run, const char *name,
                                 double **error) {
  const Kernel *forward = run->forward.program.kernel, *derived = run->derived.program.kernel;
  int operand = ir_operand(forward, name);
  if (operand >= forward->inputs) *error = rounding_of(arena, &run->gave.operands[operand]);
  if (operand >= 0) return &run->gave.operands[operand];
  operand = input_named(derived, name);
  return operand >= 0 ? run->derived.inputs[operand].array : NULL;
}

// Sizes with the same name, because not all of them follow from the shapes of inputs.
static void give_sizes(const Options *options, const GradientRun *run, Options *with) {
  const Kernel *k = run->backward.program.kernel, *forward = run->forward.program.kernel;
  for (int i = 0; i < k->sizes.count; i++)
    for (int j = 0; j < forward->sizes.count && !k->sizes.at[i].value; j++) {
      const char *name = k->sizes.at[i].name;
      if (name != forward->sizes.at[j].name) continue;
      Argument size = {name,
                       arena_printf(options->arena, "%lld", (long long)run->forward.sizes[j])};
      LIST_PUSH(options->arena, &with->arguments, size);
    }
}

// Binds the inputs of the backward kernel, which was lowered before only for their names.
static const char *give_backward(const Options *options, GradientRun *run, Options *with) {
  const Kernel *k = run->backward.program.kernel;
  double **errors = NEW_ARRAY(options->arena, double *, k->inputs + 1);
  for (int i = 0; i < k->inputs; i++) {
    GivenArray given = {k->refs.at[i]->name,
                        array_of(options->arena, run, k->refs.at[i]->name, &errors[i])};
    if (!given.array)
      return arena_printf(options->arena,
                          "%s of %s is neither an operand of %s nor the gradient of an output",
                          given.name, k->name, run->forward.program.kernel->name);
    LIST_PUSH(options->arena, &with->given, given);
  }
  with->check.input_error = errors;
  give_sizes(options, run, with);
  return NULL;
}

// ---- comparisons

// The expected value of a gradient: that of the derived reference.
static const char *expect(const Options *options, GradientRun *run, int output) {
  const Kernel *k = run->backward.program.kernel, *derived = run->derived.program.kernel;
  const char *name = k->refs.at[k->inputs + output]->name;
  int from = output_named(derived, name);
  if (from < 0)
    return arena_printf(options->arena, "%s gives %s, which is the gradient of no input", k->name,
                        name);
  const HostArray *says = &run->says.operands[from];
  HostArray *want = &run->want.outputs.outputs[output];
  int64_t elements = 0, other = 0;
  *want = run->got.operands[k->inputs + output];
  want->data = says->data;
  if (!array_elements(want, &elements) || !array_elements(says, &other) || elements != other ||
      want->dtype != says->dtype)
    return arena_printf(options->arena,
                        "%s: %lld elements of %s, where the gradient has %lld of %s", name,
                        (long long)elements, dtype_info[want->dtype].name, (long long)other,
                        dtype_info[says->dtype].name);
  // The bounds of the derived reference are useless if it selects by which computed value is the
  // greatest, as softmax does; then the kernel's possible error is used.
  const double *allowed = rounding_allowance(options->arena, want, run->got.allowed[output]);
  bool determined = elements == 0 || !allowed;
  for (int64_t e = 0; e < elements && allowed; e++) determined = determined || isfinite(allowed[e]);
  run->want.outputs.allowed[output] = allowed;
  return determined ? NULL
                    : arena_printf(options->arena, "no finite bound limits the error of %s", name);
}

static const char *expect_all(const Options *options, GradientRun *run) {
  const int outputs = run->backward.program.kernel->outputs;
  const char *wrong = NULL;
  run->want.outputs.outputs = NEW_ARRAY(options->arena, HostArray, outputs + 1);
  run->want.outputs.allowed = NEW_ARRAY(options->arena, const double *, outputs + 1);
  for (int i = 0; i < outputs && !wrong; i++) wrong = expect(options, run, i);
  return wrong;
}

// ---- the verb

// The arguments that do not concern the gradients of outputs, or those that do.
static Options of_forward(const Options *options, const Kernel *forward) {
  Options with = without_arguments(options);
  for (int i = 0; i < options->arguments.count; i++) {
    const char *name = options->arguments.at[i].name;
    if (given_for(forward, name) < 0 && output_named(forward, name) < 0)
      LIST_PUSH(options->arena, &with.arguments, options->arguments.at[i]);
  }
  return with;
}

static const char *run_forward(const Options *options, const GradientLine *line, GradientRun *run) {
  const char *wrong = lower_one(options, line->path, line->forward, &run->forward.program);
  if (wrong) return wrong;
  const Options with = of_forward(options, run->forward.program.kernel);
  wrong = bind_one(&with, line->path, line->forward, &run->forward);
  if (!wrong && !run->forward.program.kernel->reference)
    wrong = arena_printf(options->arena, "%s has no reference", line->forward);
  if (!wrong) wrong = interpret_one(options->arena, &run->forward, true, &run->gave);
  if (!wrong) wrong = bind_one(&with, line->path, line->forward, &run->derived);
  return wrong ? wrong : derive(options, run);
}

static const char *run_backward(const Options *options, const char *path, const GradientLine *line,
                                GradientRun *run) {
  Options with = without_arguments(options);
  const char *wrong = give_backward(options, run, &with);
  if (!wrong) wrong = bind_one(&with, path, line->backward, &run->backward);
  return wrong ? wrong : interpret_one(options->arena, &run->backward, false, &run->got);
}

const char *gradient_run(const Options *options, const char *path, const GradientLine *line,
                         GradientRun *run) {
  *run = (GradientRun){0};
  const char *wrong = run_forward(options, line, run);
  if (!wrong) wrong = lower_one(options, path, line->backward, &run->backward.program);
  if (!wrong) wrong = place_derived(options, run);
  if (!wrong) wrong = interpret_one(options->arena, &run->derived, true, &run->says);
  if (!wrong) wrong = run_backward(options, path, line, run);
  run->refused = run->forward.refusal || run->backward.refusal;
  return wrong ? wrong : expect_all(options, run);
}

int gradient_difference(const Options *options, const GradientRun *run, Comparison *comparison) {
  const Kernel *k = run->backward.program.kernel;
  for (int i = 0; i < k->outputs; i++) {
    *comparison = compare_arrays(&run->got.operands[k->inputs + i], &run->want.outputs.outputs[i],
                                 run->want.outputs.allowed[i], &options->tolerance,
                                 run->got.specified ? run->got.specified[i] : NULL);
    if (comparison->wrong) return i;
  }
  return -1;
}

int gradient_differences(const Options *options, const GradientLine *line, GradientRun *run) {
  return print_differences(options, &run->backward, run->got.operands, &run->want,
                           run->got.specified,
                           arena_printf(options->arena, "the gradient of %s says", line->forward));
}

void gradient_free(GradientRun *run) {
  interpreted_free(&run->gave);
  interpreted_free(&run->says);
  interpreted_free(&run->got);
}
