// Internal to codegen/run: the cache, the C compiler.
#ifndef PKC_BUILD_H
#define PKC_BUILD_H

#include "codegen/run/run.h"

struct stat;

// ---- cache.c

// A hash of 128 bits of everything that an entry of the cache depends on.
typedef struct {
  uint64_t a, b;
} Hash;

void hash_add(Hash *h, const char *bytes, size_t length);
void hash_text(Hash *h, const char *text);
void hash_file(Hash *h, const char *path);
// Every file below a folder, in the order of the names.
void hash_folder(Arena *arena, Hash *h, const char *folder);
const char *hash_name(Arena *arena, Hash h);

// The cache folder, which is created if necessary. NULL if there is none, with a warning unless the
// home folder does not exist, which is not created.
const char *cache_folder(Arena *arena);
// The same, but it is neither created nor warned of.
const char *existing_cache_folder(Arena *arena);
// Is it a folder of this user in which no other user can write?
bool is_own_folder(const char *path);
// Is the file owned by this user, and can no other user have written it?
bool is_own_file(const struct stat *st);
// Waits until no other process creates this entry, and locks it until unlock_entry. -1: not locked.
int lock_entry(Arena *arena, const char *cache, Hash entry);
void unlock_entry(int lock);
// An entry of this key, as it was stored. Marks it as used.
bool is_kept(const char *path, Hash key);
// Stores a copy of the ELF file `made`, tied to the key; false, with a warning, if the cache
// rejects it.
bool keep_entry(Arena *arena, const char *cache, const char *made, const char *kept, Hash key);
// Writes a file of the folder, as a whole or not at all; `run`: it is a program. False with errno.
bool write_entry(Arena *arena, const char *cache, const char *kept, const Buf *entry, bool run);
// Removes the least recently used entries until the others fit, and folders left by killed
// processes. Entries used within the last hour remain, because another process may be about to run
// them.
void limit_cache(Arena *arena, const char *cache);

// ---- build.c

// The features on which `-march=native` depends, and the model: several machines may share a home
// folder.
const char *processor_text(void);

// ---- compiler.c

typedef LIST(const char *) Command;

const char *compiler_command(const BuildJob *job);
void add_word(Arena *arena, Command *command, const char *word);
// Splits flags, or the compiler's name, at blanks.
void add_words(Arena *arena, Command *command, const char *text);
// Runs the compiler; returns NULL or its messages.
const char *compile(Arena *arena, Command *command);
const char *compile_object(Arena *arena, Command *command, const char *source, const char *object);
// The output of `cc --version`, read once per command.
const char *compiler_version(Arena *arena, const char *cc, const char **version);

// A precompiled header for `-include`, made from `text`, which exists already or is compiled now:
// reading <immintrin.h> takes longer than compiling most kernels. `flags`: the compiler and all its
// flags. NULL: compile without.
const char *precompiled_header(Arena *arena, const char *path, const char *text, const char *cache,
                               Command flags);
void forget_precompiled(Arena *arena, const char *path);

#endif
