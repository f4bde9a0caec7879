/* A team: synchronises threads that share the work of a call. The caller opens a job and works on
 * it too; other threads may join while it is open. The caller never waits for a thread that has not
 * joined. */
#ifndef RUNTIME_TEAM_H
#define RUNTIME_TEAM_H

#include "runtime/runtime.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>

#pragma GCC visibility push(hidden)

#define PK_NO_JOB UINT64_MAX

/* Threads that wait for a job spin on `number`, which only the caller writes, once for each job;
 * `state`, which each member writes twice, has cache lines of its own. */
typedef struct {
  _Alignas(PK_APART) _Atomic uint64_t number; /* the number of the last job that was opened */
  atomic_bool dismissed;
  _Alignas(PK_APART) _Atomic uint64_t state;
  _Alignas(PK_APART)
      atomic_int processor; /* the processor on which the job was opened; -1: unknown */
  atomic_int waiting_members, waiting_caller;
  pthread_mutex_t lock;
  pthread_cond_t opened, finished;
  /* The job's data, which changes only while no thread works on it. */
  _Alignas(PK_APART) pk_share *share;
  void *run;
  fenv_t environment; /* the caller's rounding and treatment of subnormals, so that results do not
                         depend on threads */
} pk_team;

bool pk_team_init(pk_team *team); /* false: the system has no more locks */
void pk_team_destroy(pk_team *team);

/* The caller's side. `spin`: wait for a short time without sleeping. */
void pk_team_open(pk_team *team, int places, pk_share *share, void *run);
void pk_team_close(pk_team *team,
                   bool spin); /* no thread can join any more; returns when all members are done */
/* Dismisses waiting members for good; false if a job is active, whose members leave when it is
 * done. */
bool pk_team_dismiss(pk_team *team);

/* A member's side. `seen` is the last job that it saw, initially PK_NO_JOB. Joins a newer job, does
 * a share of it and leaves it; false: the job is closed or full. A member has the place `own` in
 * all jobs or, if that is 0, takes a free place. All members of a team are of the same kind. */
bool pk_team_join(pk_team *team, uint64_t *seen, int own);
void pk_team_await(
    pk_team *team, uint64_t seen,
    bool spin); /* returns when there is a job other than `seen`, or members are dismissed */

#pragma GCC visibility pop
#endif
