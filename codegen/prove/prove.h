// Does a kernel compute its reference, or the results of another kernel, in exact arithmetic, for
// all inputs, at given sizes? Both are interpreted over numbers of finite fields (docs/proofs.md).
// In: a kernel with sizes and one draw of its integer operands. Out: a verdict and its assumptions.
// Uses ir and check.
#ifndef CODEGEN_PROVE_PROVE_H
#define CODEGEN_PROVE_PROVE_H

#include "codegen/check/interp.h"
#include "codegen/prove/gradient.h"
#include "codegen/prove/numbers.h"

// From best to worst.
typedef enum { PROVED, EQUAL_ON_ORDERS, UNDECIDED, REFUTED, VERDICTS } Verdict;
extern const char *const verdict_names[VERDICTS];

typedef struct {
  Kernel *kernel;
  Kernel *other;  // the kernel to compare with, which has the same operands; NULL: its reference
  // The backward kernel runs instead of `kernel`, which has the derived reference; or NULL.
  const ProveGradient *gradient;
  bool refines;  // the kernel may compute anything where the other leaves an element unspecified
  const int64_t *sizes;
  const HostArray *operands;  // shapes, and the elements of inputs: integers are read from there if
                              // they must be known, floats never
  uint64_t given;  // integer operands, as bits, whose elements are fixed: if the proof for all
                   // fails, one for these is tried
  uint64_t seed;
  double seconds;  // time limit
  int64_t bytes;   // memory limit for numbers
} ProveTask;

typedef struct {
  Verdict verdict;     // never REFUTED
  const char *reason;  // the reason why it is not proved
  Span span;           // the position of the reason; start = end = 0: none
  int output;          // the differing element; -1: none differs
  bool differs;        // in numbers that rules give on both sides, none by operations on bits
  int64_t element;
  uint64_t known;  // integer operands, as bits, whose elements matter
  bool limited;    // a limit was reached
  int orders;      // for EQUAL_ON_ORDERS: the number of draws
  int runs;        // for BY_ROOTS: the number of runs
  int numbers;     // the number of numbers
  LIST(Note) notes;
} ProveResult;

void prove(Arena *arena, const ProveTask *task, ProveResult *result);
// Proofs of one kernel after the other against `other`, which runs once: between two proofs the
// task's kernel is changed in place.
typedef struct Prover Prover;
Prover *prover_start(Arena *arena, const ProveTask *task);
void prover_prove(Prover *prover, Arena *arena, ProveResult *result);
void prover_end(Prover *prover);
// The instruction of the kernel at which an element of an output that differs parts from the
// reference, or from `other`, and why it is thought to be: a hint. `known`: of the result.
typedef struct {
  const Instr *instr;  // NULL: none was found
  const char *text;
} Parting;
Parting prove_locate(Arena *arena, const ProveTask *task, uint64_t known, int output,
                     int64_t element);
// The text of a note. `other`: that of the task, or NULL.
const char *note_text(Arena *arena, const Kernel *k, const Kernel *other, const Note *note);

#endif
