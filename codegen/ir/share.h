// What each device of a mesh has of an array.
#ifndef CODEGEN_IR_SHARE_H
#define CODEGEN_IR_SHARE_H

#include "codegen/ir/array.h"
#include "codegen/ir/ir.h"

// From `start`, with the shape of `part`, whose data is the caller's to set.
typedef struct {
  HostArray part;
  int64_t start[MAX_RANK];
  bool first;  // of the devices that have the same
} Share;
// Of an operand's array; the extents divide.
Share device_share(const Kernel *k, const Ref *ref, const HostArray *whole, int device);

// Calls visit for each row of the share: its place in the part and in the whole, in elements.
typedef void RowVisitor(void *context, int64_t part, int64_t whole, int64_t count);
void visit_rows(const Share *share, const HostArray *whole, RowVisitor *visit, void *context);

// The context of these visitors.
typedef struct {
  char *part, *whole;
  int64_t bytes;    // an element
  int64_t differs;  // the first element of the whole that is not the part's; -1: none
} Rows;
Rows rows_of(const Share *share, const HostArray *whole);
void take_row(void *context, int64_t part, int64_t whole, int64_t count);  // whole to part
void give_row(void *context, int64_t part, int64_t whole, int64_t count);  // part to whole
void compare_row(void *context, int64_t part, int64_t whole, int64_t count);

#endif
