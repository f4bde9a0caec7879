// The address of an element of a value or ref.
#include "codegen/ir/axes.h"
#include "codegen/loops/loops.h"

#include <string.h>

// The last start from which a window is within its ref along the axis.
static const Expr *columns_left(Gen *g, const Instr *access, int axis) {
  ExprPool *pool = &g->exprs;
  const Expr *extent = extent_expr(g, access->ref->type.dim[axis]),
             *stride = number(g, access->window.stride[axis]), *one = number(g, 1);
  Dim size = access->window.squeeze[axis] ? 1 : access->window.size[axis];
  const Expr *steps = expr_mul(pool, expr_sub(pool, extent_expr(g, size), one), stride);
  return expr_sub(pool, expr_sub(pool, extent, steps), one);
}

const Expr *start_expr(Gen *g, const Instr *access, int axis) {
  const Instr *start = access->args[axis];
  bool kept = access->flags & (INSTR_MASKED | INSTR_OPEN);
  if (ir_is_const(start, 0) || kept || val(access)->in_bounds >> axis & 1)
    return scalar_expr(g, start);
  return quantity(g, FN_START, scalar_expr(g, start), columns_left(g, access, axis), NULL);
}

DType element_of(Gen *g, const Instr *access) {
  const DType t = ir_access_dtype(access);
  return t == access->ref->type.dtype ? g->refs[access->ref->id].element : t;
}

// The window of an access, without its start.
static void layout_of_access(Gen *g, const Instr *access, Place *p) {
  const RefGen *r = &g->refs[access->ref->id];
  *p = (Place){.base = r->name, .offset = number(g, 0), .element = element_of(g, access)};
  for (int k = 0, axis = 0; k < access->ref->type.rank; k++)
    if (!access->window.squeeze[k])
      p->stride[axis++] = expr_mul(&g->exprs, r->stride[k], number(g, access->window.stride[k]));
}

static const Expr *offset_of_access(Gen *g, const Instr *access) {
  const Expr *offset = number(g, 0);
  for (int k = 0; k < access->ref->type.rank; k++) {
    const Expr *stride = g->refs[access->ref->id].stride[k];
    offset = expr_add(&g->exprs, offset, expr_mul(&g->exprs, start_expr(g, access, k), stride));
  }
  return offset;
}

void place_of_access(Gen *g, const Instr *access, Place *p) {
  layout_of_access(g, access, p);
  p->offset = offset_of_access(g, access);
}

void place_of_split_axes(Gen *g, const Instr *reshape, const Place *from, Place *to) {
  AxisMap map;
  REQUIRE(ir_axis_map(reshape, &map));
  for (int i = 0; i < reshape->type.rank; i++) to->stride[i] = number(g, 0);
  for (int i = 0; i < map.count; i++) {
    const AxisPiece *p = &map.piece[i];
    to->stride[p->to] = expr_mul(&g->exprs, from->stride[p->from], number(g, p->from_step));
  }
}

// The address of the operand of a reshape that adds or removes axes of 1, from the address of its
// result.
static void place_before_unit_axes(Gen *g, const Instr *reshape, Place *p) {
  AxisMap map;
  const Place to = *p;
  REQUIRE(ir_axis_map(reshape, &map));
  for (int i = 0; i < reshape->args[0]->type.rank; i++) p->stride[i] = number(g, 0);
  for (int i = 0; i < map.count; i++) p->stride[map.piece[i].from] = to.stride[map.piece[i].to];
}

// x = factor * *unit + rest, where 0 <= rest; if no factor is found, *unit = x.
static void take_apart(const Expr *x, const Expr **unit, int64_t *factor, int64_t *rest) {
  *unit = x, *factor = 1, *rest = 0;
  bool adds = x->kind == EXPR_ADD && expr_is_const(x->arg[1], rest) && *rest > 0;
  const Expr *product = adds ? x->arg[0] : x;
  if (!adds) *rest = 0;
  if (product->kind == EXPR_MUL && expr_is_const(product->arg[1], factor) && *factor > 0)
    *unit = product->arg[0];
  else
    *unit = x, *factor = 1, *rest = 0;
}

// Quotient and remainder of an index, which is never negative, by a constant.
static const Expr *quotient_of(Gen *g, const Expr *x, int64_t by) {
  ExprPool *pool = &g->exprs;
  const Expr *unit;
  int64_t factor, rest, known;
  if (expr_is_const(x, &known)) return number(g, known / by);
  take_apart(x, &unit, &factor, &rest);
  if (factor > 1 && factor % by == 0)
    return expr_add(pool, expr_mul(pool, unit, number(g, factor / by)), number(g, rest / by));
  if (factor > 1 && by % factor == 0 && rest < factor)
    return expr_operator(pool, EXPR_DIV, unit, number(g, by / factor));
  return expr_operator(pool, EXPR_DIV, x, number(g, by));
}

static const Expr *remainder_of(Gen *g, const Expr *x, int64_t by) {
  ExprPool *pool = &g->exprs;
  const Expr *unit;
  int64_t factor, rest, known;
  if (expr_is_const(x, &known)) return number(g, known % by);
  take_apart(x, &unit, &factor, &rest);
  if (factor > 1 && factor % by == 0) return number(g, rest % by);
  if (factor > 1 && by % factor == 0 && rest < factor) {
    const Expr *part = expr_operator(pool, EXPR_REM, unit, number(g, by / factor));
    return expr_add(pool, expr_mul(pool, part, number(g, factor)), number(g, rest));
  }
  return expr_operator(pool, EXPR_REM, x, number(g, by));
}

