// Indexing: which part of each axis the elements of `[..]` take, and the indexing of values.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

static const char *extent_text(Lower *l, Dim dim) {
  const char *text = dim_text(l, dim);
  bool named = dim_is_const(dim) && (text[0] < '0' || text[0] > '9');
  return named ? arena_printf(l->arena, "%s = %lld", text, (long long)dim) : text;
}

static void out_of_range(Lower *l, Span span, int64_t position, Dim dim) {
  diag_error(l->diag, span, ERR_INDEX_RANGE, "index %lld is outside an axis of %s",
             (long long)position, extent_text(l, dim));
}

// A constant start that may be outside counts as one that is known only at run time.
static void start_anywhere(Lower *l, int64_t start, Span span, Cut *cut) {
  cut->first = -1;
  cut->start = index_const(l, start, span);
}

// A constant position on an axis, counted from the end if negative. `past`: the end itself is
// allowed (of a slice). `anywhere`: so are positions outside.
static bool place_on_axis(Lower *l, int64_t position, Dim dim, bool past, bool anywhere, Span span,
                          Cut *cut) {
  cut->first = position;
  if (dim_is_const(dim)) {
    int64_t at = position < 0 ? position + dim : position;
    bool outside = at < 0 || at > dim || (at == dim && !past);
    if (outside && !anywhere) {
      out_of_range(l, span, position, dim);
      return false;
    }
    if (outside)
      start_anywhere(l, at, span, cut);
    else
      cut->first = at;
    return true;
  }
  if (position >= 0) return true;
  cut->first = -1;
  Instr *at = index_const(l, position, span);
  cut->start = index_op(l, OP_ADD, dim_value(l, dim, span), at, span);
  return true;
}

// ---- a:b:c

typedef struct {
  bool given, at_end;
  int64_t value;
  Linear *form;  // of a bound that is not constant
  Span span;
} Bound;

// For editors: `start:end:step` as `ds(start, size, step)`, where the size can be read from the
// text: of `start:start + size`, and of `0:end` where the end is a size.
static void propose_ds(Lower *l, const Node *slice, bool is_size) {
  const Node *from = slice->a, *to = slice->b, *step = slice->c;
  const char *start = from ? expression_text(from) : "0", *size = NULL;
  if (!to) return;
  if (is_size && strcmp(start, "0") == 0)
    size = expression_text(to);
  else if (to->kind == N_BINARY && to->op == BIN_ADD && strcmp(expression_text(to->a), start) == 0)
    size = expression_text(to->b);
  if (!size) return;
  const char *text = arena_printf(l->arena, "ds(%s, %s)", start, size);
  if (step)
    text = arena_printf(l->arena, "ds(%s, cdiv(%s, %s), %s)", start, size, expression_text(step),
                        expression_text(step));
  diag_propose(l->diag, slice->span, text);
}

// One bound of a slice: a constant, or a sum of sizes.
static bool lower_bound(Lower *l, const Node *slice, const Node *node, Dim dim, Bound *bound) {
  *bound = (Bound){0};
  if (!node) return true;
  const Value v = lower_aside(l, node);
  if (is_error(v)) return false;
  bound->span = node->span;
  bound->given = true;
  bound->value = v.ival;
  if (v.kind == V_INT) return true;
  bound->form = is_index(v) ? linear_form(l, v.instr) : NULL;
  bound->at_end = bound->form && v.instr->op == OP_SIZE && dim == dim_of_size((int)v.instr->ival);
  if (bound->form) return true;
  propose_ds(l, slice, false);
  diag_error(
      l->diag, node->span, ERR_NOT_CONSTANT,
      "the bounds of a slice are constants or sums of sizes; ds(start, size) starts anywhere");
  return false;
}

static Linear *bound_form(Lower *l, const Bound *bound) {
  Frame frame;
  if (bound->form) return bound->form;
  enter_region(l, &frame);
  Linear *form = linear_form(l, index_const(l, bound->value, bound->span));
  leave_region(l);
  return form;
}

