// Operations on floats, as numbers of the proof.
#include "codegen/ir/scalar.h"
#include "codegen/prove/cells.h"

#include <math.h>

static Id two_exp(Proof *p, Id x, Id *one_more) {
  Id e = number_exp(p, x);
  *one_more = number_add(p, e, ID_ONE);
  return e;
}

static Id log_of_sum(Proof *p, Id x) {  // log(1 + exp(x))
  Id more;
  two_exp(p, x, &more);
  return number_log(p, more);
}

static Id tanh_of(Proof *p, Id x) {
  if (x == ID_PLUS_INFINITY) return ID_ONE;
  Id more, e = two_exp(p, number_add(p, x, x), &more);
  return number_div(p, number_sub(p, e, ID_ONE), more);
}

static Id logistic_of(Proof *p, Id x) {
  Id more;
  two_exp(p, number_neg(p, x), &more);
  return number_div(p, ID_ONE, more);
}

static Id half(Proof *p, Id x) { return number_mul(p, x, number_rational(p, 1, 2)); }
static Id ln2(Proof *p) { return number_symbol(p, "ln 2", 0.69314718055994530942); }
static Id ln10(Proof *p) { return number_symbol(p, "ln 10", 2.30258509299404568402); }

static Id function_atom(Proof *p, Op op, Id x) {
  const Number *n = number_at(p, x);
  if (n->kind == UNKNOWN || n->kind == NOT_A_NUMBER) return x;
  if (n->kind != FINITE || n->mask != 0) return number_unknown(p);
  FloatFunction *f = float_unary(op);
  return number_atom(p, op, &x, 1, f ? f(n->shadow) : 0);
}

// f(-x) is f(x), or for an odd function -f(x).
static Id symmetric_atom(Proof *p, Op op, Id x, bool odd) {
  const Number *n = number_at(p, x);
  if (n->kind != FINITE || n->mask != 0) return function_atom(p, op, x);
  if (odd && x == ID_ZERO) return x;
  Id name = number_less_key(p, x), y = function_atom(p, op, name);
  return odd && name != x ? number_neg(p, y) : y;
}

static Id whole_number(Proof *p, Op op, Id x) {
  const Number *n = number_at(p, x);
  if (n->kind != FINITE || n->mask != 0) return x;
  if (n->below && n->above > -(INT64_C(1) << 50) && n->above < INT64_C(1) << 50)
    return number_integer(p, (int64_t)float_unary(op)((double)n->above / (double)n->below));
  return function_atom(p, op, x);
}

// An `exp` of the kernel, which overflows if its argument is large.
static Id written_exp(Proof *p, Id x) {
  if (number_may_exceed(p, x)) note_partial(p, NOTE_EXP, x);
  return number_exp(p, x);
}

// A unary operation on numbers.
Id number_unary(Proof *p, Op op, Id x) {
  switch (op) {
    case OP_NEG:
      return number_neg(p, x);
    case OP_ABS:
      return number_abs(p, x);
    case OP_SIGN:
      return number_sign(p, x);
    case OP_EXP:
      return written_exp(p, x);
    case OP_EXP2:
      if (number_at(p, x)->kind == FINITE && number_at(p, x)->mask < 0) return ID_ZERO;
      return written_exp(p, number_mul(p, x, ln2(p)));
    case OP_EXP10:
      if (number_at(p, x)->kind == FINITE && number_at(p, x)->mask < 0) return ID_ZERO;
      return written_exp(p, number_mul(p, x, ln10(p)));
    case OP_EXPM1:
      return number_sub(p, written_exp(p, x), ID_ONE);
    case OP_LOG:
      return number_log(p, x);
    case OP_LOG2:
      return number_div(p, number_log(p, x), ln2(p));
    case OP_LOG10:
      return number_div(p, number_log(p, x), ln10(p));
    case OP_LOG1P:
      return number_log(p, number_add(p, ID_ONE, x));
    case OP_SQRT:
      return number_sqrt(p, x);
    case OP_RSQRT:
      return number_div(p, ID_ONE, number_sqrt(p, x));
    case OP_RECIP:
      return number_div(p, ID_ONE, x);
    case OP_TANH:
      return tanh_of(p, x);
    case OP_LOGISTIC:
      return logistic_of(p, x);
    case OP_SOFTPLUS:
      return log_of_sum(p, x);
    case OP_LOG_SIGMOID:
      return number_neg(p, log_of_sum(p, number_neg(p, x)));
    case OP_SINH:
      return half(p, number_sub(p, number_exp(p, x), number_exp(p, number_neg(p, x))));
    case OP_COSH:
      return half(p, number_add(p, number_exp(p, x), number_exp(p, number_neg(p, x))));
    case OP_ERFC:
      return number_sub(p, ID_ONE, symmetric_atom(p, OP_ERF, x, true));
    case OP_COS:
      return symmetric_atom(p, op, x, false);
    case OP_ERF:
    case OP_ERF_INV:
    case OP_SIN:
    case OP_TAN:
    case OP_ASIN:
    case OP_ATAN:
    case OP_ASINH:
    case OP_ATANH:
    case OP_CBRT:
      return symmetric_atom(p, op, x, true);
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_TRUNC:
      return whole_number(p, op, x);
    default:
      return function_atom(p, op, x);
  }
}

