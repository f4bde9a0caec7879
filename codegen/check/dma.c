// Explicit copies, semaphores and `scoped` in the interpreter.
//
// The windows of a copy are fixed when it starts. Its elements move then, when a wait needs its
// bytes, or in between (CheckOptions.dma). Until a wait proves that it is complete, it is a
// Transfer in progress, with which race.c compares all other accesses.
#include "codegen/check/mesh.h"

#include <stdlib.h>
#include <string.h>

// ---- moving elements

// The next DMA on a semaphore (NULL: on any) whose elements have not moved: the latest, or a random
// one.
static Transfer *pick_unmoved(Interp *in, const Ref *semaphore, int64_t element) {
  Transfer *picked = NULL;
  uint64_t seen = 0;
  for (int i = 0; i < in->transfer_count && in->unmoved; i++) {
    Transfer *t = &in->transfers[i];
    if (t->moved || (semaphore && (t->semaphore != semaphore || t->element != element))) continue;
    if (in->options.dma == DMA_AT_WAIT || random_bits(&in->random) % ++seen == 0) picked = t;
  }
  return picked;
}

void move_at_random(Interp *in) {
  if (in->mesh) fly_at_random(in);
  if (in->options.dma != DMA_AT_RANDOM || random_bits(&in->random) % 4) return;
  Transfer *t = pick_unmoved(in, NULL, 0);
  if (t) move_transfer(in, t);
}

// ---- semaphores

int64_t indexed_element(Interp *in, const Instr *instr, const Ref *ref, Instr *const *index) {
  int64_t element = 0;
  for (int i = 0; i < ref->type.rank; i++) {
    const Value *value = value_of(in, index[i]);
    int64_t at = value->i[0], dim = ref->type.dim[i];
    if (poison_at(value, 0))
      find_pair(in, instr, ref, FIND_POISON_INDEX, instr->span,
                "the index of a semaphore of `%s` on axis %d is unspecified: %s", ref->name, i,
                poison_cause(in, value->poison[0]));
    else if (at < 0 || at >= dim)
      find_pair(in, instr, ref, FIND_SLICE, instr->span,
                "semaphore %lld of `%s` on axis %d is out of range: there are %lld", (long long)at,
                ref->name, i, (long long)dim);
    element = element * dim + (at < 0 ? 0 : at >= dim ? dim - 1 : at);
  }
  return element;
}

static int64_t semaphore_element(Interp *in, const Instr *instr) {
  return indexed_element(in, instr, instr->semaphore, ir_semaphore_index(instr));
}

static int64_t bytes_under_way(const Interp *in, const Ref *semaphore, int64_t element) {
  int64_t bytes = 0;
  for (int i = 0; i < in->transfer_count; i++)
    if (is_on(&in->transfers[i], semaphore, element)) bytes += in->transfers[i].bytes;
  return bytes;
}

// Marks the DMAs that are complete in every order: those without which the waits so far could not
// have been satisfied.
static void end_transfers(Interp *in, const Ref *semaphore, int64_t element) {
  SemaphoreState *s = &in->refs[semaphore->id].semaphores[element];
  int64_t open = saturating_add(bytes_under_way(in, semaphore, element), s->signalled) - s->taken;
  if (in->mesh) open = saturating_add(open, early_amount(in, semaphore, element));
  for (int i = 0; i < in->transfer_count; i++) {
    Transfer *t = &in->transfers[i];
    if (!is_on(t, semaphore, element) || t->bytes <= open) continue;
    s->taken -= t->bytes;
    s->copy = t->instr;
    s->bytes = t->bytes;
    t->ended = in->step;
    if (t->flight) learn_end(in, t->flight, true);
    if (in->lookahead == 0) remove_transfer(in, i--);
  }
}

// ---- waits

