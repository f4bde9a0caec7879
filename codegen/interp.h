// The interpreter: what a kernel means, evaluated slowly and watchfully (`pkc check`).
#ifndef CODEGEN_INTERP_H
#define CODEGEN_INTERP_H

#include "codegen/array.h"
#include "codegen/ir.h"

enum { CHECK_MAX_FINDINGS = 20 };

// When the interpreter moves the data of a DMA: as late as a wait allows, at once, or at random in between.
typedef enum { DMA_AT_WAIT, DMA_AT_START, DMA_AT_RANDOM } DmaTime;

typedef struct {
  DmaTime dma;
  uint64_t seed;  // 0: parallel steps come in the order of the grid, else shuffled; also of DMA_AT_RANDOM
  int64_t cores;  // that share the parallel steps; 0: each has a core of its own
} CheckOptions;

// Another place that a finding is about.
typedef struct {
  Span span;
  const char *message, *step;
} FindingNote;

typedef struct {
  const char *kind, *message;  // kind: a name of findings.def
  const char *operand;         // the first ref that the message names, or NULL
  const char *step;            // "i=0, j=1", or NULL outside the grid
  Span span;
  int64_t count;
  LIST(FindingNote) notes;
  const char *text;  // all of it as it is printed, with source lines and carets
} CheckFinding;

typedef struct {
  Arena *arena;
  LIST(CheckFinding) findings;
  int64_t more;                // findings beyond CHECK_MAX_FINDINGS
  LIST(const char *) printed;  // what `print` wrote, in order
  int64_t steps;               // grid steps run
} CheckReport;

// Evaluates the sizes that follow from others and the shapes of the operands. NULL, or what is wrong (in the kernel's arena).
const char *derive_sizes(Kernel *k, int64_t *sizes);
// Evaluates the sizes that follow from others, the requirements and the grid. Returns NULL, or why the call is refused (in
// the kernel's arena). `sizes` holds the bound sizes; derived ones are filled in. What is prefetched
// (Ref.prefetched) is there already.
const char *check_sizes(Kernel *k, int64_t *sizes);
// The shape of an operand's array for given sizes. False when it is negative, beyond 2^31-1 on an axis, or overflows.
bool operand_shape(const Kernel *k, const Ref *operand, const int64_t *sizes, HostArray *shape);
// One rank-0 integer operation that is no leaf, on the values of its arguments.
int64_t eval_pure(const Instr *instr, const int64_t *arg);
// The element of a prefetched operand that a LOAD in index arithmetic reads; an index out of range is clamped.
int64_t prefetched_element(const Instr *load, const int64_t *index, bool *clamped);
// What a ref holds of VMEM: all its buffers in whole tiles.
int64_t vmem_bytes(const Ref *ref, const int64_t *sizes);
// A region of rank-0 integer operations; axes may be NULL where the region does not use them.
int64_t eval_index(const Kernel *k, const Region *region, const int64_t *sizes, const int64_t *axes, int result);
enum { MAX_INDEX = 2 * MAX_RANK };  // values of one index map: a start an axis, and for `at slice` a length
// All values that a region yields. Returns the first load of a prefetched operand whose index was out of range and clamped.
const Instr *eval_region(const Kernel *k, const Region *region, const int64_t *sizes, const int64_t *axes, int64_t *results);

// Runs every grid step. operands: inputs filled, outputs allocated, in the order of the signature. Elements of outputs that
// are left unspecified hold NaN or the least integer. Progress goes to standard error when it is a terminal.
void interpret(Kernel *k, const int64_t *sizes, HostArray *operands, const CheckOptions *options, CheckReport *report);
// The reference, in f64 where it computes in floats (so that it is better than what it judges), rounded at casts and outputs.
void interpret_reference(Kernel *k, const int64_t *sizes, HostArray *operands, CheckReport *report);

#endif
