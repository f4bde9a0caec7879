// Built-in functions that take values apart, put them together, and pick elements by index.
#include "codegen/lower/ops/ops.h"

static Value shape_error(Lower *l, const Call *call, const Type *a, const Type *b,
                         const char *why) {
  diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH, "%s of %s and %s: %s",
             call->builtin->name, type_text(l, a), type_text(l, b), why);
  return value_error();
}

static Value list_of(const Value *items, int count) {
  return (Value){.kind = V_LIST, .items = items, .count = count};
}

static Instr *slice_of(Lower *l, Instr *v, int axis, int64_t from, Dim size, Span span) {
  Type type = v->type;
  type.dim[axis] = size;
  if (from == 0 && size == v->type.dim[axis]) return v;
  Instr *slice = emit1(l, OP_SLICE, type, span, v);
  for (int k = 0; k < type.rank; k++) slice->ints[k] = k == axis ? from : 0, slice->ints2[k] = 1;
  return slice;
}

static Instr *integer_array(Lower *l, const Node *node) {
  Instr *index = lower_array(l, node);
  if (!index || is_integer(index->type.dtype)) return index;
  diag_error(l->diag, node->span, ERR_NOT_AN_INTEGER, "indices must be integers, not %s",
             type_text(l, &index->type));
  return NULL;
}

// ---- picking elements

// Elements of v along the axis for each index: the place of the axis is taken by the axes of the
// indices.
static Value lower_take(Lower *l, const Call *call) {
  int axis;
  Span span = call->node->span;
  Instr *v = lower_array(l, call->arg[0]), *index = integer_array(l, call->arg[1]);
  if (!v || !index || !lower_axis(l, call->arg[2], v->type.rank, span, &axis)) return value_error();
  Type out = v->type, flat = {.rank = 1};
  const Type *places = &index->type;
  out.rank = v->type.rank - 1 + places->rank;
  if (out.rank > MAX_RANK || !product_dim(l, places->dim, places->rank, span, &flat.dim[0]))
    return shape_error(l, call, &v->type, places, "the result may have at most 8 axes");
  for (int k = 0; k < places->rank; k++) out.dim[axis + k] = places->dim[k];
  for (int k = axis + 1; k < v->type.rank; k++) out.dim[k - 1 + places->rank] = v->type.dim[k];
  return value_data(
      reshape_to(l, take_axis(l, v, axis, reshape_to(l, index, &flat, span), span), &out, span));
}

// The function one_hot.
static Value lower_one_hot(Lower *l, const Call *call) {
  int64_t axis;
  Dim n;
  DType dtype = DT_F32;
  Span span = call->node->span;
  Instr *index = integer_array(l, call->arg[0]);
  if (!index || !lower_dim(l, call->arg[1], &n)) return value_error();
  int rank = index->type.rank;
  axis = rank;
  if (call->arg[2] && !lower_static_int(l, call->arg[2], "an axis number", &axis))
    return value_error();
  if (call->arg[3] && !lower_dtype(l, call->arg[3], &dtype)) return value_error();
  if (axis < 0) axis += rank + 1;
  if (axis < 0 || axis > rank || rank == MAX_RANK) {
    diag_error(l->diag, span, ERR_AXIS_RANGE,
               "one_hot adds an axis from 0 to %d; the result may have at most 8 axes", rank);
    return value_error();
  }
  Type apart = index->type, shape;
  for (int k = rank; k > axis; k--) apart.dim[k] = apart.dim[k - 1];
  apart.dim[axis] = 1;
  apart.rank = rank + 1;
  shape = apart;
  shape.dim[axis] = n;
  Expand e = {l, span, shape};
  DType t = dtype_info[index->type.dtype].bits < 32 ? DT_I32 : index->type.dtype;
  index = broadcast_to(l, reshape_to(l, expand_cast(&e, index, t), &apart, span), &shape, span);
  Instr *classes = emit(l, OP_IOTA, with_dtype(shape, t), span, 0, NULL);
  classes->ival = axis;
  return value_data(expand_cast(&e, expand2(&e, OP_EQ, index, classes), dtype));
}

