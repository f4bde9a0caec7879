// `pkc test`: the directives of one file.
#include "codegen/verbs/test/test.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  DirectiveKind kind;
} directive_names[] = {
    {"test", DIRECTIVE_TEST},       {"error", DIRECTIVE_ERROR},
    {"warning", DIRECTIVE_WARNING}, {"check", DIRECTIVE_CHECK},
    {"refused", DIRECTIVE_REFUSED}, {"explain-not", DIRECTIVE_EXPLAIN_NOT},
    {"explain", DIRECTIVE_EXPLAIN}, {"emit", DIRECTIVE_EMIT},
    {"target", DIRECTIVE_TARGET},
};

static const char *name_of(DirectiveKind kind) {
  for (size_t i = 0; i < sizeof directive_names / sizeof *directive_names; i++)
    if (directive_names[i].kind == kind) return directive_names[i].name;
  return "?";
}

void test_fail(TestFile *test, const Directive *directive, const char *format, ...) {
  Buf line = {0};
  va_list args;
  va_start(args, format);
  buf_vprintf(&line, format, args);
  va_end(args);
  for (size_t i = 0; i < line.length; i++)
    if (line.text[i] == '\n') line.text[i] = ' ';
  buf_printf(&test->failures, "FAIL %s", test->path);
  if (directive)
    buf_printf(&test->failures, ":%d: %s: %s", directive->line, name_of(directive->kind),
               directive->words);
  buf_printf(&test->failures, ": %.*s; reproduce: pkc test %s\n", 600, line.text, test->path);
  buf_free(&line);
  test->failed++;
}

static void settle(TestFile *test, const Directive *directive, const char *wrong) {
  if (wrong)
    test_fail(test, directive, "%s", wrong);
  else
    test->passed++;
}

// ---- reading directives

static const char *trimmed(Arena *arena, const char *start, const char *end) {
  while (start < end && isspace((unsigned char)*start)) start++;
  while (end > start && isspace((unsigned char)end[-1])) end--;
  return arena_strndup(arena, start, (size_t)(end - start));
}

static void read_directive(TestFile *test, const char *start, const char *end, int line) {
  for (size_t i = 0; i < sizeof directive_names / sizeof *directive_names; i++) {
    size_t length = strlen(directive_names[i].name);
    if ((size_t)(end - start) <= length || strncmp(start, directive_names[i].name, length) != 0 ||
        start[length] != ':')
      continue;
    Directive d = {.kind = directive_names[i].kind, .line = line};
    d.words = trimmed(test->arena, start + length + 1, end);
    const char *arrow = strstr(d.words, "->");
    bool has_text = d.kind == DIRECTIVE_CHECK || d.kind == DIRECTIVE_REFUSED;
    d.text = "";
    if (has_text && arrow) {
      d.text = trimmed(test->arena, arrow + 2, arrow + strlen(arrow));
      d.words = trimmed(test->arena, d.words, arrow);
    }
    LIST_PUSH(test->arena, &test->directives, d);
    return;
  }
}

static void read_directives(TestFile *test, const char *text) {
  int line = 1;
  for (const char *at = text; *at; line++) {
    const char *end = at + strcspn(at, "\n"), *slashes = strstr(at, "//");
    if (slashes && slashes < end) {
      for (slashes += 2; slashes < end && *slashes == ' ';) slashes++;
      read_directive(test, slashes, end, line);
    }
    at = end + (*end == '\n');
  }
}

bool test_options(TestFile *test, const Directive *directive, Options *options) {
  const char *texts[] = {directive->words};
  const char *const *words = split_words(test->arena, texts, 1);
  LIST(char *) list = {0};
  LIST_PUSH(test->arena, &list, (char *)(uintptr_t)test->path);
  for (int i = 0; words[i]; i++) {
    bool threads = strncmp(words[i], "threads=", 8) == 0;
    const char *word = threads ? arena_printf(test->arena, "--%s", words[i]) : words[i];
    LIST_PUSH(test->arena, &list, (char *)(uintptr_t)word);
  }
  options_init(options, test->arena);
  options->no_cache = test->options->no_cache;
  options->target = test->options->target;
  options->kernel = test->options->kernel;
  options->threads = test->options->threads;
  options->tolerance = test->options->tolerance;
  for (int i = 0; i < test->options->settings.count; i++)
    LIST_PUSH(test->arena, &options->settings, test->options->settings.at[i]);
  const char *verb = directive->kind == DIRECTIVE_CHECK ? "check" : "run";
  if (options_read(options, verb_find(verb), list.count, list.at) == DONE &&
      options->files.count == 1)
    return true;
  test_fail(test, directive, "the directive is malformed");
  return false;
}

