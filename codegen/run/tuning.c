// Reads, writes and applies FILE.pk.tuning.
#define _GNU_SOURCE
#include "codegen/run/tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef LIST(TuningEntry) TuningEntries;

enum { MOST_BYTES = 1 << 20, LARGEST_BLOCK = 1 << 24 };
static const char first_line[] = "# pkc tuning 1";

const char *tuning_path(Arena *arena, const char *path) {
  return arena_printf(arena, "%s.tuning", path);
}

const char *one_line(Arena *arena, const char *text) {
  char *line = arena_strndup(arena, text, strlen(text));
  for (char *c = line; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
  return line;
}

// A text without blanks, commas, colons or control characters.
static const char *one_word(Arena *arena, const char *text) {
  char *word = arena_strndup(arena, text, strlen(text));
  for (char *c = word; *c; c++)
    if ((unsigned char)*c <= ' ' || *c == 127 || *c == ',' || *c == ':') *c = '_';
  return word;
}

uint64_t text_hash(const char *text, size_t length) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  return hash;
}

// ---- keys

// The entry `key` of the first processor in /proc/cpuinfo, or "".
static const char *processor_line(Arena *arena, const char *text, const char *key) {
  size_t length = strlen(key);
  for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
    size_t blanks = strncmp(line, key, length) == 0 ? strspn(line + length, " \t") : 0;
    if (!blanks || line[length + blanks] != ':') continue;
    const char *value = line + length + blanks + 1;
    value += strspn(value, " ");
    return one_word(arena, arena_strndup(arena, value, strcspn(value, "\n")));
  }
  return "";
}

// NAME/FAMILY/MODEL on x86; on other machines the fields that distinguish processors.
static const char *processor_name(Arena *arena) {
  static const char *const keys[] = {"model name", "cpu family", "model", "CPU part", "uarch"};
  size_t length;
  const char *text = read_file(arena, "/proc/cpuinfo", &length), *name = "";
  for (size_t i = 0; text && i < sizeof keys / sizeof *keys; i++) {
    const char *value = processor_line(arena, text, keys[i]);
    if (*value) name = arena_printf(arena, "%s%s%s", name, *name ? "/" : "", value);
  }
  return *name ? name : "unknown";
}

static int64_t size_class(int64_t size) {
  int64_t power = 1;
  if (size < 1) return 0;
  while (size / power >= 2) power *= 2;
  return (double)size * (double)size >= 2.0 * (double)power * (double)power ? 2 * power : power;
}

static int find_block(const BlockSizes *blocks, const char *name) {
  for (int i = 0; i < blocks->count; i++)
    if (strcmp(blocks->name[i], name) == 0) return i;
  return -1;
}

// Writes the key of a bound kernel.
static void put_key(Arena *arena, const Binding *binding, const Options *options, int threads,
                    const BlockSizes *blocks, Buf *out) {
  const Kernel *k = binding->program.kernel;
  const Source *source = &binding->program.source;
  const Calibration *measured = options->target->core->calibration;
  buf_printf(out, "%s text=%016llx cpu=%s target=%s%s%s threads=%d sizes=", k->name,
             (unsigned long long)text_hash(source->text, source->length), processor_name(arena),
             options->target->name, measured ? "/" : "", measured ? measured->id : "", threads);
  const char *between = "";
  for (int i = 0; i < k->sizes.count; i++) {
    int given = size_by_name(k->sizes.at, i);
    if (k->sizes.at[i].value) continue;
    buf_printf(out, "%s%s:%lld", between, k->sizes.at[given].name,
               (long long)size_class(binding->sizes[given]));
    between = ",";
  }
  buf_puts(out, " statics=");
  between = "";
  for (int i = 0; i < k->statics.count; i++) {
    if (find_block(blocks, k->statics.at[i].name) >= 0) continue;
    buf_printf(out, "%s%s:%s", between, k->statics.at[i].name,
               one_word(arena, k->statics.at[i].value));
    between = ",";
  }
}

const char *tuning_key(Arena *arena, const Binding *binding, const Options *options, int threads,
                       const BlockSizes *blocks) {
  Buf out = {0};
  put_key(arena, binding, options, threads, blocks, &out);
  return arena_take(arena, &out);
}

// ---- the file

