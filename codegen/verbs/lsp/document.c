// Documents of the language server: their texts, edits and positions.
#include "codegen/verbs/lsp/lsp.h"

#include <string.h>

// ---- lines and positions

static void index_lines(Document *d) {
  const char *text = d->source.text;
  signed char all = 0;
  LIST_PUSH(d->arena, &d->lines, 0);
  for (size_t i = 0; i < d->source.length; i++) all |= (signed char)text[i];
  d->bytes = d->utf8 || all >= 0;
  for (size_t i = 0; i < d->source.length; i++)
    if (text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n'))
      LIST_PUSH(d->arena, &d->lines, (uint32_t)(i + 1));
}

int line_number(const Document *d, uint32_t offset) {
  int low = 0, high = d->lines.count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    *(d->lines.at[middle] <= offset ? &low : &high) = middle;
  }
  return low;
}

// The number of units and of bytes of the character at an offset.
static int units_at(const Document *d, size_t offset, size_t *bytes) {
  uint32_t point;
  *bytes = utf8_decode(d->source.text + offset, d->source.length - offset, &point);
  if (*bytes == 0) *bytes = 1;
  return d->utf8 ? (int)*bytes : *bytes == 4 ? 2 : 1;
}

// The end of the line, without its line break.
static uint32_t line_end(const Document *d, int line) {
  if (line + 1 >= d->lines.count) return (uint32_t)d->source.length;
  uint32_t end = d->lines.at[line + 1];
  const char *text = d->source.text;
  end--;
  return end > d->lines.at[line] && text[end] == '\n' && text[end - 1] == '\r' ? end - 1 : end;
}

uint32_t offset_of(const Document *d, const Json *position) {
  int64_t line = json_integer(position, "line", 0),
          character = json_integer(position, "character", 0);
  if (line < 0) return 0;
  if (line >= d->lines.count) return (uint32_t)d->source.length;
  uint32_t offset = d->lines.at[line], end = line_end(d, (int)line);
  while (offset < end) {
    size_t bytes;
    character -= units_at(d, offset, &bytes);
    if (character < 0) break;  // within a character: before it
    offset += (uint32_t)bytes;
  }
  return offset;
}

int64_t units_between(const Document *d, uint32_t from, uint32_t to) {
  int64_t units = 0;
  if (d->bytes) return to > from ? to - from : 0;
  while (from < to) {
    size_t bytes = 1;
    units += (unsigned char)d->source.text[from] < 0x80 ? 1 : units_at(d, from, &bytes);
    from += (uint32_t)bytes;
  }
  return units;
}

void put_position(Document *d, Buf *out, const char *key, uint32_t offset) {
  if (offset > d->source.length) offset = (uint32_t)d->source.length;
  uint32_t line = (uint32_t)line_number(d, offset);
  if (line != d->last.line || offset < d->last.offset) {
    d->last.line = line;
    d->last.offset = d->lines.at[line];
    d->last.character = 0;
  }
  d->last.character += units_between(d, d->last.offset, offset);
  d->last.offset = offset;
  json_open(out, key, '{');
  json_int(out, "line", line);
  json_int(out, "character", d->last.character);
  json_close(out, '}');
}

void put_range(Document *d, Buf *out, const char *key, Span span) {
  json_open(out, key, '{');
  put_position(d, out, "start", span.start);
  put_position(d, out, "end", span.end);
  json_close(out, '}');
}

void put_location(Document *d, Buf *out, const char *key, Span span) {
  json_open(out, key, '{');
  json_text(out, "uri", d->uri);
  put_range(d, out, "range", span);
  json_close(out, '}');
}

// ---- texts

// Sets the document's text, which is copied, and drops everything derived from the previous one.
static void set_text(Document *d, const char *text, size_t length) {
  Arena *before = d->file ? d->parsed : d->arena;
  if (d->file) d->parsed = d->arena;
  d->arena = arena_new();
  d->source =
      (Source){.path = d->uri, .text = arena_strndup(d->arena, text, length), .length = length};
  d->lines.at = NULL;
  d->lines.count = d->lines.capacity = 0;
  index_lines(d);
  d->file = NULL;
  d->names = NULL;
  d->messages = (DiagList){0};
  d->lowered = 0;
  d->done = NULL;
  d->facts = (NameFacts){0};
  d->sorted = true;
  d->explained = NULL;
  d->account = NULL;
  d->published = false;
  memset(&d->last, 0, sizeof d->last);
  if (before) arena_free(before);
}

Document *document_find(const Server *server, const char *uri) {
  for (Document *d = server->documents; uri && d; d = d->next)
    if (strcmp(d->uri, uri) == 0) return d;
  return NULL;
}

void document_open(Server *server, const char *uri, int64_t version, const char *text,
                   size_t length) {
  Document *d = document_find(server, uri);
  if (!d) {
    d = NEW(server->arena, Document);
    d->uri = intern(uri);
    d->next = server->documents;
    server->documents = d;
  }
  d->utf8 = server->utf8;
  d->version = version;
  set_text(d, text, length);
}

void document_change(Document *d, const Json *change) {
  const Json *text = json_member(change, "text"), *range = json_member(change, "range");
  if (!text || text->kind != JSON_STRING) return;
  if (!range || range->kind != JSON_OBJECT) {
    set_text(d, text->text, text->length);
    return;
  }
  uint32_t start = offset_of(d, json_member(range, "start")),
           end = offset_of(d, json_member(range, "end"));
  if (end < start) end = start;
  Buf all = {0};
  buf_add(&all, d->source.text, start);
  buf_add(&all, text->text, text->length);
  buf_add(&all, d->source.text + end, d->source.length - end);
  set_text(d, all.text ? all.text : "", all.length);
  buf_free(&all);
}

void document_close(Server *server, const char *uri) {
  for (Document **at = &server->documents; uri && *at; at = &(*at)->next)
    if (strcmp((*at)->uri, uri) == 0) {
      arena_free((*at)->arena);
      arena_free((*at)->parsed);
      syntax_free(&(*at)->syntax);
      *at = (*at)->next;
      return;
    }
}

const Node *document_tree(Document *d) {
  if (d->file) return d->file;
  Diag *diag = diag_new(d->arena, &d->source);
  d->file = parse_again(&d->syntax, &d->source, diag);
  if (d->parsed) arena_free(d->parsed);
  d->parsed = NULL;
  for (int i = 0; i < diag_count(diag); i++)
    LIST_PUSH(d->arena, &d->messages, *diag_message(diag, i));
  d->done = NEW_ARRAY(d->arena, bool, d->file->list.count + 1);
  d->parses =
      diag_error_count(diag) == 0;  // because hints from an incomplete lowering would mislead
  for (int i = 0; i < d->file->list.count; i++) d->done[i] = !d->parses;
  return d->file;
}
