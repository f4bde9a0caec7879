// SVG, and the roofline: both axes logarithmic, over the range of the points and the roofs' edges.
#include "codegen/tpu/svg.h"

#include <math.h>
#include <stdio.h>

// ---- elements

void put_escaped(Buf *out, const char *text) {
  static const char *const names[128] = {
      ['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;"};
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 128 && names[c])
      buf_puts(out, names[c]);
    else
      buf_putc(out, *text);
  }
}

// Colours that can be distinguished on white and on black.
static const char style[] =
    "<style>.pk{--ink:#1b1f24;--dim:#68707a;--rule:#d9dde2;--paper:#fff}"
    ".pk .c0{fill:#2f6fbb}.pk .c1{fill:#c8553d}.pk .c2{fill:#c58a1c}.pk .c3{fill:#3d8b57}"
    ".pk .c4{fill:#7a5ab5}.pk .c5{fill:#2b9aa3}.pk .c6{fill:#b0497f}.pk .c7{fill:#7d8590}"
    "@media(prefers-color-scheme:dark){.pk{--ink:#e4e8ec;--dim:#98a1ab;--rule:#3a414a;--paper:#"
    "15191e}"
    ".pk .c0{fill:#6ea8e8}.pk .c1{fill:#ee8a72}.pk .c2{fill:#e5b654}.pk .c3{fill:#74c08e}"
    ".pk .c4{fill:#ab8ee0}.pk .c5{fill:#63c6ce}.pk .c6{fill:#de83b1}.pk .c7{fill:#a4adb7}}"
    ".pk text{fill:var(--ink);stroke:none}.pk text.dim{fill:var(--dim)}.pk "
    ".paper{fill:var(--paper)}"
    ".pk line,.pk path{fill:none}.pk .rule{stroke:var(--rule)}.pk .roof{stroke:var(--ink);stroke-"
    "width:2}"
    ".pk .limit{stroke:var(--ink);stroke-dasharray:4 3}.pk .free{fill:var(--rule)}"
    ".pk .lead{stroke:var(--dim)}</style>\n";

void svg_open(Buf *out, const char *label, double width, double height) {
  buf_printf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pk\" role=\"img\" "
             "aria-label=\"%s\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
             "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n%s",
             label, width, height, width, height, style);
  buf_printf(out, "<rect class=\"paper\" width=\"%.0f\" height=\"%.0f\"/>\n", width, height);
}

void svg_close(Buf *out) { buf_puts(out, "</svg>\n"); }

void svg_text(Buf *out, double x, double y, const char *anchor, const char *class_name,
              const char *text) {
  buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
             class_name);
  put_escaped(out, text);
  buf_puts(out, "</text>\n");
}

void svg_line(Buf *out, double x0, double y0, double x1, double y1, const char *class_name) {
  buf_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x0, y0,
             x1, y1, class_name);
}

void svg_box(Buf *out, double x, double y, double width, double height, const char *class_name,
             const char *title) {
  buf_printf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"%s\"><title>",
             x, y, width, height, class_name);
  put_escaped(out, title);
  buf_puts(out, "</title></rect>\n");
}

// ---- roofline

enum { LEFT = 64, TOP = 26, WIDTH = 560, HEIGHT = 300, LEGEND = 18 };

typedef struct {
  const char *name, *colour;
  double intensity, flops;
} Point;

// For the active cores: bytes per second, and FLOP per second of `unit`.
typedef struct {
  double hbm, vmem, peak;
  const char *unit;
} Roofs;

typedef struct {
  Buf *out;
  double low_x, high_x, low_y, high_y;  // log10
} Plot;

static double plot_x(const Plot *p, double intensity) {
  double x = (log10(intensity) - p->low_x) / (p->high_x - p->low_x);
  return LEFT + WIDTH * fmin(fmax(x, 0), 1);
}

