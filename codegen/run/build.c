// Builds a program from a kernel's C, the harness and the runtime, and caches it by content.
#define _GNU_SOURCE
#include "codegen/run/build.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- pkc's own files

static const char *executable_folder(Arena *arena) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return ".";
  path[length] = 0;
  char *slash = strrchr(path, '/');
  return arena_strndup(arena, path, slash ? (size_t)(slash - path) : (size_t)length);
}

// Installed: PREFIX/bin/pkc, next to PREFIX/include and PREFIX/lib. In the checkout: build/pkc or
// build/san/pkc.
const char *support_path(Arena *arena, const char *name) {
  static const char *const places[][2] = {
      {"include", "../include"},         {"include", "../../include"}, {"libpkrt.a", "libpkrt.a"},
      {"libpkrt.a", "../lib/libpkrt.a"}, {"runtime", "../runtime"},    {"runtime", "../../runtime"},
      {"runtime", "../lib/pkc"},
  };
  const char *folder = executable_folder(arena);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (strcmp(places[i][0], name) != 0) continue;
    const char *path = arena_printf(arena, "%s/%s", folder, places[i][1]);
    const char *probe = strcmp(name, "include") == 0   ? arena_printf(arena, "%s/pk/rt.h", path)
                        : strcmp(name, "runtime") == 0 ? arena_printf(arena, "%s/harness.c", path)
                                                       : path;
    if (access(probe, R_OK) == 0) return path;
  }
  return NULL;
}

// $PKC_RUNNER (for example qemu-aarch64) runs cross-compiled programs; $PKC_LIBRARY is the
// libpkrt.a for them.
const char *runner(void) {
  const char *text = getenv("PKC_RUNNER");
  return text && *text ? text : NULL;
}

const char *naive_target_flags(bool timed) {
  if (timed) return runner() ? "-O3" : "-O3 -march=native";
  return runner() ? "-O1" : "-O1 -march=native";
}

const char *target_flags(const Target *target) {
  if (runner()) return target->cc_flags;
  return target_is_here(target) ? target->cc_flags : target_find("native")->cc_flags;
}

void build_discard(const char *program) {
  Arena *arena = arena_new();
  const char *slash = strrchr(program, '/');
  if (slash) remove_folder(arena, arena_strndup(arena, program, (size_t)(slash - program)));
  arena_free(arena);
}

static const char common_flags[] = "-std=c11 -ffp-contract=off -pthread";

typedef struct {
  const char *include, *library, *runtime;
  const char *world;  // libpkrt_mpi.so, or NULL
  const char *micro;  // the library of micro-kernels to link, or NULL
} Support;

static const char *write_source(Arena *arena, const char *folder, const char *name,
                                const char *text) {
  const char *path = arena_printf(arena, "%s/%s", folder, name);
  if (write_file(path, text, strlen(text))) return NULL;
  return arena_printf(arena, "cannot write %s: %s", path, strerror(errno));
}

// The start of every command: compiler, flags, include folders.
static Command compiler_flags(Arena *arena, const BuildJob *job, const Support *support,
                              const char *optimise, const char *flags) {
  Command command = {0};
  add_words(arena, &command, compiler_command(job));
  add_words(arena, &command, optimise);
  add_words(arena, &command, common_flags);
  add_words(arena, &command, flags ? flags : "");
  add_word(arena, &command, arena_printf(arena, "-I%s", support->include));
  add_word(arena, &command, arena_printf(arena, "-I%s", support->runtime));
  add_words(arena, &command, getenv("PKC_CFLAGS") ? getenv("PKC_CFLAGS") : "");
  return command;
}