// The function select_n.
static Value lower_select_n(Lower *l, const Call *call) {
  Value which = lower_expr(l, call->rest[0]), result = value_error();
  if (is_error(which)) return which;
  int count = call->rest_count - 1;
  bool truth = which.kind == V_BOOL || (which.kind == V_DATA && which.instr->type.dtype == DT_BOOL);
  if (count < 1 || (truth && count != 2)) {
    diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT,
               "select_n requires a bool and two cases, or an integer and its cases");
    return value_error();
  }
  for (int i = count; i >= 1; i--) {
    Value v = lower_expr(l, call->rest[i]), chosen = which;
    if (is_error(v)) return v;
    if (i == count) {
      result = v;
      continue;
    }
    if (!truth) chosen = lower_binary(l, call->rest[0], BIN_LT, which, value_int(i));
    result = truth ? lower_select(l, which, result, v, call->node->span)
                   : lower_select(l, chosen, v, result, call->node->span);
    if (is_error(result)) return result;
  }
  return result;
}

// ---- windows at run-time places

// A list of starts, one an axis, as i64 scalars, moved so that `size` elements lie inside.
static bool lower_starts(Lower *l, const Call *call, const Node *node, const Type *v,
                         const Type *size, Instr **starts) {
  bool list = node->kind == N_TUPLE || node->kind == N_ARRAY;
  int count = list ? node->list.count : 1;
  if (count != v->rank) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH,
               "%s requires a start for each axis of %s, not %d", call->builtin->name,
               type_text(l, v), count);
    return false;
  }
  Expand e = {l, node->span, type_scalar(DT_I64)};
  for (int k = 0; k < count; k++) {
    Instr *start = lower_index(l, list ? node->list.at[k] : node);
    if (!start) return false;
    starts[k] = NULL;
    if (v->dim[k] == size->dim[k]) continue;  // there is one place only
    if (!dim_is_const(size->dim[k]) || (dim_is_const(v->dim[k]) && size->dim[k] > v->dim[k])) {
      diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH,
                 "%s: %s elements do not fit axis %d of %s", call->builtin->name,
                 dim_text(l, size->dim[k]), k, type_text(l, v));
      return false;
    }
    Instr *length = expand_int(&e, DT_I64, size->dim[k]),
          *room = expand2(&e, OP_SUB, dim_value(l, v->dim[k], node->span), length);
    Instr *zero = expand_int(&e, DT_I64, 0);
    starts[k] = expand2(&e, OP_MAX, expand2(&e, OP_MIN, start, room), zero);
  }
  return true;
}

static Value lower_dynamic_slice(Lower *l, const Call *call) {
  Type size;
  Instr *starts[MAX_RANK], *v = lower_array(l, call->arg[0]);
  Span span = call->node->span;
  if (!v || !lower_shape(l, call->arg[2], &size)) return value_error();
  if (size.rank != v->type.rank)
    return shape_error(l, call, &v->type, &size, "expected a size for each axis");
  if (!lower_starts(l, call, call->arg[1], &v->type, &size, starts)) return value_error();
  for (int k = 0; k < size.rank; k++) {
    if (!starts[k]) continue;
    Expand e = {l, span, {.rank = 1, .dim = {size.dim[k]}}};
    Instr *places = emit(l, OP_IOTA, with_dtype(e.shape, DT_I64), span, 0, NULL);
    v = take_axis(l, v, k, expand2(&e, OP_ADD, broadcast_to(l, starts[k], &e.shape, span), places),
                  span);
  }
  return value_data(v);
}

