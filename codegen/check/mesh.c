// A kernel with a mesh: its devices, each with its part of the arrays, are interleaved in several
// orders, and their results are collected.
#include "codegen/check/mesh.h"

#include "codegen/ir/share.h"

#include <stdlib.h>
#include <string.h>

// For a kernel that reads semaphores, further orders are tried while the number of elements
// computed in all of them is below this limit.
static const double MOST_WORK = 3e7;
// The maximum number of passes. If waits still learn less in the last one, nothing is claimed of
// other orders.
enum { MOST_PASSES = 16 };

// ---- one run

typedef struct {
  Kernel *k;
  const int64_t *sizes;
  HostArray *operands;  // the whole arrays
  const CheckOptions *options;
  CheckReport *report;
  HostArray *first, *later;  // outputs of the first order, and of another one
  bool again;                // some order has been run
  Passes passes;
} MeshRun;

static void *mesh_memory(int64_t count, int64_t item_bytes) {
  int64_t bytes;
  void *memory = mul_i64(count + 1, item_bytes, &bytes) ? calloc(1, (size_t)bytes) : NULL;
  if (!memory) INTERNAL("no memory for %lld elements of a device", (long long)count);
  return memory;
}

// The known properties of the elements of inputs, for a call in a program.
static void take_marks(const MeshRun *run, Mesh *m, Device *d, int device, CheckOptions *options) {
  const Kernel *k = run->k;
  d->input_specified = NEW_ARRAY(m->arena, uint8_t *, k->inputs + 1);
  d->input_error = NEW_ARRAY(m->arena, double *, k->inputs + 1);
  for (int i = 0; i < k->inputs; i++) {
    Share share = device_share(k, k->refs.at[i], &run->operands[i], device);
    int64_t count;
    array_elements(&share.part, &count);
    if (options->input_specified && options->input_specified[i]) {
      d->input_specified[i] = mesh_memory(count, 1);
      Rows rows = {(char *)d->input_specified[i], (char *)(uintptr_t)options->input_specified[i], 1,
                   -1};
      visit_rows(&share, &run->operands[i], take_row, &rows);
    }
    if (options->input_error && options->input_error[i]) {
      d->input_error[i] = mesh_memory(count, sizeof(double));
      Rows rows = {(char *)d->input_error[i], (char *)options->input_error[i], sizeof(double), -1};
      visit_rows(&share, &run->operands[i], take_row, &rows);
    }
  }
  if (options->input_specified)
    options->input_specified = (const uint8_t *const *)d->input_specified;
  if (options->input_error) options->input_error = d->input_error;
}

// Creates a device: its parts of the operands, and its interpreter.
static void start_device(MeshRun *run, Mesh *m, int device) {
  Kernel *k = run->k;
  Device *d = &m->devices[device];
  int64_t count;
  CheckOptions options = *run->options;
  d->operands = NEW_ARRAY(m->arena, HostArray, k->inputs + k->outputs);
  d->allowed = NEW_ARRAY(m->arena, double *, k->outputs + 1);
  d->specified = NEW_ARRAY(m->arena, uint8_t *, k->outputs + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    Share share = device_share(k, k->refs.at[i], &run->operands[i], device);
    array_elements(&share.part, &count);
    share.part.data = mesh_memory(count, dtype_bytes(share.part.dtype));
    d->operands[i] = share.part;
    Rows rows = rows_of(&share, &run->operands[i]);
    if (i < k->inputs) visit_rows(&share, &run->operands[i], take_row, &rows);
    if (i < k->inputs) continue;
    if (options.allowed) d->allowed[i - k->inputs] = mesh_memory(count, sizeof(double));
    if (options.specified) d->specified[i - k->inputs] = mesh_memory(count, 1);
  }
  take_marks(run, m, d, device, &options);
  if (options.allowed) options.allowed = d->allowed;
  if (options.specified) options.specified = d->specified;
  d->in = start_interp(k, run->sizes, &options, run->report);
  d->in.bounds = options.allowed != NULL;
  d->in.rounding = body_rounding(F32_UNIT);
  d->in.rounding_f64 = body_rounding(2 * F64_UNIT);
  d->in.exact = options.exact;
  d->in.mesh = m;
  d->in.device = device;
}

static void end_device(MeshRun *run, Device *d) {
  Kernel *k = run->k;
  for (int i = 0; i < k->inputs + k->outputs; i++) free(d->operands[i].data);
  for (int i = 0; i < k->inputs; i++) {
    free(d->input_specified[i]);
    free(d->input_error[i]);
  }
  for (int i = 0; i < k->outputs; i++) {
    free(d->allowed[i]);
    free(d->specified[i]);
  }
  end_interp(&d->in);
}

// ---- results

static const char *element_text(const HostArray *array, int64_t element, Arena *arena) {
  int64_t index[MAX_RANK];
  Buf text = {0};
  for (int i = array->rank - 1; i >= 0; i--) {
    index[i] = element % array->dim[i];
    element /= array->dim[i];
  }
  buf_putc(&text, '[');
  format_indices(&text, index, array->rank);
  buf_putc(&text, ']');
  return arena_take(arena, &text);
}

