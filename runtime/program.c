/* Programs: the memory of temporaries, and the calls of kernels. */
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64, MOST_OPERANDS = 256 };

/* ---- Temporaries. */

/* The extent of this device's part, if other processes have the other parts. */
static int64_t extent_of(const pk_launch *launch, const pk_temporary *t, int axis) {
  const int array = launch->kernel->operands + (int)(t - launch->kernel->temporary);
  const int64_t extent = t->shape[axis] < 0 ? launch->size[-1 - t->shape[axis]] : t->shape[axis];
  return extent / pk_parts_here(launch, array, axis);
}

/* The bytes of a temporary, in whole cache lines; INT64_MAX if it is too large or an extent is
 * invalid. */
static int64_t bytes_of(const pk_launch *launch, const pk_temporary *t) {
  int64_t bytes = pk_dtype_bytes(t->dtype);
  for (int axis = 0; axis < t->rank; ++axis) {
    const int64_t extent = extent_of(launch, t, axis);
    bytes = extent < 0 || extent > INT32_MAX ? INT64_MAX : pk_sat_mul(bytes, extent);
  }
  if (bytes > INT64_MAX - ALIGNMENT) return INT64_MAX;
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

typedef struct {
  int64_t offset, bytes;
} pk_place;

static bool alive_together(const pk_temporary *a, const pk_temporary *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset that is free while the temporary is live. Earlier temporaries already have
 * theirs. */
static void find_place(const pk_launch *launch, pk_place *places, int index) {
  const pk_temporary *t = launch->kernel->temporary;
  pk_place *mine = &places[index];
  mine->offset = 0;
  mine->bytes = bytes_of(launch, &t[index]);
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < index; ++i) {
      const int64_t end = pk_sat_add(places[i].offset, places[i].bytes);
      if (!alive_together(&t[i], &t[index]) || mine->offset >= end ||
          pk_sat_add(mine->offset, mine->bytes) <= places[i].offset)
        continue;
      mine->offset = end;
      moved = end < INT64_MAX;
    }
  }
}

