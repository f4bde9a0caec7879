// Two models beside each other: what changed, and by how much.
#include "codegen/tpu/internal.h"

#include <math.h>
#include <string.h>

typedef enum { FORM_TIME, FORM_BYTES, FORM_SHARE, FORM_COUNT } Form;

typedef struct {
  const char *name, *key;
  Form form;
  double value[2];
} Row;

enum { MOST_ROWS = 40 };

typedef struct {
  const Model *m[2];
  Row row[MOST_ROWS];
  int rows;
} Comparison;

static void fill(Comparison *c) {
  for (int side = 0; side < 2; side++) {
    const Model *m = c->m[side];
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
        {"waits for HBM", "wait_s", FORM_TIME, {(double)m->sim.totals.wait_ps * 1e-12}},
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
    c->rows = (int)(sizeof rows / sizeof *rows);
    REQUIRE(c->rows <= MOST_ROWS);
    for (int i = 0; i < c->rows; i++) {
      double value = rows[i].value[0];
      if (side == 0) c->row[i] = rows[i];
      c->row[i].value[side] = value;
    }
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

static void put_table(const Comparison *c, const char *const *names, Buf *out) {
  int same = 0;
  buf_printf(out, "A  %s: %s on %s\nB  %s: %s on %s\n\n%-20s %14s %14s %9s\n", names[0],
             c->m[0]->k->name, c->m[0]->chip->name, names[1], c->m[1]->k->name, c->m[1]->chip->name,
             "", "A", "B", "B / A");
  for (int i = 0; i < c->rows; i++) {
    const Row *row = &c->row[i];
    if (is_same(row) && i > 0) {
      same++;
      continue;
    }
    buf_printf(out, "%-20s", row->name);
    put_value(out, row->form, row->value[0]);
    put_value(out, row->form, row->value[1]);
    if (row->value[0] > 0) buf_printf(out, " %9.3g", row->value[1] / row->value[0]);
    buf_putc(out, '\n');
  }
  if (strcmp(c->m[0]->bound, c->m[1]->bound) != 0)
    buf_printf(out, "%-20s A: %s; B: %s\n", "bound by", c->m[0]->bound, c->m[1]->bound);
  else
    buf_printf(out, "%-20s %s, both\n", "bound by", c->m[0]->bound);
  buf_printf(out, "%d other figure%s the same\n", same, same == 1 ? " is" : "s are");
}

static void put_json(const Comparison *c, const char *const *names, Buf *out) {
  json_open(out, NULL, '{');
  for (int side = 0; side < 2; side++) {
    const Model *m = c->m[side];
    json_open(out, side ? "b" : "a", '{');
    json_text(out, "what", names[side]);
    json_text(out, "kernel", m->k->name);
    json_text(out, "chip", m->chip->name);
    json_text(out, "bound", m->bound);
    json_bool(out, "fits", m->vmem <= m->vmem_limit);
    for (int i = 0; i < c->rows; i++) json_real(out, c->row[i].key, c->row[i].value[side]);
    json_close(out, '}');
  }
  json_close(out, '}');
  buf_putc(out, '\n');
}

void tpu_compare(const Model *a, const Model *b, const char *const *names, bool json, Buf *out) {
  Comparison c = {.m = {a, b}};
  fill(&c);
  if (json)
    put_json(&c, names, out);
  else
    put_table(&c, names, out);
}
