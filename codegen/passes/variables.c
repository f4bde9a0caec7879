// Pass `variables`: a `var` that is stored and read as a whole, in one region, is the values that
// were stored to it.
//
// Requires nothing. Keeps the values. What loops carry, stores of parts and under masks, and reads
// of parts leave a variable as it is.
#include "codegen/passes/pass.h"

typedef struct {
  const Region *region;  // that holds all accesses so far
  Instr *value;          // what is stored there, as the walk has it
  bool seen, kept;
} Variable;

typedef struct {
  Variable *of;  // by Ref.id
  int gone;
} Variables;

static bool is_whole(const Instr *v) {
  return (v->op == OP_LOAD || v->op == OP_STORE) && v->ref->type.rank > 0 && !v->flags &&
         ir_window_is_full(v);
}

static void keep(Variables *all, const Ref *ref) {
  if (ref) all->of[ref->id].kept = true;
}

static void note_access(Variables *all, const Region *region, const Instr *v) {
  if (op_starts_copy(v->op) || (v->op != OP_LOAD && v->op != OP_STORE)) {
    keep(all, v->ref);
    keep(all, v->target);
    keep(all, v->semaphore);
    return;
  }
  Variable *of = &all->of[v->ref->id];
  bool first = !of->seen;
  if (first) of->region = region;
  of->seen = true;
  bool good = v->ref->role == REF_VAR && is_whole(v) && of->region == region &&
              !(first && v->op == OP_LOAD);
  if (!good) of->kept = true;
}

static void note_region(Variables *all, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    note_access(all, region, v);
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) note_region(all, v->regions[r]);
  }
}

static Instr *latest(Instr *v) { return v->note ? v->note : v; }

static void replace_in(Variables *all, Region *region) {
  int left = 0;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++) v->args[a] = latest(v->args[a]);
    bool gone = (v->op == OP_LOAD || v->op == OP_STORE) && !all->of[v->ref->id].kept;
    if (gone && v->op == OP_STORE) all->of[v->ref->id].value = ir_store_value(v);
    if (gone && v->op == OP_LOAD) v->note = all->of[v->ref->id].value;
    all->gone += gone && v->op == OP_STORE;
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) replace_in(all, v->regions[r]);
    if (!gone) region->instrs.at[left++] = v;
  }
  region->instrs.count = left;
}

static void clear_note(Instr *v, void *context) {
  (void)context;
  v->note = NULL;
  for (int r = 0; r < 2; r++)
    if (v->regions[r] && v->regions[r]->arg) v->regions[r]->arg->note = NULL;
}

void forget_variables(Kernel *k, Buf *notes) {
  Variables all = {.of = NEW_ARRAY(k->arena, Variable, k->refs.count + 1)};
  if (!k->body) return;
  ir_walk(k->body, clear_note, NULL);
  note_region(&all, k->body);
  replace_in(&all, k->body);
  ir_walk(k->body, clear_note, NULL);
  if (notes && all.gone)
    buf_printf(notes, "%d stores to variables are not needed: their values are used\n", all.gone);
}
