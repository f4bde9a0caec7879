// Outlining. The time of a C compiler grows faster than the length of a function, so the statements
// of a long cell become functions of their own. Statements that differ only in names, integers and
// strings share one function: an unrolled loop leaves many of them.
//
// In: the lines of a cell, and the variables declared before them. Out: functions, and lines with
// calls in place of the statements. Runs of statements that repeat become functions afterwards
// (runs.c). The parameters of a function are the free variables of its statement, and the literals
// that differ between the statements that share it. A statement that assigns a free variable, or
// jumps out of itself, is not outlined.
//
// This file and runs.c compare statements as tokens of C, because only the text says which literals
// C requires to be constants. No other file reads generated C.
#include "codegen/emit/outline.h"

#include <string.h>

// In lines. A long statement is divided into the
// statements inside it, if most of them can be outlined; a short one is outlined only if several
// share its function.
enum {
  LONGEST_STATEMENT = 640,
  LONG_STATEMENT = 80,
  SHORT_STATEMENT = 8,
  MOST_PARAMETERS = 200,
  MANY_USES = 16  // from then on a large function of the vector layer is called, not inlined
};

static const char *const words[WORDS] = {"for",     "if",      "while",    "do",        "return",
                                         "goto",    "break",   "continue", "else",      "case",
                                         "sizeof",  "static",  "const",    "PK_UNROLL", "int",
                                         "int64_t", "int32_t", "uint32_t", "bool",      "float"};
// ---- tokens and lines

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

// The end of a comment, a string, a word, a number or one character.
static const char *token_end(const char *s) {
  if (s[0] == '/' && s[1] == '*') {
    for (s += 2; s[0] && !(s[0] == '*' && s[1] == '/'); s++) continue;
    return s[0] ? s + 2 : s;
  }
  if (*s == '"') {
    for (s++; *s && *s != '"'; s++) s += *s == '\\';
    return *s ? s + 1 : s;
  }
  if (!is_word(*s)) return s + 1;
  for (const bool number = is_digit(*s); is_word(*s) || (number && *s == '.'); s++)
    if (number && (*s == 'e' || *s == 'p') && (s[1] == '-' || s[1] == '+')) s++;
  return s;
}

// Is it decimal, and small enough for an int?
static bool is_small(const char *s, const char *end) {
  const char *from = s;
  while (s < end && is_digit(*s)) s++;
  return s == end && s - from < 10;
}

const Token *token_at(const Outline *o, int i) {
  static const Token none = {TOKEN_OTHER, "", "", false};
  return i >= 0 && i < o->tokens.count ? &o->tokens.at[i] : &none;
}

char mark_at(const Outline *o, int i) {
  const Token *t = token_at(o, i);
  return t->kind == TOKEN_OTHER ? *t->text : 0;
}

static bool is_word_of(const Outline *o, int i, int first, int end) {
  bool found = false;
  for (int k = first; k < end; k++) found |= token_at(o, i)->text == o->word[k];
  return found;
}

bool is_the_word(const Outline *o, int i, int word) {
  return token_at(o, i)->text == o->word[word];
}

// A member of a structure: `->name`, `.name`.
static bool is_member(const Outline *o, int i) {
  return mark_at(o, i - 1) == '.' || (mark_at(o, i - 1) == '>' && mark_at(o, i - 2) == '-');
}

static void read_token(Outline *o, const char *from, const char *end) {
  Token t = {TOKEN_OTHER, intern_n(from, (size_t)(end - from)), from, false};
  if (*from == '"')
    t.kind = TOKEN_STRING;
  else if (is_digit(*from))
    t.kind = is_small(from, end) ? TOKEN_INTEGER : TOKEN_OTHER;
  else if (is_word(*from) && !is_member(o, o->tokens.count))
    t.kind = TOKEN_NAME;
  LIST_PUSH(arena_of(o), &o->tokens, t);
}

// Is it the argument of a macro, such as the 7 of INT64_C(7)?
static bool is_of_macro(const Outline *o, int i) {
  const char *name = token_at(o, i - 2)->text;
  if (mark_at(o, i - 1) != '(' || token_at(o, i - 2)->kind != TOKEN_NAME) return false;
  while (*name && !(*name >= 'a' && *name <= 'z')) name++;
  return !*name;
}

