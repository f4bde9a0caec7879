// Finds the word, bracket and argument at a position of a text that is being edited.
#include "dsl/typed.h"
#include "dsl/parse.h"
#include "parser.h"

static bool is_word(int kind) {
  const TokenInfo *info = token_info_of(kind);
  return kind == T_NAME || (info && (info->class == TOKEN_RESERVED || info->class == TOKEN_WORD));
}

// A comment, or a string that does not end.
static bool is_text(const Source *source, int kind, Span span) {
  return kind == LEX_LINE_COMMENT || kind == LEX_BLOCK_COMMENT ||
         (kind == LEX_BAD && source->text[span.start] == '"');
}

static void open_bracket(Typing *t, Span name) {
  if (t->depth < MOST_OPEN) t->open[t->depth++] = (Open){.name = name};
  t->keyword = (Span){0, 0};
}

static void see_token(Typing *t, int kind, Span before, bool after_name) {
  Span none = {0, 0};
  if (kind == T_LPAREN) open_bracket(t, after_name ? before : none);
  if (kind == T_LBRACKET) open_bracket(t, none);
  if ((kind == T_RPAREN || kind == T_RBRACKET) && t->depth > 0) t->depth--;
  if (kind == T_LBRACE || kind == T_RBRACE || kind == T_SEMI) t->depth = 0;
  if (kind == T_COMMA && t->depth > 0) t->open[t->depth - 1].commas++;
  if (kind == T_COMMA || kind == T_RPAREN || kind == T_SEMI) t->keyword = none;
  if (kind == T_ASSIGN && after_name && t->depth > 0) t->keyword = before;
}

Typing typing_at(Arena *arena, const Source *source, uint32_t at) {
  Typing t = {.word = {at, at}};
  Span span, before = {0, 0};
  bool after_name = false, after_dot = false;
  Lexer lexer;
  lexer_start(&lexer, source, diag_new(arena, source));
  for (int kind; (kind = lexer_next(&lexer, &span)) != 0 && span.start < at;) {
    const bool word = is_word(kind), text = is_text(source, kind, span);
    if (span.end >= at && (text || (kind == T_STRING && span.end > at))) t.quiet = true;
    if (span.end >= at && word) t.word = span;
    if (span.end >= at && (word || text)) break;
    if (span.end > at || text) continue;
    see_token(&t, kind, before, after_name);
    after_name = word;
    after_dot = kind == T_DOT;
    before = span;
  }
  t.member = after_dot;
  return t;
}
