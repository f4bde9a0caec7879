// The names in use, in a hash table, because a kernel may have a hundred thousand of them.
#include "codegen/loops/expr/scope.h"

#include <string.h>

static NameUse *slot_of(const NameTable *t, const char *name) {
  size_t at = (uintptr_t)name / 16 * 0x9E3779B97F4A7C15u >> 20;
  for (;; at++) {
    NameUse *use = &t->at[at % (size_t)t->capacity];
    if (!use->name || use->name == name) return use;
  }
}

static void grow_names(Arena *arena, NameTable *t) {
  NameTable old = *t;
  t->capacity = old.capacity ? 2 * old.capacity : 256;
  t->at = NEW_ARRAY(arena, NameUse, t->capacity);
  for (int i = 0; i < old.capacity; i++)
    if (old.at[i].name) *slot_of(t, old.at[i].name) = old.at[i];
}

static NameUse *use_in(Arena *arena, NameTable *t, const char *name) {
  if (2 * t->count >= t->capacity) grow_names(arena, t);
  NameUse *use = slot_of(t, name);
  if (!use->name) {
    *use = (NameUse){.name = name, .place = -1};
    t->count++;
  }
  return use;
}

static void add_known_name(Arena *arena, NameTable *t, const char *name) {
  use_in(arena, t, name)->kept = true;
}
static NameUse *use_of(Names *n, const char *name) { return use_in(n->arena, &n->table, name); }

static bool has_place(const Names *n, const char *name, int place) {
  return place >= 0 && place < n->taken.count && n->taken.at[place] == name;
}

static bool is_in_use(Names *n, const char *name) {
  for (; n->table.kept < n->kept.count; n->table.kept++)
    add_known_name(n->arena, &n->table, n->kept.at[n->table.kept]);
  const NameUse *use = use_of(n, name);
  return use->kept || has_place(n, name, use->place);
}

// Numbers up to that of the last used name made from `base` are taken, because names are released
// in reverse order.
static int first_number(Names *n, const char *base) {
  NameUse *use = use_of(n, base);
  while (use->last && !has_place(n, use->last->name, use->last->place))
    use->last = use->last->before;
  int last = use->last ? use->last->number : 0;
  return (last > use->all_kept ? last : use->all_kept) + 1;
}

static void note_name(Names *n, const char *base, const char *name, int number) {
  use_of(n, name)->place = n->taken.count;
  NumberedName *made = NEW(n->arena, NumberedName);
  *made = (NumberedName){use_of(n, base)->last, name, n->taken.count, number};
  use_of(n, base)->last = made;
  LIST_PUSH(n->arena, &n->taken, name);
}

static bool name_taken(Names *n, const char *name) {
  return is_in_use(n, name) || name_is_reserved(name, n->role);
}

static const char *candidate(Names *n, const char *base, int number) {
  return intern(number == 1 ? base : arena_printf(n->arena, "%s%d", base, number));
}

// The first of base, base2, base3, .. that is free.
static const char *free_name(Names *n, const char *base, int *number) {
  *number = first_number(n, base);
  const char *name = candidate(n, base, *number);
  while (name_taken(n, name)) name = candidate(n, base, ++*number);
  return name;
}

const char *unique_name(Names *n, const char *source) {
  int number;
  const char *base = intern(name_c_base(n->arena, source)), *name = free_name(n, base, &number);
  note_name(n, base, name, number);
  return name;
}

const char *lasting_name(Names *n, const char *source) {
  int number;
  const char *base = intern(name_c_base(n->arena, source)), *name = free_name(n, base, &number);
  if (number == use_of(n, base)->all_kept + 1) use_of(n, base)->all_kept = number;
  LIST_PUSH(n->arena, &n->kept, name);
  return name;
}

// `form` has one %s, for the stem.
static const char *formed(Names *n, const char *form, const char *stem) {
  const char *at = strstr(form, "%s");
  return intern(
      arena_printf(n->arena, "%.*s%s%s", (int)(at - form), form, stem, at + strlen("%s")));
}

static bool family_taken(Names *n, const char *stem, const char *const *forms, int count) {
  for (int i = 0; i < count; i++)
    if (name_taken(n, formed(n, forms[i], stem))) return true;
  return false;
}

const char *name_family(Names *n, const char *source, const char *const *forms, int count) {
  const char *base = name_c_base(n->arena, source), *stem = candidate(n, base, 1);
  for (int i = 2; family_taken(n, stem, forms, count); i++) stem = candidate(n, base, i);
  for (int i = 0; i < count; i++) keep_name(n, formed(n, forms[i], stem));
  return stem;
}

int open_names(const Names *n) { return n->taken.count; }
void close_names(Names *n, int opened) { n->taken.count = opened; }
void keep_name(Names *n, const char *name) { LIST_PUSH(n->arena, &n->kept, intern(name)); }
