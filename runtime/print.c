/* `print` in kernels. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/runtime.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void print_float(double value) {
  bool whole = fabs(value) < 9007199254740992.0 &&
               value == floor(value); /* 2^53: integers are exact below */
  (void)fprintf(stderr, whole ? "%.0f" : "%.9g", value);
}

static void print_value(const pk_printed *value) {
  switch (value->kind) {
    case PK_PRINT_FLOAT:
      print_float(value->as.f);
      break;
    case PK_PRINT_SIGNED:
      (void)fprintf(stderr, "%" PRId64, value->as.i);
      break;
    case PK_PRINT_UNSIGNED:
      (void)fprintf(stderr, "%" PRIu64, value->as.u);
      break;
  }
}

/* On standard error, a line at a time: results alone go to standard output. */
void pk_print(pk_worker *worker, const char *format, int count, const pk_printed *values) {
  (void)worker;
  int next = 0;
  flockfile(stderr);
  for (const char *at = format; *at; ++at) {
    if (at[0] == '{' && at[1] == '}' && next < count) {
      print_value(&values[next++]);
      ++at;
    } else {
      (void)putc(*at, stderr);
    }
  }
  (void)putc('\n', stderr);
  funlockfile(stderr);
}
