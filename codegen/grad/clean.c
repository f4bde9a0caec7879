// Removes dead instructions and merges equal ones.
#include "codegen/grad/internal.h"
#include "codegen/ir/rewrite.h"

#include <string.h>

// ---- duplicates

typedef struct Seen Seen;
struct Seen {
  Instr *v;
  Seen *next;
};
enum { BUCKETS = 1024 };
typedef struct {
  Grad *g;
  Seen *bucket[BUCKETS];
  Instr **by;  // by id: the instruction that replaces it
} Twins;

static bool same_type(const Type *a, const Type *b) {
  return a->dtype == b->dtype && type_same_shape(a, b);
}

static bool same(const Instr *a, const Instr *b) {
  if (a->op != b->op || a->nargs != b->nargs || a->ival != b->ival || a->flags != b->flags)
    return false;
  if (a->ref != b->ref || !same_type(&a->type, &b->type)) return false;
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  return memcmp(&a->fval, &b->fval, sizeof a->fval) == 0 &&
         memcmp(a->ints, b->ints, sizeof a->ints) == 0 &&
         memcmp(a->ints2, b->ints2, sizeof a->ints2) == 0 &&
         memcmp(&a->labels, &b->labels, sizeof a->labels) == 0;
}

static unsigned hash_of(const Instr *v) {
  unsigned h = (unsigned)v->op * 31u + (unsigned)v->ival;
  for (int i = 0; i < v->nargs; i++) h = h * 31u + (unsigned)v->args[i]->id;
  return h % BUCKETS;
}

static bool computes(const Instr *v) {
  return has_result(v) && op_info[v->op].effect == EFFECT_NONE && v->op != OP_ARG;
}

// Merges equal instructions of a region. The table of known instructions is restored at the end,
// since nothing after a region may use its values.
static void merge_region(Twins *t, Region *region) {
  LIST(Seen **) entered = {0};
  int kept = 0;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++)
      if (t->by[v->args[a]->id]) v->args[a] = t->by[v->args[a]->id];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) merge_region(t, v->regions[r]);
    Seen **bucket = &t->bucket[hash_of(v)];
    Seen *twin = computes(v) ? *bucket : NULL;
    while (twin && !same(twin->v, v)) twin = twin->next;
    if (twin) {
      t->by[v->id] = twin->v;
      if (!twin->v->text) twin->v->text = v->text;
      continue;
    }
    region->instrs.at[kept++] = v;
    if (!computes(v)) continue;
    Seen *seen = NEW(t->g->arena, Seen);
    *seen = (Seen){v, *bucket};
    *bucket = seen;
    LIST_PUSH(t->g->arena, &entered, bucket);
  }
  region->instrs.count = kept;
  while (entered.count--) *entered.at[entered.count] = (*entered.at[entered.count])->next;
}

// ---- live instructions

typedef struct {
  bool *value, *state;  // by id
  bool changed;
} Needs;

static void need(Needs *n, bool *flag) {
  n->changed = n->changed || !*flag;
  *flag = true;
}

static bool needs_region(Needs *n, const Region *region);

// Is it kept for its effect?
static bool acts(Needs *n, const Instr *v) {
  if (v->op == OP_STORE) return n->state[v->ref->id];
  if (v->op == OP_YIELD) return true;
  bool any = false;
  if (v->op == OP_FOR || (v->op == OP_IF && !has_result(v)))
    for (int r = 0; r < 2; r++) any = needs_region(n, v->regions[r]) || any;
  return any;
}

// Does it contain anything that is needed?
static bool needs_region(Needs *n, const Region *region) {
  bool any = false;
  for (int i = region ? region->instrs.count - 1 : -1; i >= 0; i--) {
    const Instr *v = region->instrs.at[i];
    bool kept = acts(n, v);
    any = any || (kept && v->op != OP_YIELD);
    if (kept) need(n, &n->value[v->id]);
    if (!n->value[v->id]) continue;
    for (int a = 0; a < v->nargs; a++) need(n, &n->value[v->args[a]->id]);
    if (v->op == OP_LOAD && v->ref->role == REF_STATE) need(n, &n->state[v->ref->id]);
    for (int r = 0; v->op == OP_IF && has_result(v) && r < 2; r++) needs_region(n, v->regions[r]);
  }
  return any;
}

static void drop_rest(const Needs *n, Region *region) {
  int kept = 0;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (!n->value[v->id] && v->op != OP_ARRAY) continue;
    region->instrs.at[kept++] = v;
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) drop_rest(n, v->regions[r]);
  }
  region->instrs.count = kept;
}

static void see_loads(const Region *region, bool *loaded) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_LOAD) loaded[v->ref->id] = true;
    for (int r = 0; r < 2; r++) see_loads(v->regions[r], loaded);
  }
}

// The last store, if nothing reads it.
static void drop_last_stores(Grad *g) {
  bool *loaded = NEW_ARRAY(g->arena, bool, g->k->states.count + 1);
  for (int i = g->top->instrs.count - 1; i >= 0; i--) {
    Instr *v = g->top->instrs.at[i];
    if (v->op == OP_LOAD) loaded[v->ref->id] = true;
    for (int r = 0; r < 2; r++) see_loads(v->regions[r], loaded);
    if (v->op == OP_STORE && !loaded[v->ref->id]) ir_remove(g->top, i);
  }
}

static void renumber_states(Kernel *k, const bool *needed) {
  int kept = 0;
  for (int i = 0; i < k->states.count; i++) {
    Ref *ref = k->states.at[i];
    ref->id = needed[i] ? kept : -1;
    if (needed[i]) k->states.at[kept++] = ref;
  }
  k->states.count = kept;
}

void clean(Grad *g) {
  drop_last_stores(g);
  Twins t = {.g = g, .by = NEW_ARRAY(g->arena, Instr *, g->k->next_id)};
  merge_region(&t, g->top);
  Needs n = {.value = NEW_ARRAY(g->arena, bool, g->k->next_id),
             .state = NEW_ARRAY(g->arena, bool, g->k->states.count + 1)};
  do {
    n.changed = false;
    needs_region(&n, g->top);
  } while (n.changed);
  drop_rest(&n, g->top);
  renumber_states(g->k, n.state);
}
