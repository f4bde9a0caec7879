// Brings operations to the forms that the generator has loops for.
#include "codegen/passes/pass.h"

typedef struct {
  Kernel *k;
  Region *out;
} Rewriter;

static Instr *before(Rewriter *w, const Instr *like, Op op, Type type, Instr *arg) {
  return ir_add(w->k, w->out, op, type, like->span, 1, arg);
}

// v itself becomes op(arg), so its users stay as they are.
static void become(Instr *v, Op op, Instr *arg) {
  v->op = op;
  v->nargs = 1;
  v->args[0] = arg;
  v->ival = 0;
  v->flags = 0;
}

static Instr *copy_before(Rewriter *w, const Instr *v, Type type) {
  Instr *copy = ir_new(w->k, v->op, type, v->span, v->nargs, v->args);
  copy->flags = v->flags;
  copy->ival = v->ival;
  copy->labels = v->labels;
  return ir_append(w->k, w->out, copy);
}

static Instr *with_dtype(Rewriter *w, const Instr *like, Instr *v, DType dtype) {
  Type type = v->type;
  type.dtype = dtype;
  return v->type.dtype == dtype ? v : before(w, like, OP_CAST, type, v);
}

// dot(.., out = bf16): the sums are rounded once, at the end.
static void split_dot(Rewriter *w, Instr *v) {
  DType sums = dtype_accum(v->args[0]->type.dtype);
  if (v->type.dtype == sums) return;
  if (is_wide(v->type.dtype)) {  // exact in 64 bits from the start
    for (int i = 0; i < 2; i++) v->args[i] = with_dtype(w, v, v->args[i], v->type.dtype);
    return;
  }
  Type type = v->type;
  type.dtype = sums;
  become(v, OP_CAST, copy_before(w, v, type));
}

static Instr *transposed(Rewriter *w, const Instr *like, Instr *v) {
  Type type = v->type;
  type.dim[0] = v->type.dim[1];
  type.dim[1] = v->type.dim[0];
  Instr *t = before(w, like, OP_TRANSPOSE, type, v);
  t->ints[0] = 1;
  return t;
}

// [M, K] x [K, 1]: a sum over rows, one column is not a panel.
static void dot_of_column(Rewriter *w, Instr *v) {
  DotShape s = dot_shape(v);
  if (!s.matrices || v->type.dim[1] != 1) return;
  Instr *a = s.a_transposed ? transposed(w, v, s.a) : s.a, *row = s.b;
  Type flat = s.b->type;
  flat.dim[0] = 1;
  flat.dim[1] = s.b->type.dim[s.b_transposed];
  if (!s.b_transposed) row = before(w, v, OP_RESHAPE, flat, row);
  a = with_dtype(w, v, a, v->type.dtype);
  row = before(w, v, OP_BROADCAST, a->type, with_dtype(w, v, row, v->type.dtype));
  Instr *terms = ir_add(w->k, w->out, OP_MUL, a->type, v->span, 2, a, row);
  become(v, OP_REDUCE_SUM, terms);
  v->ival = 2;
}

// Sums and products of narrow floats run in f32 and are rounded once.
static void widen(Rewriter *w, Instr *v) {
  Type type = v->args[0]->type;
  type.dtype = DT_F32;
  Instr *wide = before(w, v, OP_CAST, type, v->args[0]);
  type = v->type;
  type.dtype = DT_F32;
  Instr *sum = copy_before(w, v, type);
  sum->args[0] = wide;
  become(v, OP_CAST, sum);
}

// Axes of one element need no reduction; the last axis is reduced first, by the loop over columns,
// then the others.
static void split_reduce(Rewriter *w, Instr *v) {
  const Type *from = &v->args[0]->type;
  for (int i = 0; i < from->rank; i++)
    if (from->dim[i] == 1) v->ival &= ~(INT64_C(1) << i);
  if (v->ival == 0) {
    become(v, OP_BROADCAST, v->args[0]);
    return;
  }
  int64_t last = INT64_C(1) << (from->rank - 1);
  if (!(v->ival & last) || v->ival == last) return;
  Type type = *from;
  type.dim[from->rank - 1] = 1;
  Instr *rows = copy_before(w, v, type);
  rows->ival = last;
  v->args[0] = rows;
  v->ival &= ~last;
}

// ---- fma of narrow floats

static Instr *two(Rewriter *w, const Instr *like, Op op, DType dtype, Instr *a, Instr *b) {
  Type type = like->type;
  type.dtype = dtype;
  return ir_add(w->k, w->out, op, type, like->span, 2, a, b);
}

static Instr *one(Rewriter *w, const Instr *like, Op op, DType dtype, Instr *a) {
  Type type = like->type;
  type.dtype = dtype;
  return before(w, like, op, type, a);
}

