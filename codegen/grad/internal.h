// Shared by the files of differentiation.
#ifndef CODEGEN_GRAD_INTERNAL_H
#define CODEGEN_GRAD_INTERNAL_H

#include "codegen/grad/grad.h"
#include "codegen/grad/text.h"

// A gradient or tangent: `value` if `mask` is true, otherwise exactly 0. Where the mask is false,
// `value` is arbitrary, even NaN. mask NULL: always true. value NULL: 0.
typedef struct {
  Instr *value, *mask;
  bool zero;  // where the mask is false, `value` is 0: nothing needs to select it
} Adjoint;

// The vars in which a gradient or tangent is added up: `mask` is true where something was added.
typedef struct {
  Ref *value, *mask;  // NULL: it has none
  bool full;          // something was added to every element: the mask is not read
} Sum;

// A loop whose values are kept for one segment of its iterations at a time (checkpoints.c).
typedef struct {
  Dim steps;            // the iterations of a segment
  Dim segments;         // at least 1; both are sizes that requirements determine
  Dim count;            // all iterations
  Instr *forth, *back;  // the position in the segment, forwards and in reverse
  LIST(Ref *) checkpoints;
} Segments;

// A loop around the current instructions; the innermost first.
typedef struct Enclosing Enclosing;
struct Enclosing {
  const Enclosing *around;
  const Instr *loop;         // the FOR
  const Segments *segments;  // or NULL
};

typedef struct {
  Kernel *k;
  Diag *diag;
  Arena *arena;
  Region *out;           // new instructions are appended here
  Region *top;           // the reference
  Span span;             // of the instruction that is being differentiated
  int count;             // the first id that the original reference does not have
  bool *active;          // by id: depends on chosen inputs, and outputs depend on it
  bool *cancels;         // by id: a maximum, say, on which no output depends
  Region **home;         // by id
  Adjoint *adjoint;      // by id
  Sum *sum;              // by id: of its gradient
  Sum *state;            // by state: of its gradient or tangent
  const Region *region;  // of the reference, which is being reversed
  bool *state_active;
  Instr **image;  // by id, while a loop or branch is reversed: the recomputed value, or NULL
  const Enclosing *enclosing;
  const struct Blocks *blocks;  // NULL: of whole arrays
  LIST(const Instr *) copies;   // of values of the forward part
  LIST(Ref *) tapes;
  LIST(Span) tape_spans;  // by tape: the span of a loop without a bound; {0, 0}: it has one
  LIST(const Instr *) tape_loops;  // by tape: the outermost loop; NULL: none
  const GradOptions *options;
  LIST(Segments *) segments;
} Grad;

// ---- build.c: appends instructions to g->out
Instr *put(Grad *g, Op op, Type type, int nargs, ...);
Instr *put_like(Grad *g, Op op, Instr *a);  // of one operand, with its type
Instr *put_again(Grad *g, const Instr *v);  // a copy of it, of the images of its operands
// Appends copies of a region's instructions.
typedef struct {
  Instr **image;        // by id: what takes the place of a value; of each instruction, its copy
  const Instr *except;  // is not copied
  Ref *const *by;       // by state: the var that takes its place, or NULL
  int states;
} Copies;
void copy_region(Grad *g, const Region *from, const Copies *copies);
Instr *put_pair(Grad *g, Op op, Instr *a, Instr *b);  // of two operands, with their type
Instr *put_test(Grad *g, Op op, Instr *a, Instr *b);  // a comparison
Instr *put_number(Grad *g, double value, Type type);  // a constant in every element
Instr *put_int(Grad *g, int64_t value, Type type);
Instr *put_zero(Grad *g, Type type);  // of floats or integers
Instr *put_index(Grad *g, int64_t value);
Instr *put_cast(Grad *g, Instr *v, DType dtype);
Instr *put_spread(Grad *g, Instr *v, Type shape);  // v broadcast to that shape
Instr *put_reshape(Grad *g, Instr *v, Type shape);
Instr *put_choice(Grad *g, Instr *c, Instr *a, Instr *b);
Instr *put_reduce(Grad *g, Op op, Instr *v, int64_t axes);
Instr *put_truth(Grad *g, bool value, Type shape);
Instr *put_scan(Grad *g, Op op, Instr *x, int axis, bool reverse);
Instr *put_iota(Grad *g, Type shape, DType dtype, int axis);
Instr *put_extent(Grad *g, Dim dim);
Instr *put_load(Grad *g, Ref *ref);  // the whole ref
void put_store(Grad *g, Ref *ref, Instr *value);
bool is_number(const Instr *v, double *value);  // is it the same constant in every element?
bool is_truth(const Instr *v, bool value);      // the same of truth values
Dim dim_plus(Grad *g, Dim dim, int64_t by);
// A window of a var, with the shape of `type`; with `value`, a store.
Instr *put_window(Grad *g, Ref *ref, Instr *const *starts, const int64_t *strides, Type type,
                  Instr *value);
