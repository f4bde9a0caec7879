// Pass `gathers`: elements that are taken by a vector of indices along each of two neighbouring axes
// are taken by one, of the table with both axes as one.
//
// Requires nothing. Keeps the value: each index is clamped to its axis before they are joined. The
// rows that the first index names, as many as the result has elements, are not made.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

typedef struct {
  Uses uses;
  int joined;
} Gathers;

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

// Is one index along both axes a 32-bit one, and has the table fewer rows than would be made? A
// table that is not in one piece is copied.
static bool is_worth(Dim places, Dim rows, Dim columns) {
  const bool fits = dim_is_const(rows) && dim_is_const(columns) && rows > 0 && columns > 0 &&
                    rows <= INT32_MAX && columns <= INT32_MAX && rows * columns <= INT32_MAX;
  return fits && (!dim_is_const(places) || places >= rows);
}

static Instr *second_index(const Gathers *s, const Instr *v) {
  const Instr *rows = v->op == OP_TAKE_ALONG ? v->args[0] : NULL;
  if (!rows || rows->op != OP_TAKE || v->ival != rows->ival + 1 || s->uses.count[rows->id] != 1)
    return NULL;
  const Type *table = &rows->args[0]->type;
  if (!is_worth(rows->type.dim[rows->ival], table->dim[rows->ival], table->dim[v->ival]))
    return NULL;
  for (int k = 0; k < v->type.rank; k++)
    if (v->type.dim[k] != (k == v->ival ? 1 : rows->type.dim[k])) return NULL;
  return index_vector(v->args[1], (int)rows->ival);
}

static Instr *combined(Rewriter *w, Op op, Instr *a, int64_t value) {
  Instr *c = ir_const_int(w->k, w->out, a->type.dtype, value, w->span);
  return ir_put(w, op, a->type, 2, a, ir_put_spread(w, c, a->type));
}

// Indices in 32 bits, moved inside of the axis. In 64 bits before, where a narrow dtype need not
// hold the axis' end and u32 has more than i32.
static Instr *inside(Rewriter *w, Instr *index, Dim extent) {
  Instr *at = ir_put_cast(w, index, index->type.dtype == DT_I32 ? DT_I32 : DT_I64);
  at = combined(w, OP_MIN, combined(w, OP_MAX, at, 0), extent - 1);
  return ir_put_cast(w, at, DT_I32);
}

static void join(Rewriter *w, Instr *v, Instr *column) {
  const Instr *rows = v->args[0];
  Instr *table = rows->args[0];
  const int axis = (int)rows->ival;
  const Dim height = table->type.dim[axis], width = table->type.dim[axis + 1];
  Instr *row = combined(w, OP_MUL, inside(w, rows->args[1], height), width);
  Instr *at = ir_put(w, OP_ADD, row->type, 2, row, inside(w, column, width));
  Type flat = table->type;
  flat.rank--;
  flat.dim[axis] = height * width;
  for (int k = axis + 1; k < flat.rank; k++) flat.dim[k] = table->type.dim[k + 1];
  table = ir_put(w, OP_RESHAPE, flat, 1, table);
  flat.dim[axis] = at->type.dim[0];
  Instr *taken = ir_put(w, OP_TAKE, flat, 2, table, at);
  taken->ival = axis;
  ir_become_unary(v, OP_RESHAPE, taken);
}

static bool join_gather(Rewriter *w, Instr *v) {
  Gathers *s = w->context;
  ir_rewrite_inside(w, v);
  Instr *column = v->op == OP_TAKE_ALONG ? second_index(s, v) : NULL;
  if (column) {
    join(w, v, column);
    s->joined++;
  }
  return true;
}

void join_gathers(Kernel *k, Buf *notes) {
  if (!k->body) return;
  Gathers s = {.uses = ir_uses(k, k->body)};
  ir_rewrite(&(Rewriter){.k = k, .rule = join_gather, .context = &s}, k->body);
  if (notes && s.joined)
    buf_printf(notes, "%d elements taken along two axes: by one index along both\n", s.joined);
}
