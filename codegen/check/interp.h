// The interpreter, which defines the meaning of a kernel (`pkc check`). In: the block IR, sizes and
// arrays. Out: arrays and findings. Uses ir.
#ifndef CODEGEN_CHECK_INTERP_H
#define CODEGEN_CHECK_INTERP_H

#include "codegen/ir/index.h"

enum { CHECK_MAX_FINDINGS = 20 };

// When the interpreter moves the data of a DMA: as late as a wait allows, at once, or at a random
// time in between.
typedef enum { DMA_AT_WAIT, DMA_AT_START, DMA_AT_RANDOM } DmaTime;

typedef struct {
  DmaTime dma;
  uint64_t seed;   // 0: parallel steps run in the order of the grid; otherwise they are shuffled.
                   // Also for DMA_AT_RANDOM
  int64_t orders;  // maximum number of orders of a mesh's devices; 0: as few as imply the results
                   // for all orders
  int64_t cores;   // number of cores that share the parallel steps; 0: one for each step
  // NULL, or for each output an array that receives the possible difference of compiled code for
  // each element (INFINITY: any value is right), and one that receives which elements are
  // specified.
  double *const *allowed;
  uint8_t *const *specified;
  // NULL, or for each input of a call in a program: NULL or a byte for each element, 0 if it is
  // unspecified, and NULL or the possible difference of compiled code.
  const uint8_t *const *input_specified;
  double *const *input_error;
  bool exact;  // floats of a body are not rounded, like those of a reference
  // NULL: floats. Otherwise arrays contain cells (i64) instead of elements, and `context` is passed
  // to the functions.
  const struct Arithmetic *arithmetic;
  void *context;
} CheckOptions;

// Another position in a finding.
typedef struct {
  Span span;
  const char *message, *step;
  const char *device;  // "dx=1, dy=0", or NULL if there is one device
} FindingNote;

typedef struct {
  const char *kind, *message;  // kind: a name in findings.def
  const char *operand;         // the first ref that the message names, or NULL
  const char *step;            // "i=0, j=1", or NULL outside the grid
  const char *device;          // like a note's
  Span span;
  int64_t count;
  LIST(FindingNote) notes;
  const char *text;  // the whole text as printed, with source lines and carets
} CheckFinding;

typedef struct {
  Arena *arena;
  LIST(CheckFinding) findings;
  int64_t more;                // number of findings beyond CHECK_MAX_FINDINGS
  LIST(const char *) printed;  // the output of `print`, in order
  int64_t steps;               // number of grid steps run
  // For a mesh: the number of orders in which the devices were interleaved, and of those that could
  // matter; whether the findings hold in every order.
  int64_t orders, most_orders;
  bool every_order;
} CheckReport;

// Runs every grid step. operands: inputs filled, outputs allocated, in the order of the signature.
// Unspecified elements of outputs become NaN or the least integer. Shows progress on standard error
// if that is a terminal.
void interpret(Kernel *k, const int64_t *sizes, HostArray *operands, const CheckOptions *options,
               CheckReport *report);
// Runs the reference, in f64 if it computes in floats (so that it is more accurate than the results
// it is compared with), rounded at casts and outputs. Of the options, only `allowed` and the
// arithmetic are used.
void interpret_reference(Kernel *k, const int64_t *sizes, HostArray *operands,
                         const CheckOptions *options, CheckReport *report);
// The text of a finding, with the source line and a caret.
const char *finding_text(Arena *arena, const Source *source, const CheckFinding *f);

#endif
