// The report of `pkc tpu` as text and as JSON.
#include "codegen/tpu/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_shape(Buf *out, DType dtype, int rank, const int64_t *dim) {
  buf_printf(out, "%s[", dtype_info[dtype].name);
  for (int i = 0; i < rank; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)dim[i]);
  buf_putc(out, ']');
}

// ---- text

double tpu_busy(const Model *m, Unit unit) {
  double busy = m->cost.busy[unit] + (unit == UNIT_MXU ? m->cost.mxu_in_step : 0);
  return m->seconds > 0 ? busy / m->sim.cores / m->seconds : 0;
}

// The shares of the time in which units are busy; for the MXU also the share of its peak.
static void put_busy(const Model *m, Buf *out) {
  buf_printf(out, "  busy         MXU %.1f %%", 100 * tpu_busy(m, UNIT_MXU));
  if (m->mxu > 0)
    buf_printf(out, " (%.0f %% full: %.1f %% of its peak)", 100 * m->mxu_rows, 100 * m->mxu);
  for (int u = UNIT_VPU; u < UNIT_SCALAR; u++)
    if (u == UNIT_VPU || tpu_busy(m, (Unit)u) >= 0.1)
      buf_printf(out, ", %s %.1f %%", unit_names[u], 100 * tpu_busy(m, (Unit)u));
  buf_printf(out, ", HBM %.1f %%\n", 100 * m->hbm_share);
}

typedef struct {
  const char *bound;
  int count;
  double low, high;
} Regime;

static const Regime regimes[] = {
#define REGIME(bound, count, low, high) {bound, count, low, high},
#include "codegen/tpu/regimes.def"
};
enum { REGIMES = sizeof regimes / sizeof *regimes };

// There are no measurements with several devices.
static const Regime *regime_of(const Model *m) {
  if (m->torus) return NULL;
  for (int i = 0; i < REGIMES; i++)
    if (strcmp(regimes[i].bound, m->bound) == 0) return &regimes[i];
  return NULL;
}

void tpu_list_regimes(Buf *out) {
  buf_puts(out,
           "errors, by what binds: of the published measurements (tests/tpu/published), the middle "
           "nine tenths over the model\n");
  for (int i = 0; i < REGIMES; i++)
    buf_printf(out, "  %-20s %4d measurements   %.2f to %.2f\n", regimes[i].bound, regimes[i].count,
               regimes[i].low, regimes[i].high);
}

static void put_error(const Model *m, Buf *out) {
  const Regime *r = regime_of(m);
  if (!r) {
    buf_printf(out, "  error        %s\n",
               m->torus ? "no measurements of kernels for several devices are published"
                        : "too few published measurements of kernels that are bound so");
    return;
  }
  buf_puts(out, "  error        ");
  tpu_put_time(out, m->seconds * r->low);
  buf_puts(out, " to ");
  tpu_put_time(out, m->seconds * r->high);
  buf_printf(out, ": %.2f to %.2f times the model in 9 of 10 of %d published measurements\n",
             r->low, r->high, r->count);
}

// Prints how many rules of the chip the kernel breaks. The rules of meshes are not known.
static void put_legality(const Model *m, Buf *out) {
  if (m->k->mesh.count) return;
  int found = tpu_check((Kernel *)m->k, m->chip, m->sizes, diag_new(m->arena, m->k->source));
  if (found > 0)
    buf_printf(out,
               "  refused      %d problem%s would keep it from running: `pkc check --tpu %s`\n",
               found, found == 1 ? "" : "s", m->chip->name);
}

