/* Writing: weights as the kernels take them, a cache of keys and values, and one token after the
 * other of each sequence. */
#define _GNU_SOURCE
#include "gpt2.h"

#include "config.h"

#include "groups.h"
#include "narrow.h"
#include "next.h"
#include "next_groups.h"
#include "rows.h"
#include "sample.h"
#include "transpose.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const pk_kernel gpt2_next_bf16_kernel, gpt2_next_i8_kernel, gpt2_next_row_f32_kernel,
    gpt2_next_row_bf16_kernel, gpt2_next_row_i8_kernel;

typedef struct {
  const char *name;
  const pk_kernel *program, *row; /* row: for one token of one sequence */
  DLDataTypeCode code;
  int bits, cache_bits; /* of keys and values: floats */
} Weights;

static const Weights weight_kinds[] = {
    {"f32", &gpt2_next_kernel, &gpt2_next_row_f32_kernel, kDLFloat, 32, 32},
    {"bf16", &gpt2_next_bf16_kernel, &gpt2_next_row_bf16_kernel, kDLBfloat, 16, 16},
    {"i8", &gpt2_next_i8_kernel, &gpt2_next_row_i8_kernel, kDLInt, 8, 16},
    {"i4", &gpt2_next_groups_kernel, &gpt2_next_groups_kernel, kDLUInt, 4, 16}};

/* The matrices that --weights is about. */
enum { MATRICES = 5 };
static const int matrices[MATRICES] = {WTE, WQKV, WO, WUP, WDOWN};

/* PART: the most tokens of a sequence that are read in one call; GROUP: elements of a row that
 * share a scale in 4 bits. */
enum { PART = 512, GROUP = 32 };

typedef struct {
  int32_t *token;
  int64_t count, start; /* the cache begins with token[start] */
} Sequence;

typedef struct {
  Layout layout;
  const Weights *weights;
  float *loaded;               /* all parameters as f32 */
  void *parameter[PARAMETERS]; /* as the program takes them */
  float *scale[MATRICES];
  Sequence *sequence;
  int64_t batch, positions, part, temporaries;
  void *cache[2];
  float *logits, *chosen; /* chosen: the logits of each sequence's last token */
  int32_t *at, *last, *token;
  pk_context *context;
} Writer;

/* ---- weights */

static bool in_groups(const Writer *w) { return w->weights->bits == 4; }

/* As it is narrowed, a matrix has a row for each output, or token; this is what a row has. */
static int64_t inputs_of(const Layout *layout, int parameter) {
  return layout->shape[parameter][parameter == WTE ? 1 : parameter_axes[parameter] - 2];
}

static int64_t rows_of(const Layout *layout, int parameter) {
  return layout->shape[parameter][parameter == WTE ? 0 : parameter_axes[parameter] - 1];
}

/* The scales of one layer. */
static int64_t scales_of(const Writer *w, int parameter) {
  return rows_of(&w->layout, parameter) *
         (in_groups(w) ? inputs_of(&w->layout, parameter) / GROUP : 1);
}

/* One matrix, [rows, columns], to place `part` of its parameter. */
static void narrow_matrix(Writer *w, int i, const float *from, int64_t rows, int64_t columns,
                          int64_t part) {
  char *to = (char *)w->parameter[matrices[i]] + part * rows * columns * w->weights->bits / 8;
  float *scales = w->scale[i] + part * scales_of(w, matrices[i]);
  Tensor in, out, scale;
  if (in_groups(w)) {
    VIEW(&in, from, kDLFloat, rows, columns / GROUP, GROUP);
    view(&out, to, kDLUInt, 8, 3, (int64_t[]){rows, columns / GROUP, GROUP / 2});
    VIEW(&scale, scales, kDLFloat, rows, columns / GROUP, 1);
    call(w->context, &quantise_groups_kernel, (DLTensor *[]){&in.t, &out.t, &scale.t});
    return;
  }
  VIEW(&in, from, kDLFloat, rows, columns);
  view(&out, to, w->weights->code, w->weights->bits, 2, in.shape);
  VIEW(&scale, scales, kDLFloat, rows);
  if (w->weights->bits == 16)
    call(w->context, &narrow_kernel, (DLTensor *[]){&in.t, &out.t});
  else
    call(w->context, &quantise_rows_kernel, (DLTensor *[]){&in.t, &out.t, &scale.t});
}

