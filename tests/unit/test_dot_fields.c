// flags: -march=native
/* The products of dot/fields.h against loops, for fields of 1 to 7 bits in either order, on all
 * kinds of edges and at every width. Operands are allocated to the byte, so that a sanitizer sees
 * what is touched beside them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pk/half.h>
#include <pk/dot.h>
#include <pk/dot/fields.h>
#include <pk/dot/skinny.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "data.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

typedef struct {
  int64_t batches, rows, cols, bytes;
  int64_t gap; /* bytes between indices of the batch axis */
} Shape;

static int32_t element(const uint8_t *line, const pk_dot_fields *f, int64_t byte, int field) {
  const int value = line[byte] >> (f->first + field * f->bits) & ((1 << f->bits) - 1);
  return (value ^ f->flip) - f->bias;
}

static void try(const Shape *s, const pk_dot_fields *f, const char *what, bool is_signed,
                void (*multiply)(const pk_dot_lines *p, const pk_dot_fields *f)) {
  enum { room = 3 }; /* columns of the result that must not change */
  const int64_t k = s->bytes * f->fields, a_batch = k + s->gap, b_batch = s->bytes + s->gap,
                last = s->batches - 1, a_row = s->batches ? last * a_batch + k : 0,
                b_row = s->batches ? last * b_batch + s->bytes : 0, to_row = s->cols + room,
                all = s->batches * s->rows * to_row;
  uint8_t *a = allocate_random(s->rows * a_row), *b = allocate_random(s->cols * b_row);
  int32_t *to = malloc(4 * (size_t)all + 4);
  if (!to) abort();
  for (int64_t i = 0; i < all; i++) to[i] = 77;
  const pk_dot_lines p = {.batches = s->batches,
                          .rows = s->rows,
                          .cols = s->cols,
                          .k = k,
                          .a = a,
                          .a_batch = a_batch,
                          .a_row = a_row,
                          .b = b,
                          .b_batch = b_batch,
                          .b_row = b_row,
                          .to = to,
                          .to_batch = s->rows * to_row,
                          .to_row = to_row};
  multiply(&p, f);
  bool good = true;
  for (int64_t i = 0; i < all; i++) {
    const int64_t n = i % to_row, m = i / to_row % s->rows, q = i / to_row / s->rows;
    int32_t sum = n < s->cols ? 0 : 77;
    for (int64_t e = 0; n < s->cols && e < k; e++) {
      const int64_t byte = e / f->fields, field = e % f->fields;
      const uint8_t *x =
          a + m * a_row + q * a_batch + f->k_first + byte * f->k_byte + field * f->k_field;
      sum +=
          (is_signed ? (int8_t)*x : *x) * element(b + n * b_row + q * b_batch, f, byte, (int)field);
    }
    good = good && to[i] == sum;
  }
  check(good, what, "%d bytes: %lld of %lld x %lld x %lld bytes, gap %lld, %d of %d bits from %d",
        PK_VEC_BYTES, (long long)s->batches, (long long)s->rows, (long long)s->cols,
        (long long)s->bytes, (long long)s->gap, f->fields, f->bits, f->first);
  free(a);
  free(b);
  free(to);
}

static void try_all(Shape s, int fields, int bits, int first) {
  const int64_t k = s.bytes * fields;
  pk_dot_fields f = {.fields = fields, .bits = bits, .first = first};
  const int order = (int)(random_bits() % 3);
  if (random_bits() & 256) f.bias = 1 << (bits - 1);
  if (f.bias && random_bits() & 256) f.flip = f.bias;
  f.k_byte = order == 1 ? fields : 1;
  f.k_field = order == 0 ? s.bytes : order == 1 ? 1 : -s.bytes;
  f.k_first = order == 2 ? k - s.bytes : 0;
  try(&s, &f, "fields by i8", true, pk_dot_fields_i8);
  try(&s, &f, "fields by u8", false, pk_dot_fields_u8);
}

int main(void) {
  static const int64_t bytes[] = {1, 3, 4, 8, 16, 17, 32, 64, 130}, gaps[] = {0, 2, 16};
  static const int64_t rows[] = {0, 1, 2, 17}, cols[] = {0, 1, 15, 16, 37};
  static const int kinds[][3] = {{2, 4, 0}, {1, 4, 4}, {4, 2, 0}, {2, 3, 1}, {8, 1, 0}, {1, 7, 0}};
  for (int k = 0; k < 9; k++)
    for (int g = 0; g < 3; g++)
      for (int m = 0; m < 4; m++)
        for (int n = 0; n < 5; n++)
          for (int64_t q = 0; q < 6; q++)
            for (int i = 0; i < 6; i++)
              if (bytes[k] * kinds[i][0] <= PK_FIELDS_MOST)
                try_all((Shape){q, rows[m], cols[n], bytes[k], gaps[g]}, kinds[i][0], kinds[i][1],
                        kinds[i][2]);
  try_all((Shape){67, 1, 33, 16, 0}, 2, 4, 0);
  try_all((Shape){530, 1, 17, 16, 0}, 2, 4, 0);
  try_all((Shape){130, 2, 17, 32, 0}, 2, 4, 0);
  try_all((Shape){70, 33, 18, 16, 2}, 2, 4, 0);
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
