// Drives the parser: reads the tokens, feeds them, and after an error finds the place to continue
// from.
#include "dsl/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parser.h"

typedef struct {
  int kind;
  Span span;
} Lexeme;

typedef struct {
  Parse parse;
  void *machine;    // the generated parser
  Lexeme *lexemes;  // all tokens without comments, on the heap; ends with kind 0
  int count, capacity, at;
  int open[MAX_NESTING], open_count;  // indices of the brackets that are open
  int quiet_until;                    // errors up to this token are consequences of a reported one
  int last_mistake;                   // so that every recovery makes progress
  int brace_excess;                   // `{` in the whole text minus `}`
} Driver;

// ---- tokens

static void keep_lexeme(Driver *d, int kind, Span span) {
  if (d->count == d->capacity) {
    d->capacity = d->capacity ? d->capacity * 2 : 1024;
    d->lexemes = realloc(d->lexemes, sizeof *d->lexemes * (size_t)d->capacity);
    if (!d->lexemes) INTERNAL("out of memory for %d tokens", d->capacity);
  }
  d->lexemes[d->count++] = (Lexeme){kind, span};
}

static void read_lexemes(Driver *d) {
  Lexer lexer;
  int kind;
  lexer_start(&lexer, d->parse.source, d->parse.diag);
  do {
    Span span;
    kind = lexer_next(&lexer, &span);
    if (diag_too_many(d->parse.diag)) kind = 0;
    d->brace_excess += (kind == T_LBRACE) - (kind == T_RBRACE);
    if (kind != LEX_LINE_COMMENT && kind != LEX_BLOCK_COMMENT) keep_lexeme(d, kind, span);
  } while (kind);
}

static int kind_at(const Driver *d, int at) { return at < d->count ? d->lexemes[at].kind : 0; }
static Span span_at(const Driver *d, int at) {
  return d->lexemes[at < d->count ? at : d->count - 1].span;
}
static const char *text_at(const Driver *d, int at) {
  return d->parse.source->text + span_at(d, at).start;
}
static int length_at(const Driver *d, int at) {
  return (int)(span_at(d, at).end - span_at(d, at).start);
}

static bool token_is(const Driver *d, int at, const char *text) {
  return at >= 0 && length_at(d, at) == (int)strlen(text) &&
         memcmp(text_at(d, at), text, strlen(text)) == 0;
}

static bool starts_line(const Driver *d, int at) {
  if (at <= 0) return true;
  uint32_t from = span_at(d, at - 1).end, to = span_at(d, at).start;
  return to > from && memchr(d->parse.source->text + from, '\n', to - from) != NULL;
}

// ---- the values of tokens

static bool ends_value(int kind) {
  return kind == T_NAME || kind == T_INT || kind == T_FLOAT || kind == T_RPAREN ||
         kind == T_RBRACKET || kind == T_STRING || kind == T_TRUE || kind == T_FALSE;
}

// 2^63 is allowed where a unary minus precedes it, and is then INT64_MIN.
static int64_t integer_value(Driver *d, int at) {
  const char *text = text_at(d, at);
  int length = length_at(d, at), base = length > 2 && (text[1] | 32) == 'x' ? 16 : 10;
  uint64_t value = 0;
  bool fits = true;
  for (int i = base == 16 ? 2 : 0; i < length; i++) {
    unsigned digit =
        text[i] <= '9' ? (unsigned)(text[i] - '0') : (unsigned)((text[i] | 32) - 'a') + 10;
    if (digit >= (unsigned)base) return 0;  // a bad number, reported by the lexer
    fits = fits && !__builtin_mul_overflow(value, (uint64_t)base, &value) &&
           !__builtin_add_overflow(value, digit, &value);
  }
  bool negated =
      at > 0 && kind_at(d, at - 1) == T_MINUS && !(at > 1 && ends_value(kind_at(d, at - 2)));
  if (fits && value <= INT64_MAX) return (int64_t)value;
  if (fits && negated && value == (uint64_t)INT64_MAX + 1) return INT64_MIN;
  diag_error(d->parse.diag, span_at(d, at), ERR_BAD_NUMBER, "this integer does not fit 64 bits");
  return 0;
}

