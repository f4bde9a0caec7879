// Runs a built kernel on data: the harness runs in a child process, and the arrays are in a memory
// file that both map.
#define _GNU_SOURCE
#include "codegen/emit/emit.h"
#include "codegen/run/run.h"
#include "dsl/json.h"
#include "codegen/naive/naive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REFUSED = 1 };  // a status of the harness

// Arrays of the outputs' shapes after the existing ones: of their own dtypes, or of one.
static const char *place_outputs(Arena *arena, Binding *binding, Dataset *data, DType dtype,
                                 Places *places) {
  const Kernel *k = binding->program.kernel;
  places->arrays = NEW_ARRAY(arena, HostArray, k->outputs);
  places->offsets = NEW_ARRAY(arena, int64_t, k->outputs);
  for (int i = 0; i < k->outputs; i++) {
    HostArray *array = &places->arrays[i];
    *array = binding->operands[k->inputs + i];
    if (dtype != DT_COUNT) array->dtype = dtype;
    places->offsets[i] = data->bytes;
    if (!add_array_bytes(&data->bytes, array)) return "the outputs are too large";
  }
  return NULL;
}

static void map_outputs(const Dataset *data, const Places *places, int count) {
  for (int i = 0; places->arrays && i < count; i++)
    places->arrays[i].data = data->memory + places->offsets[i];
}

// Outputs that must be equal have no allowances.
static void note_expected(Arena *arena, Kernel *k, Dataset *data) {
  data->reference =
      (Reference){data->expected.arrays, NEW_ARRAY(arena, const double *, k->outputs)};
  for (int i = 0; i < k->outputs; i++)
    if (!must_be_equal(k, i)) data->reference.allowed[i] = data->allowed.arrays[i].data;
}

// Creates a file in memory that is closed on exec. glibc declares memfd_create from 2.27 on, but
// the package supports 2.17, so this uses the system call; Emscripten has only the function.
static int memory_file(void) {
#ifdef SYS_memfd_create
  const unsigned close_on_exec = 1;
  return (int)syscall(SYS_memfd_create, "pkc", close_on_exec);
#else
  return memfd_create("pkc", MFD_CLOEXEC);
#endif
}

// Creates a memory file with all operands and room for the expected outputs and, if `timed`, the
// naive outputs. Returns NULL, or an error message.
static const char *dataset_open(Arena *arena, Binding *binding, bool judge, bool timed,
                                Dataset *data) {
  *data = (Dataset){.fd = -1, .bytes = binding->total_bytes};
  const char *wrong = timed ? place_outputs(arena, binding, data, DT_COUNT, &data->naive) : NULL;
  if (!wrong && judge) wrong = place_outputs(arena, binding, data, DT_COUNT, &data->expected);
  if (!wrong && judge) wrong = place_outputs(arena, binding, data, DT_F64, &data->allowed);
  if (!wrong)
    wrong = check_memory(arena, data->bytes < INT64_MAX / 2
                                    ? data->bytes * 2
                                    : INT64_MAX);  // the harness has its own copy
  if (wrong) return wrong;
  data->fd = memory_file();
  if (data->fd < 0 || ftruncate(data->fd, data->bytes > 0 ? (off_t)data->bytes : 64) != 0)
    return arena_printf(arena, "no memory for the arrays: %s", strerror(errno));
  data->memory = map_memory(data->bytes, data->fd);
  if (!data->memory) return arena_printf(arena, "no memory for the arrays: %s", strerror(errno));
  Kernel *k = binding->program.kernel;
  map_outputs(data, &data->naive, k->outputs);
  map_outputs(data, &data->expected, k->outputs);
  map_outputs(data, &data->allowed, k->outputs);
  if (judge) note_expected(arena, k, data);
  return bind_fill(binding, data->memory);
}

static void dataset_close(Dataset *data) {
  if (data->memory) munmap(data->memory, data->bytes > 0 ? (size_t)data->bytes : 1);
  if (data->fd >= 0) close(data->fd);
  *data = (Dataset){.fd = -1};
}

static void put_shape(Buf *words, int index, const HostArray *array) {
  buf_printf(words, "shape.%d=", index);
  for (int k = 0; k < array->rank; k++)
    buf_printf(words, "%s%lld", k ? "x" : "", (long long)array->dim[k]);
  buf_putc(words, ' ');
}

static void put_offsets(Buf *words, const char *key, const Places *places, const Kernel *k) {
  for (int i = 0; places->arrays && i < k->outputs; i++)
    buf_printf(words, "%s.%d=%lld ", key, k->inputs + i, (long long)places->offsets[i]);
}

