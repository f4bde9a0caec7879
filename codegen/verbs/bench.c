// pkc bench: verify, then time the kernel and its naive reference.
#include "codegen/run/tuning.h"
#include "codegen/verbs/share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  double flops, bytes, best_ms, median_ms, runs, gflops, gbytes, naive_ms, speedup, first_call_ms;
  Share share;
  const char *unknown;  // why the number of operations is unknown, or NULL
  int threads;
  bool naive, ok;
  const TuningEntry *tuned;  // NULL: the defaults
  Comparison compared;
} Figures;

static void read_figures(const Options *options, const Session *session, const Work *work,
                         Figures *f) {
  Arena *arena = options->arena;
  const Outcome *o = &session->outcome;
  f->best_ms = outcome_number(arena, o, "best_ms", NAN);
  f->median_ms = outcome_number(arena, o, "median_ms", NAN);
  f->runs = outcome_number(arena, o, "runs", 0);
  f->naive_ms = session->naive ? outcome_number(arena, o, "naive_ms", NAN) : NAN;
  f->first_call_ms = outcome_number(arena, o, "first_call_ms", NAN);
  f->bytes = operand_bytes(&session->binding);
  f->gflops = work->flops / f->best_ms / 1e6;
  f->gbytes = f->bytes / f->best_ms / 1e6;
  f->unknown = work->unknown;
  f->share = share_of(options, work, o, f->best_ms * 1e-3);
  f->speedup = f->naive_ms / f->best_ms;
}

// ---- JSON

// Numbers and bools are written directly, dtypes (and inf, nan, which JSON lacks) as strings.
static void put_static(Buf *out, const char *name, const char *value) {
  char *end;
  double number = strtod(value, &end);
  bool plain =
      (*value && !*end && isfinite(number) && strspn(value, "+-.0123456789eE") == strlen(value)) ||
      strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
  if (plain)
    json_raw(out, name, value);
  else
    json_text(out, name, value);
}

// The element whose difference is the largest part of its allowance.
static void put_worst(const Options *options, const Session *session, const Comparison *c,
                      Buf *out) {
  const Judged *worst = &c->worst;
  bool any = session->judge && worst->index >= 0;
  json_real(out, "max_abs_error", any ? worst->error : NAN);
  json_real(out, "tolerance", any ? worst->allowed : NAN);
  json_text(out, "worst_element", any ? session_element(options->arena, session, c) : NULL);
  json_real(out, "wrong_elements", session->judge ? (double)c->wrong : NAN);
  json_real(out, "undetermined_elements", session->judge ? (double)c->undetermined : NAN);
}

static void put_sizes(const Binding *binding, Buf *out) {
  const Kernel *k = binding->program.kernel;
  json_open(out, "sizes", '{');
  for (int i = 0; i < k->sizes.count; i++) {
    int given = size_by_name(k->sizes.at, i);
    if (!k->sizes.at[i].value) json_int(out, k->sizes.at[given].name, binding->sizes[given]);
  }
  json_close(out, '}');
  json_open(out, "statics", '{');
  for (int i = 0; i < k->statics.count; i++)
    put_static(out, k->statics.at[i].name, k->statics.at[i].value);
  json_close(out, '}');
}

// Prints the result as one JSON object.
static void print_json(const Options *options, const Session *session, const char *path,
                       const Figures *f) {
  Buf out = {0};
  json_open(&out, NULL, '{');
  json_text(&out, "kernel", session->binding.program.kernel->name);
  json_text(&out, "file", path);
  put_sizes(&session->binding, &out);
  json_bool(&out, "tuned", f->tuned != NULL);
  json_text(&out, "target", options->target->name);
  json_int(&out, "threads", f->threads);
  json_real(&out, "best_ms", f->best_ms);
  json_real(&out, "median_ms", f->median_ms);
  json_real(&out, "runs", f->runs);
  json_real(&out, "flops", f->flops);
  json_real(&out, "gflops", f->gflops);
  json_real(&out, "gbytes_per_s", f->gbytes);
  json_real(&out, "peak_share", f->share.share);
  json_text(&out, "peak_of", f->share.of);
  json_text(&out, "peak_unknown", f->share.why);
  json_text(&out, "work_unknown", f->unknown);
  json_real(&out, "first_call_ms", f->first_call_ms);
  json_real(&out, "naive_ms", f->naive_ms);
  json_real(&out, "naive_speedup", f->speedup);
  put_worst(options, session, &f->compared, &out);
  put_counters(options, &session->outcome, true, &out);
  json_bool(&out, "ok", f->ok);
  buf_puts(&out, "}\n");
  write_result("-", &out);
  buf_free(&out);
}

