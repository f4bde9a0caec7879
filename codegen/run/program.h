// A .pk file on its way: read, lowered, optimised, and written as C.
#ifndef CODEGEN_RUN_PROGRAM_H
#define CODEGEN_RUN_PROGRAM_H

#include "codegen/run/options.h"

typedef struct {
  Arena *arena;
  Source source;
  Node *file;
  Diag *diag;
  const Node *kernel_node;  // the kernel -k names, or the only one; NULL when there is none
  Kernel *kernel;           // after program_lower
} Program;

// false: unreadable (errno)
bool program_read(Program *program, const Options *options, Arena *arena, const char *path);
bool program_has_static(const Program *program, const char *name);
// Every NAME=VALUE names a static (or, with `sizes`, a size or an operand): NULL, or what is wrong.
const char *program_check_names(const Program *program, const Options *options, bool sizes);
// -D and the STATIC=VALUE among the arguments.
const StaticSetting *program_settings(const Program *program, const Options *options, int *count);
// After program_read, which collects syntax errors in diag. False when there are errors in diag.
bool program_lower(Program *program, const Options *options, const LowerOptions *lower_options);
// Writes what diag holds to standard error.
void program_report(const Program *program, const Options *options);
// Reads, lowers and reports; the settings of -D and of STATIC=VALUE arguments apply. DONE or
// USER_ERROR.
int program_load(Program *program, const Options *options, const char *path);
// All passes. Dumps of -d go to standard output. `notes` may be NULL.
void program_optimise(Program *program, const Options *options, Buf *notes);
// Texts of a kernel after the passes; each Buf may be NULL but c.
void program_emit(Program *program, const Options *options, Buf *c, Buf *h, Buf *loops,
                  Buf *explain);

// C for all of options->variants in one file, of which the runtime chooses: the part of a target is
// compiled with -DPK_TARGET_NAME, the part that chooses without.
void program_emit_variants(const Program *program, const Options *options, Buf *c, Buf *h);

#endif
