// Values: their types in words, conversions, and the common dtype and shape of several.
#include "codegen/lower/internal.h"
#include "codegen/ir/array.h"
#include "codegen/ir/scalar.h"

#include <math.h>
#include <string.h>

// ---- instructions

enum { MAX_ELEMENTS = INT32_MAX, MAX_REF_BITS = 48 };

// Whether the constant axes alone have at most that many elements.
static bool has_at_most(const Type *type, int64_t most) {
  int64_t count = 1;
  for (int i = 0; i < type->rank; i++) {
    bool counts = dim_is_const(type->dim[i]) && type->dim[i] > 0;
    if (counts && (!mul_i64(count, type->dim[i], &count) || count > most)) return false;
  }
  return true;
}

static void check_elements(Lower *l, const Type *type, Span span) {
  if (has_at_most(type, MAX_ELEMENTS)) return;
  if (!l->stopped)
    diag_error(l->diag, span, ERR_TOO_LARGE, "a value of %s has more than 2^31-1 elements",
               type_text(l, type));
  l->stopped = true;
}

// No machine has the memory for more, and bytes of less never overflow 64 bits.
bool check_ref_elements(Lower *l, const Ref *ref) {
  if (ref->space == SPACE_ANY || has_at_most(&ref->type, INT64_C(1) << MAX_REF_BITS)) return true;
  diag_error(l->diag, ref->span, ERR_TOO_LARGE, "%s `%s` of %s has more than 2^%d elements",
             ref->role == REF_SCRATCH ? "scratch" : "a block of", ref->name,
             type_text(l, &ref->type), MAX_REF_BITS);
  return false;
}

Instr *emit(Lower *l, Op op, Type type, Span span, int nargs, Instr *const *args) {
  if (type.rank && op != OP_ARRAY) check_elements(l, &type, span);
  return ir_append(l->k, l->frame->region, ir_new(l->k, op, type, span, nargs, args));
}

Instr *emit1(Lower *l, Op op, Type type, Span span, Instr *a) {
  return emit(l, op, type, span, 1, &a);
}

Instr *emit2(Lower *l, Op op, Type type, Span span, Instr *a, Instr *b) {
  Instr *args[] = {a, b};
  return emit(l, op, type, span, 2, args);
}

Instr *index_op(Lower *l, Op op, Instr *a, Instr *b, Span span) {
  return emit2(l, op, type_scalar(DT_I64), span, a, b);
}

Instr *index_const(Lower *l, int64_t value, Span span) {
  return ir_const_int(l->k, l->frame->region, DT_I64, value, span);
}

Instr *dim_value(Lower *l, Dim dim, Span span) {
  return ir_extent(l->k, l->frame->region, dim, span);
}

Type with_dtype(Type type, DType dtype) {
  type.dtype = dtype;
  return type;
}

// ---- words

// A constant axis is printed as the static of that value when there is exactly one.
const char *dim_text(Lower *l, Dim dim) {
  if (!dim_is_const(dim)) return l->k->sizes.at[dim_size_index(dim)].name;
  const char *found = NULL;
  int count = 0;
  for (Symbol *s = l->root; s && dim > 1; s = s->next)
    if (s->kind == SYM_STATIC && s->value.kind == V_INT && s->value.ival == dim)
      found = s->name, count++;
  return count == 1 ? found : arena_printf(l->arena, "%lld", (long long)dim);
}

const char *shape_text(Lower *l, const Type *type) {
  Buf buf = {0};
  buf_putc(&buf, '[');
  for (int i = 0; i < type->rank; i++)
    buf_printf(&buf, "%s%s", i ? ", " : "", dim_text(l, type->dim[i]));
  buf_putc(&buf, ']');
  return arena_take(l->arena, &buf);
}

const char *type_text(Lower *l, const Type *type) {
  if (type->dtype == DT_COUNT) return "no value";
  const char *name = dtype_info[type->dtype].name;
  return type->rank == 0 ? name : arena_printf(l->arena, "%s%s", name, shape_text(l, type));
}

// " with axes M, N": an operand's axes by their names, for notes.
const char *axes_text(Lower *l, const Ref *ref) {
  const char *space = ref->space == SPACE_SMEM ? "smem " : "";
  if (!ref_is_operand(ref))
    return arena_printf(l->arena, ": %s%s", space, type_text(l, &ref->type));
  return arena_printf(l->arena, ": blocks %s%s of %s", space, shape_text(l, &ref->type),
                      type_text(l, &ref->array));
}

