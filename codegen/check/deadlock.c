// Deadlocks: what a wait would need. Of many devices: they continue as if their waits had ended,
// and the messages that each of them would then send show which wait blocks which.
#include "codegen/check/mesh.h"

#include <string.h>

static const double MOST_BEYOND = 3e7;  // elements computed by all devices together

// ---- the finding of a wait

static bool same_box(const Box *a, const Box *b) {
  if (a->memory != b->memory || !a->seen != !b->seen) return false;
  if (a->seen)
    return a->seen->layout == b->seen->layout &&
           memcmp(a->seen->start, b->seen->start,
                  (size_t)a->seen->layout->places * sizeof *a->seen->start) == 0;
  for (int i = 0; i < a->rank; i++)
    if (a->start[i] != b->start[i] || a->extent[i] != b->extent[i] || a->stride[i] != b->stride[i])
      return false;
  return true;
}

typedef struct {
  Interp *in;
  const Instr *wait;
  const Instr *source;  // the start of a copy that could satisfy the wait: the same copy if there
                        // is one, otherwise any
  bool same;
} SupplySearch;

static void visit_source(Instr *instr, void *context) {
  SupplySearch *s = context;
  bool copy = s->wait->op == OP_COPY_WAIT;
  bool arrives = instr->op == OP_REMOTE_START && instr->receive == s->wait->semaphore,
       brings = instr->op == OP_COPY_START || instr->op == OP_SEM_SIGNAL ||
                instr->op == OP_REMOTE_SIGNAL || instr->op == OP_REMOTE_START;
  if (!arrives && (!brings || instr->semaphore != s->wait->semaphore)) return;
  bool same = copy && instr->ref == s->wait->ref && instr->target == s->wait->target;
  if (s->source && (s->same || !same)) return;
  s->source = instr;
  s->same = same;
}

static const char *brought_text(Interp *in, const Transfer *t) {
  return t->semaphore->semaphore == SEM_DMA
             ? arena_printf(in->words, "%lld bytes", (long long)t->bytes)
             : "a signal";
}

static bool note_under_way(Interp *in, const Instr *wait, int64_t element, const Box *to) {
  int noted = 0;
  for (int i = 0; i < in->transfer_count; i++) {
    const Transfer *t = &in->transfers[i];
    if (!t->instr || t->ended != UNDER_WAY) continue;
    bool on_it = is_on(t, wait->semaphore, element), same = to && same_box(&t->to, to);
    noted += on_it || same;
    if (on_it)
      find_note(in, t->instr->span, t->step, "this copy on `%s` brings %s",
                semaphore_text(in, wait->semaphore, element), brought_text(in, t));
    else if (same)
      find_note(in, t->instr->span, t->step,
                "the copy to the same window of `%s` was started on `%s`", to->ref->name,
                semaphore_text(in, t->semaphore, t->element));
  }
  return noted > 0;
}

// Adds notes to a deadlock: which copy or signal could have satisfied the wait, and why it did not.
static void explain_deadlock(Interp *in, const Instr *wait, int64_t element, const Box *to) {
  const SemaphoreState *s = &in->refs[wait->semaphore->id].semaphores[element];
  const char *name = semaphore_text(in, wait->semaphore, element);
  bool copy = wait->op == OP_COPY_WAIT;
  if (note_under_way(in, wait, element, to)) return;
  if (s->last && s->last->op == wait->op)
    find_note(in, s->last->span, s->step, "this wait took %lld%s from `%s` before",
              (long long)s->amount, copy ? " bytes" : "", name);
  SupplySearch search = {in, wait, NULL, false};
  ir_walk(in->k->body, visit_source, &search);
  if (!search.source) {
    find_note(in, wait->semaphore->span, -1,
              copy ? "no copy is ever started on `%s`" : "nothing ever signals `%s`",
              wait->semaphore->name);
    return;
  }
  int64_t runs = in->runs[search.source->id];
  const char *what = op_info[search.source->op].attribute == ATTR_COPY ? "copy on" : "signal of";
  if (runs)
    find_note(in, search.source->span, -1, "the %s `%s` here ran %lld time%s so far", what,
              wait->semaphore->name, (long long)runs, runs == 1 ? "" : "s");
  else
    find_note(in, search.source->span, -1, "the %s `%s` here never ran", what,
              wait->semaphore->name);
}

static void tell_wait(Interp *in, int64_t held) {
  const Wait *w = &in->wait;
  const Box *to = w->instr->op == OP_COPY_WAIT ? &w->to : NULL;
  const char *unit = to ? " bytes" : "";
  if (find(in, w->instr, FIND_DEADLOCK, w->instr->span,
           "deadlock: this waits for %lld%s on `%s`, which holds %lld: %lld%s are missing, and "
           "nothing under way brings them",
           (long long)w->amount, unit, semaphore_text(in, w->instr->semaphore, w->element),
           (long long)held, (long long)(w->amount - held), unit))
    explain_deadlock(in, w->instr, w->element, to);
}

// ---- of a device that waits

static const Ref *semaphore_of(const Device *d) { return d->in.wait.instr->semaphore; }

