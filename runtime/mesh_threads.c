/* The devices of a mesh, each on its own thread, with an arena and a table of operands. */
#define _GNU_SOURCE
#include "runtime/local_devices.h"

#include <stdlib.h>

typedef struct {
  pk_local_devices local; /* first */
  const pk_call *call;
  bool begun; /* all devices have a thread */
} meeting;

/* ---- the memory of each device */

/* An output that the caller receives from another device: it is in this device's own memory,
 * initialised from the input that it aliases. */
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

static bool start_place(meeting *all, int number, pk_worker *worker, pk_array *array,
                        char **owned) {
  const pk_kernel *kernel = all->call->kernel;
  pk_place *p = &all->local.places[number];
  pk_local_devices_enter(&all->local, number, kernel->mesh, worker);
  p->call = *all->call;
  p->call.array = array;
  for (int i = 0; i < kernel->operands; ++i) {
    array[i] = all->call->array[i];
    bool first = pk_take_part(kernel->mesh, kernel, i, p->device.index, &array[i]);
    if (i < kernel->inputs || first) continue;
    if (!own_output(&p->call, array, i)) return false;
    owned[i] = array[i].data;
  }
  return true;
}

/* ---- the run */

static void *run_place(void *argument) {
  pk_place *p = argument;
  meeting *all = (meeting *)(void *)p->device.all;
  pthread_mutex_lock(&all->local.lock); /* until all devices have a thread, or one has none */
  bool begins = all->begun;
  pthread_mutex_unlock(&all->local.lock);
  if (begins) pk_local_devices_run(&all->local, p);
  return NULL;
}

/* The calling thread is device 0. If a thread cannot be created, the call ends before it begins. */
static bool run_places(meeting *all) {
  pk_local_devices *local = &all->local;
  pk_place *places = local->places;
  int started = 1;
  pthread_mutex_lock(&local->lock); /* no device begins before all have a thread */
  while (started < local->count &&
         pthread_create(&places[started].thread, NULL, run_place, &places[started]) == 0)
    ++started;
  all->begun = started == local->count;
  pthread_mutex_unlock(&local->lock);
  if (started == local->count) run_place(&places[0]);
  for (int i = 1; i < started; ++i) pthread_join(places[i].thread, NULL);
  return started == local->count;
}

const char *pk_run_devices(const pk_call *call, pk_worker *const *workers, int *device) {
  const pk_kernel *kernel = call->kernel;
  const int count = pk_device_count(kernel);
  meeting all = {.call = call};
  size_t arrays = (size_t)count * (size_t)kernel->operands;
  pk_array *array = calloc(arrays + 1, sizeof *array);
  char **owned = calloc(arrays + 1, sizeof *owned);
  bool good = pk_local_devices_open(&all.local, count) && array && owned;
  all.local.devices.mesh = kernel->mesh;
  for (int i = 0; i < count && good; ++i) {
    const int first = i * kernel->operands;
    good = start_place(&all, i, workers[i], array + first, owned + first);
  }
  good = good && run_places(&all);
  *device = -1;
  const char *failure =
      good ? pk_local_devices_failure(&all.local, device) : "no memory or threads for all devices";
  pk_local_devices_close(&all.local);
  for (size_t i = 0; owned && i < arrays; ++i) free(owned[i]);
  free(owned);
  free(array);
  return failure;
}
