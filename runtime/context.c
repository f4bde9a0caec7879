/* Contexts: settings, messages, and the default context of each thread. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* A positive integer, followed by K, M or G (powers of 1024) if `scaled`; -1 for other text. */
static int64_t parse_positive(const char *text, bool scaled) {
  char *end = NULL;
  if (*text < '0' || *text > '9') return -1; /* strtoll would skip blanks and take signs */
  errno = 0;
  long long value = strtoll(text, &end, 10);
  int shift = !scaled ? 0 : *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (shift) ++end;
  if (errno || *end || value <= 0 || value > (INT64_MAX >> shift)) return -1;
  return (int64_t)value << shift;
}

/* The number of threads: $PK_THREADS, else the number of processors. */
static void threads_from_environment(pk_context *context) {
  const char *text = getenv("PK_THREADS");
  const int processors = pk_processors();
  context->automatic = !text || !*text;
  int64_t value = context->automatic ? processors < PK_MAX_THREADS ? processors : PK_MAX_THREADS
                                     : parse_positive(text, false);
  bool valid = value >= 1 && value <= PK_MAX_THREADS;
  context->threads = valid ? (int)value : 1;
  context->bad_threads = valid ? NULL : "PK_THREADS: expected a number of threads from 1 to 1024";
}

/* The same for VMEM; 0 if the variable is not set. */
static void limit_from_environment(pk_context *context) {
  const char *text = getenv("PK_VMEM_LIMIT");
  int64_t value = text && *text ? parse_positive(text, true) : 0;
  context->vmem_limit = value > 0 ? value : 0;
  context->limit_origin = "PK_VMEM_LIMIT";
  context->bad_limit =
      value >= 0 ? NULL : "PK_VMEM_LIMIT: expected a number of bytes, or one followed by K, M or G";
}

pk_context *pk_context_new(void) {
  if (!pk_watch_forks()) return NULL;
  pk_context *context = calloc(1, sizeof *context);
  if (!context) return NULL;
  context->forks = pk_forks();
  threads_from_environment(context);
  limit_from_environment(context);
  return context;
}

/* The parent's threads do not exist in this process, and the parent writes its own recording. */
static void begin_in_child(pk_context *context) {
  pk_forget_threads(context);
  pk_trace_discard(context->trace);
  context->trace = NULL;
  context->forks = pk_forks();
}

/* A call that a fork interrupted may have left its memory in any state, so the memory is abandoned.
 */
static void give_up_memory(pk_context *context) {
  context->tables = context->stage = context->workers = context->arenas = (pk_memory){0};
  context->inner_tables = context->temporaries = (pk_memory){0};
}

bool pk_hold(pk_context *context) {
  const unsigned mine = pk_forks() + 1;
  unsigned holder = __atomic_load_n(&context->holder, __ATOMIC_RELAXED);
  if (holder == mine) return false;
  if (!__atomic_compare_exchange_n(&context->holder, &holder, mine, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    return false;
  }
  if (holder != 0) give_up_memory(context);
  if (context->forks != pk_forks()) begin_in_child(context);
  return true;
}

void pk_release(pk_context *context) { __atomic_store_n(&context->holder, 0, __ATOMIC_RELEASE); }

static bool is_held(const pk_context *context) {
  return __atomic_load_n(&context->holder, __ATOMIC_RELAXED) == pk_forks() + 1;
}

static void free_memory(pk_context *context) {
  pk_memory *arena = context->arenas.data;
  for (int i = 0; arena && i < PK_MAX_THREADS; ++i) pk_memory_free(&arena[i]);
  pk_memory_free(&context->tables);
  pk_memory_free(&context->inner_tables);
  pk_memory_free(&context->temporaries);
  pk_memory_free(&context->stage);
  pk_memory_free(&context->workers);
  pk_memory_free(&context->arenas);
}

void pk_context_free(pk_context *context) {
  while (context) {
    pk_context *spare = context->spare;
    (void)pk_hold(context);
    pk_context_set_link(context, NULL);
    pk_free_threads(context);
    free_memory(context);
    pk_trace_free(context->trace);
    pk_profile_free(context->profile);
    free(context);
    context = spare;
  }
}

static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static pthread_key_t default_key;
static bool default_key_made;

static void free_default(void *context) { pk_context_free(context); }
static void make_default_key(void) {
  default_key_made = pthread_key_create(&default_key, free_default) == 0;
}

/* After the library is unloaded, the end of a thread must not call into it. */
__attribute__((destructor)) static void forget_default_key(void) {
  if (default_key_made) (void)pthread_key_delete(default_key);
  default_key_made = false;
}

static pk_context *context_of_thread(void) {
  (void)pthread_once(&default_once, make_default_key);
  if (!default_key_made) return NULL;
  pk_context *context = pthread_getspecific(default_key);
  if (context) return context;
  context = pk_context_new();
  if (context && pthread_setspecific(default_key, context) != 0) {
    pk_context_free(context);
    return NULL;
  }
  return context;
}

static pk_context *new_spare(const pk_context *context) {
  pk_context *spare = pk_context_new();
  if (!spare) return NULL;
  spare->threads = context->threads;
  spare->automatic = context->automatic;
  spare->most_threads = context->most_threads;
  spare->bad_threads = context->bad_threads;
  spare->vmem_limit = context->vmem_limit;
  spare->limit_origin = context->limit_origin;
  spare->bad_limit = context->bad_limit;
  spare->host_run = context->host_run;
  spare->host_pool = context->host_pool;
  return spare;
}

/* A host's pool may run another task, which also calls a kernel, on a thread that waits in a call.
 */
pk_context *pk_default_context(void) {
  pk_context *context = context_of_thread();
  while (context && is_held(context)) {
    if (!context->spare) context->spare = new_spare(context);
    context = context->spare;
  }
  return context;
}

void pk_context_set_threads(pk_context *context, int threads) {
  context = context ? context : pk_default_context();
  if (!context) return;
  if (threads == 0) {
    threads_from_environment(context);
    return;
  }
  bool valid = threads > 0 && threads <= PK_MAX_THREADS;
  context->automatic = false;
  context->threads = valid ? threads : 1;
  context->bad_threads =
      valid ? NULL : "pk_context_set_threads: expected a number of threads from 1 to 1024";
}

void pk_context_limit_threads(pk_context *context, int threads) {
  context = context ? context : pk_default_context();
  if (context) context->most_threads = threads;
}

int pk_allowed_threads(const pk_context *context) {
  const int most = context->most_threads;
  return context->automatic && most > 0 && most < context->threads ? most : context->threads;
}

void pk_context_set_vmem_limit(pk_context *context, int64_t bytes) {
  context = context ? context : pk_default_context();
  if (!context) return;
  if (bytes == 0) {
    limit_from_environment(context);
    return;
  }
  context->vmem_limit = bytes;
  context->limit_origin = "--vmem-limit or pk_context_set_vmem_limit";
  context->bad_limit =
      bytes > 0 ? NULL : "pk_context_set_vmem_limit: expected a positive number of bytes";
}

void pk_context_set_link(pk_context *context, pk_link *link) {
  if (context->link) context->link->close(context->link);
  context->link = link;
}

void pk_context_set_pool(pk_context *context, pk_run *run, void *pool) {
  context = context ? context : pk_default_context();
  if (!context) return;
  context->host_run = run;
  context->host_pool = pool;
}

const char *pk_message(const pk_context *context) {
  context = context ? context : pk_default_context();
  return context ? context->message : "no memory for a context";
}
