// pkc profile: where a compiled kernel spends its time, by source line and by thread or device. Its
// build reads the timestamp counter where one piece of the loop IR ends and the next begins
// (emit/profile.c).
#include "codegen/run/tuning.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREAD_COLUMNS = 8 };

typedef struct {
  double all, *thread;  // ns of the fastest call
  double visits;
} PlaceTime;

typedef struct {
  Options *options;
  Session session;
  ProfilePlaces places;
  PlaceTime *time;  // by place; 0: outside of cells
  int threads;
  double call_ms, plain_ms, lap_ns, inside, visits;
  double calls;
  const char *laps;  // the file of the newest laps, or NULL
} Profile;

// ---- the output of the harness

static void read_lap(Profile *p, const char *line) {
  int thread = 0, place = 0;
  double ns = 0, visits = 0;
  if (sscanf(line, "lap=%d %d %lf %lf", &thread, &place, &ns, &visits) != 4) return;
  if (thread < 0 || thread >= p->threads || place < 0 || place > p->places.count) return;
  p->time[place].thread[thread] += ns;
  p->time[place].all += ns;
  p->time[place].visits += visits;
  p->visits += visits;
  if (place) p->inside += ns;
}

static void read_profile(Profile *p) {
  Arena *arena = p->options->arena;
  const Outcome *o = &p->session.outcome;
  p->call_ms = outcome_number(arena, o, "call_ms", 0);
  p->lap_ns = outcome_number(arena, o, "lap_ns", 0);
  p->calls = outcome_number(arena, o, "calls", 0);
  p->threads = (int)outcome_number(arena, o, "lap_threads", 0);
  p->time = NEW_ARRAY(arena, PlaceTime, p->places.count + 1);
  for (int i = 0; i <= p->places.count; i++)
    p->time[i].thread = NEW_ARRAY(arena, double, p->threads + 1);
  for (const char *line = o->output.text; line && *line;
       line = strchr(line, '\n'), line += line != NULL)
    if (strncmp(line, "lap=", 4) == 0) read_lap(p, line);
}

// ---- the table

static const PlaceTime *sorted_times;
static int by_time(const void *a, const void *b) {
  double x = sorted_times[*(const int *)a].all, y = sorted_times[*(const int *)b].all;
  return (x < y) - (x > y);
}

static int *order_of(const Profile *p) {
  int *order = NEW_ARRAY(p->options->arena, int, p->places.count + 1);
  for (int i = 0; i < p->places.count; i++) order[i] = i + 1;
  sorted_times = p->time;
  sort_items(order, (size_t)p->places.count, sizeof *order, by_time);
  return order;
}

static const char *source_of(const Profile *p, int number) {
  const char *text = p->session.binding.program.source.text;
  for (int i = 1; text && i < number; i++) text = strchr(text, '\n'), text += text != NULL;
  if (!text) return "";
  text += strspn(text, " \t");
  size_t length = strcspn(text, "\n");
  return arena_strndup(p->options->arena, text, length < 60 ? length : 60);
}

static const char *what_of(const Profile *p, const ProfilePlace *place) {
  bool several = p->session.binding.program.kernel->flow != NULL;
  return arena_printf(p->options->arena, "%s%s%s%s%s", several ? place->kernel : "",
                      several ? ": " : "", place->what, place->region ? " in " : "",
                      place->region ? place->region : "");
}

static void print_head(const Profile *p, Buf *out) {
  const Kernel *k = p->session.binding.program.kernel;
  const char *runner = k->mesh.count ? "device" : "thread";
  buf_printf(out, "%s  (%s, %d %s%s)  %.4g ms, the fastest of %.0f calls\n", k->name,
             p->options->target->name, p->threads, runner, p->threads == 1 ? "" : "s", p->call_ms,
             p->calls);
  buf_printf(out, "%7s %12s %9s", "share", "us", "visits");
  for (int i = 0; p->threads > 1 && i < p->threads && i < MOST_THREAD_COLUMNS; i++)
    buf_printf(out, " %s %d", runner, i);
  buf_puts(out, "  lines\n");
}

static void print_place(const Profile *p, const PlaceTime *time, const char *text, Buf *out) {
  double all = p->inside + p->time[0].all;
  buf_printf(out, "%6.1f%% %12.4g %9.0f", all > 0 ? 100 * time->all / all : 0, time->all * 1e-3,
             time->visits);
  for (int i = 0; p->threads > 1 && i < p->threads && i < MOST_THREAD_COLUMNS; i++)
    buf_printf(out, " %8.4g", time->thread[i] * 1e-3);
  buf_printf(out, "  %s\n", text);
}

static void print_table(const Profile *p, Buf *out) {
  Arena *arena = p->options->arena;
  int *order = order_of(p);
  print_head(p, out);
  for (int i = 0; i < p->places.count; i++) {
    const ProfilePlace *place = &p->places.at[order[i] - 1];
    const PlaceTime *time = &p->time[order[i]];
    if (time->visits > 0 || time->all > 0)
      print_place(p, time,
                  arena_printf(arena, "%s: %s: %s", place->lines, what_of(p, place),
                               source_of(p, place->line)),
                  out);
  }
  print_place(p, &p->time[0], "outside of the grid's cells: starting, waiting, copying", out);
  buf_printf(out,
             "A lap is %.0f ns: %.2g %% of these times. Without laps a call takes %.4g ms, %+.1f "
             "%%.\n",
             p->lap_ns, 100 * p->visits * p->lap_ns / (p->inside + p->time[0].all), p->plain_ms,
             100 * (p->plain_ms / p->call_ms - 1));
}

