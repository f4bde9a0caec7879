/* What this machine can do at best, and its counters. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include <stdbool.h>

typedef struct {
  double gflops; /* f32 multiply-adds of one core, two operations each, in 1e9 a second */
  double gbytes; /* bytes read and written by one core's copies and sums of large arrays, in 1e9 a
                    second; 0: no memory to tell */
} pk_peaks;

/* Measures for some 100 ms. The vectors are those of the compiler's flags. */
void pk_measure_peaks(pk_peaks *peaks);

/* Counters of the processor, of this thread and those that it starts from now on. */
enum { PK_COUNTERS = 4 };
typedef struct {
  int fd[PK_COUNTERS]; /* -1: this machine does not count it */
} pk_counters;
bool pk_counters_start(
    pk_counters *counters); /* false, with errno: the system does not allow any */
void pk_counters_print(pk_counters *counters); /* counter.NAME=VALUE lines; ends counting */

#endif