// A slice whose length is a size: of an axis of run-time size, or between bounds that are sizes.
static bool sized_slice(Lower *l, const Node *slice, Dim dim, const Bound *from, const Bound *to,
                        Cut *cut) {
  bool inside, from_end = from->value < 0 || to->value < 0;
  Linear *end = to->given ? bound_form(l, to) : NULL;
  bool plain = cut->stride == 1 && !from_end,
       known = !from_end && linear_slice(l, bound_form(l, from), end, dim, cut->stride, &cut->size,
                                         &inside, slice->span);
  if (plain && !(known && inside) && l->place == IN_REFERENCE)
    known = inside = slice_at_call(l, bound_form(l, from), end, dim, &cut->size, slice->span);
  if (!known) {
    propose_ds(l, slice, true);
    diag_error(l->diag, slice->span, ERR_BAD_INDEX,
               "the length of this slice of an axis of size %s is neither a constant nor a size; "
               "ds(start, size) has one, and `require` can say how sizes are related",
               dim_text(l, dim));
    return false;
  }
  if (!inside) {
    propose_ds(l, slice, true);
    diag_error(
        l->diag, slice->span, ERR_INDEX_RANGE,
        "it is unknown whether this slice is within the axis of size %s; ds(start, size) is a "
        "window anywhere, and `require` can say how sizes are related",
        dim_text(l, dim));
    return false;
  }
  if (!from->form) return place_on_axis(l, from->value, dim, true, false, slice->span, cut);
  cut->first = -1;
  return (cut->start = lower_index(l, slice->a)) != NULL;
}

static bool runtime_slice(Lower *l, const Node *slice, Dim dim, const Bound *from, const Bound *to,
                          Cut *cut) {
  bool open = !to->given || to->at_end;
  if (open && from->value == 0 && !from->form && cut->stride == 1) {
    *cut = whole_cut(dim);
    return true;
  }
  int64_t count = open ? -from->value : to->value - from->value;
  bool constant = open ? from->value < 0 : (from->value < 0) == (to->value < 0) && count >= 0;
  if (!constant || from->form || (to->form && !to->at_end))
    return sized_slice(l, slice, dim, from, to, cut);
  cut->size = (count + cut->stride - 1) / cut->stride;
  return place_on_axis(l, from->value, dim, true, false, slice->span, cut);
}

// In code that may never run: a part between constants that may exceed the axis, but is no longer
// than it.
static bool slice_anywhere(Lower *l, const Node *slice, Dim dim, const Bound *from, const Bound *to,
                           Cut *cut) {
  int64_t first = from->value + (from->value < 0 ? dim : 0),
          end = to->given ? to->value + (to->value < 0 ? dim : 0) : dim;
  bool inside = first >= 0 && first <= dim && end >= 0 && end <= dim;
  if (!l->unsure || inside || first >= end || end - first > dim) return false;
  cut->size = (end - first + cut->stride - 1) / cut->stride;
  start_anywhere(l, first, slice->span, cut);
  return true;
}

// A slice from:to:step of an axis.
static bool lower_slice(Lower *l, const Node *slice, Dim dim, Cut *cut) {
  Bound from = {0}, to = {0}, step = {0};
  bool good = lower_bound(l, slice, slice->a, dim, &from) &&
              lower_bound(l, slice, slice->b, dim, &to) &&
              lower_bound(l, slice, slice->c, dim, &step);
  if (!good) return false;
  cut->stride = step.given ? step.value : 1;
  if (cut->stride < 1 || cut->stride > INT32_MAX || step.form) {
    diag_error(l->diag, step.span, ERR_BAD_INDEX,
               "the step of a slice is a constant of at least 1; rev(v, axis) reverses");
    return false;
  }
  int64_t limit = INT32_MAX;
  if (from.value < -limit || from.value > limit || to.value < -limit || to.value > limit) {
    out_of_range(l, slice->span, from.value < -limit || from.value > limit ? from.value : to.value,
                 dim);
    return false;
  }
  if (!dim_is_const(dim)) return runtime_slice(l, slice, dim, &from, &to, cut);
  if (from.form || to.form) return sized_slice(l, slice, dim, &from, &to, cut);
  if (slice_anywhere(l, slice, dim, &from, &to, cut)) return true;
  Cut end = {.first = dim};
  if (to.given && !place_on_axis(l, to.value, dim, true, false, to.span, &end)) return false;
  if (from.given && !place_on_axis(l, from.value, dim, true, false, from.span, cut)) return false;
  int64_t count = end.first - cut->first;
  cut->size = count > 0 ? (count + cut->stride - 1) / cut->stride : 0;
  cut->whole = cut->size == dim && cut->stride == 1;
  return true;
}

// ---- ds(start, size[, stride])

