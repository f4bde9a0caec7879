// Numbers of the proof: random elements of finite fields in place of floats.
//
// A finite number is an element of Z_p in each of two fields beside, where it is known, an exponent
// (a, b) in each, which means a + log b: exp gives g^a b. What fields have no meaning for (a
// maximum, a comparison, a function of libm) is an atom: an element drawn by a hash of the
// operation and of what its operands are. So equal operands give equal atoms, and nothing else does
// but by chance.
#ifndef CODEGEN_PROVE_NUMBERS_H
#define CODEGEN_PROVE_NUMBERS_H

#include "codegen/check/arithmetic.h"
#include "codegen/prove/field.h"

typedef int Id;  // of a number, its index in the table
typedef enum { FINITE, PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER, UNKNOWN } NumberKind;

// The signs that a number may have, as a set.
enum { NEGATIVE = 1, ZERO_SIGN = 2, POSITIVE = 4, ANY_SIGN = 7 };

typedef struct {
  // UNKNOWN: no rule gives it, at the instruction `why`.
  NumberKind kind;
  uint8_t signs;
  uint8_t lost;  // by field: it depends on a root of what has none, which is an atom there
  bool opaque;   // it depends on an atom
  bool has_exponent;
  bool wrapped;  // an integer: it stands for its remainder in the dtype's range
  double mask;   // how often the infinite M is added, by which masks are taken; mostly 0
  uint64_t v[PRIMES], a[PRIMES], b[PRIMES];
  int64_t above, below;  // the number is above / below; 0 below: not known
  double shadow;         // in a run by order: the number in binary64
  double low, high;      // of an integer: between which it is
  uint64_t operands;     // of an integer: bits of the integer operands that it depends on
  int set;     // of a maximum: its leaves, counted from 1; of the opposite of one: below 0; else 0
  Id bits_of;  // of an integer: 1 + the float of dtype `bits_dtype` whose bits it is; else 0
  DType bits_dtype;
  const Instr *why;
} Number;

// What both sides are told of: assumptions, printed.
typedef enum {
  NOTE_MASK,      // a constant is taken as infinite
  NOTE_CONSTANT,  // .. as the real number that it was rounded from
  NOTE_EQUAL,     // a comparison of numbers that are not the same is false
  NOTE_ROUNDING,  // a cast to a narrower float
  NOTE_DIVISOR,   // assumed not to be 0
  NOTE_LOG,       // assumed to be positive
  NOTE_ROOT,      // .. or 0
  NOTES
} NoteKind;

typedef struct {
  NoteKind kind;
  const Instr *instr;
  uint64_t what[PRIMES];  // divisors, arguments: which; else 0
  const char *text;       // of a constant: as what it is taken; else NULL
  unsigned sides;         // bit 0: the kernel has it, bit 1: the reference
  int side;               // whose instruction it is
} Note;

typedef struct Proof Proof;

// Limits: of time, and of memory for numbers.
Proof *proof_start(Arena *arena, uint64_t seed, double seconds, int64_t bytes);
void proof_free(Proof *p);

// How a run takes what a field has no meaning for.
typedef enum {
  BY_ATOMS,  // maxima, comparisons and roots are atoms
  BY_ROOTS,  // .. roots are elements with that square, where there are some
  BY_ORDER   // comparisons and maxima are decided by binary64, at data drawn for that
} ProofMode;
// All numbers are forgotten; the notes stay.
int number_count(const Proof *p);
void proof_restart(Proof *p, uint64_t seed, ProofMode mode);
void proof_side(Proof *p, int side);          // 0: the kernel runs, 1: the reference
void proof_at(Proof *p, const Instr *instr);  // which instruction computes now
ProofMode proof_mode(const Proof *p);
const Number *number_at(const Proof *p, Id id);
bool number_is(const Proof *p, int64_t cell);  // is it the id of a number?
bool proof_is_over(const Proof *p);  // a limit is reached, or an integer has to be a number
const char *proof_limit_text(const Proof *p);
uint64_t proof_wanted(const Proof *p);  // .. of these operands
bool proof_has_roots(const Proof *p);   // was a root no element of a field?
int proof_note_count(const Proof *p);
const Note *proof_note(const Proof *p, int index);
int64_t *proof_room(Proof *p, int64_t count);  // until the next call
typedef LIST(double) Constants;
Constants *proof_constants(Proof *p);                   // of the kernel and its reference
void proof_stop(Proof *p, const Instr *instr);          // the walk has to know what is not known
bool proof_stopped(const Proof *p, const Instr **why);  // .. did it, and where (NULL: before)
void proof_remark(Proof *p, NoteKind kind, const Instr *instr, const char *text);
Arena *proof_arena(const Proof *p);