/* Matrices of layers become [out, in] first. */
static void narrow_parameter(Writer *w, int i) {
  const int parameter = matrices[i], axes = parameter_axes[parameter];
  const int64_t *shape = w->layout.shape[parameter], rows = shape[axes - 2],
                columns = shape[axes - 1];
  const float *from = w->loaded + w->layout.start[parameter];
  const int64_t bytes = rows * columns * (int64_t)sizeof(float);
  w->parameter[parameter] = memory(parameter_count(&w->layout, parameter) * w->weights->bits / 8);
  if (parameter == WTE) {
    narrow_matrix(w, i, from, rows, columns, 0);
    return;
  }
  float *turned = memory(bytes);
  for (int64_t part = 0; part < shape[0]; part++) {
    Tensor in, out;
    VIEW(&in, from + part * rows * columns, kDLFloat, rows, columns);
    VIEW(&out, turned, kDLFloat, columns, rows);
    call(w->context, &transpose_kernel, (DLTensor *[]){&in.t, &out.t});
    narrow_matrix(w, i, turned, columns, rows, part);
  }
  memory_free(turned, bytes);
}

static bool is_narrowed(int parameter) {
  for (int i = 0; i < MATRICES; i++)
    if (matrices[i] == parameter) return true;
  return false;
}

/* What is not f32 has memory of its own, and the f32 that it was made of is given back. */
static void place_parameters(Writer *w) {
  for (int i = 0; i < MATRICES; i++) {
    const int64_t layers = matrices[i] == WTE ? 1 : w->layout.sizes.layers;
    w->scale[i] = memory(layers * scales_of(w, matrices[i]) * (int64_t)sizeof(float));
  }
  for (int i = 0; i < PARAMETERS; i++) w->parameter[i] = w->loaded + w->layout.start[i];
  if (w->weights->bits == 32) return;
  for (int i = 0; i < MATRICES; i++) narrow_parameter(w, i);
  for (int i = 0; i < PARAMETERS; i++) {
    if (is_narrowed(i)) continue;
    const int64_t bytes = parameter_count(&w->layout, i) * (int64_t)sizeof(float);
    w->parameter[i] = memcpy(memory(bytes), w->parameter[i], (size_t)bytes);
  }
  memory_free(w->loaded, w->layout.rows * ROW * (int64_t)sizeof(float));
  w->loaded = NULL;
}

/* ---- calls */

/* A matrix and its scales as the program takes them: [L, in, out] in f32, else [L, out, in]; wte
 * has no L; groups have an axis of their own. */
static void view_matrix(const Writer *w, int i, Tensor *matrix, Tensor *scale) {
  const int parameter = matrices[i], lead = parameter == WTE ? 0 : 1;
  const int64_t rows = rows_of(&w->layout, parameter), in = inputs_of(&w->layout, parameter);
  int64_t shape[MOST_AXES] = {w->layout.sizes.layers}, scales[MOST_AXES] = {shape[0]};
  shape[lead] = scales[lead] = rows;
  shape[lead + 1] = in_groups(w) ? in / GROUP : in;
  shape[lead + 2] = GROUP / 2;
  scales[lead + 1] = in / GROUP;
  scales[lead + 2] = 1;
  if (in_groups(w)) {
    view(matrix, w->parameter[parameter], kDLUInt, 8, lead + 3, shape);
    view(scale, w->scale[i], kDLFloat, 32, lead + 3, scales);
    return;
  }
  view(matrix, w->parameter[parameter], w->weights->code, w->weights->bits, lead + 2,
       w->weights->bits == 32 ? w->layout.shape[parameter] : shape);
  view(scale, w->scale[i], kDLFloat, 32, lead + 1, scales);
}

