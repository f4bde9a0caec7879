// The word, bracket and argument at a position of a text that is being edited. Found by tokens,
// because incomplete code has no syntax tree.
#ifndef DSL_TYPED_H
#define DSL_TYPED_H

#include "dsl/diag.h"

enum { MOST_OPEN = 200 };

// An open bracket before the position.
typedef struct {
  Span name;  // of the called function; {0, 0}: another bracket
  int commas;
} Open;

typedef struct {
  Open open[MOST_OPEN];
  int depth;
  Span word;     // the name or word that ends at the position; {at, at}: none
  Span keyword;  // `axis` of `axis = 1`, in the innermost bracket; {0, 0}: none
  bool member;   // the word follows a `.`
  bool quiet;    // in a comment or a string
} Typing;

Typing typing_at(Arena *arena, const Source *source, uint32_t at);

#endif
