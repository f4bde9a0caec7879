#define _GNU_SOURCE
#include "tests/fuzzing/feed.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/check/interp.h"
#include "codegen/emit/emit.h"
#include "codegen/ir/work.h"
#include "codegen/lower/lower.h"
#include "codegen/naive/naive.h"
#include "codegen/pallas/pallas.h"
#include "codegen/passes/pass.h"
#include "codegen/run/run.h"
#include "codegen/tpu/torus.h"
#include "codegen/tpu/tpu.h"

enum { MOST_SIZES = 16, MOST_BYTES = 1 << 16 };

typedef struct {
  Arena *arena;
  Source *source;
  Diag *diag;
} Input;

static Input input_open(const char *bytes, size_t length) {
  Input in = {.arena = arena_new()};
  in.source = NEW(in.arena, Source);
  *in.source = (Source){
      .path = "input.pk", .text = arena_strndup(in.arena, bytes, length), .length = length};
  source_index_lines(in.arena, in.source);
  in.diag = diag_new(in.arena, in.source);
  return in;
}

static void input_close(Input *in) {
  Buf messages = {0};
  diag_print(in->diag, &messages, DIAG_TEXT);
  diag_print(in->diag, &messages, DIAG_JSON);
  buf_free(&messages);
  arena_free(in->arena);
}

// NULL when the text is refused.
static Kernel *lowered(Input *in) {
  const Node *file = parse(in->arena, in->source, in->diag);
  LowerOptions options = {0};
  if (diag_error_count(in->diag) > 0) return NULL;
  const char *names[MOST_SIZES], *name = NULL;
  if (kernel_names(file, names, MOST_SIZES) > 1) name = names[0];
  Kernel *k = lower(in->arena, in->source, file, name, &options, in->diag);
  if (!k || diag_error_count(in->diag) > 0) return NULL;
  const char *broken = ir_verify(k);
  if (broken) INTERNAL("the lowered kernel breaks a rule: %s", broken);
  return k;
}

static void generate(Kernel *k, const char *target, bool literal) {
  EmitOptions options = {.target = target_find(target), .literal_dma = literal};
  Buf notes = {0}, c = {0}, h = {0}, loops = {0}, explain = {0};
  k->keep_blocks = literal;
  run_passes(k, &notes, NULL, NULL);
  emit_kernel(k, &options, &c, &h, &loops, &explain);
  buf_free(&notes), buf_free(&c), buf_free(&h), buf_free(&loops), buf_free(&explain);
}

// ---- feeds

static void feed_format(const char *bytes, size_t length) {
  Input in = input_open(bytes, length);
  Buf once = {0}, twice = {0};
  if (format_source(in.arena, in.source, in.diag, &once)) {
    Input again = input_open(once.text, once.length);
    if (!format_source(again.arena, again.source, again.diag, &twice) ||
        once.length != twice.length ||
        (once.length > 0 && memcmp(once.text, twice.text, once.length) != 0))
      INTERNAL("the formatted text is formatted otherwise");
    input_close(&again);
  }
  buf_free(&once), buf_free(&twice);
  input_close(&in);
}

static void feed_compile(const char *bytes, size_t length) {
  static const struct {
    const char *target;
    bool literal;
  } ways[] = {{"zen4", false}, {"generic", true}, {"x86-64-v3", false}, {"aarch64", false}};
  const size_t way =
      length % (sizeof ways / sizeof *ways);  // one for each input: AFL tries all lengths
  Input in = input_open(bytes, length);
  Kernel *k = lowered(&in);
  if (k) generate(k, ways[way].target, ways[way].literal);
  input_close(&in);
}

static void feed_naive(const char *bytes, size_t length) {
  Input in = input_open(bytes, length);
  Buf c = {0};
  Kernel *k = lowered(&in);
  if (k && k->reference) emit_naive(k, &c), emit_judge(k, &c);
  buf_free(&c);
  input_close(&in);
}

static void feed_pallas(const char *bytes, size_t length) {
  Input in = input_open(bytes, length);
  Buf python = {0};
  Kernel *k = lowered(&in);
  if (k) emit_pallas(k, in.diag, &python);
  buf_free(&python);
  input_close(&in);
}

static void feed_ir(const char *bytes, size_t length) {
  Input in = input_open(bytes, length);
  Kernel *k = ir_parse(in.arena, in.source, in.diag);
  if (k && !ir_verify(k)) {
    Buf once = {0}, twice = {0};
    ir_print(k, &once);
    Input again = input_open(once.text, once.length);
    Kernel *same = ir_parse(again.arena, again.source, again.diag);
    if (!same) INTERNAL("printed IR is not read: %s", once.text);
    ir_print(same, &twice);
    if (strcmp(once.text, twice.text) != 0) INTERNAL("IR is printed otherwise when read again");
    buf_free(&once), buf_free(&twice);
    input_close(&again);
  }
  input_close(&in);
}

// Numbers of more than two digits would make loops run for hours.
static bool has_long_number(const char *bytes, size_t length) {
  for (size_t i = 0, digits = 0; i < length; i++) {
    digits = isdigit((unsigned char)bytes[i]) ? digits + 1 : 0;
    if (digits > 2) return true;
  }
  return false;
}

