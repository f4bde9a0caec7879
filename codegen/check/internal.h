// What the files of the interpreter, and its unit test, share. Nothing else includes this.
#ifndef CODEGEN_CHECK_INTERNAL_H
#define CODEGEN_CHECK_INTERNAL_H

#include "codegen/ir/hidden.h"
#include "codegen/ir/layout.h"
#include "codegen/check/arithmetic.h"
#include "codegen/check/interp.h"
#include "codegen/ir/scalar.h"

enum {
  POISON_REFS = 250,
  POISON_UNWRITTEN = 251,
  POISON_MASKED = 252,
  POISON_OTHER = 253,
  POISON_UNSTORED = 255
};

typedef enum {
#define FIND(id, name, meaning) FIND_##id,
#include "codegen/check/findings.def"
#undef FIND
} FindingKind;

// The latest accesses of an element in HBM, as indices of events, from 1. `other_read`: by another
// core than `read`.
typedef struct {
  uint32_t write, read, other_read;
} CoreAccess;

// There is one finding for each kind, position and, for races, other position.
typedef struct {
  const void *where, *other;
  FindingKind kind;
  CheckFinding report;
} Finding;
typedef LIST(Finding) FindingList;

// Many devices: mesh.h.
typedef struct Mesh Mesh;
typedef struct Flight Flight;

// The signals and waits of one semaphore.
typedef struct {
  // The amount that waits took, without the DMAs that these waits completed, and the amount of
  // signals, which may include some of it.
  int64_t taken, signalled;
  const Instr *last;  // the last that waited or signalled, with its operation and step
  int64_t amount, step;
  const Instr *copy;  // the latest completed copy
  int64_t bytes;
} SemaphoreState;

// The state of a ref during the run.
typedef struct {
  Value block;
  HostArray *array;  // for operands: where their elements are
  Value *image;  // for an operand that explicit DMAs access, or an alias of it: its elements in HBM
                 // with their poison
  int64_t index[MAX_INDEX];
  bool held;  // for inputs: the block of `index` was fetched; for outputs: it is in use
  const Instr *last_store;
  double *errors;    // the errors of its elements, if they are tracked; otherwise NULL
  uint8_t *written;  // for outputs and their aliases: per element, WRITTEN_*
  int64_t *owner;    // for outputs at block: per block, 1 + the parallel step that wrote it
  bool *left;        // for outputs at block: the block was written back
  // For outputs whose blocks do not depend on a parallel axis, otherwise NULL: per axis of the
  // grid, whether they do; per element, its value in the cell that wrote it first, and 1 + the
  // number of that cell.
  bool *ignores;
  int64_t *first, *first_cell;
  const Ref *shared;     // the output whose memory cores can race for, otherwise NULL
  CoreAccess *accesses;  // for such an output: per element
  SemaphoreState *semaphores;
  int64_t blocks[MAX_RANK];
} RefState;

// UNSPECIFIED: by an unspecified value, which was reported then.
enum { WRITTEN_NEVER, WRITTEN_GOOD, WRITTEN_UNSTORED, WRITTEN_UNSPECIFIED };

// One end of a copy of views, at the time of the copy.
typedef struct Seen {
  const Layout *layout;  // includes the digits of the other end's layout
  int64_t *sizes;        // of the kernel, followed by the copy's lengths
  int64_t *start;        // by place
  bool empty;            // none of its parts is visited
  int users;             // boxes that refer to it; at 0 it returns to its pool
  struct SeenPool *pool;
  struct Seen *next;  // unused, too
} Seen;

// The views of one copy, which all have as many sizes.
typedef struct SeenPool {
  int sizes;
  Seen *unused;
} SeenPool;

// A part of an element of a view: its first bit.
typedef struct {
  int64_t element, bit;
} Part;

// Elements of a memory: along axis k extent[k] of them, stride[k] apart from start[k]; elements
// outside the memory are ignored.
typedef struct {
  const Ref *ref;
  const void *memory;  // two boxes overlap only in the same: the Value of a block or image, or the
                       // array in HBM
  int rank;
  int64_t dim[MAX_RANK], start[MAX_RANK], extent[MAX_RANK], stride[MAX_RANK];
  // a view that is not such a box: its parts; the extents are those of the memory
  Seen *seen;
} Box;

typedef struct {
  int64_t dim, start, extent, stride;
} BoxAxis;

