/* The devices of a mesh as the processes of an MPI communicator: libpkrt_mpi.
 *
 * Every effect on another device is a message: a header, which contains the target in the other
 * device's memory and the semaphore, followed by the data. Long data travels in messages of its
 * own, which are sent from the source and received into the target directly if both are dense. A
 * device handles messages when it waits, reads a semaphore or sends, so data never changes while
 * its own code computes. One persistent receive is always posted for headers. No device begins a
 * call before all have left the previous one, so a header always belongs to the current call. */
#define _POSIX_C_SOURCE 200809L
#include <pk/mpi.h>

#include "runtime/world.h"

#include <pk/link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  SHORT = 3840,      /* bytes of a message that Open MPI sends eagerly: its limit is 4096 */
  MEDIUM = 3 * 3840, /* up to this size, three short messages are faster than a long one */
  PIECE = 1 << 30    /* bytes of one message at most: MPI counts with int */
};

typedef enum { HEADS, DATA } tag;
typedef enum { ADD, COPY, FAILED, ENDED, TOKEN, STUCK } kind;

/* A window without its memory. */
typedef struct {
  int64_t rank, dim[PK_WINDOW_RANK], stride[PK_WINDOW_RANK], start[PK_WINDOW_RANK],
      size[PK_WINDOW_RANK], step[PK_WINDOW_RANK];
} shape;

typedef struct {
  int64_t kind, amount, semaphore; /* ADD, COPY: where, from the start of the arena */
  int64_t dtype, operand, offset;  /* COPY: of the target in the arena, when operand < 0 */
  int64_t part;                    /* as in pk_sending */
  int64_t bytes;                   /* of data */
  shape from, to;                  /* `from` is the shape of the data, which is dense */
} head;

/* A header as it is sent, in words, and the data or text after it. */
typedef struct {
  int bytes;
  _Alignas(8) char data[SHORT];
} packet;

/* The token that passes around the ring of devices to detect a deadlock; see "deadlocks" below. */
typedef struct {
  int64_t call;  /* the number of the call */
  int64_t sum;   /* of the balances of the devices that it has passed */
  int64_t black; /* one of them received something since it last passed the token */
  int64_t first; /* the first of them that waits; the number of devices if none does */
} token;

/* An outgoing message, or one whose data is being received. */
typedef struct parcel {
  struct parcel *next;
  packet packet;
  head head;     /* of an incoming message */
  char *owned;   /* a copy of the data, or a buffer for it; NULL: the data is sent or received in
                    place */
  int64_t *sent; /* the semaphore that is increased when the data has left; NULL afterwards */
  int64_t amount;
  int requests;
  MPI_Request *request, first[1 + MEDIUM / SHORT];
} parcel;

typedef struct {
  pk_link link;              /* first: what the context has */
  struct pk_devices devices; /* the `all` of the worker's device */
  pk_device device;
  MPI_Comm communicator;
  MPI_Request heads; /* persistent, into `inbox` */
  packet inbox;
  double timeout;
  bool broken;
  /* of the current call */
  const pk_call *on;
  pk_worker *worker;
  parcel *leaving, *coming, *spare;
  int ended, failed; /* devices that have reported their end; the first one that failed, or -1 */
  bool stopped;      /* a device failed: all waits return at once */
  bool told;         /* this device failed, and has notified the others */
  char message[PK_LINK_MESSAGE]; /* of `failed` */
  char waited[PK_LINK_MESSAGE];  /* what this device waited for when it failed */
  token token;
  int64_t calls;
  int64_t balance; /* signals and copies sent to other devices, less those that arrived */
  bool has_token, probing, black, stuck;
} group;

static group *group_of(const pk_worker *worker) {
  return (group *)(void *)((char *)worker->device->all - offsetof(group, devices));
}

static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void add(int64_t *semaphore, int64_t amount) {
  *semaphore = pk_sat_add(*semaphore, amount > 0 ? amount : 0);
}

/* ---- windows */

