// Messages and results of commands.
#include "dsl/say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int user_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("pkc: error: ", stderr);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  return USER_ERROR;
}

bool parse_int(const char *text, int64_t *value) {
  const char *digits = text + (*text == '-');
  if (!*digits || strspn(digits, "0123456789") != strlen(digits)) return false;
  errno = 0;
  *value = strtoll(text, NULL, 10);
  return errno == 0;
}

int write_result(const char *path, const Buf *text) {
  const char *bytes = text->text ? text->text : "";
  if (strcmp(path, "-") == 0) {
    fwrite(bytes, 1, text->length, stdout);
    return DONE;
  }
  if (!write_file(path, bytes, text->length))
    return user_error("cannot write %s: %s", path, strerror(errno));
  return DONE;
}

int finish_output(int status) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  if (status != DONE) return status;
  return user_error("cannot write standard output: %s", strerror(errno ? errno : EIO));
}
