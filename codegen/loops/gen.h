// The loop IR: the decisions between the block IR and C text. In: the block IR after the passes.
// Out: Gen with its RefGen, Val and Group, which emission reads. Decisions are in loops.h. Uses ir.
//
// The tree: a Schedule (region) has Groups, a group of loops over rows has Steps, a group of
// control flow has the Schedules of its regions. The decisions by folder; decisions.def has their
// order:
//   cells/
//     batch.c     cells of few rows that read the same blocks go together
//     adjacent.c  cells of few rows whose blocks are adjacent go together
//     split.c     cells are cut into parts, for threads that would have none
//     merge.c     the steps of a sum become one, where a product has few rows or columns
//   memory/
//     forms.c     how each operand moves between HBM and VMEM: direct, copy, or a pack into the
//                 layout of `dot`
//     fetch.c     where each input is made present
//     snapshot.c  values that are kept where they are computed
//     buffers.c   which values are kept in memory
//     inside.c    parts of concatenations are kept at their place in it
//     alias.c     outputs that share the memory of an input
//     arena.c     how much memory each buffer takes
//     estimate.c  VMEM and work of a call
//   rows/
//     demand.c    which part of every value and ref can reach an output (edges need no work)
//     tail.c      what masks leave: reductions and dots stop where their operands end in zeros
//     ranges.c    bounds of the values of floats
//     divide.c    stores of rows that a reshape divides
//     schedule.c  each region as a list of groups: loops over rows that run a sequence of steps
//                 (column loops and dots)
//     method.c    how operations that are not loops over rows are computed
//     nest.c      moves of elements as loops with strides
//     jam.c       unroll and jam: several rows share a loop over columns
//     columns.c   iterations of the loops over columns: vectors, tails, masks, prefetches
//   products/
//     absorb.c    neighbours that a loop absorbs: accumulation, stores, the first and the last step
//                 of a dot
//     sums.c      sums of dots
//     windows.c   windows of an image that dots read in place
//     strips.c    strips: rows of a group with dots that are computed together
//     right.c     loops that compute the right operand while the dot runs
#ifndef CODEGEN_LOOPS_GEN_H
#define CODEGEN_LOOPS_GEN_H

#include "codegen/ir/ir.h"
#include "codegen/loops/expr/expr.h"
#include "codegen/loops/machine.h"
#include "codegen/loops/expr/scope.h"
#include "codegen/loops/target.h"

typedef struct Gen Gen;
typedef struct Group Group;
typedef struct Schedule Schedule;

// How many elements along an axis can reach an output: NULL (none), DEMAND_FULL (all of the block),
// or the symbol of a variable that holds the number of elements of some operand's block that are
// in bounds.
typedef const Expr *Demand;
extern const Expr demand_full;
#define DEMAND_FULL (&demand_full)

// A mask such as `col <= row` leaves less of some rows than of others. Within a strip of rows [..,
// end) the columns that any row needs are those below row_start + end - col_start (one less for
// `<`); `end` is a variable in the loop over strips.
typedef struct {
  Demand end, base;
  Dim columns;
  const Instr *mask, *row_start, *col_start;
  bool inclusive;
  bool shared;  // one loop reads what another computed so far: all take the end of the block's last
                // row
} StripBound;

// A micro-kernel of `dot`: what operands are widened to (DT_COUNT: they stay as they are), and how
// many elements are adjacent along k in a panel.
typedef enum {
  DOT_F32,
  DOT_BF16,
  DOT_I8,
  DOT_U8,
  DOT_I8_U8,  // of the left and the right operand
  DOT_U8_I8,
  DOT_I16,
  DOT_I32,
  DOT_F64,
  DOT_I64,
  DOT_KINDS
} DotId;

typedef struct {
  DotId id;
  DType element;
  int group;
} DotKind;

// ---- buffers in the arena