// Begins a loop from 0 to an extent, which receives instructions until it is ended. Returns its
// variable.
typedef struct {
  Region *body, *outer;
  Instr *to, *at;
} Loop;
Instr *begin_loop(Grad *g, Loop *loop, Dim count);
void end_loop(Grad *g, Loop *loop);
Ref *new_state(Grad *g, const char *name, Type type);
Type working(Type type);  // the type of its gradient: accum of the dtype
// The value as available here, in the dtype of its gradient.
Instr *value_of(Grad *g, Instr *v);
Instr *wide(Grad *g, Instr *v);

// ---- masks.c
// Where the mask is true for any element along the axes, which have one element then.
Instr *any_of(Grad *g, Instr *mask, int64_t axes);
// The conditions of d's mask that do not vary along the axes; they are removed from d. NULL: none.
Instr *take_same(Grad *g, Adjoint *d, int64_t axes);
// Does the mask imply the other one, as a conjunction of the same expressions?
bool implies(const Instr *mask, const Instr *other);

// ---- table.c
typedef enum { KIND_SMOOTH, KIND_MOVES, KIND_OTHER, KIND_NOTHING, KIND_REFUSED, KIND_WALKED } Kind;
typedef void Give(Grad *g, Instr *v, Adjoint d);
typedef Adjoint Tangent(Grad *g, Instr *v);
typedef struct {
  Kind kind;
  const char *by[3];  // SMOOTH
  const char *why;    // REFUSED
  Give *give;
  Tangent *tangent;
} Derivative;
extern const Derivative derivatives[OP_COUNT];
// The expression of a SMOOTH operation for an operand, with d instead of g.
Adjoint smooth_term(Grad *g, Instr *v, int operand, Adjoint d);

// ---- adjoint.c
Instr *settled(Grad *g, Adjoint d);    // the value with 0 where the mask is false
Adjoint selected(Grad *g, Adjoint d);  // the same, 0 where the mask is false
Adjoint masked(Grad *g, Adjoint d, Instr *mask);
Adjoint added(Grad *g, Adjoint a, Adjoint b);
Adjoint plain(Instr *value);
Instr *mask_of(Grad *g, Adjoint d);  // as a value
// Is the mask true at the element, or at one that a scan along the axis visits before it?
Instr *any_along(Grad *g, Instr *mask, int axis, bool reverse);
void start_sum(Grad *g, const Sum *sum);
Sum new_sum(Grad *g, const char *name, Type type);
// Adds to elements, from these indices on, of the var that accumulates the gradient of v.
void give_part(Grad *g, Instr *v, Instr *const *starts, const int64_t *strides, Adjoint d);
// Adds to the gradient of v, if v has one.
void give(Grad *g, Instr *v, Adjoint d);
bool wants(const Grad *g, const Instr *v);  // does it have a gradient?
Adjoint tangent_of(Grad *g, Instr *v);      // forward mode; value NULL: 0

