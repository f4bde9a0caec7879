// The block sizes that pkc tune tries.
#include "codegen/verbs/tune.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMBINATIONS = 4096, MOST_VALUES = 16, REACH = 4, KEPT = 32 };

// ---- block sizes

// Does the static affect only the division of operands into blocks, and not the results?
static bool is_block(const Tune *t, const char *name, int64_t value) {
  Arena *arena = arena_new();
  BlockSizes one = {1, {name}, {value}};
  Options with;
  Binding binding;
  bind_blocks(arena, t->options, &one, &with, &binding);
  const Kernel *k = t->base.binding.program.kernel;
  bool is = binding.program.kernel && binding.sizes && same_meaning(k, binding.program.kernel) &&
            ir_device_count(k) == ir_device_count(binding.program.kernel) &&
            other_blocks(&t->base.binding, &binding);
  arena_free(arena);
  return is;
}

static void add_block(Tune *t, const char *name, int64_t value) {
  if (t->usual.count == MOST_BLOCK_STATICS) return;
  t->usual.name[t->usual.count] = name;
  t->usual.value[t->usual.count++] = value;
}

static void find_statics(Tune *t) {
  const Kernel *k = t->base.binding.program.kernel;
  for (int i = 0; i < k->statics.count; i++) {
    int64_t value;
    const char *name = k->statics.at[i].name;
    if (!parse_int(k->statics.at[i].value, &value) || value < 1 || value > INT32_MAX / 2) continue;
    if (is_given(t->options, name)) continue;
    if (is_block(t, name, 2 * value) || (value > 1 && is_block(t, name, value / 2)))
      add_block(t, name, value);
  }
}

static void add_value(Tune *t, int block, int64_t value) {
  Integers *values = &t->values[block];
  int at = 0;
  while (at < values->count && values->at[at] < value) at++;
  if ((at < values->count && values->at[at] == value) || values->count == MOST_VALUES) return;
  LIST_PUSH(t->options->arena, values, value);
  memmove(values->at + at + 1, values->at + at,
          sizeof *values->at * (size_t)(values->count - 1 - at));
  values->at[at] = value;
}

static void add_usual_values(Tune *t, int block) {
  int64_t usual = t->usual.value[block], low = usual;
  while (low % 2 == 0 && low * REACH > usual) low /= 2;
  for (int64_t v = low; v <= usual * REACH && v <= INT32_MAX; v *= 2) add_value(t, block, v);
}

// ---- --over NAME=LOW:HIGH or NAME=A,B,C, several separated by commas

static const char *add_range(Tune *t, int block, const char *text) {
  Arena *arena = t->options->arena;
  const char *colon = strchr(text, ':');
  int64_t low, high;
  bool good = colon ? parse_int(arena_strndup(arena, text, (size_t)(colon - text)), &low) &&
                          parse_int(colon + 1, &high)
                    : parse_int(text, &low);
  if (good && !colon) high = low;
  if (!good || low < 1 || high < low || high > INT32_MAX)
    return arena_printf(arena, "expected a block size or LOW:HIGH, found `%s`", text);
  for (int64_t v = low; v <= high; v *= 2) add_value(t, block, v);
  return NULL;
}

static int block_named(const Tune *t, const char *name) {
  for (int i = 0; i < t->usual.count; i++)
    if (strcmp(t->usual.name[i], name) == 0) return i;
  return -1;
}

static const char *not_a_block(const Tune *t, const char *name) {
  Buf names = {0};
  for (int i = 0; i < t->usual.count; i++)
    buf_printf(&names, "%s%s", i ? ", " : "", t->usual.name[i]);
  const char *text = arena_printf(t->options->arena, "%s is not a block size of %s; it has %s",
                                  name, t->base.binding.program.kernel->name,
                                  names.length ? names.text : "none that -D leaves open");
  buf_free(&names);
  return text;
}

static const char *read_over(Tune *t, const char *text) {
  Arena *arena = t->options->arena;
  int block = -1;
  while (*text) {
    const char *piece = arena_strndup(arena, text, strcspn(text, ",")),
               *equals = strchr(piece, '='), *wrong;
    if (equals) {
      const char *name = arena_strndup(arena, piece, (size_t)(equals - piece));
      block = block_named(t, name);
      if (block < 0) return not_a_block(t, name);
    }
    if (block < 0) return "expected NAME=LOW:HIGH or NAME=A,B,C";
    wrong = add_range(t, block, equals ? equals + 1 : piece);
    if (wrong) return wrong;
    text += strlen(piece);
    text += *text == ',';
  }
  return NULL;
}

