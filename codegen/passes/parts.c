// Stores in parts: questions about a window, for the passes that split stores.
#include "codegen/ir/independence.h"
#include "codegen/passes/pass.h"

int window_axis(const Instr *access, int axis) {
  int k = 0;
  for (;; k++)
    if (!access->window.squeeze[k] && axis-- == 0) return k;
}

bool never_overhangs(const Ref *ref, int k) {
  if (!ref_is_operand(ref)) return true;
  const int a = ir_array_axis(ref, k);
  return ref->at == AT_BLOCK && ref->space != SPACE_ANY && ref->array.dim[a] == ref->block[a] &&
         ir_is_const(ir_yielded(ref->index_map, a), 0);
}

Instr *part_start(Kernel *k, Region *region, const Instr *access, int axis, int64_t offset) {
  Instr *start = access->args[axis];
  int64_t by = offset * access->window.stride[axis];
  if (by == 0) return start;
  if (start->op == OP_CONST) return ir_const_int(k, region, DT_I64, start->ival + by, access->span);
  return ir_add(k, region, OP_ADD, start->type, access->span, 2, start,
                ir_const_int(k, region, DT_I64, by, access->span));
}
