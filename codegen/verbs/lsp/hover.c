// Hover: the shape, dtype and bytes of a name, the manual's rows of a function, and the lines of
// `pkc explain` about it.
#include "codegen/verbs/lsp/names.h"

#include <ctype.h>
#include <string.h>

typedef struct {
  const char *name, *calls, *dtypes, *text;
} ManualRow;

static const ManualRow manual[] = {
#define MANUAL(name, calls, dtypes, text) {name, calls, dtypes, text},
#include "manual.h"
};
enum { MANUAL_ROWS = sizeof manual / sizeof *manual };

// ---- words of the language

// The span of the name around an offset; empty if there is none.
static Span word_at(const Document *d, uint32_t at) {
  const char *text = d->source.text;
  Span word = {at, at};
  while (word.start > 0 &&
         (isalnum((unsigned char)text[word.start - 1]) || text[word.start - 1] == '_'))
    word.start--;
  while (isalnum((unsigned char)text[word.end]) || text[word.end] == '_') word.end++;
  return word;
}

static void put_manual(const char *name, Buf *text) {
  for (int i = 0; i < MANUAL_ROWS; i++) {
    const ManualRow *row = &manual[i];
    if (strcmp(row->name, name) != 0) continue;
    buf_printf(text, "%s%s", text->length ? "\n\n" : "", row->calls);
    if (*row->dtypes) buf_printf(text, " (of %s)", row->dtypes);
    if (*row->text) buf_printf(text, ": %s", row->text);
  }
}

// Describes a function that has no row in the manual.
static void put_table_row(Arena *arena, const char *name, Buf *text) {
  LanguageFunction f;
  for (int i = 0; language_function(arena, i, &f); i++) {
    if (strcmp(f.name, name) != 0) continue;
    buf_printf(text, "`%s(", name);
    for (int k = 0; k < f.count; k++) buf_printf(text, "%s%s", k ? ", " : "", f.parameter[k].text);
    buf_puts(text, ")`");
    if (f.meaning) buf_printf(text, ": %s", f.meaning);
    return;
  }
}

static void put_word(Arena *arena, const char *name, Buf *text) {
  DType dtype = dtype_by_name(name);
  if (dtype != DT_COUNT) {
    buf_printf(text, "`%s`, %d bits: %s", name, dtype_info[dtype].bits, dtype_info[dtype].meaning);
    return;
  }
  put_manual(name, text);
  if (text->length == 0) put_table_row(arena, name, text);
}

// ---- names of the file

// The kernel or program whose names are known at an offset: itself, or that of a reference.
static const Node *entry_at(Document *d, uint32_t offset) {
  const Node *file = document_tree(d), *around = NULL;
  for (int i = 0; i < file->list.count; i++) {
    const Node *item = file->list.at[i];
    if (item->span.start <= offset && offset <= item->span.end) around = item;
  }
  int entry = around ? entry_named(file, around->name) : -1;
  return entry < 0 ? NULL : file->list.at[entry];
}

static void put_declaration(Document *d, const NameDeclaration *of, Buf *text) {
  bool several;
  const NameFact *fact = fact_of(d, of->span, &several);
  buf_printf(text, "```pk\n%s %s", name_kind_text(of->kind), of->name);
  if (fact) buf_printf(text, "%s%s", fact->value ? " = " : ": ", fact->type);
  buf_puts(text, "\n```");
  if (fact && fact->more && *fact->more) buf_printf(text, "\n%s", fact->more);
  if (several) buf_puts(text, "\n\nOther calls give it other shapes.");
}

// Only for a text without errors. The lines about a value are those about its declaration.
static void put_reasons(Document *d, const NameDeclaration *of, Buf *text) {
  const Node *entry = entry_at(d, of->span.start);
  bool in_tables = of->kind == NAME_OPERAND || of->kind == NAME_AXIS || of->kind == NAME_SCRATCH,
       computed = of->kind == NAME_VALUE || of->kind == NAME_VARIABLE;
  if (!entry || !(in_tables || computed)) return;
  const char *reasons = in_tables ? explained_name(d, entry, of->name)
                                  : explained_line(d, entry, line_number(d, of->span.start) + 1);
  if (*reasons) buf_printf(text, "\n\n`pkc explain`:\n```text\n%s```", reasons);
}

// textDocument/hover: the declaration of a name with its facts and the generator's reasons, or the
// meaning of a word of the language.
void lsp_hover(Request *r) {
  Document *d = r->document;
  if (!d) return;
  uint32_t at = offset_of(d, json_member(r->params, "position"));
  const Names *names = document_names(d);
  const NameUse *use = use_at_offset(names, at);
  Span word = use ? use->span : word_at(d, at);
  Buf text = {0};
  if (use && use->declaration >= 0) {
    const NameDeclaration *of = &names->declarations.at[use->declaration];
    check_part(d, of->span);
    put_declaration(d, of, &text);
    put_reasons(d, of, &text);
  } else if (word.end > word.start) {
    put_word(r->arena, arena_strndup(r->arena, d->source.text + word.start, word.end - word.start),
             &text);
  }
  if (text.length) {
    json_open(&r->out, "result", '{');
    json_open(&r->out, "contents", '{');
    json_text(&r->out, "kind", "markdown");
    json_text(&r->out, "value", text.text);
    json_close(&r->out, '}');
    put_range(d, &r->out, "range", word);
    json_close(&r->out, '}');
  }
  buf_free(&text);
}
