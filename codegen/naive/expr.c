// The naive reference: an element of a value as a C expression.
#include "codegen/ir/array.h"
#include "codegen/ir/axes.h"
#include "codegen/naive/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void naive_line(Naive *n, const char *format, ...) {
  va_list args;
  va_start(args, format);
  buf_printf(n->out, "%*s", 2 * n->indent, "");
  buf_vprintf(n->out, format, args);
  buf_putc(n->out, '\n');
  va_end(args);
}

// ---- extents and indices

// A derived size, and one from which another is solved, has its expression as its name in the
// source; here it gets a number.
const char *naive_size(Naive *n, int index) {
  const Size *size = &n->k->sizes.at[index];
  bool named = !size->value && !size->solved;
  return named ? naive_text(n, "%s_size", size->name) : naive_text(n, "derived%d", index);
}

const char *naive_extent(Naive *n, Dim dim) {
  if (!dim_is_const(dim)) return naive_size(n, dim_size_index(dim));
  return naive_text(n, dim > INT32_MAX ? "INT64_C(%lld)" : "%lld", (long long)dim);
}

const char *naive_elements(Naive *n, const Type *type) {
  const char *count = NULL;
  for (int i = 0; i < type->rank; i++) {
    const char *extent = naive_extent(n, type->dim[i]);
    count = !count ? extent : naive_text(n, "pk_sat_mul(%s, %s)", count, extent);
  }
  return count ? count : "1";
}

const char *naive_linear(Naive *n, const Type *type, const char *const *index) {
  const char *at = NULL;
  for (int i = 0; i < type->rank; i++) {
    if (type->dim[i] == 1) continue;
    if (!at)
      at = index[i];
    else if (strchr(at, ' '))
      at = naive_text(n, "(%s) * %s + %s", at, naive_extent(n, type->dim[i]), index[i]);
    else
      at = naive_text(n, "%s * %s + %s", at, naive_extent(n, type->dim[i]), index[i]);
  }
  return at ? at : "0";
}

const char *naive_open_loop(Naive *n, Dim extent) {
  if (extent == 1) return "0";
  const char *index = naive_text(n, "i%d", n->loops++);
  naive_line(n, "for (int64_t %s = 0; %s < %s; %s++) {", index, index, naive_extent(n, extent),
             index);
  n->indent++;
  return index;
}

void naive_close_loops(Naive *n, int count) {
  for (int i = 0; i < count; i++) {
    n->indent--;
    naive_line(n, "}");
  }
}

// ---- dtypes

const char *naive_ctype(const Naive *n, DType t) {
  if (t == DT_BOOL) return n->bounded ? "unsigned char" : "bool";
  return is_float(t)                                                 ? n->bounded    ? "pk_bound"
                                                                       : t == DT_F64 ? "double"
                                                                                     : "naive_float"
         : is_part_of_byte(t) && dtype_info[t].class == CLASS_SIGNED ? "int8_t"
                                                                     : dtype_info[t].ctype;
}

// The C of a value that may have been rounded to t; `value` itself if there is no such t.
static const char *perhaps_rounded(Naive *n, DType t, const char *value) {
  if (t == DT_COUNT || !is_narrow_float(t)) return value;
  return naive_text(n, "pk_bound_also(naive_as_%s, %a, %a, %s)", dtype_info[t].name,
                    dtype_spacing(t) / 2, ldexp(1, dtype_least_exponent(t)), value);
}

const char *naive_summand(Naive *n, DType t, const char *value) {
  return n->bounded && is_float(t) ? perhaps_rounded(n, n->hidden.summand, value) : value;
}

const char *naive_rounded(Naive *n, DType t, const char *value) {
  if (n->bounded && is_float(t))
    return perhaps_rounded(n, n->hidden.anywhere, perhaps_rounded(n, t, value));
  return is_narrow_float(t) ? naive_text(n, "naive_round_%s(%s)", dtype_info[t].name, value)
                            : value;
}

