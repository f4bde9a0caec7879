// Brings operations into the forms for which the generator has loops.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

static bool canonicalise_instr(Rewriter *w, Instr *v);

// A copy of v, to which the pass is applied too.
static Instr *put_copy(Rewriter *w, Instr *copy) {
  canonicalise_instr(w, copy);
  return ir_append(w->k, w->out, copy);
}

static Instr *copy_as(Rewriter *w, const Instr *v, Type type) {
  Instr *copy = ir_copy(w->k, v);
  copy->type = type;
  copy->text = NULL;
  return copy;
}

static Instr *transposed(Rewriter *w, Instr *v) {
  Type type = v->type;
  type.dim[0] = v->type.dim[1];
  type.dim[1] = v->type.dim[0];
  Instr *t = ir_put(w, OP_TRANSPOSE, type, 1, v);
  t->ints[0] = 1;
  return t;
}

// [M, K] x [K, 1] is a sum over rows, because one column is not a panel.
static void dot_of_column(Rewriter *w, Instr *v) {
  DotShape s = dot_shape(v);
  if (!s.matrices || v->type.dim[1] != 1) return;
  Instr *a = s.a_transposed ? transposed(w, s.a) : s.a, *row = s.b;
  Type flat = s.b->type;
  flat.dim[0] = 1;
  flat.dim[1] = s.b->type.dim[s.b_transposed];
  if (!s.b_transposed) row = ir_put(w, OP_RESHAPE, flat, 1, row);
  a = ir_put_cast(w, a, v->type.dtype);
  row = ir_put(w, OP_BROADCAST, a->type, 1, ir_put_cast(w, row, v->type.dtype));
  ir_become_unary(v, OP_REDUCE_SUM, ir_put(w, OP_MUL, a->type, 2, a, row));
  v->ival = 2;
}

// dot(.., out = bf16): the sums are rounded once, at the end.
static void split_dot(Rewriter *w, Instr *v) {
  DType sums = dtype_accum(v->args[0]->type.dtype);
  if (v->type.dtype != sums && !is_wide(v->type.dtype)) {
    Instr *dot = copy_as(w, v, type_as(v->type, sums));
    ir_become_unary(v, OP_CAST, put_copy(w, dot));
    return;
  }
  for (int i = 0; v->type.dtype != sums && i < 2; i++)  // exact in 64 bits from the start
    v->args[i] = ir_put_cast(w, v->args[i], v->type.dtype);
  dot_of_column(w, v);
}

// In a dtype that represents all values, so that sums and products of narrow floats are rounded
// once.
static DType wider(DType t) { return is_float(t) ? DT_F32 : DT_I32; }
static void widen(Rewriter *w, Instr *v, DType to) {
  Instr *wide = ir_put_cast(w, v->args[0], to), *sum = copy_as(w, v, type_as(v->type, to));
  sum->args[0] = wide;
  ir_become_unary(v, OP_CAST, put_copy(w, sum));
}

// Does the vector layer have scans of this dtype? Scans of other dtypes use a dtype that represents
// all values.
static bool has_lines(DType t) {
  return is_float(t) ? dtype_info[t].bits > 8 : dtype_info[t].bits >= 8;
}

static bool is_narrow(DType t) { return is_narrow_float(t) || is_narrow_integer(t); }

// Narrow floats are added in f32, and narrow elements are sorted in 32 bits, for which there are
// networks.
static bool is_widened(const Instr *v) {
  const DType t = v->type.dtype;
  const Op fold = fold_operation[v->op];
  if (v->op == OP_SORT) return is_narrow(t);
  if ((fold == OP_ADD || fold == OP_MUL) && is_narrow_float(t)) return true;
  return op_info[v->op].class == OPC_SCAN && fold != OP_CONST && !has_lines(t);
}

// Axes of one element need no reduction; the last axis is reduced first, by the loop over columns,
// then the others.
static void split_reduce(Rewriter *w, Instr *v) {
  const Type *from = &v->args[0]->type;
  for (int i = 0; i < from->rank; i++)
    if (from->dim[i] == 1) v->ival &= ~(INT64_C(1) << i);
  if (v->ival == 0) {
    ir_become_unary(v, OP_BROADCAST, v->args[0]);
    return;
  }
  int64_t last = INT64_C(1) << (from->rank - 1);
  if (!(v->ival & last) || v->ival == last) return;
  Type type = *from;
  type.dim[from->rank - 1] = 1;
  Instr *rows = ir_append(w->k, w->out, copy_as(w, v, type));
  rows->ival = last;
  v->args[0] = rows;
  v->ival &= ~last;
}

