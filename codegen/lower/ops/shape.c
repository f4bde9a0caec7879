// Built-in functions that make arrays and move elements.
#include "codegen/lower/ops/ops.h"

Instr *lower_array(Lower *l, const Node *node) {
  return data_of(l, lower_expr(l, node), node->span);
}

bool lower_axis(Lower *l, const Node *node, int rank, Span span, int *axis) {
  int64_t number = 0;
  if (!node && rank != 1) {
    diag_error(l->diag, span, ERR_ARGUMENT_COUNT, "`axis =` is required for a value of %d axes",
               rank);
    return false;
  }
  if (node && !lower_static_int(l, node, "an axis number", &number)) return false;
  if (number < -rank || number >= rank) {
    diag_error(l->diag, node ? node->span : span, ERR_AXIS_RANGE, "axis %lld of a value of %d %s",
               (long long)number, rank, rank == 1 ? "axis" : "axes");
    return false;
  }
  *axis = (int)(number < 0 ? number + rank : number);
  return true;
}

bool lower_flag(Lower *l, const Node *node, bool otherwise, bool *out) {
  *out = otherwise;
  if (!node) return true;
  Value v = lower_expr(l, node);
  if (is_error(v)) return false;
  *out = v.ival != 0;
  if (v.kind == V_BOOL) return true;
  diag_error(l->diag, node->span, ERR_BAD_ARGUMENT, "expected true or false, not %s",
             value_text(l, v));
  return false;
}

static bool lower_dtype_or(Lower *l, const Node *node, DType otherwise, DType *out) {
  *out = otherwise;
  return !node || lower_dtype(l, node, out);
}

static bool constant_axis(Lower *l, Dim dim, Span span, const char *what) {
  if (dim_is_const(dim)) return true;
  diag_error(l->diag, span, ERR_SHAPE_MISMATCH,
             "%s changes the length of an axis of run-time size %s", what, dim_text(l, dim));
  return false;
}

// ---- new arrays

static Value lower_iota(Lower *l, const Call *call) {
  Type shape;
  DType dtype;
  int axis;
  if (!lower_shape(l, call->arg[0], &shape) ||
      !lower_axis(l, call->arg[1], shape.rank, call->node->span, &axis))
    return value_error();
  if (!lower_dtype_or(l, call->arg[2], DT_I32, &dtype)) return value_error();
  if (dtype == DT_BOOL) {
    diag_error(l->diag, call->arg[2]->span, ERR_DTYPE_UNSUPPORTED,
               "iota requires a number dtype, not bool");
    return value_error();
  }
  Instr *iota = emit(l, OP_IOTA, with_dtype(shape, dtype), call->node->span, 0, NULL);
  iota->ival = axis;
  return value_data(iota);
}

static Value filled(Lower *l, const Node *shape_node, Value v, const Node *dtype_node,
                    DType natural, Span span) {
  Type shape;
  DType dtype;
  if (!lower_shape(l, shape_node, &shape) || !lower_dtype_or(l, dtype_node, natural, &dtype))
    return value_error();
  if (dtype == DT_BOOL && is_number(v) && v.kind == V_INT && (v.ival == 0 || v.ival == 1))
    v = value_bool(v.ival != 0);
  Instr *data = convert(l, v, dtype, span, "full");
  if (!data) return value_error();
  if (can_broadcast(&data->type, &shape)) return value_data(broadcast_to(l, data, &shape, span));
  diag_error(l->diag, span, ERR_SHAPE_MISMATCH, "%s does not broadcast to %s",
             type_text(l, &data->type), shape_text(l, &shape));
  return value_error();
}

static Value lower_full(Lower *l, const Call *call) {
  Value v = lower_expr(l, call->arg[1]);
  if (is_error(v)) return v;
  bool number = v.kind == V_DATA || is_number(v) || v.kind == V_BOOL;
  if (!number) data_of(l, v, call->arg[1]->span);
  return number ? filled(l, call->arg[0], v, call->arg[2], natural_dtype(v), call->node->span)
                : value_error();
}

static Value lower_constant_array(Lower *l, const Call *call) {
  return filled(l, call->arg[0], value_int(call->builtin->op), call->arg[1], DT_F32,
                call->node->span);
}

// ---- the same elements in another shape

static bool is_minus_one(const Node *node) {
  return node->kind == N_UNARY && node->op == UN_NEG && node->a->kind == N_INT &&
         node->a->ival == 1;
}

