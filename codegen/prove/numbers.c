// Arithmetic of numbers: sums, products, quotients, constants and inputs.
#include "codegen/prove/internal.h"
#include "codegen/ir/array.h"

#include <math.h>
#include <string.h>

uint8_t signs_of(const Number *n) {
  if (n->kind == PLUS_INFINITY) return POSITIVE;
  if (n->kind == MINUS_INFINITY) return NEGATIVE;
  if (n->kind != FINITE) return ANY_SIGN;
  if (n->mask != 0) return n->mask < 0 ? NEGATIVE : POSITIVE;
  if (n->below) return n->above < 0 ? NEGATIVE : n->above > 0 ? POSITIVE : ZERO_SIGN;
  return n->signs;
}

// Of two elements, the one with the smaller hash, so that the choice among many does not depend on
// their order.
void note_sources(const Proof *p, Number *n, const Number *from) {
  if (p->mode != BY_ROOTS) return;
  for (int k = 0; k < SOURCES; k++) {
    uint32_t old = (uint32_t)n->source[k] * 2654435769u,
             new = (uint32_t)from->source[k] * 2654435769u;
    if (from->source[k] && (!n->source[k] || new < old)) n->source[k] = from->source[k];
  }
}

Number number_from(Proof *p, Id x, Id y) {
  const Number *a = at(p, x), *b = at(p, y);
  Number n;
  memset(&n, 0, sizeof n);
  n.kind = FINITE;
  n.signs = ANY_SIGN;
  n.lost = a->lost | b->lost;
  n.opaque = a->opaque || b->opaque;
  n.hashed = a->hashed || b->hashed;
  n.partial = a->partial || b->partial;
  n.operands = a->operands | b->operands;
  n.used = roots_of_both(p, a->used, b->used);
  n.needed = roots_of_both(p, a->needed, b->needed);
  note_sources(p, &n, a);
  note_sources(p, &n, b);
  return n;
}

Id number_unknown(Proof *p) {
  Number n;
  memset(&n, 0, sizeof n);
  n.kind = UNKNOWN;
  n.signs = ANY_SIGN;
  n.why = p->instr;
  n.shadow = (double)NAN;
  return number_add_new(p, &n);
}

// The operand that is UNKNOWN or NaN and therefore the result, or -1.
static Id absorbs(const Proof *p, Id x, Id y) {
  const Number *a = at(p, x), *b = at(p, y);
  if (a->kind == UNKNOWN) return x;
  if (b->kind == UNKNOWN) return y;
  return a->kind == NOT_A_NUMBER || b->kind == NOT_A_NUMBER ? ID_NAN : -1;
}

// ---- constants and inputs

Id number_rational(Proof *p, int64_t above, int64_t below) {
  Number n;
  memset(&n, 0, sizeof n);
  for (int f = 0; f < PRIMES; f++) {
    uint64_t m = p->field[f].p, o = p->field[f].q;
    n.v[f] = mod_of(above, m), n.a[f] = mod_of(above, o);
    if (below != 1) {
      n.v[f] = mod_mul(n.v[f], mod_inverse(mod_of(below, m), m), m);
      n.a[f] = mod_mul(n.a[f], mod_inverse(mod_of(below, o), o), o);
    }
    n.b[f] = 1;
  }
  n.signs = above < 0 ? NEGATIVE : above > 0 ? POSITIVE : ZERO_SIGN;
  n.above = above;
  n.below = below;
  n.shadow = (double)above / (double)below;
  return number_add_new(p, &n);
}

Id number_integer(Proof *p, int64_t value) { return number_rational(p, value, 1); }

Id number_mask(Proof *p, double value) {
  Number n = *at(p, ID_ZERO);
  n.mask = value;
  n.below = n.above = 0;
  n.signs = value < 0 ? NEGATIVE : POSITIVE;
  n.shadow = value;
  return number_add_new(p, &n);
}

static uint64_t power_of_ten(int exponent, uint64_t m) {
  uint64_t power = mod_pow(10, (uint64_t)(exponent < 0 ? -exponent : exponent), m);
  return exponent < 0 ? mod_inverse(power, m) : power;
}

