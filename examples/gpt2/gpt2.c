/* gpt2: trains a small GPT-2 on a text, byte by byte, and lets it write. All arithmetic on arrays
 * is done by the kernels of gpt2.pk and of kernels/train/adamw.pk; this file reads texts, holds
 * memory, and calls.
 *
 *   gpt2 train TEXT.. [options]      --checkpoint FILE, which is continued if it is there
 *   gpt2 sample [options]            writes --length N bytes after --prompt TEXT
 */
#define _GNU_SOURCE
#include "model.h"

#include "adamw.h"
#include "gradients.h"
#include "next.h"
#include "squares.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* S and E are those that the kernels were compiled for. */
enum { S = GPT2_S, E = GPT2_E, HEADS = 4, LAYERS = 4, TOKENS = 256 };
static const double beta1 = 0.9, beta2 = 0.95, decay = 0.1, longest_gradient = 1.0;

typedef struct {
  const char *checkpoint, *prompt;
  const char *texts[64];
  int text_count;
  int64_t steps, stop, batch, threads, length, seed, save_every;
  double rate, temperature;
} Options;

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("gpt2: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(1);
}

static void *memory(int64_t bytes) {
  void *p = NULL;
  if (posix_memalign(&p, 64, (size_t)(bytes > 0 ? bytes : 1)) != 0)
    fail("no memory for %" PRId64 " bytes", bytes);
  memset(p, 0, (size_t)bytes);
  return p;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- tensors: an array and its shape, as the kernels take them */

typedef struct {
  DLTensor t;
  int64_t shape[MOST_AXES];
} Tensor;

static void view(Tensor *to, void *data, DLDataTypeCode code, int axes, const int64_t *shape) {
  *to = (Tensor){
      .t = {.data = data, .device = {kDLCPU, 0}, .ndim = axes, .dtype = {(uint8_t)code, 32, 1}}};
  memcpy(to->shape, shape, (size_t)axes * sizeof *shape);
  to->t.shape = to->shape;
}
#define VIEW(to, data, code, ...)                                                 \
  view(to, data, code, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
       (const int64_t[]){__VA_ARGS__})

static void parameter_views(Tensor *to, const Layout *layout, float *data) {
  for (int i = 0; i < PARAMETERS; i++)
    view(&to[i], data + layout->start[i], kDLFloat, parameter_axes[i], layout->shape[i]);
}

static void call(pk_context *context, const pk_kernel *kernel, DLTensor **tensors) {
  if (pk_call_kernel(context, kernel, tensors) != PK_OK) fail("%s", pk_message(context));
}

/* ---- texts */

typedef struct {
  unsigned char *bytes;
  int64_t count;
} Text;

static void read_text(Text *text, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) fail("%s: %s", path, strerror(errno));
  for (size_t got = 1; got;) {
    text->bytes = realloc(text->bytes, (size_t)text->count + (1 << 16));
    if (!text->bytes) fail("no memory for %s", path);
    got = fread(text->bytes + text->count, 1, 1 << 16, file);
    text->count += (int64_t)got;
  }
  if (ferror(file)) fail("%s: %s", path, strerror(errno));
  fclose(file);
}

/* Sequences from anywhere in the text: which ones follows from the seed and the step. */
static void draw_batch(const Text *text, const Options *o, int64_t step, int32_t *token,
                       int32_t *target) {
  for (int64_t b = 0; b < o->batch; b++) {
    const uint64_t bits = random_bits((uint64_t)o->seed, (uint64_t)(step * o->batch + b));
    const int64_t at = (int64_t)(bits % (uint64_t)(text->count - S));
    for (int64_t i = 0; i < S; i++) {
      token[b * S + i] = text->bytes[at + i];
      target[b * S + i] = text->bytes[at + i + 1];
    }
  }
}

/* ---- training */

typedef struct {
  Layout layout;
  float *parts[3], *gradient; /* parameters, the optimiser's two means; rows of ROW */
  float *loss, *square;
  int32_t *token, *target;
  pk_context *context;
} Training;

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

