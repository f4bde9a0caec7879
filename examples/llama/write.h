/* write.h: texts that a model writes. */
#ifndef LLAMA_WRITE_H
#define LLAMA_WRITE_H

#include "forward.h"

typedef struct {
  const char *tokenizer; /* the path of tokenizer.json */
  int64_t length, context, seed, top_k;
  double temperature, top_p;
} Writing;

/* Standard input is one prompt; what follows it goes to standard output. */
void write_text(const Writing *writing, const Model *model, pk_context *context);
/* Each line of standard input is what a user says. */
void write_chat(const Writing *writing, const Model *model, pk_context *context);

/* The tokens of standard input, on a line. */
void print_tokens(const Writing *writing);

#endif
