// The report of `pkc tpu` as one HTML file: roofline plot, timeline and VMEM map as SVG inside it.
#include "codegen/tpu/internal.h"

#include <math.h>
#include <stdio.h>

// ---- text inside markup

static void put_escaped(Buf *out, const char *text) {
  for (; *text; text++) switch (*text) {
      case '<':
        buf_puts(out, "&lt;");
        break;
      case '>':
        buf_puts(out, "&gt;");
        break;
      case '&':
        buf_puts(out, "&amp;");
        break;
      case '"':
        buf_puts(out, "&quot;");
        break;
      default:
        buf_putc(out, *text);
    }
}

static void open_svg(Buf *out, const char *label, double width, double height) {
  buf_printf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"%s\" viewBox=\"0 "
             "0 %.0f %.0f\" width=\"%.0f\" ",
             label, width, height, width);
  buf_printf(out, "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", height);
  buf_printf(out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
}

static void put_label(Buf *out, double x, double y, const char *anchor, const char *text) {
  buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#222\">", x, y, anchor);
  put_escaped(out, text);
  buf_puts(out, "</text>\n");
}

static void put_line(Buf *out, double x0, double y0, double x1, double y1, const char *style) {
  buf_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x0, y0, x1, y1,
             style);
}

static void put_box(Buf *out, double x, double y, double width, double height, const char *fill,
                    const char *title) {
  buf_printf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"><title>",
             x, y, width, height, fill);
  put_escaped(out, title);
  buf_puts(out, "</title></rect>\n");
}

// ---- roofline: both axes logarithmic

enum {
  PLOT_LEFT = 70,
  PLOT_TOP = 20,
  PLOT_WIDTH = 560,
  PLOT_HEIGHT = 320,
  LOW_X = -2,
  HIGH_X = 5,
  DECADES_Y = 6
};

typedef struct {
  Buf *out;
  double top;  // log10 of the highest FLOP/s
} Plot;

static double plot_x(double intensity) {
  double x = (log10(intensity) - LOW_X) / (HIGH_X - LOW_X);
  return PLOT_LEFT + PLOT_WIDTH * fmin(fmax(x, 0), 1);
}

static double plot_y(const Plot *p, double flops) {
  double y = flops > 0 ? (p->top - log10(flops)) / DECADES_Y : 1;
  return PLOT_TOP + PLOT_HEIGHT * fmin(fmax(y, 0), 1);
}

static void put_roof(const Plot *p, const char *name, double bandwidth, double peak,
                     const char *colour) {
  double low = fmax(pow(10, LOW_X), pow(10, p->top - DECADES_Y) / bandwidth),
         ridge = peak / bandwidth;
  char style[80];
  snprintf(style, sizeof style, "stroke=\"%s\" stroke-width=\"2\"", colour);
  put_line(p->out, plot_x(low), plot_y(p, low * bandwidth), plot_x(ridge), plot_y(p, peak), style);
  put_label(p->out, plot_x(sqrt(low * ridge)) + 6, plot_y(p, sqrt(low * ridge) * bandwidth) + 14,
            "start", name);
}

static void put_point(const Plot *p, const char *name, double intensity, double flops,
                      const char *colour, double below) {
  if (!(intensity > 0) || !isfinite(intensity)) return;
  buf_printf(p->out,
             "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"><title>%s: %.4g FLOP/B, %.4g "
             "FLOP/s</title></circle>\n",
             plot_x(intensity), plot_y(p, flops), colour, name, intensity, flops);
  put_label(p->out, plot_x(intensity) + 8, plot_y(p, flops) + below, "start", name);
}

static void put_axes(const Plot *p) {
  static const char grid[] = "stroke=\"#ddd\"";
  char text[32];
  for (int d = LOW_X; d <= HIGH_X; d++) {
    put_line(p->out, plot_x(pow(10, d)), PLOT_TOP, plot_x(pow(10, d)), PLOT_TOP + PLOT_HEIGHT,
             grid);
    snprintf(text, sizeof text, "%g", pow(10, d));
    put_label(p->out, plot_x(pow(10, d)), PLOT_TOP + PLOT_HEIGHT + 16, "middle", text);
  }
  for (int d = 0; d <= DECADES_Y; d++) {
    double flops = pow(10, p->top - d);
    put_line(p->out, PLOT_LEFT, plot_y(p, flops), PLOT_LEFT + PLOT_WIDTH, plot_y(p, flops), grid);
    snprintf(text, sizeof text, "%.3g", flops);
    put_label(p->out, PLOT_LEFT - 6, plot_y(p, flops) + 4, "end", text);
  }
  put_label(p->out, PLOT_LEFT + PLOT_WIDTH / 2.0, PLOT_TOP + PLOT_HEIGHT + 34, "middle",
            "FLOP per byte of HBM (of VMEM for its roof)");
  put_label(p->out, 8, 14, "start", "FLOP/s");
}

