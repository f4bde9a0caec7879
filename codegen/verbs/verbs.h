// The command line: one file per verb, options and reports. Uses every other folder.
#ifndef CODEGEN_VERBS_VERBS_H
#define CODEGEN_VERBS_VERBS_H

#include "codegen/run/run.h"
#include "codegen/tpu/tpu.h"
#include "dsl/json.h"

typedef struct Verb Verb;
struct Verb {
  const char *name, *synopsis, *summary;
  unsigned flag;     // VERB_..: which options apply
  const char *text;  // what --help adds
};
extern const Verb verbs[];
extern const int verb_count;
const Verb *verb_find(const char *name);

enum {
#define VERB(id, ...) VERB_NUMBER_##id,
#include "codegen/verbs/verbs.def"
  VERB_COUNT
};
enum {
#define VERB(id, ...) VERB_##id = 1 << VERB_NUMBER_##id,
#include "codegen/verbs/verbs.def"
  VERB_NONE = 1 << VERB_COUNT  // pkc alone
};

// The words that a verb takes besides options, from its synopsis: "FILE.pk", "VERB".
typedef struct {
  const char *text;  // with |, if it may be one of several
  bool optional, several;
} Takes;
Takes verb_takes(Arena *arena, const Verb *verb);

// ---- options.c

typedef struct OptionRow OptionRow;
// Stores a value in its field; NULL, or the mistake, which is printed after the option's name.
typedef const char *OptionReader(Options *options, const OptionRow *row, const char *value);

// A long option is "--name", and its value follows as "=VALUE" or as the next word; a short
// option's value is joined or the next word.
struct OptionRow {
  const char *name, *value;
  unsigned verbs;
  OptionReader *read;  // NULL: --help, --version, --targets, which are answered at once
  size_t field;        // offset in Options, for readers that serve several options
  const char *help;
};
extern const OptionRow option_rows[];
extern const int option_count;
// The row of a word of the command line, for this verb if possible; NULL: none. *value: the part of
// the word after "=".
const OptionRow *option_find(const char *word, const Verb *verb, const char **value);

// Reads everything after the verb. Returns DONE, or USAGE_ERROR with the reason on standard error,
// or ASKED: options->asked is --help, --version or --targets.
enum { ASKED = -1 };
int options_read(Options *options, const Verb *verb, int count, char **words);
// Sets the defaults.
void options_init(Options *options, Arena *arena);
int options_threads(const Options *options);  // --threads, else $PK_THREADS, else 1

// Wrong usage: message to standard error, returns USAGE_ERROR.
int usage_error(const Verb *verb, const char *format, ...) PRINTF_LIKE(2, 3);

// Wrong usage: the verb does not exist; proposes a similar one. `more` ends the message.
int unknown_verb(const char *word, const char *more);

// ---- help.c

// Answers --help and the like for a verb; NULL: for pkc itself.
void answer(Arena *arena, const Verb *verb, const char *asked);
// The letters of -d, in the order of the stages.
typedef void StageVisit(void *context, char letter, const char *meaning);
void each_stage(Arena *arena, StageVisit *visit, void *context);

// ---- report.c: the output of check and run --checked; DONE or CHECK_FAILED

int print_findings(const Options *options, const Binding *binding, const CheckReport *report);
// Compares all operands; `specified` (or NULL) excludes elements; `what`, as in "the reference
// says".
int print_differences(const Options *options, Binding *binding, const HostArray *got,
                      const Interpreted *want, uint8_t *const *specified, const char *what);
// -o OPERAND=FILE.npy: checks that the names exist; writes the files, from all operands. DONE or
// USER_ERROR.
int check_output_names(const Options *options, const Kernel *k, const char *path);
int write_operands(const Options *options, const Kernel *k, const HostArray *operands);

// ---- signature.c: names, dtypes, shapes, statics and sizes of a lowered kernel, as one JSON
// object

void put_signature(const Program *program, Buf *out);

// ---- explain_threads.c: explain --threads. DONE, or the status after a message.

int explain_threads(const Options *options);

// ---- grad.c: explain --gradient. DONE, or the status after a message.

int explain_gradient(const Options *options, Program *program);

// ---- the verbs
#define VERB(id, name, ...) int verb_##name(Options *options);
#include "codegen/verbs/verbs.def"

// ---- tpu.c
// The chip of --chip (or --tpu) and --chip-file, by default v5e. DONE, or the status after a
// message.
int find_chip(const Options *options, const Chip **chip);

#endif