static double float_value(Driver *d, int at) {
  char *copy = arena_strndup(d->parse.arena, text_at(d, at), (size_t)length_at(d, at));
  double value = strtod(copy, NULL);
  if (isinf(value))
    diag_error(d->parse.diag, span_at(d, at), ERR_BAD_NUMBER,
               "this number is too large for an f64; infinity is written inf");
  copy[strcspn(copy, "eE")] = 0;
  if (value == 0 && strpbrk(copy, "123456789"))
    diag_error(d->parse.diag, span_at(d, at), ERR_BAD_NUMBER,
               "this number is too small for an f64");
  return value;
}

static const char *string_value(const Driver *d, int at) {
  const char *text = text_at(d, at) + 1, *end = text + length_at(d, at) - 2;
  Buf buf = {0};
  buf_puts(&buf, "");
  for (; text < end; text++) {
    const char *escape =
        *text == '\\' && text + 1 < end ? memchr("n\nr\rt\t\\\\\"\"", text[1], 10) : NULL;
    if (escape) text++;
    buf_putc(&buf, escape ? escape[1] : *text);
  }
  const char *value = intern_n(buf.text, strlen(buf.text));
  buf_free(&buf);
  return value;
}

// A token with its value.
static Token token_at(Driver *d, int at) {
  Token token = {.span = span_at(d, at)};
  switch (kind_at(d, at)) {
    case T_INT:
      token.ival = integer_value(d, at);
      break;
    case T_FLOAT:
      token.fval = float_value(d, at);
      break;
    case T_STRING:
      token.name = string_value(d, at);
      break;
    case T_TRUE:
      token.ival = 1;
      break;
    default:
      if (token.span.end > token.span.start)
        token.name = intern_n(text_at(d, at), (size_t)length_at(d, at));
  }
  return token;
}

// ---- messages

static bool suppressed(const Driver *d) { return d->at <= d->quiet_until; }

static bool reserved_word(int kind) {
  const TokenInfo *info = token_info_of(kind);
  return info && info->class == TOKEN_RESERVED;
}

static const char *describe(const Driver *d, int at) {
  int kind = kind_at(d, at), length = length_at(d, at);
  if (!kind) return "the end of the file";
  if (kind == T_STRING) return "a string";
  bool whole = length <= 30;
  return arena_printf(d->parse.arena, "`%.*s%s`", whole ? length : 27, text_at(d, at),
                      whole ? "" : "...");
}

typedef struct {
  const char *text[8];
  int count;
  bool after_value;
} Expected;

static void expect(Expected *e, const char *text) {
  if (e->count < 8) e->text[e->count] = text;
  e->count++;
}

// The tokens that are allowed here, for a message. Operators after a value are not listed.
static void find_expected(const Driver *d, Expected *e) {
  bool value = parser_accepts(d->machine, T_INT), name = parser_accepts(d->machine, T_NAME);
  e->after_value = parser_accepts(d->machine, T_PLUS);
  if (parser_accepts(d->machine, T_LET)) {
    expect(e, "a statement");
    expect(e, "`}`");
    return;
  }
  if (value) expect(e, "a value");
  if (name && !value) expect(e, "a name");
  // Before `=` there may also be a comma, but only in a program; in a list `=` is less common.
  bool assigns = parser_accepts(d->machine, T_ASSIGN) && !parser_accepts(d->machine, T_RPAREN);
  if (assigns) expect(e, "`=`");
  for (int i = 0; i < token_info_count; i++) {
    const TokenInfo *info = &token_info[i];
    bool told = value && (info->kind == T_NOT || info->kind == T_TILDE || info->kind == T_TRUE ||
                          info->kind == T_FALSE);
    bool continues = (e->after_value || value) && info->class == TOKEN_OPERATOR;
    bool word = info->class == TOKEN_WORD && name;
    if (told || continues || word || info->class == TOKEN_ASSIGNING) continue;
    if (assigns && info->kind == T_COMMA) continue;
    if (info->class == TOKEN_OTHER && (info->kind == T_NAME || value)) continue;
    if (!parser_accepts(d->machine, info->kind)) continue;
    expect(e, info->class == TOKEN_OTHER ? info->text
                                         : arena_printf(d->parse.arena, "`%s`", info->text));
  }
}

