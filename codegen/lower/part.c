// A part of a view as a view of a smaller window, so that a store to it leaves the rest of the
// view's memory unchanged.
#include "codegen/ir/facts.h"
#include "codegen/lower/refs.h"

// The part that is taken of each axis of a type, for the view's steps from the last to the first.
typedef struct {
  Instr *start[MAX_RANK];
  Dim size[MAX_RANK];
  int64_t stride[MAX_RANK];
} Cutout;

typedef struct {
  Lower *l;
  Span span;
} Narrowing;

static Instr *index_op(const Narrowing *n, Op op, Instr *a, int64_t b) {
  Type type = type_scalar(DT_I64);
  if (a->op == OP_CONST && op == OP_MUL) return index_const(n->l, a->ival * b, n->span);
  if (a->op == OP_CONST && op == OP_DIV) return index_const(n->l, a->ival / b, n->span);
  return b == 1 && op == OP_MUL ? a
                                : emit2(n->l, op, type, n->span, a, index_const(n->l, b, n->span));
}

static bool takes_all(const Cutout *c, int axis, Dim dim) {
  return c->size[axis] == dim && c->stride[axis] == 1 && ir_is_const(c->start[axis], 0);
}

static void take_all(const Narrowing *n, Cutout *c, int axis, Dim dim) {
  c->start[axis] = index_const(n->l, 0, n->span);
  c->size[axis] = dim;
  c->stride[axis] = 1;
}

// ---- through a bitcast: rows of another number

static bool through_bitcast(const Narrowing *n, const Type *before, const Type *after, Cutout *c) {
  int from = dtype_info[before->dtype].bits, to = dtype_info[after->dtype].bits;
  int axis = before->rank - 2;
  if (from == to) return true;
  int64_t parts = from > to ? from / to : to / from;
  if (takes_all(c, axis, after->dim[axis])) return take_all(n, c, axis, before->dim[axis]), true;
  if (!dim_is_const(c->size[axis]) || c->stride[axis] != 1) return false;
  if (from < to) {
    c->start[axis] = index_op(n, OP_MUL, c->start[axis], parts);
    c->size[axis] *= parts;
    return true;
  }
  if (!is_multiple(c->start[axis], parts, NULL) || c->size[axis] % parts) return false;
  c->start[axis] = index_op(n, OP_DIV, c->start[axis], parts);
  c->size[axis] /= parts;
  return true;
}

// ---- through a reshape: groups of axes that have as many elements in both

// One axis into several: a run of elements where axes of one come first and whole ones last.
static bool join_axes(const Narrowing *n, const Type *after, int first, int end, const Cutout *c,
                      Cutout *out, int to) {
  int64_t inner = 1;
  int i = end - 1;
  Instr *start = index_const(n->l, 0, n->span);
  for (; i >= first && takes_all(c, i, after->dim[i]); i--) inner *= after->dim[i];
  out->size[to] = inner;
  out->stride[to] = 1;
  if (i >= first) {
    if (c->stride[i] != 1 && inner != 1) return false;
    out->size[to] = c->size[i] * inner;
    out->stride[to] = c->stride[i];
  }
  for (int k = i; k >= first; k--) {
    if (k < i && c->size[k] != 1) return false;
    start = emit2(n->l, OP_ADD, type_scalar(DT_I64), n->span, start,
                  index_op(n, OP_MUL, c->start[k], inner));
    inner *= after->dim[k];
  }
  bool constant = true;
  int64_t at = 0, weight = 1;
  for (int k = end - 1; k >= first; weight *= after->dim[k--]) {
    constant = constant && c->start[k]->op == OP_CONST;
    if (constant) at += c->start[k]->ival * weight;
  }
  out->start[to] = constant ? index_const(n->l, at, n->span) : start;
  return true;
}

// Several axes into one: whole rows, or part of one.
static bool split_axis(const Narrowing *n, const Type *before, int first, int end, const Cutout *c,
                       int from, Cutout *out) {
  if (c->stride[from] != 1 || c->start[from]->op != OP_CONST) return false;
  int64_t at = c->start[from]->ival, size = c->size[from], inner = 1;
  for (int k = first; k < end; k++) inner *= before->dim[k];
  for (int k = first; k < end; k++) {
    inner /= before->dim[k];
    bool rows = at % inner == 0 && size % inner == 0,
         piece = size > 0 && at / inner == (at + size - 1) / inner;
    if (!rows && !piece) return false;
    out->start[k] = index_const(n->l, at / inner, n->span);
    out->size[k] = rows ? size / inner : 1;
    out->stride[k] = 1;
    if (rows) {
      for (k++; k < end; k++) take_all(n, out, k, before->dim[k]);
      return true;
    }
    at %= inner;
  }
  return true;
}

