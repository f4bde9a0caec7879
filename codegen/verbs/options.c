// The words of the command line.
#include "codegen/verbs/verbs.h"
#include "codegen/passes/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PKC_VERSION
#define PKC_VERSION "unknown"
#endif

enum { MOST_THREADS = 1024, BUILDS = VERB_RUN | VERB_BENCH | VERB_TEST, ALL_VERBS = -1 };

typedef enum {
  OPTION_STATIC,
  OPTION_KERNEL,
  OPTION_OUTPUT,
  OPTION_TARGET,
  OPTION_THREADS,
  OPTION_DUMP,
  OPTION_EMIT,
  OPTION_DMA,
  OPTION_DMA_TIME,
  OPTION_SEED,
  OPTION_CORES,
  OPTION_CHECKED,
  OPTION_VMEM,
  OPTION_NO_CACHE,
  OPTION_NO_NAIVE,
  OPTION_TOLERANCE,
  OPTION_MIN_TIME,
  OPTION_MAX_TIME,
  OPTION_JSON,
  OPTION_VERIFY,
  OPTION_QUIET,
  OPTION_DIAGNOSTICS,
  OPTION_CHIP,
  OPTION_CHIP_FILE,
  OPTION_CHIPS,
  OPTION_SOURCES,
  OPTION_SWEEP,
  OPTION_MESH,
  OPTION_TRACE,
  OPTION_COUNTERS,
  OPTION_HTML,
  OPTION_SVG,
  OPTION_WALK_ALL,
  OPTION_HELP,
  OPTION_VERSION
} OptionId;

// A long option is "--name", its value follows as "=VALUE" or as the next word; a short one takes its value joined or apart.
typedef struct {
  const char *name, *value;
  unsigned verbs;
  OptionId id;
  const char *help;
} OptionRow;

