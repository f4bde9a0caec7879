// The devices of a mesh in the interpreter, and the order of their steps.
//
// Each device is an Interp. One device runs at a time, and is paused before each step that other
// devices can notice, so the interpreter chooses the order of these steps.
//
// A clock has a time for each device: its owner knows that the device has completed everything that
// it did up to that time. A signal and the start of a copy carry the clock of their device, in a
// token. A wait learns only what every set of tokens that could have ended it would tell.
//
// A token that was sent after a wait may be sent before it in another order. The devices therefore
// run again in the same order. Each wait then also counts the later tokens of the previous run,
// except those whose sender knew that the wait had ended. The knowledge of waits shrinks from pass
// to pass. Once it stays the same, it holds in every order:
//   Suppose that in some order a wait ends without the knowledge claimed for it, and take the first
//   such wait. The tokens that end it were sent before it, so the claims hold for their senders. No
//   sender knew that the wait had ended, so the wait counted all of these tokens. It claims only
//   what every sufficient set of the counted tokens implies: a contradiction.
//
// Each element of a semaphore has one device that waits on it, and signals add. Waits therefore do
// not compete for tokens, and the devices perform the same steps in every order unless there is a
// race or a kernel reads the value of a semaphore.
#ifndef CODEGEN_CHECK_MESH_H
#define CODEGEN_CHECK_MESH_H

#include "codegen/check/internal.h"

// The times of devices. Clocks share this memory until one of them advances.
typedef struct Times Times;
struct Times {
  int users;
  Times *next;  // in the list of free ones
  int64_t time[];
};

typedef struct {
  Times *others;  // by device; 0 for the owner
  int device;     // the owner
  int64_t now;    // the time of the owner
} Clock;

enum { AT_SOURCE, AT_TARGET, FLIGHT_ENDS };

// A copy as all devices see it: between devices, or within one.
struct Flight {
  int source, target;  // devices
  // The times from which the source and the target know that the elements were read, or written;
  // 0: they do not know.
  int64_t read[FLIGHT_ENDS], written[FLIGHT_ENDS];
  int64_t number;      // in the order of starts
  const Ref *receive;  // NULL: the copy is of one device
  int64_t receive_element;
  const Instr *instr;
  const KeptBox *from, *to;
  const Ref *semaphore;  // of the source
  int64_t element, bytes, step;
  bool moved;
};

typedef LIST(Flight *) FlightList;

// An amount that was added to a semaphore, or will be when a copy arrives.
typedef struct {
  int64_t amount;
  Clock clock;
  Flight *flight;  // NULL: a signal
  bool arrival;    // for a flight: its elements were written, not only read
  int early;       // 1 + its index in the history if it is counted but not yet sent, otherwise 0
} Token;

// A token that may be sent before a wait that it followed, as the previous pass recorded it.
typedef struct {
  int number;  // in the sequence of tokens of this element of the semaphore
  int64_t amount;
  int64_t seen;  // the receiver's time in the token's clock
  Clock clock;
  bool counted;  // by a wait of this pass
} Past;
typedef LIST(Past) History;

// The tokens of one element of a semaphore of a device.
typedef struct {
  LIST(Token) tokens;     // those that may tell the device something, since all were taken
  int64_t plain;          // the sum of the tokens that tell it nothing
  int64_t total, demand;  // the sum of all tokens, and the amount that waits have taken
  FlightList coming;      // copies that will add to it, or have
  int64_t waited;         // the device's time at its last wait
  int sent;               // number of tokens of this pass
  History *history;       // NULL if there is none
  int place;              // index of the first token of the history that is not yet sent
  int uncounted;          // number of tokens from there on that are not counted
  int64_t early;          // the sum of those that are counted
  // By device: the sum of the tokens that tell more about it than `as_of`, among the first
  // `compared` tokens. NULL: there were always few tokens, which each wait compares again.
  int64_t *more;
  Times *as_of;
  int compared;
  int64_t most;  // the largest of these sums; 0: the compared tokens tell nothing more
  int kept;      // number of tokens after settle()
  int pairs;     // number of tokens of copies whose two ends both add to this element
  // At the last wait: the number of tokens, and Mesh.learned. The largest token since all were
  // taken.
  int settled;
  int64_t learned, largest;
} Inbox;

// State that the passes over one order share.
typedef struct {
  Arena *arena;
  Times *free;
  History **histories;  // by device and ref id; each is NULL or an array by element
  bool on;              // tokens are recorded
  bool changed;         // this pass recorded other tokens than the previous one
} Passes;

// An access of memory that other devices can access.
typedef struct {
  const Instr *instr;  // NULL: the pipeline
  const KeptBox *box;
  const Value *mask;  // NULL: the whole box
  bool writes;
  int64_t time, step;
} Touch;

// The flights that read or write one memory of a device, by their position along one of its axes.
typedef struct {
  const void *memory;
  int axis;
  int64_t grain;    // length of a bin along the axis
  FlightList wide;  // views, and flights that span many bins
  FlightList *bins;
  int count;
} Shelf;

typedef enum { DEVICE_READY, DEVICE_WAITS, DEVICE_ENDED } DeviceState;

// An instruction of device `from` adds an amount to an element of a semaphore of device `to`; less
// than 0: after a deadlock, a wait of `to` takes it.
typedef struct {
  int from, to;
  const Instr *instr;
  const Ref *semaphore;
  int64_t element, amount;
} Supply;

