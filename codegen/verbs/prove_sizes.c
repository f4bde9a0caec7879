// The sizes for which pkc prove runs.
#include "codegen/verbs/prove.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// ---- the text of --sizes

typedef struct {
  Arena *arena;
  const char *at;
  const char *wrong;
} Reader;

static void skip_space(Reader *r) {
  while (isspace((unsigned char)*r->at)) r->at++;
}

static bool take_text(Reader *r, const char *text) {
  skip_space(r);
  size_t length = strlen(text);
  if (strncmp(r->at, text, length) != 0) return false;
  r->at += length;
  return true;
}

static int64_t read_number(Reader *r) {
  char *end;
  skip_space(r);
  long long value = strtoll(r->at, &end, 10);
  if (end == r->at || value < 0) r->wrong = "expected a number";
  r->at = end;
  return value;
}

static const char *read_size_name(Reader *r) {
  skip_space(r);
  const char *start = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
  if (r->at == start) r->wrong = "expected the name of a size";
  return intern_n(start, (size_t)(r->at - start));
}

typedef LIST(int64_t) Numbers;

static void read_range(Reader *r, Numbers *values) {
  int64_t from = read_number(r), to = from;
  if (take_text(r, "..")) to = read_number(r);
  if (!r->wrong && to < from) r->wrong = "a range ends before it begins";
  if (!r->wrong && to - from >= 10000) r->wrong = "a range has more than 10000 sizes";
  for (int64_t i = 0; !r->wrong && i <= to - from; i++) LIST_PUSH(r->arena, values, from + i);
}

static void read_values(Reader *r, Numbers *values) {
  if (!take_text(r, "{")) {
    read_range(r, values);
    return;
  }
  do read_range(r, values);
  while (!r->wrong && take_text(r, ","));
  if (!r->wrong && !take_text(r, "}")) r->wrong = "expected `}`";
}

enum { MOST_SETS = 100000 };

// Combines each set so far with each value.
static void multiply_sets(Reader *r, SizeSets *sets, const char *name, const Numbers *values) {
  SizeSets all = {0};
  if ((int64_t)sets->count * values->count > MOST_SETS)
    r->wrong = "these are more than 100000 combinations";
  if (r->wrong) return;
  for (int i = 0; i < sets->count; i++)
    for (int j = 0; j < values->count; j++) {
      SizeSet one = {0};
      for (int a = 0; a < sets->at[i].count; a++) LIST_PUSH(r->arena, &one, sets->at[i].at[a]);
      Argument size = {name, arena_printf(r->arena, "%lld", (long long)values->at[j])};
      LIST_PUSH(r->arena, &one, size);
      LIST_PUSH(r->arena, &all, one);
    }
  *sets = all;
}

const char *read_size_sets(Arena *arena, const char *text, SizeSets *sets) {
  Reader r = {arena, text, NULL};
  SizeSet none = {0};
  LIST_PUSH(arena, sets, none);
  do {
    Numbers values = {0};
    const char *name = read_size_name(&r);
    if (!r.wrong && !take_text(&r, "=") && !take_text(&r, "in")) r.wrong = "expected `in` or `=`";
    if (!r.wrong) read_values(&r, &values);
    if (!r.wrong) multiply_sets(&r, sets, name, &values);
  } while (!r.wrong && take_text(&r, ","));
  skip_space(&r);
  if (!r.wrong && *r.at) r.wrong = "expected a comma";
  if (!r.wrong) return NULL;
  return *r.at ? arena_printf(arena, "--sizes: %s at `%s`", r.wrong, r.at)
               : arena_printf(arena, "--sizes: %s at the end of `%s`", r.wrong, text);
}

// ---- sizes that are not given

// The largest block along an axis of that size; 0: there is none.
static int64_t block_of(const Kernel *k, int size) {
  int64_t largest = 0;
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    const Ref *ref = k->refs.at[i];
    for (int axis = 0; axis < ref->array.rank; axis++)
      if (ref->array.dim[axis] == -1 - size && !ref->whole && ref->block[axis] > largest)
        largest = ref->block[axis];
  }
  return largest;
}

