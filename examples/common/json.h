/* json.h: reads JSON from left to right; each function takes what it expects, or returns false. */
#ifndef EXAMPLES_JSON_H
#define EXAMPLES_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *at, *end;
  bool bad; /* a bracket or a comma was missing */
} Json;

bool json_open(Json *json, char bracket);
/* Before each member or element, `first` true before the first: false at the closing bracket, which
 * is taken, and where there is neither it nor a comma, which makes the text bad. */
bool json_more(Json *json, char bracket, bool *first);
/* A string as UTF-8, cut off after most - 1 bytes; `length` may be NULL. */
bool json_string(Json *json, char *to, size_t most, size_t *length);
bool json_key(Json *json, char *to, size_t most); /* with its colon */
bool json_integer(Json *json, int64_t *value);    /* of 0 or more */
/* A string, a number, true, false or null, as its text; cut off as strings are. */
bool json_scalar(Json *json, char *to, size_t most);
bool json_skip(Json *json); /* any value */
bool json_end(Json *json);  /* nothing follows */

#endif
