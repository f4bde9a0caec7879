// The loop IR as C: shared by the files of emission.
#ifndef CODEGEN_EMIT_INTERNAL_H
#define CODEGEN_EMIT_INTERNAL_H

#include "codegen/ir/layout.h"
#include "codegen/loops/loops.h"

// The destination of the C. The loop IR determines its content.
typedef struct {
  Gen *g;
  Buf *c;  // the function being written
  int indent;
  int source_line;  // the line of the last comment that shows one
  Names names;      // in use, including those of the loop IR
  bool layout_reads_array, layout_reads_size;
  const char *region;  // the innermost named region, or NULL
} CWriter;

// writer.c
void line(CWriter *w, const char *format, ...) PRINTF_LIKE(2, 3);
void open_block(CWriter *w, const char *format, ...) PRINTF_LIKE(2, 3);  // "... {"
void close_block(CWriter *w);

// source.c: a comment with the source lines that the C below computes, unless the last comment had
// them
void show_source(CWriter *w, Span span);
void show_sources(CWriter *w, Instr *const *members, int count);

// profile.c: begins a lap of these members, for `what`; nothing unless options request it
void lap(CWriter *w, Instr *const *members, int count, const char *what);
void lap_at(CWriter *w, Span span, const char *what);
void lap_device(CWriter *w);  // at the head of a cell
void lap_outside(CWriter *w);
Span block_span(const Ref *ref);  // the position in the source that determines the block

// words of C
const char *reading(Gen *g, const char *name);  // a variable of the C function, which is read here
const Expr *pointer_expr(Gen *g, const char *base, const Expr *offset);  // base + offset
const char *pointer_text(Gen *g, const char *base, const Expr *offset);
const char *ctype(DType t);  // of an element in memory
// to elements in the arena, `offset` bytes from its beginning
const char *arena_text(Gen *g, DType element, const char *offset);
const char *quoted(Gen *g, const char *s);  // as a C string literal

// op_text.c
const char *expr_text(const Expr *e);  // as C, interned; marks its symbols as read
const char *extent_text(Gen *g, Dim d);
const char *demand_text(Gen *g, Demand demand, Dim d);
const char *scalar_text(Gen *g, const Instr *instr);
// stored: its store narrows it
const char *vector_op_text(const Instr *instr, const char *const *args, bool stored);
// below: the operand of an EXP is never above 0
const char *function_name(const char *prefix, Op op, bool below, const char *lane);
const char *packed_op_text(const Instr *instr, const char *const *args, int bits);
const char *packed_element(DType t);         // in memory: "i8", "u16", "bool"
const char *packed_lane(DType t, int bits);  // "i8", "u16", "mask8"
const char *lane_type(DType t);              // "f32", "i32", "u32"
const char *bits_lane(DType t);  // the same for operations that ignore signs: "f32", "i32", "mask"
const char *vector_type(DType t);  // "pk_f32v", "pk_i32v", "pk_mask"
const char *scalar_type(DType t);  // C type of a rank-0 value
const char *const_text(const Instr *constant);
const char *literal_text(DType t, int64_t value, double number);  // `number`: of a float
// converts to a rank-0 value as its array would hold it
const char *element_pointer(Gen *g, const Instr *value);
// narrows a result of 32 bits to t
const char *narrowed(bool lanes, DType t, const char *expression);

// declare.c
typedef const Expr *(*Value)(Gen *g, const void *of, int k);
typedef struct {
  const char *type;
  const Expr *variable;
  Value value;  // evaluated where the variable is read, with `of` and `k`
  const void *of;
  int k;
} Declaration;
typedef LIST(Declaration) Declarations;
void declare_variable(Gen *g, Declarations *list, const char *type, const Expr *variable,
                      Value value, const void *of, int k);
// those that are read; returns whether there were any
bool put_declarations(CWriter *w, const Declarations *list);
bool is_read(Gen *g, const char *name);  // by any printed text
// "TYPE NAME", marked as unused if no printed text reads it.
const char *parameter_text(Gen *g, const char *type, const char *name);
void declare_call(Gen *g, Declarations *list);  // sizes and arrays of the call
// From the array `size`, and from extents of the grid. In `prepare`, derived sizes are computed.
void declare_sizes(Gen *g, bool derived, bool of_cell, Declarations *list);
// The declarations that are read, as the first lines of a function.
void put_sizes(CWriter *w, bool derived, Buf *out);
const Expr *cell_count(Gen *g, int axis);  // of a parallel axis, counting a batch as one
void declare_axes(Gen *g, Declarations *list);
void declare_device(Gen *g, Declarations *list);  // the cell's position in the grid
void declare_buffers(Gen *g, Declarations *list);

