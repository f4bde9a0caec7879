// Derivatives: from a kernel's reference to that of its gradient, as block IR and as .pk text. Uses
// ir.
#ifndef CODEGEN_GRAD_GRAD_H
#define CODEGEN_GRAD_GRAD_H

#include "codegen/ir/ir.h"

typedef struct {
  const char *wrt;  // names of inputs with commas between them; NULL: all of floats
  bool forward;     // the derivative along given directions (jvp), in place of the gradient (vjp)
} GradOptions;

// Makes of the kernel, which has a reference, that of its derivative: NAME_backward, of the inputs
// and the gradients of the outputs, or NAME_forward, of the inputs and directions of them. Keeps
// nothing but its signature, sizes, requirements and reference. False, with diag filled, where it
// has none.
bool grad_derive(Kernel *k, const GradOptions *options, Diag *diag);

// A kernel's reference as a text of its own, which is read again as the same.
void grad_print(Kernel *k, Buf *out);

#endif
