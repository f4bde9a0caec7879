// What a device of a mesh knows of the others: clocks, what semaphores tell, copies under way, and
// unordered accesses.
#include "codegen/check/mesh.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_FLIGHTS = 64, COMPARED_TOUCHES = 32 };

// ---- clocks

int64_t *copy_clock(Mesh *m, const int64_t *clock) {
  int64_t *copy = NEW_ARRAY(m->arena, int64_t, m->count);
  memcpy(copy, clock, sizeof *copy * (size_t)m->count);
  return copy;
}

static void join_clock(const Mesh *m, int64_t *clock, const int64_t *other) {
  for (int i = 0; i < m->count; i++)
    if (other[i] > clock[i]) clock[i] = other[i];
}

bool is_known(const Mesh *m, const int64_t *known, const int64_t *clock) {
  for (int i = 0; i < m->count; i++)
    if (known[i] && clock[i] >= known[i]) return true;
  return false;
}

static void mark_reached(Instr *instr, void *context) {
  bool *reached = context;
  if (instr->op == OP_REMOTE_SIGNAL) reached[instr->semaphore->id] = true;
  if (instr->op != OP_REMOTE_START) return;
  reached[instr->ref->id] = reached[instr->target->id] = reached[instr->receive->id] = true;
}

void start_clocks(Mesh *m) {
  const Kernel *k = m->k;
  m->reached = NEW_ARRAY(m->arena, bool, k->refs.count + 1);
  ir_walk(k->body, mark_reached, m->reached);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const Ref *output = k->refs.at[i], *input = output->alias;
    if (!input) continue;
    bool either = m->reached[output->id] || m->reached[input->id];
    m->reached[output->id] = m->reached[input->id] = either;
  }
  for (int i = 0; i < m->count; i++) {
    m->devices[i].clock = NEW_ARRAY(m->arena, int64_t, m->count);
    m->devices[i].clock[i] = 1;
  }
}

bool is_noticed(const Interp *in, const Instr *instr) {
  if (instr->op == OP_REMOTE_START || instr->op == OP_REMOTE_SIGNAL) return true;
  return instr->semaphore && in->mesh->reached[instr->semaphore->id];
}

// ---- copies under way

static bool flies_to(const Flight *f, int device, const Ref *semaphore, int64_t element) {
  bool sends = f->source == device && f->copy.semaphore == semaphore && f->copy.element == element;
  return sends || (f->target == device && f->receive == semaphore && f->receive_element == element);
}

Flight *pick_flight(Interp *in, int device, const Ref *semaphore, int64_t element) {
  const Device *d = &in->mesh->devices[device];
  Flight *picked = NULL;
  uint64_t seen = 0;
  for (int i = 0; i < d->flights.count; i++) {
    Flight *f = d->flights.at[i];
    if (f->copy.moved || !is_remote(f)) continue;
    if (semaphore && !flies_to(f, device, semaphore, element)) continue;
    if (in->options.dma != DMA_AT_RANDOM || random_bits(&in->random) % ++seen == 0) picked = f;
  }
  return picked;
}

void add_held(Interp *in, const Ref *semaphore, int64_t element, int64_t amount) {
  int64_t *held = &in->refs[semaphore->id].block.i[element];
  *held = saturating_add(*held, amount);
}

void move_flight(Mesh *m, Flight *f) {
  Interp *source = &m->devices[f->source].in, *target = &m->devices[f->target].in;
  if (f->copy.moved || !is_remote(f)) return;
  f->copy.moved = true;
  move_between(source, target, &f->copy);
  add_held(source, f->copy.semaphore, f->copy.element, f->copy.bytes);
  add_held(target, f->receive, f->receive_element, f->copy.bytes);
}

void fly_at_random(Interp *in) {
  if (in->options.dma != DMA_AT_RANDOM || random_bits(&in->random) % 4) return;
  Flight *f = pick_flight(in, in->device, NULL, 0);
  if (f) move_flight(in->mesh, f);
}

// Copies that every device knows to be complete cannot race.
static void forget_flights(Mesh *m, Device *d) {
  int kept = 0;
  if (d->flights.count == 0 || d->flights.count % KEPT_FLIGHTS) return;
  for (int i = 0; i < d->flights.count; i++) {
    Flight *f = d->flights.at[i];
    bool over = true;
    for (int k = 0; k < m->count && over; k++)
      over = is_known(m, f->read_known, m->devices[k].clock) &&
             is_known(m, f->written_known, m->devices[k].clock);
    if (!over) d->flights.at[kept++] = f;
  }
  d->flights.count = kept;
}

static void keep_flight(Mesh *m, int device, Flight *f) {
  forget_flights(m, &m->devices[device]);
  LIST_PUSH(m->arena, &m->devices[device].flights, f);
}

