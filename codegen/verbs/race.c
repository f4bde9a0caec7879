// Races of cut-offs: kernels that are built with one value and with another, and timed alternately.
#define _GNU_SOURCE
#include "codegen/loops/machine.h"
#include "codegen/verbs/race.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- kernels

typedef enum { PRODUCT, TRANSPOSED, TRANSPOSE, SUM, KERNELS } RaceKernel;

#define PRODUCT_TEXT(name, b, block, at, factor)                                               \
  "kernel " name "(a: f32[M, K], b: f32[" b                                                    \
  "]) -> (c: f32[M, N]) {\n"                                                                   \
  "  grid (i in cdiv(M, 256) parallel, j in cdiv(N, 512) parallel, k in max(1, cdiv(K, 512)) " \
  "arbitrary);\n"                                                                              \
  "  block a: [256, 512] at (i, k) pad 0;\n  block b: [" block "] at (" at                     \
  ") pad 0;\n  block c: [256, 512] at (i, j);\n  scratch acc: vmem f32[256, 512];\n"           \
  "  when k == 0 { acc[...] = 0; }\n  acc[...] += dot(a[...], " factor                         \
  ");\n  when k == num_programs(k) - 1 { c[...] = acc[...]; }\n}\n"

static const struct {
  const char *file, *text;
} kernels[KERNELS] = {
    [PRODUCT] = {"product.pk", PRODUCT_TEXT("product", "K, N", "512, 512", "k, j", "b[...]")},
    [TRANSPOSED] = {"transposed.pk",
                    PRODUCT_TEXT("transposed", "N, K", "512, 512", "j, k", "b[...].T")},
    [TRANSPOSE] = {"transpose.pk",
                   "kernel transpose(x: f32[M, N]) -> (o: f32[N, M]) {\n"
                   "  grid (i in cdiv(M, 512) parallel, j in cdiv(N, 128) parallel);\n"
                   "  block x: [512, 128] at (i, j);\n  block o: [128, 512] at (j, i);\n"
                   "  o[...] = x[...].T;\n}\n"},
    [SUM] = {"sum.pk",
             "kernel sum(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N]) {\n"
             "  grid (i in cdiv(M, 256) parallel, j in cdiv(N, 256) parallel);\n"
             "  block x: [256, 256] at (i, j);\n  block y: [256, 256] at (i, j);\n"
             "  block o: [256, 256] at (i, j);\n  o[...] = x[...] + y[...];\n}\n"},
};

// ---- races

typedef enum { OF_REGIME, OF_VALUES, OF_LIMIT } RaceKind;
enum { MOST_VALUES = 8, MOST_SIZES = 8 };

typedef struct {
  RaceKind kind;
  const char *name;
  int number;  // the row of calibration.def, or the regime
  RaceKernel kernel;
  const char *sizes, *beyond;
  int64_t values[MOST_VALUES];
  int count;
} Race;