void tpu_roofline_svg(const Model *m, Buf *out) {
  double flops = (double)(m->cost.dot_flops ? m->cost.dot_flops : m->cost.flops),
         seconds = m->seconds > 0 ? m->seconds : 1;
  Plot p = {out, ceil(log10(m->peak))};
  open_svg(out, "roofline", PLOT_LEFT + PLOT_WIDTH + 150, PLOT_TOP + PLOT_HEIGHT + 45);
  put_axes(&p);
  put_line(out, plot_x(m->peak / m->vmem_bandwidth), plot_y(&p, m->peak), PLOT_LEFT + PLOT_WIDTH,
           plot_y(&p, m->peak), "stroke=\"#333\" stroke-width=\"2\"");
  put_label(out, PLOT_LEFT + PLOT_WIDTH - 4, plot_y(&p, m->peak) - 5, "end", "MXU");
  put_roof(&p, "HBM", m->hbm, m->peak, "#0b62a4");
  put_roof(&p, "VMEM", m->vmem_bandwidth, m->peak, "#4da74d");
  put_point(&p, "as moved", flops / (double)m->moved_bytes, flops / seconds, "#c0392b", -6);
  put_point(&p, "operands once", flops / (double)m->once_bytes, flops / seconds, "#e8a33d", 16);
  buf_puts(out, "</svg>\n");
}

// ---- timeline of the first steps

enum {
  ROWS = 5,
  ROW_HEIGHT = 26,
  TIME_LEFT = 110,
  TIME_WIDTH = 760,
  MOST_BOXES = 1500,
  SHOWN_STEPS = 12
};

static int64_t end_of_window(const TraceLog *log) {
  int64_t end = 0;
  for (int i = 0; i < log->events.count && i < MOST_BOXES; i++) {
    const TraceEvent *e = &log->events.at[i];
    if (e->kind == 's' || e->step >= SHOWN_STEPS) break;
    if (e->end_ps > end) end = e->end_ps;
  }
  return end;
}

static void put_time_box(const Model *m, Buf *out, const TraceEvent *e, double scale) {
  static const char *const colours[] = {"#888", "#c0392b", "#e8a33d", "#0b62a4", "#4da74d"};
  const Segment *s = e->kind == 'c' ? &m->body->segments.at[e->which] : NULL;
  double x = TIME_LEFT + (double)e->start_ps * scale,
         width = (double)(e->end_ps - e->start_ps) * scale;
  const char *title =
      arena_printf(m->arena, "step %lld: %s, %.4g us", (long long)e->step,
                   s ? arena_printf(m->arena, "line %d", ir_line(m->k, s->span))
                   : e->kind == 'f' || e->kind == 'w' ? m->k->refs.at[e->which]->name
                                                      : "the cost of a step",
                   (double)(e->end_ps - e->start_ps) * 1e-6);
  int row = e->kind == 'f' ? 3 : e->kind == 'w' ? 4 : 0;
  if (!s) {
    put_box(out, x, 8 + row * ROW_HEIGHT, width, ROW_HEIGHT - 6, colours[row], title);
    return;
  }
  double other = 0, whole = s->cost.busy[s->bound];
  for (int u = UNIT_VPU; u < UNITS; u++) other = fmax(other, s->cost.busy[u]);
  if (s->cost.busy[UNIT_MXU] > 0)
    put_box(out, x, 8 + ROW_HEIGHT, width * s->cost.busy[UNIT_MXU] / whole, ROW_HEIGHT - 6,
            colours[1], title);
  if (other > 0)
    put_box(out, x, 8 + 2 * ROW_HEIGHT, width * other / whole, ROW_HEIGHT - 6, colours[2], title);
}

