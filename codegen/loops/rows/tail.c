// Tails: along an axis, all elements of a value from some count on may be one constant, because of
// a mask.
//
// `where(col < S, s, -inf)` is s up to the end of the array and -inf past it; exp of it ends in
// zeros. A reduction whose operand ends in its identity, and a dot one of whose factors ends in
// zeros, may stop there: then the columns past the end are not needed, and within the others the
// mask is always true and is dropped. (docs/numerics.md: a term that a mask made exactly zero may
// be left out whatever the other factor is.)
#include "codegen/ir/facts.h"
#include "codegen/ir/array.h"
#include "codegen/ir/rewrite.h"
#include "codegen/loops/loops.h"

#include <math.h>
#include <string.h>

static Tail tail_of(Gen *g, const Instr *v, int axis);

// ---- masks: `start + iota < extent`, where an operand's blocks start at `start` and its array
// ends at `extent`

// Expressions share operands, so a walk over all paths may take exponential time. Index expressions
// that are this deep are not analysed.
enum { DEEPEST_INDEX = 10, MOST_IN_START = 1 << 20 };

static bool same_index_within(const Instr *a, const Instr *b, int depth) {
  if (a == b) return true;
  if (depth == 0) return false;
  if (a->op != b->op || a->nargs != b->nargs || a->ival != b->ival ||
      a->type.dtype != b->type.dtype)
    return false;
  if (a->op == OP_IF || !(a->op == OP_CONST || a->op == OP_SIZE || a->op == OP_AXIS ||
                          a->op == OP_EXTENT || a->op == OP_DEVICE || op_is_elementwise(a->op)))
    return false;
  for (int i = 0; i < a->nargs; i++)
    if (!same_index_within(a->args[i], b->args[i], depth - 1)) return false;
  return true;
}

static bool same_index(const Instr *a, const Instr *b) {
  return same_index_within(a, b, DEEPEST_INDEX);
}

// Is `start` the first element of block `index` of `block` elements?
static bool starts_block(const Instr *start, const Instr *index, Dim block) {
  if (start == NULL || ir_is_const(start, 0)) return ir_is_const(index, 0) && start == NULL;
  if (start->op != OP_MUL || !dim_is_const(block)) return false;
  for (int i = 0; i < 2; i++)
    if (ir_is_const(start->args[i], block) && same_index(start->args[1 - i], index)) return true;
  return false;
}

// The number of in-bounds elements of an array whose block starts at `start`, ends before `extent`
// and has `block` elements.
static Demand matching_inside(Gen *g, const Instr *start, const Instr *extent, Dim block) {
  if (extent->op != OP_SIZE) return NULL;
  for (int i = 0; i < g->k->refs.count; i++) {
    const Ref *ref = g->k->refs.at[i];
    if (!ref_is_operand(ref) || ref->at != AT_BLOCK) continue;
    const Region *map = ref->index_map;
    for (int k = 0, axis = 0; k < ref->array.rank; k++) {
      if (ref->squeeze[k]) continue;
      Demand inside = g->refs[i].inside[axis++];
      const Instr *index = ir_yielded(map, k);
      bool same = ref->array.dim[k] == dim_of_size((int)extent->ival) && ref->block[k] == block &&
                  starts_block(start, index, block);
      if (same && inside != DEMAND_FULL) return inside;
    }
  }
  return NULL;
}

static const Instr *splat_of(const Instr *v) {
  v = without_casts(v);
  return v->op == OP_BROADCAST && v->args[0]->type.rank == 0 ? without_casts(v->args[0]) : NULL;
}

