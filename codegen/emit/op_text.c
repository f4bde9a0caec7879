// Expressions and operations as C: the runtime's and the vector layer's names.
#include "codegen/emit/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ctype(DType t) { return dtype_info[t].ctype; }

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

static const char *integer_text(DType t, int64_t value) {
  if (t == DT_I64) {
    if (value == INT64_MIN) return "INT64_MIN";
    return intern_printf("%lld", (long long)value);
  }
  if (t == DT_U64) return intern_printf("UINT64_C(%llu)", (unsigned long long)value);
  if (dtype_info[t].class == CLASS_UNSIGNED)
    return intern_printf("%lluu", (unsigned long long)value);
  return value == INT32_MIN ? "INT32_MIN" : intern_printf("%lld", (long long)value);
}

static const char *f64_text(double value) {
  if (isinf(value)) return value > 0 ? "(double)INFINITY" : "-(double)INFINITY";
  for (int digits = 1; digits <= 17; digits++) {
    const char *s = intern_printf("%.*g", digits, value);
    if (strtod(s, NULL) == value) return intern_printf(strpbrk(s, ".e") ? "%s" : "%s.0", s);
  }
  INTERNAL("no text for a float");
}

static const char *f32_text(double exact) {
  float value = (float)exact;
  if (isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  for (int digits = 1; digits <= 9; digits++) {
    const char *s = intern_printf("%.*g", digits, (double)value);
    if (strtof(s, NULL) == value) return intern_printf(strpbrk(s, ".e") ? "%sf" : "%s.0f", s);
  }
  INTERNAL("no text for a float");
}

const char *literal_text(DType t, int64_t value, double number) {
  if (t == DT_BOOL) return value ? "true" : "false";
  if (!is_float(t)) return integer_text(t, value);
  if (isnan(number)) return t == DT_F64 ? "(double)NAN" : "NAN";
  return t == DT_F64 ? f64_text(number) : f32_text(number);
}

const char *const_text(const Instr *constant) {
  return literal_text(constant->type.dtype, constant->ival, constant->fval);
}

const char *element_pointer(Gen *g, const Instr *value) {
  DType t = value->type.dtype;
  const char *s = scalar_text(g, value);
  if (is_narrow_float(t)) s = intern_printf("pks_bits_%s(%s)", dtype_info[t].name, s);
  if (is_part_of_byte(t) && dtype_info[t].class == CLASS_SIGNED)
    s = intern_printf("(%s) & %d", s, (1 << dtype_info[t].bits) - 1);
  return intern_printf("&(const %s){%s}", ctype(t), s);
}

// Functions of vectors begin with `pk_`, those of one element with `pks_`.
static const char *prefix_of(bool lanes) { return lanes ? "pk" : "pks"; }

// Narrow dtypes compute in 32 bits: results that may exceed the type are brought back.
const char *narrowed(bool lanes, DType t, const char *expression) {
  const char *prefix = prefix_of(lanes), *name = dtype_info[t].name;
  if (is_narrow_float(t)) return intern_printf("%s_round_%s(%s)", prefix, name, expression);
  return is_narrow_integer(t) ? intern_printf("%s_wrap_%s(%s)", prefix, name, expression)
                              : expression;
}

// Does a result always fit the narrow type of the operands? Not that of a float `mod`, which may
// add its divisor, nor the NaN of a division by 0 where the type has none.
static bool stays_in_type(Op op, DType t) {
  if (dtype_info[t].special == SPECIAL_FINITE && op_has(op, DIVIDES)) return false;
  return op_has(op, CLOSED) && (!is_float(t) || op_info[op].exactness == RESULT_EXACT);
}

static bool same_lane(DType a, DType b) {
  return is_float(a) == is_float(b) && is_wide(a) == is_wide(b);
}

// The bits of an integer in the type of one element of `to`: vectors of both signs are alike.
static const char *with_sign(bool lanes, DType from, DType to, const char *x) {
  bool same = dtype_info[from].class == dtype_info[to].class && is_wide(from) == is_wide(to);
  return lanes || same ? x : intern_printf("(%s)(%s)", scalar_type(to), x);
}

// An operation: of elements of dtype `from`, its last operand's, with a result of dtype `to`.
typedef struct {
  Op op;
  DType from, to;
  bool lanes;
  bool below;   // EXP: its operand is never above 0
  bool stored;  // what the result is stored by narrows it
} Spelling;

static const char *result_text(const Spelling *s, const char *x) {
  return s->stored ? x : narrowed(s->lanes, s->to, x);
}

// The type of the lanes from which an integer is converted to a float. Narrow unsigned integers fit
// in i32, which all machines convert in one instruction; few have an instruction for u32.
static const char *integer_lane(bool lanes, DType from) {
  if (from == DT_BOOL) return "mask";
  return lanes && is_narrow_integer(from) ? "i32" : lane_type(from);
}

// Casts from or to 64 bits; all other dtypes are in lanes of f32, i32 and u32. Integers of 64 bits
// wrap to each other, and lose their upper half in a cast to a narrower type.
static const char *cast_wide_text(const Spelling *s, const char *x) {
  const bool lanes = s->lanes;
  const DType from = s->from, to = s->to;
  const char *prefix = prefix_of(lanes), *lane = from == DT_BOOL ? "mask" : lane_type(from);
  if (is_narrow_float(to)) {
    if (lanes && is_integer(from) && dtype_info[to].greatest < 0x1p24)
      return result_text(s, intern_printf("pk_cast_i32_f32(pk_bounded_%s(%s))", lane, x));
    return result_text(s, intern_printf("%s_odd_%s(%s)", prefix, lane, x));
  }
  if (is_float(to))
    return same_lane(from, to)
               ? x
               : intern_printf("%s_cast_%s_%s(%s)", prefix,
                               is_float(from) ? lane : integer_lane(lanes, from), lane_type(to), x);
  if (is_float(from))
    return intern_printf("%s_cast_%s_%s(%s)", prefix, lane, dtype_info[to].name, x);
  if (!lanes) return result_text(s, intern_printf("(%s)(%s)", scalar_type(to), x));
  if (is_wide(from) && is_wide(to)) return x;
  return is_wide(from) ? result_text(s, intern_printf("%s_cast_i64_i32(%s)", prefix, x))
                       : intern_printf("%s_cast_%s_i64(%s)", prefix, lane, x);
}

static const char *cast_mask_text(bool lanes, DType from, const char *x) {
  if (!is_float(from)) x = with_sign(lanes, from, is_wide(from) ? DT_I64 : DT_I32, x);
  return intern_printf("%s_cast_%s_mask(%s)", prefix_of(lanes), bits_lane(from), x);
}

static const char *cast_text(const Spelling *s, const char *x) {
  const bool lanes = s->lanes;
  const DType from = s->from, to = s->to;
  if (from == to) return x;
  const char *prefix = prefix_of(lanes);
  if (to == DT_BOOL) return cast_mask_text(lanes, from, x);
  if (is_wide(from) || is_wide(to)) return cast_wide_text(s, x);
  if (is_float(to)) {
    if (is_float(from)) return result_text(s, x);
    if (is_narrow_float(to) && dtype_bytes(from) == 4)
      // so that f32 does not round first
      x = intern_printf("%s_odd_%s(%s)", prefix, lane_type(from), x);
    return result_text(s,
                       intern_printf("%s_cast_%s_f32(%s)", prefix, integer_lane(lanes, from), x));
  }
  if (is_float(from)) return intern_printf("%s_cast_f32_%s(%s)", prefix, dtype_info[to].name, x);
  if (from == DT_BOOL) return intern_printf("%s_cast_mask_%s(%s)", prefix, lane_type(to), x);
  return result_text(s, with_sign(lanes, from, to, x));
}

static const char *bitcast_text(bool lanes, DType from, DType to, const char *x) {
  const char *prefix = prefix_of(lanes);
  if (from == to) return x;
  if (is_wide(to) && is_float(from) == is_float(to))
    return lanes ? x : intern_printf("(%s)(%s)", scalar_type(to), x);
  if (is_wide(to))
    return intern_printf("%s_bitcast_%s_%s(%s)", prefix, lane_type(from), lane_type(to), x);
  if (dtype_bytes(to) == 4 && is_float(from) != is_float(to)) {
    const char *bits = lanes ? "i32" : lane_type(is_float(from) ? to : from);
    return is_float(from) ? intern_printf("%s_bitcast_f32_%s(%s)", prefix, bits, x)
                          : intern_printf("%s_bitcast_%s_f32(%s)", prefix, bits, x);
  }
  x = is_float(from) ? intern_printf("%s_bits_%s(%s)", prefix, dtype_info[from].name, x)
                     : with_sign(lanes, from, is_float(to) ? DT_I32 : to, x);
  if (is_float(to)) return intern_printf("%s_from_bits_%s(%s)", prefix, dtype_info[to].name, x);
  bool fits = is_float(from) && dtype_info[to].class == CLASS_UNSIGNED;
  return fits ? x : narrowed(lanes, to, x);
}

// The copies of the sign are not counted. The count does not fit a type of fewer bits.
static const char *signed_population_count(bool lanes, DType t, const char *x) {
  const char *prefix = prefix_of(lanes);
  int bits = dtype_info[t].bits;
  const char *count =
      intern_printf("%s_population_count_i32(%s_wrap_u%d(%s))", prefix, prefix, bits, x);
  return bits > dtype_max(t) ? narrowed(lanes, t, count) : count;
}

const char *function_name(const char *prefix, Op op, bool below, const char *lane) {
  return intern_printf("%s_%s_%s", prefix, below ? "exp_below" : op_info[op].name, lane);
}

static const char *call_text(const Spelling *s, const char *lane, const char *const *args) {
  Buf buf = {0};
  buf_printf(&buf, "%s(", function_name(prefix_of(s->lanes), s->op, s->below, lane));
  for (int i = 0; i < op_info[s->op].nargs; i++) buf_printf(&buf, i ? ", %s" : "%s", args[i]);
  buf_putc(&buf, ')');
  const char *result = intern(buf.text);
  buf_free(&buf);
  return result;
}

// The vector layer has its own division of narrow integers.
static const char *dividing_lane(DType t) { return is_narrow_integer(t) ? "short" : lane_type(t); }

static const char *function_text(const Spelling *s, const char *const *args) {
  DType from = s->from, t = s->to;
  bool narrow = is_narrow_integer(from);
  if (s->op == OP_POPCOUNT && narrow && dtype_info[from].class == CLASS_SIGNED)
    return signed_population_count(s->lanes, from, args[0]);
  // their 32-bit form would see the wrong width
  bool by_width = narrow && op_has(s->op, BY_WIDTH);
  const char *lane = by_width          ? dtype_info[from].name
                     : from == DT_BOOL ? "mask"
                     : s->lanes && is_integer(from) && op_has(s->op, DIVIDES) ? dividing_lane(from)
                                                                              : lane_type(from);
  if (is_narrow_float(from) && op_has(s->op, OF_NARROW)) lane = "narrow";
  const char *result = call_text(s, lane, args);
  bool stays = stays_in_type(s->op, t) || op_info[s->op].class == OPC_PREDICATE;
  return stays ? result : result_text(s, result);
}

static const char *spelled(const Spelling *s, const char *const *args) {
  const char *prefix = prefix_of(s->lanes);
  switch (op_info[s->op].class) {
    case OPC_SELECT:
      return intern_printf("%s_select_%s(%s, %s, %s)", prefix, bits_lane(s->from), args[0], args[1],
                           args[2]);
    case OPC_CAST:
      return s->op == OP_CAST ? cast_text(s, args[0])
                              : bitcast_text(s->lanes, s->from, s->to, args[0]);
    case OPC_COMPARE:
      return call_text(s, s->from == DT_BOOL ? "mask" : lane_type(s->from), args);
    default:
      return function_text(s, args);
  }
}

// Comparisons of masks: equality is equivalence, order is false < true.
static const char *mask_compare(Op op, const char *const *a) {
  bool less = op_has(op, IF_LESS), equal = op_has(op, IF_EQUAL);
  if (less == op_has(op, IF_GREATER))
    return intern_printf(equal ? "pk_not_mask(pk_xor_mask(%s, %s))" : "pk_xor_mask(%s, %s)", a[0],
                         a[1]);
  return intern_printf(less ? "pk_%s_mask(pk_not_mask(%s), %s)" : "pk_%s_mask(%s, pk_not_mask(%s))",
                       equal ? "or" : "and", a[0], a[1]);
}

// Division of integers by a constant other than 0, 1 and -1: a multiplication by a reciprocal.
static const char *by_constant(const Instr *v, const char *x) {
  const DType t = v->type.dtype;
  if (!op_has(v->op, DIVIDES) || !is_integer(t)) return NULL;
  const Instr *d = ir_filling(v->args[1]);
  if (!d || d->ival == (is_wide(t) ? INT64_MIN : INT32_MIN) || (d->ival >= -1 && d->ival <= 1))
    return NULL;
  return intern_printf("pk_%s_constant_%s(%s, %s)", op_info[v->op].name, dividing_lane(t), x,
                       integer_text(t, d->ival));
}

const char *vector_op_text(const Instr *v, const char *const *args, bool stored) {
  const char *quotient = v->nargs == 2 ? by_constant(v, args[0]) : NULL;
  if (quotient) return quotient;
  DType from = v->nargs ? v->args[v->nargs - 1]->type.dtype : v->type.dtype;
  if (op_info[v->op].class == OPC_COMPARE && v->args[0]->type.dtype == DT_BOOL)
    return mask_compare(v->op, args);
  bool below = v->note && val(v)->never_overflows;
  return spelled(&(Spelling){v->op, from, v->type.dtype, true, below, stored}, args);
}

// ---- packed vectors

// Floats only move: they are integers of their bits.
const char *packed_element(DType t) {
  return is_float(t) ? intern_printf("u%d", dtype_info[t].bits) : dtype_info[t].name;
}

const char *packed_lane(DType t, int bits) {
  return t == DT_BOOL ? intern_printf("mask%d", bits) : packed_element(t);
}

// Integers of the same width are the same lanes.
static const char *packed_cast_text(DType from, DType to, const char *x, int bits) {
  if ((from == DT_BOOL) == (to == DT_BOOL)) return x;
  return intern_printf("pk_packed_%s_u%d(%s)", to == DT_BOOL ? "to_mask" : "from_mask", bits, x);
}

const char *packed_op_text(const Instr *v, const char *const *args, int bits) {
  const DType from = v->args[v->nargs - 1]->type.dtype;
  if (op_info[v->op].class == OPC_CAST) return packed_cast_text(from, v->type.dtype, args[0], bits);
  const char *all = args[0];
  for (int i = 1; i < v->nargs; i++) all = intern_printf("%s, %s", all, args[i]);
  return intern_printf("pk_packed_%s_%s(%s)", op_info[v->op].name, packed_lane(from, bits), all);
}

// ---- expressions

static const char *const functions[FN_COUNT] = {
    [FN_START] = "pk_start",
    [FN_IS_INDEX] = "pk_is_index",
    [FN_CLAMP] = "pk_idx_clamp",
    [FN_MUL] = "pk_idx_mul",
    [FN_MOD] = "pk_idx_mod",
    [FN_SAT_HALF] = "pk_sat_half",
    [FN_ROW_LENGTH] = "pk_row_length",
    [FN_SLOTS] = "pk_slots",
    [FN_BATCH_MOST] = "pk_batch_most",
    [FN_BATCHES] = "pk_batches",
    [FN_BATCH_FIRST] = "pk_batch_first",
    [FN_ODD_I64] = "pks_odd_i64",
};

// For index arithmetic the runtime has saturating functions.
static void put_operation(ExprWriter *w, const Expr *e) {
  const char *args[EXPR_ARGS] = {0};
  if (e->from == DT_I64 && op_info[e->op].class != OPC_CAST) {
    expr_put_call(w, intern_printf("pk_idx_%s", op_info[e->op].name), e);
    return;
  }
  for (int i = 0; i < EXPR_ARGS && e->arg[i]; i++) args[i] = expr_text(e->arg[i]);
  buf_puts(w->out, spelled(&(Spelling){e->op, e->from, e->dtype, false, false, false}, args));
}

static void put_element(ExprWriter *w, const Expr *e) {
  int rank = 0;
  for (const Expr *at = e->arg[1]; at; at = at->arg[1]) rank++;
  buf_printf(w->out, "pk_element_%s(&%s[%d], %d, (const int64_t[]){", dtype_info[e->dtype].name,
             expr_text(e->arg[0]), (int)e->value, rank);
  for (const Expr *at = e->arg[1]; at; at = at->arg[1])
    buf_printf(w->out, at == e->arg[1] ? "%s" : ", %s", expr_text(at->arg[0]));
  buf_puts(w->out, rank ? "})" : "0})");
}

// The C of an expression.
static void put_c(ExprWriter *w, const Expr *e) {
  switch (e->kind) {
    case EXPR_CAST:
      buf_puts(w->out, scalar_type(e->dtype));
      break;
    case EXPR_LITERAL:
      buf_puts(w->out, literal_text(e->dtype, e->value, e->number));
      break;
    case EXPR_OPERATION:
      put_operation(w, e);
      break;
    case EXPR_NARROW:
      buf_puts(w->out, narrowed(false, e->dtype, expr_text(e->arg[0])));
      break;
    case EXPR_STRIDE:
      buf_printf(w->out, "%s->array[%d].stride[%s]", expr_text(e->arg[0]), (int)e->value,
                 expr_text(e->arg[1]));
      break;
    case EXPR_DIM:
      buf_printf(w->out, "%s[%d].dim[%s]", expr_text(e->arg[0]), (int)e->value,
                 expr_text(e->arg[1]));
      break;
    case EXPR_ELEMENT:
      put_element(w, e);
      break;
    default:
      INTERNAL("an expression without a form in C");
  }
}

static const Notation c_notation = {
    .names = {[EXPR_SAT_ADD] = "pk_sat_add",
              [EXPR_SAT_MUL] = "pk_sat_mul",
              [EXPR_MIN] = "pk_idx_min",
              [EXPR_MAX] = "pk_idx_max",
              [EXPR_FLOOR_DIV] = "pk_idx_floordiv",
              [EXPR_CEIL_DIV] = "pk_cdiv",
              [EXPR_ROUND_UP] = "pk_round_up"},
    .functions = functions,
    .put = put_c,
};

const char *expr_text(const Expr *e) { return expr_written(e, &c_notation); }

const char *scalar_text(Gen *g, const Instr *v) { return expr_text(scalar_expr(g, v)); }

const char *extent_text(Gen *g, Dim d) { return expr_text(extent_expr(g, d)); }

const char *demand_text(Gen *g, Demand demand, Dim d) {
  return expr_text(demand_expr(g, demand, d));
}