/* The window's memory if it is in bounds and contiguous; else NULL. */
static char *dense_memory(const pk_window *w, int64_t element) {
  int64_t dense = 1, at = 0;
  for (int k = w->rank - 1; k >= 0; --k) {
    if (w->start[k] < 0 || w->start[k] > w->dim[k]) return NULL;
    if (w->size[k] > 1 && (w->step[k] != 1 || w->stride[k] != dense)) return NULL;
    if (w->size[k] > w->dim[k] - w->start[k]) return NULL;
    dense *= w->size[k];
    at += w->start[k] * w->stride[k];
  }
  return w->data + at * element;
}

static void put_shape(shape *s, const pk_window *w) {
  s->rank = w->rank;
  for (int k = 0; k < w->rank; ++k) {
    s->dim[k] = w->dim[k];
    s->stride[k] = w->stride[k];
  }
  memcpy(s->start, w->start, sizeof s->start);
  memcpy(s->size, w->size, sizeof s->size);
  memcpy(s->step, w->step, sizeof s->step);
}

static pk_window window_of(const shape *s, char *data) {
  pk_window w = {.data = data, .rank = (int)s->rank, .dim = s->dim, .stride = s->stride};
  memcpy(w.start, s->start, sizeof w.start);
  memcpy(w.size, s->size, sizeof w.size);
  memcpy(w.step, s->step, sizeof w.step);
  return w;
}

/* The numbers of elements along an axis before the array and inside it. */
static void clip(const pk_window *w, int axis, int64_t *before, int64_t *inside) {
  const int64_t start = w->start[axis], size = w->size[axis], step = w->step[axis],
                dim = w->dim[axis];
  int64_t first = start < 0 ? (-start + step - 1) / step : 0,
          end = start < dim ? (dim - start + step - 1) / step : 0;
  if (first > size) first = size;
  if (end > size) end = size;
  *before = first;
  *inside = end > first ? end - first : 0;
}

/* The part of a window that is in bounds, as dense data: `inner` within the array, `data` without
 * memory. The number of its elements. */
static int64_t take_inside(const pk_window *from, shape *inner, shape *data) {
  int64_t elements = 1;
  put_shape(inner, from);
  data->rank = from->rank;
  for (int k = from->rank - 1; k >= 0; --k) {
    int64_t before, inside;
    clip(from, k, &before, &inside);
    inner->start[k] = from->start[k] + before * from->step[k];
    inner->size[k] = data->dim[k] = inside;
    data->start[k] = -before;
    data->size[k] = from->size[k];
    data->step[k] = 1;
    data->stride[k] = elements;
    elements *= inside;
  }
  return elements;
}

/* ---- headers as words */

static void put_words(packet *m, int count, const int64_t *words) {
  memcpy(m->data + m->bytes, words, (size_t)count * sizeof *words);
  m->bytes += count * (int)sizeof *words;
}

static void get_words(const packet *m, int *at, int count, int64_t *words) {
  memcpy(words, m->data + *at, (size_t)count * sizeof *words);
  *at += count * (int)sizeof *words;
}

static void write_shape(packet *m, const shape *s) {
  const int rank = (int)s->rank;
  put_words(m, 1, &s->rank);
  put_words(m, rank, s->dim);
  put_words(m, rank, s->stride);
  put_words(m, rank, s->start);
  put_words(m, rank, s->size);
  put_words(m, rank, s->step);
}

static void read_shape(const packet *m, int *at, shape *s) {
  get_words(m, at, 1, &s->rank);
  const int rank = (int)s->rank;
  get_words(m, at, rank, s->dim);
  get_words(m, at, rank, s->stride);
  get_words(m, at, rank, s->start);
  get_words(m, at, rank, s->size);
  get_words(m, at, rank, s->step);
}

/* Most messages are signals, so a header contains only the fields that its kind requires. */
static void write_head(packet *m, const head *h) {
  m->bytes = 0;
  put_words(m, 3, (const int64_t[]){h->kind, h->amount, h->semaphore});
  if (h->kind != COPY) return;
  put_words(m, 5, (const int64_t[]){h->dtype, h->operand, h->offset, h->part, h->bytes});
  write_shape(m, &h->from);
  write_shape(m, &h->to);
}

