// A kernel on a chip: VMEM, rooflines, the predicted time with its bounds and parts, and the
// invariants of every run.
#include "codegen/tpu/torus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t extent(const Model *m, Dim dim) {
  return dim_is_const(dim) ? dim : m->sizes[dim_size_index(dim)];
}

// ---- VMEM

static void add_buffer(Model *m, const Ref *ref) {
  static const char *const roles[] = {"input", "output", "scratch", "var"};
  if (ref->space != SPACE_VMEM && ref->space != SPACE_SMEM && ref->space != SPACE_VAR) return;
  if (ref->space == SPACE_VAR && ref->type.rank == 0) return;  // a register
  Buffer b = {.name = ref->name,
              .what = roles[ref->role],
              .dtype = ref->type.dtype,
              .rank = ref->type.rank,
              .space = ref->space};
  b.span = ref->span;
  b.buffers = ref_is_operand(ref) ? ref->buffers : 1;
  for (int i = 0; i < b.rank; i++) b.dim[i] = extent(m, ref->type.dim[i]);
  b.bytes = saturating_mul(tpu_padded_bytes(m->chip, b.dtype, b.rank, b.dim, b.padded), b.buffers);
  if (b.space != SPACE_SMEM) m->vmem = saturating_add(m->vmem, b.bytes);
  LIST_PUSH(m->arena, &m->buffers, b);
}

static void map_vmem(Model *m) {
  m->vmem_limit = (int64_t)m->chip->value[CHIP_VMEM_BYTES];
  if (m->k->vmem_limit && m->k->vmem_limit < m->vmem_limit) m->vmem_limit = m->k->vmem_limit;
  m->vmem_default = (int64_t)m->chip->value[CHIP_VMEM_SCOPED];
  for (int i = 0; i < m->k->refs.count; i++) add_buffer(m, m->k->refs.at[i]);
  m->vmem = saturating_add(m->vmem, m->values.peak);
}

// ---- sums

static void scale_cost(Cost *cost, int64_t times) {
  double n = (double)times;
  for (int u = 0; u < UNITS; u++) cost->busy[u] *= n;
  cost->mxu_ideal *= n;
  cost->mxu_padding *= n;
  cost->mxu_in_step *= n;
  cost->mxu_passes *= n;
  cost->mxu_serial *= n;
  cost->flops = saturating_mul(cost->flops, times);
  cost->dot_flops = saturating_mul(cost->dot_flops, times);
  cost->transcendentals = saturating_mul(cost->transcendentals, times);
  cost->load_bytes = saturating_mul(cost->load_bytes, times);
  cost->store_bytes = saturating_mul(cost->store_bytes, times);
}

static void sum_costs(Model *m) {
  for (int i = 0; i < m->body->segments.count; i++) {
    Cost cost = m->body->segments.at[i].cost;
    scale_cost(&cost, m->sim.counts[i]);
    cost_add(&m->cost, &cost);
  }
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    m->moved_bytes = saturating_add(m->moved_bytes, m->sim.operand[i].bytes);
    m->once_bytes = saturating_add(m->once_bytes, m->sim.operand[i].once);
    if (!m->k->refs.at[i]->alias)
      m->held_bytes = saturating_add(m->held_bytes, m->sim.operand[i].once);
    m->streams += m->sim.operand[i].moved || m->sim.operand[i].bytes > 0;
  }
  m->moved_bytes = saturating_add(m->moved_bytes, m->sim.other_bytes);
}

static void find_peak(Instr *instr, void *context) {
  Model *m = context;
  if (instr->op != OP_DOT) return;
  DType a = instr->args[0]->type.dtype, b = instr->args[1]->type.dtype;
  DotRate rate = dot_rate(m->chip, instr, m->sim.cores);
  m->peak = m->dots ? fmin(m->peak, rate.peak) : rate.peak;
  m->dots = true;
  if (a == DT_F32 && b == DT_F32) m->f32_passes = fmax(m->f32_passes, rate.passes);
}

// ---- time and its bounds

