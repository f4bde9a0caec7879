/* Converts DLPack tensors to the arrays of a kernel, or refuses them with a message that gives the
 * expected and the actual value. */
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_EXTENT ((int64_t)INT32_MAX)
#define MAX_SPAN \
  (INT64_MAX / 8) /* bytes; more than any machine has; sums of a few cannot overflow */

/* The data of an array without elements: never read, but not NULL. */
static _Alignas(64) char nothing[64];

static pk_status refuse_operand(const pk_launch *launch, int index, pk_status status,
                                const char *what) {
  return pk_refuse(launch->context, launch->kernel, status, "operand %s: %s",
                   launch->kernel->operand[index].name, what);
}

static const char *dtype_text(DLDataType type, char *text, size_t bytes) {
  for (int k = PK_BOOL; k <= PK_F64; ++k) {
    DLDataType known = pk_dtype_dlpack((pk_dtype)k);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1)
      return pk_dtype_name((pk_dtype)k);
  }
  (void)snprintf(text, bytes, "DLPack type code %d, %d bits, %d lanes", type.code, type.bits,
                 type.lanes);
  return text;
}

/* Checks the device, dtype and rank of a tensor. */
static pk_status check_kind(const pk_launch *launch, int index, const DLTensor *tensor) {
  const pk_operand *operand = &launch->kernel->operand[index];
  char text[160], found[80];
  if (!tensor)
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, "expected a tensor, found NULL");
  if (tensor->device.device_type != kDLCPU && tensor->device.device_type != kDLCUDAHost) {
    (void)snprintf(text, sizeof text, "expected CPU memory, found DLPack device type %d",
                   (int)tensor->device.device_type);
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, text);
  }
  DLDataType wanted = pk_dtype_dlpack(operand->dtype);
  bool packed = pk_is_packed(launch->kernel, index);
  bool in_bytes = packed && tensor->dtype.bits == 8;
  if (tensor->dtype.code != wanted.code || (tensor->dtype.bits != wanted.bits && !in_bytes) ||
      tensor->dtype.lanes != 1) {
    (void)snprintf(text, sizeof text, "expected %s%s, found %s", pk_dtype_name(operand->dtype),
                   packed ? " packed" : "", dtype_text(tensor->dtype, found, sizeof found));
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, text);
  }
  if (tensor->ndim != operand->rank) {
    (void)snprintf(text, sizeof text, "expected %d axes, found %d", operand->rank, tensor->ndim);
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, text);
  }
  if (operand->rank > 0 && !tensor->shape)
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, "shape is NULL");
  return PK_OK;
}

static pk_status refuse_large(const pk_launch *launch, int index, int axis, int64_t extent) {
  char text[160];
  (void)snprintf(text, sizeof text,
                 "axis %d: expected an extent from 0 to 2147483647, found %" PRId64, axis, extent);
  return refuse_operand(launch, index, PK_BAD_SIZE, text);
}

static pk_status check_extents(const pk_launch *launch, int index, const DLTensor *tensor) {
  for (int axis = 0; axis < tensor->ndim; ++axis) {
    int64_t extent = tensor->shape[axis];
    if (extent < 0 || extent > MAX_EXTENT) return refuse_large(launch, index, axis, extent);
  }
  return PK_OK;
}

/* Operands that the mesh divides have their other parts on devices of other processes. */
int64_t pk_parts_here(const pk_launch *launch, int index, int axis) {
  const pk_mesh *mesh = launch->kernel->mesh;
  return mesh && launch->context->link ? pk_parts(mesh, index, axis) : 1;
}

/* The first operand and axis that a size comes from. */
static void find_size(const pk_kernel *kernel, int size, int *operand, int *axis) {
  for (*operand = 0; *operand < kernel->operands; ++*operand) {
    for (*axis = 0; *axis < kernel->operand[*operand].rank; ++*axis) {
      if (kernel->operand[*operand].shape[*axis] == -1 - (int64_t)size) return;
    }
  }
}

