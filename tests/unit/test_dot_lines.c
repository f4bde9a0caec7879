// flags: -march=native
/* The products of dot/lines.h against loops, of all kinds of bytes, on all kinds of edges and at
 * every width. Operands are allocated to the byte, so that a sanitizer sees what is touched beside
 * them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pk/half.h>
#include <pk/dot.h>
#include <pk/dot/skinny.h>
#include <pk/dot/lines.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

typedef struct {
  int64_t batches, rows, cols, k;
  int64_t gap; /* bytes between indices of the batch axis */
} Shape;

static int32_t element(const uint8_t *p, bool is_signed) { return is_signed ? (int8_t)*p : *p; }

static void try(const Shape *s, const char *what, void (*multiply)(const pk_dot_lines *p),
                bool left, bool right) {
  enum { room = 3 }; /* columns of the result that must not change */
  const int64_t batch = s->k + s->gap, row = s->batches ? (s->batches - 1) * batch + s->k : 0,
                ld = row + s->gap, to_row = s->cols + room, all = s->batches * s->rows * to_row;
  uint8_t *a = allocate_random(s->rows ? (s->rows - 1) * ld + row : 0),
          *b = allocate_random(s->cols ? (s->cols - 1) * ld + row : 0);
  int32_t *to = malloc(4 * (size_t)all + 4);
  if (!to) abort();
  for (int64_t i = 0; i < all; i++) to[i] = 77;
  const pk_dot_lines p = {.batches = s->batches,
                          .rows = s->rows,
                          .cols = s->cols,
                          .k = s->k,
                          .a = a,
                          .a_batch = batch,
                          .a_row = ld,
                          .b = b,
                          .b_batch = batch,
                          .b_row = ld,
                          .to = to,
                          .to_batch = s->rows * to_row,
                          .to_row = to_row};
  multiply(&p);
  bool good = true;
  for (int64_t i = 0; i < all; i++) {
    const int64_t n = i % to_row, m = i / to_row % s->rows, q = i / to_row / s->rows;
    int32_t sum = n < s->cols ? 0 : 77;
    for (int64_t k = 0; n < s->cols && k < s->k; k++)
      sum += element(a + m * ld + q * batch + k, left) * element(b + n * ld + q * batch + k, right);
    good = good && to[i] == sum;
  }
  check(good, what, "%d bytes: %lld of %lld x %lld x %lld, gap %lld", PK_VEC_BYTES,
        (long long)s->batches, (long long)s->rows, (long long)s->cols, (long long)s->k,
        (long long)s->gap);
  free(a);
  free(b);
  free(to);
}

static void try_all(Shape s) {
  try(&s, "lines of i8", pk_dot_lines_i8, true, true);
  try(&s, "lines of u8", pk_dot_lines_u8, false, false);
  try(&s, "lines of i8_u8", pk_dot_lines_i8_u8, true, false);
  try(&s, "lines of u8_i8", pk_dot_lines_u8_i8, false, true);
}

int main(void) {
  static const int64_t depth[] = {0, 1, 3, 4, 16, 17, 32, 33, 64, 130}, gaps[] = {0, 16, 5};
  static const int64_t rows[] = {0, 1, 2, 17}, cols[] = {0, 1, 15, 16, 37};
  for (int k = 0; k < 10; k++)
    for (int g = 0; g < 3; g++)
      for (int m = 0; m < 4; m++)
        for (int n = 0; n < 5; n++)
          for (int64_t q = 0; q < 4; q++) try_all((Shape){q, rows[m], cols[n], depth[k], gaps[g]});
  try_all((Shape){67, 1, 33, 32, 0});
  try_all((Shape){130, 2, 17, 16, 0});
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
