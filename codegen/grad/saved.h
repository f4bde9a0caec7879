// Outputs of the forward kernel as inputs of its gradient.
#ifndef CODEGEN_GRAD_SAVED_H
#define CODEGEN_GRAD_SAVED_H

#include "codegen/grad/algebra.h"
#include "codegen/grad/blocks.h"

bool is_listed(const char *list, const char *name);  // names with commas between them
bool reads_array(const Region *region, const Ref *ref);    // of a reference: the array
void refuse_saved(const Kernel *k, const char *list, Diag *diag);

// A sum that is taken as 1: a value, or what is loaded from memory.
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
// Which values the saved outputs hold: none, if more than values would change. The reference still
// ends with what it yields.
void find_held(Grad *g, Saved *s);
// Makes them the values of the way back.
void read_saved(Grad *g, const Saved *s);
void read_carried(Grad *g, const Saved *s, Instr *const *arrays, int inputs);

#endif
