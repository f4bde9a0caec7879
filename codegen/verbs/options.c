// The words of the command line.
#include "codegen/verbs/verbs.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  MOST_THREADS = 1024,
  BUILDS = VERB_RUN | VERB_BENCH | VERB_TEST | VERB_PROFILE,
  MESHES = VERB_COMPILE | VERB_CHECK | VERB_RUN | VERB_BENCH | VERB_EXPLAIN | VERB_TUNE,
  ALL_VERBS = -1,
  KERNEL_VERBS =
      ALL_VERBS & ~(VERB_FMT | VERB_NEW | VERB_HELP | VERB_LSP | VERB_COMPLETE | VERB_CALIBRATE)
};

#define FIELD(name) offsetof(Options, name)

// ---- readers

static void *field_of(Options *options, const OptionRow *row) {
  return (char *)options + row->field;
}

static const char *read_flag(Options *options, const OptionRow *row, const char *value) {
  (void)value;
  *(bool *)field_of(options, row) = true;
  return NULL;
}

static const char *read_text(Options *options, const OptionRow *row, const char *value) {
  *(const char **)field_of(options, row) = value;
  return NULL;
}

static const char *read_name(Options *options, const OptionRow *row, const char *value) {
  return read_text(options, row, intern(value));
}

static const char *read_count(Options *options, const OptionRow *row, const char *value) {
  int64_t *count = field_of(options, row);
  return parse_int(value, count) && *count >= 1 ? NULL : "expects a whole number from 1 to 2^63-1";
}

// A number of bytes: 4096, 64K, 2.5M, 1G.
static const char *read_bytes(Options *options, const OptionRow *row, const char *value) {
  static const char units[] = "KMG";
  char *end = NULL;
  double bytes = *value >= '0' && *value <= '9' ? strtod(value, &end) : 0;
  const char *unit = bytes > 0 && *end ? strchr(units, *end) : NULL;
  if (unit) bytes *= (double)(INT64_C(1) << 10 * (unit - units + 1));
  if (bytes < 1 || bytes >= 9e18 || (*end && (!unit || end[1])))
    return "expects a number of bytes, such as 4096, 64K, 512M or 2G";
  *(int64_t *)field_of(options, row) = (int64_t)bytes;
  return NULL;
}

static const char *read_seconds(Options *options, const OptionRow *row, const char *value) {
  double *seconds = field_of(options, row);
  char *end;
  *seconds = strtod(value, &end);
  return *value && !*end && *seconds > 0 && *seconds < 1e6 ? NULL : "expects seconds";
}

// The message for a value that is not among the allowed names.
static const char *none_of(Arena *arena, const char *value, const char *const *names, int count) {
  Buf text = {0};
  for (int i = 0; i < count; i++)
    buf_printf(&text, "%s%s", i == 0 ? "is " : i == count - 1 ? " or " : ", ", names[i]);
  const char *near = strlen(value) > 2 ? closest_name(value, names, count) : NULL;
  if (near) buf_printf(&text, " (did you mean %s?)", near);
  return arena_take(arena, &text);
}

// The index of a value among those of the row, "A|B|C", or -1 and an error message.
static int choice(Arena *arena, const OptionRow *row, const char *value, const char **wrong) {
  enum { MOST_CHOICES = 16 };
  const char *allowed[MOST_CHOICES];
  int count = 0, found = -1;
  for (const char *at = row->value; at; at = strchr(at, '|')) {
    at += *at == '|';
    REQUIRE(count < MOST_CHOICES);
    allowed[count] = arena_strndup(arena, at, strcspn(at, "|"));
    if (strcmp(value, allowed[count]) == 0) found = count;
    count++;
  }
  *wrong = found < 0 ? none_of(arena, value, allowed, count) : NULL;
  return found;
}

static const char *read_choice(Options *options, const OptionRow *row, const char *value) {
  const char *wrong;
  choice(options->arena, row, value, &wrong);
  if (row->field) *(const char **)field_of(options, row) = value;
  return wrong;
}

