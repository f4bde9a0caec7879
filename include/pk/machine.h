/* machine.h: the tuning constants of compiled code: the sizes at which it switches algorithms, and
 * its prefetch distances. They affect speed only, never results. The conditions that use them, with
 * the measurements, are rows of dot/regimes.h.
 *
 * codegen/loops/machine.h has the constants on which the compiler's own decisions depend.
 */
#ifndef PK_MACHINE_H
#define PK_MACHINE_H

/* ---- constants that depend on the core. The values below are defaults: if codegen/loops/target.c
 * has others for a core, a kernel's C begins with their definitions, and runtime/micro.c is
 * compiled with them */

/* Non-temporal stores pay if an output has at least PK_STREAM_BYTES, about the size of L2, and
 * the arrays of a call together at least PK_STREAM_ALL: smaller ones stay in the last-level
 * cache, if the machine has a fast one. On a Xeon an output of 2 MiB is enough, whatever the
 * call reads. */
#ifndef PK_STREAM_BYTES
#define PK_STREAM_BYTES (2 << 20)
#endif
#ifndef PK_STREAM_ALL
#define PK_STREAM_ALL 0
#endif
/* The same total if nearly all of it is the output, because nothing else has to stay cached. */
#ifndef PK_STREAM_LONE
#define PK_STREAM_LONE 0
#endif
/* The same if parts of the output are read back: fewer of these are still in a last-level cache. */
#ifndef PK_STREAM_FAR
#define PK_STREAM_FAR (12 << 20)
#endif
/* Prefetch distance of a product's right operand, in steps. Without prefetching, a Xeon reaches
 * 85 % of the peak instead of 92 if the panels exceed L2. */
#ifndef PK_DOT_NEAR
#define PK_DOT_NEAR 12
#endif
/* Maximum number of steps at a time: the panels in use (1 MB for 512 columns) stay in L2, a
 * tile's rows of the left operand (28 KB) in L1. On a Xeon 256 x 512 x 2048 reaches 89 % of the
 * peak instead of 80, 256 x 256 x 4096 91 instead of 84. */
#ifndef PK_DOT_LONG
#define PK_DOT_LONG 512
#endif
/* Rows per block of a product that is computed panel by panel with copied left rows (dot/block.h).
 * 0: no product is; each row tile reads all panels. codegen/loops/target.c has the measurement. */
#ifndef PK_DOT_BLOCK
#define PK_DOT_BLOCK 0
#endif
/* Maximum number of rows of a register tile of one vector, if these rows evict each other from
 * L1 (PK_DOT_ALIAS). 0: as many as in other tiles. */
#ifndef PK_DOT_THIN
#define PK_DOT_THIN 0
#endif
/* Minimum prefetch distance of skinny products, in bytes. They prefetch into L2, because in L1
 * rows 2^n bytes apart evict each other. */
#ifndef PK_DOT_SKINNY_AHEAD
#define PK_DOT_SKINNY_AHEAD 8192
#endif
/* Products of up to this many rows do not prefetch an f32 right operand that is streamed, because
 * the hardware prefetchers suffice. */
#ifndef PK_DOT_ROWS_FOLLOWED
#define PK_DOT_ROWS_FOLLOWED 0
#endif
/* The same for a transposed right operand, of which several lines are read at once. */
#ifndef PK_DOT_LINES_FOLLOWED
#define PK_DOT_LINES_FOLLOWED 0
#endif

/* ---- constants that are the same for all cores */

/* Products of up to this many rows read their right operand in place. The number is the same for
 * all cores, so that libraries of micro-kernels and kernels agree. Panels can be reused. */
#ifndef PK_DOT_SKINNY
#define PK_DOT_SKINNY 24
#endif

enum {
  /* Bytes for the left rows of a block: 256 rows of 512 steps, about half of an L2. */
  PK_DOT_SCRATCH = 256 * (4 * 512 + 64),
  /* A product is computed panel by panel if it has at least this many rows, of at least this many
   * bytes, and more than PK_DOT_BRING panels. */
  PK_DOT_BLOCK_ROWS = 96,
  PK_DOT_BLOCK_BYTES = 1024,
  /* All panels are filled with this many steps before the next: memory is read along its rows.
   * With all 512 steps, 64 rows by 4096 x 4096 are 11 % slower; with 32, 32 rows by 1024 x 1024
   * 4 %. */
  PK_DOT_FILL = 64,
  /* Bytes of a row that are prefetched while it fills a panel (`filling`): they fill the next
   * panels, whereas the next steps are in other rows. 25 and 64 rows by 2048 x 2048 take 1.00 and
   * 2.38 ms on Zen 5; with 128, 384 and 768 bytes 1.00, 0.98, 1.00 and 2.54, 2.45, 2.55. */
  PK_DOT_FILL_NEAR = 256,
  /* Columns that are filled at a time: the usual number in a block of a product. */
  PK_DOT_FILL_COLUMNS = 512,
  /* From this number of steps on, a part of a sum is accumulated separately (pk_dot_is_apart). */
  PK_DOT_APART = 128,
  /* Products of up to this depth are computed row by row. */
  PK_DOT_SHALLOW = 4,
  /* A right operand of up to this many bytes is read in place by all rows, if its rows are less
   * than PK_DOT_ALIAS apart. */
  PK_DOT_SMALL = 640 * 1024,
  /* Rows that are a multiple of this many bytes apart map to few sets of L1, which has 64 sets
   * of 64 bytes on all x86 cores, and evict each other. */
  PK_DOT_ALIAS = 2048,
  /* Left rows and results of a product with more panels than this may be prefetched; those of
   * smaller ones stay in L2. */
  PK_DOT_BRING = 8,
  /* If the rows of a skinny product's result evict each other: columns that are accumulated in a
   * buffer at a time. */
  PK_DOT_SKINNY_ASIDE = 512,
  /* Steps per strip: 32 KB fit any L1. Also the steps of left rows that are copied because they
   * evict each other. */
  PK_DOT_SKINNY_STRIP = 256,
  /* From FEW_TILED rows on, and for an f32 right operand of up to FEW_KEPT bytes whose rows are
   * less than PK_DOT_SKINNY_PAGE apart, tiles may read it in place. */
  PK_DOT_SKINNY_TILED = 7,
  PK_DOT_SKINNY_KEPT = 1 << 20,
  /* FEW_LINES lines of a transposed right operand are read at once, instead of 16, if they have at
   * least FEW_LONG elements: one row by 2048 and 4096 squared takes 0.18 and 1.92 ms on Zen 5, with
   * 8 lines 0.20 and 2.17. */
  PK_DOT_SKINNY_LONG = 256,
  PK_DOT_SKINNY_LINES = 4,
  PK_DOT_SKINNY_PAGE = 4096, /* prefetchers stop at the end of a page */
};

/* Generated C states the constants on which the compiler's decisions depend. */
#ifndef PK_DOT_AGREES
#define PK_DOT_AGREES(few, block_rows, panels)                                                 \
  _Static_assert(                                                                              \
      (few) == PK_DOT_SKINNY && (block_rows) == PK_DOT_BLOCK_ROWS && (panels) == PK_DOT_BRING, \
      "pkc and its headers are of different versions")
#endif

#endif