// Ends the wait if the semaphore has its amount, or if no device can add to it.
static void continue_wait(Interp *in, bool in_vain) {
  const Wait *w = &in->wait;
  const Ref *ref = w->instr->semaphore;
  int64_t *held = &in->refs[ref->id].block.i[w->element];
  SemaphoreState *s = &in->refs[ref->id].semaphores[w->element];
  while (*held < w->amount && !in_vain && !in->stopped && !is_beyond(in)) {
    Transfer *t = pick_unmoved(in, ref, w->element);
    if (t)
      move_transfer(in, t);
    else if (!in->mesh)
      in_vain = true;
    else if (!take_arrival(in)) {
      if (!await_devices(in)) return;
      in_vain = waits_in_vain(in);
    }
  }
  if (in->stopped || is_beyond(in)) return;
  if (*held < w->amount) {
    report_deadlock(in, *held);
    return;
  }
  *held -= w->amount;
  s->taken += w->amount;
  s->last = w->instr;
  s->amount = w->amount;
  s->step = in->step;
  if (in->mesh) learn(in, w->instr, w->element, w->amount);
  end_transfers(in, ref, w->element);
}

void resume_wait(Interp *in) { continue_wait(in, waits_in_vain(in)); }

// to: the target of a copy's wait.
static void begin_wait(Interp *in, const Instr *instr, int64_t amount, const Box *to) {
  if (is_beyond(in)) {
    add_supply(in, instr, in->device, instr->semaphore, semaphore_element(in, instr), -amount);
    return;
  }
  in->wait.instr = instr;
  in->wait.element = semaphore_element(in, instr);
  in->wait.amount = amount;
  if (to) {
    drop_box(&in->wait.to);
    in->wait.to = *to;
    hold_box(to);
  }
  continue_wait(in, false);
}

// ---- copies

// Starts a copy: checks its accesses and records a transfer.
static void start_copy(Interp *in, const Instr *instr, const Box *from, const Box *to,
                       int64_t bytes) {
  int64_t element = semaphore_element(in, instr);
  if (in->mesh && bytes) add_supply(in, instr, in->device, instr->semaphore, element, bytes);
  if (is_beyond(in)) return;
  check_access(in, instr, from, NULL, false, "read by this copy");
  check_access(in, instr, to, NULL, true, "written by this copy");
  check_cores(in, instr, from, false);
  check_cores(in, instr, to, true);
  in->refs[to->ref->id].last_store = instr;
  if (bytes == 0) return;
  const Value *other =
      instr->flags & INSTR_OTHER ? value_of(in, instr->args[instr->nargs - 1]) : NULL;
  Transfer *t = add_transfer(in);
  t->instr = instr;
  t->from = *from;
  t->to = *to;
  hold_box(from);
  hold_box(to);
  t->semaphore = instr->semaphore;
  t->element = element;
  t->bytes = bytes;
  t->other = other ? other->i[0] : 0;
  t->other_poison = other ? poison_at(other, 0) : POISON_OTHER;
  in->unmoved++;
  if (in->mesh) fly_within(in, t);
  check_overlap(in, t);
  if (in->options.dma == DMA_AT_START) move_transfer(in, t);
}

static void run_copy(Interp *in, const Instr *instr) {
  Box from, to;
  int64_t bytes = copy_boxes(in, in, instr, &from, &to);
  if (instr->semaphore->semaphore != SEM_DMA) bytes = 1;
  if (instr->op == OP_COPY_WAIT)
    begin_wait(in, instr, bytes, &to);
  else
    start_copy(in, instr, &from, &to, bytes);
  drop_box(&from);
  drop_box(&to);
}

// Loads a view to a var, or stores it from one.
static void run_move(Interp *in, const Instr *instr) {
  Transfer t = {.instr = instr};
  copy_boxes(in, in, instr, &t.from, &t.to);
  check_access(in, instr, &t.from, NULL, false, "read");
  check_access(in, instr, &t.to, NULL, true, "written");
  in->refs[instr->target->id].last_store = instr;
  move_between(in, in, &t);
  drop_box(&t.from);
  drop_box(&t.to);
}