/* Refuses a tensor whose extent differs from the expected one; the message names the origin of the
 * latter. */
static pk_status refuse_extent(const pk_launch *launch, int index, int axis, int64_t expected,
                               int64_t found) {
  const pk_kernel *kernel = launch->kernel;
  const pk_operand *operand = &kernel->operand[index];
  const int64_t parts = pk_parts_here(launch, index, axis);
  char source[160] = "", here[80] = "";
  int64_t shape = operand->shape[axis];
  if (shape < 0) {
    int size = (int)(-1 - shape), from = index, from_axis = axis;
    if (size < kernel->bound) find_size(kernel, size, &from, &from_axis);
    if (from == index && from_axis == axis) {
      (void)snprintf(source, sizeof source, " (%s)", kernel->size_name[size]);
    } else {
      (void)snprintf(source, sizeof source, " (%s, axis %d of %s)", kernel->size_name[size],
                     from_axis, kernel->operand[from].name);
    }
  }
  if (parts > 1)
    (void)snprintf(here, sizeof here, ", %" PRId64 " on each of %" PRId64 " devices", found / parts,
                   parts);
  return pk_refuse(launch->context, kernel, PK_BAD_SIZE,
                   "operand %s: axis %d: expected %" PRId64 "%s, found %" PRId64 "%s",
                   operand->name, axis, expected, source, found, here);
}

static pk_status bind_sizes(const pk_launch *launch, int index, const DLTensor *tensor) {
  const pk_operand *operand = &launch->kernel->operand[index];
  for (int axis = 0; axis < operand->rank; ++axis) {
    int64_t shape = operand->shape[axis], expected = shape;
    int64_t extent = pk_sat_mul(tensor->shape[axis], pk_parts_here(launch, index, axis));
    if (extent > MAX_EXTENT) return refuse_large(launch, index, axis, extent);
    if (shape < 0) {
      int64_t size = -1 - shape;
      if (size >= launch->kernel->bound) continue; /* derived: pk_bind_derived compares it */
      if (launch->size[size] < 0) launch->size[size] = extent;
      expected = launch->size[size];
    }
    if (extent != expected) return refuse_extent(launch, index, axis, expected, extent);
  }
  return PK_OK;
}

/* Extents and strides. Strides that have no effect (the extent is below 2) become row-major. */
static void set_strides(pk_array *array, const DLTensor *tensor) {
  int64_t dense = 1; /* the stride that makes an axis contiguous with the inner ones */
  for (int axis = tensor->ndim - 1; axis >= 0; --axis) {
    int64_t extent = tensor->shape[axis];
    array->dim[axis] = extent;
    array->stride[axis] = tensor->strides && extent > 1 ? tensor->strides[axis] : dense;
    if (__builtin_mul_overflow(array->stride[axis], extent > 1 ? extent : 1, &dense))
      dense = 0; /* refused by set_span */
  }
}

/* The range of the elements' addresses; false if it does not fit an address. */
static bool set_span(pk_view *view, int rank, int64_t element_bytes, uintptr_t data) {
  int64_t below = 0, above = 0;
  view->elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    int64_t last = view->caller.dim[axis] - 1, reach;
    if (__builtin_mul_overflow(view->elements, view->caller.dim[axis], &view->elements))
      return false;
    if (__builtin_mul_overflow(view->caller.stride[axis], last * element_bytes, &reach))
      return false;
    if (reach > MAX_SPAN || reach < -MAX_SPAN) return false;
    if (reach < 0)
      below -= reach;
    else
      above += reach;
    if (below > MAX_SPAN || above > MAX_SPAN) return false;
  }
  if (view->elements > MAX_SPAN / element_bytes) return false;
  if (view->caller.packed) { /* in elements until here */
    below = (below * view->caller.packed + 7) / 8;
    above = above * view->caller.packed / 8;
  }
  view->low = data - (uintptr_t)below;
  view->span = below + above + element_bytes;
  return view->span <= MAX_SPAN && (uint64_t)below <= data &&
         (uint64_t)above + (uint64_t)element_bytes <= UINTPTR_MAX - data;
}

