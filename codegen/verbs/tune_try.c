// One set of block sizes, which is built, verified and timed in a process of its own. Results are
// saved so that an interrupted search can continue.
#define _GNU_SOURCE
#include "codegen/verbs/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PAIRS = 32, FEW_PAIRS = 5, BUILD_SECONDS = 300 };

typedef struct {
  const Tune *t;
  const Candidate *c;
  int pairs;
} Trial;

static double run_seconds(const Tune *t) {
  double shortest = 5, some = 30 * t->seconds;
  if (t->options->time_out > 0) return t->options->time_out;
  return some > shortest ? some : shortest;
}

static double sample_seconds(const Tune *t) {
  return t->options->min_time > 0 ? t->options->min_time : 0.05;
}

// Best milliseconds of a short run; 0 with *wrong.
static double time_once(const Tune *t, const Session *session, Arena *arena, const char **wrong) {
  double least = sample_seconds(t);
  ExecuteOptions how = {.mode = "bench",
                        .threads = t->threads,
                        .min_time = least,
                        .max_time = 10 * least,
                        .timeout = 4 * run_seconds(t) + 10 * least,
                        .vmem_limit = t->options->vmem_limit};
  Outcome outcome;
  execute(arena, session->program, &session->binding, &session->data, &how, &outcome);
  *wrong = outcome.message;
  return *wrong ? 0 : outcome_number(arena, &outcome, "best_ms", 0);
}

static const char *verify(const Tune *t, Session *session, const Options *options) {
  ExecuteOptions how = {.mode = "run",
                        .threads = t->threads,
                        .timeout = run_seconds(t),
                        .vmem_limit = options->vmem_limit};
  Arena *arena = options->arena;
  execute(arena, session->program, &session->binding, &session->data, &how, &session->outcome);
  if (session->outcome.message) return session->outcome.message;
  const Kernel *k = session->binding.program.kernel;
  for (int i = 0; i < k->outputs; i++) {
    const HostArray *got = &session->binding.operands[k->inputs + i];
    Comparison c = compare_arrays(got, &t->expected.outputs[i], t->expected.allowed[i],
                                  &options->tolerance, NULL);
    if (c.wrong > 0)
      return arena_printf(arena, "differs from %s: %s", t->judged ? "the reference" : "the default",
                          comparison_text(arena, k->refs.at[k->inputs + i]->name, got, &c));
  }
  return NULL;
}

// Default and candidate alternately; the first one changes.
static const char *time_pairs(const Trial *trial, const Session *session, Arena *arena) {
  for (int i = 0; i < trial->pairs; i++) {
    const Session *both[] = {&trial->t->base, session};
    const char *wrong;
    double ms[2];
    for (int k = 0; k < 2; k++) {
      int which = i % 2 ? 1 - k : k;
      ms[which] = time_once(trial->t, both[which], arena, &wrong);
      if (wrong) return wrong;
    }
    printf("pair %.9g %.9g\n", ms[0], ms[1]);
  }
  return NULL;
}

static void try_here(void *context) {
  const Trial *trial = context;
  Session session = {.data.fd = -1};
  Options with;
  const char *wrong = bind_blocks(trial->t->options->arena, trial->t->options, &trial->c->blocks,
                                  &with, &session.binding);
  BuildFlags flags = {.flags = target_flags(with.target), .linked = true};
  if (!wrong) wrong = session_open(&session, &with, &flags);
  if (!wrong) wrong = verify(trial->t, &session, &with);
  if (!wrong) wrong = time_pairs(trial, &session, with.arena);
  session_close(&session);
  if (wrong) printf("wrong %s\n", one_line(with.arena, wrong));
}

