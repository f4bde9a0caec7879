// The loop IR: the decisions between the block IR and C text. In: the block IR after the passes.
// Out: Gen with its RefGen, Val and Group, which emit reads. Uses ir.
//
// Data flow of emit_kernel (emit.c):
//   demand.c    which part of every value and ref can reach an output (edges need no work)
//   tail.c      what masks leave: reductions and dots stop where their operands end in zeros
//   forms.c     how each operand moves between HBM and VMEM: direct, copy, or a pack
//               into the layout of `dot`
//   batch.c     cells of few rows that read the same blocks go together
//   schedule.c  each region as a list of groups: loops over rows that run a sequence of
//               steps (column loops and dots)
//   absorb.c    what a loop takes over from its neighbours: accumulation, stores, the first
//               and the last step of a dot
//   buffers.c   what is kept in the arena, and where
//   group.c, generic.c, dma.c, step.c   each group, operation and grid step as C
#ifndef CODEGEN_LOOPS_GEN_H
#define CODEGEN_LOOPS_GEN_H

#include "codegen/ir/ir.h"
#include "codegen/ir/names.h"
#include "codegen/loops/expr.h"
#include "codegen/loops/target.h"

typedef struct Gen Gen;
typedef struct Group Group;

// How many elements along an axis can reach an output: NULL (none), DEMAND_FULL (all of the block),
// or the symbol of a variable that holds the number of elements of some operand's block that lie
// inside its array.
typedef const Expr *Demand;
extern const Expr demand_full;
#define DEMAND_FULL (&demand_full)

// A mask such as `col <= row` leaves less of some rows than of others. Within a strip of rows [..,
// end) the columns that any row wants are those below row_start + end - col_start (one less for
// `<`); `end` is a variable in the loop over strips.
typedef struct {
  Demand end, base;
  Dim columns;
  const Instr *mask, *row_start, *col_start;
  bool inclusive;
  bool shared;  // one loop reads what another computed so far: all take the end of the block's last
                // row
} StripBound;

// A micro-kernel of `dot`: the suffix of its name, what operands are widened to (DT_COUNT: they
// stay as they are), how many elements lie side by side along k in a panel, and the header that has
// it (NULL: pk/dot.h).
typedef struct {
  const char *name;
  DType element;
  int group;
  const char *header;
} DotKind;

enum { FEW_ROWS = 24 };  // PK_DOT_FEW

// ---- buffers in the arena

typedef struct {
  const char *name;  // C name of its pointer
  DType element;     // as stored: dot operands are widened
  int rank;
  Dim dim[MAX_RANK];
  const Expr *stride[MAX_RANK];  // in elements
  const Expr *bytes;
  const char *purpose;  // for explain and the comment beside it
  const char *slots;  // C name of how many copies lie side by side (block caches), or NULL for one
} Buffer;

// ---- refs

typedef enum { FORM_DIRECT, FORM_COPY, FORM_ROWS, FORM_PANELS } Form;

typedef struct {
  Ref *ref;
  Form form;
  bool transposed;               // PANELS, ROWS: HBM holds the block transposed
  const DotKind *kind;           // .. and what multiplies it
  const char *why;               // one line for explain
  DType element;                 // as the loops read it
  const char *stem;              // operands: what the names of its C variables begin with
  const char *name;              // C name of the pointer to element (0, ..) of the block
  const Expr *stride[MAX_RANK];  // of each axis of ref->type, in elements
  Demand inside[MAX_RANK];       // DEMAND_FULL: the block never overhangs along this axis
  Demand demand[MAX_RANK];       // what is read of it (or written back)
  Buffer *buffer;                // NULL for DIRECT
  const char *tag;               // inputs with a buffer: of which block it holds
  Region *fetch_at;              // where a COPY, ROWS or PANELS input is made present
  bool loaded, stored;
  int stores;
  const char *dot_rows;  // PANELS: C expression of the rows its dots have, when these may read it
                         // in place; or NULL
  const char *whole;  // .. C condition for that: the block lies inside its array; NULL: no matter
  const Instr
      *filled_by;  // PANELS: the dot that fills the panels as it reads the block in place; or NULL
  int64_t at_least[MAX_RANK];  // a window of constant size may be longer than its run-time axis:
                               // room for it
  const char *revisits;        // C expression: blocks that come back, or NULL: none can
  const char *most_revisits;   // .. when the grid turns through all its axes
  bool shared;                 // an output is its alias
} RefGen;

