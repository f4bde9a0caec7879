// Shared by the two halves of the pipeline's simulation: sim.c generates the steps, timeline.c
// computes their times.
#ifndef CODEGEN_TPU_SIM_H
#define CODEGEN_TPU_SIM_H

#include "codegen/tpu/internal.h"

// Quantities that only grow: these (OTHER: bytes of copies that belong to no operand), then those
// of each operand, then the runs of each segment.
enum {
  TALLY_STEPS,
  TALLY_COMPUTE,
  TALLY_OVERHEAD,
  TALLY_WAIT,
  TALLY_PROLOGUE,
  TALLY_EPILOGUE,
  TALLY_HBM,
  TALLY_INNER,
  TALLY_OTHER,
  TALLIES
};
enum { COUNT_ISSUED, COUNT_SKIPPED, COUNT_BYTES, COUNT_WAIT, COUNT_UNREAD, OPERAND_COUNTS };

typedef struct {
  int64_t at, now, *state, *tally;  // at: of the axis; -1: empty
} Snapshot;

enum { HISTORY = 4, MOST_AXES = 64 };

// An axis along which iterations may be skipped.
typedef struct {
  int64_t period;  // 0: none
  bool *moves;     // by operand * MAX_INDEX + component: its index changes with the axis
  // decisions without a pattern along the axis: alike only if they are constant
  LIST(const Instr *) irregular;
  Snapshot history[HISTORY];
  int next;
} Level;

// A step between generation and timing, as int64_t so that states can be compared: the compute
// time, then for each operand the time at which its transfer is done (inputs) or the bytes of its
// block (outputs), and the bytes that it moves, -1 for none.
typedef struct {
  int64_t *words, *axes, step;
} Entry;

typedef struct Recording Recording;

typedef struct {
  Simulation *s;
  Recording *record;  // for a device of a mesh: events are recorded instead of timed
  int device;
  GridEval e;
  Level *level;
  Interval *bounds;  // room for the bounds of every instruction
  int axes, operands, look, kept, width, core;
  int64_t *low, *high, *index, *tally, tallies;
  bool started, overflow;
  Entry *ring;
  int ring_count, ring_size;
  int64_t *unread;  // inputs: bytes of the current block, if no step has read it yet
  int64_t *runs;    // room for a count per input
  bool *left;       // outputs: the previous step was the last of its block
  int64_t now, hbm_free, *written, generated, simulated, step_ps, latency_ps;
  int64_t *queue;  // for each element of each semaphore: how many copies it waits for, and when
                   // these are done
  int *queue_of;   // by ref id: its first queue
  int queues;
  double bytes_per_ps;
} Core;

static inline bool is_input(const Core *c, int operand) { return operand < c->s->k->inputs; }
static inline int64_t *operand_count(Core *c, int operand, int what) {
  return &c->tally[TALLIES + operand * OPERAND_COUNTS + what];
}
static inline int64_t *segment_counts(Core *c) {
  return &c->tally[TALLIES + c->operands * OPERAND_COUNTS];
}
static inline int64_t *done_at(Entry *entry, int operand) { return &entry->words[1 + 2 * operand]; }
static inline int64_t *would_move(Entry *entry, int operand) {
  return &entry->words[1 + 2 * operand];
}
static inline int64_t *bytes_of(Entry *entry, int operand) {
  return &entry->words[2 + 2 * operand];
}
static inline int64_t extent_of(const Core *c, Dim dim) {
  return dim_is_const(dim) ? dim : c->s->sizes[dim_size_index(dim)];
}

enum { QUEUE_WORDS = 9 };  // for a semaphore's element: a count and the times of the oldest copies

// ---- sim.c
// The extents of the grid; NULL: there are no steps, or s->problem is set.
int64_t *start_simulation(Simulation *s);
Core core_new(Simulation *s, int number, int active, const int64_t *extents, const int64_t *low,
              const int64_t *high);
void run_core(Core *c);
void add_core(Simulation *s, Core *c);
const char *core_problem(const Core *c);

// ---- timeline.c
void time_step(Core *c);  // the oldest step of the ring
void wait_until(Core *c, int64_t time, int tally, int operand);
void log_event(Core *c, char kind, int which, const Entry *entry, int64_t start, int64_t end,
               int64_t bytes);
void find_queues(Core *c);  // room for the copies that semaphores wait for
static inline int64_t relative(const Core *c, int64_t time) {
  return time > c->now ? time - c->now : 0;
}

#endif
