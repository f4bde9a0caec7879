/* tokens.h: texts as tokens: bytes, or byte pairs by a published encoder.json and vocab.bpe. */
#ifndef GPT2_TOKENS_H
#define GPT2_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Vocabulary Vocabulary;

/* Both NULL: the 256 bytes. NULL, with a message on standard error. */
Vocabulary *vocabulary_open(const char *encoder, const char *merges);
void vocabulary_close(Vocabulary *vocabulary);
int64_t vocabulary_count(const Vocabulary *vocabulary); /* the greatest token, and one */

/* Every text has tokens: bytes that are not UTF-8 stand for themselves. `token` has room for one a
 * byte; the number of them. */
int64_t tokens_of(const Vocabulary *vocabulary, const unsigned char *text, int64_t bytes,
                  int32_t *token);
/* The bytes of a token; NULL for one that the vocabulary lacks. */
const unsigned char *token_bytes(const Vocabulary *vocabulary, int64_t token, int64_t *bytes);

#endif
