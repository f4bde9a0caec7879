// Expressions of one element: rank-0 values, index arithmetic, and the names of the vector layer's
// operations.
#include "codegen/loops/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *lane_type(DType t) {
  if (is_wide(t)) return dtype_info[t].name;
  if (is_float(t)) return "f32";
  return dtype_info[t].class == CLASS_UNSIGNED ? "u32" : "i32";
}

const char *bits_lane(DType t) {
  if (is_wide(t)) return is_float(t) ? "f64" : "i64";
  return t == DT_BOOL ? "mask" : is_float(t) ? "f32" : "i32";
}

const char *vector_type(DType t) {
  if (is_wide(t)) return is_float(t) ? "pk_f64v" : "pk_i64v";
  return is_float(t) ? "pk_f32v" : t == DT_BOOL ? "pk_mask" : "pk_i32v";
}

const char *scalar_type(DType t) {
  if (is_wide(t)) return ctype(t);
  if (is_float(t)) return "float";
  if (t == DT_BOOL) return "bool";
  return dtype_info[t].class == CLASS_UNSIGNED ? "uint32_t" : "int32_t";
}

static const char *integer_text(Gen *g, DType t, int64_t value) {
  if (t == DT_I64) {
    if (value == INT64_MIN) return "INT64_MIN";
    return text(g, "%lld", (long long)value);
  }
  if (t == DT_U64) return text(g, "UINT64_C(%llu)", (unsigned long long)value);
  if (dtype_info[t].class == CLASS_UNSIGNED) return text(g, "%lluu", (unsigned long long)value);
  return value == INT32_MIN ? "INT32_MIN" : text(g, "%lld", (long long)value);
}

static const char *f64_text(Gen *g, double value) {
  if (isinf(value)) return value > 0 ? "(double)INFINITY" : "-(double)INFINITY";
  for (int digits = 1; digits <= 17; digits++) {
    const char *s = text(g, "%.*g", digits, value);
    if (strtod(s, NULL) == value) return text(g, strpbrk(s, ".e") ? "%s" : "%s.0", s);
  }
  INTERNAL("no text for a float");
}

