// Views: a window of a ref under another dtype, shape or order of axes. Loads and stores go through
// to the window.
#include "codegen/ir/layout.h"
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

// among its steps
static bool view_has_windows(const RefView *view) {
  for (int i = 0; i < view->steps.count; i++)
    if (view->steps.at[i].kind == CHAIN_WINDOW) return true;
  return false;
}

static Ref *new_var(Lower *l, const Type *type, const char *name, Span span) {
  Ref *var = NEW(l->arena, Ref);
  *var = (Ref){.name = name,
               .id = l->k->refs.count,
               .role = REF_VAR,
               .space = SPACE_VAR,
               .type = *type,
               .span = span};
  LIST_PUSH(l->arena, &l->k->refs, var);
  return var;
}

// ---- as the IR has it

static bool is_all_of_ref(const View *window) {
  const Window *w = &window->window;
  for (int i = 0; i < window->ref->type.rank; i++)
    if (w->size[i] != window->ref->type.dim[i] || w->stride[i] != 1 || w->squeeze[i] ||
        !ir_is_const(window->starts[i], 0))
      return false;
  return true;
}

void push_args(Lower *l, Arguments *args, Instr *const *values, int count) {
  for (int i = 0; i < count; i++) LIST_PUSH(l->arena, args, values[i]);
}

static ChainStep chain_window(Lower *l, Arguments *args, const View *window, const Type *of,
                              bool clamped, Span span) {
  const Window *w = &window->window;
  for (int i = 0; i < of->rank; i++) {
    Instr *start = clamped
                       ? moved_in(l, span, window->starts[i], w->size[i], w->stride[i], of->dim[i])
                       : window->starts[i];
    LIST_PUSH(l->arena, args, start);
  }
  return (ChainStep){.kind = CHAIN_WINDOW, .type = window->type, .window = *w};
}

const Chain *push_chain(Lower *l, Arguments *args, const RefView *view, bool clamped, Span span) {
  LIST(ChainStep) steps = {0};
  const Type *before = &view->window.ref->type;
  if (!is_all_of_ref(&view->window)) {
    ChainStep step = chain_window(l, args, &view->window, before, clamped, span);
    LIST_PUSH(l->arena, &steps, step);
    before = &view->window.type;
  }
  for (int i = 0; i < view->steps.count; before = &view->steps.at[i++].type) {
    const ViewStep *of = &view->steps.at[i];
    ChainStep step = {.kind = of->kind, .type = of->type};
    memcpy(step.perm, of->perm, sizeof step.perm);
    if (of->kind == CHAIN_WINDOW) step = chain_window(l, args, &of->window, before, clamped, span);
    LIST_PUSH(l->arena, &steps, step);
  }
  if (steps.count == 0) return NULL;
  Chain *chain = NEW(l->arena, Chain);
  *chain = (Chain){steps.count, steps.at};
  return chain;
}

// Are the moved parts smaller than an element of the ref?
static bool has_parts(const Layout *l) {
  return layout_part_bits(l) < dtype_info[l->ref->type.dtype].bits;
}

// Why a copy cannot move the view at one of its ends, or NULL.
static const char *unmovable(const Instr *copy, const Layout *end, bool target) {
  bool remote = copy->op == OP_REMOTE_START;
  if (!has_parts(end)) return NULL;
  if (end->ref->packed) return "`%s` is packed: a copy does not cut its elements into parts";
  if (remote && layout_part_bits(end) < 8) return "a remote copy from or to `%s` moves whole bytes";
  if (remote && target && end->ref->space == SPACE_ANY)
    return "a remote copy to `%s`, which stays in HBM, moves whole elements of it: give it the "
           "dtype of the view, or copy to VMEM";
  return NULL;
}

bool check_layouts(Lower *l, const Instr *copy, const Span *spans) {
  static const char long_chain[] = "this view of `%s` has too many steps";
  Layout *end = NEW_ARRAY(l->arena, Layout, 2);
  const Ref *of[] = {copy->ref, copy->target};
  const char *why = NULL;
  int at = 0;
  if (!ir_copies_views(copy)) return true;
  for (int i = 0; i < 2 && !why; i++)
    if (!ir_layout(l->k, copy, i, &end[i])) why = long_chain, at = i;
  if (!why && !layout_pair(l->k, &end[0], &end[1])) why = long_chain, at = copy->chain ? 0 : 1;
  for (int i = 0; i < 2 && !why; i++) why = unmovable(copy, &end[i], i), at = i;
  if (why) diag_error(l->diag, spans[at], ERR_BAD_COPY, why, of[at]->name);
  return !why;
}

// Copies a whole view to a var, or the other way round.
static void move_view(Lower *l, const RefView *view, Ref *var, bool stores, Span span) {
  Arguments args = {0};
  const Type *type = view_type(view);
  Instr *zero = index_const(l, 0, span);
  Window all = {0};
  for (int i = 0; i < type->rank; i++) {
    all.size[i] = type->dim[i];
    all.stride[i] = 1;
  }
  for (int i = 0; i < 2 * type->rank; i++) LIST_PUSH(l->arena, &args, zero);
  const Chain *chain = push_chain(l, &args, view, true, span);
  Instr *move = emit(l, OP_MOVE, no_result, span, args.count, args.at);
  move->ref = stores ? var : view->window.ref;
  move->target = stores ? view->window.ref : var;
  *(stores ? &move->target_chain : &move->chain) = chain;
  move->window = move->target_window = all;
  check_layouts(l, move, (Span[]){span, span});
}