/* `count` new tokens of each sequence, from w->token, at w->at; w->logits follow those in w->last.
 */
static void forward(Writer *w, int64_t count) {
  const Sizes *s = &w->layout.sizes;
  Tensor at, last, token, cache[2], parameter[PARAMETERS], scale[MATRICES], logits;
  DLTensor *tensors[8 + PARAMETERS + MATRICES];
  int n = 0;
  VIEW(&at, w->at, kDLInt, w->batch);
  VIEW(&last, w->last, kDLInt, w->batch);
  VIEW(&token, w->token, kDLInt, w->batch, count);
  for (int i = 0; i < 2; i++)
    view(&cache[i], w->cache[i], kDLFloat, w->weights->cache_bits, 5,
         (int64_t[]){s->layers, w->batch, s->heads, w->positions, E});
  VIEW(&logits, w->logits, kDLFloat, w->batch, s->tokens);
  for (int i = 0; i < PARAMETERS; i++)
    view(&parameter[i], w->parameter[i], kDLFloat, 32, parameter_axes[i], w->layout.shape[i]);
  parameter[WPE].shape[0] = w->positions; /* a shorter cache takes no more of them */
  for (int i = 0; i < MATRICES; i++) view_matrix(w, i, &parameter[matrices[i]], &scale[i]);
  tensors[n++] = &at.t;
  tensors[n++] = &last.t;
  tensors[n++] = &token.t;
  for (int i = 0; i < 2; i++) tensors[n++] = &cache[i].t;
  for (int i = 0; i < PARAMETERS; i++) tensors[n++] = &parameter[i].t;
  for (int i = 0; i < MATRICES; i++) tensors[n++] = &scale[i].t;
  tensors[n++] = &logits.t;
  for (int i = 0; i < 2; i++) tensors[n++] = &cache[i].t;
  if (w->temporaries == 0) {
    w->temporaries = pk_temporary_bytes(w->context, w->weights->program, tensors);
    check_room(w->temporaries);
  }
  call(w->context, w->batch * count == 1 ? w->weights->row : w->weights->program, tensors);
}

/* Reads the sequences from their starts. The first call has room for `room` tokens of each, which
 * is as much as later ones need: the memory between kernels is then that of the first call. What
 * lies behind a shorter sequence is overwritten. */
static void read_sequences(Writer *w, int64_t room) {
  int64_t longest = room;
  for (int64_t b = 0; b < w->batch; b++) {
    const int64_t length = w->sequence[b].count - w->sequence[b].start;
    if (length > longest) longest = length;
  }
  for (int64_t from = 0; from < longest; from += w->part) {
    const int64_t count = longest - from < w->part ? longest - from : w->part;
    for (int64_t b = 0; b < w->batch; b++) {
      const Sequence *q = &w->sequence[b];
      const int64_t end = q->count - q->start - from; /* the sequence's, in this part */
      w->at[b] = (int32_t)from;
      w->last[b] = (int32_t)(end < 1 ? 0 : end < count ? end - 1 : count - 1);
      for (int64_t i = 0; i < count; i++)
        w->token[b * count + i] = i < end ? q->token[q->start + from + i] : 0;
    }
    forward(w, count);
    for (int64_t b = 0; b < w->batch; b++) {
      const int64_t end = w->sequence[b].count - w->sequence[b].start - from,
                    tokens = w->layout.sizes.tokens;
      if (end >= 1 && end <= count)
        memcpy(w->chosen + b * tokens, w->logits + b * tokens, (size_t)tokens * sizeof(float));
    }
  }
}

