/* gpt2: trains a small GPT-2 on a text, and lets it, or a published one, write. All arithmetic on
 * arrays is done by the kernels of gpt2.pk, next.pk and the library; the rest of the program reads
 * files, holds memory, and calls.
 *
 *   gpt2 train TEXT.. [options]      --checkpoint FILE, which is continued if it is there
 *   gpt2 publish FOLDER [options]    writes the checkpoint as a published model
 *   gpt2 sample [options]            writes --length N tokens after each --prompt TEXT
 *   gpt2 --plan CHIP [options]       calls plan.py
 */
#define _GNU_SOURCE
#include "gpt2.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char program_name[] = "gpt2";

void fail_sizes(const char *path, const Sizes *s) {
  const int64_t features = s->features / s->heads;
  fail("%s has heads of %" PRId64 " features and %" PRId64
       " positions, and this program is for %d, and trains on %d: make gpt2 GPT2_E=%" PRId64
       " GPT2_S=%" PRId64,
       path, features, s->positions, E, S, features, s->positions);
}

/* ---- the command line */

static const char help[] =
    "usage: gpt2 train TEXT.. [options]     train on texts\n"
    "       gpt2 sample [options]           write what comes after prompts\n"
    "       gpt2 publish FOLDER [options]   write the checkpoint as transformers reads it: "
    "model.safetensors, config.json\n"
    "       gpt2 tokens TEXT.. [options]    print the tokens of texts, a line each\n"
    "       gpt2 --plan CHIP [options]      what a step takes on a TPU, or on all of them; gpt2 "
    "--plan "
    "-h\n\n"
    "  --checkpoint FILE    safetensors: train continues it if it is there, and writes it; sample "
    "reads it,\n"
    "                       or a published one as safetensors or .npz\n"
    "  --from FILE          train: the first parameters, of a published checkpoint or one of "
    "training (random)\n"
    "  --config FILE        of a published one (default: config.json next to it, if it exists)\n"
    "  --steps N            steps of training in all (1500)\n"
    "  --batch N            sequences a step (16)\n"
    "  --rate X             the highest learning rate (0.002)\n"
    "  --stop N             stop after N of them, to be continued (0: do not)\n"
    "  --save N             write the checkpoint every N steps too (0: at the end only)\n"
    "  --length N           tokens to write (500)\n"
    "  --prompt TEXT        what they follow (\"The \"); several prompts are read and written at "
    "once\n"
    "  --temperature X      0: always the likeliest token (0.8)\n"
    "  --top-k N            of the N likeliest (0: of all)\n"
    "  --top-p X            of the fewest that have this probability together (1)\n"
    "  --weights T          f32, bf16, i8 or i4: what matrices are kept as (f32)\n"
    "  --context N          positions of the cache (those of the checkpoint)\n"
    "  --tokenizer FILE     tokenizer.json: its tokens, not bytes\n"
    "  --encoder FILE, --merges FILE   encoder.json and vocab.bpe: byte pairs as tokens, not "
    "bytes\n"
    "  --report             at the end: memory, and time by kernel\n"
    "  --seed N, --threads N (1, 1)\n";

static void read_option(Options *o, const char *name, const char *value) {
  const struct {
    const char *name;
    int64_t *to, least, most;
  } numbers[] = {{"--steps", &o->steps, 1, 100000000},   {"--batch", &o->batch, 1, 65536},
                 {"--threads", &o->threads, 1, 1024},    {"--length", &o->length, 0, 10000000},
                 {"--seed", &o->seed, 0, 1000000000000}, {"--save", &o->save_every, 0, 100000000},
                 {"--stop", &o->stop, 0, 100000000},     {"--context", &o->context, 1, 1 << 24},
                 {"--top-k", &o->top_k, 0, INT32_MAX}};
  if (!value) fail("%s expects a value", name);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(name, numbers[i].name) == 0) {
      *numbers[i].to = option_number(name, value, numbers[i].least, numbers[i].most);
      return;
    }
  const struct {
    const char *name, **to;
  } texts[] = {{"--checkpoint", &o->checkpoint}, {"--from", &o->from},
               {"--config", &o->config},         {"--encoder", &o->encoder},
               {"--merges", &o->merges},         {"--tokenizer", &o->tokenizer},
               {"--weights", &o->weights}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strcmp(name, texts[i].name) == 0) {
      *texts[i].to = value;
      return;
    }
  if (strcmp(name, "--prompt") == 0 && o->prompt_count < MOST_TEXTS)
    o->prompts[o->prompt_count++] = value;
  else if (strcmp(name, "--prompt") == 0)
    fail("more than %d prompts", MOST_TEXTS);
  else if (strcmp(name, "--rate") == 0)
    o->rate = option_real(name, value);
  else if (strcmp(name, "--temperature") == 0)
    o->temperature = option_real(name, value);
  else if (strcmp(name, "--top-p") == 0)
    o->top_p = option_real(name, value);
  else
    fail("unknown option %s; gpt2 --help", name);
}

