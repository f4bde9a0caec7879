// Inside of pkc prove.
#ifndef CODEGEN_VERBS_PROVE_H
#define CODEGEN_VERBS_PROVE_H

#include "codegen/prove/prove.h"
#include "codegen/verbs/verbs.h"

// One assignment of sizes: arguments in the order of the kernel's sizes.
typedef LIST(Argument) SizeSet;
typedef LIST(SizeSet) SizeSets;

// ---- prove_sizes.c
// All combinations that "M in 1..9, N in {1, 5}, K=3" names. NULL or what is wrong.
const char *read_size_sets(Arena *arena, const char *text, SizeSets *sets);
// Full, partial and several blocks along each axis, of those sizes that are not given.
void usual_size_sets(Arena *arena, const Options *options, const Kernel *k, SizeSets *sets);

// Statics that are block sizes, and are not given, become small.
void use_small_blocks(Options *options, const Kernel *k);

// ---- witness.c
// Floats at which the kernel and its reference differ by more than rounding explains.
typedef struct {
  const char *element, *inputs;  // "o[0, 3]", "x=random:1"
  double got, want, allowed;
} Witness;
// `other`: what it has to compute, NULL: its reference.
bool find_witness(const Options *options, Binding *binding, Kernel *other, Witness *witness);

// ---- prove.c
enum { PROOF_UNDECIDED = 4, PROOF_BY_ORDERS = 5 };  // exit statuses beside DONE and CHECK_FAILED
typedef struct {
  ProveResult result;
  Witness witness;  // of REFUTED
  Kernel *kernel, *other;  // .. of --against, or NULL
  const char *sizes;    // "M=3, N=5"
  const char *refusal;  // the sizes are refused
  int draws;            // of integer operands that had to be known
} Proved;
// Of a kernel with a reference, or by `other`.
void prove_binding(const Options *options, Binding *binding, Proved *proved);

#endif
