// Simulates all devices of a mesh together: a discrete-event simulation of their recordings, in
// whole picoseconds.
//
// A message travels from chip to chip. Its head reaches the next chip one hop's latency after the
// link accepts it, and the link is occupied for bytes / bandwidth, in the order in which heads
// arrive. All links are equally fast, so the tail follows at the head's pace; a waiting message
// needs no buffer. Simultaneous events keep the order in which they were caused, so runs are
// reproducible.
#include "codegen/tpu/record.h"
#include "dsl/progress.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RECORDED = 4000000, SHOWN_WAITS = 4 };

typedef enum {
  AT_DEVICE,  // device `a` continues
  AT_GIVE,    // element `b` of device `a` receives `amount`
  AT_CHIP     // the head of message `a` is at chip `b`
} Happening;

typedef struct {
  int64_t time, number, amount;
  Happening kind;
  bool local;  // AT_GIVE: of a copy within the device
  int a, b;
} Pending;

typedef struct {
  Route route;
  int from, to;  // devices
  const Event *event;
  int64_t bytes, amount, busy_ps;
} Message;

typedef struct {
  Core core;
  Recording recording;
  int64_t now, next, hbm_free, local_free, *done_at, *held, *wait_at;
  int64_t tickets, since, wait_ps,
      sent_ps;  // since: the time at which the wait began, -1: it is not waiting
} DeviceRun;

typedef struct {
  Simulation *s;
  MeshRun *mesh;
  const Torus *torus;
  DeviceRun *device;
  Pending *heap;
  int64_t pending, capacity, caused, now;
  Message *message;
  int64_t messages, message_capacity;
  int64_t *link_free, hop_ps, dcn_ps, latency_ps, done, all;
  double bytes_per_ps, link_per_ps, dcn_per_ps;
  Progress progress;
} Replay;

// ---- future events, the earliest first