// A bool, without the bit that marks it as decided by rounding.
const char *naive_truth(Naive *n, const char *value) {
  return n->bounded ? naive_text(n, "(%s & 1)", value) : value;
}

const char *naive_stored(Naive *n, DType t, const char *value) {
  if (n->bounded && is_float(t)) value = naive_text(n, "%s.value", value);
  if (n->bounded && t == DT_BOOL) return naive_truth(n, value);
  if (is_narrow_float(t))
    return naive_text(n, "pk_%s_from_f32((float)%s)", dtype_info[t].name, value);
  if (is_part_of_byte(t) && dtype_info[t].class == CLASS_SIGNED)
    return naive_text(n, "(uint8_t)(%s & %d)", value, (1 << dtype_info[t].bits) - 1);
  return is_float(t) ? naive_text(n, "(%s)%s", dtype_info[t].ctype, value) : value;
}

const char *naive_converted(Naive *n, DType t, const char *value) {
  return is_part_of_byte(t) ? naive_text(n, "naive_wrap_%s(%s)", dtype_info[t].name, value)
                            : naive_text(n, "(%s)%s", naive_ctype(n, t), value);
}

static const char *exactly(Naive *n, const char *value) {
  return naive_text(n, "pk_bound_exact((pk_real)%s)", value);
}

static const char *loaded(Naive *n, DType t, const char *element) {
  if (n->bounded && is_float(t))
    return exactly(n, is_narrow_float(t)
                          ? naive_text(n, "pk_f32_from_%s(%s)", dtype_info[t].name, element)
                          : element);
  if (is_narrow_float(t))
    return naive_text(n, "(naive_float)pk_f32_from_%s(%s)", dtype_info[t].name, element);
  if (is_part_of_byte(t)) return naive_converted(n, t, element);
  if (t == DT_F32) return naive_text(n, "(naive_float)%s", element);
  return t == DT_BOOL ? naive_text(n, "(%s != 0)", element) : element;
}

static const char *double_text(Naive *n, double value) {
  if (isnan(value)) return "((double)NAN)";
  if (isinf(value)) return value > 0 ? "((double)INFINITY)" : "((double)-INFINITY)";
  return naive_text(n, value < 0 ? "(%a)" : "%a", value);
}

// A constant as C.
static const char *constant(Naive *n, const Instr *v) {
  DType t = v->type.dtype;
  if (t == DT_BOOL) return v->ival ? "true" : "false";
  if (is_float(t) && n->bounded) {
    if (isnan(v->fval)) return exactly(n, "NAN");
    return exactly(n, isinf(v->fval) ? v->fval > 0 ? "INFINITY" : "-INFINITY"
                                     : naive_text(n, "%a", dtype_round(t, v->fval)));
  }
  if (t == DT_F64) return double_text(n, v->fval);
  if (is_float(t)) {
    if (isnan(v->fval)) return "((naive_float)NAN)";
    if (isinf(v->fval)) return v->fval > 0 ? "((naive_float)INFINITY)" : "((naive_float)-INFINITY)";
    const char *digits = format_double(n->arena, (double)(float)v->fval);
    return naive_text(n, *digits == '-' ? "((naive_float)%sf)" : "(naive_float)%sf", digits);
  }
  if (t == DT_U64) return naive_text(n, "UINT64_C(%llu)", (unsigned long long)v->ival);
  if (v->ival == INT64_MIN) return "INT64_MIN";
  if (v->ival == INT32_MIN && t == DT_I32) return "INT32_MIN";
  const char *form = t == DT_U32                                   ? "%lldu"
                     : v->ival > INT32_MAX || v->ival < -INT32_MAX ? "INT64_C(%lld)"
                                                                   : "%lld";
  const char *digits = naive_text(n, form, (long long)v->ival);
  return v->ival < 0 ? naive_text(n, "(%s)", digits) : digits;
}

