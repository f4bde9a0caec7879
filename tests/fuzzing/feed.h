// What a fuzzer feeds: one input to one part of the compiler, which may refuse it but not break.
#ifndef FUZZING_FEED_H
#define FUZZING_FEED_H

#include <stddef.h>

typedef struct {
  const char *name, *corpus;  // corpus: where its first inputs come from, a pattern of files
  void (*feed)(const char *bytes, size_t length);
} Feed;

extern const Feed feeds[];
extern const int feed_count;
const Feed *feed_find(const char *name);  // NULL when there is none

#endif
