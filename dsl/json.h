// JSON, written piece by piece. Commas are inserted as needed: a member follows another unless a
// bracket was just opened.
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

#endif