// The axis written -1: what is left of `v` when the others are taken out.
static bool infer_axis(const Type *v, Type *shape, int axis) {
  int64_t have = 1, taken = 1;
  Dim left = 1;
  int sizes = 0;
  for (int i = 0; i < v->rank; i++)
    if (dim_is_const(v->dim[i]) && !mul_i64(have, v->dim[i], &have)) return false;
  for (int i = 0; i < shape->rank; i++)
    if (i != axis && dim_is_const(shape->dim[i]) && !mul_i64(taken, shape->dim[i], &taken))
      return false;
  for (int i = 0; i < v->rank; i++) {
    if (dim_is_const(v->dim[i])) continue;
    int balance = 0;
    for (int j = 0; j <= i; j++) balance += v->dim[j] == v->dim[i];
    for (int j = 0; j < shape->rank; j++) balance -= j != axis && shape->dim[j] == v->dim[i];
    if (balance > 0) left = v->dim[i], sizes++;
  }
  if (taken == 0 || have % taken != 0 || sizes > 1) return false;
  shape->dim[axis] = sizes ? left : have / taken;
  return true;
}

static bool lower_new_shape(Lower *l, const Node *node, const Type *v, Type *shape) {
  int inferred = -1;
  bool list = node->kind == N_ARRAY || node->kind == N_TUPLE;
  for (int i = 0; list && i < node->list.count; i++)
    if (is_minus_one(node->list.at[i])) {
      if (inferred >= 0) {
        diag_error(l->diag, node->span, ERR_BAD_SHAPE, "only one axis can be -1");
        return false;
      }
      inferred = i;
    }
  if (inferred < 0 || node->list.count > MAX_RANK) return lower_shape(l, node, shape);
  *shape = (Type){.rank = node->list.count};
  for (int i = 0; i < shape->rank; i++)
    if (i != inferred && !lower_dim(l, node->list.at[i], &shape->dim[i])) return false;
  if (infer_axis(v, shape, inferred)) return true;
  diag_error(l->diag, node->span, ERR_SHAPE_MISMATCH,
             "no length of the axis -1 gives the number of elements of %s", type_text(l, v));
  return false;
}

// Known only at the call: there are sizes among the axes.
static bool may_have_as_many(const Type *a, const Type *b) {
  return type_has_sizes(a) || type_has_sizes(b);
}

static Value lower_reshape(Lower *l, const Call *call) {
  Type shape;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_new_shape(l, call->arg[1], &v->type, &shape)) return value_error();
  bool same = same_elements(l, &v->type, &shape);
  if (!same && l->place == IN_REFERENCE && may_have_as_many(&v->type, &shape)) {
    require_at_call(l, OP_EQ, &v->type, &shape, call->node->span,
                    arena_printf(l->arena, "%s has as many elements as %s, for the reference",
                                 shape_text(l, &v->type), shape_text(l, &shape)));
    same = true;
  }
  if (same) return value_data(reshape_to(l, v, &shape, call->node->span));
  const char *why = may_have_as_many(&v->type, &shape)
                        ? "the numbers of elements may differ; `require` can state how "
                          "sizes are related"
                        : "the number of elements differs";
  diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH, "%s cannot be reshaped to %s: %s",
             type_text(l, &v->type), shape_text(l, &shape), why);
  return value_error();
}

static Value spread_scalar(Lower *l, Value scalar, Value array) {
  Value *item = NEW(l->arena, Value);
  *item = scalar;
  array.items = item;
  array.count = 1;
  return array;
}

static Value lower_broadcast(Lower *l, const Call *call) {
  Type shape;
  Value value = lower_expr(l, call->arg[0]);
  Instr *v = data_of(l, value, call->arg[0]->span);
  if (!v || !lower_shape(l, call->arg[1], &shape)) return value_error();
  if (can_broadcast(&v->type, &shape)) {
    Value out = value_data(broadcast_to(l, v, &shape, call->node->span));
    return is_index(value) && shape.rank > 0 ? spread_scalar(l, value, out) : out;
  }
  diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH, "%s does not broadcast to %s",
             type_text(l, &v->type), shape_text(l, &shape));
  return value_error();
}

