// Source texts, ranges in them, and messages about these ranges.
#include "dsl/diag.h"

#include "dsl/json.h"

#include <stdio.h>
#include <string.h>

enum {
  ERROR_LIMIT = 20,
  WARNING_LIMIT = 100,
  WINDOW_COLUMNS = 100,
  WINDOW_BEFORE = 40,
  TAB_COLUMNS = 4,
  MOST_ALIKE = 3  // of more messages with the same text, only the first one is shown
};

struct Diag {
  Arena *arena;
  const Source *source;
  LIST(DiagMessage) messages;
  int errors, warnings;
  Fix fix;        // of the next message
  bool dropping;  // the last message was not kept, nor are its notes
};

static const char *const severity_name[] = {"error", "warning", "note"};
static const char *const severity_colour[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};

Diag *diag_new(Arena *arena, const Source *source) {
  Diag *diag = NEW(arena, Diag);
  diag->arena = arena;
  diag->source = source;
  return diag;
}

const Source *diag_source(const Diag *diag) { return diag->source; }
int diag_error_count(const Diag *diag) { return diag->errors; }
bool diag_too_many(const Diag *diag) { return diag->errors >= ERROR_LIMIT; }

// ---- collecting

static bool says_same(const DiagMessage *a, const DiagMessage *b) {
  return a->severity == b->severity && a->code == b->code && strcmp(a->text, b->text) == 0;
}

bool diag_same_message(const DiagMessage *a, const DiagMessage *b) {
  return says_same(a, b) && a->span.start == b->span.start && a->span.end == b->span.end;
}

static bool said_already(const Diag *diag, const DiagMessage *message) {
  for (int i = 0; i < diag->messages.count; i++)
    if (diag_same_message(&diag->messages.at[i], message)) return true;
  return false;
}

static void add_message(Diag *diag, Severity severity, int code, Span span, const char *format,
                        va_list args) {
  DiagMessage message = {severity, code, span, arena_vprintf(diag->arena, format, args), diag->fix};
  if (message.fix.where.end == 0) message.fix.where = span;
  if (message.fix.where.end == 0) message.fix.text = NULL;
  diag->fix = (Fix){0};
  diag->dropping = said_already(diag, &message);
  if (severity == DIAG_ERROR) diag->dropping |= diag->errors++ >= ERROR_LIMIT;
  if (severity == DIAG_WARNING) diag->dropping |= diag->warnings++ >= WARNING_LIMIT;
  if (!diag->dropping) LIST_PUSH(diag->arena, &diag->messages, message);
}

void diag_error(Diag *diag, Span span, ErrorCode code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_message(diag, DIAG_ERROR, (int)code, span, format, args);
  va_end(args);
}

void diag_warning(Diag *diag, Span span, ErrorCode code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_message(diag, DIAG_WARNING, (int)code, span, format, args);
  va_end(args);
}

void diag_note(Diag *diag, Span span, const char *format, ...) {
  if (diag->dropping) return;
  va_list args;
  va_start(args, format);
  DiagMessage message = {
      DIAG_NOTE, 0, span, arena_vprintf(diag->arena, format, args), {{0, 0}, NULL}};
  va_end(args);
  LIST_PUSH(diag->arena, &diag->messages, message);
}

void diag_propose(Diag *diag, Span where, const char *text) { diag->fix = (Fix){where, text}; }

int diag_count(const Diag *diag) { return diag->messages.count; }
const DiagMessage *diag_message(const Diag *diag, int index) { return &diag->messages.at[index]; }

// ---- places

void source_index_lines(Arena *arena, Source *source) {
  LIST(uint32_t) lines = {0};
  LIST_PUSH(arena, &lines, 0);
  for (const char *end = source->text + source->length, *p = source->text;
       (p = memchr(p, '\n', (size_t)(end - p))); p++)
    LIST_PUSH(arena, &lines, (uint32_t)(p + 1 - source->text));
  source->lines = lines.at;
  source->line_count = lines.count;
}

static void find_line(const Source *source, size_t offset, int *line, int *column) {
  int low = 0,
      high = source->line_count;  // line `low` starts at the offset or before, line `high` after it
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    *(source->lines[middle] <= offset ? &low : &high) = middle;
  }
  *line = low + 1;
  *column = (int)(offset - source->lines[low]) + 1;
}

void source_position(const Source *source, uint32_t offset, int *line, int *column) {
  size_t end = offset < source->length ? offset : source->length, start = 0;
  if (source->lines) {
    find_line(source, end, line, column);
    return;
  }
  *line = 1;
  for (const char *newline; (newline = memchr(source->text + start, '\n', end - start)); (*line)++)
    start = (size_t)(newline - source->text) + 1;
  *column = (int)(end - start) + 1;
}

typedef struct {
  size_t start, end;
  int line, column, end_column;
} SourceLine;  // the first line of a span, without its newline

