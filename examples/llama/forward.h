/* forward.h: the cache of keys and values of sequences, and the logits of their next tokens. */
#ifndef LLAMA_FORWARD_H
#define LLAMA_FORWARD_H

#include "model.h"

typedef struct {
  const Model *model;
  pk_context *context;
  int64_t batch, capacity, temporaries;
  void *cache[2];
  float *logits; /* [batch, tokens] */
  int32_t *at, *length, *last, *token, *position;
} Forward;

/* PART: the most tokens of a prompt that one call reads. */
enum { PART = 512 };

void forward_open(Forward *f, const Model *model, pk_context *context, int64_t batch,
                  int64_t capacity);
void forward_close(Forward *f);
/* Tokens of one sequence from position `at` on; its row of the logits follows the last of them. */
void forward_prompt(Forward *f, int64_t sequence, int64_t at, const int32_t *token, int64_t count);
/* f->token[b] of each sequence at position f->at[b]. */
void forward_next(Forward *f);

#endif
