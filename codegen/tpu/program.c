// A program on a chip: the sums over the kernels that it calls.
#include "codegen/tpu/internal.h"

#include <math.h>

// ---- prefetched elements of calls

static bool is_written(const Kernel *k, int input) {
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    if (k->refs.at[i]->alias == k->refs.at[input]) return true;
  return false;
}

// The elements of a call's prefetched operand: those of an input of the program.
static const char *prefetch_operand(ProgramModel *m, const FlowIteration *iteration, Ref *ref) {
  const FlowPart *part = &iteration->step->parts[ref->id];
  int array = flow_root(iteration->k, part->array);
  const char *name = iteration->k->flow->arrays.at[part->array].name;
  const Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  if (array >= iteration->k->inputs || is_written(iteration->k, array))
    return arena_printf(m->arena,
                        "earlier calls compute `%s` of `%s`: -k %s models the kernel alone, with "
                        "this operand given",
                        name, callee->name, callee->name);
  const HostArray *whole = iteration->k->refs.at[array]->prefetched;
  if (!whole)
    return arena_printf(m->arena, "%s must be given: `%s` prefetches it", name, callee->name);
  HostArray *shape = NEW(m->arena, HostArray);
  int64_t element = 0;
  const char *wrong = flow_part(iteration, ref->id, shape, &element);
  shape->data = (char *)whole->data + element * dtype_bytes(whole->dtype);
  ref->prefetched = shape;
  return wrong;
}

static const char *prefetch(ProgramModel *m, const FlowIteration *iteration, Kernel *callee) {
  const char *wrong = NULL;
  for (int i = 0; i < callee->inputs && callee->refs.at[i]->prefetch && !wrong; i++)
    wrong = prefetch_operand(m, iteration, callee->refs.at[i]);
  return wrong;
}

static bool reads_prefetched(const Kernel *k) { return k->inputs > 0 && k->refs.at[0]->prefetch; }

// ---- calls

// The sizes of a call do not depend on the loops around it, so one model serves all its iterations,
// except for prefetched values.
static const Model *model_iteration(ProgramModel *m, const FlowIteration *iteration,
                                    const CallCost *call) {
  Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  if (call->model && !reads_prefetched(callee)) return call->model;
  int64_t *sizes;
  m->wrong = prefetch(m, iteration, callee);
  if (!m->wrong) m->wrong = flow_callee_sizes(iteration, &sizes);
  if (!m->wrong && reads_prefetched(callee)) m->wrong = check_sizes(callee, sizes);
  if (m->wrong) return NULL;
  int calls = 0;
  for (int i = 0; i < iteration->k->flow->steps.count; i++)
    calls += iteration->k->flow->steps.at[i].kind == FLOW_CALL;
  ModelOptions options = m->options;
  options.events = call->model ? 0 : options.events / calls;
  return tpu_model(m->arena, callee, sizes, m->chip, options, &m->wrong);
}

enum { MOST_ITERATIONS = 20000 };

static void log_iteration(ProgramModel *m, const FlowIteration *iteration, const CallCost *call,
                          const Model *model) {
  if (m->iterations.count == MOST_ITERATIONS)
    m->dropped++;
  else if (m->options.events)
    LIST_PUSH(m->arena, &m->iterations,
              ((ProgramIteration){call, model, flow_iteration_text(iteration), m->seconds}));
}

static bool add_iteration(const FlowIteration *iteration, void *context) {
  ProgramModel *m = context;
  CallCost *call = &m->calls[iteration->step - iteration->k->flow->steps.at];
  const Model *model = model_iteration(m, iteration, call);
  if (!model) return false;
  if (!call->model) call->model = model;
  call->step = iteration->step;
  call->times++;
  call->seconds += model->seconds;
  call->bytes = saturating_add(call->bytes, model->moved_bytes);
  call->flops = saturating_add(call->flops, model->cost.flops);
  call->steps = saturating_add(call->steps, model->sim.totals.steps);
  log_iteration(m, iteration, call, model);
  m->times++;
  m->seconds += model->seconds;
  m->mxu += model->mxu * model->seconds;
  m->mxu_busy += tpu_busy(model, UNIT_MXU) * model->seconds;
  m->hbm += model->hbm_share * model->seconds;
  return true;
}

