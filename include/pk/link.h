/* link.h: how the devices of a mesh reach each other. For libraries that run devices elsewhere than
 * on threads of one process, as <pk/mpi.h> does; not for users, and not for generated code. */
#ifndef PK_LINK_H
#define PK_LINK_H

#include <pk/rt.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* A copy to another device, as in <pk/rt.h>: `to` and `arrived` are this device's, and the other
 * has its own at the same place. `packed`: bits of an element of `from` if they share bytes, else
 * 0. `part`: if not 0, bits of the parts of elements that are written; the last axis of `to` counts
 * them. `amount`: what is added to both semaphores. */
typedef struct {
  pk_dtype dtype;
  const pk_window *from, *to;
  int packed, part, operand;
  int64_t amount, *sent, *arrived;
} pk_sending;

/* The effects of a device on device `number`, which must exist, and its waits. `semaphore` is this
 * device's; the other device has its own at the same place. */
typedef struct {
  void (*copy)(pk_worker *worker, const pk_sending *sending, int number);
  void (*signal)(pk_worker *worker, int64_t *semaphore, int64_t amount, int number);
  /* to this device */
  void (*own_signal)(pk_worker *worker, int64_t *semaphore, int64_t amount);
  void (*wait)(pk_worker *worker, int64_t *semaphore, int64_t amount, const char *message);
  int64_t (*read)(pk_worker *worker, const int64_t *semaphore);
} pk_transport;

/* The target of pk_device.all; the transport's own data may follow it. */
struct pk_devices {
  const pk_transport *by;
  const pk_mesh *mesh;
};

/* This process is one device of several. Each passes its part of an operand that the mesh divides,
 * and the whole of every other one. */
enum { PK_LINK_MESSAGE = 1024 };
typedef struct pk_link pk_link;
struct pk_link {
  int number, count;
  /* Agreement before anything is written. Each device passes the status and message of its own
   * call. All receive PK_OK, or the status, message and number of a device that refuses (-1: of no
   * particular device). Sizes must be the same on all devices. */
  pk_status (*agree)(pk_link *link, const pk_kernel *kernel, const int64_t *size, pk_status own,
                     char message[PK_LINK_MESSAGE], int *device);
  /* Runs all cells by `worker`, whose `device` it sets, and returns when every device has ended.
   * NULL, or why the call failed; *device: which one did. */
  const char *(*run)(pk_link *link, const pk_call *call, pk_worker *worker, int *device);
  void (*close)(pk_link *link);
};
/* Kernels with a mesh run on these devices from now on, until pk_context_free closes the link.
 * NULL: on threads again. */
void pk_context_set_link(pk_context *context, pk_link *link);

/* Links for devices on threads of the host: `links[i]` is for the context of device i. A call of a
 * kernel with a mesh is one by all contexts, on a thread each, and waits for all of them; so they
 * are made together, or not at all. The contexts may be freed in any order. False: no memory. */
bool pk_link_threads(int count, pk_link **links);

/* For `agree`: a hash of the properties that must be the same on all devices, and the refusal if
 * they differ. */
int64_t pk_call_hash(const pk_kernel *kernel, const int64_t *size);
pk_status pk_refuse_differing(char message[PK_LINK_MESSAGE]);

int64_t pk_dtype_bytes(pk_dtype dtype);
DLDataType pk_dtype_dlpack(pk_dtype dtype);
int64_t pk_window_bytes(const pk_window *window, pk_dtype dtype); /* saturated */
/* The target on the other device: a window of its operand or, if `operand` is -1, of its arena at
 * the place of `data`. */
typedef struct {
  pk_window window;
  int packed;
  int64_t dim[PK_WINDOW_RANK], stride[PK_WINDOW_RANK];
} pk_arrival;
void pk_find_arrival(const pk_call *call, const pk_window *to, int part, int operand, char *data,
                     pk_arrival *out);
/* The number of parts into which the mesh divides this axis of an operand. */
int64_t pk_parts(const pk_mesh *mesh, int operand, int axis);
/* The indices of device `number`. */
void pk_device_index(const pk_mesh *mesh, int number, int64_t *index);
/* The part of an array that a device has. False: a device with a lower number has the same part. */
bool pk_take_part(const pk_mesh *mesh, const pk_kernel *kernel, int operand, const int64_t *index,
                  pk_array *array);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
