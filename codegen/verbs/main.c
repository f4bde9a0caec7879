// pkc: finds the verb and calls it.
#include "codegen/run/calibration.h"
#include "codegen/run/interrupt.h"
#include "codegen/verbs/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const Verb no_verb = {"pkc", "", "", VERB_NONE, NULL};

static int (*const runs[VERB_COUNT])(Options *options) = {
#define VERB(id, name, ...) [VERB_NUMBER_##id] = verb_##name,
#include "codegen/verbs/verbs.def"
};

static bool looks_like_file(const char *word) {
  return strpbrk(word, "./") || access(word, F_OK) == 0;
}

// Reads the command line, and runs its verb or answers --help, --version and --targets. Returns the
// exit status.
static int run_verb(Options *options, int argc, char **argv) {
  if (argc < 2) return usage_error(NULL, "expected a verb or a .pk file");
  const Verb *verb = verb_find(argv[1]);
  int skip = verb ? 2 : 1;
  if (!verb &&
      (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
       strcmp(argv[1], "--version") == 0 || (strcmp(argv[1], "--targets") == 0 && argc == 2)))
    verb = &no_verb;
  if (!verb && argv[1][0] != '-' && !looks_like_file(argv[1]))
    return unknown_verb(argv[1], ", and no file of that name");
  if (!verb) verb = verb_find("compile");
  options->words = argv + skip;
  options->word_count = argc - skip;
  int status = options_read(options, verb, options->word_count, options->words);
  if (status == ASKED) answer(options->arena, verb == &no_verb ? NULL : verb, options->asked);
  if (status != DONE) return status == ASKED ? DONE : status;
  Takes takes = verb_takes(options->arena, verb);
  bool nothing = !*takes.text;
  bool none = takes.optional || nothing || options->chips || options->sources || options->mesh;
  bool file = strncmp(takes.text, "FILE", 4) == 0;
  if (options->files.count == 0 && !none)
    return usage_error(verb, "%s is missing: pkc %s", file ? "a file" : takes.text, verb->synopsis);
  if (options->files.count && nothing)
    return usage_error(verb, "unexpected word `%s`", options->files.at[0]);
  if (options->files.count > 1 && !takes.several)
    return usage_error(
        verb, "unexpected second %s `%s`%s", file ? "file" : "word", options->files.at[1],
        strstr(verb->synopsis, "SIZE=N") ? "; sizes, statics and operands are NAME=VALUE" : "");
  // `pkc test` ignores the calibration, so its results do not depend on the machine's history.
  const unsigned by_tables = VERB_CALIBRATE | VERB_TEST | VERB_LSP | VERB_COMPLETE | VERB_HELP;
  if (!(verb->flag & by_tables)) calibration_use(options->arena);
  return runs[verb - verbs](options);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  interrupt_watch();
  if (argc > 3 && strcmp(argv[1], "--supervise") == 0)
    return supervise(argv[2], (const char *const *)(uintptr_t)(argv + 3));
  Options options;
  options_init(&options, arena_new());
  int status = finish_output(run_verb(&options, argc, argv));
  arena_free(options.arena);
  return status;
}
