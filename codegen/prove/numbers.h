// Numbers of the proof: random elements of finite fields instead of floats. A finite number is an
// element of Z_p and an exponent (a, b) in each of two fields. The exponent means a + log b: exp
// gives g^a b. The result of an operation that has no meaning in fields (a maximum, a comparison, a
// function of libm) is an atom: an element chosen by a hash of the operation and its operands.
// Equal operands give equal atoms; other atoms are equal only by chance. A number whose exponent no
// rule gives, such as an exponential, has a hash of its element as exponent.
#ifndef CODEGEN_PROVE_NUMBERS_H
#define CODEGEN_PROVE_NUMBERS_H

#include "codegen/check/arithmetic.h"
#include "codegen/prove/field.h"

typedef int Id;  // of a number: its index in the table
typedef enum { FINITE, PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER, UNKNOWN } NumberKind;

// A number that contains a root records inputs to draw again if the root does not exist in the
// field: one element of each operand, by the operand's index modulo SOURCES.
enum { SOURCES = 4 };

// The possible signs of a number, as a set.
enum { NEGATIVE = 1, ZERO_SIGN = 2, POSITIVE = 4, ANY_SIGN = 7 };

typedef struct {
  // UNKNOWN: no rule gives the number, which may be infinite or NaN; the instruction is `why`. A
  // hash of the operation and its operands names it, unless one of these has no name; then v is 0.
  NumberKind kind;
  uint8_t signs;
  uint8_t lost;  // by field: it depends on a root of a non-square, which is an atom there
  bool opaque;   // its element depends on an atom, a logarithm or a hashed exponent
  bool hashed;   // its exponent depends on a hashed one
  bool partial;  // some inputs leave it undefined: it depends on a quotient, logarithm or root
  bool wrapped;  // for an integer: it represents its remainder in the dtype's range
  int8_t scale;  // 1: it is a value of `f8e8m0fnu`; -1: the negative of one; 0: it may be another
  double mask;   // how often the infinite M of masks is added; usually 0
  uint64_t v[PRIMES], a[PRIMES], b[PRIMES];
  int64_t above, below;  // the number is the quotient above / below; below is 0 if that is unknown
  double shadow;         // in a run by order: the number in binary64
  double low, high;      // for an integer: its bounds
  uint64_t operands;     // for an integer: the integer operands that it depends on, as bits
  int set;  // for a maximum: its leaves, from 1; for the negative of one: below 0; otherwise 0
  // For a selection: the truth value, and the values selected if it is true and if it is false;
  // otherwise 0.
  Id weight, chosen, other;
  Id magnitude_of;  // for an absolute value: 1 + the number, or its negative; otherwise 0
  Id bits_of;  // for an integer: 1 + the float of dtype `bits_dtype` whose bits it is; otherwise 0
  DType bits_dtype;
  int source[SOURCES];  // BY_ROOTS: the numbers of elements that it depends on, from 1, or 0
  int used;             // BY_ROOTS: the set of roots that it, or the draw of its inputs, depends on
  int needed;           // BY_ROOTS: the set of those without which it is a NaN
  const Instr *why;
} Number;

typedef struct {
  int source[SOURCES];
  int field;
  int name;  // 0: it is defined for all inputs
} LostRoot;
typedef LIST(LostRoot) LostRoots;
typedef LIST(int) Roots;
typedef struct {
  int *at;  // in ascending order
  int count;
} RootSet;

// Assumptions, which are printed.
typedef enum {
  NOTE_MASK,      // a constant is treated as infinite
  NOTE_CONSTANT,  // a constant is treated as the real number it was rounded from
  NOTE_EQUAL,     // a comparison of different numbers is false
  NOTE_FINITE,    // data is neither infinite nor a NaN
  NOTE_ROUNDING,  // a cast to a narrower float
  NOTE_DIVISOR,   // assumed not to be 0
  NOTE_LOG,       // assumed to be positive
  NOTE_ROOT,      // assumed not to be negative
  NOTE_EXP,       // of an argument that nothing bounds
  NOTE_DEFINED,   // operations that hide a NaN have no NaN as operand
  NOTES
} NoteKind;

typedef struct {
  NoteKind kind;
  const Instr *instr;
  uint64_t what[PRIMES];  // the divisors or arguments; otherwise 0
  const char *text;       // for a constant: the number it is treated as; otherwise NULL
  unsigned sides;         // bit 0: the kernel assumes it, bit 1: the reference
  int side;               // the side of the instruction
} Note;

// The name of a number in atoms.
typedef struct {
  uint64_t word[PRIMES + 2];
} Key;

// A truth value that depends on data and that the walk must know: its name, that of its opposite,
// and its value in the current case.
typedef struct {
  Key truth, opposite;
  bool value;
} Case;
enum { MOST_CASES = 6 };  // nested

