// Records the run of a device as a list of events. Control flow depends on the grid and on the
// device, but not on time, so each device is walked once.
#include "codegen/tpu/record.h"

#include <stdlib.h>
#include <string.h>

int *number_semaphores(Arena *arena, const Kernel *k, const int64_t *sizes) {
  enum { MOST_ELEMENTS = 1 << 16 };
  int *place = NEW_ARRAY(arena, int, k->refs.count + 1), next = 0;
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    int64_t count = ref->space == SPACE_SEM ? 1 : 0;
    for (int d = 0; d < ref->type.rank; d++) {
      Dim dim = ref->type.dim[d];
      count = saturating_mul(count, dim_is_const(dim) ? dim : sizes[dim_size_index(dim)]);
    }
    place[i] = next;
    next += (int)(count < MOST_ELEMENTS ? count : MOST_ELEMENTS);
  }
  place[k->refs.count] = next;
  return place;
}

static void push(Core *c, Event event) {
  Recording *r = c->record;
  if (r->count >= r->most) {
    r->overflow = c->overflow = true;
    return;
  }
  if (r->count == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 64;
    r->events = realloc(r->events, sizeof(Event) * (size_t)r->capacity);
    if (!r->events) INTERNAL("no memory for %lld events of a device", (long long)r->capacity);
  }
  r->events[r->count++] = event;
}

int64_t record_transfer(Core *c, char kind, int operand, const Entry *entry, int64_t bytes) {
  push(c, (Event){.kind = EVENT_TRANSFER,
                  .out = kind == 'w',
                  .which = operand,
                  .step = (int)entry->step,
                  .amount = bytes > 0 ? bytes : 0});
  return ++c->record->tickets;
}

int64_t record_vmem(Core *c, const Entry *entry, int64_t ps) {
  push(c, (Event){.kind = EVENT_VMEM, .step = (int)entry->step, .amount = ps});
  return ++c->record->tickets;
}

void record_wait(Core *c, int64_t ticket, int tally, int operand) {
  if (ticket > 0)
    push(c,
         (Event){.kind = EVENT_DONE, .tally = (uint8_t)tally, .which = operand, .amount = ticket});
}

void record_run(Core *c, int tally, int segment, int64_t step, int64_t ps, int64_t times) {
  if (ps > 0)
    push(c, (Event){.kind = EVENT_RUN,
                    .tally = (uint8_t)tally,
                    .which = segment,
                    .step = (int)step,
                    .amount = ps,
                    .times = times});
}

// ---- semaphores

static int64_t value_of(Recording *r, const GridEval *e, const Instr *v, int64_t unknown) {
  if (v->op == OP_CONST) return v->ival;
  if (e->known[v->id]) return e->value[v->id];
  r->by_data = true;
  return unknown;
}

static int element_of(Core *c, const GridEval *e, const Ref *ref, Instr *const *index) {
  Recording *r = c->record;
  int first = r->place_of[ref->id], count = r->place_of[ref->id + 1] - first;
  int64_t at = 0;
  for (int d = 0; d < ref->type.rank; d++)
    at = at * extent_of(c, ref->type.dim[d]) + value_of(r, e, index[d], 0);
  return first + (int)(count > 0 && at > 0 ? at % count : 0);
}

static int device_of(Core *c, const GridEval *e, const Instr *instr) {
  const Kernel *k = c->s->k;
  Instr *const *index = ir_device_index(instr);
  int64_t device = 0;
  for (int i = 0; i < k->mesh.count; i++) {
    int64_t at = value_of(c->record, e, index[i], e->device[i]), extent = k->mesh.at[i].extent;
    device = device * extent + (at < 0 ? 0 : at >= extent ? extent - 1 : at);
  }
  return (int)device;
}

// The amount of a copy: its bytes, or 1 on a semaphore that does not count bytes.
static int64_t worth(const Ref *semaphore, int64_t bytes) {
  return semaphore->semaphore == SEM_DMA ? bytes : 1;
}

// Records a copy or signal that adds to a semaphore.
void record_give(Core *c, const GridEval *e, const Instr *instr, const Entry *entry, int64_t bytes,
                 int64_t counted) {
  Event event = {.instr = instr, .step = (int)entry->step, .bytes = bytes};
  event.element = element_of(c, e, instr->semaphore, ir_semaphore_index(instr));
  event.amount = worth(instr->semaphore, counted);
  event.other = c->device;
  switch (instr->op) {
    case OP_COPY_START:
      event.kind = EVENT_GIVE;
      event.bytes = c->record->tickets;
      break;
    case OP_REMOTE_START:
      event.kind = EVENT_SEND;
      event.other = device_of(c, e, instr);
      event.receive = element_of(c, e, instr->receive, ir_receive_index(instr));
      break;
    case OP_SEM_SIGNAL:
    case OP_REMOTE_SIGNAL:
      event.kind = EVENT_SIGNAL;
      event.amount = value_of(c->record, e, ir_amount(instr), 1);
      if (instr->op == OP_REMOTE_SIGNAL) event.other = device_of(c, e, instr);
      break;
    default:
      event.kind = EVENT_TAKE;
      if (instr->op == OP_SEM_WAIT)
        event.amount = value_of(c->record, e, ir_amount(instr), 1);
  }
  push(c, event);
}
