// The naive reference: loops with a scalar accumulator (dot, reductions, argmax), and scans along
// an axis.
#include "codegen/naive/internal.h"

#include <string.h>

// ---- accumulators

typedef struct {
  const char *type, *start;
} Accumulator;

static bool is_sum(Op op) { return op == OP_REDUCE_SUM || op == OP_CUMSUM || op == OP_DOT; }

static Accumulator bounded_accumulator(Op op, DType t) {
  if (is_sum(op)) return (Accumulator){"pk_bound_sum", "{0}"};
  if (op == OP_REDUCE_PROD || op == OP_CUMPROD) return (Accumulator){"pk_bound", "{1, 0}"};
  bool greatest = op == OP_REDUCE_MAX || op == OP_CUMMAX;
  if (t == DT_F8E4M3FN) return (Accumulator){"pk_bound", greatest ? "{-448, 0}" : "{448, 0}"};
  return (Accumulator){"pk_bound", greatest ? "{-INFINITY, 0}" : "{INFINITY, 0}"};
}

// The identity of a reduction, in the accumulator's type.
static Accumulator accumulator_of(Naive *n, Op op, DType t) {
  bool floats = is_float(t);
  const char *type = floats || t == DT_BOOL ? naive_ctype(n, t)
                     : is_wide(t)           ? "uint64_t"
                                            : "uint32_t";
  if (n->bounded && floats) return bounded_accumulator(op, t);
  bool greatest = op == OP_REDUCE_MAX || op == OP_CUMMAX,
       least = op == OP_REDUCE_MIN || op == OP_CUMMIN;
  if (greatest || least) {
    if (t == DT_F8E4M3FN) return (Accumulator){type, greatest ? "-448" : "448"};
    if (floats) return (Accumulator){type, greatest ? "-INFINITY" : "INFINITY"};
    if (t == DT_U64) return (Accumulator){type, greatest ? "0" : "UINT64_MAX"};
    int64_t start = greatest ? dtype_min(t) : dtype_max(t);
    return (Accumulator){"int64_t", start == INT64_MIN
                                        ? "INT64_MIN"
                                        : naive_text(n, "INT64_C(%lld)", (long long)start)};
  }
  if (op == OP_REDUCE_PROD || op == OP_CUMPROD) return (Accumulator){type, "1"};
  if (op == OP_REDUCE_AND)
    return (Accumulator){type, t == DT_BOOL ? "true" : naive_text(n, "(%s)-1", type)};
  return (Accumulator){type, "0"};
}

static const char *take(DType t) { return t == DT_F64 ? "pk_bound_take_f64" : "pk_bound_take"; }

static void bounded_step(Naive *n, Op op, DType t, const char *sum, const char *value) {
  bool product = op == OP_REDUCE_PROD || op == OP_CUMPROD,
       greatest = op == OP_REDUCE_MAX || op == OP_CUMMAX;
  if (is_sum(op))
    naive_line(n, "%s(&%s, %s);", take(t), sum, value);
  else if (product)
    naive_line(n, "%s = pk_bound_factor(%s, %s, &%s);", sum, sum, value, naive_rules(t));
  else
    naive_line(n, "%s = pk_bound_%s(%s, %s);", sum, greatest ? "max" : "min", sum, value);
}

static void step(Naive *n, Op op, DType t, const char *sum, const char *value) {
  if (n->bounded && is_float(t)) return bounded_step(n, op, t, sum, value);
  const char *kind = t == DT_F64                  ? "pk_f64"
                     : is_float(t) || t == DT_U64 ? "naive"
                                                  : "pk_idx",
             *suffix = t == DT_U64 ? "_u64" : "",
             *wide = is_float(t)  ? ""
                     : is_wide(t) ? "(uint64_t)"
                                  : "(uint32_t)";
  switch (op) {
    case OP_REDUCE_SUM:
    case OP_CUMSUM:
      naive_line(n, "%s += %s%s;", sum, wide, value);
      return;
    case OP_REDUCE_PROD:
    case OP_CUMPROD:
      naive_line(n, "%s *= %s%s;", sum, wide, value);
      return;
    case OP_REDUCE_MAX:
    case OP_CUMMAX:
      naive_line(n, "%s = %s_max%s(%s, %s);", sum, kind, suffix, sum, value);
      return;
    case OP_REDUCE_MIN:
    case OP_CUMMIN:
      naive_line(n, "%s = %s_min%s(%s, %s);", sum, kind, suffix, sum, value);
      return;
    case OP_REDUCE_AND:
      if (n->bounded && t == DT_BOOL)
        return naive_line(n, "%s = pk_bound_and(%s, %s);", sum, sum, value);
      naive_line(n, "%s = %s & %s%s;", sum, sum, t == DT_BOOL ? "" : wide, value);
      return;
    case OP_REDUCE_OR:
      if (n->bounded && t == DT_BOOL)
        return naive_line(n, "%s = pk_bound_or(%s, %s);", sum, sum, value);
      naive_line(n, "%s = %s | %s%s;", sum, sum, t == DT_BOOL ? "" : wide, value);
      return;
    case OP_REDUCE_XOR:
      if (n->bounded && t == DT_BOOL)
        return naive_line(n, "%s = pk_bound_xor(%s, %s);", sum, sum, value);
      naive_line(n, "%s = %s ^ %s%s;", sum, sum, t == DT_BOOL ? "" : wide, value);
      return;
    default:
      INTERNAL("%s does not accumulate", op_info[op].name);
  }
}

