/* widths.h: a test of the vector layer builds itself for other widths and machines, and runs those programs too. */
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
  bool avx2; /* the program needs it */
} Width;

static const Width widths[] = {
#ifdef __x86_64__
    {64, "-march=native", false},     {32, "-march=native", false},
    {16, "-march=native", false},     {64, "-march=x86-64", false},
    {16, "-march=x86-64", false},     {16, "-march=x86-64 -msse4.1", false},
    {64, "-march=haswell", true},     {32, "-march=haswell -mno-fma -mno-f16c", true},
#else
    {64, "", false},
    {32, "", false},
    {16, "", false},
#endif
    {64, "-DSIMDE_NO_NATIVE", false}, {16, "-DSIMDE_NO_NATIVE", false},
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

static void run_width(const char *source, const char *compiler, const char *emulator, const Width *width) {
  char program[64] = "/tmp/pk_widths_XXXXXX", command[2048];
  int file = mkstemp(program);
  if (file >= 0) close(file);
  const char *slash = strrchr(source, '/');
  int folder = slash ? (int)(slash - source) : 0;
  snprintf(command, sizeof command,
           "%s -std=c11 -O1 -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off -D_GNU_SOURCE -DONE_WIDTH "
           "-DPK_VEC_BYTES=%d %s %s "
           "-I%.*s/../../include -o %s %s -lm",
           compiler, width->bytes, width->flags, *emulator ? "" : environment("PKC_CFLAGS", ""), folder, source, program, source);
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

/* SIMDe's and DLPack's headers belong to no architecture. */
static void run_arm(const char *source, const char *flags) {
  if (access("/usr/aarch64-linux-gnu", F_OK) != 0 || access("/usr/bin/qemu-aarch64", X_OK) != 0) return;
  const Width arm = {16, flags, false};
  run_width(source, "aarch64-linux-gnu-gcc -idirafter /usr/include", "qemu-aarch64 -L /usr/aarch64-linux-gnu", &arm);
}

static void run_widths(const char *source) {
  for (size_t k = 0; k < sizeof widths / sizeof widths[0]; k++)
    if (!widths[k].avx2 || has_avx2()) run_width(source, environment("CC", "cc"), "", &widths[k]);
#ifdef __x86_64__
  run_arm(source, "");
#endif
}

#endif