typedef struct Proof Proof;

// Limits of time, and of memory for numbers.
Proof *proof_start(Arena *arena, uint64_t seed, double seconds, int64_t bytes);
void proof_free(Proof *p);

// How a run treats operations without a meaning in fields.
typedef enum {
  BY_ATOMS,  // maxima, comparisons and roots are atoms
  BY_ROOTS,  // the same, but a root is an element with that square, if there is one
  BY_ORDER   // comparisons and maxima are decided in binary64, for random data
} ProofMode;
int number_count(const Proof *p);
// Deletes all numbers; the notes remain.
void proof_restart(Proof *p, uint64_t seed, ProofMode mode);
void proof_resume(Proof *p);          // the numbers remain; limits begin anew
void proof_side(Proof *p, int side);  // from here the kernel (0) or the reference (1) runs
int proof_side_now(const Proof *p);
void proof_at(Proof *p, const Instr *instr);  // the instruction that computes now
ProofMode proof_mode(const Proof *p);
const Number *number_at(const Proof *p, Id id);
bool number_is(const Proof *p, int64_t cell);  // is it the id of a number?
bool proof_is_over(const Proof *p);            // a limit is reached, or an integer must be known
const char *proof_limit_text(const Proof *p);
uint64_t proof_wanted(const Proof *p);    // the integer operands that must be known, as bits
bool proof_has_bits(const Proof *p);      // has the last run of a side an operation on bits?
void proof_note_bits(Proof *p, Id atom);  // of one, if its operands are specified
bool proof_has_roots(const Proof *p);     // was there a root of a non-square?
const LostRoots *proof_lost_roots(const Proof *p);  // of this run, which has no element for them
void proof_name_roots(Proof *p, bool begins);       // in a run by atoms, for those by roots
// Does the run test two results? It does if one of them needs every root to which its inputs are
// restricted.
bool roots_defined(Proof *p, Id x, Id y);
int roots_needed(Proof *p, int set, Id x, Id y);  // a set, and those that one of two numbers needs
RootSet roots_in(const Proof *p, int set);
int proof_note_count(const Proof *p);
const Note *proof_note(const Proof *p, int index);
int64_t *proof_scratch(Proof *p, int64_t count);  // memory that is valid until the next call
typedef struct {
  DType dtype;
  double value;    // without its sign
  unsigned sides;  // bit 0: the kernel has it, bit 1: the reference
} Constant;
typedef LIST(Constant) Constants;
Constants *proof_constants(Proof *p);           // of the kernel and its reference
void proof_stop(Proof *p, const Instr *instr);  // the walk needs a number that is not known
bool proof_stopped(const Proof *p,
                   const Instr **why);  // has it stopped, and at which instruction (NULL: before)?
void proof_split_at(Proof *p, int64_t cell);    // the open truth value at which it is about to stop
bool proof_split(const Proof *p, Case *split);  // has it stopped at one without a case?
void proof_begin_case(Proof *p, const Case *split, bool value);  // for the runs that follow
void proof_end_case(Proof *p);
void proof_remark(Proof *p, NoteKind kind, const Instr *instr, const char *text);
Arena *proof_arena(const Proof *p);      // of all runs
Arena *proof_run_arena(const Proof *p);  // of this run
void note_partial(Proof *p, NoteKind kind,
                  Id argument);                // what the instruction assumes of a number
bool number_may_exceed(const Proof *p, Id x);  // may it be above 0?
void note_defined(Proof *p, Id x);  // the result of the instruction is ordinary even if x is a NaN

enum { ID_ZERO = 0, ID_ONE, ID_PLUS_INFINITY, ID_MINUS_INFINITY, ID_NAN, ID_UNKNOWN, ID_PRESET };

Id number_unknown(Proof *p);
Id number_integer(Proof *p, int64_t n);
Id number_rational(Proof *p, int64_t above, int64_t below);
Id number_mask(Proof *p, double value);
Id number_digits(Proof *p, const char *digits, int exponent, double value);  // digits * 10^exponent
Id number_symbol(Proof *p, const char *name, double value);  // a constant that is not a quotient
// Element `index` of an operand; an integer is in [low, high].
Id number_input(Proof *p, int operand, int64_t index, double shadow);
Id number_input_integer(Proof *p, int operand, int64_t index, DType dtype);
Id number_as_scale(Proof *p, Id x);                            // which is a power of two
int number_scale(const Proof *p, const Id *x, int64_t count);  // the `scale` of all, or 0
Id number_with_scale(Proof *p, Id x, int scale);
// The same element, drawn for the salt[f]-th time in field f, as source `source` of roots; `roots`
// are those for which it was drawn again.
Id number_input_again(Proof *p, int operand, int64_t index, int source, const int *salt,
                      const Roots *roots);

