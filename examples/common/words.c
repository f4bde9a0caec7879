/* Words of texts: hand-written matchers of the regular expressions that published tokenizers have.
 */
#include "unicode.h"
#include "vocabulary.h"

#include <stdint.h>
#include <string.h>

uint32_t character(const unsigned char *at, const unsigned char *end, int *length) {
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

/* ---- GPT-2: 's 't 're 've 'm 'll 'd, or letters, numbers or other characters with a space before
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

/* Of several spaces the last goes with what follows. */
static const unsigned char *gpt2_word(const unsigned char *at, const unsigned char *end) {
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

/* ---- Llama 3 and Qwen:
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3} or \p{N}
 *   | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+ */

static bool is_newline(unsigned char c) { return c == '\r' || c == '\n'; }

/* Letters of both cases, of which U+017F is an s. */
static int any_case_contraction(const unsigned char *at, const unsigned char *end) {
  unsigned char lower[3];
  if (end - at < 2 || *at != '\'') return 0;
  if (end - at >= 3 && at[1] == 0xc5 && at[2] == 0xbf) return 3;
  const int count = end - at < 3 ? 2 : 3;
  for (int i = 0; i < count; i++)
    lower[i] = at[i] >= 'A' && at[i] <= 'Z' ? (unsigned char)(at[i] + 32) : at[i];
  return contraction(lower, lower + count);
}

static const unsigned char *digits(const unsigned char *at, const unsigned char *end, int most) {
  for (int length; most > 0 && at < end && class_at(at, end, &length) == NUMBER; most--)
    at += length;
  return at;
}

/* Spaces: up to the last newline among them; else all but one before other characters. */
static const unsigned char *spaces(const unsigned char *at, const unsigned char *end) {
  int length, last = 0;
  const unsigned char *stop = at, *line = NULL;
  for (; stop < end && class_at(stop, end, &length) == SPACE; stop += length) {
    last = length;
    if (is_newline(*stop)) line = stop + 1;
  }
  if (line) return line;
  return stop == end || stop - last == at ? stop : stop - last;
}

static const unsigned char *llama3_word(const unsigned char *at, const unsigned char *end,
                                        int most_digits) {
  int length, next;
  const int short_form = any_case_contraction(at, end);
  if (short_form) return at + short_form;
  const Class class = class_at(at, end, &length);
  if (class == LETTER) return skip_class(at, end, LETTER);
  if (class == NUMBER) return digits(at, end, most_digits);
  const unsigned char *body = at + length;
  const Class follows = body < end ? class_at(body, end, &next) : SPACE;
  if (follows == LETTER && !is_newline(*at)) return skip_class(body, end, LETTER);
  if (class == SPACE && !(*at == ' ' && follows == OTHER)) return spaces(at, end);
  body = skip_class(class == OTHER ? at : body, end, OTHER);
  while (body < end && is_newline(*body)) body++;
  return body;
}

const unsigned char *word_end(Words words, const unsigned char *at, const unsigned char *end) {
  switch (words) {
    case WORDS_LLAMA3:
      return llama3_word(at, end, 3);
    case WORDS_QWEN:
      return llama3_word(at, end, 1);
    case WORDS_WHOLE:
      return end;
    default:
      return gpt2_word(at, end);
  }
}

uint32_t not_composed(const unsigned char *at, const unsigned char *end) {
  for (int length; at < end; at += length) {
    const uint32_t c = character(at, end, &length);
    if (IN_RANGES(unicode_not_composed, c)) return c;
  }
  return 0;
}
