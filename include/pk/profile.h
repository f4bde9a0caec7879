/* Time by place of a kernel, for `pkc profile`; only its builds include this file. A thread is
 * at one place at a time; place 0 is outside the kernel's cells. The devices of a mesh have new
 * threads in each call: their laps belong to the device. */
#ifndef PK_PROFILE_H
#define PK_PROFILE_H

#include <pk/rt.h>

#include <stdint.h>
#include <time.h>

enum { PK_MAX_PLACES = 512 };

typedef struct {
  uint64_t start, end;
  int place;
} pk_lap_event;

/* The laps of one thread or device. */
typedef struct pk_laps {
  uint64_t since; /* the time at which it reached `place` */
  int place;
  uint64_t ticks[PK_MAX_PLACES], visits[PK_MAX_PLACES];
  pk_lap_event *event; /* the newest laps; NULL: not recorded */
  uint64_t events, capacity;
} pk_laps;

extern _Thread_local pk_laps *pk_thread_laps; /* NULL before the thread's first lap */
void pk_list_laps(void);                      /* gives this thread laps of its own */
/* Gives this thread the laps of a device, by its index along each axis of the mesh. */
void pk_device_laps(const int64_t *index);

static inline uint64_t pk_ticks(void) {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* Begins a lap: from now on this thread is at `place`. */
static inline void pk_lap(int place) {
  if (!pk_thread_laps) pk_list_laps();
  pk_laps *laps = pk_thread_laps;
  uint64_t now = pk_ticks();
  laps->ticks[laps->place] += now - laps->since;
  ++laps->visits[place];
  if (laps->event && laps->place) {
    laps->event[laps->events++ % laps->capacity] = (pk_lap_event){laps->since, now, laps->place};
  }
  laps->since = now;
  laps->place = place;
}

#endif
