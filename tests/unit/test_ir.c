// The text form of the block IR and its verifier: printed text reads back as the same kernel, and
// garbage crashes neither.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/ir/ir.h"
#include "codegen/passes/pass.h"
#include "check.h"

enum { MUTATIONS = 400 };

static void expect(bool ok, const char *what, const char *detail) {
  check(ok, what, "%s", detail ? detail : "");
}

static Kernel *parse(Arena *arena, const char *path, const char *text, size_t length,
                     Buf *messages) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = path, .text = text, .length = length};
  Diag *diag = diag_new(arena, source);
  Kernel *k = ir_parse(arena, source, diag);
  if (!k) expect(diag_error_count(diag) > 0, path, "refused without a diagnostic");
  if (!k && messages) diag_print(diag, messages, DIAG_TEXT);
  return k;
}

static const char *print(Arena *arena, const Kernel *k) {
  Buf out = {0};
  ir_print(k, &out);
  const char *text = arena_strndup(arena, out.text, out.length);
  buf_free(&out);
  return text;
}

// print(parse(print(k))) == print(k)
static void round_trip(Arena *arena, const Kernel *k, const char *what) {
  const char *first = print(arena, k);
  Buf messages = {0};
  const Kernel *again = parse(arena, what, first, strlen(first), &messages);
  expect(again != NULL, what, messages.text ? messages.text : "");
  if (again)
    expect(strcmp(first, print(arena, again)) == 0, what,
           arena_printf(arena, "reads back as another text:\n%s\n---\n%s", first,
                        print(arena, again)));
  buf_free(&messages);
}

// Any text is either refused with a diagnostic, or can be printed, verified and, if it is valid,
// simplified.
static void mutate(const char *path, const char *text, size_t length, uint64_t seed) {
  static const char pool[] = "0123456789%$#@{}[]()\",:=- \nabixy_.";
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int round = 0; round < MUTATIONS; round++) {
    Arena *arena = arena_new();
    char *copy = arena_strndup(arena, text, length);
    size_t count = length;
    for (int change = 0; change < 1 + round % 3; change++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      size_t at = state % count;
      if (state >> 60 == 0)
        count = at + 1;
      else if (state >> 62 == 1)
        memmove(copy + at, copy + at + 1, count - at);
      else
        copy[at] = pool[(state >> 32) % (sizeof pool - 1)];
    }
    Kernel *k = parse(arena, path, copy, count, NULL);
    if (k) {
      round_trip(arena, k, path);
      if (!ir_verify(k)) run_passes(k, NULL, NULL, NULL);
    }
    arena_free(arena);
  }
}

static void run_file(const char *path) {
  Arena *arena = arena_new();
  size_t length;
  const char *text = read_file(arena, path, &length);
  Buf messages = {0};
  Kernel *k = text ? parse(arena, path, text, length, &messages) : NULL;
  expect(k != NULL, path, messages.text ? messages.text : "cannot be read");
  if (k) {
    round_trip(arena, k, path);
    mutate(path, text, length, length);
  }
  buf_free(&messages);
  arena_free(arena);
}

static void refuse(const char *text, const char *message) {
  Arena *arena = arena_new();
  Buf messages = {0};
  const Kernel *k = parse(arena, "bad.ir", text, strlen(text), &messages);
  expect(!k && messages.text && strstr(messages.text, message), text,
         messages.text ? messages.text : "accepted");
  buf_free(&messages);
  arena_free(arena);
}

static void wrong_kernel(const char *text, const char *message) {
  Arena *arena = arena_new();
  Buf messages = {0};
  Kernel *k = parse(arena, "wrong.ir", text, strlen(text), &messages);
  expect(k != NULL, text, messages.text ? messages.text : "");
  const char *said = k ? ir_verify(k) : "";
  expect(said && strstr(said, message), text, said ? said : "accepted");
  buf_free(&messages);
  arena_free(arena);
}

static void wrong(const char *body, const char *message) {
  Arena *arena = arena_new();
  wrong_kernel(arena_printf(arena,
                            "kernel t size N input $x: f32[4, N] vmem of f32[4, N] blocks [4, N] "
                            "whole scratch $s: f32[4, N] vmem scratch $m: i32 sem dma body { %s }",
                            body),
               message);
  arena_free(arena);
}

