/* dot/regimes.h: the regimes of products and transposes: in which form an operation is computed at
 * which sizes. This table chooses: each row becomes a function pk_dot_is_NAME, which the headers
 * and generated C call. codegen/loops/products/regimes.c reads the same rows for decisions at
 * compile time and for `pkc explain`; tests/unit/test_regimes.c forces each row on and off.
 *
 *   X(name, of, core, bits, parameters, can, pays, form, when, figure)
 *
 * of      the operations: SKINNY rows, whose right operand is read in place by rows (SKINNY_ROWS)
 * or is transposed, of floats (SKINNY_LINES) or of groups of 4 bytes (SKINNY_GROUPS); TILES; those
 * that have memory for left rows (BLOCKED); those that pack the right operand themselves (FILLED);
 * f32 whose columns may not be whole vectors (TAIL); TRANSPOSES core    ALL; or SOME: only cores
 * whose set of regimes has it (PK_REGIMES, from codegen/loops/target.c) bits    SAME: the result
 * has the same bits with and without it; OWN: sums may be in another order, so only the sizes may
 * choose can     what the form requires pays    the cut-off, from measurements; constants are in
 * machine.h form    how the operation is computed when    `pays` in words figure  the range in
 * which it was measured best, the machine, and the times with and without it; "not recorded" if no
 * measurement was kept
 *
 * A regime applies if its core has it and `can` and `pays` hold. Compiled with
 * -DPK_REGIME_ALWAYS=PK_REGIME_NAME it applies whenever `can` holds, with
 * -DPK_REGIME_NEVER=PK_REGIME_NAME never.
 */
#ifndef PK_DOT_REGIMES_H
#define PK_DOT_REGIMES_H

#include <pk/machine.h>

/* Rows of the left operand, `bytes` of each, that map to few sets of L1. */
#define PK_DOT_ALIASES(lda, bytes) ((lda) % PK_DOT_ALIAS == 0 && (lda) >= 2 * (bytes))

/* Conditions of sizes alone, which the compiler evaluates too. `panel`: columns of a panel. */
#define PK_REGIMES_OF_SIZES(X)                                                                 \
  X(skinny, SKINNY, ALL, OWN, (int64_t rows), true, rows <= PK_DOT_SKINNY,                     \
    "the right operand is read once, in place, instead of being packed into panels",           \
    "24 rows or fewer",                                                                        \
    "24 and 42 rows by 2048 x 2048: 1.39 and 2.37 ms instead of 1.77 and 2.50; 64 rows by "    \
    "4096 x 4096 would be 5 % slower")                                                         \
  X(block, BLOCKED, ALL, SAME,                                                                 \
    (bool scratch, int64_t rows, int64_t cols, int64_t panel, int64_t bytes), scratch,         \
    rows >= PK_DOT_BLOCK_ROWS && cols > PK_DOT_BRING * panel && bytes >= PK_DOT_BLOCK_BYTES,   \
    "panel by panel: the next rows and panel are copied or prefetched while tiles multiply",   \
    "96 rows or more, more than 8 panels, 1 KB or more of each row",                           \
    "Zen 5: 96 and 192 rows by 512 x 512 0.209 and 0.398 ms instead of 0.211 and 0.404, 2048 " \
    "cubed 71.6 instead of 73.6; 64 rows by 512 x 512 would be 3 % slower, 256 cubed 2 %")

#define PK_REGIMES_OF_OPERANDS(X)                                                               \
  X(tail, TAIL, ALL, OWN, (int64_t rows, int64_t tail), tail <= PK_DOT_TAIL, rows >= PK_LANES,  \
    "tail columns are a skinny product with its operands exchanged",                            \
    "up to half a vector of tail columns, and as many rows as a vector has lanes",              \
    "256 rows by 512 x 1, 5 and 8: 10, 19 and 24 us instead of 28")                             \
  X(small, FILLED, ALL, OWN, (int64_t k, int64_t cols, int64_t ld, int64_t tail),               \
    k > PK_DOT_SHALLOW && cols % PK_LANES <= tail, ld < PK_DOT_ALIAS && k * ld <= PK_DOT_SMALL, \
    "all rows read the right operand in place", "its rows less than 2 KB apart, 640 KB in all", \
    "Zen 5: 40 x 64 x 64, 64 x 256 x 256 and 96 x 384 x 384 0.0016, 0.0333 and 0.1144 ms "      \
    "instead of 0.0017, 0.0345 and 0.1193; 2048 x 64 x 512 would be 3 % slower")

