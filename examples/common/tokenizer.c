/* tokenizer.json: byte pairs as GPT-2, Llama 3 and Qwen have them, and pieces as Llama 2, Mistral
 * and Gemma do. What it says otherwise is refused by name. */
#include "json.h"
#include "tensors.h"
#include "vocabulary.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 12, MOST_NAME = 160 };

static const char mark[] = "\xe2\x96\x81"; /* U+2581 */
#define GPT2_WORDS \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LATE_WORDS(digits)                                             \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum {
  NOTHING,
  SET_BYTES,
  SET_BYTES_GPT2, /* words are those of GPT-2 without a pattern */
  SET_GPT2,
  SET_LLAMA3,
  SET_QWEN,
  SET_PIECES,
  SET_PREFIX,
  SET_FIRST,
  SET_ALWAYS,
  SET_COMPOSED,
  SET_FALLBACK,
  SET_WHOLE_WORDS
} Effect;

/* Members without the places in arrays, their values (NULL: any), and what they mean. */
static const struct {
  const char *name, *value;
  Effect effect;
} known[] = {
    {"normalizer", "null", NOTHING},
    {"normalizer.type", "Sequence", NOTHING},
    {"normalizer.type", "NFC", SET_COMPOSED},
    {"normalizer.type", "Replace", SET_PIECES},
    {"normalizer.pattern.String", " ", NOTHING},
    {"normalizer.content", mark, NOTHING},
    {"normalizer.normalizers.type", "NFC", SET_COMPOSED},
    {"normalizer.normalizers.type", "Replace", SET_PIECES},
    {"normalizer.normalizers.type", "Prepend", SET_PREFIX},
    {"normalizer.normalizers.prepend", mark, NOTHING},
    {"normalizer.normalizers.pattern.String", " ", NOTHING},
    {"normalizer.normalizers.content", mark, NOTHING},
    {"pre_tokenizer", "null", NOTHING},
    {"pre_tokenizer.type", "Sequence", NOTHING},
    {"pre_tokenizer.type", "Split", NOTHING},
    {"pre_tokenizer.type", "ByteLevel", SET_BYTES_GPT2},
    {"pre_tokenizer.type", "Metaspace", SET_PIECES},
    {"pre_tokenizer.replacement", mark, NOTHING},
    {"pre_tokenizer.prepend_scheme", "first", SET_FIRST},
    {"pre_tokenizer.prepend_scheme", "always", SET_ALWAYS},
    {"pre_tokenizer.prepend_scheme", "never", NOTHING},
    {"pre_tokenizer.split", "false", NOTHING},
    {"pre_tokenizer.pattern.String", " ", NOTHING},
    {"pre_tokenizer.behavior", "MergedWithPrevious", NOTHING},
    {"pre_tokenizer.invert", "false", NOTHING},
    {"pre_tokenizer.add_prefix_space", "false", NOTHING},
    {"pre_tokenizer.trim_offsets", NULL, NOTHING},
    {"pre_tokenizer.use_regex", "true", NOTHING},
    {"pre_tokenizer.pretokenizers.type", "Split", NOTHING},
    {"pre_tokenizer.pretokenizers.type", "ByteLevel", SET_BYTES},
    {"pre_tokenizer.pretokenizers.pattern.Regex", GPT2_WORDS, SET_GPT2},
    {"pre_tokenizer.pretokenizers.pattern.Regex", LATE_WORDS("\\p{N}{1,3}"), SET_LLAMA3},
    {"pre_tokenizer.pretokenizers.pattern.Regex", LATE_WORDS("\\p{N}"), SET_QWEN},
    {"pre_tokenizer.pretokenizers.behavior", "Isolated", NOTHING},
    {"pre_tokenizer.pretokenizers.invert", "false", NOTHING},
    {"pre_tokenizer.pretokenizers.add_prefix_space", "false", NOTHING},
    {"pre_tokenizer.pretokenizers.trim_offsets", NULL, NOTHING},
    {"pre_tokenizer.pretokenizers.use_regex", "false", NOTHING},
    {"model.type", "BPE", NOTHING},
    {"model.dropout", "null", NOTHING},
    {"model.unk_token", NULL, NOTHING},
    {"model.continuing_subword_prefix", "null", NOTHING},
    {"model.continuing_subword_prefix", "", NOTHING},
    {"model.end_of_word_suffix", "null", NOTHING},
    {"model.end_of_word_suffix", "", NOTHING},
    {"model.fuse_unk", NULL, NOTHING},
    {"model.byte_fallback", "false", NOTHING},
    {"model.byte_fallback", "true", SET_FALLBACK},
    {"model.ignore_merges", "false", NOTHING},
    {"model.ignore_merges", "true", SET_WHOLE_WORDS},
};

