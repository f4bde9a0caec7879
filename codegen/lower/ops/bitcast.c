// Bits of elements as other elements, of their width or another.
#include "codegen/lower/ops/ops.h"

// The narrow element's bits in an unsigned integer of the width of `wide`.
Instr *narrow_bits(const Expand *e, Instr *v, DType packed, int wide) {
  int bits = dtype_info[packed].bits;
  return expand_cast(e, expand_bits(e, expand_cast(e, v, packed), unsigned_of_width(bits)),
                     unsigned_of_width(wide));
}

// Element `index` of those packed in v, as the packed dtype.
Instr *narrow_part(const Expand *e, Instr *v, DType packed, int index) {
  int bits = dtype_info[packed].bits;
  Instr *word = expand_bits(e, v, unsigned_of_width(dtype_info[v->type.dtype].bits));
  return expand_bits(
      e, expand_cast(e, expand_shift(e, OP_USHR, word, index * bits), unsigned_of_width(bits)),
      packed);
}

// The first of two adjacent axes of constant lengths before the rows, or -1.
static int constant_pair(const Type *t) {
  for (int k = 0; k + 1 < t->rank - 2; k++)
    if (dim_is_const(t->dim[k]) && dim_is_const(t->dim[k + 1])) return k;
  return -1;
}

static Instr *widths_apart(Lower *l, Instr *v, DType to, Span span);

// Widths need an axis for the parts of an element. Of 8 axes, two become one meanwhile.
static Instr *widths_of_most_axes(Lower *l, Instr *v, DType to, Span span) {
  Type joined = v->type, out = with_dtype(v->type, to);
  const int pair = constant_pair(&joined), row = out.rank - 2;
  joined.rank--;
  joined.dim[pair] *= joined.dim[pair + 1];
  for (int k = pair + 1; k < joined.rank; k++) joined.dim[k] = v->type.dim[k + 1];
  v = widths_apart(l, reshape_to(l, v, &joined, span), to, span);
  out.dim[row] = v->type.dim[row - 1];
  return reshape_to(l, v, &out, span);
}

// The last axis but one grows or shrinks, low bits first.
static Instr *widths_apart(Lower *l, Instr *v, DType to, Span span) {
  int rank = v->type.rank, row = rank - 2, from_bits = dtype_info[v->type.dtype].bits,
      to_bits = dtype_info[to].bits;
  int64_t n = from_bits > to_bits ? from_bits / to_bits : to_bits / from_bits;
  if (rank == MAX_RANK) return widths_of_most_axes(l, v, to, span);
  Type split = v->type, out = with_dtype(v->type, to);
  for (int i = rank; i > row + 1; i--) split.dim[i] = v->type.dim[i - 1];
  split.rank = rank + 1;
  split.dim[row] = from_bits > to_bits ? v->type.dim[row] : v->type.dim[row] / n;
  split.dim[row + 1] = 1;
  Expand e = {l, span, split};
  if (from_bits > to_bits) {
    Instr **parts = NEW_ARRAY(l->arena, Instr *, n);
    v = reshape_to(l, v, &split, span);
    for (int64_t i = 0; i < n; i++) parts[i] = narrow_part(&e, v, to, (int)i);
    Type joined = with_dtype(split, to);
    joined.dim[row + 1] = n;
    Instr *all = emit(l, OP_CONCAT, joined, span, (int)n, parts);
    all->ival = row + 1;
    out.dim[row] = v->type.dim[row] * n;
    return reshape_to(l, all, &out, span);
  }
  Type apart = split;
  apart.dim[row + 1] = n;
  v = reshape_to(l, v, &apart, span);
  Instr *word = NULL;
  for (int64_t i = 0; i < n; i++) {
    Instr *slice = emit1(l, OP_SLICE, split, span, v);
    for (int k = 0; k < split.rank; k++) slice->ints[k] = k == row + 1 ? i : 0, slice->ints2[k] = 1;
    slice->type.dtype = v->type.dtype;
    Instr *part = expand_shift(&e, OP_SHL, narrow_bits(&e, slice, v->type.dtype, to_bits),
                               (int)i * from_bits);
    word = word ? expand2(&e, OP_OR, word, part) : part;
  }
  out.dim[row] = split.dim[row];
  return reshape_to(l, expand_bits(&e, word, to), &out, span);
}

bool check_bitcast(Lower *l, const Type *from, DType to, bool of_value, Span span, Type *out) {
  int have = dtype_info[from->dtype].bits, want = dtype_info[to].bits, row = from->rank - 2;
  *out = with_dtype(*from, to);
  bool wide_alone = have != want && (have == 64 || want == 64);
  if ((from->dtype == DT_BOOL) != (to == DT_BOOL) || wide_alone) {
    diag_error(l->diag, span, ERR_DTYPE_MISMATCH,
               "bitcast of %s to %s is not possible: it keeps the bits",
               dtype_info[from->dtype].name, dtype_info[to].name);
    return false;
  }
  if (have == want) return true;
  if (of_value && from->rank == MAX_RANK && constant_pair(from) < 0) {
    diag_error(
        l->diag, span, ERR_DTYPE_MISMATCH,
        "bitcast of %s to %s: of 8 axes, two adjacent ones before the rows must have constant "
        "lengths",
        type_text(l, from), dtype_info[to].name);
    return false;
  }
  if (from->rank < 2 || !dim_is_const(from->dim[row])) {
    diag_error(l->diag, span, ERR_DTYPE_MISMATCH,
               "bitcast of %s to %s changes the second-last axis, which must exist and have a "
               "constant length",
               type_text(l, from), dtype_info[to].name);
    return false;
  }
  if (have < want && from->dim[row] % (want / have) != 0) {
    diag_error(l->diag, span, ERR_SHAPE_MISMATCH,
               "bitcast of %s to %s: the rows must be a multiple of %d", type_text(l, from),
               dtype_info[to].name, want / have);
    return false;
  }
  out->dim[row] = have > want ? from->dim[row] * (have / want) : from->dim[row] / (want / have);
  return true;
}

Instr *bitcast_to(Lower *l, Instr *v, DType dtype, Span span) {
  if (v->type.dtype == dtype) return v;
  bool same_width = dtype_info[v->type.dtype].bits == dtype_info[dtype].bits;
  return same_width ? emit1(l, OP_BITCAST, with_dtype(v->type, dtype), span, v)
                    : widths_apart(l, v, dtype, span);
}
