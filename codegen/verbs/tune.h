// Internal to pkc tune.
#ifndef CODEGEN_VERBS_TUNE_H
#define CODEGEN_VERBS_TUNE_H

#include "codegen/run/tuning.h"
#include "codegen/verbs/verbs.h"

typedef LIST(int64_t) Integers;

// Block sizes to try, and the result.
typedef struct {
  BlockSizes blocks;
  double estimate;    // seconds on a model CPU, used for the order only
  uint64_t grid;      // a hash of its extents
  bool kept;          // will be tried
  bool done;          // was tried, possibly by an interrupted search
  const char *wrong;  // NULL, or why it cannot be used
  double ms, times;   // its time, and its speed relative to the default
} Candidate;

typedef struct {
  Options *options;
  Session base;        // the default
  Reference expected;  // the reference's outputs, or copies of the default's
  bool judged;         // compared with the reference
  double seconds;      // of a call of the default
  BlockSizes usual;    // the default
  Integers values[MOST_BLOCK_STATICS];
  LIST(Candidate) found;
  int threads;
  const char *key;   // the key in FILE.pk.tuning
  const char *part;  // the file with the results so far
} Tune;

// ---- tune_space.c: the candidates. DONE, or the status after a message.

// The statics that are block sizes, with their values from --over or their defaults.
int tune_find_blocks(Tune *t);
// All combinations, except those that are refused, exceed VMEM, or are estimated to be slow.
void tune_list(Tune *t);

// ---- tune_try.c

// Builds, verifies and times blocks in a separate process, in `pairs` with the default.
void tune_try(const Tune *t, Candidate *c, int pairs);
// Reads the results of an interrupted search for the same call; adds a line; ends.
void tune_resume(Tune *t);
void tune_note(const Tune *t, const Candidate *c);
void tune_forget(const Tune *t);

#endif
