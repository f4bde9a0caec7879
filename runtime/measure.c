/* What `pkc calibrate` measures of a machine besides the races: caches, rates, loads from random
 * places, and what threads cost. Compiled into the harness; not part of the library. */
#define _DEFAULT_SOURCE
#include "cpu.h"
#include "platform.h"
#include "runtime.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void print_number(const char *name, double value) {
  if (value >= 1 && value < 1e15) (void)printf("measured.%s=%.0f\n", name, value);
}

/* ---- Loads. */

enum { LINE = 64, PER_LINE = LINE / sizeof(uint32_t) };
static const int64_t smallest = 8 << 10, largest = 128 << 20;
static volatile uint32_t sink;

static uint64_t random_state;
static uint32_t random_below(uint32_t n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((random_state >> 32) * n >> 32);
}

/* A cycle through the first `lines` lines: each holds the place of the next (Sattolo). */
static void link_lines(uint32_t *memory, uint32_t lines) {
  random_state = 1;
  for (uint32_t i = 0; i < lines; ++i) memory[i * PER_LINE] = i * PER_LINE;
  for (uint32_t i = lines - 1; i > 0; --i) {
    const uint32_t other = random_below(i);
    const uint32_t kept = memory[i * PER_LINE];
    memory[i * PER_LINE] = memory[other * PER_LINE];
    memory[other * PER_LINE] = kept;
  }
}

/* Nanoseconds of a load from `bytes` bytes whose address is the result of the previous load. */
static double measure_latency(uint32_t *memory, int64_t bytes) {
  enum { hops = 1 << 16, rounds = 6 };
  uint32_t at = 0;
  double best = 1e30;
  link_lines(memory, (uint32_t)(bytes / LINE));
  for (int64_t i = 0; i < bytes / LINE && i < 1 << 20; ++i) at = memory[at];
  for (int round = 0; round < rounds; ++round) {
    const int64_t start = pk_trace_now();
    for (int i = 0; i < hops; ++i) at = memory[at];
    const double taken = (double)(pk_trace_now() - start);
    if (taken < best) best = taken;
  }
  sink = at;
  return best / (double)hops;
}

/* A cache ends where loads take longer than it was at its start by more than a third; the next one
 * begins where twice the bytes no longer change the time by as much. */
static void measure_caches(uint32_t *memory, int64_t *found) {
  enum { LEVELS = 3 };
  double level = 0, before = 0;
  int count = 0;
  bool inside = false;
  for (int64_t bytes = smallest; bytes <= largest && count < LEVELS; bytes *= 2) {
    const double now = measure_latency(memory, bytes);
    if (!inside && (before == 0 || now < 1.34 * before)) {
      inside = true;
      level = before == 0 ? now : before;
    }
    if (inside && now >= 1.34 * level) {
      found[count++] = bytes / 2;
      inside = false;
    }
    before = now;
  }
}

/* Nanoseconds of a load from a random place among `bytes`; the places do not depend on each other.
 */
static double measure_gather(const uint32_t *memory, int64_t bytes) {
  enum { loads = 1 << 16, rounds = 10 };
  uint32_t *place = malloc(sizeof *place * loads), sum = 0;
  double best = 1e30;
  if (!place) return 0;
  for (int i = 0; i < loads; ++i) place[i] = random_below((uint32_t)(bytes / 4));
  for (int round = 0; round < rounds; ++round) {
    const int64_t start = pk_trace_now();
    for (int i = 0; i < loads; ++i) sum += memory[place[i]];
    const double taken = (double)(pk_trace_now() - start);
    if (taken < best) best = taken;
    sink = sum;
  }
  free(place);
  return best / (double)loads;
}

static void measure_loads(void) {
  static const char *const names[] = {"l1_bytes", "l2_bytes", "l3_bytes"};
  int64_t found[3] = {0};
  uint32_t *memory = pk_allocate_aligned((size_t)largest, PK_HUGE_PAGE);
  if (!memory) return;
  for (int64_t i = 0; i < largest / 4; ++i) memory[i] = (uint32_t)i;
  print_number("gather_far_ps", 1e3 * measure_gather(memory, largest));
  print_number("gather_ps", 1e3 * measure_gather(memory, smallest));
  measure_caches(memory, found);
  for (int i = 0; i < 3; ++i) print_number(names[i], (double)found[i]);
  for (int i = 1; i < 3; ++i)
    if (found[i])
      print_number(i == 1 ? "l2_rate" : "l3_rate",
                   1e3 * pk_measure_gbytes((double)found[i] / 2, 1));
  pk_free_aligned(memory);
}

