// Races: accesses of DMAs in progress, and accesses of steps on different cores to the same
// element.
//
// A cell runs in order, so a DMA is concurrent with exactly the accesses between its start and the
// wait that orders it. Two accesses race if their boxes share an element and one of them writes.
// Cells that differ in a parallel axis are unordered: for the elements of HBM that they can share,
// the latest accesses are recorded.
#include "codegen/check/internal.h"

#include <stdlib.h>
#include <string.h>

// ---- DMAs in progress

Transfer *add_transfer(Interp *in) {
  if (in->transfer_count == in->transfer_capacity) {
    in->transfer_capacity = in->transfer_capacity ? 2 * in->transfer_capacity : 16;
    in->transfers = realloc(in->transfers, (size_t)in->transfer_capacity * sizeof *in->transfers);
    if (!in->transfers) INTERNAL("no memory for %d transfers", in->transfer_capacity);
  }
  Transfer *t = &in->transfers[in->transfer_count++];
  *t = (Transfer){.step = in->step, .core = in->core, .ended = UNDER_WAY};
  return t;
}

void remove_transfer(Interp *in, int index) {
  const Transfer *t = &in->transfers[index];
  drop_box(&t->from);
  drop_box(&t->to);
  in->unmoved -= !t->moved;
  in->transfer_count--;
  memmove(&in->transfers[index], &in->transfers[index + 1],
          (size_t)(in->transfer_count - index) * sizeof *in->transfers);
}

void expire_transfers(Interp *in) {
  for (int i = in->transfer_count - 1; i >= 0; i--) {
    const Transfer *t = &in->transfers[i];
    bool over = t->ended < in->step && t->ended <= in->step - in->lookahead;
    if (over || t->core != in->core) remove_transfer(in, i);
  }
}

// A write-back lasts until the end of its last step, an explicit DMA until it is waited for.
static bool is_under_way(const Interp *in, const Transfer *t) {
  return t->instr ? t->ended == UNDER_WAY : t->ended >= in->step && t->ended > t->step;
}

static void note_transfer(Interp *in, const Transfer *t, const Ref *ref) {
  if (!t->instr) {
    find_note(in, map_place(t->to.ref), t->step,
              "`%s` is written back from the end of this step to the end of the next",
              t->to.ref->name);
    return;
  }
  find_note(in, t->instr->span, t->step, "the copy %s `%s` is started here",
            ref == t->to.ref ? "to" : "from", ref->name);
  const SemaphoreState *s = &in->refs[t->semaphore->id].semaphores[t->element];
  if (s->taken > 0)
    find_note(in, s->last->span, s->step,
              "this wait on `%s` took %lld bytes: other copies under way on it may have brought "
              "them, and this one has %lld",
              semaphore_text(in, t->semaphore, t->element), (long long)s->amount,
              (long long)t->bytes);
}

static void report_race(Interp *in, const Instr *instr, const Box *box, const Transfer *t,
                        bool into, const Overlap *o, const char *doing) {
  const char *under_way = !t->instr ? "being written back by an earlier step"
                          : into    ? "the target of a copy"
                                    : "the source of a copy";
  const void *where = instr ? (const void *)instr : box->ref,
             *other = t->instr ? (const void *)t->instr : t->to.ref;
  if (find_again(in, where, other, FIND_RACE)) return;
  find_pair(in, where, other, FIND_RACE, instr ? instr->span : map_place(box->ref),
            "race: %s %s while %s %s%s", elements_text(in, box, o), doing,
            o->count > 1 ? "they are" : "it is", under_way,
            t->instr ? " under way: wait for that copy first" : "");
  note_transfer(in, t, into ? t->to.ref : t->from.ref);
}

