/* Byte pairs as GPT-2 has them: a text is cut into words, whose bytes are joined by the earliest
 * line of vocab.bpe that fits, again and again. The files spell each byte as one character that can
 * be seen. */
#include "tokens.h"

#include "json.h"
#include "tensors.h"
#include "vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A text of the files as bytes, in place; its length, -1 where a character stands for none. */
int64_t unspell(char *text, size_t length) {
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

int32_t find_token(const Vocabulary *v, const char *text, int64_t bytes) {
  return v->by_text[find_slot(v, text, bytes)];
}

Merge *find_merge(const Vocabulary *v, int32_t left, int32_t right) {
  uint64_t slot =
      ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15) >> 20;
  for (;; slot++) {
    Merge *merge = &v->merge[slot % v->merge_slots];
    if (merge->rank < 0 || (merge->left == left && merge->right == right)) return merge;
  }
}

/* ---- reading the files */

bool add_token(Vocabulary *v, const char *path, const char *text, int64_t bytes, int64_t token,
               int64_t *used) {
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

bool allocate_tokens(Vocabulary *v, int64_t text_bytes) {
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
  v->begin = -1;
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
  free(v->added);
  free(v);
}

int64_t vocabulary_count(const Vocabulary *v) { return v->count; }

const unsigned char *token_bytes(const Vocabulary *v, int64_t token, int64_t *bytes) {
  const bool known = token >= 0 && token < v->count && v->token[token].bytes >= 0;
  *bytes = known ? v->token[token].bytes : 0;
  return known ? (const unsigned char *)v->text + v->token[token].start : NULL;
}

/* ---- texts */

/* Joins the pairs of a word; the number of tokens that are left. */
int64_t join(const Vocabulary *v, int32_t *token, int64_t count) {
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

/* The token of each character, or of each of its bytes; -1: there is none. */
static int64_t pieces_of(const Vocabulary *v, const unsigned char *text, const unsigned char *end,
                         int32_t *token) {
  int64_t count = 0;
  for (int length; text < end; text += length) {
    character(text, end, &length);
    const int32_t whole = v->pieces ? find_token(v, (const char *)text, length) : -1;
    if (whole >= 0) token[count++] = whole;
    for (int i = 0; whole < 0 && i < length; i++) {
      if (v->of_byte[text[i]] < 0)
        return wrong("the text", "byte %02x has no token in the vocabulary", text[i]), -1;
      token[count++] = v->of_byte[text[i]];
    }
  }
  return count;
}

/* A text without tokens that it names. */
static int64_t plain_tokens(const Vocabulary *v, const unsigned char *text,
                            const unsigned char *end, int32_t *token) {
  int64_t count = 0;
  while (text < end) {
    const unsigned char *stop = v->merge ? word_end(v->words, text, end) : text + 1;
    const int32_t whole = v->whole_words ? find_token(v, (const char *)text, stop - text) : -1;
    if (whole >= 0) {
      token[count++] = whole;
    } else {
      const int64_t letters = pieces_of(v, text, stop, token + count);
      if (letters < 0) return -1;
      count += v->merge ? join(v, token + count, letters) : letters;
    }
    text = stop;
  }
  return count;
}

static bool has_prefix(const Vocabulary *v, const unsigned char *text, const unsigned char *end,
                       bool first) {
  static const char mark[] = "\xe2\x96\x81";
  const bool own = end > text && (*text == ' ' || (end - text >= 3 && memcmp(text, mark, 3) == 0));
  return end > text &&
         (v->prefix == PREFIX_ADDED ||
          (!own && (v->prefix == PREFIX_ALWAYS || (v->prefix == PREFIX_FIRST && first))));
}

/* With U+2581 for spaces, and one before. */
static int64_t spaced_tokens(const Vocabulary *v, const unsigned char *text,
                             const unsigned char *end, bool first, int32_t *token) {
  static const char mark[] = "\xe2\x96\x81";
  unsigned char *all = malloc(3 * (size_t)(end - text) + 4), *to = all;
  if (!all) return wrong("the text", "no memory"), -1;
  if (has_prefix(v, text, end, first)) memcpy(to, mark, 3), to += 3;
  for (; text < end; text++)
    if (*text == ' ')
      memcpy(to, mark, 3), to += 3;
    else
      *to++ = *text;
  const int64_t count = plain_tokens(v, all, to, token);
  free(all);
  return count;
}

/* The longest token that the text names at `at`; -1: none. */
static int32_t named_at(const Vocabulary *v, const unsigned char *at, const unsigned char *end) {
  int32_t best = -1;
  for (int64_t i = 0; i < v->added_count; i++) {
    const Place *place = &v->token[v->added[i]];
    if ((best < 0 || place->bytes > v->token[best].bytes) && place->bytes > 0 &&
        place->bytes <= end - at && memcmp(v->text + place->start, at, (size_t)place->bytes) == 0)
      best = v->added[i];
  }
  return best;
}

int64_t tokens_of(const Vocabulary *v, const unsigned char *text, int64_t bytes, int32_t *token) {
  int64_t count = 0;
  const unsigned char *begin = text, *end = text + bytes;
  const uint32_t other = v->composed ? not_composed(text, end) : 0;
  if (other)
    return wrong("the text",
                 "U+%04" PRIX32
                 " is a character that form NFC may compose with others; "
                 "normalise the text",
                 other),
           -1;
  while (text < end) {
    const unsigned char *stop = text;
    int32_t named = -1;
    while (stop < end && (named = named_at(v, stop, end)) < 0) stop++;
    const int64_t more = v->pieces ? spaced_tokens(v, text, stop, text == begin, token + count)
                                   : plain_tokens(v, text, stop, token + count);
    if (more < 0) return -1;
    count += more;
    if (named >= 0) token[count++] = named;
    text = stop + (named >= 0 ? v->token[named].bytes : 0);
  }
  return count;
}

int32_t vocabulary_begin(const Vocabulary *v) { return v->begin; }

int32_t vocabulary_named(const Vocabulary *v, const char *name) {
  const int64_t bytes = (int64_t)strlen(name);
  for (int64_t i = 0; i < v->added_count; i++)
    if (v->token[v->added[i]].bytes == bytes &&
        memcmp(v->text + v->token[v->added[i]].start, name, (size_t)bytes) == 0)
      return v->added[i];
  return -1;
}

/* Pieces have U+2581 for spaces, and <0x0A> for a byte. */
int64_t token_text(const Vocabulary *v, int64_t token, unsigned char text[TOKEN_TEXT]) {
  int64_t bytes, count = 0;
  unsigned value;
  const unsigned char *from = token_bytes(v, token, &bytes);
  if (v->pieces && bytes == 6 && sscanf((const char *)from, "<0x%2X>", &value) == 1 &&
      v->of_byte[value] == token)
    return text[0] = (unsigned char)value, 1;
  for (int64_t i = 0; i < bytes && count < TOKEN_TEXT; i++) {
    const bool mark = v->pieces && i + 2 < bytes && memcmp(from + i, "\xe2\x96\x81", 3) == 0;
    text[count++] = mark ? ' ' : from[i];
    i += mark ? 2 : 0;
  }
  return count;
}