static const char *read_literal(Options *options, const OptionRow *row, const char *value) {
  options->literal_dma = true;
  return read_choice(options, row, value);
}

static const char *read_dma_time(Options *options, const OptionRow *row, const char *value) {
  const char *wrong;
  int time = choice(options->arena, row, value, &wrong);  // in the order of DmaTime
  options->check.dma = (DmaTime)(time < 0 ? 0 : time);
  return wrong;
}

static const char *read_diagnostics(Options *options, const OptionRow *row, const char *value) {
  const char *wrong;
  if (choice(options->arena, row, value, &wrong) == 0) options->diagnostics = DIAG_JSON;
  return wrong;
}

static const char *read_seed(Options *options, const OptionRow *row, const char *value) {
  int64_t seed;
  (void)row;
  if (!parse_int(value, &seed) || seed < 0) return "expects a number of at least 0";
  options->check.seed = (uint64_t)seed;
  return NULL;
}

// R or R,A
static const char *read_tolerance(Options *options, const OptionRow *row, const char *value) {
  Tolerance *tolerance = &options->tolerance;
  char *end;
  (void)row;
  *tolerance = (Tolerance){.given = true, .relative = strtod(value, &end)};
  bool read = end != value;
  if (read && *end == ',') {
    const char *absolute = end + 1;
    tolerance->absolute = strtod(absolute, &end);
    read = end != absolute;
  }
  bool valid = tolerance->relative >= 0 && tolerance->absolute >= 0;
  return read && !*end && valid
             ? NULL
             : "requires R or R,A: a relative and an absolute difference, each at least 0";
}

static const char *read_numerics(Options *options, const OptionRow *row, const char *value) {
  const char *wrong;
  int found = choice(options->arena, row, value, &wrong);  // in the order of Numerics
  options->numerics = (Numerics)(found < 0 ? 0 : found);
  return wrong;
}

static const char *no_target(Arena *arena, const char *name) {
  enum { MOST_TARGETS = 32 };
  const char *names[MOST_TARGETS] = {"native"};
  int count = 1;
  REQUIRE(target_count < MOST_TARGETS);
  for (const Target *t = targets; t < targets + target_count; t++) names[count++] = t->name;
  return none_of(arena, name, names, count);
}

// Every name is a target's: the first that is not, or NULL.
static const char *unknown_target(Arena *arena, const char *list) {
  for (const char *p = list;; p++) {
    const char *name = arena_strndup(arena, p, strcspn(p, ","));
    if (!target_find(name)) return name;
    p += strlen(name);
    if (!*p) return NULL;
  }
}

static const char *read_targets(Options *options, const OptionRow *row, const char *value) {
  (void)row;
  const char *native = target_find("native")->name, *prefix = "";
  const char *unknown = unknown_target(options->arena, value);
  if (unknown && !*unknown)
    return "requires names of targets with commas between them; one is empty";
  if (unknown)
    return arena_printf(options->arena, "names the unknown target %s; each %s", unknown,
                        no_target(options->arena, unknown));
  for (const Target *t = targets; t < targets + target_count; t++) {
    bool wanted =
        is_in_list(value, t->name) || (strcmp(t->name, native) == 0 && is_in_list(value, "native"));
    if (!wanted) continue;
    if (*prefix && *t->cc_prefix && strcmp(prefix, t->cc_prefix) != 0)
      return "names targets of different architectures";
    if (*t->cc_prefix) prefix = t->cc_prefix;
    LIST_PUSH(options->arena, &options->variants, t);
  }
  return NULL;
}

// Extents with x between them: "8", "4x2".
static const char *read_mesh(Options *options, const OptionRow *row, const char *value) {
  const char *p = value;
  for (;;) {
    int64_t extent;
    const size_t length = strcspn(p, "x");
    if (!parse_int(arena_strndup(options->arena, p, length), &extent) || extent < 1)
      return "expects positive numbers with x between them, as in 8 or 4x2";
    if (!p[length]) return read_text(options, row, value);
    p += length + 1;
  }
}

