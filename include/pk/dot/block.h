/* dot/block.h: products of many rows by many columns, panel by panel: all rows by one panel, then
 * by the next. Included for every PK_DOT_KIND.
 *
 * A panel of 512 steps has 64 KB. 256 rows of the left operand have 528 KB if they are copied,
 * which keeps them from evicting each other. Both stay in L2, whereas an outer loop over row tiles
 * would read all panels (1 MB for 512 columns) again for each tile. Data from outside L2 is fetched
 * while the tiles multiply, because multiplying leaves load and store slots unused (pk_dot_side):
 * rows that the next tile reads are copied or prefetched, the next panel is filled or brought into
 * L2, and the sums that the next tile continues are prefetched.
 */

/* A block: some steps of the product, and the memory operations of its tiles. */
typedef struct {
  const pk_dot_product *product;
  const char *a; /* the left operand at these steps */
  PK_DOT_OF(begin) sums;
  const char *left; /* its rows, or their copies */
  int64_t ldleft, ldfrom, bytes;
  int32_t factor, start[PK_DOT_BLOCK];
  pk_dot_side side;
} PK_DOT_OF(block);

/* The values that the sums continue, or are added to, or NULL. */
PK_DOT_INLINE const char *PK_DOT_OF(begun)(const PK_DOT_OF(block) * b) {
  return b->sums.plus ? b->sums.plus : b->sums.from;
}

/* The copies of rows from r on, or NULL if they are read in place. */
PK_DOT_INLINE char *PK_DOT_OF(copies)(const PK_DOT_OF(block) * b, int64_t r) {
  return b->left == b->a ? NULL : (char *)b->product->scratch + r * b->ldleft;
}

/* The rows that the previous tile has copied, except for an incomplete slot of its steps. */
PK_DOT_INLINE void PK_DOT_OF(have_rows)(PK_DOT_OF(block) * b, int64_t r, int64_t rows,
                                        int64_t done) {
  const pk_dot_product *p = b->product;
  char *const copy = PK_DOT_OF(copies)(b, r);
  if (copy && done < b->bytes)
    pk_dot_copy_rows(copy + done, b->ldleft, b->a + r * p->lda + done, p->lda, rows,
                     b->bytes - done);
  PK_DOT_OF(starts)(b->start + r, rows, b->left + r * b->ldleft, b->ldleft, b->bytes, b->factor);
}

/* Before the tile of some rows by the columns from n on: sets its memory operations for the next
 * tile, of `then` rows from row r on, or for the first tile of the next panel. */
PK_DOT_INLINE void PK_DOT_OF(look_ahead)(PK_DOT_OF(block) * b, int64_t n, int64_t r, int64_t then) {
  const pk_dot_product *p = b->product;
  const char *from = PK_DOT_OF(begun)(b), *sums = from ? from : (const char *)p->to;
  pk_dot_side *s = &b->side;
  s->rows = n ? 0 : then;
  s->a = b->a + r * p->lda, s->copy = PK_DOT_OF(copies)(b, r);
  s->sums_rows = then ? then : n + 2 * PK_DOT_NR <= p->cols ? pk_dot_take(p->rows) : 0;
  s->sums = then ? sums + r * s->ldsums + 4 * n : sums + 4 * (n + PK_DOT_NR);
}

/* All rows by the columns of a panel, from n on. */
PK_DOT_INLINE void PK_DOT_OF(by_panel)(PK_DOT_OF(block) * b, int64_t n, char *panel) {
  const pk_dot_product *p = b->product;
  const char *const from = PK_DOT_OF(begun)(b);
  pk_dot_product columns = *p;
  columns.cols = p->cols - n < PK_DOT_NR ? p->cols - n : PK_DOT_NR;
  for (int64_t r = 0, m; r < p->rows; r += m) {
    m = pk_dot_take(p->rows - r);
    const int64_t then = p->rows - r > m ? pk_dot_take(p->rows - r - m) : 0;
    pk_dot_tile t = {.a = b->left + r * b->ldleft,
                     .lda = b->ldleft,
                     .k = b->bytes / 4,
                     .ldfrom = b->ldfrom,
                     .ldplus = b->ldfrom,
                     .start = b->start + r,
                     .side = &b->side};
    pk_dot_ahead written = {.rows = 0};
    PK_DOT_OF(look_ahead)(b, n, r + m, then);
    PK_DOT_OF(row_of_tiles)
    (&columns, m, &t, b->bytes % 4, panel, 0, NULL,
     b->sums.from ? b->sums.from + r * b->ldfrom + 4 * n : NULL,
     b->sums.plus ? b->sums.plus + r * b->ldfrom + 4 * n : NULL,
     (char *)p->to + r * p->ldto + 4 * n, from && from != p->to ? &written : NULL);
    if (b->side.rows) PK_DOT_OF(have_rows)(b, r + m, then, b->side.a - b->a - (r + m) * p->lda);
  }
}

/* `bytes` of each row of a, from byte `at` on. */
PK_DOT_OUTLINE void PK_DOT_OF(panel_by_panel)(const pk_dot_product *p, int64_t panel_bytes,
                                              int64_t at, int64_t bytes, int32_t factor) {
  const int64_t k = bytes / 4, ldfrom = at ? p->ldto : p->ldfrom;
  const char *source = p->source ? (const char *)p->source + at / 4 * p->ldsource : NULL;
  char *panel = (char *)p->panels + at / 4 * PK_DOT_STEP_BYTES;
  PK_DOT_OF(block)
  b = {.product = p,
       .a = (const char *)p->a + at,
       .sums = PK_DOT_OF(begins)(at ? p->to : p->from, k),
       .left = (const char *)p->a + at,
       .ldleft = p->lda,
       .ldfrom = ldfrom,
       .bytes = bytes,
       .factor = factor};
  pk_dot_side *s = &b.side;
  if (pk_dot_is_copied(p->lda, bytes, p->cols))
    b.left = p->scratch, b.ldleft = pk_dot_scratch_row(bytes);
  s->lda = p->lda, s->ldcopy = b.ldleft, s->ldsource = p->ldsource;
  s->ldsums = PK_DOT_OF(begun)(&b) ? ldfrom : p->ldto;
  PK_DOT_OF(have_rows)(&b, 0, pk_dot_take(p->rows), 0);
  if (source) PK_DOT_OF(fill_some)(panel, source, p->ldsource, k, p->cols);
  for (int64_t n = 0; n < p->cols; n += PK_DOT_NR, panel += panel_bytes) {
    const int64_t left = p->cols - n - PK_DOT_NR;
    if (source) source += PK_DOT_STEP_BYTES;
    s->panel = panel + panel_bytes, s->source = source, s->steps = left >= PK_DOT_NR ? k : 0;
    PK_DOT_OF(by_panel)(&b, n, panel);
    if (source && left >= PK_DOT_NR)
      PK_DOT_OF(fill_some)(s->panel, s->source, p->ldsource, s->steps, PK_DOT_NR);
    else if (source && left > 0)
      PK_DOT_OF(fill_some)(s->panel, source, p->ldsource, k, left);
  }
}