static double plot_y(const Plot *p, double flops) {
  double y = (p->high_y - log10(flops)) / (p->high_y - p->low_y);
  return TOP + HEIGHT * fmin(fmax(y, 0), 1);
}

static bool is_shown(const Point *point) {
  return point->intensity > 0 && isfinite(point->intensity) && point->flops > 0;
}

static void widen(double *low, double *high, double value) {
  if (!(value > 0) || !isfinite(value)) return;
  *low = fmin(*low, log10(value));
  *high = fmax(*high, log10(value));
}

// The points and the roofs' edges, with room around them.
static Plot scale(const Roofs *r, const Point *points, int count, Buf *out) {
  Plot p = {out, INFINITY, -INFINITY, INFINITY, -INFINITY};
  widen(&p.low_x, &p.high_x, r->peak / r->hbm);
  widen(&p.low_x, &p.high_x, r->peak / r->vmem);
  widen(&p.low_y, &p.high_y, r->peak);
  for (int i = 0; i < count; i++) {
    if (!is_shown(&points[i])) continue;
    widen(&p.low_x, &p.high_x, points[i].intensity);
    widen(&p.low_y, &p.high_y, points[i].flops);
  }
  p.low_x -= 0.4, p.high_x += 0.4, p.low_y -= 0.5, p.high_y += 0.2;
  return p;
}

// Decades, and 2 and 5 times each if there are few.
static void put_ticks(const Plot *p, bool x) {
  double low = x ? p->low_x : p->low_y, high = x ? p->high_x : p->high_y;
  bool few = high - low < (x ? 4 : 3);
  for (int d = (int)floor(low); d <= (int)ceil(high); d++)
    for (int k = 1; k <= (few ? 5 : 1); k += k == 2 ? 3 : 1) {
      if (k > 2 && k < 5) continue;
      double value = k * pow(10, d);
      char text[32];
      if (log10(value) < low || log10(value) > high) continue;
      snprintf(text, sizeof text, x ? "%g" : "%.0e", value);
      if (x) {
        svg_line(p->out, plot_x(p, value), TOP, plot_x(p, value), TOP + HEIGHT, "rule");
        svg_text(p->out, plot_x(p, value), TOP + HEIGHT + 16, "middle", "dim", text);
      } else {
        svg_line(p->out, LEFT, plot_y(p, value), LEFT + WIDTH, plot_y(p, value), "rule");
        svg_text(p->out, LEFT - 6, plot_y(p, value) + 4, "end", "dim", text);
      }
    }
}

// A roof: along the memory's bandwidth, then along the peak.
static void put_roof(const Plot *p, double bandwidth, double peak, const char *colour) {
  double left = pow(10, fmax(p->low_x, p->low_y - log10(bandwidth)));
  buf_printf(p->out, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"roof\" style=\"stroke:%s\"/>\n",
             plot_x(p, left), plot_y(p, left * bandwidth), plot_x(p, peak / bandwidth),
             plot_y(p, peak), colour);
}

static void put_legend(Buf *out, int row, const char *class_name, bool round, const char *text) {
  double y = TOP + HEIGHT + 52 + row * LEGEND;
  buf_printf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"11\" height=\"%d\" rx=\"%d\" class=\"%s\"/>\n",
             LEFT, round ? y - 10 : y - 6, round ? 11 : 3, round ? 6 : 0, class_name);
  svg_text(out, LEFT + 18, y, "start", "", text);
}

static void put_point(const Plot *p, Arena *arena, const Roofs *r, const Point *point, int row) {
  const char *text =
      arena_printf(arena, "%s: %.4g FLOP/B, %.3g FLOP/s, %.1f %% of the peak", point->name,
                   point->intensity, point->flops, 100 * point->flops / r->peak);
  buf_printf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" class=\"%s\"><title>",
             plot_x(p, point->intensity), plot_y(p, point->flops), point->colour);
  put_escaped(p->out, text);
  buf_puts(p->out, "</title></circle>\n");
  put_legend(p->out, row, point->colour, true, text);
}