// The arguments of the harness, in one text without blanks inside words.
static void put_arguments(Buf *words, const Binding *binding, const Dataset *data,
                          const ExecuteOptions *options) {
  const Kernel *k = binding->program.kernel;
  buf_printf(words, "%d mode=%s judge=%d naive=%d progress=%d checked=%d ", data->fd, options->mode,
             options->judge, options->naive, options->progress, options->checked);
  if (options->peak) buf_printf(words, "peak=%s ", options->peak);
  if (options->threads > 0) buf_printf(words, "threads=%d ", options->threads);
  if (options->vmem_limit > 0)
    buf_printf(words, "vmem_limit=%lld ", (long long)options->vmem_limit);
  if (options->min_time > 0) buf_printf(words, "min_time=%g ", options->min_time);
  if (options->max_time > 0) buf_printf(words, "max_time=%g ", options->max_time);
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    put_shape(words, i, &binding->operands[i]);
    buf_printf(words, "offset.%d=%lld ", i, (long long)binding->offsets[i]);
  }
  put_offsets(words, "naive_offset", &data->naive, k);
  put_offsets(words, "expected_offset", &data->expected, k);
  put_offsets(words, "allowed_offset", &data->allowed, k);
}

static const char *signal_text(Arena *arena, int number) {
  if (number == SIGKILL) return "the compiled kernel was killed (out of memory?)";
  return arena_printf(arena, "the compiled kernel died of signal %d (%s)", number,
                      strsignal(number));
}

// The value of a key in the output, or NULL.
static const char *outcome_text(Arena *arena, const Outcome *outcome, const char *key) {
  size_t length = strlen(key);
  for (const char *line = outcome->output.text; line && *line;) {
    size_t end = strcspn(line, "\n");
    if (strncmp(line, key, length) == 0 && line[length] == '=')
      return arena_strndup(arena, line + length + 1, end - length - 1);
    line += end + (line[end] == '\n');
  }
  return NULL;
}

