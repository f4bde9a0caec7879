// Pass `gathers`: elements that are taken by a vector of indices along each of two neighbouring
// axes are taken by one, of the table with both axes as one.
//
// Requires nothing. Keeps the value: each index is clamped to its axis before they are joined. The
// rows that the first index names, as many as the result has elements, are not made.
#include <string.h>

#include "codegen/passes/pass.h"

typedef struct {
  Kernel *k;
  Region *out;
  int *users;  // by instruction's id
  int joined;
} Gathers;

static void count_users(Instr *v, void *context) {
  for (int i = 0; i < v->nargs; i++) ((Gathers *)context)->users[v->args[i]->id]++;
}

// The vector whose elements lie along `axis` of an index, the same along all others; or NULL.
static Instr *index_vector(Instr *index, int axis) {
  while (index->op == OP_BROADCAST && index->type.rank == index->args[0]->type.rank)
    index = index->args[0];
  if (index->op != OP_RESHAPE || index->args[0]->type.rank != 1 ||
      index->type.dim[axis] != index->args[0]->type.dim[0])
    return NULL;
  for (int k = 0; k < index->type.rank; k++)
    if (k != axis && index->type.dim[k] != 1) return NULL;
  return index->args[0];
}

// Is one index along both axes a 32-bit one, and are they of the table fewer than the rows that it
// saves? A table that is not in one piece is copied.
static bool is_worth(Dim places, Dim rows, Dim columns) {
  const bool fits = dim_is_const(rows) && dim_is_const(columns) && rows > 0 && columns > 0 &&
                    rows <= INT32_MAX && columns <= INT32_MAX && rows * columns <= INT32_MAX;
  return fits && (!dim_is_const(places) || places >= rows);
}

static Instr *second_index(const Gathers *s, const Instr *v) {
  const Instr *rows = v->op == OP_TAKE_ALONG ? v->args[0] : NULL;
  if (!rows || rows->op != OP_TAKE || v->ival != rows->ival + 1 || s->users[rows->id] != 1)
    return NULL;
  const Type *table = &rows->args[0]->type;
  if (!is_worth(rows->type.dim[rows->ival], table->dim[rows->ival], table->dim[v->ival]))
    return NULL;
  for (int k = 0; k < v->type.rank; k++)
    if (v->type.dim[k] != (k == v->ival ? 1 : rows->type.dim[k])) return NULL;
  return index_vector(v->args[1], (int)rows->ival);
}

static Instr *add(const Gathers *s, Op op, Instr *a, Instr *b, Span span) {
  return ir_add(s->k, s->out, op, a->type, span, 2, a, b);
}

static Instr *number(const Gathers *s, const Instr *like, int64_t value) {
  Instr *c = ir_const_int(s->k, s->out, like->type.dtype, value, like->span);
  return ir_add(s->k, s->out, OP_BROADCAST, like->type, like->span, 1, c);
}

static Instr *cast(const Gathers *s, Instr *v, DType to) {
  Type type = v->type;
  type.dtype = to;
  return v->type.dtype == to ? v : ir_add(s->k, s->out, OP_CAST, type, v->span, 1, v);
}

// Indices in 32 bits, moved inside of the axis. In 64 bits before, where a narrow dtype need not
// hold the axis' end and u32 has more than i32.
static Instr *inside(const Gathers *s, Instr *index, Dim extent) {
  Instr *at = cast(s, index, index->type.dtype == DT_I32 ? DT_I32 : DT_I64);
  at = add(s, OP_MAX, at, number(s, at, 0), index->span);
  return cast(s, add(s, OP_MIN, at, number(s, at, extent - 1), index->span), DT_I32);
}

static void join(Gathers *s, Instr *v, Instr *column) {
  const Instr *rows = v->args[0];
  Instr *table = rows->args[0];
  const int axis = (int)rows->ival;
  const Dim extents[2] = {table->type.dim[axis], table->type.dim[axis + 1]};
  Instr *row = inside(s, rows->args[1], extents[0]), *at = inside(s, column, extents[1]);
  at = add(s, OP_ADD, add(s, OP_MUL, row, number(s, row, extents[1]), v->span), at, v->span);
  Type flat = table->type, type;
  flat.rank--;
  flat.dim[axis] = extents[0] * extents[1];
  for (int k = axis + 1; k < flat.rank; k++) flat.dim[k] = table->type.dim[k + 1];
  type = flat;
  type.dim[axis] = at->type.dim[0];
  table = ir_add(s->k, s->out, OP_RESHAPE, flat, v->span, 1, table);
  Instr *taken = ir_add(s->k, s->out, OP_TAKE, type, v->span, 2, table, at);
  taken->ival = axis;
  v->op = OP_RESHAPE;
  v->nargs = 1;
  v->args[0] = taken;
  v->ival = 0;
  s->joined++;
}

static void join_region(Gathers *s, Region *region) {
  Region old = *region, *outer = s->out;
  memset(&region->instrs, 0, sizeof region->instrs);
  for (int i = 0; i < old.instrs.count; i++) {
    Instr *v = old.instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) join_region(s, v->regions[r]);
    s->out = region;
    Instr *column = second_index(s, v);
    if (column) join(s, v, column);
    ir_append(s->k, region, v);
  }
  s->out = outer;
}

void join_gathers(Kernel *k, Buf *notes) {
  if (!k->body) return;
  Gathers s = {.k = k, .users = NEW_ARRAY(k->arena, int, k->next_id + 1)};
  ir_walk(k->body, count_users, &s);
  join_region(&s, k->body);
  if (notes && s.joined)
    buf_printf(notes, "%d elements taken along two axes: by one index along both\n", s.joined);
}
