/* widths.h: a test of the vector layer builds itself for other widths and machines, and runs those
 * programs too. */
#ifndef WIDTHS_H
#define WIDTHS_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  int bytes;
  const char *flags;
  bool avx2;   /* the program needs it */
  bool sample; /* also runs with PKC_TESTS=sample */
} Width;

static const Width widths[] = {
#ifdef __x86_64__
    {64, "-march=native", false, false},     {32, "-march=native", false, true},
    {16, "-march=native", false, false},     {64, "-march=x86-64", false, false},
    {16, "-march=x86-64", false, true},      {16, "-march=x86-64 -msse4.1", false, false},
    {64, "-march=haswell", true, true},      {32, "-march=haswell -mno-fma -mno-f16c", true, false},
#else
    {64, "", false, false},
    {32, "", false, true},
    {16, "", false, true},
#endif
    {64, "-DSIMDE_NO_NATIVE", false, false}, {16, "-DSIMDE_NO_NATIVE", false, true},
};

static const char *environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

/* Adds the counts of the last line; anything else a program prints is a failure. */
static bool run_program(const char *command) {
  FILE *pipe = popen(command, "r");
  if (!pipe) return false;
  char text[512];
  int good = -1, bad = 0;
  while (fgets(text, sizeof text, pipe))
    if (sscanf(text, "%d passed, %d failed", &good, &bad) != 2) fputs(text, stdout);
  int status = pclose(pipe);
  if (good < 0) return false;
  check_passed += good;
  check_failed += bad;
  return bad != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void run_width(const char *source, const char *compiler, const char *emulator,
                      const Width *width) {
  char program[64] = "/tmp/pk_widths_XXXXXX", command[2048];
  int file = mkstemp(program);
  if (file >= 0) close(file);
  const char *slash = strrchr(source, '/');
  int folder = slash ? (int)(slash - source) : 0;
  snprintf(command, sizeof command,
           "%s -std=c11 -O1 -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off "
           "-D_GNU_SOURCE -DONE_WIDTH "
           "-DPK_VEC_BYTES=%d %s %s "
           "-I%.*s/../../include -o %s %s -lm",
           compiler, width->bytes, width->flags, *emulator ? "" : environment("PKC_CFLAGS", ""),
           folder, source, program, source);
  bool built = system(command) == 0;
  char run[256];
  snprintf(run, sizeof run, "%s %s", emulator, program);
  if (!built || !run_program(run)) {
    ++check_failed;
    printf("%s: %s: %s\n", source, built ? "stopped" : "does not compile", command);
  }
  unlink(program);
}

static bool has_avx2(void) {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

/* $PKC_TESTS is fast, sample or all (the default). */
static bool wanted(const Width *width) {
  const char *level = environment("PKC_TESTS", "all");
  return strcmp(level, "all") == 0 || (width->sample && strcmp(level, "sample") == 0);
}

/* SIMDe's and DLPack's headers belong to no architecture. */
static void run_arm(const char *source, const char *flags) {
  if (access("/usr/aarch64-linux-gnu", F_OK) != 0 || access("/usr/bin/qemu-aarch64", X_OK) != 0) {
    printf("SKIPPED %s, aarch64: its compiler or qemu-aarch64 is not installed\n", source);
    return;
  }
  const Width arm = {16, flags, false, false};
  if (wanted(&arm))
    run_width(source, "aarch64-linux-gnu-gcc -idirafter /usr/include",
              "qemu-aarch64 -L /usr/aarch64-linux-gnu", &arm);
  else
    printf("left out: 1 of 1 programs for aarch64\n");
}

static void run_widths(const char *source) {
  int left_out = 0;
  enum { count = sizeof widths / sizeof widths[0] };
  for (int k = 0; k < count; k++) {
    if (!wanted(&widths[k]))
      left_out++;
    else if (!widths[k].avx2 || has_avx2())
      run_width(source, environment("CC", "cc"), "", &widths[k]);
    else
      printf("SKIPPED %s, %s: this machine has no AVX2\n", source, widths[k].flags);
  }
  if (left_out) printf("left out: %d of %d widths\n", left_out, count);
#ifdef __x86_64__
  run_arm(source, "");
#endif
}

#endif
