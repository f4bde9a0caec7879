/* check.h: the counting and the output of unit tests.
 *
 *   check(holds, name, format, ..)   one comparison of the case `name`; format and
 *                                    what follows describe it when it fails
 *   EXPECT(condition)                a case of its own, named by its line
 *   check_end()                      prints "N passed, N failed" and returns the exit status
 *
 * What is counted are cases: names that differ. A case with a million comparisons is one, and fails
 * when any of them does. The first 20 failures are printed.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  CHECK_CASES = 1 << 16,
  CHECK_SHOWN = 20,
  CHECK_NAME = 400 /* significant letters of a name */
};

typedef struct {
  const char *name;
  bool failed;
} check_case;

static check_case check_cases[CHECK_CASES]; /* a hash table */
static int check_passed, check_failed;      /* counts of programs that this one ran */
static int check_failures;                  /* comparisons */

/* Uses static memory, because a test may count allocations. */
static const char *check_copy(const char *text) {
  static char names[1 << 22]; /* zeros between them */
  static size_t used;
  size_t length = 0;
  while (length < CHECK_NAME && text[length]) length++;
  if (length >= sizeof names - used) return NULL;
  char *copy = memcpy(names + used, text, length);
  used += length + 1;
  return copy;
}

static check_case *check_find(const char *name) {
  static check_case *last;
  if (last && strncmp(last->name, name, CHECK_NAME) == 0) return last;
  unsigned hash = 5381;
  for (const char *p = name; *p && p < name + CHECK_NAME; p++) hash = hash * 33 + (unsigned char)*p;
  for (int tried = 0; tried < CHECK_CASES; tried++, hash++) {
    check_case *c = &check_cases[hash % CHECK_CASES];
    if (c->name && strncmp(c->name, name, CHECK_NAME) != 0) continue;
    if (!c->name) c->name = check_copy(name);
    if (c->name) return last = c;
  }
  fprintf(stderr, "check.h: no room for one more case\n");
  exit(1);
}

__attribute__((format(printf, 3, 4))) static inline bool check(bool holds, const char *name,
                                                               const char *format, ...) {
  check_case *c = check_find(name);
  if (holds) return true;
  c->failed = true;
  if (check_failures++ >= CHECK_SHOWN) return false;
  va_list args;
  va_start(args, format);
  printf("FAIL %s: ", name);
  vprintf(format, args);
  putchar('\n');
  va_end(args);
  return false;
}

#define CHECK_LINE_(line) #line
#define CHECK_LINE(line) CHECK_LINE_(line)
#define EXPECT(condition) check(condition, __FILE__ ":" CHECK_LINE(__LINE__), "%s", #condition)

static inline int check_end(void) {
  int passed = check_passed, failed = check_failed;
  for (int i = 0; i < CHECK_CASES; i++)
    if (check_cases[i].name) ++*(check_cases[i].failed ? &failed : &passed);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

#endif