static double train_step(Training *t, const Text *text, const Options *o, int64_t step) {
  const int64_t rows = o->batch * S;
  draw_batch(text, o, step, t->token, t->target);
  compute_gradients(t, rows);
  const double norm = gradient_norm(t),
               clip = norm > longest_gradient ? longest_gradient / norm : 1;
  float rate[5] = {(float)rate_of(o, step), (float)(1 / (1 - pow(beta1, (double)step + 1))),
                   (float)(1 / (1 - pow(beta2, (double)step + 1))), (float)clip, (float)decay};
  update(t, 0, t->layout.matrix_rows, rate);
  rate[4] = 0;
  update(t, t->layout.matrix_rows, t->layout.rows, rate);
  double sum = 0;
  for (int64_t i = 0; i < rows; i++) sum += t->loss[i];
  return sum / (double)rows;
}

static void training_open(Training *t, const Options *o, const Sizes *sizes) {
  layout_make(&t->layout, sizes);
  const int64_t bytes = t->layout.rows * ROW * (int64_t)sizeof(float), rows = o->batch * S;
  for (int i = 0; i < 3; i++) t->parts[i] = memory(bytes);
  t->gradient = memory(bytes);
  t->loss = memory(rows * (int64_t)sizeof(float));
  t->square = memory(t->layout.rows * (int64_t)sizeof(float));
  t->token = memory(rows * (int64_t)sizeof(int32_t));
  t->target = memory(rows * (int64_t)sizeof(int32_t));
  t->context = pk_context_new();
  if (!t->context) fail("no memory");
  pk_context_set_threads(t->context, (int)o->threads);
}

static void training_close(Training *t) {
  for (int i = 0; i < 3; i++) free(t->parts[i]);
  free(t->gradient);
  free(t->loss);
  free(t->square);
  free(t->token);
  free(t->target);
  pk_context_free(t->context);
}

static void save(const Training *t, const Options *o, int64_t step) {
  const float *parts[3] = {t->parts[0], t->parts[1], t->parts[2]};
  if (o->checkpoint && !checkpoint_write(o->checkpoint, &t->layout, parts, step)) exit(1);
}

static void train(const Options *o) {
  Sizes sizes = {LAYERS, HEADS, HEADS * E, S, TOKENS};
  Text text = {0};
  Training t = {0};
  int64_t first = 0;
  for (int i = 0; i < o->text_count; i++) read_text(&text, o->texts[i]);
  if (text.count <= S)
    fail("the texts have %" PRId64 " bytes: at least %d are needed", text.count, S + 1);
  const bool resume = o->checkpoint && access(o->checkpoint, F_OK) == 0;
  if (resume && !checkpoint_sizes(o->checkpoint, &sizes, &first)) exit(1);
  if (sizes.positions != S || sizes.features != sizes.heads * E || sizes.tokens != TOKENS)
    fail("%s is of a model that this program was not compiled for", o->checkpoint);
  training_open(&t, o, &sizes);
  if (resume && !checkpoint_read(o->checkpoint, &t.layout, t.parts)) exit(1);
  if (!resume) parameters_initialise(&t.layout, t.parts[0], (uint64_t)o->seed);
  printf("%" PRId64 " parameters, %" PRId64 " bytes of text, %" PRId64 " tokens a step%s\n",
         t.layout.rows * ROW, text.count, o->batch * S, resume ? ", continued" : "");
  double begin = now(), shown = begin, sum = 0;
  int64_t counted = 0;
  const int64_t end = o->stop && o->stop < o->steps ? o->stop : o->steps;
  for (int64_t step = first; step < end; step++) {
    sum += train_step(&t, &text, o, step);
    counted++;
    const bool last = step + 1 == end;
    if (last || now() - shown > 2) {
      printf("step %5" PRId64 " of %" PRId64 "  loss %.4f  %.0f tokens/s\n", step + 1, o->steps,
             sum / (double)counted, (double)((step + 1 - first) * o->batch * S) / (now() - begin));
      fflush(stdout);
      shown = now();
      sum = 0;
      counted = 0;
    }
    if (last || (o->save_every && (step + 1) % o->save_every == 0)) save(&t, o, step + 1);
  }
  training_close(&t);
  free(text.bytes);
}

