/* Fences: bytes between the buffers of an arena that must not change, for builds that detect
 * accesses outside a buffer (-DPK_FENCES): `pkc run --checked`, `pkc test` and random kernels.
 * runtime/guard.c has the definitions. */
#ifndef PK_FENCE_H
#define PK_FENCE_H

#include <pk/rt.h>

enum { PK_FENCE_BYTES = 64 }; /* keeps buffers aligned to cache lines */

/* Within a cell: declares a fence from `from` to `to` of the worker's arena, after the buffer
 * `name`. */
void pk_fence(int64_t from, int64_t to, const char *name);
/* Wraps a kernel, and checks the fences after each of its cells. */
const pk_kernel *pk_fenced(const pk_kernel *kernel);

/* Like pk_reserve, with a fence after the buffer, and one before the first buffer. */
static inline void pk_reserve_fenced(int64_t *end, int64_t *offset, int64_t bytes,
                                     const char *name) {
  if (*end == 0) {
    *end = PK_FENCE_BYTES;
    pk_fence(0, *end, name);
  }
  *offset = *end;
  const int64_t whole = pk_sat_mul(pk_sat_add(bytes, 63) / 64, 64);
  *end = pk_sat_add(pk_sat_add(*offset, whole), PK_FENCE_BYTES);
  pk_fence(pk_sat_add(*offset, bytes), *end, name);
}

#define pk_reserve(end, offset, bytes) pk_reserve_fenced(end, offset, bytes, #offset)
/* The kernels that a program calls. */
#define pk_flow_call(flow, line, kernel, arrays) \
  (pk_flow_call)(flow, line, pk_fenced(kernel), arrays)

#endif
