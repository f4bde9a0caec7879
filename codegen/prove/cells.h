// Shared by the files of the proof's arithmetic: cells, and operations on them.
//
// The cell of a float is the id of a number. The cell of an integer or truth value is its value if
// that is known, otherwise an open cell, which names a number.
#ifndef CODEGEN_PROVE_CELLS_H
#define CODEGEN_PROVE_CELLS_H

#include "codegen/prove/numbers.h"

// cells.c: the id of a float's cell; an unspecified element may be anything. id_of: without the
// name of an unknown number.
Id named_id(const Proof *p, int64_t cell);
Id id_of(const Proof *p, int64_t cell);
// The result of an operation; if no rule decides it, one that is named by its operands.
Id or_named(Proof *p, Id result, Op op, const Id *operands, int count);
int64_t or_named_truth(Proof *p, int64_t result, Op op, const Id *operands, int count);
bool any_open(const int64_t *cells, int64_t count);
// An integer whose later uses depend on its value, not only on its remainder.
Id plain_integer(Proof *p, DType dtype, int64_t cell);
// Integers from inputs must be known; for integers from floats only the operands are known.
Id integer_function(Proof *p, Op op, DType dtype, const int64_t *cells, int count);

// float_ops.c
Id number_unary(Proof *p, Op op, Id x);
Id number_binary(Proof *p, Op op, DType dtype, Id x, Id y);
int64_t number_compare(Proof *p, Op op, Id x, Id y);
int64_t number_predicate(Proof *p, const Instr *instr, Id x);

// bits.c. Those that return false have no rule for the operation.
int64_t cast_cell(Proof *p, const Instr *instr, DType to, DType from, int64_t cell);
int64_t bitcast_cell(Proof *p, DType to, DType from, int64_t cell);
int64_t cast_integer(Proof *p, DType to, DType from, int64_t cell);
int64_t join_parts(void *context, DType to, CellPart *parts, int count);
bool change_sign_bit(Proof *p, Op op, DType dtype, const int64_t *cells, int64_t *result);
bool move_bits(Proof *p, Op op, DType dtype, const int64_t *cells, int64_t *cell);
bool blend_bits(Proof *p, const Instr *select, Id weight, int64_t a, int64_t b, int64_t *result);

// integer_ops.c
int64_t integer_unary(Proof *p, Op op, DType dtype, int64_t a);
int64_t integer_binary(Proof *p, Op op, DType dtype, int64_t a, int64_t b);
int64_t integer_compare(Proof *p, Op op, DType dtype, int64_t a, int64_t b);

// lanes.c: entries of the table of arithmetic
int64_t best_of_lane(void *context, const Instr *instr, const Value *a, const Lane *lane);
void sort_lane(void *context, const Instr *instr, Value *out, const Value *a, const Lane *lane,
               int64_t *order);
int64_t element_of_lane(void *context, const Instr *instr, const Value *a, const Lane *lane,
                        int64_t index);

#endif