// The roofline: roofs of HBM and VMEM on logarithmic axes, and a point for each kernel.
static void put_roofline(Arena *arena, const Roofs *r, const Point *points, int count, Buf *out) {
  Plot p = scale(r, points, count, out);
  svg_open(out, "roofline", LEFT + WIDTH + 24, TOP + HEIGHT + 52 + (2 + count) * LEGEND);
  put_ticks(&p, true);
  put_ticks(&p, false);
  svg_line(out, plot_x(&p, r->peak / r->vmem), plot_y(&p, r->peak), LEFT + WIDTH,
           plot_y(&p, r->peak), "roof");
  put_roof(&p, r->hbm, r->peak, "#2f6fbb");
  put_roof(&p, r->vmem, r->peak, "#3d8b57");
  svg_text(out, LEFT, 14, "start", "dim", "FLOP/s");
  svg_text(out, LEFT + WIDTH, TOP + HEIGHT + 32, "end", "dim", "FLOP per byte");
  put_legend(out, 0, "c0", false,
             arena_printf(arena, "HBM: %.3g B/s, from %.4g FLOP/B on bound by compute", r->hbm,
                          r->peak / r->hbm));
  put_legend(out, 1, "c3", false,
             arena_printf(arena, "VMEM: %.3g B/s, from %.4g FLOP/B on; peak of the %s %.3g",
                          r->vmem, r->peak / r->vmem, r->unit, r->peak));
  for (int i = 0; i < count; i++)
    if (is_shown(&points[i])) put_point(&p, arena, r, &points[i], 2 + i);
  svg_close(out);
}

static double executed_flops(const Model *m) {
  return (double)(m->cost.dot_flops ? m->cost.dot_flops : m->cost.flops);
}

static Roofs roofs_of(const Model *m) {
  const double *v = m->chip->value;
  double vector = v[CHIP_SUBLANES] * v[CHIP_LANES] * v[CHIP_ALUS] * v[CHIP_CLOCK] * m->sim.cores;
  return m->cost.dot_flops ? (Roofs){m->hbm, m->vmem_bandwidth, m->peak, "MXU"}
                           : (Roofs){m->hbm, m->vmem_bandwidth, vector, "vector unit"};
}

void tpu_roofline_svg(const Model *m, Buf *out) {
  double executed = executed_flops(m), useful = m->useful_flops > 0 ? m->useful_flops : executed,
         seconds = m->seconds > 0 ? m->seconds : 1;
  const Point points[] = {
      {"executed FLOP, bytes as moved", "c1", executed / (double)m->moved_bytes,
       executed / seconds},
      {"useful FLOP, each operand once", "c2", useful / (double)m->once_bytes, useful / seconds}};
  Roofs roofs = roofs_of(m);
  put_roofline(m->arena, &roofs, points, 2, out);
}

// The roofs are those of the call with the highest peak.
void tpu_program_svg(const ProgramModel *m, Buf *out) {
  int count = 0;
  Roofs roofs = {0};
  Point *points = NEW_ARRAY(m->arena, Point, m->k->flow->steps.count + 1);
  for (int i = 0; i < m->k->flow->steps.count; i++) {
    const CallCost *call = &m->calls[i];
    if (!call->times) continue;
    Roofs own = roofs_of(call->model);
    if (own.peak > roofs.peak) roofs = own;
    double seconds = call->model->seconds > 0 ? call->model->seconds : 1;
    points[count] = (Point){arena_printf(m->arena, "%s, line %d", call->model->k->name,
                                         ir_line(m->k, call->step->span)),
                            arena_printf(m->arena, "c%d", count % SVG_COLOURS),
                            executed_flops(call->model) / (double)call->model->moved_bytes,
                            executed_flops(call->model) / seconds};
    count++;
  }
  if (count) put_roofline(m->arena, &roofs, points, count, out);
}