static void add_up(ProgramModel *m) {
  for (int i = 0; i < m->k->flow->steps.count; i++) {
    m->bytes = saturating_add(m->bytes, m->calls[i].bytes);
    m->flops = saturating_add(m->flops, m->calls[i].flops);
    m->steps = saturating_add(m->steps, m->calls[i].steps);
  }
  double whole = m->seconds > 0 ? m->seconds : 1;
  m->mxu /= whole;
  m->mxu_busy /= whole;
  m->hbm /= whole;
  m->dispatch = m->chip->value[CHIP_DISPATCH];
}

ProgramModel *tpu_program(Arena *arena, Kernel *k, const int64_t *sizes, const Chip *chip,
                          ModelOptions options, const char **wrong) {
  ProgramModel *m = NEW(arena, ProgramModel);
  *m = (ProgramModel){.arena = arena, .k = k, .chip = chip, .sizes = sizes, .options = options};
  m->calls = NEW_ARRAY(arena, CallCost, k->flow->steps.count + 1);
  flow_walk(k, sizes, add_iteration, m);
  *wrong = m->wrong;
  if (m->wrong) return NULL;
  add_up(m);
  return m;
}

static double fullness(const CallCost *call) {
  return (double)call->model->vmem / (double)call->model->vmem_limit;
}

const CallCost *tpu_longest(const ProgramModel *m) {
  const CallCost *longest = NULL;
  for (int i = 0; i < m->k->flow->steps.count; i++)
    if (m->calls[i].times && (!longest || m->calls[i].seconds > longest->seconds))
      longest = &m->calls[i];
  return longest;
}

const CallCost *tpu_fullest(const ProgramModel *m) {
  const CallCost *fullest = NULL;
  for (int i = 0; i < m->k->flow->steps.count; i++)
    if (m->calls[i].times && (!fullest || fullness(&m->calls[i]) > fullness(fullest)))
      fullest = &m->calls[i];
  return fullest;
}

// The bytes of a device's part of the program's operands, and of the temporaries that are live at
// the same time.
static double operand_bytes(const ProgramModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    HostArray shape;
    int64_t count = 0;
    bool small =
        operand_shape(m->k, m->k->refs.at[i], m->sizes, &shape) && array_elements(&shape, &count);
    if (!small) return INFINITY;
    for (int d = 0; d < shape.rank; d++)
      if (m->k->refs.at[i]->parts[d] > 1) count /= m->k->refs.at[i]->parts[d];
    if (!m->k->refs.at[i]->alias) bytes += (double)tpu_bytes(shape.dtype, count);
  }
  return bytes;
}

const char *tpu_program_unfit(const ProgramModel *m) {
  return chip_exceeded(m->arena, m->chip, operand_bytes(m));
}

static void put_call(const ProgramModel *m, const CallCost *call, int width, Buf *out) {
  Buf one = {0}, all = {0}, bytes = {0};
  tpu_put_time(&one, call->seconds / (double)call->times);
  tpu_put_time(&all, call->seconds);
  tpu_put_bytes(&bytes, call->bytes);
  buf_printf(out, "  %5d  %-*s %8lld %12s %12s %6.1f %% %12s  %s%s\n",
             ir_line(m->k, call->step->span), width, call->model->k->name, (long long)call->times,
             one.text, all.text, m->seconds > 0 ? 100 * call->seconds / m->seconds : 0, bytes.text,
             call->model->bound,
             call->model->vmem > call->model->vmem_limit ? "  (does not fit VMEM)" : "");
  buf_free(&one);
  buf_free(&all);
  buf_free(&bytes);
}

