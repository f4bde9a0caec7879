// The words and places of the block IR's text.
#include "codegen/ir/words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 1 << 20, MAX_PLACE = 1 << 20, MAX_PLACES_BYTES = 64 << 20 };

void complain(Reader *r, const char *message, const char *name) {
  if (!r->failed)
    diag_error(r->diag, (Span){r->token.start, r->token.end}, ERR_SYNTAX, "%s%s", message, name);
  r->failed = true;
  r->token = (Token){.kind = T_END, .start = r->token.start, .end = r->token.end};
}

// ---- tokens

static bool number_here(const char *s, const char *end, int *value) {
  if (s >= end || !isdigit((unsigned char)*s)) return false;
  int64_t n = 0;
  for (; s < end && isdigit((unsigned char)*s); s++) n = n > MAX_PLACE ? n : n * 10 + (*s - '0');
  *value = (int)(n > MAX_PLACE ? MAX_PLACE + 1 : n);
  return true;
}

static uint32_t skip_digits(const Reader *r, uint32_t at) {
  while (at < r->source->length && isdigit((unsigned char)r->source->text[at])) at++;
  return at;
}

static uint32_t skip_name(const Reader *r, uint32_t at) {
  while (at < r->source->length &&
         (isalnum((unsigned char)r->source->text[at]) || r->source->text[at] == '_'))
    at++;
  return at;
}

// @line:column-line:column
static void read_place(Reader *r, Token *t) {
  const char *text = r->source->text, *end = text + r->source->length;
  int *parts[] = {&t->from.line, &t->from.column, &t->to.line, &t->to.column};
  static const char between[] = ":-:";
  uint32_t at = t->start + 1;
  t->kind = T_PLACE;
  for (int i = 0; i < 4; i++) {
    if (!number_here(text + at, end, parts[i]) || *parts[i] < 1 || *parts[i] > MAX_PLACE)
      t->kind = T_BAD;
    at = skip_digits(r, at);
    if (i == 3) break;
    if (at >= r->source->length || text[at] != between[i]) {
      t->kind = T_BAD;
      break;
    }
    at++;
  }
  t->end = at;
}

// Reads a quoted string, with its escapes.
static void read_string(Reader *r, Token *t) {
  const char *text = r->source->text;
  Buf value = {0};
  uint32_t at = t->start + 1;
  t->kind = T_BAD;
  buf_puts(&value, "");
  for (; at < r->source->length && text[at] != '"' && text[at] != '\n'; at++) {
    char c = text[at];
    if (c == '\\' && at + 1 < r->source->length) {
      c = text[++at];
      if (c == 'x' && at + 2 < r->source->length && isxdigit((unsigned char)text[at + 1]) &&
          isxdigit((unsigned char)text[at + 2])) {
        char digits[] = {text[at + 1], text[at + 2], 0};
        c = (char)strtol(digits, NULL, 16);
        at += 2;
      }
    }
    if (c) buf_putc(&value, c);
  }
  if (at < r->source->length && text[at] == '"') t->kind = T_STRING, at++;
  t->text = intern_n(value.text, value.length);
  t->end = at;
  buf_free(&value);
}

static void read_number(Reader *r, Token *t) {
  const char *text = r->source->text;
  uint32_t at = t->start + 1;
  while (at < r->source->length) {
    char c = text[at];
    bool sign = (c == '-' || c == '+') && (text[at - 1] == 'e' || text[at - 1] == 'E');
    if (!isalnum((unsigned char)c) && c != '.' && !sign) break;
    at++;
  }
  t->kind = T_NUMBER;
  t->end = at;
  t->text = arena_strndup(r->arena, text + t->start, at - t->start);
}

// %12, $x, $3, #4
static void read_sigil(Reader *r, Token *t, char c) {
  const char *text = r->source->text;
  int number = 0;
  bool digits = number_here(text + t->start + 1, text + r->source->length, &number);
  t->end = digits     ? skip_digits(r, t->start + 1)
           : c == '$' ? skip_name(r, t->start + 1)
                      : t->start + 1;
  t->kind = c == '%' ? T_VALUE : c == '$' ? T_REF : T_HASH;
  t->number = number;
  if (digits && c == '%')
    t->number = t->end - t->start > 9 ? MAX_ID : strtoll(text + t->start + 1, NULL, 10);
  if (digits ? t->number > MAX_ID : t->end == t->start + 1) t->kind = T_BAD;
  if (!digits && c == '$') t->text = intern_n(text + t->start + 1, t->end - t->start - 1);
}

static void skip_blanks(Reader *r) {
  const char *text = r->source->text;
  while (r->at < r->source->length) {
    if (isspace((unsigned char)text[r->at]))
      r->at++;
    else if (text[r->at] == '/' && r->at + 1 < r->source->length && text[r->at + 1] == '/')
      while (r->at < r->source->length && text[r->at] != '\n') r->at++;
    else
      break;
  }
}

// The next token.
static Token scan(Reader *r) {
  skip_blanks(r);
  Token t = {.kind = T_END, .start = r->at, .end = r->at};
  if (r->at >= r->source->length) return t;
  char c = r->source->text[r->at],
       next = r->at + 1 < r->source->length ? r->source->text[r->at + 1] : 0;
  if (isalpha((unsigned char)c) || c == '_') {
    t.kind = T_NAME;
    t.end = skip_name(r, r->at);
    t.text = intern_n(r->source->text + r->at, t.end - t.start);
  } else if (isdigit((unsigned char)c) ||
             (c == '-' && (isalnum((unsigned char)next) || next == '.'))) {
    read_number(r, &t);
  } else if (c == '"') {
    read_string(r, &t);
  } else if (c == '@') {
    read_place(r, &t);
  } else if (c == '%' || c == '$' || c == '#') {
    read_sigil(r, &t, c);
  } else {
    t.kind = strchr("()[]{}:,=", c) && c ? T_PUNCTUATION : T_BAD;
    t.mark = c;
    t.end = r->at + 1;
  }
  r->at = t.end;
  return t;
}