// v with one window replaced by u: u is padded to v's shape and rolled to its place.
static Value lower_dynamic_update(Lower *l, const Call *call) {
  Value both[2] = {lower_expr(l, call->arg[0]), lower_expr(l, call->arg[1])};
  Span span = call->node->span;
  Instr *starts[MAX_RANK];
  if (is_error(both[0]) || is_error(both[1])) return value_error();
  Instr *v = data_of(l, both[0], call->arg[0]->span),
        *u = v ? convert(l, both[1], v->type.dtype, span, call->builtin->name) : NULL;
  if (!v || !u) return value_error();
  if (u->type.rank != v->type.rank)
    return shape_error(l, call, &v->type, &u->type, "both must have the same rank");
  Type window = u->type;
  if (!lower_starts(l, call, call->arg[2], &v->type, &window, starts)) return value_error();
  Expand e = expand_like(l, v, span);
  Instr *inside = NULL;
  for (int k = 0; k < window.rank; k++) {
    if (!starts[k]) continue;
    if (!dim_is_const(v->type.dim[k]))
      return shape_error(l, call, &v->type, &window,
                         "part of an axis of run-time size cannot be changed");
    Type wide = u->type;
    wide.dim[k] = v->type.dim[k];
    Instr *padded =
        emit2(l, OP_PAD, wide, span, u, expand_number(&(Expand){l, span, {0}}, wide.dtype, 0));
    padded->ints2[k] = wide.dim[k] - u->type.dim[k];
    u = emit2(l, OP_ROLL, wide, span, padded, starts[k]);
    u->ival = k;
    Instr *index = emit(l, OP_IOTA, with_dtype(v->type, DT_I32), span, 0, NULL),
          *from = expand_cast(&e, starts[k], DT_I32);
    index->ival = k;
    Instr *place = expand2(&e, OP_SUB, index, broadcast_to(l, from, &v->type, span));
    Instr *before = expand2(&e, OP_LT, place, expand_int(&e, DT_I32, window.dim[k])),
          *here = expand2(&e, OP_AND, expand2(&e, OP_GE, place, expand_int(&e, DT_I32, 0)), before);
    inside = inside ? expand2(&e, OP_AND, inside, here) : here;
  }
  return value_data(inside ? expand_select(&e, inside, u, v) : u);
}

// ---- joining and taking apart

// An axis that the result has and v does not.
static bool new_axis(Lower *l, const Node *node, int rank, Span span, int64_t *axis) {
  *axis = 0;
  if (node && !lower_static_int(l, node, "an axis number", axis)) return false;
  if (*axis < 0) *axis += rank + 1;
  if (*axis >= 0 && *axis <= rank && rank < MAX_RANK) return true;
  diag_error(l->diag, node ? node->span : span, ERR_AXIS_RANGE,
             "a new axis of a value of %d axes is 0 to %d, of 8 in all", rank, rank);
  return false;
}

// The function stack.
static Value lower_stack(Lower *l, const Call *call) {
  Span span = call->node->span;
  int64_t axis;
  const Value *parts;
  int count = collect_parts(l, call, &parts);
  DType dtype;
  if (count < 1 || !common_dtype(l, parts, count, span, "stack", &dtype)) return value_error();
  Instr **v = NEW_ARRAY(l->arena, Instr *, count);
  for (int i = 0; i < count; i++)
    if (!(v[i] = convert(l, parts[i], dtype, span, "stack"))) return value_error();
  if (!new_axis(l, call->arg[1], v[0]->type.rank, span, &axis)) return value_error();
  Type one = v[0]->type, all;
  for (int k = one.rank++; k > axis; k--) one.dim[k] = one.dim[k - 1];
  one.dim[axis] = 1;
  all = one;
  all.dim[axis] = count;
  for (int i = 0; i < count; i++) {
    if (!type_same_shape(&v[i]->type, &v[0]->type))
      return shape_error(l, call, &v[0]->type, &v[i]->type, "their shapes must agree");
    v[i] = i ? reshape_to(l, v[i], &one, span) : v[i];
  }
  v[0] = reshape_to(l, v[0], &one, span);
  if (count == 1) return value_data(v[0]);
  Instr *joined = emit(l, OP_CONCAT, all, span, count, v);
  joined->ival = axis;
  return value_data(joined);
}