static bool check_ds_range(Lower *l, const Node *call, Dim dim, Cut *cut) {
  if (!dim_is_const(dim) || !dim_is_const(cut->size) || cut->size == 0) return true;
  int64_t reach = (cut->size - 1) * cut->stride, last = reach + (cut->first >= 0 ? cut->first : 0);
  if (last < dim) return true;
  if (cut->length || (l->unsure && reach < dim)) {  // none may be taken
    start_anywhere(l, cut->first, call->list.at[0]->span, cut);
    return true;
  }
  diag_error(l->diag, call->span, ERR_INDEX_RANGE, "this reaches to index %lld of an axis of %s",
             (long long)last, dim_text(l, dim));
  return false;
}

// The length of `ds`: a constant or a size, for a copy any scalar.
static bool lower_count(Lower *l, const Node *node, bool lengths, Cut *cut) {
  Frame frame;
  if (!lengths) return lower_dim(l, node, &cut->size);
  enter_region(l, &frame);
  Value v = lower_expr(l, node);
  leave_region(l);
  if (is_error(v)) return false;
  bool scalar = v.kind == V_DATA && v.instr->type.rank == 0 && is_integer(v.instr->type.dtype);
  if (!scalar || v.instr->op == OP_SIZE || part_size(l, v.instr) >= 0 ||
      size_index(l, expression_text(node)) >= 0)
    return lower_dim(l, node, &cut->size);
  cut->size = 1;
  return (cut->length = lower_index(l, node)) != NULL;
}

// The index element ds(start, size, stride).
static bool lower_ds(Lower *l, const Node *call, Dim dim, bool masked, bool lengths, Cut *cut) {
  int count = call->list.count;
  if (count < 2 || count > 3 || call->list2.count > 0) {
    diag_error(l->diag, call->span, ERR_ARGUMENT_COUNT,
               "ds takes (start, size) or (start, size, stride)");
    return false;
  }
  Value start = lower_expr(l, call->list.at[0]);
  bool good = lower_count(l, call->list.at[1], lengths, cut);
  if (count == 3)
    good = lower_static_int(l, call->list.at[2], "the stride of ds", &cut->stride) && good;
  if (!good || is_error(start)) return false;
  if (cut->stride < 1 || cut->stride > INT32_MAX) {
    diag_error(l->diag, call->list.at[2]->span, ERR_BAD_INDEX, "the stride of ds is at least 1");
    return false;
  }
  Span span = call->list.at[0]->span;
  bool constant = start.kind == V_INT, before = constant && start.ival < 0;
  if (constant && !masked && !l->unsure && (before || start.ival > INT32_MAX)) {
    out_of_range(l, span, start.ival, dim);
    return false;
  }
  cut->first = constant && !before ? start.ival : -1;
  if (before) start_anywhere(l, start.ival, span, cut);
  if (!constant && !(cut->start = convert_index(l, start, span))) return false;
  cut->whole = constant && start.ival == 0 && cut->size == dim && cut->stride == 1 && !cut->length;
  return masked || check_ds_range(l, call, dim, cut);
}

// ---- elements

static bool lower_element(Lower *l, const Node *node, Dim dim, bool masked, Cut *cut) {
  Value v = lower_expr(l, node);
  if (is_error(v)) return false;
  cut->squeeze = true;
  cut->size = 1;
  if (v.kind == V_INT) {
    bool near = v.ival >= -INT32_MAX && v.ival <= INT32_MAX;
    bool anywhere = masked || l->unsure > 0;
    if (near) return place_on_axis(l, v.ival, dim, false, anywhere, node->span, cut);
    out_of_range(l, node->span, v.ival, dim);
    return false;
  }
  cut->first = -1;
  if (v.kind == V_DATA && v.instr->type.rank > 0 && is_integer(v.instr->type.dtype)) {
    cut->squeeze = false;
    cut->vector = v.instr;
    return true;
  }
  return (cut->start = convert_index(l, v, node->span)) != NULL;
}

static bool lower_cut(Lower *l, const Node *element, Dim dim, bool masked, Cut *cut) {
  *cut = (Cut){.stride = 1};
  if (element->kind == N_SLICE) return lower_slice(l, element, dim, cut);
  bool is_ds = element->kind == N_CALL && strcmp(element->name, "ds") == 0 &&
               !find_function(l, element->name);
  bool lengths = l->lengths, good;
  l->lengths = false;  // of this window alone, not of the values that its index is computed from
  good = is_ds ? lower_ds(l, element, dim, masked, lengths, cut)
               : lower_element(l, element, dim, masked, cut);
  l->lengths = lengths;
  return good;
}

