/* machine.h: what compiled code is told of the machine beyond its instructions: from which sizes on
 * it goes another way, how far ahead it reads. A wrong value makes it slower, no more.
 *
 * What the compiler itself decides by the machine is in codegen/loops/machine.h.
 */
#ifndef PK_MACHINE_H
#define PK_MACHINE_H

/* ---- different from core to core: those of codegen/loops/target.c that are not these begin the C
 * of a kernel and are among the flags of runtime/micro.c */

/* Does the machine follow many rows side by side (1)? Few rows then read an f32 right operand row
 * beside row, not by strips down its rows (0), and transposes past the caches need no buffer. */
#ifndef PK_DOT_STREAM
#define PK_DOT_STREAM 0
#endif
/* Stores past the caches begin to pay where an output has PK_STREAM_BYTES, about a second-level
 * cache, and the arrays of a call together PK_STREAM_ALL: what is less stays in the last-level
 * cache, where the machine has one that is fast. On a Xeon an output of 2 MiB is enough, whatever
 * the call reads. */
#ifndef PK_STREAM_BYTES
#define PK_STREAM_BYTES (2 << 20)
#endif
#ifndef PK_STREAM_ALL
#define PK_STREAM_ALL 0
#endif
/* .. and at least so many where nearly all of them are the output: nothing else is to be kept. */
#ifndef PK_STREAM_LONE
#define PK_STREAM_LONE 0
#endif
/* .. where parts of the output are read back: less is found in a last-level cache then. */
#ifndef PK_STREAM_FAR
#define PK_STREAM_FAR (12 << 20)
#endif
/* Steps that the right operand of a product is prefetched ahead. None: 85 % of a Xeon's peak for 92
 * where the panels leave L2. */
#ifndef PK_DOT_NEAR
#define PK_DOT_NEAR 12
#endif
/* .. and, by the first rows of a product, panels into L2. 0: not so; the machine's own prefetchers
 * bring them soon enough. */
#ifndef PK_DOT_FAR
#define PK_DOT_FAR 0
#endif
/* Steps at a time, at most: the panels in use (1 MB for 512 columns) stay in L2, a tile's rows of
 * the left operand (28 KB) in L1. On a Xeon 256 x 512 x 2048 takes 89 % of the peak for 80, 256 x
 * 256 x 4096 91 for 84. */
#ifndef PK_DOT_LONG
#define PK_DOT_LONG 512
#endif
/* Rows at a time of a product that goes panel by panel, its left rows copied (dot/block.h). 0: none
 * does; the tiles of its rows go through all panels. The measurement is in
 * codegen/loops/target.c. */
#ifndef PK_DOT_BLOCK
#define PK_DOT_BLOCK 0
#endif
/* Rows of a register tile of one vector, at most, where they drive each other out of L1
 * (PK_DOT_ALIAS). 0: no fewer than of others. */
#ifndef PK_DOT_THIN
#define PK_DOT_THIN 0
#endif
/* Bytes that products of few rows read ahead, at least; into L2, for in L1 rows 2^n bytes apart
 * drive each other out. */
#ifndef PK_DOT_FEW_AHEAD
#define PK_DOT_FEW_AHEAD 8192
#endif
/* Rows of a product up to which nothing of an f32 right operand is prefetched that is read row
 * beside row (PK_DOT_STREAM), since the machine's own prefetchers bring it. */
#ifndef PK_DOT_FEW_FOLLOWED
#define PK_DOT_FEW_FOLLOWED 0
#endif
/* .. of a transposed one, whose lines are read side by side. 1, 2, 3 and 4 rows by 4096 x 4096 take
 * 1.2, 1.6, 1.9 and 2.5 ms on Zen 5, prefetched 1.6, 2.2, 2.4 and 2.5. */
#ifndef PK_DOT_FEW_LINED
#define PK_DOT_FEW_LINED 0
#endif

/* ---- the same on all */

/* Rows at most that read their right operand in place; one number, so that libraries of
 * micro-kernels and kernels agree. With 24, 42 and 64 rows by 2048 x 2048 strips take 1.39, 2.37
 * and 3.29 ms, all panels 1.77, 2.50 and 3.59; 64 rows by 4096 x 4096 16.6 and 15.9. And panels can
 * be kept. */
#define PK_DOT_FEW 24

