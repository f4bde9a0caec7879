// Pass `gathers`: elements that are taken by a vector of indices along each of several axes are
// taken by one gather along all of them.
//
// Requires nothing. Keeps the value: each index is clamped to its axis, and of the elements of an
// axis that lie between, none is read. The rows that the first index names, as many as the result
// has elements, are not made.
#include "codegen/ir/axes.h"
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

// The take or the gather that rows come from, if only v reads them; a gather's with axes of one
// element in place of those that it has indices along, but for the first. Or NULL.
static const Instr *taken_rows(const Gathers *s, const Instr *v) {
  const Instr *rows = v->args[0];
  if (s->uses.count[rows->id] != 1) return NULL;
  if (rows->op == OP_TAKE) return rows;
  const Instr *gather = rows->op == OP_RESHAPE ? rows->args[0] : NULL;
  if (!gather || gather->op != OP_GATHER || rows->type.rank != gather->args[0]->type.rank)
    return NULL;
  for (int k = 0, axes[MAX_RANK]; k < rows->type.rank; k++) {
    ir_indexed_axes(gather, axes);
    const int to = k == axes[0] ? k : ir_gathered_axis(gather, k);
    if (rows->type.dim[k] != (to < 0 ? 1 : gather->type.dim[to])) return NULL;
  }
  return gather;
}

// The index along one more axis of those rows, or NULL.
static Instr *next_index(const Instr *v, const Instr *taken) {
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(taken, axes);
  for (int i = 0; i < count; i++)
    if (axes[i] == v->ival) return NULL;
  for (int k = 0; k < v->type.rank; k++)
    if (v->type.dim[k] != (k == v->ival ? 1 : v->args[0]->type.dim[k])) return NULL;
  return v->ival > axes[0] ? index_vector(v->args[1], axes[0]) : NULL;
}

// An index in 32 bits, of which vectors pick, where they hold the axis. Moved inside in 64 bits
// before.
static Instr *narrow_index(Rewriter *w, Instr *index, Dim extent) {
  const DType t = index->type.dtype;
  if (t == DT_I32 || dtype_info[t].bits < 32 || !dim_is_const(extent) || extent < 1 ||
      extent > INT32_MAX)
    return index;
  Instr *at = ir_put_cast(w, index, DT_I64);
  const int64_t bound[2] = {0, extent - 1};
  for (int i = 0; i < 2; i++) {
    Instr *c = ir_const_int(w->k, w->out, DT_I64, bound[i], w->span);
    at = ir_put(w, i ? OP_MIN : OP_MAX, at->type, 2, at, ir_put_spread(w, c, at->type));
  }
  return ir_put_cast(w, at, DT_I32);
}

static Type gathered_type(const Instr *table, int64_t mask, int first, Dim length) {
  Type shape = {.dtype = table->type.dtype};
  for (int k = 0; k < table->type.rank; k++)
    if (k == first || !(mask >> k & 1))
      shape.dim[shape.rank++] = k == first ? length : table->type.dim[k];
  return shape;
}

// Replaces v by a gather with the indices of `taken` and one more.
static void join(Rewriter *w, Instr *v, const Instr *taken, Instr *index) {
  Instr *table = taken->args[0], *args[1 + MAX_RANK] = {table};
  int axes[MAX_RANK], nargs = 1, next = 0;
  const int count = ir_indexed_axes(taken, axes);
  int64_t mask = 0;
  for (int k = 0; k < table->type.rank; k++) {
    const bool was = next < count && axes[next] == k;
    if (!was && k != v->ival) continue;
    Instr *along = was ? taken->args[1 + next++] : index;
    args[nargs++] = narrow_index(w, along, table->type.dim[k]);
    mask |= INT64_C(1) << k;
  }
  const Type shape = gathered_type(table, mask, axes[0], index->type.dim[0]);
  Instr *gather = ir_new(w->k, OP_GATHER, shape, w->span, nargs, args);
  gather->ival = mask;
  ir_become_unary(v, OP_RESHAPE, ir_append(w->k, w->out, gather));
}

static bool join_gather(Rewriter *w, Instr *v) {
  Gathers *s = w->context;
  ir_rewrite_inside(w, v);
  const Instr *taken = v->op == OP_TAKE_ALONG ? taken_rows(s, v) : NULL;
  Instr *index = taken ? next_index(v, taken) : NULL;
  if (index) {
    join(w, v, taken, index);
    s->joined += taken->op == OP_TAKE;
  }
  return true;
}

void join_gathers(Kernel *k, Buf *notes) {
  if (!k->body) return;
  Gathers s = {.uses = ir_uses(k, k->body)};
  ir_rewrite(&(Rewriter){.k = k, .rule = join_gather, .context = &s}, k->body);
  if (notes && s.joined)
    buf_printf(
        notes,
        "%d gathers by several index arrays: elements are taken one by one, no rows are stored\n",
        s.joined);
}
