// Internal to proofs: a kernel, the reference or kernel that it is compared with, and runs of
// either.
#ifndef CODEGEN_PROVE_PROVER_H
#define CODEGEN_PROVE_PROVER_H

#include "codegen/prove/prove.h"

// The run of the reference whose numbers are in the table.
typedef struct {
  bool ran;
  ProofMode mode;
  uint64_t seed;
  uint64_t known;
} ReferenceRun;

// Inputs that are drawn again because a root has no element.
typedef struct {
  int *salt[PRIMES];  // by element of all inputs: the number of its draw, from 0
  int *best[PRIMES];  // the numbers in the run that lost the fewest roots
  Roots *causes;      // by element of all inputs: the roots for which it was drawn again
  RootSet wanted;     // for which inputs are drawn again, in ascending order; all that are defined
                      // for all inputs are too
  LostRoots lost;     // of these, by that run
  int64_t count;
  int draws;
  bool drawn;  // some inputs of this run were
} Redraw;

struct Prover {
  Arena *arena;  // of the result
  const ProveTask *task;
  ProveResult *result;
  Proof *proof;
  const Arithmetic *arithmetic;  // and its context: of proofs, or one that follows it
  void *context;
  Kernel *k;
  int64_t **inputs;        // cells of one draw
  HostArray *operands[2];  // of the kernel, of the reference: cells
  uint8_t **specified[2];  // of the reference: all NULL
  ProofMode mode;
  uint64_t seed;
  bool keeps;  // the reference runs first, and its numbers are kept for the next kernel
  ReferenceRun kept;
  GradientRuns *gradient;        // of a task of a gradient
  Redraw *redraw;                // of a proof by roots
  uint64_t wanted_by_reference;  // integer operands that it alone must know
};

Prover *prover_new(Arena *arena, const ProveTask *task, bool keeps);
// Draws the elements of an input.
void prover_fill(Prover *t, int operand);
// Runs the kernel (side 0) or the other side (1). False: a limit, a finding, or an integer that
// must be known.
bool prover_run(Prover *t, int side);
// Do two elements of an output agree? `lost` as for number_same.
bool prover_same(const Prover *t, DType dtype, int64_t a, int64_t b, unsigned *lost);

#endif
