// The report of `pkc tpu` as one HTML file: roofline, timeline, VMEM, the losses next to the
// source.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/tpu/page.h"
#include "codegen/tpu/torus.h"

// ---- timelines: the wheel zooms, dragging moves

enum { ROW_HEIGHT = 26, TIME_LEFT = 112, TIME_WIDTH = 760, TICKS = 5 };

static double bottom_of(int rows) { return rows * ROW_HEIGHT + 10; }

typedef struct {
  const char *name;
  double scale;  // units a second
} TimeUnit;

static TimeUnit unit_of(double seconds) {
  if (seconds >= 1) return (TimeUnit){"s", 1};
  return seconds >= 1e-3 ? (TimeUnit){"ms", 1e3} : (TimeUnit){"us", 1e6};
}

void page_open_timeline(Buf *out, int rows, double end) {
  TimeUnit unit = unit_of(end);
  svg_open(out, "timeline", TIME_LEFT + TIME_WIDTH + 30, bottom_of(rows) + 26);
  buf_printf(out,
             "<g id=\"events\" transform=\"translate(%d 0)\" data-left=\"%d\" data-width=\"%d\" "
             "data-end=\"%.9g\" data-unit=\"%s\">\n",
             TIME_LEFT, TIME_LEFT, TIME_WIDTH, end * unit.scale, unit.name);
}

void page_box(Buf *out, int row, double start, double end, const char *colour, const char *title,
              double whole) {
  double scale = whole > 0 ? TIME_WIDTH / whole : 0;
  svg_box(out, start * scale, 8 + row * ROW_HEIGHT, fmax((end - start) * scale, 0.02),
          ROW_HEIGHT - 6, colour, title);
}

void page_close_timeline(Arena *arena, Buf *out, const char *const *names, int rows, double end) {
  double bottom = bottom_of(rows);
  TimeUnit unit = unit_of(end);
  // These cover the parts that zooming moves out of the window.
  buf_printf(out,
             "</g>\n<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n<rect class=\"paper\" "
             "x=\"%d\" width=\"30\" height=\"%.0f\"/>\n",
             TIME_LEFT, bottom, TIME_LEFT + TIME_WIDTH, bottom);
  for (int row = 0; row < rows; row++)
    svg_text(out, TIME_LEFT - 8, 22 + row * ROW_HEIGHT, "end", "", names[row]);
  for (int tick = 0; tick <= TICKS; tick++)
    svg_text(out, TIME_LEFT + TIME_WIDTH * tick / (double)TICKS, bottom + 16,
             tick == TICKS ? "end"
             : tick        ? "middle"
                           : "start",
             "dim tick",
             arena_printf(arena, "%.4g %s", end * unit.scale * tick / TICKS, unit.name));
  svg_close(out);
}

// ---- the first steps of a kernel

// For a mesh, also the waits of a device for others, and the links of its chip.
enum { ROWS = 5, ROW_WAITS = ROWS, MESH_ROWS = ROWS + 1 + 2 * TORUS_AXES + 2, MOST_BOXES = 3000 };

static const char *const row_names[ROWS] = {"grid steps", "MXU", "vector units", "DMA in",
                                            "DMA out"};
static const char *const row_colours[ROWS] = {"c7", "c1", "c2", "c0", "c3"};

// The row of a link; -1: it belongs to another chip than that of the displayed device.
static int row_of_link(const MeshRun *mesh, int link) {
  int kinds = 2 * mesh->torus->axes + 2;
  return link / kinds == mesh->chip[mesh->slowest] ? ROWS + 1 + link % kinds : -1;
}

static bool is_shown(const Model *m, const TraceEvent *e) {
  const MeshRun *mesh = m->sim.mesh;
  if (e->kind == 'l') return row_of_link(mesh, e->which) >= 0;
  return e->core == (mesh ? mesh->slowest : 0);
}

// Events of the window, up to the limit of a page.
static int end_of_window(const Model *m, double *end) {
  const TraceLog *log = m->sim.log;
  int64_t last = 0;
  int i = 0;
  for (int shown = 0; i < log->events.count && shown < MOST_BOXES; i++) {
    const TraceEvent *e = &log->events.at[i];
    if (e->kind == 's') break;
    if (!is_shown(m, e)) continue;
    shown++;
    if (e->end_ps > last) last = e->end_ps;
  }
  *end = (double)last * 1e-12;
  return i;
}

