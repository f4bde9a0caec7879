// Views as memory: the positions in a ref of the elements of a chain's result.
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
// along one of its axes; the next one, ROOT_BIT, is the bit in its element. Other places are
// indices along an axis with a window that its digits cannot represent: they are decomposed into
// `digits`, which add to earlier places. An element whose place is not in [0, bound) is outside.
typedef struct {
  Instr *start;  // NULL: 0
  int64_t constant;
  Extent bound;
  Digits digits;
} LayoutPlace;

// The layout of a view of `ref`: the axes of the last window, and then the bits of an element, the
// lowest last; the last digit is within one element of the ref.
typedef struct {
  const Ref *ref;
  int rank, places;
  Digits axis[MAX_RANK + 1];
  LayoutPlace place[LAYOUT_PLACES];
} Layout;

// Computes the layout of a chain. starts: those of the chain's windows. False: there are too many
// digits or places.
bool layout_of_chain(const Kernel *k, const Ref *ref, const Chain *chain, Instr *const *starts,
                     Layout *out);
// The same for one end of a copy. The n-th length that is an argument counts as size number
// Kernel.sizes.count + n.
bool ir_layout(const Kernel *k, const Instr *copy, bool target, Layout *out);
// Gives both ends of a copy the same digits, with the same extents, on each axis.
bool layout_pair(const Kernel *k, Layout *a, Layout *b);
// Is the view a window of the ref, with the ref's axes in the same order and one digit each? Then
// digit[k] is the digit along axis k of the ref, or NULL.
bool layout_is_window(const Layout *l, const Digit **digit);

// Calls `visit` for each part of each element of the view, in row-major order, the lowest bits of
// an element first, with the number of the ref's element that contains it, or -1 outside, and its
// first bit there. sizes: those of the kernel, then lengths; start: by place.
typedef void PartVisitor(void *context, int64_t element, int64_t bit);
void layout_walk(const Layout *l, const int64_t *sizes, const int64_t *start, PartVisitor *visit,
                 void *context);
int64_t layout_part_count(const Layout *l, const int64_t *sizes);  // their number, at most INT64_MAX
int64_t layout_part_bits(const Layout *l);                    // the number of bits of a part

#endif
