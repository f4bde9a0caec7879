// Outputs of the forward kernel as inputs of its gradient.
#ifndef CODEGEN_GRAD_SAVED_H
#define CODEGEN_GRAD_SAVED_H

#include "codegen/grad/algebra.h"
#include "codegen/grad/blocks.h"

bool reads_array(const Region *region, const Ref *ref);  // of a reference: the array
void refuse_saved(const Kernel *k, const char *list, Diag *diag);

// A sum that counts as 1: the value `sum`, or every load from `ref`.
typedef struct {
  const Instr *sum;
  const Ref *ref;
} Unit;
// The value that an output holds if it stores `stored`, apart from casts; NULL: none.
Instr *held_by(const Unit *unit, Instr *stored);

typedef struct {
  int count;
  int *of;        // by saved output: which one
  Instr **array;  // by saved output: its array,
  Instr **held;   // and the value that it holds, or NULL
  Unit unit;
  const Instr *point;  // moves so that the sum is 1
  double by;           // the sum is multiplied by e^(by d) if the point moves by d
} Saved;
// Finds the values that the saved outputs hold. It finds none if replacing these values would
// change memory, a loop or a branch. The reference must still end with its YIELD, which names the
// outputs.
void find_held(Grad *g, Saved *s);
// Gives these values to the backward pass.
void read_saved(Grad *g, const Saved *s);
void read_carried(Grad *g, const Saved *s, Instr *const *arrays, int inputs);

#endif
