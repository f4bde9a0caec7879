// Shared by the files of the proof's numbers.
#ifndef CODEGEN_PROVE_INTERNAL_H
#define CODEGEN_PROVE_INTERNAL_H

#include "codegen/prove/numbers.h"

// The leaves of a maximum, in ascending order of their keys.
typedef struct {
  Id *at;
  int count;
} LeafSet;

// A number is also a sum of some number and of products of open truth values.
typedef struct {
  Id truth, factor;
} Term;
typedef struct {
  Term *at;
  int count;
} Terms;
enum { MOST_TERMS = 64 };

// Facts about a number that are not part of its identity.
typedef struct {
  Members members;  // for a position in a row: the possible positions
  Terms terms;
  Terms literals;   // of an open truth value that is true if all `truth` of these are
  Id opposite;      // of an open truth value; otherwise 0
  CellParts parts;  // of an element that a copy made of parts of others
} Side;

typedef struct {
  int a, b, result;
  bool common;
} RootMerge;
enum { MERGES = 1024 };
typedef struct {
  LIST(RootSet) all;       // by number, from 1
  int *slots, slot_count;  // a hash table
  RootMerge merges[MERGES];
} RootSets;

// The argument of a call of `sqrt`, in a run by atoms.
typedef struct {
  const Instr *instr;
  int name;
} RootName;
enum { ROOT_OF_NO_NAME = -1 };  // which no number needs

struct Proof {
  Arena *arena, *run;  // for all runs; for this run
  uint64_t seed;
  ProofMode mode;
  Field field[PRIMES];  // of this run
  int side;
  const Instr *instr;
  Number *numbers;
  Side *sides;
  int side_count;  // of the number of entries with memory
  int count, capacity;
  uint64_t *slots;  // a hash table
  int slot_count;
  LIST(LeafSet) sets;
  LIST(Note) notes;
  Constants constants;
  uint64_t wanted;
  bool roots;  // one was taken as an atom
  LostRoots lost_roots;
  RootSets root_sets;
  LIST(RootName) root_names;  // by call
  int root_calls;             // of this run
  bool names_roots;
  bool level;    // the greatest of data is 0: where a difference is located
  bool bits[2];  // of this run, by side: an operation on bits was taken as an atom: other
                 // operations may give the same
  double seconds, started;
  const char *over;
  bool stopped;
  const Instr *why;  // it stopped
  Case split;        // the truth value at which it stopped, if it `splits` there
  bool splits;
  LIST(Case) cases;
  int64_t *scratch, scratch_count;
  int ticks;
};

// Names of atoms besides the operations of the IR.
enum { ATOM_INPUT = OP_COUNT + 1, ATOM_SYMBOL, ATOM_WRAPPED, ATOM_TO_INTEGER, ATOM_ROOT_OF };

Id number_scale_mask(Proof *p, Id x, double mask);  // with another infinite part
// An atom named by numbers in any order, each as often as it occurs.
Id number_atom_of_all(Proof *p, uint64_t what, const Id *elements, int64_t count);
int64_t integer_between(Proof *p, DType dtype, Id id, double low, double high);
Side *side_of(Proof *p, Id id);
const Side *side_known(const Proof *p, Id id);  // nothing is known, if it is not there
// Adds the number, or returns the equal existing one. An exponent that is not known (b is 0)
// becomes that of a number with the same element, or a hash.
Id number_add_new(Proof *p, Number *n);
static inline Number *at(const Proof *p, Id id) { return &p->numbers[id]; }
static inline bool is_zero(const Number *n) {
  return n->kind == FINITE && n->mask == 0 && n->v[0] == 0 && n->v[1] == 0;
}
// Is it what it is for all inputs, not for those alone that have the roots of this run?
static inline bool is_certain(const Number *n) { return !n->lost && !n->used; }
static inline bool is_rational(const Number *n) {
  return n->kind == FINITE && n->mask == 0 && n->below != 0;
}
static inline double rational_value(const Number *n) { return (double)n->above / (double)n->below; }
static inline bool has_logs(const Number *n) {
  return n->kind == FINITE && (n->b[0] != 1 || n->b[1] != 1);
}
void multiply_intervals(Number *n, const Number *a, const Number *b);  // n's bounds
// In a run by order the sign of the shadow, otherwise the signs that the number may have.
uint8_t signs_of(const Number *n);
void note_sources(const Proof *p, Number *n, const Number *from);  // n depends on `from`
// A number that inherits from both operands whether it is opaque, lost, ..
Number number_from(Proof *p, Id x, Id y);
int roots_of_both(Proof *p, int a, int b);
int roots_in_common(Proof *p, int a, int b);
int roots_with(Proof *p, int set, int root);
void roots_forget(Proof *p);
// Of this call of `sqrt`, by the signs of its argument: 0 if it is defined for all inputs.
int root_name(Proof *p, Id argument, uint8_t signs);
// Is the leaf in the set? `place`: its position, or the one where it would be inserted.
bool find_leaf(const Proof *p, const LeafSet *set, Id leaf, int *place);
// Is every leaf of x also one of the maximum whose negative is given, so that x is at most that
// maximum?
bool is_among(const Proof *p, Id x, Id negative);
void draw_number(const Proof *p, Draw *h, Number *n);  // v and an exponent
void draw_key(Draw *h, const Key *key);
int compare_keys(const Key *a, const Key *b);

#endif
