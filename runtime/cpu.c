/* Measures the machine's peaks and reads its counters. Compiled into the harness, whose flags say
 * how wide vectors are; not part of the library. */
#define _DEFAULT_SOURCE
#include "cpu.h"
#include "platform.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <pk/amx.h>

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

/* Prevents the compiler from computing the result at compile time. */
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

/* Products of bf16 in pairs, of bytes in fours. */
#if defined(__AVX512BF16__)
static float pair_loop(int steps) {
  const __m512bh factor = (__m512bh)_mm512_set1_epi32((int)(0x3f003f00 + (peak_factor > 2)));
  __m512 sum[accumulators];
  for (int k = 0; k < accumulators; ++k) sum[k] = _mm512_set1_ps((float)k);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 32
    for (int k = 0; k < accumulators; ++k) sum[k] = _mm512_dpbf16_ps(sum[k], factor, factor);
  }
  float result = 0;
  for (int k = 0; k < accumulators; ++k) result += _mm512_reduce_add_ps(sum[k]);
  return result;
}
enum { pairs = 2 };
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && defined(__aarch64__)
static float pair_loop(int steps) {
  const bfloat16x8_t factor = vreinterpretq_bf16_s32(vdupq_n_s32(0x3f003f00 + (peak_factor > 2)));
  float32x4_t sum[accumulators];
  float result = 0;
  for (int k = 0; k < accumulators; ++k) sum[k] = vdupq_n_f32((float)k);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 32
    for (int k = 0; k < accumulators; ++k) sum[k] = vbfmmlaq_f32(sum[k], factor, factor);
  }
  for (int k = 0; k < accumulators; ++k) result += vaddvq_f32(sum[k]);
  return result;
}
enum { pairs = 4 };
#else
static float pair_loop(int steps) { return multiply_add_loop(steps); }
enum { pairs = 1 };
#endif

#if defined(__AVX512VNNI__)
typedef __m512i byte_vector;
static inline byte_vector spread_bytes(int value) { return _mm512_set1_epi32(value); }
static inline byte_vector multiply_bytes(byte_vector sum, byte_vector a, byte_vector b) {
  return _mm512_dpbusd_epi32(sum, a, b);
}
#elif defined(__AVXVNNI__)
typedef __m256i byte_vector;
static inline byte_vector spread_bytes(int value) { return _mm256_set1_epi32(value); }
static inline byte_vector multiply_bytes(byte_vector sum, byte_vector a, byte_vector b) {
  return _mm256_dpbusd_avx_epi32(sum, a, b);
}
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int32x4_t byte_vector;
static inline byte_vector spread_bytes(int value) { return vdupq_n_s32(value); }
static inline byte_vector multiply_bytes(byte_vector sum, byte_vector a, byte_vector b) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vmmlaq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
#else
  return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
#endif
}
#else
#define NO_BYTE_PRODUCTS
#endif

#if defined(NO_BYTE_PRODUCTS)
/* 16-bit pairs, on as many ports as multiply-adds have. */
static float byte_loop(int steps) { return multiply_add_loop(steps); }
enum { bytes_at_once = 2, byte_chains = accumulators };
#else
enum { byte_chains = 12 }; /* with more, GCC 12 moves them through memory */
static float byte_loop(int steps) {
  const byte_vector factor = spread_bytes(0x01010101 + (peak_factor > 2));
  byte_vector sum[byte_chains];
  int values[sizeof(byte_vector) / sizeof(int)];
  for (int k = 0; k < byte_chains; ++k) sum[k] = spread_bytes(k);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int k = 0; k < byte_chains; ++k) sum[k] = multiply_bytes(sum[k], factor, factor);
  }
  int result = 0;
  for (int k = 0; k < byte_chains; ++k) {
    memcpy(values, &sum[k], sizeof values);
    result ^= values[0];
  }
  return (float)result;
}
#if defined(__ARM_FEATURE_MATMUL_INT8)
enum { bytes_at_once = 8 };
#else
enum { bytes_at_once = 4 };
#endif
#endif

