// Ranges of float values: exp of a value that is never above 0 need not test for overflow.
#include "codegen/loops/loops.h"

// Is no element of `a` greater than the corresponding element of `bound`? NaN is ignored.
static bool is_bound(const Instr *bound, const Instr *a) {
  if (bound == a) return true;
  if (bound->type.rank != a->type.rank) return false;
  switch (bound->op) {
    case OP_BROADCAST:
    case OP_REDUCE_MAX:
      return is_bound(bound->args[0], a);
    case OP_MAX:
      return is_bound(bound->args[0], a) || is_bound(bound->args[1], a);
    default:
      return false;
  }
}

static bool is_never_positive(const Instr *v) {
  return (v->op == OP_SUB && is_bound(v->args[1], v->args[0])) ||
         (v->op == OP_NEG && v->args[0]->op == OP_ABS);
}

static void find_range(Instr *v, void *context) {
  (void)context;
  val(v)->never_overflows = v->op == OP_EXP && is_never_positive(v->args[0]);
}

void find_ranges(Gen *g) { ir_walk(g->k->body, find_range, NULL); }
