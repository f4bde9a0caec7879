/* Threads for the calls of a context: its own, or those of the host. */
#include "runtime/platform.h"
#include "runtime/team.h"

#include <string.h>

/* One thread of a pool. */
typedef struct {
  pk_pool *pool;
  int place;
  pthread_t thread;
} own_thread;

/* A context's own threads. They block all signals. */
struct pk_pool {
  pk_team team;
  pk_pool *next, **link; /* in the list of pools whose threads run; link NULL: not in the list */
  int threads, calls_until_retry;
  own_thread member[PK_MAX_THREADS];
};

/* Shared state of one call's tasks in a host's pool. Late tasks may outlive the call and the
 * context. */
struct pk_guests {
  pk_team team;
  atomic_int references; /* the context's, and one for each task still to run */
};

/* Zeroed memory for a team; NULL: no memory. */
static void *allocate(size_t bytes) {
  void *memory = pk_allocate_aligned(bytes, PK_APART);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

/* ---- Processes: the state after fork, and the end of all threads before the library is
 * unloaded. */

enum { CALLS_UNTIL_RETRY = 1000, LEAST_STACK = 1 << 20 };

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static bool watched;
/* fork takes this lock too, so nothing else is locked or allocated while it is held. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pk_pool *list;
static atomic_uint forks;
static atomic_int threads_in_use; /* threads of all pools, and one caller for each pool */
static atomic_int at_work;        /* threads of the calls in progress, including callers */
static atomic_int processors;

static void lock_list(void) { (void)pthread_mutex_lock(&list_lock); }
static void unlock_list(void) { (void)pthread_mutex_unlock(&list_lock); }

/* fork copies only the calling thread. */
static void begin_child(void) {
  list = NULL;
  (void)atomic_fetch_add(&forks, 1);
  atomic_store(&threads_in_use, 0);
  atomic_store(&at_work, 0);
  unlock_list();
}

static void watch(void) { watched = pk_at_fork(lock_list, unlock_list, begin_child); }

bool pk_watch_forks(void) {
  (void)pthread_once(&watch_once, watch);
  return watched;
}

unsigned pk_forks(void) { return atomic_load(&forks); }

static void enlist(pk_pool *pool) {
  lock_list();
  pool->next = list;
  pool->link = &list;
  if (list) list->link = &pool->next;
  list = pool;
  unlock_list();
}

/* False if the library is being unloaded and its threads have ended. */
static bool delist(pk_pool *pool) {
  lock_list();
  const bool listed = pool->link != NULL;
  if (listed) {
    *pool->link = pool->next;
    if (pool->next) pool->next->link = pool->link;
    pool->link = NULL;
  }
  unlock_list();
  return listed;
}

static void end_threads(pk_pool *pool) {
  if (!pk_team_dismiss(&pool->team)) return;
  for (int i = 0; i < pool->threads; ++i) (void)pthread_join(pool->member[i].thread, NULL);
  (void)atomic_fetch_sub(&threads_in_use, pool->threads + 1);
}

/* No thread may run code of the library when it is unloaded, and nothing else closes the default
 * contexts of threads. */
__attribute__((destructor)) static void end_all_threads(void) {
  for (;;) {
    lock_list();
    pk_pool *pool = list;
    unlock_list();
    if (!pool || !delist(pool)) return;
    end_threads(pool);
  }
}

/* ---- The number of threads of a call. */

int pk_begin_work(const pk_context *context, int wanted) {
  int others = atomic_load(&at_work), threads;
  do {
    const int left = pk_allowed_threads(context) - others;
    threads = !context->automatic || wanted <= left ? wanted : left < 1 ? 1 : left;
  } while (!atomic_compare_exchange_weak(&at_work, &others, others + threads));
  return threads;
}

void pk_end_work(int threads) { (void)atomic_fetch_sub(&at_work, threads); }

/* ---- A context's own threads. */

/* With more threads than processors, spinning would take a processor from a thread with work. */
static bool may_spin(void) { return atomic_load(&threads_in_use) <= atomic_load(&processors); }

static void *work(void *argument) {
  const own_thread *member = argument;
  pk_team *team = &member->pool->team;
  uint64_t seen = PK_NO_JOB;
  while (!atomic_load(&team->dismissed)) {
    if (!pk_team_join(team, &seen, member->place)) pk_team_await(team, seen, may_spin());
  }
  return NULL;
}

/* The default stack of some C libraries is smaller than a matrix product needs. */
static void set_stack(pthread_attr_t *attributes) {
  size_t bytes = 0;
  if (pthread_attr_getstacksize(attributes, &bytes) == 0 && bytes < LEAST_STACK) {
    (void)pthread_attr_setstacksize(attributes, LEAST_STACK);
  }
}

static bool create_thread(own_thread *member) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  set_stack(&attributes);
  const bool created = pk_start_quiet_thread(&member->thread, &attributes, work, member);
  (void)pthread_attr_destroy(&attributes);
  return created;
}

