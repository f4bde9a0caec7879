/* gpt2.h: what the parts of the program share: options, memory, arrays for kernels, the report. */
#ifndef GPT2_GPT2_H
#define GPT2_GPT2_H

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
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
double now(void);
/* Fails where the machine does not have as much beside what memory() gave: not all systems refuse
 * memory that they do not have. */
void check_room(int64_t bytes);
/* Zeroed, aligned; counted for the report. */
void *memory(int64_t bytes);
void memory_free(void *data, int64_t bytes);
pk_context *open_context(const Options *options);

/* ---- arrays as the kernels take them */

typedef struct {
  DLTensor t;
  int64_t shape[MOST_AXES];
} Tensor;

void view(Tensor *to, const void *data, DLDataTypeCode code, int bits, int axes,
          const int64_t *shape);
#define VIEW(to, data, code, ...)                                                     \
  view(to, data, code, 32, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
       (const int64_t[]){__VA_ARGS__})
void call(pk_context *context, const pk_kernel *kernel, DLTensor **tensors);

/* The bytes of the heap that are in use; 0 where that is not known. */
int64_t heap_bytes(void);
/* On standard error: memory, and time by kernel. `temporaries`: of the program that was called. */
void print_report(const pk_context *context, int64_t temporaries, int64_t grown);

#endif
