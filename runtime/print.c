/* `print` in kernels. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/runtime.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(pk_line *) taker; /* NULL: standard error */

void pk_set_print(pk_line *line) { atomic_store(&taker, line); }

/* With the digits that tell it from its neighbours, as Python prints floats: those of f32 where it
 * is one, and a point in a whole number. */
static void print_float(FILE *to, double value) {
  if (fabs(value) < 9007199254740992.0 && value == floor(value)) { /* 2^53 */
    (void)fprintf(to, "%.1f", value);
    return;
  }
  char text[32];
  const bool narrow = (double)(float)value == value;
  for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
    (void)snprintf(text, sizeof text, "%.*g", digits, value);
    if (narrow ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) break;
  }
  (void)fputs(text, to);
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
    case PK_PRINT_TEXT:
      (void)fputs(value->as.text, to);
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
