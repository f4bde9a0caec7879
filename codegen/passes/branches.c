// Pass `branches`: an `if c { a } else { b }` whose sides are arrays with few elementwise
// operations becomes a selection by c, which needs no memory and does not separate the loops before
// and after it.
//
// Requires: nothing. Preserves: the value. The unneeded side consists of operations that cannot
// fail: elementwise ones except divisions of integers, and loads that are provably in bounds.
#include "codegen/ir/axes.h"
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

enum {
  MOST_OPERATIONS = 16,
  FUNCTION_OPERATIONS = 8
};  // the limit for both sides; the number of operations that a function counts as

typedef struct {
  bool *copied;  // by Ref.id: one end of an explicit copy
  int converted;
} Branches;

static void note_copies(Instr *v, void *context) {
  Branches *b = context;
  if (!op_starts_copy(v->op)) return;
  b->copied[v->ref->id] = true;
  if (v->target) b->copied[v->target->id] = true;
}

static bool is_load_in_bounds(const Branches *b, const Instr *v) {
  if (v->flags || b->copied[v->ref->id] || v->ref->space != SPACE_VMEM) return false;
  for (int i = 0; i < v->ref->type.rank; i++)
    if (!ir_axis_is_inside(v, i)) return false;
  return true;
}

static bool may_fail(const Instr *v) { return op_has(v->op, DIVIDES) && !is_float(v->type.dtype); }

// The cost of an instruction of a side if both sides are computed; above the limit the `if` is
// kept.
static int cost_of(const Branches *b, const Instr *v) {
  switch (v->op) {
    case OP_CONST:
    case OP_SIZE:
    case OP_AXIS:
    case OP_EXTENT:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_YIELD:
      return 0;
    case OP_LOAD:
      return is_load_in_bounds(b, v) ? 0 : MOST_OPERATIONS + 1;
    case OP_RESHAPE:
      return ir_moves_unit_axes(v) ? 0 : MOST_OPERATIONS + 1;
    default:
      break;
  }
  if (!op_is_elementwise(v->op) || may_fail(v)) return MOST_OPERATIONS + 1;
  if (v->type.rank == 0) return 0;
  OpClass class = op_info[v->op].class;
  bool cheap =
      op_has(v->op, CHEAP) || class == OPC_COMPARE || class == OPC_SELECT || class == OPC_CAST;
  return cheap ? 1 : FUNCTION_OPERATIONS;
}

static bool is_cheap(const Branches *b, const Instr *branch) {
  int cost = 0;
  for (int r = 0; r < 2; r++) {
    if (!branch->regions[r]) return false;
    for (int i = 0; i < branch->regions[r]->instrs.count && cost <= MOST_OPERATIONS; i++)
      cost += cost_of(b, branch->regions[r]->instrs.at[i]);
  }
  return cost <= MOST_OPERATIONS;
}

static Instr *put_side(Rewriter *w, const Region *side) {
  for (int i = 0; i < side->instrs.count; i++)
    if (side->instrs.at[i]->op != OP_YIELD) ir_append(w->k, w->out, side->instrs.at[i]);
  return ir_yielded(side, 0);
}

static void select_side(Rewriter *w, Instr *branch) {
  Instr *args[3] = {ir_put_spread(w, branch->args[0], branch->type)};
  for (int r = 0; r < 2; r++) args[1 + r] = put_side(w, branch->regions[r]);
  ir_become(branch, ir_new(w->k, OP_SELECT, branch->type, branch->span, 3, args));
}

static bool convert(Rewriter *w, Instr *v) {
  Branches *b = w->context;
  ir_rewrite_inside(w, v);
  if (v->op == OP_IF && has_result(v) && v->type.rank > 0 && is_cheap(b, v)) {
    select_side(w, v);
    b->converted++;
  }
  return true;
}

void convert_branches(Kernel *k, Buf *notes) {
  Branches b = {.copied = NEW_ARRAY(k->arena, bool, k->refs.count + 1)};
  if (!k->body) return;
  ir_walk(k->body, note_copies, &b);
  ir_rewrite(&(Rewriter){.k = k, .rule = convert, .context = &b}, k->body);
  if (notes && b.converted)
    buf_printf(notes, "%d `if` became selections: both sides are a few elementwise operations\n",
               b.converted);
}
