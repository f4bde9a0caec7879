// Gradients and tangents of values: a value where a mask holds, and what adds them up.
#include "codegen/grad/internal.h"

Adjoint plain(Instr *value) { return (Adjoint){.value = value}; }

Instr *settled(Grad *g, Adjoint d) {
  if (!d.mask) return d.value;
  return put_choice(g, d.mask, d.value, put_number(g, 0, d.value->type));
}

Adjoint masked(Grad *g, Adjoint d, Instr *mask) {
  if (mask && d.mask && mask != d.mask) mask = put_pair(g, OP_AND, d.mask, mask);
  return (Adjoint){d.value, mask ? mask : d.mask};
}

Adjoint added(Grad *g, Adjoint a, Adjoint b) {
  if (!a.value || !b.value) return a.value ? a : b;
  if (a.mask == b.mask) return (Adjoint){put_pair(g, OP_ADD, a.value, b.value), a.mask};
  Instr *either = a.mask && b.mask ? put_pair(g, OP_OR, a.mask, b.mask) : NULL;
  Instr *left = settled(g, a), *right = settled(g, b);
  return (Adjoint){put_pair(g, OP_ADD, left, right), either};
}

bool wants(const Grad *g, const Instr *v) { return v->id < g->count && g->active[v->id]; }

void give(Grad *g, Instr *v, Adjoint d) {
  if (!wants(g, v) || !d.value) return;
  d.value = put_cast(g, d.value, dtype_accum(v->type.dtype));
  Ref *sum = g->sum[v->id];
  if (sum)
    put_store(g, sum, put_pair(g, OP_ADD, put_load(g, sum), settled(g, d)));
  else
    g->adjoint[v->id] = added(g, g->adjoint[v->id], d);
}

void give_part(Grad *g, Instr *v, Instr *const *starts, const int64_t *strides, Adjoint d) {
  if (!wants(g, v) || !d.value) return;
  Instr *value = put_cast(g, settled(g, d), dtype_accum(v->type.dtype));
  Instr *old = put_window(g, g->sum[v->id], starts, strides, value->type, NULL);
  put_window(g, g->sum[v->id], starts, strides, value->type, put_pair(g, OP_ADD, old, value));
}

Adjoint tangent_of(Grad *g, Instr *v) {
  return wants(g, v) ? g->adjoint[v->id] : (Adjoint){NULL, NULL};
}