// The first processor of /proc/cpuinfo: on a large machine the file is long.
const char *processor_text(void) {
  static const char *const keys[] = {"vendor_id",       "cpu family", "model",    "flags",
                                     "CPU implementer", "CPU part",   "Features", "isa"};
  static const char *known;
  if (known) return known;
  FILE *file = fopen("/proc/cpuinfo", "r");
  char *line = NULL;
  size_t room = 0;
  Buf buf = {0};
  buf_puts(&buf, "processor\n");
  while (file && getline(&line, &room, file) > 1)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      if (strncmp(line, keys[i], strlen(keys[i])) == 0) buf_add(&buf, line, strcspn(line, "\n"));
  if (file) fclose(file);
  free(line);
  known = intern(buf.text);
  buf_free(&buf);
  return known;
}

// The contents of a library of micro-kernels, read again only if another one is linked.
static void hash_micro(Hash *h, const char *path) {
  static const char *known;
  static Hash contents;
  if (known != intern(path)) {
    known = intern(path);
    contents = (Hash){0};
    hash_file(&contents, path);
  }
  hash_add(h, (const char *)&contents, sizeof contents);
}

// A hash of everything on which an object or program depends, except the kernel.
static Hash key_of_support(Arena *arena, const BuildJob *job, const Support *support,
                           const char *version) {
  static Hash files;  // the contents, read once per process
  if (!files.a) {
    files = (Hash){UINT64_C(0xcbf29ce484222325), 7};
    hash_folder(arena, &files, arena_printf(arena, "%s/pk", support->include));
    hash_folder(arena, &files, support->runtime);
    hash_file(&files, support->library);
  }
  Hash h = files;
  if (support->micro) hash_micro(&h, support->micro);
  if (support->world) hash_file(&h, support->world);
  const char *texts[] = {
      compiler_command(job), version,         common_flags, job->flags, support->micro,
      getenv("PKC_CFLAGS"),  processor_text()};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&h, texts[i]);
  return h;
}

static Hash key_of(const BuildJob *job, Hash h) {
  const char *texts[] = {job->naive ? job->naive_flags : NULL, job->symbol, job->c, job->h,
                         job->naive};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&h, texts[i]);
  return h;
}

// The path of the cached object of a file in the runtime folder. The linker gives the kernel the
// name that the object calls.
static const char *support_object(Arena *arena, const BuildJob *job, const Support *support, Hash h,
                                  const char *cache, const char *folder, const char *source,
                                  const char *define, const char **message) {
  const char *object = arena_printf(arena, "%s/%s.o", folder, source), *kept = NULL;
  hash_text(&h, source);
  hash_text(&h, define);
  if (cache) kept = arena_printf(arena, "%s/%s.o", cache, hash_name(arena, h));
  if (kept && is_kept(kept, h)) return kept;
  Command command = compiler_flags(arena, job, support, "-O2", job->flags);
  add_words(arena, &command, define);
  *message = compile_object(arena, &command, arena_printf(arena, "%s/%s", support->runtime, source),
                            object);
  return !*message && kept && keep_entry(arena, cache, object, kept, h) ? kept : object;
}

static const char *write_sources(Arena *arena, const BuildJob *job, const char *folder) {
  const char *wrong = write_source(arena, folder, "kernel.c", job->c);
  if (!wrong && job->h) wrong = write_source(arena, folder, "kernel.h", job->h);
  if (!wrong && job->naive) wrong = write_source(arena, folder, "naive.c", job->naive);
  return wrong;
}

// Renames a kernel's descriptor to the name that the harness links to. A macro renames it, because
// not every linker has --defsym.
static void add_symbol(Arena *arena, Command *command, const char *object, const char *name) {
  add_word(arena, command, arena_printf(arena, "-D%s_kernel=pk_harness_%s", object, name));
}

// The compiler flags of a kernel.
static Command kernel_flags(Arena *arena, const BuildJob *job, const Support *support) {
  Command command = compiler_flags(arena, job, support, "-O2", job->flags);
  if (support->micro)
    add_word(arena, &command,
             arena_printf(arena, "-DPK_MICRO=%s", target_symbol(arena, job->micro)));
  return command;
}

// The files that are compiled together with the harness.
static const char *const harness_parts[] = {"cpu.c", "guard.c", "laps.c", "measure.c"};
enum { HARNESS_PARTS = sizeof harness_parts / sizeof *harness_parts };

