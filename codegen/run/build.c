// A kernel's C, with the harness and the runtime, to a program; kept by content in the cache
// folder.
#define _GNU_SOURCE
#include "codegen/run/run.h"
#include "codegen/run/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

// Installed: PREFIX/bin/pkc beside PREFIX/include and PREFIX/lib. In the checkout: build/pkc or
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

// $PKC_RUNNER (qemu-aarch64, say) runs what a cross compiler makes; $PKC_LIBRARY is the libpkrt.a
// that goes with it.
const char *runner(void) {
  const char *text = getenv("PKC_RUNNER");
  return text && *text ? text : NULL;
}

const char *naive_target_flags(void) { return runner() ? "" : "-march=native"; }

const char *target_flags(const Target *target) {
  if (runner()) return target->cc_flags;
  const Target *native = target_find("native");
  bool foreign = *target->cc_prefix && *native->cc_flags &&
                 strcmp(target->name, native->name) != 0 &&
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

static void hash_text(Hash *h, const char *text) {
  hash_add(h, text ? text : "", text ? strlen(text) + 1 : 0);
}

static void hash_file(Arena *arena, Hash *h, const char *path) {
  size_t length;
  char *text = read_file(arena, path, &length);
  if (text) hash_add(h, text, length);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Every file below a folder, in the order of their names.
static void hash_folder(Arena *arena, Hash *h, const char *folder) {
  LIST(const char *) names = {0};
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.')
      LIST_PUSH(arena, &names, arena_strndup(arena, entry->d_name, strlen(entry->d_name)));
  if (dir) closedir(dir);
  if (names.count) qsort(names.at, (size_t)names.count, sizeof *names.at, by_name);
  for (int i = 0; i < names.count; i++) {
    const char *path = arena_printf(arena, "%s/%s", folder, names.at[i]);
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
      hash_folder(arena, h, path);
    else
      hash_file(arena, h, path);
  }
}

// ---- folders

enum {
  CACHE_LIMIT = 1 << 30,             // bytes of all entries
  IN_USE_SECONDS = 60 * 60,          // an entry that was used so recently stays
  ABANDONED_SECONDS = 24 * 60 * 60,  // a temporary folder so old is nobody's
};

static bool make_folders(char *path) {
  for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return false;
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool is_own(const struct stat *st) {
  return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

// Nobody else may write there: what lies there is run.
static bool is_own_folder(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && is_own(&st);
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void refuse_cache(const char *path) {
  static bool said;
  if (!said) fprintf(stderr, "pkc: %s is not used: others own it or may write there\n", path);
  said = true;
}

// The cache folder, made if need be; NULL when there can be none. A home that does not exist is not
// made.
static const char *cache_folder(Arena *arena) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char *path = NULL;
  if (base && *base == '/')
    path = arena_printf(arena, "%s/pkc", base);
  else if (home && *home == '/' && is_folder(home))
    path = arena_printf(arena, "%s/.cache/pkc", home);
  if (!path || !make_folders(path) || access(path, W_OK) != 0) return NULL;
  if (is_own_folder(path)) return path;
  refuse_cache(path);
  return NULL;
}

// A whole ELF file that nobody else may have written: the table of sections, the last thing
// written, is there.
static bool is_whole_entry(const char *path) {
  ElfW(Ehdr) head;
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  bool whole = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_own(&st) &&
               read(fd, &head, sizeof head) == sizeof head &&
               memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
  if (whole && head.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
    whole = (uint64_t)st.st_size >= head.e_shoff + (uint64_t)head.e_shentsize * head.e_shnum;
  if (whole) futimens(fd, NULL);  // the oldest are removed first
  close(fd);
  return whole;
}

const char *temporary_folder(Arena *arena, const char *inside) {
  const char *base = inside ? inside : getenv("TMPDIR");
  char *path = mkdtemp(arena_printf(arena, "%s/pkc-XXXXXX", base && *base ? base : "/tmp"));
  if (path) interrupt_keep_folder(path);
  return path;
}

void remove_folder(Arena *arena, const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') unlink(arena_printf(arena, "%s/%s", folder, entry->d_name));
  if (dir) closedir(dir);
  rmdir(folder);
  interrupt_forget_folder(folder);
}

// ---- the size of the cache

typedef struct {
  const char *path;
  int64_t bytes, used;  // when, in seconds
  bool folder;
} Entry;

static int by_use(const void *a, const void *b) {
  int64_t x = ((const Entry *)a)->used, y = ((const Entry *)b)->used;
  return (x > y) - (x < y);
}

// $PKC_CACHE_LIMIT, bytes that K, M or G may follow.
static int64_t cache_limit(void) {
  static const char units[] = "KMG";
  const char *text = getenv("PKC_CACHE_LIMIT");
  char *end = NULL;
  int64_t value = text ? strtoll(text, &end, 10) : -1;
  if (!text || end == text || value < 0) return CACHE_LIMIT;
  const char *unit = *end ? strchr(units, *end) : NULL;
  for (const char *u = units; unit && u <= unit; u++)
    if (!mul_i64(value, 1024, &value)) return INT64_MAX;
  return value;
}

// Removes the entries that were used longest ago, until the rest fits, and folders that a killed
// process left. What was used within the hour stays: another process may be about to run it.
static void limit_cache(Arena *arena, const char *cache) {
  LIST(Entry) entries = {0};
  int64_t bytes = 0, now = (int64_t)time(NULL), limit = cache_limit();
  DIR *dir = opendir(cache);
  for (struct dirent *item; dir && (item = readdir(dir));) {
    const char *path = arena_printf(arena, "%s/%s", cache, item->d_name);
    struct stat st;
    if (item->d_name[0] == '.' || lstat(path, &st) != 0) continue;
    Entry entry = {path, (int64_t)st.st_size, (int64_t)st.st_mtime, S_ISDIR(st.st_mode)};
    LIST_PUSH(arena, &entries, entry);
    bytes += entry.folder ? 0 : entry.bytes;
  }
  if (dir) closedir(dir);
  if (entries.count) qsort(entries.at, (size_t)entries.count, sizeof *entries.at, by_use);
  for (int i = 0; i < entries.count && entries.at[i].used + IN_USE_SECONDS < now; i++) {
    const Entry *entry = &entries.at[i];
    if (entry->folder && entry->used + ABANDONED_SECONDS < now) remove_folder(arena, entry->path);
    if (!entry->folder && bytes > limit && unlink(entry->path) == 0) bytes -= entry->bytes;
  }
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

typedef LIST(const char *) Command;

static void add_word(Arena *arena, Command *command, const char *word) {
  LIST_PUSH(arena, command, word);
}

// Flags, and the compiler's own name: split at blanks.
static void add_words(Arena *arena, Command *command, const char *text) {
  const char *const *words = split_words(arena, &text, 1);
  for (int i = 0; words[i]; i++) add_word(arena, command, words[i]);
}

// Runs the compiler; NULL or its complaints.
static const char *compile(Arena *arena, Command *command) {
  Buf output = {0}, errors = {0};
  add_word(arena, command, NULL);
  const char *const *words = (const char *const *)command->at;
  int status = run_child(words, -1, 0, &output, &errors);
  const char *wrong = NULL;
  if (status < 0)
    wrong = arena_printf(arena, "cannot run the C compiler %s: %s", words[0], strerror(errno));
  else if (WIFSIGNALED(status))
    wrong =
        arena_printf(arena, "the C compiler %s was ended by signal %d", words[0], WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    wrong = arena_printf(arena, "the C compiler failed: %s (status %d)%s%.*s", words[0],
                         WEXITSTATUS(status), errors.length ? "\n" : "",
                         (int)(errors.length < 4000 ? errors.length : 4000),
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
    int status = run_child(words, -1, 0, &output, &errors);
    if (status < 0)
      return arena_printf(arena, "cannot run the C compiler %s: %s", words[0], strerror(errno));
    if (status != 0)
      return arena_printf(arena, "the C compiler %s does not work: `%s --version` fails", cc, cc);
    known_command = intern(cc);
    known_version = intern_n(output.length ? output.text : "", output.length);
    buf_free(&output);
    buf_free(&errors);
  }
  *version = known_version;
  return NULL;
}

static const char common_flags[] = "-std=c11 -ffp-contract=off -pthread";

typedef struct {
  const char *include, *library, *runtime;
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

static const char *compile_object(Arena *arena, Command *command, const char *source,
                                  const char *object) {
  add_word(arena, command, "-c");
  add_word(arena, command, "-o");
  add_word(arena, command, object);
  add_word(arena, command, source);
  return compile(arena, command);
}

// What `-march=native` goes by: a home may be shared by machines.
static const char *processor(Arena *arena) {
  static const char *const keys[] = {"vendor_id",       "cpu family", "model",    "flags",
                                     "CPU implementer", "CPU part",   "Features", "isa"};
  static const char *known;
  if (known) return known;
  size_t length;
  const char *text = read_file(arena, "/proc/cpuinfo", &length),
             *end = text ? strstr(text, "\n\n") : NULL;
  Buf buf = {0};
  buf_puts(&buf, "processor\n");
  for (const char *line = text; line && *line && (!end || line < end);
       line += strcspn(line, "\n") + 1)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      if (strncmp(line, keys[i], strlen(keys[i])) == 0) buf_add(&buf, line, strcspn(line, "\n"));
  known = intern(buf.text);
  buf_free(&buf);
  return known;
}

// The contents of a library of micro-kernels, read again only where another one is linked.
static void hash_micro(Arena *arena, Hash *h, const char *path) {
  static const char *known;
  static Hash contents;
  if (known != intern(path)) {
    known = intern(path);
    contents = (Hash){0};
    hash_file(arena, &contents, path);
  }
  hash_add(h, (const char *)&contents, sizeof contents);
}

// Everything that decides what an object or program of pkc's own files looks like, but for the
// kernel.
static Hash key_of_support(Arena *arena, const BuildJob *job, const Support *support,
                           const char *version) {
  static Hash files;  // the contents, once a process
  if (!files.a) {
    files = (Hash){UINT64_C(0xcbf29ce484222325), 7};
    hash_folder(arena, &files, arena_printf(arena, "%s/pk", support->include));
    hash_folder(arena, &files, support->runtime);
    hash_file(arena, &files, support->library);
  }
  Hash h = files;
  if (support->micro) hash_micro(arena, &h, support->micro);
  const char *texts[] = {
      compiler_command(job), version,         common_flags, job->flags, support->micro,
      getenv("PKC_CFLAGS"),  processor(arena)};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&h, texts[i]);
  return h;
}

static const char *hash_name(Arena *arena, Hash h) {
  return arena_printf(arena, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
}

static const char *key_of(Arena *arena, const BuildJob *job, Hash h) {
  const char *texts[] = {job->naive ? job->naive_flags : NULL, job->symbol, job->c, job->h,
                         job->naive};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&h, texts[i]);
  return hash_name(arena, h);
}

// A file of the runtime folder as an object, kept in the cache: its path. The linker gives the
// kernel the name that it calls.
static const char *support_object(Arena *arena, const BuildJob *job, const Support *support, Hash h,
                                  const char *cache, const char *folder, const char *source,
                                  const char *define, const char **message) {
  const char *object = arena_printf(arena, "%s/%s.o", folder, source), *kept = NULL;
  hash_text(&h, source);
  hash_text(&h, define);
  if (cache) kept = arena_printf(arena, "%s/%s.o", cache, hash_name(arena, h));
  if (kept && is_whole_entry(kept)) return kept;
  Command command = compiler_flags(arena, job, support, "-O2", job->flags);
  add_words(arena, &command, define);
  *message = compile_object(arena, &command, arena_printf(arena, "%s/%s", support->runtime, source),
                            object);
  if (*message || !kept) return object;
  if (rename(object, kept) == 0) return kept;
  *message = arena_printf(arena, "cannot write %s: %s", kept, strerror(errno));
  return NULL;
}

static const char *write_sources(Arena *arena, const BuildJob *job, const char *folder) {
  const char *wrong = write_source(arena, folder, "kernel.c", job->c);
  if (!wrong && job->h) wrong = write_source(arena, folder, "kernel.h", job->h);
  if (!wrong && job->naive) wrong = write_source(arena, folder, "naive.c", job->naive);
  return wrong;
}

// The name by which the harness knows a kernel of the naive references.
static void add_symbol(Arena *arena, Command *command, const char *kind, const char *symbol) {
  add_word(arena, command,
           arena_printf(arena, "-Wl,--defsym=pk_harness_%s=%s_%s_kernel", kind, symbol, kind));
}

// For <pk/micro.h>: the target's name as a C identifier.
static const char *micro_define(Arena *arena, const char *target) {
  char *define = arena_printf(arena, "-DPK_MICRO=%s", target);
  for (char *c = define + strlen("-DPK_MICRO="); *c; c++)
    if (*c == '-') *c = '_';
  return define;
}

// Compiles everything in `folder` to `folder`/program.
static const char *compile_in(Arena *arena, const BuildJob *job, const Support *support, Hash h,
                              const char *cache, const char *folder) {
  const char *naive = arena_printf(arena, "%s/naive.o", folder),
             *wrong = write_sources(arena, job, folder);
  if (!wrong && job->naive) {
    Command command = compiler_flags(arena, job, support, "-O3 -w", job->naive_flags);
    wrong = compile_object(arena, &command, arena_printf(arena, "%s/naive.c", folder), naive);
  }
  const char *define = arena_printf(arena, "-DPK_KERNEL=pk_harness_kernel%s%s",
                                    job->naive ? " -DPK_JUDGE=pk_harness_judge" : "",
                                    job->timed ? " -DPK_NAIVE=pk_harness_naive" : "");
  const char *harness =
      wrong ? NULL
            : support_object(arena, job, support, h, cache, folder, "harness.c", define, &wrong);
  const char *cpu =
      wrong ? NULL : support_object(arena, job, support, h, cache, folder, "cpu.c", "", &wrong);
  if (wrong) return wrong;
  Command command = compiler_flags(arena, job, support, "-O2", job->flags);
  add_word(arena, &command, arena_printf(arena, "-I%s", folder));
  if (support->micro) add_word(arena, &command, micro_define(arena, job->micro));
  add_word(arena, &command,
           arena_printf(arena, "-Wl,--defsym=pk_harness_kernel=%s_kernel", job->symbol));
  if (job->naive) add_symbol(arena, &command, "judge", job->symbol);
  if (job->timed) add_symbol(arena, &command, "naive", job->symbol);
  add_word(arena, &command, "-o");
  add_word(arena, &command, arena_printf(arena, "%s/program", folder));
  add_word(arena, &command, arena_printf(arena, "%s/kernel.c", folder));
  add_word(arena, &command, harness);
  add_word(arena, &command, cpu);
  if (job->naive) add_word(arena, &command, naive);
  if (support->micro) add_word(arena, &command, support->micro);
  add_word(arena, &command, support->library);
  add_word(arena, &command, "-lm");
  return compile(arena, &command);
}

// libpkrt_TARGET.a beside libpkrt.a, or NULL. $PKC_MICRO=0 compiles micro-kernels with the kernel.
static const char *micro_library(Arena *arena, const char *library, const char *target) {
  const char *wish = getenv("PKC_MICRO");
  size_t length = strlen(library);
  if (!target || length < 2 || (wish && strcmp(wish, "0") == 0)) return NULL;
  const char *path = arena_printf(arena, "%.*s_%s.a", (int)length - 2, library, target);
  return access(path, R_OK) == 0 ? path : NULL;
}

static const char *find_support(Arena *arena, const BuildJob *job, Support *support) {
  *support = (Support){.include = support_path(arena, "include"),
                       .library = support_path(arena, "libpkrt.a"),
                       .runtime = support_path(arena, "runtime")};
  const char *library = getenv("PKC_LIBRARY");
  if (library && *library) support->library = library;
  if (support->library) support->micro = micro_library(arena, support->library, job->micro);
  if (support->include && support->library && support->runtime) return NULL;
  return arena_printf(arena, "pkc's own %s not found beside %s: is the installation complete?",
                      !support->include   ? "headers (pk/rt.h) were"
                      : !support->library ? "library (libpkrt.a) was"
                                          : "harness.c was",
                      executable_folder(arena));
}

const char *build_program(Arena *arena, const BuildJob *job, bool *temporary,
                          const char **message) {
  Support support;
  const char *version = "";
  *temporary = false;
  *message = find_support(arena, job, &support);
  if (!*message) *message = compiler_version(arena, compiler_command(job), &version);
  if (*message) return NULL;
  Hash h = key_of_support(arena, job, &support, version);
  const char *cache = job->no_cache ? NULL : cache_folder(arena), *kept = NULL;
  if (cache) {
    kept = arena_printf(arena, "%s/%s", cache, key_of(arena, job, h));
    if (access(kept, X_OK) == 0 && is_whole_entry(kept)) return kept;
  }
  const char *folder = temporary_folder(arena, cache);
  if (!folder) {
    *message = arena_printf(arena, "cannot make a folder for compiling in %s: %s",
                            cache ? cache : "$TMPDIR or /tmp", strerror(errno));
    return NULL;
  }
  *message = compile_in(arena, job, &support, h, cache, folder);
  const char *program = arena_printf(arena, "%s/program", folder);
  if (!*message && kept && rename(program, kept) != 0)
    *message = arena_printf(arena, "cannot write %s: %s", kept, strerror(errno));
  if (*message || kept) remove_folder(arena, folder);
  if (kept && !*message) limit_cache(arena, cache);
  if (*message) return NULL;
  *temporary = !kept;
  return kept ? kept : program;
}
