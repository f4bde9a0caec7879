// Interprets a program, one kernel after another.
#include "codegen/check/internal.h"
#include "codegen/ir/flow.h"

#include <stdlib.h>
#include <string.h>

// An array of the program: its elements, which of them were written, and the possible differences
// of compiled code (NULL: not requested).
typedef struct {
  HostArray array;
  int64_t elements;
  uint8_t *specified;
  double *error;
  bool own;  // it owns the memory of its elements, unlike an output
} State;

typedef struct {
  Kernel *k;
  const int64_t *sizes;
  const CheckOptions *options;
  CheckReport *report;
  State *states;
  int64_t **callee_sizes;  // by step
} Run;

// The operands of one call of a kernel.
typedef struct {
  HostArray *operands;
  uint8_t **specified;  // by operand
  double **error;
  double **allowed;  // by output
  bool *exchanged;   // by output
} CallData;

// ---- arrays

// Creates the array of an operand or temporary of a program.
static bool start_state(Run *run, int array, const HostArray *operand) {
  Kernel *k = run->k;
  State *s = &run->states[array];
  const Type *type = &k->flow->arrays.at[array].type;
  int64_t bytes;
  DType dtype = run->options->arithmetic ? DT_I64 : type->dtype;
  s->array = operand ? *operand : (HostArray){.dtype = dtype, .rank = type->rank};
  for (int i = 0; i < type->rank && !operand; i++)
    s->array.dim[i] = resolve_dim(run->sizes, type->dim[i]);
  if (!array_elements(&s->array, &s->elements) || !mul_i64(s->elements + 1, sizeof(double), &bytes))
    return false;
  const State *root = &run->states[flow_root(k, array)];
  bool alias = root != s;
  s->own = !operand;
  if (s->own) s->array.data = calloc((size_t)s->elements + 1, (size_t)dtype_bytes(dtype));
  s->specified = alias ? root->specified : calloc((size_t)s->elements + 1, 1);
  if (run->options->allowed)
    s->error = alias ? root->error : calloc((size_t)s->elements + 1, sizeof *s->error);
  if (array < k->inputs && s->error && run->options->input_error &&
      run->options->input_error[array])
    memcpy(s->error, run->options->input_error[array], (size_t)s->elements * sizeof *s->error);
  if (array < k->inputs && s->specified) memset(s->specified, 1, (size_t)s->elements);
  return s->array.data && s->specified && (s->error || !run->options->allowed);
}

static void free_states(Run *run) {
  const Flow *flow = run->k->flow;
  for (int i = 0; i < flow->arrays.count; i++) {
    State *s = &run->states[i];
    if (s->own) free(s->array.data);
    if (flow_root(run->k, i) != i) continue;
    free(s->specified);
    free(s->error);
  }
}

// ---- findings

static void add_finding(Run *run, CheckFinding *finding) {
  CheckReport *report = run->report;
  for (int i = 0; i < report->findings.count; i++) {
    CheckFinding *known = &report->findings.at[i];
    if (strcmp(known->kind, finding->kind) != 0 || known->span.start != finding->span.start ||
        known->span.end != finding->span.end)
      continue;
    known->count += finding->count;
    return;
  }
  if (report->findings.count >= CHECK_MAX_FINDINGS) {
    report->more++;
    return;
  }
  LIST_PUSH(report->arena, &report->findings, *finding);
}

// Copies the findings of a call to the program's report, with the position of the call.
static void take_report(Run *run, const FlowIteration *iteration, const CheckReport *of_call) {
  const Kernel *callee = run->k->flow->callees.at[iteration->step->callee].kernel;
  Arena *arena = run->report->arena;
  const char *variables = flow_iteration_text(iteration);
  for (int i = 0; i < of_call->findings.count; i++) {
    CheckFinding finding = of_call->findings.at[i];
    FindingNote note = {
        iteration->step->span,
        arena_printf(arena, "in this call of `%s`%s%s%s", callee->name, variables ? " (" : "",
                     variables ? variables : "", variables ? ")" : ""),
        NULL, NULL};
    LIST_PUSH(arena, &finding.notes, note);
    add_finding(run, &finding);
  }
  if (of_call->orders) {
    bool every = of_call->every_order && (run->report->orders == 0 || run->report->every_order);
    run->report->every_order = every;
    if (of_call->orders > run->report->orders) {
      run->report->orders = of_call->orders;
      run->report->most_orders = of_call->most_orders;
    }
  }
  run->report->more += of_call->more;
  run->report->steps += of_call->steps;
  for (int i = 0; i < of_call->printed.count; i++)
    LIST_PUSH(arena, &run->report->printed, of_call->printed.at[i]);
}

