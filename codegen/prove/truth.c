// Truth values and integers of the proof: numbers if they are known, otherwise open cells.
#include "codegen/prove/internal.h"
#include "codegen/ir/scalar.h"

#include <math.h>
#include <string.h>

// ---- truth values: an open one is a number that is 0 or 1, the indicator

static Id indicator(int64_t a) { return cell_is_open(a) ? open_id(a) : a ? ID_ONE : ID_ZERO; }

static bool is_key(const Proof *p, Id id, const Key *key) {
  Key own = number_key(p, id);
  return compare_keys(&own, key) == 0;
}

static int64_t truth_cell(const Proof *p, Id id) {
  if (id == ID_ZERO || id == ID_ONE) return id == ID_ONE;
  for (int i = 0; i < p->cases.count; i++) {
    const Case *c = &p->cases.at[i];
    if (is_key(p, id, &c->truth)) return c->value;
    if (is_key(p, id, &c->opposite)) return !c->value;
  }
  return open_cell(id);
}

int64_t truth_not(Proof *p, int64_t a) {
  if (!cell_is_open(a)) return !a;
  Id x = open_id(a);
  if (side_known(p, x)->opposite) return open_cell(side_known(p, x)->opposite);
  Id other = number_sub(p, ID_ONE, x);
  if (at(p, other)->kind == FINITE && other >= ID_PRESET) side_of(p, other)->opposite = x;
  return truth_cell(p, other);
}

// The truth values that are all true if this one is.
static Terms literals_of(Proof *p, Id x) {
  Terms known = side_known(p, x)->literals;
  if (known.count) return known;
  Term *one = NEW(p->run, Term);
  *one = (Term){.truth = x};
  return (Terms){one, 1};
}

static bool has_literal(const Terms *all, Id x) {
  for (int i = 0; i < all->count; i++)
    if (all->at[i].truth == x) return true;
  return false;
}

// Is one of these certainly false if the others are true?
static bool exclude_each_other(Proof *p, const Terms *all) {
  for (int i = 0; i < all->count; i++) {
    int64_t opposite = truth_not(p, open_cell(all->at[i].truth));
    Terms needed = cell_is_open(opposite) ? literals_of(p, open_id(opposite)) : (Terms){0};
    int k = 0;
    while (k < needed.count && has_literal(all, needed.at[k].truth)) k++;
    if (k > 0 && k == needed.count) return true;
  }
  return false;
}

void proof_split_at(Proof *p, int64_t cell) {
  Id x = open_id(cell), other = number_sub(p, ID_ONE, x);
  if (p->stopped || at(p, other)->kind != FINITE || at(p, other)->mask != 0) return;
  p->split = (Case){number_key(p, x), number_key(p, other), false};
  p->splits = true;
}

bool proof_split(const Proof *p, Case *split) {
  *split = p->split;
  for (int i = 0; i < p->cases.count; i++)
    if (compare_keys(&p->cases.at[i].truth, &split->truth) == 0) return false;
  return p->stopped && p->splits && p->cases.count < MOST_CASES;
}

void proof_begin_case(Proof *p, const Case *split, bool value) {
  Case taken = {split->truth, split->opposite, value};
  LIST_PUSH(p->arena, &p->cases, taken);
}
void proof_end_case(Proof *p) { p->cases.count--; }

// Of open truth values: a && a is a, and a && !a is false.
int64_t truth_and(Proof *p, int64_t a, int64_t b) {
  if (a == b) return a;
  if (!cell_is_open(a) || !cell_is_open(b))
    return truth_cell(p, number_mul(p, indicator(a), indicator(b)));
  Terms x = literals_of(p, open_id(a)), y = literals_of(p, open_id(b));
  Terms all = {NEW_ARRAY(p->run, Term, x.count + y.count), x.count};
  Id product = open_id(a);
  memcpy(all.at, x.at, (size_t)x.count * sizeof *x.at);
  for (int i = 0; i < y.count; i++) {
    if (has_literal(&all, y.at[i].truth)) continue;
    product = number_mul(p, product, y.at[i].truth);
    all.at[all.count++] = y.at[i];
  }
  if (at(p, product)->kind != FINITE || product < ID_PRESET || all.count > MOST_TERMS)
    return truth_cell(p, product);
  if (exclude_each_other(p, &all)) return 0;
  if (all.count > 1) side_of(p, product)->literals = all;
  return truth_cell(p, product);
}

