// Effects of a device on another one: copies and signals, and their races there.
#include "codegen/check/mesh.h"

// ---- unordered accesses on the other device

static void report_touch(Interp *in, const Flight *f, const Box *to, const Touch *t,
                         const Overlap *o) {
  Interp *target = &in->mesh->devices[f->target].in;
  const Instr *instr = f->instr;
  const void *there = t->instr ? (const void *)t->instr : t->box->ref;
  const char *device = device_text(in, f->target);
  if (find_again(in, instr, there, FIND_RACE)) return;
  find_pair(in, instr, there, FIND_RACE, instr->span,
            "race: %s written by this copy on device (%s), which may not have %s yet: no wait of "
            "this device guarantees that it has",
            elements_text(in, to, o), device,
            o->count > 1 ? t->writes ? "written them" : "read them"
            : t->writes  ? "written it"
                         : "read it");
  find_note(target, t->instr ? t->instr->span : map_place(t->box->ref), t->step, "`%s` is %s here",
            t->box->ref->name, t->writes ? "written" : "read");
}

static void report_flights(Interp *in, const Flight *f, const Box *to, const Flight *g, bool reads,
                           const Overlap *o) {
  const Instr *instr = f->instr;
  if (find_again(in, instr, g->instr, FIND_RACE)) return;
  find_pair(in, instr, g->instr, FIND_RACE, instr->span,
            "race: %s written by this copy on device (%s), and %s by a copy that may be under way",
            elements_text(in, to, o), device_text(in, f->target), reads ? "read" : "written");
  note_flight(in, g);
}

static bool touch_overlap(const Touch *t, const Box *to, Overlap *o) {
  if (!t->mask) return kept_overlap(to, t->box, NULL, o);
  Box box = kept_box(t->box);
  return masked_overlap(&box, to, t->mask, o);
}

// The elements that the copy writes on the other device.
static void check_target(Interp *in, const Flight *f, const Box *to) {
  Mesh *m = in->mesh;
  const Device *target = &m->devices[f->target];
  const Clock *clock = &device_in(in)->clock;
  Overlap o;
  int64_t known = clock_time(clock, f->target);
  for (int i = touches_after(target, known); i < target->touches.count; i++) {
    const Touch *t = &target->touches.at[i];
    if (t->time > known && touch_overlap(t, to, &o)) report_touch(in, f, to, t, &o);
  }
  const FlightList *near = near_flights(m, f->target, to, clock);
  for (int i = 0; i < near->count; i++) {
    const Flight *g = near->at[i];
    bool written = kept_overlap(to, g->to, NULL, &o);
    bool read = !written && !is_known(g, g->read, clock) && kept_overlap(to, g->from, NULL, &o);
    if (written || read) report_flights(in, f, to, g, read, &o);
  }
}

// ---- effects on other devices

// The number of the device that an instruction names; -1, after reporting it: there is none.
static int other_device(Interp *in, const Instr *instr) {
  Instr *const *index = ir_device_index(instr);
  int64_t device = 0;
  for (int i = 0; i < in->k->mesh.count; i++) {
    const MeshAxis *axis = &in->k->mesh.at[i];
    const Value *v = value_of(in, index[i]);
    if (poison_at(v, 0))
      find(in, instr, FIND_POISON_INDEX, instr->span,
           "the device's index along `%s` is unspecified: %s", axis->name,
           poison_cause(in, v->poison[0]));
    if (v->i[0] < 0 || v->i[0] >= axis->extent) {
      find(in, instr, FIND_DEVICE, instr->span,
           "there is no device %lld along `%s`, which has %lld", (long long)v->i[0], axis->name,
           (long long)axis->extent);
      in->stopped = true;
      return -1;
    }
    device = device * axis->extent + v->i[0];
  }
  return (int)device;
}

static void check_begun(Interp *in, const Instr *instr, int other) {
  bool barrier = instr->semaphore->semaphore == SEM_BARRIER && instr->op == OP_REMOTE_SIGNAL;
  if (other == in->device || barrier || clock_time(&device_in(in)->clock, other) > 0) return;
  find(in, instr, FIND_ENTRY, instr->span,
       "device (%s) may not have begun: nothing has arrived from it, and before it begins only its "
       "barrier semaphores exist; barrier() waits for all devices",
       device_text(in, other));
}

static void signal_remote(Interp *in, const Instr *instr, int other) {
  Interp *to = &in->mesh->devices[other].in;
  int64_t amount, element = indexed_element(in, instr, instr->semaphore, ir_semaphore_index(instr));
  if (!read_amount(in, instr, &amount) || amount == 0) return;
  add_supply(in, instr, other, instr->semaphore, element, amount);
  if (is_beyond(in)) return;
  add_held(to, instr->semaphore, element, amount);
  add_from(in, to, instr, instr->semaphore, element,
           (Token){.amount = amount, .clock = share_clock(&device_in(in)->clock)});
}

// Starts a copy to another device.
static void start_remote(Interp *in, const Instr *instr, int other) {
  Interp *to = &in->mesh->devices[other].in;
  Box from_box, to_box;
  int64_t bytes = copy_boxes(in, to, instr, &from_box, &to_box);
  Transfer copy = {
      .instr = instr,
      .from = from_box,
      .to = to_box,
      .semaphore = instr->semaphore,
      .element = indexed_element(in, instr, instr->semaphore, ir_semaphore_index(instr)),
      .bytes = bytes,
      .other_poison = POISON_OTHER,
      .step = in->step,
      .core = in->core,
      .ended = UNDER_WAY};
  int64_t arrives = indexed_element(in, instr, instr->receive, ir_receive_index(instr));
  if (bytes) {
    add_supply(in, instr, in->device, instr->semaphore, copy.element, bytes);
    add_supply(in, instr, other, instr->receive, arrives, bytes);
  }
  if (is_beyond(in)) return;
  check_access(in, instr, &from_box, NULL, false, "read by this copy");
  if (other == in->device) check_access(in, instr, &to_box, NULL, true, "written by this copy");
  if (bytes == 0) return;
  Flight *f = add_flight(in, &copy, other);
  f->receive = instr->receive;
  f->receive_element = arrives;
  check_target(in, f, &to_box);
  keep_flight(in->mesh, in->device, f);
  if (other != in->device) keep_flight(in->mesh, other, f);
  const Clock *clock = &device_in(in)->clock;
  to->refs[instr->target->id].last_store = instr;
  add_from(in, in, instr, instr->semaphore, copy.element,
           (Token){.amount = bytes, .clock = share_clock(clock), .flight = f});
  add_from(in, to, instr, instr->receive, arrives,
           (Token){.amount = bytes, .clock = share_clock(clock), .flight = f, .arrival = true});
  if (in->options.dma == DMA_AT_START) move_flight(in->mesh, f);
}

void run_remote(Interp *in, const Instr *instr) {
  int other = other_device(in, instr);
  if (other < 0) return;
  in->runs[instr->id]++;
  check_begun(in, instr, other);
  if (instr->op == OP_REMOTE_SIGNAL)
    signal_remote(in, instr, other);
  else
    start_remote(in, instr, other);
  device_in(in)->sent = true;
}