static void test_refusals(void) {
  refuse("", "expected kernel");
  refuse("kernel k body { %0: i32 = const 1 %0: i32 = const 2 }", "this id is taken");
  refuse("kernel k body { %1: i32 = neg %0 }", "expected a value defined before");
  refuse("kernel k body { %1: i32 = frob 3 }", "expected an operation");
  refuse("kernel k body { %1: i32 = const 99999999999999999999 }", "64 bits");
  refuse("kernel k body { %1: i32[N] = const 1 }", "no such size");
  refuse("kernel k body { store $x[], %1 }", "no such ref");
  refuse("kernel k body { yield } text", "text after the kernel");
  refuse("kernel k from \"a\" @1048576:1048576-2:1 body { } x", "text after");
  refuse("kernel k body { %1: f32[1,1,1,1,1,1,1,1,1] = iota axis 0 }", "too many axes");
}

static void test_nesting(void) {
  Buf text = {0};
  buf_puts(&text, "kernel k body {");
  for (int i = 0; i < 100000; i++) buf_puts(&text, " region \"a\" {");
  refuse(text.text, "nested too deeply");
  buf_free(&text);
}

static void test_rules(void) {
  wrong("yield", "yields where no result is expected");
  wrong("break", "outside a loop");
  wrong("%0: f32 = const 1.0 %1: f32[2] = broadcast %0 %2: f32[3] = broadcast %1",
        "does not stretch");
  wrong("%0: i32[4] = iota axis 1", "no such axis");
  wrong("%0: i32[2, 3] = iota axis 0 %1: i32[5] = reshape %0", "number of elements");
  wrong("%0: i32[2, N] = iota axis 0 %1: i32[N, 2] = reshape %0 %2: i32[N] = reshape %1",
        "number of elements");
  wrong("%0: i32[2, 3] = iota axis 0 %1: i32[2, 3] = transpose %0 perm (1, 0)",
        "axis 0 of the result");
  wrong("%0: i32[2, 3] = iota axis 0 %1: i32[3, 2] = transpose %0 perm (1, 1)",
        "not a permutation");
  wrong("%0: i32[4] = iota axis 0 %1: i32[3] = slice %0 from (2) step (1)", "ends past");
  wrong("%0: i32[4] = iota axis 0 %1: i32[7] = concatenate %0, %0 axis 0", "do not add up");
  wrong("%0: i32[4] = iota axis 0 %1: i32[1] = reduce_sum %0 axes (1)", "axes outside");
  wrong("%0: i32[4] = iota axis 0 %1: i32[4] = exp %0", "not defined on i32");
  wrong("%0: f32[4] = iota axis 0 %1: f32[4] = and %0, %0", "not defined on f32");
  wrong("%0: f32[4] = iota axis 0 %1: i32[4] = iota axis 0 %2: bool[4] = lt %0, %1",
        "compares two dtypes");
  wrong(
      "%0: f32[4, 3] = iota axis 0 %1: f32[4, 3] = iota axis 0 %2: f32[4, 3] = dot %0, %1 "
      "\"ab,bc->ac\"",
      "two extents");
  wrong(
      "%0: f32[4, 3] = iota axis 0 %1: i32[3, 4] = iota axis 0 %2: f32[4, 4] = dot %0, %1 "
      "\"ab,bc->ac\"",
      "do not mix");
  wrong("%0: i64 = const 0 %1: f32[4, N] = load $s[%0 : 4, %0 : 4]", "window's type");
  wrong("%0: i64 = const 0 %1: f32[5, N] = load $s[%0 : 5, %0 : N]", "larger than");
  wrong("%0: i32 = const 0 %1: f32[4, N] = load $s[%0 : 4, %0 : N]", "not an i64 scalar");
  wrong("%0: i64 = const 0 %1: f32[4, N] = load $x[%0 : 4, %0 : N] store $x[%0 : 4, %0 : N], %1",
        "stores to the input");
  wrong("fetch $s", "which is not an input");
  wrong("writeback $x", "which is not an output");
  wrong("%0: i64 = const 0 if %0 { }", "bool scalar");
  wrong(
      "%0: bool = const 0 %1: i32 = if %0 { %2: i32 = const 1 yield %2 } else { %3: i64 = const 1 "
      "yield %3 }",
      "wrong type");
  wrong("%0: bool = const 0 %1: i32 = if %0 { %2: i32 = const 1 yield %2 }", "no else region");
  wrong("while { } do { }", "does not end in a yield");
  wrong("%0: f32[4, N] = array $x", "outside a reference");
  wrong("pipeline () at %1 { } do %2 { }", "0 axes");
  wrong("%0: i32 = const 3 pipeline () over %0 at %1 { } do %2 { }", "not an i64 scalar");
  wrong("%0: i64 = const 3 pipeline () over %0 at %1 { fetch $x } do %2 { }", "more than compute");
  wrong("%0: i64 = const 3 pipeline () over %0 at %1 { } do %2 { %3: i64 = step_axis %2 axis 1 }",
        "no axis 1");
  wrong("%0: i64 = const 3 for %1 in %0, %0 { %2: i64 = step_axis %1 axis 0 }",
        "not of a pipeline's step");
  wrong("%0: i64 = const 3 pipeline ($s) over %0 at %1 { } do %2 { }", "does not belong");
  wrong("%0: f32 = const 1.0 %1: i64 = bitcast %0", "differ in width");
  wrong("%0: f32[4] = iota axis 0 %1: i32[4] = iota axis 0 %2: f32[4] = add %0, %1",
        "another dtype than the result");
  wrong("%0: f32[4] = iota axis 0 %1: i32[4] = lt %0, %0", "the result is not bool");
  wrong("%0: i64 = const 0 copy_start $x[%0 : 4, %0 : N] to $s[%0 : 3, %0 : N] on $m[]",
        "the windows differ in type");
  wrong("%0: i64 = const 0 scoped ($s) { } %1: f32[4, N] = load $s[%0 : 4, %0 : N]", "no ref");
  wrong_kernel(
      "kernel t input $x: f32[4] vmem of f32[4] blocks [4] whole output $o: i32[4] vmem of i32[4] "
      "blocks [4] whole alias $x body { }",
      "an alias joins an output to an input of its type");
}