const char *f32_text(Gen *g, double exact) {
  float value = (float)exact;
  if (isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  for (int digits = 1; digits <= 9; digits++) {
    const char *s = text(g, "%.*g", digits, (double)value);
    if (strtof(s, NULL) == value) return text(g, strpbrk(s, ".e") ? "%sf" : "%s.0f", s);
  }
  INTERNAL("no text for a float");
}

const char *const_text(Gen *g, const Instr *constant) {
  DType t = constant->type.dtype;
  if (t == DT_BOOL) return constant->ival ? "true" : "false";
  if (!is_float(t)) return integer_text(g, t, constant->ival);
  if (isnan(constant->fval)) return t == DT_F64 ? "(double)NAN" : "NAN";
  if (t == DT_F64) return f64_text(g, constant->fval);
  return f32_text(g, constant->fval);
}

const char *element_pointer(Gen *g, const Instr *value) {
  DType t = value->type.dtype;
  const char *s = scalar_text(g, value);
  if (is_narrow_float(t)) s = text(g, "pks_bits_%s(%s)", dtype_info[t].name, s);
  if (is_part_of_byte(t) && dtype_info[t].class == CLASS_SIGNED)
    s = text(g, "(%s) & %d", s, (1 << dtype_info[t].bits) - 1);
  return text(g, "&(const %s){%s}", ctype(t), s);
}

// Narrow dtypes compute in 32 bits: results that may leave the type are brought back.
const char *narrowed(Gen *g, const char *prefix, DType t, const char *expression) {
  if (is_narrow_float(t)) return text(g, "%s_round_%s(%s)", prefix, dtype_info[t].name, expression);
  return is_narrow_integer(t) ? text(g, "%s_wrap_%s(%s)", prefix, dtype_info[t].name, expression)
                              : expression;
}

// Does a result never leave the narrow type that the operands were in? A float `mod` does: it may
// add its divisor.
static bool stays_in_type(Op op, DType t) {
  return op_has(op, CLOSED) && (!is_float(t) || op_info[op].exactness == RESULT_EXACT);
}

static bool scalar_prefix(const char *prefix) { return strcmp(prefix, "pks") == 0; }

// From or to 64 bits; the others are in lanes of f32, i32 and u32. Integers of 64 bits wrap to each
// other, and lose their upper half to the others.
static const char *cast_wide_text(Gen *g, const char *prefix, DType from, DType to, const char *x) {
  const char *lane = from == DT_BOOL ? "mask" : lane_type(from);
  bool scalar = scalar_prefix(prefix);
  if (is_float(to)) {
    if (is_narrow_float(to))
      return narrowed(
          g, prefix, to,
          text(g, "%s_odd_%s%s(%s)", prefix, scalar && from == DT_I64 ? "wide_" : "", lane, x));
    return strcmp(lane, lane_type(to)) == 0
               ? x
               : text(g, "%s_cast_%s_%s(%s)", prefix, lane, lane_type(to), x);
  }
  if (is_float(from)) return text(g, "%s_cast_%s_%s(%s)", prefix, lane, dtype_info[to].name, x);
  if (scalar) return narrowed(g, prefix, to, text(g, "(%s)(%s)", scalar_type(to), x));
  if (is_wide(from))
    return is_wide(to) ? x : narrowed(g, prefix, to, text(g, "%s_cast_i64_i32(%s)", prefix, x));
  return text(g, "%s_cast_%s_i64(%s)", prefix, lane, x);
}

static const char *cast_text(Gen *g, const char *prefix, DType from, DType to, const char *x) {
  if (from == to) return x;
  const char *from_lane = from == DT_BOOL ? "mask" : lane_type(from);
  if (to == DT_BOOL) return text(g, "%s_cast_%s_mask(%s)", prefix, bits_lane(from), x);
  if (is_wide(from) || is_wide(to)) return cast_wide_text(g, prefix, from, to, x);
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
  if (is_wide(to) && !scalar_prefix(prefix) && is_float(from) == is_float(to)) return x;
  if (is_wide(to) && is_float(from) == is_float(to)) return text(g, "(%s)(%s)", scalar_type(to), x);
  if (is_wide(to))
    return text(g, "%s_bitcast_%s_%s(%s)", prefix, lane_type(from), lane_type(to), x);
  if (dtype_bytes(to) == 4 && is_float(from) != is_float(to))
    return text(g, is_float(from) ? "%s_bitcast_f32_i32(%s)" : "%s_bitcast_i32_f32(%s)", prefix, x);
  if (is_float(from)) x = text(g, "%s_bits_%s(%s)", prefix, dtype_info[from].name, x);
  return is_float(to) ? text(g, "%s_from_bits_%s(%s)", prefix, dtype_info[to].name, x)
                      : narrowed(g, prefix, to, x);
}

// Not of the copies of the sign. The count leaves a type that does not have its own width.
static const char *signed_population_count(Gen *g, const char *prefix, DType t, const char *x) {
  int bits = dtype_info[t].bits;
  const char *count = text(g, "%s_population_count_i32(%s_wrap_u%d(%s))", prefix, prefix, bits, x);
  return bits > dtype_max(t) ? narrowed(g, prefix, t, count) : count;
}

static const char *op_text(Gen *g, bool lanes, const Instr *v, const char *const *args) {
  const char *prefix = lanes ? "pk" : "pks";
  DType t = v->type.dtype, from = v->nargs ? v->args[v->nargs - 1]->type.dtype : t;
  const char *lane = from == DT_BOOL ? "mask" : lane_type(from), *name = op_info[v->op].name;
  if (lanes && v->note && val(v)->never_overflows) name = "exp_below";
  switch (op_info[v->op].class) {
    case OPC_SELECT:
      return text(g, "%s_select_%s(%s, %s, %s)", prefix, bits_lane(from), args[0], args[1],
                  args[2]);
    case OPC_CAST:
      return v->op == OP_CAST ? cast_text(g, prefix, from, t, args[0])
                              : bitcast_text(g, prefix, from, t, args[0]);
    case OPC_COMPARE:
      return text(g, "%s_%s_%s(%s, %s)", prefix, name, lane, args[0], args[1]);
    default:
      break;
  }
  // their 32-bit form would see the wrong width
  if (is_narrow_integer(from) && op_has(v->op, BY_WIDTH)) lane = dtype_info[from].name;
  if (v->op == OP_POPCOUNT && is_narrow_integer(from) && dtype_info[from].class == CLASS_SIGNED)
    return signed_population_count(g, prefix, from, args[0]);
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
  bool less = op_has(op, IF_LESS), equal = op_has(op, IF_EQUAL);
  if (less == op_has(op, IF_GREATER))
    return text(g, equal ? "pk_not_mask(pk_xor_mask(%s, %s))" : "pk_xor_mask(%s, %s)", a[0], a[1]);
  return text(g, less ? "pk_%s_mask(pk_not_mask(%s), %s)" : "pk_%s_mask(%s, pk_not_mask(%s))",
              equal ? "or" : "and", a[0], a[1]);
}

const char *vector_op_text(Gen *g, const Instr *v, const char *const *args) {
  bool masks = op_info[v->op].class == OPC_COMPARE && v->args[0]->type.dtype == DT_BOOL;
  return masks ? mask_compare(g, v->op, args) : op_text(g, true, v, args);
}

// ---- scalars

// C's operator, of bools the logical one.
static ExprKind kind_of(Op op) {
  switch (op) {
    case OP_AND:
      return EXPR_AND;
    case OP_OR:
      return EXPR_OR;
    case OP_XOR:
      return EXPR_NE;
    default:
      return expr_kind(element_info[op].spelling);
  }
}

// C's operator for an operation, where its type allows one.
static const Expr *operator_of(Gen *g, Op op, const Expr *const *a) {
  if (op == OP_NOT) return expr_not(&g->exprs, a[0]);
  if (op == OP_ADD) return expr_add(&g->exprs, a[0], a[1]);
  if (op == OP_SUB) return expr_sub(&g->exprs, a[0], a[1]);
  if (op == OP_MUL) return expr_mul(&g->exprs, a[0], a[1]);
  return expr_operator(&g->exprs, kind_of(op), a[0], a[1]);
}

// Sizes, axes and constants stay below 2^31 each, so one operator on two of them cannot leave
// int64_t.
static bool is_small(const Instr *v) {
  return v->op == OP_SIZE || v->op == OP_AXIS ||
         (v->op == OP_CONST && v->ival > INT32_MIN && v->ival <= INT32_MAX);
}

static bool has_index_operator(const Instr *v) {
  if (op_info[v->op].class == OPC_COMPARE) return true;
  if (v->op == OP_DIV || v->op == OP_REM) return v->args[1]->op == OP_CONST && v->args[1]->ival > 0;
  return (v->op == OP_ADD || v->op == OP_SUB || v->op == OP_MUL) && is_small(v->args[0]) &&
         is_small(v->args[1]);
}

static const Expr *index_op(Gen *g, const Instr *v, const Expr *const *a) {
  if (has_index_operator(v)) return operator_of(g, v->op, a);
  if (v->op == OP_MIN) return expr_min(&g->exprs, a[0], a[1]);
  if (v->op == OP_MAX) return expr_max(&g->exprs, a[0], a[1]);
  if (v->op == OP_FLOORDIV) return expr_floor_div(&g->exprs, a[0], a[1]);
  const char *function = text(g, "pk_idx_%s", op_info[v->op].name);
  return expr_call(&g->exprs, function, a[0], v->nargs > 1 ? a[1] : NULL, NULL);
}

static const Expr *code(Gen *g, const char *c) { return expr_code(&g->exprs, c); }

static const Expr *narrow(Gen *g, DType t, const Expr *e) {
  bool changes = is_narrow_float(t) || is_narrow_integer(t);
  return changes ? code(g, narrowed(g, "pks", t, expr_text(e))) : e;
}

static const Expr *cast_index(Gen *g, const Instr *v, const Expr *x) {
  ExprPool *pool = &g->exprs;
  DType from = v->args[0]->type.dtype, to = v->type.dtype;
  if (from == to) return x;
  if (to == DT_BOOL) return expr_operator(pool, EXPR_NE, x, number(g, 0));
  if ((is_wide(from) && is_wide(to)) || from == DT_F64)
    return code(g, cast_text(g, "pks", from, to, expr_text(x)));
  if (to == DT_I64)
    return is_float(from) ? expr_call(pool, "pks_cast_f32_i64", x, NULL, NULL)
                          : expr_cast(pool, "int64_t", x);
  if (is_narrow_float(to)) x = expr_call(pool, "pks_odd_i64", x, NULL, NULL);
  if (!is_float(to)) x = expr_cast(pool, "uint32_t", x);
  return narrow(g, to, expr_cast(pool, is_float(to) ? "float" : scalar_type(to), x));
}

static bool has_operator(const Instr *v, DType from) {
  if (op_info[v->op].class == OPC_COMPARE) return true;
  if (from == DT_BOOL) return v->op != OP_CAST && v->op != OP_BITCAST;
  return (from == DT_F32 || from == DT_F64) && v->nargs == 2 && op_has(v->op, PLAIN);
}

const Expr *scalar_op(Gen *g, const Instr *v, const Expr *const *args) {
  DType from = v->nargs ? v->args[v->nargs - 1]->type.dtype : v->type.dtype;
  if (v->op == OP_SELECT) return expr_choose(&g->exprs, args[0], args[1], args[2]);
  if (v->op == OP_CAST && (from == DT_I64 || v->type.dtype == DT_I64))
    return cast_index(g, v, args[0]);
  if (from == DT_I64) return index_op(g, v, args);
  if (has_operator(v, from)) return operator_of(g, v->op, args);
  const char *texts[3] = {0};
  for (int i = 0; i < v->nargs; i++) texts[i] = expr_text(args[i]);
  return code(g, op_text(g, false, v, texts));
}

// A pure `if` with a result, as && and || of scalars leave behind.
static const Expr *choice(Gen *g, const Instr *v) {
  const Expr *arm[2];
  for (int i = 0; i < 2; i++) arm[i] = scalar_expr(g, ir_yielded(v->regions[i], 0));
  return expr_choose(&g->exprs, scalar_expr(g, v->args[0]), arm[0], arm[1]);
}

// An element of a prefetched operand, in index arithmetic.
static const Expr *prefetched(Gen *g, const Instr *load) {
  const char *index = "";
  int rank = load->ref->type.rank, ref = load->ref->id;
  const Expr *wanted = load->flags & INSTR_MASKED ? scalar_expr(g, ir_mask(load)) : NULL;
  for (int i = 0; i < rank; i++) {
    const Expr *at = scalar_expr(g, load->args[i]),
               *dim = code(g, text(g, "%s[%d].dim[%d]", reading(g, "array"), ref, i));
    index = text(g, "%s%s%s", index, i ? ", " : "", expr_text(at));
    if (wanted)
      wanted = expr_and(&g->exprs, wanted, expr_call(&g->exprs, "pk_is_index", at, dim, NULL));
  }
  const Expr *element = code(g, text(g, "pk_element_%s(&%s[%d], %d, (const int64_t[]){%s})",
                                     dtype_info[load->type.dtype].name, reading(g, "array"), ref,
                                     rank, *index ? index : "0"));
  if (!wanted) return element;
  const Expr *other =
      load->flags & INSTR_OTHER ? scalar_expr(g, load->args[rank + 1]) : number(g, 0);
  return expr_choose(&g->exprs, wanted, element, other);
}

static const Expr *constant_expr(Gen *g, const Instr *v) {
  DType t = v->type.dtype;
  bool exact = t == DT_I64 || (dtype_info[t].class == CLASS_SIGNED && v->ival > INT32_MIN);
  return exact ? number(g, v->ival) : code(g, const_text(g, v));
}

const Expr *scalar_expr(Gen *g, const Instr *v) {
  return v->note && val(v)->scalar ? val(v)->scalar : scalar_value(g, v);
}

const Expr *scalar_value(Gen *g, const Instr *v) {
  switch (v->op) {
    case OP_LOAD:
      REQUIRE(v->ref->prefetch);
      return prefetched(g, v);
    case OP_CONST:
      return constant_expr(g, v);
    case OP_SIZE:
      return expr_symbol(&g->exprs, g->size_name[v->ival]);
    case OP_AXIS:
      return expr_symbol(&g->exprs, g->axis_name[v->ival]);
    case OP_EXTENT:
      return grid_extent(g, (int)v->ival);
    case OP_BROADCAST:
    case OP_RESHAPE:
      return scalar_expr(g, v->args[0]);
    case OP_IF:
      return choice(g, v);
    default:
      break;
  }
  REQUIRE(op_is_elementwise(v->op));
  const Expr *args[3] = {0};
  for (int i = 0; i < v->nargs; i++) args[i] = scalar_expr(g, v->args[i]);
  return scalar_op(g, v, args);
}

const char *scalar_text(Gen *g, const Instr *v) { return expr_text(scalar_expr(g, v)); }

const Expr *index_expr(Gen *g, const Region *region, int result) {
  return scalar_expr(g, ir_yielded(region, result));
}

const char *index_text(Gen *g, const Region *region, int result) {
  return expr_text(index_expr(g, region, result));
}