typedef struct Buffer Buffer;
struct Buffer {
  int id;            // index in Gen.buffers
  const char *name;  // C name of its pointer
  DType element;     // as stored: dot operands are widened
  int rank;
  Dim dim[MAX_RANK];
  const Expr *stride[MAX_RANK];  // in elements
  const Expr *bytes;
  const char *purpose;  // for explain and the comment next to it
  bool signalled;       // semaphores that other devices signal before this one has begun: they are
                        // next to the tags of block caches, which are cleared at launch
  // Of block caches: how many copies are adjacent, and bytes from one to the next.
  const Expr *copies, *pitch;  // NULL: one copy
  const Expr *reserved;        // bytes that it takes in the arena
  const Buffer *inside;        // its rows are rows of that one, or NULL: it has bytes of its own
  const Expr *offset;          // `inside`: where its first row begins in that buffer, in bytes
};

// ---- refs

typedef enum { FORM_DIRECT, FORM_COPY, FORM_ROWS, FORM_PANELS } Form;

typedef struct {
  Ref *ref;
  Form form;
  bool transposed;               // PANELS, ROWS: HBM holds the block transposed
  const DotKind *kind;           // PANELS, ROWS: the micro-kernel that multiplies it
  const Expr *depth;             // PANELS: rows of a panel
  const char *why;               // one line for explain
  DType element;                 // as the loops read it
  const char *stem;              // operands: what the names of its C variables begin with
  const char *name;              // C name of the pointer to element (0, ..) of the block
  const Expr *stride[MAX_RANK];  // of each axis of ref->type, in elements
  // By axis of the array: where the block of a step starts, in elements, and what names it: a
  // variable, perhaps that of an operand before it whose blocks start there, or what needs no name.
  const Expr *start[MAX_RANK], *at[MAX_RANK];
  Demand inside[MAX_RANK];  // DEMAND_FULL: the block never overhangs along this axis
  Demand demand[MAX_RANK];  // the part that is read (or written back)
  int carried;              // the first grid axis that may move between a write of it and a read
  bool in_range[MAX_RANK];  // by axis of the array: its blocks provably start in bounds
  bool streams;             // stores to large ones are non-temporal
  Buffer *buffer;           // NULL for DIRECT
  Region *fetch_at;         // where a COPY, ROWS or PANELS input is made present
  bool loaded, stored;
  LIST(Instr *)
  writers;       // STOREs and copies to it, in program order; where other devices reach
                 // it, also what orders these with this one
  bool reached;  // other devices write to it
  int stores;
  struct {
    const Expr *when;    // COPY: condition under which the block is used in place; or NULL
    const Expr *always;  // `when` where it is the same in all cells; or NULL
    const Expr
        *dot_rows;      // PANELS: the rows its dots have, when these may read it in place; or NULL
    const Expr *whole;  // condition of `dot_rows`: the block is within its array; NULL: it need not
    const Instr *filled_by;  // PANELS: the dot that fills the panels as it reads the block; or NULL
  } in_place;
  int64_t at_least[MAX_RANK];  // minimum extent for each axis: a constant-size window may exceed
                               // the run-time axis
  struct {
    const Expr *count;  // number of blocks that are revisited, or NULL: none can be
    const Expr *most;   // `count` when the grid runs through all its axes
  } revisited;
  bool shared;       // an output is its alias
  bool holds_input;  // an output is its alias, which is read and written instead of both
} RefGen;

// Cells that go through a step together, their rows stacked: see batch.c; or their columns side by
// side: see adjacent.c.
typedef struct {
  bool stacked;
  int cell, row;  // axes of the array
} Stacking;

typedef struct {
  int axis;            // of the grid
  bool columns;        // side by side
  Demand inside;       // rows that the stacked ones of a step are; of one cell, `own`. Or columns
  Dim rows;            // rows that a cell has in all
  Dim block;           // rows of a block
  const Instr *run;    // number of consecutive cells that read the same blocks; NULL: all
  Stacking *operands;  // by Ref.id
  bool *adjacent;      // `columns`: by Ref.id, whether each cell has a block of its own
  int64_t most;        // `columns`: the most cells that go together
  const Expr *own, *together;
  const char *stem;  // what the names of its other C variables begin with
} Batch;

// Steps that are one: see merge.c.
typedef struct {
  int axis;              // of the grid
  const Expr *when;      // the sizes at which they are one
  const Expr *together;  // as many steps as a step is
} Merge;