// As a quotient, if its parts fit a word each.
static void note_quotient(Number *n, const char *digits, int exponent) {
  int64_t above = 0, below = 1;
  for (const char *c = digits; *c; c++)
    if (*c != '-' && (!mul_i64(above, 10, &above) || !add_i64(above, *c - '0', &above))) return;
  for (int i = 0; i < exponent; i++)
    if (!mul_i64(above, 10, &above)) return;
  for (int i = 0; i < -exponent; i++)
    if (!mul_i64(below, 10, &below)) return;
  for (int64_t d = 2; d <= 5; d += 3)
    while (below % d == 0 && above % d == 0) below /= d, above /= d;
  n->above = *digits == '-' ? -above : above;
  n->below = below;
}

Id number_digits(Proof *p, const char *digits, int exponent, double value) {
  Number n;
  memset(&n, 0, sizeof n);
  for (int f = 0; f < PRIMES; f++) {
    uint64_t moduli[2] = {p->field[f].p, p->field[f].q}, drawn[2];
    for (int i = 0; i < 2; i++) {
      uint64_t m = moduli[i], sum = 0;
      for (const char *c = digits; *c; c++)
        if (*c != '-') sum = mod_add(mod_mul(sum, 10, m), (uint64_t)(*c - '0'), m);
      drawn[i] = mod_mul(sum, power_of_ten(exponent, m), m);
      if (*digits == '-') drawn[i] = mod_neg(drawn[i], m);
    }
    n.v[f] = drawn[0], n.a[f] = drawn[1], n.b[f] = 1;
  }
  note_quotient(&n, digits, exponent);
  n.signs = value < 0 ? NEGATIVE : POSITIVE;
  n.shadow = value;
  return number_add_new(p, &n);
}

Id number_symbol(Proof *p, const char *name, double value) {
  Number n;
  memset(&n, 0, sizeof n);
  Draw h = draw_start(p->seed, ATOM_SYMBOL);
  for (const char *c = name; *c; c++) draw_add(&h, (uint64_t)*c);
  draw_number(p, &h, &n);
  for (int f = 0; f < PRIMES; f++) n.v[f] = mod_mul(n.v[f], n.v[f], p->field[f].p);  // as it is > 0
  n.signs = POSITIVE;
  n.opaque = true;
  n.shadow = value;
  return number_add_new(p, &n);
}

static Number drawn_input(Proof *p, int operand, int64_t index) {
  Number n;
  memset(&n, 0, sizeof n);
  Draw h = draw_start(p->seed, ATOM_INPUT);
  draw_add(&h, (uint64_t)operand);
  draw_add(&h, (uint64_t)index);
  draw_number(p, &h, &n);
  n.signs = ANY_SIGN;
  return n;
}

Id number_input(Proof *p, int operand, int64_t index, double shadow) {
  Number n = drawn_input(p, operand, index);
  if (p->mode == BY_ORDER) n.shadow = shadow;
  return number_add_new(p, &n);
}

Id number_input_again(Proof *p, int operand, int64_t index, int source, const int *salt,
                      const Roots *roots) {
  Number n = drawn_input(p, operand, index);
  for (int i = 0; i < roots->count; i++) n.used = roots_with(p, n.used, roots->at[i]);
  for (int f = 0; f < PRIMES; f++) {
    Number other = n;
    Draw h = draw_start(p->seed, ATOM_INPUT);
    draw_add(&h, (uint64_t)operand);
    draw_add(&h, (uint64_t)index);
    draw_add(&h, (uint64_t)salt[f]);
    draw_number(p, &h, &other);
    if (salt[f]) n.v[f] = other.v[f], n.a[f] = other.a[f];
  }
  n.source[operand % SOURCES] = source;
  return number_add_new(p, &n);
}

Id number_with_scale(Proof *p, Id x, int scale) {
  Number n = *at(p, x);
  if (n.kind != FINITE || n.below || n.scale == scale) return x;
  n.scale = (int8_t)scale;
  return number_add_new(p, &n);
}

Id number_as_scale(Proof *p, Id x) {
  Number n = *at(p, x);
  if (n.kind != FINITE) return x;
  n.signs = POSITIVE;
  n.scale = 1;
  n.shadow = fabs(n.shadow);
  return number_add_new(p, &n);
}