static void put_timeline(const Model *m, Buf *out) {
  static const char *const names[ROWS] = {"grid steps", "MXU", "vector units", "DMA in", "DMA out"};
  const TraceLog *log = m->sim.log;
  int64_t end = end_of_window(log);
  if (end <= 0) return;
  double scale = TIME_WIDTH / (double)end;
  open_svg(out, "timeline", TIME_LEFT + TIME_WIDTH + 40, ROWS * ROW_HEIGHT + 40);
  for (int row = 0; row < ROWS; row++)
    put_label(out, TIME_LEFT - 8, 22 + row * ROW_HEIGHT, "end", names[row]);
  for (int i = 0; i < log->events.count && i < MOST_BOXES; i++) {
    const TraceEvent *e = &log->events.at[i];
    if (e->kind == 's') break;
    if (e->core == 0 && e->start_ps < end && e->end_ps <= end) put_time_box(m, out, e, scale);
  }
  for (int tick = 0; tick <= 5; tick++) {
    double x = TIME_LEFT + TIME_WIDTH * tick / 5.0;
    put_label(out, x, ROWS * ROW_HEIGHT + 28, "middle",
              arena_printf(m->arena, "%.4g us", (double)end * tick / 5e6));
  }
  buf_puts(out, "</svg>\n");
}

// ---- VMEM map: to the scale of what is used, one bar a buffer, each beginning where the one above
// ends

static void put_vmem_map(const Model *m, Buf *out) {
  enum { LEFT = 110, WIDTH = 520, BAR = 22 };
  double at = 0, limit = (double)m->vmem_limit, used = m->vmem > 0 ? (double)m->vmem : 1;
  open_svg(out, "VMEM map", LEFT + WIDTH + 290, (m->buffers.count + 1) * BAR + 16);
  for (int i = 0; i < m->buffers.count; i++) {
    const Buffer *b = &m->buffers.at[i];
    double width = b->space == SPACE_SMEM ? 0 : WIDTH * (double)b->bytes / used;
    const char *text =
        arena_printf(m->arena, "%lld bytes in %d buffer%s, %.3g %% of VMEM", (long long)b->bytes,
                     b->buffers, b->buffers == 1 ? "" : "s", 100 * (double)b->bytes / limit);
    put_label(out, LEFT - 8, 20 + i * BAR, "end", b->name);
    put_box(out, LEFT + at, 6 + i * BAR, fmax(width, 1), BAR - 6, i % 2 ? "#4da74d" : "#0b62a4",
            text);
    put_label(out, LEFT + WIDTH + 8, 20 + i * BAR, "start", text);
    at += width;
  }
  double end = LEFT + WIDTH * fmin(limit / used, 1);
  put_line(out, end, 2, end, m->buffers.count * BAR + 6,
           "stroke=\"#c0392b\" stroke-dasharray=\"4 3\"");
  put_label(out, end, m->buffers.count * BAR + 20, "end",
            arena_printf(m->arena, "%.4g MiB %s", fmin(limit, used) / 1048576,
                         used > limit ? "there are" : "used"));
  buf_puts(out, "</svg>\n");
}

// ---- the page

void tpu_html(const Model *m, Model *const *all, int count, Buf *out) {
  Buf text = {0};
  tpu_text(m, &text);
  tpu_table(all, count, &text);
  buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>");
  put_escaped(out, m->k->name);
  buf_printf(out, " on %s</title>\n", m->chip->name);
  buf_puts(out,
           "<style>body{font-family:sans-serif;margin:2em;max-width:64em}pre{background:#f4f4f4;"
           "padding:1em;overflow-x:auto}"
           "svg{max-width:100%;height:auto}</style>\n</head>\n<body>\n<h1>");
  put_escaped(out, m->k->name);
  buf_printf(out, " on %s</h1>\n<h2>Roofline</h2>\n", m->chip->name);
  tpu_roofline_svg(m, out);
  buf_puts(out, "<h2>Timeline of the first steps</h2>\n");
  put_timeline(m, out);
  buf_puts(out, "<h2>VMEM</h2>\n");
  put_vmem_map(m, out);
  buf_puts(out, "<h2>Report</h2>\n<pre>");
  put_escaped(out, text.text);
  buf_puts(out, "</pre>\n</body>\n</html>\n");
  buf_free(&text);
}
