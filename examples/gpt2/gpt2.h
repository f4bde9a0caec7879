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
  const char *checkpoint, *from, *config, *encoder, *merges, *tokenizer, *weights;
  const char *texts[MOST_TEXTS], *prompts[MOST_TEXTS];
  int text_count, prompt_count;
  int64_t steps, stop, batch, threads, length, seed, save_every, context, top_k;
  double rate, temperature, top_p;
  bool report;
} Options;

void train(const Options *options);
void sample(const Options *options);
/* Writes the folder of a published model. */
void publish(const Options *options);

/* The parameters of a checkpoint of training or a published one, and their layout; ends the
 * program, with a message, where they do not fit it. */
float *load_parameters(Layout *layout, const char *path, const char *config);

/* Of --tokenizer, or of --encoder and --merges, or bytes; ends the program, with a message, where a
 * file does not fit. */
Vocabulary *open_vocabulary(const Options *options);
/* The file that names the tokens; NULL where they are bytes. */
const char *vocabulary_file(const Options *options);
/* For the tokens of a text of `bytes` bytes. */
int64_t most_tokens(int64_t bytes);

/* A model of heads or sequences that the kernels were not compiled for. */
void fail_sizes(const char *path, const Sizes *sizes) __attribute__((noreturn));

#endif