// ---- elementwise operations

// "FUNCTION(a, b, RULES)": `first` and `rules` may be "".
static const char *called(Naive *n, const char *function, const char *first, const Instr *v,
                          const char *const *args, const char *rules) {
  const char *list = first;
  for (int i = 0; i < v->nargs; i++) list = naive_text(n, *list ? "%s, %s" : "%s%s", list, args[i]);
  return naive_text(n, "%s(%s%s)", function, list, rules);
}

const char *naive_rules(DType t) { return t == DT_F64 ? "naive_rules_f64" : "naive_rules"; }

// The function for pk_real: for long double, libm's has another name, and bound.h has those of
// f64.h.
static const char *real_function(Naive *n, const char *function) {
  if (!n->wide) return function;
  return strncmp(function, "pk_f64_", 7) == 0 ? naive_text(n, "pk_wide_%s", function + 7)
                                              : naive_text(n, "%sl", function);
}

static const char *bounded(Naive *n, const Instr *v, const char *const *args) {
  const ElementInfo *info = &element_info[v->op];
  const char *own = naive_text(n, "pk_bound_%s", op_info[v->op].name),
             *rules = naive_text(n, ", &%s", naive_rules(v->type.dtype));
  if (info->bound == BOUND_STEPS)
    return called(n, "pk_bound_steps", real_function(n, info->c), v, args, "");
  if (info->bound == BOUND_CHOICE || v->type.dtype == DT_BOOL)
    return called(n, own, "", v, args, "");
  return naive_rounded(
      n, v->type.dtype,
      info->bound == BOUND_MONOTONE
          ? called(n, "pk_bound_monotone", real_function(n, info->c), v, args, rules)
          : called(n, own, "", v, args, rules));
}

// The C functions, in float and in double, for the function in a row of ops.def; NULL: none.
static const char *const in_place[OP_COUNT][2] = {
    [OP_RSQRT] = {"(1 / sqrt($0))", "(1 / sqrt($0))"},
    [OP_RECIP] = {"(1 / $0)", "(1 / $0)"},
    [OP_LOGISTIC] = {"naive_logistic($0)", NULL},
    [OP_FLOORDIV] = {NULL, "pk_f64_floordiv_f64($0, $1)"},
    [OP_MAX] = {"naive_max($0, $1)", NULL},
    [OP_MIN] = {"naive_min($0, $1)", NULL},
};

static const char *spelled(Naive *n, const Instr *v, const char *const *args) {
  const char *spelling = element_info[v->op].spelling;
  return v->nargs == 1 ? naive_text(n, "(%s%s)", spelling, args[0])
                       : naive_text(n, "(%s %s %s)", args[0], spelling, args[1]);
}

// libm's functions in float, as in <tgmath.h>.
static const char *of_floats(Naive *n, const Instr *v, const char *const *args) {
  const ElementInfo *info = &element_info[v->op];
  const char *form = in_place[v->op][v->type.dtype == DT_F64];
  if (form) return fill_template(n->arena, form, args, NULL, NULL);
  if (op_has(v->op, PLAIN)) return spelled(n, v, args);
  const char *call = called(n, info->c, "", v, args, "");
  bool libm = strncmp(info->c, "pk_f64_", 7) != 0;
  return libm ? call : naive_text(n, "(%s)%s", naive_ctype(n, v->type.dtype), call);
}

static const char *wrapping(Naive *n, const Instr *v, const char *const *args) {
  const char *wide = is_wide(v->type.dtype) ? "uint64_t" : "uint32_t",
             *spelling = element_info[v->op].spelling;
  if (v->nargs == 1) return naive_text(n, "(0 %s (%s)%s)", spelling, wide, args[0]);
  return naive_text(n, "((%s)%s %s (%s)%s)", wide, args[0], spelling, wide, args[1]);
}

