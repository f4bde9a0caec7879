// Feeds every file of tests/fuzzing/corpus/FEED, and the files from which FEED starts, to FEED:
// none may break the compiler. Each runs in a separate process for at most ten seconds.
#define _GNU_SOURCE
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzzing/feed.c"
#include "tests/unit/check.h"

static void feed_file(const Feed *feed, const char *path) {
  Arena *arena = arena_new();
  size_t length = 0;
  const char *bytes = read_file(arena, path, &length);
  const char *name = arena_printf(arena, "%s %s", feed->name, path);
  check(bytes != NULL, name, "cannot be read");
  fflush(stdout);
  const pid_t child = bytes ? fork() : -1;
  if (child == 0) {
    alarm(10);
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    feed->feed(bytes, length);
    _exit(0);
  }
  int status = 0;
  const bool waited = child > 0 && waitpid(child, &status, 0) == child;
  check(waited && WIFEXITED(status) && WEXITSTATUS(status) == 0, name,
        "%s ends with %s %d; reproduce: build/fuzz/afl %s <%s", feed->name,
        WIFSIGNALED(status) ? "signal" : "status",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), feed->name, path);
  arena_free(arena);
}

static void feed_files(const Feed *feed, const char *pattern) {
  glob_t found;
  if (glob(pattern, 0, NULL, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; i++) feed_file(feed, found.gl_pathv[i]);
  globfree(&found);
}

int main(void) {
  for (const Feed *f = feeds; f < feeds + feed_count; f++) {
    char pattern[200];
    snprintf(pattern, sizeof pattern, "tests/fuzzing/corpus/%s/*", f->name);
    feed_files(f, pattern);
    if (strcmp(pattern, f->corpus) != 0) feed_files(f, f->corpus);
  }
  return check_end();
}