// ---- fma of narrow floats

// For elementwise operations on values of one shape.
static Instr *two(Rewriter *w, Op op, DType dtype, Instr *a, Instr *b) {
  return ir_put(w, op, type_as(a->type, dtype), 2, a, b);
}

// An f32 that rounds like `sum` plus a small error: an even last bit is replaced by its odd
// neighbour in the direction of the error.
static Instr *to_odd(Rewriter *w, Instr *sum, Instr *error) {
  const Type shape = sum->type;
  Instr *zero = ir_put_spread(w, ir_const_float(w->k, w->out, DT_F32, 0, w->span), shape);
  Instr *none = ir_put_spread(w, ir_const_int(w->k, w->out, DT_I32, 0, w->span), shape);
  Instr *up = ir_put_spread(w, ir_const_int(w->k, w->out, DT_I32, 1, w->span), shape);
  Instr *down = ir_put_spread(w, ir_const_int(w->k, w->out, DT_I32, -1, w->span), shape);
  Instr *above = two(w, OP_GT, DT_BOOL, error, zero), *below = two(w, OP_LT, DT_BOOL, error, zero);
  Instr *bits = ir_put(w, OP_BITCAST, up->type, 1, sum), *last = two(w, OP_AND, DT_I32, bits, up);
  Instr *even = two(w, OP_EQ, DT_BOOL, last, none), *inexact = two(w, OP_OR, DT_BOOL, above, below);
  Instr *outwards = two(w, OP_XOR, DT_BOOL, above, two(w, OP_LT, DT_BOOL, sum, zero));
  Instr *moved =
      two(w, OP_ADD, DT_I32, bits, ir_put(w, OP_SELECT, up->type, 3, outwards, up, down));
  Instr *moves = two(w, OP_AND, DT_BOOL, inexact, even);
  bits = ir_put(w, OP_SELECT, up->type, 3, moves, moved, bits);
  return ir_put(w, OP_BITCAST, shape, 1, bits);
}

// In f32 the product is exact and the sum is not; the error of the sum (Knuth's TwoSum) decides the
// final rounding.
static void narrow_fma(Rewriter *w, Instr *v) {
  const DType f32 = DT_F32;
  Instr *x[3];
  for (int i = 0; i < 3; i++) x[i] = ir_put_cast(w, v->args[i], f32);
  Instr *sum = ir_put(w, OP_FMA, x[0]->type, 3, x[0], x[1], x[2]);
  Instr *product = two(w, OP_MUL, f32, x[0], x[1]), *back = two(w, OP_SUB, f32, sum, product);
  Instr *lost = two(w, OP_SUB, f32, product, two(w, OP_SUB, f32, sum, back));
  Instr *error = two(w, OP_ADD, f32, lost, two(w, OP_SUB, f32, x[2], back));
  ir_become_unary(v, OP_CAST, to_odd(w, sum, error));
}

static bool canonicalise_instr(Rewriter *w, Instr *v) {
  ir_rewrite_inside(w, v);
  if (v->op == OP_DOT)
    split_dot(w, v);
  else if (v->op == OP_FMA && is_narrow_float(v->type.dtype))
    narrow_fma(w, v);
  else if (v->op == OP_RESHAPE && v->type.rank > 0 && v->args[0]->type.rank == 0)
    ir_become_unary(v, OP_BROADCAST, v->args[0]);
  else if (is_widened(v))
    widen(w, v, wider(v->type.dtype));
  else if (v->op == OP_ARGSORT && is_narrow(v->args[0]->type.dtype))
    v->args[0] = ir_put_cast(w, v->args[0], wider(v->args[0]->type.dtype));
  else if (op_info[v->op].class == OPC_REDUCE && v->args[0]->type.rank > 0)
    split_reduce(w, v);
  return true;
}

// Requires: nothing. Preserves: the meaning, except the order of a sum over several axes.
// Afterwards: dots are in their accumulator's dtype, reductions are over the last axis alone or
// over others alone, sums and fma of narrow floats are in f32, and lines are sorted in 32 bits at
// least.
void canonicalise(Kernel *k, Buf *notes) {
  (void)notes;
  ir_rewrite(&(Rewriter){.k = k, .rule = canonicalise_instr}, k->body);
}
