/* Threads of calls: those of contexts and of the host, fork, failed allocations, permitted callers.
 */
// flags: -Wl,--wrap=pthread_create -Wl,--wrap=pthread_cond_broadcast -Wl,--wrap=pthread_cond_wait
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include "check.h"
#include "threads.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define THREAD_SANITIZER 1
#endif
#ifdef __SANITIZE_ADDRESS__
#define ADDRESS_SANITIZER 1
#endif
#ifdef THREAD_SANITIZER
/* It does not support threads that a child of fork starts. */
#define FORKS 0
#else
#define FORKS 1
#endif

enum { CHILD_SECONDS = 60, GATHER_SECONDS = 20, CELLS = 200 };

/* ---- Threads that the system refuses to create. */

static int threads_to_give = INT32_MAX; /* number of calls of pthread_create that will succeed */
static int threads_asked;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument) {
  __atomic_add_fetch(&threads_asked, 1, __ATOMIC_RELAXED);
  if (__atomic_sub_fetch(&threads_to_give, 1, __ATOMIC_RELAXED) < 0) return 11;
  return __real_pthread_create(thread, attributes, start, argument);
}

/* ---- The number of times that threads are woken and wait. */

static _Thread_local int wake_ups, waits; /* of this thread */

int __real_pthread_cond_broadcast(pthread_cond_t *);
int __wrap_pthread_cond_broadcast(pthread_cond_t *);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition) {
  ++wake_ups;
  return __real_pthread_cond_broadcast(condition);
}

int __real_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int __wrap_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock) {
  ++waits;
  return __real_pthread_cond_wait(condition, lock);
}

/* A call of an earlier test. */
static int threads_at_rest(void) {
  int least = threads_of_process();
  for (int i = 0; i < 30; ++i) {
    (void)usleep(1000);
    const int count = threads_of_process();
    if (count < least) least = count;
  }
  return least;
}

static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- A kernel of one operand, count(x: i32[N]): cell i adds one to x[i]. */

typedef struct {
  int64_t arena_bytes, fail_from;
  bool gather;       /* the calling thread waits in its cell until another one has run a cell */
  bool long_first;   /* cell 0 lasts until all other cells are done */
  int done;          /* cells */
  const void **seen; /* NULL, or for each cell the arena that it had */
  int others;        /* number of cells on threads other than the calling one */
  bool other_blocks_signals, other_rounds_up;
} settings;

static settings standard(void) { return (settings){.arena_bytes = 64, .fail_from = INT64_MAX}; }
static settings *set_of(const pk_call *call) { return (settings *)(void *)call->array[1].data; }
static _Thread_local settings *prepared; /* `prepare` sees no operands */

static const char *prepare(int64_t *size, pk_plan *plan) {
  *plan = (pk_plan){
      .cells = size[0], .steps = size[0], .arena_bytes = prepared->arena_bytes, .work = 1e7};
  return NULL;
}

static bool blocks_signals(void) {
  sigset_t set;
  return pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 && sigismember(&set, SIGINT) &&
         sigismember(&set, SIGUSR1) && sigismember(&set, SIGCHLD);
}

static void be_other(settings *set) {
  __atomic_store_n(&set->other_blocks_signals, blocks_signals(), __ATOMIC_RELAXED);
  __atomic_store_n(&set->other_rounds_up, fegetround() == FE_UPWARD, __ATOMIC_RELAXED);
  __atomic_add_fetch(&set->others, 1, __ATOMIC_RELEASE);
}

static void await_others(const settings *set) {
  const double end = seconds() + GATHER_SECONDS;
  while (set->gather && !__atomic_load_n(&set->others, __ATOMIC_ACQUIRE) && seconds() < end)
    (void)sched_yield();
}

static void await_cells(const settings *set, int cells) {
  const double end = seconds() + GATHER_SECONDS;
  while (__atomic_load_n(&set->done, __ATOMIC_ACQUIRE) < cells && seconds() < end)
    (void)sched_yield();
}

static void cell(const pk_call *call, pk_worker *worker, int64_t i) {
  settings *set = set_of(call);
  if (set->seen) set->seen[i] = worker->arena;
  if (set->long_first && i == 0) await_cells(set, CELLS - 1);
  static const char *const message[2] = {"an even cell", "an odd cell"};
  ((int *)(void *)call->array[0].data)[i] += 1;
  worker->arena[0] = 1;
  if (worker->thread > 0) be_other(set);
  if (worker->thread == 0) await_others(set);
  if (i >= set->fail_from) pk_fail(worker, message[i % 2]);
  __atomic_add_fetch(&set->done, 1, __ATOMIC_RELEASE);
}

