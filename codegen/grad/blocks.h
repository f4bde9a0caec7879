// Inside of the derivation of kernels: their blocks.
#ifndef CODEGEN_GRAD_BLOCKS_H
#define CODEGEN_GRAD_BLOCKS_H

#include "codegen/grad/internal.h"

// What is carried along the grid, and which output holds it; -1: it is 1 (saved.c).
typedef struct {
  const char *carried;
  int output;
} Known;

// How a kernel was cut into blocks, before its body became a reference.
struct Blocks {
  int inputs, outputs;
  Ref *refs;  // copies, in the order of the signature
  // Axes of the grid, as bits. ignored: the gradients of their steps are added. skipped: the
  // gradient is 0 and does not need them. split: several steps share a block of an input, and their
  // gradients are added.
  int64_t ignored, skipped, split;
  bool scattered;  // gradients are added to elements of their arrays that the index maps choose
  bool masks;      // gradients of outputs are 0 past the edges of arrays
  bool pads;       // elements read past the end of an input without padding are 0
  Region *guard;   // the condition of each step, or NULL
  Ref *edges;      // copies of the kernel's own outputs
  int edge_count;
  // Axes whose steps run from the last to the first, and carry gradients of the states (carried.c).
  int64_t backwards;
  // By input: the blocks of its gradient, one for each cell, which another kernel adds up; NULL:
  // those of the input.
  Ref **partial;
  bool guarded;   // the step along an axis of extent 0 does nothing
  bool stepwise;  // a step of a sum along the grid: outputs are not what it stores
  const Known *known;
  int known_count;
  bool *sizing;  // by input: it stays because its shape has a size that the grid needs; or NULL
};

// Reports that --kernel does not differentiate the kernel, and returns false.
// What to do about a loop whose number of iterations nothing bounds.
#define UNBOUNDED                                                                                \
  "no size bounds the iterations, whose values the gradient needs in reverse; write a `for` to " \
  "a bound, with `when` in it"
bool refuse_instr(const Kernel *k, const Instr *v, Diag *diag);  // which is not derived
bool refuse_kernel(Diag *diag, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
bool check_extents(const Kernel *k, Diag *diag);  // do all extents of the grid follow from sizes?
bool is_known_part(const Instr *access);          // is it all of a block, or a part at constants?

// Sums along axes of the grid: grid_sums.c.
typedef struct {
  int64_t axes;               // along which, by bits; 0: there are none
  Instr **added;              // by ref: what a step adds to it, if it is a sum
  const Instr **loads;        // by ref: the load that is added to
  const Instr **factors;      // by ref: the factor of its old sum, or NULL
  const Instr *first, *last;  // the IFs of the first and the last step, or NULL
  const Instr *guard;         // the IF around each step, or NULL
  const Ref *scale;           // the reference point that scales sums, or NULL
  const Instr *reached;       // the point after a step
  bool apart;                 // a separate kernel derives the last step's function
  const Ref *kept_point;      // outputs depend on this point, so there are no sums; or NULL
} GridSums;
GridSums find_grid_sums(const Kernel *k);
// The axes whose first or last step the condition tests; 0: it is another one.
int64_t tested_axes(const Kernel *k, const Instr *condition, bool last);
bool is_grid_sum(const GridSums *s, const Ref *ref);
bool is_carried(const GridSums *s, const Ref *ref);  // a sum, or the point that scales them
// rescaled.c: are the sums and outputs independent of the point that scales them?
bool scale_cancels(const Kernel *k, const GridSums *s);
// What is carried, if the outputs of the list hold all of it; *count is 0 otherwise.
const Known *known_by_outputs(const Kernel *k, const GridSums *s, const char *list, int *count);

// unmask.c. A masked load becomes a selection; lanes of a store outside of its ref are left out.
// Others keep their flags: windows with gaps, and stores that may leave their ref at run time.
void unmask_body(Kernel *k);
// Removes nested regions from a body; choices: branches with stores, too.
void straighten_body(Kernel *k, bool choices);
bool is_open(const Instr *access);  // does it remain one of those?

// forward: the derivative along directions
bool check_blocks(const Kernel *k, bool forward, Diag *diag);
// Is the block of one at the place of the other's, in each step?
bool same_blocks(const Kernel *k, const Ref *a, const Ref *b);
int block_axis(const Kernel *k, const Ref *ref, int axis);
// The axis of the grid whose quotient by *divisor an index map yields, if it has as many steps for
// each of the array's blocks, which are single elements; -1: it yields another.
int divided_axis(const Kernel *k, const Ref *ref, int axis, const Instr **divisor);
// The grid axis that moves the blocks along an axis of the array, by one block at each step or at
// every few steps; -1: all of it is one block. -2: another map, or an axis that another axis of the
// array follows.
int followed_axis(const Kernel *k, const Ref *ref, int axis);
// Is there an axis for which followed_axis is -2?
bool is_scattered(const Kernel *k, const Ref *ref);
int64_t ignored_axes(const Kernel *k, const Ref *ref);
// The axes of the grid, as bits, whose quotients the ref's index map uses.
int64_t split_axes(const Kernel *k, const Ref *ref);
bool may_overhang(const Ref *ref, int axis);  // may a block end past the array?
// May a step be past the end of an array whose blocks are single elements?
bool may_miss_any(const Kernel *k, const Ref *ref);
bool is_place(const Instr *v);  // does it depend only on grid indices and sizes?
bool is_read_at_end(const GridSums *s, const Ref *ref);   // does the last step read it?
bool rounded_up(const Instr *v, Dim *size, int64_t *by);  // cdiv(size, by)
// What becomes a reference of blocks: all of the body; of a kernel whose last step is derived
// apart, a step as a function of its sums, or the last step as a function of them; or the sums.
typedef enum { PART_ALL, PART_STEP, PART_END, PART_SUMS } Part;
Blocks part_as_reference(Kernel *k, Part part, bool forward);
// Turns a value in memory into an operand: one block for each cell of the axes that the sums leave.
void make_array(Kernel *k, const GridSums *s, Ref *ref);
// The body without its last step, whose sums are outputs and vars of the reference.
Blocks sums_as_reference(Kernel *k);
// Of a kernel that was derived without masks.
bool needs_masks(const Kernel *k, const Blocks *b);

#endif