static const char *finished(Naive *n, Op op, DType t, const char *sum) {
  if (n->bounded && is_float(t) && !is_sum(op)) return sum;
  if (n->bounded && is_float(t))
    sum = naive_text(n, "pk_bound_total(&%s, %s, &%s)", sum, op == OP_DOT ? "true" : "false",
                     naive_rules(t));
  if (is_float(t)) return naive_rounded(n, t, sum);
  return t == DT_BOOL ? sum : naive_converted(n, t, sum);
}

static const char *reduce(Naive *n, Instr *v, const char *const *index) {
  Instr *from = v->args[0];
  DType t = v->type.dtype;
  Accumulator a = accumulator_of(n, v->op, t);
  const char *sum = naive_text(n, "s%d", n->names++), *inner[MAX_RANK] = {0};
  int loops = n->loops, indent = n->indent;
  naive_line(n, "%s %s = %s;", a.type, sum, a.start);
  for (int i = 0; i < from->type.rank; i++)
    inner[i] = v->ival >> i & 1 ? naive_open_loop(n, from->type.dim[i]) : index[i];
  step(n, v->op, t, sum, naive_element(n, from, inner));
  naive_close_loops(n, n->indent - indent);
  n->loops = loops;
  return finished(n, v->op, t, sum);
}

// The unit that multiplies pairs of bf16 flushes subnormal numbers.
static void bounded_product(Naive *n, const Instr *v, const char *sum, const char *const *args) {
  const char *a = naive_summand(n, v->args[0]->type.dtype, args[0]),
             *b = naive_summand(n, v->args[1]->type.dtype, args[1]);
  bool flushed = v->args[0]->type.dtype == DT_BF16 || n->hidden.summand == DT_BF16;
  naive_line(n, "%s(&%s, pk_bound_mul(%s, %s, &%s));", take(v->type.dtype), sum, a, b,
             naive_rules(v->type.dtype));
  if (flushed) naive_line(n, "naive_flush(&%s);", sum);
}

static const char *dot(Naive *n, Instr *v, const char *const *index) {
  const char *at[DOT_LABELS] = {0}, *args[2], *inner[MAX_RANK] = {0};
  const int8_t *labels[2] = {v->labels.a, v->labels.b};
  DType t = v->type.dtype;
  Accumulator a = accumulator_of(n, OP_REDUCE_SUM, t);
  const char *sum = naive_text(n, "s%d", n->names++), *wide = t == DT_F64   ? "(double)"
                                                              : is_float(t) ? ""
                                                              : is_wide(t)  ? "(uint64_t)"
                                                                            : "(uint32_t)";
  int loops = n->loops, indent = n->indent;
  naive_line(n, "%s %s = %s;", a.type, sum, a.start);
  for (int i = 0; i < v->type.rank; i++) at[v->labels.out[i]] = index[i];
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < v->args[side]->type.rank; i++)
      if (!at[labels[side][i]])
        at[labels[side][i]] = naive_open_loop(n, v->args[side]->type.dim[i]);
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < v->args[side]->type.rank; i++) inner[i] = at[labels[side][i]];
    args[side] = naive_element(n, v->args[side], inner);
  }
  if (n->bounded && is_float(t))
    bounded_product(n, v, sum, args);
  else
    naive_line(n, "%s += %s%s * %s%s;", sum, wide, args[0], wide, args[1]);
  naive_close_loops(n, n->indent - indent);
  n->loops = loops;
  return finished(n, OP_DOT, t, sum);
}

static const char *argreduce(Naive *n, Instr *v, const char *const *index) {
  Instr *from = v->args[0];
  int id = n->names++, loops = n->loops, indent = n->indent;
  const char *inner[MAX_RANK] = {0}, *type = naive_ctype(n, from->type.dtype),
             *better = v->op == OP_ARGMAX ? ">" : "<";
  naive_line(n, "int32_t s%d = 0;", id);
  naive_line(n, "%s best%d = {0};", type, id);
  for (int i = 0; i < from->type.rank; i++) inner[i] = index[i];
  const char *at = inner[v->ival] = naive_open_loop(n, from->type.dim[v->ival]);
  naive_line(n, "const %s x%d = %s;", type, id, naive_element(n, from, inner));
  if (n->bounded && is_float(from->type.dtype))
    naive_line(
        n,
        "if (%s == 0 || x%d.value %s best%d.value || (isnan(x%d.value) && !isnan(best%d.value))) {",
        at, id, better, id, id, id);
  else if (is_float(from->type.dtype))
    naive_line(n, "if (%s == 0 || x%d %s best%d || (isnan(x%d) && !isnan(best%d))) {", at, id,
               better, id, id, id);
  else
    naive_line(n, "if (%s == 0 || x%d %s best%d) {", at, id, better, id);
  naive_line(n, "  best%d = x%d;", id, id);
  naive_line(n, "  s%d = (int32_t)%s;", id, at);
  naive_line(n, "}");
  naive_close_loops(n, n->indent - indent);
  n->loops = loops;
  return naive_text(n, "s%d", id);
}

