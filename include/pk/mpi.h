/* mpi.h: kernels with a mesh on the processes of an MPI communicator. In libpkrt_mpi. */
#ifndef PK_MPI_H
#define PK_MPI_H

#include <mpi.h>
#include <pk/pk.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* From now on, a call of a kernel with a mesh on this context is collective over the communicator;
 * the rank of a process is its device number. Each process passes its part of an operand that the
 * mesh divides, and the whole of every other operand; outputs are those of one device. The mesh
 * must have as many devices as the communicator has processes. A device that refuses or fails ends
 * the call on all, with its message, and so does a deadlock. If a device waits for `timeout`
 * seconds (0: $PK_DEVICE_TIMEOUT, else 120) without receiving anything, the call fails, and so do
 * later calls.
 *
 * Collective; the communicator is duplicated. MPI must have been initialised, and the context be
 * freed before it is finalised. MPI is called by the threads that call kernels. MPI_COMM_NULL: on
 * threads of this process again. PK_BAD_ARGUMENT: MPI is not running; PK_NO_MEMORY. */
pk_status pk_context_set_communicator(pk_context *context, MPI_Comm communicator, double timeout);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
