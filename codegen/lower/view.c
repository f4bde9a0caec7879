// Views: a window of a ref under another dtype, shape or order of axes. Loads and stores go through
// to the window.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

const Type *view_type(const RefView *v) {
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

Ref *viewed_ref(const RefView *view) { return view->window.ref; }

// The view that a name refers to, else NULL.
const RefView *named_view(Lower *l, const Node *node) {
  Symbol *s = node->kind == N_NAME ? find_symbol(l, node->name) : NULL;
  return s && s->value.kind == V_VIEW ? s->value.view : NULL;
}
