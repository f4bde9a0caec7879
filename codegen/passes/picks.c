// Pass `picks`: what one index takes from an input that nothing stores to is loaded where it is
// taken, not all of the input before.
//
// Requires nothing. Keeps the value: the index is sure to lie inside.
#include "codegen/ir/inside.h"
#include "codegen/passes/pass.h"

#include <string.h>

typedef struct {
  Kernel *k;
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

static bool may_pick(const Picker *p, const Instr *take, const Around *around) {
  const Instr *load = take->op == OP_TAKE ? take->args[0] : NULL;
  if (!load || load->op != OP_LOAD || load->flags || load->nargs != load->ref->type.rank ||
      load->ref->role != REF_INPUT || load->ref->space != SPACE_VMEM || p->changes[load->ref->id])
    return false;
  for (int i = 0; i < p->k->refs.count; i++)
    if (p->k->refs.at[i]->alias == load->ref) return false;
  const Instr *index = only_index(take);
  return index && is_sure_inside(around, index, load->type.dim[take->ival], 1);
}

static Instr *in_i64(Picker *p, Region *to, Instr *index, Span span) {
  if (index->type.dtype == DT_I64) return index;
  return ir_add(p->k, to, OP_CAST, type_scalar(DT_I64), span, 1, index);
}

static void pick(Picker *p, Region *to, Instr *take) {
  const Instr *load = take->args[0];
  const int k = window_axis(load, (int)take->ival);
  const Type i64 = type_scalar(DT_I64);
  Instr *at = in_i64(p, to, only_index(take), take->span);
  if (load->window.stride[k] != 1) {
    Instr *stride = ir_const_int(p->k, to, DT_I64, load->window.stride[k], take->span);
    at = ir_add(p->k, to, OP_MUL, i64, take->span, 2, at, stride);
  }
  if (!ir_is_const(load->args[k], 0))
    at = ir_add(p->k, to, OP_ADD, i64, take->span, 2, load->args[k], at);
  Instr *row = ir_new(p->k, OP_LOAD, take->type, take->span, load->nargs, load->args);
  row->ref = load->ref;
  row->window = load->window;
  row->window.size[k] = row->window.stride[k] = 1;
  row->args[k] = at;
  take->op = OP_LOAD;
  take->nargs = row->nargs;
  take->args = row->args;
  take->ref = row->ref;
  take->window = row->window;
  take->ival = 0;
  p->picked++;
}

static void pick_in(Picker *p, Region *region, const Around *around) {
  Region old = *region;
  memset(&region->instrs, 0, sizeof region->instrs);
  for (int i = 0; i < old.instrs.count; i++) {
    Instr *v = old.instrs.at[i];
    const Around inner = {around, v};
    for (int r = 0; r < 2; r++)
      if (v->regions[r])
        pick_in(p, v->regions[r], r == 0 && (v->op == OP_FOR || v->op == OP_IF) ? &inner : around);
    if (may_pick(p, v, around)) pick(p, region, v);
    ir_append(p->k, region, v);
  }
}

void pick_rows(Kernel *k, Buf *notes) {
  Picker p = {.k = k, .changes = NEW_ARRAY(k->arena, bool, k->refs.count + 1)};
  if (!k->body) return;
  ir_walk(k->body, note_changes, &p);
  pick_in(&p, k->body, NULL);
  if (notes && p.picked)
    buf_printf(notes, "%d `take` of one element or row: it is loaded alone\n", p.picked);
}
