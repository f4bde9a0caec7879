// Runs kernels: control flow, grid steps, references.
#define _GNU_SOURCE
#include "codegen/check/mesh.h"
#include "dsl/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Limits for one execution of a loop, and for all loops of a grid step together.
static const int64_t MOST_ITERATIONS = 100000000, MOST_IN_STEP = 1000000000;

// ---- leaves

static void fill_constant(Interp *in, const Instr *instr, Value *out) {
  int64_t cell = in->arithmetic->constant(arithmetic_context(in), out->dtype, instr);
  for (int64_t e = 0; e < out->count; e++) out->i[e] = cell;
}

static void fill_iota(Interp *in, const Instr *instr, Value *out) {
  int64_t inner = 1, extent = out->dim[instr->ival];
  for (int i = (int)instr->ival + 1; i < out->rank; i++) inner *= out->dim[i];
  for (int64_t e = 0; e < out->count; e++)
    out->i[e] = in->arithmetic->index(arithmetic_context(in), out->dtype, e / inner % extent);
}

// the index of this device along an axis of the mesh
static int64_t device_index(const Interp *in, int64_t axis) {
  int64_t device = in->device;
  for (int i = in->k->mesh.count - 1; i > axis; i--) device /= in->k->mesh.at[i].extent;
  return device % in->k->mesh.at[axis].extent;
}

// Executes an instruction without operands.
static void run_leaf(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  if (!out) return;
  switch (instr->op) {
    case OP_CONST:
      fill_constant(in, instr, out);
      break;
    case OP_IOTA:
      fill_iota(in, instr, out);
      break;
    case OP_SIZE:
      out->i[0] = in->sizes[instr->ival];
      break;
    case OP_AXIS:
      out->i[0] = in->axes[instr->ival];
      break;
    case OP_EXTENT:
      out->i[0] = in->extents[instr->ival];
      break;
    case OP_DEVICE:
      out->i[0] = device_index(in, instr->ival);
      break;
    case OP_ARRAY:
      read_elements(in->refs[instr->ref->id].array, 0, out->count, out, 0);
      break;
    default:
      INTERNAL("%s in a region", op_info[instr->op].name);
  }
}

// ---- control

static bool condition_holds(Interp *in, const Instr *instr, const Instr *condition) {
  const Value *c = value_of(in, condition);
  if (poison_at(c, 0))
    find(in, instr, FIND_POISON_CONDITION, instr->span, "the condition of `%s` is unspecified: %s",
         op_info[instr->op].name, poison_cause(in, c->poison[0]));
  return c->i[0] != 0;
}

static void copy_value(Interp *in, const Instr *instr, const Instr *from_instr) {
  Value *out = value_new(in, instr);
  const Value *from = value_of(in, from_instr);
  if (!out) return;
  memcpy(out->data, from->data, (size_t)out->count * 8);
  if (from->poisoned && value_poison(in, out))
    memcpy(out->poison, from->poison, (size_t)out->count);
  if (from->partial && value_partial(in, out))
    memcpy(out->missing, from->missing, (size_t)out->count * sizeof *out->missing);
  if (from->uncertain && value_error(in, out))
    memcpy(out->error, from->error, (size_t)out->count * sizeof *out->error);
}

// Begins a region; run_regions executes its instructions.
static void begin_region(Interp *in, const Instr *owner, const Region *region) {
  Frame frame = {.owner = owner, .region = region};
  LIST_PUSH(in->report->arena, &in->frames, frame);
}

static Frame *last_frame(Interp *in) { return &in->frames.at[in->frames.count - 1]; }

static void begin_if(Interp *in, const Instr *instr) {
  const Region *taken = instr->regions[condition_holds(in, instr, instr->args[0]) ? 0 : 1];
  if (taken) begin_region(in, instr, taken);
}

// Begins a loop as if a region of it had just ended.
static void begin_loop(Interp *in, const Instr *instr, const Region *ended) {
  begin_region(in, instr, ended);
  last_frame(in)->next = ended->instrs.count;
}

