// pkc: the table of verbs.
#include "codegen/verbs/verbs.h"
#include "codegen/run/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char input_text[] =
    "SIZE=N gives a run-time size, STATIC=VALUE a static, OPERAND=INPUT the data of an operand. An "
    "INPUT is\n"
    "  FILE.npy              an array in NumPy's format\n"
    "  random:SEED           floats: standard normal; integers: uniform in [-8, 8); bools: fair "
    "(default random:0)\n"
    "  randint:LOW:HIGH:SEED uniform integers in [LOW, HIGH)\n"
    "  iota, zeros, ones, const:V\n"
    "Sizes that follow from a given array need not be named.\n";

static const char tpu_help[] =
    "Without a file: --chips, --sources, or --mesh with a collective (pkc tpu --mesh 4x4 send "
    "bytes=1e6 from=0,0 to=3,3).\n";

const Verb verbs[] = {
    {"compile", "FILE.pk [-o NAME.c]", "compile a kernel to NAME.c and NAME.h", VERB_COMPILE,
     verb_compile,
     "Without -o the files take the .pk file's own name, in the current folder. `pkc FILE.pk` is "
     "the same.\n"},
    {"check", "check FILE.pk [SIZE=N ...] [OPERAND=INPUT ...] [-o OPERAND=FILE.npy ...]",
     "interpret a kernel, watching for mistakes", VERB_CHECK, verb_check, input_text},
    {"run", "run FILE.pk [SIZE=N ...] [OPERAND=INPUT ...] [-o OPERAND=FILE.npy ...]",
     "run a kernel, compare with its reference", VERB_RUN, verb_run, input_text},
    {"bench", "bench FILE.pk [SIZE=N ...] [OPERAND=INPUT ...]",
     "verify, then time kernel and naive reference", VERB_BENCH, verb_bench, input_text},
    {"test", "test PATH...", "run the directives in .pk files and folders of them", VERB_TEST,
     verb_test,
     "$PKC_TEST_CC lists the C compilers to test with (default $CC, else cc), $PKC_JOBS the number "
     "of processes (default 2).\n"},
    {"explain", "explain FILE.pk|E0123 [SIZE=N ...]",
     "say how a kernel is carried out and why, or what an error means", VERB_EXPLAIN, verb_explain,
     NULL},
    {"tpu", "tpu FILE.pk [SIZE=N ...] [--chip v5e]",
     "model a kernel on a TPU: time, memory, what limits it", VERB_TPU, verb_tpu, tpu_help},
    {"tune", "tune FILE.pk [SIZE=N ...]", "search block sizes", VERB_LATER, NULL, NULL},
    {"fmt", "fmt FILE.pk...", "rewrite files in the canonical layout, comments kept", VERB_FMT,
     verb_fmt, "A FILE of - reads standard input and writes standard output.\n"},
};
const int verb_count = sizeof verbs / sizeof *verbs;

static const Verb no_verb = {"pkc", "", "", VERB_LATER, NULL, NULL};

const Verb *verb_find(const char *name) {
  for (int i = 0; i < verb_count; i++)
    if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
  return NULL;
}

static int unknown_verb(const char *word) {
  const char *names[16];
  REQUIRE(verb_count <= 16);
  for (int i = 0; i < verb_count; i++) names[i] = verbs[i].name;
  const char *near = closest_name(word, names, verb_count);
  if (near) return usage_error(NULL, "unknown verb %s; did you mean %s?", word, near);
  return usage_error(NULL, "unknown verb %s, and no file of that name", word);
}

static bool looks_like_file(const char *word) {
  return strpbrk(word, "./") || access(word, F_OK) == 0;
}

static int run_verb(Options *options, int argc, char **argv) {
  if (argc < 2) return usage_error(NULL, "expected a verb or a .pk file");
  const Verb *verb = verb_find(argv[1]);
  int skip = verb ? 2 : 1;
  if (!verb &&
      (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
       strcmp(argv[1], "--version") == 0 || (strcmp(argv[1], "--targets") == 0 && argc == 2)))
    verb = &no_verb;
  if (!verb && argv[1][0] != '-' && !looks_like_file(argv[1])) return unknown_verb(argv[1]);
  if (!verb) verb = verb_find("compile");
  int status = options_read(options, verb, argc - skip, argv + skip);
  if (status != DONE) return status < 0 ? DONE : status;
  if (!verb->run) return usage_error(NULL, "`pkc %s` is not built yet", verb->name);
  if (options->files.count == 0 && !(options->chips || options->sources || options->mesh))
    return usage_error(verb, "a file is missing: pkc %s", verb->synopsis);
  bool several = verb->flag == VERB_TEST || verb->flag == VERB_FMT;
  if (options->files.count > 1 && !several)
    return usage_error(verb, "unexpected second file `%s`", options->files.at[1]);
  return verb->run(options);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  interrupt_watch();
  Options options;
  options_init(&options, arena_new());
  int status = finish_output(run_verb(&options, argc, argv));
  arena_free(options.arena);
  return status;
}
