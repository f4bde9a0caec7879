/* dot_tiles.h: the tiles of one kind for 1 to MR rows, and a block made of them. Strides in bytes. Included by dot.h for every
 * PK_DOT_KIND. */

PK_DOT_INLINE void PK_DOT_OF(increase)(PK_DOT_VECTOR sum[PK_DOT_NV], const char *c) {
  sum[0] = PK_DOT_OF(plus)(sum[0], PK_DOT_OF(load)(c));
  if (PK_DOT_NV > 1)
    sum[PK_DOT_NV - 1] = PK_DOT_OF(plus)(sum[PK_DOT_NV - 1], PK_DOT_OF(load)(c + 4 * PK_LANES * (PK_DOT_NV - 1)));
}

PK_DOT_INLINE void PK_DOT_OF(replace)(const PK_DOT_VECTOR sum[PK_DOT_NV], char *c) {
  PK_DOT_OF(store)(c, sum[0]);
  if (PK_DOT_NV > 1) PK_DOT_OF(store)(c + 4 * PK_LANES * (PK_DOT_NV - 1), sum[PK_DOT_NV - 1]);
}

#define PK_DOT_ROWS 1
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 2
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 3
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 4
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 5
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 6
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 7
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 8
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 9
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 10
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 11
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 12
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 13
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 14
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 15
#include <pk/dot_tile.h>
#define PK_DOT_ROWS 16
#include <pk/dot_tile.h>

PK_DOT_INLINE void PK_DOT_OF(tile)(int64_t rows, const char *a, int64_t lda, const char *panel, int64_t k, char *c, int64_t ldc,
                                   int mode, const int32_t *start) {
  switch (rows) {
#define PK_DOT_CASE(n)                                     \
  case n:                                                  \
    PK_DOT_TILE(n)(a, lda, panel, k, c, ldc, mode, start); \
    break;
    PK_DOT_ROWS_TO(PK_DOT_MR, PK_DOT_CASE)
#undef PK_DOT_CASE
    default:
      break;
  }
}

/* Row tiles outside, panels inside: the tile's rows of `a` (28 KB at k = 512) stay in L1 while the panels stream from L2 with
 * prefetch. Against panels outside: 256x512x512 96 % of the FMA peak for 95, 128 cubed 97 for 96, 56x512x64 and 56x64x512 alike.
 * Copying the tile's rows to a better stride first gains nothing: 256x512x512 in rows of 4096 bytes 93 % either way. */
PK_DOT_OUTLINE void PK_DOT_OF(tiles)(int64_t rows, int64_t cols, const char *a, int64_t lda, const char *panels, int64_t depth,
                                     int64_t k, char *c, int64_t ldc, int mode) {
  const int64_t part = pk_dot_part(k);
  for (int64_t r = 0, n; r < rows; r += n) {
    n = pk_dot_take(rows - r);
    for (int64_t j = 0; j * PK_DOT_NR < cols; j++) PK_DOT_OF(tile)
    (n, a + r * lda, lda, panels + j * depth * PK_DOT_STEP_BYTES, part, c + r * ldc + j * PK_DOT_STEP_BYTES, ldc, mode, NULL);
  }
  if (part < k)
    PK_DOT_OF(tiles)(rows, cols, a + 4 * part, lda, panels + part * PK_DOT_STEP_BYTES, depth, k - part, c, ldc, PK_DOT_ADD);
}