static int scale_of(const Number *n) {
  double value = is_rational(n) ? fabs(rational_value(n)) : 0;
  if (!is_rational(n)) return n->scale;
  return value > 0 && dtype_round(DT_F8E8M0FNU, value) == value ? (n->above > 0 ? 1 : -1) : 0;
}

int number_scale(const Proof *p, const Id *x, int64_t count) {
  int scale = count ? scale_of(at(p, x[0])) : 0;
  for (int64_t i = 1; i < count; i++)
    if (scale_of(at(p, x[i])) != scale) scale = 0;
  return scale;
}

Id number_input_integer(Proof *p, int operand, int64_t index, DType dtype) {
  Number n = drawn_input(p, operand, index);
  n.low = (double)dtype_min(dtype);
  n.high = dtype_min(dtype) == 0 ? ldexp(1, dtype_info[dtype].bits) - 1 : (double)dtype_max(dtype);
  n.signs = n.low >= 0 ? ZERO_SIGN | POSITIVE : ANY_SIGN;
  n.operands = UINT64_C(1) << (operand < 63 ? operand : 63);
  return number_add_new(p, &n);
}

// ---- open truth values in sums

// The factor of a truth value, or -1.
static Id factor_of(const Proof *p, Id x, Id truth) {
  const Terms terms = side_known(p, x)->terms;
  for (int i = 0; i < terms.count; i++)
    if (terms.at[i].truth == truth) return terms.at[i].factor;
  return -1;
}

static void set_terms(Proof *p, Id x, Terms terms) {
  if (at(p, x)->kind == FINITE && x >= ID_PRESET) side_of(p, x)->terms = terms;
}

static bool has_terms(const Proof *p, Id x) { return side_known(p, x)->terms.count > 0; }

static void note_sum_terms(Proof *p, Id sum, Id x, Id y) {
  if (!has_terms(p, x) && !has_terms(p, y)) return;
  Terms a = side_known(p, x)->terms, b = side_known(p, y)->terms;
  if (has_terms(p, sum) || a.count + b.count > MOST_TERMS) return;
  Terms all = {NEW_ARRAY(p->run, Term, a.count + b.count), a.count};
  for (int i = 0; i < a.count; i++) all.at[i] = a.at[i];
  for (int i = 0; i < b.count; i++) {
    int k = 0;
    while (k < a.count && a.at[k].truth != b.at[i].truth) k++;
    if (k == a.count)
      all.at[all.count++] = b.at[i];
    else
      all.at[k].factor = number_add(p, a.at[k].factor, b.at[i].factor);
  }
  set_terms(p, sum, all);
}

static void note_product_terms(Proof *p, Id product, Id x, Id y) {
  Terms of = side_known(p, x)->terms;
  Id by = y;
  if (!of.count) of = side_known(p, y)->terms, by = x;
  if (!of.count || has_terms(p, by) || has_terms(p, product) || !is_rational(at(p, by))) return;
  Terms all = {NEW_ARRAY(p->run, Term, of.count), of.count};
  for (int i = 0; i < of.count; i++)
    all.at[i] = (Term){of.at[i].truth, number_mul(p, of.at[i].factor, by)};
  set_terms(p, product, all);
}

// ---- sums

static uint8_t sum_of_signs(uint8_t a, uint8_t b) {
  if ((a | b) & NEGATIVE && (a | b) & POSITIVE) return ANY_SIGN;
  if (a == ZERO_SIGN) return b;
  if (b == ZERO_SIGN) return a;
  uint8_t side = (a | b) & (NEGATIVE | POSITIVE);
  bool zero = (a & ZERO_SIGN) && (b & ZERO_SIGN);
  return side | (zero ? ZERO_SIGN : 0);
}

static void add_rationals(Number *n, const Number *a, const Number *b) {
  int64_t x, y, below;
  if (!a->below || !b->below || !mul_i64(a->above, b->below, &x) ||
      !mul_i64(b->above, a->below, &y) || !mul_i64(a->below, b->below, &below) ||
      !add_i64(x, y, &x) || x == INT64_MIN)
    return;
  int64_t c = x < 0 ? -x : x, d = below;
  while (d) {
    int64_t rest = c % d;
    c = d, d = rest;
  }
  n->above = c ? x / c : 0;
  n->below = c ? below / c : 1;
}