// ---- the table

static void print_counters(const Options *options, const Session *session) {
  Buf out = {0};
  put_counters(options, &session->outcome, false, &out);
  if (out.length) fputs(out.text, stdout);
  buf_free(&out);
}

// Prints the result as text.
static void print_table(const Options *options, const Session *session, const Figures *f) {
  const Kernel *k = session->binding.program.kernel;
  const Binding *binding = &session->binding;
  printf("%s ", k->name);
  for (int i = 0; i < k->sizes.count; i++) {
    int given = size_by_name(k->sizes.at, i);
    if (!k->sizes.at[i].value)
      printf(" %s=%lld", k->sizes.at[given].name, (long long)binding->sizes[given]);
  }
  Buf tuned = {0};
  if (f->tuned) put_blocks(&f->tuned->blocks, '=', " ", &tuned);
  printf("  (%s, %d thread%s%s%s)\n", options->target->name, f->threads, f->threads == 1 ? "" : "s",
         f->tuned ? ", tuned: " : "", f->tuned ? tuned.text : "");
  buf_free(&tuned);
  printf("%-12s %12s %12s %8s %12s %10s %8s\n", "", "best ms", "median ms", "runs", "GFLOP/s",
         "GB/s", "of peak");
  printf("%-12s %12.4g %12.4g %8.0f ", "kernel", f->best_ms, f->median_ms, f->runs);
  if (f->unknown)
    printf("%12s", "-");
  else
    printf("%12.4g", f->gflops);
  printf(" %10.4g", f->gbytes);
  if (f->share.of)
    printf(" %7.0f%% (%s)\n", f->share.share * 100, f->share.of);
  else
    printf(" %8s\nno share of the peak: %s\n", "-", f->share.why);
  if (f->unknown && f->unknown != f->share.why) printf("no GFLOP/s: %s\n", f->unknown);
  print_counters(options, session);
  if (!f->naive) return;
  printf("%-12s %12.4g %12s %8s %12.4g %10.4g\n", "naive C -O3", f->naive_ms, "", "",
         f->flops / f->naive_ms / 1e6, f->bytes / f->naive_ms / 1e6);
  printf("%.1f times as fast as the naive reference; %s the reference%s: %s\n", f->speedup,
         f->compared.worst.error == 0 ? "equal to"
         : f->ok                      ? "agrees with"
                                      : "differs from",
         comparison_summary(options->arena, session, &f->compared), f->ok ? "ok" : "WRONG");
}

// Times a kernel and its reference, and prints the result.
static int measure(Options *options, Session *session, const char *path, const TuningEntry *tuned) {
  Figures f = {
      .ok = true, .threads = options_threads(options), .naive = session->naive, .tuned = tuned};
  Work work = work_of(options, &session->binding);
  ExecuteOptions how = {.mode = "bench",
                        .peak = work.arithmetic,
                        .threads = f.threads,
                        .judge = session->judge,
                        .naive = session->naive,
                        .progress = isatty(2),
                        .min_time = options->min_time,
                        .max_time = options->max_time,
                        .vmem_limit = options->vmem_limit,
                        .trace = options->trace,
                        .counters = options->counters};
  execute(options->arena, session->program, &session->binding, &session->data, &how,
          &session->outcome);
  int status = session_status(session, path);
  if (status != DONE) return status;
  Kernel *k = session->binding.program.kernel;
  f.flops = k->reference ? reference_flops(k, session->binding.sizes) : 0;
  if (session->judge) status = session_compare(session, options, &f.compared);
  f.ok = status == DONE;
  read_figures(options, session, &work, &f);
  if (options->json)
    print_json(options, session, path, &f);
  else
    print_table(options, session, &f);
  return status;
}

int verb_bench(Options *options) {
  Session session = {.data.fd = -1};
  const char *path = options->files.at[0];
  if (world_count() > 1) return user_error("pkc bench runs in one process, not under mpirun");
  const TuningEntry *tuned = tuning_apply(options, options_threads(options));
  int status = bind_or_report(&session.binding, options, true);
  if (status != DONE) return status;
  BuildFlags flags = {.flags = target_flags(options->target),
                      .naive_flags = options->no_naive ? NULL : naive_target_flags(true),
                      .timed = true,
                      .linked = true};
  const char *wrong = session_open(&session, options, &flags);
  status = wrong ? user_error("%s: %s", path, wrong) : measure(options, &session, path, tuned);
  session_close(&session);
  return status;
}
