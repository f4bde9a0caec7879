/* Memory whose surroundings must not be accessed: see guard.h. Compiled together with a harness. */
#define _DEFAULT_SOURCE 1
#include "guard.h"

#include <pk/fence.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_NORESERVE /* FreeBSD reserves nothing anyway */
#define MAP_NORESERVE 0
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PK_POISONS
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define PK_POISONS
#endif
#ifdef PK_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

/* PATTERN: a large number as a float of any width, which is unlikely as a result. FAULTING: the
 * bytes that fault on either side of an array. */
enum { PATTERN = 0xfb, GAP = 3, FAULTING = 1 << 20, MESSAGE = 512 };

/* ---- Messages, also from a handler of a signal. */

static char message[MESSAGE];
static int message_taken;

static void put(const char *text) {
  size_t at = strlen(message);
  while (*text && at < MESSAGE - 1) message[at++] = *text++;
  message[at] = '\0';
}

static void put_count(int64_t count, const char *what) {
  char digits[24];
  size_t at = sizeof digits;
  digits[--at] = '\0';
  uint64_t left = (uint64_t)count;
  do digits[--at] = (char)('0' + left % 10);
  while ((left /= 10) > 0);
  put(&digits[at]);
  put(" ");
  put(what);
  if (count != 1) put("s");
}

/* Only the first finding of all threads is reported. */
static bool begin_message(const char *text) {
  if (__atomic_exchange_n(&message_taken, 1, __ATOMIC_SEQ_CST)) return false;
  put("the compiled kernel ");
  put(text);
  put(" ");
  return true;
}

static void put_place(int64_t bytes, const char *side, const char *name) {
  put_count(bytes, "byte");
  put(side);
  put("`");
  put(name);
  put("`");
}

/* ---- Arrays. */

static pk_guarded *all;

static int64_t bytes_of(const pk_guarded *g) {
  return g->rows < 1 ? 0 : (g->rows - 1) * g->pitch + g->row;
}

/* The stride of the second-last axis is a row with its gap; the earlier axes are contiguous in
 * rows. */
static void set_gaps(pk_guarded *g, DLTensor *tensor, int64_t element) {
  const int last = tensor->ndim - 1;
  g->row = tensor->shape[last] * element;
  g->rows /= g->row;
  g->pitch = g->row + GAP * element;
  g->stride[last] = 1;
  for (int k = last - 1; k >= 0; --k)
    g->stride[k] =
        k == last - 1 ? tensor->shape[last] + GAP : g->stride[k + 1] * tensor->shape[k + 1];
  tensor->strides = g->stride;
}

/* Maps memory for a tensor between guard pages. */
bool pk_guard_open(pk_guarded *g, const char *name, pk_guard_place place, DLTensor *tensor,
                   int64_t bytes, int64_t element) {
  *g = (pk_guarded){.name = name, .rows = 1, .row = bytes, .pitch = bytes};
  tensor->strides = NULL;
  if (place == PK_GUARD_BEGIN && element > 0 && bytes > 0 && tensor->ndim > 1) {
    g->rows = bytes;
    set_gaps(g, tensor, element);
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), own = (size_t)bytes_of(g);
  g->span = (own + page - 1) / page * page;
  const size_t length = g->span + 2 * (size_t)FAULTING;
  char *base = mmap(NULL, length, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  if (g->span > 0 && mprotect(base + FAULTING, g->span, PROT_READ | PROT_WRITE) != 0) {
    (void)munmap(base, length);
    return false;
  }
  g->base = base + FAULTING;
  if (g->span > 0) memset(g->base, PATTERN, g->span);
  g->data = place == PK_GUARD_END ? g->base + (g->span - own) : g->base;
  tensor->data = g->data;
  g->next = all;
  all = g;
  return true;
}

void pk_guard_close_all(void) {
  for (; all; all = all->next) (void)munmap(all->base - FAULTING, all->span + 2 * (size_t)FAULTING);
}

void pk_guard_put(const pk_guarded *g, const char *dense) {
  for (int64_t i = 0; i < g->rows && g->row > 0; ++i)
    memcpy(g->data + i * g->pitch, dense + i * g->row, (size_t)g->row);
}

void pk_guard_get(const pk_guarded *g, char *dense) {
  for (int64_t i = 0; i < g->rows && g->row > 0; ++i)
    memcpy(dense + i * g->row, g->data + i * g->pitch, (size_t)g->row);
}

/* The first byte in [from, to) that differs from the pattern; `to` if there is none. */
static const char *first_written(const char *from, const char *to) {
  while (from < to && (unsigned char)*from == PATTERN) ++from;
  return from;
}

static void look_around(const pk_guarded *g) {
  const char *end = g->data + bytes_of(g), *top = g->base + g->span;
  const char *at = first_written(g->base, g->data);
  if (at < g->data && begin_message("wrote"))
    put_place(g->data - at, " before the beginning of ", g->name);
  at = first_written(end, top);
  if (at < top && begin_message("wrote")) put_place(at - end + 1, " past the end of ", g->name);
  for (int64_t i = 0; i + 1 < g->rows; ++i) {
    const char *gap = g->data + i * g->pitch + g->row, *next = gap + (g->pitch - g->row);
    at = first_written(gap, next);
    if (at == next || !begin_message("wrote")) continue;
    put_place(at - gap + 1, " past the end of a row of ", g->name);
    put(", which has a gap there");
  }
}

const char *pk_guard_broken(void) {
  for (const pk_guarded *g = all; g; g = g->next) look_around(g);
  return *message ? message : NULL;
}

static void (*report_fault)(const char *);

static void catch_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  const uintptr_t at = (uintptr_t)info->si_addr;
  for (const pk_guarded *g = all; g; g = g->next) {
    const uintptr_t low = (uintptr_t)g->base, high = low + g->span, begin = (uintptr_t)g->data,
                    end = begin + (uintptr_t)bytes_of(g);
    if (at + FAULTING < low || at >= high + FAULTING || (at >= low && at < high)) continue;
    message_taken = 0;
    message[0] = '\0';
    (void)begin_message("reads or writes");
    if (at < low)
      put_place((int64_t)(begin - at), " before the beginning of ", g->name);
    else
      put_place((int64_t)(at - end) + 1, " past the end of ", g->name);
    report_fault(message);
  }
  (void)signal(number, SIG_DFL); /* where it happens again */
}

