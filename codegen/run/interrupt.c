// Cleans up when the process is interrupted: ends the running child, and removes temporary folders.
#define _GNU_SOURCE
#include "codegen/run/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_FOLDERS = 8, LONGEST_PATH = 4096 };

static volatile pid_t running;  // the leader of a group of processes; 0: none
static char folders[MOST_FOLDERS][LONGEST_PATH];

// The files that build.c and compilers create there, because a handler cannot list a folder.
static const char *const files[] = {"kernel.c",    "kernel.h", "naive.c",   "naive.o",
                                    "harness.c.o", "cpu.c.o",  "guard.c.o", "laps.c.o",
                                    "measure.c.o", "program",  "header.gch"};
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof signals / sizeof *signals };

static void remove_files(const char *folder) {
  char path[LONGEST_PATH + 16];
  size_t length = strlen(folder);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    memcpy(path, folder, length);
    path[length] = '/';
    memcpy(path + length + 1, files[i], strlen(files[i]) + 1);
    unlink(path);
  }
  rmdir(folder);
}

enum { POLL_MILLISECONDS = 10 };
static int polls = 100;  // until a group that does not end is killed

// The leader may be waited for afterwards: it is left.
static void await_leader(pid_t leader) {
  for (int i = 0; i < polls; i++) {
    siginfo_t ended = {0};
    if (waitid(P_PID, (id_t)leader, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid)
      return;
    poll(NULL, 0, POLL_MILLISECONDS);
  }
}

// Calls only functions that are async-signal-safe.
void interrupt_end_group(pid_t leader, int *status) {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0,
        0);                // adopts children of children, such as a driver's compiler
  kill(-leader, SIGTERM);  // compilers remove their own temporary files
  await_leader(leader);
  kill(-leader, SIGKILL);
  while (waitpid(leader, status, 0) < 0 && errno == EINTR) {}
  while (waitpid(-leader, NULL, 0) > 0 || errno == EINTR) {}
}

static void on_signal(int number) {
  pid_t child = running;
  if (child > 0) interrupt_end_group(child, NULL);
  for (int i = 0; i < MOST_FOLDERS; i++)
    if (*folders[i]) remove_files(folders[i]);
  signal(number, SIG_DFL);
  raise(number);
}

static void block(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < SIGNALS; i++) sigaddset(&set, signals[i]);
  sigprocmask(how, &set, NULL);
}

void interrupt_watch(void) {
  struct sigaction action = {.sa_handler = on_signal}, old;
  for (int i = 0; i < SIGNALS; i++) sigaddset(&action.sa_mask, signals[i]);
  for (int i = 0; i < SIGNALS; i++)
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
      sigaction(signals[i], &action, NULL);
}

pid_t interrupt_fork(void) {
  block(SIG_BLOCK);
  pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    for (int i = 0; i < SIGNALS; i++) {
      struct sigaction old;
      if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == on_signal)
        signal(signals[i], SIG_DFL);
    }
  } else if (pid > 0) {
    setpgid(pid, pid);
    running = pid;
  }
  block(SIG_UNBLOCK);
  return pid;
}

void interrupt_child_ended(void) { running = 0; }

void interrupt_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (getppid() != parent) raise(SIGTERM);
}

void interrupt_forget_all(void) {
  running = 0;
  polls = 50;  // it ends its children before its parent ends it
  memset(folders, 0, sizeof folders);
}

void interrupt_keep_folder(const char *path) {
  for (int i = 0; i < MOST_FOLDERS && strlen(path) < LONGEST_PATH; i++) {
    if (*folders[i]) continue;
    block(SIG_BLOCK);
    strcpy(folders[i], path);
    block(SIG_UNBLOCK);
    return;
  }
}

void interrupt_forget_folder(const char *path) {
  for (int i = 0; i < MOST_FOLDERS; i++)
    if (strcmp(folders[i], path) == 0) *folders[i] = 0;
}
