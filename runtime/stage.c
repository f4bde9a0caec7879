/* Operands whose innermost stride is not 1: the kernel works on contiguous copies. Packed operands
 * are always copied block by block. */
#include "runtime/runtime.h"

#include <inttypes.h>

enum { STAGE_ALIGNMENT = 4096 };

static bool needs_stage(const pk_view *view, int rank) {
  return !view->caller.packed && view->elements > 0 && rank > 0 && view->caller.dim[rank - 1] > 1 &&
         view->caller.stride[rank - 1] != 1;
}

/* An earlier operand with the same memory (by `alias`, or an input that was passed twice) that
 * already has a copy; -1 if there is none. */
static int64_t shared_stage(const pk_launch *launch, int index) {
  const pk_operand *operand = launch->kernel->operand;
  const pk_array *mine = &launch->view[index].caller;
  for (int i = 0; i < index; ++i) {
    const pk_view *view = &launch->view[i];
    if (view->stage < 0 || operand[i].dtype != operand[index].dtype ||
        operand[i].rank != operand[index].rank)
      continue;
    bool same = view->caller.data == mine->data;
    for (int k = 0; same && k < operand[i].rank; ++k) {
      same = view->caller.dim[k] == mine->dim[k] && view->caller.stride[k] == mine->stride[k];
    }
    if (same) return view->stage;
  }
  return -1;
}

static void use_stage(const pk_launch *launch, int index) {
  pk_array *array = &launch->array[index];
  int64_t dense = 1;
  for (int axis = launch->kernel->operand[index].rank - 1; axis >= 0; --axis) {
    array->stride[axis] = dense;
    dense *= array->dim[axis];
  }
  array->data = (char *)launch->context->stage.data + launch->view[index].stage;
}

pk_status pk_stage_plan(pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  launch->stage_bytes = 0;
  for (int i = 0; i < launch->operands; ++i) {
    pk_view *view = &launch->view[i];
    if (!needs_stage(view, kernel->operand[i].rank)) continue;
    view->stage = shared_stage(launch, i);
    if (view->stage >= 0) continue;
    int64_t bytes = pk_sat_mul(view->elements, pk_dtype_bytes(kernel->operand[i].dtype));
    view->stage = launch->stage_bytes;
    launch->stage_bytes = pk_sat_add(pk_sat_add(launch->stage_bytes, bytes), STAGE_ALIGNMENT - 1);
    if (launch->stage_bytes < INT64_MAX)
      launch->stage_bytes -= launch->stage_bytes % STAGE_ALIGNMENT;
  }
  if (launch->stage_bytes == 0) return PK_OK;
  if (launch->stage_bytes == INT64_MAX ||
      !pk_memory_reserve(&launch->context->stage, launch->stage_bytes)) {
    return pk_refuse(launch->context, kernel, PK_NO_MEMORY,
                     "no memory for %" PRId64
                     " bytes of copies of operands whose innermost stride is not 1",
                     launch->stage_bytes);
  }
  for (int i = 0; i < launch->operands; ++i) {
    if (launch->view[i].stage >= 0) use_stage(launch, i);
  }
  return PK_OK;
}

static void copy(const pk_launch *launch, int index, const pk_array *from, const pk_array *to) {
  const pk_operand *operand = &launch->kernel->operand[index];
  int64_t element_bytes = pk_dtype_bytes(operand->dtype);
  pk_nest nest = {.rank = operand->rank};
  for (int k = 0; k < nest.rank; ++k) {
    nest.count[k] = from->dim[k];
    nest.from_stride[k] = from->stride[k] * element_bytes;
    nest.to_stride[k] = to->stride[k] * element_bytes;
  }
  pk_copy_nest(nest, element_bytes, from->data, to->data);
}

/* Copies operands to their stages, or outputs back, and records the bytes. */
static void copy_staged(const pk_launch *launch, bool back) {
  pk_trace *trace = launch->context->trace;
  const int64_t begun = trace ? pk_trace_now() : 0;
  int64_t bytes = 0;
  for (int i = 0; i < launch->operands; ++i) {
    const pk_view *view = &launch->view[i];
    const pk_operand *operand = &launch->kernel->operand[i];
    if (view->stage < 0 || (back && !operand->output)) continue;
    if (back)
      copy(launch, i, &launch->array[i], &view->caller);
    else
      copy(launch, i, &view->caller, &launch->array[i]);
    bytes += view->elements * pk_dtype_bytes(operand->dtype);
  }
  if (bytes > 0 && trace && pk_trace_reserve(trace, 0))
    pk_trace_record(pk_trace_worker(trace, 0), back ? "stage out" : "stage in", "dma", begun,
                    "bytes", bytes);
}

/* Outputs are copied too, so that elements that the kernel does not store keep their values. */
void pk_stage_in(const pk_launch *launch) {
  if (launch->stage_bytes > 0) copy_staged(launch, false);
}

void pk_stage_out(const pk_launch *launch) {
  if (launch->stage_bytes > 0) copy_staged(launch, true);
}
