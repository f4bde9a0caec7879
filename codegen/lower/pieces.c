// A copy between views as copies of windows: loops over axes of the views until what is left lies
// in the same order in both refs.
#include "codegen/lower/refs.h"

#include <string.h>

enum { MOST_DIVISORS = 1 << 16 };

typedef struct {
  Lower *l;
  const RefView *from, *to;
  PieceEmit *each;
  void *context;
  Span span;
  int64_t step[MAX_RANK];  // elements of a piece along each axis of the views; 0: all
} Pieces;

// ---- one piece

// Are the elements of the view in the order of its window's? Axes of one element do not count, but
// for one that a bitcast makes longer.
static bool is_plain(const RefView *v) {
  const Type *type = &v->window.type;
  int order[MAX_RANK], before[MAX_RANK], count = 0, row = view_is_cast(v) ? type->rank - 2 : -1;
  for (int i = 0; i < type->rank; i++) order[i] = type->dim[i] == 1 && i != row ? -1 : count++;
  for (int s = 0; s < v->steps.count; s++) {
    const ViewStep *step = &v->steps.at[s];
    const Type *after = &step->type;
    if (step->kind == STEP_BITCAST) {
      int grown = type->rank - 2;
      if (grown >= 0 && order[grown] < 0 && after->dim[grown] != type->dim[grown]) return false;
      type = after;
      continue;
    }
    for (int i = 0; i < MAX_RANK; i++) before[i] = order[i];
    for (int i = 0, j = 0; i < after->rank; i++) {
      if (step->kind == STEP_TRANSPOSE) {
        order[i] = before[step->perm[i]];
        continue;
      }
      while (j < type->rank && type->dim[j] == 1 && after->dim[i] != 1) j++;
      bool one = after->dim[i] == 1;
      if (!one && (j == type->rank || type->dim[j] != after->dim[i])) return false;
      order[i] = one ? -1 : before[j++];
    }
    type = after;
  }
  for (int i = 0, last = -1; i < type->rank; i++) {
    if (type->dim[i] == 1) continue;
    if (order[i] >= 0 && order[i] < last) return false;
    last = order[i] > last ? order[i] : last;
  }
  return true;
}

// Axes of one element are left out, so that both ends have the same shape: all but the last `kept`
// axes of the window.
static void squeeze_ones(View *window, int kept) {
  int axes = window->type.rank;
  window->type.rank = 0;
  for (int i = 0, axis = 0; i < window->ref->type.rank; i++) {
    bool last = !window->window.squeeze[i] && axis++ >= axes - kept;
    window->window.squeeze[i] = window->window.size[i] == 1 && !last;
    if (!window->window.squeeze[i]) window->type.dim[window->type.rank++] = window->window.size[i];
  }
}

// An end whose elements become longer or shorter keeps its rows, the last axis but one. The other
// end has axes like it, or rows that are several of its axes.
static bool pair_up(const Pieces *p, RefView *from, RefView *to) {
  enum { ROW_AXES = 2 };
  View *a = &from->window, *b = &to->window;
  bool rows = dtype_info[a->type.dtype].bits != dtype_info[b->type.dtype].bits;
  View whole[] = {*a, *b};
  for (int attempt = 0; attempt < (rows ? 2 : 1); attempt++) {
    *a = whole[0];
    *b = whole[1];
    squeeze_ones(a, rows && (!attempt || view_is_cast(p->from)) ? ROW_AXES : 0);
    squeeze_ones(b, rows && (!attempt || view_is_cast(p->to)) ? ROW_AXES : 0);
    if (a->type.dtype == b->type.dtype ? type_same_shape(&a->type, &b->type)
                                       : type_same_bits(&a->type, &b->type))
      return true;
  }
  return false;
}

static bool emit_piece(const Pieces *p, const View *part) {
  RefView from, to;
  if (!piece_of_view(p->l, p->from, part, &from, p->span) ||
      !piece_of_view(p->l, p->to, part, &to, p->span) || !is_plain(&from) || !is_plain(&to) ||
      !pair_up(p, &from, &to))
    return false;
  p->each(p->l, &from.window, &to.window, p->context);
  return true;
}

// ---- loops

static bool emit_loops(const Pieces *p, const View *part, int axis) {
  Lower *l = p->l;
  const Type *type = view_type(p->from);
  View own = *part;
  Frame frame;
  while (axis < type->rank && !p->step[axis]) axis++;
  if (axis == type->rank) return emit_piece(p, part);
  int64_t step = p->step[axis];
  Instr *turns = step == 1 ? dim_value(l, type->dim[axis], p->span)
                           : index_const(l, type->dim[axis] / step, p->span),
        *first = index_const(l, 0, p->span);
  Region *body = enter_region(l, &frame);
  body->arg = ir_new(l->k, OP_ARG, type_scalar(DT_I64), p->span, 0, NULL);
  own.window.size[axis] = step;
  own.starts[axis] = step == 1 ? body->arg
                               : emit2(l, OP_MUL, type_scalar(DT_I64), p->span, body->arg,
                                       index_const(l, step, p->span));
  bool good = emit_loops(p, &own, axis + 1);
  leave_region(l);
  if (good) emit2(l, OP_FOR, no_result, p->span, first, turns)->regions[0] = body;
  return good;
}

// All of the copy with these steps; nothing where a piece is not possible.
static bool attempt(const Pieces *p) {
  Lower *l = p->l;
  const Type *type = view_type(p->from);
  View all = {.type = *type};
  Frame frame;
  Region *region = enter_region(l, &frame);
  for (int i = 0; i < type->rank; i++) {
    all.starts[i] = index_const(l, 0, p->span);
    all.window.size[i] = type->dim[i];
    all.window.stride[i] = 1;
  }
  bool good = emit_loops(p, &all, 0);
  leave_region(l);
  for (int i = 0; good && i < region->instrs.count; i++)
    ir_append(l->k, l->frame->region, region->instrs.at[i]);
  return good;
}

// Equal parts of an axis, the longest first; none of one element.
static bool attempt_parts(Pieces *p, int axis) {
  Dim dim = view_type(p->from)->dim[axis];
  for (int64_t parts = 2; dim_is_const(dim) && parts < dim && parts <= MOST_DIVISORS; parts++) {
    p->step[axis] = dim / parts;
    if (dim % parts == 0 && attempt(p)) return true;
  }
  p->step[axis] = 0;
  return false;
}

// One by one along any axes, or in parts of one: pieces that hold whole rows of a bitcast.
static bool attempt_rows(Pieces *p) {
  int rank = view_type(p->from)->rank;
  for (int axes = 1; axes < 1 << rank; axes++) {
    for (int i = 0; i < rank; i++) p->step[i] = axes >> i & 1;
    if (attempt(p)) return true;
  }
  memset(p->step, 0, sizeof p->step);
  for (int i = 0; i < rank; i++)
    if (attempt_parts(p, i)) return true;
  return false;
}

bool emit_pieces(Lower *l, const RefView *from, const RefView *to, PieceEmit *each, void *context,
                 Span span) {
  Pieces p = {.l = l, .from = from, .to = to, .each = each, .context = context, .span = span};
  int rank = view_type(from)->rank;
  for (int looped = 0; looped < rank || looped == 0; looped++) {
    if (looped) p.step[looped - 1] = 1;
    if (attempt(&p)) return true;
  }
  if (view_is_cast(from) || view_is_cast(to)) return attempt_rows(&p);
  if (rank == 0) return false;
  if (attempt_parts(&p, rank - 1)) return true;
  p.step[rank - 1] = 1;
  return attempt(&p);
}
