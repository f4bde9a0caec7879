// The representation of elements, and the operations on them. The interpreter walks over steps,
// memory, copies and control flow in one way; the arithmetic is a table of functions.
//
// An element is a cell of 8 bytes. Moves copy cells without interpreting them. An integer or bool
// cell is the number itself, which decides indices, loops and masks, unless it is open.
#ifndef CODEGEN_CHECK_ARITHMETIC_H
#define CODEGEN_CHECK_ARITHMETIC_H

#include "codegen/ir/ir.h"

// A value or a block in memory: floats in f, everything else in i, row-major. poison[e] states
// whether and why element e is unspecified: 0 if it is specified, else 1 + the ref it came from, or
// one of the marks below. It is valid only if `poisoned`. missing[e] are the unspecified bits of an
// unspecified element; it is valid only if `partial`, else all of its bits are unspecified.
typedef struct {
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK], count;
  union {
    double *f;
    int64_t *i;
    void *data;
  };
  uint8_t *poison;
  bool poisoned;
  uint64_t *missing;
  bool partial;
  double *error;  // the possible difference of compiled code; valid only if `uncertain`
  bool uncertain;
  int64_t capacity, poison_capacity, error_capacity, missing_capacity;
} Value;

// A row of elements: the first one, their distance and their number.
typedef struct {
  int64_t base, stride, count;
} Lane;

// Does element x of a row come before element y?
typedef bool ComesBefore(const void *context, const Value *a, int64_t x, int64_t y);
// Sorts `order`, the elements of a row, stably.
void sort_stably(ComesBefore *before, const void *context, const Value *a, int64_t *order,
                 int64_t count);

// Bits of a cell of that dtype, `bits` from bit `from` on, which become those of another element
// from bit `to` on.
typedef struct {
  int64_t cell;
  DType dtype;
  int from, to, bits;
} CellPart;

typedef struct Arithmetic {
  // Integers and truth values may be open: unknown as numbers, in cells of the range below.
  bool opens;
  // The cell of a constant, and of an index as an element of that dtype.
  int64_t (*constant)(void *context, DType dtype, const Instr *constant);
  int64_t (*index)(void *context, DType dtype, int64_t index);
  // UNARY .. CAST except SELECT, element by element; the cell of an unspecified element is
  // arbitrary.
  void (*elementwise)(void *context, const Instr *instr, Value *out, const Value *const *arg);
  // SELECT with an open condition.
  int64_t (*blend)(void *context, const Instr *select, int64_t condition, int64_t a, int64_t b);
  // A REDUCE of cells in order.
  int64_t (*fold)(void *context, const Instr *reduce, DType dtype, const int64_t *cells,
                  int64_t count);
  // A SCAN, except SORT and ARGSORT, over the elements in that order.
  void (*scan)(void *context, const Instr *scan, Value *out, const Value *a, const int64_t *order,
               int64_t count);
  // ARGMAX, ARGMIN: the index of the element within the lane, as a cell.
  int64_t (*best)(void *context, const Instr *instr, const Value *a, const Lane *lane);
  // SORT, ARGSORT of a lane. `order` lists its elements; it is sorted in place.
  void (*sort)(void *context, const Instr *sort, Value *out, const Value *a, const Lane *lane,
               int64_t *order);
  // TAKE, TAKE_ALONG: the element of the lane at an open index.
  int64_t (*take)(void *context, const Instr *take, const Value *a, const Lane *lane,
                  int64_t index);
  // The sum of products of a DOT.
  int64_t (*dot)(void *context, const Instr *dot, const int64_t *a, const int64_t *b,
                 int64_t count);
  // The element of that dtype that parts of others make; bits of none are arbitrary. NULL: the bits
  // of a cell are those of the number that it holds.
  int64_t (*join)(void *context, DType dtype, CellPart *parts, int count);
  // Is a prefetched integer known as a number? NULL: always.
  bool (*knows)(void *context, int64_t cell);
  // Can the walk execute this instruction, given its operands' values? If not, it stops. NULL:
  // always.
  bool (*admits)(void *context, const Instr *instr, const Value *values);
} Arithmetic;

enum { OPEN_CELLS_LOG2 = 40 };
static const int64_t OPEN_CELLS = INT64_MIN + (INT64_C(1) << 48);
static inline bool cell_is_open(int64_t cell) {
  return cell >= OPEN_CELLS && cell < OPEN_CELLS + (INT64_C(1) << OPEN_CELLS_LOG2);
}

#endif