static void set_lower(Model *m, double seconds, const char *reason) {
  if (seconds <= m->lower) return;
  m->lower = seconds;
  m->lower_reason = reason;
}

// Computes the lower bounds of the time, one for each unit.
static void find_bounds(Model *m) {
  const Totals *t = &m->sim.totals;
  double cores = m->sim.cores, dma = (double)m->moved_bytes / m->hbm;
  m->lower_reason = "nothing";
  set_lower(m, m->cost.mxu_ideal / cores, "arithmetic of the MXU at its peak");
  set_lower(m, dma, "bytes moved at the HBM's bandwidth");
  set_lower(m, m->cost.busy[UNIT_VMEM] / cores, "bytes loaded and stored at VMEM's bandwidth");
  set_lower(m, m->cost.busy[UNIT_VPU] / cores, "operations of the vector unit");
  set_lower(m, m->cost.busy[UNIT_STORE] / cores, "vectors stored, at the rate of the store slot");
  set_lower(m, m->cost.busy[UNIT_EUP] / cores, "operations of the transcendental unit");
  set_lower(m, m->cost.busy[UNIT_XLU] / cores, "operations of the cross-lane unit");
  set_lower(m, (double)t->overhead_ps * 1e-12, "grid steps, at the cost of each");
  double serial = m->cost.mxu_serial, issued = 0;
  for (int u = 0; u < UNITS; u++)
    if (u != UNIT_MXU) serial += m->cost.busy[u];
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) issued += (double)m->sim.operand[i].issued;
  const MeshRun *mesh = m->sim.mesh;
  if (mesh && mesh->busiest >= 0)
    set_lower(m, (double)mesh->link_ps[mesh->busiest] * 1e-12,
              "bytes over the busiest link at its bandwidth");
  double share =
      t->steps ? (double)t->overhead_ps * 1e-12 / ((double)t->steps * m->chip->value[CHIP_STEP])
               : 1;
  m->upper = share * (serial + issued * m->chip->value[CHIP_HBM_LATENCY]) + dma * share * cores +
             (double)(t->overhead_ps + t->inner_ps + (mesh ? mesh->sent_ps : 0)) * 1e-12;
  m->seconds = (double)t->time_ps * 1e-12;
  if (m->upper < m->seconds) m->upper = m->seconds;
}

static void find_shares(Model *m) {
  double time = m->seconds * m->sim.cores,
         full = m->cost.mxu_ideal / m->chip->value[CHIP_SUSTAINED],
         mxu = full + m->cost.mxu_padding;
  if (!(time > 0)) return;
  m->mxu = m->cost.mxu_ideal / time;
  m->mxu_rows = mxu > 0 ? full / mxu : 0;
  m->vpu = m->cost.busy[UNIT_VPU] / time;
  m->hbm_share = (double)m->moved_bytes / m->hbm / m->seconds;
}

// Finds the unit that the simulated time is bound by.
static void find_bound(Model *m) {
  const Totals *t = &m->sim.totals;
  double cores = m->sim.cores, best = (double)(t->overhead_ps + t->inner_ps) * 1e-12;
  double hbm = (double)m->moved_bytes / m->hbm_sustained, runs = 0;
  for (int i = 0; i < m->body->segments.count; i++)
    runs += (double)m->body->segments.at[i].ps * 1e-12 * (double)m->sim.counts[i] / cores;
  m->fill = fmax(0, (double)t->compute_ps * 1e-12 - runs);
  m->bound = t->steps ? "the cost of steps" : "nothing";
  m->bound_unit = UNITS;
  for (int u = 0; u < UNITS; u++)
    if (m->cost.busy[u] / cores > best) {
      best = m->cost.busy[u] / cores;
      m->bound = unit_names[u];
      m->bound_unit = (Unit)u;
    }
  const char *of_unit = m->bound;
  if (m->fill > best) best = m->fill, m->bound = "operations that wait for each other";
  if (hbm > best) best = hbm, m->bound = "HBM bandwidth";
  const MeshRun *mesh = m->sim.mesh;
  int64_t others = mesh ? mesh->wait_ps : 0, link = 0;
  if (mesh && mesh->busiest >= 0) link = mesh->link_ps[mesh->busiest];
  if ((double)link * 1e-12 > best) {
    best = (double)link * 1e-12;
    m->bound = torus_is_dcn(mesh->torus, mesh->busiest) ? "DCN bandwidth" : "ICI bandwidth";
    m->bound_by_devices = true;
  }
  double late = (double)(t->wait_ps - others + t->prologue_ps + t->epilogue_ps) * 1e-12;
  if (late > best) best = late, m->bound = "HBM latency", m->bound_by_devices = false;
  if ((double)(others - link) * 1e-12 > best)
    m->bound = "waits for devices", m->bound_by_devices = true;
  if (m->bound != of_unit) m->bound_unit = UNITS;
}

