/* A call: bind, prepare, limits, memory, cells over threads. */
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static pk_status check_call(const pk_launch *launch) {
  pk_context *context = launch->context;
  const pk_kernel *kernel = launch->kernel;
  if (!kernel) return pk_refuse(context, NULL, PK_BAD_ARGUMENT, "expected a kernel, found NULL");
  if (kernel->abi != PK_ABI) {
    return pk_refuse(
        context, NULL, PK_BAD_ARGUMENT,
        "the kernel was compiled for version %d of the runtime's interface, this is %d",
        kernel->abi, PK_ABI);
  }
  if (kernel->variant) return pk_refuse_processor(context, kernel);
  if (context->bad_threads)
    return pk_refuse(context, kernel, PK_BAD_ARGUMENT, "%s", context->bad_threads);
  if (context->bad_limit)
    return pk_refuse(context, kernel, PK_BAD_ARGUMENT, "%s", context->bad_limit);
  return PK_OK;
}

static pk_status check_vmem(const pk_launch *launch) {
  int64_t limit = launch->context->vmem_limit, needed = launch->plan.vmem_bytes;
  const char *origin = launch->context->limit_origin;
  if (!limit) {
    limit = launch->kernel->vmem_limit;
    origin = "the kernel's vmem_limit";
  }
  if (!limit) {
    limit = PK_DEFAULT_VMEM_LIMIT;
    origin = "the default; vmem_limit, --vmem-limit or PK_VMEM_LIMIT sets another";
  }
  if (needed <= limit && needed < INT64_MAX) return PK_OK;
  return pk_refuse(launch->context, launch->kernel, PK_VMEM_EXCEEDED,
                   "the blocks and scratch need %s%" PRId64 " bytes of VMEM, the limit is %" PRId64
                   " (%s)",
                   needed == INT64_MAX ? "more than " : "", needed, limit, origin);
}

static int64_t operand_bytes(const pk_launch *launch) {
  int64_t all = 0;
  for (int i = 0; i < launch->kernel->operands; ++i) {
    const pk_operand *operand = &launch->kernel->operand[i];
    const int64_t element = pk_dtype_bytes(operand->dtype);
    all = pk_sat_add(all, pk_array_bytes(&launch->array[i], operand->rank, element));
  }
  return all;
}

/* The cost of starting a part of a cell, and of the work that all parts repeat, pays from about 20
 * microseconds of work on. */
#define WORK_WORTH_A_PART (20 * PK_WORK_PER_MICROSECOND)
/* With this many cells per thread, the threads have nearly equal work. */
#define CELLS_ENOUGH 8

/* The largest number of whole cells that a thread has. */
static double longest_share(int64_t cells, int64_t parts, int threads) {
  return (double)((cells * parts + threads - 1) / threads) / (double)parts;
}

/* Cells are divided into the smallest number of parts that gives each thread an equal or nearly
 * equal share. */
static void cut_cells(pk_launch *launch) {
  pk_plan *plan = &launch->plan;
  const int threads = pk_allowed_threads(launch->context);
  if (plan->split_rows < 1 || threads < 2 || plan->cells < 1 ||
      plan->cells >= (int64_t)CELLS_ENOUGH * threads)
    return;
  const double worth = plan->split_work / WORK_WORTH_A_PART;
  int64_t most = plan->split_rows / plan->least_rows, parts = 1;
  if (worth < (double)most) most = (int64_t)worth;
  if (most > threads) most = threads;
  for (int64_t more = 2; more <= most; ++more)
    if (longest_share(plan->cells, more, threads) <
        0.9 * longest_share(plan->cells, parts, threads))
      parts = more;
  plan->parts = parts;
  plan->cells *= plan->parts;
  plan->work /= (double)plan->parts;
}

static const char *plan_call(pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  const char *requirement = kernel->prepare_from
                                ? kernel->prepare_from(launch->array, launch->size, &launch->plan)
                                : kernel->prepare(launch->size, &launch->plan);
  launch->plan.operand_bytes = operand_bytes(launch);
  if (!requirement && !kernel->mesh) cut_cells(launch);
  return requirement;
}

static pk_status prepare(pk_launch *launch) {
  const char *requirement = plan_call(launch);
  if (requirement)
    return pk_refuse(launch->context, launch->kernel, PK_REQUIREMENT, "%s", requirement);
  pk_status status = pk_bind_derived(launch);
  if (status != PK_OK) return status;
  if (launch->plan.cells == INT64_MAX || launch->plan.steps == INT64_MAX) {
    return pk_refuse(launch->context, launch->kernel, PK_BAD_SIZE, "the grid has too many steps");
  }
  return check_vmem(launch);
}

