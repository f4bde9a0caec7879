// `pkc test`: the directives of one file.
#include "codegen/ir/flow.h"
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
    {"test", DIRECTIVE_TEST},         {"error", DIRECTIVE_ERROR},
    {"warning", DIRECTIVE_WARNING},   {"check", DIRECTIVE_CHECK},
    {"refused", DIRECTIVE_REFUSED},   {"explain-not", DIRECTIVE_EXPLAIN_NOT},
    {"explain", DIRECTIVE_EXPLAIN},   {"emit", DIRECTIVE_EMIT},
    {"target", DIRECTIVE_TARGET},     {"prove", DIRECTIVE_PROVE},
    {"gradient", DIRECTIVE_GRADIENT},
};

static const char *name_of(DirectiveKind kind) {
  for (size_t i = 0; i < sizeof directive_names / sizeof *directive_names; i++)
    if (directive_names[i].kind == kind) return directive_names[i].name;
  return "?";
}

PRINTF_LIKE(3, 4)
static void test_fail(TestFile *test, const Directive *directive, const char *format, ...) {
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

// The position of `-k`: at the beginning, or, if the words are arguments and not text, anywhere.
static const char *find_option(const Directive *d, const char *words) {
  bool arguments = d->kind == DIRECTIVE_TEST || d->kind == DIRECTIVE_CHECK ||
                   d->kind == DIRECTIVE_REFUSED || d->kind == DIRECTIVE_PROVE;
  for (const char *at = strstr(words, "-k"); at; at = strstr(at + 2, "-k")) {
    bool allowed = at == words || (arguments && isspace((unsigned char)at[-1]));
    if (allowed && isspace((unsigned char)at[2])) return at;
  }
  return NULL;
}

// Takes `-k NAME` out of a directive's words; returns the others.
static const char *take_kernel(TestFile *test, Directive *d, const char *words) {
  const char *option = find_option(d, words);
  if (!option) return words;
  const char *name = option + 3 + strspn(option + 3, " \t");
  const char *rest = name + strcspn(name, " \t");
  d->kernel = intern_n(name, (size_t)(rest - name));
  const char *others = arena_printf(test->arena, "%.*s%s", (int)(option - words), words, rest);
  return trimmed(test->arena, others, others + strlen(others));
}

// Reads a directive from a comment, if it is one.
static void read_directive(TestFile *test, const char *start, const char *end, int line) {
  for (size_t i = 0; i < sizeof directive_names / sizeof *directive_names; i++) {
    size_t length = strlen(directive_names[i].name);
    if ((size_t)(end - start) <= length || strncmp(start, directive_names[i].name, length) != 0 ||
        start[length] != ':')
      continue;
    Directive d = {.kind = directive_names[i].kind, .line = line};
    d.words = trimmed(test->arena, start + length + 1, end);
    const char *arrow = strstr(d.words, "->");
    bool has_text =
        d.kind == DIRECTIVE_CHECK || d.kind == DIRECTIVE_REFUSED || d.kind == DIRECTIVE_PROVE;
    d.text = "";
    if (has_text && arrow) {
      d.text = trimmed(test->arena, arrow + 2, arrow + strlen(arrow));
      d.words = trimmed(test->arena, d.words, arrow);
    }
    d.words = take_kernel(test, &d, d.words);
    if (d.kind == DIRECTIVE_GRADIENT) d.kernel = intern_n(d.words, strcspn(d.words, " \t"));
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

// ---- errors and warnings: each expected once, and no others

typedef struct {
  bool warning;
  int line, code;
  const char *kernel;  // the kernel whose lowering reported it first
  const char *text, *message;
  bool expected;
} Reported;
typedef LIST(Reported) ReportedList;

static Reported *find_reported(const ReportedList *list, const char *text) {
  for (int i = 0; i < list->count; i++)
    if (strcmp(list->at[i].text, text) == 0) return &list->at[i];
  return NULL;
}

// "path:7:12: error: message [E0123]". Errors of the file itself are reported with every kernel.
static void read_message(TestFile *test, const char *kernel, const char *line, size_t length,
                         ReportedList *list) {
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
  r.text = copy;
  r.kernel = kernel;
  Reported *known = find_reported(list, copy);
  if (known && known->kernel != kernel) known->kernel = NULL;
  if (!known || known->kernel == kernel) LIST_PUSH(test->arena, list, r);
}

static void read_messages(TestFile *test, const char *kernel, const Diag *diag,
                          ReportedList *list) {
  Buf text = {0};
  diag_print(diag, &text, DIAG_TEXT);
  for (const char *at = text.text; at && *at;) {
    size_t length = strcspn(at, "\n");
    read_message(test, kernel, at, length, list);
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
    bool elsewhere = directive->kernel && r->kernel && directive->kernel != r->kernel;
    if (r->expected || r->warning != warning || r->code != code || (line && r->line != line) ||
        elsewhere || !strstr(r->message, text))
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

static void test_messages(TestFile *test, ReportedList *list) {
  for (int i = 0; i < test->directives.count; i++) {
    const Directive *d = &test->directives.at[i];
    if (d->kind == DIRECTIVE_ERROR || d->kind == DIRECTIVE_WARNING) expect_message(test, d, list);
  }
  bool judge_warnings = count_kind(test, DIRECTIVE_WARNING) > 0;
  for (int i = 0; i < list->count; i++) {
    const Reported *r = &list->at[i];
    if (!r->expected && (!r->warning || judge_warnings))
      test_fail(test, NULL, "line %d: not expected: %s: %s", r->line,
                r->warning ? "warning" : "error", r->message);
  }
}

// ---- text that is printed and read back

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

// For a program, the IR of the kernels that it calls.
static void test_ir_text(TestFile *test, const Kernel *k) {
  for (int i = 0; k->flow && i < k->flow->callees.count; i++)
    test_ir_text(test, k->flow->callees.at[i].kernel);
  if (k->flow) return;
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

// The kernel of a directive: the one that it names, otherwise that of the command line, otherwise
// the file's default. NULL: it is not determined.
static const char *kernel_of(const TestFile *test, const Directive *d) {
  if (d->kernel) return d->kernel;
  if (test->options->kernel) return test->options->kernel;
  return test->usual;
}

static void test_text(TestFile *test, const Directive *d, const char *explain, const char *c) {
  bool there = strstr(explain, d->words) != NULL;
  if (d->kind == DIRECTIVE_EXPLAIN) settle(test, d, there ? NULL : "explain does not print it");
  if (d->kind == DIRECTIVE_EXPLAIN_NOT) settle(test, d, there ? "explain prints it" : NULL);
  if (d->kind == DIRECTIVE_EMIT) settle(test, d, test_emit(test, d, c));
}

static void test_texts(TestFile *test, Program *program) {
  Options options = *test->options;
  Buf notes = {0}, c = {0}, explain = {0};
  options.target = target_of_texts(test);
  options.dumps = NULL;
  options.long_cell = 0;
  program_optimise(program, &options, &notes);
  program_emit(program, &options, &c, NULL, NULL, &explain);
  buf_printf(&explain, "%s", notes.text ? notes.text : "");
  for (int i = 0; i < test->directives.count; i++)
    if (kernel_of(test, &test->directives.at[i]) == program->kernel->name)
      test_text(test, &test->directives.at[i], explain.text, c.text ? c.text : "");
  buf_free(&notes);
  buf_free(&c);
  buf_free(&explain);
}

// ---- the file

static bool is_about_kernel(DirectiveKind kind) {
  return kind != DIRECTIVE_ERROR && kind != DIRECTIVE_WARNING && kind != DIRECTIVE_TARGET;
}

static bool has_kernel(const TestFile *test, const char *name) {
  for (int i = 0; i < test->kernels.count; i++)
    if (test->kernels.at[i] == name) return true;
  return false;
}

static const char *names_of_kernels(const TestFile *test) {
  Buf text = {0};
  for (int i = 0; i < test->kernels.count; i++)
    buf_printf(&text, "%s%s", i ? ", " : "", test->kernels.at[i]);
  return arena_take(test->arena, &text);
}

// A directive that no kernel of the file can satisfy is an error of the file.
static void check_directive(TestFile *test, const Directive *d) {
  if (d->kind == DIRECTIVE_TARGET) settle(test, d, target_find(d->words) ? NULL : "no such target");
  const char *kernel = is_about_kernel(d->kind) ? kernel_of(test, d) : d->kernel;
  if (kernel && !has_kernel(test, kernel))
    test_fail(test, d, "there is no kernel %s; the file has %s", kernel, names_of_kernels(test));
  if (!kernel && is_about_kernel(d->kind) && test->kernels.count > 1)
    test_fail(test, d, "the file has several kernels (%s): -k NAME selects one",
              names_of_kernels(test));
}

static void run_directives(TestFile *test, const char *kernel) {
  for (int i = 0; i < test->directives.count; i++) {
    const Directive *d = &test->directives.at[i];
    if (kernel_of(test, d) != kernel) continue;
    if (test->options->passes) {
      const char *wrong = d->kind == DIRECTIVE_TEST ? test_passes(test, d) : NULL;
      if (wrong) test_fail(test, d, "%s", wrong);
      continue;
    }
    if (d->kind == DIRECTIVE_TEST) settle(test, d, test_agreement(test, d));
    if (d->kind == DIRECTIVE_CHECK) settle(test, d, test_finding(test, d));
    if (d->kind == DIRECTIVE_REFUSED) settle(test, d, test_refusal(test, d));
    if (d->kind == DIRECTIVE_PROVE) settle(test, d, test_proof(test, d));
    if (d->kind == DIRECTIVE_GRADIENT) settle(test, d, test_gradient(test, d));
  }
}

static void list_kernels(TestFile *test, const Node *file) {
  int count = kernel_names(file, NULL, 0);
  const char **names = NEW_ARRAY(test->arena, const char *, count + 1);
  kernel_names(file, names, count);
  const Node *usual = default_kernel(file);
  test->usual = usual ? usual->name : NULL;
  for (int i = 0; i < count; i++)
    if (!has_kernel(test, names[i])) LIST_PUSH(test->arena, &test->kernels, names[i]);
}

// Lowers one kernel, NULL for a file without any.
static bool lower_one(TestFile *test, const Program *file, const char *name, Program *out,
                      ReportedList *list) {
  Options options;
  options_init(&options, test->arena);
  options.kernel = name;
  *out = *file;
  bool parsed = diag_error_count(file->diag) == 0;
  if (parsed) out->diag = diag_new(test->arena, &out->source);
  bool ok = program_lower(out, &options, &(LowerOptions){0});
  read_messages(test, name, out->diag, list);
  return ok;
}

// Runs all directives of a file.
void test_file(TestFile *test) {
  Program file;
  Options options;
  ReportedList list = {0};
  options_init(&options, test->arena);
  if (!program_read(&file, &options, test->arena, test->path)) {
    test_fail(test, NULL, "cannot be read: %s", read_problem());
    return;
  }
  read_directives(test, file.source.text);
  list_kernels(test, file.file);
  bool parsed = diag_error_count(file.diag) == 0;
  int count = parsed && test->kernels.count ? test->kernels.count : 1;
  Program *lowered = NEW_ARRAY(test->arena, Program, count);
  bool *ok = NEW_ARRAY(test->arena, bool, count);
  for (int i = 0; i < count; i++) {
    const char *name = parsed && test->kernels.count ? test->kernels.at[i] : NULL;
    ok[i] = lower_one(test, &file, name, &lowered[i], &list);
  }
  if (test->options->passes) {
    for (int i = 0; i < count; i++)
      if (ok[i]) run_directives(test, lowered[i].kernel->name);
    return;
  }
  test_messages(test, &list);
  if (parsed || file.file) test_layout(test, &file.source);
  for (int i = 0; parsed && i < test->directives.count; i++)
    check_directive(test, &test->directives.at[i]);
  for (int i = 0; i < count; i++) {
    if (!ok[i]) continue;
    test_ir_text(test, lowered[i].kernel);
    test_texts(test, &lowered[i]);
    run_directives(test, lowered[i].kernel->name);
  }
}
