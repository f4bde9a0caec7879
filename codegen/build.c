// A kernel's C, with the harness and the runtime, to a program; kept by content in the cache folder.
#define _GNU_SOURCE
#include "codegen/driver.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

// Installed: PREFIX/bin/pkc beside PREFIX/include and PREFIX/lib. In the checkout: build/pkc or build/san/pkc.
const char *support_path(Arena *arena, const char *name) {
  static const char *const places[][2] = {
      {"include", "../include"}, {"include", "../../include"}, {"libpkrt.a", "libpkrt.a"}, {"libpkrt.a", "../lib/libpkrt.a"},
      {"runtime", "../runtime"}, {"runtime", "../../runtime"}, {"runtime", "../lib/pkc"},
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

const char *target_flags(const Target *target) {
  const Target *native = target_find("native");
  bool foreign = *target->cc_prefix && *native->cc_flags && strcmp(target->name, native->name) != 0 &&
                 strncmp(target->name, native->name, 6) != 0;
  return foreign ? native->cc_flags : target->cc_flags;
}

// ---- what a program depends on, as one number of 128 bits

typedef struct {
  uint64_t a, b;
} Hash;

static void hash_add(Hash *h, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    h->a = (h->a ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    h->b = (h->b + (unsigned char)bytes[i] + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h->b ^= h->b >> 29;
  }
  h->a = (h->a ^ 0xff) * UINT64_C(0x100000001b3);
}

static void hash_text(Hash *h, const char *text) { hash_add(h, text ? text : "", text ? strlen(text) + 1 : 0); }

static void hash_file(Arena *arena, Hash *h, const char *path) {
  size_t length;
  char *text = read_file(arena, path, &length);
  if (text) hash_add(h, text, length);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

// Every file of a folder, in the order of the names.
static void hash_folder(Arena *arena, Hash *h, const char *folder) {
  LIST(const char *) names = {0};
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') LIST_PUSH(arena, &names, arena_strndup(arena, entry->d_name, strlen(entry->d_name)));
  if (dir) closedir(dir);
  if (names.count) qsort(names.at, (size_t)names.count, sizeof *names.at, by_name);
  for (int i = 0; i < names.count; i++) hash_file(arena, h, arena_printf(arena, "%s/%s", folder, names.at[i]));
}

// ---- folders

static bool make_folders(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return false;
  }
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

// The cache folder, made if need be; NULL when there can be none.
static const char *cache_folder(Arena *arena) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char *path = NULL;
  if (base && *base == '/')
    path = arena_printf(arena, "%s/pkc", base);
  else if (home && *home == '/')
    path = arena_printf(arena, "%s/.cache/pkc", home);
  return path && make_folders(path) && access(path, W_OK) == 0 ? path : NULL;
}

static const char *temporary_folder(Arena *arena, const char *inside) {
  const char *base = inside ? inside : getenv("TMPDIR");
  char *path = arena_printf(arena, "%s/pkc-XXXXXX", base && *base ? base : "/tmp");
  return mkdtemp(path);
}

static void remove_folder(Arena *arena, const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') unlink(arena_printf(arena, "%s/%s", folder, entry->d_name));
  if (dir) closedir(dir);
  rmdir(folder);
}

void build_discard(const char *program) {
  Arena *arena = arena_new();
  const char *slash = strrchr(program, '/');
  if (slash) remove_folder(arena, arena_strndup(arena, program, (size_t)(slash - program)));
  arena_free(arena);
}

// ---- the compiler

static const char *compiler_command(const BuildJob *job) {
  const char *cc = job->cc ? job->cc : getenv("CC");
  return cc && *cc ? cc : "cc";
}

// Runs the compiler; NULL or its complaints.
static const char *compile(Arena *arena, const char *const *texts, int count) {
  const char *const *words = split_words(arena, texts, count);
  Buf output = {0}, errors = {0};
  if (!words[0]) return "the C compiler's name ($CC) is empty";
  int status = run_child(words, -1, &output, &errors);
  const char *wrong = NULL;
  if (status < 0)
    wrong = arena_printf(arena, "cannot run the C compiler %s: %s", words[0], strerror(errno));
  else if (WIFSIGNALED(status))
    wrong = arena_printf(arena, "the C compiler %s was ended by signal %d", words[0], WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    wrong = arena_printf(arena, "the C compiler failed: %s (status %d)%s%.*s", texts[0], WEXITSTATUS(status),
                         errors.length ? "\n" : "", (int)(errors.length < 4000 ? errors.length : 4000),
                         errors.length ? errors.text : "");
  buf_free(&output);
  buf_free(&errors);
  return wrong;
}

// What `cc --version` says, once a command.
static const char *compiler_version(Arena *arena, const char *cc, const char **version) {
  static const char *known_command, *known_version;
  if (!known_command || strcmp(known_command, cc) != 0) {
    const char *texts[] = {cc, "--version"};
    const char *const *words = split_words(arena, texts, 2);
    Buf output = {0}, errors = {0};
    int status = run_child(words, -1, &output, &errors);
    if (status < 0) return arena_printf(arena, "cannot run the C compiler %s: %s", words[0], strerror(errno));
    if (status != 0) return arena_printf(arena, "the C compiler %s does not work: `%s --version` fails", cc, cc);
    known_command = intern(cc);
    known_version = intern_n(output.length ? output.text : "", output.length);
    buf_free(&output);
    buf_free(&errors);
  }
  *version = known_version;
  return NULL;
}

static const char common_flags[] = "-std=c11 -ffp-contract=off -fopenmp";

typedef struct {
  const char *include, *library, *runtime;
} Support;

static const char *write_source(Arena *arena, const char *folder, const char *name, const char *text) {
  const char *path = arena_printf(arena, "%s/%s", folder, name);
  if (write_file(path, text, strlen(text))) return NULL;
  return arena_printf(arena, "cannot write %s: %s", path, strerror(errno));
}

// Compiles everything in `folder` to `folder`/program.
static const char *compile_in(Arena *arena, const BuildJob *job, const Support *support, const char *folder) {
  const char *cc = compiler_command(job), *more = getenv("PKC_CFLAGS"), *naive_object = "", *naive_define = "";
  const char *wrong = write_source(arena, folder, "kernel.c", job->c);
  if (!wrong && job->h) wrong = write_source(arena, folder, arena_printf(arena, "%s.h", job->name), job->h);
  if (!wrong && job->naive) wrong = write_source(arena, folder, "naive.c", job->naive);
  const char *shared =
      arena_printf(arena, "%s -I%s -I%s -I%s %s", common_flags, support->include, support->runtime, folder, more ? more : "");
  if (!wrong && job->naive) {
    naive_object = arena_printf(arena, "%s/naive.o", folder);
    naive_define = arena_printf(arena, "-DPK_NAIVE=%s_naive_kernel", job->name);
    const char *texts[] = {
        cc, "-O3 -w", shared, job->naive_flags, "-c -o", naive_object, arena_printf(arena, "%s/naive.c", folder)};
    wrong = compile(arena, texts, sizeof texts / sizeof *texts);
  }
  if (wrong) return wrong;
  const char *cpu = arena_printf(arena, "%s/cpu.c", support->runtime);
  const char *texts[] = {cc,
                         "-O2",
                         shared,
                         job->flags,
                         arena_printf(arena, "-DPK_KERNEL=%s_kernel", job->name),
                         naive_define,
                         "-o",
                         arena_printf(arena, "%s/program", folder),
                         arena_printf(arena, "%s/kernel.c", folder),
                         arena_printf(arena, "%s/harness.c", support->runtime),
                         access(cpu, R_OK) == 0 ? cpu : "",
                         naive_object,
                         support->library,
                         "-lm"};
  return compile(arena, texts, sizeof texts / sizeof *texts);
}

static const char *key_of(Arena *arena, const BuildJob *job, const Support *support, const char *version) {
  static Hash files;  // of pkc's own files: once a process
  if (!files.a) {
    files = (Hash){UINT64_C(0xcbf29ce484222325), 7};
    hash_folder(arena, &files, arena_printf(arena, "%s/pk", support->include));
    hash_folder(arena, &files, support->runtime);
    hash_file(arena, &files, support->library);
  }
  Hash h = files;
  const char *texts[] = {compiler_command(job), version,   common_flags, job->flags, job->naive_flags,
                         getenv("PKC_CFLAGS"),  job->name, job->c,       job->h,     job->naive};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&h, texts[i]);
  return arena_printf(arena, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
}

static const char *find_support(Arena *arena, Support *support) {
  *support = (Support){support_path(arena, "include"), support_path(arena, "libpkrt.a"), support_path(arena, "runtime")};
  if (support->include && support->library && support->runtime) return NULL;
  return arena_printf(arena, "pkc's own %s not found beside %s: is the installation complete?",
                      !support->include   ? "headers (pk/rt.h) were"
                      : !support->library ? "library (libpkrt.a) was"
                                          : "harness.c was",
                      executable_folder(arena));
}

const char *build_program(Arena *arena, const BuildJob *job, bool *temporary, const char **message) {
  Support support;
  const char *version = "";
  *temporary = false;
  *message = find_support(arena, &support);
  if (!*message) *message = compiler_version(arena, compiler_command(job), &version);
  if (*message) return NULL;
  const char *cache = job->no_cache ? NULL : cache_folder(arena), *kept = NULL;
  if (cache) {
    kept = arena_printf(arena, "%s/%s", cache, key_of(arena, job, &support, version));
    if (access(kept, X_OK) == 0) return kept;
  }
  const char *folder = temporary_folder(arena, cache);
  if (!folder) {
    *message =
        arena_printf(arena, "cannot make a folder for compiling in %s: %s", cache ? cache : "$TMPDIR or /tmp", strerror(errno));
    return NULL;
  }
  *message = compile_in(arena, job, &support, folder);
  const char *program = arena_printf(arena, "%s/program", folder);
  if (!*message && kept && rename(program, kept) != 0)
    *message = arena_printf(arena, "cannot write %s: %s", kept, strerror(errno));
  if (*message || kept) remove_folder(arena, folder);
  if (*message) return NULL;
  *temporary = !kept;
  return kept ? kept : program;
}
