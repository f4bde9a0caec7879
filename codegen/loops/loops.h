// The decisions between the block IR and C text, which fill the loop IR of gen.h, and the
// quantities that they use. Uses ir.
#ifndef CODEGEN_LOOPS_LOOPS_H
#define CODEGEN_LOOPS_LOOPS_H

#include "codegen/ir/axes.h"
#include "codegen/loops/gen.h"
#include "codegen/loops/expr/notation.h"

// text.c
const char *text(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);
const Expr *number(Gen *g, int64_t value);
// of the arguments before the first NULL
const Expr *quantity(Gen *g, ExprFunction function, const Expr *a, const Expr *b, const Expr *c);
const Expr *extent_expr(Gen *g, Dim d);
const Expr *demand_expr(Gen *g, Demand demand, Dim d);  // the extent a loop runs to
const char *extent_plain(Gen *g, Dim d);                // for people
const char *demand_plain(Gen *g, Demand demand, Dim d);
const Expr *grid_extent(Gen *g, int axis);
void explain(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);
int line_of(Gen *g, Span span);

// notes.c
// A generator with its notes on the values and refs of a kernel, before any decision.
Gen *gen_new(Kernel *k, const EmitOptions *options, Buf *explain_text);
// Rebuilds the lists of users after instructions were removed, and removes values without users.
void find_users_again(Gen *g);
// Does it have a result and no effect? Then it may be removed if the result is not read.
bool has_value_only(const Instr *v);

// build.c
// A row of decisions.def, about the kernel (`run`) or a region of it (`in_region`). needs: a set of
// the earlier rows, by index.
typedef struct {
  const char *name;
  unsigned needs;
  void (*run)(Gen *g);
  void (*in_region)(Gen *g, Schedule *s);
} Decision;
extern const Decision decisions[], region_decisions[];
extern const int decision_count, region_decision_count;
// Makes every decision, and verifies the result. The notes for explain go to `explain_text`, which
// may be NULL.
Gen *build_loops(Kernel *k, const EmitOptions *options, Buf *explain_text);

// tree.c
// Every group of a region and of those inside it.
void visit_groups(Gen *g, Schedule *s, void (*visit)(Gen *g, Group *group));
// Removes a member or scalar from a group.
void take_out(Group *group, const Instr *v);
// Do the row loops of a group contain a store for which this holds?
bool any_store(const Group *group, bool (*holds)(const Instr *store, const void *context),
               const void *context);
int run_of_step(const Group *group, int step);  // dots before a step
// the number of the loop over rows that it is in: without dots all are in one
int loop_of_step(const Group *group, int step);
int loop_of(const Group *group, const Instr *v);
int loop_after(const Group *group,
               int after);  // the loop of row scalars that are known after a step

// alias.c
// Does each step read one block of the output's alias, and then write the same block of both?
bool may_go_in_place(const Gen *g, const Ref *output);
void read_in_output(Gen *g, Ref *output);  // reads of its alias become reads of the output

// verify.c
// NULL, or a violated rule: its name, where and how.
const char *verify_loops(Gen *g);

// bounds.c
StripBound *strip_bound(Gen *g, Demand demand);  // NULL: it is none
Demand demand_outside(Gen *g, Demand demand);    // as known outside the loop over strips

// demand.c
void find_demand(Gen *g);
bool demand_is_met(Gen *g);                          // are all reads within the demand?
Demand contracted_demand(Gen *g, const Instr *dot);  // along the contracted axis of a plain dot

// pads.c
// the position along the axis from which on padding makes it zero; NULL: unknown
Demand padded_end(const Gen *g, const Instr *v, int axis);
// For a reshape's axis with demand d: the axis of its operand whose blocks it counts, and the
// number of blocks needed; -1: unknown.
int outer_axis(const Gen *g, const Instr *v, int axis, Demand d, Demand *of);

// tail.c
// the position along the axis from which on it is zero; NULL: unknown
Demand ends_in_zero(Gen *g, const Instr *v, int axis);
// the position along the axis from which on the operand of a reduction is its identity
Demand ends_in_identity(Gen *g, const Instr *reduce, int axis);
void drop_masks(Gen *g);  // those that are true wherever their value is needed

// forms.c
void choose_forms(Gen *g);
// does it share memory with an output? Its blocks are then fetched at every step that the grid
// prescribes
bool shares_memory(const Gen *g, const Ref *ref);
void find_windows_in_bounds(Gen *g);
// Is a store non-temporal if its array is large?
bool may_stream(const Gen *g, const Instr *store);
// Does the step read back what the store wrote?
bool reads_back(const Gen *g, const Step *step, const Instr *store);
bool may_be_read_back(const RefGen *r);  // do loads read data that stores wrote to it?
bool may_lie_in_hbm(const RefGen *r);    // is it read or written in place, always or in some steps?