static int64_t held_of(const Device *d) {
  return d->in.refs[semaphore_of(d)->id].block.i[d->in.wait.element];
}

static const char *awaited_text(Device *d) {
  return semaphore_text(&d->in, semaphore_of(d), d->in.wait.element);
}

// ---- beyond the deadlock

void add_supply(Interp *in, const Instr *instr, int to, const Ref *semaphore, int64_t element,
                int64_t amount) {
  LIST_PUSH(in->mesh->arena, &in->mesh->supplies,
            ((Supply){in->device, to, instr, semaphore, element, amount}));
}

void run_on(Interp *in) {
  Mesh *m = in->mesh;
  m->most_work = m->work + MOST_BEYOND / m->count;
}

// The finding of a device's wait as it is now. It is not yet among those that are reported.
static Finding finding_of(Device *d) {
  FindingList *all = &d->in.mesh->devices[0].in.findings;
  tell_wait(&d->in, d->held);
  return all->at[--all->count];
}

static void look_beyond(Interp *in) {
  Mesh *m = in->mesh;
  for (int i = 0; i < m->count; i++) {
    Device *d = &m->devices[i];
    d->stuck = d->state == DEVICE_WAITS;
    if (!d->stuck) continue;
    d->held = held_of(d);
    d->finding = finding_of(d);
  }
  m->stuck = in;
  m->before = m->supplies.count;
  m->beyond = true;
  run_on(in);
}

void report_deadlock(Interp *in, int64_t held) {
  if (in->mesh) {
    look_beyond(in);
    return;
  }
  tell_wait(in, held);
  in->stopped = true;
}

// ---- the waits

// Finds, for each device that waits, what would be added to its semaphore and taken from it.
static void find_supplies(Mesh *m) {
  for (int i = 0; i < m->count; i++)
    if (m->devices[i].stuck) m->devices[i].left = m->devices[i].held - m->devices[i].in.wait.amount;
  for (int i = m->before; i < m->supplies.count; i++) {
    const Supply *s = &m->supplies.at[i];
    Device *d = &m->devices[s->to];
    if (!d->stuck || s->semaphore != semaphore_of(d) || s->element != d->in.wait.element) continue;
    d->left = saturating_add(d->left, s->amount);
    if (s->amount > 0 && !d->supply) d->supply = s;
  }
}

// Do its waits on the semaphore need more than all devices would send? Not all is known of what
// they would send if one of them stopped before its end.
static bool lacks(const Device *d) {
  return d->stuck && (d->in.mesh->cut_short ? !d->supply : d->left < 0);
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
    if (s->from == device && s->amount > 0 && s->semaphore == semaphore_of(wait) &&
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
  int cycle;  // the position at which the waits form a cycle; -1: the last device lacks a message
} Path;

// Follows the waits from a device, each to the device that would end it.
static void follow(const Mesh *m, int device, Path *path) {
  *path = (Path){.cycle = -1};
  for (;; device = m->devices[device].supply->from) {
    for (int i = 0; i < path->count; i++)
      if (path->device[i] == device) path->cycle = i;
    if (path->cycle >= 0) return;
    path->seen[device] = true;
    path->device[path->count++] = device;
    if (lacks(&m->devices[device])) return;
  }
}

// The waits from the device that waited first. If they form a cycle, but another device lacks a
// message, that device alone.
static void find_path(const Mesh *m, Path *path) {
  follow(m, m->stuck->device, path);
  for (int i = 0; i < m->count && path->cycle >= 0; i++)
    if (lacks(&m->devices[i])) follow(m, i, path);
}

static void note_path(Mesh *m, const Path *path) {
  for (int i = 0; i < path->count && i < MOST_NOTED; i++) {
    note_wait(m, path->device[i]);
    if (!lacks(&m->devices[path->device[i]])) note_supply(m, m->devices[path->device[i]].supply);
  }
}

// Adds a note that explains the deadlock: the cycle of waiting devices, or that no later action
// ends the wait.
static void note_cycle(Mesh *m, const Path *path) {
  Buf text = {0};
  Interp *in = m->stuck;
  const int from = path->cycle;
  if (from < 0) {
    const Device *d = device_in(in);
    find_note(in, in->k->span, -1,
              d->supply ? "later actions of all devices add less to this semaphore of device (%s) "
                          "than its waits take"
                        : "no later action of any device ends the wait of device (%s)",
              device_text(in, in->device));
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
  Path path;
  if (!m->beyond) return;
  m->beyond = false;
  m->stopped = true;
  for (int i = 0; i < m->count; i++) m->devices[i].in.stopped = true;
  find_supplies(m);
  find_path(m, &path);
  const int from = path.cycle;
  Device *named = &m->devices[path.device[from < 0 ? path.count - 1 : from]];
  m->stuck = &named->in;
  LIST_PUSH(m->stuck->report->arena, &m->devices[0].in.findings, named->finding);
  note_path(m, &path);
  note_others(m, &path);
  note_cycle(m, &path);
  for (int i = from < 0 ? path.count : from; i < path.count; i++)
    for (int k = i + 1; k < path.count; k++)
      if (report_order(m, &m->devices[path.device[i]], &m->devices[path.device[k]])) return;
}
