// Does a kernel compute its reference, or what another kernel computes, in exact arithmetic, for
// all inputs, at given sizes? Both are interpreted over numbers of finite fields (docs/proofs.md).
// In: a kernel with sizes and one draw of its integer operands. Out: a verdict and what it rests
// on. Uses ir and check.
#ifndef CODEGEN_PROVE_PROVE_H
#define CODEGEN_PROVE_PROVE_H

#include "codegen/check/interp.h"
#include "codegen/prove/numbers.h"

// In the order from good to bad.
typedef enum { PROVED, EQUAL_ON_ORDERS, UNDECIDED, REFUTED, VERDICTS } Verdict;
extern const char *const verdict_names[VERDICTS];

typedef struct {
  Kernel *kernel;
  Kernel *other;  // what it has to compute: a kernel of the same operands; NULL: its reference
  bool refines;   // .. which may do anything where the other leaves an element unspecified
  const int64_t *sizes;
  const HostArray *operands;  // shapes, and of inputs the elements: integers are taken from there
                              // where they have to be known, floats never
  uint64_t given;  // integer operands, by bits, that have no other elements: where the proof for
                   // all fails, one for these is tried
  uint64_t seed;
  double seconds;  // a limit
  int64_t bytes;   // .. of memory for numbers
} ProveTask;

typedef struct {
  Verdict verdict;     // never REFUTED
  const char *reason;  // why it is not proved
  Span span;           // .. where; start = end = 0: nowhere
  int output;          // .. and which element differs; -1: none does
  bool differs;        // .. in numbers that rules give on both sides
  int64_t element;
  uint64_t known;  // integer operands of which the elements count, by bits
  bool limited;    // a limit was reached
  int orders;      // of EQUAL_ON_ORDERS: how many were drawn
  int runs;        // of BY_ROOTS
  int numbers;     // how many there were
  LIST(Note) notes;
} ProveResult;

void prove(Arena *arena, const ProveTask *task, ProveResult *result);
// What a note says. `other`: that of the task, or NULL.
const char *note_text(Arena *arena, const Kernel *k, const Kernel *other, const Note *note);

#endif