static bool too_many(Interp *in, const Instr *instr, int64_t iterations) {
  if (iterations < MOST_ITERATIONS && in->iterations++ < MOST_IN_STEP) return false;
  if (iterations < MOST_ITERATIONS) iterations = MOST_IN_STEP;
  find(in, instr, FIND_LOOP, instr->span,
       "this loop is still running after %lld iterations: it may never end", (long long)iterations);
  return in->stopped = true;
}

static void begin_for(Interp *in, const Instr *instr) {
  const Value *from = value_of(in, instr->args[0]), *to = value_of(in, instr->args[1]);
  for (int i = 0; i < 2; i++) {
    const Value *bound = i ? to : from;
    if (poison_at(bound, 0))
      find(in, instr, FIND_POISON_INDEX, instr->span, "a bound of the loop is unspecified: %s",
           poison_cause(in, bound->poison[0]));
  }
  if (!value_new(in, instr->regions[0]->arg)) return;
  begin_loop(in, instr, instr->regions[0]);
  last_frame(in)->index = from->i[0];
  last_frame(in)->end = to->i[0];
}

// Does a region of a `for` or `while` follow the one that has ended? It begins.
static bool repeats(Interp *in, Frame *f) {
  const Instr *instr = f->owner;
  bool ended_condition = instr->op == OP_WHILE && f->region == instr->regions[0];
  if (ended_condition) {
    if (!condition_holds(in, instr, ir_yielded(f->region, 0))) return false;
  } else {
    if (instr->op == OP_FOR && f->index >= f->end) return false;
    if (too_many(in, instr, f->iterations++)) return false;
  }
  f->region = instr->regions[ended_condition ? 1 : 0];
  f->next = 0;
  if (instr->op == OP_FOR) value_of(in, f->region->arg)->i[0] = f->index++;
  return true;
}

static void run_print(Interp *in, const Instr *instr) {
  Buf out = {0};
  int next = 0;
  if (is_beyond(in)) return;
  for (const char *c = instr->text; *c; c++) {
    if (c[0] == '{' && c[1] == '}' && next < instr->nargs) {
      buf_puts(&out, format_value(in, value_of(in, instr->args[next++])));
      c++;
    } else {
      buf_putc(&out, *c);
    }
  }
  for (; next < instr->nargs; next++) {
    buf_putc(&out, ' ');
    buf_puts(&out, format_value(in, value_of(in, instr->args[next])));
  }
  const char *text = arena_take(in->report->arena, &out);
  LIST_PUSH(in->report->arena, &in->report->printed, text);
}

static void run_assert(Interp *in, const Instr *instr) {
  if (!condition_holds(in, instr, instr->args[0]))
    find(in, instr, FIND_ASSERT, instr->span, "assertion failed: %s", instr->text);
}

// Executes a control instruction, or begins the region that it executes.
static void run_control(Interp *in, const Instr *instr) {
  switch (instr->op) {
    case OP_IF:
      begin_if(in, instr);
      break;
    case OP_FOR:
      begin_for(in, instr);
      break;
    case OP_WHILE:
      begin_loop(in, instr, instr->regions[1]);
      break;
    case OP_BREAK:
      in->breaking = true;
      break;
    case OP_YIELD:
      break;
    case OP_SCOPED:
      begin_scope(in, instr);
      begin_region(in, instr, instr->regions[0]);
      break;
    case OP_NAMED:
      begin_region(in, instr, instr->regions[0]);
      break;
    case OP_PRINT:
      run_print(in, instr);
      break;
    case OP_ASSERT:
      run_assert(in, instr);
      break;
    default:
      INTERNAL("%s", op_info[instr->op].name);
  }
}

// Executes an operation that reads or writes refs or semaphores; `resume` repeats it after a pause.
static void access_memory(Interp *in, const Instr *instr) {
  switch (instr->op) {
    case OP_LOAD:
      run_load(in, instr);
      break;
    case OP_STORE:
      run_store(in, instr);
      break;
    case OP_FETCH:
      run_fetch(in, instr);
      break;
    case OP_WRITEBACK:
      run_writeback(in, instr);
      break;
    case OP_REMOTE_START:
    case OP_REMOTE_SIGNAL:
      run_remote(in, instr);
      break;
    default:
      run_dma(in, instr);
  }
}

