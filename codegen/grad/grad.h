// Differentiation: turns a kernel's reference into the reference of its gradient, as block IR and
// as .pk text. Uses ir.
#ifndef CODEGEN_GRAD_GRAD_H
#define CODEGEN_GRAD_GRAD_H

#include "codegen/ir/ir.h"

// What a derivation tells about its result.
typedef struct {
  const bool *again;            // by id: the instruction computes a value of the forward part
  double operations;            // estimated; of all kernels together, in a step of the grid
  const char *read;             // the saved outputs that it reads, separated by commas; NULL: none
  int64_t kept;                 // bytes, if they are constant, otherwise INT64_MAX
  LIST(Span) kept_in;           // the outermost loops whose values are kept for each iteration
  LIST(const char *) segments;  // the sizes of their segments, with GradOptions.segmented
  LIST(const char *) notes;  // what is read, computed again and kept: sentences without full stops
} GradResult;

typedef struct {
  const char *wrt;  // names of inputs, separated by commas; NULL: all float inputs
  bool forward;     // the derivative along given directions (jvp), instead of the gradient (vjp)
  // Names of outputs, separated by commas, which the gradient takes as inputs and reads instead of
  // computing them again; NULL: none.
  const char *saved;
  int64_t vmem_limit;  // of the derived kernels; 0: that of the kernel
  int64_t memory;      // bytes that the gradient may keep for the backward pass; 0: any number
  // As GradResult.kept_in: loops that keep the values of one segment of iterations at a time, if
  // those of all take more than `memory`; or NULL.
  const GradResult *segmented;
  GradResult *result;           // or NULL
  const struct Blocks *blocks;  // the reference is what a kernel's body does with blocks; or NULL
} GradOptions;

// Turns the kernel, which has a reference, into that of its derivative: NAME_backward, with the
// inputs and the gradients of the outputs, or NAME_forward, with the inputs and their directions.
// Keeps only the signature, sizes, requirements and reference. Returns false, with diag filled, if
// there is no derivative.
bool grad_derive(Kernel *k, const GradOptions *options, Diag *diag);

// Writes the gradient of a kernel's body as text: a kernel with blocks like its own, or a program
// of several, and the derived reference if the kernel has a reference. `again` lowers the kernel
// again. Returns false and fills diag if the body contains an operation or access that is not
// derived.
typedef Kernel *KernelAgain(void *context);
bool grad_kernel(KernelAgain *again, void *context, const GradOptions *options, Diag *diag,
                 Buf *out);

// The outputs that a gradient should read, as GradOptions.saved; NULL: none. They hold values that
// no store rounds, and without them the gradient takes more operations. `of_body`: of what
// grad_kernel writes, otherwise of what grad_derive makes of a reference. Adds the reasons to
// options->result->notes.
const char *grad_choose_saved(KernelAgain *again, void *context, const GradOptions *options,
                              bool of_body);

// Turns the body of a kernel without a reference into its reference, with the grid as loops.
// Returns false and fills diag if a reference cannot express the body.
bool grad_steps(Kernel *k, Diag *diag);

// Writes a kernel's reference as text that reads back as the same reference. With `memory`, the
// text requires that the values kept for the backward pass take at most that many bytes.
void grad_print(Kernel *k, GradResult *result, int64_t memory, Buf *out);

#endif