// Writes the profile as one JSON object.
static void put_json(const Profile *p, Buf *out) {
  int *order = order_of(p);
  json_open(out, NULL, '{');
  json_text(out, "kernel", p->session.binding.program.kernel->name);
  json_text(out, "file", p->options->files.at[0]);
  json_text(out, "target", p->options->target->name);
  json_int(out, "threads", p->threads);
  json_real(out, "call_ms", p->call_ms);
  json_real(out, "plain_ms", p->plain_ms);
  json_real(out, "lap_ns", p->lap_ns);
  json_open(out, "places", '[');
  for (int i = 0; i <= p->places.count; i++) {
    int at = i < p->places.count ? order[i] : 0;
    const ProfilePlace *place = at ? &p->places.at[at - 1] : NULL;
    json_open(out, NULL, '{');
    json_text(out, "lines", place ? place->lines : NULL);
    json_text(out, "what", place ? place->what : "outside");
    json_text(out, "region", place ? place->region : NULL);
    json_text(out, "kernel", place ? place->kernel : NULL);
    json_real(out, "us", p->time[at].all * 1e-3);
    json_real(out, "visits", p->time[at].visits);
    json_open(out, "threads_us", '[');
    for (int t = 0; t < p->threads; t++) json_real(out, NULL, p->time[at].thread[t] * 1e-3);
    json_close(out, ']');
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
  buf_puts(out, "\n");
}

// ---- the trace

static void put_event(const Profile *p, const char *line, Buf *out) {
  int thread = 0, number = 0;
  double start, duration;
  if (sscanf(line, "%d %d %lf %lf", &thread, &number, &start, &duration) != 4) return;
  if (number < 1 || number > p->places.count) return;
  const ProfilePlace *place = &p->places.at[number - 1];
  json_open(out, NULL, '{');
  json_text(out, "name",
            arena_printf(p->options->arena, "%s: %s", place->lines, what_of(p, place)));
  json_text(out, "cat", place->region ? place->region : place->kernel);
  json_text(out, "ph", "X");
  json_int(out, "pid", 1);
  json_int(out, "tid", thread);
  json_real(out, "ts", start * 1e-3);
  json_real(out, "dur", duration * 1e-3);
  json_open(out, "args", '{');
  json_text(out, "source", source_of(p, place->line));
  json_close(out, '}');
  json_close(out, '}');
}

static int write_trace(const Profile *p) {
  size_t length;
  const char *text = read_file(p->options->arena, p->laps, &length);
  Buf out = {0};
  json_open(&out, NULL, '{');
  json_text(&out, "displayTimeUnit", "ns");
  json_open(&out, "traceEvents", '[');
  for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
    put_event(p, line, &out);
  json_close(&out, ']');
  json_open(&out, "otherData", '{');
  json_real(&out, "dropped",
            outcome_number(p->options->arena, &p->session.outcome, "laps_dropped", 0));
  json_close(&out, '}');
  json_close(&out, '}');
  buf_puts(&out, "\n");
  int status = write_result(p->options->trace, &out);
  buf_free(&out);
  return status;
}

// ---- the runs

static const BuildFlags *build_flags(const Options *options) {
  BuildFlags *flags = NEW(options->arena, BuildFlags);
  *flags = (BuildFlags){.flags = target_flags(options->target), .linked = true};
  return flags;
}

static void execute_in(Profile *p, Session *session, const char *mode) {
  ExecuteOptions how = {.mode = mode,
                        .threads = options_threads(p->options),
                        .min_time = p->options->min_time > 0 ? p->options->min_time : 1,
                        .vmem_limit = p->options->vmem_limit,
                        .trace = p->laps};
  execute(p->options->arena, session->program, &session->binding, &session->data, &how,
          &session->outcome);
}

// The same kernel without laps.
static int time_plain(Profile *p) {
  const char *path = p->options->files.at[0], *laps = p->laps;
  Session plain = {.data.fd = -1};
  int status = bind_or_report(&plain.binding, p->options, true);
  if (status != DONE) return status;
  const char *wrong = session_open(&plain, p->options, build_flags(p->options));
  p->laps = NULL;
  if (!wrong) execute_in(p, &plain, "bench");
  p->laps = laps;
  status = wrong ? user_error("%s: %s", path, wrong) : session_status(&plain, path);
  p->plain_ms =
      status == DONE ? outcome_number(p->options->arena, &plain.outcome, "best_ms", 0) : 0;
  session_close(&plain);
  return status;
}

static int report(Profile *p) {
  Buf out = {0};
  read_profile(p);
  int status = p->options->trace ? write_trace(p) : DONE;
  if (p->options->json)
    put_json(p, &out);
  else
    print_table(p, &out);
  if (status == DONE) status = write_result("-", &out);
  buf_free(&out);
  return status;
}

static int profile_in(Profile *p) {
  Options *options = p->options;
  const char *path = options->files.at[0];
  int status = time_plain(p);
  if (status == DONE) status = bind_or_report(&p->session.binding, options, true);
  if (status != DONE) return status;
  options->profile = &p->places;
  const char *wrong = session_open(&p->session, options, build_flags(options));
  options->profile = NULL;
  if (wrong) return user_error("%s: %s", path, wrong);
  execute_in(p, &p->session, "profile");
  status = session_status(&p->session, path);
  return status == DONE ? report(p) : status;
}

int verb_profile(Options *options) {
  Profile p = {.options = options, .session.data.fd = -1};
  if (world_count() > 1) return user_error("pkc profile runs in one process, not under mpirun");
  const char *folder = options->trace ? temporary_folder(options->arena, NULL) : NULL;
  if (options->trace && !folder) return user_error("cannot make a temporary folder");
  if (folder) p.laps = arena_printf(options->arena, "%s/laps", folder);
  tuning_apply(options, options_threads(options));
  int status = profile_in(&p);
  session_close(&p.session);
  if (folder) remove_folder(options->arena, folder);
  return status;
}
