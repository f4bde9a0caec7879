// A progress line on a terminal.
#define _GNU_SOURCE
#include "dsl/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

Progress progress_start(void) {
  return (Progress){.on = isatty(STDERR_FILENO) != 0, .start = seconds_now()};
}

void progress_show(Progress *progress, const char *what, int64_t done, int64_t all) {
  if (!progress->on) return;
  double now = seconds_now();
  if (now - progress->start < 2 || now - progress->shown < 0.2) return;
  progress->shown = now;
  fprintf(stderr, "\r%s %lld of %lld", what, (long long)done, (long long)all);
  fflush(stderr);
}

void progress_end(const Progress *progress) {
  if (progress->on && progress->shown > 0) fprintf(stderr, "\r%60s\r", "");
}
