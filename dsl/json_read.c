// JSON, read as a tree.
#include "dsl/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 128, LONGEST_NUMBER = 64 };

typedef struct {
  Arena *arena;
  const char *at, *end;
  int depth;
} Reader;

static bool read_value(Reader *r, Json *out);

static void skip_blank(Reader *r) {
  while (r->at < r->end && memchr(" \t\r\n", *r->at, 4)) r->at++;
}

static bool accept(Reader *r, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length) != 0) return false;
  r->at += length;
  return true;
}

// ---- strings

static bool read_unit(Reader *r, uint32_t *unit) {
  if (r->end - r->at < 4) return false;
  *unit = 0;
  for (int i = 0; i < 4; i++) {
    const char c = *r->at++;
    const char *digit = c ? strchr("0123456789abcdef", c | 32) : NULL;
    if (!digit || (c < '0')) return false;
    *unit = *unit << 4 | (uint32_t)(digit - "0123456789abcdef");
  }
  return true;
}

static char *put_point(char *out, uint32_t point) {
  const int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static const uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  *out++ = (char)(lead[more] | point >> 6 * more);
  for (int i = more - 1; i >= 0; i--) *out++ = (char)(0x80 | (point >> 6 * i & 0x3f));
  return out;
}

// Reads the digits after `\u`: four, or twice four for a pair of surrogates.
static bool read_point(Reader *r, char **out) {
  uint32_t point, low;
  if (!read_unit(r, &point)) return false;
  if (point >= 0xd800 && point < 0xdc00) {
    const char *before = r->at;
    bool pair = accept(r, "\\u") && read_unit(r, &low) && low >= 0xdc00 && low < 0xe000;
    if (pair) point = 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00));
    if (!pair) r->at = before;
  }
  *out = put_point(*out, point >= 0xd800 && point < 0xe000 ? 0xfffd : point);
  return true;
}

static bool read_escape(Reader *r, char **out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return false;
  const char c = *r->at++;
  if (c == 'u') return read_point(r, out);
  const char *which = c ? strchr(from, c) : NULL;
  if (!which) return false;
  *(*out)++ = to[which - from];
  return true;
}

// An escape has at least as many bytes as the character that it represents.
static bool read_string(Reader *r, const char **text, size_t *length) {
  if (!accept(r, "\"")) return false;
  const char *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
  if (close >= r->end) return false;
  char *start = arena_alloc(r->arena, (size_t)(close - r->at) + 1), *out = start;
  while (r->at < r->end && *r->at != '"') {
    if ((unsigned char)*r->at < 0x20) return false;
    if (*r->at != '\\')
      *out++ = *r->at++;
    else if (r->at++, !read_escape(r, &out))
      return false;
  }
  *out = 0;
  *text = start;
  *length = (size_t)(out - start);
  return accept(r, "\"");
}

// ---- numbers

static size_t digits(const char *text, size_t at) {
  size_t count = 0;
  while (text[at + count] >= '0' && text[at + count] <= '9') count++;
  return count;
}

// The length of the number that begins the text, by the grammar of JSON; 0: there is none.
static size_t number_length(const char *text) {
  size_t at = text[0] == '-', whole = digits(text, at);
  if (whole == 0 || (whole > 1 && text[at] == '0')) return 0;
  at += whole;
  if (text[at] == '.') {
    if (!digits(text, at + 1)) return 0;
    at += 1 + digits(text, at + 1);
  }
  if (text[at] == 'e' || text[at] == 'E') {
    at += text[at + 1] == '+' || text[at + 1] == '-' ? 2 : 1;
    if (!digits(text, at)) return 0;
    at += digits(text, at);
  }
  return at;
}

static bool read_number(Reader *r, Json *out) {
  char text[LONGEST_NUMBER + 1];
  size_t left = (size_t)(r->end - r->at), most = left < LONGEST_NUMBER ? left : LONGEST_NUMBER;
  memcpy(text, r->at, most);
  text[most] = 0;
  size_t length = number_length(text);
  if (length == 0 || length == LONGEST_NUMBER) return false;
  text[length] = 0;
  out->kind = JSON_NUMBER;
  out->number = strtod(text, NULL);
  r->at += length;
  return true;
}

// ---- lists

static bool read_item(Reader *r, Json *item, bool object) {
  size_t length;
  skip_blank(r);
  if (object) {
    if (!read_string(r, &item->key, &length)) return false;
    skip_blank(r);
    if (!accept(r, ":")) return false;
  }
  return read_value(r, item);
}

static bool read_items(Reader *r, Json *out, bool object) {
  const char *close = object ? "}" : "]";
  const Json **last = &out->first;
  out->kind = object ? JSON_OBJECT : JSON_ARRAY;
  skip_blank(r);
  if (accept(r, close)) return true;
  do {
    Json *item = NEW(r->arena, Json);
    if (!read_item(r, item, object)) return false;
    *last = item;
    last = &item->next;
    skip_blank(r);
  } while (accept(r, ","));
  return accept(r, close);
}

static bool read_list(Reader *r, Json *out, bool object) {
  if (r->depth == DEEPEST) return false;
  r->depth++;
  bool good = read_items(r, out, object);
  r->depth--;
  return good;
}

static bool read_value(Reader *r, Json *out) {
  skip_blank(r);
  if (r->at == r->end) return false;
  if (accept(r, "{")) return read_list(r, out, true);
  if (accept(r, "[")) return read_list(r, out, false);
  if (accept(r, "null")) return true;
  out->truth = accept(r, "true");
  if (out->truth || accept(r, "false")) return out->kind = JSON_BOOL, true;
  if (*r->at != '"') return read_number(r, out);
  out->kind = JSON_STRING;
  return read_string(r, &out->text, &out->length);
}

const Json *json_read(Arena *arena, const char *text, size_t length) {
  Reader r = {.arena = arena, .at = text, .end = text + length};
  Json *value = NEW(arena, Json);
  if (!read_value(&r, value)) return NULL;
  skip_blank(&r);
  return r.at == r.end ? value : NULL;
}

const Json *json_member(const Json *object, const char *key) {
  if (!object || object->kind != JSON_OBJECT) return NULL;
  for (const Json *m = object->first; m; m = m->next)
    if (strcmp(m->key, key) == 0) return m;
  return NULL;
}

const char *json_string(const Json *object, const char *key) {
  const Json *m = json_member(object, key);
  return m && m->kind == JSON_STRING ? m->text : NULL;
}

bool json_is_integer(const Json *value) {
  if (!value || value->kind != JSON_NUMBER || fabs(value->number) >= 0x1p53) return false;
  return fabs(value->number - (double)(int64_t)value->number) == 0;
}

int64_t json_integer(const Json *object, const char *key, int64_t otherwise) {
  const Json *m = json_member(object, key);
  return json_is_integer(m) ? (int64_t)m->number : otherwise;
}