double as_double(Value v) { return v.kind == V_FLOAT ? v.fval : (double)v.ival; }

const char *value_text(Lower *l, Value v) {
  switch (v.kind) {
    case V_INT:
      return arena_printf(l->arena, "the constant %lld", (long long)v.ival);
    case V_FLOAT:
      return arena_printf(l->arena, "the constant %s", format_double(l->arena, v.fval));
    case V_BOOL:
      return v.ival ? "the constant true" : "the constant false";
    case V_DTYPE:
      return arena_printf(l->arena, "the dtype %s", dtype_info[v.dtype].name);
    case V_STRING:
      return "a string";
    case V_LIST:
      return "a list";
    case V_REF:
      return arena_printf(l->arena, "the ref `%s`", v.ref->name);
    case V_DATA:
      return is_index(v) ? "an index scalar (i64)" : type_text(l, &v.instr->type);
    default:
      return "nothing";
  }
}

// Writes an expression as source text.
static void add_expression(Buf *buf, const Node *node, int around) {
  if (!node) return;
  switch (node->kind) {
    case N_INT:
      buf_printf(buf, "%lld", (long long)node->ival);
      return;
    case N_FLOAT:
      buf_printf(buf, "%.17g", node->fval);
      return;
    case N_BOOL:
      buf_puts(buf, node->ival ? "true" : "false");
      return;
    case N_NAME:
      buf_puts(buf, node->name);
      return;
    case N_UNARY:
      buf_putc(buf, "-!~"[node->op]);
      add_expression(buf, node->a, 11);
      return;
    case N_BINARY: {
      int own = binary_precedence((BinaryOp)node->op);
      if (own < around) buf_putc(buf, '(');
      add_expression(buf, node->a, own);
      buf_printf(buf, " %s ", binary_spelling((BinaryOp)node->op));
      add_expression(buf, node->b, own + 1);
      if (own < around) buf_putc(buf, ')');
      return;
    }
    case N_CALL:
      buf_printf(buf, "%s(", node->name);
      for (int i = 0; i < node->list.count; i++) {
        if (i) buf_puts(buf, ", ");
        add_expression(buf, node->list.at[i], 0);
      }
      buf_putc(buf, ')');
      return;
    default:
      buf_putc(buf, '?');
  }
}

const char *expression_text(const Node *node) {
  Buf buf = {0};
  add_expression(&buf, node, 0);
  const char *text = buf.text ? intern_n(buf.text, buf.length) : "";
  buf_free(&buf);
  return text;
}

// ---- constants

DType natural_dtype(Value v) {
  switch (v.kind) {
    case V_INT:
      return DT_I32;
    case V_FLOAT:
      return DT_F32;
    case V_BOOL:
      return DT_BOOL;
    case V_DATA:
      return v.instr->type.dtype;
    default:
      INTERNAL("no dtype of value kind %d", v.kind);
  }
}

bool static_fits(Value v, DType dtype) {
  if (dtype == DT_BOOL || v.kind == V_BOOL) return dtype == DT_BOOL && v.kind == V_BOOL;
  if (is_integer(dtype))
    return v.kind == V_INT && v.ival >= dtype_min(dtype) &&
           (dtype == DT_U64 || v.ival <= dtype_max(dtype));
  double d = as_double(v);
  if (isinf(d)) return dtype_has_inf(dtype);
  if (dtype_info[dtype].special == SPECIAL_FINITE) return fabs(d) <= dtype_largest(dtype);
  return isnan(d) || isfinite(dtype_round(dtype, d));
}

static void report_misfit(Lower *l, Value v, DType dtype, Span span) {
  const char *name = dtype_info[dtype].name;
  if (v.kind == V_BOOL || dtype == DT_BOOL)
    diag_error(l->diag, span, ERR_DTYPE_MISMATCH,
               "%s and %s: mixing numbers and bools requires a cast", value_text(l, v), name);
  else if (v.kind == V_FLOAT && is_integer(dtype))
    diag_error(
        l->diag, span, ERR_LITERAL_RANGE,
        "%s meets %s: a float does not become an integer implicitly; cast(.., %s) converts it",
        value_text(l, v), name, name);
  else
    diag_error(l->diag, span, ERR_LITERAL_RANGE, "%s does not fit %s", value_text(l, v), name);
}