static void set_empty(pk_view *view, int rank) {
  for (int axis = 0; axis < rank; ++axis) view->caller.stride[axis] = axis == rank - 1;
  view->caller.data = nothing;
  view->elements = view->span = 0;
  view->low = (uintptr_t)nothing;
}

/* Stores the memory and strides of a tensor, which must be aligned and addressable. */
static pk_status bind_memory(const pk_launch *launch, int index, const DLTensor *tensor) {
  pk_view *view = &launch->view[index];
  int64_t element_bytes = pk_dtype_bytes(launch->kernel->operand[index].dtype);
  view->stage = -1;
  view->caller.packed =
      pk_is_packed(launch->kernel, index) && tensor->dtype.bits < 8 ? tensor->dtype.bits : 0;
  set_strides(&view->caller, tensor);
  for (int axis = 0; axis < tensor->ndim; ++axis) {
    if (view->caller.dim[axis] != 0) continue;
    set_empty(view, tensor->ndim);
    return PK_OK;
  }
  if (!tensor->data) return refuse_operand(launch, index, PK_BAD_ARGUMENT, "data is NULL");
  uintptr_t data = (uintptr_t)tensor->data;
  if (tensor->byte_offset > UINTPTR_MAX - data)
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, "byte_offset is too large");
  data += (uintptr_t)tensor->byte_offset;
  if (data % (uintptr_t)element_bytes) {
    return refuse_operand(launch, index, PK_BAD_ARGUMENT, "data is not aligned to its elements");
  }
  if (!set_span(view, tensor->ndim, element_bytes, data)) {
    return refuse_operand(launch, index, PK_BAD_SIZE,
                          "extents and strides reach beyond any memory");
  }
  view->caller.data = (char *)tensor->data + tensor->byte_offset;
  return PK_OK;
}

/* The operand whose memory this one shares by `alias`. */
static int alias_root(const pk_kernel *kernel, int index) {
  for (int step = 0; step < kernel->operands && kernel->operand[index].alias >= 0; ++step) {
    if (kernel->operand[index].alias >= kernel->operands) break;
    index = kernel->operand[index].alias;
  }
  return index;
}

static bool same_memory(const pk_view *a, const pk_view *b, int rank) {
  if (a->elements == 0 && b->elements == 0) return true;
  if (a->caller.data != b->caller.data) return false;
  for (int axis = 0; axis < rank; ++axis) {
    if (a->caller.dim[axis] != b->caller.dim[axis] ||
        a->caller.stride[axis] != b->caller.stride[axis])
      return false;
  }
  return true;
}

static pk_status check_pair(const pk_launch *launch, int output, int other) {
  const pk_kernel *kernel = launch->kernel;
  const pk_operand *o = &kernel->operand[output], *x = &kernel->operand[other];
  const pk_view *o_view = &launch->view[output], *x_view = &launch->view[other];
  if (alias_root(kernel, output) == alias_root(kernel, other)) {
    if (o->rank == x->rank && same_memory(o_view, x_view, o->rank)) return PK_OK;
    return pk_refuse(launch->context, kernel, PK_OVERLAP,
                     "operand %s: expected the memory and strides of %s, its alias; found others",
                     o->name, x->name);
  }
  if (!pk_views_overlap(o_view, o->rank, pk_dtype_bytes(o->dtype), x_view, x->rank,
                        pk_dtype_bytes(x->dtype)))
    return PK_OK;
  return pk_refuse(launch->context, kernel, PK_OVERLAP,
                   "operand %s overlaps operand %s: expected memory of its own", o->name, x->name);
}