// naive_i64_NAME or naive_u64_NAME; functions for integers only also receive the width.
static const char *called_on_integers(Naive *n, const Instr *v, const char *const *args) {
  DType t = v->type.dtype;
  const char *function =
      naive_text(n, "naive_%s_%s", t == DT_U64 ? "u64" : "i64", op_info[v->op].name);
  bool by_width = op_info[v->op].domain == DOMAIN_INTEGERS;
  return called(n, function, "", v, args,
                by_width ? naive_text(n, ", %d", dtype_info[t].bits) : "");
}

static const char *of_integers(Naive *n, const Instr *v, const char *const *args) {
  DType t = v->type.dtype;
  bool operates = op_has(v->op, PLAIN) && !op_has(v->op, DIVIDES);
  if (t == DT_BOOL && v->nargs == 1) return naive_text(n, "(!%s)", args[0]);
  const char *value = !operates              ? called_on_integers(n, v, args)
                      : op_has(v->op, WRAPS) ? wrapping(n, v, args)
                                             : spelled(n, v, args);
  // C's integers wrap by themselves, except if they are wider than the dtype.
  value = naive_text(n, "(%s)%s", naive_ctype(n, t), value);
  return is_part_of_byte(t) ? naive_converted(n, t, value) : value;
}

static const char *compare(Naive *n, const Instr *v, const char *const *args) {
  DType t = v->args[0]->type.dtype;
  if (n->bounded && is_float(t))
    return called(n, naive_text(n, "pk_bound_%s", op_info[v->op].name), "", v, args, "");
  if (t != DT_BOOL) return spelled(n, v, args);
  return spelled(n, v, (const char *[]){naive_truth(n, args[0]), naive_truth(n, args[1])});
}

static const char *bounded_cast(Naive *n, DType from, DType to, const char *a) {
  if (is_float(from)) {
    bool narrowing = is_float(to) && !dtype_holds(to, from);
    if (is_float(to))
      return narrowing ? naive_text(n, "pk_bound_rounded(naive_as_%s, %s)", dtype_info[to].name, a)
                       : a;
    return naive_text(n, "pk_bound_ne(%s, pk_bound_exact(0))", a);
  }
  bool odd = is_wide(from) && to != DT_F64;  // 64 bits, to be rounded once
  const char *value = odd ? naive_text(n, "(pk_real)naive_odd_%s(%s)", dtype_info[from].name, a)
                          : naive_text(n, "(pk_real)%s", a);
  return naive_text(n, "pk_bound_rounded(naive_as_%s, pk_bound_exact(%s))", dtype_info[to].name,
                    value);
}

// 64 bits in f32, so that rounding once more is the only rounding.
static const char *odd_text(Naive *n, DType from, const char *a) {
  if (is_float(from)) return naive_text(n, "naive_odd(%s)", a);
  return naive_text(n, "naive_odd(naive_odd_%s(%s))", dtype_info[from].name, a);
}

// A cast as C.
const char *naive_cast(Naive *n, DType from, DType to, const char *a) {
  if (n->bounded && from == DT_BOOL && is_float(to))
    return naive_text(n, "pk_bound_of_bool(%s)", a);
  if (from == DT_BOOL) a = naive_truth(n, a);
  if (n->bounded && (is_float(to) || (to == DT_BOOL && is_float(from))))
    return bounded_cast(n, from, to, a);
  if (n->bounded && is_float(from)) a = naive_text(n, "(double)%s.value", a);
  if (to == DT_BOOL) return naive_text(n, "(%s != 0)", a);
  if (is_float(to)) {
    bool widening = is_float(from) && dtype_holds(to, from);
    if (to == DT_F64) return naive_text(n, "(double)%s", a);
    if (is_narrow_float(to) && is_wide(from)) return naive_rounded(n, to, odd_text(n, from, a));
    if (is_float(from))
      return from == DT_F64 ? naive_text(n, "(naive_float)%s", a)
             : widening     ? a
                            : naive_rounded(n, to, a);
    return naive_rounded(
        n, to, naive_text(n, is_narrow_float(to) ? "naive_odd((double)%s)" : "(naive_float)%s", a));
  }
  if (!is_float(from)) return naive_converted(n, to, a);
  if (to == DT_U64) return naive_text(n, "naive_unsigned(%s)", a);
  const char *low =
      dtype_min(to) == INT64_MIN ? "INT64_MIN" : naive_text(n, "%lld", (long long)dtype_min(to));
  return naive_text(n, "(%s)naive_integer(%s, %s, INT64_C(%lld))", naive_ctype(n, to), a, low,
                    (long long)dtype_max(to));
}