// The extent of a declared array, the bounds of an unrolled loop and the argument of a macro must
// be constants.
static void mark_varying(Outline *o, const TextLine *l) {
  int unrolled = 0;  // 1: the head begins; then the depth of parentheses in it, from 2 on
  for (int i = l->token; i < l->token + l->tokens; i++) {
    Token *t = &o->tokens.at[i];
    const bool extent = mark_at(o, i - 1) == '[' && token_at(o, i - 2)->kind == TOKEN_NAME &&
                        token_at(o, i - 3)->kind == TOKEN_NAME;
    if (is_the_word(o, i, UNROLL)) unrolled = 1;
    if (unrolled) unrolled += (mark_at(o, i) == '(') - (mark_at(o, i) == ')');
    if (unrolled == 1 && mark_at(o, i) == ')') unrolled = 0;
    t->varies = t->kind == TOKEN_STRING ||
                (t->kind == TOKEN_INTEGER && !unrolled && !extent && !is_of_macro(o, i));
  }
}

static const char *read_line(Outline *o, const char *s) {
  TextLine l = {.from = s, .token = o->tokens.count};
  while (*s == ' ') s++;
  l.indent = (int)(s - l.from);
  while (*s && *s != '\n') {
    const char *end = token_end(s);
    if (*s != ' ' && !(s[0] == '/' && s[1] == '*')) read_token(o, s, end);
    s = end;
  }
  l.end = s;
  l.tokens = o->tokens.count - l.token;
  l.opens = mark_at(o, o->tokens.count - 1) == '{' && l.tokens;
  l.closes = mark_at(o, l.token) == '}' && l.tokens;
  mark_varying(o, &l);
  LIST_PUSH(arena_of(o), &o->lines, l);
  return *s ? s + 1 : s;
}

// ---- variables in scope

Variable *slot_of(const Outline *o, const char *name) {
  size_t at = (uintptr_t)name / 16 * 0x9E3779B97F4A7C15u >> 20;
  for (;; at++) {
    Variable *v = &o->table[at % (size_t)o->capacity];
    if (!v->name || v->name == name) return v;
  }
}

static void declare(Outline *o, const char *name, const char *type) {
  const Variable v = {.name = name, .type = type};
  LIST_PUSH(arena_of(o), &o->scope, v);
  Variable *slot = slot_of(o, name);
  slot->name = name;
  slot->type = type;
}

// The slot of a variable out of scope is kept, because the name is likely to be declared again.
static bool is_in_scope(const Outline *o, const char *name) {
  const Variable *v = slot_of(o, name);
  return v->name && v->type != o->left;
}

void leave_scope(Outline *o, int opened) {
  for (; o->scope.count > opened; o->scope.count--)
    slot_of(o, o->scope.at[o->scope.count - 1].name)->type = o->left;
}

// Scalars and constants can be passed; arrays, and structures that may be assigned, cannot.
static bool is_passed(const Outline *o, int first, int name) {
  bool scalar = name == first + 1 && is_word_of(o, first, SCALARS, WORDS);
  return mark_at(o, name + 1) != '[' &&
         (scalar || is_the_word(o, first, CONST) || is_the_word(o, name - 1, CONST));
}

static bool is_keyword(const Outline *o, int i) { return is_word_of(o, i, FOR, CONST); }

void read_declaration(Outline *o, int first, int end) {
  int name = first;
  while (name < end && (token_at(o, name)->kind == TOKEN_NAME || mark_at(o, name) == '*')) name++;
  name--;
  if (name <= first || is_keyword(o, first) || token_at(o, name)->kind != TOKEN_NAME) return;
  const Token *from = token_at(o, first), *to = token_at(o, name);
  const char *type = intern_n(from->from, (size_t)(to->from - from->from));
  declare(o, to->text, is_passed(o, first, name) ? type : NULL);
  for (int i = name, depth = 0; i < end; i++) {
    const char c = mark_at(o, i);
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (depth == 0 && c == ',' && token_at(o, i + 1)->kind == TOKEN_NAME)
      declare(o, token_at(o, i + 1)->text, is_passed(o, first, name) ? type : NULL);
    if (depth < 0 || (depth == 0 && c == ';')) return;
  }
}

// ---- statements

