// Proves by sets of integers that a kernel is safe for all sizes: windows are in bounds or masked,
// outputs are stored completely, and parallel cells write disjoint elements and read none that
// another cell writes. In: the block IR. Out: facts, each proved, refuted with sizes and indices,
// or unknown.
#ifndef CODEGEN_PROVE_SAFE_H
#define CODEGEN_PROVE_SAFE_H

#include "codegen/ir/ir.h"

// From the best to the worst.
typedef enum { SAFE_PROVED, SAFE_UNKNOWN, SAFE_REFUTED, SAFE_VERDICTS } SafeVerdict;
extern const char *const safe_names[SAFE_VERDICTS];

typedef struct {
  SafeVerdict verdict;
  Span span;
  const char *what;   // "a load of `x` is in bounds"
  const char *where;  // refuted: "M=1 N=0, i=0"; unknown: the term
} SafeFact;

typedef struct {
  LIST(SafeFact) facts;
  LIST(const char *) assumed;
} SafeReport;

// Expands the pipelines of the kernel. Returns NULL, or why the kernel was not examined.
const char *prove_safe(Arena *arena, Kernel *k, SafeReport *report);

#endif