static const char *bits_to(Naive *n, DType to, const char *bits) {
  if (to == DT_F64) {
    const char *value = naive_text(n, "pk_f64_of_bits((uint64_t)%s)", bits);
    return n->bounded ? exactly(n, value) : value;
  }
  if (to == DT_F32) {
    const char *value = naive_text(n, "pk_f32_of_bits((uint32_t)%s)", bits);
    return n->bounded ? exactly(n, value) : naive_text(n, "(naive_float)%s", value);
  }
  if (is_float(to)) return loaded(n, to, naive_text(n, "(%s)%s", dtype_info[to].ctype, bits));
  return to == DT_BOOL ? naive_text(n, "(%s != 0)", bits) : naive_converted(n, to, bits);
}

static const char *bitcast(Naive *n, DType from, DType to, const char *a) {
  if (n->bounded && (from == DT_F32 || from == DT_F64)) a = naive_text(n, "%s.value", a);
  if (from == DT_F64) return bits_to(n, to, naive_text(n, "pk_bits_of_f64((double)%s)", a));
  if (from == DT_F32) return bits_to(n, to, naive_text(n, "pk_bits_of_f32((float)%s)", a));
  return bits_to(n, to, is_float(from) ? naive_stored(n, from, a) : a);
}

// An elementwise operation as C.
static const char *elementwise(Naive *n, const Instr *v, const char *const *args) {
  DType t = v->type.dtype, from = v->nargs ? v->args[0]->type.dtype : t;
  switch (op_info[v->op].class) {
    case OPC_UNARY:
    case OPC_BINARY:
    case OPC_TERNARY:
      if (n->bounded && (is_float(t) || t == DT_BOOL)) return bounded(n, v, args);
      return is_float(t) ? naive_rounded(n, t, of_floats(n, v, args)) : of_integers(n, v, args);
    case OPC_PREDICATE:
      return naive_text(n, n->bounded ? "%s(%s.value)" : "%s((double)%s)", element_info[v->op].c,
                        args[0]);
    case OPC_COMPARE:
      return compare(n, v, args);
    case OPC_SELECT:
      if (n->bounded && is_float(t))
        return naive_text(n, "pk_bound_select(%s, %s, %s)", args[0], args[1], args[2]);
      if (n->bounded) return naive_text(n, "(%s & 1 ? %s : %s)", args[0], args[1], args[2]);
      return naive_text(n, "(%s ? %s : %s)", args[0], args[1], args[2]);
    case OPC_CAST:
      return v->op == OP_CAST ? naive_cast(n, from, t, args[0]) : bitcast(n, from, t, args[0]);
    default:
      INTERNAL("%s is not elementwise", op_info[v->op].name);
  }
}

// ---- moving elements: the index of the operand from that of the result

