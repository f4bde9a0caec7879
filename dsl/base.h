// Memory, strings and small containers of the compiler.
//
// Everything the compiler allocates lives in an Arena and is freed with it: single objects are
// never freed. Names are interned, so two names are equal if their pointers are.
#ifndef DSL_BASE_H
#define DSL_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#else
#define PRINTF_LIKE(fmt, args)
#define NORETURN
#endif

// An internal error: says where, asks for a report, aborts. Never the answer to bad input.
NORETURN void internal_error(const char *file, int line, const char *format, ...) PRINTF_LIKE(3, 4);
#define INTERNAL(...) internal_error(__FILE__, __LINE__, __VA_ARGS__)
#define REQUIRE(cond) ((cond) ? (void)0 : INTERNAL("%s", #cond))

// For exhausted resources of the system, such as memory or threads: prints the message and exits
// with status 1.
NORETURN void exhausted(const char *format, ...) PRINTF_LIKE(1, 2);

typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *arena);
void arena_empty(Arena *arena);  // frees what it holds
// zeroed, aligned to 16; calls `exhausted` if there is no memory
void *arena_alloc(Arena *arena, size_t bytes);
char *arena_strndup(Arena *arena, const char *text, size_t length);
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *arena, const char *format, va_list args);
#define NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define NEW_ARRAY(arena, type, count) ((type *)arena_alloc((arena), sizeof(type) * (size_t)(count)))

// Interns a text for the life of the process: equal texts have the same pointer.
const char *intern(const char *text);
const char *intern_printf(const char *format, ...) PRINTF_LIKE(1, 2);
const char *intern_vprintf(const char *format, va_list args);
const char *intern_n(const char *text, size_t length);

// A growing array in an arena: LIST(T) is { T *at; int count, capacity; }.
#define LIST(type)       \
  struct {               \
    type *at;            \
    int count, capacity; \
  }
#define LIST_PUSH(arena, list, value)                                                              \
  ((list)->count == (list)->capacity ? list_grow((arena), (void **)&(list)->at, &(list)->capacity, \
                                                 sizeof *(list)->at, (list)->count)                \
                                     : (void)0,                                                    \
   (list)->at[(list)->count++] = (value))
void list_grow(Arena *arena, void **at, int *capacity, size_t item_bytes, int count);

// Text under construction, on the heap; always NUL-terminated after the first addition.
typedef struct {
  char *text;
  size_t length, capacity;
} Buf;
void buf_add(Buf *buf, const char *text, size_t length);
void buf_puts(Buf *buf, const char *text);
void buf_putc(Buf *buf, char c);
void buf_printf(Buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(Buf *buf, const char *format, va_list args);
void buf_free(Buf *buf);
char *arena_take(Arena *arena, Buf *buf);  // the text, moved to an arena

// Whole files. read_file returns NULL with errno set, EFBIG of a file or pipe of more than
// MOST_TEXT bytes; the text has a NUL after its length bytes. read_problem then gives the message
// for errno.
enum { MOST_TEXT = 64 << 20 };
char *read_file(Arena *arena, const char *path, size_t *length);
const char *read_problem(void);
// Writes to a new file next to the target and renames it, so that a full disk leaves the old file.
// Mode and owner of the replaced file are preserved, a link remains a link, and a file that is not
// regular is written in place. Returns false with errno set.
bool write_file(const char *path, const char *text, size_t length);
bool write_all(int fd, const char *bytes, size_t length);  // false with errno

// The shortest decimal text that reads back as the same double, always with a digit on both sides
// of the point ("1.0", "1e-06" is written "0.000001" or "1.0e-06"); "inf", "-inf", "nan".
const char *format_double(Arena *arena, double value);

// For "did you mean": the candidate at an edit distance of at most 2 (1 for names of fewer than 4
// letters), or NULL. Two letters that have changed places are one edit.
const char *closest_name(const char *name, const char *const *candidates, int count);

// Is the name one of a list of names, which are separated by commas? NULL is the empty list.
bool is_in_list(const char *list, const char *name);
// The list with a name that it may have already. NULL is the empty list.
const char *list_with(Arena *arena, const char *list, const char *name);

// The bytes of the UTF-8 character that begins a text of `left` bytes; 0 when it is malformed.
size_t utf8_decode(const char *text, size_t left, uint32_t *point);

// The bytes of the UTF-8 character at text + at; 0 when it is malformed or must not be shown
// (controls, direction marks).
size_t shown_length(const char *text, size_t at, size_t end);

// `text` with each $k replaced by operands[k], and $X, where X is a letter, by word(context, X).
const char *fill_template(Arena *arena, const char *text, const char *const *operands,
                          const char *(*word)(void *context, char letter), void *context);

// Stable sorts: equal items keep their order, which qsort's depends on the C library for. `items`
// may be NULL if count is 0. Items that are nearly in order take time linear in their bytes.
typedef int Compare(const void *a, const void *b);
void sort_items(void *items, size_t count, size_t bytes, Compare *compare);
int compare_doubles(const void *a, const void *b);
typedef int CompareIn(const void *context, const void *a, const void *b);
void sort_items_in(void *items, size_t count, size_t bytes, CompareIn *compare,
                   const void *context);

// Arithmetic that reports overflow: true when the exact result fits and was stored.
static inline bool add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool sub_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_sub_overflow(a, b, out);
}
static inline bool mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

// The same for nonnegative numbers: INT64_MAX represents "too large".
static inline int64_t saturating_add(int64_t a, int64_t b) {
  return add_i64(a, b, &a) ? a : INT64_MAX;
}
static inline int64_t saturating_mul(int64_t a, int64_t b) {
  return mul_i64(a, b, &a) ? a : INT64_MAX;
}

#endif