// A box that is kept: only the axes that it has take memory.
typedef struct {
  const Ref *ref;
  const void *memory;
  Seen *seen;  // kept as long as its interpreter
  int rank;
  BoxAxis axis[];
} KeptBox;

// The elements that two boxes share, axis by axis.
typedef struct {
  int64_t count, first[MAX_RANK], last[MAX_RANK];
} Overlap;

// A DMA, from its start until a wait orders it before the following instructions.
typedef struct {
  const Instr *instr;  // COPY_START; NULL: the pipeline writes a block back
  Box from, to;        // a write-back has no `from`
  const Ref *semaphore;
  int64_t element, bytes;  // on a regular semaphore: a single signal
  int64_t other;           // the value for elements past the source's end
  uint8_t other_poison;
  int64_t step, core;
  int64_t ended;   // the step in which it ended; UNDER_WAY
  bool moved;      // the elements have been copied
  Flight *flight;  // the same as seen by other devices, or NULL
} Transfer;

static const int64_t UNDER_WAY = INT64_MAX;

// Does it bring something to this element of the semaphore, and is not known to be complete?
static inline bool is_on(const Transfer *t, const Ref *semaphore, int64_t element) {
  return t->semaphore == semaphore && t->element == element && t->ended == UNDER_WAY;
}

// The step of an access: the other side of a race between cores.
typedef struct {
  const Instr *instr;  // NULL: the pipeline
  const Ref *ref;
  int64_t step, core, cell;
} CoreEvent;

// The k-th index of a shuffled axis is (k * factor + offset) mod its extent.
typedef struct {
  int64_t factor, offset;
} Shuffle;

enum { SCRATCH_SPACES = 6 };

// A region under way.
typedef struct {
  const Instr *owner;  // the branch, loop or scope that it belongs to; NULL: it is the outermost
  const Region *region;
  int next;            // index of its next instruction
  int64_t index, end;  // of a `for`: the next value of its variable, and the bound
  int64_t iterations;  // of a loop
} Frame;

// A wait under way.
typedef struct {
  const Instr *instr;
  int64_t element, amount;
  Box to;  // of a copy
} Wait;

typedef struct {
  Kernel *k;
  const int64_t *sizes;
  CheckOptions options;
  const Arithmetic *arithmetic;
  CheckReport *report;
  Value *values;     // by instruction id
  RefState *refs;    // by ref id
  RefState *states;  // of the reference's vars, by id
  int64_t *axes, *extents, *next_axes;
  Shuffle *shuffles;
  int64_t step, steps;    // in the order of execution
  int64_t parallel_step;  // the cell: number of the combination of parallel axes
  int64_t cells, core;
  bool last_step, cell_begins, cell_ends;
  bool exact;   // in the reference: floats are not rounded
  bool bounds;  // values have errors
  Rounding rounding, rounding_f64;
  Hidden hidden;
  bool in_grid;
  bool stopped;
  bool breaking;
  LIST(Frame) frames;   // the outermost region first
  const Instr *paused;  // before it, or in this wait, other devices run; NULL: none do
  Wait wait;
  int64_t iterations;  // number of loop iterations in this grid step
  int64_t bytes;       // held by values and blocks
  void *scratch[SCRATCH_SPACES];
  int64_t scratch_bytes[SCRATCH_SPACES];
  uint64_t random;
  Transfer *transfers;  // in the order of their starts
  int transfer_count, transfer_capacity;
  int unmoved;             // number of these that have not moved
  int64_t *runs;           // by instruction id: how often a copy or signal ran
  struct SeenPair **seen;  // the layouts of a copy of views, by instruction id
  Arena *arena;            // of these: freed with the interpreter
  Arena *words;            // texts for findings of the current instruction
  int64_t lookahead;  // number of steps by which the pipeline may have fetched before an alias was
                      // written; 0: there is no alias
  LIST(CoreEvent) events;
  FindingList findings;
  Mesh *mesh;  // NULL: there is one device
  int device;
} Interp;

// ---- a run (interp.c)
Interp start_interp(Kernel *k, const int64_t *sizes, const CheckOptions *options,
                    CheckReport *report);
// Until the grid ends, or until in->paused: the next call then continues there.
void run_grid(Interp *in);
void check_vmem(Interp *in);
void end_interp(Interp *in);

// ---- findings (report.c)
// True if this is the first of its kind and position, which may get notes.
bool find(Interp *in, const void *where, FindingKind kind, Span span, const char *format, ...)
    PRINTF_LIKE(5, 6);
