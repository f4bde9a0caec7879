// Masked accesses of views: through a var that holds the part of the view that the window reaches,
// because the window may leave the view. Where the window is longer than an axis, has a step, or
// is of an axis of run-time size, that part is the whole axis.
#include "codegen/lower/refs.h"

const RefView *folded_view(Lower *l, const Node *window) {
  const RefView *view = named_view(l, window->kind == N_INDEX ? window->a : window);
  return view && (view->steps.count || !is_all_of(window)) ? view : NULL;
}

static bool is_cut(const View *window, int axis) {
  Dim size = window->window.size[axis], dim = window->ref->type.dim[axis];
  return dim_is_const(size) && dim_is_const(dim) && size <= dim && dim > 0 &&
         (window->window.stride[axis] == 1 || size == 1);
}

// The part, as a window of the view; `inside` becomes the window of the part.
static View cut_part(Lower *l, View *inside, Span span) {
  View part = whole_view(l, inside->ref, span);
  for (int k = 0; k < part.type.rank; k++) {
    if (!is_cut(inside, k)) continue;
    Dim size = inside->window.size[k], dim = part.type.dim[k];
    Instr *start = inside->starts[k], *moved = moved_in(l, span, start, size, 1, dim);
    part.window.size[k] = part.type.dim[k] = size;
    part.starts[k] = moved;
    inside->starts[k] = index_op(l, OP_SUB, start, moved, span);
  }
  return part;
}

static bool is_inside_axis(const Instr *start, Dim size, int64_t stride, Dim dim) {
  if (start->op != OP_CONST || start->ival < 0) return false;
  if (start->ival == 0 && stride == 1 && size == dim) return true;
  return dim_is_const(size) && dim_is_const(dim) && start->ival + (size - 1) * stride < dim;
}

// Is it known that all of the window is inside the view? Then it is the part.
static bool is_inside(const View *window) {
  const Type *type = &window->ref->type;
  const Window *w = &window->window;
  for (int k = 0; k < type->rank; k++)
    if (!is_inside_axis(window->starts[k], w->size[k], w->stride[k], type->dim[k])) return false;
  return true;
}

bool reach_view(Lower *l, const Node *node, const RefView *view, Reach *out) {
  Ref *seen = NEW(l->arena, Ref);
  const char *name = node->a->name;
  *seen = viewed_as_ref(view, name);
  *out = (Reach){.name = name};
  if (!lower_window(l, node, seen, true, &out->window)) return false;
  out->part = *view;
  out->whole = is_inside(&out->window);
  View part = out->whole ? out->window : cut_part(l, &out->window, node->span);
  if (is_all_of_ref(&part)) return true;
  out->name = arena_printf(l->arena, "%s_part", name);
  add_window(l, view, &part, &out->part);
  return true;
}

static Ref *var_of(Lower *l, const Reach *r, DType dtype, Span span) {
  Type type = with_dtype(*view_type(&r->part), dtype);
  return view_var(l, &type, r->name, span);
}

// The window of the var.
static View in_var(Lower *l, const Reach *r, DType dtype, Span span) {
  View window = r->window;
  Ref *var = var_of(l, r, dtype, span);
  if (r->whole) return whole_view(l, var, span);
  window.ref = var;
  window.type.dtype = dtype;
  return window;
}

static void fill(Lower *l, Ref *var, Value v, Span span) {
  View all = whole_view(l, var, span);
  store_view(l, &all, v, (Value){.kind = V_VOID}, span);
}

View loaded_reach(Lower *l, const Reach *r, Span span) {
  View window = in_var(l, r, r->window.type.dtype, span);
  Value v = read_view(l, &r->part, span);
  if (!is_error(v)) fill(l, window.ref, v, span);
  return window;
}

void store_reach(Lower *l, const Reach *r, Value v, Value mask, Span span) {
  if (r->whole) {
    write_view(l, &r->part, v, mask, span);
    return;
  }
  View window = in_var(l, r, r->window.type.dtype, span), stored = in_var(l, r, DT_BOOL, span);
  fill(l, window.ref, nothing_of(window.type.dtype), span);
  fill(l, stored.ref, value_bool(false), span);
  store_view(l, &window, v, mask, span);
  store_view(l, &stored, value_bool(true), mask, span);
  write_view(l, &r->part, load_ref(l, window.ref, span), load_ref(l, stored.ref, span), span);
}