static const char *expected_text(const Driver *d) {
  Expected e = {{0}, 0, false};
  Buf buf = {0};
  find_expected(d, &e);
  if (e.count == 0 || e.count > 6) return NULL;
  buf_puts(&buf, "expected ");
  for (int i = 0; i < e.count; i++)
    buf_printf(&buf, "%s%s", i == 0 ? "" : i == e.count - 1 ? " or " : ", ", e.text[i]);
  if (e.after_value) buf_puts(&buf, " after the value");
  return arena_take(d->parse.arena, &buf);
}

// Where a `//` follows the last good token on its line, perhaps meant as a division. {0, 0} if
// there is none.
static Span comment_after_last(const Driver *d) {
  Span none = {0, 0};
  if (d->at == 0 || !starts_line(d, d->at) || !ends_value(kind_at(d, d->at - 1))) return none;
  const char *text = d->parse.source->text;
  uint32_t at = span_at(d, d->at - 1).end, limit = span_at(d, d->at).start;
  while (at < limit && (text[at] == ' ' || text[at] == '\t')) at++;
  if (at + 1 >= limit || text[at] != '/' || text[at + 1] != '/') return none;
  uint32_t end = at + 2;
  int words = 0;
  bool finished = false;
  for (; end < limit && text[end] != '\n'; end++) {
    words += text[end] > ' ' && text[end - 1] <= ' ';
    finished |= text[end] == ';' || text[end] == ')';
  }
  return words <= 2 || finished ? (Span){at, at + 2} : none;
}

static void note_comment(const Driver *d) {
  Span comment = comment_after_last(d);
  if (comment.end) diag_note(d->parse.diag, comment, "`//` starts a comment; write floordiv(a, b)");
}

static bool is_comparison(int kind) {
  return kind == T_EQ || kind == T_NE || kind == T_LT || kind == T_LE || kind == T_GT ||
         kind == T_GE;
}

// Habits from other languages. NULL: none of them.
static const char *habit(const Driver *d) {
  int kind = kind_at(d, d->at), before = d->at ? kind_at(d, d->at - 1) : 0;
  bool after_value = parser_accepts(d->machine, T_PLUS);
  if (kind == LEX_QUESTION)
    return "there is no `?:`: write where(c, a, b), or `if c { a } else { b }` as the whole "
           "right-hand side";
  if (is_comparison(kind) && !after_value && ends_value(before)) return NULL;
  if (is_comparison(kind) && ends_value(before))
    return "comparisons do not chain: write `a < b && b < c`";
  if (token_is(d, d->at - 1, "not") && !parser_accepts(d->machine, T_NAME))
    return "there is no `not`: write `!`";
  if (kind == T_STAR && before == T_STAR) return "there is no `**`: write pow(a, b)";
  if (kind == T_PLUS && before == T_PLUS) return "there is no `++`: write `x += 1`";
  if (kind == T_SEMI && before == T_MINUS && d->at > 1 && kind_at(d, d->at - 2) == T_MINUS)
    return "there is no `--`: write `x -= 1`";
  if (kind == T_LBRACE && before == T_RPAREN && parser_accepts(d->machine, T_DOTDOT))
    return "expected a range: write `for i in 0..n { }`, and with a step `for k in 0..cdiv(n, s) { "
           "let i = k * s; .. }`";
  bool after_range = parser_accepts(d->machine, T_LBRACE) && ends_value(before);
  if (after_range && (kind == T_DOTDOT || token_is(d, d->at, "step") || token_is(d, d->at, "by")))
    return "`for` has no step: write `for k in 0..cdiv(n, s) { let i = k * s; .. }`";
  if (token_is(d, d->at - 1, "elif")) return "there is no `elif`: write `else if`";
  if (kind == T_IF && parser_accepts(d->machine, T_INT))
    return "`if` as a value must be the whole right-hand side of `=`; inside an expression write "
           "where(c, a, b)";
  return NULL;
}

// Where the item that holds this token begins.
static int item_start(const Driver *d, int at) {
  while (at > 0 && kind_at(d, at - 1) != T_SEMI && kind_at(d, at - 1) != T_LBRACE &&
         kind_at(d, at - 1) != T_RBRACE)
    at--;
  return at;
}