/* The last token of each sequence. */
static void read_next(Writer *w) {
  for (int64_t b = 0; b < w->batch; b++) {
    const Sequence *q = &w->sequence[b];
    w->at[b] = (int32_t)(q->count - 1 - q->start);
    w->last[b] = 0;
    w->token[b] = q->token[q->count - 1];
  }
  forward(w, 1);
  memcpy(w->chosen, w->logits, (size_t)(w->batch * w->layout.sizes.tokens) * sizeof(float));
}

/* ---- tokens */

/* The next token of each sequence, by the n-th call: from the seed, n and the sequence alone. */
static void choose(Writer *w, const Options *o, int64_t n) {
  const int64_t V = w->layout.sizes.tokens;
  const Sampling how = {(int32_t)(random_bits((uint64_t)o->seed, 0) >> 33), (int32_t)o->top_k,
                        (float)o->temperature, (float)o->top_p};
  sample_tokens(w->context, &how, n, w->chosen, w->batch, V, w->token);
  for (int64_t b = 0; b < w->batch; b++) {
    Sequence *q = &w->sequence[b];
    if (!isfinite(w->chosen[b * V + w->token[b]]))
      fail("%s: the logits after token %" PRId64 " are not finite", o->checkpoint, q->count);
    q->token[q->count++] = w->token[b];
  }
}

/* A full cache begins again with the second half of what it holds. */
static bool make_room(Writer *w) {
  bool full = false;
  for (int64_t b = 0; b < w->batch; b++)
    full |= w->sequence[b].count - w->sequence[b].start > w->positions;
  for (int64_t b = 0; full && b < w->batch; b++) {
    Sequence *q = &w->sequence[b];
    const int64_t kept = (w->positions + 1) / 2;
    if (q->count - q->start > kept) q->start = q->count - kept;
  }
  return full;
}

static void read_prompt(Writer *w, const Options *o, const Vocabulary *vocabulary, int64_t b) {
  const char *prompt = o->prompts[b];
  const int64_t bytes = (int64_t)strlen(prompt);
  Sequence *q = &w->sequence[b];
  if (bytes == 0) fail("the prompt is empty");
  q->token = memory((most_tokens(bytes) + o->length) * (int64_t)sizeof(int32_t));
  q->count = tokens_of(vocabulary, (const unsigned char *)prompt, bytes, q->token);
  if (q->count > w->positions)
    fail("the prompt has %" PRId64 " tokens, the context %" PRId64, q->count, w->positions);
  for (int64_t i = 0; i < q->count; i++)
    if (q->token[i] >= w->layout.sizes.tokens)
      fail("token %" PRId64 " of the prompt is %d: the checkpoint has %" PRId64, i, q->token[i],
           w->layout.sizes.tokens);
}

static void open_writer(Writer *w, const Options *o, const Vocabulary *vocabulary) {
  const Sizes *s = &w->layout.sizes;
  const int64_t word = (int64_t)sizeof(float);
  if (o->context > s->positions)
    fail("--context: %s has %" PRId64 " positions", o->checkpoint, s->positions);
  if (vocabulary_count(vocabulary) > s->tokens && vocabulary_file(o))
    fail("%s has %" PRId64 " tokens, %s %" PRId64, vocabulary_file(o), vocabulary_count(vocabulary),
         o->checkpoint, s->tokens);
  if (!vocabulary_file(o) && s->tokens > vocabulary_count(vocabulary))
    fprintf(stderr,
            "gpt2: note: %s has %" PRId64 " tokens; without --tokenizer the first %" PRId64
            " are bytes, and the others are shown as <NUMBER>\n",
            o->checkpoint, s->tokens, vocabulary_count(vocabulary));
  w->positions = o->context ? o->context : s->positions;
  w->batch = o->prompt_count;
  w->part = w->positions < PART ? w->positions : PART;
  w->sequence = memory(w->batch * (int64_t)sizeof *w->sequence);
  for (int64_t b = 0; b < w->batch; b++) read_prompt(w, o, vocabulary, b);
  for (int i = 0; i < 2; i++)
    w->cache[i] =
        memory(s->layers * w->batch * s->features * w->positions * w->weights->cache_bits / 8);
  w->logits = memory(w->batch * s->tokens * word);
  w->chosen = memory(w->batch * s->tokens * word);
  w->at = memory(w->batch * word);
  w->last = memory(w->batch * word);
  w->token = memory(w->batch * w->part * word);
}

