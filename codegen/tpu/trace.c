// A simulated run as a trace for Perfetto or chrome://tracing.
#include "codegen/tpu/internal.h"

#include <math.h>

// One process a core; its rows.
enum { ROW_STEP = 1, ROW_MXU, ROW_VECTOR, ROW_FETCH, ROW_WRITE };
static const char *const row_names[] = {
    [ROW_STEP] = "grid steps", [ROW_MXU] = "MXU", [ROW_VECTOR] = "vector units", [ROW_FETCH] = "DMA in", [ROW_WRITE] = "DMA out"};

static void put_names(const Model *m, Buf *out) {
  for (int core = 0; core < m->sim.cores; core++) {
    buf_printf(out, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"%s core %d\"}}", core + 1,
               m->chip->name, core);
    for (int row = ROW_STEP; row <= ROW_WRITE; row++)
      buf_printf(out, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", core + 1,
                 row, row_names[row]);
    buf_puts(out, core + 1 < m->sim.cores ? ",\n" : "");
  }
}

static void put_event(Buf *out, const TraceEvent *e, int row, const char *name, const char *kind, double share) {
  double start = (double)e->start_ps * 1e-6, length = (double)(e->end_ps - e->start_ps) * 1e-6 * share;
  buf_puts(out, ",\n{\"name\":");
  put_json_string(out, name);
  buf_printf(out, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f,\"args\":{\"step\":%lld", kind,
             e->core + 1, row, start, length, (long long)e->step);
}

static void put_transfer(const Model *m, Buf *out, const TraceEvent *e) {
  const Ref *ref = m->k->refs.at[e->which];
  put_event(out, e, e->kind == 'f' ? ROW_FETCH : ROW_WRITE, ref->name, "dma", 1);
  buf_printf(out, ",\"bytes\":%lld,\"block\":[", (long long)e->bytes);
  for (int i = 0; i < ref->array.rank; i++) buf_printf(out, "%s%lld", i ? "," : "", (long long)e->index[i]);
  buf_puts(out, "]}}");
}

static const char *segment_name(const Model *m, const Segment *s, Unit unit) {
  const Instr *worst = s->costliest[unit];
  return arena_printf(m->arena, "%s%sline %d: %s", s->name ? s->name : "", s->name ? ", " : "", ir_line(m->k, s->span),
                      worst ? op_info[worst->op].name : unit_names[unit]);
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
    buf_printf(out, ",\"flops\":%lld,\"times\":%lld}}", (long long)s->cost.dot_flops, (long long)e->bytes);
  }
  if (s->cost.busy[busiest] > 0) {
    put_event(out, e, ROW_VECTOR, segment_name(m, s, busiest), "vector", s->cost.busy[busiest] / whole);
    buf_printf(out, ",\"unit\":\"%s\",\"times\":%lld}}", unit_names[busiest], (long long)e->bytes);
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
        buf_puts(out, "}}");
        break;
      default:
        put_event(out, e, ROW_STEP, arena_printf(m->arena, "%lld steps that repeat those before", (long long)e->bytes),
                  "repeated", 1);
        buf_printf(out, ",\"steps\":%lld}}", (long long)e->bytes);
    }
  }
  buf_printf(out, "\n],\"otherData\":{\"kernel\":\"%s\",\"chip\":\"%s\",\"seconds\":%.10g,\"dropped\":%lld}}\n", m->k->name,
             m->chip->name, m->seconds, (long long)log->dropped);
}
