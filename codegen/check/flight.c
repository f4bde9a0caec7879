// Copies in progress between the devices of a mesh, and accesses that are not ordered with them.
#include "codegen/check/mesh.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_FLIGHTS = 64, COMPARED_TOUCHES = 32, MOST_BINS = 1024, WIDE_BINS = 4 };

bool is_noticed(const Interp *in, const Instr *instr) {
  if (instr->op == OP_REMOTE_START || instr->op == OP_REMOTE_SIGNAL) return true;
  return instr->semaphore && in->mesh->reached[instr->semaphore->id];
}

// ---- copies in progress

static bool flies_to(const Flight *f, int device, const Ref *semaphore, int64_t element) {
  bool sends = f->source == device && f->semaphore == semaphore && f->element == element;
  return sends || (f->target == device && f->receive == semaphore && f->receive_element == element);
}

// A random one of the copies whose elements have not moved.
static Flight *pick_any(Interp *in, const FlightList *flights) {
  Flight *picked = NULL;
  uint64_t seen = 0;
  for (int i = 0; i < flights->count; i++) {
    Flight *f = flights->at[i];
    if (f->moved || !is_remote(f)) continue;
    if (random_bits(&in->random) % ++seen == 0) picked = f;
  }
  return picked;
}

Flight *pick_flight(Interp *in, int device, const Ref *semaphore, int64_t element) {
  if (!semaphore) return pick_any(in, &in->mesh->devices[device].flights);
  FlightList *coming = &inbox_of(in->mesh, device, semaphore, element)->coming;
  while (coming->count && coming->at[coming->count - 1]->moved) coming->count--;
  if (in->options.dma == DMA_AT_RANDOM) return pick_any(in, coming);
  return coming->count ? coming->at[coming->count - 1] : NULL;
}

void add_held(Interp *in, const Ref *semaphore, int64_t element, int64_t amount) {
  int64_t *held = &in->refs[semaphore->id].block.i[element];
  *held = saturating_add(*held, amount);
}

void move_flight(Mesh *m, Flight *f) {
  Interp *source = &m->devices[f->source].in, *target = &m->devices[f->target].in;
  if (f->moved || !is_remote(f)) return;
  f->moved = true;
  Transfer copy = {.instr = f->instr,
                   .from = kept_box(f->from),
                   .to = kept_box(f->to),
                   .other_poison = POISON_OTHER};
  move_between(source, target, &copy);
  add_held(source, f->semaphore, f->element, f->bytes);
  add_held(target, f->receive, f->receive_element, f->bytes);
}

void fly_at_random(Interp *in) {
  if (in->options.dma != DMA_AT_RANDOM || random_bits(&in->random) % 4) return;
  Flight *f = pick_flight(in, in->device, NULL, 0);
  if (f) move_flight(in->mesh, f);
}

// ---- flights by memory

static Shelf *shelf_of(Mesh *m, Device *d, const Box *box, bool make) {
  for (int i = 0; i < d->shelves.count; i++)
    if (d->shelves.at[i].memory == box->memory) return &d->shelves.at[i];
  if (!make) return NULL;
  Shelf new = {.memory = box->memory, .grain = 1, .count = 1};
  for (int i = 0; i < box->rank && !box->seen; i++) {
    int64_t length = box->extent[i] > 0 ? box->extent[i] : 1;
    if (length * 2 > box->dim[i]) continue;
    int64_t least = (box->dim[i] + MOST_BINS - 1) / MOST_BINS;
    new.axis = i;
    new.grain = length > least ? length : least;
    new.count = (int)((box->dim[i] + new.grain - 1) / new.grain);
    break;
  }
  new.bins = NEW_ARRAY(m->arena, FlightList, new.count);
  LIST_PUSH(m->arena, &d->shelves, new);
  return &d->shelves.at[d->shelves.count - 1];
}

static int bin_at(const Shelf *s, int64_t index) {
  int64_t bin = index < 0 ? 0 : index / s->grain;
  return bin < s->count ? (int)bin : s->count - 1;
}

// The bins of a shelf that a box reaches.
static void bins_of(const Shelf *s, const Box *box, int *first, int *last) {
  *first = 0;
  *last = s->count - 1;
  if (box->seen || s->count == 1) return;
  *first = bin_at(s, box->start[s->axis]);
  *last = bin_at(s, last_index(box, s->axis));
}

