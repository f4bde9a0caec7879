// Computes the times of grid steps on a core: transfers, waits, the body and the copies that it
// starts.
#include "codegen/tpu/record.h"

#include <stdlib.h>
#include <string.h>

void log_event(Core *c, char kind, int which, const Entry *entry, int64_t start, int64_t end,
               int64_t bytes) {
  TraceLog *log = c->s->log;
  if (!log) return;
  if (log->events.count >= log->most_events) {
    log->dropped++;
    return;
  }
  TraceEvent event = {kind, c->core, which, entry->step, start, end, {0}, bytes};
  if (kind == 'f' || kind == 'w') {
    GridEval e = c->e;
    e.axes = entry->axes;
    grid_block_index(&e, c->s->k->refs.at[which], event.index);
  }
  LIST_PUSH(log->arena, &log->events, event);
}

// Returns when the transfer is done.
static int64_t transfer(Core *c, char kind, int operand, const Entry *entry, int64_t bytes) {
  if (c->record) return record_transfer(c, kind, operand, entry, bytes);
  int64_t start = c->hbm_free > c->now ? c->hbm_free : c->now;
  int64_t busy = bytes > 0 ? ps_of((double)bytes / c->bytes_per_ps * 1e-12) : 0;
  c->hbm_free = start + busy;
  c->tally[TALLY_HBM] += busy;
  log_event(c, kind, operand, entry, start, start + busy, bytes);
  return bytes > 0 ? c->hbm_free + c->latency_ps : c->now;
}

static void fetch_for(Core *c, int at, int operand) {
  if (at >= c->ring_count) return;
  Entry *entry = &c->ring[at];
  if (*bytes_of(entry, operand) >= 0)
    *done_at(entry, operand) = transfer(c, 'f', operand, entry, *bytes_of(entry, operand));
}

static void start_fetches(Core *c, bool first) {
  for (int ahead = first ? 0 : c->look; ahead <= c->look; ahead++)
    for (int i = 0; i < c->s->k->inputs; i++) {
      int look = c->s->k->refs.at[i]->buffers - 1;
      if (first ? ahead <= look : ahead == c->look) fetch_for(c, first ? ahead : look, i);
    }
}

void wait_until(Core *c, int64_t time, int tally, int operand) {
  if (c->record) return record_wait(c, time, tally, operand);
  if (time <= c->now) return;
  c->tally[tally] += time - c->now;
  if (tally == TALLY_WAIT && operand >= 0) *operand_count(c, operand, COUNT_WAIT) += time - c->now;
  c->now = time;
}

// ---- the body

// A body that starts copies runs at this point. For any other body the time is already known, and
// it is run again only for the log.
typedef struct {
  Core *c;
  const Entry *entry;
  int64_t at;
} BodyTime;

static void log_segment(void *context, int segment, int64_t times, int64_t ps) {
  BodyTime *b = context;
  int64_t end = saturating_add(b->at, ps);
  log_event(b->c, 'c', segment, b->entry, b->at, end, times);
  b->at = end;
}

static void log_body(Core *c, const Entry *entry) {
  TraceLog *log = c->s->log;
  if (!log || log->events.count >= log->most_events) return;
  GridEval e = c->e;
  e.axes = entry->axes;
  int64_t *counts = calloc((size_t)c->s->body->segments.count + 1, sizeof *counts);
  if (!counts) INTERNAL("no memory for %d segments", c->s->body->segments.count);
  BodyTime b = {c, entry, c->now};
  body_run(c->s->body, &e, counts, &(BodyVisitor){.segment = log_segment}, &b);
  free(counts);
}

static void add_compute(Core *c, int64_t ps) {
  c->tally[TALLY_COMPUTE] = saturating_add(c->tally[TALLY_COMPUTE], ps);
  if (!add_i64(c->now, ps, &c->now) || c->now > INT64_MAX / 4) c->overflow = true, c->now = 0;
}

// ---- explicit copies

void find_queues(Core *c) {
  enum { MOST_ELEMENTS = 64 };
  const Kernel *k = c->s->k;
  c->queue_of = NEW_ARRAY(c->s->arena, int, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    int64_t count = ref->space == SPACE_SEM ? 1 : 0;
    for (int d = 0; d < ref->type.rank; d++)
      count = saturating_mul(count, extent_of(c, ref->type.dim[d]));
    c->queue_of[i] = c->queues;
    c->queues += (int)(count < MOST_ELEMENTS ? count : MOST_ELEMENTS);
  }
  c->queue_of[k->refs.count] = c->queues;
  c->queue = NEW_ARRAY(c->s->arena, int64_t, c->queues * QUEUE_WORDS + 1);
}

