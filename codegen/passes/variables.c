// Pass `variables`: replaces a `var` that is stored and read as a whole, in one region, by the
// stored values.
//
// Requires: nothing. Preserves: the values. A variable remains one if a loop carries it, if parts
// of it are stored or read, or if a store to it is masked.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

typedef struct {
  const Region *region;  // the region of all accesses so far
  Instr *value;          // its contents at the current point of the walk
  bool seen, kept;
} Variable;

typedef struct {
  Variable *of;         // by Ref.id
  const Region **home;  // by Instr.id
  int gone;
} Variables;

static bool is_whole(const Instr *v) {
  return (v->op == OP_LOAD || v->op == OP_STORE) && v->ref->type.rank > 0 && !v->flags &&
         ir_window_is_full(v);
}

static void keep(Variables *all, const Ref *ref) {
  if (ref) all->of[ref->id].kept = true;
}

static void note_access(Instr *v, void *context) {
  Variables *all = context;
  const Region *region = all->home[v->id];
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

static bool use_value(Rewriter *w, Instr *v) {
  Variables *all = w->context;
  bool gone = (v->op == OP_LOAD || v->op == OP_STORE) && !all->of[v->ref->id].kept;
  if (gone && v->op == OP_STORE) all->of[v->ref->id].value = ir_store_value(v);
  if (gone && v->op == OP_LOAD) ir_replace(v, all->of[v->ref->id].value);
  all->gone += gone && v->op == OP_STORE;
  ir_rewrite_inside(w, v);
  return !gone;
}

void forget_variables(Kernel *k, Buf *notes) {
  Variables all = {NEW_ARRAY(k->arena, Variable, k->refs.count + 1), ir_uses(k, k->body).home, 0};
  if (!k->body) return;
  ir_walk(k->body, note_access, &all);
  ir_rewrite(&(Rewriter){.k = k, .rule = use_value, .context = &all}, k->body);
  if (notes && all.gone)
    buf_printf(notes, "%d stores to variables removed: their values are used directly\n", all.gone);
}
