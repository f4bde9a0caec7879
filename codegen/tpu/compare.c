// Compares two models: the quantities that differ, and their ratios.
#include "codegen/tpu/internal.h"

#include <math.h>
#include <string.h>

typedef enum { FORM_TIME, FORM_BYTES, FORM_SHARE, FORM_COUNT } Form;

typedef struct {
  const char *name, *key;
  Form form;
  double value[2];
} Row;

typedef struct {
  Arena *arena;
  const char *name[2], *kernel[2], *chip[2], *bound[2];
  bool fits[2];
  LIST(Row) rows;
} Comparison;

// Stores the value of one side in row i.
static void set_row(Comparison *c, int i, int side, Row row) {
  if (i == c->rows.count) LIST_PUSH(c->arena, &c->rows, row);
  c->rows.at[i].value[side] = row.value[0];
}

// The rows of a comparison of two kernels.
static void fill(Comparison *c, const Model *const *models) {
  for (int side = 0; side < 2; side++) {
    const Model *m = models[side];
    const MeshRun *mesh = m->sim.mesh;
    const Row rows[] = {
        {"time", "seconds", FORM_TIME, {m->seconds}},
        {"lower bound", "lower_s", FORM_TIME, {m->lower}},
        {"steps", "steps", FORM_COUNT, {(double)m->sim.totals.steps}},
        {"cores", "cores", FORM_COUNT, {m->sim.cores}},
        {"cost of steps",
         "step_overhead_s",
         FORM_TIME,
         {(double)(m->sim.totals.overhead_ps + m->sim.totals.inner_ps) * 1e-12}},
        {"compute", "compute_s", FORM_TIME, {(double)m->sim.totals.compute_ps * 1e-12}},
        {"waits for HBM",
         "wait_s",
         FORM_TIME,
         {(double)(m->sim.totals.wait_ps - (mesh ? mesh->wait_ps : 0)) * 1e-12}},
        {"waits for devices",
         "device_wait_s",
         FORM_TIME,
         {mesh ? (double)mesh->wait_ps * 1e-12 : 0}},
        {"busiest link",
         "busiest_link_s",
         FORM_TIME,
         {mesh && mesh->busiest >= 0 ? (double)mesh->link_ps[mesh->busiest] * 1e-12 : 0}},
        {"bytes between devices", "copied_bytes", FORM_BYTES, {mesh ? (double)mesh->bytes : 0}},
        {"prologue", "prologue_s", FORM_TIME, {(double)m->sim.totals.prologue_ps * 1e-12}},
        {"epilogue", "epilogue_s", FORM_TIME, {(double)m->sim.totals.epilogue_ps * 1e-12}},
        {"operations wait", "fill_s", FORM_TIME, {m->fill}},
        {"MXU busy", "mxu_busy", FORM_SHARE, {tpu_busy(m, UNIT_MXU)}},
        {"MXU of its peak", "mxu", FORM_SHARE, {m->mxu}},
        {"vector unit", "vpu", FORM_SHARE, {tpu_busy(m, UNIT_VPU)}},
        {"transcendental unit", "eup", FORM_SHARE, {tpu_busy(m, UNIT_EUP)}},
        {"vector store", "store", FORM_SHARE, {tpu_busy(m, UNIT_STORE)}},
        {"HBM", "hbm", FORM_SHARE, {m->hbm_share}},
        {"bytes moved", "hbm_bytes", FORM_BYTES, {(double)m->moved_bytes}},
        {"FLOP executed", "flops", FORM_COUNT, {(double)m->cost.flops}},
        {"transcendentals", "transcendentals", FORM_COUNT, {(double)m->cost.transcendentals}},
        {"VMEM", "vmem", FORM_BYTES, {(double)m->vmem}},
        {"VMEM of values", "values", FORM_BYTES, {(double)m->values.peak}},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) set_row(c, i, side, rows[i]);
    c->kernel[side] = m->k->name;
    c->chip[side] = m->chip->name;
    c->bound[side] = m->bound;
    c->fits[side] = m->vmem <= m->vmem_limit;
  }
}

static void put_value(Buf *out, Form form, double value) {
  Buf text = {0};
  switch (form) {
    case FORM_TIME:
      tpu_put_time(&text, value);
      break;
    case FORM_BYTES:
      tpu_put_bytes(&text, (int64_t)value);
      break;
    case FORM_SHARE:
      buf_printf(&text, "%.1f %%", 100 * value);
      break;
    case FORM_COUNT:
      buf_printf(&text, "%.6g", value);
  }
  buf_printf(out, " %14s", text.text);
  buf_free(&text);
}