// An element of a reshape, by the index in its operand.
static const char *reshaped(Naive *n, const Instr *v, const char *const *index) {
  Instr *from = v->args[0];
  const Type *type = &from->type;
  if (naive_value(from)->place == IN_MEMORY)
    return naive_text(n, "%s[%s]", naive_value(from)->name, naive_linear(n, &v->type, index));
  const char *inner[MAX_RANK] = {0}, *units[MAX_RANK];
  int taken = 0, count = 0;
  for (int i = 0; i < v->type.rank; i++)
    if (v->type.dim[i] != 1) units[count++] = index[i];
  bool same = true;
  for (int i = 0, at = 0; i < type->rank && same; i++) {
    inner[i] = "0";
    if (type->dim[i] == 1) continue;
    while (at < v->type.rank && v->type.dim[at] == 1) at++;
    same = at < v->type.rank && v->type.dim[at++] == type->dim[i] && taken < count;
    if (same) inner[i] = units[taken++];
  }
  if (same && taken == count) return naive_element(n, from, inner);
  const char *at = naive_text(n, "at%d", n->names++), *rest = at;
  naive_line(n, "const int64_t %s = %s;", at, naive_linear(n, &v->type, index));
  for (int i = type->rank - 1; i >= 0; i--) {
    const char *extent = naive_extent(n, type->dim[i]);
    inner[i] = i == 0 ? rest : naive_text(n, "%s %% %s", rest, extent);
    rest = naive_text(n, "(%s / %s)", rest, extent);
  }
  return naive_element(n, from, inner);
}

static const char *broadcast(Naive *n, const Instr *v, const char *const *index) {
  const Type *from = &v->args[0]->type;
  const char *inner[MAX_RANK] = {0};
  int extra = v->type.rank - from->rank;
  for (int i = 0; i < from->rank; i++) inner[i] = from->dim[i] == 1 ? "0" : index[i + extra];
  return naive_element(n, v->args[0], inner);
}

// (a at i0 : b at i0 - length of a : ..)
static const char *concatenated(Naive *n, const Instr *v, const char *const *index) {
  const char *inner[MAX_RANK], *text = NULL, *starts[64];
  memcpy(inner, index, sizeof *inner * (size_t)v->type.rank);
  REQUIRE(v->nargs >= 1);
  const char *start = "0";
  int limit = v->nargs < 64 ? v->nargs : 64;
  for (int i = 0; i < limit; i++) {
    starts[i] = start;
    start = naive_text(n, i ? "%s + %s" : "%.0s%s", start,
                       naive_extent(n, v->args[i]->type.dim[v->ival]));
  }
  REQUIRE(v->nargs <= 64);
  for (int i = v->nargs - 1; i >= 0; i--) {
    inner[v->ival] = i ? naive_text(n, "(%s - (%s))", index[v->ival], starts[i]) : index[v->ival];
    const char *part = naive_element(n, v->args[i], inner);
    text = !text ? part
                 : naive_text(n, "(%s < %s ? %s : %s)", index[v->ival], starts[i + 1], part, text);
  }
  return text;
}

static const char *padded(Naive *n, const Instr *v, const char *const *index) {
  const Type *from = &v->args[0]->type;
  const char *inner[MAX_RANK] = {0}, *inside = NULL;
  for (int i = 0; i < from->rank; i++) {
    inner[i] = index[i];
    if (v->ints[i] == 0 && v->ints2[i] == 0) continue;
    inner[i] = naive_text(n, "(%s - %lld)", index[i], (long long)v->ints[i]);
    const char *test =
        naive_text(n, "%s >= 0 && %s < %s", inner[i], inner[i], naive_extent(n, from->dim[i]));
    inside = inside ? naive_text(n, "%s && %s", inside, test) : test;
  }
  const char *value = naive_element(n, v->args[0], inner);
  return inside ? naive_text(n, "(%s ? %s : %s)", inside, value, naive_element(n, v->args[1], NULL))
                : value;
}

static const char *clamped(Naive *n, const char *index, Dim extent) {
  return naive_text(n, "pk_idx_max(0, pk_idx_min(%s, %s - 1))", index, naive_extent(n, extent));
}

