// Searches for floats for which a kernel and its reference differ: both run in binary64, with
// bounds of the rounding errors.
#define _GNU_SOURCE
#include "codegen/verbs/prove.h"

#include <math.h>
#include <time.h>

// The ways of drawing inputs, which are tried in this order.
static const InputSpec trials[] = {
    {.kind = INPUT_RANDOM, .seed = 1},
    {.kind = INPUT_RANDINT, .low = -4, .high = 5, .seed = 2},
    {.kind = INPUT_RANDINT, .low = 1, .high = 9, .seed = 3},
    {.kind = INPUT_RANDINT, .low = -30, .high = 31, .seed = 4},
    {.kind = INPUT_RANDINT, .low = -9, .high = 0, .seed = 5},
    {.kind = INPUT_RANDOM, .seed = 6},
    {.kind = INPUT_RANDINT, .low = 1, .high = 2},
    {.kind = INPUT_RANDINT, .low = 0, .high = 1},
};
enum { TRIALS = sizeof trials / sizeof *trials };

static const char *drawn_text(Arena *arena, const InputSpec *trial) {
  if (trial->kind == INPUT_RANDOM)
    return arena_printf(arena, "random:%llu", (unsigned long long)trial->seed);
  return arena_printf(arena, "randint:%lld:%lld:%llu", (long long)trial->low,
                      (long long)trial->high, (unsigned long long)trial->seed);
}

// "random:1, 60 where axis 1 is 3"
static const char *trial_text(Arena *arena, const InputSpec *trial) {
  const char *drawn = drawn_text(arena, trial);
  if (!trial->raised) return drawn;
  return arena_printf(arena, "(%s, but %g at index %lld of axis %d)", drawn, trial->to,
                      (long long)trial->index, trial->axis);
}

// Drawn integers get another seed. Trials alternate between the least and the greatest of the range
// and, if no range is given, all numbers of the dtype.
static void vary_integers(InputSpec *spec, DType dtype, const InputSpec *trial) {
  if (spec->kind != INPUT_RANDOM && spec->kind != INPUT_RANDINT) return;
  bool free = spec->kind == INPUT_RANDOM && dtype != DT_BOOL && dtype_info[dtype].bits <= 32;
  if (free && trial->seed > 2)
    *spec = (InputSpec){.kind = INPUT_RANDINT,
                        .low = dtype_min(dtype),
                        .high = dtype_min(dtype) + ((int64_t)1 << dtype_info[dtype].bits)};
  spec->seed += trial->seed;
  if (spec->kind == INPUT_RANDINT && trial->seed == 4) spec->high = spec->low + 1;
  if (spec->kind == INPUT_RANDINT && trial->seed == 5) spec->low = spec->high - 1;
}

// Sets floats as the trial requires, and those of operand `raised` as `raised` does; integers that
// are not given get another seed. Returns text such as "x=random:1".
static const char *set_inputs(Arena *arena, Binding *binding, const InputSpec *given,
                              const InputSpec *trial, int raised, const InputSpec *as) {
  Kernel *k = binding->program.kernel;
  Buf text = {0};
  for (int i = 0; i < k->inputs; i++) {
    const Ref *ref = k->refs.at[i];
    binding->inputs[i] = given[i];
    if (is_float(ref->array.dtype) && !given[i].text)
      binding->inputs[i] = i == raised ? *as : *trial;
    else if (!is_float(ref->array.dtype) && !ref->prefetch)
      vary_integers(&binding->inputs[i], ref->array.dtype, trial);
    const InputSpec *now = &binding->inputs[i];
    bool drawn = now->kind == INPUT_RANDOM || now->kind == INPUT_RANDINT;
    buf_printf(&text, "%s%s=%s", text.length ? " " : "", ref->name,
               drawn ? trial_text(arena, now) : now->text);
  }
  return arena_take(arena, &text);
}

// In exact arithmetic nothing overflows, so an infinity, or a NaN that results from one, proves
// nothing. A NaN instead of a moderate number is a difference if inputs are small.
static bool shows(double x, double y, bool small) {
  if (isfinite(x) && isfinite(y)) return true;
  return small && !isinf(x) && !isinf(y) && !(fabs(x) > 1e30) && !(fabs(y) > 1e30);
}

