// Computes what a device learns of others from its waits on semaphores, in every order.
#include "codegen/check/mesh.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_TOKENS = 8 };

// The index of a ref of a device in Mesh.inboxes and Passes.histories.
static size_t place_of(const Mesh *m, int device, int ref) {
  return (size_t)device * (size_t)m->k->refs.count + (size_t)ref;
}

static int64_t elements_of(const Mesh *m, int device, int ref) {
  return m->devices[device].in.refs[ref].block.count;
}

Inbox *inbox_of(Mesh *m, int device, const Ref *semaphore, int64_t element) {
  size_t place = place_of(m, device, semaphore->id);
  if (!m->inboxes[place]) {
    int64_t count = elements_of(m, device, semaphore->id);
    m->inboxes[place] = NEW_ARRAY(m->arena, Inbox, count + 1);
    History *histories = m->passes->on ? m->passes->histories[place] : NULL;
    for (int64_t i = 0; i < count && histories; i++) {
      Inbox *box = &m->inboxes[place][i];
      box->history = &histories[i];
      box->uncounted = box->history->count;
    }
  }
  return &m->inboxes[place][element];
}

// ---- tokens of the previous pass

static History *history_of(Mesh *m, int device, const Ref *semaphore, int64_t element) {
  size_t place = place_of(m, device, semaphore->id);
  History **histories = &m->passes->histories[place];
  int64_t count = elements_of(m, device, semaphore->id);
  if (!*histories) *histories = NEW_ARRAY(m->passes->arena, History, count + 1);
  for (int64_t i = 0; i < count; i++) m->inboxes[place][i].history = &(*histories)[i];
  return &(*histories)[element];
}

void start_pass(Mesh *m) {
  Passes *passes = m->passes;
  size_t places = (size_t)m->count * (size_t)m->k->refs.count;
  m->inboxes = NEW_ARRAY(m->arena, Inbox *, places + 1);
  m->more = NEW_ARRAY(m->arena, int64_t, m->count);
  if (!passes->histories) passes->histories = NEW_ARRAY(passes->arena, History *, places + 1);
  for (int d = 0; d < m->count; d++)
    for (int r = 0; r < m->k->refs.count; r++) {
      History *histories = passes->histories[place_of(m, d, r)];
      int64_t count = histories ? elements_of(m, d, r) : 0;
      for (int64_t e = 0; e < count; e++)
        for (int i = 0; i < histories[e].count; i++) histories[e].at[i].counted = false;
    }
  passes->changed = false;
}

static bool same_clock(const Mesh *m, const Clock *a, const Clock *b) {
  return a->now == b->now && holds_clock(m, a, b) && holds_clock(m, b, a);
}

// Are the bytes that leave the source and those that arrive counted by the same semaphore?
static bool has_both_ends(const Flight *f) {
  return f->source == f->target && f->semaphore == f->receive && f->element == f->receive_element;
}

// Replaces a token that was counted early by the actual one.
static void replace_early(Mesh *m, Inbox *box, int place, const Token *token) {
  for (int i = 0; i < box->tokens.count; i++) {
    Token *t = &box->tokens.at[i];
    if (t->early != place + 1) continue;
    drop_clock(m, &t->clock);
    *t = *token;
    if (t->flight && has_both_ends(t->flight)) box->pairs++;
  }
  box->early -= token->amount;
  box->compared = 0;
}

// Adds a token to the history, before those that follow it.
static void record_token(Mesh *m, History *history, int place, Past token) {
  LIST_PUSH(m->passes->arena, history, (Past){0});
  Past *at = &history->at[place];
  memmove(at + 1, at, sizeof *at * (size_t)(history->count - 1 - place));
  *at = token;
  m->passes->changed = true;
}

// Replaces what the previous pass recorded.
static void record_again(Mesh *m, Past *p, int64_t seen, const Clock *clock) {
  if (p->seen != seen || !same_clock(m, &p->clock, clock)) m->passes->changed = true;
  p->seen = seen;
  drop_clock(m, &p->clock);
  p->clock = share_clock(clock);
}

