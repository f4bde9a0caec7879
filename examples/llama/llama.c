/* llama: lets a Llama, Mistral, Qwen or Gemma write. All arithmetic on arrays is done by the
 * kernels of llama.pk and the library; the rest of the program reads files, holds memory, and
 * calls.
 *
 *   llama write FOLDER [options]            writes what follows the prompt on standard input
 *   llama chat FOLDER [options]             answers each line of standard input
 *   llama tokens FOLDER [options]           prints the tokens of standard input
 *   llama logits FOLDER TOKEN.. [options]   writes f32 logits to standard output
 *   llama speed FOLDER [options]            prints tokens per second
 */
#include "forward.h"
#include "tensors.h"
#include "write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char program_name[] = "llama";

enum { MOST_WORDS = 1 << 16 };

static const char help[] =
    "usage: llama write FOLDER [options]             write what follows the prompt on standard "
    "input\n"
    "       llama chat FOLDER [options]              answer each line of standard input\n"
    "       llama tokens FOLDER [options]            print the tokens of standard input\n"
    "       llama logits FOLDER TOKEN.. [options]    write the logits after tokens: f32, a row "
    "after the prompt and after each token that follows it\n"
    "       llama speed FOLDER [options]             tokens per second of a prompt, and of tokens "
    "after it\n\n"
    "  --prompt N     tokens that are read as a prompt (all; speed: 512)\n"
    "  --length N     tokens to write (512; speed: 32)\n"
    "  --batch N      speed: sequences at once (1)\n"
    "  --context N    positions of the cache (those that are needed; write and chat: 4096)\n"
    "  --temperature X, --top-k N, --top-p X, --seed N   the choice of tokens (0.8, all, 1, 1)\n"
    "  --tokenizer FILE    (tokenizer.json in the folder)\n"
    "  --threads N    (1)\n"
    "  --report       at the end: memory, and time by kernel\n";

typedef struct {
  const char *folder, *tokenizer;
  int32_t *token;
  int64_t count, prompt, length, batch, context, threads, seed, top_k;
  double temperature, top_p;
  bool report;
} Options;

static void read_option(Options *o, const char *name, const char *value) {
  const struct {
    const char *name;
    int64_t *to, least, most;
  } numbers[] = {
      {"--prompt", &o->prompt, 1, MOST_TOKENS}, {"--length", &o->length, 1, MOST_TOKENS},
      {"--batch", &o->batch, 1, 1024},          {"--context", &o->context, 1, MOST_TOKENS},
      {"--seed", &o->seed, 0, INT32_MAX},       {"--top-k", &o->top_k, 0, INT32_MAX},
      {"--threads", &o->threads, 1, 1024}};
  if (!value) fail("%s expects a value", name);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(name, numbers[i].name) == 0) {
      *numbers[i].to = option_number(name, value, numbers[i].least, numbers[i].most);
      return;
    }
  if (strcmp(name, "--tokenizer") == 0)
    o->tokenizer = value;
  else if (strcmp(name, "--temperature") == 0)
    o->temperature = option_real(name, value);
  else if (strcmp(name, "--top-p") == 0)
    o->top_p = option_real(name, value);
  else
    fail("unknown option %s; llama --help", name);
}

/* The model of the folder, whose statics must be those that the kernels were compiled for. */
static void open_model(Model *m, const Options *o, pk_context *context) {
  char path[4096], statics[STATICS];
  if (snprintf(path, sizeof path, "%s/config.json", o->folder) >= (int)sizeof path)
    fail("%s: the path is too long", o->folder);
  if (!config_read(&m->config, path)) exit(1);
  config_statics(&m->config, statics);
  if (strcmp(statics, LLAMA_STATICS) != 0)
    fail(
        "%s: this program was compiled for another model: make llama MODEL=%s WEIGHTS=%s "
        "ACTIVATIONS=%s",
        path, o->folder, LLAMA_WEIGHTS, LLAMA_ACTIVATIONS);
  m->weights = weights_find(LLAMA_WEIGHTS);
  m->rounds = strcmp(LLAMA_ACTIVATIONS, "i8") == 0;
  model_load(m, o->folder, context);
}

static int64_t capacity_of(const Options *o, const Model *m, int64_t needed) {
  const int64_t capacity = o->context ? o->context : needed;
  if (capacity > m->config.positions)
    fail("%" PRId64 " positions are needed, the model has %" PRId64, capacity, m->config.positions);
  if (needed > capacity)
    fail("%" PRId64 " positions are needed, --context is %" PRId64, needed, capacity);
  return capacity;
}

static void write_logits(const Forward *f) {
  const size_t count = (size_t)(f->batch * f->model->config.tokens);
  if (fwrite(f->logits, sizeof(float), count, stdout) != count)
    fail("the logits: %s", strerror(errno));
}

