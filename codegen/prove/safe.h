// Is a kernel safe for all sizes? By sets of integers: windows lie in their refs or are masked,
// outputs are stored fully, parallel cells write disjoint elements and read nothing that another
// writes. In: the block IR. Out: facts, each proved, refuted with sizes and indices, or unknown.
#ifndef CODEGEN_PROVE_SAFE_H
#define CODEGEN_PROVE_SAFE_H

#include "codegen/ir/ir.h"

// In the order from good to bad.
typedef enum { SAFE_PROVED, SAFE_UNKNOWN, SAFE_REFUTED, SAFE_VERDICTS } SafeVerdict;
extern const char *const safe_names[SAFE_VERDICTS];

typedef struct {
  SafeVerdict verdict;
  Span span;
  const char *what;   // "the window of `x` lies in it"
  const char *where;  // refuted: "M=1 N=0, i=0"; unknown: the term
} SafeFact;

typedef struct {
  LIST(SafeFact) facts;
  LIST(const char *) assumed;
} SafeReport;

// The kernel is changed: its pipelines are written out. NULL, or why nothing was looked at.
const char *prove_safe(Arena *arena, Kernel *k, SafeReport *report);

#endif
