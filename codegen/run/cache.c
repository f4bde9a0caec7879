// The cache folder: an entry is named by a hash of everything on which it depends.
#define _GNU_SOURCE
#include "codegen/run/build.h"
#include "codegen/run/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// ---- hashes

void hash_add(Hash *h, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    h->a = (h->a ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    h->b = (h->b + (unsigned char)bytes[i] + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h->b ^= h->b >> 29;
  }
  h->a = (h->a ^ 0xff) * UINT64_C(0x100000001b3);
}

void hash_text(Hash *h, const char *text) {
  hash_add(h, text ? text : "", text ? strlen(text) + 1 : 0);
}

void hash_file(Hash *h, const char *path) {
  FILE *file = fopen(path, "rb");
  char block[1 << 14];
  size_t got;
  while (file && (got = fread(block, 1, sizeof block, file)) > 0) hash_add(h, block, got);
  if (file) fclose(file);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void hash_folder(Arena *arena, Hash *h, const char *folder) {
  LIST(const char *) names = {0};
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.')
      LIST_PUSH(arena, &names, arena_strndup(arena, entry->d_name, strlen(entry->d_name)));
  if (dir) closedir(dir);
  sort_items(names.at, (size_t)names.count, sizeof *names.at, by_name);
  for (int i = 0; i < names.count; i++) {
    const char *path = arena_printf(arena, "%s/%s", folder, names.at[i]);
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
      hash_folder(arena, h, path);
    else
      hash_file(h, path);
  }
}

const char *hash_name(Arena *arena, Hash h) {
  return arena_printf(arena, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
}

// ---- folders

enum {
  CACHE_LIMIT = 1 << 30,             // bytes of all entries
  IN_USE_SECONDS = 60 * 60,          // an entry that was used within this time is not removed
  ABANDONED_SECONDS = 24 * 60 * 60,  // a temporary folder of this age is abandoned
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

bool is_own_file(const struct stat *st) { return S_ISREG(st->st_mode) && is_own(st); }

// Other users must not be able to write there, because its files are executed.
bool is_own_folder(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && is_own(&st);
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// Programs are then compiled in a temporary folder.
static void refuse_cache(const char *path, const char *why) {
  static bool said;
  if (!said) fprintf(stderr, "pkc: warning: the cache %s is not used: %s\n", path, why);
  said = true;
}

static char *cache_path(Arena *arena) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (base && *base == '/') return arena_printf(arena, "%s/pkc", base);
  if (home && *home == '/' && is_folder(home)) return arena_printf(arena, "%s/.cache/pkc", home);
  return NULL;
}

const char *existing_cache_folder(Arena *arena) {
  const char *path = cache_path(arena);
  return path && is_own_folder(path) ? path : NULL;
}

const char *cache_folder(Arena *arena) {
  char *path = cache_path(arena);
  if (!path) return NULL;
  bool can_write = make_folders(path) && access(path, W_OK) == 0;
  if (can_write && is_own_folder(path)) return path;
  refuse_cache(path, can_write ? "others own it or may write there" : strerror(errno));
  return NULL;
}

// ---- entries

// The trailer of an entry's file, after everything that the loader and the linker read. It detects
// renamed and damaged entries, which are built again.
typedef struct {
  char magic[8];
  Hash key, contents;
} Seal;

static Seal seal_of(Hash key, const char *contents, size_t length) {
  Seal seal = {"pkc kept", key, key};
  hash_add(&seal.contents, contents, length);
  return seal;
}

bool is_kept(const char *path, Hash key) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  bool own = fstat(fd, &st) == 0 && is_own_file(&st) && (st.st_mode & S_IXUSR) &&
             st.st_size >= (off_t)sizeof(Seal);
  size_t length = own ? (size_t)st.st_size : 0;
  char *bytes = own ? mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  bool good = bytes != MAP_FAILED;
  if (good) {
    Seal seal = seal_of(key, bytes, length - sizeof seal);
    good = memcmp(&seal, bytes + length - sizeof seal, sizeof seal) == 0;
    munmap(bytes, length);
  }
  if (good) futimens(fd, NULL);  // the oldest are removed first
  close(fd);
  return good;
}

bool write_entry(Arena *arena, const char *cache, const char *kept, const Buf *entry, bool run) {
  char *path = arena_printf(arena, "%s/pkc-XXXXXX", cache);
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0) return false;
  bool good = write_all(fd, entry->text, entry->length) && fchmod(fd, run ? 0700 : 0600) == 0;
  good = close(fd) == 0 && good && rename(path, kept) == 0;
  int failed = errno;
  if (!good) unlink(path);
  errno = failed;
  return good;
}

bool keep_entry(Arena *arena, const char *cache, const char *made, const char *kept, Hash key) {
  size_t length;
  const char *contents = read_file(arena, made, &length);
  Buf entry = {0};
  if (contents) {
    Seal seal = seal_of(key, contents, length);
    buf_add(&entry, contents, length);
    buf_add(&entry, (const char *)&seal, sizeof seal);
  }
  bool good = contents && write_entry(arena, cache, kept, &entry, true);
  if (!good) refuse_cache(cache, read_problem());
  buf_free(&entry);
  return good;
}

// A byte of one file for each entry: it is never larger than empty.
int lock_entry(Arena *arena, const char *cache, Hash entry) {
  struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  byte.l_start = (off_t)(entry.a >> 2);
  int lock = open(arena_printf(arena, "%s/.locks", cache),
                  O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0 || fcntl(lock, F_SETLKW, &byte) == 0) return lock;
  close(lock);
  return -1;
}

void unlock_entry(int lock) {
  if (lock >= 0) close(lock);
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

// $PKC_CACHE_LIMIT: bytes, optionally followed by K, M or G.
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

void limit_cache(Arena *arena, const char *cache) {
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
  sort_items(entries.at, (size_t)entries.count, sizeof *entries.at, by_use);
  for (int i = 0; i < entries.count && entries.at[i].used + IN_USE_SECONDS < now; i++) {
    const Entry *entry = &entries.at[i];
    if (entry->folder && entry->used + ABANDONED_SECONDS < now) remove_folder(arena, entry->path);
    if (!entry->folder && bytes > limit && unlink(entry->path) == 0) bytes -= entry->bytes;
  }
}
