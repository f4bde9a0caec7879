// Child processes: the C compiler and the built programs.
#define _GNU_SOURCE
#include "codegen/run/run.h"
#include "codegen/run/interrupt.h"
#include "dsl/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_STARTED = 127 };       // the status that shells use
enum { COLLECT_MOST = 1 << 22 };  // bytes of output kept; the rest is read and dropped

const char *const *split_words(Arena *arena, const char *const *texts, int count) {
  LIST(const char *) words = {0};
  for (int i = 0; i < count; i++)
    for (const char *at = texts[i] ? texts[i] : "";; at++) {
      size_t length = strcspn(at, " \t\n");
      if (length) LIST_PUSH(arena, &words, arena_strndup(arena, at, length));
      at += length;
      if (!*at) break;
    }
  LIST_PUSH(arena, &words, NULL);
  return (const char *const *)words.at;
}

static NORETURN void become(const char *const *words, int keep, int out, int err, int report) {
  signal(SIGPIPE, SIG_DFL);
  if (keep >= 0) fcntl(keep, F_SETFD, 0);
  if (out >= 0) dup2(out, 1);
  if (err >= 0) dup2(err, 2);
  execvp(words[0], (char *const *)(uintptr_t)words);
  int failed = errno;
  ssize_t put = write(report, &failed, sizeof failed);
  _exit(put == sizeof failed ? 127 : 126);
}

void leave_child(int status) {
  if (fflush(stdout) != 0) status = USER_ERROR;
#ifdef PKC_GCOV
  extern void __gcov_dump(void);
  __gcov_dump();
#endif
  _exit(status);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Reads both pipes until both are closed; false: the time limit was reached first.
static bool collect(int out, int err, double seconds, const char *waiting, Buf *output,
                    Buf *errors) {
  double start = now(), end = start + seconds;
  Progress progress = progress_start();
  progress.on &= waiting != NULL;
  struct pollfd polls[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  Buf *bufs[2] = {output, errors};
  char block[1 << 14];
  while (polls[0].fd >= 0 || polls[1].fd >= 0) {
    double left = end - now();
    if (seconds > 0 && left <= 0) {
      progress_end(&progress);
      return false;
    }
    if (progress.on) {
      progress_show(&progress, waiting, (int64_t)(now() - start), (int64_t)seconds);
      left = left < 0.5 ? left : 0.5;
    }
    if (poll(polls, 2, seconds > 0 ? (int)(left * 1000) + 1 : -1) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    for (int i = 0; i < 2; i++) {
      if (polls[i].fd < 0 || !polls[i].revents) continue;
      ssize_t got = read(polls[i].fd, block, sizeof block);
      if (got > 0 && bufs[i]->length < COLLECT_MOST) buf_add(bufs[i], block, (size_t)got);
      if (got == 0 || (got < 0 && errno != EINTR)) polls[i].fd = -1;
    }
  }
  progress_end(&progress);
  return true;
}

static void close_pair(int pair[2]) {
  for (int i = 0; i < 2; i++)
    if (pair[i] >= 0) close(pair[i]);
}

static void close_end(int *end) {
  if (*end >= 0) close(*end);
  *end = -1;
}

// Waits for the child, or ends it and all its descendants.
static int end_child(pid_t pid, bool in_time) {
  int status = -1;
  if (!in_time) interrupt_end_group(pid, &status);
  while (in_time && waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  interrupt_child_ended();
  return status;
}

int run_apart(void (*body)(void *context), void *context, double seconds, Buf *output,
              Buf *errors) {
  int out[2] = {-1, -1}, err[2] = {-1, -1}, failed = 0, status = -1;
  fflush(stdout);
  fflush(stderr);
  bool ok = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
  pid_t pid = ok ? interrupt_fork() : -1;
  if (pid == 0) {
    interrupt_forget_all();
    interrupt_watch();
    dup2(out[1], 1);
    dup2(err[1], 2);
    close_pair(out);
    close_pair(err);
    body(context);
    leave_child(DONE);
  }
  if (pid < 0) failed = errno;
  close_end(&out[1]);
  close_end(&err[1]);
  if (pid > 0) {
    bool in_time = collect(out[0], err[0], seconds, NULL, output, errors);
    status = end_child(pid, in_time);
    if (!in_time) failed = ETIMEDOUT;
  }
  close_pair(out);
  close_pair(err);
  errno = failed;
  return failed ? -1 : status;
}

int run_child(const char *const *words, int keep, double seconds, Buf *output, Buf *errors) {
  return run_awaited(words, keep, seconds, NULL, output, errors);
}

int run_awaited(const char *const *words, int keep, double seconds, const char *waiting,
                Buf *output, Buf *errors) {
  int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1}, failed = 0, status = -1;
  bool ok = pipe2(report, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
            (!errors || pipe2(err, O_CLOEXEC) == 0);
  pid_t pid = ok ? interrupt_fork() : -1;
  if (pid == 0) become(words, keep, out[1], err[1], report[1]);
  if (pid < 0) failed = errno;
  close_end(&out[1]);
  close_end(&err[1]);
  close_end(&report[1]);
  if (pid > 0) {
    bool in_time = collect(out[0], err[0], seconds, waiting, output, errors);
    status = end_child(pid, in_time);
    if (!in_time) failed = ETIMEDOUT;
    int why;
    if (read(report[0], &why, sizeof why) == sizeof why) failed = why;
  }
  close_pair(out);
  close_pair(err);
  close_pair(report);
  errno = failed;
  return failed ? -1 : status;
}

int supervise(const char *parent, const char *const *words) {
  int report[2], why, status;
  interrupt_with_parent((pid_t)strtol(parent, NULL, 10));
  pid_t pid = pipe2(report, O_CLOEXEC) == 0 ? interrupt_fork() : -1;
  if (pid == 0) become(words, -1, -1, -1, report[1]);
  if (pid > 0) close(report[1]);
  bool started = pid > 0 && read(report[0], &why, sizeof why) != sizeof why;
  if (pid > 0) status = end_child(pid, true);
  if (!started) {
    fprintf(stderr, "%s", strerror(pid > 0 ? why : errno));
    return NOT_STARTED;
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  signal(WTERMSIG(status), SIG_DFL);
  return raise(WTERMSIG(status));
}