static pk_status check_overlaps(const pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  for (int i = 0; i < kernel->operands; ++i) {
    const pk_operand *operand = &kernel->operand[i];
    if (!operand->output) continue;
    if (pk_view_overlaps_itself(&launch->view[i], operand->rank, pk_dtype_bytes(operand->dtype))) {
      return refuse_operand(launch, i, PK_OVERLAP,
                            "an output, but its strides put several elements at one address");
    }
    for (int j = 0; j < kernel->operands; ++j) {
      if (j == i || (kernel->operand[j].output && j > i)) continue;
      pk_status status = check_pair(launch, i, j);
      if (status != PK_OK) return status;
    }
  }
  return PK_OK;
}

static bool make_tables(pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  int64_t operands = kernel->operands, sizes = kernel->sizes;
  int64_t array_bytes = operands * (int64_t)sizeof(pk_array),
          view_bytes = operands * (int64_t)sizeof(pk_view);
  if (!pk_memory_reserve(launch->tables,
                         array_bytes + view_bytes + sizes * (int64_t)sizeof(int64_t) + 1))
    return false;
  char *base = launch->tables->data;
  launch->array = (void *)base;
  launch->view = (void *)(base + array_bytes);
  launch->size = (void *)(base + array_bytes + view_bytes);
  for (int i = 0; i < kernel->sizes; ++i) launch->size[i] = -1;
  return true;
}

static pk_status take_sizes(const pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  for (int i = 0; launch->sizes && i < kernel->bound; ++i) {
    launch->size[i] = launch->sizes[i];
    if (launch->sizes[i] > MAX_EXTENT)
      return pk_refuse(launch->context, kernel, PK_BAD_SIZE,
                       "%s: expected a size from 0 to 2147483647, found %" PRId64,
                       kernel->size_name[i], launch->sizes[i]);
  }
  return PK_OK;
}

/* Checks a call's tensors, and derives sizes, memory and strides from them. */
pk_status pk_bind(pk_launch *launch, DLTensor *const *tensors) {
  const pk_kernel *kernel = launch->kernel;
  if (!make_tables(launch))
    return pk_refuse(launch->context, kernel, PK_NO_MEMORY, "no memory for the tables of a call");
  launch->operands = launch->inputs_only ? kernel->inputs : kernel->operands;
  if (launch->operands > 0 && !tensors)
    return pk_refuse(launch->context, kernel, PK_BAD_ARGUMENT, "expected tensors, found NULL");
  pk_status known = take_sizes(launch);
  if (known != PK_OK) return known;
  for (int i = 0; i < launch->operands; ++i) {
    pk_status status = check_kind(launch, i, tensors[i]);
    if (status == PK_OK) status = check_extents(launch, i, tensors[i]);
    if (status == PK_OK) status = bind_sizes(launch, i, tensors[i]);
    if (status == PK_OK) status = bind_memory(launch, i, tensors[i]);
    if (status != PK_OK) return status;
    launch->array[i] = launch->view[i].caller;
  }
  for (int i = 0; i < kernel->bound; ++i) {
    if (launch->size[i] >= 0) continue;
    return pk_refuse(launch->context, kernel, PK_BAD_SIZE,
                     "no operand says what %s is: pass it as a size, %s=..", kernel->size_name[i],
                     kernel->size_name[i]);
  }
  return launch->inputs_only ? PK_OK : check_overlaps(launch);
}

pk_status pk_bind_derived(const pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  for (int i = 0; i < launch->operands; ++i) {
    for (int axis = 0; axis < kernel->operand[i].rank; ++axis) {
      int64_t size = -1 - kernel->operand[i].shape[axis];
      if (size < kernel->bound) continue;
      int64_t found = pk_sat_mul(launch->view[i].caller.dim[axis], pk_parts_here(launch, i, axis));
      if (found != launch->size[size])
        return refuse_extent(launch, i, axis, launch->size[size], found);
    }
  }
  return PK_OK;
}