// Executes an instruction that accesses memory, unless another device runs first.
static void run_memory(Interp *in, const Instr *instr) {
  if (in->unmoved || in->mesh) move_at_random(in);
  if (in->mesh && is_noticed(in, instr) && !yield_control(in, instr)) return;
  if (!in->stopped) access_memory(in, instr);
}

// The approximate number of elements that an instruction processes.
static void count_work(Interp *in, const Instr *instr) {
  double work = 1 + (has_result(instr) ? (double)value_of(in, instr)->count : 0);
  if (op_info[instr->op].class == OPC_DOT)
    work += sqrt((double)value_of(in, instr->args[0])->count *
                 (double)value_of(in, instr->args[1])->count * work);
  in->mesh->work += work;
  if (is_beyond(in) && in->mesh->work > in->mesh->most_work) in->stopped = true;
}

// Does the arithmetic know the numbers that this instruction requires of its operands?
static bool is_admitted(Interp *in, const Instr *instr) {
  const Arithmetic *a = in->arithmetic;
  in->stopped |= a->admits && !a->admits(arithmetic_context(in), instr, in->values);
  return !in->stopped;
}

// Executes one instruction by its class. Regions only begin here; run_regions executes them.
static void run_instr(Interp *in, const Instr *instr) {
  int depth = in->frames.count;
  arena_empty(in->words);
  if (!is_admitted(in, instr)) return;
  switch (op_info[instr->op].class) {
    case OPC_LEAF:
      run_leaf(in, instr);
      break;
    case OPC_SHAPE:
      run_shape(in, instr);
      break;
    case OPC_REDUCE:
      run_reduce(in, instr);
      break;
    case OPC_ARGREDUCE:
      run_argreduce(in, instr);
      break;
    case OPC_SCAN:
      run_scan(in, instr);
      break;
    case OPC_DOT:
      run_dot(in, instr);
      break;
    case OPC_MEMORY:
      run_memory(in, instr);
      break;
    case OPC_CONTROL:
      run_control(in, instr);
      break;
    default:
      run_elementwise(in, instr);
  }
  if (in->mesh && !in->paused && in->frames.count == depth) count_work(in, instr);
}

// The region that began last has ended or is left: its loop repeats, or its owner is done.
static void end_region(Interp *in) {
  Frame frame = *last_frame(in);
  const Instr *owner = frame.owner;
  bool left = in->stopped || in->breaking;
  bool loop = owner && (owner->op == OP_FOR || owner->op == OP_WHILE);
  if (loop && !left && repeats(in, last_frame(in))) return;
  in->frames.count--;
  if (!owner) return;
  if (loop) in->breaking = false;
  if (owner->op == OP_SCOPED) end_scope(in, owner);
  if (owner->op == OP_IF && has_result(owner) && !left)
    copy_value(in, owner, ir_yielded(frame.region, 0));
  if (in->mesh) count_work(in, owner);
}

// Other devices have run since this one was paused.
static void resume(Interp *in) {
  const Instr *instr = in->paused;
  in->paused = NULL;
  if (device_in(in)->state == DEVICE_WAITS)
    resume_wait(in);
  else if (!in->stopped)
    access_memory(in, instr);
  if (!in->paused) count_work(in, instr);
}

// Executes the regions that have begun, to their ends or until another device runs.
static void run_regions(Interp *in) {
  if (in->paused) resume(in);
  while (in->frames.count && !in->paused) {
    Frame *f = last_frame(in);
    if (in->stopped || in->breaking || f->next == f->region->instrs.count)
      end_region(in);
    else
      run_instr(in, f->region->instrs.at[f->next++]);
  }
}

// ---- grid steps

// ---- the order of steps: row-major; a parallel axis may be shuffled