typedef struct {
  Interp in;
  DeviceState state;
  bool stuck;    // in a deadlock
  int64_t held;  // the value of the semaphore
  // After the deadlock: what that semaphore would hold at the end, and the first that would be
  // added to it, or NULL.
  int64_t left;
  const Supply *supply;
  Finding finding;  // of its wait
  Clock clock;
  bool sent;  // the device has sent something since its time advanced
  LIST(Touch) touches;
  FlightList flights;   // from or to the device, until all devices know that they are complete
  int most_flights;     // their number at which complete ones are removed
  LIST(Shelf) shelves;  // the same flights by their memory on this device
  HostArray *operands;  // its parts of the arrays
  double **allowed;     // by output, or NULL
  uint8_t **specified;
  uint8_t **input_specified;  // by input, each or NULL
  double **input_error;
} Device;

// The order of the devices: a device runs until it waits; all alternate, one step each; the first
// runnable device in a given order runs; random; as `choices` says, for all orders.
typedef enum { ORDER_LONG, ORDER_SHORT, ORDER_BY_RANK, ORDER_RANDOM, ORDER_CHOSEN } DeviceOrder;

// Which of the runnable devices ran, and how many were runnable.
typedef struct {
  int taken, count;
} Choice;
typedef LIST(Choice) ChoiceList;

struct Mesh {
  Arena *arena;  // of this run
  const Kernel *k;
  Device *devices;
  int count;
  bool *reached;  // by ref id: other devices access it, or it is a semaphore that they signal
  Passes *passes;
  Inbox **inboxes;  // by device and ref id; each is NULL or an array by element
  int64_t *more;    // scratch memory, by device
  int64_t flights;  // number of flights started
  int64_t learned;  // number of calls of learn_end that told a device something
  FlightList near;  // scratch memory
  DeviceOrder order;
  int first, step;  // ORDER_BY_RANK: first, first + step, ..
  ChoiceList *choices;
  int next_choice;
  uint64_t random;
  int running;               // the device that runs; count: none, all have ended
  bool deadlocked, stopped;  // the others stop too
  double work;               // elements computed so far
  LIST(Supply) supplies;     // of all devices, in the order of each
  // After a deadlock the devices continue as if their waits had ended, to record what each would
  // have sent. Nothing else is reported then.
  bool beyond;
  bool cut_short;    // `beyond`: a device stopped before its end
  int before;        // the number of supplies before the deadlock
  double most_work;  // the limit for the running device after the deadlock
  Interp *stuck;     // the device that found the deadlock
};

static inline Device *device_in(Interp *in) { return &in->mesh->devices[in->device]; }
static inline bool is_beyond(const Interp *in) { return in->mesh && in->mesh->beyond; }
static inline bool is_remote(const Flight *f) { return f->receive != NULL; }

// scheduler.c: runs all devices to their ends. run: until the device ends, or in->paused
void run_devices(Mesh *m, void (*run)(Interp *in));

// ---- clock.c
void start_clocks(Mesh *m);
static inline int64_t clock_time(const Clock *clock, int device) {
  return device == clock->device ? clock->now : clock->others->time[device];
}
// The time of the device's current instruction, which is later than that of everything it has sent.
int64_t time_now(Device *d);
Clock share_clock(const Clock *clock);  // each copy must be released by drop_clock
void drop_clock(Mesh *m, Clock *clock);
// The clock's times, no longer shared, to be changed.
int64_t *own_times(Mesh *m, Clock *clock);
bool holds_clock(const Mesh *m, const Clock *clock, const Clock *part);  // is all of `part` known?

// Does the owner of a clock know that the elements of a flight were read or written, given the
// times from which source and target know it?
static inline bool is_known(const Flight *f, const int64_t *known, const Clock *clock) {
  if (known[AT_SOURCE] && clock_time(clock, f->source) >= known[AT_SOURCE]) return true;
  return known[AT_TARGET] && clock_time(clock, f->target) >= known[AT_TARGET];
}
// From now on this device knows that the elements of a flight were read, or also written.
void learn_end(Interp *in, Flight *f, bool written);

// ---- inbox.c
void add_token(Interp *in, const Ref *semaphore, int64_t element, Token token);
Inbox *inbox_of(Mesh *m, int device, const Ref *semaphore, int64_t element);
// An instruction of device `in` adds to a semaphore of device `to`.
void add_from(Interp *in, Interp *to, const Instr *instr, const Ref *semaphore, int64_t element,
              Token token);
void start_pass(Mesh *m);

// ---- flight.c
Flight *add_flight(Interp *in, const Transfer *copy, int target);  // from this device
void keep_flight(Mesh *m, int device, Flight *f);
// The flights that may share elements with a box of a device, without those that the owner of the
// clock knows to be complete, in the order of starts. The list is valid until the next call.
const FlightList *near_flights(Mesh *m, int device, const Box *box, const Clock *clock);
// No access of a device before this one, by index, is later than a time.
int touches_after(const Device *d, int64_t time);
// The latest copy between devices on a semaphore of a device whose elements have not moved; with
// DMA_AT_RANDOM a random one. semaphore NULL: a random copy on any semaphore.
Flight *pick_flight(Interp *in, int device, const Ref *semaphore, int64_t element);
void move_flight(Mesh *m, Flight *f);  // unless its elements have moved
void add_held(Interp *in, const Ref *semaphore, int64_t element, int64_t amount);
void note_flight(Interp *in, const Flight *f);

// ---- deadlock.c
void run_on(Interp *in);  // continues this device after a deadlock
void tell_cycle(
    Mesh *m);  // after all devices have ended: adds notes on which device waits for which

#endif