static Id power(Proof *p, Id x, Id y) {
  const Number *n = number_at(p, y);
  bool few = n->kind == FINITE && n->mask == 0 && n->below && n->above >= -64 && n->above <= 64;
  if (few && n->below == 1) return number_power(p, x, n->above);
  if (few && n->below == 2) return number_power(p, number_sqrt(p, x), n->above);
  Id both[2] = {x, y};
  return number_at(p, x)->kind == FINITE && n->kind == FINITE
             ? number_atom(p, OP_POW, both, 2, pow(number_at(p, x)->shadow, n->shadow))
             : number_unknown(p);
}

static bool is_infinite(Id x) { return x == ID_PLUS_INFINITY || x == ID_MINUS_INFINITY; }

// Of an infinity and a NaN, an infinity.
static Id hypotenuse(Proof *p, Id x, Id y) {
  if (is_infinite(x) || is_infinite(y)) return ID_PLUS_INFINITY;
  return number_sqrt(p, number_add(p, number_mul(p, x, x), number_mul(p, y, y)));
}

// A binary operation on numbers.
Id number_binary(Proof *p, Op op, DType dtype, Id x, Id y) {
  Id both[2] = {x, y};
  switch (op) {
    case OP_ADD:
      return number_add(p, x, y);
    case OP_SUB:
      return number_sub(p, x, y);
    case OP_MUL:
      return number_mul(p, x, y);
    case OP_DIV:
      return number_div(p, x, y);
    case OP_MAX:
      return number_max(p, x, y);
    case OP_MIN:
      return number_min(p, x, y);
    case OP_POW:
      return power(p, x, y);
    case OP_HYPOT:
      return hypotenuse(p, x, y);
    default:
      for (int i = 0; i < 2; i++) {
        const Number *n = number_at(p, both[i]);
        if (n->kind != FINITE || n->mask != 0) return number_unknown(p);
      }
      return number_atom(p, op, both, 2,
                         float_binary(op, dtype)(number_at(p, x)->shadow, number_at(p, y)->shadow));
  }
}

int64_t number_compare(Proof *p, Op op, Id x, Id y) {
  bool nan = number_at(p, x)->kind == NOT_A_NUMBER || number_at(p, y)->kind == NOT_A_NUMBER;
  int64_t known;
  if (truth_of_selections(p, op, x, y, &known)) return known;
  switch (op) {
    case OP_EQ:
      return truth_equal(p, x, y);
    case OP_NE:
      return nan ? 1 : truth_not(p, truth_equal(p, x, y));
    case OP_LT:
    case OP_LE:
      return truth_less(p, x, y, op == OP_LE);
    default:
      return truth_less(p, y, x, op == OP_GE);
  }
}

// Inputs are real numbers, and so are results that no rule makes infinite.
int64_t number_predicate(Proof *p, const Instr *instr, Id x) {
  Op op = instr->op;
  NumberKind kind = number_at(p, x)->kind;
  bool infinite = kind == PLUS_INFINITY || kind == MINUS_INFINITY;
  if (kind == UNKNOWN) return open_cell(x);
  if (kind == FINITE && !number_at(p, x)->below) proof_remark(p, NOTE_FINITE, instr, NULL);
  if (op == OP_ISNAN) return kind == NOT_A_NUMBER;
  return op == OP_ISINF ? infinite : kind == FINITE;
}