static int64_t common_divisor(int64_t a, int64_t b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

// n -> (n * factor + offset) mod extent visits every index once.
static void shuffle_axis(Interp *in, int axis) {
  Shuffle *shuffle = &in->shuffles[axis];
  int64_t extent = in->extents[axis];
  *shuffle = (Shuffle){1, 0};
  if (in->options.seed == 0 || !in->k->grid.at[axis].parallel || extent > INT32_MAX) return;
  do shuffle->factor = 1 + (int64_t)(random_bits(&in->random) % (uint64_t)extent);
  while (common_divisor(shuffle->factor, extent) != 1);
  shuffle->offset = (int64_t)(random_bits(&in->random) % (uint64_t)extent);
}

static int64_t parallel_number(const Interp *in, const int64_t *axes) {
  int64_t number = 0;
  for (int i = 0; i < in->k->grid.count; i++)
    if (in->k->grid.at[i].parallel) number = number * in->extents[i] + axes[i];
  return number;
}

// Cores share the parallel steps in equal runs of consecutive steps.
static int64_t core_of(const Interp *in) {
  int64_t share = in->options.cores > 0 ? ceil_div(in->cells, in->options.cores) : 1;
  return in->parallel_step / share;
}

// False if there are no steps.
static bool start_grid(Interp *in) {
  const Kernel *k = in->k;
  in->steps = in->cells = 1;
  for (int i = 0; i < k->grid.count; i++) {
    in->extents[i] = eval_index(k, k->grid.at[i].extent, in->sizes, NULL, 0);
    if (in->extents[i] <= 0 || !mul_i64(in->steps, in->extents[i], &in->steps)) return false;
    if (k->grid.at[i].parallel) in->cells *= in->extents[i];
    shuffle_axis(in, i);
  }
  return true;
}

static void begin_body(Interp *in) {
  step_axes(in, in->step, in->axes);
  in->parallel_step = parallel_number(in, in->axes);
  in->core = core_of(in);
  in->last_step = in->step + 1 == in->steps;
  in->cell_ends = in->last_step;
  if (!in->last_step) {
    step_axes(in, in->step + 1, in->next_axes);
    in->cell_ends = parallel_number(in, in->next_axes) != in->parallel_step;
  }
  in->iterations = 0;
  begin_step(in);
  if (!in->stopped) begin_region(in, NULL, in->k->body);
}

static void end_body(Interp *in) {
  if (in->cell_ends && !(in->mesh && in->last_step))
    end_cell(in);  // other devices may still signal it
  in->cell_begins = in->cell_ends;
  in->report->steps++;
}

// A call that exceeds the budget is refused by the compiled kernel.
void check_vmem(Interp *in) {
  const Kernel *k = in->k;
  const Ref *largest = NULL;
  int64_t total = 0, most = 0, limit = k->vmem_limit ? k->vmem_limit : VMEM_LIMIT_DEFAULT;
  for (int i = 0; i < k->refs.count; i++) {
    int64_t bytes = vmem_bytes(k->refs.at[i], in->sizes);
    if (!add_i64(total, bytes, &total)) total = INT64_MAX;
    if (bytes > most) most = bytes, largest = k->refs.at[i];
  }
  if (total <= limit && total < INT64_MAX) return;
  find(in, k, FIND_VMEM, k->span,
       "the blocks and scratch of `%s` need %lld bytes of VMEM for all their buffers, and the "
       "limit is %lld (%s): `pkc explain` with sizes lists them",
       k->name, (long long)total, (long long)limit,
       k->vmem_limit ? "the kernel's vmem_limit" : "the default");
  find_note(in, largest->span, -1, "the largest is `%s` with %lld bytes", largest->name,
            (long long)most);
}

void run_grid(Interp *in) {
  Progress progress = in->mesh ? (Progress){0} : progress_start();
  if (!in->in_grid && !start_grid(in)) return;
  in->in_grid = true;
  while (in->paused || (in->step < in->steps && !in->stopped)) {
    progress_show(&progress, "interpreting: step", in->step, in->steps);
    if (!in->paused) begin_body(in);
    run_regions(in);
    if (in->paused) return;
    end_body(in);
    in->step++;
  }
  in->in_grid = false;
  progress_end(&progress);
}

// Creates the interpreter's state for a kernel.
Interp start_interp(Kernel *k, const int64_t *sizes, const CheckOptions *options,
                    CheckReport *report) {
  Interp in = {.k = k,
               .sizes = sizes,
               .options = *options,
               .arithmetic = options->arithmetic ? options->arithmetic : &float_arithmetic,
               .report = report,
               .random = options->seed,
               .cell_begins = true};
  if (!report->arena) report->arena = k->arena;
  in.values = calloc((size_t)k->next_id + 1, sizeof *in.values);
  in.refs = calloc((size_t)k->refs.count + 1, sizeof *in.refs);
  in.states = calloc((size_t)k->states.count + 1, sizeof *in.states);
  in.runs = calloc((size_t)k->next_id + 1, sizeof *in.runs);
  in.seen = calloc((size_t)k->next_id + 1, sizeof *in.seen);
  if (!in.values || !in.refs || !in.states || !in.runs || !in.seen)
    INTERNAL("no memory for %d values", k->next_id);
  in.arena = arena_new();
  in.words = arena_new();
  in.axes = NEW_ARRAY(report->arena, int64_t, k->grid.count + 1);
  in.extents = NEW_ARRAY(report->arena, int64_t, k->grid.count + 1);
  in.next_axes = NEW_ARRAY(report->arena, int64_t, k->grid.count + 1);
  in.shuffles = NEW_ARRAY(report->arena, Shuffle, k->grid.count + 1);
  return in;
}

void end_interp(Interp *in) {
  for (int i = 0; i <= in->k->next_id; i++) value_free(&in->values[i]);
  for (int i = 0; i < SCRATCH_SPACES; i++) free(in->scratch[i]);
  free(in->transfers);
  free(in->runs);
  free(in->seen);
  arena_free(in->arena);
  arena_free(in->words);
  free(in->values);
  for (int i = 0; i < in->k->states.count; i++) value_free(&in->states[i].block);
  free(in->states);
  free(in->refs);
}

static void finish(Interp *in) {
  finish_report(in);
  end_interp(in);
}

// Floats are not rounded; bounds allow equivalent expressions.
static void start_exact(Interp *in) {
  in->exact = true;
  in->bounds = in->options.allowed != NULL;
  in->hidden = hidden_roundings(in->k);
  in->rounding = reference_rounding(&in->hidden, F32_UNIT);
  in->rounding_f64 =
      reference_rounding(&in->hidden, 2 * F64_UNIT);  // the interpreter's own errors are as large
}

// See interp.h.
void interpret(Kernel *k, const int64_t *sizes, HostArray *operands, const CheckOptions *options,
               CheckReport *report) {
  if (k->flow) {
    interpret_flow(k, sizes, operands, options, report);
    return;
  }
  ir_expand_pipelines(k);
  ir_unmix_dots(k);
  if (k->mesh.count) {
    interpret_mesh(k, sizes, operands, options, report);
    return;
  }
  Interp in = start_interp(k, sizes, options, report);
  in.bounds = options->allowed != NULL;
  in.rounding = body_rounding(F32_UNIT);
  in.rounding_f64 = body_rounding(2 * F64_UNIT);
  if (options->exact) start_exact(&in);
  check_vmem(&in);
  if (start_refs(&in, operands)) run_grid(&in);
  end_refs(&in);
  finish(&in);
}

static void note_allowed(const Interp *in, int output, const Value *value) {
  double *allowed = in->options.allowed ? in->options.allowed[output] : NULL;
  for (int64_t e = 0; allowed && e < value->count; e++)
    allowed[e] = is_float(value->dtype)
                     ? bound_allowed(in, value->dtype, value->f[e], error_at(value, e))
                     : error_at(value, e);
}

void interpret_reference(Kernel *k, const int64_t *sizes, HostArray *operands,
                         const CheckOptions *options, CheckReport *report) {
  REQUIRE(k->reference);
  ir_unmix_dots(k);
  Interp in = start_interp(k, sizes, options, report);
  start_exact(&in);
  for (int i = 0; i < k->inputs + k->outputs; i++) in.refs[i].array = &operands[i];
  if (start_states(&in)) {
    begin_region(&in, NULL, k->reference);
    run_regions(&in);
  }
  for (int i = 0; i < k->outputs && !in.stopped; i++) {
    const Value *value = value_of(&in, ir_yielded(k->reference, i));
    write_elements(&operands[k->inputs + i], 0, value->count, value, 0);
    note_allowed(&in, i, value);
  }
  finish(&in);
}
