// A .pk file in its stages: read, lowered, optimised, and written as C.
#ifndef CODEGEN_RUN_PROGRAM_H
#define CODEGEN_RUN_PROGRAM_H

#include "codegen/run/options.h"

typedef struct {
  Arena *arena;
  Source source;
  const Node *file;
  Diag *diag;
  const Node *kernel_node;  // the kernel of -k, or the only one; NULL if there is none
  Kernel *kernel;           // after program_lower
} Program;

// false: unreadable (errno)
bool program_read(Program *program, const Options *options, Arena *arena, const char *path);
bool program_has_static(const Program *program, const char *name);
// Does every NAME=VALUE name a static (or, with `sizes`, a size or an operand)? Returns NULL, or an
// error message.
const char *program_check_names(const Program *program, const Options *options, bool sizes);
// Those of -D, and the STATIC=VALUE arguments.
const StaticSetting *program_settings(const Program *program, const Options *options, int *count);
// After program_read, which collects syntax errors in diag. False if diag contains errors.
bool program_lower(Program *program, const Options *options, const LowerOptions *lower_options);
// Writes the contents of diag to standard error.
void program_report(const Program *program, const Options *options);
// Reads, lowers and reports, with the settings of -D and of STATIC=VALUE arguments. DONE or
// USER_ERROR.
int program_load(Program *program, const Options *options, const char *path);
// All passes. Dumps of -d go to standard output. `notes` may be NULL.
void program_optimise(Program *program, const Options *options, Buf *notes);
// The texts of a kernel after the passes; each Buf except c may be NULL.
void program_emit(Program *program, const Options *options, Buf *c, Buf *h, Buf *loops,
                  Buf *explain);

// C for all of options->variants in one file, among which the runtime chooses: with
// -DPK_TARGET_NAME the part of a target is compiled, without it the part that chooses.
void program_emit_variants(const Program *program, const Options *options, Buf *c, Buf *h);

#endif