int64_t truth_xor(Proof *p, int64_t a, int64_t b) {
  Id x = indicator(a), y = indicator(b), both = number_mul(p, x, y);
  if (a == b) return 0;
  return truth_cell(p, number_sub(p, number_add(p, x, y), number_add(p, both, both)));
}

static int64_t unknown_truth(Proof *p) { return open_cell(number_unknown(p)); }

// The difference of two numbers, whose sign is requested; infinities have an order of their own.
static bool decide_order(Proof *p, Id x, Id y, Id *difference, uint8_t *signs) {
  const Number *a = at(p, x), *b = at(p, y);
  *difference = -1;
  note_defined(p, x);
  note_defined(p, y);
  if (a->kind != FINITE || b->kind != FINITE) {
    bool above = b->kind == PLUS_INFINITY || a->kind == MINUS_INFINITY;
    *signs = a->kind == b->kind ? ZERO_SIGN : above ? POSITIVE : NEGATIVE;
    return true;
  }
  *difference = number_sub(p, y, x);
  const Number *d = at(p, *difference);
  if (d->kind != FINITE) return false;
  *signs = is_zero(d) && !d->used ? ZERO_SIGN : signs_of(d);
  if (p->mode == BY_ORDER && d->mask == 0 && !is_zero(d)) {
    double from = at(p, x)->shadow, to = at(p, y)->shadow;
    *signs = from < to ? POSITIVE : from > to ? NEGATIVE : ZERO_SIGN;
  }
  return true;
}

static bool meets_nan(const Proof *p, Id x, Id y) {
  return at(p, x)->kind == NOT_A_NUMBER || at(p, y)->kind == NOT_A_NUMBER;
}

static bool meets_unknown(const Proof *p, Id x, Id y) {
  return at(p, x)->kind == UNKNOWN || at(p, y)->kind == UNKNOWN;
}

// x < y is the atom `0 < y - x`; x <= y is the opposite of y < x.
int64_t truth_less(Proof *p, Id x, Id y, bool or_equal) {
  Id difference;
  uint8_t signs;
  if (meets_unknown(p, x, y)) return unknown_truth(p);
  if (meets_nan(p, x, y)) return 0;
  if (!decide_order(p, x, y, &difference, &signs)) return unknown_truth(p);
  uint8_t wanted = (uint8_t)(POSITIVE | (or_equal ? ZERO_SIGN : 0));
  if (!(signs & ~wanted)) return 1;
  if (!(signs & wanted)) return 0;
  if (or_equal) return truth_not(p, truth_less(p, y, x, false));
  return truth_cell(p, number_atom(p, OP_LT, &difference, 1, 0));
}

static Id named_either_way(Proof *p, Id x) {
  Id other = number_neg(p, x);
  Key a = number_key(p, x), b = number_key(p, other);
  return compare_keys(&a, &b) <= 0 ? x : other;
}

// A number that is 0 where x is: of an absolute value the number itself.
static Id zero_where(const Proof *p, Id x) {
  const Id of = at(p, x)->magnitude_of;
  return of ? of - 1 : x;
}

int64_t truth_equal(Proof *p, Id x, Id y) {
  Id difference;
  uint8_t signs;
  if (y == ID_ZERO) x = zero_where(p, x);
  if (x == ID_ZERO) y = zero_where(p, y);
  if (meets_unknown(p, x, y)) return unknown_truth(p);
  if (meets_nan(p, x, y)) return 0;
  if (!decide_order(p, x, y, &difference, &signs)) return unknown_truth(p);
  if (signs == ZERO_SIGN) return 1;
  if (!(signs & ZERO_SIGN)) return 0;
  const Number *d = at(p, difference);
  if (d->mask != 0) return 0;
  if (!d->opaque && !d->lost) {
    proof_remark(p, NOTE_EQUAL, p->instr, NULL);
    return 0;
  }
  Id name = named_either_way(p, difference);
  return truth_cell(p, number_atom(p, OP_EQ, &name, 1, 0));
}

