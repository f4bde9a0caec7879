// How far a result may be from what is expected (docs/numerics.md), and whether it is.
#include "codegen/driver.h"

#include <math.h>
#include <string.h>

// ---- the tolerance, from dtypes, operations and the longest reduction

typedef struct {
  const Kernel *k;
  const int64_t *sizes;
  int64_t longest;  // terms of the longest reduction
  int roundings;    // elementwise operations that round, at most counted to 2
  bool inexact;     // functions that are not correctly rounded, float reductions
  double narrow;    // spacing of the coarsest float type rounded to, 0 for f32 alone
} Survey;

static int64_t extent(const Survey *s, Dim dim) { return dim_is_const(dim) ? dim : s->sizes[dim_size_index(dim)]; }

static int64_t reduced_terms(const Survey *s, const Instr *v) {
  const Type *from = &v->args[0]->type;
  int64_t terms = 1;
  for (int axis = 0; axis < from->rank; axis++) {
    bool reduced = op_info[v->op].class == OPC_SCAN ? axis == v->ival : v->op == OP_DOT || (v->ival >> axis & 1);
    for (int i = 0; v->op == OP_DOT && i < v->type.rank; i++) reduced = reduced && v->labels.out[i] != v->labels.a[axis];
    if (reduced && !mul_i64(terms, extent(s, from->dim[axis]), &terms)) return INT64_MAX;
  }
  return terms;
}

// Operations whose float result is exact, or a choice among the operands.
static bool is_exact(Op op) {
  switch (op) {
    case OP_NEG:
    case OP_ABS:
    case OP_SIGN:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_TRUNC:
    case OP_MAX:
    case OP_MIN:
    case OP_SELECT:
    case OP_BITCAST:
    case OP_REM:
    case OP_REDUCE_MAX:
    case OP_REDUCE_MIN:
    case OP_CUMMAX:
    case OP_CUMMIN:
    case OP_SORT:
      return true;
    default:
      return op_info[op].class == OPC_SHAPE || op_info[op].class == OPC_LEAF || op_info[op].class == OPC_MEMORY ||
             op_info[op].class == OPC_CONTROL;
  }
}

static bool is_correctly_rounded(Op op) {
  return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_DIV || op == OP_SQRT || op == OP_RECIP || op == OP_FMA ||
         op == OP_CAST;
}

static void survey_instr(Instr *v, void *context) {
  Survey *s = context;
  DType t = v->type.dtype;
  if (!has_result(v) || !is_float(t) || is_exact(v->op)) return;
  bool widening =
      v->op == OP_CAST && is_float(v->args[0]->type.dtype) && dtype_info[v->args[0]->type.dtype].bits < dtype_info[t].bits;
  if (widening) return;
  if (dtype_spacing(t) > 0x1p-23 && dtype_spacing(t) > s->narrow) s->narrow = dtype_spacing(t);
  if (is_correctly_rounded(v->op)) {
    if (s->roundings < 2) s->roundings++;
    return;
  }
  s->inexact = true;
  if (v->op == OP_DOT || v->op == OP_REDUCE_SUM || v->op == OP_REDUCE_PROD || v->op == OP_CUMSUM || v->op == OP_CUMPROD) {
    int64_t terms = reduced_terms(s, v);
    if (terms > s->longest) s->longest = terms;
  }
}

// Without a reference the body says how long reductions are: each may go on over every step of the arbitrary axes.
static void survey_body(Survey *s, Kernel *k) {
  ir_walk(k->body, survey_instr, s);
  for (int i = 0; i < k->grid.count; i++)
    if (!k->grid.at[i].parallel &&
        !mul_i64(s->longest ? s->longest : 1, eval_index(k, k->grid.at[i].extent, s->sizes, NULL, 0), &s->longest))
      s->longest = INT64_MAX;
}