// Prints the time, its bounds and its parts.
static void put_head(const Model *m, Buf *out) {
  const Kernel *k = m->k;
  const Totals *t = &m->sim.totals;
  buf_printf(out, "%s on %s", k->name, m->chip->name);
  for (int i = 0; i < k->sizes.count; i++) {
    int given = size_by_name(k->sizes.at, i);
    if (!k->sizes.at[i].value)
      buf_printf(out, " %s=%lld", k->sizes.at[given].name, (long long)m->sizes[given]);
  }
  buf_puts(out, "\n\n  time         ");
  tpu_put_time(out, m->seconds);
  buf_puts(out, ", between ");
  tpu_put_time(out, m->lower);
  buf_printf(out, " (%s) and ", m->lower_reason);
  tpu_put_time(out, m->upper);
  buf_puts(out, " (nothing overlaps); a caller sees ");
  tpu_put_time(out, m->seconds + m->chip->value[CHIP_DISPATCH]);
  buf_printf(out, "\n  bound by     %s\n  grid        ", m->bound);
  for (int i = 0; i < k->grid.count; i++)
    buf_printf(out, " %s = %lld%s,", k->grid.at[i].name,
               (long long)eval_index(k, k->grid.at[i].extent, m->sizes, NULL, 0),
               i == m->sim.split_axis ? " (split over the cores)" : "");
  buf_printf(out, " %lld step%s of ", (long long)t->steps, t->steps == 1 ? "" : "s");
  tpu_put_time(out, t->steps ? m->seconds * m->sim.cores / (double)t->steps : 0);
  if (t->simulated < t->steps)
    buf_printf(out, "; %lld simulated, the others repeat them", (long long)t->simulated);
  buf_putc(out, '\n');
  tpu_put_mesh(m, out);
  put_legality(m, out);
  put_error(m, out);
  put_busy(m, out);
}

int name_width(int width, const char *name) {
  const int length = (int)strlen(name);
  return length > width ? length : width;
}

static int operands_width(const Model *m) {
  int width = 12;
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++)
    width = name_width(width, m->k->refs.at[i]->name);
  return width;
}

// Prints the work, and the traffic of each operand.
static void put_counts(const Model *m, Buf *out) {
  const Cost *c = &m->cost;
  buf_printf(out,
             "  work         %.6g FLOP executed, %.6g of them in products; %.6g transcendentals",
             (double)c->flops, (double)c->dot_flops, (double)c->transcendentals);
  if (m->useful_flops > 0)
    buf_printf(out, "; %.6g FLOP are useful: the reference needs them", m->useful_flops);
  const int width = operands_width(m);
  buf_printf(out, "\n\n%-*s %15s %14s %10s %10s %11s\n", width + 2, "HBM", "moved", "once",
             "transfers", "skipped", "waits");
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    const OperandCount *o = &m->sim.operand[i];
    Buf wait = {0};
    tpu_put_time(&wait, (double)o->wait_ps * 1e-12);
    buf_printf(out, "  %-*s %15lld %14lld %10lld %10lld %11s%s\n", width, m->k->refs.at[i]->name,
               (long long)o->bytes, (long long)o->once, (long long)o->issued, (long long)o->skipped,
               wait.text,
               !o->moved && o->issued == 0 ? "  not moved by the grid"
               : o->by_data ? "  its index depends on data: taken as new in each step"
                            : "");
    buf_free(&wait);
  }
  buf_printf(out, "  %-*s %15lld %14lld\n", width, "in all", (long long)m->moved_bytes,
             (long long)m->once_bytes);
}

static void put_roof(Buf *out, const char *name, double flops, double bytes, double peak,
                     double bandwidth) {
  double intensity = bytes > 0 ? flops / bytes : INFINITY, ridge = peak / bandwidth;
  buf_printf(out, "  %-42s %10.4g FLOP/B; from %.4g on bound by compute: %s\n", name, intensity,
             ridge, intensity >= ridge ? "compute" : "memory");
}

