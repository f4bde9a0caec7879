// The interpreter: defines what a kernel means (`pkc check`). In: the block IR, sizes and arrays.
// Out: arrays and findings. Uses ir.
#ifndef CODEGEN_CHECK_INTERP_H
#define CODEGEN_CHECK_INTERP_H

#include "codegen/ir/index.h"

enum { CHECK_MAX_FINDINGS = 20 };

// When the interpreter moves the data of a DMA: as late as a wait allows, at once, or at random in
// between.
typedef enum { DMA_AT_WAIT, DMA_AT_START, DMA_AT_RANDOM } DmaTime;

typedef struct {
  DmaTime dma;
  uint64_t seed;   // 0: parallel steps come in the order of the grid, else shuffled; also of
                   // DMA_AT_RANDOM
  int64_t orders;  // of the devices of a mesh: at most this many; 0: a few
  int64_t cores;   // that share the parallel steps; 0: each has a core of its own
  // NULL, or for each output an array of its elements, filled with how far from them compiled code
  // may come out (INFINITY: anything is right), and one that says which are specified.
  double *const *allowed;
  uint8_t *const *specified;
  // NULL, or for each input NULL or a byte for each element, 0 where it is unspecified, and NULL or
  // how far it may be from what compiled code has: of a call in a program.
  const uint8_t *const *input_specified;
  double *const *input_error;
  bool exact;  // floats of a body are not rounded, as those of a reference
  // NULL: that of floats. Else arrays have cells (i64) in place of elements, and `context` is what
  // its functions get.
  const struct Arithmetic *arithmetic;
  void *context;
} CheckOptions;

// Another place that a finding is about.
typedef struct {
  Span span;
  const char *message, *step;
  const char *device;  // "dx=1, dy=0", or NULL where there is one
} FindingNote;

typedef struct {
  const char *kind, *message;  // kind: a name of findings.def
  const char *operand;         // the first ref that the message names, or NULL
  const char *step;            // "i=0, j=1", or NULL outside the grid
  const char *device;          // as of a note
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
  int64_t orders;              // of a mesh: in how many orders the devices were interleaved
  bool all_orders;             // .. which are all there are
} CheckReport;

// Runs every grid step. operands: inputs filled, outputs allocated, in the order of the signature.
// Elements of outputs that are left unspecified hold NaN or the least integer. Progress goes to
// standard error when it is a terminal.
void interpret(Kernel *k, const int64_t *sizes, HostArray *operands, const CheckOptions *options,
               CheckReport *report);
// The reference, in f64 where it computes in floats (so that it is better than what it judges),
// rounded at casts and outputs. Of the options, `allowed` and the arithmetic count.
void interpret_reference(Kernel *k, const int64_t *sizes, HostArray *operands,
                         const CheckOptions *options, CheckReport *report);

#endif
