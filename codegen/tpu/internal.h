// What the files of the TPU model share.
#ifndef CODEGEN_TPU_INTERNAL_H
#define CODEGEN_TPU_INTERNAL_H

#include "codegen/ir/index.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/flow.h"
#include "codegen/tpu/tpu.h"
#include "codegen/ir/work.h"
#include "dsl/json.h"

// ---- eval.c: scalars that the grid decides

// Values of rank-0 integers by instruction id. What depends on data is not known.
typedef struct {
  const Kernel *k;
  const int64_t *sizes, *extents;
  int64_t *axes, *value;
  int64_t device[MOST_MESH_AXES];  // this device's index along each mesh axis
  bool *known;
  int64_t *variable;  // of the body, by ref id
  bool *variable_known;
} GridEval;

// A value as a function of one grid axis, the others kept: f(a + period) = f(a) + step. period 0:
// not of this kind.
typedef struct {
  int64_t period, step;
} Periodic;

GridEval grid_eval_new(Arena *arena, const Kernel *k, const int64_t *sizes, const int64_t *extents);
// rank 0, integer or bool, and computed from nothing but such
bool is_index_scalar(const Instr *instr);
bool is_variable_access(const Instr *instr);
void grid_eval(GridEval *e, const Instr *instr);
// of an `if` with one, its region having run
void grid_take_result(GridEval *e, const Instr *branch, const Region *taken);
// The block index of an operand at e->axes; false when it depends on data.
bool grid_block_index(GridEval *e, const Ref *ref, int64_t *index);

// Of every scalar of a region, with the axes within `axes`: by instruction id. Or of one, those of
// its operands being there.
void grid_intervals(const GridEval *e, const Region *region, const Interval *axes, Interval *out);
Interval grid_interval(const GridEval *e, const Instr *instr, const Interval *axes,
                       const Interval *known);
// Along `axis`; `bounds` are the intervals over the whole grid.
void grid_periods(const Region *region, int axis, const Interval *bounds, Periodic *out);
int64_t least_multiple(int64_t a,
                       int64_t b);  // 0 when a or b is 0, or when the result is beyond 2^31

// ---- cost.c: what operations cost

typedef enum {
  UNIT_MXU,
  UNIT_VPU,
  UNIT_EUP,
  UNIT_XLU,
  UNIT_VMEM,
  UNIT_STORE,
  UNIT_SCALAR,
  UNITS
} Unit;
extern const char *const unit_names[UNITS];

// Of one operation, or of several that run together. Seconds of a core.
typedef struct {
  double busy[UNITS];
  double mxu_ideal, mxu_padding;  // the parts of busy[UNIT_MXU]
  double mxu_in_step;             // of mxu_padding: what the cost of a grid step holds, not in busy
  double mxu_passes;              // of mxu_ideal: passes beyond the first
  double mxu_latency;             // of a product on its own, before its first result; in no sum
  double mxu_serial;              // with each fold loaded on its own
  double row_blocks;              // of a product: its rows over those of the array; 0: no product
  int64_t flops, dot_flops, transcendentals, load_bytes, store_bytes;
} Cost;

typedef struct {
  Arena *arena;
  const Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  bool *free_transpose;  // by instruction id: only dots read it
  const bool *buffered;  // .. it lies in VMEM; NULL: not known
} CostModel;

CostModel cost_model(Arena *arena, const Kernel *k, const Chip *chip, const int64_t *sizes);
// False when the model does not know the operation; it costs nothing then.
bool op_cost(const CostModel *m, const Instr *instr, Cost *cost);
// Operations a second of `cores` cores on the products of a dot, and the passes that they take.
typedef struct {
  double peak, passes;
} DotRate;
DotRate dot_rate(const Chip *chip, const Instr *dot, int cores);
void tpu_list_products(Buf *out);  // products.c: with their sources
void cost_add(Cost *sum, const Cost *cost);

// ---- values.c: the values of a body that lie in VMEM

typedef struct {
  int64_t peak;     // bytes of those that are live together, in whole tiles
  const Instr *at;  // .. once this one is there; NULL: all values are in registers
  int count;        // .. and how many they are
  bool *buffered;   // by instruction id: it lies in VMEM
} Values;
Values find_values(const CostModel *m);
int64_t value_bytes(const CostModel *m, const Type *t);  // in whole tiles
// a reduction, a scan or a product: its result waits for whole rows
bool needs_rows(const Instr *instr);