// Records a token that may be sent before a wait that it follows. Returns whether it is already
// among the tokens of the inbox, because a wait counted it.
static bool note_token(Mesh *m, int device, Inbox *box, const Ref *semaphore, int64_t element,
                       const Token *token) {
  int number = box->sent++;
  int64_t seen = clock_time(&token->clock, device);
  bool known = box->history && box->place < box->history->count &&
               box->history->at[box->place].number == number;
  if (!known && (!m->passes->on || seen >= box->waited)) return false;
  if (!known) {
    History *history = box->history ? box->history : history_of(m, device, semaphore, element);
    record_token(m, history, box->place++,
                 (Past){number, token->amount, seen, share_clock(&token->clock), false});
    return false;
  }
  Past *p = &box->history->at[box->place];
  record_again(m, p, seen, &token->clock);
  if (p->counted)
    replace_early(m, box, box->place, token);
  else
    box->uncounted--;
  box->place++;
  return p->counted;
}

static void push_token(Mesh *m, Inbox *box, Token token) {
  box->total = saturating_add(box->total, token.amount);
  if (token.amount > box->largest) box->largest = token.amount;
  if (token.flight && has_both_ends(token.flight)) box->pairs++;
  LIST_PUSH(m->arena, &box->tokens, token);
}

void add_token(Interp *in, const Ref *semaphore, int64_t element, Token token) {
  Mesh *m = in->mesh;
  Inbox *box = inbox_of(m, in->device, semaphore, element);
  if (token.flight && is_remote(token.flight)) LIST_PUSH(m->arena, &box->coming, token.flight);
  if (!note_token(m, in->device, box, semaphore, element, &token)) push_token(m, box, token);
}

// Counts the tokens of the previous pass that are sent later in this order but may be sent before
// this wait: their senders knew nothing that the device did after it.
static void count_early(Mesh *m, Inbox *box, const Clock *clock) {
  History *history = box->history;
  for (int i = box->place; box->uncounted && i < history->count; i++) {
    Past *p = &history->at[i];
    if (p->counted || p->seen >= clock->now) continue;
    p->counted = true;
    box->uncounted--;
    box->early = saturating_add(box->early, p->amount);
    push_token(m, box,
               (Token){.amount = p->amount, .clock = share_clock(&p->clock), .early = i + 1});
  }
}

// ---- signals

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
            (Token){.amount = amount, .clock = share_clock(&device_in(in)->clock)});
}

int64_t early_amount(Interp *in, const Ref *semaphore, int64_t element) {
  return inbox_of(in->mesh, in->device, semaphore, element)->early;
}

// ---- what a wait implies about devices

static void add_times(const Mesh *m, int64_t *time, const int64_t *other) {
  for (int d = 0; d < m->count; d++) time[d] = other[d] > time[d] ? other[d] : time[d];
}

// All tokens were needed. Neighbours often carry the same times.
static void learn_all(Interp *in, Inbox *box) {
  Mesh *m = in->mesh;
  Clock *clock = &device_in(in)->clock;
  const Times *known = clock->others;
  for (int i = 0; i < box->tokens.count; i++) {
    Token *t = &box->tokens.at[i];
    if (t->flight && is_remote(t->flight)) learn_end(in, t->flight, t->arrival);
    if (t->clock.device != clock->device) {
      int64_t *time = own_times(m, clock);
      if (t->clock.others != known) add_times(m, time, t->clock.others->time);
      if (t->clock.now > time[t->clock.device]) time[t->clock.device] = t->clock.now;
      time[clock->device] = 0;
      known = t->clock.others;
    }
    drop_clock(m, &t->clock);
  }
  box->tokens.count = 0;
  box->plain = box->total = box->demand = box->largest = 0;
  box->compared = box->pairs = 0;
  box->most = 0;
}

// The first token after `first` with other times. *sum: the amounts of those before it.
static int end_of_run(const Inbox *box, int first, int64_t *sum) {
  int i = first;
  *sum = 0;
  for (; i < box->tokens.count; i++) {
    const Token *t = &box->tokens.at[i];
    if (t->clock.others != box->tokens.at[first].clock.others) break;
    *sum = saturating_add(*sum, t->amount);
  }
  return i;
}