static bool is_before(const Pending *a, const Pending *b) {
  return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void cause(Replay *r, Pending p) {
  if (r->pending == r->capacity) {
    r->capacity = r->capacity ? 2 * r->capacity : 1024;
    r->heap = realloc(r->heap, sizeof *r->heap * (size_t)r->capacity);
    if (!r->heap) INTERNAL("no memory for %lld events", (long long)r->capacity);
  }
  p.number = r->caused++;
  int64_t at = r->pending++;
  for (; at > 0 && is_before(&p, &r->heap[(at - 1) / 2]); at = (at - 1) / 2)
    r->heap[at] = r->heap[(at - 1) / 2];
  r->heap[at] = p;
}

static Pending take_first(Replay *r) {
  Pending first = r->heap[0], last = r->heap[--r->pending];
  int64_t at = 0;
  for (int64_t child = 1; child < r->pending; child = 2 * at + 1) {
    if (child + 1 < r->pending && is_before(&r->heap[child + 1], &r->heap[child])) child++;
    if (!is_before(&r->heap[child], &last)) break;
    r->heap[at] = r->heap[child];
    at = child;
  }
  r->heap[at] = last;
  return first;
}

static void note(Replay *r, char kind, int device, int which, int64_t step, int64_t start,
                 int64_t end, int64_t bytes) {
  TraceLog *log = r->s->log;
  if (!log || end <= start) return;
  if (log->events.count >= log->most_events)
    log->dropped++;
  else
    LIST_PUSH(log->arena, &log->events,
              ((TraceEvent){kind, device, which, step, start, end, {0}, bytes}));
}

// ---- the HBM of a device: one channel, in the order of issue

static int64_t on_channel(Replay *r, int device, int64_t bytes) {
  DeviceRun *d = &r->device[device];
  int64_t start = d->hbm_free > r->now ? d->hbm_free : r->now,
          busy = bytes > 0 ? ps_of((double)bytes / r->bytes_per_ps * 1e-12) : 0;
  d->hbm_free = start + busy;
  d->core.tally[TALLY_HBM] += busy;
  return start;
}

static void count_bytes(Replay *r, int device, const Ref *ref, int64_t bytes) {
  Core *c = &r->device[device].core;
  if (ref->id >= c->operands) {
    c->tally[TALLY_OTHER] = saturating_add(c->tally[TALLY_OTHER], bytes);
    return;
  }
  *operand_count(c, ref->id, COUNT_ISSUED) += 1;
  *operand_count(c, ref->id, COUNT_BYTES) =
      saturating_add(*operand_count(c, ref->id, COUNT_BYTES), bytes);
}

// One end of a copy between devices; returns when it begins. Links are slower than the HBM, so such
// copies overlap: they wait for the transfers of the device's own that came before.
static int64_t touch(Replay *r, int device, const Ref *ref, int64_t bytes, char kind) {
  if (ref->space != SPACE_ANY) return r->now;
  int64_t start = on_channel(r, device, bytes);
  count_bytes(r, device, ref, bytes);
  note(r, kind, device, ref->id, 0, start, r->device[device].hbm_free, bytes);
  int64_t own = r->device[device].local_free;
  return own > r->now ? own : r->now;
}

// ---- messages

static void give(Replay *r, int64_t time, int device, int element, int64_t amount, bool local) {
  cause(r, (Pending){time, 0, amount, AT_GIVE, local, device, element});
}

static void send_part(Replay *r, Message m) {
  if (r->messages == r->message_capacity) {
    r->message_capacity = r->message_capacity ? 2 * r->message_capacity : 256;
    r->message = realloc(r->message, sizeof *r->message * (size_t)r->message_capacity);
    if (!r->message) INTERNAL("no memory for %lld messages", (long long)r->message_capacity);
  }
  int64_t start = touch(r, m.from, m.event->instr->ref, m.bytes, 'f');
  bool dcn = m.route.from / r->torus->chips != m.route.to / r->torus->chips;
  m.busy_ps = ps_of((double)m.bytes / (dcn ? r->dcn_per_ps : r->link_per_ps) * 1e-12);
  r->device[m.from].sent_ps += m.busy_ps + m.route.hops * (dcn ? r->dcn_ps : r->hop_ps);
  r->message[r->messages] = m;
  cause(r, (Pending){start, 0, 0, AT_CHIP, false, (int)r->messages++, m.route.from});
}

static void copy_to_self(Replay *r, int device, const Event *e) {
  const Ref *from = e->instr->ref, *to = e->instr->target;
  bool hbm = from->space == SPACE_ANY || to->space == SPACE_ANY;
  touch(r, device, from, e->bytes, 'f');
  touch(r, device, to, e->bytes, 'w');
  int64_t done = hbm ? r->device[device].hbm_free + r->latency_ps
                     : r->now + ps_of((double)e->bytes / chip_vmem_bandwidth(r->s->chip));
  give(r, done, device, e->element, e->amount, true);
  give(r, done, device, e->receive, e->amount, true);
}

// If both directions along an axis are equally short, half of the message takes each.
static void send(Replay *r, int device, const Event *e) {
  MeshRun *mesh = r->mesh;
  Route route = torus_route(r->torus, mesh->chip[device], mesh->chip[e->other]);
  if (e->other == device) return copy_to_self(r, device, e);
  mesh->copies++;
  mesh->hops += route.hops;
  mesh->bytes += e->bytes;
  if (route.hops > mesh->most_hops) mesh->most_hops = route.hops;
  int parts = 1, part = 0;
  for (int i = 0; i < TORUS_AXES; i++) parts <<= route.ties >> i & 1;
  for (unsigned down = 0; down < 1U << TORUS_AXES; down++) {
    if (down & ~route.ties) continue;
    Message m = {.route = route, .from = device, .to = e->other, .event = e};
    m.route.down = route.down | down;
    m.bytes = e->bytes * (part + 1) / parts - e->bytes * part / parts;
    m.amount = e->amount * (part + 1) / parts - e->amount * part / parts;
    part++;
    send_part(r, m);
  }
}

static int64_t take_link(Replay *r, const Message *m, int link) {
  int64_t start = r->link_free[link] > r->now ? r->link_free[link] : r->now;
  r->link_free[link] = start + m->busy_ps;
  r->mesh->link_ps[link] += m->busy_ps;
  r->mesh->link_bytes[link] += m->bytes;
  note(r, 'l', m->from, link, m->to, start, r->link_free[link], m->bytes);
  return start;
}

static void arrive(Replay *r, const Message *m) {
  const Torus *t = r->torus;
  int64_t head = r->now;
  if (m->route.from / t->chips != m->route.to / t->chips)
    head = take_link(r, m, m->route.to * (2 * t->axes + 2) + 2 * t->axes + 1);
  int64_t done = head + m->busy_ps;
  touch(r, m->to, m->event->instr->target, m->bytes, 'w');
  if (m->event->instr->target->space == SPACE_ANY && r->device[m->to].hbm_free > done)
    done = r->device[m->to].hbm_free;
  if (done > r->mesh->last_ps) r->mesh->last_ps = done;
  give(r, done, m->to, m->event->receive, m->amount, false);
}

static void reach_chip(Replay *r, int number, int at) {
  const Message *m = &r->message[number];
  if (at == m->route.to) return arrive(r, m);
  int next, link = torus_step(r->torus, &m->route, at, &next);
  int64_t start = take_link(r, m, link);
  if (at == m->route.from)
    give(r, start + m->busy_ps, m->from, m->event->element, m->amount, false);
  cause(r, (Pending){start + (torus_is_dcn(r->torus, link) ? r->dcn_ps : r->hop_ps), 0, 0, AT_CHIP,
                     false, number, next});
}

// A signal has the latency of its route and uses no bandwidth.
static void signal_device(Replay *r, int device, const Event *e) {
  const Torus *t = r->torus;
  int from = r->mesh->chip[device], to = r->mesh->chip[e->other];
  int64_t hop = from / t->chips != to / t->chips ? r->dcn_ps : r->hop_ps;
  if (e->other == device) {
    r->device[device].held[e->element] += e->amount;
    return;
  }
  r->mesh->signals++;
  give(r, r->now + torus_route(t, from, to).hops * hop, e->other, e->element, e->amount, false);
}

// ---- a device

static void spend(Replay *r, int device, const Event *e) {
  DeviceRun *d = &r->device[device];
  char kind = e->tally == TALLY_COMPUTE ? 'c' : 'o';
  d->core.tally[e->tally] = saturating_add(d->core.tally[e->tally], e->amount);
  note(r, kind, device, e->which, e->step, r->now, r->now + e->amount, e->times);
}

static void transfer(Replay *r, int device, const Event *e) {
  DeviceRun *d = &r->device[device];
  int64_t start = on_channel(r, device, e->amount);
  d->local_free = d->hbm_free;
  d->done_at[++d->tickets] = e->amount > 0 ? d->hbm_free + r->latency_ps : r->now;
  note(r, e->out ? 'w' : 'f', device, e->which, e->step, start, d->hbm_free, e->amount);
}

static void wait_for(DeviceRun *d, int64_t ps, int tally, int operand) {
  d->core.tally[tally] += ps;
  if (tally == TALLY_WAIT && operand >= 0 && operand < d->core.operands)
    *operand_count(&d->core, operand, COUNT_WAIT) += ps;
}

static void go_on_at(Replay *r, int device, int64_t time) {
  cause(r, (Pending){time, 0, 0, AT_DEVICE, false, device, 0});
}

// False: it waits, or a pending event will let it continue.
static bool run_event(Replay *r, int device, const Event *e) {
  DeviceRun *d = &r->device[device];
  switch ((EventKind)e->kind) {
    case EVENT_RUN:
      spend(r, device, e);
      go_on_at(r, device, r->now + e->amount);
      return false;
    case EVENT_TRANSFER:
      transfer(r, device, e);
      return true;
    case EVENT_VMEM:
      d->done_at[++d->tickets] = r->now + e->amount;
      return true;
    case EVENT_DONE:
      if (d->done_at[e->amount] <= r->now) return true;
      wait_for(d, d->done_at[e->amount] - r->now, e->tally, e->which);
      go_on_at(r, device, d->done_at[e->amount]);
      return false;
    case EVENT_GIVE:
      give(r, d->done_at[e->bytes] > r->now ? d->done_at[e->bytes] : r->now, device, e->element,
           e->amount, true);
      return true;
    case EVENT_SEND:
      send(r, device, e);
      return true;
    case EVENT_SIGNAL:
      signal_device(r, device, e);
      return true;
    case EVENT_TAKE:
      break;
  }
  if (d->held[e->element] < e->amount) {
    d->since = r->now;
    return false;
  }
  d->held[e->element] -= e->amount;
  return true;
}

static void run_device(Replay *r, int device) {
  DeviceRun *d = &r->device[device];
  while (d->next < d->recording.count && d->since < 0) {
    const Event *e = &d->recording.events[d->next];
    bool more = run_event(r, device, e);
    if (d->since >= 0) return;
    d->next++;
    r->done++;
    if (!more) return;
  }
  d->now = r->now;
}

static void end_wait(Replay *r, int device, const Event *e, bool local) {
  DeviceRun *d = &r->device[device];
  int64_t ps = r->now - d->since;
  const Ref *ref = e->instr->op != OP_COPY_WAIT        ? NULL
                   : e->instr->ref->space == SPACE_ANY ? e->instr->ref
                                                       : e->instr->target;
  wait_for(d, ps, TALLY_WAIT, local && ref ? ref->id : -1);
  if (!local) {
    d->wait_ps += ps;
    d->wait_at[e->instr->id] += ps;
    note(r, 'q', device, ir_line(r->s->k, e->instr->span), e->step, d->since, r->now, 0);
  }
  d->since = -1;
}

static void receive(Replay *r, const Pending *p) {
  DeviceRun *d = &r->device[p->a];
  d->held[p->b] += p->amount;
  if (d->since < 0) return;
  const Event *e = &d->recording.events[d->next];
  if (e->element != p->b || d->held[p->b] < e->amount) return;
  end_wait(r, p->a, e, p->local);
  run_device(r, p->a);
}

// ---- deadlock

static bool gives(const Event *e, int giver, int device, int element) {
  if (e->kind == EVENT_SEND && e->other == device && e->receive == element) return true;
  if (e->kind == EVENT_SIGNAL) return e->other == device && e->element == element;
  return (e->kind == EVENT_SEND || e->kind == EVENT_GIVE) && giver == device &&
         e->element == element;
}

// The device whose later send would end the wait of a device; -1: none.
static int find_giver(const Replay *r, int device, int element, const Event **event) {
  for (int i = 0; i < r->mesh->devices; i++) {
    const DeviceRun *d = &r->device[i];
    for (int64_t n = d->next; n < d->recording.count; n++) {
      *event = &d->recording.events[n];
      if (gives(*event, i, device, element)) return i;
    }
  }
  return -1;
}

static void put_device(const Kernel *k, int device, Buf *out) {
  int64_t below = ir_device_count(k);
  for (int i = 0; i < k->mesh.count; i++) {
    below /= k->mesh.at[i].extent;
    buf_printf(out, "%s%s = %lld", i ? ", " : "device (", k->mesh.at[i].name,
               (long long)(device / below % k->mesh.at[i].extent));
  }
  buf_putc(out, ')');
}

static void put_wait(const Replay *r, int device, Buf *out) {
  const DeviceRun *d = &r->device[device];
  const Event *e = &d->recording.events[d->next];
  const Ref *ref = e->instr->semaphore;
  put_device(r->s->k, device, out);
  buf_printf(out, " waits in line %d for ", ir_line(r->s->k, e->instr->span));
  if (ref->semaphore == SEM_BARRIER)
    buf_puts(out, "the barrier");
  else if (ref->type.rank)
    buf_printf(out, "`%s` number %d", ref->name, e->element - d->recording.place_of[ref->id]);
  else
    buf_printf(out, "`%s`", ref->name);
  buf_printf(out, ", which has %lld of %lld", (long long)d->held[e->element], (long long)e->amount);
}

// Follows the waits, from each device to the one that would end its wait, until a device repeats.
static const char *deadlock(const Replay *r) {
  Buf out = {0};
  int first = 0, waiting = 0;
  for (int i = r->mesh->devices - 1; i >= 0; i--)
    if (r->device[i].since >= 0) first = i, waiting++;
  buf_printf(&out, "no device can go on, and %d of %d wait: ", waiting, r->mesh->devices);
  for (int shown = 0, at = first; shown < SHOWN_WAITS; shown++) {
    const Event *e;
    const DeviceRun *d = &r->device[at];
    put_wait(r, at, &out);
    int giver = find_giver(r, at, d->recording.events[d->next].element, &e);
    if (giver < 0) buf_puts(&out, "; no device gives it more");
    if (giver < 0) break;
    buf_puts(&out, "; ");
    put_device(r->s->k, giver, &out);
    buf_printf(&out, " gives it more in line %d, ", ir_line(r->s->k, e->instr->span));
    if (giver == first) buf_puts(&out, "which closes the cycle");
    if (giver == first) break;
    buf_puts(&out, shown + 1 < SHOWN_WAITS ? "but " : "but waits as well");
    at = giver;
  }
  const char *kept = arena_strndup(r->s->arena, out.text, out.length);
  buf_free(&out);
  return kept;
}

// ---- the simulation

static void place_device(const Kernel *k, int device, int64_t *index) {
  for (int i = k->mesh.count - 1; i >= 0; i--) {
    index[i] = device % k->mesh.at[i].extent;
    device /= (int)k->mesh.at[i].extent;
  }
}

// Records the events of every device.
static const char *record_devices(Replay *r, const int64_t *extents) {
  Simulation *s = r->s;
  const int *place_of = number_semaphores(s->arena, s->k, s->sizes);
  int64_t *low = NEW_ARRAY(s->arena, int64_t, s->k->grid.count + 1);
  for (int i = 0; i < r->mesh->devices; i++) {
    DeviceRun *d = &r->device[i];
    d->recording = (Recording){.place_of = place_of, .most = MOST_RECORDED - r->all};
    d->core = core_new(s, 0, 1, extents, low, extents);
    d->core.record = &d->recording;
    d->core.device = i;
    place_device(s->k, i, d->core.e.device);
    run_core(&d->core);
    if (d->recording.overflow)
      return arena_printf(
          s->arena,
          "its devices together have more than %d events that must be simulated one by one",
          MOST_RECORDED);
    const char *problem = core_problem(&d->core);
    if (problem) return problem;
    r->all += d->recording.count;
    r->mesh->by_data |= d->recording.by_data;
    d->since = -1;
    d->done_at = NEW_ARRAY(s->arena, int64_t, d->recording.tickets + 1);
    d->held = NEW_ARRAY(s->arena, int64_t, place_of[s->k->refs.count] + 1);
    d->wait_at = NEW_ARRAY(s->arena, int64_t, s->k->next_id + 1);
    progress_show(&r->progress, "modelling: device", i, r->mesh->devices);
  }
  return NULL;
}

static const char *run_all(Replay *r) {
  for (int i = 0; i < r->mesh->devices; i++) go_on_at(r, i, 0);
  for (int64_t n = 0; r->pending; n++) {
    Pending p = take_first(r);
    r->now = p.time;
    if (p.time > INT64_MAX / 4) return "it would take longer than the model can count (26 days)";
    if (p.kind == AT_DEVICE)
      run_device(r, p.a);
    else if (p.kind == AT_GIVE)
      receive(r, &p);
    else
      reach_chip(r, p.a, p.b);
    if (n % 4096 == 0)
      progress_show(&r->progress, "modelling: event of the devices", r->done, r->all);
  }
  for (int i = 0; i < r->mesh->devices; i++)
    if (r->device[i].since >= 0) return deadlock(r);
  return NULL;
}

// The device that ends last determines the result; pending messages then arrive.
static void sum_up(Replay *r) {
  MeshRun *mesh = r->mesh;
  for (int i = 1; i < mesh->devices; i++) {
    if (r->device[i].now > r->device[mesh->slowest].now) mesh->slowest = i;
    if (r->device[i].now < r->device[mesh->first].now) mesh->first = i;
  }
  DeviceRun *d = &r->device[mesh->slowest];
  mesh->first_end_ps = r->device[mesh->first].now;
  mesh->wait_ps = d->wait_ps;
  mesh->wait_at = d->wait_at;
  mesh->sent_ps = d->sent_ps;
  mesh->busiest = -1;
  mesh->events = r->caused;
  for (int i = 0; i < torus_links(r->torus); i++) {
    mesh->links_used += mesh->link_ps[i] > 0;
    if (mesh->link_ps[i] > (mesh->busiest < 0 ? 0 : mesh->link_ps[mesh->busiest]))
      mesh->busiest = i;
  }
  int64_t end = d->now > mesh->last_ps ? d->now : mesh->last_ps;
  if (d->hbm_free > end) end = d->hbm_free;
  d->core.tally[TALLY_EPILOGUE] += end - d->now;
  d->core.now = end;
  add_core(r->s, &d->core);
}

// Simulates all devices of a mesh, event by event.
void simulate_mesh(Simulation *s) {
  const int64_t *extents = start_simulation(s);
  MeshRun *mesh = s->mesh;
  const double *v = s->chip->value;
  Replay r = {.s = s, .mesh = mesh, .torus = mesh->torus};
  r.device = NEW_ARRAY(s->arena, DeviceRun, mesh->devices);
  r.link_free = NEW_ARRAY(s->arena, int64_t, torus_links(r.torus));
  mesh->link_ps = NEW_ARRAY(s->arena, int64_t, torus_links(r.torus));
  mesh->link_bytes = NEW_ARRAY(s->arena, int64_t, torus_links(r.torus));
  if (!extents) return;
  r.hop_ps = ps_of(v[CHIP_ICI_HOP]);
  r.dcn_ps = ps_of(v[CHIP_DCN_HOP]);
  r.latency_ps = ps_of(v[CHIP_HBM_LATENCY]);
  r.bytes_per_ps = chip_hbm_sustained(s->chip, 1) * 1e-12;
  r.link_per_ps = r.torus->one_way * 1e-12;
  r.dcn_per_ps = v[CHIP_DCN] * 1e-12;
  r.progress = progress_start();
  s->problem = record_devices(&r, extents);
  if (!s->problem) s->problem = run_all(&r);
  if (!s->problem) sum_up(&r);
  progress_end(&r.progress);
  for (int i = 0; i < mesh->devices; i++) free(r.device[i].recording.events);
  free(r.heap);
  free(r.message);
}