static void report_refusal(Run *run, const FlowIteration *iteration, const char *wrong) {
  CheckFinding finding = {
      .kind = "memory", .message = wrong, .span = iteration->step->span, .count = 1};
  add_finding(run, &finding);
}

// ---- a call

static bool is_exchanged(const Run *run, const FlowStep *step, const Kernel *callee, int operand) {
  const FlowPart *part = &step->parts[operand];
  return operand >= callee->inputs && !callee->refs.at[operand]->alias && !part->leading &&
         run->k->flow->arrays.at[part->array].spare >= 0;
}

static const char *place_operand(Run *run, const FlowIteration *iteration, const Kernel *callee,
                                 int operand, CallData *data) {
  const FlowPart *part = &iteration->step->parts[operand];
  int64_t element;
  const char *wrong = flow_part(iteration, operand, &data->operands[operand], &element);
  if (wrong) return wrong;
  data->exchanged[operand] = is_exchanged(run, iteration->step, callee, operand);
  const State *s =
      &run->states[data->exchanged[operand] ? run->k->flow->arrays.at[part->array].spare
                                            : part->array];
  data->operands[operand].dtype = s->array.dtype;
  data->operands[operand].data = (char *)s->array.data + element * dtype_bytes(s->array.dtype);
  data->specified[operand] = s->specified + element;
  data->error[operand] = s->error ? s->error + element : NULL;
  return NULL;
}

static void start_call(Run *run, const Kernel *callee, CallData *data) {
  Arena *arena = run->report->arena;
  int count = callee->inputs + callee->outputs + 1;
  data->operands = NEW_ARRAY(arena, HostArray, count);
  data->specified = NEW_ARRAY(arena, uint8_t *, count);
  data->error = NEW_ARRAY(arena, double *, count);
  data->allowed = NEW_ARRAY(arena, double *, count);
  data->exchanged = NEW_ARRAY(arena, bool, count);
}

// The elements of an output have the errors that the interpreter found.
static void end_output(const Kernel *callee, int output, CallData *data) {
  int operand = callee->inputs + output;
  int64_t count;
  array_elements(&data->operands[operand], &count);
  for (int64_t e = 0; e < count && data->allowed[output]; e++)
    data->error[operand][e] = (double)data->allowed[output][e];
  free(data->allowed[output]);
}

static void exchange(Run *run, const FlowStep *step, int operand) {
  int array = step->parts[operand].array, spare = run->k->flow->arrays.at[array].spare;
  State written = run->states[spare];
  run->states[spare] = run->states[array];
  run->states[array] = written;
}

// Interprets one call of a kernel.
static void interpret_call(Run *run, const FlowIteration *iteration, Kernel *callee,
                           const int64_t *sizes, CallData *data) {
  CheckReport report = {.arena = run->report->arena};
  CheckOptions options = {.dma = run->options->dma,
                          .seed = run->options->seed,
                          .cores = run->options->cores,
                          .orders = run->options->orders,
                          .exact = run->options->exact,
                          .arithmetic = run->options->arithmetic,
                          .context = run->options->context,
                          .specified = data->specified + callee->inputs,
                          .input_specified = (const uint8_t *const *)data->specified};
  for (int i = 0; i < callee->outputs && run->options->allowed; i++) {
    int64_t count;
    array_elements(&data->operands[callee->inputs + i], &count);
    data->allowed[i] = calloc((size_t)count + 1, sizeof *data->allowed[i]);
    if (!data->allowed[i]) INTERNAL("no memory for %lld bounds", (long long)count);
  }
  if (run->options->allowed) options.allowed = data->allowed;
  if (run->options->allowed) options.input_error = data->error;
  interpret(callee, sizes, data->operands, &options, &report);
  take_report(run, iteration, &report);
  for (int i = 0; i < callee->outputs; i++) end_output(callee, i, data);
  for (int i = callee->inputs; i < callee->inputs + callee->outputs; i++)
    if (data->exchanged[i]) exchange(run, iteration->step, i);
}