// The word of the syntax that a name was perhaps meant to be: one that is allowed here, or for an
// earlier token any that is reserved. NULL: none.
static const char *close_word(const Driver *d, int at) {
  enum { MOST_WORDS = 64 };
  int shortest = at == d->at ? 3 : 4;
  const char *words[MOST_WORDS], *name;
  int count = 0;
  if (at < 0 || kind_at(d, at) != T_NAME || length_at(d, at) < shortest) return NULL;
  name = arena_strndup(d->parse.arena, text_at(d, at), (size_t)length_at(d, at));
  for (int i = 0; i < token_info_count && count < MOST_WORDS; i++) {
    const TokenInfo *info = &token_info[i];
    bool word = info->class == TOKEN_RESERVED || info->class == TOKEN_WORD;
    bool allowed =
        at == d->at ? parser_accepts(d->machine, info->kind) : info->class == TOKEN_RESERVED;
    if (word && allowed) words[count++] = info->text;
  }
  return closest_name(name, words, count);
}

// "; did you mean `parallel`?" for the unexpected token, or the name that led to it; or "".
static const char *meant_word(const Driver *d) {
  const int places[] = {d->at, d->at - 1, item_start(d, d->at)};
  for (int i = 0; i < 3; i++) {
    const char *word = close_word(d, places[i]), *name;
    if (!word) continue;
    name = describe(d, places[i]);
    diag_propose(d->parse.diag, span_at(d, places[i]), word);
    return i == 0 ? arena_printf(d->parse.arena, "; did you mean `%s`?", word)
                  : arena_printf(d->parse.arena, "; %s: did you mean `%s`?", name, word);
  }
  return "";
}

static void report_syntax(Driver *d) {
  if (suppressed(d)) return;
  Span span = span_at(d, d->at);
  Diag *diag = d->parse.diag;
  const char *hint = habit(d), *expected = expected_text(d), *found = describe(d, d->at);
  if (hint && (token_is(d, d->at - 1, "not") || token_is(d, d->at - 1, "elif")))
    span = span_at(d, d->at - 1);
  if (hint)
    diag_error(diag, span, ERR_SYNTAX, "%s", hint);
  else if (reserved_word(kind_at(d, d->at)) && !starts_line(d, d->at) &&
           parser_accepts(d->machine, T_NAME))
    diag_error(diag, span, ERR_SYNTAX, "%s is a reserved word and cannot be a name", found);
  else if (expected)
    diag_error(diag, span, ERR_SYNTAX, "%s, found %s%s", expected, found, meant_word(d));
  else
    diag_error(diag, span, ERR_SYNTAX, "%s is not allowed here%s", found, meant_word(d));
  note_comment(d);
  if (kind_at(d, d->at) == 0 && d->open_count)
    diag_note(diag, span_at(d, d->open[d->open_count - 1]), "opened here");
}

// ---- feeding

static void feed(Driver *d, int kind, Token token) { parser(d->machine, kind, token); }

static void feed_inserted(Driver *d, int kind) {
  uint32_t end = d->at ? span_at(d, d->at - 1).end : 0;
  feed(d, kind, (Token){.span = {end, end}});
}

static void track_brackets(Driver *d, int kind) {
  if (kind == T_LPAREN || kind == T_LBRACKET || kind == T_LBRACE)
    d->open[d->open_count++] = d->at;
  else if (kind == T_RPAREN || kind == T_RBRACKET || kind == T_RBRACE)
    d->open_count--;
}

static void shift(Driver *d, int kind) {
  feed(d, kind, token_at(d, d->at));
  track_brackets(d, kind);
  d->at++;
}

// ---- recovery after an error

// Does this token begin a declaration or statement?
static bool is_item_word(int kind) {
  switch (kind) {
    case T_STATIC:
    case T_REQUIRE:
    case T_GRID:
    case T_BLOCK:
    case T_SCRATCH:
    case T_ALIAS:
    case T_PREFETCH:
    case T_LET:
    case T_VAR:
    case T_WHEN:
    case T_FOR:
    case T_WHILE:
    case T_RETURN:
    case T_SCOPED:
    case T_PIPELINE:
    case T_REGION:
      return true;
    default:
      return false;
  }
}