static const char *list_advice(Value v) {
  return v.kind == V_LIST ? "; stack(a, b, ..) makes an array of numbers" : "";
}

Instr *constant_of(Lower *l, Value v, DType dtype, Span span) {
  if (!is_number(v) && v.kind != V_BOOL) {
    diag_error(l->diag, span, ERR_BAD_ARGUMENT, "expected a number, not %s%s", value_text(l, v),
               list_advice(v));
    return NULL;
  }
  if (!static_fits(v, dtype)) {
    report_misfit(l, v, dtype, span);
    return NULL;
  }
  if (!is_float(dtype)) return ir_const_int(l->k, l->frame->region, dtype, v.ival, span);
  double once = dtype != DT_F64 && v.odd != 0 ? v.odd : v.fval;
  double value = v.kind == V_INT ? int_to_float(dtype, DT_I64, v.ival) : dtype_round(dtype, once);
  return ir_const_float(l->k, l->frame->region, dtype, value, span);
}

// ---- conversion

Instr *data_of(Lower *l, Value v, Span span) {
  if (v.kind == V_ERROR) return NULL;
  if (v.kind == V_DATA) return v.instr;
  if (v.kind == V_VOID) {
    diag_error(l->diag, span, ERR_NO_RESULT, "this expression has no value");
    return NULL;
  }
  return constant_of(l, v, is_number(v) || v.kind == V_BOOL ? natural_dtype(v) : DT_F32, span);
}

static void report_mix(Lower *l, Value v, DType dtype, Span span, const char *what) {
  const char *name = dtype_info[dtype].name;
  if (is_index(v))
    diag_error(l->diag, span, ERR_DTYPE_MISMATCH,
               "%s: an index scalar (i64) meets %s; cast(.., %s) converts it", what, name, name);
  else
    diag_error(l->diag, span, ERR_DTYPE_MISMATCH, "%s: %s meets %s; cast one of them", what,
               value_text(l, v), name);
}

// where(c, a, b) of two constants again, now of another dtype.
static Instr *convert_weak(Lower *l, Value v, DType dtype, Span span) {
  const Type *shape = &v.instr->type;
  Instr *a = constant_of(l, v.items[0], dtype, span),
        *b = a ? constant_of(l, v.items[1], dtype, span) : NULL;
  if (!b) return NULL;
  Instr *args[] = {v.instr->args[0], broadcast_to(l, a, shape, span),
                   broadcast_to(l, b, shape, span)};
  return emit(l, OP_SELECT, with_dtype(*shape, dtype), span, 3, args);
}

// A choice among indices again, now of another dtype.
static Instr *convert_choice(Lower *l, Value v, DType dtype, Span span, const char *what) {
  const Type *shape = &v.instr->type;
  Instr *args[3] = {v.items[2].instr};
  for (int i = 0; i < 2; i++)
    if (!(args[i + 1] = convert(l, v.items[i], dtype, span, what))) return NULL;
  for (int i = 0; i < 3; i++) args[i] = broadcast_to(l, args[i], shape, span);
  return emit(l, OP_SELECT, with_dtype(*shape, dtype), span, 3, args);
}

Instr *convert(Lower *l, Value v, DType dtype, Span span, const char *what) {
  if (v.kind == V_ERROR) return NULL;
  if (v.kind != V_DATA) return constant_of(l, v, dtype, span);
  if (v.instr->type.dtype == dtype) return v.instr;
  if (is_weak(v)) return convert_weak(l, v, dtype, span);
  if (is_index(v) && is_integer(dtype)) return emit1(l, OP_CAST, type_scalar(dtype), span, v.instr);
  if (is_index_choice(v) && is_integer(dtype)) return convert_choice(l, v, dtype, span, what);
  if (is_spread_index(v) && is_integer(dtype)) {
    Instr *scalar = convert(l, v.items[0], dtype, span, what);
    return broadcast_to(l, scalar, &v.instr->type, span);
  }
  report_mix(l, v, dtype, span, what);
  return NULL;
}

