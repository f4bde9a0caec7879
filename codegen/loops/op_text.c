// Expressions of one element: rank-0 values, index arithmetic, and the names of the vector layer's
// operations.
#include "codegen/loops/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *lane_type(DType t) {
  if (is_float(t)) return "f32";
  return dtype_info[t].class == CLASS_UNSIGNED ? "u32" : "i32";
}

const char *vector_type(DType t) {
  return is_float(t) ? "pk_f32v" : t == DT_BOOL ? "pk_mask" : "pk_i32v";
}

const char *scalar_type(DType t) {
  if (is_float(t)) return "float";
  if (t == DT_BOOL) return "bool";
  if (t == DT_I64) return "int64_t";
  return dtype_info[t].class == CLASS_UNSIGNED ? "uint32_t" : "int32_t";
}

static const char *integer_text(Gen *g, DType t, int64_t value) {
  if (t == DT_I64) {
    if (value == INT64_MIN) return "INT64_MIN";
    return text(g, value > INT32_MAX || value < INT32_MIN ? "INT64_C(%lld)" : "%lld",
                (long long)value);
  }
  if (dtype_info[t].class == CLASS_UNSIGNED) return text(g, "%lluu", (unsigned long long)value);
  return value == INT32_MIN ? "INT32_MIN" : text(g, "%lld", (long long)value);
}