// `kernel f (`, `program f (`, `reference f {` and `reference f (` always begin a declaration of
// the file.
static bool starts_kernel(const Driver *d, int at) {
  if (kind_at(d, at) == T_KERNEL || kind_at(d, at) == T_PROGRAM)
    return kind_at(d, at + 1) == T_NAME && kind_at(d, at + 2) == T_LPAREN;
  return kind_at(d, at) == T_REFERENCE && kind_at(d, at + 1) == T_NAME &&
         (kind_at(d, at + 2) == T_LBRACE || kind_at(d, at + 2) == T_LPAREN);
}

static bool may_start_top(const Driver *d, int at) {
  int kind = kind_at(d, at);
  return starts_kernel(d, at) || (starts_line(d, at) && (kind == T_FN || kind == T_KERNEL ||
                                                         kind == T_PROGRAM || kind == T_REFERENCE));
}

static void skip_to_top(Driver *d, bool move) {
  d->at += move;
  while (kind_at(d, d->at) && !may_start_top(d, d->at)) d->at++;
}

static bool item_goes_on(int kind) {
  return kind == T_ELSE || kind == T_SEMI || kind == T_COMMA || kind == T_RPAREN ||
         kind == T_RBRACKET || kind == T_DOT;
}

// Skips the rest of an item, including the closing braces of those that were opened within it.
static void skip_item(Driver *d, int braces, bool move) {
  for (bool first = !move; kind_at(d, d->at) && !starts_kernel(d, d->at); first = true) {
    int kind = kind_at(d, d->at);
    if (kind == T_RBRACE && braces == 0) return;
    if (first && braces == 0 && is_item_word(kind) && starts_line(d, d->at)) return;
    d->at++;
    if (kind == T_SEMI && braces == 0) return;
    if (kind == T_LBRACE) braces++;
    if (kind == T_RBRACE && --braces == 0 && !item_goes_on(kind_at(d, d->at))) return;
  }
}

// The `{` that ends a header at or after this token, or -1.
static int find_header_end(const Driver *d, bool of_kernel) {
  for (int at = d->at; kind_at(d, at) && !starts_kernel(d, at); at++) {
    int kind = kind_at(d, at);
    if (kind == T_LBRACE) return at;
    if (!of_kernel && (kind == T_SEMI || kind == T_RBRACE)) return -1;
  }
  return -1;
}

static int braces_above(const Driver *d, int level) {
  int braces = 0;
  for (int i = level; i < d->open_count; i++) braces += kind_at(d, d->open[i]) == T_LBRACE;
  return braces;
}

static bool recover_header(Driver *d, int level) {
  if (!parser_accepts(d->machine, T_RECOVER_HEADER)) return false;
  int end = find_header_end(d, level == 0);
  if (end < 0) return false;
  d->at = end;
  d->open_count = level;
  feed_inserted(d, T_RECOVER_HEADER);
  return true;
}

// Drops symbols until a stand-in is accepted, and skips the tokens that it replaces.
static void recover(Driver *d, bool try_header) {
  bool move = d->at == d->last_mistake;
  d->last_mistake = d->at;
  int level = parser_open_brackets(d->machine);
  for (; !parser_accepts(d->machine, T_RECOVER_ITEM); level += parser_pop(d->machine))
    if (try_header && !move && recover_header(d, level)) return;
  if (level == 0)
    skip_to_top(d, move);
  else
    skip_item(d, braces_above(d, level), move);
  d->open_count = level;
  feed_inserted(d, T_RECOVER_ITEM);
}

static void insert(Driver *d, int kind, const char *text) {
  if (!suppressed(d)) {
    uint32_t end = span_at(d, d->at - 1).end;
    diag_propose(d->parse.diag, (Span){end, end}, text);
    diag_error(d->parse.diag, (Span){end, end}, ERR_SYNTAX, "expected `%s` after %s", text,
               describe(d, d->at - 1));
    note_comment(d);
  }
  feed_inserted(d, kind);
}

