// The lexer of .pk: the whole file is in memory with a NUL after it, and positions are byte
// offsets.
//
//   re2c -W -i --no-generation-date --no-version -o build/gen/lexer.c dsl/lexer.re       needs build/gen/parser.h first
#include "dsl/parse.h"

#include <string.h>

#include "parser.h"

const TokenInfo token_info[] = {
#define TOKEN(id, text, class) {T_##id, text, TOKEN_##class},
#include "dsl/tokens.def"
#undef TOKEN
};
const int token_info_count = (int)(sizeof token_info / sizeof token_info[0]);

enum {
#define TOKEN(id, text, class) ROW_##id,
#include "dsl/tokens.def"
#undef TOKEN
};

const TokenInfo *token_info_of(int kind) {
  static const unsigned char row[LEX_LINE_COMMENT] = {
#define TOKEN(id, text, class) [T_##id] = 1 + ROW_##id,
#include "dsl/tokens.def"
#undef TOKEN
  };
  return kind > 0 && kind < LEX_LINE_COMMENT && row[kind] ? &token_info[row[kind] - 1] : NULL;
}

// The words of the syntax, in chains by their first letter: 1 + a row of token_info, or 0.
static struct {
  bool made;
  unsigned char first[128], next[64];
} chains;

static void make_chains(void) {
  for (int i = 0; i < token_info_count && token_info[i].class <= TOKEN_WORD; i++) {
    unsigned char *first = &chains.first[(unsigned char)token_info[i].text[0]];
    REQUIRE(i < (int)sizeof chains.next);
    chains.next[i] = *first;
    *first = (unsigned char)(i + 1);
  }
  chains.made = true;
}

static int word_kind(const unsigned char *start, size_t length) {
  for (int i = chains.first[*start]; i; i = chains.next[i - 1]) {
    const char *text = token_info[i - 1].text;
    if (strncmp(text, (const char *)start, length) == 0 && text[length] == 0)
      return token_info[i - 1].kind;
  }
  return T_NAME;
}

void lexer_start(Lexer *lexer, const Source *source, Diag *diag) {
  unsigned char *text = (unsigned char *)source->text;
  if (!chains.made) make_chains();
  *lexer = (Lexer){source, diag, text, text + source->length, text};
  if (source->length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) lexer->cursor += 3;  // a byte order mark
}

static Span span_from(const Lexer *lexer, const unsigned char *start) {
  return (Span){(uint32_t)(start - lexer->text), (uint32_t)(lexer->cursor - lexer->text)};
}

static bool may_stand(unsigned char c) {
  return (c >= 0x20 && c < 0x7f && !strchr("$@#\\'`", c)) || c == '\n' || c == '\t' || c == '\r';
}

// One message for a whole run of bytes that start no token.
static int bad_bytes(Lexer *lexer, const unsigned char *start) {
  lexer->cursor = start + 1;
  size_t line = strcspn((const char *)start, "\n");
  const unsigned char *quote = *start == '\'' ? memchr(start + 1, '\'', line - 1) : NULL;
  if (quote) lexer->cursor = quote + 1;  // a whole 'string'
  while (lexer->cursor < lexer->limit && !may_stand(*lexer->cursor)) lexer->cursor++;
  Span span = span_from(lexer, start);
  if (*start > 0x20 && *start < 0x7f)
    diag_error(lexer->diag, span, ERR_BAD_CHARACTER, "`%c` does not belong to the language%s", *start,
               *start == '@' ? "; a matrix product is dot(a, b)" : "");
  else
    diag_error(lexer->diag, span, ERR_BAD_CHARACTER, "the byte 0x%02x does not belong to the language%s", *start,
               *start >= 0x80 ? "; names are ASCII" : "");
  if (*start == '\'') diag_note(lexer->diag, (Span){0, 0}, "strings are in double quotes");
  if (*start == '#') diag_note(lexer->diag, (Span){0, 0}, "comments start with `//`");
  return LEX_BAD;
}

