// Compares results with the expected ones (docs/numerics.md).
#include "codegen/ir/flow.h"
#include "codegen/ir/scalar.h"
#include "codegen/run/run.h"

#include <math.h>
#include <string.h>

// ---- what must be equal, bit for bit

typedef struct {
  int roundings;  // elementwise operations that round, at most counted to 2
  bool inexact;   // functions that are not correctly rounded, float sums
} Survey;

static bool is_widening(const Instr *v) {
  DType from = v->op == OP_CAST ? v->args[0]->type.dtype : DT_COUNT;
  return v->op == OP_CAST && is_float(from) &&
         dtype_info[from].bits < dtype_info[v->type.dtype].bits;
}

static void survey_instr(Instr *v, void *context) {
  Survey *s = context;
  Exactness exactness = op_info[v->op].exactness;
  if (v->op == OP_FOR) s->roundings = 2;  // those of its iterations
  if (!has_result(v) || !is_float(v->type.dtype) || exactness <= RESULT_EXACT || is_widening(v))
    return;
  if (exactness == RESULT_INEXACT)
    s->inexact = true;
  else if (s->roundings < 2)
    s->roundings++;
}

bool must_be_equal(Kernel *k, int output) {
  Survey body = {0}, meaning = {0};
  if (!is_float(k->refs.at[k->inputs + output]->array.dtype))
    return !k->reference || !ir_is_rounded_integer(ir_yielded(k->reference, output));
  ir_walk(k->body, survey_instr, &body);
  for (int i = 0; k->flow && i < k->flow->callees.count; i++)
    ir_walk(k->flow->callees.at[i].kernel->body, survey_instr, &body);
  if (k->reference) ir_walk(k->reference, survey_instr, &meaning);
  return !meaning.inexact && meaning.roundings <= 1 && !body.inexact;
}

// ---- comparing

static bool same_bits(const HostArray *a, const HostArray *b, int64_t count) {
  return count == 0 || memcmp(a->data, b->data, (size_t)count * (size_t)dtype_bytes(a->dtype)) == 0;
}

// Integers beyond 2^53 are compared as such.
static bool same_integer(Judged *judged, const HostArray *got, const HostArray *want) {
  if (is_float(got->dtype)) return true;
  int64_t a = array_get_int(got, judged->index), b = array_get_int(want, judged->index);
  bool above = int_compare(OP_GT, got->dtype, a, b);
  judged->error = (double)(above ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a);
  return a == b || judged->error <= judged->allowed;
}

static double allowed_at(const HostArray *want, const double *allowed, const Tolerance *tolerance,
                         int64_t i) {
  if (!is_float(want->dtype)) return allowed ? allowed[i] : 0;
  double w = array_get(want, i);
  if (tolerance->given)
    return tolerance->absolute + (isfinite(w) ? tolerance->relative * fabs(w) : 0);
  return allowed ? allowed[i] : 0;
}

// Is a result right? Stores the difference in judged->error.
static bool is_right(Judged *judged, DType dtype) {
  double got = judged->got, want = judged->want;
  if (got == want || (isnan(got) && isnan(want)) || isinf(judged->allowed)) return true;
  judged->error = isnan(got - want) ? (double)INFINITY : fabs(got - want);
  bool overflows = is_float(dtype) && isinf(got) && isfinite(want) &&
                   signbit(got) == signbit(want) &&
                   fabs(want) + judged->allowed >= dtype_largest(dtype);
  return overflows || (judged->error <= judged->allowed && isfinite(want));
}

// The difference as a share of the allowance, by which elements are ranked.
static double share(const Judged *judged) {
  if (judged->index < 0 || judged->error == 0) return 0;
  return judged->allowed > 0 ? judged->error / judged->allowed : (double)INFINITY;
}

static bool is_worse(const Judged *a, const Judged *b) {
  return share(a) > share(b) || (share(a) == share(b) && a->error > b->error);
}

void comparison_add(Comparison *all, int output, const Comparison *more) {
  if (all->first.index < 0) all->first = more->first;
  if (all->worst.index < 0 || is_worse(&more->worst, &all->worst)) {
    all->worst = more->worst;
    all->output = output;
  }
  all->wrong += more->wrong;
  all->undetermined += more->undetermined;
}

Comparison compare_arrays(const HostArray *got, const HostArray *want, const double *allowed,
                          const Tolerance *tolerance, const uint8_t *specified) {
  Comparison c = {.first = {.index = -1}, .worst = {.index = -1}};
  int64_t count;
  REQUIRE(got->dtype == want->dtype && got->rank == want->rank && array_elements(got, &count));
  bool same = same_bits(got, want, count);
  for (int64_t i = 0; i < count; i++) {
    if (specified && !specified[i]) continue;
    Judged judged = {i, array_get(got, i), array_get(want, i), 0,
                     allowed_at(want, allowed, tolerance, i)};
    bool right = same || (is_right(&judged, got->dtype) && same_integer(&judged, got, want));
    c.undetermined += isinf(judged.allowed);
    if (isinf(judged.allowed)) continue;
    if (c.worst.index < 0 || is_worse(&judged, &c.worst)) c.worst = judged;
    if (!right && c.wrong++ == 0) c.first = judged;
  }
  return c;
}

// ---- messages

static void put_index(Buf *text, const HostArray *array, int64_t flat) {
  int64_t index[MAX_RANK];
  for (int k = array->rank - 1; k >= 0; k--) {
    index[k] = flat % array->dim[k];
    flat /= array->dim[k];
  }
  for (int k = 0; k < array->rank; k++)
    buf_printf(text, "%s%lld", k ? ", " : "[", (long long)index[k]);
  if (array->rank) buf_putc(text, ']');
}

const char *element_text(Arena *arena, const char *name, const HostArray *array, int64_t flat) {
  Buf text = {0};
  buf_puts(&text, name);
  put_index(&text, array, flat);
  return arena_take(arena, &text);
}

const char *comparison_text(Arena *arena, const char *name, const HostArray *array,
                            const Comparison *c) {
  int64_t count;
  REQUIRE(array_elements(array, &count));
  const Judged *first = &c->first, *worst = &c->worst;
  int digits = is_wide(array->dtype) ? 17 : 9;
  const char *text = arena_printf(
      arena,
      "%s is %.*g, expected %.*g (difference %.3g, allowed %.3g); %lld of %lld elements differ",
      element_text(arena, name, array, first->index), digits, first->got, digits, first->want,
      first->error, first->allowed, (long long)c->wrong, (long long)count);
  if (worst->index == first->index) return text;
  return arena_printf(arena,
                      "%s, the worst is %s: %.*g, expected %.*g (difference %.3g, allowed %.3g)",
                      text, element_text(arena, name, array, worst->index), digits, worst->got,
                      digits, worst->want, worst->error, worst->allowed);
}