// ---- losses

static void add_loss(Model *m, double seconds, Span span, const char *text) {
  if (seconds > 1e-9 && seconds > 1e-4 * m->seconds)
    LIST_PUSH(m->arena, &m->losses, ((Loss){seconds, span, text}));
}

static int by_seconds(const void *a, const void *b) {
  double x = ((const Loss *)a)->seconds, y = ((const Loss *)b)->seconds;
  return x < y ? 1 : x > y ? -1 : 0;
}

static double times_over(const OperandCount *o) {
  return o->once > 0 ? (double)o->bytes / (double)o->once : 0;
}

// HBM is the bound: it is always busy, whichever unit waits for it.
static void bandwidth_loss(Model *m) {
  int most = 0;
  for (int i = 1; i < m->k->inputs + m->k->outputs; i++)
    if (m->sim.operand[i].bytes > m->sim.operand[most].bytes) most = i;
  const OperandCount *o = &m->sim.operand[most];
  const char *name = m->k->refs.at[most]->name;
  Buf all = {0}, own = {0};
  tpu_put_bytes(&all, m->moved_bytes);
  tpu_put_bytes(&own, o->bytes);
  const char *again =
      times_over(o) > 1.05 ? arena_printf(m->arena, ", %.3g times the array", times_over(o)) : "";
  add_loss(m, (double)m->moved_bytes / m->hbm_sustained, m->k->refs.at[most]->span,
           arena_printf(m->arena, "HBM moves %s, which binds; %s of it are `%s`%s", all.text,
                        own.text, name, again));
  buf_free(&all);
  buf_free(&own);
}

static void operand_losses(Model *m) {
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    const OperandCount *o = &m->sim.operand[i];
    const Ref *ref = m->k->refs.at[i];
    double times = times_over(o);
    const char *text =
        i >= m->k->inputs
            ? arena_printf(m->arena, "the core waits for `%s` to be written back", ref->name)
        : times > 1.05
            ? arena_printf(m->arena,
                           "the core waits for blocks of `%s`, which is fetched %.3g times over",
                           ref->name, times)
            : arena_printf(m->arena,
                           "the core waits for blocks of `%s`, which HBM delivers no faster",
                           ref->name);
    add_loss(m, (double)o->wait_ps * 1e-12 / m->sim.cores, ref->span, text);
  }
}

// The time that the MXU loses on a segment's products.
static void segment_losses(Model *m, const Segment *s, double times) {
  const Instr *dot = s->costliest[UNIT_MXU];
  if (!dot) return;
  add_loss(m, s->cost.mxu_padding * times, dot->span,
           "the MXU works on padding: an operand is narrower than the array or has few rows");
  const double sustained = m->chip->value[CHIP_SUSTAINED];
  add_loss(m, s->cost.mxu_ideal * (1 / sustained - 1) * times, dot->span,
           arena_printf(m->arena, "the MXU sustains %.0f %% of its peak", 100 * sustained));
  if (s->waits)
    add_loss(m, fmin(m->fill, (double)(s->exposed_ps + s->fill_ps) * 1e-12 * times), s->waits->span,
             "the product waits for operations that wait for another product");
  add_loss(
      m, s->cost.mxu_passes * times, dot->span,
      arena_printf(m->arena, "products of f32 take %.0f passes through the MXU; bf16 takes one",
                   dot_rate(m->chip, dot, 1).passes));
}