// Runs a built program on data, and reads its output.
void execute(Arena *arena, const char *program, const Binding *binding, const Dataset *data,
             const ExecuteOptions *options, Outcome *outcome) {
  *outcome = (Outcome){0};
  Buf words = {0};
  put_arguments(&words, binding, data, options);
  const char *run_by = runner(), *arguments = words.text;
  const char *const *front = split_words(arena, &run_by, 1), *const *back =
                                                                 split_words(arena, &arguments, 1);
  LIST(const char *) argv = {0};
  for (int i = 0; front[i]; i++) LIST_PUSH(arena, &argv, front[i]);
  LIST_PUSH(arena, &argv, program);
  for (int i = 0; back[i]; i++) LIST_PUSH(arena, &argv, back[i]);
  if (options->trace)
    LIST_PUSH(arena, &argv, (const char *)arena_printf(arena, "trace=%s", options->trace));
  if (options->counters) LIST_PUSH(arena, &argv, "counters=1");
  LIST_PUSH(arena, &argv, NULL);
  Buf output = {0}, errors = {0};
  int status = run_child((const char *const *)argv.at, data->fd, options->timeout, &output,
                         options->quiet ? &errors : NULL);
  buf_free(&errors);
  outcome->output = (Buf){arena_strndup(arena, output.length ? output.text : "", output.length),
                          output.length, output.length};
  buf_free(&output);
  buf_free(&words);
  if (status < 0 && errno == ETIMEDOUT)
    outcome->message =
        arena_printf(arena, "the compiled kernel takes more than %g s", options->timeout);
  else if (status < 0)
    outcome->message = arena_printf(arena, "cannot run %s: %s", argv.at[0], strerror(errno));
  else if (WIFSIGNALED(status)) {
    outcome->crashed = true;
    outcome->message = signal_text(arena, WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    const char *message = outcome_text(arena, outcome, "message");
    outcome->refused = message && WEXITSTATUS(status) == REFUSED;
    outcome->crashed = !outcome->refused;
    outcome->message = message ? message
                               : arena_printf(arena, "the compiled kernel ended with status %d",
                                              WEXITSTATUS(status));
  }
}

double outcome_number(Arena *arena, const Outcome *outcome, const char *key, double otherwise) {
  const char *text = outcome_text(arena, outcome, key);
  return text && *text ? strtod(text, NULL) : otherwise;
}

void put_counters(const Options *options, const Outcome *outcome, bool json, Buf *out) {
  static const char *const names[] = {"instructions", "cycles", "cache_references", "cache_misses"};
  if (!options->counters) return;
  const char *missing = outcome_text(options->arena, outcome, "counters");
  if (missing && !json)
    buf_printf(out, "no counters: the system does not allow them (%s)\n", missing);
  if (missing && json) json_text(out, "counters", NULL);
  for (int i = 0; !missing && i < 4; i++) {
    const char *value =
        outcome_text(options->arena, outcome, arena_printf(options->arena, "counter.%s", names[i]));
    if (json)
      json_raw(out, names[i], value ? value : "null");
    else if (value)
      buf_printf(out, "%s %s", value, names[i]);
    if (!json) buf_puts(out, i == 3 ? "\n" : value ? ", " : "");
  }
}

// Lowers the kernel of a binding again and builds its C.
static const char *compile_binding(Arena *arena, const Binding *binding, const Options *options,
                                   const BuildFlags *flags, bool *temporary, const char **message) {
  Kernel *k = binding->program.kernel;
  Program copy = binding->program;
  Buf c = {0}, h = {0}, naive = {0}, prologue = {0};
  bool judged = flags->naive_flags && k->reference;
  if (judged) emit_judge(k, &naive);
  if (judged && flags->timed) emit_naive(k, &naive);
  copy.kernel = lower(arena, &copy.source, copy.file, options->kernel, &binding->lower_options,
                      diag_new(arena, &copy.source));
  REQUIRE(copy.kernel);
  program_optimise(&copy, options, NULL);
  program_emit(&copy, options, &c, &h, NULL, NULL);
  emit_prologue(options->target, &prologue);
  BuildJob job = {
      .symbol = k->symbol,
      .c = c.text,
      .h = h.text,
      .prologue = prologue.text,
      .naive = judged ? naive.text : NULL,
      .timed = judged && flags->timed,
      .world = world_count() > 1,
      .micro = flags->linked ? options->target->name : NULL,
      .cc = flags->cc,
      .flags = flags->fenced ? arena_printf(arena, "%s -DPK_FENCES", flags->flags) : flags->flags,
      .naive_flags = flags->naive_flags,
      .no_cache = options->no_cache};
  const char *program = build_program(arena, &job, temporary, message);
  buf_free(&c);
  buf_free(&h);
  buf_free(&naive);
  buf_free(&prologue);
  return program;
}

const char *session_open(Session *session, const Options *options, const BuildFlags *flags) {
  const char *message = check_memory(options->arena, session->binding.total_bytes);
  if (message) return message;
  session->judge = flags->naive_flags && session->binding.program.kernel->reference;
  session->naive = session->judge && flags->timed;
  session->program = compile_binding(options->arena, &session->binding, options, flags,
                                     &session->temporary, &message);
  if (!session->program) return message;
  return dataset_open(options->arena, &session->binding, session->judge, session->naive,
                      &session->data);
}

void session_close(Session *session) {
  dataset_close(&session->data);
  if (session->program && session->temporary) build_discard(session->program);
  session->program = NULL;
}

int session_compare(Session *session, const Options *options, Comparison *all) {
  Kernel *k = session->binding.program.kernel;
  int status = DONE;
  *all = (Comparison){.first = {.index = -1}, .worst = {.index = -1}};
  for (int i = 0; i < k->outputs; i++) {
    const HostArray *got = &session->binding.operands[k->inputs + i];
    const Reference *reference = &session->data.reference;
    Comparison c = compare_arrays(got, &reference->outputs[i], reference->allowed[i],
                                  &options->tolerance, NULL);
    if (c.wrong > 0) {
      fprintf(stderr, "%s: differs from the reference: %s\n", options->files.at[0],
              comparison_text(options->arena, k->refs.at[k->inputs + i]->name, got, &c));
      status = CHECK_FAILED;
    }
    comparison_add(all, i, &c);
  }
  return status;
}

const char *session_element(Arena *arena, const Session *session, const Comparison *all) {
  const Kernel *k = session->binding.program.kernel;
  int operand = k->inputs + all->output;
  return element_text(arena, k->refs.at[operand]->name, &session->binding.operands[operand],
                      all->worst.index);
}

const char *comparison_summary(Arena *arena, const Session *session, const Comparison *all) {
  const char *text = "";
  if (all->worst.index >= 0 && all->worst.error > 0)
    text = arena_printf(arena, ": difference %.3g at %s, allowed %.3g", all->worst.error,
                        session_element(arena, session, all), all->worst.allowed);
  if (all->undetermined > 0)
    text = arena_printf(arena, "%s; %lld elements are not determined in f32", text,
                        (long long)all->undetermined);
  return text;
}

int session_status(const Session *session, const char *path) {
  const Outcome *outcome = &session->outcome;
  if (!outcome->message) return DONE;
  if (outcome->crashed) INTERNAL("%s: %s", path, outcome->message);
  return user_error("%s: %s%s", path, outcome->refused ? "refused: " : "", outcome->message);
}
