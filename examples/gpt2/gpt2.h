/* gpt2.h: what the parts of the program share. */
#ifndef GPT2_GPT2_H
#define GPT2_GPT2_H

#include "host.h"
#include "model.h"
#include "tokens.h"

/* Statics that the kernels were compiled for: positions of a sequence in training, features of a
 * head. */
enum { S = GPT2_S, E = GPT2_E, MOST_TEXTS = 64 };

typedef struct {
  const char *checkpoint, *config, *encoder, *merges, *weights;
  const char *texts[MOST_TEXTS], *prompts[MOST_TEXTS];
  int text_count, prompt_count;
  int64_t steps, stop, batch, threads, length, seed, save_every, context, top_k;
  double rate, temperature, top_p;
  bool report;
} Options;

void train(const Options *options);
void sample(const Options *options);

/* A model of heads or sequences that the kernels were not compiled for. */
void fail_sizes(const char *path, const Sizes *sizes) __attribute__((noreturn));

#endif