// Cells that go through a step together, their rows stacked: see batch.c.
typedef struct {
  bool stacked;
  int cell, row;  // axes of the array
} Stacking;

typedef struct {
  int axis;            // of the grid
  Demand inside;       // rows that the stacked ones of a step are; of one cell, `own`
  Dim rows;            // .. and what a cell has in all
  Dim block;           // rows of a block
  const char *run;     // C expression: so many consecutive cells read the same blocks; NULL: all do
  Stacking *operands;  // by Ref.id
  const char *own, *together;
  const char *stem;  // what the names of its other C variables begin with
} Batch;

// ---- values (Instr.note)

typedef struct {
  LIST(Instr *) users;
  Demand demand[MAX_RANK];
  bool tail_known[MAX_RANK];
  Demand tail[MAX_RANK];  // from here on along the axis, every element is tail_value: see tail.c
  double tail_value[MAX_RANK];
  Region *region;
  int position;  // of the instruction among all of the kernel's, in program order
  // placed by schedule.c
  Group *group;
  int step;   // vectors: index of the step that computes it
  int after;  // row scalars: index of the step after which it is known, -1: from the start of the
              // row
  // chosen by schedule.c and buffers.c
  bool snapshot;           // a LOAD whose ref changes before its last use: copied where it stands
  bool recompute;          // cheap: computed again in each step that uses it
  Buffer *buffer;          // NULL: lives in registers
  const Instr *stored_by;  // an operation by elements whose only use is this STORE: written to its
                           // window at once
  bool row_local;          // the buffer holds one row (or one strip of rows) at a time
  const char *scalar;      // rank 0: C expression
  const Instr *not_reusable,
      *read_before;     // answers for this vector: its place cannot be taken; nobody reads it later
  const DotKind *kind;  // DOT: what multiplies
  Buffer *panels, *left;  // DOT: operands packed before its group, where they are not at hand as
                          // the micro-kernel wants them
} Val;

static inline Val *val(const Instr *instr) { return instr->note; }

// ---- groups: the loop IR

typedef enum { STEP_COLUMNS, STEP_DOT } StepKind;

typedef struct {
  StepKind kind;
  Dim columns;            // extent of the column loop
  Demand demand;          // of it, what is computed
  LIST(Instr *) members;  // vectors, reductions and stores, in program order
  Instr *dot;             // STEP_DOT
  Instr *into;            // STEP_DOT: the STORE it accumulates into, or NULL: into its buffer
  Instr *fresh;  // .. and the condition under which the sums start at zero instead, or NULL
  bool set;      // .. they always do
  Instr *last,
      *result;  // .. the condition under which the sums go to another STORE instead, or NULL
} Step;

typedef enum { GROUP_ROWS, GROUP_GENERIC, GROUP_CONTROL, GROUP_SCALAR } GroupKind;

struct Group {
  GroupKind kind;
  int index;  // in its region's schedule
  Region *region;
  int leads;  // axes before the column axis
  Dim lead[MAX_RANK];
  Demand lead_demand[MAX_RANK];
  LIST(Step) steps;
  LIST(Instr *) scalars;  // row scalars and their stores, in program order
  Instr *instr;           // GENERIC, CONTROL, SCALAR
  bool has_dot, recomputes;
  int strip;  // rows a strip; 0: no strips
  int room;   // rows that its buffers have: so many rows are one strip
};

typedef struct {
  LIST(Group *) groups;
} Schedule;

// ---- the generator

