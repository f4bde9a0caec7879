// The report on a program as one HTML file: a timeline of its calls, and a section for each.
#include <string.h>

#include "codegen/tpu/page.h"

enum { MOST_ROWS = 14 };

// A row for each call of the text; the last row contains all further calls.
static int row_of_call(const ProgramModel *m, const CallCost *call) {
  int row = 0;
  for (const CallCost *c = m->calls; c < call; c++) row += c->times > 0;
  return row < MOST_ROWS ? row : MOST_ROWS - 1;
}

static const char *shortened(Arena *arena, const char *name) {
  enum { MOST = 16 };
  return strlen(name) <= MOST ? name : arena_printf(arena, "%.*s..", MOST - 2, name);
}

// Draws the timeline of a program's calls.
static void put_program_timeline(const ProgramModel *m, Buf *out) {
  const char *names[MOST_ROWS] = {0};
  int rows = 0;
  double end = m->seconds;
  if (m->dropped) end = m->iterations.at[m->iterations.count - 1].start;
  for (int i = 0; i < m->k->flow->steps.count; i++) {
    const CallCost *call = &m->calls[i];
    if (!call->times) continue;
    int row = row_of_call(m, call);
    names[row] = names[row] ? "others" : shortened(m->arena, call->model->k->name);
    if (row >= rows) rows = row + 1;
  }
  page_open_timeline(out, rows, end);
  for (int i = 0; i < m->iterations.count; i++) {
    const ProgramIteration *iteration = &m->iterations.at[i];
    int row = row_of_call(m, iteration->call);
    page_box(out, row, iteration->start, iteration->start + iteration->model->seconds,
             arena_printf(m->arena, "c%d", row % SVG_COLOURS),
             arena_printf(m->arena, "%s%s%s, %.4g us, bound by %s", iteration->model->k->name,
                          iteration->text ? " at " : "", iteration->text ? iteration->text : "",
                          iteration->model->seconds * 1e6, iteration->model->bound),
             end);
  }
  page_close_timeline(m->arena, out, names, rows, end);
}

static void put_call_row(const ProgramModel *m, const CallCost *call, Buf *out) {
  Buf one = {0}, all = {0}, bytes = {0};
  double share = m->seconds > 0 ? 100 * call->seconds / m->seconds : 0;
  tpu_put_time(&one, call->seconds / (double)call->times);
  tpu_put_time(&all, call->seconds);
  tpu_put_bytes(&bytes, call->bytes);
  buf_printf(out, "<tr><td>%d</td><td><a href=\"#call-%d\">", ir_line(m->k, call->step->span),
             (int)(call - m->calls));
  put_escaped(out, call->model->k->name);
  buf_printf(out,
             "</a></td><td>%lld</td><td>%s</td><td>%s</td><td class=\"bar\" "
             "style=\"--share:%.2f%%\">%.1f %%</td><td>%s</td><td>%s%s</td></tr>\n",
             (long long)call->times, one.text, all.text, share, share, bytes.text,
             call->model->bound,
             call->model->vmem > call->model->vmem_limit ? "; does not fit VMEM" : "");
  buf_free(&one);
  buf_free(&all);
  buf_free(&bytes);
}

static void put_program_facts(const ProgramModel *m, Buf *out) {
  Buf time = {0}, bytes = {0};
  tpu_put_time(&time, m->seconds);
  tpu_put_bytes(&bytes, m->bytes);
  page_open_facts(out);
  page_fact(out, "predicted time", time.text);
  page_fact(out, m->times == 1 ? "call" : "calls",
            arena_printf(m->arena, "%lld", (long long)m->times));
  page_fact(out, "MXU busy", arena_printf(m->arena, "%.0f %%", 100 * m->mxu_busy));
  page_fact(out, "HBM busy", arena_printf(m->arena, "%.0f %%", 100 * m->hbm));
  page_fact(out, "moved", bytes.text);
  page_close_facts(out);
  buf_free(&time);
  buf_free(&bytes);
}

static void put_call_sections(const ProgramModel *m, Buf *out) {
  for (int i = 0; i < m->k->flow->steps.count; i++) {
    const CallCost *call = &m->calls[i];
    if (!call->times) continue;
    buf_printf(out, "<details id=\"call-%d\"><summary>", i);
    put_escaped(out, call->model->k->name);
    buf_printf(out, ", line %d</summary>\n", ir_line(m->k, call->step->span));
    page_kernel(call->model, out);
    buf_puts(out, "<h2>VMEM</h2>\n");
    page_vmem(call->model, out);
    buf_puts(out, "</details>\n");
  }
}

// Writes the report of a program as a page.
void tpu_program_html(const ProgramModel *m, ProgramModel *const *all, int count, Buf *out) {
  Buf text = {0};
  tpu_program_text(m, &text);
  tpu_program_table(all, count, &text);
  page_open(out, arena_printf(m->arena, "%s on %s", m->k->name, m->chip->name));
  put_program_facts(m, out);
  buf_printf(out, "<h2>Calls%s</h2>\n", m->dropped ? ", the first ones" : "");
  page_hint(out);
  put_program_timeline(m, out);
  buf_puts(
      out,
      "<div "
      "class=\"wide\"><table><tr><th>line</th><th>kernel</th><th>calls</th><th>one</th><th>all</th>"
      "<th>share</th><th>moved</th><th>bound by</th></tr>\n");
  for (int i = 0; i < m->k->flow->steps.count; i++)
    if (m->calls[i].times) put_call_row(m, &m->calls[i], out);
  buf_puts(out, "</table></div>\n<h2>Roofline</h2>\n");
  tpu_program_svg(m, out);
  buf_puts(out, "<h2>Each call</h2>\n");
  put_call_sections(m, out);
  buf_puts(out, "<h2>Report</h2>\n");
  page_text(out, text.text);
  page_close(out);
  buf_free(&text);
}
