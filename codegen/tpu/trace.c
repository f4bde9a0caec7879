// A simulated run as a trace for Perfetto or chrome://tracing.
#include "codegen/tpu/torus.h"

#include <math.h>

// A trace has one process per core or device, with these rows. The links of a mesh are the rows of
// another process.
enum { ROW_STEP = 1, ROW_MXU, ROW_VECTOR, ROW_FETCH, ROW_WRITE, ROW_CALL, ROW_WAIT };
static const char *const row_names[] = {[ROW_STEP] = "grid steps",
                                        [ROW_MXU] = "MXU",
                                        [ROW_VECTOR] = "vector units",
                                        [ROW_FETCH] = "DMA in",
                                        [ROW_WRITE] = "DMA out"};

typedef struct {
  const Model *m;
  Buf *out;
  double start;  // microseconds before its first event
} Trace;

// Each event is on a line of its own.
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

static void put_names(Arena *arena, const Chip *chip, int cores, Buf *out) {
  for (int core = 0; core < cores; core++) {
    put_name(out, "process_name", core, 0, arena_printf(arena, "%s core %d", chip->name, core));
    for (int row = ROW_STEP; row <= ROW_WRITE; row++)
      put_name(out, "thread_name", core, row, row_names[row]);
  }
}

static void put_event(const Trace *t, const TraceEvent *e, int row, const char *name,
                      const char *kind, double share) {
  Buf *out = t->out;
  buf_putc(out, ',');
  open_event(out, name, "X", e->core, row);
  json_text(out, "cat", kind);
  buf_printf(out, ",\"ts\":%.6f,\"dur\":%.6f", t->start + (double)e->start_ps * 1e-6,
             (double)(e->end_ps - e->start_ps) * 1e-6 * share);
  json_open(out, "args", '{');
  if (e->kind != 'l') json_int(out, "step", e->step);
}

static void put_transfer(const Trace *t, const TraceEvent *e) {
  const Ref *ref = t->m->k->refs.at[e->which];
  Buf *out = t->out;
  put_event(t, e, e->kind == 'f' ? ROW_FETCH : ROW_WRITE, ref->name, "dma", 1);
  json_int(out, "bytes", e->bytes);
  if (!t->m->sim.mesh) json_ints(out, "block", e->index, ref->array.rank);
  close_event(out);
}

static void put_message(const Trace *t, const TraceEvent *e) {
  const MeshRun *mesh = t->m->sim.mesh;
  Arena *arena = t->m->arena;
  TraceEvent at = *e;
  at.core = mesh->devices;
  put_event(
      t, &at, e->which + 1,
      arena_printf(arena, "%s to %s", torus_chip_name(arena, mesh->torus, mesh->chip[e->core]),
                   torus_chip_name(arena, mesh->torus, mesh->chip[e->step])),
      "link", 1);
  json_int(t->out, "from", e->core);
  json_int(t->out, "to", e->step);
  json_int(t->out, "bytes", e->bytes);
  close_event(t->out);
}

static const char *segment_name(const Model *m, const Segment *s, Unit unit) {
  const Instr *worst = s->costliest[unit];
  return arena_printf(m->arena, "%s%sline %d: %s", s->name ? s->name : "", s->name ? ", " : "",
                      ir_line(m->k, s->span), worst ? op_info[worst->op].name : unit_names[unit]);
}

// The rows of a segment: each is busy for its own share of it.
static void put_segment(const Trace *t, const TraceEvent *e) {
  const Model *m = t->m;
  Buf *out = t->out;
  const Segment *s = &m->body->segments.at[e->which];
  double whole = s->cost.busy[s->bound], mxu = s->cost.busy[UNIT_MXU];
  Unit busiest = UNIT_VPU;
  for (int u = UNIT_VPU; u < UNITS; u++)
    if (s->cost.busy[u] > s->cost.busy[busiest]) busiest = (Unit)u;
  if (mxu > 0) {
    put_event(t, e, ROW_MXU, segment_name(m, s, UNIT_MXU), "mxu", mxu / whole);
    json_int(out, "flops", s->cost.dot_flops);
    json_int(out, "times", e->bytes);
    close_event(out);
  }
  if (s->cost.busy[busiest] > 0) {
    put_event(t, e, ROW_VECTOR, segment_name(m, s, busiest), "vector",
              s->cost.busy[busiest] / whole);
    json_text(out, "unit", unit_names[busiest]);
    json_int(out, "times", e->bytes);
    close_event(out);
  }
}