// Lines `pair DEFAULT MS` and `wrong WHY`. The median of the ratios counts, of few pairs the ratio
// of the best times.
static void read_trial(const Tune *t, const char *text, Candidate *c) {
  double ratio[MOST_PAIRS], best = 0, best_usual = 0;
  int count = 0;
  for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
    char *end;
    if (strncmp(line, "wrong ", 6) == 0)
      c->wrong = arena_strndup(t->options->arena, line + 6, strcspn(line + 6, "\n"));
    if (strncmp(line, "pair ", 5) != 0 || count == MOST_PAIRS) continue;
    double usual = strtod(line + 5, &end), own = strtod(end, NULL);
    if (!(own > 0 && usual > 0)) continue;
    ratio[count++] = usual / own;
    if (best == 0 || own < best) best = own;
    if (best_usual == 0 || usual < best_usual) best_usual = usual;
  }
  if (c->wrong) return;
  if (count == 0) {
    c->wrong = "was not timed";
    return;
  }
  sort_items(ratio, (size_t)count, sizeof *ratio, compare_doubles);
  c->ms = best;
  c->times =
      count < FEW_PAIRS ? best_usual / best : (ratio[count / 2] + ratio[(count - 1) / 2]) / 2;
}

void tune_try(const Tune *t, Candidate *c, int pairs) {
  Trial trial = {t, c, pairs};
  Buf output = {0}, errors = {0};
  double most =
      BUILD_SECONDS + (1 + 2 * (double)pairs) * (4 * run_seconds(t) + 10 * sample_seconds(t));
  c->wrong = NULL;
  c->done = true;
  int status = run_apart(try_here, &trial, most, &output, &errors);
  if (status < 0)
    c->wrong = errno == ETIMEDOUT ? "takes too long" : strerror(errno);
  else if (WIFSIGNALED(status))
    c->wrong = arena_printf(t->options->arena, "pkc died of signal %d (%s)", WTERMSIG(status),
                            strsignal(WTERMSIG(status)));
  else
    read_trial(t, output.text, c);
  buf_free(&output);
  buf_free(&errors);
}

// ---- kept for later

static void part_head(const Tune *t, Buf *out) {
  uint64_t hash = 0;
  for (int i = 0; i < t->options->arguments.count; i++) {
    const Argument *a = &t->options->arguments.at[i];
    hash = hash * 31 + text_hash(a->name, strlen(a->name)) + text_hash(a->value, strlen(a->value));
  }
  buf_printf(out, "# pkc tuning under way: %s arguments=%016llx\n", t->key,
             (unsigned long long)hash);
}

static void read_part(Tune *t, const char *line) {
  Arena *arena = t->options->arena;
  BlockSizes blocks;
  size_t list = strcspn(line, " ");
  if (!line[list] || !read_blocks(arena, arena_strndup(arena, line, list), &blocks)) return;
  for (int i = 0; i < t->found.count; i++) {
    Candidate *c = &t->found.at[i];
    bool same =
        blocks.count == c->blocks.count &&
        memcmp(blocks.value, c->blocks.value, sizeof *blocks.value * (size_t)blocks.count) == 0;
    if (!same || !c->kept) continue;
    const char *rest = line + list + 1;
    c->wrong =
        strncmp(rest, "wrong ", 6) == 0 ? arena_strndup(arena, rest + 6, strlen(rest + 6)) : NULL;
    c->done = c->wrong || (sscanf(rest, "times %lf %lf", &c->times, &c->ms) == 2 && c->times > 0);
  }
}

void tune_resume(Tune *t) {
  Arena *arena = t->options->arena;
  Buf head = {0};
  part_head(t, &head);
  t->part = arena_printf(arena, "%s.tuning.%016llx", t->options->files.at[0],
                         (unsigned long long)text_hash(head.text, head.length));
  size_t length = 0;
  char *text = read_file(arena, t->part, &length);
  bool same = text && length >= head.length && memcmp(text, head.text, head.length) == 0;
  for (char *line = same ? text + head.length : NULL, *next; line && *line; line = next) {
    size_t end = strcspn(line, "\n");
    next = line[end] ? line + end + 1 : NULL;
    line[end] = 0;
    if (next) read_part(t, line);  // the last one may be cut off
  }
  if (!same) write_file(t->part, head.text, head.length);
  buf_free(&head);
}

void tune_note(const Tune *t, const Candidate *c) {
  Buf line = {0};
  put_blocks(&c->blocks, ':', ",", &line);
  if (c->wrong)
    buf_printf(&line, " wrong %s\n", c->wrong);
  else
    buf_printf(&line, " times %.9g %.9g\n", c->times, c->ms);
  FILE *f = fopen(t->part, "a");
  if (f) {
    fputs(line.text, f);
    fclose(f);
  }
  buf_free(&line);
}

void tune_forget(const Tune *t) { unlink(t->part); }
