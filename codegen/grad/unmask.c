// Removes masks from windows of a kernel's body: a load becomes a selection from memory that is
// padded as far as the window reaches; a store at a constant position is limited to the lanes
// within its ref.
#include "codegen/grad/blocks.h"
#include "codegen/ir/rewrite.h"

static Grad here(const Rewriter *w, const Instr *v) {
  return (Grad){.k = w->k, .arena = w->k->arena, .out = w->out, .span = v->span};
}

static Instr *both(Grad *g, Instr *a, Instr *b) { return a ? put_pair(g, OP_AND, a, b) : b; }

// ---- the lanes within the ref

// At index `start` and after it along axis `at` of the shape; NULL: all of them are within `dim`.
static Instr *inside_along(Grad *g, Instr *start, Dim dim, Type shape, int at) {
  Type along = type_as(shape, DT_I64);
  for (int i = 0; i < along.rank; i++)
    if (i != at) along.dim[i] = 1;
  Instr *place = put_spread(g, start, along), *inside = NULL;
  if (at >= 0) place = put_pair(g, OP_ADD, place, put_iota(g, along, DT_I64, at));
  if (start->op != OP_CONST || start->ival < 0)
    inside = put_test(g, OP_GE, place, put_int(g, 0, along));
  inside = both(g, inside, put_test(g, OP_LT, place, put_spread(g, put_extent(g, dim), along)));
  return put_spread(g, inside, type_as(shape, DT_BOOL));
}

static Instr *lanes_inside(Grad *g, const Instr *load) {
  Instr *inside = NULL;
  for (int i = 0, at = 0; i < load->ref->type.rank; i++) {
    const bool gone = load->window.squeeze[i];
    if (!ir_axis_is_inside(load, i))
      inside =
          both(g, inside,
               inside_along(g, load->args[i], load->ref->type.dim[i], load->type, gone ? -1 : at));
    at += !gone;
  }
  return inside;
}

// ---- loads

// All of the ref along the axes where the window may leave it.
static Instr *whole_load(Grad *g, const Instr *v) {
  Instr *load = ir_copy(g->k, v);
  const int rank = v->ref->type.rank;
  load->args = NEW_ARRAY(g->arena, Instr *, rank + 1);
  load->nargs = rank;
  load->flags = 0;
  load->text = NULL;
  load->type = type_as(v->ref->type, v->type.dtype);
  for (int i = 0; i < rank; i++) {
    const bool inside = ir_axis_is_inside(v, i);
    load->window.squeeze[i] = false;
    if (!inside) load->window.size[i] = v->ref->type.dim[i];
    load->type.dim[i] = load->window.size[i];
    load->args[i] = inside ? v->args[i] : put_index(g, 0);
  }
  return ir_append(g->k, g->out, load);
}

// Elements of x from a start on, which may be outside of it; there they are 0.
static Instr *from_padded(Grad *g, Instr *x, int axis, Instr *start, int64_t size) {
  const Dim dim = x->type.dim[axis];
  int64_t before = size, after = size;
  if (start->op == OP_CONST && dim_is_const(dim)) {
    before = start->ival < 0 ? -start->ival : 0;
    after = start->ival + size > dim ? start->ival + size - dim : 0;
    start = put_index(g, start->ival + before);
  } else {
    start = put_pair(g, OP_MAX, start, put_index(g, -size));
    start = put_pair(g, OP_MIN, start, put_extent(g, dim));
    start = put_pair(g, OP_ADD, start, put_index(g, size));
  }
  x = put_pad(g, x, axis, before, after, dim_plus(g, dim, before + after));
  return piece(g, x, axis, start, size);
}

static bool is_known_load(const Instr *v) {
  for (int i = 0; i < v->ref->type.rank; i++)
    if (!ir_axis_is_inside(v, i) && (v->window.stride[i] != 1 || !dim_is_const(v->window.size[i])))
      return false;
  return true;
}

static void unmask_load(Rewriter *w, Instr *v) {
  Grad g = here(w, v);
  const int rank = v->ref->type.rank;
  Instr *x = whole_load(&g, v), *mask = ir_mask(v);
  for (int i = 0; i < rank; i++)
    if (!ir_axis_is_inside(v, i)) x = from_padded(&g, x, i, v->args[i], v->window.size[i]);
  x = squeezed(&g, x, v->window.squeeze);
  Instr *inside = lanes_inside(&g, v);
  if (!mask)
    mask = inside;
  else if (inside)
    mask = put_pair(&g, OP_AND, inside, mask);
  if (!mask) mask = put_truth(&g, true, v->type);
  Instr *other = v->flags & INSTR_OTHER     ? v->args[rank + 1]
                 : v->type.dtype == DT_BOOL ? put_truth(&g, false, v->type)
                                            : put_zero(&g, v->type);
  Instr **choice = NEW_ARRAY(w->k->arena, Instr *, 3);
  choice[0] = mask, choice[1] = x, choice[2] = other;
  ir_become(v, &(Instr){.op = OP_SELECT, .type = v->type, .nargs = 3, .args = choice});
}

// ---- stores

// Keeps the lanes within the ref along an axis; false: there are none.
static bool clip(Grad *g, Instr *v, int axis, int at) {
  const int rank = v->ref->type.rank;
  const int64_t start = v->args[axis]->ival, dim = v->ref->type.dim[axis],
                size = v->window.size[axis], from = start < 0 ? -start : 0;
  const int64_t to = start + size > dim ? dim - start : size;
  if (to <= from) return false;
  if (v->window.squeeze[axis]) return true;
  for (int i = rank; i < rank + 2; i++)
    v->args[i] = piece(g, v->args[i], at, put_index(g, from), to - from);
  v->args[axis] = put_index(g, start + from);
  v->window.size[axis] = to - from;
  return true;
}

static bool is_known_store(const Instr *v) {
  for (int i = 0; i < v->ref->type.rank; i++)
    if (!ir_axis_is_inside(v, i) &&
        (v->window.stride[i] != 1 || v->args[i]->op != OP_CONST ||
         !dim_is_const(v->window.size[i]) || !dim_is_const(v->ref->type.dim[i])))
      return false;
  return true;
}

static bool clip_store(Rewriter *w, Instr *v) {
  Grad g = here(w, v);
  for (int i = 0, at = 0; i < v->ref->type.rank; i++) {
    const bool gone = v->window.squeeze[i];
    if (!ir_axis_is_inside(v, i) && !clip(&g, v, i, at)) return false;
    at += !gone;
  }
  return true;
}

static bool unmask(Rewriter *w, Instr *v) {
  ir_rewrite_inside(w, v);
  if (v->op == OP_LOAD && v->flags & (INSTR_MASKED | INSTR_OPEN) && is_known_load(v))
    unmask_load(w, v);
  if (v->op == OP_STORE && v->flags & INSTR_MASKED && is_known_store(v)) return clip_store(w, v);
  return true;
}

void unmask_body(Kernel *k) {
  Rewriter w = {.k = k, .rule = unmask};
  if (k->body) ir_rewrite(&w, k->body);
}

bool is_open(const Instr *access) {
  if (access->op == OP_LOAD) return access->flags & (INSTR_MASKED | INSTR_OPEN);
  bool open = false;
  for (int i = 0; i < access->ref->type.rank; i++)
    open = open || (access->flags & INSTR_MASKED && !ir_axis_is_inside(access, i));
  return open;
}
