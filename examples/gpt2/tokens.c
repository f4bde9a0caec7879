/* Byte pairs as GPT-2 has them: a text is cut into words, whose bytes are joined by the earliest
 * line of vocab.bpe that fits, again and again. The files spell each byte as one character that can
 * be seen. */
#include "tokens.h"

#include "json.h"
#include "tensors.h"
#include "unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 1 << 24, LONGEST_TOKEN = 1024, BYTES = 256 };

typedef struct {
  int64_t start, bytes; /* in the vocabulary's text; -1: there is no such token */
} Place;

typedef struct {
  int32_t left, right, joined, rank; /* rank -1: an empty slot */
} Merge;

struct Vocabulary {
  int64_t count;
  Place *token;
  char *text;
  int32_t of_byte[BYTES];
  int32_t *by_text; /* hashed by their bytes; -1: an empty slot */
  uint64_t text_slots;
  Merge *merge; /* hashed by left and right */
  uint64_t merge_slots;
};

/* ---- the characters that stand for bytes */

static bool is_shown(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* The byte of a character; -1: none. Those that cannot be seen are 256, 257, .., in order. */
static int byte_of(uint32_t c) {
  if (c < BYTES) return is_shown((int)c) ? (int)c : -1;
  int hidden = (int)c - BYTES;
  for (int byte = 0; byte < BYTES && c < 2 * BYTES; byte++)
    if (!is_shown(byte) && hidden-- == 0) return byte;
  return -1;
}

/* The character at `at`, and its length; of bytes that are not UTF-8 the first alone, as U+FFFD. */
static uint32_t character(const unsigned char *at, const unsigned char *end, int *length) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  const int wanted = *at < 0x80       ? 1
                     : *at >> 5 == 6  ? 2
                     : *at >> 4 == 14 ? 3
                     : *at >> 3 == 30 ? 4
                                      : 0;
  *length = 1;
  if (wanted == 1) return *at;
  if (wanted == 0 || end - at < wanted) return 0xfffd;
  uint32_t c = *at & (0xffU >> (wanted + 1));
  for (int i = 1; i < wanted; i++) {
    if (at[i] >> 6 != 2) return 0xfffd;
    c = c << 6 | (at[i] & 0x3f);
  }
  if (c < least[wanted] || c > 0x10ffff || c >> 11 == 27) return 0xfffd;
  *length = wanted;
  return c;
}

/* A text of the files as bytes, in place; its length, -1 where a character stands for none. */
static int64_t unspell(char *text, size_t length) {
  unsigned char *from = (unsigned char *)text, *end = from + length;
  char *to = text;
  for (int bytes; from < end; from += bytes) {
    const int byte = byte_of(character(from, end, &bytes));
    if (byte < 0) return -1;
    *to++ = (char)byte;
  }
  return to - text;
}

/* ---- finding tokens and merges */

static uint64_t hash_bytes(const char *text, int64_t bytes) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (int64_t i = 0; i < bytes; i++)
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  return hash ^ hash >> 29;
}

static uint64_t find_slot(const Vocabulary *v, const char *text, int64_t bytes) {
  for (uint64_t slot = hash_bytes(text, bytes);; slot++) {
    const int32_t token = v->by_text[slot % v->text_slots];
    if (token < 0) return slot % v->text_slots;
    if (v->token[token].bytes == bytes &&
        memcmp(v->text + v->token[token].start, text, (size_t)bytes) == 0)
      return slot % v->text_slots;
  }
}

static int32_t find_token(const Vocabulary *v, const char *text, int64_t bytes) {
  return v->by_text[find_slot(v, text, bytes)];
}

static Merge *find_merge(const Vocabulary *v, int32_t left, int32_t right) {
  uint64_t slot =
      ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
  for (;; slot++) {
    Merge *merge = &v->merge[slot % v->merge_slots];
    if (merge->rank < 0 || (merge->left == left && merge->right == right)) return merge;
  }
}

/* ---- reading the files */

static bool add_token(Vocabulary *v, const char *path, const char *text, int64_t bytes,
                      int64_t token, int64_t *used) {
  if (token >= v->count || v->token[token].bytes >= 0)
    return wrong(path, "the token %" PRId64 " is %s", token,
                 token < v->count ? "there twice" : "more than the number of tokens");
  v->token[token] = (Place){*used, bytes};
  memcpy(v->text + *used, text, (size_t)bytes);
  *used += bytes;
  int32_t *slot = &v->by_text[find_slot(v, text, bytes)];
  if (*slot >= 0)
    return wrong(path, "the tokens %d and %" PRId64 " are the same text", *slot, token);
  *slot = (int32_t)token;
  return true;
}