/* The start of the data. */
static int read_head(const packet *m, head *h) {
  int at = 0;
  int64_t what[3], copy[5];
  get_words(m, &at, 3, what);
  h->kind = what[0], h->amount = what[1], h->semaphore = what[2];
  if (h->kind != COPY) return at;
  get_words(m, &at, 5, copy);
  h->dtype = copy[0], h->operand = copy[1], h->offset = copy[2], h->part = copy[3];
  h->bytes = copy[4];
  read_shape(m, &at, &h->from);
  read_shape(m, &at, &h->to);
  return at;
}

/* ---- outgoing messages */

static parcel *new_parcel(group *g) {
  parcel *p = g->spare;
  if (p)
    g->spare = p->next;
  else
    p = malloc(sizeof *p);
  if (!p) return NULL;
  p->owned = NULL;
  p->sent = NULL;
  p->requests = 0;
  p->request = p->first;
  return p;
}

static void drop(group *g, parcel *p) {
  free(p->owned);
  if (p->request != p->first) free(p->request);
  p->next = g->spare;
  g->spare = p;
}

/* The bytes of each piece of that much data. Short pieces are sent eagerly, without a handshake. */
static int64_t piece_of(int64_t bytes) { return bytes <= MEDIUM ? SHORT : PIECE; }

/* Makes room for the requests of a header and of that much data. */
static bool reserve_requests(parcel *p, int64_t bytes) {
  const int64_t pieces = bytes / piece_of(bytes) + 2;
  if (pieces > (int64_t)(sizeof p->first / sizeof *p->first))
    p->request = malloc((size_t)pieces * sizeof *p->request);
  return p->request != NULL;
}

static void send_piece(const group *g, parcel *p, int to, const void *data, int64_t bytes,
                       tag what) {
  (void)MPI_Isend(data, (int)bytes, MPI_BYTE, to, (int)what, g->communicator,
                  &p->request[p->requests++]);
}

static void receive_data(const group *g, parcel *p, int from, char *data) {
  const int64_t piece = piece_of(p->head.bytes);
  for (int64_t at = 0; at < p->head.bytes; at += piece) {
    const int64_t left = p->head.bytes - at;
    (void)MPI_Irecv(data + at, (int)(left < piece ? left : piece), MPI_BYTE, from, DATA,
                    g->communicator, &p->request[p->requests++]);
  }
}

/* Makes this thread's non-temporal stores visible before another process reads. */
static void order_streams(void) {
#ifdef __SSE__
  __builtin_ia32_sfence();
#endif
}

static bool is_done(parcel *p) {
  int done = 0;
  (void)MPI_Testall(p->requests, p->request, &done, MPI_STATUSES_IGNORE);
  return done;
}

static void left(group *g, parcel *p) {
  if (p->sent) add(p->sent, p->amount);
  drop(g, p);
}

/* `data` stays valid until the parcel is sent; NULL if it is in the message. */
static void send(group *g, parcel *p, int to, const char *data, int64_t bytes) {
  const int64_t piece = piece_of(bytes);
  order_streams();
  send_piece(g, p, to, p->packet.data, p->packet.bytes, HEADS);
  for (int64_t at = 0; data && at < bytes; at += piece)
    send_piece(g, p, to, data + at, bytes - at < piece ? bytes - at : piece, DATA);
  if (is_done(p)) {
    left(g, p);
    return;
  }
  p->next = g->leaving;
  g->leaving = p;
}

static void note_left(group *g) {
  for (parcel **at = &g->leaving; *at;) {
    parcel *p = *at;
    if (!is_done(p)) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    left(g, p);
  }
}

/* ---- incoming messages */

static void note_failure(group *g, int device, const char *message) {
  g->stopped = true;
  if (g->failed >= 0 && g->failed <= device) return;
  g->failed = device;
  (void)snprintf(g->message, sizeof g->message, "%.*s", PK_LINK_MESSAGE - 1, message);
}