// The other units: each line on which one works longer than the MXU does there.
static void line_losses(Model *m) {
  for (int i = 0; i < m->lines.count; i++) {
    const LineCost *line = &m->lines.at[i];
    Unit unit = UNIT_VPU;
    for (int u = UNIT_VPU; u < UNITS; u++)
      if (line->busy[u] > line->busy[unit]) unit = (Unit)u;
    if (unit != m->bound_unit && line->busy[unit] <= line->busy[UNIT_MXU]) continue;
    if (m->bound_unit == UNIT_MXU && m->cost.busy[unit] < m->cost.busy[UNIT_MXU]) continue;
    if (!line->worst[unit]) continue;
    add_loss(m, line->busy[unit], line->worst[unit]->span,
             arena_printf(m->arena, "the %s is busy%s, mostly with `%s`", unit_names[unit],
                          unit == m->bound_unit ? ", which binds" : "",
                          op_info[line->worst[unit]->op].name));
  }
}

static void note_wait(Instr *instr, void *context) {
  Model *m = context;
  const MeshRun *mesh = m->sim.mesh;
  if (mesh->wait_at[instr->id] > 0)
    add_loss(m, (double)mesh->wait_at[instr->id] * 1e-12, instr->span,
             arena_printf(m->arena, "a device waits for others, which add to `%s`",
                          instr->semaphore->name));
}

// Lists the largest losses, with the source line and advice.
static const char *why_idle(const Model *m) {
  const int axis = tpu_axis_to_share(m->k, m->sizes);
  if (axis < 0) return "a core is idle: no `parallel` axis can be split";
  return arena_printf(m->arena,
                      "a core is idle: `%s` is not declared `parallel`, though its steps provably "
                      "do not depend on each other",
                      m->k->grid.at[axis].name);
}

// Lists what keeps the kernel from its bound, with the seconds of each.
static void find_losses(Model *m) {
  const Totals *t = &m->sim.totals;
  const Kernel *k = m->k;
  Span grid = k->grid.count ? k->grid.at[0].span : k->span;
  add_loss(
      m, (double)t->overhead_ps * 1e-12, grid,
      arena_printf(m->arena, "%lld grid step%s cost%s %.2g us%s%s: larger blocks need fewer steps",
                   (long long)t->steps, t->steps == 1 ? "" : "s", t->steps == 1 ? "s" : "",
                   m->chip->value[CHIP_STEP] * 1e6, t->steps == 1 ? "" : " each",
                   strcmp(m->bound, "the cost of steps") == 0 ? ", which binds" : ""));
  add_loss(m, (double)t->inner_ps * 1e-12, grid,
           "iterations of loops that start copies cost what a grid step does");
  add_loss(m, (double)t->prologue_ps * 1e-12, grid,
           "the pipeline fills: the first blocks are fetched while nothing can run");
  add_loss(m, (double)t->epilogue_ps * 1e-12, grid,
           "the pipeline drains: the last blocks go out when all else is done");
  if (m->sim.mesh && t->steps) ir_walk(m->k->body, note_wait, m);
  if (strcmp(m->bound, "HBM bandwidth") == 0)
    bandwidth_loss(m);
  else
    operand_losses(m);
  for (int i = 0; i < m->body->segments.count; i++)
    segment_losses(m, &m->body->segments.at[i], (double)m->sim.counts[i] / m->sim.cores);
  line_losses(m);
  double executed = (double)m->cost.dot_flops;
  if (m->useful_flops > 0 && executed > m->useful_flops && k->reference)
    add_loss(m, m->cost.mxu_ideal / m->sim.cores * (1 - m->useful_flops / executed), grid,
             arena_printf(m->arena,
                          "%.3g of %.3g FLOP are spent beyond what the reference needs: past the "
                          "edges, or masked away",
                          executed - m->useful_flops, executed));
  if (chip_cores(m->chip) > m->sim.cores && t->steps > 0 && !m->bound_by_devices)
    add_loss(m, m->seconds * (1 - (double)m->sim.cores / chip_cores(m->chip)), grid, why_idle(m));
  if (m->losses.count)
    sort_items(m->losses.at, (size_t)m->losses.count, sizeof *m->losses.at, by_seconds);
}