// Without FLOP there is no intensity.
static void put_rooflines(const Model *m, Buf *out) {
  double flops = (double)(m->cost.dot_flops ? m->cost.dot_flops : m->cost.flops);
  if (flops <= 0) return;
  const double *v = m->chip->value;
  // Without products the peak is that of the vector unit.
  double vector = v[CHIP_SUBLANES] * v[CHIP_LANES] * v[CHIP_ALUS] * v[CHIP_CLOCK] * m->sim.cores;
  double peak = m->cost.dot_flops ? m->peak : vector;
  buf_printf(out, "\nRooflines, at %.4g FLOP/s of the %s, %.3g B/s of HBM and %.3g of VMEM\n", peak,
             m->cost.dot_flops ? "MXU" : "vector unit", m->hbm, m->vmem_bandwidth);
  double needed = m->useful_flops > 0 ? m->useful_flops : flops;
  put_roof(out, "HBM, each operand once, useful FLOP", needed, (double)m->once_bytes, peak, m->hbm);
  put_roof(out, "HBM, as moved, executed FLOP", flops, (double)m->moved_bytes, peak, m->hbm);
  put_roof(out, "VMEM, each operand once, useful FLOP", needed, (double)m->once_bytes, peak,
           m->vmem_bandwidth);
  put_roof(out, "VMEM, as loaded and stored, executed FLOP", flops,
           (double)m->cost.load_bytes + (double)m->cost.store_bytes, peak, m->vmem_bandwidth);
}

// Explains which buffer to make smaller if VMEM does not suffice.
static void put_advice(const Model *m, Buf *out) {
  const Buffer *largest = NULL;
  for (int i = 0; i < m->buffers.count; i++) {
    const Buffer *b = &m->buffers.at[i];
    if (b->space != SPACE_SMEM && (!largest || b->bytes > largest->bytes)) largest = b;
  }
  if (m->vmem <= m->vmem_limit) return;
  if (m->values.at && (!largest || m->values.peak > largest->bytes)) {
    buf_printf(out,
               "  It does not fit: %lld bytes too many. The values of line %d take most: smaller "
               "blocks make them smaller.\n",
               (long long)(m->vmem - m->vmem_limit), ir_line(m->k, m->values.at->span));
    return;
  }
  if (!largest) return;
  buf_printf(out,
             "  It does not fit: %lld bytes too many. Make the block of `%s` (line %d) smaller: "
             "half of it saves %lld bytes",
             (long long)(m->vmem - m->vmem_limit), largest->name, ir_line(m->k, largest->span),
             (long long)(largest->bytes / 2));
  buf_puts(out, largest->buffers > 1 ? ", for it is held twice.\n" : ".\n");
}

// The values that are in VMEM when they need the most memory.
static void put_values(const Model *m, int width, Buf *out) {
  const Values *v = &m->values;
  if (!v->at) return;
  buf_printf(out, "  %-*s %14lld  %5.1f %%  line %d: %d value%s, the last of `%s`\n", width,
             "values", (long long)v->peak, 100 * (double)v->peak / (double)m->vmem_limit,
             ir_line(m->k, v->at->span), v->count, v->count == 1 ? "" : "s at once",
             op_info[v->at->op].name);
}

// Prints the map of VMEM.
static void put_vmem(const Model *m, Buf *out) {
  int width = 12, shape = 20;
  for (int i = 0; i < m->buffers.count; i++) {
    const Buffer *b = &m->buffers.at[i];
    Buf tiles = {0};
    put_shape(&tiles, b->dtype, b->rank, b->padded);
    width = name_width(width, b->name);
    shape = name_width(shape, tiles.text);
    buf_free(&tiles);
  }
  buf_printf(out, "\n%-*s %-*s %-*s %7s %14s  %6s\n", width + 2, "VMEM", shape, "block", shape,
             "in tiles", "buffers", "bytes", "share");
  for (int i = 0; i < m->buffers.count; i++) {
    const Buffer *b = &m->buffers.at[i];
    Buf block = {0}, tiles = {0};
    put_shape(&block, b->dtype, b->rank, b->dim);
    put_shape(&tiles, b->dtype, b->rank, b->padded);
    buf_printf(out, "  %-*s %-*s %-*s %7d %14lld  %5.1f %%%s\n", width, b->name, shape, block.text,
               shape, tiles.text, b->buffers, (long long)b->bytes,
               100 * (double)b->bytes / (double)m->vmem_limit,
               b->space == SPACE_SMEM ? " (scalar memory)" : "");
    buf_free(&block);
    buf_free(&tiles);
  }
  const int names = width + 2 * shape + 10;
  put_values(m, names, out);
  buf_printf(out, "  %-*s %14lld  %5.1f %% of ", names, "in all", (long long)m->vmem,
             100 * (double)m->vmem / (double)m->vmem_limit);
  tpu_put_bytes(out, m->vmem_limit);
  buf_printf(out, ": %s\n", m->vmem <= m->vmem_limit ? "fits" : "does not fit");
  put_advice(m, out);
  if (m->vmem <= m->vmem_default || m->vmem > m->vmem_limit || m->k->vmem_limit) return;
  buf_puts(out, "  That is more than the ");
  tpu_put_bytes(out, m->vmem_default);
  buf_puts(out, " that a kernel gets by default: in Pallas it needs vmem_limit_bytes.\n");
}