static void target_of(const group *g, const head *h, pk_arrival *out) {
  const pk_window to = window_of(&h->to, NULL);
  pk_find_arrival(g->on, &to, (int)h->part, (int)h->operand, g->worker->arena + h->offset, out);
}

/* The data has arrived. */
static void deliver(const group *g, const head *h, char *data) {
  const pk_window from = window_of(&h->from, data);
  pk_arrival to;
  target_of(g, h, &to);
  pk_copy_packed(g->worker, (pk_dtype)h->dtype, &from, 0, &to.window, to.packed, NULL, NULL);
}

static void arrived(group *g, const head *h) {
  --g->balance;
  g->black = true;
  add((int64_t *)(void *)(g->worker->arena + h->semaphore), h->amount);
}

static void end_without_memory(const group *g) {
  (void)fputs("pk: no memory to receive from another device\n", stderr);
  (void)MPI_Abort(g->communicator, 1);
}

/* Receives directly into the target if it is contiguous. */
static void begin_receiving(group *g, const head *h, int from) {
  parcel *p = new_parcel(g);
  if (!p) {
    end_without_memory(g);
    return;
  }
  p->head = *h;
  pk_arrival to;
  target_of(g, h, &to);
  const int64_t element = pk_dtype_bytes((pk_dtype)h->dtype);
  const bool whole = h->bytes == pk_window_bytes(&to.window, (pk_dtype)h->dtype);
  char *data = whole && !to.packed ? dense_memory(&to.window, element) : NULL;
  if (!data) data = p->owned = malloc((size_t)h->bytes);
  if (!data || !reserve_requests(p, h->bytes)) end_without_memory(g);
  receive_data(g, p, from, data);
  p->next = g->coming;
  g->coming = p;
}

/* A message of an earlier call, which all devices have left meanwhile, is ignored. */
static void receive_token(group *g, const packet *m, int at) {
  int64_t words[4];
  get_words(m, &at, 4, words);
  if (words[0] != g->calls) return;
  g->token = (token){words[0], words[1], words[2], words[3]};
  g->has_token = true;
}

static void handle_message(group *g, const packet *m, int from) {
  head h;
  const int at = read_head(m, &h);
  if (h.kind == FAILED) note_failure(g, from, m->data + at);
  if (h.kind == ENDED) ++g->ended;
  if (h.kind == TOKEN) receive_token(g, m, at);
  if (h.kind == STUCK) g->stuck = true;
  if (h.kind == COPY && m->bytes == at && h.bytes > 0) {
    begin_receiving(g, &h, from);
    return;
  }
  if (h.kind == COPY) deliver(g, &h, g->inbox.data + at);
  if (h.kind == COPY || h.kind == ADD) arrived(g, &h);
}

static bool handle_next(group *g) {
  int found = 0;
  MPI_Status status;
  (void)MPI_Test(&g->heads, &found, &status);
  if (!found) return false;
  (void)MPI_Get_count(&status, MPI_BYTE, &g->inbox.bytes);
  handle_message(g, &g->inbox, status.MPI_SOURCE);
  (void)MPI_Start(&g->heads);
  return true;
}

static bool note_come(group *g) {
  bool any = false;
  for (parcel **at = &g->coming; *at;) {
    parcel *p = *at;
    if (!is_done(p)) {
      at = &p->next;
      continue;
    }
    if (p->owned) deliver(g, &p->head, p->owned);
    arrived(g, &p->head);
    *at = p->next;
    drop(g, p);
    any = true;
  }
  return any;
}

/* Handles at most one message. The signal that ends a wait may be followed by a header with long
 * data, and receiving that first would delay the data that this device is about to send. Returns
 * whether there was a message. */
static bool progress(group *g) {
  bool any = handle_next(g);
  any |= note_come(g);
  note_left(g);
  return any;
}

/* ---- waiting */