bool find_pair(Interp *in, const void *where, const void *other, FindingKind kind, Span span,
               const char *format, ...) PRINTF_LIKE(6, 7);
// counts a repetition of an earlier finding
bool find_again(Interp *in, const void *where, const void *other, FindingKind kind);
// Adds a note to the latest finding. step: the number of a grid step, or -1.
void find_note(Interp *in, Span span, int64_t step, const char *format, ...) PRINTF_LIKE(4, 5);
void finish_report(Interp *in);
void stop_for_memory(Interp *in, int64_t bytes);
const char *poison_cause(Interp *in, uint8_t mark);
const char *format_value(Interp *in, const Value *v);
void format_indices(Buf *out, const int64_t *index, int count);
const char *semaphore_text(Interp *in, const Ref *ref, int64_t element);
const char *device_text(const Interp *in, int device);  // "dx=1, dy=0"
// the indices of a grid step, in the order of the run
void step_axes(const Interp *in, int64_t step, int64_t *axes);

// ---- values (value.c)
static inline Value *value_of(Interp *in, const Instr *instr) { return &in->values[instr->id]; }
bool has_memory(const Interp *in, int64_t bytes);  // may it take another `bytes`?
// Memory for a value of this type. If it exceeds the limit, returns NULL and stops the run.
Value *value_shape(Interp *in, Value *v, const Type *type);
Value *value_new(Interp *in, const Instr *instr);
bool value_poison(Interp *in, Value *v);   // makes v->poison valid, initially all 0
bool value_partial(Interp *in, Value *v);  // makes v->missing valid, initially all bits
bool value_error(Interp *in, Value *v);    // makes v->error valid, initially all 0
void *scratch_space(Interp *in, int which, int64_t count, int64_t item_bytes);
void value_free(Value *v);
static inline double error_at(const Value *v, int64_t index) {
  return v->uncertain ? v->error[index] : 0;
}
static inline uint8_t poison_at(const Value *v, int64_t index) {
  return v->poisoned ? v->poison[index] : 0;
}
static inline uint64_t low_bits(int64_t bits) {
  return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}
// the unspecified bits of an element
static inline uint64_t missing_at(const Value *v, int64_t index) {
  if (!poison_at(v, index)) return 0;
  return low_bits(dtype_info[v->dtype].bits) & (v->partial ? v->missing[index] : UINT64_MAX);
}
// These elements, if unspecified, are unspecified in all bits.
void miss_all(Value *v, int64_t from, int64_t count);
// v->poison must be valid
void fill_unspecified(Value *v, int64_t from, int64_t count, uint8_t mark);
double unspecified_float(void);
int64_t unspecified_int(DType dtype);
void round_floats(const Interp *in, Value *v);
void read_elements(const HostArray *array, int64_t from, int64_t count, Value *to, int64_t at);
void write_elements(HostArray *array, int64_t to, int64_t count, const Value *from, int64_t at);
uint64_t random_bits(uint64_t *state);

// ---- the arithmetic of floats (floats.c)
extern const Arithmetic float_arithmetic;
// the context of its functions
static inline void *arithmetic_context(Interp *in) {
  return in->options.context ? in->options.context : in;
}
// Is it an integer or a truth value that the arithmetic does not know as a number?
static inline bool is_open(const Interp *in, int64_t cell) {
  return in->arithmetic->opens && cell_is_open(cell);
}

// ---- element by element (elementwise.c)
void run_elementwise(Interp *in, const Instr *instr);

// ---- moving and folding (shape.c)
// A walk over elements: along axis k, extent[k] of them, stride[k] apart, from `base`.
typedef struct {
  int rank;
  int64_t extent[2 * MAX_RANK], stride[2 * MAX_RANK], base;
} Walk;
Walk whole_walk(const Value *v);
// Copies elements of `size` bytes (1 or 8). The extents are those of t.
void copy_walk(void *to, const Walk *t, const void *from, const Walk *f, int64_t size);
// Of elements whose poison is copied, the bits that are unspecified.
void copy_missing(Interp *in, Value *to, const Walk *t, const Value *from, const Walk *f);
uint8_t first_poison(const uint8_t *poison, int64_t count);
void run_shape(Interp *in, const Instr *instr);
void run_reduce(Interp *in, const Instr *instr);
void run_argreduce(Interp *in, const Instr *instr);
void run_scan(Interp *in, const Instr *instr);
void run_dot(Interp *in, const Instr *instr);