static void shelve(Mesh *m, Device *d, const KeptBox *kept, Flight *f) {
  int first, last;
  Box box = kept_box(kept);
  Shelf *s = shelf_of(m, d, &box, true);
  bins_of(s, &box, &first, &last);
  if (last - first >= WIDE_BINS) LIST_PUSH(m->arena, &s->wide, f);
  for (int i = first; i <= last && last - first < WIDE_BINS; i++)
    LIST_PUSH(m->arena, &s->bins[i], f);
}

static void shelve_ends(Mesh *m, int device, Flight *f) {
  Device *d = &m->devices[device];
  if (f->source == device) shelve(m, d, f->from, f);
  if (f->target == device) shelve(m, d, f->to, f);
}

static void add_near(Mesh *m, const FlightList *flights, const Clock *clock) {
  for (int i = 0; i < flights->count; i++) {
    Flight *f = flights->at[i];
    if (!is_known(f, f->written, clock)) LIST_PUSH(m->arena, &m->near, f);
  }
}

static int compare_flights(const void *a, const void *b) {
  int64_t x = (*(Flight *const *)a)->number, y = (*(Flight *const *)b)->number;
  return x < y ? -1 : x > y;
}

const FlightList *near_flights(Mesh *m, int device, const Box *box, const Clock *clock) {
  int first, last, count = 0;
  const Shelf *s = shelf_of(m, &m->devices[device], box, false);
  m->near.count = 0;
  if (!s) return &m->near;
  bins_of(s, box, &first, &last);
  for (int i = first; i <= last; i++) add_near(m, &s->bins[i], clock);
  add_near(m, &s->wide, clock);
  sort_items(m->near.at, (size_t)m->near.count, sizeof *m->near.at, compare_flights);
  for (int i = 0; i < m->near.count; i++)
    if (count == 0 || m->near.at[i] != m->near.at[count - 1]) m->near.at[count++] = m->near.at[i];
  m->near.count = count;
  return &m->near;
}

// ---- completed flights

static bool is_over(const Mesh *m, const Flight *f) {
  for (int i = 0; i < m->count; i++) {
    const Clock *clock = &m->devices[i].clock;
    if (!is_known(f, f->read, clock) || !is_known(f, f->written, clock)) return false;
  }
  return true;
}

// Copies that every device knows to be complete cannot race.
static void forget_flights(Mesh *m, int device) {
  Device *d = &m->devices[device];
  int kept = 0;
  if (d->flights.count < KEPT_FLIGHTS || d->flights.count < d->most_flights) return;
  for (int i = 0; i < d->flights.count; i++)
    if (!is_over(m, d->flights.at[i])) d->flights.at[kept++] = d->flights.at[i];
  d->flights.count = kept;
  d->most_flights = 2 * kept;
  for (int i = 0; i < d->shelves.count; i++) {
    Shelf *s = &d->shelves.at[i];
    s->wide.count = 0;
    for (int k = 0; k < s->count; k++) s->bins[k].count = 0;
  }
  for (int i = 0; i < kept; i++) shelve_ends(m, device, d->flights.at[i]);
}

void keep_flight(Mesh *m, int device, Flight *f) {
  forget_flights(m, device);
  LIST_PUSH(m->arena, &m->devices[device].flights, f);
  shelve_ends(m, device, f);
}

Flight *add_flight(Interp *in, const Transfer *copy, int target) {
  Flight *f = NEW(in->mesh->arena, Flight);
  *f = (Flight){.source = in->device,
                .target = target,
                .number = in->mesh->flights++,
                .instr = copy->instr,
                .from = keep_box(in->mesh->arena, &copy->from),
                .to = keep_box(in->mesh->arena, &copy->to),
                .semaphore = copy->semaphore,
                .element = copy->element,
                .bytes = copy->bytes,
                .step = copy->step};
  return f;
}

void fly_within(Interp *in, Transfer *t) {
  Flight *f = t->flight = add_flight(in, t, in->device);
  keep_flight(in->mesh, in->device, f);
  add_token(in, t->semaphore, t->element,
            (Token){.amount = t->bytes,
                    .clock = share_clock(&device_in(in)->clock),
                    .flight = f,
                    .arrival = true});
}

// ---- unordered accesses

void note_flight(Interp *in, const Flight *f) {
  Interp *source = &in->mesh->devices[f->source].in;
  find_note(
      source, f->instr->span, f->step, "the copy to `%s`%s is started here", f->to->ref->name,
      is_remote(f) ? arena_printf(in->words, " of device (%s)", device_text(in, f->target)) : "");
}

