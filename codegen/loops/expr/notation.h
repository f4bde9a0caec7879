// Expressions as text: parentheses by precedence, and the words of a notation.
#ifndef CODEGEN_LOOPS_NOTATION_H
#define CODEGEN_LOOPS_NOTATION_H

#include "codegen/loops/expr/expr.h"

typedef struct ExprWriter ExprWriter;
typedef struct {
  // The function of an operation that is written as a call; NULL: it has an operator.
  const char *names[EXPR_ROUND_UP + 1];
  const char *const *functions;               // by ExprFunction
  void (*put)(ExprWriter *w, const Expr *e);  // writes the other kinds
  bool plain;  // for people: a + (b + c) without parentheses, variables by their definitions
} Notation;

struct ExprWriter {
  Buf *out;
  const Notation *notation;
};

const char *expr_written(const Expr *e, const Notation *notation);       // interned
void expr_put_call(ExprWriter *w, const char *function, const Expr *e);  // of all arguments
const char *expr_plain(const Expr *e);  // for people: `4 * round_up(N, 32)`

#endif