/* The time since the last message. */
typedef struct {
  int idle;
  double since;
} patience;

/* Other processes may need the processor: yields it first, then sleeps for some microseconds. */
static void rest(int idle) {
  static const struct timespec moment = {0, 20000};
  if (idle > 4096)
    (void)nanosleep(&moment, NULL);
  else if (idle % 64 == 0)
    (void)sched_yield();
}

static bool is_over(patience *p, bool any, double limit) {
  if (any || p->idle == 0) p->since = seconds();
  if (any) p->idle = 0;
  rest(++p->idle);
  return p->idle % 256 == 0 && seconds() - p->since > limit;
}

static void tell_all(group *g, kind what, const char *text) {
  for (int i = 0; i < g->link.count; ++i) {
    parcel *p = i == g->link.number ? NULL : new_parcel(g);
    if (!p) continue;
    write_head(&p->packet, &(head){.kind = what});
    if (text)
      p->packet.bytes += snprintf(p->packet.data + p->packet.bytes, PK_LINK_MESSAGE, "%.*s",
                                  PK_LINK_MESSAGE - 1, text) +
                         1;
    send(g, p, i, NULL, 0);
  }
}

/* Other devices may wait for a message that will never arrive. */
static void tell_failure(group *g) {
  if (g->told) return;
  g->told = true;
  note_failure(g, g->link.number, g->worker->failure);
  tell_all(g, FAILED, g->worker->failure);
}

/* ---- deadlocks
 *
 * A call is stuck if at least one device waits, all others wait or have ended, and no signal or
 * copy is in transit. This is termination in the sense of Safra's algorithm (E. W. Dijkstra,
 * "Shmuel Safra's version of termination detection", EWD 998, 1987): device 0 sends a token round
 * the ring. Each device keeps it until it waits or has ended, then adds its balance of messages. If
 * the sum is 0 and no device has received anything since it last passed the token, nothing more can
 * happen. The first waiting device is notified, and fails. */

static void send_token(group *g, int to, kind what, const token *t) {
  parcel *p = new_parcel(g);
  if (!p) return; /* the time limit still ends the wait */
  write_head(&p->packet, &(head){.kind = what});
  put_words(&p->packet, 4, (const int64_t[]){t->call, t->sum, t->black, t->first});
  send(g, p, to, NULL, 0);
}

/* The token is back at device 0. */
static void judge_token(group *g, bool waits) {
  const token *t = &g->token;
  const int64_t first = waits ? 0 : t->first;
  g->probing = false;
  if (t->sum + g->balance != 0 || t->black || g->black || first == g->link.count) return;
  if (first == 0)
    g->stuck = true;
  else
    send_token(g, (int)first, STUCK, t);
}

static void pass_token(group *g, bool waits) {
  const int number = g->link.number;
  g->has_token = false;
  if (number == 0) {
    judge_token(g, waits);
    return;
  }
  token t = g->token;
  t.sum += g->balance;
  t.black |= g->black;
  if (waits && number < t.first) t.first = number;
  g->black = false;
  send_token(g, (number + 1) % g->link.count, TOKEN, &t);
}

/* Called by a device that waits or has ended, while no message arrives. */
static void seek_deadlock(group *g, const patience *p, bool waits) {
  enum { PAUSE = 256 }; /* tests of the inbox before a new token */
  if (g->leaving || g->coming || g->stopped) return;
  if (g->has_token) pass_token(g, waits);
  if (g->link.number != 0 || g->probing || g->stuck || p->idle % PAUSE) return;
  g->black = false;
  g->probing = true;
  g->token = (token){.call = g->calls, .first = g->link.count};
  if (g->link.count == 1)
    judge_token(g, waits);
  else
    send_token(g, 1, TOKEN, &g->token);
}

/* ---- the transport */

static void own_signal(pk_worker *worker, int64_t *semaphore, int64_t amount) {
  (void)worker;
  add(semaphore, amount);
}

static int64_t read_semaphore(pk_worker *worker, const int64_t *semaphore) {
  (void)progress(group_of(worker));
  return *semaphore;
}

