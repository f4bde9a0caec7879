// The correspondence of the axes of a shape operation's operand and of its result.
#include "codegen/ir/axes.h"

// ---- reshape: pieces between the positions at which either side is divided

// An axis, processed from its end: the remaining extent, and the number of its elements in one
// step.
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

// The largest number of elements that form one piece on both sides; 0: the sides are divided
// differently.
static Dim common_piece(const AxisEnd *a, const AxisEnd *b) {
  if (a->left == b->left) return a->left;
  if (a->left <= 0 || b->left <= 0) return 0;
  if (a->left % b->left == 0) return b->left;
  return b->left % a->left == 0 ? a->left : 0;
}

// Divides a reshape into pieces that its operand and its result have in common; false if there are
// none.
bool ir_reshape_map(const Type *from, const Type *to, AxisMap *map) {
  AxisPiece found[2 * MAX_RANK];
  AxisEnd a = {.type = from, .axis = from->rank}, b = {.type = to, .axis = to->rank};
  int count = 0;
  *map = (AxisMap){.reversed = -1};
  next_axis(&a);
  next_axis(&b);
  while (a.axis >= 0 && b.axis >= 0) {
    Dim piece = common_piece(&a, &b);
    if (piece == 0) return false;
    found[count++] = (AxisPiece){.count = piece,
                                 .from = a.axis,
                                 .to = b.axis,
                                 .from_step = a.step,
                                 .to_step = b.step,
                                 .whole = piece == from->dim[a.axis] && piece == to->dim[b.axis]};
    take_from(&a, piece);
    take_from(&b, piece);
  }
  if (a.axis >= 0 || b.axis >= 0) return false;
  map->count = count;
  for (int i = 0; i < count; i++) map->piece[i] = found[count - 1 - i];
  return true;
}

// ---- the others: a piece for each axis of the result that the operand has

typedef struct {
  int from;  // -1: all elements along the axis are the same
  int64_t first, step;
} AxisSource;

static AxisSource source_of(const Instr *v, int to) {
  const Type *operand = &v->args[0]->type;
  int extra = v->type.rank - operand->rank;
  switch (v->op) {
    case OP_BROADCAST:
      return (AxisSource){
          to < extra || operand->dim[to - extra] != v->type.dim[to] ? -1 : to - extra, 0, 1};
    case OP_TRANSPOSE:
      return (AxisSource){(int)v->ints[to], 0, 1};
    case OP_SLICE:
      return (AxisSource){to, v->ints[to], v->ints2[to]};
    case OP_PAD:
      return (AxisSource){to, -v->ints[to], 1};
    default:
      return (AxisSource){to, 0, 1};
  }
}

bool ir_axis_map(const Instr *v, AxisMap *map) {
  if (v->op == OP_RESHAPE) return ir_reshape_map(&v->args[0]->type, &v->type, map);
  if (op_info[v->op].moves != MOVES_MAP && v->op != OP_REV) return false;
  *map = (AxisMap){.reversed = v->op == OP_REV ? (int)v->ival : -1};
  for (int to = 0; to < v->type.rank; to++) {
    const AxisSource s = source_of(v, to);
    if (s.from < 0) continue;
    const Dim count = v->type.dim[to];
    map->first[s.from] = s.first;
    map->piece[map->count++] =
        (AxisPiece){.count = count,
                    .from = s.from,
                    .to = to,
                    .from_step = s.step,
                    .to_step = 1,
                    .whole = s.first == 0 && s.step == 1 && s.from != map->reversed &&
                             count == v->args[0]->type.dim[s.from]};
  }
  return true;
}

// ---- questions about the map

int ir_operand_axis(const Instr *v, int axis) {
  AxisMap map;
  if (!ir_axis_map(v, &map)) return -1;
  for (int i = 0; i < map.count; i++)
    if (map.piece[i].to == axis && map.piece[i].whole) return map.piece[i].from;
  return -1;
}

bool ir_operand_axes(const Instr *v, const int *axis_of, int *inner) {
  AxisMap map;
  if (!ir_axis_map(v, &map)) return false;
  for (int i = 0; i < v->args[0]->type.rank; i++) inner[i] = -1;
  for (int i = 0; i < map.count; i++) {
    const AxisPiece *p = &map.piece[i];
    if (!p->whole) return false;
    if (p->count != 1) inner[p->from] = axis_of[p->to];
  }
  return true;
}

int ir_indexed_axes(const Instr *v, int *axes) {
  int count = 0;
  for (int k = 0; k < v->args[0]->type.rank; k++)
    if (v->op == OP_GATHER ? v->ival >> k & 1 : k == v->ival) axes[count++] = k;
  return count;
}

int ir_gathered_axis(const Instr *v, int from) {
  int axes[MAX_RANK], to = from;
  const int count = ir_indexed_axes(v, axes);
  for (int i = 0; i < count; i++) {
    if (axes[i] == from) return -1;
    if (i > 0 && axes[i] < from) to--;
  }
  return to;
}

bool ir_moves_nothing(const Instr *v) {
  AxisMap map;
  if (!type_same_shape(&v->type, &v->args[0]->type) || !ir_axis_map(v, &map)) return false;
  for (int i = 0; i < map.count; i++)
    if (!map.piece[i].whole || map.piece[i].from != map.piece[i].to) return false;
  return true;
}

bool ir_moves_unit_axes(const Instr *v) {
  AxisMap map;
  if (v->op != OP_RESHAPE || !ir_axis_map(v, &map)) return false;
  for (int i = 0; i < map.count; i++)
    if (!map.piece[i].whole) return false;
  return true;
}

bool ir_is_view(Op op) { return op == OP_SLICE || op == OP_TRANSPOSE || op == OP_RESHAPE; }

bool ir_keeps_pieces(const Instr *v) {
  enum { MOST_LANES = 16 };
  AxisMap map;
  int last = v->type.rank - 1;
  if (v->op != OP_RESHAPE || last < 0 || v->args[0]->type.rank == 0) return false;
  if (!ir_axis_map(v, &map) || map.count == 0) return false;
  const AxisPiece *p = &map.piece[map.count - 1];
  return p->to == last && p->from == v->args[0]->type.rank - 1 && p->from_step == 1 &&
         p->to_step == 1 && dim_is_const(p->count) && p->count > 0 && p->count % MOST_LANES == 0 &&
         p->count == v->args[0]->type.dim[p->from];
}

bool ir_has_lanes_apart(DType t) {
  return t == DT_F32 || t == DT_I32 || t == DT_U32 || t == DT_BF16 || t == DT_F16 || t == DT_U16 ||
         t == DT_I16;
}

bool ir_keeps_lanes(const Instr *v) {
  AxisMap map;
  int last = v->type.rank - 1, inner = ir_is_view(v->op) ? v->args[0]->type.rank - 1 : -1;
  if (last < 0 || inner < 0 || !ir_axis_map(v, &map)) return false;
  if (v->type.dim[last] == 1) return true;
  const AxisPiece *p = &map.piece[map.count - 1];
  return map.count > 0 && p->to == last && p->from == inner && p->from_step == 1 &&
         p->count == v->type.dim[last];
}