// Every size 3; inputs as they come: zeros. False where the arrays would be large.
static bool operands_for(Arena *arena, Kernel *k, int64_t *sizes, HostArray **operands) {
  for (int i = 0; i < k->sizes.count; i++) sizes[i] = 3;
  if (derive_sizes(k, sizes) || check_sizes(k, sizes)) return false;
  *operands = NEW_ARRAY(arena, HostArray, k->inputs + k->outputs + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    int64_t count;
    if (!operand_shape(k, k->refs.at[i], sizes, *operands + i) ||
        !array_elements(*operands + i, &count) || count > MOST_BYTES)
      return false;
    (*operands)[i].data = arena_alloc(arena, (size_t)count * 8 + 8);
    memset((*operands)[i].data, 0, (size_t)count * 8 + 8);
  }
  return true;
}

static void feed_check(const char *bytes, size_t length) {
  if (has_long_number(bytes, length)) return;
  Input in = input_open(bytes, length);
  int64_t sizes[MOST_SIZES] = {0};
  HostArray *operands;
  Kernel *k = lowered(&in);
  bool prefetches = false;
  for (int i = 0; k && i < k->refs.count; i++) prefetches = prefetches || k->refs.at[i]->prefetch;
  if (k && k->sizes.count <= MOST_SIZES && !prefetches &&
      operands_for(in.arena, k, sizes, &operands)) {
    CheckReport report = {.arena = in.arena};
    interpret(k, sizes, operands, &(CheckOptions){0}, &report);
    if (k->reference) {
      report = (CheckReport){.arena = in.arena};
      interpret_reference(k, sizes, operands, &(CheckOptions){0}, &report);
    }
    (void)tpu_check(k, chip_find("v5e"), sizes, in.diag);
  }
  input_close(&in);
}

static void feed_npy(const char *bytes, size_t length) {
  Arena *arena = arena_new();
  NpyHeader header;
  char *exact = malloc(length + 1);  // the sanitizer guards its end
  memcpy(exact, bytes, length);
  (void)npy_parse(arena, exact, length, &header);
  free(exact);
  arena_free(arena);
}

static void feed_chip(const char *bytes, size_t length) {
  Arena *arena = arena_new();
  const Chip *chip;
  int file = memfd_create("chip", 0);
  if (file >= 0 && write(file, bytes, length) == (ssize_t)length)
    (void)chip_file(arena, arena_printf(arena, "/proc/self/fd/%d", file), &chip);
  close(file);
  arena_free(arena);
}

// A message reaches each chip from each other one, over as many links as its route has hops.
static void walk_ways(Arena *arena, const Torus *t) {
  int chips = (int)(t->chips * t->slices);
  for (int from = 0; from < chips; from++)
    for (int to = 0; to < chips; to++) {
      Route route = torus_route(t, from, to);
      int hops = 0;
      for (int at = from; at != to; hops++) {
        int link = torus_step(t, &route, at, &at);
        if (link < 0 || link >= torus_links(t) || at < 0 || at >= chips || hops > route.hops)
          INTERNAL("from %d to %d over link %d to %d", from, to, link, at);
        (void)torus_link_name(arena, t, link);
      }
      if (hops != route.hops) INTERNAL("%d hops from %d to %d", hops, from, to);
    }
}

// `--mesh`, `--over` and `--slices`, on lines of their own.
static void feed_mesh(const char *bytes, size_t length) {
  enum { MOST_WALKED = 64 };
  Arena *arena = arena_new();
  char *text = arena_strndup(arena, bytes, length), *rest = text;
  const char *mesh = strsep(&rest, "\n"), *over = strsep(&rest, "\n"),
             *slices = strsep(&rest, "\n");
  for (int i = 0; i < chip_count(); i++) {
    Torus t;
    Buf shape = {0};
    if (torus_read(arena, chip_at(i), mesh, over && *over ? over : NULL,
                   slices ? strtoll(slices, NULL, 10) : 1, &t))
      continue;
    torus_put_shape(&t, &shape);
    buf_free(&shape);
    if (t.chips * t.slices <= MOST_WALKED) walk_ways(arena, &t);
  }
  arena_free(arena);
}

const Feed feeds[] = {
    {"format", "tests/cases/*/*.pk", feed_format},
    {"compile", "tests/cases/*/*.pk", feed_compile},
    {"check", "tests/cases/*/*.pk", feed_check},
    {"naive", "tests/cases/*/*.pk", feed_naive},
    {"pallas", "tests/cases/*/*.pk", feed_pallas},
    {"ir", "tests/cases/ir/*.ir", feed_ir},
    {"npy", "tests/fuzzing/corpus/npy/*", feed_npy},
    {"chip", "tests/fuzzing/corpus/chip/*", feed_chip},
    {"mesh", "tests/fuzzing/corpus/mesh/*", feed_mesh},
};
const int feed_count = sizeof feeds / sizeof *feeds;

const Feed *feed_find(const char *name) {
  for (int i = 0; i < feed_count; i++)
    if (strcmp(name, feeds[i].name) == 0) return &feeds[i];
  return NULL;
}
