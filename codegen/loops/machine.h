// Numbers of the machine that decisions use and that are the same for all targets, each with its
// reason. Those that differ from core to core are columns of target.c; those that compiled code
// uses too are in <pk/machine.h>, and the conditions of products in <pk/dot/regimes.h>.
#ifndef CODEGEN_LOOPS_MACHINE_H
#define CODEGEN_LOOPS_MACHINE_H

#include <pk/dot/regimes.h>

enum {
  // Rows of a strip: a register tile or two, about 12 rows being 14, 12, 16 or 12 of tiles of 14,
  // 6, 8 or 4. Scores of 512 columns, 24 KiB, stay in L1, which is 32 KiB or more everywhere;
  // causal limits are tight.
  STRIP_ROWS = 12,
  // Register tiles of a strip where right operands outgrow L2: each is read a quarter as often.
  LONG_STRIP_TILES = 4,

  // Rows whose length in bytes is a multiple of this get one vector more. L1 of the x86 cores has
  // 64 sets of 64 bytes, whatever its size: rows a multiple of 1 KiB apart share four of them.
  // Cores with more sets lose a vector a row.
  ROW_ALIAS = 1024,
  // Recomputing more operations than this costs more than a store and a load from L1, four to five
  // cycles on each core.
  CHEAP_OPS = 2,

  // Batches of cells that are adjacent, at least: what they gain is less than a thread that has
  // nothing to do loses.
  SHARES = 4,

  LINE = 64,   // a buffer begins at a cache line, or at two of the cores whose lines are shorter
  SLACK = 64,  // a vector at the end of its last row may reach past it: the widest of any target,
               // so that the layout is the same for all

  // Operands of a loop whose next rows are prefetched, at most. More than kernels have; a bound for
  // the text of a loop.
  MOST_AHEAD = 8,
  // Rows that go through their columns together where that halves the loads of a vector, if it has
  // so many: half as many where a register tile has no more sums than 16 registers hold.
  JAMMED = 4,
  JAMMED_LOADS = 4,
  SUMS_OF_16 = 16,
  // Rows of a right operand that loops compute at a time: as many vectors as PK_DOT_SKINNY_STEPS of
  // include/pk/dot/skinny.h keeps in registers, half of 16; of bf16 in pairs twice as many.
  PART_ROWS = 8,
  // Such rows, or pairs of them, whose vectors of some columns are multiplied in registers, and how
  // many vectors: half of 32. One row by 4096 x 4096 in 4 bits, in f32 and bf16, by 4 rows and 4
  // vectors 1.21 and 1.56 ms, by 8 and 2 1.38 and 1.65, by 8 and 1 1.40 and 1.9.
  STEPS_IN_REGISTERS = 4,
  MOST_RIGHT = 16,
  // Rows of the left operand, and rows of a transposed right one, that are multiplied in registers
  // as loops compute it: of one and of several rows on the left.
  ROWS_IN_REGISTERS = 4,
  TRANSPOSED_ROWS_FOR_ONE = 4,
  TRANSPOSED_ROWS_FOR_SEVERAL = 4,
  MORE_ROWS_IN_REGISTERS = 8,
  TRANSPOSED_ROWS_FOR_MORE = 2,
  // Columns of such rows that are unrolled: the elements that share a scale in most formats of
  // weights. Scales, shifts and masks then do not depend on the iteration.
  TRANSPOSED_COLUMNS = 32,
  // Square blocks that go through registers have 4 to 16 rows, as many as a vector has lanes: of
  // fewer rows than this they are mostly empty.
  SQUARE_ROWS = 8,
  // Vectors of columns whose rows are added up at a time: chains of additions that run side by
  // side.
  ROW_SUMS = 4,
  // Packed vectors that a row must have for its sums to be packed.
  PACKED_SUMS = 2,
  // Terms that a float sum of a reduction adds in order, at most: then it is set aside,
  // so that long sums lose little.
  SUM_TERMS = 512,
};

#endif