static bool constant_length(Lower *l, const Call *call, const Instr *v, int axis) {
  if (dim_is_const(v->type.dim[axis])) return true;
  diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH, "%s along an axis of run-time size %s",
             call->builtin->name, dim_text(l, v->type.dim[axis]));
  return false;
}

// Where each part begins, and the end: n equal parts, or at the places given.
static bool lower_cuts_of(Lower *l, const Call *call, int64_t length, int64_t *cuts, int *count) {
  const Node *node = call->arg[1];
  int64_t places[MAX_LIST];
  bool list = node->kind == N_TUPLE || node->kind == N_ARRAY;
  *count = 0;
  if (list && !lower_int_list(l, node, "a place to cut", places, MAX_LIST - 1, count)) return false;
  if (!list) {
    int64_t parts;
    if (!lower_static_int(l, node, "a number of parts", &parts)) return false;
    if (parts < 1 || parts >= MAX_LIST || length % parts != 0) {
      diag_error(l->diag, node->span, ERR_BAD_ARGUMENT,
                 "%lld elements cannot be divided into %lld equal parts", (long long)length,
                 (long long)parts);
      return false;
    }
    for (*count = 0; *count < parts - 1; ++*count) places[*count] = (*count + 1) * (length / parts);
  }
  cuts[0] = 0;
  for (int i = 0; i <= *count; i++) {
    cuts[i + 1] = i < *count ? places[i] : length;
    if (cuts[i + 1] >= cuts[i]) continue;
    diag_error(l->diag, node->span, ERR_INDEX_RANGE,
               "positions of parts must increase from 0 to %lld", (long long)length);
    return false;
  }
  ++*count;
  return true;
}

static Value lower_split(Lower *l, const Call *call) {
  int axis, count;
  int64_t *cuts = NEW_ARRAY(l->arena, int64_t, MAX_LIST + 1);
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_axis(l, call->arg[2], v->type.rank, call->node->span, &axis) ||
      !constant_length(l, call, v, axis))
    return value_error();
  if (!lower_cuts_of(l, call, v->type.dim[axis], cuts, &count)) return value_error();
  Value *parts = NEW_ARRAY(l->arena, Value, count);
  for (int i = 0; i < count; i++)
    parts[i] = value_data(slice_of(l, v, axis, cuts[i], cuts[i + 1] - cuts[i], call->node->span));
  return list_of(parts, count);
}

// The function unstack.
static Value lower_unstack(Lower *l, const Call *call) {
  int axis;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_axis(l, call->arg[1], v->type.rank, call->node->span, &axis) ||
      !constant_length(l, call, v, axis))
    return value_error();
  int64_t count = v->type.dim[axis];
  if (count > MAX_LIST) {
    diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT, "unstack has at most %d values",
               MAX_LIST);
    return value_error();
  }
  Type shape = {.rank = 0};
  for (int k = 0; k < v->type.rank; k++)
    if (k != axis) shape.dim[shape.rank++] = v->type.dim[k];
  Value *parts = NEW_ARRAY(l->arena, Value, count + 1);
  for (int64_t i = 0; i < count; i++)
    parts[i] = value_data(
        reshape_to(l, slice_of(l, v, axis, i, 1, call->node->span), &shape, call->node->span));
  return list_of(parts, (int)count);
}

// ---- by order

static Instr *order_of(Lower *l, Instr *key, int axis, bool descending, Span span) {
  Instr *order = emit1(l, OP_ARGSORT, with_dtype(key->type, DT_I32), span, key);
  order->ival = axis;
  order->flags = descending ? INSTR_REVERSE : 0u;
  return order;
}

