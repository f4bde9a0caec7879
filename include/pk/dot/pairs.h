/* dot/pairs.h: the register tile of dot/tile.h for instructions that multiply two rows by two
 * columns, 8 bytes of k each: smmla, ummla, bfmmla. Included for every PK_DOT_KIND that has one,
 * with PK_DOT_PAIRS(sum, a, b) the operation.
 *
 * The rows and panels are those of the other tiles: two steps of a panel, interleaved by words,
 * form pairs of columns. 8 rows by 8 columns are 16 sums, a vector for each pair of rows and pair
 * of columns; 8 bytes of k take 4 loads of the panel, 8 of half a vector of rows, and 16
 * operations, which is half of what a product by fours takes.
 */
#ifndef PK_DOT_PAIRS_H
#define PK_DOT_PAIRS_H
#define PK_DOT_LOWER(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define PK_DOT_UPPER(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define PK_DOT_LOWER_WORDS(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define PK_DOT_UPPER_WORDS(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
typedef int64_t pk_dot_two __attribute__((vector_size(16)));

/* The first `bytes` of two rows, then zeros; only one row if there is no other. */
PK_DOT_INLINE pk_dot_two pk_dot_two_rows(const char *a, int64_t lda, bool other, int bytes) {
  int64_t first = 0, second = 0;
  memcpy(&first, a, (size_t)bytes);
  if (other) memcpy(&second, a + lda, (size_t)bytes);
  return (pk_dot_two){first, second};
}
#endif

/* 8 bytes of k, or the last 4 padded with zeros. */
PK_DOT_INLINE void PK_DOT_OF(pairs_step)(const int pairs, const bool odd, const int bytes,
                                         PK_DOT_VECTOR (*sum)[PK_DOT_NR / 2], const char *a,
                                         int64_t lda, const char *b, int64_t ldb) {
  PK_DOT_VECTOR columns[PK_DOT_NR / 2];
  PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NV; v++) {
    const PK_DOT_VECTOR first = PK_DOT_OF(load)(b + 4 * PK_LANES * v);
    PK_DOT_VECTOR second = {0};
    if (bytes > 4) second = PK_DOT_OF(load)(b + ldb + 4 * PK_LANES * v);
    columns[2 * v] = PK_DOT_LOWER_WORDS(first, second);
    columns[2 * v + 1] = PK_DOT_UPPER_WORDS(first, second);
  }
  PK_DOT_UNROLL for (int p = 0; p < pairs; p++) {
    const pk_dot_two rows = pk_dot_two_rows(a + 2 * p * lda, lda, !odd || p < pairs - 1, bytes);
    PK_DOT_UNROLL for (int c = 0; c < PK_DOT_NR / 2; c++) sum[p][c] =
        PK_DOT_PAIRS(sum[p][c], rows, columns[c]);
  }
}

PK_DOT_INLINE void PK_DOT_OF(pairs_row)(const pk_dot_tile *t, int row, PK_DOT_VECTOR *sum) {
  if (t->from) {
    PK_DOT_OF(resume)(sum, t->from + row * t->ldfrom, t->start, row);
    return;
  }
  PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NV; v++) sum[v] = PK_DOT_OF(start)(t->start, row);
}

/* The last of an odd number of rows is alone. */
PK_DOT_INLINE void PK_DOT_OF(pairs_tile)(const int pairs, const bool odd, const pk_dot_tile *t) {
  PK_DOT_VECTOR sum[(PK_DOT_MR + 1) / 2][PK_DOT_NR / 2];
  const char *a = t->a, *b = t->b;
  int64_t k = t->k;
  PK_DOT_UNROLL for (int p = 0; p < pairs; p++) {
    PK_DOT_VECTOR one[PK_DOT_NV], two[PK_DOT_NV] = {{0}};
    PK_DOT_OF(pairs_row)(t, 2 * p, one);
    if (!odd || p < pairs - 1) PK_DOT_OF(pairs_row)(t, 2 * p + 1, two);
    PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NV; v++) {
      sum[p][2 * v] = PK_DOT_LOWER(one[v], two[v]);
      sum[p][2 * v + 1] = PK_DOT_UPPER(one[v], two[v]);
    }
  }
  for (; k > 1; k -= 2, a += 8, b += 2 * t->ldb)
    PK_DOT_OF(pairs_step)(pairs, odd, 8, sum, a, t->lda, b, t->ldb);
  if (k) PK_DOT_OF(pairs_step)(pairs, odd, 4, sum, a, t->lda, b, t->ldb);
  PK_DOT_UNROLL for (int p = 0; p < pairs; p++) {
    PK_DOT_VECTOR one[PK_DOT_NV], two[PK_DOT_NV];
    char *const to = t->to + 2 * p * t->ldto;
    PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NV; v++) {
      one[v] = PK_DOT_LOWER(sum[p][2 * v], sum[p][2 * v + 1]);
      two[v] = PK_DOT_UPPER(sum[p][2 * v], sum[p][2 * v + 1]);
    }
    if (t->plus) {
      const char *const plus = t->plus + 2 * p * t->ldplus;
      PK_DOT_OF(plus)(one, plus);
      if (!odd || p < pairs - 1) PK_DOT_OF(plus)(two, plus + t->ldplus);
    }
    PK_DOT_OF(replace)(one, to);
    if (!odd || p < pairs - 1) PK_DOT_OF(replace)(two, to + t->ldto);
  }
}

#define PK_DOT_PAIRS_OF(rows)                                   \
  PK_DOT_OUTLINE void PK_DOT_TILE(rows)(const pk_dot_tile *t) { \
    PK_DOT_OF(pairs_tile)((rows + 1) / 2, rows % 2, t);         \
  }
PK_DOT_ROWS_TO(PK_DOT_MR, PK_DOT_PAIRS_OF)
#undef PK_DOT_PAIRS_OF