// ---- through a view

static Instr *apply(Lower *l, const ViewStep *step, Instr *v, Span span) {
  switch (step->kind) {
    case CHAIN_BITCAST:
      return bitcast_to(l, v, step->type.dtype, span);
    case CHAIN_RESHAPE:
      return reshape_to(l, v, &step->type, span);
    default:
      return transpose_to(l, v, step->perm, span);
  }
}

// The value to store so that the view reads as v.
static Instr *undo(Lower *l, const ViewStep *step, const Type *before, Instr *v, Span span) {
  int inverse[MAX_RANK];
  switch (step->kind) {
    case CHAIN_BITCAST:
      return bitcast_to(l, v, before->dtype, span);
    case CHAIN_RESHAPE:
      return reshape_to(l, v, before, span);
    default:
      for (int i = 0; i < before->rank; i++) inverse[step->perm[i]] = i;
      return transpose_to(l, v, inverse, span);
  }
}

// The view as a view of a window of the ref that includes the windows among the steps; false: one
// of them cannot be included.
static bool without_windows(Lower *l, const RefView *view, RefView *out, Span span) {
  *out = (RefView){.window = view->window};
  for (int i = 0; i < view->steps.count; i++) {
    const ViewStep *step = &view->steps.at[i];
    RefView part;
    if (step->kind != CHAIN_WINDOW) {
      LIST_PUSH(l->arena, &out->steps, *step);
      continue;
    }
    if (!part_of_view(l, out, &step->window, &part, span)) return false;
    *out = part;
  }
  return true;
}

// A constant part of a value that otherwise moves nothing is cut out of the value.
static bool is_constant_part(const ViewStep *step, const Type *of) {
  bool constant = step->kind == CHAIN_WINDOW;
  for (int k = 0; constant && k < of->rank; k++) constant = step->window.starts[k]->op == OP_CONST;
  return constant;
}

static Instr *cut_out(Lower *l, const ViewStep *step, Instr *v, Span span) {
  const Window *w = &step->window.window;
  Type whole = v->type;
  for (int k = 0; k < whole.rank; k++) whole.dim[k] = w->size[k];
  Instr *slice = emit1(l, OP_SLICE, whole, span, v);
  for (int k = 0; k < whole.rank; k++) {
    slice->ints[k] = step->window.starts[k]->ival;
    slice->ints2[k] = w->stride[k];
  }
  return reshape_to(l, slice, &step->type, span);
}

static Value read_moved(Lower *l, const RefView *view, Span span) {
  Ref *var = new_var(l, view_type(view), view->window.ref->name, span);
  if (!check_accessible(l, view->window.ref, span)) return value_error();
  move_view(l, view, var, false, span);
  return load_ref(l, var, span);
}

// The value of a view without windows among its steps; NULL, reported, if the ref cannot be read.
static Instr *read_flat(Lower *l, const RefView *flat, Span span) {
  Instr *v = load_view(l, &flat->window, NULL, NULL, span);
  for (int i = 0; v && i < flat->steps.count; i++) v = apply(l, &flat->steps.at[i], v, span);
  return v;
}

Value read_view(Lower *l, const RefView *view, Span span) {
  RefView flat, rest = *view;
  Instr *v;
  if (without_windows(l, view, &flat, span)) {
    v = read_flat(l, &flat, span);
  } else {
    const ViewStep *last = &rest.steps.at[--rest.steps.count];
    if (!is_constant_part(last, view_type(&rest)) || !without_windows(l, &rest, &flat, span))
      return read_moved(l, view, span);
    v = read_flat(l, &flat, span);
    if (v) v = cut_out(l, last, v, span);
  }
  return v ? value_data(v) : value_error();
}

// A mask through a bitcast to another width: an element is stored if one of its parts is, and parts
// are stored if their element is.
static Instr *undo_mask_widths(Lower *l, const Type *before, const Type *after, Instr *m,
                               Span span) {
  int row = before->rank - 2;
  int64_t from = dtype_info[before->dtype].bits, to = dtype_info[after->dtype].bits;
  bool wider = from > to;
  Type few = with_dtype(wider ? *before : *after, DT_BOOL), split = few;
  if (from == to) return m;
  for (int i = few.rank; i > row + 1; i--) split.dim[i] = few.dim[i - 1];
  split.rank++;
  split.dim[row + 1] = wider ? from / to : to / from;
  Type one = split;
  one.dim[row + 1] = 1;
  if (wider) {
    Instr *any = emit1(l, OP_REDUCE_OR, one, span, reshape_to(l, m, &split, span));
    any->ival = 1 << (row + 1);
    return reshape_to(l, any, &few, span);
  }
  m = broadcast_to(l, reshape_to(l, m, &one, span), &split, span);
  Type many = with_dtype(*before, DT_BOOL);
  return reshape_to(l, m, &many, span);
}

