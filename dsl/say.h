// Messages of a command without a source position, and its output.
#ifndef DSL_SAY_H
#define DSL_SAY_H

#include "dsl/base.h"

// Exit statuses of pkc. Abort (134) is an internal error.
enum { DONE = 0, USER_ERROR = 1, USAGE_ERROR = 2, CHECK_FAILED = 3, BUSY = 6 };

typedef struct {
  const char *name, *value;
} Argument;  // NAME=VALUE of the command line

bool parse_int(const char *text, int64_t *value);  // decimal, whole text

// A user's error outside any source text: "pkc: error: .." to standard error; returns USER_ERROR.
int user_error(const char *format, ...) PRINTF_LIKE(1, 2);
// Writes a result to standard output for "-", else to the file. DONE, or USER_ERROR with a message.
int write_result(const char *path, const Buf *text);
// Reports an error of standard output (a closed pipe, a full disk); main calls it last.
int finish_output(int status);

#endif