static const char *read_threads(Options *options, const OptionRow *row, const char *value) {
  int64_t count;
  (void)row;
  if (!parse_int(value, &count) || count < 1 || count > MOST_THREADS)
    return arena_printf(options->arena, "expects a whole number from 1 to %d", MOST_THREADS);
  options->threads = (int)count;
  return NULL;
}

static const char *read_target(Options *options, const OptionRow *row, const char *value) {
  (void)row;
  options->target = target_find(value);
  return options->target ? NULL : no_target(options->arena, value);
}

// NAME=VALUE in two interned parts; false when there is no name.
static bool split_assignment(Options *options, const char *text, const char **name,
                             const char **value) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text) return false;
  *name = intern_n(text, (size_t)(equals - text));
  *value = arena_strndup(options->arena, equals + 1, strlen(equals + 1));
  return true;
}

static const char *read_static(Options *options, const OptionRow *row, const char *text) {
  StaticSetting setting = {0};
  (void)row;
  if (!split_assignment(options, text, &setting.name, &setting.value) || !*setting.value)
    return "expects NAME=VALUE";
  const char *dot = strchr(setting.name, '.');
  if (dot) {
    setting.kernel = intern_n(setting.name, (size_t)(dot - setting.name));
    setting.name = intern(dot + 1);
  }
  LIST_PUSH(options->arena, &options->settings, setting);
  return NULL;
}

static const char *read_output(Options *options, const OptionRow *row, const char *text) {
  Argument output;
  (void)row;
  if (!split_assignment(options, text, &output.name, &output.value) || !*output.value)
    return "expects OPERAND=FILE.npy";
  LIST_PUSH(options->arena, &options->outputs, output);
  return NULL;
}

// ---- the options

const OptionRow option_rows[] = {
#define OPTION(name, value, verbs, read, field, help) \
  {name, value, (unsigned)(verbs), read, field, help},
#include "codegen/verbs/options.def"
};
enum { OPTION_ROWS = sizeof option_rows / sizeof *option_rows };
const int option_count = OPTION_ROWS;

int usage_error(const Verb *verb, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("pkc: ", stderr);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\nTry `pkc %s%s--help`.\n", verb ? verb->name : "", verb ? " " : "");
  return USAGE_ERROR;
}

// ---- reading

