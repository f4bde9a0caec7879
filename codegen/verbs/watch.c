// pkc watch: compiles and tests .pk files whenever they are saved.
//
// Files are looked at a few times a second, which works on every system and every file system.
#define _GNU_SOURCE
#include "codegen/run/interrupt.h"
#include "codegen/verbs/test/test.h"
#include "codegen/verbs/verbs.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MILLISECONDS = 150 };

// The state of a file at its last test.
typedef struct {
  const char *path;  // interned
  struct timespec saved;
  off_t size;
  ino_t inode;
} Watched;
typedef LIST(Watched) WatchedList;

static bool is_same(const Watched *a, const Watched *b) {
  return a->saved.tv_sec == b->saved.tv_sec && a->saved.tv_nsec == b->saved.tv_nsec &&
         a->size == b->size && a->inode == b->inode;
}

// Errors and warnings of each kernel of a file; false if there are errors.
static bool compiles(Options *options, const char *path) {
  Program file;
  if (!program_read(&file, options, options->arena, path)) {
    user_error("cannot read %s: %s", path, read_problem());
    return false;
  }
  if (diag_error_count(file.diag)) {
    program_report(&file, options);
    return false;
  }
  int count = kernel_names(file.file, NULL, 0);
  const char **names = NEW_ARRAY(options->arena, const char *, count + 1);
  kernel_names(file.file, names, count);
  bool good = true;
  for (int i = 0; i < (count ? count : 1); i++) {
    Program program = file;
    program.diag = diag_new(options->arena, &program.source);
    Options one = *options;
    one.kernel = count ? names[i] : NULL;
    good = program_lower(&program, &one, &(LowerOptions){0}) && good;
    program_report(&program, options);
  }
  return good;
}

// Tests a file in a child process; a signal ends the child and its children.
static int test_apart(Options *options, const char *path) {
  fflush(stdout);
  pid_t child = interrupt_fork();
  if (child < 0) return user_error("cannot start a process: %s", strerror(errno));
  int status = 0;
  if (child == 0) {
    interrupt_forget_all();
    interrupt_watch();
    options->files.count = 0;
    LIST_PUSH(options->arena, &options->files, path);
    status = compiles(options, path) ? verb_test(options) : USER_ERROR;
    leave_child(status);
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  interrupt_child_ended();
  return status;
}

static Watched *find(const WatchedList *list, const char *path) {
  for (int i = 0; i < list->count; i++)
    if (list->at[i].path == path) return &list->at[i];
  return NULL;
}

// Tests a file if it has changed; skips one that is missing, for example while an editor replaces
// it.
static void look_at(Arena *arena, Options *options, WatchedList *list, const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return;
  Watched now = {intern(path), st.st_mtim, st.st_size, st.st_ino};
  Watched *known = find(list, now.path);
  if (known && is_same(known, &now)) return;
  if (known)
    *known = now;
  else
    LIST_PUSH(arena, list, now);
  printf("%s\n", path);
  test_apart(options, now.path);
  fflush(stdout);
}

int verb_watch(Options *options) {
  WatchedList list = {0};
  const char *const *paths = options->files.at;
  const int count = options->files.count;
  bool first = true;
  for (;; first = false) {
    Arena *round = arena_new();
    for (int i = 0; i < count; i++) {
      PathList files = {0};
      if (!test_files(round, paths[i], &files) && first)
        return user_error("cannot read %s: %s", paths[i], strerror(errno));
      for (int k = 0; k < files.count; k++) look_at(options->arena, options, &list, files.at[k]);
    }
    arena_free(round);
    if (finish_output(DONE) != DONE) return USER_ERROR;
    poll(NULL, 0, PAUSE_MILLISECONDS);
  }
}