static void report_replica(Interp *in, const Ref *ref, const HostArray *whole, int64_t element) {
  find(in, ref, FIND_REPLICA, ref->span,
       "element %s of output `%s` differs between two devices that hold the same part: each device "
       "has all that `shard` does not divide, and these copies must be equal",
       element_text(whole, element, in->report->arena), ref->name);
}

static void gather_bytes(const Share *share, const HostArray *whole, void *part, void *all,
                         int64_t bytes) {
  Rows rows = {part, all, bytes, -1};
  if (part && share->first) visit_rows(share, whole, give_row, &rows);
}

// Combines the parts of an output on all devices into one array.
static void gather_output(MeshRun *run, Mesh *m, int output, HostArray *whole, bool found) {
  const Ref *ref = run->k->refs.at[run->k->inputs + output];
  for (int i = 0; i < m->count; i++) {
    Device *d = &m->devices[i];
    Share share = device_share(run->k, ref, whole, i);
    share.part.data = d->operands[run->k->inputs + output].data;
    Rows rows = rows_of(&share, whole);
    visit_rows(&share, whole, share.first ? give_row : compare_row, &rows);
    if (rows.differs >= 0 && !found) report_replica(&d->in, ref, whole, rows.differs);
    if (run->again) continue;
    if (run->options->allowed)
      gather_bytes(&share, whole, d->allowed[output], run->options->allowed[output],
                   sizeof(double));
    if (run->options->specified)
      gather_bytes(&share, whole, d->specified[output], run->options->specified[output], 1);
  }
}

// Compares the outputs of a later order with those of the first.
static void compare_orders(MeshRun *run, Mesh *m, int output) {
  const Ref *ref = run->k->refs.at[run->k->inputs + output];
  HostArray *first = &run->first[output], *now = &run->later[output];
  int64_t count, bytes = dtype_bytes(first->dtype);
  array_elements(first, &count);
  gather_output(run, m, output, now, false);
  for (int64_t e = 0; e < count; e++) {
    if (memcmp((char *)first->data + e * bytes, (char *)now->data + e * bytes, (size_t)bytes) == 0)
      continue;
    find(&m->devices[0].in, ref, FIND_ORDER, ref->span,
         "element %s of output `%s` depends on the order in which the devices run",
         element_text(first, e, run->report->arena), ref->name);
    return;
  }
}

static bool any_stopped(const Mesh *m) {
  for (int i = 0; i < m->count; i++)
    if (m->devices[i].in.stopped) return true;
  return false;
}

// After all devices have ended: the remaining values of semaphores, and the outputs.
static void end_run(MeshRun *run, Mesh *m) {
  bool stopped = any_stopped(m);
  for (int i = 0; i < m->count && !stopped; i++)
    if (m->devices[i].in.steps > 0 && m->devices[i].in.last_step) end_cell(&m->devices[i].in);
  for (int i = 0; i < m->count; i++)
    for (int k = 0; k < m->devices[i].flights.count; k++)
      move_flight(m, m->devices[i].flights.at[k]);
  for (int i = 0; i < m->count; i++) {
    m->devices[i].in.stopped |= stopped;
    end_refs(&m->devices[i].in);
  }
  bool found = m->devices[0].in.findings.count > 0;
  for (int i = 0; i < run->k->outputs && !stopped; i++) {
    if (!run->again)
      gather_output(run, m, i, &run->first[i], found);
    else if (!found)
      compare_orders(run, m, i);
  }
}

// The prefetched arrays of one device are those of all devices.
static void point_prefetched(MeshRun *run) {
  for (int i = 0; i < run->k->inputs; i++)
    if (run->k->refs.at[i]->prefetch) run->k->refs.at[i]->prefetched = &run->operands[i];
}

static void mark_reached(Instr *instr, void *context) {
  bool *reached = context;
  if (instr->op == OP_REMOTE_SIGNAL) reached[instr->semaphore->id] = true;
  if (instr->op != OP_REMOTE_START) return;
  reached[instr->ref->id] = reached[instr->target->id] = reached[instr->receive->id] = true;
}

static void find_reached(Mesh *m) {
  const Kernel *k = m->k;
  m->reached = NEW_ARRAY(m->arena, bool, k->refs.count + 1);
  ir_walk(k->body, mark_reached, m->reached);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const Ref *output = k->refs.at[i], *input = output->alias;
    if (!input) continue;
    bool either = m->reached[output->id] || m->reached[input->id];
    m->reached[output->id] = m->reached[input->id] = either;
  }
}

