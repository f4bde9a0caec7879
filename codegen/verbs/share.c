// The share of the machine's peak that a kernel uses. The share is never above 1, because the rates
// are those of the arithmetic's own dtype and of the memory that holds the operands, and only work
// that is certainly done counts.
#include "codegen/verbs/share.h"
#include "codegen/ir/flow.h"

#include <math.h>
#include <string.h>

// ---- the arithmetic

static bool is_byte(DType t) { return !is_float(t) && dtype_info[t].bits <= 8; }

// The row of the table that products of this dtype use.
static const char *rate_of(DType t) {
  if (t == DT_F64 || dtype_info[t].bits == 64) return "f64";
  if (t == DT_F32 || t == DT_F16) return "f32";
  return is_byte(t) ? "i8" : is_float(t) && dtype_info[t].bits <= 16 ? "bf16" : "f32";
}

static int speed_of(const char *rate) {
  static const char *const names[] = {"f64", "f32", "bf16", "i8"};
  for (int i = 0; i < 4; i++)
    if (strcmp(names[i], rate) == 0) return i;
  INTERNAL("no rate %s", rate);
}

static DType wider(DType a, DType b) { return dtype_info[a].bits >= dtype_info[b].bits ? a : b; }

// The fastest of the products: a bound for all of them.
static void see_product(Instr *instr, void *context) {
  const char **fastest = context;
  if (instr->op != OP_DOT) return;
  const char *rate = rate_of(wider(instr->args[0]->type.dtype, instr->args[1]->type.dtype));
  if (!*fastest || speed_of(rate) > speed_of(*fastest)) *fastest = rate;
}

// Without products: the lanes of f32, and for narrower integers as many more as fit in a vector.
static double lanes_of(const Kernel *k) {
  double most = 1;
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    DType t = k->refs.at[i]->array.dtype;
    if (!is_float(t) && dtype_info[t].bits < 32)
      most = fmax(most, 32.0 / fmax(8, dtype_info[t].bits));
  }
  return most;
}

// ---- the work

typedef struct {
  Arena *arena;
  ModelCounts sum;
  const char *wrong;
} Calls;

static void add_counts(Arena *arena, Kernel *k, const int64_t *sizes, ModelCounts *sum,
                       const char **wrong) {
  const Model *m = tpu_model(arena, k, sizes, chip_at(0), (ModelOptions){0}, wrong);
  ModelCounts c = m ? tpu_model_counts(m) : (ModelCounts){0};
  sum->flops += c.flops;
  sum->bytes += c.bytes;
  sum->by_data |= c.by_data;
}

static bool add_call(const FlowIteration *iteration, void *context) {
  Calls *calls = context;
  Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  int64_t *sizes;
  bool prefetched = callee->inputs > 0 && callee->refs.at[0]->prefetch;
  calls->wrong = prefetched ? "the work depends on data" : flow_callee_sizes(iteration, &sizes);
  if (!calls->wrong) add_counts(calls->arena, callee, sizes, &calls->sum, &calls->wrong);
  return !calls->wrong;
}

// The work of a call, from the IR as lowered.
static ModelCounts executed(Arena *arena, const Binding *binding, const char **wrong) {
  Kernel *k = binding->program.kernel;
  Calls calls = {.arena = arena};
  if (k->flow)
    flow_walk(k, binding->sizes, add_call, &calls);
  else
    add_counts(arena, k, binding->sizes, &calls.sum, &calls.wrong);
  *wrong = calls.wrong ? calls.wrong : calls.sum.by_data ? "the work depends on data" : NULL;
  return calls.sum;
}

static void find_arithmetic(Kernel *k, Work *work) {
  const char *fastest = NULL;
  if (k->flow)
    for (int i = 0; i < k->flow->callees.count; i++)
      ir_walk(k->flow->callees.at[i].kernel->body, see_product, &fastest);
  else
    ir_walk(k->body, see_product, &fastest);
  work->arithmetic = fastest ? fastest : "f32";
  work->faster = fastest ? 1 : lanes_of(k);
}

static double element_bytes(const Ref *operand) {
  DType t = operand->array.dtype;
  return operand->packed ? dtype_info[t].bits / 8.0 : dtype_bytes(t);
}

double operand_bytes(const Binding *binding) {
  const Kernel *k = binding->program.kernel;
  double bytes = 0;
  int64_t count;
  for (int i = 0; i < k->inputs + k->outputs; i++)
    if (array_elements(&binding->operands[i], &count))
      bytes += (double)count * element_bytes(k->refs.at[i]);
  return bytes;
}

Work work_of(const Options *options, const Binding *binding) {
  Kernel *k = binding->program.kernel;
  Work work = {.flops = NAN, .bytes = NAN};
  find_arithmetic(k, &work);
  ModelCounts done = executed(options->arena, binding, &work.unknown);
  if (work.unknown) return work;
  work.bytes = fmin(operand_bytes(binding), done.bytes);
  double wanted = k->reference ? reference_flops(k, binding->sizes) : 0;
  if (!k->reference)
    work.unknown = "it has no reference, whose operations count";
  else if (wanted > done.flops * 1.001)
    work.unknown = arena_printf(options->arena,
                                "its reference does other work: %.3g operations, the kernel %.3g",
                                wanted, done.flops);
  else
    work.flops = wanted;
  return work;
}

// ---- the share

// The larger share of the machine's peak rates.
Share share_of(const Options *options, const Work *work, const Outcome *outcome, double seconds) {
  Arena *arena = options->arena;
  double gflops = outcome_number(arena, outcome, "peak_gflops", NAN) * work->faster,
         gbytes = outcome_number(arena, outcome, "peak_gbytes", NAN);
  double arithmetic = work->flops / seconds / (gflops * 1e9),
         memory = work->bytes / seconds / (gbytes * 1e9);
  bool by_memory = !(arithmetic >= memory) && memory > 0;
  Share share = {.share = by_memory ? memory : arithmetic,
                 .of = by_memory ? "memory" : work->arithmetic};
  if (isfinite(share.share) && share.share <= 1) return share;
  if (isfinite(share.share))
    share.why = arena_printf(arena,
                             "it ran at more than the rate of %s that was measured: the machine "
                             "was busy then, or not all of the work is done",
                             share.of);
  else
    share.why = work->unknown ? work->unknown : "the rates of this machine are not known";
  share.share = NAN;
  share.of = NULL;
  return share;
}