/* The memory of the temporaries begins with the arrays and offsets. */
static int64_t table_bytes(const pk_kernel *kernel) {
  const int64_t arrays = kernel->operands + (int64_t)kernel->temporaries;
  const int64_t bytes =
      arrays * (int64_t)sizeof(pk_array) + kernel->temporaries * (int64_t)sizeof(pk_place);
  return (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
}

static pk_array *arrays_of(const pk_launch *launch) { return launch->context->temporaries.data; }

static pk_place *places_of(const pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  return (void *)(arrays_of(launch) + kernel->operands + kernel->temporaries);
}

int64_t pk_place_temporaries(const pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  int64_t bytes = 0;
  if (!pk_memory_reserve(&launch->context->temporaries, table_bytes(kernel))) {
    (void)pk_refuse(launch->context, kernel, PK_NO_MEMORY, "no memory for the tables of a call");
    return -1;
  }
  pk_place *places = places_of(launch);
  for (int i = 0; i < kernel->temporaries; ++i) {
    find_place(launch, places, i);
    const int64_t end = pk_sat_add(places[i].offset, places[i].bytes);
    if (end > bytes) bytes = end;
  }
  return bytes;
}

/* Growing loses the contents of the memory, so the offsets are computed again. */
static pk_status reserve_temporaries(const pk_launch *launch) {
  pk_memory *memory = &launch->context->temporaries;
  const int64_t bytes = pk_place_temporaries(launch);
  if (bytes < 0) return PK_NO_MEMORY;
  const int64_t all = pk_sat_add(bytes, table_bytes(launch->kernel));
  if (all <= memory->bytes) return PK_OK;
  if (all < INT64_MAX && pk_memory_reserve(memory, all)) {
    (void)pk_place_temporaries(launch);
    return PK_OK;
  }
  return pk_refuse(launch->context, launch->kernel, PK_NO_MEMORY,
                   "no memory for %" PRId64 " bytes of temporaries", bytes);
}

static void set_temporary(const pk_launch *launch, int index) {
  const pk_kernel *kernel = launch->kernel;
  const pk_temporary *t = &kernel->temporary[index];
  pk_array *array = &arrays_of(launch)[kernel->operands + index];
  int64_t dense = 1;
  *array = (pk_array){.data = (char *)launch->context->temporaries.data + table_bytes(kernel) +
                              places_of(launch)[index].offset};
  for (int axis = t->rank - 1; axis >= 0; --axis) {
    array->dim[axis] = extent_of(launch, t, axis);
    array->stride[axis] = dense;
    dense = pk_sat_mul(dense, array->dim[axis]);
  }
}

static void set_arrays(const pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  if (kernel->operands > 0)
    memcpy(arrays_of(launch), launch->array, (size_t)kernel->operands * sizeof(pk_array));
  for (int i = 0; i < kernel->temporaries; ++i) set_temporary(launch, i);
}

static pk_status pass(const pk_launch *launch, bool checking) {
  pk_flow flow = {launch->kernel, arrays_of(launch), launch->size, checking,
                  PK_OK,          launch->context};
  set_arrays(launch);
  launch->kernel->program(&flow);
  return flow.status;
}

pk_status pk_check_program(const pk_launch *launch) {
  const pk_status status = reserve_temporaries(launch);
  return status == PK_OK ? pass(launch, true) : status;
}

pk_status pk_run_program(const pk_launch *launch) { return pass(launch, false); }

/* ---- Functions that generated code calls. */

typedef struct {
  const char *name;
  int rank;
  pk_dtype dtype;
} pk_about;

static pk_about about(const pk_flow *flow, int array) {
  const pk_kernel *kernel = flow->kernel;
  if (array < kernel->operands) {
    const pk_operand *o = &kernel->operand[array];
    return (pk_about){o->name, o->rank, o->dtype};
  }
  const pk_temporary *t = &kernel->temporary[array - kernel->operands];
  return (pk_about){t->name, t->rank, t->dtype};
}

/* Advances by that many elements; false if the element does not begin at a byte. */
static bool move_to(pk_array *array, int64_t elements, pk_dtype dtype) {
  const int64_t each = array->packed ? 8 / array->packed : 1;
  array->data += elements / each * pk_dtype_bytes(dtype);
  return elements % each == 0;
}

pk_array pk_flow_part(pk_flow *flow, int array, int leading, const int64_t *index) {
  const pk_array *whole = &flow->array[array];
  const pk_about what = about(flow, array);
  pk_array part = {.data = whole->data, .packed = whole->packed};
  int64_t offset = 0;
  if (flow->status != PK_OK) return part;
  for (int axis = 0; axis < leading; ++axis) {
    if (index[axis] < 0 || index[axis] >= whole->dim[axis]) {
      flow->status =
          pk_refuse(flow->context, flow->kernel, PK_BAD_SIZE,
                    "index %" PRId64 " of axis %d of %s is outside: it has %" PRId64 " elements",
                    index[axis], axis, what.name, whole->dim[axis]);
      return part;
    }
    offset += index[axis] * whole->stride[axis];
  }
  if (!move_to(&part, offset, what.dtype)) {
    flow->status = pk_refuse(flow->context, flow->kernel, PK_BAD_SIZE,
                             "a part of %s, which is packed, begins within a byte", what.name);
    return part;
  }
  for (int axis = leading; axis < what.rank; ++axis) {
    part.dim[axis - leading] = whole->dim[axis];
    part.stride[axis - leading] = whole->stride[axis];
  }
  return part;
}

static int64_t elements_of(const int64_t *extent, int rank) {
  int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis) {
    count =
        extent[axis] < 0 || extent[axis] > INT32_MAX ? INT64_MAX : pk_sat_mul(count, extent[axis]);
  }
  return count;
}

/* The strides of `to`, from its last axis: groups of axes of `from` and of `to` have the same
 * number of elements, and those of a group of `from` must follow each other without gaps. */