bool begins_statement(const Outline *o, const TextLine *l) {
  return l->opens && (mark_at(o, l->token) == '{' || is_word_of(o, l->token, FOR, DO + 1));
}

int block_end(const Outline *o, int first) {
  if (!o->lines.at[first].opens) return first + 1;
  for (int i = first + 1; i < o->lines.count; i++) {
    const TextLine *l = &o->lines.at[i];
    if (l->closes && l->indent == o->lines.at[first].indent && !l->opens) return i + 1;
  }
  return o->lines.count;
}

int line_start(const Outline *o, int line) {
  return line < o->lines.count ? o->lines.at[line].token : o->tokens.count;
}

// Is the variable at token i assigned, or its address taken?
static bool is_changed(const Outline *o, int i) {
  const char before = mark_at(o, i - 1), farther = mark_at(o, i - 2), next = mark_at(o, i + 1),
             second = mark_at(o, i + 2);
  const bool compound = next == '+' || next == '-' || next == '*' || next == '/' || next == '|' ||
                        next == '&' || next == '^' || next == '%';
  return (next == '=' && second != '=') || (compound && second == '=') ||
         ((next == '+' || next == '-') && second == next) ||
         (before == '&' &&
          (farther == '(' || farther == ',' || farther == '=' || farther == '{')) ||
         ((before == '+' || before == '-') && farther == before);
}

static int position_of(const Variables *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (list->at[i].name == name) return i;
  return -1;
}

// Does token i declare the variable that it names? A type that follows another word does not: the
// variable or `*` follows it.
static bool is_declared(const Outline *o, int i) {
  const char next = mark_at(o, i + 1);
  const bool ends = next == '=' || next == ';' || next == ',' || next == '[' || next == ')';
  return ends && token_at(o, i - 1)->kind == TOKEN_NAME && !is_keyword(o, i - 1);
}

// Adds a name to the key: a free variable or one of the statement's own by its number, any other
// name as it is. Returns false if the statement cannot be outlined.
static bool key_of_name(Outline *o, Piece *p, Variables *own, int i, Buf *key) {
  const char *name = token_at(o, i)->text;
  int known = position_of(&p->free, name), local = position_of(own, name);
  if (known < 0 && is_in_scope(o, name)) {
    const Variable v = *slot_of(o, name);
    if (!v.type) return false;
    known = p->free.count;
    LIST_PUSH(arena_of(o), &p->free, v);
    buf_puts(key, v.type);
  } else if (known < 0 && local < 0 && is_declared(o, i)) {
    local = own->count;
    LIST_PUSH(arena_of(o), own, ((Variable){.name = name}));
  }
  if (known >= 0 && is_changed(o, i)) return false;
  if (known >= 0 || local >= 0)
    buf_printf(key, "%c%d ", known >= 0 ? '@' : '$', known >= 0 ? known : local);
  else
    buf_printf(key, "%s ", name);
  return true;
}

bool is_closed(const Outline *o, int first, int end) {
  const int head = line_start(o, first);
  const bool loop = is_the_word(o, head, FOR) || is_word_of(o, head, WHILE, DO + 1);
  bool closed = true;
  for (int i = head; i < line_start(o, end); i++)
    closed &= !is_word_of(o, i, RETURN, loop ? BREAK : ELSE);
  return closed;
}

// The key of a piece, or NULL if it cannot be outlined.
static const char *key_of(Outline *o, Piece *p) {
  Variables own = {0};
  Buf key = {0};
  bool fits = true, constant = false;
  for (int i = line_start(o, p->first); i < line_start(o, p->end) && fits; i++) {
    const Token *t = token_at(o, i);
    const bool varies = t->varies && !constant;
    constant = is_the_word(o, i, STATIC) || (constant && mark_at(o, i) != ';');
    if (t->kind == TOKEN_NAME)
      fits = key_of_name(o, p, &own, i, &key);
    else
      buf_printf(&key, "%s ", varies ? "#" : t->text);
    if (varies) LIST_PUSH(arena_of(o), &p->literals, i);
  }
  const char *result = fits && p->free.count <= MOST_PARAMETERS ? intern(key.text) : NULL;
  buf_free(&key);
  return result;
}

static int function_of(Outline *o, const char *key) {
  for (int i = 0; i < o->functions.count; i++)
    if (o->functions.at[i].key == key) return i;
  LIST_PUSH(arena_of(o), &o->functions, ((Function){.key = key}));
  return o->functions.count - 1;
}

