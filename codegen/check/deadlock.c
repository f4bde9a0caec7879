// Explains deadlocks: the devices continue as if their waits had ended, and the messages that each
// of them would then send show which wait blocks which.
#include "codegen/check/mesh.h"

static const double MOST_BEYOND = 3e7;  // elements computed by all devices together

// ---- of a device that waits

static const Ref *semaphore_of(const Device *d) { return d->in.wait.instr->semaphore; }

static int64_t held_of(const Device *d) {
  return d->in.refs[semaphore_of(d)->id].block.i[d->in.wait.element];
}

static const char *awaited_text(Device *d) {
  return semaphore_text(&d->in, semaphore_of(d), d->in.wait.element);
}

// ---- beyond the deadlock

void add_supply(Interp *in, const Instr *instr, int to, const Ref *semaphore, int64_t element) {
  LIST_PUSH(in->mesh->arena, &in->mesh->supplies,
            ((Supply){in->device, to, instr, semaphore, element}));
}

void run_on(Interp *in) {
  Mesh *m = in->mesh;
  m->most_work = m->work + MOST_BEYOND / m->count;
}

void look_beyond(Interp *in) {
  Mesh *m = in->mesh;
  for (int i = 0; i < m->count; i++) {
    Device *d = &m->devices[i];
    d->stuck = d->state == DEVICE_WAITS;
    if (d->stuck) d->held = held_of(d);
  }
  m->stuck = in;
  m->before = m->supplies.count;
  m->beyond = true;
  run_on(in);
}

// ---- the waits

// The device that would end the wait of a device, if there is one.
static const Supply *find_supply(const Mesh *m, int device) {
  const Device *d = &m->devices[device];
  for (int i = m->before; i < m->supplies.count; i++) {
    const Supply *s = &m->supplies.at[i];
    if (s->to == device && s->semaphore == semaphore_of(d) && s->element == d->in.wait.element)
      return s;
  }
  return NULL;
}

static void note_wait(Mesh *m, int device) {
  Device *d = &m->devices[device];
  if (&d->in == m->stuck) return;  // the finding says so
  find_note(&d->in, d->in.wait.instr->span, d->in.step,
            "this device waits here for %lld on `%s`, which holds %lld",
            (long long)d->in.wait.amount, awaited_text(d), (long long)d->held);
}

static void note_supply(Mesh *m, const Supply *s) {
  Interp *in = &m->devices[s->from].in;
  find_note(in, s->instr->span, -1,
            "this device adds to `%s` of device (%s) here, but only after its own wait",
            semaphore_text(in, s->semaphore, s->element), device_text(in, s->to));
}

// ---- devices that take the same steps in different orders

// The number of the last supply of a device, between `from` and `to`, that `wait` waits for; -1:
// none. any_element: to any element of the semaphore.
static int last_supply(const Mesh *m, int device, const Device *wait, bool any_element, int from,
                       int to) {
  for (int i = to - 1; i >= from; i--) {
    const Supply *s = &m->supplies.at[i];
    if (s->from == device && s->semaphore == semaphore_of(wait) &&
        (any_element || s->element == wait->in.wait.element))
      return i;
  }
  return -1;
}

// Has `a` done its own part of the exchange that it waits for, and would it do its part of `b`'s
// exchange only later?
static bool comes_first(const Mesh *m, const Device *a, const Device *b) {
  const int device = a->in.device, end = m->supplies.count;
  bool any_element = semaphore_of(a) != semaphore_of(b);
  int own = last_supply(m, device, a, any_element, 0, m->before);
  return own >= 0 && own > last_supply(m, device, b, any_element, 0, m->before) &&
         last_supply(m, device, b, any_element, m->before, end) >= 0;
}

static bool report_order(Mesh *m, Device *a, Device *b) {
  if (semaphore_of(a) == semaphore_of(b) && a->in.wait.element == b->in.wait.element) return false;
  if (!comes_first(m, a, b) || !comes_first(m, b, a)) return false;
  find_pair(&a->in, a->in.wait.instr, b->in.wait.instr, FIND_SEQUENCE, a->in.wait.instr->span,
            "devices wait in different orders: this one waits on `%s` first, and device (%s) waits "
            "on `%s` first",
            awaited_text(a), device_text(&a->in, b->in.device), awaited_text(b));
  find_note(&b->in, b->in.wait.instr->span, b->in.step, "the other device waits here");
  return true;
}

// ---- the report

enum { MOST_NOTED = 8 };

typedef struct {
  int device[MOST_DEVICES], count;
  bool seen[MOST_DEVICES];
} Path;

// Follows the waits from the device of the finding. Returns the position in the path at which they
// form a cycle; -1: they end at a device for whose wait nothing would be sent.
static int follow(Mesh *m, Path *path) {
  for (int device = m->stuck->device;;) {
    path->seen[device] = true;
    path->device[path->count++] = device;
    if (path->count <= MOST_NOTED) note_wait(m, device);
    const Supply *s = find_supply(m, device);
    if (!s) return -1;
    if (path->count <= MOST_NOTED) note_supply(m, s);
    device = s->from;
    for (int i = 0; i < path->count; i++)
      if (path->device[i] == device) return i;
  }
}

static void note_cycle(Mesh *m, const Path *path, int from) {
  Buf text = {0};
  Interp *in = m->stuck;
  if (from < 0) {
    find_note(in, in->k->span, -1, "no later action of any device ends the wait of device (%s)",
              device_text(in, path->device[path->count - 1]));
    return;
  }
  for (int i = from; i < path->count && i < from + MOST_NOTED; i++)
    buf_printf(&text, "%s(%s) waits for (%s)", i > from ? ", " : "",
               device_text(in, path->device[i]),
               device_text(in, path->device[i + 1 < path->count ? i + 1 : from]));
  if (path->count - from > MOST_NOTED) buf_printf(&text, ", ..: %d devices", path->count - from);
  find_note(in, in->k->span, -1, "the waits form a cycle: %s",
            arena_take(in->report->arena, &text));
}

static void note_others(Mesh *m, const Path *path) {
  int ended = 0, noted = path->count;
  for (int i = 0; i < m->count; i++) {
    ended += !m->devices[i].stuck;
    if (m->devices[i].stuck && !path->seen[i] && noted++ < MOST_NOTED) note_wait(m, i);
  }
  Interp *in = m->stuck;
  if (ended)
    find_note(in, in->k->span, -1, "%d of the %d devices have ended", ended, m->count);
  else if (m->count > 1)
    find_note(in, in->k->span, -1, "no device can proceed: each waits for another");
}

void tell_cycle(Mesh *m) {
  Path path = {0};
  if (!m->beyond) return;
  m->beyond = false;
  m->stopped = true;
  for (int i = 0; i < m->count; i++) m->devices[i].in.stopped = true;
  int from = follow(m, &path);
  note_others(m, &path);
  note_cycle(m, &path, from);
  for (int i = from < 0 ? path.count : from; i < path.count; i++)
    for (int k = i + 1; k < path.count; k++)
      if (report_order(m, &m->devices[path.device[i]], &m->devices[path.device[k]])) return;
}