/* Once to count the tokens, once to add them. */
static bool read_tokens(Vocabulary *v, const char *path, Json json, bool add) {
  char text[LONGEST_TOKEN];
  int64_t used = 0, token;
  bool good = json_open(&json, '{');
  for (bool first = true; good && json_more(&json, '}', &first);) {
    good = json_key(&json, text, sizeof text) && json_integer(&json, &token);
    if (!good) break;
    if (strlen(text) + 1 == sizeof text) return wrong(path, "the token %.40s.. is too long", text);
    if (!add && ++v->count > MOST_ENTRIES)
      return wrong(path, "has more than %d tokens", MOST_ENTRIES);
    int64_t bytes = unspell(text, strlen(text));
    if (bytes < 0)
      return wrong(path, "the token %" PRId64 " has a character that stands for no byte", token);
    if (add && !add_token(v, path, text, bytes, token, &used)) return false;
  }
  return (good && json_end(&json)) || wrong(path, "is not JSON of texts and numbers");
}

static bool allocate_tokens(Vocabulary *v, int64_t text_bytes) {
  v->text_slots = 2 * (uint64_t)v->count + 1;
  v->token = malloc((size_t)(v->count + 1) * sizeof *v->token);
  v->by_text = malloc(v->text_slots * sizeof *v->by_text);
  v->text = malloc((size_t)text_bytes + 1);
  if (!v->token || !v->by_text || !v->text) return false;
  memset(v->token, 0xff, (size_t)(v->count + 1) * sizeof *v->token);
  memset(v->by_text, 0xff, v->text_slots * sizeof *v->by_text);
  return true;
}

static bool read_encoder(Vocabulary *v, const char *path) {
  const unsigned char *map;
  int64_t size;
  if (!file_map(path, &map, &size)) return false;
  const Json json = {(const char *)map, (const char *)map + size, false};
  bool good = read_tokens(v, path, json, false);
  if (good && !allocate_tokens(v, size)) good = wrong(path, "no memory");
  good = good && read_tokens(v, path, json, true);
  file_unmap(map, size);
  for (int byte = 0; good && byte < BYTES; byte++) {
    const char text[1] = {(char)byte};
    v->of_byte[byte] = find_token(v, text, 1);
    if (v->of_byte[byte] < 0) good = wrong(path, "has no token for the byte %d", byte);
  }
  return good;
}

/* `a b`: the tokens a and b become ab. */
static bool add_merge(Vocabulary *v, const char *path, int64_t line, char *text, int32_t rank) {
  char *space = strchr(text, ' ');
  if (!space || space == text || !space[1] || strchr(space + 1, ' '))
    return wrong(path, "line %" PRId64 ": expected two tokens", line);
  int64_t right = unspell(space + 1, strlen(space + 1)),
          left = unspell(text, (size_t)(space - text));
  const int32_t a = left < 0 ? -1 : find_token(v, text, left),
                b = right < 0 ? -1 : find_token(v, space + 1, right);
  if (a < 0 || b < 0)
    return wrong(path, "line %" PRId64 ": the %s token is not in the vocabulary", line,
                 a < 0 ? "first" : "second");
  memmove(text + left, space + 1, (size_t)right);
  const int32_t joined = find_token(v, text, left + right);
  if (joined < 0)
    return wrong(path, "line %" PRId64 ": the two tokens together are not in the vocabulary", line);
  Merge *merge = find_merge(v, a, b);
  if (merge->rank < 0) *merge = (Merge){a, b, joined, rank};
  return true;
}

static bool read_lines(Vocabulary *v, const char *path, const unsigned char *map, int64_t size) {
  char text[2 * LONGEST_TOKEN];
  int32_t rank = 0;
  const unsigned char *at = map, *end = map + size;
  for (int64_t line = 1; at < end; line++) {
    const unsigned char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    size_t length = (size_t)(stop - at);
    if (length >= sizeof text) return wrong(path, "line %" PRId64 " is too long", line);
    memcpy(text, at, length);
    if (length > 0 && text[length - 1] == '\r') length--;
    text[length] = 0;
    at = stop + 1;
    if (length == 0 || (line == 1 && text[0] == '#')) continue;
    if (!add_merge(v, path, line, text, rank++)) return false;
  }
  return true;
}

static bool read_merges(Vocabulary *v, const char *path) {
  const unsigned char *map;
  int64_t size, lines = 1;
  if (!file_map(path, &map, &size)) return false;
  for (int64_t i = 0; i < size; i++) lines += map[i] == '\n';
  v->merge_slots = 2 * (uint64_t)lines + 1;
  v->merge = malloc(v->merge_slots * sizeof *v->merge);
  if (v->merge) memset(v->merge, 0xff, v->merge_slots * sizeof *v->merge);
  const bool good = v->merge ? read_lines(v, path, map, size) : wrong(path, "no memory");
  file_unmap(map, size);
  return good;
}