static const OptionRow option_rows[] = {
    {"-D", "NAME=VALUE", (unsigned)ALL_VERBS, OPTION_STATIC, "set a static (KERNEL.NAME=VALUE: of one kernel of several)"},
    {"-k", "KERNEL", (unsigned)ALL_VERBS, OPTION_KERNEL, "which kernel of the file"},
    {"-o", "FILE", VERB_COMPILE | VERB_FMT, OPTION_OUTPUT, "where the result goes; - is standard output"},
    {"-o", "OPERAND=FILE.npy", VERB_RUN | VERB_CHECK, OPTION_OUTPUT, "write an operand after the run"},
    {"-d", "LETTERS", VERB_COMPILE, OPTION_DUMP, "print intermediate stages (see below)"},
    {"--emit", "KIND", VERB_COMPILE, OPTION_EMIT, "print instead of writing files: c, h, naive, ast, ir, loops, pallas"},
    {"--dma", "literal", VERB_COMPILE | VERB_RUN | VERB_BENCH, OPTION_DMA, "carry out every logical DMA by the runtime's engine"},
    {"--dma", "start|wait|random", VERB_CHECK, OPTION_DMA_TIME, "when the data of a DMA moves (default wait: as late as it may)"},
    {"--seed", "N", VERB_CHECK | VERB_RUN, OPTION_SEED,
     "shuffle parallel steps, and draw for --dma=random (default 0: in order)"},
    {"--cores", "N", VERB_CHECK | VERB_RUN, OPTION_CORES, "cores that share the parallel steps (default: one each)"},
    {"--checked", NULL, VERB_RUN, OPTION_CHECKED, "also report what `pkc check` finds, and compare with what it computes"},
    {"--target", "TARGET", (unsigned)ALL_VERBS, OPTION_TARGET, "shape the text for native (default) or one of the targets below"},
    {"--threads", "N", (unsigned)ALL_VERBS, OPTION_THREADS, "threads for parallel grid axes (default $PK_THREADS, else 1)"},
    {"--vmem-limit", "BYTES", VERB_RUN | VERB_BENCH, OPTION_VMEM,
     "VMEM a launch may hold (default $PK_VMEM_LIMIT, the kernel's own, or 128 MiB)"},
    {"--no-naive", NULL, VERB_BENCH, OPTION_NO_NAIVE, "do not time (or compare with) the naive reference"},
    {"--tolerance", "R[,A]", VERB_RUN | VERB_BENCH | VERB_TEST | VERB_CHECK, OPTION_TOLERANCE,
     "allow floats a difference of A + R * |expected| (default: what rounding explains)"},
    {"--min-time", "SECONDS", VERB_BENCH, OPTION_MIN_TIME, "time at least this long (default 0.5)"},
    {"--max-time", "SECONDS", VERB_BENCH, OPTION_MAX_TIME, "stop after this long (default 10)"},
    {"--no-cache", NULL, BUILDS, OPTION_NO_CACHE, "compile again, keep nothing"},
    {"--json", NULL, VERB_BENCH | VERB_TPU, OPTION_JSON, "one JSON object a line instead of a table"},
    {"--json", NULL, VERB_CHECK | VERB_RUN, OPTION_JSON, "findings as JSON, one object a line"},
    {"--verify", NULL, VERB_FMT, OPTION_VERIFY, "write nothing; exit 3 when a file is not in the canonical layout"},
    {"--quiet", NULL, VERB_TEST | VERB_RUN | VERB_CHECK, OPTION_QUIET, "failures only"},
    {"--diagnostics", "json|text", (unsigned)ALL_VERBS, OPTION_DIAGNOSTICS, "the form of errors and warnings"},
    {"--chip", "NAME", VERB_TPU, OPTION_CHIP, "the chip to model (default v5e, or the one of --chip-file)"},
    {"--tpu", "CHIP", VERB_CHECK, OPTION_CHIP, "would it run on this TPU: rules of blocks, dtypes, operations and memories"},
    {"--chip-file", "FILE", VERB_TPU | VERB_CHECK, OPTION_CHIP_FILE,
     "add a chip: lines of `name N`, `like CHIP`, `CONSTANT VALUE`"},
    {"--chips", NULL, VERB_TPU, OPTION_CHIPS, "list the chips"},
    {"--sources", NULL, VERB_TPU, OPTION_SOURCES, "list every constant with its unit and source"},
    {"--sweep", "NAME=LOW:HIGH", VERB_TPU, OPTION_SWEEP,
     "rank values of statics, doubling from LOW to HIGH, or a list A,B,C; more may follow"},
    {"--mesh", "XxY[xZ]", VERB_TPU, OPTION_MESH, "cost of a collective on a slice of this shape"},
    {"--trace", "FILE", VERB_TPU | VERB_RUN | VERB_BENCH, OPTION_TRACE,
     "write a trace (of one call) for Perfetto or chrome://tracing"},
    {"--counters", NULL, VERB_RUN | VERB_BENCH, OPTION_COUNTERS,
     "count instructions, cycles and cache misses of one call, where the system allows"},
    {"--html", "FILE", VERB_TPU, OPTION_HTML, "write the report as one HTML file"},
    {"--svg", "FILE", VERB_TPU, OPTION_SVG, "write the roofline plot"},
    {"--walk-all", NULL, VERB_TPU, OPTION_WALK_ALL, "walk every grid step, also those that repeat others"},
    {"--help", NULL, (unsigned)ALL_VERBS, OPTION_HELP, "this text"},
    {"--version", NULL, (unsigned)ALL_VERBS, OPTION_VERSION, "the version of pkc"},
};
enum { OPTION_ROWS = sizeof option_rows / sizeof *option_rows };

int usage_error(const Verb *verb, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("pkc: ", stderr);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\nTry `pkc %s%s--help`.\n", verb ? verb->name : "", verb ? " " : "");
  return USAGE_ERROR;
}

static bool parse_seconds(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return *text && !*end && *value > 0 && *value < 1e6;
}

