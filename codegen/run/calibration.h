// The calibration of this machine, which `pkc calibrate` writes and `--target native` reads: a file
// in the cache folder, named by a hash of the processor.
//
//     # pkc calibration 1
//     processor=HASH           of the processor that was measured
//     tables=HASH              of the tables that the races started from
//     NAME=VALUE               rows of codegen/loops/calibration.def
//     regime.NAME=0 or 1       regimes that a race switched
//     seal=HASH                of all lines above
#ifndef CODEGEN_RUN_CALIBRATION_H
#define CODEGEN_RUN_CALIBRATION_H

#include "codegen/run/run.h"

// The path of this machine's calibration; NULL: there is no cache folder. `make`: creates the
// folders.
const char *calibration_path(Arena *arena, bool make);
// NULL with *wrong NULL: there is none; with *wrong: why the file is ignored.
const Calibration *calibration_read(Arena *arena, const char *path, const char **wrong);
// Replaces the file as a whole, and sets the id. Returns NULL, or an error message.
const char *calibration_write(Arena *arena, const char *path, Calibration *calibration);
// Applies the calibration to the target "native", unless $PKC_CALIBRATION is 0; an ignored file
// causes a warning.
void calibration_use(Arena *arena);

#endif
