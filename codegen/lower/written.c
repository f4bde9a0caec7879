// Inputs whose own block the body stores to, and prefetched ones. Such a store is seen until the
// block's index changes, and never in the caller's array: the body works on a copy, which is made
// whenever the block is fetched. Extents and index maps read the caller's array.
#include "codegen/lower/refs.h"

#include <string.h>

// ---- which inputs

// A search for stores to an input: by its name, by names of views of it, and by functions that it
// is handed to.
typedef struct {
  Lower *l;
  LIST(const char *) names;
  LIST(const Node *) inside;  // parameters of functions that the search is in
} StoreSearch;

static bool names(const StoreSearch *s, const Node *window) {
  while (window && window->kind == N_INDEX) window = window->a;
  for (int i = 0; window && window->kind == N_NAME && i < s->names.count; i++)
    if (window->name == s->names.at[i]) return true;
  return false;
}

static bool is_call_of(const Node *node, const char *name) {
  return node && node->kind == N_CALL && node->list.count > 0 && strcmp(node->name, name) == 0;
}

static bool is_store(const Node *call) {
  return is_call_of(call, "store") || is_call_of(call, "scatter") ||
         is_call_of(call, "scatter_add");
}

static void find_views(StoreSearch *s, const Node *node) {
  if (!node) return;
  if (node->kind == N_LET && is_call_of(node->a, "view") && names(s, node->a->list.at[0]) &&
      !names(s, &(Node){.kind = N_NAME, .name = node->name}))
    LIST_PUSH(s->l->arena, &s->names, node->name);
  find_views(s, node->a);
  find_views(s, node->b);
  find_views(s, node->c);
  for (int i = 0; i < node->list.count; i++) find_views(s, node->list.at[i]);
}

static bool stores_in(StoreSearch *s, const Node *node);

static bool stores_by_parameter(StoreSearch *s, const Function *f, const Node *parameter) {
  StoreSearch inner = {.l = s->l, .inside = s->inside};
  for (int i = 0; i < s->inside.count; i++)
    if (s->inside.at[i] == parameter) return false;
  LIST_PUSH(s->l->arena, &inner.inside, parameter);
  LIST_PUSH(s->l->arena, &inner.names, parameter->name);
  find_views(&inner, f->node->b);
  bool stores = stores_in(&inner, f->node->b) || stores_in(&inner, f->node->a);
  s->inside = inner.inside;  // those that were searched are not searched again
  return stores;
}

static bool stores_by_call(StoreSearch *s, const Node *call) {
  const Function *f = find_function(s->l, call->name);
  for (int i = 0; f && i < call->list.count && i < f->node->list.count; i++)
    if (call->list.at[i]->kind == N_NAME && names(s, call->list.at[i]) &&
        stores_by_parameter(s, f, f->node->list.at[i]))
      return true;
  for (int i = 0; f && i < call->list2.count; i++)
    for (int k = 0; k < f->node->list.count; k++)
      if (call->list2.at[i]->name == f->node->list.at[k]->name && names(s, call->list2.at[i]->a) &&
          stores_by_parameter(s, f, f->node->list.at[k]))
        return true;
  return false;
}

static bool assigns(StoreSearch *s, const Node *node) {
  for (int i = 0; i < node->list.count; i++)
    if (names(s, node->list.at[i])) return true;
  return names(s, node->a);
}

static bool stores_in(StoreSearch *s, const Node *node) {
  if (!node || node->kind == N_FN) return false;
  if (node->kind == N_ASSIGN && assigns(s, node)) return true;
  if (node->kind == N_ARROW && names(s, node->b)) return true;
  if (is_store(node) && names(s, node->list.at[0])) return true;
  if (node->kind == N_CALL && stores_by_call(s, node)) return true;
  if (stores_in(s, node->a) || stores_in(s, node->b) || stores_in(s, node->c)) return true;
  for (int i = 0; i < node->list.count; i++)
    if (stores_in(s, node->list.at[i])) return true;
  return false;
}

static bool is_aliased(const Lower *l, const Ref *input) {
  for (int i = l->k->inputs; i < l->k->inputs + l->k->outputs; i++)
    if (l->k->refs.at[i]->alias == input) return true;
  return false;
}

static bool is_written(Lower *l, const Ref *input) {
  StoreSearch s = {.l = l};
  if (input->space == SPACE_ANY || is_broken(l, input) || is_aliased(l, input)) return false;
  LIST_PUSH(l->arena, &s.names, input->name);
  find_views(&s, l->node->a);
  return stores_in(&s, l->node->a);
}

// ---- the copy

static bool is_taken(Lower *l, const char *name) {
  for (int i = 0; i < l->k->refs.count; i++)
    if (strcmp(l->k->refs.at[i]->name, name) == 0) return true;
  return find_symbol(l, name) != NULL;
}

static Ref *own_scratch(Lower *l, const Ref *input, const char *what, Space space, Type type) {
  const char *name = arena_printf(l->arena, "%s_%s", input->name, what);
  while (is_taken(l, intern(name))) name = arena_printf(l->arena, "%s_", name);
  Ref *ref = NEW(l->arena, Ref);
  *ref = (Ref){.name = intern(name),
               .id = l->k->refs.count,
               .role = REF_SCRATCH,
               .space = space,
               .type = type,
               .span = input->span};
  LIST_PUSH(l->arena, &l->k->refs, ref);
  return ref;
}

static Instr *grid_scalar(Lower *l, Op op, int axis, Span span) {
  Instr *v = emit(l, op, type_scalar(DT_I64), span, 0, NULL);
  v->ival = axis;
  return v;
}

