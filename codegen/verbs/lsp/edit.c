// Requests that change a document: formatting.
#include "codegen/verbs/lsp/lsp.h"

static void put_edit(Request *r, Span span, const char *text) {
  json_open(&r->out, NULL, '{');
  put_range(r->document, &r->out, "range", span);
  json_text(&r->out, "newText", text);
  json_close(&r->out, '}');
}

// Only what differs is replaced, from its first to its last line, so that marks elsewhere stay.
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
  if (!r->document) return;
  const Source *source = &r->document->source;
  Buf text = {0};
  bool parses = format_source(r->arena, source, diag_new(r->arena, source), &text);
  if (parses) {
    json_open(&r->out, "result", '[');
    put_difference(r, &text);
    json_close(&r->out, ']');
  }
  buf_free(&text);
}