// ---- errors and warnings: each expected once, none besides

typedef struct {
  bool warning;
  int line, code;
  const char *message;
  bool expected;
} Reported;
typedef LIST(Reported) ReportedList;

// "path:7:12: error: message [E0123]"
static void read_message(TestFile *test, const char *line, size_t length, ReportedList *list) {
  size_t skip = strlen(test->path);
  const char *copy = arena_strndup(test->arena, line, length), *code = strrchr(copy, '[');
  if (length <= skip || strncmp(copy, test->path, skip) != 0 || copy[skip] != ':' || !code ||
      code[1] != 'E')
    return;
  Reported r = {.line = atoi(copy + skip + 1), .code = atoi(code + 2)};
  const char *error = strstr(copy + skip, " error: "), *warning = strstr(copy + skip, " warning: ");
  r.warning = warning && (!error || warning < error);
  if (!error && !warning) return;
  r.message = r.warning ? warning + 10 : error + 8;
  LIST_PUSH(test->arena, list, r);
}

static void read_messages(TestFile *test, const Diag *diag, ReportedList *list) {
  Buf text = {0};
  diag_print(diag, &text, DIAG_TEXT);
  for (const char *at = text.text; at && *at;) {
    size_t length = strcspn(at, "\n");
    read_message(test, at, length, list);
    at += length + (at[length] == '\n');
  }
  buf_free(&text);
}

// `E0301@12 some text`
static void expect_message(TestFile *test, const Directive *directive, ReportedList *list) {
  bool warning = directive->kind == DIRECTIVE_WARNING;
  char *end;
  int code = directive->words[0] == 'E' ? (int)strtol(directive->words + 1, &end, 10) : -1,
      line = 0;
  if (code < 0) {
    test_fail(test, directive, "expected a code such as E0101");
    return;
  }
  if (*end == '@') line = (int)strtol(end + 1, &end, 10);
  const char *text = end + strspn(end, " ");
  for (int i = 0; i < list->count; i++) {
    Reported *r = &list->at[i];
    if (r->expected || r->warning != warning || r->code != code || (line && r->line != line) ||
        !strstr(r->message, text))
      continue;
    r->expected = true;
    test->passed++;
    return;
  }
  test_fail(test, directive, "not reported");
}

static int count_kind(const TestFile *test, DirectiveKind kind) {
  int count = 0;
  for (int i = 0; i < test->directives.count; i++) count += test->directives.at[i].kind == kind;
  return count;
}

static void test_messages(TestFile *test, const Diag *diag) {
  ReportedList list = {0};
  read_messages(test, diag, &list);
  for (int i = 0; i < test->directives.count; i++) {
    const Directive *d = &test->directives.at[i];
    if (d->kind == DIRECTIVE_ERROR || d->kind == DIRECTIVE_WARNING) expect_message(test, d, &list);
  }
  bool judge_warnings = count_kind(test, DIRECTIVE_WARNING) > 0;
  for (int i = 0; i < list.count; i++) {
    const Reported *r = &list.at[i];
    if (!r->expected && (!r->warning || judge_warnings))
      test_fail(test, NULL, "line %d: not expected: %s: %s", r->line,
                r->warning ? "warning" : "error", r->message);
  }
}

// ---- text that goes out and comes back

