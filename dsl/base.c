// Memory, strings and small containers of the compiler.
#define _XOPEN_SOURCE 700

#include "dsl/base.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void internal_error(const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "pkc: internal error at %s:%d: ", file, line);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\nThis is a bug in pkc. Please report it with the input that caused it.\n");
  abort();
}

void exhausted(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "pkc: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
  exit(1);
}

static NORETURN void out_of_memory(size_t bytes) {
  exhausted("out of memory (%zu bytes wanted)", bytes);
}

// ---- arenas

typedef struct Chunk {
  struct Chunk *next;
  size_t used, size;
} Chunk;
struct Arena {
  Chunk *chunks;
};

enum { CHUNK_BYTES = 1 << 16, ALIGN = 16 };

Arena *arena_new(void) {
  Arena *arena = calloc(1, sizeof *arena);
  if (!arena) out_of_memory(sizeof *arena);
  return arena;
}

void arena_empty(Arena *arena) {
  for (Chunk *c = arena->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  arena->chunks = NULL;
}

void arena_free(Arena *arena) {
  if (!arena) return;
  arena_empty(arena);
  free(arena);
}

void *arena_alloc(Arena *arena, size_t bytes) {
  if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
  size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN,
         head = (sizeof(Chunk) + ALIGN - 1) / ALIGN * ALIGN;
  Chunk *c = arena->chunks;
  if (!c || c->size - c->used < need) {
    size_t size = head + (need > CHUNK_BYTES ? need : CHUNK_BYTES);
    c = calloc(1, size);
    if (!c) out_of_memory(size);
    *c = (Chunk){arena->chunks, head, size};
    arena->chunks = c;
  }
  void *p = (char *)c + c->used;
  c->used += need;
  return p;
}

char *arena_strndup(Arena *arena, const char *text, size_t length) {
  char *copy = arena_alloc(arena, length + 1);
  if (length) memcpy(copy, text, length);
  return copy;
}

char *arena_take(Arena *arena, Buf *buf) {
  char *copy = arena_strndup(arena, buf->text ? buf->text : "", buf->length);
  buf_free(buf);
  return copy;
}

char *arena_vprintf(Arena *arena, const char *format, va_list args) {
  Buf buf = {0};
  buf_vprintf(&buf, format, args);
  return arena_take(arena, &buf);
}

char *arena_printf(Arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = arena_vprintf(arena, format, args);
  va_end(args);
  return text;
}

void list_grow(Arena *arena, void **at, int *capacity, size_t item_bytes, int count) {
  int wider = *capacity ? *capacity * 2 : 8;
  void *copy = arena_alloc(arena, item_bytes * (size_t)wider);
  if (count) memcpy(copy, *at, item_bytes * (size_t)count);
  *at = copy;
  *capacity = wider;
}

// ---- interning: open addressing, never freed before exit

static struct {
  const char **slots;
  size_t capacity, count;
  Arena *arena;
} names;

static uint64_t hash_bytes(const char *text, size_t length) {
  uint64_t h = 1469598103934665603u;  // FNV-1a
  for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
  return h;
}

static const char **find_slot(const char *text, size_t length) {
  size_t mask = names.capacity - 1, at = hash_bytes(text, length) & mask;
  while (names.slots[at] &&
         (strncmp(names.slots[at], text, length) != 0 || names.slots[at][length]))
    at = (at + 1) & mask;
  return &names.slots[at];
}

static void grow_names(void) {
  const char **old = names.slots;
  size_t count = names.capacity;
  names.capacity = count ? count * 2 : 1024;
  names.slots = calloc(names.capacity, sizeof *names.slots);
  if (!names.slots) out_of_memory(names.capacity * sizeof *names.slots);
  for (size_t i = 0; i < count; i++)
    if (old[i]) *find_slot(old[i], strlen(old[i])) = old[i];
  free((void *)old);
}

const char *intern_n(const char *text, size_t length) {
  if (!names.arena) names.arena = arena_new();
  if (names.count * 2 >= names.capacity) grow_names();
  const char **slot = find_slot(text, length);
  if (!*slot) {
    *slot = arena_strndup(names.arena, text, length);
    names.count++;
  }
  return *slot;
}

const char *intern(const char *text) { return intern_n(text, strlen(text)); }

const char *intern_vprintf(const char *format, va_list args) {
  Buf buf = {0};
  buf_vprintf(&buf, format, args);
  const char *result = intern(buf.text);
  buf_free(&buf);
  return result;
}

const char *intern_printf(const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *result = intern_vprintf(format, args);
  va_end(args);
  return result;
}

// ---- text buffers

static void buf_reserve(Buf *buf, size_t more) {
  if (buf->capacity - buf->length > more) return;
  size_t capacity = (buf->length + more + 1) * 2;
  char *text = realloc(buf->text, capacity);
  if (!text) out_of_memory(capacity);
  buf->text = text;
  buf->capacity = capacity;
}

void buf_add(Buf *buf, const char *text, size_t length) {
  buf_reserve(buf, length);
  if (length) memcpy(buf->text + buf->length, text, length);
  buf->length += length;
  buf->text[buf->length] = 0;
}

void buf_puts(Buf *buf, const char *text) { buf_add(buf, text, strlen(text)); }
void buf_putc(Buf *buf, char c) { buf_add(buf, &c, 1); }

void buf_vprintf(Buf *buf, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  REQUIRE(length >= 0);
  buf_reserve(buf, (size_t)length);
  vsnprintf(buf->text + buf->length, (size_t)length + 1, format, again);
  va_end(again);
  buf->length += (size_t)length;
}

void buf_printf(Buf *buf, const char *format, ...) {
  va_list args;
  va_start(args, format);
  buf_vprintf(buf, format, args);
  va_end(args);
}

void buf_free(Buf *buf) {
  free(buf->text);
  *buf = (Buf){0};
}

// ---- files

// See base.h.
char *read_file(Arena *arena, const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  struct stat st;
  if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
    fclose(f);
    errno = EISDIR;
    return NULL;
  }
  Buf buf = {0};
  char block[1 << 14];
  size_t got;
  while (buf.length <= MOST_TEXT && (got = fread(block, 1, sizeof block, f)) > 0)
    buf_add(&buf, block, got);
  int failed = ferror(f) ? errno : buf.length > MOST_TEXT ? EFBIG : 0;
  fclose(f);
  char *text = failed ? NULL : arena_strndup(arena, buf.text, buf.length);
  *length = buf.length;
  buf_free(&buf);
  if (failed) errno = failed;
  return text;
}

