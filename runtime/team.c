/* A team: one job at a time, which several threads may join while it is open, and the waiting of
 * both sides. */
#include "runtime/team.h"

#include "runtime/platform.h"

enum { SPIN_NANOSECONDS = 200000, PAUSES_PER_LOOK_AT_CLOCK = 32 };

/* team->state: the job's number, its places (the free ones, if members have no places of their own;
 * 0: closed), and the number of active members.
 */
#define NUMBER_SHIFT 32
#define LAST_NUMBER ((uint64_t)0xffffffff)
#define PLACE ((uint64_t)1 << 16)
#define PLACES ((uint64_t)0xffff << 16)
#define ACTIVE ((uint64_t)0xffff)

bool pk_team_init(pk_team *team) {
  *team = (pk_team){0};
  if (pthread_mutex_init(&team->lock, NULL) != 0) return false;
  if (pthread_cond_init(&team->opened, NULL) == 0) {
    if (pthread_cond_init(&team->finished, NULL) == 0) return true;
    (void)pthread_cond_destroy(&team->opened);
  }
  (void)pthread_mutex_destroy(&team->lock);
  return false;
}

void pk_team_destroy(pk_team *team) {
  (void)pthread_cond_destroy(&team->finished);
  (void)pthread_cond_destroy(&team->opened);
  (void)pthread_mutex_destroy(&team->lock);
}

static void pause_processor(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool is_called(pk_team *team, uint64_t seen) {
  return atomic_load(&team->number) != seen || atomic_load(&team->dismissed);
}

static bool is_idle(pk_team *team, uint64_t unused) {
  (void)unused;
  return !(atomic_load(&team->state) & ACTIVE);
}

typedef bool condition(pk_team *team, uint64_t seen);

static bool spin_until(condition *holds, pk_team *team, uint64_t seen) {
  const int64_t end = pk_trace_now() + SPIN_NANOSECONDS;
  do {
    for (int i = 0; i < PAUSES_PER_LOOK_AT_CLOCK; ++i) {
      if (holds(team, seen)) return true;
      pause_processor();
    }
  } while (pk_trace_now() < end);
  return false;
}

/* A waiting thread increments `sleepers` before it tests the condition; the thread that makes the
 * condition true reads `sleepers` afterwards. At least one of the two therefore sees the other's
 * write. */
static void sleep_until(condition *holds, pk_team *team, uint64_t seen, pthread_cond_t *change,
                        atomic_int *sleepers) {
  (void)pthread_mutex_lock(&team->lock);
  (void)atomic_fetch_add(sleepers, 1);
  while (!holds(team, seen)) (void)pthread_cond_wait(change, &team->lock);
  (void)atomic_fetch_sub(sleepers, 1);
  (void)pthread_mutex_unlock(&team->lock);
}

/* Threads that do not sleep need not be woken. */
static void wake(pk_team *team, pthread_cond_t *change, atomic_int *sleepers) {
  if (atomic_load(sleepers) == 0) return;
  /* By now a sleeper has begun to wait, or has not tested the condition yet. */
  (void)pthread_mutex_lock(&team->lock);
  (void)pthread_mutex_unlock(&team->lock);
  (void)pthread_cond_broadcast(change);
}

void pk_team_open(pk_team *team, int places, pk_share *share, void *run) {
  team->share = share;
  team->run = run;
  atomic_store(&team->processor, pk_current_processor());
  (void)fegetenv(&team->environment);
  const uint64_t number = (atomic_load(&team->number) + 1) & LAST_NUMBER;
  atomic_store(&team->state, number << NUMBER_SHIFT | (uint64_t)places * PLACE);
  atomic_store(&team->number, number); /* members may have joined before they see it */
  wake(team, &team->opened, &team->waiting_members);
}

void pk_team_close(pk_team *team, bool spin) {
  (void)atomic_fetch_and(&team->state, ~PLACES);
  if (is_idle(team, 0) || (spin && spin_until(is_idle, team, 0))) return;
  sleep_until(is_idle, team, 0, &team->finished, &team->waiting_caller);
}

bool pk_team_dismiss(pk_team *team) {
  atomic_store(&team->dismissed, true);
  if (atomic_load(&team->state) & (PLACES | ACTIVE)) return false;
  wake(team, &team->opened, &team->waiting_members);
  return true;
}

/* Enters a job other than `seen`, which becomes the number of the job. Returns the place in it, or
 * 0. */
static int join(pk_team *team, uint64_t *seen, int own) {
  uint64_t state = atomic_load(&team->state);
  const uint64_t taken = own ? 0 : PLACE;
  int places;
  do {
    if (state >> NUMBER_SHIFT == *seen) return 0;
    places = (int)((state & PLACES) / PLACE);
    if (places == 0 || places < own) break;
  } while (!atomic_compare_exchange_weak(&team->state, &state, state - taken + 1));
  *seen = state >> NUMBER_SHIFT;
  return places < own ? 0 : own ? own : places;
}

static void leave(pk_team *team) {
  if ((atomic_fetch_sub(&team->state, 1) & ACTIVE) > 1) return;
  wake(team, &team->finished, &team->waiting_caller);
}

bool pk_team_join(pk_team *team, uint64_t *seen, int own) {
  const int place = join(team, seen, own);
  if (place == 0) return false;
  (void)fesetenv(&team->environment);
  team->share(team->run, place);
  leave(team);
  return true;
}

void pk_team_await(pk_team *team, uint64_t seen, bool spin) {
  if (spin && spin_until(is_called, team, seen)) return;
  sleep_until(is_called, team, seen, &team->opened, &team->waiting_members);
  const int processor = pk_current_processor();
  if (!(atomic_load(&team->state) & PLACES) || processor < 0) return;
  if (processor == atomic_load(&team->processor)) pk_leave_processor(processor);
}
