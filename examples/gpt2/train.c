/* Training: which sequences a step sees, the step, and what is kept of it. */
#define _GNU_SOURCE
#include "gpt2.h"

#include "adamw.h"
#include "gradients.h"
#include "squares.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The model that is trained from the beginning. */
enum { HEADS = 2, LAYERS = 4 };
static const double beta1 = 0.9, beta2 = 0.95, decay = 0.1, longest_gradient = 1.0;

/* ---- texts */

enum { LARGEST_TEXT = 1 << 30 }; /* bytes: a token takes 4 more */

typedef struct {
  unsigned char *bytes;
  int64_t size;
  int32_t *token;
  int64_t count; /* of tokens */
} Text;

static void read_text(Text *text, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fail("%s: %s", path, strerror(errno));
  for (size_t got = 1; got;) {
    text->bytes = realloc(text->bytes, (size_t)text->size + (1 << 16));
    if (!text->bytes) fail("no memory for %s", path);
    got = fread(text->bytes + text->size, 1, 1 << 16, file);
    text->size += (int64_t)got;
    if (text->size > LARGEST_TEXT)
      fail("%s: the texts have more than %d MiB", path, LARGEST_TEXT >> 20);
  }
  if (ferror(file)) fail("%s: %s", path, strerror(errno));
  fclose(file);
}

static void read_texts(Text *text, const Options *o, const Vocabulary *vocabulary) {
  for (int i = 0; i < o->text_count; i++) read_text(text, o->texts[i]);
  text->token = malloc((size_t)most_tokens(text->size) * sizeof *text->token);
  if (!text->token) fail("no memory for %" PRId64 " tokens", text->size);
  text->count = tokens_of(vocabulary, text->bytes, text->size, text->token);
  if (text->count <= S)
    fail("the texts have %" PRId64 " tokens: at least %d are needed", text->count, S + 1);
}

/* Sequences from anywhere in the text: which ones follows from the seed and the step. */
static void draw_batch(const Text *text, const Options *o, int64_t step, int32_t *token,
                       int32_t *target) {
  for (int64_t b = 0; b < o->batch; b++) {
    const uint64_t bits = random_bits((uint64_t)o->seed, (uint64_t)(step * o->batch + b));
    const int64_t at = (int64_t)(bits % (uint64_t)(text->count - S));
    for (int64_t i = 0; i < S; i++) {
      token[b * S + i] = text->token[at + i];
      target[b * S + i] = text->token[at + i + 1];
    }
  }
}

/* ---- training */

typedef struct {
  Layout layout;
  float *parts[PARTS], *gradient; /* parameters, the optimiser's two means; rows of ROW */
  float *loss, *square;
  int32_t *token, *target;
  int64_t temporaries;
  pk_context *context;
} Training;

static void parameter_views(Tensor *to, const Layout *layout, float *data) {
  for (int i = 0; i < PARAMETERS; i++)
    view(&to[i], data + layout->start[i], kDLFloat, 32, parameter_axes[i], layout->shape[i]);
}

static void compute_gradients(Training *t, int64_t rows) {
  Tensor inputs[PARAMETERS], outputs[PARAMETERS], token, target, loss;
  DLTensor *tensors[3 + 2 * PARAMETERS];
  int n = 0;
  parameter_views(inputs, &t->layout, t->parts[0]);
  parameter_views(outputs, &t->layout, t->gradient);
  VIEW(&token, t->token, kDLInt, rows);
  VIEW(&target, t->target, kDLInt, rows, 1);
  VIEW(&loss, t->loss, kDLFloat, rows, 1);
  tensors[n++] = &token.t;
  tensors[n++] = &target.t;
  for (int i = 0; i < PARAMETERS; i++) tensors[n++] = &inputs[i].t;
  tensors[n++] = &loss.t;
  for (int i = 0; i < PARAMETERS; i++) tensors[n++] = &outputs[i].t;
  if (t->temporaries == 0) {
    t->temporaries = pk_temporary_bytes(t->context, &gpt2_gradients_kernel, tensors);
    check_room(t->temporaries);
  }
  call(t->context, &gpt2_gradients_kernel, tensors);
}