// The function squeeze.
static Value lower_squeeze(Lower *l, const Call *call) {
  Instr *v = lower_array(l, call->arg[0]);
  int64_t axes[MAX_RANK];
  int count = 0;
  unsigned gone = 0;
  if (!v) return value_error();
  if (call->arg[1] && !lower_int_list(l, call->arg[1], "an axis number", axes, MAX_RANK, &count))
    return value_error();
  for (int i = 0; i < v->type.rank; i++)
    if (!call->arg[1] && v->type.dim[i] == 1) gone |= 1u << i;
  for (int i = 0; i < count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + v->type.rank : axes[i];
    if (axis < 0 || axis >= v->type.rank || v->type.dim[axis] != 1) {
      diag_error(l->diag, call->arg[1]->span, ERR_AXIS_RANGE,
                 "axis %lld of %s does not have the extent 1", (long long)axes[i],
                 type_text(l, &v->type));
      return value_error();
    }
    gone |= 1u << axis;
  }
  Type shape = {.rank = 0};
  for (int i = 0; i < v->type.rank; i++)
    if (!(gone >> i & 1)) shape.dim[shape.rank++] = v->type.dim[i];
  return value_data(reshape_to(l, v, &shape, call->node->span));
}

// The function transpose.
static Value lower_transpose(Lower *l, const Call *call) {
  Instr *v = lower_array(l, call->arg[0]);
  if (!v) return value_error();
  int perm[MAX_RANK], rank = v->type.rank, count = rank;
  int64_t wanted[MAX_RANK];
  unsigned used = 0;
  for (int i = 0; i < rank; i++) wanted[i] = rank - 1 - i;
  if (call->arg[1] && !lower_int_list(l, call->arg[1], "an axis number", wanted, MAX_RANK, &count))
    return value_error();
  for (int i = 0; i < count && count == rank; i++) {
    int64_t axis = wanted[i] < 0 ? wanted[i] + rank : wanted[i];
    if (axis >= 0 && axis < rank) used |= 1u << axis;
    perm[i] = (int)(axis >= 0 && axis < rank ? axis : 0);
  }
  if (count == rank && used == (1u << rank) - 1)
    return value_data(transpose_to(l, v, perm, call->node->span));
  diag_error(l->diag, call->arg[1] ? call->arg[1]->span : call->node->span, ERR_AXIS_RANGE,
             "the order of axes of %s must name each of its %d axes once", type_text(l, &v->type),
             rank);
  return value_error();
}

// ---- joining and extending

int collect_parts(Lower *l, const Call *call, const Value **out) {
  Value *parts = NEW_ARRAY(l->arena, Value, MAX_LIST + 2);
  int count = 0;
  *out = parts;
  for (int i = 0; i < call->rest_count && count <= MAX_LIST; i++) {
    Value v = lower_expr(l, call->rest[i]);
    if (is_error(v)) return -1;
    if (v.kind == V_LIST)
      for (int k = 0; k < v.count && count <= MAX_LIST; k++) parts[count++] = v.items[k];
    else
      parts[count++] = v;
  }
  if (count > 0 && count <= MAX_LIST) return count;
  diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT, "%s joins from 1 to %d values",
             call->builtin->name, MAX_LIST);
  return -1;
}

// The function concatenate.
static Value lower_concatenate(Lower *l, const Call *call) {
  const Value *parts;
  Span span = call->node->span;
  DType dtype;
  int axis = 0, count = collect_parts(l, call, &parts);
  if (count < 0) return value_error();
  if (!common_dtype(l, parts, count, span, "concatenate", &dtype)) return value_error();
  Instr **args = NEW_ARRAY(l->arena, Instr *, count);
  for (int i = 0; i < count; i++)
    if (!(args[i] = convert(l, parts[i], dtype, span, "concatenate"))) return value_error();
  Type type = args[0]->type;
  if (call->arg[1] && !lower_axis(l, call->arg[1], type.rank, span, &axis)) return value_error();
  if (type.rank == 0) {
    diag_error(l->diag, span, ERR_RANK_MISMATCH, "concatenate joins arrays, not scalars");
    return value_error();
  }
  for (int i = 0; i < count; i++) {
    const Type *t = &args[i]->type;
    bool fits = t->rank == type.rank;
    for (int k = 0; fits && k < t->rank; k++) fits = k == axis || t->dim[k] == type.dim[k];
    if (!fits) {
      diag_error(l->diag, span, ERR_SHAPE_MISMATCH,
                 "concatenate along axis %d of %s and %s: the other axes differ", axis,
                 type_text(l, &args[0]->type), type_text(l, t));
      return value_error();
    }
    bool sizes = !dim_is_const(t->dim[axis]) || !dim_is_const(type.dim[axis]);
    if (i > 0 && sizes) {
      type.dim[axis] = joined_dim(l, type.dim[axis], t->dim[axis], span);
      continue;
    }
    if (i > 0 && !add_i64(type.dim[axis], t->dim[axis], &type.dim[axis]))
      type.dim[axis] = INT64_MAX;
  }
  if (count == 1) return value_data(args[0]);
  Instr *joined = emit(l, OP_CONCAT, type, span, count, args);
  joined->ival = axis;
  return value_data(joined);
}