void put_blocks(const BlockSizes *blocks, char equals, const char *between, Buf *out) {
  for (int i = 0; i < blocks->count; i++)
    buf_printf(out, "%s%s%c%lld", i ? between : "", blocks->name[i], equals,
               (long long)blocks->value[i]);
}

static bool is_name(const char *text, size_t length) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return length > 0 && length < 64 && strspn(text, letters) >= length &&
         !(*text >= '0' && *text <= '9');
}

bool read_blocks(Arena *arena, const char *text, BlockSizes *blocks) {
  *blocks = (BlockSizes){0};
  while (*text) {
    size_t name = strcspn(text, ":"), whole = strcspn(text, ",");
    int at = blocks->count;
    if (at == MOST_BLOCK_STATICS || name >= whole || !is_name(text, name)) return false;
    blocks->name[at] = intern_n(text, name);
    if (find_block(blocks, blocks->name[at]) >= 0) return false;
    const char *value = arena_strndup(arena, text + name + 1, whole - name - 1);
    if (!parse_int(value, &blocks->value[at])) return false;
    if (blocks->value[at] < 1 || blocks->value[at] > LARGEST_BLOCK) return false;
    blocks->count++;
    text += whole;
    if (*text == ',' && !*++text) return false;
  }
  return blocks->count > 0;
}

// KEY blocks=.. times=X
static bool read_line(Arena *arena, const char *line, TuningEntry *entry) {
  static const char *const words[] = {
      " text=", " cpu=", " target=", " threads=", " sizes=", " statics=", " blocks=", " times="};
  const char *at = line, *blocks = NULL, *times = NULL;
  if (!is_name(line, strcspn(line, " "))) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    at += strcspn(at, " ");
    if (strncmp(at, words[i], strlen(words[i])) != 0) return false;
    if (i == 6) blocks = at;
    at += strlen(words[i]);
    times = at;
  }
  char *end;
  size_t key = (size_t)(blocks - line), list = strcspn(blocks + 8, " ");
  entry->key = arena_strndup(arena, line, key);
  entry->times = strtod(times, &end);
  return end != times && !*end && entry->times >= 1 && entry->times < 1e6 &&
         read_blocks(arena, arena_strndup(arena, blocks + 8, list), &entry->blocks);
}

// A regular file of at most MOST_BYTES, opened without blocking. NULL with errno.
static char *read_regular(Arena *arena, const char *path, size_t *length) {
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat about;
  if (fd < 0) return NULL;
  bool good = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= MOST_BYTES;
  close(fd);
  errno = EINVAL;
  return good ? read_file(arena, path, length) : NULL;
}

// NULL, also when there is no file, or what is wrong with it (FILE:LINE: ..).
static const char *tuning_read(Arena *arena, const char *path, TuningEntries *entries) {
  size_t length = 0;
  char *text = read_regular(arena, path, &length);
  *entries = (TuningEntries){0};
  if (!text && errno == ENOENT) return NULL;
  if (!text)
    return arena_printf(arena, "%s: %s", path,
                        errno == EINVAL ? "is not a file of tuning" : strerror(errno));
  if (memchr(text, 0, length) || length == 0)
    return arena_printf(arena, "%s: is not a file of tuning", path);
  int number = 0;
  for (char *line = text, *next; line && *line; line = next) {
    size_t end = strcspn(line, "\n");
    next = line[end] ? line + end + 1 : NULL;
    line[end] = 0;
    number++;
    TuningEntry entry = {0};
    bool good = number == 1 ? strcmp(line, first_line) == 0
                            : !*line || *line == '#' || read_line(arena, line, &entry);
    if (!good) {
      *entries = (TuningEntries){0};
      return arena_printf(arena, "%s:%d: is not a line of tuning", path, number);
    }
    if (entry.key) LIST_PUSH(arena, entries, entry);
  }
  return NULL;
}

const char *tuning_write(Arena *arena, const char *path, const TuningEntry *entry) {
  TuningEntries entries;
  const char *wrong = tuning_read(arena, path, &entries);
  if (wrong) return wrong;
  Buf out = {0};
  bool found = false;
  buf_printf(&out, "%s\n", first_line);
  for (int i = 0; i <= entries.count; i++) {
    const TuningEntry *e = i < entries.count ? &entries.at[i] : entry;
    bool same = strcmp(e->key, entry->key) == 0;
    if (same && found) continue;
    found |= same;
    if (same) e = entry;
    buf_printf(&out, "%s blocks=", e->key);
    put_blocks(&e->blocks, ':', ",", &out);
    buf_printf(&out, " times=%.3f\n", e->times);
  }
  bool written = write_file(path, out.text, out.length);
  buf_free(&out);
  return written ? NULL : arena_printf(arena, "cannot write %s: %s", path, strerror(errno));
}

