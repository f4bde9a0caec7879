// Operations on integers and truth values that may be unknown.
#include "codegen/ir/scalar.h"
#include "codegen/prove/cells.h"

static int64_t open_integer(Proof *p, Op op, DType dtype, const int64_t *cells) {
  Id x = integer_id(p, cells[0]), y = op == OP_NEG ? x : integer_id(p, cells[1]);
  bool wrapped = number_at(p, x)->wrapped || number_at(p, y)->wrapped;
  Id result = op == OP_NEG   ? number_neg(p, x)
              : op == OP_ADD ? number_add(p, x, y)
              : op == OP_SUB ? number_sub(p, x, y)
              : op == OP_MUL ? number_mul(p, x, y)
                             : -1;
  int64_t changed;
  if (result < 0 && change_sign_bit(p, op, dtype, cells, &changed)) return changed;
  if (result < 0 && move_bits(p, op, dtype, cells, &changed)) return changed;
  if (result < 0) return integer_ranged(p, dtype, integer_function(p, op, dtype, cells, 2));
  return integer_wrapped(p, dtype, result, wrapped);
}

static int64_t truth_operation(Proof *p, Op op, int64_t a, int64_t b) {
  switch (op) {
    case OP_NOT:
      return truth_not(p, a);
    case OP_AND:
    case OP_MIN:
    case OP_MUL:
      return truth_and(p, a, b);
    case OP_OR:
    case OP_MAX:
      return truth_not(p, truth_and(p, truth_not(p, a), truth_not(p, b)));
    case OP_XOR:
    case OP_NE:
      return truth_xor(p, a, b);
    case OP_EQ:
      return truth_not(p, truth_xor(p, a, b));
    default:
      return open_cell(number_unknown(p));
  }
}

int64_t integer_unary(Proof *p, Op op, DType dtype, int64_t a) {
  int64_t cells[2] = {a, a};
  if (!cell_is_open(a)) return integer_known(p, int_unary(op, dtype, a));
  return dtype == DT_BOOL ? truth_operation(p, op, a, a) : open_integer(p, op, dtype, cells);
}

int64_t integer_binary(Proof *p, Op op, DType dtype, int64_t a, int64_t b) {
  int64_t cells[2] = {a, b};
  if (!any_open(cells, 2)) return integer_known(p, int_binary(op, dtype, a, b));
  return dtype == DT_BOOL ? truth_operation(p, op, a, b) : open_integer(p, op, dtype, cells);
}

// Are the bits of a float compared with 0? They are 0 where the float is, if it has only one zero:
// in FNUZ, and as an absolute value.
static bool compares_bits(Proof *p, Op op, DType dtype, int64_t a, int64_t b, int64_t *truth) {
  if ((op != OP_EQ && op != OP_NE) || !cell_is_open(a) || b != 0) return false;
  const Number *n = number_at(p, open_id(a));
  const DType from = n->bits_dtype;
  if (!n->bits_of || dtype_info[from].bits != dtype_info[dtype].bits || is_scale(from))
    return false;
  const Id x = n->bits_of - 1;
  if (dtype_info[from].special != SPECIAL_FNUZ && !number_at(p, x)->magnitude_of) return false;
  *truth = truth_equal(p, x, ID_ZERO);
  if (op == OP_NE) *truth = truth_not(p, *truth);
  return true;
}

int64_t integer_compare(Proof *p, Op op, DType dtype, int64_t a, int64_t b) {
  int64_t cells[2] = {a, b}, same;
  if (!any_open(cells, 2)) return int_compare(op, dtype, a, b);
  if (dtype == DT_BOOL) return truth_operation(p, op, a, b);
  if (compares_bits(p, op, dtype, a, b, &same) || compares_bits(p, op, dtype, b, a, &same))
    return same;
  if (a == b) return int_compare(op, dtype, 0, 0);
  integer_wanted(p, cells, 2);
  if (proof_wanted(p)) return open_cell(number_unknown(p));
  int64_t truth = integer_truth(p, op, plain_integer(p, dtype, a), plain_integer(p, dtype, b));
  if (cell_is_open(truth)) proof_note_bits(p, open_id(truth));
  return truth;
}
