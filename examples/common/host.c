/* Memory, arrays for kernels, and the report. */
#define _GNU_SOURCE
#include "host.h"

#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

static int64_t all_bytes;

void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s: ", program_name);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

void check_room(int64_t bytes) {
  const double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
  if (bytes < 0 || (double)bytes + (double)all_bytes > machine)
    fail("no memory: %.1f GB are needed in addition to %.1f, the machine has %.1f",
         1e-9 * (double)bytes, 1e-9 * (double)all_bytes, 1e-9 * machine);
}

void *memory(int64_t bytes) {
  void *p = NULL;
  check_room(bytes);
  const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : LINE;
  if (posix_memalign(&p, alignment, (size_t)(bytes > 0 ? bytes : 1)) != 0)
    fail("no memory for %" PRId64 " bytes", bytes);
#ifdef MADV_HUGEPAGE
  /* Prefetchers stop at the end of a page. The call is only a hint. */
  if (alignment == HUGE_PAGE) (void)madvise(p, (size_t)bytes, MADV_HUGEPAGE);
#endif
  all_bytes += bytes;
  return memset(p, 0, (size_t)bytes);
}

void memory_free(void *data, int64_t bytes) {
  all_bytes -= bytes;
  free(data);
}

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

pk_context *open_context(int threads, bool profile) {
  pk_context *context = pk_context_new();
  if (!context) fail("no memory");
  pk_context_set_threads(context, threads);
  if (profile && pk_context_profile(context, 1) != PK_OK) fail("no memory");
  return context;
}

void view(Tensor *to, const void *data, DLDataTypeCode code, int bits, int axes,
          const int64_t *shape) {
  *to = (Tensor){.t = {.data = (void *)(uintptr_t)data,
                       .device = {kDLCPU, 0},
                       .ndim = axes,
                       .dtype = {(uint8_t)code, (uint8_t)bits, 1}}};
  memcpy(to->shape, shape, (size_t)axes * sizeof *shape);
  to->t.shape = to->shape;
}

void call(pk_context *context, const pk_kernel *kernel, DLTensor **tensors) {
  if (pk_call_kernel(context, kernel, tensors) != PK_OK) fail("%s", pk_message(context));
}

int64_t heap_bytes(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return (int64_t)(info.uordblks + info.hblkhd);
#else
  return 0;
#endif
}

void print_report(const pk_context *context, int64_t temporaries, int64_t grown) {
  pk_kernel_time row;
  double sum = 0;
  fprintf(
      stderr,
      "memory: arrays %.1f MB, between kernels %.1f MB; allocated after the first call: %" PRId64
      " bytes\n",
      (double)all_bytes * 1e-6, (double)temporaries * 1e-6, grown);
  for (int i = 0; pk_profile_row(context, i, &row); i++) sum += row.seconds;
  fprintf(stderr, "%-20s %10s %10s %7s\n", "kernel", "calls", "ms", "share");
  for (int i = 0; pk_profile_row(context, i, &row); i++)
    fprintf(stderr, "%-20s %10" PRId64 " %10.2f %6.1f%%\n", row.name, row.calls, 1e3 * row.seconds,
            100 * row.seconds / (sum > 0 ? sum : 1));
}

// ---- options

int64_t option_number(const char *name, const char *text, int64_t least, int64_t most) {
  char *end;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < least || value > most)
    fail("%s: expected a number from %" PRId64 " to %" PRId64 ", found `%s`", name, least, most,
         text);
  return value;
}

double option_real(const char *name, const char *text) {
  char *end;
  const double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0 && value < 1e6))
    fail("%s: expected a number of at least 0, found `%s`", name, text);
  return value;
}
