// Numbers of the machine that decisions use and that are the same for all targets, each with its
// reason. Those that differ from core to core are columns of target.c; those that compiled code
// uses too are in <pk/machine.h>, and the conditions of products in <pk/dot/regimes.h>.
#ifndef CODEGEN_LOOPS_MACHINE_H
#define CODEGEN_LOOPS_MACHINE_H

#include <pk/dot/regimes.h>

enum {
  // Rows of a strip: one or two register tiles, at least 12 rows (14, 12, 16 or 12 with tiles of
  // 14, 6, 8 or 4). 12 rows of 512 scores, 24 KiB, stay in L1, which has at least 32 KiB
  // everywhere, and few masked columns of a causal strip are computed.
  STRIP_ROWS = 12,
  // Register tiles of a strip if the right operands exceed L2: they are then read a quarter as
  // often.
  LONG_STRIP_TILES = 4,

  // Rows whose length in bytes is a multiple of this get one vector more. L1 of the x86 cores has
  // 64 sets of 64 bytes, whatever its size: rows a multiple of 1 KiB apart share four of them.
  // On cores with more sets this wastes one vector per row.
  ROW_ALIAS = 1024,
  // Recomputing more operations than this costs more than a store and a load from L1, four to five
  // cycles on each core.
  CHEAP_OPS = 2,

  // The minimum number of batches of adjacent cells, because an idle thread costs more than
  // batching gains.
  SHARES = 4,

  LINE = 64,   // a buffer begins at a cache line, or at two of the cores whose lines are shorter
  SLACK = 64,  // a vector at the end of its last row may reach past it: the widest of any target,
               // so that all targets have the same layout

  // The maximum number of operands of a loop whose next rows are prefetched. Kernels have fewer; it
  // bounds the text of a loop.
  MOST_AHEAD = 8,
  // The number of rows that are jammed, if that halves the loads of a vector: half as many if the
  // machine has 16 vector registers.
  JAMMED = 4,
  JAMMED_LOADS = 4,
  SUMS_OF_16 = 16,
  // Rows of a computed right operand that are computed at a time: as many vectors as
  // PK_DOT_SKINNY_STEPS of include/pk/dot/skinny.h keeps in registers, half of 16; for bf16 in
  // pairs twice as many.
  PART_ROWS = 8,
  // Such rows, or pairs of rows, that are multiplied in registers, and the vectors of columns of
  // each: together half of 32 registers. One row by 4096 x 4096 in 4 bits, in f32 and bf16, by 4
  // rows and 4 vectors 1.21 and 1.56 ms, by 8 and 2 1.38 and 1.65, by 8 and 1 1.40 and 1.9.
  STEPS_IN_REGISTERS = 4,
  MOST_RIGHT = 16,
  // Rows of the left operand and rows of a transposed computed right operand that are multiplied in
  // registers: for one and for several left rows.
  ROWS_IN_REGISTERS = 4,
  TRANSPOSED_ROWS_FOR_ONE = 4,
  TRANSPOSED_ROWS_FOR_SEVERAL = 4,
  MORE_ROWS_IN_REGISTERS = 8,
  TRANSPOSED_ROWS_FOR_MORE = 2,
  // Columns of such rows that are unrolled: the number of elements that share a scale in most
  // formats of weights, so that scales, shifts and masks do not depend on the iteration.
  TRANSPOSED_COLUMNS = 32,
  // Square blocks in registers have as many rows as a vector has lanes, 4 to 16; with fewer rows
  // than this they are mostly empty.
  SQUARE_ROWS = 8,
  // Vectors of columns whose rows are added together, so that several chains of additions overlap.
  ROW_SUMS = 4,
  // Rows that are added to the sums of a strip of columns at a time, and the maximum number of
  // vectors of a strip: a page of f32. A vector at a time, every row of which lies in another page,
  // takes 1.4 to 2.1 times as long past the second cache (Zen 4).
  COLUMN_STRIP_ROWS = 8,
  COLUMN_STRIP_VECTORS = 64,
  // The minimum number of packed vectors in a row whose sums are packed.
  PACKED_SUMS = 2,
  // The maximum number of terms that a float sum adds in order before it is added to a total, so
  // that long sums are accurate.
  SUM_TERMS = 512,
};

#endif