static double gradient_norm(Training *t) {
  Tensor x, o;
  double sum = 0;
  VIEW(&x, t->gradient, kDLFloat, t->layout.rows, ROW);
  VIEW(&o, t->square, kDLFloat, t->layout.rows, 1);
  call(t->context, &squares_kernel, (DLTensor *[]){&x.t, &o.t});
  for (int64_t i = 0; i < t->layout.rows; i++) sum += t->square[i];
  return sqrt(sum);
}

/* Rows [from, to) of all parameters. */
static void update(Training *t, int64_t from, int64_t to, float rate[5]) {
  Tensor part[3], gradient, numbers;
  for (int i = 0; i < 3; i++) VIEW(&part[i], t->parts[i] + from * ROW, kDLFloat, to - from, ROW);
  VIEW(&gradient, t->gradient + from * ROW, kDLFloat, to - from, ROW);
  VIEW(&numbers, rate, kDLFloat, 5);
  call(t->context, &adamw_kernel,
       (DLTensor *[]){&part[0].t, &part[1].t, &part[2].t, &gradient.t, &numbers.t, &part[0].t,
                      &part[1].t, &part[2].t});
}

/* Warms up for a twentieth of the steps, then falls to a tenth along a cosine. */
static double rate_of(const Options *o, int64_t step) {
  const double warm = 0.05 * (double)o->steps + 1,
               done = ((double)step - warm) / ((double)o->steps - warm + 1);
  if ((double)step < warm) return o->rate * ((double)step + 1) / warm;
  return o->rate * (0.1 + 0.45 * (1 + cos(3.141592653589793 * (done < 1 ? done : 1))));
}

/* The loss. One that is not finite ends the program: the checkpoint stays as it was. */
static double train_step(Training *t, const Text *text, const Options *o, int64_t step) {
  const int64_t rows = o->batch * S;
  draw_batch(text, o, step, t->token, t->target);
  compute_gradients(t, rows);
  const double norm = gradient_norm(t),
               clip = norm > longest_gradient ? longest_gradient / norm : 1;
  double sum = 0;
  for (int64_t i = 0; i < rows; i++) sum += t->loss[i];
  if (!isfinite(sum) || !isfinite(norm))
    fail("step %" PRId64 ": the loss is %g, the gradient's norm %g: a lower --rate may help",
         step + 1, sum / (double)rows, norm);
  float rate[5] = {(float)rate_of(o, step), (float)(1 / (1 - pow(beta1, (double)step + 1))),
                   (float)(1 / (1 - pow(beta2, (double)step + 1))), (float)clip, (float)decay};
  update(t, 0, t->layout.matrix_rows, rate);
  rate[4] = 0;
  update(t, t->layout.matrix_rows, t->layout.rows, rate);
  return sum / (double)rows;
}

/* `parameters`: the first ones, or NULL for zeros. */
static void training_open(Training *t, const Options *o, float *parameters) {
  const int64_t bytes = t->layout.rows * ROW * (int64_t)sizeof(float), rows = o->batch * S;
  t->parts[0] = parameters ? parameters : memory(bytes);
  for (int i = 1; i < PARTS; i++) t->parts[i] = memory(bytes);
  t->gradient = memory(bytes);
  t->loss = memory(rows * (int64_t)sizeof(float));
  t->square = memory(t->layout.rows * (int64_t)sizeof(float));
  t->token = memory(rows * (int64_t)sizeof(int32_t));
  t->target = memory(rows * (int64_t)sizeof(int32_t));
  t->context = open_context((int)o->threads, o->report);
}

static void training_close(Training *t) {
  for (int i = 0; i < PARTS; i++) free(t->parts[i]);
  free(t->gradient);
  free(t->loss);
  free(t->square);
  free(t->token);
  free(t->target);
  pk_context_free(t->context);
}

static void save(const Training *t, const Options *o, int64_t step) {
  const float *parts[PARTS] = {t->parts[0], t->parts[1], t->parts[2]};
  if (o->checkpoint && !checkpoint_write(o->checkpoint, &t->layout, parts, PARTS, step)) exit(1);
}

