/* Measures the machine's peaks and reads its counters. Compiled into the harness, whose flags say
 * how wide vectors are; not part of the library. */
#define _DEFAULT_SOURCE
#include "cpu.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/perf_event.h>
#include <sys/syscall.h>
#endif

#if defined(__AVX512F__) || (defined(__AVX__) && defined(__FMA__))
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* `accumulators` hide the latency of the multiply-add, and leave registers for its operands. */
#if defined(__AVX512F__)
typedef __m512 peak_vector;
enum { accumulators = 24, lanes = 16 };
static inline peak_vector spread(float value) { return _mm512_set1_ps(value); }
static inline peak_vector multiply_add(peak_vector a, peak_vector b, peak_vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
static inline peak_vector fetch(const float *from) { return _mm512_load_ps(from); }
static inline void stream(float *to, peak_vector value) { _mm512_stream_ps(to, value); }
#elif defined(__AVX__) && defined(__FMA__)
typedef __m256 peak_vector;
enum { accumulators = 12, lanes = 8 };
static inline peak_vector spread(float value) { return _mm256_set1_ps(value); }
static inline peak_vector multiply_add(peak_vector a, peak_vector b, peak_vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
static inline peak_vector fetch(const float *from) { return _mm256_load_ps(from); }
static inline void stream(float *to, peak_vector value) { _mm256_stream_ps(to, value); }
#elif defined(__ARM_NEON) && defined(__aarch64__)
typedef float32x4_t peak_vector;
enum { accumulators = 24, lanes = 4 };
static inline peak_vector spread(float value) { return vdupq_n_f32(value); }
static inline peak_vector multiply_add(peak_vector a, peak_vector b, peak_vector c) {
  return vfmaq_f32(c, a, b);
}
static inline peak_vector fetch(const float *from) { return vld1q_f32(from); }
static inline void stream(float *to, peak_vector value) { vst1q_f32(to, value); }
#else
typedef float peak_vector __attribute__((vector_size(16)));
enum { accumulators = 12, lanes = 4 };
static inline peak_vector spread(float value) { return (peak_vector){value, value, value, value}; }
static inline peak_vector multiply_add(peak_vector a, peak_vector b, peak_vector c) {
  return a * b + c;
}
static inline peak_vector fetch(const float *from) {
  return *(const peak_vector *)(const void *)from;
}
static inline void stream(float *to, peak_vector value) { *(peak_vector *)(void *)to = value; }
#endif

static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Keeps the compiler from working any of it out beforehand. */
static volatile float peak_factor = 0.999f, peak_result;

static float multiply_add_loop(int steps) {
  peak_vector sum[accumulators], factor = spread(peak_factor), term = spread(1.0f - peak_factor);
  for (int k = 0; k < accumulators; ++k) sum[k] = spread((float)k);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 32
    for (int k = 0; k < accumulators; ++k) sum[k] = multiply_add(sum[k], factor, term);
  }
  float values[lanes], result = 0;
  for (int k = 0; k < accumulators; ++k) {
    memcpy(values, &sum[k], sizeof values);
    result += values[0];
  }
  return result;
}

static double measure_gflops(void) {
  enum { steps = 100000, rounds = 25 };
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    double start = seconds();
    peak_result = multiply_add_loop(steps);
    double taken = seconds() - start;
    if (taken < best) best = taken;
  }
  return 2.0 * steps * accumulators * lanes / best * 1e-9;
}

/* Past the caches where the machine can: `count` is a multiple of every vector's lanes, and the
 * arrays are aligned. */
static void add_arrays(float *sum, const float *a, const float *b, int64_t count) {
  for (int64_t i = 0; i < count; i += lanes) stream(sum + i, fetch(a + i) + fetch(b + i));
}

static void copy_array(float *to, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i += lanes) stream(to + i, fetch(from + i));
}

static double measure_gbytes(void) {
  const int64_t bytes = (int64_t)64 << 20, count = bytes / (int64_t)sizeof(float);
  float *memory = NULL;
  if (posix_memalign((void **)&memory, 2 << 20, 3 * (size_t)bytes) != 0) return 0;
#ifdef MADV_HUGEPAGE
  (void)madvise(memory, 3 * (size_t)bytes, MADV_HUGEPAGE);
#endif
  float *a = memory, *b = a + count, *sum = b + count;
  for (int64_t i = 0; i < 3 * count; ++i) memory[i] = 1;
  double best = 0;
  for (int round = 0; round < 4; ++round) {
    double start = seconds();
    copy_array(b, a, count);
    double copied = seconds();
    add_arrays(sum, a, b, count);
    double added = seconds();
    peak_result = sum[round];
    double copy_rate = 2.0 * (double)bytes / (copied - start),
           add_rate = 3.0 * (double)bytes / (added - copied);
    if (copy_rate > best) best = copy_rate;
    if (add_rate > best) best = add_rate;
  }
  free(memory);
  return best * 1e-9;
}

void pk_measure_peaks(pk_peaks *peaks) {
  peaks->gflops = measure_gflops();
  peaks->gbytes = measure_gbytes();
}

#if defined(__linux__)
static const struct {
  const char *name;
  uint64_t event;
} counted[PK_COUNTERS] = {{"instructions", PERF_COUNT_HW_INSTRUCTIONS},
                          {"cycles", PERF_COUNT_HW_CPU_CYCLES},
                          {"cache_references", PERF_COUNT_HW_CACHE_REFERENCES},
                          {"cache_misses", PERF_COUNT_HW_CACHE_MISSES}};

bool pk_counters_start(pk_counters *counters) {
  bool any = false;
  int failure = 0;
  for (int i = 0; i < PK_COUNTERS; ++i) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.size = sizeof attributes;
    attributes.config = counted[i].event;
    attributes.inherit = 1;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    counters->fd[i] = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
    if (counters->fd[i] < 0) failure = errno;
    any |= counters->fd[i] >= 0;
  }
  errno = failure;
  return any;
}

void pk_counters_print(pk_counters *counters) {
  for (int i = 0; i < PK_COUNTERS; ++i) {
    uint64_t value = 0;
    if (counters->fd[i] < 0) continue;
    if (read(counters->fd[i], &value, sizeof value) == (ssize_t)sizeof value)
      (void)printf("counter.%s=%" PRIu64 "\n", counted[i].name, value);
    (void)close(counters->fd[i]);
  }
}
#else
bool pk_counters_start(pk_counters *counters) {
  (void)counters;
  errno = ENOSYS;
  return false;
}
void pk_counters_print(pk_counters *counters) { (void)counters; }
#endif
