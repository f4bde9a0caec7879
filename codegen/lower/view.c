// Views: a window of a ref under another dtype, shape or order of axes. Loads and stores go through
// to the window.
#include "codegen/lower/internal.h"

#include <string.h>

// A view is a window and what is done to a value read from it, in order. Each step knows the type
// it leaves.
typedef enum { STEP_BITCAST, STEP_RESHAPE, STEP_TRANSPOSE } StepKind;

typedef struct {
  StepKind kind;
  Type type;
  int perm[MAX_RANK];
} ViewStep;

struct RefView {
  View window;
  LIST(ViewStep) steps;
};

static const Type *view_type(const RefView *v) {
  return v->steps.count ? &v->steps.at[v->steps.count - 1].type : &v->window.type;
}

// ---- through a view

static Instr *apply(Lower *l, const ViewStep *step, Instr *v, Span span) {
  switch (step->kind) {
    case STEP_BITCAST:
      return bitcast_to(l, v, step->type.dtype, span);
    case STEP_RESHAPE:
      return reshape_to(l, v, &step->type, span);
    default:
      return transpose_to(l, v, step->perm, span);
  }
}

// What has to be stored for the view to read as v.
static Instr *undo(Lower *l, const ViewStep *step, const Type *before, Instr *v, Span span) {
  int inverse[MAX_RANK];
  switch (step->kind) {
    case STEP_BITCAST:
      return bitcast_to(l, v, before->dtype, span);
    case STEP_RESHAPE:
      return reshape_to(l, v, before, span);
    default:
      for (int i = 0; i < before->rank; i++) inverse[step->perm[i]] = i;
      return transpose_to(l, v, inverse, span);
  }
}

Value read_view(Lower *l, const RefView *view, Span span) {
  Instr *v = load_view(l, &view->window, NULL, NULL, span);
  for (int i = 0; v && i < view->steps.count; i++) v = apply(l, &view->steps.at[i], v, span);
  return value_data(v);
}

void write_view(Lower *l, const RefView *view, Value value, Span span) {
  if (!check_storable(l, view->window.ref, span)) return;
  const Type *type = view_type(view);
  Instr *v = convert(l, value, type->dtype, span, "a store to a view");
  if (!v) return;
  if (!can_broadcast(&v->type, type)) {
    diag_error(l->diag, span, ERR_STORE_SHAPE,
               "a value of shape %s does not go into a view of shape %s", shape_text(l, &v->type),
               shape_text(l, type));
    return;
  }
  v = broadcast_to(l, v, type, span);
  for (int i = view->steps.count - 1; v && i >= 0; i--)
    v = undo(l, &view->steps.at[i], i ? &view->steps.at[i - 1].type : &view->window.type, v, span);
  if (v) store_view(l, &view->window, value_data(v), (Value){.kind = V_VOID}, span);
}

// ---- parts of a view

const RefView *folded_view(Lower *l, const Node *window) {
  const RefView *view = named_view(l, window->kind == N_INDEX ? window->a : window);
  return view && (view->steps.count || !is_all_of(window)) ? view : NULL;
}

Ref *unfold_view(Lower *l, const RefView *view, const char *name, Span span) {
  Ref *var = NEW(l->arena, Ref);
  *var = (Ref){.name = name,
               .id = l->k->refs.count,
               .role = REF_VAR,
               .space = SPACE_VAR,
               .type = *view_type(view),
               .span = span};
  LIST_PUSH(l->arena, &l->k->refs, var);
  View all = whole_view(l, var, span);
  Value v = read_view(l, view, span);
  if (!is_error(v)) store_view(l, &all, v, (Value){.kind = V_VOID}, span);
  return var;
}

void fold_view(Lower *l, const RefView *view, Ref *var, Span span) {
  write_view(l, view, load_ref(l, var, span), span);
}

// The whole of a view where a window is expected: only where it has no steps.
bool view_window(Lower *l, const RefView *view, View *out, Span span) {
  *out = view->window;
  if (view->steps.count == 0) return true;
  diag_error(l->diag, span, ERR_BAD_ARGUMENT,
             "expected a window of a ref, and this is a view of `%s` in another dtype or shape",
             view->window.ref->name);
  return false;
}

// ---- making one

static ViewStep *add_step(Lower *l, RefView *view, StepKind kind) {
  ViewStep step = {.kind = kind, .type = *view_type(view)};
  LIST_PUSH(l->arena, &view->steps, step);
  return &view->steps.at[view->steps.count - 1];
}

static bool bitcast_step(Lower *l, RefView *view, const Node *node) {
  DType dtype;
  Type type;
  if (!lower_dtype(l, node, &dtype) || !check_bitcast(l, view_type(view), dtype, node->span, &type))
    return false;
  add_step(l, view, STEP_BITCAST)->type = type;
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
  add_step(l, view, STEP_RESHAPE)->type = shape;
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
    diag_error(l->diag, span, ERR_AXIS_RANGE, "`perm` is an order of the %d axes of %s", type.rank,
               type_text(l, &type));
    return false;
  }
  ViewStep *step = add_step(l, view, STEP_TRANSPOSE);
  for (int i = 0; i < count; i++) {
    step->perm[i] = (int)perm[i];
    step->type.dim[i] = type.dim[perm[i]];
  }
  return true;
}

// view(x[..], dtype = T, shape = [..], perm = (..)): a window as other bits, then in another shape,
// then with its axes permuted.
static Value lower_view_call(Lower *l, const Call *call) {
  RefView *view = NEW(l->arena, RefView);
  const RefView *inner = named_view(l, call->arg[0]);
  Span span = call->node->span;
  if (inner)
    *view = *inner;
  else if (!lower_view(l, call->arg[0], false, &view->window))
    return value_error();
  if (inner) {  // a list of its own
    view->steps.at = NULL;
    view->steps.count = view->steps.capacity = 0;
    for (int i = 0; i < inner->steps.count; i++)
      LIST_PUSH(l->arena, &view->steps, inner->steps.at[i]);
  }
  if (!check_accessible(l, view->window.ref, span)) return value_error();
  if (call->arg[1] && !bitcast_step(l, view, call->arg[1])) return value_error();
  if (call->arg[2] && !reshape_step(l, view, call->arg[2], call->arg[2]->span))
    return value_error();
  if (call->arg[3] && !transpose_step(l, view, call->arg[3], call->arg[3]->span))
    return value_error();
  return (Value){.kind = V_VIEW, .view = view};
}

Ref *viewed_ref(const RefView *view) { return view->window.ref; }

// The view that a name stands for, else NULL.
const RefView *named_view(Lower *l, const Node *node) {
  Symbol *s = node->kind == N_NAME ? find_symbol(l, node->name) : NULL;
  return s && s->value.kind == V_VIEW ? s->value.view : NULL;
}

const Builtin view_builtins[] = {
    {"view", lower_view_call, 0, "window dtype? shape? perm?"},
    {0},
};
