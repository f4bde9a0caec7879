// Requests that change a document: formatting, and fixes that messages propose.
#include "codegen/verbs/lsp/lsp.h"

static void put_edit(Request *r, Span span, const char *text) {
  json_open(&r->out, NULL, '{');
  put_range(r->document, &r->out, "range", span);
  json_text(&r->out, "newText", text);
  json_close(&r->out, '}');
}

// Only the range of differing lines is replaced, so that marks elsewhere are preserved.
static void put_difference(Request *r, const Buf *text) {
  const Source *old = &r->document->source;
  size_t first = 0, last = 0, least = old->length < text->length ? old->length : text->length;
  while (first < least && old->text[first] == text->text[first]) first++;
  while (first > 0 && old->text[first - 1] != '\n') first--;
  while (last < least - first &&
         old->text[old->length - last - 1] == text->text[text->length - last - 1])
    last++;
  while (last > 0 && old->text[old->length - last - 1] != '\n') last--;
  size_t end = old->length - last;
  if (first == end && text->length == old->length) return;
  put_edit(r, (Span){(uint32_t)first, (uint32_t)end},
           arena_strndup(r->arena, text->text + first, text->length - last - first));
}

void lsp_formatting(Request *r) {
  Document *d = r->document;
  if (!d) return;
  document_tree(d);
  if (!d->parses) return;
  Buf text = {0};
  format_parsed(r->arena, &d->source, &text);
  json_open(&r->out, "result", '[');
  put_difference(r, &text);
  json_close(&r->out, ']');
  buf_free(&text);
}

// ---- proposed fixes

static bool meets(Span a, Span b) { return a.start <= b.end && b.start <= a.end; }

static void put_fix(Request *r, const Fix *fix) {
  const Document *d = r->document;
  const char *title = fix->where.end > fix->where.start
                          ? arena_printf(r->arena, "Write `%s`", fix->text)
                          : arena_printf(r->arena, "Insert `%s`", fix->text);
  json_open(&r->out, NULL, '{');
  json_text(&r->out, "title", title);
  json_text(&r->out, "kind", "quickfix");
  json_open(&r->out, "edit", '{');
  json_open(&r->out, "changes", '{');
  json_open(&r->out, d->uri, '[');
  put_edit(r, fix->where, fix->text);
  json_close(&r->out, ']');
  json_close(&r->out, '}');
  json_close(&r->out, '}');
  json_close(&r->out, '}');
}

void lsp_code_actions(Request *r) {
  Document *d = r->document;
  if (!d) return;
  const Json *range = json_member(r->params, "range");
  Span asked = {offset_of(d, json_member(range, "start")), offset_of(d, json_member(range, "end"))};
  check_part(d, asked);
  json_open(&r->out, "result", '[');
  for (int i = 0; i < d->messages.count; i++) {
    const DiagMessage *m = &d->messages.at[i];
    if (m->fix.text && (meets(m->span, asked) || meets(m->fix.where, asked))) put_fix(r, &m->fix);
  }
  json_close(&r->out, ']');
}
