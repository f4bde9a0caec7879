/* vocabulary.h: what the readers of vocabularies share. */
#ifndef EXAMPLES_VOCABULARY_H
#define EXAMPLES_VOCABULARY_H

#include "tokens.h"

#include <stddef.h>

enum { MOST_ENTRIES = 1 << 24, LONGEST_TOKEN = 1024, BYTES = 256 };

/* How a text is cut into words, whose pairs are joined: as GPT-2, as Llama 3 with up to three
 * digits together, as Qwen with each digit alone, or not at all. */
typedef enum { WORDS_GPT2, WORDS_LLAMA3, WORDS_QWEN, WORDS_WHOLE } Words;

/* Where U+2581 comes first: nowhere, before each part of a text between named tokens, or, where the
 * part does not begin with one, before the first part or before each. */
typedef enum { NO_PREFIX, PREFIX_ADDED, PREFIX_FIRST, PREFIX_ALWAYS } Prefix;

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
  int32_t of_byte[BYTES]; /* -1: the byte has no token */
  int32_t *by_text;       /* hashed by their bytes; -1: an empty slot */
  uint64_t text_slots;
  Merge *merge; /* hashed by left and right */
  uint64_t merge_slots;
  Words words;
  bool pieces, whole_words; /* pieces: characters, with U+2581 for spaces; whole_words: a word that
                               is a token is not cut */
  bool composed;            /* texts are in form NFC */
  Prefix prefix;
  int32_t *added, begin; /* tokens that texts name; begin: the first of a text, or -1 */
  int64_t added_count;
};

/* The character at `at`, and its length; of bytes that are not UTF-8 the first alone, as U+FFFD. */
uint32_t character(const unsigned char *at, const unsigned char *end, int *length);
/* The first character that form NFC (of Unicode) may change; 0: none. */
uint32_t not_composed(const unsigned char *at, const unsigned char *end);
/* The end of the word that begins at `at`. */
const unsigned char *word_end(Words words, const unsigned char *at, const unsigned char *end);

/* A text of the files as bytes, in place; its length, -1 where a character stands for none. */
int64_t unspell(char *text, size_t length);
int32_t find_token(const Vocabulary *v, const char *text, int64_t bytes); /* -1: there is none */
Merge *find_merge(const Vocabulary *v, int32_t left, int32_t right);
bool allocate_tokens(Vocabulary *v, int64_t text_bytes);
bool add_token(Vocabulary *v, const char *path, const char *text, int64_t bytes, int64_t token,
               int64_t *used);
/* Joins the pairs of a word; the number of tokens that are left. */
int64_t join(const Vocabulary *v, int32_t *token, int64_t count);

#endif