// group.c
void emit_rows(CWriter *w, Group *group);

// right.c: right operands that are computed in loops
bool has_right_operands(const Group *group);
// Before the dots of a group: writes the loops that compute their right operands. Returns the name
// of the condition under which these loops have executed the dots, or NULL: never.
const char *emit_right_operands(CWriter *w, const Group *group);

// vector.c: expressions for one vector, or for one element, at a position in the loops
typedef struct {
  const Instr *v;
  const char *name;
  bool lanes;
} Known;
// A store that may be non-temporal: C variables that say whether it is, now and after the first
// iteration of the loop.
typedef struct {
  const Instr *store;
  const char *now, *later;
} Stream;
typedef struct {
  Gen *g;
  CWriter *w;  // NULL: no line is written
  Group *group;
  const char *skinny;  // the condition under which some dots have already been executed, or NULL
  int loop;            // the open loop over rows, or -1: row scalars of others are in memory
  int step;            // column step, or -1 between them
  const Expr *index[MAX_RANK];  // of the rows, then of the column
  const Expr *strip_row;        // index of the row in its strip
  const Instr *holds;           // a mask that is true here, or NULL
  bool reads_left;              // lanes_left was called
  bool in_registers;            // computed values do not go to memory
  bool unrounded;               // and operands of products of bf16 are rounded by the products
  bool any_bits;                // an integer in a byte may have any upper bits
  int packed;                   // bits of the elements of packed vectors; 0: vectors of PK_LANES
  int jammed;                   // rows that are processed together, from that of `index` on; 0: one
  int row;                      // the number of this row among them
  int together;                 // vectors of columns that are processed together; 0: one
  int vector;                   // the number of this vector among them
  const Expr *first;            // the column where the first of them begins
  bool address;                 // a load is written as its address
  Buf *stores;                  // where stores are written, or NULL: with everything else
  const Instr *stored;          // the member that its stores narrow, or NULL
  bool moved;                   // the value is read at another index than the loops'
  // in the last, partial vector of a row: the number of valid lanes; otherwise NULL
  const Expr *left;
  LIST(Known) known;     // values that have a C variable here
  LIST(Stream) streams;  // of the column loop being written
} Context;
bool is_constant_here(const Context *x, const Instr *v);  // readers write the number instead
bool is_skipped_here(const Context *x, const Instr *v);   // it only serves words that are joined
                                                          // or taken apart at once
const char *vector_at(Context *x, const Instr *v);   // the vector that a member computes at index
const Expr *element_at(Context *x, const Instr *v);  // the element that a member computes at index
const Expr *argument_at(Context *x, const Instr *v, bool lanes);  // a value that a member reads
const Expr *lanes_left(Context *x);                               // x->left
void know(Context *x, const Instr *v, const char *name, bool lanes);
Place place_at(Gen *g, const Place *p, int rank, const Expr *const *index);  // of one element
const char *place_text(Gen *g, const Place *p);                              // a pointer to it
const char *address(Gen *g, const Place *p, int rank, const Expr *const *index);

// row.c
const Expr *open_row_loop(CWriter *w, const Expr *from, const Expr *to);
bool scalars_follow(const Group *group, int step);
void emit_scalars(Context *x);  // all scalars of a row
void emit_scalars_after(Context *x, int step);
// The number of columns that the rows before `end` need, for masks that differ between rows.
void declare_bounds(Context *x, const Expr *end);
void lap_step(CWriter *w, const Step *step);
void emit_row(Context *x);  // the whole computation of a row, in a group without dots

// columns.c
void emit_column_step(Context *x, const Step *step);
const char *member_name(CWriter *w, const Instr *v);  // a new one
// The members of a step for a vector of columns, or for `left` lanes; no value goes to memory.
void emit_vectors(Context *x, const Step *step, const Expr *column, const Expr *left);
Place member_place(Context *x, const Instr *v);  // the memory of the current position in the loops
void keep_row_scalar(Context *x, const Instr *v,
                     const char *name);  // the scalar is needed outside its row