// The first step of those that scratch lives through: all later axes begin again, and so does each
// axis before them up to a parallel one that has more than one index. NULL: every step is.
static Instr *first_step(Lower *l, Span span) {
  Type truth = type_scalar(DT_BOOL);
  Instr *first = NULL;
  for (int i = 0; i < l->k->grid.count; i++) {
    if (!l->k->grid.at[i].parallel) {
      Instr *axis = grid_scalar(l, OP_AXIS, i, span);
      Instr *begins = emit2(l, OP_EQ, truth, span, axis, index_const(l, 0, span));
      first = first ? emit2(l, OP_AND, truth, span, first, begins) : begins;
    } else if (first) {
      Instr *extent = grid_scalar(l, OP_EXTENT, i, span);
      Instr *moves = emit2(l, OP_GT, truth, span, extent, index_const(l, 1, span));
      first = emit2(l, OP_OR, truth, span, moves, first);
    }
  }
  return first;
}

// An entry of the index map as an i32; a value that does not fit is outside any array.
static Instr *map_entry(Lower *l, Instr *v) {
  Type index = type_scalar(DT_I64);
  Span span = v->span;
  v = emit2(l, OP_MAX, index, span, v, index_const(l, INT32_MIN, span));
  v = emit2(l, OP_MIN, index, span, v, index_const(l, INT32_MAX, span));
  return emit1(l, OP_CAST, type_scalar(DT_I32), span, v);
}

typedef struct {
  Instr *value[2 * MAX_RANK];
  int count;
  Ref *last;  // what they were when the block was fetched
} Entries;

static bool lower_entries(Lower *l, const Ref *input, Entries *e) {
  const Node *spec = l->spec[input->id];
  *e = (Entries){.count = 0};
  for (int i = 0; spec && i < spec->list2.count; i++) {
    const Node *node = spec->list2.at[i];
    bool slice = input->at == AT_SLICE && node->kind == N_CALL && strcmp(node->name, "ds") == 0 &&
                 node->list.count == 2;
    for (int k = 0; k < 1 + slice; k++) {
      Instr *v = lower_index(l, slice ? node->list.at[k] : node);
      if (!v) return false;
      if (v->op != OP_CONST) e->value[e->count++] = map_entry(l, v);
    }
  }
  if (e->count == 0) return true;
  Type type = {.dtype = DT_I32, .rank = 1, .dim = {e->count}};
  e->last = own_scratch(l, input, "index", SPACE_SMEM, type);
  return true;
}

static View entry_view(Lower *l, const Entries *e, int i, Span span) {
  View view = {.ref = e->last, .type = type_scalar(DT_I32)};
  view.starts[0] = index_const(l, i, span);
  view.window = (Window){.size = {1}, .stride = {1}, .squeeze = {true}};
  return view;
}

static Instr *entries_changed(Lower *l, const Entries *e, Span span) {
  Type truth = type_scalar(DT_BOOL);
  Instr *changed = NULL;
  for (int i = 0; i < e->count; i++) {
    View view = entry_view(l, e, i, span);
    Instr *differs =
        emit2(l, OP_NE, truth, span, load_view(l, &view, NULL, NULL, span), e->value[i]);
    changed = changed ? emit2(l, OP_OR, truth, span, changed, differs) : differs;
  }
  return changed;
}

// first || changed, where what is remembered is read only after the first step.
static Instr *is_fetched(Lower *l, Instr *first, const Entries *e, Span span) {
  Frame frame;
  if (!first || e->count == 0) return first;
  Instr *choice = ir_new(l->k, OP_IF, type_scalar(DT_BOOL), span, 1, &first);
  choice->regions[0] = enter_region(l, &frame);
  yield_from(l, ir_const_int(l->k, l->frame->region, DT_BOOL, 1, span), span);
  leave_region(l);
  choice->regions[1] = enter_region(l, &frame);
  yield_from(l, entries_changed(l, e, span), span);
  leave_region(l);
  return ir_append(l->k, l->frame->region, choice);
}

static void copy_block(Lower *l, Ref *input, Ref *own, const Entries *e, Span span) {
  Value none = {.kind = V_VOID};
  View all = whole_view(l, own, span);
  store_view(l, &all, load_ref(l, input, span), none, span);
  for (int i = 0; i < e->count; i++) {
    View view = entry_view(l, e, i, span);
    store_view(l, &view, value_data(e->value[i]), none, span);
  }
}

static Ref *own_block(Lower *l, Ref *input) {
  Frame frame;
  Entries e;
  Span span = input->span;
  if (!lower_entries(l, input, &e)) return NULL;
  Ref *own = own_scratch(l, input, "block", input->space, input->type);
  Instr *fetched = is_fetched(l, first_step(l, span), &e, span);
  if (!fetched) {
    copy_block(l, input, own, &(Entries){.count = 0}, span);
    return own;
  }
  Region *then = enter_region(l, &frame);
  copy_block(l, input, own, &e, span);
  leave_region(l);
  emit1(l, OP_IF, no_result, span, fetched)->regions[0] = then;
  return own;
}

void lower_written_inputs(Lower *l) {
  int inputs = l->k->inputs;
  Ref **own = NEW_ARRAY(l->arena, Ref *, inputs + 1);
  for (int i = 0; i < inputs; i++)
    if (is_written(l, l->k->refs.at[i])) own[i] = own_block(l, l->k->refs.at[i]);
  for (int i = 0; i < inputs; i++)
    if (own[i]) find_symbol(l, l->k->refs.at[i]->name)->ref = own[i];
}

// For the reference, which sees the arrays.
void restore_inputs(Lower *l) {
  for (int i = 0; i < l->k->inputs; i++) {
    Symbol *s = find_symbol(l, l->k->refs.at[i]->name);
    if (s && s->kind == SYM_OPERAND) s->ref = l->k->refs.at[i];
  }
}
