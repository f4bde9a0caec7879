// Gradients and tangents of values: a value and a mask, and sums of these.
#include "codegen/grad/internal.h"

Adjoint plain(Instr *value) { return (Adjoint){.value = value}; }

Instr *settled(Grad *g, Adjoint d) {
  if (!d.mask || d.zero) return d.value;
  return put_choice(g, d.mask, d.value, put_number(g, 0, d.value->type));
}

Adjoint selected(Grad *g, Adjoint d) { return (Adjoint){settled(g, d), d.mask, true}; }

Adjoint masked(Grad *g, Adjoint d, Instr *mask) {
  if (!mask || is_truth(mask, true) || (d.mask && implies(d.mask, mask))) return d;
  if (d.mask && !implies(mask, d.mask)) mask = put_pair(g, OP_AND, d.mask, mask);
  return (Adjoint){d.value, mask, false};
}

Adjoint added(Grad *g, Adjoint a, Adjoint b) {
  if (!a.value || !b.value) return a.value ? a : b;
  const bool less = b.mask && (!a.mask || implies(b.mask, a.mask)),
             more = a.mask && (!b.mask || implies(a.mask, b.mask));
  if ((!a.mask && !b.mask) || (less && more))
    return (Adjoint){put_pair(g, OP_ADD, a.value, b.value), a.mask, a.zero && b.zero};
  Instr *either = less ? a.mask : more ? b.mask : put_pair(g, OP_OR, a.mask, b.mask);
  Instr *left = less ? a.value : settled(g, a), *right = more ? b.value : settled(g, b);
  bool zero = less ? a.zero : more ? b.zero : either != NULL;
  return (Adjoint){put_pair(g, OP_ADD, left, right), either, zero};
}

Instr *mask_of(Grad *g, Adjoint d) { return d.mask ? d.mask : put_truth(g, true, d.value->type); }

Instr *any_along(Grad *g, Instr *mask, int axis, bool reverse) {
  return put_cast(g, put_scan(g, OP_CUMMAX, put_cast(g, mask, DT_I32), axis, reverse), DT_BOOL);
}

Sum new_sum(Grad *g, const char *name, Type type) {
  Ref *value = new_state(g, name, working(type));
  const char *has = arena_printf(g->arena, "has_%s", name);
  return (Sum){.value = value, .mask = new_state(g, has, type_as(type, DT_BOOL))};
}

void start_sum(Grad *g, const Sum *sum) {
  if (!sum->value) return;
  put_store(g, sum->value, put_number(g, 0, sum->value->type));
  put_store(g, sum->mask, put_truth(g, false, sum->mask->type));
}

bool wants(const Grad *g, const Instr *v) { return v->id < g->count && g->active[v->id]; }

void give(Grad *g, Instr *v, Adjoint d) {
  if (!wants(g, v) || !d.value) return;
  d.value = put_cast(g, d.value, dtype_accum(v->type.dtype));
  Sum *sum = &g->sum[v->id];
  if (!sum->value) {
    g->adjoint[v->id] = added(g, g->adjoint[v->id], d);
    return;
  }
  put_store(g, sum->value, put_pair(g, OP_ADD, put_load(g, sum->value), settled(g, d)));
  Instr *mask = d.mask ? put_pair(g, OP_OR, put_load(g, sum->mask), d.mask) : mask_of(g, d);
  put_store(g, sum->mask, mask);
  sum->full = sum->full || (!d.mask && g->home[v->id] == g->region);
}

void give_part(Grad *g, Instr *v, Instr *const *starts, const int64_t *strides, Adjoint d) {
  if (!wants(g, v) || !d.value) return;
  Instr *value = put_cast(g, settled(g, d), dtype_accum(v->type.dtype));
  const Sum *sum = &g->sum[v->id];
  const Type type = value->type, truth = type_as(type, DT_BOOL);
  Instr *old = put_window(g, sum->value, starts, strides, type, NULL), *mask = mask_of(g, d);
  put_window(g, sum->value, starts, strides, type, put_pair(g, OP_ADD, old, value));
  if (d.mask)
    mask = put_pair(g, OP_OR, put_window(g, sum->mask, starts, strides, truth, NULL), mask);
  put_window(g, sum->mask, starts, strides, truth, mask);
}

Adjoint tangent_of(Grad *g, Instr *v) { return wants(g, v) ? g->adjoint[v->id] : (Adjoint){0}; }