// fetch.c
void find_fetches(Gen *g);

// dot_kind.c
void choose_dot_kinds(Gen *g);
void choose_byte_kind(const Instr *dot, DType left, DType right);  // of METHOD_BYTE_PRODUCTS
bool is_byte(DType t);                                             // i8 or u8
DType dot_element(const DotKind *kind, DType operand);             // the stored form of an operand
// Does a micro-kernel for few rows read right operands of this dtype in place?
bool has_skinny_kernel(const DotKind *kind, DType right);
int tail_columns(const Gen *g);  // the maximum number of columns of an f32 dot that are computed
                                 // separately: PK_DOT_TAIL
bool may_have_tail(const Gen *g, const Instr *dot);  // may columns remain after whole vectors?
bool uses_byte_products(const Schedule *s);
void used_dot_kinds(const Gen *g,
                    bool *used);  // the kinds that the products of a kernel use, by DotKind.id
const char *why_kind(Gen *g, const Instr *dot);  // for explain, or NULL

// regimes.c
bool may_be_skinny(Dim rows);  // may there be few enough rows to read the right operand in place?
bool is_skinny(Dim rows);      // the same for every call
bool may_go_by_panels(const Gen *g, Dim rows, Dim columns);
void explain_regimes(Gen *g);

// batch.c
void find_batch(Gen *g);
bool is_row_index(const Instr *v, const Batch *batch);  // an iota that counts the rows of one cell
// in the array, of rows that may be stacked
const Expr *row_stride(Gen *g, const Ref *ref, int row);
// The C variables of a batch.
typedef enum {
  BATCH_RUN,       // number of consecutive cells that read the same blocks
  BATCH_MOST,      // maximum number of cells in a batch
  BATCH_BATCHES,   // number of batches
  BATCH_INDEX,     // number of the current batch
  BATCH_FIRST,     // its first cell
  BATCH_END,       // the end of its cells
  BATCH_TOGETHER,  // number of cells in a step
} BatchPart;
const Expr *batch_variable(Gen *g, BatchPart part);
const Expr *batch_value(Gen *g, BatchPart part);  // for those that follow from sizes and these
void explain_batch(Gen *g);

// split.c
void find_split(Gen *g);
bool is_split(const Gen *g, const RefGen *r, int k);  // does axis k of the array contain the rows?
void explain_split(Gen *g);

// merge.c
void find_merge(Gen *g);
bool is_merged(const Gen *g, const RefGen *r,
               int k);  // does axis k of its array span all steps?
void explain_merge(Gen *g);

// adjacent.c
bool batches_adjacent(Gen *g, Batch *batch);  // its axis is given
bool is_adjacent_ref(const Gen *g, const Ref *ref);
bool is_adjacent_value(const Gen *g, const Instr *v);
void widen_for_adjacent(Gen *g, Buffer *b);  // room for the columns of joined cells

// A `dot` as a product of two matrices for each index of leading axes that both operands and the
// result share.
typedef struct {
  bool plain;  // it is one
  bool a_transposed, b_transposed;
} ProductShape;

// A dot with one label that is summed over: a product of two matrices for each index of the leading
// axes of the result, wherever the operands have their axes. Axes: `m` and `k` of the operand that
// has the rows of the result, `k2` and `n` of the other one.
typedef struct {
  bool plain;
  const Instr *a, *b;
  const int8_t *a_labels, *b_labels;
  int m, k, k2, n;
} MatrixProduct;
int label_axis(const int8_t *labels, int rank, int8_t label);  // -1: it is absent

// kinds.c
Dim dot_depth(const Instr *dot);          // extent of the axis that a plain dot sums over
bool is_row_scalar(const Instr *instr);   // one element per row
bool is_transparent(const Instr *instr);  // evaluated where it is used
bool is_computed_in(const Group *group, const Instr *instr);  // in lanes, and kept nowhere
bool reads_pieces(const Instr *instr);  // reads whole vectors that start at multiples of the lanes
bool splits_axes(const Instr *v);       // a reshape that only splits axes
bool moves_elements(const Instr *instr);        // a view (ir_keeps_lanes), another reshape, a pick
bool is_gather(const Instr *instr);             // a take, of rows or of lanes
bool gathers_lanes(const Instr *instr);         // a pick of an element for each lane of an index
const Instr *gathered_from(const Instr *pick);  // the table in memory, without broadcasts
bool compares_with_index(const Instr *instr);   // i32 lanes against an i64 scalar
bool only_compared_with_index(const Instr *cast);
bool widens_for_reductions(const Instr *cast);  // of rows in memory, which are widened as loaded
bool feeds_only_dots(const Instr *transpose);  // a transpose that the pack before `dot` carries out
int64_t lane_step(const Instr *access);        // of the lanes of its vectors in memory
bool is_fusable(const Instr *instr);           // may be in a loop over rows
bool adds_in_parts(
    const Instr *reduce);  // a float sum that is added to a total after every SUM_TERMS terms