// The reader refuses an id that is taken; a pass might put an instruction in two places.
static void test_one_place(void) {
  Arena *arena = arena_new();
  Buf messages = {0};
  const char *text = "kernel t body { %0: i64 = const 0 %1: i64 = neg %0 }";
  Kernel *k = parse(arena, "twice.ir", text, strlen(text), &messages);
  if (k) LIST_PUSH(arena, &k->body->instrs, k->body->instrs.at[1]);
  const char *said = k ? ir_verify(k) : messages.text;
  expect(said && strstr(said, "one is in two places"), text, said ? said : "accepted");
  buf_free(&messages);
  arena_free(arena);
}

// ---- simplify

typedef struct {
  Op op;
  int count;
} OpCount;

static void count_op(Instr *instr, void *context) {
  OpCount *c = context;
  c->count += instr->op == c->op;
}

// How many `op` are left of the body, whose $x and $s are f32[4] and %0 is 0.
static void left_over(const char *body, const char *op, int count) {
  Arena *arena = arena_new();
  const char *text = arena_printf(arena,
                                  "kernel t input $x: f32[4] vmem of f32[4] blocks [4] whole "
                                  "scratch $s: f32[4] vmem scratch $n: i32[4] vmem "
                                  "body { %%0: i64 = const 0 %%1: f32[4] = load $x[%%0 : 4] %%2: "
                                  "i32[4] = load $n[%%0 : 4] %s }",
                                  body);
  Buf messages = {0};
  Kernel *k = parse(arena, "simplify.ir", text, strlen(text), &messages);
  const char *wrong_rule = k ? ir_verify(k) : messages.text;
  expect(!wrong_rule, text, wrong_rule ? wrong_rule : "");
  if (!wrong_rule) {
    simplify(k, NULL);
    OpCount counted = {op_by_name(op), 0};
    ir_walk(k->body, count_op, &counted);
    expect(counted.count == count,
           arena_printf(arena, "%s: %d `%s` left instead of %d", body, counted.count, op, count),
           print(arena, k));
    expect(!ir_verify(k), body, "wrong after simplify");
  }
  buf_free(&messages);
  arena_free(arena);
}

