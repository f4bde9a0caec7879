// Reserved names of C and Python, and distinct names of kernels. With an argument the program reads
// names, one a line, from standard input and prints each with the name of its kernel's function in
// C (tests/names.py).
#include "codegen/ir/names.h"
#include "check.h"

#include <stdio.h>
#include <string.h>

static void expect_name(Arena *arena, const char *name, NameRole role, const char *const *kernels,
                        int count, const char *expected) {
  const char *got = name_of_kernel(arena, name, role, kernels, count);
  check(strcmp(got, expected) == 0, name, "is %s, expected %s", got, expected);
}

static void test_alone(Arena *arena) {
  static const struct {
    const char *name, *expected;
  } cases[] = {
      {"add", "add"},
      {"add_", "add_"},
      {"add_kernel", "add_kernel"},
      {"sqrt", "sqrt_"},
      {"sqrt_", "sqrt__"},
      {"sqrt__", "sqrt___"},
      {"int", "int_"},
      {"class", "class_"},
      {"EOF", "EOF_"},
      {"mmap", "mmap_"},
      {"pk", "pk_"},
      {"pk_", "pk__"},
      {"pk_call", "pk_call_"},
      {"_x", "pkx__x"},
      {"_", "pkx__"},
      {"pkx_x", "pkx_pkx_x"},
      {"cell", "cell"},
      {"context", "context"},
      {"main", "main_"},
      {"omp_get_num_threads", "omp_get_num_threads_"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    expect_name(arena, cases[i].name, NAME_C_KERNEL, NULL, 0, cases[i].expected);
  expect_name(arena, "lambda", NAME_PY_FUNCTION, NULL, 0, "lambda_");
  expect_name(arena, "max", NAME_PY_FUNCTION, NULL, 0, "max_");
  expect_name(arena, "sqrt", NAME_PY_FUNCTION, NULL, 0, "sqrt");
}

// Functions and descriptions of all kernels of a file are distinct, for names chosen to collide.
static void test_together(Arena *arena) {
  static const char *const kernels[] = {
      "add",
      "add_",
      "add_kernel",
      "add_kernel_",
      "add_kernel_kernel",
      "add_kernel__kernel",
      "sqrt",
      "sqrt_",
      "sqrt_kernel",
      "sqrt__kernel",
      "_x",
      "pkx__x",
      "pkx_x",
      "_x_kernel",
      "pkx__x_kernel",
      "add__kernel",
      "pkx_pkx_x_kernel",
      "_kernel",
      "__kernel",
      "kernel",
  };
  enum { KERNELS = sizeof kernels / sizeof *kernels };
  const char *names[2 * KERNELS];
  for (int i = 0; i < KERNELS; i++) {
    names[2 * i] = name_of_kernel(arena, kernels[i], NAME_C_KERNEL, kernels, KERNELS);
    names[2 * i + 1] = arena_printf(arena, "%s_kernel", names[2 * i]);
  }
  for (int i = 0; i < 2 * KERNELS; i++)
    for (int j = 0; j < i; j++) {
      bool same = strcmp(names[i], names[j]) == 0;
      check(!same, names[i], "also the name of another kernel");
      if (same)
        printf("FAIL names: kernels %s and %s both define %s\n", kernels[i / 2], kernels[j / 2],
               names[i]);
    }
}

// Time is linear in the length of a name, for any kernels.
static void test_long(Arena *arena) {
  enum { DEEP = 400 };
  const char *kernels[2 * DEEP];
  for (int i = 0; i < DEEP; i++) {
    kernels[2 * i] = i ? arena_printf(arena, "%s_kernel", kernels[2 * i - 2]) : "a";
    kernels[2 * i + 1] = arena_printf(arena, "%s_", kernels[2 * i]);
  }
  const char *last = kernels[2 * DEEP - 2];
  const char *got = name_of_kernel(arena, last, NAME_C_KERNEL, kernels, 2 * DEEP);
  check(strncmp(got, last, strlen(last)) == 0, "a long chain", "is %s", got);
}

static void print_names(Arena *arena) {
  static char line[1 << 16];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    printf("%s %s\n", line, name_of_kernel(arena, line, NAME_C_KERNEL, NULL, 0));
  }
}

int main(int argc, char **argv) {
  (void)argv;
  Arena *arena = arena_new();
  if (argc > 1) {
    print_names(arena);
    return 0;
  }
  test_alone(arena);
  test_together(arena);
  test_long(arena);
  arena_free(arena);
  return check_end();
}