// The value of a semaphore. If it is read repeatedly, all its bytes arrive eventually.
static void read_semaphore(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  int64_t element = semaphore_element(in, instr);
  if (!out) return;
  out->i[0] = wrap_int(DT_I32, in->refs[instr->semaphore->id].block.i[element]);
  Transfer *t = pick_unmoved(in, instr->semaphore, element);
  if (t) move_transfer(in, t);
}

bool read_amount(Interp *in, const Instr *instr, int64_t *amount) {
  const Value *v = value_of(in, ir_amount(instr));
  *amount = v->i[0];
  if (poison_at(v, 0))
    find(in, instr, FIND_POISON_INDEX, instr->span, "the amount for `%s` is unspecified: %s",
         instr->semaphore->name, poison_cause(in, v->poison[0]));
  if (v->i[0] < 0)
    find(in, instr, FIND_AMOUNT, instr->span, "the semaphore `%s` takes 0 or more, not %lld",
         instr->semaphore->name, (long long)v->i[0]);
  return v->i[0] >= 0;
}

static void signal_or_wait(Interp *in, const Instr *instr) {
  int64_t amount;
  if (!read_amount(in, instr, &amount)) return;
  if (instr->op == OP_SEM_WAIT) {
    begin_wait(in, instr, amount, NULL);
    return;
  }
  int64_t element = semaphore_element(in, instr);
  if (in->mesh && amount) add_supply(in, instr, in->device, instr->semaphore, element, amount);
  if (is_beyond(in)) return;
  RefState *state = &in->refs[instr->semaphore->id];
  SemaphoreState *s = &state->semaphores[element];
  state->block.i[element] = saturating_add(state->block.i[element], amount);
  s->signalled = saturating_add(s->signalled, amount);
  s->last = instr;
  s->amount = amount;
  s->step = in->step;
  if (in->mesh) signal_here(in, element, instr, amount);
}

void run_dma(Interp *in, const Instr *instr) {
  in->runs[instr->id]++;
  if (instr->op == OP_COPY_START || instr->op == OP_COPY_WAIT)
    run_copy(in, instr);
  else if (instr->op == OP_MOVE)
    run_move(in, instr);
  else if (instr->op == OP_SEM_READ)
    read_semaphore(in, instr);
  else
    signal_or_wait(in, instr);
}

// ---- lifetimes

static void begin_semaphore(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  Value *block = &state->block;
  memset(block->i, 0, (size_t)block->count * sizeof *block->i);
  memset(block->poison, 0, (size_t)block->count);
  if (!state->semaphores)
    state->semaphores = calloc((size_t)block->count + 1, sizeof *state->semaphores);
  if (!state->semaphores) INTERNAL("no memory for %lld semaphores", (long long)block->count);
  memset(state->semaphores, 0, (size_t)block->count * sizeof *state->semaphores);
}

// Reports copies whose bytes were not all waited for.
static void report_left(Interp *in, const Ref *ref, int64_t element, int64_t left,
                        const char *end) {
  const SemaphoreState *s = &in->refs[ref->id].semaphores[element];
  if (!find_pair(in, ref, s->last, FIND_SEMAPHORE, ref->span,
                 "the semaphore `%s` still holds %lld bytes at the end of %s: waits took fewer "
                 "bytes than copies brought",
                 semaphore_text(in, ref, element), (long long)left, end))
    return;
  find_note(in, s->last->span, s->step, "this wait takes %lld bytes", (long long)s->amount);
  if (s->copy) find_note(in, s->copy->span, -1, "this copy brings %lld bytes", (long long)s->bytes);
  for (int i = 0; i < in->transfer_count; i++) {
    const Transfer *t = &in->transfers[i];
    if (is_on(t, ref, element))
      find_note(in, t->instr->span, t->step, "this copy brings %lld bytes", (long long)t->bytes);
  }
}

