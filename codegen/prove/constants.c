// Constants of kernels as the real numbers that they were rounded from.
//
// A float has one exact value, but 0.1 in a kernel means a tenth. In this order: short dyadic
// fractions (0.125), short decimals, quotients of small numbers, known constants and roots of
// quotients, each where it rounds to just that float; else the float's own value. A constant that
// the other side has with more digits is that one.
#include "codegen/prove/constants.h"
#include "codegen/ir/array.h"
#include "codegen/ir/flow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double least_mask = 1e9, greatest_number = 1e20;

static double rounded(DType dtype, double value) { return dtype_round(dtype, value); }

static Id taken(Proof *p, const Instr *instr, Id id, double value, const char *as) {
  proof_remark(p, NOTE_CONSTANT, instr,
               arena_printf(proof_arena(p), "%.9g is taken as %s", value, as));
  return id;
}

// value = above / 2^k with less than `bits` bits.
static bool is_fraction(double value, int bits, int64_t *above, int64_t *below) {
  for (int k = 0; k <= 40; k++) {
    double scaled = ldexp(value, k);
    if (fabs(scaled) > 0x1p53) return false;
    if (scaled != floor(scaled)) continue;
    if (fabs(scaled) >= ldexp(1, bits) && k > 0) return false;
    *above = (int64_t)scaled;
    *below = INT64_C(1) << k;
    return true;
  }
  return false;
}

static bool short_fraction(double value, int64_t *above, int64_t *below) {
  return is_fraction(value, 16, above, below);
}

// "-12345" and an exponent, with that number of digits.
static void decimal(double value, int digits, char *text, int *exponent) {
  char buffer[64];
  snprintf(buffer, sizeof buffer, "%.*e", digits - 1, value);
  char *e = strchr(buffer, 'e');
  int count = 0;
  *exponent = atoi(e + 1) - (digits - 1);
  for (char *c = buffer; c < e; c++)
    if (*c != '.') text[count++] = *c;
  while (count > 1 && text[count - 1] == '0') count--, ++*exponent;
  text[count] = 0;
}

static bool by_decimal(Proof *p, DType dtype, double value, int most, Id *id, double *real) {
  for (int digits = 1; digits <= most; digits++) {
    char text[64];
    int exponent;
    decimal(value, digits, text, &exponent);
    char whole[96];
    snprintf(whole, sizeof whole, "%se%d", text, exponent);
    *real = strtod(whole, NULL);
    if (rounded(dtype, *real) != value) continue;
    *id = number_digits(p, text, exponent, value);
    return true;
  }
  return false;
}

enum { MOST_BELOW = 1 << 16, MOST_ABOVE = 64, MOST_FACTORS = 64, MOST_CONSTANTS = 256 };

// Is value = above / below, to the last bit of the dtype?
static bool by_quotient(DType dtype, double value, int64_t *above, int64_t *below) {
  for (*above = 1; *above <= MOST_ABOVE; ++*above) {
    double ratio = (double)*above / fabs(value);
    *below = (int64_t)(ratio + 0.5);
    if (*below < 2 || *below > MOST_BELOW / *above) continue;
    if (rounded(dtype, (double)*above / (double)*below) == fabs(value)) return true;
  }
  return false;
}

static const struct {
  const char *name;
  double value;
} symbols[] = {{"ln 2", 0.69314718055994530942},
               {"pi", 3.14159265358979323846},
               {"ln 10", 2.30258509299404568402},
               {"e", 2.71828182845904523536},
               {"sqrt(2 / pi)", 0.79788456080286535588}};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

// A symbol, its inverse, or a small multiple of one.
static bool by_symbol(Proof *p, DType dtype, double value, Id *id, const char **name,
                      double *real) {
  for (int i = 0; i < SYMBOLS; i++)
    for (int inverse = 0; inverse < 2; inverse++)
      for (int twice = -2; twice <= 2; twice++) {
        double of = ldexp(inverse ? 1 / symbols[i].value : symbols[i].value, twice);
        if (rounded(dtype, of) != fabs(value)) continue;
        *real = of;
        Id symbol = number_symbol(p, symbols[i].name, symbols[i].value);
        if (inverse) symbol = number_div(p, ID_ONE, symbol);
        Id scale = twice < 0 ? number_rational(p, 1, 1 << -twice) : number_integer(p, 1 << twice);
        *id = number_mul(p, symbol, scale);
        *name = arena_printf(proof_arena(p), "%s%s%s", inverse ? "1 / " : "", symbols[i].name,
                             twice ? ", times a power of 2" : "");
        return true;
      }
  return false;
}

