// Shared by the files of the TPU model.
#ifndef CODEGEN_TPU_INTERNAL_H
#define CODEGEN_TPU_INTERNAL_H

#include "codegen/ir/index.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/order.h"
#include "codegen/tpu/tpu.h"
#include "codegen/ir/work.h"
#include "dsl/json.h"

// ---- eval.c: scalars that depend on the grid only

// Values of rank-0 integers by instruction id. Those that depend on data are unknown.
typedef struct {
  const Kernel *k;
  const int64_t *sizes, *extents;
  int64_t *axes, *value;
  int64_t device[MOST_MESH_AXES];  // this device's index along each mesh axis
  bool *known;
  int64_t *variable;  // of the body, by ref id
  bool *variable_known;
} GridEval;

// A value as a function of one grid axis, for constant other axes: f(a + period) = f(a) + step.
// period 0: it has no such form.
typedef struct {
  int64_t period, step;
} Periodic;

GridEval grid_eval_new(Arena *arena, const Kernel *k, const int64_t *sizes, const int64_t *extents);
// rank 0, integer or bool, and computed only from such values
bool is_index_scalar(const Instr *instr);
bool is_variable_access(const Instr *instr);
void grid_eval(GridEval *e, const Instr *instr);
// the result of an `if`, after its region has been evaluated
void grid_take_result(GridEval *e, const Instr *branch, const Region *taken);
// The block index of an operand at e->axes; false if it depends on data.
bool grid_block_index(GridEval *e, const Ref *ref, int64_t *index);

// Bounds of every scalar of a region, by instruction id, for axes within `axes`. Or of one scalar,
// given those of its operands.
void grid_intervals(const GridEval *e, const Region *region, const Interval *axes, Interval *out);
Interval grid_interval(const GridEval *e, const Instr *instr, const Interval *axes,
                       const Interval *known);
// Along `axis`; `bounds` are the intervals over the whole grid.
void grid_periods(const Region *region, int axis, const Interval *bounds, Periodic *out);
int64_t least_multiple(int64_t a,
                       int64_t b);  // 0 if a or b is 0, or if the result is beyond 2^31

// ---- cost.c: costs of operations

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

// The cost of one operation, or of several that run together, in seconds of a core.
typedef struct {
  double busy[UNITS];
  // busy[UNIT_MXU] is mxu_ideal at the sustained rate, and mxu_padding
  double mxu_ideal, mxu_padding;
  double
      mxu_in_step;    // the part of mxu_padding that is in the cost of a grid step, and not in busy
  double mxu_passes;  // the part of mxu_ideal for passes beyond the first
  double mxu_latency;  // the latency of a separate product; in no sum
  double mxu_serial;   // if each fold is loaded separately
  double row_blocks;   // for a product: its rows divided by those of the array; 0: no product
  int64_t flops, dot_flops, transcendentals, load_bytes, store_bytes;
} Cost;

typedef struct {
  Arena *arena;
  const Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  bool *free_transpose;  // by instruction id: only dots read the transpose
  const bool *buffered;  // by instruction id: the value is in VMEM; NULL: unknown
} CostModel;

CostModel cost_model(Arena *arena, const Kernel *k, const Chip *chip, const int64_t *sizes);
// Does it move elements across lanes, other than on their way into a product?
bool crosses_lanes(const CostModel *m, const Instr *transpose);
// False if the model does not know the operation, which then costs nothing.
bool op_cost(const CostModel *m, const Instr *instr, Cost *cost);
// Operations per second of `cores` cores for the products of a dot, and the number of passes.
typedef struct {
  double peak, passes;
} DotRate;
DotRate dot_rate(const Chip *chip, const Instr *dot, int cores);
void tpu_list_products(Buf *out);  // products.c: with their sources
void cost_add(Cost *sum, const Cost *cost);

// ---- values.c: the values of a body that are in VMEM

typedef struct {
  int64_t peak;     // maximum bytes of simultaneously live values, in whole tiles
  const Instr *at;  // the instruction at which this happens; NULL: all values are in registers
  int count;        // their number then
  bool *buffered;   // by instruction id: the value is in VMEM
} Values;
Values find_values(const CostModel *m);
int64_t value_bytes(const CostModel *m, const Type *t);  // in whole tiles
// is it a reduction, a scan or a product, whose result depends on whole rows?
bool needs_rows(const Instr *instr);

// ---- body.c: a grid step's body, prepared for the cost model

// Operations that run together: without control flow between them, so the units overlap. They run
// in phases, because a reduction and a product need whole rows of their operands. Blocks of rows
// follow each other through the phases, so most of the time of all phases but one overlaps.
typedef struct {
  Cost cost;
  int64_t ps;          // of the busiest unit
  int64_t exposed_ps;  // the additional time that never overlaps
  int64_t fill_ps;     // the additional time of one block of rows through all phases
  double row_blocks;   // of the product with the fewest rows; 0: no product
  LIST(Cost) phases;
  const Instr *waits;  // the last product that waits for another phase
  Unit bound;          // the busiest unit
  const Instr *costliest[UNITS];
  double costliest_busy[UNITS];
  const char *name;  // the name of the innermost named region
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
  bool plain;  // without control flow inside
};