static void test_simplify(void) {
  const char *keep_f = " store $s[%0 : 4], %9", *keep_i = " store $n[%0 : 4], %9";
  static const struct {
    const char *body;
    bool floats;
    const char *op;
    int count;
  } cases[] = {
      {"%3: f32 = const 0.0 %4: f32[4] = broadcast %3 %9: f32[4] = add %1, %4", true, "add", 1},
      {"%3: f32 = const -0.0 %4: f32[4] = broadcast %3 %9: f32[4] = add %1, %4", true, "add", 0},
      {"%3: f32 = const 0.0 %4: f32[4] = broadcast %3 %9: f32[4] = sub %1, %4", true, "sub", 0},
      {"%3: f32 = const 0.0 %4: f32[4] = broadcast %3 %9: f32[4] = mul %1, %4", true, "mul", 1},
      {"%3: f32 = const 1.0 %4: f32[4] = broadcast %3 %9: f32[4] = mul %4, %1", true, "mul", 0},
      {"%3: i32 = const 0 %4: i32[4] = broadcast %3 %9: i32[4] = mul %2, %4", false, "mul", 0},
      {"%3: i32 = const 0 %4: i32[4] = broadcast %3 %9: i32[4] = add %2, %4", false, "add", 0},
      {"%3: f32[4] = exp %1 %4: f32[4] = exp %1 %9: f32[4] = mul %3, %4", true, "exp", 1},
      {"%3: f32[4] = load $x[%0 : 4] %9: f32[4] = sub %1, %3", true, "load", 1},
      {"%3: f32[4] = load $s[%0 : 4] store $s[%0 : 4], %1 %4: f32[4] = load $s[%0 : 4] %9: f32[4] "
       "= add %3, %4",
       true, "load", 3},
      {"%3: f32[4] = tanh %1 %9: f32[4] = neg %1", true, "tanh", 0},
      {"print \"kept\" () %9: f32[4] = neg %1", true, "print", 1},
      {"%3: f32[1, 4] = reshape %1 %4: f32[4] = reshape %3 %5: f32[4] = neg %4 %9: f32[4] = neg %5",
       true, "reshape", 0},
      {"%3: f32[1, 4] = reshape %1 %4: f32[4] = reshape %3 %5: f32[4] = neg %4 %9: f32[4] = neg %5",
       true, "neg", 0},
      {"%3: bf16[4] = cast %1 %4: f32[4] = cast %3 %5: bf16[4] = cast %4 %9: f32[4] = cast %5",
       true, "cast", 2},
      {"%3: i64[4] = cast %2 %9: i32[4] = cast %3", false, "cast", 0},
      {"%3: bool = const 1 %9: f32[4] = if %3 { %4: f32[4] = exp %1 yield %4 } else { yield %1 }",
       true, "if", 0},
      {"%3: i32 = const 6 %4: i32 = const 7 %5: i32 = mul %3, %4 %9: i32[4] = broadcast %5", false,
       "mul", 0},
      {"%3: i32 = const 6 %4: i32[4] = broadcast %3 %5: i32[4] = iota axis 0 %6: bool[4] = eq %4, "
       "%4 %9: i32[4] = select %6, %5, "
       "%2",
       false, "select", 0},
      {"%3: i64 = const 4 for %7 in %0, %3 { %8: f32[4] = load $s[%0 : 4] store $s[%0 : 4], %1 } "
       "%9: f32[4] = load $s[%0 : 4]",
       true, "load", 2},
      {"%3: i32 = load $n[%0] %4: i64 = cast %3 %5: bool = const 1 %6: bool[4] = broadcast %5 "
       "store "
       "$s[%4 : 4], %1 mask %6 %9: f32[4] = neg %1",
       true, "broadcast", 1},
      {"%3: bool = const 1 %4: bool[4] = broadcast %3 store $s[%0 : 4], %1 mask %4 %9: f32[4] = "
       "neg "
       "%1",
       true, "broadcast", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char body[1024];
    snprintf(body, sizeof body, "%s%s", cases[i].body, cases[i].floats ? keep_f : keep_i);
    left_over(body, cases[i].op, cases[i].count);
  }
}

// Constants of narrow floats are values of their dtype, before and after folding.
static void test_narrow_constants(void) {
  Arena *arena = arena_new();
  Buf messages = {0};
  const char *text =
      "kernel t scratch $o: bf16 vmem body { %0: bf16 = const 0.1 %1: bf16 = "
      "const 0.3 %2: bf16 = mul %0, %1 store $o[], %2 }";
  Kernel *k = parse(arena, "narrow.ir", text, strlen(text), &messages);
  expect(k && !ir_verify(k), text, k ? ir_verify(k) : messages.text);
  if (k) simplify(k, NULL);
  expect(k && strstr(print(arena, k), "const 0.0301513671875"), text, k ? print(arena, k) : "");
  buf_free(&messages);
  arena_free(arena);
}

int main(void) {
  test_simplify();
  test_narrow_constants();
  test_refusals();
  test_nesting();
  test_rules();
  test_one_place();
  Arena *arena = arena_new();
  DIR *dir = opendir("tests/cases/ir");
  expect(dir != NULL, "tests/cases/ir", "cannot be listed");
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (strstr(entry->d_name, ".ir"))
      run_file(arena_printf(arena, "tests/cases/ir/%s", entry->d_name));
  if (dir) closedir(dir);
  arena_free(arena);
  return check_end();
}
