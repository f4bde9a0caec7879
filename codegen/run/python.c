// References in Python: a child process reads the inputs from .npy files in a temporary folder and
// writes the outputs there (runtime/reference.py).
#define _GNU_SOURCE
#include "codegen/run/run.h"
#include "dsl/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  Arena *arena;
  Binding *binding;
  const char *path, *function;  // the parts of FILE.py:FUNCTION
  const char *folder;
} PythonCall;

// ---- the message to the child

// Narrow floats are passed as f32 and narrow integers as bytes, which is exact and needs only
// NumPy.
static DType python_dtype(DType t) {
  if (is_narrow_float(t)) return DT_F32;
  if (is_part_of_byte(t)) return dtype_info[t].class == CLASS_SIGNED ? DT_I8 : DT_U8;
  return t;
}

static HostArray *new_array(Arena *arena, const HostArray *shape, DType dtype) {
  HostArray *array = NEW(arena, HostArray);
  int64_t bytes = 0;
  *array = *shape;
  array->dtype = dtype;
  if (!add_array_bytes(&bytes, array)) return NULL;
  array->data = arena_alloc(arena, (size_t)bytes + 1);
  return array;
}

static const char *write_input(const PythonCall *call, int index) {
  Arena *arena = call->arena;
  const HostArray *shape = &call->binding->operands[index];
  const Ref *ref = call->binding->program.kernel->refs.at[index];
  HostArray *own = new_array(arena, shape, shape->dtype);
  if (!own) return "the inputs are too large";
  const char *wrong = input_fill(arena, &call->binding->inputs[index], index, own);
  if (wrong) return wrong;
  DType given = python_dtype(own->dtype);
  HostArray *sent = given == own->dtype ? own : new_array(arena, shape, given);
  int64_t count;
  if (!sent || !array_elements(own, &count)) return "the inputs are too large";
  for (int64_t i = 0; sent != own && i < count; i++) array_set(sent, i, array_get(own, i));
  return npy_write(arena, arena_printf(arena, "%s/%s.npy", call->folder, ref->name), sent, false);
}

static void put_operand(Buf *out, const Ref *ref, const HostArray *array) {
  json_open(out, NULL, '{');
  json_text(out, "name", ref->name);
  json_text(out, "dtype", dtype_info[ref->array.dtype].name);
  json_ints(out, "shape", array->dim, array->rank);
  json_close(out, '}');
}

// A static as a Python value: a number, a bool, or the name of a dtype.
static void put_static(Buf *out, const StaticValue *s) {
  char *end;
  double number = strtod(s->value, &end);
  bool plain = *s->value && !*end && isfinite(number);
  bool truth = strcmp(s->value, "true") == 0 || strcmp(s->value, "false") == 0;
  if (plain || truth)
    json_raw(out, s->name, s->value);
  else
    json_text(out, s->name, s->value);
}

// Writes the description of a call of a Python function as JSON.
static const char *write_call(const PythonCall *call, const char *path) {
  const Kernel *k = call->binding->program.kernel;
  Buf out = {0};
  json_open(&out, NULL, '{');
  json_text(&out, "path", call->path);
  json_text(&out, "function", call->function);
  for (int side = 0; side < 2; side++) {
    json_open(&out, side ? "outputs" : "inputs", '[');
    int first = side ? k->inputs : 0, end = side ? k->inputs + k->outputs : k->inputs;
    for (int i = first; i < end; i++) put_operand(&out, k->refs.at[i], &call->binding->operands[i]);
    json_close(&out, ']');
  }
  json_open(&out, "sizes", '{');
  for (int i = 0; i < k->sizes.count; i++)
    json_int(&out, k->sizes.at[i].name, call->binding->sizes[i]);
  json_close(&out, '}');
  json_open(&out, "statics", '{');
  for (int i = 0; i < k->statics.count; i++) put_static(&out, &k->statics.at[i]);
  json_close(&out, '}');
  json_close(&out, '}');
  bool written = write_file(path, out.text, out.length);
  buf_free(&out);
  return written ? NULL : strerror(errno);
}

// ---- the child

// The last line of its output: of a traceback, the exception.
static const char *last_line(Arena *arena, const Buf *text) {
  const char *start = text->text;
  size_t length = text->length;
  while (length && strchr(" \n", start[length - 1])) length--;
  for (size_t i = 0; i < length; i++)
    if (text->text[i] == '\n') start = text->text + i + 1;
  return length ? arena_strndup(arena, start, length - (size_t)(start - text->text)) : "it failed";
}

enum { REFERENCE_SECONDS = 120 };  // the default of --reference-time

// Runs the function in a Python process, with a time limit.
static const char *run_python(const PythonCall *call, const char *file, double seconds) {
  const char *runtime = support_path(call->arena, "runtime"), *python = getenv("PYTHON");
  if (!runtime) return "pkc's own reference.py was not found: is the installation complete?";
  Buf output = {0}, errors = {0};
  const char *script =
      arena_printf(call->arena, "cd \"$1\" && exec %s \"$2\" \"$3\"", python ? python : "python3");
  const char *words[] = {"sh", "-c",         script,
                         "sh", call->folder, arena_printf(call->arena, "%s/reference.py", runtime),
                         file, NULL};
  if (!(seconds > 0)) seconds = REFERENCE_SECONDS;
  const char *waiting = arena_printf(call->arena, "seconds of `%s` in Python", call->function);
  int status = run_awaited(words, -1, seconds, waiting, &output, &errors);
  const char *wrong = NULL;
  if (status < 0 && errno == ETIMEDOUT)
    wrong = arena_printf(call->arena,
                         "`%s` took more than %g s and was ended; --reference-time SECONDS sets "
                         "the limit",
                         call->function, seconds);
  else if (status < 0)
    wrong = strerror(errno);
  else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    wrong = last_line(call->arena, &errors);
  buf_free(&output);
  buf_free(&errors);
  return wrong;
}

