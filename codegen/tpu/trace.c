// A simulated run as a trace for Perfetto or chrome://tracing.
#include "codegen/tpu/internal.h"

#include <math.h>

// One process a core; its rows.
enum { ROW_STEP = 1, ROW_MXU, ROW_VECTOR, ROW_FETCH, ROW_WRITE };
static const char *const row_names[] = {[ROW_STEP] = "grid steps",
                                        [ROW_MXU] = "MXU",
                                        [ROW_VECTOR] = "vector units",
                                        [ROW_FETCH] = "DMA in",
                                        [ROW_WRITE] = "DMA out"};

// Events are one a line.
static void open_event(Buf *out, const char *name, const char *phase, int core, int row) {
  json_open(out, NULL, '{');
  json_text(out, "name", name);
  json_text(out, "ph", phase);
  json_int(out, "pid", core + 1);
  if (row) json_int(out, "tid", row);
}

static void close_event(Buf *out) {
  json_close(out, '}');  // args
  buf_puts(out, "}\n");
}

static void put_name(Buf *out, const char *what, int core, int row, const char *name) {
  if (core || row) buf_putc(out, ',');
  open_event(out, what, "M", core, row);
  json_open(out, "args", '{');
  json_text(out, "name", name);
  close_event(out);
}

static void put_names(const Model *m, Buf *out) {
  for (int core = 0; core < m->sim.cores; core++) {
    put_name(out, "process_name", core, 0,
             arena_printf(m->arena, "%s core %d", m->chip->name, core));
    for (int row = ROW_STEP; row <= ROW_WRITE; row++)
      put_name(out, "thread_name", core, row, row_names[row]);
  }
}

static void put_event(Buf *out, const TraceEvent *e, int row, const char *name, const char *kind,
                      double share) {
  buf_putc(out, ',');
  open_event(out, name, "X", e->core, row);
  json_text(out, "cat", kind);
  buf_printf(out, ",\"ts\":%.6f,\"dur\":%.6f", (double)e->start_ps * 1e-6,
             (double)(e->end_ps - e->start_ps) * 1e-6 * share);
  json_open(out, "args", '{');
  json_int(out, "step", e->step);
}

static void put_transfer(const Model *m, Buf *out, const TraceEvent *e) {
  const Ref *ref = m->k->refs.at[e->which];
  put_event(out, e, e->kind == 'f' ? ROW_FETCH : ROW_WRITE, ref->name, "dma", 1);
  json_int(out, "bytes", e->bytes);
  json_ints(out, "block", e->index, ref->array.rank);
  close_event(out);
}

static const char *segment_name(const Model *m, const Segment *s, Unit unit) {
  const Instr *worst = s->costliest[unit];
  return arena_printf(m->arena, "%s%sline %d: %s", s->name ? s->name : "", s->name ? ", " : "",
                      ir_line(m->k, s->span), worst ? op_info[worst->op].name : unit_names[unit]);
}

// The rows of a segment: each is busy for its own share of it.
static void put_segment(const Model *m, Buf *out, const TraceEvent *e) {
  const Segment *s = &m->body->segments.at[e->which];
  double whole = s->cost.busy[s->bound], mxu = s->cost.busy[UNIT_MXU];
  Unit busiest = UNIT_VPU;
  for (int u = UNIT_VPU; u < UNITS; u++)
    if (s->cost.busy[u] > s->cost.busy[busiest]) busiest = (Unit)u;
  if (mxu > 0) {
    put_event(out, e, ROW_MXU, segment_name(m, s, UNIT_MXU), "mxu", mxu / whole);
    json_int(out, "flops", s->cost.dot_flops);
    json_int(out, "times", e->bytes);
    close_event(out);
  }
  if (s->cost.busy[busiest] > 0) {
    put_event(out, e, ROW_VECTOR, segment_name(m, s, busiest), "vector",
              s->cost.busy[busiest] / whole);
    json_text(out, "unit", unit_names[busiest]);
    json_int(out, "times", e->bytes);
    close_event(out);
  }
}

void tpu_trace(const Model *m, Buf *out) {
  const TraceLog *log = m->sim.log;
  buf_puts(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  put_names(m, out);
  for (int i = 0; i < log->events.count; i++) {
    const TraceEvent *e = &log->events.at[i];
    switch (e->kind) {
      case 'f':
      case 'w':
        put_transfer(m, out, e);
        break;
      case 'c':
        put_segment(m, out, e);
        break;
      case 'o':
        put_event(out, e, ROW_STEP, "step", "step", 1);
        close_event(out);
        break;
      default:
        put_event(
            out, e, ROW_STEP,
            arena_printf(m->arena, "%lld steps that repeat those before", (long long)e->bytes),
            "repeated", 1);
        json_int(out, "steps", e->bytes);
        close_event(out);
    }
  }
  json_close(out, ']');
  json_open(out, "otherData", '{');
  json_text(out, "kernel", m->k->name);
  json_text(out, "chip", m->chip->name);
  json_real(out, "seconds", m->seconds);
  json_int(out, "dropped", log->dropped);
  json_close(out, '}');
  buf_puts(out, "}\n");
}
