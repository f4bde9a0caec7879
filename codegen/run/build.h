// Inside of codegen/run: the cache, the C compiler.
#ifndef PKC_BUILD_H
#define PKC_BUILD_H

#include "codegen/run/run.h"

struct stat;

// ---- cache.c

// Of 128 bits: what an entry of the cache depends on.
typedef struct {
  uint64_t a, b;
} Hash;

void hash_add(Hash *h, const char *bytes, size_t length);
void hash_text(Hash *h, const char *text);
void hash_file(Hash *h, const char *path);
// Every file below a folder, in the order of their names.
void hash_folder(Arena *arena, Hash *h, const char *folder);
const char *hash_name(Arena *arena, Hash h);

// The cache folder, made if need be; NULL when there can be none, with a warning where one was to
// be expected: a home that does not exist is not made.
const char *cache_folder(Arena *arena);
// A file that belongs to this user and that no other user can have written.
bool is_own_file(const struct stat *st);
// Waits until no other process makes this entry, and keeps others from it until unlock_entry. -1:
// they are not kept from it.
int lock_entry(Arena *arena, const char *cache, Hash entry);
void unlock_entry(int lock);
// An entry of this key, as it was kept. Counts as a use.
bool is_kept(const char *path, Hash key);
// A copy of the ELF file `made` that is tied to the key; false, with a warning, where the cache
// does not take it.
bool keep_entry(Arena *arena, const char *cache, const char *made, const char *kept, Hash key);
// Removes the entries that were used longest ago, until the rest fits, and folders that a killed
// process left. What was used within the hour stays: another process may be about to run it.
void limit_cache(Arena *arena, const char *cache);

// ---- compiler.c

typedef LIST(const char *) Command;

const char *compiler_command(const BuildJob *job);
void add_word(Arena *arena, Command *command, const char *word);
// Flags, and the compiler's own name: split at blanks.
void add_words(Arena *arena, Command *command, const char *text);
// Runs the compiler; NULL or its complaints.
const char *compile(Arena *arena, Command *command);
const char *compile_object(Arena *arena, Command *command, const char *source, const char *object);
// What `cc --version` says, once a command.
const char *compiler_version(Arena *arena, const char *cc, const char **version);

// The header at `path`, of the given text, for `-include`, when it is precompiled already or when
// it is now: reading <immintrin.h> takes longer than compiling most kernels. `flags`: the compiler
// and all that it must be told. NULL: compile without.
const char *precompiled_header(Arena *arena, const char *path, const char *text, const char *cache,
                               Command flags);
void forget_precompiled(Arena *arena, const char *path);

#endif