void pk_guard_catch(void (*report)(const char *)) {
  struct sigaction action = {.sa_sigaction = catch_fault, .sa_flags = SA_SIGINFO};
  report_fault = report;
  (void)sigaction(SIGSEGV, &action, NULL);
}

/* ---- Fences of the cell that a thread runs. */

enum { MOST_FENCES = 512 };
static _Thread_local struct {
  char *arena;
  int count;
  struct {
    int64_t from, to;
    const char *name;
  } fence[MOST_FENCES];
} cell;

static void look_at_fences(void) {
  for (int i = 0; i < cell.count; ++i) {
    const char *from = cell.arena + cell.fence[i].from, *to = cell.arena + cell.fence[i].to;
    ASAN_UNPOISON_MEMORY_REGION(from, (size_t)(to - from));
    const char *at = first_written(from, to);
    if (at == to || !begin_message("wrote")) continue;
    const bool first = cell.fence[i].from == 0;
    put_place(first ? to - at : at - from + 1,
              first ? " before the beginning of buffer " : " past the end of buffer ",
              cell.fence[i].name + strlen("&a."));
  }
  cell.count = 0;
}

void pk_fence(int64_t from, int64_t to, const char *name) {
  if (!cell.arena) return;
  if (from == 0) look_at_fences();
  if (cell.count == MOST_FENCES) return;
  memset(cell.arena + from, PATTERN, (size_t)(to - from));
  ASAN_POISON_MEMORY_REGION(cell.arena + from, (size_t)(to - from));
  cell.fence[cell.count].from = from;
  cell.fence[cell.count].to = to;
  cell.fence[cell.count++].name = name;
}

typedef struct fenced_kernel fenced_kernel;
struct fenced_kernel {
  pk_kernel kernel; /* with other cells */
  const pk_kernel *original;
  fenced_kernel *next;
};
static fenced_kernel *fenced;
static pthread_mutex_t fenced_lock = PTHREAD_MUTEX_INITIALIZER;

static void run_fenced(const pk_call *call, pk_worker *worker, int64_t number) {
  cell.arena = worker->arena;
  ((const fenced_kernel *)(const void *)call->kernel)->original->cell(call, worker, number);
  look_at_fences();
  cell.arena = NULL;
}

const pk_kernel *pk_fenced(const pk_kernel *kernel) {
  if (!kernel->cell) return kernel;
  (void)pthread_mutex_lock(&fenced_lock);
  fenced_kernel *f = fenced;
  while (f && f->original != kernel) f = f->next;
  if (!f && (f = calloc(1, sizeof *f))) {
    f->kernel = *kernel;
    f->kernel.cell = run_fenced;
    f->original = kernel;
    f->next = fenced;
    fenced = f;
  }
  (void)pthread_mutex_unlock(&fenced_lock);
  return f ? &f->kernel : kernel;
}