/* Four tiles of sums, as in products. */
#if PK_AMX
enum { tile_sums = 4, tile_products = PK_AMX_ROWS * PK_AMX_ROWS * PK_AMX_BYTES };
static void shape_tiles(pk_amx *unit) {
  pk_amx_config config = {.palette = 1};
  for (int t = 0; t < PK_AMX_TILES; ++t)
    config.rows[t] = PK_AMX_ROWS, config.bytes[t] = PK_AMX_BYTES;
  pk_amx_configure(unit, &config);
}
#define TILE_LOOP(name, dot)                   \
  static float name(int steps) {               \
    pk_amx unit;                               \
    shape_tiles(&unit);                        \
    for (int step = 0; step < steps; ++step) { \
      dot(&unit, 0, 4, 6);                     \
      dot(&unit, 1, 4, 7);                     \
      dot(&unit, 2, 5, 6);                     \
      dot(&unit, 3, 5, 7);                     \
    }                                          \
    pk_amx_release(&unit);                     \
    return 0;                                  \
  }
TILE_LOOP(tile_pair_loop, pk_amx_dot_bf16)
TILE_LOOP(tile_byte_loop, pk_amx_dot_su)
#endif

const char *const pk_rate_names[PK_RATES] = {"f32", "f64", "bf16", "i8"};
typedef struct {
  float (*loop)(int steps);
  double products; /* a step */
} rate_loop;
static const rate_loop rates[PK_RATES] = {{multiply_add_loop, accumulators *lanes},
                                          {multiply_add_loop, accumulators *lanes / 2.0},
                                          {pair_loop, accumulators *lanes *(double)pairs},
                                          {byte_loop, byte_chains *lanes *(double)bytes_at_once}};

/* The rate of the fastest method on this machine. */
static const rate_loop *rate_of(pk_rate r) {
#if PK_AMX
  static const rate_loop tiles[PK_RATES] = {
      [PK_RATE_BF16] = {tile_pair_loop, tile_sums * tile_products / 2.0},
      [PK_RATE_I8] = {tile_byte_loop, tile_sums * tile_products}};
  if (tiles[r].loop && pk_amx_ready()) return &tiles[r];
#endif
  return &rates[r];
}

/* Each thread of a team does its part of one job; the time is measured from the first start to the
 * last end. */
typedef struct {
  void (*body)(void *job, int thread);
  void *job;
  int thread;
} member;

static void *run_member(void *context) {
  const member *m = context;
  m->body(m->job, m->thread);
  return NULL;
}

enum { MOST_MEMBERS = 256 };
static double time_team(int threads, void (*body)(void *job, int thread), void *job) {
  static pthread_t others[MOST_MEMBERS];
  static member members[MOST_MEMBERS];
  bool started[MOST_MEMBERS];
  double start = seconds();
  for (int i = 1; i < threads; ++i) {
    members[i] = (member){body, job, i};
    started[i] = pthread_create(&others[i], NULL, run_member, &members[i]) == 0;
  }
  body(job, 0);
  for (int i = 1; i < threads; ++i) {
    if (started[i])
      (void)pthread_join(others[i], NULL);
    else
      body(job, i);
  }
  return seconds() - start;
}

static int team_size(int threads) {
  return threads < 1 ? 1 : threads > MOST_MEMBERS ? MOST_MEMBERS : threads;
}

enum { rate_steps = 100000 };
static void measure_loop(void *job, int thread) {
  (void)thread;
  float result = rate_of(*(pk_rate *)job)->loop(rate_steps);
  if (thread == 0) peak_result = result;
}

double pk_measure_gflops(pk_rate rate, int threads) {
  enum { rounds = 25 };
  double best = 1e30;
  threads = team_size(threads);
  for (int round = 0; round < rounds; ++round) {
    double taken = time_team(threads, measure_loop, &rate);
    if (taken < best) best = taken;
  }
  return 2.0 * threads * (double)rate_steps * rate_of(rate)->products / best * 1e-9;
}

static inline void put(float *to, peak_vector value) { memcpy(to, &value, sizeof value); }

/* Sums two arrays. `past`: with non-temporal stores, if the machine has them. `count` is a multiple
 * of the lanes of every vector, and the arrays are aligned. */
static void add_arrays(float *sum, const float *a, const float *b, int64_t count, bool past) {
  if (past)
    for (int64_t i = 0; i < count; i += lanes) stream(sum + i, fetch(a + i) + fetch(b + i));
  else
    for (int64_t i = 0; i < count; i += lanes) put(sum + i, fetch(a + i) + fetch(b + i));
}