static const char *const sizes[] = {"N"};
static const pk_operand operands[] = {{"x", PK_I32, 1, false, -1, {-1}},
                                      {"settings", PK_U8, 1, false, -1, {sizeof(settings)}}};
static const pk_kernel count_kernel = {.abi = PK_ABI,
                                       .name = "count",
                                       .operands = 2,
                                       .inputs = 2,
                                       .operand = operands,
                                       .sizes = 1,
                                       .size_name = sizes,
                                       .bound = 1,
                                       .prepare = prepare,
                                       .cell = cell};

static pk_status call_cells(pk_context *context, settings *set, int *x, int64_t cells) {
  int64_t bytes = sizeof *set;
  DLTensor tx = {x, {kDLCPU, 0}, 1, {kDLInt, 32, 1}, &cells, NULL, 0};
  DLTensor ts = {set, {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &bytes, NULL, 0};
  prepared = set;
  return pk_call_kernel(context, &count_kernel, (DLTensor *[]){&tx, &ts});
}

/* Calls with `set`, and checks that each cell ran once. */
static bool calls_with(pk_context *context, settings *set) {
  int x[CELLS] = {0};
  if (call_cells(context, set, x, CELLS) != PK_OK) return false;
  for (int i = 0; i < CELLS; ++i) {
    if (x[i] != 1) return false;
  }
  return true;
}

static bool calls(pk_context *context) {
  settings set = standard();
  return calls_with(context, &set);
}

/* A call in which other threads of the context run cells. */
static bool calls_shared(pk_context *context) {
  settings set = standard();
  set.gather = true;
  return calls_with(context, &set) && set.others > 0;
}

static pk_context *context_of(int threads) {
  pk_context *context = pk_context_new();
  if (context) pk_context_set_threads(context, threads);
  return context;
}

/* ---- */

static void test_own_threads(void) {
  const int before = threads_at_rest();
  pk_context *context = context_of(3);
  EXPECT(threads_become(before));
  for (int i = 0; i < 10; ++i) EXPECT(calls_shared(context));
  EXPECT(threads_of_process() <= before + 2);
  for (int i = 0; i < 10000; ++i) {
    if (!calls(context)) EXPECT(!"a short call");
  }
  pk_context_set_threads(context, 2);
  for (int i = 0; i < 10; ++i) EXPECT(calls_shared(context));
  pk_context_set_threads(context, 5);
  for (int i = 0; i < 10; ++i) EXPECT(calls_shared(context));
  pk_context_free(context);
  EXPECT(threads_become(before));
}

/* Cells of different duration: one takes as long as all others, which other threads run meanwhile.
 */
static void test_unequal_cells(void) {
  pk_context *context = context_of(3);
  for (int i = 0; i < 20; ++i) {
    settings set = standard();
    set.long_first = true;
    const double start = seconds();
    EXPECT(calls_with(context, &set) && set.done == CELLS);
    EXPECT(seconds() - start < GATHER_SECONDS);
  }
  pk_context_free(context);
}

/* Arenas of different threads share no pair of cache lines. */
static void test_arenas_apart(void) {
  pk_context *context = context_of(4);
  settings set = standard();
  const void *seen[CELLS] = {0};
  set.gather = true;
  set.seen = seen;
  EXPECT(calls_with(context, &set));
  int arenas = 1;
  for (int i = 0; i < CELLS; ++i) {
    const ptrdiff_t distance = (const char *)seen[i] - (const char *)seen[0];
    EXPECT(distance == 0 || distance >= PK_APART || distance <= -PK_APART);
    arenas += distance != 0;
  }
  EXPECT(arenas > 1);
  pk_context_free(context);
}

/* A call wakes threads at most once and waits for them at most once, for any number of threads. */
static void test_one_wake_up(void) {
  pk_context *context = context_of(64);
  EXPECT(calls_shared(context));
  int woken = 0;
  for (int i = 0; i < 30; ++i) {
    if (i % 10 == 0) (void)usleep(20000); /* all sleep */
    wake_ups = waits = 0;
    EXPECT(calls(context));
    EXPECT(wake_ups <= 1 && waits <= 1);
    woken += wake_ups;
  }
  EXPECT(woken > 0);
  pk_context_free(context);
}

/* Many more threads than processors, in several contexts at the same time. */
static void *call_on_64(void *marker) {
  pk_context *context = context_of(64);
  bool right = true;
  for (int i = 0; i < 100; ++i) right = right && calls(context);
  pk_context_free(context);
  return right ? marker : NULL;
}

static void test_64_threads(void) {
  pthread_t thread[4];
  const int before = threads_at_rest();
  for (int i = 0; i < 4; ++i)
    EXPECT(pthread_create(&thread[i], NULL, call_on_64, &threads_to_give) == 0);
  for (int i = 0; i < 4; ++i) {
    void *result = NULL;
    EXPECT(pthread_join(thread[i], &result) == 0 && result);
  }
  EXPECT(threads_become(before));
}

/* Without a chosen number, calls at the same time start no more threads than share the processors.
 */
static void *call_by_default(void *marker) {
  pk_context *context = pk_context_new();
  bool right = true;
  context->threads = 4; /* as if there were 4 processors */
  for (int i = 0; i < 200; ++i) right = right && calls(context);
  pk_context_free(context);
  return right ? marker : NULL;
}

/* A call from within a cell of another one, which has all processors, stays on its thread. */
static void test_calls_share_processors(void) {
  pthread_t thread[8];
  pk_context *outer = pk_context_new(), *inner = pk_context_new();
  outer->threads = inner->threads = 4;
  const int all = pk_begin_work(outer, 4), before = threads_at_rest();
  for (int i = 0; i < 10; ++i) EXPECT(calls(inner));
  EXPECT(all == 4 && threads_of_process() == before);
  pk_end_work(all);
  for (int i = 0; i < 8; ++i)
    EXPECT(pthread_create(&thread[i], NULL, call_by_default, &threads_to_give) == 0);
  for (int i = 0; i < 8; ++i) {
    void *result = NULL;
    EXPECT(pthread_join(thread[i], &result) == 0 && result);
  }
  EXPECT(pk_begin_work(outer, 4) == 4); /* all have returned their share */
  pk_end_work(4);
  pk_context_free(outer);
  pk_context_free(inner);
}

/* Members may be at any point between two jobs when they are dismissed. */
static void test_short_lives(void) {
  enum { LIVES = 5000 };
  const int before = threads_at_rest();
  for (int i = 0; i < LIVES; ++i) {
    pk_context *context = context_of(2 + i % 3);
    settings set = standard();
    int x[CELLS] = {0};
    EXPECT(call_cells(context, &set, x, 2 + i % 7) == PK_OK);
    for (int k = 0; k < i % 61; ++k) (void)fegetround();
    pk_context_free(context);
  }
  EXPECT(threads_become(before));
}

static void test_what_threads_inherit(void) {
  sigset_t none, before;
  (void)sigemptyset(&none);
  (void)pthread_sigmask(SIG_SETMASK, &none, &before);
  pk_context *context = context_of(2);
  settings set = standard();
  set.gather = true;
  EXPECT(calls_with(context, &set) && set.other_blocks_signals && !set.other_rounds_up);
  EXPECT(!blocks_signals());
  set.others = 0;
  (void)fesetround(FE_UPWARD);
  const bool right = calls_with(context, &set);
  (void)fesetround(FE_TONEAREST);
  EXPECT(right && set.other_rounds_up);
  pk_context_free(context);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void test_first_failure(void) {
  for (int threads = 1; threads <= 4; ++threads) {
    pk_context *context = context_of(threads);
    for (int64_t from = 0; from < CELLS; from += 13) {
      int x[CELLS] = {0};
      settings set = standard();
      set.fail_from = from;
      EXPECT(call_cells(context, &set, x, CELLS) == PK_FAILED);
      EXPECT(strcmp(pk_message(context), from % 2 ? "count: an odd cell" : "count: an even cell") ==
             0);
    }
    EXPECT(calls(context));
    pk_context_free(context);
  }
}

/* ---- Fork. */

static bool child_is_well(pid_t child) {
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (status) printf("  a child ended with status %x\n", (unsigned)status);
  return status == 0;
}

static bool descends(pk_context *context, int generations) {
  const pid_t child = fork();
  if (child == 0) {
    (void)alarm(CHILD_SECONDS);
    bool right = calls(context) && calls_shared(context) && calls_shared(NULL);
    pk_context *fresh = context_of(2);
    right =
        right && calls_shared(fresh) && (generations == 1 || descends(context, generations - 1));
    pk_context_free(fresh);
    pk_context_free(context);
    _exit(!right);
  }
  return child_is_well(child);
}

static void test_fork(void) {
  pk_context *context = context_of(2);
  pk_context_set_threads(NULL, 2);
  EXPECT(calls_shared(context) && calls_shared(NULL));
  for (int i = 0; i < 3; ++i) {
    EXPECT(descends(context, 2));
    EXPECT(calls_shared(context) && calls_shared(NULL));
  }
  pk_context_free(context);
  pk_context_set_threads(NULL, 0);
}

static int stop_calling;

static void *call_until_stopped(void *context) {
  while (!__atomic_load_n(&stop_calling, __ATOMIC_RELAXED)) {
    if (!calls(context)) return NULL;
  }
  return context;
}

static void test_fork_while_calling(void) {
  pk_context *used = context_of(3), *mine = context_of(2);
  pthread_t thread;
  stop_calling = 0;
  EXPECT(calls_shared(mine));
  if (!EXPECT(pthread_create(&thread, NULL, call_until_stopped, used) == 0)) return;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      (void)alarm(CHILD_SECONDS);
      const bool right = calls_shared(mine) && calls_shared(used) && calls(used);
      pk_context_free(used);
      pk_context_free(mine);
      _exit(!right);
    }
    if (!EXPECT(child_is_well(child))) break;
  }
  void *result = NULL;
  __atomic_store_n(&stop_calling, 1, __ATOMIC_RELAXED);
  EXPECT(pthread_join(thread, &result) == 0 && result);
  pk_context_free(used);
  pk_context_free(mine);
}

