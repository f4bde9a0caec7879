// pkc run: one call of a kernel, compared with its reference.
#include "codegen/ir/flow.h"
#include "codegen/run/tuning.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double reference_work_most = 2e9;  // operations: a second or two of plain loops

// The reason why there is no comparison.
static void report_uncompared(const Options *options, const Session *session, double work) {
  const Kernel *k = session->binding.program.kernel;
  if (options->quiet) return;
  if (k->reference)
    printf("not compared with the reference: about %.1e operations, more than %.0e\n", work,
           reference_work_most);
  else if (k->flow && k->flow->uncomposed)
    printf("not compared: line %d: %s, so `%s` has no reference composed of those of its kernels\n",
           ir_line(k, k->flow->uncomposed_at), k->flow->uncomposed, k->name);
  else
    printf("ran, not compared: `%s` has no reference\n", k->name);
}

static int compare(const Options *options, Session *session, double work) {
  if (!session->judge) {
    report_uncompared(options, session, work);
    return DONE;
  }
  Comparison all;
  int status = session_compare(session, options, &all);
  if (status == DONE && !options->quiet)
    printf("%s the reference%s\n", all.worst.error == 0 ? "equal to" : "agrees with",
           comparison_summary(options->arena, session, &all));
  return status;
}

// Reports the findings of `pkc check` on a copy of the same data.
static int check_first(const Options *options, const Binding *binding, const char *path,
                       Interpreted *checked) {
  Kernel *k = binding->program.kernel;
  Binding own = *binding;
  own.operands = NEW_ARRAY(options->arena, HostArray, k->inputs + k->outputs);
  memcpy(own.operands, binding->operands, sizeof *own.operands * (size_t)(k->inputs + k->outputs));
  const char *wrong = interpret_binding(options->arena, &own, false, true, checked);
  if (wrong) return user_error("%s: %s", path, wrong);
  return print_findings(options, binding, &checked->report);
}

// Compares with a function in Python. The allowances follow from the interpreted computation of the
// kernel.
static int compare_with_python(const Options *options, Session *session, const char *path) {
  Binding own = session->binding;
  Kernel *k = own.program.kernel;
  Interpreted kernel = {0};
  const char *wrong = NULL;
  own.operands = NEW_ARRAY(options->arena, HostArray, k->inputs + k->outputs);
  memcpy(own.operands, session->binding.operands,
         sizeof *own.operands * (size_t)(k->inputs + k->outputs));
  if (!options->tolerance.given)
    wrong = interpret_binding(options->arena, &own, false, true, &kernel);
  if (!wrong)
    wrong = python_reference(options->arena, options->reference, &own, kernel.allowed,
                             options->reference_time, &session->data.reference);
  Comparison all;
  int status = wrong ? user_error("%s: %s", path, wrong) : session_compare(session, options, &all);
  if (status == DONE && !options->quiet)
    printf("%s %s%s\n", all.worst.error == 0 ? "equal to" : "agrees with", options->reference,
           comparison_summary(options->arena, session, &all));
  interpreted_free(&kernel);
  return status;
}

// All processes find the same, and only the first one reports it. The others end later, because
// mpirun would end the first one when another one ends.
static int bind_as_process(Options *options, Binding *binding) {
  if (world_count() > 1 && !options->mesh && !options->devices) options->devices = world_count();
  if (world_number() == 0) return bind_or_report(binding, options, true);
  const char *message = NULL;
  options->checked = false;
  int status = bind_kernel(binding, options->arena, options, options->files.at[0], &message);
  if (status == DONE && binding->refusal) status = USER_ERROR;
  if (status != DONE) sleep(1);
  return status;
}

// For a process other than the first: a refused call is refused on all processes, and the status of
// the first one is that of all. A process that ended with another status would end the first one
// before it has reported the reason.
static int end_process(const Session *session, const char *path) {
  return session->outcome.crashed ? session_status(session, path) : DONE;
}

static int execute_session(const Options *options, Session *session, const char *path) {
  ExecuteOptions execute_options = {.mode = "run",
                                    .threads = options->threads,
                                    .judge = session->judge && world_number() == 0,
                                    .checked = options->checked && world_count() == 1,
                                    .vmem_limit = options->vmem_limit,
                                    .trace = options->trace,
                                    .counters = options->counters};
  execute(options->arena, session->program, &session->binding, &session->data, &execute_options,
          &session->outcome);
  return world_number() == 0 ? session_status(session, path) : DONE;
}

static int write_counters(const Options *options, const Outcome *outcome) {
  Buf counters = {0};
  int status = DONE;
  put_counters(options, outcome, false, &counters);
  if (counters.length) status = write_result("-", &counters);
  buf_free(&counters);
  return status;
}

// pkc run: builds, calls and compares a kernel.
int verb_run(Options *options) {
  Session session = {.data.fd = -1};
  const char *path = options->files.at[0];
  options->quiet |= options->json;
  tuning_apply(options, options_threads(options));
  int status = bind_as_process(options, &session.binding);
  if (status == DONE) status = check_output_names(options, session.binding.program.kernel, path);
  if (status != DONE) return status;
  Kernel *k = session.binding.program.kernel;
  Interpreted checked = {0};
  int found = options->checked ? check_first(options, &session.binding, path, &checked) : DONE;
  if (found == USER_ERROR) return found;
  double work = k->reference ? reference_flops(k, session.binding.sizes) : 0;
  BuildFlags flags = {
      .flags = target_flags(options->target), .linked = true, .fenced = options->checked};
  if (work <= reference_work_most && !options->reference)
    flags.naive_flags = naive_target_flags(false);
  const char *wrong = session_open(&session, options, &flags);
  if (wrong) status = user_error("%s: %s", path, wrong);
  if (status == DONE) status = execute_session(options, &session, path);
  if (world_number() > 0) {
    if (status == DONE) status = end_process(&session, path);
    session_close(&session);
    return status;
  }
  if (status == DONE) status = write_counters(options, &session.outcome);
  if (status == DONE && options->reference)
    status = compare_with_python(options, &session, path);
  else if (status == DONE)
    status = compare(options, &session, work);
  if (status == DONE && options->checked)
    status = print_differences(options, &session.binding, session.binding.operands, &checked,
                               checked.specified, "`pkc check` computes");
  if (status == DONE && found == DONE && options->checked && !options->quiet)
    printf("no findings, and the interpreter computes the same\n");
  if (status != USER_ERROR) {
    int written = write_operands(options, k, session.binding.operands);
    if (written != DONE) status = written;
  }
  session_close(&session);
  interpreted_free(&checked);
  return found != DONE ? found : status;
}
