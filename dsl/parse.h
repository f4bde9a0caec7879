// Shared by the lexer, the grammar, the builder of nodes and the driver of the parser. Of other
// files only the language server includes this, for the words of the language.
#ifndef DSL_PARSE_H
#define DSL_PARSE_H

#include "dsl/ast.h"

enum {
  MAX_SOURCE_BYTES = 8 << 20,
  MAX_NESTING = 200,      // open brackets and braces
  MAX_TREE_DEPTH = 1000,  // of the syntax tree, for the sake of its recursive readers
  MAX_PARSER_STACK = 8000
};

// Kinds of tokens that the grammar does not have; the others are T_.. of the generated parser.h.
enum { LEX_LINE_COMMENT = 240, LEX_BLOCK_COMMENT, LEX_BAD, LEX_QUESTION };

// ---- lexer.re

typedef struct {
  const Source *source;
  Diag *diag;
  const unsigned char *cursor, *limit;
  unsigned char *text;  // the start of the source
} Lexer;

void lexer_start(Lexer *lexer, const Source *source, Diag *diag);
// The kind of the next token and its position; 0 at the end of the source. An invalid token is
// reported and returned as LEX_BAD.
int lexer_next(Lexer *lexer, Span *span);

typedef enum {
  TOKEN_RESERVED,
  TOKEN_WORD,
  TOKEN_PUNCT,
  TOKEN_OPERATOR,
  TOKEN_ASSIGNING,
  TOKEN_OTHER
} TokenClass;
typedef struct {
  int kind;
  const char *text;
  TokenClass class;
} TokenInfo;
extern const TokenInfo token_info[];
extern const int token_info_count;
const TokenInfo *token_info_of(int kind);  // NULL for the LEX_ kinds and the end

// ---- the values of the grammar's symbols

typedef struct {
  Span span;
  const char *name;  // words: interned; strings: their text, escapes resolved, interned
  int64_t ival;
  double fval;
} Token;

typedef struct {
  Arena *arena;
  const Source *source;
  Diag *diag;
  Node *file;
  bool depth_reported;
  Node *newest;  // the node that was created last
} Parse;

// ---- build.c: one function for each action of the grammar

Node *build_file(Arena *arena, const Source *source);
Node *node_after(const Node *node);  // the node that was created next
NodeList *list_empty(Parse *p);
// NULL list: creates one; NULL node: adds nothing
NodeList *list_add(Parse *p, NodeList *list, Node *node);
void build_top(Parse *p, Node *top);
Node *build_kernel(Parse *p, Token kernel, Token name, NodeList *inputs, NodeList *outputs,
                   Node *body);
Node *build_composite(Parse *p, Token program, Token name, NodeList *inputs, NodeList *outputs,
                      Node *body);
Node *build_reference(Parse *p, Token reference, Token name, Node *body);
Node *build_own_reference(Parse *p, Token reference, Token name, NodeList *inputs,
                          NodeList *outputs, Node *body);
Node *build_fn(Parse *p, Token fn, Token name, NodeList *parameters, Node *value, Node *body,
               Span end);
Node *build_items(Parse *p, Token open, NodeList *items, Token close);
Node *mark_packed(Node *dtype);
Node *build_param(Parse *p, Token name, Node *dtype, Node *shape, Node *shard);
Node *build_shard(Parse *p, Token first, NodeList *axes, Token last);
Node *build_list(Parse *p, NodeKind kind, Token first, NodeList *list, Token last);
Node *build_static_item(Parse *p, Token name, Node *type, Node *value);
Node *build_require(Parse *p, Token require, Node *condition, const Token *message, Token last);
Node *build_axis(Parse *p, Token name, Node *extent, int kind, const Token *word);
Node *build_block(Parse *p, Token block, NodeList *names, Node *spec, Token last);
Node *build_binding(Parse *p, Token name, Token operand);
NodeList *build_pipeline_blocks(Parse *p, NodeList *items, NodeList *bindings, Node *spec,
                                Token last);
Node *build_spec(Parse *p, const Token *space, int space_id, Node *dims, Node *map);
Node *build_map(Parse *p, Token at, AtMode mode, NodeList *list, Token last);
Node *spec_pad(Parse *p, Node *spec, Token word, Node *value);
Node *spec_buffers(Parse *p, Node *spec, Token word, Node *value);
Node *spec_halo(Parse *p, Node *spec, Token word, NodeList *pairs);
Node *spec_revisit(Parse *p, Node *spec, Token word, Token any);
Node *build_scratch(Parse *p, NodeList *names, int space, Node *dtype, const Token *semaphore,
                    Node *shape);
NodeList *list_append(Parse *p, NodeList *list, Token first, NodeList *more, Token last);
Node *build_alias(Parse *p, Token alias, Token output, Token input, Token last);
Node *build_statement(Parse *p, NodeKind kind, Token first, const Token *name, Node *a, Node *b,
                      Node *c, Span last);
Node *build_untyped_var(Parse *p, Token name);
Node *build_let_list(Parse *p, Token let, Token name, NodeList *names, Node *value, Token last);
Node *build_assign_list(Parse *p, Node *target, NodeList *more, Token op, Node *value, Token last);
Node *build_assign(Parse *p, Node *target, Token op, int op_id, Node *value, Token last);
Node *build_expression_statement(Parse *p, Node *value, Token last);
Node *build_for(Parse *p, Token first, Token name, Node *from, Node *to, Node *body,
                unsigned flags);
Node *build_block_statement(Parse *p, NodeKind kind, Token first, NodeList *list, Node *body);
Node *build_hole(Parse *p, Token token);
Node *build_literal(Parse *p, NodeKind kind, Token token);
Node *build_unary(Parse *p, UnaryOp op, Token token, Node *value);
Node *build_binary(Parse *p, BinaryOp op, Node *left, Token token, Node *right);
Node *build_call(Parse *p, Token name, NodeList *arguments, Token last);
Node *build_method(Parse *p, Node *receiver, Token name, NodeList *arguments, Token last);
Node *build_member(Parse *p, Node *receiver, Token name);
Node *build_index(Parse *p, Node *base, NodeList *subscripts, Token last);
Node *build_slice(Parse *p, Node *start, Token colon, Node *stop, const Token *second, Node *step);
Node *build_keyword(Parse *p, Token name, Node *value);
Node *build_arrow(Parse *p, Node *from, Node *to);
Node *build_parentheses(Parse *p, Token open, NodeList *list, bool tuple, Token close);
Node *build_if_expr(Parse *p, Token first, Node *condition, Node *yes, Node *no, Span last);

// ---- the generated parser, and the functions of the %code in parser.y

void *parserAlloc(void *(*allocate)(size_t), Parse *parse);
void parserFree(void *parser, void (*release)(void *));
void parser(void *parser, int kind, Token token);
// can this token be shifted (or end the text) now?
bool parser_accepts(const void *parser, int kind);
int parser_pop(void *parser);  // removes the topmost symbol; returns the change in open brackets
int parser_depth(const void *parser);          // symbols on the stack
int parser_open_brackets(const void *parser);  // a pair that is about to be reduced is not open

#endif