#define PK_REGIMES_OF_TILES(X)                                                                   \
  X(shallow, TILES, ALL, SAME, (int64_t bytes),                                                  \
    bytes > 0 && bytes <= 4 * PK_DOT_SHALLOW && bytes % 4 == 0, true,                            \
    "row by row instead of by tiles, whose rows evict each other from L1",                       \
    "16 bytes of each row or fewer",                                                             \
    "Zen 4: 1024 x 1024 of depth 1, 2, 3 and 4 0.054, 0.061, 0.079 and 0.100 ms instead of "     \
    "0.147 to 0.155")                                                                            \
  X(copied, TILES, ALL, SAME, (int64_t lda, int64_t bytes, int64_t cols), true,                  \
    PK_DOT_ALIASES(lda, bytes) && cols > 2 * PK_DOT_NR,                                          \
    "left rows that evict each other from L1 are copied",                                        \
    "rows a multiple of 2 KB apart, more than 2 panels", "not recorded")                         \
  X(thin, TILES, ALL, SAME, (int64_t lda, int64_t bytes, int64_t cols),                          \
    PK_DOT_THIN > 0 && PK_DOT_THIN < PK_DOT_MR, PK_DOT_ALIASES(lda, bytes) && cols <= PK_LANES,  \
    "tiles have fewer rows, because these evict each other from L1 and are not copied",          \
    "rows a multiple of 2 KB apart, one vector of columns",                                      \
    "2048 x 2048 x 16: Zen 5 0.65 ms instead of 0.77, copied first 0.84; Zen 4 1.24 instead of " \
    "1.95")                                                                                      \
  X(brought, TILES, SOME, SAME, (int64_t cols, bool in_place), !in_place,                        \
    cols > PK_DOT_BRING * PK_DOT_NR, "left rows and results of the next tiles are prefetched",   \
    "more than 8 panels",                                                                        \
    "512, 1024 and 2048 cubed 2.39, 19.9 and 163 ms instead of 2.42, 20.5 and 172; 64, 128 and " \
    "256 cubed would be 3, 2 and 1 % slower")                                                    \
  X(filling, FILLED, SOME, SAME, (bool fills), true, fills,                                      \
    "rows that fill a panel are prefetched along the row, not steps ahead",                      \
    "the first rows of a product, which pack the right operand",                                 \
    "Zen 5: 25 and 64 rows by 2048 x 2048 1.00 and 2.38 ms instead of 1.09 and 2.56")