static void put_losses(const Model *m, Buf *out) {
  enum { SHOWN = 3 };
  if (m->losses.count == 0) return;
  buf_puts(out, "\nThe largest losses\n");
  for (int i = 0; i < m->losses.count && i < SHOWN; i++) {
    const Loss *l = &m->losses.at[i];
    Buf time = {0};
    tpu_put_time(&time, l->seconds);
    buf_printf(out, "  %-10s %5.1f %%  line %d: %s\n", time.text, 100 * l->seconds / m->seconds,
               ir_line(m->k, l->span), l->text);
    buf_free(&time);
  }
}

// The pipeline follows the index maps, so a step whose body skips an input fetches it nevertheless.
static void put_skipped(const Model *m, Buf *out) {
  int count = 0;
  for (int i = 0; i < m->k->inputs; i++) {
    const OperandCount *o = &m->sim.operand[i];
    if (!o->unread) continue;
    buf_puts(out, count++ ? ", "
                          : "  conditions skip all work on blocks that are fetched nevertheless: ");
    tpu_put_bytes(out, o->unread);
    buf_puts(out, " of the ");
    tpu_put_bytes(out, o->bytes);
    buf_printf(out, " of `%s`", m->k->refs.at[i]->name);
  }
  if (count)
    buf_puts(out, "; a CPU does not read those, a TPU's pipeline follows index maps alone\n");
}

// Prints the assumptions of the model.
static void put_assumptions(const Model *m, Buf *out) {
  buf_puts(out,
           "\nAssumed: the units overlap between branches and loops, transfers overlap all; no "
           "spills, no changes of layout");
  if (m->f32_passes > 0)
    buf_printf(out, "; f32 products in %.0f pass%s", m->f32_passes, m->f32_passes > 1 ? "es" : "");
  buf_puts(out, ".\n");
  if (m->sim.mesh && m->sim.mesh->by_data)
    buf_puts(out,
             "  the device, semaphore or amount of a copy or signal depends on data: counted as "
             "this device, the first semaphore and 1\n");
  if (m->torus && !m->sim.mesh && m->body->asks)
    buf_puts(out, "  devices do different work: counted as on the first\n");
  put_skipped(m, out);
  for (int i = 0; i < m->body->assumed.count; i++) {
    const Instr *instr = m->body->assumed.at[i].instr;
    buf_printf(out, "  line %d: `%s` depends on data: counted as if it %s\n",
               ir_line(m->k, instr->span), op_info[instr->op].name,
               instr->op != OP_IF              ? "ran once"
               : m->body->assumed.at[i].leaves ? "did not hold, and a `while` that it ends ran once"
                                               : "held");
  }
  for (int i = 0; i < m->body->unmodelled.count; i++)
    buf_printf(out, "  line %d: `%s` is not modelled: it costs nothing here\n",
               ir_line(m->k, m->body->unmodelled.at[i]->span),
               op_info[m->body->unmodelled.at[i]->op].name);
}

void tpu_text(const Model *m, Buf *out) {
  put_head(m, out);
  put_counts(m, out);
  put_rooflines(m, out);
  put_vmem(m, out);
  put_losses(m, out);
  tpu_put_lines(m, out);
  put_assumptions(m, out);
}