int tune_find_blocks(Tune *t) {
  const char *path = t->options->files.at[0], *name = t->base.binding.program.kernel->name;
  find_statics(t);
  if (t->usual.count == 0)
    return user_error("%s: no static of %s that -D leaves open is a block size", path, name);
  const char *wrong = t->options->over ? read_over(t, t->options->over) : NULL;
  if (wrong) return user_error("--over: %s", wrong);
  int64_t count = 1;
  for (int i = 0; i < t->usual.count; i++) {
    if (t->options->over)
      add_value(t, i, t->usual.value[i]);
    else
      add_usual_values(t, i);
    count = count <= MOST_COMBINATIONS ? count * t->values[i].count : count;
  }
  if (count <= MOST_COMBINATIONS) return DONE;
  return user_error("%lld combinations of block sizes; at most %d are listed: narrow --over",
                    (long long)count, MOST_COMBINATIONS);
}

// ---- the estimate

// Rates of a generic machine: arithmetic at 1e11, blocks from memory at 2e10 bytes a second,
// half a microsecond a step, and data beyond 1 MiB of cache read at 1e11.
static double estimate(const ModelCounts *counts, double vmem) {
  double outside = vmem > 1 << 20 ? counts->flops / 1e11 * 0.25 : 0;
  return counts->flops / 1e11 + counts->bytes / 2e10 + counts->steps * 5e-7 + outside;
}

static uint64_t grid_hash(const Binding *binding) {
  Kernel *k = binding->program.kernel;
  int64_t extent[MAX_RANK];
  int count = k->grid.count < MAX_RANK ? k->grid.count : MAX_RANK;
  for (int i = 0; i < count; i++)
    extent[i] = eval_index(k, k->grid.at[i].extent, binding->sizes, NULL, 0);
  return text_hash((const char *)extent, sizeof *extent * (size_t)count);
}

// Estimates a candidate, and rejects one that is refused or changes the meaning.
static void judge(const Tune *t, Candidate *c) {
  Arena *arena = arena_new();
  Options with;
  Binding binding;
  const char *wrong = bind_blocks(arena, t->options, &c->blocks, &with, &binding), *unmodelled;
  if (!wrong && !same_meaning(t->base.binding.program.kernel, binding.program.kernel))
    wrong = "another meaning";
  if (wrong) {
    c->wrong = arena_strndup(t->options->arena, wrong, strlen(wrong));
  } else {
    Kernel *k = binding.program.kernel;
    double vmem = 0;
    for (int i = 0; i < k->refs.count; i++)
      vmem += (double)vmem_bytes(k->refs.at[i], binding.sizes);
    const Model *m = tpu_model(arena, k, binding.sizes, chip_at(0), (ModelOptions){0}, &unmodelled);
    ModelCounts counts = m ? tpu_model_counts(m) : (ModelCounts){0};
    c->estimate = estimate(&counts, vmem);
    c->grid = grid_hash(&binding);
    c->kept = true;
  }
  arena_free(arena);
}

static bool is_usual(const Tune *t, const Candidate *c) {
  return memcmp(c->blocks.value, t->usual.value, sizeof *t->usual.value * (size_t)t->usual.count) ==
         0;
}

// Does it differ from the default by a factor of two in one static?
static bool is_near(const Tune *t, const Candidate *c) {
  int others = 0;
  for (int i = 0; i < t->usual.count; i++) {
    int64_t a = c->blocks.value[i], b = t->usual.value[i];
    if (a == b) continue;
    others += a == 2 * b || 2 * a == b ? 1 : 2;
  }
  return others <= 1;
}

static int by_estimate(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  return (x->estimate > y->estimate) - (x->estimate < y->estimate);
}

// Blocks beyond the array, which give the same grid as smaller ones, are not tried.
static void drop_equals(Tune *t) {
  for (int i = 0; i < t->found.count; i++)
    for (int j = 0; j < i && t->found.at[i].kept; j++)
      if (t->found.at[j].kept && t->found.at[j].grid == t->found.at[i].grid)
        t->found.at[i].kept = false;
}

static void keep_some(Tune *t) {
  int64_t most = t->options->most ? t->options->most : KEPT;
  sort_items(t->found.at, (size_t)t->found.count, sizeof *t->found.at, by_estimate);
  for (int i = 0; i < t->found.count; i++)
    if (t->found.at[i].kept && is_near(t, &t->found.at[i])) most--;
  for (int i = 0; i < t->found.count; i++) {
    Candidate *c = &t->found.at[i];
    if (c->kept && !is_near(t, c)) c->kept = most-- > 0;
  }
}

void tune_list(Tune *t) {
  int at[MOST_BLOCK_STATICS] = {0};
  for (int i = 0; i >= 0;) {
    Candidate c = {.blocks = t->usual};
    for (int b = 0; b < t->usual.count; b++) c.blocks.value[b] = t->values[b].at[at[b]];
    if (!is_usual(t, &c)) {
      judge(t, &c);
      LIST_PUSH(t->options->arena, &t->found, c);
    }
    for (i = t->usual.count - 1; i >= 0 && ++at[i] == t->values[i].count; i--) at[i] = 0;
  }
  uint64_t usual = grid_hash(&t->base.binding);
  for (int i = 0; i < t->found.count; i++)
    if (t->found.at[i].grid == usual) t->found.at[i].kept = false;
  drop_equals(t);
  keep_some(t);
}