// ---- help

static void print_targets(void) {
  printf("\nTargets (--target; native is %s here)\n", target_find("native")->name);
  for (int i = 0; i < target_count; i++) printf("  %-22s %s\n", targets[i].name, targets[i].meaning);
}

static void print_dumps(void) {
  printf("\nStages (-d)\n  %-22s %s\n  %-22s %s\n", "a", "the syntax tree", "i", "the block IR as lowered");
  for (int i = 0; i < pass_count; i++)
    printf("  %-22c the block IR after %s: %s\n", passes[i].letter, passes[i].name, passes[i].help);
  printf("  %-22s %s\n  %-22s %s\n", "l", "the loop IR", "n", "the naive reference as C");
}

static void print_options(const Verb *verb) {
  printf("\nOptions\n");
  for (int i = 0; i < OPTION_ROWS; i++) {
    const OptionRow *row = &option_rows[i];
    if (!(row->verbs & verb->flag)) continue;
    char head[64];
    snprintf(head, sizeof head, "%s%s%s", row->name, row->value ? (row->name[1] == '-' ? "=" : " ") : "",
             row->value ? row->value : "");
    printf("  %-22s %s\n", head, row->help);
  }
}

static void print_verb_help(const Verb *verb) {
  printf("usage: pkc %s\n\n%s.\n", verb->synopsis, verb->summary);
  if (verb->text) printf("\n%s", verb->text);
  print_options(verb);
  if (verb->flag == VERB_COMPILE) print_dumps();
  if (verb->flag != VERB_FMT) print_targets();
}

static void print_help(void) {
  printf("pkc %s compiles .pk kernels to C.\n\n", PKC_VERSION);
  for (int i = 0; i < verb_count; i++) printf("  pkc %-62s %s\n", verbs[i].synopsis, verbs[i].summary);
  printf(
      "\n`pkc VERB --help` says more. Exit status: 0 done, 1 an error in what was given, 2 wrong usage,\n"
      "3 a check or comparison failed, 134 an internal error.\n");
}

// ---- reading

static const OptionRow *find_option(const char *word, const Verb *verb, const char **value) {
  const OptionRow *found = NULL;
  for (int i = 0; i < OPTION_ROWS; i++) {
    const OptionRow *row = &option_rows[i];
    size_t length = strlen(row->name);
    bool is_long = row->name[1] == '-';
    if (strncmp(word, row->name, length) != 0) continue;
    if (is_long && word[length] && word[length] != '=') continue;
    if (found && !(row->verbs & verb->flag)) continue;
    found = row;
    *value = !word[length] ? NULL : word + length + (is_long ? 1 : 0);
    if (row->verbs & verb->flag) break;
  }
  return found;
}

// NAME=VALUE in two interned parts; false when there is no name.
static bool split_assignment(Options *options, const char *text, const char **name, const char **value) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text) return false;
  *name = intern_n(text, (size_t)(equals - text));
  *value = arena_strndup(options->arena, equals + 1, strlen(equals + 1));
  return true;
}

static const char *read_static(Options *options, const char *text) {
  StaticSetting setting = {0};
  if (!split_assignment(options, text, &setting.name, &setting.value) || !*setting.value) return "wants NAME=VALUE";
  const char *dot = strchr(setting.name, '.');
  if (dot) {
    setting.kernel = intern_n(setting.name, (size_t)(dot - setting.name));
    setting.name = intern(dot + 1);
  }
  LIST_PUSH(options->arena, &options->settings, setting);
  return NULL;
}

static const char *read_output(Options *options, const Verb *verb, const char *text) {
  if (!(verb->flag & (VERB_RUN | VERB_CHECK))) {
    options->output = text;
    return NULL;
  }
  Argument output;
  if (!split_assignment(options, text, &output.name, &output.value) || !*output.value) return "wants OPERAND=FILE.npy";
  LIST_PUSH(options->arena, &options->outputs, output);
  return NULL;
}

