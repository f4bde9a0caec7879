// The operand element of each result element of a shape operation: one map for passes, facts, loops
// and emission. The interpreter and references have their own, which tests compare with generated
// code.
#ifndef CODEGEN_IR_AXES_H
#define CODEGEN_IR_AXES_H

#include "codegen/ir/ir.h"

// `count` elements in sequence along an axis of the operand and along one of the result.
typedef struct {
  int from, to;                // the axes
  Dim count;                   // the result's extent, if they are the whole axis
  int64_t from_step, to_step;  // the distance between neighbours along each axis
  bool whole;                  // the piece is the whole of both axes
} AxisPiece;

// Element (i..) of the result is the operand's whose index along each axis is
//   first + sum of (i[to] / to_step % count) * from_step
// of the pieces on that axis; along `reversed` the index counts from the last element.
typedef struct {
  int count;
  AxisPiece piece[2 * MAX_RANK];  // in the order of the result's axes
  int64_t first[MAX_RANK];        // by axis of the operand
  int reversed;                   // axis of the operand, or -1
} AxisMap;

// Computes the axis map of a broadcast, transpose, slice, reshape, rev, or the inside of a pad.
// Returns false for other operations, and for a reshape whose axes do not divide at the same
// places.
bool ir_axis_map(const Instr *v, AxisMap *map);
// Pieces of a reshape between these types; axes of one element are in no piece.
bool ir_reshape_map(const Type *from, const Type *to, AxisMap *map);

// The axis of the operand whose index along the whole of it is that along `axis` of v; -1: none.
int ir_operand_axis(const Instr *v, int axis);
// Maps axis_of from the axes of v to those of its operand: the loop axis of each axis, -1: fixed at
// 0. False: an index of the operand is not simply that of an axis of v.
bool ir_operand_axes(const Instr *v, const int *axis_of, int *inner);
bool ir_moves_nothing(const Instr *v);    // each element is the operand's at the same index
bool ir_moves_unit_axes(const Instr *v);  // a reshape that only adds or drops axes of 1
bool ir_is_view(Op op);                   // slice, transpose or reshape
// The indexed axes of the first operand of a take or gather, in order; returns their number.
int ir_indexed_axes(const Instr *v, int *axes);
// The axis of a gather's result that corresponds to axis `from` of its operand; -1: that axis is
// indexed.
int ir_gathered_axis(const Instr *v, int from);
// A view whose rows are contiguous in rows of its operand, or single elements.
bool ir_keeps_lanes(const Instr *v);
// A reshape whose rows are made of whole rows of its operand, each of a constant number of elements
// that every target's vectors divide: a vector that starts at a multiple of its lanes is inside one
// such row.
bool ir_keeps_pieces(const Instr *v);
// Can vectors of the dtype be loaded and stored with a stride?
bool ir_has_lanes_apart(DType t);

#endif