// These copies were reported. They are completed, so that their results cause no further findings.
static bool report_lost(Interp *in, const Ref *ref, int64_t element, int64_t left,
                        const char *end) {
  bool any = false;
  for (int i = 0; i < in->transfer_count; i++) {
    Transfer *t = &in->transfers[i];
    if (!is_on(t, ref, element)) continue;
    find(in, t->instr, FIND_NOT_WAITED, t->instr->span,
         "nothing waits for this copy to `%s`: the semaphore `%s` still holds %lld%s at the "
         "end of %s",
         t->to.ref->name, semaphore_text(in, ref, element), (long long)left,
         ref->semaphore == SEM_DMA ? " bytes" : "", end);
    move_transfer(in, t);
    any = true;
  }
  return any;
}

// Reports a semaphore that is not 0 at the end of its scope.
static void end_semaphore(Interp *in, const Ref *ref, const char *end) {
  const Value *block = &in->refs[ref->id].block;
  for (int64_t e = 0; e < block->count && !in->stopped; e++) {
    const SemaphoreState *s = &in->refs[ref->id].semaphores[e];
    int64_t left = saturating_add(bytes_under_way(in, ref, e), s->signalled) - s->taken;
    if (left == 0) continue;
    if (ref->semaphore == SEM_DMA && s->taken)
      report_left(in, ref, e, left, end);
    else if (report_lost(in, ref, e, left, end) || report_unawaited(in, ref, e, left, end))
      continue;
    else if (find(in, ref, FIND_SEMAPHORE, ref->span,
                  "the semaphore `%s` still holds %lld at the end of %s: it was signalled more "
                  "than waited for",
                  semaphore_text(in, ref, e), (long long)left, end))
      find_note(in, s->last->span, s->step, "the last %s is here",
                s->last->op == OP_SEM_SIGNAL ? "signal" : "wait");
  }
  for (int i = in->transfer_count - 1; i >= 0; i--)
    if (in->transfers[i].semaphore == ref && in->transfers[i].ended == UNDER_WAY)
      remove_transfer(in, i);
}

void begin_scratch(Interp *in, const Ref *ref) {
  Value *block = &in->refs[ref->id].block;
  if (ref->space == SPACE_SEM)
    begin_semaphore(in, ref);
  else
    fill_unspecified(block, 0, block->count, ref_mark(ref));
}

void begin_scope(Interp *in, const Instr *scoped) {
  for (int i = in->k->inputs + in->k->outputs; i < in->k->refs.count; i++)
    if (in->k->refs.at[i]->scope == scoped) begin_scratch(in, in->k->refs.at[i]);
}

static bool ends_with(const Ref *ref, const Instr *scoped, bool semaphore) {
  return ref->role == REF_SCRATCH && ref->scope == scoped && (ref->space == SPACE_SEM) == semaphore;
}

void end_scope(Interp *in, const Instr *scoped) {
  for (int i = in->k->inputs + in->k->outputs; i < in->k->refs.count; i++)
    if (ends_with(in->k->refs.at[i], scoped, true))
      end_semaphore(in, in->k->refs.at[i], "its scope");
  for (int i = in->k->inputs + in->k->outputs; i < in->k->refs.count && in->transfer_count; i++) {
    const Ref *ref = in->k->refs.at[i];
    if (!ends_with(ref, scoped, false)) continue;
    Box box = whole_block(in, ref);
    check_access(in, scoped, &box, NULL, true, "out of scope");
  }
}

void end_cell(Interp *in) {
  const char *end =
      in->last_step && in->cells == 1 ? "the kernel" : "a step along its parallel axes";
  for (int i = in->k->inputs + in->k->outputs; i < in->k->refs.count && !in->stopped; i++)
    if (ends_with(in->k->refs.at[i], NULL, true)) end_semaphore(in, in->k->refs.at[i], end);
}
