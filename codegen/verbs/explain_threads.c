// pkc explain --threads: the number of threads of a call, as the runtime plans it, and the modelled
// speed-up.
#include "codegen/verbs/verbs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The number of threads that saturate a server's memory channels, if this machine has too few
// processors to measure it. An assumption.
enum { SATURATED = 8 };

// The harness's plan of a call.
typedef struct {
  double bytes, gbytes, gbytes_all, processors, thread_us;
} Facts;

typedef struct {
  int allowed, taken;
  long long cells, parts;
  double cell_us;
} Plan;

// The bytes that `threads` threads move in a microsecond. The rate of all processors was measured:
// if it is clearly less than the sum of their rates, it is the limit of the memory.
static double rate_of(const Facts *f, double threads) {
  double one = f->gbytes * 1e3, most = fmax(SATURATED, f->processors) * one;
  if (f->processors > 1 && f->gbytes_all < 0.8 * f->processors * f->gbytes)
    most = f->gbytes_all * 1e3;
  return fmin(threads * one, fmax(most, one));
}

// The time of a call in microseconds: that of the thread with the most cells, or of memory; each
// thread after the first adds its cost.
static double time_of(const Plan *p, const Facts *f, const char **bound) {
  double cells = (double)p->cells, share = cells > 0 ? ceil(cells / p->taken) : 0,
         work = share * p->cell_us, memory = f->bytes / rate_of(f, p->taken),
         entering = f->thread_us * (p->taken - 1);
  *bound = memory > work                                   ? "memory"
           : p->taken < p->allowed && p->taken == p->cells ? "cells"
                                                           : "work";
  if (p->taken < p->allowed && p->taken < p->cells) *bound = "too little work";
  return fmax(work, memory) + entering;
}

// The table of `explain --threads`: one line for each number of threads, then the measurements that
// the model uses.
static void put_plans(const Plan *plans, int count, const Facts *facts, Buf *out) {
  const char *bound;
  double one = count ? time_of(&plans[0], facts, &bound) : 0;
  buf_puts(out,
           "\nThreads: what the runtime does with a call of these sizes, and what the model "
           "expects of it\n   allowed   used     cells  speed-up  limited by\n");
  for (int i = 0; i < count; i++) {
    const Plan *p = &plans[i];
    double time = time_of(p, facts, &bound);
    buf_printf(out, "  %8d %6d %9lld %9.2f  %s", p->allowed, p->taken, p->cells,
               time > 0 ? one / time : 1, p->allowed > 1 ? bound : "");
    if (p->parts > 1) buf_printf(out, ", in %lld parts each", p->parts);
    buf_putc(out, '\n');
  }
  buf_printf(out,
             "  work: about %.4g us; arrays: %.4g MB, at %.3g GB/s by one thread and %.3g by %g, "
             "measured now;\n  more than %g threads: at most %.3g; each thread takes %.3g us\n",
             count ? (double)plans[0].cells * plans[0].cell_us : 0, facts->bytes * 1e-6,
             facts->gbytes, facts->gbytes_all, facts->processors, facts->processors,
             rate_of(facts, 1e6) * 1e-3, facts->thread_us);
}

enum { MOST_PLANS = 16 };

static int read_plans(const Buf *output, Plan *plans) {
  int count = 0;
  for (const char *line = output->text; line && *line && count < MOST_PLANS;
       line = strchr(line, '\n'), line += line != NULL) {
    Plan *p = &plans[count];
    count += sscanf(line, "plan=%d %d %lld %lld %lf", &p->allowed, &p->taken, &p->cells, &p->parts,
                    &p->cell_us) == 5;
  }
  return count;
}

static int plan_session(const Options *options, Session *session) {
  Arena *arena = options->arena;
  ExecuteOptions how = {.mode = "plan", .threads = options->threads};
  Plan plans[MOST_PLANS];
  execute(arena, session->program, &session->binding, &session->data, &how, &session->outcome);
  int status = session_status(session, options->files.at[0]);
  if (status != DONE) return status;
  const Outcome *o = &session->outcome;
  Facts facts = {outcome_number(arena, o, "bytes", 0), outcome_number(arena, o, "gbytes", 1),
                 outcome_number(arena, o, "gbytes_all", 1),
                 outcome_number(arena, o, "processors", 1),
                 outcome_number(arena, o, "thread_ns", 0) * 1e-3};
  Buf out = {0};
  put_plans(plans, read_plans(&o->output, plans), &facts, &out);
  status = write_result("-", &out);
  buf_free(&out);
  return status;
}

int explain_threads(const Options *options) {
  Session session = {.data.fd = -1};
  const char *message = NULL;
  int status =
      bind_kernel(&session.binding, options->arena, options, options->files.at[0], &message);
  const Kernel *k = session.binding.program.kernel;
  if (status == DONE) message = session.binding.refusal;
  if (status == DONE && !message && (k->flow || k->mesh.count))
    message = "only kernels of one device have a plan: -k NAME selects one";
  if (message) printf("\nThreads: %s\n", message);
  if (status != DONE || message) return DONE;
  BuildFlags flags = {.flags = target_flags(options->target), .linked = true};
  const char *wrong = session_open(&session, options, &flags);
  status =
      wrong ? user_error("%s: %s", options->files.at[0], wrong) : plan_session(options, &session);
  session_close(&session);
  return status;
}
