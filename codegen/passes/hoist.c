// Pass `hoist`: values of one row that are broadcast along rows are computed before those rows.
//
// A loop over the rows of a block cannot compute a value of one row, such as the widened weights of
// a norm. Between operations on those rows such a value would end their loop, and what they have
// computed would be kept in memory for the whole block. At the start of the region it ends no loop.
//
// Requires: nothing. Preserves: every bit, because an operation is moved with its operands, and
// nothing stores to the inputs that they load.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

#include <string.h>

typedef enum { UNKNOWN, MOVABLE, FIXED } Mobility;

typedef struct {
  Kernel *k;
  const bool *fixed;   // by Ref.id: ir_fixed_inputs
  Mobility *mobility;  // by Instr.id
  bool *first;         // by Instr.id: moves to the start of its region
  int count;
} Hoister;

// Has v the same value at the start of its region?
static bool is_movable(const Hoister *h, const Instr *v) {
  Mobility *known = &h->mobility[v->id];
  if (*known) return *known == MOVABLE;
  const bool load = v->op == OP_LOAD && h->fixed[v->ref->id] && !ir_mask(v),
             pure = op_is_elementwise(v->op) || v->op == OP_BROADCAST || v->op == OP_CONST ||
                    v->op == OP_SIZE || v->op == OP_AXIS || v->op == OP_IOTA;
  *known = load || pure ? MOVABLE : FIXED;
  for (int i = 0; i < v->nargs && *known == MOVABLE; i++)
    if (!is_movable(h, v->args[i])) *known = FIXED;
  return *known == MOVABLE;
}

// Do rows of the result repeat a row of the operand?
static bool repeats_rows(const Instr *v) {
  const Type *from = &v->args[0]->type;
  return v->op == OP_BROADCAST && from->rank > 0 && v->type.rank > from->rank &&
         v->type.dim[v->type.rank - 1] == from->dim[from->rank - 1];
}

static bool is_computed(const Instr *v) {
  while (v->op == OP_BROADCAST) v = v->args[0];
  return op_is_elementwise(v->op) && v->type.rank > 0;
}

static void move_chain(Hoister *h, const Instr *v) {
  if (h->first[v->id]) return;
  h->first[v->id] = true;
  for (int i = 0; i < v->nargs; i++) move_chain(h, v->args[i]);
}

static void find_first(Instr *v, void *context) {
  Hoister *h = context;
  if (!repeats_rows(v) || !is_computed(v->args[0]) || h->first[v->args[0]->id] ||
      !is_movable(h, v->args[0]))
    return;
  move_chain(h, v->args[0]);
  h->count++;
}

// The position after the fetches of blocks at the start of a body.
static int start_of(const Region *region) {
  int start = 0;
  for (int i = 0; i < region->instrs.count; i++)
    if (region->instrs.at[i]->op == OP_FETCH) start = i + 1;
  return start;
}

static void reorder(Hoister *h, Region *region) {
  const Region old = *region;
  const int start = start_of(region);
  memset(&region->instrs, 0, sizeof region->instrs);
  for (int i = 0; i < start; i++) ir_append(h->k, region, old.instrs.at[i]);
  for (int moved = 1; moved >= 0; moved--)
    for (int i = start; i < old.instrs.count; i++)
      if (h->first[old.instrs.at[i]->id] == moved) ir_append(h->k, region, old.instrs.at[i]);
  for (int i = 0; i < old.instrs.count; i++)
    for (int r = 0; r < 2; r++)
      if (old.instrs.at[i]->regions[r]) reorder(h, old.instrs.at[i]->regions[r]);
}

void hoist_rows(Kernel *k, Buf *notes) {
  if (!k->body) return;
  Hoister h = {k, ir_fixed_inputs(k), NEW_ARRAY(k->arena, Mobility, k->next_id + 1),
               NEW_ARRAY(k->arena, bool, k->next_id + 1), 0};
  ir_walk(k->body, find_first, &h);
  if (!h.count) return;
  reorder(&h, k->body);
  if (notes)
    buf_printf(notes, "hoist: %d value%s of one row moved ahead of the loops over rows\n", h.count,
               h.count == 1 ? "" : "s");
}