bool spread_index(Lower *l, const Node *index, const Type *type, const char *what,
                  const Node **elements) {
  int taken = 0, ellipses = 0, axis = 0;
  for (int i = 0; i < index->list.count; i++) {
    NodeKind kind = index->list.at[i]->kind;
    if (kind == N_ELLIPSIS) ellipses++;
    if (kind != N_ELLIPSIS && kind != N_NONE) taken++;
  }
  if (ellipses > 1) {
    diag_error(l->diag, index->span, ERR_BAD_INDEX, "`...` is allowed only once in an index");
    return false;
  }
  if (taken > type->rank) {
    diag_error(l->diag, index->span, ERR_RANK_MISMATCH, "%d indices for %s, which has %d %s", taken,
               what, type->rank, type->rank == 1 ? "axis" : "axes");
    return false;
  }
  for (int k = 0; k < type->rank; k++) elements[k] = NULL;
  for (int i = 0; i < index->list.count; i++) {
    const Node *element = index->list.at[i];
    if (element->kind == N_ELLIPSIS) axis += type->rank - taken;
    if (element->kind != N_ELLIPSIS && element->kind != N_NONE) elements[axis++] = element;
  }
  return true;
}

bool lower_cuts(Lower *l, const Node *index, const Type *type, const char *what, bool masked,
                Cut *cuts) {
  const Node *elements[MAX_RANK];
  bool good = spread_index(l, index, type, what, elements);
  for (int k = 0; good && k < type->rank; k++) {
    int errors = diag_error_count(l->diag);
    cuts[k] = whole_cut(type->dim[k]);
    if (!elements[k] || lower_cut(l, elements[k], type->dim[k], masked, &cuts[k])) continue;
    if (diag_error_count(l->diag) > errors)
      diag_note(l->diag, (Span){0, 0}, "this is axis %d of %s", k, what);
    good = false;
  }
  return good;
}

// ---- indexed values

// The position of the axes of index vectors. One vector: its own position. Several: `shape` is
// their common shape; it replaces the first of them, or comes first of all if anything separates
// them.
typedef struct {
  int count;
  Type shape;
  bool in_front;
} Vectors;

static void add_dims(Dim *dims, int *count, const Type *shape) {
  for (int k = 0; k < shape->rank && *count < MAX_LIST; k++) dims[(*count)++] = shape->dim[k];
}

// The shape of an indexed value: squeezed axes are removed, `None` adds one.
static bool indexed_shape(Lower *l, const Node *index, const Cut *cuts, int rank,
                          const Vectors *vectors, Type *shape) {
  Dim dims[MAX_LIST];
  int count = 0, taken = 0, axis = 0, seen = vectors->in_front;
  if (vectors->in_front) add_dims(dims, &count, &vectors->shape);
  for (int i = 0; i < index->list.count; i++)
    taken += index->list.at[i]->kind != N_ELLIPSIS && index->list.at[i]->kind != N_NONE;
  for (int i = 0; i <= index->list.count; i++) {
    NodeKind kind = i < index->list.count ? index->list.at[i]->kind : N_ELLIPSIS;
    int axes = i == index->list.count ? rank - axis
               : kind == N_ELLIPSIS   ? rank - taken
                                      : kind != N_NONE;
    if (kind == N_NONE && count < MAX_LIST) dims[count++] = 1;
    for (; axes > 0; axes--, axis++) {
      const Cut *cut = &cuts[axis];
      if (cut->vector && !seen++) add_dims(dims, &count, &vectors->shape);
      if (!cut->vector && !cut->squeeze && count < MAX_LIST) dims[count++] = cut->size;
    }
  }
  if (count > MAX_RANK) {
    diag_error(l->diag, index->span, ERR_RANK_MISMATCH, "%d axes are more than the limit of %d",
               count, MAX_RANK);
    return false;
  }
  shape->rank = count;
  for (int i = 0; i < count; i++) shape->dim[i] = dims[i];
  return true;
}

// As one axis.
static Instr *flat_vector(Lower *l, Instr *vector, Span span) {
  Type flat = {.rank = 1};
  if (vector->type.rank == 1) return vector;
  if (product_dim(l, vector->type.dim, vector->type.rank, span, &flat.dim[0]))
    return reshape_to(l, vector, &flat, span);
  diag_error(l->diag, span, ERR_BAD_INDEX, "the vector %s has too many elements",
             type_text(l, &vector->type));
  return NULL;
}