// Blocks along an axis of an array that have the same elements inside it.
typedef struct {
  Dim dim, block;
  const char *index,
      *length;  // where the block is, and how long a slice is: interned C of the index map
  AtMode at;
  Demand count;
} Inside;

// A name that was made of `base` and a number, and its place in `taken`: it is in use while it
// still has that place.
typedef struct NumberedName {
  const struct NumberedName *before;  // made of the same base
  const char *name;
  int place, number;
} NumberedName;

typedef struct {
  const char *name;  // interned; NULL: a free slot
  int place;         // in `taken`
  bool kept;
  int all_kept;              // numbers from 1 on of kept names made of it, without a gap
  const NumberedName *last;  // taken name made of it
} NameUse;

typedef struct {
  NameUse *at;
  int count, capacity, kept;  // kept: how many of `kept` it knows
} NameTable;

struct Gen {
  Kernel *k;
  Arena *arena;
  const EmitOptions *options;
  const Target *target;
  int lanes, panel;  // lanes of a vector; columns of a panel
  RefGen *refs;      // by Ref.id
  LIST(Buffer *) buffers;
  bool launch_reads;  // grid or requirements read prefetched operands
  LIST(StripBound) bounds;
  Batch *batch;  // or NULL
  ExprPool exprs;
  LIST(const Expr *)
  rows;  // lengths of rows in memory that follow from run-time sizes: declared symbols
  LIST(Inside) insides;      // distinct counts of elements inside an array
  NameRole role;             // of the names that are made
  LIST(const char *) taken;  // C names in use in the open scopes
  LIST(const char *) kept;   // .. in all of the function
  NameTable names;           // where each is in these lists
  const char **size_name, **axis_name;
  int instr_count;
  Buf *c;  // the cell function under construction
  int indent;
  Buf *loops, *explain;  // may be NULL
};

// text.c
bool is_known_name(Arena *arena, NameTable *t, const char *name);
void add_known_name(Arena *arena, NameTable *t, const char *name);
const char *text(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);
void line(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);
void open_block(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);  // "... {"
void close_block(Gen *g);
const char *unique_name(Gen *g, const char *base);  // a C identifier nothing else uses
const char *lasting_name(Gen *g,
                         const char *base);  // .. in all of the function, whatever scope is open
// A stem such that `forms`, each with one %s for it, are names nothing else uses; lasting ones,
// from now on.
const char *name_family(Gen *g, const char *source, const char *const *forms, int count);
const Expr *number(Gen *g, int64_t value);
const Expr *extent_expr(Gen *g, Dim d);
const Expr *demand_expr(Gen *g, Demand demand, Dim d);  // the extent a loop runs to
const char *extent_text(Gen *g, Dim d);
const char *demand_text(Gen *g, Demand demand, Dim d);
const char *mul_text(Gen *g, const char *a, const char *b);  // folds constants; these saturate then
const char *add_text(Gen *g, const char *a, const char *b);
const char *offset_text(Gen *g, const char *index, const Expr *stride);  // index * stride
const char *ctype(DType t);                                              // of an element in memory
bool is_constant(const char *expression, int64_t *value);  // a number and nothing else
const char *quoted(Gen *g, const char *s);                 // as a C string
void explain(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);
int line_of(Gen *g, Span span);

// demand.c
void find_demand(Gen *g);
StripBound *strip_bound(Gen *g, Demand demand);      // NULL when it is none
Demand demand_outside(Gen *g, Demand demand);        // as known outside the loop over strips
Demand contracted_demand(Gen *g, const Instr *dot);  // along the axis a plain dot sums over
bool index_in_range(Gen *g, const Ref *ref,
                    int axis);  // is this squeezed index sure to lie in the array?

// tail.c
Demand ends_in_zero(Gen *g, const Instr *v,
                    int axis);  // from where on along the axis it is zero; NULL: not known
Demand ends_in_identity(Gen *g, const Instr *reduce,
                        int axis);  // .. the operand of a reduction is its identity