void copy_lines(Outline *o, int first, int end) {
  LIST_PUSH(arena_of(o), &o->pieces, ((Piece){.first = first, .end = end}));
}

void take_apart(Outline *o, int first, int end, ReadLines inside) {
  int opened = o->scope.count;
  for (int i = first, from = first; i < end; i++) {
    const TextLine *l = &o->lines.at[i];
    if (i > first && (!l->closes || l->indent != o->lines.at[first].indent)) continue;
    if (i > first) inside(o, from + 1, i);
    copy_lines(o, i, i + 1);
    leave_scope(o, opened);
    if (mark_at(o, l->token + 1) == '(') read_declaration(o, l->token + 2, line_start(o, i + 1));
    from = i;
  }
  leave_scope(o, opened);
}

// Removes the pieces from `first` on if less than half of their lines can be outlined.
static bool drop_few(Outline *o, int first, int lines) {
  int called = 0;
  for (int i = first; i < o->pieces.count; i++)
    called += o->pieces.at[i].key ? o->pieces.at[i].end - o->pieces.at[i].first : 0;
  if (2 * called >= lines || lines > LONGEST_STATEMENT) return false;
  for (; o->pieces.count > first; o->pieces.count--) {
    const Piece *p = &o->pieces.at[o->pieces.count - 1];
    if (p->key) o->functions.at[p->function].count--;
  }
  return true;
}

void add_piece(Outline *o, int first, int end) {
  Piece p = {.first = first, .end = end};
  p.key = key_of(o, &p);
  if (p.key) {
    p.function = function_of(o, p.key);
    Function *f = &o->functions.at[p.function];
    if (f->count++ == 0) f->piece = o->pieces.count;
  }
  LIST_PUSH(arena_of(o), &o->pieces, p);
}

static void read_statement(Outline *o, int first, int end) {
  const int before = o->pieces.count, lines = end - first;
  if (lines > LONG_STATEMENT) {
    take_apart(o, first, end, read_statements);
    if (!drop_few(o, before, lines)) return;
  }
  if (is_closed(o, first, end))
    add_piece(o, first, end);
  else
    copy_lines(o, first, end);
}

void read_statements(Outline *o, int first, int end) {
  for (int i = first, next; i < end; i = next) {
    const TextLine *l = &o->lines.at[i];
    next = i + 1;
    if (l->tokens == 1 && is_the_word(o, l->token, UNROLL)) {  // the directive of the next loop
      next = block_end(o, i + 1);
      copy_lines(o, i, next);
    } else if (begins_statement(o, l)) {
      next = block_end(o, i);
      read_statement(o, i, next);
    } else {
      next = block_end(o, i);
      read_declaration(o, l->token, line_start(o, next));
      copy_lines(o, i, next);
    }
  }
}

// ---- functions

// The lines of a statement, without comments.
static int size_of(const Outline *o, const Piece *p) {
  int size = 0;
  for (int i = p->first; i < p->end; i++) size += o->lines.at[i].tokens > 0;
  return size;
}

static const char *literal_of(const Outline *o, const Piece *p, int k) {
  return token_at(o, p->literals.at[k])->text;
}

// Are literals a and b equal in each statement of the function; does a differ between statements?
typedef struct {
  bool agree, differ;
} Comparison;

static Comparison compare_literals(const Outline *o, const Function *f, int a, int b) {
  Comparison c = {true, false};
  const char *first = literal_of(o, &o->pieces.at[f->piece], a);
  for (int i = f->piece, left = f->count; left; i++) {
    const Piece *p = &o->pieces.at[i];
    if (p->key != f->key) continue;
    c.agree &= literal_of(o, p, a) == literal_of(o, p, b);
    c.differ |= literal_of(o, p, a) != first;
    left--;
  }
  return c;
}

// Makes a parameter of each literal that differs; literals that are always equal share one.
static void find_varying(Outline *o, Function *f) {
  const Piece *p = &o->pieces.at[f->piece];
  f->parameter = NEW_ARRAY(arena_of(o), int, p->literals.count + 1);
  for (int k = 0; k < p->literals.count; k++) {
    f->parameter[k] = -1;
    if (!compare_literals(o, f, k, k).differ) continue;
    for (int i = 0; i < f->varying.count && f->parameter[k] < 0; i++)
      if (compare_literals(o, f, k, f->varying.at[i]).agree) f->parameter[k] = i;
    if (f->parameter[k] >= 0) continue;
    f->parameter[k] = f->varying.count;
    LIST_PUSH(arena_of(o), &f->varying, k);
  }
}

