/* Damaged files for the readers of examples/: readers KIND FILE SEED COUNT [ENCODER]
 *
 * FILE is good; COUNT damaged copies of it are read in turn. A reader accepts a file without a
 * word, or refuses it with one line that names it. The sanitizer that this program is compiled with
 * stops at accesses outside arrays, and at allocations that are larger than the file explains. */
#define _GNU_SOURCE
#include "config.h"
#include "tensors.h"
#include "tokens.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char program_name[] = "readers";

enum { MOST_BYTES = 1 << 21, MOST_SAID = 1 << 14 };

static uint64_t state;

static uint64_t draw(uint64_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const uint64_t bits = (state >> 33) ^ (state >> 17);
  return below ? bits % below : 0;
}

/* ---- damage */

typedef struct {
  unsigned char *at;
  size_t size;
} Text;

static void replace(Text *text, size_t from, size_t bytes, const void *with, size_t count) {
  if (bytes > text->size - from) bytes = text->size - from;
  if (text->size - bytes + count > MOST_BYTES) return;
  memmove(text->at + from + count, text->at + from + bytes, text->size - from - bytes);
  memcpy(text->at + from, with, count);
  text->size += count - bytes;
}

static void replace_number(Text *text) {
  static const char *const numbers[] = {"0",   "-1",   "1e99", "9223372036854775807",  "4294967296",
                                        "0.5", "null", "true", "18446744073709551616", "16777216"};
  const char *number = numbers[draw(sizeof numbers / sizeof *numbers)];
  size_t from = draw(text->size), end;
  while (from < text->size && (text->at[from] < '0' || text->at[from] > '9')) from++;
  for (end = from; end < text->size && text->at[end] >= '0' && text->at[end] <= '9';) end++;
  if (end > from) replace(text, from, end - from, number, strlen(number));
}

static void insert_signs(Text *text) {
  static const char *const signs[] = {"{",    "}",     "[",      "]",       ",",         ":",
                                      "\"",   "\\",    "\\u",    "\\ud800", "\\u0000",   "\xff",
                                      "\n",   "null",  "[[[[[[", "{\"\":",  "\"\":\"\"", "\0",
                                      "\xe2", "\x96a", "#",      " "};
  const char *sign = signs[draw(sizeof signs / sizeof *signs)];
  const size_t from = draw(text->size + 1);
  for (uint64_t i = draw(8) ? 1 : 200; i > 0; i--)
    replace(text, from, draw(2), sign, *sign ? strlen(sign) : 1);
}

static void copy_span(Text *text) {
  unsigned char span[256];
  const size_t from = draw(text->size), left = text->size - from;
  const size_t bytes = draw(left < sizeof span ? left + 1 : sizeof span);
  memcpy(span, text->at + from, bytes);
  replace(text, draw(text->size + 1), draw(2) ? bytes : 0, span, bytes);
}

static void damage(Text *text) {
  for (uint64_t i = 1 + draw(3); i > 0 && text->size > 0; i--) switch (draw(8)) {
      case 0:
        text->size = draw(text->size);
        break;
      case 1:
        text->at[draw(text->size)] ^= (unsigned char)(1U << draw(8));
        break;
      case 2:
        text->at[draw(text->size < 64 ? text->size : 64)] = (unsigned char)draw(256);
        break;
      case 3:
        replace(text, draw(text->size), draw(40), "", 0);
        break;
      case 4:
        insert_signs(text);
        break;
      case 5:
        copy_span(text);
        break;
      default:
        replace_number(text);
    }
}

/* ---- the readers: each reads the file and uses the result */

static const char *encoder;

static void use_vocabulary(Vocabulary *v) {
  static const unsigned char said[] = "The kernel's 123 \xe4\xbd\xa0<|end|> \xff";
  int32_t token[3 * sizeof said + 3];
  unsigned char text[TOKEN_TEXT];
  const int64_t count = tokens_of(v, said, sizeof said - 1, token);
  for (int64_t i = 0; i < count; i++) token_text(v, token[i], text);
  vocabulary_close(v);
}