static bool has_no_gaps(const pk_array *array, int rank) {
  int64_t dense = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (array->stride[axis] != dense) return false;
    dense *= array->dim[axis];
  }
  return true;
}

/* An elementwise kernel does not depend on the shape of its arrays: as one long row they have no
 * partial vectors at the ends of rows. */
static void take_as_one_row(pk_launch *launch) {
  const pk_kernel *kernel = launch->kernel;
  const int last = kernel->operand[0].rank - 1;
  if (launch->stage_bytes > 0) return;
  for (int i = 0; i < kernel->operands; ++i) {
    if (!has_no_gaps(&launch->array[i], last + 1)) return;
  }
  const int64_t elements = launch->view[0].elements;
  for (int axis = 0; axis <= last; ++axis) {
    const int64_t extent = axis == last ? elements : 1;
    launch->size[-1 - kernel->operand[0].shape[axis]] = extent;
    for (int i = 0; i < kernel->operands; ++i) {
      launch->array[i].dim[axis] = extent;
      launch->array[i].stride[axis] = axis == last ? 1 : elements;
    }
  }
  (void)plan_call(launch);
}

static int choose_threads(const pk_launch *launch) {
  const pk_plan *plan = &launch->plan;
  return pk_threads_worth(launch->kernel, plan->cells, plan->work,
                          pk_allowed_threads(launch->context));
}

/* A worker of a call. It has its own cache lines, because `failure` is read after every cell. */
typedef struct {
  _Alignas(PK_APART) pk_worker worker;
  int64_t failed; /* the first of its cells that failed, or -1 */
} pk_member;

static bool reserve_tables(pk_context *context, int threads) {
  const bool first = !context->arenas.data;
  if (!pk_memory_reserve(&context->arenas, PK_MAX_THREADS * (int64_t)sizeof(pk_memory)))
    return false;
  if (first) memset(context->arenas.data, 0, PK_MAX_THREADS * sizeof(pk_memory));
  return pk_memory_reserve(&context->workers, threads * (int64_t)sizeof(pk_member));
}

static bool reserve_worker(const pk_launch *launch, int thread) {
  pk_context *context = launch->context;
  pk_memory *arena = (pk_memory *)context->arenas.data + thread;
  pk_member *member = (pk_member *)context->workers.data + thread;
  /* At least one byte, so that every arena has an address. */
  if (!pk_memory_reserve(arena, launch->plan.arena_bytes > 0 ? launch->plan.arena_bytes : 1))
    return false;
  if (context->trace && !pk_trace_reserve(context->trace, thread)) return false;
  *member = (pk_member){.worker = {.arena = arena->data, .thread = thread}, .failed = -1};
  if (context->trace) member->worker.trace = pk_trace_worker(context->trace, thread);
  return true;
}

/* The number of workers, up to `threads`, for which there is memory. */
static int reserve_workers(const pk_launch *launch, int threads) {
  int workers = 0;
  if (!reserve_tables(launch->context, threads)) return 0;
  while (workers < threads && reserve_worker(launch, workers)) ++workers;
  return workers;
}

static void clear(const pk_plan *plan, pk_worker *worker) {
  int64_t bytes = plan->clear_bytes < plan->arena_bytes ? plan->clear_bytes : plan->arena_bytes;
  if (bytes > 0) memset(worker->arena, 0, (size_t)bytes);
}

static void run_cell(const pk_call *call, pk_worker *worker, int64_t cell) {
  if (!worker->trace) {
    call->kernel->cell(call, worker, cell);
    return;
  }
  int64_t start = pk_trace_now();
  call->kernel->cell(call, worker, cell);
  pk_trace_record(worker->trace, call->kernel->name, "cell", start, "cell", cell);
}

/* The number of cells that a thread takes at a time: one, unless cells are so short that taking
 * them would cost a noticeable share of the time.
 */
static int64_t chunk_cells(const pk_plan *plan, int threads) {
  double cells = 10 * PK_WORK_PER_MICROSECOND / (plan->work > 1 ? plan->work : 1);
  int64_t most = plan->cells / threads / 8;
  int64_t chunk = cells < 1 ? 1 : cells < (double)most ? (int64_t)cells : most;
  return chunk < 1 ? 1 : chunk;
}