// Executes one call of a program: its sizes, its operands, then the kernel.
static bool run_call(const FlowIteration *iteration, void *context) {
  Run *run = context;
  Kernel *callee = run->k->flow->callees.at[iteration->step->callee].kernel;
  int64_t **sizes = &run->callee_sizes[iteration->step - run->k->flow->steps.at];
  CallData data;
  const char *wrong = *sizes ? NULL : flow_callee_sizes(iteration, sizes);
  start_call(run, callee, &data);
  for (int i = 0; i < callee->inputs + callee->outputs && !wrong; i++)
    wrong = place_operand(run, iteration, callee, i, &data);
  for (int i = 0; i < callee->inputs && !wrong; i++) {
    if (!callee->refs.at[i]->prefetch) continue;
    if (!is_prefetch_known(run->options, &data.operands[i])) return false;
    callee->refs.at[i]->prefetched = &data.operands[i];
  }
  if (!wrong && callee->inputs && callee->refs.at[0]->prefetch) wrong = check_sizes(callee, *sizes);
  if (wrong)
    report_refusal(run, iteration, wrong);
  else
    interpret_call(run, iteration, callee, *sizes, &data);
  return !wrong;
}

// ---- the end

static void report_unwritten(Run *run, int output) {
  const Ref *ref = run->k->refs.at[run->k->inputs + output];
  const State *s = &run->states[run->k->inputs + output];
  int64_t missing = 0;
  for (int64_t e = 0; e < s->elements; e++) missing += !s->specified[e];
  if (!missing) return;
  CheckFinding finding = {
      .kind = "never-written", .operand = ref->name, .span = ref->span, .count = 1};
  finding.message =
      arena_printf(run->report->arena, "%lld of the %lld elements of output `%s` are never written",
                   (long long)missing, (long long)s->elements, ref->name);
  add_finding(run, &finding);
}

static void end_program_output(Run *run, int output) {
  const State *s = &run->states[run->k->inputs + output];
  double *allowed = run->options->allowed ? run->options->allowed[output] : NULL;
  uint8_t *specified = run->options->specified ? run->options->specified[output] : NULL;
  for (int64_t e = 0; e < s->elements && allowed; e++) allowed[e] = s->error[e];
  if (specified) memcpy(specified, s->specified, (size_t)s->elements);
  if (run->report->findings.count == 0) report_unwritten(run, output);
}

// Interprets a program.
void interpret_flow(Kernel *k, const int64_t *sizes, HostArray *operands,
                    const CheckOptions *options, CheckReport *report) {
  Run run = {.k = k, .sizes = sizes, .options = options, .report = report};
  if (!report->arena) report->arena = k->arena;
  run.states = NEW_ARRAY(report->arena, State, k->flow->arrays.count + 1);
  run.callee_sizes = NEW_ARRAY(report->arena, int64_t *, k->flow->steps.count + 1);
  bool good = true;
  for (int i = 0; i < k->flow->arrays.count && good; i++)
    good = start_state(&run, i, flow_is_temporary(k, i) ? NULL : &operands[i]);
  if (good) {
    flow_walk(k, sizes, run_call, &run);
    for (int i = 0; i < k->outputs; i++) end_program_output(&run, i);
  } else {
    CheckFinding finding = {.kind = "memory", .span = k->span, .count = 1};
    finding.message =
        arena_printf(report->arena, "`%s` needs too much memory to be interpreted", k->name);
    add_finding(&run, &finding);
  }
  free_states(&run);
  for (int i = 0; i < report->findings.count; i++)
    report->findings.at[i].text = finding_text(report->arena, k->source, &report->findings.at[i]);
}