// ---- error bounds (bound.c); without tracked errors they do nothing
// Contiguous elements and their errors (NULL: none).
typedef struct {
  const double *f;
  double *error;
  int64_t count;
  int scratch;  // a place for errors
} BoundLane;
void bound_elementwise(Interp *in, const Instr *instr, Value *out, const Value *const *arg);
void bound_fold(Interp *in, const Instr *instr, Value *out, int64_t e, const BoundLane *lane);
void bound_scan(Interp *in, const Instr *instr, Value *out, const Value *a, const int64_t *order,
                int64_t count);
void bound_sort(Interp *in, Value *out, const Value *a, int64_t from, int64_t stride,
                int64_t count);
// the dtype to which the kernel may round them before they are multiplied
bool bound_summands(Interp *in, BoundLane *rows);
void bound_dot(Interp *in, const Instr *instr, Value *out, int64_t e, const BoundLane *a,
               const BoundLane *b);
// the same for an element of an output
double bound_allowed(const Interp *in, DType t, double value, double error);

// ---- memory (memory.c)
static inline RefState *state_of(Interp *in, const Ref *ref) {
  return ref->role == REF_STATE ? &in->states[ref->id] : &in->refs[ref->id];
}
static inline uint8_t ref_mark(const Ref *ref) {
  if (ref->role == REF_STATE) return POISON_OTHER;
  return ref->id + 1 <= POISON_REFS ? (uint8_t)(ref->id + 1) : POISON_OTHER;
}
static inline Span map_place(const Ref *ref) {
  return ref->map_span.end ? ref->map_span : ref->span;
}
bool start_refs(Interp *in, HostArray *operands);
bool is_prefetch_known(const CheckOptions *options, const HostArray *array);
// vars of the reference; false after reporting that there is no room
bool start_states(Interp *in);
// writes back the remaining blocks, and reports elements that were never written
void end_refs(Interp *in);
void begin_step(Interp *in);
void run_fetch(Interp *in, const Instr *instr);
void run_writeback(Interp *in, const Instr *instr);

// ---- loads and stores (access.c)
void run_load(Interp *in, const Instr *instr);
void run_store(Interp *in, const Instr *instr);

// ---- windows of copies (windows.c)
// The windows of a copy, the target's in the memory of `owner`, and its number of bytes there.
// The boxes of a copy, each with one user; the caller drops them.
int64_t copy_boxes(Interp *in, Interp *owner, const Instr *instr, Box *from, Box *to);

// ---- explicit memory (dma.c)
void run_dma(Interp *in, const Instr *instr);
void resume_wait(Interp *in);  // this device waits, and runs again
// The element at the given indices; an index out of range is reported and clamped.
int64_t indexed_element(Interp *in, const Instr *instr, const Ref *ref, Instr *const *index);
bool read_amount(Interp *in, const Instr *instr,
                 int64_t *amount);  // false after reporting a negative amount
void move_at_random(Interp *in);    // may move the data of one DMA in progress
void begin_scope(Interp *in, const Instr *scoped);
void end_scope(Interp *in, const Instr *scoped);
void begin_scratch(Interp *in, const Ref *ref);  // unspecified, or a semaphore of 0
void end_cell(Interp *in);                       // reports transfers in progress

// Calls visit for each element of a box that is within the memory, with its number in the box and
// its indices.
typedef void ElementVisitor(void *context, int64_t number, const int64_t *index);

// ---- views of boxes (seen.c)
Seen *seen_new(Interp *in, SeenPool *pool, const Layout *l, const int64_t *sizes);  // one user
void hold_box(const Box *box);  // adds a user of its view, if it has one
void drop_box(const Box *box);
void walk_seen(const Seen *seen, PartVisitor *visit, void *context);  // calls `visit` for each part
// Bytes that a copy of views takes to list the parts of both ends.
int64_t bytes_of_parts(const Layout *l, const int64_t *sizes);

// ---- copies of views (parts.c)
void move_parts(Interp *in, const Transfer *t, const Value *from, Value *to);

// ---- the elements of a copy (transfer.c)
Value *home_of(Interp *in, const Ref *ref);  // the value that holds a ref's elements
int64_t count_elements(const Box *box);
void move_transfer(Interp *in, Transfer *t);  // copies the elements, unless that has happened
// From a ref of one device to a ref of another, or the same, device.
void move_between(Interp *source_in, Interp *target_in, Transfer *t);

