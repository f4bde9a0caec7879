// Internal to pkc calibrate: measurements and races.
#ifndef CODEGEN_VERBS_RACE_H
#define CODEGEN_VERBS_RACE_H

#include "codegen/verbs/verbs.h"

// Where races are held: a folder with their kernels.
typedef struct {
  Arena *arena;
  const char *folder;
  void (*say)(const char *line);  // receives the name of the next measurement
  const char *wrong;              // NULL, or why nothing more can be measured
} RaceTrack;

// These functions return NULL, or an error message. After race_open, call race_close in either
// case.
const char *race_open(RaceTrack *track, Arena *arena, void (*say)(const char *line));
void race_close(RaceTrack *track);
// The rows MEASURED of calibration.def.
const char *race_measure(RaceTrack *track, Calibration *calibration);
// Runs all races, from the cut-offs of the calibration, and changes those for which another value
// is clearly faster.
const char *race_all(RaceTrack *track, Calibration *calibration);
// A table of all regimes on both sides of their edges.
const char *race_edges(RaceTrack *track, Buf *out);

#endif
