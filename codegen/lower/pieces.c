// A copy between views as copies of windows: loops over axes of the views until what is left lies
// in the same order in both refs.
#include "codegen/lower/refs.h"

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

// Are the elements of the view in the order of its window's? Axes of one element do not count.
static bool is_plain(const RefView *v) {
  const Type *type = &v->window.type;
  int order[MAX_RANK], before[MAX_RANK], count = 0;
  for (int i = 0; i < type->rank; i++) order[i] = type->dim[i] == 1 ? -1 : count++;
  for (int s = 0; s < v->steps.count; s++) {
    const ViewStep *step = &v->steps.at[s];
    const Type *after = &step->type;
    if (step->kind == STEP_BITCAST) return false;
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
    if (order[i] >= 0 && order[i] < last) return false;
    last = order[i] > last ? order[i] : last;
  }
  return true;
}

// Axes of one element are left out, so that both ends have the same shape.
static void squeeze_ones(View *window) {
  window->type.rank = 0;
  for (int i = 0; i < window->ref->type.rank; i++) {
    window->window.squeeze[i] = window->window.size[i] == 1;
    if (!window->window.squeeze[i]) window->type.dim[window->type.rank++] = window->window.size[i];
  }
}

static bool emit_piece(const Pieces *p, const View *part) {
  RefView from, to;
  if (!piece_of_view(p->l, p->from, part, &from, p->span) ||
      !piece_of_view(p->l, p->to, part, &to, p->span) || !is_plain(&from) || !is_plain(&to))
    return false;
  squeeze_ones(&from.window);
  squeeze_ones(&to.window);
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

// Parts of the last axis, the longest first.
static bool attempt_parts(Pieces *p) {
  const Type *type = view_type(p->from);
  int last = type->rank - 1;
  Dim dim = last < 0 ? 0 : type->dim[last];
  for (int64_t parts = 2; dim_is_const(dim) && parts < dim && parts <= MOST_DIVISORS; parts++) {
    p->step[last] = dim / parts;
    if (dim % parts == 0 && attempt(p)) return true;
  }
  if (last >= 0) p->step[last] = 1;
  return last >= 0 && attempt(p);
}

bool emit_pieces(Lower *l, const RefView *from, const RefView *to, PieceEmit *each, void *context,
                 Span span) {
  Pieces p = {.l = l, .from = from, .to = to, .each = each, .context = context, .span = span};
  int rank = view_type(from)->rank;
  for (int looped = 0; looped < rank || looped == 0; looped++) {
    if (looped) p.step[looped - 1] = 1;
    if (attempt(&p)) return true;
  }
  return attempt_parts(&p);
}
