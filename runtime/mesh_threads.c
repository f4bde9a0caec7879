/* The devices of a mesh, on threads of this process: each has its own arena and table of operands.
 *
 * Copies move at once, by the thread that starts them. Semaphores and what devices wait for are
 * under one lock, so that a wait which nothing can end is seen when the last device begins to wait
 * or ends. */
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  pk_device device; /* first: a worker's `device` is this */
  pk_worker *worker;
  pk_call call; /* of this device, on its own arrays */
  pk_array *array;
  int64_t *semaphore, amount; /* what it waits for; NULL: it does not */
  bool given_up;
  pthread_t thread;
} place;

typedef struct {
  struct pk_devices devices; /* first: a device's `all` is this */
  const pk_call *call;
  place *places;
  int count, waiting, ended;
  bool begun;   /* all devices have a thread */
  bool stopped; /* a device failed: no wait is one any more */
  pthread_mutex_t lock;
  pthread_cond_t changed;
} crowd;

static place *place_of(const pk_worker *worker) { return (place *)(void *)worker->device; }
static crowd *crowd_of(const pk_worker *worker) { return (crowd *)(void *)worker->device->all; }

/* ---- semaphores; the caller holds the lock */

static void add(crowd *all, int64_t *semaphore, int64_t amount) {
  *semaphore = pk_sat_add(*semaphore, amount > 0 ? amount : 0);
  pthread_cond_broadcast(&all->changed);
}

/* Every device waits or has ended, and no wait is over. */
static bool is_stuck(const crowd *all) {
  if (all->waiting + all->ended < all->count) return false;
  for (int i = 0; i < all->count; ++i) {
    const place *p = &all->places[i];
    if (p->semaphore && *p->semaphore >= p->amount) return false;
  }
  return all->waiting > 0;
}

static void stop(crowd *all) {
  all->stopped = true;
  pthread_cond_broadcast(&all->changed);
}

/* ---- the transport */

static void own_signal(pk_worker *worker, int64_t *semaphore, int64_t amount) {
  crowd *all = crowd_of(worker);
  pthread_mutex_lock(&all->lock);
  add(all, semaphore, amount);
  pthread_mutex_unlock(&all->lock);
}

static int64_t read_semaphore(pk_worker *worker, const int64_t *semaphore) {
  crowd *all = crowd_of(worker);
  pthread_mutex_lock(&all->lock);
  int64_t held = *semaphore;
  pthread_mutex_unlock(&all->lock);
  return held;
}

