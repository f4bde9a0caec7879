// Views as memory: where in a ref the elements of what a chain of steps leaves are.
#ifndef CODEGEN_IR_LAYOUT_H
#define CODEGEN_IR_LAYOUT_H

#include "codegen/ir/dims.h"

// Digit i of an index, of `extent` values, adds i * step to a place.
typedef struct {
  Extent extent, step;
  int place;
} Digit;

enum { LAYOUT_DIGITS = 16, LAYOUT_PLACES = 64 };

typedef struct {
  int count;
  Digit at[LAYOUT_DIGITS];  // slowest first: mixed radix
} Digits;

// A sum of digits, from `start` and `constant` on. A place below the rank of the ref is the index
// along an axis of it; the one behind them, ROOT_BIT, is the bit in its element. Others are indices
// of an axis that a window has cut where its digits cannot say so: they are taken apart into
// `digits`, of places before it. An element whose place is not in [0, bound) is outside.
typedef struct {
  Instr *start;  // NULL: 0
  int64_t constant;
  Extent bound;
  Digits digits;
} LayoutPlace;

// What is seen of `ref`: the axes of the last window, and behind them the bits of an element,
// lowest last, where the last digit is in one element of the ref.
typedef struct {
  const Ref *ref;
  int rank, places;
  Digits axis[MAX_RANK + 1];
  LayoutPlace place[LAYOUT_PLACES];
} Layout;

// What the steps of a chain leave of the ref. starts: of the chain's windows. False: there are more
// digits or places than room.
bool layout_of_chain(const Kernel *k, const Ref *ref, const Chain *chain, Instr *const *starts,
                     Layout *out);
// The same of one end of a copy. The n-th length that an argument says counts as size number
// Kernel.sizes.count + n.
bool ir_layout(const Kernel *k, const Instr *copy, bool target, Layout *out);
// Gives both ends of a copy the same digits: as many on each axis, of the same extents.
bool layout_pair(const Kernel *k, Layout *a, Layout *b);
// Is what is seen a window of the ref, whose axes it has in the same order, one digit each? Then
// digit[k] is the one along axis k of the ref, or NULL.
bool layout_is_window(const Layout *l, const Digit **digit);

// Calls visit for each part of each element that is seen, in row-major order, the lowest bits of an
// element first: the number of the ref's element that it is part of, or -1 where it is outside, and
// the first of its bits there. sizes: of the kernel, then lengths; start: by place.
typedef void PartVisitor(void *context, int64_t element, int64_t bit);
void layout_walk(const Layout *l, const int64_t *sizes, const int64_t *start, PartVisitor *visit,
                 void *context);
int64_t layout_part_bits(const Layout *l);  // how many bits a part has

#endif