// ---- conservation laws

#define LAW(holds, ...) ((holds) ? (void)0 : INTERNAL("the TPU model breaks a law: " __VA_ARGS__))

// Walks a small grid again, with the interpreter's evaluation of index maps.
static void recount(const Model *m, const int64_t *extents) {
  const Kernel *k = m->k;
  for (int i = 0; i < k->inputs; i++) {
    const Ref *ref = k->refs.at[i];
    const OperandCount *o = &m->sim.operand[i];
    if (!o->moved || o->by_data || !ref->index_map || m->sim.cores > 1) continue;
    int64_t *axes = calloc((size_t)k->grid.count + 1, sizeof *axes), index[MAX_INDEX] = {0},
            held[MAX_INDEX], issued = 0;
    if (!axes) INTERNAL("no memory for %d axes", k->grid.count);
    for (int axis = 0; axis >= 0;) {
      eval_region(k, ref->index_map, m->sizes, axes, index);
      if (!issued || memcmp(index, held, sizeof held) != 0) issued++;
      memcpy(held, index, sizeof held);
      for (axis = k->grid.count - 1; axis >= 0 && ++axes[axis] == extents[axis]; axis--)
        axes[axis] = 0;
    }
    free(axes);
    LAW(issued == o->issued, "%lld transfers of %s counted, %lld simulated", (long long)issued,
        ref->name, (long long)o->issued);
  }
}

// Checks invariants of the result; a violation is an internal error.
static void check_laws(const Model *m) {
  enum { RECOUNT = 4096 };
  const Totals *t = &m->sim.totals;
  double slack = 1e-6 * m->seconds + 1e-9;
  LAW(t->time_ps == t->compute_ps + t->overhead_ps + t->inner_ps + t->wait_ps + t->prologue_ps +
                        t->epilogue_ps,
      "%lld ps are not the sum of their parts", (long long)t->time_ps);
  LAW(m->seconds + slack >= m->lower, "%.9g s is less than %.9g s for %s", m->seconds, m->lower,
      m->lower_reason);
  int64_t issued = 0;
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    const OperandCount *o = &m->sim.operand[i];
    issued += o->issued;
    LAW(!o->moved || m->k->refs.at[i]->revisit || o->issued + o->skipped == t->steps,
        "%s was looked at %lld times in %lld steps", m->k->refs.at[i]->name,
        (long long)(o->issued + o->skipped), (long long)t->steps);
  }
  double hbm = (double)t->hbm_ps * 1e-12, bytes = (double)m->moved_bytes / m->hbm_sustained;
  // The slowest core's transfers are at least its share, and every transfer is rounded to a
  // picosecond.
  LAW(hbm <= m->seconds + slack, "HBM is busy for %.9g s of %.9g", hbm, m->seconds);
  LAW(m->sim.cores > 1 || fabs(hbm - bytes) <= 1e-9 * bytes + 1e-12 * (double)(issued + 1),
      "%.9g s of transfers, %.9g s of bytes", hbm, bytes);
  for (int i = 0; i < m->body->top->items.count; i++) {
    const Item *item = &m->body->top->items.at[i];
    LAW(item->instr || m->sim.counts[item->segment] == t->steps,
        "what every step runs ran %lld times in %lld steps",
        (long long)m->sim.counts[item->segment], (long long)t->steps);
  }
  int64_t *extents = calloc((size_t)m->k->grid.count + 1, sizeof *extents);
  if (!extents) INTERNAL("no memory for %d axes", m->k->grid.count);
  for (int i = 0; i < m->k->grid.count; i++)
    extents[i] = eval_index(m->k, m->k->grid.at[i].extent, m->sizes, NULL, 0);
  if (t->steps > 0 && t->steps <= RECOUNT) recount(m, extents);
  free(extents);
}

// ---- a mesh