static void logits(const Options *o, const Model *m, pk_context *context) {
  Forward f;
  const int64_t prompt = o->prompt && o->prompt < o->count ? o->prompt : o->count;
  if (o->count == 0) fail("logits requires tokens");
  for (int64_t i = 0; i < o->count; i++)
    if (o->token[i] >= m->config.tokens)
      fail("token %d: the model has %" PRId64, o->token[i], m->config.tokens);
  forward_open(&f, m, context, 1, capacity_of(o, m, o->count));
  forward_prompt(&f, 0, 0, o->token, prompt);
  write_logits(&f);
  for (int64_t i = prompt; i < o->count; i++) {
    f.token[0] = o->token[i];
    f.at[0] = (int32_t)i;
    forward_next(&f);
    write_logits(&f);
  }
  forward_close(&f);
}

static void speed(const Options *o, const Model *m, pk_context *context) {
  Forward f;
  const int64_t prompt = o->prompt ? o->prompt : 512, length = o->length ? o->length : 32;
  forward_open(&f, m, context, o->batch, capacity_of(o, m, prompt + length));
  int32_t *token = memory(prompt * (int64_t)sizeof *token);
  for (int64_t i = 0; i < prompt; i++) token[i] = (int32_t)(i * 7919 % m->config.tokens);
  forward_prompt(&f, 0, 0, token, prompt < 8 ? prompt : 8);
  const double begin = now();
  for (int64_t b = 0; b < o->batch; b++) forward_prompt(&f, b, 0, token, prompt);
  const double middle = now();
  double least = 1e30;
  for (int64_t i = 0; i < length; i++) {
    const double start = now();
    for (int64_t b = 0; b < o->batch; b++) {
      f.token[b] = token[i % prompt];
      f.at[b] = (int32_t)(prompt + i);
    }
    forward_next(&f);
    if (now() - start < least) least = now() - start;
  }
  printf("prompt of %" PRId64 ": %.1f tokens/s; then %.2f tokens/s, at best %.2f\n", prompt,
         (double)(o->batch * prompt) / (middle - begin),
         (double)(o->batch * length) / (now() - middle), (double)o->batch / least);
  free(token);
  forward_close(&f);
}

static Writing writing_of(const Options *o, char path[4096]) {
  if (snprintf(path, 4096, "%s/tokenizer.json", o->folder) >= 4096)
    fail("%s: the path is too long", o->folder);
  return (Writing){.tokenizer = o->tokenizer ? o->tokenizer : path,
                   .length = o->length ? o->length : 512,
                   .context = o->context,
                   .seed = o->seed,
                   .top_k = o->top_k,
                   .temperature = o->temperature,
                   .top_p = o->top_p};
}

static void write_one(const Options *o, const Model *m, pk_context *context) {
  char path[4096];
  const Writing writing = writing_of(o, path);
  write_text(&writing, m, context);
}

static void chat(const Options *o, const Model *m, pk_context *context) {
  char path[4096];
  const Writing writing = writing_of(o, path);
  write_chat(&writing, m, context);
}

static void tokens(const Options *o) {
  char path[4096];
  const Writing writing = writing_of(o, path);
  print_tokens(&writing);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(const Options *, const Model *, pk_context *);
  } verbs[] = {
      {"write", write_one}, {"chat", chat}, {"tokens", NULL}, {"logits", logits}, {"speed", speed}};
  enum { VERBS = sizeof verbs / sizeof *verbs };
  Options o = {.batch = 1, .threads = 1, .seed = 1, .temperature = 0.8, .top_p = 1};
  Model model = {0};
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
    return fputs(help, stdout), argc < 2;
  size_t verb = 0;
  while (verb < VERBS && strcmp(argv[1], verbs[verb].name) != 0) verb++;
  if (verb == VERBS) fail("expected write, chat, tokens, logits or speed, found `%s`", argv[1]);
  o.token = memory(argc * (int64_t)sizeof *o.token);
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--report") == 0) {
      o.report = true;
    } else if (strncmp(argv[i], "--", 2) == 0) {
      read_option(&o, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      i++;
    } else if (!o.folder) {
      o.folder = argv[i];
    } else {
      o.token[o.count++] = (int32_t)option_number("a token", argv[i], 0, MOST_TOKENS);
    }
  }
  if (!o.folder) fail("%s requires the folder of a model", argv[1]);
  if (!verbs[verb].run) return tokens(&o), 0;
  pk_context *context = open_context((int)o.threads, o.report);
  open_model(&model, &o, context);
  verbs[verb].run(&o, &model, context);
  if (o.report) print_report(context, 0, 0);
  model_free(&model);
  free(o.token);
  pk_context_free(context);
  return fflush(stdout) == 0 ? 0 : 1;
}
