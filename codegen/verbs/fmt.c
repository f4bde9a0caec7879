// pkc fmt: the canonical layout.
#include "codegen/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// Formats one file; with --verify reports whether it would change.
static int format_file(Options *options, const char *path) {
  bool standard = strcmp(path, "-") == 0;
  Source source = {.path = standard ? "<stdin>" : path};
  source.text = read_file(options->arena, standard ? "/dev/stdin" : path, &source.length);
  if (!source.text) return user_error("cannot read %s: %s", path, read_problem());
  Program program = {.source = source, .diag = diag_new(options->arena, &source)};
  Buf text = {0};
  bool ok = format_source(options->arena, &source, program.diag, &text);
  program_report(&program, options);
  bool same = ok && text.length == source.length &&
              (text.length == 0 || memcmp(text.text, source.text, text.length) == 0);
  int status = ok ? DONE : USER_ERROR;
  if (ok && options->verify_only) {
    if (!same) printf("%s\n", path);
    status = same ? DONE : CHECK_FAILED;
  } else if (ok && (standard || options->output)) {
    status = write_result(options->output ? options->output : "-", &text);
  } else if (ok && !same) {
    status = write_result(path, &text);
  }
  buf_free(&text);
  return status;
}

int verb_fmt(Options *options) {
  if (options->output && options->files.count > 1)
    return usage_error(verb_find("fmt"), "-o requires a single file");
  int worst = DONE;
  for (int i = 0; i < options->files.count; i++) {
    int status = format_file(options, options->files.at[i]);
    if (worst == DONE || status == USER_ERROR) worst = status == DONE ? worst : status;
  }
  return worst;
}
