// The naive reference: vars, whose windows are read and written as wholes.
#include "codegen/naive/internal.h"

#include <string.h>

static const char *state_name(Naive *n, const Ref *state) {
  return naive_text(n, "state%d", state->id);
}

void naive_declare_states(Naive *n) {
  for (int i = 0; i < n->k->states.count; i++) {
    const Ref *state = n->k->states.at[i];
    const char *name = state_name(n, state);
    naive_line(n, "%s *%s = naive_memory(&memory[%d], %s, sizeof *%s);  // %s",
               naive_ctype(n, state->type.dtype), name, n->slots++, naive_elements(n, &state->type),
               name, state->name);
    naive_line(n, "if (!%s) goto no_memory;", name);
  }
}

static bool is_whole(const Instr *access, int axis) {
  return access->window.size[axis] == access->ref->type.dim[axis] &&
         access->window.stride[axis] == 1 && !access->window.squeeze[axis];
}

// The index of an element of the window. A window that leaves the var is clamped; in a longer
// window, only its last elements are in the var.
static const char *index_in(Naive *n, const Instr *access, int axis, const char *index) {
  const Window *w = &access->window;
  const char *extent = naive_extent(n, access->ref->type.dim[axis]);
  if (is_whole(access, axis)) return index;
  const char *reach =
      naive_text(n, "(%s - 1) * %lld", naive_extent(n, w->size[axis]), (long long)w->stride[axis]);
  const char *last = naive_text(n, "%s - 1 - %s", extent, w->size[axis] == 1 ? "0" : reach);
  const char *start = naive_text(n, "pk_idx_max(0, pk_idx_min(%s, %s))",
                                 naive_element(n, access->args[axis], NULL), last);
  if (w->squeeze[axis] || w->size[axis] == 1) return start;
  return naive_text(n, "pk_idx_max(0, pk_idx_min(%s + %s * %lld, %s - 1))", start, index,
                    (long long)w->stride[axis], extent);
}

static const char *place_of(Naive *n, const Instr *access, const char *const *index) {
  const Ref *state = access->ref;
  const char *at[MAX_RANK] = {0};
  for (int i = 0, axis = 0; i < state->type.rank; i++)
    at[i] = index_in(n, access, i, access->window.squeeze[i] ? "0" : index[axis++]);
  return naive_text(n, "%s[%s]", state_name(n, state), naive_linear(n, &state->type, at));
}

// The condition that the element exists; NULL: it always does.
static const char *is_filled(Naive *n, const Ref *state) {
  bool sure = true;
  for (int i = 0; i < state->type.rank; i++)
    sure = sure && dim_is_const(state->type.dim[i]) && state->type.dim[i] > 0;
  return sure ? NULL : naive_text(n, "%s > 0", naive_elements(n, &state->type));
}

const char *naive_loaded_state(Naive *n, const Instr *load, const char *const *index) {
  const char *filled = is_filled(n, load->ref), *element = place_of(n, load, index);
  bool bound = n->bounded && is_float(load->type.dtype);
  if (!filled) return element;
  return naive_text(n, "(%s ? %s : %s)", filled, element, bound ? "pk_bound_exact(0)" : "0");
}

void naive_store_state(Naive *n, const Instr *store) {
  Instr *value = store->args[store->ref->type.rank];
  const char *index[MAX_RANK] = {0}, *filled = is_filled(n, store->ref);
  int indent = n->indent;
  n->loops = 0;
  if (filled) {
    naive_line(n, "if (%s) {", filled);
    n->indent++;
  }
  for (int i = 0; i < value->type.rank; i++) index[i] = naive_open_loop(n, value->type.dim[i]);
  const char *place = place_of(n, store, index), *element = naive_element(n, value, index);
  naive_line(n, "%s = %s;", place, element);
  naive_close_loops(n, n->indent - indent);
}
