// Stores of rows that a reshape splits: `o = reshape(v, [.., 56, 56, 64])` of v [3136, 64] is
// stored by the loops over the rows of v, each row to its own address. So the rows of a dot are
// written to the output strip by strip and are not stored in between.
#include "codegen/ir/axes.h"
#include "codegen/loops/loops.h"

#include <string.h>

static bool wants_all(const Instr *v) {
  for (int i = 0; i < v->type.rank; i++)
    if (val(v)->demand[i] != DEMAND_FULL) return false;
  return true;
}

// The same for a store, whose demand has one entry for each axis of its value.
static bool stores_all(const Instr *store) {
  for (int i = 0; i < ir_store_value(store)->type.rank; i++)
    if (val(store)->demand[i] != DEMAND_FULL) return false;
  return true;
}

static bool divides_rows(const Instr *reshape) {
  const Instr *v = reshape->args[0];
  const Type *from = &v->type, *to = &reshape->type;
  return from->rank == 2 && to->rank > 2 && from->dim[1] == to->dim[to->rank - 1] &&
         from->dim[1] != 1 && dim_is_const(from->dim[0]) &&
         (op_is_elementwise(v->op) || v->op == OP_DOT) && val(v)->users.count == 1 &&
         val(reshape)->users.count == 1 && val(v)->region == val(reshape)->region;
}

static void divide_store(Instr *store, void *context) {
  Gen *g = context;
  if (store->op != OP_STORE || ir_mask(store) || ir_may_leave(store)) return;
  Instr *reshape = ir_store_value(store);
  const RefGen *r = &g->refs[store->ref->id];
  if (reshape->op != OP_RESHAPE || !divides_rows(reshape) || r->ref->role != REF_OUTPUT ||
      r->loaded || lane_step(store) != 1 || val(store)->region != val(reshape)->region)
    return;
  Instr *v = reshape->args[0];
  if (!stores_all(store) || !wants_all(v) || (v->op == OP_DOT && !dot_shape(v).plain)) return;
  store->args[store->ref->type.rank] = v;
  val(store)->divided = reshape;
  val(v)->users.at[0] = store;
  val(reshape)->users.count = 0;
}

void divide_stores(Gen *g) {
  if (!g->batch) ir_walk(g->k->body, divide_store, g);
}

// The position in the window of such a store of an element of its value.
void divided_index(Gen *g, const Instr *store, const Expr *const *index, const Expr **at) {
  const Instr *reshape = val(store)->divided;
  Instr *window = (Instr *)reshape;
  Instr whole = {.op = OP_RESHAPE, .type = reshape->args[0]->type, .nargs = 1, .args = &window};
  AxisMap map;
  REQUIRE(ir_axis_map(&whole, &map));
  operand_index(g, &whole, &map, index, at);
}
