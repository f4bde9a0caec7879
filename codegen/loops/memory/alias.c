// An output that shares its input's memory is read and written in place if each step reads one
// block of it and then writes the same block: nothing is copied to VMEM and back.
//
// Loads of the input become loads of the output, so the rules that order the loads and stores of
// one ref order these too. Until then the input has a block of its own, so no load may come after a
// store.
#include "codegen/loops/loops.h"

// Along each axis, is the block's index a grid axis or 0, and does each grid axis occur? Then no
// two steps have the same block.
static bool has_block_of_its_own(const Kernel *k, const Ref *ref) {
  int moved = 0;
  for (int axis = 0; axis < ref->array.rank; axis++) {
    const Instr *index = ir_yielded(ref->index_map, axis);
    if (index->op == OP_AXIS)
      moved++;
    else if (!ir_is_const(index, 0))
      return false;
  }
  for (int a = 0; a < k->grid.count; a++) {
    bool found = false;
    for (int axis = 0; axis < ref->array.rank; axis++) {
      const Instr *index = ir_yielded(ref->index_map, axis);
      found |= index->op == OP_AXIS && index->ival == a;
    }
    if (!found) return false;
  }
  return moved == k->grid.count;
}

static bool have_same_blocks(const Ref *a, const Ref *b) {
  for (int axis = 0; axis < a->array.rank; axis++) {
    const Instr *i = ir_yielded(a->index_map, axis), *j = ir_yielded(b->index_map, axis);
    bool same = i->op == j->op && i->ival == j->ival;
    if (!same || a->block[axis] != b->block[axis] || a->squeeze[axis] != b->squeeze[axis])
      return false;
  }
  return true;
}

typedef struct {
  const Ref *input, *output;
  const Region *body;
  bool stored, fits;
} Order;

static bool touches(const Instr *v, const Ref *ref) { return v->ref == ref || v->target == ref; }

// In program order; loops and conditions may change it.
static void see_access(Instr *v, void *context) {
  Order *o = context;
  const bool input = touches(v, o->input), output = touches(v, o->output);
  if (!input && !output) return;
  bool outermost = false;
  for (int i = 0; i < o->body->instrs.count; i++) outermost |= o->body->instrs.at[i] == v;
  const bool reads = v->op == OP_LOAD || v->op == OP_FETCH,
             writes = v->op == OP_STORE || v->op == OP_WRITEBACK;
  if (!outermost || !(input ? reads : writes) || (input && o->stored)) o->fits = false;
  o->stored |= output;
}

static bool is_block(const Ref *ref) {
  return ref->at == AT_BLOCK && ref->space == SPACE_VMEM && ref->index_map && !ref->packed &&
         !ref->has_pad && !ref->revisit && !ref->prefetch && !ref->whole;
}

bool may_go_in_place(const Gen *g, const Ref *output) {
  const Ref *input = output->alias;
  if (!input || g->options->literal_dma || g->k->mesh.count) return false;
  if (!is_block(input) || !is_block(output) || !have_same_blocks(input, output) ||
      !has_block_of_its_own(g->k, output))
    return false;
  Order order = {.input = input, .output = output, .body = g->k->body, .fits = true};
  ir_walk(g->k->body, see_access, &order);
  return order.fits;
}

static void read_output(Instr *v, void *context) {
  Ref *output = context;
  if (v->op == OP_LOAD && v->ref == output->alias) v->ref = output;
}

void read_in_output(Gen *g, Ref *output) { ir_walk(g->k->body, read_output, output); }