static void test_layout(TestFile *test, const Source *source) {
  Buf once = {0}, twice = {0};
  Diag *diag = diag_new(test->arena, source);
  if (format_source(test->arena, source, diag, &once)) {
    Source formatted = {
        .path = source->path, .text = once.text ? once.text : "", .length = once.length};
    bool same = format_source(test->arena, &formatted, diag_new(test->arena, &formatted), &twice) &&
                once.length == twice.length &&
                (once.length == 0 || memcmp(once.text, twice.text, once.length) == 0);
    settle(test, NULL, same ? NULL : "formatting the formatted text changes it");
  }
  buf_free(&once);
  buf_free(&twice);
}

static void test_ir_text(TestFile *test, const Kernel *k) {
  Buf once = {0}, twice = {0};
  ir_print(k, &once);
  Source source = {.path = "<ir>", .text = once.text ? once.text : "", .length = once.length};
  Diag *diag = diag_new(test->arena, &source);
  Kernel *again = ir_parse(test->arena, &source, diag);
  if (again) ir_print(again, &twice);
  bool same =
      again && once.length == twice.length && memcmp(once.text, twice.text, once.length) == 0;
  settle(test, NULL, same ? NULL : "the text of the IR does not read back as the same");
  buf_free(&once);
  buf_free(&twice);
}

// ---- explain and emit, for one target so that the answer does not depend on the machine

static const Target *target_of_texts(TestFile *test) {
  const Target *target = target_find("x86-64-v4");
  for (int i = 0; i < test->directives.count; i++) {
    const Directive *d = &test->directives.at[i];
    if (d->kind != DIRECTIVE_TARGET) continue;
    const Target *named = target_find(d->words);
    settle(test, d, named ? NULL : "no such target");
    if (named) target = named;
  }
  return target;
}

static int occurrences(const char *text, const char *part) {
  int count = 0;
  for (const char *at = text; at && *part && (at = strstr(at, part)); at += strlen(part)) count++;
  return count;
}

static const char *test_emit(TestFile *test, const Directive *directive, const char *c) {
  char *end;
  long wanted = strtol(directive->words, &end, 10);
  if (end == directive->words) return "expected a number and a text";
  int found = occurrences(c, end + strspn(end, " "));
  return found == wanted ? NULL : arena_printf(test->arena, "found %d times", found);
}

static void test_texts(TestFile *test, Program *program) {
  Options options = *test->options;
  Buf notes = {0}, c = {0}, explain = {0};
  options.target = target_of_texts(test);
  options.dumps = NULL;
  program_optimise(program, &options, &notes);
  program_emit(program, &options, &c, NULL, NULL, &explain);
  buf_printf(&explain, "%s", notes.text ? notes.text : "");
  for (int i = 0; i < test->directives.count; i++) {
    const Directive *d = &test->directives.at[i];
    bool there = strstr(explain.text, d->words) != NULL;
    if (d->kind == DIRECTIVE_EXPLAIN) settle(test, d, there ? NULL : "explain does not say so");
    if (d->kind == DIRECTIVE_EXPLAIN_NOT) settle(test, d, there ? "explain says so" : NULL);
    if (d->kind == DIRECTIVE_EMIT) settle(test, d, test_emit(test, d, c.text ? c.text : ""));
  }
  buf_free(&notes);
  buf_free(&c);
  buf_free(&explain);
}

static void run_directive(TestFile *test, const Directive *d) {
  if (d->kind == DIRECTIVE_TEST) settle(test, d, test_agreement(test, d));
  if (d->kind == DIRECTIVE_CHECK) settle(test, d, test_finding(test, d));
  if (d->kind == DIRECTIVE_REFUSED) settle(test, d, test_refusal(test, d));
}

void test_file(TestFile *test) {
  Program program;
  Options options;
  options_init(&options, test->arena);
  if (!program_read(&program, &options, test->arena, test->path)) {
    test_fail(test, NULL, "cannot be read: %s", strerror(errno));
    return;
  }
  read_directives(test, program.source.text);
  bool ok = program_lower(&program, &options, &(LowerOptions){0});
  test_messages(test, program.diag);
  if (diag_error_count(program.diag) == 0 || program.file) test_layout(test, &program.source);
  if (!ok) return;
  test_ir_text(test, program.kernel);
  test_texts(test, &program);
  for (int i = 0; i < test->directives.count; i++) run_directive(test, &test->directives.at[i]);
}