Flight *add_flight(Interp *in, const Transfer *copy, int target) {
  Mesh *m = in->mesh;
  Flight *f = NEW(m->arena, Flight);
  *f = (Flight){.copy = *copy,
                .source = in->device,
                .target = target,
                .clock = copy_clock(m, device_in(in)->clock),
                .read_known = NEW_ARRAY(m->arena, int64_t, m->count),
                .written_known = NEW_ARRAY(m->arena, int64_t, m->count)};
  keep_flight(m, in->device, f);
  if (target != in->device) keep_flight(m, target, f);
  return f;
}

static void know(Interp *in, const Flight *f, bool written) {
  int64_t now = device_in(in)->clock[in->device];
  if (!f->read_known[in->device]) f->read_known[in->device] = now;
  if (written && !f->written_known[in->device]) f->written_known[in->device] = now;
}

void know_flight(Interp *in, const Flight *f) { know(in, f, true); }

// ---- semaphores

static void add_token(Interp *in, const Ref *semaphore, int64_t element, Token token) {
  SemaphoreState *s = &in->refs[semaphore->id].semaphores[element];
  LIST_PUSH(in->mesh->arena, &s->tokens, token);
}

void add_from(Interp *in, Interp *to, const Instr *instr, const Ref *semaphore, int64_t element,
              Token token) {
  SemaphoreState *s = &to->refs[semaphore->id].semaphores[element];
  add_token(to, semaphore, element, token);
  s->signalled = saturating_add(s->signalled, token.amount);
  s->last = instr;
  s->amount = token.amount;
  s->step = in->step;
}

void signal_here(Interp *in, int64_t element, const Instr *instr, int64_t amount) {
  add_token(in, instr->semaphore, element,
            (Token){.amount = amount, .clock = copy_clock(in->mesh, device_in(in)->clock)});
}

void fly_within(Interp *in, Transfer *t) {
  Flight *f = t->flight = add_flight(in, t, in->device);
  add_token(in, t->semaphore, t->element,
            (Token){.amount = t->bytes, .clock = f->clock, .flight = f, .arrival = true});
}

typedef struct {
  int64_t time, amount;
} Told;

static int compare_told(const void *a, const void *b) {
  const Told *x = a, *y = b;
  return x->time < y->time ? -1 : x->time > y->time;
}

// The time of a device that is known once `demand` was there, whichever tokens it consisted of:
// those that tell least come first.
static int64_t least_told(const SemaphoreState *s, int device, int64_t demand, Told *told) {
  int64_t sum = 0;
  for (int i = 0; i < s->tokens.count; i++)
    told[i] = (Told){s->tokens.at[i].clock[device], s->tokens.at[i].amount};
  qsort(told, (size_t)s->tokens.count, sizeof *told, compare_told);
  for (int i = 0; i < s->tokens.count; i++) {
    sum = saturating_add(sum, told[i].amount);
    if (sum >= demand) return told[i].time;
  }
  return 0;
}

static bool tells(const Mesh *m, const Token *t, const Flight *f, bool arrival) {
  if (t->flight == f) return t->arrival || !arrival;
  return is_known(m, arrival ? f->written_known : f->read_known, t->clock);
}

// Is `demand` impossible without that end of the copy?
static bool is_needed(const Mesh *m, const SemaphoreState *s, const Token *token, int64_t demand) {
  int64_t without = 0;
  for (int i = 0; i < s->tokens.count; i++)
    if (!tells(m, &s->tokens.at[i], token->flight, token->arrival))
      without = saturating_add(without, s->tokens.at[i].amount);
  return without < demand;
}

static void learn_flights(Interp *in, SemaphoreState *s) {
  for (int i = 0; i < s->tokens.count; i++) {
    const Token *t = &s->tokens.at[i];
    if (t->flight && is_remote(t->flight) && is_needed(in->mesh, s, t, s->demand))
      know(in, t->flight, t->arrival);
  }
}

void learn(Interp *in, const Instr *wait, int64_t element, int64_t amount) {
  Mesh *m = in->mesh;
  SemaphoreState *s = &in->refs[wait->semaphore->id].semaphores[element];
  int64_t total = 0, *clock = device_in(in)->clock;
  if (amount == 0 || s->tokens.count == 0) return;
  s->demand = saturating_add(s->demand, amount);
  for (int i = 0; i < s->tokens.count; i++) total = saturating_add(total, s->tokens.at[i].amount);
  learn_flights(in, s);
  if (total == s->demand) {
    for (int i = 0; i < s->tokens.count; i++) join_clock(m, clock, s->tokens.at[i].clock);
    s->tokens.count = 0;
    s->demand = 0;
    return;
  }
  Told *told = NEW_ARRAY(m->arena, Told, s->tokens.count);
  for (int d = 0; d < m->count; d++) {
    int64_t time = least_told(s, d, s->demand, told);
    if (time > clock[d]) clock[d] = time;
  }
}

// ---- unordered accesses

void note_flight(Interp *in, const Flight *f) {
  Interp *source = &in->mesh->devices[f->source].in;
  find_note(source, f->copy.instr->span, f->copy.step, "the copy to `%s`%s is started here",
            f->copy.to.ref->name,
            is_remote(f)
                ? arena_printf(in->report->arena, " of device (%s)", device_text(in, f->target))
                : "");
}