static void copy_array(float *to, const float *from, int64_t count, bool past) {
  if (past)
    for (int64_t i = 0; i < count; i += lanes) stream(to + i, fetch(from + i));
  else
    for (int64_t i = 0; i < count; i += lanes) put(to + i, fetch(from + i));
}

static float sum_array(const float *a, int64_t count) {
  enum { chains = 4 };
  peak_vector sum[chains];
  float values[lanes];
  for (int k = 0; k < chains; ++k) sum[k] = spread(0);
  for (int64_t i = 0; i < count; i += (int64_t)chains * lanes) {
    for (int k = 0; k < chains; ++k) sum[k] = sum[k] + fetch(a + i + k * lanes);
  }
  for (int k = 1; k < chains; ++k) sum[0] = sum[0] + sum[k];
  memcpy(values, &sum[0], sizeof values);
  return values[0];
}

typedef struct {
  float *a, *b, *sum;
  int64_t count; /* elements of an array; each thread has a part of it */
  int threads, repeat;
  bool past;
} stream_job;

enum { PART = 64 }; /* elements: parts are multiples of it */
/* The next repetition repeats all of the work. */
#define REPEATED() __asm__ volatile("" ::: "memory")
static int64_t part_start(const stream_job *job, int thread) {
  return job->count / PART * thread / job->threads * PART;
}

static void copy_part(void *context, int thread) {
  const stream_job *job = context;
  int64_t start = part_start(job, thread), count = part_start(job, thread + 1) - start;
  for (int i = 0; i < job->repeat; ++i) {
    copy_array(job->b + start, job->a + start, count, job->past);
    REPEATED();
  }
}

static void add_part(void *context, int thread) {
  const stream_job *job = context;
  int64_t start = part_start(job, thread), count = part_start(job, thread + 1) - start;
  for (int i = 0; i < job->repeat; ++i) {
    add_arrays(job->sum + start, job->a + start, job->b + start, count, job->past);
    REPEATED();
  }
}

static void sum_part(void *context, int thread) {
  const stream_job *job = context;
  int64_t start = part_start(job, thread), count = part_start(job, thread + 1) - start;
  float result = 0;
  for (int i = 0; i < job->repeat; ++i) {
    result += sum_array(job->a + start, count) + sum_array(job->b + start, count) +
              sum_array(job->sum + start, count);
    REPEATED();
  }
  if (thread == 0) peak_result = result;
}

static const struct {
  void (*body)(void *job, int thread);
  double arrays; /* the number of arrays that it reads and writes */
  bool past;
} streams[] = {{copy_part, 2, true},
               {add_part, 3, true},
               {copy_part, 2, false},
               {add_part, 3, false},
               {sum_part, 3, false}};
enum { COPY_PAST = 0, COPY_THROUGH = 2, STREAMS = sizeof streams / sizeof *streams };

/* Measures the best rate of some rows of `streams`, with arrays of `bytes` bytes in total. */
static double measure_streams(double bytes, int threads, int first, int ways) {
  const double least = 3 << 16, most = 192 << 20, moved_at_least = 64 << 20;
  enum { rounds = 8 };
  if (bytes < least) bytes = least;
  if (bytes > most) bytes = most;
  const int64_t count = (int64_t)(bytes / 3 / sizeof(float)) / PART * PART;
  const double array = (double)count * sizeof(float);
  float *memory = pk_allocate_aligned(3 * (size_t)array, PK_HUGE_PAGE);
  if (!memory) return 0;
  stream_job job = {.a = memory,
                    .b = memory + count,
                    .sum = memory + 2 * count,
                    .count = count,
                    .threads = team_size(threads),
                    .repeat = (int)(moved_at_least / bytes) + 1};
  for (int64_t i = 0; i < 3 * count; ++i) memory[i] = 1;
  double best = 0;
  for (int round = 0; round < rounds * ways; ++round) {
    int which = first + round % ways;
    job.past = streams[which].past;
    double taken = time_team(job.threads, streams[which].body, &job),
           rate = streams[which].arrays * array * job.repeat / taken;
    if (rate > best) best = rate;
  }
  pk_free_aligned(memory);
  return best * 1e-9;
}

double pk_measure_gbytes(double bytes, int threads) {
  return measure_streams(bytes, threads, 0, STREAMS);
}

double pk_measure_copies(double bytes, bool past) {
  return measure_streams(bytes, 1, past ? COPY_PAST : COPY_THROUGH, 1);
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