// A slice with the shape of the kernel's mesh, unless the caller gives another one.
static const char *find_slice(Model *m, const Slice *given, Torus *torus) {
  Buf shape = {0};
  for (int i = 0; i < m->k->mesh.count; i++)
    buf_printf(&shape, "%s%lld", i ? "x" : "", (long long)m->k->mesh.at[i].extent);
  const char *own = arena_strndup(m->arena, shape.text, shape.length);
  buf_free(&shape);
  return torus_read(m->arena, m->chip, given && given->mesh ? given->mesh : own,
                    given ? given->over : NULL, given ? given->count : 1, torus);
}

static const char *place_mesh(Model *m, const Slice *given) {
  Torus *torus = NEW(m->arena, Torus);
  MeshRun *mesh = NEW(m->arena, MeshRun);
  const char *wrong = find_slice(m, given, torus);
  if (wrong) return wrong;
  m->torus = torus;
  *mesh = (MeshRun){.torus = torus, .devices = (int)ir_device_count(m->k), .busiest = -1};
  mesh->chip = NEW_ARRAY(m->arena, int, mesh->devices);
  if (m->body->talks) m->sim.mesh = mesh;
  torus_place(torus, m->k, mesh->chip);
  return NULL;
}

// Runs the stages of the model.
static const char *run(Model *m, Kernel *k, TraceLog *log, ModelOptions options) {
  Arena *arena = m->arena;
  const Chip *chip = m->chip;
  const int64_t *sizes = m->sizes;
  CostModel cost = cost_model(arena, k, chip, sizes);
  m->values = find_values(&cost);
  cost.buffered = m->values.buffered;
  m->body = body_new(&cost);
  m->sim = (Simulation){.arena = arena,
                        .k = k,
                        .chip = chip,
                        .sizes = sizes,
                        .body = m->body,
                        .whole = options.whole,
                        .log = log};
  const char *wrong = k->mesh.count ? place_mesh(m, options.slice) : NULL;
  if (wrong) return wrong;
  if (m->sim.mesh)
    simulate_mesh(&m->sim);
  else
    simulate(&m->sim);
  if (m->sim.problem) return m->sim.problem;
  m->peak = chip_peak(chip, DT_BF16, m->sim.cores);
  ir_walk(k->body, find_peak, m);
  m->hbm = chip_hbm_bandwidth(chip, m->sim.cores);
  m->hbm_sustained = chip_hbm_sustained(chip, m->sim.cores);
  m->vmem_bandwidth = chip_vmem_bandwidth(chip) * m->sim.cores;
  m->useful_flops = k->reference && m->dots ? reference_flops(k, sizes) : 0;
  m->useful_flops /= (double)ir_device_count(k);
  map_vmem(m);
  sum_costs(m);
  if (m->cost.flops == INT64_MAX || m->moved_bytes == INT64_MAX)
    return "it does more than 2^63 operations";
  find_bounds(m);
  find_shares(m);
  find_bound(m);
  find_lines(m);
  find_losses(m);
  check_laws(m);
  return NULL;
}

ModelCounts tpu_model_counts(const Model *m) {
  return (ModelCounts){
      .flops = (double)m->cost.flops,
      .bytes = (double)m->moved_bytes,
      .steps = (double)m->sim.totals.steps,
      .walked = (double)m->sim.totals.simulated + (m->sim.mesh ? (double)m->sim.mesh->events : 0),
      .by_data = m->body->assumed.count > 0};
}

const char *tpu_model_unfit(const Model *m) {
  return chip_exceeded(m->arena, m->chip, (double)m->held_bytes);
}

Model *tpu_model(Arena *arena, Kernel *k, const int64_t *sizes, const Chip *chip,
                 ModelOptions options, const char **wrong) {
  Model *m = NEW(arena, Model);
  *m = (Model){.arena = arena, .k = k, .chip = chip, .sizes = sizes};
  TraceLog *log = NULL;
  if (options.events) {
    log = NEW(arena, TraceLog);
    *log = (TraceLog){.arena = arena, .most_events = options.events};
  }
  ir_take_parts(k);
  *wrong = run(m, k, log, options);
  ir_take_whole(k);
  return *wrong ? NULL : m;
}
