// JSON, written piece by piece. Commas come by themselves: a member follows another unless a
// bracket was just opened.
#ifndef DSL_JSON_H
#define DSL_JSON_H

#include "dsl/base.h"

// Each writes a member `"key": value`, or with a key of NULL an element of an array (or the whole
// text).
void json_open(Buf *out, const char *key, char bracket);  // '{' or '['
void json_close(Buf *out, char bracket);                  // '}' or ']'
// NULL: null; what is not UTF-8 is replaced
void json_text(Buf *out, const char *key, const char *text);
void json_int(Buf *out, const char *key, int64_t value);
// null when it is not finite; JSON has no other word for it
void json_real(Buf *out, const char *key, double value);
void json_bool(Buf *out, const char *key, bool value);
void json_raw(Buf *out, const char *key, const char *json);  // text that is JSON already
void json_ints(Buf *out, const char *key, const int64_t *values, int count);

#endif
