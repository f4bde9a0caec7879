/* What bench.py needs of the machine itself: rates that nothing can pass, and calls of C libraries
 * without many Python arguments. Built as a shared object together with runtime/cpu.c, with the
 * flags of the kernels. */
#define _DEFAULT_SOURCE
#include "runtime/cpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

typedef float vector __attribute__((vector_size(64), aligned(64)));
enum { LANES = sizeof(vector) / sizeof(float) };

static volatile float sink;

/* Processor time of this thread: the machine may be shared. */
static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* 1e9 operations a second of products of registers, a multiply-add being two. */
double bench_f32_rate(void) { return pk_measure_gflops(PK_RATE_F32, 1); }
double bench_bf16_rate(void) { return pk_measure_gflops(PK_RATE_BF16, 1); }
double bench_i8_rate(void) { return pk_measure_gflops(PK_RATE_I8, 1); }

static void read_all(vector *to, const vector *from, int64_t count) {
  vector sum[8] = {{0}};
  for (int64_t i = 0; i + 8 <= count; i += 8) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) sum[k] += from[i + k];
  }
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) sum[0] += sum[k];
  (void)to;
  sink = sum[0][0];
}

/* Four streams at once, so that more requests to memory are in progress. */
static void read_quarters(vector *to, const vector *from, int64_t count) {
  vector sum[8] = {{0}};
  const int64_t quarter = count / 4;
  for (int64_t i = 0; i + 2 <= quarter; i += 2) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) sum[k] += from[k / 2 * quarter + i + k % 2];
  }
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) sum[0] += sum[k];
  (void)to;
  sink = sum[0][0];
}

static void copy_all(vector *to, const vector *from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

static void stream_all(vector *to, const vector *from, int64_t count) {
#if defined(__AVX512F__)
  for (int64_t i = 0; i < count; ++i) _mm512_stream_ps((float *)&to[i], (__m512)from[i]);
  _mm_sfence();
#elif defined(__AVX__)
  for (int64_t i = 0; i < count * LANES; i += 8)
    _mm256_stream_ps((float *)to + i, _mm256_load_ps((const float *)from + i));
  _mm_sfence();
#else
  memcpy(to, from, (size_t)count * sizeof *to);
#endif
}

typedef void mover(vector *to, const vector *from, int64_t count);

static double move_seconds(mover *move, vector *to, const vector *from, int64_t count,
                           int64_t repeats) {
  double best = 1e30;
  move(to, from, count);
  double total = 0;
  for (int try = 0; try < 7 || total < 0.15; ++try) {
    double start = seconds();
    for (int64_t i = 0; i < repeats; ++i) move(to, from, count);
    double taken = (seconds() - start) / (double)repeats;
    total += taken * (double)repeats;
    if (taken < best) best = taken;
  }
  return best;
}

/* 1e9 bytes a second that one core moves in a working set of so many bytes: only reading it, or
 * reading one half and writing the other; of two ways of each the faster. 0: no memory. */
double bench_memory_rate(int64_t bytes, int writes) {
  int64_t count = bytes / (int64_t)sizeof(vector) / (writes ? 2 : 1) / 8 * 8;
  if (count < 8) count = 8;
  int64_t repeats = 1 + (4 << 20) / (count * (int64_t)sizeof(vector));
  size_t size = (size_t)count * sizeof(vector) * (writes ? 2 : 1);
  vector *memory = NULL;
  if (posix_memalign((void **)&memory, 2 << 20, size) != 0) return 0;
#ifdef MADV_HUGEPAGE
  (void)madvise(memory, size, MADV_HUGEPAGE);
#endif
  memset(memory, 0, size);
  double one, other;
  if (writes) {
    one = move_seconds(copy_all, memory + count, memory, count, repeats);
    other = move_seconds(stream_all, memory + count, memory, count, repeats);
  } else {
    one = move_seconds(read_all, NULL, memory, count, repeats);
    other = move_seconds(read_quarters, NULL, memory, count, repeats);
  }
  free(memory);
  return (double)size / (one < other ? one : other) * 1e-9;
}

/* Calls from Python pass one pointer, so that they cost the same: a kernel of ours; .. */
typedef struct {
  void *function; /* pk_call_kernel */
  void *context, *kernel, *tensors;
} kernel_call;

void bench_pk_call_kernel(const kernel_call *c) {
  int (*run)(void *, void *, void *);
  memcpy(&run, &c->function, sizeof run);
  if (run(c->context, c->kernel, c->tensors) != 0) abort(); /* it went well before: ours.py */
}

/* A matrix product by CBLAS or oneDNN: row-major, c = a b. */
typedef struct {
  void *function;
  int64_t m, n, k;
  const void *a, *b;
  void *c;
} product;

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };

void bench_cblas_sgemm(const product *p) {
  void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                float *, int);
  memcpy(&sgemm, &p->function, sizeof sgemm);
  int m = (int)p->m, n = (int)p->n, k = (int)p->k;
  sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, k, 1, p->a, k, p->b, n, 0, p->c, n);
}

void bench_dnnl_sgemm(const product *p) {
  int (*sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
               int64_t, float, float *, int64_t);
  memcpy(&sgemm, &p->function, sizeof sgemm);
  (void)sgemm('N', 'N', p->m, p->n, p->k, 1, p->a, p->k, p->b, p->n, 0, p->c, p->n);
}

void bench_dnnl_i8gemm(const product *p) {
  int (*gemm)(char, char, char, int64_t, int64_t, int64_t, float, const int8_t *, int64_t, int8_t,
              const int8_t *, int64_t, int8_t, float, int32_t *, int64_t, const int32_t *);
  static const int32_t nothing = 0;
  memcpy(&gemm, &p->function, sizeof gemm);
  (void)gemm('N', 'N', 'F', p->m, p->n, p->k, 1, p->a, p->k, 0, p->b, p->n, 0, 0, p->c, p->n,
             &nothing);
}