/* Products of few rows, and those whose operands are exchanged. */
#define PK_REGIMES_OF_SKINNY(X)                                                                    \
  X(tiled, SKINNY_ROWS, SOME, SAME, (bool near, int64_t rows, int64_t k, int64_t ld), true,        \
    !near && rows >= PK_DOT_SKINNY_TILED && ld < PK_DOT_SKINNY_PAGE &&                             \
        k * ld <= PK_DOT_SKINNY_KEPT,                                                              \
    "tiles read the right operand in place instead of streaming it",                               \
    "7 rows or more, rows of the operand less than 4 KB apart, 1 MB in all",                       \
    "Zen 5: 8, 12, 16 and 24 rows by 256 x 512 8.8, 12.6, 17.4 and 25.5 us instead of 9.6, "       \
    "14.0, 18.8 and 27.8; 16 by 512 x 1024 would take 100 instead of 83")                          \
  X(streamed, SKINNY_ROWS, SOME, SAME, (int64_t cols), true, cols > PK_DOT_SKINNY_WIDE * PK_LANES, \
    "several rows of the right operand are streamed at a time, not strips of its columns",         \
    "more columns than the widest strip",                                                          \
    "Zen 4: 1, 4 and 16 rows by 2048 x 2048 0.30, 0.55 and 1.6 ms instead of 0.45, 1.3 and 2.1")   \
  X(along, SKINNY_ROWS, SOME, SAME, (int64_t k, int64_t ld), true, k *ld <= PK_DOT_SKINNY_KEPT,    \
    "one row keeps the sums of many columns in registers", "1 MB in all",                          \
    "512 x 256 and 256 x 1024: Zen 5 2.6 and 7.0 us instead of 4.2 and 10.0, Zen 4 4.8 and 11.6 "  \
    "instead of 5.8 and 13.5; Zen 5: 4096 x 4096 would "                                           \
    "take 1.67 ms instead of 1.36")                                                                \
  X(rows_followed, SKINNY_ROWS, ALL, SAME, (int64_t rows), true, rows <= PK_DOT_ROWS_FOLLOWED,     \
    "a streamed right operand is not prefetched: the hardware follows it",                         \
    "up to as many rows as the core follows",                                                      \
    "Zen 5: 1, 3 and 6 rows by 2048 x 2048 0.156, 0.170 and 0.223 ms instead of 0.167, 0.220 "     \
    "and 0.280; 8 and 16 by 4096 x 4096 would take 3.0 and 3.7 instead of 2.4 and 2.8")            \
  X(restarting, SKINNY, SOME, SAME, (void), true, true,                                            \
    "the right operand is always prefetched: the hardware starts anew in each page",               \
    "every product that is not followed", "not recorded")                                          \
  X(prefetched, SKINNY, ALL, SAME, (int64_t rows, int64_t ld), true,                               \
    rows > PK_DOT_SKINNY_ROWS || ld < PK_DOT_SKINNY_PAGE, "the right operand is prefetched",       \
    "5 rows or more, or rows of the operand less than 4 KB apart",                                 \
    "10 to 30 % of the time; 1 to 4 rows by 2048 x 2048 would be 4 to 10 % slower")                \
  X(long_row, SKINNY_LINES, SOME, SAME, (int64_t rows, int64_t k),                                 \
    PK_DOT_SKINNY_LINES <= PK_PART_LANES, rows == 1 && k >= PK_DOT_SKINNY_LONG,                    \
    "one row reads 4 lines of a transposed operand at a time", "256 steps or more",                \
    "Zen 5: 2048 x 2048 and 4096 x 4096 0.18 and 1.92 ms instead of 0.28 and 2.5; lines of 16 "    \
    "elements would be 20 % slower")                                                               \
  X(lines_followed, SKINNY_LINES, ALL, SAME, (int64_t rows, int64_t k),                            \
    2 * PK_DOT_SKINNY_LINES <= PK_PART_LANES,                                                      \
    rows <= PK_DOT_LINES_FOLLOWED && k >= PK_DOT_SKINNY_LONG,                                      \
    "lines of a transposed operand are not prefetched: the hardware follows them",                 \
    "up to as many rows as the core follows, 256 steps or more",                                   \
    "Zen 4: 1 and 4 rows by 4096 x 4096 2.14 and 2.61 ms instead of 2.25 and 3.26; Zen 5: 1, 2 "   \
    "and 3 rows 1.2, 1.6 and 1.9 ms instead of 1.6, 2.2 and 2.4; 4 "                               \
    "rows are equal")                                                                              \
  X(in_lanes, SKINNY_GROUPS, ALL, OWN, (int64_t rows, int64_t bytes), rows <= PK_DOT_SKINNY_ROWS,  \
    bytes >= rows * PK_VEC_BYTES,                                                                  \
    "lanes sum shares of the terms, 4 lines of a transposed operand at a time, instead of "        \
    "transposing the lines",                                                                       \
    "up to 4 rows, lines of as many vectors as there are rows",                                    \
    "Zen 4: 1, 2 and 4 rows of bf16 by 2048 x 32,000 4.1, 5.3 and 7.0 ms instead of 7.7, 7.8 and " \
    "10.4; 4 rows by 64 x 512 would take 4.5 us instead of 3.1")                                   \
  X(copied_few, SKINNY_ROWS, ALL, SAME, (int64_t rows, int64_t lda, int64_t cols),                 \
    rows <= PK_DOT_SKINNY && PK_DOT_ALIASES(lda, 4 * PK_DOT_SKINNY_STRIP),                         \
    rows > 2 * PK_DOT_SKINNY_ROWS && pk_dot_is_copied(lda, 4 * PK_DOT_SKINNY_STRIP, cols),         \
    "left rows that evict each other from L1 are copied, some steps at a time",                    \
    "9 rows or more, a multiple of 2 KB apart, more than 2 panels",                                \
    "Zen 5: 16 and 24 rows by 2048 x 2048 0.64 and 0.98 ms instead of 0.75 and 1.1")               \
  X(aside, SKINNY_ROWS, ALL, SAME, (bool by_pieces, int64_t rows, int64_t ldto), by_pieces,        \
    rows > PK_DOT_SKINNY_ROWS && ldto % PK_DOT_ALIAS == 0,                                         \
    "sums are in a buffer, because the rows of the result evict each other from L1",               \
    "5 rows or more, those of the result a multiple of 2 KB apart",                                \
    "8 and 16 rows by 2048 x 2048 0.65 and 1.0 ms instead of 0.75 and 1.3")                        \
  X(beside, TAIL, ALL, SAME, (int64_t whole, int64_t rows, int64_t k), whole > 0,                  \
    whole <= PK_DOT_TAIL_BESIDE * PK_DOT_NR && rows * k >= PK_DOT_TAIL_FAR,                        \
    "some rows at a time are multiplied by whole panels and by the tail columns",                  \
    "up to 4 whole panels, a left operand of 64 K elements or more",                               \
    "Zen 5: 1024 rows by 1024 x 20, 24, 40 and 72 0.225, 0.28, 0.39 and 0.65 ms instead of "       \
    "0.27, 0.33, 0.40 and 0.67; x 200 would take 1.75 instead of 1.73")

