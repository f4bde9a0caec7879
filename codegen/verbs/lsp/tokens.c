// Semantic tokens: the words of a text, classified for highlighting.
#include "codegen/verbs/lsp/names.h"

#include "dsl/parse.h"
#include "parser.h"

#include <string.h>

// In the order of the legend, which methods.def has.
typedef enum {
  COLOUR_NONE = -1,
  COLOUR_KEYWORD,
  COLOUR_TYPE,
  COLOUR_FUNCTION,
  COLOUR_PARAMETER,
  COLOUR_VARIABLE,
  COLOUR_CONSTANT,  // enumMember
  COLOUR_PROPERTY,
  COLOUR_NUMBER,
  COLOUR_STRING,
  COLOUR_COMMENT
} Colour;
enum { DECLARED = 1, READ_ONLY = 2, OF_LANGUAGE = 4 };  // the modifiers, bits in the same order

typedef struct {
  Request *r;
  const Names *names;
  int use;            // the first use at or after the token
  uint32_t line, at;  // of the last token: its line, and its start in bytes
  bool first;
} Colours;

enum { MOST_DIGITS = 20 };

static char *put_number(char *out, uint64_t value) {
  char digits[MOST_DIGITS];
  int count = 0;
  do digits[count++] = (char)('0' + value % 10);
  while (value /= 10);
  while (count) *out++ = digits[--count];
  return out;
}

// One token within a line.
static void put_token(Colours *c, Span span, Colour colour, int modifiers) {
  Document *d = c->r->document;
  char text[5 * (MOST_DIGITS + 1)], *end = text;
  uint32_t line = c->line;
  while ((int)line + 1 < d->lines.count && d->lines.at[line + 1] <= span.start) line++;
  bool same = line == c->line;
  uint32_t from = same ? c->at : d->lines.at[line];
  int64_t delta = units_between(d, from, span.start);
  const int64_t five[] = {line - c->line, delta, units_between(d, span.start, span.end), colour,
                          modifiers};
  for (int i = 0; i < 5; i++) {
    if (!c->first) *end++ = ',';
    c->first = false;
    end = put_number(end, (uint64_t)five[i]);
  }
  buf_add(&c->r->out, text, (size_t)(end - text));
  c->line = line;
  c->at = span.start;
}

// A comment may have several lines, and each is a token.
static void put_lines(Colours *c, Span span, Colour colour) {
  const char *text = c->r->document->source.text;
  while (span.start < span.end) {
    uint32_t end = span.start;
    while (end < span.end && text[end] != '\n' && text[end] != '\r') end++;
    if (end > span.start) put_token(c, (Span){span.start, end}, colour, 0);
    span.start = end;
    while (span.start < span.end && (text[span.start] == '\n' || text[span.start] == '\r'))
      span.start++;
  }
}

static Colour kind_colour(NameKind kind, int *modifiers) {
  static const struct {
    Colour colour;
    int modifiers;
  } of[] = {
      [NAME_KERNEL] = {COLOUR_FUNCTION, 0},        [NAME_FUNCTION] = {COLOUR_FUNCTION, 0},
      [NAME_STATIC] = {COLOUR_CONSTANT, 0},        [NAME_SIZE] = {COLOUR_CONSTANT, 0},
      [NAME_AXIS] = {COLOUR_VARIABLE, READ_ONLY},  [NAME_OPERAND] = {COLOUR_PARAMETER, 0},
      [NAME_SCRATCH] = {COLOUR_VARIABLE, 0},       [NAME_VARIABLE] = {COLOUR_VARIABLE, 0},
      [NAME_VALUE] = {COLOUR_VARIABLE, READ_ONLY}, [NAME_PARAMETER] = {COLOUR_PARAMETER, READ_ONLY},
  };
  *modifiers |= of[kind].modifiers;
  return of[kind].colour;
}

static const NameUse *use_of(Colours *c, Span span) {
  const Names *names = c->names;
  while (c->use < names->uses.count && names->uses.at[c->use].span.start < span.start) c->use++;
  bool here = c->use < names->uses.count && names->uses.at[c->use].span.start == span.start;
  return here ? &names->uses.at[c->use] : NULL;
}

static bool is_called(const Document *d, Span span) {
  const char *after = d->source.text + span.end;
  return after[strspn(after, " \t")] == '(';
}

// The name of a keyword argument, as in f(at = 0): no word of the syntax precedes `=`.
static bool names_argument(const Document *d, Span span) {
  const char *after = d->source.text + span.end;
  after += strspn(after, " \t");
  return after[0] == '=' && after[1] != '=';
}

static Colour name_colour(Colours *c, Span span, int *modifiers) {
  const Document *d = c->r->document;
  const NameUse *use = use_of(c, span);
  if (use && use->declaration >= 0) {
    const NameDeclaration *of = &c->names->declarations.at[use->declaration];
    if (of->span.start == span.start) *modifiers |= DECLARED;
    return kind_colour(of->kind, modifiers);
  }
  *modifiers |= OF_LANGUAGE;
  const char *name = intern_n(d->source.text + span.start, span.end - span.start);
  if (dtype_by_name(name) != DT_COUNT) return COLOUR_TYPE;
  if (strcmp(name, "_") == 0) return COLOUR_NONE;
  return is_called(d, span) ? COLOUR_FUNCTION : use ? COLOUR_NONE : COLOUR_PROPERTY;
}

static Colour token_colour(Colours *c, int kind, Span span, int *modifiers) {
  const TokenInfo *info = token_info_of(kind);
  if (kind == LEX_LINE_COMMENT || kind == LEX_BLOCK_COMMENT) return COLOUR_COMMENT;
  if (kind == T_NAME) return name_colour(c, span, modifiers);
  if (kind == T_STRING) return COLOUR_STRING;
  if (kind == T_INT || kind == T_FLOAT) return COLOUR_NUMBER;
  if (!info) return COLOUR_NONE;
  if (info->class == TOKEN_RESERVED) return COLOUR_KEYWORD;
  if (info->class != TOKEN_WORD) return COLOUR_NONE;
  bool is_name = use_of(c, span) || names_argument(c->r->document, span);
  return is_name ? name_colour(c, span, modifiers) : COLOUR_KEYWORD;
}

// The semantic tokens inside of `part`, in order.
static void put_tokens(Request *r, Span part) {
  Document *d = r->document;
  Colours c = {.r = r, .names = document_names(d), .first = true};
  Diag *diag = diag_new(r->arena, &d->source);
  Lexer lexer;
  Span span;
  int kind;
  lexer_start(&lexer, &d->source, diag);
  json_open(&r->out, "result", '{');
  json_open(&r->out, "data", '[');
  while ((kind = lexer_next(&lexer, &span)) != 0) {
    int modifiers = 0;
    if (span.end <= part.start || span.start >= part.end) continue;
    Colour colour = token_colour(&c, kind, span, &modifiers);
    if (colour == COLOUR_COMMENT)
      put_lines(&c, span, colour);
    else if (colour != COLOUR_NONE)
      put_token(&c, span, colour, modifiers);
  }
  json_close(&r->out, ']');
  json_close(&r->out, '}');
}

void lsp_tokens(Request *r) {
  if (r->document) put_tokens(r, (Span){0, UINT32_MAX});
}

void lsp_tokens_of_range(Request *r) {
  const Json *range = json_member(r->params, "range");
  if (r->document)
    put_tokens(r, (Span){offset_of(r->document, json_member(range, "start")),
                         offset_of(r->document, json_member(range, "end"))});
}
