// Pass `indexed`: a `take` with one index, or with consecutive ones, from an input that nothing
// stores to becomes a load of those elements, instead of a load of the whole input.
//
// Requires: nothing. Preserves: the value, because the index is provably in bounds of the window,
// and the window is clamped to its ref first.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

typedef struct {
  const bool *fixed;  // by Ref.id: ir_fixed_inputs
  int loaded;
} IndexedLoads;

// The scalar that all elements of an index are equal to, or NULL.
static Instr *number_in(const Instr *index) {
  bool one = (index->op == OP_RESHAPE || index->op == OP_BROADCAST) && index->type.rank == 1 &&
             index->args[0]->type.rank == 0;
  return one ? index->args[0] : NULL;
}

// The first of consecutive indices, or the only one; otherwise NULL. Narrow indices might wrap to
// their least value.
static Instr *first_index(const Instr *take) {
  const Instr *index = take->args[1];
  if (index->op != OP_ADD) return index->type.dim[0] == 1 ? number_in(index) : NULL;
  const bool first = index->args[0]->op == OP_IOTA;
  const DType t = index->type.dtype;
  if (index->type.rank != 1 || (t != DT_I32 && t != DT_I64) || index->args[!first]->op != OP_IOTA)
    return NULL;
  return number_in(index->args[first]);
}

static bool is_loadable(const Rewriter *w, const Instr *take) {
  const IndexedLoads *p = w->context;
  const Instr *load = take->op == OP_TAKE ? take->args[0] : NULL;
  if (!load || load->op != OP_LOAD || load->flags || load->nargs != load->ref->type.rank ||
      !p->fixed[load->ref->id])
    return false;
  const int64_t count = take->type.dim[take->ival];
  const Instr *index = first_index(take);
  return index && dim_is_const(count) &&
         is_provably_inside(w->around, index, load->type.dim[take->ival], count);
}

// The start of the loaded window along axis k, after it was clamped to its ref.
static Instr *moved_start(Rewriter *w, const Instr *load, int k) {
  const Type i64 = type_scalar(DT_I64);
  const Dim dim = load->ref->type.dim[k], size = load->window.size[k];
  const int64_t stride = load->window.stride[k];
  Instr *start = load->args[k];
  if (ir_starts_at_zero(load, k)) return ir_put_number(w, 0);
  if (ir_axis_is_inside(load, k) ||
      (dim_is_const(size) && is_provably_inside(w->around, start, dim, (size - 1) * stride + 1)))
    return start;
  Instr *one = ir_put_number(w, 1),
        *steps = ir_put(w, OP_SUB, i64, 2, ir_extent(w->k, w->out, size, w->span), one);
  Instr *reach = ir_put(w, OP_MUL, i64, 2, steps, ir_put_number(w, stride));
  one = ir_put_number(w, 1);
  Instr *last = ir_put(w, OP_SUB, i64, 2, ir_extent(w->k, w->out, dim, w->span), one);
  last = ir_put(w, OP_SUB, i64, 2, last, reach);
  Instr *zero = ir_put_number(w, 0);
  return ir_put(w, OP_MAX, i64, 2, ir_put(w, OP_MIN, i64, 2, start, last), zero);
}

static void load_elements(Rewriter *w, Instr *take) {
  const Instr *load = take->args[0];
  const int k = window_axis(load, (int)take->ival);
  const Type i64 = type_scalar(DT_I64);
  Instr *start = moved_start(w, load, k);
  Instr *at = ir_put_cast(w, first_index(take), DT_I64);
  if (load->window.stride[k] != 1)
    at = ir_put(w, OP_MUL, i64, 2, at, ir_put_number(w, load->window.stride[k]));
  if (!ir_is_const(start, 0)) at = ir_put(w, OP_ADD, i64, 2, start, at);
  Instr *row = ir_copy(w->k, load);
  row->type = take->type;
  row->window.size[k] = take->type.dim[take->ival];
  if (row->window.size[k] == 1) row->window.stride[k] = 1;
  row->args[k] = at;
  ir_become(take, row);
}

static bool load_if_loadable(Rewriter *w, Instr *v) {
  IndexedLoads *p = w->context;
  ir_rewrite_inside(w, v);
  if (is_loadable(w, v)) {
    load_elements(w, v);
    p->loaded++;
  }
  return true;
}

void load_indexed(Kernel *k, Buf *notes) {
  if (!k->body) return;
  IndexedLoads p = {.fixed = ir_fixed_inputs(k)};
  ir_rewrite(&(Rewriter){.k = k, .rule = load_if_loadable, .context = &p}, k->body);
  if (notes && p.loaded)
    buf_printf(notes, "%d `take` of one element, one row or consecutive ones became loads\n",
               p.loaded);
}