// Why the kernel does not run on that chip.
static void put_remarks(const Model *m, Buf *out) {
  static const Source nothing = {.path = ""};
  Diag *diag = diag_new(m->arena, &nothing);
  if (tpu_model_unfit(m)) buf_puts(out, "  larger than its HBM");
  if (m->vmem > m->vmem_limit) buf_puts(out, "  does not fit");
  if (m->chip->value[CHIP_CORES] > m->sim.cores) buf_puts(out, "  (one core of two)");
  if (tpu_check_dtypes((Kernel *)m->k, m->chip, m->sizes, diag) > 0)
    buf_puts(out, "  (no such dtypes: check --tpu)");
  buf_putc(out, '\n');
}

// Prints the time on every chip.
void tpu_table(Model *const *models, int count, Buf *out) {
  if (count == 0) {
    buf_puts(
        out,
        "\nOther chips: --chip CHIP models one; modelling all of them would take long, because "
        "few steps repeat others\n");
    return;
  }
  buf_puts(out,
           "\nOn each chip       time  bound by                 MXU      HBM     VMEM  of peak, "
           "with dispatch\n");
  for (int i = 0; i < count; i++) {
    const Model *m = models[i];
    Buf time = {0};
    tpu_put_time(&time, m->seconds);
    double caller = m->seconds + m->chip->value[CHIP_DISPATCH];
    buf_printf(out, "  %-8s %12s  %-20s %5.1f %%  %5.1f %%  %5.1f %%  %5.1f %%", m->chip->name,
               time.text, m->bound, 100 * tpu_busy(m, UNIT_MXU), 100 * m->hbm_share,
               100 * (double)m->vmem / (double)m->vmem_limit, 100 * m->mxu * m->seconds / caller);
    put_remarks(m, out);
    buf_free(&time);
  }
}

// ---- JSON

static void json_operands(const Model *m, Buf *out) {
  json_open(out, "operands", '[');
  for (int i = 0; i < m->k->inputs + m->k->outputs; i++) {
    const OperandCount *o = &m->sim.operand[i];
    json_open(out, NULL, '{');
    json_text(out, "name", m->k->refs.at[i]->name);
    json_int(out, "bytes", o->bytes);
    json_int(out, "once", o->once);
    json_int(out, "issued", o->issued);
    json_int(out, "unread_bytes", o->unread);
    json_int(out, "skipped", o->skipped);
    json_real(out, "wait_s", (double)o->wait_ps * 1e-12);
    json_close(out, '}');
  }
  json_close(out, ']');
}

