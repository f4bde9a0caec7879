// How the axes of a reshape's operand and of its result go together.
#include "codegen/ir/ir.h"

// An axis from its end on: what is left of it, and how many of its elements one step is by now.
typedef struct {
  const Type *type;
  int axis;
  Dim left;
  int64_t step;
} AxisEnd;

static void next_axis(AxisEnd *e) {
  while (--e->axis >= 0 && e->type->dim[e->axis] == 1) continue;
  e->left = e->axis >= 0 ? e->type->dim[e->axis] : 1;
  e->step = 1;
}

static void take_from(AxisEnd *e, Dim count) {
  if (e->left == count) {
    next_axis(e);
  } else {
    e->left /= count;
    e->step *= count;
  }
}

// The largest number of elements that both ends have in one piece, or 0: they are cut differently.
static Dim common_piece(const AxisEnd *a, const AxisEnd *b) {
  if (a->left == b->left) return a->left;
  if (a->left <= 0 || b->left <= 0) return 0;
  if (a->left % b->left == 0) return b->left;
  return b->left % a->left == 0 ? a->left : 0;
}

int ir_split_reshape(const Type *from, const Type *to, ReshapeAxis *axes) {
  ReshapeAxis found[2 * MAX_RANK];
  AxisEnd a = {.type = from, .axis = from->rank}, b = {.type = to, .axis = to->rank};
  int count = 0;
  next_axis(&a);
  next_axis(&b);
  while (a.axis >= 0 && b.axis >= 0) {
    Dim piece = common_piece(&a, &b);
    if (piece == 0) return -1;
    found[count++] = (ReshapeAxis){.count = piece,
                                   .from = a.axis,
                                   .to = b.axis,
                                   .from_step = a.step,
                                   .to_step = b.step,
                                   .whole = piece == from->dim[a.axis] && piece == to->dim[b.axis]};
    take_from(&a, piece);
    take_from(&b, piece);
  }
  if (a.axis >= 0 || b.axis >= 0) return -1;
  for (int i = 0; i < count; i++) axes[i] = found[count - 1 - i];
  return count;
}

// Does the last axis of a reshape lie in the last one of its operand, element beside element?
static bool reshape_keeps_lanes(const Instr *v) {
  ReshapeAxis axes[2 * MAX_RANK];
  const Type *from = &v->args[0]->type;
  int count = ir_split_reshape(from, &v->type, axes), last = v->type.rank - 1;
  if (count < 0 || from->rank == 0) return false;
  if (v->type.dim[last] == 1) return true;
  return count > 0 && axes[count - 1].to == last && axes[count - 1].from == from->rank - 1 &&
         axes[count - 1].count == v->type.dim[last];
}

bool ir_keeps_lanes(const Instr *v) {
  if (v->type.rank == 0) return false;
  int last = v->type.rank - 1;
  switch (v->op) {
    case OP_SLICE:
      return v->ints2[last] == 1 || v->type.dim[last] == 1;
    case OP_TRANSPOSE:
      return v->ints[last] == last || v->type.dim[last] == 1;
    case OP_RESHAPE:
      return reshape_keeps_lanes(v);
    default:
      return false;
  }
}