Tolerance tolerance_of(Kernel *k, const int64_t *sizes, DType output) {
  Tolerance t = {.reason = "exact"};
  if (!is_float(output)) return t;
  Survey body = {.k = k, .sizes = sizes}, meaning = body;
  survey_body(&body, k);
  if (k->reference)
    ir_walk(k->reference, survey_instr, &meaning);
  else
    meaning = body;
  if (!meaning.inexact && meaning.roundings <= 1 && !body.inexact) return t;
  t.longest = meaning.longest > 0 ? meaning.longest : 1;
  double narrow = fmax(dtype_spacing(output) > 0x1p-23 ? dtype_spacing(output) : 0, fmax(body.narrow, meaning.narrow));
  t.relative = 0x1p-23 * fmax(64, 1.3 * sqrt((double)t.longest)) + 2.5 * narrow;
  t.reason = narrow > 0 ? "rounding to a narrow float" : "f32 rounding";
  return t;
}

// ---- comparing

// Root of the mean square of the finite part.
static double magnitude(const HostArray *array, int64_t count) {
  double sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = array_get(array, i);
    if (!isfinite(v)) continue;
    sum += v * v;
    finite++;
  }
  return finite ? sqrt(sum / (double)finite) : 0;
}

static bool same_bits(const HostArray *a, const HostArray *b, int64_t count) {
  return count == 0 || memcmp(a->data, b->data, (size_t)count * (size_t)dtype_bytes(a->dtype)) == 0;
}

static bool close_enough(double got, double want, double bound, double *error) {
  *error = 0;
  if (got == want || (isnan(got) && isnan(want))) return true;
  *error = fabs(got - want);
  if (isnan(*error)) *error = INFINITY;
  return *error <= bound && isfinite(want);
}

// i64 beyond 2^53 is compared as integers.
static bool same_i64(const HostArray *got, const HostArray *want, int64_t i) {
  return got->dtype != DT_I64 || ((const int64_t *)got->data)[i] == ((const int64_t *)want->data)[i];
}

Comparison compare_arrays(const HostArray *got, const HostArray *want, double relative) {
  Comparison c = {.first_wrong = -1};
  int64_t count;
  REQUIRE(got->dtype == want->dtype && got->rank == want->rank && array_elements(got, &count));
  double scale = relative > 0 ? magnitude(want, count) : 0;
  c.bound = relative * scale;
  if (same_bits(got, want, count)) return c;
  for (int64_t i = 0; i < count; i++) {
    double g = array_get(got, i), w = array_get(want, i), error;
    double bound = relative * fmax(isfinite(w) ? fabs(w) : 0, scale);
    bool ok = close_enough(g, w, bound, &error) && same_i64(got, want, i);
    if (error > c.max_abs_error) {
      c.max_abs_error = error;
      c.bound = bound;
    }
    if (ok) continue;
    if (c.wrong++ == 0) {
      c.first_wrong = i;
      c.got = g;
      c.want = w;
      c.wrong_bound = bound;
    }
  }
  return c;
}

static void put_index(Buf *text, const HostArray *array, int64_t flat) {
  int64_t index[MAX_RANK];
  for (int k = array->rank - 1; k >= 0; k--) {
    index[k] = flat % array->dim[k];
    flat /= array->dim[k];
  }
  for (int k = 0; k < array->rank; k++) buf_printf(text, "%s%lld", k ? ", " : "[", (long long)index[k]);
  if (array->rank) buf_putc(text, ']');
}

const char *comparison_text(Arena *arena, const char *name, const HostArray *array, const Comparison *c) {
  Buf text = {0};
  int64_t count;
  REQUIRE(array_elements(array, &count));
  buf_puts(&text, name);
  put_index(&text, array, c->first_wrong);
  buf_printf(&text, " is %.9g, expected %.9g (allowed difference %.3g); %lld of %lld elements differ", c->got, c->want,
             c->wrong_bound, (long long)c->wrong, (long long)count);
  const char *copy = arena_strndup(arena, text.text, text.length);
  buf_free(&text);
  return copy;
}