// The map of VMEM as JSON.
static void json_vmem(const Model *m, Buf *out) {
  json_open(out, "vmem", '{');
  json_int(out, "bytes", m->vmem);
  json_int(out, "limit", m->vmem_limit);
  json_bool(out, "fits", m->vmem <= m->vmem_limit);
  json_int(out, "default_limit", m->vmem_default);
  json_int(out, "values", m->values.peak);
  if (m->values.at) json_int(out, "values_line", ir_line(m->k, m->values.at->span));
  json_open(out, "buffers", '[');
  for (int i = 0; i < m->buffers.count; i++) {
    const Buffer *b = &m->buffers.at[i];
    json_open(out, NULL, '{');
    json_text(out, "name", b->name);
    json_text(out, "kind", b->what);
    json_text(out, "dtype", dtype_info[b->dtype].name);
    json_ints(out, "block", b->dim, b->rank);
    json_ints(out, "padded", b->padded, b->rank);
    json_int(out, "buffers", b->buffers);
    json_int(out, "bytes", b->bytes);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
}

static void json_losses(const Model *m, Buf *out) {
  json_open(out, "losses", '[');
  for (int i = 0; i < m->losses.count; i++) {
    const Loss *l = &m->losses.at[i];
    json_open(out, NULL, '{');
    json_int(out, "line", ir_line(m->k, l->span));
    json_real(out, "seconds", l->seconds);
    json_text(out, "text", l->text);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void json_sizes(const Model *m, Buf *out) {
  const Kernel *k = m->k;
  json_open(out, "sizes", '{');
  for (int i = 0; i < k->sizes.count; i++) {
    int given = size_by_name(k->sizes.at, i);
    if (!k->sizes.at[i].value) json_int(out, k->sizes.at[given].name, m->sizes[given]);
  }
  json_close(out, '}');
  json_open(out, "statics", '{');
  for (int i = 0; i < k->statics.count; i++)
    json_text(out, k->statics.at[i].name, k->statics.at[i].value);
  json_close(out, '}');
}

static void json_unmodelled(const Model *m, Buf *out) {
  json_open(out, "not_modelled", '[');
  for (int i = 0; i < m->body->unmodelled.count; i++)
    json_text(out, NULL, op_info[m->body->unmodelled.at[i]->op].name);
  json_close(out, ']');
}

static void json_work(const Model *m, Buf *out) {
  const Cost *c = &m->cost;
  json_int(out, "flops", c->flops);
  json_int(out, "dot_flops", c->dot_flops);
  json_int(out, "transcendentals", c->transcendentals);
  json_int(out, "vmem_load_bytes", c->load_bytes);
  json_int(out, "vmem_store_bytes", c->store_bytes);
  json_real(out, "useful_flops", m->useful_flops > 0 ? m->useful_flops : NAN);
  json_int(out, "hbm_bytes", m->moved_bytes);
  json_int(out, "once_bytes", m->once_bytes);
}

static void json_times(const Totals *t, Buf *out) {
  json_real(out, "compute_s", (double)t->compute_ps * 1e-12);
  json_real(out, "step_overhead_s", (double)t->overhead_ps * 1e-12);
  json_real(out, "inner_overhead_s", (double)t->inner_ps * 1e-12);
  json_real(out, "wait_s", (double)t->wait_ps * 1e-12);
  json_real(out, "prologue_s", (double)t->prologue_ps * 1e-12);
  json_real(out, "epilogue_s", (double)t->epilogue_ps * 1e-12);
}

// Writes the whole result as JSON.
void tpu_json(const Model *m, const char *path, Buf *out) {
  const Totals *t = &m->sim.totals;
  json_open(out, NULL, '{');
  json_text(out, "kernel", m->k->name);
  json_text(out, "file", path);
  json_text(out, "chip", m->chip->name);
  json_sizes(m, out);
  json_real(out, "seconds", m->seconds);
  json_real(out, "seconds_with_dispatch", m->seconds + m->chip->value[CHIP_DISPATCH]);
  json_real(out, "lower_s", m->lower);
  json_text(out, "lower_reason", m->lower_reason);
  json_real(out, "upper_s", m->upper);
  json_text(out, "bound", m->bound);
  const Regime *regime = regime_of(m);
  json_real(out, "error_low_s", regime ? m->seconds * regime->low : NAN);
  json_real(out, "error_high_s", regime ? m->seconds * regime->high : NAN);
  json_int(out, "cores", m->sim.cores);
  json_int(out, "steps", t->steps);
  json_int(out, "steps_walked", t->simulated);
  json_int(out, "streams", m->streams);
  json_work(m, out);
  json_real(out, "peak", m->peak);
  json_real(out, "hbm_bandwidth", m->hbm);
  json_real(out, "hbm_sustained", m->hbm_sustained);
  json_real(out, "vmem_bandwidth", m->vmem_bandwidth);
  json_real(out, "mxu", m->mxu);
  json_real(out, "mxu_busy", tpu_busy(m, UNIT_MXU));
  json_real(out, "mxu_full", m->mxu_rows);
  json_real(out, "vpu", m->vpu);
  json_real(out, "hbm", m->hbm_share);
  json_times(t, out);
  tpu_json_mesh(m, out);
  json_operands(m, out);
  json_vmem(m, out);
  json_losses(m, out);
  tpu_json_lines(m, out);
  json_unmodelled(m, out);
  json_close(out, '}');
  buf_putc(out, '\n');
}