// Runs the devices in one order. False: there are findings. *work: the number of elements computed.
static bool run_order(MeshRun *run, Mesh m, double *work) {
  CheckReport own = {.arena = run->report->arena}, *report = run->report;
  m.arena = arena_new();
  m.k = run->k;
  m.count = (int)ir_device_count(run->k);
  m.devices = NEW_ARRAY(m.arena, Device, m.count);
  m.passes = &run->passes;
  run->report = &own;
  for (int i = 0; i < m.count; i++) start_device(run, &m, i);
  find_reached(&m);
  start_clocks(&m);
  if (!run->again) check_vmem(&m.devices[0].in);
  bool started = true;
  for (int i = 0; i < m.count; i++)
    started = start_refs(&m.devices[i].in, m.devices[i].operands) && started;
  point_prefetched(run);
  start_pass(&m);
  if (started) run_devices(&m, run_grid);
  tell_cycle(&m);
  end_run(run, &m);
  finish_report(&m.devices[0].in);
  run->report = report;
  if (!run->again || own.findings.count) {
    report->findings.count = 0;
    for (int i = 0; i < own.findings.count; i++)
      LIST_PUSH(report->arena, &report->findings, own.findings.at[i]);
    report->more = own.more;
  }
  for (int i = 0; i < own.printed.count && !run->again; i++)
    LIST_PUSH(report->arena, &report->printed, own.printed.at[i]);
  if (!run->again) report->steps = own.steps;
  *work += m.work;
  report->orders++;
  for (int i = 0; i < m.count; i++) end_device(run, &m.devices[i]);
  arena_free(m.arena);
  run->again = true;
  return own.findings.count == 0;
}

// ---- orders

// The next choices in the order of all; false when there are no more.
static bool next_choices(ChoiceList *choices) {
  while (choices->count) {
    Choice *last = &choices->at[choices->count - 1];
    if (++last->taken < last->count) return true;
    choices->count--;
  }
  return false;
}

static void run_all_orders(MeshRun *run, int64_t most) {
  ChoiceList choices = {0};
  double work = 0;
  for (bool good = true, more = true; good && more && run->report->orders < most;) {
    good = run_order(run, (Mesh){.order = ORDER_CHOSEN, .choices = &choices}, &work);
    more = good && next_choices(&choices);
    if (good && !more) run->report->most_orders = run->report->orders;
  }
}

// Runs one order until the waits know only what holds in every order (mesh.h).
static bool run_passes(MeshRun *run, double *work) {
  run->passes.on = true;
  bool good = true, changed = true;
  for (int i = 0; i < MOST_PASSES && good && changed; i++) {
    good = run_order(run, (Mesh){.order = ORDER_LONG}, work);
    changed = run->passes.changed;
  }
  run->passes.on = false;
  return good && !changed;
}

static void note_read(Instr *instr, void *context) {
  bool *any = context;
  *any |= instr->op == OP_SEM_READ;
}

// The steps of a device may depend on the value of a semaphore, and so on the order. Each device
// runs ahead once, as far as it can, with the others in ascending or descending order: this shows
// where nothing holds it back.
static void run_some_orders(MeshRun *run) {
  int count = (int)ir_device_count(run->k);
  double work = 0;
  bool reads = false;
  ir_walk(run->k->body, note_read, &reads);
  bool all = run_passes(run, &work), good = run->report->findings.count == 0;
  double each = work / (double)run->report->orders;
  run->report->every_order = count == 1 || (all && !reads);
  if (run->report->every_order || !good) return;
  run->report->orders = 1;
  run->report->most_orders = 2 + 2 * count;
  good = run_order(run, (Mesh){.order = ORDER_SHORT}, &work);
  for (int i = 0; i < 2 * count && good && work + each < MOST_WORK; i++) {
    int first = i < 2 ? i * (count - 1) : i / 2;
    Mesh ranked = {.order = ORDER_BY_RANK, .first = first, .step = i % 2 ? -1 : 1};
    good = run_order(run, ranked, &work);
  }
}

static HostArray *make_outputs(MeshRun *run) {
  Kernel *k = run->k;
  HostArray *outputs = NEW_ARRAY(run->report->arena, HostArray, k->outputs + 1);
  for (int i = 0; i < k->outputs; i++) {
    int64_t count;
    outputs[i] = run->operands[k->inputs + i];
    array_elements(&outputs[i], &count);
    outputs[i].data = mesh_memory(count, dtype_bytes(outputs[i].dtype));
  }
  return outputs;
}

// Only now: an output may have the memory of an input.
static void give_outputs(MeshRun *run) {
  for (int i = 0; i < run->k->outputs; i++) {
    HostArray *output = &run->operands[run->k->inputs + i];
    int64_t count;
    array_elements(output, &count);
    if (count)
      memcpy(output->data, run->first[i].data, (size_t)(count * dtype_bytes(output->dtype)));
    free(run->first[i].data);
    free(run->later[i].data);
  }
}

void interpret_mesh(Kernel *k, const int64_t *sizes, HostArray *operands,
                    const CheckOptions *options, CheckReport *report) {
  MeshRun run = {
      .k = k, .sizes = sizes, .operands = operands, .options = options, .report = report};
  double work = 0;
  if (!report->arena) report->arena = k->arena;
  run.passes.arena = arena_new();
  run.first = make_outputs(&run);
  run.later = make_outputs(&run);
  if (options->orders)
    run_all_orders(&run, options->orders);
  else if (options->seed)
    run_order(&run, (Mesh){.order = ORDER_RANDOM, .random = options->seed}, &work);
  else
    run_some_orders(&run);
  give_outputs(&run);
  arena_free(run.passes.arena);
}