static int bad_number(Lexer *lexer, const unsigned char *start) {
  Span span = span_from(lexer, start);
  int length = (int)(span.end - span.start) < 40 ? (int)(span.end - span.start) : 40;
  diag_error(lexer->diag, span, ERR_BAD_NUMBER, "`%.*s` is not a number: no letter or `_` may follow a number directly", length,
             (const char *)start);
  return T_INT;
}

static int dot_without_digits(Lexer *lexer, const unsigned char *start) {
  Span span = span_from(lexer, start);
  int length = (int)(span.end - span.start) < 40 ? (int)(span.end - span.start) : 40;
  const char *before = *start == '.' ? "0" : "", *after = *start == '.' ? "" : "0";
  diag_error(lexer->diag, span, ERR_BAD_NUMBER, "a float has digits on both sides of the dot: write `%s%.*s%s`", before, length,
             (const char *)start, after);
  return T_FLOAT;
}

static int line_comment(Lexer *lexer) {
  const unsigned char *end = memchr(lexer->cursor, '\n', (size_t)(lexer->limit - lexer->cursor));
  lexer->cursor = end ? end : lexer->limit;
  return LEX_LINE_COMMENT;
}

static int block_comment(Lexer *lexer, const unsigned char *start) {
  for (const unsigned char *c = lexer->cursor; c < lexer->limit; c++)
    if (c[0] == '*' && c[1] == '/') {
      lexer->cursor = c + 2;
      return LEX_BLOCK_COMMENT;
    }
  diag_error(lexer->diag, span_from(lexer, start), ERR_UNTERMINATED, "this comment is not closed: expected `*/`");
  lexer->cursor = lexer->limit;
  return LEX_BAD;
}

// The length of the UTF-8 character at c; 0 if it is malformed or a control character. The NUL at
// the end ends the text.
static int character_length(const unsigned char *c) {
  if (c[0] < 0x80) return c[0] >= 0x20 && c[0] != 0x7f;
  int length = c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : c[0] >= 0xe0 && c[0] < 0xf0 ? 3 : c[0] >= 0xf0 && c[0] < 0xf5 ? 4 : 0;
  for (int i = 1; i < length; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f)) return 0;
  if ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f)) return 0;
  return length;
}

static void check_escape(Lexer *lexer, const unsigned char *backslash) {
  if (backslash[1] && strchr("nrt\\\"", backslash[1])) return;
  lexer->cursor = backslash + 1 + (backslash[1] > 0x20 && backslash[1] < 0x7f);
  diag_error(lexer->diag, span_from(lexer, backslash), ERR_BAD_ESCAPE, "unknown escape in a string");
  diag_note(lexer->diag, (Span){0, 0}, "the escapes are \\n \\r \\t \\\\ \\\"");
}

static int string(Lexer *lexer, const unsigned char *start) {
  const unsigned char *c = lexer->cursor, *bad = NULL;
  while (c < lexer->limit && *c != '"' && *c != '\n') {
    int length = character_length(c);
    if (!length && *c != '\t' && !bad) bad = c;
    if (*c == '\\') {
      check_escape(lexer, c);
      length = c + 1 < lexer->limit && c[1] != '\n' ? 2 : 1;
    }
    c += length ? length : 1;
  }
  if (bad) {
    lexer->cursor = bad + 1;
    diag_error(lexer->diag, span_from(lexer, bad), ERR_BAD_CHARACTER, "the byte 0x%02x is not allowed in a string", *bad);
  }
  lexer->cursor = c;
  if (c < lexer->limit && *c == '"') {
    lexer->cursor++;
    return T_STRING;
  }
  diag_error(lexer->diag, span_from(lexer, start), ERR_UNTERMINATED, "this string is not closed: expected `\"` on the same line");
  return LEX_BAD;
}

