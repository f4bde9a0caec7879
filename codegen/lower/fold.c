// Arithmetic of literals and statics: exact in 64-bit integers, else in binary64, and reported when
// it is not.
//
// The results of operations come from scalar.c. This file only rejects what constants must not do:
// overflow, divide by zero, mix kinds.
#include "codegen/lower/internal.h"
#include "codegen/ir/scalar.h"

#include <math.h>

static Value overflow(Lower *l, Span span) {
  diag_error(l->diag, span, ERR_STATIC_OVERFLOW, "this constant expression overflows 64 bits");
  return value_error();
}

static Value int_function(Lower *l, Op op, int64_t a, int64_t b, Span span) {
  int64_t result;
  if (op_has(op, DIVIDES) && b == 0) {
    diag_error(l->diag, span, ERR_STATIC_DIVISION, "division of constants by zero");
    return value_error();
  }
  if (op == OP_USHR && a < 0) {
    diag_error(l->diag, span, ERR_STATIC_OVERFLOW,
               "`>>>` of a negative constant has no width; cast it first");
    return value_error();
  }
  return int_exact(op, a, b, &result) ? value_int(result) : overflow(l, span);
}

static Value float_function(Lower *l, Op op, double a, double b, Span span) {
  if (op_takes(op, DT_F32)) return value_float(float_binary(op, DT_F32)(a, b));
  diag_error(l->diag, span, ERR_DTYPE_UNSUPPORTED, "%s requires integers, and this is a float",
             op_info[op].name);
  return value_error();
}

Value fold_function(Lower *l, Op op, Value a, Value b, Span span) {
  if (!op_takes(op, DT_I64) || a.kind == V_FLOAT || b.kind == V_FLOAT)
    return float_function(l, op, as_double(a), as_double(b), span);
  return int_function(l, op, a.ival, b.ival, span);
}

Value fold_one(Lower *l, Op op, Value a, Span span) {
  if (a.kind == V_INT && op_takes(op, DT_I64)) return int_function(l, op, a.ival, 0, span);
  if (op_info[op].class == OPC_PREDICATE) return value_bool(float_predicate(op, as_double(a)));
  return value_float(float_unary(op)(as_double(a)));
}

// The product of two f32 is exact here, so it is rounded once to any dtype, as data is.
Value fold_fma(Value a, Value b, Value c) {
  double x = as_double(a), y = as_double(b), z = as_double(c);
  bool exact = x == (double)(float)x && y == (double)(float)y;
  Value v = value_float(fma(x, y, z));
  if (exact) v.odd = fma_to_odd(x, y, z);
  return v;
}

Op binary_op(int op) {
  static const Op ops[] = {
      OP_COUNT,
#define BINARY(id, spelling, precedence, operation) OP_##operation,
#include "dsl/operators.def"
#undef BINARY
  };
  REQUIRE(op > OP_NONE && op <= BIN_OR);
  return ops[op];
}

static Value compare(Op op, Value a, Value b) {
  if (a.kind == V_INT && b.kind == V_INT)
    return value_bool(int_compare(op, DT_I64, a.ival, b.ival));
  return value_bool(float_compare(op, as_double(a), as_double(b)));
}

static Value wrong_kinds(Lower *l, const Node *node, Value a, Value b) {
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "`%s` of %s and %s",
             binary_spelling((BinaryOp)node->op), value_text(l, a), value_text(l, b));
  return value_error();
}

// == and != of bools and dtypes, comparisons and & | ^ of bools.
static Value fold_same_kind(Lower *l, const Node *node, Op op, Value a, Value b) {
  int64_t x = a.kind == V_DTYPE ? (int64_t)a.dtype : a.ival,
          y = b.kind == V_DTYPE ? (int64_t)b.dtype : b.ival;
  bool compares = op_info[op].class == OPC_COMPARE && a.kind == V_BOOL;
  if (op == OP_EQ || op == OP_NE || compares) return value_bool(int_compare(op, DT_I64, x, y));
  return a.kind == V_BOOL && op_takes(op, DT_BOOL) ? value_bool(int_binary(op, DT_BOOL, x, y))
                                                   : wrong_kinds(l, node, a, b);
}

bool fold_binary(Lower *l, const Node *node, int op, Value a, Value b, Value *out) {
  if (!is_static(a) || !is_static(b)) return false;
  Op o = binary_op(op);
  bool logical = op == BIN_AND || op == BIN_OR;
  if (is_number(a) && is_number(b) && !logical)
    *out =
        op_info[o].class == OPC_COMPARE ? compare(o, a, b) : fold_function(l, o, a, b, node->span);
  else if (a.kind == b.kind && !is_number(a) && (!logical || a.kind == V_BOOL))
    *out = fold_same_kind(l, node, o, a, b);
  else
    *out = wrong_kinds(l, node, a, b);
  return true;
}

Value fold_unary(Lower *l, const Node *node, Value a) {
  if (node->op == UN_NEG && is_number(a)) return fold_one(l, OP_NEG, a, node->span);
  if (node->op == UN_BITNOT && a.kind == V_INT) return fold_one(l, OP_NOT, a, node->span);
  if (node->op == UN_NOT && a.kind == V_BOOL) return value_bool(int_unary(OP_NOT, DT_BOOL, a.ival));
  static const char *const spelling[] = {"-", "!", "~"};
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "`%s` of %s", spelling[node->op],
             value_text(l, a));
  return value_error();
}
