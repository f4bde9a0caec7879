// The operations of a derived reference.
#ifndef CODEGEN_GRAD_OPERATIONS_H
#define CODEGEN_GRAD_OPERATIONS_H

#include "codegen/ir/ir.h"

enum { MOST_FACTORS = 2 * MAX_RANK };

// A multiple of a product of run-time sizes.
typedef struct {
  double count;
  int rank, size[MOST_FACTORS];  // in ascending order
} Term;
typedef LIST(Term) Terms;

// An operation of arithmetic on one element counts as one, a function of the transcendental unit as
// eight, and an element that is loaded or stored as one.
typedef struct {
  Terms all, again;          // again: those that compute values of the forward part
  LIST(const char *) names;  // of these values
  int first_line, last_line;
} Operations;
// again: by id, does the instruction compute a value of the forward part?
Operations operations_of(const Kernel *k, const bool *again);
double estimated(const Terms *terms);  // their number, at typical sizes

#endif
