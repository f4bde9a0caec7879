// The C compiler, and precompiled headers of kernels.
#define _GNU_SOURCE
#include "codegen/run/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *compiler_command(const BuildJob *job) {
  const char *cc = job->cc ? job->cc : getenv("CC");
  return cc && *cc ? cc : "cc";
}

void add_word(Arena *arena, Command *command, const char *word) { LIST_PUSH(arena, command, word); }

void add_words(Arena *arena, Command *command, const char *text) {
  const char *const *words = split_words(arena, &text, 1);
  for (int i = 0; words[i]; i++) add_word(arena, command, words[i]);
}

// The output file of a command, or NULL.
static const char *result_of(const char *const *words) {
  for (; words[0] && words[1]; words++)
    if (strcmp(words[0], "-o") == 0) return words[1];
  return NULL;
}

const char *compile(Arena *arena, Command *command) {
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
  else if (result_of(words) && access(result_of(words), F_OK) != 0)
    wrong = arena_printf(arena,
                         "%s ended without an error and wrote no %s: is it a C compiler? "
                         "$CC names another one",
                         words[0], result_of(words));
  buf_free(&output);
  buf_free(&errors);
  return wrong;
}

const char *compiler_version(Arena *arena, const char *cc, const char **version) {
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

const char *compile_object(Arena *arena, Command *command, const char *source, const char *object) {
  add_word(arena, command, "-c");
  add_word(arena, command, "-o");
  add_word(arena, command, object);
  add_word(arena, command, source);
  return compile(arena, command);
}

// ---- precompiled headers

// The time for making one is saved after this number of compilations. Every such number of
// compilations tries again, in case it failed or was removed from the cache.
enum { PRECOMPILE_EACH = 8 };

// Complete, and written by this user: it begins as GCC's and Clang's files do.
static bool is_precompiled(const char *path) {
  char head[4];
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  bool whole = fstat(fd, &st) == 0 && is_own_file(&st) && read(fd, head, 4) == 4 &&
               (memcmp(head, "gpch", 4) == 0 || memcmp(head, "CPCH", 4) == 0);
  if (whole) futimens(fd, NULL);
  close(fd);
  return whole;
}

// Counts this compilation, as one byte in the file `uses`. Must it make the header? Then `*lock` is
// a file descriptor that excludes others until it is closed.
static bool is_due(const char *uses, int *lock) {
  struct stat st;
  int fd = open(uses, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool due = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
             is_own_file(&st) && write(fd, ".", 1) == 1 &&
             st.st_size % PRECOMPILE_EACH == PRECOMPILE_EACH - 1;
  if (!due && fd >= 0) close(fd);
  *lock = due ? fd : -1;
  return due;
}

// Whole or not at all.
static bool precompile(Arena *arena, const char *path, const char *made, const char *cache,
                       Command *flags) {
  const char *folder = temporary_folder(arena, cache);
  if (!folder) return false;
  const char *temporary = arena_printf(arena, "%s/header.gch", folder);
  add_words(arena, flags, "-x c-header");
  bool done = !compile_object(arena, flags, path, temporary) && rename(temporary, made) == 0;
  remove_folder(arena, folder);
  return done;
}

const char *precompiled_header(Arena *arena, const char *path, const char *text, const char *cache,
                               Command flags) {
  const char *made = arena_printf(arena, "%s.gch", path);
  int lock;
  if (is_precompiled(made)) return path;
  if (!is_due(arena_printf(arena, "%s.uses", path), &lock)) return NULL;
  bool done = write_file(path, text, strlen(text)) && precompile(arena, path, made, cache, &flags);
  close(lock);
  return done ? path : NULL;
}

void forget_precompiled(Arena *arena, const char *path) {
  unlink(arena_printf(arena, "%s.gch", path));
}
