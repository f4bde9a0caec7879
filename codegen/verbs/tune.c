// pkc tune: searches block sizes for a kernel on this processor, or by the model of a TPU.
#include "codegen/verbs/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 2, FINALISTS = 3, FINAL_PAIRS = 9 };
static const double reference_work_most = 1e10, least_gain = 1.02;

// ---- the default

// Copies of the default's results replace the reference if there is none, or if it takes too long.
static void expect_default(Tune *t) {
  Arena *arena = t->options->arena;
  const Kernel *k = t->base.binding.program.kernel;
  t->expected = (Reference){NEW_ARRAY(arena, HostArray, k->outputs + 1),
                            NEW_ARRAY(arena, const double *, k->outputs + 1)};
  for (int i = 0; i < k->outputs; i++) {
    HostArray *own = &t->expected.outputs[i];
    int64_t bytes = 0;
    *own = t->base.binding.operands[k->inputs + i];
    REQUIRE(add_array_bytes(&bytes, own));
    void *copy = arena_alloc(arena, (size_t)bytes + 1);
    int64_t count;
    REQUIRE(array_elements(own, &count));
    memcpy(copy, own->data, (size_t)count * (size_t)dtype_bytes(own->dtype));
    own->data = copy;
    t->expected.allowed[i] = rounding_allowance(arena, own, NULL);
  }
}

static int run_default(Tune *t) {
  const char *path = t->options->files.at[0];
  ExecuteOptions how = {.mode = "run",
                        .threads = t->threads,
                        .judge = t->judged,
                        .vmem_limit = t->options->vmem_limit};
  execute(t->options->arena, t->base.program, &t->base.binding, &t->base.data, &how,
          &t->base.outcome);
  int status = session_status(&t->base, path);
  if (status != DONE) return status;
  t->seconds = outcome_number(t->options->arena, &t->base.outcome, "first_call_ms", 1e3) * 1e-3;
  Comparison all;
  if (t->judged && session_compare(&t->base, t->options, &all) != DONE) return CHECK_FAILED;
  if (t->judged)
    t->expected = t->base.data.reference;
  else
    expect_default(t);
  return DONE;
}

static int open_default(Tune *t) {
  Kernel *k = t->base.binding.program.kernel;
  double work = k->reference ? reference_flops(k, t->base.binding.sizes) : INFINITY;
  BuildFlags flags = {.flags = target_flags(t->options->target), .linked = true};
  if (work <= reference_work_most) flags.naive_flags = naive_target_flags(true);
  const char *wrong = session_open(&t->base, t->options, &flags);
  if (wrong) return user_error("%s: %s", t->options->files.at[0], wrong);
  t->judged = t->base.judge;
  return run_default(t);
}

// ---- the table

static void print_row(const Candidate *c, const char *remark) {
  for (int i = 0; i < c->blocks.count; i++) printf("%8lld", (long long)c->blocks.value[i]);
  if (c->wrong)
    printf("  %s\n", c->wrong);
  else
    printf("  %8.3f %12.4g  %s\n", c->times, c->ms, remark);
  fflush(stdout);
}

static void print_head(const Tune *t) {
  const Kernel *k = t->base.binding.program.kernel;
  int kept = 0;
  for (int i = 0; i < t->found.count; i++) kept += t->found.at[i].kept;
  printf("%s: %d of %d combinations of block sizes are tried, compared with the %s\n", k->name,
         kept, t->found.count + 1, t->judged ? "reference" : "result of the default");
  for (int i = 0; i < t->usual.count; i++) printf("%8s", t->usual.name[i]);
  printf("  %8s %12s\n", "times", "best ms");
  for (int i = 0; i < t->usual.count; i++) printf("%8lld", (long long)t->usual.value[i]);
  printf("  %8.3f %12s  the default\n", 1.0, "");
  fflush(stdout);
}

static void show_progress(int number, int kept, const Candidate *best) {
  if (!isatty(2)) return;
  Buf text = {0};
  if (best) put_blocks(&best->blocks, '=', " ", &text);
  fprintf(stderr, "\r\033[K%d of %d; best so far %s, %.2f times the default's speed ", number, kept,
          best ? text.text : "the default", best ? best->times : 1.0);
  fflush(stderr);
  buf_free(&text);
}

// ---- the search

static bool is_better(const Candidate *c, const Candidate *best) {
  return !c->wrong && c->times > (best ? best->times : 1);
}

// Refused blocks are counted, not listed: most of them are too large.
static void print_refused(const Tune *t) {
  int refused = 0, slow = 0;
  for (int i = 0; i < t->found.count; i++) {
    const Candidate *c = &t->found.at[i];
    refused += !c->kept && c->wrong;
    slow += !c->kept && !c->wrong;
  }
  if (refused) printf("%d are refused or do not fit VMEM\n", refused);
  if (slow) printf("%d give the same grid as others, or are slow by a quick estimate\n", slow);
}