// ---- effects of other blocks

// The text of the reference, with values numbered in order.
static void reference_text(const Kernel *k, Buf *out) {
  Buf whole = {0};
  int *number = calloc((size_t)k->next_id + 1, sizeof *number), count = 0;
  REQUIRE(number);
  ir_print(k, &whole);
  const char *at = NULL;
  for (const char *next = whole.text; (next = strstr(next, "\n  reference {")); at = ++next) {}
  while (at && *at) {
    if (*at != '%') {
      buf_putc(out, *at++);
      continue;
    }
    char *end;
    long id = strtol(at + 1, &end, 10);
    REQUIRE(id >= 0 && id <= k->next_id);
    if (!number[id]) number[id] = ++count;
    buf_printf(out, "%%%d", number[id]);
    at = end;
  }
  free(number);
  buf_free(&whole);
}

static bool same_type(const Type *a, const Type *b) {
  return a->dtype == b->dtype && a->rank == b->rank &&
         memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank) == 0;
}

bool same_meaning(const Kernel *a, const Kernel *b) {
  if (a->inputs != b->inputs || a->outputs != b->outputs || a->sizes.count != b->sizes.count)
    return false;
  for (int i = 0; i < a->inputs + a->outputs; i++)
    if (!same_type(&a->refs.at[i]->array, &b->refs.at[i]->array)) return false;
  if (!a->reference != !b->reference) return false;
  if (!a->reference) return true;
  Buf x = {0}, y = {0};
  reference_text(a, &x);
  reference_text(b, &y);
  bool same = x.length == y.length && x.length > 0 && memcmp(x.text, y.text, x.length) == 0;
  buf_free(&x);
  buf_free(&y);
  return same;
}

static bool same_grid(const Binding *a, const Binding *b) {
  Kernel *x = a->program.kernel, *y = b->program.kernel;
  if (x->grid.count != y->grid.count) return false;
  for (int i = 0; i < x->grid.count; i++)
    if (eval_index(x, x->grid.at[i].extent, a->sizes, NULL, 0) !=
        eval_index(y, y->grid.at[i].extent, b->sizes, NULL, 0))
      return false;
  return true;
}

bool other_blocks(const Binding *a, const Binding *b) {
  const Kernel *x = a->program.kernel, *y = b->program.kernel;
  for (int i = 0; i < x->inputs + x->outputs; i++) {
    const Ref *p = x->refs.at[i], *q = y->refs.at[i];
    if (memcmp(p->block, q->block, sizeof *p->block * (size_t)p->array.rank) != 0) return true;
  }
  return !same_grid(a, b);
}

static const char *exceeds_vmem(Arena *arena, const Binding *binding, const Options *options) {
  const Kernel *k = binding->program.kernel;
  int64_t total = 0, limit = options->vmem_limit ? options->vmem_limit
                             : k->vmem_limit     ? k->vmem_limit
                                                 : VMEM_LIMIT_DEFAULT;
  for (int i = 0; i < k->refs.count; i++)
    if (!add_i64(total, vmem_bytes(k->refs.at[i], binding->sizes), &total)) total = INT64_MAX;
  if (total <= limit) return NULL;
  return arena_printf(arena, "requires %lld bytes of VMEM of %lld", (long long)total,
                      (long long)limit);
}

const char *bind_blocks(Arena *arena, const Options *options, const BlockSizes *blocks,
                        Options *with, Binding *binding) {
  *with = *options;
  with->arena = arena;
  with->settings.capacity = with->settings.count;  // a push copies
  for (int i = 0; i < blocks->count; i++)
    LIST_PUSH(arena, &with->settings,
              ((StaticSetting){.kernel = options->kernel,
                               .name = blocks->name[i],
                               .value = arena_printf(arena, "%lld", (long long)blocks->value[i])}));
  const char *message;
  if (bind_kernel(binding, arena, with, options->files.at[0], &message) != DONE) {
    Buf text = {0};
    if (!message && binding->program.diag) diag_print(binding->program.diag, &text, DIAG_TEXT);
    const char *at = text.text ? strstr(text.text, "error: ") : NULL;
    if (at) message = arena_strndup(arena, at + 7, strcspn(at + 7, "\n"));
    buf_free(&text);
    return message ? message : "does not compile";
  }
  return binding->refusal ? binding->refusal : exceeds_vmem(arena, binding, options);
}

