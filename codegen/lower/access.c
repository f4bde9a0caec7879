// Refs and their windows: resolving names, loads and stores.
#include "codegen/lower/refs.h"

static bool is_prefetched_here(const Lower *l, const Ref *ref) {
  return ref->prefetch && (l->place == IN_EXTENT || l->place == IN_MAP || l->place == IN_REQUIRE ||
                           l->place == IN_BODY);
}

Ref *prefetched_of(Lower *l, const Symbol *s) {
  for (int i = 0; i < l->k->inputs && s->kind == SYM_OPERAND; i++)
    if (l->k->refs.at[i]->name == s->name && is_prefetched_here(l, l->k->refs.at[i]))
      return l->k->refs.at[i];
  return NULL;
}

Ref *ref_of(Lower *l, const Node *node) {
  if (node->kind != N_NAME) return NULL;
  Symbol *s = find_symbol(l, node->name);
  if (!s || s->poisoned) return NULL;
  bool own = l->place == IN_BODY && !l->prelude;
  Ref *prefetched = own ? NULL : prefetched_of(l, s);
  if (prefetched) return prefetched;
  if (l->place == IN_REFERENCE && !l->prelude) return s->kind == SYM_VAR ? s->ref : NULL;
  if (l->place != IN_BODY || l->prelude) return NULL;
  if (s->kind == SYM_OPERAND || s->kind == SYM_SCRATCH || s->kind == SYM_VAR) return s->ref;
  return s->kind == SYM_PARAMETER && s->value.kind == V_REF ? s->value.ref : NULL;
}

bool is_var(const Ref *ref) { return ref->role == REF_VAR || ref->role == REF_STATE; }

bool is_broken(const Lower *l, const Ref *ref) {
  for (int i = 0; i < l->broken.count; i++)
    if (l->broken.at[i] == ref) return true;
  return false;
}

void mark_broken(Lower *l, const Ref *ref) {
  if (!is_broken(l, ref)) LIST_PUSH(l->arena, &l->broken, ref);
}

// ---- windows

Cut whole_cut(Dim dim) { return (Cut){.whole = true, .stride = 1, .size = dim}; }

Instr *cut_start(Lower *l, const Cut *cut, Span span) {
  return cut->first >= 0 ? index_const(l, cut->first, span) : cut->start;
}

static void set_cut(Lower *l, View *view, int axis, const Cut *cut, Span span) {
  view->starts[axis] = cut_start(l, cut, span);
  view->window.size[axis] = cut->size;
  view->window.stride[axis] = cut->stride;
  view->window.squeeze[axis] = cut->squeeze;
  view->lengths[axis] = cut->length;
  if (!cut->squeeze) view->type.dim[view->type.rank++] = cut->size;
}

void view_of_cuts(Lower *l, Ref *ref, const Cut *cuts, Span span, View *view) {
  *view = (View){.ref = ref, .type = type_scalar(ref->type.dtype)};
  for (int k = 0; k < ref->type.rank; k++) {
    Cut whole = whole_cut(ref->type.dim[k]);
    set_cut(l, view, k, !cuts || cuts[k].vector ? &whole : &cuts[k], span);
  }
}

View whole_view(Lower *l, Ref *ref, Span span) {
  View view;
  view_of_cuts(l, ref, NULL, span, &view);
  return view;
}

// The last start at which a window is within the axis.
static Instr *last_start(Lower *l, Span span, Dim size, int64_t stride, Dim dim) {
  if (dim_is_const(size) && dim_is_const(dim))
    return index_const(l, dim - (size - 1) * stride - 1, span);
  Instr *one = index_const(l, 1, span),
        *steps = index_op(l, OP_SUB, dim_value(l, size, span), one, span);
  if (stride != 1) steps = index_op(l, OP_MUL, steps, index_const(l, stride, span), span);
  Instr *reach = index_op(l, OP_ADD, steps, one, span);
  return index_op(l, OP_SUB, dim_value(l, dim, span), reach, span);
}

Instr *moved_in(Lower *l, Span span, Instr *start, Dim size, int64_t stride, Dim dim) {
  if (start->op == OP_CONST) {
    int64_t at = ir_moved_in(start->ival, dim, size, stride);
    return at == start->ival ? start : index_const(l, at, span);
  }
  start = index_op(l, OP_MIN, start, last_start(l, span, size, stride, dim), span);
  return index_op(l, OP_MAX, start, index_const(l, 0, span), span);
}

bool is_all_of(const Node *window) {
  return window->kind == N_INDEX && window->list.count == 1 &&
         window->list.at[0]->kind == N_ELLIPSIS;
}

