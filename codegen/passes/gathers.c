// Pass `gathers`: converts the 64-bit indices of a gather along several axes to 32 bits, if these
// represent the axes, because vectors gather by 32-bit indices.
//
// Requires: nothing. Preserves: the value, because each index is clamped to its axis in 64 bits
// first, as the gather would clamp it.
#include "codegen/ir/axes.h"
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

static Instr *narrow_index(Rewriter *w, Instr *index, Dim extent) {
  const DType t = index->type.dtype;
  if (t == DT_I32 || dtype_info[t].bits < 32 || !dim_is_const(extent) || extent < 1 ||
      extent > INT32_MAX)
    return index;
  Instr *at = ir_put_cast(w, index, DT_I64);
  const int64_t bound[2] = {0, extent - 1};
  for (int i = 0; i < 2; i++) {
    Instr *c = ir_const_int(w->k, w->out, DT_I64, bound[i], w->span);
    at = ir_put(w, i ? OP_MIN : OP_MAX, at->type, 2, at, ir_put_spread(w, c, at->type));
  }
  return ir_put_cast(w, at, DT_I32);
}

static bool narrow_gather(Rewriter *w, Instr *v) {
  int *gathers = w->context, axes[MAX_RANK];
  ir_rewrite_inside(w, v);
  if (v->op != OP_GATHER) return true;
  const int count = ir_indexed_axes(v, axes);
  for (int i = 0; i < count; i++)
    v->args[1 + i] = narrow_index(w, v->args[1 + i], v->args[0]->type.dim[axes[i]]);
  ++*gathers;
  return true;
}

void narrow_gathers(Kernel *k, Buf *notes) {
  int gathers = 0;
  if (!k->body) return;
  ir_rewrite(&(Rewriter){.k = k, .rule = narrow_gather, .context = &gathers}, k->body);
  if (notes && gathers)
    buf_printf(notes,
               "%d gathers by several index arrays read single elements, without stored rows\n",
               gathers);
}
