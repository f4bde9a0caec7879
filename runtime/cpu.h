/* The peak rates of this machine, and its counters. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include <stdbool.h>

/* Sums of products of these dtypes: f32 and f64 by fused multiply-adds; bf16 in pairs and i8 in
 * fours if the compiler's flags allow it, otherwise widened as in kernels. */
typedef enum { PK_RATE_F32, PK_RATE_F64, PK_RATE_BF16, PK_RATE_I8, PK_RATES } pk_rate;
extern const char *const pk_rate_names[PK_RATES];

/* The rate of all threads together in 1e9 operations per second, two for each multiply-add. Takes
 * about 50 ms. */
double pk_measure_gflops(pk_rate rate, int threads);
/* The bytes that the threads read and write when they copy and sum arrays of `bytes` bytes in total
 * (at most 192 MiB), in 1e9 per second: the rate of the cache that holds them, or of memory. 0: not
 * enough memory to measure it. */
double pk_measure_gbytes(double bytes, int threads);
/* The same for copies by one thread, with non-temporal or ordinary stores. */
double pk_measure_copies(double bytes, bool past);
/* measure.c: prints what `pkc calibrate` notes of this machine, as lines measured.NAME=VALUE. Takes
 * some seconds. */
void pk_measure_machine(void);
double pk_median(double *values, int count); /* of at least one; sorts them */

/* Hardware counters of this thread and of those that it starts from now on. */
enum { PK_COUNTERS = 4 };
typedef struct {
  int fd[PK_COUNTERS]; /* -1: this machine does not count it */
} pk_counters;
bool pk_counters_start(
    pk_counters *counters); /* false, with errno: the system does not allow any */
void pk_counters_print(pk_counters *counters); /* counter.NAME=VALUE lines; ends counting */

#endif
