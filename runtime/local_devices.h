/* The devices of a mesh in the memory of one process: their shared state, and the transport between
 * them. Each device runs on a thread of its own.
 *
 * The thread that starts a copy performs it at once. One lock protects the semaphores and the list
 * of what devices wait for, so that a deadlock is detected when the last device begins to wait or
 * ends. */
#ifndef RUNTIME_LOCAL_DEVICES_H
#define RUNTIME_LOCAL_DEVICES_H

#include "runtime/runtime.h"

#include <pthread.h>

typedef struct {
  pk_device device; /* first: a worker's `device` is this */
  pk_worker *worker;
  pk_call call;               /* of this device, on its own arrays */
  int64_t *semaphore, amount; /* what it waits for; NULL: it is not waiting */
  bool given_up;
  pthread_t thread;
} pk_place;

typedef struct {
  struct pk_devices devices; /* first: a device's `all` is this */
  pk_place *places;
  int count, waiting, ended;
  bool stopped; /* a device failed: all waits return at once */
  pthread_mutex_t lock;
  pthread_cond_t changed;
} pk_local_devices;

#pragma GCC visibility push(hidden)
/* False if there is no memory. */
bool pk_local_devices_open(pk_local_devices *local, int count);
void pk_local_devices_close(pk_local_devices *local);
/* Initialises place `number` (its device's indices), and connects it and the worker. */
void pk_local_devices_enter(pk_local_devices *local, int number, const pk_mesh *mesh,
                            pk_worker *worker);
/* Runs all cells of a device on the calling thread, and reports the result to the other devices. */
void pk_local_devices_run(pk_local_devices *local, pk_place *place);
/* The message of the first device that failed, and its number; NULL if none failed. */
const char *pk_local_devices_failure(const pk_local_devices *local, int *device);
#pragma GCC visibility pop

#endif