// ---- many devices
void interpret_mesh(Kernel *k, const int64_t *sizes, HostArray *operands,
                    const CheckOptions *options, CheckReport *report);  // mesh.c
void run_remote(Interp *in, const Instr *instr);  // remote.c: REMOTE_START, REMOTE_SIGNAL
// scheduler.c. Before a step that other devices can notice, and in a wait whose amount is missing:
// which device runs next? False: another one, and in->paused is set.
bool yield_control(Interp *in, const Instr *instr);
bool await_devices(Interp *in);
// This device runs although it waits: is that because no device can continue?
bool waits_in_vain(Interp *in);
// Advances one copy that signals the semaphore on which this device waits. False: there is none.
bool take_arrival(Interp *in);
bool is_noticed(const Interp *in, const Instr *instr);  // flight.c: by other devices
// inbox.c
void fly_within(Interp *in, Transfer *t);  // starts a copy within this device
void signal_here(Interp *in, int64_t element, const Instr *instr, int64_t amount);
// Records what the end of a wait tells this device about the others.
void learn(Interp *in, const Instr *wait, int64_t element, int64_t amount);
// The amount that may be added to the semaphore before now in another order.
int64_t early_amount(Interp *in, const Ref *semaphore, int64_t element);
void fly_at_random(Interp *in);
// Compares an access of this device with the copies of other devices.
void check_flights(Interp *in, const Instr *instr, const Box *box, const Value *mask, bool writes,
                   const char *doing);
// Reports that the wait of this device never ends: its semaphore holds `held`. The devices of a
// mesh continue first.
void report_deadlock(Interp *in, int64_t held);
void add_supply(Interp *in, const Instr *instr, int to, const Ref *semaphore, int64_t element,
                int64_t amount);
// Reports what copies of other devices left on a semaphore; true if it did.
bool report_unawaited(Interp *in, const Ref *ref, int64_t element, int64_t left, const char *end);

// ---- boxes (box.c)
Box whole_block(Interp *in, const Ref *ref);
const KeptBox *keep_box(Arena *arena, const Box *box);
Box kept_box(const KeptBox *kept);
// Along an axis: the last index of a box, which may be outside of its memory; at most INT64_MAX.
int64_t last_index(const Box *box, int axis);
bool overlap(const Box *a, const Box *b, Overlap *out);
// mask: the accessed elements of `box`; NULL: all
bool masked_overlap(const Box *box, const Box *other, const Value *mask, Overlap *out);
bool kept_overlap(const Box *box, const KeptBox *kept, const Value *mask, Overlap *out);
const char *count_text(Arena *arena, int64_t elements);  // "1 element", "2 elements"
const char *elements_text(Interp *in, const Box *box, const Overlap *o);
// The numbers of the elements of a box along an axis that are within its memory: from *first to
// before *end, or none.
void box_inside(const Box *box, int axis, int64_t *first, int64_t *end);
void visit_box(const Box *box, ElementVisitor *visit, void *context);

// ---- races (race.c)
// The body, a starting copy, or the pipeline (instr NULL) accesses a box now: reports the DMAs in
// progress with which it races. mask: the accessed elements, in row-major order of the box; NULL:
// all. doing: "read", "written by this copy", ..
void check_overlap(Interp *in, Transfer *t);
void check_access(Interp *in, const Instr *instr, const Box *box, const Value *mask, bool writes,
                  const char *doing);
void check_fetch(Interp *in, const Ref *ref,
                 const Box *box);  // an access of the pipeline, some steps early
void begin_writeback(Interp *in, const Ref *ref,
                     const Box *box);  // the pipeline's write of a block
// Races: steps of different cores that access the same element of HBM.
void check_cores(Interp *in, const Instr *instr, const Box *box, bool writes);
// the parallel axis in which this cell differs from another
const char *differing_axis(const Interp *in, int64_t other);
Transfer *add_transfer(Interp *in);
void remove_transfer(Interp *in, int index);
// at the beginning of a step: removes those that can no longer race
void expire_transfers(Interp *in);

// report.c: a finding in printed form

// ---- flow.c: a program, kernel by kernel
void interpret_flow(Kernel *k, const int64_t *sizes, HostArray *operands,
                    const CheckOptions *options, CheckReport *report);

#endif
