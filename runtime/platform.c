/* Operating systems: see platform.h. The first half is Windows, the second one POSIX. */
#define _GNU_SOURCE
#define _DARWIN_C_SOURCE
#include "runtime/platform.h"

#include <stdlib.h>

#ifdef _WIN32
#include <malloc.h>
#include <windows.h>

void *pk_allocate_aligned(size_t bytes, size_t alignment) {
  return _aligned_malloc(bytes, alignment);
}
void pk_free_aligned(void *memory) { _aligned_free(memory); }

int pk_schedulable(void) {
  DWORD_PTR own = 0, all = 0;
  if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all) || !own) return 1;
  return __builtin_popcountll(own);
}

int pk_current_processor(void) { return -1; }
void pk_leave_processor(int processor) { (void)processor; }

bool pk_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  (void)before, (void)in_parent, (void)in_child;
  return true;
}

bool pk_start_quiet_thread(pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*body)(void *), void *argument) {
  return pthread_create(thread, attributes, body, argument) == 0;
}

FILE *pk_open_text(const char *path) { return fopen(path, "r"); }

#else
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

void *pk_allocate_aligned(size_t bytes, size_t alignment) {
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  if (alignment == PK_HUGE_PAGE) (void)madvise(memory, bytes, MADV_HUGEPAGE); /* only a hint */
#endif
  return memory;
}

void pk_free_aligned(void *memory) { free(memory); }

int pk_schedulable(void) {
#ifdef CPU_COUNT
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > 1 << 20 ? 1 << 20 : (int)online;
}

int pk_current_processor(void) {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

void pk_leave_processor(int processor) {
#ifdef CPU_CLR
  cpu_set_t all, others;
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  others = all;
  CPU_CLR((size_t)processor, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0)
    (void)sched_setaffinity(0, sizeof all, &all);
#else
  (void)processor;
#endif
}

bool pk_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  return pthread_atfork(before, in_parent, in_child) == 0;
}

bool pk_start_quiet_thread(pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*body)(void *), void *argument) {
  sigset_t all, before;
  (void)sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  const bool started = pthread_create(thread, attributes, body, argument) == 0;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

FILE *pk_open_text(const char *path) { return fopen(path, "re"); }

#endif
