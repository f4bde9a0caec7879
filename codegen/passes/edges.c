// Pass `edges`: the store of an elementwise function of a padded value becomes several: one for the
// interior, which reads the unpadded value in place, and others for the edges, where the padding is
// a constant. No padded copy is made.
//
// Requires: simplified IR. Preserves: every stored bit, and the operations of each element.
// Changes: the number of stores.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

#include <string.h>

// The maximum number of operations of all parts together, each of which is written separately in
// the C.
enum { MOST_OPERATIONS = 512 };

typedef struct {
  int64_t at[16];  // the starts of the parts, ascending; then the end
  int count;       // of parts
} Cuts;

// A store and the elementwise values that only it reads.
typedef struct {
  Kernel *k;
  Region *region;  // being rebuilt
  Uses uses;
  int *seen;      // by Instr.id: the uses by the values of this store
  int *store_of;  // by Instr.id: the number of the store to whose value it belongs
  Instr **made;   // by Instr.id: its counterpart in the current part
  int number;     // of the store
  LIST(Instr *) values;
  LIST(Instr *) leaves;
  Cuts cuts[MAX_RANK];
  int64_t from[MAX_RANK];  // the part at work: where it begins
  Type part;               // the shape of a part
  int split;
} Edges;

// ---- what the store reads

static bool is_value(const Edges *e, const Instr *v) {
  return op_is_elementwise(v->op) && v->type.rank > 0 && e->uses.home[v->id] == e->region &&
         e->seen[v->id] == e->uses.count[v->id];
}

static void gather(Edges *e, Instr *v) {
  e->store_of[v->id] = e->number;
  LIST_PUSH(e->k->arena, &e->values, v);
  for (int i = 0; i < v->nargs; i++) {
    Instr *arg = v->args[i];
    if (++e->seen[arg->id] == 1) LIST_PUSH(e->k->arena, &e->leaves, arg);
    if (is_value(e, arg)) gather(e, arg);
  }
}

static bool is_leaf(const Edges *e, const Instr *v) { return e->store_of[v->id] != e->number; }

static const Instr *pad_of(const Instr *leaf) {
  const Instr *v = leaf->op == OP_SLICE ? leaf->args[0] : leaf;
  return v->op == OP_PAD ? v : NULL;
}

static bool is_padded(const Instr *pad, int axis) {
  return pad->ints[axis] != 0 || pad->ints2[axis] != 0;
}

// Is a value padded only along axes that may be divided into parts?
static bool may_divide(const Instr *store, const Instr *pad) {
  for (int i = 0; i < pad->type.rank; i++) {
    const int k = window_axis(store, i);
    if (is_padded(pad, i) && (pad->ints[i] < 0 || pad->ints2[i] < 0 || i == pad->type.rank - 1 ||
                              !dim_is_const(pad->type.dim[i]) || !ir_axis_is_inside(store, k) ||
                              !never_overhangs(store->ref, k)))
      return false;
  }
  return true;
}

// The padded values that only this store reads, through slices or whole; `seen` counts their uses.
static bool is_own(Edges *e, const Instr *store, const Instr *leaf) {
  const Instr *pad = pad_of(leaf);
  return pad && is_leaf(e, leaf) && e->seen[leaf->id] == e->uses.count[leaf->id] &&
         e->uses.home[pad->id] == e->region && may_divide(store, pad) &&
         (pad == leaf || e->seen[pad->id] == e->uses.count[pad->id]);
}

static void count_slices(Edges *e) {
  for (int i = 0; i < e->leaves.count; i++) {
    const Instr *leaf = e->leaves.at[i];
    if (is_leaf(e, leaf) && leaf->op == OP_SLICE && leaf->args[0]->op == OP_PAD &&
        e->seen[leaf->id] == e->uses.count[leaf->id])
      e->seen[leaf->args[0]->id]++;
  }
}

// ---- where the parts begin

static bool cut(Cuts *c, int64_t at) {
  int i = 0;
  while (i <= c->count && c->at[i] < at) i++;
  if (i > c->count || c->at[i] == at || at <= 0) return true;
  if (c->count + 1 == (int)(sizeof c->at / sizeof *c->at) - 1) return false;
  memmove(&c->at[i + 1], &c->at[i], (size_t)(c->count + 1 - i) * sizeof *c->at);
  c->at[i] = at;
  c->count++;
  return true;
}