/* What one reading of the file does: sizes first, then tokens, then what needs all of these. */
typedef enum { SIZES, TOKENS, MERGES } Pass;

typedef struct {
  Vocabulary *v;
  const char *path;
  Pass pass;
  bool bytes, fallback, begun, said; /* begun: the template's text was seen; said: a message */
  int64_t size, used, merges, added;
  char begin[LONGEST_TOKEN];
} Reader;

/* What is wrong with the file; no other message follows. */
__attribute__((format(printf, 2, 3))) static bool refuse(Reader *r, const char *format, ...) {
  char text[2 * LONGEST_TOKEN];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  r->said = true;
  return wrong(r->path, "%s", text);
}

static void apply(Reader *r, Effect effect) {
  Vocabulary *v = r->v;
  switch (effect) {
    case SET_BYTES:
      r->bytes = true;
      break;
    case SET_BYTES_GPT2:
      r->bytes = true;
      v->words = WORDS_GPT2;
      break;
    case SET_GPT2:
      v->words = WORDS_GPT2;
      break;
    case SET_LLAMA3:
      v->words = WORDS_LLAMA3;
      break;
    case SET_QWEN:
      v->words = WORDS_QWEN;
      break;
    case SET_PIECES:
      v->pieces = true;
      break;
    case SET_PREFIX:
      v->prefix = PREFIX_ADDED;
      break;
    case SET_FIRST:
      v->prefix = PREFIX_FIRST;
      break;
    case SET_ALWAYS:
      v->prefix = PREFIX_ALWAYS;
      break;
    case SET_COMPOSED:
      v->composed = true;
      break;
    case SET_FALLBACK:
      r->fallback = true;
      break;
    case SET_WHOLE_WORDS:
      v->whole_words = true;
      break;
    case NOTHING:
      break;
  }
}

static bool take_member(Reader *r, const char *name, const char *value) {
  bool named = false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, name) != 0) continue;
    named = true;
    if (known[i].value && strcmp(known[i].value, value) != 0) continue;
    if (r->pass == SIZES) apply(r, known[i].effect);
    return true;
  }
  return named ? refuse(r, "%s is %s, which this program does not do", name, value)
               : refuse(r, "the member %s is not known to this program", name);
}

/* ---- tokens */

static bool take_token(Reader *r, char *text, int64_t token, bool spelled) {
  Vocabulary *v = r->v;
  if (strlen(text) + 1 == LONGEST_TOKEN) return refuse(r, "the token %.40s.. is too long", text);
  if (token >= MOST_ENTRIES || token > r->size)
    return refuse(r, "the token %" PRId64 " is more than the file can have", token);
  if (r->pass == SIZES && token >= v->count) v->count = token + 1;
  if (r->pass != TOKENS) return true;
  const int64_t bytes = spelled ? unspell(text, strlen(text)) : (int64_t)strlen(text);
  return bytes < 0
             ? refuse(r, "the token %" PRId64 " has a character that stands for no byte", token)
             : add_token(v, r->path, text, bytes, token, &r->used) || !(r->said = true);
}

static bool read_vocabulary(Reader *r, Json *json) {
  char text[LONGEST_TOKEN];
  int64_t token;
  if (!json_open(json, '{')) return false;
  for (bool first = true; json_more(json, '}', &first);)
    if (!json_key(json, text, sizeof text) || !json_integer(json, &token) ||
        !take_token(r, text, token, r->bytes))
      return false;
  return !json->bad;
}

