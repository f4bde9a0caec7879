// Messages of the language server: a header with a length, and JSON.
#include "codegen/verbs/lsp/lsp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { LONGEST_HEADER = 4096 };

// ---- headers

// The length in a line of the header; -1: it is another line.
static int64_t line_length(const char *line, size_t length) {
  static const char name[] = "Content-Length:";
  size_t at = sizeof name - 1;
  int64_t value = 0;
  if (length <= at || strncasecmp(line, name, at) != 0) return -1;
  while (at < length && (line[at] == ' ' || line[at] == '\t')) at++;
  if (at == length) return -1;
  for (; at < length && line[at] >= '0' && line[at] <= '9'; at++)
    value = saturating_add(saturating_mul(value, 10), line[at] - '0');
  while (at < length && (line[at] == ' ' || line[at] == '\r')) at++;
  return at == length ? value : -1;
}

// The length of the header including the empty line, and the length of the body (-1: not given); 0:
// the header is not complete yet.
static size_t read_header(const char *text, size_t length, int64_t *body) {
  *body = -1;
  for (size_t at = 0; at < length;) {
    const char *end = memchr(text + at, '\n', length - at);
    if (!end) return 0;
    size_t line = (size_t)(end - (text + at));
    bool empty = line == 0 || (line == 1 && text[at] == '\r');
    if (!empty && *body < 0) *body = line_length(text + at, line);
    at += line + 1;
    if (empty) return at;
  }
  return 0;
}

// ---- reading

// Moves one whole message from the input to the queue.
static bool split_message(Wire *wire) {
  int64_t body;
  const char *text = wire->in.text + wire->at;
  size_t left = wire->in.length - wire->at, header = left ? read_header(text, left, &body) : 0;
  if (header == 0) {
    wire->ended |= left > LONGEST_HEADER;
    return false;
  }
  if (body < 0 || body > MOST_TEXT) {  // the start of the next message is unknown
    wire->ended = true;
    return false;
  }
  if (left - header < (size_t)body) return false;
  Message message = {.arena = arena_new()};
  message.json = json_read(message.arena, text + header, (size_t)body);
  LIST_PUSH(wire->arena, &wire->queue, message);
  wire->at += header + (size_t)body;
  return true;
}

static void drop_read(Wire *wire) {
  if (wire->at == 0) return;
  memmove(wire->in.text, wire->in.text + wire->at, wire->in.length - wire->at);
  wire->in.length -= wire->at;
  wire->at = 0;
}

static bool has_input(bool wait) {
  struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
  return poll(&fd, 1, wait ? -1 : 0) > 0;
}

static void read_some(Wire *wire) {
  char bytes[1 << 16];
  ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  if (count > 0) buf_add(&wire->in, bytes, (size_t)count);
  if (count == 0 || (count < 0 && errno != EINTR)) wire->ended = true;
}

static bool has_message(const Wire *wire) { return wire->first < wire->queue.count; }

void wire_read(Wire *wire, bool wait) {
  while (!wire->ended && has_input(wait && !has_message(wire))) {
    read_some(wire);
    while (!wire->ended && split_message(wire)) {}
    drop_read(wire);
  }
}

bool wire_take(Wire *wire, Message *message) {
  if (!has_message(wire)) return false;
  *message = wire->queue.at[wire->first++];
  if (!has_message(wire)) wire->first = wire->queue.count = 0;
  return true;
}

bool wire_pending(Wire *wire) {
  wire_read(wire, false);
  return has_message(wire) || wire->ended;
}

static bool same_id(const Json *a, const Json *b) {
  if (!a || !b || a->kind != b->kind) return false;
  if (a->kind == JSON_NUMBER) return !(a->number < b->number) && !(a->number > b->number);
  return a->kind == JSON_STRING && a->length == b->length &&
         memcmp(a->text, b->text, a->length) == 0;
}

bool wire_cancels(const Wire *wire, const Json *id) {
  for (int i = wire->first; i < wire->queue.count; i++) {
    const Json *json = wire->queue.at[i].json;
    const char *method = json_string(json, "method");
    if (method && strcmp(method, "$/cancelRequest") == 0 &&
        same_id(json_member(json_member(json, "params"), "id"), id))
      return true;
  }
  return false;
}

bool wire_send(const Buf *json) {
  Buf out = {0};
  buf_printf(&out, "Content-Length: %zu\r\n\r\n", json->length);
  buf_add(&out, json->text, json->length);
  bool sent = write_all(STDOUT_FILENO, out.text, out.length);
  buf_free(&out);
  return sent;
}