static void report_access(Interp *in, const Instr *instr, const Box *box, const Flight *f,
                          bool into, const Overlap *o, const char *doing) {
  const void *where = instr ? (const void *)instr : box->ref;
  if (find_again(in, where, f->instr, FIND_RACE)) return;
  find_pair(in, where, f->instr, FIND_RACE, instr ? instr->span : map_place(box->ref),
            "race: %s %s while %s %s: no wait of this device guarantees that the copy is complete",
            elements_text(in, box, o), doing, o->count > 1 ? "they may be" : "it may be",
            into ? arena_printf(in->words, "the target of a copy from device (%s)",
                                device_text(in, f->source))
                 : "the source of a copy to another device");
  note_flight(in, f);
}

static bool same_touch(const Touch *t, const Instr *instr, const Box *box, bool writes) {
  if (t->instr != instr || t->writes != writes || t->mask || t->box->memory != box->memory ||
      t->box->seen || box->seen)
    return false;
  for (int i = 0; i < box->rank; i++) {
    const BoxAxis *axis = &t->box->axis[i];
    if (axis->start != box->start[i] || axis->extent != box->extent[i] ||
        axis->stride != box->stride[i])
      return false;
  }
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
static void forget_touches(const Mesh *m, Device *d) {
  int64_t known = INT64_MAX;
  int kept = 0;
  for (int i = 0; i < m->count; i++) {
    int64_t time = clock_time(&m->devices[i].clock, d->in.device);
    if (time < known) known = time;
  }
  for (int i = 0; i < d->touches.count; i++)
    if (d->touches.at[i].time > known) d->touches.at[kept++] = d->touches.at[i];
  d->touches.count = kept;
}

int touches_after(const Device *d, int64_t time) {
  // add_touch changes the times of the last accesses only: none is later than the access that is
  // COMPARED_TOUCHES after it.
  int first = d->touches.count, end = 0;
  while (first > end)
    if (d->touches.at[--first].time <= time && first - COMPARED_TOUCHES > end)
      end = first - COMPARED_TOUCHES;
  return end;
}

static void add_touch(Interp *in, const Instr *instr, const Box *box, const Value *mask,
                      bool writes) {
  Mesh *m = in->mesh;
  Device *d = device_in(in);
  int64_t now = time_now(d);
  for (int i = d->touches.count - 1; i >= 0 && i >= d->touches.count - COMPARED_TOUCHES; i--) {
    Touch *t = &d->touches.at[i];
    if (mask || !same_touch(t, instr, box, writes)) continue;
    t->time = now;
    t->step = in->step;
    return;
  }
  if (d->touches.count == d->touches.capacity) forget_touches(m, d);
  LIST_PUSH(m->arena, &d->touches,
            ((Touch){instr, keep_box(m->arena, box), keep_mask(m, mask), writes, now, in->step}));
}

void check_flights(Interp *in, const Instr *instr, const Box *box, const Value *mask, bool writes,
                   const char *doing) {
  Mesh *m = in->mesh;
  const Clock *clock = &device_in(in)->clock;
  Overlap o;
  if (!m->reached[box->ref->id] || count_elements(box) == 0) return;
  const FlightList *near = near_flights(m, in->device, box, clock);
  for (int i = 0; i < near->count; i++) {
    const Flight *f = near->at[i];
    bool into = kept_overlap(box, f->to, mask, &o);
    bool from =
        !into && writes && !is_known(f, f->read, clock) && kept_overlap(box, f->from, mask, &o);
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
    bool sends = f->source == in->device && f->semaphore == ref && f->element == element;
    bool known = sends ? f->read[AT_SOURCE] : f->written[AT_TARGET];
    if (!is_remote(f) || !flies_to(f, in->device, ref, element) || known) continue;
    Interp *source = &m->devices[f->source].in;
    find_pair(source, f->instr, ref, FIND_NOT_WAITED, f->instr->span,
              "device (%s) does not wait for this copy to `%s` %s: its semaphore `%s` still holds "
              "%lld bytes at the end of %s",
              device_text(in, in->device), f->to->ref->name, sends ? "to be sent" : "to arrive",
              semaphore_text(in, ref, element), (long long)left, end);
    any = true;
  }
  return any;
}