static bool exact_sum(double a, double b, double *sum) {
  *sum = a + b;
  double other = *sum - a;
  return (a - (*sum - other)) + (b - other) == 0;
}

// The sign of 0 is that of the rules for zeros, unless it is 0 because of roots that only some
// inputs have.
static Id settle(Proof *p, Number *n) {
  if (p->mode != BY_ORDER) n->shadow = 0;
  if (n->kind == FINITE && n->mask == 0 && n->v[0] == 0 && n->v[1] == 0 && is_certain(n) &&
      !n->operands)
    return ID_ZERO;
  return number_add_new(p, n);
}

// No element exceeds the greatest.
static void note_least_sign(const Proof *p, Id x, Id y, Number *n) {
  if (n->mask == 0 && !n->used && (is_among(p, x, y) || is_among(p, y, x)))
    n->signs &= NEGATIVE | ZERO_SIGN;
}

bool number_may_exceed(const Proof *p, Id x) { return signs_of(at(p, x)) & POSITIVE; }

// A product or difference of masks that is an ordinary number.
static bool is_small_mask(double mask) { return mask != 0 && fabs(mask) < 1e5; }

// The sum of two numbers.
Id number_add(Proof *p, Id x, Id y) {
  Id absorbed = absorbs(p, x, y);
  if (absorbed >= 0) return absorbed;
  const Number *a = at(p, x), *b = at(p, y);
  if (a->kind != FINITE || b->kind != FINITE)
    return a->kind == b->kind || b->kind == FINITE ? x : a->kind == FINITE ? y : ID_NAN;
  if (x == ID_ZERO) return y;
  if (y == ID_ZERO) return x;
  Number n = number_from(p, x, y);
  if (!exact_sum(a->mask, b->mask, &n.mask) || is_small_mask(n.mask)) return number_unknown(p);
  for (int f = 0; f < PRIMES; f++) {
    n.v[f] = mod_add(a->v[f], b->v[f], p->field[f].p);
    n.a[f] = mod_add(a->a[f], b->a[f], p->field[f].q);
    n.b[f] = a->b[f] == 1   ? b->b[f]
             : b->b[f] == 1 ? a->b[f]
                            : mod_mul(a->b[f], b->b[f], p->field[f].p);
  }
  if (n.mask == 0) add_rationals(&n, a, b);
  n.signs = n.mask == 0 && (a->mask != 0) ? ANY_SIGN : sum_of_signs(signs_of(a), signs_of(b));
  note_least_sign(p, x, y, &n);
  n.low = a->low + b->low, n.high = a->high + b->high;
  n.shadow = a->shadow + b->shadow;
  Id sum = settle(p, &n);
  note_sum_terms(p, sum, x, y);
  return sum;
}

static uint8_t opposite(uint8_t s) {
  return (uint8_t)((s & ZERO_SIGN) | (s & NEGATIVE ? POSITIVE : 0) | (s & POSITIVE ? NEGATIVE : 0));
}

// The negative of a number.
Id number_neg(Proof *p, Id x) {
  const Number *a = at(p, x);
  if (a->kind == PLUS_INFINITY) return ID_MINUS_INFINITY;
  if (a->kind == MINUS_INFINITY) return ID_PLUS_INFINITY;
  if (a->kind != FINITE || x == ID_ZERO) return x;
  Number n = *a;
  for (int f = 0; f < PRIMES; f++) {
    n.v[f] = mod_neg(a->v[f], p->field[f].p);
    n.a[f] = mod_neg(a->a[f], p->field[f].q);
    n.b[f] = a->b[f] == 1 ? 1 : mod_inverse(a->b[f], p->field[f].p);
  }
  n.mask = 0 - a->mask;
  n.above = a->above == INT64_MIN ? 0 : -a->above;
  if (a->above == INT64_MIN) n.below = 0;
  n.signs = opposite(a->signs);
  n.low = -a->high, n.high = -a->low;
  n.set = -a->set;
  n.scale = (int8_t)-a->scale;
  n.magnitude_of = n.bits_of = n.weight = n.chosen = n.other = 0;
  n.shadow = -a->shadow;
  Id negative = settle(p, &n);
  if (side_known(p, x)->terms.count) note_product_terms(p, negative, x, number_integer(p, -1));
  return negative;
}