static void wait_for(pk_worker *worker, int64_t *semaphore, int64_t amount, const char *message) {
  group *g = group_of(worker);
  patience p = {0};
  if (worker->failure) tell_failure(g);
  while (*semaphore < amount && !g->stopped) {
    const bool over = is_over(&p, progress(g), g->timeout);
    if (*semaphore >= amount) break;
    seek_deadlock(g, &p, true);
    if (!over && !g->stuck) continue;
    if (g->stuck)
      (void)snprintf(g->waited, sizeof g->waited, "%s", message);
    else
      (void)snprintf(g->waited, sizeof g->waited,
                     "%s: no message has arrived for %g s (PK_DEVICE_TIMEOUT)", message,
                     g->timeout);
    pk_fail(worker, g->waited);
    tell_failure(g);
  }
  *semaphore = *semaphore < amount ? 0 : *semaphore - (amount > 0 ? amount : 0);
}

static parcel *parcel_or_fail(group *g, pk_worker *worker) {
  parcel *p = new_parcel(g);
  if (!p) pk_fail(worker, "no memory to send to another device");
  return p;
}

static void signal_other(pk_worker *worker, int64_t *semaphore, int64_t amount, int number) {
  group *g = group_of(worker);
  parcel *p = number == g->link.number ? NULL : parcel_or_fail(g, worker);
  if (number == g->link.number) add(semaphore, amount);
  if (!p) return;
  const head h = {.kind = ADD, .amount = amount, .semaphore = (char *)semaphore - worker->arena};
  write_head(&p->packet, &h);
  ++g->balance;
  send(g, p, number, NULL, 0);
  (void)progress(g);
}

static void copy_to_self(group *g, const pk_sending *s) {
  pk_arrival to;
  pk_find_arrival(g->on, s->to, s->part, s->operand, s->to->data, &to);
  pk_copy_packed(g->worker, s->dtype, s->from, s->packed, &to.window, to.packed, NULL, NULL);
  add(s->sent, s->amount);
  add(s->arrived, s->amount);
}

/* Makes the elements of `inside` dense; false: no memory. `*data` points to them, or is NULL if
 * they follow the header in the message. */
static bool take_data(group *g, parcel *p, const head *h, const pk_window *inside, int packed,
                      const char **data) {
  const bool with_head = h->bytes <= SHORT - p->packet.bytes;
  *data = NULL;
  if (h->bytes == 0) return true;
  if (!with_head && !packed) *data = dense_memory(inside, pk_dtype_bytes((pk_dtype)h->dtype));
  if (*data) return true;
  char *to = p->packet.data + p->packet.bytes;
  if (!with_head) *data = to = p->owned = malloc((size_t)h->bytes);
  if (!to) return false;
  if (with_head) p->packet.bytes += (int)h->bytes;
  pk_window dense = window_of(&h->from, to);
  memset(dense.start, 0, sizeof dense.start);
  memcpy(dense.size, inside->size, sizeof dense.size);
  pk_copy_packed(g->worker, (pk_dtype)h->dtype, inside, packed, &dense, 0, NULL, NULL);
  return true;
}

/* Sends a window to another device: a header with its shape and, in the same message or the next
 * ones, its elements. */
static void copy_to(pk_worker *worker, const pk_sending *s, int number) {
  group *g = group_of(worker);
  if (number == g->link.number) {
    copy_to_self(g, s);
    return;
  }
  parcel *p = parcel_or_fail(g, worker);
  if (!p) return;
  shape inner;
  const char *data;
  head h = {.kind = COPY, .amount = s->amount, .semaphore = (char *)s->arrived - worker->arena};
  h.dtype = (int64_t)s->dtype;
  h.operand = s->operand;
  h.offset = s->operand < 0 ? s->to->data - worker->arena : 0;
  h.part = s->part;
  h.bytes = take_inside(s->from, &inner, &h.from) * pk_dtype_bytes(s->dtype);
  put_shape(&h.to, s->to);
  write_head(&p->packet, &h);
  const pk_window inside = window_of(&inner, s->from->data);
  if (!take_data(g, p, &h, &inside, s->packed, &data) || !reserve_requests(p, h.bytes)) {
    pk_fail(worker, "no memory to send to another device");
    drop(g, p);
    return;
  }
  p->amount = s->amount;
  if (data && !p->owned)
    p->sent = s->sent;
  else
    add(s->sent, s->amount);
  ++g->balance;
  send(g, p, number, data, h.bytes);
  (void)progress(g);
}