bool notes_nans(const Instr *reduce);  // its sums record whether there was a NaN
int first_read(const Instr *instr);    // the first argument that C reads
bool is_generic(const Instr *instr);   // it has loops of its own
const Instr *loop_shape(
    const Instr *instr);  // the value whose shape the loops of a fusable one run over
const Demand *loop_demand(const Instr *instr);  // the extents of those loops
bool stretches_rows(const Instr *broadcast);    // reads one row for several
bool reads_left_by_rows(Gen *g,
                        const Instr *dot);  // is its left operand read during the loop over rows?
const Instr *load_behind(const Instr *operand);  // the load whose elements the operand has, or NULL
bool instr_reads(const Instr *instr, const Ref *ref);

// table.c
// The table of a value that a group computes, at the indices of its loops; false: it has none.
bool table_of(Gen *g, const Group *group, const Instr *v, const Expr *const *index, Table *t);
// The integer that all elements of v along the last axis are at this index, if it is known and not
// negative.
bool known_integer(Gen *g, const Group *group, const Instr *v, const Expr *const *index,
                   int64_t *value);
// By member: is it read only by values that have a table instead?
bool *spared_members(Gen *g, const Group *group, const Step *step, const Expr *const *index);

// strips.c
void choose_strips(Gen *g, Group *group);
void bound_groups(Gen *g);  // the bounds that each group's loops end at

// ranges.c
void find_ranges(Gen *g);

// divide.c
void divide_stores(Gen *g);
void divided_index(Gen *g, const Instr *store, const Expr *const *index, const Expr **at);

// sums.c
void continue_sum(Gen *g, Group *group, Step *step);
void join_products(Gen *g, Schedule *s);

// jam.c
void jam_rows(Gen *g, Group *group);
const Expr *jammed_row(Gen *g, int row);  // the index of one of the jammed rows
// The index of the first vector of a row, the others of the rows' loops being any.
void index_of_row(Gen *g, const Group *group, const Expr *row, const Expr **at);

// words.c
enum { WORD_PARTS = 4 };
bool accesses_rows(const Instr *v);  // a load or store of whole rows, or of parts in one piece
// The words in memory that v, with this number of bits, is a part of: row i of the jammed rows is
// part i, counted from the lowest. NULL: v is not such a part.
const Instr *words_of(Gen *g, const Group *group, const Instr *v, int bits);
// The number of parts in memory that v joins to words of this number of bits, and the parts, lowest
// first. 0: it joins none.
int parts_joined(Gen *g, const Group *group, const Instr *v, int bits, const Instr **part);
// The number of vectors of words that one vector of each part gives; 0: none.
int vectors_joined(Gen *g, const Group *group, const Step *step, int bits);
// Is v computed only for what these functions find?
bool serves_words(Gen *g, const Group *group, const Instr *v, int bits);

// columns.c
void plan_columns(Gen *g);
int first_lanes(const Gen *g, const ColumnLoop *loop);  // of the first iterations

// packed.c
// The bits of the elements of a step whose values are all of 8 or 16 bits and need no wider lanes;
// 0: there are others.
int packed_bits(Gen *g, const Group *group, const Step *step);
int packed_lanes(const Gen *g, int bits);
// The same of a reduction of rows to one.
int packed_row_bits(const Instr *reduce);

// arena.c
void size_arena(Gen *g);

// estimate.c
void estimate_call(Gen *g);

// snapshot.c
void mark_snapshots(Gen *g,
                    Region *region);  // marks values that are stored where they are computed
// The range of an access along an axis of its ref; false: it is unknown, or may be out of bounds.
bool window_span(const Instr *access, int axis, int64_t *first, int64_t *end);
// of two accesses of a ref: are they certain to have no element in common?
bool windows_are_apart(const Instr *a, const Instr *b);
// are they certain to have the same elements, in the same rows and columns?
bool windows_are_same(const Instr *a, const Instr *b);
// would it write elements that the load has not read yet?
bool store_overtakes(const Instr *store, const Instr *load);

// fields.c
void find_fields(Gen *g);
bool uses_fields(const Kernel *k);  // does any dot?