static const char *one_of(const char *value, const char *const *allowed) {
  for (; *allowed; allowed++)
    if (strcmp(value, *allowed) == 0) return NULL;
  return "has an unknown value";
}

static const char *read_dma_time(const char *value, DmaTime *time) {
  static const char *const names[] = {"wait", "start", "random"};  // in the order of DmaTime
  for (int i = 0; i < 3; i++)
    if (strcmp(value, names[i]) == 0) {
      *time = (DmaTime)i;
      return NULL;
    }
  return "has an unknown value";
}

static const char *read_target(Options *options, const char *value) {
  options->target = target_find(value);
  return options->target ? NULL : "names an unknown target";
}

int options_threads(const Options *options) {
  const char *text = getenv("PK_THREADS");
  int64_t count;
  if (options->threads > 0) return options->threads;
  return text && parse_int(text, &count) && count >= 1 && count <= MOST_THREADS ? (int)count : 1;
}

static const char *read_count(const char *value, int64_t most, int64_t *count) {
  return parse_int(value, count) && *count >= 1 && *count <= most ? NULL : "wants a positive number";
}

// R or R,A
static const char *read_tolerance(const char *value, Tolerance *tolerance) {
  char *end;
  *tolerance = (Tolerance){.given = true, .relative = strtod(value, &end)};
  bool read = end != value;
  if (read && *end == ',') {
    const char *absolute = end + 1;
    tolerance->absolute = strtod(absolute, &end);
    read = end != absolute;
  }
  bool valid = tolerance->relative >= 0 && tolerance->absolute >= 0;
  return read && !*end && valid ? NULL : "requires R or R,A: a relative and an absolute difference, each at least 0";
}

// NULL, or what is wrong, to be put after the option's name.
static const char *apply_option(Options *options, const Verb *verb, const OptionRow *row, const char *value) {
  static const char *const emit_kinds[] = {"c", "h", "naive", "ast", "ir", "loops", "pallas", NULL}, *const dma[] = {"literal",
                                                                                                                     NULL};
  static const char *const forms[] = {"json", "text", NULL};
  const char *wrong = NULL;
  int64_t count = 0;
  switch (row->id) {
    case OPTION_STATIC:
      return read_static(options, value);
    case OPTION_OUTPUT:
      return read_output(options, verb, value);
    case OPTION_TARGET:
      return read_target(options, value);
    case OPTION_KERNEL:
      options->kernel = intern(value);
      return NULL;
    case OPTION_DUMP:
      options->dumps = value;
      return NULL;
    case OPTION_EMIT:
      options->emit = value;
      return one_of(value, emit_kinds);
    case OPTION_DMA:
      options->literal_dma = true;
      return one_of(value, dma);
    case OPTION_DMA_TIME:
      return read_dma_time(value, &options->check.dma);
    case OPTION_SEED:
      if (!parse_int(value, &count) || count < 0) return "wants a number of at least 0";
      options->check.seed = (uint64_t)count;
      return NULL;
    case OPTION_CORES:
      return read_count(value, INT32_MAX, &options->check.cores);
    case OPTION_CHECKED:
      options->checked = true;
      return NULL;
    case OPTION_THREADS:
      wrong = read_count(value, MOST_THREADS, &count);
      options->threads = (int)count;
      return wrong;
    case OPTION_VMEM:
      return read_count(value, INT64_MAX, &options->vmem_limit);
    case OPTION_MIN_TIME:
      return parse_seconds(value, &options->min_time) ? NULL : "wants seconds";
    case OPTION_MAX_TIME:
      return parse_seconds(value, &options->max_time) ? NULL : "wants seconds";
    case OPTION_NO_CACHE:
      options->no_cache = true;
      return NULL;
    case OPTION_TOLERANCE:
      return read_tolerance(value, &options->tolerance);
    case OPTION_NO_NAIVE:
      options->no_naive = true;
      return NULL;
    case OPTION_JSON:
      options->json = true;
      return NULL;
    case OPTION_VERIFY:
      options->verify_only = true;
      return NULL;
    case OPTION_QUIET:
      options->quiet = true;
      return NULL;
    case OPTION_DIAGNOSTICS:
      if (strcmp(value, "json") == 0) options->diagnostics = DIAG_JSON;
      return one_of(value, forms);
    case OPTION_CHIP:
      options->chip = value;
      return NULL;
    case OPTION_CHIP_FILE:
      options->chip_file = value;
      return NULL;
    case OPTION_CHIPS:
      options->chips = true;
      return NULL;
    case OPTION_SOURCES:
      options->sources = true;
      return NULL;
    case OPTION_SWEEP:
      options->sweep = value;
      return NULL;
    case OPTION_MESH:
      options->mesh = value;
      return NULL;
    case OPTION_COUNTERS:
      options->counters = true;
      return NULL;
    case OPTION_TRACE:
      options->trace = value;
      return NULL;
    case OPTION_HTML:
      options->html = value;
      return NULL;
    case OPTION_SVG:
      options->svg = value;
      return NULL;
    case OPTION_WALK_ALL:
      options->walk_all = true;
      return NULL;
    case OPTION_HELP:
    case OPTION_VERSION:
      return NULL;
  }
  return NULL;
}