static bool check_data(Lower *l, Value v, Span span, const char *what) {
  if (v.kind == V_ERROR) return false;
  if (v.kind == V_DATA || is_number(v) || v.kind == V_BOOL) return true;
  diag_error(l->diag, span, v.kind == V_VOID ? ERR_NO_RESULT : ERR_BAD_ARGUMENT, "%s of %s%s", what,
             value_text(l, v), list_advice(v));
  return false;
}

// The dtype of values without a fixed dtype that meet only each other.
static DType dtype_without_data(const Value *v, int count) {
  DType dtype = DT_BOOL;
  for (int i = 0; i < count; i++)
    if (is_index(v[i]) || is_spread_index(v[i])) return DT_I64;
  for (int i = 0; i < count; i++) {
    DType own = natural_dtype(v[i]);
    if (own == DT_F32 || dtype == DT_BOOL) dtype = own;
  }
  return dtype;
}

bool common_dtype(Lower *l, const Value *v, int count, Span span, const char *what, DType *dtype) {
  int fixed = -1;
  for (int i = 0; i < count; i++)
    if (!check_data(l, v[i], span, what)) return false;
  for (int i = 0; i < count; i++) {
    if (v[i].kind != V_DATA || is_index(v[i]) || is_spread_index(v[i]) || is_weak(v[i])) continue;
    if (fixed >= 0 && v[fixed].instr->type.dtype != v[i].instr->type.dtype) {
      diag_error(l->diag, span, ERR_DTYPE_MISMATCH, "%s of %s and %s: cast one of them", what,
                 value_text(l, v[fixed]), value_text(l, v[i]));
      return false;
    }
    if (fixed < 0) fixed = i;
  }
  *dtype = fixed >= 0 ? v[fixed].instr->type.dtype : dtype_without_data(v, count);
  return true;
}

// ---- shapes

// The shape to which values broadcast together.
bool common_shape(Lower *l, Instr *const *v, int count, Span span, const char *what, Type *shape) {
  Type out = {.dtype = DT_BOOL};
  for (int i = 0; i < count; i++)
    if (v[i]->type.rank > out.rank) out.rank = v[i]->type.rank;
  for (int axis = 0; axis < out.rank; axis++) out.dim[axis] = 1;
  for (int i = 0; i < count; i++) {
    const Type *t = &v[i]->type;
    for (int axis = 0; axis < t->rank; axis++) {
      Dim *into = &out.dim[axis + out.rank - t->rank];
      if (*into == 1) *into = t->dim[axis];
      if (*into == t->dim[axis] || t->dim[axis] == 1) continue;
      const char *other = type_text(l, &v[0]->type);
      diag_error(l->diag, span, ERR_SHAPE_MISMATCH,
                 "%s of %s and %s: axes of %s and %s do not broadcast", what, i ? other : "shapes",
                 type_text(l, t), dim_text(l, *into), dim_text(l, t->dim[axis]));
      return false;
    }
  }
  *shape = out;
  return true;
}

bool can_broadcast(const Type *from, const Type *to) {
  if (from->rank > to->rank) return false;
  for (int i = 0; i < from->rank; i++) {
    Dim d = from->dim[i];
    if (d != 1 && d != to->dim[i + to->rank - from->rank]) return false;
  }
  return true;
}

Instr *broadcast_to(Lower *l, Instr *v, const Type *shape, Span span) {
  if (type_same_shape(&v->type, shape)) return v;
  REQUIRE(can_broadcast(&v->type, shape));
  return emit1(l, OP_BROADCAST, with_dtype(*shape, v->type.dtype), span, v);
}

Instr *reshape_to(Lower *l, Instr *v, const Type *shape, Span span) {
  if (type_same_shape(&v->type, shape)) return v;
  return emit1(l, OP_RESHAPE, with_dtype(*shape, v->type.dtype), span, v);
}

bool unify(Lower *l, const Value *v, int count, Span span, const char *what, Instr **out) {
  DType dtype;
  Type shape;
  if (!common_dtype(l, v, count, span, what, &dtype)) return false;
  for (int i = 0; i < count; i++)
    if (!(out[i] = convert(l, v[i], dtype, span, what))) return false;
  if (!common_shape(l, out, count, span, what, &shape)) return false;
  for (int i = 0; i < count; i++) out[i] = broadcast_to(l, out[i], &shape, span);
  return true;
}