// Is there a slice, `None` or an axis that is not named between two vectors?
static bool vectors_apart(const Node *index, const Cut *cuts, int rank) {
  int taken = 0, axis = 0, after = 0;
  bool between = false;
  for (int i = 0; i < index->list.count; i++)
    taken += index->list.at[i]->kind != N_ELLIPSIS && index->list.at[i]->kind != N_NONE;
  for (int i = 0; i < index->list.count; i++) {
    NodeKind kind = index->list.at[i]->kind;
    if (kind == N_ELLIPSIS) axis += rank - taken;
    const Cut *cut = kind == N_ELLIPSIS || kind == N_NONE ? NULL : &cuts[axis++];
    if (cut && cut->vector && after && between) return true;
    if (cut && cut->vector)
      after = 1, between = false;
    else if (!cut || !cut->squeeze)
      between = true;
  }
  return false;
}

static bool collect_vectors(Lower *l, const Node *index, const Cut *cuts, int rank, Instr **vector,
                            Vectors *vectors, Span span) {
  *vectors = (Vectors){0};
  for (int k = 0; k < rank; k++)
    if (cuts[k].vector) vector[vectors->count++] = cuts[k].vector;
  if (vectors->count == 0) return true;
  if (!common_shape(l, vector, vectors->count, span, "indices", &vectors->shape)) return false;
  vectors->in_front = vectors->count > 1 && vectors_apart(index, cuts, rank);
  for (int i = 0; i < vectors->count; i++) {
    vector[i] = broadcast_to(l, vector[i], &vectors->shape, span);
    if (!(vector[i] = flat_vector(l, vector[i], span))) return false;
  }
  return true;
}

// Selects the elements that the vectors name together along the axes in `mask`, one for each
// position in them. Their axis replaces the first of these axes.
static Instr *gather_axes(Lower *l, Instr *v, int64_t mask, Instr **vector, int count, Span span) {
  Instr *args[1 + MAX_RANK] = {v};
  Type shape = {.dtype = v->type.dtype};
  int seen = 0;
  for (int i = 0; i < count; i++) args[1 + i] = vector[i];
  for (int k = 0; k < v->type.rank; k++) {
    const bool named = mask >> k & 1;
    if (!named || !seen) shape.dim[shape.rank++] = named ? vector[0]->type.dim[0] : v->type.dim[k];
    seen += named;
  }
  Instr *gather = emit(l, OP_GATHER, shape, span, 1 + count, args);
  gather->ival = mask;
  return gather;
}

static Instr *axis_to_front(Lower *l, Instr *v, int axis, Span span) {
  int perm[MAX_RANK] = {axis};
  for (int k = 0, to = 1; k < v->type.rank; k++)
    if (k != axis) perm[to++] = k;
  return axis == 0 ? v : transpose_to(l, v, perm, span);
}

Value finish_index(Lower *l, const Node *index, const Cut *cuts, int rank, Instr *v, int *axis_of,
                   Span span) {
  Type shape = {0};
  Vectors vectors;
  Instr *vector[MAX_RANK];
  int along = -1;
  int64_t mask = 0;
  if (!v || !collect_vectors(l, index, cuts, rank, vector, &vectors, span)) return value_error();
  for (int k = 0; k < rank; k++) {
    if (!cuts[k].vector) continue;
    if (along < 0) along = axis_of[k];
    mask |= INT64_C(1) << axis_of[k];
  }
  if (vectors.count == 1) v = take_axis(l, v, along, vector[0], span);
  if (vectors.count > 1) v = gather_axes(l, v, mask, vector, vectors.count, span);
  if (vectors.in_front) v = axis_to_front(l, v, along, span);
  if (!indexed_shape(l, index, cuts, rank, &vectors, &shape)) return value_error();
  return value_data(reshape_to(l, v, &shape, span));
}

