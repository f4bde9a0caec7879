// pkc complete: the candidates for the last word of a command line, from the tables of verbs and
// options and from the kernel that the line names.
#include "codegen/verbs/verbs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
  Arena *arena;
  const Verb *verb;     // the line's verb, by default compile
  const char *kept;     // the beginning of the last word, which each candidate repeats: "--target="
  const char *partial;  // the rest of it
  const char *file, *kernel;  // the first file and the value of -k, or NULL
  char **words;
  int count;  // without the last word
  Buf out;
} Line;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// Offers a candidate, if it begins like the last word.
static void offer(Line *line, const char *text, const char *meaning) {
  if (!begins(text, line->partial)) return;
  buf_printf(&line->out, "%s%s\t%s\n", line->kept, text, meaning);
}

// Keeps the first `length` characters of the last word; the rest is completed.
static void keep(Line *line, size_t length) {
  line->kept = arena_printf(line->arena, "%s%.*s", line->kept, (int)length, line->partial);
  line->partial += length;
}

// Completes the last element of a list with commas.
static void keep_list(Line *line) {
  const char *comma = strrchr(line->partial, ',');
  if (comma) keep(line, (size_t)(comma + 1 - line->partial));
}

// ---- files

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The folder of a path as typed in a shell.
static const char *folder_of(Line *line, size_t length) {
  const char *home = getenv("HOME"), *path = line->partial;
  if (length == 0) return ".";
  if (begins(path, "~/") && home)
    return arena_printf(line->arena, "%s%.*s", home, (int)length - 1, path + 1);
  return arena_strndup(line->arena, path, length);
}

static bool ends_in(const char *name, const char *ending) {
  size_t length = strlen(name), end = strlen(ending);
  return length > end && strcmp(name + length - end, ending) == 0;
}

// Offers folders, with a slash, and files with this extension.
static void offer_files(Line *line, const char *ending) {
  LIST(const char *) names = {0};
  const char *slash = strrchr(line->partial, '/');
  size_t length = slash ? (size_t)(slash + 1 - line->partial) : 0;
  const char *folder = folder_of(line, length);
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    struct stat st;
    const char *name = entry->d_name;
    if (!begins(name, line->partial + length) || (*name == '.' && !line->partial[length])) continue;
    if (strpbrk(name, "\t\n") || stat(arena_printf(line->arena, "%s/%s", folder, name), &st) != 0)
      continue;
    const char *mark = S_ISDIR(st.st_mode) ? "/" : "";
    if (*mark || ends_in(name, ending))
      LIST_PUSH(line->arena, &names,
                arena_printf(line->arena, "%.*s%s%s", (int)length, line->partial, name, mark));
  }
  closedir(dir);
  sort_items(names.at, (size_t)names.count, sizeof *names.at, by_text);
  for (int i = 0; i < names.count; i++) offer(line, names.at[i], "");
}

static void offer_kernel_files(Line *line) { offer_files(line, ".pk"); }
static void offer_any_files(Line *line) { offer_files(line, ""); }
static void offer_python(Line *line) { offer_files(line, ".py"); }

// ---- names of the tables

static void offer_verbs(Line *line) {
  for (int i = 0; i < verb_count; i++)
    if (verbs[i].flag != VERB_COMPLETE) offer(line, verbs[i].name, verbs[i].summary);
}

static void offer_targets(Line *line) {
  keep_list(line);
  offer(line, "native", target_find("native")->name);
  for (int i = 0; i < target_count; i++) offer(line, targets[i].name, targets[i].meaning);
}

static void offer_chips(Line *line) {
  for (int i = 0; i < chip_count(); i++) offer(line, chip_at(i)->name, "a TPU");
}

static void offer_codes(Line *line) {
  enum { CODES = 10000 };
  if (*line->partial != 'E') return;
  for (int code = 1; code < CODES; code++)
    if (error_meaning(code))
      offer(line, arena_printf(line->arena, "E%04d", code), error_meaning(code));
}

static void offer_stage(void *context, char letter, const char *meaning) {
  Line *line = context;
  offer(line, arena_printf(line->arena, "%c", letter), meaning);
}

static void offer_letters(Line *line) {
  keep(line, strlen(line->partial));
  each_stage(line->arena, offer_stage, line);
}

// ---- names of the kernel

// Parses the line's file as far as possible; false if there is none.
static bool read_kernel(Line *line, Program *program) {
  Options options;
  options_init(&options, line->arena);
  options.kernel = line->kernel ? intern(line->kernel) : NULL;
  return line->file && program_read(program, &options, line->arena, line->file);
}

static const char *source_text(const Program *program, Span span) {
  Buf text = {0};
  buf_puts(&text, "");
  for (uint32_t i = span.start; i < span.end; i++)
    buf_putc(&text, (unsigned char)program->source.text[i] < ' ' ? ' ' : program->source.text[i]);
  return arena_take(program->arena, &text);
}

static void offer_kernels(Line *line) {
  Program program;
  if (!read_kernel(line, &program)) return;
  const NodeList *tops = &program.file->list;
  for (int i = 0; i < tops->count; i++)
    if (is_entry(tops->at[i])) offer(line, tops->at[i]->name, node_name[tops->at[i]->kind]);
}