// The number of columns that the rows before `end` need, at most `all`.
const Expr *bound_expr(Gen *g, const StripBound *b, const Expr *end, const Expr *all);
const char *reduce_operation(const Instr *v);  // "add", "max" ..
const char *reduce_lanes(const Instr *v);      // the lane type of the computation
const char *reduce_identity(Gen *g, const Instr *v);

// micro_kernel.c
const char *micro_kernel_name(const DotKind *kind);  // the suffix of its functions' names
void put_dot_headers(Gen *g, Buf *out);              // the required ones
// the function that packs an operand
const char *pack_rows_text(Gen *g, const DotKind *kind, DType from, bool transposed);
const char *pack_panels_text(Gen *g, const DotKind *kind, DType from, bool transposed);
// the function that reads the right operand in place
const char *skinny_kernel_name(Gen *g, const DotKind *kind, DType right, bool transposed);

// dot.c
void pack_left(CWriter *w, const Instr *dot);  // if it is not row-major in memory
void pack_panels(CWriter *w, const Step *step);
// A dot of all rows of its group, as a C variable whose name it returns: its right operand is at
// the beginning of its buffer.
const char *emit_whole_product(CWriter *w, const Group *group, const Step *step);
// The same with the `count` rows of the right operand, from `part` on, that are available.
void emit_part_of_product(CWriter *w, const Step *step, const char *product, const char *part,
                          const char *count);
void put_scratch(CWriter *w, const Instr *dot);
// The rows [row, row + rows) of a product.
void emit_dot(CWriter *w, const Group *group, const Step *step, const Expr *row, const Expr *rows);

// generic.c: operations that are not loops over rows, as plain loops over elements
void emit_generic(CWriter *w, const Group *group);
void emit_scalar(CWriter *w, Instr *instr);

// nest.c: moves of elements that are strided at both ends
void emit_nests(CWriter *w, const Group *move);

// region.c
void emit_region(CWriter *w, const Schedule *schedule);

// move.c: operands between HBM and VMEM
void declare_position(Gen *g, RefGen *r, Declarations *list);  // the position of this step's block
void emit_fetch(CWriter *w, RefGen *r);
// writes an output's block back when another block replaces it
void emit_change_of_block(CWriter *w, RefGen *r);
void emit_last_writeback(CWriter *w, RefGen *r);
const Expr *streams_expr(Gen *g, const RefGen *r);  // are its stores non-temporal?
const Expr *source_of_panels(Gen *g,
                             const RefGen *r);  // the condition under which a dot reads it in place
const Expr *is_skinny_flag(Gen *g,
                           const RefGen *r);  // the condition under which its dots have few rows
const Expr *small_right(
    Gen *g, const RefGen *r);  // the condition under which it is small; NULL: irrelevant
// from one row of a block to the next, in elements
const Expr *hbm_row_stride(Gen *g, const Ref *ref);
const char *pk_dtype_name(DType t);

// dma.c: explicit memory
// ---- seen.c: a copy of views that are not windows of their refs
const Expr *layout_extent(Gen *g, const Instr *v, const Extent *e);
const Expr *place_start(Gen *g, const LayoutPlace *p);
// To another device. end: the position of its target and semaphores.
void emit_remote_view(CWriter *w, const Instr *v, const char *bytes, const char *end,
                      const char *device);
void emit_seen_copy(CWriter *w, const Instr *v, const char *bytes, const char *semaphore);
void emit_dma(CWriter *w, Instr *instr);
void clear_semaphores(CWriter *w,
                      const Instr *scope);  // those of a SCOPED, or with NULL the kernel's

// layout.c
void emit_layout(CWriter *w);
const char *layout_call(const CWriter *w);
void declare_arena(const CWriter *w, Declarations *list);

// prepare.c
void emit_prepare(CWriter *w, Buf *out);

// step.c
void emit_cell(CWriter *w);

// outline.c: moves statements of `lines`, if these are many, to `functions`. `before`: the
// variables declared before the lines.
void outline(CWriter *w, const Declarations *before, Buf *functions, Buf *lines);

// flow.c: the parts of a program's file
void emit_flow(CWriter *w);                      // its function, with the temporaries
void put_flow_entry(const Kernel *k, Buf *out);  // its members of the description

#endif