static void test_recording_is_the_parents(void) {
  char path[] = "/tmp/pk_traceXXXXXX";
  const int fd = mkstemp(path);
  if (!EXPECT(fd >= 0)) return;
  pk_context *context = context_of(2);
  EXPECT(pk_context_trace(context, path) == PK_OK && calls_shared(context));
  const pid_t child = fork();
  if (child == 0) {
    const bool right = calls_shared(context);
    pk_context_free(context);
    _exit(!right);
  }
  EXPECT(child_is_well(child));
  EXPECT(lseek(fd, 0, SEEK_END) == 0);
  pk_context_free(context);
  EXPECT(lseek(fd, 0, SEEK_END) > 0);
  (void)close(fd);
  (void)remove(path);
}

/* ---- Failed allocations. */

static void test_threads_refused(void) {
  for (int given = 0; given < 4; ++given) {
    pk_context *context = context_of(4);
    const int before = threads_at_rest();
    threads_to_give = given;
    threads_asked = 0;
    for (int i = 0; i < 100; ++i) EXPECT(calls(context));
    EXPECT(threads_become(before + given));
    EXPECT(threads_asked == (given < 3 ? given + 1 : 3)); /* not again for each call */
    if (given > 0) EXPECT(calls_shared(context));
    threads_to_give = INT32_MAX;
    for (int i = 0; i < 1000; ++i) EXPECT(calls(context));
    EXPECT(threads_become(before + 3));
    pk_context_free(context);
  }
}