static Instr *constant_like(Lower *l, const Instr *v, int64_t value, Span span) {
  return broadcast_to(l, index_const(l, value, span), &v->type, span);
}

Instr *take_places(Lower *l, Instr *v, int axis, Dim out, int64_t stride, int64_t start,
                   Instr *fill, Span span) {
  Type index = {.dtype = DT_I64, .rank = 1, .dim = {out}}, truth = with_dtype(index, DT_BOOL);
  Instr *at = emit(l, OP_IOTA, index, span, 0, NULL);
  at = emit2(l, OP_MUL, index, span, at, constant_like(l, at, stride, span));
  at = emit2(l, OP_ADD, index, span, at, constant_like(l, at, start, span));
  Instr *zero = constant_like(l, at, 0, span),
        *end = broadcast_to(l, dim_value(l, v->type.dim[axis], span), &index, span);
  Instr *before = emit2(l, OP_LT, truth, span, at, end),
        *inside = emit2(l, OP_AND, truth, span, emit2(l, OP_GE, truth, span, at, zero), before);
  Instr *last = emit2(l, OP_SUB, index, span, end, constant_like(l, at, 1, span));
  at = emit2(l, OP_MAX, index, span, emit2(l, OP_MIN, index, span, at, last), zero);
  Instr *taken = take_axis(l, v, axis, at, span);
  Type along = {.dtype = DT_BOOL, .rank = v->type.rank};
  for (int i = 0; i < along.rank; i++) along.dim[i] = i == axis ? out : 1;
  Instr *args[] = {broadcast_to(l, reshape_to(l, inside, &along, span), &taken->type, span), taken,
                   broadcast_to(l, fill, &taken->type, span)};
  return emit(l, OP_SELECT, taken->type, span, 3, args);
}

// The widths of pad: a pair for each axis.
static bool lower_pairs(Lower *l, const Node *node, int rank, int64_t pairs[][2]) {
  int count;
  bool flat = rank == 1 && node->list.count == 2 && node->list.at[0]->kind != N_TUPLE &&
              node->list.at[0]->kind != N_ARRAY;
  bool list = node->kind == N_TUPLE || node->kind == N_ARRAY;
  if (list && flat) return lower_int_list(l, node, "a pad width", pairs[0], 2, &count);
  if (!list || node->list.count != rank) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH,
               "pad requires a pair (before, after) for each of %d %s", rank,
               rank == 1 ? "axis" : "axes");
    return false;
  }
  for (int i = 0; i < rank; i++) {
    if (!lower_int_list(l, node->list.at[i], "a pad width", pairs[i], 2, &count)) return false;
    if (count == 2) continue;
    diag_error(l->diag, node->list.at[i]->span, ERR_ARGUMENT_COUNT,
               "expected a pair (before, after)");
    return false;
  }
  return true;
}