enum {
  /* Bytes for the left rows of a block: 256 of 512 steps, about half of an L2. */
  PK_DOT_ROOM = 256 * (4 * 512 + 64),
  /* Rows, and bytes of each, from which on a product goes panel by panel, if it has more than
   * PK_DOT_BRING panels: 96 and 192 rows by 512 x 512 take 0.209 and 0.398 ms for 0.211 and 0.404
   * on Zen 5, 64 rows 0.146 for 0.142; 256 x 256 x 256 0.1345 for 0.132. */
  PK_DOT_BLOCK_ROWS = 96,
  PK_DOT_BLOCK_BYTES = 1024,
  /* Steps that fill all panels before the next: memory is read along its rows. All 512: 64 rows by
   * 4096 x 4096 11 % slower; 32: 32 rows by 1024 x 1024 4 %. */
  PK_DOT_FILL = 64,
  /* Bytes of a row that are prefetched while it fills a panel, on machines that follow few rows by
   * themselves (PK_DOT_STREAM): what the next panels are filled from, where the steps to come would
   * be in other rows. 25 and 64 rows by 2048 x 2048 take 1.00 and 2.38 ms for 1.09 and 2.56 on Zen
   * 5; 128, 384 and 768 bytes 1.00, 0.98, 1.00 and 2.54, 2.45, 2.55. */
  PK_DOT_FILL_NEAR = 256,
  /* .. and columns at a time: as many as a block of a product most often has. */
  PK_DOT_FILL_COLUMNS = 512,
  /* Steps from which on a part of a sum is added up by itself (pk_dot_is_apart). */
  PK_DOT_APART = 128,
  /* Steps at most of a product that is made row by row: 1024 x 1024 of depth 1, 2, 3, 4 takes
   * 0.054, 0.061, 0.079, 0.100 ms on Zen 4, by tiles 0.147 to 0.155; rows of 4000 bytes up to 10 %
   * less. */
  PK_DOT_SHALLOW = 4,
  /* Bytes of a right operand that all rows read in place, if its rows are less than PK_DOT_ALIAS
   * apart: 40 x 64 x 64, 64 x 256 x 256, 96 x 384 x 384, 128 and 256 cubed take 0.0016, 0.0333,
   * 0.1144, 0.0170 and 0.1323 ms for 0.0017, 0.0345, 0.1193, 0.0173 and 0.1357 on Zen 5; with rows
   * of 2 KB 2048 x 64 x 512 0.575 for 0.558, of 4 KB 64 x 64 x 1024 0.0384 for 0.0372. */
  PK_DOT_SMALL = 640 * 1024,
  /* Rows a multiple of so many bytes apart share few sets of L1, which has 64 sets of 64 bytes on
   * the x86 cores whatever its size, and drive each other out. */
  PK_DOT_ALIAS = 2048,
  /* Panels that a product has more of where its left rows and results are prefetched, on machines
   * that follow few rows by themselves (PK_DOT_STREAM): 512, 1024 and 2048 cubed take 2.39, 19.9
   * and 163 ms for 2.42, 20.5 and 172, bf16 and i8 at 1024 10.0 and 5.15 for 10.4 and 5.22; 64, 128
   * and 256 cubed, which stay in L2, would lose 3, 2 and 1 %. */
  PK_DOT_BRING = 8,
  /* Where the rows of a product of few rows do: columns whose sums are made elsewhere at a time. 8
   * rows by 2048 x 2048: 0.75 ms, so 0.65; 16 rows: 1.3 and 1.0. */
  PK_DOT_FEW_ASIDE = 512,
  /* Steps down a strip: 32 KB, which every L1 holds; and of rows of a that are copied since they
   * drive each other out of it: 16 and 24 rows by 2048 x 2048 take 0.64 and 0.98 ms for 0.75 and
   * 1.1 on Zen 5. */
  PK_DOT_FEW_STRIP = 256,
  /* Rows from which on, and bytes of a right operand of f32 up to which, tiles read it in place on
   * machines that would stream it (PK_DOT_STREAM), its rows less than PK_DOT_FEW_PAGE apart: 8, 12,
   * 16 and 24 rows by 256 x 512 take 8.8, 12.6, 17.4 and 25.5 us for 9.6, 14.0, 18.8 and 27.8 on
   * Zen 5, 16 by 512 x 512 35.2 for 40.8, by 512 x 500 36.5 for 46; 6 rows are level. With rows of
   * 4 KB 16 by 512 x 1024 would take 100 for 83. */
  PK_DOT_FEW_TILED = 7,
  PK_DOT_FEW_KEPT = 1 << 20,
  /* Elements from which machines that stream (PK_DOT_STREAM) follow 4 lines of a transposed right
   * operand, not 16, for one row: 2048 and 4096 squared take 0.18 and 1.92 ms on Zen 5, by 8 lines
   * 0.20 and 2.17, by 16 0.28 and 2.5; of 16 elements a line 8 take 20 % longer than 16. */
  PK_DOT_FEW_LONG = 256,
  PK_DOT_FEW_LINES = 4,
  PK_DOT_FEW_PAGE = 4096, /* prefetchers follow a row to the end of its page */
};

/* Generated C states the numbers by which the compiler chose its loops. */
#define PK_DOT_AGREES(few, block_rows, panels)                                              \
  _Static_assert(                                                                           \
      (few) == PK_DOT_FEW && (block_rows) == PK_DOT_BLOCK_ROWS && (panels) == PK_DOT_BRING, \
      "pkc and its headers are of different versions")

#endif