// ---- integers

static double dtype_high(DType dtype) {
  return dtype_min(dtype) == 0 ? ldexp(1, dtype_info[dtype].bits) - 1
                               : ldexp(1, dtype_info[dtype].bits - 1) - 1;
}

static bool is_outside(DType dtype, double low, double high) {
  return low < (double)dtype_min(dtype) || high > dtype_high(dtype) || low < -0x1p53 ||
         high > 0x1p53;  // beyond 2^53 the bounds themselves are rounded
}

static int64_t same_terms(Proof *p, int64_t cell, Id id) {
  Id copy = open_id(cell);
  if (copy != id && !at(p, copy)->wrapped && side_known(p, id)->terms.count)
    side_of(p, copy)->terms = side_known(p, id)->terms;
  return cell;
}

// A result outside of the dtype's range represents its remainder from then on.
int64_t integer_wrapped(Proof *p, DType dtype, Id id, bool wrapped) {
  Number n = *at(p, id);
  if (n.kind != FINITE) return open_cell(id);
  n.wrapped = wrapped || dtype == DT_U64;
  if (n.bits_of && dtype_info[dtype].bits != dtype_info[n.bits_dtype].bits) n.bits_of = 0;
  if (is_outside(dtype, n.low, n.high)) n.wrapped = true;
  if (n.wrapped) {
    n.magnitude_of = n.weight = n.chosen = n.other = 0;
    n.low = (double)dtype_min(dtype), n.high = dtype_high(dtype);
    n.signs = ANY_SIGN;
  }
  return same_terms(p, open_cell(number_add_new(p, &n)), id);
}

// The bounds of a difference, if they are exact.
static bool is_surely(const Number *d, double low, double high) {
  return d->kind == FINITE && fabs(d->low) < 0x1p52 && fabs(d->high) < 0x1p52 && d->low >= low &&
         d->high <= high;
}

// x < y is the atom of y - x, as for floats.
static int64_t integer_less(Proof *p, Id x, Id y) {
  Id difference = number_sub(p, y, x);
  const Number *d = at(p, difference);
  if (is_surely(d, 1, INFINITY)) return 1;
  if (is_surely(d, -INFINITY, 0)) return 0;
  return open_cell(number_atom(p, OP_LT, &difference, 1, 0));
}

static int64_t integer_equal(Proof *p, Id x, Id y) {
  Id difference = named_either_way(p, number_sub(p, x, y));
  const Number *d = at(p, difference);
  if (is_surely(d, 1, INFINITY) || is_surely(d, -INFINITY, -1)) return 0;
  if (is_surely(d, 0, 0)) return 1;
  return open_cell(number_atom(p, OP_EQ, &difference, 1, 0));
}

// Of a selection between constants and a constant, or of two selections by one condition.
bool truth_of_selections(Proof *p, Op op, Id x, Id y, int64_t *cell) {
  const Number *a = at(p, x), *b = at(p, y);
  Id weight = a->weight ? a->weight : b->weight;
  if (!weight || (a->weight && b->weight && a->weight != b->weight)) return false;
  bool is_true[2];
  for (int i = 0; i < 2; i++) {
    const Number *left = a->weight ? at(p, i ? a->chosen : a->other) : a,
                 *right = b->weight ? at(p, i ? b->chosen : b->other) : b;
    if (!is_rational(left) || !is_rational(right) || left->wrapped || right->wrapped) return false;
    is_true[i] = int_compare(op, DT_I64, compare_rationals(left, right), 0);
  }
  *cell = is_true[0] == is_true[1] ? is_true[0]
          : is_true[1]             ? open_cell(weight)
                                   : truth_not(p, open_cell(weight));
  return true;
}