// Elements of semaphores beyond the number of queues share a queue.
static int64_t *queue_for(Core *c, const GridEval *e, const Instr *copy) {
  const Ref *ref = copy->semaphore;
  int first = c->queue_of[ref->id], count = c->queue_of[ref->id + 1] - first;
  int64_t at = 0;
  for (int d = 0; d < ref->type.rank; d++) {
    const Instr *index = ir_semaphore_index(copy)[d];
    at = at * extent_of(c, ref->type.dim[d]) + (e->known[index->id] ? e->value[index->id] : 0);
  }
  if (count == 0) return NULL;
  return &c->queue[(first + (int)(at < 0 ? 0 : at % count)) * QUEUE_WORDS];
}

// The elements that a copy moves at one end; cut: without elements past the end of an array.
// Semaphores count the whole window.
static int64_t copy_bytes(const Core *c, const GridEval *e, const Instr *copy, bool target,
                          bool cut) {
  const Type *seen =
      target ? ir_seen(copy->target, copy->target_chain) : ir_seen(copy->ref, copy->chain);
  const Window *w = target ? &copy->target_window : &copy->window;
  int64_t count = 1;
  for (int d = 0; d < seen->rank; d++) {
    const Instr *start = ir_starts(copy, target)[d];
    const Instr *length = ir_length(copy, w, d);
    int64_t dim = extent_of(c, seen->dim[d]), size = extent_of(c, w->size[d]);
    if (length) size = e->known[length->id] ? e->value[length->id] : dim;
    if (cut && copy->flags & INSTR_EDGE && e->known[start->id] && w->stride[d] == 1) {
      int64_t low = e->value[start->id] < 0 ? 0 : e->value[start->id], high = e->value[start->id];
      size = !add_i64(high, size, &high) || high > dim ? dim - low : high - low;
    }
    count = size > 0 ? saturating_mul(count, size) : 0;
  }
  return tpu_bytes(seen->dtype, count);
}

static void tally_copy(Core *c, const Ref *ref, int64_t bytes) {
  if (ref->id >= c->operands) {
    c->tally[TALLY_OTHER] = saturating_add(c->tally[TALLY_OTHER], bytes);
    return;
  }
  *operand_count(c, ref->id, COUNT_ISSUED) += 1;
  *operand_count(c, ref->id, COUNT_BYTES) =
      saturating_add(*operand_count(c, ref->id, COUNT_BYTES), bytes);
}

// Includes the padding of rows in HBM if the window extends to their end.
static int64_t hbm_bytes(const Core *c, const GridEval *e, const Instr *copy, bool target) {
  const Ref *ref = target ? copy->target : copy->ref;
  const Window *w = target ? &copy->target_window : &copy->window;
  int last = ref->array.rank - 1;
  int64_t bytes = copy_bytes(c, e, copy, target, true);
  if (last < 1 || (target ? copy->target_chain : copy->chain) || w->stride[last] != 1 ||
      ir_length(copy, w, last))
    return bytes;
  const Instr *start = ir_starts(copy, target)[last];
  int64_t dim = extent_of(c, ref->array.dim[last]), size = extent_of(c, w->size[last]);
  int64_t low = size == dim ? 0 : e->known[start->id] ? e->value[start->id] : 0;
  if (dim <= low || low < 0 || size < dim - low) return bytes;
  return bytes / (dim - low) * (tpu_whole_lanes(c->s->chip, dim) - low);
}

static int64_t start_copy(BodyTime *b, const GridEval *e, const Instr *copy) {
  Core *c = b->c;
  bool reads = copy->ref->space == SPACE_ANY, writes = copy->target->space == SPACE_ANY;
  int64_t bytes =
              reads || writes ? hbm_bytes(c, e, copy, !reads) : copy_bytes(c, e, copy, false, true),
          done = c->now;
  if (reads) {
    tally_copy(c, copy->ref, bytes);
    done = transfer(c, 'f', copy->ref->id, b->entry, bytes);
  }
  if (writes) {
    tally_copy(c, copy->target, bytes);
    done = transfer(c, 'w', copy->target->id, b->entry, bytes);
  }
  if (reads || writes) return done;
  int64_t ps = ps_of((double)bytes / chip_vmem_bandwidth(c->s->chip));
  return c->record ? record_vmem(c, b->entry, ps) : done + ps;
}

// A wait for n signals takes n copies; one if n is unknown.
static int64_t awaited_copies(const GridEval *e, const Instr *wait) {
  const Instr *amount = wait->op == OP_SEM_WAIT ? wait->args[wait->nargs - 1] : NULL;
  if (amount && amount->op == OP_CONST) return amount->ival;
  return amount && e->known[amount->id] ? e->value[amount->id] : 1;
}

