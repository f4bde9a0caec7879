// Names that are reserved in the C and the Python that pkc writes.
#include "codegen/ir/names.h"

#include <stdlib.h>
#include <string.h>

typedef enum { KEYWORD, GENERATED, MACRO, LIBRARY, PYTHON, PYTHON_LOCAL, KINDS } Kind;

static const struct {
  Kind kind;
  const char *words;
} lists[] = {
#define NAMES(kind, words) {kind, words},
#include "codegen/ir/names.def"
#undef NAMES
};

static const unsigned kinds_of_role[NAME_ROLES] = {
    [NAME_C_LOCAL] = 1u << KEYWORD | 1u << MACRO | 1u << GENERATED,
    [NAME_C_PARAMETER] = 1u << KEYWORD | 1u << MACRO,
    [NAME_C_KERNEL] = 1u << KEYWORD | 1u << MACRO | 1u << LIBRARY,
    [NAME_PY_LOCAL] = 1u << PYTHON | 1u << PYTHON_LOCAL,
    [NAME_PY_FUNCTION] = 1u << PYTHON,
};

// Names with these beginnings belong to the implementation, to the numbers of system calls (which
// headers of C++ include), to DLPack, SIMDe, OpenMP's library or include/pk.
static const char *const c_prefixes[] = {"_",    "pk_",   "pks_",  "PK_",    "DL",   "kDL",
                                         "SYS_", "simde", "SIMDE", "HEDLEY", "GOMP", "GOACC"};

typedef struct {
  const char *word;
  unsigned kinds;
} Word;

static int by_word(const void *a, const void *b) {
  return strcmp(((const Word *)a)->word, ((const Word *)b)->word);
}

typedef struct {
  Word *at;
  int count;
  Arena *arena;
} Words;

static void add_words(Words *words, Kind kind, const char *text) {
  for (size_t length; *text; text += length + (text[length] == ' ')) {
    length = strcspn(text, " ");
    if (words->at) words->at[words->count] = (Word){intern_n(text, length), 1u << kind};
    words->count++;
  }
}

// All lists, merged and sorted; a word in several lists has several kinds.
static Words sort_words(void) {
  enum { LISTS = sizeof lists / sizeof *lists };
  Words words = {0};
  Arena *arena = arena_new();
  for (int i = 0; i < LISTS; i++) add_words(&words, lists[i].kind, lists[i].words);
  words = (Words){.at = NEW_ARRAY(arena, Word, words.count), .arena = arena};
  for (int i = 0; i < LISTS; i++) add_words(&words, lists[i].kind, lists[i].words);
  sort_items(words.at, (size_t)words.count, sizeof *words.at, by_word);
  int kept = 0;
  for (int i = 0; i < words.count; i++) {
    if (kept && words.at[kept - 1].word == words.at[i].word)
      words.at[kept - 1].kinds |= words.at[i].kinds;
    else
      words.at[kept++] = words.at[i];
  }
  words.count = kept;
  return words;
}

static unsigned kinds_of(const char *name) {
  static Words words;  // for the life of the process
  if (!words.at) words = sort_words();
  const Word key = {.word = name},
             *found = bsearch(&key, words.at, (size_t)words.count, sizeof key, by_word);
  return found ? found->kinds : 0;
}

static bool has_taken_prefix(const char *name) {
  for (size_t i = 0; i < sizeof c_prefixes / sizeof *c_prefixes; i++)
    if (strncmp(name, c_prefixes[i], strlen(c_prefixes[i])) == 0) return true;
  return false;
}

static bool is_c(NameRole role) { return role <= NAME_C_KERNEL; }

bool name_is_reserved(const char *name, NameRole role) {
  return (is_c(role) && has_taken_prefix(name)) || (kinds_of(name) & kinds_of_role[role]);
}

const char *name_c_base(Arena *arena, const char *name) {
  if (!has_taken_prefix(name)) return name;
  return arena_printf(arena, "u%s%s", *name == '_' ? "" : "_", name);
}

// ---- kernels

// The prefix for names that begin with an underscore, or with this prefix.
static const char escape[] = "pkx_", ending[] = "_kernel";
enum { ESCAPE = sizeof escape - 1, ENDING = sizeof ending - 1 };

static bool wants_escape(const char *name) {
  return *name == '_' || strncmp(name, escape, ESCAPE) == 0;
}

// Part of a name.
typedef struct {
  const char *at;
  size_t length;
} Piece;

static bool is_one_of(const char *const *kernels, int count, Piece p) {
  for (int i = 0; i < count; i++)
    if (strncmp(kernels[i], p.at, p.length) == 0 && !kernels[i][p.length]) return true;
  return false;
}

// Does a kernel have this name after escaping?
static bool is_escaped_kernel(const char *const *kernels, int count, Piece p) {
  if (p.length <= ESCAPE || strncmp(p.at, escape, ESCAPE) != 0) return is_one_of(kernels, count, p);
  Piece rest = {p.at + ESCAPE, p.length - ESCAPE};
  return wants_escape(rest.at) && is_one_of(kernels, count, rest);
}

static Piece without_underscores(Piece p) {
  while (p.length && p.at[p.length - 1] == '_') p.length--;
  return p;
}

static bool is_taken(Arena *arena, Piece stem, NameRole role, const char *const *kernels,
                     int count);

// Is it the description of a kernel of the file: the function's name and `_kernel`?
static bool is_description(Arena *arena, Piece name, const char *const *kernels, int count) {
  if (name.length <= ENDING || strncmp(name.at + name.length - ENDING, ending, ENDING) != 0)
    return false;
  Piece function = {name.at, name.length - ENDING}, shorter = {function.at, function.length - 1};
  bool whole = is_escaped_kernel(kernels, count, function),
       extended = is_escaped_kernel(kernels, count, shorter);
  if (!whole && !extended) return false;
  return is_taken(arena, without_underscores(function), NAME_C_KERNEL, kernels, count)
             ? extended && function.at[function.length - 1] == '_'
             : whole;
}

static bool is_taken(Arena *arena, Piece stem, NameRole role, const char *const *kernels,
                     int count) {
  if (name_is_reserved(arena_strndup(arena, stem.at, stem.length), role)) return true;
  return role == NAME_C_KERNEL && is_description(arena, stem, kernels, count);
}

const char *name_of_kernel(Arena *arena, const char *name, NameRole role,
                           const char *const *kernels, int count) {
  if (is_c(role) && wants_escape(name)) name = arena_printf(arena, "%s%s", escape, name);
  Piece stem = without_underscores((Piece){name, strlen(name)});
  return is_taken(arena, stem, role, kernels, count) ? arena_printf(arena, "%s_", name) : name;
}
