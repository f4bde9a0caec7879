// Which device of a mesh runs next: the interpreter runs one at a time, in an order that it
// chooses.
#include "codegen/check/mesh.h"

#include <string.h>

// ---- which devices can run

static bool can_go(Mesh *m, int device) {
  Device *d = &m->devices[device];
  if (d->state != DEVICE_WAITS) return d->state == DEVICE_READY;
  if (d->in.refs[d->semaphore->id].block.i[d->element] >= d->amount) return true;
  return pick_flight(&d->in, device, d->semaphore, d->element) != NULL;
}

// The devices that can run: the current one first, then those after it.
static int ready_devices(Mesh *m, int current, int *ready) {
  int count = 0;
  for (int i = 0; i < m->count; i++) {
    int device = (current + i) % m->count;
    if (can_go(m, device)) ready[count++] = device;
  }
  return count;
}

// The first of the devices `first`, `first + step`, .. that can run; -1: none.
static int first_ready(Mesh *m, int first, int step) {
  for (int i = 0; i < m->count; i++) {
    int device = ((first + i * step) % m->count + m->count) % m->count;
    if (can_go(m, device)) return device;
  }
  return -1;
}

static int by_choice(Mesh *m, const int *ready, int count) {
  if (count == 1) return ready[0];
  if (m->next_choice == m->choices->count)
    LIST_PUSH(m->devices[0].in.report->arena, m->choices, ((Choice){0, count}));
  return ready[m->choices->at[m->next_choice++].taken];
}

static int pick_device(Mesh *m, int current) {
  int ready[MOST_DEVICES], count;
  if (m->turns == TURNS_LONG) return first_ready(m, current, 1);
  if (m->turns == TURNS_SHORT) return first_ready(m, current + 1, 1);
  if (m->turns == TURNS_BY_RANK) return first_ready(m, m->first, m->step);
  count = ready_devices(m, current, ready);
  if (count == 0) return -1;
  return m->turns == TURNS_CHOSEN ? by_choice(m, ready, count)
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

// The caller holds the lock.
static void give_turn(Mesh *m, int device) {
  m->turn = device;
  pthread_cond_signal(device == m->count ? &m->done : &m->devices[device].turn);
}

static void wait_for_turn(Interp *in) {
  Mesh *m = in->mesh;
  while (m->turn != in->device) pthread_cond_wait(&device_in(in)->turn, &m->lock);
}

static void hand_on(Interp *in) {
  Mesh *m = in->mesh;
  if (m->beyond) return;
  if (in->stopped) m->stopped = true;
  m->work += m->count;
  int next = next_device(m, in->device);
  if (next != in->device) {
    pthread_mutex_lock(&m->lock);
    give_turn(m, next);
    wait_for_turn(in);
    pthread_mutex_unlock(&m->lock);
  }
  if (m->beyond) run_on(in);
  if (m->stopped) in->stopped = true;
}

void take_turns(Interp *in) { hand_on(in); }

bool await_devices(Interp *in, const Instr *wait, int64_t element, int64_t amount) {
  Mesh *m = in->mesh;
  Device *d = device_in(in);
  Flight *f = pick_flight(in, in->device, wait->semaphore, element);
  if (f) {
    move_flight(m, f);
    return true;
  }
  d->wait = wait;
  d->semaphore = wait->semaphore;
  d->element = element;
  d->amount = amount;
  d->state = DEVICE_WAITS;
  hand_on(in);
  if (m->beyond) return true;
  bool deadlocked = m->deadlocked && !m->stopped && !can_go(m, in->device);
  if (!deadlocked) d->state = DEVICE_READY;
  return !deadlocked;
}

// ---- threads

static void *run_device(void *context) {
  Interp *in = context;
  Mesh *m = in->mesh;
  pthread_mutex_lock(&m->lock);
  wait_for_turn(in);
  pthread_mutex_unlock(&m->lock);
  if (!m->stopped) m->run(in);
  if (in->stopped && !m->beyond) m->stopped = true;
  device_in(in)->state = DEVICE_ENDED;
  int next = next_device(m, in->device);
  pthread_mutex_lock(&m->lock);
  give_turn(m, next);
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

// Runs all devices on threads, one at a time, and waits for them.
void run_devices(Mesh *m, void (*run)(Interp *in)) {
  m->run = run;
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->done, NULL);
  m->turn = -1;
  for (int i = 0; i < m->count; i++) {
    Device *d = &m->devices[i];
    pthread_cond_init(&d->turn, NULL);
    if (pthread_create(&d->thread, NULL, run_device, &d->in) != 0)
      exhausted("the system has no thread for device %d of %d", i, m->count);
  }
  int first = next_device(m, 0);
  pthread_mutex_lock(&m->lock);
  give_turn(m, first);
  while (m->turn != m->count) pthread_cond_wait(&m->done, &m->lock);
  pthread_mutex_unlock(&m->lock);
  for (int i = 0; i < m->count; i++) {
    pthread_join(m->devices[i].thread, NULL);
    pthread_cond_destroy(&m->devices[i].turn);
  }
  pthread_cond_destroy(&m->done);
  pthread_mutex_destroy(&m->lock);
}
