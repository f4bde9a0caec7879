// Source texts, ranges in them, and messages about these ranges.
#ifndef DSL_DIAG_H
#define DSL_DIAG_H

#include "dsl/base.h"

// A half-open range of bytes in the source text. {0, 0} without a text means "no position".
typedef struct {
  uint32_t start, end;
} Span;

// `lines`, if not NULL: the offset at which each line starts (source_index_lines).
typedef struct {
  const char *path, *text;
  size_t length;
  const uint32_t *lines;
  int line_count;
} Source;

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } Severity;

// One row an error code in errors.def: E(number, name, "what it means, one line"). Codes are
// stable: never reuse a number.
typedef enum {
#define E(number, name, meaning) ERR_##name = number,
#include "dsl/errors.def"
#undef E
} ErrorCode;

// Collects messages in the order of their positions. Notes belong to the preceding error or
// warning.
typedef struct Diag Diag;
Diag *diag_new(Arena *arena, const Source *source);
const Source *diag_source(const Diag *diag);
void diag_error(Diag *diag, Span span, ErrorCode code, const char *format, ...) PRINTF_LIKE(4, 5);
void diag_warning(Diag *diag, Span span, ErrorCode code, const char *format, ...) PRINTF_LIKE(4, 5);
// span {0,0}: a note without a position
void diag_note(Diag *diag, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
int diag_error_count(const Diag *diag);
bool diag_too_many(const Diag *diag);  // true if the limit of errors of one run is reached, so that
                                       // the search for errors can stop

// Proposes a fix for the next error or warning, for editors: replace `where` ({0, 0}: the range of
// that message) by `text`.
void diag_propose(Diag *diag, Span where, const char *text);

// The messages in the order of arrival. `text` of a fix is NULL if none was proposed.
typedef struct {
  Span where;
  const char *text;
} Fix;
typedef struct {
  Severity severity;
  int code;
  Span span;
  const char *text;
  Fix fix;
} DiagMessage;
int diag_count(const Diag *diag);
const DiagMessage *diag_message(const Diag *diag, int index);
// Same severity, code, text and range.
bool diag_same_message(const DiagMessage *a, const DiagMessage *b);

typedef enum { DIAG_TEXT, DIAG_COLOUR, DIAG_JSON } DiagFormat;
// Writes all collected messages: path:line:column, the line, a caret range, notes, the code. Long
// lines are shortened.
void diag_print(const Diag *diag, Buf *out, DiagFormat format);

// 1-based line and column (in bytes) of an offset.
void source_index_lines(Arena *arena, Source *source);  // makes source_position fast
void source_position(const Source *source, uint32_t offset, int *line, int *column);

// The text of "E0123" for `pkc explain E0123`; NULL for an unknown code.
const char *error_meaning(int code);

// The long explanation: a paragraph, a text with the error, and the corrected text. The texts are
// NULL if they would be too long to read.
typedef struct {
  const char *text, *wrong, *right;
} Explanation;
const Explanation *error_explanation(int code);  // NULL for an unknown code

#endif
