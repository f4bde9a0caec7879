// A program on a chip: the sums over the kernels that it calls.
#include "codegen/ir/flow.h"
#include "codegen/tpu/internal.h"

#include <math.h>

// A call of the text: how often it is made, and what one costs.
typedef struct {
  const FlowStep *step;
  const Model *model;
  int64_t times;
} CallCost;

struct ProgramModel {
  Arena *arena;
  Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  CallCost
      *calls;  // by step of the program; those that are no calls, or never made, are made 0 times
  int64_t times, bytes, flops;
  double seconds, dispatch;
  const char *wrong;
};

static bool reads_prefetched(const Kernel *k) { return k->inputs > 0 && k->refs.at[0]->prefetch; }

// The sizes of a call do not depend on the loops around it, so one model serves all its turns.
static bool add_turn(const FlowTurn *turn, void *context) {
  ProgramModel *m = context;
  CallCost *call = &m->calls[turn->step - turn->k->flow->steps.at];
  Kernel *callee = turn->k->flow->callees.at[turn->step->callee].kernel;
  if (!call->model && reads_prefetched(callee))
    m->wrong =
        arena_printf(m->arena, "the grid of `%s` depends on what is prefetched", callee->name);
  if (!call->model && !m->wrong) {
    int64_t *sizes;
    m->wrong = flow_callee_sizes(turn, &sizes);
    if (!m->wrong)
      call->model = tpu_model(m->arena, callee, sizes, m->chip, (ModelOptions){0}, &m->wrong);
  }
  if (m->wrong) return false;
  call->step = turn->step;
  call->times++;
  m->times++;
  m->seconds += call->model->seconds;
  m->bytes = saturating_add(m->bytes, call->model->moved_bytes);
  m->flops = saturating_add(m->flops, call->model->cost.flops);
  return true;
}

ProgramModel *tpu_program(Arena *arena, Kernel *k, const int64_t *sizes, const Chip *chip,
                          const char **wrong) {
  ProgramModel *m = NEW(arena, ProgramModel);
  *m = (ProgramModel){.arena = arena, .k = k, .chip = chip, .sizes = sizes};
  m->calls = NEW_ARRAY(arena, CallCost, k->flow->steps.count + 1);
  flow_walk(k, sizes, add_turn, m);
  m->dispatch = chip->value[CHIP_DISPATCH];
  *wrong = m->wrong;
  return m->wrong ? NULL : m;
}

// The program's own operands; what its calls hand on lies there beside them for a time.
static double operand_bytes(const ProgramModel *m) {
  double bytes = 0;
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    HostArray shape;
    int64_t count = 0;
    bool small =
        operand_shape(m->k, m->k->refs.at[i], m->sizes, &shape) && array_elements(&shape, &count);
    if (!small) return INFINITY;
    if (!m->k->refs.at[i]->alias) bytes += (double)tpu_bytes(shape.dtype, count);
  }
  return bytes;
}

const char *tpu_program_unfit(const ProgramModel *m) {
  return chip_exceeded(m->arena, m->chip, operand_bytes(m));
}

static void put_call(const ProgramModel *m, const CallCost *call, Buf *out) {
  Buf one = {0}, all = {0}, bytes = {0};
  double seconds = call->model->seconds * (double)call->times;
  tpu_put_time(&one, call->model->seconds);
  tpu_put_time(&all, seconds);
  tpu_put_bytes(&bytes, saturating_mul(call->model->moved_bytes, call->times));
  buf_printf(out, "  %5d  %-16s %8lld %12s %12s %6.1f %% %12s  %s\n",
             ir_line(m->k, call->step->span), call->model->k->name, (long long)call->times,
             one.text, all.text, m->seconds > 0 ? 100 * seconds / m->seconds : 0, bytes.text,
             call->model->bound);
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
  buf_puts(out,
           "   line  kernel              calls     one call          all    share        moved  "
           "bound by\n");
  for (int i = 0; i < m->k->flow->steps.count; i++)
    if (m->calls[i].times) put_call(m, &m->calls[i], out);
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
    json_real(out, "seconds", call->model->seconds);
    json_int(out, "moved_bytes", call->model->moved_bytes);
    json_text(out, "bound", call->model->bound);
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

static bool check_turn(const FlowTurn *turn, void *context) {
  RuleCheck *check = context;
  Kernel *callee = turn->k->flow->callees.at[turn->step->callee].kernel;
  int64_t *sizes;
  if (check->seen[turn->step->callee] || flow_callee_sizes(turn, &sizes)) return true;
  check->seen[turn->step->callee] = true;
  check->found += tpu_check(callee, check->chip, sizes, check->diag);
  return true;
}

int tpu_check_program(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag) {
  RuleCheck check = {chip, diag, NEW_ARRAY(k->arena, bool, k->flow->callees.count + 1), 0};
  flow_walk(k, sizes, check_turn, &check);
  return check.found;
}