// One event of the simulation, on the row of the unit that it occupies.
static void put_one(const Trace *t, const TraceEvent *e) {
  switch (e->kind) {
    case 'f':
    case 'w':
      put_transfer(t, e);
      break;
    case 'c':
      put_segment(t, e);
      break;
    case 'l':
      put_message(t, e);
      break;
    case 'q':
      put_event(t, e, ROW_WAIT, arena_printf(t->m->arena, "line %d", e->which), "wait", 1);
      close_event(t->out);
      break;
    case 'o':
      put_event(t, e, ROW_STEP, "step", "step", 1);
      close_event(t->out);
      break;
    default:
      put_event(
          t, e, ROW_STEP,
          arena_printf(t->m->arena, "%lld steps that repeat those before", (long long)e->bytes),
          "repeated", 1);
      json_int(t->out, "steps", e->bytes);
      close_event(t->out);
  }
}

static void put_all(const Trace *t) {
  const TraceLog *log = t->m->sim.log;
  for (int i = 0; i < log->events.count; i++) put_one(t, &log->events.at[i]);
}

static void open_trace(Buf *out) {
  buf_puts(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
}

static void close_trace(Buf *out, const char *name, const Chip *chip, double seconds,
                        int64_t dropped) {
  json_close(out, ']');
  json_open(out, "otherData", '{');
  json_text(out, "kernel", name);
  json_text(out, "chip", chip->name);
  json_real(out, "seconds", seconds);
  json_int(out, "dropped", dropped);
  json_close(out, '}');
  buf_puts(out, "}\n");
}

static void put_mesh_names(const Model *m, Buf *out) {
  const MeshRun *mesh = m->sim.mesh;
  for (int i = 0; i < mesh->devices; i++) {
    put_name(out, "process_name", i, 0,
             arena_printf(m->arena, "%s %s", m->chip->name,
                          torus_chip_name(m->arena, m->torus, mesh->chip[i])));
    for (int row = ROW_STEP; row <= ROW_WRITE; row++)
      put_name(out, "thread_name", i, row, row_names[row]);
    put_name(out, "thread_name", i, ROW_WAIT, "waits for devices");
  }
  put_name(out, "process_name", mesh->devices, 0, "links");
  for (int i = 0; i < torus_links(m->torus); i++)
    if (mesh->link_ps[i] > 0)
      put_name(out, "thread_name", mesh->devices, i + 1, torus_link_name(m->arena, m->torus, i));
}

void tpu_trace(const Model *m, Buf *out) {
  open_trace(out);
  if (m->sim.mesh)
    put_mesh_names(m, out);
  else
    put_names(m->arena, m->chip, m->sim.cores, out);
  put_all(&(Trace){m, out, 0});
  close_trace(out, m->k->name, m->chip, m->seconds, m->sim.log->dropped);
}

// ---- programs: a row of calls, and below it the events of each call's first execution

static void put_iteration(const ProgramModel *m, const ProgramIteration *iteration, int row,
                          Buf *out) {
  buf_putc(out, ',');
  open_event(out, iteration->model->k->name, "X", 0, row);
  json_text(out, "cat", "call");
  buf_printf(out, ",\"ts\":%.6f,\"dur\":%.6f", iteration->start * 1e6,
             iteration->model->seconds * 1e6);
  json_open(out, "args", '{');
  json_int(out, "line", ir_line(m->k, iteration->call->step->span));
  if (iteration->text) json_text(out, "at", iteration->text);
  json_text(out, "bound", iteration->model->bound);
  json_int(out, "bytes", iteration->model->moved_bytes);
  close_event(out);
}

// Writes the trace of a program: each iteration of a call, and the events of each call's first one.
void tpu_program_trace(const ProgramModel *m, Buf *out) {
  int cores = 1;
  int64_t dropped = m->dropped;
  const Model *talks = NULL;
  for (int i = 0; i < m->iterations.count; i++) {
    const Model *model = m->iterations.at[i].model;
    if (model->sim.cores > cores) cores = model->sim.cores;
    if (model->sim.mesh) talks = model;
  }
  open_trace(out);
  if (talks)
    put_mesh_names(talks, out);
  else
    put_names(m->arena, m->chip, cores, out);
  put_name(out, "thread_name", 0, ROW_CALL, "calls");
  bool *seen = NEW_ARRAY(m->arena, bool, m->k->flow->steps.count + 1);
  for (int i = 0; i < m->iterations.count; i++) {
    const ProgramIteration *iteration = &m->iterations.at[i];
    put_iteration(m, iteration, ROW_CALL, out);
    bool *once = &seen[iteration->call - m->calls];
    if (!*once) put_all(&(Trace){iteration->model, out, iteration->start * 1e6});
    if (!*once) dropped += iteration->model->sim.log->dropped;
    *once = true;
  }
  close_trace(out, m->k->name, m->chip, m->seconds, dropped);
}