#if !defined(THREAD_SANITIZER) && !defined(ADDRESS_SANITIZER)
/* A child that may have `more` bytes of memory calls with arenas of 64 MiB: exits with 0 when that
 * goes well. */
static int status_of_short_memory(int64_t more) {
  const pid_t child = fork();
  if (child == 0) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) _exit(99);
    (void)fclose(file);
    const rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)more;
    pk_context *context = context_of(8);
    settings set = standard();
    int x[CELLS] = {0};
    set.arena_bytes = 64 << 20;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) != 0) _exit(98);
    const pk_status status = call_cells(context, &set, x, CELLS);
    bool right = status != PK_OK || x[CELLS - 1] == 1;
    for (int i = 0; i < CELLS; ++i) right = right && x[i] == x[0];
    if (status != PK_OK) right = right && x[0] == 0 && strstr(pk_message(context), "no memory");
    right = right && calls(context);
    pk_context_free(context);
    _exit(right ? (int)status : 97);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_memory_short(void) {
  EXPECT(status_of_short_memory(8 << 20) == PK_NO_MEMORY);
  EXPECT(status_of_short_memory(100 << 20) == PK_OK); /* one arena, and perhaps no thread */
  EXPECT(status_of_short_memory(300 << 20) == PK_OK); /* some of them */
  EXPECT(status_of_short_memory((int64_t)2 << 30) == PK_OK);
}
#else
static void test_memory_short(void) {}
#endif

/* ---- Permitted callers. */