static void lower_to(int64_t *shared, int64_t value) {
  int64_t seen = __atomic_load_n(shared, __ATOMIC_RELAXED);
  while (value < seen && !__atomic_compare_exchange_n(shared, &seen, value, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {}
}

/* State shared by the threads of a call. `next` changes with each chunk and has cache lines of its
 * own, so that reading the rest stays in each thread's cache. */
typedef struct {
  const pk_call *call;
  pk_member *members;
  int64_t chunk, first_failed;
  _Alignas(PK_APART) int64_t next;
} parallel_run;

/* Runs cells until none is left; returns the first that failed, or -1. */
static int64_t run_cells(parallel_run *run, pk_worker *worker) {
  int64_t cells = run->call->plan->cells;
  for (bool cleared = false;; cleared = true) {
    int64_t cell = __atomic_fetch_add(&run->next, run->chunk, __ATOMIC_RELAXED);
    int64_t end = cells - cell < run->chunk ? cells : cell + run->chunk;
    if (cell >= cells) return -1;
    if (!cleared) clear(run->call->plan, worker);
    for (; cell < end; ++cell) {
      if (cell > __atomic_load_n(&run->first_failed, __ATOMIC_RELAXED)) return -1;
      run_cell(run->call, worker, cell);
      if (!worker->failure) continue;
      lower_to(&run->first_failed, cell);
      return cell;
    }
  }
}

static void run_share(void *argument, int place) {
  parallel_run *run = argument;
  pk_member *member = &run->members[place];
  member->failed = run_cells(run, &member->worker);
  pk_order_streams();
}

/* Cells are started in order, so the first one that fails, and with it the message, does not depend
 * on the number of threads. */
static const char *run_workers(const pk_call *call, int workers) {
  pk_member *members = call->context->workers.data;
  parallel_run run = {call, members, chunk_cells(call->plan, workers), INT64_MAX, 0};
  pk_run_shared(call->context, workers, run_share, &run);
  for (int i = 0; i < workers; ++i) {
    if (members[i].failed >= 0 && members[i].failed == run.first_failed)
      return members[i].worker.failure;
  }
  return NULL;
}

/* `kernel` NULL: the failure names it. */
static pk_status refuse_device(const pk_call *call, const pk_kernel *kernel, pk_status status,
                               const char *failure, int device) {
  const pk_mesh *mesh = call->kernel->mesh;
  char place[PK_MESSAGE_BYTES / 4];
  int length = 0;
  int64_t index[PK_MESH_AXES];
  pk_device_index(mesh, device, index);
  for (int i = 0; i < mesh->axes && length < (int)sizeof place; ++i)
    length += snprintf(place + length, sizeof place - (size_t)length, "%s%s=%" PRId64,
                       i ? ", " : "", mesh->name[i], index[i]);
  return pk_refuse(call->context, kernel, status, "%s, on device (%s)", failure, place);
}

/* Each worker is a device. */
static pk_status run_on_devices(const pk_call *call) {
  pk_member *members = call->context->workers.data;
  pk_worker *workers[PK_MAX_DEVICES];
  int device = -1, count = pk_device_count(call->kernel);
  for (int i = 0; i < count; ++i) {
    workers[i] = &members[i].worker;
    clear(call->plan, workers[i]);
  }
  const char *failure = pk_run_devices(call, workers, &device);
  if (!failure) return PK_OK;
  if (device >= 0) return refuse_device(call, call->kernel, PK_FAILED, failure, device);
  return pk_refuse(call->context, call->kernel, PK_NO_MEMORY, "%s", failure);
}

static pk_status refuse_arena(const pk_launch *launch) {
  return pk_refuse(launch->context, launch->kernel, PK_NO_MEMORY,
                   "no memory for an arena of %" PRId64 " bytes", launch->plan.arena_bytes);
}

static pk_status run_untimed(const pk_launch *launch) {
  const bool mesh = launch->kernel->mesh;
  const int wanted = mesh ? pk_device_count(launch->kernel) : choose_threads(launch);
  const int workers = reserve_workers(launch, wanted);
  if (workers == 0 || (mesh && workers < wanted)) return refuse_arena(launch);
  const pk_call call = {launch->kernel, launch->array, launch->size, &launch->plan,
                        launch->context};
  if (!launch->kernel->prepare_from) pk_stage_in(launch);
  if (mesh) {
    const pk_status status = run_on_devices(&call);
    if (status == PK_OK) pk_stage_out(launch);
    return status;
  }
  const int threads = pk_begin_work(launch->context, workers);
  const char *failure = run_workers(&call, threads);
  pk_end_work(threads);
  if (failure) return pk_refuse(launch->context, launch->kernel, PK_FAILED, "%s", failure);
  pk_stage_out(launch);
  return PK_OK;
}

static pk_status run(const pk_launch *launch) {
  const pk_context *context = launch->context;
  if (!context->profiling) return run_untimed(launch);
  const int64_t start = pk_trace_now();
  const pk_status status = run_untimed(launch);
  pk_profile_add(context->profile, launch->kernel->name, pk_trace_now() - start);
  return status;
}

/* Checks arguments, sizes and requirements; operands are not copied yet. */
static pk_status bind_program(pk_launch *launch, DLTensor *const *tensors) {
  pk_status status = check_call(launch);
  if (status == PK_OK) status = pk_bind(launch, tensors);
  if (status == PK_OK) status = prepare(launch);
  return status;
}

int64_t pk_temporary_bytes(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors) {
  context = context ? context : pk_default_context();
  if (!context || !pk_hold(context)) return -1;
  context->message[0] = '\0';
  kernel = pk_variant_to_run(kernel);
  pk_launch launch = {.context = context, .kernel = kernel, .tables = &context->tables};
  int64_t bytes = -1;
  if (kernel && kernel->abi == PK_ABI && !kernel->program)
    bytes = 0;
  else if (bind_program(&launch, tensors) == PK_OK)
    bytes = pk_place_temporaries(&launch);
  pk_release(context);
  return bytes;
}

/* Prepares a kernel's call up to its sizes and limits: arrays are bound, and those that the plan
 * reads have contiguous copies. */
static pk_status begin(pk_launch *launch, DLTensor *const *tensors) {
  pk_status status = check_call(launch);
  if (status == PK_OK) status = pk_bind(launch, tensors);
  if (status == PK_OK && launch->kernel->prepare_from) {
    status = pk_stage_plan(launch);
    if (status == PK_OK) pk_stage_in(launch);
  }
  return status == PK_OK ? prepare(launch) : status;
}

/* ---- Devices in other processes. */

static bool is_linked(const pk_launch *launch) {
  return launch->context->link && launch->kernel && launch->kernel->abi == PK_ABI &&
         launch->kernel->mesh;
}

static pk_status check_link(const pk_launch *launch) {
  const int devices = pk_device_count(launch->kernel), processes = launch->context->link->count;
  if (devices == processes) return PK_OK;
  return pk_refuse(launch->context, launch->kernel, PK_BAD_ARGUMENT,
                   "the mesh has %d device%s, and %d process%s it", devices,
                   devices == 1 ? "" : "s", processes, processes == 1 ? " runs" : "es run");
}

/* Whether all devices continue with the call; `own` is the status of the arguments on this device.
 */
static pk_status agree(const pk_launch *launch, pk_status own) {
  pk_context *context = launch->context;
  pk_link *link = context->link;
  const pk_call call = {launch->kernel, launch->array, launch->size, &launch->plan, context};
  char message[PK_MESSAGE_BYTES];
  int device = -1;
  memcpy(message, context->message, sizeof message);
  const pk_status status = link->agree(link, launch->kernel, launch->size, own, message, &device);
  if (own != PK_OK) return own;
  if (status != PK_OK && device < 0)
    return pk_refuse(context, launch->kernel, status, "%s", message);
  if (status != PK_OK) return refuse_device(&call, NULL, status, message, device);
  return PK_OK;
}

/* The rest of a call by all devices of the context's link, including this one. */
static pk_status run_linked(const pk_launch *launch, pk_status own) {
  pk_context *context = launch->context;
  const pk_call call = {launch->kernel, launch->array, launch->size, &launch->plan, context};
  int device = -1;
  if (own == PK_OK && reserve_workers(launch, 1) == 0) own = refuse_arena(launch);
  own = agree(launch, own);
  if (own != PK_OK) return own;
  if (!launch->kernel->prepare_from) pk_stage_in(launch);
  pk_worker *worker = &((pk_member *)context->workers.data)->worker;
  clear(&launch->plan, worker);
  const char *failure = context->link->run(context->link, &call, worker, &device);
  if (failure) return refuse_device(&call, call.kernel, PK_FAILED, failure, device);
  pk_stage_out(launch);
  return PK_OK;
}

/* ---- Programs. */

static pk_status call_program(pk_launch *launch, DLTensor *const *tensors) {
  const bool linked = is_linked(launch);
  pk_status status = linked ? check_link(launch) : PK_OK;
  if (status != PK_OK) return status;
  status = bind_program(launch, tensors);
  if (status == PK_OK) status = pk_stage_plan(launch);
  if (status == PK_OK) {
    pk_stage_in(launch);
    status = pk_check_program(launch);
  }
  if (linked) status = agree(launch, status);
  if (status == PK_OK) status = pk_run_program(launch);
  if (status == PK_OK) pk_stage_out(launch);
  return status;
}

static int wanted_workers(const pk_launch *launch) {
  if (is_linked(launch)) return 1;
  return launch->kernel->mesh ? pk_device_count(launch->kernel) : choose_threads(launch);
}

pk_status pk_launch_inner(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors,
                          bool checking) {
  pk_launch launch = {.context = context, .kernel = kernel, .tables = &context->inner_tables};
  pk_status status = pk_bind(&launch, tensors);
  /* A prefetched operand may be the result of an earlier call. */
  if (checking && kernel->prepare_from) return status;
  if (status == PK_OK) status = prepare(&launch);
  if (!checking && is_linked(&launch)) return run_linked(&launch, status);
  if (status == PK_OK && kernel->one_row) take_as_one_row(&launch);
  if (status != PK_OK || !checking) return status == PK_OK ? run(&launch) : status;
  if (reserve_workers(&launch, wanted_workers(&launch)) > 0) return PK_OK;
  return refuse_arena(&launch);
}

/* Prepares a kernel's call up to its first cell. */
static pk_status make_ready(pk_launch *launch, DLTensor *const *tensors) {
  pk_status status = begin(launch, tensors);
  if (status == PK_OK && !launch->kernel->prepare_from) status = pk_stage_plan(launch);
  if (status == PK_OK && launch->kernel->one_row && !is_linked(launch)) take_as_one_row(launch);
  return status;
}

static pk_status call_held(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors) {
  context->message[0] = '\0';
  kernel = pk_variant_to_run(kernel);
  pk_launch launch = {.context = context, .kernel = kernel, .tables = &context->tables};
  if (kernel && kernel->abi == PK_ABI && kernel->program) return call_program(&launch, tensors);
  const bool linked = is_linked(&launch);
  pk_status status = linked ? check_link(&launch) : PK_OK;
  if (status != PK_OK) return status;
  status = make_ready(&launch, tensors);
  if (linked) return run_linked(&launch, status);
  return status == PK_OK ? run(&launch) : status;
}

pk_status pk_call_kernel(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors) {
  context = context ? context : pk_default_context();
  if (!context) return PK_NO_MEMORY;
  if (!pk_hold(context)) return PK_BUSY;
  const pk_status status = call_held(context, kernel, tensors);
  pk_release(context);
  return status;
}

pk_status pk_plan_call(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors,
                       pk_plan *plan, int *threads) {
  if (!pk_hold(context)) return PK_BUSY;
  context->message[0] = '\0';
  pk_launch launch = {.context = context, .kernel = pk_variant_to_run(kernel)};
  launch.tables = &context->tables;
  const pk_status status = make_ready(&launch, tensors);
  if (status == PK_OK) {
    *plan = launch.plan;
    *threads = wanted_workers(&launch);
  }
  pk_release(context);
  return status;
}

static void write_shapes(const pk_launch *launch, int64_t (*shapes)[PK_MAX_RANK]) {
  const pk_kernel *kernel = launch->kernel;
  for (int i = kernel->inputs; i < kernel->operands; ++i) {
    for (int axis = 0; axis < kernel->operand[i].rank; ++axis) {
      int64_t extent = kernel->operand[i].shape[axis];
      shapes[i - kernel->inputs][axis] =
          (extent < 0 ? launch->size[-1 - extent] : extent) / pk_parts_here(launch, i, axis);
    }
  }
}

pk_status pk_output_shapes(pk_context *context, const pk_kernel *kernel, DLTensor *const *inputs,
                           const int64_t *sizes, int64_t (*shapes)[PK_MAX_RANK]) {
  context = context ? context : pk_default_context();
  if (!context) return PK_NO_MEMORY;
  if (!pk_hold(context)) return PK_BUSY;
  context->message[0] = '\0';
  kernel = pk_variant_to_run(kernel);
  pk_launch launch = {.context = context,
                      .kernel = kernel,
                      .inputs_only = true,
                      .sizes = sizes,
                      .tables = &context->tables};
  bool program = kernel && kernel->abi == PK_ABI && kernel->program;
  const pk_status status = program ? bind_program(&launch, inputs) : begin(&launch, inputs);
  if (status == PK_OK) write_shapes(&launch, shapes);
  pk_release(context);
  return status;
}