// Does the line already contain it, as NAME=VALUE or after -D?
static bool is_given(const Line *line, const char *name) {
  size_t length = strlen(name);
  for (int i = 0; i < line->count; i++)
    if (begins(line->words[i], name) && line->words[i][length] == '=') return true;
  return false;
}

static void offer_setting(Line *line, const char *name, const char *meaning) {
  if (!is_given(line, name)) offer(line, arena_printf(line->arena, "%s=", name), meaning);
}

typedef void Visit(Line *line, const Program *program, const Node *node);

// Calls a function for the items of a kind of the kernel's lists.
static void each_item(Line *line, const Program *program, NodeKind kind, Visit *visit) {
  const NodeList *items = &program->kernel_node->a->list;
  for (int i = 0; i < items->count; i++)
    for (int j = 0; items->at[i]->kind == kind && j < items->at[i]->list.count; j++)
      visit(line, program, items->at[i]->list.at[j]);
}

static void each_input(Line *line, const Program *program, Visit *visit) {
  each_item(line, program, N_PREFETCH, visit);
  for (int i = 0; i < program->kernel_node->list.count; i++)
    visit(line, program, program->kernel_node->list.at[i]);
}

static void each_output(Line *line, const Program *program, Visit *visit) {
  for (int i = 0; i < program->kernel_node->list2.count; i++)
    visit(line, program, program->kernel_node->list2.at[i]);
}

static void offer_static(Line *line, const Program *program, const Node *item) {
  const char *value = item->b ? source_text(program, item->b->span) : NULL;
  offer_setting(line, item->name,
                value ? arena_printf(line->arena, "a static, %s by default", value)
                      : "a static without a default");
}

static void offer_operand(Line *line, const Program *program, const Node *param) {
  const char *type = source_text(program, (Span){param->name_span.end, param->span.end});
  offer_setting(line, param->name, type + strspn(type, ": "));
}

static void offer_size(Line *line, const Program *program, const Node *node) {
  if (node->kind != N_NAME || program_has_static(program, node->name)) return;
  const char *text = arena_printf(line->arena, "%s%s=\t", line->kept, node->name);
  if (line->out.text && strstr(line->out.text, text)) return;  // it occurs in two shapes
  offer_setting(line, node->name, "a size");
}

// The sizes in an expression.
static void offer_sizes(Line *line, const Program *program, const Node *node) {
  if (!node) return;
  offer_size(line, program, node);
  const Node *parts[] = {node->a, node->b, node->c};
  for (int i = 0; i < 3; i++) offer_sizes(line, program, parts[i]);
  for (int i = 0; i < node->list.count; i++) offer_sizes(line, program, node->list.at[i]);
  for (int i = 0; i < node->list2.count; i++) offer_sizes(line, program, node->list2.at[i]);
}

static void offer_sizes_of(Line *line, const Program *program, const Node *param) {
  for (int i = 0; i < param->list.count; i++) offer_sizes(line, program, param->list.at[i]);
}

static void offer_statics(Line *line) {
  Program program;
  if (read_kernel(line, &program) && program.kernel_node)
    each_item(line, &program, N_STATIC, offer_static);
}

static void offer_outputs(Line *line) {
  Program program;
  if (strchr(line->partial, '=')) {
    keep(line, strcspn(line->partial, "=") + 1);
    return offer_files(line, ".npy");
  }
  if (!read_kernel(line, &program) || !program.kernel_node) return;
  each_output(line, &program, offer_operand);
  each_input(line, &program, offer_operand);
}

// ---- NAME=VALUE

static const struct {
  const char *text, *meaning;
} inputs[] = {
    {"random:", "floats: standard normal; integers: uniform in [-8, 8)"},
    {"randint:", "LOW:HIGH:SEED: uniform integers"},
    {"patterns:", "NaN, infinities, signed zeros, subnormals"},
    {"iota", "0, 1, 2, .."},
    {"zeros", "0"},
    {"ones", "1"},
    {"const:", "all elements equal"},
};

// Is the value of this name completed?
static bool completes(const Line *line, const char *name) {
  return begins(line->kept, name) && line->kept[strlen(name)] == '=';
}

static void offer_input(Line *line, const Program *program, const Node *param) {
  (void)program;
  if (!completes(line, param->name)) return;
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
    offer(line, inputs[i].text, inputs[i].meaning);
  offer_files(line, ".npy");
}

// Dtypes, if the default of the static is one; true and false, if it is one of these.
static void offer_value(Line *line, const Program *program, const Node *item) {
  (void)program;
  if (!completes(line, item->name) || !item->b) return;
  if (item->b->kind == N_BOOL) {
    offer(line, "true", "");
    offer(line, "false", "");
  }
  if (item->b->kind != N_NAME || dtype_by_name(item->b->name) == DT_COUNT) return;
  for (int i = 0; i < DT_COUNT; i++) offer(line, dtype_info[i].name, dtype_info[i].meaning);
}