void drop_masks(Gen *g);            // those that are true wherever their value is wanted

// forms.c
void choose_forms(Gen *g);
bool shares_memory(
    const Gen *g,
    const Ref *ref);  // with an output: its blocks are fetched when the grid says so, each time

// dot_kind.c
void choose_dot_kinds(Gen *g);
DType dot_element(const DotKind *kind, DType operand);  // how an operand is stored for it
const char *pack_rows_text(Gen *g, const DotKind *kind, DType from,
                           bool transposed);  // the function that packs an operand
const char *pack_panels_text(Gen *g, const DotKind *kind, DType from, bool transposed);
const char *few_rows_text(Gen *g, const DotKind *kind, DType right,
                          bool transposed);  // .. reads the right one in place
int odd_columns(const Gen *g);  // columns of an f32 dot that go on their own, at most: PK_DOT_ODD
bool may_be_odd(const Gen *g, const Instr *dot);  // .. may be left over from whole vectors
void put_dot_headers(Gen *g, Buf *out);           // those that the C needs
const char *why_kind(Gen *g, const Instr *dot);   // for explain, or NULL

// batch.c
void find_batch(Gen *g);
bool is_row_index(const Instr *v, const Batch *batch);  // an iota that counts the rows of one cell
const char *row_stride(Gen *g, const Ref *ref,
                       int row);  // in the array, of rows that may be stacked
void declare_batches(Gen *g, const char *indent, Buf *out);  // how many there are, from sizes
void declare_batch(Gen *g, const char *index, Buf *out);     // the cells of one
void explain_batch(Gen *g);

// schedule.c
Schedule *schedule_region(Gen *g, Region *region);
bool is_row_scalar(const Instr *instr);        // one element a row
bool is_transparent(const Instr *instr);       // evaluated where it is used
bool load_is_vector(const Instr *instr);       // LOAD, STORE: lanes are neighbours in the ref
bool compares_with_index(const Instr *instr);  // i32 lanes against an i64 scalar
bool has_i64_lanes(const Instr *instr);        // .. any others: no loop over vectors
bool feeds_only_dots(const Instr *transpose);  // a transpose that the pack before `dot` carries out
bool instr_reads(const Instr *instr, const Ref *ref);

// absorb.c
void finish_group(Gen *g, Group *group);  // of loops over rows
void store_at_once(Gen *g, Group *generic);

// buffers.c
Buffer *buffer_new(Gen *g, const char *base, DType element, int rank, const Dim *dims,
                   const char *purpose);
Buffer *buffer_with_room(Gen *g, const char *base, DType element, int rank, const Dim *dims,
                         const int64_t *at_least, const char *purpose);
void place_values(Gen *g, Schedule *s);  // which members of the groups need memory
Buffer *panels_buffer(Gen *g, const char *base, const DotKind *kind, DType operand, Dim k, Dim n,
                      const char *purpose);
const Expr *panel_depth(Gen *g, const DotKind *kind, Demand demand, Dim k);
void ref_buffers(Gen *g);
const Expr *slot_bytes(Gen *g, const Buffer *b);
void emit_layout(Gen *g, Buf *out);

int run_of_step(const Group *group, int step);  // dots before a step
int loop_of_step(
    const Group *group,
    int step);  // which of the loops over rows it is in: all in one where there is no dot
int loop_after(const Group *group, int after);  // .. row scalars that are known after a step

// Where an element of a value or ref is: pointer expression, element dtype, strides. False when it
// is only in registers.
typedef struct {
  const char *pointer;
  DType element;
  const Expr *stride[MAX_RANK];
} Place;
bool place_of(Gen *g, const Instr *v, Place *place);
void place_of_access(Gen *g, const Instr *access,
                     Place *place);  // of the window of a LOAD or STORE
void place_of_unit_axes(Gen *g, const Instr *reshape, const Place *from,
                        Place *to);  // RESHAPE that only adds or drops axes of 1