Vocabulary *open_vocabulary(const Options *o) {
  Vocabulary *vocabulary =
      o->tokenizer ? tokenizer_open(o->tokenizer) : vocabulary_open(o->encoder, o->merges);
  if (!vocabulary) exit(1);
  return vocabulary;
}

const char *vocabulary_file(const Options *o) { return o->tokenizer ? o->tokenizer : o->encoder; }

int64_t most_tokens(int64_t bytes) { return 3 * bytes + 3; }

static void print_tokens(const Options *o) {
  Vocabulary *vocabulary = open_vocabulary(o);
  for (int i = 0; i < o->text_count; i++) {
    const int64_t bytes = (int64_t)strlen(o->texts[i]);
    int32_t *token = memory(most_tokens(bytes) * (int64_t)sizeof *token);
    const int64_t count = tokens_of(vocabulary, (const unsigned char *)o->texts[i], bytes, token);
    for (int64_t k = 0; k < count; k++) printf("%s%d", k ? " " : "", token[k]);
    printf("\n");
    free(token);
  }
  vocabulary_close(vocabulary);
}

/* Does not return: plan.py, with the words after --plan. */
static void plan(char **argv) {
  argv[1] = (char[]){GPT2_PLAN};
  execv(argv[1], argv + 1);
  fail("--plan: %s: %s", GPT2_PLAN, strerror(errno));
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(const Options *);
    bool takes_texts;
  } verbs[] = {{"train", train, true},
               {"sample", sample, false},
               {"publish", publish, true},
               {"tokens", print_tokens, true}};
  enum { VERBS = sizeof verbs / sizeof *verbs };
  Options o = {.weights = "f32",
               .steps = 1500,
               .batch = 16,
               .threads = 1,
               .length = 500,
               .seed = 1,
               .rate = 0.002,
               .temperature = 0.8,
               .top_p = 1};
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
    return fputs(help, stdout), argc < 2;
  if (strcmp(argv[1], "--plan") == 0) plan(argv);
  size_t verb = 0;
  while (verb < VERBS && strcmp(argv[1], verbs[verb].name) != 0) verb++;
  if (verb == VERBS) fail("expected train, sample, publish or tokens, found `%s`", argv[1]);
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--report") == 0)
      o.report = true;
    else if (strncmp(argv[i], "--", 2) == 0)
      read_option(&o, argv[i], argv[i + 1]), i++;
    else if (!verbs[verb].takes_texts || o.text_count == MOST_TEXTS)
      fail("unexpected `%s`", argv[i]);
    else
      o.texts[o.text_count++] = argv[i];
  }
  if (verbs[verb].takes_texts && o.text_count == 0) fail("%s requires a text", argv[1]);
  if (!o.encoder != !o.merges) fail("--encoder and --merges require each other");
  if (o.tokenizer && o.encoder) fail("--tokenizer excludes --encoder and --merges");
  signal(SIGXFSZ, SIG_IGN); /* a write past the limit of a file's size fails, with a message */
  verbs[verb].run(&o);
  if (fflush(stdout) != 0 || ferror(stdout)) fail("standard output: %s", strerror(errno));
  return 0;
}