const char *const_text(Gen *g, const Instr *constant) {
  DType t = constant->type.dtype;
  if (t == DT_BOOL) return constant->ival ? "true" : "false";
  if (!is_float(t)) return integer_text(g, t, constant->ival);
  if (isnan(constant->fval)) return "NAN";
  float value = (float)constant->fval;
  if (isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  for (int digits = 1; digits <= 9; digits++) {
    const char *s = text(g, "%.*g", digits, (double)value);
    if (strtof(s, NULL) == value) return text(g, strpbrk(s, ".e") ? "%sf" : "%s.0f", s);
  }
  INTERNAL("no text for a float");
}

const char *element_pointer(Gen *g, const Instr *value) {
  DType t = value->type.dtype;
  const char *s = scalar_text(g, value);
  if (is_float(t) && t != DT_F32) s = text(g, "pks_bits_%s(%s)", dtype_info[t].name, s);
  if (t == DT_I4) s = text(g, "%s & 15", s);
  return text(g, "&(const %s){%s}", ctype(t), s);
}

// Narrow dtypes compute in 32 bits: results that may leave the type are brought back.
const char *narrowed(Gen *g, const char *prefix, DType t, const char *expression) {
  if (is_narrow_float(t)) return text(g, "%s_round_%s(%s)", prefix, dtype_info[t].name, expression);
  return is_narrow_integer(t) ? text(g, "%s_wrap_%s(%s)", prefix, dtype_info[t].name, expression)
                              : expression;
}

// Results of these never leave a narrow type that the operands were in. A float `mod` does: it may
// add its divisor.
static bool stays_in_type(Op op, DType t) {
  switch (op) {
    case OP_MAX:
    case OP_MIN:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_SIGN:
    case OP_SELECT:
    case OP_REM:
      return true;
    default:
      return op == OP_MOD && !is_float(t);
  }
}

// Operations of narrow integers whose 32-bit form would see the wrong width have names of their
// own.
static bool width_matters(Op op) {
  return op == OP_SHL || op == OP_SHR || op == OP_USHR || op == OP_CLZ;
}

static const char *op_c_name(Op op) {
  return op == OP_POPCOUNT ? "population_count" : op_info[op].name;
}

static const char *cast_text(Gen *g, const char *prefix, DType from, DType to, const char *x) {
  if (from == to) return x;
  const char *from_lane = from == DT_BOOL ? "mask" : lane_type(from);
  if (to == DT_BOOL)
    return text(g, "%s_cast_%s_mask(%s)", prefix, strcmp(from_lane, "u32") == 0 ? "i32" : from_lane,
                x);
  if (is_float(to)) {
    if (is_float(from)) return narrowed(g, prefix, to, x);
    if (is_narrow_float(to) && dtype_bytes(from) == 4)
      x = text(g, "%s_odd_%s(%s)", prefix, from_lane, x);  // so that f32 does not round first
    return narrowed(g, prefix, to, text(g, "%s_cast_%s_f32(%s)", prefix, from_lane, x));
  }
  if (is_float(from)) return text(g, "%s_cast_f32_%s(%s)", prefix, dtype_info[to].name, x);
  if (from == DT_BOOL) return text(g, "%s_cast_mask_i32(%s)", prefix, x);
  return narrowed(g, prefix, to, x);
}

static const char *bitcast_text(Gen *g, const char *prefix, DType from, DType to, const char *x) {
  if (from == to) return x;
  if (dtype_bytes(to) == 4 && is_float(from) != is_float(to))
    return text(g, is_float(from) ? "%s_bitcast_f32_i32(%s)" : "%s_bitcast_i32_f32(%s)", prefix, x);
  if (is_float(from)) x = text(g, "%s_bits_%s(%s)", prefix, dtype_info[from].name, x);
  return is_float(to) ? text(g, "%s_from_bits_%s(%s)", prefix, dtype_info[to].name, x)
                      : narrowed(g, prefix, to, x);
}

// ---- exp of what is never above 0 has no need to look for overflow

// Is no element of `a` greater than the one of `bound` beside it? NaN aside.
static bool is_bound(const Instr *bound, const Instr *a) {
  if (bound == a) return true;
  if (bound->type.rank != a->type.rank) return false;
  switch (bound->op) {
    case OP_BROADCAST:
    case OP_REDUCE_MAX:
      return is_bound(bound->args[0], a);
    case OP_MAX:
      return is_bound(bound->args[0], a) || is_bound(bound->args[1], a);
    default:
      return false;
  }
}

static bool is_never_positive(const Instr *v) {
  return (v->op == OP_SUB && is_bound(v->args[1], v->args[0])) ||
         (v->op == OP_NEG && v->args[0]->op == OP_ABS);
}

static const char *op_text(Gen *g, const char *prefix, const Instr *v, const char *const *args) {
  DType t = v->type.dtype, from = v->nargs ? v->args[v->nargs - 1]->type.dtype : t;
  const char *lane = from == DT_BOOL ? "mask" : lane_type(from), *name = op_c_name(v->op);
  if (v->op == OP_EXP && strcmp(prefix, "pk") == 0 && is_never_positive(v->args[0]))
    name = "exp_below";
  switch (op_info[v->op].class) {
    case OPC_SELECT:
      return text(g, "%s_select_%s(%s, %s, %s)", prefix, strcmp(lane, "u32") == 0 ? "i32" : lane,
                  args[0], args[1], args[2]);
    case OPC_CAST:
      return v->op == OP_CAST ? cast_text(g, prefix, from, t, args[0])
                              : bitcast_text(g, prefix, from, t, args[0]);
    case OPC_COMPARE:
      return text(g, "%s_%s_%s(%s, %s)", prefix, name, lane, args[0], args[1]);
    default:
      break;
  }
  if (is_narrow_integer(from) && width_matters(v->op)) lane = dtype_info[from].name;
  if (v->op == OP_POPCOUNT && is_narrow_integer(from) &&
      dtype_info[from].class == CLASS_SIGNED)  // not the copies of the sign
    return text(g, "%s_population_count_i32(%s_wrap_u%d(%s))", prefix, prefix,
                dtype_info[from].bits, args[0]);
  const char *result =
      v->nargs == 1 ? text(g, "%s_%s_%s(%s)", prefix, name, lane, args[0])
      : v->nargs == 2
          ? text(g, "%s_%s_%s(%s, %s)", prefix, name, lane, args[0], args[1])
          : text(g, "%s_%s_%s(%s, %s, %s)", prefix, name, lane, args[0], args[1], args[2]);
  return stays_in_type(v->op, t) || op_info[v->op].class == OPC_PREDICATE
             ? result
             : narrowed(g, prefix, t, result);
}

// Comparisons of masks: equality is equivalence, order is false < true.
static const char *mask_compare(Gen *g, Op op, const char *const *a) {
  switch (op) {
    case OP_EQ:
      return text(g, "pk_not_mask(pk_xor_mask(%s, %s))", a[0], a[1]);
    case OP_NE:
      return text(g, "pk_xor_mask(%s, %s)", a[0], a[1]);
    case OP_LT:
      return text(g, "pk_and_mask(pk_not_mask(%s), %s)", a[0], a[1]);
    case OP_LE:
      return text(g, "pk_or_mask(pk_not_mask(%s), %s)", a[0], a[1]);
    case OP_GT:
      return text(g, "pk_and_mask(%s, pk_not_mask(%s))", a[0], a[1]);
    default:
      return text(g, "pk_or_mask(%s, pk_not_mask(%s))", a[0], a[1]);
  }
}

const char *vector_op_text(Gen *g, const Instr *v, const char *const *args) {
  if (v->nargs == 2 && v->args[0]->type.dtype == DT_BOOL) {
    if (op_info[v->op].class == OPC_COMPARE) return mask_compare(g, v->op, args);
    if (v->op == OP_MAX || v->op == OP_MIN)
      return text(g, v->op == OP_MAX ? "pk_or_mask(%s, %s)" : "pk_and_mask(%s, %s)", args[0],
                  args[1]);
  }
  return op_text(g, "pk", v, args);
}

// ---- scalars

static const char *index_operator(Op op) {
  switch (op) {
    case OP_ADD:
      return "+";
    case OP_SUB:
      return "-";
    case OP_MUL:
      return "*";
    case OP_EQ:
      return "==";
    case OP_NE:
      return "!=";
    case OP_LT:
      return "<";
    case OP_LE:
      return "<=";
    case OP_GT:
      return ">";
    case OP_GE:
      return ">=";
    default:
      return NULL;
  }
}

// Sizes, axes and constants stay below 2^31 each, so one operator on two of them cannot leave
// int64_t.
static bool is_small(const Instr *v) {
  return v->op == OP_SIZE || v->op == OP_AXIS ||
         (v->op == OP_CONST && v->ival > INT32_MIN && v->ival <= INT32_MAX);
}

static const char *index_op_text(Gen *g, const Instr *v, const char *const *a) {
  const char *sign = index_operator(v->op);
  if (op_info[v->op].class == OPC_COMPARE) return text(g, "(%s %s %s)", a[0], sign, a[1]);
  if (sign && is_small(v->args[0]) && is_small(v->args[1]))
    return text(g, "(%s %s %s)", a[0], sign, a[1]);
  bool small_divisor = v->nargs == 2 && v->args[1]->op == OP_CONST && v->args[1]->ival > 0;
  if (v->op == OP_DIV && small_divisor) return text(g, "(%s / %s)", a[0], a[1]);
  if (v->op == OP_REM && small_divisor) return text(g, "(%s %% %s)", a[0], a[1]);
  if (v->nargs == 1) return text(g, "pk_idx_%s(%s)", op_c_name(v->op), a[0]);
  return text(g, "pk_idx_%s(%s, %s)", op_info[v->op].name, a[0], a[1]);
}

static const char *bool_op_text(Gen *g, const Instr *v, const char *const *a) {
  switch (v->op) {
    case OP_AND:
    case OP_MIN:
      return text(g, "(%s && %s)", a[0], a[1]);
    case OP_OR:
    case OP_MAX:
      return text(g, "(%s || %s)", a[0], a[1]);
    case OP_NOT:
      return text(g, "!%s", a[0]);
    case OP_XOR:
      return text(g, "(%s != %s)", a[0], a[1]);
    default:
      return text(g, "(%s %s %s)", a[0], index_operator(v->op), a[1]);
  }
}

static const char *cast_index_text(Gen *g, const Instr *v, const char *x) {
  DType from = v->args[0]->type.dtype, to = v->type.dtype;
  if (from == to) return x;
  if (to == DT_I64)
    return is_float(from) ? text(g, "pks_cast_f32_i64(%s)", x) : text(g, "(int64_t)%s", x);
  if (is_float(to))
    return narrowed(g, "pks", to,
                    text(g, is_narrow_float(to) ? "(float)pks_odd_i64(%s)" : "(float)%s", x));
  if (to == DT_BOOL) return text(g, "(%s != 0)", x);
  return narrowed(g, "pks", to, text(g, "(%s)(uint32_t)%s", scalar_type(to), x));
}

const char *scalar_op_text(Gen *g, const Instr *v, const char *const *args) {
  DType from = v->nargs ? v->args[v->nargs - 1]->type.dtype : v->type.dtype;
  if (v->op == OP_SELECT) return text(g, "(%s ? %s : %s)", args[0], args[1], args[2]);
  if (v->op == OP_CAST && (from == DT_I64 || v->type.dtype == DT_I64))
    return cast_index_text(g, v, args[0]);
  if (from == DT_I64) return index_op_text(g, v, args);
  if (from == DT_BOOL && v->op != OP_CAST && v->op != OP_BITCAST) return bool_op_text(g, v, args);
  bool plain_float = from == DT_F32 && op_info[v->op].class == OPC_BINARY;
  if (plain_float && v->op == OP_ADD) return text(g, "(%s + %s)", args[0], args[1]);
  if (plain_float && v->op == OP_SUB) return text(g, "(%s - %s)", args[0], args[1]);
  if (plain_float && v->op == OP_MUL) return text(g, "(%s * %s)", args[0], args[1]);
  if (plain_float && v->op == OP_DIV) return text(g, "(%s / %s)", args[0], args[1]);
  if (op_info[v->op].class == OPC_COMPARE)
    return text(g, "(%s %s %s)", args[0], index_operator(v->op), args[1]);
  return op_text(g, "pks", v, args);
}

// A pure `if` with a result, as && and || of scalars leave behind.
static const char *choice_text(Gen *g, const Instr *v) {
  const char *arm[2];
  for (int i = 0; i < 2; i++) {
    const Region *r = v->regions[i];
    arm[i] = scalar_text(g, ir_yielded(r, 0));
  }
  return text(g, "(%s ? %s : %s)", scalar_text(g, v->args[0]), arm[0], arm[1]);
}

// An element of a prefetched operand, in index arithmetic.
static const char *prefetched_text(Gen *g, const Instr *load) {
  const char *index = "", *inside = "";
  int rank = load->ref->type.rank, ref = load->ref->id;
  for (int i = 0; i < rank; i++) {
    const char *at = scalar_text(g, load->args[i]);
    index = text(g, "%s%s%s", index, i ? ", " : "", at);
    inside = text(g, "%s && pk_is_index(%s, array[%d].dim[%d])", inside, at, ref, i);
  }
  const char *element = text(g, "pk_element_%s(&array[%d], %d, (const int64_t[]){%s})",
                             dtype_info[load->type.dtype].name, ref, rank, *index ? index : "0");
  if (!(load->flags & INSTR_MASKED)) return element;
  const char *other = load->flags & INSTR_OTHER ? scalar_text(g, load->args[rank + 1]) : "0";
  return text(g, "(%s%s ? %s : %s)", scalar_text(g, ir_mask(load)), inside, element, other);
}

const char *scalar_text(Gen *g, const Instr *v) {
  if (v->note && val(v)->scalar) return val(v)->scalar;
  switch (v->op) {
    case OP_LOAD:
      REQUIRE(v->ref->prefetch);
      return prefetched_text(g, v);
    case OP_CONST:
      return const_text(g, v);
    case OP_SIZE:
      return g->size_name[v->ival];
    case OP_AXIS:
      return g->axis_name[v->ival];
    case OP_EXTENT:
      return text(g, "n_%s", g->axis_name[v->ival]);
    case OP_BROADCAST:
    case OP_RESHAPE:
      return scalar_text(g, v->args[0]);
    case OP_IF:
      return choice_text(g, v);
    default:
      break;
  }
  REQUIRE(op_is_elementwise(v->op));
  const char *args[3] = {0};
  for (int i = 0; i < v->nargs; i++) args[i] = scalar_text(g, v->args[i]);
  return scalar_op_text(g, v, args);
}

const char *index_text(Gen *g, const Region *region, int result) {
  return scalar_text(g, ir_yielded(region, result));
}
