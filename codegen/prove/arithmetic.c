// The table by which the interpreter computes with the numbers of the proof.
//
// The cell of a float is the id of a number. The cell of an integer or truth value is its value, if
// that is known, otherwise an open cell, which names a number.
#include "codegen/prove/arithmetic.h"
#include "codegen/ir/scalar.h"
#include "codegen/prove/constants.h"

#include <math.h>

// The cell of an unspecified element may be anything.
static Id named_id(const Proof *p, int64_t cell) {
  return number_is(p, cell) ? (Id)cell : ID_UNKNOWN;
}

// Rules receive unknown numbers without their names, which no result may inherit.
static Id id_of(const Proof *p, int64_t cell) {
  Id id = named_id(p, cell);
  return number_at(p, id)->kind == UNKNOWN ? ID_UNKNOWN : id;
}

// May the sign of a zero change the result by more than its own sign?
static bool heeds_zeros(Op op) {
  return op == OP_DIV || op == OP_RECIP || op == OP_RSQRT || op == OP_POW || op == OP_ATAN2;
}

// The result of an operation; if no rule decides it, one that is named by its operands.
static Id or_named(Proof *p, Id result, Op op, const Id *operands, int count) {
  if (number_at(p, result)->kind != UNKNOWN) return result;
  for (int i = 0; i < count && heeds_zeros(op); i++)
    if (operands[i] == ID_ZERO) return result;
  return number_named(p, op, operands, count);
}

static int64_t or_named_truth(Proof *p, int64_t result, Op op, const Id *operands, int count) {
  if (!cell_is_open(result) || number_at(p, open_id(result))->kind != UNKNOWN) return result;
  return open_cell(number_of_bits(p, op, operands, count));
}

// ---- leaves

static int64_t constant(void *context, DType dtype, const Instr *instr) {
  if (!is_float(dtype)) return integer_known(context, wrap_int(dtype, instr->ival));
  return constant_number(context, dtype, instr, instr->fval);
}

static int64_t index_cell(void *context, DType dtype, int64_t index) {
  return is_float(dtype) ? number_integer(context, index)
                         : integer_known(context, wrap_int(dtype, index));
}

