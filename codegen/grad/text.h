// What the writer of .pk text shares.
#ifndef CODEGEN_GRAD_TEXT_H
#define CODEGEN_GRAD_TEXT_H

#include "codegen/ir/ir.h"

// Precedences of dsl/operators.def, and above them.
enum { BINDS_LEAST = 0, BINDS_AND = 3, BINDS_OR = 2, BINDS_UNARY = 11, BINDS_ATOM = 12 };

// What the text knows of an instruction's value.
typedef struct {
  const char *text;     // an expression, or the name it was given
  const char *element;  // of a window of one element: without its axis
  int binds;            // its outermost operator
  Type type;            // as the text has it: the shape broadcasts to the instruction's
  bool number;          // a constant: takes the dtype that it meets
  bool pending;         // not written yet: its only user will write it
  int uses;
  const Region *home;  // where its last user is
  uint64_t reads;      // vars whose contents the text reads (bit id % 64)
} Word;
static inline Word *word(const Instr *v) { return v->note; }

typedef struct {
  Kernel *k;
  Arena *arena;
  Buf *out;
  int indent;
  bool inlined;  // all in one expression
  LIST(const char *) names;
  const char **size;   // by size: an expression
  const char **state;  // by state: its name; NULL: not declared yet
  LIST(Instr *) pending;
} Writer;

enum { TEXT_WIDTH = 110, TEXT_PART = 70 };

#define word_text(w, ...) arena_printf((w)->arena, __VA_ARGS__)
// ---- expression.c
void compose(Writer *w, Instr *v);                   // gives v its text
const char *used(Writer *w, Instr *v, int least);    // for a user that needs this precedence
const char *exact(Writer *w, Instr *v);              // an array of the very shape and dtype
const char *dims_text(Writer *w, const Type *type);  // [M, N]
const char *window_text(Writer *w, const Instr *v);  // [t, :], or "" for all of it
const char *yielded_text(Writer *w, Region *region, int k);  // all of the region in one expression

#endif