static void wait_for(pk_worker *worker, int64_t *semaphore, int64_t amount, const char *message) {
  crowd *all = crowd_of(worker);
  place *p = place_of(worker);
  pthread_mutex_lock(&all->lock);
  if (worker->failure) stop(all); /* what others wait for may not come */
  p->semaphore = semaphore;
  p->amount = amount;
  ++all->waiting;
  while (*semaphore < amount && !all->stopped) {
    if (is_stuck(all)) {
      /* The first of those that wait says so. */
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

/* The same place in the memory of another device. */
static char *there(const place *other, const pk_worker *worker, const void *here) {
  return other->worker->arena + ((const char *)here - worker->arena);
}

static void signal_other(pk_worker *worker, int64_t *semaphore, int64_t amount, int number) {
  const place *other = &crowd_of(worker)->places[number];
  pk_order_streams();
  own_signal(worker, (int64_t *)(void *)there(other, worker, semaphore), amount);
}

static void copy_to(pk_worker *worker, pk_dtype dtype, const pk_window *from, const pk_window *to,
                    int operand, int64_t *sent, int64_t *arrived, int number) {
  const place *other = &crowd_of(worker)->places[number];
  const int64_t bytes = pk_window_bytes(to, dtype);
  pk_window target = *to;
  if (operand < 0) {
    target.data = there(other, worker, to->data);
  } else {
    target.data = other->array[operand].data;
    target.dim = other->array[operand].dim;
    target.stride = other->array[operand].stride;
  }
  pk_copy_start(worker, dtype, from, &target, NULL, NULL);
  pk_order_streams();
  own_signal(worker, sent, bytes);
  own_signal(worker, (int64_t *)(void *)there(other, worker, arrived), bytes);
}

static const pk_transport on_threads = {copy_to, signal_other, own_signal, wait_for,
                                        read_semaphore};

/* ---- what each device has */

/* An output that the caller gets from another device: in memory of this one alone, with what an
 * input that it aliases holds. */
static bool own_output(pk_call *call, pk_array *arrays, int operand) {
  const pk_operand *o = &call->kernel->operand[operand];
  pk_array *array = &arrays[operand];
  int64_t elements = 1, dense = 1;
  for (int k = 0; k < o->rank; ++k) elements *= array->dim[k];
  char *data = malloc((size_t)(elements * pk_dtype_bytes(o->dtype)) + 64);
  if (!data) return false;
  pk_array own = *array;
  own.data = data;
  for (int k = o->rank - 1; k >= 0; --k) {
    own.stride[k] = dense;
    dense *= own.dim[k];
  }
  if (o->alias >= 0) {
    pk_window from = {array->data, o->rank, array->dim, array->stride, {0}, {0}, {0}},
              to = {own.data, o->rank, own.dim, own.stride, {0}, {0}, {0}};
    for (int k = 0; k < o->rank; ++k) {
      from.size[k] = to.size[k] = array->dim[k];
      from.step[k] = to.step[k] = 1;
    }
    pk_copy_start(NULL, o->dtype, &from, &to, NULL, NULL);
    arrays[o->alias] = own;
  }
  *array = own;
  return true;
}

static bool start_place(crowd *all, int number, pk_worker *worker, char **owned) {
  const pk_kernel *kernel = all->call->kernel;
  place *p = &all->places[number];
  p->device.all = &all->devices;
  p->worker = worker;
  worker->device = &p->device;
  pk_device_index(kernel->mesh, number, p->device.index);
  p->call = *all->call;
  p->call.array = p->array;
  for (int i = 0; i < kernel->operands; ++i) {
    p->array[i] = all->call->array[i];
    bool first = pk_take_part(kernel->mesh, kernel, i, p->device.index, &p->array[i]);
    if (i < kernel->inputs || first) continue;
    if (!own_output(&p->call, p->array, i)) return false;
    owned[number * kernel->operands + i] = p->array[i].data;
  }
  return true;
}

/* ---- the run */

static void *run_place(void *argument) {
  place *p = argument;
  crowd *all = (crowd *)(void *)p->device.all;
  pthread_mutex_lock(&all->lock); /* until all devices have a thread, or one cannot be made */
  bool begins = all->begun;
  pthread_mutex_unlock(&all->lock);
  for (int64_t cell = 0; begins && cell < p->call.plan->cells && !p->worker->failure; ++cell)
    p->call.kernel->cell(&p->call, p->worker, cell);
  pk_order_streams();
  pthread_mutex_lock(&all->lock);
  ++all->ended;
  if (p->worker->failure) all->stopped = true;
  pthread_cond_broadcast(&all->changed);
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

/* The calling thread is device 0. Threads that cannot be made end the call before it begins. */
static bool run_places(crowd *all) {
  int started = 1;
  pthread_mutex_lock(&all->lock); /* none begins before all are there */
  while (started < all->count &&
         pthread_create(&all->places[started].thread, NULL, run_place, &all->places[started]) == 0)
    ++started;
  all->begun = started == all->count;
  pthread_mutex_unlock(&all->lock);
  if (started == all->count) run_place(&all->places[0]);
  for (int i = 1; i < started; ++i) pthread_join(all->places[i].thread, NULL);
  return started == all->count;
}

const char *pk_run_devices(const pk_call *call, pk_worker *const *workers, int *device) {
  const pk_kernel *kernel = call->kernel;
  crowd all = {
      .devices = {&on_threads, kernel->mesh}, .call = call, .count = pk_device_count(kernel)};
  size_t arrays = (size_t)all.count * (size_t)kernel->operands;
  all.places = calloc((size_t)all.count, sizeof *all.places);
  pk_array *array = calloc(arrays + 1, sizeof *array);
  char **owned = calloc(arrays + 1, sizeof *owned);
  const char *failure = NULL;
  *device = -1;
  bool good = all.places && array && owned;
  for (int i = 0; i < all.count && good; ++i) {
    all.places[i].array = array + i * kernel->operands;
    good = start_place(&all, i, workers[i], owned);
  }
  pthread_mutex_init(&all.lock, NULL);
  pthread_cond_init(&all.changed, NULL);
  if (good) good = run_places(&all);
  if (!good) failure = "no memory or threads for all devices";
  for (int i = 0; i < all.count && good && !failure; ++i) {
    failure = workers[i]->failure;
    *device = i;
  }
  pthread_cond_destroy(&all.changed);
  pthread_mutex_destroy(&all.lock);
  for (size_t i = 0; owned && i < arrays; ++i) free(owned[i]);
  free(owned);
  free(array);
  free(all.places);
  return failure;
}
