// Windows that are provably in bounds along an axis need neither clamping nor slack past the end.
#include "codegen/ir/inside.h"
#include "codegen/loops/loops.h"

static void note_access(const Instr *v, const Around *around) {
  if (v->flags & (INSTR_MASKED | INSTR_OPEN)) return;
  for (int k = 0; k < v->ref->type.rank; k++) {
    const Dim size = v->window.squeeze[k] ? 1 : v->window.size[k];
    if (!dim_is_const(size) || size == 0) continue;
    const int64_t length = (size - 1) * v->window.stride[k] + 1;
    if (is_provably_inside(around, v->args[k], v->ref->type.dim[k], length))
      val(v)->in_bounds |= 1u << k;
  }
}

static void note_region(const Region *region, const Around *around) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    const Around inner = {around, v};
    if (v->op == OP_LOAD || v->op == OP_STORE) note_access(v, around);
    note_region(v->regions[0], v->op == OP_FOR || v->op == OP_IF ? &inner : around);
    note_region(v->regions[1], around);
  }
}

void find_windows_in_bounds(Gen *g) { note_region(g->k->body, NULL); }
