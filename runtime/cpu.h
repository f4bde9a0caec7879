/* The peak rates of this machine, and its counters. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include <stdbool.h>

/* Products of these, added up: f32 as fused multiply-adds, f64 likewise, bf16 in pairs and i8 in
 * fours where the compiler's flags have them, else as the kernels widen them. */
typedef enum { PK_RATE_F32, PK_RATE_F64, PK_RATE_BF16, PK_RATE_I8, PK_RATES } pk_rate;
extern const char *const pk_rate_names[PK_RATES];

/* The rate of all threads together in 1e9 operations per second, two for each multiply-add. Takes
 * about 50 ms. */
double pk_measure_gflops(pk_rate rate, int threads);
/* Bytes that the threads read and write in copies and sums of arrays that take so many bytes
 * together (at most 192 MiB), in 1e9 a second: the rate of the cache that holds them, or of memory.
 * 0: no memory to tell. */
double pk_measure_gbytes(double bytes, int threads);
/* The same of copies by one thread, whose stores go past the caches or through them. */
double pk_measure_copies(double bytes, bool past);
/* measure.c: prints what `pkc calibrate` notes of this machine, as lines measured.NAME=VALUE. Takes
 * some seconds. */
void pk_measure_machine(void);

/* Hardware counters of this thread and of those that it starts from now on. */
enum { PK_COUNTERS = 4 };
typedef struct {
  int fd[PK_COUNTERS]; /* -1: this machine does not count it */
} pk_counters;
bool pk_counters_start(
    pk_counters *counters); /* false, with errno: the system does not allow any */
void pk_counters_print(pk_counters *counters); /* counter.NAME=VALUE lines; ends counting */

#endif
