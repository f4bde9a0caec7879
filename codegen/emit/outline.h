// What outline.c and runs.c share: the tokens and lines of a cell, the variables in scope, and the
// pieces that become functions.
#ifndef PKC_EMIT_OUTLINE_H
#define PKC_EMIT_OUTLINE_H
#include "codegen/emit/internal.h"

typedef enum { TOKEN_NAME, TOKEN_INTEGER, TOKEN_STRING, TOKEN_OTHER } TokenKind;

typedef struct {
  TokenKind kind;
  const char *text;  // interned
  const char *from;  // in the text
  bool varies;       // an integer or string that need not be a constant
} Token;

typedef struct {
  const char *from, *end;
  int token, tokens;   // its first token, and how many there are
  int indent;          // in characters
  bool opens, closes;  // a brace is its last token, or its first
} TextLine;

typedef struct {
  const char *name;  // NULL: a free slot
  const char *type;  // NULL: it cannot be passed
  int last, block;   // of runs.c: the last unit of a block that names it
} Variable;

typedef LIST(Variable) Variables;

// Lines that are copied, or statements that can be outlined.
typedef struct {
  int first, end;      // lines
  const char *key;     // its tokens, without names and literals; NULL: it is copied
  Variables free;      // in the order in which they appear
  LIST(int) literals;  // tokens that may differ
  int function;        // with a key: index in `functions`
} Piece;

// Pieces with the same key.
typedef struct {
  const char *key;
  int piece, count;   // the first piece, and how many there are
  const char *name;   // NULL: the pieces are copied
  int *parameter;     // by literal: its parameter, or -1
  LIST(int) varying;  // by parameter: its literal
} Function;

// Indices in `words`; from SCALARS on, types that can be passed.
enum {
  FOR,
  IF,
  WHILE,
  DO,
  RETURN,
  GOTO,
  BREAK,
  CONTINUE,
  ELSE,
  CASE,
  SIZEOF,
  STATIC,
  CONST,
  UNROLL,
  SCALARS,
  WORDS = SCALARS + 6
};

typedef struct {
  CWriter *w;
  const char *word[WORDS], *left;  // left: the type of what is out of scope
  LIST(Token) tokens;
  LIST(TextLine) lines;
  Variable *table;  // those in scope, by name
  int capacity;
  Variables scope;  // in the order of their declarations
  int blocks;       // that runs.c has read
  LIST(Piece) pieces;
  LIST(Function) functions;
} Outline;

static inline Arena *arena_of(const Outline *o) { return o->w->g->arena; }

const Token *token_at(const Outline *o, int i);
char mark_at(const Outline *o, int i);  // of a token that is one character; 0: it is another
bool is_the_word(const Outline *o, int i, int word);

// The first token of a line.
int line_start(const Outline *o, int line);
// The line after a line, or after the block that it opens, including its `else`.
int block_end(const Outline *o, int first);
bool begins_statement(const Outline *o, const TextLine *l);
// Do all jumps of a statement stay inside it?
bool is_closed(const Outline *o, int first, int end);

Variable *slot_of(const Outline *o, const char *name);
// Declares the variables of the declaration at token `first`, if there is one before `end`.
void read_declaration(Outline *o, int first, int end);
void leave_scope(Outline *o, int opened);

void copy_lines(Outline *o, int first, int end);
// Adds lines as a piece: with a key if they can be outlined.
void add_piece(Outline *o, int first, int end);
typedef void (*ReadLines)(Outline *o, int first, int end);
// Copies the lines that begin and end a block, and reads those inside it.
void take_apart(Outline *o, int first, int end, ReadLines inside);

// Makes pieces of the statements in lines first .. end - 1.
void read_statements(Outline *o, int first, int end);
// Appends the functions of the pieces that `read` makes of the lines, and replaces the lines by
// those with calls. `calls` counts the calls.
void divide(CWriter *w, const Declarations *before, ReadLines read, int *calls, Buf *functions,
            Buf *lines);
// Appends the pieces to `functions`, after a function for each large function that the pieces and
// the cell together use often: they call it, and only it holds a copy of the large function.
void share_large(Gen *g, Buf *functions, const Buf *pieces, Buf *cell);

#endif