// A `;` is plainly missing when one is allowed here and the next item begins.
static bool missing_semicolon(const Driver *d) {
  int kind = kind_at(d, d->at);
  if (d->at == 0 || !parser_accepts(d->machine, T_SEMI)) return false;
  return kind == T_RBRACE || is_item_word(kind) || kind == T_IF || kind == T_BREAK ||
         (kind == T_NAME && starts_line(d, d->at));
}

static bool missing_brace(const Driver *d) {
  return d->brace_excess < 0 && d->at > 0 && d->open_count < MAX_NESTING &&
         parser_accepts(d->machine, T_LBRACE) && !parser_accepts(d->machine, T_NAME) &&
         find_header_end(d, false) < 0;
}

// A token that is clearly a mistake for another: reports it and returns the kind to feed instead; 0
// if there is none.
static int meant_instead(Driver *d) {
  int kind = kind_at(d, d->at), instead = 0;
  if (kind == T_ASSIGN && parser_accepts(d->machine, T_EQ)) instead = T_EQ;
  if (token_is(d, d->at, "and") && parser_accepts(d->machine, T_AND)) instead = T_AND;
  if (token_is(d, d->at, "or") && parser_accepts(d->machine, T_OR)) instead = T_OR;
  if (!instead || suppressed(d)) return instead;
  const char *right = token_info_of(instead)->text;
  diag_propose(d->parse.diag, span_at(d, d->at), right);
  if (instead == T_EQ)
    diag_error(d->parse.diag, span_at(d, d->at), ERR_SYNTAX,
               "`=` assigns and is not allowed here: write `==` to compare");
  else
    diag_error(d->parse.diag, span_at(d, d->at), ERR_SYNTAX, "there is no %s: write `%s`",
               describe(d, d->at), right);
  return instead;
}

static void mistake(Driver *d) {
  int instead = meant_instead(d);
  if (instead) {
    shift(d, instead);
  } else if (missing_semicolon(d)) {
    insert(d, T_SEMI, ";");
  } else if (missing_brace(d)) {
    insert(d, T_LBRACE, "{");
    d->brace_excess++;
    d->open[d->open_count++] = d->at - 1;
  } else {
    report_syntax(d);
    recover(d, true);
  }
}

// A bad token was reported by the lexer: it is dropped, and errors in its statement that follow
// from it are not reported.
static void drop_bad(Driver *d) {
  int at = ++d->at;
  while (kind_at(d, at) && kind_at(d, at) != T_SEMI && kind_at(d, at) != T_LBRACE &&
         kind_at(d, at) != T_RBRACE)
    at++;
  d->quiet_until = at;
}

static void report_depth(Driver *d) {
  if (!d->parse.depth_reported)
    diag_error(d->parse.diag, span_at(d, d->at), ERR_TOO_DEEP, "nesting deeper than %d levels",
               MAX_NESTING);
  d->parse.depth_reported = true;
  d->quiet_until = d->at;
}

static void too_deep(Driver *d) {
  report_depth(d);
  recover(d, false);
}

// The parser's stack is at its limit without that many brackets (a chain of unary operators, or of
// else and if): the kernel is given up, so that the stack shrinks.
static void stack_full(Driver *d) {
  report_depth(d);
  int level = parser_open_brackets(d->machine);
  while (level || !parser_accepts(d->machine, T_RECOVER_ITEM)) level += parser_pop(d->machine);
  skip_to_top(d, true);
  d->open_count = 0;
  feed_inserted(d, T_RECOVER_ITEM);
}

// Ends each open item, and the `{` around it, so that the tree contains the text up to the end. An
// incomplete header is dropped.
static void end_items(Driver *d) {
  const uint32_t end = span_at(d, d->at).start;
  int level = parser_open_brackets(d->machine);
  do {
    while (!parser_accepts(d->machine, T_RECOVER_ITEM)) level += parser_pop(d->machine);
    feed_inserted(d, T_RECOVER_ITEM);
    if (level == 0) return;
    feed(d, T_RBRACE, (Token){.span = {end, end}});
  } while (--level > 0);
}

