// Inside of pkc bench: the share of what the machine can do.
#ifndef CODEGEN_VERBS_SHARE_H
#define CODEGEN_VERBS_SHARE_H

#include "codegen/verbs/verbs.h"

typedef struct {
  const char *arithmetic;  // whose rate binds: f32, f64, bf16, i8; what the harness measures
  double faster;           // other elements than those: so many times that rate
  double flops, bytes;     // of a call, as far as they are surely done; NAN: not known
  const char *unknown;     // why the operations are not, or NULL
} Work;
double operand_bytes(const Binding *binding);  // of all operands, each once
// Before the run: what a call does.
Work work_of(const Options *options, const Binding *binding);

typedef struct {
  double share;     // NAN: not known
  const char *of;   // "f32", "memory", ..: which rate is meant; NULL: none
  const char *why;  // there is no share; NULL
} Share;
// The larger one of the shares of arithmetic and memory, after it.
Share share_of(const Options *options, const Work *work, const Outcome *outcome, double seconds);

#endif