/* ---- Threads. */

static int cells_now;
static int64_t cell_ns;

static const char *plan_cells(int64_t *size, pk_plan *plan) {
  (void)size;
  plan->cells = plan->steps = cells_now;
  plan->work = 1e12; /* as many threads as there are */
  return NULL;
}

static void wait_cell(const pk_call *call, pk_worker *worker, int64_t cell) {
  const int64_t end = cell_ns ? pk_trace_now() + cell_ns : 0;
  (void)call, (void)worker, (void)cell;
  while (pk_trace_now() < end) {}
}

static const pk_kernel waiting = {.abi = PK_ABI,
                                  .name = "waiting",
                                  .signature = "waiting() -> ()",
                                  .statics = "",
                                  .prepare = plan_cells,
                                  .cell = wait_cell};

/* Nanoseconds of a call after a pause, during which the other threads fall asleep, or at once. */
static double time_call(pk_context *context, bool pause) {
  static const struct timespec a_while = {0, 1500000};
  if (pause) (void)nanosleep(&a_while, NULL);
  const int64_t start = pk_trace_now();
  (void)pk_call_kernel(context, &waiting, NULL);
  return (double)(pk_trace_now() - start);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double pk_median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  const int middle = count / 2;
  return count % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

enum { SAMPLES = 31, ROUNDS = 7 };

/* Medians of calls by the two contexts, which alternate. */
static void compare_calls(pk_context *const *contexts, bool pause, double *median) {
  double times[2][SAMPLES];
  for (int i = 0; i < SAMPLES; ++i)
    for (int k = 0; k < 2; ++k) times[k][i] = time_call(contexts[k], pause);
  for (int k = 0; k < 2; ++k) median[k] = pk_median(times[k], SAMPLES);
}

/* The work, in nanoseconds for each of two threads, from which two threads finish a call sooner
 * although one of them sleeps when the call begins: the time by which its waking delays the call.
 * Each call has cells of 1.5 ms, longer than a wake-up takes. */
static double measure_worth(pk_context *const *contexts) {
  double delays[ROUNDS], median[2];
  cells_now = 2;
  cell_ns = 1500000;
  for (int round = 0; round < ROUNDS; ++round) {
    compare_calls(contexts, true, median);
    delays[round] = median[1] - median[0] / 2;
  }
  const double delay = pk_median(delays, ROUNDS);
  return delay > 1000 ? delay : 1000;
}

/* By how much a thread that is awake lengthens a call of no work. */
static double measure_thread(pk_context *const *contexts, int threads) {
  double median[2], best = 1e30;
  cell_ns = 0;
  cells_now = threads;
  for (int round = 0; round < 20; ++round) {
    compare_calls(contexts, false, median);
    if (median[1] - median[0] < best) best = median[1] - median[0];
  }
  return best > threads ? best / (threads - 1) : 1;
}

static void measure_threads(int processors) {
  pk_context *contexts[2] = {pk_context_new(), pk_context_new()};
  if (contexts[0] && contexts[1] && processors > 1) {
    pk_context_set_threads(contexts[0], 1);
    pk_context_set_threads(contexts[1], 2);
    print_number("worth_ns", measure_worth(contexts));
    pk_context_set_threads(contexts[1], processors);
    print_number("thread_ns", measure_thread(contexts, processors));
  }
  pk_context_free(contexts[0]);
  pk_context_free(contexts[1]);
}

void pk_measure_machine(void) {
  const double far = 192 << 20;
  const int all = pk_processors(), processors = all < PK_MAX_THREADS ? all : PK_MAX_THREADS;
  print_number("processors", processors);
  measure_threads(processors);
  measure_loads();
  print_number("memory_rate", 1e3 * pk_measure_gbytes(far, 1));
  print_number("memory_rate_all", 1e3 * pk_measure_gbytes(far, processors));
  print_number("through_rate", 1e3 * pk_measure_copies(far, false));
  print_number("past_rate", 1e3 * pk_measure_copies(far, true));
}