static void read_plain_word(Options *options, const char *word) {
  Argument argument;
  if (options->files.count > 0 && split_assignment(options, word, &argument.name, &argument.value))
    LIST_PUSH(options->arena, &options->arguments, argument);
  else
    LIST_PUSH(options->arena, &options->files, word);
}

static int unknown_option(const Verb *verb, const char *word) {
  const char *names[OPTION_ROWS];
  for (int i = 0; i < OPTION_ROWS; i++) names[i] = option_rows[i].name;
  const char *near = strlen(word) > 3 ? closest_name(word, names, OPTION_ROWS) : NULL;
  if (near) return usage_error(verb, "unknown option %s; did you mean %s?", word, near);
  return usage_error(verb, "unknown option %s", word);
}

static int answer(const Verb *verb, OptionId id) {
  if (id == OPTION_VERSION)
    printf("pkc %s\n", PKC_VERSION);
  else if (verb->name[0] && strcmp(verb->name, "pkc") != 0)
    print_verb_help(verb);
  else
    print_help();
  return -1;
}

void options_init(Options *options, Arena *arena) {
  *options = (Options){.arena = arena, .target = target_find("native")};
  options->diagnostics = isatty(2) && !(getenv("NO_COLOR") && *getenv("NO_COLOR")) ? DIAG_COLOUR : DIAG_TEXT;
}

int options_read(Options *options, const Verb *verb, int count, char **words) {
  bool only_words = false;
  for (int i = 0; i < count; i++) {
    const char *word = words[i], *value = NULL;
    if (only_words || word[0] != '-' || !word[1]) {
      read_plain_word(options, word);
      continue;
    }
    if (strcmp(word, "--") == 0) {
      only_words = true;
      continue;
    }
    const OptionRow *row = strcmp(word, "-h") == 0 ? find_option("--help", verb, &value) : find_option(word, verb, &value);
    if (!row) return unknown_option(verb, word);
    if (!(row->verbs & verb->flag)) return usage_error(verb, "%s does not go with `pkc %s`", row->name, verb->name);
    if (row->id == OPTION_HELP || row->id == OPTION_VERSION) return answer(verb, row->id);
    if (value && !row->value) return usage_error(verb, "%s takes no value", row->name);
    if (row->value && !value && ++i < count) value = words[i];
    if (row->value && (!value || !*value)) return usage_error(verb, "%s wants a value: %s", row->name, row->value);
    const char *wrong = apply_option(options, verb, row, value);
    if (wrong) return usage_error(verb, "%s %s: `%s`", row->name, wrong, value);
  }
  return DONE;
}
