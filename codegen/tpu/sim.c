// The pipeline of a grid on each core, as a discrete-event simulation in whole picoseconds.
//
// While step s computes, the blocks of step s + buffers - 1 whose index changes are fetched; a
// finished output block is written back and waited for at the end of the next block's first step.
// All transfers of a core share one channel, in the order of issue.
//
// A step is generated (which blocks move, what runs) some steps before it is timed. Along an axis
// where index maps and decisions repeat (grid_periods), the same state at the start of two
// iterations means that all later iterations repeat, so they are counted without being run. This is
// exact, because times are whole numbers.
#include "codegen/tpu/sim.h"

#include <stdlib.h>
#include <string.h>

static const int64_t most_steps = 4000000;  // the limit for steps that are simulated individually

static bool moves_by_pipeline(const Ref *ref) {
  return !ref->prefetch && (ref->space == SPACE_VMEM || ref->space == SPACE_SMEM);
}
// ---- the blocks that a step moves

// Bytes of the elements of a block that are in the array, and of what pads its rows in HBM.
static int64_t block_bytes(const Core *c, const Ref *ref, const int64_t *index) {
  int64_t count = 1;
  for (int i = 0; i < ref->array.rank; i++) {
    int64_t block = extent_of(c, ref->block[i]), length = index[ref->array.rank + i],
            dim = extent_of(c, ref->array.dim[i]), start = index[i];
    if (ref->at == AT_BLOCK && (index[i] < 0 || !mul_i64(index[i], block, &start))) start = dim;
    if (ref->at == AT_SLICE && length < block) block = length > 0 ? length : 0;
    if (start > dim) start = dim;
    int64_t low = start < 0 ? 0 : start, high = start > dim - block ? dim : start + block;
    if (i > 0 && i == ref->array.rank - 1 && high == dim) high = tpu_whole_lanes(c->s->chip, dim);
    count = high > low ? saturating_mul(count, high - low) : 0;
  }
  return tpu_bytes(ref->array.dtype, count);
}

static Entry *push_entry(Core *c) {
  REQUIRE(c->ring_count < c->ring_size);
  Entry *entry = &c->ring[c->ring_count++];
  memset(entry->words, 0, sizeof(int64_t) * (size_t)c->width);
  if (c->axes) memcpy(entry->axes, c->e.axes, sizeof(int64_t) * (size_t)c->axes);
  entry->step = c->generated++;
  return entry;
}

static void tally_move(Core *c, int operand, int64_t bytes) {
  *operand_count(c, operand, bytes < 0 ? COUNT_SKIPPED : COUNT_ISSUED) += 1;
  if (bytes > 0)
    *operand_count(c, operand, COUNT_BYTES) =
        saturating_add(*operand_count(c, operand, COUNT_BYTES), bytes);
}

static void leave_block(Core *c, Entry *entry, int operand, bool leaves) {
  *bytes_of(entry, operand) = leaves ? *would_move(entry, operand) : -1;
  tally_move(c, operand, *bytes_of(entry, operand));
}

// ---- blocks that are fetched although conditions skip all their readers

static int64_t runs_that_read(Core *c, int operand) {
  const Body *body = c->s->body;
  int64_t runs = 0;
  for (int i = 0; i < body->work.count; i++) {
    const Work *w = &body->work.at[i];
    if (w->instr->op == OP_LOAD && w->instr->ref->id == operand)
      runs = saturating_add(runs, segment_counts(c)[w->segment]);
  }
  return runs;
}

static void leave_input(Core *c, int operand) {
  int64_t *unread = operand_count(c, operand, COUNT_UNREAD);
  *unread = saturating_add(*unread, c->unread[operand]);
  c->unread[operand] = 0;
}

static void run_generated(Core *c, Entry *entry) {
  const Kernel *k = c->s->k;
  int64_t *before = c->runs;
  for (int i = 0; i < k->inputs; i++) {
    before[i] = c->unread[i] || *bytes_of(entry, i) > 0 ? runs_that_read(c, i) : 0;
    if (*bytes_of(entry, i) < 0) continue;
    leave_input(c, i);
    c->unread[i] = *bytes_of(entry, i);
  }
  entry->words[0] = body_run(c->s->body, &c->e, segment_counts(c), NULL, NULL);
  for (int i = 0; i < k->inputs; i++)
    if (c->unread[i] && runs_that_read(c, i) > before[i]) c->unread[i] = 0;
}