Vocabulary *vocabulary_open(const char *encoder, const char *merges) {
  Vocabulary *v = calloc(1, sizeof *v);
  if (!v) return wrong("vocabulary", "no memory"), NULL;
  bool good = true;
  if (encoder && merges) {
    good = read_encoder(v, encoder) && read_merges(v, merges);
  } else {
    v->count = BYTES;
    good = allocate_tokens(v, BYTES);
    for (int byte = 0; good && byte < BYTES; byte++) {
      v->text[byte] = (char)byte;
      v->token[byte] = (Place){byte, 1};
      v->of_byte[byte] = byte;
    }
  }
  if (good) return v;
  vocabulary_close(v);
  return NULL;
}

void vocabulary_close(Vocabulary *v) {
  free(v->token);
  free(v->text);
  free(v->by_text);
  free(v->merge);
  free(v);
}

int64_t vocabulary_count(const Vocabulary *v) { return v->count; }

const unsigned char *token_bytes(const Vocabulary *v, int64_t token, int64_t *bytes) {
  const bool known = token >= 0 && token < v->count && v->token[token].bytes >= 0;
  *bytes = known ? v->token[token].bytes : 0;
  return known ? (const unsigned char *)v->text + v->token[token].start : NULL;
}

/* ---- words: 's 't 're 've 'm 'll 'd, or letters, numbers or other characters with a space before
 * them, or spaces */

typedef enum { LETTER, NUMBER, OTHER, SPACE } Class;

static bool in_ranges(const uint32_t (*ranges)[2], int count, uint32_t c) {
  int low = 0;
  while (low < count) {
    const int middle = (low + count) / 2;
    if (c > ranges[middle][1])
      low = middle + 1;
    else if (c < ranges[middle][0])
      count = middle;
    else
      return true;
  }
  return false;
}
#define IN_RANGES(ranges, c) in_ranges(ranges, (int)(sizeof ranges / sizeof *ranges), c)

static Class class_at(const unsigned char *at, const unsigned char *end, int *length) {
  const uint32_t c = character(at, end, length);
  if (IN_RANGES(unicode_letters, c)) return LETTER;
  if (IN_RANGES(unicode_numbers, c)) return NUMBER;
  return IN_RANGES(unicode_spaces, c) ? SPACE : OTHER;
}

static const unsigned char *skip_class(const unsigned char *at, const unsigned char *end,
                                       Class class) {
  for (int length; at < end && class_at(at, end, &length) == class;) at += length;
  return at;
}

static int contraction(const unsigned char *at, const unsigned char *end) {
  static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const size_t length = strlen(endings[i]);
    if ((size_t)(end - at) >= length && memcmp(at, endings[i], length) == 0) return (int)length;
  }
  return 0;
}

/* The end of the word that begins at `at`. Of several spaces the last goes with what follows. */
static const unsigned char *word_end(const unsigned char *at, const unsigned char *end) {
  int length, last = 0;
  const int short_form = contraction(at, end);
  if (short_form) return at + short_form;
  const unsigned char *body = *at == ' ' && at + 1 < end ? at + 1 : at;
  Class class = class_at(body, end, &length);
  if (class != SPACE) return skip_class(body, end, class);
  class = class_at(at, end, &length);
  if (class != SPACE) return skip_class(at, end, class);
  const unsigned char *stop = at;
  for (; stop < end && class_at(stop, end, &length) == SPACE; stop += length) last = length;
  return stop == end || stop - last == at ? stop : stop - last;
}

/* Joins the pairs of a word; the number of tokens that are left. */
static int64_t join(const Vocabulary *v, int32_t *token, int64_t count) {
  for (;;) {
    Merge best = {.rank = -1};
    for (int64_t i = 0; i + 1 < count; i++) {
      const Merge *merge = find_merge(v, token[i], token[i + 1]);
      if (merge->rank >= 0 && (best.rank < 0 || merge->rank < best.rank)) best = *merge;
    }
    if (best.rank < 0) return count;
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
      const bool pair = i + 1 < count && token[i] == best.left && token[i + 1] == best.right;
      token[kept++] = pair ? best.joined : token[i];
      i += pair;
    }
    count = kept;
  }
}

int64_t tokens_of(const Vocabulary *v, const unsigned char *text, int64_t bytes, int32_t *token) {
  int64_t count = 0;
  const unsigned char *end = text + bytes;
  while (text < end) {
    const unsigned char *stop = v->merge ? word_end(text, end) : text + 1;
    int32_t *word = token + count;
    for (int64_t i = 0; i < stop - text; i++) word[i] = v->of_byte[text[i]];
    count += v->merge ? join(v, word, stop - text) : 1;
    text = stop;
  }
  return count;
}
