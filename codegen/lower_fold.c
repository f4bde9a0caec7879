// Arithmetic of literals and statics: exact in 64-bit integers and doubles, and reported when it is not.
#include "codegen/lower_internal.h"

#include <math.h>

double as_double(Value v) { return v.kind == V_FLOAT ? v.fval : (double)v.ival; }

static Value overflow(Lower *l, Span span) {
  diag_error(l->diag, span, ERR_STATIC_OVERFLOW, "this constant arithmetic goes beyond 64 bits");
  return value_error();
}

static Value checked(Lower *l, Span span, bool fits, int64_t v) { return fits ? value_int(v) : overflow(l, span); }

// Quotients of integers; b is not 0.
static Value divide(Lower *l, Span span, Op op, int64_t a, int64_t b) {
  if (b == -1) {
    int64_t negated = 0;
    if (op == OP_REM || op == OP_MOD) return value_int(0);
    bool fits = sub_i64(0, a, &negated);
    return checked(l, span, fits, negated);
  }
  int64_t quotient = a / b, rest = a % b;
  bool down = rest != 0 && (rest < 0) != (b < 0);
  switch (op) {
    case OP_DIV:
      return value_int(quotient);
    case OP_REM:
      return value_int(rest);
    case OP_FLOORDIV:
      return value_int(quotient - down);
    case OP_MOD:
      return value_int(down ? rest + b : rest);
    default:
      INTERNAL("not a division: %d", op);
  }
}

static Value power(Lower *l, Span span, int64_t a, int64_t b) {
  if (b < 0) return value_int(a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0);
  if (a == 0 || a == 1 || a == -1) return value_int(b == 0 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : a);
  int64_t product = 1;
  for (; b > 0; b--)
    if (!mul_i64(product, a, &product)) return overflow(l, span);
  return value_int(product);
}

static Value shift(Lower *l, Span span, Op op, int64_t a, int64_t b) {
  if (op == OP_SHL) {
    if (a == 0) return value_int(0);
    int64_t product = 0;
    bool fits = b >= 0 && b < 63 && mul_i64(a, INT64_C(1) << b, &product);
    return checked(l, span, fits, product);
  }
  if (op == OP_USHR && a < 0) {
    diag_error(l->diag, span, ERR_STATIC_OVERFLOW, "`>>>` of a negative constant has no width; cast it first");
    return value_error();
  }
  if (b < 0 || b > 63) return value_int(a < 0 ? -1 : 0);
  return value_int(a >> b);
}

static Value int_function(Lower *l, Op op, int64_t a, int64_t b, Span span) {
  int64_t r = 0;
  switch (op) {
    case OP_ADD:
      return add_i64(a, b, &r) ? value_int(r) : overflow(l, span);
    case OP_SUB:
      return sub_i64(a, b, &r) ? value_int(r) : overflow(l, span);
    case OP_MUL:
      return mul_i64(a, b, &r) ? value_int(r) : overflow(l, span);
    case OP_DIV:
    case OP_REM:
    case OP_FLOORDIV:
    case OP_MOD:
      if (b != 0) return divide(l, span, op, a, b);
      diag_error(l->diag, span, ERR_STATIC_DIVISION, "division of constants by zero");
      return value_error();
    case OP_POW:
      return power(l, span, a, b);
    case OP_MAX:
      return value_int(a > b ? a : b);
    case OP_MIN:
      return value_int(a < b ? a : b);
    case OP_AND:
      return value_int(a & b);
    case OP_OR:
      return value_int(a | b);
    case OP_XOR:
      return value_int(a ^ b);
    case OP_SHL:
    case OP_SHR:
    case OP_USHR:
      return shift(l, span, op, a, b);
    default:
      INTERNAL("no integer folding of %s", op_info[op].name);
  }
}

static double larger(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b || (a == b && !signbit(a)) ? a : b; }
static double smaller(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b || (a == b && signbit(a)) ? a : b; }

