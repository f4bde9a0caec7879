// JSON, written piece by piece.
#include "dsl/json.h"

#include <math.h>
#include <string.h>

// Writes a character that must be escaped; returns the number of its bytes.
static size_t put_escaped(Buf *out, const char *text, size_t left) {
  uint32_t point;
  size_t length = utf8_decode(text, left, &point);
  buf_printf(out, "\\u%04x", (unsigned)(length ? point : 0xfffd));
  return length ? length : 1;
}

// The number of characters from here on that need no escape.
static size_t plain_length(const char *text) {
  size_t length = 0;
  while (text[length] >= ' ' && text[length] <= '~' && text[length] != '"' && text[length] != '\\')
    length++;
  return length;
}

static void put_string(Buf *out, const char *text) {
  buf_putc(out, '"');
  for (size_t at = 0, end = strlen(text); at < end;) {
    size_t plain = plain_length(text + at);
    buf_add(out, text + at, plain);
    if ((at += plain) == end) break;
    unsigned char c = (unsigned char)text[at];
    size_t length = shown_length(text, at, end);
    if (c == '"' || c == '\\')
      buf_printf(out, "\\%c", c);
    else if (length)
      buf_add(out, text + at, length);
    else
      at += put_escaped(out, text + at, end - at) - 1;
    at += length ? length : 1;
  }
  buf_putc(out, '"');
}

static void begin(Buf *out, const char *key) {
  char last = out->length ? out->text[out->length - 1] : '\n';
  if (!strchr("{[,\n", last)) buf_putc(out, ',');
  if (!key) return;
  put_string(out, key);
  buf_putc(out, ':');
}

void json_open(Buf *out, const char *key, char bracket) {
  begin(out, key);
  buf_putc(out, bracket);
}

void json_close(Buf *out, char bracket) { buf_putc(out, bracket); }

void json_raw(Buf *out, const char *key, const char *json) {
  begin(out, key);
  buf_puts(out, json);
}

void json_text(Buf *out, const char *key, const char *text) {
  if (!text) return json_raw(out, key, "null");
  begin(out, key);
  put_string(out, text);
}

void json_int(Buf *out, const char *key, int64_t value) {
  char digits[24], *at = digits + sizeof digits;
  uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
  do *--at = (char)('0' + left % 10);
  while (left /= 10);
  if (value < 0) *--at = '-';
  begin(out, key);
  buf_add(out, at, (size_t)(digits + sizeof digits - at));
}

void json_real(Buf *out, const char *key, double value) {
  if (!isfinite(value)) return json_raw(out, key, "null");
  begin(out, key);
  buf_printf(out, "%.10g", value);
}

void json_bool(Buf *out, const char *key, bool value) {
  json_raw(out, key, value ? "true" : "false");
}

void json_ints(Buf *out, const char *key, const int64_t *values, int count) {
  json_open(out, key, '[');
  for (int i = 0; i < count; i++) json_int(out, NULL, values[i]);
  json_close(out, ']');
}