// The function pad.
static Value lower_pad(Lower *l, const Call *call) {
  int64_t pairs[MAX_RANK][2];
  Span span = call->node->span;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_pairs(l, call->arg[1], v->type.rank, pairs)) return value_error();
  Type type = v->type;
  for (int i = 0; i < type.rank; i++) {
    if (pairs[i][0] < 0 || pairs[i][1] < 0 || pairs[i][0] > INT32_MAX || pairs[i][1] > INT32_MAX) {
      diag_error(l->diag, call->arg[1]->span, ERR_INDEX_RANGE,
                 "a pad width must be from 0 to 2^31-1");
      return value_error();
    }
    type.dim[i] = shifted_dim(l, type.dim[i], pairs[i][0] + pairs[i][1], span);
  }
  Value fill = call->arg[2]            ? lower_expr(l, call->arg[2])
               : type.dtype == DT_BOOL ? value_bool(false)
                                       : value_int(0);
  Instr *value =
      convert(l, fill, type.dtype, call->arg[2] ? call->arg[2]->span : span, "the value of pad");
  if (!value) return value_error();
  if (value->type.rank > 0) {
    diag_error(l->diag, span, ERR_NOT_A_SCALAR, "the value of pad must be a scalar, not %s",
               type_text(l, &value->type));
    return value_error();
  }
  Instr *padded = emit2(l, OP_PAD, type, span, v, value);
  for (int i = 0; i < type.rank; i++) {
    padded->ints[i] = pairs[i][0];
    padded->ints2[i] = pairs[i][1];
  }
  return value_data(padded);
}

// ---- moving along axes

enum { MOST_ROLLED = 46340 };  // products of two indices fit i32

// Each line along stride_axis is rolled by `stride` more than the one before: element i comes from
// i - shift - stride * line.
static Value strided_roll(Lower *l, const Call *call, Instr *v, Instr *shift, int axis) {
  int along;
  int64_t stride = 1;
  Span span = call->node->span;
  if (call->arg[3] && !lower_static_int(l, call->arg[3], "the stride", &stride))
    return value_error();
  if (!lower_axis(l, call->arg[4], v->type.rank, call->arg[3] ? call->arg[3]->span : span, &along))
    return value_error();
  if (along == axis) {
    diag_error(l->diag, span, ERR_AXIS_RANGE, "`stride_axis` must differ from the rolled axis, %d",
               axis);
    return value_error();
  }
  if (!constant_axis(l, v->type.dim[axis], span, "roll with a stride")) return value_error();
  if (v->type.dim[axis] > MOST_ROLLED) {
    diag_error(l->diag, span, ERR_BAD_ARGUMENT,
               "roll with a stride requires an axis of at most %d elements", MOST_ROLLED);
    return value_error();
  }
  Expand e = expand_like(l, v, span), scalar = {l, span, type_scalar(DT_I64)};
  int64_t n = v->type.dim[axis] ? v->type.dim[axis] : 1;
  Instr *first =
      expand_cast(&scalar, expand2(&scalar, OP_MOD, shift, expand_int(&scalar, DT_I64, n)), DT_I32);
  Instr *iota[2];
  for (int i = 0; i < 2; i++) {
    iota[i] = emit(l, OP_IOTA, with_dtype(v->type, DT_I32), span, 0, NULL);
    iota[i]->ival = i ? along : axis;
  }
  Instr *length = expand_int(&e, DT_I32, n);
  Instr *step = expand_int(&e, DT_I32, ((stride % n) + n) % n),
        *shifted = expand2(&e, OP_MUL, expand2(&e, OP_MOD, iota[1], length), step);
  Instr *from = broadcast_to(l, first, &v->type, span);
  shifted = expand2(&e, OP_ADD, expand2(&e, OP_MOD, shifted, length), from);
  Instr *index = expand2(&e, OP_MOD, expand2(&e, OP_SUB, iota[0], shifted), length);
  Instr *taken = emit2(l, OP_TAKE_ALONG, v->type, span, v, index);
  taken->ival = axis;
  return value_data(taken);
}

static Value lower_roll(Lower *l, const Call *call) {
  int axis;
  Instr *v = lower_array(l, call->arg[0]), *shift = lower_index(l, call->arg[1]);
  if (!v || !shift || !lower_axis(l, call->arg[2], v->type.rank, call->node->span, &axis))
    return value_error();
  if (call->arg[3] || call->arg[4]) return strided_roll(l, call, v, shift, axis);
  Instr *rolled = emit2(l, OP_ROLL, v->type, call->node->span, v, shift);
  rolled->ival = axis;
  return value_data(rolled);
}

static Value lower_rev(Lower *l, const Call *call) {
  int axis;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_axis(l, call->arg[1], v->type.rank, call->node->span, &axis))
    return value_error();
  Instr *reversed = emit1(l, OP_REV, v->type, call->node->span, v);
  reversed->ival = axis;
  return value_data(reversed);
}