#define PK_REGIMES_OF_TRANSPOSES(X)                                                                \
  X(squares, TRANSPOSES, SOME, SAME, (bool stream, bool aligned), aligned, stream,                 \
    "squares are stored from registers by non-temporal stores, instead of through a buffer",       \
    "results of non-temporal stores, in whole lines", "Zen 4: 4096 x 4096 5.0 ms instead of 14.8") \
  X(shifted, TRANSPOSES, SOME, SAME, (void), PK_PART_BYTES == 64, true,                            \
    "lines that are not aligned are put together from two squares",                                \
    "results of non-temporal stores, in rows that are not aligned",                                \
    "Zen 5: not recorded; Zen 4: 4095 x 4097 and 4097 x 2049 would take 16.9 and 7.4 ms instead "  \
    "of 11.3 and 5.3")

#define PK_DOT_REGIMES(X)   \
  PK_REGIMES_OF_SIZES(X)    \
  PK_REGIMES_OF_OPERANDS(X) \
  PK_REGIMES_OF_TILES(X)    \
  PK_REGIMES_OF_SKINNY(X)   \
  PK_REGIMES_OF_TRANSPOSES(X)

enum {
#define PK_REGIME_NUMBER(name, ...) PK_REGIME_##name,
  PK_DOT_REGIMES(PK_REGIME_NUMBER)
#undef PK_REGIME_NUMBER
      PK_REGIME_COUNT
};

/* The regimes of this core, one bit each; regimes of ALL cores have no bit. */
#ifndef PK_REGIMES
#define PK_REGIMES 0
#endif
#ifndef PK_REGIME_ALWAYS
#define PK_REGIME_ALWAYS PK_REGIME_COUNT
#endif
#ifndef PK_REGIME_NEVER
#define PK_REGIME_NEVER PK_REGIME_COUNT
#endif
/* Tests define this, to count the regimes that they reach. */
#ifndef PK_REGIME_SEEN
#define PK_REGIME_SEEN(regime, holds) (holds)
#endif
#define PK_REGIME_CORE_ALL(name) true
#define PK_REGIME_CORE_SOME(name) ((PK_REGIMES >> PK_REGIME_##name & 1) != 0)

/* The function of a row. */
#define PK_REGIME_FUNCTION(name, of, core, bits, parameters, can, pays, ...)                \
  PK_DOT_INLINE bool pk_dot_is_##name parameters {                                          \
    return PK_REGIME_SEEN(PK_REGIME_##name, PK_REGIME_NEVER != PK_REGIME_##name && (can) && \
                                                (PK_REGIME_ALWAYS == PK_REGIME_##name ||    \
                                                 (PK_REGIME_CORE_##core(name) && (pays)))); \
  }

#endif