static void put_parameters(const Outline *o, const Function *f, Buf *out) {
  const Piece *p = &o->pieces.at[f->piece];
  for (int i = 0; i < p->free.count; i++)
    buf_printf(out, "%s%s%s", i ? ", " : "", p->free.at[i].type, p->free.at[i].name);
  for (int i = 0; i < f->varying.count; i++) {
    const Token *t = token_at(o, p->literals.at[f->varying.at[i]]);
    buf_printf(out, "%s%spk_n%d", i || p->free.count ? ", " : "",
               t->kind == TOKEN_STRING ? "const char *" : "int ", i);
  }
  if (!p->free.count && !f->varying.count) buf_puts(out, "void");
}

// A line of the statement, with parameters in place of literals; `*k` is the next literal.
static void put_line(const Outline *o, const Function *f, int line, int *k, Buf *out) {
  const Piece *p = &o->pieces.at[f->piece];
  const TextLine *l = &o->lines.at[line];
  const char *from = l->from + o->lines.at[p->first].indent - 2;
  for (; *k < p->literals.count && p->literals.at[*k] < l->token + l->tokens; ++*k) {
    const Token *t = token_at(o, p->literals.at[*k]);
    const int parameter = f->parameter[*k];
    if (parameter < 0) continue;
    buf_add(out, from, (size_t)(t->from - from));
    buf_printf(out, "pk_n%d", parameter);
    from = token_end(t->from);
  }
  buf_add(out, from, (size_t)(l->end - from));
  buf_putc(out, '\n');
}

static void put_function(const Outline *o, const Function *f, Buf *out) {
  const Piece *p = &o->pieces.at[f->piece];
  buf_printf(out, "static PK_PIECE void %s(", f->name);
  put_parameters(o, f, out);
  buf_puts(out, ") {\n");
  int k = 0;
  for (int i = p->first; i < p->end; i++) put_line(o, f, i, &k, out);
  buf_puts(out, "}\n\n");
}

static void put_call(const Outline *o, const Function *f, const Piece *p, Buf *out) {
  buf_printf(out, "%*s%s(", o->lines.at[p->first].indent, "", f->name);
  for (int i = 0; i < p->free.count; i++)
    buf_printf(out, "%s%s", i ? ", " : "", p->free.at[i].name);
  for (int i = 0; i < f->varying.count; i++)
    buf_printf(out, "%s%s", i || p->free.count ? ", " : "", literal_of(o, p, f->varying.at[i]));
  buf_puts(out, ");\n");
}

// Names the functions that are worth a call. `calls` counts the calls.
static void name_functions(Outline *o, int *calls) {
  int *number = &o->w->g->outlined.functions;
  for (int i = 0; i < o->functions.count; i++) {
    Function *f = &o->functions.at[i];
    if (!f->count) continue;
    const Piece *p = &o->pieces.at[f->piece];
    if (size_of(o, p) < (f->count > 1 ? 3 : SHORT_STATEMENT)) continue;
    find_varying(o, f);
    if (p->free.count + f->varying.count > MOST_PARAMETERS) continue;
    f->name = text(o->w->g, "%s_piece%d", o->w->g->k->symbol, ++*number);
    *calls += f->count;
  }
}

static void put_pieces(const Outline *o, Buf *functions, Buf *caller) {
  for (int i = 0; i < o->pieces.count; i++) {
    const Piece *p = &o->pieces.at[i];
    const Function *f = p->key ? &o->functions.at[p->function] : NULL;
    const TextLine *first = &o->lines.at[p->first], *last = &o->lines.at[p->end - 1];
    if (!f || !f->name) {
      buf_add(caller, first->from, (size_t)(last->end - first->from));
      buf_putc(caller, '\n');
      continue;
    }
    if (f->piece == i) put_function(o, f, functions);
    put_call(o, f, p, caller);
  }
}

// ---- large functions of the vector layer