static Instr *spread(Rewriter *w, const Instr *like, Instr *constant) {
  return like->type.rank ? one(w, like, OP_BROADCAST, constant->type.dtype, constant) : constant;
}

static Instr *choose(Rewriter *w, const Instr *like, Instr *condition, Instr *a, Instr *b) {
  Type type = like->type;
  type.dtype = a->type.dtype;
  return ir_add(w->k, w->out, OP_SELECT, type, like->span, 3, condition, a, b);
}

// The f32 that stands for `sum` plus a small error when it is rounded further: an even last bit
// moves to its odd neighbour in the direction of the error.
static Instr *to_odd(Rewriter *w, const Instr *like, Instr *sum, Instr *error) {
  Instr *zero = spread(w, like, ir_const_float(w->k, w->out, DT_F32, 0, like->span));
  Instr *none = spread(w, like, ir_const_int(w->k, w->out, DT_I32, 0, like->span));
  Instr *up = spread(w, like, ir_const_int(w->k, w->out, DT_I32, 1, like->span));
  Instr *down = spread(w, like, ir_const_int(w->k, w->out, DT_I32, -1, like->span));
  Instr *above = two(w, like, OP_GT, DT_BOOL, error, zero),
        *below = two(w, like, OP_LT, DT_BOOL, error, zero);
  Instr *bits = one(w, like, OP_BITCAST, DT_I32, sum),
        *last = two(w, like, OP_AND, DT_I32, bits, up);
  Instr *even = two(w, like, OP_EQ, DT_BOOL, last, none),
        *inexact = two(w, like, OP_OR, DT_BOOL, above, below);
  Instr *outwards = two(w, like, OP_XOR, DT_BOOL, above, two(w, like, OP_LT, DT_BOOL, sum, zero));
  Instr *moved = two(w, like, OP_ADD, DT_I32, bits, choose(w, like, outwards, up, down));
  bits = choose(w, like, two(w, like, OP_AND, DT_BOOL, inexact, even), moved, bits);
  return one(w, like, OP_BITCAST, DT_F32, bits);
}

// In f32 the product is exact and the sum is not: its error (Knuth's TwoSum) decides how it is
// rounded once more.
static void narrow_fma(Rewriter *w, Instr *v) {
  Instr *x[3];
  for (int i = 0; i < 3; i++) x[i] = one(w, v, OP_CAST, DT_F32, v->args[i]);
  Type type = v->type;
  type.dtype = DT_F32;
  Instr *sum = ir_add(w->k, w->out, OP_FMA, type, v->span, 3, x[0], x[1], x[2]);
  Instr *product = two(w, v, OP_MUL, DT_F32, x[0], x[1]),
        *back = two(w, v, OP_SUB, DT_F32, sum, product);
  Instr *lost = two(w, v, OP_SUB, DT_F32, product, two(w, v, OP_SUB, DT_F32, sum, back));
  Instr *error = two(w, v, OP_ADD, DT_F32, lost, two(w, v, OP_SUB, DT_F32, x[2], back));
  become(v, OP_CAST, to_odd(w, v, sum, error));
}

static void rewrite(Rewriter *w, Instr *v) {
  bool sums = fold_operation[v->op] == OP_ADD || fold_operation[v->op] == OP_MUL;
  if (v->op == OP_DOT) {
    split_dot(w, v);
    Instr *dot = v->op == OP_DOT ? v : v->args[0];
    if (dot != v) w->out->instrs.count--;
    dot_of_column(w, dot);
    if (dot != v) ir_append(w->k, w->out, dot);
    return;
  }
  if (v->op == OP_FMA && is_narrow_float(v->type.dtype)) narrow_fma(w, v);
  if (v->op == OP_RESHAPE && v->type.rank > 0 && v->args[0]->type.rank == 0)
    become(v, OP_BROADCAST, v->args[0]);
  if (sums && is_narrow_float(v->type.dtype)) {
    widen(w, v);
    Instr *sum = v->args[0];
    w->out->instrs.count--;
    rewrite(w, sum);
    ir_append(w->k, w->out, sum);
  } else if (op_info[v->op].class == OPC_REDUCE && v->args[0]->type.rank > 0) {
    split_reduce(w, v);
  }
}

static void rewrite_region(Kernel *k, Region *region) {
  Region out = {.arg = region->arg};
  Rewriter w = {k, &out};
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) rewrite_region(k, v->regions[r]);
    rewrite(&w, v);
    ir_append(k, &out, v);
  }
  *region = out;
}

// Requires: nothing. Keeps: the meaning, except the order of a sum over several axes. Afterwards:
// dots are in their accumulator's dtype, reductions are over the last axis alone or over others
// alone, and sums and fma of narrow floats are in f32.
void canonicalise(Kernel *k, Buf *notes) {
  (void)notes;
  rewrite_region(k, k->body);
}
