// The canonical layout of a source text (pkc fmt). It works on the tokens, so it cannot change the
// meaning of a text: only the white space between tokens changes.
#include "dsl/parse.h"

#include <string.h>

#include "parser.h"

enum { INDENT = 2, CONTINUATION = 4, LINE_WIDTH = 130, COMMENT_GAP = 2, FURTHEST_COMMENT = 100 };
enum { BYTES_OF_A_PIECE = 3 };  // about, with the white space before it

typedef struct {
  int kind;
  Span span;
  int newlines;     // in the white space before it
  int lines;        // all newlines of the text before its end
  int bodies;       // body braces opened before its end
  int mate;         // the other bracket
  int before;       // the token before it that is not a comment, or -1
  bool body;        // a brace around statements, not around the value of an `if`
  bool ends_value;  // what follows continues a value
  bool keyword;     // a word like `pad` in its role in the syntax
  bool unary;
  bool in_require;
  int inside;  // kind of the innermost bracket around it, 0 for bodies and the file
  int depth;   // of brackets
  enum { UNDECIDED, ON_THE_LINE, BROKEN } choice;  // of a body
} Piece;

typedef struct {
  const char *code, *comment;
  size_t code_length, comment_length;
  bool blank_before;
} Line;

typedef struct {
  Arena *arena;
  const Source *source;
  LIST(Piece) pieces;
  LIST(Line) lines;
  int level;   // of indentation
  bool blank;  // a blank line goes before the next line
} Format;

// ---- reading the pieces

static bool is_comment(int kind) { return kind == LEX_LINE_COMMENT || kind == LEX_BLOCK_COMMENT; }
static bool is_open(int kind) { return kind == T_LPAREN || kind == T_LBRACKET || kind == T_LBRACE; }
static bool is_close(int kind) {
  return kind == T_RPAREN || kind == T_RBRACKET || kind == T_RBRACE;
}

static int count_newlines(const char *text, uint32_t from, uint32_t to) {
  int count = 0;
  for (uint32_t i = from; i < to; i++) count += text[i] == '\n';
  return count;
}

static bool word_ends_value(int kind) {
  switch (kind) {
    case T_NAME:
    case T_INT:
    case T_FLOAT:
    case T_STRING:
    case T_RPAREN:
    case T_RBRACKET:
    case T_TRUE:
    case T_FALSE:
    case T_ELLIPSIS:
      return true;
    default:
      return false;
  }
}

// Classifies a piece for the spacing rules, from the pieces before it.
static void classify(Piece *piece, const Piece *before) {
  const TokenInfo *info = token_info_of(piece->kind);
  bool word = info && info->class == TOKEN_WORD;
  piece->keyword = word && before && (before->ends_value || before->keyword);
  piece->ends_value = word ? !piece->keyword : word_ends_value(piece->kind);
  piece->unary = piece->kind == T_NOT || piece->kind == T_TILDE ||
                 (piece->kind == T_MINUS && !(before && before->ends_value));
}

// Reads the tokens and comments of a text, with the line breaks between them.
static void read_pieces(Format *f) {
  Lexer lexer;
  Diag *quiet = diag_new(f->arena, f->source);
  uint32_t end = 0;
  int before = -1, lines = 0;
  bool in_require = false;
  f->pieces.capacity = (int)(f->source->length / BYTES_OF_A_PIECE) + 1;
  f->pieces.at = NEW_ARRAY(f->arena, Piece, f->pieces.capacity);
  lexer_start(&lexer, f->source, quiet);
  for (;;) {
    Piece piece = {0};
    piece.kind = lexer_next(&lexer, &piece.span);
    if (!piece.kind) return;
    piece.newlines = count_newlines(f->source->text, end, piece.span.start);
    piece.lines = lines +=
        piece.newlines + count_newlines(f->source->text, piece.span.start, piece.span.end);
    piece.mate = -1;
    piece.before = before;
    classify(&piece, before < 0 ? NULL : &f->pieces.at[before]);
    if (!is_comment(piece.kind)) before = f->pieces.count;
    in_require = piece.kind == T_REQUIRE || (in_require && piece.kind != T_SEMI);
    piece.in_require = in_require;
    end = piece.span.end;
    LIST_PUSH(f->arena, &f->pieces, piece);
  }
}

// A body ends with `;`, with the `}` of a body, or is empty; other braces hold a value.
static bool closes_body(const Format *f, const Piece *close) {
  const Piece *last = &f->pieces.at[close->before];
  return last->kind == T_SEMI || last->kind == T_LBRACE || (last->kind == T_RBRACE && last->body);
}