static Instr *undo_mask(Lower *l, const ViewStep *step, const Type *before, Instr *m, Span span) {
  const Type shape = with_dtype(*before, DT_BOOL);
  return step->kind == CHAIN_BITCAST ? undo_mask_widths(l, before, &step->type, m, span)
                                     : undo(l, step, &shape, m, span);
}

// A value or a mask in the shape of the view.
static Instr *shaped(Lower *l, const RefView *view, Value value, DType dtype, const char *what,
                     Span span) {
  const Type *type = view_type(view);
  Instr *v = convert(l, value, dtype, span, what);
  if (!v) return NULL;
  if (can_broadcast(&v->type, type)) return broadcast_to(l, v, type, span);
  diag_error(l->diag, span, ERR_STORE_SHAPE, "a value of shape %s does not fit a view of shape %s",
             shape_text(l, &v->type), shape_text(l, type));
  return NULL;
}

// Elements of the view are parts of those of the ref.
static bool is_of_parts(const RefView *view) {
  DType dtype = view->window.type.dtype;
  for (int i = 0; i < view->steps.count; dtype = view->steps.at[i++].type.dtype)
    if (dtype_info[view->steps.at[i].type.dtype].bits < dtype_info[dtype].bits) return true;
  return false;
}

// Stores a value to a view: the steps of the view are inverted.
void write_view(Lower *l, const RefView *view, Value value, Value mask, Span span) {
  if (!check_storable(l, view->window.ref, span)) return;
  bool masked = mask.kind != V_VOID;
  RefView flat;
  bool moved = view_has_windows(view) && !without_windows(l, view, &flat, span);
  if (view_has_windows(view) && !moved) view = &flat;
  if (moved && !check_accessible(l, view->window.ref, span)) return;
  Instr *v = shaped(l, view, value, view_type(view)->dtype, "a store to a view", span);
  Instr *m = v && masked ? shaped(l, view, mask, DT_BOOL, "the mask", span) : NULL;
  if (!v || (masked && !m)) return;
  if (m && (is_of_parts(view) || moved)) {
    Instr *args[] = {m, v, read_view(l, view, span).instr};
    if (!args[2]) return;
    v = emit(l, OP_SELECT, v->type, span, 3, args);
  }
  if (moved) {
    Ref *var = new_var(l, view_type(view), view->window.ref->name, span);
    View all = whole_view(l, var, span);
    store_view(l, &all, value_data(v), (Value){.kind = V_VOID}, span);
    move_view(l, view, var, true, span);
    return;
  }
  for (int i = view->steps.count - 1; v && i >= 0; i--) {
    const Type *before = i ? &view->steps.at[i - 1].type : &view->window.type;
    v = undo(l, &view->steps.at[i], before, v, span);
    if (m) m = undo_mask(l, &view->steps.at[i], before, m, span);
  }
  if (v) store_view(l, &view->window, value_data(v), m ? value_data(m) : mask, span);
}

// ---- parts of a view

const RefView *folded_view(Lower *l, const Node *window) {
  const RefView *view = named_view(l, window->kind == N_INDEX ? window->a : window);
  return view && (view->steps.count || !is_all_of(window)) ? view : NULL;
}

Ref *unfold_view(Lower *l, const RefView *view, const char *name, Span span) {
  Ref *var = new_var(l, view_type(view), name, span);
  View all = whole_view(l, var, span);
  Value v = read_view(l, view, span);
  if (!is_error(v)) store_view(l, &all, v, (Value){.kind = V_VOID}, span);
  return var;
}

// The content of a variable where nothing is stored; scales have no 0.
static void clear(Lower *l, Ref *var, Span span) {
  View all = whole_view(l, var, span);
  DType t = var->type.dtype;
  Value nothing = t == DT_BOOL ? value_bool(false) : value_int(is_scale(t));
  store_view(l, &all, nothing, (Value){.kind = V_VOID}, span);
}

Unfolded unfold_for_stores(Lower *l, const RefView *view, const char *name, bool reads, Span span) {
  Type mask = with_dtype(*view_type(view), DT_BOOL);
  Unfolded u = {reads ? unfold_view(l, view, name, span) : new_var(l, view_type(view), name, span),
                new_var(l, &mask, name, span)};
  if (!reads) clear(l, u.var, span);
  clear(l, u.stored, span);
  return u;
}

View stored_window(const Unfolded *u, const View *window) {
  View same = *window;
  same.ref = u->stored;
  same.type.dtype = DT_BOOL;
  return same;
}

void store_unfolded(Lower *l, const Unfolded *u, const View *window, Value v, Value mask,
                    Span span) {
  const View stored = stored_window(u, window);
  store_view(l, window, v, mask, span);
  store_view(l, &stored, value_bool(true), mask, span);
}

void fold_view(Lower *l, const RefView *view, const Unfolded *u, Span span) {
  write_view(l, view, load_ref(l, u->var, span), load_ref(l, u->stored, span), span);
}

// The whole of a view where a window is expected: allowed only if it has no steps.
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