// ---- applied

bool is_given(const Options *options, const char *name) {
  for (int i = 0; i < options->settings.count; i++)
    if (strcmp(options->settings.at[i].name, name) == 0) return true;
  for (int i = 0; i < options->arguments.count; i++)
    if (strcmp(options->arguments.at[i].name, name) == 0) return true;
  return false;
}

static bool any_given(const Options *options, const BlockSizes *blocks) {
  for (int i = 0; i < blocks->count; i++)
    if (is_given(options, blocks->name[i])) return true;
  return false;
}

static bool is_default(const Kernel *k, const char *name, int64_t value) {
  int64_t number;
  for (int i = 0; i < k->statics.count; i++)
    if (strcmp(k->statics.at[i].name, name) == 0)
      return parse_int(k->statics.at[i].value, &number) && number == value;
  return false;
}

// Each static alone must be a block size; all together must be runnable.
static const char *not_blocks(const Options *options, const Binding *base,
                              const BlockSizes *blocks) {
  Arena *arena = options->arena;
  if (!base->program.kernel->reference) return "the kernel has no reference";
  for (int i = -1; i < blocks->count; i++) {
    BlockSizes one = *blocks;
    if (i >= 0) one = (BlockSizes){1, {blocks->name[i]}, {blocks->value[i]}};
    if (i >= 0 && is_default(base->program.kernel, one.name[0], one.value[0])) continue;
    Options with;
    Binding binding;
    const char *wrong = bind_blocks(arena, options, &one, &with, &binding);
    if (wrong && i < 0) return wrong;
    if (wrong) continue;  // fits only together with the others, which were judged together
    bool good = same_meaning(base->program.kernel, binding.program.kernel) &&
                (i < 0 || other_blocks(base, &binding));
    if (!good)
      return arena_printf(arena, "%s is not a block size", i < 0 ? "one of them" : one.name[0]);
  }
  return NULL;
}

// Keys that differ in the hash of the text only.
static bool is_of_other_text(const char *a, const char *b) {
  const char *x = strstr(a, " text="), *y = strstr(b, " text=");
  if (!x || !y || x - a != y - b || strncmp(a, b, (size_t)(x - a)) != 0) return false;
  return strcmp(x + 6 + strcspn(x + 6, " "), y + 6 + strcspn(y + 6, " ")) == 0;
}

static void warn(const char *text) { fprintf(stderr, "pkc: warning: %s\n", text); }

const TuningEntry *tuning_apply(Options *options, int threads) {
  Arena *arena = options->arena;
  TuningEntries entries;
  const char *file = tuning_path(arena, options->files.at[0]), *message;
  if (options->no_tuning) return NULL;
  const char *wrong = tuning_read(arena, file, &entries);
  if (wrong) warn(arena_printf(arena, "%s; the defaults are used", wrong));
  if (entries.count == 0) return NULL;
  Binding base;
  if (bind_kernel(&base, arena, options, options->files.at[0], &message) != DONE) return NULL;
  if (base.refusal || base.program.kernel->flow) return NULL;
  const TuningEntry *found = NULL;
  bool other_text = false;
  for (int i = 0; i < entries.count; i++) {
    const char *key = tuning_key(arena, &base, options, threads, &entries.at[i].blocks);
    if (strcmp(key, entries.at[i].key) == 0) found = &entries.at[i];
    other_text |= is_of_other_text(key, entries.at[i].key);
  }
  if (!found && other_text)
    warn(arena_printf(arena, "%s was made for another text of %s; the defaults are used", file,
                      options->files.at[0]));
  if (!found || any_given(options, &found->blocks)) return NULL;
  wrong = not_blocks(options, &base, &found->blocks);
  if (wrong) {
    warn(arena_printf(arena, "%s: %s; the defaults are used", file, wrong));
    return NULL;
  }
  Options with;
  bind_blocks(arena, options, &found->blocks, &with, &base);
  options->settings.at = with.settings.at;
  options->settings.count = with.settings.count;
  options->settings.capacity = with.settings.capacity;
  return found;
}