// The first element that differs by more than the errors of both.
static bool differs(Arena *arena, const Kernel *k, const Interpreted *got, const Interpreted *want,
                    bool small, Witness *witness) {
  for (int i = 0; i < k->outputs; i++) {
    const HostArray *a = &got->operands[k->inputs + i], *b = &want->operands[k->inputs + i];
    int64_t elements;
    array_elements(a, &elements);
    for (int64_t e = 0; e < elements; e++) {
      if (!got->specified[i][e]) continue;
      double x = array_get(a, e), y = array_get(b, e),
             allowed = got->allowed[i][e] + want->allowed[i][e];
      bool integers = !is_float(a->dtype) && allowed == 0;
      bool same = integers ? array_get_int(a, e) == array_get_int(b, e)
                           : x == y || (isnan(x) && isnan(y)) || !(allowed < (double)INFINITY) ||
                                 fabs(x - y) <= allowed;
      if (same || !shows(x, y, small)) continue;
      *witness = (Witness){.element = element_text(arena, k->refs.at[k->inputs + i]->name, a, e),
                           .got = x,
                           .want = y,
                           .allowed = allowed,
                           .output = i,
                           .at = e};
      return true;
    }
  }
  return false;
}

static bool try_inputs(Arena *arena, Binding *binding, Kernel *other, bool small,
                       Witness *witness) {
  Interpreted got = {0}, want = {0};
  Binding judge = *binding;
  if (other) judge.program.kernel = other;
  bool found =
      !interpret_binding(arena, binding, false, true, &got) && got.report.findings.count == 0 &&
      !interpret_binding(arena, &judge, !other, true, &want) && want.report.findings.count == 0 &&
      differs(arena, binding->program.kernel, &got, &want, small, witness);
  interpreted_free(&got);
  interpreted_free(&want);
  return found;
}

// One search: the given inputs, and its time limit.
typedef struct {
  const Options *options;
  Binding *binding;
  Kernel *other;
  const InputSpec *given;
  Witness *witness;
  double end;
} WitnessSearch;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool try_trial(WitnessSearch *s, const InputSpec *trial, int raised, const InputSpec *as) {
  Arena *arena = s->options->arena;
  if (now() > s->end) return false;
  const char *text = set_inputs(arena, s->binding, s->given, trial, raised, as);
  bool small = raised < 0 && trial->low >= -9 && trial->high <= 9;
  if (!try_inputs(arena, s->binding, s->other, small, s->witness)) return false;
  s->witness->inputs = text;
  return true;
}

enum { MOST_PLANES = 64 };

// Raises the elements at one index along an axis, for differences that only the greatest element
// shows.
static bool raise_planes(WitnessSearch *s) {
  const Kernel *k = s->binding->program.kernel;
  for (int i = 0; i < k->inputs; i++) {
    const HostArray *array = &s->binding->operands[i];
    if (!is_float(array->dtype)) continue;
    for (int axis = 0; axis < array->rank; axis++)
      for (int64_t at = 0; at < array->dim[axis] && at < MOST_PLANES; at++)
        for (int sign = 0; sign < 2; sign++) {
          InputSpec as = trials[0];
          as.raised = true, as.axis = axis, as.index = at, as.to = sign ? -60 : 60;
          if (try_trial(s, &trials[0], i, &as)) return true;
        }
  }
  return false;
}

static const double witness_seconds = 5;

bool find_witness(const Options *options, Binding *binding, Kernel *other, Witness *witness) {
  int inputs = binding->program.kernel->inputs;
  InputSpec *given = NEW_ARRAY(options->arena, InputSpec, inputs + 1);
  WitnessSearch search = {options, binding, other, given, witness, now() + witness_seconds};
  for (int i = 0; i < inputs; i++) given[i] = binding->inputs[i];
  bool found = false, exact = binding->check.exact;
  binding->check.exact = true;
  for (int t = 0; t < TRIALS && !found; t++) found = try_trial(&search, &trials[t], -1, NULL);
  found = found || raise_planes(&search);
  for (int i = 0; i < inputs; i++) binding->inputs[i] = given[i];
  binding->check.exact = exact;
  return found;
}
