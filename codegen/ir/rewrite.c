// The walk that rewrites regions, and the steps that passes take on it.
#include "codegen/ir/rewrite.h"

#include <string.h>

static void forget_replaced(Instr *v, void *context) {
  (void)context;
  v->note = NULL;
  for (int r = 0; r < 2; r++)
    if (v->regions[r] && v->regions[r]->arg) v->regions[r]->arg->note = NULL;
}

static Instr *latest(Instr *v) {
  while (v->note) v = v->note;
  return v;
}

static void rewrite_instr(Rewriter *w, Instr *v) {
  const Span span = w->span;
  w->span = v->span;
  for (int a = 0; a < v->nargs; a++) v->args[a] = latest(v->args[a]);
  if (w->rule(w, v)) ir_append(w->k, w->out, v);
  w->span = span;
}

void ir_rewrite(Rewriter *w, Region *region) {
  Region *outer = w->out;
  const Region old = *region;
  if (!outer) ir_walk(region, forget_replaced, NULL);
  memset(&region->instrs, 0, sizeof region->instrs);
  w->out = region;
  for (int i = 0; i < old.instrs.count; i++) rewrite_instr(w, old.instrs.at[i]);
  w->out = outer;
}

void ir_rewrite_inside(Rewriter *w, Instr *v) {
  const Around *around = w->around, inner = {around, v};
  for (int r = 0; r < 2; r++) {
    w->around = r == 0 && (v->op == OP_FOR || v->op == OP_IF) ? &inner : around;
    if (v->regions[r]) ir_rewrite(w, v->regions[r]);
  }
  w->around = around;
}

Instr *ir_splice(Rewriter *w, const Region *region) {
  Instr *value = NULL;
  for (int i = 0; region && i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (v->op == OP_YIELD)
      value = latest(v->args[0]);
    else
      rewrite_instr(w, v);
  }
  return value;
}

// ---- before the instruction at work

Instr *ir_put(Rewriter *w, Op op, Type type, int nargs, ...) {
  va_list args;
  va_start(args, nargs);
  Instr *v = ir_add_list(w->k, w->out, op, type, w->span, nargs, args);
  va_end(args);
  return v;
}

Instr *ir_put_number(Rewriter *w, int64_t value) {
  return ir_const_int(w->k, w->out, DT_I64, value, w->span);
}

Instr *ir_put_cast(Rewriter *w, Instr *v, DType dtype) {
  return v->type.dtype == dtype ? v : ir_put(w, OP_CAST, type_as(v->type, dtype), 1, v);
}

Instr *ir_put_spread(Rewriter *w, Instr *scalar, Type shape) {
  if (!shape.rank) return scalar;
  return ir_put(w, OP_BROADCAST, type_as(shape, scalar->type.dtype), 1, scalar);
}

// ---- replacing an instruction

void ir_become(Instr *v, const Instr *by) {
  const Instr old = *v;
  *v = *by;
  v->id = old.id;
  v->span = old.span;
  v->text = old.text;
}

void ir_become_unary(Instr *v, Op op, Instr *arg) {
  v->args[0] = arg;
  ir_become(v, &(Instr){.op = op, .type = v->type, .nargs = 1, .args = v->args});
}

void ir_replace(Instr *v, Instr *by) { v->note = by; }

// ---- without a walk

void ir_remove(Region *region, int at) {
  for (int i = at; i + 1 < region->instrs.count; i++)
    region->instrs.at[i] = region->instrs.at[i + 1];
  region->instrs.count--;
}

void ir_insert_after(Kernel *k, Region *region, const Instr *earlier, Instr *v) {
  ir_append(k, region, v);
  int i = region->instrs.count - 1;
  for (; region->instrs.at[i - 1] != earlier; i--) region->instrs.at[i] = region->instrs.at[i - 1];
  region->instrs.at[i] = v;
}

static void find_uses(const Uses *uses, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    uses->home[v->id] = region;
    for (int a = 0; a < v->nargs; a++) uses->count[v->args[a]->id]++;
    for (int r = 0; r < 2; r++) find_uses(uses, v->regions[r]);
  }
}

Uses ir_uses(const Kernel *k, const Region *body) {
  const Uses uses = {NEW_ARRAY(k->arena, int, k->next_id + 1),
                     NEW_ARRAY(k->arena, const Region *, k->next_id + 1)};
  find_uses(&uses, body);
  return uses;
}