// A cell that is several, each with a part of its rows: see split.c.
typedef struct {
  int axis;       // of the grid
  Demand inside;  // rows of a step, of its block or of a part of it
  Dim rows;       // rows of the array
  int64_t block;  // rows of a block
  int least;      // the fewest rows of a part
  bool dots;      // rows of products
  // What a call decides: how many parts a cell has, and their length. Of a part: its number among
  // the parts of all cells along the axis, and its first row in the block.
  const Expr *parts, *length, *place, *first;
} Split;

// What a byte of the right operand of a product holds: `fields` elements of `bits` bits, from bit
// `first` on. The value of one is (field ^ flip) - bias. Field f of byte i is element
// k_first + i * k_byte + f * k_field along k. See fields.c.
typedef struct {
  int fields, bits, first;
  int64_t flip, bias, k_first, k_byte, k_field;
} Fields;

// ---- values (Instr.note)

// Along an axis, every element from `from` on is `value`: see tail.c.
typedef struct {
  Demand from;  // NULL: there is no such element
  double value;
  bool known;  // in Val: it was looked for
} Tail;

typedef struct {
  LIST(Instr *) users;
  Demand demand[MAX_RANK];
  Tail tail[MAX_RANK];
  unsigned in_bounds;  // LOAD, STORE: axes of the ref along which the window is provably in bounds
  Region *region;
  int position;  // of the instruction among all of the kernel's, in program order
  // placed by schedule.c
  Group *group;
  int step;   // vectors: index of the step that computes it
  int after;  // row scalars: index of the step after which it is known, -1: from the start of the
              // row
  // chosen by schedule.c and buffers.c
  bool snapshot;           // a LOAD whose ref changes before its last use: copied where it is
  bool recompute;          // cheap: computed again in each step that uses it
  bool elsewhere;          // `recompute`: not in its own step, where nothing reads it
  Buffer *buffer;          // NULL: lives in registers
  const Instr *stored_by;  // an operation by elements whose only use is this STORE: written to its
                           // window at once
  bool row_local;          // the buffer holds one row (or one strip of rows) at a time
  const Expr *scalar;      // rank 0: the variable that holds it, or NULL: there is none
  // Of buffers.c. Each is the last query for which the answer was no: can its buffer be reused, is
  // the value read later, is it recomputed later?
  struct {
    const Instr *not_reusable, *read_before, *not_again;
  } memo;
  const Instr *divided;     // STORE: the reshape of its value that its window has; see divide.c
  const Instr *only_for;    // the mask for whose selections alone it is computed
  bool never_overflows;     // EXP: its operand is never above 0
  bool narrowed_by_stores;  // its stores round it, and nothing else reads its vectors: see narrow.c
  struct {
    const DotKind *kind;    // what multiplies
    const Fields *fields;   // what the bytes of its right operand hold, or NULL
    const Expr *depth;      // rows of its panels
    bool tail_columns;      // columns may be left over from whole vectors, computed on their own
    Buffer *panels, *left;  // operands packed before its group, where they are not in memory as the
                            // micro-kernel requires
  } dot;                    // DOT
  Buffer *scratch;          // SORT, ARGSORT: keys and order of a row; DOT: left rows of a product
                            // that may go panel by panel, or NULL
  int64_t first;            // SORT, ARGSORT: number of leading elements that are read; 0: all
} Val;

static inline Val *val(const Instr *instr) { return instr->note; }

// ---- groups: the loop IR

// How a column loop runs along a row: whole iterations of a few vectors, then the remaining
// columns, a vector at a time.
typedef struct {
  int vectors;   // of an iteration; a reduction has one sum for each
  bool whole;    // are there whole iterations?
  bool rest;     // may columns remain after them?
  bool partial;  // may the remaining columns be less than a vector?
  int64_t part;  // number of columns of a part of a float sum, whole iterations; 0: one part
  bool aligned;  // the second iteration begins where the first of `streamed` is aligned in memory
  LIST(Instr *) streamed;      // stores that may be non-temporal
  LIST(const Instr *) ahead;   // loads whose next row is prefetched into L2
  const StripBound *unmasked;  // the iterations before this bound of the row do not use its mask
  int packed;  // bits of an element in the packed vectors of the first iterations; 0: none
  // Number of vectors of one of the first iterations, whose words are joined from one vector of
  // each part; 0: one vector.
  int together;
} ColumnLoop;

