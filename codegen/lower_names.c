// Names: scopes, hiding, and what to say of a name that is not there.
#include "codegen/lower_internal.h"

#include <ctype.h>
#include <string.h>

static size_t name_bit(const Lower *l, const char *name) {
  return ((uintptr_t)name / 16 * 0x9E3779B1u >> 7) % (8 * sizeof l->declared);
}

Symbol *find_symbol(const Lower *l, const char *name) {
  size_t bit = name_bit(l, name);
  if (!(l->declared[bit / 8] >> bit % 8 & 1)) return NULL;
  for (Symbol *s = l->scope; s; s = s->next)
    if (s->name == name) return s;
  return NULL;
}

const char *symbol_kind_text(SymbolKind kind) {
  static const char *const text[] = {"static", "size", "grid axis", "operand",       "scratch",
                                     "var",    "let",  "let",       "loop variable", "parameter"};
  return text[kind];
}

bool same_but_case(const char *a, const char *b) {
  for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++) b++;
  return *a == *b;
}

const char *suggestion(Lower *l, const char *name, const char *const *names, int count) {
  const char *close = NULL;
  for (int i = 0; i < count && !close; i++)
    if (same_but_case(name, names[i])) close = names[i];
  if (!close) close = closest_name(name, names, count);
  return close ? arena_printf(l->arena, "; did you mean `%s`?", close) : "";
}

// An error when `name` may not be declared here; a `let` may hide a `let`, a parameter hides anything.
static bool check_declaration(Lower *l, SymbolKind kind, const char *name, Span span) {
  if (dtype_by_name(name) != DT_COUNT && kind != SYM_PARAMETER) {
    diag_error(l->diag, span, ERR_HIDES, "`%s` is the name of a dtype", name);
    return false;
  }
  Symbol *old = find_symbol(l, name);
  if (!old || kind == SYM_PARAMETER) return true;
  if (old->kind >= SYM_LET && kind >= SYM_LET) return true;
  if (kind == SYM_VAR && old->kind >= SYM_LET) return true;
  bool same = old->kind == kind;
  diag_error(l->diag, span, same ? ERR_DUPLICATE : ERR_HIDES,
             same ? "%s `%s` is declared twice" : "%s `%s` would hide the %s of that name", symbol_kind_text(kind), name,
             symbol_kind_text(old->kind));
  diag_note(l->diag, old->span, "`%s` is declared here", name);
  return false;
}

Symbol *declare(Lower *l, SymbolKind kind, const char *name, Span span) {
  bool good = check_declaration(l, kind, name, span);
  Symbol *s = NEW(l->arena, Symbol);
  *s = (Symbol){.name = name, .kind = kind, .span = span, .poisoned = !good, .next = l->scope};
  size_t bit = name_bit(l, name);
  l->declared[bit / 8] |= (uint8_t)(1u << bit % 8);
  return l->scope = s;
}

void unknown_name(Lower *l, const char *name, Span span) {
  LIST(const char *) names = {0};
  for (Symbol *s = l->scope; s && names.count < MAX_LIST; s = s->next) LIST_PUSH(l->arena, &names, s->name);
  for (int t = 0; t < DT_COUNT; t++) LIST_PUSH(l->arena, &names, dtype_info[t].name);
  if (find_function(l, name)) {
    diag_error(l->diag, span, ERR_UNKNOWN_NAME, "`%s` is a function: call it, `%s(..)`", name, name);
    return;
  }
  diag_error(l->diag, span, ERR_UNKNOWN_NAME, "nothing here is called `%s`%s", name, suggestion(l, name, names.at, names.count));
}
