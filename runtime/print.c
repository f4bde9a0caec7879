/* `print` in kernels. */
#include "runtime/runtime.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(pk_line *) taker; /* NULL: standard error */

void pk_set_print(pk_line *line) { atomic_store(&taker, line); }

/* A line in memory, which grows; if there is no memory, the line is cut off. */
typedef struct {
  char *text, first[256];
  size_t used, capacity; /* with the 0 at the end */
} line_text;

static bool grow(line_text *to, size_t capacity) {
  char *text = to->text == to->first ? malloc(capacity) : realloc(to->text, capacity);
  if (!text) return false;
  if (to->text == to->first) memcpy(text, to->first, to->used + 1);
  to->text = text;
  to->capacity = capacity;
  return true;
}

static void put_bytes(line_text *to, const char *text, size_t length) {
  if (length >= to->capacity - to->used && !grow(to, 2 * to->capacity + length))
    length = to->capacity - to->used - 1;
  memcpy(to->text + to->used, text, length);
  to->used += length;
  to->text[to->used] = '\0';
}

/* Formats a number, which takes few characters: floats printed as integers are below 2^53. */
static void put_number(line_text *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void put_number(line_text *to, const char *format, ...) {
  char text[64];
  va_list values;
  va_start(values, format);
  (void)vsnprintf(text, sizeof text, format, values);
  va_end(values);
  put_bytes(to, text, strlen(text));
}

/* Prints the fewest digits that identify the number, as Python does (among the floats of f32 if it
 * is one), with a point in an integer. */
static void put_float(line_text *to, double value) {
  if (fabs(value) < 9007199254740992.0 && value == floor(value)) { /* 2^53 */
    put_number(to, "%.1f", value);
    return;
  }
  char text[32];
  const bool narrow = (double)(float)value == value;
  for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
    (void)snprintf(text, sizeof text, "%.*g", digits, value);
    if (narrow ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) break;
  }
  put_bytes(to, text, strlen(text));
}

static void put_value(line_text *to, const pk_printed *value) {
  switch (value->kind) {
    case PK_PRINT_FLOAT:
      put_float(to, value->as.f);
      break;
    case PK_PRINT_SIGNED:
      put_number(to, "%" PRId64, value->as.i);
      break;
    case PK_PRINT_UNSIGNED:
      put_number(to, "%" PRIu64, value->as.u);
      break;
    case PK_PRINT_TEXT:
      put_bytes(to, value->as.text, strlen(value->as.text));
      break;
  }
}

static void put_line(line_text *to, const char *format, int count, const pk_printed *values) {
  int next = 0;
  for (const char *at = format; *at; ++at) {
    if (at[0] == '{' && at[1] == '}' && next < count) {
      put_value(to, &values[next++]);
      ++at;
    } else {
      put_bytes(to, at, 1);
    }
  }
  put_bytes(to, "\n", 1);
}

/* Writes a line to standard error if the host has no function for it, because standard output
 * contains only results. */
void pk_print(pk_worker *worker, const char *format, int count, const pk_printed *values) {
  (void)worker;
  line_text line = {.capacity = sizeof line.first};
  line.text = line.first;
  pk_line *const take = atomic_load(&taker);
  put_line(&line, format, count, values);
  if (take)
    take(line.text);
  else
    (void)fputs(line.text, stderr);
  if (line.text != line.first) free(line.text);
}
