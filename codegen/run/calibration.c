// Reads and writes the calibration of this machine.
#define _GNU_SOURCE
#include "codegen/run/calibration.h"
#include "codegen/run/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16 };
static const char first_line[] = "# pkc calibration 1", switched[] = "regime.";

static Hash hash_of(const char *text, size_t length) {
  Hash h = {UINT64_C(0xcbf29ce484222325), 7};
  hash_add(&h, text, length);
  return h;
}

static const char *processor_hash(Arena *arena) {
  const char *text = processor_text();
  return hash_name(arena, hash_of(text, strlen(text)));
}

// A hash of the numbers with which races compare: another version of pkc may have others.
static const char *tables_hash(Arena *arena) {
  Buf text = {0};
  core_write(target_find(target_find("native")->name)->core, "core", &text);
  const char *name = hash_name(arena, hash_of(text.text, text.length));
  buf_free(&text);
  return name;
}

const char *calibration_path(Arena *arena, bool make) {
  const char *cache = make ? cache_folder(arena) : existing_cache_folder(arena);
  if (!cache) return NULL;
  const char *folder = arena_printf(arena, "%s/.calibration", cache);
  if (make && mkdir(folder, 0700) != 0 && errno != EEXIST) return NULL;
  // Without the folder the processor is not identified.
  if (!is_own_folder(folder)) return NULL;
  return arena_printf(arena, "%s/%s", folder, processor_hash(arena));
}

// ---- reading

static bool read_regime(const char *name, int64_t value, Calibration *c) {
  for (int i = 0; i < regime_count(); i++) {
    if (!regime_is_optional(i) || strcmp(regime_name(i), name) != 0) continue;
    if (c->decided >> i & 1 || value < 0 || value > 1) return false;
    c->decided |= INT64_C(1) << i;
    c->regimes |= value << i;
    return true;
  }
  return false;
}

// NAME=VALUE; `line` is cut.
static bool read_number(char *line, Calibration *c) {
  char *equals = strchr(line, '=');
  int64_t value;
  if (!equals || !parse_int(equals + 1, &value)) return false;
  *equals = 0;
  if (strncmp(line, switched, strlen(switched)) == 0)
    return read_regime(line + strlen(switched), value, c);
  for (int i = 0; i < CALIBRATED_COUNT; i++) {
    const CalibratedRow *row = &calibrated_rows[i];
    if (strcmp(row->name, line) != 0) continue;
    if (c->known[i] || value < row->low || value > row->high) return false;
    c->known[i] = true;
    c->value[i] = value;
    return true;
  }
  return false;
}

// Removes the first line from the text and returns it; NULL: it has no end.
static char *next_line(char **text) {
  char *line = *text, *end = strchr(line, '\n');
  if (!end) return NULL;
  *end = 0;
  *text = end + 1;
  return line;
}

static const char damaged[] = "is damaged";

static const char *read_lines(Arena *arena, char *text, Calibration *c) {
  const char *const head[] = {first_line,
                              arena_printf(arena, "processor=%s", processor_hash(arena)),
                              arena_printf(arena, "tables=%s", tables_hash(arena))};
  static const char *const other[] = {"is of another version of pkc", "is of another processor",
                                      "was made for other tables of pkc"};
  for (int i = 0; i < 3; i++) {
    const char *line = next_line(&text);
    if (!line) return damaged;
    if (strcmp(line, head[i]) != 0) return other[i];
  }
  while (*text) {
    char *line = next_line(&text);
    if (!line || !read_number(line, c)) return damaged;
  }
  return NULL;
}

// The text of the file without its last line, if that is its seal.
static char *unsealed(Arena *arena, char *text, size_t length) {
  char *seal = NULL;
  for (char *at = text; (at = strstr(at, "\nseal=")); at++) seal = at + 1;
  if (!seal || memchr(text, 0, length)) return NULL;
  const char *expected =
      arena_printf(arena, "seal=%s\n", hash_name(arena, hash_of(text, (size_t)(seal - text))));
  if (strcmp(seal, expected) != 0) return NULL;
  *seal = 0;
  return text;
}

// The message for a file that cannot be read as text.
static char *read_own(Arena *arena, const char *path, size_t *length, const char **wrong) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  *wrong = fd < 0 && errno != ENOENT ? strerror(errno) : NULL;
  if (fd < 0) return NULL;
  bool own = fstat(fd, &st) == 0 && is_own_file(&st) && st.st_size <= MOST_BYTES;
  char *text = own ? arena_alloc(arena, MOST_BYTES + 1) : NULL;
  ssize_t got = own ? read(fd, text, MOST_BYTES) : -1;
  close(fd);
  if (got < 0) {
    *wrong = own ? "cannot be read" : "is not a file of this user alone";
    return NULL;
  }
  text[got] = 0;
  *length = (size_t)got;
  return text;
}

static bool begins_with_version(const char *text) {
  size_t length = strlen(first_line);
  return strncmp(text, first_line, length) == 0 && text[length] == '\n';
}

const Calibration *calibration_read(Arena *arena, const char *path, const char **wrong) {
  size_t length = 0;
  char *text = read_own(arena, path, &length, wrong);
  if (!text) return NULL;
  Calibration *c = NEW(arena, Calibration);
  *wrong = damaged;
  // A file of another version may have another form of seal.
  if (strncmp(text, "# pkc calibration ", 18) == 0 && !begins_with_version(text))
    *wrong = "is of another version of pkc";
  text = unsealed(arena, text, length);
  if (!text) return NULL;
  c->id = arena_printf(arena, "%.8s", hash_name(arena, hash_of(text, strlen(text))));
  *wrong = read_lines(arena, text, c);
  return *wrong ? NULL : c;
}

// ---- writing

static void print_calibration(Arena *arena, Calibration *c, Buf *out) {
  size_t start = out->length;
  buf_printf(out, "%s\nprocessor=%s\ntables=%s\n", first_line, processor_hash(arena),
             tables_hash(arena));
  for (int i = 0; i < CALIBRATED_COUNT; i++)
    if (c->known[i]) buf_printf(out, "%s=%lld\n", calibrated_rows[i].name, (long long)c->value[i]);
  for (int i = 0; i < regime_count(); i++)
    if (c->decided >> i & 1)
      buf_printf(out, "%s%s=%d\n", switched, regime_name(i), (int)(c->regimes >> i & 1));
  const char *seal = hash_name(arena, hash_of(out->text + start, out->length - start));
  c->id = arena_printf(arena, "%.8s", seal);
  buf_printf(out, "seal=%s\n", seal);
}

const char *calibration_write(Arena *arena, const char *path, Calibration *calibration) {
  Buf text = {0};
  print_calibration(arena, calibration, &text);
  const char *folder = arena_strndup(arena, path, (size_t)(strrchr(path, '/') - path));
  bool good = write_entry(arena, folder, path, &text, false);
  buf_free(&text);
  return good ? NULL : arena_printf(arena, "cannot write %s: %s", path, strerror(errno));
}

// ---- use

void calibration_use(Arena *arena) {
  const char *wish = getenv("PKC_CALIBRATION"), *wrong = NULL;
  const char *path = wish && strcmp(wish, "0") == 0 ? NULL : calibration_path(arena, false);
  const Calibration *c = path ? calibration_read(arena, path, &wrong) : NULL;
  if (wrong)
    fprintf(stderr, "pkc: warning: the calibration %s %s; the tables are used (pkc calibrate)\n",
            path, wrong);
  target_calibrate(c);
}
