// The rule `hazard`: reads and writes of one ref keep the order of the program.
//
// A load is evaluated where its value is used, so it may run later than its position in the
// program. If a loop uses the value of a load outside it, the load runs until the end of that loop.
#include "codegen/loops/verify/verify.h"

#include <stdlib.h>

static void note(Verifier *x, const Ref *ref, Access a) {
  a.position = val(a.access)->position;
  LIST_PUSH(x->g->arena, &x->accesses[ref->id], a);
}

// Is the block of an input present where it is read?
static void check_fetched(Verifier *x, const Ref *ref, const Instr *user) {
  const RefGen *r = &x->g->refs[ref->id];
  if (ref->role != REF_INPUT || r->form == FORM_DIRECT) return;
  if (!x->fetched[ref->id] || !is_around(x, x->fetched[ref->id]))
    broken_rule(x, "fetch", user, text(x->g, "%s is not present", ref->name));
}

// The last time at which the instruction being checked reads the value of a load.
static int time_of_read(const Verifier *x, const Instr *load) {
  int time = x->packs ? x->begun : x->clock;
  for (int f = x->frame; f >= 0 && x->frames.at[f].region != val(load)->region;
       f = x->frames.at[f].outer)
    if (x->frames.at[f].loop) time = x->frames.at[f].last;
  return time;
}

void note_read(Verifier *x, const Instr *load, const Instr *user, const Group *group,
               bool aligned) {
  check_fetched(x, load->ref, user);
  note(x, load->ref,
       (Access){load, user, x->packs ? NULL : group, 0, time_of_read(x, load), false, aligned});
}

static void note_write(Verifier *x, const Instr *store, const Instr *user, const Group *group) {
  note(x, store->ref, (Access){store, user, group, 0, x->clock, true, true});
}

static void note_dot(Verifier *x, const Instr *dot, const Group *group, const Step *step) {
  if (step->product.into) note_write(x, step->product.into, dot, group);
  if (step->product.into && !step->product.set) note_read(x, added_to(step), dot, group, true);
  if (step->product.result) note_write(x, step->product.result, dot, group);
}

void note_accesses(Verifier *x, const Instr *v, const Group *group, int step) {
  if (v->op == OP_LOAD) note_read(x, v, v, group, group->kind == GROUP_ROWS);
  if (v->op == OP_STORE) note_write(x, v, v, group);
  if (val(v)->stored_by) note_write(x, val(v)->stored_by, v, group);
  if (v->op == OP_DOT && group->kind == GROUP_ROWS) note_dot(x, v, group, &group->steps.at[step]);
  if (!op_starts_copy(v->op)) return;
  check_fetched(x, v->ref, v);
  note(x, v->ref, (Access){v, v, group, 0, x->clock, false, false});
  note(x, v->target, (Access){v, v, group, 0, x->clock, true, false});
}

static int by_position(const void *a, const void *b) {
  const Access *p = a, *q = b;
  if (p->position != q->position) return p->position < q->position ? -1 : 1;
  return p->time < q->time ? -1 : p->time > q->time;
}

static int by_time(const void *a, const void *b) {
  const Access *p = a, *q = b;
  return p->time != q->time ? p->time < q->time ? -1 : 1 : by_position(a, b);
}

static void wrong_order(Verifier *x, const Access *first, const Access *second) {
  broken_rule(x, "hazard", second->user,
              text(x->g, "%s: %%%d precedes %%%d in the program, but not here",
                   second->access->ref->name, first->access->id, second->access->id));
}

static bool is_window(const Instr *access) {
  return access->op == OP_LOAD || access->op == OP_STORE;
}

static bool may_meet(const Access *a, const Access *b) {
  if (!a->writes && !b->writes) return false;
  return !is_window(a->access) || !is_window(b->access) || !windows_are_apart(a->access, b->access);
}

static bool is_same_window(const Access *read, const Access *write) {
  return is_window(read->access) && is_window(write->access) &&
         windows_are_same(read->access, write->access);
}

// `late` runs before an access that precedes it in the program: may the two touch the same element?
// Groups hold no more stores than are checked.
static void check_late(Verifier *x, const AccessList *list, int late) {
  enum { MOST_LOOKED_AT = 4096 };
  const Access *a = &list->at[late];
  for (int i = late - 1; i >= 0 && i > late - MOST_LOOKED_AT; i--) {
    const Access *before = &list->at[i];
    if (before->time <= a->time || before->position == a->position || !may_meet(before, a))
      continue;
    wrong_order(x, before, a);
    return;
  }
}

// No access runs before a write that precedes it in the program, and no write before a read that
// precedes it.
static void check_sequence(Verifier *x, const AccessList *list) {
  const Access *write = NULL, *last = NULL;
  for (int i = 0; i < list->count; i++) {
    const Access *a = &list->at[i];
    bool late = write && a->time < write->time && a->position > write->position;
    if (a->writes && last) late |= a->time < last->time && a->position > last->position;
    if (late) check_late(x, list, i);
    if (a->writes && (!write || a->time > write->time)) write = a;
    if (!last || a->time > last->time) last = a;
  }
}

// A ref that a group of row loops writes is read by it row by row only, as a whole ref or through
// the same window. A store may read the window that it writes if it writes no element before it is
// read.
static bool fits_group(const Access *read, const AccessList *list, int from, int to) {
  if (read->aligned && ir_window_is_full(read->access)) return true;
  for (int i = from; i < to; i++) {
    const Access *w = &list->at[i];
    if (!w->writes || (read->aligned && is_same_window(read, w))) continue;
    if (w->access != read->user || store_overtakes(w->access, read->access)) return false;
  }
  return true;
}

static void check_groups(Verifier *x, const AccessList *list) {
  for (int from = 0, to; from < list->count; from = to) {
    bool writes = false;
    for (to = from + 1; to < list->count && list->at[to].group == list->at[from].group; to++)
      continue;
    for (int i = from; i < to; i++) writes |= list->at[i].writes;
    if (!writes || !list->at[from].group || list->at[from].group->kind == GROUP_CONTROL) continue;
    for (int i = from; i < to; i++)
      if (!list->at[i].writes && !fits_group(&list->at[i], list, from, to))
        broken_rule(x, "hazard", list->at[i].user,
                    text(x->g, "its group writes rows of %s that %%%d reads in others",
                         list->at[i].access->ref->name, list->at[i].access->id));
  }
}

void check_hazards(Verifier *x) {
  for (int r = 0; r < x->g->k->refs.count; r++) {
    AccessList *list = &x->accesses[r];
    if (list->count < 2) continue;
    sort_items(list->at, (size_t)list->count, sizeof *list->at, by_position);
    check_sequence(x, list);
    sort_items(list->at, (size_t)list->count, sizeof *list->at, by_time);
    check_groups(x, list);
  }
}
