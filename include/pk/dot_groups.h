/* dot_groups.h: products of elements of 1 or 2 bytes, which lie along k in groups of 4 bytes: the block of one kind. Included by
 * dot_i16.h, dot_i8.h and dot_bf16.h for every PK_DOT_KIND.
 *
 * A kind has a function more than those of dot.h: pk_dot_starts_KIND(start, n, a, lda, bytes, factor) says what the sums of n
 * rows start from, `bytes` bytes of each of which are to be multiplied. Strides, k too, are in bytes, depth in steps of 4 bytes.
 * Nothing is read of a row but its k bytes.
 */
#include <pk/dot_tiles.h>

/* What is left of k, less than a step: `left` bytes of each row and of each column of the panel, with zeros put behind them. */
PK_DOT_OUTLINE void PK_DOT_OF(rest)(int n, const char *a, int64_t lda, const char *panel, int64_t left, char *c, int64_t ldc) {
  static const int32_t start[PK_DOT_MR];
  int32_t words[PK_DOT_MR] = {0}, step[PK_DOT_NR];
  const int32_t mask = (int32_t)(0xffffffffu >> (32 - 8 * left));
  memcpy(step, panel, sizeof step);
  for (int i = 0; i < n; i++) memcpy(&words[i], a + i * lda, (size_t)left);
  for (int i = 0; i < PK_DOT_NR; i++) step[i] &= mask;
  PK_DOT_OF(tile)(n, (const char *)words, 4, (const char *)step, 1, c, ldc, PK_DOT_ADD, start);
}

PK_DOT_OUTLINE void PK_DOT_OF(groups)(int64_t rows, int64_t cols, const char *a, int64_t lda, const char *panels, int64_t depth,
                                      int64_t k, char *c, int64_t ldc, int mode, int32_t factor) {
  const int64_t steps = pk_dot_part(k / 4), now = steps < k / 4 ? 4 * steps : k, left = now % 4;
  for (int64_t r = 0, n; r < rows; r += n, a += n * lda, c += n * ldc) {
    int32_t start[PK_DOT_MR];
    n = pk_dot_take(rows - r);
    PK_DOT_OF(starts)(start, (int)n, a, lda, now, factor);
    for (int64_t j = 0; j * PK_DOT_NR < cols; j++) {
      const char *panel = panels + j * depth * PK_DOT_STEP_BYTES;
      char *to = c + j * PK_DOT_STEP_BYTES;
      PK_DOT_OF(tile)(n, a, lda, panel, steps, to, ldc, mode, start);
      if (left) PK_DOT_OF(rest)((int)n, a + 4 * steps, lda, panel + steps * PK_DOT_STEP_BYTES, left, to, ldc);
    }
  }
  if (now == k) return;
  a += now - rows * lda, c -= rows * ldc, panels += steps * PK_DOT_STEP_BYTES;
  PK_DOT_OF(groups)(rows, cols, a, lda, panels, depth, k - now, c, ldc, PK_DOT_ADD, factor);
}
