// Pass `picks`: what one index takes from an input that nothing stores to is loaded where it is
// taken, not all of the input before.
//
// Requires nothing. Keeps the value: the index is sure to lie inside.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

typedef struct {
  bool *changes;  // by Ref.id: something is stored to it, or copied to or from it
  int picked;
} Picker;

static void note_changes(Instr *v, void *context) {
  bool *changes = ((Picker *)context)->changes;
  if (v->op != OP_STORE && !op_starts_copy(v->op)) return;
  changes[v->ref->id] = true;
  if (v->target) changes[v->target->id] = true;
}

// The number that is the only element of an index, or NULL.
static Instr *only_index(const Instr *take) {
  const Instr *index = take->args[1];
  bool one = (index->op == OP_RESHAPE || index->op == OP_BROADCAST) && index->type.rank == 1 &&
             index->type.dim[0] == 1 && index->args[0]->type.rank == 0;
  return one ? index->args[0] : NULL;
}

static bool may_pick(const Rewriter *w, const Instr *take) {
  const Picker *p = w->context;
  const Instr *load = take->op == OP_TAKE ? take->args[0] : NULL;
  if (!load || load->op != OP_LOAD || load->flags || load->nargs != load->ref->type.rank ||
      load->ref->role != REF_INPUT || load->ref->space != SPACE_VMEM || p->changes[load->ref->id])
    return false;
  for (int i = 0; i < w->k->refs.count; i++)
    if (w->k->refs.at[i]->alias == load->ref) return false;
  const Instr *index = only_index(take);
  return index && is_sure_inside(w->around, index, load->type.dim[take->ival], 1);
}

static void pick(Rewriter *w, Instr *take) {
  const Instr *load = take->args[0];
  const int k = window_axis(load, (int)take->ival);
  const Type i64 = type_scalar(DT_I64);
  Instr *at = ir_put_cast(w, only_index(take), DT_I64);
  if (load->window.stride[k] != 1)
    at = ir_put(w, OP_MUL, i64, 2, at, ir_put_number(w, load->window.stride[k]));
  if (!ir_is_const(load->args[k], 0)) at = ir_put(w, OP_ADD, i64, 2, load->args[k], at);
  Instr *row = ir_copy(w->k, load);
  row->type = take->type;
  row->window.size[k] = row->window.stride[k] = 1;
  row->args[k] = at;
  ir_become(take, row);
}

static bool pick_if_it_may(Rewriter *w, Instr *v) {
  Picker *p = w->context;
  ir_rewrite_inside(w, v);
  if (may_pick(w, v)) {
    pick(w, v);
    p->picked++;
  }
  return true;
}

void pick_rows(Kernel *k, Buf *notes) {
  Picker p = {.changes = NEW_ARRAY(k->arena, bool, k->refs.count + 1)};
  if (!k->body) return;
  ir_walk(k->body, note_changes, &p);
  ir_rewrite(&(Rewriter){.k = k, .rule = pick_if_it_may, .context = &p}, k->body);
  if (notes && p.picked)
    buf_printf(notes, "%d `take` of one element or row: it is loaded alone\n", p.picked);
}