// The first element of the leaf at or after element `at` of the padded axis.
static int64_t first_from(const Instr *leaf, int axis, int64_t at) {
  if (leaf->op != OP_SLICE) return at;
  int64_t first = leaf->ints[axis], step = leaf->ints2[axis];
  return at <= first ? 0 : (at - first + step - 1) / step;
}

static bool cut_at(Edges *e, const Instr *leaf) {
  const Instr *pad = pad_of(leaf);
  for (int i = 0; i < pad->type.rank; i++) {
    if (!is_padded(pad, i)) continue;
    if (!cut(&e->cuts[i], first_from(leaf, i, pad->ints[i])) ||
        !cut(&e->cuts[i], first_from(leaf, i, pad->type.dim[i] - pad->ints2[i])))
      return false;
  }
  return true;
}

static bool find_cuts(Edges *e, const Instr *store) {
  const Type *t = &ir_store_value(store)->type;
  bool any = false;
  for (int i = 0; i < t->rank; i++)
    e->cuts[i] = (Cuts){{0, dim_is_const(t->dim[i]) ? t->dim[i] : INT64_MAX}, 1};
  for (int i = 0; i < e->leaves.count; i++) {
    if (!is_own(e, store, e->leaves.at[i])) continue;
    if (!cut_at(e, e->leaves.at[i])) return false;
    any = true;
  }
  int parts = 1;
  for (int i = 0; i < t->rank && parts <= MOST_OPERATIONS; i++) parts *= e->cuts[i].count;
  return any && e->values.count <= MOST_OPERATIONS / parts;
}

// ---- a part

static Type part_type(const Edges *e, const Instr *v) { return type_as(e->part, v->type.dtype); }

static Instr *slice_at(Edges *e, Instr *v, const int64_t *first, const int64_t *step, Type type) {
  bool all = type_same_shape(&type, &v->type);
  for (int i = 0; all && i < type.rank; i++) all = first[i] == 0;
  if (all) return v;
  Instr *slice = ir_add(e->k, e->region, OP_SLICE, type, v->span, 1, v);
  memcpy(slice->ints, first, (size_t)type.rank * sizeof *first);
  memcpy(slice->ints2, step, (size_t)type.rank * sizeof *step);
  return slice;
}

static const int64_t ones[MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};

// A cast of a padded value becomes a cast of its part, because loads widen.
static Instr *part_of_padded(Edges *e, Instr *v, const int64_t *first, const int64_t *step) {
  if (v->op != OP_CAST || e->uses.count[v->id] != 1)
    return slice_at(e, v, first, step, part_type(e, v));
  Instr *cast = ir_copy(e->k, v);
  cast->type = part_type(e, v);
  cast->args[0] = part_of_padded(e, v->args[0], first, step);
  return ir_append(e->k, e->region, cast);
}

// A leaf's part is entirely outside of the unpadded value, or inside.
static Instr *part_of_pad(Edges *e, const Instr *leaf) {
  const Instr *pad = pad_of(leaf);
  int64_t first[MAX_RANK], step[MAX_RANK];
  bool outside = false;
  for (int i = 0; i < pad->type.rank; i++) {
    step[i] = leaf->op == OP_SLICE ? leaf->ints2[i] : 1;
    first[i] = (leaf->op == OP_SLICE ? leaf->ints[i] : 0) + e->from[i] * step[i] - pad->ints[i];
    outside =
        outside || (is_padded(pad, i) && (first[i] < 0 || first[i] >= pad->args[0]->type.dim[i]));
  }
  if (outside)
    return ir_add(e->k, e->region, OP_BROADCAST, part_type(e, leaf), leaf->span, 1, pad->args[1]);
  return part_of_padded(e, pad->args[0], first, step);
}

static Instr *part_of_broadcast(Edges *e, const Instr *v) {
  Instr *from = v->args[0];
  Type type = from->type;
  int64_t first[MAX_RANK] = {0};
  const int skipped = v->type.rank - type.rank;
  for (int i = 0; i < type.rank; i++) {
    if (e->cuts[i + skipped].count == 1 || type.dim[i] == 1) continue;
    first[i] = e->from[i + skipped];
    type.dim[i] = e->part.dim[i + skipped];
  }
  from = slice_at(e, from, first, ones, type);
  return ir_add(e->k, e->region, OP_BROADCAST, part_type(e, v), v->span, 1, from);
}