static void put_mesh_event(const Model *m, Buf *out, const TraceEvent *e, double end) {
  const MeshRun *mesh = m->sim.mesh;
  double from = (double)e->start_ps * 1e-12, to = (double)e->end_ps * 1e-12;
  if (e->kind == 'q') {
    page_box(out, ROW_WAITS, from, to, "c4",
             arena_printf(m->arena, "line %d waits, %.4g us", e->which, (to - from) * 1e6), end);
    return;
  }
  page_box(out, row_of_link(mesh, e->which), from, to, "c5",
           arena_printf(m->arena, "%s to %s: %lld bytes, %.4g us",
                        torus_chip_name(m->arena, mesh->torus, mesh->chip[e->core]),
                        torus_chip_name(m->arena, mesh->torus, mesh->chip[e->step]),
                        (long long)e->bytes, (to - from) * 1e6),
           end);
}

// Draws one event: a transfer in the row of its direction, a segment in the rows of the MXU and of
// the busiest other unit, as long as these are busy.
static void put_event(const Model *m, Buf *out, const TraceEvent *e, double end) {
  const Segment *s = e->kind == 'c' ? &m->body->segments.at[e->which] : NULL;
  const char *what = s ? arena_printf(m->arena, "line %d", ir_line(m->k, s->span))
                     : e->kind == 'f' || e->kind == 'w' ? m->k->refs.at[e->which]->name
                                                        : "the cost of a step";
  const char *title = arena_printf(m->arena, "step %lld: %s, %.4g us", (long long)e->step, what,
                                   (double)(e->end_ps - e->start_ps) * 1e-6);
  double from = (double)e->start_ps * 1e-12, to = (double)e->end_ps * 1e-12;
  if (!s) {
    int row = e->kind == 'f' ? 3 : e->kind == 'w' ? 4 : 0;
    page_box(out, row, from, to, row_colours[row], title, end);
    return;
  }
  double busy[2] = {s->cost.busy[UNIT_MXU], 0},
         whole = (double)(s->ps + s->exposed_ps + s->fill_ps) * 1e-12;
  for (int u = UNIT_VPU; u < UNITS; u++) busy[1] = fmax(busy[1], s->cost.busy[u]);
  for (int i = 0; i < 2; i++)
    if (busy[i] > 0)
      page_box(out, 1 + i, from, from + (to - from) * fmin(1, busy[i] / whole), row_colours[1 + i],
               title, end);
}

// Draws the timeline of the simulated steps.
static void put_timeline(const Model *m, Buf *out) {
  const TraceLog *log = m->sim.log;
  const MeshRun *mesh = m->sim.mesh;
  const char *names[MESH_ROWS] = {0};
  int kinds = mesh ? 2 * m->torus->axes + 2 : 0, rows = ROWS;
  double end;
  int count = end_of_window(m, &end);
  memcpy(names, row_names, sizeof row_names);
  if (mesh) names[rows++] = "waits";
  for (int i = 0; i < kinds; i++)
    names[rows++] = torus_link_name(m->arena, m->torus, mesh->chip[mesh->slowest] * kinds + i);
  page_open_timeline(out, rows, end);
  for (int i = 0; i < count; i++) {
    const TraceEvent *e = &log->events.at[i];
    if (!is_shown(m, e)) continue;
    if (e->kind == 'l' || e->kind == 'q')
      put_mesh_event(m, out, e, end);
    else
      put_event(m, out, e, end);
  }
  page_close_timeline(m->arena, out, names, rows, end);
}

// ---- the links of a slice

typedef struct {
  int64_t ps;
  int link;
} UsedLink;

static int by_time(const void *a, const void *b) {
  const UsedLink *x = a, *y = b;
  return x->ps != y->ps ? (x->ps < y->ps) - (x->ps > y->ps) : x->link - y->link;
}

// The links of all chips that are used, the busiest first.
static void put_links(const Model *m, Buf *out) {
  enum { MOST_LINKS = 256 };
  const MeshRun *mesh = m->sim.mesh;
  LIST(UsedLink) used = {0};
  for (int i = 0; i < torus_links(m->torus); i++)
    if (mesh->link_ps[i] > 0) LIST_PUSH(m->arena, &used, ((UsedLink){mesh->link_ps[i], i}));
  if (!used.count) return;
  sort_items(used.at, (size_t)used.count, sizeof *used.at, by_time);
  buf_puts(out,
           "<h2>Links</h2>\n<table><tr><th></th><th>link</th><th>bytes</th><th>busy</th></tr>\n");
  for (int i = 0; i < used.count && i < MOST_LINKS; i++)
    buf_printf(out, "<tr><td></td><td>%s</td><td>%lld</td><td>%.1f %%</td></tr>\n",
               torus_link_name(m->arena, m->torus, used.at[i].link),
               (long long)mesh->link_bytes[used.at[i].link],
               100 * (double)used.at[i].ps * 1e-12 / m->seconds);
  buf_puts(out, "</table>\n");
  if (used.count > MOST_LINKS)
    buf_printf(out, "<p class=\"hint\">%d more links are used less; --json has all.</p>\n",
               used.count - MOST_LINKS);
}