typedef struct {
  const char *harness, *naive;       // object files; naive may be NULL
  const char *parts[HARNESS_PARTS];  // those of harness_parts
} Objects;

// Compiles the kernel, with a precompiled header or NULL, and links `folder`/program.
static const char *compile_program(Arena *arena, const BuildJob *job, const Support *support,
                                   const char *folder, const Objects *objects, const char *header) {
  Command command = kernel_flags(arena, job, support);
  if (header) add_words(arena, &command, "-include");
  if (header) add_word(arena, &command, header);
  add_word(arena, &command, arena_printf(arena, "-I%s", folder));
  add_symbol(arena, &command, job->symbol, "kernel");
  add_word(arena, &command, "-o");
  add_word(arena, &command, arena_printf(arena, "%s/program", folder));
  add_word(arena, &command, arena_printf(arena, "%s/kernel.c", folder));
  add_word(arena, &command, objects->harness);
  for (int i = 0; i < HARNESS_PARTS; i++) add_word(arena, &command, objects->parts[i]);
  if (objects->naive) add_word(arena, &command, objects->naive);
  if (support->micro) add_word(arena, &command, support->micro);
  if (support->world) {
    const char *slash = strrchr(support->world, '/');
    add_word(arena, &command, support->world);
    add_word(arena, &command,
             arena_printf(arena, "-Wl,-rpath,%.*s", (int)(slash - support->world), support->world));
  }
  add_word(arena, &command, support->library);
  add_word(arena, &command, "-lm");
  return compile(arena, &command);
}

// The path in the cache of the precompiled header of such kernels.
static const char *header_path(Arena *arena, const BuildJob *job, Hash h, const char *cache) {
  hash_text(&h, "header");
  hash_text(&h, job->prologue);
  return arena_printf(arena, "%s/%s.h", cache, hash_name(arena, h));
}

// Compiles everything in `folder` to `folder`/program.
static const char *compile_in(Arena *arena, const BuildJob *job, const Support *support, Hash h,
                              const char *cache, const char *folder) {
  const char *wrong = write_sources(arena, job, folder);
  Objects o = {0};
  if (!wrong && job->naive) {
    Command command = compiler_flags(arena, job, support, "-w", job->naive_flags);
    add_symbol(arena, &command, arena_printf(arena, "%s_judge", job->symbol), "judge");
    add_symbol(arena, &command, arena_printf(arena, "%s_naive", job->symbol), "naive");
    o.naive = arena_printf(arena, "%s/naive.o", folder);
    wrong = compile_object(arena, &command, arena_printf(arena, "%s/naive.c", folder), o.naive);
  }
  const char *define = arena_printf(arena, "-DPK_KERNEL=pk_harness_kernel%s%s%s",
                                    job->naive ? " -DPK_JUDGE=pk_harness_judge" : "",
                                    job->timed ? " -DPK_NAIVE=pk_harness_naive" : "",
                                    job->world ? " -DPK_WORLD" : "");
  if (!wrong)
    o.harness = support_object(arena, job, support, h, cache, folder, "harness.c", define, &wrong);
  for (int i = 0; i < HARNESS_PARTS && !wrong; i++)
    o.parts[i] =
        support_object(arena, job, support, h, cache, folder, harness_parts[i], "", &wrong);
  if (wrong) return wrong;
  const char *header = NULL;
  if (cache)
    header = precompiled_header(arena, header_path(arena, job, h, cache), job->prologue, cache,
                                kernel_flags(arena, job, support));
  wrong = compile_program(arena, job, support, folder, &o, header);
  if (!wrong || !header) return wrong;
  forget_precompiled(arena, header);  // damaged, or of headers that have a new date
  return compile_program(arena, job, support, folder, &o, NULL);
}