// A copy that races is completed at once, so that consequences of one mistake are not reported as
// others.
void check_access(Interp *in, const Instr *instr, const Box *box, const Value *mask, bool writes,
                  const char *doing) {
  Overlap o;
  if (in->mesh) check_flights(in, instr, box, mask, writes, doing);
  for (int i = 0; i < in->transfer_count; i++) {
    Transfer *t = &in->transfers[i];
    if (!is_under_way(in, t)) continue;
    bool into = masked_overlap(box, &t->to, mask, &o);
    if (!into && !(writes && t->instr && masked_overlap(box, &t->from, mask, &o))) continue;
    report_race(in, instr, box, t, into, &o, doing);
    move_transfer(in, t);
  }
}

// A copy reads and writes its elements in any order, so its source and its target must not share
// elements.
void check_overlap(Interp *in, Transfer *t) {
  Overlap o;
  if (!overlap(&t->from, &t->to, &o)) return;
  if (!find_again(in, t->instr, t->instr, FIND_RACE))
    find_pair(in, t->instr, t->instr, FIND_RACE, t->instr->span,
              "race: %s both read and written by this copy: its windows overlap",
              elements_text(in, &t->from, &o));
  move_transfer(in, t);
}

// ---- the grid's own pipeline

// The block was fetched at the start of the step `buffers - 1` steps earlier, before transfers that
// have ended since.
void check_fetch(Interp *in, const Ref *ref, const Box *box) {
  Overlap o;
  for (int i = 0; i < in->transfer_count; i++) {
    const Transfer *t = &in->transfers[i];
    if (t->ended <= in->step - ref->buffers || !overlap(box, &t->to, &o)) continue;
    const void *other = t->instr ? (const void *)t->instr : t->to.ref;
    const char *them = o.count > 1 ? "them" : "it";
    if (find_again(in, ref, other, FIND_ALIAS)) continue;
    find_pair(in, ref, other, FIND_ALIAS, map_place(ref),
              "%s read after another step wrote %s%s through an alias: the pipeline may have "
              "fetched %s before (`buffers %d`: up "
              "to %d step%s ahead)",
              elements_text(in, box, &o), them, t->instr ? "" : " back", them, ref->buffers,
              ref->buffers - 1, ref->buffers == 2 ? "" : "s");
    note_transfer(in, t, t->to.ref);
  }
}

// With one buffer, or with `revisit any`, the pipeline waits at once; otherwise a write-back lasts
// until the end of the next step.
void begin_writeback(Interp *in, const Ref *ref, const Box *box) {
  check_access(in, NULL, box, NULL, true, "written back");
  if (in->lookahead == 0 && ref->at == AT_BLOCK && !in->refs[ref->id].image) return;
  Transfer *t = add_transfer(in);
  t->to = *box;
  t->moved = true;
  t->ended = ref->buffers > 1 && !ref->revisit ? in->step + 1 : in->step;
}

// ---- cores

static CoreAccess *core_accesses(Interp *in, const Ref *output) {
  RefState *state = &in->refs[output->id];
  int64_t elements;
  if (state->accesses || !array_elements(state->array, &elements)) return state->accesses;
  state->accesses = calloc(elements > 0 ? (size_t)elements : 1, sizeof *state->accesses);
  if (!state->accesses) stop_for_memory(in, elements);
  return state->accesses;
}

// The number of this step's event; one serves all of its kind in a step.
static uint32_t event_number(Interp *in, const Instr *instr, const Ref *ref) {
  for (int i = in->events.count; i > 0 && in->events.at[i - 1].step == in->step; i--)
    if (in->events.at[i - 1].instr == instr && in->events.at[i - 1].ref == ref) return (uint32_t)i;
  CoreEvent event = {instr, ref, in->step, in->core, in->parallel_step};
  LIST_PUSH(in->report->arena, &in->events, event);
  return (uint32_t)in->events.count;
}