// Generates the next grid step: the blocks that move.
static void generate(Core *c) {
  const Kernel *k = c->s->k;
  Entry *before = c->ring_count ? &c->ring[c->ring_count - 1] : NULL, *entry = push_entry(c);
  for (int i = 0; i < c->operands; i++) {
    const Ref *ref = k->refs.at[i];
    OperandCount *operand = &c->s->operand[i];
    *bytes_of(entry, i) = -1;
    if (!operand->moved) continue;
    int64_t index[MAX_INDEX], *held = &c->index[i * MAX_INDEX];
    bool known = grid_block_index(&c->e, ref, index),
         same = c->started && known && memcmp(index, held, sizeof index) == 0;
    if (!known) {
      operand->by_data = true;
      memset(index, 0, sizeof index);
    }
    if (!is_input(c, i) && c->started) leave_block(c, before, i, !same);
    memcpy(held, index, sizeof index);
    if (!is_input(c, i)) {
      *would_move(entry, i) = same ? *would_move(before, i) : block_bytes(c, ref, index);
      continue;
    }
    *bytes_of(entry, i) = same ? -1 : block_bytes(c, ref, index);
    tally_move(c, i, *bytes_of(entry, i));
  }
  if (!c->s->body->copies) run_generated(c, entry);
  c->tally[TALLY_STEPS]++;
  c->started = true;
  c->simulated++;
}

// ---- skipping iterations

static int state_words(const Core *c) {
  return 2 + 3 * c->operands + c->ring_size * c->width + c->queues * QUEUE_WORDS;
}

static void capture(Core *c, int64_t *state) {
  memset(state, 0, sizeof *state * (size_t)state_words(c));
  *state++ = c->ring_count == 0 || c->ring[0].step == 0;
  *state++ = relative(c, c->hbm_free);
  for (int i = 0; i < c->operands; i++) *state++ = relative(c, c->written[i]);
  for (int i = 0; i < c->operands; i++) *state++ = c->left[i];
  for (int i = 0; i < c->operands; i++) *state++ = c->unread[i];
  for (int i = 0; i < c->queues * QUEUE_WORDS; i++)
    *state++ = i % QUEUE_WORDS ? relative(c, c->queue[i]) : c->queue[i];
  for (int r = 0; r < c->ring_count; r++, state += c->width) {
    memcpy(state, c->ring[r].words, sizeof *state * (size_t)c->width);
    for (int i = 0; i < c->s->k->inputs; i++) state[1 + 2 * i] = relative(c, state[1 + 2 * i]);
  }
}

// Are the blocks of all operands that move along the axis whole, for all indices within `bounds`?
static bool blocks_are_whole(const Core *c, int axis, const Interval *range, Interval *bounds) {
  for (int i = 0; i < c->operands; i++) {
    const Ref *ref = c->s->k->refs.at[i];
    if (!c->s->operand[i].moved || !ref->index_map || ref->index_map->instrs.count == 0) continue;
    grid_intervals(&c->e, ref->index_map, range, bounds);
    const Instr *yield = ref->index_map->instrs.at[ref->index_map->instrs.count - 1];
    for (int r = 0; r < yield->nargs; r++) {
      if (!c->level[axis].moves[i * MAX_INDEX + r]) continue;
      if (r >= ref->array.rank) return false;
      Interval at = bounds[yield->args[r]->id];
      int64_t block = extent_of(c, ref->block[r]), dim = extent_of(c, ref->array.dim[r]);
      int64_t last = ref->at == AT_BLOCK ? (block > 0 ? dim / block - 1 : -1) : dim - block;
      if (at.low < 0 || at.high > last) return false;
    }
  }
  return true;
}

// Does each decision without a pattern along the axis have the same result, for all indices?
static bool is_decided(const Core *c, int axis, const Interval *range, Interval *bounds) {
  const Level *level = &c->level[axis];
  const Body *body = c->s->body;
  for (int i = 0; i < body->scalars.count && level->irregular.count; i++)
    bounds[body->scalars.at[i]->id] = grid_interval(&c->e, body->scalars.at[i], range, bounds);
  for (int i = 0; i < level->irregular.count; i++)
    if (bounds[level->irregular.at[i]->id].low != bounds[level->irregular.at[i]->id].high)
      return false;
  return true;
}