enum { USUAL_SETS = 3 };

// Several blocks, the last of them partial; one block; a partial block. Axes without blocks
// are short; `nth` counts them.
static int64_t usual_size(int64_t block, int set, int nth) {
  int64_t part = (block > 16 ? block + 3 : 2 * block + 1) + nth % 3;  // no two axes alike
  if (block > 1) return set == 0 ? part : set == 1 ? block : block / 2;
  if (block == 1) return set == 0 || (set == 2 && nth % 2) ? 2 : 1;
  return set == 0 ? 5 : set;
}

static bool is_given(const Options *options, const char *name) {
  for (int i = 0; i < options->arguments.count; i++)
    if (options->arguments.at[i].name == name) return true;
  return false;
}

// ---- statics that are blocks

enum { SMALL_BLOCK = 8 };

static bool same_types(const Kernel *a, const Kernel *b) {
  bool same =
      a->inputs == b->inputs && a->outputs == b->outputs && a->sizes.count == b->sizes.count;
  for (int i = 0; same && i < a->inputs + a->outputs; i++) {
    const Type *x = &a->refs.at[i]->array, *y = &b->refs.at[i]->array;
    same = x->dtype == y->dtype && x->rank == y->rank &&
           memcmp(x->dim, y->dim, (size_t)x->rank * sizeof *x->dim) == 0;
  }
  return same;
}

// Does a static affect the blocks of operands, but no operand's type? `with` has another value of
// it.
static bool is_only_block(const Kernel *k, const Options *with) {
  Arena *arena = arena_new();
  Options apart = *with;
  Binding binding;
  const char *message;
  apart.arena = arena;
  bind_kernel(&binding, arena, &apart, with->files.at[0], &message);
  const Kernel *other = binding.program.kernel;
  bool is = other && same_types(k, other), moved = false;
  for (int i = 0; is && i < k->inputs + k->outputs; i++)
    moved |=
        memcmp(k->refs.at[i]->block, other->refs.at[i]->block, sizeof k->refs.at[i]->block) != 0;
  arena_free(arena);
  return is && moved;
}

void use_small_blocks(Options *options, const Kernel *k) {
  for (int i = 0; i < k->statics.count; i++) {
    int64_t value;
    const StaticValue *s = &k->statics.at[i];
    if (!parse_int(s->value, &value) || value <= SMALL_BLOCK) continue;
    bool given = is_given(options, s->name);
    for (int j = 0; j < options->settings.count; j++)
      given |= options->settings.at[j].name == s->name;
    if (given) continue;
    Options with = *options;
    StaticSetting setting = {.name = intern(s->name), .value = "8"};
    with.settings.at = NULL;
    with.settings.count = with.settings.capacity = 0;
    for (int j = 0; j < options->settings.count; j++)
      LIST_PUSH(options->arena, &with.settings, options->settings.at[j]);
    LIST_PUSH(options->arena, &with.settings, setting);
    if (is_only_block(k, &with)) options->settings = with.settings;
  }
}

void usual_size_sets(Arena *arena, const Kernel *k, const int64_t *given, SizeSets *sets) {
  int64_t *sizes = NEW_ARRAY(arena, int64_t, k->sizes.count + 1);
  bool open = false;
  for (int set = 0; set < USUAL_SETS && (set == 0 || open); set++) {
    SizeSet one = {0};
    memcpy(sizes, given, (size_t)k->sizes.count * sizeof *sizes);
    for (int i = 0, nth = 0; i < k->sizes.count; i++) {
      const char *name = k->sizes.at[size_by_name(k->sizes.at, i)].name;
      if (k->sizes.at[i].value || sizes[i] != UNBOUND) continue;
      sizes[i] = usual_size(block_of(k, i), set, nth++);
      solve_sizes(k, sizes);
      Argument size = {name, arena_printf(arena, "%lld", (long long)sizes[i])};
      LIST_PUSH(arena, &one, size);
      open = true;
    }
    LIST_PUSH(arena, sets, one);
  }
}