_Static_assert(MOST_TEXT == 64 << 20, "what read_problem says");

const char *read_problem(void) {
  return errno == EFBIG ? "it has more than 64 MiB, the most that pkc reads" : strerror(errno);
}

bool write_all(int fd, const char *text, size_t length) {
  while (length > 0) {
    ssize_t put = write(fd, text, length);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text += put;
    length -= (size_t)put;
  }
  return true;
}

// Writes in place: to a device or a pipe (/dev/stdout, /dev/full), or to a file in a folder where
// no other file can be created.
static bool write_in_place(const char *path, const char *text, size_t length) {
  struct stat st;
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  bool ok = write_all(fd, text, length);
  if (ok && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) ok = ftruncate(fd, (off_t)length) == 0;
  return close(fd) == 0 && ok;
}

enum { MOST_TRIES = 100 };

// Creates a new file next to `path`; `name` receives its name.
static int open_next_to(const char *path, Buf *name) {
  int fd = -1;
  for (int i = 0; i < MOST_TRIES; i++) {
    buf_free(name);
    buf_printf(name, "%s.%ld-%d.tmp", path, (long)getpid(), i);
    fd = open(name->text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return fd;
}

// Sets the owner and mode of the replaced file. Only root can change the owner; otherwise only the
// mode is set.
static void keep_mode(int fd, const struct stat *old) {
  if (fchown(fd, old->st_uid, old->st_gid) != 0) errno = 0;
  if (fchmod(fd, old->st_mode & 0777) != 0) errno = 0;
}

// `path` is not a link; `old` is NULL where nothing is replaced.
static bool replace_file(const char *path, const struct stat *old, const char *text,
                         size_t length) {
  Buf temp = {0};
  int fd = open_next_to(path, &temp);
  if (fd < 0 && old &&
      (errno == EACCES || errno == EPERM || errno == EROFS || errno == ENAMETOOLONG)) {
    buf_free(&temp);
    return write_in_place(path, text, length);
  }
  bool ok = fd >= 0 && write_all(fd, text, length);
  if (ok && old) keep_mode(fd, old);
  if (fd >= 0 && close(fd) != 0) ok = false;
  if (ok && rename(temp.text, path) != 0) ok = false;
  int failed = errno;
  if (!ok && fd >= 0) unlink(temp.text);
  buf_free(&temp);
  errno = failed;
  return ok;
}

bool write_file(const char *path, const char *text, size_t length) {
  struct stat st;
  bool exists = stat(path, &st) == 0,
       link = lstat(path, &(struct stat){0}) == 0 && !exists;  // to a file that is not there
  if (link || (exists && !S_ISREG(st.st_mode))) return write_in_place(path, text, length);
  if (exists && access(path, W_OK) != 0) return false;
  char *target = exists ? realpath(path, NULL) : NULL;  // a link remains a link
  bool ok = replace_file(target ? target : path, exists ? &st : NULL, text, length);
  int failed = errno;
  free(target);
  errno = failed;
  return ok;
}

// ---- numbers and names

const char *format_double(Arena *arena, double value) {
  if (isnan(value)) return "nan";
  if (isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  if (strchr(text, '.')) return arena_printf(arena, "%s", text);
  char *exponent = strchr(text, 'e');
  if (!exponent) return arena_printf(arena, "%s.0", text);
  return arena_printf(arena, "%.*s.0%s", (int)(exponent - text), text, exponent);
}

enum { LONGEST_NAME = 64 };

static int edit_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b);
  if (n >= LONGEST_NAME || m >= LONGEST_NAME) return LONGEST_NAME;
  int rows[3][LONGEST_NAME] = {{0}};
  for (size_t j = 0; j <= m; j++) rows[0][j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int *row = rows[i % 3];
    const int *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[n % 3][m];
}

const char *closest_name(const char *name, const char *const *candidates, int count) {
  int allowed = strlen(name) < 4 ? 1 : 2, best = allowed + 1;
  const char *found = NULL;
  for (int i = 0; i < count; i++) {
    int d = edit_distance(name, candidates[i]);
    if (d < best) {
      best = d;
      found = candidates[i];
    }
  }
  return found;
}

bool is_in_list(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strncmp(at, name, length) == 0 && (!at[length] || at[length] == ',')) return true;
  return false;
}

const char *list_with(Arena *arena, const char *list, const char *name) {
  if (!list) return name;
  return is_in_list(list, name) ? list : arena_printf(arena, "%s,%s", list, name);
}

size_t utf8_decode(const char *text, size_t left, uint32_t *point) {
  const unsigned char *c = (const unsigned char *)text;
  size_t length = c[0] < 0x80                   ? 1
                  : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                  : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
                  : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                : 0;
  if (!length || length > left) return 0;
  *point = length == 1 ? c[0] : c[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((c[i] & 0xc0) != 0x80) return 0;
    *point = *point << 6 | (c[i] & 0x3f);
  }
  bool overlong = (length == 3 && *point < 0x800) || (length == 4 && *point < 0x10000);
  bool surrogate = *point >= 0xd800 && *point < 0xe000;
  return overlong || surrogate || *point > 0x10ffff ? 0 : length;
}

// Returns 0 also for characters that control a terminal: control characters, direction marks.
size_t shown_length(const char *text, size_t at, size_t end) {
  uint32_t point = 0;
  size_t length = utf8_decode(text + at, end - at, &point);
  bool acts = point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c ||
              (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
              (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
  return acts ? 0 : length;
}

const char *fill_template(Arena *arena, const char *text, const char *const *operands,
                          const char *(*word)(void *context, char letter), void *context) {
  Buf buf = {0};
  for (const char *at = text; *at; at++) {
    if (*at != '$')
      buf_putc(&buf, *at);
    else if (*++at >= '0' && *at <= '9')
      buf_puts(&buf, operands[*at - '0']);
    else
      buf_puts(&buf, word(context, *at));
  }
  return arena_take(arena, &buf);
}

// ---- sorting

typedef struct {
  size_t bytes;  // of an item
  CompareIn *compare;
  const void *context;
} Order;

static void merge(const Order *o, char *to, const char *left, size_t lefts, const char *right,
                  size_t rights) {
  bool ordered = rights == 0 || o->compare(o->context, right - o->bytes, right) <= 0;
  if (ordered) lefts += rights, rights = 0;  // they follow each other in memory
  while (lefts && rights) {
    bool take_left = o->compare(o->context, left, right) <= 0;
    const char **from = take_left ? &left : &right;
    *(take_left ? &lefts : &rights) -= 1;
    memcpy(to, *from, o->bytes);
    *from += o->bytes;
    to += o->bytes;
  }
  memcpy(to, lefts ? left : right, (lefts + rights) * o->bytes);
}

void sort_items_in(void *items, size_t count, size_t bytes, CompareIn *compare,
                   const void *context) {
  if (count < 2) return;
  const Order order = {bytes, compare, context};
  char *spare = malloc(count * bytes), *from = items, *to = spare;
  if (!spare) out_of_memory(count * bytes);
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t lefts = count - start < width ? count - start : width;
      size_t rights = count - start - lefts < width ? count - start - lefts : width;
      const char *left = from + start * bytes;
      merge(&order, to + start * bytes, left, lefts, left + lefts * bytes, rights);
    }
    char *sorted = to;
    to = from;
    from = sorted;
  }
  if (from == spare) memcpy(items, spare, count * bytes);
  free(spare);
}

static int compare_plain(const void *context, const void *a, const void *b) {
  return (*(Compare *const *)context)(a, b);
}

void sort_items(void *items, size_t count, size_t bytes, Compare *compare) {
  sort_items_in(items, count, bytes, compare_plain, &compare);
}

int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