typedef struct {
  const char *name;  // such as pk_exp_f32
  const char *own;   // the kernel's own function that calls it
  const char *type;  // of operands and result
  int operands, uses;
} Large;

typedef LIST(Large) Larges;

static void add_large(Gen *g, Larges *list, Op op, bool below) {
  static const struct {
    const char *lane;
    DType dtype;
  } lanes[] = {{"f32", DT_F32}, {"narrow", DT_F32}, {"f64", DT_F64}};
  for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
    const char *lane = lanes[i].lane;
    const Large large = {.name = function_name("pk", op, below, lane),
                         .own = function_name(g->k->symbol, op, below, lane),
                         .type = vector_type(lanes[i].dtype),
                         .operands = op_info[op].nargs};
    LIST_PUSH(g->arena, list, large);
  }
}

// Every inexact function but rsqrt is long.
static Larges large_functions(Gen *g) {
  Larges list = {0};
  for (int op = 0; op < OP_COUNT; op++) {
    const OpClass class = op_info[op].class;
    const bool elementwise = class == OPC_UNARY || class == OPC_BINARY;
    if (elementwise && op_info[op].exactness == RESULT_INEXACT && op != OP_RSQRT)
      add_large(g, &list, (Op)op, false);
  }
  add_large(g, &list, OP_EXP, true);
  return list;
}

// The large function that the token names, or NULL.
static Large *large_of(const Larges *list, const char *from, const char *end) {
  if (!is_word(*from) || is_digit(*from)) return NULL;
  const char *name = intern_n(from, (size_t)(end - from));
  for (int i = 0; i < list->count; i++)
    if (list->at[i].name == name) return &list->at[i];
  return NULL;
}

static bool is_called_often(const Large *l) { return l && l->uses >= MANY_USES; }

static void count_uses(const Larges *list, const char *s) {
  for (const char *end; *s; s = end) {
    end = token_end(s);
    Large *l = large_of(list, s, end);
    if (l) l->uses++;
  }
}

// Appends `s` to `out`, with the kernel's own name of each function that is used often.
static void put_renamed(const Larges *list, const char *s, Buf *out) {
  for (const char *end; *s; s = end) {
    end = token_end(s);
    const Large *l = large_of(list, s, end);
    if (is_called_often(l))
      buf_puts(out, l->own);
    else
      buf_add(out, s, (size_t)(end - s));
  }
}

static void put_large(const Large *l, Buf *out) {
  const char *more = l->operands > 1 ? intern_printf(", %s b", l->type) : "";
  buf_printf(out, "static PK_PIECE %s %s(%s a%s) { return %s(a%s); }\n\n", l->type, l->own, l->type,
             more, l->name, *more ? ", b" : "");
}

void share_large(Gen *g, Buf *functions, const Buf *pieces, Buf *cell) {
  const Larges list = large_functions(g);
  Buf renamed = {0};
  if (pieces->length) count_uses(&list, pieces->text);
  count_uses(&list, cell->text);
  for (int i = 0; i < list.count; i++)
    if (is_called_often(&list.at[i])) put_large(&list.at[i], functions);
  if (pieces->length) put_renamed(&list, pieces->text, functions);
  put_renamed(&list, cell->text, &renamed);
  buf_free(cell);
  *cell = renamed;
}

static Outline begin(CWriter *w, const Declarations *before, const char *lines) {
  Outline o = {.w = w};
  for (int i = 0; i < WORDS; i++) o.word[i] = intern(words[i]);
  o.left = intern("");
  while (*lines) lines = read_line(&o, lines);
  o.capacity = 2 * (o.tokens.count + before->count) + 16;
  o.table = NEW_ARRAY(w->g->arena, Variable, o.capacity);
  for (int i = 0; i < before->count; i++) {
    const char *type = before->at[i].type, *space = type[strlen(type) - 1] == '*' ? "" : " ";
    declare(&o, intern(before->at[i].variable->name), intern_printf("%s%s", type, space));
  }
  return o;
}

void divide(CWriter *w, const Declarations *before, ReadLines read, int *calls, Buf *functions,
            Buf *lines) {
  Buf caller = {0};
  Outline o = begin(w, before, lines->text);
  read(&o, 0, o.lines.count);
  name_functions(&o, calls);
  put_pieces(&o, functions, &caller);
  buf_free(lines);
  *lines = caller;
}