static bool start_thread(pk_pool *pool) {
  own_thread *member = &pool->member[pool->threads];
  *member = (own_thread){.pool = pool, .place = pool->threads + 1};
  if (!create_thread(member)) return false;
  ++pool->threads;
  (void)atomic_fetch_add(&threads_in_use, 1);
  return true;
}

static pk_pool *new_pool(void) {
  pk_pool *pool = allocate(sizeof *pool);
  if (!pool) return NULL;
  if (!pk_team_init(&pool->team)) {
    pk_free_aligned(pool);
    return NULL;
  }
  atomic_store(&processors, pk_processors());
  (void)atomic_fetch_add(&threads_in_use, 1);
  enlist(pool);
  return pool;
}

/* If the system refuses a thread, later calls do not ask again. */
static void start_threads(pk_pool *pool, int threads) {
  if (pool->threads >= threads) return;
  if (pool->calls_until_retry > 0 && --pool->calls_until_retry > 0) return;
  while (pool->threads < threads) {
    if (start_thread(pool)) continue;
    pool->calls_until_retry = CALLS_UNTIL_RETRY;
    return;
  }
}

static void run_on_own(pk_context *context, int threads, pk_share *share, void *run) {
  if (!context->pool) context->pool = new_pool();
  pk_pool *pool = context->pool;
  if (pool) start_threads(pool, threads - 1);
  if (!pool || pool->threads == 0) {
    share(run, 0);
    return;
  }
  pk_team_open(&pool->team, threads - 1, share, run);
  share(run, 0);
  pk_team_close(&pool->team, may_spin());
}

/* ---- The host's threads. */

static void drop_guests(pk_guests *guests, int references) {
  if (atomic_fetch_sub(&guests->references, references) != references) return;
  pk_team_destroy(&guests->team);
  pk_free_aligned(guests);
}

static pk_guests *new_guests(void) {
  pk_guests *guests = allocate(sizeof *guests);
  if (!guests) return NULL;
  if (!pk_team_init(&guests->team)) {
    pk_free_aligned(guests);
    return NULL;
  }
  atomic_store(&guests->references, 1);
  atomic_store(&processors, pk_processors());
  return guests;
}

/* Reuses the state of an earlier call, unless tasks of that call have not run yet. */
static pk_guests *ready_guests(pk_context *context) {
  pk_guests *guests = context->guests;
  if (guests && atomic_load(&guests->references) == 1) return guests;
  if (guests) drop_guests(guests, 1);
  return context->guests = new_guests();
}

static void run_guest(void *argument) {
  pk_guests *guests = argument;
  fenv_t environment;
  uint64_t seen = PK_NO_JOB;
  (void)fegetenv(&environment);
  (void)pk_team_join(&guests->team, &seen, 0);
  (void)fesetenv(&environment);
  drop_guests(guests, 1);
}

static void run_on_host(pk_context *context, int threads, pk_share *share, void *run) {
  pk_guests *guests = ready_guests(context);
  if (!guests) {
    share(run, 0);
    return;
  }
  const int places = threads - 1;
  (void)atomic_fetch_add(&guests->references, places);
  pk_team_open(&guests->team, places, share, run);
  const int arranged = context->host_run(context->host_pool, places, run_guest, guests);
  if (arranged < places) drop_guests(guests, arranged < 0 ? places : places - arranged);
  share(run, 0);
  pk_team_close(&guests->team, threads <= atomic_load(&processors));
}

/* ---- Threads of either kind. */

void pk_run_shared(pk_context *context, int threads, pk_share *share, void *run) {
  if (threads == 1) {
    share(run, 0);
  } else if (context->host_run) {
    run_on_host(context, threads, share, run);
  } else {
    run_on_own(context, threads, share, run);
  }
}

void pk_free_threads(pk_context *context) {
  if (context->guests) drop_guests(context->guests, 1);
  context->guests = NULL;
  pk_pool *pool = context->pool;
  context->pool = NULL;
  if (!pool) return;
  if (delist(pool)) end_threads(pool);
  pk_team_destroy(&pool->team);
  pk_free_aligned(pool);
}

void pk_forget_threads(pk_context *context) {
  pk_free_aligned(context->pool);
  context->pool = NULL;
  context->guests = NULL;
}
