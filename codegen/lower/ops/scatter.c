// scatter and scatter_add: rows of a value go to rows of a ref that an integer vector names, one
// after another.
#include "codegen/lower/internal.h"

typedef struct {
  View window;   // of the ref
  Instr *index;  // a vector of integers
  Instr *value;  // as the window, but for `axis`, where it has the index's length
  int axis;      // of the value
  int ref_axis;  // .. and of the ref
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

// One row: the window narrowed to place `at` of the axis.
static void scatter_row(Lower *l, const Scatter *s, Instr *i, Instr *at) {
  View row = s->window;
  Instr *stride = index_const(l, row.window.stride[s->ref_axis], s->span);
  Instr *offset = emit2(l, OP_MUL, type_scalar(DT_I64), s->span, at, stride);
  row.starts[s->ref_axis] =
      emit2(l, OP_ADD, type_scalar(DT_I64), s->span, row.starts[s->ref_axis], offset);
  row.window.size[s->ref_axis] = 1;
  row.window.stride[s->ref_axis] = 1;
  row.type.dim[s->axis] = 1;
  Value v = value_data(element_at(l, s->value, s->axis, i, s->span));
  Node plus = {.kind = N_BINARY, .span = s->span, .name_span = s->span, .op = BIN_ADD};
  if (s->add)
    v = lower_binary(l, &plus, BIN_ADD, value_data(load_view(l, &row, NULL, NULL, s->span)), v);
  if (!is_error(v)) store_view(l, &row, v, (Value){.kind = V_VOID}, s->span);
}

static void scatter_rows(Lower *l, const Scatter *s) {
  Frame loop, row;
  Type scalar = type_scalar(s->index->type.dtype);
  Instr *from = index_const(l, 0, s->span), *to = dim_value(l, s->index->type.dim[0], s->span);
  Instr *i = ir_new(l->k, OP_ARG, type_scalar(DT_I64), s->span, 0, NULL);
  Region *body = enter_region(l, &loop);
  body->arg = i;
  Instr *at = reshape_to(l, element_at(l, s->index, 0, i, s->span), &scalar, s->span);
  if (scalar.dtype != DT_I64) at = emit1(l, OP_CAST, type_scalar(DT_I64), s->span, at);
  Instr *low = emit2(l, OP_GE, type_scalar(DT_BOOL), s->span, at, index_const(l, 0, s->span));
  Instr *high = emit2(l, OP_LT, type_scalar(DT_BOOL), s->span, at,
                      dim_value(l, s->window.type.dim[s->axis], s->span));
  Instr *inside = emit2(l, OP_AND, type_scalar(DT_BOOL), s->span, low, high);
  Region *then = enter_region(l, &row);
  scatter_row(l, s, i, at);
  leave_region(l);
  emit1(l, OP_IF, no_result, s->span, inside)->regions[0] = then;
  leave_region(l);
  emit2(l, OP_FOR, no_result, s->span, from, to)->regions[0] = body;
}

static bool lower_scattered(Lower *l, const Call *call, Scatter *s) {
  Type wanted = s->window.type;
  s->index = lower_array(l, call->arg[1]);
  Value v = lower_expr(l, call->arg[2]);
  if (!s->index || is_error(v)) return false;
  if (s->window.type.rank == 0) {
    diag_error(l->diag, call->arg[0]->span, ERR_RANK_MISMATCH, "a window without axes has no rows");
    return false;
  }
  if (call->arg[3] && !lower_axis(l, call->arg[3], s->window.type.rank, call->node->span, &s->axis))
    return false;
  if (s->index->type.rank != 1 || !is_integer(s->index->type.dtype)) {
    diag_error(l->diag, call->arg[1]->span, ERR_BAD_INDEX,
               "the places are a vector of integers, not %s", type_text(l, &s->index->type));
    return false;
  }
  s->ref_axis = ref_axis_of(&s->window, s->axis);
  wanted.dim[s->axis] = s->index->type.dim[0];
  s->value = convert(l, v, wanted.dtype, call->arg[2]->span, call->builtin->name);
  if (!s->value) return false;
  if (can_broadcast(&s->value->type, &wanted)) {
    s->value = broadcast_to(l, s->value, &wanted, call->node->span);
    return true;
  }
  diag_error(l->diag, call->arg[2]->span, ERR_STORE_SHAPE,
             "a value of shape %s where %s is expected: one row for each place",
             shape_text(l, &s->value->type), shape_text(l, &wanted));
  return false;
}

static Value lower_scatter(Lower *l, const Call *call) {
  Scatter s = {.add = call->builtin->op == OP_ADD, .span = call->node->span};
  if (!lower_view(l, call->arg[0], false, &s.window) ||
      !check_storable(l, s.window.ref, call->arg[0]->span))
    return value_error();
  if (!check_accessible(l, s.window.ref, call->arg[0]->span) || !lower_scattered(l, call, &s))
    return value_error();
  scatter_rows(l, &s);
  return (Value){.kind = V_VOID};
}

const Builtin scatter_builtins[] = {
    {"scatter", lower_scatter, 0, "window index v axis?"},
    {"scatter_add", lower_scatter, OP_ADD, "window index v axis?"},
    {0},
};