static void record_copy(BodyTime *b, const GridEval *e, const Instr *instr) {
  Core *c = b->c;
  if (instr->op == OP_COPY_START) start_copy(b, e, instr);
  if (op_info[instr->op].attribute != ATTR_COPY) return record_give(c, e, instr, b->entry, 0, 0);
  bool target = instr->ref->space != SPACE_ANY;
  record_give(c, e, instr, b->entry, copy_bytes(c, e, instr, target, true),
              copy_bytes(c, e, instr, true, false));
}

static void run_copy(void *context, const GridEval *e, const Instr *copy) {
  BodyTime *b = context;
  if (b->c->record) return record_copy(b, e, copy);
  int64_t *queue = queue_for(b->c, e, copy);
  if (!queue) return;
  if (copy->op == OP_COPY_START) {
    int64_t done = start_copy(b, e, copy);
    if (queue[0] < QUEUE_WORDS - 1) queue[0]++;
    queue[queue[0]] = done;
    return;
  }
  const Ref *ref = copy->op != OP_COPY_WAIT        ? NULL
                   : copy->ref->space == SPACE_ANY ? copy->ref
                                                   : copy->target;
  for (int64_t i = awaited_copies(e, copy); i > 0 && queue[0] > 0; i--) {
    wait_until(b->c, queue[1], TALLY_WAIT, ref && ref->id < b->c->operands ? ref->id : -1);
    memmove(queue + 1, queue + 2, sizeof *queue * (QUEUE_WORDS - 2));
    queue[queue[0]--] = 0;
  }
}

static void run_segment(void *context, int segment, int64_t times, int64_t ps) {
  BodyTime *b = context;
  if (b->c->record) return record_run(b->c, TALLY_COMPUTE, segment, b->entry->step, ps, times);
  b->at = b->c->now;
  add_compute(b->c, ps);
  log_event(b->c, 'c', segment, b->entry, b->at, b->c->now, times);
}

static void run_iteration(void *context) {
  const BodyTime *b = context;
  Core *c = b->c;
  if (c->record) return record_run(c, TALLY_INNER, -1, b->entry->step, c->step_ps, 1);
  c->tally[TALLY_INNER] += c->step_ps;
  c->now += c->step_ps;
}

static void run_body(Core *c, const Entry *entry) {
  GridEval e = c->e;
  e.axes = entry->axes;
  BodyTime b = {c, entry, c->now};
  body_run(c->s->body, &e, segment_counts(c), &(BodyVisitor){run_segment, run_copy, run_iteration},
           &b);
}

// ---- a step

// An output block with `revisit any` is fetched again after its write-back is complete.
static void restore_blocks(Core *c, Entry *entry) {
  for (int i = c->s->k->inputs; i < c->operands; i++) {
    const Ref *ref = c->s->k->refs.at[i];
    if (!ref->revisit || !c->s->operand[i].moved || !(entry->step == 0 || c->left[i])) continue;
    wait_until(c, c->written[i], TALLY_WAIT, i);
    tally_copy(c, ref, *would_move(entry, i));
    wait_until(c, transfer(c, 'f', i, entry, *would_move(entry, i)), TALLY_WAIT, i);
  }
}

static void run_overhead(Core *c, const Entry *entry) {
  if (c->record) return record_run(c, TALLY_OVERHEAD, -1, entry->step, c->step_ps, 1);
  log_event(c, 'o', 0, entry, c->now, c->now + c->step_ps, 0);
  c->tally[TALLY_OVERHEAD] += c->step_ps;
  c->now += c->step_ps;
}

void time_step(Core *c) {
  Entry *entry = &c->ring[0];
  bool first = entry->step == 0;
  start_fetches(c, first);
  for (int i = 0; i < c->s->k->inputs; i++)
    wait_until(c, *done_at(entry, i), first ? TALLY_PROLOGUE : TALLY_WAIT, i);
  restore_blocks(c, entry);
  run_overhead(c, entry);
  if (c->s->body->copies)
    run_body(c, entry);
  else
    log_body(c, entry);
  add_compute(c, entry->words[0]);
  for (int i = c->s->k->inputs; i < c->operands; i++) {
    int64_t before = c->written[i];
    c->written[i] = *bytes_of(entry, i) >= 0 ? transfer(c, 'w', i, entry, *bytes_of(entry, i)) : 0;
    wait_until(c, before, TALLY_WAIT, i);
    c->left[i] = *bytes_of(entry, i) >= 0;
  }
  Entry used = c->ring[0];
  memmove(c->ring, c->ring + 1, sizeof *c->ring * (size_t)(c->ring_count - 1));
  c->ring[--c->ring_count] = used;
}
