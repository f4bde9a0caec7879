// Values that are parts of a concatenation are computed directly at their position in it.
//
// A part that loops over rows would store in memory anyway is stored inside the concatenation's
// buffer, so nothing is moved. This requires that its rows are rows of the whole. Parts along the
// last axis do not qualify, since the last vector of a row may reach past its end.
#include "codegen/loops/loops.h"

#include <string.h>

static bool is_first(const Instr *concat, int part) {
  for (int i = 0; i < part; i++)
    if (concat->args[i] == concat->args[part]) return false;
  return true;
}

static bool fits(const Gen *g, const Instr *concat, int part) {
  const Instr *v = concat->args[part];
  const Group *group = val(v)->group;
  const Buffer *own = val(v)->buffer, *whole = val(concat)->buffer;
  bool by_rows = group && group->kind == GROUP_ROWS && !group->feeds.dots && v->op != OP_DOT &&
                 val(v)->region == val(concat)->region;
  return by_rows && own && !val(v)->row_local && !own->inside && own->element == whole->element &&
         !is_row_scalar(v) && !is_adjacent_value(g, v);
}

void keep_inside(Gen *g, Buffer *own, const Buffer *whole, const Expr *elements) {
  ExprPool *pool = &g->exprs;
  own->inside = whole;
  own->purpose = text(g, "part of %s", whole->name);
  own->offset = expr_mul(pool, elements, number(g, dtype_bytes(whole->element)));
  own->bytes = expr_sub(pool, whole->bytes, own->offset);
  memcpy(own->stride, whole->stride, sizeof own->stride);
}

static void put_inside(Gen *g, const Instr *concat, int part) {
  const Buffer *whole = val(concat)->buffer;
  keep_inside(g, val(concat->args[part])->buffer, whole,
              expr_mul(&g->exprs, part_offset(g, concat, part), whole->stride[concat->ival]));
}

bool is_inside(const Instr *concat, int part) {
  const Buffer *own = val(concat->args[part])->buffer;
  return own && own->inside && own->inside == val(concat)->buffer && is_first(concat, part);
}

void keep_parts_inside(Gen *g, const Instr *concat) {
  bool goes = concat->op == OP_CONCAT && val(concat)->buffer && !is_row_scalar(concat) &&
              concat->ival < concat->type.rank - 1 && !is_adjacent_value(g, concat);
  for (int part = 0; goes && part < concat->nargs; part++)
    if (fits(g, concat, part)) put_inside(g, concat, part);
}