static SourceLine place_of(const Source *source, Span span) {
  SourceLine place;
  source_position(source, span.start, &place.line, &place.column);
  size_t at = span.start < source->length ? span.start : source->length;
  place.start = at - (size_t)(place.column - 1);
  const char *newline = memchr(source->text + at, '\n', source->length - at);
  place.end = newline ? (size_t)(newline - source->text) : source->length;
  if (place.end > place.start && place.end > at && source->text[place.end - 1] == '\r') place.end--;
  size_t last = span.end < place.end ? span.end : place.end;
  place.end_column = last > at ? (int)(last - place.start) + 1 : place.column + 1;
  return place;
}

static bool has_place(Span span) { return span.start || span.end; }

// ---- characters made safe to show

static void put_safe(Buf *out, const char *text) {
  for (size_t at = 0, end = strlen(text); at < end;) {
    size_t length = shown_length(text, at, end);
    if (length)
      buf_add(out, text + at, length);
    else
      buf_putc(out, text[at] == '\n' ? '\n' : '?');
    at += length ? length : 1;
  }
}

// ---- the line and its carets

static bool continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

// The part of a long line that is shown: about WINDOW_COLUMNS bytes around the position, cut
// between characters.
static void choose_window(const Source *source, const SourceLine *place, size_t *from, size_t *to) {
  *from = place->start;
  *to = place->end;
  if (place->end - place->start <= WINDOW_COLUMNS + WINDOW_COLUMNS / 5) return;
  size_t at = place->start + (size_t)(place->column - 1);
  if (at - place->start > WINDOW_BEFORE) *from = at - WINDOW_BEFORE;
  if (place->end - *from > WINDOW_COLUMNS) *to = *from + WINDOW_COLUMNS;
  for (int i = 0; i < 3 && *from > place->start && continues(source->text[*from]); i++) --*from;
  for (int i = 0; i < 3 && *to < place->end && continues(source->text[*to]); i++) ++*to;
}

// Adds the visible form of text[at] and returns the number of bytes it consumed; *columns grows by
// its width.
static size_t put_character(Buf *out, const Source *source, size_t at, size_t end, int *columns) {
  if (source->text[at] == '\t') {
    int width = TAB_COLUMNS - *columns % TAB_COLUMNS;
    buf_printf(out, "%*s", width, "");
    *columns += width;
    return 1;
  }
  size_t length = shown_length(source->text, at, end);
  if (length)
    buf_add(out, source->text + at, length);
  else
    buf_putc(out, '?');
  ++*columns;
  return length ? length : 1;
}

// Prints the source line of a message, with carets below the range.
static void put_excerpt(Buf *out, const Source *source, const SourceLine *place, const char *colour,
                        const char *plain) {
  size_t from, to, first = place->start + (size_t)place->column - 1,
                   last = place->start + (size_t)place->end_column - 1;
  choose_window(source, place, &from, &to);
  char margin[32];
  int width = snprintf(margin, sizeof margin, "%5d", place->line), columns = 0, caret = -1,
      caret_end = -1;
  buf_printf(out, "%s | %s", margin, from > place->start ? "..." : "");
  for (size_t at = from; at < to;) {
    if (caret < 0 && at >= first) caret = columns;
    if (caret_end < 0 && at >= last) caret_end = columns;
    at += put_character(out, source, at, to, &columns);
  }
  if (caret < 0) caret = columns;
  if (caret_end < 0) caret_end = columns;
  buf_printf(out, "%s\n%*s | %*s%s^", to < place->end ? "..." : "", width, "",
             caret + (from > place->start ? 3 : 0), "", colour);
  for (int i = caret + 1; i < caret_end; i++) buf_putc(out, '~');
  buf_printf(out, "%s\n", plain);
}

// ---- printing

// Prints one message as text.
static void print_text(const Diag *diag, const DiagMessage *m, Buf *out, bool coloured) {
  const char *bold = coloured ? "\033[1m" : "", *plain = coloured ? "\033[0m" : "";
  const char *colour = coloured ? severity_colour[m->severity] : "";
  SourceLine place = {0};
  buf_puts(out, bold);
  if (has_place(m->span)) {
    place = place_of(diag->source, m->span);
    put_safe(out, diag->source->path);
    buf_printf(out, ":%d:%d: ", place.line, place.column);
  } else if (m->severity != DIAG_NOTE) {
    put_safe(out, diag->source->path);
    buf_puts(out, ": ");
  }
  buf_printf(out, "%s%s:%s %s", colour, severity_name[m->severity], plain,
             m->severity == DIAG_NOTE ? "" : bold);
  put_safe(out, m->text);
  buf_puts(out, plain);
  if (m->severity != DIAG_NOTE) buf_printf(out, " [E%04d]", m->code);
  buf_putc(out, '\n');
  if (has_place(m->span)) put_excerpt(out, diag->source, &place, colour, plain);
}

