/* dot/tile.h: the register tile of dot.h: PK_DOT_ROWS rows by one panel, of the kind PK_DOT_KIND.
 * dot.h includes this once for each number of rows. Every kind takes 4 bytes of a row a step. The
 * text is expanded for each number of rows: inlining one function into all cases takes gcc four
 * times as long, and loops over rows are not reliably unrolled into registers. */
#if PK_DOT_ROWS <= PK_DOT_MR

PK_DOT_OUTLINE void PK_DOT_TILE(PK_DOT_ROWS)(const pk_dot_tile *t) {
  PK_DOT_VECTOR sum[PK_DOT_ROWS][PK_DOT_NV];
  enum { rows = PK_DOT_ROWS };
  const int64_t lda = t->lda, ldb = t->ldb,
                near = pk_dot_is_filling(t->fill != NULL) ? PK_DOT_FILL_NEAR : PK_DOT_NEAR * ldb;
  const bool across = (((uintptr_t)t->b | (uintptr_t)ldb) & 63) != 0;
  /* Row addresses are derived from four pointers and three strides, because a pointer for each
   * row does not fit the registers. */
  const char *const a = t->a, *row[4] = {a, rows > 4 ? a + 4 * lda : a, rows > 8 ? a + 8 * lda : a,
                                         rows > 12 ? a + 12 * lda : a};
  const int64_t stride[4] = {0, lda, 2 * lda, 3 * lda};
  const char *b = t->b;
  char *fill = t->fill;
  int64_t k = t->k;
  if (t->from) {
    const char *const from = t->from;
    const int64_t ldfrom = t->ldfrom;
    PK_DOT_ROWS_TO(PK_DOT_ROWS, PK_DOT_RESUME)
  } else {
    PK_DOT_ROWS_TO(PK_DOT_ROWS, PK_DOT_START)
  }
  if (t->narrow) {
    for (; k > 0; k--) {
      PK_DOT_NARROW_STEP
    }
  }
#if PK_DOT_BLOCK && PK_DOT_ROWS + 2 >= PK_DOT_MR
  for (; t->side && k >= PK_DOT_SLOT; k -= PK_DOT_SLOT) {
    PK_DOT_OF(slot)(rows, t->side);
    for (int s = 0; s < PK_DOT_SLOT; s++) {
      PK_DOT_PANEL_STEP
    }
  }
#endif
#if PK_VEC_BYTES < 64 /* so few multiply-adds a step that the tests of PK_DOT_STEP take longer */
  if (!fill && !across && ldb == PK_DOT_STEP_BYTES)
    for (; k > 0; k--) {
      PK_DOT_PANEL_STEP
    }
#endif
  for (; k > 0; k--) {
    PK_DOT_STEP
  }
  if (t->plus) {
    const char *const plus = t->plus;
    const int64_t ldplus = t->ldplus;
    PK_DOT_ROWS_TO(PK_DOT_ROWS, PK_DOT_PLUS)
  }
  char *const to = t->to;
  const int64_t ldto = t->ldto;
  PK_DOT_ROWS_TO(PK_DOT_ROWS, PK_DOT_REPLACE)
}

#endif
#undef PK_DOT_ROWS
