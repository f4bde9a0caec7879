/* The mesh of a kernel: its devices, each device's parts of the operands, and the calls from
 * generated code to the transport between devices. */
#include "runtime/runtime.h"

#include <stdio.h>

int pk_device_count(const pk_kernel *kernel) {
  int64_t count = 1;
  for (int i = 0; kernel->mesh && i < kernel->mesh->axes; ++i) count *= kernel->mesh->extent[i];
  return (int)count;
}

void pk_device_index(const pk_mesh *mesh, int number, int64_t *index) {
  int64_t rest = number;
  for (int i = mesh->axes - 1; i >= 0; --i) {
    index[i] = rest % mesh->extent[i];
    rest /= mesh->extent[i];
  }
}

void pk_order_streams(void) {
#ifdef __SSE__
  __builtin_ia32_sfence();
#endif
}

int64_t pk_window_bytes(const pk_window *window, pk_dtype dtype) {
  int64_t bytes = pk_dtype_bytes(dtype);
  for (int k = 0; k < window->rank; ++k) bytes = pk_sat_mul(bytes, window->size[k]);
  return bytes;
}

void pk_find_arrival(const pk_call *call, const pk_window *to, int part, int operand, char *data,
                     pk_arrival *out) {
  out->window = *to;
  out->window.data = data;
  out->window.dim = out->dim;
  out->window.stride = out->stride;
  out->packed = part < 8 ? part : 0;
  for (int k = 0; k < to->rank; ++k) out->dim[k] = to->dim[k], out->stride[k] = to->stride[k];
  if (operand < 0) return;
  const pk_array *array = &call->array[operand];
  const pk_operand *declared = &call->kernel->operand[operand];
  const int64_t bits = 8 * pk_dtype_bytes(declared->dtype);
  out->window.data = array->data;
  for (int k = 0; k < declared->rank; ++k) {
    out->dim[k] = array->dim[k];
    out->stride[k] = part ? array->stride[k] * (bits / part) : array->stride[k];
  }
}

/* ---- parts of operands */

int64_t pk_parts(const pk_mesh *mesh, int operand, int axis) {
  const int8_t *by = mesh->shard[operand][axis];
  int64_t parts = 1;
  for (int j = 0; j < PK_MESH_AXES && by[j]; ++j) parts *= mesh->extent[by[j] - 1];
  return parts;
}

bool pk_take_part(const pk_mesh *mesh, const pk_kernel *kernel, int operand, const int64_t *index,
                  pk_array *array) {
  const int64_t element = pk_dtype_bytes(kernel->operand[operand].dtype);
  bool divides[PK_MESH_AXES] = {0};
  for (int k = 0; k < kernel->operand[operand].rank; ++k) {
    const int8_t *by = mesh->shard[operand][k];
    int64_t at = 0;
    for (int j = 0; j < PK_MESH_AXES && by[j]; ++j) {
      divides[by[j] - 1] = true;
      at = at * mesh->extent[by[j] - 1] + index[by[j] - 1];
    }
    array->dim[k] /= pk_parts(mesh, operand, k);
    array->data += at * array->dim[k] * array->stride[k] * element;
  }
  for (int i = 0; i < mesh->axes; ++i)
    if (!divides[i] && index[i]) return false;
  return true;
}

/* ---- calls of devices that are linked from outside */

int64_t pk_call_hash(const pk_kernel *kernel, const int64_t *size) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  const char *texts[] = {kernel->name, kernel->signature, kernel->statics};
  for (int i = 0; i < 3; ++i)
    for (const char *c = texts[i]; c && *c; ++c) h = (h ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
  for (int i = 0; i < kernel->sizes; ++i) h = (h ^ (uint64_t)size[i]) * UINT64_C(0x100000001b3);
  return (int64_t)(h >> 1);
}

pk_status pk_refuse_differing(char message[PK_LINK_MESSAGE]) {
  (void)snprintf(message, PK_LINK_MESSAGE,
                 "expected the same kernel and the same sizes on all devices, found others");
  return PK_BAD_SIZE;
}

/* ---- what generated code calls */

void pk_device_signal(pk_worker *worker, int64_t *semaphore, int64_t amount) {
  worker->device->all->by->own_signal(worker, semaphore, amount);
}

int64_t pk_device_read(pk_worker *worker, const int64_t *semaphore) {
  return worker->device->all->by->read(worker, semaphore);
}

void pk_device_wait(pk_worker *worker, int64_t *semaphore, int64_t amount, const char *message) {
  worker->device->all->by->wait(worker, semaphore, amount, message);
}

int pk_find_device(pk_worker *worker, const int64_t *index, const char *outside) {
  const pk_mesh *mesh = worker->device->all->mesh;
  int64_t number = 0;
  for (int i = 0; i < mesh->axes; ++i) {
    if (index[i] < 0 || index[i] >= mesh->extent[i]) {
      pk_fail(worker, outside);
      return -1;
    }
    number = number * mesh->extent[i] + index[i];
  }
  return (int)number;
}

void pk_remote_signal(pk_worker *worker, int64_t *semaphore, int64_t amount, const int64_t *device,
                      const char *outside) {
  const int number = pk_find_device(worker, device, outside);
  if (number >= 0) worker->device->all->by->signal(worker, semaphore, amount, number);
}

void pk_remote_copy(pk_worker *worker, pk_dtype dtype, const pk_window *from, const pk_window *to,
                    int operand, int64_t *sent, int64_t *arrived, const int64_t *device,
                    const char *outside) {
  const int number = pk_find_device(worker, device, outside);
  const pk_sending sending = {.dtype = dtype,
                              .from = from,
                              .to = to,
                              .operand = operand,
                              .amount = pk_window_bytes(to, dtype),
                              .sent = sent,
                              .arrived = arrived};
  if (number >= 0) worker->device->all->by->copy(worker, &sending, number);
}