// inside.c
// `own` becomes a part of `whole`, from element `before` on.
void keep_inside(Gen *g, Buffer *own, const Buffer *whole, const Expr *elements);
void keep_parts_inside(Gen *g, const Instr *concat);
bool is_inside(const Instr *concat, int part);  // is that part computed in place?

// schedule.c
Schedule *schedule_region(Gen *g, Region *region);
void drop_empty(Schedule *s);  // removes empty groups

// absorb.c
void finish_group(Gen *g, Group *group);  // of a group of loops over rows
void store_at_once(Gen *g, Group *generic);
int sequential_axis(const Gen *g);  // the innermost sequential axis of the grid, or -1
// Is it true in the first, or the last, step of that axis?
bool is_end_step(const Gen *g, const Instr *condition, bool last);
const Instr *added_to(const Step *step);  // the load that a step with `into` adds its sums to

// right.c
// Right operands that are computed during their dots. In: the groups of a region.
void join_right_operands(Gen *g, Schedule *s);
const Instr *made_dot(const Group *producer);  // the first of those whose right operand it computes
bool rounds_for_dots(const Instr *v);          // an f32 rounded to bf16 that only dots read
void plan_parts(Gen *g);                       // the number of rows at a time, and the prefetches

// method.c
void choose_method(Gen *g, Group *generic);  // and its memory
// The axis whose lines are sorted side by side: the last but the sorted one, unless vectors of it
// would be short and there is a longer one; -1: there is no other.
int sorted_side_by_side(Gen *g, const Instr *v);
ProductShape product_shape(const Instr *dot);
MatrixProduct matrix_product(const Instr *dot);

// buffers.c
Buffer *buffer_new(Gen *g, const char *base, DType element, int rank, const Dim *dims,
                   const char *purpose);
void place_values(Gen *g, Schedule *s);  // the members of the groups that need memory
void place_dots(Gen *g, Schedule *s);    // the operands of dots that need memory
Buffer *panels_buffer(Gen *g, const char *base, const DotKind *kind, DType operand, Dim k, Dim n,
                      const char *purpose);
const Expr *panel_depth(Gen *g, const DotKind *kind, Demand demand, Dim k);
void ref_buffers(Gen *g);

bool at_hand_left(Gen *g, const Instr *dot,
                  DotShape s);  // is it in memory in the layout of the product?

// The position of a value or window: its first element is `offset` elements after a pointer, and
// strides lead to the others. place_of: false if it is only in registers.
typedef struct {
  const char *base;  // C name of the pointer
  const Expr *offset;
  DType element;
  const Expr *stride[MAX_RANK];
} Place;
bool place_of(Gen *g, const Instr *v, Place *place);
// May whole vectors be read past the end of its rows? The rows then have slack for one vector.
bool may_read_past_rows(const Gen *g, const Instr *v);
bool layout_of(Gen *g, const Instr *v,
               Place *place);  // place_of without the offset, which has names
// the position of the window of a LOAD or STORE
void place_of_access(Gen *g, const Instr *access, Place *place);
DType element_of(Gen *g, const Instr *access);  // the dtype of its elements in memory
// RESHAPE that only adds or drops axes of 1
void place_of_split_axes(Gen *g, const Instr *reshape, const Place *from, Place *to);
// The index in its operand of element `at` of v.
void operand_index(Gen *g, const Instr *v, const AxisMap *map, const Expr *const *at,
                   const Expr **from);
// The number of elements of a concatenation before those of an argument, along its axis.
const Expr *part_offset(Gen *g, const Instr *concat, int part);
void find_starts(Gen *g);  // RefGen.start and RefGen.at
// the start of a LOAD's or STORE's window, clamped to the ref
const Expr *start_expr(Gen *g, const Instr *access, int axis);

// windows.c
void read_windows(Gen *g, Schedule *s);
void place_of_window(Gen *g, const Instr *window, const Expr *row, Place *p);
bool window_follows(const Instr *a, const Instr *b);

// blocks.c
void find_blocks(Gen *g);

// narrow.c
void leave_narrowing(Gen *g);

// nest.c
// The parts of a move. shift: of a roll, in [0, extent). false: it is not a nest of loops, or the
// elements are converted.
bool move_nests(Gen *g, Group *move, const Expr *shift);
void plan_moves(Gen *g);  // after scalars have their variables

// scalars.c
const Expr *scalar_expr(Gen *g, const Instr *instr);   // of rank 0
const Expr *scalar_value(Gen *g, const Instr *instr);  // the value of a scalar's variable
// for an index map, extent or requirement
const Expr *index_expr(Gen *g, const Region *region, int result);
const Expr *scalar_op(Gen *g, const Instr *instr, const Expr *const *args);

// explain.c
void explain_all(Gen *g);

#endif