// The units that one operation of a segment uses, in seconds a run.
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
  LIST(const Instr *) unmodelled;  // operations of unknown cost
  LIST(Assumption) assumed;
  // The state that must repeat for steps to repeat: scalars that decide control flow, the semaphore
  // of a copy, and the values of variables.
  LIST(const Instr *) decisions;
  // these and the instructions they are computed from, in program order
  LIST(const Instr *) scalars;
  bool copies;  // the body starts copies, or talks
  bool talks;   // the body signals, waits or copies between devices of a mesh
  bool asks;    // a device's behaviour depends on which device it is
} Body;

Body *body_new(const CostModel *m);
// One grid step at e->axes: returns the time of its operations in ps, and adds the runs of segment
// s to counts[s]. `visitor` (may be NULL) receives each segment, for `times` consecutive runs that
// take `ps`, and each start of a copy and wait for one.
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
  int64_t sent_ps;                          // the time of its copies, one after another
  int64_t copies, signals, hops, most_hops, bytes, last_ps;
  int64_t *link_ps, *link_bytes;  // by link
  int links_used, busiest;        // busiest: -1: none
  int64_t events;                 // number of simulated events
  bool by_data;                   // a device or a semaphore depends on data
} MeshRun;

// ---- sim.c: the pipeline

typedef struct {
  int64_t issued, skipped, bytes;  // bytes of elements inside the array
  int64_t once;                    // bytes of the whole array
  int64_t unread;                  // bytes of fetched blocks that no step reads
  int64_t wait_ps;                 // the core's waiting time for it, after the prologue
  bool moved;                      // the pipeline moves it
  bool by_data;                    // its block index depends on data: treated as new in every step
} OperandCount;

typedef struct {
  int64_t steps, simulated, time_ps, compute_ps, overhead_ps, wait_ps, prologue_ps, epilogue_ps,
      hbm_ps, inner_ps;  // inner: the steps of loops in the body that start copies
} Totals;

// Events of one core, for traces. kind: 'f' fetch, 'w' write back, 'c' a segment, 'o' the step's
// overhead, 's' omitted steps, 'l' a message on a link, 'q' a wait for other devices.
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
  MeshRun *mesh;  // of a kernel whose devices communicate; otherwise NULL
  TraceLog *log;  // may be NULL
  // results
  int cores;      // that have work to do
  Totals totals;  // of the slowest core, except steps and simulated
  OperandCount *operand;
  int64_t *counts;      // by segment, of all cores
  int64_t other_bytes;  // of copies between HBM and VMEM that belong to no operand
  int split_axis;       // -1: none
  const char *problem;  // why the grid is too large to be simulated, or NULL
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

// A line of the source: seconds of a core, and the largest part of them.
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
  double f32_passes;    // of the products of f32 with the most passes; 0: there are none
  double useful_flops;  // of the reference; 0: none
  LIST(Buffer) buffers;
  int64_t vmem;  // of buffers and values
  int64_t vmem_limit, vmem_default, once_bytes, moved_bytes;
  int64_t held_bytes;  // of the arrays, in HBM
  Values values;
  int streams;
  const Torus *torus;                               // for a kernel with a mesh; otherwise NULL
  double peak, hbm, hbm_sustained, vmem_bandwidth;  // of the active cores
  double seconds, lower, upper;
  const char *lower_reason, *bound;
  Unit bound_unit;        // UNITS: no unit is the bound
  bool bound_by_devices;  // by links, or by waits for other devices
  double mxu, vpu, hbm_share,
      mxu_rows;  // shares of the time; mxu_rows: of the array while it works
  double fill;   // seconds in which operations wait for each other
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

// The width of a column that also contains a name.
int name_width(int width, const char *name);
double tpu_busy(const Model *m, Unit unit);  // the share of the time in which it works

// mesh_report.c: writes nothing for a kernel without a mesh
void tpu_put_mesh(const Model *m, Buf *out);
void tpu_json_mesh(const Model *m, Buf *out);

// ---- program.c

// A call in the text: how often it is made, and its cost.
typedef struct {
  const FlowStep *step;
  const Model *model;  // of the first call; others differ if prefetched data does
  int64_t times, bytes, flops, steps;
  double seconds;
} CallCost;

typedef struct {
  const CallCost *call;
  const Model *model;
  const char *text;  // the enclosing loop variables; NULL: none
  double start;      // seconds
} ProgramIteration;

struct ProgramModel {
  Arena *arena;
  Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  ModelOptions options;
  // by step of the program; steps that are not calls, and calls that are never made, have 0
  CallCost *calls;
  LIST(ProgramIteration) iterations;  // the first iterations, if events are recorded
  int64_t times, bytes, flops, steps, dropped;
  double seconds, dispatch;
  double mxu, mxu_busy, hbm;  // shares of the time
  const char *wrong;
};
// The call that takes the largest part of the time; NULL: there is none.
const CallCost *tpu_longest(const ProgramModel *m);
// The call that uses the largest part of its VMEM.
const CallCost *tpu_fullest(const ProgramModel *m);

#endif
