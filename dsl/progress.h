// A progress line on a terminal for operations of more than two seconds.
#ifndef DSL_PROGRESS_H
#define DSL_PROGRESS_H

#include "dsl/base.h"

typedef struct {
  bool on;
  double start, shown;
} Progress;

Progress progress_start(void);  // enabled if standard error is a terminal
// "WHAT DONE of ALL"
void progress_show(Progress *progress, const char *what, int64_t done, int64_t all);
void progress_end(const Progress *progress);

#endif
