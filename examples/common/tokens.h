/* tokens.h: texts as tokens: bytes, or byte pairs by a published encoder.json and vocab.bpe. */
#ifndef EXAMPLES_TOKENS_H
#define EXAMPLES_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Vocabulary Vocabulary;

/* Both NULL: the 256 bytes. NULL, with a message on standard error. */
Vocabulary *vocabulary_open(const char *encoder, const char *merges);
/* tokenizer.json, as GPT-2, Llama, Mistral, Qwen and Gemma have it. */
Vocabulary *tokenizer_open(const char *path);
void vocabulary_close(Vocabulary *vocabulary);
/* The token that begins a text; -1: none. */
int32_t vocabulary_begin(const Vocabulary *vocabulary);
/* The token of a name such as <|eot_id|>; -1: none. */
int32_t vocabulary_named(const Vocabulary *vocabulary, const char *name);
int64_t vocabulary_count(const Vocabulary *vocabulary); /* the greatest token, and one */

/* Bytes that are not UTF-8 stand for themselves. `token` has room for one a byte, and three more;
 * the number of them, or -1, with a message: the vocabulary does not have all characters. */
int64_t tokens_of(const Vocabulary *vocabulary, const unsigned char *text, int64_t bytes,
                  int32_t *token);
/* The bytes of a token; NULL for one that the vocabulary lacks. */
const unsigned char *token_bytes(const Vocabulary *vocabulary, int64_t token, int64_t *bytes);

/* What a token stands for in a text, with spaces as such; the number of bytes. */
enum { TOKEN_TEXT = 1024 };
int64_t token_text(const Vocabulary *vocabulary, int64_t token, unsigned char text[TOKEN_TEXT]);

#endif
