// The cost of each source line: the time of each unit.
#include "codegen/tpu/internal.h"

#include <stdlib.h>

static double most(const double *busy) {
  double most = 0;
  for (int u = 0; u < UNITS; u++)
    if (busy[u] > most) most = busy[u];
  return most;
}

static LineCost *line_of(Model *m, int line) {
  for (int i = 0; i < m->lines.count; i++)
    if (m->lines.at[i].line == line) return &m->lines.at[i];
  LIST_PUSH(m->arena, &m->lines, ((LineCost){.line = line}));
  return &m->lines.at[m->lines.count - 1];
}

static int by_time(const void *a, const void *b) {
  double x = most(((const LineCost *)a)->busy), y = most(((const LineCost *)b)->busy);
  return x < y ? 1 : x > y ? -1 : 0;
}

void find_lines(Model *m) {
  for (int i = 0; i < m->body->work.count; i++) {
    const Work *work = &m->body->work.at[i];
    double times = (double)m->sim.counts[work->segment] / m->sim.cores;
    LineCost *line = line_of(m, ir_line(m->k, work->instr->span));
    for (int u = 0; u < UNITS; u++) {
      double busy = work->busy[u] * times;
      line->busy[u] += busy;
      if (busy <= line->worst_busy[u]) continue;
      line->worst_busy[u] = busy;
      line->worst[u] = work->instr;
    }
  }
  sort_items(m->lines.at, (size_t)m->lines.count, sizeof *m->lines.at, by_time);
}

void tpu_put_lines(const Model *m, Buf *out) {
  enum { SHOWN = 6 };
  static const char *const heads[UNITS] = {"MXU",  "vector", "transc.", "lanes",
                                           "VMEM", "store",  "scalar"};
  if (m->lines.count == 0 || !(m->seconds > 0)) return;
  buf_puts(out, "\nBy line, shares of the time\n  line");
  for (int u = 0; u < UNITS; u++) buf_printf(out, "  %7s", heads[u]);
  buf_putc(out, '\n');
  for (int i = 0; i < m->lines.count && i < SHOWN; i++) {
    const LineCost *line = &m->lines.at[i];
    buf_printf(out, "  %4d", line->line);
    for (int u = 0; u < UNITS; u++)
      if (line->busy[u] > 0)
        buf_printf(out, "  %5.1f %%", 100 * line->busy[u] / m->seconds);
      else
        buf_puts(out, "         ");
    buf_putc(out, '\n');
  }
}

void tpu_json_lines(const Model *m, Buf *out) {
  static const char *const names[UNITS] = {"mxu_s",  "vector_s", "transcendental_s", "lanes_s",
                                           "vmem_s", "store_s",  "scalar_s"};
  json_open(out, "lines", '[');
  for (int i = 0; i < m->lines.count; i++) {
    json_open(out, NULL, '{');
    json_int(out, "line", m->lines.at[i].line);
    for (int u = 0; u < UNITS; u++) json_real(out, names[u], m->lines.at[i].busy[u]);
    json_close(out, '}');
  }
  json_close(out, ']');
}