enum { ID_ZERO = 0, ID_ONE, ID_PLUS_INFINITY, ID_MINUS_INFINITY, ID_NAN, ID_UNKNOWN, ID_PRESET };

Id number_unknown(Proof *p);
Id number_integer(Proof *p, int64_t n);
Id number_rational(Proof *p, int64_t above, int64_t below);
Id number_mask(Proof *p, double value);
Id number_digits(Proof *p, const char *digits, int exponent, double value);  // digits * 10^exponent
Id number_symbol(Proof *p, const char *name, double value);  // a constant that is not a quotient
// Of an operand: element `index`; an integer lies in [low, high].
Id number_input(Proof *p, int operand, int64_t index, double shadow);
Id number_input_integer(Proof *p, int operand, int64_t index, DType dtype);

// Arithmetic of reals.
Id number_add(Proof *p, Id x, Id y);
Id number_sub(Proof *p, Id x, Id y);
Id number_mul(Proof *p, Id x, Id y);
Id number_div(Proof *p, Id x, Id y);
Id number_neg(Proof *p, Id x);
Id number_dot(Proof *p, const int64_t *x, const int64_t *y, int64_t count);  // of cells
Id number_power(Proof *p, Id x, int64_t n);
Id number_exp(Proof *p, Id x);
Id number_log(Proof *p, Id x);
Id number_sqrt(Proof *p, Id x);
Id number_max(Proof *p, Id x, Id y);
Id number_maximum(Proof *p, const int64_t *cells, int64_t count);
Id number_min(Proof *p, Id x, Id y);
Id number_abs(Proof *p, Id x);
Id number_sign(Proof *p, Id x);
// A function that only its operands are known of. `what` names it.
Id number_atom(Proof *p, uint64_t what, const Id *operands, int count, double shadow);
// Element `place` of `count` numbers in ascending order.
Id number_sorted(Proof *p, const Id *elements, int count, int place);

// Truth values: 0, 1, or an open cell.
int64_t truth_less(Proof *p, Id x, Id y, bool or_equal);
int64_t truth_equal(Proof *p, Id x, Id y);
int64_t truth_not(Proof *p, int64_t a);
int64_t truth_and(Proof *p, int64_t a, int64_t b);
int64_t truth_xor(Proof *p, int64_t a, int64_t b);
static inline int64_t open_cell(Id id) { return OPEN_CELLS + id; }
static inline Id open_id(int64_t cell) { return (Id)(cell - OPEN_CELLS); }
Id number_blend(Proof *p, Id weight, Id x, Id y);

// Integers. Cells are numbers or open.
int64_t integer_cell(Proof *p, DType dtype, Id id);  // of a result in the dtype
Id integer_id(Proof *p, int64_t cell);
int64_t integer_wrapped(Proof *p, DType dtype, Id id, bool wrapped);  // .. of wrapped operands
int64_t integer_ranged(Proof *p, DType dtype, Id id);               // anywhere in the dtype's range
int64_t integer_truth(Proof *p, DType dtype, Id id);                // an indicator
int64_t integer_known(Proof *p, int64_t cell);                      // of a result that is a number
int64_t integer_bits(Proof *p, DType dtype, DType from, Id x);      // of a float
int64_t integer_wanted(Proof *p, const int64_t *cells, int count);  // they have to be known

// Are two numbers surely the same real number? Where both fields lost a root, `lost` says so.
bool number_same(const Proof *p, Id x, Id y, unsigned *lost);
// What a number is called in atoms.
typedef struct {
  uint64_t word[PRIMES + 2];
} Key;
Key number_key(const Proof *p, Id x);

#endif