const char *naive_accumulate(Naive *n, Instr *v, const char *const *index) {
  switch (op_info[v->op].class) {
    case OPC_DOT:
      return dot(n, v, index);
    case OPC_ARGREDUCE:
      return argreduce(n, v, index);
    default:
      return reduce(n, v, index);
  }
}

// ---- along an axis

// Loops over every axis but one, whose index is left open.
static int open_other_axes(Naive *n, const Type *type, int64_t axis, const char **index) {
  int indent = n->indent;
  for (int i = 0; i < type->rank; i++)
    if (i != axis) index[i] = naive_open_loop(n, type->dim[i]);
  return n->indent - indent;
}

static void running(Naive *n, Instr *v) {
  DType t = v->type.dtype;
  int64_t axis = v->ival;
  Accumulator a = accumulator_of(n, v->op, t);
  const char *index[MAX_RANK] = {0}, *name = naive_value(v)->name,
             *sum = naive_text(n, "s%d", n->names++);
  int open = open_other_axes(n, &v->type, axis, index), indent = n->indent;
  naive_line(n, "%s %s = %s;", a.type, sum, a.start);
  const char *i = naive_open_loop(n, v->type.dim[axis]);
  index[axis] = v->flags & INSTR_REVERSE
                    ? naive_text(n, "(%s - 1 - %s)", naive_extent(n, v->type.dim[axis]), i)
                    : i;
  step(n, v->op, t, sum, naive_element(n, v->args[0], index));
  naive_line(n, "%s[%s] = %s;", name, naive_linear(n, &v->type, index), finished(n, v->op, t, sum));
  naive_close_loops(n, n->indent - indent + open);
}

// Elements between neighbours along an axis.
static const char *stride_of(Naive *n, const Type *type, int64_t axis) {
  const char *stride = "1";
  for (int i = (int)axis + 1; i < type->rank; i++)
    if (type->dim[i] != 1)
      stride = strcmp(stride, "1") == 0
                   ? naive_extent(n, type->dim[i])
                   : naive_text(n, "%s * %s", stride, naive_extent(n, type->dim[i]));
  return stride;
}

// The values go to one array, the order to another; one of the two is the result.
static void sorted(Naive *n, Instr *v) {
  Instr *from = v->args[0];
  int64_t axis = v->ival;
  bool floats = is_float(from->type.dtype), order = v->op == OP_ARGSORT;
  const char *index[MAX_RANK] = {0}, *name = naive_value(v)->name,
             *line = naive_text(n, "line%d", n->names),
             *type = floats || from->type.dtype == DT_U64 ? naive_ctype(n, from->type.dtype)
                                                          : "int64_t";
  const char *places = order ? name : naive_text(n, "order%d", n->names);
  n->names++;
  int slot = n->slots++, spare = n->slots++;
  naive_line(n, "%s *%s = naive_memory(&memory[%d], %s, sizeof *%s);", type, line, slot,
             naive_elements(n, &v->type), line);
  if (!order)
    naive_line(n, "int32_t *%s = naive_memory(&memory[%d], %s, sizeof *%s);", places, spare,
               naive_elements(n, &v->type), places);
  naive_line(n, "if (!%s || !%s) goto no_memory;", line, places);
  int indent = n->indent;
  for (int i = 0; i < v->type.rank; i++) index[i] = naive_open_loop(n, v->type.dim[i]);
  naive_line(n, "%s[%s] = %s;", line, naive_linear(n, &v->type, index),
             naive_element(n, from, index));
  naive_close_loops(n, n->indent - indent);
  n->loops = 0;
  int open = open_other_axes(n, &v->type, axis, index);
  index[axis] = "0";
  const char *at = naive_linear(n, &v->type, index);
  naive_line(n, "naive_sort_%s(%s + %s, %s, %s + %s, %s, %s);",
             from->type.dtype == DT_U64   ? "unsigned"
             : !floats                    ? "integers"
             : n->bounded                 ? "bounds"
             : from->type.dtype == DT_F64 ? "doubles"
                                          : "floats",
             line, at, stride_of(n, &v->type, axis), places, at, naive_extent(n, v->type.dim[axis]),
             v->flags & INSTR_REVERSE ? "true" : "false");
  naive_close_loops(n, open);
  if (order) return;
  n->loops = 0;
  for (int i = 0; i < v->type.rank; i++) index[i] = naive_open_loop(n, v->type.dim[i]);
  at = naive_linear(n, &v->type, index);
  naive_line(n, "%s[%s] = (%s)%s[%s];", name, at, naive_ctype(n, v->type.dtype), line, at);
  naive_close_loops(n, n->indent - indent);
}

void naive_scan(Naive *n, Instr *v) {
  if (v->op == OP_SORT || v->op == OP_ARGSORT)
    sorted(n, v);
  else
    running(n, v);
}