// Is value the root of above / below, where above is at most `most`?
static bool is_root(Proof *p, DType dtype, double value, int64_t below, double most, Id *id,
                    const char **name, double *real) {
  double above = floor(value * value * (double)below + 0.5);
  if (above < 1 || above > most) return false;
  *real = sqrt(above / (double)below);
  if (rounded(dtype, *real) != fabs(value)) return false;
  *id = number_sqrt(p, number_rational(p, (int64_t)above, below));
  *name = arena_printf(proof_arena(p), "the root of %d / %lld", (int)above, (long long)below);
  return true;
}

// The root of a quotient of small numbers, or of a decimal below 1 with up to four digits.
static bool by_root(Proof *p, DType dtype, double value, Id *id, const char **name, double *real) {
  for (int64_t below = 2; below <= 4096; below++)
    if (is_root(p, dtype, value, below, 64, id, name, real)) return true;
  for (int64_t below = 100; below <= 10000; below *= 10)
    if (is_root(p, dtype, value, below, (double)below, id, name, real)) return true;
  return false;
}

// Compilers and authors fold products: a value that is one of two other constants of the kernel,
// perhaps times a power of 2, and times 3, as in derivatives of cubes.
static Id plain_constant(Proof *p, DType dtype, double value, double *real, const char **name);

// A constant as factor times two other constants of the kernel, times a power of 2.
static bool by_product_of(Proof *p, DType dtype, double value, int factor, Id *id,
                          const char **name) {
  const Constants *all = proof_constants(p);
  const int count = all->count < MOST_FACTORS ? all->count : MOST_FACTORS;
  for (int i = 0; i < count; i++)
    for (int j = i; j < count; j++) {
      double a = all->at[i].value, b = all->at[j].value, x, y;
      int twice;
      const char *first, *second;
      if (a == value || b == value) continue;
      (void)frexp(value / (factor * a * b) * 1.4142, &twice);
      twice -= 1;
      if (twice < -2 || twice > 2 || fabs(ldexp(factor * a * b, twice) / value - 1) > 1e-6)
        continue;
      Id left = plain_constant(p, dtype, a, &x, &first),
         right = plain_constant(p, dtype, b, &y, &second);
      if (left < 0 || right < 0 || rounded(dtype, ldexp(factor * x * y, twice)) != value) continue;
      const int above = factor << (twice > 0 ? twice : 0), below = 1 << (twice < 0 ? -twice : 0);
      *id = number_mul(p, number_rational(p, above, below), number_mul(p, left, right));
      *name =
          arena_printf(proof_arena(p), "%g * (%s) * (%s)", (double)above / below, first, second);
      return true;
    }
  return false;
}

static bool by_product(Proof *p, DType dtype, double value, Id *id, const char **name) {
  return by_product_of(p, dtype, value, 1, id, name) || by_product_of(p, dtype, value, 3, id, name);
}

Id exact_number(Proof *p, double value) {
  int exponent;
  if (value == 0) return ID_ZERO;
  if (isnan(value)) return ID_NAN;
  if (isinf(value)) return value > 0 ? ID_PLUS_INFINITY : ID_MINUS_INFINITY;
  int64_t mantissa = (int64_t)ldexp(frexp(value, &exponent), 53);
  for (exponent -= 53; mantissa && mantissa % 2 == 0; exponent++) mantissa /= 2;
  if (exponent <= 0 && exponent > -62) return number_rational(p, mantissa, INT64_C(1) << -exponent);
  Id power = number_power(p, number_integer(p, 2), exponent);
  return number_mul(p, number_integer(p, mantissa), power);
}

// The exact number that a positive constant is, by the first rule that recognises it, and
// its real value and name. -1: no rule does.
static Id plain_constant(Proof *p, DType dtype, double value, double *real, const char **name) {
  int digits = dtype == DT_F64 ? 12 : 6;
  int64_t above, below;
  Id id;
  *real = value;
  *name = arena_printf(proof_arena(p), "%g", value);
  if (short_fraction(value, &above, &below)) return number_rational(p, above, below);
  if (dtype != DT_F32 && dtype != DT_F64) return -1;
  if (by_decimal(p, dtype, value, digits, &id, real)) return id;
  if (by_quotient(dtype, value, &above, &below)) {
    *real = (double)above / (double)below;
    *name = arena_printf(proof_arena(p), "%lld / %lld", (long long)above, (long long)below);
    return number_rational(p, above, below);
  }
  return by_symbol(p, dtype, value, &id, name, real) || by_root(p, dtype, value, &id, name, real)
             ? id
             : -1;
}