// ---- moves.c, folds.c, dots.c: the functions of the table
// A part of the axis, from an index on; picked: elements of x placed there, 0 elsewhere.
Instr *piece(Grad *g, Instr *x, int axis, Instr *from, Dim size);
// The axis with zeros before and after it: `size` elements.
Instr *put_pad(Grad *g, Instr *x, int axis, int64_t before, int64_t after, Dim size);
Instr *squeezed(Grad *g, Instr *x, const bool *squeeze);  // without these axes of one element
// The part of x that a load with these starts takes, and x with the part that a store replaces.
Instr *window_value(Grad *g, Instr *x, const Instr *access, Instr *const *starts);
Instr *with_window(Grad *g, Instr *x, const Instr *store, Instr *value);
Give give_select, give_cast, give_broadcast, give_reshape, give_transpose, give_slice, give_concat,
    give_pad, give_roll, give_rev, give_window, give_take, give_take_along, give_gather,
    give_reduce_sum, give_reduce_prod, give_extreme, give_cumsum, give_cumprod, give_running,
    give_sort, give_dot;
Tangent tangent_select, tangent_cast, tangent_moved, tangent_reduce_prod, tangent_extreme,
    tangent_cumprod, tangent_running, tangent_sort, tangent_dot;
// is the gradient of its first operand given element by element, in a var?
bool gives_parts(const Instr *v);

// ---- loops.c: values of loops in reverse
Instr *again(Grad *g, Instr *v);  // the value in this iteration, from a var that has stored it
void compute_again(Grad *g, const Region *region);
Instr *copied(Grad *g, const Instr *v);  // with its operands
// An index made of sizes and constants as an extent.
bool is_extent(Grad *g, const Instr *v);
Dim extent_named(Grad *g, const Instr *v);
void insert_first(Grad *g, Region *region, const Region *added);  // after its ARRAYs
// The part of a tape at these indices of its first axes, whose other axes are those of `type`; with
// `value`, a store.
Instr *access_slot(Grad *g, Ref *tape, Instr *const *at, Type type, Instr *value);

// ---- checkpoints.c
bool has_segments(const Grad *g, const Instr *loop);
// The loop from its last segment to its first: between the two, an iteration is reversed.
typedef struct Again Again;
Again *begin_segments(Grad *g, Instr *loop);
void end_segments(Again *a);
// Determines the lengths of segments, when the bytes of all tapes are known.
void choose_segments(Grad *g);

// ---- walk.c
void find_active(Grad *g, const bool *wrt);
void find_states(Grad *g);  // creates a var for the gradient of each var that has one
void find_sums(Grad *g);    // creates a var for each gradient that is accumulated in one
void start_sums(Grad *g, const Region *region);  // sets these vars to 0 before gradients are added
void reverse_region(Grad *g, const Region *region);
Adjoint finished(Grad *g, Instr *v);  // its whole gradient, when all users are processed
void forward_region(Grad *g, Region *region);

// ---- derive.c
// Marks the inputs that a list of names, separated by commas, chooses; NULL: all of floats.
bool choose_inputs(Kernel *k, const char *list, bool *wrt, Diag *diag);
// The operand that derives another one: its array, with "d" before its name.
Ref *new_operand(Kernel *k, RefRole role, const Ref *like, const char *before);

// ---- blocks.c: a kernel's body as a reference of blocks
typedef struct Blocks Blocks;
// Which elements of the block of an output lie inside of its array; NULL: all, or it does not
// matter.
Instr *inside(Grad *g, int output);
bool blocks_add_up(const Blocks *blocks);  // gradients are added up over grid cells
// Is the gradient of an input of blocks added up, in accum of its dtype?
bool adds_up(const Kernel *k, const Blocks *blocks, int input);
// Which elements of an input's block lie inside of its array, if those past its edges are a finite
// number; NULL: they may be anything, or it is not such a block.
Instr *inside_padded(Grad *g, const Instr *v);

// ---- clean.c
void clean(Grad *g);  // removes values that no result needs, and duplicates

#endif
