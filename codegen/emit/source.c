// The source line that a piece of C computes, as a comment above it.
#include "codegen/emit/internal.h"

#include <string.h>

enum { LONGEST = 96 };  // of a line that is shown; the rest is ".."

typedef struct {
  const char *start, *end;
} Line;

static Line line_around(const Source *s, Span span) {
  const char *all = s->text, *last = s->text + s->length;
  Line line = {all + span.start, all + span.start};
  while (line.start > all && line.start[-1] != '\n') line.start--;
  while (line.end < last && *line.end != '\n') line.end++;
  return line;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The line without the comment at its end, the brace that opens a block, and blanks around it.
static Line trimmed(Line line) {
  bool quoted = false;
  for (const char *p = line.start; p + 1 < line.end; p++) {
    quoted ^= *p == '"';
    if (!quoted && p[0] == '/' && p[1] == '/') line.end = p;
  }
  while (line.start < line.end && is_blank(*line.start)) line.start++;
  while (line.end > line.start && (is_blank(line.end[-1]) || line.end[-1] == '{')) line.end--;
  return line;
}

// No comment begins or ends in it.
static const char *harmless(Gen *g, Line line) {
  Buf text = {0};
  bool whole = line.end - line.start <= LONGEST;
  const char *end = whole ? line.end : line.start + LONGEST;
  for (const char *p = line.start; p < end; p++) {
    buf_putc(&text, *p < ' ' || *p > '~' ? '?' : *p);
    bool comment = p + 1 < end && ((p[0] == '/' && p[1] == '*') || (p[0] == '*' && p[1] == '/'));
    if (comment) buf_putc(&text, ' ');
  }
  if (!whole) buf_puts(&text, "..");
  const char *result = text.length ? intern(text.text) : "";
  buf_free(&text);
  (void)g;
  return result;
}

void show_source(CWriter *w, Span span) {
  Gen *g = w->g;
  const Source *s = g->k->source;
  bool known = s && s->text && span.end > span.start && span.end <= s->length;
  int number = known ? line_of(g, span) : 0;
  if (!known || number == w->source_line) return;
  const char *shown = harmless(g, trimmed(line_around(s, span)));
  if (!*shown) return;
  w->source_line = number;
  line(w, "/* %d: %s */", number, shown);
}

// The lines of the members in their order; neighbours on the same line give one.
void show_sources(CWriter *w, Instr *const *members, int count) {
  Gen *g = w->g;
  enum { NEIGHBOURS = 16 };
  Span first = {0, 0};
  int lines[NEIGHBOURS] = {0}, found = 0;
  for (int i = 0; i < count; i++) {
    int number = line_of(g, members[i]->span);
    bool before = false;
    for (int j = 0; j < NEIGHBOURS; j++) before |= lines[j] == number;
    if (before) continue;
    if (found == 1) {  // several: all of them
      w->source_line = 0;
      show_source(w, first);
    }
    if (found > 0) show_source(w, members[i]->span);
    if (found == 0) first = members[i]->span;
    lines[found++ % NEIGHBOURS] = number;
  }
  if (found == 1) show_source(w, first);
}