// Arithmetic of reals.
Id number_add(Proof *p, Id x, Id y);
Id number_sub(Proof *p, Id x, Id y);
// weight * x + (1 - weight) * y, where the weight is an open truth value.
Id number_blend(Proof *p, Id weight, Id x, Id y);
Id number_mul(Proof *p, Id x, Id y);
Id number_div(Proof *p, Id x, Id y);
Id number_neg(Proof *p, Id x);
Id number_dot(Proof *p, const int64_t *x, const int64_t *y, int64_t count);  // of cells
bool number_is_plain(const Proof *p, Id x);  // finite, without logs and masks
Id number_power(Proof *p, Id x, int64_t n);
Id number_exp(Proof *p, Id x);
Id number_log(Proof *p, Id x);
Id number_sqrt(Proof *p, Id x);
Id number_max(Proof *p, Id x, Id y);
Id number_maximum(Proof *p, const int64_t *cells, int64_t count);
Id number_min(Proof *p, Id x, Id y);
Id number_abs(Proof *p, Id x);
Id number_sign(Proof *p, Id x);
// One of x and -x: the one with the lesser key.
Id number_less_key(Proof *p, Id x);
// A function about which only its operands are known. `what` names it.
Id number_atom(Proof *p, uint64_t what, const Id *operands, int count, double shadow);
// The same, of an operation on bits: others may have the same result.
Id number_of_bits(Proof *p, uint64_t what, const Id *operands, int count);
// Elements among which infinities and masks decide nothing, by their places in the row.
typedef struct {
  int64_t *at;
  int64_t count;
} Members;
// The result of an operation on named numbers that no rule decides, which has a name of its own.
Id number_named(Proof *p, uint64_t what, const Id *operands, int count);
bool number_is_named(const Proof *p, Id x);  // UNKNOWN, but named
// The numbers in ascending order.
void number_sort(Proof *p, const Id *elements, int64_t count, bool descending, Id *out);
// Cells: where a stable ascending sort of `count` elements takes each element from, and its first.
// `negated`: the elements are the negatives of those that the kernel sorts in descending order.
void number_places(Proof *p, DType dtype, const Id *elements, int64_t count, bool negated,
                   int64_t *cells);
int64_t number_least_place(Proof *p, DType dtype, const Id *elements, int64_t count, bool negated);
// The places in a row of `count` among which an index is.
Members number_members(Proof *p, Id index, int64_t count);
// The one of some elements that an index selects.
Id number_taken(Proof *p, const Id *elements, int64_t count, Id index);
bool number_is_within(const Proof *p, Id x, double low, double high);  // an integer

int compare_rationals(const Number *a, const Number *b);  // below 0, 0, above 0

// Truth values: 0, 1, or an open cell.
int64_t truth_less(Proof *p, Id x, Id y, bool or_equal);
int64_t truth_equal(Proof *p, Id x, Id y);
bool truth_of_selections(Proof *p, Op op, Id x, Id y, int64_t *cell);  // false: not known
int64_t truth_not(Proof *p, int64_t a);
int64_t truth_and(Proof *p, int64_t a, int64_t b);
int64_t truth_xor(Proof *p, int64_t a, int64_t b);
static inline int64_t open_cell(Id id) { return OPEN_CELLS + id; }
static inline Id open_id(int64_t cell) { return (Id)(cell - OPEN_CELLS); }
Id truth_number(Proof *p, int64_t cell);

// Integers. Cells are numbers, or open.
int64_t integer_cell(Proof *p, DType dtype, Id id);  // a result in the dtype
Id integer_id(Proof *p, int64_t cell);
int64_t integer_wrapped(Proof *p, DType dtype, Id id,
                        bool wrapped);                 // a result whose operands may be wrapped
int64_t integer_ranged(Proof *p, DType dtype, Id id);  // any number in the dtype's range
int64_t integer_truth(Proof *p, Op op, Id x, Id y);    // a comparison of integers with bounds
int64_t integer_dot(Proof *p, DType dtype, const int64_t *x, const int64_t *y,
                    int64_t count);                             // of rows of ids
int64_t integer_known(Proof *p, int64_t cell);                  // a known result
int64_t integer_bits(Proof *p, DType dtype, DType from, Id x);  // the bits of a float
// The parts of others that a number was made of, by its bits.
typedef LIST(CellPart) CellParts;
const CellParts *number_parts(const Proof *p, Id id);
void number_set_parts(Proof *p, Id id, CellParts parts);
int64_t integer_wanted(Proof *p, const int64_t *cells,
                       int count);  // requests that these become known

// Are two numbers provably the same real number? `lost` is set if both fields lost a root.
bool number_same(const Proof *p, Id x, Id y, unsigned *lost);
Key number_key(const Proof *p, Id x);

#endif
