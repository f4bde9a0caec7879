/* The number of processors that the process may use: at most those of its affinity mask, and at
 * most the CPU quota of its control groups. */
#include "runtime/platform.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* Reads a small file; false if it cannot be read. */
static bool read_text(const char *folder, const char *name, char *text, int size) {
  char path[PATH_BYTES + 64];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = pk_open_text(path);
  if (!file) return false;
  const bool read = fgets(text, size, file) != NULL;
  (void)fclose(file);
  return read;
}

/* Processors for `quota` microseconds in a period; PK_MAX_THREADS: there is no limit. */
static int paid_for(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0 || quota / period >= PK_MAX_THREADS) return PK_MAX_THREADS;
  return (int)(quota / period + (quota % period != 0));
}

/* The limit of one group: cpu.max of version 2, "QUOTA PERIOD" or "max PERIOD"; the two files of
 * version 1, where a quota of -1 means none. */
static int group_quota(const char *folder) {
  char text[64], period[64], *end = text;
  if (read_text(folder, "cpu.max", text, sizeof text)) {
    const int64_t quota = strtoll(text, &end, 10);
    return end == text ? PK_MAX_THREADS : paid_for(quota, strtoll(end, NULL, 10));
  }
  if (!read_text(folder, "cpu.cfs_quota_us", text, sizeof text) ||
      !read_text(folder, "cpu.cfs_period_us", period, sizeof period))
    return PK_MAX_THREADS;
  return paid_for(strtoll(text, NULL, 10), strtoll(period, NULL, 10));
}

/* The smallest quota of a group and its ancestors. */
static int quota_of_groups(const char *root, const char *group) {
  char folder[PATH_BYTES];
  int least = PK_MAX_THREADS;
  if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder) return least;
  for (size_t all = strlen(root);;) {
    const int quota = group_quota(folder);
    if (quota < least) least = quota;
    char *last = strrchr(folder, '/');
    if (!last || last < folder + all) return least;
    *last = '\0';
  }
}

/* Does a list such as "cpu,cpuacct" contain the controller `cpu`? */
static bool names_cpu(const char *list) {
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) return true;
  }
  return false;
}

int pk_cpu_quota(const char *groups, const char *mount) {
  char line[PATH_BYTES], root[PATH_BYTES];
  int least = PK_MAX_THREADS;
  FILE *file = pk_open_text(groups);
  if (!file) return least;
  while (fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:GROUP */
    line[strcspn(line, "\n")] = '\0';
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) continue;
    *group++ = '\0';
    const bool unified = list[1] == '\0';
    if (!unified && !names_cpu(list + 1)) continue;
    (void)snprintf(root, sizeof root, "%s%s", mount, unified ? "" : "/cpu");
    const int quota = quota_of_groups(root, group);
    if (quota < least) least = quota;
  }
  (void)fclose(file);
  return least;
}

static pthread_once_t quota_once = PTHREAD_ONCE_INIT;
static int quota;

static void read_quota(void) { quota = pk_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"); }

int pk_processors(void) {
  (void)pthread_once(&quota_once, read_quota);
  const int most = pk_schedulable();
  return most < quota ? most : quota;
}
