// Internal to pkc prove.
#ifndef CODEGEN_VERBS_PROVE_H
#define CODEGEN_VERBS_PROVE_H

#include "codegen/prove/prove.h"
#include "codegen/verbs/verbs.h"

// One assignment of sizes: arguments in the order of the kernel's sizes.
typedef LIST(Argument) SizeSet;
typedef LIST(SizeSet) SizeSets;

// ---- prove_sizes.c
// All combinations of "M in 1..9, N in {1, 5}, K=3". Returns NULL, or an error message.
const char *read_size_sets(Arena *arena, const char *text, SizeSets *sets);
// One full block, a partial block and several blocks along each axis, for the sizes that are
// UNBOUND in `given` and that the other sizes do not determine.
void usual_size_sets(Arena *arena, const Kernel *k, const int64_t *given, SizeSets *sets);

// Makes statics small that are block sizes and are not given.
void use_small_blocks(Options *options, const Kernel *k);

// ---- witness.c
// Floats for which the kernel and its reference differ by more than their rounding errors.
typedef struct {
  const char *element, *inputs;  // "o[0, 3]", "x=random:1"
  double got, want, allowed;
  int output;
  int64_t at;  // the element's number in the output
} Witness;
// `other`: the kernel to compare with, NULL: its reference.
bool find_witness(const Options *options, Binding *binding, Kernel *other, Witness *witness);

// ---- prove.c
enum {
  PROOF_UNDECIDED = 4,
  PROOF_BY_ORDERS = 5
};  // exit statuses in addition to DONE and CHECK_FAILED
typedef struct {
  ProveResult result;
  Witness witness;         // of REFUTED
  Kernel *kernel, *other;  // other: of --against, or NULL
  // Of a line `// gradient:`: the forward kernel's name and the backward kernel; `kernel` is the
  // derived reference. Or NULL.
  const char *forward;
  Kernel *backward;
  const char *sizes;    // "M=3, N=5"
  const char *refusal;  // the sizes are refused
  Parting parting;      // of a difference
  int draws;            // number of draws of integer operands that had to be known
} Proved;
// An exit status, of --all-sizes (prove_safe.c).
int prove_all_sizes(const Options *options, Kernel *k);

// Proves a kernel equal to its reference, or to `other`.
void prove_binding(const Options *options, Binding *binding, Proved *proved);

#endif