static void search(Tune *t) {
  int kept = 0, number = 0;
  const Candidate *best = NULL;
  for (int i = 0; i < t->found.count; i++) kept += t->found.at[i].kept;
  for (int i = 0; i < t->found.count; i++) {
    Candidate *c = &t->found.at[i];
    if (!c->kept) continue;
    show_progress(++number, kept, best);
    bool earlier = c->done;
    if (!earlier) tune_try(t, c, PAIRS);
    if (!earlier) tune_note(t, c);
    bool better = is_better(c, best);
    if (better) best = c;
    if (isatty(2)) fputs("\r\033[K", stderr);
    print_row(c, better ? "best so far" : "");
  }
}

static int by_times(const void *a, const void *b) {
  const Candidate *const *x = a, *const *y = b;
  return ((*x)->times < (*y)->times) - ((*x)->times > (*y)->times);
}

// Times the fastest ones again, in more pairs, because the best of many was also lucky. NULL: none
// is certainly better than the default.
static const Candidate *choose(Tune *t) {
  Candidate **order = NEW_ARRAY(t->options->arena, Candidate *, t->found.count + 1);
  const Candidate *best = NULL;
  int count = 0;
  for (int i = 0; i < t->found.count; i++)
    if (t->found.at[i].done && !t->found.at[i].wrong && t->found.at[i].times > 1)
      order[count++] = &t->found.at[i];
  sort_items(order, (size_t)count, sizeof *order, by_times);
  if (count > FINALISTS) count = FINALISTS;
  if (count) printf("once more, in %d pairs with the default\n", FINAL_PAIRS);
  for (int i = 0; i < count; i++) {
    tune_try(t, order[i], FINAL_PAIRS);
    bool better = is_better(order[i], best) && order[i]->times >= least_gain;
    if (better) best = order[i];
    print_row(order[i], better ? "best" : "");
  }
  return best;
}

static int write_winner(const Tune *t, const Candidate *best) {
  Arena *arena = t->options->arena;
  const char *path = tuning_path(arena, t->options->files.at[0]);
  TuningEntry entry = {t->key, best ? best->blocks : t->usual, best ? best->times : 1};
  if (!t->base.binding.program.kernel->reference) {
    printf(
        "The kernel has no reference to confirm that other block sizes give the same results: %s "
        "is not written\n",
        path);
    return DONE;
  }
  const char *wrong = tuning_write(arena, path, &entry);
  if (wrong) return user_error("%s", wrong);
  printf("written to %s\n", path);
  return DONE;
}

static int finish(Tune *t) {
  const Candidate *best = choose(t);
  Buf text = {0};
  if (best) {
    put_blocks(&best->blocks, '=', " ", &text);
    printf("%s: %.2f times as fast as the default\n", text.text, best->times);
  } else {
    printf("no blocks are at least %.0f %% faster than the default\n", (least_gain - 1) * 100);
  }
  buf_free(&text);
  int status = write_winner(t, best);
  if (status == DONE) tune_forget(t);
  return status;
}

static int tune_here(Tune *t) {
  int status = tune_find_blocks(t);
  if (status != DONE) return status;
  status = open_default(t);
  if (status != DONE) return status;
  t->key = tuning_key(t->options->arena, &t->base.binding, t->options, t->threads, &t->usual);
  tune_list(t);
  tune_resume(t);
  print_head(t);
  search(t);
  print_refused(t);
  return finish(t);
}

// ---- --chip

// The same block sizes, ranked by the model.
static int rank_by_model(Tune *t) {
  Options *options = t->options;
  int status = tune_find_blocks(t);
  if (status != DONE) return status;
  for (int i = 0; i < t->usual.count; i++) {
    Buf text = {0};
    for (int v = 0; v < t->values[i].count; v++)
      buf_printf(&text, "%s%lld", v ? "," : "", (long long)t->values[i].at[v]);
    const char *values = arena_printf(options->arena, "%s=%s", t->usual.name[i], text.text);
    Argument range = {t->usual.name[i], values + strlen(t->usual.name[i]) + 1};
    if (i)
      LIST_PUSH(options->arena, &options->arguments, range);
    else
      options->sweep = values;
    buf_free(&text);
  }
  options->over = NULL;  // the values contain it; for pkc tpu, --over names axes of a slice
  return verb_tpu(options);
}

static int show(Options *options) {
  Buf out = {0};
  Binding binding;
  int status = bind_or_report(&binding, options, true);
  const TuningEntry *tuned =
      status == DONE ? tuning_apply(options, options_threads(options)) : NULL;
  if (tuned) {
    put_blocks(&tuned->blocks, '=', " ", &out);
    buf_puts(&out, "\n");
    status = write_result("-", &out);
  }
  buf_free(&out);
  return status;
}

int verb_tune(Options *options) {
  Tune t = {.options = options, .base.data.fd = -1, .threads = options_threads(options)};
  if (world_count() > 1) return user_error("pkc tune runs in one process, not under mpirun");
  if (options->show) return show(options);
  options->no_cache = false;  // each candidate is built by a process of its own
  int status = bind_or_report(&t.base.binding, options, true);
  if (status != DONE) return status;
  if (t.base.binding.program.kernel->flow)
    return user_error("%s: a program has no blocks of its own: -k NAME selects a kernel",
                      options->files.at[0]);
  status = options->chip || options->chip_file ? rank_by_model(&t) : tune_here(&t);
  session_close(&t.base);
  return status;
}
