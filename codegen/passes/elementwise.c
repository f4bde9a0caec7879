// Kernels in which each element of an output depends only on the same element of the inputs: all
// block shapes give the same results, so these kernels get long rows, and contiguous arrays may be
// treated as one row.
#include "codegen/passes/pass.h"

#include <string.h>

// Rows and columns of a block. Long rows suit DRAM pages and prefetchers; the blocks of a small
// array are still large enough for threads.
enum { ROWS = 16, COLUMNS = 32768 };

// The array axis that grid axis `axis` divides: every operand has this extent and this block along
// it, `position` axes before its last.
typedef struct {
  Dim extent, block;
  int position;
  bool used, lost;  // lost: operands disagree
} Cut;

// ---- is the kernel elementwise?

static int axes_after(const Ref *ref, int k) {
  int count = 0;
  for (int i = k + 1; i < ref->array.rank; i++) count += !ref->squeeze[i];
  return count;
}

// Records how each grid axis divides one operand. False if the operand cannot be accessed in place,
// or its index map is not simply a selection of axes.
static bool note_cuts(const Ref *ref, Cut *cuts) {
  if (!ref_is_operand(ref) || ref->at != AT_BLOCK || ref->space != SPACE_VMEM || ref->alias ||
      ref->has_pad)
    return false;
  for (int k = 0; k < ref->array.rank; k++) {
    const Instr *index = ir_yielded(ref->index_map, k);
    if (ir_is_const(index, 0)) continue;
    if (index->op != OP_AXIS) return false;
    Cut *cut = &cuts[index->ival],
        here = {ref->array.dim[k], ref->block[k], axes_after(ref, k), true, ref->squeeze[k]};
    bool same =
        cut->extent == here.extent && cut->block == here.block && cut->position == here.position;
    here.lost = here.lost || (cut->used && (cut->lost || !same));
    *cut = here;
  }
  return true;
}

static bool is_elementwise(const Instr *v) {
  switch (v->op) {
    case OP_FETCH:
    case OP_WRITEBACK:
    case OP_CONST:
    case OP_SIZE:
    case OP_BROADCAST:
      return true;
    case OP_LOAD:
      return ir_window_is_full(v) && !ir_mask(v) && v->ref->role == REF_INPUT;
    case OP_STORE:
      return ir_window_is_full(v) && !ir_mask(v);
    default:
      return op_is_elementwise(v->op);
  }
}

static bool body_is_elementwise(const Kernel *k) {
  for (int i = 0; i < k->body->instrs.count; i++)
    if (!is_elementwise(k->body->instrs.at[i])) return false;
  return true;
}

// The extent of the grid axis is cdiv(extent, block): each element of the array is in one block.
static bool covers(const Region *region, const Cut *cut) {
  const Instr *n = ir_yielded(region, 0);
  if (!dim_is_const(cut->block)) return false;
  if (dim_is_const(cut->extent))
    return ir_is_const(n, cut->extent / cut->block + (cut->extent % cut->block > 0));
  if (n->op == OP_SIZE) return cut->block == 1 && n->ival == dim_size_index(cut->extent);
  if (n->op != OP_FLOORDIV || !ir_is_const(n->args[1], cut->block)) return false;
  const Instr *sum = n->args[0];
  return sum->op == OP_ADD && sum->args[0]->op == OP_SIZE &&
         sum->args[0]->ival == dim_size_index(cut->extent) &&
         ir_is_const(sum->args[1], cut->block - 1);
}

// May the block change? Each operand is divided by this grid axis there, or has one element.
static bool is_everywhere(const Kernel *k, int grid_axis, const Cut *cut) {
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    for (int a = 0; a < ref->array.rank; a++) {
      const Instr *index = ir_yielded(ref->index_map, a);
      bool here = index->op == OP_AXIS && index->ival == grid_axis;
      if (!ref->squeeze[a] && axes_after(ref, a) == cut->position && !here && ref->block[a] != 1)
        return false;
    }
  }
  return true;
}

// ---- other blocks

static void set_extent(Kernel *k, GridAxis *axis, const Cut *cut, int64_t block) {
  Region *region = ir_region(k);
  Span span = axis->span;
  Type index = {.dtype = DT_I64};
  Instr *n;
  if (dim_is_const(cut->extent)) {
    n = ir_const_int(k, region, DT_I64, cut->extent / block + (cut->extent % block > 0), span);
  } else {
    n = ir_extent(k, region, cut->extent, span);
    Instr *above = ir_add(k, region, OP_ADD, index, span, 2, n,
                          ir_const_int(k, region, DT_I64, block - 1, span));
    n = ir_add(k, region, OP_FLOORDIV, index, span, 2, above,
               ir_const_int(k, region, DT_I64, block, span));
  }
  ir_add(k, region, OP_YIELD, (Type){.dtype = DT_COUNT}, span, 1, n);
  axis->extent = region;
}