static double float_mod(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static Value float_function(Lower *l, Op op, double a, double b, Span span) {
  switch (op) {
    case OP_ADD:
      return value_float(a + b);
    case OP_SUB:
      return value_float(a - b);
    case OP_MUL:
      return value_float(a * b);
    case OP_DIV:
      return value_float(a / b);
    case OP_REM:
      return value_float(fmod(a, b));
    case OP_FLOORDIV:
      return value_float(floor(a / b));
    case OP_MOD:
      return value_float(float_mod(a, b));
    case OP_POW:
      return value_float(pow(a, b));
    case OP_ATAN2:
      return value_float(atan2(a, b));
    case OP_MAX:
      return value_float(larger(a, b));
    case OP_MIN:
      return value_float(smaller(a, b));
    default:
      diag_error(l->diag, span, ERR_DTYPE_UNSUPPORTED, "%s is for integers, and this is a float", op_info[op].name);
      return value_error();
  }
}

Value fold_function(Lower *l, Op op, Value a, Value b, Span span) {
  if (op == OP_ATAN2 || a.kind == V_FLOAT || b.kind == V_FLOAT) return float_function(l, op, as_double(a), as_double(b), span);
  return int_function(l, op, a.ival, b.ival, span);
}

// The block IR's operation of a binary operator; `&&` and `||` are not here.
Op binary_op(int op) {
  static const Op ops[] = {
      [BIN_MUL] = OP_MUL,  [BIN_DIV] = OP_DIV, [BIN_REM] = OP_REM,   [BIN_ADD] = OP_ADD,    [BIN_SUB] = OP_SUB,
      [BIN_SHL] = OP_SHL,  [BIN_SHR] = OP_SHR, [BIN_USHR] = OP_USHR, [BIN_BITAND] = OP_AND, [BIN_BITXOR] = OP_XOR,
      [BIN_BITOR] = OP_OR, [BIN_EQ] = OP_EQ,   [BIN_NE] = OP_NE,     [BIN_LT] = OP_LT,      [BIN_LE] = OP_LE,
      [BIN_GT] = OP_GT,    [BIN_GE] = OP_GE,   [BIN_AND] = OP_AND,   [BIN_OR] = OP_OR};
  REQUIRE(op > OP_NONE && op <= BIN_OR);
  return ops[op];
}

static bool compare_order(Op op, int order) {
  switch (op) {
    case OP_EQ:
      return order == 0;
    case OP_NE:
      return order != 0;
    case OP_LT:
      return order < 0;
    case OP_LE:
      return order <= 0;
    case OP_GT:
      return order > 0;
    default:
      return order >= 0;
  }
}

static Value compare(Op op, Value a, Value b) {
  if (a.kind == V_INT && b.kind == V_INT) return value_bool(compare_order(op, (a.ival > b.ival) - (a.ival < b.ival)));
  double x = as_double(a), y = as_double(b);
  if (isnan(x) || isnan(y)) return value_bool(op == OP_NE);
  return value_bool(compare_order(op, (x > y) - (x < y)));
}

static Value wrong_kinds(Lower *l, const Node *node, Value a, Value b) {
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "`%s` of %s and %s", binary_spelling((BinaryOp)node->op),
             value_text(l, a), value_text(l, b));
  return value_error();
}

// == and != of bools and dtypes, & | ^ of bools.
static Value fold_same_kind(Lower *l, const Node *node, Op op, Value a, Value b) {
  int64_t x = a.kind == V_DTYPE ? (int64_t)a.dtype : a.ival, y = b.kind == V_DTYPE ? (int64_t)b.dtype : b.ival;
  if (op == OP_EQ) return value_bool(x == y);
  if (op == OP_NE) return value_bool(x != y);
  if (a.kind == V_BOOL && op == OP_AND) return value_bool(x && y);
  if (a.kind == V_BOOL && op == OP_OR) return value_bool(x || y);
  if (a.kind == V_BOOL && op == OP_XOR) return value_bool(x != y);
  return wrong_kinds(l, node, a, b);
}

bool fold_binary(Lower *l, const Node *node, int op, Value a, Value b, Value *out) {
  if (!is_static(a) || !is_static(b)) return false;
  Op o = binary_op(op);
  bool logical = op == BIN_AND || op == BIN_OR;
  if (is_number(a) && is_number(b) && !logical)
    *out = op_info[o].class == OPC_COMPARE ? compare(o, a, b) : fold_function(l, o, a, b, node->span);
  else if (a.kind == b.kind && !is_number(a) && (!logical || a.kind == V_BOOL))
    *out = fold_same_kind(l, node, o, a, b);
  else
    *out = wrong_kinds(l, node, a, b);
  return true;
}

Value fold_unary(Lower *l, const Node *node, Value a) {
  int64_t r = 0;
  if (node->op == UN_NEG && a.kind == V_INT) return sub_i64(0, a.ival, &r) ? value_int(r) : overflow(l, node->span);
  if (node->op == UN_NEG && a.kind == V_FLOAT) return value_float(-a.fval);
  if (node->op == UN_NOT && a.kind == V_BOOL) return value_bool(!a.ival);
  if (node->op == UN_BITNOT && a.kind == V_INT) return value_int(~a.ival);
  static const char *const spelling[] = {"-", "!", "~"};
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "`%s` of %s", spelling[node->op], value_text(l, a));
  return value_error();
}
