// Internal to pkc bench: the share of the machine's peak.
#ifndef CODEGEN_VERBS_SHARE_H
#define CODEGEN_VERBS_SHARE_H

#include "codegen/verbs/verbs.h"

typedef struct {
  const char *arithmetic;  // the arithmetic whose rate is the bound: f32, f64, bf16, i8; the
                           // harness measures it
  double faster;           // for other elements: their rate as a multiple of that rate
  double flops, bytes;     // of a call, those that are certainly executed; NAN: unknown
  const char *unknown;     // why the operations are unknown, or NULL
} Work;
double operand_bytes(const Binding *binding);  // of all operands, each counted once
// The work of a call, before the run.
Work work_of(const Options *options, const Binding *binding);

typedef struct {
  double share;     // NAN: unknown
  const char *of;   // "f32", "memory", ..: the rate; NULL: none
  const char *why;  // why there is no share; otherwise NULL
} Share;
// The larger of the shares of arithmetic and memory, after the run.
Share share_of(const Options *options, const Work *work, const Outcome *outcome, double seconds);

#endif
