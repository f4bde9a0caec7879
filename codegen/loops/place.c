// Where an element of a value or ref is in memory.
#include "codegen/loops/loops.h"

#include <string.h>

// The last start from which a window lies inside its ref along the axis.
static const Expr *room_of(Gen *g, const Instr *access, int axis) {
  ExprPool *pool = &g->exprs;
  const Expr *extent = extent_expr(g, access->ref->type.dim[axis]),
             *stride = number(g, access->window.stride[axis]), *one = number(g, 1);
  Dim size = access->window.squeeze[axis] ? 1 : access->window.size[axis];
  const Expr *steps = expr_mul(pool, expr_sub(pool, extent_expr(g, size), one), stride);
  return expr_sub(pool, expr_sub(pool, extent, steps), one);
}

static bool starts_inside(const Instr *access, int axis) {
  const Instr *start = access->args[axis];
  Dim extent = access->ref->type.dim[axis],
      size = access->window.squeeze[axis] ? 1 : access->window.size[axis];
  return start->op == OP_CONST && dim_is_const(extent) && dim_is_const(size) && start->ival >= 0 &&
         start->ival + (size - 1) * access->window.stride[axis] < extent;
}

const Expr *start_expr(Gen *g, const Instr *access, int axis) {
  const Instr *start = access->args[axis];
  bool kept = access->flags & (INSTR_MASKED | INSTR_OPEN);
  if (ir_is_const(start, 0) || kept || starts_inside(access, axis)) return scalar_expr(g, start);
  return expr_call(&g->exprs, "pk_start", scalar_expr(g, start), room_of(g, access, axis), NULL);
}

void place_of_access(Gen *g, const Instr *v, Place *p) {
  const RefGen *r = &g->refs[v->ref->id];
  *p = (Place){.base = r->name, .offset = number(g, 0), .element = r->element};
  for (int k = 0, axis = 0; k < v->ref->type.rank; k++) {
    const Expr *start = expr_mul(&g->exprs, start_expr(g, v, k), r->stride[k]);
    p->offset = expr_add(&g->exprs, p->offset, start);
    if (!v->window.squeeze[k])
      p->stride[axis++] = expr_mul(&g->exprs, r->stride[k], number(g, v->window.stride[k]));
  }
}

static void place_of_buffer(Gen *g, const Buffer *b, Place *p) {
  *p = (Place){.base = b->name, .offset = number(g, 0), .element = b->element};
  memcpy(p->stride, b->stride, sizeof p->stride);
}

static void strides_of_unit_axes(Gen *g, const Instr *reshape, const Expr *const *from,
                                 const Expr **to) {
  const Type *a = &reshape->args[0]->type, *b = &reshape->type;
  int i = 0;
  for (int j = 0; j < b->rank; j++) {
    if (b->dim[j] == 1) {
      to[j] = number(g, 0);
      continue;
    }
    while (a->dim[i] == 1) i++;
    to[j] = from[i++];
  }
}

void place_of_unit_axes(Gen *g, const Instr *reshape, const Place *from, Place *to) {
  strides_of_unit_axes(g, reshape, from->stride, to->stride);
}

bool place_of(Gen *g, const Instr *v, Place *p) {
  bool in_ref = v->op == OP_LOAD && !val(v)->buffer && !val(v)->stored_by;
  if (in_ref && ir_may_leave(v)) return false;
  if (v->op == OP_STORE || in_ref) {
    place_of_access(g, v, p);
    return true;
  }
  if (val(v)->stored_by) {
    place_of_access(g, val(v)->stored_by, p);
    return true;
  }
  if (val(v)->buffer) {
    place_of_buffer(g, val(v)->buffer, p);
    return true;
  }
  if (v->op == OP_RESHAPE && is_transparent(v)) {
    Place from;
    if (!place_of(g, v->args[0], &from)) return false;
    *p = from;
    place_of_unit_axes(g, v, &from, p);
    return true;
  }
  return false;
}

static void layout_of_access(Gen *g, const Instr *access, Layout *l) {
  const RefGen *r = &g->refs[access->ref->id];
  l->element = r->element;
  for (int k = 0, axis = 0; k < access->ref->type.rank; k++)
    if (!access->window.squeeze[k])
      l->stride[axis++] = expr_mul(&g->exprs, r->stride[k], number(g, access->window.stride[k]));
}

bool layout_of(Gen *g, const Instr *v, Layout *l) {
  const Val *info = val(v);
  if (v->op == OP_STORE || info->stored_by) {
    layout_of_access(g, info->stored_by ? info->stored_by : v, l);
  } else if (info->buffer) {
    l->element = info->buffer->element;
    memcpy(l->stride, info->buffer->stride, sizeof l->stride);
  } else if (v->op == OP_LOAD && !ir_may_leave(v)) {
    layout_of_access(g, v, l);
  } else if (v->op == OP_RESHAPE && is_transparent(v)) {
    Layout from;
    if (!layout_of(g, v->args[0], &from)) return false;
    l->element = from.element;
    strides_of_unit_axes(g, v, from.stride, l->stride);
  } else {
    return false;
  }
  return true;
}
