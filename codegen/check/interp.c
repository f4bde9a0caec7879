// Runs kernels: control flow, grid steps, references.
#define _GNU_SOURCE
#include "codegen/check/mesh.h"
#include "dsl/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Limits for one execution of a loop, and for all loops of a grid step together.
static const int64_t MOST_ITERATIONS = 100000000, MOST_IN_STEP = 1000000000;

static void run_region(Interp *in, const Region *region);

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

static void run_if(Interp *in, const Instr *instr) {
  const Region *taken = instr->regions[condition_holds(in, instr, instr->args[0]) ? 0 : 1];
  if (!taken) return;
  run_region(in, taken);
  if (has_result(instr) && !in->stopped && !in->breaking)
    copy_value(in, instr, ir_yielded(taken, 0));
}

static bool too_many(Interp *in, const Instr *instr, int64_t iterations) {
  if (iterations < MOST_ITERATIONS && in->iterations++ < MOST_IN_STEP) return false;
  if (iterations < MOST_ITERATIONS) iterations = MOST_IN_STEP;
  find(in, instr, FIND_LOOP, instr->span,
       "this loop is still running after %lld iterations: it may never end", (long long)iterations);
  return in->stopped = true;
}

static void run_for(Interp *in, const Instr *instr) {
  const Value *from = value_of(in, instr->args[0]), *to = value_of(in, instr->args[1]);
  for (int i = 0; i < 2; i++) {
    const Value *bound = i ? to : from;
    if (poison_at(bound, 0))
      find(in, instr, FIND_POISON_INDEX, instr->span, "a bound of the loop is unspecified: %s",
           poison_cause(in, bound->poison[0]));
  }
  Value *variable = value_new(in, instr->regions[0]->arg);
  int64_t iterations = 0, end = to->i[0];
  if (!variable) return;
  for (int64_t t = from->i[0]; t < end && !in->stopped && !in->breaking; t++) {
    if (too_many(in, instr, iterations++)) return;
    variable->i[0] = t;
    run_region(in, instr->regions[0]);
  }
  in->breaking = false;
}

static void run_while(Interp *in, const Instr *instr) {
  for (int64_t iterations = 0; !in->stopped && !in->breaking; iterations++) {
    if (too_many(in, instr, iterations)) return;
    run_region(in, instr->regions[0]);
    if (in->stopped || !condition_holds(in, instr, ir_yielded(instr->regions[0], 0))) break;
    run_region(in, instr->regions[1]);
  }
  in->breaking = false;
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

// Executes a branch, loop or other control instruction.
static void run_control(Interp *in, const Instr *instr) {
  switch (instr->op) {
    case OP_IF:
      run_if(in, instr);
      break;
    case OP_FOR:
      run_for(in, instr);
      break;
    case OP_WHILE:
      run_while(in, instr);
      break;
    case OP_BREAK:
      in->breaking = true;
      break;
    case OP_YIELD:
      break;
    case OP_NAMED:
      run_region(in, instr->regions[0]);
      break;
    case OP_SCOPED:
      begin_scope(in, instr);
      run_region(in, instr->regions[0]);
      end_scope(in, instr);
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

// Executes an instruction that accesses memory.
static void run_memory(Interp *in, const Instr *instr) {
  if (in->unmoved || in->mesh) move_at_random(in);
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
      take_turns(in);
      if (!in->stopped) run_remote(in, instr);
      break;
    default:
      if (in->mesh && is_noticed(in, instr)) take_turns(in);
      if (!in->stopped) run_dma(in, instr);
  }
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

// Executes the instructions of a region, until the run stops or a loop is left.
static void run_region(Interp *in, const Region *region) {
  for (int i = 0; i < region->instrs.count && !in->stopped && !in->breaking; i++) {
    const Instr *instr = region->instrs.at[i];
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
    if (in->mesh) count_work(in, instr);
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

static void run_step(Interp *in) {
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
  if (!in->stopped) run_region(in, in->k->body);
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
  Progress progress = progress_start();
  progress.on &= !in->mesh;
  if (!start_grid(in)) return;
  in->in_grid = true;
  for (in->step = 0; in->step < in->steps && !in->stopped; in->step++) {
    progress_show(&progress, "interpreting: step", in->step, in->steps);
    run_step(in);
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
  if (start_states(&in)) run_region(&in, k->reference);
  for (int i = 0; i < k->outputs && !in.stopped; i++) {
    const Value *value = value_of(&in, ir_yielded(k->reference, i));
    write_elements(&operands[k->inputs + i], 0, value->count, value, 0);
    note_allowed(&in, i, value);
  }
  finish(&in);
}
