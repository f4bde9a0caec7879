// Views: a window of a ref under another dtype, shape or order of axes. Loads and stores follow the
// routes to the window.
#include "codegen/ir/layout.h"
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

Ref *view_var(Lower *l, const Type *type, const char *name, Span span) {
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

// ---- copies

bool check_layouts(Lower *l, const Instr *copy, const Span *spans) {
  Layout *end = NEW_ARRAY(l->arena, Layout, 2);
  const Ref *of[] = {copy->ref, copy->target};
  int at = -1;
  if (!ir_copies_views(copy)) return true;
  for (int i = 0; i < 2 && at < 0; i++)
    if (!ir_layout(l->k, copy, i, &end[i])) at = i;
  if (at < 0 && !layout_pair(l->k, &end[0], &end[1])) at = copy->chain ? 0 : 1;
  if (at >= 0)
    diag_error(l->diag, spans[at], ERR_BAD_COPY, "this view of `%s` has too many steps",
               of[at]->name);
  return at < 0;
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

// The first route begins at the ref, each further one at the value that the one before it gives.
typedef LIST(Route) Routes;

static RefView view_of_value(Lower *l, const Type *type, Span span) {
  Ref *value = NEW(l->arena, Ref);
  *value = (Ref){.type = *type};
  return (RefView){.window = whole_view(l, value, span)};
}

// Finds the route of the longest prefix of the steps. Returns its length, or -1.
static int first_route(Lower *l, const RefView *view, Route *out, Span span) {
  RefView part = *view;
  for (; part.steps.count >= 0; part.steps.count--)
    if (route_of_view(l, &part, out, span)) return part.steps.count;
  return -1;
}

static bool has_constant_starts(const View *window) {
  for (int k = 0; k < window->ref->type.rank; k++)
    if (window->starts[k]->op != OP_CONST) return false;
  return true;
}

// reads: routes after the first may also slice the value. Returns false if the view must be copied.
static bool find_routes(Lower *l, const RefView *view, bool reads, Routes *out, Span span) {
  RefView left = *view;
  for (;;) {
    Route route;
    int steps = first_route(l, &left, &route, span);
    bool further = out->count > 0;
    if (steps < 0 || (further && steps == 0)) return false;
    if (further &&
        !(reads ? has_constant_starts(&route.window) : is_all_of_ref(&route.window) && !route.bit))
      return false;
    LIST_PUSH(l->arena, out, route);
    if (steps == left.steps.count) return true;
    RefView next = view_of_value(l, &route.type, span);
    for (int i = steps; i < left.steps.count; i++)
      LIST_PUSH(l->arena, &next.steps, left.steps.at[i]);
    left = next;
  }
}

static Instr *cut_out(Lower *l, const View *window, Instr *v, Span span) {
  const Window *w = &window->window;
  if (is_all_of_ref(window)) return v;
  Type whole = v->type;
  for (int k = 0; k < whole.rank; k++) whole.dim[k] = w->size[k];
  Instr *slice = emit1(l, OP_SLICE, whole, span, v);
  for (int k = 0; k < whole.rank; k++) {
    slice->ints[k] = window->starts[k]->ival;
    slice->ints2[k] = w->stride[k];
  }
  return reshape_to(l, slice, &window->type, span);
}

// ---- one part of each element

static Instr *filled(Lower *l, Instr *scalar, const Type *like, Span span) {
  if (scalar->type.dtype != like->dtype)
    scalar = emit1(l, OP_CAST, type_scalar(like->dtype), span, scalar);
  return broadcast_to(l, scalar, like, span);
}

// Elements as unsigned integers, the part in their lowest bits.
static Instr *shifted(Lower *l, Op op, Instr *v, Instr *bit, Span span) {
  return emit2(l, op, v->type, span, v, filled(l, bit, &v->type, span));
}

static Instr *part_of(Lower *l, const Route *r, Instr *v, Span span) {
  DType part = unsigned_of_width(dtype_info[r->parts.dtype].bits);
  v = bitcast_to(l, v, unsigned_of_width(dtype_info[v->type.dtype].bits), span);
  v = shifted(l, OP_USHR, v, r->bit, span);
  return bitcast_to(l, emit1(l, OP_CAST, with_dtype(v->type, part), span, v), r->parts.dtype, span);
}

// The window's value with one part replaced.
static Instr *with_part(Lower *l, const Route *r, Instr *part, Span span) {
  int bits = dtype_info[r->parts.dtype].bits;
  DType whole = unsigned_of_width(dtype_info[r->window.type.dtype].bits);
  Instr *old = bitcast_to(l, load_view(l, &r->window, NULL, NULL, span), whole, span);
  Instr *ones = index_const(l, ((int64_t)1 << bits) - 1, span);
  Instr *mask = shifted(l, OP_SHL, filled(l, ones, &old->type, span), r->bit, span);
  part = bitcast_to(l, part, unsigned_of_width(bits), span);
  part = shifted(l, OP_SHL, emit1(l, OP_CAST, old->type, span, part), r->bit, span);
  old = emit2(l, OP_AND, old->type, span, old, emit1(l, OP_NOT, old->type, span, mask));
  return bitcast_to(l, emit2(l, OP_OR, old->type, span, old, part), r->window.type.dtype, span);
}

static Instr *forth(Lower *l, const Route *r, Instr *v, Span span) {
  v = r->bit ? part_of(l, r, v, span) : bitcast_to(l, v, r->parts.dtype, span);
  v = transpose_to(l, reshape_to(l, v, &r->split, span), r->perm, span);
  return bitcast_to(l, reshape_to(l, v, &r->seen, span), r->type.dtype, span);
}

// Reorders parts from the view's order to the window's.
static Instr *in_order_of_window(Lower *l, const Route *r, Instr *v, Span span) {
  Type split = r->split;
  int inverse[MAX_RANK];
  for (int i = 0; i < split.rank; i++) {
    inverse[r->perm[i]] = i;
    split.dim[i] = r->split.dim[r->perm[i]];
  }
  v = transpose_to(l, reshape_to(l, v, &split, span), inverse, span);
  return reshape_to(l, v, &r->parts, span);
}

// The value to store so that the view reads as v.
static Instr *back(Lower *l, const Route *r, Instr *v, Span span) {
  v = in_order_of_window(l, r, bitcast_to(l, v, r->parts.dtype, span), span);
  return r->bit ? with_part(l, r, v, span) : bitcast_to(l, v, r->window.type.dtype, span);
}

// The axes of elements, whose last but one becomes two: of elements and of the parts of one.
static Type split_rows(const Type *elements, int64_t parts) {
  Type split = with_dtype(*elements, DT_BOOL);
  int row = split.rank++ - 2;
  for (int i = split.rank - 1; i > row + 1; i--) split.dim[i] = split.dim[i - 1];
  split.dim[row + 1] = parts;
  return split;
}

// An element's mask holds for each of its parts.
static Instr *mask_of_parts(Lower *l, const Type *elements, int64_t count, const Type *parts,
                            Instr *m, Span span) {
  Type many = split_rows(elements, count), one = split_rows(elements, 1);
  m = broadcast_to(l, reshape_to(l, m, &one, span), &many, span);
  return reshape_to(l, m, parts, span);
}

// An element is stored if any of its parts is.
static Instr *mask_of_elements(Lower *l, const Type *elements, int64_t count, Instr *m, Span span) {
  Type many = split_rows(elements, count), one = split_rows(elements, 1);
  Instr *any = emit1(l, OP_REDUCE_OR, one, span, reshape_to(l, m, &many, span));
  any->ival = 1 << (elements->rank - 1);
  return reshape_to(l, any, elements, span);
}

// The mask of a value of type `from` as that of its bits in `to`.
static Instr *mask_of_bits(Lower *l, const Type *from, const Type *to, Instr *m, Span span) {
  int64_t have = dtype_info[from->dtype].bits, want = dtype_info[to->dtype].bits;
  return have > want   ? mask_of_parts(l, from, have / want, to, m, span)
         : have < want ? mask_of_elements(l, to, want / have, m, span)
                       : m;
}

static Instr *mask_back(Lower *l, const Route *r, Instr *m, Span span) {
  m = in_order_of_window(l, r, mask_of_bits(l, &r->type, &r->seen, m, span), span);
  return r->bit ? m : mask_of_bits(l, &r->parts, &r->window.type, m, span);
}

static Value read_moved(Lower *l, const RefView *view, Span span) {
  Ref *var = view_var(l, view_type(view), view->window.ref->name, span);
  move_view(l, view, var, false, span);
  return load_ref(l, var, span);
}

// Scales have no 0.
Value nothing_of(DType t) { return t == DT_BOOL ? value_bool(false) : value_int(is_scale(t)); }

// A view without elements needs no place in its ref.
static Value read_nothing(Lower *l, const Type *type, Span span) {
  Instr *v = convert(l, nothing_of(type->dtype), type->dtype, span, "a load");
  return v ? value_data(broadcast_to(l, v, type, span)) : value_error();
}

Value read_view(Lower *l, const RefView *view, Span span) {
  Routes routes = {0};
  if (!check_accessible(l, view->window.ref, span)) return value_error();
  if (type_is_empty(view_type(view))) return read_nothing(l, view_type(view), span);
  if (!find_routes(l, view, true, &routes, span)) return read_moved(l, view, span);
  Instr *v = load_view(l, &routes.at[0].window, NULL, NULL, span);
  for (int i = 0; v && i < routes.count; i++) {
    if (i) v = cut_out(l, &routes.at[i].window, v, span);
    v = forth(l, &routes.at[i], v, span);
  }
  return v ? value_data(v) : value_error();
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

static bool is_narrower(const Type *a, const Type *b) {
  return dtype_info[a->dtype].bits < dtype_info[b->dtype].bits;
}

// Elements of the view are parts of those of the ref.
static bool is_of_parts(const Routes *routes) {
  for (int i = 0; i < routes->count; i++) {
    const Route *r = &routes->at[i];
    if ((!r->bit && is_narrower(&r->parts, &r->window.type)) || is_narrower(&r->type, &r->seen))
      return true;
  }
  return false;
}

static void store_moved(Lower *l, const RefView *view, Instr *v, Span span) {
  Ref *var = view_var(l, view_type(view), view->window.ref->name, span);
  View all = whole_view(l, var, span);
  store_view(l, &all, value_data(v), (Value){.kind = V_VOID}, span);
  move_view(l, view, var, true, span);
}

static void store_routed(Lower *l, const Routes *routes, Instr *v, Instr *m, Span span) {
  for (int i = routes->count - 1; i >= 0; i--) {
    v = back(l, &routes->at[i], v, span);
    if (m) m = mask_back(l, &routes->at[i], m, span);
  }
  Value mask = m ? value_data(m) : (Value){.kind = V_VOID};
  store_view(l, &routes->at[0].window, value_data(v), mask, span);
}

// Where the mask is false, the view keeps what it has.
static Instr *kept(Lower *l, const RefView *view, Instr *m, Instr *v, Span span) {
  Instr *args[] = {m, v, read_view(l, view, span).instr};
  return args[2] ? emit(l, OP_SELECT, v->type, span, 3, args) : NULL;
}

// Stores a value to a view.
void write_view(Lower *l, const RefView *view, Value value, Value mask, Span span) {
  if (!check_storable(l, view->window.ref, span)) return;
  bool masked = mask.kind != V_VOID;
  Routes routes = {0};
  bool empty = type_is_empty(view_type(view)),
       moved = !empty && !find_routes(l, view, false, &routes, span);
  if (!check_accessible(l, view->window.ref, span)) return;
  Instr *v = shaped(l, view, value, view_type(view)->dtype, "a store to a view", span);
  Instr *m = v && masked ? shaped(l, view, mask, DT_BOOL, "the mask", span) : NULL;
  if (!v || (masked && !m) || empty) return;
  if (m && (moved || is_of_parts(&routes))) v = kept(l, view, m, v, span);
  if (v && moved)
    store_moved(l, view, v, span);
  else if (v)
    store_routed(l, &routes, v, m, span);
}

// ---- names

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