/* Named tokens may be in the vocabulary, too, and then have the same number. */
static bool take_added(Reader *r, char *text, int64_t token) {
  Vocabulary *v = r->v;
  if (r->pass == SIZES) r->added++;
  if (r->pass != MERGES) return r->pass == TOKENS || take_token(r, text, token, false);
  const int64_t bytes = (int64_t)strlen(text);
  Place *place = &v->token[token];
  if (place->bytes >= 0 &&
      (place->bytes != bytes || memcmp(v->text + place->start, text, (size_t)bytes) != 0))
    return refuse(r, "the token %" PRId64 " is there twice", token);
  if (place->bytes < 0) {
    *place = (Place){r->used, bytes};
    memcpy(v->text + r->used, text, (size_t)bytes);
    r->used += bytes;
  }
  v->added[v->added_count++] = (int32_t)token;
  return true;
}

static bool read_added(Reader *r, Json *json) {
  if (!json_open(json, '[')) return false;
  for (bool first = true; json_more(json, ']', &first);) {
    char key[MOST_NAME], text[LONGEST_TOKEN] = "", value[16];
    int64_t token = -1;
    if (!json_open(json, '{')) return false;
    for (bool inner = true; json_more(json, '}', &inner);) {
      if (!json_key(json, key, sizeof key)) return false;
      if (strcmp(key, "id") == 0) {
        if (!json_integer(json, &token)) return false;
      } else if (strcmp(key, "content") == 0) {
        if (!json_string(json, text, sizeof text, NULL)) return false;
      } else if (!json_scalar(json, value, sizeof value)) {
        return false;
      } else if (strcmp(value, "true") == 0 && strcmp(key, "special") != 0 &&
                 strcmp(key, "normalized") != 0) {
        return refuse(r, "added_tokens: %s of %s is true, which this program does not do", key,
                      text);
      }
    }
    if (token < 0 || !*text) return false;
    if (!take_added(r, text, token)) return false;
  }
  return !json->bad;
}

static bool take_merge(Reader *r, char *left, char *right) {
  Vocabulary *v = r->v;
  char both[2 * LONGEST_TOKEN];
  if (r->pass == SIZES) r->merges++;
  if (r->pass != MERGES) return true;
  const int64_t a = r->bytes ? unspell(left, strlen(left)) : (int64_t)strlen(left),
                b = r->bytes ? unspell(right, strlen(right)) : (int64_t)strlen(right);
  const int32_t rank = (int32_t)r->merges;
  if (a < 1 || b < 1) return refuse(r, "merge %d has an empty token", rank);
  memcpy(both, left, (size_t)a);
  memcpy(both + a, right, (size_t)b);
  const int32_t first = find_token(v, left, a), second = find_token(v, right, b),
                joined = find_token(v, both, a + b);
  if (first < 0 || second < 0 || joined < 0)
    return refuse(r, "merge %d: a token is not in the vocabulary", rank);
  Merge *merge = find_merge(v, first, second);
  if (merge->rank < 0) *merge = (Merge){first, second, joined, rank};
  r->merges++;
  return true;
}

/* ["a b", ..] or [["a", "b"], ..] */
static bool read_merges(Reader *r, Json *json) {
  char left[2 * LONGEST_TOKEN], right[LONGEST_TOKEN];
  if (r->pass == MERGES) r->merges = 0;
  if (!json_open(json, '[')) return false;
  for (bool first = true; json_more(json, ']', &first);) {
    bool inner = true;
    if (json_open(json, '[')) {
      if (!json_more(json, ']', &inner) || !json_string(json, left, LONGEST_TOKEN, NULL) ||
          !json_more(json, ']', &inner) || !json_string(json, right, sizeof right, NULL) ||
          json_more(json, ']', &inner))
        return false;
    } else {
      if (!json_string(json, left, sizeof left, NULL)) return false;
      char *space = strchr(left, ' ');
      if (!space || strchr(space + 1, ' ') || strlen(space) > LONGEST_TOKEN) return false;
      *space = 0;
      memcpy(right, space + 1, strlen(space + 1) + 1);
    }
    if (!take_merge(r, left, right)) return false;
  }
  return !json->bad;
}

/* ---- the file */

static bool read_value(Reader *r, Json *json, const char *name, int depth);

static bool read_object(Reader *r, Json *json, const char *name, int depth) {
  for (bool first = true; json_more(json, '}', &first);) {
    char key[MOST_NAME], full[2 * MOST_NAME];
    if (!json_key(json, key, sizeof key)) return false;
    if (snprintf(full, sizeof full, "%s%s%s", name, *name ? "." : "", key) >= MOST_NAME)
      return false;
    if (!read_value(r, json, full, depth + 1)) return false;
  }
  return !json->bad;
}

