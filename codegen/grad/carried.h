// State along the grid.
#ifndef CODEGEN_GRAD_CARRIED_H
#define CODEGEN_GRAD_CARRIED_H

#include "codegen/grad/blocks.h"

typedef struct {
  int64_t axes;  // along which it is carried, as bits; 0: there is none, or it is not derived
  bool *state;   // by ref
  bool refused;  // there is state, but something else is not derived beside it
} Carried;
// Is it the name of an operand that holds a state before a step?
bool is_before_name(const char *name);
Carried find_carried(const Kernel *k, Diag *diag);
// The axes that a gradient lacks, if not all steps add to the same block of it: another kernel adds
// up along them.
int64_t missing_axes(const Kernel *k, int64_t axes, const Ref *ref);
// The blocks of such a gradient, one for each cell: the axes that it lacks come first, and an axis
// that the input's map divides is as long as that of the grid. NULL: it lacks none.
Ref *partial_blocks(Kernel *k, const Carried *c, const Ref *input);
// A step as a reference of blocks, whose last inputs are the states before it, and whose last
// outputs are those after it.
Blocks step_as_reference(Kernel *k, const Carried *c);
// Turns the gradients of the states of a derived step, which are operands, into vars: a step reads
// what the step after it has stored. Returns `again`, by id, for the instructions that it has now.
bool *carry_gradients(Kernel *k, const Blocks *b, const bool *again);
// The steps without outputs, whose results are the states before each step that are in the list of
// names.
Blocks states_as_reference(Kernel *k, const Carried *c, const char *names);

#endif
