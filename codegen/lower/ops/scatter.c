// scatter and scatter_add: rows of a value are stored to rows of a ref that integer vectors name,
// one after another.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

typedef struct {
  const RefView *view;  // the window is of this view; NULL: of the ref
  View window;
  int count;                               // of axes that are named by vectors of integers
  Type places;                             // their shape
  Instr *index[MAX_RANK];                  // as vectors
  int axis[MAX_RANK], ref_axis[MAX_RANK];  // of the window; of the ref or view
  Instr *value;    // as the window without these axes, but for one of the vectors' length
  int value_axis;  // that one: where the first axis would be
  bool add;
  Span span;
} Scatter;

// The i-th element along an axis, which stays with size 1.
static Instr *element_at(Lower *l, Instr *v, int axis, Instr *i, Span span) {
  Type one = {.dtype = DT_I64, .rank = 1, .dim = {1}};
  return take_axis(l, v, axis, reshape_to(l, i, &one, span), span);
}

static int ref_axis_of(const View *window, int axis) {
  int k = 0;
  for (; window->window.squeeze[k] || axis > 0; k++) axis -= !window->window.squeeze[k];
  return k;
}

static Value read_row(Lower *l, const Scatter *s, const View *row, const RefView *part) {
  return s->view ? read_view(l, part, s->span) : value_data(load_view(l, row, NULL, NULL, s->span));
}

// One row: the window narrowed to places of its axes.
static void scatter_row(Lower *l, const Scatter *s, Instr *i, Instr *const *at) {
  View row = s->window;
  RefView part;
  for (int k = 0; k < s->count; k++) {
    int axis = s->ref_axis[k];
    Instr *stride = index_const(l, row.window.stride[axis], s->span);
    Instr *offset = index_op(l, OP_MUL, at[k], stride, s->span);
    row.starts[axis] = index_op(l, OP_ADD, row.starts[axis], offset, s->span);
    row.window.size[axis] = row.window.stride[axis] = 1;
    row.type.dim[s->axis[k]] = 1;
  }
  if (s->view) add_window(l, s->view, &row, &part);
  Instr *element = element_at(l, s->value, s->value_axis, i, s->span);
  Value v = value_data(reshape_to(l, element, &row.type, s->span)), none = {.kind = V_VOID};
  Node plus = {.kind = N_BINARY, .span = s->span, .name_span = s->span, .op = BIN_ADD};
  if (s->add) v = lower_binary(l, &plus, BIN_ADD, read_row(l, s, &row, &part), v);
  if (is_error(v)) return;
  if (s->view)
    write_view(l, &part, v, none, s->span);
  else
    store_view(l, &row, v, none, s->span);
}

// The place along the k-th axis, and whether it is there.
static Instr *place_of(Lower *l, const Scatter *s, int k, Instr *i, Instr **inside) {
  Type index = type_scalar(s->index[k]->type.dtype), truth = type_scalar(DT_BOOL);
  Instr *at = reshape_to(l, element_at(l, s->index[k], 0, i, s->span), &index, s->span);
  if (index.dtype != DT_I64) at = emit1(l, OP_CAST, type_scalar(DT_I64), s->span, at);
  Instr *low = emit2(l, OP_GE, truth, s->span, at, index_const(l, 0, s->span));
  Instr *high =
      emit2(l, OP_LT, truth, s->span, at, dim_value(l, s->window.type.dim[s->axis[k]], s->span));
  Instr *both = emit2(l, OP_AND, truth, s->span, low, high);
  *inside = *inside ? emit2(l, OP_AND, truth, s->span, *inside, both) : both;
  return at;
}

static void scatter_rows(Lower *l, const Scatter *s) {
  Frame loop, row;
  Instr *at[MAX_RANK], *inside = NULL;
  if (type_is_empty(&s->window.type)) return;  // it has no row
  Instr *from = index_const(l, 0, s->span), *to = dim_value(l, s->index[0]->type.dim[0], s->span);
  Instr *i = ir_new(l->k, OP_ARG, type_scalar(DT_I64), s->span, 0, NULL);
  Region *body = enter_region(l, &loop);
  body->arg = i;
  for (int k = 0; k < s->count; k++) at[k] = place_of(l, s, k, i, &inside);
  Region *then = enter_region(l, &row);
  scatter_row(l, s, i, at);
  leave_region(l);
  emit1(l, OP_IF, no_result, s->span, inside)->regions[0] = then;
  leave_region(l);
  emit2(l, OP_FOR, no_result, s->span, from, to)->regions[0] = body;
}

// ---- the arguments

// The index vectors of a scatter.
static bool lower_places(Lower *l, const Node *node, Scatter *s) {
  bool list = node->kind == N_TUPLE || node->kind == N_ARRAY;
  s->count = list ? node->list.count : 1;
  if (s->count < 1 || s->count > s->window.type.rank) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH, "%d index vectors for a window of %d %s",
               s->count, s->window.type.rank, s->window.type.rank == 1 ? "axis" : "axes");
    return false;
  }
  for (int k = 0; k < s->count; k++) {
    const Node *own = list ? node->list.at[k] : node;
    Instr *index = s->index[k] = lower_array(l, own);
    if (!index) return false;
    if (k == 0) s->places = index->type;
    bool integers = index->type.rank >= 1 && is_integer(index->type.dtype);
    if (integers && type_same_shape(&index->type, &s->places)) continue;
    diag_error(l->diag, own->span, ERR_BAD_INDEX, "the indices must be %s, not %s",
               integers ? "of one shape" : "an array of integers", type_text(l, &index->type));
    return false;
  }
  return true;
}