static const pk_transport by_mpi = {copy_to, signal_other, own_signal, wait_for, read_semaphore};

/* ---- a call */

static bool await(const group *g, MPI_Request *request) {
  patience p = {0};
  int done = 0;
  (void)MPI_Test(request, &done, MPI_STATUS_IGNORE);
  while (!done && !is_over(&p, false, g->timeout))
    (void)MPI_Test(request, &done, MPI_STATUS_IGNORE);
  return done;
}

static pk_status lost(group *g, char *message) {
  g->broken = true;
  (void)snprintf(message, PK_LINK_MESSAGE,
                 "other devices have not made this call for %g s (PK_DEVICE_TIMEOUT)", g->timeout);
  return PK_FAILED;
}

/* The status and message of the first device that refuses. */
static pk_status first_refusal(group *g, pk_status own, char *message, int *device) {
  MPI_Request request;
  int64_t mine = own == PK_OK ? INT64_MAX : g->link.number * INT64_C(256) + (int64_t)own, first = 0;
  (void)MPI_Iallreduce(&mine, &first, 1, MPI_INT64_T, MPI_MIN, g->communicator, &request);
  if (!await(g, &request)) return lost(g, message);
  *device = (int)(first / 256);
  (void)MPI_Ibcast(message, PK_LINK_MESSAGE, MPI_BYTE, *device, g->communicator, &request);
  if (!await(g, &request)) return lost(g, message);
  message[PK_LINK_MESSAGE - 1] = 0;
  return (pk_status)(first % 256);
}

static pk_status agree(pk_link *link, const pk_kernel *kernel, const int64_t *size, pk_status own,
                       char message[PK_LINK_MESSAGE], int *device) {
  group *g = (group *)(void *)link;
  const int64_t hash = own == PK_OK ? pk_call_hash(kernel, size) : 0;
  int64_t mine[3] = {own, hash, -hash}, most[3];
  MPI_Request request;
  *device = -1;
  if (g->broken) {
    (void)snprintf(message, PK_LINK_MESSAGE, "the devices lost each other in an earlier call");
    return PK_FAILED;
  }
  (void)MPI_Iallreduce(mine, most, 3, MPI_INT64_T, MPI_MAX, g->communicator, &request);
  if (!await(g, &request)) return lost(g, message);
  if (most[0] != PK_OK) return first_refusal(g, own, message, device);
  if (most[1] == -most[2]) return PK_OK;
  return pk_refuse_differing(message);
}

/* Completes pending messages: the memory belongs to the caller again. */
static void give_up(group *g) {
  g->broken = true;
  for (parcel *p = g->coming; p; p = p->next)
    for (int i = 0; i < p->requests; ++i) {
      if (p->request[i] == MPI_REQUEST_NULL) continue;
      (void)MPI_Cancel(&p->request[i]);
      (void)MPI_Request_free(&p->request[i]);
    }
  g->leaving = g->coming = NULL; /* the memory that they refer to may still be read */
}

/* Waits until every device has ended and all messages have arrived. A device whose wait failed
 * reports that first.
 */
static void leave(group *g) {
  patience p = {0};
  if (g->worker->failure) tell_failure(g);
  tell_all(g, ENDED, NULL);
  while (g->ended + 1 < g->link.count || g->leaving || g->coming) {
    if (!is_over(&p, progress(g), 2 * g->timeout + 1)) {
      if (g->ended + 1 < g->link.count) seek_deadlock(g, &p, false);
      continue;
    }
    note_failure(g, g->link.number, "other devices do not end, and send no messages");
    give_up(g);
    return;
  }
}