// Are all iterations of the axis in [from, to] equal, except for their position?
static bool are_alike(const Core *c, int axis, int64_t from, int64_t to) {
  Interval range[MOST_AXES], *bounds = c->bounds;
  for (int i = 0; i < c->axes; i++)
    range[i] =
        i < axis ? (Interval){c->e.axes[i], c->e.axes[i]} : (Interval){c->low[i], c->high[i] - 1};
  range[axis] = (Interval){from, to};
  return blocks_are_whole(c, axis, range, bounds) && is_decided(c, axis, range, bounds);
}

static void recall_index(Core *c, int axis) {
  int64_t saved[MOST_AXES];
  memcpy(saved, c->e.axes, sizeof(int64_t) * (size_t)c->axes);
  c->e.axes[axis]--;
  for (int i = axis + 1; i < c->axes; i++) c->e.axes[i] = c->high[i] - 1;
  for (int i = 0; i < c->operands; i++)
    if (c->s->operand[i].moved)
      grid_block_index(&c->e, c->s->k->refs.at[i], &c->index[i * MAX_INDEX]);
  memcpy(c->e.axes, saved, sizeof(int64_t) * (size_t)c->axes);
}

static void shift_times(Core *c, int64_t by, int64_t steps) {
  c->now += by;
  c->hbm_free += by;
  for (int i = 0; i < c->operands; i++)
    if (c->written[i]) c->written[i] += by;
  for (int i = 0; i < c->queues * QUEUE_WORDS; i++)
    if (i % QUEUE_WORDS && c->queue[i]) c->queue[i] += by;
  for (int r = 0; r < c->ring_count; r++) {
    c->ring[r].step += steps;
    for (int i = 0; i < c->s->k->inputs; i++)
      if (*done_at(&c->ring[r], i)) *done_at(&c->ring[r], i) += by;
  }
}

static void leave_out(Core *c, int axis, const Snapshot *since, int64_t times, int64_t iterations) {
  int64_t span, steps = c->tally[TALLY_STEPS] - since->tally[TALLY_STEPS], start = c->now;
  if (!mul_i64(c->now - since->now, times, &span) || span > INT64_MAX / 4 - c->now) {
    c->overflow = true;
    return;
  }
  for (int64_t i = 0; i < c->tallies; i++)
    c->tally[i] = saturating_add(c->tally[i], saturating_mul(c->tally[i] - since->tally[i], times));
  c->generated += steps * times;
  shift_times(c, span, steps * times);
  if (c->s->log && c->ring_count) log_event(c, 's', 0, &c->ring[0], start, c->now, steps * times);
  c->e.axes[axis] += iterations;
  recall_index(c, axis);
}