void tpu_program_text(const ProgramModel *m, Buf *out) {
  buf_printf(out, "%s on %s", m->k->name, m->chip->name);
  for (int i = 0; i < m->k->sizes.count; i++)
    if (!m->k->sizes.at[i].value)
      buf_printf(out, " %s=%lld", m->k->sizes.at[i].name, (long long)m->sizes[i]);
  buf_puts(out, "\n\n  time         ");
  tpu_put_time(out, m->seconds);
  buf_printf(out, " in %lld call%s; a caller sees ", (long long)m->times, m->times == 1 ? "" : "s");
  tpu_put_time(out, m->seconds + m->dispatch);
  buf_puts(out, "\n  moved        ");
  tpu_put_bytes(out, m->bytes);
  buf_printf(out, "\n  work         %.6g FLOP\n\n", (double)m->flops);
  int width = 16;
  for (int i = 0; i < m->k->flow->steps.count; i++)
    if (m->calls[i].times) width = name_width(width, m->calls[i].model->k->name);
  buf_printf(out, "   line  %-*s %8s %12s %12s %8s %12s  bound by\n", width, "kernel", "calls",
             "one call", "all", "share", "moved");
  for (int i = 0; i < m->k->flow->steps.count; i++)
    if (m->calls[i].times) put_call(m, &m->calls[i], width, out);
}

void tpu_program_table(ProgramModel *const *models, int count, Buf *out) {
  buf_puts(out, "\nOn each chip       time\n");
  for (int i = 0; i < count; i++) {
    Buf time = {0};
    tpu_put_time(&time, models[i]->seconds);
    buf_printf(out, "  %-8s %12s%s\n", models[i]->chip->name, time.text,
               tpu_program_unfit(models[i]) ? "  (its operands do not fit HBM)" : "");
    buf_free(&time);
  }
}

// Writes the result for a program as JSON.
void tpu_program_json(const ProgramModel *m, const char *path, Buf *out) {
  json_open(out, NULL, '{');
  json_text(out, "program", m->k->name);
  json_text(out, "file", path);
  json_text(out, "chip", m->chip->name);
  json_open(out, "sizes", '{');
  for (int i = 0; i < m->k->sizes.count; i++)
    if (!m->k->sizes.at[i].value) json_int(out, m->k->sizes.at[i].name, m->sizes[i]);
  json_close(out, '}');
  json_real(out, "seconds", m->seconds);
  json_real(out, "seconds_with_dispatch", m->seconds + m->dispatch);
  json_int(out, "moved_bytes", m->bytes);
  json_int(out, "flops", m->flops);
  json_open(out, "calls", '[');
  for (int i = 0; i < m->k->flow->steps.count; i++) {
    const CallCost *call = &m->calls[i];
    if (!call->times) continue;
    json_open(out, NULL, '{');
    json_text(out, "kernel", call->model->k->name);
    json_int(out, "line", ir_line(m->k, call->step->span));
    json_int(out, "times", call->times);
    json_real(out, "seconds", call->seconds / (double)call->times);
    json_int(out, "moved_bytes", call->bytes / call->times);
    json_text(out, "bound", call->model->bound);
    json_int(out, "steps", call->steps);
    json_bool(out, "fits", call->model->vmem <= call->model->vmem_limit);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
  buf_putc(out, '\n');
}

// ---- the rules of the chip

typedef struct {
  const Chip *chip;
  Diag *diag;
  bool *seen;  // by callee
  int found;
} RuleCheck;

static bool check_iteration(const FlowIteration *iteration, void *context) {
  RuleCheck *check = context;
  Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  int64_t *sizes;
  if (check->seen[iteration->step->callee] || flow_callee_sizes(iteration, &sizes)) return true;
  check->seen[iteration->step->callee] = true;
  check->found += tpu_check(callee, check->chip, sizes, check->diag);
  return true;
}

int tpu_check_program(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag) {
  RuleCheck check = {chip, diag, NEW_ARRAY(k->arena, bool, k->flow->callees.count + 1), 0};
  flow_walk(k, sizes, check_iteration, &check);
  return check.found;
}

// ---- prefetched operands

bool tpu_program_prefetches(const Kernel *k, int input) {
  for (int i = 0; i < k->flow->steps.count; i++) {
    const FlowStep *step = &k->flow->steps.at[i];
    if (step->kind != FLOW_CALL) continue;
    const Kernel *callee = k->flow->callees.at[step->callee].kernel;
    for (int p = 0; p < callee->inputs && callee->refs.at[p]->prefetch; p++)
      if (flow_root(k, step->parts[p].array) == input) return true;
  }
  return false;
}