// ---- body.c: a grid step's body, ready to be run for its cost

// Operations that run together: no control flow between them, so that the units overlap.
//
// They run in phases: a reduction and a product need whole rows of what they read. Blocks of rows
// follow each other through the phases, so all but one of them overlap.
typedef struct {
  Cost cost;
  int64_t ps;         // the busiest unit
  int64_t fill_ps;    // .. and what one block of rows takes longer, through all phases
  double row_blocks;  // of the product with the fewest; 0: no product
  LIST(Cost) phases;
  const Instr *waits;  // the last product that waits for another phase
  Unit bound;          // which one that is
  const Instr *costliest[UNITS];
  double costliest_busy[UNITS];
  const char *name;  // of the innermost named region
  Span span;
} Segment;

typedef struct Block Block;
typedef struct {
  const Instr *instr;  // a scalar to evaluate, or control
  int segment;         // -1: none
  Block *inner[2];
  bool pipelined;  // a loop whose body starts copies
  bool leaves;     // an `if` whose first branch leaves a loop
} Item;
struct Block {
  LIST(Item) items;
  bool plain;  // no control inside
};

// What one operation of a segment keeps busy, in seconds a run.
typedef struct {
  const Instr *instr;
  int segment;
  double busy[UNITS];
} Work;

// Control flow that depends on data; `leaves`: a condition under which a loop ends.
typedef struct {
  const Instr *instr;
  bool leaves;
} Assumption;

typedef struct {
  LIST(Segment) segments;
  LIST(Work) work;
  Block *top;
  LIST(const Instr *) unmodelled;  // operations without a cost
  LIST(Assumption) assumed;
  // What must repeat for steps to repeat: scalars that decide control flow, which semaphore a copy
  // uses, what variables hold.
  LIST(const Instr *) decisions;
  // these and what they are computed from, in the order of the program
  LIST(const Instr *) scalars;
  bool copies;  // the body starts copies itself, or talks
  bool talks;   // .. of a mesh: signals, waits for them, copies between devices
  bool asks;    // which device it is matters to what a device does
} Body;

Body *body_new(const CostModel *m);
// One grid step at e->axes: the time of its operations in ps; counts[s] grows by the runs of
// segment s. `visitor` may be NULL: it sees each segment, `times` runs of it one after the other
// that take `ps`, and each start of a copy and wait for one.
typedef struct {
  void (*segment)(void *context, int segment, int64_t times, int64_t ps);
  void (*copy)(void *context, const GridEval *e, const Instr *copy);  // may be NULL
  void (*iteration)(void *context);  // of a loop whose body starts copies; may be NULL
} BodyVisitor;
int64_t body_run(const Body *body, GridEval *e, int64_t *counts, const BodyVisitor *visitor,
                 void *context);

// ---- replay.c: all devices of a mesh together

typedef struct Torus Torus;
typedef struct {
  const Torus *torus;
  int devices, *chip;  // of each device
  // results; ps
  int slowest, first;                       // devices: the last and the first to end
  int64_t first_end_ps, wait_ps, *wait_at;  // of the slowest for the others; by instruction id
  int64_t sent_ps;                          // .. its copies one after the other
  int64_t copies, signals, hops, most_hops, bytes, last_ps;
  int64_t *link_ps, *link_bytes;  // by link
  int links_used, busiest;        // busiest: -1: none
  int64_t events;                 // that were followed
  bool by_data;                   // a device or a semaphore depends on data
} MeshRun;

// ---- sim.c: the pipeline

typedef struct {
  int64_t issued, skipped, bytes;  // bytes of elements inside the array
  int64_t once;                    // bytes of the whole array
  int64_t unread;                  // bytes of blocks that come in and that no step reads
  int64_t wait_ps;                 // of the core for it, after the prologue
  bool moved;                      // it is moved by the pipeline
  bool by_data;                    // its block index depends on data: taken as new in every step
} OperandCount;

typedef struct {
  int64_t steps, simulated, time_ps, compute_ps, overhead_ps, wait_ps, prologue_ps, epilogue_ps,
      hbm_ps, inner_ps;  // inner: the steps of loops in the body that start copies
} Totals;