static Instr *in_order(Lower *l, Instr *v, Instr *order, int axis, Span span) {
  Instr *taken = emit2(l, OP_TAKE_ALONG, with_dtype(order->type, v->type.dtype), span, v, order);
  taken->ival = axis;
  return taken;
}

// k elements from the start of an axis of run-time size; a call with fewer is refused.
static Instr *first_of(Lower *l, Instr *v, int axis, int64_t k, Span span) {
  Dim dim = v->type.dim[axis];
  const char *size = dim_text(l, dim);
  require_at_call(l, OP_GE, &(Type){.rank = 1, .dim = {dim}}, &(Type){.rank = 1, .dim = {k}}, span,
                  arena_printf(l->arena, "%s >= %lld, for top_k", size, (long long)k));
  Type places = {.dtype = DT_I32, .rank = 1, .dim = {k}};
  return take_axis(l, v, axis, emit(l, OP_IOTA, places, span, 0, NULL), span);
}

// The function top_k.
static Value lower_top_k(Lower *l, const Call *call) {
  int axis;
  int64_t k;
  Span span = call->node->span;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_static_int(l, call->arg[1], "the number of elements", &k)) return value_error();
  axis = v->type.rank - 1;
  if (call->arg[2] && !lower_axis(l, call->arg[2], v->type.rank, span, &axis)) return value_error();
  if (axis < 0 || k < 0 || k > INT32_MAX ||
      (dim_is_const(v->type.dim[axis]) && k > v->type.dim[axis])) {
    diag_error(l->diag, call->arg[1]->span, ERR_INDEX_RANGE,
               "%s has no %lld elements along its axis", type_text(l, &v->type), (long long)k);
    return value_error();
  }
  Instr *order = order_of(l, v, axis, true, span), *first;
  if (dim_is_const(v->type.dim[axis]))
    first = slice_of(l, order, axis, 0, k, span);
  else
    first = first_of(l, order, axis, k, span);
  Value *both = NEW_ARRAY(l->arena, Value, 2);
  both[0] = value_data(in_order(l, v, first, axis, span));
  both[1] = value_data(first);
  return list_of(both, 2);
}

// The first operand sorted, and the others in its order.
static Value lower_sort_by(Lower *l, const Call *call) {
  int axis, count = call->rest_count;
  bool descending;
  Span span = call->node->span;
  Instr *key = lower_array(l, call->rest[0]);
  if (!key || !lower_axis(l, call->arg[1], key->type.rank, span, &axis) ||
      !lower_flag(l, call->arg[2], false, &descending))
    return value_error();
  Instr *order = order_of(l, key, axis, descending, span);
  Value *sorted = NEW_ARRAY(l->arena, Value, count);
  for (int i = 0; i < count; i++) {
    Instr *v = i ? lower_array(l, call->rest[i]) : key;
    if (!v) return value_error();
    if (!can_broadcast(&v->type, &key->type))
      return shape_error(l, call, &key->type, &v->type, "their shapes must agree");
    sorted[i] = value_data(in_order(l, broadcast_to(l, v, &key->type, span), order, axis, span));
  }
  return list_of(sorted, count);
}

const Builtin gather_builtins[] = {
    {"take", lower_take, 0, "v index axis?"},
    {"one_hot", lower_one_hot, 0, "index n axis? dtype?"},
    {"select_n", lower_select_n, 0, "v+"},
    {"dynamic_slice", lower_dynamic_slice, 0, "v starts sizes"},
    {"dynamic_update_slice", lower_dynamic_update, 0, "v u starts"},
    {"stack", lower_stack, 0, "v+ axis?"},
    {"split", lower_split, 0, "v parts axis?"},
    {"unstack", lower_unstack, 0, "v axis?"},
    {"top_k", lower_top_k, 0, "v k axis?"},
    {"sort_by", lower_sort_by, 0, "v+ axis? descending?"},
    {0},
};