static bool through_group(const Narrowing *n, const Type *before, int i, int i_end,
                          const Type *after, int j, int j_end, const Cutout *c, Cutout *out) {
  bool all = true;
  for (int k = j; k < j_end; k++) all = all && takes_all(c, k, after->dim[k]);
  if (all) {
    for (int k = i; k < i_end; k++) take_all(n, out, k, before->dim[k]);
    return true;
  }
  if (i_end - i == 1 && j_end - j == 1) {
    out->start[i] = c->start[j], out->size[i] = c->size[j], out->stride[i] = c->stride[j];
    return true;
  }
  for (int k = j; k < j_end; k++)
    if (!dim_is_const(c->size[k])) return false;
  if (i_end - i == 1) return join_axes(n, after, j, j_end, c, out, i);
  return j_end - j == 1 && split_axis(n, before, i, i_end, c, j, out);
}

// Traces a window back through a reshape; false if it is not a window before it.
static bool through_reshape(const Narrowing *n, const Type *before, const Type *after, Cutout *c) {
  Cutout out = {0};
  int i = 0, j = 0;
  while (i < before->rank || j < after->rank) {
    int i_end = i, j_end = j;
    int64_t left = 1, right = 1;
    if (i < before->rank && j < after->rank && before->dim[i] == after->dim[j]) {
      i_end++, j_end++;
    } else {
      do {
        bool more = left <= right && i_end < before->rank ? true : j_end == after->rank;
        if (more && i_end == before->rank) return false;
        Dim dim = more ? before->dim[i_end++] : after->dim[j_end++];
        if (!dim_is_const(dim) || dim == 0) return false;
        *(more ? &left : &right) *= dim;
      } while (left != right);
    }
    if (!through_group(n, before, i, i_end, after, j, j_end, c, &out)) return false;
    i = i_end, j = j_end;
  }
  *c = out;
  return true;
}

// ---- all steps

static bool through_step(const Narrowing *n, const ViewStep *step, const Type *before, Cutout *c) {
  Cutout after = *c;
  switch (step->kind) {
    case CHAIN_BITCAST:
      return through_bitcast(n, before, &step->type, c);
    case CHAIN_RESHAPE:
      return through_reshape(n, before, &step->type, c);
    default:
      for (int i = 0; i < before->rank; i++) {
        c->start[step->perm[i]] = after.start[i];
        c->size[step->perm[i]] = after.size[i];
        c->stride[step->perm[i]] = after.stride[i];
      }
      return true;
  }
}

static Type cut_type(const Type *type, const Cutout *c) {
  Type cut = *type;
  for (int i = 0; i < type->rank; i++) cut.dim[i] = c->size[i];
  return cut;
}

static void narrow_window(const Narrowing *n, const View *window, const Cutout *c, View *out) {
  *out = *window;
  out->type = cut_type(&window->type, c);
  for (int i = 0, axis = 0; i < window->ref->type.rank; i++) {
    int64_t stride = window->window.stride[i];
    out->starts[i] = moved_in(n->l, n->span, window->starts[i], window->window.size[i], stride,
                              window->ref->type.dim[i]);
    if (window->window.squeeze[i]) continue;
    Instr *inside = index_op(n, OP_MUL, c->start[axis], stride);
    bool constant = out->starts[i]->op == OP_CONST && inside->op == OP_CONST;
    out->starts[i] =
        constant ? index_const(n->l, out->starts[i]->ival + inside->ival, n->span)
                 : emit2(n->l, OP_ADD, type_scalar(DT_I64), n->span, out->starts[i], inside);
    out->window.size[i] = c->size[axis];
    out->window.stride[i] = stride * c->stride[axis];
    axis++;
  }
}

// A window of a view as a view, by tracing it back through the view's steps.
static bool narrow_view(const Narrowing *n, const RefView *view, const View *part, RefView *out) {
  Lower *l = n->l;
  int steps = view->steps.count;
  Cutout *cut = NEW_ARRAY(l->arena, Cutout, steps + 1), *last = &cut[steps];
  const Type *type = view_type(view);
  bool squeezed = false;
  for (int i = 0; i < type->rank; i++) {
    last->size[i] = part->window.size[i];
    last->stride[i] = part->window.stride[i];
    last->start[i] =
        moved_in(l, n->span, part->starts[i], last->size[i], last->stride[i], type->dim[i]);
    squeezed = squeezed || part->window.squeeze[i];
  }
  for (int s = steps - 1; s >= 0; s--) {
    const Type *before = s ? &view->steps.at[s - 1].type : &view->window.type;
    cut[s] = cut[s + 1];
    if (!through_step(n, &view->steps.at[s], before, &cut[s])) return false;
  }
  *out = (RefView){0};
  narrow_window(n, &view->window, &cut[0], &out->window);
  for (int s = 0; s < steps; s++) {
    ViewStep step = view->steps.at[s];
    step.type = cut_type(&step.type, &cut[s + 1]);
    LIST_PUSH(l->arena, &out->steps, step);
  }
  if (!squeezed) return true;
  ViewStep step = {.kind = CHAIN_RESHAPE, .type = part->type};
  LIST_PUSH(l->arena, &out->steps, step);
  return true;
}

bool part_of_view(Lower *l, const RefView *view, const View *part, RefView *out, Span span) {
  return narrow_view(&(Narrowing){l, span}, view, part, out);
}
