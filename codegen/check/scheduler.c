// Which device of a mesh runs next: the interpreter runs one at a time, in an order that it
// chooses.
#include "codegen/check/mesh.h"

// ---- which devices can run

static bool can_run(Mesh *m, int device) {
  Device *d = &m->devices[device];
  if (d->state != DEVICE_WAITS) return d->state == DEVICE_READY;
  const Wait *w = &d->in.wait;
  const Ref *semaphore = w->instr->semaphore;
  if (d->in.refs[semaphore->id].block.i[w->element] >= w->amount) return true;
  return pick_flight(&d->in, device, semaphore, w->element) != NULL;
}

// The devices that can run: the current one first, then those after it.
static int ready_devices(Mesh *m, int current, int *ready) {
  int count = 0;
  for (int i = 0; i < m->count; i++) {
    int device = (current + i) % m->count;
    if (can_run(m, device)) ready[count++] = device;
  }
  return count;
}

// The first of the devices `first`, `first + step`, .. that can run; -1: none.
static int first_ready(Mesh *m, int first, int step) {
  for (int i = 0; i < m->count; i++) {
    int device = ((first + i * step) % m->count + m->count) % m->count;
    if (can_run(m, device)) return device;
  }
  return -1;
}

static int next_chosen(Mesh *m, const int *ready, int count) {
  if (count == 1) return ready[0];
  if (m->next_choice == m->choices->count)
    LIST_PUSH(m->devices[0].in.report->arena, m->choices, ((Choice){0, count}));
  return ready[m->choices->at[m->next_choice++].taken];
}

static int pick_device(Mesh *m, int current) {
  int ready[MOST_DEVICES], count;
  if (m->order == ORDER_LONG) return first_ready(m, current, 1);
  if (m->order == ORDER_SHORT) return first_ready(m, current + 1, 1);
  if (m->order == ORDER_BY_RANK) return first_ready(m, m->first, m->step);
  count = ready_devices(m, current, ready);
  if (count == 0) return -1;
  return m->order == ORDER_CHOSEN ? next_chosen(m, ready, count)
                                  : ready[random_bits(&m->random) % (uint64_t)count];
}

// ---- passing control to another device

// The device that runs after `current`. If none can run, a waiting one, which finds the deadlock.
static int next_device(Mesh *m, int current) {
  int next = m->beyond ? -1 : pick_device(m, current);
  if (next >= 0 && !m->stopped) return next;
  for (int i = 0; i < m->count; i++)
    if (m->devices[i].state != DEVICE_ENDED) {
      m->deadlocked = m->deadlocked || next < 0;
      return i;
    }
  return m->count;
}

// The device continues, perhaps only to end.
static void continue_device(Interp *in) {
  if (in->mesh->beyond) run_on(in);
  if (in->mesh->stopped) in->stopped = true;
}

bool yield_control(Interp *in, const Instr *instr) {
  Mesh *m = in->mesh;
  if (m->beyond) return true;
  if (in->stopped) m->stopped = true;
  m->work += m->count;
  m->running = next_device(m, in->device);
  if (m->running != in->device) {
    in->paused = instr;
    return false;
  }
  continue_device(in);
  return true;
}

// ---- waits

bool take_arrival(Interp *in) {
  Flight *f = pick_flight(in, in->device, in->wait.instr->semaphore, in->wait.element);
  if (f) move_flight(in->mesh, f);
  return f != NULL;
}

bool await_devices(Interp *in) {
  device_in(in)->state = DEVICE_WAITS;
  return yield_control(in, in->wait.instr);
}

bool waits_in_vain(Interp *in) {
  Mesh *m = in->mesh;
  if (m->beyond) return false;
  bool in_vain = m->deadlocked && !m->stopped && !can_run(m, in->device);
  if (!in_vain) device_in(in)->state = DEVICE_READY;
  return in_vain;
}

// ---- all devices

void run_devices(Mesh *m, void (*run)(Interp *in)) {
  m->running = next_device(m, 0);
  while (m->running < m->count) {
    Device *d = &m->devices[m->running];
    continue_device(&d->in);
    run(&d->in);
    if (d->in.paused) continue;
    if (d->in.stopped) *(m->beyond ? &m->cut_short : &m->stopped) = true;
    d->state = DEVICE_ENDED;
    m->running = next_device(m, d->in.device);
  }
}