Id number_sub(Proof *p, Id x, Id y) { return number_add(p, x, number_neg(p, y)); }

// ---- products

static uint8_t product_of_signs(uint8_t a, uint8_t b) {
  uint8_t result = (a | b) & ZERO_SIGN;
  if ((a & POSITIVE && b & POSITIVE) || (a & NEGATIVE && b & NEGATIVE)) result |= POSITIVE;
  if ((a & POSITIVE && b & NEGATIVE) || (a & NEGATIVE && b & POSITIVE)) result |= NEGATIVE;
  return result;
}

// An infinity with that sign.
static Id infinity_of(Proof *p, uint8_t signs) {
  if (signs == POSITIVE) return ID_PLUS_INFINITY;
  if (signs == NEGATIVE) return ID_MINUS_INFINITY;
  return signs == ZERO_SIGN ? ID_NAN : number_unknown(p);
}

// Of a number without logs by another that may have some: only whole multiples of those are known.
static void multiply_exponents(const Proof *p, Number *n, const Number *a, const Number *b) {
  if (has_logs(a) && has_logs(b)) return;
  const Number *logs = has_logs(a) ? a : b, *other = logs == a ? b : a;
  bool whole = other->below == 1 && other->above >= -64 && other->above <= 64;
  if (has_logs(logs) && !whole) return;
  for (int f = 0; f < PRIMES; f++) {
    n->a[f] = mod_mul(a->a[f], b->a[f], p->field[f].q);
    n->b[f] = 1;
    if (!has_logs(logs)) continue;
    int64_t times = other->above < 0 ? -other->above : other->above;
    uint64_t power = mod_pow(logs->b[f], (uint64_t)times, p->field[f].p);
    n->b[f] = other->above < 0 ? mod_inverse(power, p->field[f].p) : power;
  }
}

void multiply_intervals(Number *n, const Number *a, const Number *b) {
  double ends[4] = {a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high};
  n->low = fmin(fmin(ends[0], ends[1]), fmin(ends[2], ends[3]));
  n->high = fmax(fmax(ends[0], ends[1]), fmax(ends[2], ends[3]));
}

static void multiply_rationals(Number *n, const Number *a, const Number *b) {
  if (!a->below || !b->below) return;
  if (mul_i64(a->above, b->above, &n->above) && mul_i64(a->below, b->below, &n->below)) {
    add_rationals(n, &(Number){.above = n->above, .below = n->below}, &(Number){.below = 1});
    return;
  }
  n->above = n->below = 0;
}

// The infinite part of a product; false: unknown.
static bool multiply_masks(Number *n, const Number *a, const Number *b) {
  if (a->mask == 0 && b->mask == 0) return true;
  const Number *m = a->mask != 0 ? a : b, *by = m == a ? b : a;
  if (!is_rational(by)) return false;
  double value = rational_value(by);
  n->mask = m->mask * value;
  if (is_small_mask(n->mask)) return false;
  return by->above % by->below == 0 || (by->below & (by->below - 1)) == 0
             ? fma(m->mask, value, -n->mask) == 0
             : false;
}

// The product: residues multiplied in both fields, exponents added, signs and intervals combined.
// Infinities, NaN, zero, one and selections between two numbers have rules of their own.
Id number_mul(Proof *p, Id x, Id y) {
  Id absorbed = absorbs(p, x, y);
  if (absorbed >= 0) return absorbed;
  if (x == ID_ONE) return y;
  if (y == ID_ONE) return x;
  const Number *a = at(p, x), *b = at(p, y);
  if (a->kind != FINITE || b->kind != FINITE)
    return infinity_of(p, product_of_signs(signs_of(a), signs_of(b)));
  if (x == ID_ZERO || y == ID_ZERO) return ID_ZERO;
  if (a->weight && a->weight == b->weight)
    return number_blend(p, a->weight, number_mul(p, a->chosen, b->chosen),
                        number_mul(p, a->other, b->other));
  Number n = number_from(p, x, y);
  if (!multiply_masks(&n, a, b)) return number_unknown(p);
  for (int f = 0; f < PRIMES; f++) n.v[f] = mod_mul(a->v[f], b->v[f], p->field[f].p);
  multiply_exponents(p, &n, a, b);
  if (n.mask == 0) multiply_rationals(&n, a, b);
  n.signs =
      x == y ? (signs_of(a) & ZERO_SIGN) | POSITIVE : product_of_signs(signs_of(a), signs_of(b));
  multiply_intervals(&n, a, b);
  n.shadow = a->shadow * b->shadow;
  Id product = settle(p, &n);
  note_product_terms(p, product, x, y);
  return product;
}

