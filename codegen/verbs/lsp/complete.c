// Requests at the cursor: completion, and the parameters of a call.
#include "codegen/verbs/lsp/names.h"

#include "dsl/parse.h"
#include "dsl/typed.h"

#include <string.h>

// ---- completion

// CompletionItemKind of the protocol.
enum {
  ITEM_METHOD = 2,
  ITEM_FUNCTION = 3,
  ITEM_FIELD = 5,
  ITEM_VARIABLE = 6,
  ITEM_KEYWORD = 14,
  ITEM_CONSTANT = 21,
  ITEM_TYPE = 25
};

static void put_item(Request *r, const char *label, int kind, const char *detail,
                     const char *about) {
  json_open(&r->out, NULL, '{');
  json_text(&r->out, "label", label);
  json_int(&r->out, "kind", kind);
  if (detail) json_text(&r->out, "detail", detail);
  if (about) json_text(&r->out, "documentation", about);
  json_close(&r->out, '}');
}

static const char *signature_of(Arena *arena, const LanguageFunction *f) {
  Buf text = {0};
  buf_printf(&text, "%s(", f->name);
  for (int i = 0; i < f->count; i++) buf_printf(&text, "%s%s", i ? ", " : "", f->parameter[i].text);
  buf_putc(&text, ')');
  return arena_take(arena, &text);
}

static void put_functions(Request *r) {
  LanguageFunction f;
  for (int i = 0; language_function(r->arena, i, &f); i++)
    put_item(r, f.name, ITEM_FUNCTION, signature_of(r->arena, &f), f.meaning);
}

static int item_kind(NameKind kind) {
  return kind == NAME_KERNEL || kind == NAME_FUNCTION ? ITEM_FUNCTION
         : kind == NAME_STATIC || kind == NAME_SIZE   ? ITEM_CONSTANT
                                                      : ITEM_VARIABLE;
}

// The innermost one of each name.
static void put_names(Request *r, uint32_t at) {
  const Names *names = document_names(r->document);
  for (int i = names->declarations.count - 1; i >= 0; i--) {
    const NameDeclaration *d = &names->declarations.at[i];
    bool hidden = at < d->visible.start || at > d->visible.end;
    for (int k = i + 1; k < names->declarations.count && !hidden; k++) {
      const NameDeclaration *later = &names->declarations.at[k];
      hidden = later->name == d->name && at >= later->visible.start && at <= later->visible.end;
    }
    if (!hidden) put_item(r, d->name, item_kind(d->kind), name_kind_text(d->kind), NULL);
  }
}

static void put_words(Request *r) {
  for (int i = 0; i < token_info_count; i++)
    if (token_info[i].class == TOKEN_RESERVED || token_info[i].class == TOKEN_WORD)
      put_item(r, token_info[i].text, ITEM_KEYWORD, NULL, NULL);
  for (int t = 0; t < DT_COUNT; t++)
    put_item(r, dtype_info[t].name, ITEM_TYPE, "dtype", dtype_info[t].meaning);
}

// Completions after a `.`: the dtype of a value, the methods of a copy.
static void put_members(Request *r) {
  put_item(r, "T", ITEM_FIELD, "the dtype of the value", NULL);
  put_item(r, "start", ITEM_METHOD, "start()", "begins the copy");
  put_item(r, "wait", ITEM_METHOD, "wait()", "waits until the copy has ended");
}

static bool find_language_function(Request *r, Span span, LanguageFunction *out) {
  const char *text = r->document->source.text + span.start;
  for (int i = 0; span.end && language_function(r->arena, i, out); i++)
    if (strlen(out->name) == span.end - span.start &&
        memcmp(out->name, text, span.end - span.start) == 0)
      return true;
  return false;
}

// The keywords of the call that is being typed.
static void put_keywords(Request *r, const Typing *t) {
  LanguageFunction f;
  if (t->depth == 0 || !find_language_function(r, t->open[t->depth - 1].name, &f)) return;
  for (int i = 0; i < f.count; i++)
    if (!f.parameter[i].rest)
      put_item(r, arena_printf(r->arena, "%s = ", f.parameter[i].name), ITEM_FIELD,
               signature_of(r->arena, &f), NULL);
}

void lsp_completion(Request *r) {
  if (!r->document) return;
  uint32_t at = offset_of(r->document, json_member(r->params, "position"));
  Typing t = typing_at(r->arena, &r->document->source, at);
  json_open(&r->out, "result", '[');
  if (t.member && !t.quiet) {
    put_members(r);
  } else if (!t.quiet) {
    put_keywords(r, &t);
    put_names(r, at);
    put_functions(r);
    put_words(r);
  }
  json_close(&r->out, ']');
}

// ---- the parameters of a call

// Describes a function of the file like those of the language; false: it is none.
static bool own_function(Request *r, Span span, LanguageFunction *out) {
  const Names *names = document_names(r->document);
  const char *name = intern_n(r->document->source.text + span.start, span.end - span.start);
  for (int i = 0; i < names->declarations.count; i++) {
    const NameDeclaration *d = &names->declarations.at[i];
    if (d->name != name || (d->kind != NAME_FUNCTION && d->kind != NAME_KERNEL)) continue;
    *out = (LanguageFunction){.name = name};
    for (int k = 0; k < d->node->list.count && k < MAX_ARGUMENTS; k++) {
      const char *parameter = d->node->list.at[k]->name;
      out->parameter[out->count++] = (LanguageParameter){parameter, parameter, false};
    }
    return true;
  }
  return false;
}

// Which parameter is being typed: that of the keyword, else by the commas.
static int active_parameter(const Request *r, const Typing *t, const LanguageFunction *f) {
  const char *text = r->document->source.text + t->keyword.start;
  size_t length = t->keyword.end - t->keyword.start;
  for (int i = 0; i < f->count && length; i++)
    if (strlen(f->parameter[i].name) == length && memcmp(f->parameter[i].name, text, length) == 0)
      return i;
  int commas = t->open[t->depth - 1].commas;
  for (int i = 0; i < commas && i < f->count; i++)
    if (f->parameter[i].rest) return i;
  return commas;
}

static void put_call(Request *r, const LanguageFunction *f, int active) {
  json_open(&r->out, "result", '{');
  json_open(&r->out, "signatures", '[');
  json_open(&r->out, NULL, '{');
  json_text(&r->out, "label", signature_of(r->arena, f));
  if (f->meaning) json_text(&r->out, "documentation", f->meaning);
  json_open(&r->out, "parameters", '[');
  for (int i = 0; i < f->count; i++) {
    json_open(&r->out, NULL, '{');
    json_text(&r->out, "label", f->parameter[i].text);
    json_close(&r->out, '}');
  }
  json_close(&r->out, ']');
  json_close(&r->out, '}');
  json_close(&r->out, ']');
  json_int(&r->out, "activeSignature", 0);
  json_int(&r->out, "activeParameter", active);
  json_close(&r->out, '}');
}

void lsp_signature_help(Request *r) {
  if (!r->document) return;
  Typing t = typing_at(r->arena, &r->document->source,
                       offset_of(r->document, json_member(r->params, "position")));
  while (t.depth > 0 && t.open[t.depth - 1].name.end == 0) t.depth--;
  LanguageFunction f;
  if (t.depth == 0 || t.quiet) return;
  Span name = t.open[t.depth - 1].name;
  if (own_function(r, name, &f) || find_language_function(r, name, &f))
    put_call(r, &f, active_parameter(r, &t, &f));
}
