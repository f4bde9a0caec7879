/* Fences: bytes between the buffers of an arena that may not be written, for builds that look for
 * what writes beside its buffer (-DPK_FENCES): `pkc run --checked`, `pkc test` and random kernels.
 * What is declared here is in runtime/guard.c. */
#ifndef PK_FENCE_H
#define PK_FENCE_H

#include <pk/rt.h>

enum { PK_FENCE_BYTES = 64 }; /* buffers stay on cache lines */

/* In a cell: from `from` to `to` of the worker's arena is a fence, behind the buffer `name`. */
void pk_fence(int64_t from, int64_t to, const char *name);
/* The kernel, with cells after which their fences are looked at. */
const pk_kernel *pk_fenced(const pk_kernel *kernel);

/* As pk_take, with a fence behind the buffer, and before the first. */
static inline void pk_take_fenced(int64_t *end, int64_t *place, int64_t bytes, const char *name) {
  if (*end == 0) {
    *end = PK_FENCE_BYTES;
    pk_fence(0, *end, name);
  }
  *place = *end;
  const int64_t room = pk_sat_mul(pk_sat_add(bytes, 63) / 64, 64);
  *end = pk_sat_add(pk_sat_add(*place, room), PK_FENCE_BYTES);
  pk_fence(pk_sat_add(*place, bytes), *end, name);
}

#define pk_take(end, place, bytes) pk_take_fenced(end, place, bytes, #place)
/* Kernels that a program calls. */
#define pk_flow_call(flow, line, kernel, arrays) \
  (pk_flow_call)(flow, line, pk_fenced(kernel), arrays)

#endif