// The file ended, or another kernel begins, within a kernel: its open brackets were never closed.
static void close_kernel(Driver *d) {
  if (!suppressed(d)) {
    int kind = kind_at(d, d->open[d->open_count - 1]);
    const char *close = kind == T_LPAREN ? ")" : kind == T_LBRACKET ? "]" : "}";
    diag_error(d->parse.diag, span_at(d, d->at), ERR_SYNTAX, "expected `%s` before %s", close,
               describe(d, d->at));
    diag_note(d->parse.diag, span_at(d, d->open[d->open_count - 1]), "`%.*s` opened here", 1,
              text_at(d, d->open[d->open_count - 1]));
  }
  end_items(d);
  d->open_count = 0;
}

static void step(Driver *d) {
  int kind = kind_at(d, d->at);
  bool opens = kind == T_LPAREN || kind == T_LBRACKET || kind == T_LBRACE;
  if (kind == LEX_BAD)
    drop_bad(d);
  else if (d->open_count && (kind == 0 || starts_kernel(d, d->at)))
    close_kernel(d);
  else if (kind == LEX_QUESTION || !parser_accepts(d->machine, kind))
    mistake(d);
  else if (parser_depth(d->machine) >= MAX_PARSER_STACK)
    stack_full(d);
  else if (opens && d->open_count == MAX_NESTING)
    too_deep(d);
  else
    shift(d, kind);
}

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes);
  if (!memory) INTERNAL("out of memory");
  return memory;
}

// ---- parts that an edited text shares with the previous text

// The common beginning and the common end of two texts.
typedef struct {
  uint32_t head, tail, old_length, new_length;
} Common;

static Common common_text(const Source *old, const Source *new) {
  enum { STRIDE = 64 };
  const char *a = old->text, *b = new->text;
  size_t least = old->length < new->length ? old->length : new->length, head = 0, tail = 0;
  if (!a) return (Common){.new_length = (uint32_t) new->length};
  while (head + STRIDE <= least && memcmp(a + head, b + head, STRIDE) == 0) head += STRIDE;
  while (head < least && a[head] == b[head]) head++;
  least -= head;
  const char *end_a = a + old->length, *end_b = b + new->length;
  while (tail + STRIDE <= least &&
         memcmp(end_a - tail - STRIDE, end_b - tail - STRIDE, STRIDE) == 0)
    tail += STRIDE;
  while (tail < least && end_a[-1 - (ptrdiff_t)tail] == end_b[-1 - (ptrdiff_t)tail]) tail++;
  return (Common){(uint32_t)head, (uint32_t)tail, (uint32_t)old->length, (uint32_t) new->length};
}

typedef struct {
  Syntax *syntax;  // of the previous text
  Common common;
  int next;           // the first of its parts that begins at the token or later
  SyntaxParts parts;  // of this text
  SyntaxPart open;    // the part that is being parsed; without a part, `start` is NO_PART
  size_t taken;       // bytes of text that were reused without parsing
} Again;

enum { NO_PART = UINT32_MAX };

// Is the parser between two declarations, with nothing that influences the next one?
static bool is_between(const Driver *d) {
  int kind = kind_at(d, d->at);
  bool may_start =
      kind == 0 || kind == T_FN || kind == T_KERNEL || kind == T_PROGRAM || kind == T_REFERENCE;
  return may_start && d->open_count == 0 && d->at > d->quiet_until && parser_accepts(d->machine, 0);
}

// The stand-in token makes the parser reduce the symbols before it, so that their node is created
// now.
static void end_part(Driver *d, Again *again) {
  SyntaxPart *part = &again->open;
  feed_inserted(d, T_RECOVER_ITEM);
  uint32_t end = span_at(d, d->at).start;
  if (part->start != NO_PART) {
    part->end = end;
    part->first = part->last ? node_after(part->last) : NULL;
    part->last = d->parse.newest;
    part->tops = d->parse.file->list.count - part->top;
    LIST_PUSH(d->parse.arena, &again->parts, *part);
  }
  *part = (SyntaxPart){
      .start = end, .last = d->parse.newest, .top = d->parse.file->list.count, .faultless = true};
}