static bool reshape_strides(const pk_array *from, int from_rank, pk_array *to, int rank) {
  int axis = from_rank - 1, new_axis = rank - 1;
  while (new_axis >= 0) {
    while (axis > 0 && from->dim[axis] == 1) --axis;
    int64_t have = axis >= 0 ? from->dim[axis] : 1, want = to->dim[new_axis];
    int64_t stride = axis >= 0 ? from->stride[axis] : 1;
    to->stride[new_axis--] = stride;
    while (have != want) {
      if (have < want) {
        if (axis == 0) return false;
        const int64_t outer = --axis;
        if (from->dim[outer] == 1) continue;
        if (from->stride[outer] != from->stride[outer + 1] * from->dim[outer + 1]) return false;
        have *= from->dim[outer];
      } else {
        if (new_axis < 0) return false;
        to->stride[new_axis] = to->stride[new_axis + 1] * to->dim[new_axis + 1];
        want *= to->dim[new_axis--];
      }
    }
    --axis;
  }
  return true;
}

static void refuse_reshape(pk_flow *flow, int array, const char *what) {
  flow->status = pk_refuse(flow->context, flow->kernel, PK_BAD_SIZE, "reshape of %s: %s",
                           about(flow, array).name, what);
}

pk_array pk_flow_reshape(pk_flow *flow, int array, pk_array part, int part_rank, int rank,
                         const int64_t *shape) {
  pk_array to = {.data = part.data, .packed = part.packed};
  char text[96];
  if (flow->status != PK_OK) return part;
  const int64_t have = elements_of(part.dim, part_rank), want = elements_of(shape, rank);
  if (have != want || want == INT64_MAX) {
    (void)snprintf(text, sizeof text, "it has %" PRId64 " elements, not %" PRId64, have, want);
    refuse_reshape(flow, array, text);
    return part;
  }
  int64_t dense = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    to.dim[axis] = shape[axis];
    to.stride[axis] = dense;
    dense *= shape[axis] > 1 ? shape[axis] : 1;
  }
  if (have > 1 && !reshape_strides(&part, part_rank, &to, rank))
    refuse_reshape(flow, array, "its rows are not contiguous in memory");
  return to;
}

/* Prefixes the kernel's message with the call of the program. */
static void name_call(const pk_flow *flow, int line) {
  char *message = flow->context->message, own[PK_MESSAGE_BYTES];
  memcpy(own, message, sizeof own);
  int length = snprintf(message, PK_MESSAGE_BYTES, "%s: line %d: ", flow->kernel->name, line);
  if (length > 0 && length < PK_MESSAGE_BYTES)
    (void)snprintf(message + length, (size_t)(PK_MESSAGE_BYTES - length), "%s", own);
}

static pk_status call_arrays(const pk_flow *flow, const pk_kernel *kernel, const pk_array *arrays) {
  DLTensor tensor[MOST_OPERANDS], *tensors[MOST_OPERANDS];
  if (kernel->operands > MOST_OPERANDS) {
    return pk_refuse(flow->context, kernel, PK_BAD_ARGUMENT,
                     "a program calls kernels of at most %d operands", MOST_OPERANDS);
  }
  for (int i = 0; i < kernel->operands; ++i) {
    tensors[i] = &tensor[i];
    tensor[i] = (DLTensor){.data = arrays[i].data,
                           .device = {kDLCPU, 0},
                           .ndim = kernel->operand[i].rank,
                           .dtype = pk_dtype_dlpack(kernel->operand[i].dtype),
                           .shape = (int64_t *)(uintptr_t)arrays[i].dim,
                           .strides = (int64_t *)(uintptr_t)arrays[i].stride};
    if (pk_is_packed(kernel, i) && !arrays[i].packed) tensor[i].dtype.bits = 8;
  }
  return pk_launch_inner(flow->context, kernel, tensors, flow->checking);
}

bool pk_flow_call(pk_flow *flow, int line, const pk_kernel *kernel, const pk_array *arrays) {
  if (flow->status != PK_OK) return false;
  flow->status = call_arrays(flow, kernel, arrays);
  if (flow->status == PK_OK) return true;
  if (!flow->checking) flow->status = PK_FAILED; /* earlier calls have written */
  name_call(flow, line);
  return false;
}