/* ---- writing */

typedef struct {
  Layout layout;
  float *parameters, *cache[2], *logits;
  pk_context *context;
} Writer;

static void next_logits(Writer *w, int32_t at, int32_t token) {
  const Sizes *s = &w->layout.sizes;
  Tensor place, one, cache[2], parameters[PARAMETERS], logits;
  DLTensor *tensors[7 + PARAMETERS];
  int n = 0;
  VIEW(&place, &at, kDLInt, 1);
  VIEW(&one, &token, kDLInt, 1);
  for (int i = 0; i < 2; i++)
    VIEW(&cache[i], w->cache[i], kDLFloat, s->layers, 1, s->positions, s->heads, E);
  VIEW(&logits, w->logits, kDLFloat, 1, s->tokens);
  parameter_views(parameters, &w->layout, w->parameters);
  tensors[n++] = &place.t;
  tensors[n++] = &one.t;
  tensors[n++] = &cache[0].t;
  tensors[n++] = &cache[1].t;
  for (int i = 0; i < PARAMETERS; i++) tensors[n++] = &parameters[i].t;
  tensors[n++] = &logits.t;
  tensors[n++] = &cache[0].t;
  tensors[n++] = &cache[1].t;
  call(w->context, &gpt2_next_kernel, tensors);
}

static int choose(const Writer *w, const Options *o, int64_t counter) {
  const int64_t V = w->layout.sizes.tokens;
  int64_t best = 0;
  double sum = 0;
  for (int64_t i = 1; i < V; i++)
    if (w->logits[i] > w->logits[best]) best = i;
  if (o->temperature <= 0) return (int)best;
  for (int64_t i = 0; i < V; i++) sum += exp((w->logits[i] - w->logits[best]) / o->temperature);
  double left = random_unit((uint64_t)o->seed ^ UINT64_C(0x5eed), (uint64_t)counter) * sum;
  for (int64_t i = 0; i < V; i++) {
    left -= exp((w->logits[i] - w->logits[best]) / o->temperature);
    if (left < 0) return (int)i;
  }
  return (int)best;
}

/* A full context begins again with its second half. */
static void write_text(Writer *w, const Options *o) {
  const int64_t P = w->layout.sizes.positions, given = (int64_t)strlen(o->prompt);
  unsigned char *bytes = memory(given + o->length + 1);
  memcpy(bytes, o->prompt, (size_t)given);
  int64_t count = given, start = count > P ? count - P : 0, at = start;
  const double begin = now();
  while (count < given + o->length) {
    if (at - start >= P) at = start = at - P / 2;
    next_logits(w, (int32_t)(at - start), bytes[at]);
    at++;
    if (at < count) continue;
    bytes[count] = (unsigned char)choose(w, o, count);
    count++;
  }
  fwrite(bytes, 1, (size_t)count, stdout);
  printf("\n");
  fprintf(stderr, "%.0f tokens/s\n", (double)o->length / (now() - begin));
  free(bytes);
}

static void sample(const Options *o) {
  Writer w = {0};
  Sizes sizes;
  int64_t step;
  if (!o->checkpoint) fail("sample requires --checkpoint FILE");
  if (!*o->prompt) fail("the prompt is empty");
  if (!checkpoint_sizes(o->checkpoint, &sizes, &step)) exit(1);
  if (sizes.features != sizes.heads * E || sizes.tokens != TOKENS)
    fail("%s is of a model that this program was not compiled for", o->checkpoint);
  layout_make(&w.layout, &sizes);
  w.parameters = memory(w.layout.rows * ROW * (int64_t)sizeof(float));
  if (!checkpoint_read(o->checkpoint, &w.layout, (float *[3]){w.parameters, NULL, NULL})) exit(1);
  for (int i = 0; i < 2; i++)
    w.cache[i] = memory(sizes.layers * sizes.positions * sizes.features * (int64_t)sizeof(float));
  w.logits = memory(sizes.tokens * (int64_t)sizeof(float));
  w.context = pk_context_new();
  if (!w.context) fail("no memory");
  pk_context_set_threads(w.context, (int)o->threads);
  write_text(&w, o);
  pk_context_free(w.context);
  free(w.logits);
  for (int i = 0; i < 2; i++) free(w.cache[i]);
  free(w.parameters);
}

