// pkc FILE.pk: compiles a kernel to C, or prints an intermediate stage.
#include "codegen/verbs/verbs.h"
#include "codegen/naive/naive.h"
#include "codegen/pallas/pallas.h"
#include "codegen/passes/pass.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char letters_of_driver[] = "ailn";

static bool known_letter(char letter) {
  if (strchr(letters_of_driver, letter)) return true;
  for (int i = 0; i < pass_count; i++)
    if (passes[i].letter == letter) return true;
  return false;
}

static bool wants(const Options *options, char letter, const char *kind) {
  return (options->dumps && strchr(options->dumps, letter)) ||
         (options->emit && strcmp(options->emit, kind) == 0);
}

// NAME.c -> NAME.h in the same folder; without -o, "kernels/add.pk" -> "add.c".
static const char *with_ending(Arena *arena, const char *path, const char *ending) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  size_t stem =
      dot && dot > path && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
  return arena_printf(arena, "%.*s%s", (int)stem, path, ending);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// The output file: -o, or the kernel's file with another extension, in the current folder.
static const char *path_of_c(const Options *options, const char *path) {
  return options->output ? options->output : with_ending(options->arena, base_name(path), ".c");
}

// The header is written next to the C; neither remains if the other cannot be written.
static int write_pair(Options *options, const char *path, const Buf *c, const Buf *h) {
  const char *c_path = path_of_c(options, path);
  if (strcmp(c_path, "-") == 0) return write_result("-", c);
  const char *h_path = with_ending(options->arena, c_path, ".h");
  if (strcmp(c_path, h_path) == 0) return user_error("-o %s: the C file cannot end in .h", c_path);
  int status = write_result(c_path, c);
  if (status != DONE) return status;
  if (strncmp(c_path, "/dev/", 5) == 0) return DONE;
  bool had_header = access(h_path, F_OK) == 0;
  status = write_result(h_path, h);
  if (status != DONE && !had_header) unlink(c_path);
  return status;
}

static void print_stage(void (*print)(const Kernel *, Buf *), const Kernel *k) {
  Buf text = {0};
  print(k, &text);
  write_result("-", &text);
  buf_free(&text);
}

static void print_tree(const Node *file) {
  Buf text = {0};
  ast_dump(file, &text);
  write_result("-", &text);
  buf_free(&text);
}

static void print_naive(Kernel *k) {
  Buf text = {0};
  if (k->reference)
    emit_naive(k, &text);
  else
    buf_printf(&text, "// %s has no reference\n", k->name);
  write_result("-", &text);
  buf_free(&text);
}

static int write_pallas(Options *options, Program *program) {
  Buf text = {0};
  emit_pallas(program->kernel, program->diag, &text);
  bool good = diag_error_count(program->diag) == 0;
  if (!good) program_report(program, options);
  int status = good ? write_result(options->output ? options->output : "-", &text) : USER_ERROR;
  buf_free(&text);
  return status;
}

static int write_signature(const Options *options, const Program *program) {
  Buf text = {0};
  put_signature(program, &text);
  int status = write_result(options->output ? options->output : "-", &text);
  buf_free(&text);
  return status;
}

static const char library_flags[] = "-std=c11 -O2 -ffp-contract=off";

// The commands that compile the C at `path` to an archive.
static void print_build_lines(const Options *options, const char *path) {
  const char *stem = with_ending(options->arena, path, ""), *prefix = "";
  const char *native = target_find(target_find("native")->name)->cc_prefix;
  for (int i = 0; i < options->variants.count; i++) {
    const Target *t = options->variants.at[i];
    const char *name = target_symbol(options->arena, t->name);
    if (*t->cc_prefix && strcmp(t->cc_prefix, native) != 0) prefix = t->cc_prefix;
    printf("%s%s %s %s%s-DPK_TARGET_%s $(pkg-config --cflags pkc) -c %s -o %s_%s.o\n", prefix,
           *prefix ? "gcc" : "cc", library_flags, t->cc_flags, *t->cc_flags ? " " : "", name, path,
           stem, name);
  }
  printf("%s%s %s $(pkg-config --cflags pkc) -c %s -o %s.o\n%sar rcs %s.a %s.o", prefix,
         *prefix ? "gcc" : "cc", library_flags, path, stem, prefix, stem, stem);
  for (int i = 0; i < options->variants.count; i++)
    printf(" %s_%s.o", stem, target_symbol(options->arena, options->variants.at[i]->name));
  printf("\n");
}

static int write_variants(Options *options, const Program *program, const char *path) {
  Buf c = {0}, h = {0};
  program_emit_variants(program, options, &c, &h);
  int status;
  if (options->emit)
    status = write_result(options->output ? options->output : "-", *options->emit == 'c' ? &c : &h);
  else
    status = write_pair(options, path, &c, &h);
  const char *to = path_of_c(options, path);
  if (status == DONE && !options->emit && strcmp(to, "-") != 0) print_build_lines(options, to);
  buf_free(&c);
  buf_free(&h);
  return status;
}

static int emit_and_write(Options *options, Program *program, const char *path) {
  Buf c = {0}, h = {0}, loops = {0};
  program_emit(program, options, &c, &h, &loops, NULL);
  int status = DONE;
  if (wants(options, 'l', "loops")) write_result("-", &loops);
  const char *to = options->output ? options->output : "-";
  if (options->emit && strcmp(options->emit, "c") == 0)
    status = write_result(to, &c);
  else if (options->emit && strcmp(options->emit, "h") == 0)
    status = write_result(to, &h);
  else if (!options->emit && !options->dumps)
    status = write_pair(options, path, &c, &h);
  buf_free(&c);
  buf_free(&h);
  buf_free(&loops);
  return status;
}

// pkc FILE.pk: dumps, --emit, or NAME.c and NAME.h.
int verb_compile(Options *options) {
  for (const char *letter = options->dumps; letter && *letter; letter++)
    if (!known_letter(*letter))
      return usage_error(verb_find("compile"), "-d: no stage has the letter `%c`", *letter);
  bool several = options->variants.count > 0;
  if (several && (options->dumps || (options->emit && strlen(options->emit) > 1)))
    return usage_error(verb_find("compile"), "--targets requires --emit=c or --emit=h");
  Program program;
  const char *path = options->files.at[0];
  int status = program_load(&program, options, path);
  if (program.file && wants(options, 'a', "ast")) print_tree(program.file);
  if (status != DONE) return status;
  const char *wrong = program_check_names(&program, options, false);
  if (wrong) return user_error("%s: %s", path, wrong);
  if (wants(options, 'i', "ir")) print_stage(ir_print, program.kernel);
  if (wants(options, 'n', "naive")) print_naive(program.kernel);
  if (options->emit && strcmp(options->emit, "pallas") == 0) return write_pallas(options, &program);
  if (options->emit && strcmp(options->emit, "signature") == 0)
    return write_signature(options, &program);
  bool stop = options->emit && strspn(options->emit, "chl") == 0;  // ast, ir, naive
  if (stop && !options->dumps) return DONE;
  if (options->variants.count) return write_variants(options, &program, path);
  program_optimise(&program, options, NULL);
  return emit_and_write(options, &program, path);
}
