// Does a kernel compute its reference in exact arithmetic, for all inputs, at given sizes? Both are
// interpreted over numbers of finite fields (docs/proofs.md). In: a kernel with sizes and one draw
// of its integer operands. Out: a verdict and what it rests on. Uses ir and check.
#ifndef CODEGEN_PROVE_PROVE_H
#define CODEGEN_PROVE_PROVE_H

#include "codegen/check/interp.h"
#include "codegen/prove/numbers.h"

// In the order from good to bad.
typedef enum { PROVED, EQUAL_ON_ORDERS, UNDECIDED, REFUTED, VERDICTS } Verdict;
extern const char *const verdict_names[VERDICTS];

typedef struct {
  Kernel *kernel;
  const int64_t *sizes;
  const HostArray *operands;  // shapes, and of inputs the elements: integers are taken from there
                              // where they have to be known, floats never
  uint64_t seed;
  double seconds;  // a limit
  int64_t bytes;   // .. of memory for numbers
} ProveTask;

typedef struct {
  Verdict verdict;     // never REFUTED
  const char *reason;  // why it is not proved
  Span span;           // .. where; start = end = 0: nowhere
  int output;          // .. and which element differs; -1: none does
  int64_t element;
  uint64_t known;  // integer operands of which the elements count, by bits
  int orders;      // of EQUAL_ON_ORDERS: how many were drawn
  int runs;        // of BY_ROOTS
  int numbers;     // how many there were
  LIST(Note) notes;
} ProveResult;

void prove(Arena *arena, const ProveTask *task, ProveResult *result);
// What a note says; `line` is the line of its instruction.
const char *note_text(Arena *arena, const Kernel *k, const Note *note);

#endif