static Id real_constant(Proof *p, DType dtype, const Instr *instr, double value) {
  double real;
  const char *name;
  Id id = plain_constant(p, dtype, value, &real, &name);
  if (id >= 0) return taken(p, instr, id, value, name);
  if (dtype != DT_F32 && dtype != DT_F64) return exact_number(p, value);
  if (by_product(p, dtype, value, &id, &name)) return taken(p, instr, id, value, name);
  name = arena_printf(proof_arena(p), "%.9g", value);
  return by_decimal(p, dtype, value, 17, &id, &real) ? taken(p, instr, id, value, name)
                                                     : exact_number(p, value);
}

// ---- constants of the other side

// A fraction with few digits stands for itself: at most one number in 32 rounds to such a fraction.
static bool means_itself(DType dtype, double value, int64_t *above, int64_t *below) {
  int digits = dtype_info[dtype].precision;
  return is_fraction(value, digits < 16 ? digits - 5 : 16, above, below);
}

// The nearest constant of the other side that has more digits and rounds to the value. NULL: there
// is none, or the other side has the value itself.
static const Constant *of_other_side(const Proof *p, DType dtype, double value) {
  const Constants *all = proof_constants((Proof *)p);
  const Constant *best = NULL;
  for (int i = 0; i < all->count; i++) {
    const Constant *c = &all->at[i];
    if (!(c->sides & (2u >> proof_side_now(p)))) continue;
    if (c->dtype == dtype && c->value == value) return NULL;
    if (dtype_info[c->dtype].precision <= dtype_info[dtype].precision ||
        rounded(dtype, c->value) != value)
      continue;
    if (!best || fabs(c->value - value) < fabs(best->value - value)) best = c;
  }
  return best;
}

static Id taken_as_other(Proof *p, const Instr *instr, double value, const Constant *other) {
  int64_t above, below;
  Id id = short_fraction(other->value, &above, &below)
              ? number_rational(p, above, below)
              : real_constant(p, other->dtype, instr, other->value);
  return taken(p, instr, id, value,
               arena_printf(proof_arena(p), "%.9g, as on the other side", other->value));
}

Id constant_number(Proof *p, DType dtype, const Instr *instr, double value) {
  int64_t above, below;
  if (isnan(value)) return ID_NAN;
  if (isinf(value)) return value > 0 ? ID_PLUS_INFINITY : ID_MINUS_INFINITY;
  if (value <= -least_mask || value >= greatest_number) {
    proof_remark(p, NOTE_MASK, instr, arena_printf(proof_arena(p), "%.6g", value));
    return number_mask(p, value);
  }
  if (means_itself(dtype, value, &above, &below)) return number_rational(p, above, below);
  const Constant *other = of_other_side(p, dtype, fabs(value));
  if (!other && short_fraction(value, &above, &below)) return number_rational(p, above, below);
  Id id = other ? taken_as_other(p, instr, fabs(value), other)
                : real_constant(p, dtype, instr, fabs(value));
  return value < 0 ? number_neg(p, id) : id;
}

typedef struct {
  Proof *p;
  unsigned side;
} Noting;

static void note_constant(Instr *v, void *context) {
  const Noting *noting = context;
  Constants *all = proof_constants(noting->p);
  if (v->op != OP_CONST || !is_float(v->type.dtype) || !isfinite(v->fval) || v->fval == 0) return;
  Constant c = {v->type.dtype, fabs(v->fval), noting->side};
  for (int i = 0; i < all->count; i++)
    if (all->at[i].value == c.value && all->at[i].dtype == c.dtype) {
      all->at[i].sides |= c.sides;
      return;
    }
  if (all->count < MOST_CONSTANTS) LIST_PUSH(proof_arena(noting->p), all, c);
}

static void note_body(Proof *p, const Kernel *k, unsigned side) {
  Noting noting = {p, side};
  ir_walk(k->body, note_constant, &noting);
  for (int i = 0; k->flow && i < k->flow->callees.count; i++)
    note_body(p, k->flow->callees.at[i].kernel, side);
}

void note_constants(Proof *p, const Kernel *k, const Kernel *other) {
  note_body(p, k, 1);
  if (other)
    note_body(p, other, 2);
  else
    ir_walk(k->reference, note_constant, &(Noting){p, 2});
}

void note_constants_of_gradient(Proof *p, const Kernel *backward, const Kernel *forward,
                                const Kernel *derived) {
  note_body(p, backward, 1);
  ir_walk(forward->reference, note_constant, &(Noting){p, 3});
  ir_walk(derived->reference, note_constant, &(Noting){p, 2});
}