static void print_sequences(const Writer *w, const Vocabulary *vocabulary) {
  for (int64_t b = 0; b < w->batch; b++) {
    if (b > 0) printf("----\n");
    for (int64_t i = 0, bytes; i < w->sequence[b].count; i++) {
      const int32_t token = w->sequence[b].token[i];
      unsigned char text[TOKEN_TEXT];
      if (token_bytes(vocabulary, token, &bytes))
        fwrite(text, 1, (size_t)token_text(vocabulary, token, text), stdout);
      else
        printf("<%d>", token);
    }
    printf("\n");
  }
}

static void write_sequences(Writer *w, const Options *o) {
  int64_t longest = 0, read = 0, heap = 0;
  for (int64_t b = 0; b < w->batch; b++) {
    if (w->sequence[b].count > longest) longest = w->sequence[b].count;
    read += w->sequence[b].count;
  }
  const int64_t kept = longest + o->length > w->positions ? (w->positions + 1) / 2 : 0;
  const double begin = now();
  read_sequences(w, kept < w->part ? kept : w->part);
  const double middle = now();
  for (int64_t n = 0; n < o->length; n++) {
    choose(w, o, n);
    if (n == 0) heap = heap_bytes();
    if (n + 1 == o->length) break;
    if (make_room(w))
      read_sequences(w, 0);
    else
      read_next(w);
  }
  fprintf(stderr, "read %" PRId64 " tokens, %.0f tokens/s; wrote %" PRId64 ", %.0f tokens/s\n",
          read, (double)read / (middle - begin), w->batch * o->length,
          (double)(w->batch * o->length) / (now() - middle));
  if (o->report) print_report(w->context, w->temporaries, heap_bytes() - heap);
}

static void close_writer(Writer *w) {
  for (int i = 0; i < PARAMETERS; i++)
    if (!w->loaded) free(w->parameter[i]);
  for (int i = 0; i < MATRICES; i++) free(w->scale[i]);
  for (int64_t b = 0; b < w->batch; b++) free(w->sequence[b].token);
  void *rest[] = {w->loaded, w->sequence, w->cache[0], w->cache[1], w->logits,
                  w->chosen, w->at,       w->last,     w->token};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) free(rest[i]);
  pk_context_free(w->context);
}

void sample(const Options *given) {
  Options o = *given;
  Writer w = {0};
  if (!o.checkpoint) fail("sample requires --checkpoint FILE");
  if (o.prompt_count == 0) o.prompts[o.prompt_count++] = "The ";
  for (size_t i = 0; i < sizeof weight_kinds / sizeof *weight_kinds; i++)
    if (strcmp(o.weights, weight_kinds[i].name) == 0) w.weights = &weight_kinds[i];
  if (!w.weights) fail("--weights: expected f32, bf16, i8 or i4, found `%s`", o.weights);
  Vocabulary *vocabulary = open_vocabulary(&o);
  w.loaded = load_parameters(&w.layout, o.checkpoint, o.config);
  open_writer(&w, &o, vocabulary);
  if (in_groups(&w) && w.layout.sizes.features % GROUP != 0)
    fail("--weights i4: %s has %" PRId64 " features, which are not whole groups of %d",
         o.checkpoint, w.layout.sizes.features, GROUP);
  w.context = open_context((int)o.threads, o.report);
  place_parameters(&w);
  write_sequences(&w, &o);
  print_sequences(&w, vocabulary);
  close_writer(&w);
  vocabulary_close(vocabulary);
}