static bool is_named(const char *name, const char *start) {
  const size_t length = strlen(start);
  return strncmp(name, start, length) == 0 && (name[length] == '.' || !name[length]);
}

/* What is before the text in the template of one text. */
static void take_template(Reader *r, const char *name, const char *value) {
  const char *single = strstr(name, ".single.");
  if (!single) return;
  if (strncmp(single + 8, "Sequence", 8) == 0) r->begun = true;
  if (strcmp(single + 8, "SpecialToken.id") == 0 && !r->begun && !*r->begin)
    memcpy(r->begin, value, strlen(value) + 1);
}

static bool read_value(Reader *r, Json *json, const char *name, int depth) {
  char value[LONGEST_TOKEN];
  if (depth > MOST_DEPTH) return false;
  if (strcmp(name, "model.vocab") == 0) return read_vocabulary(r, json);
  if (strcmp(name, "model.merges") == 0) return read_merges(r, json);
  if (strcmp(name, "added_tokens") == 0) return read_added(r, json);
  if (is_named(name, "version") || is_named(name, "truncation") || is_named(name, "padding") ||
      is_named(name, "decoder") || strstr(name, ".special_tokens"))
    return json_skip(json);
  if (json_open(json, '{')) return read_object(r, json, name, depth);
  if (json_open(json, '[')) {
    for (bool first = true; json_more(json, ']', &first);)
      if (!read_value(r, json, name, depth + 1)) return false;
    return !json->bad;
  }
  if (!json_scalar(json, value, sizeof value)) return false;
  if (is_named(name, "post_processor")) return take_template(r, name, value), true;
  return take_member(r, name, value);
}

static bool read_pass(Reader *r, Pass pass, const unsigned char *map) {
  Json json = {(const char *)map, (const char *)map + r->size, false};
  r->pass = pass;
  r->begun = false;
  if (json_open(&json, '{') && read_object(r, &json, "", 0) && json_end(&json)) return true;
  return !r->said &&
         wrong(r->path, "is not a tokenizer's JSON, or not one for this program, at byte %td",
               json.at - (const char *)map);
}

static bool allocate(Reader *r) {
  Vocabulary *v = r->v;
  v->merge_slots = 2 * (uint64_t)r->merges + 1;
  v->merge = malloc(v->merge_slots * sizeof *v->merge);
  v->added = malloc((size_t)(r->added + 1) * sizeof *v->added);
  if (!v->merge || !v->added || !allocate_tokens(v, r->size)) return wrong(r->path, "no memory");
  memset(v->merge, 0xff, v->merge_slots * sizeof *v->merge);
  return true;
}

/* The token of each byte: itself, or <0x0A>. */
static bool find_bytes(Reader *r) {
  for (int byte = 0; byte < BYTES; byte++) {
    char text[8] = {(char)byte};
    if (!r->bytes) snprintf(text, sizeof text, "<0x%02X>", byte);
    r->v->of_byte[byte] = r->bytes || r->fallback ? find_token(r->v, text, r->bytes ? 1 : 6) : -1;
    if ((r->bytes || r->fallback) && r->v->of_byte[byte] < 0)
      return wrong(r->path, "has no token for the byte %d", byte);
  }
  return true;
}

Vocabulary *tokenizer_open(const char *path) {
  const unsigned char *map;
  Reader r = {.path = path};
  if (!file_map(path, &map, &r.size)) return NULL;
  r.v = calloc(1, sizeof *r.v);
  bool good = r.v || wrong(path, "no memory");
  if (good) r.v->words = WORDS_WHOLE, r.v->begin = -1;
  good = good && read_pass(&r, SIZES, map);
  if (good && r.bytes == r.v->pieces)
    good = wrong(path, "is neither of byte pairs nor of pieces with U+2581 for spaces");
  good = good && allocate(&r) && read_pass(&r, TOKENS, map) && read_pass(&r, MERGES, map) &&
         find_bytes(&r);
  file_unmap(map, r.size);
  if (good && *r.begin) r.v->begin = vocabulary_named(r.v, r.begin);
  if (good && *r.begin && r.v->begin < 0)
    good = wrong(path, "the token %s of its template is not one of added_tokens", r.begin);
  if (good) return r.v;
  if (r.v) vocabulary_close(r.v);
  return NULL;
}
