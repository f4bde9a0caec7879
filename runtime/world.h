/* The processes that mpirun started together, for programs that do not include MPI's headers. */
#ifndef RUNTIME_WORLD_H
#define RUNTIME_WORLD_H

#include <pk/pk.h>

#pragma GCC visibility push(default)

/* Starts MPI and makes all processes the devices of this context. */
pk_status pk_world_open(pk_context *context, int *number, int *count);
/* Sends data to process 0, which receives from one process after another. */
void pk_world_send(const void *data, int64_t bytes);
void pk_world_receive(int from, void *data, int64_t bytes);
void pk_world_close(void);

#pragma GCC visibility pop
#endif