// ---- VMEM: one bar up to the limit, one up to the used size, and a legend

static void put_bar(const Model *m, Buf *out, double y, double full, const char *name) {
  enum { WIDTH = 860 };
  double at = 0;
  svg_text(out, 0, y - 5, "start", "dim", name);
  svg_box(out, 0, y, WIDTH, 22, "free", "not used");
  for (int i = 0; i <= m->buffers.count; i++) {
    const Buffer *b = i < m->buffers.count ? &m->buffers.at[i] : NULL;
    if (b && b->space == SPACE_SMEM) continue;
    double bytes = (double)(b ? b->bytes : m->values.peak), width = WIDTH * bytes / full;
    char colour[8];
    snprintf(colour, sizeof colour, "c%d", i % SVG_COLOURS);
    if (width > 0)
      svg_box(out, at, y, width, 22, colour,
              arena_printf(m->arena, "%s: %.0f bytes", b ? b->name : "values", bytes));
    at += width;
  }
  double limit = WIDTH * (double)m->vmem_limit / full;
  if (limit <= WIDTH) svg_line(out, limit, y - 4, limit, y + 26, "limit");
}

// Draws the map of VMEM.
void page_vmem(const Model *m, Buf *out) {
  double limit = (double)m->vmem_limit, used = m->vmem > 0 ? (double)m->vmem : 1;
  svg_open(out, "VMEM map", 864, 112);
  put_bar(m, out, 20, fmax(limit, used),
          arena_printf(m->arena, "to the limit of %.4g MiB, of which %.3g %% are used%s",
                       limit / 1048576, 100 * used / limit, used > limit ? ": does not fit" : ""));
  put_bar(m, out, 72, used, arena_printf(m->arena, "the %.4g MiB used, enlarged", used / 1048576));
  svg_close(out);
  buf_puts(
      out,
      "<table><tr><th></th><th>buffer</th><th>bytes</th><th>buffers</th><th>share</th></tr>\n");
  for (int i = 0; i <= m->buffers.count; i++) {
    const Buffer *b = i < m->buffers.count ? &m->buffers.at[i] : NULL;
    if ((b && b->space == SPACE_SMEM) || (!b && m->values.peak == 0)) continue;
    int64_t bytes = b ? b->bytes : m->values.peak;
    buf_printf(out, "<tr><td><span class=\"key k%d\"></span></td><td>", i % SVG_COLOURS);
    put_escaped(out, b ? b->name : "values of the body");
    buf_printf(out, "</td><td>%lld</td><td>%d</td><td>%.1f %%</td></tr>\n", (long long)bytes,
               b ? b->buffers : 1, 100 * (double)bytes / limit);
  }
  buf_puts(out, "</table>\n");
}

// ---- losses next to the source

// The share of the costliest line's time.
static double share_of_line(const Model *m, int number) {
  double share = 0, most = 0;
  for (int i = 0; i < m->lines.count; i++)
    for (int u = 0; u < UNITS; u++) {
      double busy = m->lines.at[i].busy[u];
      most = fmax(most, busy);
      if (m->lines.at[i].line == number) share = fmax(share, busy);
    }
  return most > 0 ? share / most : 0;
}

// From the kernel's line to the brace that ends it, shaded by the lines' shares.
static void put_source(const Model *m, Buf *out) {
  const char *at = m->k->source ? m->k->source->text : NULL;
  int first = ir_line(m->k, m->k->span);
  buf_puts(out, "<pre class=\"source\">");
  for (int number = 1; at && *at; number++) {
    size_t length = strcspn(at, "\n");
    if (number >= first) {
      double share = share_of_line(m, number);
      buf_printf(out, "<span class=\"line\" data-line=\"%d\" style=\"--share:%.3f\"><i>%4d</i> ",
                 number, fmin(share, 1), number);
      put_escaped(out, arena_strndup(m->arena, at, length));
      buf_puts(out, "</span>\n");
      if (*at == '}') break;
    }
    at += length + (at[length] == '\n');
  }
  buf_puts(out, "</pre>\n");
}