// The positions of a window of run-time size with a stride, clamped: start + stride * iota.
static Instr *strided_places(Lower *l, const Cut *cut, Dim dim, Span span) {
  Expand one = {l, span, type_scalar(DT_I64)}, e = {l, span, {.rank = 1, .dim = {cut->size}}};
  Instr *unit = expand_int(&one, DT_I64, 1),
        *steps = expand2(&one, OP_SUB, dim_value(l, cut->size, span), unit),
        *reach = expand2(&one, OP_MUL, steps, expand_int(&one, DT_I64, cut->stride)),
        *last = expand2(&one, OP_SUB, dim_value(l, dim, span), reach);
  last = expand2(&one, OP_SUB, last, expand_int(&one, DT_I64, 1));
  Instr *start = expand2(&one, OP_MIN, cut_start(l, cut, span), last);
  start = expand2(&one, OP_MAX, start, expand_int(&one, DT_I64, 0));
  Instr *places = emit(l, OP_IOTA, with_dtype(e.shape, DT_I64), span, 0, NULL);
  places = expand2(&e, OP_MUL, places, expand_int(&e, DT_I64, cut->stride));
  return expand2(&e, OP_ADD, broadcast_to(l, start, &e.shape, span), places);
}

// A window of a value whose start is not constant: contiguous elements, some of which a stride
// selects.
static Instr *window_axis(Lower *l, Instr *v, int axis, const Cut *cut, Span span) {
  Type type = v->type, taken = v->type;
  bool strided = cut->stride != 1 && cut->size != 1;
  if (strided && !dim_is_const(cut->size))
    return take_axis(l, v, axis, strided_places(l, cut, v->type.dim[axis], span), span);
  taken.dim[axis] = cut->size;
  type.dim[axis] = strided && cut->size ? (cut->size - 1) * cut->stride + 1 : cut->size;
  Instr *window = emit2(l, OP_WINDOW, type, span, v, cut_start(l, cut, span));
  window->ival = axis;
  if (!strided || cut->size == 0) return window;
  Instr *slice = emit1(l, OP_SLICE, taken, span, window);
  for (int k = 0; k < type.rank; k++) slice->ints2[k] = k == axis ? cut->stride : 1;
  return slice;
}

static bool is_slice_cut(const Cut *cut, Dim dim) {
  return !cut->vector && cut->first >= 0 && dim_is_const(dim) && dim_is_const(cut->size);
}

static Instr *slice_axes(Lower *l, Instr *v, const Cut *cuts, Span span) {
  Type type = v->type;
  bool any = false;
  for (int k = 0; k < type.rank; k++)
    if (!cuts[k].whole && is_slice_cut(&cuts[k], type.dim[k])) {
      type.dim[k] = cuts[k].size;
      any = true;
    }
  if (!any) return v;
  Instr *slice = emit1(l, OP_SLICE, type, span, v);
  for (int k = 0; k < type.rank; k++) {
    bool cut = !cuts[k].whole && is_slice_cut(&cuts[k], v->type.dim[k]);
    slice->ints[k] = cut ? cuts[k].first : 0;
    slice->ints2[k] = cut ? cuts[k].stride : 1;
  }
  return slice;
}

// One value, by its number, of an expression that has several, such as split.
static Value list_item(Lower *l, const Node *node, Value list) {
  int64_t at = 0;
  const Node *index = node->list.at[0];
  if (node->list.count != 1 || !lower_static_int(l, index, "the number of a value", &at))
    return value_error();
  if (at >= -list.count && at < list.count) return list.items[at < 0 ? at + list.count : at];
  diag_error(l->diag, index->span, ERR_INDEX_RANGE, "there are %d values, from 0 to %d", list.count,
             list.count - 1);
  return value_error();
}

Value index_value(Lower *l, const Node *node, Value base) {
  Cut cuts[MAX_RANK];
  int axis_of[MAX_RANK];
  if (base.kind == V_LIST) return list_item(l, node, base);
  if (base.kind != V_DATA) {
    diag_error(l->diag, node->span, ERR_BAD_INDEX, "%s cannot be indexed", value_text(l, base));
    return value_error();
  }
  Instr *v = base.instr;
  int rank = v->type.rank;
  Type type = v->type;
  if (!lower_cuts(l, node, &type, type_text(l, &type), false, cuts)) return value_error();
  v = slice_axes(l, v, cuts, node->span);
  for (int k = 0; k < rank; k++) {
    axis_of[k] = k;
    if (!cuts[k].whole && !cuts[k].vector && !is_slice_cut(&cuts[k], type.dim[k]))
      v = window_axis(l, v, k, &cuts[k], node->span);
  }
  return finish_index(l, node, cuts, rank, v, axis_of, node->span);
}
