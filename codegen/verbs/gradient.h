// Comparison of a hand-written gradient with the generated one: lines `// gradient: ..` of pkc test
// and pkc check.
#ifndef CODEGEN_VERBS_GRADIENT_H
#define CODEGEN_VERBS_GRADIENT_H

#include "codegen/verbs/verbs.h"

// BACKWARD of FORWARD [in FILE] ARGUMENTS
typedef struct {
  const char *backward, *forward;  // interned
  const char *path;                // of the file with `forward`
  const char *words;               // the arguments
} GradientLine;
// `path`: of the file with the line. Returns NULL, or an error message.
const char *gradient_line(Arena *arena, const char *path, const char *text, GradientLine *line);
typedef LIST(GradientLine) GradientLines;
// The lines of the source for this backward kernel, one for each forward kernel. USER_ERROR, with a
// message printed, if a line of the source is malformed.
int gradient_lines(const Options *options, const Source *source, const char *backward,
                   GradientLines *lines);

// The interpreted backward kernel, on the inputs and outputs of the forward kernel's reference, and
// the results of the generated reference.
typedef struct {
  Binding forward, derived, backward;
  Interpreted gave, says, got;
  Interpreted want;  // outputs only, in the order and the shapes of the backward kernel's
  bool refused;      // there is nothing to compare because a kernel refuses these sizes
} GradientRun;
// `options`: arguments of the forward kernel, gradients of its outputs, and settings of both
// kernels. NULL, or why there is nothing to compare. In both cases gradient_free frees it.
const char *gradient_run(const Options *options, const char *path, const GradientLine *line,
                         GradientRun *run);
// The first element that differs: its output, or -1.
int gradient_difference(const Options *options, const GradientRun *run, Comparison *comparison);
// Prints the elements in which the backward kernel differs. DONE: there are none.
int gradient_differences(const Options *options, const GradientLine *line, GradientRun *run);
void gradient_free(GradientRun *run);

#endif
