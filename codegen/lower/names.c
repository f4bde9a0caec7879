// Names: scopes, hiding, and the message for an unknown name.
#include "codegen/lower/internal.h"

#include <ctype.h>
#include <string.h>

static Symbol **newest_of(Lower *l, const char *name) {
  return &l->declared[((uintptr_t)name / 16 * 0x9E3779B1u >> 7) %
                      (sizeof l->declared / sizeof *l->declared)];
}

// Scopes are paths of one tree. `far` skips as many symbols as the two jumps before it did where
// these are equal (Myers, "An applicative random-access stack"): any depth is reached in a
// logarithmic number of steps.
static Symbol *skip_from(Symbol *parent) {
  Symbol *far = parent ? parent->far : NULL;
  bool joins = far && far->far && parent->depth - far->depth == far->depth - far->far->depth;
  return joins ? far->far : parent;
}

static bool is_in_scope(const Symbol *scope, const Symbol *s) {
  while (scope && scope->depth > s->depth)
    scope = scope->far && scope->far->depth >= s->depth ? scope->far : scope->next;
  return scope == s;
}

Symbol *find_symbol(Lower *l, const char *name) {
  for (Symbol *s = *newest_of(l, name); s; s = s->other)
    if (s->name == name && is_in_scope(l->scope, s)) return s;
  return NULL;
}

const char *symbol_kind_text(SymbolKind kind) {
  static const char *const text[] = {
      "static", "size", "grid axis",     "mesh axis", "operand", "scratch",      "var",
      "let",    "let",  "loop variable", "parameter", "array",   "loop variable"};
  return text[kind];
}

bool same_but_case(const char *a, const char *b) {
  for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++) b++;
  return *a == *b;
}

// The name that this language has for one of another language, if that is one of `names`.
static const char *native_name(const char *name, const char *const *names, int count) {
  static const struct {
    const char *foreign, *native;
  } table[] = {
#define FOREIGN(foreign, native) {foreign, native},
#define INTEGER(id, name, bits, class, ctype, numpy, ...) FOREIGN(numpy, name)
#define FLOAT(id, name, bits, ctype, numpy, ...) FOREIGN(numpy, name)
#include "dsl/dtypes.def"
#include "codegen/lower/foreign.def"
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    for (int k = 0; strcmp(name, table[i].foreign) == 0 && k < count; k++)
      if (strcmp(table[i].native, names[k]) == 0) return names[k];
  return NULL;
}

const char *written_out(const char *name) {
  static const struct {
    const char *foreign, *text;
  } table[] = {
#define WRITTEN(foreign, text) {foreign, text},
#include "codegen/lower/foreign.def"
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(name, table[i].foreign) == 0) return table[i].text;
  return NULL;
}

const char *suggestion(Lower *l, const char *name, const char *const *names, int count) {
  const char *close = native_name(name, names, count);
  for (int i = 0; i < count && !close; i++)
    if (same_but_case(name, names[i])) close = names[i];
  if (!close) close = closest_name(name, names, count);
  if (close) diag_propose(l->diag, (Span){0, 0}, close);
  return close ? arena_printf(l->arena, "; did you mean `%s`?", close) : "";
}

// An error when `name` may not be declared here; a `let` may hide a `let`, a parameter hides
// anything.
static bool check_declaration(Lower *l, SymbolKind kind, const char *name, Span span) {
  if (dtype_by_name(name) != DT_COUNT && kind == SYM_STATIC) {
    diag_error(l->diag, span, ERR_HIDES,
               "`%s` is the name of a dtype and cannot be the name of a static", name);
    return false;
  }
  Symbol *old = find_symbol(l, name);
  if (!old || kind == SYM_PARAMETER) return true;
  if (old->kind >= SYM_LET && kind >= SYM_LET) return true;
  if (kind == SYM_VAR && old->kind >= SYM_LET) return true;
  bool same = old->kind == kind;
  diag_error(l->diag, span, same ? ERR_DUPLICATE : ERR_HIDES,
             same ? "%s `%s` is declared twice" : "%s `%s` would hide the %s of that name",
             symbol_kind_text(kind), name, symbol_kind_text(old->kind));
  diag_note(l->diag, old->span, "`%s` is declared here", name);
  return false;
}

Symbol *declare(Lower *l, SymbolKind kind, const char *name, Span span) {
  bool good = check_declaration(l, kind, name, span);
  Symbol *s = NEW(l->arena, Symbol);
  Symbol **newest = newest_of(l, name);
  *s = (Symbol){.name = name,
                .kind = kind,
                .span = span,
                .poisoned = !good,
                .next = l->scope,
                .other = *newest};
  s->far = skip_from(l->scope);
  s->depth = l->scope ? l->scope->depth + 1 : 0;
  if (l->options->facts) LIST_PUSH(l->arena, &l->known, s);
  return l->scope = *newest = s;
}

Function *find_function(const Lower *l, const char *name) {
  for (Function *f = l->functions; f; f = f->next)
    if (f->name == name) return f;
  return NULL;
}

static void check_parameters(Lower *l, const Node *node) {
  for (int i = 0; i < node->list.count; i++)
    for (int k = 0; k < i; k++)
      if (node->list.at[i]->name == node->list.at[k]->name) {
        diag_error(l->diag, node->list.at[i]->span, ERR_DUPLICATE,
                   "the parameter `%s` occurs twice", node->list.at[i]->name);
        return;
      }
}

void add_function(Lower *l, const Node *node) {
  Function *old = find_function(l, node->name);
  if (old && old->scope == l->scope && old->node != node) {
    diag_error(l->diag, node->name_span, ERR_DUPLICATE, "the function `%s` is declared twice",
               node->name);
    diag_note(l->diag, old->node->name_span, "`%s` is declared here", node->name);
  }
  check_parameters(l, node);
  Function *f = NEW(l->arena, Function);
  *f = (Function){.name = node->name, .node = node, .scope = l->scope, .next = l->functions};
  l->functions = f;
}

void unknown_name(Lower *l, const char *name, Span span) {
  LIST(const char *) names = {0};
  for (Symbol *s = l->scope; s && names.count < MAX_LIST; s = s->next)
    LIST_PUSH(l->arena, &names, s->name);
  for (int t = 0; t < DT_COUNT; t++) LIST_PUSH(l->arena, &names, dtype_info[t].name);
  static const char *const constants[] = {"inf", "nan", "true", "false"};
  for (int i = 0; i < 4; i++) LIST_PUSH(l->arena, &names, constants[i]);
  if (find_function(l, name)) {
    diag_error(l->diag, span, ERR_UNKNOWN_NAME, "`%s` is a function: call it, `%s(..)`", name,
               name);
    return;
  }
  diag_error(l->diag, span, ERR_UNKNOWN_NAME, "unknown name `%s`%s", name,
             suggestion(l, name, names.at, names.count));
  if (l->place == IN_REQUIRE)
    diag_note(
        l->diag, span,
        "a size that is not an axis of any operand follows from `==` where it is the only unknown, "
        "as M from N == 2 * M");
}