// An axis of length 0 has no element to which an index could be clamped; the result is 0.
static const char *unless_empty(Naive *n, Dim extent, DType t, const char *element) {
  if (dim_is_const(extent) && extent > 0) return element;
  const char *zero = n->bounded && is_float(t) ? exactly(n, "0") : "0";
  return naive_text(n, "(%s > 0 ? %s : %s)", naive_extent(n, extent), element, zero);
}

// A window that leaves the axis is clamped; in a longer window, only its last elements are on the
// axis.
static const char *in_window(Naive *n, const Instr *v, const char *index) {
  Dim size = v->type.dim[v->ival], extent = v->args[0]->type.dim[v->ival];
  const char *last = naive_text(n, "%s - %s", naive_extent(n, extent), naive_extent(n, size)),
             *start = naive_text(n, "pk_idx_max(0, pk_idx_min(%s, %s))",
                                 naive_element(n, v->args[1], NULL), last);
  if (size == 1) return start;
  return clamped(n, naive_text(n, "%s + %s", start, index), extent);
}

// An element by an index along each of several axes; 0 if one of them has length 0.
static const char *gathered(Naive *n, const Instr *v, const char *const *index) {
  const Type *from = &v->args[0]->type;
  const char *inner[MAX_RANK] = {0};
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(v, axes);
  for (int k = 0; k < from->rank; k++) {
    const int to = ir_gathered_axis(v, k);
    if (to >= 0) inner[k] = index[to];
  }
  for (int i = 0; i < count; i++)
    inner[axes[i]] =
        clamped(n, naive_element(n, v->args[1 + i], &index[axes[0]]), from->dim[axes[i]]);
  const char *element = naive_element(n, v->args[0], inner);
  for (int i = 0; i < count; i++)
    element = unless_empty(n, from->dim[axes[i]], v->type.dtype, element);
  return element;
}

// An element of an instruction that moves elements.
static const char *moved(Naive *n, Instr *v, const char *const *index) {
  const Type *from = &v->args[0]->type;
  const char *inner[MAX_RANK] = {0};
  int64_t axis = v->ival;
  for (int i = 0; i < v->type.rank; i++) inner[i] = index[i];
  switch (v->op) {
    case OP_BROADCAST:
      return broadcast(n, v, index);
    case OP_RESHAPE:
      return reshaped(n, v, index);
    case OP_CONCAT:
      return concatenated(n, v, index);
    case OP_GATHER:
      return gathered(n, v, index);
    case OP_PAD:
      return padded(n, v, index);
    case OP_TRANSPOSE:
      for (int i = 0; i < v->type.rank; i++) inner[v->ints[i]] = index[i];
      break;
    case OP_SLICE:
      for (int i = 0; i < v->type.rank; i++) {
        if (v->ints2[i] != 1)
          inner[i] = naive_text(n, "%s * %lld", inner[i], (long long)v->ints2[i]);
        if (v->ints[i] != 0)
          inner[i] = naive_text(n, "(%s + %lld)", inner[i], (long long)v->ints[i]);
        else if (v->ints2[i] != 1)
          inner[i] = naive_text(n, "(%s)", inner[i]);
        if (!dim_is_const(from->dim[i]) && from->dim[i] != v->type.dim[i])
          inner[i] = clamped(n, inner[i], from->dim[i]);
      }
      break;
    case OP_ROLL:
      inner[axis] =
          naive_text(n, "pk_idx_mod(%s - %s, %s)", index[axis], naive_element(n, v->args[1], NULL),
                     naive_extent(n, from->dim[axis]));
      break;
    case OP_REV:
      inner[axis] = naive_text(n, "(%s - 1 - %s)", naive_extent(n, from->dim[axis]), index[axis]);
      break;
    case OP_WINDOW:
      inner[axis] = in_window(n, v, index[axis]);
      break;
    case OP_TAKE:
      inner[axis] = clamped(n, naive_element(n, v->args[1], &index[axis]), from->dim[axis]);
      break;
    case OP_TAKE_ALONG:
      inner[axis] = clamped(n, naive_element(n, v->args[1], index), from->dim[axis]);
      break;
    default:
      INTERNAL("%s does not move elements", op_info[v->op].name);
  }
  const char *element = naive_element(n, v->args[0], inner);
  bool taken = v->op == OP_TAKE || v->op == OP_TAKE_ALONG || v->op == OP_WINDOW;
  return taken ? unless_empty(n, from->dim[axis], v->type.dtype, element) : element;
}

