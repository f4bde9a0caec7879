// Windows of refs as they are written: x[..].
#include "codegen/lower/refs.h"

static const char *ref_text(Lower *l, const Ref *ref) {
  return arena_printf(l->arena, "`%s`, %s", ref->name, type_text(l, &ref->type));
}

// The cuts of a window. Without a mask, an index along an axis of 0 has nowhere to be moved to.
static bool window_cuts(Lower *l, const Node *node, const Ref *ref, bool masked, Cut *cuts) {
  if (!lower_cuts(l, node, &ref->type, ref_text(l, ref), masked, cuts)) return false;
  for (int k = 0; k < ref->type.rank && !masked; k++)
    if (cuts[k].squeeze && ref->type.dim[k] == 0) {
      diag_error(l->diag, node->span, ERR_INDEX_RANGE, "axis %d of %s has no element", k,
                 ref_text(l, ref));
      return false;
    }
  return true;
}

bool lower_window(Lower *l, const Node *node, Ref *ref, bool masked, View *view) {
  Cut cuts[MAX_RANK];
  if (node->kind == N_INDEX && !window_cuts(l, node, ref, masked, cuts)) return false;
  for (int i = 0; node->kind == N_INDEX && i < node->list.count; i++)
    if (node->list.at[i]->kind == N_NONE) {
      diag_error(l->diag, node->list.at[i]->span, ERR_BAD_INDEX,
                 "`None` adds an axis to a value; a window of a ref has no use for it");
      return false;
    }
  for (int k = 0; node->kind == N_INDEX && k < ref->type.rank; k++)
    if (cuts[k].vector) {
      diag_error(l->diag, node->span, ERR_BAD_INDEX,
                 "a window of a ref may contain only slices and scalars, not integer vectors");
      return false;
    }
  view_of_cuts(l, ref, node->kind == N_INDEX ? cuts : NULL, node->span, view);
  return true;
}

bool lower_view(Lower *l, const Node *node, bool masked, View *view) {
  const RefView *viewed = named_view(l, node->kind == N_INDEX ? node->a : node);
  if (viewed && is_all_of(node)) return view_window(l, viewed, view, node->span);
  Ref *ref = node->kind == N_INDEX ? ref_of(l, node->a) : ref_of(l, node);
  if (ref && is_broken(l, ref)) return false;
  if (!ref) {
    bool named = node->kind == N_INDEX || node->kind == N_NAME;
    if (named && is_error(lower_expr(l, node->kind == N_INDEX ? node->a : node))) return false;
    diag_error(l->diag, node->span, ERR_BAD_ARGUMENT,
               "expected a window of a ref, such as `x[...]`");
    return false;
  }
  if (node->kind != N_INDEX && ref->type.rank > 0 && !is_var(ref)) {
    diag_error(l->diag, node->span, ERR_BARE_REF, "`%s` is a ref, %s: a window of it is `%s[...]`",
               ref->name, type_text(l, &ref->type), ref->name);
    diag_note(l->diag, ref->span, "`%s` is declared here%s", ref->name, axes_text(l, ref));
    return false;
  }
  return lower_window(l, node, ref, masked, view);
}

// The value of a window, gathered by the vectors of its index.
static Value gathered(Lower *l, const Node *node, const Cut *cuts, const View *window, Instr *v) {
  int axis_of[MAX_RANK], axis = 0, rank = window->ref->type.rank;
  for (int k = 0; k < rank; k++) {
    axis_of[k] = axis;
    axis += !window->window.squeeze[k];
  }
  return finish_index(l, node, cuts, rank, v, axis_of, node->span);
}

Value lower_ref_read(Lower *l, const Node *node, Ref *ref) {
  Cut cuts[MAX_RANK];
  View view;
  if (is_broken(l, ref)) return value_error();
  if (!window_cuts(l, node, ref, false, cuts)) return value_error();
  view_of_cuts(l, ref, cuts, node->span, &view);
  Instr *load = load_view(l, &view, NULL, NULL, node->span);
  return load ? gathered(l, node, cuts, &view, load) : value_error();
}

Ref viewed_as_ref(const RefView *view, const char *name) {
  Ref seen = *viewed_ref(view);
  seen.name = name;
  seen.type = *view_type(view);
  return seen;
}

void add_window(Lower *l, const RefView *view, const View *part, RefView *out) {
  *out = (RefView){.window = view->window};
  for (int i = 0; i < view->steps.count; i++) LIST_PUSH(l->arena, &out->steps, view->steps.at[i]);
  ViewStep step = {.kind = CHAIN_WINDOW, .type = part->type, .window = *part};
  LIST_PUSH(l->arena, &out->steps, step);
}

bool window_of_view(Lower *l, const Node *window, const RefView *view, RefView *out) {
  View part;
  Ref *seen = NEW(l->arena, Ref);
  *seen = viewed_as_ref(view, window->a->name);
  if (!lower_window(l, window, seen, false, &part)) return false;
  add_window(l, view, &part, out);
  return true;
}

Value lower_view_read(Lower *l, const Node *node, const RefView *view) {
  Cut cuts[MAX_RANK];
  View part;
  RefView read;
  if (is_all_of(node)) return read_view(l, view, node->span);
  Ref *seen = NEW(l->arena, Ref);
  *seen = viewed_as_ref(view, node->a->name);
  if (!window_cuts(l, node, seen, false, cuts)) return value_error();
  view_of_cuts(l, seen, cuts, node->span, &part);
  add_window(l, view, &part, &read);
  Value v = read_view(l, &read, node->span);
  return is_error(v) ? v : gathered(l, node, cuts, &part, v.instr);
}
