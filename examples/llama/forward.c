/* Calls of the program of kernels: a part of a prompt, or one token of each sequence. */
#include "forward.h"

#include "next.h"
#include "prompt.h"

#include <stdlib.h>
#include <string.h>

extern const pk_kernel llama_next_kernel, llama_prompt_kernel;

void forward_open(Forward *f, const Model *model, pk_context *context, int64_t batch,
                  int64_t capacity) {
  const Config *c = &model->config;
  const int64_t word = (int64_t)sizeof(int32_t), most = batch > PART ? batch : PART;
  *f = (Forward){.model = model, .context = context, .batch = batch, .capacity = capacity};
  for (int i = 0; i < 2; i++)
    f->cache[i] =
        memory(c->layers * batch * c->groups * capacity * c->head * model->weights->cache_bits / 8);
  f->logits = memory(batch * c->tokens * word);
  f->at = memory(batch * word);
  f->length = memory(batch * word);
  f->last = memory(batch * word);
  f->token = memory(most * word);
  f->position = memory(most * word);
}

void forward_close(Forward *f) {
  void *all[] = {f->cache[0], f->cache[1], f->logits, f->at,
                 f->length,   f->last,     f->token,  f->position};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* The cache of sequences first, first + 1, .., of which the first `seen` positions are read. */
static void view_cache(const Forward *f, int i, int64_t first, int64_t batch, int64_t seen,
                       Tensor *to, int64_t strides[5]) {
  const Config *c = &f->model->config;
  const int64_t row = f->capacity * c->head;
  view(to, (char *)f->cache[i] + first * c->groups * row * f->model->weights->cache_bits / 8,
       kDLFloat, f->model->weights->cache_bits, 5,
       (int64_t[]){c->layers, batch, c->groups, seen, c->head});
  const int64_t all[5] = {f->batch * c->groups * row, c->groups * row, row, c->head, 1};
  memcpy(strides, all, sizeof all);
  to->t.strides = strides;
}

static void run(Forward *f, const pk_kernel *program, int64_t first, int64_t batch, int64_t count,
                int64_t seen) {
  Tensor number[5], cache[2], weight[ROLES], scale[ROLES], logits;
  DLTensor *tensors[10 + 2 * ROLES];
  int64_t strides[2][5];
  int n = 0;
  VIEW(&number[0], f->at, kDLInt, batch);
  VIEW(&number[1], f->length, kDLInt, batch);
  VIEW(&number[2], f->position, kDLInt, batch, count);
  VIEW(&number[3], f->last, kDLInt, batch);
  VIEW(&number[4], f->token, kDLInt, batch, count);
  VIEW(&logits, f->logits + first * f->model->config.tokens, kDLFloat, batch,
       f->model->config.tokens);
  for (int i = 0; i < 5; i++) tensors[n++] = &number[i].t;
  for (int i = 0; i < 2; i++) {
    view_cache(f, i, first, batch, seen, &cache[i], strides[i]);
    tensors[n++] = &cache[i].t;
  }
  for (int i = 0; i < ROLES; i++) {
    model_view(f->model, (Role)i, &weight[i], &scale[i]);
    tensors[n++] = &weight[i].t;
  }
  for (int i = 0; i < ROLES; i++)
    if (role_is_matrix((Role)i)) tensors[n++] = &scale[i].t;
  tensors[n++] = &logits.t;
  for (int i = 0; i < 2; i++) tensors[n++] = &cache[i].t;
  call(f->context, program, tensors);
}

void forward_prompt(Forward *f, int64_t sequence, int64_t at, const int32_t *token, int64_t count) {
  for (int64_t done = 0; done < count; done += PART) {
    const int64_t part = count - done < PART ? count - done : PART;
    f->at[0] = (int32_t)(at + done);
    f->length[0] = (int32_t)(at + done + part);
    f->last[0] = (int32_t)part - 1;
    for (int64_t i = 0; i < part; i++) {
      f->token[i] = token[done + i];
      f->position[i] = (int32_t)(at + done + i);
    }
    run(f, &llama_prompt_kernel, sequence, 1, part, at + done + part);
  }
}

void forward_next(Forward *f) {
  for (int64_t b = 0; b < f->batch; b++) {
    f->position[b] = f->at[b];
    f->length[b] = f->at[b] + 1;
    f->last[b] = (int32_t)b;
  }
  run(f, &llama_next_kernel, 0, f->batch, 1, f->capacity);
}