// The maximum number of repetitions of `cycle` iterations before the end of the axis.
static int64_t repetitions(const Core *c, int axis, int64_t cycle) {
  int64_t at = c->e.axes[axis], low = 0, high = (c->high[axis] - 1 - at) / cycle;
  if (high > 0 && are_alike(c, axis, at - cycle, at + high * cycle - 1)) return high;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (are_alike(c, axis, at - cycle, at + middle * cycle - 1))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Skips iterations of an axis if its state repeats.
static void try_level(Core *c, int axis, int64_t *state) {
  Level *level = &c->level[axis];
  int64_t at = c->e.axes[axis];
  if (at == c->low[axis]) {  // the moves of this iteration depend on outer axes, and are not a
                             // pattern for the next iterations
    for (int h = 0; h < HISTORY; h++) level->history[h].at = -1;
    return;
  }
  // A body that starts copies runs when it is timed, some steps later; these steps must have this
  // pattern, too.
  if (c->s->body->copies && at - c->low[axis] < level->period + c->ring_size) return;
  if ((at - c->low[axis]) % level->period != 0 || c->high[axis] - at <= level->period) return;
  capture(c, state);
  for (int h = 0; h < HISTORY; h++) {
    Snapshot *seen = &level->history[h];
    if (seen->at < 0 || memcmp(seen->state, state, sizeof *state * (size_t)state_words(c)) != 0)
      continue;
    int64_t cycle = at - seen->at, times = repetitions(c, axis, cycle);
    if (times < 1) return;
    leave_out(c, axis, seen, times, times * cycle);
    for (int i = 0; i < HISTORY; i++) level->history[i].at = -1;
    return;
  }
  Snapshot *mine = &level->history[level->next];
  level->next = (level->next + 1) % HISTORY;
  mine->at = at;
  mine->now = c->now;
  memcpy(mine->state, state, sizeof *state * (size_t)state_words(c));
  memcpy(mine->tally, c->tally, sizeof *c->tally * (size_t)c->tallies);
}

static void try_to_leave_out(Core *c, int64_t *state) {
  int outermost = c->axes - 1;
  while (outermost > 0 && c->e.axes[outermost] == c->low[outermost]) outermost--;
  for (int axis = outermost; axis < c->axes; axis++)
    if (c->level[axis].period > 0) try_level(c, axis, state);
}

// ---- axes along which steps repeat

// The number of steps along an axis after which index maps and decisions repeat; 0 if they do not.
static void find_period(Core *c, int axis, const Interval *bounds, Periodic *periods) {
  const Kernel *k = c->s->k;
  Level *level = &c->level[axis];
  int64_t period = 1;
  for (int i = 0; i < c->operands && period; i++) {
    const Region *map = k->refs.at[i]->index_map;
    if (!c->s->operand[i].moved || !map || map->instrs.count == 0) continue;
    grid_periods(map, axis, bounds, periods);
    const Instr *yield = map->instrs.at[map->instrs.count - 1];
    for (int r = 0; r < yield->nargs && r < MAX_INDEX; r++) {
      Periodic p = periods[yield->args[r]->id];
      period = least_multiple(period, p.period);
      level->moves[i * MAX_INDEX + r] = p.step != 0;
    }
  }
  grid_periods(k->body, axis, bounds, periods);
  for (int i = 0; i < c->s->body->decisions.count && period; i++) {
    const Instr *decision = c->s->body->decisions.at[i];
    Periodic p = periods[decision->id];
    if (p.period > 0 && p.step == 0)
      period = least_multiple(period, p.period);
    else
      LIST_PUSH(c->s->arena, &level->irregular, decision);
  }
  level->period =
      c->s->whole || c->s->mesh || period * 3 > c->high[axis] - c->low[axis] ? 0 : period;
}

// For each axis of the grid: its period, and room for the states that are compared to detect a
// repetition.
static void find_levels(Core *c) {
  const Kernel *k = c->s->k;
  Arena *arena = c->s->arena;
  Interval *bounds = NEW_ARRAY(arena, Interval, k->next_id + 1),
           *all = NEW_ARRAY(arena, Interval, c->axes + 1);
  Periodic *periods = NEW_ARRAY(arena, Periodic, k->next_id + 1);
  c->bounds = NEW_ARRAY(arena, Interval, k->next_id + 1);
  for (int i = 0; i < c->axes; i++) all[i] = (Interval){c->low[i], c->high[i] - 1};
  for (int i = 0; i < c->operands; i++)
    grid_intervals(&c->e, k->refs.at[i]->index_map, all, bounds);
  grid_intervals(&c->e, k->body, all, bounds);
  c->level = NEW_ARRAY(arena, Level, c->axes + 1);
  for (int axis = 0; axis < c->axes; axis++) {
    Level *level = &c->level[axis];
    level->moves = NEW_ARRAY(arena, bool, c->operands *(int)MAX_INDEX + 1);
    find_period(c, axis, bounds, periods);
    for (int h = 0; h < HISTORY && level->period; h++) {
      level->history[h] = (Snapshot){.at = -1};
      level->history[h].state = NEW_ARRAY(arena, int64_t, state_words(c));
      level->history[h].tally = NEW_ARRAY(arena, int64_t, c->tallies);
    }
  }
}

// ---- a core

Core core_new(Simulation *s, int number, int active, const int64_t *extents, const int64_t *low,
              const int64_t *high) {
  const Kernel *k = s->k;
  Core c = {.s = s, .core = number, .axes = k->grid.count, .operands = k->inputs + k->outputs};
  c.e = grid_eval_new(s->arena, k, s->sizes, extents);
  c.low = NEW_ARRAY(s->arena, int64_t, c.axes + 1);
  c.high = NEW_ARRAY(s->arena, int64_t, c.axes + 1);
  for (int i = 0; i < c.axes; i++) c.low[i] = c.e.axes[i] = low[i], c.high[i] = high[i];
  for (int i = 0; i < k->inputs; i++)
    if (k->refs.at[i]->buffers - 1 > c.look) c.look = k->refs.at[i]->buffers - 1;
  c.width = 1 + 2 * c.operands;
  c.ring_size = (c.look > 1 ? c.look : 1) + 2;
  c.ring = NEW_ARRAY(s->arena, Entry, c.ring_size);
  for (int i = 0; i < c.ring_size; i++) {
    c.ring[i].words = NEW_ARRAY(s->arena, int64_t, c.width);
    c.ring[i].axes = NEW_ARRAY(s->arena, int64_t, c.axes + 1);
  }
  c.index = NEW_ARRAY(s->arena, int64_t, c.operands * MAX_INDEX + 1);
  c.written = NEW_ARRAY(s->arena, int64_t, c.operands + 1);
  c.left = NEW_ARRAY(s->arena, bool, c.operands + 1);
  c.unread = NEW_ARRAY(s->arena, int64_t, c.operands + 1);
  c.runs = NEW_ARRAY(s->arena, int64_t, c.operands + 1);
  c.tallies = TALLIES + c.operands * OPERAND_COUNTS + s->body->segments.count;
  c.tally = NEW_ARRAY(s->arena, int64_t, c.tallies);
  c.bytes_per_ps = chip_hbm_sustained(s->chip, active) / active * 1e-12;
  find_queues(&c);
  c.step_ps = ps_of(s->chip->value[CHIP_STEP]);
  c.latency_ps = ps_of(s->chip->value[CHIP_HBM_LATENCY]);
  return c;
}

static bool advance(Core *c) {
  for (int i = c->axes - 1; i >= 0; i--) {
    if (++c->e.axes[i] < c->high[i]) return true;
    c->e.axes[i] = c->low[i];
  }
  return false;
}

static void finish_core(Core *c) {
  Entry *last = &c->ring[c->ring_count - 1];
  for (int i = 0; i < c->s->k->inputs; i++) leave_input(c, i);
  for (int i = c->s->k->inputs; i < c->operands; i++)
    if (c->s->operand[i].moved) leave_block(c, last, i, true);
  while (c->ring_count) time_step(c);
  for (int i = c->s->k->inputs; i < c->operands; i++)
    wait_until(c, c->written[i], TALLY_EPILOGUE, i);
}

void run_core(Core *c) {
  int64_t *state = NEW_ARRAY(c->s->arena, int64_t, state_words(c));
  find_levels(c);
  do {
    if (c->axes && c->started) try_to_leave_out(c, state);
    generate(c);
    if (c->ring_count == c->ring_size) time_step(c);
    if (c->overflow || c->simulated > most_steps) return;
  } while (advance(c));
  finish_core(c);
}

// Adds the counts of one core to the totals, whose times are those of the core that ends last.
void add_core(Simulation *s, Core *c) {
  Totals *t = &s->totals;
  int64_t steps = t->steps + c->tally[TALLY_STEPS], simulated = t->simulated + c->simulated;
  if (c->now >= t->time_ps)
    *t = (Totals){0,
                  0,
                  c->now,
                  c->tally[TALLY_COMPUTE],
                  c->tally[TALLY_OVERHEAD],
                  c->tally[TALLY_WAIT],
                  c->tally[TALLY_PROLOGUE],
                  c->tally[TALLY_EPILOGUE],
                  c->tally[TALLY_HBM],
                  c->tally[TALLY_INNER]};
  s->other_bytes = saturating_add(s->other_bytes, c->tally[TALLY_OTHER]);
  t->steps = steps;
  t->simulated = simulated;
  for (int i = 0; i < c->operands; i++) {
    s->operand[i].issued += *operand_count(c, i, COUNT_ISSUED);
    s->operand[i].skipped += *operand_count(c, i, COUNT_SKIPPED);
    s->operand[i].bytes = saturating_add(s->operand[i].bytes, *operand_count(c, i, COUNT_BYTES));
    s->operand[i].unread = saturating_add(s->operand[i].unread, *operand_count(c, i, COUNT_UNREAD));
    s->operand[i].wait_ps += *operand_count(c, i, COUNT_WAIT);
  }
  for (int i = 0; i < s->body->segments.count; i++)
    s->counts[i] = saturating_add(s->counts[i], segment_counts(c)[i]);
}

// The axis that a megacore splits: the first parallel one that divides evenly, else the longest.
// None for a grid whose extents are known only at run time.
static int find_split(const Kernel *k, const int64_t *extents, int cores) {
  int longest = -1;
  if (ir_grid_is_read(k)) return -1;
  for (int i = 0; i < k->grid.count; i++) {
    if (!k->grid.at[i].parallel || extents[i] < 2) continue;
    if (extents[i] % cores == 0) return i;
    if (longest < 0 || extents[i] > extents[longest]) longest = i;
  }
  return longest;
}

const char *core_problem(const Core *c) {
  if (c->simulated > most_steps)
    return "its steps do not repeat, and there are too many to simulate one by one";
  return c->overflow ? "it would take longer than the model can count (26 days)" : NULL;
}

// Divides the grid among the cores of the chip and simulates each.
static void run_cores(Simulation *s, const int64_t *extents) {
  int count = s->k->grid.count, cores = chip_cores(s->chip);
  int64_t *low = NEW_ARRAY(s->arena, int64_t, count + 1),
          *high = NEW_ARRAY(s->arena, int64_t, count + 1);
  s->split_axis = cores > 1 ? find_split(s->k, extents, cores) : -1;
  s->cores = s->split_axis < 0                ? 1
             : extents[s->split_axis] < cores ? (int)extents[s->split_axis]
                                              : cores;
  for (int n = 0; n < s->cores && !s->problem; n++) {
    memcpy(high, extents, sizeof *high * (size_t)count);
    if (s->split_axis >= 0) {
      int64_t each = extents[s->split_axis] / s->cores, rest = extents[s->split_axis] % s->cores;
      low[s->split_axis] = n * each + (n < rest ? n : rest);
      high[s->split_axis] = low[s->split_axis] + each + (n < rest);
    }
    Core c = core_new(s, n, s->cores, extents, low, high);
    run_core(&c);
    s->problem = core_problem(&c);
    add_core(s, &c);
  }
}

static void find_operands(Simulation *s) {
  const Kernel *k = s->k;
  s->operand = NEW_ARRAY(s->arena, OperandCount, k->inputs + k->outputs + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    const Ref *ref = k->refs.at[i];
    s->operand[i].moved = moves_by_pipeline(ref);
    s->operand[i].once = 1;
    for (int d = 0; d < ref->array.rank; d++) {
      Dim dim = ref->array.dim[d];
      s->operand[i].once = saturating_mul(s->operand[i].once,
                                          dim_is_const(dim) ? dim : s->sizes[dim_size_index(dim)]);
    }
    s->operand[i].once = tpu_bytes(ref->array.dtype, s->operand[i].once);
  }
}

// NULL: there are no steps.
static int64_t *grid_extents(Simulation *s, int64_t *steps) {
  const Kernel *k = s->k;
  int64_t *extents = NEW_ARRAY(s->arena, int64_t, k->grid.count + 1);
  *steps = 1;
  for (int i = 0; i < k->grid.count; i++) {
    extents[i] = eval_index(k, k->grid.at[i].extent, s->sizes, NULL, 0);
    if (extents[i] <= 0 || !mul_i64(*steps, extents[i], steps)) return NULL;
  }
  return extents;
}

int64_t *start_simulation(Simulation *s) {
  int64_t steps, *extents = grid_extents(s, &steps);
  find_operands(s);
  s->counts = NEW_ARRAY(s->arena, int64_t, s->body->segments.count + 1);
  s->totals = (Totals){0};
  s->split_axis = -1;
  s->cores = 1;
  if (!extents) return NULL;
  if (s->k->grid.count > MOST_AXES)
    s->problem = "it has more than 64 axes";
  else if ((s->whole || s->mesh) && steps > most_steps)
    s->problem = arena_printf(
        s->arena, "it has %lld steps, and %s at most %lld%s", (long long)steps,
        s->mesh ? "a device of a mesh simulates" : "--walk-all simulates", (long long)most_steps,
        s->mesh ? "" : "; without it, those that repeat others are counted");
  return s->problem ? NULL : extents;
}

void simulate(Simulation *s) {
  int64_t *extents = start_simulation(s);
  if (extents) run_cores(s, extents);
}