static void check_sizes(const char *path, const Sizes *sizes, int64_t tokens) {
  if (sizes->positions != S || sizes->features != sizes->heads * E) fail_sizes(path, sizes);
  if (sizes->tokens != tokens)
    fail("%s has %" PRId64 " tokens, the vocabulary %" PRId64, path, sizes->tokens, tokens);
}

/* Continues a checkpoint, which says after how many steps. */
static int64_t training_continue(Training *t, const Options *o, int64_t tokens) {
  Tensors tensors;
  Sizes sizes;
  int64_t step;
  if (!tensors_open(&tensors, o->checkpoint) || !checkpoint_sizes(&tensors, &sizes, &step)) exit(1);
  check_sizes(o->checkpoint, &sizes, tokens);
  layout_make(&t->layout, &sizes);
  if (!published_read(&tensors, &t->layout, NULL, PARTS)) exit(1);
  training_open(t, o, NULL);
  published_read(&tensors, &t->layout, t->parts, PARTS);
  tensors_close(&tensors);
  return step;
}

/* The step at which training begins. */
static int64_t training_begin(Training *t, const Options *o, int64_t tokens) {
  if (o->checkpoint && access(o->checkpoint, F_OK) == 0) return training_continue(t, o, tokens);
  if (o->from) {
    float *parameters = load_parameters(&t->layout, o->from, o->config);
    check_sizes(o->from, &t->layout.sizes, tokens);
    training_open(t, o, parameters);
    return 0;
  }
  layout_make(&t->layout, &(Sizes){LAYERS, HEADS, HEADS * E, S, tokens});
  training_open(t, o, NULL);
  parameters_initialise(&t->layout, t->parts[0], (uint64_t)o->seed);
  return 0;
}

/* Steps take about the same time each. */
static void print_progress(const Options *o, int64_t first, int64_t done, int64_t end, double loss,
                           double seconds) {
  const double left = seconds / (double)(done - first) * (double)(end - done);
  printf("step %5" PRId64 " of %" PRId64 "  loss %.4f  %.0f tokens/s", done, o->steps, loss,
         (double)((done - first) * o->batch * S) / seconds);
  if (done < end && left < 100)
    printf("  %.0f s left", left);
  else if (done < end && left < 6000)
    printf("  %.0f min left", left / 60);
  else if (done < end)
    printf("  %.1f h left", left / 3600);
  printf("\n");
  fflush(stdout);
}

void train(const Options *o) {
  Text text = {0};
  Training t = {0};
  Vocabulary *vocabulary = open_vocabulary(o);
  read_texts(&text, o, vocabulary);
  const int64_t first = training_begin(&t, o, vocabulary_count(vocabulary));
  int64_t heap = 0, grown = 0;
  printf("%" PRId64 " parameters, %" PRId64 " bytes of text, %" PRId64 " tokens a step%s\n",
         t.layout.rows * ROW, text.size, o->batch * S, first > 0 ? ", continued" : "");
  double begin = now(), shown = begin, sum = 0;
  int64_t counted = 0;
  const int64_t end = o->stop && o->stop < o->steps ? o->stop : o->steps;
  if (first >= end) printf("%s has had %" PRId64 " steps: none are left\n", o->checkpoint, first);
  for (int64_t step = first; step < end; step++) {
    sum += train_step(&t, &text, o, step);
    if (step == first) heap = heap_bytes();
    grown = heap_bytes() - heap;
    counted++;
    const bool last = step + 1 == end;
    if (last || now() - shown > 2) {
      print_progress(o, first, step + 1, end, sum / (double)counted, now() - begin);
      shown = now();
      sum = 0;
      counted = 0;
    }
    if (last || (o->save_every && (step + 1) % o->save_every == 0)) save(&t, o, step + 1);
  }
  if (o->report && end > first) print_report(t.context, t.temporaries, grown);
  training_close(&t);
  vocabulary_close(vocabulary);
  free(text.bytes);
  free(text.token);
}
