// The devices of a mesh in the interpreter, and what is ordered among them.
//
// Each device is an Interp on its own thread. One device has the turn, and passes it on before each
// step that other devices can notice, so the interpreter chooses the order of these steps.
//
// A clock has a time for each device: everything that device did up to that time is known to be
// complete. A signal and the start of a copy carry the clock of their device; a wait learns from
// the events it waits for only what every way of satisfying it would tell.
#ifndef CODEGEN_CHECK_MESH_H
#define CODEGEN_CHECK_MESH_H

#include "codegen/check/internal.h"

#include <pthread.h>

// A copy as all devices see it: between devices, or within one.
struct Flight {
  Transfer copy;       // the boxes, and the semaphore of the source; `step` is the source's
  int source, target;  // devices
  const Ref *receive;  // NULL: the copy is of one device
  int64_t receive_element;
  const int64_t *clock;  // at its start
  // By device: the time from which it knows that the elements were read, or written; 0: it does not
  // know.
  int64_t *read_known, *written_known;
};

// An amount that was added to a semaphore, or will be when a copy arrives.
struct Token {
  int64_t amount;
  const int64_t *clock;
  Flight *flight;  // NULL: a signal
  bool arrival;    // for a flight: its elements were written, not only read
};

// An access of memory that other devices can access.
typedef struct {
  const Instr *instr;  // NULL: the pipeline
  Box box;
  const Value *mask;  // NULL: the whole box
  bool writes;
  int64_t time, step;
} Touch;

typedef enum { DEVICE_READY, DEVICE_WAITS, DEVICE_ENDED } DeviceState;

// An instruction of device `from` adds to an element of a semaphore of device `to`.
typedef struct {
  int from, to;
  const Instr *instr;
  const Ref *semaphore;
  int64_t element;
} Supply;

typedef struct {
  Interp in;
  DeviceState state;
  const Instr *wait;  // the wait it is in, for this amount of that element
  const Ref *semaphore;
  int64_t element, amount;
  bool stuck;    // in a deadlock
  int64_t held;  // the value of the semaphore
  int64_t *clock;
  LIST(Touch) touches;
  LIST(Flight *) flights;  // from or to the device, until all devices know that they are complete
  pthread_t thread;
  pthread_cond_t turn;
  HostArray *operands;  // its parts of the arrays
  double **allowed;     // by output, or NULL
  uint8_t **specified;
  uint8_t **input_specified;  // by input, each or NULL
  double **input_error;
} Device;

// How the devices take turns: a device runs until it waits; each makes a step in turn; the first in
// a given order that can run; at random; as `choices` says, for all orders.
typedef enum { TURNS_LONG, TURNS_SHORT, TURNS_BY_RANK, TURNS_RANDOM, TURNS_CHOSEN } Turns;

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
  bool *reached;  // by ref id: other devices touch it, or it is a semaphore that they signal
  Turns turns;
  int first, step;  // TURNS_BY_RANK: first, first + step, ..
  ChoiceList *choices;
  int next_choice;
  uint64_t random;
  void (*run)(Interp *in);
  pthread_mutex_t lock;
  pthread_cond_t done;
  int turn;                  // the device that has it; count: none, all have ended
  bool deadlocked, stopped;  // the others stop too
  double work;               // elements computed so far
  LIST(Supply) supplies;     // of all devices, in the order of each
  // After a deadlock the devices run on, as if waits were over, to show what each would have done.
  // Nothing else is found then.
  bool beyond;
  int before;        // how many supplies came before the deadlock
  double most_work;  // beyond it, of the device that has the turn
  Interp *stuck;     // that found the deadlock
};

static inline Device *device_in(Interp *in) { return &in->mesh->devices[in->device]; }
static inline bool is_beyond(const Interp *in) { return in->mesh && in->mesh->beyond; }
static inline bool is_remote(const Flight *f) { return f->receive != NULL; }

// turns.c: runs all devices by `run`, to their ends
void run_devices(Mesh *m, void (*run)(Interp *in));

// ---- flight.c
void start_clocks(Mesh *m);
int64_t *copy_clock(Mesh *m, const int64_t *clock);
// Does one who has this clock know what devices know from these times on?
bool is_known(const Mesh *m, const int64_t *known, const int64_t *clock);
Flight *add_flight(Interp *in, const Transfer *copy, int target);  // from this device
// The latest copy between devices on a semaphore of a device, or any, whose elements have not
// moved. semaphore NULL: of all.
Flight *pick_flight(Interp *in, int device, const Ref *semaphore, int64_t element);
void move_flight(Mesh *m, Flight *f);  // unless its elements have moved
void add_held(Interp *in, const Ref *semaphore, int64_t element, int64_t amount);
// An instruction of device `in` adds to a semaphore of device `to`.
void add_from(Interp *in, Interp *to, const Instr *instr, const Ref *semaphore, int64_t element,
              Token token);
void note_flight(Interp *in, const Flight *f);

// ---- deadlock.c
void run_on(Interp *in);   // this device has the turn beyond a deadlock
void tell_cycle(Mesh *m);  // all have ended: notes of who waits for whom

#endif