static Instr *part_of(Edges *e, const Instr *store, Instr *v) {
  if (e->made[v->id]) return e->made[v->id];
  Instr *made;
  if (!is_leaf(e, v)) {
    made = ir_copy(e->k, v);
    made->type = part_type(e, v);
    for (int i = 0; i < v->nargs; i++) made->args[i] = part_of(e, store, v->args[i]);
    ir_append(e->k, e->region, made);
  } else if (is_own(e, store, v)) {
    made = part_of_pad(e, v);
  } else if (v->op == OP_BROADCAST) {
    made = part_of_broadcast(e, v);
  } else {
    made = slice_at(e, v, e->from, ones, part_type(e, v));
  }
  return e->made[v->id] = made;
}

static void store_part(Edges *e, const Instr *store) {
  Instr *part = ir_copy(e->k, store);
  part->args[store->ref->type.rank] = part_of(e, store, ir_store_value(store));
  for (int i = 0; i < e->part.rank; i++) {
    const int k = window_axis(store, i);
    part->args[k] = part_start(e->k, e->region, store, k, e->from[i]);
    part->window.size[k] = e->part.dim[i];
  }
  ir_append(e->k, e->region, part);
  for (int i = 0; i < e->values.count; i++) e->made[e->values.at[i]->id] = NULL;
  for (int i = 0; i < e->leaves.count; i++) e->made[e->leaves.at[i]->id] = NULL;
}

static void store_parts(Edges *e, const Instr *store, int axis) {
  const Type *t = &ir_store_value(store)->type;
  if (axis == t->rank) {
    store_part(e, store);
    return;
  }
  const Cuts *c = &e->cuts[axis];
  for (int i = 0; i < c->count; i++) {
    e->from[axis] = c->at[i];
    e->part.dim[axis] = c->count == 1 ? t->dim[axis] : c->at[i + 1] - c->at[i];
    store_parts(e, store, axis + 1);
  }
}

// A load of the stored elements would run after the store of a part.
static bool reads_its_ref(const Edges *e, const Instr *store) {
  for (int i = 0; i < e->leaves.count; i++) {
    const Instr *v = e->leaves.at[i];
    while (v->nargs && v->op != OP_LOAD) v = v->args[0];
    if (v->op == OP_LOAD && v->ref == store->ref) return true;
  }
  return false;
}

static bool split(Edges *e, const Instr *store) {
  Instr *value = ir_store_value(store);
  if (store->flags & (INSTR_MASKED | INSTR_OPEN) || value->type.rank < 2) return false;
  e->values.count = e->leaves.count = 0;
  e->number++;
  LIST_PUSH(e->k->arena, &e->leaves, value);
  e->seen[value->id]++;
  if (is_value(e, value)) gather(e, value);
  count_slices(e);
  const bool may = e->values.count > 0 && find_cuts(e, store) && !reads_its_ref(e, store);
  e->part = value->type;
  if (may) store_parts(e, store, 0);
  for (int i = 0; i < e->leaves.count; i++) {
    const Instr *v = e->leaves.at[i];
    e->seen[v->id] = 0;
    if (pad_of(v)) e->seen[pad_of(v)->id] = 0;
  }
  return may;
}

// ---- the walk

static bool split_store(Rewriter *w, Instr *v) {
  Edges *e = w->context;
  ir_rewrite_inside(w, v);
  e->region = w->out;
  const bool parts = v->op == OP_STORE && split(e, v);
  e->split += parts;
  return !parts;
}

void split_edges(Kernel *k, Buf *notes) {
  const int size = k->next_id + 1;
  Edges e = {.k = k, .uses = ir_uses(k, k->body)};
  e.seen = NEW_ARRAY(k->arena, int, size);
  e.store_of = NEW_ARRAY(k->arena, int, size);
  e.made = NEW_ARRAY(k->arena, Instr *, size);
  ir_rewrite(&(Rewriter){.k = k, .rule = split_store, .context = &e}, k->body);
  if (e.split && notes)
    buf_printf(notes, "edges: %d stores split, so that no padding is stored\n", e.split);
}
