// Independence: finds which elements of each value a grid cell computes for itself.
//
// Cells may be merged or split along an axis of their blocks if each computes its elements along
// that axis from its own elements of the operands and from values that all cells share.
// A client says which axis of each ref is partitioned in this way; the analysis finds the
// partitioned axis of each value, if there is one.
#ifndef CODEGEN_IR_INDEPENDENCE_H
#define CODEGEN_IR_INDEPENDENCE_H

#include "codegen/ir/ir.h"

// How the elements of a value are distributed.
typedef struct {
  int axis;  // element i along it follows from element i of partitioned refs; -1: replicated
  unsigned uniform;  // replicated: the axes along which all elements are equal
} Partition;

enum { REPLICATED = -1 };

// Control flow, transfers of blocks and assertions, whose effects follow from their regions.
bool ir_is_frame(Op op);

typedef struct Independence Independence;
struct Independence {
  Kernel *k;
  int *refs;      // by Ref.id: the partitioned axis, or REPLICATED
  bool whole;     // partitioned refs are read and stored as a whole, not only along that axis
  int grid_axis;  // whose index the body may not use, or -1
  // Limits of the client: may an instruction have this partition? NULL: any.
  bool (*accepts)(Independence *q, const Instr *v, Partition p);
  // Is it an IOTA along the partitioned axis? NULL: every IOTA counts the same in each cell.
  bool (*counts)(const Independence *q, const Instr *iota);
  void *context;      // of the client
  Partition *values;  // by Instr.id
  bool holds;
};

// Is each value of the body partitioned along one axis or replicated, and does each store respect
// the partition of its ref?
bool ir_is_independent(Independence *q);

// How the index map of an operand uses the index of a grid axis.
typedef struct {
  int axis;    // the array's axis whose block index it is, or -1
  bool other;  // it is also used in other ways
} GridUse;
GridUse ir_grid_use(const Ref *operand, int grid_axis);
static inline bool ir_uses_grid(GridUse use) { return use.axis >= 0 || use.other; }

// The axis of an operand's array for axis `axis` of its block.
int ir_array_axis(const Ref *operand, int axis);
int ir_block_axis(const Ref *operand, int array_axis);  // the inverse

#endif