// ---- functions of one and two floats

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
static Id unary(Proof *p, Op op, Id x) {
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
static Id binary(Proof *p, Op op, DType dtype, Id x, Id y) {
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

static int64_t compare(Proof *p, Op op, Id x, Id y) {
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
static int64_t predicate(Proof *p, const Instr *instr, Id x) {
  Op op = instr->op;
  NumberKind kind = number_at(p, x)->kind;
  bool infinite = kind == PLUS_INFINITY || kind == MINUS_INFINITY;
  if (kind == UNKNOWN) return open_cell(x);
  if (kind == FINITE && !number_at(p, x)->below) proof_remark(p, NOTE_FINITE, instr, NULL);
  if (op == OP_ISNAN) return kind == NOT_A_NUMBER;
  return op == OP_ISINF ? infinite : kind == FINITE;
}

// ---- integers and truth values

static bool any_open(const int64_t *cells, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (cell_is_open(cells[i])) return true;
  return false;
}

// An integer whose later uses depend on its value, not only on its remainder.
static Id plain_integer(Proof *p, DType dtype, int64_t cell) {
  Id id = integer_id(p, cell);
  if (!number_at(p, id)->wrapped) return id;
  Id named[2] = {id, number_integer(p, dtype)};
  return open_id(integer_ranged(p, dtype, number_atom(p, OP_REM, named, 2, 0)));
}

// Integers from inputs must be known; for integers from floats only the operands are known.
static Id integer_function(Proof *p, Op op, DType dtype, const int64_t *cells, int count) {
  Id named[3] = {number_integer(p, dtype)};
  integer_wanted(p, cells, count);
  if (proof_wanted(p)) return number_unknown(p);
  for (int i = 0; i < count; i++) named[1 + i] = integer_id(p, cells[i]);
  return number_of_bits(p, op, named, 1 + count);
}

// The bits of a float with the bit of its sign inverted, cleared or set are those of its negative,
// its magnitude, or the negative of that. False: it is another operation.
static bool change_sign_bit(Proof *p, Op op, DType dtype, const int64_t *cells, int64_t *result) {
  int bits = dtype_info[dtype].bits, open = cell_is_open(cells[0]) ? 0 : 1;
  const Number *n = number_at(p, open_id(cells[open]));
  if (cell_is_open(cells[1 - open]) || !n->bits_of || dtype_info[n->bits_dtype].bits != bits)
    return false;
  DType from = n->bits_dtype;
  uint64_t all = ~UINT64_C(0) >> (64 - bits), sign = UINT64_C(1) << (bits - 1),
           other = (uint64_t)cells[1 - open] & all;
  bool clears = op == OP_AND && other == (all ^ sign), sets = op == OP_OR && other == sign;
  if (!clears && !sets && !(op == OP_XOR && other == sign)) return false;
  if (dtype_info[from].special == SPECIAL_FNUZ || is_scale(from)) return false;
  Id x = n->bits_of - 1;
  if (clears || sets) x = or_named(p, number_abs(p, x), OP_ABS, &x, 1);
  if (!clears) x = or_named(p, number_neg(p, x), OP_NEG, &x, 1);
  *result = integer_bits(p, dtype, from, x);
  return true;
}

static int64_t bitcast_cell(Proof *p, DType to, DType from, int64_t cell);

// ---- bits of elements

// A bit of a cell of that dtype. Of a known one the dtype is bool, and the cell is 0 or 1.
typedef struct {
  int64_t cell;
  DType dtype;
  int bit;
} Bit;
typedef struct {
  Bit at[64];
  int count;
} Bits;

static bool is_same_bit(const Bit *a, const Bit *b) {
  return a->cell == b->cell && a->dtype == b->dtype && a->bit == b->bit;
}
static Bit known_bit(uint64_t value) { return (Bit){(int64_t)(value & 1), DT_BOOL, 0}; }
static bool is_known_bit(const Bit *bit) { return bit->dtype == DT_BOOL; }

static Id id_of_bits(const Proof *p, DType dtype, int64_t cell) {
  if (is_float(dtype)) return named_id(p, cell);
  return cell_is_open(cell) ? open_id(cell) : ID_ZERO;
}

// The bits of a float are the float's, and those of an element that was made of parts are theirs.
static Bit bit_of(const Proof *p, DType dtype, int64_t cell, int bit) {
  if (!is_float(dtype) && !cell_is_open(cell)) return known_bit((uint64_t)cell >> bit);
  Id id = id_of_bits(p, dtype, cell);
  const Number *n = number_at(p, id);
  const CellParts *of = number_parts(p, id);
  for (int i = 0; i < of->count; i++) {
    const CellPart *part = &of->at[i];
    int at = bit - part->to;
    if (at < 0 || at >= part->bits) continue;
    bool known = part->dtype == DT_BOOL;
    return known ? known_bit((uint64_t)part->cell >> at)
                 : (Bit){part->cell, part->dtype, part->from + at};
  }
  if (n->bits_of && dtype_info[n->bits_dtype].bits == dtype_info[dtype].bits)
    return (Bit){n->bits_of - 1, n->bits_dtype, bit};
  return (Bit){cell, dtype == DT_BOOL ? DT_U8 : dtype, bit};
}

static Bits bits_of_cell(const Proof *p, DType dtype, int64_t cell) {
  Bits bits = {.count = dtype_info[dtype].bits};
  for (int i = 0; i < bits.count; i++) bits.at[i] = bit_of(p, dtype, cell, i);
  return bits;
}

// Neighbours of one element are one part, and so are known bits.
static CellParts parts_of_bits(Proof *p, const Bits *bits) {
  CellParts parts = {0};
  for (int i = 0; i < bits->count; i++) {
    const Bit *bit = &bits->at[i];
    CellPart *last = parts.count ? &parts.at[parts.count - 1] : NULL;
    bool known = is_known_bit(bit), follows = last && last->dtype == bit->dtype;
    if (follows && known)
      last->cell |= bit->cell << last->bits++;
    else if (follows && last->cell == bit->cell && last->from + last->bits == bit->bit)
      last->bits++;
    else
      LIST_PUSH(proof_run_arena(p), &parts, ((CellPart){bit->cell, bit->dtype, bit->bit, i, 1}));
  }
  return parts;
}

static int64_t cell_of_known(Proof *p, DType to, int64_t bits) {
  Scalar made = scalar_bitcast(to, unsigned_of(to), (Scalar){.i = bits});
  return is_float(to) ? exact_number(p, made.f) : integer_known(p, made.i);
}

// A function of the parts. The dtype of an integer that is not negative does not matter, nor do
// zeros above.
static int64_t cell_of_parts(Proof *p, DType to, CellParts parts) {
  Id *named = NEW_ARRAY(proof_run_arena(p), Id, 3 * parts.count + 1);
  int count = 0, last = parts.count - 1;
  bool zeros = parts.at[last].dtype == DT_BOOL && parts.at[last].cell == 0,
       positive = !is_float(to) && (zeros || dtype_min(to) == 0);
  for (int i = 0; i < parts.count - (positive && zeros); i++) {
    const CellPart *part = &parts.at[i];
    bool known = part->dtype == DT_BOOL;
    if (!known && !is_float(part->dtype)) integer_wanted(p, &part->cell, 1);
    named[count++] = known                   ? number_integer(p, part->cell)
                     : is_float(part->dtype) ? named_id(p, part->cell)
                                             : plain_integer(p, part->dtype, part->cell);
    named[count++] = number_integer(p, (int64_t)part->dtype);
    named[count++] = number_integer(p, (part->from * 64 + part->to) * 64 + part->bits - 1);
  }
  named[count++] = number_integer(p, positive ? -1 : (int64_t)to);
  Id id = proof_wanted(p) ? number_unknown(p) : number_of_bits(p, OP_BITCAST, named, count);
  if (!is_float(to)) id = open_id(integer_ranged(p, to, id));
  number_set_parts(p, id, parts);
  return is_float(to) ? id : open_cell(id);
}

static int64_t cell_of_bits(Proof *p, DType to, const Bits *bits) {
  CellParts parts = parts_of_bits(p, bits);
  const CellPart *first = &parts.at[0];
  if (parts.count > 1) return cell_of_parts(p, to, parts);
  if (first->dtype == DT_BOOL) return cell_of_known(p, to, first->cell);
  bool whole = first->from == 0 && first->bits == dtype_info[first->dtype].bits;
  return whole ? bitcast_cell(p, to, first->dtype, first->cell) : cell_of_parts(p, to, parts);
}

// Bits that no part gives are unspecified, and may be 0.
static int64_t join(void *context, DType to, CellPart *parts, int count) {
  Proof *p = context;
  Bits bits = {.count = dtype_info[to].bits};
  for (int i = 0; i < bits.count; i++) bits.at[i] = known_bit(0);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < parts[i].bits; k++)
      bits.at[parts[i].to + k] = bit_of(p, parts[i].dtype, parts[i].cell, parts[i].from + k);
  return cell_of_bits(p, to, &bits);
}

// Is it made of bits of floats?
static bool has_bits(const Proof *p, int64_t cell) {
  Id id = cell_is_open(cell) ? open_id(cell) : ID_ZERO;
  const Number *n = number_at(p, id);
  return !n->operands && (n->bits_of || number_parts(p, id)->count);
}

// False: no rule gives it.
static bool both_bits(Op op, const Bit *a, const Bit *b, Bit *result) {
  if (is_known_bit(b) && !is_known_bit(a)) return both_bits(op, b, a, result);
  bool one = a->cell & 1, keeps_other = op == OP_AND ? one : !one;
  if (!is_known_bit(a)) {
    *result = op == OP_XOR ? known_bit(0) : *a;
    return is_same_bit(a, b);
  }
  *result = keeps_other ? *b : *a;
  if (op != OP_XOR || keeps_other) return true;
  *result = known_bit(!b->cell);
  return is_known_bit(b);
}

static void shift_bits(Op op, DType dtype, const Bits *a, int64_t by, Bits *result) {
  int64_t step = op == OP_SHL ? -by : by;
  bool keeps_sign = op == OP_SHR && dtype_min(dtype) < 0;
  if (by < 0 || by > a->count) step = op == OP_SHL ? -a->count : a->count;
  for (int i = 0; i < a->count; i++)
    result->at[i] = i + step >= 0 && i + step < a->count ? a->at[i + step]
                    : keeps_sign                         ? a->at[a->count - 1]
                                                         : known_bit(0);
}

// An operation on bits of floats moves them, where the other operand is known. False: it is not one
// of these.
static bool move_bits(Proof *p, Op op, DType dtype, const int64_t *cells, int64_t *cell) {
  bool shifts = op == OP_SHL || op == OP_SHR || op == OP_USHR;
  if (!shifts && op != OP_AND && op != OP_OR && op != OP_XOR) return false;
  if (!has_bits(p, cells[0]) && !has_bits(p, cells[1])) return false;
  if (shifts && cell_is_open(cells[1])) return false;
  Bits a = bits_of_cell(p, dtype, cells[0]), result = {.count = a.count};
  if (shifts) {
    shift_bits(op, dtype, &a, cells[1], &result);
  } else {
    Bits b = bits_of_cell(p, dtype, cells[1]);
    for (int i = 0; i < a.count; i++)
      if (!both_bits(op, &a.at[i], &b.at[i], &result.at[i])) return false;
  }
  *cell = cell_of_bits(p, dtype, &result);
  return true;
}

// To a wider or narrower integer.
static int64_t cast_bits(Proof *p, DType to, DType from, int64_t cell) {
  Bits a = bits_of_cell(p, from, cell), result = {.count = dtype_info[to].bits};
  Bit above = dtype_min(from) < 0 ? a.at[a.count - 1] : known_bit(0);
  for (int i = 0; i < result.count; i++) result.at[i] = i < a.count ? a.at[i] : above;
  return cell_of_bits(p, to, &result);
}

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

static int64_t integer_unary(Proof *p, Op op, DType dtype, int64_t a) {
  int64_t cells[2] = {a, a};
  if (!cell_is_open(a)) return integer_known(p, int_unary(op, dtype, a));
  return dtype == DT_BOOL ? truth_operation(p, op, a, a) : open_integer(p, op, dtype, cells);
}

static int64_t integer_binary(Proof *p, Op op, DType dtype, int64_t a, int64_t b) {
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

static int64_t integer_compare(Proof *p, Op op, DType dtype, int64_t a, int64_t b) {
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

// ---- conversions

static int64_t saturated(DType to, int64_t value) {
  bool holds = dtype_info[to].bits == 64 && value >= dtype_min(to);
  return holds ? value : saturate_to_integer(to, (double)value);
}

// The integer that a number becomes is a function of it; data between two integers is not looked
// into.
static int64_t to_integer(Proof *p, DType to, Id x) {
  const Number *n = number_at(p, x);
  if (n->kind == UNKNOWN) return open_cell(x);
  if (n->kind != FINITE) return saturate_to_integer(to, n->shadow);
  if (n->mask != 0)
    return fabs(n->mask) > 0x1p64 ? saturate_to_integer(to, n->mask) : open_cell(number_unknown(p));
  if (n->below) return integer_known(p, saturated(to, n->above / n->below));
  if (proof_mode(p) == BY_ORDER) return saturate_to_integer(to, n->shadow);
  Id named[2] = {x, number_integer(p, to)};
  return integer_ranged(p, to, number_atom(p, OP_CAST, named, 2, 0));
}

static int64_t cast_integer(Proof *p, DType to, DType from, int64_t cell) {
  if (to == DT_BOOL) return from == DT_BOOL ? cell : integer_wanted(p, &cell, 1);
  if (from == DT_BOOL) return integer_cell(p, to, truth_number(p, cell));
  if (has_bits(p, cell) && dtype_info[to].bits != dtype_info[from].bits)
    return cast_bits(p, to, from, cell);
  if (dtype_min(to) <= dtype_min(from) && dtype_info[to].bits > dtype_info[from].bits)
    return integer_cell(p, to,
                        plain_integer(p, from, cell));  // every value of `from` is one of `to`
  if (number_at(p, open_id(cell))->wrapped && dtype_info[to].bits > dtype_info[from].bits)
    return integer_cell(p, to, plain_integer(p, from, cell));
  return integer_wrapped(p, to, open_id(cell), number_at(p, open_id(cell))->wrapped);
}

// For an integer that is not known, its bounds decide whether the float represents it.
static void note_integer_rounding(Proof *p, const Instr *instr, DType to, DType from,
                                  int64_t cell) {
  double most = ldexp(1, dtype_info[to].precision), low = (double)cell, high = low;
  if (cell_is_open(cell))
    low = number_at(p, open_id(cell))->low, high = number_at(p, open_id(cell))->high;
  bool holds = cell_is_open(cell) ? low >= -most && high <= most : dtype_round(to, low) == low;
  if (from != DT_BOOL && !holds) proof_remark(p, NOTE_ROUNDING, instr, dtype_info[to].name);
}

static Id unsigned_number(Proof *p, uint64_t n) {
  Id above = number_integer(p, (int64_t)(n >> 32)),
     below = number_integer(p, (int64_t)(n << 32 >> 32));
  return number_add(p, number_mul(p, above, number_integer(p, INT64_C(1) << 32)), below);
}

// A finite number is unchanged; infinities and NaN become their counterparts in the dtype.
static Id cast_float(Proof *p, DType to, Id x) {
  const Number *n = number_at(p, x);
  if (n->kind == FINITE || isinf(dtype_round(to, (double)INFINITY))) return x;
  if (n->kind != UNKNOWN) return exact_number(p, dtype_round(to, n->shadow));
  return number_named(p, OP_CAST, (Id[]){x, number_integer(p, to)}, 2);
}

// The power of two that a scale has for a number is a function of it; of a scale it is itself.
static Id cast_to_scale(Proof *p, DType to, Id x) {
  const Number *n = number_at(p, x);
  Id named[2] = {x, number_integer(p, to)};
  if (n->kind != FINITE || n->mask != 0) return number_named(p, OP_CAST, named, 2);
  if (n->below) return exact_number(p, dtype_round(to, (double)n->above / (double)n->below));
  if (n->scale > 0) return x;
  return number_as_scale(p, number_of_bits(p, OP_CAST, named, 2));
}

// One element of a cast: floats, integers, truth values and scales as the prover represents them.
static int64_t cast_cell(Proof *p, const Instr *instr, DType to, DType from, int64_t cell) {
  if (is_scale(to) && to != from)
    return cast_to_scale(p, to,
                         is_float(from)       ? named_id(p, cell)
                         : cell_is_open(cell) ? plain_integer(p, from, cell)
                         : from == DT_U64     ? unsigned_number(p, (uint64_t)cell)
                                              : number_integer(p, cell));
  bool open = !is_float(from) && cell_is_open(cell);
  if (is_float(from) && is_float(to)) {
    if (!dtype_holds(to, from)) proof_remark(p, NOTE_ROUNDING, instr, dtype_info[to].name);
    return cast_float(p, to, named_id(p, cell));
  }
  if (is_float(from) && to == DT_BOOL) return truth_not(p, truth_equal(p, id_of(p, cell), ID_ZERO));
  if (is_float(from) && number_is_named(p, named_id(p, cell))) {
    Id named[2] = {named_id(p, cell), number_integer(p, to)};
    return integer_ranged(p, to, number_of_bits(p, OP_CAST, named, 2));
  }
  if (is_float(from)) return to_integer(p, to, id_of(p, cell));
  if (!is_float(to))
    return open ? cast_integer(p, to, from, cell)
                : integer_known(p, scalar_cast(to, from, (Scalar){.i = cell}).i);
  note_integer_rounding(p, instr, to, from, cell);
  if (open) return from == DT_BOOL ? truth_number(p, cell) : plain_integer(p, from, cell);
  return from == DT_U64 ? unsigned_number(p, (uint64_t)cell) : number_integer(p, cell);
}

// Of a constant that the dtype has; the sign of 0 is not known.
static bool bits_of_constant(DType to, DType from, const Number *n, int64_t *bits) {
  bool known = n->kind == FINITE && n->mask == 0 && n->below && n->above &&
               n->below <= INT64_C(1) << 40 && (n->below & (n->below - 1)) == 0 &&
               n->above < INT64_C(1) << 50 && n->above > -(INT64_C(1) << 50);
  double value = known ? (double)n->above / (double)n->below : 0;
  if (!known || dtype_round(from, value) != value) return false;
  *bits = scalar_bitcast(to, from, (Scalar){.f = value}).i;
  return true;
}

static int64_t float_bitcast(Proof *p, DType to, DType from, Id x) {
  int64_t bits;
  const Number *n = number_at(p, x);
  if (is_float(to)) return number_unknown(p);
  if (n->kind == UNKNOWN) return open_cell(x);
  if (n->kind == PLUS_INFINITY || n->kind == MINUS_INFINITY)
    return scalar_bitcast(to, from, (Scalar){.f = n->shadow}).i;
  if (bits_of_constant(to, from, n, &bits)) return integer_known(p, bits);
  return integer_bits(p, to, from, x);
}

static int64_t open_bitcast(Proof *p, DType to, int64_t cell) {
  const Number *n = number_at(p, open_id(cell));
  if (n->bits_of && to == n->bits_dtype) return n->bits_of - 1;
  if (n->bits_of && !is_float(to)) return integer_bits(p, to, n->bits_dtype, n->bits_of - 1);
  Id named = integer_function(p, OP_BITCAST, to, &cell, 1);
  return is_float(to) ? named : integer_ranged(p, to, named);
}

static int64_t bitcast_cell(Proof *p, DType to, DType from, int64_t cell) {
  if (to == from) return cell;
  if (is_float(from) && !is_float(to) && number_is_named(p, named_id(p, cell)))
    return integer_bits(p, to, from, named_id(p, cell));
  if (is_float(from)) return float_bitcast(p, to, from, id_of(p, cell));
  if (cell_is_open(cell)) return open_bitcast(p, to, cell);
  Scalar bits = scalar_bitcast(to, from, (Scalar){.i = cell});
  return is_float(to) ? exact_number(p, bits.f) : integer_known(p, bits.i);
}

// ---- element by element

static int64_t float_element(Proof *p, const Instr *instr, const Value *const *arg, int64_t e) {
  Id x = id_of(p, arg[0]->i[e]), y = arg[1] ? id_of(p, arg[1]->i[e]) : ID_ZERO, named[3];
  int count = instr->nargs < 3 ? instr->nargs : 3;
  for (int i = 0; i < count; i++) named[i] = named_id(p, arg[i]->i[e]);
  switch (op_info[instr->op].class) {
    case OPC_UNARY:
      return or_named(p, unary(p, instr->op, x), instr->op, named, 1);
    case OPC_PREDICATE:
      return or_named_truth(p, predicate(p, instr, x), instr->op, named, 1);
    case OPC_COMPARE:
      return or_named_truth(p, compare(p, instr->op, x, y), instr->op, named, 2);
    case OPC_TERNARY:
      return or_named(p, number_add(p, number_mul(p, x, y), id_of(p, arg[2]->i[e])), instr->op,
                      named, 3);
    default:
      return or_named(p, binary(p, instr->op, arg[0]->dtype, x, y), instr->op, named, 2);
  }
}

static int64_t integer_element(Proof *p, const Instr *instr, const Value *const *arg, int64_t e) {
  DType t = arg[0]->dtype;
  int64_t a = arg[0]->i[e], b = arg[1] ? arg[1]->i[e] : 0;
  switch (op_info[instr->op].class) {
    case OPC_UNARY:
      return integer_unary(p, instr->op, t, a);
    case OPC_COMPARE:
      return integer_compare(p, instr->op, t, a, b);
    default:
      return integer_binary(p, instr->op, t, a, b);
  }
}

static void elementwise(void *context, const Instr *instr, Value *out, const Value *const *arg) {
  Proof *p = context;
  DType from = arg[0]->dtype;
  for (int64_t e = 0; e < out->count && !proof_is_over(p); e++) {
    if (instr->op == OP_BITCAST)
      out->i[e] = bitcast_cell(p, out->dtype, from, arg[0]->i[e]);
    else if (instr->op == OP_CAST)
      out->i[e] = cast_cell(p, instr, out->dtype, from, arg[0]->i[e]);
    else
      out->i[e] =
          is_float(from) ? float_element(p, instr, arg, e) : integer_element(p, instr, arg, e);
  }
}

// The float whose bits a cell of dtype t is; -1: it is not known as one of `from`.
static Id float_of_bits(Proof *p, DType t, DType from, int64_t cell) {
  if (cell_is_open(cell)) {
    const Number *n = number_at(p, open_id(cell));
    return n->bits_of && n->bits_dtype == from ? n->bits_of - 1 : -1;
  }
  double value = scalar_bitcast(from, t, (Scalar){.i = cell}).f;
  return isnan(value) ? -1 : exact_number(p, value);
}

// A selection between the bits of two floats is the bits of one of them.
static bool blend_bits(Proof *p, const Instr *select, Id weight, int64_t a, int64_t b,
                       int64_t *result) {
  DType t = select->type.dtype;
  const Number *n = number_at(p, cell_is_open(a) ? open_id(a) : cell_is_open(b) ? open_id(b) : 0);
  DType from = n->bits_dtype;
  if (!n->bits_of || dtype_info[from].bits != dtype_info[t].bits) return false;
  Id named[3] = {weight, float_of_bits(p, t, from, a), float_of_bits(p, t, from, b)};
  if (named[1] < 0 || named[2] < 0) return false;
  Id x = or_named(p, number_blend(p, weight, id_of(p, named[1]), id_of(p, named[2])), select->op,
                  named, 3);
  *result = integer_bits(p, t, from, x);
  return true;
}

static int64_t blend(void *context, const Instr *instr, int64_t condition, int64_t a, int64_t b) {
  Proof *p = context;
  DType t = instr->type.dtype;
  Id weight = open_id(condition);
  if (is_float(t)) {
    Id named[3] = {weight, named_id(p, a), named_id(p, b)};
    return or_named(p, number_blend(p, weight, id_of(p, a), id_of(p, b)), instr->op, named, 3);
  }
  if (t == DT_BOOL)
    return truth_not(p, truth_and(p, truth_not(p, truth_and(p, condition, a)),
                                  truth_not(p, truth_and(p, truth_not(p, condition), b))));
  int64_t bits;
  if (blend_bits(p, instr, weight, a, b, &bits)) return bits;
  return open_cell(number_blend(p, weight, integer_id(p, a), integer_id(p, b)));
}

// ---- folding

static int64_t fold_two(Proof *p, Op op, DType dtype, int64_t a, int64_t b) {
  return is_float(dtype) ? binary(p, op, dtype, id_of(p, a), id_of(p, b))
                         : integer_binary(p, op, dtype, a, b);
}

static int64_t fold_start_cell(Op fold, DType dtype) {
  if (!is_float(dtype)) return fold_start(fold, dtype).i;
  switch (fold_operation[fold]) {
    case OP_MUL:
      return ID_ONE;
    case OP_MAX:
      return ID_MINUS_INFINITY;
    case OP_MIN:
      return ID_PLUS_INFINITY;
    default:
      return ID_ZERO;
  }
}

static bool any_named(const Proof *p, const int64_t *cells, int64_t count) {
  for (int64_t e = 0; e < count; e++)
    if (number_is_named(p, named_id(p, cells[e]))) return true;
  return false;
}

static int64_t fold(void *context, const Instr *instr, DType dtype, const int64_t *cells,
                    int64_t count) {
  Proof *p = context;
  int64_t result = fold_start_cell(instr->op, dtype);
  bool maximum = instr->op == OP_REDUCE_MAX && is_float(dtype) && !any_named(p, cells, count);
  if (maximum) result = number_maximum(p, cells, count);
  for (int64_t e = 0; e < count && !maximum && !proof_is_over(p); e++)
    result = fold_two(p, fold_operation[instr->op], dtype, result, cells[e]);
  if (!is_float(dtype) || number_at(p, id_of(p, result))->kind != UNKNOWN) return result;
  Id *named = NEW_ARRAY(proof_run_arena(p), Id, count + 1);
  for (int64_t e = 0; e < count; e++) named[e] = named_id(p, cells[e]);
  return number_named(p, instr->op, named, (int)count);
}

static void scan(void *context, const Instr *instr, Value *out, const Value *a,
                 const int64_t *order, int64_t count) {
  Proof *p = context;
  int64_t result = fold_start_cell(instr->op, a->dtype);
  for (int64_t l = 0; l < count && !proof_is_over(p); l++) {
    int64_t last = result, next = a->i[order[l]];
    result = fold_two(p, fold_operation[instr->op], a->dtype, last, next);
    if (is_float(a->dtype)) {
      Id named[2] = {named_id(p, last), named_id(p, next)};
      result = or_named(p, (Id)result, instr->op, named, 2);
    }
    out->i[order[l]] = result;
  }
}

// ---- orders

// Is element x less than y? Numbers are compared by their shadows.
static bool is_less(const Proof *p, const Value *a, int64_t x, int64_t y) {
  if (!is_float(a->dtype)) return int_compare(OP_LT, a->dtype, a->i[x], a->i[y]);
  const Number *left = number_at(p, id_of(p, a->i[x])), *right = number_at(p, id_of(p, a->i[y]));
  return left->below && right->below ? compare_rationals(left, right) < 0
                                     : left->shadow < right->shadow;
}

static bool is_known_lane(Proof *p, const Value *a, const Lane *lane) {
  bool known = true;
  for (int64_t l = 0; l < lane->count; l++) {
    int64_t cell = a->i[lane->base + l * lane->stride];
    if (is_float(a->dtype)) {
      const Number *n = number_at(p, id_of(p, cell));
      known &= n->kind != UNKNOWN && n->kind != NOT_A_NUMBER &&
               (proof_mode(p) == BY_ORDER || n->kind != FINITE || n->below);
    } else if (cell_is_open(cell)) {
      integer_wanted(p, &cell, 1);
      known = false;
    }
  }
  return known;
}

// The numbers of a lane, or their negatives.
static Id *lane_numbers(Proof *p, const Value *a, const Lane *lane, bool negative) {
  Id *numbers = NEW_ARRAY(proof_run_arena(p), Id, lane->count + 1);
  for (int64_t l = 0; l < lane->count; l++) {
    int64_t cell = a->i[lane->base + l * lane->stride];
    Id id = is_float(a->dtype) ? named_id(p, cell) : plain_integer(p, a->dtype, cell);
    numbers[l] = !negative                ? id
                 : number_is_named(p, id) ? number_named(p, OP_NEG, &id, 1)
                                          : number_neg(p, id);
  }
  return numbers;
}

// argmax(x) is argmin(-x), and a descending argsort of x an ascending one of -x: equal elements
// keep their order in both.
static int64_t best_by_atoms(Proof *p, const Instr *instr, const Value *a, const Lane *lane) {
  if (proof_mode(p) == BY_ORDER) return open_cell(number_unknown(p));
  Id *numbers = lane_numbers(p, a, lane, instr->op == OP_ARGMAX);
  return number_least_place(p, instr->type.dtype, numbers, lane->count, instr->op == OP_ARGMAX);
}

static void places_by_atoms(Proof *p, const Instr *instr, Value *out, const Value *a,
                            const Lane *lane) {
  Id *numbers = lane_numbers(p, a, lane, instr->flags & INSTR_REVERSE);
  int64_t *cells = NEW_ARRAY(proof_run_arena(p), int64_t, lane->count + 1);
  number_places(p, out->dtype, numbers, lane->count, instr->flags & INSTR_REVERSE, cells);
  for (int64_t l = 0; l < lane->count; l++) out->i[lane->base + l * lane->stride] = cells[l];
}

static int64_t best(void *context, const Instr *instr, const Value *a, const Lane *lane) {
  Proof *p = context;
  int64_t best = 0;
  if (!is_known_lane(p, a, lane)) return best_by_atoms(p, instr, a, lane);
  for (int64_t l = 1; l < lane->count; l++) {
    int64_t x = lane->base + l * lane->stride, y = lane->base + best * lane->stride;
    if (instr->op == OP_ARGMAX ? is_less(p, a, y, x) : is_less(p, a, x, y)) best = l;
  }
  return best;
}

static bool ascends(const void *context, const Value *a, int64_t x, int64_t y) {
  return is_less(context, a, x, y);
}

static bool descends(const void *context, const Value *a, int64_t x, int64_t y) {
  return is_less(context, a, y, x);
}

static void sort_by_atoms(Proof *p, Value *out, const Value *a, const Lane *lane, bool descending) {
  Id *sorted = NEW_ARRAY(proof_run_arena(p), Id, lane->count + 1);
  number_sort(p, lane_numbers(p, a, lane, false), lane->count, descending, sorted);
  for (int64_t l = 0; l < lane->count; l++) out->i[lane->base + l * lane->stride] = sorted[l];
}

static void sort(void *context, const Instr *instr, Value *out, const Value *a, const Lane *lane,
                 int64_t *order) {
  Proof *p = context;
  bool descending = instr->flags & INSTR_REVERSE, values = instr->op == OP_SORT;
  if (is_known_lane(p, a, lane)) {
    sort_stably(descending ? descends : ascends, p, a, order, lane->count);
    for (int64_t l = 0; l < lane->count; l++)
      out->i[lane->base + l * lane->stride] =
          values ? a->i[order[l]] : (order[l] - lane->base) / lane->stride;
    return;
  }
  if (values && is_float(a->dtype)) return sort_by_atoms(p, out, a, lane, descending);
  if (!values && proof_mode(p) != BY_ORDER) return places_by_atoms(p, instr, out, a, lane);
  for (int64_t l = 0; l < lane->count; l++)
    out->i[lane->base + l * lane->stride] = open_cell(number_unknown(p));
}

// An element at a data-dependent index is a function of the elements that it may be, and of the
// index.
static int64_t taken(Proof *p, const Instr *instr, const Value *a, const Lane *lane, Id index) {
  DType t = a->dtype;
  Members m = number_members(p, index, lane->count);
  Id *numbers = lane_numbers(p, a, lane, false);
  bool same = true, counts = !is_float(t) && t == instr->args[1]->type.dtype;
  for (int64_t i = 0; i < m.count; i++) {
    int64_t cell = a->i[lane->base + m.at[i] * lane->stride];
    same &= cell == a->i[lane->base + m.at[0] * lane->stride];
    counts &= cell == m.at[i];
    numbers[i] = numbers[m.at[i]];
  }
  if (same) return a->i[lane->base + m.at[0] * lane->stride];
  if (counts) return open_cell(index);
  Id id = number_taken(p, numbers, m.count, index);
  return is_float(t) ? id : t == DT_BOOL ? open_cell(id) : integer_cell(p, t, id);
}

static int64_t take(void *context, const Instr *instr, const Value *a, const Lane *lane,
                    int64_t index) {
  Proof *p = context;
  integer_wanted(p, &index, 1);
  if (proof_is_over(p)) return is_float(a->dtype) ? ID_UNKNOWN : open_cell(ID_UNKNOWN);
  if (proof_mode(p) != BY_ORDER &&
      number_is_within(p, open_id(index), 0, (double)(lane->count - 1)))
    return taken(p, instr, a, lane, open_id(index));
  Id unknown = number_unknown(p);
  return is_float(a->dtype) ? unknown : open_cell(unknown);
}

// ---- contraction

static int64_t known_dot(Proof *p, DType t, const int64_t *a, const int64_t *b, int64_t count) {
  int64_t sum = 0;
  for (int64_t e = 0; e < count && !proof_is_over(p); e++)
    sum = integer_binary(p, OP_ADD, t, sum, integer_binary(p, OP_MUL, t, a[e], b[e]));
  return sum;
}

static int64_t integer_factor(Proof *p, DType to, DType from, int64_t cell) {
  return integer_id(p, cell_is_open(cell) ? cast_integer(p, to, from, cell) : cell);
}

// Products with 0, as of pads, are left out.
static int64_t dot_of_integers(Proof *p, const Instr *instr, const int64_t *a, const int64_t *b,
                               int64_t count) {
  DType to = instr->type.dtype, left = instr->args[0]->type.dtype,
        right = instr->args[1]->type.dtype;
  int64_t *x = proof_scratch(p, 2 * count), *y = x + count, kept = 0;
  for (int64_t e = 0; e < count; e++)
    if (a[e] != 0 && b[e] != 0) x[kept] = a[e], y[kept++] = b[e];
  if (!any_open(x, kept) && !any_open(y, kept)) return known_dot(p, to, x, y, kept);
  for (int64_t e = 0; e < kept; e++) {
    x[e] = integer_factor(p, to, left, x[e]);
    y[e] = integer_factor(p, to, right, y[e]);
  }
  return integer_dot(p, to, x, y, kept);
}

// A factor of a dot whose result is a float.
static Id float_factor(Proof *p, DType t, int64_t cell) {
  return is_float(t)          ? id_of(p, cell)
         : cell_is_open(cell) ? plain_integer(p, t, cell)
                              : number_integer(p, cell);
}

// Is 0 times the cell 0? The cell of 0 is 0 in all dtypes.
static bool vanishes(const Proof *p, DType t, int64_t cell) {
  return cell == ID_ZERO ||
         (is_float(t) ? number_is_plain(p, id_of(p, cell)) : !cell_is_open(cell));
}

// Products with 0, as of pads, are left out.
static Id dot_of_floats(Proof *p, const Instr *instr, const int64_t *a, const int64_t *b,
                        int64_t count) {
  DType left = instr->args[0]->type.dtype, right = instr->args[1]->type.dtype;
  int64_t *x = proof_scratch(p, 2 * count), *y = x + count, kept = 0;
  for (int64_t e = 0; e < count; e++) {
    if ((a[e] == ID_ZERO && vanishes(p, right, b[e])) ||
        (b[e] == ID_ZERO && vanishes(p, left, a[e])))
      continue;
    x[kept] = float_factor(p, left, a[e]);
    y[kept++] = float_factor(p, right, b[e]);
  }
  Id result = number_dot(p, x, y, kept);
  if (number_at(p, result)->kind != UNKNOWN) return result;
  Id *named = NEW_ARRAY(proof_run_arena(p), Id, 2 * count + 1);
  for (int64_t e = 0; e < count; e++) {
    named[2 * e] = is_float(left) ? named_id(p, a[e]) : float_factor(p, left, a[e]);
    named[2 * e + 1] = is_float(right) ? named_id(p, b[e]) : float_factor(p, right, b[e]);
  }
  return number_named(p, OP_DOT, named, (int)(2 * count));
}

static int64_t dot(void *context, const Instr *instr, const int64_t *a, const int64_t *b,
                   int64_t count) {
  Proof *p = context;
  if (proof_is_over(p)) return 0;
  return is_float(instr->type.dtype) ? dot_of_floats(p, instr, a, b, count)
                                     : dot_of_integers(p, instr, a, b, count);
}

// ---- values that the walk must know

static bool knows(void *context, int64_t cell) {
  if (!cell_is_open(cell)) return true;
  integer_wanted(context, &cell, 1);
  proof_stop(context, NULL);
  return false;
}

static bool is_known(Proof *p, const Value *v) {
  for (int64_t e = 0; e < v->count; e++) {
    if (!cell_is_open(v->i[e]) || (v->poisoned && v->poison[e])) continue;
    integer_wanted(p, &v->i[e], 1);
    if (v->dtype == DT_BOOL) proof_split_at(p, v->i[e]);
    return false;
  }
  return true;
}

// Does the walk read this operand as a number? All operands of memory and control operations,
// except stored values, masked values and results of branches.
static bool is_walked(const Instr *instr, int arg) {
  const Instr *operand = instr->args[arg];
  int masked = instr->flags & INSTR_MASKED ? 1 : 0;
  if (is_float(operand->type.dtype)) return false;
  switch (instr->op) {
    case OP_STORE:
      return arg != instr->nargs - 1 - masked;
    case OP_LOAD:
      return !(instr->flags & INSTR_OTHER) || arg != instr->nargs - 1;
    case OP_YIELD:  // of a `while`, the condition
      return operand->type.dtype == DT_BOOL && operand->type.rank == 0;
    case OP_PRINT:
      return false;
    case OP_ROLL:
    case OP_WINDOW:
    case OP_GATHER:
      return arg > 0;
    default:
      return op_info[instr->op].class == OPC_MEMORY || op_info[instr->op].class == OPC_CONTROL;
  }
}

static bool admits(void *context, const Instr *instr, const Value *values) {
  Proof *p = context;
  proof_at(p, instr);
  bool known = true;
  for (int i = 0; i < instr->nargs && known; i++)
    known = !is_walked(instr, i) || is_known(p, &values[instr->args[i]->id]);
  if (!known) proof_stop(p, instr);
  return known && !proof_is_over(p);
}

const Arithmetic proof_arithmetic = {.opens = true,
                                     .constant = constant,
                                     .index = index_cell,
                                     .elementwise = elementwise,
                                     .blend = blend,
                                     .fold = fold,
                                     .scan = scan,
                                     .best = best,
                                     .sort = sort,
                                     .take = take,
                                     .dot = dot,
                                     .join = join,
                                     .knows = knows,
                                     .admits = admits};