Id number_power(Proof *p, Id x, int64_t times) {
  Id result = ID_ONE;
  for (int64_t i = 0; i < (times < 0 ? -times : times); i++) result = number_mul(p, result, x);
  return times < 0 ? number_div(p, ID_ONE, result) : result;
}

// 1 / y in each field.
static Id reciprocal(Proof *p, Id y) {
  const Number *b = at(p, y);
  Number n = number_from(p, y, y);
  if (b->v[0] == 0 || b->v[1] == 0) return number_unknown(p);
  for (int f = 0; f < PRIMES; f++) n.v[f] = mod_inverse(b->v[f], p->field[f].p);
  bool known = !has_logs(b) && b->a[0] != 0 && b->a[1] != 0;
  for (int f = 0; f < PRIMES && known; f++)
    n.a[f] = mod_inverse(b->a[f], p->field[f].q), n.b[f] = 1;
  if (b->below && b->above > INT64_MIN && b->above != 0) {
    n.above = b->above < 0 ? -b->below : b->below;
    n.below = b->above < 0 ? -b->above : b->above;
  }
  n.signs = signs_of(b) & (uint8_t)~ZERO_SIGN;
  n.partial |= (signs_of(b) & ZERO_SIGN) != 0;
  n.shadow = 1 / b->shadow;
  return settle(p, &n);
}

Id number_div(Proof *p, Id x, Id y) {
  Id absorbed = absorbs(p, x, y);
  if (absorbed >= 0) return absorbed;
  if (y == ID_ONE) return x;
  const Number *a = at(p, x), *b = at(p, y);
  if (is_zero(b)) return is_zero(a) && is_certain(a) && is_certain(b) ? ID_NAN : number_unknown(p);
  if (b->kind != FINITE) return a->kind == FINITE ? ID_ZERO : ID_NAN;
  if (b->mask != 0) return number_unknown(p);
  if (signs_of(b) & ZERO_SIGN) note_partial(p, NOTE_DIVISOR, y);
  if (a->kind != FINITE)
    return signs_of(b) & ZERO_SIGN ? number_unknown(p)
                                   : infinity_of(p, product_of_signs(signs_of(a), signs_of(b)));
  return number_mul(p, x, reciprocal(p, y));
}

// ---- selections

// A number that equals x where the truth value is known: a product with it is its factor, or 0.
static Id settled_by(Proof *p, Id x, Id truth, bool is_true) {
  Id factor = factor_of(p, x, truth);
  if (factor < 0) return x;
  Id other = is_true ? number_sub(p, ID_ONE, truth) : number_neg(p, truth);
  Id settled = number_add(p, x, number_mul(p, factor, other));
  Terms of = side_known(p, x)->terms, rest = {NEW_ARRAY(p->run, Term, of.count), 0};
  for (int i = 0; i < of.count; i++)
    if (of.at[i].truth != truth) rest.at[rest.count++] = of.at[i];
  set_terms(p, settled, rest);
  return settled;
}