const char *start_text(Gen *g, const Instr *access,
                       int axis);  // of a LOAD's or STORE's window, clamped into the ref

// group.c
void emit_rows(Gen *g, Group *group);

// vector.c: expressions of one vector, or of one element, at a place in the loops
typedef struct {
  const Instr *v;
  const char *name;
  bool lanes;
  const char *const *index;
} Known;
// A store that may go past the caches: C variables that say whether it does now, and after the
// loop's first turn.
typedef struct {
  const Instr *store;
  const char *now, *turned;
} Stream;
typedef struct {
  Gen *g;
  Group *group;
  int loop;  // over rows, that is open, or -1: row scalars of others are in memory
  int step;  // column step, or -1 between them
  const char *index[MAX_RANK];  // of the rows, then of the column
  const char *strip_row;        // index of the row in its strip
  const Instr *holds;           // a mask that is true here, or NULL
  const char *left;      // in the last, partial vector of a row: how many lanes count; else NULL
  LIST(Known) known;     // values that have a C variable here
  LIST(Stream) streams;  // of the column loop at hand
} Context;
const char *vector_at(Context *x, const Instr *v);   // what a member computes: the vector at index
const char *element_at(Context *x, const Instr *v);  // .. the element at index
const char *argument_at(Context *x, const Instr *v, bool lanes);  // a value that a member reads
void know(Context *x, const Instr *v, const char *name, bool lanes);
const char *address(Context *x, const Place *p, int rank, const char *const *index);

const char *reduce_operation(const Instr *v);  // "add", "max" ..
const char *reduce_lanes(const Instr *v);      // lane type it works in
const char *reduce_identity(Gen *g, const Instr *v);

// generic.c: operations that are not loops over rows: plain loops over elements
void emit_generic(Gen *g, Instr *instr);
void emit_scalar(Gen *g, Instr *instr);

// op_text.c
const char *scalar_text(Gen *g, const Instr *instr);  // rank-0 expression
const char *index_text(Gen *g, const Region *region,
                       int result);  // of an index map, extent, requirement
const char *scalar_op_text(Gen *g, const Instr *instr, const char *const *args);
const char *vector_op_text(Gen *g, const Instr *instr, const char *const *args);
const char *lane_type(DType t);    // "f32", "i32", "u32"
const char *vector_type(DType t);  // "pk_f32v", "pk_i32v", "pk_mask"
const char *scalar_type(DType t);  // C type of a rank-0 value
const char *const_text(Gen *g, const Instr *constant);
const char *element_pointer(Gen *g,
                            const Instr *value);  // to a rank-0 value as its array would hold it
const char *narrowed(Gen *g, const char *prefix, DType t,
                     const char *expression);  // what 32 bits computed, brought back to t

// region.c
void find_fetches(Gen *g);  // where each input's block is made present
void emit_region(Gen *g, Region *region);

// move.c: operands between HBM and VMEM
void emit_position(Gen *g, RefGen *r,
                   Buf *setup);  // where this step's block is, and the pointer to a DIRECT one
void emit_fetch(Gen *g, RefGen *r);
void emit_turn(Gen *g,
               RefGen *r);  // an output's block is written back when another takes its place
void emit_last_writeback(Gen *g, RefGen *r);
const char *source_of_panels(Gen *g, const RefGen *r);  // when a dot reads it in place: a condition
const char *hbm_row_stride(Gen *g,
                           const Ref *ref);  // from one row of a block to the next, in elements
const char *pk_dtype_name(DType t);

// dma.c: memory by hand
void emit_dma(Gen *g, Instr *instr);
void clear_semaphores(Gen *g, const Instr *scope);  // of a SCOPED, or with NULL of the kernel

// explain.c
void explain_all(Gen *g);

// step.c
void emit_cell(Gen *g);
bool mentions(const char *c_text, const char *name);
void emit_extents(Gen *g,
                  Buf *out);  // sizes and grid extents as C variables, from the array `size`

#endif