// Finds the partner of each bracket, and the nesting of each piece.
static void match_brackets(Format *f) {
  LIST(int) open = {0};
  for (int i = 0; i < f->pieces.count; i++) {
    Piece *piece = &f->pieces.at[i];
    if (is_close(piece->kind)) {
      REQUIRE(open.count > 0);
      Piece *mate = &f->pieces.at[open.at[--open.count]];
      mate->mate = i;
      piece->mate = open.at[open.count];
      mate->body = piece->body = piece->kind == T_RBRACE && closes_body(f, piece);
    }
    piece->depth = open.count;
    if (open.count) piece->inside = f->pieces.at[open.at[open.count - 1]].kind;
    if (piece->inside == T_LBRACE) piece->inside = 0;
    if (is_open(piece->kind)) LIST_PUSH(f->arena, &open, i);
  }
  for (int i = 0, bodies = 0; i < f->pieces.count; i++) {
    bodies += f->pieces.at[i].body && f->pieces.at[i].kind == T_LBRACE;
    f->pieces.at[i].bodies = bodies;
  }
}

// ---- the space between two pieces of a line

static const char *text_of(const Format *f, const Piece *piece) {
  return f->source->text + piece->span.start;
}

static bool space_before_paren(const Piece *left) {
  if (left->kind == T_NAME ||
      (left->ends_value && left->kind != T_RBRACKET && left->kind != T_RPAREN))
    return false;
  return left->kind != T_LPAREN && left->kind != T_LBRACKET;
}

static bool space_before_bracket(const Format *f, const Piece *left, const Piece *right) {
  bool space_word = left->kind == T_SMEM || left->kind == T_VMEM;
  if (space_word && !right->inside && left->before >= 0 &&
      f->pieces.at[left->before].kind == T_COLON)
    return true;
  if (left->kind == T_DMA || left->kind == T_REGULAR || left->kind == T_BARRIER) return false;
  return !left->ends_value && left->kind != T_LPAREN && left->kind != T_LBRACKET;
}

// Is there a space between two pieces of a line?
static bool space_between(const Format *f, const Piece *left, const Piece *right) {
  if (is_comment(left->kind) || is_comment(right->kind)) return true;
  switch (right->kind) {
    case T_COMMA:
    case T_SEMI:
    case T_RPAREN:
    case T_RBRACKET:
    case T_DOTDOT:
      return false;
    case T_DOT:
      return left->kind == T_INT || left->kind == T_FLOAT;
    case T_COLON:
      return (right->in_require && !right->inside) || left->kind == T_COMMA;
    default:
      break;
  }
  if (left->unary || left->kind == T_LPAREN || left->kind == T_LBRACKET || left->kind == T_DOT ||
      left->kind == T_DOTDOT)
    return false;
  if (left->kind == T_COLON && left->inside == T_LBRACKET) return false;
  if (right->kind == T_LPAREN) return space_before_paren(left);
  if (right->kind == T_LBRACKET) return space_before_bracket(f, left, right);
  return true;
}

// ---- lines