// A step that is a dot.
typedef struct {
  Instr *dot;           // NULL: the step is a column loop
  Demand along;         // the number of terms of its sums
  RefGen *source;       // the right operand if it may be read in place; or NULL
  Instr *onto;          // the dot to whose sums it adds its own, or NULL
  LIST(Instr *) parts;  // the dots of one product, itself the last, in order
  int64_t depth;        // terms of the sums of all `parts`
  bool window;          // the left operand is read in place; see windows.c
  Instr *into;          // the STORE it accumulates into, or NULL: into its buffer
  Instr *fresh;         // `into`: the condition under which the sums start at zero instead, or NULL
  bool set;             // `into`: the sums always start at zero
  // last: `into`: the condition under which the sums go to the STORE `result` instead, or NULL
  Instr *last, *result;
  Group *right;   // loops that compute the right operand while the dot runs, or NULL
  bool in_place;  // it reads the right operand in place, not in panels
  Buffer *aside;  // few rows times `right`: sums of a part of k; NULL: k is one part
} Product;

// A loop over columns or a dot, for a row of a group.
typedef struct {
  Dim columns;            // extent of the column loop, or columns of the product
  Demand demand;          // how much of it is computed
  bool joined;            // it is fused with a later one
  LIST(Instr *) members;  // vectors, reductions and stores, in program order
  ColumnLoop loop;        // its loop over columns
  Product product;
} Step;

static inline bool is_dot(const Step *step) { return step->product.dot != NULL; }
// The position of v among the members, or -1.
static inline int member_at(const Step *step, const Instr *v) {
  int m = step->members.count - 1;
  while (m >= 0 && step->members.at[m] != v) m--;
  return m;
}
static inline bool has_member(const Step *step, const Instr *v) { return member_at(step, v) >= 0; }

// A move as nested loops: `count` elements along each axis, `to` and `from` elements apart at its
// two ends, from element `to_at` and `from_at` of the places on.
typedef struct {
  const Expr *count, *to, *from;
} NestAxis;
typedef struct {
  int rank, bytes;  // axes; bytes of an element
  NestAxis axis[2 * MAX_RANK];
  const Expr *to_at, *from_at;
  bool rows;   // the elements of its last axis are neighbours in the result: copied together
  int apart;   // `rows`: their distance at the source, in elements: 1, -1 or 2
  int column;  // the axis along which they are neighbours at the source: it and the last one are
               // transposed in registers, in square blocks; -1: none
} Nest;

typedef enum { GROUP_ROWS, GROUP_GENERIC, GROUP_CONTROL, GROUP_SCALAR } GroupKind;

// How an operation that is not a loop over rows is computed.
typedef enum {
  METHOD_ELEMENTS,   // an element at a time, from the operands' at its index
  METHOD_MOVE,       // an element at a time, from the operand's element at another index
  METHOD_ROWS,       // a move by whole rows, or by square blocks that go through registers
  METHOD_STRIDED,    // a move of an element at a time, at constant distances
  METHOD_TRANSPOSE,  // square blocks go through registers
  METHOD_CONCATENATE,
  METHOD_DONE,  // by the loops that compute its parts
  METHOD_PAD,
  METHOD_REDUCE,
  METHOD_REDUCE_ROWS,    // a few rows into one, a vector of columns at a time
  METHOD_REDUCE_STRIPS,  // rows into one, a few rows of a strip of columns at a time
  METHOD_ARG_REDUCE,
  METHOD_ARG_ROWS,   // of rows, a vector of columns at a time
  METHOD_ARG_LINES,  // along lines that are in memory one element after the other
  METHOD_SCAN,
  METHOD_SCAN_ROWS,   // row by row, a vector of columns at a time
  METHOD_SCAN_LINES,  // along several lines at once, square blocks go through registers
  METHOD_SORT,
  METHOD_SORT_LINES,     // by networks, several lines side by side or one after the other
  METHOD_CONTRACT,       // each element is a sum of products
  METHOD_PRODUCTS,       // a product of two matrices for each index of leading axes
  METHOD_WIDE_PRODUCTS,  // likewise, of 64-bit elements with any strides
  METHOD_BYTE_PRODUCTS,  // likewise, of bytes that are contiguous along k
  METHOD_COUNT
} Method;