// `axis = k`, or a list with one for each vector; without it, the first axes.
static bool lower_scatter_axes(Lower *l, const Node *node, Scatter *s) {
  int64_t axes[MAX_RANK];
  int count, rank = s->window.type.rank;
  unsigned used = 0;
  for (int k = 0; k < s->count; k++) axes[k] = k;
  if (node && !lower_int_list(l, node, "an axis number", axes, MAX_RANK, &count)) return false;
  bool good = !node || count == s->count;
  for (int k = 0; good && k < s->count; k++) {
    int64_t axis = axes[k] < 0 ? axes[k] + rank : axes[k];
    good = axis >= 0 && axis < rank && !(used >> axis & 1);
    if (!good) break;
    used |= 1u << axis;
    s->axis[k] = (int)axis;
    s->ref_axis[k] = ref_axis_of(&s->window, (int)axis);
  }
  if (!good)
    diag_error(l->diag, node->span, ERR_AXIS_RANGE,
               "expected %d of the %d axes of the window, each once", s->count, rank);
  return good;
}

// The value has the window's axes; in place of the first named one those of the places, or with
// `flat` one.
static Type value_type(Scatter *s, bool flat) {
  Type type = {.dtype = s->window.type.dtype};
  for (int axis = 0; axis < s->window.type.rank; axis++) {
    bool named = false;
    for (int k = 1; k < s->count; k++) named = named || s->axis[k] == axis;
    if (named) continue;
    if (s->axis[0] != axis) {
      type.dim[type.rank++] = s->window.type.dim[axis];
      continue;
    }
    s->value_axis = type.rank;
    if (flat) type.dim[type.rank++] = s->index[0]->type.dim[0];
    for (int k = 0; k < s->places.rank && !flat; k++) type.dim[type.rank++] = s->places.dim[k];
  }
  return type;
}

// The places as vectors, and the value with a row for each.
static void flatten(Lower *l, Scatter *s, Dim places) {
  const Type vector = {.rank = 1, .dim = {places}};
  for (int k = 0; k < s->count; k++) s->index[k] = reshape_to(l, s->index[k], &vector, s->span);
  const Type rows = value_type(s, true);
  s->value = reshape_to(l, s->value, &rows, s->span);
}

// The positions, axes and values of a scatter.
static bool lower_scattered(Lower *l, const Call *call, Scatter *s) {
  if (s->window.type.rank == 0) {
    diag_error(l->diag, call->arg[0]->span, ERR_RANK_MISMATCH, "a window without axes has no rows");
    return false;
  }
  if (!lower_places(l, call->arg[1], s) || !lower_scatter_axes(l, call->arg[3], s)) return false;
  Dim places;
  if (s->window.type.rank - s->count + s->places.rank > MAX_RANK ||
      !product_dim(l, s->places.dim, s->places.rank, s->span, &places)) {
    diag_error(l->diag, call->arg[1]->span, ERR_RANK_MISMATCH,
               "a value for indices of shape %s has at most %d axes", shape_text(l, &s->places),
               MAX_RANK);
    return false;
  }
  Type wanted = value_type(s, false);
  Value v = lower_expr(l, call->arg[2]);
  if (is_error(v)) return false;
  s->value = convert(l, v, wanted.dtype, call->arg[2]->span, call->builtin->name);
  if (!s->value) return false;
  if (can_broadcast(&s->value->type, &wanted)) {
    s->value = broadcast_to(l, s->value, &wanted, call->node->span);
    flatten(l, s, places);
    return true;
  }
  diag_error(l->diag, call->arg[2]->span, ERR_STORE_SHAPE,
             "a value of shape %s where %s is expected: one row for each index",
             shape_text(l, &s->value->type), shape_text(l, &wanted));
  return false;
}

// The window. That of a view is clamped as a whole; its rows are not.
static bool lower_target(Lower *l, const Node *node, Scatter *s) {
  const Node *name = node->kind == N_INDEX ? node->a : node;
  View *window = &s->window;
  s->view = folded_view(l, node);
  Ref *seen = NEW(l->arena, Ref), *ref;
  if (s->view && node->kind != N_INDEX) {
    diag_error(l->diag, node->span, ERR_BARE_REF, "`%s` is a view: a window of it is `%s[...]`",
               node->name, node->name);
    return false;
  }
  if (s->view) *seen = viewed_as_ref(s->view, name->name);
  if (!(s->view ? lower_window(l, node, seen, false, window) : lower_view(l, node, false, window)))
    return false;
  ref = s->view ? viewed_ref(s->view) : window->ref;
  for (int k = 0; s->view && k < window->ref->type.rank; k++)
    window->starts[k] = moved_in(l, s->span, window->starts[k], window->window.size[k],
                                 window->window.stride[k], window->ref->type.dim[k]);
  return check_storable(l, ref, node->span) && check_accessible(l, ref, node->span);
}

static Value lower_scatter(Lower *l, const Call *call) {
  Scatter *s = NEW(l->arena, Scatter);
  *s = (Scatter){.add = call->builtin->op == OP_ADD, .span = call->node->span};
  if (!lower_target(l, call->arg[0], s) || !lower_scattered(l, call, s)) return value_error();
  scatter_rows(l, s);
  return (Value){.kind = V_VOID};
}

const Builtin scatter_builtins[] = {
    {"scatter", lower_scatter, 0, "window index v axis?"},
    {"scatter_add", lower_scatter, OP_ADD, "window index v axis?"},
    {0},
};