// libpkrt_TARGET.a next to libpkrt.a, or NULL. $PKC_MICRO=0 compiles micro-kernels with the kernel.
static const char *micro_library(Arena *arena, const char *library, const char *target) {
  const char *wish = getenv("PKC_MICRO");
  size_t length = strlen(library);
  if (!target || length < 2 || (wish && strcmp(wish, "0") == 0)) return NULL;
  const char *path = arena_printf(arena, "%.*s_%s.a", (int)length - 2, library, target);
  return access(path, R_OK) == 0 ? path : NULL;
}

// libpkrt_mpi.so next to libpkrt.a. NULL, with an error message.
static const char *world_library(Arena *arena, const char *library, const char **wrong) {
  size_t length = strlen(library);
  const char *path =
      length < 2 ? NULL : arena_printf(arena, "%.*s_mpi.so", (int)length - 2, library);
  char whole[PATH_MAX];
  if (path && access(path, R_OK) == 0 && realpath(path, whole))
    return arena_strndup(arena, whole, strlen(whole));
  *wrong = arena_printf(arena,
                        "cannot run on several processes: libpkrt_mpi.so is not next to %s; `make` "
                        "builds it where mpicc is (Debian: libopenmpi-dev)",
                        library);
  return NULL;
}

static const char *find_support(Arena *arena, const BuildJob *job, Support *support) {
  *support = (Support){.include = support_path(arena, "include"),
                       .library = support_path(arena, "libpkrt.a"),
                       .runtime = support_path(arena, "runtime")};
  const char *library = getenv("PKC_LIBRARY");
  if (library && *library) support->library = library;
  if (support->library) support->micro = micro_library(arena, support->library, job->micro);
  if (support->include && support->library && support->runtime) {
    const char *wrong = NULL;
    if (job->world) support->world = world_library(arena, support->library, &wrong);
    return wrong;
  }
  return arena_printf(arena, "pkc's own %s not found next to %s: is the installation complete?",
                      !support->include   ? "headers (pk/rt.h) were"
                      : !support->library ? "library (libpkrt.a) was"
                                          : "harness.c was",
                      executable_folder(arena));
}

// Compiles to a temporary folder; returns the path of the program, or NULL.
static const char *make_program(Arena *arena, const BuildJob *job, const Support *support, Hash h,
                                const char *cache, const char **message) {
  const char *folder = temporary_folder(arena, NULL);
  if (!folder && cache) folder = temporary_folder(arena, cache);
  if (!folder) {
    *message = arena_printf(arena, "cannot make a folder for compiling in $TMPDIR or /tmp: %s",
                            strerror(errno));
    return NULL;
  }
  *message = compile_in(arena, job, support, h, cache, folder);
  if (!*message) return arena_printf(arena, "%s/program", folder);
  remove_folder(arena, folder);
  return NULL;
}

const char *build_program(Arena *arena, const BuildJob *job, bool *temporary,
                          const char **message) {
  Support support;
  const char *version = "", *cache, *program = NULL;
  *temporary = false;
  *message = find_support(arena, job, &support);
  if (!*message) *message = compiler_version(arena, compiler_command(job), &version);
  if (*message) return NULL;
  Hash h = key_of_support(arena, job, &support, version), key = key_of(job, h);
  cache = job->no_cache ? NULL : cache_folder(arena);
  *temporary = !cache;
  if (!cache) return make_program(arena, job, &support, h, NULL, message);
  const char *kept = arena_printf(arena, "%s/%s", cache, hash_name(arena, key));
  if (is_kept(kept, key)) return kept;
  // The processes of a mesh need the same program at the same time: one of them builds it.
  int lock = job->world ? lock_entry(arena, cache, key) : -1;
  program = lock >= 0 && is_kept(kept, key) ? kept
                                            : make_program(arena, job, &support, h, cache, message);
  if (program && program != kept && keep_entry(arena, cache, program, kept, key)) {
    build_discard(program);
    program = kept;
  }
  unlock_entry(lock);
  *temporary = program && program != kept;
  limit_cache(arena, cache);
  return program;
}