void operand_index(Gen *g, const Instr *v, const AxisMap *map, const Expr *const *at,
                   const Expr **from) {
  ExprPool *pool = &g->exprs;
  for (int i = 0; i < v->args[0]->type.rank; i++) from[i] = number(g, map->first[i]);
  for (int i = 0; i < map->count; i++) {
    const AxisPiece *p = &map->piece[i];
    const Expr *part = at[p->to];
    if (p->to_step > 1) part = quotient_of(g, part, p->to_step);
    bool first = i == 0 || map->piece[i - 1].to != p->to;
    if (!first) part = remainder_of(g, part, p->count);
    from[p->from] = expr_add(pool, from[p->from], expr_mul(pool, part, number(g, p->from_step)));
  }
  if (map->reversed < 0) return;
  const Expr *extent = extent_expr(g, v->args[0]->type.dim[map->reversed]);
  from[map->reversed] = expr_sub(pool, expr_sub(pool, extent, number(g, 1)), from[map->reversed]);
}

const Expr *part_offset(Gen *g, const Instr *concat, int part) {
  const Expr *before = number(g, 0);
  for (int a = 0; a < part; a++)
    before = expr_add(&g->exprs, before, extent_expr(g, concat->args[a]->type.dim[concat->ival]));
  return before;
}

// The access through which a value is stored in its ref, or NULL.
static const Instr *access_of(const Instr *v) {
  if (val(v)->stored_by) return val(v)->stored_by;
  bool in_ref = v->op == OP_STORE || (v->op == OP_LOAD && !val(v)->buffer && !ir_may_leave(v));
  return in_ref ? v : NULL;
}

static bool passes_on(const Instr *v) {
  return (splits_axes(v) || widens_for_reductions(v)) && is_transparent(v) && !val(v)->buffer &&
         !val(v)->stored_by;
}

bool layout_of(Gen *g, const Instr *v, Place *p) {
  const Instr *access = access_of(v);
  const Buffer *b = val(v)->buffer;
  if (access) {
    layout_of_access(g, access, p);
    if (val(v)->stored_by && ir_store_value(access) != v)
      place_before_unit_axes(g, ir_store_value(access), p);
  } else if (b) {
    *p = (Place){.base = b->name, .offset = number(g, 0), .element = b->element};
    memcpy(p->stride, b->stride, sizeof p->stride);
  } else if (passes_on(v)) {
    Place from;
    if (!layout_of(g, v->args[0], &from)) return false;
    *p = from;
    if (v->op == OP_RESHAPE) place_of_split_axes(g, v, &from, p);
  }
  return access || b || passes_on(v);
}

bool place_of(Gen *g, const Instr *v, Place *p) {
  if (!layout_of(g, v, p)) return false;
  while (passes_on(v)) v = v->args[0];
  if (access_of(v)) p->offset = offset_of_access(g, access_of(v));
  return true;
}

bool may_read_past_rows(const Gen *g, const Instr *v) {
  if (v->op != OP_LOAD || val(v)->buffer) return val(v)->buffer != NULL;
  return !may_lie_in_hbm(&g->refs[v->ref->id]) && ir_window_is_full(v);
}

// ---- where the blocks of operands start

static bool has_blocks(const Ref *ref) { return ref_is_operand(ref) && ref->space != SPACE_ANY; }

static const Expr *block_start(Gen *g, const Ref *ref, int k) {
  const Expr *index = index_expr(g, ref->index_map, k), *block = extent_expr(g, ref->block[k]);
  if (ref->at != AT_BLOCK || expr_is(block, 1) || expr_is(index, 0)) return index;
  const Instr *v = ir_yielded(ref->index_map, k);
  return v->op == OP_AXIS || v->op == OP_CONST ? expr_mul(&g->exprs, index, block)
                                               : quantity(g, FN_MUL, index, block, NULL);
}

static const Expr *start_of(Gen *g, const RefGen *r, int k) {
  const Expr *start = block_start(g, r->ref, k);
  return is_split(g, r, k) ? expr_add(&g->exprs, start, g->split->first) : start;
}

// The variable of one of the preceding operands whose blocks start at the same position, or NULL.
static const Expr *named_before(Gen *g, const Ref *ref, const Expr *start) {
  enum { NEAR = 16 };  // operands that are looked at, so that the time is linear
  for (int i = ref->id > NEAR ? ref->id - NEAR : 0; i < ref->id; i++)
    for (int k = 0; has_blocks(g->k->refs.at[i]) && k < g->k->refs.at[i]->array.rank; k++)
      if (g->refs[i].start[k] == start) return g->refs[i].at[k];
  return NULL;
}

void find_starts(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++) {
    RefGen *r = &g->refs[i];
    for (int k = 0; has_blocks(r->ref) && k < r->ref->array.rank; k++) {
      int64_t fixed;
      const Expr *start = r->start[k] = start_of(g, r, k);
      bool plain = start->kind == EXPR_SYMBOL || (expr_is_const(start, &fixed) && fixed >= 0);
      r->at[k] = plain ? start : named_before(g, r->ref, start);
      if (!r->at[k]) r->at[k] = expr_symbol(&g->exprs, text(g, "%s_at%d", r->stem, k));
    }
  }
}
