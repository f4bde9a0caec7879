// Runs of a backward kernel after the reference of its forward kernel.
#ifndef CODEGEN_PROVE_GRADIENT_H
#define CODEGEN_PROVE_GRADIENT_H

#include "codegen/check/interp.h"

// A backward kernel, and the forward kernel, whose outputs are inputs of it.
typedef struct {
  Kernel *forward, *backward;
  const int64_t *forward_sizes, *backward_sizes;
  const HostArray *forward_operands, *backward_operands;  // shapes
} ProveGradient;

typedef struct {
  const ProveGradient *of;
  HostArray *forward, *backward;  // their operands: cells
  uint8_t **specified;            // by output of the backward kernel
} GradientRuns;
GradientRuns *gradient_runs_new(Arena *arena, const ProveGradient *of);
void gradient_runs_free(GradientRuns *r);
bool has_gradient(const GradientRuns *r, const char *name);  // does the backward kernel compute it?
// Does either kernel take an input of the derived reference? If not, it is the gradient of an
// output, which is 0.
bool takes_input(const GradientRuns *r, const char *name);
// The gradients that it does not compute count as equal.
void gradient_take_others(GradientRuns *r, const Kernel *derived, const HostArray *from,
                          HostArray *to);
// operands: of the derived reference, with its inputs; receives the outputs of the same names.
void gradient_run_backward(GradientRuns *r, const Kernel *derived, HostArray *operands,
                           uint8_t *const *specified, const CheckOptions *options,
                           CheckReport *report);

#endif
