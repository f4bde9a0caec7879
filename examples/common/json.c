/* JSON from left to right, without a tree. */
#include "json.h"

#include <string.h>

enum { MOST_DEPTH = 100 };

static void skip_space(Json *json) {
  while (json->at < json->end && memchr(" \t\r\n", *json->at, 4)) json->at++;
}

static bool accept(Json *json, char c) {
  skip_space(json);
  if (json->at == json->end || *json->at != c) return false;
  json->at++;
  return true;
}

bool json_open(Json *json, char bracket) { return accept(json, bracket); }

bool json_more(Json *json, char bracket, bool *first) {
  if (accept(json, bracket)) return false;
  const bool comma = *first || accept(json, ',');
  *first = false;
  if (comma) return true;
  json->bad = true;
  return false;
}

static int digit_of(char c) {
  static const char digits[] = "0123456789abcdefABCDEF";
  const char *found = c ? strchr(digits, c) : NULL;
  if (!found) return -1;
  const int place = (int)(found - digits);
  return place < 16 ? place : place - 6;
}

static bool four_digits(Json *json, uint32_t *value) {
  *value = 0;
  if (json->end - json->at < 4) return false;
  for (int i = 0; i < 4; i++) {
    const int digit = digit_of(*json->at++);
    if (digit < 0) return false;
    *value = *value * 16 + (uint32_t)digit;
  }
  return true;
}

static int utf8(uint32_t c, char to[4]) {
  if (c < 0x80) return to[0] = (char)c, 1;
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char head[4] = {0, 0xc0, 0xe0, 0xf0};
  for (int i = more; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)(head[more] | c);
  return more + 1;
}

/* What follows a backslash; the number of bytes, 0: nothing good. */
static int escape(Json *json, char to[4]) {
  static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  uint32_t c, low;
  if (json->at == json->end) return 0;
  const char letter = *json->at++;
  if (letter != 'u') {
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? to[0] = values[found - letters], 1 : 0;
  }
  if (!four_digits(json, &c)) return 0;
  if (c >= 0xd800 && c < 0xdc00 && json->end - json->at > 6 && memcmp(json->at, "\\u", 2) == 0) {
    json->at += 2;
    if (!four_digits(json, &low) || low < 0xdc00 || low > 0xdfff) return 0;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  return utf8(c, to);
}

bool json_string(Json *json, char *to, size_t most, size_t *length) {
  size_t used = 0;
  if (!accept(json, '"')) return false;
  while (json->at < json->end && *json->at != '"') {
    char bytes[4] = {*json->at++};
    const int count = bytes[0] == '\\' ? escape(json, bytes) : 1;
    if (count == 0) return false;
    for (int i = 0; i < count; i++, used++)
      if (used + 1 < most) to[used] = bytes[i];
  }
  if (most > 0) to[used < most ? used : most - 1] = 0;
  if (length) *length = used;
  return accept(json, '"');
}

bool json_key(Json *json, char *to, size_t most) {
  return json_string(json, to, most, NULL) && accept(json, ':');
}

bool json_integer(Json *json, int64_t *value) {
  skip_space(json);
  const char *first = json->at;
  *value = 0;
  for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
    if (*value > (INT64_MAX - 9) / 10) return false;
    *value = *value * 10 + (*json->at - '0');
  }
  return json->at > first && (json->at == json->end || !memchr(".eE", *json->at, 3));
}

static bool skip_word(Json *json) {
  const char *first = json->at;
  while (json->at < json->end && *json->at &&
         strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *json->at))
    json->at++;
  return json->at > first;
}

bool json_scalar(Json *json, char *to, size_t most) {
  skip_space(json);
  if (json->at < json->end && *json->at == '"') return json_string(json, to, most, NULL);
  const char *first = json->at;
  if (!skip_word(json)) return false;
  const size_t length = (size_t)(json->at - first), kept = length < most ? length : most - 1;
  memcpy(to, first, kept);
  to[kept] = 0;
  return true;
}

static bool skip_value(Json *json, int depth) {
  if (depth > MOST_DEPTH) return false;
  skip_space(json);
  if (json->at == json->end) return false;
  if (*json->at == '"') return json_string(json, NULL, 0, NULL);
  if (*json->at != '{' && *json->at != '[') return skip_word(json);
  const char close = *json->at == '{' ? '}' : ']';
  json->at++;
  for (bool first = true; json_more(json, close, &first);)
    if ((close == '}' && !json_key(json, NULL, 0)) || !skip_value(json, depth + 1)) return false;
  return !json->bad;
}

bool json_skip(Json *json) { return skip_value(json, 0); }

bool json_end(Json *json) {
  skip_space(json);
  return !json->bad && json->at == json->end;
}
