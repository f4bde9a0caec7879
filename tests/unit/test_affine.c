// Affine sums of indices and numbers, which masks compare.
#include "codegen/ir/facts.h"
#include "codegen/lower/lower.h"
#include "check.h"

#include <string.h>

// The value of each store is compared with the text below its name.
static const char kernel[] =
    "kernel k(s: i32[M, 1]) -> (a: i32[8, 16], b: i32[8, 16], c: i32[8, 16],\n"
    "    d: i32[8, 16], e: i32[8, 16], f: i16[8, 16]) {\n"
    "  grid (i in 2 arbitrary);\n"
    "  block s: [8, 1] at (i, 0);\n"
    "  block a, b, c, d, e, f: [8, 16] at (0, 0);\n"
    "  let row = iota([8, 16], axis = 0);\n"
    "  let col = iota([8, 16], axis = 1);\n"
    "  a[...] = col;\n"
    "  b[...] = cast(i, i32) * 8 + row;\n"
    "  c[...] = row - col - (row - 5);\n"
    "  d[...] = row * col;\n"
    "  e[...] = iota([8, 1], axis = 0) + col;\n"
    "  f[...] = cast(col, i16);\n"
    "}\n";

typedef struct {
  const Instr *of[6];
} Values;

static void note_value(Instr *v, void *context) {
  Values *values = context;
  if (v->op == OP_STORE && !v->ref->name[1]) values->of[v->ref->name[0] - 'a'] = ir_store_value(v);
}

static Values lowered(Arena *arena) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = "test.pk", .text = kernel, .length = sizeof kernel - 1};
  source_index_lines(arena, source);
  Diag *diag = diag_new(arena, source);
  Kernel *k = lower(arena, source, parse(arena, source, diag), "k", &(LowerOptions){0}, diag);
  Buf messages = {0};
  Values values = {{0}};
  if (!k) diag_print(diag, &messages, DIAG_TEXT);
  if (!check(k != NULL, "lower", "%s", messages.text)) exit(check_end());
  ir_walk(k->body, note_value, &values);
  return values;
}

static void expect(const Values *values, char name, int row, int column, int terms) {
  static const int axes[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  const char title[] = {name, 0};
  Affine a;
  bool found = affine_of(values->of[name - 'a'], axes, &a);
  check(found == (terms >= 0), title, "is a sum: %d", found);
  if (!found || terms < 0) return;
  check(a.coefficient[0] == row && a.coefficient[1] == column && a.terms == terms, title,
        "%lld row + %lld col, %d numbers", (long long)a.coefficient[0], (long long)a.coefficient[1],
        a.terms);
  const Instr *start;
  bool index = (row == 1 && column == 0) || (row == 0 && column == 1);
  check(affine_is_index(&a, column, &start) == (index && terms < 2), title, "an index");
}

int main(void) {
  Arena *arena = arena_new();
  Values values = lowered(arena);
  expect(&values, 'a', 0, 1, 0);
  expect(&values, 'b', 1, 0, 1);
  expect(&values, 'c', 0, -1, 1);
  expect(&values, 'd', 0, 0, -1);
  expect(&values, 'e', 1, 1, 0);
  expect(&values, 'f', 0, 0, -1);
  arena_free(arena);
  return check_end();
}
