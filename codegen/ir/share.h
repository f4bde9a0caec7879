// The share of an array that each device of a mesh has.
#ifndef CODEGEN_IR_SHARE_H
#define CODEGEN_IR_SHARE_H

#include "codegen/ir/array.h"
#include "codegen/ir/ir.h"

// The elements from `start` on, with the shape of `part`, whose data the caller sets.
typedef struct {
  HostArray part;
  int64_t start[MAX_RANK];
  bool first;  // the first of the devices with the same share
} Share;
// The share of an operand's array; the extents are divisible.
Share device_share(const Kernel *k, const Ref *ref, const HostArray *whole, int device);

// Calls `visit` for each row of the share, with its offset in the part and in the whole array, in
// elements.
typedef void RowVisitor(void *context, int64_t part, int64_t whole, int64_t count);
void visit_rows(const Share *share, const HostArray *whole, RowVisitor *visit, void *context);

// The context of these visitors.
typedef struct {
  char *part, *whole;
  int64_t bytes;    // an element
  int64_t differs;  // the first element of the whole array that differs from the part; -1: none
} Rows;
Rows rows_of(const Share *share, const HostArray *whole);
void take_row(void *context, int64_t part, int64_t whole, int64_t count);  // whole to part
void give_row(void *context, int64_t part, int64_t whole, int64_t count);  // part to whole
void compare_row(void *context, int64_t part, int64_t whole, int64_t count);

#endif