/* ---- the command line */

static const char help[] =
    "usage: gpt2 train TEXT.. [options]     train on texts, byte by byte\n"
    "       gpt2 sample [options]           write what comes after a prompt\n\n"
    "  --checkpoint FILE    safetensors: train continues it if it is there, and writes it; sample "
    "reads it\n"
    "  --steps N            steps of training in all (1500)\n"
    "  --batch N            sequences a step (16)\n"
    "  --rate X             the highest learning rate (0.002)\n"
    "  --stop N             stop after N of them, to be continued (0: do not)\n"
    "  --save N             write the checkpoint every N steps too (0: at the end only)\n"
    "  --length N           bytes to write (500)\n"
    "  --prompt TEXT        what they follow (\"The \")\n"
    "  --temperature X      0: always the likeliest byte (0.8)\n"
    "  --seed N, --threads N (1, 1)\n";

static int64_t whole(const char *name, const char *text, int64_t least, int64_t most) {
  char *end;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < least || value > most)
    fail("%s: expected a number from %" PRId64 " to %" PRId64 ", found `%s`", name, least, most,
         text);
  return value;
}

static double real(const char *name, const char *text) {
  char *end;
  const double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0 && value < 1e6))
    fail("%s: expected a number of at least 0, found `%s`", name, text);
  return value;
}

static void read_option(Options *o, const char *name, const char *value) {
  const struct {
    const char *name;
    int64_t *to, least, most;
  } numbers[] = {{"--steps", &o->steps, 1, 100000000},   {"--batch", &o->batch, 1, 65536},
                 {"--threads", &o->threads, 1, 1024},    {"--length", &o->length, 0, 10000000},
                 {"--seed", &o->seed, 0, 1000000000000}, {"--save", &o->save_every, 0, 100000000},
                 {"--stop", &o->stop, 0, 100000000}};
  if (!value) fail("%s expects a value", name);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(name, numbers[i].name) == 0) {
      *numbers[i].to = whole(name, value, numbers[i].least, numbers[i].most);
      return;
    }
  if (strcmp(name, "--checkpoint") == 0)
    o->checkpoint = value;
  else if (strcmp(name, "--prompt") == 0)
    o->prompt = value;
  else if (strcmp(name, "--rate") == 0)
    o->rate = real(name, value);
  else if (strcmp(name, "--temperature") == 0)
    o->temperature = real(name, value);
  else
    fail("unknown option %s; gpt2 --help", name);
}

int main(int argc, char **argv) {
  Options o = {.prompt = "The ",
               .steps = 1500,
               .batch = 16,
               .threads = 1,
               .length = 500,
               .seed = 1,
               .rate = 0.002,
               .temperature = 0.8};
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
    return fputs(help, stdout), argc < 2;
  const bool training = strcmp(argv[1], "train") == 0;
  if (!training && strcmp(argv[1], "sample") != 0)
    fail("expected train or sample, found `%s`", argv[1]);
  for (int i = 2; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) == 0)
      read_option(&o, argv[i], argv[i + 1]), i++;
    else if (!training || o.text_count == 64)
      fail("unexpected `%s`", argv[i]);
    else
      o.texts[o.text_count++] = argv[i];
  }
  if (training && o.text_count == 0) fail("train requires a text");
  if (training)
    train(&o);
  else
    sample(&o);
  return 0;
}
