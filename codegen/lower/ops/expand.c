// Instructions of one shape, for functions that the lowering composes of simpler operations.
#include "codegen/lower/ops/ops.h"

Expand expand_like(Lower *l, const Instr *v, Span span) { return (Expand){l, span, v->type}; }

static Instr *spread(const Expand *e, Instr *scalar) {
  return broadcast_to(e->l, scalar, &e->shape, e->span);
}

Instr *expand_int(const Expand *e, DType dtype, int64_t value) {
  return spread(e, ir_const_int(e->l->k, e->l->frame->region, dtype, value, e->span));
}

Instr *expand_float(const Expand *e, DType dtype, double value) {
  return spread(
      e, ir_const_float(e->l->k, e->l->frame->region, dtype, dtype_round(dtype, value), e->span));
}

Instr *expand_number(const Expand *e, DType dtype, int64_t value) {
  return is_float(dtype) ? expand_float(e, dtype, (double)value) : expand_int(e, dtype, value);
}

static Type result_type(const Expand *e, Op op, const Instr *a) {
  bool truth = op_info[op].class == OPC_COMPARE || op_info[op].class == OPC_PREDICATE;
  return with_dtype(e->shape, truth ? DT_BOOL : a->type.dtype);
}

Instr *expand1(const Expand *e, Op op, Instr *a) {
  return emit1(e->l, op, result_type(e, op, a), e->span, a);
}
Instr *expand2(const Expand *e, Op op, Instr *a, Instr *b) {
  return emit2(e->l, op, result_type(e, op, a), e->span, a, b);
}

Instr *expand_cast(const Expand *e, Instr *a, DType dtype) {
  return a->type.dtype == dtype ? a : emit1(e->l, OP_CAST, with_dtype(a->type, dtype), e->span, a);
}

Instr *expand_bits(const Expand *e, Instr *a, DType dtype) {
  return a->type.dtype == dtype ? a
                                : emit1(e->l, OP_BITCAST, with_dtype(a->type, dtype), e->span, a);
}

Instr *expand_select(const Expand *e, Instr *c, Instr *a, Instr *b) {
  return emit(e->l, OP_SELECT, a->type, e->span, 3, (Instr *const[]){c, a, b});
}

Instr *expand_shift(const Expand *e, Op op, Instr *a, int places) {
  return places ? expand2(e, op, a, expand_int(e, a->type.dtype, places)) : a;
}

Instr *transpose_to(Lower *l, Instr *v, const int *perm, Span span) {
  Type type = v->type;
  bool moved = false;
  for (int i = 0; i < type.rank; i++) {
    type.dim[i] = v->type.dim[perm[i]];
    moved = moved || perm[i] != i;
  }
  if (!moved) return v;
  Instr *t = emit1(l, OP_TRANSPOSE, type, span, v);
  for (int i = 0; i < type.rank; i++) t->ints[i] = perm[i];
  return t;
}

Instr *take_axis(Lower *l, Instr *v, int axis, Instr *index, Span span) {
  Type type = v->type;
  type.dim[axis] = index->type.dim[0];
  Instr *taken = emit2(l, OP_TAKE, type, span, v, index);
  taken->ival = axis;
  return taken;
}
