// Requests about a name: its declaration, its uses, and renaming.
#include "codegen/verbs/lsp/names.h"

#include "dsl/parse.h"

#include <ctype.h>
#include <string.h>

// The use at the position that the request names; NULL: there is none.
static const NameUse *use_here(Request *r) {
  if (!r->document) return NULL;
  uint32_t at = offset_of(r->document, json_member(r->params, "position"));
  const NameUse *found = use_at_offset(document_names(r->document), at);
  return found && found->declaration >= 0 ? found : NULL;
}

static const NameDeclaration *declaration_of(Request *r, const NameUse *use) {
  return &document_names(r->document)->declarations.at[use->declaration];
}

void lsp_definition(Request *r) {
  const NameUse *use = use_here(r);
  if (use) put_location(r->document, &r->out, "result", declaration_of(r, use)->span);
}

static bool same_place(Span a, Span b) { return a.start == b.start && a.end == b.end; }

typedef void PutUse(Request *r, Span span);

// Each use of the name, of its declaration only where `all`.
static void put_uses(Request *r, const NameUse *of, bool all, PutUse *put) {
  const Names *names = document_names(r->document);
  Span declared = declaration_of(r, of)->span;
  for (int i = 0; i < names->uses.count; i++) {
    const NameUse *use = &names->uses.at[i];
    if (use->declaration == of->declaration && (all || !same_place(use->span, declared)))
      put(r, use->span);
  }
}

static void put_reference(Request *r, Span span) { put_location(r->document, &r->out, NULL, span); }

void lsp_references(Request *r) {
  const NameUse *use = use_here(r);
  const Json *all = json_member(json_member(r->params, "context"), "includeDeclaration");
  if (!use) return;
  json_open(&r->out, "result", '[');
  put_uses(r, use, all && all->truth, put_reference);
  json_close(&r->out, ']');
}

static void put_highlight(Request *r, Span span) {
  json_open(&r->out, NULL, '{');
  put_range(r->document, &r->out, "range", span);
  json_close(&r->out, '}');
}

void lsp_highlight(Request *r) {
  const NameUse *use = use_here(r);
  if (!use) return;
  json_open(&r->out, "result", '[');
  put_uses(r, use, true, put_highlight);
  json_close(&r->out, ']');
}

// ---- renaming

void lsp_prepare_rename(Request *r) {
  const NameUse *use = use_here(r);
  if (use) put_range(r->document, &r->out, "result", use->span);
}

static bool is_word(const char *text, TokenClass class) {
  for (int i = 0; i < token_info_count; i++)
    if (token_info[i].class == class && strcmp(token_info[i].text, text) == 0) return true;
  return false;
}

static bool is_name(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return false;
  for (const char *c = text; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  return strcmp(text, "_") != 0 && !is_word(text, TOKEN_RESERVED);
}

// The text with the new name.
static void put_renamed(const Document *d, const Names *names, int declaration, const char *name,
                        Buf *out) {
  uint32_t from = 0;
  for (int i = 0; i < names->uses.count; i++) {
    const NameUse *use = &names->uses.at[i];
    if (use->declaration != declaration) continue;
    buf_add(out, d->source.text + from, use->span.start - from);
    buf_puts(out, name);
    from = use->span.end;
  }
  buf_add(out, d->source.text + from, d->source.length - from);
}

static bool same_meanings(const Names *a, const Names *b) {
  bool same = a->uses.count == b->uses.count;
  for (int i = 0; same && i < a->uses.count; i++)
    same = a->uses.at[i].declaration == b->uses.at[i].declaration;
  return same;
}

// If the new name is a word of the syntax, the text may be parsed differently.
static bool word_keeps_meaning(Request *r, int declaration, const char *name) {
  const Names *before = document_names(r->document);
  Buf text = {0};
  put_renamed(r->document, before, declaration, name, &text);
  Document after = {.arena = r->arena, .uri = r->document->uri};
  after.source = (Source){.path = after.uri, .text = text.text, .length = text.length};
  bool same = same_meanings(document_names(&after), before);
  syntax_free(&after.syntax);
  buf_free(&text);
  return same;
}

// Does each name of the renamed text refer to the same declaration as before?
static bool keeps_meaning(Request *r, int declaration, const char *name) {
  if (is_word(name, TOKEN_WORD)) return word_keeps_meaning(r, declaration, name);
  return same_meanings(renamed_names(r->document, r->arena, declaration, name),
                       document_names(r->document));
}

static void put_new_name(Request *r, Span span) {
  json_open(&r->out, NULL, '{');
  put_range(r->document, &r->out, "range", span);
  json_text(&r->out, "newText", json_string(r->params, "newName"));
  json_close(&r->out, '}');
}

// textDocument/rename: replaces all uses, unless the new name means something else at one of them.
void lsp_rename(Request *r) {
  const NameUse *use = use_here(r);
  const char *name = json_string(r->params, "newName");
  if (!use) return;
  if (!name || !is_name(name)) {
    request_fail(r, RPC_INVALID_PARAMS, "a name has letters, digits and `_`, and is not a keyword");
    return;
  }
  if (!keeps_meaning(r, use->declaration, name)) {
    request_fail(
        r, RPC_FAILED,
        arena_printf(r->arena, "`%s` has another meaning where it would be written", name));
    return;
  }
  json_open(&r->out, "result", '{');
  json_open(&r->out, "changes", '{');
  json_open(&r->out, r->document->uri, '[');
  put_uses(r, use, true, put_new_name);
  json_close(&r->out, ']');
  json_close(&r->out, '}');
  json_close(&r->out, '}');
}