static void put_losses(const Model *m, Buf *out) {
  buf_puts(out, "<ol class=\"losses\">\n");
  for (int i = 0; i < m->losses.count && i < 12; i++) {
    const Loss *l = &m->losses.at[i];
    Buf time = {0};
    tpu_put_time(&time, l->seconds);
    buf_printf(out,
               "<li><button data-line=\"%d\"><b>%.1f %%</b> %s, line %d: ", ir_line(m->k, l->span),
               100 * l->seconds / m->seconds, time.text, ir_line(m->k, l->span));
    put_escaped(out, l->text);
    buf_puts(out, "</button></li>\n");
    buf_free(&time);
  }
  buf_puts(out, "</ol>\n");
}

// ---- the page

static const char page_style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1b1f24;--dim:#68707a;--rule:#d9dde2;--paper:#fff;--tint:#f5f6f8;--mark:47,111,187}"
    "\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--dim:#98a1ab;--rule:#3a414a;--paper:#"
    "15191e;--tint:#1d2228;--mark:110,168,232}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 "
    "auto;padding:1.5rem;max-width:70rem}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}"
    "svg{max-width:100%;height:auto}.key{display:inline-block;width:12px;height:12px}\n"
    "@media(max-width:800px){svg[aria-label=timeline],svg[aria-label='VMEM map']{font-size:16px}}\n"
    ".k0{background:#2f6fbb}.k1{background:#c8553d}.k2{background:#c58a1c}.k3{background:#3d8b57}"
    ".k4{background:#7a5ab5}.k5{background:#2b9aa3}.k6{background:#b0497f}.k7{background:#7d8590}\n"
    "@media(prefers-color-scheme:dark){.k0{background:#6ea8e8}.k1{background:#ee8a72}"
    ".k2{background:#e5b654}.k3{background:#74c08e}.k4{background:#ab8ee0}.k5{background:#63c6ce}"
    ".k6{background:#de83b1}.k7{background:#a4adb7}}\n"
    "pre{background:var(--tint);padding:.8rem;overflow-x:auto;font-size:12.5px;line-height:1.45;"
    "margin:0}\n"
    "table{border-collapse:collapse;font-size:13px;margin-top:.5rem}td,th{padding:.15rem .8rem "
    ".15rem 0;text-align:right}td:nth-child(2),th:nth-child(2){text-align:left}th{color:var(--dim);"
    "font-weight:normal}\n"
    ".facts{display:flex;flex-wrap:wrap;gap:.3rem 2rem;margin:.8rem 0 0}.facts "
    "div{min-width:7rem}.facts b{display:block;font-size:1.2rem}.facts "
    "span{color:var(--dim);font-size:13px}\n"
    ".beside{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,3fr);gap:1.2rem;align-items:"
    "start}@media(max-width:900px){.beside{grid-template-columns:minmax(0,1fr)}}\n"
    ".losses{margin:0;padding-left:1.3rem}.losses button{font:inherit;font-size:14px;color:inherit;"
    "background:none;border:0;padding:.25rem "
    ".4rem;text-align:left;cursor:pointer;border-radius:4px;vertical-align:top}.losses "
    "button:hover,.losses "
    "button.on{background:rgba(var(--mark),.16)}\n"
    ".line{display:inline-block;min-width:100%;background:rgba(var(--mark),calc(var(--share)*.55))}"
    ".line.on{outline:2px solid rgb(var(--mark))}.line i{color:var(--dim);font-style:normal}\n"
    ".hint{color:var(--dim);font-size:13px;margin:.2rem 0}a{color:inherit}"
    ".wide{overflow-x:auto}.wide td{white-space:nowrap}"
    "summary{cursor:pointer;padding:.3rem 0;font-size:1.05rem}details[open]{margin-bottom:2rem}"
    ".bar{background:linear-gradient(90deg,rgba(var(--mark),.3) var(--share),transparent 0)}\n";