static int width_of(const char *text, size_t length) {
  int width = 0;
  for (size_t i = 0; i < length; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80;
  return width;
}

static void add_line(Format *f, const Buf *code, const char *comment, size_t comment_length) {
  Line line = {arena_strndup(f->arena, code->text, code->length), comment, code->length,
               comment_length, f->blank && f->lines.count};
  f->blank = false;
  LIST_PUSH(f->arena, &f->lines, line);
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// A comment without white space at the ends of its lines.
static const char *comment_text(const Format *f, const Piece *piece, size_t *length) {
  const char *from = text_of(f, piece), *end = f->source->text + piece->span.end;
  char *text = arena_alloc(f->arena, (size_t)(end - from) + 1), *to = text;
  while (from < end) {
    const char *newline = memchr(from, '\n', (size_t)(end - from));
    size_t line = (size_t)((newline ? newline : end) - from), kept = line;
    while (kept && is_space(from[kept - 1])) kept--;
    memcpy(to, from, kept);
    to += kept;
    if (newline) *to++ = '\n';
    from += line + (newline != NULL);
  }
  *length = (size_t)(to - text);
  return text;
}

static void put_indent(Buf *buf, int columns) {
  buf_puts(buf, "");
  for (int i = 0; i < columns; i++) buf_putc(buf, ' ');
}

// ---- one statement or header, on as many lines as it takes

static bool may_break_after(const Piece *piece) {
  if (piece->kind == T_COMMA) return true;
  const TokenInfo *info = token_info_of(piece->kind);
  if (!info || info->class != TOKEN_OPERATOR || piece->unary) return false;
  return piece->kind != T_LPAREN && piece->kind != T_LBRACKET && piece->kind != T_DOT;
}

typedef struct {
  int at, depth;
  size_t length;
} BreakPoint;  // before the piece at; the line's length up to it

// Puts pieces from..to on one line until it is full. Returns the first piece of the next line.
static int fill_line(Format *f, Buf *buf, int from, int to) {
  BreakPoint best = {-1, 0, 0};
  int width = (int)buf->length;
  for (int i = from; i <= to; i++) {
    const Piece *piece = &f->pieces.at[i], *left = i > from ? piece - 1 : NULL;
    bool opportunity = left && (may_break_after(left) || piece->kind == T_ARROW);
    if (left && (left->kind == LEX_LINE_COMMENT || (is_comment(piece->kind) && piece->newlines)))
      return i;
    int depth = opportunity ? may_break_after(left) ? left->depth : piece->depth : 0;
    if (opportunity && (best.at < 0 || depth <= best.depth))
      best = (BreakPoint){i, depth, buf->length};
    if (piece->kind == LEX_LINE_COMMENT) return i;  // the caller puts it at the end
    size_t length = piece->span.end - piece->span.start;
    bool space = left && space_between(f, left, piece);
    width += space + width_of(text_of(f, piece), length);
    if (width > LINE_WIDTH && best.at >= 0) {
      buf->length = best.length;
      buf->text[buf->length] = 0;
      return best.at;
    }
    if (space) buf_putc(buf, ' ');
    buf_add(buf, text_of(f, piece), length);
  }
  return to + 1;
}

// The pieces from..to, then the comment that follows them if there is one (comment: its piece
// or -1).
static void put_statement(Format *f, int from, int to, int comment) {
  int columns = f->level * INDENT;
  for (int at = from; at <= to;) {
    Buf buf = {0};
    const char *text = NULL;
    size_t length = 0;
    put_indent(&buf, columns);
    size_t margin = buf.length;
    at = fill_line(f, &buf, at, to);
    int behind = at > to                                                                   ? comment
                 : f->pieces.at[at].kind == LEX_LINE_COMMENT && !f->pieces.at[at].newlines ? at++
                                                                                           : -1;
    if (behind >= 0) text = comment_text(f, &f->pieces.at[behind], &length);
    if (buf.length == margin && !text) {  // a line of its own for a comment within the statement
      text = comment_text(f, &f->pieces.at[at++], &length);
      buf_add(&buf, text, length);
      text = NULL;
    }
    add_line(f, &buf, text, length);
    buf_free(&buf);
    columns = f->level * INDENT + CONTINUATION;
  }
}

// The number of columns that the pieces from..to would take on one line.
static int one_line_width(Format *f, int from, int to) {
  int width = f->level * INDENT;
  for (int i = from; i <= to && width <= LINE_WIDTH; i++) {
    const Piece *piece = &f->pieces.at[i];
    if (i > from) width += space_between(f, piece - 1, piece);
    width += width_of(text_of(f, piece), piece->span.end - piece->span.start);
  }
  return width;
}

// ---- bodies that stay on one line

static int kind_after(const Format *f, int at) {
  return at + 1 < f->pieces.count ? f->pieces.at[at + 1].kind : 0;
}

// The `{` of the `else` that follows the body closed at this piece, or -1.
static int else_body(const Format *f, int close) {
  if (kind_after(f, close) != T_ELSE) return -1;
  int at = close + 1;
  while (at < f->pieces.count && !f->pieces.at[at].body) at++;
  return at;
}

static bool was_on_one_line(const Format *f, int open) {
  const Piece *first = &f->pieces.at[open], *last = &f->pieces.at[first->mate];
  return first->lines == last->lines && last->bodies == first->bodies;
}

// An `if` and its `else` bodies stay on the line together or not at all.
static void decide_chain(Format *f, int start, int open) {
  bool stays = true;
  int close = open;
  for (int body = open; body >= 0; body = else_body(f, close)) {
    stays = stays && was_on_one_line(f, body);
    close = f->pieces.at[body].mate;
  }
  for (int i = start; i < open && stays; i++) stays = f->pieces.at[i].kind != LEX_LINE_COMMENT;
  stays = stays && one_line_width(f, start, close) <= LINE_WIDTH;
  for (int body = open; body >= 0; body = else_body(f, f->pieces.at[body].mate))
    f->pieces.at[body].choice = stays ? ON_THE_LINE : BROKEN;
}

static bool stays_on_line(Format *f, int start, int open) {
  if (f->pieces.at[open].mate == open + 1) return true;
  if (f->pieces.at[open].choice == UNDECIDED) decide_chain(f, start, open);
  return f->pieces.at[open].choice == ON_THE_LINE;
}

// ---- the whole text

// The last piece of the statement, header or closing brace that starts here.
static int statement_end(Format *f, int start) {
  int at = start;
  if (f->pieces.at[start].kind == T_RBRACE && kind_after(f, start) != T_ELSE) return start;
  for (at = start + (f->pieces.at[start].kind == T_RBRACE); at < f->pieces.count; at++) {
    const Piece *piece = &f->pieces.at[at];
    if (piece->kind == T_SEMI) return at;
    if (!piece->body) continue;
    if (piece->kind == T_RBRACE || !stays_on_line(f, start, at)) return at;
    at = piece->mate;
    if (kind_after(f, at) != T_ELSE) return at;
  }
  return f->pieces.count - 1;
}

// A comment on the same line as the piece before it, with nothing but a new line after it.
static bool stands_behind(const Format *f, int at) {
  if (at >= f->pieces.count || !is_comment(f->pieces.at[at].kind) || f->pieces.at[at].newlines)
    return false;
  return at + 1 >= f->pieces.count || f->pieces.at[at + 1].newlines > 0;
}

static bool comment_alone(const Format *f, int at) {
  return is_comment(f->pieces.at[at].kind) &&
         (at + 1 >= f->pieces.count || f->pieces.at[at + 1].newlines > 0);
}

static void put_comment_line(Format *f, int at) {
  Buf buf = {0};
  size_t length;
  put_indent(&buf, f->level * INDENT);
  const char *text = comment_text(f, &f->pieces.at[at], &length);
  buf_add(&buf, text, length);
  add_line(f, &buf, NULL, 0);
  buf_free(&buf);
}

static void lay_out(Format *f) {
  bool after_open = true;
  for (int at = 0; at < f->pieces.count;) {
    const Piece *piece = &f->pieces.at[at];
    f->blank = piece->newlines > 1 && !after_open && piece->kind != T_RBRACE;
    after_open = false;
    if (comment_alone(f, at)) {
      put_comment_line(f, at++);
      continue;
    }
    if (piece->kind == T_RBRACE) f->level--;
    int end = statement_end(f, at), comment = stands_behind(f, end + 1) ? end + 1 : -1;
    put_statement(f, at, end, comment);
    after_open = f->pieces.at[end].kind == T_LBRACE;
    f->level += after_open;
    at = comment >= 0 ? comment + 1 : end + 1;
  }
}

static bool carries_comment(const Format *f, int at) {
  return at < f->lines.count && f->lines.at[at].comment &&
         memchr(f->lines.at[at].code, '\n', f->lines.at[at].code_length) == NULL;
}

// Comments at the ends of consecutive lines are aligned unless that moves them far to the right.
static int comment_column(const Format *f, int first, int *last) {
  int column = 0;
  for (*last = first;
       carries_comment(f, *last) && (*last == first || !f->lines.at[*last].blank_before); ++*last) {
    int width = width_of(f->lines.at[*last].code, f->lines.at[*last].code_length);
    if (width > column) column = width;
  }
  return column + COMMENT_GAP;
}

static void put_lines(const Format *f, Buf *out) {
  int column = 0, aligned_until = 0;
  for (int i = 0; i < f->lines.count; i++) {
    const Line *line = &f->lines.at[i];
    if (line->blank_before) buf_putc(out, '\n');
    buf_add(out, line->code, line->code_length);
    if (line->comment) {
      if (i >= aligned_until) column = comment_column(f, i, &aligned_until);
      int width = width_of(line->code, line->code_length),
          gap = column > FURTHEST_COMMENT ? COMMENT_GAP : column - width;
      buf_printf(out, "%*s", gap > COMMENT_GAP ? gap : COMMENT_GAP, "");
      buf_add(out, line->comment, line->comment_length);
    }
    buf_putc(out, '\n');
  }
}

void format_parsed(Arena *arena, const Source *source, Buf *out) {
  Format f = {.arena = arena, .source = source};
  read_pieces(&f);
  match_brackets(&f);
  lay_out(&f);
  put_lines(&f, out);
}

bool format_source(Arena *arena, const Source *source, Diag *diag, Buf *out) {
  parse(arena, source, diag);
  if (diag_error_count(diag)) return false;
  format_parsed(arena, source, out);
  return true;
}
