// view(..): a window of a ref under another dtype, shape or order of axes.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

static ViewStep *add_step(Lower *l, RefView *view, ChainKind kind) {
  ViewStep step = {.kind = kind, .type = *view_type(view)};
  LIST_PUSH(l->arena, &view->steps, step);
  return &view->steps.at[view->steps.count - 1];
}

static bool bitcast_step(Lower *l, RefView *view, const Node *node) {
  DType dtype;
  Type type;
  if (!lower_dtype(l, node, &dtype) ||
      !check_bitcast(l, view_type(view), dtype, false, node->span, &type))
    return false;
  if (dtype != view_type(view)->dtype) add_step(l, view, CHAIN_BITCAST)->type = type;
  return true;
}

static bool reshape_step(Lower *l, RefView *view, const Node *node, Span span) {
  Type shape, type = *view_type(view);
  if (!lower_shape(l, node, &shape)) return false;
  shape.dtype = type.dtype;
  if (!ir_same_elements(l->k, &type, &shape)) {
    diag_error(l->diag, span, ERR_SHAPE_MISMATCH,
               "a view of shape %s has another number of elements than %s", shape_text(l, &shape),
               shape_text(l, &type));
    return false;
  }
  add_step(l, view, CHAIN_RESHAPE)->type = shape;
  return true;
}

static bool transpose_step(Lower *l, RefView *view, const Node *node, Span span) {
  int64_t perm[MAX_RANK];
  int count;
  unsigned used = 0;
  Type type = *view_type(view);
  if (!lower_int_list(l, node, "an order of axes", perm, MAX_RANK, &count)) return false;
  for (int i = 0; i < count; i++)
    if (perm[i] >= 0 && perm[i] < type.rank) used |= 1u << perm[i];
  if (count != type.rank || used != (1u << type.rank) - 1) {
    diag_error(l->diag, span, ERR_AXIS_RANGE, "`perm` must be an order of the %d axes of %s",
               type.rank, type_text(l, &type));
    return false;
  }
  ViewStep *step = add_step(l, view, CHAIN_TRANSPOSE);
  for (int i = 0; i < count; i++) {
    step->perm[i] = (int)perm[i];
    step->type.dim[i] = type.dim[perm[i]];
  }
  return true;
}

// A view that has its own list of steps.
static RefView copied_view(Lower *l, const RefView *of) {
  RefView view = {.window = of->window};
  for (int i = 0; i < of->steps.count; i++) LIST_PUSH(l->arena, &view.steps, of->steps.at[i]);
  return view;
}

// What is seen: a window of a ref, or a view, or a window of one.
static bool lower_viewed(Lower *l, const Node *node, RefView *view) {
  const RefView *inner = named_view(l, node->kind == N_INDEX ? node->a : node);
  *view = (RefView){0};
  if (!inner) return lower_view(l, node, false, &view->window);
  *view = copied_view(l, inner);
  if (node->kind != N_INDEX || is_all_of(node)) return true;
  Ref *seen = NEW(l->arena, Ref);
  View part;
  *seen = viewed_as_ref(inner, node->a->name);
  if (!lower_window(l, node, seen, false, &part)) return false;
  ViewStep *step = add_step(l, view, CHAIN_WINDOW);
  step->window = part;
  step->type = part.type;
  return true;
}

// view(x[..], dtype = T, shape = [..], perm = (..)): a window as other bits, then in another shape,
// then with its axes permuted.
static Value lower_view_call(Lower *l, const Call *call) {
  RefView *view = NEW(l->arena, RefView);
  Span span = call->node->span;
  if (!lower_viewed(l, call->arg[0], view)) return value_error();
  bool copied = view->window.ref->space == SPACE_ANY;  // copies read it and write to it
  if (!copied && !check_accessible(l, view->window.ref, span)) return value_error();
  if (call->arg[1] && !bitcast_step(l, view, call->arg[1])) return value_error();
  if (call->arg[2] && !reshape_step(l, view, call->arg[2], call->arg[2]->span))
    return value_error();
  if (call->arg[3] && !transpose_step(l, view, call->arg[3], call->arg[3]->span))
    return value_error();
  return (Value){.kind = V_VIEW, .view = view};
}

const Builtin view_builtins[] = {
    {"view", lower_view_call, 0, "window dtype? shape? perm?"},
    {0},
};