static int scan(Lexer *lexer, const unsigned char **begin) {
  const unsigned char *start, *marker;
again:
  start = *begin = lexer->cursor;
  /*!re2c
    re2c:define:YYCTYPE = "unsigned char";
    re2c:define:YYCURSOR = lexer->cursor;
    re2c:define:YYMARKER = marker;
    re2c:yyfill:enable = 0;

    digit = [0-9];
    letter = [A-Za-z_];
    exponent = [eE] [+-]? digit+;

    [ \t\r\n]+                  { goto again; }
    "//"                        { return line_comment(lexer); }
    "/*"                        { return block_comment(lexer, start); }
    letter (letter | digit)*    { return word_kind(start, (size_t)(lexer->cursor - start)); }

    digit+                      { return T_INT; }
    "0" [xX] [0-9a-fA-F]+       { return T_INT; }
    digit+ "." digit+ exponent? { return T_FLOAT; }
    digit+ exponent             { return T_FLOAT; }
    digit+ (letter | digit)*    { return bad_number(lexer, start); }
    digit+ exponent (letter | digit)+                       { return bad_number(lexer, start); }
    digit+ "." digit+ exponent? letter (letter | digit)*    { return bad_number(lexer, start); }
    digit+ "." / [^.0-9A-Za-z_] { return dot_without_digits(lexer, start); }
    digit+ "." exponent         { return dot_without_digits(lexer, start); }
    digit+ "." letter (letter | digit)*                     { return bad_number(lexer, start); }
    "." digit+ exponent?        { return dot_without_digits(lexer, start); }
    ["]                         { return string(lexer, start); }

    ";"    { return T_SEMI; }
    ","    { return T_COMMA; }
    ":"    { return T_COLON; }
    "("    { return T_LPAREN; }
    ")"    { return T_RPAREN; }
    "["    { return T_LBRACKET; }
    "]"    { return T_RBRACKET; }
    "{"    { return T_LBRACE; }
    "}"    { return T_RBRACE; }
    "."    { return T_DOT; }
    ".."   { return T_DOTDOT; }
    "..."  { return T_ELLIPSIS; }
    "->"   { return T_ARROW; }
    "!"    { return T_NOT; }
    "~"    { return T_TILDE; }
    "*"    { return T_STAR; }
    "/"    { return T_SLASH; }
    "%"    { return T_PERCENT; }
    "+"    { return T_PLUS; }
    "-"    { return T_MINUS; }
    "<<"   { return T_SHL; }
    ">>"   { return T_SHR; }
    ">>>"  { return T_USHR; }
    "&"    { return T_BITAND; }
    "^"    { return T_BITXOR; }
    "|"    { return T_BITOR; }
    "=="   { return T_EQ; }
    "!="   { return T_NE; }
    "<"    { return T_LT; }
    "<="   { return T_LE; }
    ">"    { return T_GT; }
    ">="   { return T_GE; }
    "&&"   { return T_AND; }
    "||"   { return T_OR; }
    "="    { return T_ASSIGN; }
    "+="   { return T_ADD_ASSIGN; }
    "-="   { return T_SUB_ASSIGN; }
    "*="   { return T_MUL_ASSIGN; }
    "/="   { return T_DIV_ASSIGN; }
    "%="   { return T_REM_ASSIGN; }
    "&="   { return T_AND_ASSIGN; }
    "^="   { return T_XOR_ASSIGN; }
    "|="   { return T_OR_ASSIGN; }
    "<<="  { return T_SHL_ASSIGN; }
    ">>="  { return T_SHR_ASSIGN; }
    ">>>=" { return T_USHR_ASSIGN; }
    "?"    { return LEX_QUESTION; }

    [\x00] {
      if (start < lexer->limit) return bad_bytes(lexer, start);
      lexer->cursor = start;
      return 0;
    }
    *      { return bad_bytes(lexer, start); }
  */
}

int lexer_next(Lexer *lexer, Span *span) {
  const unsigned char *start;
  int kind = scan(lexer, &start);
  *span = span_from(lexer, start);
  return kind;
}
