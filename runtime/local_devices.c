/* The devices of a mesh in the memory of one process. */
#include "runtime/local_devices.h"

#include <stdlib.h>

static pk_place *place_of(const pk_worker *worker) { return (pk_place *)(void *)worker->device; }
static pk_local_devices *local_of(const pk_worker *worker) {
  return (pk_local_devices *)(void *)worker->device->all;
}

/* ---- semaphores; the caller holds the lock */

static void add(pk_local_devices *all, int64_t *semaphore, int64_t amount) {
  *semaphore = pk_sat_add(*semaphore, amount > 0 ? amount : 0);
  pthread_cond_broadcast(&all->changed);
}

/* Has every device ended or is it waiting, so that no wait can end? */
static bool is_stuck(const pk_local_devices *all) {
  if (all->waiting + all->ended < all->count) return false;
  for (int i = 0; i < all->count; ++i) {
    const pk_place *p = &all->places[i];
    if (p->semaphore && *p->semaphore >= p->amount) return false;
  }
  return all->waiting > 0;
}

static void stop(pk_local_devices *all) {
  all->stopped = true;
  pthread_cond_broadcast(&all->changed);
}

/* ---- the transport */

static void own_signal(pk_worker *worker, int64_t *semaphore, int64_t amount) {
  pk_local_devices *all = local_of(worker);
  pthread_mutex_lock(&all->lock);
  add(all, semaphore, amount);
  pthread_mutex_unlock(&all->lock);
}

static int64_t read_semaphore(pk_worker *worker, const int64_t *semaphore) {
  pk_local_devices *all = local_of(worker);
  pthread_mutex_lock(&all->lock);
  int64_t held = *semaphore;
  pthread_mutex_unlock(&all->lock);
  return held;
}

/* Waits for a semaphore; fails the call if all devices wait. */
static void wait_for(pk_worker *worker, int64_t *semaphore, int64_t amount, const char *message) {
  pk_local_devices *all = local_of(worker);
  pk_place *p = place_of(worker);
  pthread_mutex_lock(&all->lock);
  if (worker->failure) stop(all); /* others may wait for its copies or signals */
  p->semaphore = semaphore;
  p->amount = amount;
  ++all->waiting;
  while (*semaphore < amount && !all->stopped) {
    if (is_stuck(all)) {
      /* The first waiting device reports it. */
      for (int i = 0; i < all->count; ++i)
        if (all->places[i].semaphore) {
          all->places[i].given_up = true;
          break;
        }
      stop(all);
    } else {
      pthread_cond_wait(&all->changed, &all->lock);
    }
  }
  if (p->given_up) pk_fail(worker, message);
  *semaphore = *semaphore < amount ? 0 : *semaphore - (amount > 0 ? amount : 0);
  p->semaphore = NULL;
  --all->waiting;
  pthread_mutex_unlock(&all->lock);
}

/* The corresponding address in the memory of another device. */
static char *there(const pk_place *other, const pk_worker *worker, const void *here) {
  return other->worker->arena + ((const char *)here - worker->arena);
}

static void signal_other(pk_worker *worker, int64_t *semaphore, int64_t amount, int number) {
  const pk_place *other = &local_of(worker)->places[number];
  pk_order_streams();
  own_signal(worker, (int64_t *)(void *)there(other, worker, semaphore), amount);
}

static void copy_to(pk_worker *worker, const pk_sending *s, int number) {
  const pk_place *other = &local_of(worker)->places[number];
  pk_arrival to;
  pk_find_arrival(&other->call, s->to, s->part, s->operand,
                  s->operand < 0 ? there(other, worker, s->to->data) : NULL, &to);
  pk_copy_packed(worker, s->dtype, s->from, s->packed, &to.window, to.packed, NULL, NULL);
  pk_order_streams();
  own_signal(worker, s->sent, s->amount);
  own_signal(worker, (int64_t *)(void *)there(other, worker, s->arrived), s->amount);
}

static const pk_transport between_threads = {copy_to, signal_other, own_signal, wait_for,
                                             read_semaphore};

/* ---- all devices */

bool pk_local_devices_open(pk_local_devices *local, int count) {
  *local = (pk_local_devices){.devices = {&between_threads, NULL}, .count = count};
  local->places = calloc((size_t)count, sizeof *local->places);
  if (!local->places) return false;
  pthread_mutex_init(&local->lock, NULL);
  pthread_cond_init(&local->changed, NULL);
  return true;
}

void pk_local_devices_close(pk_local_devices *local) {
  if (!local->places) return;
  pthread_cond_destroy(&local->changed);
  pthread_mutex_destroy(&local->lock);
  free(local->places);
}

void pk_local_devices_enter(pk_local_devices *local, int number, const pk_mesh *mesh,
                            pk_worker *worker) {
  pk_place *p = &local->places[number];
  p->device.all = &local->devices;
  pk_device_index(mesh, number, p->device.index);
  p->worker = worker;
  p->semaphore = NULL;
  p->given_up = false;
  worker->device = &p->device;
}

void pk_local_devices_run(pk_local_devices *local, pk_place *p) {
  for (int64_t cell = 0; cell < p->call.plan->cells && !p->worker->failure; ++cell)
    p->call.kernel->cell(&p->call, p->worker, cell);
  pk_order_streams();
  pthread_mutex_lock(&local->lock);
  ++local->ended;
  if (p->worker->failure) stop(local);
  pthread_cond_broadcast(&local->changed);
  pthread_mutex_unlock(&local->lock);
}

const char *pk_local_devices_failure(const pk_local_devices *local, int *device) {
  for (*device = 0; *device < local->count; ++*device)
    if (local->places[*device].worker->failure) return local->places[*device].worker->failure;
  *device = -1;
  return NULL;
}