const char *differing_axis(const Interp *in, int64_t other) {
  int64_t mine = in->parallel_step;
  const char *name = "";
  for (int i = in->k->grid.count - 1; i >= 0; i--) {
    if (!in->k->grid.at[i].parallel || in->extents[i] == 0) continue;
    if (mine % in->extents[i] != other % in->extents[i]) name = in->k->grid.at[i].name;
    mine /= in->extents[i];
    other /= in->extents[i];
  }
  return name;
}

// One access of a box; conflicts with the same event are one finding.
typedef struct {
  Interp *in;
  const Box *box;
  const Instr *instr;
  CoreAccess *accesses;
  bool writes, other_writes;
  uint32_t event, conflict;
  Overlap shared;
} CoreVisit;

// Reports a race with an access of another core.
static void report_conflict(CoreVisit *v) {
  Interp *in = v->in;
  if (v->conflict == 0) return;
  const CoreEvent *other = &in->events.at[v->conflict - 1];
  const Ref *ref = v->box->ref;
  v->conflict = 0;
  bool both = v->writes && v->other_writes;
  if (both && !v->instr && ref->at == AT_BLOCK && ref == other->ref)
    return;  // reported when the block was entered
  const void *where = v->instr ? (const void *)v->instr : ref,
             *there = other->instr ? (const void *)other->instr : other->ref;
  FindingKind kind = both ? FIND_PARALLEL : FIND_RACE;
  if (find_again(in, where, there, kind)) return;
  Span span = v->instr ? v->instr->span : map_place(ref),
       other_span = other->instr ? other->instr->span : map_place(other->ref);
  const char *axis = differing_axis(in, other->cell),
             *elements = elements_text(in, v->box, &v->shared);
  if (both)
    find_pair(in, where, there, kind, span,
              "%s written by two steps that differ in the parallel axis `%s`", elements, axis);
  else
    find_pair(in, where, there, kind, span,
              "race: %s %s here and %s by a step that differs in the parallel axis `%s`: nothing "
              "orders them",
              elements, v->writes ? "written" : "read", v->other_writes ? "written" : "read", axis);
  find_note(in, other_span, other->step, "the other %s `%s`", v->other_writes ? "writes" : "reads",
            other->ref->name);
}

static void note_conflict(CoreVisit *v, uint32_t event, bool writes, const int64_t *index) {
  size_t bytes = sizeof *index * (size_t)v->box->rank;
  if (v->conflict != event || v->other_writes != writes) {
    report_conflict(v);
    v->conflict = event;
    v->other_writes = writes;
    v->shared.count = 0;
    memcpy(v->shared.first, index, bytes);
  }
  memcpy(v->shared.last, index, bytes);
  v->shared.count++;
}

static void visit_core(void *context, int64_t number, const int64_t *index) {
  (void)number;
  CoreVisit *v = context;
  const CoreEvent *events = v->in->events.at;
  int64_t at = 0, core = v->in->core;
  for (int i = 0; i < v->box->rank; i++) at = at * v->box->dim[i] + index[i];
  CoreAccess *a = &v->accesses[at];
  bool others_read = a->read && events[a->read - 1].core != core;
  uint32_t reader = others_read ? a->read : a->other_read;
  if (a->write && events[a->write - 1].core != core)
    note_conflict(v, a->write, true, index);
  else if (v->writes && reader && events[reader - 1].core != core)
    note_conflict(v, reader, false, index);
  if (v->writes) {
    a->write = v->event;
  } else {
    if (others_read) a->other_read = a->read;
    a->read = v->event;
  }
}

void check_cores(Interp *in, const Instr *instr, const Box *box, bool writes) {
  const Ref *shared = in->refs[box->ref->id].shared;
  CoreAccess *accesses = shared && in->cells > 1 ? core_accesses(in, shared) : NULL;
  if (!accesses) return;
  CoreVisit visit = {.in = in,
                     .box = box,
                     .instr = instr,
                     .accesses = accesses,
                     .writes = writes,
                     .event = event_number(in, instr, box->ref)};
  visit_box(box, visit_core, &visit);
  report_conflict(&visit);
}