// Is v the index along the axis, or start + that? `start` is NULL for the index alone.
static bool is_index(const Instr *v, int axis, const Instr **start) {
  static const int same[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  Affine a;
  return affine_of(v, same, &a) && affine_is_index(&a, axis, start);
}

// `a < b` where a is the index along the axis, counted from a start.
static Demand bound_of_less(Gen *g, const Instr *a, const Instr *b, int axis) {
  const Instr *extent = splat_of(b), *start;
  if (!extent || !is_index(a, axis, &start)) return NULL;
  return matching_inside(g, start, extent, a->type.dim[axis]);
}

// The number of leading elements along the axis for which this comparison holds.
static Demand bound_of(Gen *g, const Instr *mask, int axis) {
  if (mask->op == OP_BROADCAST) {
    int inner = ir_operand_axis(mask, axis);
    return inner >= 0 ? bound_of(g, mask->args[0], inner) : NULL;
  }
  if (mask->op == OP_LT) return bound_of_less(g, mask->args[0], mask->args[1], axis);
  if (mask->op == OP_GT) return bound_of_less(g, mask->args[1], mask->args[0], axis);
  return NULL;
}

// ---- masks that compare columns with rows

// Is v made of counters, sizes and constants of a block's size only? A value from memory may be
// near the limit of its type, where `start + iota` wraps and the mask is not a bound.
static bool is_counter(const Instr *v, int depth) {
  if (v->op == OP_SIZE || v->op == OP_AXIS || v->op == OP_EXTENT || v->op == OP_DEVICE ||
      v->op == OP_ARG)
    return true;
  if (v->op == OP_CONST) return v->ival >= -MOST_IN_START && v->ival <= MOST_IN_START;
  if (depth == 0 || !op_is_elementwise(v->op) || !is_counter_type(v->type.dtype)) return false;
  for (int i = 0; i < v->nargs; i++)
    if (!is_counter(v->args[i], depth - 1)) return false;
  return true;
}

static bool is_counted(const Instr *v, int axis, const Instr **start) {
  return is_index(v, axis, start) && (!*start || is_counter(*start, DEEPEST_INDEX));
}

static Demand new_strip_bound(Gen *g, StripBound bound) {
  for (int i = 0; i < g->bounds.count; i++) {
    const StripBound *b = g->bounds.at[i];
    if (b->base == bound.base && b->columns == bound.columns && b->row_start == bound.row_start &&
        b->col_start == bound.col_start && b->inclusive == bound.inclusive)
      return b->end;
  }
  StripBound *added = NEW(g->arena, StripBound);
  *added = bound;
  added->end = expr_symbol(&g->exprs, lasting_name(&g->names, "wanted"));
  LIST_PUSH(g->arena, &g->bounds, added);
  return added->end;
}

// `col <= row` and similar masks: where the last row of a strip ends.
static Demand strip_bound_of(Gen *g, const Instr *mask, int axis, Demand base) {
  bool less = mask->op == OP_LT || mask->op == OP_LE,
       greater = mask->op == OP_GT || mask->op == OP_GE;
  if ((!less && !greater) || mask->type.rank != 2 || axis != 1) return NULL;
  StripBound bound = {.base = base,
                      .columns = mask->type.dim[1],
                      .mask = mask,
                      .inclusive = mask->op == OP_LE || mask->op == OP_GE};
  const Instr *columns = mask->args[less ? 0 : 1], *rows = mask->args[less ? 1 : 0];
  if (!is_counted(columns, 1, &bound.col_start) || !is_counted(rows, 0, &bound.row_start))
    return NULL;
  return new_strip_bound(g, bound);
}

static Demand first_strip_bound(Gen *g, const Instr *mask, int axis, Demand base) {
  if (mask->op != OP_AND) return strip_bound_of(g, mask, axis, base);
  Demand first = first_strip_bound(g, mask->args[0], axis, base);
  return first ? first : first_strip_bound(g, mask->args[1], axis, base);
}

static Demand first_bound(Gen *g, const Instr *mask, int axis) {
  if (mask->op != OP_AND) return bound_of(g, mask, axis);
  Demand first = first_bound(g, mask->args[0], axis);
  return first ? first : first_bound(g, mask->args[1], axis);
}

// The count along the axis past which some part of the mask is false.
static Demand bound_of_all(Gen *g, const Instr *mask, int axis) {
  Demand end = first_bound(g, mask, axis),
         strip = first_strip_bound(g, mask, axis, end ? end : DEMAND_FULL);
  return strip ? strip : end;
}

// ---- tails

static bool constant_value(const Instr *v, double *value) {
  while (v->op == OP_BROADCAST || v->op == OP_RESHAPE) v = v->args[0];
  if (v->op != OP_CONST || !is_float(v->type.dtype)) return false;
  *value = v->fval;
  return true;
}

static Tail tail_of_select(Gen *g, const Instr *v, int axis) {
  Tail tail = {.from = bound_of_all(g, v->args[0], axis)};
  if (tail.from && constant_value(v->args[2], &tail.value)) return tail;
  Tail kept = tail_of(g, v->args[1], axis);
  if (kept.from && constant_value(v->args[2], &tail.value) && tail.value == kept.value) return kept;
  return (Tail){0};
}

static Tail tail_of_unary(const Instr *v, Tail tail) {
  bool ends_low = isinf(tail.value) && tail.value < 0;
  if ((v->op == OP_EXP || v->op == OP_EXP2) && ends_low) return (Tail){.from = tail.from};
  if (v->op == OP_CAST && is_float(v->type.dtype) &&
      (tail.value == 0 || (isinf(tail.value) && dtype_has_inf(v->type.dtype))))
    return tail;
  return (Tail){0};
}

// -inf plus anything is -inf; zero times anything is zero.
static Tail tail_of_binary(Gen *g, const Instr *v, int axis) {
  double factor;
  for (int i = 0; i < 2; i++) {
    Tail tail = tail_of(g, v->args[i], axis);
    if (!tail.from) continue;
    bool ends_low = isinf(tail.value) && tail.value < 0, first = i == 0;
    if (ends_low && (v->op == OP_ADD || (v->op == OP_SUB && first))) return tail;
    if (ends_low && v->op == OP_MUL && constant_value(v->args[1 - i], &factor) && factor > 0)
      return tail;
    if (tail.value == 0 && (v->op == OP_MUL || (v->op == OP_DIV && first))) return tail;
  }
  return (Tail){0};
}

static Tail find_tail(Gen *g, const Instr *v, int axis) {
  if (!is_float(v->type.dtype) || axis >= v->type.rank) return (Tail){0};
  if (v->op == OP_SELECT) return tail_of_select(g, v, axis);
  if (op_info[v->op].class == OPC_BINARY) return tail_of_binary(g, v, axis);
  if (op_info[v->op].class == OPC_UNARY || v->op == OP_CAST)
    return tail_of_unary(v, tail_of(g, v->args[0], axis));
  return (Tail){0};
}

static Tail tail_of(Gen *g, const Instr *v, int axis) {
  Tail *tail = &val(v)->tail[axis];
  if (!tail->known) {
    *tail = find_tail(g, v, axis);
    tail->known = true;
  }
  return *tail;
}

Demand ends_in_zero(Gen *g, const Instr *v, int axis) {
  Tail tail = tail_of(g, v, axis);
  return tail.from && tail.value == 0 ? tail.from : NULL;
}

Demand ends_in_identity(Gen *g, const Instr *reduce, int axis) {
  Tail tail = tail_of(g, reduce->args[0], axis);
  if (!tail.from) return NULL;
  if (reduce->op == OP_REDUCE_SUM) return tail.value == 0 ? tail.from : NULL;
  if (reduce->op == OP_REDUCE_MAX) return isinf(tail.value) && tail.value < 0 ? tail.from : NULL;
  if (reduce->op == OP_REDUCE_MIN) return isinf(tail.value) && tail.value > 0 ? tail.from : NULL;
  return NULL;
}

// ---- masks that hold wherever they are read

// The conjunction of the remaining parts of a mask, computed where the mask is.
static Instr *join_parts(Gen *g, const Instr *mask, Instr *a, Instr *b) {
  Instr *both = ir_new(g->k, OP_AND, mask->type, mask->span, 2, (Instr *[]){a, b});
  both->note = NEW(g->arena, Val);
  Val *info = val(both);
  *info = *val(mask);
  memset(&info->users, 0, sizeof info->users);
  ir_insert_after(g->k, val(mask)->region, mask, both);
  return both;
}

// The part of a mask that must still be tested; NULL: none.
static Instr *mask_left(Gen *g, const Instr *select, Instr *mask) {
  if (mask->op == OP_AND) {
    Instr *a = mask_left(g, select, mask->args[0]), *b = mask_left(g, select, mask->args[1]);
    if (a == mask->args[0] && b == mask->args[1]) return mask;
    if (!a || !b) return a ? a : b;
    return join_parts(g, mask, a, b);
  }
  for (int axis = 0; axis < select->type.rank; axis++) {
    Demand bound = bound_of(g, mask, axis);
    if (bound && demand_outside(g, val(select)->demand[axis]) == bound) return NULL;
  }
  return mask;
}

static void drop_mask(Gen *g, Instr *v) {
  Instr *left = mask_left(g, v, v->args[0]);
  if (left == v->args[0]) return;
  explain(g, "line %d: %s of the mask: it is true wherever the value is read", line_of(g, v->span),
          left ? "only a part is tested" : "nothing is tested");
  if (left) {
    v->args[0] = left;
    return;
  }
  v->op = OP_BROADCAST;
  v->nargs = 1;
  v->args[0] = v->args[1];
}

typedef struct {
  Arena *arena;
  LIST(Instr *) found;
} SelectList;

static void find_selects(Instr *v, void *context) {
  SelectList *selects = context;
  if (v->op == OP_SELECT && v->type.rank) LIST_PUSH(selects->arena, &selects->found, v);
}

void drop_masks(Gen *g) {
  SelectList selects = {.arena = g->arena};
  ir_walk(g->k->body, find_selects, &selects);
  for (int i = 0; i < selects.found.count; i++) drop_mask(g, selects.found.at[i]);
}
