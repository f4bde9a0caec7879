/* Records laps by thread or by device, keeps those of the fastest call, and writes them. */
#include "laps.h"

#include <pk/link.h>
#include <pk/profile.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, EVENTS = 1 << 16, NEXT = -1 };

_Thread_local pk_laps *pk_thread_laps;
static _Thread_local pk_laps unlisted; /* of a thread too many, or without memory */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pk_laps *list[MAX_THREADS]; /* of a mesh: by device */
static int count;
static const pk_mesh *devices;
static uint64_t recorded_from;

/* The times that were kept, by thread. */
static uint64_t (*kept_ticks)[PK_MAX_PLACES], (*kept_visits)[PK_MAX_PLACES];
static int kept;

void pk_laps_begin(const pk_mesh *mesh) { devices = mesh; }

/* Gives this thread the laps of that number, and makes those that do not exist yet. */
static void give_laps(int number) {
  (void)pthread_mutex_lock(&lock);
  if (number == NEXT) number = count;
  while (count <= number && count < MAX_THREADS) {
    list[count] = calloc(1, sizeof **list);
    if (!list[count]) break;
    list[count++]->since = pk_ticks();
  }
  pk_thread_laps = number < count ? list[number] : &unlisted;
  (void)pthread_mutex_unlock(&lock);
}

void pk_list_laps(void) { give_laps(NEXT); }

void pk_device_laps(const int64_t *index) {
  int64_t number = 0;
  for (int i = 0; i < devices->axes; ++i) number = number * devices->extent[i] + index[i];
  if (!pk_thread_laps || pk_thread_laps != list[number]) give_laps((int)number);
}

double pk_laps_cost(void) {
  enum { laps = 10000, rounds = 20 };
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < rounds; ++round) {
    uint64_t start = pk_ticks();
    for (int i = 0; i < laps; ++i) pk_lap(i % 2);
    uint64_t taken = pk_ticks() - start;
    if (taken < best) best = taken;
  }
  pk_lap(0);
  return (double)best / laps;
}

void pk_laps_clear(void) {
  for (int i = 0; i < count; ++i) {
    memset(list[i]->ticks, 0, sizeof list[i]->ticks);
    memset(list[i]->visits, 0, sizeof list[i]->visits);
    list[i]->since = pk_ticks();
  }
}

bool pk_laps_keep(void) {
  uint64_t now = pk_ticks();
  kept = count;
  kept_ticks = realloc(kept_ticks, sizeof *kept_ticks * (size_t)kept);
  kept_visits = realloc(kept_visits, sizeof *kept_visits * (size_t)kept);
  if (!kept_ticks || !kept_visits) return false;
  for (int i = 0; i < kept; ++i) {
    memcpy(kept_ticks[i], list[i]->ticks, sizeof *kept_ticks);
    memcpy(kept_visits[i], list[i]->visits, sizeof *kept_visits);
    kept_ticks[i][0] += now - list[i]->since;
  }
  return true;
}

void pk_laps_print(double tick_ns) {
  (void)printf("lap_threads=%d\n", kept);
  for (int i = 0; i < kept; ++i) {
    for (int place = 0; place < PK_MAX_PLACES; ++place) {
      if (kept_visits[i][place] == 0 && kept_ticks[i][place] == 0) continue;
      (void)printf("lap=%d %d %.6g %" PRIu64 "\n", i, place, (double)kept_ticks[i][place] * tick_ns,
                   kept_visits[i][place]);
    }
  }
}

void pk_laps_record(void) {
  for (int i = 0; i < count; ++i) {
    list[i]->event = calloc(EVENTS, sizeof *list[i]->event);
    list[i]->capacity = EVENTS;
  }
  pk_laps_clear();
  recorded_from = pk_ticks();
}

void pk_laps_write(const char *path, double tick_ns) {
  FILE *file = fopen(path, "w");
  uint64_t dropped = 0;
  for (int i = 0; i < count; ++i) {
    const pk_laps *laps = list[i];
    uint64_t first = laps->events > EVENTS ? laps->events - EVENTS : 0;
    dropped += first;
    for (uint64_t k = first; file && laps->event && k < laps->events; ++k) {
      const pk_lap_event *e = &laps->event[k % EVENTS];
      (void)fprintf(file, "%d %d %.1f %.1f\n", i, e->place,
                    (double)(e->start - recorded_from) * tick_ns,
                    (double)(e->end - e->start) * tick_ns);
    }
  }
  bool written = file && ferror(file) == 0;
  if (!file || fclose(file) != 0 || !written) (void)printf("laps_wrong=%s\n", strerror(errno));
  (void)printf("laps_dropped=%" PRIu64 "\n", dropped);
}
