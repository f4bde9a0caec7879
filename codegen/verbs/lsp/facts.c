// Facts about the names of a document, and the output of `pkc explain` for its kernels.
#include "codegen/ir/ir.h"
#include "codegen/verbs/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

// ---- facts

static int by_place(const void *a, const void *b) {
  const NameFact *x = a, *y = b;
  if (x->name.start != y->name.start) return x->name.start < y->name.start ? -1 : 1;
  int types = strcmp(x->type, y->type);
  return types ? types : strcmp(x->more ? x->more : "", y->more ? y->more : "");
}

static void sort_facts(Document *d) {
  int kept = 0;
  NameFact *at = d->facts.at;
  if (d->sorted) return;
  sort_items(at, (size_t)d->facts.count, sizeof *at, by_place);
  for (int i = 0; i < d->facts.count; i++)
    if (kept == 0 || by_place(&at[kept - 1], &at[i]) != 0) at[kept++] = at[i];
  d->facts.count = kept;
  d->sorted = true;
}

// The first of the facts, in their order, at or after an offset.
static int first_fact(Document *d, uint32_t offset) {
  sort_facts(d);
  int low = 0, high = d->facts.count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (d->facts.at[middle].name.start < offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const NameFact *fact_of(Document *d, Span name, bool *several) {
  int first = first_fact(d, name.start);
  const NameFact *at = d->facts.at;
  *several = first + 1 < d->facts.count && at[first + 1].name.start == name.start;
  return first < d->facts.count && at[first].name.start == name.start ? &at[first] : NULL;
}

// ---- the explanation of a kernel

static const char *write_account(Document *d, const Node *entry) {
  Options options;
  Program program = {
      .arena = arena_new(), .source = d->source, .file = document_tree(d), .kernel_node = entry};
  Buf notes = {0}, c = {0}, account = {0};
  options_init(&options, program.arena);
  options.kernel = entry->name;
  source_index_lines(program.arena, &program.source);
  program.diag = diag_new(program.arena, &program.source);
  if (d->parses && program_lower(&program, &options, NULL)) {
    program_optimise(&program, &options, &notes);
    program_emit(&program, &options, &c, NULL, NULL, &account);
  }
  const char *text = arena_strndup(d->arena, account.text ? account.text : "", account.length);
  buf_free(&notes);
  buf_free(&c);
  buf_free(&account);
  arena_free(program.arena);
  return text;
}

static const char *account_of(Document *d, const Node *entry) {
  if (d->explained != entry) d->account = write_account(d, entry);
  d->explained = entry;
  return d->account;
}

static const char *next_line(const char *line) {
  line += strcspn(line, "\n");
  return line + (*line == '\n');
}

static size_t indent_of(const char *line) { return strspn(line, " "); }

static bool is_line_of(const char *text, const char *head, char after) {
  size_t length = strlen(head);
  return strncmp(text, head, length) == 0 && text[length] == after;
}

// Adds a line and those below it that are further indented.
static const char *add_lines(const char *line, Buf *out) {
  const char *first = line;
  size_t own = indent_of(line);
  do {
    const char *end = next_line(line);
    size_t more = indent_of(line) - own;
    for (size_t i = 0; i < more && i < 2; i++) buf_putc(out, ' ');
    buf_add(out, line + indent_of(line), (size_t)(end - line) - indent_of(line));
    line = end;
  } while (*line && *line != '\n' && indent_of(line) > own);
  return line > first ? line : next_line(first);
}

static const char *lines_with(Document *d, const char *account, const char *head, char after) {
  Buf out = {0};
  for (const char *line = account; *line;)
    line = *line == ' ' && is_line_of(line + indent_of(line), head, after) ? add_lines(line, &out)
                                                                           : next_line(line);
  return arena_take(d->arena, &out);
}

const char *explained_line(Document *d, const Node *entry, int line) {
  return lines_with(d, account_of(d, entry), arena_printf(d->arena, "line %d", line), ':');
}

const char *explained_name(Document *d, const Node *entry, const char *name) {
  return lines_with(d, account_of(d, entry), name, ' ');
}
