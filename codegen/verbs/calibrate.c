// pkc calibrate: measures this machine for the target native.
#define _GNU_SOURCE
#include "codegen/run/calibration.h"
#include "codegen/verbs/race.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// ---- other processes

// Processors and seconds: those that all processes used since the system began, and those of this
// process and the children that have ended.
typedef struct {
  double all, own, clock;
} Use;

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

// Processor seconds of the whole machine and of this process with its children, and the time.
static Use use_now(void) {
  double number[8] = {0}, tick = (double)sysconf(_SC_CLK_TCK);
  FILE *f = fopen("/proc/stat", "r");
  int got = f ? fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &number[0], &number[1], &number[2],
                       &number[3], &number[4], &number[5], &number[6], &number[7])
              : 0;
  if (f) fclose(f);
  Use use = {0};
  // All fields except idle time and waits for devices.
  for (int i = 0; i < got; i++) use.all += i == 3 || i == 4 ? 0 : number[i] / tick;
  static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
  for (int i = 0; i < 2; i++) {
    struct rusage own;
    getrusage(whose[i], &own);
    use.own += seconds_of(own.ru_utime) + seconds_of(own.ru_stime);
  }
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  use.clock = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  return use;
}

// The processors that others used since then, on average.
static double others_since(const Use *then) {
  Use now = use_now();
  double others = (now.all - then->all - (now.own - then->own)) / (now.clock - then->clock);
  return others > 0 ? others : 0;
}

// A few daemons do not matter on a large machine.
static bool is_busy(double others) {
  double some = 0.05 * (double)sysconf(_SC_NPROCESSORS_ONLN);
  return others > (some > 0.2 ? some : 0.2);
}

static int say_busy(double others) {
  fprintf(stderr,
          "pkc: the machine is busy: other processes use %.1f of its processors, so nothing is "
          "changed (--force calibrates nevertheless)\n",
          others);
  return BUSY;
}

// ---- progress

static void say(const char *line) {
  fprintf(stderr, isatty(2) ? "\r\033[Kpkc calibrate: %s " : "pkc calibrate: %s\n", line);
  fflush(stderr);
}

static void end_progress(void) {
  if (isatty(2)) fputs("\r\033[K", stderr);
}

// ---- results

// Two measurements of a machine differ, so rates and times are rounded to steps of 25 %, and sizes
// of caches to powers of 2. An earlier result is kept if the new one is within one step of it.
static void make_coarse(Calibration *c, const Calibration *earlier) {
  for (int i = 0; i < CALIBRATED_COUNT; i++) {
    const CalibratedRow *row = &calibrated_rows[i];
    if (!c->known[i] || !row->unit || !*row->unit) continue;
    const double step = log(strcmp(row->unit, "bytes") == 0 ? 2 : 1.25),
                 place = log((double)c->value[i]) / step;
    if (earlier && earlier->known[i] &&
        fabs(place - log((double)earlier->value[i]) / step) <= 1 + 1e-3)
      c->value[i] = earlier->value[i];
    else
      c->value[i] = llround(exp(step * round(place)));
    if (c->value[i] > row->high) c->value[i] = row->high;
    if (c->value[i] < row->low) c->value[i] = row->low;
  }
}

static void put_row(const Calibration *c, int i, Buf *out) {
  const CalibratedRow *row = &calibrated_rows[i];
  buf_printf(out, "  %-16s %12lld %-5s %s\n", row->name, (long long)c->value[i],
             row->unit ? row->unit : "", row->meaning);
}

static void put_calibration(const Calibration *c, Buf *out) {
  buf_printf(out, "calibration %s of %s\nmeasured\n", c->id, target_find("native")->name);
  for (int i = 0; i < CALIBRATED_COUNT; i++)
    if (c->known[i] && calibrated_rows[i].unit) put_row(c, i, out);
  buf_puts(out, calibration_moves(c) ? "instead of the table's\n"
                                     : "no cut-off of the table is clearly worse than another\n");
  for (int i = 0; i < CALIBRATED_COUNT; i++)
    if (c->known[i] && !calibrated_rows[i].unit) put_row(c, i, out);
  for (int i = 0; i < regime_count(); i++)
    if (c->decided >> i & 1)
      buf_printf(out, "  %-16s %12s       regime\n", regime_name(i),
                 c->regimes >> i & 1 ? "on" : "off");
}

static int show(const Calibration *c) {
  Buf out = {0};
  if (c)
    put_calibration(c, &out);
  else
    buf_printf(&out, "this machine is not calibrated: native has the table of %s\n",
               target_find("native")->name);
  int status = write_result("-", &out);
  buf_free(&out);
  return status;
}

static int show_core(const Calibration *c) {
  if (!c) return user_error("this machine is not calibrated: run pkc calibrate first");
  Buf out = {0};
  target_calibrate(c);
  core_write(target_find("native")->core, "measured", &out);
  int status = write_result("-", &out);
  buf_free(&out);
  return status;
}

// ---- the verb

static const char *measure(RaceTrack *track, bool quick, const Calibration *earlier,
                           Calibration *c) {
  if (earlier) {  // races begin with these cut-offs
    *c = *earlier;
    for (int i = 0; i < CALIBRATED_COUNT; i++) c->known[i] &= calibrated_rows[i].unit == NULL;
  }
  const char *wrong = race_measure(track, c);
  if (!wrong) make_coarse(c, earlier);
  return wrong || quick ? wrong : race_all(track, c);
}

// Measures `c`, or with --edges writes a table. Returns NULL, or an error message.
static const char *measure_apart(const Options *options, const Calibration *earlier, Calibration *c,
                                 Buf *edges) {
  RaceTrack track;
  const char *wrong = race_open(&track, options->arena, say);
  if (!wrong)
    wrong =
        options->edges ? race_edges(&track, edges) : measure(&track, options->quick, earlier, c);
  end_progress();
  race_close(&track);
  return wrong;
}

static int calibrate(const Options *options, const char *path, const Calibration *earlier) {
  static const struct timespec a_while = {0, 500000000};
  Calibration c = {0};
  Buf edges = {0};
  Use begun = use_now();
  nanosleep(&a_while, NULL);
  double others = others_since(&begun);
  if (is_busy(others) && !options->force) return say_busy(others);
  begun = use_now();
  const char *wrong = measure_apart(options, earlier, &c, &edges);
  others = others_since(&begun);
  if (!wrong && is_busy(others) && !options->force) return say_busy(others);
  if (!wrong && !options->edges) wrong = calibration_write(options->arena, path, &c);
  int status = wrong            ? user_error("%s", wrong)
               : options->edges ? write_result("-", &edges)
                                : show(&c);
  buf_free(&edges);
  return status;
}

static int reset(const char *path) {
  if (!path || unlink(path) == 0 || errno == ENOENT) return DONE;
  return user_error("cannot remove %s: %s", path, strerror(errno));
}

int verb_calibrate(Options *options) {
  const char *wrong = NULL, *path = calibration_path(options->arena, !options->reset);
  if (options->show + options->reset + options->write_core + options->edges > 1)
    return usage_error(verb_find("calibrate"),
                       "--show, --reset, --write-core and --edges exclude each other");
  if (options->reset) return reset(path);
  if (!path) return user_error("there is no cache folder for a calibration");
  const Calibration *c = calibration_read(options->arena, path, &wrong);
  if (wrong) fprintf(stderr, "pkc: warning: the calibration %s %s\n", path, wrong);
  if (options->show) return show(c);
  if (options->write_core) return show_core(c);
  return calibrate(options, path, c);
}