// Adds the amounts of the tokens that were not compared yet to more[d], if they tell more of device
// d than the clock knows.
static void add_more(const Mesh *m, const Inbox *box, const Clock *clock, int64_t *more) {
  const int64_t *time = clock->others->time;
  for (int i = box->compared; i < box->tokens.count; i++) {
    const Token *t = &box->tokens.at[i];
    int own = t->clock.device;
    if (t->clock.now > time[own]) more[own] = saturating_add(more[own], t->amount);
  }
  for (int i = box->compared, next; i < box->tokens.count; i = next) {
    const Clock *told = &box->tokens.at[i].clock;
    const int64_t *other = told->others->time;
    int64_t sum;
    next = end_of_run(box, i, &sum);
    if (told->others == clock->others || told->device == clock->device) continue;
    for (int d = 0; d < m->count; d++)
      if (other[d] > time[d]) more[d] = saturating_add(more[d], sum);
  }
  more[clock->device] = 0;
}

// Updates `more` for the times that have advanced since it was computed.
static void subtract_known(const Mesh *m, Inbox *box, const int64_t *time) {
  const int64_t *old = box->as_of->time;
  for (int d = 0; d < m->count; d++) {
    if (old[d] == time[d] || box->more[d] == 0) continue;
    for (int i = 0; i < box->compared; i++) {
      const Token *t = &box->tokens.at[i];
      int64_t told = clock_time(&t->clock, d);
      if (told > old[d] && told <= time[d]) box->more[d] -= t->amount;
    }
  }
}

static int64_t largest_of(const int64_t *more, int count) {
  int64_t most = 0;
  for (int d = 0; d < count; d++) most = more[d] > most ? more[d] : most;
  return most;
}

// By device, the sum of the tokens that imply more than the clock knows. NULL: none does, and none
// will until further tokens arrive.
static const int64_t *tokens_with_more(Mesh *m, Inbox *box, const Clock *clock) {
  if (box->most == 0 && box->compared == box->tokens.count) return NULL;
  bool many = box->tokens.count > FEW_TOKENS;
  if (many && !box->more) box->more = NEW_ARRAY(m->arena, int64_t, m->count);
  int64_t *more = many ? box->more : m->more;
  if (!many && box->most) box->compared = 0;
  if (box->compared == 0 || box->most == 0)
    memset(more, 0, sizeof *more * (size_t)m->count);
  else if (box->as_of != clock->others)
    subtract_known(m, box, clock->others->time);
  add_more(m, box, clock, more);
  box->most = largest_of(more, m->count);
  box->compared = many || box->most == 0 ? box->tokens.count : 0;
  if (many && box->as_of != clock->others) {
    Clock old = {.others = box->as_of};
    drop_clock(m, &old);
    box->as_of = share_clock(clock).others;
  }
  return box->most ? more : NULL;
}

typedef struct {
  int64_t time, amount;
} Told;

static int compare_told(const void *a, const void *b) {
  const Told *x = a, *y = b;
  return x->time < y->time ? -1 : x->time > y->time;
}

// The time of a device that is known after the demand has arrived, whichever tokens it consisted
// of: the tokens that tell least are counted first.
static int64_t least_told(const Inbox *box, int device, Told *told) {
  int64_t sum = box->plain;
  for (int i = 0; i < box->tokens.count; i++)
    told[i] = (Told){clock_time(&box->tokens.at[i].clock, device), box->tokens.at[i].amount};
  sort_items(told, (size_t)box->tokens.count, sizeof *told, compare_told);
  for (int i = 0; i < box->tokens.count; i++) {
    sum = saturating_add(sum, told[i].amount);
    if (sum >= box->demand) return told[i].time;
  }
  return 0;
}

static void learn_least(Mesh *m, Clock *clock, Inbox *box, const int64_t *more) {
  int64_t spare = box->total - box->demand, *time = NULL;
  Told *told = NULL;
  if (!more || box->most <= spare) return;
  for (int d = 0; d < m->count; d++) {
    if (more[d] <= spare) continue;
    if (!told) told = malloc(sizeof *told * (size_t)box->tokens.count);
    if (!told) INTERNAL("no memory for %d tokens", box->tokens.count);
    if (!time) time = own_times(m, clock);
    int64_t least = least_told(box, d, told);
    if (least > time[d]) time[d] = least;
  }
  free(told);
}

// ---- what a wait implies about copies

