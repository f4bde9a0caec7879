/* `print` in kernels. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/runtime.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(pk_line *) taker; /* NULL: standard error */

void pk_set_print(pk_line *line) { atomic_store(&taker, line); }

static void print_float(FILE *to, double value) {
  bool whole = fabs(value) < 9007199254740992.0 &&
               value == floor(value); /* 2^53: integers are exact below */
  (void)fprintf(to, whole ? "%.0f" : "%.9g", value);
}

static void print_value(FILE *to, const pk_printed *value) {
  switch (value->kind) {
    case PK_PRINT_FLOAT:
      print_float(to, value->as.f);
      break;
    case PK_PRINT_SIGNED:
      (void)fprintf(to, "%" PRId64, value->as.i);
      break;
    case PK_PRINT_UNSIGNED:
      (void)fprintf(to, "%" PRIu64, value->as.u);
      break;
  }
}

static void print_line(FILE *to, const char *format, int count, const pk_printed *values) {
  int next = 0;
  for (const char *at = format; *at; ++at) {
    if (at[0] == '{' && at[1] == '}' && next < count) {
      print_value(to, &values[next++]);
      ++at;
    } else {
      (void)putc(*at, to);
    }
  }
  (void)putc('\n', to);
}

/* The line to a function of the host's; false: there is no memory for it. */
static bool hand_over(pk_line *line, const char *format, int count, const pk_printed *values) {
  char *text = NULL;
  size_t length;
  FILE *to = open_memstream(&text, &length);
  if (!to) return false;
  print_line(to, format, count, values);
  const bool made = fclose(to) == 0 && text;
  if (made) line(text);
  free(text);
  return made;
}

/* On standard error, a line at a time, if the host takes none: results alone go to standard
 * output. */
void pk_print(pk_worker *worker, const char *format, int count, const pk_printed *values) {
  (void)worker;
  pk_line *const line = atomic_load(&taker);
  if (line && hand_over(line, format, count, values)) return;
  flockfile(stderr);
  print_line(stderr, format, count, values);
  funlockfile(stderr);
}