static void report_access(Interp *in, const Instr *instr, const Box *box, const Flight *f,
                          bool into, const Overlap *o, const char *doing) {
  const void *where = instr ? (const void *)instr : box->ref;
  if (find_again(in, where, f->copy.instr, FIND_RACE)) return;
  find_pair(in, where, f->copy.instr, FIND_RACE, instr ? instr->span : map_place(box->ref),
            "race: %s %s while %s %s: no wait of this device guarantees that the copy is complete",
            elements_text(in, box, o), doing, o->count > 1 ? "they may be" : "it may be",
            into ? arena_printf(in->report->arena, "the target of a copy from device (%s)",
                                device_text(in, f->source))
                 : "the source of a copy to another device");
  note_flight(in, f);
}

static bool same_touch(const Touch *t, const Instr *instr, const Box *box, bool writes) {
  if (t->instr != instr || t->writes != writes || t->mask || t->box.memory != box->memory ||
      t->box.seen || box->seen)
    return false;
  for (int i = 0; i < box->rank; i++)
    if (t->box.start[i] != box->start[i] || t->box.extent[i] != box->extent[i] ||
        t->box.stride[i] != box->stride[i])
      return false;
  return true;
}

static const Value *keep_mask(Mesh *m, const Value *mask) {
  if (!mask) return NULL;
  Value *copy = NEW(m->arena, Value);
  *copy = *mask;
  copy->i = NEW_ARRAY(m->arena, int64_t, mask->count + 1);
  memcpy(copy->i, mask->i, sizeof *copy->i * (size_t)mask->count);
  return copy;
}

// Accesses that all other devices know of cannot race with later copies.
static void forget_touches(Mesh *m, Device *d) {
  int64_t known = INT64_MAX;
  int kept = 0;
  for (int i = 0; i < m->count; i++)
    if (m->devices[i].clock[d->in.device] < known) known = m->devices[i].clock[d->in.device];
  for (int i = 0; i < d->touches.count; i++)
    if (d->touches.at[i].time > known) d->touches.at[kept++] = d->touches.at[i];
  d->touches.count = kept;
}

static void add_touch(Interp *in, const Instr *instr, const Box *box, const Value *mask,
                      bool writes) {
  Mesh *m = in->mesh;
  Device *d = device_in(in);
  int64_t now = d->clock[in->device];
  for (int i = d->touches.count - 1; i >= 0 && i >= d->touches.count - COMPARED_TOUCHES; i--) {
    Touch *t = &d->touches.at[i];
    if (mask || !same_touch(t, instr, box, writes)) continue;
    t->time = now;
    t->step = in->step;
    return;
  }
  if (d->touches.count == d->touches.capacity) forget_touches(m, d);
  LIST_PUSH(m->arena, &d->touches,
            ((Touch){instr, *box, keep_mask(m, mask), writes, now, in->step}));
}

void check_flights(Interp *in, const Instr *instr, const Box *box, const Value *mask, bool writes,
                   const char *doing) {
  Mesh *m = in->mesh;
  const int64_t *clock = device_in(in)->clock;
  Overlap o;
  if (!m->reached[box->ref->id] || count_elements(box) == 0) return;
  const Device *d = device_in(in);
  for (int i = 0; i < d->flights.count; i++) {
    Flight *f = d->flights.at[i];
    if (!is_remote(f)) continue;  // race.c knows the others
    bool into = masked_overlap(box, &f->copy.to, mask, &o) && !is_known(m, f->written_known, clock);
    bool from = !into && writes && masked_overlap(box, &f->copy.from, mask, &o) &&
                !is_known(m, f->read_known, clock);
    if (into || from) report_access(in, instr, box, f, into, &o, doing);
  }
  bool copies = instr && op_info[instr->op].attribute == ATTR_COPY;
  if (!copies) add_touch(in, instr, box, mask, writes);
}

// ---- findings at the end

bool report_unawaited(Interp *in, const Ref *ref, int64_t element, int64_t left, const char *end) {
  Mesh *m = in->mesh;
  bool any = false;
  for (int i = 0; m && i < m->devices[in->device].flights.count; i++) {
    const Flight *f = m->devices[in->device].flights.at[i];
    bool sends = f->source == in->device && f->copy.semaphore == ref && f->copy.element == element;
    const int64_t *known = sends ? f->read_known : f->written_known;
    if (!is_remote(f) || !flies_to(f, in->device, ref, element) || known[in->device]) continue;
    Interp *source = &m->devices[f->source].in;
    find_pair(source, f->copy.instr, ref, FIND_NOT_WAITED, f->copy.instr->span,
              "device (%s) does not wait for this copy to `%s` %s: its semaphore `%s` still holds "
              "%lld bytes at the end of %s",
              device_text(in, in->device), f->copy.to.ref->name, sends ? "to be sent" : "to arrive",
              semaphore_text(in, ref, element), (long long)left, end);
    any = true;
  }
  return any;
}