Id number_blend(Proof *p, Id weight, Id x, Id y) {
  const Number *a = at(p, x), *b = at(p, y);
  if (x == y) return x;
  if (at(p, weight)->kind != FINITE || a->kind != FINITE || b->kind != FINITE || a->mask != 0 ||
      b->mask != 0)
    return number_unknown(p);
  if (side_known(p, weight)->opposite)
    return number_blend(p, side_known(p, weight)->opposite, y, x);
  Id chosen = settled_by(p, x, weight, true), other = settled_by(p, y, weight, false);
  Id difference = number_sub(p, chosen, other);
  Number n = *at(p, number_add(p, number_mul(p, weight, difference), other));
  if (n.kind != FINITE) return number_unknown(p);
  n.signs = signs_of(a) | signs_of(b);
  n.low = fmin(a->low, b->low), n.high = fmax(a->high, b->high);
  n.wrapped = a->wrapped || b->wrapped;
  n.opaque = true;
  n.set = 0;
  n.magnitude_of = 0;
  n.needed = roots_in_common(p, a->needed, b->needed);
  n.scale = (int8_t)number_scale(p, (Id[]){x, y}, 2);
  bool differ = difference != ID_ZERO;
  n.weight = differ ? weight : 0, n.chosen = differ ? x : 0, n.other = differ ? y : 0;
  Id id = number_add_new(p, &n);
  if (differ && !has_terms(p, id)) {
    Term *term = NEW(p->run, Term);
    *term = (Term){weight, difference};
    set_terms(p, id, (Terms){term, 1});
  }
  return id;
}

// ---- sums of many

// A finite number without logs and masks: sums of products of such need no numbers between.
static bool is_plain(const Number *n) { return n->kind == FINITE && n->mask == 0 && !has_logs(n); }

bool number_is_plain(const Proof *p, Id x) { return is_plain(at(p, x)); }

static void dot_field(const Proof *p, const int64_t *x, const int64_t *y, int64_t count, int f,
                      Number *n) {
  unsigned __int128 v = 0, a = 0;
  for (int64_t e = 0; e < count; e++) {
    const Number *left = at(p, (Id)x[e]), *right = at(p, (Id)y[e]);
    v += (unsigned __int128)left->v[f] * right->v[f];
    a += (unsigned __int128)left->a[f] * right->a[f];
    if ((e & 31) == 31) v = mod_reduce(v, p->field[f].p), a = mod_reduce(a, p->field[f].q);
  }
  n->v[f] = mod_reduce(v, p->field[f].p);
  n->a[f] = mod_reduce(a, p->field[f].q);
  n->b[f] = 1;
}

static void add_bounds(Number *n, const Number *a, const Number *b) {
  Number product;
  multiply_intervals(&product, a, b);
  n->low += product.low, n->high += product.high;
}

// The properties of a sum of products other than its elements. False: it needs intermediate
// numbers.
static bool describe_dot(Proof *p, const int64_t *x, const int64_t *y, int64_t count, Number *n) {
  bool rational = true;
  *n = number_from(p, ID_ZERO, ID_ZERO);
  n->signs = ZERO_SIGN;
  for (int64_t e = 0; e < count; e++) {
    const Number *a = at(p, (Id)x[e]), *b = at(p, (Id)y[e]);
    if (!is_plain(a) || !is_plain(b)) return false;
    rational &= a->below && b->below;
    n->opaque |= a->opaque || b->opaque;
    n->hashed |= a->hashed || b->hashed;
    n->partial |= a->partial || b->partial;
    n->lost |= a->lost | b->lost;
    note_sources(p, n, a);
    note_sources(p, n, b);
    n->used = roots_of_both(p, n->used, roots_of_both(p, a->used, b->used));
    n->needed = roots_of_both(p, n->needed, roots_of_both(p, a->needed, b->needed));
    n->operands |= a->operands | b->operands;
    n->signs = sum_of_signs(n->signs, product_of_signs(signs_of(a), signs_of(b)));
    n->shadow += a->shadow * b->shadow;
    add_bounds(n, a, b);
  }
  return !rational;
}

static Id dot_by_steps(Proof *p, const int64_t *x, const int64_t *y, int64_t count) {
  Id sum = ID_ZERO;
  for (int64_t e = 0; e < count; e++) sum = number_add(p, sum, number_mul(p, (Id)x[e], (Id)y[e]));
  return sum;
}

static Id dot_at_once(Proof *p, const int64_t *x, const int64_t *y, int64_t count, Number *n) {
  for (int f = 0; f < PRIMES; f++) dot_field(p, x, y, count, f, n);
  return settle(p, n);
}

// The sum of products of two rows of cells.
Id number_dot(Proof *p, const int64_t *x, const int64_t *y, int64_t count) {
  Number n;
  return describe_dot(p, x, y, count, &n) ? dot_at_once(p, x, y, count, &n)
                                          : dot_by_steps(p, x, y, count);
}
