// JSON, written piece by piece, and read as a tree. Commas are inserted as needed: a member follows
// another unless a bracket was just opened.
#ifndef DSL_JSON_H
#define DSL_JSON_H

#include "dsl/base.h"

// Each writes a member `"key": value`, or with a NULL key an element of an array (or the whole
// text).
void json_open(Buf *out, const char *key, char bracket);  // '{' or '['
void json_close(Buf *out, char bracket);                  // '}' or ']'
// NULL becomes null; invalid UTF-8 is replaced
void json_text(Buf *out, const char *key, const char *text);
void json_int(Buf *out, const char *key, int64_t value);
// null if it is not finite, because JSON has no such numbers
void json_real(Buf *out, const char *key, double value);
void json_bool(Buf *out, const char *key, bool value);
void json_raw(Buf *out, const char *key, const char *json);  // text that is JSON already
void json_ints(Buf *out, const char *key, const int64_t *values, int count);

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;
typedef struct Json Json;
struct Json {
  JsonKind kind;
  const char *key;  // of a member of an object, else NULL
  bool truth;
  double number;
  const char *text;  // UTF-8 if the JSON is; it may contain NULs
  size_t length;
  const Json *first, *next;  // the first element or member; the next sibling
};
// NULL if it is not exactly one JSON value, or nested too deeply. A half of a surrogate pair
// without the other becomes U+FFFD.
const Json *json_read(Arena *arena, const char *text, size_t length);
// The members of objects. If the value is not an object, or has no such member of that kind: NULL,
// or `otherwise`. Of several members with one name the first one counts.
const Json *json_member(const Json *object, const char *key);
const char *json_string(const Json *object, const char *key);
bool json_is_integer(const Json *value);  // of at most 53 bits
int64_t json_integer(const Json *object, const char *key, int64_t otherwise);

#endif
