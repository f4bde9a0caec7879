// The events of one device of a mesh, in order and without times: record.c records them, and
// replay.c computes when they happen on all devices.
#ifndef CODEGEN_TPU_RECORD_H
#define CODEGEN_TPU_RECORD_H

#include "codegen/tpu/sim.h"
#include "codegen/tpu/torus.h"

// A transfer has a ticket, a number by which the device waits for it.
typedef enum {
  EVENT_RUN,       // `amount` ps of kind `tally`; which: the segment of TALLY_COMPUTE
  EVENT_TRANSFER,  // the channel of the HBM moves `amount` bytes of operand `which` (in: !out)
  EVENT_VMEM,      // within VMEM, in `amount` ps
  EVENT_DONE,      // waits for ticket `amount`
  EVENT_GIVE,      // adds `amount` to a semaphore, when the latest ticket is done
  EVENT_SEND,      // a copy of `bytes` to device `other`; `amount` to both semaphores
  EVENT_SIGNAL,    // adds `amount` to a semaphore of device `other`
  EVENT_TAKE       // waits for `amount` of a semaphore
} EventKind;

typedef struct {
  uint8_t kind, tally;
  bool out;
  int which, other, element, receive, step;
  int64_t amount, bytes, times;
  const Instr *instr;
} Event;

struct Recording {
  const int *place_of;  // by ref id: the number of a semaphore's first element; the last entry is
                        // the total
  int64_t most, tickets;
  Event *events;
  int64_t count, capacity;
  bool overflow, by_data;  // by_data: a device or an element depends on data
};

// The numbers of semaphores' elements, by ref id, in the arena.
int *number_semaphores(Arena *arena, const Kernel *k, const int64_t *sizes);

int64_t record_transfer(Core *c, char kind, int operand, const Entry *entry, int64_t bytes);
int64_t record_vmem(Core *c, const Entry *entry, int64_t ps);
void record_wait(Core *c, int64_t ticket, int tally, int operand);
void record_run(Core *c, int tally, int segment, int64_t step, int64_t ps, int64_t times);
// Records a wait, a signal or a copy to a device; for a copy within a device, its effect on the
// semaphore. bytes: those that move; counted: the amount for the semaphore.
void record_give(Core *c, const GridEval *e, const Instr *instr, const Entry *entry, int64_t bytes,
                 int64_t counted);

#endif