static bool is_same(const Row *row) {
  double a = row->value[0], b = row->value[1];
  return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

// Prints a comparison as a table.
static void put_table(const Comparison *c, Buf *out) {
  int same = 0;
  for (int side = 0; side < 2; side++)
    buf_printf(out, "%c  %s: %s on %s\n", 'A' + side, c->name[side], c->kernel[side],
               c->chip[side]);
  buf_printf(out, "\n%-20s %14s %14s %9s\n", "", "A", "B", "B / A");
  for (int i = 0; i < c->rows.count; i++) {
    const Row *row = &c->rows.at[i];
    if (is_same(row) && i > 0) {
      same++;
      continue;
    }
    buf_printf(out, "%-21s", row->name);
    put_value(out, row->form, row->value[0]);
    put_value(out, row->form, row->value[1]);
    if (row->value[0] > 0) buf_printf(out, " %9.3g", row->value[1] / row->value[0]);
    buf_putc(out, '\n');
  }
  if (strcmp(c->bound[0], c->bound[1]) != 0)
    buf_printf(out, "%-21s A: %s; B: %s\n", "bound by", c->bound[0], c->bound[1]);
  else
    buf_printf(out, "%-21s %s, both\n", "bound by", c->bound[0]);
  buf_printf(out, "%d other figure%s the same\n", same, same == 1 ? " is" : "s are");
}

static void put_json(const Comparison *c, Buf *out) {
  json_open(out, NULL, '{');
  for (int side = 0; side < 2; side++) {
    json_open(out, side ? "b" : "a", '{');
    json_text(out, "what", c->name[side]);
    json_text(out, "kernel", c->kernel[side]);
    json_text(out, "chip", c->chip[side]);
    json_text(out, "bound", c->bound[side]);
    json_bool(out, "fits", c->fits[side]);
    for (int i = 0; i < c->rows.count; i++)
      json_real(out, c->rows.at[i].key, c->rows.at[i].value[side]);
    json_close(out, '}');
  }
  json_close(out, '}');
  buf_putc(out, '\n');
}

static void put_comparison(const Comparison *c, bool json, Buf *out) {
  if (json)
    put_json(c, out);
  else
    put_table(c, out);
}

void tpu_compare(const Model *a, const Model *b, const char *const *names, bool json, Buf *out) {
  Comparison c = {.arena = a->arena, .name = {names[0], names[1]}};
  fill(&c, (const Model *const[]){a, b});
  put_comparison(&c, json, out);
}

// ---- programs: their sums, and the time in each of their kernels

static int row_of(Comparison *c, const char *name) {
  for (int i = 0; i < c->rows.count; i++)
    if (strcmp(c->rows.at[i].name, name) == 0) return i;
  LIST_PUSH(c->arena, &c->rows, ((Row){name, name, FORM_TIME, {0}}));
  return c->rows.count - 1;
}

static void add_kernels(Comparison *c, const ProgramModel *m, int side) {
  for (int i = 0; i < m->k->flow->steps.count; i++) {
    const CallCost *call = &m->calls[i];
    if (!call->times) continue;
    int row = row_of(c, arena_printf(c->arena, "in %s", call->model->k->name));
    c->rows.at[row].value[side] += call->seconds;
  }
}

// The rows of a comparison of two programs.
static void fill_program(Comparison *c, const ProgramModel *m, int side) {
  const CallCost *fullest = tpu_fullest(m), *longest = tpu_longest(m);
  const Row rows[] = {
      {"time", "seconds", FORM_TIME, {m->seconds}},
      {"calls", "calls", FORM_COUNT, {(double)m->times}},
      {"steps", "steps", FORM_COUNT, {(double)m->steps}},
      {"MXU busy", "mxu_busy", FORM_SHARE, {m->mxu_busy}},
      {"MXU of its peak", "mxu", FORM_SHARE, {m->mxu}},
      {"HBM", "hbm", FORM_SHARE, {m->hbm}},
      {"bytes moved", "hbm_bytes", FORM_BYTES, {(double)m->bytes}},
      {"FLOP executed", "flops", FORM_COUNT, {(double)m->flops}},
      {"most VMEM", "vmem", FORM_BYTES, {fullest ? (double)fullest->model->vmem : 0}},
  };
  for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) set_row(c, i, side, rows[i]);
  c->kernel[side] = m->k->name;
  c->chip[side] = m->chip->name;
  c->bound[side] = longest ? arena_printf(c->arena, "%s, longest in %s", longest->model->bound,
                                          longest->model->k->name)
                           : "nothing";
  c->fits[side] = !fullest || fullest->model->vmem <= fullest->model->vmem_limit;
}

void tpu_program_compare(const ProgramModel *a, const ProgramModel *b, const char *const *names,
                         bool json, Buf *out) {
  Comparison c = {.arena = a->arena, .name = {names[0], names[1]}};
  fill_program(&c, a, 0);
  fill_program(&c, b, 1);
  add_kernels(&c, a, 0);
  add_kernels(&c, b, 1);
  put_comparison(&c, json, out);
}