int64_t integer_truth(Proof *p, Op op, Id x, Id y) {
  int64_t known;
  if (truth_of_selections(p, op, x, y, &known)) return known;
  switch (op) {
    case OP_EQ:
      return integer_equal(p, x, y);
    case OP_NE:
      return truth_not(p, integer_equal(p, x, y));
    case OP_LT:
      return integer_less(p, x, y);
    case OP_GT:
      return integer_less(p, y, x);
    case OP_LE:
      return truth_not(p, integer_less(p, y, x));
    default:
      return truth_not(p, integer_less(p, x, y));
  }
}

// The sum of products of two rows of ids. Up to 2^53 its bounds are exact.
int64_t integer_dot(Proof *p, DType dtype, const int64_t *x, const int64_t *y, int64_t count) {
  Number product;
  double reach = 0;
  bool wrapped = false;
  for (int64_t e = 0; e < count; e++) {
    const Number *a = at(p, (Id)x[e]), *b = at(p, (Id)y[e]);
    multiply_intervals(&product, a, b);
    reach += fmax(fabs(product.low), fabs(product.high));
    wrapped |= a->wrapped || b->wrapped;
  }
  return integer_wrapped(p, dtype, number_dot(p, x, y, count), wrapped || reach > 0x1p53);
}

int64_t integer_cell(Proof *p, DType dtype, Id id) { return integer_wrapped(p, dtype, id, false); }

// A truth value as a number selects between 1 and 0.
Id truth_number(Proof *p, int64_t cell) {
  if (!cell_is_open(cell)) return integer_id(p, cell);
  Number n = *at(p, open_id(cell));
  n.low = 0, n.high = 1;
  if (n.kind != FINITE) return open_id(cell);
  Id opposite = side_known(p, open_id(cell))->opposite, one = integer_id(p, 1);
  n.weight = opposite ? opposite : open_id(cell);
  n.chosen = opposite ? ID_ZERO : one, n.other = opposite ? one : ID_ZERO;
  Id id = number_add_new(p, &n);
  Term *term = NEW(p->run, Term);
  *term = (Term){n.weight, opposite ? number_integer(p, -1) : ID_ONE};
  side_of(p, id)->terms = (Terms){term, 1};
  return id;
}

int64_t integer_between(Proof *p, DType dtype, Id id, double low, double high) {
  Number n = *at(p, id);
  n.low = low, n.high = high;
  return n.kind == FINITE ? integer_cell(p, dtype, number_add_new(p, &n)) : open_cell(id);
}

int64_t integer_ranged(Proof *p, DType dtype, Id id) {
  return integer_between(p, dtype, id, (double)dtype_min(dtype), dtype_high(dtype));
}

// ---- bits

// A function of the float and of both dtypes, and bits that go back give the float.
int64_t integer_bits(Proof *p, DType dtype, DType from, Id x) {
  Id named[3] = {x, number_integer(p, from), number_integer(p, dtype)};
  Number n = *at(p, number_atom(p, OP_BITCAST, named, 3, 0));
  n.bits_of = x + 1;
  n.bits_dtype = from;
  return integer_ranged(p, dtype, number_add_new(p, &n));
}

// A number in the range of open cells, which 64-bit integers may reach, is not known as one.
int64_t integer_known(Proof *p, int64_t cell) {
  return cell_is_open(cell) ? open_cell(number_unknown(p)) : cell;
}

Id integer_id(Proof *p, int64_t cell) {
  if (cell_is_open(cell)) return open_id(cell);
  Number n = *at(p, number_integer(p, cell));
  n.low = n.high = (double)cell;
  return number_add_new(p, &n);
}

int64_t integer_wanted(Proof *p, const int64_t *cells, int count) {
  uint64_t wanted = 0;
  for (int i = 0; i < count; i++)
    if (cell_is_open(cells[i])) wanted |= at(p, open_id(cells[i]))->operands;
  p->wanted |= wanted;
  return open_cell(number_unknown(p));
}