// Events of one core, for traces. kind: 'f' fetch, 'w' write back, 'c' a segment, 'o' the step's
// overhead, 's' steps left out, 'l' a message on a link, 'q' a wait for other devices.
typedef struct {
  char kind;
  int core, which;  // core: or device; operand, segment, link or line
  int64_t step, start_ps, end_ps, index[MAX_INDEX], bytes;
} TraceEvent;

typedef struct {
  Arena *arena;
  int64_t most_events, dropped;
  LIST(TraceEvent) events;
} TraceLog;

typedef struct {
  Arena *arena;
  const Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  const Body *body;
  bool whole;     // simulate every step
  MeshRun *mesh;  // of a kernel whose devices talk to each other; else NULL
  TraceLog *log;  // may be NULL
  // results
  int cores;      // that have work
  Totals totals;  // time: of the slowest core; the rest: of that core too, but steps and simulated
  OperandCount *operand;
  int64_t *counts;      // by segment, of all cores
  int64_t other_bytes;  // of copies between HBM and VMEM that belong to no operand
  int split_axis;       // -1: none
  const char *problem;  // the grid is too large to be walked: why
} Simulation;

void simulate(Simulation *s);
void simulate_mesh(Simulation *s);  // replay.c: of s->mesh
int64_t ps_of(double seconds);

// ---- model.c: a kernel on a chip

typedef struct {
  const char *name, *what;
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK], padded[MAX_RANK], bytes;  // bytes of all its buffers
  int buffers;
  Space space;
  Span span;
} Buffer;

typedef struct {
  double seconds;
  Span span;
  const char *text;
} Loss;

// A line of the source: seconds of a core, and what takes most of them.
typedef struct {
  int line;
  double busy[UNITS], worst_busy[UNITS];
  const Instr *worst[UNITS];
} LineCost;

struct Model {
  Arena *arena;
  const Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  Simulation sim;
  const Body *body;
  Cost cost;            // of all steps
  bool dots;            // has products
  double f32_passes;    // of those of f32, the most; 0: there are none
  double useful_flops;  // of the reference; 0: none
  LIST(Buffer) buffers;
  int64_t vmem;  // of buffers and values
  int64_t vmem_limit, vmem_default, once_bytes, moved_bytes;
  int64_t held_bytes;  // of the arrays, in HBM
  Values values;
  int streams;
  const Torus *torus;                // of a kernel with a mesh; else NULL
  double peak, hbm, vmem_bandwidth;  // of the cores at work
  double seconds, lower, upper;
  const char *lower_reason, *bound;
  Unit bound_unit;                       // UNITS: no unit binds
  double mxu, vpu, hbm_share, mxu_rows;  // shares of the time; of the array when it works
  double fill;                           // seconds in which operations wait for each other
  LIST(Loss) losses;
  LIST(LineCost) lines;  // the costliest first
};

// lines.c
void find_lines(Model *m);
void tpu_put_lines(const Model *m, Buf *out);
void tpu_json_lines(const Model *m, Buf *out);

// report.c: numbers with their units
void tpu_put_time(Buf *out, double seconds);
void tpu_put_bytes(Buf *out, int64_t bytes);
double tpu_busy(const Model *m, Unit unit);  // share of the time in which it works

// mesh_report.c: nothing of a kernel without a mesh
void tpu_put_mesh(const Model *m, Buf *out);
void tpu_json_mesh(const Model *m, Buf *out);

// ---- program.c

// A call of the text: how often it is made, and what that costs.
typedef struct {
  const FlowStep *step;
  const Model *model;  // of the first time; others differ where what is prefetched does
  int64_t times, bytes, flops, steps;
  double seconds;
} CallCost;

typedef struct {
  const CallCost *call;
  const Model *model;
  const char *text;  // the loop variables around it; NULL: none
  double start;      // seconds
} ProgramTurn;

struct ProgramModel {
  Arena *arena;
  Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  ModelOptions options;
  // by step of the program; steps that are not calls, and calls that are never made, count 0
  CallCost *calls;
  LIST(ProgramTurn) turns;  // the first ones, where events are kept
  int64_t times, bytes, flops, steps, dropped;
  double seconds, dispatch;
  double mxu, mxu_busy, hbm;  // shares of the time
  const char *wrong;
};
// The call that takes most of the time; NULL: there is none.
const CallCost *tpu_longest(const ProgramModel *m);
// The call with the largest share of its VMEM in use.
const CallCost *tpu_fullest(const ProgramModel *m);

#endif