const OptionRow *option_find(const char *word, const Verb *verb, const char **value) {
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

int options_threads(const Options *options) {
  const char *text = getenv("PK_THREADS");
  int64_t count;
  if (options->threads > 0) return options->threads;
  return text && parse_int(text, &count) && count >= 1 && count <= MOST_THREADS ? (int)count : 1;
}

static void read_plain_word(Options *options, const char *word) {
  Argument argument;
  if (options->files.count > 0 && split_assignment(options, word, &argument.name, &argument.value))
    LIST_PUSH(options->arena, &options->arguments, argument);
  else
    LIST_PUSH(options->arena, &options->files, word);
}

// Are they equal but for dashes, underscores and capitals?
static bool spelled_alike(const char *a, const char *b) {
  for (;; a++, b++) {
    a += strspn(a, "-_");
    b += strspn(b, "-_");
    if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
    if (!*a) return true;
  }
}

// The name that a word perhaps means: equal but for dashes and capitals, or nearly equal; or NULL.
static const char *name_meant(const char *word, const char *const *names, int count) {
  for (int i = 0; i < count && strlen(word) > 2; i++)
    if (spelled_alike(word, names[i])) return names[i];
  return strlen(word) > 3 ? closest_name(word, names, count) : NULL;
}

int unknown_verb(const char *word, const char *more) {
  const char *names[VERB_COUNT];
  for (int i = 0; i < verb_count; i++) names[i] = verbs[i].name;
  const char *near = name_meant(word, names, verb_count);
  if (near) return usage_error(NULL, "unknown verb %s; did you mean %s?", word, near);
  return usage_error(NULL, "unknown verb %s%s", *word ? word : "``", more);
}

// The option that a word names in another spelling, which a note mentions; or NULL.
static const OptionRow *option_alike(Options *options, const Verb *verb, const char *word,
                                     const char **value) {
  const size_t length = strcspn(word, "=");
  const char *name = arena_strndup(options->arena, word, length);
  for (int i = 0; i < OPTION_ROWS && length > 2; i++) {
    const OptionRow *row = &option_rows[i];
    if (row->name[1] != '-' || !(row->verbs & verb->flag) || !spelled_alike(name, row->name))
      continue;
    fprintf(stderr, "pkc: note: %s is read as %s\n", name, row->name);
    *value = word[length] ? word + length + 1 : NULL;
    return row;
  }
  return NULL;
}

static int unknown_option(Options *options, const Verb *verb, const char *word) {
  const char *names[OPTION_ROWS];
  int count = 0;
  word = arena_strndup(options->arena, word, strcspn(word, "="));
  for (int i = 0; i < OPTION_ROWS; i++)
    if (option_rows[i].verbs & verb->flag) names[count++] = option_rows[i].name;
  const char *near = strlen(word) > 3 ? closest_name(word, names, count) : NULL;
  if (near) return usage_error(verb, "unknown option %s; did you mean %s?", word, near);
  return usage_error(verb, "unknown option %s", word);
}

void options_init(Options *options, Arena *arena) {
  *options = (Options){.arena = arena, .target = target_find("native")};
  options->diagnostics =
      isatty(2) && !(getenv("NO_COLOR") && *getenv("NO_COLOR")) ? DIAG_COLOUR : DIAG_TEXT;
}

// The value of an option that takes one: joined, or the next word. DONE or USAGE_ERROR.
static int take_value(const Verb *verb, const OptionRow *row, const char **value, const char *next,
                      int *at) {
  if (row->name[1] != '-' && *value && **value == '=' && row->value)
    return usage_error(verb, "%s%s: write %s %s", row->name, *value, row->name, *value + 1);
  if (!*value && next) {
    *value = next;
    ++*at;
  }
  if (*value && **value) return DONE;
  return usage_error(verb, "%s expects a value: %s", row->name, row->value);
}

typedef struct {
  const OptionRow *row;
  const char *value;
} Given;
typedef LIST(Given) GivenList;

// Notes a value of an option. DONE, or USAGE_ERROR if it has one already; an option for names may
// be repeated with other names.
static int note_given(Options *options, const Verb *verb, GivenList *given, const OptionRow *row,
                      const char *value) {
  bool of_names = row->read == read_static || row->read == read_output;
  const size_t name = of_names ? strcspn(value, "=") + 1 : 0;
  for (int i = 0; i < given->count; i++) {
    const char *first = given->at[i].value;
    if (given->at[i].row == row && strncmp(first, value, name) == 0)
      return usage_error(verb, "%s is given twice: `%s` and `%s`", row->name, first, value);
  }
  LIST_PUSH(options->arena, given, ((Given){row, value}));
  return DONE;
}

// Reads the words after the verb. Returns DONE, ASKED for --help and its relatives, or the status
// of a wrong use, which has been reported.
int options_read(Options *options, const Verb *verb, int count, char **words) {
  bool only_words = false;
  GivenList given = {0};
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
    const OptionRow *row = option_find(strcmp(word, "-h") == 0 ? "--help" : word, verb, &value);
    if (!row) row = option_alike(options, verb, word, &value);
    if (!row) return unknown_option(options, verb, word);
    if (!(row->verbs & verb->flag))
      return usage_error(verb, "%s does not apply to `pkc %s`", row->name, verb->name);
    if (value && !row->value) return usage_error(verb, "%s takes no value", row->name);
    options->asked = row->read ? NULL : row->name;
    if (options->asked) return ASKED;
    const char *next = i + 1 < count ? words[i + 1] : NULL;
    if (row->value && take_value(verb, row, &value, next, &i) != DONE) return USAGE_ERROR;
    const char *wrong = row->read(options, row, value);
    if (wrong) return usage_error(verb, "%s %s: `%s`", row->name, wrong, value);
    if (row->value && note_given(options, verb, &given, row, value) != DONE) return USAGE_ERROR;
  }
  return DONE;
}