static const char *run(pk_link *link, const pk_call *call, pk_worker *worker, int *device) {
  group *g = (group *)(void *)link;
  g->on = call;
  g->worker = worker;
  g->devices.mesh = call->kernel->mesh;
  g->ended = 0;
  g->failed = -1;
  ++g->calls;
  g->balance = 0;
  g->has_token = g->probing = g->black = g->stuck = false;
  g->stopped = g->told = false;
  pk_device_index(g->devices.mesh, link->number, g->device.index);
  g->device.all = &g->devices;
  worker->device = &g->device;
  for (int64_t cell = 0; cell < call->plan->cells && !worker->failure; ++cell)
    call->kernel->cell(call, worker, cell);
  leave(g);
  *device = g->failed;
  return g->failed >= 0 ? g->message : NULL;
}

/* ---- the communicator */

static void close_group(pk_link *link) {
  group *g = (group *)(void *)link;
  int over = 1;
  while (g->spare) {
    parcel *p = g->spare;
    g->spare = p->next;
    free(p);
  }
  (void)MPI_Finalized(&over);
  if (!over) {
    (void)MPI_Cancel(&g->heads);
    (void)MPI_Request_free(&g->heads);
  }
  if (!over && !g->broken) (void)MPI_Comm_free(&g->communicator);
  free(g);
}

static double usual_timeout(void) {
  const char *text = getenv("PK_DEVICE_TIMEOUT");
  char *end = NULL;
  const double value = text ? strtod(text, &end) : 0;
  return text && *text && !*end && value > 0 ? value : 120;
}

pk_status pk_context_set_communicator(pk_context *context, MPI_Comm communicator, double timeout) {
  int begun = 0, over = 0;
  (void)MPI_Initialized(&begun);
  (void)MPI_Finalized(&over);
  if (!context || !begun || over) return PK_BAD_ARGUMENT;
  if (communicator == MPI_COMM_NULL) {
    pk_context_set_link(context, NULL);
    return PK_OK;
  }
  group *g = calloc(1, sizeof *g);
  if (!g) return PK_NO_MEMORY;
  if (MPI_Comm_dup(communicator, &g->communicator) != MPI_SUCCESS) {
    free(g);
    return PK_BAD_ARGUMENT;
  }
  (void)MPI_Comm_rank(g->communicator, &g->link.number);
  (void)MPI_Comm_size(g->communicator, &g->link.count);
  g->link.agree = agree;
  g->link.run = run;
  g->link.close = close_group;
  g->devices.by = &by_mpi;
  g->timeout = timeout > 0 ? timeout : usual_timeout();
  (void)MPI_Recv_init(g->inbox.data, SHORT, MPI_BYTE, MPI_ANY_SOURCE, HEADS, g->communicator,
                      &g->heads);
  (void)MPI_Start(&g->heads);
  pk_context_set_link(context, &g->link);
  return PK_OK;
}

/* ---- the processes that mpirun started */

pk_status pk_world_open(pk_context *context, int *number, int *count) {
  int given;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
    return PK_BAD_ARGUMENT;
  (void)MPI_Comm_rank(MPI_COMM_WORLD, number);
  (void)MPI_Comm_size(MPI_COMM_WORLD, count);
  return pk_context_set_communicator(context, MPI_COMM_WORLD, 0);
}

void pk_world_send(const void *data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += PIECE)
    (void)MPI_Send((const char *)data + at, (int)(bytes - at < PIECE ? bytes - at : PIECE),
                   MPI_BYTE, 0, 0, MPI_COMM_WORLD);
}

void pk_world_receive(int from, void *data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += PIECE)
    (void)MPI_Recv((char *)data + at, (int)(bytes - at < PIECE ? bytes - at : PIECE), MPI_BYTE,
                   from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void pk_world_close(void) { (void)MPI_Finalize(); }