static void json_place(const Diag *diag, Span span, Buf *out) {
  json_text(out, "file", diag->source->path);
  if (!has_place(span)) return;
  SourceLine place = place_of(diag->source, span);
  json_int(out, "line", place.line);
  json_int(out, "column", place.column);
  json_int(out, "end_column", place.end_column);
}

static void print_json(const Diag *diag, const DiagMessage *m, int notes, Buf *out) {
  char code[16];
  snprintf(code, sizeof code, "E%04d", m->code);
  json_open(out, NULL, '{');
  json_place(diag, m->span, out);
  json_text(out, "severity", severity_name[m->severity]);
  json_text(out, "code", code);
  json_text(out, "message", m->text);
  json_open(out, "notes", '[');
  for (int i = 1; i <= notes; i++) {
    json_open(out, NULL, '{');
    json_place(diag, m[i].span, out);
    json_text(out, "message", m[i].text);
    json_close(out, '}');
  }
  buf_puts(out, "]}\n");
}

static int count_notes(const Diag *diag, int head) {
  int notes = 0;
  while (head + notes + 1 < diag->messages.count &&
         diag->messages.at[head + notes + 1].severity == DIAG_NOTE)
    notes++;
  return notes;
}

// The indices of errors and warnings, by position and then in the order of arrival. There are at
// most some hundred messages.
static int sort_heads(const Diag *diag, int *heads) {
  int count = 0;
  for (int i = 0; i < diag->messages.count; i++) {
    if (diag->messages.at[i].severity == DIAG_NOTE) continue;
    int at = count++;
    for (; at > 0 && diag->messages.at[heads[at - 1]].span.start > diag->messages.at[i].span.start;
         at--)
      heads[at] = heads[at - 1];
    heads[at] = i;
  }
  return count;
}

static void print_closing(const Diag *diag, Buf *out, DiagFormat format) {
  if (!diag_too_many(diag) || format == DIAG_JSON) return;
  put_safe(out, diag->source->path);
  buf_printf(out, ": too many errors: stopped after %d\n", ERROR_LIMIT);
}

static bool says_same_elsewhere(const Diag *diag, int a, int b) {
  const DiagMessage *x = &diag->messages.at[a], *y = &diag->messages.at[b];
  return says_same(x, y) && has_place(x->span) && has_place(y->span);
}

// The number of messages with the text of heads[i]; *first: is it the first of them?
static int count_alike(const Diag *diag, const int *heads, int count, int i, bool *first) {
  int alike = 0;
  *first = true;
  for (int k = 0; k < count; k++) {
    if (!says_same_elsewhere(diag, heads[k], heads[i])) continue;
    *first &= k >= i;
    alike++;
  }
  return alike;
}

static void print_others(const Diag *diag, const int *heads, int count, int i, int alike,
                         Buf *out) {
  int line = 0, column, last = 0;
  buf_printf(out, "note: and %d more places:", alike - 1);
  for (int k = i + 1; k < count; k++) {
    if (!says_same_elsewhere(diag, heads[k], heads[i])) continue;
    source_position(diag->source, diag->messages.at[heads[k]].span.start, &line, &column);
    if (line != last) buf_printf(out, "%s %d", last ? "," : " lines", line);
    last = line;
  }
  buf_putc(out, '\n');
}

void diag_print(const Diag *diag, Buf *out, DiagFormat format) {
  int heads[ERROR_LIMIT + WARNING_LIMIT];
  int count = sort_heads(diag, heads);
  for (int i = 0; i < count; i++) {
    int notes = count_notes(diag, heads[i]);
    const DiagMessage *message = &diag->messages.at[heads[i]];
    if (format == DIAG_JSON) {
      print_json(diag, message, notes, out);
      continue;
    }
    bool first;
    const int alike = count_alike(diag, heads, count, i, &first);
    if (alike > MOST_ALIKE && !first) continue;
    for (int k = 0; k <= notes; k++) print_text(diag, message + k, out, format == DIAG_COLOUR);
    if (alike > MOST_ALIKE) print_others(diag, heads, count, i, alike, out);
  }
  print_closing(diag, out, format);
}

const char *error_meaning(int code) {
  switch (code) {
#define E(number, name, meaning) \
  case number:                   \
    return meaning;
#include "dsl/errors.def"
#undef E
    default:
      return NULL;
  }
}

const Explanation *error_explanation(int code) {
  static const struct {
    int code;
    Explanation explanation;
  } table[] = {
#define EXPLAIN(name, text, wrong, right) {ERR_##name, {text, wrong, right}},
#include "dsl/explain.def"
#undef EXPLAIN
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].code == code) return &table[i].explanation;
  return NULL;
}