static const int64_t *known_end(const Token *t) {
  return t->arrival ? t->flight->written : t->flight->read;
}

static bool tells(const Token *t, const Flight *f, bool arrival) {
  if (t->flight == f) return t->arrival || !arrival;
  return is_known(f, arrival ? f->written : f->read, &t->clock);
}

// Could another token tell of that end of the copy, which this device does not know? more: as in
// tokens_with_more.
static bool others_tell(const Token *token, const Clock *clock, const int64_t *more) {
  const Flight *f = token->flight;
  const int64_t *known = known_end(token);
  if (has_both_ends(f)) return true;
  if (!more || is_known(f, known, clock)) return false;
  return (known[AT_SOURCE] && more[f->source]) || (known[AT_TARGET] && more[f->target]);
}

// Did the waits require that end of the copy? spare: the amount of the tokens that waits did not
// take.
static bool is_needed(const Inbox *box, const Token *token, const Clock *clock, const int64_t *more,
                      int64_t spare) {
  int64_t telling = 0;
  if (token->amount > spare || !others_tell(token, clock, more)) return token->amount > spare;
  for (int i = 0; i < box->tokens.count; i++)
    if (tells(&box->tokens.at[i], token->flight, token->arrival))
      telling = saturating_add(telling, box->tokens.at[i].amount);
  return telling > spare;
}

// Can is_needed hold for a token?
static bool may_tell(const Inbox *box, const int64_t *more) {
  return more || box->pairs || box->largest > box->total - box->demand;
}

static void learn_flights(Interp *in, const Inbox *box, const int64_t *more) {
  int64_t spare = box->total - box->demand;
  for (int i = 0; i < box->tokens.count; i++) {
    const Token *t = &box->tokens.at[i];
    if (t->flight && is_remote(t->flight) && is_needed(box, t, &device_in(in)->clock, more, spare))
      learn_end(in, t->flight, t->arrival);
  }
}

// ---- waits

static bool is_plain(const Mesh *m, const Token *t, const Clock *clock) {
  if (t->early) return false;
  if (t->flight && is_remote(t->flight) && !is_known(t->flight, known_end(t), clock)) return false;
  return holds_clock(m, clock, &t->clock);
}

// Replaces the tokens that can tell nothing more by their sum.
static void settle(Mesh *m, const Clock *clock, Inbox *box) {
  int kept = 0, compared = box->compared;
  for (int i = 0; i < box->tokens.count; i++) {
    Token *t = &box->tokens.at[i];
    if (is_plain(m, t, clock)) {
      box->plain = saturating_add(box->plain, t->amount);
      drop_clock(m, &t->clock);
      compared -= i < box->compared;
    } else {
      box->tokens.at[kept++] = *t;
    }
  }
  bool same = box->most == 0 || box->as_of == clock->others || kept == box->tokens.count;
  box->compared = same ? compared : 0;
  box->tokens.count = box->kept = kept;
}

// Has nothing happened since the last wait that would let tokens tell more of copies?
static bool is_unchanged(const Mesh *m, const Inbox *box, const Clock *clock) {
  return box->more && box->settled == box->tokens.count && box->as_of == clock->others &&
         box->learned == m->learned && box->largest <= box->total - box->demand;
}

void learn(Interp *in, const Instr *wait, int64_t element, int64_t amount) {
  Mesh *m = in->mesh;
  Inbox *box = inbox_of(m, in->device, wait->semaphore, element);
  Clock *clock = &device_in(in)->clock;
  if (amount == 0 || box->total == 0) return;
  box->waited = time_now(device_in(in));
  count_early(m, box, clock);
  box->demand = saturating_add(box->demand, amount);
  if (box->total == box->demand) {
    learn_all(in, box);
    return;
  }
  bool unchanged = is_unchanged(m, box, clock);
  const int64_t *more = tokens_with_more(m, box, clock);
  bool tells_of_copies = !unchanged && may_tell(box, more);
  if (tells_of_copies) learn_flights(in, box, more);
  learn_least(m, clock, box, more);
  if (tells_of_copies || box->tokens.count / 2 > box->kept) settle(m, clock, box);
  box->settled = box->tokens.count;
  box->learned = m->learned;
}