void advance(Reader *r) {
  if (r->failed) return;
  r->token = scan(r);
  if (r->token.kind == T_BAD) complain(r, "malformed token", "");
}

bool at_mark(const Reader *r, char mark) {
  return r->token.kind == T_PUNCTUATION && r->token.mark == mark;
}
bool at_name(const Reader *r, const char *name) {
  return r->token.kind == T_NAME && strcmp(r->token.text, name) == 0;
}

bool accept_mark(Reader *r, char mark) {
  if (!at_mark(r, mark)) return false;
  advance(r);
  return true;
}

bool accept_name(Reader *r, const char *name) {
  if (!at_name(r, name)) return false;
  advance(r);
  return true;
}

void expect_mark(Reader *r, char mark) {
  char text[2] = {mark, 0};
  if (!accept_mark(r, mark)) complain(r, "expected ", text);
}

void expect_name(Reader *r, const char *name) {
  if (!accept_name(r, name)) complain(r, "expected ", name);
}

const char *expect_text(Reader *r) {  // a name or a string
  const char *text = r->token.text;
  if (r->token.kind != T_NAME && r->token.kind != T_STRING) {
    complain(r, "expected a name", "");
    return intern("?");
  }
  advance(r);
  return text;
}

const char *expect_string(Reader *r) {
  if (r->token.kind != T_STRING) complain(r, "expected a string", "");
  return expect_text(r);
}

int64_t expect_int(Reader *r) {
  if (r->token.kind != T_NUMBER) {
    complain(r, "expected a number", "");
    return 0;
  }
  char *end;
  errno = 0;
  long long value = strtoll(r->token.text, &end, 10);
  if (*end || errno) complain(r, "not an integer of 64 bits", "");
  advance(r);
  return value;
}

double expect_float(Reader *r) {
  char *end;
  if (r->token.kind != T_NUMBER && !at_name(r, "inf") && !at_name(r, "nan")) {
    complain(r, "expected a number", "");
    return 0;
  }
  double value = strtod(r->token.text, &end);
  if (*end) complain(r, "not a number", "");
  advance(r);
  return value;
}

// ---- places

// Finds the extent of the .pk source that the positions refer to, and creates a blank text of that
// shape.
void make_blank_source(Reader *r, const char *path) {
  uint32_t *width = NEW_ARRAY(r->arena, uint32_t, MAX_PLACE + 2);
  uint32_t saved = r->at;
  int lines = 1;
  r->at = 0;
  for (Token t = scan(r); t.kind != T_END; t = scan(r)) {
    if (t.kind != T_PLACE) continue;
    Position ends[] = {t.from, t.to};
    for (int i = 0; i < 2; i++) {
      if (ends[i].line > lines) lines = ends[i].line;
      if ((uint32_t)ends[i].column > width[ends[i].line])
        width[ends[i].line] = (uint32_t)ends[i].column;
    }
  }
  r->at = saved;
  uint64_t total = 0;
  r->line_start = NEW_ARRAY(r->arena, uint32_t, lines + 2);
  for (int i = 1; i <= lines; i++) {
    r->line_start[i] = (uint32_t)total;
    total += width[i] + 1;
    if (total > MAX_PLACES_BYTES) return complain(r, "places too far apart", "");
  }
  r->line_count = lines;
  char *text = arena_alloc(r->arena, total + 1);
  memset(text, ' ', total);
  for (int i = 1; i <= lines; i++) text[r->line_start[i] + width[i]] = '\n';
  Source *source = NEW(r->arena, Source);
  *source = (Source){.path = path, .text = text, .length = total};
  r->k->source = source;
}

void use_own_source(Reader *r) {
  r->own_places = true;
  r->k->source = r->source;
  int lines = 1;
  for (size_t i = 0; i < r->source->length; i++) lines += r->source->text[i] == '\n';
  r->line_start = NEW_ARRAY(r->arena, uint32_t, lines + 2);
  r->line_count = 1;
  for (size_t i = 0; i < r->source->length; i++)
    if (r->source->text[i] == '\n') r->line_start[++r->line_count] = (uint32_t)i + 1;
}

static uint32_t offset_of(const Reader *r, Position p) {
  uint64_t length = r->k->source->length;
  uint64_t at =
      p.line > r->line_count ? length : (uint64_t)r->line_start[p.line] + (uint64_t)p.column - 1;
  return (uint32_t)(at < length ? at : length);
}

// The position that follows; without one, and if the text is its own source, the range from `start`
// to here.
Span read_span(Reader *r, uint32_t start) {
  Span span = {0, 0};
  if (r->token.kind == T_PLACE) {
    span = (Span){offset_of(r, r->token.from), offset_of(r, r->token.to)};
    advance(r);
  } else if (r->own_places) {
    uint32_t end = r->token.start;
    while (end > start && isspace((unsigned char)r->source->text[end - 1])) end--;
    span = (Span){start, end};
  }
  return span;
}
