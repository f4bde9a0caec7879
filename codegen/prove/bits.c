// The bits of elements, and conversions: casts, bitcasts, and elements made of parts of others.
#include "codegen/ir/scalar.h"
#include "codegen/prove/cells.h"
#include "codegen/prove/constants.h"

#include <math.h>

// ---- bits

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
int64_t join_parts(void *context, DType to, CellPart *parts, int count) {
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
bool move_bits(Proof *p, Op op, DType dtype, const int64_t *cells, int64_t *cell) {
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

// ---- casts

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

int64_t cast_integer(Proof *p, DType to, DType from, int64_t cell) {
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
int64_t cast_cell(Proof *p, const Instr *instr, DType to, DType from, int64_t cell) {
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

int64_t bitcast_cell(Proof *p, DType to, DType from, int64_t cell) {
  if (to == from) return cell;
  if (is_float(from) && !is_float(to) && number_is_named(p, named_id(p, cell)))
    return integer_bits(p, to, from, named_id(p, cell));
  if (is_float(from)) return float_bitcast(p, to, from, id_of(p, cell));
  if (cell_is_open(cell)) return open_bitcast(p, to, cell);
  Scalar bits = scalar_bitcast(to, from, (Scalar){.i = cell});
  return is_float(to) ? exact_number(p, bits.f) : integer_known(p, bits.i);
}

// ---- bits of whole floats

// The bits of a float with the bit of its sign inverted, cleared or set are those of its negative,
// its magnitude, or the negative of that. False: it is another operation.
bool change_sign_bit(Proof *p, Op op, DType dtype, const int64_t *cells, int64_t *result) {
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
bool blend_bits(Proof *p, const Instr *select, Id weight, int64_t a, int64_t b, int64_t *result) {
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