// The part of the previous text that begins with the token and is unchanged; NULL: there is none.
static SyntaxPart *same_part(const Driver *d, Again *again) {
  const Common *c = &again->common;
  uint32_t at = span_at(d, d->at).start, shift = c->new_length - c->old_length;
  SyntaxParts *parts = &again->syntax->parts;
  bool in_tail = at >= c->new_length - c->tail;
  if (at >= c->head && !in_tail) return NULL;
  uint32_t old = in_tail ? at - shift : at;
  while (again->next < parts->count && parts->at[again->next].start < old) again->next++;
  SyntaxPart *part = again->next < parts->count ? &parts->at[again->next] : NULL;
  bool same = part && part->start == old && part->faultless && (in_tail || part->end <= c->head);
  return same ? part : NULL;
}

static void move_span(Span *span, uint32_t shift) {
  if (span->end == 0) return;
  span->start += shift;
  span->end += shift;
}

static void take_part(Driver *d, Again *again, const SyntaxPart *part) {
  uint32_t shift = span_at(d, d->at).start - part->start;
  NodeList *tops = &d->parse.file->list;
  SyntaxPart taken = *part;
  again->taken += part->end - part->start;
  for (Node *node = shift ? part->first : NULL; node;
       node = node == part->last ? NULL : node_after(node)) {
    move_span(&node->span, shift);
    move_span(&node->name_span, shift);
  }
  taken.start += shift;
  taken.end += shift;
  taken.top = tops->count;
  for (int i = 0; i < part->tops; i++)
    LIST_PUSH(d->parse.arena, tops, again->syntax->file->list.at[part->top + i]);
  while (kind_at(d, d->at) && span_at(d, d->at).start < taken.end) d->at++;
  LIST_PUSH(d->parse.arena, &again->parts, taken);
  again->open = (SyntaxPart){.start = NO_PART};
}

static void step_again(Driver *d, Again *again) {
  if (is_between(d) && again->open.start != span_at(d, d->at).start) {
    end_part(d, again);
    const SyntaxPart *part = same_part(d, again);
    if (part) {
      take_part(d, again, part);
      return;
    }
  }
  step(d);
}

// A part with a message is parsed again whenever the text is.
static void mark_faults(SyntaxParts *parts, const Diag *diag) {
  for (int i = 0; i < diag_count(diag); i++)
    for (int k = 0; k < parts->count; k++) {
      uint32_t at = diag_message(diag, i)->span.start;
      if (parts->at[k].start <= at && at <= parts->at[k].end) parts->at[k].faultless = false;
    }
}

// ---- whole texts

// With `again`, the text is an edited form of the previous one.
static Node *parse_text(Arena *arena, const Source *source, Diag *diag, Again *again) {
  Node *file = build_file(arena, source);
  if (source->length > MAX_SOURCE_BYTES) {
    diag_error(diag, (Span){0, 0}, ERR_SOURCE_SIZE, "the text has more than %d bytes",
               MAX_SOURCE_BYTES);
    return file;
  }
  Driver *d = NEW(arena, Driver);
  d->parse = (Parse){.arena = arena, .source = source, .diag = diag, .file = file, .newest = file};
  d->quiet_until = d->last_mistake = -1;
  read_lexemes(d);
  d->machine = parserAlloc(allocate, &d->parse);
  while (d->at < d->count && !diag_too_many(diag))
    if (again)
      step_again(d, again);
    else
      step(d);
  parserFree(d->machine, free);
  free(d->lexemes);
  if (again && d->parse.depth_reported) again->parts.count = 0;  // it is reported once for a text
  return file;
}

Node *parse(Arena *arena, const Source *source, Diag *diag) {
  return parse_text(arena, source, diag, NULL);
}

void syntax_free(Syntax *syntax) {
  arena_free(syntax->arena);
  *syntax = (Syntax){0};
}

Node *parse_again(Syntax *syntax, const Source *source, Diag *diag) {
  if (syntax->parsed > 2 * source->length) syntax_free(syntax);
  if (!syntax->arena) syntax->arena = arena_new();
  Again again = {.syntax = syntax, .open = {.start = NO_PART}};
  again.common = common_text(&syntax->source, source);
  syntax->file = parse_text(syntax->arena, source, diag, &again);
  mark_faults(&again.parts, diag);
  syntax->parts = again.parts;
  syntax->source = *source;
  syntax->parsed += source->length - again.taken;
  return syntax->file;
}