#define COUNT(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
static const Race races[] = {
#define EDGE(name, kernel, sizes, beyond) \
  {OF_REGIME, #name, PK_REGIME_##name, kernel, sizes, beyond, {0, 1}, 2},
#define VALUES(name, kernel, sizes, ...) \
  {OF_VALUES, #name, CALIBRATED_##name, kernel, sizes, "", {__VA_ARGS__}, COUNT(__VA_ARGS__)},
#define LIMIT(name, kernel, sizes, ...) \
  {OF_LIMIT, #name, CALIBRATED_##name, kernel, sizes, "", {__VA_ARGS__}, COUNT(__VA_ARGS__)},
#include "codegen/verbs/race.def"
};
enum { RACES = sizeof races / sizeof *races };

// All cores have the others.
static bool is_race(const Race *race) {
  return race->kind != OF_REGIME || regime_is_optional(race->number);
}

static int64_t get_number(const Race *race, const Core *core) {
  Core copy = *core;
  return race->kind == OF_REGIME ? core->regimes >> race->number & 1
                                 : *core_number(&copy, (Calibrated)race->number);
}

static void set_number(const Race *race, Core *core, int64_t value) {
  int64_t bit = race->kind == OF_REGIME ? INT64_C(1) << race->number : 0;
  if (bit)
    core->regimes = value ? core->regimes | bit : core->regimes & ~bit;
  else
    *core_number(core, (Calibrated)race->number) = value;
}

// ---- one side

typedef struct {
  Core core;
  Target target;
  Options options;
  Session session;
} Side;

// How a side is built: its core, and further macros.
typedef struct {
  Core core;
  const char *flags;
} Build;

// Sizes "M=1 K=2" as arguments.
static void add_sizes(Options *options, const char *text) {
  const char *const *words = split_words(options->arena, &text, 1);
  for (int i = 0; words[i]; i++) {
    const char *equals = strchr(words[i], '=');
    Argument size = {intern_n(words[i], (size_t)(equals - words[i])), equals + 1};
    LIST_PUSH(options->arena, &options->arguments, size);
  }
}

static const char *open_side(Side *side, const RaceTrack *track, RaceKernel kernel,
                             const char *sizes, const Build *build) {
  Arena *arena = track->arena;
  const char *message = NULL;
  *side = (Side){.core = build->core, .target = *target_find("native"), .session.data.fd = -1};
  side->target.core = &side->core;
  side->options = (Options){.arena = arena, .target = &side->target};
  const char *path = arena_printf(arena, "%s/%s", track->folder, kernels[kernel].file);
  LIST_PUSH(arena, &side->options.files, path);
  add_sizes(&side->options, sizes);
  if (bind_kernel(&side->session.binding, arena, &side->options, path, &message) != DONE ||
      side->session.binding.refusal)
    return message ? message : "a kernel of the races is refused";
  BuildFlags flags = {.flags =
                          arena_printf(arena, "%s %s", target_flags(&side->target), build->flags)};
  return session_open(&side->session, &side->options, &flags);
}

static void close_side(Side *side) { session_close(&side->session); }

// ---- timing

enum { PAIRS = 5 };
static const double sample_seconds = 0.03, sample_most = 0.3, patience = 60, clearly = 1.03;

static double time_once(Side *side) {
  ExecuteOptions how = {.mode = "bench",
                        .threads = 1,
                        .min_time = sample_seconds,
                        .max_time = sample_most,
                        .timeout = patience};
  Outcome outcome;
  execute(side->options.arena, side->session.program, &side->session.binding, &side->session.data,
          &how, &outcome);
  return outcome.message ? 0 : outcome_number(side->options.arena, &outcome, "best_ms", 0);
}

// How much faster the second side is. `clear`: all pairs but one say so by 3 %, or all but one the
// contrary.
typedef struct {
  double faster;
  bool clear;
} Verdict;

static Verdict compare_sides(Side *const *sides) {
  double ratio[PAIRS];
  for (int i = 0; i < PAIRS; i++) {
    double ms[2];
    for (int k = 0; k < 2; k++) ms[(i + k) % 2] = time_once(sides[(i + k) % 2]);
    if (!(ms[0] > 0 && ms[1] > 0)) return (Verdict){1, false};
    ratio[i] = ms[0] / ms[1];
  }
  sort_items(ratio, PAIRS, sizeof *ratio, compare_doubles);
  return (Verdict){ratio[PAIRS / 2], ratio[1] >= clearly || ratio[PAIRS - 2] <= 1 / clearly};
}

// A verdict on the second build for each of the sizes. The number of sizes, or -1 with
// track->wrong.
static int compare_builds(RaceTrack *track, RaceKernel kernel, const char *text,
                          const Build *builds, Verdict *verdicts) {
  int count = 0;
  for (size_t length; *text && count < MOST_SIZES; text += length + (text[length] == ';')) {
    length = strcspn(text, ";");
    const char *sizes = arena_strndup(track->arena, text, length);
    Side one, other = {.session.data.fd = -1}, *const sides[] = {&one, &other};
    track->wrong = open_side(&one, track, kernel, sizes, &builds[0]);
    if (!track->wrong) track->wrong = open_side(&other, track, kernel, sizes, &builds[1]);
    if (!track->wrong) verdicts[count++] = compare_sides(sides);
    close_side(&one);
    close_side(&other);
    if (track->wrong) return -1;
  }
  return count;
}

// The same for two values of the race's number.
static int compare_values(RaceTrack *track, const Race *race, const Core *core, int64_t a,
                          int64_t b, Verdict *verdicts) {
  Build builds[] = {{*core, ""}, {*core, ""}};
  set_number(race, &builds[0].core, a);
  set_number(race, &builds[1].core, b);
  return compare_builds(track, race->kernel, race->sizes, builds, verdicts);
}

// ---- verdicts

// The value that is clearly faster than the one in use at some sizes and clearly slower at none, by
// the most.
static int64_t best_value(RaceTrack *track, const Race *race, const Core *core) {
  const int64_t now = get_number(race, core);
  int64_t best = now;
  double most = 1;
  for (int v = 0; v < race->count && !track->wrong; v++) {
    Verdict verdicts[MOST_SIZES];
    double all = 1;
    bool slower = false;
    if (race->values[v] == now) continue;
    int sizes = compare_values(track, race, core, now, race->values[v], verdicts);
    for (int i = 0; i < sizes; i++) {
      all *= verdicts[i].clear ? verdicts[i].faster : 1;
      slower |= verdicts[i].clear && verdicts[i].faster < 1;
    }
    if (slower || all <= most) continue;
    best = race->values[v];
    most = all;
  }
  return best;
}

// Does a limit agree with all clear results? The verdicts are on the form up to the limit.
static bool agrees(const Race *race, int64_t limit, const Verdict *verdicts) {
  for (int i = 0; i < race->count; i++)
    if (verdicts[i].clear && (limit >= race->values[i]) != (verdicts[i].faster > 1)) return false;
  return true;
}

// The limit in use, or else the next one that agrees with the results.
static int64_t best_limit(RaceTrack *track, const Race *race, const Core *core) {
  Verdict verdicts[MOST_SIZES];
  const int64_t now = get_number(race, core), all = race->values[race->count - 1];
  int place = 0, distance = race->count + 1;
  int64_t best = now;
  int count = compare_values(track, race, core, 0, all, verdicts);
  if (count != race->count || agrees(race, now, verdicts)) return now;
  while (place < count && now >= race->values[place]) place++;
  for (int i = 0; i <= count; i++) {
    int64_t limit = i ? race->values[i - 1] : 0;
    if (!agrees(race, limit, verdicts) || abs(i - place) >= distance) continue;
    distance = abs(i - place);
    best = limit;
  }
  return best;
}

// What differs from the table is part of the calibration.
static void note_value(const Race *race, const Core *table, int64_t value, Calibration *c) {
  bool moved = value != get_number(race, table);
  if (race->kind == OF_REGIME) {
    int64_t bit = INT64_C(1) << race->number;
    c->decided = moved ? c->decided | bit : c->decided & ~bit;
    c->regimes = moved && value ? c->regimes | bit : c->regimes & ~bit;
  } else {
    c->known[race->number] = moved;
    c->value[race->number] = moved ? value : 0;
  }
}

const char *race_open(RaceTrack *track, Arena *arena, void (*say)(const char *line)) {
  *track = (RaceTrack){.arena = arena, .folder = temporary_folder(arena, NULL), .say = say};
  if (!track->folder) return arena_printf(arena, "cannot make a folder: %s", strerror(errno));
  for (int i = 0; i < KERNELS; i++) {
    const char *path = arena_printf(arena, "%s/%s", track->folder, kernels[i].file);
    if (!write_file(path, kernels[i].text, strlen(kernels[i].text)))
      return arena_printf(arena, "cannot write %s: %s", path, strerror(errno));
  }
  return NULL;
}

void race_close(RaceTrack *track) {
  if (track->folder) remove_folder(track->arena, track->folder);
}

static const Core *table_core(void) { return target_find(target_find("native")->name)->core; }

const char *race_all(RaceTrack *track, Calibration *calibration) {
  const Core *table = table_core();
  Core core = core_calibrated(table, calibration);
  int count = 0, number = 0;
  for (int i = 0; i < RACES; i++) count += is_race(&races[i]);
  for (int i = 0; i < RACES && !track->wrong; i++) {
    const Race *race = &races[i];
    if (!is_race(race)) continue;
    track->say(arena_printf(track->arena, "race %d of %d: %s", ++number, count, race->name));
    int64_t value =
        race->kind == OF_LIMIT ? best_limit(track, race, &core) : best_value(track, race, &core);
    set_number(race, &core, value);
    note_value(race, table, value, calibration);
  }
  return track->wrong;
}

// ---- edges

static void put_edge(const Race *race, const char *sizes, const Verdict *v, bool inside, Buf *out) {
  buf_printf(out, "  %-12s %-26s %-8s %6.1f %%%s\n", race->name, sizes + strspn(sizes, " "),
             inside ? "applies" : "beyond", 100 * (v->faster - 1), v->clear ? "" : "  not clear");
}

// The regime forced and prevented at some sizes. Is there a clear gain?
static bool time_edge(RaceTrack *track, const Race *race, bool inside, Buf *out) {
  const char *sizes = inside ? race->sizes : race->beyond;
  Build builds[2];
  Verdict verdicts[MOST_SIZES];
  static const char *const forced[] = {"NEVER", "ALWAYS"};
  bool gains = false;
  for (int i = 0; i < 2; i++)
    builds[i] = (Build){*table_core(), arena_printf(track->arena, "-DPK_REGIME_%s=PK_REGIME_%s",
                                                    forced[i], race->name)};
  int count = compare_builds(track, race->kernel, sizes, builds, verdicts);
  for (int i = 0; i < count; i++) {
    size_t length = strcspn(sizes, ";");
    put_edge(race, arena_strndup(track->arena, sizes, length), &verdicts[i], inside, out);
    gains |= verdicts[i].clear && verdicts[i].faster > 1;
    sizes += length + (sizes[length] == ';');
  }
  return gains;
}

const char *race_edges(RaceTrack *track, Buf *out) {
  Buf poor = {0};
  buf_printf(out, "regimes of %s: time without it over time with it\n",
             target_find("native")->name);
  for (int i = 0; i < RACES && !track->wrong; i++) {
    const Race *race = &races[i];
    if (race->kind != OF_REGIME) continue;
    track->say(race->name);
    if (!time_edge(track, race, true, out)) buf_printf(&poor, " %s", race->name);
    if (!track->wrong) time_edge(track, race, false, out);
  }
  buf_printf(out, "no clear gain of 3 %% here:%s\n", poor.length ? poor.text : " none");
  buf_free(&poor);
  return track->wrong;
}

// ---- the machine's numbers

const char *race_measure(RaceTrack *track, Calibration *calibration) {
  Side side;
  Outcome outcome = {0};
  track->say("caches, memory and threads");
  track->wrong = open_side(&side, track, SUM, "M=1 N=1", &(Build){*table_core(), ""});
  if (!track->wrong) {
    ExecuteOptions how = {.mode = "measure", .timeout = 10 * patience};
    execute(track->arena, side.session.program, &side.session.binding, &side.session.data, &how,
            &outcome);
    track->wrong = outcome.message;
  }
  for (int i = 0; i < CALIBRATED_COUNT && !track->wrong; i++) {
    const CalibratedRow *row = &calibrated_rows[i];
    double value = outcome_number(track->arena, &outcome,
                                  arena_printf(track->arena, "measured.%s", row->name), 0);
    if (!row->unit || value < (double)row->low || value > (double)row->high) continue;
    calibration->known[i] = true;
    calibration->value[i] = (int64_t)value;
  }
  close_side(&side);
  return track->wrong;
}