static const char page_script[] =
    "const box=document.getElementById('events');if(box){const "
    "left=+box.dataset.left,all=+box.dataset.width,\n"
    "picture=box.closest('svg'),ticks=[...document.querySelectorAll('.tick')];let at=0,width=all;\n"
    "function show(){width=Math.min(Math.max(width,all/1e5),all);at=Math.min(Math.max(at,0),"
    "all-width);const k=all/width;\n"
    "box.setAttribute('transform',`translate(${left-at*k} 0) scale(${k} 1)`);\n"
    "ticks.forEach((t,i)=>t.textContent=((at+width*i/(ticks.length-1))/all*box.dataset.end)"
    ".toPrecision(4)+' '+box.dataset.unit);}\n"
    "function place(e){const r=picture.getBoundingClientRect();"
    "return((e.clientX-r.left)/r.width*picture.viewBox.baseVal.width-left)/all;}\n"
    "picture.addEventListener('wheel',e=>{e.preventDefault();"
    "const p=place(e),next=Math.min(width*(e.deltaY>0?1.25:.8),all);at+=p*(width-next);width=next;"
    "show();},{passive:false});\n"
    "let held=null;picture.addEventListener('pointerdown',e=>{held=place(e);"
    "picture.setPointerCapture(e.pointerId);});\n"
    "picture.addEventListener('pointermove',e=>{if(held===null)return;"
    "const p=place(e);at-=(p-held)*width;held=p;show();});\n"
    "picture.addEventListener('pointerup',()=>held=null);\n"
    "picture.addEventListener('dblclick',()=>{at=0;width=all;show();});\n"
    "picture.style.cursor='grab';picture.style.touchAction='none';}\n"
    "addEventListener('hashchange',()=>{const d=document.querySelector(location.hash);"
    "if(d&&d.tagName==='DETAILS')d.open=true;});\n"
    "document.querySelectorAll('.losses button').forEach(b=>b.addEventListener('click',()=>{\n"
    "document.querySelectorAll('.on').forEach(x=>x.classList.remove('on'));"
    "b.classList.add('on');\n"
    "const line=b.closest('.beside').querySelector(`.line[data-line=\"${b.dataset.line}\"]`);"
    "if(line){line.classList.add('on');line.scrollIntoView({block:'nearest',inline:'start'});}}));"
    "\n";

void page_open(Buf *out, const char *title) {
  buf_puts(out,
           "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
  put_escaped(out, title);
  buf_printf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", page_style);
  put_escaped(out, title);
  buf_puts(out, "</h1>\n");
}

void page_close(Buf *out) {
  buf_printf(out, "<script>%s</script>\n</body>\n</html>\n", page_script);
}

void page_open_facts(Buf *out) { buf_puts(out, "<div class=\"facts\">\n"); }
void page_close_facts(Buf *out) { buf_puts(out, "</div>\n"); }

void page_fact(Buf *out, const char *name, const char *value) {
  buf_puts(out, "<div><b>");
  put_escaped(out, value);
  buf_puts(out, "</b><span>");
  put_escaped(out, name);
  buf_puts(out, "</span></div>\n");
}

void page_text(Buf *out, const char *text) {
  buf_puts(out, "<pre>");
  put_escaped(out, text);
  buf_puts(out, "</pre>\n");
}

static void put_facts(const Model *m, Buf *out) {
  Buf time = {0};
  tpu_put_time(&time, m->seconds);
  page_open_facts(out);
  page_fact(out, "predicted time", time.text);
  page_fact(out, "bound by", m->bound);
  page_fact(out, "MXU busy", arena_printf(m->arena, "%.0f %%", 100 * tpu_busy(m, UNIT_MXU)));
  page_fact(out, "of the MXU's peak", arena_printf(m->arena, "%.0f %%", 100 * m->mxu));
  page_fact(out, "HBM busy", arena_printf(m->arena, "%.0f %%", 100 * m->hbm_share));
  page_fact(out, "of VMEM",
            arena_printf(m->arena, "%.3g %%", 100 * (double)m->vmem / (double)m->vmem_limit));
  page_close_facts(out);
  buf_free(&time);
}

void page_kernel(const Model *m, Buf *out) {
  put_facts(m, out);
  buf_puts(out, "<h2>Losses</h2>\n<div class=\"beside\">\n");
  put_losses(m, out);
  put_source(m, out);
  buf_puts(out, "</div>\n<h2>Roofline</h2>\n");
  tpu_roofline_svg(m, out);
}

void page_hint(Buf *out) {
  buf_puts(out,
           "<p class=\"hint\">The wheel zooms, dragging moves, a double click shows all.</p>\n");
}

void tpu_html(const Model *m, Model *const *all, int count, Buf *out) {
  Buf text = {0};
  tpu_text(m, &text);
  tpu_table(all, count, &text);
  page_open(out, arena_printf(m->arena, m->torus ? "%s on a slice of %s" : "%s on %s", m->k->name,
                              m->chip->name));
  page_kernel(m, out);
  buf_puts(out, "<h2>Timeline of the first steps</h2>\n");
  page_hint(out);
  put_timeline(m, out);
  if (m->sim.mesh) put_links(m, out);
  buf_puts(out, "<h2>VMEM</h2>\n");
  page_vmem(m, out);
  buf_puts(out, "<h2>Report</h2>\n");
  page_text(out, text.text);
  page_close(out);
  buf_free(&text);
}
