// Shared by the files of the writer of .pk text.
#ifndef CODEGEN_GRAD_TEXT_H
#define CODEGEN_GRAD_TEXT_H

#include "codegen/ir/ir.h"

// The precedences of dsl/operators.def, and one above them.
enum {
  BINDS_LEAST = 0,
  BINDS_OR = 2,
  BINDS_AND = 3,
  BINDS_SUM = 9,
  BINDS_UNARY = 11,
  BINDS_ATOM = 12
};

// The text of an instruction's value.
typedef struct {
  const char *text;     // an expression, or its name
  const char *element;  // for a window of one element: without its axis
  int binds;            // the precedence of its outermost operator
  Type type;            // the type of the text, whose shape broadcasts to the instruction's
  bool number;          // a constant, which takes the dtype of its context
  bool pending;         // not written yet, because its only user will write it
  int uses;
  const Region *home;  // the region of its last user
  uint64_t reads;      // the vars that the text reads (bit id % 64)
} Word;
static inline Word *word(const Instr *v) { return v->note; }

// The memory of a sum, the window that a step adds to ("[ds(id[n], 1), :]"), and its mask; NULL:
// all elements.
typedef struct {
  const char *name, *window, *mask;
  const char *when;  // the condition on which it is added to, or NULL
} SumPart;

typedef struct {
  Kernel *k;
  Arena *arena;
  Buf *out;
  int indent;
  bool inlined;    // all in one expression
  bool blocks;     // of a kernel: inputs are read as blocks
  SumPart *parts;  // of a kernel, by result: what it is added to; NULL: results are stored
  LIST(const char *) names;
  const char **size;   // by size: an expression
  const char **state;  // by state: its name; NULL: not declared yet
  const char **axis;   // by axis of the grid: its index
  LIST(Instr *) pending;
} Writer;

// The prefix of vars that keep values for the reverse part.
#define TAPE_PREFIX "kept_"

enum { TEXT_WIDTH = 110, TEXT_PART = 70 };

// ---- text.c: lines
void text_line(Writer *w, const char *format, ...) PRINTF_LIKE(2, 3);
const char *text_name(Writer *w, const char *base);  // one that is not taken yet
void text_start(Writer *w, Kernel *k, Buf *out);     // names are taken, sizes have texts
void text_body(Writer *w, Kernel *k);                // the reference's statements
// known: by size, whether it is given; NULL: all are. Requirements of others are left out.
void text_requirements(Writer *w, const bool *known);
// "x: f32[M, N], w: f32[N]", of the arrays
const char *text_operands(Writer *w, Ref *const *refs, int count);
const char *bytes_text(Writer *w, const Type *type);  // "4 * M * N"
// "computes e of line 3 again: ..": the values of the forward part that the reference computes, and
// how many operations they take; NULL: it computes none.
const char *again_text(Writer *w, const bool *again);
// A requirement that these bytes are at most `memory`; 0: any number is allowed.
void text_limit(Writer *w, const char *bytes, int64_t memory);
void text_signature(Writer *w, const char *word, const char *name, const char *inputs,
                    const char *outputs);

#define word_text(w, ...) arena_printf((w)->arena, __VA_ARGS__)
// ---- expression.c
void compose(Writer *w, Instr *v);                   // computes the text of v
const char *used(Writer *w, Instr *v, int least);    // for a user that requires this precedence
const char *exact(Writer *w, Instr *v);              // as an array of exactly this shape and dtype
const char *dims_text(Writer *w, const Type *type);  // [M, N]
const char *window_text(Writer *w, const Instr *v);  // [t, :]; the whole var: "", in a kernel [...]
const char *yielded_text(Writer *w, Region *region, int k);  // the whole region in one expression

#endif