// Axis `axis` of d becomes d * n: each element n times in place (inner), or the whole axis n times
// over.
static Instr *multiply_axis(Lower *l, Instr *v, int axis, int64_t n, bool inner, Span span) {
  Type split = v->type, wide, out = v->type;
  if (n == 1) return v;
  if (split.rank == MAX_RANK || n < 0 || n > INT32_MAX) {
    diag_error(l->diag, span, ERR_BAD_ARGUMENT,
               split.rank == MAX_RANK ? "too many axes to repeat along one"
                                      : "the number of copies must be from 0 to 2^31-1");
    return NULL;
  }
  if (!constant_axis(l, split.dim[axis], span, inner ? "repeat" : "tile")) return NULL;
  for (int i = split.rank; i > axis; i--) split.dim[i] = split.dim[i - 1];
  split.rank++;
  split.dim[axis + inner] = 1;
  wide = split;
  wide.dim[axis + inner] = n;
  if (!mul_i64(out.dim[axis], n, &out.dim[axis])) out.dim[axis] = INT64_MAX;
  return reshape_to(l, broadcast_to(l, reshape_to(l, v, &split, span), &wide, span), &out, span);
}

static Value lower_repeat(Lower *l, const Call *call) {
  int axis;
  int64_t n;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_static_int(l, call->arg[1], "the number of copies", &n)) return value_error();
  if (!lower_axis(l, call->arg[2], v->type.rank, call->node->span, &axis)) return value_error();
  return value_data(multiply_axis(l, v, axis, n, true, call->node->span));
}

static Value lower_tile(Lower *l, const Call *call) {
  int64_t copies[MAX_RANK];
  int count;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_int_list(l, call->arg[1], "the number of copies", copies, MAX_RANK, &count))
    return value_error();
  Type shape = {.rank = count > v->type.rank ? count : v->type.rank};
  for (int i = 0; i < shape.rank; i++)
    shape.dim[i] = i < shape.rank - v->type.rank ? 1 : v->type.dim[i - (shape.rank - v->type.rank)];
  v = reshape_to(l, v, &shape, call->node->span);
  for (int i = 0; v && i < count; i++)
    v = multiply_axis(l, v, i + shape.rank - count, copies[i], false, call->node->span);
  return value_data(v);
}

// The function take_along_axis.
static Value lower_take_along(Lower *l, const Call *call) {
  int axis;
  Instr *v = lower_array(l, call->arg[0]), *index = lower_array(l, call->arg[1]);
  if (!v || !index || !lower_axis(l, call->arg[2], v->type.rank, call->node->span, &axis))
    return value_error();
  if (!is_integer(index->type.dtype)) {
    diag_error(l->diag, call->arg[1]->span, ERR_NOT_AN_INTEGER, "indices must be integers, not %s",
               type_text(l, &index->type));
    return value_error();
  }
  Type shape = v->type;
  if (index->type.rank == shape.rank) shape.dim[axis] = index->type.dim[axis];
  if (index->type.rank != shape.rank || !can_broadcast(&index->type, &shape)) {
    diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH,
               "the indices %s do not fit %s along axis %d", type_text(l, &index->type),
               type_text(l, &v->type), axis);
    return value_error();
  }
  Instr *taken = emit2(l, OP_TAKE_ALONG, shape, call->node->span, v,
                       broadcast_to(l, index, &shape, call->node->span));
  taken->ival = axis;
  return value_data(taken);
}

const Builtin shape_builtins[] = {
    {"iota", lower_iota, 0, "shape axis? dtype?"},
    {"full", lower_full, 0, "shape v dtype?"},
    {"zeros", lower_constant_array, 0, "shape dtype?"},
    {"ones", lower_constant_array, 1, "shape dtype?"},
    {"reshape", lower_reshape, 0, "v shape"},
    {"broadcast", lower_broadcast, 0, "v shape"},
    {"squeeze", lower_squeeze, 0, "v axis?"},
    {"transpose", lower_transpose, 0, "v perm?"},
    {"concatenate", lower_concatenate, 0, "v+ axis?"},
    {"pad", lower_pad, 0, "v widths value?"},
    {"roll", lower_roll, 0, "v shift axis? stride? stride_axis?"},
    {"rev", lower_rev, 0, "v axis?"},
    {"repeat", lower_repeat, 0, "v n axis?"},
    {"tile", lower_tile, 0, "v reps"},
    {"take_along_axis", lower_take_along, 0, "v index axis?"},
    {0},
};