static void set_dim(Type *t, const Cut *cut, Dim block) {
  int axis = t->rank - 1 - cut->position;
  if (axis >= 0 && t->dim[axis] == cut->block) t->dim[axis] = block;
}

static void set_ref(Kernel *k, Ref *ref, int grid_axis, const Cut *cut, Dim block) {
  for (int i = 0; i < ref->array.rank; i++) {
    const Instr *index = ir_yielded(ref->index_map, i);
    if (index->op != OP_AXIS || index->ival != grid_axis) continue;
    if (!ref->declared) {
      Type *declared = NEW(k->arena, Type);
      *declared = ref->type;
      ref->declared = declared;
    }
    ref->block[i] = block;
    set_dim(&ref->type, cut, block);
  }
}

static void set_block(Kernel *k, int grid_axis, const Cut *cut, Dim block) {
  set_extent(k, &k->grid.at[grid_axis], cut, block);
  for (int i = 0; i < k->refs.count; i++) set_ref(k, k->refs.at[i], grid_axis, cut, block);
  for (int i = 0; i < k->body->instrs.count; i++) {
    Instr *v = k->body->instrs.at[i];
    set_dim(&v->type, cut, block);
    if (v->op == OP_LOAD || v->op == OP_STORE)
      for (int a = 0; a < v->ref->type.rank; a++) v->window.size[a] = v->ref->type.dim[a];
  }
}

// ---- one row

// All operands have the same axes, each of which is a different size that arrays give and nothing
// else reads.
static bool is_one_row(const Kernel *k, const Cut *cuts) {
  const Type *shape = &k->refs.at[0]->array;
  if (shape->rank != k->grid.count || shape->rank < 2 || shape->rank != k->sizes.count ||
      k->requires.count)
    return false;
  for (int i = 0; i < k->refs.count; i++)
    for (int a = 0; a < shape->rank; a++) {
      const Ref *ref = k->refs.at[i];
      const Instr *index = ref->array.rank == shape->rank ? ir_yielded(ref->index_map, a) : NULL;
      if (!index || index->op != OP_AXIS || ref->array.dim[a] != shape->dim[a] ||
          cuts[index->ival].lost)
        return false;
    }
  for (int a = 0; a < shape->rank; a++) {
    if (dim_is_const(shape->dim[a]) || k->sizes.at[dim_size_index(shape->dim[a])].value)
      return false;
    for (int b = 0; b < a; b++)
      if (shape->dim[a] == shape->dim[b]) return false;
  }
  for (int i = 0; i < k->body->instrs.count; i++)
    if (k->body->instrs.at[i]->op == OP_SIZE) return false;
  return true;
}

// Requires: a kernel whose grid is parallel, without scratch. Preserves: the meaning. Changes:
// blocks, grid extents, types of the body.
void widen_blocks(Kernel *k, Buf *notes) {
  Cut *cuts = NEW_ARRAY(k->arena, Cut, k->grid.count + 1);
  if (k->keep_blocks || k->mesh.count || !k->inputs || !body_is_elementwise(k)) return;
  for (int i = 0; i < k->refs.count; i++)
    if (!note_cuts(k->refs.at[i], cuts) || ir_ignores_any_axis(k, k->refs.at[i])) return;
  int last = -1, row = -1;
  for (int i = 0; i < k->grid.count; i++) {
    if (!k->grid.at[i].parallel || !cuts[i].used || !covers(k->grid.at[i].extent, &cuts[i])) return;
    if (cuts[i].lost || cuts[i].block == 1 || !is_everywhere(k, i, &cuts[i])) continue;
    if (cuts[i].position == 0) last = i;
    if (cuts[i].position == 1) row = i;
  }
  if (last < 0) return;
  set_block(k, last, &cuts[last], COLUMNS);
  if (row >= 0) set_block(k, row, &cuts[row], ROWS);
  k->one_row = is_one_row(k, cuts);
  buf_printf(notes,
             "elementwise: blocks have %s%d elements instead of the declared shape, for long rows "
             "in memory\n",
             row >= 0 ? "16 x " : "", COLUMNS);
  if (k->one_row) buf_puts(notes, "elementwise: contiguous arrays are treated as one row\n");
}