// Loads and stores access VMEM and SMEM. Reports a ref in another space, and returns false.
bool check_accessible(Lower *l, const Ref *ref, Span span) {
  if (ref->space == SPACE_ANY)
    diag_error(
        l->diag, span, ERR_HBM_ACCESS,
        "`%s` stays in HBM: copy a window of it with async_copy, as in async_copy(%s", ref->name,
        ref->role == REF_INPUT ? arena_printf(l->arena, "%s[..] -> buffer[..], s)", ref->name)
                               : arena_printf(l->arena, "buffer[..] -> %s[..], s)", ref->name));
  else if (ref->space == SPACE_SEM)
    diag_error(l->diag, span, ERR_BAD_SEMAPHORE, "`%s` is a semaphore: read(%s) returns its value",
               ref->name, ref->name);
  else
    return true;
  diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
  return false;
}

// ---- loads

// NULL, reported, when the ref's memory cannot be loaded from.
Instr *load_view(Lower *l, const View *view, Instr *mask, Instr *other, Span span) {
  Instr *args[MAX_RANK + 2];
  int count = view->ref->type.rank;
  if (!check_accessible(l, view->ref, span)) return NULL;
  for (int k = 0; k < count; k++) args[k] = view->starts[k];
  if (mask) args[count++] = mask;
  if (other) args[count++] = other;
  Instr *load = emit(l, OP_LOAD, view->type, span, count, args);
  load->ref = view->ref;
  load->window = view->window;
  load->flags = (mask ? INSTR_MASKED : 0u) | (other ? INSTR_OTHER : 0u);
  return load;
}

Value load_ref(Lower *l, Ref *ref, Span span) {
  View view;
  view_of_cuts(l, ref, NULL, span, &view);
  return value_data(load_view(l, &view, NULL, NULL, span));
}

// ---- stores

bool check_storable(Lower *l, Ref *ref, Span span) {
  bool input = ref->role == REF_INPUT || (ref->operand && ref->operand->role == REF_INPUT);
  if (!input) {
    if (ref_is_operand(ref)) l->stored[ref->id] = true;
    return true;
  }
  const Ref *output = NULL;
  for (int i = l->k->inputs; i < l->k->inputs + l->k->outputs; i++)
    if (l->k->refs.at[i]->alias == ref) output = l->k->refs.at[i];
  const char *why = output ? arena_printf(l->arena,
                                          "is an input whose memory the output `%s` shares: "
                                          "store to `%s`",
                                          output->name, output->name)
                    : ref->space == SPACE_ANY
                        ? "is an input that stays in HBM: nothing is stored to it"
                        : "is an input: only the kernel's own statements store to its block";
  diag_error(l->diag, span, ERR_STORE_TO_INPUT, "`%s` %s", ref->name, why);
  diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
  return false;
}

// The value's shape where it is an axis of 1 too long: [1, D] for [D].
static bool has_extra_ones(const Type *value, const Type *window) {
  Type tail = {.rank = value->rank};
  if (value->rank <= window->rank) return false;
  int extra = value->rank - window->rank;
  for (int i = 0; i < extra; i++)
    if (value->dim[i] != 1) return false;
  tail.rank = window->rank;
  for (int i = 0; i < tail.rank; i++) tail.dim[i] = value->dim[i + extra];
  return can_broadcast(&tail, window);
}

static void report_store_shape(Lower *l, const View *view, const Type *value, Span span) {
  const char *window = shape_text(l, &view->type);
  if (has_extra_ones(value, &view->type))
    diag_error(l->diag, span, ERR_STORE_SHAPE,
               "a value of shape %s does not fit a window of shape %s; write reshape(.., %s)",
               shape_text(l, value), window, window);
  else
    diag_error(l->diag, span, ERR_STORE_SHAPE,
               "a value of shape %s does not fit a window of shape %s", shape_text(l, value),
               window);
  diag_note(l->diag, view->ref->span, "`%s` is declared here%s", view->ref->name,
            axes_text(l, view->ref));
}

static Instr *lower_stored(Lower *l, const View *view, Value v, DType dtype, Span span,
                           const char *what) {
  Instr *value = convert(l, v, dtype, span, what);
  if (!value) return NULL;
  if (!can_broadcast(&value->type, &view->type)) {
    report_store_shape(l, view, &value->type, span);
    return NULL;
  }
  return broadcast_to(l, value, &view->type, span);
}

void store_view(Lower *l, const View *view, Value v, Value mask, Span span) {
  Instr *args[MAX_RANK + 2], *m = NULL;
  int count = view->ref->type.rank;
  if (!check_accessible(l, view->ref, span)) return;
  if (v.kind == V_VOID) {
    diag_error(l->diag, span, ERR_NO_RESULT, "this expression has no value to store");
    return;
  }
  Instr *value = lower_stored(l, view, v, view->type.dtype, span,
                              arena_printf(l->arena, "a store to `%s`", view->ref->name));
  if (mask.kind != V_VOID) m = lower_stored(l, view, mask, DT_BOOL, span, "the mask");
  if (!value || (mask.kind != V_VOID && !m)) return;
  for (int k = 0; k < count; k++) args[k] = view->starts[k];
  args[count++] = value;
  if (m) args[count++] = m;
  Instr *store = emit(l, OP_STORE, no_result, span, count, args);
  store->ref = view->ref;
  store->window = view->window;
  store->flags = m ? INSTR_MASKED : 0u;
}