// ---- its results

// Reads one output of the function, which must have the expected shape.
static const char *read_output(const PythonCall *call, int output, HostArray *into) {
  Arena *arena = call->arena;
  const Kernel *k = call->binding->program.kernel;
  const HostArray *shape = &call->binding->operands[k->inputs + output];
  const char *path =
      arena_printf(arena, "%s/%s.out.npy", call->folder, k->refs.at[k->inputs + output]->name);
  NpyHeader header;
  const char *wrong = npy_read_header(arena, path, &header);
  if (wrong) return wrong;
  HostArray *read = new_array(arena, shape, header.dtype),
            *own = new_array(arena, shape, shape->dtype);
  int64_t count;
  if (!read || !own || !array_elements(read, &count)) return "the outputs are too large";
  wrong = npy_read_data(arena, path, &header, read);
  for (int64_t i = 0; !wrong && i < count; i++) {
    if (is_float(own->dtype))
      array_set(own, i, array_get(read, i));
    else
      array_set_int(own, i, ((const int64_t *)read->data)[i]);
  }
  *into = *own;
  return wrong;
}

static double root_mean_square(const HostArray *array, int64_t count) {
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = array_get(array, i);
    if (isfinite(v)) sum += v * v, finite++;
  }
  return finite ? sqrt(sum / (double)finite) : 0;
}

// The rounding of the Python code is unknown, and so are the errors that a kernel carries from step
// to step. The allowance is 64 units of f32, or two of a narrower dtype, of the element and of the
// output's root mean square, plus twice the error of the kernel's last computations.
const double *rounding_allowance(Arena *arena, const HostArray *want, const double *of_kernel) {
  int64_t count;
  if (!is_float(want->dtype) || !array_elements(want, &count)) return NULL;
  double *allowed = NEW_ARRAY(arena, double, count + 1);
  double unit = fmax(64 * dtype_spacing(dtype_info[want->dtype].bits > 32 ? want->dtype : DT_F32),
                     2 * dtype_spacing(want->dtype));
  double typical = root_mean_square(want, count);
  for (int64_t i = 0; i < count; i++) {
    double w = array_get(want, i), own = of_kernel ? 2 * of_kernel[i] : 0;
    allowed[i] = own + unit * (typical + (isfinite(w) ? fabs(w) : 0));
  }
  return allowed;
}

static const char *call_python(PythonCall *call, double *const *of_kernel, double seconds,
                               Reference *result) {
  Kernel *k = call->binding->program.kernel;
  const char *file = arena_printf(call->arena, "%s/call.json", call->folder), *wrong = NULL;
  for (int i = 0; !wrong && i < k->inputs; i++) wrong = write_input(call, i);
  if (!wrong) wrong = write_call(call, file);
  if (!wrong) wrong = run_python(call, file, seconds);
  *result = (Reference){NEW_ARRAY(call->arena, HostArray, k->outputs + 1),
                        NEW_ARRAY(call->arena, const double *, k->outputs + 1)};
  for (int i = 0; !wrong && i < k->outputs; i++) {
    wrong = read_output(call, i, &result->outputs[i]);
    if (!wrong)
      result->allowed[i] =
          rounding_allowance(call->arena, &result->outputs[i], of_kernel ? of_kernel[i] : NULL);
  }
  return wrong;
}

// The file as named, otherwise in the folder of the kernel's file.
static const char *reference_path(Arena *arena, const char *name, const char *kernel_path) {
  const char *slash = strrchr(kernel_path, '/');
  const char *sibling =
      slash ? arena_printf(arena, "%.*s/%s", (int)(slash - kernel_path), kernel_path, name) : name;
  char *whole = realpath(access(name, R_OK) == 0 ? name : sibling, NULL);
  const char *path = whole ? arena_printf(arena, "%s", whole) : NULL;
  free(whole);
  return path;
}

const char *python_reference(Arena *arena, const char *spec, Binding *binding,
                             double *const *of_kernel, double seconds, Reference *result) {
  const char *colon = strrchr(spec, ':');
  if (!colon || colon == spec || !colon[1])
    return arena_printf(arena, "--reference %s: expected FILE.py:FUNCTION", spec);
  PythonCall call = {.arena = arena, .binding = binding, .function = colon + 1};
  const char *name = arena_strndup(arena, spec, (size_t)(colon - spec));
  call.path = reference_path(arena, name, binding->program.source.path);
  if (!call.path) return arena_printf(arena, "cannot read %s: %s", name, strerror(errno));
  call.folder = temporary_folder(arena, NULL);
  if (!call.folder)
    return arena_printf(arena, "cannot make a temporary folder: %s", strerror(errno));
  const char *wrong = call_python(&call, of_kernel, seconds, result);
  remove_folder(arena, call.folder);
  return wrong ? arena_printf(arena, "reference %s: %s", spec, wrong) : NULL;
}