static void *call_many(void *marker) {
  pk_context *own = context_of(3);
  bool right = true;
  pk_context_set_threads(NULL, 2);
  for (int i = 0; i < 300; ++i) right = right && calls(own) && calls(NULL);
  pk_context_free(own);
  return right ? marker : NULL;
}

static void test_many_contexts(void) {
  enum { THREADS = 8 };
  pthread_t thread[THREADS];
  const int before = threads_at_rest();
  for (int i = 0; i < THREADS; ++i)
    EXPECT(pthread_create(&thread[i], NULL, call_many, &threads_to_give) == 0);
  for (int i = 0; i < THREADS; ++i) {
    void *result = NULL;
    EXPECT(pthread_join(thread[i], &result) == 0 && result);
  }
  EXPECT(threads_become(before));
}

typedef struct {
  pk_context *context;
  int done, busy, wrong;
} shared_context;

static void *call_shared_context(void *argument) {
  shared_context *s = argument;
  for (int i = 0; i < 300; ++i) {
    int x[CELLS] = {0};
    settings set = standard();
    const pk_status status = call_cells(s->context, &set, x, CELLS);
    const int want = status == PK_OK;
    bool right = status == PK_OK || status == PK_BUSY;
    for (int k = 0; k < CELLS; ++k) right = right && x[k] == want;
    __atomic_add_fetch(!right ? &s->wrong : want ? &s->done : &s->busy, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void test_one_context_of_several_threads(void) {
  shared_context s = {.context = context_of(2)};
  pthread_t thread[3];
  for (int i = 0; i < 3; ++i)
    EXPECT(pthread_create(&thread[i], NULL, call_shared_context, &s) == 0);
  for (int i = 0; i < 3; ++i) EXPECT(pthread_join(thread[i], NULL) == 0);
  EXPECT(s.wrong == 0 && s.done > 0 && s.done + s.busy == 900);
  EXPECT(calls_shared(s.context)); /* freed by another thread than those that called */
  pk_context_free(s.context);
}

/* ---- A host's pool. */

typedef struct {
  int mode, kept;
  void (*task[4096])(void *);
  void *argument[4096];
  pk_context *context;
  pk_status nested;
  bool nested_default;
} host;

enum { HOST_RUNS_NONE, HOST_REFUSES, HOST_LIES, HOST_RUNS_AT_ONCE, HOST_RUNS_LATE, HOST_CALLS };

static int run_on_host(void *pool, int count, void (*task)(void *), void *argument) {
  host *h = pool;
  if (h->mode == HOST_REFUSES) return 0;
  if (h->mode == HOST_LIES) return -5;
  if (h->mode == HOST_CALLS) {
    int x[CELLS] = {0};
    settings set = standard(), *outer = prepared;
    h->nested = call_cells(h->context, &set, x, CELLS);
    pk_context_set_pool(NULL, NULL, NULL);
    h->nested_default = calls(NULL);
    prepared = outer;
    return 0;
  }
  for (int i = 0; i < count && h->mode == HOST_RUNS_AT_ONCE; ++i) task(argument);
  for (int i = 0; i < count && h->mode != HOST_RUNS_AT_ONCE; ++i) {
    h->task[h->kept] = task;
    h->argument[h->kept++] = argument;
  }
  return count;
}

static void run_kept(host *h) {
  for (int i = 0; i < h->kept; ++i) h->task[i](h->argument[i]);
  h->kept = 0;
}

static void test_hosts_that_do_little(void) {
  static host h;
  for (h.mode = HOST_RUNS_NONE; h.mode <= HOST_RUNS_LATE; ++h.mode) {
    const int before = threads_at_rest();
    pk_context *context = context_of(4);
    pk_context_set_pool(context, run_on_host, &h);
    for (int i = 0; i < 100; ++i) {
      EXPECT(calls(context));
      if (h.mode == HOST_RUNS_LATE && i % 3 == 0) run_kept(&h);
    }
    EXPECT(threads_become(before));
    pk_context_free(context);
    run_kept(&h); /* after the context is gone */
  }
}

static void test_nested_calls(void) {
  static host h;
  h = (host){.mode = HOST_CALLS, .context = context_of(2)};
  pk_context_set_pool(h.context, run_on_host, &h);
  EXPECT(calls(h.context) && h.nested == PK_BUSY && h.nested_default);
  h.nested_default = false;
  pk_context_set_threads(NULL, 2); /* the default context, from within a call on it */
  pk_context_set_pool(NULL, run_on_host, &h);
  EXPECT(calls(NULL) && h.nested_default);
  pk_context_set_pool(NULL, NULL, NULL);
  pk_context_set_threads(NULL, 0);
  pk_context_free(h.context);
}

/* A pool of one thread: a queue. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t filled;
  bool ended, nested;
  int first, last;
  void (*task[1 << 16])(void *);
  void *argument[1 << 16];
} queue;

static void *serve(void *argument) {
  queue *q = argument;
  for (;;) {
    (void)pthread_mutex_lock(&q->lock);
    while (q->first == q->last && !q->ended) (void)pthread_cond_wait(&q->filled, &q->lock);
    const int at = q->first == q->last ? -1 : q->first++;
    (void)pthread_mutex_unlock(&q->lock);
    if (at < 0) return NULL;
    q->task[at](q->argument[at]);
  }
}

static int put_in_queue(void *pool, int count, void (*task)(void *), void *argument) {
  queue *q = pool;
  (void)pthread_mutex_lock(&q->lock);
  int put = 0;
  for (; put < count && q->last < 1 << 16; ++put, ++q->last) {
    q->task[q->last] = task;
    q->argument[q->last] = argument;
  }
  (void)pthread_cond_broadcast(&q->filled);
  (void)pthread_mutex_unlock(&q->lock);
  return put;
}

static void *call_on_queue(void *q) {
  pk_context *context = context_of(8);
  bool right = true;
  pk_context_set_pool(context, put_in_queue, q);
  for (int i = 0; i < 500; ++i) right = right && calls(context);
  pk_context_free(context);
  return right ? q : NULL;
}

/* Calls made by the pool's only thread, as a task: what they give to the pool cannot begin before
 * they end. */
static void nested_task(void *argument) {
  queue *q = argument;
  pk_context *context = context_of(3);
  pk_context_set_pool(context, put_in_queue, q);
  q->nested = calls(context);
  pk_context_free(context);
}

static void test_pool_of_one_thread(void) {
  static queue q = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};
  pthread_t server, caller[3];
  EXPECT(pthread_create(&server, NULL, serve, &q) == 0);
  pk_context *context = context_of(2);
  pk_context_set_pool(context, put_in_queue, &q);
  for (int i = 0; i < 20; ++i) EXPECT(calls_shared(context));
  pk_context_free(context);
  for (int i = 0; i < 3; ++i) EXPECT(pthread_create(&caller[i], NULL, call_on_queue, &q) == 0);
  for (int i = 0; i < 3; ++i) {
    void *result = NULL;
    EXPECT(pthread_join(caller[i], &result) == 0 && result);
  }
  EXPECT(put_in_queue(&q, 1, nested_task, &q) == 1);
  (void)pthread_mutex_lock(&q.lock);
  q.ended = true;
  (void)pthread_cond_broadcast(&q.filled);
  (void)pthread_mutex_unlock(&q.lock);
  EXPECT(pthread_join(server, NULL) == 0 && q.nested);
}

static void test_processors(void) {
  cpu_set_t all, one;
  if (!EXPECT(sched_getaffinity(0, sizeof all, &all) == 0)) return;
  EXPECT(pk_processors() == CPU_COUNT(&all));
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  if (!EXPECT(sched_setaffinity(0, sizeof one, &one) == 0)) return;
  EXPECT(pk_processors() == 1);
  pk_context *context = context_of(3); /* more threads than processors */
  for (int i = 0; i < 20; ++i) EXPECT(calls_shared(context));
  pk_context_free(context);
  (void)sched_setaffinity(0, sizeof all, &all);
}

/* A sanitizer starts a further thread with the first one. */
static void start_a_thread(void) {
  pk_context *context = context_of(2);
  EXPECT(calls_shared(context));
  pk_context_free(context);
}

int main(void) {
  (void)alarm(600);
  start_a_thread();
  test_own_threads();
  test_unequal_cells();
  test_arenas_apart();
  test_one_wake_up();
  test_64_threads();
  test_calls_share_processors();
  test_short_lives();
  test_what_threads_inherit();
  test_first_failure();
  if (FORKS) {
    test_fork();
    test_fork_while_calling();
    test_recording_is_the_parents();
  }
  test_threads_refused();
  test_memory_short();
  test_many_contexts();
  test_one_context_of_several_threads();
  test_hosts_that_do_little();
  test_nested_calls();
  test_pool_of_one_thread();
  test_processors();
  return check_end();
}
