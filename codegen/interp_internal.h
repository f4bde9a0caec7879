// What the files of the interpreter share. Nothing outside interp*.c includes this.
#ifndef CODEGEN_INTERP_INTERNAL_H
#define CODEGEN_INTERP_INTERNAL_H

#include "codegen/interp.h"
#include "codegen/scalar.h"

// A value or a block in memory: floats in f, everything else in i, row-major. poison[e] says that element e is unspecified and
// why: 0 it is not, else 1 + the ref it came from, or one of the marks below. It is looked at only when `poisoned`.
typedef struct {
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK], count;
  union {
    double *f;
    int64_t *i;
    void *data;
  };
  uint8_t *poison;
  bool poisoned;
  int64_t capacity, poison_capacity;
} Value;

enum { POISON_REFS = 250, POISON_MASKED = 252, POISON_OTHER = 253, POISON_UNSTORED = 255 };

typedef enum {
  FIND_POISON_OUT,
  FIND_POISON_CONDITION,
  FIND_POISON_INDEX,
  FIND_BLOCK_INDEX,
  FIND_HALO,
  FIND_HALO_END,
  FIND_SLICE,
  FIND_PARALLEL,
  FIND_REVISIT,
  FIND_UNWRITTEN,
  FIND_UNSTORED,
  FIND_TAKE,
  FIND_ASSERT,
  FIND_ALIAS,
  FIND_EMPTY,
  FIND_LOOP,
  FIND_DEADLOCK,
  FIND_SEMAPHORE,
  FIND_MEMORY
} FindingKind;

typedef struct {
  const void *where;
  FindingKind kind;
  int64_t count;
  char *text;
} Finding;

// The state of a ref during the run.
typedef struct {
  Value block;
  HostArray *array;  // operands: where their elements live
  int64_t index[MAX_INDEX];
  bool held;  // inputs: the block of `index` was fetched; outputs: it is in use
  const Instr *last_store;
  uint8_t *written;  // outputs and what aliases them: per element, WRITTEN_*
  int64_t *owner;    // outputs: per block (AT_BLOCK) or element, 1 + number of the parallel step that wrote it
  bool *left;        // outputs at block: the block was written back
  int64_t blocks[MAX_RANK];
} RefState;

enum { WRITTEN_NEVER, WRITTEN_GOOD, WRITTEN_UNSTORED };

typedef struct {
  Kernel *k;
  const int64_t *sizes;
  CheckReport *report;
  Value *values;   // by instruction id
  RefState *refs;  // by ref id
  int64_t *axes, *extents, *next_axes;
  bool first_step, last_step, parallel_changed;
  int64_t parallel_step;  // number of the combination of parallel axes
  bool exact;             // the reference: floats are not rounded
  bool in_grid;
  bool stopped;
  bool breaking;
  int64_t iterations;  // of all loops in this grid step
  int64_t bytes;       // held by values and blocks
  void *scratch[4];
  int64_t scratch_bytes[4];
  LIST(Finding) findings;
} Interp;

// ---- findings (interp_report.c)
void find(Interp *in, const void *where, FindingKind kind, Span span, const char *format, ...) PRINTF_LIKE(5, 6);
void finish_report(Interp *in);
void stop_for_memory(Interp *in, int64_t bytes);
const char *poison_cause(Interp *in, uint8_t mark);
const char *format_value(Interp *in, const Value *v);
void format_indices(Buf *out, const int64_t *index, int count);

// ---- values (interp_value.c)
static inline Value *value_of(Interp *in, const Instr *instr) { return &in->values[instr->id]; }
// Room for a value of this type; NULL, and the run is stopped, when it does not fit.
Value *value_shape(Interp *in, Value *v, const Type *type);
Value *value_new(Interp *in, const Instr *instr);
bool value_poison(Interp *in, Value *v);  // from now on v->poison counts, all 0 at first
void *scratch_space(Interp *in, int which, int64_t count, int64_t item_bytes);
void value_free(Value *v);
static inline uint8_t poison_at(const Value *v, int64_t index) { return v->poisoned ? v->poison[index] : 0; }
int64_t resolve_dim(const int64_t *sizes, Dim dim);
void fill_unspecified(Value *v, int64_t from, int64_t count, uint8_t mark);  // v is poisoned already
double unspecified_float(void);
int64_t unspecified_int(DType dtype);
void round_floats(const Interp *in, Value *v);
void run_elementwise(Interp *in, const Instr *instr);
void read_elements(const HostArray *array, int64_t from, int64_t count, Value *to, int64_t at);
void write_elements(HostArray *array, int64_t to, int64_t count, const Value *from, int64_t at);

// ---- moving and folding (interp_shape.c)
// A walk over elements: along axis k, extent[k] of them, stride[k] apart, from `base`.
typedef struct {
  int rank;
  int64_t extent[2 * MAX_RANK], stride[2 * MAX_RANK], base;
} Walk;
Walk whole_walk(const Value *v);
// Copies elements of `size` bytes (1 or 8). The extents are those of t.
void copy_walk(void *to, const Walk *t, const void *from, const Walk *f, int64_t size);
uint8_t first_poison(const uint8_t *poison, int64_t count);
void run_shape(Interp *in, const Instr *instr);
void run_reduce(Interp *in, const Instr *instr);
void run_argreduce(Interp *in, const Instr *instr);
void run_scan(Interp *in, const Instr *instr);
void run_dot(Interp *in, const Instr *instr);

// ---- index arithmetic (interp_index.c)
int64_t ceil_div(int64_t a, int64_t b);

// ---- memory (interp_memory.c)
bool start_refs(Interp *in, HostArray *operands);
void end_refs(Interp *in);  // writes back what stays, reports what was never written
void begin_step(Interp *in);
void run_load(Interp *in, const Instr *instr);
void run_store(Interp *in, const Instr *instr);
void run_fetch(Interp *in, const Instr *instr);
void run_writeback(Interp *in, const Instr *instr);

// ---- memory by hand (interp_dma.c)
void run_dma(Interp *in, const Instr *instr);
void begin_scope(Interp *in, const Instr *scoped);
void end_scope(Interp *in, const Instr *scoped);
void begin_scratch(Interp *in, const Ref *ref);  // unspecified, or a semaphore that holds 0
void begin_semaphore(Interp *in, const Ref *ref);
void end_semaphore(Interp *in, const Ref *ref);  // reports what is left

#endif
