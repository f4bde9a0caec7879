// The naive reference: loops with a scalar accumulator (dot, reductions, argmax), and scans along
// an axis.
#include "codegen/ir/scalar.h"
#include "codegen/naive/internal.h"

#include <math.h>
#include <string.h>

// ---- accumulators

typedef struct {
  const char *type, *start;
} Accumulator;

// A sum with its error bound has a type of its own.
static bool is_sum(Op op) { return fold_operation[op] == OP_ADD; }

static const char *float_start(Naive *n, Op op, DType t) {
  double start = fold_start(op, t).f;
  if (isinf(start)) return start > 0 ? "INFINITY" : "-INFINITY";
  return format_double(n->arena, start);
}

static const char *integer_start(Naive *n, DType t, const char *type, int64_t start) {
  if (t == DT_BOOL) return start ? "true" : "false";
  if (start == 0 || start == 1) return naive_text(n, "%lld", (long long)start);
  if (start == INT64_MIN) return "INT64_MIN";
  if (t == DT_U64) return "UINT64_MAX";
  return naive_text(n, "(%s)INT64_C(%lld)", type, (long long)start);
}

// The type of an accumulator, in which integers wrap, and the neutral element.
static Accumulator accumulator_of(Naive *n, Op op, DType t) {
  if (is_float(t) && n->bounded)
    return is_sum(op) ? (Accumulator){"pk_bound_sum", naive_text(n, "{%s}", float_start(n, op, t))}
                      : (Accumulator){"pk_bound", naive_text(n, "{%s, 0}", float_start(n, op, t))};
  if (is_float(t)) return (Accumulator){naive_ctype(n, t), float_start(n, op, t)};
  bool compares = !op_has(fold_operation[op], PLAIN);
  const char *type = t == DT_BOOL              ? naive_ctype(n, t)
                     : compares && t != DT_U64 ? "int64_t"
                     : is_wide(t)              ? "uint64_t"
                                               : "uint32_t";
  return (Accumulator){type, integer_start(n, t, type, fold_start(op, t).i)};
}

static const char *summing_function(DType t) {
  return t == DT_F64 ? "pk_bound_take_f64" : "pk_bound_take";
}

static void bounded_step(Naive *n, Op op, DType t, const char *sum, const char *value) {
  Op operation = fold_operation[op];
  if (is_sum(op))
    naive_line(n, "%s(&%s, %s);", summing_function(t), sum, value);
  else if (operation == OP_MUL)
    naive_line(n, "%s = pk_bound_factor(%s, %s, &%s);", sum, sum, value, naive_rules(t));
  else
    naive_line(n, "%s = pk_bound_%s(%s, %s);", sum, op_info[operation].name, sum, value);
}

static void step(Naive *n, Op op, DType t, const char *sum, const char *value) {
  if (n->bounded && (is_float(t) || t == DT_BOOL)) return bounded_step(n, op, t, sum, value);
  Op operation = fold_operation[op];
  const char *wide = is_float(t) || t == DT_BOOL ? ""
                     : is_wide(t)                ? "(uint64_t)"
                                                 : "(uint32_t)",
             *kind = t == DT_F64   ? "pk_f64"
                     : is_float(t) ? "naive"
                     : t == DT_U64 ? "naive_u64"
                                   : "naive_i64";
  if (op_has(operation, PLAIN))
    naive_line(n, "%s %s= %s%s;", sum, element_info[operation].spelling, wide, value);
  else
    naive_line(n, "%s = %s_%s(%s, %s);", sum, kind, op_info[operation].name, sum, value);
}

// `products`: the terms are products of a dot.
static const char *finished(Naive *n, Op op, DType t, bool products, const char *sum) {
  if (n->bounded && is_float(t) && !is_sum(op)) return sum;
  if (n->bounded && is_float(t))
    sum = naive_text(n, "pk_bound_total(&%s, %s, &%s)", sum, products ? "true" : "false",
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
  return finished(n, v->op, t, false, sum);
}

// The unit that multiplies pairs of bf16 flushes subnormal numbers.
static void bounded_product(Naive *n, const Instr *v, const char *sum, const char *const *args) {
  const char *a = naive_summand(n, v->args[0]->type.dtype, args[0]),
             *b = naive_summand(n, v->args[1]->type.dtype, args[1]);
  double lost = n->k->lost;
  if (lost > 0) {
    if (v->args[0]->type.dtype == DT_F32) a = naive_text(n, "pk_bound_blurred(%s, %a)", a, lost);
    if (v->args[1]->type.dtype == DT_F32) b = naive_text(n, "pk_bound_blurred(%s, %a)", b, lost);
  }
  bool flushed = v->args[0]->type.dtype == DT_BF16 || n->hidden.summand == DT_BF16 || lost > 0;
  naive_line(n, "%s(&%s, pk_bound_mul(%s, %s, &%s));", summing_function(v->type.dtype), sum, a, b,
             naive_rules(v->type.dtype));
  if (flushed) naive_line(n, "naive_flush(&%s);", sum);
}

// An element of a contraction: writes its loops, and returns the sum.
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
  return finished(n, OP_REDUCE_SUM, t, true, sum);
}

// The position of an extreme: writes its loop, and returns the index.
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
  naive_line(n, "%s[%s] = %s;", name, naive_linear(n, &v->type, index),
             finished(n, v->op, t, false, sum));
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