// Offers sizes, statics and operands, if the verb accepts them, or the values of one.
static void offer_arguments(Line *line) {
  Program program;
  if (!read_kernel(line, &program)) return;
  if (!program.kernel_node) return offer(line, "-k", "select a kernel of the file");
  bool operands = strstr(line->verb->synopsis, "OPERAND=INPUT");
  if (strchr(line->partial, '=')) {
    keep(line, strcspn(line->partial, "=") + 1);
    if (operands) each_input(line, &program, offer_input);
    return each_item(line, &program, N_STATIC, offer_value);
  }
  if (strstr(line->verb->synopsis, "SIZE=N")) {
    each_input(line, &program, offer_sizes_of);
    each_output(line, &program, offer_sizes_of);
  }
  if (operands) each_input(line, &program, offer_operand);
  each_item(line, &program, N_STATIC, offer_static);
}

// ---- options

// The kinds of values and words in the tables, and the functions that complete them.
static const struct {
  const char *kind;
  void (*offer)(Line *line);
} kinds[] = {
    {"FILE.pk", offer_kernel_files},
    {"PATH", offer_kernel_files},
    {"FILE", offer_any_files},
    {"FILE.py:FUNCTION", offer_python},
    {"TARGET", offer_targets},
    {"TARGET,..", offer_targets},
    {"CHIP", offer_chips},
    {"KERNEL", offer_kernels},
    {"NAME=VALUE", offer_statics},
    {"NAME=LOW:HIGH,..", offer_statics},
    {"NAME=LOW:HIGH", offer_statics},
    {"OPERAND=FILE.npy", offer_outputs},
    {"LETTERS", offer_letters},
    {"E0123", offer_codes},
    {"VERB", offer_verbs},
};

// Offers one word of "A|B": a word in lower case is a candidate itself.
static void offer_kind(Line *line, const char *kind) {
  if (*kind >= 'a' && *kind <= 'z' && !strpbrk(kind, ",:=")) offer(line, kind, "");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    Line copy = *line;  // each kind keeps its own part of the word
    if (strcmp(kind, kinds[i].kind) != 0) continue;
    kinds[i].offer(&copy);
    line->out = copy.out;
  }
}

static void offer_kinds(Line *line, const char *text) {
  for (const char *at = text; at; at = strchr(at, '|')) {
    at += *at == '|';
    offer_kind(line, arena_strndup(line->arena, at, strcspn(at, "|")));
  }
}

static void offer_options(Line *line) {
  for (int i = 0; i < option_count; i++) {
    const OptionRow *row = &option_rows[i];
    if (!(row->verbs & line->verb->flag)) continue;
    const char *equals = row->value && row->name[1] == '-' ? "=" : "";
    offer(line, arena_printf(line->arena, "%s%s", row->name, equals), row->help);
  }
}

// The option whose value the next word is, or NULL.
static const OptionRow *awaits_value(const Line *line, const char *word, const char **value) {
  const OptionRow *row = *word == '-' && word[1] ? option_find(word, line->verb, value) : NULL;
  return row && row->value && (row->verbs & line->verb->flag) ? row : NULL;
}

// The verb, file and kernel of the words before the last one. Returns the option whose value the
// last one is, or NULL.
static const OptionRow *read_words(Line *line) {
  const Verb *verb = line->count ? verb_find(line->words[0]) : NULL;
  const OptionRow *pending = NULL;
  line->verb = verb ? verb : verb_find("compile");
  for (int i = verb ? 1 : 0; i < line->count; i++) {
    const char *word = line->words[i], *value = NULL;
    const OptionRow *row = pending;
    pending = NULL;
    if (row)
      value = word;
    else if ((row = awaits_value(line, word, &value)) && !value)
      pending = row;
    else if (!row && *word != '-' && !line->file)
      line->file = word;
    if (row && value && strcmp(row->name, "-k") == 0) line->kernel = value;
  }
  return pending;
}

static void offer_words(Line *line) {
  Takes takes = verb_takes(line->arena, line->verb);
  if (line->count == 0) {
    offer_verbs(line);
    offer_kernel_files(line);
  } else if (!line->file || takes.several) {
    offer_kinds(line, takes.text);
  } else {
    offer_arguments(line);
  }
}

static void complete(Line *line) {
  const char *value = NULL;
  const OptionRow *row = read_words(line);
  if (!row && (row = awaits_value(line, line->partial, &value))) {
    if (value)
      keep(line, (size_t)(value - line->partial));
    else
      row = NULL;
  }
  if (row)
    offer_kinds(line, row->value);
  else if (*line->partial == '-')
    offer_options(line);
  else
    offer_words(line);
}

int verb_complete(Options *options) {
  int skip = options->word_count && strcmp(options->words[0], "--") == 0;
  int count = options->word_count - skip;
  Line line = {.arena = options->arena, .kept = "", .words = options->words + skip};
  line.count = count > 0 ? count - 1 : 0;
  line.partial = count > 0 ? line.words[count - 1] : "";
  complete(&line);
  int status = line.out.length ? write_result("-", &line.out) : DONE;
  buf_free(&line.out);
  return status;
}
