// pkc new: a kernel to start from.
#include "codegen/verbs/verbs.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// $N: its name.
static const char kernel_text[] =
    "// $N: what it computes, in a line.\n"
    "//\n"
    "// Sizes of several blocks, of a part of one, and of none; `pkc test` runs them.\n"
    "// test: M=37 N=300 threads=2\n"
    "// test: M=1 N=1\n"
    "// test: M=0 N=5\n"
    "kernel $N(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N]) {\n"
    "  static BM = 16, BN = 128;\n"
    "  grid (i in cdiv(M, BM) parallel, j in cdiv(N, BN) parallel);\n"
    "  block x, y, o: [BM, BN] at (i, j);\n"
    "\n"
    "  o[...] = x[...] + 0.5 * y[...];\n"
    "}\n"
    "\n"
    "// The same on whole arrays: runs and tests compare with it.\n"
    "reference $N { o = x + 0.5 * y; }\n";

static const char *name_word(void *context, char letter) {
  (void)letter;
  return context;
}

// "kernels/relu.pk" and "kernels/relu": relu.
static const char *name_of(Arena *arena, const char *path) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  size_t length = strlen(base);
  if (length > 3 && strcmp(base + length - 3, ".pk") == 0) length -= 3;
  return arena_strndup(arena, base, length);
}

static bool is_word(const char *name) {
  const char *at = name;
  while (isalnum((unsigned char)*at) || *at == '_') at++;
  return *name && !*at && !isdigit((unsigned char)*name);
}

// `pkc new NAME`: writes NAME.pk from the template. An existing file is not replaced.
int verb_new(Options *options) {
  Arena *arena = options->arena;
  const char *given = options->files.at[0], *name = name_of(arena, given);
  const char *path =
      arena_printf(arena, "%.*s%s.pk",
                   (int)(strrchr(given, '/') ? strrchr(given, '/') + 1 - given : 0), given, name);
  const char *text = fill_template(arena, kernel_text, NULL, name_word, (void *)(uintptr_t)name);
  Source source = {.path = path, .text = text, .length = strlen(text)};
  Diag *diag = diag_new(arena, &source);
  Node *file = parse(arena, &source, diag);
  bool named =
      diag_error_count(diag) == 0 && lower(arena, &source, file, NULL, &(LowerOptions){0}, diag);
  if (!named || strcmp(default_kernel(file)->name, name) != 0)
    return user_error(
        "`%s` cannot be the name of a kernel: %s", name,
        is_word(name) ? "it is a word of the language" : "letters, digits and _, as in relu_2");
  if (access(path, F_OK) == 0) return user_error("%s exists already", path);
  Buf buf = {0};
  buf_puts(&buf, text);
  int status = write_result(path, &buf);
  buf_free(&buf);
  if (status == DONE) printf("wrote %s; `pkc test %s` tests it\n", path, path);
  return status;
}
