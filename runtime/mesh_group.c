/* The devices of a mesh on threads of the host, each with its own context: all of them make a call
 * together. */
#include "runtime/local_devices.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  pk_local_devices local;
  int members;       /* links that are open */
  int here, barrier; /* at the meeting point; how often all have met there */
  int64_t hash;      /* of the call of one device */
  bool differs;      /* the calls of two devices differ */
  int refusing;      /* the first device that refuses, or -1 */
  pk_status refusal; /* the reason for `refused` */
  char message[PK_LINK_MESSAGE];
} group;

typedef struct {
  pk_link link; /* first: the context's pointer refers to it */
  group *of;
} member;

/* Barrier. Returns true in the last thread to arrive, before the others resume; the caller holds
 * the lock. */
static bool meet(group *g) {
  const int barrier = g->barrier;
  if (++g->here == g->local.count) {
    g->here = 0;
    ++g->barrier;
    pthread_cond_broadcast(&g->local.changed);
    return true;
  }
  while (g->barrier == barrier) pthread_cond_wait(&g->local.changed, &g->local.lock);
  return false;
}

/* All devices report whether they accept the call. Every device returns the refusal of the lowest
 * device that refuses, or, if their calls differ, an error of its own. */
static pk_status agree(pk_link *link, const pk_kernel *kernel, const int64_t *size, pk_status own,
                       char message[PK_LINK_MESSAGE], int *device) {
  group *g = ((member *)(void *)link)->of;
  const int64_t hash = own == PK_OK ? pk_call_hash(kernel, size) : 0;
  pthread_mutex_lock(&g->local.lock);
  if (g->here == 0) {
    g->refusing = -1;
    g->refusal = PK_OK;
    g->hash = hash;
    g->differs = false;
  }
  g->differs = g->differs || hash != g->hash;
  if (own != PK_OK && (g->refusing < 0 || link->number < g->refusing)) {
    g->refusing = link->number;
    g->refusal = own;
    memcpy(g->message, message, sizeof g->message);
  }
  if (meet(g)) g->local.waiting = g->local.ended = g->local.stopped = 0;
  *device = g->refusing;
  const pk_status status = g->refusal;
  const bool differs = g->differs;
  if (status != PK_OK) memcpy(message, g->message, sizeof g->message);
  (void)meet(g); /* before the next call changes the shared state */
  pthread_mutex_unlock(&g->local.lock);
  return status == PK_OK && differs ? pk_refuse_differing(message) : status;
}

static const char *run(pk_link *link, const pk_call *call, pk_worker *worker, int *device) {
  group *g = ((member *)(void *)link)->of;
  pk_place *place = &g->local.places[link->number];
  place->call = *call;
  pk_local_devices_enter(&g->local, link->number, call->kernel->mesh, worker);
  pthread_mutex_lock(&g->local.lock);
  g->local.devices.mesh = call->kernel->mesh;
  (void)meet(g);
  pthread_mutex_unlock(&g->local.lock);
  pk_local_devices_run(&g->local, place);
  pthread_mutex_lock(&g->local.lock);
  (void)meet(g); /* other devices may copy to this one until they have ended */
  const char *failure = pk_local_devices_failure(&g->local, device);
  (void)meet(g); /* and read its failure */
  pthread_mutex_unlock(&g->local.lock);
  return failure;
}

static void leave(pk_link *link) {
  group *g = ((member *)(void *)link)->of;
  pthread_mutex_lock(&g->local.lock);
  const bool last = --g->members == 0;
  pthread_mutex_unlock(&g->local.lock);
  free(link);
  if (!last) return;
  pk_local_devices_close(&g->local);
  free(g);
}

bool pk_link_threads(int count, pk_link **links) {
  group *g = calloc(1, sizeof *g);
  bool good = g && pk_local_devices_open(&g->local, count);
  for (int i = 0; i < count; ++i) {
    member *m = good ? malloc(sizeof *m) : NULL;
    links[i] = (pk_link *)(void *)m;
    if (!m) {
      good = false;
      continue;
    }
    *m = (member){{i, count, agree, run, leave}, g};
  }
  if (good) {
    g->members = count;
    return true;
  }
  for (int i = 0; i < count; ++i) free(links[i]);
  if (g) pk_local_devices_close(&g->local);
  free(g);
  return false;
}
