/* Prompts, turns of a conversation, and the choice of tokens. */
#define _GNU_SOURCE
#include "write.h"

#include "sample.h"
#include "tokens.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 24 };

typedef struct {
  const Writing *writing;
  const Model *model;
  pk_context *context;
  Vocabulary *vocabulary;
  Forward forward;
  int64_t count, chosen, read; /* count: tokens in the cache */
  double read_seconds, write_seconds;
} Writer;

/* A turn of a conversation: `before` the user's text, `between` it and the answer, which `end`
 * ends; `after` it. A model has the form whose `mark` its vocabulary names. */
static const struct {
  const char *mark, *before, *between, *end, *after;
} forms[] = {{"<|start_header_id|>", "<|start_header_id|>user<|end_header_id|>\n\n",
              "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", ""},
             {"<|im_start|>", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n",
              "<|im_end|>", "\n"},
             {"[INST]", "[INST] ", "[/INST]", "</s>", ""},
             {"<start_of_turn>", "<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n",
              "<end_of_turn>", "\n"}};
enum { FORMS = sizeof forms / sizeof *forms };

static bool is_end(const Writer *w, int32_t token) {
  static const char *const names[] = {"<|end_of_text|>", "<|endoftext|>", "<|eot_id|>",
                                      "<|im_end|>",      "</s>",          "<eos>",
                                      "<end_of_turn>"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (vocabulary_named(w->vocabulary, names[i]) == token) return true;
  return false;
}

static void open_writer(Writer *w, const Writing *writing, const Model *model,
                        pk_context *context) {
  const int64_t positions = model->config.positions;
  *w = (Writer){.writing = writing, .model = model, .context = context};
  w->vocabulary = tokenizer_open(writing->tokenizer);
  if (!w->vocabulary) exit(1);
  if (vocabulary_count(w->vocabulary) > model->config.tokens)
    fail("%s has %" PRId64 " tokens, the model %" PRId64, writing->tokenizer,
         vocabulary_count(w->vocabulary), model->config.tokens);
  if (writing->context > positions)
    fail("--context: the model has %" PRId64 " positions", positions);
  const int64_t usual = positions < 4096 ? positions : 4096;
  forward_open(&w->forward, model, context, 1, writing->context ? writing->context : usual);
}

static void close_writer(Writer *w) {
  fprintf(stderr, "read %" PRId64 " tokens, %.1f tokens/s; wrote %" PRId64 ", %.2f tokens/s\n",
          w->read, (double)w->read / (w->read_seconds > 0 ? w->read_seconds : 1), w->chosen,
          (double)w->chosen / (w->write_seconds > 0 ? w->write_seconds : 1));
  forward_close(&w->forward);
  vocabulary_close(w->vocabulary);
}

/* The tokens of a text into the cache. */
static void read_text(Writer *w, const char *text, int64_t bytes) {
  int32_t *token = memory((bytes + 8) * 3 * (int64_t)sizeof *token);
  int64_t count = 0;
  const double begin = now();
  if (w->count == 0 && vocabulary_begin(w->vocabulary) >= 0)
    token[count++] = vocabulary_begin(w->vocabulary);
  const int64_t more = tokens_of(w->vocabulary, (const unsigned char *)text, bytes, token + count);
  if (more < 0) exit(1);
  count += more;
  if (count == 0) fail("the prompt is empty");
  if (w->count + count >= w->forward.capacity)
    fail("%" PRId64 " tokens do not fit into a context of %" PRId64, w->count + count,
         w->forward.capacity);
  forward_prompt(&w->forward, 0, w->count, token, count);
  w->count += count;
  w->read += count;
  w->read_seconds += now() - begin;
  memory_free(token, (bytes + 8) * 3 * (int64_t)sizeof *token);
}

/* The next token, from the seed and the number of tokens before it alone. */
static int32_t choose(Writer *w) {
  const Writing *o = w->writing;
  const Sampling how = {(int32_t)o->seed, (int32_t)o->top_k, (float)o->temperature,
                        (float)o->top_p};
  int32_t token = 0;
  sample_tokens(w->context, &how, w->chosen, w->forward.logits, 1, w->model->config.tokens, &token);
  if (!isfinite(w->forward.logits[token]))
    fail("the logits after token %" PRId64 " are not finite", w->count);
  w->chosen++;
  return token;
}

static void print_token(const Writer *w, int32_t token) {
  unsigned char text[TOKEN_TEXT];
  const int64_t bytes = token_text(w->vocabulary, token, text);
  fwrite(text, 1, (size_t)bytes, stdout);
  fflush(stdout);
}

/* Until a token that ends texts, or the length. */
static void answer(Writer *w) {
  const double begin = now();
  for (int64_t n = 0; n < w->writing->length; n++) {
    const int32_t token = choose(w);
    if (is_end(w, token)) break;
    print_token(w, token);
    if (w->count == w->forward.capacity) {
      fprintf(stderr, "llama: note: the context of %" PRId64 " tokens is full\n", w->count);
      break;
    }
    w->forward.token[0] = token;
    w->forward.at[0] = (int32_t)w->count++;
    forward_next(&w->forward);
  }
  w->write_seconds += now() - begin;
}

/* Standard input as a text; the caller frees it. */
static char *read_input(int64_t *bytes) {
  char *text = memory(MOST_BYTES);
  *bytes = (int64_t)fread(text, 1, MOST_BYTES, stdin);
  if (*bytes == MOST_BYTES) fail("the prompt has more than %d bytes", MOST_BYTES - 1);
  return text;
}

void print_tokens(const Writing *writing) {
  int64_t bytes, count = 0;
  Vocabulary *vocabulary = tokenizer_open(writing->tokenizer);
  if (!vocabulary) exit(1);
  char *text = read_input(&bytes);
  int32_t *token = memory((bytes + 8) * 3 * (int64_t)sizeof *token);
  if (vocabulary_begin(vocabulary) >= 0) token[count++] = vocabulary_begin(vocabulary);
  const int64_t more = tokens_of(vocabulary, (const unsigned char *)text, bytes, token + count);
  if (more < 0) exit(1);
  for (int64_t i = 0; i < count + more; i++) printf("%s%d", i ? " " : "", token[i]);
  printf("\n");
  free(token);
  free(text);
  vocabulary_close(vocabulary);
}

void write_text(const Writing *writing, const Model *model, pk_context *context) {
  Writer w;
  open_writer(&w, writing, model, context);
  int64_t bytes;
  char *text = read_input(&bytes);
  read_text(&w, text, bytes);
  memory_free(text, MOST_BYTES);
  answer(&w);
  printf("\n");
  close_writer(&w);
}

/* One turn. What the user says is text: names of tokens in it would be taken for the model's, and
 * are refused. */
static void take_turn(Writer *w, int form, const char *said, size_t bytes) {
  const char *after = w->count ? forms[form].after : "";
  char *text = NULL;
  for (int i = 0; i < FORMS; i++)
    if (memmem(said, bytes, forms[i].mark, strlen(forms[i].mark)) ||
        memmem(said, bytes, forms[i].end, strlen(forms[i].end))) {
      fprintf(stderr, "llama: note: a line with %s is not read\n", forms[i].mark);
      return;
    }
  const int length = asprintf(&text, "%s%s%s%.*s%s", w->count ? forms[form].end : "", after,
                              forms[form].before, (int)bytes, said, forms[form].between);
  if (length < 0) fail("no memory");
  read_text(w, text, length);
  free(text);
  answer(w);
  printf("\n");
}

void write_chat(const Writing *writing, const Model *model, pk_context *context) {
  Writer w;
  char *line = NULL;
  size_t room = 0;
  ssize_t bytes;
  int form = 0;
  open_writer(&w, writing, model, context);
  while (form < FORMS && vocabulary_named(w.vocabulary, forms[form].mark) < 0) form++;
  if (form == FORMS)
    fail(
        "%s names none of the tokens of conversations: <|start_header_id|>, <|im_start|>, "
        "[INST], <start_of_turn>",
        writing->tokenizer);
  const bool shown = isatty(0) && isatty(1);
  while (fputs(shown ? "> " : "", stdout), fflush(stdout),
         (bytes = getline(&line, &room, stdin)) > 0) {
    if (line[bytes - 1] == '\n') bytes--;
    if (bytes > 0) take_turn(&w, form, line, (size_t)bytes);
  }
  free(line);
  close_writer(&w);
}