static bool read_tensors(const char *path) {
  Tensors tensors;
  if (!tensors_open(&tensors, path)) return false;
  unsigned sum = 0;
  for (int i = 0; i < tensors.count; i++)
    for (int64_t k = 0; k < tensors.at[i].bytes; k++) sum += tensors.at[i].data[k];
  tensors_close(&tensors);
  return sum < UINT32_MAX || path;
}

static bool read_tokenizer(const char *path) {
  Vocabulary *v = tokenizer_open(path);
  if (v) use_vocabulary(v);
  return v != NULL;
}

static bool read_encoder(const char *path) {
  Vocabulary *v = vocabulary_open(path, encoder);
  if (v) use_vocabulary(v);
  return v != NULL;
}

static bool read_merges(const char *path) {
  Vocabulary *v = vocabulary_open(encoder, path);
  if (v) use_vocabulary(v);
  return v != NULL;
}

static bool read_config(const char *path) {
  Config config;
  char statics[STATICS];
  if (!config_read(&config, path)) return false;
  config_statics(&config, statics);
  return true;
}

static const struct {
  const char *name;
  bool (*read)(const char *path);
} kinds[] = {{"tensors", read_tensors},
             {"tokenizer", read_tokenizer},
             {"encoder", read_encoder},
             {"merges", read_merges},
             {"config", read_config}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool begins(const char *text, const char *path) {
  char start[4200];
  if (!path) return false;
  snprintf(start, sizeof start, "readers: %s: ", path);
  return strncmp(text, start, strlen(start)) == 0;
}

/* What was written to `said` is one line about the file, or the one that it does not fit, or, of a
 * good file, nothing. tokens_of may say that a text has no tokens. */
static bool is_well_said(const char *text, const char *path, bool good) {
  const char *end = strchr(text, '\n');
  if (good && !*text) return true;
  return end && !end[1] &&
         (good ? begins(text, "the text") : begins(text, path) || begins(text, encoder));
}

int main(int argc, char **argv) {
  static unsigned char whole[MOST_BYTES], damaged[MOST_BYTES];
  static char text[MOST_SAID];
  char path[64], messages[64];
  if (argc < 5) return 2;
  size_t kind = 0;
  while (kind < KINDS && strcmp(kinds[kind].name, argv[1]) != 0) kind++;
  FILE *file = fopen(argv[2], "rb");
  if (kind == KINDS || !file) return 2;
  const size_t size = fread(whole, 1, sizeof whole / 2, file);
  fclose(file);
  encoder = argc > 5 ? argv[5] : NULL;
  snprintf(path, sizeof path, "/tmp/readers-%d", (int)getpid());
  snprintf(messages, sizeof messages, "/tmp/readers-%d.said", (int)getpid());
  const int said = open(messages, O_RDWR | O_CREAT | O_TRUNC, 0600), usual = dup(2);
  const uint64_t seed = strtoull(argv[3], NULL, 10), count = strtoull(argv[4], NULL, 10);
  int64_t refused = 0, failed = 0;
  for (uint64_t i = 0; i < count; i++) {
    Text damage_of = {damaged, size};
    memcpy(damaged, whole, size);
    state = seed * 1000003 + i;
    if (i > 0) damage(&damage_of);
    const int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0 || write(out, damaged, damage_of.size) != (ssize_t)damage_of.size) return 2;
    close(out);
    if (ftruncate(said, 0) != 0 || lseek(said, 0, SEEK_SET) != 0) return 2;
    dup2(said, 2);
    const bool good = kinds[kind].read(path);
    dup2(usual, 2);
    const ssize_t length = pread(said, text, sizeof text - 1, 0);
    text[length < 0 ? 0 : length] = 0;
    refused += !good;
    if (is_well_said(text, path, good) && (i > 0 || good)) continue;
    printf("case %" PRIu64 " is %s: %s\n", i, good ? "accepted" : "refused", text);
    if (++failed == 5) break;
  }
  unlink(path);
  unlink(messages);
  printf("%" PRId64 " refused, %" PRId64 " failed\n", refused, failed);
  return failed > 0;
}