struct Group {
  GroupKind kind;
  Method method;  // GENERIC
  int index;      // in its region's schedule
  Region *region;
  int leads;  // axes before the column axis
  Dim lead[MAX_RANK];
  Demand lead_demand[MAX_RANK];
  LIST(Step) steps;
  LIST(Instr *) scalars;  // row scalars and their stores, in program order
  Instr *instr;           // GENERIC, CONTROL, SCALAR
  bool has_dot, recomputes;
  LIST(Nest) nests;  // METHOD_ROWS, METHOD_STRIDED: the parts of the move
  struct {
    const Group *dots;  // the group whose dots it computes for as they go, or NULL
    int rows;           // computed at a time
    int in_registers;   // for at most this many rows, values are multiplied before they are in
                        // memory
    int vectors;        // `in_registers`: vectors of each row of a part
    LIST(const Instr *) ahead;  // loads whose next rows are brought into L2 meanwhile
  } feeds;                      // ROWS
  int jammed;                   // rows that go through the columns of its only step together, or 0
  bool by_words;  // such rows share words whose parts they are, so the first begins one
  struct {
    int rows;         // of a strip; 0: no strips
    int line;         // every strip ends at a multiple of this number of rows; 0: anywhere
    int buffer_rows;  // of its buffers: the maximum of a strip
    bool one;         // all rows are one strip
    LIST(const StripBound *) bounds;  // that its loops end at
  } strips;
  Schedule *inner[2];  // CONTROL: of the regions of instr, as they are numbered there; NULL: empty
};

// A region: the inputs that are made present where it begins, then its groups in order.
struct Schedule {
  LIST(RefGen *) fetches;
  LIST(Group *) groups;
};

// ---- tables

enum { TABLE_SIZE = 16 };  // lanes of the vectors that have tables
// A value as a function of the low four bits of another one.
typedef struct {
  const Instr *index;
  bool in_byte;  // it is read from a byte, whose other bits do not matter
  double value[TABLE_SIZE];
} Table;

// ---- estimates: the VMEM and the work of a call

// A block or scratch in VMEM of a TPU, in whole tiles, all its buffers.
typedef struct {
  const Ref *ref;
  const Expr *bytes;
} VmemPart;

// A number times run-time sizes.
typedef struct {
  double factor;
  int sizes;
  int size[2 * MAX_RANK];  // indices, in the order of the axes
} WorkTerm;
typedef LIST(WorkTerm) Work;

// ---- the generator

// Blocks along an axis of an array that have the same elements inside it.
typedef struct {
  Dim dim, block;
  const Expr *index, *length;  // where the block is; how long a slice is, or NULL
  AtMode at;
  Demand count;
} Inside;

struct Gen {
  Kernel *k;
  Arena *arena;
  const EmitOptions *options;
  const Target *target;
  int lanes, panel;  // lanes of a vector; columns of a panel
  RefGen *refs;      // by Ref.id
  LIST(Buffer *) buffers;
  bool launch_reads;  // grid or requirements read prefetched operands
  LIST(StripBound *) bounds;
  Batch *batch;  // or NULL
  Split *split;  // or NULL
  Merge *merge;  // or NULL
  Schedule *body;
  LIST(VmemPart) vmem;
  Work step_work;  // operations of a step, about
  struct {
    bool widened;  // then the elements of the first output in its array, and in its blocks:
    WorkTerm array_elements, block_elements;
  } blocks;
  ExprPool exprs;
  // lengths of rows in memory that follow from run-time sizes: declared symbols
  LIST(const Expr *) rows;
  LIST(Table) tables;    // that loops look up
  bool explains_tables;  // the title of their list is written
  LIST(Inside) insides;  // distinct counts of elements inside an array
  Names names;           // of what the loop IR names: operands, sizes, axes, buffers
  struct {
    int functions, statements, runs;
  } outlined;  // by emission: functions of a long cell, and what became calls of them
  struct {
    const char **size, **axis, **device;
  } c_name;
  Buf *explain;  // may be NULL
};

#endif