static const char *operand_element(Naive *n, const Instr *v, const char *const *index) {
  const Ref *ref = v->ref;
  const char *at = NULL;
  for (int i = 0; i < ref->array.rank; i++) {
    if (strcmp(index[i], "0") == 0) continue;
    const char *term =
        naive_text(n, strchr(index[i], ' ') ? "(%s) * %s_stride%d" : "%s * %s_stride%d", index[i],
                   ref->name, i);
    at = at ? naive_text(n, "%s + %s", at, term) : term;
  }
  return loaded(n, ref->array.dtype, naive_text(n, "%s_data[%s]", ref->name, at ? at : "0"));
}

// An element of an instruction without operands.
static const char *leaf(Naive *n, const Instr *v, const char *const *index) {
  switch (v->op) {
    case OP_CONST:
      return constant(n, v);
    case OP_IOTA:
      if (is_float(v->type.dtype) && n->bounded)
        return naive_text(n, "pk_bound_exact(naive_as_%s((pk_real)(%s)))",
                          dtype_info[v->type.dtype].name, index[v->ival]);
      if (is_float(v->type.dtype))
        return naive_rounded(
            n, v->type.dtype,
            naive_text(n, "(%s)(%s)", naive_ctype(n, v->type.dtype), index[v->ival]));
      return naive_converted(
          n, v->type.dtype,
          naive_text(n, strchr(index[v->ival], ' ') ? "(%s)" : "%s", index[v->ival]));
    case OP_SIZE:
      return naive_size(n, (int)v->ival);
    case OP_ARRAY:
      return operand_element(n, v, index);
    default:
      INTERNAL("%s in a reference", op_info[v->op].name);
  }
}

// A float cast from an integer that was itself rounded from a float, with the error of that
// rounding.
static const char *from_rounded(Naive *n, const Instr *v, const char *source) {
  DType integer = v->args[0]->type.dtype;
  const char *value =
      naive_text(n, "naive_rounded_integer(%s, INT64_C(%lld), INT64_C(%lld))", source,
                 (long long)dtype_min(integer), (long long)dtype_max(integer));
  return naive_text(n, "pk_bound_rounded(naive_as_%s, %s)", dtype_info[v->type.dtype].name, value);
}

const char *naive_element(Naive *n, Instr *v, const char *const *index) {
  const NaiveValue *value = naive_value(v);
  if (value->place == IN_SCALAR) return value->name;
  if (value->place == IN_MEMORY)
    return naive_text(n, "%s[%s]", value->name, naive_linear(n, &v->type, index));
  if (value->place == IN_ACCUMULATOR) return naive_accumulate(n, v, index);
  if (op_info[v->op].class == OPC_LEAF) return leaf(n, v, index);
  if (v->op == OP_LOAD) return naive_loaded_state(n, v, index);
  if (op_info[v->op].class == OPC_SHAPE) return moved(n, v, index);
  if (!op_is_elementwise(v->op)) INTERNAL("%s in a reference", op_info[v->op].name);
  if (n->bounded && v->op == OP_CAST && is_float(v->type.dtype) &&
      ir_is_rounded_integer(v->args[0]))
    return from_rounded(n, v, naive_element(n, v->args[0]->args[0], index));
  const char *args[3];
  REQUIRE(v->nargs <= 3);
  for (int i = 0; i < v->nargs; i++) args[i] = naive_element(n, v->args[i], index);
  return elementwise(n, v, args);
}
