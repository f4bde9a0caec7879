// The share of an array that each device of a mesh has.
#include "codegen/ir/share.h"

#include <string.h>

static int64_t index_along(const Kernel *k, int device, int axis) {
  for (int i = k->mesh.count - 1; i > axis; i--) device /= (int)k->mesh.at[i].extent;
  return device % k->mesh.at[axis].extent;
}

Share device_share(const Kernel *k, const Ref *ref, const HostArray *whole, int device) {
  Share share = {.part = *whole, .first = true};
  bool divides[MOST_MESH_AXES] = {0};
  for (int i = 0; i < whole->rank; i++) {
    int64_t at = 0;
    for (int j = 0; j < MOST_MESH_AXES && ref->shard[i][j]; j++) {
      int axis = ref->shard[i][j] - 1;
      divides[axis] = true;
      at = at * k->mesh.at[axis].extent + index_along(k, device, axis);
    }
    if (ref->parts[i] > 1) share.part.dim[i] /= ref->parts[i];
    share.start[i] = at * share.part.dim[i];
  }
  for (int i = 0; i < k->mesh.count; i++)
    if (!divides[i] && index_along(k, device, i)) share.first = false;
  return share;
}

void visit_rows(const Share *share, const HostArray *whole, RowVisitor *visit, void *context) {
  int last = whole->rank - 1;
  int64_t index[MAX_RANK] = {0}, elements, row = last < 0 ? 1 : share->part.dim[last];
  if (!array_elements(&share->part, &elements) || elements == 0) return;
  for (int64_t part = 0; part < elements; part += row) {
    int64_t at = 0;
    for (int i = 0; i < whole->rank; i++) at = at * whole->dim[i] + share->start[i] + index[i];
    visit(context, part, at, row);
    for (int axis = last - 1; axis >= 0; axis--) {
      if (++index[axis] < share->part.dim[axis]) break;
      index[axis] = 0;
    }
  }
}

void take_row(void *context, int64_t part, int64_t whole, int64_t count) {
  const Rows *r = context;
  memcpy(r->part + part * r->bytes, r->whole + whole * r->bytes, (size_t)(count * r->bytes));
}

void give_row(void *context, int64_t part, int64_t whole, int64_t count) {
  const Rows *r = context;
  memcpy(r->whole + whole * r->bytes, r->part + part * r->bytes, (size_t)(count * r->bytes));
}

void compare_row(void *context, int64_t part, int64_t whole, int64_t count) {
  Rows *r = context;
  for (int64_t e = 0; e < count && r->differs < 0; e++)
    if (memcmp(r->whole + (whole + e) * r->bytes, r->part + (part + e) * r->bytes,
               (size_t)r->bytes) != 0)
      r->differs = whole + e;
}

Rows rows_of(const Share *share, const HostArray *whole) {
  return (Rows){share->part.data, whole->data, dtype_bytes(whole->dtype), -1};
}
