// Inside of pkc tune.
#ifndef CODEGEN_VERBS_TUNE_H
#define CODEGEN_VERBS_TUNE_H

#include "codegen/run/tuning.h"
#include "codegen/verbs/verbs.h"

typedef LIST(int64_t) Integers;

// Blocks to try, and the result.
typedef struct {
  BlockSizes blocks;
  double estimate;    // seconds, of a model CPU: for the order only
  uint64_t grid;      // a hash of its extents
  bool kept;          // to be tried
  bool done;          // was tried, perhaps by a search that was interrupted
  const char *wrong;  // NULL, or why it cannot be used
  double ms, times;   // its time; how many times as fast as the default
} Candidate;

typedef struct {
  Options *options;
  Session base;        // the default
  Reference expected;  // the reference's outputs, or copies of the default's
  bool judged;         // by the reference
  double seconds;      // of a call of the default
  BlockSizes usual;    // the default
  Integers values[MOST_BLOCK_STATICS];
  LIST(Candidate) found;
  int threads;
  const char *key;   // in the file of tuning
  const char *part;  // the file that holds what was tried
} Tune;

// ---- tune_space.c: what is tried. DONE, or the status after a message.

// The statics that are block sizes, and the values that --over or their defaults give them.
int tune_find_blocks(Tune *t);
// All combinations; those that are refused, exceed VMEM, or are estimated to be slow are not kept.
void tune_list(Tune *t);

// ---- tune_try.c

// Builds, verifies and times blocks in a process of their own, in `pairs` with the default.
void tune_try(const Tune *t, Candidate *c, int pairs);
// What an interrupted search of the same call wrote; a line for one more; the end.
void tune_resume(Tune *t);
void tune_note(const Tune *t, const Candidate *c);
void tune_forget(const Tune *t);

#endif
