// pkc test: runs the directives of .pk files, a few processes at a time.
//
// Each worker takes the next file from a counter in shared memory. A worker that dies (of an
// internal error) counts as a failure of its file, and is replaced.
#define _GNU_SOURCE
#include "codegen/verbs/test/test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_JOBS = 16, DEFAULT_JOBS = 2 };

typedef struct {
  atomic_int next, passed, failed, by_orders, undecided, current[MOST_JOBS];
} Shared;

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool ends_in_pk(const char *name) {
  size_t length = strlen(name);
  return length > 3 && strcmp(name + length - 3, ".pk") == 0;
}

// Adds a file, or all .pk files below a folder in the order of their names. Returns false if one
// cannot be read.
bool test_files(Arena *arena, const char *path, PathList *paths) {
  struct stat st;
  if (stat(path, &st) != 0) return false;
  if (!S_ISDIR(st.st_mode)) {
    LIST_PUSH(arena, paths, path);
    return true;
  }
  DIR *dir = opendir(path);
  if (!dir) return false;
  PathList inside = {0};
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    const char *full = arena_printf(arena, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                                    entry->d_name);
    if (ends_in_pk(full) || (stat(full, &st) == 0 && S_ISDIR(st.st_mode)))
      LIST_PUSH(arena, &inside, full);
  }
  closedir(dir);
  sort_items(inside.at, (size_t)inside.count, sizeof *inside.at, by_name);
  bool ok = true;
  for (int i = 0; i < inside.count; i++) ok = test_files(arena, inside.at[i], paths) && ok;
  return ok;
}

static void work(const Options *options, const PathList *paths, Shared *shared, int job) {
  for (int i; (i = atomic_fetch_add(&shared->next, 1)) < paths->count;) {
    atomic_store(&shared->current[job], i + 1);
    TestFile test = {.arena = arena_new(), .options = options, .path = paths->at[i]};
    test_file(&test);
    atomic_fetch_add(&shared->passed, test.passed);
    atomic_fetch_add(&shared->failed, test.failed);
    atomic_fetch_add(&shared->by_orders, test.by_orders);
    atomic_fetch_add(&shared->undecided, test.undecided);
    if (test.failures.length) fwrite(test.failures.text, 1, test.failures.length, stdout);
    fflush(stdout);
    buf_free(&test.failures);
    arena_free(test.arena);
    atomic_store(&shared->current[job], 0);
  }
}

static pid_t start_worker(const Options *options, const PathList *paths, Shared *shared, int job) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  work(options, paths, shared, job);
  leave_child(DONE);
}

static void report_death(const PathList *paths, Shared *shared, int job, int status) {
  int file = atomic_exchange(&shared->current[job], 0);
  atomic_fetch_add(&shared->failed, 1);
  const char *path = file > 0 ? paths->at[file - 1] : "?";
  printf("FAIL %s: pkc itself died (%s %d); reproduce: pkc test %s\n", path,
         WIFSIGNALED(status) ? "signal" : "status",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), path);
}

static int job_count(int files) {
  const char *text = getenv("PKC_JOBS");
  int64_t jobs;
  if (!text || !parse_int(text, &jobs) || jobs < 1) jobs = DEFAULT_JOBS;
  if (jobs > MOST_JOBS) jobs = MOST_JOBS;
  return jobs > files ? files : (int)jobs;
}

// Distributes the files among processes, and waits for them.
static int run_workers(const Options *options, const PathList *paths, Shared *shared) {
  int jobs = job_count(paths->count), running = 0;
  pid_t pids[MOST_JOBS];
  for (int job = 0; job < jobs; job++, running++)
    if ((pids[job] = start_worker(options, paths, shared, job)) < 0)
      return user_error("cannot start a process: %s", strerror(errno));
  while (running > 0) {
    int status;
    pid_t pid = wait(&status);
    if (pid < 0 && errno != EINTR) break;
    for (int job = 0; job < jobs; job++) {
      if (pids[job] != pid) continue;
      running--;
      pids[job] = -1;
      if (status == 0) continue;
      report_death(paths, shared, job, status);
      if ((pids[job] = start_worker(options, paths, shared, job)) > 0) running++;
    }
  }
  return DONE;
}

int verb_test(Options *options) {
  PathList paths = {0};
  for (int i = 0; i < options->files.count; i++)
    if (!test_files(options->arena, options->files.at[i], &paths))
      return user_error("cannot read %s: %s", options->files.at[i], strerror(errno));
  if (paths.count == 0) return user_error("no .pk files in %s", options->files.at[0]);
  Shared *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return user_error("no memory: %s", strerror(errno));
  int status = run_workers(options, &paths, shared);
  int passed = atomic_load(&shared->passed), failed = atomic_load(&shared->failed),
      by_orders = atomic_load(&shared->by_orders), undecided = atomic_load(&shared->undecided);
  munmap(shared, sizeof *shared);
  if (status != DONE) return status;
  if (options->passes) printf("%d by drawn orders, %d undecided\n", by_orders, undecided);
  printf("%d passed, %d failed\n", passed, failed);
  return failed ? CHECK_FAILED : DONE;
}
