// The words and places of the block IR's text. The first error is reported; after it the text is at
// its end.
#ifndef CODEGEN_IR_WORDS_H
#define CODEGEN_IR_WORDS_H

#include "codegen/ir/text.h"

typedef enum {
  T_END,
  T_NAME,
  T_VALUE,
  T_REF,
  T_HASH,
  T_NUMBER,
  T_STRING,
  T_PLACE,
  T_PUNCTUATION,
  T_BAD
} TokenKind;

typedef struct {
  int line, column;
} Position;

typedef struct {
  TokenKind kind;
  uint32_t start, end;
  const char *text;   // interned: T_NAME, T_REF, T_STRING; T_NUMBER as written
  int64_t number;     // T_VALUE, T_HASH, T_REF by number
  Position from, to;  // T_PLACE
  char mark;          // T_PUNCTUATION
} Token;

typedef struct {
  Arena *arena;
  const Source *source;
  Diag *diag;
  Kernel *k;
  Token token;
  uint32_t at;  // the end of the token
  bool failed;
  bool own_places;  // no `from`: places are those of this text
  int depth;
  Instr **values;  // by id
  int value_capacity;
  uint32_t *line_start;  // of the source that places refer to
  int line_count;
  LIST(Instr *) unnamed;
} Reader;

void complain(Reader *r, const char *message, const char *name);
void advance(Reader *r);  // to the next token
bool at_mark(const Reader *r, char mark);
bool at_name(const Reader *r, const char *name);
bool accept_mark(Reader *r, char mark);  // and advances, if it is there
bool accept_name(Reader *r, const char *name);
void expect_mark(Reader *r, char mark);
void expect_name(Reader *r, const char *name);
const char *expect_text(Reader *r);  // a name or a string
const char *expect_string(Reader *r);
int64_t expect_int(Reader *r);
double expect_float(Reader *r);

// Positions refer to the .pk file at `path`, as far as they determine it, or to the text itself.
void make_blank_source(Reader *r, const char *path);
void use_own_source(Reader *r);
Span read_span(Reader *r, uint32_t start);  // the place that follows, else `start` up to here where
                                            // the text is its own source

#endif
